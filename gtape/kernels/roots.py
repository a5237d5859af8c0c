"""Derivatives of every order of powers of 1 + x², x² - 1, 1 - x² and 1 + x, summed in pairs."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from gtape.kernels.elementary import cbrt_parts, in_float64, recip1m2, recip1p2, rsqrt1m2, rsqrt1p2
from gtape.kernels.pair_functions import (
    exact,
    horner_pair,
    over,
    power_pair,
    rounded,
    sum_pair,
)
from gtape.kernels.pairs import Pair, multiply_pairs, sqrt_pair, two_product, two_sum
from gtape.kernels.polynomials import ONE, SMALL, Poly, exactly, odd_kernel, plus, slope, times

_LARGEST = float(np.finfo(np.float64).max)


@lru_cache(maxsize=64)
def _power_polynomial(n: int, k: int, c: int, b: int) -> Poly:
    """The polynomial P for which the n-th derivative of (c + b x²)^(-k/2) is P/(c + b x²)^(n + k/2)."""
    p: Poly = (1,)
    for m in range(n):
        p = plus(times(slope(p), (c, 0, b)), times(p, (0, b * (k + 2 * m))), -1)
    return p


def _quotient(top: Pair, base: Pair, n: int, k: int) -> Pair:
    """top/base^(n + k/2)."""
    below = power_pair(base, n + k // 2)
    if k % 2:
        root = two_sum(*sqrt_pair(base))
        below = multiply_pairs(below, root) if n else root
    return over((top[0] + 0.0 * base[0], top[1] + 0.0 * base[0]), below)


def _near(a: Any, n: int, k: int, c: int, b: int) -> Any:
    """The n-th derivative of (c + b x²)^(-k/2), from its polynomial in x²."""
    high, low = two_product(a, a)
    top = horner_pair(exactly(_power_polynomial(n, k, c, b)[n % 2 :: 2]), (high, low))
    value = _quotient(top, sum_pair((float(c), 0.0), (b * high, b * low)), n, k)
    return rounded(multiply_pairs(value, (a, 0.0)) if n % 2 else value)


def _far(a: Any, n: int, k: int, c: int) -> Any:
    """The n-th derivative of (c + x²)^(-k/2) for a >= 2, in 1/a², so that nothing overflows."""
    m, e = np.frexp(np.minimum(a, _LARGEST))
    inverse = over(ONE, (m, 0.0 * m))
    square = multiply_pairs(inverse, inverse)
    scale = np.maximum(-2 * e, -1000)  # at least -1000, because low parts must not be subnormal
    square = np.ldexp(square[0], scale), np.ldexp(square[1], scale)
    top = horner_pair(exactly(_power_polynomial(n, k, c, 1)[n % 2 :: 2])[::-1], square)
    value = _quotient(top, sum_pair(ONE, (c * square[0], c * square[1])), n, k)
    value = multiply_pairs(value, power_pair(inverse, n + k))
    return np.where(np.isinf(a), 0.0 * value[0], rounded(value, -(n + k) * e))


def _power_derivative(a: Any, n: int, k: int, c: int) -> Any:
    """The n-th derivative of (c + x²)^(-k/2) at a >= SMALL."""
    far = a > 2.0
    return np.where(far, _far(np.where(far, a, 4.0), n, k, c), _near(np.where(far, 2.0, a), n, k, c, 1))


_bent_odd = odd_kernel(_power_derivative)


@in_float64
def bent_power_derivative(x: Any, n: int, k: int) -> Any:
    """The n-th derivative of (1 + x²)^(-k/2) for k = 1 or 2. The first derivative is computed from its factors."""
    if n == 1:
        x = np.clip(x, -_LARGEST, _LARGEST)
        return -2.0 * (x * recip1p2(x)) * recip1p2(x) if k == 2 else -(x * rsqrt1p2(x)) * recip1p2(x)
    if n % 2:
        return _bent_odd(x, n, k, 1)
    return _power_derivative(np.maximum(np.abs(x), SMALL), n, k, 1)


@in_float64
def steep_power_derivative(x: Any, n: int, k: int) -> Any:
    """The n-th derivative of (x² - 1)^(-k/2) for x >= 1, NaN otherwise."""
    safe = np.where(x > 1.0, x, 2.0)
    pole = np.where(x == 1.0, math.inf if n % 2 == 0 else -math.inf, np.nan)
    return np.where(x > 1.0, _power_derivative(safe, n, k, -1), pole)


def _inside(a: Any, n: int, k: int) -> Any:
    return np.where(a < 1.0, _near(np.where(a < 1.0, a, 0.5), n, k, 1, -1), np.where(a == 1.0, np.inf, np.nan))


_inside_odd = odd_kernel(_inside)


@in_float64
def inner_power_derivative(x: Any, n: int, k: int) -> Any:
    """The n-th derivative of (1 - x²)^(-k/2) inside [-1, 1], k = 1 or 2, NaN outside. The first by its factors."""
    if n == 1:
        r = recip1m2(x)
        return 2.0 * (x * r) * r if k == 2 else x * rsqrt1m2(x) * r
    return _inside_odd(x, n, k) if n % 2 else _inside(np.maximum(np.abs(x), SMALL), n, k)


@in_float64
def recip1p_power(x: Any, n: int) -> Any:
    """(1 + x)^-n for x >= -1, NaN otherwise."""
    high, low = two_sum(1.0, np.minimum(x, _LARGEST))
    m, e = np.frexp(np.where(high > 0.0, high, 1.0))
    value = rounded(over(ONE, power_pair((m, np.ldexp(low, -e)), n)), -n * e)
    return np.where(high > 0.0, np.where(x == np.inf, 0.0, value), np.where(high == 0.0, np.inf, np.nan))


@in_float64
def cbrt_derivative(x: Any, n: int) -> Any:
    """The n-th derivative of the cube root, n >= 2: a rational number times cbrt(x)/x^n."""
    y, excess, _, scale = cbrt_parts(x)
    m, e = np.frexp(x)
    factor = exact(math.prod(1 - 3 * j for j in range(n)))
    top = multiply_pairs((y, -y * excess), factor)
    value = over(top, multiply_pairs(power_pair((m, 0.0 * m), n), exact(3**n)))
    value = rounded((value[0] / scale, value[1] / scale), -n * e)
    end = math.copysign(1.0, factor[0]) * (np.copysign(1.0, x) if n % 2 == 0 else 1.0) / np.abs(x)
    return np.where((x == 0.0) | np.isinf(x), end, value)
