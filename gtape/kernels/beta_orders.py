"""Kernels of the incomplete beta function and its density, differentiated in their parameters a and b.

The derivative in a is the integral of the density times its score, log(t) minus the mean of log(t), which changes sign
once. Below and above this place the integral is taken over the smaller t and over the larger t: terms of one sign. One
step of a recurrence (DLMF 8.17.20, 8.17.21) first raises a or b by 1, so that the integrand falls at least as exp(-s);
the term that splits off has the same sign, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import comb, factorial
from typing import Any

import numpy as np

from gtape.kernels.beta import beta_exponent, beta_fall, density_in_x
from gtape.kernels.gamma import slope_of_positive
from gtape.kernels.incomplete import decay_nodes, exp_of_pair, flat_arrays
from gtape.kernels.log_pairs import log_exact
from gtape.kernels.pair_functions import difference, over, sum_pair
from gtape.kernels.pairs import Pair, multiply_pairs, nearest, two_sum

_TINY = 1e-30
_FAINT = 2.0**-60
_CHUNK = 1024
_LEVELS = ((3, 10.0), (9, 40.0), (30, 145.0), (150, np.inf))
_Slopes = dict[tuple[int, int], Any]


def _log(x: Pair) -> Pair:
    return sum_pair(log_exact(x[0]), (x[1] / x[0], 0.0 * x[0]))


def _psi(x: Pair, n: int) -> Pair:
    """The n-th derivative of digamma for x > 0, of at most `_CHUNK` numbers."""
    high, low = _known_psi(x[0].tobytes(), (x[1] + 0.0 * x[0]).tobytes(), n)
    return high.reshape(x[0].shape), low.reshape(x[0].shape)


@lru_cache(maxsize=64)
def _known_psi(high: bytes, low: bytes, n: int) -> Pair:
    """`_psi` kept for the bits of its argument, because the terms of a derivative share most of these functions."""
    x = np.frombuffer(high), np.frombuffer(low)
    tiny = x[0] < _TINY
    plain = slope_of_positive((np.where(tiny, 1.0, x[0]), np.where(tiny, 0.0, x[1])), n)
    first = float((-1) ** (n + 1) * factorial(n)) / x[0] ** (n + 1)
    return np.where(tiny, first, plain[0]), np.where(tiny, 0.0, plain[1])


def _slopes(a: Pair, b: Pair, both: Pair, x: Pair, y: Pair, m: int, n: int) -> _Slopes:
    """The derivatives of log(x^a y^b gamma(both) / (gamma(a) gamma(b))) in a and b, where `both` grows with both."""
    found: _Slopes = {}
    for i in range(m + 1):
        for j in range(n + 1):
            if i + j == 0:
                continue
            value = _psi(both, i + j - 1)
            if j == 0:
                value = difference(value, _psi(a, i - 1))
            if i == 0:
                value = difference(value, _psi(b, j - 1))
            if i + j == 1:
                value = sum_pair(value, _log(x if i else y))
            found[i, j] = nearest(value)
    return found


def _bell(c: _Slopes, m: int, n: int) -> _Slopes:
    """The derivatives of exp(f) over exp(f) up to (m, n), from those of f (complete Bell polynomials)."""
    h: _Slopes = {(0, 0): 1.0}
    for i in range(m + 1):
        for j in range(n + 1):
            if i:
                h[i, j] = sum(
                    comb(i - 1, p) * comb(j, q) * c[p + 1, q] * h[i - 1 - p, j - q]
                    for p in range(i)
                    for q in range(j + 1)
                )
            elif j:
                h[0, j] = sum(comb(j - 1, q) * c[0, q + 1] * h[0, j - 1 - q] for q in range(j))
    return h


def _steepness(a: Pair, b: Pair, x: Pair, y: Pair) -> Any:
    """a y - b x."""
    return nearest(difference(multiply_pairs(a, y), multiply_pairs(b, x)))


def _growth(a: Pair, b: Pair, both: Pair, x: Pair, y: Pair, m: int, n: int, near: Any = 0.0, far: Any = 0.0) -> Any:
    """x^a y^b gamma(both) / (gamma(a) gamma(b)), differentiated m times in a and n times in b, over itself.

    `near` and `far` are added to log(x) and log(y). From the second derivative on, 1/gamma(a) = a/gamma(a + 1) for a
    small parameter, because the derivatives of log(a), whose terms cancel, are those of a then.
    """

    def value(a: Pair, b: Pair) -> _Slopes:
        c = _slopes(a, b, both, x, y, m, n)
        for key, moved in (((1, 0), near), ((0, 1), far)):
            if key in c:
                c[key] = c[key] + moved
        return _bell(c, m, n)

    found = value(a, b)[m, n]
    if m > 1:
        raised = value(sum_pair(a, (1.0, 0.0)), b)
        found = np.where((a[0] < 1.0) & (a[0] < b[0]), raised[m, n] + m / a[0] * raised[m - 1, n], found)
    if n > 1:
        raised = value(a, sum_pair(b, (1.0, 0.0)))
        found = np.where((b[0] < 1.0) & (b[0] < a[0]), raised[m, n] + n / b[0] * raised[m, n - 1], found)
    return found


def _logarithms(s: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """log(t/x) and log((1-t)/y), where log(t/(1-t)) is less by s than that of x; y is 1 - x."""
    both = y + x * np.exp(-s)
    far = -np.where(both > 0.5, np.log1p(x * np.expm1(-s)), np.log(both))
    near = -np.where(s < 700.0, np.log1p(y * np.expm1(np.minimum(s, 700.0))), s - far)
    return near, far


def _tail(a: Pair, b: Pair, x: Pair, y: Pair, m: int, n: int) -> Any:
    """The derivative of I_x(a, b) over x^a y^b / B(a, b), from the integral from 0 to x <= a/(a+b)."""
    out = np.empty_like(x[0])
    flat = np.log(x[0] / y[0])  # the integrand hardly falls over this length, and then as exp(-exp(s))
    before = -np.inf
    for finer, most in _LEVELS:
        places = np.flatnonzero((flat > before) & (flat <= most))
        before, step = most, 1 + 3 * _CHUNK // finer
        for start in range(0, places.size, step):
            here = places[start : start + step]
            parts = [(v[0][here], v[1][here]) for v in (a, b, x, y)]
            out[here] = _quadrature(parts, m, n, finer)
    return out


def _quadrature(parts: list[Pair], m: int, n: int, finer: int) -> Any:
    """The integral of `_tail` by the trapezoidal rule."""
    a, b, x, y = parts
    fall, end = beta_fall(a[0], b[0], x[0], y[0], nearest(difference(multiply_pairs(a, y), multiply_pairs(b, x))))
    scale = end / 46.0
    nodes, weights = _nodes(finer)
    s = nodes * scale
    weights = weights * np.exp(-fall(s))
    return scale * np.sum(weights * _growth(a, b, sum_pair(a, b), x, y, m, n, *_logarithms(s, x[0], y[0])), axis=0)


@lru_cache(maxsize=4)
def _nodes(finer: int) -> tuple[Any, Any]:
    nodes, weights = np.array(decay_nodes(finer)).T
    return nodes[:, None], weights[:, None]


def _lower(a: Pair, b: Pair, x: Pair, y: Pair, m: int, n: int) -> Any:
    """The derivative of I_x(a, b) over x^a y^b / (a B(a, b)), from the integral from 0 to x."""
    both, up = sum_pair(a, b), sum_pair(a, (1.0, 0.0))
    return _growth(up, b, both, x, y, m, n) + x[0] * both[0] * _tail(up, b, x, y, m, n)


def _over(value: Any, below: Any, mantissa: Any, k: Any) -> Any:
    """value * mantissa * 2**k / below, without overflow for subnormal numbers below."""
    part, e = np.frexp(below)
    return np.ldexp(value * mantissa / part, k - e)


def _derivative(a: Any, b: Any, x: Pair, y: Pair, m: int, n: int) -> Any:
    """I_x(a, b) differentiated m >= n times in a and n times in b; y is 1 - x."""
    # for tiny b the value is b times a function that hardly depends on b
    faint = (b < _FAINT) & (a > 2.0**-16)
    scale = np.where(faint & (n == 0), b / _FAINT, 1.0)
    b = np.where(faint, _FAINT, b)
    p, q = (a, 0.0 * a), (b, 0.0 * b)
    up = two_sum(a, 1.0)
    gap = sum_pair(_log(x), difference(_psi(sum_pair(up, q), 0), _psi(up, 0)))
    mantissa, k = exp_of_pair(beta_exponent(a, b, x, y))
    out = np.empty_like(a)
    for low in (True, False):
        here = (gap[0] <= 0) == low
        if not np.any(here):
            continue
        left, right, t, rest = [(v[0][here], v[1][here]) for v in (p, q, x, y)]
        if low:
            value, below = _lower(left, right, t, rest, m, n), left[0]
        else:
            value, below = -_lower(right, left, rest, t, n, m), right[0]
        out[here] = _over(value, below, mantissa[0][here], k[here])
    return out * scale


def _in_chunks(f: Callable[[Any, Any, Any], Any], a: Any, b: Any, x: Any, rim: float = 0.0) -> Any:
    """The function of a, b and x inside their domain; `rim` where x is 0 or 1, else NaN."""
    (a, b, x), shape, dtype = flat_arrays(a, b, x)
    with np.errstate(all="ignore"):
        valid = (a > 0) & (b > 0) & np.isfinite(a) & np.isfinite(b)
        out = np.where(valid & ((x == 0) | (x == 1)), rim, np.full(x.shape, np.nan))
        inside = np.flatnonzero(valid & (x > 0) & (x < 1))
        for start in range(0, inside.size, _CHUNK):
            here = inside[start : start + _CHUNK]
            out[here] = f(a[here], b[here], x[here])
    return out.astype(dtype).reshape(shape)[()]


def betainc_order_derivative(a: Any, b: Any, x: Any, *, m: int, n: int) -> Any:
    """I_x(a, b) differentiated m times in a and n times in b, m + n > 0."""

    def f(a: Any, b: Any, x: Any) -> Any:
        left, right = (x, 0.0 * x), two_sum(1.0, -x)
        if m >= n:
            return _derivative(a, b, left, right, m, n)
        return -_derivative(b, a, right, left, n, m)  # I_x(a, b) = 1 - I_y(b, a)

    return _in_chunks(f, a, b, x)


def _falling(a: Any, k: int, top: int) -> list[Any]:
    """(a-1) ... (a-k) and its derivatives up to `top`."""
    term: list[Any] = [np.ones_like(a)] + [np.zeros_like(a)] * top
    for j in range(1, k + 1):
        term = [(a - j) * term[i] + (term[i - 1] if i else 0.0) for i in range(top + 1)]
    return [t * factorial(i) for i, t in enumerate(term)]


def _density(a: Any, b: Any, x: Any, i: int, j: int, n: int) -> Any:
    p, q, t, rest = (a, 0.0 * a), (b, 0.0 * b), (x, 0.0 * x), two_sum(1.0, -x)
    both = two_sum(a, b)
    h = {(r, s): _growth(p, q, both, t, rest, r, s) for r in range(i + 1) for s in range(j + 1)}
    ratio = nearest(over(t, rest))
    total = np.zeros_like(x)
    for k in range(n + 1):
        left, right = _falling(a, k, i), _falling(b, n - k, j)
        part = sum(
            comb(i, r) * comb(j, s) * h[i - r, j - s] * left[r] * right[s] for r in range(i + 1) for s in range(j + 1)
        )
        total = total + comb(n, k) * (-ratio) ** (n - k) * part
    mantissa, e = exp_of_pair(beta_exponent(a, b, t, rest, n + 1, 1))
    return np.where(total == 0, 0.0, np.ldexp(mantissa[0] * total, e))


def beta_density_derivative(a: Any, b: Any, x: Any, *, i: int, j: int, n: int) -> Any:
    """x^(a-1) (1-x)^(b-1) / B(a, b), differentiated i times in a, j times in b and n times in x."""
    if i + j == 0:
        return density_in_x(a, b, x, n=n)
    return _in_chunks(lambda a, b, x: _density(a, b, x, i, j, n), a, b, x, rim=np.nan)
