"""Shapes and values outside ops: broadcast shapes, unravelled indices, static values."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import dtypes
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.tensor_shape import TensorShape
from gtape.declare.primitives import REGISTRY
from gtape.errors import InvalidArgumentError
from gtape.kernels.broadcasting import broadcast_shapes
from gtape.ops.picking.gather import integers
from gtape.ops.shape.decisions import checked, decided
from gtape.tensors.argument_checks import each
from gtape.tensors.axes import static_ints
from gtape.tensors.tensor import Tensor, as_operand, is_tensor, wrap

__all__ = [
    "broadcast_dynamic_shape", "broadcast_static_shape", "get_static_value", "identity_n", "shape_n", "tuple",
    "unravel_index",
]  # fmt: skip
NAMESPACES = ()
LETS_OUT = True  # static values leave the tape here, as `gtape.recording.trace` notes


@diagnosed
def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    """The shape that two shapes broadcast to, as a tensor.

    Parameters
    ----------
    shape_x, shape_y : integer vectors

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the shapes do not broadcast.

    Examples
    --------
    >>> tf.broadcast_dynamic_shape([1, 2, 3], [5, 1, 3]).numpy()
    array([5, 2, 3], dtype=int32)
    """
    dtype = as_operand(shape_x)._layout.dtype
    try:
        found = broadcast_shapes(static_ints(shape_x), static_ints(shape_y))
    except ValueError:
        raise InvalidArgumentError(f"Incompatible shapes for broadcasting: {shape_x} and {shape_y}") from None
    return wrap(np.array(found, dtype if dtype.kind in "iu" else np.int32))


@diagnosed
def broadcast_static_shape(shape_x: Any, shape_y: Any) -> TensorShape:
    """The shape that two shapes broadcast to.

    Parameters
    ----------
    shape_x, shape_y : TensorShape or sequence of int
        Shapes without unknown sizes.

    Raises
    ------
    ValueError
        If the shapes do not broadcast.

    Examples
    --------
    >>> tf.broadcast_static_shape(tf.TensorShape([1, 2]), tf.TensorShape([3, 1]))
    TensorShape([3, 2])
    """
    shapes = [TensorShape(s) for s in (shape_x, shape_y)]
    try:
        return TensorShape(broadcast_shapes(*[static_ints(s.as_list()) for s in shapes]))
    except ValueError:
        raise ValueError(f"Incompatible shapes for broadcasting: {shapes[0]} and {shapes[1]}") from None


@diagnosed
def get_static_value(tensor: Any, partial: bool = False) -> Any:
    """The value of a tensor. gtape always knows the value.

    Parameters
    ----------
    tensor : tensor or array-like
    partial : bool
        Ignored; TensorFlow has it.

    Returns
    -------
    ndarray or NumPy scalar

    Examples
    --------
    >>> tf.get_static_value(tf.constant([1, 2]))
    array([1, 2], dtype=int32)
    """
    return as_operand(tensor).numpy()


@diagnosed
def identity_n(input: Any, name: str | None = None) -> list[Tensor]:
    """New tensors with the same values, which are separate sources for a tape.

    Parameters
    ----------
    input : list of tensors

    Returns
    -------
    list of Tensor

    Examples
    --------
    >>> [float(t) for t in tf.identity_n([1.5, 2.5])]
    [1.5, 2.5]
    """
    return [REGISTRY["identity"](as_operand(t)) for t in input]


@diagnosed
def tuple(tensors: Any, control_inputs: Any = None, name: str | None = None) -> list[Any]:
    """The same tensors as a list. None stays None.

    Parameters
    ----------
    tensors : list of tensors
        One or more tensors.
    control_inputs : optional
        Ignored; TensorFlow has it.

    Returns
    -------
    list of Tensor

    Raises
    ------
    ValueError
        If there is no tensor.

    Examples
    --------
    >>> [float(t) for t in tf.tuple([tf.constant(1.5)])]
    [1.5]
    """
    if not any(is_tensor(t) for t in tensors):
        raise ValueError("tuple needs at least one tensor")
    return [None if t is None else REGISTRY["identity"](as_operand(t)) for t in tensors]


@diagnosed
@documented_like(identity_n)
def shape_n(input: Any, out_type: Any = dtypes.int32, name: str | None = None) -> list[Tensor]:
    """The shapes of several tensors as tensors.

    Parameters
    ----------
    out_type : dtype

    Examples
    --------
    >>> [s.numpy().tolist() for s in tf.shape_n([[1.0], [[1.0, 2.0]]])]
    [[1], [1, 2]]
    """
    tensors = each("shape_n", "input", input, "a list of tensors")
    return [wrap(np.array(as_operand(t)._layout.shape, dtypes.np_dtype(out_type))) for t in tensors]


@diagnosed
def unravel_index(indices: Any, dims: Any, name: str | None = None) -> Tensor:
    """Multi-indices of row-major positions in an array.

    Parameters
    ----------
    indices : integer scalar or vector
    dims : integer vector
        The shape of the array.

    Returns
    -------
    Tensor
        Shape ``(len(dims), *indices.shape)``.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If a position is outside the array.

    Examples
    --------
    >>> tf.unravel_index([22, 41], [7, 6]).numpy()
    array([[3, 6],
           [4, 5]], dtype=int32)
    """
    numbers = integers(indices, "unravel_index")
    dtype, whole = numbers._layout.dtype, static_ints(dims)

    def check(at: Any) -> None:
        if at.size and not 0 <= int(at.min()) <= int(at.max()) < int(np.prod(whole)):
            raise InvalidArgumentError(f"unravel_index: an index is out of bound, got {at.tolist()} for shape {whole}")

    checked(check, numbers)
    return decided(lambda v: np.array(np.unravel_index(v, whole), dtype), numbers)
