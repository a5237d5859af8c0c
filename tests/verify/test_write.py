"""gtape write: the test that it prints runs under pytest, and it says why it cannot write one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import warm

from gtape.verify.command import cli

ROOT = Path(__file__).resolve().parents[2]

MODULE = """
import numpy as np
import gtape as tf


def loss(w: np.ndarray, x):
    return tf.reduce_sum(tf.tanh(tf.linalg.matvec(w, x)))


def entropy(p):
    return -tf.reduce_sum(p * tf.math.log(p))


def power(x: float, n: int = 3):
    return x**n


def repeated(x, n: int, *, flip: bool):
    return (-x if flip else x) * n


@tf.custom_gradient
def wrong(x):
    return x * x, lambda g: g * x


def number(x):
    return 3.0


def text(name: str):
    return name.upper()


def anything(*args):
    return args[0]


class Model:
    @staticmethod
    def call(x):
        return np.sin(x)


value = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mymodule_to_test.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path  # type: ignore[misc]
    sys.modules.pop("mymodule_to_test", None)


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    return warm.run(words, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)})


@pytest.mark.slow
def test_written_tests_run_as_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for k, name in enumerate(("loss", "entropy", "power", "repeated", "Model.call")):
        order = "2" if name == "power" else "1"  # because each takes 50 examples
        assert cli.main(["write", f"mymodule_to_test:{name}", "--order", order, "-o", f"test_{k}.py"]) == 0
    assert "interval=Interval(0.0, open_lo=True)" in (folder / "test_1.py").read_text()
    assert "n=st.integers(1, 3)" in (folder / "test_3.py").read_text()
    assert "flip=flip" in (folder / "test_3.py").read_text()
    done = run(folder)
    assert done.returncode == 0 and "5 passed" in done.stdout, done.stdout
    capsys.readouterr()


@pytest.mark.slow
def test_a_written_test_finds_a_wrong_gradient(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "tests").mkdir()
    assert cli.main(["write", "mymodule_to_test.py:wrong", "--order", "1", "-o", "tests/test_wrong.py"]) == 0
    path = folder / "tests" / "test_wrong.py"
    text = path.read_text()
    assert "the verdict is 'rule'" in text and f"sys.path.insert(0, {str(folder)!r})" in text
    path.write_text(text.replace("shrinking(seconds=10.0)", "shrinking(seconds=1.0)"))
    done = run(folder)
    assert done.returncode == 1 and "the gradient that wrong returns" in done.stdout, done.stdout
    capsys.readouterr()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mymodule_to_test:number", "must return tensors"),
        ("mymodule_to_test:text", "no arguments that were tried"),
        ("mymodule_to_test:anything", "any number of arguments"),
        ("mymodule_to_test:nothing", "it has loss"),
        ("mymodule_to_test:value", "is not a function"),
        ("mymodule_to_test", "write module:function"),
        ("no_such_module:f", "ModuleNotFoundError"),
        ("no_such_file.py:f", "no such file"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_it_says_why_it_cannot(name: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["write", name]) == 2
    assert says in capsys.readouterr().err
