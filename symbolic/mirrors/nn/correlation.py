"""Mirrors of correlation and its transposes: the textbook sums, as products of matrices of picked elements."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from gtape.symbolic.balls import objects
from gtape.symbolic.mirrors.registry import array
from gtape.symbolic.windows import Sizes, met, places


def _pick(x: Any, axes: list[list[list[int | None]]]) -> Any:
    """Elements x[n, axes[0][i][k], axes[1][j][l], ..., c] as an array [n, i, j, ..., k, l, ..., c]; 0 for None."""
    x = objects(x)
    rows, columns = tuple(len(a) for a in axes), tuple(len(a[0]) if a else 0 for a in axes)
    out: Any = np.full((x.shape[0], *rows, *columns, x.shape[-1]), 0, dtype=object)
    for row in itertools.product(*map(range, rows)):
        for column in itertools.product(*map(range, columns)):
            at = [a[i][k] for a, i, k in zip(axes, row, column, strict=True)]
            if None not in at:
                out[(slice(None), *row, *column)] = x[(slice(None), *at)]
    return out


def _groups(x: Any, groups: int) -> list[Any]:
    return np.split(objects(x), groups, axis=-1)


def _correlate(W: Any, x: Any, w: Any, *, groups: int, **p: Any) -> Any:
    size, taps = x.shape[1:-1], w.shape[:-2]
    windows = places(size, taps, p)
    parts = []
    for a, b in zip(_groups(x, groups), _groups(w, groups), strict=True):
        picked = _pick(a, met(size, windows, taps, p))
        rows = picked.reshape(x.shape[0] * int(np.prod(windows)), int(np.prod(taps)) * a.shape[-1])
        parts.append(W.matmul(rows, b.reshape(rows.shape[1], b.shape[-1])))
    return np.concatenate(parts, axis=-1).reshape(x.shape[0], *windows, w.shape[-1])


def _input(W: Any, g: Any, w: Any, *, size: Sizes, groups: int, **p: Any) -> Any:
    windows, taps = g.shape[1:-1], w.shape[:-2]
    parts = []
    for a, b in zip(_groups(g, groups), _groups(w, groups), strict=True):
        picked = _pick(a, met(size, windows, taps, p, by_image=True))
        rows = picked.reshape(g.shape[0] * int(np.prod(size)), int(np.prod(taps)) * a.shape[-1])
        parts.append(W.matmul(rows, np.swapaxes(b, -1, -2).reshape(rows.shape[1], b.shape[-2])))
    return np.concatenate(parts, axis=-1).reshape(g.shape[0], *size, w.shape[-2] * groups)


def _filter(W: Any, x: Any, g: Any, *, taps: Sizes, groups: int, **p: Any) -> Any:
    size, windows = x.shape[1:-1], g.shape[1:-1]
    parts = []
    for a, b in zip(_groups(x, groups), _groups(g, groups), strict=True):
        picked = _pick(a, met(size, windows, taps, p))
        rows = picked.reshape(x.shape[0] * int(np.prod(windows)), int(np.prod(taps)) * a.shape[-1])
        parts.append(W.matmul(rows.T, b.reshape(rows.shape[0], b.shape[-1])))
    return np.concatenate(parts, axis=-1).reshape(*taps, x.shape[-1] // groups, g.shape[-1])


array("correlate", _correlate)
array("correlate_input", _input)
array("correlate_filter", _filter)
