"""Claims that moved inputs excuse element by element, compared with the derivatives at moved inputs as a whole.

Half a unit in two inputs of 1e50 moves each element of the gradient of logsumexp between 0 and 1. The sum of both is 1
at all moved inputs, so no inputs have the gradient (1, 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gtape.verify.causes.joint import Across

__all__ = ["apart_from_moved"]

_GROSS = 2.0**-10  # of the terms of a sum, by which claims must miss it; and of numbers that lost most digits
_SPREAD = 2.0**-4  # of the miss, within which all derivatives have the sum
_SPARE = 8  # vectors beyond those that span all directions
_ROUNDED = 2.0**-30  # relative size of a direction in which the derivatives do not move


def apart_from_moved(
    claims: Sequence[Any], moved: Sequence[Sequence[Any]], others: Sequence[Sequence[Any]]
) -> Across | None:
    """A direction along which derivatives at moved inputs agree, and claims differ; None if none is found.

    Parameters
    ----------
    claims : sequence of float arrays or None
        One for each source.
    moved : sequence of such sequences
        The derivatives at moved inputs, from which the direction follows.
    others : sequence of such sequences
        Further derivatives, which must agree along this direction, too.
    """
    places = [(s, index) for s, c in enumerate(claims) if c is not None for index in np.ndindex(*np.shape(c))]

    def flat(arrays: Sequence[Any]) -> Any:
        return np.array([0.0 if arrays[s] is None else float(np.asarray(arrays[s])[index]) for s, index in places])

    if len(places) < 2 or len(moved) < len(places) + _SPARE or not others:
        return None
    claim, rows, rest = flat(claims), np.array([flat(v) for v in moved]), np.array([flat(v) for v in others])
    if not all(np.isfinite(v).all() for v in (claim, rows, rest)):
        return None
    sizes = np.abs(rows).max(axis=0)
    wild = np.ptp(rows, axis=0) > _GROSS * sizes  # other elements keep digits, and are compared by themselves
    if wild.sum() < 2:
        return None
    middle = np.median(rows, axis=0)
    apart = (claim - middle)[wild] / sizes[wild]
    _, lengths, basis = np.linalg.svd((rows - middle)[:, wild] / sizes[wild], full_matrices=False)
    basis = basis[lengths > _ROUNDED * lengths[0]]
    way = np.zeros(len(places))
    way[wild] = (apart - basis.T @ (basis @ apart)) / sizes[wild]
    if not np.abs(way).max() > 0:
        return None
    way = way / np.abs(way).max()
    slopes = np.concatenate([rows, rest]) @ way
    miss = float(np.abs(claim @ way - slopes).min())
    if miss <= _GROSS * float(np.abs(sizes * way).sum()) or np.ptp(slopes) > _SPREAD * miss:
        return None
    low, high = float(slopes.min()), float(slopes.max())
    shown = [(place, move) for place, move in zip(places, way.tolist(), strict=True) if move]
    return Across([p for p, _ in shown], [m for _, m in shown], low, high, float(claim @ way))
