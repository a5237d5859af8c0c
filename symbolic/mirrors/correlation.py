"""Mirrors of correlation and its transposes: the textbook sums, as products of matrices of picked elements."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from gtape.symbolic.mirrors.registry import array

Sizes = tuple[int, ...]


def _pick(x: Any, axes: list[list[list[int | None]]]) -> Any:
    """Elements x[n, axes[0][i][k], axes[1][j][l], ..., c] as an array [n, i, j, ..., k, l, ..., c]; 0 for None."""
    x = np.asarray(x, dtype=object)
    rows, columns = tuple(len(a) for a in axes), tuple(len(a[0]) if a else 0 for a in axes)
    out: Any = np.full((x.shape[0], *rows, *columns, x.shape[-1]), 0, dtype=object)
    for row in itertools.product(*map(range, rows)):
        for column in itertools.product(*map(range, columns)):
            at = [a[i][k] for a, i, k in zip(axes, row, column, strict=True)]
            if None not in at:
                out[(slice(None), *row, *column)] = x[(slice(None), *at)]
    return out


def _met(size: Sizes, places: Sizes, taps: Sizes, p: dict[str, Any]) -> list[list[list[int | None]]]:
    """For each axis, output place and tap: the place of the image that they meet in, None outside."""
    found = []
    for n, o, k, s, d, (before, _) in zip(
        size, places, taps, p["strides"], p["dilations"], p["padding"], strict=True
    ):  # fmt: skip
        at = [[s * i + d * j - before for j in range(k)] for i in range(o)]
        found.append([[a if 0 <= a < n else None for a in row] for row in at])
    return found


def _met_by(size: Sizes, places: Sizes, taps: Sizes, p: dict[str, Any]) -> list[list[list[int | None]]]:
    """For each axis, place of the image and tap: the output place that meets it with this tap, None where none does."""
    found = []
    for n, o, k, s, d, (before, _) in zip(
        size, places, taps, p["strides"], p["dilations"], p["padding"], strict=True
    ):  # fmt: skip
        at = [[divmod(i + before - d * j, s) for j in range(k)] for i in range(n)]
        found.append([[q if not r and 0 <= q < o else None for q, r in row] for row in at])
    return found


def _places(size: Sizes, taps: Sizes, p: dict[str, Any]) -> Sizes:
    return tuple(
        (n + sum(around) - d * (k - 1) - 1) // s + 1
        for n, k, s, d, around in zip(size, taps, p["strides"], p["dilations"], p["padding"], strict=True)
    )


def _groups(x: Any, groups: int) -> list[Any]:
    return np.split(np.asarray(x, dtype=object), groups, axis=-1)


def _correlate(W: Any, x: Any, w: Any, *, groups: int, **p: Any) -> Any:
    size, taps = x.shape[1:-1], w.shape[:-2]
    places = _places(size, taps, p)
    parts = []
    for a, b in zip(_groups(x, groups), _groups(w, groups), strict=True):
        met = _pick(a, _met(size, places, taps, p))
        rows = met.reshape(x.shape[0] * int(np.prod(places)), int(np.prod(taps)) * a.shape[-1])
        parts.append(W.matmul(rows, b.reshape(rows.shape[1], b.shape[-1])))
    return np.concatenate(parts, axis=-1).reshape(x.shape[0], *places, w.shape[-1])


def _input(W: Any, g: Any, w: Any, *, size: Sizes, groups: int, **p: Any) -> Any:
    places, taps = g.shape[1:-1], w.shape[:-2]
    parts = []
    for a, b in zip(_groups(g, groups), _groups(w, groups), strict=True):
        met = _pick(a, _met_by(size, places, taps, p))
        rows = met.reshape(g.shape[0] * int(np.prod(size)), int(np.prod(taps)) * a.shape[-1])
        parts.append(W.matmul(rows, np.swapaxes(b, -1, -2).reshape(rows.shape[1], b.shape[-2])))
    return np.concatenate(parts, axis=-1).reshape(g.shape[0], *size, w.shape[-2] * groups)


def _filter(W: Any, x: Any, g: Any, *, taps: Sizes, groups: int, **p: Any) -> Any:
    size, places = x.shape[1:-1], g.shape[1:-1]
    parts = []
    for a, b in zip(_groups(x, groups), _groups(g, groups), strict=True):
        met = _pick(a, _met(size, places, taps, p))
        rows = met.reshape(x.shape[0] * int(np.prod(places)), int(np.prod(taps)) * a.shape[-1])
        parts.append(W.matmul(rows.T, b.reshape(rows.shape[0], b.shape[-1])))
    return np.concatenate(parts, axis=-1).reshape(*taps, x.shape[-1] // groups, g.shape[-1])


array("correlate", _correlate)
array("correlate_input", _input)
array("correlate_filter", _filter)
