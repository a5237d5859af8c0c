"""Checks of the arguments of classes: numbers, sizes, names. Errors name the class and the argument.

The errors are ValueErrors, except that `function`, `each`, `dtype` and `settings` raise TypeErrors.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

import numpy as np

from gtape import dtypes
from gtape.base.python_values import exhausted
from gtape.base.shown import shown
from gtape.tensors.tensor import Tensor, convert_to_tensor, is_tensor, number_read

__all__ = [
    "choice", "dtype", "each", "flag", "function", "name_of", "number", "numeric", "owner_of", "settings", "shape",
    "shown", "sizes", "tensor", "text", "whole",
]  # fmt: skip

LETS_OUT = True  # values leave the tape here as settings, as `gtape.recording.trace` notes

_LARGEST = 2**63 - 1
_MOST_AXES = 32  # every supported NumPy allows this number


def owner_of(owner: Any) -> str:
    """The name of a class, or of an object's class, for errors."""
    return owner if isinstance(owner, str) else (owner if isinstance(owner, type) else type(owner)).__name__


def _wrong(owner: Any, name: str, wanted: str, value: Any) -> ValueError:
    return ValueError(f"{owner_of(owner)}: `{name}` {wanted}. Received: {name}={shown(value)}")


def whole(owner: Any, name: str, value: Any, *, least: int | None = None, most: float = _LARGEST) -> int:
    """Check for an integer of at least `least` and magnitude at most `most`. Floats and strings are errors."""
    try:
        found = operator.index(value)
    except (TypeError, ValueError):  # NumPy's masked numbers raise ValueError
        found = None
    if found is None or abs(found) > most or (least is not None and found < least):
        wanted = "an integer" if least is None else "a positive integer" if least == 1 else f"an integer >= {least}"
        if found is not None and found > most:
            wanted = f"at most {most:,}"
        raise _wrong(owner, name, f"must be {wanted}", value)
    return found


def _real(value: Any) -> float | None:
    """A real number as a float; None for any other value."""
    is_array = issubclass(type(value), (np.ndarray, np.generic))
    if is_tensor(value) or is_array:
        kind = value.dtype.kind if is_array else value.dtype.dtype.kind
        if tuple(value.shape) or kind not in "biufV" or np.any(getattr(value, "mask", False)):
            return None
    elif isinstance(value, (str, bytes, bytearray)) or not hasattr(type(value), "__float__"):
        try:
            return float(operator.index(value))
        except (TypeError, OverflowError):
            return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def number(
    owner: Any, name: str, value: Any, accepted: Callable[[float], bool] | None = None, wanted: str = "must be a number"
) -> float:
    """Check for a real number for which `accepted` is true. `wanted` is the text of the condition. Ints stay ints."""
    found = _real(value)
    if found is None or (accepted is not None and not accepted(found)):
        raise _wrong(owner, name, wanted, value)
    return value if value.__class__ is int and abs(value) < 2**53 else found


def flag(owner: Any, name: str, value: Any) -> bool:
    """The truth value of a setting. Arrays with several elements are errors."""
    if value.__class__ is bool:
        return bool(value)
    if (is_tensor(value) or isinstance(value, np.ndarray)) and math.prod(d or 0 for d in tuple(value.shape)) != 1:
        raise _wrong(owner, name, "must be True or False", value)
    try:
        return bool(value)
    except (TypeError, ValueError, OverflowError):
        raise _wrong(owner, name, "must be True or False", value) from None


def text(owner: Any, name: str, value: Any) -> str:
    """Check for a string."""
    if not isinstance(value, str):
        raise _wrong(owner, name, "must be a string", value)
    return value


def name_of(owner: Any, value: Any, default: str) -> str:
    """The given name. None and an empty name stand for the default."""
    return default if value is None else (text(owner, "name", value) or default)


def choice(owner: Any, name: str, value: Any, options: Iterable[str]) -> str:
    """Check for one of several strings, in upper or lower case."""
    known = tuple(options)
    found = value.lower() if isinstance(value, str) else None
    if found not in known:
        listed = " and ".join((", ".join(map(repr, known[:-1])), repr(known[-1]))) if len(known) > 1 else repr(known[0])
        raise ValueError(
            f"{owner_of(owner)}: The `{name}` argument must be one of {listed}. Received: {name}={shown(value)}"
        )
    return found


def function(owner: Any, name: str, value: Any) -> Any:
    """Check for a callable."""
    if not callable(value):
        raise TypeError(f"{owner_of(owner)}: `{name}` must be callable. Received: {name}={shown(value)}")
    return value


def each(owner: Any, name: str, value: Any, wanted: str = "a list") -> list[Any]:
    """The items of an iterable. Strings, mappings and classes are errors."""
    if not isinstance(value, (str, bytes, bytearray, Mapping, type)):
        try:
            return list(value)
        except MemoryError as e:
            raise exhausted(f"{owner_of(owner)}: the items of `{name}`", e) from None
        except (TypeError, ValueError, NotImplementedError, OverflowError):
            # The argument is a number, a scalar array, a shape of unknown rank, a memoryview of several axes, or a
            # range of 2**70 numbers.
            pass
    raise TypeError(f"{owner_of(owner)}: `{name}` must be {wanted}. Received: {name}={shown(value)}")


def sizes(owner: Any, name: str, value: Any, rank: int, least: int = 1) -> tuple[int, ...]:
    """An integer for each of `rank` axes, from one number or several."""
    try:
        given = list(value) if isinstance(value, (tuple, list, np.ndarray, Tensor)) else [value] * rank
        found = tuple([operator.index(v) for v in given])
    except (TypeError, ValueError):
        found = ()
    if len(found) != rank or any(not least <= v <= _LARGEST for v in found):
        bound = "> 0" if least == 1 else f">= {least}"
        raise ValueError(
            f"{owner_of(owner)}: The `{name}` argument must be an integer {bound} or a tuple of {rank} of them. "
            f"Received: {name}={shown(value)}"
        )
    return found


def shape(owner: Any, name: str, value: Any, *, whole: bool = False, least: int = 0) -> tuple[Any, ...]:
    """Check for a shape: a tuple of sizes. Unless `whole` is set, None stands for an open size."""
    found = None
    if value.__class__ is tuple and all(d.__class__ is int and least <= d <= _LARGEST for d in value):
        return value
    if isinstance(value, (tuple, list, range, np.ndarray, Tensor)) or getattr(type(value), "_is_gtape_tensor", False):
        try:
            # The items are read only until the shape is too long, because a range may have 2**70 numbers.
            found = tuple([None if d is None else operator.index(d) for d in islice(value, _MOST_AXES + 1)])
        except (TypeError, ValueError):  # a size that is not an integer, or a shape of unknown rank
            found = None
    if (
        found is None
        or len(found) > _MOST_AXES
        or any((whole if d is None else not least <= d <= _LARGEST) for d in found)
    ):
        wanted = "" if whole else ", or None where a size is open"
        raise _wrong(owner, name, f"must be a sequence of integers{wanted}", value)
    return found


def dtype(owner: Any, value: Any, name: str = "dtype") -> np.dtype[Any]:
    """The NumPy dtype of an element type."""
    try:
        return dtypes.np_dtype(value)
    except Exception:  # any error, because NumPy reads the object's `dtype` and its text
        raise TypeError(
            f"{owner_of(owner)}: `{name}` must be a type of elements, such as 'float32'. Received: "
            f"{name}={shown(value)}"
        ) from None


def numeric(owner: Any, name: str, value: Any) -> np.ndarray[Any, Any]:
    """Real or complex numbers as an array. Python numbers keep all digits."""
    try:
        found = np.asarray(number_read(value) if value.__class__ is Tensor else value)
    except (TypeError, ValueError):  # lists of different lengths
        found = np.empty((), object)
    if found.dtype.kind not in "biufcV" or issubclass(found.dtype.type, np.void):  # bfloat16 has the kind V
        raise _wrong(owner, name, "must be numbers", value)
    return found


def tensor(owner: Any, name: str, value: Any) -> Tensor:
    """Convert a value to a tensor."""
    if value.__class__ is Tensor:
        return value
    try:
        found: Tensor = convert_to_tensor(value)
    except (TypeError, ValueError) as e:
        raise ValueError(
            f"{owner_of(owner)}: `{name}` must be a tensor, or numbers for one. Received: {name}={shown(value)} "
            f"({str(e)[:200]})"
        ) from None
    return found


def settings(owner: Any, config: Any, name: str = "config") -> dict[str, Any]:
    """Arguments by name, as `from_config` takes them."""
    if not isinstance(config, Mapping) or not all(isinstance(k, str) for k in config):
        raise TypeError(
            f"{owner_of(owner)}: `{name}` must be a dict of arguments by their names. Received: {name}={shown(config)}"
        )
    return dict(config)
