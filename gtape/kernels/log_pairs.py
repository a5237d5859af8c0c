"""Logarithms as pairs with about 100 bits, from a table and a short series."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from gtape.kernels.elementary import in_float64
from gtape.kernels.pair_functions import ONE, horner_pair, over, ratio, sum_pair
from gtape.kernels.pairs import Pair, multiply_pairs, two_product, two_sum


@lru_cache(maxsize=1)
def _logarithms() -> tuple[Any, Any]:
    """log(i/64) for i = 0 ... 91 (from 44 on), as pairs."""
    # 2 artanh(p/q) with integers, because importing `fractions` takes long.
    pairs = [(0.0, 0.0)] * 44
    common = math.lcm(*range(1, 100, 2))
    for i in range(44, 92):
        p, q = i - 64, i + 64
        terms = [p ** (2 * k + 1) * q ** (98 - 2 * k) * (common // (2 * k + 1)) for k in range(50)]
        pairs.append(ratio(2 * sum(terms), q**99 * common))
    return np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])


_LN2 = ratio(69314718055994530941723212145817656807550013436025525412068000949339362196969, 10**77)
_ARTANH = [ratio(2, 2 * k + 1) for k in range(9)]


def log_exact(x: Any) -> Pair:
    """log(x) for finite x > 0 as a pair, with about 100 bits, near 1, too."""
    m, e = np.frexp(x)
    up = m < 0.7
    m, e = np.where(up, 2.0 * m, m), e - up.astype(np.float64)
    i = np.rint(64.0 * m).astype(np.int64)
    high, low = _logarithms()
    s = over(two_sum(m, -i / 64.0), two_sum(m, i / 64.0))
    rest = multiply_pairs(horner_pair(_ARTANH, multiply_pairs(s, s)), s)
    p, q = _LN2
    head, error = two_product(e, p)
    return sum_pair(sum_pair((head, error + e * q), (high[i], low[i])), rest)


def log1p_pair(x: Pair) -> Pair:
    """log(1 + x) of pairs x >= 0 as a pair, with about 90 bits, relative to the logarithm."""
    s, rest = sum_pair(ONE, x)
    q, q_low = over((rest, 0.0), (s, 0.0))
    far = sum_pair(log_exact(s), (q, q_low - 0.5 * q * q))
    near = x[0] < 1 / 64  # where 1 + x loses digits of x
    x = np.where(near, x[0], 0.0), np.where(near, x[1], 0.0)
    t = over(x, sum_pair((2.0, 0.0), x))
    close = multiply_pairs(horner_pair(_ARTANH, multiply_pairs(t, t)), t)
    return np.where(near, close[0], far[0]), np.where(near, close[1], far[1])


# The factor is a power of 2 that keeps products in range, because exact products need room. Its logarithm is
# subtracted.
_SCALE, _LESS = 2.0**-100, 69.31471805599453
_TURN = (6.283185307179586, 2.4492935982947064e-16)


@in_float64
def log_turns(x: Any) -> Any:
    """log(2 pi x), also near 1/(2 pi), where the sum of two logarithms would cancel."""
    shift = np.where(x > 1e290, 1.0, np.where(x < 1e-290, -1.0, 0.0))
    s = np.where(shift == 1.0, x * _SCALE, np.where(shift == -1.0, x / _SCALE, x))
    high, low = two_product(s, _TURN[0])
    rest = (low + s * _TURN[1]) / high
    return np.log(high) + np.where(np.isfinite(rest), rest, 0.0) + shift * _LESS
