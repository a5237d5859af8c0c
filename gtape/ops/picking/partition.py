"""Ops that distribute and collect rows: partitions, stitching, reversed sequences, unique elements."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gtape import dtypes
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.declare.primitives import REGISTRY
from gtape.errors import InvalidArgumentError
from gtape.ops.picking.gather import integers
from gtape.ops.shape.decisions import checked, decided, is_followed, size_decided
from gtape.tensors.axes import scalar_int
from gtape.tensors.operands import operands
from gtape.tensors.tensor import Tensor, as_operand, wrap

__all__ = ["dynamic_partition", "dynamic_stitch", "reverse_sequence", "unique", "unique_with_counts"]
NAMESPACES = ()


def _taken(rows: Tensor, places: Tensor) -> Tensor:
    """Rows by number. A source, too, gets a dense gradient."""
    n = rows._layout.shape[0]
    return REGISTRY["gather"](rows, places, axis=-rows.ndim, size=n)


@diagnosed
def dynamic_partition(data: Any, partitions: Any, num_partitions: Any, name: str | None = None) -> list[Tensor]:
    """Distribute slices to partitions. Within a partition they keep their order.

    Parameters
    ----------
    data : tensor
    partitions : int32 tensor
        The number of the partition of each slice. The shape is that of the first axes of `data`.
    num_partitions : int
        1 or more.

    Returns
    -------
    list of Tensor
        Each has the shape ``(n, *data.shape[partitions.ndim:])``.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If a partition is out of range, or the shapes do not fit.

    Examples
    --------
    >>> [p.numpy().tolist() for p in tf.dynamic_partition([1.0, 2.0, 3.0], [1, 0, 1], 2)]
    [[2.0], [1.0, 3.0]]
    """
    t = as_operand(data)
    numbers = integers(partitions, "dynamic_partition")
    given, size = numbers._layout.shape, numbers._layout.size
    n = scalar_int(num_partitions)
    shape = t._layout.shape
    if n < 1:
        raise InvalidArgumentError(f"dynamic_partition: num_partitions must be at least 1, got {n}")
    if shape[: len(given)] != given:
        raise InvalidArgumentError(
            f"dynamic_partition: data of shape {t._layout.tensor_shape} does not start with the shape {list(given)} "
            "of partitions"
        )

    def check(to: Any) -> None:
        if to.size and not 0 <= int(to.min()) <= int(to.max()) < n:
            raise InvalidArgumentError(f"dynamic_partition: partitions must be in [0, {n}), got {to.tolist()}")

    checked(check, numbers)
    rows = t if len(given) == 1 else REGISTRY["reshape"](t, shape=(size, *shape[len(given) :]))
    return [_taken(rows, decided(partial(_places_of, p), numbers)) for p in np.arange(n)]


def _places_of(p: Any, numbers: Any) -> Any:
    return np.flatnonzero(numbers == p)


def _number_after_greatest(*numbers: Any) -> Any:
    return max(i.max(initial=-1) for i in numbers) + 1


@diagnosed
def dynamic_stitch(indices: Any, data: Any, name: str | None = None) -> Tensor:
    """Put slices of several tensors together by number. Of several slices with one number, the last counts.

    Parameters
    ----------
    indices : list of integer tensors
        The index of each slice in the result.
    data : list of tensors
        One tensor for each of `indices`, of shape ``(*indices[i].shape, ...)``. All have the same remaining axes.

    Returns
    -------
    Tensor
        One row more than the greatest number; zeros for numbers without a slice. Replaced slices have no gradient.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If a number is negative, or lists, shapes or dtypes do not fit.

    Examples
    --------
    >>> tf.dynamic_stitch([[0, 2], [1]], [[1.0, 2.0], [5.0]]).numpy()
    array([1., 5., 2.], dtype=float32)
    """
    if not len(indices) or len(indices) != len(data):
        raise InvalidArgumentError(
            f"dynamic_stitch needs as many indices as data, at least one, got {len(indices)} and {len(data)}"
        )
    wanted = [integers(i, "dynamic_stitch") for i in indices]
    numbers = [np.asarray(i._value) for i in wanted]
    tensors = operands(*data) if len(data) > 1 else [as_operand(data[0])]
    rest = tensors[0]._layout.shape[numbers[0].ndim :]
    for k, (i, t) in enumerate(zip(numbers, tensors, strict=True)):
        if t._layout.shape != i.shape + rest or t._layout.dtype != tensors[0]._layout.dtype:
            raise InvalidArgumentError(
                f"dynamic_stitch: data[{k}] must be {tensors[0].dtype.name} of shape {[*i.shape, *rest]}, for indices "
                f"of shape {list(i.shape)}, but is {t.dtype.name} of shape {list(t._layout.shape)}"
            )
    flat = np.concatenate([i.reshape(-1) for i in numbers]).astype(np.int64)
    if flat.size and flat.min() < 0:
        raise InvalidArgumentError(f"dynamic_stitch: indices must not be negative, got {int(flat.min())}")
    size = size_decided(_number_after_greatest, *wanted) if flat.size else 0
    # An additional row of zeros, for numbers without a slice.

    def last(*numbers: Any) -> Any:
        found = np.full(size, flat.size)
        found[np.concatenate([i.reshape(-1) for i in numbers]).astype(np.int64)] = np.arange(flat.size)
        return found  # NumPy keeps the last of several assignments

    rows = decided(last, *wanted)
    parts = [REGISTRY["reshape"](t, shape=(i.size, *rest)) for i, t in zip(numbers, tensors, strict=True)]
    if is_followed(*wanted) or (np.asarray(rows._value) == flat.size).any() or not parts:
        parts.append(wrap(np.zeros((1, *rest), tensors[0]._layout.dtype)))
    return _taken(REGISTRY["concat"](*parts, axis=0) if len(parts) > 1 else parts[0], rows)


@diagnosed
def reverse_sequence(
    input: Any, seq_lengths: Any, seq_axis: Any = None, batch_axis: Any = None, name: str | None = None
) -> Tensor:
    """Reverse the first `seq_lengths` elements along an axis, for each index of another axis.

    Parameters
    ----------
    input : tensor with at least two axes
    seq_lengths : integer vector
        The number of elements to reverse for each index of `batch_axis`.
    seq_axis : int
        The axis to reverse along.
    batch_axis : int, optional
        0 by default.

    Raises
    ------
    TypeError
        If `seq_axis` is missing.
    gtape.errors.InvalidArgumentError
        If a length or an axis is out of range.

    Examples
    --------
    >>> tf.reverse_sequence([[1, 2, 3], [4, 5, 6]], [2, 3], seq_axis=1).numpy()
    array([[2, 1, 3],
           [6, 5, 4]], dtype=int32)
    """
    if seq_axis is None:
        raise TypeError("reverse_sequence needs seq_axis, the axis along which to reverse")
    t = as_operand(input)
    shape = t._layout.shape
    numbers = integers(seq_lengths, "reverse_sequence")
    given, size = numbers._layout.shape, t._layout.size
    s, b = scalar_int(seq_axis), 0 if batch_axis is None else scalar_int(batch_axis)
    for a in (s, b):
        if not 0 <= a < len(shape):
            raise InvalidArgumentError(
                f"reverse_sequence: axis {a} is not in [0, {len(shape)}), for a tensor of shape "
                f"{t._layout.tensor_shape}"
            )
    if s == b:
        raise InvalidArgumentError(f"reverse_sequence: batch_axis and seq_axis are both {s}")
    if given != (shape[b],):
        raise InvalidArgumentError(
            f"reverse_sequence: seq_lengths must have {shape[b]} entries, as axis {b} has, got {list(given)}"
        )

    def check(lengths: Any) -> None:
        if lengths.size and not 0 <= int(lengths.min()) <= int(lengths.max()) <= shape[s]:
            raise InvalidArgumentError(f"reverse_sequence: lengths must be in [0, {shape[s]}], got {lengths.tolist()}")

    checked(check, numbers)

    def places(lengths: Any) -> Any:
        step = np.arange(shape[s])
        back = lengths[:, None].astype(np.int64) - 1 - step  # unsigned lengths have no negative differences
        source = np.where(back >= 0, back, step)  # of shape (batch, sequence)
        there = np.moveaxis(np.arange(size).reshape(shape), (b, s), (0, 1))
        there = np.moveaxis(there[np.arange(shape[b])[:, None], source], (0, 1), (b, s))
        return np.ascontiguousarray(there)

    line = REGISTRY["reshape"](t, shape=(size,))
    return _taken(line, decided(places, numbers))


class Unique(NamedTuple):
    """The result of `unique`."""

    y: Tensor
    idx: Tensor


class UniqueWithCounts(NamedTuple):
    """The result of `unique_with_counts`."""

    y: Tensor
    idx: Tensor
    count: Tensor  # type: ignore[assignment]


def _unique(x: Any, out_idx: Any, op: str) -> tuple[Tensor, Tensor, Tensor]:
    t = as_operand(x)
    if t.ndim != 1:
        raise InvalidArgumentError(f"{op} expects a 1D vector, got shape {t._layout.tensor_shape}: use gtape.reshape")
    value, dtype = np.asarray(t._value), dtypes.np_dtype(out_idx)
    known = _distinct(value)

    def part(k: int, kind: Any) -> Tensor:
        return decided(lambda v: (known if v is value else _distinct(v))[k].astype(kind), t)

    y = REGISTRY["gather"](t, part(0, np.int64), axis=-1, size=t._layout.size)
    return y, part(1, dtype), part(2, dtype)


def _distinct(values: Any) -> tuple[Any, Any, Any]:
    """The places of first occurrences in order, the number of its place for each element, and the counts."""
    _, first, inverse, counts = np.unique(
        values, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return first[order], rank[inverse], counts[order]


@diagnosed
def unique(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> Unique:
    """The distinct elements of a vector in the order of their first occurrence.

    Parameters
    ----------
    x : vector
    out_idx : dtype
        The dtype of the indices: int32 or int64.

    Returns
    -------
    y : Tensor
        The elements. Their gradients flow to the first occurrences.
    idx : Tensor
        The index in `y` of each element of `x`.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `x` is not a vector.

    Examples
    --------
    >>> y, idx = tf.unique([7.0, 2.0, 7.0])
    >>> y.numpy(), idx.numpy()
    (array([7., 2.], dtype=float32), array([0, 1, 0], dtype=int32))
    """
    y, idx, _ = _unique(x, out_idx, "unique")
    return Unique(y, idx)


@diagnosed
@documented_like(unique)
def unique_with_counts(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> UniqueWithCounts:
    """The distinct elements of a vector in the order of their first occurrence, and their numbers of occurrences.

    Returns
    -------
    y, idx : Tensor
        As for `unique`.
    count : Tensor
        The number of occurrences of each element of `y`.

    Examples
    --------
    >>> tf.unique_with_counts([7.0, 2.0, 7.0]).count.numpy()
    array([2, 1], dtype=int32)
    """
    return UniqueWithCounts(*_unique(x, out_idx, "unique_with_counts"))
