"""Derivatives of every order of tan and sinc, summed in pairs."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from gtape.kernels.elementary import PI, UNITS, in_float64, sinc_slope
from gtape.kernels.pair_functions import (
    difference,
    horner_pair,
    over,
    ratio,
    rounded,
    sine_and_cosine,
    turn_and_rest,
    turn_of_pi,
)
from gtape.kernels.pairs import Pair, multiply_pairs
from gtape.kernels.polynomials import SMALL, Poly, exactly, slope, times

# tan ----------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _tan_polynomial(n: int) -> Poly:
    """The n-th derivative of tan as a polynomial in tan."""
    p: Poly = (0, 1)
    for _ in range(n):
        p = times(slope(p), (1, 0, 1))
    return p


@in_float64
def tan_derivative(x: Any, n: int) -> Any:
    """n-th derivative of tan."""
    tiny = np.abs(x) < SMALL
    turn, rest = turn_and_rest(np.where(tiny, SMALL, x))
    s, c = sine_and_cosine(rest)
    flip = turn & 1 == 1
    top = np.where(flip, c[0], s[0]), np.where(flip, c[1], s[1])
    bottom = np.where(flip, -s[0], c[0]), np.where(flip, -s[1], c[1])
    t = over(top, bottom)
    p = _tan_polynomial(n)
    odd = (len(p) - 1) % 2
    value = horner_pair(exactly(p[odd::2]), multiply_pairs(t, t))
    if not odd:
        return rounded(value)
    out = rounded(multiply_pairs(value, t))
    return np.where(tiny, out * (x / SMALL), out)


# sinc ---------------------------------------------------------------------------------------------------------------

_SINC_BOUND = 0.25  # if x is smaller, all terms of the series but the first are small


@lru_cache(maxsize=64)
def _sinc_series(n: int) -> tuple[float, ...]:
    """Coefficients in x² of sinc^(n)(x)/x^(n mod 2), lowest first."""
    first = (n + 1) // 2
    found = []
    for k in range(first, first + 12 + n):
        below = math.factorial(2 * k - n) * math.factorial(2 * k + 1) * UNITS ** (2 * k)
        found.append((-1) ** k * math.factorial(2 * k) * PI ** (2 * k) / below)
    return tuple(found)


@lru_cache(maxsize=64)
def _pi_power(n: int) -> Pair:
    return ratio(PI**n, UNITS**n)


@in_float64
def sinc_derivative(x: Any, n: int) -> Any:
    """The n-th derivative of sinc. Near 0 a series, elsewhere the recurrence x s[n] + n s[n-1] = sin^(n)(pi x)/pi."""
    if n == 1:
        return sinc_slope(x)
    near = np.abs(x) < _SINC_BOUND
    xs = np.where(near, x, 0.0)
    z = xs * xs
    series: Any = 0.0
    for v in _sinc_series(n)[::-1]:
        series = series * z + v
    if n % 2:
        series = series * xs
    xf = np.where(near, 1.0, x)
    far = np.abs(xf) > 1e100  # x is an integer, and in 1/x the first-order term dominates
    turn, rest = turn_of_pi(xf)
    sine, cosine = sine_and_cosine(rest)

    def turned(j: int) -> Pair:
        at = turn + j & 3
        sign = np.where(at & 2, -1.0, 1.0)
        return np.where(at & 1, cosine[0], sine[0]) * sign, np.where(at & 1, cosine[1], sine[1]) * sign

    beyond = _pi_power(n - 1)[0] * turned(n)[0] / xf - n * (_pi_power(n - 2)[0] * turned(n - 1)[0] / xf) / xf
    xf = np.where(far, 1.0, xf)
    value = over(turned(0), multiply_pairs(_pi_power(1), (xf, 0.0)))
    for j in range(1, n + 1):
        top = difference(multiply_pairs(_pi_power(j - 1), turned(j)), multiply_pairs((float(j), 0.0), value))
        value = over(top, (xf, 0.0))
    beyond = np.where(np.isinf(x), 0.0, beyond)  # the sine is bounded
    return np.where(near, series, np.where(far, beyond, rounded(value)))
