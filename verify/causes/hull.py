"""Claims at kinks, compared with the convex hull of the derivatives beside the point.

Along (1, 1), the slopes of sqrt(x² + y²) at 0 lie between those before and behind the point. The claim (0.9, 0.9) lies
in the interval [-1, 1] of each element, and its slope along (1, 1) is larger than all of these. The nearest point of
the hull gives the direction along which a claim is compared.

A convex function has its largest slope along a direction at the points that lie behind the recorded one in that
direction, so these points decide. The same holds for a concave function and the points before. Other functions may
have larger slopes in cones that few points meet. There a claim passes unless the gap is wide against the hull, and
against what the last points added to it. If the function has few linear pieces, walks around planes find the pieces:
random planes along the direction, and planes beside the walls between known pieces.
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
_DIGITS = 6  # by which derivatives of linear pieces differ
_PLANES = 3  # at random for each element but one
_BESIDE = 2.0**-10  # how far from a wall a walk along the wall stays
_TURNS = 4  # of a walk around half a plane, because a piece may hold both ends of a turn, but not all of it
_TURNS_OF_TWO = 16  # in the only plane of two elements
_ASIDE = 2.0**-20  # how far from its direction a walk through a plane starts
_PARTS = 8  # how often the way between two points is parted
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
        self.walls: dict[tuple[float, ...], Any] = {}  # the normals of the planes between neighbouring pieces
        self.planes: dict[tuple[float, ...], int] = {}  # how many random planes met each piece
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
            if not self._bends_one_way(way) and not self._is_far(way):
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

    def _bends_one_way(self, way: Any) -> bool:
        """Whether the function is convex or concave, also at the linear pieces in some planes along a direction."""
        if not (self._bends(1) or self._bends(-1)):
            return False
        if self.kinked.sum() <= _FEW and self._has_few_pieces(0):
            for _ in range(_PLANES):
                self._walk(way, self._at_random())
        return self._bends(1) or self._bends(-1)

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
        known = len(self.vectors)
        self._draw(way, _MORE // 4)
        if self._has_few_pieces(known):
            return self._is_far_from_pieces(way)
        self._draw(way, _MORE - _MORE // 4)
        if self._has_few_pieces(known):
            return self._is_far_from_pieces(way)
        slopes = self._slopes(way)
        half = slopes[: (known + len(slopes)) // 2].max()
        return self._is_beyond(way, slopes.max() - half)

    def _is_beyond(self, way: Any, added: float) -> bool:
        """Whether the gap along a direction is wide against the hull, and against what some derivatives added to it."""
        slopes = self._slopes(way)
        gap = self.claim @ way - slopes.max()
        return bool(gap > max(_SHARE * np.ptp(slopes), _GROWS * added))

    def _draw(self, way: Any, count: int) -> None:
        """Add derivatives at random points, and around the direction with the greatest slope along `way`."""
        nowhere = np.zeros(len(way))
        for k in range(count):
            if k % 2:
                self._probe(nowhere, 1.0)
            else:
                self._probe(self._turned(self._steepest(way), _CLIMBS[k // 2 % len(_CLIMBS)]), _NEAR[0])

    def _has_few_pieces(self, known: int) -> bool:
        """Whether many of the points after some known ones share their derivatives, as those of linear pieces do."""
        drawn = self.vectors[known:]
        return len({self._piece(v) for v in drawn}) < len(drawn) / 2

    def _piece(self, vector: Any) -> tuple[float, ...]:
        """The derivative of a linear piece without its rounding, which tells pieces apart."""
        sizes = np.where(self.kinked, self.units, 1.0)
        return tuple((np.round(vector / sizes, _DIGITS) + 0.0).tolist())

    def _is_far_from_pieces(self, way: Any) -> bool:
        """Whether a claim is outside of the hull of linear pieces by more than pieces that no plane met may add.

        All planes hold the direction, and meet narrow pieces more often than points do. Pieces that no random plane
        met may add as much to the hull as those that one plane met, as unseen species are as frequent as species seen
        once (I. J. Good, "The population frequencies of species", Biometrika 40, 1953).
        """
        few = int(self.kinked.sum()) - 1
        for _ in range(_PLANES * few if few > 1 else 1):  # one plane holds all pieces of two elements
            met = self._walk(way, self._at_random())
            for piece in {self._piece(v) for v in met}:
                self.planes[piece] = self.planes.get(piece, 0) + (1 if few > 1 else 2)
            if self._reached(way):
                return True  # the hull has grown, and gives another direction
        often = [v @ way for v in self.vectors if self.planes.get(self._piece(v), 0) > 1]
        if not often or not self._is_beyond(way, self._slopes(way).max() - max(often)):
            return False
        if few == 1 or self._is_beyond(way, np.ptp(self._slopes(way)) / _GROWS):
            return True
        return self._walk_along_walls(way) or self._is_beyond(way, self._slopes(way).max() - max(often))

    def _walk_along_walls(self, way: Any) -> bool:
        """Whether a piece along the walls between known pieces reaches the claim, because narrow pieces lie there."""
        done = set[tuple[float, ...]]()
        while len(done) < len(self.walls):
            name, normal = next((n, w) for n, w in self.walls.items() if n not in done)
            done.add(name)
            sizes = np.where(self.kinked, self.units, 0.0)
            normal = normal / np.maximum(sizes, np.finfo(float).tiny) * self.kinked  # of points in units of elements
            units = np.where(self.kinked, self.units, 1.0)
            first, second = [_in_plane(v * sizes, normal) / units for v in (way, self._at_random())]
            shift = _BESIDE * np.abs(first * sizes).max() / np.abs(normal).max() * normal / units
            for side in (1.0, -1.0):
                self._walk(first, second, side * shift)
                if self._reached(way):
                    return True
        return False

    def _at_random(self) -> Any:
        """A random direction, in the units of the elements."""
        drawn = np.zeros(len(self.claim))
        drawn[self.kinked] = self.rng.normal(size=self.kinked.sum()) / self.units[self.kinked]
        return drawn / np.abs(drawn).max()

    def _walk(self, way: Any, beside: Any, shift: Any = 0.0) -> list[Any]:
        """The derivatives in a plane through the point, on the way around it.

        Near the point the function is linear along each ray. If the derivatives at two points are those of neighbours,
        then both linear functions are equal on the boundary, so that a point there has one of both derivatives.
        """
        known = len(self.vectors)
        sizes = np.where(self.kinked, self.units, 0.0)
        units = np.where(self.kinked, self.units, 1.0)
        along, beside = way * sizes, _in_plane(beside * sizes, way * sizes)
        beside = beside * (np.abs(along).max() / max(np.abs(beside).max(), np.finfo(float).tiny))
        turns = np.linspace(0.0, np.pi, 1 + (_TURNS if self.kinked.sum() > 2 else _TURNS_OF_TWO))
        rays = [-np.cos(turn) * along + max(np.sin(turn), _ASIDE) * beside for turn in turns]
        points = [ray / units + shift for ray in rays]
        found = []
        for point in points:
            self._probe(point, _NEAR[0])
            found.append((self.vectors[-1], self.vectors[-2]))  # behind is the side towards the direction
        for a, b, at_a, at_b in zip(points, points[1:], found, found[1:], strict=False):
            for k, sign in enumerate((1.0, -1.0)):
                self._part(sign * a, sign * b, at_a[k], at_b[k], _PARTS)
        return self.vectors[known:]

    def _part(self, a: Any, b: Any, at_a: Any, at_b: Any, depth: int) -> None:
        """Add the derivatives of the pieces between two points."""
        ends = self._piece(at_a), self._piece(at_b)
        if ends[0] == ends[1] or not depth:
            return
        along = b - a
        first, second, bend = at_a @ a, at_b @ b, (at_a - at_b) @ along
        share = (second - at_b @ along - first) / bend if bend else 0.5
        if not 0.0 < share < 1.0:
            share = 0.5
        between = a + share * along
        self._probe(between, _NEAR[0])
        middle = self.vectors[-1]
        if self._piece(middle) in ends:
            if share != 0.5:
                self._know_wall(at_a - at_b)
                return
            if self._piece(middle) == ends[0]:
                self._part(between, b, middle, at_b, depth - 1)
            else:
                self._part(a, between, at_a, middle, depth - 1)
            return
        self._part(a, between, at_a, middle, depth - 1)
        self._part(between, b, middle, at_b, depth - 1)

    def _know_wall(self, normal: Any) -> None:
        """Keep the wall between two neighbours, whose normal is the difference of their derivatives."""
        normal = np.where(self.kinked, normal / np.abs(normal).max(), 0.0)
        normal *= np.sign(normal[np.argmax(np.abs(normal) > 0.5)])
        self.walls.setdefault(tuple((np.round(normal, _DIGITS) + 0.0).tolist()), normal)

    def _steepest(self, way: Any) -> Any:
        """The direction, among those probed, in which the slope along another direction is the greatest."""
        best = max(self.probes, key=lambda probe: max(probe.before @ way, probe.behind @ way))
        return best.way if best.behind @ way >= best.before @ way else -best.way


def _in_plane(move: Any, normal: Any) -> Any:
    """The part of a move that stays in the plane with a normal vector."""
    return move - (move @ normal) / (normal @ normal) * normal


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
