"""Quick formulas for float64: polynomials on short intervals, from values that a slow formula gives as pairs.

The intervals divide each octave [2^k, 2^(k+1)) into equal parts. A polynomial of degree 12 passes through the values at
13 points of an interval. Its last coefficients bound its error. If this bound is too large, the interval has no
polynomial, and the slow formula is used there. The polynomials of an octave are computed at its first use, because most
programs need few of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import cos, frexp, ldexp, nan, pi
from typing import Any

import numpy as np

from gtape.kernels.pairs import Pair, Quick

_POINTS = 13
_BITS = 200  # of the integers in which coefficients are computed
_MANTISSA = 52
_BIAS = 1023
# The error is about the next coefficient times 2**-12 (Chebyshev), and below 2**-57 if that coefficient is below this
# share of the first two.
_SMALL_ENOUGH = 2.0**-45
_FEW = 8  # up to this many numbers, arithmetic with Python's floats is faster than NumPy's calls


@lru_cache(maxsize=1)
def _points() -> tuple[int, ...]:
    """Chebyshev's points in units of 1/256, which are exact in float64. The middle one is 0."""
    return tuple(round(256.0 * cos(pi * (j + 0.5) / _POINTS)) for j in range(_POINTS))


@lru_cache(maxsize=1)
def _coefficients_of_values() -> Any:
    """The matrix from values at the points to coefficients of the polynomial, lowest first, times 2**_BITS."""
    columns = []
    for p in _points():
        basis, scale = [1], 1  # the product of (256 u - q)/(p - q) for the other points q, by powers of 256 u
        for q in _points():
            if q != p:
                basis = [before - q * here for before, here in zip([0, *basis], [*basis, 0], strict=True)]
                scale *= p - q
        columns.append([(c << _BITS + 8 * k) // scale for k, c in enumerate(basis)])
    return np.array(columns, dtype=object).T


def _integer(x: float, bits: int) -> int:
    """x times 2**bits, without a fraction."""
    mantissa, exponent = frexp(x)
    shift = exponent + bits - 53
    whole = int(ldexp(mantissa, 53))
    return whole << shift if shift >= 0 else whole >> -shift


def _next(row: list[float]) -> float:
    """The size of the next two coefficients, if even and odd ones fall geometrically."""
    a, b, c, d = (abs(v) for v in row[-4:])
    return max(c * min(1.0, c / a if a else 1.0), d * min(1.0, d / b if b else 1.0))


class Pieces:
    """A smooth function of positive numbers by polynomials on short intervals.

    Parameters
    ----------
    f : callable
        The function of a flat array, as a pair.
    low, high : int
        The range is 2**low <= x < 2**high.
    split : int
        Each octave has 2**split intervals.
    """

    def __init__(self, f: Callable[[Any], Pair], low: int, high: int, split: int = 4) -> None:
        self.f, self.low, self.high, self.split = f, low, high, split
        self.first = (low + _BIAS) << split
        self.made = np.zeros(high - low, np.bool_)
        # The coefficients by falling powers, and the low part of the last one.
        self.rows = np.full((_POINTS + 1, (high - low) << split), np.nan)

    def _make(self, octave: int) -> None:
        count = 1 << self.split
        middles = ldexp(1.0, self.low + octave) * (1.0 + (np.arange(count) + 0.5) / count)
        half = ldexp(0.5, self.low + octave - self.split)
        at = middles + half * (np.array(_points()) / 256.0)[:, None]
        high, low = (np.broadcast_to(v, at.size).reshape(at.shape) for v in self.f(at.ravel()))
        rows = np.full((_POINTS + 1, count), np.nan)
        for i in np.flatnonzero(np.isfinite(high + low).all(axis=0)).tolist():
            _, e = frexp(float(np.max(np.abs(high[:, i]))))
            bits = _BITS - e
            values = np.array(
                [_integer(h, bits) + _integer(v, bits) for h, v in zip(high[:, i], low[:, i], strict=True)], object
            )
            found = [v >> _BITS for v in _coefficients_of_values().dot(values)]
            row = [v / (1 << _BITS) for v in found]
            if _next(row) < _SMALL_ENOUGH * max(abs(row[0]), abs(row[1])):
                rest = (found[0] - _integer(row[0], _BITS)) / (1 << _BITS)
                rows[:, i] = np.ldexp([*row[::-1], rest], e)
        self.rows[:, octave << self.split : (octave + 1) << self.split] = rows
        self.made[octave] = True  # last, because another thread may read the rows

    def __call__(self, x: Any, least: float) -> Quick:
        """Values at a flat array, right where they are within the range and at least `least` of their largest term."""
        value, size = self.terms(x)
        return value, np.abs(value) >= least * size  # NaN is wrong

    def terms(self, x: Any) -> tuple[Any, Any]:
        """Values, and the sizes of the terms that round most. NaN where no polynomial is."""
        if x.size <= _FEW:
            return self._of_few(x)
        inside = (x >= ldexp(1.0, self.low)) & (x < ldexp(1.0, self.high))
        if inside.all():
            return self._at(x)
        values, sizes = np.full((2, *x.shape), np.nan)
        values[inside], sizes[inside] = self._at(x[inside])
        return values, sizes

    def _at(self, x: Any) -> tuple[Any, Any]:
        bits = np.ascontiguousarray(x).view(np.int64)
        row = (bits >> _MANTISSA - self.split) - self.first
        octave = row >> self.split
        if not self.made[octave].all():
            for k in np.unique(octave[~self.made[octave]]).tolist():
                self._make(k)
        # The place in the interval, from -1 to 1, exactly.
        inner = (1 << _MANTISSA - self.split) - 1
        u = (bits & inner) * ldexp(1.0, self.split - _MANTISSA + 1) - 1.0
        rows = self.rows.take(row, axis=1)
        value = rows[0] * u
        for c in rows[1 : _POINTS - 1]:
            value += c
            value *= u
        first = rows[_POINTS - 1]
        return first + (value + rows[_POINTS]), np.abs(first)

    def _of_few(self, x: Any) -> tuple[Any, Any]:
        """The same for each number, with the same roundings."""
        values, sizes = [], []
        for v in x.tolist():
            value = first = nan
            mantissa, exponent = frexp(v)
            octave = exponent - 1 - self.low
            if 0.5 <= mantissa < 1.0 and 0 <= octave < len(self.made):  # false for NaN and infinity, too
                if not self.made[octave]:
                    self._make(octave)
                place = ldexp(2.0 * mantissa - 1.0, self.split)
                row = int(place)
                u = 2.0 * (place - row) - 1.0
                *falling, first, rest = self.rows[:, (octave << self.split) + row].tolist()
                value = 0.0
                for c in falling:
                    value = (value + c) * u
                value = first + (value + rest)
            values.append(value)
            sizes.append(abs(first))
        return np.array(values), np.array(sizes)


def joined(x: Any, *regions: tuple[Any, Callable[[Any], Quick | None]]) -> Quick | None:
    """The values of each region's quick formula in its part of a flat array."""
    values, right = np.full(x.shape, np.nan), np.zeros(x.shape, np.bool_)
    for mask, quick in regions:
        if mask.all():
            return quick(x)
        if mask.any():
            found = quick(x[mask])
            if found is not None:
                values[mask], right[mask] = found
    return (values, right) if right.any() else None
