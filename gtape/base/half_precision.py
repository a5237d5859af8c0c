"""Half precision, computed in float32 and rounded once because NumPy rounds each step and may overflow."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["is_narrow", "narrowed", "spacing_at_one", "widened"]


def spacing_at_one(dtype: np.dtype[Any]) -> float:
    """The spacing of a dtype's numbers above 1. Also for bfloat16, which NumPy's finfo does not know."""
    return 2.0**-7 if dtype.name == "bfloat16" else float(np.finfo(dtype).eps)


_float16, _float32 = np.dtype(np.float16), np.dtype(np.float32)


def is_narrow(v: Any) -> bool:
    """Whether a value has half precision."""
    if not isinstance(v, (np.ndarray, np.generic)):
        return False
    dtype = v.dtype
    # No comparison of names, because NumPy makes names slowly.
    return dtype is _float16 or (dtype.kind in "fV" and dtype.itemsize == 2 and dtype.name in ("float16", "bfloat16"))


def widened(values: Any) -> list[Any]:
    """The values with half precision converted to float32."""
    return [v.astype(np.float32) if is_narrow(v) else v for v in values]


def narrowed(y: Any, dtype: np.dtype[Any]) -> Any:
    """A float32 result, or a tuple of results, in a dtype of half precision."""
    if y.__class__ is tuple or y.__class__ is list:
        return tuple([narrowed(v, dtype) for v in y])
    return y.astype(dtype) if getattr(y, "dtype", None) == _float32 else y
