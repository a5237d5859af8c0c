"""Mirrors of the extrema of every segment, and of the shares of tied elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.symbolic.balls import objects
from gtape.symbolic.mirrors.registry import array


def _extremes(x: Any, ids: Any, size: int, along: Callable[..., Any]) -> Any:
    x, ids = objects(x), np.asarray(ids).astype(int)
    out = np.full((size, *x.shape[1:]), 0, dtype=object)
    for s in range(size):
        rows = np.flatnonzero(ids == s)
        if rows.size:
            out[s : s + 1] = along(x[rows], 0, True)
    return out


def _shares(W: Any, x: Any, ids: Any, size: int, extremes: Any) -> Any:
    """1/n at the n elements of a segment that equal its extreme, and 0 elsewhere."""
    x, ids = objects(x), np.asarray(ids).astype(int)
    chosen = np.asarray(W.equal(x, extremes[ids])).astype(int)
    total = np.zeros((size, *x.shape[1:]), int)
    for row, s in enumerate(ids):
        total[s] += chosen[row]
    return W.divide(chosen, total[ids])


array("segment_max", lambda W, x, ids, *, size: _extremes(x, ids, size, W.max_along))
array("segment_min", lambda W, x, ids, *, size: _extremes(x, ids, size, W.min_along))
array(
    "segment_max_share",
    lambda W, x, ids, *, size: _shares(W, x, ids, size, _extremes(x, ids, size, W.max_along)),
)
array(
    "segment_min_share",
    lambda W, x, ids, *, size: _shares(W, x, ids, size, _extremes(x, ids, size, W.min_along)),
)
