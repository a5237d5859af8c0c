"""Elementary functions of pairs (numbers held as two floats) with about 85 bits, for slopes whose terms cancel.

Sums are normalised, because after a cancellation the low part may be the larger one, and products need a larger high
part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from gtape.kernels.pairs import Pair, multiply_pairs, two_product, two_sum

if TYPE_CHECKING:
    from fractions import Fraction

ONE: Pair = (1.0, 0.0)


def exact(c: int | Fraction) -> Pair:
    """The pair of a rational constant."""
    return ratio(c.numerator, c.denominator)


def ratio(n: int, d: int) -> Pair:
    """n / d as a pair. Uses integers, because the import of `fractions` takes longer than that of a family of ops."""
    high = n / d
    over, under = high.as_integer_ratio()
    return high, (n * under - over * d) / (d * under)


def sum_pair(a: Pair, b: Pair) -> Pair:
    """The normalised sum of two pairs."""
    s, e = two_sum(a[0], b[0])
    t, f = two_sum(a[1], b[1])
    high, low = two_sum(s, e + t)
    return two_sum(high, low + f)


def difference(a: Pair, b: Pair) -> Pair:
    """The normalised difference of two pairs."""
    return sum_pair(a, (-b[0], -b[1]))


def over(a: Pair, b: Pair) -> Pair:
    """The quotient of two pairs as a pair."""
    q = a[0] / b[0]
    p, e = two_product(q, b[0])
    return two_sum(q, (((a[0] - p) - e) + (a[1] - q * b[1])) / b[0])


def power_pair(a: Pair, n: int) -> Pair:
    """A pair to the power of an integer n >= 0."""
    out = ONE
    for _ in range(n):
        out = a if out is ONE else multiply_pairs(out, a)
    return out


def horner_pair(coefficients: Sequence[Pair], x: Pair) -> Pair:
    """The value of a polynomial with pairs as coefficients, lowest first."""
    if np.size(x[0]) <= _FEW and all(c[0].__class__ is float for c in coefficients[:-1]):
        return _horner_of_few(coefficients, x)
    value = coefficients[-1]
    for c in coefficients[-2::-1]:
        value = sum_pair(multiply_pairs(value, x), c)
    return value


_FEW = 16  # up to this many numbers, arithmetic with Python's floats is faster than NumPy's calls


def _horner_of_few(coefficients: Sequence[Pair], x: Pair) -> Pair:
    """`horner_pair` for each number, with the same roundings. Only the last coefficient may hold arrays."""
    columns = np.broadcast_arrays(*x, *coefficients[-1])
    values = np.empty((columns[0].size, 2))
    others = coefficients[-2::-1]
    for k, (b, bb, v, vv) in enumerate(zip(*(column.ravel().tolist() for column in columns), strict=True)):
        bh = 134217729.0 * b
        bh -= bh - b
        bl = b - bh
        for c, cc in others:
            # the steps of multiply_pairs
            p = v * b
            ah = 134217729.0 * v
            ah -= ah - v
            al = v - ah
            pp = (((ah * bh - p) + ah * bl + al * bh) + al * bl) + (v * bb + vv * b)
            # the steps of sum_pair
            s = p + c
            t = s - p
            e = (p - (s - t)) + (c - t)
            f = pp + cc
            t = f - pp
            ff = (pp - (f - t)) + (cc - t)
            e += f
            h = s + e
            t = h - s
            e = ((s - (h - t)) + (e - t)) + ff
            v = h + e
            t = v - h
            vv = (h - (v - t)) + (e - t)
        values[k] = v, vv
    high, low = values.T.reshape(2, *columns[0].shape)
    return high, low


def rounded(a: Pair, exponent: Any = 0) -> Any:
    """A pair times 2**exponent, as one float."""
    return np.ldexp(a[0] + a[1], exponent)


# exponential --------------------------------------------------------------------------------------------------------

# ln(2): 32 bits, so that its multiples by integers below 2**21 are exact; the rest as a pair.
_LN2 = (0.6931471803691238, 1.9082149292705877e-10, 1.1612227229362532e-26)
_INVERSE_LN2 = 1.4426950408889634
_EXP = [ratio(1, math.factorial(k)) for k in range(1, 9)]
_EXP_REST = [1.0 / math.factorial(k) for k in range(9, 14)]
_HALVINGS = 3


def exp_parts(x: Pair) -> tuple[Pair, Any]:
    """A pair p and an integer k with exp(x) = (1 + p) 2**k, abs(p) < 0.42, for abs(x) < 1e5. k is 0 below ln(2)/2."""
    k = np.rint(x[0] * _INVERSE_LN2)
    head = two_sum(x[0] - k * _LN2[0], 0.0)
    mid = two_product(-k, _LN2[1])
    r = sum_pair(sum_pair(head, mid), (x[1], -k * _LN2[2]))
    s = (r[0] / 2**_HALVINGS, r[1] / 2**_HALVINGS)
    rest: Any = _EXP_REST[-1]
    for c in _EXP_REST[-2::-1]:
        rest = rest * s[0] + c
    p = multiply_pairs(horner_pair([*_EXP, (rest, 0.0)], s), s)
    for _ in range(_HALVINGS):  # because expm1(2s) = expm1(s) (2 + expm1(s))
        p = multiply_pairs(p, sum_pair((2.0, 0.0), p))
    return p, np.where(np.isnan(k), 0.0, k).astype(np.int32)


def expm1_pair(p: Pair, k: Any) -> Pair:
    """exp(x) - 1 from the parts of exp(x)."""
    far = difference((np.ldexp(1.0 + p[0], k), np.ldexp((1.0 - (1.0 + p[0])) + p[0] + p[1], k)), ONE)
    return np.where(k == 0, p[0], far[0]), np.where(k == 0, p[1], far[1])


# sine and cosine ----------------------------------------------------------------------------------------------------

_SINE = [ratio((-1) ** k, math.factorial(2 * k + 1)) for k in range(8)]
_COSINE = [ratio((-1) ** k, math.factorial(2 * k)) for k in range(8)]
_SINE_REST = [(-1) ** k / math.factorial(2 * k + 1) for k in range(8, 14)]
_COSINE_REST = [(-1) ** k / math.factorial(2 * k) for k in range(8, 14)]


def sine_and_cosine(r: Pair) -> tuple[Pair, Pair]:
    """Sine and cosine of a pair within pi/4."""
    z = multiply_pairs(r, r)

    def series(head: list[Pair], tail: list[float]) -> Pair:
        rest: Any = tail[-1]
        for c in tail[-2::-1]:
            rest = rest * z[0] + c
        return horner_pair([*head, (rest, 0.0)], z)

    return multiply_pairs(series(_SINE, _SINE_REST), r), series(_COSINE, _COSINE_REST)


def turned(turn: Any, rest: Pair) -> tuple[Pair, Pair]:
    """Sine and cosine of an angle, given as the number of quarter turns and the rest."""
    s, c = sine_and_cosine(rest)
    odd, half = (turn & 1).astype(bool), np.where(turn & 2, -1.0, 1.0)
    sine = np.where(odd, c[0], s[0]) * half, np.where(odd, c[1], s[1]) * half
    return sine, (np.where(odd, -s[0], c[0]) * half, np.where(odd, -s[1], c[1]) * half)


# pi/2: 33 bits, 33 bits, and a pair.
_HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21, 1.0085854035872483e-37)
_BITS = 1300
_PI = (3.141592653589793, 1.2246467991473532e-16)


@lru_cache(maxsize=1)
def _two_over_pi() -> int:
    """2/pi times 2**_BITS, with pi by Machin's formula."""
    one = 1 << _BITS + 64

    def inverse_tangent(n: int) -> int:
        total, term, k = 0, one // n, 1
        while term:
            total += term // k if k % 4 == 1 else -(term // k)
            term //= n * n
            k += 2
        return total

    return (one << _BITS + 1) // (16 * inverse_tangent(5) - 4 * inverse_tangent(239))


def _far_turn(x: float) -> tuple[int, float, float]:
    """The number of quarter turns (mod 4) in a large x, and the rest in two parts, by integer arithmetic."""
    mantissa, exponent = math.frexp(x)
    product = int(mantissa * 2.0**53) * _two_over_pi()
    shift = _BITS - (exponent - 53)
    quarters = (product + (1 << shift - 1)) >> shift
    left = ratio(product - (quarters << shift), 1 << shift)
    a, b = multiply_pairs(left, (0.5 * _PI[0], 0.5 * _PI[1]))
    return quarters & 3, float(a), float(b)


def turn_and_rest(x: Any) -> tuple[Any, Pair]:
    """The number of quarter turns (mod 4) in an angle x, and the rest as a pair within pi/4; NaN for infinite x."""
    x = np.where(np.isfinite(x), x, np.nan)
    k = np.rint(x * (2.0 / math.pi))
    far = np.abs(x) > 1e5
    k = np.where(far | np.isnan(k), 0.0, k)
    r = two_sum(x, -k * _HALF_PI[0])
    r = sum_pair(r, two_sum(-k * _HALF_PI[1], 0.0))
    p, e = two_product(-k, _HALF_PI[2])
    r = sum_pair(r, (p, e - k * _HALF_PI[3]))
    turn = k.astype(np.int64) & 3
    if np.any(far):
        found = [_far_turn(v) for v in np.asarray(x)[far].tolist()]
        turn, high, low = (np.array(v) for v in (turn, *r))
        turn[far], high[far], low[far] = ([f[i] for f in found] for i in range(3))
        r = high, low
    return turn, r


def turn_of_pi(x: Any) -> tuple[Any, Pair]:
    """The function `turn_and_rest` for the angle pi x."""
    r = np.fmod(np.where(np.isfinite(x), x, np.nan), 2.0)
    k = np.rint(2.0 * r)
    turn = np.where(np.isnan(k), 0.0, k).astype(np.int64) & 3
    return turn, multiply_pairs(_PI, (r - 0.5 * k, 0.0 * r))
