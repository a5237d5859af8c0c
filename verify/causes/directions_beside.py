"""The directions in which the inputs of a program move from the recorded point to points beside it.

Random directions break all ties. An element also needs directions of its own, in which it moves more or less than the
others, because some pieces of a function are narrow cones around an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from flint import acb, arb

from gtape.symbolic.balls import objects
from gtape.symbolic.program import Program
from gtape.verify.causes.beside import scale_of
from gtape.verify.causes.complex_parts import of_complex_outputs, of_complex_sources, put, taken
from gtape.verify.causes.effort import AXES, FEW
from gtape.verify.causes.points_beside import Place, Points
from gtape.verify.oracles.enclosures import zeros
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.oracles.replay import Shared

__all__ = ["NARROWER", "Cone", "Directions", "Named"]

_CONES = 8  # axes of other elements in whose cones a number has points of its own
NARROWER = arb(2) ** -100  # by how much a cone becomes narrower
_SHARE = 1 / 8

Named = tuple[Any, dict[int, Any]]  # the name of a direction in all rows, and its moves


class Cone(NamedTuple):
    """A direction, and by how much the moves of one element and of the others shrink, so that a cone narrows."""

    name: Any
    moves: dict[int, Any]
    element: Place
    own: arb
    rest: arb


class Directions(Points):
    """The directions to points beside the recorded one, as moves of the nodes of the sources.

    The parameters are those of `Points`.
    """

    def __init__(
        self,
        program: Program,
        oracle: Callable[[], Oracle],
        shared: Shared | None = None,
        order: int = 0,
        way: list[Any] | None = None,
    ) -> None:
        super().__init__(program, oracle, shared, order, way)
        self.split = of_complex_sources(program) if way is None else of_complex_outputs(program)
        # The dtypes of the numbers, if these are compared along directions of several elements, too.
        self.joint: Sequence[Any] | None = None

    def _pairs(self, pairs: int) -> list[dict[int, Any]]:
        """The random directions of the first points beside the kink."""
        drawn: list[dict[int, Any]] = self.shared.get(("sides", pairs), lambda: [self._drawn() for _ in range(pairs)])
        return drawn

    def _apart(self, place: Place, rest: Callable[[tuple[int, ...]], Any], own: int = 1) -> dict[int, Any]:
        """A direction in which one element moves by `own` times its size, and the others as `rest` says.

        For numbers along a way, this is the way times `own`, with the elements that the way leaves as `rest` says.
        """
        moves: dict[int, Any] = {}
        for s, nodes in enumerate(self.program.sources):
            if not nodes:
                continue
            moved = objects(rest(self.program.nodes[nodes[0]].shape)).copy()
            if self.way is not None:
                way = objects(np.broadcast_to(objects(self.way[s]), moved.shape))
                moved = objects(np.where(np.equal(way, 0).astype(bool), moved, objects(way * own)))
            elif s == place[0] and self.split[s]:
                moved[place[1][:-1]] = acb(0, own) if place[1][-1] else acb(own)
            elif s == place[0]:
                moved[place[1]] = own
            for i in nodes:
                moves[i] = objects(moved * scale_of(self.here[i]))
        return moves

    def _together(self, places: list[Place]) -> dict[int, Any]:
        """A direction in which some elements move by their sizes, and all others stay."""
        moves: dict[int, Any] = {}
        for s, nodes in enumerate(self.program.sources):
            for i in nodes:
                moved = objects(zeros(self.program.nodes[i].shape)).copy()
                for index in [index for source, index in places if source == s]:
                    put(moved, index, arb(1))
                moves[i] = objects(moved * scale_of(self.here[i]))
        return moves

    def _some_of(self, places: list[Place]) -> list[Place]:
        """An eighth of some elements, drawn at random, so that most of them move without their neighbours.

        For numbers along a way these are elements of the sources.
        """
        places = places if self.way is None else self._elements
        return [place for place in places if self.rng.random() < _SHARE] or places[:1]

    @cached_property
    def _elements(self) -> list[Place]:
        """The elements of all sources; for a complex source the real and the imaginary part of each."""
        complexes = of_complex_sources(self.program)
        return [
            (s, index)
            for s, nodes in enumerate(self.program.sources)
            if nodes
            for shape in (self.program.nodes[nodes[0]].shape,)
            for index in np.ndindex(*((*shape, 2) if complexes[s] else shape))
        ]

    def _named(self, name: Any, draw: Callable[[], dict[int, Any]]) -> Named:
        """The name and the moves of a direction that all rows share; without a name if there is no room to keep it."""
        if self._has_room(name, sum([np.size(self.here[i]) for nodes in self.program.sources for i in nodes])):
            return name, self.shared.get(name, draw)
        return None, draw()

    def _ways(self, place: Place) -> tuple[list[Named], list[Cone]]:
        """The directions of its own that a number needs, and the cones that they narrow to: those of its element.

        A number along a way is a sum over all elements of the sources, so it gets those of each, and the way itself.
        """
        if self.way is None:
            ways, cones = self._ways_of(place)
            return ways + self._narrow_ways(place), cones
        ways, cones = [self._named("way", lambda: self._drawn([]))], list[Cone]()
        for element in self._elements[:AXES]:
            more, narrow = self._ways_of(element)
            ways += more
            cones += narrow
        return ways, cones

    def _ways_of(self, element: Place) -> tuple[list[Named], list[Cone]]:
        """As `_ways`, of one element of a source: its axis, and directions of all elements.

        The cones narrow around the axis, and around the plane in which the element stays.
        """
        axis, joint = self._named(("axis", *element), lambda: self._drawn([element])), list(self._joint(element))
        around = [Cone(*axis, element, arb(1), NARROWER)]
        return [axis, *joint], around + [Cone(*way, element, NARROWER, arb(1)) for way in joint[2:]]

    def _narrow_ways(self, place: Place) -> list[Named]:
        """Directions near the axes of other elements, with a small move of the number's element to both sides.

        The derivative of ``relu(y - 20 * abs(x))`` by x is 0 but in a narrow cone around the axis of y. Only claims are
        compared there, because the conventions of ops give the derivatives of no cone.
        """
        if self.joint is None or self.anywhere or self.program.size > FEW:
            return []
        found: list[Named] = []
        for element in [other for other in self._elements if other != place][:_CONES]:
            name, moves = self._named(("axis", *element), partial(self._drawn, [element]))
            mirrored = partial(self._scaled, moves, place, arb(-1), arb(1))
            found += [(name, moves), (None if name is None else ("mirrored", *place, *element), mirrored())]
        return found

    def _joint(self, place: Place) -> Iterator[Named]:
        """The names and the moves of directions of all elements in which one element has a part of its own: less or
        more than the others, which all move the same way, or none among random ones. None for large programs.

        Among equal numbers that are clipped, for example, an element is the greatest only if all become smaller.
        """
        elements = sum([np.size(self.program.nodes[nodes[0]].output) for nodes in self.program.sources if nodes])
        if self.anywhere or elements < 2 or self.program.size > FEW:
            return
        for k, (own, same) in enumerate(((0.5, True), (2.0, True), (2.0**-40, False), (2.0**-40, False))):
            yield self._named(("joint", place, k), partial(self._drawn, own=(place, own, same)))

    def _scaled(self, moves: dict[int, Any], place: Place, own: arb, rest: arb) -> dict[int, Any]:
        """A direction in which one element has `own` times its move, and the others `rest` times theirs."""
        made = {i: np.array(objects(objects(u) * rest)) for i, u in moves.items()}
        for i in self.program.sources[place[0]]:
            put(made[i], place[1], taken(objects(moves[i]), place[1]) * own)
        return {i: objects(u) for i, u in made.items()}

    def _exchanged(self, moves: dict[int, Any], one: Place, other: Place) -> dict[int, Any]:
        """A direction in which two elements have each other's moves."""
        made = {i: np.array(objects(u)) for i, u in moves.items()}
        sources = self.program.sources
        for i in sources[one[0]]:
            for j in sources[other[0]] if one[0] != other[0] else [i]:
                a, b = taken(made[i], one[1]), taken(made[j], other[1])
                put(made[i], one[1], b)
                put(made[j], other[1], a)
        return made
