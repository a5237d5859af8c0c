"""Smooth points where an op only looks as if it had a kink: steep powers, tiny lengths, lengths that only decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check, judge


@pytest.mark.parametrize("exponent", [1e18, 1e100, 1e300])
@pytest.mark.parametrize("op", [tf.pow, lambda x, y: x**y])
def test_a_power_of_one_is_smooth_however_large_the_exponent_is(op: Callable[..., Any], exponent: float) -> None:
    assert check(lambda t: op(t, exponent), 1.0).verdict == "correct"


@pytest.mark.parametrize("x", [[0.0, 0.0], [0.0, -0.0]])
def test_lengths_have_a_kink_at_the_zero_vector_alone(x: list[float]) -> None:
    for f in (lambda t: tf.math.hypot(t[0], t[1]), tf.norm):
        assert check(f, x).verdict == "convention"
        for beside in ([5e-324, 0.0], [0.0, 1e-310], [1e-100, 0.0], [0.0, 3.0]):
            for order in (1, 2):
                found = {v.verdict for v in check(f, beside, order=order).findings}
                assert found <= {"correct", "range"}, (beside, order)


@pytest.mark.parametrize(("dtype", "exponent"), [("float64", 1e300), ("float32", 1e15)])
def test_a_steep_power_is_ill_conditioned_and_crosses_no_kink(dtype: str, exponent: float) -> None:
    report = judge(lambda t: tf.pow(t[0], t[1]), (np.array([1.0, exponent], dtype),), np.zeros(2, dtype))
    assert [f.verdict for f in report.findings] == ["conditioning"] and "kink" not in str(report)


def test_half_a_unit_still_moves_a_function_across_a_kink() -> None:
    report = judge(lambda t: tf.nn.relu((t - 0.1) + 2.0**-60) * 3.0, (0.1,), 0.0)
    assert report.verdict == "conditioning" and "other side of a kink" in str(report)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("f", [lambda t: tf.clip_by_norm(t, 1.0), tf.nn.l2_normalize])
def test_a_length_that_only_decides_leaves_the_zero_vector_smooth(f: Callable[[Any], Any], order: int) -> None:
    assert check(f, [0.0, 0.0], order=order).verdict == "correct"
    assert check(lambda t: f(t) + tf.norm(t), [0.0, 0.0], order=order).verdict == "convention"
