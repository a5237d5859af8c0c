"""Kernels of gamma draws as functions of their shape parameter, and derivatives at fixed probability.

Let P(a, y) be the regularised lower incomplete gamma function and p its derivative in y, the density. A standard normal
draw z fixes the probability of the draw y(a, z): P(a, y) = Phi(z). Then y moves with a at the rate
G(a, y) = -(dP/da) / p. With P = y p H0, H0 the integral of t^(a-1) exp(y (1-t)) over [0, 1],

    G = y (H1 + c H0),  c = digamma(a) - log y,  Hn = integral over s > 0 of s^n exp(-a s + y (1 - exp(-s))).

Both terms are positive if c is. If c is negative, the upper function gives G = y (H1 - c H0) in the same way, with
exp(a s - y (exp(s) - 1)) in the integrals. So no terms cancel. (Figurnov, Mohamed, Mnih: Implicit Reparameterization
Gradients, 2018, for the rate; DLMF 8.2, 8.5 for the integrals.) Derivatives of G in a differentiate the integrand.
Derivatives in y follow from

    dG/dy = c - G ((a - 1) / y - 1),

which gives every derivative of y(a, z) as a power series. Results in double precision are computed in NumPy's long
double, which has 11 bits more on x86 processors; elsewhere in pairs of doubles, which take longer.

The larger a is, the more these terms cancel, and the better is the series of Cornish and Fisher in 1/sqrt(a),

    y = a (1 + v),  v = sum of c_k(z) a^(-k/2),

whose polynomials follow from d log(dy/dz) = -z - ((a - 1) / y - 1) dy/dz, that is (with v' for dv/dz)

    (1 + v) v'' = -z (1 + v) v' + (1 + a v) v'^2,  c_1 = z.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import comb, factorial
from typing import Any

import numpy as np

from gtape.kernels.broadcasting import broadcast_arrays
from gtape.kernels.incomplete import igamma, igammac
from gtape.kernels.pair_functions import exact, horner_pair, over, sum_pair
from gtape.kernels.pairs import Pair, multiply_pairs, sqrt_pair
from gtape.kernels.polynomials import plus, slope, times
from gtape.kernels.real_pairs import RealPair, constant, in_precision

_LONG = np.longdouble
EXTENDED = np.finfo(_LONG).nmant > np.finfo(np.float64).nmant  # False on Windows and on Apple's ARM
_ROOM = 1e-140, 1e140  # draws whose powers fit into pairs
_HALF_LOG_TWO_PI = Fraction("0.91893853320467274178032973640561763986139747363778")
_CUT = 48.0  # the integral ends where the integrand has fallen by the factor exp(-48)
_PANELS, _NODES = 5, 16
_CHUNK = 4096
_SHIFT = 24  # Stirling's series is accurate from this number on
_BERNOULLI = ((1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510), (43867, 798))


@cache
def _nodes() -> tuple[RealPair, RealPair]:
    """Nodes and weights of Gauss-Legendre rules in the root of [0, 1], denser near 0, where most of the integral is."""
    x = RealPair(np.polynomial.legendre.leggauss(_NODES)[0])
    for _ in range(3):
        before, now = RealPair(np.ones(_NODES)), x
        for k in range(2, _NODES + 1):
            before, now = now, ((2 * k - 1) * x * now - (k - 1) * before) / k
        slope = _NODES * (before - x * now) / (1 - x * x)
        x = x - now / slope
    w = 2 / ((1 - x * x) * slope * slope)
    starts = np.arange(_PANELS, dtype=np.float64)[:, None]
    root, weight = ((starts + (x + 1) / 2) / _PANELS).ravel(), (0 * starts + w / 2 / _PANELS).ravel()
    return root * root, 2 * root * weight


def _rule(like: Any) -> tuple[Any, Any]:
    x, w = _nodes()
    return in_precision(x, like), in_precision(w, like)


def _shifted(a: Any) -> tuple[Any, Any]:
    """Arguments shifted to be large enough for Stirling's series, and the number of steps."""
    steps = np.where(a < _SHIFT, _SHIFT, 0)
    return a + steps, steps


def _log_gamma(a: Any) -> Any:
    b, steps = _shifted(a)
    total = (b - 0.5) * np.log(b) - b + constant(_HALF_LOG_TWO_PI, a)
    for k, (p, q) in enumerate(_BERNOULLI, 1):
        total = total + constant(Fraction(p, q * 2 * k * (2 * k - 1)), a) / b ** (2 * k - 1)
    product = np.ones_like(a)
    for j in range(_SHIFT):
        product = product * np.where(steps > 0, a + j, 1)
    return total - np.log(product)


def _polygamma(n: int, a: Any) -> Any:
    """The n-th derivative of digamma, by DLMF 5.11.2 and 5.15.8 after a shift."""
    b, steps = _shifted(a)
    sign = (-1) ** (n + 1)
    total = np.log(b) - 0.5 / b if n == 0 else sign * (factorial(n - 1) / b**n + factorial(n) / (2 * b ** (n + 1)))
    for k, (p, q) in enumerate(_BERNOULLI, 1):
        term = constant(Fraction(p * factorial(2 * k + n - 1), q * factorial(2 * k)), a) / b ** (2 * k + n)
        total = total + sign * term
    for j in range(_SHIFT):
        total = total + sign * factorial(n) * np.where(steps > 0, 1 / (a + j) ** (n + 1), 0)
    return total


def _gap(a: Any, y: Any) -> Any:
    """The value digamma(a) - log y."""
    return _polygamma(0, a) - np.log(y)


def _second_order(s: Any, series_below: Any) -> Any:
    """The value exp(s) - 1 - s, by its series for |s| below `series_below`."""
    small = np.abs(s) < series_below
    if not small.any():
        return np.expm1(s) - s
    t = np.where(small, s, 0)
    series = np.zeros_like(t)
    many = np.abs(t) > 0.05  # for the others, the first terms are enough
    if many.any():
        for k in range(20, 11, -1):
            series = (series + 1) * t / k
        series = np.where(many, series, 0)
    for k in range(11, 1, -1):
        series = (series + 1) * t / k
    return np.where(small, series * t, np.expm1(s) - s)


def _sum_of_rows(values: Any) -> Any:
    """The sum of each column. NumPy adds a single column in another order, so it gets a second one."""
    if isinstance(values, RealPair) or values.shape[1] != 1:
        return values.sum(axis=0)
    return np.repeat(values, 2, axis=1).sum(axis=0)[:1]


def _integrals(a: Any, y: Any, sign: Any, top: int) -> list[Any]:
    """The integrals of s^n times the integrand, n = 0 ... top. `sign` is +1 for the upper function."""
    upper = (0.5 + np.sqrt(0.25 + 2 * _CUT * y)) / y
    for _ in range(3):  # solves y (exp(s) - 1) = _CUT + a s
        upper = np.minimum(upper, np.log1p((_CUT + a * upper) / y))
    # s + exp(-s) - 1 >= s²/4 for s <= 1.5
    near = 2 * _CUT / (a - y + np.sqrt((a - y) * (a - y) + _CUT * y))
    reach = np.where(sign > 0, upper, np.where(near < 1.5, near, (_CUT + y) / a))
    x, w = _rule(reach)
    s = reach * x[:, None]
    # The series avoids y * s roundings in the exponent, which matter for large y and where later terms cancel.
    below = 0.5 if top > 1 else np.where(np.greater(y, 200), np.float64(0.5), 0.0)
    values = np.exp(-(sign * (y - a) * s + y * _second_order(sign * s, below))) * (w[:, None] * reach)
    made = []
    for _ in range(top + 1):
        made.append(_sum_of_rows(values))
        values = values * s
    return made


def _slopes_from_one(a: Any, y: Any, top: int) -> list[Any]:
    """The derivatives of G by a, for a >= 1 or large enough y."""
    c = _gap(a, y)
    sign = np.where(c < 0, 1.0, -1.0)
    h = _integrals(a, y, sign, top + 1)
    made = []
    for n in range(top + 1):
        # The n-th derivative of exp(sign a s) (s - sign c(a)), by Leibniz's rule.
        total = sign**n * (h[n + 1] - sign * c * h[n])
        for k in range(1, n + 1):
            total = total - comb(n, k) * _polygamma(k, a) * sign ** (n - k + 1) * h[n - k]
        made.append(y * total)
    return made


def _slopes(a: Any, y: Any, top: int) -> list[Any]:
    """The derivatives of G by a of order 0 ... top."""
    b = a + 1
    gap = _gap(b, y)
    shifted = (a < 1) & (gap > 0)
    made = _slopes_from_one(np.where(shifted, b, a), y, top)
    if not shifted.any():
        return made
    # Small a use G(a) = y / a (G(a + 1) + digamma(a + 1) - log y).
    inner = [made[k] + (gap if k == 0 else _polygamma(k, b)) for k in range(top + 1)]
    found = []
    for n in range(top + 1):
        total = np.zeros_like(a)
        for k in range(n + 1):
            total = total + comb(n, k) * (-1) ** (n - k) * factorial(n - k) / a ** (n - k + 1) * inner[k]
        found.append(np.where(shifted, y * total, made[n]))
    return found


def _product(f: list[Any], g: list[Any], k: int) -> Any:
    """Coefficient k of the product of two power series."""
    return sum((f[i] * g[k - i] for i in range(k + 1)), start=np.zeros_like(f[0]))


def _derivative(a: Any, y: Any, order: int) -> Any:
    """The derivative of order `order` >= 1 of y(a) at fixed probability, from its power series."""
    slopes = _slopes(a, y, order - 1)
    ds = [[v] for v in slopes]  # series of G and its derivatives by a, along the curve
    ys, logs, inverse = [y], [np.log(y)], [1 / y]
    psi = [[_polygamma(n, a)] for n in range(order - 1)]
    for k in range(order):
        ys.append(ds[0][k] / (k + 1))
        if k + 1 == order:
            break
        moved = [(i + 1) * ys[i + 1] for i in range(k + 1)]  # dy/da
        weight = [(a - 1) * inverse[0] - 1]  # (a - 1) / y - 1
        for i in range(1, k + 1):
            weight.append((a - 1) * inverse[i] + inverse[i - 1])
        for n in range(order - 1 - k):
            along = []
            for i in range(k + 1):
                v = psi[n][i] - _product(ds[n], weight, i) - (logs[i] if n == 0 else 0)
                along.append(v - n * _product(ds[n - 1], inverse, i) if n else v)
            ds[n].append((ds[n + 1][k] + _product(along, moved, k)) / (k + 1))
        for n in range(order - 1):
            psi[n].append(_polygamma(n + k + 1, a) / factorial(k + 1))
        total = (k + 1) * ys[k + 1]
        for i in range(1, k + 1):
            total = total - i * logs[i] * ys[k + 1 - i]
        logs.append(total / y / (k + 1))
        inverse.append(-sum((ys[i] * inverse[k + 1 - i] for i in range(1, k + 2)), start=np.zeros_like(y)) / y)
    return ys[order] * factorial(order)


_Row = tuple[Any, ...]  # a polynomial with rational coefficients
_TERMS = 20, 24  # for the draw and its slope; for further derivatives, which have roots
_LARGE, _SPREAD = 50.0, 0.5


@cache
def _cornish_fisher(terms: int) -> list[_Row]:
    """c_0 = 1, c_1, ... of the series in 1/sqrt(a). The earlier ones give c_k'' - z c_k' - c_k for each k."""
    made: list[_Row] = [(1,), (0, 1)]
    slopes: list[_Row] = [(0,), (1,)]
    for k in range(2, terms + 1):
        known: _Row = (0,)
        squares = [_square(slopes, m, k) for m in range(k + 2)]
        for i in range(1, k):
            bent = plus(slope(slopes[k - i]), (0, *slopes[k - i]))  # v'' + z v'
            known = plus(known, plus(times(made[i], squares[k + 2 - i]), times(made[i], bent), -1))
        known = (*plus(known, squares[k]), *[0] * (k + 3))
        c = [Fraction(0)] * (k + 3)
        for e in range(k, -1, -1):
            c[e] = ((e + 2) * (e + 1) * c[e + 2] - known[e]) / (e + 1)
        made.append(tuple(c[: k + 1]))
        slopes.append(slope(made[-1]))
    return made


def _square(slopes: list[_Row], m: int, k: int) -> _Row:
    """Coefficient m of the square of a series, from only its first k coefficients."""
    total: _Row = (0,)
    for i in range(max(1, m - k + 1), min(k, m)):
        total = plus(total, times(slopes[i], slopes[m - i]))
    return total


@cache
def _far_coefficients(order: int) -> list[list[Pair]]:
    """For each power of 1/sqrt(a), the polynomial in z of the derivative of order `order` times a^(order - 1)."""
    made = []
    for k, c in enumerate(_cornish_fisher(_TERMS[order > 1])):
        factor = Fraction(1)
        for j in range(order):
            factor *= 1 - Fraction(k, 2) - j
        made.append([exact(factor * v) for v in c])
    return made


def _is_far(a: Any, z: Any) -> Any:
    """Whether the series is accurate to all digits."""
    return (a >= _LARGE) & (np.abs(z) <= _SPREAD * np.sqrt(a))


def _far_derivative(a: Any, z: Any, order: int) -> Any:
    """The derivative of order `order`. Order 0 is the draw itself."""
    rows = _far_coefficients(order)[::-1]
    if order > 1:  # because the terms cancel near roots
        pairs: Pair = (0.0, 0.0)
        step = over((1.0, 0.0), sqrt_pair((a, 0.0)))
        for c in rows:
            pairs = sum_pair(multiply_pairs(pairs, step), horner_pair(c, (z, 0.0)))
        total = pairs[0] + pairs[1]
    else:
        total, inverse_root = np.zeros_like(a), 1 / np.sqrt(a)
        for c in rows:
            value = np.full_like(a, c[-1][0])
            for high, _ in c[-2::-1]:
                value = value * z + high
            total = total * inverse_root + value
    for _ in range(order - 1):
        total = total / a
    return total if order else total * a


def _log_tail(z: Any) -> Any:
    """log Phi(-z) for z >= 0."""
    x, w = _rule(z)
    reach = 2 * _CUT / (z + np.sqrt(z * z + 2 * _CUT))
    t = reach * x[:, None]
    mass = _sum_of_rows(np.exp(-(z + t / 2) * t) * w[:, None] * reach)
    return np.log(mass) - z * z / 2 - constant(_HALF_LOG_TWO_PI, z)


def _solved(a: Any, z: Any) -> Any:
    """y(a, z) in long doubles or pairs: one Newton step in log y for the logarithm of a probability.

    The step uses the smaller of the two probabilities, but for small a and y the lower one, because its integral is
    easier.
    """
    y = _quick(*[v.high if isinstance(v, RealPair) else v.astype(np.float64) for v in (a, z)])
    y = in_precision(RealPair(np.maximum(y, 1e-300)), a)
    small = a < 1
    low = np.where(small, _gap(a + 1, y) > 0, z < 0)
    tail = _log_tail(np.abs(z))
    wanted = np.where(low == (z < 0), tail, np.log1p(-np.exp(tail)))
    shifted = low & small
    mass = _integrals(np.where(shifted, a + 1, a), y, np.where(low, -1.0, 1.0), 0)[0]
    # H0(a) = (1 + y H0(a + 1)) / a is used where the integrand falls slowly.
    mass = np.where(shifted, (1 + y * mass) / a, mass)
    off = a * np.log(y) - y - _log_gamma(a) + np.log(mass) - wanted
    return y * np.exp(np.where(low, -off, off) * mass)


def _quick(a: Any, z: Any, narrow: bool = True) -> Any:
    """y(a, z) in double precision. `narrow` tells that the result needs fewer digits than a double has.

    SciPy's Q(a, x) loses digits near a = 0.5, and the step cannot see an error that the probability itself has.
    """
    from gtape.kernels import scipy_special as special

    ways = (
        (z < 0, special.gammaincinv, special.gammainc if narrow else igamma, 1.0),
        (z >= 0, special.gammainccinv, special.gammaincc if narrow else igammac, -1.0),
    )
    drawn = np.full_like(a, np.nan)
    for here, inverse, probability, sign in ways:
        if np.any(here):
            p, tail = a[here], special.ndtr(-np.abs(z[here]))
            y = inverse(p, tail)
            density = np.exp(p * np.log(y) - y - special.gammaln(p))
            step = sign * (probability(p, y) - tail) / density
            drawn[here] = np.where(np.isfinite(step), y * np.exp(-np.clip(step, -1, 1)), y)
    return drawn


def _near_derivative(a: Any, z: Any, order: int, narrow: bool) -> Any:
    """The derivative of order `order` in double precision. `narrow` tells that the result needs fewer digits."""
    if narrow or EXTENDED:
        b, noise = (v.astype(np.float64 if narrow else _LONG) for v in (a, z))
        drawn = _solved(b, noise)
        # Where the draw is 0, its derivatives are 0, too.
        return np.where(drawn == 0, 0, _derivative(b, drawn, order)).astype(np.float64)
    pairs = RealPair(a), RealPair(z)
    y = _solved(*pairs)
    value = _derivative(pairs[0], y, order).rounded()
    fits = (y.high > _ROOM[0]) & (y.high < _ROOM[1])
    return value if np.all(fits) else np.where(fits, value, _near_derivative(a, z, order, True))


def _mapped(a: Any, z: Any, f: Any) -> Any:
    """Apply a function of flat float64 arrays where a is positive and both are finite. NaN elsewhere."""
    a, z = broadcast_arrays(a, z)
    dtype = np.result_type(a, z)
    flat_a, flat_z = a.astype(np.float64).ravel(), z.astype(np.float64).ravel()
    out = np.full(flat_a.size, np.nan)
    with np.errstate(all="ignore"):
        inside = np.flatnonzero((flat_a > 0) & np.isfinite(flat_a) & np.isfinite(flat_z))
        for i in range(0, inside.size, _CHUNK):
            part = inside[i : i + _CHUNK]
            out[part] = f(flat_a[part], flat_z[part])
        return out.reshape(a.shape).astype(dtype)[()]


def gamma_draw(a: Any, z: Any) -> Any:
    """The draw y(a, z), to a few dozen ULP if it is no small draw of a small shape.

    Parameters
    ----------
    a, z : arrays that broadcast to each other, a positive

    Returns
    -------
    array of their dtype
    """
    return _drawn(a, z, np.result_type(a, z).itemsize < 8)


def gamma_draw_nearly(a: Any, z: Any) -> Any:
    """The draw y(a, z) to some 13 digits, in less time; where a method starts that finds all digits.

    Parameters
    ----------
    a, z : arrays that broadcast to each other, a positive

    Returns
    -------
    array of their dtype
    """
    return _drawn(a, z, True)


def _drawn(a: Any, z: Any, narrow: bool) -> Any:
    def f(a: Any, z: Any) -> Any:
        far = _is_far(a, z)
        out = np.empty_like(a)
        if np.any(far):
            out[far] = _far_derivative(a[far], z[far], 0)
        if not np.all(far):
            out[~far] = _quick(a[~far], z[~far], narrow)
        return out

    return _mapped(a, z, f)


def gamma_draw_slope(a: Any, z: Any, *, order: int = 1) -> Any:
    """The derivative of order `order` >= 1 of the exact draw y(a, z) in a.

    Parameters
    ----------
    a, z : arrays that broadcast to each other, a positive

    Returns
    -------
    array of their dtype
    """

    narrow = np.result_type(a, z).itemsize < 8

    def f(a: Any, z: Any) -> Any:
        far = _is_far(a, z)
        out = np.empty_like(a)
        if np.any(far):
            out[far] = _far_derivative(a[far], z[far], order)
        if not np.all(far):
            out[~far] = _near_derivative(a[~far], z[~far], order, narrow)
        return out

    return _mapped(a, z, f)
