"""Kernels of the slopes of atan2 and hypot. No intermediate value overflows or underflows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gtape.kernels.pair_functions import exact, sum_pair
from gtape.kernels.pairs import (
    Pair,
    Quick,
    add_pairs,
    divide_pairs,
    multiply_pairs,
    scalar_first,
    scale_pair,
    sqrt_pair,
    two_product,
    wide,
)


def _polar(x: Any, y: Any) -> tuple[Any, Any, Any, Any, Any, Any, Any]:
    """Mantissas and exponents of x and y; x and y scaled by 2**-e with their larger exponent e; and e.

    An infinite argument counts as huge. If the other argument is finite, it counts as 0.
    """
    infinite = np.isinf(x) | np.isinf(y)
    x = np.where(infinite, np.copysign(np.where(np.isinf(x), 1.0, 0.0), x), x)
    y = np.where(infinite, np.copysign(np.where(np.isinf(y), 1.0, 0.0), y), y)
    mx, ex = np.frexp(x)
    my, ey = np.frexp(y)
    ex = np.where(mx == 0, -8000, ex + 8000 * infinite)
    ey = np.where(my == 0, -8000, ey + 8000 * infinite)
    e = np.maximum(ex, ey)
    return mx, ex, my, ey, np.ldexp(mx, ex - e), np.ldexp(my, ey - e), e


def _square_sum(x: Any, y: Any, k: float = 1.0) -> Pair:
    """The number x*x + k*y*y as a pair."""
    return add_pairs(two_product(x, x), scale_pair(two_product(y, y), k))


def _inverse(x: Any, y: Any, n: int, real: bool) -> Any:
    mx, ex, my, ey, sx, sy, e = _polar(x, y)
    r = _square_sum(sx, sy)
    zero = np.zeros_like(mx)
    below = r
    for _ in range(n - 1):
        below = multiply_pairs(below, r)
    # The numerator is a part of (x - iy)**n. The exponent of a small factor is kept apart, because the factor may
    # underflow.
    if n == 1:
        above, exponent = ((mx, zero), ex) if real else ((-my, zero), ey)
    elif n == 2:
        above, exponent = (_square_sum(sx, sy, -1.0), 2 * e) if real else (two_product(-2.0 * mx, my), ex + ey)
    elif n == 3:
        first, other, m, em = (sx, sy, mx, ex) if real else (sy, sx, my, ey)
        above, exponent = multiply_pairs(_square_sum(first, other, -3.0), (m, zero)), em + 2 * e
    else:
        z = (sx - 1j * sy) ** n
        above, exponent = (z.real if real else z.imag, zero), n * e
    q = divide_pairs(above, below)
    return np.ldexp(q, exponent - 2 * n * e)


def _inverse_plain(x: Any, y: Any, n: int, real: bool) -> Quick | None:
    if n > 2:
        return None
    r = x * x + y * y
    if n == 1:
        return (x if real else -y) / r, np.isfinite(r)
    return ((x - y) * (x + y) if real else -2.0 * x * y) / (r * r), np.isfinite(r)


def _inverse_moderate(x: Any, y: Any, n: int, real: bool) -> Quick | None:
    if n > 1:
        return None
    r = x * x + y * y
    return (x if real else -y) / r, (r > 1e-280) & (r < 1e280)


def _inverse_float(x: float, y: float, n: int, real: bool) -> float:
    r = x * x + y * y
    if n > 1 or not 1e-280 < r < 1e280:
        raise ValueError
    return (x if real else -y) / r


def _inverse_kernel(real: bool) -> Callable[..., Any]:
    return scalar_first(
        wide(
            lambda y, x, *, n: _inverse(x, y, n, real),
            lambda y, x, *, n: _inverse_plain(x, y, n, real),
            lambda y, x, *, n: _inverse_moderate(x, y, n, real),
        ),
        lambda y, x, *, n: _inverse_float(x, y, n, real),
    )


inverse_real = _inverse_kernel(True)  # the real part of (x + iy)**-n, as a function of y and x
inverse_imag = _inverse_kernel(False)


def _over_length(factor: Callable[[Any, Any], Pair], x: Any, y: Any, i: int, j: int, k: int, degree: int) -> Any:
    """x**i y**j times a form of degree `degree`, divided by hypot(x, y)**k. 0 at the origin."""
    mx, ex, my, ey, sx, sy, e = _polar(x, y)
    r = _square_sum(sx, sy)
    zero = np.zeros_like(mx)
    below = sqrt_pair(r) if k % 2 else (np.ones_like(mx), zero)
    for _ in range(k // 2):
        below = multiply_pairs(below, r)
    above, exponent = factor(sx, sy), i * ex + j * ey + (degree - k) * e
    for m in [mx] * i + [my] * j:
        above = multiply_pairs(above, (m, zero))
    return np.where(np.equal(r[0], 0), 0.0, np.ldexp(divide_pairs(above, below), exponent))


def _hypot_term(x: Any, y: Any, *, i: int, j: int, k: int) -> Any:
    return _over_length(lambda sx, sy: (np.ones_like(sx), np.zeros_like(sx)), x, y, i, j, k, 0)


def _form(c: Sequence[int], x: Any, y: Any) -> Pair:
    """The sum of c[i] x**i y**(d-i), by Horner's rule with powers of y."""
    zero = np.zeros_like(x)
    total: Pair = (zero, zero)
    power: Pair = (zero + 1.0, zero)
    for v in reversed(c):  # total is the form of the coefficients so far, power is the next power of y
        total = multiply_pairs(total, (x, zero))
        total = sum_pair(total, multiply_pairs(exact(v), power))
        power = multiply_pairs(power, (y, zero))
    return total


@wide
def hypot_form(x: Any, y: Any, *, c: Sequence[int], k: int) -> Any:
    """The homogeneous polynomial with the coefficients c, divided by hypot(x, y)**k. 0 at the origin."""
    nonzero = [i for i, v in enumerate(c) if v]
    if not nonzero:
        return 0.0 * x + 0.0 * y
    i, j = nonzero[0], len(c) - 1 - nonzero[-1]  # the factor x**i y**j is taken out, because it may underflow
    inner = c[i : len(c) - j]
    return _over_length(lambda sx, sy: _form(inner, sx, sy), x, y, i, j, k, len(inner) - 1)


def _hypot_term_plain(x: Any, y: Any, *, i: int, j: int, k: int) -> Quick | None:
    if k > 5:
        return None
    r = x * x + y * y
    above = math.prod([x] * i + [y] * j)
    below = (np.sqrt(r) if k % 2 else 1.0) * math.prod([r] * (k // 2))
    return np.where(np.equal(r, 0), 0.0, above / below), np.isfinite(r)


def _hypot_term_moderate(x: Any, y: Any, *, i: int, j: int, k: int) -> Quick | None:
    if k != 1 or i + j != 1:
        return None
    h = np.hypot(x, y)
    return (x if i else y) / h, (h > 1e-290) & np.isfinite(h)


def _hypot_term_float(x: float, y: float, *, i: int, j: int, k: int) -> float:
    h = math.hypot(x, y)
    if k != 1 or i + j != 1 or not 1e-290 < h < math.inf:
        raise ValueError
    return (x if i else y) / h


# x**i y**j / hypot(x, y)**k, and 0 (the value of least norm) at the origin.
hypot_term = scalar_first(wide(_hypot_term, _hypot_term_plain, _hypot_term_moderate), _hypot_term_float)
