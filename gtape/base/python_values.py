"""Converts Python's numbers, strings and lists, and NumPy's arrays, to arrays by TensorFlow's rules for dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import dtypes, errors
from gtape.base.shown import shown

__all__ = ["adapted", "array_from_python", "cast_number", "copied", "exhausted", "own_dtype"]

_MOST_COUNTED = 2**32
_PYTHON_INT32 = range(-(2**31), 2**31)
# The dtypes other than floats that truth values may take, as in TensorFlow.
_OF_TRUTH = tuple([np.dtype(t) for t in (np.int32, np.int64, np.uint64, np.complex128)])


def array_from_python(value: Any, dtype: np.dtype[Any] | None) -> np.ndarray[Any, Any]:
    """A NumPy array from Python numbers and nests of them, by TensorFlow's rules for dtypes."""
    if value is None:
        raise ValueError(
            "Attempt to convert a value (None) with an unsupported type (<class 'NoneType'>) to a Tensor. Why a "
            "gradient is None, tape.explain(target, source) says."
        ) from None
    try:
        if value.__class__ is range and value[_MOST_COUNTED:]:
            raise MemoryError(f"{value} has more than 2**32 elements")
        array = np.asarray(value)
    except MemoryError as e:
        raise exhausted("a tensor of a list", e) from None
    except RecursionError:
        raise ValueError(f"Can't convert {shown(value)} to a tensor: it is nested too deeply") from None
    except (TypeError, OverflowError, ArithmeticError) as e:
        raise ValueError(f"Can't convert {shown(value)} to a tensor: {e}") from None
    except ValueError as e:
        raise ValueError(f"Can't convert {shown(value)} to a tensor: its parts have different lengths ({e})") from None
    if array.dtype == object:
        raise ValueError(
            f"Attempt to convert a value ({shown(value)}) with an unsupported type ({type(value)}) to a Tensor."
        )
    kind = array.dtype.kind
    if dtype is None:
        if kind in "iufc" and _is_truth(_first(value)):
            raise ValueError(f"Can't convert Python sequence with mixed types to Tensor: {shown(value)}")
        if kind in "US":
            return _text(value, array)
        if kind == "u" and isinstance(_first(value), int):
            raise ValueError("Can't convert Python sequence with out-of-range integer to Tensor.")
        if kind == "i" and (
            array.size == 0 or (int(array.min()) in _PYTHON_INT32 and int(array.max()) in _PYTHON_INT32)
        ):
            return array.astype(np.int32)
        if kind != "f":  # a copy, because an object that shares its memory may change it later
            return np.array(array, dtype=own_dtype(array.dtype))
        # NumPy's numbers keep their dtype inside a list, too. The first number decides for all.
        own = getattr(_first(value), "dtype", None)
        kept = own_dtype(own) if own is not None and own.kind == "f" and own.itemsize <= 8 else np.dtype(np.float32)
        with np.errstate(all="ignore"):
            made = array.astype(kept)
        if np.isinf(made).any() and not np.array_equal(np.isinf(made), np.isinf(array)):
            raise ValueError(
                f"Can't convert a number that {kept.name} cannot hold: say which dtype the tensor is to have, such as "
                "dtype=gtape.float64"
            )
        return made
    wanted = dtype.kind
    if wanted == "O" and kind in "US":
        return _text(value, array)
    fits = (
        kind == wanted
        or array.size == 0
        or (kind == "b" and (wanted in "fV" or dtype in _OF_TRUTH))
        or (wanted in "fcV" and kind in "iuf")
        or (wanted == "c" and kind in "iufc")
        or (wanted in "iu" and kind in "iu")
    )
    if not fits:
        raise TypeError(f"Cannot convert {shown(value)} to EagerTensor of dtype {dtypes.as_dtype(dtype).name}")
    with np.errstate(all="ignore"):  # as in TensorFlow, numbers that are too large become infinite
        return array.astype(dtype)


def _is_truth(v: Any) -> bool:
    """Whether a leaf of lists is a single truth value, of Python's or NumPy's."""
    return v.__class__ is bool or (isinstance(v, np.ndarray) and not v.ndim and v.dtype.kind == "b")


def _first(value: Any) -> Any:
    """The first leaf of nested lists, as an array if it can be converted."""
    while isinstance(value, (list, tuple)) and len(value):  # no truth test, because an empty TensorShape is true
        value = value[0]
    return np.asarray(value) if not isinstance(value, (list, tuple)) and hasattr(value, "__array__") else value


def _text(value: Any, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Strings as an object array of bytes."""
    leaves = np.empty(array.shape, object)  # from the strings, because NumPy's arrays of strings lose trailing zeros
    leaves[...] = value if isinstance(value, (str, bytes, list, tuple)) else array
    for i, leaf in enumerate(leaves.flat):
        if not isinstance(leaf, (str, bytes)):
            raise ValueError(f"Can't convert Python sequence with mixed types to Tensor: {shown(value)}")
        try:
            leaves.flat[i] = bytes(leaf) if isinstance(leaf, bytes) else leaf.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError(f"{shown(leaf)} cannot become a tensor: it holds half of a surrogate pair") from None
    return leaves


def cast_number(x: Any, dtype: np.dtype[Any]) -> Any:
    """A number in a dtype of floats. Numbers beyond its range become infinite, without NumPy's warning."""
    with np.errstate(all="ignore"):
        try:
            return np.float64(x).astype(dtype)
        except OverflowError:  # an integer beyond all floats
            return np.float64(np.inf if x > 0 else -np.inf).astype(dtype)


def exhausted(what: str, e: BaseException) -> errors.ResourceExhaustedError:
    """The error for a value that does not fit into memory."""
    return errors.ResourceExhaustedError(f"{what}: out of memory; {str(e) or 'it is too large'}")


def copied(array: Any, dtype: Any = None) -> np.ndarray[Any, Any]:
    """A copy of an array, in another dtype if given. Numbers that are too large become infinite, as in TensorFlow.

    Raises a ResourceExhaustedError if there is not enough memory, and a ValueError if the dtype cannot hold the
    elements.
    """
    try:
        with np.errstate(all="ignore"):
            unreal = array.dtype.kind == "c" and dtype is not None and np.dtype(dtype).kind not in "cO"
            if not unreal:
                return np.array(array, dtype=dtype)
    except MemoryError as e:
        raise exhausted(f"a tensor of shape {array.shape}", e) from None
    except (TypeError, ValueError, OverflowError) as e:
        raise ValueError(f"an array of {array.dtype} cannot become a tensor of {np.dtype(dtype)}: {e}") from None
    raise ValueError(
        f"an array of {array.dtype.name} cannot become a tensor of {np.dtype(dtype).name}: take its .real first"
    )


def own_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which gtape keeps an array's numbers: the same dtype in native byte order.

    Raises a ValueError for dtypes that gtape does not have, such as dates, records and long doubles.
    """
    try:
        return dtypes.np_dtype(dtype)
    except TypeError:
        raise ValueError(
            f"Failed to convert a NumPy array to a Tensor (unsupported dtype {dtype}): use .astype first"
        ) from None


def adapted(x: Any, dtype: np.dtype[Any]) -> Any:
    """A NumPy operand in the dtype of the tensor with which an op combines it.

    Raises an OperandTypeError if the dtype would cut off fractions or imaginary parts, or if the operand does not hold
    numbers.
    """
    if issubclass(type(x), (np.ndarray, np.generic)) and x.dtype.kind not in "biufcV":
        raise errors.OperandTypeError(
            f"cannot combine a {dtypes.as_dtype(dtype).name} tensor with an array of {x.dtype}: numbers are needed"
        )
    x = np.asarray(x)  # a plain array, because matrices and masked arrays behave differently
    if x.dtype.kind == "c" and dtype.kind != "c":
        if x.imag.any():
            raise errors.OperandTypeError(
                f"cannot combine a {dtypes.as_dtype(dtype).name} tensor with a {x.dtype.name} array that is not real: "
                "cast the tensor with gtape.cast"
            )
        x = x.real
    with np.errstate(all="ignore"):
        made = copied(x, dtype)
        if x.dtype.kind == "f" and dtype.kind not in "fcV" and not (dtype.kind in "iu" and np.array_equal(made, x)):
            raise errors.OperandTypeError(
                f"cannot combine a {dtypes.as_dtype(dtype).name} tensor with a {x.dtype.name} array: cast one of "
                "them with gtape.cast"
            )
    return made
