"""Kernels of the Bessel functions of order 0 and 1 and of all their derivatives, to about one ULP.

By J1 = -J0', Y1 = -Y0', I1 = I0' and K1 = -K0', all are derivatives of four functions. For small x the kernels use
power series (with a logarithm for Y and K), for large x Hankel's asymptotic series (DLMF 10.17, 10.40) with an exact
reduction of the phase of J and Y, and Taylor tables between.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from math import factorial
from typing import Any

import numpy as np

from gtape.kernels.pair_functions import difference, exact, horner_pair, over, sum_pair, turn_and_rest, turned
from gtape.kernels.pairs import Pair, Quick, multiply_pairs, nearest, sqrt_pair, two_product
from gtape.kernels.pieces import Pieces, joined
from gtape.kernels.special_tables import (
    EULER,
    LN2,
    PI,
    Decaying,
    LogSeries,
    Table,
    by_regions,
    decaying_sum,
    flat_float64,
    scaled_exp,
)

_TERMS = 90
_EDGE = Fraction(1, 2)  # the start of the tables of Y and K
_FAR_WAVES, _FAR = 40.0, 24.0  # from these numbers on the asymptotic series have all digits


def _even_series(sign: int) -> list[Fraction]:
    """J0 (sign -1) or I0 (sign 1)."""
    return [
        Fraction(sign ** (k // 2), 4 ** (k // 2) * factorial(k // 2) ** 2) if k % 2 == 0 else Fraction(0)
        for k in range(2 * _TERMS)
    ]


def _harmonic_series(sign: int) -> list[Fraction]:
    """Sum of sign^k H_k (x²/4)^k / k!²."""
    out, h = [], Fraction(0)
    for k in range(2 * _TERMS):
        j = k // 2
        if k % 2 == 0 and j:
            h += Fraction(1, j)
        out.append(h * Fraction(sign**j, 4**j * factorial(j) ** 2) if k % 2 == 0 else Fraction(0))
    return out


def _exp_times(series: list[Fraction], rate: int) -> list[Fraction]:
    """The power series times exp(rate x)."""
    n = len(series)
    e = [Fraction(rate**k, factorial(k)) for k in range(n)]
    return [sum((e[j] * series[k - j] for j in range(k + 1) if series[k - j]), Fraction(0)) for k in range(n)]


def _grid(first: Fraction, last: int) -> list[Fraction]:
    """The centres: every 1/8 up to 2, then every 1/2."""
    found, c = [], first
    while c <= last + 1:
        found.append(c)
        c += Fraction(1, 8) if c < 2 else Fraction(1, 2)
    return found


def _bessel(sign: int) -> list[list[Fraction | int]]:
    """The coefficients of the equation x f'' + f' - sign x f = 0."""
    return [[0, -sign], [1], [0, 1]]


@lru_cache(maxsize=1)
def _j_table() -> Table:
    return Table(_bessel(-1), _grid(Fraction(0), int(_FAR_WAVES)), lambda: _even_series(-1), series=True)


@lru_cache(maxsize=1)
def _i_table() -> Table:
    return Table(_bessel(1), _grid(Fraction(0), int(_FAR)), lambda: _even_series(1), series=True)


@lru_cache(maxsize=1)
def _ie_table() -> Table:
    ode = [[1], [1, 2], [0, 1]]  # the equation of exp(-x) I0
    return Table(ode, _grid(Fraction(0), int(_FAR)), lambda: _exp_times(_even_series(1), -1), series=True)


@lru_cache(maxsize=2)
def _near(sign: int) -> LogSeries:
    """Y0 (sign -1) or K0 (sign 1) near 0, where few terms are enough (DLMF 10.8, 10.31)."""
    scale = 2 / PI if sign < 0 else Fraction(-1)
    b = [-c for c in _harmonic_series(sign)]
    return LogSeries(scale, EULER - LN2, _even_series(sign)[:44], b[:44])


def _start(sign: int) -> list[Fraction]:
    long = LogSeries(_near(sign).scale, EULER - LN2, _even_series(sign), [-c for c in _harmonic_series(sign)])
    return list(long.value(_EDGE, -LN2))


@lru_cache(maxsize=1)
def _y_table() -> Table:
    return Table(_bessel(-1), _grid(_EDGE, int(_FAR_WAVES)), lambda: _start(-1), series=False)


@lru_cache(maxsize=1)
def _k_table() -> Table:
    return Table(_bessel(1), _grid(_EDGE, int(_FAR)), lambda: _start(1), series=False)


@lru_cache(maxsize=1)
def _ke_table() -> Table:
    """The table of exp(x) K0."""

    def start() -> list[Fraction]:
        value, slope = _start(1)
        e = sum((_EDGE**k / factorial(k) for k in range(_TERMS)), Fraction(0))
        return [e * value, e * (value + slope)]

    return Table([[-1], [1, -2], [0, 1]], _grid(_EDGE, int(_FAR)), start, series=False)


# asymptotic series ---------------------------------------------------------------------------------------------------


def _hankel(sign: int) -> list[Fraction]:
    """The coefficients sign^k a_k(0) = sign^k ((2k-1)!!)² / (k! 8^k), with the own sign (-1)^k of a_k."""
    out = [Fraction(1)]
    for k in range(1, 60):
        out.append(-sign * out[-1] * Fraction((2 * k - 1) ** 2, 8 * k))
    return out


@lru_cache(maxsize=4)
def _decaying(kind: str) -> Decaying:
    """I0 = exp(x)/sqrt(2 pi x) S, K0 = sqrt(pi/(2x)) exp(-x) S, and both without their exponential."""
    sign, rate = {"i": (-1, 1), "ie": (-1, 0), "k": (1, -1), "ke": (1, 0)}[kind]
    return Decaying(rate, Fraction(1, 2), _hankel(sign))


@lru_cache(maxsize=32)
def _wave(n: int) -> tuple[list[Pair], list[Pair]]:
    """The real and imaginary coefficients in 1/x of S: the n-th derivative is sqrt(2/(pi x)) exp(i (x - pi/4)) S."""
    re, im = _exact_wave(n)
    return [exact(c) for c in re[:44]], [exact(c) for c in im[:44]]


@lru_cache(maxsize=32)
def _exact_wave(n: int) -> tuple[list[Fraction], list[Fraction]]:
    if n == 0:
        a = _hankel(1)
        return (
            [a[k] * (1, 0, -1, 0)[k % 4] for k in range(len(a))],
            [a[k] * (0, 1, 0, -1)[k % 4] for k in range(len(a))],
        )
    re, im = _exact_wave(n - 1)
    shift = [Fraction(2 * k - 1, 2) for k in range(len(re))]
    return (
        [-im[k] - (shift[k] * re[k - 1] if k else 0) for k in range(len(re))],
        [re[k] - (shift[k] * im[k - 1] if k else 0) for k in range(len(re))],
    )


def _far_wave(x: Any, n: int, imaginary: bool) -> Any:
    """The n-th derivative of J0, or of Y0, for large x."""
    sine, cosine = turned(*turn_and_rest(x))
    total, gap = sum_pair(cosine, sine), difference(sine, cosine)  # sqrt(2) cos and sin of x - pi/4
    u = 1.0 / x
    huge = x > 1e290  # exact products would overflow, and no digit would change
    p, e = two_product(u, np.where(huge, 1.0, x))
    inverse = u, np.where(huge, 0.0, u * ((1.0 - p) - e))
    re, im = (horner_pair(row, inverse) for row in _wave(n))
    if imaginary:
        value = sum_pair(multiply_pairs(gap, re), multiply_pairs(total, im))
    else:
        value = difference(multiply_pairs(total, re), multiply_pairs(gap, im))
    shrink = np.where(huge, 2.0**-80, 1.0)
    root = sqrt_pair(multiply_pairs(exact(PI), (x * shrink, 0.0)))
    size = value[0] / root[0]
    p, e = two_product(size, root[0])
    return (size + (((value[0] - p) - e) + (value[1] - size * root[1])) / root[0]) * np.sqrt(shrink)


def _far(x: Any, n: int, kind: str, weights: tuple[int, ...] = (1,)) -> Any:
    """The n-th derivative of I0 or K0, plain or without its exponential factor, for large x."""
    made = _decaying(kind)
    total, skip = decaying_sum(made.combined(n, weights), x, _FAR)
    shrink = np.where(x > 1e290, 2.0**-80, 1.0)
    # The factor is 1/sqrt(2 pi x) or 1/sqrt(2 x/pi).
    root = sqrt_pair(multiply_pairs(exact(2 * PI if kind in ("i", "ie") else 2 / PI), (x * shrink, 0.0 * x)))
    value = nearest(over(total, root)) * np.sqrt(shrink)
    for _ in range(skip):
        value = value / x
    return scaled_exp(made.rate * x, value) if made.rate else value


# quick formulas ------------------------------------------------------------------------------------------------------

_LEAST, _MOST = -20, 20  # the octaves of polynomials


@lru_cache(maxsize=64)
def _far_pieces(n: int, kind: str, weights: tuple[int, ...]) -> Pieces:
    """The polynomials of `_far` without its exponential, from _FAR on."""

    def pair(x: Any) -> Pair:
        made = _decaying(kind)
        total, skip = decaying_sum(made.combined(n, weights), x, _FAR)
        root = sqrt_pair(multiply_pairs(exact(2 * PI if kind in ("i", "ie") else 2 / PI), (x, 0.0 * x)))
        value = over(total, root)
        for _ in range(skip):
            value = over(value, (x, 0.0 * x))
        return value

    return Pieces(pair, 4, _MOST)


def _quick_far(x: Any, least: float, n: int, kind: str, weights: tuple[int, ...] = (1,)) -> Quick:
    value, right = _far_pieces(n, kind, weights)(x, least)
    rate = _decaying(kind).rate
    return (value * np.exp(rate * x), right & (x < 700.0)) if rate else (value, right)


@lru_cache(maxsize=64)
def _near_pieces(kind: str, m: int, n: int) -> Pieces:
    """The polynomials of Y0, K0 or exp(x) K_m for x < 1/2."""
    if kind == "ke":
        return Pieces(lambda v: _small_ke_pair(v, m, n), _LEAST, -1)
    return Pieces(lambda v: _near(1 if kind == "k" else -1).derivative(v, n), _LEAST, -1)


def _signed(found: Quick | None, x: Any, odd: int) -> Quick | None:
    return found if found is None else (found[0] * _odd_sign(x, odd), found[1])


def _quick_j(x: Any, least: float, *, n: int) -> Quick | None:
    a = np.abs(x)
    return _signed(joined(a, (a < _FAR_WAVES, lambda v: _j_table().quick(v, least, n))), x, n)


def _quick_i(x: Any, least: float, *, n: int) -> Quick | None:
    a = np.abs(x)
    found = joined(
        a,
        (a < _FAR, lambda v: _i_table().quick(v, least, n)),
        (a >= _FAR, lambda v: _quick_far(v, least, n, "i")),
    )
    return _signed(found, x, n)


def _quick_ie(x: Any, least: float, *, m: int, n: int) -> Quick | None:
    a, weights = np.abs(x), (1, 1) if m else (1,)
    found = joined(
        a,
        ((a < _FAR) & (a > 0), lambda v: _ie_table().quick(v, least, n, weights)),
        (a >= _FAR, lambda v: _quick_far(v, least, n, "ie", weights)),
    )
    return _signed(found, x, m + n)


def _quick_y(x: Any, least: float, *, n: int) -> Quick | None:
    return joined(
        x,
        ((x > 0) & (x < 0.5), lambda v: _near_pieces("y", 0, n)(v, least)),
        ((x >= 0.5) & (x < _FAR_WAVES), lambda v: _y_table().quick(v, least, n)),
    )


def _quick_k(x: Any, least: float, *, n: int) -> Quick | None:
    return joined(
        x,
        ((x > 0) & (x < 0.5), lambda v: _near_pieces("k", 0, n)(v, least)),
        ((x >= 0.5) & (x < _FAR), lambda v: _k_table().quick(v, least, n)),
        (x >= _FAR, lambda v: _quick_far(v, least, n, "k")),
    )


def _quick_ke(x: Any, least: float, *, m: int, n: int) -> Quick | None:
    weights = (1, -1) if m else (1,)
    return joined(
        x,
        ((x > 0) & (x < 0.5), lambda v: _near_pieces("ke", m, n)(v, least)),
        ((x >= 0.5) & (x < _FAR), lambda v: _ke_table().quick(v, least, n, weights)),
        (x >= _FAR, lambda v: _quick_far(v, least, n, "ke", weights)),
    )


# kernels -------------------------------------------------------------------------------------------------------------


def _odd_sign(x: Any, odd: int) -> Any:
    return np.where(np.signbit(x), -1.0, 1.0) if odd % 2 else 1.0


@partial(flat_float64, quick=_quick_j)
def bessel_j_derivative(x: Any, *, n: int) -> Any:
    """The n-th derivative of J0."""
    a = np.abs(x)
    near = lambda v: nearest(_j_table().derivative(v, n))
    far = lambda v: _far_wave(v, n, imaginary=False)
    value = by_regions(
        a, (a < _FAR_WAVES, near), ((a >= _FAR_WAVES) & np.isfinite(a), far), (np.isinf(a), np.zeros_like)
    )
    return value * _odd_sign(x, n)


@partial(flat_float64, quick=_quick_i)
def bessel_i_derivative(x: Any, *, n: int) -> Any:
    """The n-th derivative of I0."""
    a = np.abs(x)
    value = by_regions(
        a, (a < _FAR, lambda v: nearest(_i_table().derivative(v, n))), (a >= _FAR, lambda v: _far(v, n, "i"))
    )
    value = np.where(np.isinf(a), np.inf, value)
    return value * _odd_sign(x, n)


def _ie(a: Any, n: int, weights: tuple[int, ...]) -> Any:
    return by_regions(
        a,
        (a < _FAR, lambda v: nearest(_ie_table().derivative(v, n, weights))),
        ((a >= _FAR) & np.isfinite(a), lambda v: _far(v, n, "ie", weights)),
        (np.isinf(a), np.zeros_like),
    )


@partial(flat_float64, quick=_quick_ie)
def bessel_ie_derivative(x: Any, *, m: int, n: int) -> Any:
    """The n-th derivative of exp(-|x|) I_m(x), m = 0 or 1. At 0 the result is 0 if the sides differ."""
    value = _ie(np.abs(x), n, (1, 1) if m else (1,))
    jump = (m + n) % 2 == 1 and (m, n) != (1, 0)
    return np.where(x == 0, 0.0 * x, value * _odd_sign(x, 1)) if jump else value * _odd_sign(x, m + n)


def _at_zero(n: int) -> Callable[[Any], Any]:
    return lambda v: np.full_like(v, np.inf if n % 2 == 0 else -np.inf)


@partial(flat_float64, quick=_quick_y)
def bessel_y_derivative(x: Any, *, n: int) -> Any:
    """The n-th derivative of Y0, for x > 0."""
    return by_regions(
        x,
        ((x > 0) & (x < 0.5), lambda v: nearest(_near(-1).derivative(v, n))),
        ((x >= 0.5) & (x < _FAR_WAVES), lambda v: nearest(_y_table().derivative(v, n))),
        ((x >= _FAR_WAVES) & np.isfinite(x), lambda v: _far_wave(v, n, imaginary=True)),
        (x == np.inf, np.zeros_like),
        (x == 0, _at_zero(n + 1)),
    )


@partial(flat_float64, quick=_quick_k)
def bessel_k_derivative(x: Any, *, n: int) -> Any:
    """The n-th derivative of K0, for x > 0."""
    return by_regions(
        x,
        ((x > 0) & (x < 0.5), lambda v: nearest(_near(1).derivative(v, n))),
        ((x >= 0.5) & (x < _FAR), lambda v: nearest(_k_table().derivative(v, n))),
        ((x >= _FAR) & np.isfinite(x), lambda v: _far(v, n, "k")),
        (x == np.inf, np.zeros_like),
        (x == 0, _at_zero(n)),
    )


@partial(flat_float64, quick=_quick_ke)
def bessel_ke_derivative(x: Any, *, m: int, n: int) -> Any:
    """The n-th derivative of exp(x) K_m(x), m = 0 or 1, for x > 0."""
    weights = (1, -1) if m else (1,)
    return by_regions(
        x,
        ((x > 0) & (x < 0.5), lambda v: _small_ke(v, m, n)),
        ((x >= 0.5) & (x < _FAR), lambda v: nearest(_ke_table().derivative(v, n, weights))),
        ((x >= _FAR) & np.isfinite(x), lambda v: _far(v, n, "ke", weights)),
        (x == np.inf, np.zeros_like),
        (x == 0, _at_zero(n)),
    )


@lru_cache(maxsize=1)
def _near_scaled() -> LogSeries:
    """exp(x) K0 near 0."""
    near = _near(1)
    return LogSeries(near.scale, near.constant, _exp_times(list(near.a.exact), 1), _exp_times(list(near.b.exact), 1))


def _small_ke_pair(x: Any, m: int, n: int) -> Pair:
    near = _near_scaled()
    return difference(near.derivative(x, n), near.derivative(x, n + 1)) if m else near.derivative(x, n)


def _small_ke(x: Any, m: int, n: int) -> Any:
    if m == 0:
        return nearest(_small_ke_pair(x, m, n))
    tiny = x < 1e-30  # only 1/x counts, because the two derivatives may both overflow
    safe = np.where(tiny, 1.0, x)
    value = nearest(_small_ke_pair(safe, m, n))
    far = np.full_like(x, float((-1) ** n * factorial(n)))
    for _ in range(n + 1):
        far = far / x
    return np.where(tiny, far, value)


def bessel_j0(x: Any) -> Any:
    """J0."""
    return bessel_j_derivative(x, n=0)


def bessel_j1(x: Any) -> Any:
    """J1."""
    return np.where(np.equal(x, 0), x, -bessel_j_derivative(x, n=1))  # keeps -0


def bessel_y0(x: Any) -> Any:
    """Y0."""
    return bessel_y_derivative(x, n=0)


def bessel_y1(x: Any) -> Any:
    """Y1."""
    return -bessel_y_derivative(x, n=1)


def bessel_i0(x: Any) -> Any:
    """I0."""
    return bessel_i_derivative(x, n=0)


def bessel_i1(x: Any) -> Any:
    """I1."""
    return bessel_i_derivative(x, n=1)


def bessel_i0e(x: Any) -> Any:
    """exp(-|x|) I0."""
    return bessel_ie_derivative(x, m=0, n=0)


def bessel_i1e(x: Any) -> Any:
    """exp(-|x|) I1."""
    return bessel_ie_derivative(x, m=1, n=0)


def bessel_k0(x: Any) -> Any:
    """K0."""
    return bessel_k_derivative(x, n=0)


def bessel_k1(x: Any) -> Any:
    """K1."""
    return 0 - bessel_k_derivative(x, n=1)  # avoids -0 at infinity


def bessel_k0e(x: Any) -> Any:
    """exp(x) K0."""
    return bessel_ke_derivative(x, m=0, n=0)


def bessel_k1e(x: Any) -> Any:
    """exp(x) K1."""
    return bessel_ke_derivative(x, m=1, n=0)
