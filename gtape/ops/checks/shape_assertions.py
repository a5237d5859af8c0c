"""Assertions about ranks, shapes and dtypes. None of them reads values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gtape import dtypes
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.shown import shown
from gtape.tensors.argument_checks import each, whole
from gtape.tensors.tensor import Tensor, as_operand, convert_to_tensor, is_tensor

# Names at the top level. `gtape.debugging` has the others, too.
__all__ = ["assert_rank"]

ASSERTS = True  # a check does not count truth values read here as branches: see gtape.recording.trace


def _rank_error(text: str, message: Any) -> ValueError:
    return ValueError(f"{message}. {text}" if message else text)


def _rank_of(x: Any) -> str:
    t = as_operand(x)
    return f"Received rank {t.ndim}, shape {t.shape}"


@diagnosed
def assert_rank(x: Any, rank: Any, message: Any = None, name: Any = None) -> None:
    """Raise an error unless a tensor has `rank` axes.

    Parameters
    ----------
    x : tensor
    rank : int
    message : str, optional
        The beginning of the error.

    Raises
    ------
    ValueError
        If the number of axes differs.

    Examples
    --------
    >>> tf.debugging.assert_rank(tf.zeros([2, 3]), 2)
    """
    rank = whole("assert_rank", "rank", rank)
    if as_operand(x).ndim != rank:
        raise _rank_error(f"Tensor must have rank {rank}. {_rank_of(x)}", message)


@diagnosed
@documented_like(assert_rank)
def assert_rank_at_least(x: Any, rank: Any, message: Any = None, name: Any = None) -> None:
    """Raise an error unless a tensor has at least `rank` axes.

    Raises
    ------
    ValueError
        If the tensor has fewer.

    Examples
    --------
    >>> tf.debugging.assert_rank_at_least(tf.zeros([2, 3]), 1)
    """
    rank = whole("assert_rank_at_least", "rank", rank)
    if as_operand(x).ndim < rank:
        raise _rank_error(f"Tensor must have rank at least {rank}. {_rank_of(x)}", message)


@diagnosed
@documented_like(assert_rank)
def assert_rank_in(x: Any, ranks: Any, message: Any = None, name: Any = None) -> None:
    """Raise an error unless the number of axes of a tensor is one of `ranks`.

    Parameters
    ----------
    ranks : iterable of int

    Raises
    ------
    ValueError
        If the number of axes is none of these.

    Examples
    --------
    >>> tf.debugging.assert_rank_in(tf.zeros([2, 3]), (1, 2))
    """
    wanted = [whole("assert_rank_in", "ranks", r) for r in each("assert_rank_in", "ranks", ranks, "a list of integers")]
    if as_operand(x).ndim not in wanted:
        raise _rank_error(f"Tensor must have rank in {wanted}. {_rank_of(x)}", message)


@diagnosed
@documented_like(assert_rank)
def assert_scalar(tensor: Any, name: Any = None, message: Any = None) -> Tensor:
    """The argument as a tensor, which must be a scalar.

    Parameters
    ----------
    tensor : tensor

    Raises
    ------
    ValueError
        If the tensor has axes.

    Examples
    --------
    >>> float(tf.debugging.assert_scalar(tf.constant(2.0)))
    2.0
    """
    t = as_operand(tensor)
    if t.ndim:
        raise _rank_error(f"Expected scalar shape, saw shape: {t.shape}.", message)
    return t


def _symbols(shape: Any) -> tuple[list[Any], bool]:
    """The expected sizes, and whether more axes may precede them."""
    if isinstance(shape, str):
        sizes = list(shape) if not shape.startswith("...") else ["...", *shape[3:]]
    elif hasattr(shape, "as_list"):
        sizes = shape.as_list()
    else:
        sizes = list(shape) if isinstance(shape, (list, tuple)) else [shape]
    front = bool(sizes) and (sizes[0] is Ellipsis or sizes[0] in ("...", "*"))
    return (sizes[1:] if front else sizes), front


@diagnosed
@documented_like(assert_rank)
def assert_shapes(shapes: Any, data: Any = None, summarize: Any = None, message: Any = None, name: Any = None) -> None:
    """Raise an error unless tensors have the given shapes. A letter stands for the same size in all shapes.

    Parameters
    ----------
    shapes : list of (tensor, shape) or dict
        A shape is a sequence of sizes. A size is an int, a letter or other symbol, or None for any size. A leading
        ``...`` stands for any axes.
    data, summarize
        Ignored; TensorFlow has them.

    Raises
    ------
    ValueError
        If a shape does not fit.

    Examples
    --------
    >>> tf.debugging.assert_shapes([(tf.zeros([2, 3]), ("N", "D")), (tf.zeros([3]), ("D",))])
    """
    known: dict[Any, tuple[int, str]] = {}
    try:
        pairs = [(x, shape) for x, shape in (shapes.items() if isinstance(shapes, Mapping) else shapes)]
    except (TypeError, ValueError):
        raise ValueError(
            f"assert_shapes takes a dict, or a list of pairs, of tensors and their shapes, not {shown(shapes)}"
        ) from None
    for number, (x, shape) in enumerate(pairs):
        if x is None:
            continue
        have = tuple(as_operand(x)._layout.shape)
        wanted, front = _symbols(shape)
        if len(have) < len(wanted) or (len(have) != len(wanted) and not front):
            least = "at least " if front else ""
            raise _rank_error(
                f"Tensor {number} must have rank {least}{len(wanted)}. Received rank {len(have)}, shape {have}", message
            )
        for axis, (n, size) in enumerate(zip(have[len(have) - len(wanted) :], wanted, strict=True)):
            if size is None or size == ".":
                continue
            if isinstance(size, str) and size.isdigit():
                size = int(size)
            where = f"tensor {number} dimension {axis}"
            if isinstance(size, (int, np.integer)):
                expected, source = int(size), "the shape given"
            else:
                expected, source = known.setdefault(size, (n, where))
            if n != expected:
                raise _rank_error(
                    f"Specified by {source}. Tensor {number} dimension {axis} must have size {expected}. Received size "
                    f"{n}, shape {have}",
                    message,
                )


@diagnosed
@documented_like(assert_rank)
def assert_type(tensor: Any, tf_type: Any, message: Any = None, name: Any = None) -> None:
    """Raise an error unless a tensor has the given dtype.

    Parameters
    ----------
    tensor : tensor
    tf_type : dtype

    Raises
    ------
    TypeError
        If the dtype differs.

    Examples
    --------
    >>> tf.debugging.assert_type(tf.constant(2.0), tf.float32)
    """
    t, wanted = convert_to_tensor(tensor), dtypes.as_dtype(tf_type)
    if t._layout.dtype != dtypes.np_dtype(wanted):
        begin = f"{message} " if message else ""
        raise TypeError(f"{begin}tensor must be of type {wanted.name}; got {t.dtype.name}")


@diagnosed
@documented_like(assert_rank)
def assert_integer(x: Any, message: Any = None, name: Any = None) -> None:
    """Raise an error unless a tensor holds integers.

    Raises
    ------
    TypeError
        If the dtype is another one.

    Examples
    --------
    >>> tf.debugging.assert_integer(tf.constant([1, 2]))
    """
    t = convert_to_tensor(x)
    if t._layout.dtype.kind not in "iu":
        begin = f"{message}  " if message else ""
        raise TypeError(f'{begin}Expected "x" to be integer type. Found: {t.dtype.name}')


@diagnosed
def assert_same_float_dtype(tensors: Any = None, dtype: Any = None) -> dtypes.DType:
    """The floating-point dtype that all tensors have.

    Parameters
    ----------
    tensors : iterable of tensor or None, optional
    dtype : dtype, optional
        The expected dtype. By default the dtype of the first tensor.

    Returns
    -------
    DType
        float32 by default.

    Raises
    ------
    ValueError
        If two dtypes differ, or their common dtype is not floating-point.

    Examples
    --------
    >>> tf.debugging.assert_same_float_dtype([tf.constant(1.0), tf.constant([2.0])])
    gtape.float32
    """
    found = None if dtype is None else dtypes.as_dtype(dtype)
    for t in tensors or ():
        if t is None:
            continue
        own = convert_to_tensor(t).dtype
        if found is not None and own.name != found.name:
            raise ValueError(f"Expected tensors of dtype {found.name}, got one of {own.name}: use gtape.cast")
        found = own
    if found is None:
        return dtypes.float32
    if dtypes.np_dtype(found).kind not in "fcV":
        raise ValueError(f"Expected floating point type, got {found.name}.")
    return found


@diagnosed
def assert_proper_iterable(values: Any) -> None:
    """Raise an error unless an object is iterable and neither a tensor, an array nor a string.

    Parameters
    ----------
    values : object

    Raises
    ------
    TypeError
        If the object is not such an iterable.

    Examples
    --------
    >>> tf.debugging.assert_proper_iterable([tf.constant(1.0)])
    """
    if is_tensor(values) or isinstance(values, (np.ndarray, bytes, str)):
        raise TypeError(f'Expected argument "values" to be a "proper" iterable.  Found: {type(values).__name__}')
    if not hasattr(values, "__iter__"):
        raise TypeError(f'Expected argument "values" to be iterable.  Found: {type(values).__name__}')


@diagnosed
def is_numeric_tensor(tensor: Any) -> bool:
    """Whether an object is a tensor of numbers.

    Parameters
    ----------
    tensor : object

    Examples
    --------
    >>> tf.debugging.is_numeric_tensor(tf.constant(1)), tf.debugging.is_numeric_tensor(1)
    (True, False)
    """
    return bool(is_tensor(tensor) and tensor._layout.dtype.kind in "iufcV")
