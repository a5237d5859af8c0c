"""Points of search for bad derivatives: every binade, both sides of special points, ties, near the worst so far."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from gtape.declare.domains import BOOLEAN, Interval
from gtape.declare.primitives import Primitive

__all__ = [
    "NEIGHBOURS", "binades", "climb", "landmarks", "neighbours", "points_for", "saturation", "steps", "unsteps",
]  # fmt: skip

NEIGHBOURS = 64  # on each side of a special point


def steps(x: Any, dtype: Any) -> Any:
    """Floats as integers in the same order: neighbours differ by 1; both zeros are 0.

    Parameters
    ----------
    x : array of floats
    dtype : float64, float32 or float16

    Returns
    -------
    int64 array
    """
    dtype = np.dtype(dtype)
    signed = np.dtype(f"i{dtype.itemsize}")
    bits = np.asarray(x, dtype=dtype).view(signed).astype(np.int64)
    magnitude = bits & np.int64(np.iinfo(signed).max)
    return np.where(bits < 0, -magnitude, magnitude)


def unsteps(n: Any, dtype: Any) -> Any:
    """The inverse of `steps`, clipped at the largest finite number."""
    dtype = np.dtype(dtype)
    signed = np.dtype(f"i{dtype.itemsize}")
    top = int(steps(np.finfo(dtype).max, dtype))
    n = np.clip(np.asarray(n, dtype=np.int64), -top, top)
    magnitude = np.abs(n).astype(signed).view(dtype)
    return np.where(n < 0, -magnitude, magnitude)


def neighbours(x: float, dtype: Any, count: int = NEIGHBOURS) -> Any:
    """A number and `count` neighbours on each side."""
    at = steps(np.array(x), dtype)
    found = unsteps(at + np.arange(-count, count + 1), dtype)
    return np.append(found, np.asarray(-0.0, dtype=dtype)) if x == 0 else found


@cache
def saturation(dtype: Any) -> tuple[float, ...]:
    """Points where exponentials, squares and cubes leave the range of a dtype."""
    f = np.finfo(dtype)
    top, tiny, least = float(f.max), float(f.tiny), float(f.smallest_subnormal)
    eps = float(f.eps)
    logs = [math.log(v) for v in (top, tiny, least)]
    roots = [v**p for v in (top, tiny) for p in (1 / 2, 1 / 3, 2 / 3)]
    return (*logs, *[-v for v in logs], *roots, eps, 1 / eps, tiny, top)


def landmarks(prim: Primitive, i: int, dtype: Any) -> list[float]:
    """The points of argument `i` to search around: special points, kinks, ends and holes of the interval, zero."""
    interval = prim.domain.intervals[i]
    declared = [
        p
        for p in (*prim.special, *prim.kinks, *interval.holes, interval.lo, interval.hi, 0.0)
        if isinstance(p, (int, float))
    ]
    finite = {float(np.dtype(dtype).type(p)) for p in declared if math.isfinite(p)}
    return sorted(p for p in finite if p in interval or p in (interval.lo, interval.hi, *interval.holes))


def binades(interval: Interval, dtype: Any, rng: np.random.Generator) -> Any:
    """One random number from every binade of both signs that meets the interval, subnormal ones included."""
    f = np.finfo(dtype)
    exponents = np.arange(f.minexp - f.nmant, f.maxexp)
    low = np.ldexp(1.0, exponents)
    top = float(f.max)
    parts = []
    for sign in (1.0, -1.0):
        with np.errstate(over="ignore"):
            twice = np.minimum(2 * low, top)
        a, b = (low, twice) if sign > 0 else (-twice, -low)
        left, right = np.maximum(a, interval.lo), np.minimum(b, interval.hi)
        keep = left < right
        left, right = left[keep], right[keep]
        parts.append((left + rng.random(len(left)) * (right - left)).astype(dtype))
    return np.concatenate(parts)


def _moderate(interval: Interval, dtype: Any, rng: np.random.Generator, n: int) -> Any:
    """Numbers of moderate size, as in most programs, including integers and halves."""
    plain = rng.choice([-1.0, 1.0], n) * np.exp2(rng.uniform(-12, 8, n))
    kind = rng.integers(0, 8, n)
    plain = np.where(kind == 0, rng.integers(-20, 21, n) / 2.0, plain)
    plain = np.where(kind == 1, rng.integers(-4, 5, n), plain)
    if math.isfinite(interval.lo) and math.isfinite(interval.hi):
        plain = np.where(kind >= 4, rng.uniform(interval.lo, interval.hi, n), plain)
    return plain.astype(dtype)


def _approaches(marks: list[float], dtype: Any, rng: np.random.Generator, n: int) -> Any:
    """Numbers at every distance, by powers of 2, from a special point."""
    if not marks or not n:
        return np.zeros(0, dtype=dtype)
    at = rng.choice(marks, n)
    away = np.exp2(rng.uniform(-np.finfo(dtype).nmant - 2, 1, n)) * rng.choice([-1.0, 1.0], n)
    return (at + away * np.where(at == 0, 1.0, np.abs(at))).astype(dtype)


def _whole(interval: Interval, dtype: Any, rng: np.random.Generator, n: int) -> Any:
    """Integers of an interval, mostly small ones."""
    x = np.rint(_moderate(interval, dtype, rng, n))
    return np.clip(x, max(interval.lo, -(2.0**20)), min(interval.hi, 2.0**20)).astype(dtype)


def _inside(interval: Interval, x: Any) -> Any:
    above = (x > interval.lo) | ((x == interval.lo) & (not interval.open_lo))
    below = (x < interval.hi) | ((x == interval.hi) & (not interval.open_hi))
    inside = above & below & ~np.isin(x, interval.holes) & np.isfinite(x)
    return inside & (x == np.rint(x)) if interval.whole else inside


def _in_domain(prim: Primitive, columns: list[Any]) -> list[Any]:
    """The points inside the domain of a primitive, one column per argument."""
    keep = np.logical_and.reduce([_inside(i, c) for i, c in zip(prim.domain.intervals, columns, strict=True)])
    where = prim.domain.where
    if where is not None:
        rows = zip(keep, *[c.tolist() for c in columns], strict=True)
        keep = keep & np.fromiter((k and bool(where(*p)) for k, *p in rows), bool, len(keep))
    return [c[keep] for c in columns]


def _column(prim: Primitive, i: int, dtype: Any, rng: np.random.Generator, n: int, around: int) -> Any:
    interval = prim.domain.intervals[i]
    if interval is BOOLEAN:
        return rng.integers(0, 2, n).astype(dtype)
    if interval.whole:
        return _whole(interval, dtype, rng, n)
    marks = landmarks(prim, i, dtype)
    # The declared points, then some around points where functions of this dtype may saturate.
    near = [neighbours(p, dtype, around) for p in marks]
    near += [neighbours(p, dtype, max(around // 16, 1)) for p in saturation(np.dtype(dtype))]
    wide = binades(interval, dtype, rng)
    fixed = np.concatenate([*near, np.array([-0.0, 0.0], dtype=dtype)])
    room = max(n - len(fixed), n // 4)
    if len(wide) > room * 2 // 3:
        wide = rng.choice(wide, room * 2 // 3, replace=False)
    room -= len(wide)
    rest = [_approaches(marks, dtype, rng, room // 2), _moderate(interval, dtype, rng, room - room // 2)]
    column = np.concatenate([fixed, wide, *rest])
    return column[_inside(interval, column)]


def _related(x: Any, dtype: Any, rng: np.random.Generator) -> Any:
    """Partners of numbers: ties, negatives, neighbours, close ratios."""
    n = len(x)
    kind = rng.integers(0, 6, n)
    ulps = rng.integers(-NEIGHBOURS, NEIGHBOURS + 1, n)
    with np.errstate(over="ignore", under="ignore"):
        near = unsteps(steps(x, dtype) + ulps, dtype)
        ratio = x * np.exp2(rng.uniform(-60, 60, n))
        close = x * (1 + rng.choice([-1.0, 1.0], n) * np.exp2(rng.uniform(-np.finfo(dtype).nmant, 0, n)))
        y = np.select([kind == 0, kind == 1, kind == 2, kind == 3, kind == 4], [x, near, -near, ratio, -ratio], close)
        return y.astype(dtype)


def points_for(prim: Primitive, dtype: Any, n: int, rng: np.random.Generator) -> list[Any]:
    """About `n` points in the domain of an elementwise primitive.

    Parameters
    ----------
    dtype : floating dtype
    n : int
        Below 10,000, the points include fewer neighbours of special points, and not every binade.

    Returns
    -------
    list of 1-d arrays of `dtype`, one per argument
        Conditions as 0 and 1.
    """
    around = NEIGHBOURS if n >= 10_000 else max(4, NEIGHBOURS * n // 10_000)
    if prim.arity == 1:
        return [_column(prim, 0, dtype, rng, n, around)]
    parts: list[list[Any]] = []
    total = 0
    for _ in range(6):
        size = n // 2
        columns = [rng.permutation(_column(prim, i, dtype, rng, size, around)) for i in range(prim.arity)]
        # Each column holds every binade; repeat the shorter columns.
        longest = max(map(len, columns))
        free = [np.resize(c, longest) for c in columns]
        marked = [_some(prim, i, dtype, rng, n // 4, around) for i in range(prim.arity)]
        tied = [np.resize(columns[0] if prim.domain.intervals[0] is not BOOLEAN else columns[-1], n // 4)]
        tied = [_related(tied[0], dtype, rng) if i else tied[0] for i in range(prim.arity)]
        for i, interval in enumerate(prim.domain.intervals):
            if interval is BOOLEAN:
                tied[i] = rng.integers(0, 2, n // 4).astype(dtype)
            elif interval.whole:
                tied[i] = _whole(interval, dtype, rng, n // 4)
        together = [np.concatenate(c) for c in zip(free, marked, tied, strict=True)]
        parts.append(_in_domain(prim, together))
        total += len(parts[-1][0])
        if total >= n * 9 // 10:
            break
    order = rng.permutation(total)[: max(n * 3 // 2, 1)]
    return [np.concatenate([p[i] for p in parts])[order] for i in range(prim.arity)]


def _some(prim: Primitive, i: int, dtype: Any, rng: np.random.Generator, n: int, around: int) -> Any:
    """Special points and their neighbours in random order, mixed with numbers of moderate size."""
    interval = prim.domain.intervals[i]
    if interval is BOOLEAN:
        return rng.integers(0, 2, n).astype(dtype)
    if interval.whole:
        return _whole(interval, dtype, rng, n)
    marks = landmarks(prim, i, dtype)
    pool = np.concatenate([neighbours(p, dtype, around) for p in marks] + [np.array(marks, dtype=dtype)] * 8)
    half = rng.choice(pool, n)
    return np.where(rng.random(n) < 0.5, half, _moderate(interval, dtype, rng, n))


def climb(prim: Primitive, best: list[Any], dtype: Any, n: int, rng: np.random.Generator) -> list[Any]:
    """About `n` points around the worst points so far, at distances from one neighbouring float to a few binades.

    Parameters
    ----------
    best : list of 1-d arrays
        The worst points, one array per argument.
    """
    count = len(best[0])
    if not count or n < 1:
        return [b[:0] for b in best]
    pick = rng.integers(0, count, n)
    made = []
    for i, interval in enumerate(prim.domain.intervals):
        x = best[i][pick]
        if interval is BOOLEAN or interval.whole:
            made.append(x)
            continue
        reach = np.exp2(rng.uniform(0, np.finfo(dtype).nmant + 2, n)).astype(np.int64)
        move = np.where(rng.random(n) < 0.8, reach * rng.choice([-1, 1], n), 0)
        made.append(unsteps(steps(x, dtype) + move, dtype))
    return _in_domain(prim, made)
