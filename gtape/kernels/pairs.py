"""Pairs (numbers held as a high and a low float), and kernels of any dtype made of functions of float64.

A sum or product is a pair if its rounding error would cost digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from gtape.kernels.broadcasting import broadcast_arrays

Pair = tuple[Any, Any]


Quick = tuple[Any, Any]  # values, and where they are right


def wide(
    core: Callable[..., Any],
    plain: Callable[..., Quick | None] | None = None,
    moderate: Callable[..., Quick | None] | None = None,
) -> Callable[..., Any]:
    """A kernel of any dtype that computes in float64 and then rounds.

    For narrower dtypes `plain`, the textbook formula in float64, is exact enough. `moderate` is a fast formula for
    float64. Both return their values and where these are right, or None if their parameters are out of their range.
    """

    @wraps(core)
    def kernel(*args: Any, **params: Any) -> Any:
        dtype = np.result_type(*args)
        if dtype == np.float64:
            return mended(core, moderate, *args, **params)
        wide = [np.asarray(a, np.float64) for a in args]
        return mended(core, plain, *wide, **params).astype(dtype)

    return kernel


def mended(core: Callable[..., Any], quick: Callable[..., Quick | None] | None, *args: Any, **params: Any) -> Any:
    """The values of a fast formula, and those of `core` where the fast ones are wrong.

    Each element chooses its own formula, because its bits must not depend on the other elements: compiled functions
    compute long arrays in blocks.
    """
    found = None if quick is None else quick(*args, **params)
    if found is None:
        return core(*args, **params)
    values, right = found
    if np.all(right):
        return values
    rest = ~np.asarray(right)
    if rest.all():
        return core(*args, **params)
    values = np.array(values)
    values[rest] = core(*[a[rest] for a in broadcast_arrays(*args)], **params)
    return values


def scalar_first(kernel: Callable[..., Any], scalar: Callable[..., float]) -> Callable[..., Any]:
    """A kernel of two arguments that tries `scalar` for float64 scalars, and calls `kernel` if that raises an error.

    Python's floats take the same way as NumPy's, because their results must have the same bits.
    """

    @wraps(kernel)
    def first(x: Any, y: Any, **params: Any) -> Any:
        if isinstance(x, float) and isinstance(y, float):  # np.float64 is a float
            try:
                return np.float64(scalar(float(x), float(y), **params))
            except (ValueError, ArithmeticError):
                pass
        return kernel(x, y, **params)

    return first


def nearest(a: Pair) -> Any:
    """A pair as one float."""
    return a[0] + a[1]


def two_sum(a: Any, b: Any) -> Pair:
    """a + b with its rounding error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _split(a: Any) -> Pair:
    c = 134217729.0 * a
    high = c - (c - a)
    return high, a - high


def two_product(a: Any, b: Any) -> Pair:
    """a * b with its rounding error (Dekker), away from overflow and underflow."""
    p = a * b
    ah, al = _split(a)
    bh, bl = _split(b)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def add_pairs(a: Pair, b: Pair) -> Pair:
    """The sum of two pairs."""
    s, e = two_sum(a[0], b[0])
    return s, e + (a[1] + b[1])


def multiply_pairs(a: Pair, b: Pair) -> Pair:
    """The product of two pairs."""
    p, e = two_product(a[0], b[0])
    return p, e + (a[0] * b[1] + a[1] * b[0])


def scale_pair(a: Pair, k: float) -> Pair:
    """A pair times a small integer."""
    p, e = two_product(a[0], k)
    return p, e + a[1] * k


def divide_pairs(a: Pair, b: Pair) -> Any:
    """The quotient of two pairs, rounded to one float."""
    q = a[0] / b[0]
    p, e = two_product(q, b[0])
    return q + (((a[0] - p) - e) + (a[1] - q * b[1])) / b[0]


def sqrt_pair(a: Pair) -> Pair:
    """The square root of a pair."""
    s = np.sqrt(a[0])
    p, e = two_product(s, s)
    return s, (((a[0] - p) - e) + a[1]) / (2.0 * s)


_LN2 = (0.6931471805599453, 2.3190468138462996e-17)
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
_ODD = [2.0 / n for n in range(25, 3, -2)]


def log_pair(x: Any) -> Pair:
    """log(x) for x > 0 as a pair with about 63 bits, because sums and powers would show the rounding of np.log."""
    m, e = np.frexp(x)
    small = m < math.sqrt(0.5)
    m, e = np.where(small, 2.0 * m, m), (e - small).astype(np.float64)
    # The formula is log(m) = 2 artanh(s), s = (m - 1) / (m + 1), with two terms of the series as pairs and the small
    # rest as a float.
    below, low = two_sum(m, 1.0)
    first = (m - 1.0) / below
    p, error = two_product(first, below)
    s = first, (((m - 1.0) - p) - error - first * low) / below
    square = multiply_pairs(s, s)
    cube = multiply_pairs(multiply_pairs(square, s), _TWO_THIRDS)
    z, rest = square[0], 0.0
    for c in _ODD:
        rest = z * (c + rest)
    head = two_product(e, _LN2[0])
    out = add_pairs((head[0], head[1] + e * _LN2[1]), (2.0 * s[0], 2.0 * s[1]))
    return two_sum(*add_pairs(out, (cube[0], cube[1] + first * z * rest)))
