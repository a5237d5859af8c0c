"""Claims at kinks, compared with the convex hull of the derivatives beside the point.

Along (1, 1), the slopes of sqrt(x² + y²) at 0 lie between those before and behind the point. The claim (0.9, 0.9) lies
in the interval [-1, 1] of each element, and its slope along (1, 1) is larger than all of these. The nearest point of
the hull gives the direction along which a claim is compared.

A convex function has its largest slope along a direction at the points that lie behind the recorded one in that
direction, so these points decide. The same holds for a concave function and the points before. Other functions may
have larger slopes in cones that few points meet. There a claim passes unless many points leave a gap that is wide
against all that they differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Gap", "gap_to_hull"]

_MOST = 64  # elements whose hull is made
_ROUNDS = 48  # of one direction each, and one more for each element
_NEAR = (2.0**-60, 2.0**-20)  # random parts of a direction, which choose one of the pieces that meet in it
_RANDOM = 24  # directions at random that must not have larger slopes
_ALONG_AXES = 24  # probes of all axes, because the random part of each chooses one of the pieces in a narrow cone
_MORE = 200  # of a function that is neither convex nor concave
_FEW = 6  # elements of such a function
_CLIMBS = (0.5, 0.125, 2.0**-6)  # random parts of directions around that of the largest slope
_SHARE = 1 / 16  # of the hull's width, by which a claim must be outside for such a function
_STEPS = 3  # of the search for the nearest point, for each derivative
_ROUNDED = 2.0**-50  # the size of a gain or a weight that is a rounding
_GROWS = 4.0  # times what the second half of the points adds to the hull


class Gap(NamedTuple):
    """A direction along which a claim lies outside of the slopes beside the point.

    Attributes
    ----------
    way : array
    low, high : float
        The least and the greatest slope along the direction.
    """

    way: Any
    low: float
    high: float


class _Probe(NamedTuple):
    """A direction, and the derivatives before and behind the point along it."""

    way: Any
    before: Any
    behind: Any


class _Unknown(Exception):
    """There are too few derivatives beside the point, or too many for their hull."""


def gap_to_hull(
    claim: Any, vectors: list[Any], units: Any, made: Callable[[Any, float], list[Any]], room: float
) -> Gap | None:
    """A direction along which a claim lies outside of the hull of the derivatives; None if none is found.

    Parameters
    ----------
    claim : array of floats
    vectors : list of such arrays
        The derivatives at some points.
    units : array of floats
        The size of each element; infinity for an element by which all derivatives agree.
    made : callable
        Takes a direction and the size of its random part, and returns the derivatives before and behind the point;
        none after too many calls.
    room : float
        The relative error of claims.
    """
    if not 2 <= np.isfinite(units).sum() <= _MOST:
        return None
    try:
        return _Hull(claim, list(vectors), units, made, room).gap()
    except _Unknown:
        return None


class _Hull:
    """The derivatives known so far."""

    def __init__(
        self, claim: Any, vectors: list[Any], units: Any, made: Callable[[Any, float], list[Any]], room: float
    ) -> None:
        self.claim, self.vectors, self.units, self.made, self.room = claim, vectors, units, made, room
        self.kinked = np.isfinite(units)
        self.probes: list[_Probe] = []
        self.rng = np.random.default_rng(71)

    def gap(self) -> Gap | None:
        """The direction to the claim from the nearest point of the hull, if no derivative is found further that way."""
        for _ in range(_ROUNDS + int(self.kinked.sum())):
            apart = ((self.claim - self._nearest()) / self.units)[self.kinked]
            if np.abs(apart).max() <= self.room:
                return None
            way = np.zeros(len(self.claim))
            way[self.kinked] = apart / self.units[self.kinked]
            way /= np.abs(way).max()
            for part in _NEAR:
                self._probe(way, part)
            if self._reached(way):
                continue
            self._spread_out(way)
            if self._reached(way):
                continue
            if not (self._bends(1) or self._bends(-1)) and not self._is_far(way):
                return None
            if not self._reached(way):
                slopes = self._slopes(way)
                return Gap(way, float(slopes.min()), float(slopes.max()))
        return None

    def _nearest(self) -> Any:
        """The point of the hull that is nearest to the claim, in the units of the elements."""
        rows = ((np.array(self.vectors) - self.claim) / self.units)[:, self.kinked]
        return _weights_of_nearest(rows) @ np.array(self.vectors)

    def _probe(self, way: Any, part: float) -> None:
        found = self.made(way, part)
        if len(found) != 2:
            raise _Unknown
        self.vectors += found
        if not np.isfinite(found).all():
            raise _Unknown
        if way.any():
            self.probes.append(_Probe(way, *found))

    def _turned(self, way: Any, share: float) -> Any:
        """A direction near another one, by a random part."""
        drawn = np.where(self.kinked, self.rng.uniform(-1.0, 1.0, len(way)), 0.0)
        return way + share * np.abs(way).max() * drawn

    def _spread_out(self, way: Any) -> None:
        """Add derivatives along axes and diagonals, at random points, and around the direction."""
        axes = np.eye(len(way))[self.kinked]
        diagonals = [axes[j] + sign * axes[j - 1] for j in range(len(axes)) for sign in (-1, 1)]
        for one in [*axes] * max(1, _ALONG_AXES // len(axes)) + diagonals[: 2 * len(axes)]:
            self._probe(one, _NEAR[1])
        for share in _CLIMBS:
            self._probe(self._turned(way, share), _NEAR[0])
        for _ in range(_RANDOM):
            self._probe(np.zeros(len(way)), 1.0)

    def _slopes(self, way: Any) -> Any:
        return np.array(self.vectors) @ way

    def _room_along(self, way: Any) -> float:
        sizes = np.where(self.kinked, self.units, 0.0)
        return float(self.room * np.abs(sizes * way).sum())

    def _reached(self, way: Any) -> bool:
        """Whether some derivative is as large along a direction as the claim, so that the hull has grown."""
        return bool(self._slopes(way).max() >= self.claim @ way - self._room_along(way))

    def _bends(self, sign: int) -> bool:
        """Whether all slopes are those of a convex function, or with the sign -1 of a concave one."""
        for way, before, behind in self.probes:
            slopes, room = sign * self._slopes(way), self._room_along(way)
            if slopes.max() > sign * (behind @ way) + room or slopes.min() < sign * (before @ way) - room:
                return False
        return True

    def _is_far(self, way: Any) -> bool:
        """Whether a claim is far outside of the hull of many more points, for a function that bends both ways."""
        if self.kinked.sum() > _FEW:
            return False
        nowhere, known = np.zeros(len(way)), len(self.vectors)
        for k in range(_MORE):
            if k % 2:
                self._probe(nowhere, 1.0)
            else:
                self._probe(self._turned(self._steepest(way), _CLIMBS[k // 2 % len(_CLIMBS)]), _NEAR[0])
        drawn = np.array(self.vectors[known:])
        sizes = np.where(self.kinked, self.units, 1.0)
        pieces, counts = np.unique(np.round(drawn / sizes, 6), axis=0, return_counts=True)
        if len(pieces) < len(drawn) / 2 and (counts == 1).any():
            return False  # a piece that a single point met is small, so other small pieces may be left
        slopes = self._slopes(way)
        half = slopes[: known + len(drawn) // 2].max()
        gap = self.claim @ way - slopes.max()
        return bool(gap > max(_SHARE * np.ptp(slopes), _GROWS * (slopes.max() - half)))

    def _steepest(self, way: Any) -> Any:
        """The direction, among those probed, in which the slope along another direction is the greatest."""
        best = max(self.probes, key=lambda probe: max(probe.before @ way, probe.behind @ way))
        return best.way if best.behind @ way >= best.before @ way else -best.way


def _weights_of_nearest(rows: Any) -> Any:
    """The weights of the rows in that point of their convex hull that is nearest to 0.

    These are least squares with weights that are not negative (Lawson and Hanson, "Solving Least Squares Problems",
    1974, chapter 23). Their sum is scaled to 1 afterwards, which leaves the nearest point the same.
    """
    a = np.vstack([rows.T, np.ones(len(rows))])
    b = np.append(np.zeros(rows.shape[1]), 1.0)
    weights, used = np.zeros(len(rows)), np.zeros(len(rows), np.bool_)
    least = _ROUNDED * np.abs(a).max()
    for _ in range(_STEPS * len(rows)):
        gains = np.where(used, -np.inf, (b - a @ weights) @ a)
        best = int(np.argmax(gains))
        if not gains[best] > least:
            return weights / weights.sum()
        used[best] = True
        for _ in range(len(rows)):
            wanted = np.zeros(len(rows))
            wanted[used] = np.linalg.lstsq(a[:, used], b, rcond=None)[0]
            low = used & (wanted <= 0)
            if not low.any():
                break
            share = (weights[low] / np.maximum(weights[low] - wanted[low], np.finfo(float).tiny)).min()
            weights += share * (wanted - weights)
            used &= weights > _ROUNDED
            weights[~used] = 0.0
        weights = wanted
    raise _Unknown
