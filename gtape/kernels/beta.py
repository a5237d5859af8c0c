"""Kernels of the density of the beta distribution, differentiated by x, and of its integral over a tail.

The density is exp of a sum, and the sum is a pair, because its terms cancel. The integral is computed by the
trapezoidal rule after a double exponential substitution.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import Any

import numpy as np

from gtape.kernels.gamma import lgamma_pair
from gtape.kernels.incomplete import bend_series, decay_nodes, exp_of_pair, flat_arrays
from gtape.kernels.log_pairs import log_exact
from gtape.kernels.pair_functions import difference, over, sum_pair
from gtape.kernels.pairs import Pair, multiply_pairs, two_sum


def beta_exponent(a: Any, b: Any, x: Any, rest: Pair, i: Any = 0.0, j: Any = 0.0) -> Pair:
    """(a - i) log(x) + (b - j) log(1 - x) - log(B(a, b)), with `rest` for 1 - x."""
    right = sum_pair(log_exact(rest[0]), (rest[1] / rest[0], 0.0 * x))
    exponent = sum_pair(multiply_pairs(two_sum(a, -i), log_exact(x)), multiply_pairs(two_sum(b, -j), right))
    both = two_sum(a, b)
    beta = difference(sum_pair(log_gamma((a, 0.0 * a)), log_gamma((b, 0.0 * b))), log_gamma(both))
    return difference(exponent, beta)


def log_gamma(x: Pair) -> Pair:
    """log(gamma(x)) for pairs of any size."""
    tiny = x[0] < 1e-25
    plain = lgamma_pair((np.where(tiny, 1.0, x[0]), np.where(tiny, 0.0, x[1])))
    log = log_exact(x[0])
    return np.where(tiny, -log[0], plain[0]), np.where(tiny, -log[1], plain[1])


_ODD = [1.0 / (2 * k + 3) for k in range(11)]


def _log1p_bend(w: Any) -> Any:
    """log(1 + w) - w for w > -1: with r = w/(2 + w), log(1 + w) = 2 artanh(r) and 2 r - w = -r w."""
    r = w / (2.0 + w)
    z = r * r
    series: Any = 0.0
    for c in _ODD[::-1]:
        series = series * z + c
    return np.where(np.abs(w) < 0.4, 2.0 * r * z * series - r * w, np.log1p(w) - w)


def _expm1_bend(v: Any) -> Any:
    """expm1(v) - v."""
    t = np.where(np.abs(v) < 1.0, v, 0.0)
    series: Any = 0.0
    for c in bend_series()[::-1]:
        series = series * t + c
    return np.where(np.abs(v) < 1.0, t * t * series, np.expm1(v) - v)


def beta_tail(a: Any, b: Any, x: Any, y: Any, slope: Any, factor: Callable[[Any], Any] | None = None) -> Any:
    """The integral of the density from 0 to x <= a/(a+b), divided by x^a y^b, y = 1 - x, in the variable log(t/(1-t)).

    The integrand is exp(-fall(s)) with fall(s) = a s + (a+b) log(1 + x expm1(-s)), a convex function. Its slope at 0, a
    y - b x, is the argument `slope`, because the terms nearly cancel. For x near 1 the logarithm is computed as -s +
    log(1 + y expm1(s)). `factor` is an additional factor of the integrand, as a function of s.
    """
    both = a + b
    near = x <= 0.5
    small = np.where(near, x, y)

    def fall(s: Any) -> Any:
        v = np.where(near, -s, np.minimum(s, 700.0))
        w = small * np.expm1(v)
        bend = _log1p_bend(w) + small * _expm1_bend(v)
        # Far from 0 the terms do not cancel, and might overflow.
        straight = np.where(near | (s < 700.0), np.log1p(w) + np.where(near, x, -y) * s, np.log(y) + x * s)
        return slope * s + both * np.where(s < 1.0, bend, straight)

    s = (46.0 - both * np.log(y)) / a
    for _ in range(60):  # Newton's method, starting from the right
        steep = a - both * (x * np.exp(-s)) / (y + x * np.exp(-s))
        s = s - (fall(s) - 46.0) / steep
    scale = s / 46.0
    total = np.zeros_like(x)
    for node, weight in decay_nodes():
        s = node * scale
        height = weight * np.exp(-fall(s))
        total = total + (height if factor is None else height * factor(s))
    return total * scale


def beta_density_derivative(a: Any, b: Any, x: Any, *, n: int) -> Any:
    """x^(a-1) (1-x)^(b-1) / B(a, b), differentiated n times by x."""
    (a, b, x), shape, dtype = flat_arrays(a, b, x)
    with np.errstate(all="ignore"):
        inside = (a > 0) & (b > 0) & (x > 0) & (x < 1) & np.isfinite(a) & np.isfinite(b)
        p, q, t = np.where(inside, a, 1.0), np.where(inside, b, 1.0), np.where(inside, x, 0.5)
        rest = two_sum(1.0, -t)
        # For integers a <= n all terms without a power of r are 0. This power is combined with the power of x, because
        # r may be subnormal.
        joined = np.where((p <= n) & (np.rint(p) == p), n + 1.0 - p, 0.0)
        mantissa, k = exp_of_pair(beta_exponent(p, q, t, rest, n + 1.0 - joined, 1.0 + joined))
        # The sum is Leibniz's rule times x^n: C(n, k) (a-1) ... (a-k) (1-b) ... (n-k-b) r^(n-k), r = x / (1-x).
        ratio = over((t, 0.0 * t), rest)
        total: Pair = (0.0 * t, 0.0 * t)
        for j in range(n + 1):
            term: Pair = (np.full_like(t, float(comb(n, j))), 0.0 * t)
            for i in range(1, j + 1):
                term = multiply_pairs(term, two_sum(p, -float(i)))
            for i in range(1, n - j + 1):
                power = np.where(i <= joined, 1.0, ratio[0]), np.where(i <= joined, 0.0, ratio[1])
                term = multiply_pairs(multiply_pairs(term, two_sum(-q, float(i))), power)
            total = sum_pair(total, term)
        product = multiply_pairs(mantissa, total)
        out = np.where(total[0] == 0, 0.0, np.ldexp(product[0] + product[1], k))
        out = np.where(inside, out, np.nan)
        if n == 0:
            valid = (a > 0) & (b > 0)
            left_rim = np.where(a > 1, 0.0, np.where(a == 1, b, np.inf))
            right_rim = np.where(b > 1, 0.0, np.where(b == 1, a, np.inf))
            out = np.where(valid & (x == 0), left_rim, np.where(valid & (x == 1), right_rim, out))
    return out.astype(dtype).reshape(shape)[()]
