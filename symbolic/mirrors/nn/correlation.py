"""Mirrors of correlation and its transposes: the textbook sums, as products of matrices of picked elements."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from gtape.symbolic.mirrors.registry import array
from gtape.symbolic.windows import Sizes, met, places


def _unfold(x: Any, axes: list[list[list[int | None]]], columns: Sizes) -> Any:
    """The elements x[n, axes[0][i][k], axes[1][j][l], ..., c] as a matrix [(n, i, ...), (k, ..., c)]; 0 for None."""
    rows, n = tuple(len(a) for a in axes), len(axes)
    at = []
    for a, (axis, size) in enumerate(zip(axes, x.shape[1:-1], strict=True)):
        picked = np.array([[size if k is None else k for k in row] for row in axis], np.intp)
        picked = picked.reshape(rows[a], columns[a])
        at.append(np.expand_dims(picked, tuple([k for k in range(2 * n) if k not in (a, n + a)])))
    around: Any = np.full((x.shape[0], *[size + 1 for size in x.shape[1:-1]], x.shape[-1]), 0, dtype=x.dtype)
    around[(slice(None), *map(slice, x.shape[1:-1]))] = x
    return around[(slice(None), *at)].reshape(x.shape[0] * prod(rows), prod(columns) * x.shape[-1])


def _products(W: Any, a: Any, b: Any, groups: int, unfold: Callable[[Any], Any], turn: Callable[[Any], Any]) -> Any:
    """The products of the groups' matrices of `a` and `b`, side by side."""
    parts = []
    for p, q in zip(*[np.split(x, groups, axis=-1) for x in (a, b)], strict=True):
        rows, q = unfold(p), turn(q)
        parts.append(W.matmul(rows, q.reshape(rows.shape[1], q.shape[-1])))
    return np.concatenate(parts, axis=-1)


def _correlate(W: Any, x: Any, w: Any, *, groups: int, **p: Any) -> Any:
    size, taps = x.shape[1:-1], w.shape[:-2]
    windows = places(size, taps, p)
    axes = met(size, windows, taps, p)
    made = _products(W, x, w, groups, lambda a: _unfold(a, axes, taps), lambda b: b)
    return made.reshape(x.shape[0], *windows, w.shape[-1])


def _input(W: Any, g: Any, w: Any, *, size: Sizes, groups: int, **p: Any) -> Any:
    axes = met(size, g.shape[1:-1], w.shape[:-2], p, by_image=True)
    made = _products(W, g, w, groups, lambda a: _unfold(a, axes, w.shape[:-2]), lambda b: np.swapaxes(b, -1, -2))
    return made.reshape(g.shape[0], *size, w.shape[-2] * groups)


def _filter(W: Any, x: Any, g: Any, *, taps: Sizes, groups: int, **p: Any) -> Any:
    axes = met(x.shape[1:-1], g.shape[1:-1], taps, p)
    made = _products(W, x, g, groups, lambda a: _unfold(a, axes, taps).T, lambda b: b)
    return made.reshape(*taps, x.shape[-1] // groups, g.shape[-1])


array("correlate", _correlate, linear=(0, 1))
array("correlate_input", _input, linear=(0, 1))
array("correlate_filter", _filter, linear=(0, 1))
