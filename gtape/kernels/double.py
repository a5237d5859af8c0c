"""Rules of factorisations in double precision, because their many roundings are visible in narrower dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_DOUBLE: dict[str, Any] = {
    **dict.fromkeys(("float32", "float16", "bfloat16"), np.dtype(np.float64)),
    "complex64": np.dtype(np.complex128),
}


def doubled(xp: Any, *values: Any) -> tuple[list[Any], Callable[[Any], Any]]:
    """The values of a rule in double precision, and the function that rounds a result to the original precision.

    Parameters
    ----------
    xp : world
    *values : arrays of that world, or tuples of them
        Cotangent, output and inputs of the rule. Exact worlds keep their values.
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
    """One value in double precision. Notes the dtypes that were narrower."""
    if isinstance(x, tuple):
        return tuple([_wide(xp, v, narrow) for v in x])
    layout = getattr(x, "_layout", x)
    to = _DOUBLE.get(getattr(getattr(layout, "dtype", None), "name", ""))
    if to is None:
        return x
    narrow.append(layout.dtype)
    return xp.cast(x, dtype=to)
