"""Kernels of the scaled tail erfcx, of the logarithms of tail probabilities, and of all their derivatives.

Let s = 2 for the tail erfc(x), and s = 1 for the tail erfc(x/sqrt(2)), which is twice the normal tail. Then f(x) =
exp(s x²/2) times the tail solves f'' = s x f' + s f. Taylor tables give f as pairs, and an asymptotic series gives f
for large x (DLMF 7.12). For x < 0 the kernels use f(-x) = 2 exp(s x²/2) - f(x).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from math import comb
from typing import Any

import numpy as np

from gtape.kernels.error_functions import ROOT_PI, ROOT_TAU, erf_series
from gtape.kernels.gauss import hermite
from gtape.kernels.log_pairs import log_exact
from gtape.kernels.pair_functions import difference, exact, exp_parts, horner_pair, over, sum_pair
from gtape.kernels.pairs import Pair, Quick, multiply_pairs, nearest, two_product
from gtape.kernels.pieces import Pieces, joined
from gtape.kernels.special_tables import LN2, Decaying, Table, by_regions, decaying_sum, flat_float64

_FAR = {1: 13, 2: 9}  # from these numbers on the asymptotic series has all digits
_SLOPE = {1: 2 / ROOT_TAU, 2: 2 / ROOT_PI}  # -f'(0)
_BEYOND = 60.0  # for larger x the density and its derivatives are 0 in float64


@lru_cache(maxsize=2)
def _table(s: int) -> Table:
    centres = [Fraction(i, 4) for i in range(4 * _FAR[s] + 2)]
    return Table([[-s], [0, -s], [1]], centres, lambda: [Fraction(1), -_SLOPE[s]], series=False)


@lru_cache(maxsize=2)
def _decaying(s: int) -> Decaying:
    """f divided by -f'(0): 1/(s x) times the sum of (-1)^k (2k-1)!! / (s x²)^k."""
    return Decaying(0, Fraction(1), _interleaved([c / s for c in _mills(s)]))


@lru_cache(maxsize=2)
def _mills(s: int) -> list[Fraction]:
    """The coefficients of s x f / -f'(0) in powers of 1/x²."""
    out, c = [], Fraction(1)
    for k in range(60):
        out.append(c)
        c = c * Fraction(-(2 * k + 1), s)
    return out


@lru_cache(maxsize=2)
def _hazard_series(s: int) -> Decaying:
    """-f'(0)/f, which is s x divided by the sum of `_mills`: the reciprocal series."""
    mills = _mills(s)
    inverse = [Fraction(1)]
    for k in range(1, len(mills)):
        inverse.append(-sum((mills[j] * inverse[k - j] for j in range(1, k + 1)), Fraction(0)))
    return Decaying(0, Fraction(-1), _interleaved([s * c for c in inverse]))


def _interleaved(even: list[Fraction]) -> list[Fraction]:
    return [c for pair in zip(even, [Fraction(0)] * len(even), strict=True) for c in pair]


def _exp_half_square(x: Any, s: int, sign: float = 1.0) -> tuple[Pair, Any]:
    """exp(sign s x²/2) as a pair and a power of 2, for abs(x) <= _BEYOND."""
    high, low = two_product(x, x)
    part, k = exp_parts((sign * 0.5 * s * high, sign * 0.5 * s * low))
    return sum_pair((1.0, 0.0), part), k


def _scaled(p: Pair, k: Any) -> Pair:
    return np.ldexp(p[0], k), np.ldexp(p[1], k)


# scaled tail ---------------------------------------------------------------------------------------------------------


def _near(x: Any, s: int, n: int) -> Pair:
    """The n-th derivative of f for 0 <= x < _FAR as a pair. The tables get 1e-50 in place of 0."""
    return _table(s).derivative(np.maximum(x, 1e-50), n)


_RANGE = -20, 20  # the octaves of polynomials
_STEEP = -20, 2, 5  # those of functions like exp(-x²), and their finer division
_ORDERS = 3


@lru_cache(maxsize=32)
def _pieces(pair: Callable[..., Pair], octaves: tuple[int, ...], *args: Any) -> Pieces:
    return Pieces(lambda x: pair(x, *args), *octaves)


def _f_pair(x: Any, s: int, n: int) -> Pair:
    """The n-th derivative of f for x > 0 as a pair with more digits than a float."""
    total, skip = decaying_sum(_decaying(s).row(n), np.maximum(x, _FAR[s]), _FAR[s])
    far = multiply_pairs(total, exact(_SLOPE[s]))
    for _ in range(skip + 1):
        far = over(far, (x, 0.0 * x))
    near = _near(np.minimum(x, _FAR[s]), s, n)
    return np.where(x < _FAR[s], near[0], far[0]), np.where(x < _FAR[s], near[1], far[1])


def _f(x: Any, s: int, n: int = 0) -> Pair:
    """The n-th derivative of f for x >= 0 as a pair, which from _FAR on has only the digits of a float."""
    far = x >= _FAR[s]
    near = _near(np.where(far, 1.0, x), s, n)
    if not np.any(far):
        return near
    total, skip = decaying_sum(_decaying(s).row(n), np.where(far, x, np.inf), _FAR[s])
    value = nearest(multiply_pairs(total, exact(_SLOPE[s])))
    for _ in range(skip + 1):
        value = value / x
    return np.where(far, value, near[0]), np.where(far, 0.0, near[1])


def _erfcx_left(x: Any, n: int) -> Any:
    """(-1)^n (2 (exp(a²))^(n) - f^(n)(a)) at a = -x. From a = 8 on the first term has all digits."""
    a = np.minimum(-x, _BEYOND)
    part, k = _exp_half_square(a, 2)
    growth = multiply_pairs(horner_pair([exact(2 * c) for c in hermite(n, (1,), -2)], (a, 0.0 * a)), part)
    near = a < 8.0
    inner, outer = np.where(near, k, 0), np.where(near, 0, k)
    other = _f(np.where(near, a, 0.0), 2, n)
    total = difference(_scaled(growth, inner), (np.where(near, other[0], 0.0), np.where(near, other[1], 0.0)))
    return (-1.0) ** n * np.ldexp(nearest(total), outer)


def _erfcx_left_pair(a: Any, n: int) -> Pair:
    """The n-th derivative at -a for moderate a > 0."""
    part, k = _exp_half_square(a, 2)
    growth = multiply_pairs(horner_pair([exact(2 * c) for c in hermite(n, (1,), -2)], (a, 0.0 * a)), part)
    total = difference(_scaled(growth, k), _f_pair(a, 2, n))
    return _minus(total) if n % 2 else total


def _minus(a: Pair) -> Pair:
    return -a[0], -a[1]


def _quick_erfcx(x: Any, least: float, *, n: int) -> Quick | None:
    if n > _ORDERS:
        return None
    return joined(
        x,
        (x > 0, lambda v: _pieces(_f_pair, _RANGE, 2, n)(v, least)),
        (x < 0, lambda v: _pieces(_erfcx_left_pair, _STEEP, n)(-v, least)),
    )


@partial(flat_float64, quick=_quick_erfcx)
def erfcx_derivative(x: Any, *, n: int) -> Any:
    """The n-th derivative of exp(x²) erfc(x)."""
    return by_regions(x, (x >= 0, lambda v: nearest(_f(v, 2, n))), (x < 0, lambda v: _erfcx_left(v, n)))


def erfcx(x: Any) -> Any:
    """exp(x²) erfc(x)."""
    return erfcx_derivative(x, n=0)


# logarithms of tails -------------------------------------------------------------------------------------------------


def _log(a: Pair) -> Pair:
    """log of a positive pair as a pair."""
    log = log_exact(a[0])
    return sum_pair(log, (a[1] / a[0], 0.0 * a[0]))


def _log_right(x: Any, s: int, constant: Fraction) -> Any:
    """log(f) + constant - s x²/2 for x >= 0."""
    log = sum_pair(_log(_f(np.minimum(x, 1e20), s)), exact(constant))
    high, low = two_product(np.minimum(x, 1e20), np.minimum(x, 1e20))
    near = nearest(difference(log, (0.5 * s * high, 0.5 * s * low)))
    return np.where(x < 1e20, near, -(0.5 * s * x) * x)


def _tail(a: Any, s: int) -> tuple[Pair, Any]:
    """exp(-s a²/2) f(a) for a >= 0 as a pair and a power of 2."""
    a = np.minimum(a, _BEYOND)
    part, k = _exp_half_square(a, s, -1.0)
    return multiply_pairs(part, _f(a, s)), k


def _log1p(a: Pair) -> Any:
    return np.log1p(a[0]) + a[1] / (1.0 + a[0])


def _log_erfc_left(x: Any) -> Any:
    """log(2 - erfc(a)) at a = -x >= 1/2."""
    return nearest(_log(difference((2.0, 0.0), _scaled(*_tail(-x, 2)))))


def _log_erfc_middle(x: Any) -> Any:
    """log(1 - erf(x)) for abs(x) < 1/2."""
    tiny = np.abs(x) < 1e-100
    safe = np.where(tiny, 0.0, x)
    over_x = horner_pair(erf_series(), two_product(safe, safe))
    value = multiply_pairs(over_x, (-safe, 0.0 * safe))
    return np.where(tiny, -x * over_x[0], _log1p(value))


def _log_right_pair(x: Any, s: int, constant: Fraction) -> Pair:
    """log(f) + constant - s x²/2 for x > 0 as a pair."""
    high, low = two_product(x, x)
    return difference(sum_pair(_log(_f_pair(x, s, 0)), exact(constant)), (0.5 * s * high, 0.5 * s * low))


def _log_erfc_left_pair(a: Any) -> Pair:
    """log(erfc(-a)) for a > 0."""
    return _log(difference((2.0, 0.0), _scaled(*_tail(a, 2))))


def _log_ndtr_right_pair(x: Any) -> Pair:
    tail, k = _tail(x, 1)
    return _log(difference((1.0, 0.0), _scaled(tail, k - 1)))


def _quick_log_erfc(x: Any, least: float) -> Quick | None:
    return joined(
        x,
        (x > 0, lambda v: _pieces(_log_right_pair, _RANGE, 2, Fraction(0))(v, least)),
        (x < 0, lambda v: _pieces(_log_erfc_left_pair, _STEEP)(-v, least)),
    )


def _quick_log_ndtr(x: Any, least: float) -> Quick | None:
    return joined(
        x,
        (x < 0, lambda v: _pieces(_log_right_pair, _RANGE, 1, -LN2)(-v, least)),
        (x > 0, lambda v: _pieces(_log_ndtr_right_pair, _STEEP)(v, least)),
    )


@partial(flat_float64, quick=_quick_log_erfc)
def log_erfc(x: Any) -> Any:
    """log(erfc(x))."""
    return by_regions(
        x,
        (x >= 0.5, lambda v: _log_right(v, 2, Fraction(0))),
        (x <= -0.5, _log_erfc_left),
        (np.abs(x) < 0.5, _log_erfc_middle),
    )


def _log_ndtr_right(x: Any) -> Any:
    """log(1 - t) for x >= 0, with t the normal tail beyond x."""
    tail, k = _tail(x, 1)
    return _log1p(_scaled((-tail[0], -tail[1]), k - 1))


@partial(flat_float64, quick=_quick_log_ndtr)
def log_ndtr(x: Any) -> Any:
    """The logarithm of the normal distribution function."""
    return by_regions(x, (x < 0, lambda v: _log_right(-v, 1, -LN2)), (x >= 0, _log_ndtr_right))


def _hazard_right(x: Any, s: int, n: int) -> Any:
    return nearest(_hazard_right_pair(x, s, n))


def _hazard_right_pair(x: Any, s: int, n: int) -> Pair:
    """The n-th derivative of -f'(0)/f for 0 <= x < _FAR, by the recurrence of reciprocals."""
    f = [_near(x, s, j) for j in range(n + 1)]
    h = [over(exact(_SLOPE[s]), f[0])]
    for i in range(1, n + 1):
        total: Pair = (0.0 * x, 0.0 * x)
        for j in range(i):
            total = difference(total, multiply_pairs((float(comb(i, j)), 0.0), multiply_pairs(h[j], f[i - j])))
        h.append(over(total, f[0]))
    return h[n]


def _hazard_far(x: Any, s: int, n: int) -> Any:
    total, skip = decaying_sum(_hazard_series(s).row(n), x, _FAR[s])
    value = nearest(total)
    if skip == 0:
        return value * x
    for _ in range(skip - 1):
        value = value / x
    return value


def _hazard_left(x: Any, s: int, n: int) -> Any:
    product, k = _hazard_left_parts(x, s, n)
    return np.ldexp(nearest(product), k)


def _hazard_left_parts(x: Any, s: int, n: int) -> tuple[Pair, Any]:
    """The n-th derivative of the density g divided by the tail 2 - u, for x < 0, with u the tail beyond -x.

    The derivatives of the quotient h follow from h (2 - u) = g by Leibniz's rule. g is a factor of every h^(i), and of
    every derivative of u.
    """
    a = np.minimum(-x, _BEYOND)
    part, k = _exp_half_square(a, s, -1.0)
    density = multiply_pairs(part, exact(_SLOPE[s]))
    g = _scaled(density, k)
    whole = difference((2.0, 0.0), _scaled(multiply_pairs(part, _f(a, s)), k))
    ratios = [horner_pair([exact(c) for c in hermite(j, (1,), s)], (-a, 0.0 * a)) for j in range(n + 1)]
    w: list[Pair] = []  # h^(i) divided by g
    for i in range(n + 1):
        total = ratios[i]
        for j in range(i):
            share = multiply_pairs((float(comb(i, j)), 0.0), multiply_pairs(w[j], ratios[i - j - 1]))
            total = sum_pair(total, multiply_pairs(share, g))
        w.append(over(total, whole))
    return multiply_pairs(w[n], density), k


def _hazard_pair(x: Any, s: int, n: int) -> Pair:
    """`_hazard` for x > 0."""
    total, skip = decaying_sum(_hazard_series(s).row(n), np.maximum(x, _FAR[s]), _FAR[s])
    far = multiply_pairs(total, (x, 0.0 * x)) if skip == 0 else total
    for _ in range(skip - 1):
        far = over(far, (x, 0.0 * x))
    near = _hazard_right_pair(np.minimum(x, _FAR[s]), s, n)
    return np.where(x < _FAR[s], near[0], far[0]), np.where(x < _FAR[s], near[1], far[1])


def _quick_hazard(x: Any, least: float, s: int, n: int) -> Quick | None:
    if n > _ORDERS:
        return None
    return joined(
        x,
        (x > 0, lambda v: _pieces(_hazard_pair, _RANGE, s, n)(v, least)),
        (x < 0, lambda v: _pieces(_hazard_left_pair, _STEEP, s, n)(-v, least)),
    )


def _hazard_left_pair(a: Any, s: int, n: int) -> Pair:
    return _scaled(*_hazard_left_parts(-a, s, n))


def _quick_log_erfc_slope(x: Any, least: float, *, n: int) -> Quick | None:
    found = _quick_hazard(x, least, 2, n - 1)
    return None if found is None else (-found[0], found[1])


def _quick_log_ndtr_slope(x: Any, least: float, *, n: int) -> Quick | None:
    found = _quick_hazard(-x, least, 1, n - 1)
    return None if found is None else ((-1.0) ** (n - 1) * found[0], found[1])


def _hazard(x: Any, s: int, n: int) -> Any:
    """Minus the (n+1)-th derivative of the tail's logarithm."""
    return by_regions(
        x,
        ((x >= 0) & (x < _FAR[s]), lambda v: _hazard_right(v, s, n)),
        (x >= _FAR[s], lambda v: _hazard_far(v, s, n)),
        (x < 0, lambda v: _hazard_left(v, s, n)),
    )


@partial(flat_float64, quick=_quick_log_erfc_slope)
def log_erfc_derivative(x: Any, *, n: int) -> Any:
    """The n-th derivative of log(erfc(x)), n > 0."""
    return -_hazard(x, 2, n - 1)


@partial(flat_float64, quick=_quick_log_ndtr_slope)
def log_ndtr_derivative(x: Any, *, n: int) -> Any:
    """The n-th derivative of the logarithm of the normal distribution function, n > 0."""
    return (-1.0) ** (n - 1) * _hazard(-x, 1, n - 1)
