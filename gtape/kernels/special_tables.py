"""Functions that solve a linear differential equation, by Taylor tables computed in integers at first use.

J, Y, I and K, Dawson's function, Ei and Fresnel's integrals satisfy p_r(x) f^(r) + ... + p_0(x) f = 0 with polynomials
p_j. The equation gives the Taylor coefficients at one point. Their sums give the values at the next point, and so on
along the line (analytic continuation). All of this runs in fixed-point integers of about 400 bits, which lose no
digits. A kernel then looks up the nearest point and sums the Taylor series of the function, or of one of its
derivatives, in pairs. So results are accurate even near roots. Large arguments use asymptotic series.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from math import comb, factorial, ldexp, log2, perm
from typing import Any

import numpy as np

from gtape.kernels.log_pairs import log_exact
from gtape.kernels.pair_functions import exact, exp_parts, horner_pair, over, sum_pair
from gtape.kernels.pairs import Pair, Quick, mended, multiply_pairs, two_product, two_sum

BITS = 400
ONE = 1 << BITS

EULER = Fraction(
    "0.5772156649015328606065120900824024310421593359399235988057672348848677267776646709369470632917467495146314472498070824809605"
)
PI = Fraction(
    "3.1415926535897932384626433832795028841971693993751058209749445923078164062862089986280348253421170679821480865132823066470938"
)
LN2 = Fraction(
    "0.69314718055994530941723212145817656807550013436025525412068000949339362196969471560586332699641868754200148102057068573368552"
)

Poly = Sequence[Fraction | int]  # lowest coefficient first


def fixed(x: Fraction | int) -> int:
    """A rational number in fixed point."""
    return (int(x.numerator) << BITS) // int(x.denominator)


# The least share of its largest term that a sum in float64 may be, so that the sum has enough digits.
_SHARE, NARROW_SHARE = 0.5, 2.0**-18  # for float64, and for narrower dtypes


def flat_float64(core: Callable[..., Any], quick: Callable[..., Quick | None] | None = None) -> Callable[..., Any]:
    """Turn a function of flat float64 arrays into a kernel of one argument that rounds once to narrower dtypes.

    ``quick(x, least, **params)`` is a fast formula for `mended`, which is wrong where a sum is less than `least` of its
    largest term.
    """

    def kernel(x: Any, **params: Any) -> Any:
        x = np.asarray(x)
        with np.errstate(all="ignore"):
            flat = x.astype(np.float64).ravel()
            if quick is None:
                out = core(flat, **params)
            else:
                least = _SHARE if x.dtype == np.float64 else NARROW_SHARE
                out = mended(core, lambda v, **given: quick(v, least, **given), flat, **params)
            out = out.reshape(x.shape).astype(x.dtype)
        return out[()]

    kernel.__name__, kernel.__doc__, kernel.__module__ = core.__name__, core.__doc__, core.__module__
    kernel.__wrapped__, kernel.quick = core, quick  # type: ignore[attr-defined]
    return kernel


def by_regions(x: Any, *regions: tuple[Any, Callable[[Any], Any]]) -> Any:
    """The values of each region's function in its part of a flat array; NaN outside all regions."""
    out = np.full(x.shape, np.nan)
    for mask, f in regions:
        if mask.all():
            return f(x)
        if mask.any():
            out[mask] = f(x[mask])
    return out


# ------------------------------------------------------------------------------------------------- power series at 0


class PowerSeries:
    """A power series with exact coefficients, lowest first, and all its derivatives, at floats of at most `REACH`."""

    REACH = 0.5

    def __init__(self, coefficients: Sequence[Fraction]) -> None:
        self.exact = tuple(coefficients)
        self._made: dict[int, tuple[list[Pair], list[float]]] = {}

    def _coefficients(self, n: int) -> tuple[list[Pair], list[float]]:
        """The leading coefficients of the n-th derivative as pairs, and those without a low part as floats."""
        row = [c * perm(k + n, n) for k, c in enumerate(self.exact[n:])]
        size = np.abs([float(c) for c in row]) * self.REACH ** np.arange(len(row))
        share = size / (np.max(size[:2], initial=0.0) or 1.0)
        head = int(np.max(np.flatnonzero(share > 2.0**-58), initial=-1)) + 1
        terms = int(np.max(np.flatnonzero(share > 2.0**-112), initial=-1)) + 1
        return [exact(c) for c in row[:head]] or [(0.0, 0.0)], [float(c) for c in row[head:terms]]

    def derivative(self, n: int, x: Any) -> Pair:
        """The n-th derivative, as a pair."""
        made = self._made.get(n)
        if made is None:
            made = self._made[n] = self._coefficients(n)
        head, tail = made
        value = 0.0 * x
        for c in tail[::-1]:
            value = (value + c) * x
        return horner_pair([*head[:-1], two_sum(head[-1][0], head[-1][1] + value)], (x, 0.0 * x))


class LogSeries:
    """scale * ((log(x) + constant) A(x) + B(x)) for small x > 0. A is an even power series, A(0) = 1, B(0) = 0."""

    def __init__(self, scale: Fraction, constant: Fraction, a: Sequence[Fraction], b: Sequence[Fraction]) -> None:
        self.scale, self.constant, self.a, self.b = scale, constant, PowerSeries(a), PowerSeries(b)

    def value(self, x: Fraction, log: Fraction) -> tuple[Fraction, Fraction]:
        """The value and the slope at a rational x, given the logarithm of x."""
        values = []
        for series in (self.a, self.b):
            for n in (0, 1):
                values.append(sum(c * perm(k, n) * x ** (k - n) for k, c in enumerate(series.exact) if k >= n))
        a, a1, b, b1 = values
        lead = log + self.constant
        return self.scale * (lead * a + b), self.scale * (a / x + lead * a1 + b1)

    def derivative(self, x: Any, n: int) -> Pair:
        """The n-th derivative, as a pair."""
        tiny = x < 1e-30  # only the first term matters
        safe = np.where(tiny, 1.0, x)
        lead = sum_pair(log_exact(np.where(x > 0, x, 1.0)), exact(self.constant))
        if n == 0:
            total = sum_pair(multiply_pairs(lead, self.a.derivative(0, safe)), self.b.derivative(0, safe))
            total = np.where(tiny, lead[0], total[0]), np.where(tiny, lead[1], total[1])
            return multiply_pairs(exact(self.scale), total)
        total = sum_pair(multiply_pairs(lead, self.a.derivative(n, safe)), self.b.derivative(n, safe))
        inverse = over((1.0, 0.0), (safe, 0.0 * safe))
        power = inverse
        for j in range(1, n + 1):
            c = float(comb(n, j) * (-1) ** (j - 1) * factorial(j - 1))
            total = sum_pair(total, multiply_pairs(multiply_pairs((c, 0.0), power), self.a.derivative(n - j, safe)))
            power = multiply_pairs(power, inverse)
        out = multiply_pairs(exact(self.scale), total)
        far = np.full_like(x, float(self.scale * (-1) ** (n - 1) * factorial(n - 1)))
        for _ in range(n):
            far = far / x
        return np.where(tiny, far, out[0]), np.where(tiny, 0.0, out[1])


# ------------------------------------------------------------------------------------------------- Taylor tables


def _shifted(p: Poly, c: Fraction) -> list[Fraction]:
    """The coefficients of p(c + t) in t."""
    return [
        sum((Fraction(p[i]) * comb(i, m) * c ** (i - m) for i in range(m, len(p))), Fraction(0)) for m in range(len(p))
    ]


def _taylor(ode: Sequence[Poly], c: Fraction, start: list[int], step: Fraction) -> list[int]:
    """Taylor coefficients at c in fixed point, from `start` until terms at the distance `step` are negligible."""
    order = len(ode) - 1
    terms = [(j, m, q) for j, p in enumerate(ode) for m, q in enumerate(_shifted(p, c)) if q and (j, m) != (order, 0)]
    lead = _shifted(ode[order], c)[0]
    weights = [(j, m, (-q / lead).numerator, (-q / lead).denominator) for j, m, q in terms]
    a = list(start)
    small = 0
    fall = log2(step)  # the decrease of each term, from the power of the distance
    k = 0
    while small < 6:
        total = 0
        for j, m, up, down in weights:
            i = k - m + j
            if k >= m:
                total += a[i] * perm(i, j) * up // down
        a.append(total // perm(k + order, order))
        bits = abs(a[-1]).bit_length() + fall * len(a)
        small = small + 1 if bits < 8 else 0
        k += 1
    return a


class Table:
    """A solution of a linear differential equation on an interval, with all its derivatives.

    Parameters
    ----------
    ode : sequence of polynomials
        p_0 ... p_r of p_r f^(r) + ... + p_0 f = 0.
    centres : sequence of Fraction
        The expansion points in the order of continuation, about equally spaced.
    start : callable
        Returns Fractions: the values f, f', ... at the first centre (as many as the order of the equation) or, with
        `series`, the Taylor coefficients there.
    series : bool
        Whether `start` returns Taylor coefficients. Needed if the equation is singular at the first centre.
    """

    def __init__(
        self, ode: Sequence[Poly], centres: Sequence[Fraction], start: Callable[[], Sequence[Fraction]], series: bool
    ) -> None:
        self.ode, self.centres, self.start, self.series = ode, tuple(centres), start, series
        self.rows: list[list[int]] = []
        self.made: dict[Any, Any] = {}
        self.leading: dict[tuple[int, tuple[int, ...]], tuple[Any, Any]] = {}
        ordered = sorted(map(float, centres))
        self.edges = np.array([(p + q) / 2 for p, q in pairwise(ordered)])
        self.places = np.array(ordered)
        self.backwards = float(centres[0]) > float(centres[-1])

    def build(self) -> list[list[int]]:
        """The Taylor coefficients at every centre, in fixed point."""
        if self.rows:
            return self.rows
        order = len(self.ode) - 1
        given = [fixed(v) for v in self.start()]
        rows = []
        for i, c in enumerate(self.centres):
            step = abs(self.centres[i + 1] - c) if i + 1 < len(self.centres) else abs(c - self.centres[i - 1])
            if i == 0 and self.series:
                row = given
            else:
                row = _taylor(self.ode, c, [v // factorial(j) for j, v in enumerate(given[:order])], step)
            rows.append(row)
            if i + 1 < len(self.centres):
                h = self.centres[i + 1] - c
                given = []
                for j in range(order):
                    value = 0
                    for k in range(len(row) - 1, j - 1, -1):
                        value = value * h.numerator // h.denominator + row[k] * perm(k, j)
                    given.append(value)
        if self.backwards:
            rows.reverse()
        self.rows = rows
        return rows

    def coefficients(self, n: int, weights: tuple[int, ...]) -> tuple[Any, Any, Any]:
        """Taylor coefficients of the sum of w_i f^(n+i): leading ones as high and low parts, the others as floats."""
        found = self.made.get((n, weights))
        if found is not None:
            return found  # type: ignore[no-any-return]
        rows = self.build()
        half = self._reach()
        longest = max(len(r) for r in rows) - n - len(weights) + 1
        high = np.zeros((longest, len(rows)))
        low = np.zeros((longest, len(rows)))
        for i, row in enumerate(rows):
            for k in range(len(row) - n - len(weights) + 1):
                value = sum(w * row[k + n + j] * perm(k + n + j, n + j) for j, w in enumerate(weights) if w)
                high[k, i], low[k, i] = _pair(value)
        size = np.abs(high) * half[None, :] ** np.arange(longest)[:, None]
        share = np.max(size / np.max(size[: n % 2 + 2], axis=0), axis=1)
        terms = int(np.flatnonzero(share > 2.0**-112)[-1]) + 1
        head = int(np.flatnonzero(share > 2.0**-58)[-1]) + 1
        found = self.made[n, weights] = high[:head], low[:head], high[head:terms]
        return found

    def _leading(self, n: int, weights: tuple[int, ...]) -> tuple[Any, Any]:
        """The high and low parts of the coefficients whose terms are at least 2**-58 of a first one."""
        found = self.leading.get((n, weights))
        if found is None:
            high, low, _ = self.coefficients(n, weights)
            size = np.abs(high) * self._reach()[None, :] ** np.arange(len(high))[:, None]
            share = np.max(size / np.max(size[:_FIRST], axis=0), axis=1)
            terms = int(np.flatnonzero(share > 2.0**-58)[-1]) + 1
            found = self.leading[n, weights] = high[:terms], low[:_PAIRED]
        return found

    def _reach(self) -> Any:
        """The largest distance at which each centre is used."""
        gaps = np.diff(self.places) / 2
        return np.maximum(np.append(gaps, gaps[-1]), np.insert(gaps, 0, gaps[0]))

    def derivative(self, x: Any, n: int, weights: tuple[int, ...] = (1,)) -> Pair:
        """The sum of w_i f^(n+i)(x) for flat x within the interval, as a pair."""
        high, low, tail = self.coefficients(n, weights)
        at = np.searchsorted(self.edges, x)
        t = x - self.places[at]
        value: Any = 0.0
        for row in tail[::-1]:
            value = value * t + row[at]
        out: Pair = (value * t if len(tail) else 0.0 * t, 0.0 * t)
        for k in range(len(high) - 1, -1, -1):
            out = sum_pair(out, (high[k][at], low[k][at]))
            if k:
                p, e = two_product(out[0], t)
                out = p, e + out[1] * t
        tiny = np.abs(x) < 1e-60
        if np.any(tiny) and 0.0 in self.places:
            first = [float(high[k][int(np.searchsorted(self.places, 0.0))]) if k < len(high) else 0.0 for k in range(4)]
            plain = first[0] + x * (first[1] + x * (first[2] + x * first[3]))
            out = np.where(tiny, plain, out[0]), np.where(tiny, 0.0, out[1])
        return out

    def quick(self, x: Any, least: float, n: int, weights: tuple[int, ...] = (1,)) -> Quick:
        """`derivative` as floats. One term is a pair; four terms are pairs where the others are too large."""
        high, low = self._leading(n, weights)
        at = np.searchsorted(self.edges, x)
        t = x - self.places[at]
        rows = high.take(at, axis=1)
        rest = _horner(rows[1:], t) * t + low[0].take(at)
        value = rows[0] + rest
        rest = np.where(rows[0] == 0, 0.0, rest)
        right = np.abs(value) >= least * np.maximum(np.abs(rows[0]), 6.0 * np.abs(rest))
        if len(high) > 1:  # each power of t in the first term rounds
            right &= (rows[0] != 0) | (rows[1] != 0)
        if len(high) > _PAIRED and not right.all():
            few = ~right
            rows, t, at = rows[:, few], t[few], at[few]
            sum_ = _horner(rows[_PAIRED:], t) * t, 0.0 * t
            for k in range(_PAIRED - 1, -1, -1):
                sum_ = sum_pair(sum_, (rows[k], low[k].take(at)))
                if k:
                    p, e = two_product(sum_[0], t)
                    sum_ = p, e + sum_[1] * t
            value[few] = sum_[0] + sum_[1]
            right[few] = np.abs(value[few]) >= 2.0**-4 * least * np.abs(rows[0])
        return value, right


def _horner(rows: Any, t: Any) -> Any:
    """The value of a polynomial, lowest coefficient first; 0 without coefficients."""
    value = 0.0 * t
    for c in rows[::-1]:
        value *= t
        value += c
    return value


_FIRST = 5  # the coefficients among which the first one is that is not 0
_PAIRED = 4  # the terms of `Table.quick` that are pairs beside roots


def _pair(value: int) -> tuple[float, float]:
    """A fixed-point number as two floats: the nearest float, and the nearest float of the rest."""
    high = value / ONE  # Python divides integers with a single rounding
    return high, (value - int(ldexp(high, BITS))) / ONE


# ------------------------------------------------------------------------------------------------- asymptotic series


class Decaying:
    """exp(rate x) x**(-power) S(1/x) for large x, with all its derivatives.

    Parameters
    ----------
    rate : int
        0, 1 or -1.
    series : sequence of Fraction
        Coefficients of S.
    """

    def __init__(self, rate: int, power: Fraction, series: Sequence[Fraction]) -> None:
        self.rate, self.power, self.rows = rate, power, [tuple(series)]

    def row(self, n: int) -> tuple[Fraction, ...]:
        """The coefficients of S for the n-th derivative."""
        while len(self.rows) <= n:
            a = self.rows[-1]
            before = (Fraction(0), *a[:-1])
            self.rows.append(
                tuple(self.rate * p - (k - 1 + self.power) * q for k, (p, q) in enumerate(zip(a, before, strict=True)))
            )
        return self.rows[n]

    def combined(self, n: int, weights: tuple[int, ...]) -> list[Fraction]:
        """The coefficients for the sum of w_i f^(n+i)."""
        rows = [self.row(n + j) for j in range(len(weights))]
        return [sum((w * r[k] for w, r in zip(weights, rows, strict=True)), Fraction(0)) for k in range(len(rows[0]))]


def decaying_sum(coefficients: Sequence[Fraction], x: Any, least: float) -> tuple[Pair, int]:
    """S(1/x) divided by its leading power of 1/x, and the exponent of this power. abs(x) is at least `least`."""
    skip = next(k for k, c in enumerate(coefficients) if c)
    found: list[float] = []
    best = float("inf")
    for k, c in enumerate(coefficients[skip:]):
        size = abs(float(c)) / least**k
        if c and k > 4 and (size > best or size < 2.0**-64 * abs(float(coefficients[skip]))):
            break
        best = min(best, size) if c else best
        found.append(float(c))
    u = 1.0 / x
    value: Any = 0.0
    for coefficient in found[:0:-1]:
        value = (value + coefficient) * u
    return two_sum(found[0], value), skip


def scaled_exp(x: Any, factor: Any) -> Any:
    """exp(x) * factor, rounded once even if exp(x) alone overflows or is subnormal."""
    clipped = np.clip(x, -2000.0, 2000.0)
    part, k = exp_parts((clipped, 0.0 * clipped))
    return np.ldexp((factor + factor * part[0]) + factor * part[1], k)
