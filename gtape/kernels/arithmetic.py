"""Kernels of the arithmetic ops and of their families of slopes, which are closed under differentiation."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.errors import InvalidArgumentError
from gtape.kernels.log_pairs import log1p_pair
from gtape.kernels.pair_functions import ONE, exp_parts, power_pair, sum_pair
from gtape.kernels.pairs import Pair, divide_pairs, two_sum, wide

# ---------------------------------------------------------------------------------------------- quotients


def squared_difference(x: Any, y: Any) -> Any:
    """(x - y)**2."""
    d = np.subtract(x, y)
    return np.multiply(d, d)


def divide_power(x: Any, y: Any, *, n: int) -> Any:
    """x / y**n by n divisions. None of them overflows unless the quotient does."""
    if n > _PLAIN:
        return _divide_power_pair(x, y, n=n)
    return _divisions(x, y, n)


_PLAIN = 3  # the number of plain divisions; more divisions are computed in pairs of floats, because each rounds


def _divisions(x: Any, y: Any, n: int) -> Any:
    first = q = np.divide(x, y)
    for _ in range(n - 1):
        q = np.divide(q, y)
    if n > 1:
        tiny, up = _SCALES[first.dtype.char]
        least = np.fmin.reduce(np.abs(first), axis=None, initial=1) if first.ndim else abs(first)
        if least < tiny:
            return _unshortened(first, x, y, q, n, tiny, up)
    return q


def _divide_power_float64(x: Any, y: Any, *, n: int) -> Any:
    mx, ex = np.frexp(x)
    my, ey = np.frexp(y)
    q = divide_pairs((mx, 0.0 * mx), power_pair((my, 0.0 * my), n))
    usual = np.isfinite(x) & np.isfinite(y) & np.not_equal(y, 0)
    return np.where(usual, np.ldexp(q, ex - n * ey), _divisions(x, y, n))


_divide_power_pair = wide(_divide_power_float64, lambda x, y, *, n: (_divisions(x, y, n), True))


# For each dtype its smallest normal number, and a power of two that makes subnormal numbers normal with some distance.
_SCALES = {c: (f.tiny, f.dtype.type(2.0 ** (f.maxexp // 2))) for c in "efd" for f in (np.finfo(c),)}


def _unshortened(first: Any, x: Any, y: Any, q: Any, n: int, tiny: Any, up: Any) -> Any:
    """`divide_power` if intermediate quotients are subnormal, because divisions by y < 1 magnify their few digits."""
    short = (np.abs(first) < tiny) & np.not_equal(first, 0)
    scaled = np.multiply(x, up)
    for _ in range(n):
        scaled = np.divide(scaled, y)
    return np.where(short & np.isfinite(scaled), np.divide(scaled, up), q)


def reciprocal_power(x: Any, *, n: int) -> Any:
    """x**-n by n divisions."""
    if n > _PLAIN:
        return _divide_power_pair(np.ones_like(x), x, n=n)
    y = np.divide(1, x)
    for _ in range(n - 1):
        y = np.divide(y, x)
    return y


def divide_no_nan(x: Any, y: Any) -> Any:
    """x / y, and 0 where y is 0."""
    return np.where(np.equal(y, 0), 0, np.divide(x, y))


def reciprocal_no_nan(x: Any) -> Any:
    """1 / x, and 0 at 0."""
    return np.where(np.equal(x, 0), 0, np.divide(1, x))


def divide_power_no_nan(x: Any, y: Any, *, n: int) -> Any:
    """x / y**n, and 0 where y is 0."""
    return np.where(np.equal(y, 0), 0, divide_power(x, y, n=n))


def reciprocal_power_no_nan(x: Any, *, n: int) -> Any:
    """x**-n, and 0 at 0."""
    return np.where(np.equal(x, 0), 0, reciprocal_power(x, n=n))


def multiply_no_nan(x: Any, y: Any) -> Any:
    """x * y, and 0 where y is 0, also for infinite and NaN x."""
    return np.where(np.equal(y, 0), 0, np.multiply(x, y))


def multiply_no_nan_dy(x: Any, y: Any) -> Any:
    """x, or 0 (the value of least norm) where y is 0 and x is not finite, because no slope exists there."""
    return np.where(np.equal(y, 0) & ~np.isfinite(x), 0, x)


def xdivy(x: Any, y: Any) -> Any:
    """x / y, and 0 where x is 0."""
    return np.where(np.equal(x, 0), 0, np.divide(x, y))


def xdivy_power(x: Any, y: Any, *, n: int) -> Any:
    """x / y**n, and 0 where x is 0."""
    return np.where(np.equal(x, 0), 0, divide_power(x, y, n=n))


def xdivy_dx(x: Any, y: Any, *, n: int) -> Any:
    """y**-n, and 0 where x and y are both 0."""
    return np.where(np.equal(x, 0) & np.equal(y, 0), 0, reciprocal_power(y, n=n))


# ---------------------------------------------------------------------------------------------- x log y


def _logarithmic(x: Any, y: Any, end: float, value: Any) -> Any:
    """A slope of x log(y - end) where y >= end; 0 where x is 0 and the logarithm has no finite value."""
    return np.where(np.equal(x, 0) & np.less_equal(y, end), 0.0, np.where(np.less(y, end), np.nan, value))


@wide
def xlogy(x: Any, y: Any) -> Any:
    """x log(y), and 0 where x is 0."""
    return np.where(np.equal(x, 0), 0.0, x * np.log(y))


@wide
def xlogy_dx(x: Any, y: Any) -> Any:
    """log(y); 0 where x is 0 and log(y) has no finite value."""
    return _logarithmic(x, y, 0.0, np.log(y))


@wide
def xlogy_dy(x: Any, y: Any, *, n: int) -> Any:
    """x / y**n for y >= 0; 0 where x is 0 and y <= 0."""
    return _logarithmic(x, y, 0.0, divide_power(x, y + 0.0, n=n))  # -0.0 ends the domain and counts as +0


@wide
def xlogy_dxdy(x: Any, y: Any, *, n: int) -> Any:
    """y**-n for y >= 0; 0 where x is 0 and y <= 0."""
    return _logarithmic(x, y, 0.0, reciprocal_power(y + 0.0, n=n))


@wide
def xlog1py(x: Any, y: Any) -> Any:
    """x log(1 + y), and 0 where x is 0."""
    return np.where(np.equal(x, 0), 0.0, x * np.log1p(y))


@wide
def xlog1py_dx(x: Any, y: Any) -> Any:
    """log(1 + y); 0 where x is 0 and the logarithm has no finite value."""
    return _logarithmic(x, y, -1.0, np.log1p(y))


def _over_1p(x: Any, y: Any, n: int) -> Any:
    s, low = two_sum(y, 1.0)
    q = divide_power(x, s, n=n)
    # The formula is (s + low)**-n = s**-n (1 - n low / s), up to the square of low / s <= 2**-53.
    return np.where(np.isfinite(q) & np.isfinite(s), q - q * (n * low / s), q)


@wide
def xlog1py_dy(x: Any, y: Any, *, n: int) -> Any:
    """x / (1 + y)**n for y >= -1; 0 where x is 0 and y <= -1."""
    return _logarithmic(x, y, -1.0, _over_1p(x, y, n))


@wide
def xlog1py_dxdy(x: Any, y: Any, *, n: int) -> Any:
    """(1 + y)**-n for y >= -1; 0 where x is 0 and y <= -1."""
    return _logarithmic(x, y, -1.0, _over_1p(1.0, y, n))


# ---------------------------------------------------------------------------------------------- floormod


def floormod(x: Any, y: Any) -> Any:
    """The remainder with the sign of y; an integer divisor of 0 is an error."""
    if np.result_type(x, y).kind in "iu" and not np.all(y):
        raise InvalidArgumentError(
            "floormod of integers by 0: make the divisor non-zero, or cast to float, where it gives NaN"
        )
    return np.mod(x, y)


def floormod_dx(x: Any, y: Any) -> Any:
    """1 where floormod is defined."""
    defined = np.isfinite(x) & np.not_equal(y, 0) & ~np.isnan(y)
    return np.where(defined, 1.0, np.nan).astype(np.result_type(x, y))


@wide
def floormod_dy(x: Any, y: Any) -> Any:
    """-floor(x / y), exact if its size is below 2**53."""
    r = np.fmod(x, y)
    # x - r is y times an integer. np.floor_divide subtracts the adjusted remainder, which can overflow.
    q = np.rint((x - r) / y)
    q = np.where((r != 0) & (np.signbit(r) != np.signbit(y)), q - 1.0, q)
    return np.where(np.isnan(r), np.nan, -q)


# ---------------------------------------------------------------------------------------------- logaddexp


def _difference(a: Any, b: Any) -> Pair:
    d, low = two_sum(a, np.negative(b))
    d = np.where(np.equal(a, b), 0.0, d)  # equal infinities count as equal numbers, so that slopes stay finite
    return d, np.where(np.isfinite(d) & np.isfinite(low), low, 0.0)


@wide
def logaddexp(x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y))."""
    high, small = np.maximum(x, y), np.minimum(x, y)
    d, low = _difference(small, high)
    e = np.exp(d)
    out = high + (np.log1p(e) + low * (e / (1.0 + e)))
    # The logarithm has an error of about 1 ULP of its own, so the logarithm must not be larger than the sum.
    cancels = (high < 0) & (np.abs(out) < out - high)
    if np.any(cancels):
        # Around the curve where the exponentials add up to 1, the exponential and the logarithm are computed as pairs.
        p, k = exp_parts((np.where(cancels, d, 0.0), np.where(cancels, low, 0.0)))
        p = sum_pair(ONE, p)
        log = log1p_pair((np.ldexp(p[0], k), np.ldexp(p[1], k)))
        t, rest = two_sum(np.where(cancels, high, 0.0), log[0])
        out = np.where(cancels, t + (rest + log[1]), out)
    return np.where(np.isinf(high), high, out)


def logaddexp_cancelled(x: Any, y: Any) -> Any:
    """The error of `logaddexp` around the curve where the exponentials add up to 1, beyond its ULPs."""
    high, small = np.maximum(x, y), np.minimum(x, y)
    with np.errstate(invalid="ignore", over="ignore"):
        e = np.exp(small - high)
    return np.where((high < 0) & (2.0 * np.log1p(e) > -high), e * 2.0**-93, 0.0)


@wide
def sigmoid_difference(x: Any, y: Any) -> Any:
    """sigmoid(x - y), corrected for the rounding error of the difference."""
    d, low = _difference(x, y)
    e = np.exp(-np.abs(d))
    s, rest = two_sum(1.0, e)
    top = np.where(d < 0, e, 1.0)
    q = top / s
    return q + q * (low * (1.0 - q) - rest / s)


@wide
def sigmoid_slope_difference(x: Any, y: Any) -> Any:
    """sigmoid'(x - y), corrected for the rounding error of the difference."""
    d, low = _difference(x, y)
    e = np.exp(-np.abs(d))
    s, rest = two_sum(1.0, e)
    q = e / s / s
    return q - q * (np.copysign((1.0 - e) / s, d) * low + 2.0 * rest / s)


@wide
def tanh_half_difference(x: Any, y: Any) -> Any:
    """tanh((x - y) / 2), corrected for the rounding error of the difference."""
    d, low = _difference(x, y)
    t = np.tanh(0.5 * d)
    return t + 0.5 * low * ((1.0 - t) * (1.0 + t))
