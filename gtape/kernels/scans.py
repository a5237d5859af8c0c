"""Kernels of scans: cumulative sums and products, the derivatives of products, linear recurrences.

No kernel of a product divides, so results are exact with any number of zeros. The kernels of products keep exponents
apart from the digits if a product on the way may leave the range of floats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def _along(axis: int, part: slice) -> tuple[Any, ...]:
    """An index for a part of one axis, which is counted from the end."""
    return (Ellipsis, part) + (slice(None),) * (-axis - 1)


_FORTH, _BACK = slice(None), slice(None, None, -1)


# ---------------------------------------------------------------------------------------------- shifts and sums


def shift(x: Any, *, axis: int, by: int) -> Any:
    """The values moved along by `by` places, and zeros."""
    y = np.zeros_like(x)
    if by > 0:
        y[_along(axis, slice(by, None))] = x[_along(axis, slice(None, -by))]
    else:
        y[_along(axis, slice(None, by))] = x[_along(axis, slice(-by, None))]
    return y


def exclusive_scan(x: Any, axis: int, first: int) -> Any:
    """The values moved along by one place, after the neutral element."""
    y = np.empty_like(x)
    y[_along(axis, slice(1, None))] = x[_along(axis, slice(None, -1))]
    y[_along(axis, slice(None, 1))] = first
    return y


def cumsum(x: Any, *, axis: int, exclusive: bool, reverse: bool) -> Any:
    """Running sums."""
    way = _along(axis, _BACK if reverse else _FORTH)
    y = np.add.accumulate(x[way], axis=axis, dtype=x.dtype)
    return (exclusive_scan(y, axis, 0) if exclusive else y)[way]


# ---------------------------------------------------------------------------------------------- linear recurrences


def recurrence(a: Any, b: Any, *, axis: int, reverse: bool) -> Any:
    """The recurrence ``y[i] = a[i] y[i - 1] + b[i]`` along an axis."""
    n = b.shape[axis]
    if a.shape != b.shape:
        raise ValueError(f"a recurrence needs factors and terms of one shape, not {a.shape} and {b.shape}")
    if b.size == n and b.dtype == a.dtype == np.float64:
        # For one row, Python's floats are faster than NumPy's scalars.
        return _recurrence_of_floats(a.ravel(), b.ravel(), reverse).reshape(b.shape)
    y = b.astype(np.result_type(a, b))  # real terms may have complex factors
    a, s = np.moveaxis(a, axis, 0), np.moveaxis(y, axis, 0)
    for i in range(n - 2, -1, -1) if reverse else range(1, n):
        s[i] += a[i] * s[i + 1 if reverse else i - 1]
    return y


def _recurrence_of_floats(a: Any, b: Any, reverse: bool) -> Any:
    factors, terms = a.tolist(), b.tolist()
    if reverse:
        factors.reverse()
        terms.reverse()
    s = 0.0
    out = []
    for i, (f, t) in enumerate(zip(factors, terms, strict=True)):
        # The first factor is skipped, because it may be infinite.
        s = f * s + t if i else t
        out.append(s)
    if reverse:
        out.reverse()
    return np.array(out)


# ---------------------------------------------------------------------------------------------- running products


def _fraction_scan(x: Any) -> tuple[Any, Any]:
    """Running products along axis 0 as fractions near 1 and exponents, which neither overflow nor underflow."""
    f, e = np.frexp(x.astype(np.float64))
    return _scanned(f, e.astype(np.int64))


def _scanned(f: Any, e: Any) -> tuple[Any, Any]:
    """Running products along axis 0 of numbers with fractions `f` and exponents `e`."""
    f, e = f.copy(), np.add.accumulate(e, axis=0)
    lost: Any = 0
    for start in range(0, len(f), _BLOCK):
        block = slice(start, start + _BLOCK)
        if start:
            f[start] *= f[start - 1]
        f[block], more = np.frexp(np.multiply.accumulate(f[block], axis=0))
        e[block] += more + lost
        lost = lost + more[-1]
    return f, e


_BLOCK = 512  # fractions whose product is not subnormal


def _joined(f: Any, e: Any, dtype: Any) -> Any:
    """The numbers with fractions `f` and exponents `e`."""
    return np.ldexp(f, _power(e)).astype(dtype)


_SAFE = {np.dtype(t): (float(np.finfo(t).tiny / np.finfo(t).eps), float(np.finfo(t).max)) for t in "efd"}


def _strayed(y: Any) -> bool:
    """Whether an intermediate product may have overflowed or underflowed."""
    if y.dtype not in _SAFE:
        return False
    low, high = _SAFE[y.dtype]
    size = np.abs(y)
    return not (low < size.min() and size.max() <= high) if y.ndim else not low < size <= high


def cumprod(x: Any, *, axis: int, exclusive: bool, reverse: bool) -> Any:
    """Running products, which stay in range wherever the result does."""
    way = _along(axis, _BACK if reverse else _FORTH)
    z = x[way]
    y = np.multiply.accumulate(z, axis=axis, dtype=x.dtype)
    if y.size and _strayed(y):
        y = np.moveaxis(_joined(*_fraction_scan(np.moveaxis(z, axis, 0)), x.dtype), 0, axis)
    return (exclusive_scan(y, axis, 1) if exclusive else y)[way]


_DOWN = -2  # the axis of columns


class _Floats:
    """Calculations with floats as they are."""

    @staticmethod
    def given(a: Any) -> Any:
        return a

    @staticmethod
    def floats(a: Any) -> Any:
        return a

    @staticmethod
    def turned(a: Any) -> Any:
        """The numbers in the opposite order."""
        return a[::-1]

    @staticmethod
    def shifted(a: Any) -> Any:
        """The numbers moved along by one place, after 0."""
        return shift(a, axis=_DOWN, by=1)

    @staticmethod
    def times(a: Any, b: Any) -> Any:
        """The product, which is 0 where `b` is 0: no direction adds nothing, even if other elements are infinite."""
        y = a * b
        return y if np.isfinite(y).all() else np.where(b == 0, 0, y)

    @staticmethod
    def total(terms: Sequence[Any]) -> Any:
        return sum(terms[1:], terms[0])

    @staticmethod
    def before(x: Any) -> Any:
        """The products of the factors before each factor."""
        return cumprod(x, axis=_DOWN, exclusive=True, reverse=False)

    @staticmethod
    def recurrence(x: Any, terms: Any) -> Any:
        """The recurrence ``y[i] = x[i] y[i - 1] + terms[i]``."""
        return recurrence(x, terms, axis=_DOWN, reverse=False)


_NOTHING = -(2**61)  # the exponent of 0, far below all sums of other exponents


def _normal(f: Any, e: Any) -> tuple[Any, Any]:
    """The same numbers with fractions between 1/2 and 1."""
    f, more = np.frexp(f)
    return f, np.where(f == 0, _NOTHING, e + more)


def _power(e: Any) -> Any:
    """Exponents as `ldexp` takes them."""
    return np.clip(e, -5000, 5000).astype(np.int32)


class _Wide:
    """The calculations of `_Floats` with finite numbers as fractions and exponents, which stay in range."""

    @staticmethod
    def given(a: Any) -> Any:
        return _normal(a, np.int64(0))

    @staticmethod
    def floats(a: Any) -> Any:
        return np.ldexp(a[0], _power(a[1]))

    @staticmethod
    def turned(a: Any) -> Any:
        return a[0][::-1], a[1][::-1]

    @staticmethod
    def shifted(a: Any) -> Any:
        return exclusive_scan(a[0], _DOWN, 0), exclusive_scan(a[1], _DOWN, _NOTHING)

    @staticmethod
    def times(a: Any, b: Any) -> Any:
        return _normal(a[0] * b[0], a[1] + b[1])

    @staticmethod
    def total(terms: Sequence[Any]) -> Any:
        if len(terms) == 1:
            return terms[0]
        top = np.maximum.reduce([e for _, e in terms])
        return _normal(sum(np.ldexp(f, _power(e - top)) for f, e in terms), top)

    @staticmethod
    def products(x: Any) -> Any:
        """Running products. A power of two far below all other products stands for a factor 0."""
        zero = x == 0
        f, e = np.frexp(np.where(zero, 0.5, x))
        return _scanned(f, np.where(zero, -4096 * (len(x) + 2), e.astype(np.int64)))

    @staticmethod
    def before(x: Any) -> Any:
        f, e = _Wide.products(x)
        f = np.where(np.logical_or.accumulate(x == 0, axis=0), 0.0, f)
        return _normal(exclusive_scan(f, _DOWN, 1), exclusive_scan(e, _DOWN, 0))

    @staticmethod
    def recurrence(x: Any, terms: Any) -> Any:
        f, e = terms
        # Numbers are divided by the product of the factors so far and by the largest of the terms so far, each of which
        # is itself divided by the product up to it. The factors of the divided numbers have no product above 2.
        product = _Wide.products(x)[1]
        scale = product + np.maximum.accumulate(e - product, axis=0)
        x = np.ldexp(x, _power(exclusive_scan(scale, _DOWN, 0) - scale))
        return _normal(_Floats.recurrence(x, np.ldexp(f, _power(e - scale))), scale)


def _moved(world: Any, made: dict[int, Any], ts: list[Any], s: int) -> Any:
    """The sum over the directions in the set `s` of each direction times the derivative along the others."""
    return world.total([world.times(made[s ^ 1 << i], t) for i, t in enumerate(ts) if s >> i & 1])


def _before(world: Any, x: Any, ts: list[Any], sets: range) -> dict[int, Any]:
    """The derivatives of the products before each element along sets of directions, which are written as bits."""
    made = {0: world.before(x)}
    for s in sets:
        made[s] = world.shifted(world.recurrence(x, _moved(world, made, ts, s)))
    return made


def _pushed(world: Any, x: Any, ts: list[Any]) -> Any:
    """The derivative of running products along all directions."""
    ts = [world.given(t) for t in ts]
    every = (1 << len(ts)) - 1
    made = _before(world, x, ts, range(1, every))
    return world.floats(world.recurrence(x, _moved(world, made, ts, every)))


def _pulled(world: Any, x: Any, gs: list[Any]) -> Any:
    """Products of the elements before an element and of sums over the products after it, along all directions."""
    g, *ts = [world.given(t) for t in gs]
    sets = range(1, 1 << len(ts))
    before = _before(world, x, ts, sets)
    backwards = [world.turned(t) for t in ts]
    factors = exclusive_scan(x[::-1], _DOWN, 1)
    after = {0: world.recurrence(factors, world.turned(g))}
    for s in sets:
        after[s] = world.recurrence(factors, world.shifted(_moved(world, after, backwards, s)))
    every = len(sets)
    return world.floats(world.total([world.times(before[every ^ s], world.turned(v)) for s, v in after.items()]))


def _reach(a: Any, axis: int | None = None) -> Any:
    """The greatest distance of the exponents of numbers other than 0 from 0."""
    size = np.abs(a)
    low = np.min(size, axis=axis, initial=1.0)
    if not np.all(low):
        low = np.min(np.where(size == 0, 1.0, size), axis=axis, initial=1.0)
    return np.maximum(np.log2(np.max(size, axis=axis, initial=1.0)), -np.log2(low))


_ROOM = 960  # the exponents of float64 without the subnormal numbers and with a margin


def _calm_reach(a: Any) -> float:
    """`_reach` of all numbers, without the overhead of small arrays."""
    size = np.abs(a)
    low, high = float(np.minimum.reduce(size, axis=None)), float(np.maximum.reduce(size, axis=None))
    if not low:
        low = float(np.min(size, where=size > 0, initial=1.0))
    return max(abs(math.log2(low)), abs(math.log2(high or 1.0)))


def _straying(x: Any, ts: list[Any]) -> Any:
    """For each column of finite numbers, whether a product on the way may overflow or be subnormal; None for never."""
    margin = _ROOM - len(ts) * math.log2(4 * len(x))
    if len(x) * _calm_reach(x) + sum(map(_calm_reach, ts)) < margin:
        return None
    products = np.abs(x)
    products[products == 0] = 1.0
    np.multiply.accumulate(products, axis=0, out=products)
    # A product of neighbours cannot leave the span of the running products. Each direction takes out one factor.
    span = np.log2(np.max(products, axis=0, initial=1.0)) - np.log2(np.min(products, axis=0, initial=1.0))
    strays = ~(span + len(ts) * _reach(x, 0) + sum(_reach(t, 0) for t in ts) < margin)
    if strays.any():
        for a in (x, *ts):
            strays &= np.isfinite(a).all(axis=0)
    return strays


def _derivative(function: Any, x: Any, ts: list[Any]) -> Any:
    """`_pushed` or `_pulled` along axis 0 of columns, with exponents apart in those columns that need it."""
    if not x.size:
        return np.zeros_like(x)
    x, *ts = (a.astype(np.complex128 if a.dtype.kind == "c" else np.float64, copy=False) for a in (x, *ts))
    if x.dtype.kind == "c":
        return function(_Floats, x, ts)
    strays = _straying(x, ts)
    if strays is None:
        return function(_Floats, x, ts)
    if strays.all():
        return function(_Wide, x, ts)
    y = function(_Floats, x, ts)
    if strays.any():
        y[:, strays] = function(_Wide, x[:, strays], [t[:, strays] for t in ts])
    return y


def _columns(x: Any, ts: Any, axis: int, reverse: bool) -> tuple[Any, list[Any]]:
    """The factors and the directions along `axis` as columns, in the order of the products."""
    if x.ndim == 1:  # without the overhead of moved axes
        turn = _BACK if reverse else _FORTH
        return x[turn, None], [ts[turn, i : i + 1] for i in range(ts.shape[-1])]
    columns = []
    for a in (x, *np.moveaxis(ts, -1, 0)):
        a = np.moveaxis(a, axis, 0)
        columns.append((a[::-1] if reverse else a).reshape(len(a), math.prod(a.shape[1:])))
    return columns[0], columns[1:]


def _as_given(y: Any, x: Any, axis: int, reverse: bool) -> Any:
    """Columns in the layout and the dtype of `x`."""
    y = (y[::-1] if reverse else y).astype(x.dtype, copy=False)
    if x.ndim == 1:
        return y.reshape(x.shape)
    return np.moveaxis(y.reshape(np.moveaxis(x, axis, 0).shape), 0, axis)


def cumprod_push(x: Any, ts: Any, *, axis: int, exclusive: bool, reverse: bool) -> Any:
    """The derivative of running products along the directions that `ts` stacks along its last axis."""
    a, moves = _columns(x, ts, axis, reverse)
    if exclusive:
        # No product contains the last element, so its infinity or NaN must not spread.
        y = _derivative(_pushed, a[:-1], [t[:-1] for t in moves])
        y = np.concatenate([np.zeros_like(a[:1], y.dtype), y])
    else:
        y = _derivative(_pushed, a, moves)
    return _as_given(y, x, axis, reverse)


def cumprod_pull(x: Any, gs: Any, *, axis: int, exclusive: bool, reverse: bool) -> Any:
    """The gradient of ``g . D^k cumprod(x)[t_1, ..., t_k]``, where `gs` stacks g and all t along its last axis."""
    a, (g, *moves) = _columns(x, gs, axis, reverse)
    if exclusive:
        y = _derivative(_pulled, a[:-1], [g[1:], *[t[:-1] for t in moves]])
        y = np.concatenate([y, np.zeros_like(a[:1], y.dtype)])
    else:
        y = _derivative(_pulled, a, [g, *moves])
    return _as_given(y, x, axis, reverse)


# ---------------------------------------------------------------------------------------------- whole products


def _near_one(x: Any) -> bool:
    """Whether no product of elements along the last axis can overflow or underflow."""
    info = np.finfo(x.dtype)
    reach = min(info.maxexp, -info.minexp - info.nmant) / x.shape[-1]
    size = np.abs(x)
    return bool(2.0**-reach < size.min() and size.max() < 2.0**reach)


def product(x: Any) -> Any:
    """The product along the last axis."""
    if x.dtype not in _SAFE or not x.size or _near_one(x):
        return np.multiply.reduce(x, axis=-1, dtype=x.dtype)
    y = np.multiply.accumulate(x, axis=-1, dtype=x.dtype)
    if _strayed(y):
        f, e = _fraction_scan(np.moveaxis(x, -1, 0))
        return _joined(f[-1], e[-1], x.dtype)
    return y[..., -1]


def products_of_others(x: Any) -> Any:
    """For each element, the product of all other elements along the last axis."""
    if not x.size:
        return x
    before = exclusive_scan(np.multiply.accumulate(x, axis=-1), -1, 1)
    after = exclusive_scan(np.multiply.accumulate(x[..., ::-1], axis=-1), -1, 1)[..., ::-1]
    y = before * after
    if _strayed(y) or _strayed(before) or _strayed(after):
        rows = np.moveaxis(x, -1, 0)
        (f, e), (h, k) = _fraction_scan(rows), _fraction_scan(rows[::-1])
        one = [np.ones_like(f[:1]), np.zeros_like(e[:1])]
        f, e = np.concatenate([one[0], f[:-1]]), np.concatenate([one[1], e[:-1]])
        h, k = np.concatenate([one[0], h[:-1]])[::-1], np.concatenate([one[1], k[:-1]])[::-1]
        y = np.moveaxis(_joined(f * h, e + k, x.dtype), 0, -1)
    return y
