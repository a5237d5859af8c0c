"""NumPy's functions of shapes, single elements and matrices, made of gtape's ops. The table is at the end."""

from __future__ import annotations

import builtins
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gtape import nest
from gtape.base.scalars import int_of
from gtape.base.shown import shown
from gtape.kernels.broadcasting import broadcast_shapes
from gtape.namespaces.catalogue import resolve
from gtape.tensors.tensor import as_operand, is_tensor

__all__ = ["ARRAYS", "T", "axis_of", "op_named", "rank_of", "ravel", "shape_of", "stand_in"]


class _Ops:
    """gtape's public functions, looked up on first use."""

    def __getattr__(self, name: str) -> Any:
        found = resolve(name)
        setattr(self, name, found)
        return found


T = _Ops()


def stand_in(x: Any) -> Any:
    """For a tensor an array of its shape and dtype without its values; any other object unchanged."""
    return np.broadcast_to(np.zeros((), x._layout.dtype), x._layout.shape) if is_tensor(x) else x


def shape_of(a: Any) -> tuple[int, ...]:
    """The shape of a tensor or array-like. No value of a tensor is read, even if lists hold it."""
    if is_tensor(a):
        return a._layout.shape  # type: ignore[no-any-return]
    return np.shape(nest.map_structure(stand_in, a) if isinstance(a, (list, tuple)) else a)


def rank_of(a: Any) -> int:
    """The number of axes of a tensor or array-like."""
    return len(shape_of(a))


def axis_of(axis: Any, rank: int) -> int:
    """An axis argument of a NumPy function, counted from the front."""
    i = int_of(axis, "a NumPy function", "axis")
    if not -rank <= i < rank:
        raise ValueError(f"axis {i} is out of bounds for a tensor with {rank} axes")
    return i % rank


def ravel(a: Any, order: str = "C") -> Any:
    """``np.ravel``."""
    if order not in ("C", "A", "K"):
        raise TypeError("a gtape tensor is ravelled in C order only; transpose it first")
    return T.reshape(a, [-1])


def op_named(name: str) -> Callable[..., Any]:
    """A NumPy function of one argument, made of gtape's op `name`."""

    def call(a: Any) -> Any:
        return getattr(T, name)(a)

    return call


# ---------------------------------------------------------------------------------------------- shapes


def _reshape(a: Any, shape: Any = None, order: str = "C") -> Any:
    if order != "C":
        raise TypeError("a gtape tensor is reshaped in C order only; transpose it first")
    return T.reshape(a, [shape] if isinstance(shape, int) else shape)


def _expand_dims(a: Any, axis: Any) -> Any:
    t = as_operand(a)
    axes = [axis] if isinstance(axis, int) else list(axis)
    rank = rank_of(t) + len(axes)
    where = {axis_of(i, rank) for i in axes}
    kept = iter(t._layout.shape)
    return T.reshape(t, [1 if i in where else next(kept) for i in range(rank)])


def _transpose(a: Any, axes: Any = None) -> Any:
    return T.transpose(a, axes)


def _swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    order = list(range(rank_of(a)))
    i, j = axis_of(axis1, len(order)), axis_of(axis2, len(order))
    order[i], order[j] = order[j], order[i]
    return T.transpose(a, order)


def _moveaxis(a: Any, source: Any, destination: Any) -> Any:
    rank = rank_of(a)
    take = [axis_of(s, rank) for s in np.atleast_1d(source).tolist()]
    put = [axis_of(d, rank) for d in np.atleast_1d(destination).tolist()]
    order = [i for i in range(rank) if i not in take]
    for where, which in sorted(zip(put, take, strict=True)):
        order.insert(where, which)
    return T.transpose(a, order)


def _flip(m: Any, axis: Any = None) -> Any:
    axes = range(rank_of(m)) if axis is None else [axis] if isinstance(axis, int) else axis
    return T.reverse(m, list(axes))


def _roll(a: Any, shift: Any, axis: Any = None) -> Any:
    if axis is None:
        return T.reshape(T.roll(ravel(a), shift, 0), list(shape_of(a)))
    return T.roll(a, shift, axis)


def _rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    k %= 4
    if k == 0:
        return T.identity(m)
    if k == 2:
        return _flip(_flip(m, axes[0]), axes[1])
    return _swapaxes(_flip(m, axes[1]), *axes) if k == 1 else _flip(_swapaxes(m, *axes), axes[1])


def _tile(A: Any, reps: Any) -> Any:
    times = [reps] if isinstance(reps, int) else list(reps)
    rank = max(len(times), rank_of(A))
    shape = [1] * (rank - rank_of(A)) + list(shape_of(A))
    return T.tile(T.reshape(A, shape), [1] * (rank - len(times)) + times)


def _repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    return T.repeat(ravel(a), repeats, axis=0) if axis is None else T.repeat(a, repeats, axis=axis)


def _pad(array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Any:
    if mode not in ("constant", "reflect", "symmetric"):
        raise TypeError(f"np.pad of a gtape tensor knows the modes constant, reflect and symmetric, not {shown(mode)}")
    widths = np.broadcast_to(np.asarray(pad_width), (rank_of(array), 2)).tolist()
    return T.pad(array, widths, mode.upper(), constant_values)


def _concatenate(arrays: Any, axis: Any = 0) -> Any:
    return T.concat([ravel(a) for a in arrays], 0) if axis is None else T.concat(list(arrays), axis)


def _at_least(rank: int) -> Callable[..., Any]:
    def at_least(*arys: Any) -> Any:
        made = []
        for a in arys:
            t = as_operand(a)
            missing = rank - rank_of(t)
            # NumPy puts the new axes around the axis of a vector: (n,) becomes (1, n) and (1, n, 1).
            if missing > 0:
                s = list(t._layout.shape)
                s = [1] * missing if not s else [1, *s] if rank == 2 else [1, *s, 1] if len(s) == 1 else [*s, 1]
                t = T.reshape(t, s)
            made.append(t)
        return made[0] if len(made) == 1 else builtins.tuple(made)

    return at_least


def _hstack(tup: Any) -> Any:
    parts = [_at_least(1)(a) for a in tup]
    return T.concat(parts, 0 if rank_of(parts[0]) == 1 else 1)


def _column_stack(tup: Any) -> Any:
    return T.concat([T.reshape(a, [-1, 1]) if rank_of(a) < 2 else as_operand(a) for a in tup], 1)


def _split_at(ary: Any, cuts: Sequence[int], axis: int) -> list[Any]:
    t = as_operand(ary)
    k = axis_of(axis, rank_of(t))
    ends = [0, *cuts, t._layout.shape[k]]
    return [t[(slice(None),) * k + (slice(a, b),)] for a, b in itertools.pairwise(ends)]


def _array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    if np.ndim(indices_or_sections):
        return _split_at(ary, [int_of(i, "np.split", "indices_or_sections") for i in indices_or_sections], axis)
    n, parts = shape_of(ary)[axis], int_of(indices_or_sections, "np.split", "indices_or_sections")
    if not 0 < parts <= 1 << 24:
        raise ValueError(f"np.array_split makes at least one section, and not {parts}")
    sizes = [n // parts + (i < n % parts) for i in range(parts)]
    return _split_at(ary, np.cumsum(sizes)[:-1].tolist(), axis)


def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    if not np.ndim(indices_or_sections):
        parts = int_of(indices_or_sections, "np.split", "indices_or_sections")
        if shape_of(ary)[axis] % parts:
            raise ValueError("array split does not result in an equal division")
    return _array_split(ary, indices_or_sections, axis)


def _broadcast_arrays(*args: Any) -> Any:
    shape = broadcast_shapes(*[shape_of(a) for a in args])
    return builtins.tuple([T.broadcast_to(a, shape) for a in args])


def _full_like(a: Any, fill_value: Any) -> Any:
    t = as_operand(a)
    return T.broadcast_to(as_operand(fill_value, t), t._layout.shape)


# ---------------------------------------------------------------------------------------------- picking elements


def _where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None or y is None:
        return np.where(np.asarray(condition))
    return T.where(condition, x, y)


def _take(a: Any, indices: Any, axis: Any = None) -> Any:
    flat = ravel(a) if axis is None else as_operand(a)
    k = 0 if axis is None else axis_of(axis, rank_of(flat))
    i = np.asarray(indices)
    n = flat._layout.shape[k]
    return T.gather(flat, np.where(i < 0, i + n, i), axis=k)


def _take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    t = ravel(arr) if axis is None else as_operand(arr)
    k = 0 if axis is None else axis_of(axis, rank_of(t))
    i = np.asarray(indices)
    shape = t._layout.shape
    places = np.take_along_axis(np.arange(math.prod(shape)).reshape(shape), i, k)
    return T.gather(ravel(t), places)


def _compress(condition: Any, a: Any, axis: Any = None) -> Any:
    return _take(a, np.flatnonzero(np.asarray(condition)), axis)


def _select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    like = next(c for c in choicelist if is_tensor(c))
    made = as_operand(default, like)
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        made = T.where(condition, as_operand(choice, like), made)
    return made


def _clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    made = T.identity(a) if low is None and high is None else a
    made = made if low is None else T.maximum(made, low)
    # The upper bound comes last, because it wins in NumPy if the bounds cross.
    return made if high is None else T.minimum(made, high)


def _diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    moved = _moveaxis(a, (axis1, axis2), (-2, -1))
    return T.diag_part(moved, k=offset)


def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return T.reduce_sum(_diagonal(a, offset, axis1, axis2), axis=-1)


def _tri(keep: Callable[..., Any]) -> Callable[..., Any]:
    def tri(m: Any, k: int = 0) -> Any:
        t = as_operand(m)
        if rank_of(t) < 2:
            t = T.broadcast_to(t, (shape_of(t)[0], *shape_of(t)))
        mask = keep(np.ones(t._layout.shape[-2:], dtype=bool), k)
        return T.where(np.broadcast_to(mask, t._layout.shape), t, T.zeros_like(t))

    return tri


# ---------------------------------------------------------------------------------------------- products and matrices


def _dot(a: Any, b: Any) -> Any:
    ranks = rank_of(a), rank_of(b)
    if 0 in ranks:
        return T.multiply(a, b)
    return T.tensordot(a, b, axes=[[ranks[0] - 1], [max(ranks[1] - 2, 0)]])


def _vecdot(x1: Any, x2: Any, axis: int = -1) -> Any:
    return T.reduce_sum(T.conj(as_operand(x1, x2)) * x2, axis=axis)


def _inner(a: Any, b: Any) -> Any:
    if 0 in (rank_of(a), rank_of(b)):
        return T.multiply(a, b)
    return T.tensordot(a, b, axes=[[rank_of(a) - 1], [rank_of(b) - 1]])


def _outer(a: Any, b: Any) -> Any:
    return T.reshape(a, [-1, 1]) * T.reshape(b, [1, -1])


def _kron(a: Any, b: Any) -> Any:
    rank = max(rank_of(a), rank_of(b))
    sa, sb = [[1] * (rank - rank_of(x)) + list(shape_of(x)) for x in (a, b)]
    left = T.reshape(a, [d for s in sa for d in (s, 1)])
    right = T.reshape(b, [d for s in sb for d in (1, s)])
    return T.reshape(left * right, [p * q for p, q in zip(sa, sb, strict=True)])


def _einsum(*operands: Any) -> Any:
    if not isinstance(operands[0], str):
        raise TypeError("np.einsum of gtape tensors takes its subscripts as a string, such as 'ij,jk->ik'")
    return T.einsum(*operands)


def _tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    return T.tensordot(a, b, axes)


def _cross(a: Any, b: Any, axis: int = -1) -> Any:
    return _moveaxis(T.cross(_moveaxis(a, axis, -1), _moveaxis(b, axis, -1)), -1, axis)


def _matrix_power(a: Any, n: int) -> Any:
    if n < 0:
        return _matrix_power(T.inv(a), -n)
    made = None
    square = as_operand(a)
    while n:
        if n & 1:
            made = square if made is None else T.matmul(made, square)
        n >>= 1
        if n:
            square = T.matmul(square, square)
    return T.eye(shape_of(a)[-1], batch_shape=shape_of(a)[:-2], dtype=as_operand(a).dtype) if made is None else made


def _multi_dot(arrays: Any) -> Any:
    made = arrays[0]
    for a in arrays[1:]:
        made = _dot(made, a)
    return made


def _solve(a: Any, b: Any) -> Any:
    if rank_of(b) == 1:
        return T.squeeze(T.solve(a, T.expand_dims(b, -1)), [-1])
    return T.solve(a, b)


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    if ord is None:
        return T.norm(x, "euclidean", axis=axis, keepdims=keepdims)
    return T.norm(x, ord, axis=list(range(rank_of(x))) if axis is None and rank_of(x) == 2 else axis, keepdims=keepdims)


def _svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    if not compute_uv:
        return T.svd(a, compute_uv=False)
    s, u, v = T.svd(a, full_matrices=full_matrices)
    return u, s, T.adjoint(v)


def _qr(a: Any, mode: str = "reduced") -> Any:
    if mode not in ("reduced", "complete"):
        raise TypeError(f"np.linalg.qr of a gtape tensor knows the modes reduced and complete, not {shown(mode)}")
    return builtins.tuple(T.qr(a, full_matrices=mode == "complete"))


ARRAYS: dict[str, Callable[..., Any]] = {
    # shapes
    "reshape": _reshape, "ravel": ravel, "squeeze": lambda a, axis=None: T.squeeze(a, axis),
    "expand_dims": _expand_dims,
    "broadcast_to": lambda array, shape: T.broadcast_to(array, [shape] if isinstance(shape, int) else shape),
    "broadcast_arrays": _broadcast_arrays, "transpose": _transpose, "permute_dims": _transpose,
    "matrix_transpose": lambda x: _swapaxes(x, -1, -2), "linalg.matrix_transpose": lambda x: _swapaxes(x, -1, -2),
    "swapaxes": _swapaxes, "moveaxis": _moveaxis, "flip": _flip, "flipud": lambda m: _flip(m, 0),
    "fliplr": lambda m: _flip(m, 1), "rot90": _rot90, "roll": _roll, "tile": _tile, "repeat": _repeat, "pad": _pad,
    "concatenate": _concatenate, "stack": lambda arrays, axis=0: T.stack(list(arrays), axis),
    "vstack": lambda tup: T.concat([_at_least(2)(a) for a in tup], 0), "hstack": _hstack,
    "dstack": lambda tup: T.concat([_at_least(3)(a) for a in tup], 2), "column_stack": _column_stack, "split": _split,
    "array_split": _array_split, "vsplit": lambda ary, n: _split(ary, n, 0),
    "hsplit": lambda ary, n: _split(ary, n, 0 if rank_of(ary) == 1 else 1),
    "unstack": lambda x, *, axis=0: builtins.tuple(T.unstack(x, axis=axis)), "atleast_1d": _at_least(1),
    "atleast_2d": _at_least(2), "atleast_3d": _at_least(3),
    "append": lambda arr, values, axis=None: _concatenate([as_operand(arr), as_operand(values, arr)], axis),
    "meshgrid": lambda *xi, indexing="xy": builtins.tuple(T.meshgrid(*xi, indexing=indexing)),
    "copy": lambda a: T.identity(a), "zeros_like": op_named("zeros_like"), "ones_like": op_named("ones_like"),
    "empty_like": op_named("zeros_like"), "full_like": _full_like,
    # picking elements
    "where": _where, "take": _take, "take_along_axis": _take_along_axis, "compress": _compress,
    "extract": lambda condition, arr: _compress(np.ravel(np.asarray(condition)), ravel(arr)), "select": _select,
    "sort": lambda a, axis=-1: T.sort(ravel(a), axis=0) if axis is None else T.sort(a, axis=axis),
    "argsort": lambda a, axis=-1: T.argsort(ravel(a), axis=0) if axis is None else T.argsort(a, axis=axis),
    "clip": _clip, "diag": lambda v, k=0: T.diag(v, k=k) if rank_of(v) == 1 else _diagonal(v, k), "diagonal": _diagonal,
    "trace": _trace, "tril": _tri(np.tril), "triu": _tri(np.triu), "diagflat": lambda v, k=0: T.diag(ravel(v), k=k),
    # products and matrices
    "dot": _dot, "vdot": lambda a, b: T.reduce_sum(T.conj(ravel(a)) * ravel(b)), "inner": _inner, "outer": _outer,
    "einsum": _einsum, "tensordot": _tensordot, "kron": _kron, "cross": _cross,
    "linalg.cross": lambda x1, x2, *, axis=-1: _cross(x1, x2, axis), "linalg.multi_dot": _multi_dot,
    "linalg.matrix_power": _matrix_power, "linalg.inv": op_named("inv"), "linalg.det": op_named("det"),
    "linalg.slogdet": op_named("slogdet"), "linalg.solve": _solve, "linalg.cholesky": op_named("cholesky"),
    "linalg.norm": _norm, "linalg.svd": _svd, "linalg.qr": _qr, "linalg.svdvals": lambda x: T.svd(x, compute_uv=False),
    "linalg.eigh": op_named("eigh"), "linalg.eigvalsh": op_named("eigvalsh"), "linalg.pinv": op_named("pinv"),
    "linalg.outer": _outer, "linalg.tensordot": lambda x1, x2, *, axes=2: _tensordot(x1, x2, axes),
    "linalg.matmul": lambda x1, x2: T.matmul(x1, x2), "linalg.trace": lambda x, *, offset=0: _trace(x, offset, -2, -1),
    "linalg.diagonal": lambda x, *, offset=0: _diagonal(x, offset, -2, -1),
    "linalg.vecdot": lambda x1, x2, *, axis=-1: _vecdot(x1, x2, axis),
    "linalg.vector_norm": lambda x, *, axis=None, keepdims=False, ord=2: T.norm(x, ord, axis=axis, keepdims=keepdims),
}  # fmt: skip
