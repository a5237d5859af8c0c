"""Kinks that rounding crosses: harmless only if half units in the inputs cross them, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check, exact, judge

NEAR_ONE = np.array([1.0, 1.0 + 3e-9])


def squared_distance(a: Any, b: Any) -> Any:
    return tf.reduce_sum(a * a) + tf.reduce_sum(b * b) - 2 * tf.reduce_sum(a * b)


# Well-conditioned programs whose own arithmetic loses on which side of a kink they are.
LOST: dict[str, tuple[Any, Any]] = {
    "a distance that cancels": (lambda a: tf.nn.relu(squared_distance(a, np.ones(2))), NEAR_ONE),
    "1 - cos(x)": (lambda x: tf.nn.relu(1 - tf.cos(x)) * 1e16, 1e-9),
    "log(1 + x)": (lambda x: tf.nn.relu(tf.math.log(1 + x)), 1e-17),
    "abs": (lambda x: tf.abs(1e16 + x - 1e16) * 3.0, 0.7),
    "sign": (lambda x: tf.sign(1e16 + x - 1e16) * x, 0.7),
    "leaky_relu": (lambda x: tf.nn.leaky_relu(1e16 + x - 1e16), 0.7),
    "floor": (lambda x: tf.floor(1e16 + x - 1e16) * x, 1.7),
    "reduce_max": (lambda x: tf.reduce_max(tf.stack([1 + x, 1 - x])), 1e-17),
    "a comparison": (lambda x: tf.where(1 + x > 1 - x, x, 2 * x), 1e-17),
    "argmax": (lambda x: tf.gather(tf.stack([x, 2 * x]), tf.argmax(tf.stack([1 - x, 1 + x]))), 1e-17),
}


@pytest.mark.parametrize("name", LOST)
def test_a_kink_that_only_the_programs_own_roundings_cross_excuses_no_wrong_number(name: str) -> None:
    f, x = LOST[name]
    report = check(f, x)
    assert not report.ok and report.verdict == "cancellation", report
    assert not judge(f, x, report.findings[0].got if np.ndim(x) == 0 else np.zeros(2)).ok
    right = np.vectorize(float)(exact(f, x))
    assert judge(f, x, right).ok


@pytest.mark.parametrize("order", [2, 3])
def test_a_crossed_kink_excuses_no_wrong_number_at_higher_orders(order: int) -> None:
    report = check(lambda x: tf.nn.relu(1 - tf.cos(x)) * tf.exp(x), 1e-9, order=order)
    assert not report.ok and report.verdict == "cancellation", report


def test_a_kink_that_an_underflow_reaches_is_named_as_one() -> None:
    report = check(lambda x: tf.abs(x * x) * 1e10, np.float32(1e-25))
    assert not report.ok and report.verdict == "range" and "underflows float32" in report.findings[0].reason


def test_a_strict_tape_raises_an_error_for_a_variance_that_cancels_to_0() -> None:
    x = tf.Variable([1000.01, 1000.02, 1000.03, 1000.05])
    with tf.GradientTape(verify="strict") as tape:
        y = tf.nn.relu(tf.reduce_mean(x * x) - tf.reduce_mean(x) ** 2)
    with pytest.raises(tf.errors.VerificationError, match="cancellation"):
        tape.gradient(y, x)


def test_only_the_element_whose_kink_the_inputs_reach_is_excused() -> None:
    def f(x: Any) -> Any:
        return tf.reduce_sum(tf.nn.relu(tf.stack([1e16 + x[0] - 1e16, x[1] + x[2] - x[3]])))

    # 0.1 + 0.2 - 0.3 is 2.8e-17 exactly, and half units in these numbers change its sign.
    report = check(f, np.array([0.7, 0.1, 0.2, 0.30000000000000004]))
    wrong = [v for v in report.findings if not v.ok]
    assert [v.verdict for v in wrong] == ["cancellation"] and wrong[0].element == (0, (0,))


# Programs at points where half a unit in the inputs crosses the kink, as rounding does.
NEAR: dict[str, tuple[Any, Any]] = {
    "a sum of three numbers": (lambda x: tf.nn.relu(x[0] + x[1] - x[2]), np.array([0.1, 0.2, 0.30000000000000004])),
    "a decimal": (lambda x: tf.nn.relu(x * 0.1 - 0.03), 0.3),
    "a maximum": (lambda x: tf.maximum(x[0] + x[1], 2.0 * x[2]), np.array([0.1, 0.2, 0.15000000000000002])),
    "a floor": (lambda x: tf.floor(x * 10.0) * x, np.float32(0.3)),
    "a mean": (lambda x: tf.nn.relu(tf.reduce_mean(x) - 0.5), None),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", NEAR)
def test_a_kink_within_half_units_of_the_inputs_excuses_the_other_side(name: str, seed: int) -> None:
    f, x = NEAR[name]
    if x is None:
        drawn = np.random.default_rng(seed).uniform(size=2000).astype(np.float32)
        x = drawn - np.float32(np.mean(drawn, dtype=np.float64) - 0.5)
    assert check(f, x).ok


@pytest.mark.parametrize("seed", range(6))
def test_units_of_a_net_in_float32_that_roundings_switch_stay_conditioning(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(16, 8)).astype("f"), rng.normal(size=(16, 16)).astype("f")
    x = rng.normal(size=8).astype("f")
    hidden = np.maximum(first @ x, 0)
    bias = -(second @ hidden)  # all units of the second layer are within roundings of their kinks

    def net(x: Any) -> Any:
        hidden = tf.nn.relu(tf.linalg.matvec(tf.constant(first), x))
        return tf.reduce_sum(tf.nn.relu(tf.linalg.matvec(tf.constant(second), hidden) + bias))

    assert check(net, x).ok


def _hinge(x: Any) -> Any:
    above = tf.reduce_mean(tf.nn.relu(x - 1) ** 2)
    return tf.keras.losses.squared_hinge(tf.ones(2, tf.float64), x) + above


def _extremes(x: Any) -> Any:
    return tf.norm(x, ord=np.inf) + tf.reduce_min(tf.abs(x))


MET: dict[str, tuple[Any, Any, Any, int]] = {  # function, point, exact derivative, order
    "two ties": (_extremes, np.array([1.0, -1.0]), np.array([1.0, -1.0]), 1),
    "two kinks": (_hinge, np.array([1.0, 2.0]), np.array([[1.0, 0.0], [0.0, 1.0]]), 2),
}


@pytest.mark.parametrize("factor", [-1.0, 0.0, 0.5, 1.3, 2.0, 4.0, 1 + 1e-9])
@pytest.mark.parametrize("name", MET)
def test_a_kink_without_rounding_takes_no_digits_from_a_wrong_claim(name: str, factor: float) -> None:
    f, at, right, order = MET[name]
    assert judge(f, (at,), right, order=order).ok
    claimed = right.copy()
    claimed.flat[0] *= factor
    report = judge(f, (at,), claimed, order=order)
    assert (report.verdict, report.ok) == ("rule", False), report


# Programs beside a kink that noise crosses, the point, and the derivative there.
BESIDE: dict[str, tuple[Any, Any, float]] = {
    "abs": (lambda x: tf.abs(x * 3 - 0.3), 0.1, 3.0),
    "relu": (lambda x: tf.nn.relu(x * 3 - 0.3), 0.1, 3.0),
    "maximum": (lambda x: tf.maximum(x * 3 - 0.3, x * 0.25 - 0.025), 0.1, 3.0),
    "a root of a square": (lambda x: tf.sqrt((x * 3 - 0.3) ** 2), 0.1, 3.0),
    "abs at the smallest number": (lambda x: tf.abs(x * 3), 5e-324, 3.0),
    "relu at the smallest number": (lambda x: tf.nn.relu(x * 3) * 2, 5e-324, 6.0),
    "maximum at the smallest number": (lambda x: tf.maximum(x * 2, -x), 5e-324, 2.0),
}


@pytest.mark.parametrize("name", BESIDE)
def test_a_kink_nearby_excuses_no_number_that_is_no_derivative(name: str) -> None:
    f, x, slope = BESIDE[name]
    x = tf.constant(x, tf.float64)
    assert judge(f, x, slope).ok
    for claim in (slope + 2, slope / 2, slope * (1 + 1e-3), slope * (1 + 1e-10), slope * (1 - 1e-10), 1e300):
        report = judge(f, x, claim)
        assert not report.ok and report.verdict in ("rule", "unstable"), (claim, report)


def test_digits_that_roundings_lose_beside_a_kink_keep_their_excuse() -> None:
    def f(x: Any, y: Any) -> Any:
        return tf.nn.relu(x * 3 - 0.3) * y

    x, y = tf.constant(0.1, tf.float64), tf.constant(2.0, tf.float64)
    lost = 0.1 * 3 - 0.3  # no digit of the difference is right
    assert judge(f, (x, y), (6.0, lost)).verdict in ("cancellation", "conditioning")
