"""Mirrors of broadcasting, and of the sums that undo it."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.balls import objects
from gtape.symbolic.mirrors.registry import array


def _sum_to(W: Any, g: Any, *, shape: tuple[int, ...], batch: int) -> Any:
    """Add every element to the place from which broadcasting `shape` reads it."""
    g = objects(g)
    lead = g.ndim - batch - len(shape)
    axes = [*range(batch, batch + lead), *[batch + lead + i for i, d in enumerate(shape) if d == 1]]
    return objects(np.add.reduce(g, axis=tuple(axes), initial=0)).reshape(g.shape[:batch] + shape)


array("broadcast_to", lambda W, x, *, shape: np.broadcast_to(objects(x), shape), linear=(0,))
array("sum_to", _sum_to, linear=(0,))
