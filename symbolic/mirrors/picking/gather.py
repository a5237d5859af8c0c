"""Mirrors of gathering: NumPy's own indexing picks elements, which are added to their places one by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.balls import objects
from gtape.symbolic.mirrors.registry import array


def _scatter(W: Any, g: Any, indices: Any, *, axis: int, size: int) -> Any:
    g, indices = objects(g), np.asarray(indices).astype(int)
    after = -axis - 1
    before = g.ndim - indices.ndim - after
    out = np.full((*g.shape[:before], size, *g.shape[g.ndim - after :]), 0, dtype=object)
    for at in np.ndindex(*g.shape):
        to = (*at[:before], int(indices[at[before : before + indices.ndim]]), *at[before + indices.ndim :])
        out[to] = out[to] + g[at]
    return out


def _gather(W: Any, x: Any, indices: Any, *, axis: int, size: int) -> Any:
    return np.take(objects(x), np.asarray(indices).astype(int), axis=axis)


array("gather", _gather, linear=(0,))
array("gather_rows", _gather, linear=(0,))
array("scatter", _scatter)
array(
    "scatter_rows",
    lambda W, g, indices, *, size: _scatter(W, g, indices, axis=np.ndim(indices) - np.ndim(g) - 1, size=size),
)
