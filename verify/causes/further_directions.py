"""Further directions for numbers that the derivatives along the first directions leave out.

A piece of the function may be so narrow that the first random directions miss it. A number is judged outside only after
these directions, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from flint import arb

from gtape.symbolic.balls import objects, to_float
from gtape.verify.causes.directions_beside import NARROWER, Cone
from gtape.verify.causes.effort import FEW, MOST_SEARCHED
from gtape.verify.causes.intervals import STEPS, Interval, distance_from, middle, shrinks
from gtape.verify.causes.joint import ALIKE, Across, across
from gtape.verify.causes.limits import Limits
from gtape.verify.causes.points_beside import JOIN, Place
from gtape.verify.oracles.enclosures import BALLS, is_floating
from gtape.verify.oracles.oracle import Oracle

__all__ = ["FurtherDirections"]

_SEARCHES = 96  # further directions for elements outside of their intervals
_EXCHANGES = 12  # of these directions, in which an element exchanges its move with another one
_CLOSE = arb(2) ** -30  # relative to its interval, how near derivatives in narrow cones come to their limit
_TIMES = 3  # points for each piece, after which few other pieces are left


class FurtherDirections(Limits):
    """The search of directions that show an interval to be too narrow, or numbers to differ from all derivatives.

    The parameters are those of `ElementsApart`.
    """

    convex = True  # whether the numbers are compared with the convex hull of derivatives

    def _knows_all_pieces(self) -> bool:
        """Whether most points lay in pieces known before, so that few pieces are left."""
        known = {piece for piece, _ in self.of_pieces if piece[1] == STEPS[0]}
        return self.looked_up >= _TIMES * len(known) > 0

    def _search(
        self,
        found: list[dict[tuple[int, ...], Interval]],
        every: list[Place],
        numbers: list[Any],
        points: tuple[list[Any], list[Any]],
        derivative: Callable[[Oracle], list[Any]],
    ) -> None:
        """Drop the intervals of elements that further directions show to be too narrow.

        The directions in which all units of a layer are off may be few. Among many equal numbers, random directions
        rarely make a given one the middle one. A direction in which another element has its rarest derivative does, if
        both elements exchange their moves.
        """
        left = [(s, index) for s, out in enumerate(found) for index in out]
        if not left or self.program.size > FEW:
            return
        usual = {place: self._varied(place, numbers, points) for place in every}
        varied = {place: middle for place, middle in usual.items() if middle is not None}
        own = {place: list(points[0]) for place in left}
        elements = every if self.way is None else self._elements
        differ = bool(varied) or any(not found[s][index].agree for s, index in left)
        for k in range(min(_SEARCHES, MOST_SEARCHED // self.program.size) if differ else 0):
            # Each third one goes along the axis of another element, because some pieces are narrow cones around one.
            along = elements[k // 3 % len(elements)] if k % 3 == 2 else None
            name = "search", k, along
            moves = self.shared.get(name, partial(self._drawn, None if along is None else [along]))
            made = list(self._at(moves, STEPS[0], derivative, number=name, of="all"))
            for place in list(left):
                s, index = place
                own[place] += made
                exchanges = k < _EXCHANGES and self.way is None and varied and found[s][index].agree
                if exchanges and self._is_off(place, numbers, own[place]):
                    only = self._of([place], numbers)
                    for d in made:
                        exchanged = self._exchanged(moves, place, _rarest(d, varied))
                        own[place] += self._at(exchanged, STEPS[0], only, of=place)
                inside = not self._is_off(place, numbers, own[place])
                if not inside and along is not None:
                    number, only = objects(numbers[s])[index], self._of([place], numbers)
                    hull = self._hull(own[place], s, index, number)
                    inside = hull is not None and self._narrows(
                        place, number, hull, [Cone(name, moves, along, arb(1), NARROWER)], only
                    )
                if inside:
                    del found[s][index]
                    left.remove(place)
            if not left:
                return

    def _narrows(
        self,
        place: Place,
        number: Any,
        hull: tuple[arb, arb],
        cones: list[Cone],
        only: Callable[[Oracle], list[Any]],
    ) -> bool:
        """Whether the distance of a number from the derivatives in a cone converges to 0 as the cone narrows.

        A derivative of degree 0, such as that of ``|v| * |w|`` by two elements of w, does not change with the step. It
        may come as near to 0 as one likes towards an axis, and be 0 at no point beside it. The limit of such limits
        belongs to the generalised derivative, too.

        Parameters
        ----------
        hull : (arb, arb)
            Of the derivatives at known points.
        cones : list
            Around the axis of an element, and around the plane in which this element stays.
        """
        gap = distance_from(number, hull)
        if not gap <= _CLOSE * (hull[1] - hull[0]):
            return False
        for name, moves, element, by_own, by_rest in cones:
            narrow = self._scaled(moves, element, by_own, by_rest)
            # Pieces tell derivatives apart only by 50 bits of those of single ops.
            made = self._at(narrow, STEPS[1], only, number=None if name is None else ("narrower", name, element))
            inner = self._hull(list(made), *place, number)
            if inner is not None and shrinks(gap, distance_from(number, inner)):
                return True
        return False

    def _across(
        self, numbers: list[Any], points: list[list[Any]], derivative: Callable[[Oracle], list[Any]]
    ) -> Across | None:
        """A direction along which all derivatives beside the point agree, and the numbers differ."""
        program = self.program
        if self.joint is None or self.along is not None or program.size > FEW:
            return None

        def probe(moves: list[Any], part: float) -> list[list[Any]]:
            drawn = self._drawn()
            sizes = [abs(e) for u in drawn.values() for e in objects(u).ravel().tolist()]
            most = max(sizes, key=middle)
            for s, nodes in enumerate(program.sources):
                if moves[s] is None:
                    continue
                move = objects(BALLS.lift(moves[s]))
                if self.split[s]:  # the derivative along a conjugate is the sum of the products of the parts
                    move = objects(JOIN(move[..., 0], -move[..., 1]))
                for i in nodes:
                    drawn[i] = objects(drawn[i] * arb(part) + move * most)
            return list(self._at(drawn, STEPS[1], derivative))

        dtypes = [program.nodes[nodes[0]].output for nodes in program.sources if nodes]
        room = max([float(np.finfo(np.asarray(v).dtype).eps) for v in dtypes if is_floating(v)], default=0.0)
        floats = [None if e is None else to_float(objects(e)) for e in numbers]
        with contextlib.suppress(ArithmeticError):
            known = [[None if e is None else to_float(objects(e)) for e in made] for made in points]
            budget = MOST_SEARCHED // (2 * program.size)
            return across(floats, known, probe, max(ALIKE, 64 * room), budget, convex=self.convex, rooms=self.rooms)
        return None


def _rarest(derivative: list[Any], usual: dict[Place, Any]) -> Place:
    """The element whose derivative is farthest from its usual one."""
    apart = {(s, index): abs(arb(objects(derivative[s])[index]) - middle) for (s, index), middle in usual.items()}
    return max(apart, key=lambda place: middle(apart[place]))
