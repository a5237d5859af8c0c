"""Arguments that are one truth value, one integer or one number, and the error for other arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.shown import shown
from gtape.errors import OperandTypeError

__all__ = ["float_of", "int_of", "truth_of"]

LETS_OUT = True  # values leave the tape here as settings, as `gtape.recording.trace` notes


def truth_of(value: Any, owner: str, name: str) -> bool:
    """The truth value of an argument. OperandTypeError without one, as for an array of several elements.

    >>> truth_of(1, "bincount", "binary_output")
    True
    """
    if isinstance(value, bool):
        return value
    try:
        return bool(value)
    except (TypeError, ValueError, OverflowError):  # __len__ raises OverflowError
        raise OperandTypeError(f"{owner}: `{name}` must be True or False, not {shown(value)}") from None


def int_of(value: Any, owner: str, name: str) -> int:
    """An argument as `int` reads it. OperandTypeError for NumPy's complex and masked numbers.

    >>> int_of(2.0, "band_part", "num_lower")
    2
    """
    if _is_unreal(value):
        raise OperandTypeError(f"{owner}: `{name}` must be an integer, not {shown(value)}")
    return int(value)


def float_of(value: Any, owner: str, name: str) -> float:
    """An argument as `float` reads it. OperandTypeError for NumPy's complex and masked numbers.

    >>> float_of(1, "dropout", "rate")
    1.0
    """
    if _is_unreal(value):
        raise OperandTypeError(f"{owner}: `{name}` must be a number, not {shown(value)}")
    return float(value)


def _is_unreal(value: Any) -> bool:
    """Whether NumPy would read another number with only a warning: a real part, or the data under a mask."""
    # By the dtype, which a number of a traced call has, too.
    if getattr(getattr(value, "dtype", None), "kind", "") == "c":
        return True
    return isinstance(value, np.ndarray | np.generic) and bool(np.any(getattr(value, "mask", False)))
