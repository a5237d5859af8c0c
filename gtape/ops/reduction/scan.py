"""Scans and products: cumulative sums and products, the product of all elements, and linear recurrences.

No rule divides, so results are exact with any number of zeros, at every order. The product of all other elements is the
product of the elements before times the product of those after. The derivatives of a cumulative product of every order
belong to two families of functions, which are linear in the directions::

    cumprod_push(x, [t_1, ..., t_k])    = D^k cumprod(x)[t_1, ..., t_k]
    cumprod_pull(x, [g, t_1, ..., t_k]) = gradient with respect to x of g . D^k cumprod(x)[t_1, ..., t_k]

The families are closed: the derivative by x has one more direction, and each family is the transpose of the other.
Their kernels keep exponents apart from the digits if a product on the way may leave the range of floats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gtape.base.docstrings import documented_like
from gtape.base.scalars import truth_of
from gtape.declare.conventions import PRODUCTS
from gtape.declare.primitives import REGISTRY, linear, primitive
from gtape.declare.rounding import EXACT, SUM, stable
from gtape.errors import InvalidArgumentError
from gtape.ops.reduction.sums import reduce_sum
from gtape.tensors.axes import axes_of, kept_shape, merged, one_axis, shape_of
from gtape.tensors.tensor import Tensor, as_operand

__all__ = ["cumprod", "cumsum", "reduce_prod"]


def _along(axis: int, part: slice) -> tuple[Any, ...]:
    """An index for a part of one axis, which is counted from the end."""
    return (Ellipsis, part) + (slice(None),) * (-axis - 1)


_FORTH, _BACK = slice(None), slice(None, None, -1)


# ---------------------------------------------------------------------------------------------- shift and sum


def _shift_kernel(x: Any, *, axis: int, by: int) -> Any:
    y = np.zeros_like(x)
    if by > 0:
        y[_along(axis, slice(by, None))] = x[_along(axis, slice(None, -by))]
    else:
        y[_along(axis, slice(None, by))] = x[_along(axis, slice(-by, None))]
    return y


shift_op = linear(
    "shift", _shift_kernel, lambda xp, g, x, *, axis, by: xp.shift(g, axis=axis, by=-by),
    params=("axis", "by"), batched=True, rounding=EXACT,
    samples=(
        (((3,),), {"axis": -1, "by": 1}),
        (((3,),), {"axis": -1, "by": -1}),
        (((2, 3),), {"axis": -2, "by": 1}),
        (((1,),), {"axis": -1, "by": 1}),
    ),
)  # fmt: skip


def _exclusive(x: Any, axis: int, first: int) -> Any:
    """The values moved along by one place, after the neutral element."""
    y = np.empty_like(x)
    y[_along(axis, slice(1, None))] = x[_along(axis, slice(None, -1))]
    y[_along(axis, slice(None, 1))] = first
    return y


def _cumsum_kernel(x: Any, *, axis: int, exclusive: bool, reverse: bool) -> Any:
    way = _along(axis, _BACK if reverse else _FORTH)
    y = np.add.accumulate(x[way], axis=axis, dtype=x.dtype)
    return (_exclusive(y, axis, 0) if exclusive else y)[way]


_SCANS: tuple[Any, ...] = (
    *[(((3,),), {"axis": -1, "exclusive": e, "reverse": r}) for e in (False, True) for r in (False, True)],
    (((2, 3),), {"axis": -2, "exclusive": False, "reverse": True}),
    (((2, 2),), {"axis": -1, "exclusive": True, "reverse": False}),
    (((1,),), {"axis": -1, "exclusive": True, "reverse": False}),
)

_cumsum = linear(
    "cumsum", _cumsum_kernel,
    lambda xp, g, x, *, axis, exclusive, reverse: xp.cumsum(g, axis=axis, exclusive=exclusive, reverse=not reverse),
    params=("axis", "exclusive", "reverse"), batched=True, rounding=SUM,
    samples=(*_SCANS, (((0,),), {"axis": -1, "exclusive": False, "reverse": False})),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- linear recurrence


def recurrence_kernel(a: Any, b: Any, *, axis: int, reverse: bool) -> Any:
    """The recurrence ``y[i] = a[i] y[i - 1] + b[i]`` along an axis."""
    n = b.shape[axis]
    if a.shape != b.shape:
        raise ValueError(f"a recurrence needs factors and terms of one shape, not {a.shape} and {b.shape}")
    if b.size == n and b.dtype == a.dtype == np.float64:
        # For one row, Python's floats are faster than NumPy's scalars.
        return _recurrence_of_floats(a.ravel(), b.ravel(), reverse).reshape(b.shape)
    y = b.copy()
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


def with_batch_axis(xp: Any, a: Any, g: Any) -> Any:
    """The factors with the batch axis that the terms have."""
    return _with_shape(xp, a, shape_of(g))


def _with_shape(xp: Any, a: Any, shape: tuple[int, ...]) -> Any:
    return a if shape_of(a) == shape else xp.broadcast_to(a, shape=shape)


def _adjoint(xp: Any, g: Any, a: Any, axis: int, reverse: bool) -> Any:
    step = 1 if reverse else -1
    return xp.linear_recurrence(
        with_batch_axis(xp, xp.shift(a, axis=axis, by=step), g), g, axis=axis, reverse=not reverse
    )


_linear_recurrence = primitive(
    "linear_recurrence", recurrence_kernel,
    (
        lambda xp, g, y, a, b, *, axis, reverse: (
            _adjoint(xp, g, a, axis, reverse) * xp.shift(y, axis=axis, by=-1 if reverse else 1)
        ),
        lambda xp, g, y, a, b, *, axis, reverse: _adjoint(xp, g, a, axis, reverse),
    ),
    (
        lambda xp, t, y, a, b, *, axis, reverse: xp.linear_recurrence(
            with_batch_axis(xp, a, t), t * xp.shift(y, axis=axis, by=-1 if reverse else 1), axis=axis, reverse=reverse
        ),
        lambda xp, t, y, a, b, *, axis, reverse: xp.linear_recurrence(
            with_batch_axis(xp, a, t), t, axis=axis, reverse=reverse
        ),
    ),
    reads=((0, "y"), (0,)), params=("axis", "reverse"), batched=True, complex=True, rounding=stable(1, 2, feeds=1),
    samples=tuple(
        ((s, s), {"axis": a, "reverse": r})
        for s, a in (((3,), -1), ((2, 3), -1), ((2, 2), -2), ((1,), -1))
        for r in (False, True)
    ),
    conventions=PRODUCTS,
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- products


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
    return np.ldexp(f, _power(e)).astype(dtype)


_SAFE = {np.dtype(t): (float(np.finfo(t).tiny / np.finfo(t).eps), float(np.finfo(t).max)) for t in "efd"}


def _strayed(y: Any) -> bool:
    """Whether an intermediate product may have overflowed or underflowed."""
    if y.dtype not in _SAFE:
        return False
    low, high = _SAFE[y.dtype]
    size = np.abs(y)
    return not (low < size.min() and size.max() <= high) if y.ndim else not low < size <= high


def _cumprod_kernel(x: Any, *, axis: int, exclusive: bool, reverse: bool) -> Any:
    way = _along(axis, _BACK if reverse else _FORTH)
    z = x[way]
    y = np.multiply.accumulate(z, axis=axis, dtype=x.dtype)
    if y.size and _strayed(y):
        y = np.moveaxis(_joined(*_fraction_scan(np.moveaxis(z, axis, 0)), x.dtype), 0, axis)
    return (_exclusive(y, axis, 1) if exclusive else y)[way]


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
        return _shift_kernel(a, axis=_DOWN, by=1)

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
        return _cumprod_kernel(x, axis=_DOWN, exclusive=True, reverse=False)

    @staticmethod
    def recurrence(x: Any, terms: Any) -> Any:
        """The recurrence ``y[i] = x[i] y[i - 1] + terms[i]``."""
        return recurrence_kernel(x, terms, axis=_DOWN, reverse=False)


_NOTHING = -(2**61)  # the exponent of 0, far below all sums of other exponents


def _normal(f: Any, e: Any) -> tuple[Any, Any]:
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
        return _exclusive(a[0], _DOWN, 0), _exclusive(a[1], _DOWN, _NOTHING)

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
        return _normal(_exclusive(f, _DOWN, 1), _exclusive(e, _DOWN, 0))

    @staticmethod
    def recurrence(x: Any, terms: Any) -> Any:
        f, e = terms
        # Numbers are divided by the product of the factors so far and by the largest of the terms so far, each of which
        # is itself divided by the product up to it. The factors of the divided numbers have no product above 2.
        product = _Wide.products(x)[1]
        scale = product + np.maximum.accumulate(e - product, axis=0)
        x = np.ldexp(x, _power(_exclusive(scale, _DOWN, 0) - scale))
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
    factors = _exclusive(x[::-1], _DOWN, 1)
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


def _derivative(made: Any, x: Any, ts: list[Any]) -> Any:
    """The function `made` along axis 0 of columns, with exponents apart in those columns that need it."""
    if not x.size:
        return np.zeros_like(x)
    x, *ts = (a.astype(np.complex128 if a.dtype.kind == "c" else np.float64, copy=False) for a in (x, *ts))
    if x.dtype.kind == "c":
        return made(_Floats, x, ts)
    strays = _straying(x, ts)
    if strays is None:
        return made(_Floats, x, ts)
    if strays.all():
        return made(_Wide, x, ts)
    y = made(_Floats, x, ts)
    if strays.any():
        y[:, strays] = made(_Wide, x[:, strays], [t[:, strays] for t in ts])
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


def _push_kernel(x: Any, ts: Any, *, axis: int, exclusive: bool, reverse: bool) -> Any:
    a, moves = _columns(x, ts, axis, reverse)
    if exclusive:
        # No product contains the last element, so its infinity or NaN must not spread.
        y = _derivative(_pushed, a[:-1], [t[:-1] for t in moves])
        y = np.concatenate([np.zeros_like(a[:1], y.dtype), y])
    else:
        y = _derivative(_pushed, a, moves)
    return _as_given(y, x, axis, reverse)


def _pull_kernel(x: Any, gs: Any, *, axis: int, exclusive: bool, reverse: bool) -> Any:
    a, (g, *moves) = _columns(x, gs, axis, reverse)
    if exclusive:
        y = _derivative(_pulled, a[:-1], [g[1:], *[t[:-1] for t in moves]])
        y = np.concatenate([y, np.zeros_like(a[:1], y.dtype)])
    else:
        y = _derivative(_pulled, a, [g, *moves])
    return _as_given(y, x, axis, reverse)


_ALL = (None, None, 1)


def _single(xp: Any, t: Any) -> Any:
    """One direction as a stack, along a last axis."""
    return xp.reshape(t, shape=(*shape_of(t), 1))


def _part(xp: Any, ts: Any, first: int, end: int) -> Any:
    """The directions from `first` to `end` of a stack."""
    return xp.strided_slice(ts, key=(_ALL,) * (len(shape_of(ts)) - 1) + ((first, end, 1),))


def _joined_directions(xp: Any, *stacks: Any) -> Any:
    """A stack of all directions, with the batch axis that some stacks have."""
    stacks = tuple([s for s in stacks if shape_of(s)[-1]])
    if len(stacks) == 1:
        return stacks[0]
    lead = max([shape_of(s)[:-1] for s in stacks], key=len)
    wide = [xp.broadcast_to(s, shape=(*lead, shape_of(s)[-1])) if shape_of(s)[:-1] != lead else s for s in stacks]
    return xp.concat(*wide, axis=len(lead))


def _replaced(xp: Any, ts: Any, i: int, new: Any) -> Any:
    return _joined_directions(xp, _part(xp, ts, 0, i), new, _part(xp, ts, i + 1, shape_of(ts)[-1]))


def _push(xp: Any, x: Any, ts: Any, **scan: Any) -> Any:
    return xp.cumprod_push(_with_shape(xp, x, shape_of(ts)[:-1]), ts, **scan)


def _pull(xp: Any, x: Any, gs: Any, **scan: Any) -> Any:
    return xp.cumprod_pull(_with_shape(xp, x, shape_of(gs)[:-1]), gs, **scan)


def _along_each(xp: Any, form: Any, t: Any, x: Any, ts: Any, scan: dict[str, Any]) -> Any:
    """The derivative of `form` by its directions along `t`, which replace one direction after the other."""
    total = None
    for i in range(shape_of(ts)[-1]):
        term = form(xp, x, _replaced(xp, ts, i, _part(xp, t, i, i + 1)), **scan)
        total = term if total is None else total + term
    return total


def _push_transposed(xp: Any, h: Any, x: Any, ts: Any, scan: dict[str, Any]) -> Any:
    """The cotangent of each direction of `cumprod_push`: a pull along the other directions."""
    h = _single(xp, h)
    others = [_joined_directions(xp, h, *_without(xp, ts, i)) for i in range(shape_of(ts)[-1])]
    return _joined_directions(xp, *[_single(xp, _pull(xp, x, gs, **scan)) for gs in others])


def _pull_transposed(xp: Any, h: Any, x: Any, gs: Any, scan: dict[str, Any]) -> Any:
    """The cotangent of each direction of `cumprod_pull`: a push by the first one, pulls by the others."""
    h = _single(xp, h)
    made = [_push(xp, x, _joined_directions(xp, *_without(xp, gs, 0), h), **scan)]
    for i in range(1, shape_of(gs)[-1]):
        made.append(_pull(xp, x, _replaced(xp, gs, i, h), **scan))
    return _joined_directions(xp, *[_single(xp, m) for m in made])


def _without(xp: Any, ts: Any, i: int) -> tuple[Any, Any]:
    return _part(xp, ts, 0, i), _part(xp, ts, i + 1, shape_of(ts)[-1])


def _magnitudes(kernel: Any) -> Any:
    return lambda x, ts, **scan: kernel(np.abs(x), np.abs(ts), **scan)


def _directions(*counts: int) -> tuple[Any, ...]:
    """The samples of scans along numbers of directions."""
    return tuple(((*shapes, (*shapes[0], k)), scan) for k in counts for shapes, scan in _SCANS)


_SCAN = ("axis", "exclusive", "reverse")

_cumprod = primitive(
    "cumprod", _cumprod_kernel,
    (lambda xp, g, y, x, **scan: _pull(xp, x, _single(xp, g), **scan),),
    (lambda xp, t, y, x, **scan: _push(xp, x, _single(xp, t), **scan),),
    reads=((0,),), params=_SCAN, batched=True, complex=True, rounding=stable(0.5, 1),
    samples=_SCANS,
)  # fmt: skip
_cumprod_push = primitive(
    "cumprod_push", _push_kernel,
    (
        lambda xp, g, y, x, ts, **scan: _pull(xp, x, _joined_directions(xp, _single(xp, g), ts), **scan),
        lambda xp, g, y, x, ts, **scan: _push_transposed(xp, g, x, ts, scan),
    ),
    (
        lambda xp, t, y, x, ts, **scan: _push(xp, x, _joined_directions(xp, ts, _single(xp, t)), **scan),
        lambda xp, t, y, x, ts, **scan: _along_each(xp, _push, t, x, ts, scan),
    ),
    reads=((0, 1), (0, 1)), params=_SCAN, batched=True, complex=True,
    rounding=stable(0.5, 3, by=_magnitudes(_push_kernel), wide=True),
    samples=_directions(1, 2),
    conventions=PRODUCTS,
)  # fmt: skip
_cumprod_pull = primitive(
    "cumprod_pull", _pull_kernel,
    (
        lambda xp, h, y, x, gs, **scan: _pull(xp, x, _joined_directions(xp, gs, _single(xp, h)), **scan),
        lambda xp, h, y, x, gs, **scan: _pull_transposed(xp, h, x, gs, scan),
    ),
    (
        lambda xp, t, y, x, gs, **scan: _pull(xp, x, _joined_directions(xp, gs, _single(xp, t)), **scan),
        lambda xp, t, y, x, gs, **scan: _along_each(xp, _pull, t, x, gs, scan),
    ),
    reads=((0, 1), (0, 1)), params=_SCAN, batched=True, complex=True,
    rounding=stable(0.5, 3, by=_magnitudes(_pull_kernel), wide=True),
    samples=_directions(1, 2),
    conventions=PRODUCTS,
)  # fmt: skip


def _near_one(x: Any) -> bool:
    """Whether no product of elements along the last axis can overflow or underflow."""
    info = np.finfo(x.dtype)
    reach = min(info.maxexp, -info.minexp - info.nmant) / x.shape[-1]
    size = np.abs(x)
    return bool(2.0**-reach < size.min() and size.max() < 2.0**reach)


def _prod_kernel(x: Any) -> Any:
    if x.dtype not in _SAFE or not x.size or _near_one(x):
        return np.multiply.reduce(x, axis=-1, dtype=x.dtype)
    y = np.multiply.accumulate(x, axis=-1, dtype=x.dtype)
    if _strayed(y):
        f, e = _fraction_scan(np.moveaxis(x, -1, 0))
        return _joined(f[-1], e[-1], x.dtype)
    return y[..., -1]


def _prod_others_kernel(x: Any) -> Any:
    if not x.size:
        return x
    before = _exclusive(np.multiply.accumulate(x, axis=-1), -1, 1)
    after = _exclusive(np.multiply.accumulate(x[..., ::-1], axis=-1), -1, 1)[..., ::-1]
    y = before * after
    if _strayed(y) or _strayed(before) or _strayed(after):
        rows = np.moveaxis(x, -1, 0)
        (f, e), (h, k) = _fraction_scan(rows), _fraction_scan(rows[::-1])
        one = [np.ones_like(f[:1]), np.zeros_like(e[:1])]
        f, e = np.concatenate([one[0], f[:-1]]), np.concatenate([one[1], e[:-1]])
        h, k = np.concatenate([one[0], h[:-1]])[::-1], np.concatenate([one[1], k[:-1]])[::-1]
        y = np.moveaxis(_joined(f * h, e + k, x.dtype), 0, -1)
    return y


def _prod_others_vjp(xp: Any, g: Any, x: Any) -> Any:
    before = xp.cumprod(x, axis=-1, exclusive=True, reverse=False)
    after = xp.cumprod(x, axis=-1, exclusive=True, reverse=True)
    last = {"axis": -1, "exclusive": True}
    return _pull(xp, x, _single(xp, xp.multiply_no_nan(after, g)), **last, reverse=False) + _pull(
        xp, x, _single(xp, xp.multiply_no_nan(before, g)), **last, reverse=True
    )


_LAST_SAMPLES: tuple[Any, ...] = ((((3,),), {}), (((4,),), {}), (((1,),), {}), (((2, 3),), {}), (((2,),), {}))

_prod_others = primitive(
    "prod_others", _prod_others_kernel,
    (lambda xp, g, y, x: _prod_others_vjp(xp, g, x),),
    # The jvp equals the vjp, because the Hessian of the product is symmetric.
    (lambda xp, t, y, x: _prod_others_vjp(xp, t, x),),
    reads=((0,),), batched=True, complex=True, rounding=stable(0.5, 1),
    samples=_LAST_SAMPLES,
    conventions=PRODUCTS,
)  # fmt: skip
_prod = primitive(
    "prod", _prod_kernel,
    (lambda xp, g, y, x: xp.reshape(g, shape=(*shape_of(g), 1)) * xp.prod_others(x),),
    (lambda xp, t, y, x: xp.sum(xp.multiply_no_nan(xp.prod_others(x), t), axis=(-1,), keepdims=False),),
    reads=((0,),), batched=True, complex=True, role="product", rounding=stable(0.5, 1),
    samples=(*_LAST_SAMPLES, (((0,),), {})),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- public functions


def scan_operand(x: Any, op: str, floating: bool = False) -> Tensor:
    """The operand of the scan named `op`, which must hold numbers."""
    t = as_operand(x)
    if t._layout.dtype.kind in "bOSU" or (floating and not t.dtype.is_floating):
        raise InvalidArgumentError(
            f"{op} needs {'floating-point ' if floating else ''}numbers, not {t.dtype.name}: use gtape.cast first"
        )
    return t


def axis_from_end(axis: Any, t: Tensor, op: str) -> int:
    """The axis of a scan as users write it, converted to an axis counted from the end."""
    if not t._layout.shape:
        raise InvalidArgumentError(f"{op} needs a tensor with at least one axis, not a scalar")
    return one_axis(axis, t.ndim) - t.ndim


def cumsum(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Tensor:
    """Running sums along an axis.

    Parameters
    ----------
    x : number tensor with at least one axis
    axis : int
        The axis of the sums.
    exclusive : bool
        Whether to leave out the element itself. The first result is then 0.
    reverse : bool
        Whether to run from the end to the start.

    Returns
    -------
    Tensor
        Shape and dtype of `x`.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `x` is a scalar, or the axis is out of range.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.cumsum([1.0, 2.0, 3.0]).numpy()
    array([1., 3., 6.], dtype=float32)
    """
    t = scan_operand(x, "cumsum")
    return _cumsum(
        t,
        axis=axis_from_end(axis, t, "cumsum"),
        exclusive=truth_of(exclusive, "cumsum", "exclusive"),
        reverse=truth_of(reverse, "cumsum", "reverse"),
    )


@documented_like(cumsum)
def cumprod(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Tensor:
    """Running products along an axis. The gradient is exact at zeros, too.

    Parameters
    ----------
    exclusive : bool
        Whether to leave out the element itself. The first result is then 1.

    Examples
    --------
    >>> tf.math.cumprod([2.0, 3.0, 4.0]).numpy()
    array([ 2.,  6., 24.], dtype=float32)
    """
    t = scan_operand(x, "cumprod")
    return _cumprod(
        t,
        axis=axis_from_end(axis, t, "cumprod"),
        exclusive=truth_of(exclusive, "cumprod", "exclusive"),
        reverse=truth_of(reverse, "cumprod", "reverse"),
    )


@documented_like(reduce_sum)
def reduce_prod(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """The product of the elements along axes. The gradient is exact with any number of zeros.

    Examples
    --------
    >>> float(tf.reduce_prod([2.0, 3.0, 4.0]))
    24.0
    """
    t = scan_operand(input_tensor, "reduce_prod")
    shape = t._layout.shape
    axes = axes_of(axis, t.ndim)
    y: Tensor = _prod(merged(t, axes))
    return (
        REGISTRY["reshape"](y, shape=kept_shape(shape, axes))
        if axes and truth_of(keepdims, "reduce_prod", "keepdims")
        else y
    )
