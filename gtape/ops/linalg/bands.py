"""Positions of packed diagonals: several diagonals in a table with one row for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.shown import shown
from gtape.declare.primitives import REGISTRY
from gtape.errors import InvalidArgumentError
from gtape.tensors.tensor import Tensor, wrap

__all__: list[str] = []

LETS_OUT = True  # padding values leave the tape here, as `gtape.recording.trace` notes

_ALIGN = ("LEFT_LEFT", "LEFT_RIGHT", "RIGHT_LEFT", "RIGHT_RIGHT")


def length(k: int, rows: int, columns: int) -> int:
    """The number of elements of a diagonal."""
    return min(rows + min(k, 0), columns - max(k, 0))


def places(low: int, high: int, rows: int, columns: int, align: str, op: str) -> Any:
    """The row-major position in the matrix of each element of packed diagonals, highest first. Padding has -1."""
    if align not in _ALIGN:
        raise InvalidArgumentError(f"{op}: align must be one of {', '.join(_ALIGN)}, got {shown(align)}")
    if not -max(rows, 1) < low <= high < max(columns, 1):
        raise InvalidArgumentError(
            f"{op}: a matrix of {rows} rows and {columns} columns has no diagonals k=({low}, {high})"
        )
    above, below = align.split("_")
    most = max(length(k, rows, columns) for k in range(low, high + 1))
    table = np.full((high - low + 1, most), -1, np.int64)
    for row, k in enumerate(range(high, low - 1, -1)):
        n = length(k, rows, columns)
        left = (k >= 0 and above == "LEFT") or (k <= 0 and below == "LEFT")
        start = 0 if left else most - n
        i = np.arange(n)
        table[row, start : start + n] = (i + max(-k, 0)) * columns + i + max(k, 0)
    return table


def taken(t: Tensor, table: Any, rest: int, padding: Any) -> Tensor:
    """Elements of the last `rest` axes by row-major position. The position -1 gives the padding value."""
    lead = t._layout.shape[: t.ndim - rest]
    size = int(np.prod(t._layout.shape[t.ndim - rest :], dtype=np.int64))
    line = REGISTRY["reshape"](t, shape=(*lead, size))
    if (table < 0).any():
        line = REGISTRY["concat"](line, wrap(np.full((*lead, 1), padding, t._layout.dtype)), axis=-1)
        table = np.where(table < 0, size, table)
    return REGISTRY["gather"](line, wrap(table), axis=-1, size=line._layout.shape[-1])


def inverse(table: Any, rows: int, columns: int) -> Any:
    """For each element of the matrix, its position in the packed diagonals. Elements outside have -1."""
    found = np.full(rows * columns, -1, np.int64)
    inside = table.reshape(-1) >= 0
    found[table.reshape(-1)[inside]] = np.flatnonzero(inside)
    return found.reshape(rows, columns)
