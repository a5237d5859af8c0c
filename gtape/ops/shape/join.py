"""Ops that join and split tensors: concat, stack, unstack, split."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.declare.primitives import REGISTRY, linear
from gtape.declare.rounding import EXACT
from gtape.errors import InvalidArgumentError
from gtape.tensors.axes import lead_of, one_axis, only_int, scalar_int, shape_of, static_ints
from gtape.tensors.operands import operands
from gtape.tensors.tensor import Tensor, as_operand, is_tensor

__all__ = ["concat", "split", "stack", "unstack"]

_ALL = (None, None, 1)


def _piece(xp: Any, g: Any, ndim: int, axis: int, part: Any) -> Any:
    """One part of a value along one of its last `ndim` axes. An integer drops the axis, (start, stop, 1) does not."""
    a = axis % ndim
    return xp.strided_slice(g, key=(_ALL,) * a + (part,) + (_ALL,) * (ndim - a - 1))


def _pieces(xp: Any, g: Any, ndim: int, axis: int, sizes: list[int]) -> list[Any]:
    ends = list(itertools.accumulate(sizes))
    return [_piece(xp, g, ndim, axis, (end - n, end, 1)) for n, end in zip(sizes, ends, strict=True)]


def _concat_kernel(*xs: Any, axis: int) -> Any:
    return np.concatenate(xs, axis)


def _concat_rule(xp: Any, g: Any, xs: Any, *, axis: int) -> Any:
    shapes = [tuple(x.shape) for x in xs]
    return _pieces(xp, g, len(shapes[0]), axis, [s[axis] for s in shapes])


_concat = linear(
    "concat", _concat_kernel, _concat_rule,
    params=("axis",), variadic=True, batched=True, role="move", rounding=EXACT,
    samples=(
        (((2,), (3,)), {"axis": 0}),
        (((2, 1), (2, 2), (2, 1)), {"axis": -1}),
        (((1, 2), (2, 2)), {"axis": -2}),
        (((2,),), {"axis": -1}),
        (((0,), (2,)), {"axis": -1}),
    ),
)  # fmt: skip


def _stack_kernel(*xs: Any, axis: int) -> Any:
    return np.stack(xs, axis)


def _stack_rule(xp: Any, g: Any, xs: Any, *, axis: int) -> Any:
    ndim = len(tuple(xs[0].shape)) + 1
    return [_piece(xp, g, ndim, axis, i) for i in range(len(xs))]


_stack = linear(
    "stack", _stack_kernel, _stack_rule,
    params=("axis",), variadic=True, batched=True, role="move", rounding=EXACT,
    samples=(
        (((), ()), {"axis": 0}),
        (((2,), (2,), (2,)), {"axis": -1}),
        (((2, 2), (2, 2)), {"axis": -2}),
        (((3,),), {"axis": 0}),
    ),
)  # fmt: skip


def _split_kernel(x: Any, *, sizes: tuple[int, ...], axis: int) -> Any:
    return tuple(np.split(x, list(itertools.accumulate(sizes))[:-1], axis))


def _split_rule(xp: Any, g: Any, x: Any, *, sizes: tuple[int, ...], axis: int) -> Any:
    shape = tuple(x.shape)
    a = axis % len(shape)
    parts = []
    whole = max([lead_of(p, len(shape)) for p in g], key=len)
    for p, n in zip(g, sizes, strict=True):
        # An output without a cotangent gets plain zeros, without the batch axis of the others.
        wanted = (*whole, *shape[:a], n, *shape[a + 1 :])
        parts.append(p if shape_of(p) == wanted else xp.broadcast_to(p, shape=wanted))
    return xp.concat(*parts, axis=a - len(shape))


_split = linear(
    "split", _split_kernel, _split_rule,
    params=("sizes", "axis"), batched=True, role="move", rounding=EXACT,
    samples=(
        (((5,),), {"sizes": (2, 3), "axis": -1}),
        (((3, 2),), {"sizes": (1, 1, 1), "axis": -2}),
        (((2, 3),), {"sizes": (0, 3), "axis": -1}),
        (((2,),), {"sizes": (2,), "axis": -1}),
    ),
)  # fmt: skip


def same_dtypes(tensors: list[Tensor], op: str) -> None:
    """Raise InvalidArgumentError if tensors have different dtypes."""
    found = {t._layout.dtype for t in tensors}
    if len(found) > 1:
        raise InvalidArgumentError(
            f"{op} needs tensors of one dtype, got {', '.join(t.dtype.name for t in tensors)}: use gtape.cast"
        )


@diagnosed
def concat(values: Any, axis: Any, name: str = "concat") -> Tensor:
    """Join tensors along an existing axis.

    Parameters
    ----------
    values : list of tensors
        All of the same dtype, and of the same shape except along `axis`.
    axis : int

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If shapes or dtypes do not fit, or the axis is out of range.

    Examples
    --------
    >>> tf.concat([[1, 2], [3]], axis=0).numpy()
    array([1, 2, 3], dtype=int32)
    """
    if not isinstance(values, (list, tuple)):
        return REGISTRY["identity"](as_operand(values))
    if not values:
        raise InvalidArgumentError("concat needs at least one tensor")
    tensors = operands(*values)
    same_dtypes(tensors, "concat")
    if not tensors[0]._layout.shape:
        raise InvalidArgumentError("concat cannot join scalars, which have no axis: use gtape.stack")
    asked = only_int(axis, "the axis of concat")
    a = one_axis(asked, tensors[0].ndim)
    shapes = [t._layout.shape for t in tensors]
    if len({(len(s), s[:a], s[a + 1 :]) for s in shapes}) > 1:
        raise InvalidArgumentError(
            f"concat(axis={asked}) needs tensors whose shapes differ along axis {asked} only, got "
            f"{', '.join(str(t._layout.tensor_shape) for t in tensors)}"
        )
    return _concat(*tensors, axis=a - tensors[0].ndim)


@diagnosed
def stack(values: Any, axis: Any = 0, name: str = "stack") -> Tensor:
    """Join tensors of one shape along a new axis.

    Parameters
    ----------
    values : list of tensors, or a tensor
        All of the same dtype and shape. An empty list makes an empty tensor.
    axis : int
        The index of the new axis in the result.

    Raises
    ------
    ValueError
        If the axis is out of range.
    gtape.errors.InvalidArgumentError
        If shapes or dtypes differ.

    Examples
    --------
    >>> tf.stack([1.0, 2.0]).numpy()
    array([1., 2.], dtype=float32)
    """
    if is_tensor(values) or isinstance(values, np.ndarray):
        values = unstack(values)
    if not len(values):
        return as_operand(values)
    if all(isinstance(v, (int, float)) for v in values):
        values = unstack(as_operand(list(values)))  # a list of 1 and 2.0 becomes a list of floats
    tensors = operands(*values)
    same_dtypes(tensors, "stack")
    shapes = {t._layout.shape for t in tensors}
    if len(shapes) > 1:
        raise InvalidArgumentError(
            f"stack needs tensors of one shape, got {', '.join(str(t._layout.tensor_shape) for t in tensors)}"
        )
    n = tensors[0].ndim + 1
    a = scalar_int(axis)
    if not -n <= a < n:
        raise ValueError(f"Argument `axis` = {a} not in range [{-n}, {n})")
    return _stack(*tensors, axis=a % n - n)


@diagnosed
def unstack(value: Any, num: Any = None, axis: Any = 0, name: str = "unstack") -> list[Tensor]:
    """Split a tensor into its slices along an axis. The slices do not have this axis.

    Parameters
    ----------
    value : tensor with at least one axis
    num : int, optional
        The size of the axis. An error if the axis has another size.
    axis : int

    Returns
    -------
    list of Tensor

    Raises
    ------
    ValueError
        If the axis is out of range.
    gtape.errors.InvalidArgumentError
        If `num` is not the size of the axis.

    Examples
    --------
    >>> [float(t) for t in tf.unstack([1.0, 2.0])]
    [1.0, 2.0]
    """
    t = as_operand(value)
    shape = t._layout.shape
    a = scalar_int(axis)
    if not -len(shape) <= a < len(shape):
        raise ValueError(f"Argument `axis` = {a} not in range [{-len(shape)}, {len(shape)})")
    a %= len(shape)
    if num is not None and scalar_int(num) != shape[a]:
        raise InvalidArgumentError(f"the axis has size {shape[a]}, not num={num}")
    if not shape[a]:
        return []
    left = (*shape[:a], *shape[a + 1 :])
    return [REGISTRY["reshape"](p, shape=left) for p in _split(t, sizes=(1,) * shape[a], axis=a - len(shape))]


@diagnosed
@documented_like(unstack)
def split(value: Any, num_or_size_splits: Any, axis: Any = 0, num: Any = None, name: str = "split") -> list[Tensor]:
    """Split a tensor along an axis into equal parts or parts of given sizes.

    Parameters
    ----------
    num_or_size_splits : int or sequence of int
        The number of equal parts, or the sizes of the parts. One size may be -1 and stands for the rest.
    num : int, optional
        The number of parts. An error if there are more or fewer.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the parts do not fill the axis, or the axis is out of range.

    Examples
    --------
    >>> [p.shape[0] for p in tf.split([1.0, 2.0, 3.0], [1, -1])]
    [1, 2]
    """
    t = as_operand(value)
    a = one_axis(axis, t.ndim)
    length = t._layout.shape[a]
    if isinstance(num_or_size_splits, (list, tuple, np.ndarray)) or (
        is_tensor(num_or_size_splits) and num_or_size_splits.shape.rank
    ):
        sizes = list(static_ints(num_or_size_splits))
        if sizes.count(-1) == 1:
            sizes[sizes.index(-1)] = length - sum(sizes) - 1
        if sum(sizes) != length or any(n < 0 for n in sizes):
            raise InvalidArgumentError(
                f"sizes {list(static_ints(num_or_size_splits))} do not add up to the size {length} of axis {a}"
            )
    else:
        parts = scalar_int(num_or_size_splits)
        if parts < 1 or length % parts:
            raise InvalidArgumentError(f"axis {a} of size {length} cannot be split into {parts} equal parts")
        sizes = [length // parts] * parts
    if num is not None and num != len(sizes):
        raise InvalidArgumentError(f"num is {num}, but there are {len(sizes)} parts")
    return list(_split(t, sizes=tuple(sizes), axis=a - t.ndim))
