"""Kernels of the slopes of elementary functions, and of functions that NumPy rounds badly or lacks.

Each works in float64 and rounds once for the narrower dtypes. If plain arithmetic is wrong by more than a unit, the
kernel computes the rounding error of its inner sum or square (the low parts below) and adds the error at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any

import numpy as np

from gtape.kernels.pairs import two_product, two_sum

Kernel = Callable[..., Any]

# Integers in units of 1e-77, which is more exact than two float64 products, because powers of integers round once.
UNITS = 10**77
LN2 = 69314718055994530941723212145817656807550013436025525412068000949339362196969
PI = 314159265358979323846264338327950288419716939937510582097494459230781640628620
LOG2_E = 1.0 / math.log(2.0)
LOG10_E = 0.4342944819032518
LARGE = 1e150
_FLOAT64 = np.dtype(np.float64)


def in_float64(core: Kernel) -> Kernel:
    """A float64 kernel for any floating dtype. The result is rounded to the dtype."""

    @wraps(core)
    def kernel(x: Any, **params: Any) -> Any:
        if x.dtype is _FLOAT64 or x.dtype == np.float64:  # comparing dtypes takes longer
            return core(x, **params)
        return core(x.astype(np.float64), **params).astype(x.dtype)

    return kernel


def single_by_double(ufunc: Kernel) -> Kernel:
    """The float64 kernel of a NumPy function whose float32 kernels are several ULP off on some machines."""

    @wraps(ufunc)
    def kernel(*xs: Any) -> Any:
        dtype = xs[0].dtype
        if dtype.char in "ef":
            return ufunc(*[x.astype(np.float64) for x in xs]).astype(dtype)
        return ufunc(*xs)

    return kernel


def horner(coefficients: tuple[float, ...], x: Any) -> Any:
    """The value of a polynomial, lowest coefficient first."""
    value = coefficients[-1] * np.ones_like(x)
    for c in coefficients[-2::-1]:
        value = value * x + c
    return value


def split_square(x: Any) -> tuple[Any, Any]:
    """x*x as the unevaluated sum of two float64 (Dekker). Exact for 1e-145 < abs(x) < 1e150."""
    high = x * x
    shifted = 134217729.0 * x  # 2**27 + 1
    head = shifted - (shifted - x)
    tail = x - head
    return high, ((head * head - high) + 2.0 * head * tail) + tail * tail


# exp(-128) is far inside the normal range, and u + 128 is exact for u < -600.
_TAIL, _SHIFT, _SHIFT_FACTOR = -600.0, 128.0, math.exp(-128.0)


def exp_times(u: Any, factor: Any) -> Any:
    """exp(u)*factor for u <= 0, rounded once even if exp(u) is subnormal and `factor` is large."""
    tail = u < _TAIL
    if not tail.any():
        return np.exp(u) * factor
    return np.where(tail, np.exp(u + _SHIFT) * factor * _SHIFT_FACTOR, np.exp(u) * factor)


def _nan_below_zero(slope: Any, x: Any) -> Any:
    """A slope of a logarithm, with NaN for negative arguments and +inf at minus zero."""
    # The usual case, six times as fast as a reduction. NaN and -0 (of minus infinity) continue below.
    if not slope.size or slope.item(slope.argmin()) > 0.0:
        return slope
    wrong = np.signbit(slope)
    return np.where(wrong, np.where(x == 0, np.abs(slope), np.nan), slope).astype(slope.dtype)


def _constant(x: Any, value: float) -> Any:
    """A constant in the dtype of `x`, because NumPy then keeps the dtype."""
    return x.dtype.type(value)


# powers -------------------------------------------------------------------------------------------------------------


def reciprocal(x: Any) -> Any:
    """1/x."""
    return np.divide(_constant(x, 1.0), x)


def rsqrt(x: Any) -> Any:
    """1/sqrt(x)."""
    return np.divide(_constant(x, 1.0), np.sqrt(x))


@in_float64
def rsqrt_derivative(x: Any, n: int) -> Any:
    """The n-th derivative of 1/sqrt(x): a number over sqrt(x), divided n times by x. One Newton step gives the root."""
    factor = math.prod(-0.5 - k for k in range(n))
    room = np.where(x < 1e-200, 2.0**200, np.where(x > 1e200, 2.0**-200, 1.0))
    scaled = x * room
    y = 1.0 / np.sqrt(scaled)
    square, low = split_square(y)
    p, e = two_product(square, scaled)
    y = y + 0.5 * y * (((1.0 - p) - e) - low * scaled)
    y = np.where((x > 0) & (x < np.inf), y, 1.0 / np.sqrt(x)) * np.sqrt(room) * factor
    for _ in range(n):
        y = y / x
    return y


def sqrt_slope(x: Any) -> Any:
    """1/(2 sqrt(x))."""
    return np.divide(_constant(x, 0.5), np.sqrt(x))


def cbrt_parts(x: Any) -> tuple[Any, Any, Any, Any]:
    """Cube root y of a scaled x, its relative error (one exact Newton residual), y*y in two parts, the scale of y."""
    a = np.abs(x)
    extreme = (a < 1e-200) | (a > 1e200)
    scale = np.where(extreme, np.where(a < 1.0, 2.0**100, 2.0**-100), 1.0)
    if np.any(extreme):  # because the exact products below need room at both ends of the range
        x = ((x * scale) * scale) * scale
    y = np.cbrt(x)
    square, low = split_square(y)
    cube, cube_low = two_product(square, y)
    excess = ((cube - x) + (cube_low + low * y)) / (3.0 * cube)
    return y, np.where(np.isfinite(excess), excess, 0.0), (square, low), scale


@in_float64
def cbrt(x: Any) -> Any:
    """The cube root. The C library's is 2.7 ULP off."""
    y, excess, _, scale = cbrt_parts(x)
    return np.where(excess == 0.0, y, y - y * excess) / scale  # because inf - inf * 0 is NaN


@in_float64
def cbrt_slope(x: Any) -> Any:
    """x^(-2/3)/3."""
    _, excess, (square, low), scale = cbrt_parts(x)
    bottom = 3.0 * square
    lost = (bottom - 2.0 * square) - square
    slope = 1.0 / bottom
    correction = 2.0 * excess + (lost - 3.0 * low) / bottom
    return (slope + np.where(np.isfinite(correction), slope * correction, 0.0)) * (scale * scale)


# exponentials and logarithms ----------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _ln2_power(n: int) -> float:
    return float(LN2**n / UNITS**n)


@in_float64
def exp2_derivative(x: Any, n: int) -> Any:
    """ln(2)^n 2^x, which overflows later than 2^x. So kernels use the shift, which is exact where it is used."""
    factor = _ln2_power(n)
    high = x > 1000.0
    if not np.any(high):
        return factor * np.exp2(x)
    shift = float(min(n, 500))  # 2**-n < ln(2)**n, so there is no overflow before the last product
    return np.where(high, (factor * np.exp2(x - shift)) * 2.0**shift, factor * np.exp2(x))


def log_slope(x: Any) -> Any:
    """1/x for x >= 0, NaN otherwise."""
    return _nan_below_zero(np.reciprocal(x), x)


def log2_slope(x: Any) -> Any:
    """1/(x ln 2) for x >= 0, NaN otherwise."""
    return _nan_below_zero(np.divide(_constant(x, LOG2_E), x), x)


def log10_slope(x: Any) -> Any:
    """1/(x ln 10) for x >= 0, NaN otherwise."""
    return _nan_below_zero(np.divide(_constant(x, LOG10_E), x), x)


@in_float64
def log1p_slope(x: Any) -> Any:
    """1/(1 + x) for x >= -1, NaN otherwise."""
    total, low = two_sum(1.0, x)
    slope = 1.0 / total
    return _nan_below_zero(np.where((low != 0.0) & (np.abs(x) < LARGE), slope - slope * (slope * low), slope), total)


# circular and hyperbolic functions ----------------------------------------------------------------------------------


def _recip_pair(x: Any, sign: float) -> tuple[Any, Any]:
    """1 + sign*x*x rounded, and its rounding error. `x` is at most LARGE."""
    square, low = split_square(x)
    total, lost = two_sum(1.0, sign * square)
    return total, np.where(np.abs(x) > 1e-100, lost + sign * low, 0.0)


def _recip1m2(x: Any) -> Any:
    total, lost = _recip_pair(x, -1.0)
    better = total + lost
    lost = (total - better) + lost
    r = 1.0 / better
    return np.where(better == 0.0, r, r - r * (r * lost))


def _inverse_root(total: Any, lost: Any) -> Any:
    """1/sqrt(total + lost): the square root corrected by its exact residual. Not for total = 0."""
    root = np.sqrt(total)
    square, low = split_square(root)
    r = 1.0 / root
    return r - (0.5 * r) * ((lost + ((total - square) - low)) / total)


def _clipped(x: Any) -> Any:
    return np.clip(x, -LARGE, LARGE)


@in_float64
def recip1m2(x: Any) -> Any:
    """1/(1 - x²) inside [-1, 1], NaN outside."""
    r = _recip1m2(np.clip(x, -2.0, 2.0))
    return np.where(np.abs(x) > 1.0, np.nan, r)


@in_float64
def rsqrt1m2(x: Any) -> Any:
    """1/sqrt(1 - x²) inside [-1, 1], NaN outside."""
    total, lost = _recip_pair(np.clip(x, -2.0, 2.0), -1.0)
    return np.where(total == 0.0, np.inf, _inverse_root(total, lost))


@in_float64
def recip1p2(x: Any) -> Any:
    """1/(1 + x²)."""
    total, lost = _recip_pair(_clipped(x), 1.0)
    r = 1.0 / total
    return np.where(np.abs(x) < 1e15, r - r * (r * lost), (1.0 / x) / x)


@in_float64
def rsqrt1p2(x: Any) -> Any:
    """1/sqrt(1 + x²)."""
    total, lost = _recip_pair(_clipped(x), 1.0)
    return np.where(np.abs(x) < 1e15, _inverse_root(total, lost), np.abs(1.0 / x))


def _m1_pair(x: Any) -> tuple[Any, Any]:
    """x² - 1 rounded, and its rounding error, for 1 <= x <= 1e16."""
    square, low = split_square(x)
    total = square - 1.0
    lost = ((square - total) - 1.0) + low
    better = total + lost
    return better, (total - better) + lost


@in_float64
def acosh_slope(x: Any) -> Any:
    """1/sqrt(x² - 1) for x >= 1, NaN otherwise."""
    total, lost = _m1_pair(np.clip(x, 1.0, 1e16))
    near = np.where(total == 0.0, np.inf, _inverse_root(total, lost))
    return np.where(x < 1e15, np.where(x < 1.0, np.nan, near), 1.0 / x)


@in_float64
def sec2(x: Any) -> Any:
    """1/cos²(x)."""
    c = np.cos(x)
    square, low = split_square(c)
    r = 1.0 / square
    return r - r * (low * r)


def _at_most(d: Any, most: float) -> Any:
    """Whether every element is at most a number of the dtype. NaN gives False."""
    if isinstance(d, np.ndarray):
        return not d.size or d.item(d.argmax()) <= most  # takes half the time of a comparison
    return (d <= most).all()  # an array of a traced call


def sech2(x: Any) -> Any:
    """1/cosh²(x) as 4/(t + 1/t + 2), t = exp(2x), in the dtype of `x`. The sum does not cancel."""
    if x.__class__ is float or not x.ndim:
        return _sech2_of_one(np.asarray(x)[()])
    constants = _SECH2.get(x.dtype.char)
    if constants is None:  # half precision
        return sech2(x.astype(np.float32)).astype(x.dtype)
    if x.__class__ is np.ndarray and x.size >= _LONG and x.flags.c_contiguous:
        # Blocks fit the cache, because page faults of long temporary arrays cost several times the arithmetic.
        made = np.empty_like(x)
        flat, results = x.reshape(-1), made.reshape(-1)
        for start in range(0, x.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            _sech2_into(results[part], flat[part], constants)
        return made
    return _sech2_into(None, x, constants)


def _sech2_of_one(x: Any) -> Any:
    """The function `sech2` of one number, by the same operations as an array, in a fifth of the time."""
    constants = _SECH2.get(x.dtype.char)
    if constants is not None:
        t = np.exp(abs(x) * 2.0 if x.dtype.char == "f" else x + x)
        d = 1.0 / t + t + 2.0
        if d <= constants[3]:
            return 4.0 / d
    return sech2(x.reshape(1))[0]


def _sech2_into(out: Any, x: Any, constants: tuple[Any, ...]) -> Any:
    """The function `sech2` of an array, in `out` if given."""
    # In place, because new arrays cost as much as the arithmetic, and every tanh layer uses this derivative.
    one, two, four, most, far = constants
    if x.dtype.char == "f":  # NumPy's exp errs by 2.5 units, which a reciprocal of exp(2x) < 1 would pass on
        t = np.abs(x)
        t += t
    else:
        t = x + x
    np.exp(t, t)
    d = one / t if out is None else np.divide(one, t, out)
    d += t
    d += two
    ordinary = _at_most(d, most)
    np.divide(four, d, d)
    if ordinary:
        return d
    # t or 1/t may be subnormal, or overflow, although the result does not.
    tail = np.square(2.0 * np.exp(-np.abs(x.astype(np.float64)))).astype(x.dtype)
    made = np.where(np.abs(x) > far, tail, d)
    if out is None:
        return made
    out[...] = made
    return out


def _sech2_constants(dtype: Any, far: float) -> tuple[Any, ...]:
    # NumPy handles its own numbers faster than those of Python.
    numbers = [np.full((), c, dtype) for c in (1, 2, 4)]
    return (*numbers, float(dtype(math.exp(2 * far))), far)


# The number of elements of a block, and the number of elements above which an array is split into blocks.
_BLOCK, _LONG = 1 << 14, 1 << 17
# Also the |x| above which exp(2|x|) is near the ends of the dtype.
_SECH2 = {"d": _sech2_constants(np.float64, 350.0), "f": _sech2_constants(np.float32, 40.0)}


_MINUS_TWO = np.full((), -2.0)


@in_float64
def tanh_curve(x: Any) -> Any:
    """-2 sech²(x) tanh(x)."""
    made = sech2(x)
    made *= _MINUS_TWO
    made *= np.tanh(x)
    return made


# sinc ---------------------------------------------------------------------------------------------------------------


def _sin_pi(x: Any, quarter: int) -> Any:
    """sin(pi*x + quarter*pi/2). The reduction of x is exact."""
    r = np.fmod(np.where(np.isfinite(x), x, np.nan), 2.0)
    k = np.rint(2.0 * r)
    angle = math.pi * (r - 0.5 * k)
    turn = np.where(np.isnan(k), 0.0, k).astype(np.int64) + quarter & 3
    s, c = np.sin(angle), np.cos(angle)
    return np.where(turn & 1, c, s) * np.where(turn & 2, -1.0, 1.0)


@in_float64
def sinc(x: Any) -> Any:
    """sin(pi x)/(pi x), and 1 at 0."""
    z = np.where(np.abs(x) < 1e-300, 1.0, math.pi * x)
    value = np.where(np.abs(x) < 1e-300, 1.0, _sin_pi(x, 0) / z + 0.0)  # + 0 avoids -0 at integers
    return np.where(np.isinf(x), 0.0, value)


@lru_cache(maxsize=1)
def _sinc_series() -> tuple[float, ...]:
    """Coefficients in x² of sinc'(x)/x, lowest first."""
    return tuple(
        (-1) ** k * 2 * k * PI ** (2 * k) / (math.factorial(2 * k + 1) * UNITS ** (2 * k)) for k in range(1, 18)
    )


@in_float64
def sinc_slope(x: Any) -> Any:
    """sinc'(x). Near 0 a series, elsewhere (cos(pi x) - sinc(x))/x."""
    near = np.abs(x) < 0.48  # both formulas cancel least here
    xs = np.where(near, x, 0.0)
    xf = np.where(near, 1.0, x)
    far = (_sin_pi(xf, 1) - _sin_pi(xf, 0) / (math.pi * xf)) / xf
    return np.where(near, horner(_sinc_series(), xs * xs) * xs, np.where(np.isinf(x), 0.0, far))
