"""Kernels of pow and of roots of any degree, and of all their derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from gtape.errors import InvalidArgumentError
from gtape.kernels.arithmetic import divide_power
from gtape.kernels.elementary import in_float64
from gtape.kernels.pair_functions import exact, horner_pair, power_pair, ratio, sum_pair
from gtape.kernels.pairs import Pair, Quick, add_pairs, log_pair, multiply_pairs, scalar_first, two_sum, wide

_WHOLE = 2.0**52  # larger floats are integers, and a difference from one of them may be rounded


def power(x: Any, y: Any) -> Any:
    """x**y. An integer to the power of a negative integer raises an error."""
    if np.result_type(x, y).kind in "iu":
        if np.any(np.less(y, 0)):
            hint = "cast the base to float for negative ones"
            raise InvalidArgumentError(f"pow of integers needs exponents >= 0: {hint}") from None
    elif np.ndim(y) == 0:
        # If all exponents are equal, these powers need no logarithm and are exact or round once.
        if y == 2:
            return np.multiply(x, x)
        if y == 1:
            return np.positive(x)
        if y == -1:
            return np.divide(1, x)
    return np.power(x, y)


def _one_exponent(x: Any, y: float, n: int) -> Any:
    """y (y - 1) ... (y - n + 1) x**(y - n) if all exponents are one y that allows a fast formula; otherwise None."""
    e = y - n
    k = float(math.prod([y - j for j in range(n)])) + 0.0
    if not -1000 < k < 1000 or y * 16 != math.floor(y * 16):  # only multiples of 1/16, because e and k are then exact
        return None
    if k == 0 or e == 0:
        return np.where(np.isnan(x), x, np.asarray(k, x.dtype))
    if e in (1, 2):
        out = np.multiply(x, k)
        return out if e == 1 else np.multiply(out, x)
    if e in (-1, -2):
        out = np.divide(k, x)
        return out if e == -1 else np.divide(out, x)
    # No power of a float with this exponent overflows or underflows.
    return np.multiply(np.power(x, np.asarray(e, x.dtype)), k) if -0.6 < e < 0.6 else None


def _falling(y: Any, n: int) -> Pair:
    """y (y - 1) ... (y - n + 1) as a pair."""
    if n == 0:
        return np.ones_like(y), 0.0 * y
    out = (y, 0.0 * y)
    for k in range(1, n):
        out = multiply_pairs(out, two_sum(y, -float(k)))
    return out


def _falling_coefficients(n: int) -> list[int]:
    """The coefficients of y (y - 1) ... (y - n + 1), lowest first."""
    out = [1]
    for k in range(n):
        out = [(out[j - 1] if j else 0) - k * (out[j] if j < len(out) else 0) for j in range(len(out) + 1)]
    return out


def _falling_slope(y: Any, n: int, k: int) -> Pair:
    """The k-th derivative of y (y - 1) ... (y - n + 1), k <= n."""
    coefficients: list[int] = _falling_coefficients(n)
    for _ in range(k):
        coefficients = [i * c for i, c in enumerate(coefficients)][1:]
    return horner_pair([exact(c) for c in coefficients], (y, 0.0 * y))


def _factor(y: Any, log: Pair, n: int, m: int) -> Pair:
    """The factor of x**(y - n) in the derivative of x**y, n times by x and m by y: a polynomial in y and log(x)."""
    if m == 0:
        return _falling(y, n)
    if n > 1:
        huge = np.abs(y) > 1e50  # one term dominates: the first, or at x = 1 the term without a logarithm
        safe = np.where(huge, 0.0, y)
        total: Pair = (0.0 * y, 0.0 * y)
        for k in range(min(m, n) + 1):
            inner = multiply_pairs(_falling_slope(safe, n, k), power_pair(log, m - k))
            total = sum_pair(total, multiply_pairs((float(math.comb(m, k)), 0.0), inner))
        last = math.perm(n, m) * y ** (n - m) if m <= n else 0.0
        plain = np.where(np.equal(log[0], 0), last, _falling(y, n)[0] * log[0] ** m)
        return np.where(huge, plain, total[0]), np.where(huge, 0.0, total[1])
    # The factor is log**m for n = 0, and (m + y log) log**(m - 1) for n = 1.
    out = log if n == 0 else add_pairs(multiply_pairs((y, 0.0), log), (float(m), 0.0))
    for _ in range(m - 1):
        out = multiply_pairs(out, log)
    return out


def _times_power(factor: Pair, ax: Any, e: Any, p: Any, tail: Any, inner: Any, n: int, tiny: Any) -> Any:
    """factor * ax**e (1 + tail). p is ax**e, and e is about -n where `tiny`."""
    k, k_low = factor
    out = k * p
    out = out + np.where(np.isfinite(out), k_low * p + out * tail, 0.0)
    extreme = inner & ~((p > 1e-200) & (p < 1e200))
    if np.any(extreme):
        # If ax**e leaves the range and the product may not, multiply by the root twice. A root of 0 gives 0.
        half = np.power(ax, 0.5 * e)
        far = (k * half) * half
        # Only where `tiny` can the root be infinite and the product finite. The power is then ax**-n.
        far = np.where(np.isinf(half) & tiny, divide_power(k, ax, n=n), far)
        rest = np.where(np.isfinite(half), (k_low * half) * half, 0.0)
        far = far + np.where(np.isfinite(far), rest + far * tail, 0.0)
        out = np.where(extreme, np.where(half == 0, 0.0, far), out)
    return out


def _pow_derivative(x: Any, y: Any, *, n: int, m: int) -> Any:
    ax = np.abs(x)
    e, low = two_sum(y, -float(n))
    inner = (ax > 0) & np.isfinite(ax) & np.isfinite(e)
    safe = np.where(inner, ax, 1.0)
    log = log_pair(safe) if m else (np.log(safe), 0.0)
    k, k_low = _factor(y, log, n, m)
    k_low = np.where(np.isfinite(k_low), k_low, 0.0)
    # x**(e + low) = x**e (1 + low log x)
    tail = np.where(inner, low * log[0], 0.0)
    p = np.power(ax, e)
    out = _times_power((k, k_low), ax, e, p, tail, inner, n, np.abs(y) < 1e-17)
    if m and n < 2 and not np.all(inner):
        size = np.log(ax)  # infinities use the textbook formula
        plain = (size**m if n == 0 else (m + y * size) * size ** (m - 1)) * p
        out = np.where(inner | (ax == 0), out, plain)
    return _pow_signs(x, y, n, m, k, out)


def _without_infinite_factors(x: Any, y: Any, n: int, out: Any) -> Any:
    """0 where an infinity makes the power 0, because the power outweighs the factor, a polynomial in y and log(x)."""
    if np.isfinite(x).all() and np.isfinite(y).all():
        return out
    ax = np.abs(x)
    gone = np.where(np.isinf(y), np.where(y > 0, ax < 1, ax > 1), np.isinf(ax) & (y < n))
    return np.where(gone, 0.0, out)


def _pow_signs(x: Any, y: Any, n: int, m: int, k: Any, out: Any) -> Any:
    """The derivative for every x, from its size `out` at abs(x). `k` is its factor, a polynomial in y."""
    odd = np.abs(np.fmod(y, 2.0)) == 1.0
    whole = np.equal(np.rint(y), y)
    if m == 0:
        # If the power is 0, the result is 0 even if the factor overflows.
        out = np.where(np.isnan(x), x, np.where(np.equal(k, 0) | (np.equal(x, 0) & (y > n)), 0.0, out))
        out = _without_infinite_factors(x, y, n, out)
        out = np.where(np.signbit(x) & (odd != bool(n % 2)) & whole, -out, out)
        return np.where((x < 0) & ~whole, np.nan, out)
    out = _without_infinite_factors(x, y, n, out)
    if np.any(np.equal(x, 0)):
        out = np.where(np.equal(x, 0), _pow_derivative_at_0(y, n, m), out)
    return np.where(x < 0, np.where(whole, 0.0, np.nan), out)


def _pow_derivative_plain(x: Any, y: Any, *, n: int, m: int) -> Quick | None:
    if n > 2 or (m and n > 1):
        return None
    ax = np.abs(x)
    log = np.where(ax > 0, np.log(ax), 0.0)
    k = log**m if n == 0 else (m + y * log) * log ** (m - 1) if m else y if n == 1 else y * (y - 1.0)
    return _pow_signs(x, y, n, m, k, k * np.power(ax, y - n)), True


def _pow_derivative_at_0(y: Any, n: int, m: int) -> Any:
    """The limit for x -> 0 from above, m > 0. For integers y >= 0 the value 0 of x < 0; NaN where x**y is infinite."""
    limit = _falling(y, n)[0] * (-math.inf) ** m * np.power(0.0, y - n)
    zero = (y > n) | np.equal(np.rint(y), y)
    return np.where(y < 0, np.nan, np.where(zero, 0.0, limit))


_QUICK = {(1, 0), (2, 0), (0, 1)}


def _pow_derivative_moderate(x: Any, y: Any, *, n: int, m: int) -> Quick | None:
    """The formula of `_pow_derivative_float` for arrays."""
    if (n, m) not in _QUICK:
        return None
    e = y - n
    p = np.power(x, e)
    size = np.abs(p)
    right = (size > 1e-200) & (size < 1e200) & (e + n == y) & (np.abs(y) < _WHOLE) & (x == x)  # NaN**0 is 1
    if m:
        right = right & (x > 0.0)
        return p * np.log(np.where(x > 0.0, x, 1.0)), right
    return (y * p if n == 1 else y * (y - 1.0) * p) + 0.0, right


def _pow_derivative_float(x: float, y: float, *, n: int, m: int) -> float:
    if (n, m) not in _QUICK or x != x or (m and x <= 0.0):
        raise ValueError
    e = y - n
    if e + n != y or not -_WHOLE < y < _WHOLE:
        raise ValueError
    p = math.pow(x, e)
    if not 1e-200 < abs(p) < 1e200:
        raise ValueError
    if m:
        return p * math.log(x)
    return y * p + 0.0 if n == 1 else y * (y - 1.0) * p + 0.0


_pow_derivative_kernel = scalar_first(
    wide(_pow_derivative, _pow_derivative_plain, _pow_derivative_moderate), _pow_derivative_float
)


def pow_derivative(x: Any, y: Any, *, n: int, m: int) -> Any:
    """The derivative of x**y, n times by x and m times by y.

    Logarithms are taken only for x > 0. For x < 0 the power exists only at integers y, and its y-derivatives are 0.
    """
    if m == 0 and np.ndim(y) == 0 and np.ndim(x) and np.isfinite(y) and x.dtype == y.dtype:
        quick = _one_exponent(x, float(y), n)
        if quick is not None:
            return quick
    return _pow_derivative_kernel(x, y, n=n, m=m)


def _fraction(n: int, d: int) -> Pair:
    """n / d as a pair. Infinite if beyond the range of floats."""
    return (math.copysign(math.inf, n), 0.0) if abs(n) >> 1000 > abs(d) else ratio(n, d)


@lru_cache(maxsize=64)
def _root_parts(p: float, n: int) -> tuple[Pair, Pair]:
    """The factor and the exponent of the n-th derivative of x**(1/p)."""
    below, above = p.as_integer_ratio()
    factor = math.prod([above - j * below for j in range(n)])
    return _fraction(factor, below**n), _fraction(above - n * below, below)


@in_float64
def root_derivative(x: Any, *, p: float, n: int) -> Any:
    """The n-th derivative of x**(1/p) for x >= 0, with 1/p as a pair; NaN for x < 0."""
    factor, (e, low) = _root_parts(p, n)
    power = np.power(x, e)
    if np.all((x > 1e-200) & (x < 1e200) & (power > 1e-200) & (power < 1e200)):
        out = factor[0] * power
        return out + (factor[1] * power + out * (low * np.log(x)))
    inner = (x > 0) & np.isfinite(x)
    tail = low * np.log(np.where(inner, x, 1.0))
    ax = np.abs(x)
    out = _times_power(factor, ax, e, np.power(ax, e), tail, inner, n, p > 1e17)
    return np.where(x < 0, np.nan, np.where(np.isnan(x) | (factor[0] != 0), out, 0.0))


def power_in_units(x: Any, unit: Any, scale: Any, *, p: float = 3.0, n: int = 0) -> Any:
    """The n-th derivative of 2**scale (x / 2**unit)**p for x >= 0; NaN for x < 0."""

    def derivative(z: Any) -> Any:
        return pow_derivative(z, np.float64(p), n=n, m=0) if n else power(z, np.float64(p))

    y = _in_units(derivative, x, unit, scale, n, two_sum(np.float64(p), -float(n)))
    return np.where(x < 0, np.nan, y).astype(y.dtype)  # although a whole exponent gives a number


def root_in_units(x: Any, unit: Any, scale: Any, *, p: float = 3.0, n: int = 0) -> Any:
    """The n-th derivative of 2**scale (x / 2**unit)**(1/p) for x >= 0; NaN for x < 0."""
    return _in_units(lambda z: root_derivative(z, p=p, n=n), x, unit, scale, n, _root_parts(p, n)[1])


def _in_units(derivative: Callable[[Any], Any], x: Any, unit: Any, scale: Any, n: int, exponent: Pair) -> Any:
    """2**(scale - n unit) times a factor times the power `exponent` of x / 2**unit. `derivative` gives
    the product of the factor and the power.
    """
    dtype = np.result_type(x, unit, scale)
    unit, scale = (
        np.clip(np.nan_to_num(np.asarray(v, np.float64)), -_FAR, _FAR).astype(np.int32) for v in (unit, scale)
    )
    x = np.asarray(x, np.float64)
    z = _scaled(x, -unit)
    y = derivative(z)
    if _is_near(z) and _is_near(np.abs(y)):  # the usual case, in a third of the time
        return _scaled(y, scale - n * unit).astype(dtype, copy=False)
    inside = (z > _NEAR) & (z < 1 / _NEAR) & (np.abs(y) > _NEAR) & (np.abs(y) < 1 / _NEAR)
    far = (x > 0) & np.isfinite(x) & ~inside
    y = np.ldexp(y, scale - n * unit)
    if np.any(far):
        # The power of a fraction near 1, and the power of two, whose exponent is a whole number and a rest.
        f, e = np.frexp(np.where(far, x, 1.0))
        low = f < math.sqrt(0.5)
        f, e = np.where(low, 2 * f, f), e - low - unit
        high = np.float64(np.float32(exponent[0]))
        whole = np.rint(e * high)
        rest = e * high - whole + (e * (exponent[0] - high) + e * exponent[1])
        whole = np.clip(whole, -_FAR, _FAR).astype(np.int32)
        y = np.where(far, np.ldexp(derivative(f) * np.exp2(rest), whole + scale - n * unit), y)
    return y.astype(dtype)


def _scaled(x: Any, e: Any) -> Any:
    """Numbers times powers of two: by products, which take a third of the time, where the powers are normal numbers."""
    return x * np.ldexp(1.0, e) if np.max(np.abs(e), initial=0) <= 1022 else np.ldexp(x, e)


def _is_near(x: Any) -> bool:
    """Whether all numbers are positive and far from the ends of the range. NaN gives False."""
    return bool(np.min(x, initial=1.0) > _NEAR and np.max(x, initial=1.0) < 1 / _NEAR)


_NEAR = 1e-200
_FAR = 1 << 20  # the exponent of a power of two beyond all floats
