"""gtape write: the test that it prints runs under pytest, and it says why it cannot write one."""

from __future__ import annotations

import builtins
import contextlib
import keyword
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import warm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gtape
from gtape.verify.command import cli, write

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


@contextlib.contextmanager
def _module(name: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory with a module, which is forgotten at the end."""
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop(name, None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with _module("mymodule_to_test", MODULE, tmp_path, monkeypatch) as made:
        yield made


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


def written_words() -> list[str]:
    """All words of a written test that can be names, some builtins, and names that pytest knows."""
    module = types.ModuleType("words_of_tests")
    sys.modules[module.__name__] = module
    source = "import gtape\ndef logs(x: float, n: int): return gtape.math.log1p(gtape.math.log(x)) * n"
    try:
        exec(source, vars(module))
        text = write.test_of("words_of_tests:logs", order=1, folder="elsewhere")
    finally:
        del sys.modules[module.__name__]
    found = {word for word in re.findall(r"[^\W\d]\w*", text) if not keyword.iskeyword(word)}
    assert {"Interval", "f", "given", "gtape", "report", "settings", "st", "strategies"} <= found
    of_pytest = {"test_it", "testing", "setup_module", "teardown_function", "pytest_generate_tests", "pytestmark"}
    more = {"self", "cls", "args", "kwargs", "request", "test", "run", "sys", "importlib", "_", "x"}
    return sorted(found | of_pytest | more | {f"the_{word}" for word in found} | {"print", "sum", "dict", "__dir__"})


WORDS = written_words()


def kinds_of_parameters(n: int) -> st.SearchStrategy[Sequence[str]]:
    return st.lists(st.sampled_from(["float", "int", "bool"]), min_size=n, max_size=n)


@given(
    function=st.sampled_from(WORDS),
    names=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True),
    data=st.data(),
)
# A written test has @given, too, and old versions of Hypothesis have no name for the check of that.
@settings(suppress_health_check=list(HealthCheck))
def test_names_of_the_user_never_meet_those_of_the_test(function: str, names: list[str], data: st.DataObject) -> None:
    kinds = ["float", *data.draw(kinds_of_parameters(len(names) - 1))]
    split = data.draw(st.integers(0, len(names)), label="parameters that are given by place")
    texts = [f"{name}: {kind}" for name, kind in zip(names, kinds, strict=True)]
    parameters = ", ".join([*texts[:split], *(["*"] if split < len(names) else []), *texts[split:]])
    module = types.ModuleType("user_names")
    source = f"def {function}({parameters}):\n    calls.append(1)\n    return {' * '.join(names)} * {names[0]}\n"
    exec(source, vars(module))
    calls = vars(module)["calls"] = list[int]()
    sys.modules["user_names"] = module
    try:
        text = write.test_of(f"user_names:{function}", order=1)
        test = vars(types.ModuleType("written"))
        exec(text, test)
    finally:
        del sys.modules["user_names"]
    found = [name for name in test if name.startswith(("test", "pytest", "setup_", "teardown_"))]
    assert found == [f"test_derivatives_of_{function}"]
    calls.clear()
    values = {"float": gtape.constant(0.5, "float64"), "int": 2, "bool": True}
    test[found[0]].hypothesis.inner_test(**{name: values[kind] for name, kind in zip(names, kinds, strict=True)})
    assert calls


def test_a_builtin_keeps_its_name_in_a_written_test() -> None:
    assert {"print", "sum"} <= set(dir(builtins))
    module = sys.modules["user_names"] = types.ModuleType("user_names")
    try:
        exec("def sum(x: float): return x * x", vars(module))
        assert "\nfrom user_names import sum\n" in write.test_of("user_names:sum", order=1)
    finally:
        del sys.modules["user_names"]


@pytest.mark.slow
def test_written_tests_run_whatever_the_names_of_functions_and_files(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("test_it", "settings", "setup_module", "pytest_generate_tests", "f")
    functions = "\n".join(f"def {name}(f: float): return f * f" for name in names)
    odd = folder / "a 'quoted' \"folder\""
    odd.mkdir()
    (odd / "names.py").write_text(functions)
    (odd / "with-hyphen.py").write_text(functions + "\nclass Model:\n    call = staticmethod(f)\n")
    wanted = [*[f"names.py:{name}" for name in names], "with-hyphen.py:f", "with-hyphen.py:Model.call"]
    for k, name in enumerate(wanted):
        path = folder / f"test_{k}.py"
        assert cli.main(["write", f"{odd}/{name}", "--order", "1", "-o", str(path)]) == 0
        path.write_text(path.read_text().replace("max_examples=50", "max_examples=2"))
    done = run(folder)
    assert done.returncode == 0 and f"{len(wanted)} passed" in done.stdout, done.stdout
    capsys.readouterr()
    for name in ("names", "with-hyphen"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("folder")
def test_parameters_between_those_that_vary_keep_their_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    module = sys.modules["user_names"] = types.ModuleType("user_names")
    try:
        exec("def shifted(x=1.0, n=3, y=2.0): return x**n * y", vars(module))
        exec("def placed(n=3, x=1.0, /, y=2.0): return y**n * x", vars(module))
        assert "return shifted(x, y=y)" in write.test_of("user_names:shifted", order=1)
        assert "return placed(y=y)" in write.test_of("user_names:placed", order=1)
    finally:
        del sys.modules["user_names"]


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


UNDEFINED = """
import gtape as tf


def reciprocal(x):
    print("the function was called")
    return 1.0 / x


def quotient(x, y):
    return x / y


def inverse(x):
    return tf.linalg.inv(x)


def factor(x):
    return tf.linalg.cholesky(tf.matmul(x, x, transpose_b=True))


def length(x):
    return tf.sqrt(tf.reduce_sum(x * x))


def between(x: float, y: float):
    return 1.0 / (x - y)


class Model:
    def call(self, x):
        return x * x

    @classmethod
    def of_class(cls, x):
        return x * x


model = Model()
"""

LEFT_OUT = {
    "reciprocal": "    x=strategies.tensors(shape=(3,), interval=Interval(holes=(0.0,)),",
    "quotient": "    y=strategies.tensors(shape=(3,), interval=Interval(holes=(0.0,)),",
    "inverse": "    except gtape.errors.InvalidArgumentError:",
    "factor": '    assume(report.verdict != "domain")',
    "length": '    assume(report.verdict != "domain")',
    "between": '    assume(report.verdict != "domain")',
}


@pytest.fixture
def undefined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with _module("undefined_functions", UNDEFINED, tmp_path, monkeypatch) as made:
        yield made


@pytest.mark.slow
def test_written_tests_leave_out_the_points_where_the_function_is_undefined(
    undefined: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, line in LEFT_OUT.items():
        order = ["--order", "1", "-o", f"test_{name}.py"]
        assert cli.main(["write", f"undefined_functions:{name}", *order]) == 0
        assert line in (undefined / f"test_{name}.py").read_text()
    done = run(undefined)
    assert done.returncode == 0 and "6 passed" in done.stdout, done.stdout
    capsys.readouterr()


def test_what_the_function_prints_is_no_part_of_the_test(undefined: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["write", "undefined_functions:reciprocal", "--order", "1"]) == 0
    printed = capsys.readouterr()
    compile(printed.out, "test", "exec")
    assert "the function was called" not in printed.out and "the function was called" in printed.err


def test_a_method_needs_an_object(undefined: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["write", "undefined_functions:Model.call"]) == 2
    assert "is a method, which needs an object of its class; write a function around it" in capsys.readouterr().err
    for name in ("Model.of_class", "model.call"):
        assert cli.main(["write", f"undefined_functions:{name}", "--order", "1"]) == 0
    capsys.readouterr()
