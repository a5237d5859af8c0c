"""Broadcasting of shapes with any number of axes, because ``np.broadcast_shapes`` allows 32 and arrays up to 64."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["broadcast_arrays", "broadcast_shapes"]

_NUMPYS = 32


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that arrays of the given shapes broadcast to. A ValueError if there is none.

    >>> broadcast_shapes((2, 1), (3,), ())
    (2, 3)
    >>> len(broadcast_shapes((1,) * 40, (3,)))
    40
    """
    rank = max(map(len, shapes), default=0)
    if rank <= _NUMPYS:
        return np.broadcast_shapes(*shapes)
    # NumPy broadcasts the last axes. Axes before them have one size, or 1, in each longer shape.
    made = list(np.broadcast_shapes(*[s[-_NUMPYS:] for s in shapes]))
    for axis in range(_NUMPYS + 1, rank + 1):
        sizes = {s[-axis] for s in shapes if len(s) >= axis} - {1}
        if len(sizes) > 1:
            raise ValueError(f"shape mismatch: shapes {', '.join(map(str, shapes))} cannot be broadcast to one shape")
        made.insert(0, sizes.pop() if sizes else 1)
    return tuple(made)


def broadcast_arrays(*arrays: Any) -> list[Any]:
    """Views of arrays with the shape that they broadcast to."""
    if all(getattr(a, "ndim", 0) <= _NUMPYS for a in arrays):
        return list(np.broadcast_arrays(*arrays))
    shape = broadcast_shapes(*map(np.shape, arrays))
    return [np.broadcast_to(a, shape) for a in arrays]
