"""Kernels of the Gaussian family: erf, erfc, gelu and their derivatives of every order.

exp(-x²) from a rounded x² is wrong by x² ULP, so the square is kept in two parts. The tail probability is the
exponential times a slowly varying factor: a polynomial in (x - k)/(x + k) for all x >= 0.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from gtape.kernels.elementary import exp_times, horner, in_float64, split_square
from gtape.kernels.pairs import Quick, mended, two_product, two_sum
from gtape.kernels.slope_families import gauss_derivative

SQRT_HALF = math.sqrt(0.5)
SQRT_TAU = math.sqrt(2.0 * math.pi)
ROOT_TAU_INVERSE, ROOT_TAU_INVERSE_LOW = 0.3989422804014327, -2.49232720227773e-17  # 1/sqrt(2 pi) in two parts
TWO_OVER_SQRT_PI, TWO_OVER_SQRT_PI_LOW = 1.1283791670955126, 1.533545961316588e-17
BEYOND = 40.0  # from this number on exp(-x²/2) and all its derivatives are 0 in float64

# (1 + 2x) exp(x²) erfc(x) - 1 in powers of (x - 4)/(x + 4): a Chebyshev fit of degree 24, within 0.3 ULP of 1
_ERFCX = (
    0.2329951186255525, -0.1396211168405623, 0.015379652102619604, 0.06809705425466908,
    -0.10103906603630056, 0.0937328349990944, -0.06633036581218697, 0.03716751552655567,
    -0.016197734059799265, 0.005031970067657489, -0.0007577732613730956, -0.00019925714661091188,
    0.0001506214900124047, -2.4397746422436416e-05, -1.1221287012353486e-05, 5.706604414895734e-06,
    2.919733377963012e-07, -8.210939042560568e-07, 7.746992727017941e-08, 1.0633855618594884e-07,
    -2.05606492756992e-08, -1.234686604382353e-08, 3.1695881915648173e-09, 9.311744978232572e-10,
    -2.659599690242689e-10,
)  # fmt: skip

# (1 + 1.4140625x) exp(x²/2) erfc(x/√2) - 1 in powers of (x - 5.65625)/(x + 5.65625), also a Chebyshev fit.
_NORMAL = (
    0.23288550550076248, -0.1396355200695463, 0.015383004852005574, 0.06809546228477874,
    -0.10103075232689422, 0.09371575010742243, -0.06630880130887473, 0.037147839535952035,
    -0.016184095651765304, 0.005024833443437228, -0.0007551604253394807, -0.00019972794057545297,
    0.00015050269599205127, -2.4290447935481617e-05, -1.1241244972448303e-05, 5.697295307868634e-06,
    2.9722622416143896e-07, -8.208088015413574e-07, 7.660992745907908e-08, 1.0641222580537842e-07,
    -2.043616474336256e-08, -1.2365102313628613e-08, 3.1539921694915463e-09, 9.329878904507293e-10,
    -2.647420688826336e-10,
)  # fmt: skip

# The root of gelu' in two parts, and gelu'/t in powers of t = x - root, which is exact near the root, too.
_ROOT, _ROOT_LOW = -0.7517915246935645, 1.4956759177009883e-17
_ABOUT_ROOT = (
    0.4314939923140469, 0.388284982990552, -0.018199676398671087, -0.1140082332972217,
    -0.014771522148244337, 0.019421679838189067, 0.004539228379125415, -0.002239538068073497,
    -0.0007448268386746817, 0.00018633974623233514, 8.615947861116571e-05, -1.121438018842664e-05,
    -7.74846130700372e-06, 4.3284506257392273e-07, 5.702764979242107e-07, -1.6044265494246427e-09,
    -3.5459866461783865e-08, -1.396942086426202e-09, 1.90319840501314e-09, 1.4506418938779426e-10,
    -8.950037692726255e-11, -9.950340824808053e-12, 3.725967039270119e-12, 5.482292964742324e-13,
    -1.3820118240601056e-13, -2.5871508475507507e-14, 4.578167824271334e-15, 1.0789662518230159e-15,
    -1.3507094681149317e-16, -4.0514385281601486e-17,
)  # fmt: skip


def _tail_factor(x: Any, lost: Any, table: tuple[float, ...], k: float, b: float) -> Any:
    """(1 - lost) exp(s x²) erfc(√s x) for 0 <= x <= BEYOND from its table. Small corrections enter at once."""
    p = horner(table, (x - k) / (x + k))
    top = 1.0 + p
    scaled = b * x
    bottom = 1.0 + scaled
    factor = top / bottom
    return factor - factor * (((1.0 - bottom) + scaled) / bottom - (p - (top - 1.0)) / top + lost)


def _decay(x: Any, scale: float) -> tuple[Any, Any]:
    """u and a small `low` with exp(-scale*x*x) = exp(u)*(1 - low). The scale is 1 or 1/2."""
    high, low = split_square(x)
    return -scale * high, scale * low


@in_float64
def erf(x: Any) -> Any:
    """Error function."""
    from gtape.kernels.scipy_special import erf as scipy_erf

    return scipy_erf(x)


@in_float64
def erfc(x: Any) -> Any:
    """1 - erf(x); SciPy's loses some 490 ULP in the tail."""
    from gtape.kernels.scipy_special import erf as scipy_erf

    far = np.clip(x, 0.5, BEYOND)
    u, low = _decay(far, 1.0)
    return np.where(x < 0.5, 1.0 - scipy_erf(x), exp_times(u, _tail_factor(far, low, _ERFCX, 4.0, 2.0)))


@lru_cache(maxsize=64)
def hermite(n: int, first: tuple[int, ...], slope: int) -> tuple[int, ...]:
    """The coefficients of the polynomial after n steps p -> p' - slope*x*p from `first`."""
    if n == 0:
        return first
    p = hermite(n - 1, first, slope)
    q = [0] * (len(p) + 1)
    for i, c in enumerate(p):
        if i:
            q[i - 1] += i * c
        q[i + 1] -= slope * c
    return tuple(q)


@in_float64
def erf_derivative(x: Any, n: int) -> Any:
    """n-th derivative of erf, n >= 1."""
    x = np.clip(x, -BEYOND, BEYOND)
    if n > 2:
        return gauss_derivative(x, hermite(n - 1, (1,), 2), 2, (TWO_OVER_SQRT_PI, TWO_OVER_SQRT_PI_LOW))
    u, low = _decay(x, 1.0)
    return exp_times(u, (1.0 - low) * (TWO_OVER_SQRT_PI * (1.0 if n == 1 else -2.0 * x)))


def _near_half(x: Any) -> Any:
    """Normal distribution function, for abs(x) < 1."""
    from gtape.kernels.scipy_special import erf as scipy_erf

    return 0.5 + 0.5 * scipy_erf(np.clip(x, -1.0, 1.0) * SQRT_HALF)


@in_float64
def gelu(x: Any) -> Any:
    """x times the normal distribution function."""
    near = np.clip(x, -BEYOND, BEYOND)
    a = np.abs(near)
    u, low = _decay(a, 0.5)
    half = 0.5 * _tail_factor(a, low, _NORMAL, 5.65625, 1.4140625)
    far = np.where(x < 0.0, exp_times(u, near * half), x * (1.0 - np.exp(u) * half))
    return np.where(a < 0.75, x * _near_half(x), far)


def _gelu_bend(x: Any, n: int) -> Any:
    return gauss_derivative(x, hermite(n - 2, (2, 0, -1), 1), 1, (ROOT_TAU_INVERSE, ROOT_TAU_INVERSE_LOW))


def _gelu_curve(x: Any, n: int) -> Quick:
    square, low = split_square(x)
    top, rest = two_sum(2.0, -square)
    density = np.exp(-0.5 * square) * ROOT_TAU_INVERSE
    value = density * top
    value = value + (density * (rest - low) - value * (0.5 * low - ROOT_TAU_INVERSE_LOW / ROOT_TAU_INVERSE))
    return value, np.abs(x) < 34.0  # for larger x the exponential needs help to round well


@in_float64
def gelu_derivative(x: Any, n: int) -> Any:
    """n-th derivative of gelu, n >= 1."""
    x = np.clip(x, -BEYOND, BEYOND)
    if n > 1:
        return mended(_gelu_bend, _gelu_curve if n == 2 else None, x, n=n)
    u, low = _decay(x, 0.5)
    a = np.abs(x)
    half = 0.5 * _tail_factor(a, 0.0, _NORMAL, 5.65625, 1.4140625)
    high, rest = two_product(a, ROOT_TAU_INVERSE)
    left = exp_times(u, (1.0 - low) * ((half - high) - (rest + a * ROOT_TAU_INVERSE_LOW)))
    t = (x - _ROOT) - _ROOT_LOW
    beside = t * horner(_ABOUT_ROOT, np.clip(t, -0.75, 0.7))
    middle = np.where(x < -0.1, beside, _near_half(x) + np.exp(u) * (1.0 - low) * x / SQRT_TAU)
    return np.where((x > -1.5) & (x < 1.0), middle, np.where(x < 0.0, left, 1.0 - left))


# The numbers 2 sqrt(2/pi) and 0.044715 * 2 sqrt(2/pi), each in two parts.
_LINEAR, _LINEAR_LOW = 1.5957691216057308, -9.96930880911092e-17
_CUBIC, _CUBIC_LOW = 0.07135481627260025, -6.175149918155315e-19


def _cubic(a: Any, factor: float) -> tuple[Any, Any]:
    """_LINEAR + factor*_CUBIC*a² in two parts, for factor 1 or 3."""
    square, square_low = split_square(a)
    high, low = two_product(factor * square, _CUBIC)
    if factor == 3.0:
        low = low + _CUBIC * (((square + square) - factor * square) + square)
    total, rest = two_sum(_LINEAR, high)
    return total, rest + (low + factor * (square_low * _CUBIC + square * _CUBIC_LOW) + _LINEAR_LOW)


def _product(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    high, low = two_product(a[0], b[0])
    return high, low + (a[0] * b[1] + a[1] * b[0])


def _exponent(a: Any) -> tuple[Any, Any]:
    """v = _LINEAR*a + _CUBIC*a³ in two parts, because exp(-v) magnifies rounding errors by v."""
    return _product(_cubic(a, 1.0), (a, 0.0))


@in_float64
def gelu_tanh(x: Any) -> Any:
    """x sigmoid(v(x)), the common approximation of gelu."""
    a = np.minimum(np.abs(x), BEYOND)
    v, low = _exponent(a)
    d = 1.0 + np.exp(-v)
    return np.where(x < 0.0, exp_times(-v, -a * (1.0 - low) / d), x / d)


@in_float64
def gelu_tanh_slope(x: Any) -> Any:
    """The derivative of gelu_tanh. For x > 0 by gelu_tanh(x) = x + gelu_tanh(-x)."""
    a = np.minimum(np.abs(x), BEYOND)
    v, low = _exponent(a)
    e = np.exp(-v)
    growth, growth_low = _product(_cubic(a, 3.0), (a, 0.0))
    top, rest = two_sum(1.0 - growth, e)
    rest = rest + (((1.0 - (1.0 - growth)) - growth) - growth_low)
    d, lost = two_sum(1.0, e)
    left = exp_times(-v, (top + (rest - e * low)) / (d * d))
    left = left - left * (low + 2.0 * lost / d)
    return np.where(x < 0.0, left, 1.0 - left)
