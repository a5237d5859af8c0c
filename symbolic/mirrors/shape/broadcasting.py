"""Mirrors of broadcasting, and of the sums that undo it."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.balls import objects
from gtape.symbolic.mirrors.registry import array


def _sum_to(W: Any, g: Any, *, shape: tuple[int, ...], batch: int) -> Any:
    """Add every element to the place from which broadcasting `shape` reads it."""
    g = objects(g)
    out = np.full(g.shape[:batch] + shape, 0, dtype=object)
    for at in np.ndindex(*g.shape):
        tail = at[len(at) - len(shape) :]
        to = at[:batch] + tuple([0 if d == 1 else i for i, d in zip(tail, shape, strict=True)])
        out[to] = out[to] + g[at]
    return out


array("broadcast_to", lambda W, x, *, shape: np.broadcast_to(objects(x), shape))
array("sum_to", _sum_to)
