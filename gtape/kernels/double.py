"""Rules of factorisations in double precision: many roundings, of which single precision shows each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["doubled"]

_DOUBLE: dict[Any, Any] = {np.dtype(np.float32): np.dtype(np.float64), np.dtype(np.complex64): np.dtype(np.complex128)}


def doubled(xp: Any, *values: Any) -> tuple[list[Any], Callable[[Any], Any]]:
    """The values of a rule in double precision, and what rounds a result to the precision that they had.

    Parameters
    ----------
    xp : world
    *values : arrays of that world, or tuples of them
        Cotangent, output, inputs that are read. Those of an exact world stay as they are.
    """
    narrow: list[Any] = []
    made = [_wide(xp, v, narrow) for v in values]
    if not narrow:
        return made, lambda x: x
    return (
        made,
        lambda x: (
            tuple([xp.cast(v, dtype=narrow[0]) for v in x]) if isinstance(x, tuple) else xp.cast(x, dtype=narrow[0])
        ),
    )


def _wide(xp: Any, x: Any, narrow: list[Any]) -> Any:
    """One value in double precision; notes the dtypes that were narrower. (An inner function that calls itself would
    be a reference cycle.)"""
    if isinstance(x, tuple):
        return tuple([_wide(xp, v, narrow) for v in x])
    layout = getattr(x, "_layout", x)
    to = _DOUBLE.get(getattr(layout, "dtype", None))
    if to is None:
        return x
    narrow.append(layout.dtype)
    return xp.cast(x, dtype=to)
