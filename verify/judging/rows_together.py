"""Claims for the rows of a higher derivative at a kink, compared with the derivatives beside it as a whole.

Each row may lie between the rows on all sides, although no second derivative has these rows at once: at (2, 2) the
function (x - y) * abs(x - y) has the second derivatives ±2 * [[1, -1], [-1, 1]] beside the kink, and the rows of
[[1, 0], [0, 1]] lie between theirs. The generalised second derivative is the convex hull of matrices (Hiriart-Urruty,
Strodiot and Nguyen, "Generalized Hessian matrix and second-order optimality conditions", 1984).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.verify.causes.joint import ALIKE, Across, across
from gtape.verify.causes.sides import Sides
from gtape.verify.judging.judgement import Judgement
from gtape.verify.oracles.replay import Shared
from gtape.verify.verdicts.verdict import Finding

__all__ = ["RowsTogether"]

_MOST = 2_000  # numbers of all programs of the rows
_MOST_WORK = 40_000  # numbers that all points beside the kink evaluate
_MOST_PAIRS = 400  # of points beside the kink
_FIRST = 4  # points beside the kink that are known before the comparison

Place = tuple[Any, ...]  # of a row, as from `Recording.programs`


class RowsTogether:
    """The claims for rows of one derivative.

    Parameters
    ----------
    order : int
    """

    def __init__(self, order: int) -> None:
        self.order = order
        self._rows: list[tuple[Place, list[Any], Sides]] = []
        self._shared: dict[int, Shared] = {}
        self._rng = np.random.default_rng(53)
        self._drawn = 0

    def add(self, place: Place, judgement: Judgement, claims: list[Any]) -> None:
        """Add the claims for the next row, and the judgement of them, which knows the derivatives beside the point."""
        shared = self._shared.setdefault(id(judgement.program), Shared())
        sides = Sides(judgement.program, judgement.oracle, judgement.beside, shared=shared, order=judgement.order)
        self._rows.append((place, claims, sides))

    def finding(self, met: Finding) -> Finding | None:
        """The finding that no second derivative has these rows at once; None if the rows fit, or if this is not known.

        Parameters
        ----------
        met : Finding
            Of an op at a kink.
        """
        size = sum(sides.program.size for _, _, sides in self._rows)
        claims = [c for _, row, _ in self._rows for c in row]
        if not 0 < size <= _MOST or not all(_is_real(c) for c in claims):
            return None
        known = [made for _ in range(_FIRST) for made in self._beside(None, 1.0)]
        if not known:
            return None
        eps = max(float(np.finfo(c.dtype).eps) for c in claims if c is not None)
        budget = min(_MOST_PAIRS, _MOST_WORK // (2 * size))
        apart = across(claims, known, self._beside, max(ALIKE, 64 * eps), budget)
        return None if apart is None else self._told(apart, met)

    def _beside(self, moves: list[Any] | None, part: float) -> list[list[Any]]:
        """The rows before and behind the point along a direction, which leads to the pieces where these elements of the
        rows are large.
        """
        self._drawn += 1
        way = self._way(moves, part)
        made: list[list[Any]] = [[], []]
        for _, row, sides in self._rows:
            pair = sides.pair_along(way, ("together", self._drawn))
            if len(pair) != len(made):
                return []
            for side, derivative in zip(made, pair, strict=True):
                side += [
                    None if c is None else np.zeros(np.shape(c)) if d is None else np.broadcast_to(d, np.shape(c))
                    for c, d in zip(row, derivative, strict=True)
                ]
        return made

    def _way(self, moves: list[Any] | None, part: float) -> list[Any]:
        """A direction of all sources: a random one, and a random sum of the rows of the moves."""
        _, first, _ = self._rows[0]
        count = len(first)
        shapes = [self._shape_of(s) for s in range(count)]
        way = [part * self._rng.uniform(-1.0, 1.0, shape) for shape in shapes]
        for k, move in enumerate(moves or []):
            s = k % count
            if move is not None and move.shape == shapes[s]:
                way[s] = way[s] + self._rng.uniform(-1.0, 1.0) * move
        return way

    def _shape_of(self, s: int) -> tuple[int, ...]:
        return next((np.shape(row[s]) for _, row, _ in self._rows if row[s] is not None), ())

    def _told(self, apart: Across, met: Finding) -> Finding:
        _, first, _ = self._rows[0]
        words = []
        for k, index in apart.places[:4]:
            i, row = self._rows[k // len(first)][0]
            several = "" if len(first) == 1 else f" of arguments {i} and {k % len(first)}"
            words.append(f"{[*row, *index]}{several}")
        more = ", ..." if len(apart.places) > len(words) else ""
        # A sum of numbers that cancel leaves roundings.
        low, high = (0.0 if abs(x) <= ALIKE * abs(apart.claimed) else x for x in (apart.low, apart.high))
        range_ = f"{low:.6g}" if low == high else f"in [{low:.6g}, {high:.6g}]"
        reason = (
            f"each row lies between those on all sides, but no derivative of this order has these rows at once: the "
            f"sum of {apart} times the elements {', '.join(words)}{more} is {range_} on all sides, and the claims give "
            f"{apart.claimed:.6g}"
        )
        return Finding("convention", order=self.order, op=met.op, line=met.line, inside=False, reason=reason)


def _is_real(claim: Any) -> bool:
    return claim is None or (claim.dtype.kind == "f" and bool(np.isfinite(claim).all()))
