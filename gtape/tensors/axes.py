"""Shapes and axes: TensorFlow's static arguments, and leading axes of batched cotangents."""

from __future__ import annotations

import math
import operator
from itertools import islice
from typing import Any

import numpy as np

from gtape.base.shown import shown
from gtape.errors import InvalidArgumentError, OperandTypeError, OperandValueError, ResourceExhaustedError
from gtape.recording.record import get_stack
from gtape.recording.trace import note_branch

__all__: list[str] = []


def shape_of(v: Any) -> tuple[int, ...]:
    """The shape of a value of any world as a tuple. The shape of a Python float is ()."""
    return tuple(getattr(v, "shape", ()))


def lead_of(g: Any, ndim: int) -> tuple[int, ...]:
    """The leading axes of a cotangent beyond the `ndim` of the op's output: () or the axes of a batch."""
    shape = shape_of(g)
    return shape[: len(shape) - ndim]


def from_end(axis: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    """The same axes counted from the end, because they then also fit a batched cotangent."""
    return tuple([a - ndim if a >= 0 else a for a in axis])


def kept_shape(shape: tuple[int, ...], axis: tuple[int, ...]) -> tuple[int, ...]:
    """The shape after a reduction over `axis` with keepdims."""
    gone = {a % len(shape) for a in axis}
    return tuple([1 if i in gone else d for i, d in enumerate(shape)])


def left_shape(shape: tuple[int, ...], axis: tuple[int, ...]) -> tuple[int, ...]:
    """The shape after a reduction over `axis` without keepdims."""
    gone = {a % len(shape) for a in axis}
    return tuple([d for i, d in enumerate(shape) if i not in gone])


def spread(xp: Any, g: Any, shape: tuple[int, ...], axis: tuple[int, ...], keepdims: bool) -> Any:
    """A reduction's cotangent or output with reduced axes of size 1. Leading axes stay."""
    if keepdims or not axis:
        return g
    return xp.reshape(g, shape=lead_of(g, len(shape) - len(axis)) + kept_shape(shape, axis))


def count_of(shape: tuple[int, ...], axis: tuple[int, ...]) -> int:
    """The number of elements in each result of a reduction."""
    n = 1
    for a in axis:
        n *= shape[a]
    return n


def merged(t: Any, axis: tuple[int, ...]) -> Any:
    """A tensor with several axes (counted from the end) merged into the last one, for a reduction over them."""
    from gtape.declare.primitives import REGISTRY

    shape = tuple(t._layout.shape)
    kept = [i for i in range(len(shape)) if i - len(shape) not in axis]
    if kept and axis and axis != tuple(range(-len(axis), 0)):
        t = REGISTRY["transpose"](t, perm=(*kept, *[a + len(shape) for a in axis]))
    rows = (*[shape[i] for i in kept], count_of(shape, axis))
    return t if t._layout.shape == rows else REGISTRY["reshape"](t, shape=rows)


_LARGEST = 2**63
_MOST_BYTES = 1 << 41
_MOST = 1 << 20  # integers in one static argument


def scalar_int(v: Any) -> int:
    """A static integer argument: an int, or an integer tensor or array of one element."""
    if v.__class__ is int:
        if not -_LARGEST <= v < _LARGEST:
            raise ValueError(f"a whole number in a shape, an axis or a size must be less than 2**63, not {shown(v)}")
        return v
    if getattr(type(v), "_is_gtape_tensor", False):
        v = v._as_tensor()
    if isinstance(v, np.ndarray):
        if v.size != 1:
            raise ValueError(f"expected one integer, got an array of shape {v.shape}")
        v = v.reshape(())[()]
    try:
        return scalar_int(operator.index(v))
    except TypeError:
        error = OperandValueError if v is None else TypeError
        raise error(f"a whole number is needed (in a shape, an axis, a size), not {shown(v)}") from None


def integers_read(tensor: Any) -> Any:
    """The raw integers of a tensor that an op reads as sizes or places. A check notes them as it notes a branch."""
    if getattr(tensor, "_record", None) is not None and get_stack().trace:
        note_branch(tensor, int)
    return tensor._value


def static_ints(v: Any) -> tuple[int, ...]:
    """A static list of integers, from a sequence, TensorShape, tensor or array, or from one integer.

    Raises a TypeError for floats and for other objects that are not integers.
    """
    if isinstance(v, type):
        raise TypeError(f"whole numbers are needed (in a shape, an axis, a size), not the class {shown(v)}")
    if getattr(type(v), "_is_gtape_tensor", False):
        v = v._as_tensor()
    if hasattr(v, "_layout"):
        v = np.asarray(integers_read(v))
    if isinstance(v, np.ndarray):
        if v.size > _MOST:
            raise _too_many(v.size)
        v = v.ravel().tolist()
    if v.__class__ is tuple or v.__class__ is list:
        return tuple([scalar_int(e) for e in v])
    if hasattr(v, "__iter__") and not isinstance(v, (str, bytes, bytearray, dict)):
        try:
            items = iter(v)
        except (TypeError, NotImplementedError):  # __iter__ raises for a scalar and for a memoryview of several axes
            return (scalar_int(v),)
        found = tuple([scalar_int(e) for e in islice(items, _MOST + 1)])
        if len(found) > _MOST:
            raise _too_many(len(found))
        return found
    return (scalar_int(v),)


def _too_many(n: int) -> ValueError:
    return ValueError(f"a list of at most {_MOST} whole numbers is needed (in a shape, an axis, a size), not of {n}")


def check_room(shape: tuple[int, ...], dtype: np.dtype[Any], op: str) -> None:
    """Raise an error for the shape of a result that does not fit into memory, even if a view could have this shape."""
    if math.prod(shape) * dtype.itemsize > _MOST_BYTES:
        raise ResourceExhaustedError(f"{op}: no memory holds a tensor of shape {list(shape)} and dtype {dtype.name}")


def only_int(v: Any, what: str) -> int:
    """A static argument of exactly one integer, alone or in a list. The InvalidArgumentError contains `what`."""
    found = static_ints(v)
    if len(found) != 1:
        raise InvalidArgumentError(f"{what} must be one integer, got {shown(v)}")
    return found[0]


def one_axis(axis: Any, ndim: int, what: str = "tensor") -> int:
    """An axis as a number from 0 to `ndim` - 1.

    Raises an InvalidArgumentError if the axis is out of range, and an OperandTypeError (which is a TypeError, too) if
    it is not an integer.
    """
    try:
        a = scalar_int(axis)
    except TypeError:
        error = OperandValueError if axis is None else OperandTypeError
        raise error(f"an axis must be one integer, got {shown(axis)}") from None
    if not -ndim <= a < ndim:
        raise InvalidArgumentError(
            f"axis {a} is out of range for a {what} with {ndim} axes: it must be in [{-ndim}, {ndim})"
        )
    return a % ndim


# Normalised axes by (axis, ndim), for the common arguments.
_FOUND: dict[Any, tuple[int, ...]] = {}


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes of a reduction, counted from the end in ascending order. None stands for all axes.

    Raises an InvalidArgumentError if an axis is out of range or named twice, and an OperandTypeError (which is a
    TypeError, too) if an axis is not an integer.
    """
    if axis.__class__ is int or axis is None:  # 1.0 equals 1, but is not an axis
        known = _FOUND.get((axis, ndim))
        if known is not None:
            return known
    if axis is None:
        found = tuple(range(-ndim, 0))
        _FOUND[None, ndim] = found
        return found
    try:
        axes = sorted([one_axis(a, ndim) - ndim for a in static_ints(axis)])
    except TypeError as e:  # raised as both classes, because TensorFlow's depends on the op and the axis
        error = OperandValueError if isinstance(e, OperandValueError) else OperandTypeError
        raise error(f"an axis must be an integer or several, got {shown(axis)}") from None
    if len(set(axes)) != len(axes):
        raise InvalidArgumentError(f"an axis is named twice in {shown(axis)} for a tensor with {ndim} axes")
    if axis.__class__ is int and len(_FOUND) < 1000:
        _FOUND[axis, ndim] = tuple(axes)
    return tuple(axes)
