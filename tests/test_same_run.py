"""The test run is the same every time, and `--search` is a search that prints what it finds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TEST = """
import numpy as np
import random
import gtape as tf
from hypothesis import given, strategies as st

RNG = np.random.default_rng(5)

def test_drawn():
    seen = []

    @given(st.floats(), st.text(), st.integers())
    def draw(x, word, n):
        seen.append((repr(x), word, n))

    draw()
    print("DRAWN", ascii(seen))

def test_other_chances():
    print("DRAWN", RNG.random(), np.random.default_rng().random(), random.random(), float(tf.random.normal([])))
"""
FAILS = """
from hypothesis import given, strategies as st

@given(n=st.integers(0, 10**6))
def test_small(n):
    assert n < 1000
"""


def _run(folder: Path, text: str, *options: str, seed: str = "0", imports: str = "") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "conftest.py", folder / "conftest.py")
    (folder / "test_it.py").write_text(imports + text)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "HYPOTHESIS", "CI"))}
    env |= {"PYTHONHASHSEED": seed, "PYTHONPATH": str(HERE.parent)}
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "--rootdir", str(folder), *options]
    run = subprocess.run([*command, "test_it.py"], capture_output=True, text=True, env=env, cwd=folder, check=False)
    return run.stdout + run.stderr


def _drawn(out: str) -> list[str]:
    return re.findall(r"DRAWN (.*)", out)


def test_a_run_draws_the_same_with_other_hashes_and_other_modules_loaded(tmp_path: Path) -> None:
    # Hypothesis draws constants from local modules, unless it is kept from that.
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "constants.py").write_text("WORDS = " + repr([f"word {i}" for i in range(99)]))
    one = _drawn(_run(tmp_path / "tests", TEST, seed="1"))
    two = _drawn(
        _run(tmp_path / "tests", TEST, seed="2", imports="import sys; sys.path.insert(0, '.'); import constants\n")
    )
    assert len(one) == 2 and one == two


def test_a_test_draws_the_same_alone(tmp_path: Path) -> None:
    whole = _drawn(_run(tmp_path / "tests", TEST))
    alone = _drawn(_run(tmp_path / "tests", TEST, "-k", "chances"))
    assert alone == whole[1:]


def test_a_search_draws_something_else_each_time(tmp_path: Path) -> None:
    drawn = [_drawn(_run(tmp_path / "tests", TEST, "--search", "20")) for _ in range(2)]
    assert all(a != b for a, b in zip(*drawn, strict=True) if "RNG" not in a)


def test_a_search_prints_a_fixed_example_to_keep(tmp_path: Path) -> None:
    out = _run(tmp_path / "tests", FAILS, "--search", "200")
    assert "@example(n=1000)" in out and "reproduce_failure" in out


def test_a_search_needs_a_number_of_examples(tmp_path: Path) -> None:
    assert "--search needs a positive number" in _run(tmp_path / "tests", FAILS, "--search", "0")


SHARED = """
import pytest

@pytest.mark.parametrize("n", range(9))
def test_many(n):
    pass

@pytest.mark.slow
def test_one():
    pass
"""
MARKER = ["-o", "markers=slow"]


def _collected(folder: Path, *options: str) -> list[str]:
    return re.findall(r"::(\S+)", _run(folder, SHARED, "--collect-only", *MARKER, *options))


def test_a_share_keeps_each_test_and_the_same_cases_of_it(tmp_path: Path) -> None:
    every = _collected(tmp_path / "tests")
    assert every == ["test_one", *(f"test_many[{n}]" for n in range(9))], "slow tests come first"
    share = _collected(tmp_path / "tests", "--share", "4")
    assert share[0] == "test_one" and len(share) == 1 + 3 and set(share) < set(every)
    # Wherever it is started, and in whatever process.
    assert _collected(tmp_path / "elsewhere" / "tests", "--share", "4") == share
    assert _collected(tmp_path / "tests", "--share", "4", "--whole", "test_it.py") == every


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--share", "0"], "--share needs a positive number"),
        (["--share", "4", "--whole", "nowhere"], "--whole nowhere: there is no such file"),
        (["--whole", "test_it.py"], "give --share, too"),
    ],
    ids=["no share", "no file", "no need"],
)
def test_a_share_that_means_nothing_is_refused(tmp_path: Path, options: list[str], said: str) -> None:
    assert said in _run(tmp_path / "tests", SHARED, *MARKER, *options)


@pytest.mark.parametrize("path", sorted(HERE.rglob("test_*.py")), ids=lambda p: p.stem)
def test_no_test_fixes_its_own_way_of_searching(path: Path) -> None:
    """`--search` reaches every property: the number of examples is a share of the profile's, nothing is fixed."""
    if path.name in ("test_strategies.py", Path(__file__).name):  # which test what is drawn, by fixed draws
        return
    assert not re.search(r"derandomize=|max_examples=\d+[,)]|@seed\(", path.read_text())
