"""Decisions at a jump or tie (floor, casts, comparisons, places) are conventions; those that rounding made, not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtape as tf
from gtape.verify import check, exact, judge
from gtape.verify.verdicts.collect import collecting

m = tf.math
F8 = tf.float64

# f, where, the op, slopes before and behind
JUMPS: dict[str, Any] = {
    "floor": (lambda x: tf.floor(x) * x, 2.0, "floor", (1.0, 2.0)),
    "ceil": (lambda x: m.ceil(x) * x, 2.0, "ceil", (2.0, 3.0)),
    "round": (lambda x: tf.round(x) * x, 2.5, "rint", (2.0, 3.0)),
    "floordiv": (lambda x: (x // 2.0) * x, 4.0, "floordiv", (1.0, 2.0)),
    "cast to int": (lambda x: tf.cast(tf.cast(x, tf.int32), F8) * x, 2.0, "cast", (1.0, 2.0)),
    "cast to int below 0": (lambda x: tf.cast(tf.cast(x, tf.int64), F8) * x, -2.0, "cast", (-2.0, -1.0)),
    "cast to bool": (lambda x: tf.cast(tf.cast(x, tf.bool), F8) * (x + 1.0), 0.0, "cast", (1.0, 1.0)),
    "comparison": (lambda x: tf.cast(x >= 2.0, F8) * (x + 1.0), 2.0, "greater_equal", (0.0, 1.0)),
    "both of two": (
        lambda x: tf.where(tf.logical_and(x >= 0.0, x <= 1.0), x * x, -x),
        0.0,
        "greater_equal",
        (-1.0, 0.0),
    ),
    "count": (
        lambda x: tf.cast(tf.reduce_sum(tf.cast(x >= tf.constant([1.0, 2.0], F8), tf.int32)), F8) * x,
        2.0,
        "greater_equal",
        (1.0, 2.0),
    ),
}


@pytest.mark.parametrize("name", JUMPS)
@pytest.mark.parametrize("order", [1, 2])
def test_a_jump_is_a_convention_that_names_its_op(name: str, order: int) -> None:
    f, at, op, (before, behind) = JUMPS[name]
    report = check(f, at, order=order)
    assert report.ok and [(v.verdict, v.op) for v in report.findings] == [("convention", op)]
    if order == 1:
        sides = f"is {before:g} with the outcome before the point, {behind:g} with the outcome behind it"
        assert sides in report.findings[0].reason


def test_a_jump_to_0_shows_the_0() -> None:
    (found,) = check(lambda x: m.floormod(x, 2.0), 2.0).findings
    assert found.reason == "a jump: 2 on the left, 0 on the right"


def test_a_value_that_jumps_by_a_cast_alone_is_a_convention() -> None:
    report = check(lambda x: tf.cast(tf.cast(x, tf.int32), F8), 2.0)
    assert [(v.verdict, v.op) for v in report.findings] == [("convention", "cast")]
    sides = "is 1 with the outcome before the point, 2 with the outcome behind it, and 2 here"
    assert sides in report.findings[0].reason


def test_decisions_that_are_made_together_are_looked_at_together() -> None:
    table = tf.constant([0.0, 1.0, 4.0, 9.0], F8)
    report = check(lambda x: tf.gather(table, tf.cast(tf.floor(x), tf.int32)) + (x - tf.floor(x)) * 2.0, 2.0)
    sides = "is 3 with the outcome before the point, 4 with the outcome behind it"
    assert report.ok and sides in report.findings[0].reason


@pytest.mark.parametrize("name", ["floor", "cast to int", "comparison"])
def test_forward_mode_says_the_same(name: str) -> None:
    f, at, op, _ = JUMPS[name]
    x = tf.constant(np.float64(at))
    with collecting() as report, tf.verifying("strict"), tf.autodiff.ForwardAccumulator(x, tf.ones((), F8)) as acc:
        acc.jvp(f(x))
    assert report.ok and [(v.verdict, v.op) for v in report.findings] == [("convention", op)]


def test_judge_takes_what_lies_between_the_sides_of_a_jump() -> None:
    f, at, _, (before, behind) = JUMPS["floor"]
    for claimed, ok in ((before, True), (behind, True), ((before + behind) / 2, True), (behind + 1.0, False)):
        assert judge(f, at, claimed).ok is ok, claimed


@pytest.mark.parametrize(
    ("f", "at"),
    [
        (lambda x: tf.round(x) * x, 2.0),
        (lambda x: tf.cast(tf.cast(x, tf.int32), F8) * x, 0.0),
        (lambda x: tf.floor(x) * 0.0 + x, 2.0),
        (lambda x: tf.floor(tf.stop_gradient(x)) * x, 2.0),
        (lambda x: tf.where(tf.equal(x, x), x * x, x), 2.0),
        (tf.sort, [2.0, 2.0]),
        (lambda x: x / tf.where(x > 0.0, x, 1.0), 2.0),
        (lambda x: tf.where(x >= 0.0, x, 0.0) + tf.where(x < 0.0, x, 0.0), 0.0),
    ],
)
def test_decisions_that_change_nothing_are_no_jump(f: Any, at: Any) -> None:
    for order in (1, 2):
        assert check(f, np.asarray(at), order=order).verdict == "correct"


@pytest.mark.parametrize(
    ("f", "at"),
    [
        (lambda x: tf.where(x > 0.0, x * x, -x * x), 0.0),
        (lambda x: tf.where(tf.equal(x, 2.0), x, x * x), 2.0),
        (lambda x: tf.where(tf.logical_and(x >= 0.0, x <= 1.0), x * x, -x), 0.0),
    ],
)
def test_a_second_derivative_at_a_tie_is_a_convention_too(f: Any, at: Any) -> None:
    report = check(f, at, order=2)
    assert report.ok and report.verdict == "convention"


PLACES: dict[str, tuple[Any, str]] = {
    "gather by argmax": (lambda x: tf.gather(x, tf.argmax(x)) ** 2, "argmax"),
    "one_hot of argmin": (lambda x: x * x * tf.one_hot(tf.argmin(-x, output_type=tf.int32), 3, dtype=F8), "argmin"),
    "indices of top_k": (lambda x: tf.gather(x, m.top_k(x, 1).indices) ** 2, "order"),
    "argsort": (lambda x: tf.gather_nd(x * x, tf.argsort(x)[:, None]) * [1.0, 2.0, 3.0], "order"),
    "batches": (
        lambda x: tf.gather(tf.stack([x, x]), tf.argmax(tf.stack([x, -x]), axis=1)[:, None], batch_dims=1) ** 2,
        "argmax",
    ),
    "boolean_mask": (lambda x: tf.boolean_mask(x, x > 1.0) * 2.0, "greater"),
    "where": (lambda x: tf.reduce_sum(tf.gather(x, tf.where(x > 1.0)) ** 2), "greater"),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_tie_is_seen_through_what_numpy_makes_of_places(name: str) -> None:
    f, op = PLACES[name]
    for order in (1, 2):
        report = check(f, np.array([1.0, 2.0, 2.0]), order=order)
        assert report.ok
        if order == 1 or name not in ("batches", "boolean_mask"):
            assert [(v.verdict, v.op) for v in report.findings] == [("convention", op)], report
    apart = check(f, np.array([1.5, 2.0, 2.5]))
    assert apart.verdict == "correct"


def test_a_place_among_sorted_numbers_is_decided_by_the_numbers() -> None:
    edges = tf.constant([1.0, 2.0, 3.0], F8)

    def f(x: Any) -> Any:
        return tf.cast(tf.searchsorted(edges, x, side="right"), F8) * x

    for order in (1, 2):
        report = check(f, np.array([0.5, 2.0]), order=order)
        assert report.ok and {v.verdict for v in report.findings} == {"convention"}
        assert check(f, np.array([0.5, 2.5]), order=order).verdict == "correct"
    with collecting() as report, tf.verifying("strict"), tf.GradientTape() as tape:
        x = tf.Variable(np.array([0.3]))
        y = tf.cast(tf.searchsorted(edges, x * 10.0, side="right"), F8) * x  # 10 * 0.3 rounds up to 3
        tape.gradient(y, x)
    assert [v.verdict for v in report.findings] == ["conditioning"]


def interpolated(x: Any, side: str) -> Any:
    """The interpolation of (0, 0), (1, 2), (2, 1), (3, 5), with a place from searchsorted."""
    xs, ys = np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 2.0, 1.0, 5.0])
    i = tf.searchsorted(xs, tf.reshape(x, [1]), side=side)[0] - 1
    return tf.gather(ys, i) + (tf.gather(ys, i + 1) - tf.gather(ys, i)) * (x - tf.gather(xs, i))


@pytest.mark.parametrize("side", ["left", "right"])
def test_claims_at_a_knot_are_judged_by_the_slopes_on_both_sides(side: str) -> None:
    def f(x: Any) -> Any:
        return interpolated(x, side)

    assert check(f, 2.0).ok
    for claim, ok in ((-1.0, True), (1.5, True), (4.0, True), (-1.01, False), (4.01, False)):
        assert judge(f, (2.0,), claim).ok == ok, claim


def test_a_place_gives_each_side_of_a_knot_its_own_curvature() -> None:
    def f(x: Any) -> Any:
        behind = tf.cast(tf.searchsorted(np.array([0.0]), tf.reshape(x, [1]), side="right")[0], F8)
        return x * x * (2.0 * behind - 1.0)

    assert check(f, 0.0, order=2).ok


@pytest.mark.parametrize("at", [(0.0, 1.0), (0.0, 0.0, 1.0), (1.0, 0.0, 0.0)])
def test_a_place_gives_each_of_several_elements_its_own_sides(at: tuple[float, ...]) -> None:
    def f(x: Any) -> Any:
        return tf.reduce_sum(x * tf.cast(tf.searchsorted(np.zeros(1), x, side="left"), F8))

    assert check(f, np.array(at)).ok


def test_a_slope_that_jumps_and_does_not_vary_is_told_of_at_second_order() -> None:
    assert check(lambda x: tf.gather(x, tf.argmax(x)) * 3.0, np.array([2.0, 2.0]), order=2).verdict == "convention"


ROUNDED: dict[str, Any] = {  # 10 * 0.3 rounds up to 3, 10 * 0.15 to 1.5
    "floor": lambda x: tf.floor(x * 10.0) * x,
    "floordiv": lambda x: ((x * 10.0) // 3.0) * x,
    "floormod": lambda x: ((x * 10.0) % 3.0) * x,
    "cast": lambda x: tf.cast(tf.cast(x * 10.0, tf.int32), F8) * x,
    "rint": lambda x: tf.round(x * 5.0) * x,
    "sign": lambda x: tf.sign(x * 10.0 - 3.0) * x,
}


@pytest.mark.parametrize("op", ROUNDED)
def test_a_step_that_rounding_took_is_conditioning(op: str) -> None:
    report = check(ROUNDED[op], 0.3)
    assert report.ok and [(v.verdict, v.op) for v in report.findings] == [("conditioning", op)]
    x = tf.constant(np.float64(0.3))
    with collecting() as forward, tf.verifying("strict"), tf.autodiff.ForwardAccumulator(x, tf.ones((), F8)) as acc:
        acc.jvp(ROUNDED[op](x))
    assert forward.ok and [(v.verdict, v.op) for v in forward.findings] == [("conditioning", op)]


@pytest.mark.parametrize("op", ROUNDED)
def test_claims_at_a_step_that_rounding_took_are_compared_with_the_exact_outcome(op: str) -> None:
    f, x = ROUNDED[op], tf.constant(np.float64(0.3))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    of_run, right = float(tape.gradient(y, x)), float(exact(f, 0.3))
    assert of_run != right
    assert all(v.got is None for v in judge(f, 0.3, right).findings)
    report = judge(f, 0.3, of_run)
    (told,) = [v for v in report.findings if v.got is not None]
    assert report.ok and (told.verdict, told.got, float(told.exact or "nan")) == ("conditioning", of_run, right)
    report = judge(f, 0.3, right + 7.0)
    (told,) = [v for v in report.findings if v.got is not None]
    assert not report.ok and float(told.exact or "nan") == right


@pytest.mark.parametrize(
    ("claims", "wrong"), [((2.0, 6.0, 2.0), []), ((3.0, 6.0, 2.0), [3.0]), ((2.0, 7.0, 2.0), [7.0])]
)
def test_each_element_of_a_claim_follows_the_exact_outcome_or_that_of_rounding(
    claims: tuple[float, ...], wrong: list[float]
) -> None:
    x = np.array([0.3, 0.7, 0.25])
    report = judge(lambda x: tf.reduce_sum(ROUNDED["floor"](x)), x, np.array(claims))
    assert report.ok and [v.got for v in report.findings if v.got is not None] == wrong


@pytest.mark.slow
@pytest.mark.parametrize(
    ("f", "value", "order", "right"),
    [
        (lambda x, s: (6 * tf.exp(x) - 6 - 6 * x - 3 * x**2 - x**3) / s**4, 0.25, 1, 1 / 20),
        (lambda x, s: (tf.cos(x) - 1 + x**2 / 2) / s**4, 1 / 24, 2, -1 / 360),
        (lambda x, s: tf.sin(x) / s, 1.0, 2, -1 / 3),
        (lambda x, s: tf.math.expm1(x) / s, 1.0, 1, 1 / 2),
    ],
    ids=["exp", "cos", "sin", "expm1"],
)
def test_a_value_that_fills_a_gap_has_no_derivative_of_its_own(f: Any, value: float, order: int, right: float) -> None:
    # Enclosures beside the gap lose up to 7,000 bits, and 1/24 is rounded.
    def filled(x: Any) -> Any:
        gap = tf.equal(x, 0.0)
        return tf.where(gap, value * tf.ones_like(x), f(x, tf.where(gap, tf.ones_like(x), x)))

    assert float(str(exact(filled, 0.0, order=order)[()])) == right
    assert not check(filled, 0.0, order=order).ok
    assert judge(filled, 0.0, right, order=order).ok
    for wrong in (0.0, 12345.0):
        assert not judge(filled, 0.0, wrong, order=order).ok


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tf.reduce_sum(tf.where(x >= 0, x, x[::-1])),
        lambda x: tf.where(x[0] >= 0, x[0], x[1]) + tf.where(x[1] >= 0, x[1], x[0]),
    ],
    ids=["elements", "ops"],
)
def test_choices_that_change_nothing_together_are_met_one_by_one(f: Any) -> None:
    x = np.zeros(2)
    assert check(f, x).verdict == "convention"
    for claim in ([1.0, 1.0], [0.0, 2.0], [2.0, 0.0]):
        assert judge(f, x, np.array(claim)).ok
    assert not judge(f, x, np.array([3.0, 3.0])).ok


def _mask(m: Any, x: Any) -> Any:
    return tf.cast(m, x.dtype)


@pytest.mark.parametrize(
    "f", [lambda x: x * _mask(x > 0.0, x), lambda x: x * _mask(x >= 0.0, x)], ids=["above", "from"]
)
def test_a_product_with_a_mask_has_the_kink_of_a_selection(f: Any) -> None:
    assert check(f, 0.0).verdict == "convention"
    for claim, passes in ((0.0, True), (0.25, True), (1.0, True), (1.01, False), (-0.01, False)):
        assert judge(f, 0.0, claim).ok == passes, claim


def test_masks_that_leave_a_point_out_leave_its_derivative_out() -> None:
    def identity(x: Any) -> Any:
        return x * _mask(x > 0.0, x) + x * _mask(x < 0.0, x)  # x everywhere, but the tape gives 0 at 0

    report = check(identity, 0.0)
    assert (report.ok, report.verdict) == (False, "convention") and "has a derivative here" in report.summary()
    assert check(lambda x: x * _mask(x > 0.0, x) + x * _mask(x <= 0.0, x), 0.0).verdict == "correct"


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tf.where(x > 0, 1.0 / x, 0.0),
        lambda x: tf.where(x > 0, 1.0 + tf.sqrt(x), 0.0),
        lambda x: tf.where(x > 0, tf.math.log(x), 0.0),
        lambda x: tf.where(x > 0, 5.0 + x, 0.0),
    ],
)
def test_a_jump_to_a_branch_without_values_at_the_point_is_no_smooth_point(f: Any) -> None:
    report = check(f, 0.0)
    assert (report.ok, report.verdict, report.findings[0].op) == (True, "convention", "greater"), report


def test_a_guard_of_a_smooth_function_needs_no_finding() -> None:
    for f in (
        lambda x: tf.where(x == 0, 1.0, tf.sin(x) / tf.where(x == 0, 1.0, x)),
        lambda x: tf.where(tf.abs(x) < 1e-5, 1.0 + x / 2.0, (tf.exp(x) - 1.0) / x),
    ):
        assert check(f, 0.0).verdict == "correct"


def _guarded(op: Callable[[Any], Any], x: Any, inside: Any) -> Any:
    """An op where a mask is true, and 0 elsewhere; there the op reads 1 instead."""
    return tf.where(inside, op(tf.where(inside, x, tf.ones_like(x))), tf.zeros_like(x))


def _root(x: Any) -> Any:
    return _guarded(tf.sqrt, x, x > 0.0)


def _power(x: Any, p: float) -> Any:
    return _guarded(lambda v: tf.pow(v, p), x, x > 0.0)


# f, where, order, the derivative: the numbers that the tape gives at the guards are 0
SMOOTH: dict[str, tuple[Callable[[Any], Any], Any, int, Any]] = {
    "squares": (lambda x: tf.square(_root(x)) - tf.square(_root(-x)), 0.0, 1, 1.0),
    "squares in float32": (lambda x: tf.square(_root(x)) - tf.square(_root(-x)), np.float32(0.0), 1, 1.0),
    "products": (lambda x: _root(x) * _root(x) - _root(-x) * _root(-x), 0.0, 1, 1.0),
    "powers, elsewhere": (lambda x: _power(x - 2.0, 0.5) ** 2 - _power(2.0 - x, 0.5) ** 2, 2.0, 1, 1.0),
    "cosh and cos": (lambda x: tf.cosh(_root(x)) + tf.cos(_root(-x)) - 1.0, 0.0, 1, 0.5),
    "cubes": (lambda x: _guarded(m.cbrt, x, tf.not_equal(x, 0.0)) ** 3, 0.0, 1, 1.0),
    "end of arcus": (
        lambda x: tf.cosh(_guarded(lambda v: tf.acosh(v + 1.0), x - 1.0, x > 1.0))
        + tf.cos(_guarded(lambda v: tf.acos(1.0 - v), 1.0 - x, x < 1.0)),
        1.0, 1, 1.0,
    ),
    "order 2": (lambda x: x * (tf.square(_root(x)) - tf.square(_root(-x))), 0.0, 2, 2.0),
    "order 3": (lambda x: _power(x, 1.5) ** 2 - _power(-x, 1.5) ** 2, 0.0, 3, 6.0),
    "array": (
        lambda x: tf.reduce_prod(1.0 + tf.square(_root(x)) - tf.square(_root(-x))),
        np.array([0.0, 1.0, 2.0]), 1, [6.0, 3.0, 2.0],
    ),
    "array of powers": (
        lambda x: tf.reduce_sum((_power(x, [0.5, 2.0]) ** 2 - _power(-x, [0.5, 2.0]) ** 2) * [1.0, 3.0]), 0.0, 1, 1.0
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SMOOTH)
def test_a_zero_hides_no_infinite_slope_behind_a_guard(name: str) -> None:
    f, at, order, right = SMOOTH[name]
    report = check(f, at, order=order)
    assert (report.ok, report.verdict) == (False, "convention") and "has a derivative here" in report.summary()
    assert np.allclose(np.asarray(exact(f, at, order=order), dtype=float), right)
    claim = np.asarray(right, np.asarray(at).dtype)
    assert judge(f, at, claim, order=order).verdict == "correct"
    assert not judge(f, at, claim + claim, order=order).ok


@pytest.mark.slow
@given(
    st.floats(-3.0, 3.0), st.integers(-4, 4), st.integers(-4, 4), st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0]),
    st.sampled_from([np.float32, np.float64]), st.integers(0, 1),
)  # fmt: skip
@settings(max_examples=1 + settings.default.max_examples // 8)
def test_squares_of_guarded_roots_have_the_slopes_of_their_sides(
    place: float, before: int, behind: int, share: float, dtype: Any, others: int
) -> None:
    at = np.array([place, *np.arange(1, 1 + others) + place], dtype)

    def f(x: Any) -> Any:
        apart = x - at[0]
        return tf.reduce_sum(behind * tf.square(_root(apart)) - before * tf.square(_root(-apart)))

    claim = before + share * (behind - before)
    inside = min(before, behind) <= claim <= max(before, behind)
    assert judge(f, at, np.array([claim, *[behind] * others], dtype)).ok == inside


@pytest.mark.slow
@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_forward_mode_sees_slopes_behind_guards_too(slope: float) -> None:
    x = tf.constant(np.float64(0.0))
    raising = contextlib.nullcontext() if slope == 0.0 else pytest.raises(tf.VerificationError)
    with collecting() as report, raising, tf.verifying("strict"), tf.autodiff.ForwardAccumulator(x, x + 1.0) as acc:
        acc.jvp(_root(x) * _root(x) - slope * _root(-x) * _root(-x))
    assert (report.ok, report.verdict) == (slope == 0.0, "convention")


def test_an_infinite_slope_that_no_decision_changes_is_no_guard() -> None:
    assert check(lambda x: tf.where(x > 0.0, x * x, x * x) + tf.sqrt(x * 0.0) * 0.0, 0.0).verdict == "correct"


@settings(max_examples=1 + settings.default.max_examples // 2)
@given(st.integers(1, 400))
def test_slopes_in_the_middle_between_two_floats_are_no_kinks(hundredths: int) -> None:
    """Beside the point, such a slope is rounded down on one side and up on the other."""
    z = hundredths / 100.0
    assert not check(lambda x: tf.pow(x, 6.0 * z), 1.0).findings
    report = check(lambda x: tf.norm(x, ord=3), np.array([z, 0.7, 1.1]), order=2)
    assert "convention" not in {f.verdict for f in report.findings}, report
    assert "convention" not in {
        f.verdict for f in check(lambda x: tf.math.divide_no_nan(x, 1.0 / (6.0 * z)), 0.0).findings
    }


@pytest.mark.parametrize("unique", [tf.unique, tf.unique_with_counts])
def test_equal_elements_of_unique_are_a_tie(unique: Any) -> None:
    def f(x: Any) -> Any:
        return tf.reduce_sum(unique(x)[0] ** 2)

    assert check(f, np.array([1.0, 2.0, 1.0])).verdict == "convention"
    assert check(f, np.array([1.0, 2.0, 3.0])).verdict == "correct"


def test_counts_of_equal_elements_are_constants_at_a_jump() -> None:
    def f(x: Any) -> Any:
        return x[0] * tf.cast(tf.unique_with_counts(x).count[0], x.dtype)

    assert check(f, np.array([1.0, 2.0, 1.0])).verdict == "convention"
    assert check(f, np.array([1.0, 2.0, 3.0])).verdict == "correct"


def test_rows_by_the_index_of_unique_are_smooth_at_a_tie_and_show_a_wrong_derivative() -> None:
    def f(x: Any) -> Any:
        return tf.reduce_sum(tf.gather(x, tf.unique(x).idx))

    report = check(f, np.array([1.0, 2.0, 1.0]))  # beside the tie, this is the sum of all elements
    assert (report.ok, report.verdict) == (False, "convention"), report
    assert check(f, np.array([1.0, 2.0, 3.0])).verdict == "correct"


def test_equal_elements_that_do_not_move_are_no_tie_of_unique() -> None:
    def f(x: Any) -> Any:
        return tf.reduce_sum(tf.unique(tf.concat([x, 0.0 * x], 0))[0])

    assert check(f, np.array([1.0, 2.0])).ok


def smooth_by_pieces(x: Any, whole: Any, place: Any) -> Any:
    """x**2 / 2, from the whole part of x, twice: as a number and as a place in a table."""
    t, a = x - whole, place(tf.cast(whole, tf.int32))
    return a * a / 2.0 + a * t + t * t / 2.0


def spline(x: Any) -> Any:
    """A quadratic spline with knots at the whole numbers, whose slope there is 0, 1, 3, 4."""
    i = tf.floor(x)
    k, t = tf.cast(i, tf.int32), x - i
    value, slope, bend = (tf.gather(np.array(c), k) for c in ([0.0, 0.5, 2.5], [0.0, 1.0, 3.0], [0.5, 1.0, 0.5]))
    return value + slope * t + bend * t * t


def in_table(k: Any) -> Any:
    return tf.gather(np.arange(5.0), k)


def in_columns(k: Any) -> Any:
    return tf.reduce_sum(tf.one_hot(k, 5, dtype=F8) * np.arange(5.0))


JOINED: dict[str, tuple[Any, float, float]] = {  # f, where, the slope
    "floor and gather": (lambda x: smooth_by_pieces(x, tf.floor(x), in_table), 2.0, 2.0),
    "floor and one_hot": (lambda x: smooth_by_pieces(x, tf.floor(x), in_columns), 2.0, 2.0),
    "floordiv and gather": (lambda x: smooth_by_pieces(x, x // 1.0, in_table), 2.0, 2.0),
    "round and gather": (lambda x: smooth_by_pieces(x, tf.round(x), in_table), 2.5, 2.5),
    "spline": (spline, 2.0, 3.0),
}


@pytest.mark.parametrize("name", JOINED)
def test_no_rounding_excuses_a_wrong_claim_where_pieces_join_smoothly(name: str) -> None:
    f, at, slope = JOINED[name]
    assert judge(f, (at,), slope).ok
    for claim in (slope - 1.0, slope - 0.5, slope + 0.5, slope + 1.0):
        assert not judge(f, (at,), claim).ok, claim


def bent(x: Any) -> Any:
    """The slope is 20 below 0.3, and -10 above; 0.3 itself as a float lies below."""
    i = tf.floor(10.0 * x)
    ys, k = np.array([0.0, 0.0, 0.0, 2.0, 1.0]), tf.cast(i, tf.int32)
    return tf.gather(ys, k) + (tf.gather(ys, k + 1) - tf.gather(ys, k)) * (10.0 * x - i)


def test_a_claim_may_follow_the_piece_beyond_a_knot_that_rounding_crosses() -> None:
    for claim, ok in ((20.0, True), (-10.0, True), (30.0, False), (-20.0, False), (0.0, False)):
        assert judge(bent, (0.3,), claim).ok == ok, claim


def filled(g: Any, *, inside: bool) -> Any:
    """A function with the value 0 at 0; with `inside`, it keeps 0 out of the other branch, too."""

    def f(x: Any) -> Any:
        at = tf.equal(x, 0.0)
        return tf.where(at, 0.0 * x, g(tf.where(at, tf.ones_like(x), x) if inside else x))

    return f


# No slope beside 0 has a limit there, but each function has a derivative at 0.
WITHOUT_LIMIT_SLOPE: dict[str, tuple[Any, float]] = {
    "x**2 sin(1/x)": (lambda x: x * x * tf.sin(1.0 / x), 0.0),
    "x J0(1/x)": (lambda x: x * tf.math.special.bessel_j0(1.0 / x), 0.0),
    "3 x + x**2 sin(1/x**2)": (lambda x: 3.0 * x + x * x * tf.sin(1.0 / (x * x)), 3.0),
}


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", WITHOUT_LIMIT_SLOPE)
def test_a_filled_point_has_the_limit_of_difference_quotients_as_its_derivative(name: str, inside: bool) -> None:
    g, slope = WITHOUT_LIMIT_SLOPE[name]
    f = filled(g, inside=inside)
    assert float(exact(f, 0.0)) == slope
    assert judge(f, 0.0, slope).ok
    for claim in (0.5, 1.0, 7.0, 100.0):
        assert not judge(f, 0.0, claim).ok, claim


# No second derivative beside 0 has a limit there, but each function has a second derivative at 0.
WITHOUT_LIMIT_CURVATURE: dict[str, tuple[Any, float]] = {
    "x**2 + x**4 sin(1/x)": (lambda x: x * x + x**4 * tf.sin(1.0 / x), 2.0),
    "x**2 + x**6 cos(1/x**2)": (lambda x: x * x + x**6 * tf.cos(1.0 / (x * x)), 2.0),
    "5 x - 3 x**2 + x**4 sin(2/x)": (lambda x: 5.0 * x - 3.0 * x * x + x**4 * tf.sin(2.0 / x), -6.0),
}


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", WITHOUT_LIMIT_CURVATURE)
def test_a_filled_point_has_the_limit_of_quotients_of_slopes_as_its_second_derivative(name: str, inside: bool) -> None:
    g, curvature = WITHOUT_LIMIT_CURVATURE[name]
    f = filled(g, inside=inside)
    assert float(exact(f, 0.0, order=2)) == curvature
    assert judge(f, 0.0, curvature, order=2).ok
    for claim in (0.0, 0.5, 7.0, -100.0):
        assert not judge(f, 0.0, claim, order=2).ok, claim
    wrong = [v for v in check(f, 0.0, order=2).findings if v.order == 2 and not v.ok]
    assert [(v.got, float(v.exact or "nan")) for v in wrong] == [(0.0, curvature)]


WITHOUT_CURVATURE: dict[str, Any] = {
    "x sin(1/x)": lambda x: x * tf.sin(1.0 / x),
    "x**2 sin(1/x)": lambda x: x * x * tf.sin(1.0 / x),
    "x**3 sin(1/x)": lambda x: x**3 * tf.sin(1.0 / x),
    "2 x + x**3 cos(1/x)": lambda x: 2.0 * x + x**3 * tf.cos(1.0 / x),
}


@pytest.mark.parametrize("name", WITHOUT_CURVATURE)
def test_a_filled_point_whose_slopes_oscillate_has_no_second_derivative(name: str) -> None:
    f = filled(WITHOUT_CURVATURE[name], inside=False)
    with pytest.raises(ArithmeticError, match="there is no derivative here"):
        exact(f, 0.0, order=2)
    assert judge(f, 0.0, 0.0, order=2).ok  # the number of the branch that the point takes
    for claim in (1.0, 5.0, -100.0):
        assert not judge(f, 0.0, claim, order=2).ok, claim


def test_a_claim_passes_where_quotients_have_the_limit_that_slopes_beside_the_point_lack() -> None:
    f = filled(lambda x: x + x * x * tf.sin(1.0 / x), inside=False)
    assert judge(f, 0.0, 1.0).ok
    for claim in (0.0, 0.5, 2.0):
        wrong = [v for v in judge(f, 0.0, claim).findings if not v.ok]
        assert [float(v.exact or "nan") for v in wrong] == [1.0], claim


def test_each_element_of_a_filled_vector_has_its_own_limit() -> None:
    f, at = filled(WITHOUT_LIMIT_SLOPE["3 x + x**2 sin(1/x**2)"][0], inside=True), np.array([0.0, 1.0, 0.0])

    def weighted(x: Any) -> Any:
        return tf.reduce_sum(f(x) * tf.constant([1.0, 2.0, 3.0], tf.float64))

    right = np.array([float(e) for e in exact(weighted, at)])
    assert right[[0, 2]].tolist() == [3.0, 9.0]
    assert judge(weighted, at, right).ok
    assert not judge(weighted, at, right + [0.0, 0.0, 0.5]).ok


# Each function with the number outside of which no claim passes.
WITHOUT_DERIVATIVE: dict[str, tuple[Any, float]] = {
    "x tanh(1/x)": (lambda x: x * tf.tanh(1.0 / x), 1.0),
    "x sigmoid(1/x)": (lambda x: x * tf.sigmoid(1.0 / x), 1.0),
    "x C(1/x)": (lambda x: x * tf.math.special.fresnel_cos(1.0 / x), 0.5),
    "x sin(1/x)": (lambda x: x * tf.sin(1.0 / x), 0.0),
}


@pytest.mark.parametrize("name", WITHOUT_DERIVATIVE)
def test_a_filled_point_without_a_derivative_has_no_exact_number(name: str) -> None:
    g, greatest = WITHOUT_DERIVATIVE[name]
    f = filled(g, inside=False)
    with pytest.raises(ArithmeticError, match="there is no derivative here"):
        exact(f, 0.0)
    assert judge(f, 0.0, greatest).ok
    for claim in (1.5, 7.0, 100.0):
        assert not judge(f, 0.0, claim).ok, claim


# The slopes on one side come to 0 as exp(-1/x) does, and to 1 on the other.
DYING_SLOPES: dict[str, Any] = {
    "x sigmoid(1/x)": filled(lambda x: x * tf.sigmoid(1.0 / x), inside=False),
    "x sigmoid(-1/x)": filled(lambda x: x * tf.sigmoid(-1.0 / x), inside=False),
    "x / (1 + exp(1/x))": filled(lambda x: x / (1.0 + tf.exp(1.0 / x)), inside=False),
    "exp(-1/x) beside x": lambda x: tf.where(x > 0.0, tf.exp(-1.0 / x), x),
}


@pytest.mark.parametrize("name", DYING_SLOPES)
def test_the_limit_of_a_slope_that_dies_exponentially_is_0(name: str) -> None:
    f = DYING_SLOPES[name]
    assert check(f, 0.0).ok
    for claim in (0.0, 0.5, 1.0):
        assert judge(f, 0.0, claim).ok, claim
    for claim in (-1e-300, -0.5, 1.5):
        wrong = [v.reason for v in judge(f, 0.0, claim).findings if not v.ok]
        assert len(wrong) == 1 and "[0, 1]" in wrong[0], claim


def test_a_filled_point_of_a_cone_keeps_all_slopes_beside_it() -> None:
    def cone(x: Any, y: Any) -> Any:
        square = x * x + y * y
        at = tf.equal(square, 0.0)
        return tf.where(at, 0.0 * x, x * y / tf.sqrt(tf.where(at, tf.ones_like(x), square)))

    assert judge(cone, (0.0, 0.0), (0.0, 0.0)).ok and judge(cone, (0.0, 0.0), (0.3, 0.3)).ok
    assert not judge(cone, (0.0, 0.0), (3.0, 0.0)).ok
