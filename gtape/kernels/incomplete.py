"""Kernels of the incomplete gamma functions, of their density, and of P(a, x) differentiated by a.

The density is exp of a sum, and the sum is a pair, because its terms cancel. At one point x the derivative of the
density by a changes its sign. On either side of this point the derivative of P(a, x) by a is a sum of terms of one
sign. For smaller x the sum is the power series (DLMF 8.7.1), for larger x the integral from x on, by the trapezoidal
rule after a double exponential substitution. For large orders an integral like this is accurate on both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from math import comb, exp, factorial
from typing import Any

import numpy as np

from gtape.kernels.broadcasting import broadcast_arrays
from gtape.kernels.gamma import digamma_derivative, lgamma_pair, slope_of_positive
from gtape.kernels.log_pairs import log_exact
from gtape.kernels.pair_functions import difference, exp_parts, over, sum_pair
from gtape.kernels.pairs import Pair, Quick, multiply_pairs, two_sum, wide

_FAR = 200.0  # from this order on the mass of the density lies close to log(x), and one quadrature fits both sides


def flat_arrays(*arrays: Any) -> tuple[list[Any], tuple[int, ...], Any]:
    """Flat float64 arrays of one size, their common shape and dtype."""
    dtype = np.result_type(*arrays)
    together = broadcast_arrays(*[np.asarray(v, np.float64) for v in arrays])
    return [v.ravel() for v in together], together[0].shape, dtype


def exp_of_pair(exponent: Pair) -> tuple[Pair, Any]:
    """exp of a pair as a pair and a power of 2."""
    inside = np.abs(exponent[0]) < 3000.0
    high = np.where(inside, exponent[0], np.where(exponent[0] > 0, 3000.0, -3000.0))
    part, k = exp_parts((high, np.where(inside, exponent[1], 0.0)))
    return sum_pair((1.0, 0.0), part), k


# gamma ----------------------------------------------------------------------------------------------------------------


def _gamma_exponent(a: Any, x: Any, n: int = 0) -> Pair:
    """(a - n) log(x) - x - log(gamma(a + 1)). For n = 0 the logarithm of x times the density over a."""
    power = multiply_pairs(two_sum(a, -float(n)), log_exact(x))
    return difference(difference(power, (x, 0.0 * x)), lgamma_pair(two_sum(a, 1.0)))


def _falling(a: Any, x: Any, n: int) -> Pair:
    """The sum of C(n, k) (a-1) ... (a-k) (-x)^(n-k) as a pair: x^n f^(n) / f, with the density f."""
    total: Pair = (0.0 * x, 0.0 * x)
    for k in range(n + 1):
        term: Pair = (np.full_like(x, float(comb(n, k))), 0.0 * x)
        for j in range(1, n + 1):
            term = multiply_pairs(term, two_sum(a, -float(j)) if j <= k else (-x, 0.0 * x))
        total = sum_pair(total, term)
    return total


def _falling_in_order(a: Any, x: Any, n: int, i: int) -> Any:
    """`_falling` differentiated i times by a, in floats."""
    total = np.zeros_like(x)
    for k in range(n + 1):
        # Coefficients of powers of the increment of a.
        term = [np.full_like(x, float(comb(n, k)))] + [np.zeros_like(x)] * i
        for j in range(1, n + 1):
            if j <= k:
                term = [(a - j) * term[q] + (term[q - 1] if q else 0.0) for q in range(i + 1)]
            else:
                term = [-x * v for v in term]
        total = total + term[i]
    return total * factorial(i)


def _bell(first: Any, others: list[Any], m: int) -> list[Any]:
    """H_0 ... H_m with (density)^(j) = H_j density, from the logarithm's derivatives (complete Bell polynomials)."""
    cumulants = [first, *others]
    h: list[Any] = [np.ones_like(first)]
    for i in range(m):
        h.append(sum(comb(i, j) * h[i - j] * cumulants[j] for j in range(i + 1)))
    return h


def _logarithmic(gap: Any, others: list[Any], m: int, a: Any) -> list[Any]:
    """a H_0 ... a H_m of the density. `gap` and `others` belong to 1/gamma(a+1), which has no pole at a = 0."""
    h = _bell(gap, others, m)
    return [a * h[j] + (j * h[j - 1] if j else 0.0) for j in range(m + 1)]


def _gap(a: Any, x: Any) -> Any:
    """log(x) - digamma(a + 1), which may nearly cancel."""
    middle = (a > 1e-30) & (a < 1e20)
    one_more = two_sum(np.where(middle, a, 1.0), 1.0)
    rest = difference(log_exact(x), slope_of_positive(one_more, 0))
    return np.where(middle, rest[0] + rest[1], np.log(x) - digamma_derivative(a + 1.0, n=0))


def _others(a: Any, m: int) -> list[Any]:
    return [-digamma_derivative(a, n=j) for j in range(1, m)]


def _ordinary(a: Any, x: Any) -> Any:
    """Where the exponents of `_float_exponent` are small enough for narrower dtypes."""
    return (a >= 1e-3) & (a < _FAR) & (x > 1e-6) & (x < 1e3)


def _float_exponent(a: Any, x: Any) -> Any:
    """`_gamma_exponent` in floats."""
    from gtape.kernels.scipy_special import gammaln

    return a * np.log(x) - x - gammaln(a + 1.0)


_LEAST = 1e-250  # smaller results are left to pairs


def _density_plain(a: Any, x: Any, *, m: int, n: int) -> Quick | None:
    if m or n:
        return None
    with np.errstate(all="ignore"):
        value = np.exp(_float_exponent(a, x)) * (a / x)
    return value, _ordinary(a, x) & (value > _LEAST)


@partial(wide, plain=_density_plain)
def gamma_density_derivative(a: Any, x: Any, *, m: int, n: int) -> Any:
    """x^(a-1) exp(-x) / gamma(a), differentiated m times by a and n times by x."""
    (a, x), shape, dtype = flat_arrays(a, x)
    with np.errstate(all="ignore"):
        inside = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
        # The density is 0 there, and powers of x would overflow.
        x = np.where(inside & (x > 1e30) & (a < 1e25), np.inf, x)
        inside &= np.isfinite(x)
        p, q = np.where(inside, a, 1.0), np.where(inside, x, 1.0)
        shift = np.where((p < 1e-250) & (m == 0), 2.0**300, 1.0)  # subnormal orders have fewer digits
        if m == 0:
            factor = multiply_pairs(_falling(p, q, n), (p * shift, 0.0 * p))
        else:
            gap = _gap(p, q)
            h = _logarithmic(gap, _others(p + 1.0, m), m, p)
            value = sum(comb(m, i) * h[m - i] * _falling_in_order(p, q, n, i) for i in range(m + 1))
            factor = value, 0.0 * q
        mantissa, k = exp_of_pair(_gamma_exponent(p, q, n + 1))
        product = multiply_pairs(mantissa, factor)
        out = np.where(factor[0] == 0, 0.0, np.ldexp(product[0] + product[1], k - np.where(shift > 1.0, 300, 0)))
        out = np.where(inside, out, np.nan)
        out = np.where((x == 0) & (a > 0) & np.isfinite(a), _limits(a, m, n), out)
        out = np.where((x == np.inf) & (a > 0), 0.0, out)
    return out.astype(dtype).reshape(shape)[()]


def _limits(a: Any, m: int, n: int) -> Any:
    """The limits of the density's derivatives for x -> 0; NaN where one has none.

    All powers of x vanish for a > n + 1. For an integer a up to n + 1 and m = 0 a constant is left.
    """
    out = np.where(a > n + 1, 0.0, np.nan)
    for whole in range(1, n + 2 if m == 0 else 1):
        out = np.where(a == whole, float((-1) ** (n + 1 - whole) * comb(n, whole - 1)), out)
    return np.where(a < 1, np.inf, out) if m == n == 0 else out


@lru_cache(maxsize=1)
def decay_nodes() -> list[tuple[float, float]]:
    """Nodes and weights for integrals over u > 0 of functions that fall at least like exp(-u): u = exp(y - exp(-y))."""
    step = 1.0 / 18.0
    ys = [step * i for i in range(-68, 79)]
    return [(u := exp(y - exp(-y)), step * u * (1.0 + exp(-y))) for y in ys]


def _over_the_tail(fall: Callable[[Any], Any], high: Any, place: Callable[[Any], Any], m: int, a: Any) -> Any:
    """The integral over s > 0 of exp(-fall(s)) a H_m at place(s). `fall` grows beyond 46 before `high`."""
    low = np.zeros_like(high)
    for _ in range(50):
        middle = 0.5 * (low + high)
        beyond = fall(middle) > 46.0
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    others = _others(a + 1.0, m)
    scale = high / 46.0
    if high.size <= _FEW:  # all nodes at once, because calls of NumPy take longer than numbers
        nodes, weights = (np.array(v)[:, None] for v in zip(*decay_nodes(), strict=True))
        s = nodes * scale
        terms = weights * np.exp(-fall(s)) * _logarithmic(place(s), others, m, a)[m]
        return np.add.accumulate(terms)[-1] * scale  # in the order of the loop
    total = np.zeros_like(high)
    for node, weight in decay_nodes():
        s = node * scale
        total = total + weight * np.exp(-fall(s)) * _logarithmic(place(s), others, m, a)[m]
    return total * scale


_FEW = 64


def _from_above(a: Any, x: Any, m: int, gap: Any) -> Any:
    """Minus the integral over u > 0 of exp(a u - x expm1(u)) a H_m at gap + u, for x not far below a."""
    return -_over_the_tail(lambda u: x * np.expm1(u) - a * u, np.full_like(x, 60.0), lambda u: gap + u, m, a)


@lru_cache(maxsize=1)
def bend_series() -> list[float]:
    """Coefficients of expm1(v) - v over v²."""
    return [1.0 / factorial(k) for k in range(2, 20)]


def _from_afar(a: Any, x: Any, m: int, gap: Any) -> Any:
    """`_from_below` for gap < 0 and `_from_above` otherwise, for large a: the mass lies within 1 of log(x).

    The formula of the exponent has no large terms, because they would cancel for x near a.
    """
    side = np.where(gap < 0, -1.0, 1.0)
    slope = side * (x - a)

    def fall(s: Any) -> Any:
        v = side * s
        bend: Any = 0.0
        for c in bend_series()[::-1]:
            bend = bend * v + c
        return slope * s + x * (v * v * bend)

    return -side * _over_the_tail(fall, np.ones_like(x), lambda s: gap + side * s, m, a)


def _from_below(a: Any, x: Any, m: int, gap: Any) -> Any:
    """The sum over k of x^k / ((a+1) ... (a+k)) H_m: the power series without its first factor."""
    cumulants = [gap, *_others(a + 1.0, m)]
    term = np.ones_like(x)
    total = _bell(gap, cumulants[1:], m)[m]
    for k in range(1, 100_000):
        z = a + k
        term = term * x / z
        cumulants = [s - (-1.0) ** j * factorial(j) / z ** (j + 1) for j, s in enumerate(cumulants)]
        new = term * _bell(cumulants[0], cumulants[1:], m)[m]
        total = total + new
        if k % 16 == 0 and np.all((term <= 1e-19) | (np.abs(new) * (1 + z / 16) <= 1e-18 * np.abs(total))):
            break
    return total


def _from_below_exactly(a: Any, x: Any, m: int) -> Any:
    """`_from_below` summed as pairs, because from m = 2 on terms cancel near a root with x near a."""
    one_more = two_sum(a, 1.0)
    gap = difference(log_exact(x), slope_of_positive(one_more, 0))
    cumulants = [gap, *[_negative(slope_of_positive(one_more, j)) for j in range(1, m)]]
    term: Pair = (np.ones_like(x), 0.0 * x)
    total: Pair = (0.0 * x, 0.0 * x)
    for k in range(1, 100_000):
        h: list[Pair] = [(np.ones_like(x), 0.0 * x)]
        for i in range(m):
            new: Pair = (0.0 * x, 0.0 * x)
            for j in range(i + 1):
                c = float(comb(i, j))
                part = multiply_pairs(h[i - j], cumulants[j])
                new = sum_pair(new, (c * part[0], c * part[1]))
            h.append(new)
        added = multiply_pairs(term, h[m])
        total = sum_pair(total, added)
        if k % 16 == 0 and np.all((np.abs(added[0]) <= 1e-24 * np.abs(total[0])) & (term[0] < 1e-20)):
            break
        z = two_sum(a, float(k))
        inverse = over((1.0, 0.0), z)
        term = multiply_pairs(term, multiply_pairs((x, 0.0 * x), inverse))
        power = inverse
        for j in range(m):
            c = -((-1.0) ** j) * factorial(j)
            cumulants[j] = sum_pair(cumulants[j], (c * power[0], c * power[1]))
            power = multiply_pairs(power, inverse)
    return total[0] + total[1]


def _negative(a: Pair) -> Pair:
    return -a[0], -a[1]


def _order_plain(a: Any, x: Any, *, m: int) -> Quick | None:
    if m > 1:
        return None
    (a, x), shape, _ = flat_arrays(a, x)
    value = np.full(x.shape, np.nan)
    with np.errstate(all="ignore"):
        gap = np.log(x) - digamma_derivative(a + 1.0, n=0)
        inside = _ordinary(a, x)
        for here, way in ((inside & (gap < 0), _from_below), (inside & (gap >= 0), _from_above)):
            if np.any(here):
                value[here] = way(a[here], x[here], m, gap[here])
        value *= np.exp(_float_exponent(a, x))
    return value.reshape(shape), (inside & (np.abs(value) > _LEAST)).reshape(shape)


@partial(wide, plain=_order_plain)
def igamma_order_derivative(a: Any, x: Any, *, m: int) -> Any:
    """P(a, x) differentiated m times by a, m > 0."""
    (a, x), shape, dtype = flat_arrays(a, x)
    with np.errstate(all="ignore"):
        x = np.where((a < 1e25) & (x > 1e30), np.inf, x)
        a = np.where((a > 1e30) & (x < a / 2), np.inf, a)  # P and its derivatives are 0, and a log(x) would overflow
        inside = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
        end = (
            ((a > 0) & (x == 0))
            | ((a > 0) & np.isfinite(a) & (x == np.inf))
            | ((a == np.inf) & (x >= 0) & (x < np.inf))
        )
        out = np.where(end, 0.0, np.full(x.shape, np.nan))
        if np.any(inside):
            p, q = a[inside], x[inside]
            mantissa, k = exp_of_pair(_gamma_exponent(p, q))
            gap = _gap(p, q)
            far = p >= _FAR
            below, above = ~far & (gap < 0), ~far & (gap >= 0)
            roots = below & (m > 1) & (p > 0.5) & (q > 0.25 * p)  # where roots may lie
            value = np.empty_like(p)
            for here, way in ((far, _from_afar), (below & ~roots, _from_below), (above, _from_above)):
                if np.any(here):
                    value[here] = way(p[here], q[here], m, gap[here])
            if np.any(roots):
                value[roots] = _from_below_exactly(p[roots], q[roots], m)
            out[inside] = np.ldexp(value * mantissa[0], k)
    return out.astype(dtype).reshape(shape)[()]


def _smaller(a: Any, x: Any, below: Any, above: Any, ways: Any) -> Any:
    """P where `below` and Q where `above`, if they are small; NaN elsewhere. `ways` are methods by the size of a."""
    out = np.full(x.shape, np.nan)
    for side, here in ((-1.0, below), (1.0, above)):
        for far, way in zip((False, True), ways[side], strict=True):
            mask = here & ((a >= _FAR) == far) & (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
            if np.any(mask):
                p, q = a[mask], x[mask]
                mantissa, k = exp_of_pair(_gamma_exponent(p, q))
                out[mask] = np.ldexp(-side * way(p, q, 0, np.full_like(p, side)) * mantissa[0], k)
    return out


def _rest_by_series(a: Any, x: Any) -> Any:
    """1 - P(a, x), with P from its power series as a pair (DLMF 8.7.1), because SciPy's terms cancel here."""
    mantissa, k = exp_of_pair(_gamma_exponent(a, x))
    term: Pair = (np.ones_like(x), 0.0 * x)
    total = term
    for j in range(1, 200):
        term = multiply_pairs(term, over((x, 0.0 * x), two_sum(a, float(j))))
        total = sum_pair(total, term)
        if np.all(term[0] <= 1e-25 * total[0]):
            break
    lower = multiply_pairs(mantissa, total)
    rest = difference((1.0, 0.0), (np.ldexp(lower[0], k), np.ldexp(lower[1], k)))
    return rest[0] + rest[1]


def _regularised(a: Any, x: Any, scipy_s: Any, lower: bool) -> Any:
    """P or Q, by SciPy where SciPy has all digits."""
    from gtape.kernels.scipy_special import exp1

    (a, x), shape, dtype = flat_arrays(a, x)
    with np.errstate(all="ignore"):
        out = np.where((a > 0) & (x >= 0), scipy_s(a, x), np.nan)
        # SciPy loses digits of small values and, for large a, of values near 1.
        width = np.where(a >= _FAR, np.sqrt(a), 0.1 * a - 1.0)
        below = (x < a - width) & (lower | (a >= _FAR))
        above = (x > a + np.where(a >= _FAR, width, 0.1 * a + 1.0)) & (~np.bool_(lower) | (a >= _FAR))
        ways = {-1.0: (_from_below, _from_afar), 1.0: (_from_above, _from_afar)}
        small = _smaller(a, x, below, above, ways)
        out = np.where(np.isnan(small), out, np.where(below == lower, small, 1.0 - small))
        # For smaller a the pair would lose the digits of the rest, and SciPy has them.
        middle = (a > 1e-13) & (a < 4.0) & (x > 0) & (x <= 1.1 * a + 1.0)
        if not lower and np.any(middle):
            out[middle] = _rest_by_series(a[middle], x[middle])
        tiny = (a > 0) & (a < 1e-20) & (x > 0) & (x < np.inf)
        if np.any(tiny):  # Q is a E1(x) (DLMF 8.19.1); SciPy loses many digits, and all for subnormal a
            rest = a[tiny] * exp1(x[tiny])
            out[tiny] = 1.0 - rest if lower else rest
    return out.astype(dtype).reshape(shape)[()]


def _lower_plain(a: Any, x: Any) -> Quick:
    from gtape.kernels.scipy_special import gammainc

    value = gammainc(a, x)
    return value, _ordinary(a, x) & (value > _LEAST)


def _upper_plain(a: Any, x: Any) -> Quick:
    """Where Q is 1 - P, it needs to be large enough."""
    from gtape.kernels.scipy_special import gammaincc

    value = gammaincc(a, x)
    return value, _ordinary(a, x) & (value > np.where(x > 1.1 * a + 1.0, _LEAST, 1e-4))


@partial(wide, plain=_lower_plain)
def igamma(a: Any, x: Any) -> Any:
    """P(a, x), the regularised incomplete gamma function."""
    from gtape.kernels.scipy_special import gammainc

    return _regularised(a, x, gammainc, True)


@partial(wide, plain=_upper_plain)
def igammac(a: Any, x: Any) -> Any:
    """Q(a, x) = 1 - P(a, x)."""
    from gtape.kernels.scipy_special import gammaincc

    return _regularised(a, x, gammaincc, False)
