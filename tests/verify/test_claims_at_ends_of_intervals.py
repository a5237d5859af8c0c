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
