"""Half precision is computed in float32 and rounded once: NumPy would round each step, and overflow on the way."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["is_narrow", "narrowed", "spacing_at_one", "widened"]


def spacing_at_one(dtype: np.dtype[Any]) -> float:
    """The spacing of a dtype's numbers above 1; NumPy's finfo knows no bfloat16."""
    return 2.0**-7 if dtype.name == "bfloat16" else float(np.finfo(dtype).eps)


def is_narrow(v: Any) -> bool:
    """Whether a value is of half precision: NumPy rounds each partial sum to it, and overflows on the way."""
    return isinstance(v, (np.ndarray, np.generic)) and v.dtype.name in ("float16", "bfloat16")


def widened(values: Any) -> list[Any]:
    """Half precision as float32, everything else as it is."""
    return [v.astype(np.float32) if is_narrow(v) else v for v in values]


def narrowed(y: Any, like: Any) -> Any:
    """What came out as float32, in the dtype of `like`."""
    if y.__class__ is tuple or y.__class__ is list:
        return tuple([narrowed(v, like) for v in y])
    return y.astype(like.dtype) if getattr(y, "dtype", None) == np.float32 else y
