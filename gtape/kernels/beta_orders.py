"""Kernels of the incomplete beta function, and of its derivatives by its parameters a and b.

If SciPy loses digits, the value comes from the smaller of the two tails.

I_x(a, b) is x^a (1-x)^b / (a B(a, b)) times the sum of (a+b)_k / (a+1)_k x^k (DLMF 8.17.8), and also an integral in the
variable log(t/(1-t)). By differentiation each term and the integrand get a factor: the complete Bell polynomial of the
derivatives of their logarithms. The integral has two sides, from 0 to x and from x to 1. The kernels take the side on
which the first derivative adds up terms of one sign.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial, reduce, wraps
from math import comb, factorial
from typing import Any

import numpy as np

from gtape.kernels.beta import beta_density_derivative as density_in_x
from gtape.kernels.beta import beta_exponent, beta_tail, log_gamma
from gtape.kernels.gamma import digamma_derivative, slope_of_positive
from gtape.kernels.incomplete import exp_of_pair, flat_arrays
from gtape.kernels.log_pairs import log_exact
from gtape.kernels.pair_functions import ONE, difference, exact, horner_pair, over, power_pair, sum_pair
from gtape.kernels.pairs import Pair, Quick, multiply_pairs, nearest, two_sum, wide

_FEW = 200.0  # the greatest parameter for which a series needs few terms
_MOST = 100_000
_SMALL = 1024


def _remembered(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Keep recent results of small arrays, because one takes 30 ms and a check needs the same results several times."""

    @lru_cache(maxsize=256)
    def recent(parameters: tuple[tuple[str, int], ...], *arrays: tuple[str, tuple[int, ...], bytes]) -> Any:
        return kernel(*[np.frombuffer(data, code).reshape(shape) for code, shape, data in arrays], **dict(parameters))

    @wraps(kernel)
    def remembering(*arrays: Any, **parameters: int) -> Any:
        if not all(isinstance(v, (np.ndarray, np.generic)) for v in arrays) or sum(v.size for v in arrays) > _SMALL:
            return kernel(*arrays, **parameters)
        found = recent(tuple(parameters.items()), *[(v.dtype.str, v.shape, v.tobytes()) for v in arrays])
        return found.copy()

    return remembering


_PAIRS = (("a", "b"), ("x", "y"), ("log_x", "log_y"), ("by_a", "by_b"), ("rise_a", "rise_b"))
# Each attribute of a side, with the attribute of the other side to which it is equal.
_SWAPPED = (("both", "both"), ("down", "down"), *_PAIRS, *((other, name) for name, other in _PAIRS))


class _Side:
    """The side from 0 to x of I_x(a, b), with y = 1 - x; or, with everything swapped, the side from x to 1."""

    def __init__(self, a: Any, b: Any, x: Pair, y: Pair, down: Any = 0) -> None:
        self.a, self.b, self.x, self.y = a, b, x, y
        self.down = down + np.zeros(a.shape, int)  # a and b have to be multiplied by 2^-down
        self.both = two_sum(a, b)
        self.log_x, self.log_y = _log(x, y), _log(y, x)
        self.rise_a, self.rise_b = _psi_rise(a, b, 0), _psi_rise(b, a, 0)
        # The derivatives of the density's logarithm at x.
        in_a, in_b = (a, 0.0 * a), (b, 0.0 * b)
        self.by_a = sum_pair(sum_pair(self.log_x, self.rise_a), over(_inverse(in_a), over(self.both, in_b)))
        self.by_b = sum_pair(sum_pair(self.log_y, self.rise_b), over(_inverse(in_b), over(self.both, in_a)))

    def swapped(self) -> _Side:
        """The other side."""
        made = _Side.__new__(_Side)
        for name, other in _SWAPPED:
            setattr(made, name, getattr(self, other))
        return made

    def at(self, mask: Any) -> _Side:
        """The side for some of the elements."""
        made = _Side.__new__(_Side)
        for name, _ in _SWAPPED:
            v = getattr(self, name)
            setattr(made, name, _only(v, mask) if v.__class__ is tuple else v[mask])
        return made

    def first(self) -> Pair:
        """The derivative by a of the logarithm of the first term of the series."""
        return sum_pair(self.log_x, difference(self.rise_a, _inverse(self.both)))

    def scale(self) -> tuple[Pair, Any]:
        """x^a y^b / (a b B(a, b)) as a pair and a power of 2."""
        a, b = (self.a, 0.0 * self.a), (self.b, 0.0 * self.b)
        power = sum_pair(multiply_pairs(a, self.log_x), multiply_pairs(b, self.log_y))
        gammas = sum_pair(log_gamma(sum_pair(a, ONE)), log_gamma(sum_pair(b, ONE)))
        return exp_of_pair(difference(power, difference(gammas, log_gamma(self.both))))

    def by_integral(self, p: int, q: int, size: bool = False) -> Any:
        """The integral over the side, differentiated p times by a and q times by b. With `size`, of magnitudes."""
        a, b, x, y = self.a, self.b, self.x[0], self.y[0]
        slope = difference(multiply_pairs((a, 0.0 * a), self.y), multiply_pairs((b, 0.0 * b), self.x))[0]
        # A large parameter is a factor inside the logarithm. A small parameter is a factor outside, which avoids a
        # pole.
        far_a, far_b = a > 1.0, b > 1.0
        out_a, out_b = 1.0 - far_a, 1.0 - far_b
        gap_a = nearest(_either(far_a, self.by_a, self.first()))
        gap_b = nearest(_either(far_b, self.by_b, self.swapped().first()))
        others = self.higher(p, q, far_a, far_b)
        near = x <= 0.5

        def weight(s: Any) -> Any:
            # The logarithms log(t) and log(1-t) at s minus those at 0. Their difference is s.
            rest, lift = np.log1p(x * np.expm1(-s)), np.log1p(y * np.expm1(s))
            rest, lift = np.where(near, rest, lift - s), np.where(near, s + rest, lift)
            others[1, 0], others[0, 1] = gap_a - lift, gap_b - rest
            logs = {at: np.abs(c) for at, c in others.items()} if size else others
            made = a * b * bell(logs, p, q)
            if p:
                made = made + p * out_a * b * bell(logs, p - 1, q)
            if q:
                made = made + q * out_b * a * bell(logs, p, q - 1)
            return made + p * q * out_a * out_b * bell(logs, p - 1, q - 1) if p and q else made

        mantissa, k = self.scale()
        return np.ldexp(beta_tail(a, b, x, y, slope, weight) * nearest(mantissa), k)

    def higher(self, p: int, q: int, far_a: Any, far_b: Any) -> dict[tuple[int, int], Any]:
        """The derivatives of log(Γ(a+b) / (Γ(a+1) Γ(b+1))) from order 2 on. With `far`, plus log(a) or log(b).

        The derivative of log(b/(a+b)) is computed without a difference of two powers.
        """
        made: dict[tuple[int, int], Any] = {}
        both = self.both[0]
        for i in range(p + 1):
            for j in range(q + 1):
                n = i + j
                if n < 2:
                    continue
                if i and j:
                    made[i, j] = digamma_derivative(both, n=n - 1)
                    continue
                z, other, far = (self.a, self.b, far_a) if i else (self.b, self.a, far_b)
                share = np.where(far, np.expm1(-n * np.log1p(other / z)) / z**n, both**-n)
                made[i, j] = nearest(_psi_rise(z, other, n - 1)) + (-1.0) ** n * factorial(n - 1) * share
        return made

    def by_series(self, p: int, q: int) -> Any:
        """The power series in x, differentiated once. All terms have one sign."""
        a, b, x, both = self.a, self.b, self.x[0], self.both[0]
        factor = nearest(self.first() if p else self.by_b)
        term = np.ones_like(x)
        total = factor
        for k in range(1, _MOST):
            u, v = both + (k - 1.0), a + float(k)
            term = term * (x * (u / v))
            factor = factor + ((1.0 - b) / (u * v) if p else 1.0 / u)
            new = term * factor
            total = total + new
            if k % 8 == 0 and np.all((np.abs(new) <= 1e-18 * (1.0 - x) * np.abs(total)) | (term < 1e-300)):
                break
        mantissa, exponent = self.scale()
        return np.ldexp(total * (nearest(mantissa) * b), exponent)

    def by_exact_series(self, p: int, q: int) -> Any:
        """The power series in x, differentiated p times by a and q times by b. Terms may cancel."""
        total, exponent = self.exact_series(p, q)
        return np.ldexp(nearest(total), exponent)

    def exact_series(self, p: int, q: int) -> tuple[Pair, Any]:
        """The power series in x as a pair and a power of 2.

        The first term has the factor b/(a+b), the other terms have the factor b. Their common factor x^a y^b Γ(a+b+1) /
        (Γ(a+1) Γ(b+1)) has no pole for tiny parameters.
        """
        b = (self.b, 0.0 * self.b)
        logs = self.logarithms(p, q)
        shares = _shares(self.a, self.b, self.both, p, q)
        total: Pair = (0.0 * self.a, 0.0 * self.a)
        for (i, j), share in shares.items():
            share = _shifted(share, (i + j - p - q) * self.down)
            part = multiply_pairs(share, _bell_pair(logs, p - i, q - j))
            total = sum_pair(total, multiply_pairs((float(comb(p, i) * comb(q, j)), 0.0), part))
        u, v = sum_pair(self.both, ONE), two_sum(self.a, 1.0)
        term = over(self.x, v)
        for k in range(1, _MOST):
            for i, j in logs:
                if not j:
                    logs[i, j] = difference(logs[i, j], _log_slope(v, i))
            new = _shifted(multiply_pairs(b, _bell_pair(logs, p, q)), -self.down)
            if q:
                new = sum_pair(new, multiply_pairs((float(q), 0.0), _bell_pair(logs, p, q - 1)))
            new = _shifted(multiply_pairs(term, new), -(p + q) * self.down)
            total = sum_pair(total, new)
            if k % 8 == 0 and np.all(
                (np.abs(new[0]) <= 1e-22 * self.y[0] * np.abs(total[0])) & (term[0] < 1e-20) | (term[0] < 1e-300)
            ):
                break
            for i, j in logs:
                logs[i, j] = sum_pair(logs[i, j], _log_slope(u, i + j))
            v = two_sum(self.a, float(k + 1))
            term = multiply_pairs(term, multiply_pairs(self.x, over(u, v)))
            u = sum_pair(u, ONE)
        a = (self.a, 0.0 * self.a)
        power = sum_pair(multiply_pairs(a, self.log_x), multiply_pairs(b, self.log_y))
        mantissa, exponent = exp_of_pair(difference(power, self.gammas()))
        return multiply_pairs(total, mantissa), exponent

    def gammas(self) -> Pair:
        """log(Γ(a+1) Γ(b+1) / Γ(a+b+1))."""
        parts = (log_gamma(sum_pair(z, ONE)) for z in ((self.a, 0.0 * self.a), (self.b, 0.0 * self.b), self.both))
        in_a, in_b, in_both = parts
        return difference(sum_pair(in_a, in_b), in_both)

    def logarithms(self, p: int, q: int) -> dict[tuple[int, int], Pair]:
        """The derivatives of log(x^a y^b Γ(a+b+1) / (Γ(a+1) Γ(b+1))) by a and b."""
        made: dict[tuple[int, int], Pair] = {}
        for i in range(p + 1):
            for j in range(q + 1):
                if i and j:
                    made[i, j] = _psi(sum_pair(self.both, ONE), i + j - 1)
                elif i > 1:
                    made[i, j] = _psi_rise(self.a, self.b, i - 1)
                elif j > 1:
                    made[i, j] = _psi_rise(self.b, self.a, j - 1)
        if p:
            made[1, 0] = sum_pair(self.rise_a, self.log_x)
        if q:
            made[0, 1] = sum_pair(self.rise_b, self.log_y)
        return made


def _log(x: Pair, y: Pair) -> Pair:
    """The logarithm of x = 1 - y. If y is small, by powers of y, because the relative error counts."""
    high, low = sum_pair(log_exact(x[0]), (x[1] / x[0], 0.0 * x[0]))
    near = y[0] < 1e-4
    if not near.any():
        return high, low
    z = np.where(near, y[0], 0.0), np.where(near, y[1], 0.0)
    series = multiply_pairs(horner_pair(_LOG1P, z), z)
    return np.where(near, series[0], high), np.where(near, series[1], low)


_LOG1P = [exact(Fraction(-1, k)) for k in range(1, 10)]


def _shifted(x: Pair, k: Any) -> Pair:
    """A pair times 2^k."""
    return np.ldexp(x[0], k), np.ldexp(x[1], k)


def _log_slope(z: Pair, n: int) -> Pair:
    """The n-th derivative of the logarithm."""
    return over(((-1.0) ** (n - 1) * factorial(n - 1), 0.0), power_pair(z, n))


def _psi_rise(z: Any, h: Any, n: int) -> Pair:
    """The n-th derivative of digamma at z + 1 + h minus that at z + 1, by Taylor's series for small h."""
    above = two_sum(z, 1.0)
    small = h < 1e-9 * (1.0 + z)
    far = difference(_psi(sum_pair(above, (h, 0.0 * h)), n), _psi(above, n)) if not small.all() else (0.0 * z, 0.0 * z)
    if not small.any():
        return far
    step: Pair = (np.where(small, h, 0.0), 0.0 * h)
    near: Pair = (0.0 * z, 0.0 * z)
    for k in (3, 2, 1):
        near = multiply_pairs(sum_pair(near, _psi(above, n + k)), over(step, (float(k), 0.0)))
    return _either(small, near, far)


def _shares(a: Any, b: Any, both: Pair, p: int, q: int) -> dict[tuple[int, int], Pair]:
    """The derivatives of b/(a+b): (-1)^n (n-1)! (i b - j a) / (a+b)^(n+1) for n = i + j > 0."""
    made = {}
    in_a, in_b = (a, 0.0 * a), (b, 0.0 * b)
    for i in range(p + 1):
        for j in range(q + 1):
            n = i + j
            top = difference(multiply_pairs((float(i), 0.0), in_b), multiply_pairs((float(j), 0.0), in_a))
            c = (-1.0) ** n * factorial(n - 1) if n else 1.0
            made[i, j] = multiply_pairs((c, 0.0), over(top if n else in_b, power_pair(both, n + 1)))
    return made


def _harmonic(a: Any, b: Any, p: int, q: int) -> tuple[dict[tuple[int, int], Pair], Any, Any]:
    """The derivatives of ab/(a+b) over a common factor and a power of 2. Up to the second order none cancels.

    They are (-1)^n (n-2)! (2ij ab - i(i-1) b² - j(j-1) a²) / (a+b)^(n+1) for n = i + j > 1. If only one parameter
    varies, the other one, which may be tiny, is a factor of all derivatives.
    """
    k = np.where(a + b < 2.0**-160, -np.frexp(a + b)[1], 0)
    factor = b if not q else a if not p else np.ones_like(a)
    a, b = np.ldexp(a, k), np.ldexp(b, k)
    in_a, in_b, one = (a, 0.0 * a), (b, 0.0 * b), (np.ones_like(a), 0.0 * a)
    u = two_sum(a, b)
    a_b = in_a if not q else in_b if not p else multiply_pairs(in_a, in_b)
    a_a = in_a if not p else multiply_pairs(in_a, in_a)
    b_b = in_b if not q else multiply_pairs(in_b, in_b)
    made = {}
    for i in range(p + 1):
        for j in range(q + 1):
            n = i + j
            if n < 2:
                top = multiply_pairs(one, a_b if not n else b_b if i else a_a)
            else:
                c = (-1.0) ** n * factorial(n - 2)
                parts = ((2 * i * j, a_b), (-i * (i - 1), b_b), (-j * (j - 1), a_a))
                top = reduce(sum_pair, [multiply_pairs((c * w, 0.0), v) for w, v in parts if w])
            value = over(top, power_pair(u, n + 1))
            down = (n - p - q) * k
            made[i, j] = _shifted(value, down)
    return made, factor, (p + q - (1 if p and q else 0)) * k


def _only(x: Pair, mask: Any) -> Pair:
    return x[0][mask], x[1][mask]


def _either(mask: Any, x: Pair, y: Pair) -> Pair:
    return np.where(mask, x[0], y[0]), np.where(mask, x[1], y[1])


def _psi(x: Pair, n: int) -> Pair:
    """The n-th derivative of digamma as a pair, which has only the digits of a float if x is tiny or huge."""
    middle = (x[0] > 1e-30) & (x[0] < 1e20)
    if middle.all():
        return slope_of_positive(x, n)
    high, low = slope_of_positive((np.where(middle, x[0], 1.0), np.where(middle, x[1], 0.0)), n)
    return np.where(middle, high, digamma_derivative(x[0], n=n)), np.where(middle, low, 0.0)


def _inverse(x: Pair) -> Pair:
    tiny = x[0] < 1e-250
    high, low = over(ONE, (np.where(tiny, 1.0, x[0]), np.where(tiny, 0.0, x[1])))
    return np.where(tiny, 1.0 / x[0], high), np.where(tiny, 0.0, low)


def bell(of: dict[tuple[int, int], Any], p: int, q: int) -> Any:
    """The p-th and q-th derivative of exp(f) divided by exp(f), from the derivatives of f in two variables."""
    return _bell(of, p, q, 1.0, lambda a, b: a + b, lambda c, a, b: c * a * b)


def _bell_pair(of: dict[tuple[int, int], Pair], p: int, q: int) -> Pair:
    made: Pair = _bell(of, p, q, ONE, sum_pair, lambda c, a, b: multiply_pairs((float(c), 0.0), multiply_pairs(a, b)))
    return made


def _bell(of: Any, p: int, q: int, one: Any, add: Any, times: Any) -> Any:
    h: dict[tuple[int, int], Any] = {(0, 0): one}
    for i in range(p + 1):
        for j in range(q + 1):
            if (i, j) == (0, 0):
                continue
            m, n = (i - 1, j) if i else (i, j - 1)
            step = (1, 0) if i else (0, 1)
            parts = [
                times(comb(m, r) * comb(n, s), of[r + step[0], s + step[1]], h[m - r, n - s])
                for r in range(m + 1)
                for s in range(n + 1)
            ]
            h[i, j] = reduce(add, parts)
    return h[p, q]


def _plan(side: _Side, p: int, q: int) -> tuple[tuple[Any, Any], ...]:
    """For the derivative of orders p >= q: the elements that each of six methods computes, and the method."""
    swapped = side.swapped()
    a, b, x, y = side.a, side.b, side.x[0], side.y[0]
    first, by_a = nearest(side.first()), nearest(side.by_a)
    # A series converges fast if its ratio is small from the start, or if its terms have one sign.
    near, far = (x <= 0.5) & (a < _FEW), (x > 0.5) & (b < _FEW)
    one_sign = (near & (first <= 0)) | (far & (by_a >= 0))
    near, far = near & (one_sign | ((a + b) * x <= 2.0)), far & (one_sign | ((a + b) * y <= 2.0))
    quick = one_sign & (p + q == 1)
    rest = ~near & ~far
    # The first derivative by a adds up terms of one sign for these elements.
    left = by_a <= 0 if p + q == 1 else a * y >= b * x
    return (
        (near & quick, lambda m: side.at(m).by_series(p, q)),
        (near & ~quick, lambda m: side.at(m).by_exact_series(p, q)),
        (far & quick, lambda m: -swapped.at(m).by_series(q, p)),
        (far & ~quick, lambda m: -swapped.at(m).by_exact_series(q, p)),
        (rest & left, lambda m, **of: side.at(m).by_integral(p, q, **of)),
        (rest & ~left, lambda m, **of: -swapped.at(m).by_integral(q, p, **of)),
    )


@_remembered
def betainc_order_derivative(a: Any, b: Any, x: Any, *, p: int, q: int) -> Any:
    """I_x(a, b) differentiated p times by a and q times by b, p + q > 0."""
    (a, b, x), shape, dtype = flat_arrays(a, b, x)
    with np.errstate(all="ignore"):
        valid = (a > 0) & (b > 0) & np.isfinite(a) & np.isfinite(b)
        # I_x(a, b) = 1 - I_{1-x}(b, a): zero in the middle
        flat = (x == 0) | (x == 1) | ((x == 0.5) & (a == b) & (p == q))
        out = np.where(valid & flat, 0.0, np.full(x.shape, np.nan))
        inside = valid & (x > 0) & (x < 1) & ~flat
        if np.any(inside):
            u, v, ratio, k = _from_tiny(a[inside], b[inside], x[inside], p, q)
            out[inside] = np.ldexp(_by_plan(u, v, x[inside], p, q, k) * ratio, (p + q) * k)
    return out.astype(dtype).reshape(shape)[()]


def _from_tiny(a: Any, b: Any, x: Any, p: int, q: int) -> tuple[Any, Any, Any, Any]:
    """Parameters for the kernels, a factor, and the power of 2 by which tiny a and b were multiplied.

    If the sum is tiny, the function depends only on a/b. If one parameter is tiny, the function is linear in this
    parameter.
    """
    k = np.where(a + b < 2.0**-160, -160 - np.frexp(a + b)[1], 0)
    a, b = np.ldexp(a, k), np.ldexp(b, k)
    ratio = np.ones_like(a)
    # Below these bounds the next term of the power series is less than 32 ULP if terms cancel, and otherwise
    # negligible.
    cancels_a, cancels_b = (x <= 0.5) & (p == 0), (x > 0.5) & (q == 0)
    least_a = np.where(cancels_a, 2.0**-49, 2.0**-120) * np.minimum(b, 1.0) / (1.0 - np.log(x) + np.log1p(b))
    least_b = np.where(cancels_b, 2.0**-49, 2.0**-120) * np.minimum(a, 1.0) / (1.0 - np.log1p(-x) + np.log1p(a))
    if not p:
        ratio = np.where(a < least_a, a / least_a, ratio)
    if not q:
        ratio = np.where(b < least_b, b / least_b, ratio)
    return np.maximum(a, least_a), np.maximum(b, least_b), ratio, k


def _by_plan(a: Any, b: Any, x: Any, p: int, q: int, down: Any) -> Any:
    side = _Side(a, b, (x, 0.0 * x), two_sum(1.0, -x), down)
    out = np.empty_like(x)
    for mask, way in _plan(side, p, q) if p >= q else _plan(side.swapped(), q, p):
        if np.any(mask):
            out[mask] = way(mask)
    return out if p >= q else -out


@_remembered
def cancelled(a: Any, b: Any, x: Any, *, p: int, q: int) -> Any:
    """A bound on the error of `betainc_order_derivative` where the integrand has both signs."""
    (a, b, x), shape, _ = flat_arrays(a, b, x)
    out = np.zeros(x.shape)
    inside = (a > 0) & (b > 0) & (x > 0) & (x < 1) & np.isfinite(a) & np.isfinite(b)
    if p + q > 1 and np.any(inside):
        with np.errstate(all="ignore"):
            t = x[inside]
            u, v, ratio, k = _from_tiny(a[inside], b[inside], x[inside], p, q)
            side = _Side(u, v, (t, 0.0 * t), two_sum(1.0, -t))
            found = np.zeros_like(t)
            for mask, way in (_plan(side, p, q) if p >= q else _plan(side.swapped(), q, p))[4:]:
                if np.any(mask):
                    found[mask] = np.abs(way(mask, size=True))
            out[inside] = np.ldexp(found * ratio * 2.0**-48, (p + q) * k)
    return out.reshape(shape) + _moved(a, b, x, p, q).reshape(shape)


def _moved(a: Any, b: Any, x: Any, p: int, q: int) -> Any:
    """A bound on the error of `betainc_order_derivative` where `_from_tiny` moved a parameter."""
    with np.errstate(all="ignore"):
        u, v, _, k = _from_tiny(a, b, x, p, q)
        there = (u != np.ldexp(a, k)) | (v != np.ldexp(b, k))
        size = np.where(there, np.abs(betainc_order_derivative(a, b, x, p=p, q=q)), 0.0)
    return np.where(np.isfinite(size), size * 2.0**-46, 0.0)


_FAINT = 2.0**-60


def betainc(a: Any, b: Any, x: Any) -> Any:
    """I_x(a, b), the regularised incomplete beta function."""
    from gtape.kernels.scipy_special import betainc as scipy_betainc

    (a, b, x), shape, dtype = flat_arrays(a, b, x)
    with np.errstate(all="ignore"):
        inside = (a > 0) & (b > 0) & (x >= 0) & (x <= 1)
        # For tiny b SciPy gives 0. The value is ab/(a + b) times a factor that hardly depends on b.
        faint = inside & (b < _FAINT) & (a > 1e-20) & (x < 1)
        given, b = b, np.where(faint, _FAINT, b)
        # For a = b = 1/2 SciPy takes asin(sqrt(x)), which loses half of the digits near 1; 1 - x is exact there.
        other = (a == 0.5) & (b == 0.5) & (x > 0.5)
        value = scipy_betainc(a, b, np.where(other, 1.0 - x, x))
        out = np.where(inside, np.where(other, 1.0 - value, value), np.nan)
        # Two tiny parameters share the mass.
        out = np.where(inside & (np.maximum(a, b) < 1e-20) & (x > 0) & (x < 1), b / (a + b), out)
        # SciPy loses digits for large parameters. The smaller tail then comes from its integral.
        least = np.minimum(a, b)
        poor = ((a + b > 10.0) & (least > 1e-3)) | ((x < 1e-290) & (least > 1e-20))
        poor &= inside & (a + b < 1e15) & (x > 0) & (x < 1)
        if np.any(poor):
            p, q, t = a[poor], b[poor], x[poor]
            rest = two_sum(1.0, -t)
            slope = difference(multiply_pairs((p, 0.0 * p), rest), multiply_pairs((q, 0.0 * q), (t, 0.0 * t)))[0]
            low = slope >= 0
            mantissa, k = exp_of_pair(beta_exponent(p, q, t, rest))
            args = ((p, q), (q, p), (t, rest[0]), (rest[0], t), (slope, -slope))
            tail = np.ldexp(beta_tail(*[np.where(low, *v) for v in args]) * mantissa[0], k)
            found = np.where(low, tail, 1.0 - tail)
            # The integrand is flat for long and then falls fast, and a series needs few terms.
            for here, side in (
                (~low & (p < 1.0) & ((p + q) * t <= 2.0) & (t <= 0.5), 0),
                (low & (q < 1.0) & ((p + q) * rest[0] <= 2.0) & (rest[0] <= 0.5), 1),
            ):
                if np.any(here):
                    of = _Side(p[here], q[here], (t[here], 0.0 * t[here]), _only(rest, here))
                    series, exponent = (of.swapped() if side else of).exact_series(0, 0)
                    series = np.ldexp(series[0], exponent), np.ldexp(series[1], exponent)
                    found[here] = nearest(difference(ONE, series) if side else series)
            out[poor] = found
        out = np.where(faint, out / _FAINT * ((a + _FAINT) / (a + given)) * given, out)
    return out.astype(dtype).reshape(shape)[()]


def _density_plain(a: Any, b: Any, x: Any, *, p: int, q: int, n: int) -> Quick | None:
    if p or q or n:
        return None
    from gtape.kernels.scipy_special import gammaln

    with np.errstate(all="ignore"):
        beta = gammaln(a) + gammaln(b) - gammaln(a + b)
        value = np.exp((a - 1.0) * np.log(x) + (b - 1.0) * np.log1p(-x) - beta)
        ordinary = (np.minimum(a, b) > 1e-3) & (np.maximum(a, b) < 1e3) & (x > 1e-30) & (x < 1)
        return value, ordinary & (value > 1e-250) & (value < 1e250)


@partial(wide, plain=_density_plain)
@_remembered
def beta_density_derivative(a: Any, b: Any, x: Any, *, p: int, q: int, n: int) -> Any:
    """x^(a-1) (1-x)^(b-1) / B(a, b), differentiated p times by a, q times by b and n times by x."""
    if p == q == 0:
        made = density_in_x(a, b, x, n=n)
        (a, b, x), shape, dtype = flat_arrays(a, b, x)
        return _with_rims(np.asarray(made).reshape(a.shape), a, b, x, 0, 0, n).astype(dtype).reshape(shape)[()]
    (a, b, x), shape, dtype = flat_arrays(a, b, x)
    with np.errstate(all="ignore"):
        inside = (a > 0) & (b > 0) & (x > 0) & (x < 1) & np.isfinite(a) & np.isfinite(b)
        u, v, t = np.where(inside, a, 1.0), np.where(inside, b, 1.0), np.where(inside, x, 0.5)
        # For subnormal a a derivative by b, without log(x), is c a + d x^w over a power of x, and is computed
        # magnified.
        w = 1 if p else n + 1
        tiny = (u < 2.0**-850) & (t < 2.0 ** (-850 / w)) & (v > 2.0 ** (155 - 610 / w)) & (q > 0)
        up = np.where(tiny, 240 // w * w, 0)
        log_x = _log((t, 0.0 * t), two_sum(1.0, -t))
        u, t = np.ldexp(u, up), np.ldexp(t, up // w)
        side = _Side(u, v, (t, 0.0 * t), two_sum(1.0, -t))
        side.log_x = log_x
        near = t * (1.0 + v) < 2.0**-10
        side.log_y = _either(near, (0.0 * t, 0.0 * t), side.log_y)  # the powers contain (1-x)^(b-1)
        logs = side.logarithms(p, q)
        harmonic, factor, scale = _harmonic(u, v, p, q)
        powers = _leibniz(side, p, q, n)
        if near.any():
            some = _powers_near_0(side, p, q, n)
            powers = {at: _either(near, some[at], c) for at, c in powers.items()}
        total: Pair = (0.0 * t, 0.0 * t)
        for i in range(p + 1):
            for j in range(q + 1):
                rest: Pair = (0.0 * t, 0.0 * t)
                for r in range(i + 1):
                    for s in range(j + 1):
                        part = multiply_pairs(powers[r, s], _bell_pair(logs, i - r, j - s))
                        weight = float(comb(i, r) * comb(j, s) * factorial(r) * factorial(s))
                        rest = sum_pair(rest, multiply_pairs((weight, 0.0), part))
                weight = float(comb(p, i) * comb(q, j))
                total = sum_pair(total, multiply_pairs((weight, 0.0), multiply_pairs(harmonic[p - i, q - j], rest)))
        power = sum_pair(
            multiply_pairs(two_sum(u, -float(n + 1)), side.log_x), multiply_pairs(two_sum(v, -1.0), side.log_y)
        )
        mantissa, k = exp_of_pair(difference(power, side.gammas()))
        shift = np.frexp(factor)[1]
        scale = scale - (up if p else 2 * up)  # without derivatives by a, a is a factor
        value = nearest(multiply_pairs(mantissa, total)) * np.ldexp(factor, -shift)
        out = np.where(inside, np.ldexp(value, k + scale + shift), np.nan)
    return _with_rims(out, a, b, x, p, q, n).astype(dtype).reshape(shape)[()]


def _with_rims(out: Any, a: Any, b: Any, x: Any, p: int, q: int, n: int) -> Any:
    """The derivatives of the density with the finite limits for x -> 0 and x -> 1 in place of NaN."""
    rim = np.isnan(out) & ((x == 0) | (x == 1)) & (a > 0) & (b > 0) & np.isfinite(a) & np.isfinite(b)
    if not rim.any():
        return out
    u, v, left = a[rim], b[rim], x[rim] == 0
    low = _limits(u, v, p, q, n)
    high = (-1.0) ** n * _limits(v, u, q, p, n)
    out = np.array(out, np.float64)
    out[rim] = np.where(left, low, high)
    return out


def _limits(a: Any, b: Any, p: int, q: int, n: int) -> Any:
    """The limits for x -> 0; NaN where a derivative has none.

    All powers of x vanish for a > n + 1. For an integer a up to n + 1 and p = 0 a constant is left: the product of
    b + j for j from a - n - 1 to a - 1, as 1 / B(a, b) is a polynomial in b.
    """
    out = np.where(a > n + 1, 0.0, np.nan)
    for whole in range(1, n + 2 if p == 0 else 1):
        here = a == whole
        if not here.any():
            continue
        t = b[here]
        rest = n + 1 - whole
        sums: list[Pair] = [(np.ones_like(t), 0.0 * t)] + [(0.0 * t, 0.0 * t)] * (n + 1)  # elementary symmetric
        with np.errstate(all="ignore"):
            for j in range(-rest, whole):
                factor = two_sum(t, float(j))
                sums = [s if i == 0 else sum_pair(s, multiply_pairs(factor, sums[i - 1])) for i, s in enumerate(sums)]
            weight = float((-1) ** rest * factorial(q) * comb(n, rest))
            out[here] = nearest(multiply_pairs((weight, 0.0), sums[n + 1 - q])) if q <= n + 1 else 0.0
    return out


def _leibniz(side: _Side, p: int, q: int, n: int) -> dict[tuple[int, int], Pair]:
    """Taylor coefficients in a and b of x^n times the n-th x-derivative of the density over the density.

    The function is, by Leibniz's rule, the sum of C(n, j) (a-1) ... (a-j) (1-b) ... (n-j-b) r^(n-j), r = x / (1-x).
    """
    zero = 0.0 * side.a
    ratio = over(side.x, side.y)
    total = {(i, j): (zero, zero) for i in range(p + 1) for j in range(q + 1)}
    for j in range(n + 1):
        term = dict.fromkeys(total, (zero, zero))
        term[0, 0] = (np.full_like(side.a, float(comb(n, j))), zero)
        for i in range(1, j + 1):
            term = _times_linear(term, two_sum(side.a, -float(i)), (1, 0), 1.0)
        for i in range(1, n - j + 1):
            moved = _times_linear(term, two_sum(-side.b, float(i)), (0, 1), -1.0)
            term = {at: multiply_pairs(c, ratio) for at, c in moved.items()}
        total = {at: sum_pair(c, term[at]) for at, c in total.items()}
    return total


def _powers_near_0(side: _Side, p: int, q: int, n: int) -> dict[tuple[int, int], Pair]:
    """Taylor coefficients in a and b of x^(n+1-a) times the n-th derivative by x of x^(a-1) (1-x)^(b-1).

    Only for small x (1+b). The function is the sum of (a-1+k) ... (a-n+k) (1-b) ... (k-b) x^k / k! over k >= 0. For k
    <= n one of the factors is a.
    """
    zero = 0.0 * side.a
    start = {(i, j): (zero, zero) for i in range(p + 1) for j in range(q + 1)}
    total = dict(start)
    start[0, 0] = (np.ones_like(side.a), zero)
    for k in range(14):
        term = start
        for i in range(1, n + 1):
            term = _times_linear(term, two_sum(side.a, float(k - i)), (1, 0), 1.0)
        total = {at: sum_pair(c, term[at]) for at, c in total.items()}
        start = _times_linear(start, two_sum(-side.b, k + 1.0), (0, 1), -1.0)
        ratio = over(side.x, (k + 1.0, 0.0))
        start = {at: multiply_pairs(c, ratio) for at, c in start.items()}
    return total


def _times_linear(
    of: dict[tuple[int, int], Pair], value: Pair, step: tuple[int, int], slope: float
) -> dict[tuple[int, int], Pair]:
    """A polynomial in two increments times value + slope * increment."""
    made = {}
    for (i, j), c in of.items():
        before = of.get((i - step[0], j - step[1]))
        product = multiply_pairs(c, value)
        made[i, j] = product if before is None else sum_pair(product, (slope * before[0], slope * before[1]))
    return made
