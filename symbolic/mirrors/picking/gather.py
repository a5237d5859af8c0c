"""Mirrors of gathering: NumPy's own indexing picks elements and adds them to their places."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gtape.symbolic.balls import objects
from gtape.symbolic.mirrors.registry import array


def _scatter(W: Any, g: Any, indices: Any, *, axis: int, size: int) -> Any:
    g, indices = objects(g), np.asarray(indices).astype(int)
    first, last = g.ndim - indices.ndim + axis + 1, g.ndim + axis + 1
    before, after = g.shape[:first], g.shape[last:]
    rows = g.reshape(math.prod(before), indices.size, math.prod(after))
    out = np.full((len(rows), size, rows.shape[2]), 0, dtype=object)
    places: Any = (slice(None), indices.ravel())
    np.add.at(out, places, rows)
    return out.reshape(*before, size, *after)


def _gather(W: Any, x: Any, indices: Any, *, axis: int, size: int) -> Any:
    return np.take(objects(x), np.asarray(indices).astype(int), axis=axis)


array("gather", _gather, linear=(0,))
array("gather_rows", _gather, linear=(0,))
array("scatter", _scatter)
array(
    "scatter_rows",
    lambda W, g, indices, *, size: _scatter(W, g, indices, axis=np.ndim(indices) - np.ndim(g) - 1, size=size),
)
