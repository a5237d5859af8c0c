"""Kernels of the smooth activations and their first derivatives, from e = exp(-|x|), which never overflows."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.kernels.elementary import exp_times, in_float64, split_square
from gtape.kernels.pairs import two_sum

SELU_SCALE = 1.0507009873554804934193349852946
SELU_SCALE_ALPHA = 1.7580993408473768599402175208123


def sigmoid(x: Any) -> Any:
    """1/(1 + exp(-x)), in the dtype of `x`."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0.0, e, x.dtype.type(1.0)) / (1.0 + e)


def sigmoid_slope(x: Any) -> Any:
    """sigmoid(x)*sigmoid(-x) in the dtype of `x`. (1 + e)² is 1 + e(2 + e) here, which rounds once if e is tiny."""
    e = np.exp(-np.abs(x))
    return e / (1.0 + e * (2.0 + e))


@in_float64
def sigmoid_curve(x: Any) -> Any:
    """-sigmoid'(x) tanh(x/2)."""
    return -sigmoid_slope(x) * np.tanh(0.5 * x)


@in_float64
def softplus(x: Any) -> Any:
    """log(1 + exp(x))."""
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


@in_float64
def log_sigmoid(x: Any) -> Any:
    """-log(1 + exp(-x))."""
    return np.minimum(x, 0.0) - np.log1p(np.exp(-np.abs(x)))


@in_float64
def softsign(x: Any) -> Any:
    """x/(1 + |x|)."""
    a = np.abs(x)
    return np.where(a == np.inf, np.sign(x), x / (1.0 + a))


@in_float64
def softsign_slope(x: Any) -> Any:
    """1/(1 + |x|)²."""
    a = np.abs(x)
    d = 1.0 + a
    low = np.where(a < 1.0, (1.0 - d) + a, np.where(a < 1e30, (a - d) + 1.0, 0.0))
    r = 1.0 / d
    return (r / d) * (1.0 - 2.0 * (low * r))


@in_float64
def elu(x: Any) -> Any:
    """x for x >= 0, exp(x) - 1 for x < 0."""
    return np.where(x < 0.0, np.expm1(x), x)


def elu_slope(x: Any) -> Any:
    """1 for x >= 0, exp(x) for x < 0."""
    return np.exp(np.minimum(x, 0.0))


@in_float64
def elu_curve(x: Any) -> Any:
    """0 for x >= 0, exp(x) for x < 0."""
    return np.where(x >= 0.0, 0.0, np.exp(x))


@in_float64
def selu(x: Any) -> Any:
    """Scaled elu. The scale makes mean 0 and variance 1 a fixed point."""
    return np.where(x < 0.0, SELU_SCALE_ALPHA * np.expm1(x), SELU_SCALE * x)


@in_float64
def selu_slope(x: Any) -> Any:
    """The scale for x >= 0, scale*alpha*exp(x) for x < 0."""
    return np.where(x >= 0.0, SELU_SCALE, exp_times(np.minimum(x, 0.0), SELU_SCALE_ALPHA))


@in_float64
def selu_curve(x: Any) -> Any:
    """0 for x >= 0, scale*alpha*exp(x) for x < 0."""
    return np.where(x >= 0.0, 0.0, exp_times(np.minimum(x, 0.0), SELU_SCALE_ALPHA))


# silu, mish ----------------------------------------------------------------------------------------------------------


@in_float64
def silu(x: Any) -> Any:
    """x*sigmoid(x)."""
    a = -np.abs(x)
    d = 1.0 + np.exp(a)
    left = exp_times(a, np.maximum(a, -1e4) / d)
    return np.where(x < 0.0, left, x / d)


@in_float64
def silu_slope(x: Any) -> Any:
    """silu'(x), computed at -|x|. For x > 0 by silu(x) = x + silu(-x)."""
    a = np.minimum(np.abs(x), 1e4)
    e = np.exp(-a)
    left = exp_times(-a, ((1.0 - a) + e) / (1.0 + e * (2.0 + e)))
    return np.where(x < 0.0, left, 1.0 - left)


@in_float64
def mish(x: Any) -> Any:
    """x*tanh(softplus(x))."""
    a = -np.abs(x)
    e = np.exp(a)
    left = exp_times(a, np.maximum(a, -1e4) * ((2.0 + e) / (2.0 + e * (2.0 + e))))
    return np.where(x < 0.0, left, x * ((1.0 + 2.0 * e) / (1.0 + 2.0 * e * (1.0 + e))))


@in_float64
def mish_slope(x: Any) -> Any:
    """mish'(x), a rational function of e = exp(-|x|) with coefficients linear in |x|."""
    a = np.minimum(np.abs(x), 1e4)
    e = np.exp(-a)

    square, square_low = split_square(e)
    part, part_low = two_sum(2.0, 2.0 * e)
    d, low = two_sum(part, square)
    low = low + (part_low + square_low)
    first, first_low = two_sum(1.0, -a)
    top, top_low = two_sum(((e + 4.0) * e + (6.0 - 4.0 * a)) * e, 4.0 * first)
    left = top / (d * d)
    left = exp_times(-a, left + ((top_low + 4.0 * first_low) / (d * d) - left * (2.0 * low / d)))

    part, part_low = two_sum(1.0, 2.0 * e)
    d, low = two_sum(part, 2.0 * square)
    low = low + (part_low + 2.0 * square_low)
    right = ((((4.0 + 4.0 * a) * e + (6.0 + 4.0 * a)) * e + 4.0) * e + 1.0) / (d * d)
    return np.where(x < 0.0, left, right - right * (2.0 * low / d))
