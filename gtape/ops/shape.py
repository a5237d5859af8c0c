"""Ops that give the same elements another shape or order: reshape, transpose, broadcast, reverse, roll.

The rules of this file, like those of the reductions, also take a cotangent with one extra leading axis (`jacobian`
pulls many back at once), so they count axes from the end and keep whatever leads.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from gtape import dtypes
from gtape.errors import InvalidArgumentError
from gtape.ops.axes import axes_of, from_end, lead_of, one_axis, shape_of, static_ints
from gtape.ops.join import concat, meshgrid, pad, repeat, split, stack, tile, unstack
from gtape.primitive import REGISTRY, linear, planned
from gtape.tensor import Tensor, as_operand, wrap
from gtape.tensor_shape import TensorShape

__all__ = [
    "broadcast_to",
    "concat",
    "ensure_shape",
    "expand_dims",
    "meshgrid",
    "pad",
    "rank",
    "repeat",
    "reshape",
    "reverse",
    "roll",
    "shape",
    "size",
    "split",
    "squeeze",
    "stack",
    "tile",
    "transpose",
    "unstack",
]


# ---------------------------------------------------------------------------------------------- reshape


def _reshape_kernel(x: Any, *, shape: tuple[int, ...]) -> Any:
    return x.reshape(shape)


_reshape = linear(
    "reshape",
    _reshape_kernel,
    lambda xp, g, x, *, shape: xp.reshape(g, shape=lead_of(g, len(shape)) + tuple(x.shape)),
    params=("shape",),
    batched=True,
    ulps=0.0,
    public=False,
    samples=(
        (((6,),), {"shape": (2, 3)}),
        (((2, 3),), {"shape": (3, 1, 2)}),
        (((),), {"shape": (1, 1)}),
        (((1,),), {"shape": ()}),
        (((0, 3),), {"shape": (3, 0)}),
    ),
)


# ---------------------------------------------------------------------------------------------- transpose


def _transpose_kernel(x: Any, *, perm: tuple[int, ...]) -> Any:
    return x.transpose(perm)


def _transpose_rule(xp: Any, g: Any, x: Any, *, perm: tuple[int, ...]) -> Any:
    lead = len(shape_of(g)) - len(perm)
    back = [0] * len(perm)
    for i, p in enumerate(perm):
        back[p] = i
    return xp.transpose(g, perm=(*range(lead), *[lead + i for i in back]))


_transpose = linear(
    "transpose",
    _transpose_kernel,
    _transpose_rule,
    params=("perm",),
    batched=True,
    ulps=0.0,
    public=False,
    samples=(
        (((2, 3),), {"perm": (1, 0)}),
        (((2, 3, 2),), {"perm": (2, 0, 1)}),
        (((3,),), {"perm": (0,)}),
        (((),), {"perm": ()}),
        (((1, 0, 2),), {"perm": (1, 2, 0)}),
    ),
)


# ---------------------------------------------------------------------------------------------- broadcasting


def _broadcast_to_kernel(x: Any, *, shape: tuple[int, ...]) -> Any:
    # A view with zero strides: values are immutable, so nobody writes through it.
    return np.broadcast_to(x, shape)


def _broadcast_to_rule(xp: Any, g: Any, x: Any, *, shape: tuple[int, ...]) -> Any:
    return xp.sum_to(g, shape=tuple(x.shape), batch=len(shape_of(g)) - len(shape))


_broadcast_to = linear(
    "broadcast_to",
    _broadcast_to_kernel,
    _broadcast_to_rule,
    params=("shape",),
    batched=True,
    ulps=0.0,
    public=False,
    samples=(
        (((),), {"shape": (2, 3)}),
        (((3,),), {"shape": (2, 3)}),
        (((2, 1),), {"shape": (2, 3)}),
        (((1, 3),), {"shape": (2, 2, 3)}),
        (((2, 3),), {"shape": (2, 3)}),
        (((1,),), {"shape": (0,)}),
    ),
)


@functools.lru_cache(maxsize=64)
def _ones(n: int, dtype: Any) -> Any:
    return np.ones(n, dtype)


@planned
def _sum_to_kernel(g: Any, *, shape: tuple[int, ...], batch: int) -> Any:
    have, dtype = g.shape, g.dtype
    extra = len(have) - batch - len(shape)
    if not batch and extra > 0 and have[extra:] == shape:  # the usual case: a bias
        if extra == 1 and len(have) == 2 and 0 < have[0] <= 4096 and dtype.char in "fd":
            row = _ones(have[0], dtype)
            return lambda g: np.dot(row, g)  # a row of ones times the rows: a third of the time of a sum
        axis = 0 if extra == 1 else tuple(range(extra))
        return lambda g: np.add.reduce(g, axis, dtype)
    if extra < 0:
        raise ValueError(f"a cotangent of shape {have[batch:]} cannot be summed to {shape}: it has fewer axes")
    first = batch + extra
    axes = (*range(batch, first), *[first + i for i, d in enumerate(shape) if d == 1 and have[first + i] != 1])
    whole = have[:batch] + shape
    return lambda g: (np.add.reduce(g, axis=axes, dtype=dtype) if axes else g).reshape(whole)


def _sum_to_rule(xp: Any, g: Any, x: Any, *, shape: tuple[int, ...], batch: int) -> Any:
    whole = tuple(x.shape)
    lead = lead_of(g, batch + len(shape))
    ones = (1,) * (len(whole) - batch - len(shape))
    return xp.broadcast_to(xp.reshape(g, shape=lead + whole[:batch] + ones + shape), shape=lead + whole)


_sum_to = linear(
    "sum_to",
    _sum_to_kernel,
    _sum_to_rule,
    params=("shape", "batch"),
    batched=True,
    public=False,
    samples=(
        (((),), {"shape": (), "batch": 0}),
        (((2, 3),), {"shape": (), "batch": 0}),
        (((2, 3),), {"shape": (3,), "batch": 0}),
        (((2, 3),), {"shape": (2, 1), "batch": 0}),
        (((2, 2, 3),), {"shape": (1, 3), "batch": 0}),
        (((2, 2, 3),), {"shape": (2, 1), "batch": 1}),
        (((2, 3),), {"shape": (), "batch": 1}),
        (((2, 3),), {"shape": (2, 3), "batch": 0}),
        (((0, 2),), {"shape": (1, 2), "batch": 0}),
    ),
)


# ---------------------------------------------------------------------------------------------- reverse and roll


def _reverse_kernel(x: Any, *, axis: tuple[int, ...]) -> Any:
    return np.flip(x, axis)


_reverse = linear(
    "reverse",
    _reverse_kernel,
    lambda xp, g, x, *, axis: xp.reverse(g, axis=from_end(axis, len(tuple(x.shape)))),
    params=("axis",),
    batched=True,
    ulps=0.0,
    public=False,
    samples=(
        (((3,),), {"axis": (-1,)}),
        (((2, 3),), {"axis": (0,)}),
        (((2, 3),), {"axis": (-2, -1)}),
        (((2,),), {"axis": ()}),
    ),
)


def _roll_kernel(x: Any, *, shift: tuple[int, ...], axis: tuple[int, ...]) -> Any:
    return np.roll(x, shift, axis)


def _roll_rule(xp: Any, g: Any, x: Any, *, shift: tuple[int, ...], axis: tuple[int, ...]) -> Any:
    return xp.roll(g, shift=tuple([-s for s in shift]), axis=from_end(axis, len(tuple(x.shape))))


_roll = linear(
    "roll",
    _roll_kernel,
    _roll_rule,
    params=("shift", "axis"),
    batched=True,
    ulps=0.0,
    public=False,
    samples=(
        (((3,),), {"shift": (1,), "axis": (-1,)}),
        (((2, 3),), {"shift": (-2, 1), "axis": (-1, 0)}),
        (((2, 3),), {"shift": (1, 1), "axis": (-1, -1)}),
    ),
)


# ---------------------------------------------------------------------------------------------- public functions


def _whole_shape(shape: Any) -> tuple[int, ...]:
    made = static_ints(shape)
    if any(d < 0 for d in made):
        raise InvalidArgumentError(f"a shape has no negative sizes, got {made}")
    return made


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """The same elements in another shape.

    Parameters
    ----------
    tensor : tensor, any shape and dtype
    shape : sequence of int or integer tensor
        One size may be -1: what is left.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When the shape does not hold as many elements.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.reshape([1.0, 2.0, 3.0, 4.0], [2, -1]).shape
    TensorShape([2, 2])
    """
    t = as_operand(tensor)
    try:
        wanted = static_ints(shape)
    except TypeError:
        raise InvalidArgumentError(f"a shape must be integers, got {shape!r}") from None
    size = t._aval.size
    if -1 in wanted:
        i = wanted.index(-1)
        known = math.prod(wanted[:i] + wanted[i + 1 :])
        if known <= 0 or size % known:
            raise InvalidArgumentError(
                f"cannot reshape a tensor of shape {t._aval.tensor_shape} ({size} elements) to {list(wanted)}: "
                "-1 has no value that fits"
            )
        wanted = (*wanted[:i], size // known, *wanted[i + 1 :])
    if any(d < 0 for d in wanted) or math.prod(wanted) != size:
        raise InvalidArgumentError(
            f"cannot reshape a tensor of shape {t._aval.tensor_shape} ({size} elements) to {list(wanted)}"
        )
    return _reshape(t, shape=wanted)  # type: ignore[no-any-return]


def transpose(a: Any, perm: Any = None, conjugate: bool = False, name: str = "transpose") -> Tensor:
    """Permute the axes.

    Parameters
    ----------
    a : tensor, any shape and dtype
    perm : sequence of int, optional
        Which axis of `a` each axis of the result is; reversed by default.
    conjugate : bool
        Whether to take the complex conjugate too.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When `perm` is no permutation of the axes.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.transpose([[1, 2], [3, 4]]).numpy()
    array([[1, 3],
           [2, 4]], dtype=int32)
    """
    t = as_operand(a)
    n = t.ndim
    order = tuple(range(n))[::-1] if perm is None else tuple([one_axis(p, n) for p in static_ints(perm)])
    if sorted(order) != list(range(n)):
        raise InvalidArgumentError(f"perm must name each of the {n} axes once, got {perm!r}")
    y: Tensor = _transpose(t, perm=order)
    return REGISTRY["conj"](y) if conjugate and t._aval.dtype.kind == "c" else y


def squeeze(input: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """Remove axes of size 1.

    Parameters
    ----------
    input : tensor, any shape and dtype
    axis : int or sequence of int, optional
        Which ones; all of size 1 by default.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When an axis does not have size 1 or is out of range.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.squeeze([[[1.0], [2.0]]]).shape
    TensorShape([2])
    """
    t = as_operand(input)
    shape = t._aval.shape
    gone = {one_axis(a, len(shape)) for a in static_ints(axis)} if axis is not None else set()
    if not gone:
        gone = {i for i, d in enumerate(shape) if d == 1}
    bad = [i for i in sorted(gone) if shape[i] != 1]
    if bad:
        raise InvalidArgumentError(
            f"can only squeeze axes of size 1; axis {bad[0]} of shape {t._aval.tensor_shape} has size {shape[bad[0]]}"
        )
    return _reshape(t, shape=tuple([d for i, d in enumerate(shape) if i not in gone]))  # type: ignore[no-any-return]


def expand_dims(input: Any, axis: Any, name: str | None = None) -> Tensor:
    """Insert an axis of size 1.

    Parameters
    ----------
    input : tensor, any shape and dtype
    axis : int
        Where the new axis is in the result, from ``-(ndim + 1)`` to ``ndim``.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When the axis is out of range.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.expand_dims([1.0, 2.0], 0).shape
    TensorShape([1, 2])
    """
    t = as_operand(input)
    (place,) = static_ints(axis)
    a = one_axis(place, t.ndim + 1, "result")
    shape = t._aval.shape
    return _reshape(t, shape=(*shape[:a], 1, *shape[a:]))  # type: ignore[no-any-return]


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """Repeat a tensor along new axes and axes of size 1, by NumPy's rules.

    Parameters
    ----------
    input : tensor, any shape and dtype
    shape : sequence of int or integer tensor
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When the shapes do not fit.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.broadcast_to([1.0, 2.0], [2, 2]).numpy()
    array([[1., 2.],
           [1., 2.]], dtype=float32)
    """
    return _broadcast_to(as_operand(input), shape=_whole_shape(shape))  # type: ignore[no-any-return]


def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    """The tensor itself, after checking its shape.

    Parameters
    ----------
    x : tensor
    shape : sequence of int or None, or None
        None stands for any size, or for any shape.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When the shape is another.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.ensure_shape([1.0, 2.0], [None]).shape
    TensorShape([2])
    """
    t = as_operand(x)
    have = t._aval.shape
    known = TensorShape(shape)
    wanted = list(have) if known.rank is None else known.as_list()
    if len(wanted) != len(have) or any(w is not None and w != d for w, d in zip(wanted, have, strict=True)):
        raise InvalidArgumentError(
            f"the tensor has shape {t._aval.tensor_shape}, which is not compatible with {wanted}"
        )
    return REGISTRY["identity"](t)  # type: ignore[no-any-return]


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    """Reverse the order of the elements along axes.

    Parameters
    ----------
    tensor : tensor, any shape and dtype
    axis : sequence of int
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When an axis is out of range or named twice.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.reverse([1, 2, 3], [0]).numpy()
    array([3, 2, 1], dtype=int32)
    """
    t = as_operand(tensor)
    return _reverse(t, axis=axes_of(axis, t.ndim))  # type: ignore[no-any-return]


def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Tensor:
    """Shift the elements along axes; what falls off one end comes in at the other.

    Parameters
    ----------
    input : tensor, any shape and dtype
    shift : int or sequence of int
        Places to move towards higher indices; one an axis.
    axis : int or sequence of int
        An axis may be named twice: the shifts add up.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When an axis is out of range, or there is not one shift for each.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.roll([1, 2, 3], shift=1, axis=0).numpy()
    array([3, 1, 2], dtype=int32)
    """
    t = as_operand(input)
    axes = tuple([one_axis(a, t.ndim) - t.ndim for a in static_ints(axis)])
    shifts = static_ints(shift)
    if len(axes) != len(shifts):
        raise InvalidArgumentError(f"shift and axis must have as many entries, got {len(shifts)} and {len(axes)}")
    return _roll(t, shift=shifts, axis=axes)  # type: ignore[no-any-return]


def shape(input: Any, out_type: Any = dtypes.int32, name: str | None = None) -> Tensor:
    """The shape of a tensor, as a tensor.

    Parameters
    ----------
    input : tensor
    out_type : dtype
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor
        Not differentiable.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.shape([[1.0], [2.0]]).numpy()
    array([2, 1], dtype=int32)
    """
    return wrap(np.array(as_operand(input)._aval.shape, dtype=dtypes.np_dtype(out_type)))


def size(input: Any, out_type: Any = dtypes.int32, name: str | None = None) -> Tensor:
    """The number of elements of a tensor, as a tensor.

    Parameters
    ----------
    input : tensor
    out_type : dtype
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor
        Scalar, not differentiable.

    Examples
    --------
    >>> import gtape as tf
    >>> int(tf.size([[1.0], [2.0]]))
    2
    """
    return wrap(np.array(as_operand(input)._aval.size, dtype=dtypes.np_dtype(out_type)))


def rank(input: Any, name: str | None = None) -> Tensor:
    """The number of axes of a tensor, as an int32 tensor.

    Parameters
    ----------
    input : tensor
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor
        Scalar, not differentiable.

    Examples
    --------
    >>> import gtape as tf
    >>> int(tf.rank([[1.0], [2.0]]))
    2
    """
    return wrap(np.int32(as_operand(input).ndim))
