"""Ties and kinks of ops that are not elementwise have the verdict `convention`, and smooth points have not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

import gtape as tf
from gtape.declare.primitives import REGISTRY
from gtape.symbolic.balls import precision, tied, ties_assumed
from gtape.verify import check, judge
from gtape.verify.oracles.replay import Shared

m = tf.math
E = np.e


@pytest.mark.parametrize(
    ("f", "at", "op"),
    [
        (tf.reduce_max, [2.0, 2.0, 1.0], "max"),
        (lambda x: tf.reduce_min(x, axis=1), [[2.0, 1.0], [3.0, 3.0]], "min"),
        (lambda x: m.segment_max(x, [0, 0, 1]), [2.0, 2.0, 1.0], "segment_max"),
        (lambda x: m.unsorted_segment_min(x, [1, 0, 1], 2), [2.0, 5.0, 2.0], "segment_min"),
        (lambda x: tf.tensor_scatter_nd_max(x, [[0]], x[1:2]), [2.0, 2.0], "segment_max"),
        (lambda x: tf.sort(x) * [1.0, 2.0, 3.0], [2.0, 2.0, 1.0], "order"),
        (lambda x: m.top_k(x, 1)[0] ** 2.0, [2.0, 2.0], "order"),
        (tf.norm, [0.0, 0.0], "norm"),
        (m.reduce_std, [2.0, 2.0], "norm"),
    ],
)
def test_a_tie_is_a_convention_and_names_its_op(f: Any, at: Any, op: str) -> None:
    for order in (1, 2):
        report = check(f, np.array(at), order=order)
        assert report.verdict == "convention" and report.ok
        assert {x.op for x in report.findings} == {op}


@pytest.mark.parametrize(
    ("f", "at"),
    [
        (tf.reduce_max, [2.0, 2.5, 1.0]),
        (lambda x: m.segment_max(x, [0, 1, 1]), [2.0, 2.0, 1.0]),
        (tf.norm, [0.0, 1.0]),
        (lambda x: tf.sort(x) * [1.0, 2.0, 3.0], [2.0, 3.0, 1.0]),
        (tf.reduce_max, [2.0, 1.0, 1.0]),
    ],
)
def test_equal_elements_that_do_not_matter_are_no_tie(f: Any, at: Any) -> None:
    assert check(f, np.array(at)).verdict == "correct"


def test_a_choice_at_a_tie_is_a_convention_where_it_matters() -> None:
    report = check(lambda x: tf.where(x > 0, x * x, -x), np.array([0.0, 1.0]))
    assert report.ok and [(f.verdict, f.op) for f in report.findings] == [("convention", "greater")]
    for f, verdict in (
        (lambda x: tf.where(x > 0, x * x, -x * x), "correct"),
        (lambda x: tf.where(x > 0, tf.math.log(x), 0.0), "convention"),
    ):
        assert check(f, np.array([0.0, 1.0])).verdict == verdict


def test_where_kinks_cancel_the_true_derivative_may_be_claimed() -> None:
    for claimed, ok in ((1.0, True), (0.0, False), (0.5, False)):
        assert judge(lambda x: tf.nn.relu(x) - tf.nn.relu(-x), 0.0, claimed).ok is ok, claimed


def test_neighbouring_floats_are_no_tie() -> None:
    assert check(tf.reduce_max, np.array([1.0, np.nextafter(1.0, 2.0)])).verdict == "correct"


UNARY = [
    p.name
    for p in REGISTRY.values()
    if p.public and p.kind == "elementwise" and len(p.rules) == 1 and p.differentiable and not p.params
]


@pytest.mark.parametrize("name", UNARY)
def test_second_derivatives_at_special_points_are_conventions_at_most(name: str) -> None:
    p = REGISTRY[name]
    points = [x for x in (*p.special, *p.kinks, 0.0) if isinstance(x, (int, float)) and (x,) in p.domain]
    report = check(p.function, np.array(points or [1.0]), order=2)
    assert report.verdict not in ("rule", "unstable", "undecided"), report.findings[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("f", "slope"),
    [
        (lambda x: tf.reduce_sum(tf.linalg.eigvalsh(x) ** 3), 48.0),
        (lambda x: tf.reduce_sum(tf.linalg.svd(x, compute_uv=False) ** 2), 8.0),
    ],
    ids=["eigvalsh", "svd"],
)
def test_claims_at_equal_values_are_held_to_what_the_matrix_can_move(f: Any, slope: float) -> None:
    # Noise parts equal values, and a derivative that divides by their distance bounds nothing.
    x = 4.0 * np.eye(3)
    for off, right in ((0.0, True), (1e-15, True), (1e-10, False), (1e-8, False)):
        claim = slope * np.eye(3)
        claim[0, 0] *= 1.0 + off
        assert judge(f, x, claim).ok == right


def _trace(x: Any) -> Any:
    return tf.reduce_sum(tf.linalg.eigvalsh(x))


def _cubes(x: Any) -> Any:
    return tf.reduce_sum(tf.linalg.eigvalsh(x) ** 3)


def _nuclear(x: Any) -> Any:
    return tf.reduce_sum(tf.linalg.svd(x, compute_uv=False))


def _complex_nuclear(x: Any) -> Any:
    return tf.reduce_sum(tf.linalg.svd(tf.complex(x, 0.0 * x), compute_uv=False))


@pytest.mark.parametrize(
    ("f", "x", "slopes"),
    [
        (_trace, [1.0, 1.0], [1.0, 1.0]),
        (_trace, [3.0, 3.0, 1.0], [1.0, 1.0, 1.0]),
        (_trace, [1.0, 1.0 + 2.0**-50], [1.0, 1.0]),
        (_cubes, [1.0, 1.0], [3.0, 3.0]),
        (_cubes, [2.0, 2.0, 1.0], [12.0, 12.0, 3.0]),
        (_nuclear, [2.0, 2.0], [1.0, 1.0]),
        (_nuclear, [2.0, 2.0, 2.0], [1.0, 1.0, 1.0]),
        (_nuclear, [2.0, 2.0, 1.0], [1.0, 1.0, 1.0]),
        pytest.param(_complex_nuclear, [2.0, 2.0], [1.0, 1.0], marks=pytest.mark.slow),
    ],
)
def test_claims_at_equal_values_are_held_as_closely_as_at_different_ones(
    f: Any, x: list[float], slopes: list[float]
) -> None:
    # The vectors of equal values turn by any angle, but those of a stable algorithm stay orthogonal.
    for off, wrong in ((0.0, None), (1e-15, None), (1e-12, "unstable"), (1e-8, "rule"), (1e-3, "rule")):
        claim = np.diag(slopes)
        claim[0, 0] *= 1.0 + off
        report = judge(f, np.diag(x), claim)
        assert report.ok if wrong is None else report.verdict == wrong


@given(
    seed=st.integers(0, 2**32 - 1),
    values=st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=2, max_size=4),
    off=st.sampled_from([1e-11, 1e-9, 1e-8, 1e-5]),
)
@settings(max_examples=1 + settings.default.max_examples // 12)
def test_stable_algorithms_are_right_in_every_basis_and_small_faults_are_not(
    seed: int, values: list[float], off: float
) -> None:
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values), len(values))))[0]
    u, _, v = np.linalg.svd(basis * values)
    claim = u @ v
    assert judge(_nuclear, basis * values, claim).ok
    assert not judge(_nuclear, basis * values, np.where(np.abs(claim) == np.abs(claim).max(), 1 + off, 1) * claim).ok


_SMOOTH: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "exp": (lambda x, y: tf.maximum(tf.exp(x), tf.exp(y)) + tf.minimum(tf.exp(x), tf.exp(y)), [1.0, 1.0], [E, E]),
    "thirds": (lambda x, y: tf.maximum(x / 3, y / 3) + tf.minimum(x / 3, y / 3), [1.0, 1.0], [1 / 3, 1 / 3]),
    "formulas": (
        lambda x: tf.maximum(tf.exp(x), tf.exp(2 * x - 1)) + tf.minimum(tf.exp(x), tf.exp(2 * x - 1)), [1.0], [3 * E],
    ),
    "inverses": (
        lambda x: tf.nn.relu(tf.math.log(tf.exp(x)) - 1.0) - tf.nn.relu(1.0 - tf.math.log(tf.exp(x))), [1.0], [1.0],
    ),
    "comparison": (
        lambda x, y: tf.where(tf.equal(tf.exp(x), tf.exp(y)), 7 * x, tf.exp(x) - tf.exp(y) + 7 * x),
        [1.0, 1.0], [7 + E, -E],
    ),
    "index": (
        lambda x: tf.gather(tf.exp(x), tf.argmax(tf.exp(x))) + tf.gather(tf.exp(x), tf.argmin(tf.exp(x))),
        [[1.0, 1.0]], [[E, E]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _SMOOTH)
def test_ties_of_numbers_that_no_float_holds_are_met(name: str) -> None:
    """Enclosures of such numbers overlap, and are never certainly equal."""
    f, xs, right = _SMOOTH[name]
    xs = [np.array(x) for x in xs]
    report = check(f, *xs)
    assert report.verdict == "convention" and not report.ok
    wrong = next(v for v in report.findings if not v.ok)
    of, index = wrong.element
    assert float(wrong.exact) == pytest.approx(np.asarray(right[of])[index])
    for factor in (1.0, 1.5):
        claims = [np.array(r) * factor for r in right]
        assert judge(f, xs, claims if len(xs) > 1 else claims[0]).ok == (factor == 1.0)


@pytest.mark.parametrize(
    ("f", "right"),
    [
        (lambda x: m.divide_no_nan(x * x, x), 1.0),
        (lambda x: m.divide_no_nan(1 - tf.cos(x), x), 0.5),
        (lambda x: m.xdivy(x * x, x), 1.0),
        (lambda x: tf.sort(tf.stack([x, 0 * x, tf.tanh(x)]))[1], 1.0),
        (lambda x: m.top_k(tf.stack([tf.nn.elu(-x), 0 * x, -x]), 2)[0][1], -1.0),
    ],
    ids=["quotient", "cosine", "xdivy", "median", "second"],
)
def test_a_kink_where_single_arguments_show_none_is_met(f: Any, right: float) -> None:
    report = check(f, 0.0)
    assert report.verdict == "convention" and not report.ok
    assert judge(f, 0.0, right).ok
    assert not judge(f, 0.0, right + 1.0).ok


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tf.maximum(tf.abs(x) / 3, tf.abs(x / 3)),
        lambda x: tf.maximum(tf.tanh(tf.abs(x)), tf.abs(tf.tanh(x))),
        lambda x: tf.where(tf.abs(x) / 3 > tf.abs(x / 3), tf.abs(x) / 3, tf.abs(x / 3)),
        lambda x: tf.reduce_max(tf.sort(tf.stack([tf.abs(x) / 3, tf.abs(x / 3)]))),
    ],
    ids=["thirds", "tanh", "where", "sort"],
)
def test_numbers_that_stay_equal_on_one_side_of_a_kink_are_ties_there(f: Any) -> None:
    slope = float(f(tf.constant(1e-6, tf.float64))) / 1e-6
    assert check(f, 0.0).ok
    for claim in (-slope, 0.0, slope):
        assert judge(f, 0.0, claim).ok
    assert not judge(f, 0.0, 2.0 * slope).ok


def test_what_rows_share_notes_its_assumed_ties_for_each_row() -> None:
    shared, runs = Shared(), list[int]()

    def make() -> bool:
        runs.append(1)
        return tied(arb(2).sqrt(), arb(8).sqrt() / 2)

    with precision(800):
        for _ in range(2):  # two rows
            with ties_assumed() as noted:
                assert shared.get("tie", make)
            assert len(noted) == 1
        assert len(runs) == 1
        assert not shared.get("tie", make), "without assumptions another result counts"


@pytest.mark.parametrize(
    "f",
    [
        lambda h: tf.reduce_sum(tf.math.segment_max(tf.gather(h, [0, 0]) ** 2, np.array([0, 0]))),
        lambda h: tf.reduce_max(tf.gather(h, [0, 0])),
    ],
)
def test_the_slopes_at_a_tie_are_said_to_be_those_of_the_op_alone(f: Any) -> None:
    (finding,) = check(f, np.array([1.3])).findings
    assert finding.verdict == "convention"
    assert f"if the inputs of {finding.op} move apart along a direction" in finding.reason
    assert f"the slope of {finding.op} alone is" in finding.reason


def test_a_kink_before_an_op_of_several_outputs_is_judged() -> None:
    def f(x: Any) -> Any:
        first, rest = tf.split(x, [1, 3])
        v = tf.concat([rest, first], 0) * x - x
        return m.igamma(0.4 + tf.abs(0.25 * v), 0.4 + x * x)

    report = check(f, np.array([0.0, 1.0, 2.0, 0.0]))
    assert report.ok
    assert any(found.verdict == "convention" and found.op == "abs" for found in report.findings)


def _fake_quantised(w: Any) -> Any:
    step = tf.reduce_max(tf.abs(w)) / 127.0
    return tf.reduce_sum(tf.round(w / step) * step)


WHOLE = {
    "quotient": (lambda x: tf.round(x / (x / 7.0)) * x, 0.3),
    "rint": (lambda x: m.rint(x / (x / 7.0)) * x, 0.3),
    "product of roots": (lambda x: tf.round(tf.sqrt(x) * tf.sqrt(x)) * x, 3.0),
    "an even number": (lambda x: tf.round(x / (x / 4.0)) * x, 0.3),
    "fake quantisation": (_fake_quantised, [[0.1, -1.3], [0.7, 0.25]]),
}


@pytest.mark.parametrize("name", WHOLE)
def test_round_has_a_derivative_at_a_whole_number_that_is_computed(name: str) -> None:
    f, at = WHOLE[name]
    report = check(f, np.array(at))
    assert (report.verdict, report.findings) == ("correct", [])


def test_round_is_at_a_tie_halfway_between_whole_numbers() -> None:
    report = check(lambda x: tf.round(x / (x / 7.0) + 0.5) * x, 0.3)
    assert report.verdict == "convention"


def _said_of_ties(f: Any, x: Any, order: int = 1) -> list[tuple[str | None, int | None, str]]:
    """Op, line below the function's first one, and reason of each finding about numbers that were taken as ties."""
    first = f.__code__.co_firstlineno
    told = [v for v in check(f, np.array(x), order=order).findings if "taken as ties" in v.reason]
    return [(v.op, None if v.line is None else v.line[1] - first, v.reason) for v in told]


def test_assumed_ties_name_the_op_the_line_and_the_elements() -> None:
    def f(x: Any) -> Any:
        root = tf.sqrt(x) ** 2
        return tf.maximum(root, x)

    ((op, line, reason),) = _said_of_ties(f, [2.0, 4.0, 5.0])
    assert (op, line) == (tf.maximum.__name__, 2)
    assert "element [0] of argument 0 and element [0] of argument 1; element [2] of argument 0" in reason


def test_assumed_ties_inside_of_one_array_name_both_elements() -> None:
    def f(x: Any) -> Any:
        return tf.reduce_max(tf.concat([tf.sqrt(x) ** 2, [1.0], x], 0))

    ((_, line, reason),) = _said_of_ties(f, [2.0])
    assert line == 1 and "element [0] and element [2]" in reason


def test_assumed_ties_with_a_number_name_the_number() -> None:
    def f(x: Any) -> Any:
        return tf.nn.relu(tf.sin(x) ** 2 + tf.cos(x) ** 2 - 1)

    ((op, line, reason),) = _said_of_ties(f, 0.25)
    assert (op, line) == (tf.nn.relu.__name__, 1) and "0 and the argument" in reason


@pytest.mark.parametrize("order", [1, 2])
def test_a_reason_counts_each_pair_of_assumed_ties_once(order: int) -> None:
    def f(x: Any) -> Any:
        return tf.maximum(tf.sqrt(x) ** 2, x)

    told = _said_of_ties(f, np.full(5, 2.0), order)
    assert told and all("and 2 more pairs" in reason for _, _, reason in told)


def test_all_ops_that_compare_assumed_ties_are_named() -> None:
    def f(x: Any) -> Any:
        root = tf.sqrt(x) ** 2
        larger = tf.maximum(root, x)
        return larger + tf.minimum(root, x)

    reason = " ".join(reason for _, _, reason in _said_of_ties(f, 2.0))
    assert tf.minimum.__name__ in reason and f"{__file__}:{f.__code__.co_firstlineno + 3}" in reason
