"""Claims at ties: inside the interval of each element, and compared along directions of several elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtape as tf
from gtape.verify import exact, judge


def _weighted_order(x: Any) -> Any:
    return tf.reduce_sum(tf.sort(x) * tf.constant([1.0, 2.0, 3.0], x.dtype))


def _pairs(x: Any) -> Any:
    return tf.reduce_sum(tf.abs(x[:, None] - x[None, :]))


def _pooled(x: Any) -> Any:
    return tf.reduce_sum(tf.nn.max_pool2d(tf.reshape(x, [1, 4, 2, 1]), 2, 2, "VALID"))


def _units(x: Any) -> Any:
    w = tf.constant([[1.0, 1.0], [2.0, 2.0], [1.0, -1.0]], x.dtype)
    return tf.reduce_sum(tf.nn.relu(tf.linalg.matvec(w, x)))


def _segments(x: Any) -> Any:
    return tf.reduce_sum(tf.math.segment_max(x, [0, 0, 1]))


# A function, a point, the claims between its one-sided derivatives along all directions, and claims that are not.
CASES: dict[str, tuple[Any, Any, list[Any], list[Any]]] = {
    "max": (tf.reduce_max, [3.0, 3.0], [[1, 0], [0.25, 0.75]], [[1, 1], [0, 0], [0.5, 0.501]]),
    "max of some": (tf.reduce_max, [1.0, 2.0, 2.0], [[0, 0.5, 0.5]], [[0, 1, 1], [0, 0, 0]]),
    "max of sizes": (
        lambda x: tf.maximum(x[0], 1e8 * x[1]), [1e8, 1.0], [[0.5, 5e7], [1, 0]], [[0, 0], [1, 1e8]]
    ),
    "tiny slopes": (lambda x: tf.maximum(1e-40 * x[0], x[1]), [0.0, 0.0], [[1e-40, 0], [0, 1]], [[0, 0], [1e-40, 1]]),
    "largest norm": (lambda x: tf.norm(x, ord=np.inf), [1.0, -1.0], [[0.5, -0.5]], [[0, 0], [1, -1]]),
    "norm 1": (lambda x: tf.norm(x, ord=1), [0.0, 0.0], [[0, 0], [1, 1], [-0.5, 1]], []),
    "absolute sum": (lambda x: tf.abs(tf.reduce_sum(x)), [1.0, -1.0], [[0, 0], [0.5, 0.5]], [[1, -1], [1, 0]]),
    "units of a layer": (_units, [1.0, -1.0], [[1, -1], [4, 2], [2.5, 0.5]], [[4, -1], [0, 0]]),
    "pools": (_pooled, [2.0] * 8, [[0.25] * 8, [1, 0, 0, 0, 0, 0, 0, 1]], [[1] * 8, [0] * 8]),
    "sort": (_weighted_order, [2.0, 2.0, 2.0], [[2, 2, 2], [3, 1, 2]], [[3, 3, 3], [1, 1, 1]]),
    "least and greatest": (
        lambda x: tf.sort(x)[0] + tf.sort(x)[2], [1.0, 1.0, 1.0], [[1, 0, 1], [2 / 3] * 3], [[1, 0, 0]]
    ),
    "ridge": (lambda x: tf.nn.relu(x[0] - 10.0 * tf.abs(x[1])), [0.0, 0.0], [[1, 10], [1, -10], [0.5, 0]], []),
    "ridge or plane": (
        lambda x: tf.maximum(x[0] - 4.0 * tf.abs(x[1]), x[2]), [0.0, 0.0, 0.0], [[1, 4, 0], [0.5, 0, 0.5]],
        [[1, 0, 1], [0, 0, 0]],
    ),
    "middle": (lambda x: tf.sort(x)[1], [1.0, 1.0, 1.0], [[0, 1, 0], [0.5, 0.25, 0.25]], [[1, 1, 1]]),
    "distances": (_pairs, [1.0, 1.0, 2.0], [[-2, -2, 4], [-4, 0, 4]], [[-4, -4, 4], [-2, 0, 4]]),
    "segments": (_segments, [3.0, 3.0, 1.0], [[0.5, 0.5, 1]], [[1, 1, 1], [0, 0, 1]]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("f", "x", "inside", "outside"), CASES.values(), ids=CASES)
def test_claims_are_compared_along_directions_of_several_elements(
    f: Any, x: Any, inside: Any, outside: Any, dtype: str
) -> None:
    x = np.array(x, dtype)
    for claim in inside:
        report = judge(f, x, np.array(claim, dtype))
        assert report.ok and report.verdict == "convention", (claim, report)
    for claim in outside:
        report = judge(f, x, np.array(claim, dtype))
        assert not report.ok and report.verdict in ("convention", "rule"), (claim, report)


@pytest.mark.slow
@pytest.mark.parametrize("n", [5, 40])
def test_any_share_of_many_equal_numbers_passes_if_it_adds_up(n: int) -> None:
    share = np.random.default_rng(n).dirichlet(np.ones(n))
    for claim, ok in ((share, True), (np.ones(n) / n, True), (1.001 * share, False), (np.ones(n), False)):
        assert judge(tf.reduce_max, np.full(n, 7.0), claim).ok == ok


def test_the_report_names_the_direction_and_both_derivatives() -> None:
    finding = judge(tf.reduce_max, np.array([3.0, 3.0]), np.array([1.0, 1.0])).findings[0]
    assert finding.reason == (
        "along (1, 1) of elements [0], [1] all one-sided derivatives of the function as a whole are 1, but the claims "
        "give 2"
    )
    two = judge(tf.maximum, (3.0, 3.0), (1.0, 1.0)).findings[0]
    assert "of elements [] of source 0, [] of source 1 all" in two.reason


def test_numbers_of_a_network_by_the_conventions_of_its_ops_pass() -> None:
    rng = np.random.default_rng(5)
    first, second = tf.constant(rng.normal(size=(6, 4))), tf.constant(rng.normal(size=(3, 6)))

    def network(x: Any) -> Any:
        return tf.reduce_sum(tf.linalg.matvec(second, tf.nn.relu(tf.linalg.matvec(first, x))))

    with tf.GradientTape() as tape:
        x = tf.zeros(4, tf.float64)
        tape.watch(x)
        y = network(x)
    assert judge(network, np.zeros(4), tape.gradient(y, x)).ok


@pytest.mark.parametrize(
    ("factor", "x", "sides"),
    [(10.0, [0.3, 3.0], [[10.0, 0.0], [0.0, 1.0]]), (10.0, [1.1, 11.0], [[10.0, 0.0], [0.0, 1.0]])],
)
def test_beside_a_tie_of_rounded_numbers_claims_are_those_of_one_side(
    factor: float, x: list[float], sides: list[list[float]]
) -> None:
    def greater(x: Any) -> Any:
        return tf.maximum(factor * x[0], x[1])

    assert factor * x[0] == x[1]  # of floats; the exact product differs by less than half a unit in x[0] does
    for claim in sides:
        report = judge(greater, (np.array(x),), np.array(claim))
        assert report.ok and report.verdict in ("correct", "conditioning"), report
    for claim in ([10.0, 1.0], [0.0, 0.0], [5.0, 0.5]):
        assert not judge(greater, (np.array(x),), np.array(claim)).ok, claim


# Smooth functions whose slopes are rounded, so that the slopes as floats lie beside the exact ones.
SMOOTH: dict[str, Any] = {
    "tanh": tf.tanh,
    "exp": tf.exp,
    "sin": tf.sin,
    "falling": lambda x: tf.exp(-3.0 * x),
    "gelu": tf.nn.gelu,
    "root": lambda x: tf.sqrt(1.0 + x * x),
    "square": tf.square,
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("smooth", SMOOTH.values(), ids=SMOOTH)
@settings(max_examples=1 + settings.default.max_examples // 8)
@given(p=st.floats(0.25, 3.0, width=32), share=st.floats(0.0, 1.0, width=32), least=st.booleans())
def test_a_tie_that_is_counted_twice_fails_behind_any_smooth_function(
    smooth: Any, dtype: str, p: float, share: float, least: bool
) -> None:
    chosen = tf.minimum if least else tf.maximum
    slope = float(str(exact(smooth, np.array(p, dtype))[()]))
    args = np.array(p, dtype), np.array(p, dtype)

    def judged(*claims: float) -> bool:
        return judge(lambda x, y: smooth(chosen(x, y)), args, tuple(np.array(c, dtype) for c in claims)).ok

    assert judged(slope, 0.0)
    assert judged(share * slope, slope - share * slope)
    assert not judged(slope, slope)
    assert not judged(slope, 0.5 * slope)


@pytest.mark.slow
def test_a_rounded_end_of_one_interval_excuses_no_claim_by_another_element() -> None:
    def several(x: Any, y: Any) -> Any:
        greatest = tf.math.segment_max(tf.stack([y, x]), [0, 0])[0]
        return tf.tanh(y) - tf.math.log1p(y * y) - greatest / 6.0

    low, high = (float(str(e[()])) for e in (exact(lambda y: tf.tanh(y) - tf.math.log1p(y * y) - y / 6.0, 1.0),
                                             exact(lambda y: tf.tanh(y) - tf.math.log1p(y * y), 1.0)))  # fmt: skip
    for claim, ok in (((0.0, low), True), ((-1 / 6, high), True), ((-1 / 6, low), False), ((0.0, high), False)):
        assert judge(several, (1.0, 1.0), claim).ok == ok, claim
