"""A wrong claim in float32 is wrong algebra, unless a formula could lose as many digits in this dtype at this point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import judge

X = np.linspace(-1, 1, 24).reshape(8, 3)
W = np.array([0.3, 0.5, 0.7])
SLOPE = 2 * X.T @ (X @ W) / 8

WRONG: dict[str, Callable[[Any], Any]] = {
    "ten percent more": lambda g: 1.1 * g,
    "ten percent less": lambda g: 0.9 * g,
    "one percent more": lambda g: 1.01 * g,
    "halved": lambda g: g / 2,
    "another sign": lambda g: -g,
    "the slope of a regulariser": lambda g: g + 0.02 * W,
}


def _mean_of_squares(w: Any) -> Any:
    return tf.reduce_mean(tf.linalg.matvec(tf.constant(X, w.dtype), w) ** 2)


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_wrong_gradient_of_a_mean_of_squares_is_wrong_algebra(dtype: str, name: str) -> None:
    assert judge(_mean_of_squares, W.astype(dtype), SLOPE.astype(dtype)).ok
    assert judge(_mean_of_squares, W.astype(dtype), WRONG[name](SLOPE).astype(dtype)).verdict == "rule"


def test_a_wrong_gradient_in_float32_of_a_function_in_float64_is_wrong_algebra() -> None:
    assert judge(_mean_of_squares, W, (SLOPE + 0.02 * W).astype("f")).verdict == "rule"


def test_a_thousandth_more_is_wrong_algebra() -> None:
    x = np.array([0.3, 0.8, 1.4], "f")
    claim = (1.001 * (np.cos(x) * x + np.sin(x))).astype("f")
    assert judge(lambda x: tf.reduce_sum(tf.sin(x) * x), x, claim).verdict == "rule"


def test_one_minus_a_number_close_to_one_loses_digits() -> None:
    x = np.array([-8.0, 3.0, -12.0], "f")
    claim = (1 - 1 / (1 + np.exp(x))).astype("f")
    assert judge(lambda x: tf.reduce_sum(tf.math.softplus(x)), x, claim).verdict == "unstable"


def test_a_mean_of_squares_less_the_square_of_the_mean_loses_digits() -> None:
    x = (100 + np.array([0.1, 0.2, 0.4])).astype("f")
    variance = (x * x).mean() - x.mean() ** 2
    claim = ((x - x.mean()) / (3 * np.sqrt(variance))).astype("f")
    assert judge(tf.math.reduce_std, x, claim).verdict == "unstable"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_minus_the_other_probabilities_loses_digits(dtype: str) -> None:
    x = (10 * np.random.default_rng(1).normal(size=5)).astype(dtype)
    e = np.exp(x)
    claim = np.array([1 - (e.sum() - one) / e.sum() for one in e], dtype)
    assert judge(tf.reduce_logsumexp, x, claim).verdict == "unstable"
    assert judge(tf.reduce_logsumexp, x, (1.01 * e / e.sum()).astype(dtype)).verdict == "rule"
