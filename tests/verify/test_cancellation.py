"""Who lost the digits: the problem (`conditioning`), the program's arithmetic (`cancellation`) or a formula."""

from __future__ import annotations

import contextlib
import functools
import math
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import gtape as tf
from gtape import declare
from gtape.base.quiet import quietly
from gtape.verify import Options, check, exact, judge
from gtape.verify.bounds import inputs
from gtape.verify.bounds.inputs import reach
from gtape.verify.bounds.noise import noisy_gradient
from gtape.verify.judging.recording import Recording
from gtape.verify.programs.mutants import planted, scaled
from gtape.verify.verdicts.collect import collecting
from gtape.verify.verdicts.verdict import Finding, Report

F4 = np.float32

CANCELLING: dict[str, tuple[Any, Any, int, bool]] = {  # function, point, order, whether half of the digits are right
    "1 - cos": (lambda x: (1 - tf.cos(x)) / x**2, 1e-4, 1, False),
    "1 - cos, all lost": (lambda x: (1 - tf.cos(x)) / x**2, 1e-9, 1, False),
    "1 - cos, a few": (lambda x: (1 - tf.cos(x)) / x**2, 0.1, 1, True),
    "1 - cos, order 2": (lambda x: (1 - tf.cos(x)) / x**2, 1e-2, 2, False),
    "1 - cos, float32": (lambda x: (1 - tf.cos(x)) / x**2, F4(1e-2), 1, False),
    "x - sin": (lambda x: (x - tf.sin(x)) / x**3, 1e-3, 1, False),
    "exp - 1": (lambda x: (tf.exp(x) - 1) / x, 1e-9, 1, False),
    "roots": (lambda x: tf.sqrt(x * x + 1) - tf.sqrt(x * x - 1), 1e4, 1, True),
    "a far root": (lambda x: tf.sqrt(x * x + 1) - x, 1e6, 1, False),
    "a large shift": (lambda x: ((x + 1e16) - 1e16) ** 2, 1.0, 1, False),
    "in an array": (lambda x: tf.reduce_sum((1 - tf.cos(x)) / x**2), np.array([2.0, 1e-4, 3.0]), 1, False),
    "a constant array": (lambda x: (np.ones(2) - tf.cos(x)) / x**2, np.array([1e-4, 2.0]), 1, False),
    "integers": (lambda x: (tf.constant([1, 1, 1], tf.float64) - tf.cos(x)) / x**2, np.full(3, 1e-4), 1, False),
    "an integer beside a half": (lambda x: (np.array([1.0, 0.5]) - tf.cos(x)) / x**2, np.array([1e-4, 2.0]), 1, False),
}


@pytest.mark.parametrize("name", CANCELLING)
def test_digits_that_the_program_loses_are_cancellation(name: str) -> None:
    f, at, order, ok = CANCELLING[name]
    report = check(f, at, order=order)
    lost = [v for v in report.findings if v.verdict == "cancellation"]
    assert report.verdict == "cancellation" and report.ok == ok, report
    assert all("digits are right" in v.reason for v in lost)


def power(n: int, dtype: Any = np.float64) -> Any:
    """The power of a signal, by the cosines and sines of its discrete Fourier transform, some of which are 1 or -1."""
    angles = 2 * np.pi * np.outer(np.arange(n), np.arange(n)) / n
    cosines, sines = np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)
    return lambda x: sum(tf.reduce_sum(tf.square(tf.linalg.matvec(tf.constant(m), x))) for m in (cosines, sines))


CONDITIONED: dict[str, tuple[Any, Any, int]] = {
    "a fast sine": (lambda x: tf.sin(1e12 * x) * 2.0, 0.3, 1),
    "a fast sine, order 2": (lambda x: tf.sin(1e12 * x) * 2.0, 0.3, 2),
    "a fast sine, float32": (lambda x: tf.sin(F4(1e4) * x) * 2.0, F4(0.3), 1),
    "a difference of inputs": (lambda x, y: (x - y) ** 3 * tf.exp(x), (1.0, 1.0 + 1e-12), 1),
    "a nearly singular matrix": (lambda a: tf.linalg.inv(a), np.array([[1.0, 2.0], [3.0, 6.0000001]]), 1),
    "chaos": (lambda x: chaos(x), 0.3, 1),
    "an identity": (lambda x: tf.reduce_sum(tf.nn.log_softmax(tf.stack([x, x, x]))), 0.7, 1),
    "a Fourier transform": (power(4), np.array([0.0, 1.0, 0.0, 0.0]), 1),
    "a Fourier transform, order 2": (power(4), np.array([0.3, 0.1, -0.7, 0.9]), 2),
    "a Fourier transform, float32": (power(8, F4), np.eye(8, dtype=F4)[2], 1),
}


def chaos(x: Any) -> Any:
    for _ in range(50):
        x = 3.9 * x * (1 - x)
    return x


@pytest.mark.parametrize("beside", [0.1, 0.5, 8191.0, 123456789.0, 2.0**54, 1e16, -0.0, 1e-30])
@pytest.mark.parametrize("at", [np.float64(1e-7), F4(1e-4)])
def test_numbers_beside_a_1_in_an_array_excuse_no_cancellation_of_the_1(beside: float, at: Any) -> None:
    numbers = np.array([1.0, beside], at.dtype)
    report = check(lambda x: ((tf.constant(numbers) - tf.cos(x)) / x**2)[0], at)
    assert report.verdict == "cancellation" and not report.ok


@pytest.mark.parametrize("large", [2.0**54, 1e16, 123456789e9])
def test_large_whole_numbers_in_an_array_are_exact_as_scalars_are(large: float) -> None:
    together = check(lambda x: tf.reduce_sum(tf.constant([large, 1.0, -large], tf.float64) * tf.sin(x)), 0.5)
    alone = check(lambda x: large * tf.sin(x) + tf.sin(x) - large * tf.sin(x), 0.5)
    assert together.verdict == alone.verdict == "cancellation" and together.ok == alone.ok


@pytest.mark.parametrize("beside", [[], [1.0], [0.5, 3.0], [1e16]])
def test_numbers_with_many_digits_in_an_array_are_rounded_data(beside: list[float]) -> None:
    numbers = np.array([0.1, 0.2, -0.3, *beside])
    report = check(lambda x: tf.reduce_sum((tf.constant(numbers) * x)[:3]), 0.7)
    assert report.verdict == "conditioning" and report.ok


@pytest.mark.parametrize("name", CONDITIONED)
def test_digits_that_every_program_loses_are_conditioning(name: str) -> None:
    f, at, order = CONDITIONED[name]
    report = check(f, *(at if isinstance(at, tuple) else (at,)), order=order)
    assert report.ok and report.verdict in ("correct", "conditioning"), report


def series(first: Any, factor: Any, terms: int) -> Any:
    """A power series, each of whose terms is the one before times a factor."""

    def f(x: Any) -> Any:
        term = total = first(x)
        for k in range(1, terms):
            term = factor(term, x, k)
            total = total + term
        return total

    return f


ALTERNATING: dict[str, tuple[Any, float]] = {
    "exp": (series(lambda x: 1.0, lambda t, x, k: t * x / k, 90), -20.0),
    "exp, further": (series(lambda x: 1.0, lambda t, x, k: t * x / k, 140), -37.25),
    "j0": (series(lambda x: 1.0, lambda t, x, k: -t * x * x / (4 * k * k), 80), 35.186187418072436),
    "sin": (series(lambda x: x, lambda t, x, k: -t * x * x / ((2 * k) * (2 * k + 1)), 80), 35.481877066450004),
}


@pytest.mark.parametrize("name", ALTERNATING)
def test_roundings_of_the_moved_runs_excuse_no_digits_of_an_alternating_series(name: str) -> None:
    f, x = ALTERNATING[name]
    report = check(f, x)
    assert (report.ok, report.verdict) == (False, "cancellation")
    right = float(exact(f, x)[()].nearest(np.float64))
    assert not judge(f, x, 0.0).ok
    assert not judge(f, x, 2 * right).ok
    assert judge(f, x, right).ok


@given(st.lists(st.floats(-55.0, -40.0), min_size=1, max_size=3))
@settings(max_examples=settings.default.max_examples // 10)
@pytest.mark.parametrize("in_an_array", [False, True])
def test_roundings_of_the_moved_runs_are_seldom_moves(in_an_array: bool, points: list[float]) -> None:
    at = np.resize(points, 100) + np.arange(100) / 64.0 if in_an_array else points[0]
    f = series(lambda x: 1.0, lambda t, x, k: t * x / k, 140)
    program = Recording(lambda x: tf.reduce_sum(f(x)) if in_an_array else f(x), (at,), 1).program()
    with quietly():
        for count in inputs.MOVES:
            (move,) = inputs.moves_in_floats(program, lambda w: noisy_gradient(program, [np.ones(())], w), count)
            assert np.count_nonzero(move) <= np.size(at) // 10


def test_forward_mode_tells_cancellation_too() -> None:
    x = tf.constant(np.float64(1e-4))
    raising = pytest.raises(tf.VerificationError, match="cancellation")
    along = tf.autodiff.ForwardAccumulator
    with collecting() as report, tf.verifying(), raising, along(x, tf.ones((), tf.float64)) as acc:
        acc.jvp((1 - tf.cos(x)) / x**2)
    assert report.verdict == "cancellation"
    with collecting() as report, tf.verifying("strict"), along(x, tf.ones((), tf.float64)) as acc:
        acc.jvp(tf.sin(1e12 * x) * 2.0)
    assert report.ok and report.verdict == "conditioning"


def test_a_zero_start_with_data_is_no_cancellation() -> None:
    rng = np.random.default_rng(0)
    rows, wanted = rng.normal(size=(100, 40)).astype(F4), rng.integers(0, 2, 100).astype(F4)
    report = check(
        lambda w: tf.reduce_mean(tf.square(tf.sigmoid(tf.linalg.matvec(rows, w)) - wanted)), np.zeros(40, F4)
    )
    assert report.ok and report.verdict in ("correct", "conditioning"), report


def test_strict_accepts_four_wrong_bits() -> None:
    few = Report([Finding("cancellation", lost=3.9)])
    more = Report([Finding("cancellation", lost=4.1)])
    few.raise_if_failed(strict=True)
    more.raise_if_failed()
    with pytest.raises(tf.VerificationError):
        more.raise_if_failed(strict=True)
    f, at, _, _ = CANCELLING["1 - cos, a few"]
    with tf.GradientTape(verify="strict") as tape:
        x = tf.Variable(np.float64(at))
        y = f(x)
    with pytest.raises(tf.VerificationError, match=r"of\s+15\s+digits\s+are\s+right"):
        tape.gradient(y, x)


def test_the_gravity_of_cancellation_depends_on_the_digits() -> None:
    lost, kept = Finding("cancellation", ok=False), Finding("cancellation")
    undecided, conditioning, domain = Finding("undecided"), Finding("conditioning"), Finding("domain")
    assert domain.gravity < lost.gravity < undecided.gravity < kept.gravity < conditioning.gravity
    assert Report([undecided, lost]).verdict == "cancellation" and not Report([lost]).ok and Report([kept]).ok


def test_a_report_has_the_verdict_of_a_finding_that_fails_it() -> None:
    report = check(lambda x, y: tf.sqrt(x * x) + tf.sin(1e10 * y), 1e200, 1.2345)
    assert [(f.verdict, f.ok) for f in report.findings] == [("range", False), ("conditioning", True)]
    assert (report.verdict, report.ok) == ("range", False)


@pytest.mark.parametrize("verdict", ["range", "conditioning", "cancellation"])
def test_findings_that_fail_are_graver_than_all_that_pass(verdict: str) -> None:
    failing = Finding(verdict, ok=False)
    for harmless in ("range", "conditioning", "cancellation", "convention", "correct"):
        assert failing.gravity < Finding(harmless, ok=True).gravity


def test_the_problem_is_not_asked_while_all_numbers_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("asked")

    monkeypatch.setattr(inputs, "_half_units", never)
    assert check(lambda x: tf.exp(x) * tf.sin(x), np.array([0.3, 0.7])).verdict == "correct"


# -------------------------------------------------------------------------------------------------------- claims

REFUSED: dict[str, tuple[Any, Any, Any]] = {
    "not finite": (lambda x: (1 - tf.cos(x)) / x**2, 1e-9, np.inf),
    "NaN": (lambda x: tf.sin(1e12 * x) * 2.0, 0.3, np.nan),
    "a tail of softmax": (lambda x: tf.nn.softmax(x)[0], np.array([37.4, 0.0]), np.zeros(2)),
    "a tail of tanh": (tf.tanh, 20.0, 0.0),
    "twenty ULP": (tf.tanh, 0.3, 0.9151369618266292 + 20 * 2.0**-53),
    "beside a pole": (tf.asin, 0.9999999999999998, 47453133.00000025),
    "beyond all slopes": (lambda x: tf.sin(1e20 * x) * 2.0, 0.3, 1e24),
    "somewhat beyond all slopes": (lambda x: tf.sin(1e20 * x) * 2.0, 0.3, 1.5e21),
    "no branch at all": (lambda x: ((x + 1e16) - 1e16) ** 2, 1.0, 1e300),
    "a branch that only cancellation takes": (lambda x: tf.nn.relu((x + 1e16) - 1e16 - 0.5), 1.0, 0.0),
    "neither branch": (lambda x: tf.nn.relu((x + 1e16) - 1e16 - 0.5), 1.0, 7.0),
    "one wrong beside a kink": (lambda x: tf.reduce_sum(tf.abs(x)), np.array([0.0, 1.0]), np.array([0.5, 99.0])),
    "one kink of many": (lambda x: tf.reduce_sum(tf.abs(x)), np.zeros(9), np.array([0.5] * 8 + [1.5])),
    "a cancelled zero": (lambda x: tf.reduce_sum(tf.nn.softmax(x)), np.array([1.0, 2.0]), np.array([1e-7, 0.0])),
    "a switched off unit": (lambda x: tf.nn.relu(x) * 2.0, -1.0, 1e-17),
    "no side of a kink": (lambda x: tf.nn.relu6(x), 6.0, 1.5),
    "no side beside a kink": (lambda x: tf.nn.relu((x - 0.3) + 1e-17) * 2.0, 0.3, 3.0),
    "no phase of many": (lambda x: tf.reduce_sum(tf.nn.relu(tf.sin(x * np.arange(1.0, 9.0)) - 1e-16)), 0.0, 20.5),
}


@pytest.mark.parametrize("name", REFUSED)
def test_no_wrong_claim_passes(name: str) -> None:
    f, at, claimed = REFUSED[name]
    report = judge(f, [at], claimed)
    assert not report.ok and report.verdict not in ("conditioning", "undecided"), report


def cone(x: Any) -> Any:
    """A norm of numbers that half a unit in the inputs moves around the tip, where no slope exceeds 3."""
    return tf.norm(x * 3.0 - 0.3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("claimed", [[9.0, 9.0], [-9.0, 9.0], [100.0, -100.0], [1e6, 0.0], [0.0, 20.0]])
def test_no_moves_of_the_inputs_excuse_a_claim_beyond_all_slopes(claimed: list[float], dtype: Any) -> None:
    report = judge(cone, np.array([0.1, 0.1], dtype), np.array(claimed, dtype))
    assert not report.ok, report


@settings(max_examples=1 + settings.default.max_examples // 8)
@given(angle=st.floats(-math.pi, math.pi))
def test_moves_of_the_inputs_excuse_the_slopes_of_all_sides_of_a_tip(angle: float) -> None:
    claimed = 3 * np.array([math.cos(angle), math.sin(angle)])
    assert judge(cone, np.array([0.1, 0.1]), claimed).verdict == "conditioning"


def test_the_reach_of_crowded_numbers_ends_half_a_span_beyond_them() -> None:
    near = np.array([0.5, 1.0, 0.9, -1.0, 0.8, -0.95, 0.7, -0.6])
    assert reach(near, True) == 1.5
    assert reach(near, False) == 2.5


def test_the_reach_of_numbers_of_all_magnitudes_has_a_tail_on_the_sides_that_occur() -> None:
    near = 10.0 ** np.arange(8)
    assert reach(near, True) > 1e12
    assert reach(near, False) == (near.max() - near.min()) / 2
    assert reach(-near, False) > 1e12


FINITE: dict[str, tuple[Any, float]] = {  # functions and points where the program's own derivative is a finite number
    "few roundings": (lambda x: tf.sin(x) * x, 0.3),
    "a program that loses digits": (lambda x: (1 - tf.cos(x)) / x**2, 1e-4),
    "a problem that loses digits": (lambda x: tf.sin(1e16 * x), 0.3),
}


@pytest.mark.parametrize("claim", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("f", "at"), FINITE.values(), ids=FINITE)
def test_a_claim_that_is_not_finite_is_called_so_where_the_program_gives_a_finite_number(
    f: Any, at: float, claim: float
) -> None:
    (found,) = judge(f, at, claim).findings
    assert not found.ok and found.verdict == "unstable"
    assert found.reason.startswith("not finite, though the derivative is")


ACCEPTED: dict[str, tuple[Any, Any, Any]] = {
    "the other branch": (lambda x: tf.nn.relu(3.0 - x * 10.0), 0.3, 0.0),  # half a unit of x crosses the kink
    "this branch": (lambda x: tf.nn.relu((x + 1e16) - 1e16 - 0.5), 1.0, 1.0),
    "the other step": (lambda x: tf.floor(x * 10.0) * x, 0.3, 2.0),
    "the step that rounding took": (lambda x: tf.floor(x * 10.0) * x, 0.3, 3.0),
    "kinks": (lambda x: tf.reduce_sum(tf.abs(x)), np.zeros(50), np.linspace(-1, 1, 50)),
    "a tie": (tf.reduce_max, np.zeros(4), np.array([1.0, 0.0, 0.0, 0.0])),
    "a cancelled zero": (tf.nn.softmax, np.array([1.0, 2.0, 3.0]), np.array([1e-17, 0.0, 0.0])),
    "most of the digits": (lambda x: (1 - tf.cos(x)) / x**2, 0.1, 1e-13),  # relative to the exact number
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_no_right_claim_is_refused(name: str) -> None:
    f, at, claimed = ACCEPTED[name]
    if name == "most of the digits":
        claimed = float(str(exact(f, at)[()])) * (1 + claimed)
    report = judge(f, [at], claimed)
    assert report.ok, report


# -------------------------------------------------------------------------------------------------------- chaos


def logistic(steps: int) -> Any:
    def f(x: Any, r: Any) -> Any:
        for _ in range(steps):
            x = r * x * (1 - x)
        return tf.reduce_sum(x * x)

    return f


def forgetful(steps: int) -> Any:
    """An orbit that is chaotic before it falls into one of the phases of a cycle, and so forgets its start."""

    def f(x: Any, r: Any) -> Any:
        for _ in range(steps):
            x = tf.exp(-r * x * x) - 0.5
        return x

    return f


def henon(steps: int) -> Any:
    def f(s: Any, a: Any) -> Any:
        x, y = s[0], s[1]
        for _ in range(steps):
            x, y = 1 - a * x * x + y, 0.3 * x
        return x + y

    return f


CHAOTIC: dict[str, tuple[Any, Any, Any]] = {
    "rare magnitude": (henon(150), [0.1, 0.2], 1.4),
    "rare magnitude of a product": (henon(145), [0.17240693, -0.18379572], 1.3877101131589813),
    "many numbers": (logistic(233), [0.31, 0.72, 0.55], 3.9),
    "many others": (logistic(248), [0.11, 0.62, 0.87], 3.85),
    "single numbers": (logistic(94), 0.47, 3.93),
    "a forgotten start": (forgetful(251), 0.55, 7.3),
    "a phase of a cycle": (forgetful(251), 0.105111636, 7.2011695),
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CHAOTIC)
def test_the_problem_loses_the_digits_of_a_chaotic_map(name: str, dtype: Any) -> None:
    f, *at = CHAOTIC[name]
    report = check(f, *[np.asarray(x, dtype) for x in at])
    assert {v.verdict for v in report.findings} <= {"conditioning", "range"}, report


def test_a_wrong_rule_in_a_chaotic_map_is_found() -> None:
    with planted("multiply", 1, scaled(1.5)):
        report = check(henon(150), [0.1, 0.2], 1.4)
    assert {v.op for v in report.findings if v.verdict == "rule"} == {"multiply"}


# ------------------------------------------------------------------------------- a cause for each element, counted


@tf.custom_gradient
def textbook(x: Any) -> Any:
    y = tf.tanh(x)
    return y, lambda g: g * (1 - y * y)


def test_a_finding_names_the_cause_of_its_own_element() -> None:
    report = check(lambda a, b: textbook(a) + tf.exp(-b) * 1e300, 18.3, 740.0)
    assert {(v.verdict, v.op, v.element[0]) for v in report.findings if v.element} == {
        ("unstable", "textbook", 0),
        ("range", "exp", 1),
    }


def test_elements_of_one_cause_are_one_finding_with_a_count() -> None:
    report = check(lambda x: tf.reduce_sum((1 - tf.cos(x)) / x**2), np.array([1e-4, 0.5, 1e-5, 2.0, 1e-6]))
    bad = [v for v in report.findings if not v.ok]
    assert [(v.verdict, v.count) for v in bad] == [("cancellation", 3)]
    assert "and 2 more" in str(bad[0]) and bad[0].as_dict()["count"] == 3
    claimed = judge(lambda x: tf.reduce_sum(x * x), np.arange(1.0, 6.0), np.array([2.0, 5.0, 5.0, 5.0, 10.0]))
    assert [(v.verdict, v.count, v.element) for v in claimed.findings] == [("rule", 3, (0, (3,)))]


def test_a_finding_about_exact_zeros_describes_the_number_that_is_off_most() -> None:
    hilbert = 1 / (np.arange(7)[:, None] + np.arange(7) + 1)
    report = check(lambda a: tf.linalg.trace(tf.linalg.inv(a) @ a), hilbert)
    (found,) = report.findings
    assert found.count == 49 and found.ulps == report.max_ulp < 1  # in units of the terms that cancel
    claimed = judge(lambda x: tf.reduce_sum(tf.nn.relu(x) * 2.0), -np.arange(1.0, 5.0), np.array([0.1, 0.2, -7.0, 0.3]))
    assert [(v.count, v.element) for v in claimed.findings] == [(4, (0, (2,)))]


def test_a_merged_finding_about_exact_zeros_describes_the_largest_number() -> None:
    claimed = np.array([[2.0, 0.1, 0.0], [-5.0, 2.0, 0.0], [0.0, 0.2, 2.0]])
    (found,) = judge(lambda x: tf.reduce_sum(x * x), np.arange(1.0, 4.0), claimed, order=2).findings
    assert (found.count, found.got) == (3, -5.0)


def test_rows_of_one_cause_are_one_finding() -> None:
    report = judge(lambda x: tf.reduce_sum(x**3), np.array([1.0, 2.0]), np.array([[6.0, 1.0], [2.0, 12.0]]), order=2)
    assert [(v.verdict, v.count) for v in report.findings] == [("rule", 2)]


def test_failing_numbers_count() -> None:
    report = judge(tf.square, np.array([1.0, 2.0]), np.array([2.0, 8.0]))
    assert report.checked == 2 and report.max_ulp == 2.0**52
    report = judge(tf.square, np.array([1.0, 2.0]), np.array([np.nan, 4.0]))
    assert report.checked == 2 and report.max_ulp == np.inf

    @tf.custom_gradient
    def wrong(x: Any) -> Any:
        return tf.sin(x), lambda g: 2.0 * g * tf.cos(x)

    report = check(wrong, np.array([0.5, 0.7, 0.9]))
    assert report.verdict == "rule" and report.checked == 3 and report.max_ulp > 2.0**50


@pytest.mark.parametrize(("digits", "raises"), [(None, True), (9, False), (12, True)])
def test_digits_asked_for_decide_about_cancellations_in_a_strict_check(digits: int | None, raises: bool) -> None:
    f, at, _, _ = CANCELLING["1 - cos, a few"]
    with tf.GradientTape(verify=Options(strict=True, digits=digits)) as tape:
        x = tf.Variable(np.float64(at))
        y = f(x)
    with pytest.raises(tf.VerificationError) if raises else contextlib.nullcontext():
        tape.gradient(y, x)


def test_an_exact_zero_has_no_digits_to_ask_for() -> None:
    report = check(lambda x: tf.sin(x) * tf.sin(x) + tf.cos(x) * tf.cos(x), 0.7)
    report.ask_for_digits(17)
    assert report.ok and all(f.digits is None for f in report.findings), report


def test_a_merged_finding_counts_the_fewest_digits() -> None:
    report = check(lambda x: (1.0 - tf.cos(x)) / (x * x), tf.constant([1e-3, 1e-2, 3e-3], tf.float64))
    (found,) = report.findings
    alone = [check(lambda x: (1.0 - tf.cos(x)) / (x * x), x).findings[0].digits for x in (1e-3, 1e-2, 3e-3)]
    assert found.count == 3 and found.digits == min(alone), report
    assert f"{int(found.digits)} of 15 digits are right" in found.reason


def test_a_second_derivative_keeps_its_own_cancellation() -> None:
    both = check(lambda x: (1.0 - tf.cos(x)) / (x * x), 1e-2, order=2)
    assert [f.order for f in both.findings if f.verdict == "cancellation"] == [1, 2], both


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: tf.reduce_sum(x - (0.9 * x + 0.1 * x)), [1.0, 2.0]),
        (lambda t: t + tf.reduce_mean(tf.nn.relu(np.arange(10, dtype=t.dtype.as_numpy_dtype) - t)) / 0.1, 8.5),
        (lambda q: tf.reduce_mean(tf.maximum(0.1 * (SAMPLES[q.dtype] - q), -0.9 * (SAMPLES[q.dtype] - q))), 0.5),
    ],
    ids=["moving average", "value at risk", "quantile"],
)
def test_a_zero_up_to_the_rounding_of_decimals_is_no_cancellation(f: Any, x: Any, dtype: Any) -> None:
    # The exact derivative of the program is about 1e-17, because 0.9 and 0.1 are rounded.
    report = check(f, np.asarray(x, dtype))
    assert report.ok and report.verdict in ("conditioning", "correct"), report


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("f", [lambda z, t: z * t, lambda z, t: z * tf.sin(t), lambda z, t: (z + t) ** 2 / 2])
def test_the_decimals_of_a_mixed_second_derivative_move_in_rules_too(f: Any, dtype: Any) -> None:
    report = check(lambda x, t: f(x - (0.9 * x + 0.1 * x), t), dtype(0.7), dtype(0.2), order=2)
    assert report.ok and report.verdict in ("conditioning", "correct"), report


SAMPLES = {dtype: np.arange(10, dtype=dtype.as_numpy_dtype) for dtype in (tf.float32, tf.float64)}


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: 0.1 * (1 - tf.cos(x)) / x**2, 1e-4),
        (lambda x: tf.sqrt(x + 0.1) - tf.sqrt(x), 1e8),
        (lambda x: tf.math.log(1.1 + tf.exp(x)) - x, 40.0),
    ],
)
def test_decimals_excuse_no_cancellation_of_other_numbers(f: Any, x: float) -> None:
    report = check(f, x)
    assert not report.ok and report.verdict == "cancellation"


ZEROS: dict[str, tuple[Any, tuple[float, float], int]] = {  # homogeneous functions, whose zeros keep their terms
    "a deviation": (lambda a, b: tf.math.reduce_std(tf.stack([a, b])), (1.0, 2.0), 2),
    "a close deviation": (lambda a, b: tf.math.reduce_std(tf.stack([a, b])), (1.0, 1.0 + 2.0**-52), 2),
    "a unit vector": (lambda a, b: tf.norm(tf.math.l2_normalize(tf.stack([a, b, a]))), (0.3, 0.7), 1),
    "a square of a sum": (lambda a, b: tf.square(a + b) - a * a - 2.0 * a * b - b * b, (0.1, 0.7), 2),
    "a root": (lambda a, b: tf.norm(tf.stack([a, b])) - tf.sqrt(a * a + b * b), (0.1, 0.7), 2),
    "a quotient": (lambda a, b: tf.exp(a / b) * a - a * tf.exp(a / b), (0.3, 0.7), 2),
}


@pytest.mark.parametrize("scale", [0, 30, -40, 200, -200])
@pytest.mark.parametrize("name", ZEROS)
def test_an_exact_zero_is_compared_with_its_terms_at_each_scale(name: str, scale: int) -> None:
    f, at, order = ZEROS[name]
    report = check(f, *[x * 2.0**scale for x in at], order=order)
    assert report.ok and report.verdict in ("conditioning", "correct"), report


@pytest.mark.parametrize("scale", [0, 60, -60, 300, -300])
def test_claims_of_a_zero_are_judged_alike_at_each_scale(scale: int) -> None:
    at = np.array([1.0, 2.0]) * 2.0**scale
    told = [
        judge(tf.math.reduce_std, at, np.full((2, 2), claim * 2.0**-scale), order=2).ok
        for claim in (0.0, 1e-17, 1e-14, 1e-3)
    ]
    assert told == [True, True, False, False]


@pytest.mark.parametrize("scale", [0, 60, -60])
def test_a_tangent_of_zero_is_compared_with_its_terms_at_each_scale(scale: int) -> None:
    v = tf.Variable(np.array([0.1, 0.7]) * 2.0**scale)
    with collecting() as found, tf.verifying("strict"):
        with tf.autodiff.ForwardAccumulator(v, tf.constant([0.3, 0.9], tf.float64)) as along:
            y = tf.square(v[0] + v[1]) - v[0] * v[0] - 2.0 * v[0] * v[1] - v[1] * v[1]
        along.jvp(y)
    assert found.checked == 1 and found.ok, found


@pytest.mark.parametrize("scale", [0, 30, -30])
def test_a_lost_digit_before_a_zero_is_cancellation_at_each_scale(scale: int) -> None:
    report = check(lambda x, one: ((one + x) - one) / x, 1e-10 * 2.0**scale, 2.0**scale)
    assert report.verdict == "cancellation"


CONSTANT_SLOPES: dict[str, tuple[Any, Any, int]] = {  # function, point, order; the exact derivative is 0
    "log1p near its pole": (lambda x: tf.math.log1p(-tf.cos(x)) - 2 * tf.math.log(tf.sin(x / 2)), 1e-6, 1),
    "atanh near its pole": (lambda x: tf.atanh(tf.cos(x)) + tf.math.log(tf.tan(x / 2)), 1e-6, 1),
    "tanh": (lambda x: tf.atanh(tf.tanh(x)) - x, 18.0, 1),
    "cosh": (lambda x: tf.acosh(tf.cosh(x)) - x, 1e-7, 1),
    "erf": (lambda x: tf.math.erfinv(tf.math.erf(x)) - x, 5.8, 1),
    "erfc": (lambda x: tf.math.erfcinv(tf.math.erfc(x)) - x, -5.0, 1),
    "cos in float32": (lambda x: tf.acos(tf.cos(x)) - x, F4(2e-3), 1),
    "cosh, order 2": (lambda x: tf.acosh(tf.cosh(x)), 1e-7, 2),
    "cos, order 2": (lambda x: tf.acos(tf.cos(x)), 1e-6, 2),
    "tanh, order 2": (lambda x: tf.atanh(tf.tanh(x)), 18.0, 2),
    "exp - 1, order 2": (lambda x: tf.math.log1p(tf.exp(x) - 1), -36.0, 2),
}


@pytest.mark.parametrize("name", CONSTANT_SLOPES)
def test_a_slope_that_magnifies_the_rounding_of_its_argument_excuses_no_zero(name: str) -> None:
    f, at, order = CONSTANT_SLOPES[name]
    (found,) = [v for v in check(f, at, order=order).findings if v.order == order]
    assert found.verdict == "cancellation" and not found.ok and found.exact == "0", found


@pytest.mark.parametrize(("name", "claim"), [("tanh", 0.5), ("cos, order 2", 50.0), ("cos in float32", F4(0.05))])
def test_no_claim_of_a_zero_hides_behind_a_steep_slope(name: str, claim: Any) -> None:
    f, at, order = CONSTANT_SLOPES[name]
    report = judge(f, at, claim, order=order)
    assert (report.verdict, report.ok) == ("cancellation", False), report


def test_forward_mode_magnifies_no_rounding_of_an_argument() -> None:
    v = tf.Variable(18.0, dtype=tf.float64)
    with collecting() as found, tf.verifying(), contextlib.suppress(tf.errors.VerificationError):
        with tf.autodiff.ForwardAccumulator(v, tf.ones((), tf.float64)) as along:
            y = tf.atanh(tf.tanh(v)) - v
        along.jvp(y)
    assert (found.verdict, found.ok) == ("cancellation", False), found


@pytest.mark.parametrize("n", [1, 5])
def test_rows_of_a_second_derivative_magnify_no_rounding_of_an_argument(n: int) -> None:
    report = check(lambda x: tf.reduce_sum(tf.acos(tf.cos(x))), np.full(n, 1e-6), order=2)
    (found,) = [v for v in report.findings if v.order == 2]
    assert (found.verdict, found.ok, found.count) == ("cancellation", False, n), found


BALANCED: dict[str, Any] = {  # the exact gradient is 0, and the terms that cancel explain all roundings
    "softmax": lambda x: tf.reduce_sum(tf.nn.softmax(x)),
    "means": lambda x: tf.reduce_mean(x) - tf.reduce_sum(x) / 5,
    "a unit vector": lambda x: tf.reduce_sum(tf.math.l2_normalize(x) ** 2),
    "normalised data": lambda x: tf.reduce_mean(((x - tf.reduce_mean(x)) / tf.math.reduce_std(x)) ** 2),
    "a circle": lambda x: tf.reduce_sum(tf.sin(x) ** 2 + tf.cos(x) ** 2),
    "an exponential": lambda x: tf.reduce_sum(tf.exp(x / 15) - tf.exp(x / 30) ** 2),
    "a symmetric loss": lambda x: tf.reduce_sum(tf.math.softplus(x) - tf.math.softplus(-x) - x),
    "a cosine similarity": lambda x: tf.reduce_sum(x * x) / (tf.norm(x) * tf.norm(x)),
    "a power": lambda x: tf.reduce_sum(tf.pow(tf.abs(x), 2.5) - x**2 * tf.sqrt(tf.abs(x))),
    "a kernel of an inverse": lambda x: tf.reduce_sum(tf.tan(tf.atan(x)) - x),
}


@pytest.mark.parametrize("scale", [1e-6, 1.0, 50.0])
@pytest.mark.parametrize("name", BALANCED)
def test_terms_that_cancel_excuse_zeros_of_well_conditioned_programs(name: str, scale: float) -> None:
    report = check(BALANCED[name], scale * np.array([0.3, -1.1, 0.7, 2.9, -0.2]))
    assert {v.verdict for v in report.findings} <= {"conditioning"}, report


FOLDS: dict[str, tuple[Any, float]] = {  # the slope is 1 or -1 on the two sides, which half a unit in the input crosses
    "asin of sin": (lambda x: tf.asin(tf.sin(x)), np.pi / 2),
    "acos of cos": (lambda x: tf.acos(tf.cos(x)), np.pi),
    "root of a square": (lambda x: tf.sqrt(tf.square(tf.cos(x))), np.pi / 2),
}


@pytest.mark.parametrize("name", FOLDS)
def test_half_a_unit_beside_a_fold_excuses_what_the_derivative_moves_to(name: str) -> None:
    f, at = FOLDS[name]
    assert [judge(f, at, claim).ok for claim in (1.0, -1.0, 5.0, 10.0, -10.0, 1e4)] == [True, True, *[False] * 4]
    second = judge(f, at, 1e12, order=2)
    assert not second.ok, second


@pytest.mark.slow
@settings(max_examples=1 + settings.default.max_examples // 8)
@given(st.floats(0.2, 0.8), st.integers(-3, 3))
def test_the_derivative_of_a_chaotic_program_at_a_moved_input_is_excused(start: float, moves: int) -> None:
    def f(x: Any) -> Any:
        for _ in range(60):
            x = 3.99 * x * (1 - x)
        return x

    claim = float(exact(f, start + moves * np.spacing(start))[()])
    assert judge(f, start, claim).ok


@pytest.mark.parametrize(
    ("f", "x", "order", "exact_number"),
    [
        (lambda x: tf.math.polygamma(tf.constant(2.0, tf.float64), x), 1.0, 3, 122.08116743813390),
        (lambda x: x * tf.math.polygamma(tf.constant(1.0, tf.float64), x), 1.3, 2, 0.72440605929769139),
    ],
    ids=["alone", "in a product"],
)
def test_noise_keeps_orders_whole(f: Any, x: float, order: int, exact_number: float) -> None:
    assert judge(f, x, np.float64(exact_number), order=order).ok
    for wrong in (1 + 1e-9, 1 + 1e-3, 2.0, -1.0, np.nan):
        report = judge(f, x, np.float64(exact_number * wrong), order=order)
        assert not report.ok and report.verdict in {"rule", "unstable"}, wrong


def test_the_gravest_finding_comes_first() -> None:
    report = check(lambda x: (1 - tf.cos(x[0])) / x[0] ** 2 + tf.nn.relu(x[1]), np.array([1e-4, 0.0]))
    assert [f.verdict for f in report.findings] == ["cancellation", "convention"]
    report = check(lambda x: tf.nn.relu(x[0]) + (1 - tf.cos(x[1])) / x[1] ** 2, np.array([0.0, 1e-4]))
    assert [f.verdict for f in report.findings] == ["cancellation", "convention"]


def _nearly_singular(gap: float) -> np.ndarray:
    return np.array([[1.0, 1.0 + gap], [1.0, 1.0], [1.0, 1.0]])


ILL_CONDITIONED: dict[str, tuple[Any, Any, int]] = {  # function, point, order
    # The first-order move of some elements is 0 by symmetry, and the square of the move is large.
    "qr of equal columns, 1e-8": (lambda a: tf.linalg.qr(a)[0][0, 1], _nearly_singular(1e-8), 1),
    "qr of equal columns, 1e-10": (lambda a: tf.linalg.qr(a)[0][0, 1], _nearly_singular(1e-10), 1),
    "svd of equal columns": (lambda a: tf.reduce_sum(tf.linalg.svd(a)[1] ** 3), _nearly_singular(1e-8), 1),
    # Half a unit moves no zero.
    "svd of a graded triangle": (
        lambda a: tf.reduce_sum(tf.linalg.svd(a)[1] ** 3), np.array([[1.0, 1.0], [0.0, 1e-8], [0.0, 0.0]]), 1,
    ),
    "close eigenvalues, order 2": (
        lambda a: tf.linalg.eigvalsh(a)[2], np.array([[2.0, 1e-9, 0.0], [1e-9, 2.0, 0.0], [0.0, 0.0, 1.0]]), 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ILL_CONDITIONED)
def test_what_a_stable_factorisation_loses_is_conditioning(name: str) -> None:
    f, a, order = ILL_CONDITIONED[name]
    report = check(f, a, order=order)
    assert (report.verdict, report.ok) == ("conditioning", True), report


def test_a_finding_names_the_op_whose_matrix_is_ill_conditioned() -> None:
    f, a, _ = ILL_CONDITIONED["svd of a graded triangle"]
    assert [z.op for z in check(f, a).findings if z.verdict == "conditioning"] == [tf.linalg.svd.__name__]


def test_the_matrix_of_the_normal_equations_excuses_no_lost_digits() -> None:
    a = np.array([[1.0, 1.0], [1.0, 1.0 + 1e-6], [1.0, 2.0 + 1e-6]])
    a[2, 1] = 1.0 - 1e-6
    report = check(lambda x: tf.linalg.cholesky(tf.matmul(x, x, transpose_a=True))[1, 1], a)
    assert (report.verdict, report.ok) == ("cancellation", False), report


@pytest.mark.parametrize("name", ["qr of equal columns, 1e-8", "svd of equal columns", "svd of a graded triangle"])
def test_a_claim_beyond_all_real_moves_is_refused(name: str) -> None:
    f, a, _ = ILL_CONDITIONED[name]
    right = np.asarray(exact(f, a), np.float64)
    wrong = right + 1e-3 * np.abs(right).max()
    assert judge(f, a, right).ok
    assert not judge(f, a, wrong).ok


@pytest.mark.parametrize("order", [1, 2])
def test_the_error_of_an_exact_zero_is_measured_by_the_terms_that_cancel(order: int) -> None:
    report = check(lambda q: tf.reduce_sum((q / tf.norm(q)) ** 2), np.array([0.3, 0.7]), order=order)
    assert report.ok and report.max_ulp < 16
    assert all(f.ulps is not None and f.ulps <= report.max_ulp for f in report.findings)


@tf.custom_gradient
def _tanh_from_its_value(x: Any) -> Any:
    y = tf.tanh(x)
    return y, lambda g: g * (1 - y * y)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_a_formula_that_loses_digits_within_the_bound_of_the_problem_is_named(dtype: Any) -> None:
    report = check(_tanh_from_its_value, tf.constant(3.0, dtype))
    assert (report.verdict, report.ok) == ("cancellation", True), report
    assert report.findings[0].op == _tanh_from_its_value.__name__
    several = check(_tanh_from_its_value, tf.constant([0.3, 3.0], dtype))
    assert [(f.verdict, f.element, f.ok) for f in several.findings] == [("cancellation", (0, (1,)), True)]


@pytest.mark.parametrize("x", [0.3, 1.0])
def test_a_formula_that_loses_no_digits_is_not_named(x: float) -> None:
    assert check(_tanh_from_its_value, x).verdict in ("correct", "conditioning")


@functools.cache
def losing(name: str) -> Any:
    """An op of a user whose rule loses digits. The first test of it declares it, because all tests share ops."""
    if name == "tanh_and_bell":
        op = declare.primitive(
            name,
            lambda x: (np.tanh(x), np.exp(-x * x)),
            vjp=(lambda xp, g, y, x: g[0] * (1 - y[0] * y[0]) - 2 * x * y[1] * g[1],),
            jvp=(lambda xp, t, y, x: (t * (1 - y[0] * y[0]), -2 * x * y[1] * t),),
            outputs=2,
            rounding=declare.stable(4, 4),
            samples=((((3,),), {}),),
        )
        declare.mirror(op, lambda W, x: (W.tanh(x), W.exp(-x * x)))
        return op
    rules = {
        "tanh_by_its_value": lambda xp, y, x: 1 - y * y,
        "tanh_by_its_argument": lambda xp, y, x: 1 - xp.tanh(x) * xp.tanh(x),
    }
    op = declare.elementwise(name, np.tanh, rules[name], domain=declare.ANY_REAL, ulps=4.0)
    declare.mirror(op, lambda x: sp.tanh(x))
    return op


# The op, a function of the op and a point, the point, and the orders at which the rule loses digits.
LOSING_OPS: dict[str, tuple[str, Any, Any, set[int]]] = {
    "alone": ("tanh_by_its_value", lambda op, x: op(x), [20.0, 0.5], {1, 2}),
    "inside": ("tanh_by_its_value", lambda op, x: 3 * op(2 * x), [7.5], {1, 2}),
    "in float32": ("tanh_by_its_value", lambda op, x: op(x), np.array([7.5], F4), {1, 2}),
    "by its argument": ("tanh_by_its_argument", lambda op, x: op(x), [15.0], {1}),
    "at order 2": ("tanh_by_its_argument", lambda op, x: op(x) * x, [15.0], {2}),
    "of two outputs": ("tanh_and_bell", lambda op, x: op(x)[0], [15.0], {1, 2}),
}


@pytest.mark.parametrize("name", LOSING_OPS)
def test_a_declared_rule_that_loses_digits_is_named_with_its_line(name: str) -> None:
    op, f, at, orders = LOSING_OPS[name]
    bad = [v for v in check(lambda x: f(losing(op), x), np.asarray(at), order=2).findings if not v.ok]
    assert {(v.order, v.verdict, v.op) for v in bad} == {(k, "unstable", op) for k in orders}, bad
    assert all(v.line is not None and v.line[0] == __file__ for v in bad)
    assert all("the declaration of" in (v.instead or "") for v in bad)


@pytest.mark.parametrize("order", [1, 2])
def test_a_declared_rule_that_leaves_half_of_the_digits_is_a_named_cancellation(order: int) -> None:
    op = losing("tanh_by_its_value")
    report = check(op, np.array([8.0]), order=order)
    assert report.ok and {(v.verdict, v.op) for v in report.findings} == {("cancellation", op.name)}
    assert all(v.lost is not None and v.lost > 4 and "9 of 15 digits are right" in v.reason for v in report.findings)


@pytest.mark.parametrize("order", [1, 2])
def test_a_declared_rule_is_not_blamed_for_larger_losses_of_the_program(order: int) -> None:
    op = losing("tanh_by_its_value")
    report = check(lambda x: op(x) * ((x + 1e13) - 1e13), np.array([3.3]), order=order)
    assert not report.ok and {(v.verdict, v.op) for v in report.findings if not v.ok} == {("cancellation", None)}, (
        report
    )


@tf.custom_gradient
def _sin_with_slope_1(x: Any) -> Any:
    return tf.sin(x), lambda g: g * 0 + 1


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_a_wrong_number_in_place_of_a_zero_is_measured_by_the_terms_that_cancel(dtype: Any) -> None:
    report = check(lambda x: _sin_with_slope_1(x) - tf.sin(x), tf.constant([0.7, 0.3], dtype))
    (found,) = [f for f in report.findings if not f.ok]
    assert (found.verdict, found.exact) == ("rule", "0") and found.ulps is not None
    assert 1e-3 / np.finfo(dtype.as_numpy_dtype).eps < found.ulps == report.max_ulp < np.inf


def test_a_wrong_number_in_place_of_a_zero_without_terms_says_why_its_distance_is_infinite() -> None:
    report = check(lambda x: _sin_with_slope_1(x) * 0.0, 0.7)
    (found,) = report.findings
    assert (found.verdict, found.ulps, report.max_ulp) == ("rule", np.inf, np.inf)
    assert "the distance in ULP is infinite, because all terms" in found.reason
