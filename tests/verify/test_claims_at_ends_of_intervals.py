"""Claims at an end of the interval of a kink have the room for roundings that claims beside the kink have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtape as tf
from gtape.verify import judge


def clipped(x: Any) -> Any:
    return tf.reduce_sum(tf.clip_by_norm(x, 5.0))


def test_a_rounded_end_of_an_interval_passes_as_the_rounded_slope_of_the_same_branch() -> None:
    claim = np.array([0.16, -0.1200000000000001])
    x = np.array([3.0, 4.0])
    assert judge(lambda x: tf.reduce_sum(5 * x / tf.norm(x)), (x,), claim).ok
    assert judge(clipped, (x,), claim).ok
    by_tensorflow = np.array([0.15999988, -0.120000124], np.float32)
    assert judge(clipped, (x.astype("f"),), by_tensorflow).ok


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("part", [0.0, 1.0])
def test_a_number_outside_of_an_interval_by_more_than_roundings_fails(dtype: Any, part: float) -> None:
    x, lowest = np.array([3.0, 4.0], dtype), np.array([0.16, -0.12])
    claim = lowest + part * (1 - lowest)
    outward = (2 * part - 1) * np.array([0.0, 1.0])
    assert judge(clipped, (x,), claim.astype(dtype)).ok
    for ulps in (2.0**9, 2.0**16):
        wrong = (claim + outward * ulps * np.finfo(dtype).eps).astype(dtype)
        assert judge(clipped, (x,), wrong).verdict == "convention"


class Net:
    """A net of 24 units in float32 with two units at their kinks, and its gradient by backpropagation in float32."""

    x = np.array([1.0, 0.5, 0.0], np.float32)

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.first = rng.normal(size=(24, 3)).astype("f")
        self.second = rng.normal(size=(24, 24)).astype("f") / np.float32(5)
        self.last = rng.normal(size=24).astype("f")
        self.first[:2] = [1, -2, 0.7], [-1, 2, 0.3]

    def __call__(self, x: Any) -> Any:
        hidden = tf.nn.relu(tf.linalg.matvec(tf.constant(self.first), x))
        return tf.reduce_sum(tf.tanh(tf.linalg.matvec(tf.constant(self.second), hidden)) * self.last)

    def backpropagated(self) -> Any:
        before = self.first @ self.x
        hidden = np.maximum(before, 0)
        outer = np.tanh(self.second @ hidden)
        inner = self.second.T @ ((1 - outer * outer) * self.last)
        return self.first.T @ (inner * (before > 0))


@pytest.mark.parametrize("seed", [0, 12, 16, 19, 21, 22, 25, 27])
def test_backpropagation_in_float32_passes_at_the_kinks_of_a_net(seed: int) -> None:
    net = Net(seed)
    gradient = net.backpropagated()
    assert gradient.dtype == np.float32
    report = judge(net, (net.x,), gradient)
    assert report.ok, report


@settings(max_examples=max(4, settings.default.max_examples // 20))
@given(st.integers(0, 1000), st.sampled_from([lambda g: 1.01 * g, lambda g: 0.99 * g, lambda g: -g]))
def test_wrong_gradients_fail_at_the_kinks_of_a_net(seed: int, wrong: Callable[[Any], Any]) -> None:
    net = Net(seed)
    assert not judge(net, (net.x,), wrong(net.backpropagated()).astype("f")).ok


def root_of_squares(a: float, b: float) -> Any:
    return lambda x: tf.sqrt((a * tf.nn.relu(x)) ** 2 + (b * x) ** 2)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (1 / 3, 1.0), (1.0, 2.0), (0.1, 0.3)])
def test_a_one_sided_slope_of_a_root_passes_whichever_way_it_rounds(a: float, b: float, dtype: Any) -> None:
    a, b = float(dtype(a)), float(dtype(b))
    f, slope = root_of_squares(a, b), dtype(np.hypot(np.longdouble(a), np.longdouble(b)))
    for claim in (slope, np.nextafter(slope, dtype(0)), np.nextafter(slope, dtype(9)), dtype(-b)):
        assert judge(f, dtype(0.0), claim).ok
        assert judge(lambda v: tf.reduce_sum(f(v)), np.array([0.0, 1.0], dtype), np.array([claim, slope])).ok
    assert not judge(f, dtype(0.0), slope * dtype(1 + 1e-3)).ok


def test_a_rounded_end_passes_at_order_2() -> None:
    def f(x: Any) -> Any:
        return tf.sqrt(tf.exp(x) - 1 - x) * tf.nn.relu(x)

    assert judge(f, 0.0, 2**0.5, order=2).ok
    assert not judge(f, 0.0, 1.5, order=2).ok


OUTSIDE: dict[str, tuple[Any, float]] = {
    "sqrt": (root_of_squares(1.0, 1.0), 1.5),
    "sqrt beside relu": (lambda x: tf.sqrt(x * x) * np.float64(1 / 3) + tf.nn.relu(x) / 7, 0.5),
    "pow": (lambda x: tf.pow(x * x, 0.5), 1.1),
    "acos": (lambda x: tf.acos(tf.cos(x)), 1.1),
    "log": (lambda x: tf.exp(0.5 * tf.math.log(x * x)), 1.1),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_claim_outside_of_an_interval_is_told_the_interval_where_an_op_has_no_slope(name: str) -> None:
    f, claim = OUTSIDE[name]
    report = judge(f, 0.0, claim)
    assert not report.ok and report.verdict == "convention" and "lie in [" in report.findings[0].reason
