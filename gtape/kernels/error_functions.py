"""Kernels of the inverse error functions and the normal quantile, and of all their derivatives.

One Newton step corrects SciPy's value. Its residual is exact in the tail, too. The correction is kept, because the
square in exp(y²) needs more digits than y has. All coefficients of the derivatives are positive, so no terms cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from math import factorial, ldexp
from typing import Any

import numpy as np

from gtape.kernels.pair_functions import difference, exact, exp_parts, horner_pair, over, sum_pair
from gtape.kernels.pairs import Pair, Quick, multiply_pairs, nearest, two_product, two_sum
from gtape.kernels.pieces import Pieces, joined
from gtape.kernels.special_tables import Table, by_regions, decaying_sum, flat_float64

ROOT_PI = Fraction(
    "1.7724538509055160272981674833411451827975494561223871282138077898529112845910321813749506567385446654162268"
)
ROOT_TAU = Fraction(
    "2.5066282746310005024157652848110452530069867406099383166299235763422936546078419749465958383780572661"
)
_MIDDLE = 0.5  # for a smaller abs(erf) the equation is solved for y, otherwise for the tail


@lru_cache(maxsize=1)
def erf_series() -> list[Pair]:
    """erf(y)/y in powers of y², with enough terms for abs(y) < 0.5."""
    return [exact(2 * Fraction((-1) ** k, factorial(k) * (2 * k + 1)) / ROOT_PI) for k in range(22)]


def _middle(x: Any) -> Pair:
    """erfinv for abs(x) < 1/2, as a pair."""
    from gtape.kernels.scipy_special import erfinv

    tiny = np.abs(x) < 1e-100
    safe = np.where(tiny, 0.25, x)
    y = erfinv(safe)
    square = two_product(y, y)
    value = multiply_pairs(horner_pair(erf_series(), square), (y, 0.0 * y))
    gap = difference((safe, 0.0 * safe), value)
    step = (gap[0] + gap[1]) * np.exp(square[0]) * float(ROOT_PI / 2)
    found = two_sum(y, step)
    small = x * float(ROOT_PI / 2)
    return np.where(tiny, small, found[0]), np.where(tiny, 0.0, found[1])


_SCALED_FAR = 9.0


@lru_cache(maxsize=1)
def _scaled_table() -> Table:
    """The table of exp(y²) erfc(y), by f'' - 2y f' - 2f = 0."""
    centres = [Fraction(i, 4) for i in range(41)]
    return Table([[-2], [0, -2], [1]], centres, lambda: [Fraction(1), -2 / ROOT_PI], series=False)


@lru_cache(maxsize=1)
def _scaled_series() -> list[Fraction]:
    """sqrt(pi) y exp(y²) erfc(y) in powers of 1/y: sum of (-1)^k (2k-1)!! / (2y²)^k (DLMF 7.12)."""
    out, c = [], Fraction(1)
    for k in range(60):
        out += [c, Fraction(0)]
        c = c * Fraction(-(2 * k + 1), 2)
    return out


def _scaled_far(y: Any) -> Pair:
    total, _ = decaying_sum(_scaled_series(), y, _SCALED_FAR)
    return over(total, multiply_pairs(exact(ROOT_PI), (y, 0.0 * y)))


def _scaled(y: Any) -> Pair:
    """exp(y²) erfc(y) for y >= 0, as a pair."""
    far = y >= _SCALED_FAR
    near = _scaled_table().derivative(np.minimum(y, _SCALED_FAR), 0)
    if not np.any(far):
        return near
    high, low = _scaled_far(np.maximum(y, _SCALED_FAR))
    return np.where(far, high, near[0]), np.where(far, low, near[1])


def _tail(p: Any) -> Pair:
    """erfcinv for 0 < p <= 1/2, as a pair."""
    from gtape.kernels.scipy_special import erfcinv

    y = np.where(p > 1e-300, erfcinv(np.maximum(p, 1e-300)), np.sqrt(np.maximum(-np.log(p) - 4.0, 1.0)))
    small = p < 1e-150  # these are multiplied by 2^512, because subnormal numbers lose digits
    goal = np.where(small, p * 2.0**512, p)
    for last in (False, False, True):
        high, low = two_product(y, y)
        factor = _scaled(y)
        part, k = exp_parts((-high, -low))
        mantissa = multiply_pairs(factor, sum_pair((1.0, 0.0), part))
        k = k + np.where(small, 512, 0)
        # Newton's method for log erfc: step = log(erfc(y)/p) erfc / -erfc'.
        excess = np.log1p(nearest(difference((np.ldexp(mantissa[0], k), np.ldexp(mantissa[1], k)), (goal, 0.0))) / goal)
        step = excess * factor[0] * float(ROOT_PI / 2)
        if last:
            return two_sum(y, step)
        y = y + step
    raise AssertionError


@lru_cache(maxsize=32)
def _polynomial(n: int, c: int) -> tuple[int, ...]:
    """The polynomial P for which the n-th derivative is P(y) (y')^n, from y'' = c y (y')²."""
    if n == 1:
        return (1,)
    p = _polynomial(n - 1, c)
    out = [0] * (len(p) + 1)
    for i, v in enumerate(p):
        if i:
            out[i - 1] += i * v
        out[i + 1] += (n - 1) * c * v
    return tuple(out)


def _derivative_parts(y: Pair, n: int, c: int, slope: Pair) -> tuple[Pair, Any]:
    """P(y) slope^n exp(n c y²/2) as a pair and a power of 2."""
    square = multiply_pairs(y, y)
    half = n * c / 2.0
    p, e = two_product(square[0], half)
    part, k = exp_parts((p, e + square[1] * half))
    factor = sum_pair((1.0, 0.0), part)
    row = [exact(v) for v in _polynomial(n, c)]
    value = multiply_pairs(horner_pair(row, y), factor)
    for _ in range(n):
        value = multiply_pairs(value, slope)
    return value, k


def _derivative(y: Pair, n: int, c: int, slope: Pair) -> Any:
    value, k = _derivative_parts(y, n, c, slope)
    return np.ldexp(nearest(value), k)


def _erfinv_pair(x: Any) -> Pair:
    a = np.abs(x)
    middle = a < _MIDDLE
    inner = _middle(np.where(middle, x, 0.25))
    outer = _tail(np.where(middle | (a >= 1.0), 0.25, 1.0 - a))
    sign = np.sign(x)
    return np.where(middle, inner[0], sign * outer[0]), np.where(middle, inner[1], sign * outer[1])


def _erfcinv_pair(x: Any) -> Pair:
    """erfcinv for 0 < x < 2, as a pair."""
    small, large = x <= _MIDDLE, x >= 2.0 - _MIDDLE
    middle = ~small & ~large
    left = _tail(np.where(small, x, np.where(large, 2.0 - x, 0.25)))
    inner = _middle(np.where(middle, 1.0 - x, 0.25))
    sign = np.where(large, -1.0, 1.0)
    return np.where(middle, inner[0], sign * left[0]), np.where(middle, inner[1], sign * left[1])


def _quantile_pair(p: Any) -> Pair:
    """The normal quantile divided by -sqrt(2), which is erfcinv(2p), for 0 < p < 1."""
    upper = p > 0.5
    tail = np.where(upper, 1.0 - p, p)  # exact for p > 1/2
    small = tail < 0.25
    outer = _tail(np.where(small, 2.0 * tail, 0.25))
    inner = _middle(np.where(small, 0.25, 2.0 * (0.5 - tail)))
    sign = np.where(upper, -1.0, 1.0)
    return sign * np.where(small, outer[0], inner[0]), sign * np.where(small, outer[1], inner[1])


# quick formulas -------------------------------------------------------------------------------------------------------

_LEAST, _DEEPEST = -10, -150  # the octaves of the first polynomials, from 0 and from the ends of the domain
_MOST_ORDERS = 6


def _scaled_pair(y: Pair, n: int, normal: bool) -> Pair:
    """The n-th derivative of erfinv where erfinv is y, for the quantile times sqrt(2) 2^n."""
    value, k = (y, 0) if n == 0 else _derivative_parts(y, n, 2, exact(ROOT_PI / 2))
    if normal:
        value = multiply_pairs(value, exact(2**n * ROOT_TAU / ROOT_PI))
    return np.ldexp(value[0], k), np.ldexp(value[1], k)


@lru_cache(maxsize=32)
def _inner_pieces(n: int, normal: bool) -> Pieces:
    """The polynomials of abs(x). The number 1/2 needs an interval, too."""
    return Pieces(lambda a: _scaled_pair(_erfinv_pair(a), n, normal), _LEAST, 0)


@lru_cache(maxsize=32)
def _outer_pieces(n: int, normal: bool) -> Pieces:
    """The polynomials of 1 - abs(x)."""
    return Pieces(lambda p: _scaled_pair(_tail(p), n, normal), _DEEPEST, -1)


@lru_cache(maxsize=32)
def _series(n: int, normal: bool) -> tuple[Pair, tuple[float, ...]]:
    """The power series at 0 (divided by x for even n) in powers of x²: its first coefficient and three others."""
    row = []
    for m in range(n + 1 - n % 2, n + 8 - n % 2, 2):
        c = _polynomial(m, 2)[0] * (ROOT_PI / 2) ** m / factorial(m - n)
        row.append(c * 2**n * ROOT_TAU / ROOT_PI if normal else c)
    return exact(row[0]), tuple(map(float, row[1:]))


def _by_series(x: Any, n: int, normal: bool) -> Quick:
    (high, low), others = _series(n, normal)
    square = x * x
    rest: Any = 0.0
    for c in others[::-1]:
        rest = (rest + c) * square
    rest = rest + low
    return (x * high + x * rest if n % 2 == 0 else high + rest), True


def _quick(x: Any, tail: Any, least: float, n: int, normal: bool = False) -> Quick | None:
    """The n-th derivative of erfinv at x, given 1 - abs(x) as `tail` where this is below 1/2."""
    if n > _MOST_ORDERS:
        return None
    a = np.abs(x)
    # Each region takes the indices of its numbers.
    found = joined(
        np.arange(x.size),
        (a < ldexp(1.0, _LEAST), lambda i: _by_series(a[i], n, normal)),
        ((a >= ldexp(1.0, _LEAST)) & (a <= _MIDDLE), lambda i: _inner_pieces(n, normal)(a[i], least)),
        ((a > _MIDDLE) & (tail < _MIDDLE), lambda i: _outer_pieces(n, normal)(tail[i], least)),
    )
    return None if found is None else (np.copysign(found[0], x) if n % 2 == 0 else found[0], found[1])


def _quick_erfinv(x: Any, least: float, *, n: int = 0) -> Quick | None:
    return _quick(x, 1.0 - np.abs(x), least, n)


def _quick_erfcinv(x: Any, least: float, *, n: int = 0) -> Quick | None:
    found = _quick(1.0 - x, np.minimum(x, 2.0 - x), least, n)
    return found if found is None or n % 2 == 0 else (-found[0], found[1])


def _quick_ndtri(x: Any, least: float, *, n: int = 0) -> Quick | None:
    return _quick(2.0 * (x - 0.5), 2.0 * np.minimum(x, 1.0 - x), least, n, normal=True)


# kernels --------------------------------------------------------------------------------------------------------------


def _on(lo: float, hi: float, x: Any, inside: Callable[[Any], Any], at_lo: float, at_hi: float) -> Any:
    return by_regions(
        x,
        ((x > lo) & (x < hi), inside),
        (x == lo, lambda v: np.full_like(v, at_lo)),
        (x == hi, lambda v: np.full_like(v, at_hi)),
    )


@partial(flat_float64, quick=_quick_erfinv)
def erfinv(x: Any) -> Any:
    """The inverse of erf, for -1 <= x <= 1."""
    return _on(-1.0, 1.0, x, lambda v: np.where(v == 0, v, nearest(_erfinv_pair(v))), -np.inf, np.inf)


@partial(flat_float64, quick=_quick_erfinv)
def erfinv_derivative(x: Any, *, n: int) -> Any:
    """The n-th derivative of erfinv, n > 0."""
    slope = exact(ROOT_PI / 2)
    low = np.inf if n % 2 else -np.inf
    return _on(-1.0, 1.0, x, lambda v: _derivative(_erfinv_pair(v), n, 2, slope), low, np.inf)


@partial(flat_float64, quick=_quick_erfcinv)
def erfcinv(x: Any) -> Any:
    """The inverse of erfc, for 0 <= x <= 2."""
    return _on(0.0, 2.0, x, lambda v: nearest(_erfcinv_pair(v)), np.inf, -np.inf)


@partial(flat_float64, quick=_quick_erfcinv)
def erfcinv_derivative(x: Any, *, n: int) -> Any:
    """The n-th derivative of erfcinv, n > 0."""
    slope = exact(-ROOT_PI / 2)
    low = -np.inf if n % 2 else np.inf
    return _on(0.0, 2.0, x, lambda v: _derivative(_erfcinv_pair(v), n, 2, slope), low, -np.inf)


def _quantile(p: Any) -> Pair:
    y = _quantile_pair(p)
    return multiply_pairs(y, exact(-ROOT_TAU / ROOT_PI))


@partial(flat_float64, quick=_quick_ndtri)
def ndtri(x: Any) -> Any:
    """The quantile of the normal distribution, for 0 <= x <= 1."""
    return _on(0.0, 1.0, x, lambda v: nearest(_quantile(v)), -np.inf, np.inf)


@partial(flat_float64, quick=_quick_ndtri)
def ndtri_derivative(x: Any, *, n: int) -> Any:
    """The n-th derivative of ndtri, n > 0."""
    slope = exact(ROOT_TAU)
    low = np.inf if n % 2 else -np.inf
    return _on(0.0, 1.0, x, lambda v: _derivative(_quantile(v), n, 1, slope), low, np.inf)
