"""The plugin for pytest, in runs of pytest of their own: one process may import gtape only once."""

from __future__ import annotations

import json
import re
import shlex
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
import warm

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]

HELP = """
import gtape as tf
import pytest

def grad(f, x):
    x = tf.constant(x, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x)

def unstable(x):
    return tf.math.log(1.0 - tf.sigmoid(x))

@tf.custom_gradient
def turned(x):
    return x * 1.0, lambda g: -g
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs pytest on a file of tests with the plugin, as an installation does."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("GTAPE_VERIFY", raising=False)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    always = ["-m", "pytest", "-p", "pytest_gtape", "-p", "no:cacheprovider", f"--basetemp={pytester.path}/temporary"]

    def started(text: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(helpers=HELP, test_it="from helpers import *\n" + text)
        began = time.monotonic()
        done = warm.run([*always, *options], cwd=pytester.path)
        seconds = time.monotonic() - began
        return pytest.RunResult(done.returncode, done.stdout.splitlines(), done.stderr.splitlines(), seconds)

    return started


OPTIONS = (
    "--gtape-fail-on=", "--gtape-fail-on= rule , unstable", "--gtape-fail-on=,",
    "--gtape-order=1", "--gtape-budget=1e3",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("verify", ["--gtape-verify", "--gtape-verify=strict"])
@pytest.mark.parametrize("options", [[o] for o in OPTIONS] + [[OPTIONS[0], *OPTIONS[3:]]])
def test_the_command_to_reproduce_has_the_options_of_the_run(run: Any, verify: str, options: list[str]) -> None:
    text = """
@pytest.mark.parametrize("name", ["a b", "it's", "--x=1"])
def test_wrong(name):
    grad(turned, 1.0)
"""
    found = run(text, verify, *options)
    commands = [shlex.split(line.partition(": ")[2]) for line in found.outlines if "reproduce: " in line]
    ids = ["test_it.py::test_wrong[a b]", "test_it.py::test_wrong[it's]", "test_it.py::test_wrong[--x=1]"]
    assert [words[3] for words in commands] == ids
    again = run(text, *commands[0][3:])
    first, second = [[x for x in r.outlines if x.startswith("gtape: every")] for r in (found, again)]
    assert first == second != [] and again.ret == found.ret


@pytest.mark.slow
def test_the_command_to_reproduce_names_a_file_that_looks_like_an_option(run: Any, pytester: pytest.Pytester) -> None:
    (pytester.path / "-wrong.py").write_text("from helpers import *\ndef test_wrong():\n    grad(turned, 1.0)\n")
    found = run("", "--gtape-verify", "./-wrong.py")
    (command,) = {line.partition(": ")[2] for line in found.outlines if "reproduce: " in line}
    assert shlex.split(command)[3] == "./-wrong.py::test_wrong"
    run("", *shlex.split(command)[3:]).assert_outcomes(failed=1)


def report(pytester: pytest.Pytester) -> Any:
    return json.loads((pytester.path / "report.json").read_text())


def test_an_unused_plugin_imports_nothing(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile(helpers="")
    pytester.makepyfile(test_bare="import sys\ndef test(): assert not {'gtape', 'numpy', 'sympy'} & set(sys.modules)")
    found = pytester.runpytest_subprocess("-p", "pytest_gtape", "test_bare.py", "--markers")
    found.stdout.fnmatch_lines(["@pytest.mark.gtape(off=False, declared=None, order=None): *"])
    found = pytester.runpytest_subprocess("-p", "pytest_gtape", "test_bare.py")
    found.assert_outcomes(passed=1)
    found.stdout.no_fnmatch_line("*gtape =*")


SUITE = """
import warnings
warnings.simplefilter("error")

def test_right():
    for _ in range(3):
        grad(tf.tanh, 0.5)

def test_wrong():
    grad(unstable, 40.0)

@pytest.mark.gtape(off=True)
def test_off():
    grad(unstable, 40.0)

@pytest.mark.gtape(declared="turned round on purpose")
def test_declared():
    grad(turned, 1.0)

@pytest.mark.gtape(declared="no longer needed")
def test_declared_in_vain():
    grad(tf.sin, 1.0)

@pytest.fixture
def slope():
    return grad(turned, 1.0)

def test_in_a_fixture(slope):
    pass

def test_conditioning():
    grad(lambda x: tf.sin(x * 1e8), 1.2345)

def test_slow():
    def many(x):
        for _ in range(10_000):
            x = x * 1.0
        return x
    grad(many, 0.5)

def test_in_a_thread():
    import threading
    t = threading.Thread(target=lambda: grad(tf.sin, 0.5))
    t.start()
    t.join()
"""


@pytest.mark.parametrize("processes", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_a_whole_suite(pytester: pytest.Pytester, run: Any, processes: Any) -> None:
    options = ("--gtape-verify", "--gtape-report=report.json", "--junitxml=junit.xml", "-W", "error", *processes)
    found = run(SUITE, *options)
    found.assert_outcomes(passed=7, failed=1, errors=1)
    out = found.stdout.str()
    found.stdout.fnmatch_lines([
        "*= gtape =*",
        "10 gradients checked in 8 tests, 10 numbers, *",
        "gradients by verdict: rule 2, unstable 1, conditioning 1",
        "worst ULP: inf in test_it.py::test_wrong",
        "written: report.json",
    ])  # fmt: skip
    found.stdout.fnmatch_lines_random([
        "slowest checks:",
        "  *.* s  test_it.py::*, *helpers.py:9 in grad",
        "test_it.py::test_declared: 1 finding declared (turned round on purpose)",
        "test_it.py::test_declared_in_vain: declared, but nothing was found (no longer needed)",
        "    reproduce: python -m pytest test_it.py::test_wrong --gtape-verify",
        "    reproduce: python -m pytest test_it.py::test_in_a_fixture --gtape-verify",
        "python -m pytest test_it.py::test_wrong --gtape-verify",
    ])  # fmt: skip
    assert "verify/judging" not in out and "gtape/tapes" not in out, "frames of gtape are hidden"

    data = report(pytester)
    assert (data["ok"], data["gradients"], data["numbers"], data["max_ulp"]) == (False, 10, 10, "inf")
    assert data["verdicts"] == {"correct": 6, "unstable": 1, "rule": 2, "conditioning": 1}
    assert data["exitstatus"] == 1 and data["versions"]["numpy"]
    tests = {t["nodeid"].partition("::")[2]: t for t in data["tests"]}
    assert "test_off" not in tests and tests["test_right"]["gradients"] == 3
    (wrong,) = tests["test_wrong"]["findings"]
    assert (wrong["verdict"], wrong["op"], wrong["fails"]) == ("unstable", "log", True)
    assert "gtape.GradientTape(verify=True)" in wrong["witness"]
    (declared,) = tests["test_declared"]["findings"]
    assert (declared["verdict"], declared["fails"], declared["declared"]) == ("rule", False, True)

    cases = ElementTree.parse(pytester.path / "junit.xml").iter("testcase")
    said = {
        c.get("name"): [p.get("value") for p in c.iter("property") if p.get("name") == "gtape_finding"] for c in cases
    }
    assert said["test_right"] == [] and said["test_off"] == []
    assert said["test_wrong"][0].startswith("unstable (order 1), op log") and "log_sigmoid" in said["test_wrong"][0]
    assert said["test_in_a_fixture"][0].startswith("rule")


RECORDED = """
X = tf.Variable(40.0, dtype=tf.float64)
with tf.GradientTape(persistent=True) as TAPE:
    Y = unstable(X)
    Z = tf.tanh(X)
TAPE.gradient(Z, X)

def test_wrong():
    TAPE.gradient(Y, X)

def test_right():
    TAPE.gradient(Z, X)

@pytest.mark.gtape(off=True)
def test_off():
    TAPE.gradient(Y, X)

@pytest.mark.gtape(declared="to show the loss")
def test_declared():
    TAPE.gradient(Y, X)
"""


def test_tapes_that_a_file_records_are_checked_in_its_tests(pytester: pytest.Pytester, run: Any) -> None:
    found = run(RECORDED, "--gtape-verify", "--gtape-report=report.json")
    found.assert_outcomes(passed=3, failed=1)
    found.stdout.fnmatch_lines(["4 gradients checked in 3 tests and in the collection of 1 file, *"])
    found.stdout.fnmatch_lines(["FAILED test_it.py::test_wrong *"])
    tests = {t["nodeid"]: t["gradients"] for t in report(pytester)["tests"]}
    assert tests["test_it.py"] == 1 and "test_it.py::test_off" not in tests
    run(RECORDED).assert_outcomes(passed=4)


@pytest.mark.parametrize("processes", [(), ("-n", "1")], ids=["one process", "xdist"])
def test_a_wrong_gradient_in_the_parameters_of_a_test_is_an_error_of_the_collection(run: Any, processes: Any) -> None:
    text = """
@pytest.mark.parametrize("slope", [grad(unstable, 40.0)])
def test_slope(slope):
    assert slope == float("-inf")
"""
    found = run(text, "--gtape-verify", *processes)
    found.assert_outcomes(errors=1)
    found.stdout.fnmatch_lines([
        "python -m pytest test_it.py --gtape-verify",
        "1 gradient checked in 0 tests and in the collection of 1 file, *",
        "    reproduce: python -m pytest test_it.py --gtape-verify",
    ])  # fmt: skip
    run(text, "--gtape-verify", "--gtape-fail-on=rule").assert_outcomes(passed=1)
    run(text).assert_outcomes(passed=1)


def test_a_wrong_gradient_in_a_conftest_ends_the_run(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makeconftest("from helpers import *\ngrad(unstable, 40.0)")
    found = run("def test_nothing():\n    pass", "--gtape-verify")
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    assert "VerificationError" in found.stderr.str()
    run("def test_nothing():\n    pass").assert_outcomes(passed=1)


def test_no_check_stays_on_after_a_run_inside_of_a_process(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile(inner="from helpers import *\ngrad(turned, 2.0)\ndef test_inner():\n    grad(turned, 2.0)")
    found = run("""
def test_outer():
    assert pytest.main(["-p", "pytest_gtape", "--gtape-verify", "inner.py"]) == pytest.ExitCode.INTERRUPTED
    assert not tf.verify.verdicts.collect._listeners and not gtape_blocks()
    assert grad(turned, 2.0) == -1.0

def gtape_blocks():
    from gtape.base.verification import BLOCKS
    return BLOCKS
""")
    found.assert_outcomes(passed=1)


def test_a_marker_alone_checks_its_test(pytester: pytest.Pytester, run: Any) -> None:
    found = run(
        """
@pytest.mark.gtape
def test_marked():
    grad(unstable, 40.0)

def test_bare():
    grad(unstable, 40.0)

@pytest.mark.gtape(order=1)
def test_order():
    x = tf.Variable(40.0, dtype=tf.float64)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = tf.tanh(x)
        g = inner.gradient(y, x)
    outer.gradient(g, x)
""",
        "-n", "1",
    )  # fmt: skip
    found.assert_outcomes(passed=2, failed=1)
    found.stdout.fnmatch_lines(
        ["2 gradients checked in 2 tests, *", "*reproduce: python -m pytest test_it.py::test_marked"]
    )


def test_the_closest_marker_decides_alone(pytester: pytest.Pytester, run: Any) -> None:
    found = run(
        """
class Checked:
    pytestmark = pytest.mark.gtape

def second():
    x = tf.Variable(40.0, dtype=tf.float64)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = tf.tanh(x)
        g = inner.gradient(y, x)
    outer.gradient(g, x)

@pytest.mark.gtape(off=True)
class TestOff:
    def test_off(self):
        grad(unstable, 40.0)

    @pytest.mark.gtape
    def test_bare_fails(self):
        grad(unstable, 40.0)

    @pytest.mark.gtape(order=2)
    def test_order_fails(self):
        grad(unstable, 40.0)

    @pytest.mark.gtape(declared="loses all digits")
    def test_declared(self):
        grad(unstable, 40.0)

    @pytest.mark.parametrize("x", [pytest.param(40.0, marks=pytest.mark.gtape), 41.0])
    def test_a_parameter_fails(self, x):
        grad(unstable, x)

@pytest.mark.gtape(declared="loses all digits", order=1)
class TestDeclared:
    def test_declared(self):
        grad(unstable, 40.0)
        second()

    @pytest.mark.gtape
    def test_bare_fails(self):
        grad(unstable, 40.0)

    @pytest.mark.gtape(order=2)
    @pytest.mark.gtape(declared="both on one function")
    def test_both(self):
        grad(unstable, 40.0)
        second()

    class TestInside:
        def test_declared(self):
            grad(unstable, 40.0)

    @pytest.mark.gtape(off=True)
    class TestOff:
        def test_off(self):
            grad(unstable, 40.0)

        @pytest.mark.gtape(off=False)
        @pytest.mark.parametrize("x", [pytest.param(40.0, marks=pytest.mark.gtape(off=True)), 41.0])
        def test_a_parameter_fails(self, x):
            grad(unstable, x)

class TestDerived(Checked):
    def test_base_fails(self):
        grad(unstable, 40.0)

@pytest.mark.gtape(off=True)
class TestDerivedOff(Checked):
    def test_off(self):
        grad(unstable, 40.0)

class TestDerivedTwice(TestDerivedOff):
    pytestmark = [pytest.mark.gtape(order=1)]

    def test_off(self):
        second()

    def test_derived_fails(self):
        grad(unstable, 40.0)
""",
        "--gtape-report=report.json",
    )
    tests = {t["nodeid"].partition("::")[2]: t for t in report(pytester)["tests"]}
    assert not [name for name in tests if name.endswith("::test_off") and "Twice" not in name]
    assert tests["TestDeclared::test_declared"]["gradients"] == 2 and tests["TestDeclared::test_both"]["gradients"] == 3
    failed = {line.split()[1].partition("::")[2] for line in found.outlines if line.startswith("FAILED")}
    assert failed == {
        "TestOff::test_bare_fails", "TestOff::test_order_fails", "TestOff::test_a_parameter_fails[40.0]",
        "TestDeclared::test_bare_fails", "TestDeclared::TestOff::test_a_parameter_fails[41.0]",
        "TestDerived::test_base_fails", "TestDerivedTwice::test_derived_fails",
    }  # fmt: skip


def test_options(run: Any) -> None:
    text = """
def test_second():
    x = tf.Variable(0.5, dtype=tf.float64)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = tf.tanh(x)
        g = inner.gradient(y, x)
    outer.gradient(g, x)

def test_wrong():
    grad(unstable, 40.0)
"""
    found = run(text, "--gtape-verify", "--gtape-order=1", "--gtape-fail-on=rule,domain")
    found.assert_outcomes(passed=2, warnings=1)
    found.stdout.fnmatch_lines(["gtape: every gradient is checked by Options(fail_on={'rule', 'domain'}, order=1)"])
    found.stdout.fnmatch_lines(["2 gradients checked in 2 tests, *"])
    found.stdout.fnmatch_lines([
        "findings:", "  test_it.py::test_wrong",
        "    reproduce: *test_wrong --gtape-verify --gtape-fail-on=rule,domain --gtape-order=1",
    ])  # fmt: skip
    found = run(text, "--gtape-verify=strict", "--gtape-budget=1e-7")
    found.assert_outcomes(failed=2)
    found.stdout.fnmatch_lines(["gradients by verdict: undecided 2"])
    found = run(text, "--gtape-verify", "test_it.py::test_second")  # a file behind the option is a file
    found.assert_outcomes(passed=1)
    found = run(text)
    found.assert_outcomes(passed=2)
    found.stdout.no_fnmatch_line("*gradients checked*")


def test_a_sample_is_that_of_the_test_and_not_of_the_run(
    pytester: pytest.Pytester, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GTAPE_VERIFY", "sample=0.3;seed=4")
    text = """
@pytest.mark.parametrize("k", range(4))
def test_many(k):
    for _ in range(20):
        grad(tf.sin, 0.5)
"""
    counts = []
    for chosen in ((), ("-k", "2 or 3")):
        run(text, "--gtape-verify", "--gtape-report=report.json", *chosen).assert_outcomes(
            passed=2 if chosen else 4, deselected=2 if chosen else 0
        )
        counts.append({t["nodeid"]: t["gradients"] for t in report(pytester)["tests"]})
    assert counts[1].items() <= counts[0].items()
    assert 0 < sum(counts[0].values()) < 80


def test_the_report_says_how_the_run_was_checked_and_what_the_sample_left_out(
    pytester: pytest.Pytester, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GTAPE_VERIFY", "sample=0.3;seed=4;order=1")
    text = """
def test_many():
    for _ in range(40):
        grad(tf.sin, 0.5)
"""
    found = run(text, "--gtape-verify", "--gtape-report=report.json", "--gtape-fail-on=rule")
    data = report(pytester)
    assert data["gradients"] + data["left_out"] == 40 and 0 < data["gradients"] < 40
    found.stdout.fnmatch_lines([f"a sample of {data['gradients']} of 40 gradients checked in 1 test, *"])
    wanted = {"GTAPE_VERIFY": "sample=0.3;seed=4;order=1", "sample": 0.3, "seed": 4, "order": 1, "fail_on": ["rule"]}
    assert {name: data["settings"][name] for name in wanted} == wanted
    assert data["began"].startswith("20")


SWALLOWED = """
import threading
import unittest

def wrong():
    return grad(turned, 1.0)

def in_a_thread():
    thread = threading.Thread(target=caught)
    thread.start()
    thread.join()

def caught():
    try:
        wrong()
    except Exception:
        pass

def test_thread_fails():
    in_a_thread()

def test_caught_fails():
    caught()

def test_one_of_two_fails():
    with pytest.raises(tf.VerificationError):
        wrong()
    caught()

def test_skipped_fails():
    caught()
    pytest.skip("after a wrong gradient")

@pytest.fixture
def late():
    yield
    caught()

def test_late_fixture_fails(late):
    pass

def test_expected():
    with pytest.raises(tf.VerificationError, match="turned"):
        wrong()
    pytest.raises(AssertionError, wrong)

def test_expected_in_a_group():
    try:
        wrong()
    except tf.VerificationError as e:
        error = e
    with pytest.raises(ExceptionGroup):
        raise ExceptionGroup("several", [error])

class TestOfUnittest(unittest.TestCase):
    def test_expected(self):
        with self.assertRaises(tf.VerificationError):
            wrong()
        self.assertRaises(AssertionError, wrong)

    def test_caught_fails(self):
        caught()

@pytest.mark.gtape(declared="turned round on purpose")
def test_declared():
    in_a_thread()

@pytest.mark.gtape(off=True)
def test_off():
    with pytest.raises(tf.VerificationError):
        tf.GradientTape(verify=True)
        raise tf.VerificationError("of its own")

def test_passed_by_its_own_options():
    with tf.verifying(tf.verify.Options(fail_on="unstable")), pytest.warns(UserWarning):
        wrong()

@pytest.mark.xfail(raises=tf.VerificationError, strict=True)
def test_expected_failure():
    caught()
"""


def test_no_wrong_gradient_passes_in_a_thread_or_in_an_except_clause(pytester: pytest.Pytester, run: Any) -> None:
    found = run(SWALLOWED, "--gtape-verify", "-W", "error", "--gtape-report=report.json")
    bad = {line.split()[1].partition("::")[2] for line in found.outlines if line.startswith(("FAILED", "ERROR"))}
    assert bad == {
        "test_thread_fails", "test_caught_fails", "test_one_of_two_fails", "test_skipped_fails",
        "test_late_fixture_fails", "TestOfUnittest::test_caught_fails",
    }  # fmt: skip
    assert "was raised in a thread, or which the test caught" in found.stdout.str()
    tests = {t["nodeid"].partition("::")[2]: t for t in report(pytester)["tests"]}
    assert not any(f["fails"] for f in tests["test_passed_by_its_own_options"]["findings"])
    (finding,) = tests["test_caught_fails"]["findings"]
    assert finding["reproduce"] == "python -m pytest test_it.py::test_caught_fails --gtape-verify"
    run(SWALLOWED, "-k", "caught or thread").assert_outcomes(passed=3, deselected=10)


def test_the_fixture(pytester: pytest.Pytester, run: Any) -> None:
    text = """
def test_right(gtape_check):
    assert gtape_check(tf.tanh, 0.5, order=2).checked == 2
    assert gtape_check(tf.tanh, 0.5).checked == 1
    assert gtape_check.judge(tf.square, [3.0], 6.0).ok

@pytest.mark.gtape(order=3)
def test_order(gtape_check):
    assert gtape_check(tf.tanh, 0.5).checked == 3

def test_wrong(gtape_check):
    gtape_check(unstable, 40.0)

@pytest.mark.gtape(declared="another convention")
def test_declared(gtape_check):
    assert not gtape_check.judge(tf.square, [3.0], 5.0).ok

def test_late(request):
    assert request.getfixturevalue("gtape_check")(tf.tanh, 0.5).ok
"""
    found = run(text, "--gtape-report=report.json", "-W", "error")
    found.assert_outcomes(passed=4, failed=1)
    out = found.stdout.str()
    assert "fixture.py" not in out and "gtape_check(unstable, 40.0)" in out
    tests = {t["nodeid"].partition("::")[2]: t for t in report(pytester)["tests"]}
    assert {name: t["gradients"] for name, t in tests.items()} == {
        "test_right": 3, "test_order": 1, "test_wrong": 1, "test_declared": 1, "test_late": 1,
    }  # fmt: skip
    assert tests["test_right"]["slowest"][0]["line"].endswith("in test_right")


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("", ("--gtape-verify=perhaps",), "*argument --gtape-verify: ignored explicit argument 'perhaps'*"),
        ("", ("--gtape-verify", "--gtape-fail-on=wrong"), "*`fail_on` names verdicts among*"),
        ("", ("--gtape-order=0",), "*`order` is a whole number, at least 1, not 0*"),
        ("", ("--gtape-budget=-1",), "*`budget` is seconds, more than 0*"),
        ("", ("--gtape-report=no/such/folder.json",), "*--gtape-report=no/such/folder.json cannot be written*"),
        ("@pytest.mark.gtape(of=True)\ndef test(): pass", (), "*test_it.py::test: the marker gtape takes off=*not of"),
        ("@pytest.mark.gtape(off=True, declared='x')\ndef test(): pass", (), "*takes off=True or declared=, not both"),
        ("@pytest.mark.gtape(declared='')\ndef test(): pass", (), "*takes the reason as text*"),
        ("@pytest.mark.gtape(order=0)\ndef test(): pass", (), "*`order` is a whole number*"),
    ],
)
def test_wrong_usage_ends_the_run_and_says_why(run: Any, text: str, options: Any, says: str) -> None:
    found = run(text, *options)
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    found.stderr.fnmatch_lines([says])


def test_a_report_is_written_whole_or_not_at_all(pytester: pytest.Pytester, run: Any) -> None:
    (pytester.path / "report.json").write_text("old")
    text = """
def test_full():
    grad(tf.sin, 0.5)
    import errno, os

    def full(handle):
        raise OSError(errno.ENOSPC, "the disk is full")

    os.fsync = full
"""
    found = run(text, "--gtape-verify", "--gtape-report=report.json")
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    found.stdout.fnmatch_lines(["*report.json cannot be written: the disk is full"])
    assert (pytester.path / "report.json").read_text() == "old"
    assert not list(pytester.path.glob("*.part"))


@pytest.mark.parametrize("end", ["xml", "html"])
def test_the_end_of_the_name_says_the_format_of_the_report(end: str, pytester: pytest.Pytester, run: Any) -> None:
    from gtape.verify.reports.formats import read_text

    text = """
def test_a_function(gtape_check):
    gtape_check(tf.sin, 0.5)
"""
    run(text, f"--gtape-report=made.{end}", "--gtape-order=9").assert_outcomes(passed=1)
    made = read_text((pytester.path / f"made.{end}").read_text())
    assert made.ok and made.command[:3] == ["python", "-m", "pytest"] and made.machine
    assert made.counts["gradients"] == 1 and made.counts["numbers compared"] >= 4


def test_the_page_tells_what_pytest_prints(pytester: pytest.Pytester, run: Any) -> None:
    page = (ROOT / "docs" / "how-to-pytest.md").read_text(encoding="utf-8")
    files = re.findall(r"^<!-- file: (\S+) -->\n```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in files] == ["test_slopes.py", "test_functions.py"]
    for name, text in files:
        (pytester.path / name).write_text(text, encoding="utf-8")
    ((command, told),) = re.findall(
        r"^```bash\n(python .*?)\n```\n\n```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL
    )
    words = shlex.split(command)
    assert words[:3] == ["python", "-m", "pytest"]
    found = run("", *words[3:])
    found.assert_outcomes(passed=2, failed=1)
    assert _without_times(told) in _without_times(found.stdout.str().replace(str(pytester.path), "/home/me"))
    run("", "test_slopes.py", "test_functions.py").assert_outcomes(passed=5)


def _without_times(text: str) -> str:
    """The text without seconds, and without the slowest checks, which differ between machines."""
    text = re.sub(r"^slowest checks:\n(  .*\n)*", "", text, flags=re.MULTILINE)
    return re.sub(r"\d+\.\d+ s$", "0.0 s", text, flags=re.MULTILINE)


@pytest.mark.parametrize("options", [("--gtape-verify",), ("--gtape-order=1",)])
def test_a_wrong_environment_variable_is_one_line(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: Any
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("GTAPE_VERIFY", "bogus=1")
    pytester.makepyfile("def test(): pass")
    found = pytester.runpytest_subprocess("-p", "pytest_gtape", *options)
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    (told,) = [line for line in [*found.outlines, *found.errlines] if line.strip()]
    assert told.startswith("ERROR: the environment variable GTAPE_VERIFY: 'bogus=1' is no option")
