"""Kernels of Dawson's function, the exponential integral, Fresnel's integrals, Spence's function, and derivatives.

Dawson's function and the integrals come from Taylor tables and asymptotic series (DLMF 6.12, 7.12). The derivatives of
the integrals are elementary functions, summed as pairs because their terms cancel.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache, partial
from math import comb, factorial
from typing import Any

import numpy as np

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
from gtape.kernels.pairs import Pair, Quick, multiply_pairs, nearest, two_product, two_sum
from gtape.kernels.pieces import Pieces, joined
from gtape.kernels.special_tables import (
    EULER,
    PI,
    Decaying,
    LogSeries,
    Table,
    by_regions,
    decaying_sum,
    flat_float64,
    scaled_exp,
)

# Dawson's function ---------------------------------------------------------------------------------------------------

_DAWSON_FAR = 9.0
_LEAST, _MOST = -20, 20  # the octaves of polynomials


@lru_cache(maxsize=1)
def _dawson_table() -> Table:
    def series() -> list[Fraction]:
        """The sum of (-2)^k x^(2k+1) / (2k+1)!!."""
        out, c = [], Fraction(1)
        for k in range(140):
            out += [Fraction(0), c]
            c = c * Fraction(-2, 2 * k + 3)
        return out

    centres = [Fraction(i, 4) for i in range(41)]
    return Table([[2], [0, 2], [1]], centres, series, series=True)  # f'' + 2x f' + 2f = 0


@lru_cache(maxsize=1)
def _dawson_decaying() -> Decaying:
    """1/(2x) times the sum of (2k-1)!! / (2x²)^k."""
    out, c = [], Fraction(1, 2)
    for k in range(70):
        out += [c, Fraction(0)]
        c = c * Fraction(2 * k + 1, 2)
    return Decaying(0, Fraction(1), out)


def _dawson_far(x: Any, n: int) -> Any:
    total, skip = decaying_sum(_dawson_decaying().row(n), x, _DAWSON_FAR)
    value = nearest(total)
    for _ in range(skip + 1):
        value = value / x
    return value


@lru_cache(maxsize=32)
def _dawson_pieces(n: int) -> Pieces:
    """The polynomials from _DAWSON_FAR on."""

    def pair(x: Any) -> Pair:
        total, skip = decaying_sum(_dawson_decaying().row(n), x, _DAWSON_FAR)
        for _ in range(skip + 1):
            total = over(total, (x, 0.0 * x))
        return total

    return Pieces(pair, 3, _MOST)


def _quick_dawson(x: Any, least: float, *, n: int) -> Quick | None:
    a = np.abs(x)
    found = joined(
        a,
        (a < _DAWSON_FAR, lambda v: _dawson_table().quick(v, least, n)),
        (a >= _DAWSON_FAR, lambda v: _dawson_pieces(n)(v, least)),
    )
    return found if found is None or n % 2 else (found[0] * np.where(np.signbit(x), -1.0, 1.0), found[1])


@partial(flat_float64, quick=_quick_dawson)
def dawsn_derivative(x: Any, *, n: int) -> Any:
    """The n-th derivative of Dawson's function."""
    a = np.abs(x)
    value = by_regions(
        a,
        (a < _DAWSON_FAR, lambda v: nearest(_dawson_table().derivative(v, n))),
        (a >= _DAWSON_FAR, lambda v: _dawson_far(v, n)),
    )
    return value * np.where(np.signbit(x), -1.0, 1.0) if n % 2 == 0 else value


def dawsn(x: Any) -> Any:
    """exp(-x²) times the integral of exp(t²) from 0 to x."""
    return dawsn_derivative(x, n=0)


# exponential integral ------------------------------------------------------------------------------------------------

_EI_FAR = 48.0


def _ei_series() -> list[Fraction]:
    """The sum of x^k / (k k!)."""
    return [Fraction(0), *[Fraction(1, k * factorial(k)) for k in range(1, 120)]]


@lru_cache(maxsize=2)
def _ei_near(sign: int) -> LogSeries:
    """Ei(sign x) = log(x) + gamma + sum of (sign x)^k / (k k!), x > 0 small."""
    b = [c * sign**k for k, c in enumerate(_ei_series()[:40])]
    return LogSeries(Fraction(1), EULER, [Fraction(1)], b)


@lru_cache(maxsize=2)
def _ei_table(sign: int) -> Table:
    """The table of Ei(sign x) for x from 1/2 on, by x f'' + (1 - sign x) f' = 0."""

    def start() -> list[Fraction]:
        from gtape.kernels.special_tables import LN2

        b = [c * sign**k for k, c in enumerate(_ei_series())]
        return list(LogSeries(Fraction(1), EULER, [Fraction(1)], b).value(Fraction(1, 2), -LN2))

    centres = [Fraction(i, 8) for i in range(4, 16)] + [Fraction(i, 2) for i in range(4, 2 * int(_EI_FAR) + 2)]
    return Table([[0], [1, -sign], [0, 1]], centres, start, series=False)


@lru_cache(maxsize=1)
def _ei_decaying() -> Decaying:
    return Decaying(1, Fraction(1), [Fraction(factorial(k)) for k in range(80)])


def _ei_far(x: Any) -> Any:
    total, _ = decaying_sum(_ei_decaying().row(0), x, _EI_FAR)
    return scaled_exp(x, nearest(total) / x)


_EI_ROOT = Fraction("0.372507410781366634461991866580119133535689497771654051555657")


def _beside_root(x: Any) -> Any:
    """Where the polynomials of Ei are divided by x minus its root, because the quotient has no root."""
    return (x >= 0.25) & (x < 0.5)


@lru_cache(maxsize=2)
def _ei_near_pieces(sign: int) -> Pieces:
    def pair(x: Any) -> Pair:
        value = _ei_near(sign).derivative(x, 0)
        if sign > 0 and _beside_root(x).all():  # all numbers are in one octave
            return over(value, difference((x, 0.0 * x), exact(_EI_ROOT)))
        return value

    return Pieces(pair, _LEAST, -1)


def _quick_ei_near(x: Any, least: float) -> Quick:
    value, right = _ei_near_pieces(1)(x, least)
    high, low = exact(_EI_ROOT)
    return value * np.where(_beside_root(x), (x - high) - low, 1.0), right


@lru_cache(maxsize=2)
def _ei_far_pieces(sign: int) -> Pieces:
    """The polynomials of exp(-x) Ei(x) for sign x from _EI_FAR on."""

    def pair(a: Any) -> Pair:
        total, _ = decaying_sum(_ei_decaying().row(0), sign * a, _EI_FAR)
        return over(total, (sign * a, 0.0 * a))

    return Pieces(pair, 5, _MOST)


def _quick_ei(x: Any, least: float) -> Quick | None:
    def far(v: Any, sign: int) -> Quick:
        value, right = _ei_far_pieces(sign)(np.abs(v), least)
        return value * np.exp(v), right & (np.abs(v) < 700.0)

    a = np.abs(x)
    near, inner = (a < 0.5) & (a > 0), (a >= 0.5) & (a < _EI_FAR)
    return joined(
        x,
        (near & (x > 0), lambda v: _quick_ei_near(v, least)),
        (near & (x < 0), lambda v: _ei_near_pieces(-1)(-v, least)),
        (inner & (x > 0), lambda v: _ei_table(1).quick(v, least, 0)),
        (inner & (x < 0), lambda v: _ei_table(-1).quick(-v, least, 0)),
        (x >= _EI_FAR, lambda v: far(v, 1)),
        (x <= -_EI_FAR, lambda v: far(v, -1)),
    )


@partial(flat_float64, quick=_quick_ei)
def expint(x: Any) -> Any:
    """Ei(x), the principal value of the integral of exp(t)/t from -inf to x."""
    a = np.abs(x)
    inner = (a >= 0.5) & (a < _EI_FAR)
    return by_regions(
        x,
        ((x > 0) & (x < 0.5), lambda v: nearest(_ei_near(1).derivative(v, 0))),
        ((x < 0) & (x > -0.5), lambda v: nearest(_ei_near(-1).derivative(-v, 0))),
        (inner & (x > 0), lambda v: nearest(_ei_table(1).derivative(v, 0))),
        (inner & (x < 0), lambda v: nearest(_ei_table(-1).derivative(-v, 0))),
        ((a >= _EI_FAR) & np.isfinite(x), _ei_far),
        (x == np.inf, lambda v: np.full_like(v, np.inf)),
        (x == -np.inf, lambda v: -np.zeros_like(v)),
        (x == 0, lambda v: np.full_like(v, -np.inf)),
    )


def _quick_ei_slope(x: Any, least: float, *, n: int) -> Quick | None:
    return (np.exp(x) / x, (np.abs(x) > 1e-290) & (np.abs(x) < 700.0)) if n == 1 else None


@partial(flat_float64, quick=_quick_ei_slope)
def expint_derivative(x: Any, *, n: int) -> Any:
    """The n-th derivative of Ei, n > 0: exp(x)/x^n times the sum of C(n-1, k) (-1)^k k! x^(n-1-k)."""
    c = [comb(n - 1, k) * (-1) ** k * factorial(k) for k in range(n)]
    far = np.abs(x) > 1.0
    # The polynomials are in powers of 1/x for large x, and in powers of x near 0.
    u = np.where(far, 1.0 / np.where(far, x, 1.0), np.where(far, 1.0, x))
    p, e = two_product(u, np.where(far & (np.abs(x) < 1e290), x, 1.0))
    low = np.where(far & (np.abs(x) < 1e290), u * ((1.0 - p) - e), 0.0)
    low = np.where(np.abs(u) > 1e-290, low, 0.0)
    tiny = np.abs(u) < 1e-140
    safe = np.where(tiny, 0.0, u), np.where(tiny, 0.0, low)
    rising = horner_pair([exact(v) for v in c], safe)
    falling = horner_pair([exact(v) for v in c[::-1]], safe)
    s = np.where(far, rising[0], falling[0]), np.where(far, rising[1], falling[1])
    clipped = np.clip(x, -2000.0, 2000.0)
    part, k = exp_parts((clipped, 0.0 * clipped))
    product = multiply_pairs(s, sum_pair((1.0, 0.0), part))
    value = nearest(product)
    divided = value / x
    if n > 1:
        for _ in range(n - 1):
            divided = np.where(far, divided, divided / x)
    value = np.where(np.isposinf(x), np.inf, np.ldexp(divided, k))
    return np.where(np.isneginf(x), -0.0, value)


# Fresnel's integrals -------------------------------------------------------------------------------------------------

_FRESNEL_FAR = 6.0


def _fresnel_series(sine: bool) -> list[Fraction]:
    """The terms (-1)^k (pi/2)^(2k+s) x^(4k+2s+1) / ((2k+s)! (4k+2s+1)), s = 1 for the sine, s = 0 for the cosine."""
    out = [Fraction(0)] * 400
    s = int(sine)
    half = PI / 2
    limit = 10**150
    for k in range(99):
        power = 4 * k + 2 * s + 1
        c = (-1) ** k * half ** (2 * k + s) / (factorial(2 * k + s) * power)
        out[power] = Fraction(c.numerator * limit // c.denominator, limit)
        if power > 300:
            break
    return out


@lru_cache(maxsize=2)
def _fresnel_table(sine: bool) -> Table:
    limit = 10**125
    square = Fraction((PI**2).numerator * limit // (PI**2).denominator, limit)
    ode: list[list[Fraction | int]] = [[0], [0, 0, 0, square], [-1], [0, 1]]  # x f''' - f'' + pi² x³ f' = 0
    centres = [Fraction(i, 8) for i in range(8 * int(_FRESNEL_FAR) + 2)]
    return Table(ode, centres, lambda: _fresnel_series(sine), series=True)


def _half_square(x: Any) -> Pair:
    """x²/2 modulo 4, exactly."""
    whole = np.abs(x) >= 2.0**53  # an even number, so x²/2 is a multiple of 2, and of 4 from 2**54 on
    p, e = two_product(np.where(whole, 0.0, x), np.where(whole, 0.0, x))
    high, low = np.fmod(0.5 * p, 4.0), np.fmod(0.5 * e, 4.0)
    return sum_pair((high, 0.0 * high), (low, 0.0 * low))


def _sine_and_cosine_of_half_square(x: Any) -> tuple[Pair, Pair]:
    """sin and cos of pi x²/2 as pairs."""
    angle = _half_square(x)
    turn, rest = turn_of_pi(angle[0])
    return turned(turn, sum_pair(rest, multiply_pairs(exact(PI), (angle[1], 0.0 * angle[1]))))


@lru_cache(maxsize=1)
def _fresnel_rows() -> tuple[list[float], list[float]]:
    """The coefficients in 1/(pi x²)² of pi x f and pi² x³ g."""
    f = [float(np.prod([float(j) for j in range(1, 4 * k, 2)], initial=1.0)) * (-1) ** k for k in range(13)]
    g = [float(np.prod([float(j) for j in range(1, 4 * k + 2, 2)], initial=1.0)) * (-1) ** k for k in range(13)]
    return f, g


def _fresnel_far(x: Any, sine: bool) -> Any:
    t = 1.0 / (np.pi * x * x)
    f: Any = 0.0
    g: Any = 0.0
    for a, b in zip(*[r[::-1] for r in _fresnel_rows()], strict=True):
        f, g = f * (t * t) + a, g * (t * t) + b
    f, g = f / (np.pi * x), g * t / (np.pi * x)
    s, c = _sine_and_cosine_of_half_square(x)
    return 0.5 - (f * c[0] + g * s[0]) if sine else 0.5 + (f * s[0] - g * c[0])


def _fresnel_sine_near_0(a: Any) -> Any:
    """pi a³/6. The scale keeps the low parts of pairs from underflow."""
    u = np.ldexp(a, 300)
    cube = multiply_pairs(two_product(u, u), (u, 0.0 * u))
    return np.ldexp(nearest(multiply_pairs(exact(PI / 6), cube)), -900)


def _fresnel(x: Any, sine: bool) -> Any:
    a = np.abs(x)
    tiny = (a < 2.0**-60) & sine
    value = by_regions(
        a,
        (tiny, _fresnel_sine_near_0),
        ((a < _FRESNEL_FAR) & ~tiny, lambda v: nearest(_fresnel_table(sine).derivative(v, 0))),
        ((a >= _FRESNEL_FAR) & (a < 1e17), lambda v: _fresnel_far(v, sine)),
        (a >= 1e17, lambda v: np.full_like(v, 0.5)),
    )
    return np.copysign(value, x)


def _quick_fresnel(x: Any, least: float, *, sine: bool) -> Quick | None:
    a = np.abs(x)
    table = (a < _FRESNEL_FAR) & ~((a < 2.0**-60) & sine)
    found = joined(a, (table, lambda v: _fresnel_table(sine).quick(v, least, 0)))
    return None if found is None else (np.copysign(found[0], x), found[1])


@partial(flat_float64, quick=partial(_quick_fresnel, sine=True))
def fresnel_sin(x: Any) -> Any:
    """The integral of sin(pi t²/2) from 0 to x."""
    return _fresnel(x, True)


@partial(flat_float64, quick=partial(_quick_fresnel, sine=False))
def fresnel_cos(x: Any) -> Any:
    """The integral of cos(pi t²/2) from 0 to x."""
    return _fresnel(x, False)


@lru_cache(maxsize=64)
def _wave_polynomials(n: int, quarter: int) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
    """The n-th derivative of sin(pi x²/2 + quarter pi/2) as S sin + C cos; S and C are lists of terms (k, c)."""
    # A term is c (pi x)^k pi^((n-k)/2). With z = sqrt(pi) x the phase is z²/2, and (S, C) -> (S' - z C, C' + z S) has
    # integer coefficients in z.
    s: dict[int, int] = {0: 1} if quarter % 2 == 0 else {}
    c: dict[int, int] = {} if quarter % 2 == 0 else {0: 1}
    for _ in range(n):
        new_s: dict[int, int] = {}
        new_c: dict[int, int] = {}
        for k, v in s.items():
            if k:
                new_s[k - 1] = new_s.get(k - 1, 0) + k * v
            new_c[k + 1] = new_c.get(k + 1, 0) + v
        for k, v in c.items():
            if k:
                new_c[k - 1] = new_c.get(k - 1, 0) + k * v
            new_s[k + 1] = new_s.get(k + 1, 0) - v
        s, c = new_s, new_c
    return tuple(sorted(s.items())), tuple(sorted(c.items()))


def _quick_wave(x: Any, least: float, *, n: int, quarter: int) -> Quick | None:
    """The formula for narrower dtypes, whose squares are exact in float64, and for the first derivative at most."""
    if least >= 2.0**-10 or n > 1:
        return None
    angle = 0.5 * np.pi * np.fmod(x * x, 4.0)
    if n == 0:
        value = size = np.cos(angle) if quarter else np.sin(angle)
    else:
        size = -np.sin(angle) if quarter else np.cos(angle)
        value = np.pi * x * size
    a = np.abs(x)
    return value, (np.abs(size) >= least) & (a > 2.0**-60) & (a < 2.0**26)


@partial(flat_float64, quick=_quick_wave)
def fresnel_wave(x: Any, *, n: int, quarter: int) -> Any:
    """The n-th derivative of sin(pi x²/2) (quarter 0) or of cos(pi x²/2) (quarter 1)."""
    sine, cosine = _sine_and_cosine_of_half_square(x)
    rows = _wave_polynomials(n, quarter)
    # z^k pi^(n/2) = x^k pi^((n+k)/2) has integer powers of pi.
    largest = max(k for row in rows for k, _ in row)
    huge = np.abs(x) > 2.0 ** (900 // max(largest, 1) if largest > 1 else 900)
    safe = np.where(huge, 1.0, x)
    small = np.abs(x) < 1e-70
    total: Pair = (0.0 * x, 0.0 * x)
    for row, trig in zip(rows, (sine, cosine), strict=True):
        for k, v in row:
            term = multiply_pairs(exact(v * PI ** ((n + k) // 2)), trig)
            for _ in range(k):
                term = multiply_pairs(term, (np.where(small, 0.0, safe), 0.0 * safe))
            total = sum_pair(total, term)
    value = nearest(total)
    if np.any(huge):  # sin is 0 and cos is 1 there, and only one power of x counts
        k, v = rows[1][-1] if rows[1] else (0, 0)
        far = np.full_like(x, float(v * PI ** ((n + k) // 2)))
        for _ in range(k):
            far = far * x
        value = np.where(huge, far, value)
    if np.any(small):
        value = np.where(small, _wave_at_0(x, n, quarter), value)
    return np.where(np.isinf(x), np.nan, value)


def _wave_at_0(x: Any, n: int, quarter: int) -> Any:
    """The first term of the power series of `fresnel_wave`, for tiny x."""
    # The series is sin(pi x²/2) = sum of (-1)^j (pi/2)^(2j+1) x^(4j+2) / (2j+1)!; for cos the same with 2j.
    j = 0
    while True:
        power = 2 * (2 * j + 1 - quarter)
        if power >= n:
            c = (-1) ** j * (PI / 2) ** (power // 2) / factorial(power // 2) * factorial(power) / factorial(power - n)
            value = np.full_like(x, float(c))
            for _ in range(power - n):
                value = value * x
            return value
        j += 1


# Spence's function ---------------------------------------------------------------------------------------------------


def _among_ones(x: Any) -> Any:
    """Where the polynomials of Spence's function are divided by 1 - x, because the quotient has no root."""
    return (x >= 0.5) & (x < 2.0)


@lru_cache(maxsize=1)
def _spence_pieces() -> Pieces:
    def pair(x: Any) -> Pair:
        if _among_ones(x).all():  # all numbers are in one octave
            return over(_spence_near_pair(x), two_sum(1.0, -x))
        return _spence_small_pair(x) if x[0] < 1.0 else _spence_large_pair(x)

    return Pieces(pair, _LEAST, _MOST)


def _quick_spence(x: Any, least: float) -> Quick:
    value, right = _spence_pieces()(x, least)
    return value * np.where(_among_ones(x), 1.0 - x, 1.0), right


@partial(flat_float64, quick=_quick_spence)
def spence(x: Any) -> Any:
    """Minus the integral of log(t)/(t - 1) from 1 to x, for x >= 0."""
    near = (x > 0.5) & (x < 2.0)
    return by_regions(
        x,
        (near, lambda v: nearest(_spence_near_pair(v))),
        ((x >= 0) & (x <= 0.5), lambda v: nearest(_spence_small_pair(v))),
        ((x >= 2.0) & np.isfinite(x), lambda v: nearest(_spence_large_pair(v))),
        (x == np.inf, lambda v: np.full_like(v, -np.inf)),
    )


_BERNOULLI: list[Fraction] = []


def bernoulli(n: int) -> Fraction:
    """The Bernoulli number B_n, with B_1 = -1/2."""
    while len(_BERNOULLI) <= n:
        m = len(_BERNOULLI)
        s = sum((comb(m + 1, k) * b for k, b in enumerate(_BERNOULLI)), Fraction(0))
        _BERNOULLI.append(-s / (m + 1) if m else Fraction(1))
    return _BERNOULLI[n]


@lru_cache(maxsize=1)
def _dilogarithm() -> tuple[float, ...]:
    """Coefficients of v^(2k+1), k >= 1, in Li2(1 - exp(-v)) = v - v²/4 + sum of B_2k v^(2k+1)/(2k+1)!."""
    return tuple(float(bernoulli(2 * k) / factorial(2 * k + 1)) for k in range(1, 14))


def _dilog_of_log(v: Pair) -> Pair:
    """Li2(1 - exp(-v)) for abs(v) <= log(2)."""
    z = v[0] * v[0]
    rest: Any = 0.0
    for c in _dilogarithm()[::-1]:
        rest = (rest + c) * z
    square = multiply_pairs(v, v)
    total = difference(v, (0.25 * square[0], 0.25 * square[1]))
    return sum_pair(total, (rest * v[0], 0.0 * z))


def _spence_near_pair(x: Any) -> Pair:
    """Li2(1 - x) with 1 - x = 1 - exp(-v), v = -log(x)."""
    log = log_exact(x)
    return _dilog_of_log((-log[0], -log[1]))


def _log1m(x: Any) -> Pair:
    """log(1 - x) for 0 <= x <= 1/2 as a pair."""
    total = two_sum(1.0, -x)
    log = log_exact(total[0])
    return sum_pair(log, (total[1] / total[0], 0.0 * x))


def _spence_small_pair(x: Any) -> Pair:
    """Li2(1 - x) = pi²/6 - log(x) log(1 - x) - Li2(x), with Li2(x) from v = -log(1 - x)."""
    other = _log1m(x)
    log = log_exact(np.where(x > 0, x, 1.0))
    cross = multiply_pairs(log, other)
    inner = _dilog_of_log((-other[0], -other[1]))
    return difference(difference(exact(PI**2 / 6), cross), inner)


def _spence_large_pair(x: Any) -> Pair:
    """Li2(1 - x) = -Li2(1 - 1/x) - log(x)²/2, and Li2(1 - 1/x) = pi²/6 + log(x) log(1 - 1/x) - Li2(1/x)."""
    log = log_exact(x)
    u = 1.0 / x
    rest = difference(log_exact(np.where(x < 1e20, x - 1.0, x)), log)  # log(1 - 1/x)
    rest = np.where(x < 1e15, rest[0], -u), np.where(x < 1e15, rest[1], 0.0)
    inner = difference(sum_pair(exact(PI**2 / 6), multiply_pairs(log, rest)), _dilog_of_log((-rest[0], -rest[1])))
    half = multiply_pairs(log, log)
    total = sum_pair(inner, (0.5 * half[0], 0.5 * half[1]))
    return -total[0], -total[1]


@lru_cache(maxsize=32)
def _spence_slope_pieces(n: int) -> Pieces:
    def pair(x: Any) -> Pair:
        near = (x > 2.0 / 3.0) & (x < 2.0)
        close = _spence_slope_near_pair(np.where(near, x, 1.5), n)
        far = _spence_slope_far_pair(np.where(near, 2.0, x), n)
        sign = (-1.0) ** n * factorial(n - 1)
        return sign * np.where(near, close[0], far[0]), sign * np.where(near, close[1], far[1])

    return Pieces(pair, _LEAST, _MOST)


def _quick_spence_slope(x: Any, least: float, *, n: int) -> Quick | None:
    return _spence_slope_pieces(n)(x, least) if n <= 3 else None


@partial(flat_float64, quick=_quick_spence_slope)
def spence_derivative(x: Any, *, n: int) -> Any:
    """The n-th derivative of Spence's function, n > 0.

    With u = 1 - 1/x the derivative is (-1)^n (n-1)! (x-1)^-n times the sum of u^k/k over k >= n, which is log(x) minus
    its first terms.
    """
    sign = (-1) ** n * factorial(n - 1)
    near = (x > 2.0 / 3.0) & (x < 2.0)
    value = by_regions(
        x,
        (near, lambda v: sign * _spence_slope_near(v, n)),
        ((x > 0) & ~near & np.isfinite(x), lambda v: sign * _spence_slope_far(v, n)),
        (x == np.inf, np.zeros_like),
        (x == 0, lambda v: np.full_like(v, (-1) ** n * np.inf)),
    )
    return value


def _spence_slope_near(x: Any, n: int) -> Any:
    return nearest(_spence_slope_near_pair(x, n))


def _spence_slope_near_pair(x: Any, n: int) -> Pair:
    """The sum of u^(k-n)/k over k >= n, divided by x^n."""
    u = over(two_sum(x, -1.0), (x, 0.0 * x))
    rest: Any = 0.0
    for k in range(n + 58, n + 6, -1):
        rest = rest * u[0] + 1.0 / k
    head = horner_pair([*[exact(Fraction(1, k)) for k in range(n, n + 7)], (rest, 0.0 * x)], u)
    below: Pair = (x, 0.0 * x)
    for _ in range(n - 1):
        below = multiply_pairs(below, (x, 0.0 * x))
    return over(head, below)


def _spence_slope_far_pair(x: Any, n: int) -> Pair:
    """The logarithm of x minus the first n - 1 terms, over (x - 1)^n, for moderate x."""
    gap = two_sum(x, -1.0)
    u = over(gap, (x, 0.0 * x))
    total = log_exact(x)
    for k in range(1, n):
        total = difference(total, multiply_pairs(power_pair(u, k), exact(Fraction(1, k))))
    return over(total, power_pair(gap, n))


def _spence_slope_far(x: Any, n: int) -> Any:
    large = x > 1e20
    safe = np.where(large, 2.0, x)
    gap = two_sum(safe, -1.0)
    total = log_exact(x)
    u = over(gap, (safe, 0.0 * safe))
    u = np.where(large, 1.0, u[0]), np.where(large, -1.0 / x, u[1])
    if n > 1:  # near 0 u may be huge, and then its powers dominate, the last one most
        tiny = x < 1e-60
        v = np.where(tiny, 0.0, u[0]), np.where(tiny, 0.0, u[1])
        for k in range(1, n):
            term = v
            for _ in range(k - 1):
                term = multiply_pairs(term, v)
            total = difference(total, multiply_pairs(term, exact(Fraction(1, k))))
        far = nearest(total)
        for _ in range(n):
            far = far / x
        value = np.where(large, far, nearest(over(total, power_pair(gap, n))))
        # The term is -u^(n-1)/(n-1) over (x-1)^n with u = -1/x.
        last = np.full_like(x, 1.0 / (n - 1))
        for _ in range(n - 1):
            last = last / x
        return np.where(tiny, last, value)
    return np.where(large, nearest(total) / x, nearest(over(total, gap)))
