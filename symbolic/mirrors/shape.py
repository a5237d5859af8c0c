"""Mirrors of the ops on shape and order: each element of the result is an element of the input, or a sum of some."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.mirrors.registry import array


def _sum_to(W: Any, g: Any, *, shape: tuple[int, ...], batch: int) -> Any:
    """Add every element to the place that broadcasting `shape` would have read it from."""
    out = np.full(g.shape[:batch] + shape, 0, dtype=object)
    for at in np.ndindex(*g.shape):
        tail = at[len(at) - len(shape) :]
        to = at[:batch] + tuple([0 if d == 1 else i for i, d in zip(tail, shape, strict=True)])
        out[to] = out[to] + g[at]
    return out


array("reshape", lambda W, x, *, shape: np.asarray(x, dtype=object).reshape(shape))
array("transpose", lambda W, x, *, perm: np.transpose(np.asarray(x, dtype=object), perm))
array("broadcast_to", lambda W, x, *, shape: np.broadcast_to(np.asarray(x, dtype=object), shape))
array("sum_to", lambda W, g, *, shape, batch: _sum_to(W, np.asarray(g, dtype=object), shape=shape, batch=batch))
array("reverse", lambda W, x, *, axis: np.flip(np.asarray(x, dtype=object), axis))
array("roll", lambda W, x, *, shift, axis: np.roll(np.asarray(x, dtype=object), shift, axis))
