"""Kernels of the incomplete beta function, and of its derivatives in its parameters a and b.

Where SciPy loses digits, the value comes from the smaller of its tails.

I_x(a, b) is x^a (1-x)^b / (a B(a, b)) times the sum of (a+b)_k / (a+1)_k x^k (DLMF 8.17.8), and an integral with the
logarithm of t/(1-t) for variable. Differentiated, each term and the integrand gain a factor, the complete Bell
polynomial of the derivatives of their logarithms. Of the two sides, the one from 0 to x and the one from x to 1, the
kernels take that on which the first derivative adds up terms of one sign.
"""

from __future__ import annotations

from functools import reduce
from math import comb, factorial
from typing import Any

import numpy as np

from gtape.kernels.beta import beta_density_derivative as density_in_x
from gtape.kernels.beta import beta_exponent, beta_tail, log_gamma
from gtape.kernels.gamma import digamma_derivative, slope_of_positive
from gtape.kernels.incomplete import exp_of_pair, flat_arrays
from gtape.kernels.log_pairs import log_exact
from gtape.kernels.pair_functions import ONE, difference, over, power_pair, sum_pair
from gtape.kernels.pairs import Pair, multiply_pairs, nearest, two_sum

_FEW = 200.0  # up to this parameter a series needs few terms
_MOST = 100_000


_PAIRS = (("a", "b"), ("x", "y"), ("log_x", "log_y"), ("by_a", "by_b"), ("psi_more_a", "psi_more_b"))
# Each attribute of a side with that of the other side that it is equal to.
_SWAPPED = (("both", "both"), ("psi_both", "psi_both"), *_PAIRS, *((other, name) for name, other in _PAIRS))


class _Side:
    """The side from 0 to x of I_x(a, b), with y = 1 - x; or, with everything swapped, the side from x to 1."""

    def __init__(self, a: Any, b: Any, x: Pair, y: Pair) -> None:
        self.a, self.b, self.x, self.y = a, b, x, y
        self.both = two_sum(a, b)
        n = a.size
        logs = log_exact(np.append(x[0], y[0]))
        self.log_x, self.log_y = (
            sum_pair(_only(logs, part), (t[1] / t[0], 0.0 * a)) for part, t in ((slice(n), x), (slice(n, None), y))
        )
        below = [(a, 0.0 * a), (b, 0.0 * a), self.both]
        above = [sum_pair(z, ONE) for z in below]
        found = _psi((np.concatenate([z[0] for z in above]), np.concatenate([z[1] for z in above])), 0)
        psi = [_only(found, slice(k * n, (k + 1) * n)) for k in range(3)]
        self.psi_more_a, self.psi_more_b, psi_more = psi
        self.psi_both = difference(psi_more, _inverse(self.both))
        # the derivatives of the density's logarithm at x
        self.by_a = sum_pair(self.first(), _inverse(below[0]))
        self.by_b = sum_pair(sum_pair(self.log_y, difference(self.psi_both, self.psi_more_b)), _inverse(below[1]))

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
        """The derivative in a of the logarithm of the first term of the series."""
        return sum_pair(self.log_x, difference(self.psi_both, self.psi_more_a))

    def scale(self) -> tuple[Pair, Any]:
        """x^a y^b / (a b B(a, b)) as a pair and a power of 2."""
        a, b = (self.a, 0.0 * self.a), (self.b, 0.0 * self.b)
        power = sum_pair(multiply_pairs(a, self.log_x), multiply_pairs(b, self.log_y))
        gammas = sum_pair(log_gamma(sum_pair(a, ONE)), log_gamma(sum_pair(b, ONE)))
        return exp_of_pair(difference(power, difference(gammas, log_gamma(self.both))))

    def by_integral(self, p: int, q: int, size: bool = False) -> Any:
        """The integral over the side, differentiated p times in a and q times in b; or, with `size`, of magnitudes."""
        a, b, x, y = self.a, self.b, self.x[0], self.y[0]
        slope = difference(
            multiply_pairs((a, 0.0 * a), self.y), multiply_pairs((b, 0.0 * b), self.x)
        )[0]  # fmt: skip
        others = self.higher(p, q, self.both[0], a + 1.0, b + 1.0)
        gap_a, gap_b = nearest(self.first()), nearest(self.swapped().first())

        def weight(s: Any) -> Any:
            rest = np.log1p(x * np.expm1(-s))
            others[1, 0], others[0, 1] = gap_a - s - rest, gap_b - rest
            logs = {at: np.abs(c) for at, c in others.items()} if size else others
            made = a * b * bell(logs, p, q)
            if p:
                made = made + p * b * bell(logs, p - 1, q)
            if q:
                made = made + q * a * bell(logs, p, q - 1)
            return made + p * q * bell(logs, p - 1, q - 1) if p and q else made

        mantissa, k = self.scale()
        return np.ldexp(beta_tail(a, b, x, y, slope, weight) * nearest(mantissa), k)

    def higher(self, p: int, q: int, both: Any, a: Any, b: Any) -> dict[tuple[int, int], Any]:
        """The derivatives of a logarithm log(gamma(both) / (gamma(a) gamma(b))) in a and b, from the second on."""
        made: dict[tuple[int, int], Any] = {}
        for i in range(p + 1):
            for j in range(q + 1):
                if i + j > 1:
                    made[i, j] = digamma_derivative(both, n=i + j - 1)
                    if not i or not j:
                        made[i, j] = made[i, j] - digamma_derivative(a if i else b, n=i + j - 1)
        return made

    def by_series(self, p: int, q: int) -> Any:
        """The power series in x, differentiated once, where all terms have one sign."""
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
        """The power series in x, differentiated p times in a and q times in b, where terms cancel."""
        total, exponent = self.exact_series(p, q)
        return np.ldexp(nearest(total), exponent)

    def exact_series(self, p: int, q: int) -> tuple[Pair, Any]:
        """The same as a pair and a power of 2."""
        b = (self.b, 0.0 * self.b)
        more_a, more_b = two_sum(self.a, 1.0), two_sum(self.b, 1.0)
        logs = {(1, 0): self.first(), (0, 1): self.swapped().first()}
        for i in range(p + 1):
            for j in range(q + 1):
                if i + j > 1:
                    logs[i, j] = _psi(self.both, i + j - 1)
                    if not i or not j:
                        logs[i, j] = difference(logs[i, j], _psi(more_a if i else more_b, i + j - 1))

        def factor() -> Pair:
            made = multiply_pairs(b, _bell_pair(logs, p, q))
            if not q:
                return made
            return sum_pair(made, multiply_pairs((float(q), 0.0), _bell_pair(logs, p, q - 1)))

        term: Pair = (np.ones_like(self.a), 0.0 * self.a)
        total = factor()
        for k in range(1, _MOST):
            u, v = sum_pair(self.both, (k - 1.0, 0.0)), two_sum(self.a, float(k))
            term = multiply_pairs(term, multiply_pairs(self.x, over(u, v)))
            for (i, j), c in logs.items():
                n = i + j - 1
                sign = (-1.0) ** n * factorial(n)
                grown = over((sign, 0.0), power_pair(u, n + 1))
                if not j:
                    grown = difference(grown, over((sign, 0.0), power_pair(v, n + 1)))
                logs[i, j] = sum_pair(c, grown)
            new = multiply_pairs(term, factor())
            total = sum_pair(total, new)
            if k % 8 == 0 and np.all(
                (np.abs(new[0]) <= 1e-22 * self.y[0] * np.abs(total[0])) & (term[0] < 1e-20) | (term[0] < 1e-300)
            ):
                break
        mantissa, exponent = self.scale()
        return multiply_pairs(total, mantissa), exponent


def _only(x: Pair, mask: Any) -> Pair:
    return x[0][mask], x[1][mask]


def _psi(x: Pair, n: int) -> Pair:
    """The n-th derivative of digamma as a pair, to the digits of a float where x is tiny or huge."""
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
    """The p-th and q-th derivative of exp(f) over exp(f), from the derivatives of f in two variables."""
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
    """For the derivative of p >= q: the elements of each of six ways, and the way."""
    swapped = side.swapped()
    a, b, x, y = side.a, side.b, side.x[0], side.y[0]
    first, by_a = nearest(side.first()), nearest(side.by_a)
    # A series converges fast where its ratio is small from the start, or where its terms have one sign.
    near, far = (x <= 0.5) & (a < _FEW), (x > 0.5) & (b < _FEW)
    one_sign = (near & (first <= 0)) | (far & (by_a >= 0))
    near, far = near & (one_sign | ((a + b) * x <= 2.0)), far & (one_sign | ((a + b) * y <= 2.0))
    quick = one_sign & (p + q == 1)
    rest = ~near & ~far
    # where the first derivative in a adds up terms of one sign
    left = by_a <= 0 if p + q == 1 else a * y >= b * x
    return (
        (near & quick, lambda m: side.at(m).by_series(p, q)),
        (near & ~quick, lambda m: side.at(m).by_exact_series(p, q)),
        (far & quick, lambda m: -swapped.at(m).by_series(q, p)),
        (far & ~quick, lambda m: -swapped.at(m).by_exact_series(q, p)),
        (rest & left, lambda m, **of: side.at(m).by_integral(p, q, **of)),
        (rest & ~left, lambda m, **of: -swapped.at(m).by_integral(q, p, **of)),
    )


def betainc_order_derivative(a: Any, b: Any, x: Any, *, p: int, q: int) -> Any:
    """I_x(a, b) differentiated p times in a and q times in b, p + q > 0."""
    (a, b, x), shape, dtype = flat_arrays(a, b, x)
    with np.errstate(all="ignore"):
        valid = (a > 0) & (b > 0) & np.isfinite(a) & np.isfinite(b)
        # I_x(a, b) = 1 - I_{1-x}(b, a): zero in the middle
        flat = (x == 0) | (x == 1) | ((x == 0.5) & (a == b) & (p == q))
        out = np.where(valid & flat, 0.0, np.full(x.shape, np.nan))
        inside = valid & (x > 0) & (x < 1) & ~flat
        if np.any(inside):
            u, v, ratio, k = _from_tiny(a[inside], b[inside], x[inside], p, q)
            out[inside] = np.ldexp(_by_plan(u, v, x[inside], p, q) * ratio, (p + q) * k)
    return out.astype(dtype).reshape(shape)[()]


def _from_tiny(a: Any, b: Any, x: Any, p: int, q: int) -> tuple[Any, Any, Any, Any]:
    """Parameters for the kernels, a factor, and the power of 2 by which tiny a and b were multiplied.

    For a tiny sum the function depends on a/b alone. For one tiny parameter it is linear in this parameter.
    """
    k = np.where(a + b < 2.0**-80, -80 - np.frexp(a + b)[1], 0)
    a, b = np.ldexp(a, k), np.ldexp(b, k)
    ratio = np.ones_like(a)
    # Below these the next term of the power series is less than 1000 ULP; farther below the kernels lose digits.
    least_a = 2.0**-43 * np.minimum(b, 1.0) / (1.0 - np.log(x) + np.log1p(b))
    least_b = 2.0**-43 * np.minimum(a, 1.0) / (1.0 - np.log1p(-x) + np.log1p(a))
    if not p:
        ratio = np.where(a < least_a, a / least_a, ratio)
    if not q:
        ratio = np.where(b < least_b, b / least_b, ratio)
    return np.maximum(a, least_a), np.maximum(b, least_b), ratio, k


def _by_plan(a: Any, b: Any, x: Any, p: int, q: int) -> Any:
    side = _Side(a, b, (x, 0.0 * x), two_sum(1.0, -x))
    out = np.empty_like(x)
    for mask, way in _plan(side, p, q) if p >= q else _plan(side.swapped(), q, p):
        if np.any(mask):
            out[mask] = way(mask)
    return out if p >= q else -out


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
    return out.reshape(shape) + _moved(betainc_order_derivative, a, b, x, shape, p=p, q=q)


def moved(a: Any, b: Any, x: Any, *, p: int, q: int, n: int) -> Any:
    """A bound on the error of `beta_density_derivative` where `_from_tiny` moved a parameter."""
    (a, b, x), shape, _ = flat_arrays(a, b, x)
    return _moved(beta_density_derivative, a, b, x, shape, p=p, q=q, n=n) if p + q else np.zeros(shape)


def _moved(kernel: Any, a: Any, b: Any, x: Any, shape: tuple[int, ...], **orders: int) -> Any:
    with np.errstate(all="ignore"):
        u, v, _, k = _from_tiny(a, b, x, orders["p"], orders["q"])
        there = (u != np.ldexp(a, k)) | (v != np.ldexp(b, k))
        size = np.where(there, np.abs(kernel(a, b, x, **orders)), 0.0) if np.any(there) else np.zeros(a.shape)
    return np.where(np.isfinite(size), size * 2.0**-40, 0.0).reshape(shape)


_FAINT = 2.0**-60


def betainc(a: Any, b: Any, x: Any) -> Any:
    """I_x(a, b), the regularised incomplete beta function."""
    from scipy.special import betainc as scipy_betainc

    (a, b, x), shape, dtype = flat_arrays(a, b, x)
    with np.errstate(all="ignore"):
        inside = (a > 0) & (b > 0) & (x >= 0) & (x <= 1)
        # For tiny b, where SciPy gives 0, the value is ab/(a + b) times a factor that hardly depends on b.
        faint = inside & (b < _FAINT) & (a > 1e-20) & (x < 1)
        given, b = b, np.where(faint, _FAINT, b)
        out = np.where(inside, scipy_betainc(a, b, x), np.nan)
        # two tiny parameters share the mass
        out = np.where(inside & (np.maximum(a, b) < 1e-20) & (x > 0) & (x < 1), b / (a + b), out)
        # SciPy loses digits for large parameters, where the smaller tail comes from its integral
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
            # the integrand is flat for long and then falls at once, and a series needs few terms
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


def beta_density_derivative(a: Any, b: Any, x: Any, *, p: int, q: int, n: int) -> Any:
    """x^(a-1) (1-x)^(b-1) / B(a, b), differentiated p times in a, q times in b and n times in x."""
    if p == q == 0:
        return density_in_x(a, b, x, n=n)
    (a, b, x), shape, dtype = flat_arrays(a, b, x)
    with np.errstate(all="ignore"):
        inside = (a > 0) & (b > 0) & (x > 0) & (x < 1) & np.isfinite(a) & np.isfinite(b)
        u, v, t = np.where(inside, a, 1.0), np.where(inside, b, 1.0), np.where(inside, x, 0.5)
        u, v, ratio, scale = _from_tiny(u, v, t, p, q)
        side = _Side(u, v, (t, 0.0 * t), two_sum(1.0, -t))
        # 1/gamma(a) is a/gamma(a + 1), because digamma(a) has a pole at 0
        one_more = two_sum(u, 1.0), two_sum(v, 1.0)
        logs = {(1, 0): side.first(), (0, 1): side.swapped().first()}
        for i in range(p + 1):
            for j in range(q + 1):
                if i + j > 1:
                    logs[i, j] = _psi(side.both, i + j - 1)
                    if not i or not j:
                        logs[i, j] = difference(logs[i, j], _psi(one_more[0 if i else 1], i + j - 1))
        rising = _leibniz(side, p, q, n)
        total: Pair = (0.0 * t, 0.0 * t)
        for i in range(p + 1):
            for j in range(q + 1):
                share = multiply_pairs(rising[i, j], _bell_pair(logs, p - i, q - j))
                weight = float(comb(p, i) * comb(q, j) * factorial(i) * factorial(j))
                total = sum_pair(total, multiply_pairs((weight, 0.0), share))
        power = sum_pair(
            multiply_pairs(two_sum(u, -float(n + 1)), side.log_x), multiply_pairs(two_sum(v, -1.0), side.log_y)
        )
        gammas = difference(sum_pair(log_gamma(one_more[0]), log_gamma(one_more[1])), log_gamma(side.both))
        mantissa, k = exp_of_pair(difference(power, gammas))
        value = np.ldexp(nearest(multiply_pairs(mantissa, total)) * ratio, k + (p + q - 1) * scale)
        out = np.where(inside, value, np.nan)
    return out.astype(dtype).reshape(shape)[()]


def _leibniz(side: _Side, p: int, q: int, n: int) -> dict[tuple[int, int], Pair]:
    """Taylor coefficients in a and b of a b times x^n times the n-th derivative of the density in x over itself.

    Leibniz's rule: the sum of C(n, j) (a-1) ... (a-j) (1-b) ... (n-j-b) r^(n-j), r = x / (1-x).
    """
    zero = 0.0 * side.a
    ratio = over(side.x, side.y)
    total = {(i, j): (zero, zero) for i in range(p + 1) for j in range(q + 1)}
    for j in range(n + 1):
        term = dict.fromkeys(total, (zero, zero))
        term[0, 0] = (np.full_like(side.a, float(comb(n, j))), zero)
        for i in range(j + 1):
            term = _times_linear(term, two_sum(side.a, -float(i)), (1, 0), 1.0)
        term = _times_linear(term, (side.b, zero), (0, 1), 1.0)
        for i in range(1, n - j + 1):
            moved = _times_linear(term, two_sum(-side.b, float(i)), (0, 1), -1.0)
            term = {at: multiply_pairs(c, ratio) for at, c in moved.items()}
        total = {at: sum_pair(c, term[at]) for at, c in total.items()}
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
