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


def _refused(f: Any, x: Any, inside: list[Any], outside: list[Any]) -> list[tuple[Any, Any]]:
    """The claims outside with their reports, after all claims inside passed and all outside were refused."""
    for claim in inside:
        report = judge(f, x, np.array(claim, x.dtype))
        assert report.ok and report.verdict == "convention", (claim, report)
    refused = [(claim, judge(f, x, np.array(claim, x.dtype))) for claim in outside]
    assert not any(report.ok for _, report in refused), refused
    return refused


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("f", "x", "inside", "outside"), CASES.values(), ids=CASES)
def test_claims_are_compared_along_directions_of_several_elements(
    f: Any, x: Any, inside: Any, outside: Any, dtype: str
) -> None:
    for claim, report in _refused(f, np.array(x, dtype), inside, outside):
        assert report.verdict in ("convention", "rule"), (claim, report)


def _length(x: Any) -> Any:
    return tf.sqrt(tf.reduce_sum(x * x))


def _bent(x: Any) -> Any:
    return tf.nn.relu(x[0]) + tf.nn.relu(x[1]) - tf.nn.relu(-x[0] - x[1])


def _three(x: Any) -> Any:
    return tf.reduce_max(tf.stack([x[0], x[1], -x[0] - x[1]]))


# A function, a point, claims in the convex hull of the derivatives beside it, and claims in each interval alone.
HULLS: dict[str, tuple[Any, Any, list[Any], list[Any]]] = {
    "norm": (tf.norm, [0.0, 0.0], [[0.6, 0.6], [0.6, 0.8], [-0.8, 0.6], [0, 1]], [[0.9, 0.9], [0.6, -0.82]]),
    "norm of five": (
        tf.norm, [0.0] * 5, [[0.6, 0.8, 0, 0, 0], [0.44] * 5], [[0.6, 0.8, 0, 0, 0.2], [0.47] * 5]
    ),
    "root of squares": (
        _length, [0.0, 0.0], [[0.6, 0.6], [0.6, 0.8], [0, 0], [1, 0]], [[0.9, 0.9], [-0.9, 0.9], [1, 1], [-1, 0.1]]
    ),
    "root of a middle square": (
        lambda x: tf.sqrt(tf.sort(x)[1] ** 2), [0.0] * 3, [[0, 1, 0], [0, 0, -1], [0.2, 0.3, 0.5]], [[1, 1, 1]]
    ),
    "distance": (
        lambda x: tf.sqrt((x[0] - x[1]) ** 2 + (x[2] - x[3]) ** 2), [1.0, 1.0, 2.0, 2.0],
        [[0.6, -0.6, 0.8, -0.8], [1, -1, 0, 0]], [[1, -1, 1, -1], [0.9, -0.9, 0.8, -0.8]],
    ),
    "hypot": (lambda x: tf.math.hypot(x[0], x[1]), [0.0, 0.0], [[0.6, 0.8], [-0.5, 0.5]], [[0.9, 0.9], [1, -1]]),
    "concave": (lambda x: 1.0 - tf.norm(x), [0.0, 0.0], [[0.6, 0.8]], [[0.9, 0.9]]),
    "some elements": (lambda x: tf.norm(x[:2]) + x[2], [0.0, 0.0, 1.0], [[0.6, 0.8, 1]], [[0.9, 0.9, 1]]),
    "before a smooth function": (lambda x: tf.exp(3.0 * tf.norm(x)), [0.0, 0.0], [[1.8, 2.4]], [[2.7, 2.7]]),
    "norm 1": (lambda x: tf.norm(x, ord=1), [0.0, 0.0], [[1, 1], [1, -1], [-0.5, 1]], []),
    "three planes": (_three, [0.0, 0.0], [[0.4, 0.4], [1, 0], [-1, -1], [0.5, 0.5]], [[0.9, 0.9], [1, 1], [-1, 0]]),
    "least of three planes": (lambda x: -_three(x), [0.0, 0.0], [[-0.5, -0.5], [1, 1]], [[-0.9, -0.9], [1, 0]]),
    "ridge and edge": (
        lambda x: tf.nn.relu(x[0] - 100.0 * tf.abs(x[1])) - tf.abs(x[0]), [0.0, 0.0], [[0, 100], [-1, 0], [1, 0]], []
    ),
    "saddle": (lambda x: tf.abs(x[0]) - tf.abs(x[1]), [0.0, 0.0], [[1, -1], [1, 1], [0, 0]], []),
    "norms apart": (
        lambda x: tf.norm(x[:2]) - tf.norm(x[2:]), [0.0] * 4, [[0.6, 0.6, 0.6, 0.8], [0, 0, 0, 1]], [[0.9, 0.9, 0, 0]]
    ),
    "conventions of relu": (_bent, [0.0, 0.0], [[0, 0], [1, 0], [1, 1]], [[0.1, 0.1]]),
    "products": (lambda x: tf.nn.relu(x[0]) * x[1], [0.0, 2.0], [[0, 0], [1, 0], [2, 0]], []),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("f", "x", "inside", "outside"), HULLS.values(), ids=HULLS)
def test_claims_lie_in_the_convex_hull_of_the_derivatives_beside_the_point(
    f: Any, x: Any, inside: Any, outside: Any, dtype: str
) -> None:
    for claim, report in _refused(f, np.array(x, dtype), inside, outside):
        assert "the one-sided derivatives" in report.findings[0].reason, (claim, report)


def _sorted_sum(x: Any) -> Any:
    rows = np.array([[0.0, -1.0, -2.0], [0.0, 2.0, 2.0], [1.0, -1.0, -1.0]])
    return tf.reduce_sum(tf.sort(tf.linalg.matvec(rows, x)) * np.array([1.0, -2.0, 3.0]))


def _steep_and_flat(x: Any) -> Any:
    return tf.nn.leaky_relu(_sorted_sum(x), alpha=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("claim", [[3.0, 7.0, -10.0], [-2.0, 5.0, -10.0], [-2.0, -6.0, 5.0], [-2.0, -2.0, 0.5]])
def test_a_claim_beyond_all_linear_pieces_fails_for_a_function_that_bends_both_ways(claim: list[float]) -> None:
    report = judge(_steep_and_flat, np.zeros(3), np.array(claim))
    assert not report.ok and "the one-sided derivatives" in report.findings[0].reason, report


@pytest.mark.slow
@settings(max_examples=1 + settings.default.max_examples // 16, deadline=None)
@given(seed=st.integers(0, 2**16))
def test_mixes_of_the_linear_pieces_pass_for_a_function_that_bends_both_ways(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pieces = []
    for at in rng.normal(size=(3, 3)):
        with tf.GradientTape() as tape:
            x = tf.constant(at)
            tape.watch(x)
            y = _steep_and_flat(x)
        pieces.append(tape.gradient(y, x).numpy())
    assert judge(_steep_and_flat, np.zeros(3), rng.dirichlet(np.ones(3)) @ np.array(pieces)).ok


@pytest.mark.parametrize("f", [tf.abs, lambda z: tf.sqrt(tf.math.real(z * tf.math.conj(z)))], ids=["abs", "root"])
def test_claims_for_the_modulus_of_a_complex_zero_lie_in_the_unit_disc(f: Any) -> None:
    for claim in (0.6 + 0.6j, 0.6 - 0.8j, 1j, 0j):
        assert judge(f, 0j, claim).ok, claim
    for claim in (0.9 + 0.9j, 0.9 - 0.9j, 0.6 + 0.82j):
        report = judge(f, 0j, claim)
        assert not report.ok, claim
        assert "of elements [] (real part), [] (imaginary part) the one-sided" in report.findings[0].reason


@settings(max_examples=1 + settings.default.max_examples // 8)
@given(angle=st.floats(0.0, 6.28), size=st.floats(0.0, 1.0), n=st.integers(2, 4))
def test_every_element_of_the_unit_ball_passes_for_a_norm(angle: float, size: float, n: int) -> None:
    claim = np.zeros(n)
    claim[0], claim[-1] = size * np.cos(angle), size * np.sin(angle)
    assert judge(tf.norm, np.zeros(n), claim).ok


@settings(max_examples=1 + settings.default.max_examples // 8)
@given(angle=st.floats(0.2, 1.3), size=st.floats(1.001, 1.3))
def test_no_claim_longer_than_1_passes_for_a_norm(angle: float, size: float) -> None:
    assert not judge(tf.norm, np.zeros(2), size * np.array([np.cos(angle), np.sin(angle)])).ok


def test_claims_for_functions_of_several_arguments_are_compared_jointly() -> None:
    for claim, ok in (((0.6, 0.8), True), ((0.9, 0.9), False)):
        for f in (tf.math.hypot, lambda x, y: tf.sqrt(x * x + y * y)):
            assert judge(f, (0.0, 0.0), claim).ok == ok


def test_the_report_names_the_direction_and_the_interval() -> None:
    reason = judge(_three, np.zeros(2), np.array([0.9, 0.9])).findings[0].reason
    assert reason == (
        "along (1, 1) of elements [0], [1] the one-sided derivatives of the function as a whole lie in [-2, 1], but "
        "the claims give 1.8"
    )


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


@pytest.mark.parametrize("steep", [3.0, 20.0, 1000.0])
@given(share=st.floats(0.0, 1.0), up=st.booleans(), first=st.booleans())
@settings(max_examples=max(2, settings.default.max_examples // 8), deadline=None)
def test_claims_at_a_narrow_ridge_lie_in_the_hull_of_its_few_derivatives(
    steep: float, share: float, up: bool, first: bool
) -> None:
    def ridge(x: Any) -> Any:
        across, along = (x[1], x[0]) if first else (x[0], x[1])
        return tf.nn.relu(along - steep * tf.abs(across))

    def judged(across: float, along: float) -> bool:
        claim = np.array([along, across] if first else [across, along])
        return judge(ridge, np.zeros(2), claim).ok

    side = steep if up else -steep
    assert judged(share * side, share)
    assert judged(0.0, share)
    assert not judged(1.5 * side, 1.0)
    assert not judged(0.0, 1.1)
