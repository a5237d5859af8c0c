"""Kernels of log-gamma, digamma with all its derivatives, polygamma and Hurwitz's zeta function.

The methods are Stirling's series (DLMF 5.11, 5.15) after a shift to large arguments, summed as pairs; the reflection
formulas for negative arguments; and Taylor series about 1 and 2, the roots of log-gamma. Zeta is computed by Euler and
Maclaurin's formula (DLMF 25.11.7).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache, partial
from math import factorial
from typing import Any

import numpy as np

from gtape.kernels.broadcasting import broadcast_arrays
from gtape.kernels.integrals import bernoulli
from gtape.kernels.log_pairs import log_exact
from gtape.kernels.pair_functions import (
    difference,
    exact,
    exp_parts,
    horner_pair,
    over,
    power_pair,
    sum_pair,
    turn_of_pi,
    turned,
)
from gtape.kernels.pairs import Pair, Quick, mended, multiply_pairs, nearest, two_product, two_sum
from gtape.kernels.pieces import Pieces, joined
from gtape.kernels.polynomials import slope, times
from gtape.kernels.special_tables import EULER, LN2, NARROW_SHARE, PI, by_regions, flat_float64

SHIFT = 16  # Stirling's series has 100 bits from this number on
PAIRED = 8  # derivatives of digamma up to this order are summed as pairs
_LOG_PI = Fraction(
    "1.14472988584940017414342735135305871164729481291531157151362307147213776988482607978362327027548970770200982"
)
_TINY, _HUGE = 1e-30, 1e20  # outside of these the first term of a series is the sum
_RANGE = -20, 20  # the octaves with polynomials
_LEAST, _MOST = 2.0**-20, 2.0**20


def _where(mask: Any, a: Pair, b: Pair) -> Pair:
    return np.where(mask, a[0], b[0]), np.where(mask, a[1], b[1])


# polygamma -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def _stirling_slopes(n: int) -> list[Pair]:
    """The coefficients in 1/x² of the n-th derivative of digamma without its first two terms, over 1/x^(n+2)."""
    if n == 0:
        return [exact(-bernoulli(2 * k) / (2 * k)) for k in range(1, 26)]
    return [
        exact((-1) ** (n + 1) * bernoulli(2 * k) * Fraction(factorial(2 * k + n - 1), factorial(2 * k)))
        for k in range(1, 26)
    ]


def _far_slope(x: Pair, n: int) -> Pair:
    """The n-th derivative of digamma for x >= SHIFT + n, by Stirling's series."""
    u = over((1.0, 0.0), x)
    square = multiply_pairs(u, u)
    rest = multiply_pairs(multiply_pairs(horner_pair(_stirling_slopes(n), square), square), power_pair(u, n))
    sign = (-1) ** (n + 1)
    second = multiply_pairs(exact(Fraction(sign * factorial(n), 2)), power_pair(u, n + 1))
    if n == 0:
        log = log_exact(x[0])
        first = sum_pair(log, _log1p_small(x[1] / x[0]))
    else:
        first = multiply_pairs(exact(sign * factorial(n - 1)), power_pair(u, n))
    return sum_pair(sum_pair(first, second), rest)


def _log1p_small(t: Any) -> Pair:
    """log(1 + t) for t below 1e-15."""
    return two_sum(t, -0.5 * t * t)


def slope_of_positive(x: Pair, n: int) -> Pair:
    """The n-th derivative of digamma for pairs x within [_TINY, _HUGE]."""
    steps = np.ceil(np.maximum(SHIFT + n - x[0], 0.0))
    total: Pair = (0.0 * x[0], 0.0 * x[0])
    factor = exact((-1) ** (n + 1) * factorial(n))
    for k in range(int(steps.max(initial=0.0))):
        at = sum_pair(x, (float(k), 0.0))
        term = over(factor, power_pair(at, n + 1))
        total = _where(k < steps, sum_pair(total, term), total)
    far = _far_slope(sum_pair(x, (steps, 0.0 * steps)), n)
    return sum_pair(far, total)


@lru_cache(maxsize=32)
def _cotangent_polynomial(n: int) -> tuple[int, ...]:
    """The n-th derivative of cot as a polynomial in cot."""
    return times(slope(_cotangent_polynomial(n - 1)), (-1, 0, -1)) if n else (0, 1)


def _slope_of_negative(x: Any, n: int) -> Any:
    """The n-th derivative for x < 0, by reflection: (-1)^n psi_n(1 - x) - pi^(n+1) cot_n(pi x)."""
    mirrored = slope_of_positive(two_sum(1.0, -x), n)
    return nearest(difference(mirrored if n % 2 == 0 else (-mirrored[0], -mirrored[1]), _cotangent(x, n)))


def _cotangent(x: Any, n: int) -> Pair:
    """The n-th derivative of pi cot(pi x) by x."""
    sine, cosine = turned(*turn_of_pi(x))
    cot = horner_pair([exact(c) for c in _cotangent_polynomial(n)], over(cosine, sine))
    return multiply_pairs(exact(PI ** (n + 1)), cot)


def _one_term(x: Any, n: int) -> Any:
    """The first term (-1)^(n+1) n! / x^(n+1)."""
    value = np.full_like(x, float((-1) ** (n + 1) * factorial(n)))
    for _ in range(n + 1):
        value = value / x
    return value


def _huge_slope(x: Any, n: int) -> Any:
    if n == 0:
        return log_exact(x)[0]
    value = np.full_like(x, float((-1) ** (n + 1) * factorial(n - 1)))
    for _ in range(n):
        value = value / x
    return value


_ROOT = Fraction("1.4616321449683623412626595423257213284681962040064462951295984085987864403538018")  # of digamma


def _beside_root(x: Any) -> Any:
    """Where the polynomials of digamma are divided by x minus its root, because the quotient has no root."""
    return (x >= 1.0) & (x < 2.0)


@lru_cache(maxsize=32)
def _slope_pieces(n: int) -> Pieces:
    def pair(x: Any) -> Pair:
        value = slope_of_positive((x, 0.0 * x), n)
        if n == 0 and _beside_root(x).all():  # all numbers are in one octave
            return over(value, difference((x, 0.0 * x), exact(_ROOT)))
        return value

    return Pieces(pair, *_RANGE)


def _slope_terms(x: Any, n: int) -> tuple[Any, Any]:
    """The n-th derivative of digamma within _RANGE, and the size of its largest term."""
    value, size = _slope_pieces(n).terms(x)
    if n == 0:
        high, low = exact(_ROOT)
        value = value * np.where(_beside_root(x), (x - high) - low, 1.0)
        size = np.where(_beside_root(x), 0.0, size)
    return value, size


@lru_cache(maxsize=32)
def _cotangent_pieces(n: int) -> Pieces:
    """The n-th derivative of pi cot(pi r) by r. The number 1/2 needs an interval, too."""
    return Pieces(lambda v: _cotangent(v, n), _RANGE[0], 0)


def _quick_slope(x: Any, least: float, *, n: int) -> Quick | None:
    if n > PAIRED:
        return None

    def negative(v: Any) -> Quick:
        r = v - np.rint(v)
        mirrored, size = _slope_terms(1.0 - v, n)
        if n == 0:
            size = np.maximum(size, 1.0)  # because 1 - v is rounded
        part, part_size = _cotangent_pieces(n).terms(np.abs(r))
        value = (mirrored if n % 2 == 0 else -mirrored) - np.where((r < 0) & (n % 2 == 0), -part, part)
        size = np.maximum.reduce([np.abs(mirrored), size, np.abs(part), part_size])
        return value, np.abs(value) >= least * size

    def positive(v: Any) -> Quick:
        value, size = _slope_terms(v, n)
        return value, np.abs(value) >= least * size

    return joined(
        x,
        ((x >= _LEAST) & (x < _MOST), positive),
        ((x < 0) & (x > -_MOST), negative),
        ((x >= _MOST) & (x < np.inf) & (n == 0), _digamma_far),
    )


def _digamma_far(x: Any) -> Quick:
    return np.log(x) - (0.5 + 1.0 / 12.0 / x) / x, True


@partial(flat_float64, quick=_quick_slope)
def digamma_derivative(x: Any, *, n: int) -> Any:
    """The n-th derivative of digamma."""
    if n > PAIRED:
        return _of_finite(lambda v: _high_slope(v, n), x)
    a = np.abs(x)
    tiny = (a < _TINY) & (x != 0)
    whole = (x <= 0) & (np.rint(x) == x)
    pole = np.inf if n % 2 else np.nan
    return by_regions(
        x,
        ((x >= _TINY) & (x <= _HUGE), lambda v: nearest(slope_of_positive((v, 0.0 * v), n))),
        ((x < 0) & ~whole & ~tiny, lambda v: _slope_of_negative(v, n)),
        (tiny, lambda v: _one_term(v, n)),
        ((x > _HUGE) & np.isfinite(x), lambda v: _huge_slope(v, n)),
        (x == np.inf, lambda v: np.full_like(v, 0.0 if n else np.inf)),
        (whole & np.isfinite(x), lambda v: np.full_like(v, pole)),
    )


def digamma(x: Any) -> Any:
    """The derivative of log-gamma."""
    return digamma_derivative(x, n=0)


def _high_slope(x: Any, n: int) -> Any:
    """The n-th derivative of digamma by (-1)^(n+1) n! zeta(n+1, x), n > 0."""
    s = np.full_like(x, float(n + 1))
    whole = (x <= 0) & (np.rint(x) == x)
    sign = -1.0 if n % 2 == 0 else 1.0
    positive = x > 0
    safe = np.where(positive, x, 1.0)
    log_factorial = lgamma_pair((np.full_like(x, n + 1.0), 0.0 * x))
    value = sign * _zeta(s, safe, log_factorial)
    if np.any(~positive):
        below = np.where(positive | whole, -0.5, x)
        mirrored = _zeta(s, 1.0 - below, log_factorial)
        value = np.where(positive, value, sign * _both_sides(below, n, log_factorial) - mirrored)
    return np.where(whole, np.inf if n % 2 else np.nan, value)


def _of_finite(f: Any, x: Any) -> Any:
    """A derivative of digamma of order 1 or more for finite x. At infinity the result is 0."""
    finite = np.isfinite(x)
    return np.where(finite, f(np.where(finite, x, 1.0)), np.where(x == np.inf, 0.0, np.nan))


def _both_sides(x: Any, n: int, log_factor: Pair) -> Any:
    """n! times the sum of (x + k)^-(n+1) over all integers k, for large n. Terms at halves cancel exactly."""
    d = x - np.rint(x)
    side = np.where(d < 0, -1.0, 1.0)
    total = np.zeros_like(x)
    for j in range(40):
        total = total + ((d / (d + side * j)) ** (n + 1) + (d / (d - side * (j + 1))) ** (n + 1))
    part, k = _exp_of(log_factor, -(n + 1.0), np.abs(d))
    sign = np.where((d < 0) & (n % 2 == 0), -1.0, 1.0)
    return sign * np.ldexp(total * part, k)


def _exp_of(log_factor: Pair, s: Any, q: Any, low: Any = 0.0) -> tuple[Any, Any]:
    """exp(log_factor) q^(s + low) as mantissa and exponent."""
    log = log_exact(q)
    s = np.clip(s, -1e290, 1e290)  # such an order gives the same as an infinite one, and its products are finite
    p, e = two_product(s, log[0])
    exponent = sum_pair((p, e + (s * log[1] + low * log[0])), log_factor)
    inside = np.abs(exponent[0]) < 2000.0
    high = np.where(inside, exponent[0], np.sign(exponent[0]) * 2000.0)
    part, k = exp_parts((high, np.where(inside, exponent[1], 0.0)))
    return 1.0 + part[0], k


def polygamma(a: Any, x: Any) -> Any:
    """The a-th derivative of digamma at x for integers a >= 0; NaN for other a."""
    dtype = np.result_type(a, x)
    a, x = broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, dtype))
    out = np.full(x.shape, np.nan)
    for order in np.unique(a):
        if order >= 0 and order == np.floor(order) and np.isfinite(order):
            here = a == order
            if order <= 1e6:
                out[here] = digamma_derivative(x[here], n=int(order))
            else:
                out[here] = _of_finite(lambda v, n=float(order): _high_slope_beyond(v, n), x[here].astype(np.float64))
    return out.astype(dtype)[()]


def _high_slope_beyond(x: Any, n: float) -> Any:
    """The same as `_high_slope` for orders with an infinite factorial: 0 or infinite, except near n = x."""
    with np.errstate(all="ignore"):
        log_factorial = lgamma_pair((np.full_like(x, n + 1.0), 0.0 * x))
        value = _zeta(np.full_like(x, n + 1.0), np.where(x > 0, x, 1.0), log_factorial)
        odd = np.fmod(n, 2.0) == 1.0
        return np.where(x > 0, value if odd else -value, np.nan)


# log-gamma -----------------------------------------------------------------------------------------------------------


def _zeta_at(k: int) -> Fraction:
    """zeta(k) for integers k > 1, to about 60 digits."""
    n = 30
    direct = sum((Fraction(1, j**k) for j in range(1, n)), Fraction(0))
    direct += Fraction(1, (k - 1) * n ** (k - 1)) + Fraction(1, 2 * n**k)
    rising = Fraction(k)
    for j in range(1, 30):
        direct += bernoulli(2 * j) * rising / factorial(2 * j) / n ** (k + 2 * j - 1)
        rising *= (k + 2 * j - 1) * (k + 2 * j)
    return Fraction(direct.numerator * 10**80 // direct.denominator, 10**80)


@lru_cache(maxsize=2)
def _about(centre: int) -> list[Pair]:
    """lgamma(centre + t)/t in powers of t, for centre 1 or 2."""
    first = -EULER if centre == 1 else 1 - EULER
    return [exact(first)] + [exact((_zeta_at(k) - (centre - 1)) * Fraction((-1) ** k, k)) for k in range(2, 46)]


@lru_cache(maxsize=1)
def _stirling() -> list[Pair]:
    return [exact(bernoulli(2 * k) / (2 * k * (2 * k - 1))) for k in range(1, 22)]


def lgamma_pair(x: Pair) -> Pair:
    """log(gamma(x)) as a pair, for pairs within [_TINY, 1e300], with an error of 2^-100 times max(30, |result|)."""
    steps = np.ceil(np.maximum(SHIFT - x[0], 0.0))
    product: Pair = (np.ones_like(x[0]), 0.0 * x[0])
    for k in range(int(steps.max(initial=0.0))):
        product = _where(k < steps, multiply_pairs(product, sum_pair(x, (float(k), 0.0))), product)
    z = sum_pair(x, (steps, 0.0 * steps))
    huge = z[0] > _HUGE
    safe = _where(huge, (np.full_like(z[0], 100.0), 0.0 * z[0]), z)
    log = sum_pair(log_exact(z[0]), _log1p_small(z[1] / z[0]))
    u = over((1.0, 0.0), safe)
    series = multiply_pairs(horner_pair(_stirling(), multiply_pairs(u, u)), u)
    # The formula (z - 1/2) log z - z + log(2 pi)/2 + series is computed as z (log z - 1) - log(z)/2 + ...
    scale = np.where(z[0] > 1e290, 2.0**-80, 1.0)
    main = multiply_pairs((z[0] * scale, z[1] * scale), difference(log, (1.0, 0.0)))
    main = main[0] / scale, main[1] / scale
    rest = sum_pair(exact((_LOG_PI + LN2) / 2), _where(huge, (0.0 * u[0], 0.0 * u[0]), series))
    far = sum_pair(main, difference(rest, (0.5 * log[0], 0.5 * log[1])))
    shifted = sum_pair(log_exact(product[0]), _log1p_small(product[1] / product[0]))
    return difference(far, shifted)


def _lgamma_positive(x: Any) -> Any:
    t1, t2 = x - 1.0, x - 2.0
    one, two = np.abs(t1) < 0.25, np.abs(t2) < 0.25
    return by_regions(
        x,
        (one, lambda v: _beside(v - 1.0, 1)),
        (two, lambda v: _beside(v - 2.0, 2)),
        (~one & ~two & (x < 1e300), lambda v: nearest(lgamma_pair((v, 0.0 * v)))),
        (x >= 1e300, lambda v: v * (np.log(v) - 1.0)),
    )


def _beside(t: Any, centre: int) -> Any:
    return nearest(multiply_pairs(horner_pair(_about(centre), (t, 0.0 * t)), (t, 0.0 * t)))


def _lgamma_negative(x: Any) -> Any:
    return nearest(difference(_reflected(x), lgamma_pair(two_sum(1.0, -x))))


def _reflected(x: Any) -> Pair:
    """log(pi / abs(sin(pi x)))."""
    sine, _ = turned(*turn_of_pi(x))
    sine = sine[0] * np.sign(sine[0]), sine[1] * np.sign(sine[0])
    log = sum_pair(log_exact(sine[0]), _log1p_small(sine[1] / sine[0]))
    return difference(exact(_LOG_PI), log)


def _among_roots(x: Any) -> Any:
    """Where the polynomials of lgamma are divided by (x - 1)(x - 2), because the quotient has no roots."""
    return (x >= 0.5) & (x < 4.0)


@lru_cache(maxsize=1)
def _lgamma_pieces() -> Pieces:
    def pair(x: Any) -> Pair:
        if not _among_roots(x).all():  # all numbers are in one octave
            return lgamma_pair((x, 0.0 * x))
        one, two = np.abs(x - 1.0) < 0.25, np.abs(x - 2.0) < 0.25
        # The quotient is lgamma/t for t = x - 1 or x - 2, divided by the other factor.
        value = over(lgamma_pair((x, 0.0 * x)), multiply_pairs(two_sum(x, -1.0), two_sum(x, -2.0)))
        for centre, here, other in ((1, one, two_sum(x, -2.0)), (2, two, two_sum(x, -1.0))):
            t = np.where(here, x - centre, 0.25)
            value = _where(here, over(horner_pair(_about(centre), (t, 0.0 * t)), other), value)
        return value

    return Pieces(pair, *_RANGE)


@lru_cache(maxsize=1)
def _reflection_pieces() -> Pieces:
    """`_reflected`. The number 1/2 needs an interval, too."""
    return Pieces(_reflected, _RANGE[0], 0)


def _quick_lgamma(x: Any, least: float) -> Quick | None:
    def positive(v: Any) -> Any:
        return _lgamma_pieces().terms(v)[0] * np.where(_among_roots(v), (v - 1.0) * (v - 2.0), 1.0)

    def negative(v: Any) -> Quick:
        part, mirrored = _reflection_pieces().terms(np.abs(v - np.rint(v)))[0], positive(1.0 - v)
        value = part - mirrored
        return value, np.abs(value) >= 1.4 * least * np.maximum(part, np.abs(mirrored))  # products err more

    return joined(
        x,
        ((x >= _LEAST) & (x < _MOST), lambda v: (positive(v), True)),
        ((x < 0) & (x > -_MOST), negative),
        ((x >= _MOST) & (x < 1e300), _lgamma_far),
    )


def _lgamma_far(x: Any) -> Quick:
    log = np.log(x)
    return x * (log - 1.0) + (float((_LOG_PI + LN2) / 2) - 0.5 * log + 1.0 / 12.0 / x), True


@partial(flat_float64, quick=_quick_lgamma)
def lgamma(x: Any) -> Any:
    """log(abs(gamma(x)))."""
    whole = (x <= 0) & (np.rint(x) == x)
    tiny = (np.abs(x) < _TINY) & (x != 0)
    return by_regions(
        x,
        ((x >= _TINY) & np.isfinite(x), _lgamma_positive),
        ((x < 0) & ~whole & ~tiny, _lgamma_negative),
        (tiny, lambda v: -log_exact(np.abs(v))[0]),
        (whole | (x == np.inf), lambda v: np.full_like(v, np.inf)),
    )


# zeta ----------------------------------------------------------------------------------------------------------------

_DIRECT = 20


@lru_cache(maxsize=1)
def _bernoulli_ratios() -> list[float]:
    """B_2j / (2j)!."""
    return [float(bernoulli(2 * j) / factorial(2 * j)) for j in range(1, 17)]


def bernoulli_sum(s: Any, x: Any) -> Any:
    """Euler and Maclaurin's sum for x^-s + (x+1)^-s + ..., over x^-s, without its integral: 1/2 + s/(12 x) - ..."""
    total: Any = 0.5
    term = s / x
    for j, c in enumerate(_bernoulli_ratios(), 1):
        total = total + c * term
        term = term * ((s + (2 * j - 1)) / x) * ((s + 2 * j) / x)
    return total


def _zeta(s: Any, q: Any, log_factor: Pair | None = None, n: int = 0) -> Any:
    """exp(log_factor) zeta(s + n, q) for s > 1, q > 0."""
    gap = s + (n - 1.0)
    s, low = two_sum(s, float(n))
    total = np.ones_like(q)
    for k in range(1, _DIRECT):
        total = total + np.exp(-s * np.log1p(k / q))
    last = np.exp(-s * np.log1p(_DIRECT / q))
    x = q + _DIRECT
    # x/gap may overflow although the product with the small power does not.
    down = np.where(q > 2.0**900, -128, 0)
    tail = last * (np.ldexp(x, down) / gap + np.ldexp(bernoulli_sum(s, x), down))
    total = np.ldexp(total, down) + np.where((last > 1e-25 * np.minimum(gap, 1.0)) & (s < 4.0 * x), tail, 0.0)
    part, k = _exp_of((0.0 * q, 0.0 * q) if log_factor is None else log_factor, -s, q, -low)
    # The total may be as large as 1/gap, and first multiplies the power that would otherwise leave the range.
    return np.ldexp(total * part, k - down)


def _quick_orders_of_zeta(s: Any, q: Any, *, m: int, n: int) -> Quick:
    """`_orders_of_zeta` for narrower dtypes, without pairs."""
    value, size = (_orders_of_zeta(s, q, m, n, size=sized, pairs=False) for sized in (False, True))
    return value, np.abs(value) >= NARROW_SHARE * size


def _orders_of_zeta(s: Any, q: Any, m: int, n: int, size: bool = False, pairs: bool = True) -> Any:
    """s (s+1) ... (s+n-1) zeta(s+n, q) differentiated m > 0 times by s, for s > 1, q > 0. With `size`, of magnitudes.

    Each term and the integral in Euler and Maclaurin's formula is a power times a polynomial in the increment of s.
    """
    gap = s + (n - 1.0)
    whole, low = two_sum(s, float(n))
    second = (q == 1.0) & (n == 0)  # the first term is 0 for q = 1
    base = np.where(second, 2.0, q)
    total = [np.zeros_like(q) for _ in range(m + 1)]

    def add(factor: Any, log: Any, of: list[Any]) -> None:
        """Add factor * exp(-d log) * of, by powers of the increment d."""
        for i in range(m + 1):
            parts = [of[r] * (-log) ** (i - r) / factorial(i - r) for r in range(i + 1) if r < len(of)]
            total[i] = total[i] + factor * sum(np.abs(v) if size else v for v in parts)

    def power(k: int) -> Any:
        """((q + k)/base)^-(s+n). The first term has a factor that is 0 at most 1."""
        ratio = np.where(second, np.log1p((k - 1.0) / 2.0), np.log1p(k / q))
        return np.exp(-whole * np.maximum(ratio, 0.0))

    for k in range(_DIRECT):
        add(power(k), np.log(q) if k == 0 else np.log1p(q + (k - 1.0)), [1.0])
    x, last = q + _DIRECT, power(_DIRECT)
    kept = (last > 1e-25 * np.minimum(gap, 1.0) ** (m + 1)) & (whole < 4.0 * x)
    # x/gap may overflow although the product with the small power does not.
    down = np.where(q > 2.0**700, -400, 0)
    scaled = np.ldexp(x, down)
    rest = [np.ldexp(c, down) for c in _bernoulli_sums(whole, x, m)]
    ends = [scaled * (-1.0) ** i / gap ** (i + 1) + rest[i] for i in range(m + 1)]
    total = [np.ldexp(v, down) for v in total]
    add(np.where(kept, last, 0.0), np.log(x), [np.where(kept, v, 0.0) for v in ends])
    # s (s+1) ... (s+n-1) and its derivatives, divided by the product.
    rising: list[Any] = [np.ones_like(s)] + [np.zeros_like(s)] * m
    factor: Any = np.ones_like(s)
    for j in range(n):
        factor = factor * (s + j)
        rising = [rising[i] + (rising[i - 1] / (s + j) if i else 0.0) for i in range(m + 1)]
    value = sum(rising[m - i] * total[i] for i in range(m + 1)) * factorial(m)
    small = (q < 100.0) & (s < 1e4)
    if pairs and not size and small.any():
        value[small] = _orders_of_zeta_as_pairs(s[small], q[small], base[small], m, n)
    part, k = _exp_of(log_exact(np.where(np.isfinite(factor), factor, 1.0)), -whole, base, -low)
    found = np.ldexp(value * part, k - down)
    return np.where(np.isfinite(factor), found, np.where(q > 1.0, 0.0, np.where(q < 1.0, np.inf, 0.0)))


def _orders_of_zeta_as_pairs(s: Any, q: Any, base: Any, m: int, n: int) -> Any:
    """The sums of `_orders_of_zeta` over base^-(s+n) for small q and s, where terms may cancel."""
    whole, gap, log_base = two_sum(s, float(n)), two_sum(s, n - 1.0), log_exact(base)
    zero: Pair = (0.0 * q, 0.0 * q)
    total = [zero] * (m + 1)
    rest = _bernoulli_sums(whole[0], q + _DIRECT, m)
    for k in range(_DIRECT + 1):
        x = two_sum(q, float(k))
        log = sum_pair(log_exact(x[0]), (x[1] / x[0], 0.0 * q))
        fall = multiply_pairs(whole, difference(log_base, log))
        fall = _where(fall[0] > -1e3, fall, (-1e3 + 0.0 * q, 0.0 * q))
        part, up = exp_parts(fall)
        power = sum_pair((1.0, 0.0), part)
        power = np.ldexp(power[0], up), np.ldexp(power[1], up)
        if k == 0:  # infinite for q < base = 2, but its factor is 0
            power = _where(q == base, power, zero)
        # The powers of -log over factorials, times the power.
        weights = [power]
        for i in range(1, m + 1):
            weight = over(power_pair((-log[0], -log[1]), i), (float(factorial(i)), 0.0))
            weights.append(multiply_pairs(power, weight))
        if k < _DIRECT:
            total = [sum_pair(t, w) for t, w in zip(total, weights, strict=True)]
        else:
            kept = (power[0] > 1e-25 * np.minimum(gap[0], 1.0) ** (m + 1)) & (whole[0] < 4.0 * x[0])
            for r in range(m + 1):
                end = multiply_pairs(x, over(((-1.0) ** r, 0.0), power_pair(gap, r + 1)))
                last = _where(kept, sum_pair(end, (rest[r], 0.0 * q)), zero)
                for i in range(r, m + 1):
                    total[i] = sum_pair(total[i], multiply_pairs(last, weights[i - r]))
    rising: list[Pair] = [(1.0 + 0.0 * q, 0.0 * q)] + [zero] * m
    for j in range(n):
        inverse = over((1.0, 0.0), two_sum(s, float(j)))
        below = [zero, *rising]
        rising = [sum_pair(rising[i], multiply_pairs(below[i], inverse)) for i in range(m + 1)]
    value = zero
    for i in range(m + 1):
        value = sum_pair(value, multiply_pairs(rising[m - i], total[i]))
    return nearest(value) * factorial(m)


def _bernoulli_sums(s: Any, x: Any, m: int) -> list[Any]:
    """Taylor coefficients of `bernoulli_sum` in s."""
    total: list[Any] = [np.full_like(x, 0.5)] + [np.zeros_like(x)] * m
    term: list[Any] = [s / x, 1.0 / x] + [np.zeros_like(x)] * (m - 1)
    for j, c in enumerate(_bernoulli_ratios(), 1):
        total = [t + c * v for t, v in zip(total, term, strict=True)]
        for up in (2 * j - 1, 2 * j):
            term = [term[i] * ((s + up) / x) + (term[i - 1] / x if i else 0.0) for i in range(m + 1)]
    return total


def zeta_derivative(s: Any, q: Any, *, m: int, n: int) -> Any:
    """Hurwitz's zeta function differentiated m times in s and n times in q.

    The n-th derivative by q is (-1)^n s (s+1) ... (s+n-1) zeta(s+n, q).
    """
    dtype = np.result_type(s, q)
    s, q = broadcast_arrays(np.asarray(s, np.float64), np.asarray(q, np.float64))
    with np.errstate(all="ignore"):
        inside = (s > 1.0) & (q > 0.0) & np.isfinite(q) & np.isfinite(s)
        a, b = np.where(inside, s, 2.0), np.where(inside, q, 1.0)
        if m:
            quick = None if dtype == np.float64 else _quick_orders_of_zeta
            orders = mended(_orders_of_zeta, quick, a.ravel(), b.ravel(), m=m, n=n).reshape(a.shape)
            value = np.where(inside, (-1.0) ** n * orders, np.nan)
            value = np.where((s > 1) & (q == np.inf), 0.0, value)
            value = np.where((s > 1) & (q == 0), (-1.0) ** n * np.inf, value)
            return np.where((s == 1.0) & (q > 0) & (n == 0), (-1.0) ** m * np.inf, value).astype(dtype)[()]
        factor: Any = np.ones_like(a)
        for j in range(n):
            factor = factor * (a + j)
        log_factor = log_exact(np.where(np.isfinite(factor), factor, 1.0))
        value = (-1.0) ** n * _zeta(a, b, log_factor, n)
        value = np.where(np.isfinite(factor), value, (-1.0) ** n * np.where(b > 1.0, 0.0, np.inf))
        whole = (q <= 0) & (np.rint(q) == q)
        below = (q < 0) & ~whole & (s > 1) & (np.rint(s) == s)
        if np.any(below):  # there the derivatives of digamma are defined, and at integers s zeta is one of them
            orders = polygamma(np.where(below, s + (n - 1.0), 0.0), np.where(below, q, 1.0))
            scale = lgamma_pair((np.where(below, s, 2.0), 0.0 * s))
            sign = np.where(np.fmod(s, 2.0) == 0.0, 1.0, -1.0)
            value = np.where(below, sign * orders * np.exp(-nearest(scale)), value)
        out = np.where(inside | below, value, np.nan)
        out = np.where((s > 1) & (q == np.inf), 0.0, out)
        pole = np.where((np.fmod(s + n, 2.0) == 0.0) | (q == 0), (-1.0) ** n * np.inf, np.nan)
        out = np.where((s > 1) & whole, pole, out)
        out = np.where((s == 1.0) & (n == 0), np.inf, out)
        out = np.where(np.isnan(s) | np.isnan(q), np.nan, out)
    return out.astype(dtype)[()]


def zeta_cancelled(s: Any, q: Any, *, m: int, n: int) -> Any:
    """A bound on the error of `zeta_derivative` where its terms have both signs."""
    s, q = broadcast_arrays(np.asarray(s, np.float64), np.asarray(q, np.float64))
    inside = (s > 1.0) & (q > 0.0) & np.isfinite(q) & np.isfinite(s)
    if not m or not inside.any():
        return np.zeros(s.shape)
    with np.errstate(all="ignore"):
        a, b = np.where(inside, s, 2.0), np.where(inside, q, 1.0)
        size = _orders_of_zeta(a.ravel(), b.ravel(), m, n, size=True).reshape(a.shape)
    return np.where(inside & np.isfinite(size), size * 2.0**-50, 0.0)


def zeta(s: Any, q: Any) -> Any:
    """Hurwitz's zeta function: the sum of (q + k)^-s over k >= 0, for s > 1."""
    return zeta_derivative(s, q, m=0, n=0)
