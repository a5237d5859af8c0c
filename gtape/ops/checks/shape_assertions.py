"""Assertions about ranks, shapes and dtypes, which are known without a look at values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gtape import dtypes
from gtape.base.diagnosis import diagnosed
from gtape.base.shown import shown
from gtape.tensors.argument_checks import each, whole
from gtape.tensors.tensor import Tensor, as_operand, convert_to_tensor, is_tensor

# What TensorFlow has at the top level; the rest lives in `gtape.debugging` only.
__all__ = ["assert_rank"]

ASSERTS = True  # a truth value that is asked for here is no branch: see gtape.recording.trace


def _rank_error(text: str, message: Any) -> ValueError:
    return ValueError(f"{message}. {text}" if message else text)


def _rank_of(x: Any) -> str:
    t = as_operand(x)
    return f"Received rank {t.ndim}, shape {t.shape}"


@diagnosed
def assert_rank(x: Any, rank: Any, message: Any = None, name: Any = None) -> None:
    """Raise unless a tensor has a given number of axes.

    Parameters
    ----------
    x : tensor
    rank : int
    message : str, optional
        How the error begins.

    Returns
    -------
    None

    Raises
    ------
    ValueError
        When it has another.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.debugging.assert_rank(tf.zeros([2, 3]), 2)
    """
    have, rank = as_operand(x).ndim, whole("assert_rank", "rank", rank)
    if have != rank:
        raise _rank_error(f"Tensor must have rank {rank}. Received rank {have}, shape {as_operand(x).shape}", message)


@diagnosed
def assert_rank_at_least(x: Any, rank: Any, message: Any = None, name: Any = None) -> None:
    """Raise unless a tensor has at least a given number of axes.

    Parameters
    ----------
    x, rank, message, name
        As for `assert_rank`.

    Returns
    -------
    None

    Raises
    ------
    ValueError
        When it has fewer.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.debugging.assert_rank_at_least(tf.zeros([2, 3]), 1)
    """
    have, rank = as_operand(x).ndim, whole("assert_rank_at_least", "rank", rank)
    if have < rank:
        raise _rank_error(f"Tensor must have rank at least {rank}. {_rank_of(x)}", message)


@diagnosed
def assert_rank_in(x: Any, ranks: Any, message: Any = None, name: Any = None) -> None:
    """Raise unless a tensor has one of several numbers of axes.

    Parameters
    ----------
    x : tensor
    ranks : iterable of int
    message, name
        As for `assert_rank`.

    Returns
    -------
    None

    Raises
    ------
    ValueError
        When it has another.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.debugging.assert_rank_in(tf.zeros([2, 3]), (1, 2))
    """
    have = as_operand(x).ndim
    wanted = [whole("assert_rank_in", "ranks", r) for r in each("assert_rank_in", "ranks", ranks, "a list of integers")]
    if have not in wanted:
        raise _rank_error(
            f"Tensor must have rank in {wanted}. Received rank {have}, shape {as_operand(x).shape}", message
        )


@diagnosed
def assert_scalar(tensor: Any, name: Any = None, message: Any = None) -> Tensor:
    """The tensor, if it has no axes.

    Parameters
    ----------
    tensor : tensor
    message : str, optional
        How the error begins.

    Returns
    -------
    Tensor

    Raises
    ------
    ValueError
        When it has axes.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.debugging.assert_scalar(tf.constant(2.0)))
    2.0
    """
    t = as_operand(tensor)
    if t.ndim:
        raise _rank_error(f"Expected scalar shape, saw shape: {t.shape}.", message)
    return t


def _symbols(shape: Any) -> tuple[list[Any], bool]:
    """The sizes asked for, and whether more axes may stand in front of them."""
    if isinstance(shape, str):
        sizes = list(shape) if not shape.startswith("...") else ["...", *shape[3:]]
    elif hasattr(shape, "as_list"):
        sizes = shape.as_list()
    else:
        sizes = list(shape) if isinstance(shape, (list, tuple)) else [shape]
    front = bool(sizes) and (sizes[0] is Ellipsis or sizes[0] in ("...", "*"))
    return (sizes[1:] if front else sizes), front


@diagnosed
def assert_shapes(shapes: Any, data: Any = None, summarize: Any = None, message: Any = None, name: Any = None) -> None:
    """Raise unless tensors have the given shapes, in which a letter stands for the same size everywhere.

    Parameters
    ----------
    shapes : list of (tensor, shape) or dict
        A shape is a sequence of sizes: an int, a letter or other symbol, or None for any. A leading ``...`` stands for
        any axes.
    data, summarize, name
        TensorFlow has them; they change nothing.
    message : str, optional
        How the error begins.

    Returns
    -------
    None

    Raises
    ------
    ValueError
        When one does not fit.

    Examples
    --------
    >>> import gtape as tf
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
def assert_type(tensor: Any, tf_type: Any, message: Any = None, name: Any = None) -> None:
    """Raise unless a tensor has the given dtype.

    Parameters
    ----------
    tensor : tensor
    tf_type : dtype
    message : str, optional
        How the error begins.

    Returns
    -------
    None

    Raises
    ------
    TypeError
        When it has another.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.debugging.assert_type(tf.constant(2.0), tf.float32)
    """
    t, wanted = convert_to_tensor(tensor), dtypes.as_dtype(tf_type)
    if t._layout.dtype != dtypes.np_dtype(wanted):
        begin = f"{message} " if message else ""
        raise TypeError(f"{begin}tensor must be of type {wanted.name}; got {t.dtype.name}")


@diagnosed
def assert_integer(x: Any, message: Any = None, name: Any = None) -> None:
    """Raise unless a tensor holds integers.

    Parameters
    ----------
    x : tensor
    message : str, optional
        How the error begins.

    Returns
    -------
    None

    Raises
    ------
    TypeError
        When it does not.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.debugging.assert_integer(tf.constant([1, 2]))
    """
    t = convert_to_tensor(x)
    if t._layout.dtype.kind not in "iu":
        raise TypeError(
            f'{message}  Expected "x" to be integer type. Found: {t.dtype.name}'
            if message
            else f'Expected "x" to be integer type. Found: {t.dtype.name}'
        )


@diagnosed
def assert_same_float_dtype(tensors: Any = None, dtype: Any = None) -> dtypes.DType:
    """The floating-point dtype that all tensors have.

    Parameters
    ----------
    tensors : iterable of tensor or None, optional
    dtype : dtype, optional
        What they are to have; without it, that of the first.

    Returns
    -------
    DType
        float32 where nothing is given.

    Raises
    ------
    ValueError
        When two differ, or the common one is no float.

    Examples
    --------
    >>> import gtape as tf
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
    """Raise for what cannot be iterated over, or hardly was meant to: tensors, arrays, strings.

    Parameters
    ----------
    values : object

    Returns
    -------
    None

    Raises
    ------
    TypeError
        When it is none.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.debugging.assert_proper_iterable([tf.constant(1.0)])
    """
    if is_tensor(values) or isinstance(values, (np.ndarray, bytes, str)):
        raise TypeError(f'Expected argument "values" to be a "proper" iterable.  Found: {type(values).__name__}')
    if not hasattr(values, "__iter__"):
        raise TypeError(f'Expected argument "values" to be iterable.  Found: {type(values).__name__}')


@diagnosed
def is_numeric_tensor(tensor: Any) -> bool:
    """Whether something is a tensor of numbers.

    Parameters
    ----------
    tensor : object

    Returns
    -------
    bool

    Examples
    --------
    >>> import gtape as tf
    >>> tf.debugging.is_numeric_tensor(tf.constant(1)), tf.debugging.is_numeric_tensor(1)
    (True, False)
    """
    return bool(is_tensor(tensor) and tensor._layout.dtype.kind in "iufcV")
