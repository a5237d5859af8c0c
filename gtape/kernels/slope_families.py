"""Derivatives of every order of functions rational in exp(x) (sigmoid, tanh, silu, mish) and of Gauss's function.

Terms are summed as pairs, because the alternating coefficients of the n-th derivative cancel. The loss grows with n.
The first orders have faster kernels in other modules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gtape.kernels.activation import mish_slope, silu_slope
from gtape.kernels.elementary import in_float64
from gtape.kernels.pair_functions import (
    difference,
    exact,
    exp_parts,
    expm1_pair,
    horner_pair,
    over,
    power_pair,
    rounded,
    sum_pair,
)
from gtape.kernels.pairs import Pair, multiply_pairs, two_product, two_sum, wide
from gtape.kernels.polynomials import ONE, SMALL, Poly, exactly, odd_kernel, plus, slope, times

# polynomials in exp(x) ------------------------------------------------------------------------------------------------


def numerator(n: int, first: Poly, bottom: Poly) -> Poly:
    """The numerator of the n-th derivative by x of first/bottom, polynomials in E = exp(x), over bottom^(n+1)."""
    p = first
    for k in range(1, n + 1):
        p = times((0, 1), plus(times(slope(p), bottom), times(p, slope(bottom)), -k))
    return p


# sigmoid, tanh ------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _sigmoid_polynomial(n: int) -> list[Pair]:
    """P for which the n-th derivative of sigmoid at -a is e (1 - e)^even P(e)/(1 + e)^(n+1), e = exp(-a)."""
    p = numerator(n, (0, 1), (1, 1))[1:]
    if n > 0 and n % 2 == 0:  # the numerator is antisymmetric and divisible by 1 - e
        total, quotient = 0, []
        for c in p[:-1]:
            total += c
            quotient.append(total)
        p = tuple(quotient)
    return exactly(p)


def _decay(a: Pair) -> tuple[Pair, Any, Pair, Pair]:
    """exp(-a) for a >= 0 as a pair and a power of 2, as a pair alone, and 1 - exp(-a)."""
    part, k = exp_parts((-a[0], -a[1]))
    mantissa = sum_pair(ONE, part)
    gap = expm1_pair(part, k)
    return mantissa, k, (np.ldexp(mantissa[0], k), np.ldexp(mantissa[1], k)), (-gap[0], -gap[1])


def _sigmoid_at(n: int, e: Pair, gap: Pair, d: Pair) -> Pair:
    """The n-th derivative of sigmoid at -a divided by exp(-a). d is 1 + e."""
    top = horner_pair(_sigmoid_polynomial(n), e)
    if n > 0 and n % 2 == 0:
        top = multiply_pairs(top, gap)
    return over((top[0] + 0.0 * e[0], top[1] + 0.0 * e[0]), power_pair(d, n + 1))


def _logistic(a: Pair, n: int, scale: int) -> Any:
    """2**scale times the n-th derivative of sigmoid at -a."""
    mantissa, k, e, gap = _decay(a)
    return rounded(multiply_pairs(mantissa, _sigmoid_at(n, e, gap, sum_pair(ONE, e))), k + scale)


def _sigmoid_family(x: Any, low: Any, n: int, scale: int) -> Any:
    a, low = np.minimum(np.abs(x), 1e4), np.where(np.signbit(x), -low, low)
    if n % 2:
        return _logistic((a, low), n, scale)
    tiny = a < SMALL
    value = _logistic((np.where(tiny, SMALL, a), np.where(tiny, 0.0, low)), n, scale)
    value = np.where(tiny, value * (a / SMALL), value)
    return np.where(np.signbit(x), value, -value)


@in_float64
def sigmoid_derivative(x: Any, n: int) -> Any:
    """n-th derivative of the sigmoid, n >= 1."""
    return _sigmoid_family(x, np.zeros_like(x), n, 0)


@wide
def sigmoid_difference_derivative(x: Any, y: Any, *, n: int) -> Any:
    """n-th derivative of the sigmoid at x - y, n >= 1."""
    d, low = two_sum(x, np.negative(y))
    d = np.where(np.equal(x, y), 0.0, d)  # equal infinities count as equal numbers
    return _sigmoid_family(d, np.where((np.abs(d) < 1e4) & np.isfinite(low), low, 0.0), n, 0)


@in_float64
def tanh_derivative(x: Any, n: int) -> Any:
    """n-th derivative of tanh(x) = 2 sigmoid(2x) - 1, n >= 1."""
    return _sigmoid_family(np.clip(2.0 * x, -1e4, 1e4), np.zeros_like(x), n, n + 1)


# silu, mish, gelu's tanh form ---------------------------------------------------------------------------------------


def _silu(a: Any, n: int) -> Any:
    mantissa, k, e, gap = _decay((a, 0.0 * a))
    d = sum_pair(ONE, e)
    before = multiply_pairs((float(n), 0.0), _sigmoid_at(n - 1, e, gap, d))
    top = difference(before, multiply_pairs((a, 0.0), _sigmoid_at(n, e, gap, d)))
    return rounded(multiply_pairs(mantissa, top), k)


def _around_root(x: Any, value: Any, low: float, high: float, exactly_at: Callable[[Any], Any]) -> Any:
    """`value`, but in pairs for low < x < high, because the terms of the slope cancel around its root."""
    near = (x > low) & (x < high)
    return np.where(near, exactly_at(np.where(near, -x, 1.0)), value) if np.any(near) else value


_silu_odd = odd_kernel(lambda a, n: -_silu(a, n))


@in_float64
def silu_derivative(x: Any, n: int) -> Any:
    """The n-th derivative of silu, n >= 1. Even or odd from n = 2 on, because silu(x) = x + silu(-x)."""
    if n == 1:
        return _around_root(x, silu_slope(x), -1.6, -0.6, lambda a: _silu(a, 1))
    x = np.clip(x, -1e4, 1e4)
    return _silu_odd(x, n) if n % 2 else _silu(np.abs(x), n)


@lru_cache(maxsize=64)
def _mish_polynomials(n: int) -> tuple[Any, Any]:
    """B and A for the n-th derivative of mish: polynomials in e with coefficients linear in a. A only for n >= 2.

    The derivative is e B/(2+2e+e²)^(n+1) at -a, and e² A/(1+2e+2e²)^(n+1) at a.
    """
    before, top = (numerator(k, (0, 2, 1), (2, 2, 1)) for k in (n - 1, n))
    value = times((n,), times(before, (2, 2, 1)))
    size = 2 * n + 3
    value, top = (p + (0,) * (size - len(p)) for p in (value, top))
    below = tuple(zip(value[1:], [-c for c in top[1:]], strict=True))
    return below, tuple(zip(value[::-1], top[::-1], strict=True))[2:]


def _horner_in_a(coefficients: Sequence[tuple[int, int]], a: Any, e: Pair) -> Pair:
    """The value of the polynomial in e with coefficients c + a*d, lowest first."""
    return horner_pair([sum_pair(multiply_pairs(exact(d), (a, 0.0)), exact(c)) for c, d in coefficients], e)


def _mish_below(mantissa: Pair, e: Pair, a: Any, n: int) -> Pair:
    """The n-th derivative at -a divided by 2**k. exp(-a) is the mantissa times 2**k."""
    d = sum_pair(sum_pair((2.0, 0.0), (2.0 * e[0], 2.0 * e[1])), multiply_pairs(e, e))
    return multiply_pairs(mantissa, over(_horner_in_a(_mish_polynomials(n)[0], a, e), power_pair(d, n + 1)))


def _mish_left(a: Any, n: int) -> Any:
    mantissa, k, e, _ = _decay((a, 0.0 * a))
    return rounded(_mish_below(mantissa, e, a, n), k)


@in_float64
def mish_derivative(x: Any, n: int) -> Any:
    """n-th derivative of mish, n >= 1."""
    if n == 1:
        return _around_root(x, mish_slope(x), -1.6, -0.9, lambda a: _mish_left(a, 1))
    a = np.minimum(np.abs(x), 1e4)
    mantissa, k, e, _ = _decay((a, 0.0 * a))
    left = _mish_below(mantissa, e, a, n)
    square, twice = multiply_pairs(e, e), (2.0 * e[0], 2.0 * e[1])
    d = sum_pair(sum_pair(ONE, twice), (2.0 * square[0], 2.0 * square[1]))
    right = over(_horner_in_a(_mish_polynomials(n)[1], a, e), power_pair(d, n + 1))
    right = multiply_pairs(multiply_pairs(mantissa, mantissa), right)
    return np.where(x < 0.0, rounded(left, k), rounded(right, 2 * k))


# The numbers 2 sqrt(2/pi) and 0.044715 * 2 sqrt(2/pi): v is _LINEAR x + _CUBIC x³.
_LINEAR: Pair = (1.5957691216057308, -9.96930880911092e-17)
_CUBIC: Pair = (0.07135481627260025, -6.175149918155315e-19)
_FAR = 40.0  # from this number on exp(-v) and all its derivatives are 0 in float64


@lru_cache(maxsize=64)
def _chain(n: int) -> dict[tuple[int, int, int, int], int]:
    """The n-th derivative of S(v(x)) for a cubic v: coefficients of S⁽ʲ⁾ v'ᵖ v''ᑫ v'''ʳ by (j, p, q, r)."""
    if n == 0:
        return {(0, 0, 0, 0): 1}
    out: dict[tuple[int, int, int, int], int] = {}
    for (j, p, q, r), c in _chain(n - 1).items():
        terms = [((j + 1, p + 1, q, r), c), ((j, p - 1, q + 1, r), c * p), ((j, p, q - 1, r + 1), c * q)]
        for key, factor in terms:
            if factor:
                out[key] = out.get(key, 0) + factor
    return out


def _gelu_tanh(a: Any, n: int) -> Any:
    """The n-th derivative at -a: -a G⁽ⁿ⁾ + n G⁽ⁿ⁻¹⁾ for G = sigmoid(v)."""
    x = (a, 0.0 * a)
    square = multiply_pairs(x, x)
    cubic = multiply_pairs(_CUBIC, square)
    v = multiply_pairs(sum_pair(_LINEAR, cubic), x)
    mantissa, k, e, gap = _decay(v)
    d = sum_pair(ONE, e)
    v1 = sum_pair(_LINEAR, multiply_pairs((3.0, 0.0), cubic))
    v3 = multiply_pairs((6.0, 0.0), _CUBIC)
    v2 = multiply_pairs(v3, (-a, 0.0))
    at = [_sigmoid_at(j, e, gap, d) for j in range(n + 1)]

    def gate(m: int) -> Pair:
        total: Pair = (0.0 * a, 0.0 * a)
        for (j, p, q, r), c in _chain(m).items():
            term = multiply_pairs(exact(c), at[j])
            for factor, times_ in ((v1, p), (v2, q), (v3, r)):
                if times_:
                    term = multiply_pairs(term, power_pair(factor, times_))
            total = sum_pair(total, term)
        return total

    top = difference(multiply_pairs((float(n), 0.0), gate(n - 1)), multiply_pairs(x, gate(n)))
    return rounded(multiply_pairs(mantissa, top), k)


_gelu_tanh_odd = odd_kernel(lambda a, n: -_gelu_tanh(a, n))


@in_float64
def gelu_tanh_derivative(x: Any, n: int) -> Any:
    """The n-th derivative of gelu's tanh form, n >= 2. Even or odd like that of silu."""
    x = np.clip(x, -_FAR, _FAR)
    return _gelu_tanh_odd(x, n) if n % 2 else _gelu_tanh(np.abs(x), n)


# Gauss --------------------------------------------------------------------------------------------------------------


def gauss_derivative(x: Any, coefficients: Poly, halves: int, factor: Pair) -> Any:
    """factor exp(-halves x²/2) times an even or odd polynomial in x, for abs(x) up to 40."""
    odd = (len(coefficients) - 1) % 2
    tiny = np.abs(x) < SMALL
    safe = np.where(tiny, SMALL, x)
    square = two_product(safe, safe)
    part, k = exp_parts((-0.5 * halves * square[0], -0.5 * halves * square[1]))
    value = multiply_pairs(horner_pair(exactly(coefficients[odd::2]), square), factor)
    value = multiply_pairs(value, sum_pair(ONE, part))
    if not odd:
        return rounded(value, k)
    return np.where(tiny, x * value[0], rounded(multiply_pairs(value, (safe, 0.0)), k))
