"""The test run is the same every time, and `--search` is a search that prints what it finds."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import warm

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


# Runs pytest once for each list of options, because its start, with gtape and Hypothesis, takes a second.
RUNS = """
import json, sys
import pytest

for options in json.loads(sys.argv[1]):
    print("\\nRUN", flush=True)
    pytest.main(options)
"""


def _runs(
    folder: Path, text: str, *runs: list[str], seed: str | None = None, imports: str = "", tests: str = "test_it.py"
) -> list[str]:
    """What pytest prints with each of these options, in a process of its own; `seed` is that of Python's hashes."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "conftest.py", folder / "conftest.py")
    (folder / "test_it.py").write_text(imports + text)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "HYPOTHESIS", "CI", "GTAPE_LARGE"))}
    env |= {"PYTHONPATH": str(HERE.parent)}
    always = ["-q", "-s", "-p", "no:cacheprovider", "--import-mode=importlib", "--rootdir", str(folder)]
    options = json.dumps([[*always, *run, tests] for run in runs])
    if seed is None:
        run = warm.run(["-c", RUNS, options], cwd=folder, env=env, together=True)
    else:
        run = subprocess.run(
            [sys.executable, "-c", RUNS, options], env=env | {"PYTHONHASHSEED": seed}, cwd=folder, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
    said = run.stdout.split("\nRUN\n")[1:]
    assert len(said) == len(runs), run.stdout
    return said


def _run(folder: Path, text: str, *options: str, seed: str | None = None, imports: str = "") -> str:
    return _runs(folder, text, list(options), seed=seed, imports=imports)[0]


def _drawn(out: str) -> list[str]:
    return re.findall(r"DRAWN (.*)", out)


@pytest.mark.slow
def test_a_run_draws_the_same_with_other_hashes_and_other_modules_loaded_and_each_test_alone(tmp_path: Path) -> None:
    # Hypothesis draws constants from local modules, unless it is kept from that.
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "constants.py").write_text("WORDS = " + repr([f"word {i}" for i in range(99)]))
    one = _drawn(_run(tmp_path / "tests", TEST, seed="1"))
    two = _drawn(
        _run(tmp_path / "tests", TEST, seed="2", imports="import sys; sys.path.insert(0, '.'); import constants\n")
    )
    assert len(one) == 2 and one == two
    assert _drawn(_run(tmp_path / "tests", TEST, "-k", "chances")) == one[1:]


@pytest.mark.slow
def test_a_search_draws_something_else_each_time(tmp_path: Path) -> None:
    drawn = [_drawn(_run(tmp_path / "tests", TEST, "--search", "20")) for _ in range(2)]
    assert all(a != b for a, b in zip(*drawn, strict=True) if "RNG" not in a)


def test_a_search_prints_a_fixed_example_to_keep(tmp_path: Path) -> None:
    out = _run(tmp_path / "tests", FAILS, "--search", "200")
    assert "@example(n=1000)" in out and "reproduce_failure" in out


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


def _collected(folder: Path, *runs: list[str], text: str = SHARED, tests: str = "test_it.py") -> list[list[str]]:
    said = _runs(folder, text, *[["--collect-only", *MARKER, *run] for run in runs], tests=tests)
    return [re.findall(r"::(\S+)", out) for out in said]


def test_a_share_keeps_each_test_and_the_same_cases_of_it(tmp_path: Path) -> None:
    every, share, whole = _collected(
        tmp_path / "tests", [], ["--share", "4"], ["--share", "4", "--whole", "test_it.py"]
    )
    assert every == ["test_one", *(f"test_many[{n}]" for n in range(9))], "slow tests come first"
    assert share[0] == "test_one" and len(share) == 1 + 3 and set(share) < set(every)
    assert whole == every
    # Wherever it is started, and in whatever process.
    assert _collected(tmp_path / "elsewhere" / "tests", ["--share", "4"]) == [share]


THREE_TESTS = """
import pytest

@pytest.mark.parametrize("n", range(4))
def test_many(n):
    pass

def test_one():
    pass

def test_other():
    pass
"""


def test_one_of_a_few_tests_of_each_file_runs_with_all_of_its_cases(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    everything, some, again, whole = _collected(
        folder, [], ["--every", "2"], ["--every", "2"], ["--every", "2", "--whole", "test_it.py"], text=THREE_TESTS
    )
    functions = {name.partition("[")[0] for name in some}
    assert len(functions) == 2, "two of three tests, because a file with a single test keeps it"
    assert some == again == [name for name in everything if name.partition("[")[0] in functions]
    assert whole == everything
    assert len(_collected(folder, ["--every", "9"], text="def test_one():\n    pass\n")[0]) == 1


@pytest.mark.slow
def test_a_run_of_all_tests_takes_a_share_of_those_with_many_cases(tmp_path: Path) -> None:
    folder, text = tmp_path / "tests", SHARED.replace("range(9)", "range(100)")
    asked = [[], ["--share", "1"], ["-k", "many"], ["--search", "5"], ["--share", "10"]]
    usual, every, chosen, searched, beginning = _collected(folder, *asked, text=text, tests=".")
    assert len(every) == len(searched) == 101 and len(chosen) == 100
    assert len(usual) == 1 + 3 and set(usual) < set(every)
    assert set(usual) & set(beginning) == {"test_one"}, "a share that is asked for takes other cases"
    assert _collected(folder, [], text=text) == [every], "who names a file gets all of it"
    (few,) = _collected(folder, [], text=SHARED.replace("range(9)", "range(2)"), tests=".")
    assert len(few) == 1 + 2


REFUSED = {
    "no share": (["--share", "0"], "--share needs a positive number"),
    "none of the tests": (["--every", "0"], "--every needs a positive number"),
    "no file": (["--share", "4", "--whole", "nowhere"], "--whole nowhere: there is no such file"),
    "no need": (["--whole", "test_it.py"], "give one of them, too"),
    "no search": (["--search", "0"], "--search needs a positive number"),
}


def test_a_share_and_a_search_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    runs = _runs(tmp_path / "tests", SHARED, *[[*MARKER, *options] for options, _ in REFUSED.values()])
    for out, (_, said) in zip(runs, REFUSED.values(), strict=True):
        assert said in out and "passed" not in out


@pytest.mark.parametrize("path", sorted(HERE.rglob("test_*.py")), ids=lambda p: p.stem)
def test_no_test_fixes_its_own_way_of_searching(path: Path) -> None:
    """`--search` reaches every property: the number of examples is a share of the profile's, nothing is fixed."""
    if path.name in ("test_strategies.py", Path(__file__).name):  # which test what is drawn, by fixed draws
        return
    assert not re.search(r"derandomize=|max_examples=\d+[,)]|@seed\(", path.read_text())
