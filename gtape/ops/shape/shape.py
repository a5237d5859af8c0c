"""The same elements in another shape: reshape, squeeze, expand_dims. The shape of a tensor.

The rules count axes from the end and keep leading axes, because `jacobian` uses cotangents with a batch axis.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gtape import dtypes
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.shown import shown
from gtape.base.tensor_shape import TensorShape
from gtape.declare.primitives import REGISTRY, linear
from gtape.declare.rounding import EXACT
from gtape.errors import InvalidArgumentError, OperandValueError
from gtape.tensors.axes import lead_of, one_axis, only_int, static_ints
from gtape.tensors.tensor import Tensor, as_operand, wrap

__all__ = ["ensure_shape", "expand_dims", "rank", "reshape", "shape", "size", "squeeze"]


def _reshape_kernel(x: Any, *, shape: tuple[int, ...]) -> Any:
    if x.__class__ is bytes:  # the value of a string tensor without axes
        x = np.array(x, dtype=object)
    return x.reshape(shape)


reshape_op = linear(
    "reshape", _reshape_kernel, lambda xp, g, x, *, shape: xp.reshape(g, shape=lead_of(g, len(shape)) + tuple(x.shape)),
    params=("shape",), batched=True, role=("move", "flat"), rounding=EXACT,
    samples=(
        (((6,),), {"shape": (2, 3)}),
        (((2, 3),), {"shape": (3, 1, 2)}),
        (((),), {"shape": (1, 1)}),
        (((1,),), {"shape": ()}),
        (((0, 3),), {"shape": (3, 0)}),
    ),
)  # fmt: skip


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """The same elements in another shape.

    Parameters
    ----------
    tensor : tensor, any shape and dtype
    shape : sequence of int or integer tensor
        One size may be -1 and stands for the rest.

    Returns
    -------
    Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the shape has another number of elements.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.reshape([1.0, 2.0, 3.0, 4.0], [2, -1]).shape
    TensorShape([2, 2])
    """
    t = as_operand(tensor)
    if shape is None:
        raise ValueError("reshape: a shape is a list of integers, such as [2, -1], not None")
    try:
        wanted = static_ints(shape)
    except TypeError as e:
        error = OperandValueError if isinstance(e, OperandValueError) else InvalidArgumentError
        raise error(f"a shape must be integers, got {shown(shape)}") from None
    size = t._layout.size
    given = wanted
    if -1 in wanted:
        i = wanted.index(-1)
        known = math.prod(wanted[:i] + wanted[i + 1 :])
        if not known and not size:  # any size fits, and TensorFlow ignores the sizes of 0
            known = math.prod([d for d in wanted[:i] + wanted[i + 1 :] if d])
            size = math.prod([d for d in t._layout.shape if d])
        if known <= 0 or size % known:
            raise InvalidArgumentError(
                f"cannot reshape a tensor of shape {t._layout.tensor_shape} ({size} elements) to {list(wanted)}: "
                "-1 has no value that fits"
            )
        wanted = (*wanted[:i], size // known, *wanted[i + 1 :])
    if any(d < 0 for d in wanted) or math.prod(wanted) != t._layout.size:
        raise InvalidArgumentError(
            f"cannot reshape a tensor of shape {t._layout.tensor_shape} ({size} elements) to {list(wanted)}"
        )
    # -1 stays, because a tensor of picked elements has another size where other elements are picked.
    return reshape_op(t, shape=given if all(wanted) else wanted)


def squeeze(input: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """Remove axes of size 1.

    Parameters
    ----------
    input : tensor, any shape and dtype
    axis : int or sequence of int, optional
        The axes to remove. By default all axes of size 1.

    Returns
    -------
    Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If an axis does not have size 1 or is out of range.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.squeeze([[[1.0], [2.0]]]).shape
    TensorShape([2])
    """
    t = as_operand(input)
    shape = t._layout.shape
    gone = {one_axis(a, len(shape)) for a in static_ints(axis)} if axis is not None else set()
    if not gone:
        gone = {i for i, d in enumerate(shape) if d == 1}
    bad = [i for i in sorted(gone) if shape[i] != 1]
    if bad:
        raise InvalidArgumentError(
            f"can only squeeze axes of size 1; axis {bad[0]} of shape {t._layout.tensor_shape} has size {shape[bad[0]]}"
        )
    return reshape_op(t, shape=tuple([d for i, d in enumerate(shape) if i not in gone]))


@diagnosed
def expand_dims(input: Any, axis: Any, name: str | None = None) -> Tensor:
    """Insert an axis of size 1.

    Parameters
    ----------
    input : tensor, any shape and dtype
    axis : int
        The index of the new axis in the result, from ``-(ndim + 1)`` to ``ndim``.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the axis is out of range.

    Examples
    --------
    >>> tf.expand_dims([1.0, 2.0], 0).shape
    TensorShape([1, 2])
    """
    t = as_operand(input)
    if axis is None:
        raise ValueError("expand_dims: the axis must be an integer, got None")
    a = one_axis(only_int(axis, "the axis of expand_dims"), t.ndim + 1, "result")
    shape = t._layout.shape
    return reshape_op(t, shape=(*shape[:a], 1, *shape[a:]))


@diagnosed
def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    """The tensor itself, after a check of its shape.

    Parameters
    ----------
    x : tensor
    shape : sequence of int or None, or None
        None stands for any size, or for any shape.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the shape differs.

    Examples
    --------
    >>> tf.ensure_shape([1.0, 2.0], [None]).shape
    TensorShape([2])
    """
    t = as_operand(x)
    have = t._layout.shape
    known = TensorShape(shape)
    wanted = list(have) if known.rank is None else known.as_list()
    if len(wanted) != len(have) or any(w is not None and w != d for w, d in zip(wanted, have, strict=True)):
        raise InvalidArgumentError(
            f"the tensor has shape {t._layout.tensor_shape}, which is not compatible with {wanted}"
        )
    return REGISTRY["identity"](t)


@diagnosed
def shape(input: Any, out_type: Any = dtypes.int32, name: str | None = None) -> Tensor:
    """The shape of a tensor as a tensor.

    Parameters
    ----------
    input : tensor
    out_type : dtype

    Returns
    -------
    Tensor
        Not differentiable.

    Examples
    --------
    >>> tf.shape([[1.0], [2.0]]).numpy()
    array([2, 1], dtype=int32)
    """
    return wrap(np.array(as_operand(input)._layout.shape, dtype=dtypes.np_dtype(out_type)))


@diagnosed
@documented_like(shape)
def size(input: Any, out_type: Any = dtypes.int32, name: str | None = None) -> Tensor:
    """The number of elements of a tensor as a tensor.

    Returns
    -------
    Tensor
        Scalar, not differentiable.

    Examples
    --------
    >>> int(tf.size([[1.0], [2.0]]))
    2
    """
    return wrap(np.array(as_operand(input)._layout.size, dtype=dtypes.np_dtype(out_type)))


@documented_like(size)
def rank(input: Any, name: str | None = None) -> Tensor:
    """The number of axes of a tensor as an int32 tensor.

    Examples
    --------
    >>> int(tf.rank([[1.0], [2.0]]))
    2
    """
    return wrap(np.int32(as_operand(input).ndim))
