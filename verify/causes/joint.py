"""Claims at kinks, compared with the derivatives on all sides along directions of several elements.

At a tie, max(x, y) has the derivatives (1, 0) and (0, 1) beside the point. A claim of (1, 1) lies in the interval
[0, 1] of each element, but max grows by 1 along (1, 1), on all sides, and the claim says 2. The generalised derivative
is the convex hull of the derivatives beside the point (Clarke, "Optimization and Nonsmooth Analysis", 1983). This
module compares a claim with the affine hull first, because all derivatives beside the point agree along the directions
that are orthogonal to it, and then with the convex hull.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gtape.verify.causes.hull import gap_to_hull

__all__ = ["ALIKE", "Across", "across"]

ALIKE = 1e-9  # the relative distance up to which derivatives along a direction agree
_MOST = 300  # elements that are compared
_PROBES = (1.0, 2.0**-4, 2.0**-10)  # random parts of the directions of probes that have to agree
_RANDOM = 48  # directions at random that have to agree, too, because some derivatives are those of narrow cones
_FIRST = 8  # directions at random before the first comparison
_AXES = 16  # elements along which a probe goes, too
_FAR = 1e-3  # of the size of an element


class Across(NamedTuple):
    """A direction along which a claim differs from all derivatives beside a point.

    Attributes
    ----------
    places : list of (int, tuple of int)
        The elements that the direction moves.
    moves : list of float
        By how much, at most 1.
    low, high : float
        The least and the greatest derivative along the direction; equal if all agree.
    claimed : float
        That of the claim.
    """

    places: list[tuple[int, tuple[int, ...]]]
    moves: list[float]
    low: float
    high: float
    claimed: float

    def __str__(self) -> str:
        shown = [f"{m:.3g}" for m in self.moves[:4]]
        return f"({', '.join(shown)}{', ...' if len(self.moves) > len(shown) else ''})"


def across(
    claims: Sequence[Any],
    known: list[list[Any]],
    probe: Callable[[list[Any], float], list[list[Any]]],
    room: float,
    budget: int,
    *,
    convex: bool = False,
    rooms: Sequence[Any] | None = None,
) -> Across | None:
    """A direction along which the claims differ from all derivatives beside a point; None if none is found.

    Parameters
    ----------
    claims : sequence of float arrays or None
        One for each source.
    known : list of such sequences
        The derivatives at some points.
    probe : callable
        Takes a direction for each source and the size of its random part, and returns the derivatives before and behind
        the point along it.
    room : float
        The relative error of claims.
    budget : int
        Of calls of `probe`.
    convex : bool
        Whether to compare the claims with the convex hull of the derivatives, too.
    rooms : sequence of float arrays or None, optional
        The absolute errors that claims may have where these are larger than the relative one.
    """
    places = [(s, index) for s, c in enumerate(claims) if c is not None for index in np.ndindex(*np.shape(c))]
    if not 2 <= len(places) <= _MOST:
        return None

    def flat(arrays: Sequence[Any]) -> Any:
        return np.array([0.0 if arrays[s] is None else float(arrays[s][index]) for s, index in places])

    def directed(way: Any) -> list[Any]:
        moves: list[Any] = [None if c is None else np.zeros(np.shape(c)) for c in claims]
        for (s, index), move in zip(places, way.tolist(), strict=True):
            moves[s][index] = move
        return moves

    def found_along(way: Any, low: float, high: float) -> Across:
        shown = [(place, move) for place, move in zip(places, way.tolist(), strict=True) if move]
        return Across([p for p, _ in shown], [m for _, m in shown], low, high, float(claim @ way))

    def made(way: Any, part: float) -> list[Any]:
        """The derivatives before and behind the point, as vectors; none if the budget is spent."""
        nonlocal budget
        budget -= 1
        return [flat(v) for v in probe(directed(way), part)] if budget >= 0 else []

    claim, vectors, rank = flat(claims), [flat(v) for v in known], -1
    # Rounding may carry an element farther than its size tells if larger terms cancel in it.
    least = np.zeros(len(places)) if rooms is None else flat(rooms) / room
    nowhere, axes = np.zeros(len(places)), np.eye(len(places))
    if any(
        (np.abs(claim - v) <= room * np.maximum(least, np.maximum(np.abs(claim), np.abs(v)))).all() for v in vectors
    ):
        return None
    apart = np.argsort(-np.abs(claim - vectors[0]))[:_AXES]
    for way in [nowhere] * _FIRST + list(axes[apart]):  # the points known so far may lie on few sides
        vectors += made(way, 2.0**-20 if way.any() else 1.0)
    while True:
        rows = np.array(vectors)
        sizes = np.maximum(np.maximum(np.abs(rows).max(axis=0), np.abs(claim)), least)
        if not np.isfinite(sizes).all():
            return None
        kinked = np.ptp(rows, axis=0) > room * sizes
        # Elsewhere each element is compared by itself, unless the claim is far off: then other points vary.
        kinked |= np.abs(claim - rows[0]) > _FAR * sizes
        if not 2 <= kinked.sum() < len(vectors) + 2 * budget:  # so many probes would span all directions at best
            return None
        units = np.where(kinked, sizes, np.inf)  # all elements have a share, whatever their sizes
        rest, before = np.zeros(len(places)), rank
        rest[kinked], rank = _rest(((claim - rows[0]) / units)[kinked], ((rows - rows[0]) / units)[:, kinked], room)
        if np.abs(rest).max() <= room:
            gap = gap_to_hull(claim, vectors, units, made, room) if convex else None
            return None if gap is None else found_along(*gap)
        if rank == before:
            return None
        way = rest * (units.min() / units)
        way = way / np.abs(way).max()
        expected = float(rows[0] @ way)
        tried = [(way, part) for part in _PROBES] + [(nowhere, 1.0)] * _RANDOM
        along = np.flatnonzero(kinked)[:_AXES]  # the random part chooses one of the pieces that meet in an axis
        tried += [(axes[k], 2.0**-20) for k in np.tile(along, max(1, _RANDOM // (2 * len(along))))]
        others: list[Any] = []
        for direction, part in tried:
            found = made(direction, part)
            if not found:
                return None
            others += [v for v in found if abs(v @ way - expected) > room * np.abs(sizes * way).sum()]
            if others:
                break
        else:
            return found_along(way, expected, expected)
        vectors += others


def _rest(claim: Any, rows: Any, room: float) -> tuple[Any, int]:
    """The part of a vector that is orthogonal to some rows, and the rank of the rows."""
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    basis = basis[sizes > room * max(sizes[0], np.finfo(float).tiny)]
    return claim - basis.T @ (basis @ claim), len(basis)
