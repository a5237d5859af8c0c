"""The elements by which the derivatives beside a kink may have other limits than the number at the point.

Where a derivative costs a run for each element, one random direction compares many elements at once. Floats beside the
kink, and halves of groups, then tell the few elements that differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from flint import arb

from gtape.symbolic.balls import objects, to_float
from gtape.symbolic.program import Program
from gtape.verify.causes.complex_parts import in_parts
from gtape.verify.causes.directions_beside import Directions
from gtape.verify.causes.effort import MOST_WORK, ONE_BY_ONE
from gtape.verify.causes.intervals import STEPS, shrinks
from gtape.verify.causes.points_beside import Nowhere, Place
from gtape.verify.oracles.enclosures import directions, inner, zeros
from gtape.verify.oracles.oracle import Oracle, TooDeep
from gtape.verify.oracles.replay import Shared

__all__ = ["ElementsApart"]

_FLOAT_STEPS = (2.0**-20, 2.0**-24)
# Relative distance from floats beside a kink that raises a doubt. The derivative at a smooth point is between those on
# both sides, up to the square of the step.
_DOUBT = 2.0**-30
_ROUNDED = 2.0**-30  # the size of elements, relative to the largest, that may be sums of roundings
_TOGETHER = 4  # up to this many elements are evaluated without a test of all together


class ElementsApart(Directions):
    """The derivative by some elements, and those among them that may differ from the number at the point.

    Parameters
    ----------
    program, oracle, shared, order, way
        As for `Points`.
    derivative, along, in_floats
        As for `Sides`.
    """

    def __init__(
        self,
        program: Program,
        oracle: Callable[[], Oracle],
        derivative: Callable[[Oracle], list[Any]],
        along: Callable[[Oracle, list[Any]], arb] | None = None,
        shared: Shared | None = None,
        in_floats: Callable[[dict[int, Any]], list[Any] | None] | None = None,
        order: int = 0,
        way: list[Any] | None = None,
    ) -> None:
        super().__init__(program, oracle, shared, order, way)
        self.in_floats, self.derivative = in_floats, derivative
        self.along = None if any(self.split) else along
        self.swept = False  # whether sweeps give the derivative by all elements at once

    def _of(self, places: list[Place], numbers: list[Any]) -> Callable[[Oracle], list[Any]]:
        """The derivative by some elements of the sources, and `numbers` elsewhere; all at once if that is as cheap."""
        along = self.along
        if along is None or (self.swept and len(places) > _TOGETHER):
            return lambda oracle: in_parts(self.split, self.derivative(oracle))
        if len(places) > ONE_BY_ONE:
            raise TooDeep(f"{len(places)} elements are not evaluated one by one")

        def run(oracle: Oracle) -> list[Any]:
            made: list[Any] = [None if e is None else np.array(objects(e)) for e in numbers]
            for s, index in places:
                ways: list[Any] = [None] * len(numbers)
                ways[s] = zeros(np.shape(made[s]))
                ways[s][index] = 1
                made[s][index] = along(oracle, ways)
            return made

        return run

    def _apart_among(self, places: list[Place], numbers: list[Any], drawn: list[dict[int, Any]]) -> list[Place]:
        """The elements among some to which the derivatives on all sides may not converge."""
        if self.over_jumps or self.anywhere:
            self.swept = len(places) > _TOGETHER and self._sweeps(drawn)
            return places
        if self._agree(numbers, drawn, places):
            return []
        if self.jumps or len(places) <= _TOGETHER:
            return places
        self.swept = self._sweeps(drawn)
        if self.swept:
            return places
        doubtful = set(self._doubtful(numbers))
        first = [p for p in places if p in doubtful]
        rest = [p for p in places if p not in doubtful]
        if len(first) <= _TOGETHER and self._agree(numbers, drawn, rest):  # floats found them all
            return first
        return self._halved(places, numbers, drawn)

    def _in_doubt(self, numbers: list[Any]) -> bool:
        """Whether floats at points beside the kink raise a doubt that the numbers are limits of a large program."""
        return bool(self._doubtful(numbers))

    def _doubtful(self, numbers: list[Any]) -> list[Place]:
        """The elements that, by floats at points beside the kink, may be no limits.

        Only the program's own rules run, twice on each side, because exact values at many bits would take long.
        """
        if self.in_floats is None:
            return []
        rng = np.random.default_rng(43)
        ways = {
            i: np.asarray(rng.uniform(0.5, 1.0, np.shape(x)) * rng.choice([-1.0, 1.0], np.shape(x)))
            for nodes in self.program.sources
            for i in nodes
            for x in (self.program.nodes[i].output,)
        }
        found = []
        for step in _FLOAT_STEPS:
            sides: list[Any] = [self.in_floats({i: sign * step * u for i, u in ways.items()}) for sign in (-1, 1)]
            if None in sides:
                return []
            found.append(sides)
        places: list[Place] = []
        for s, number in enumerate(numbers):
            if number is None:
                continue
            x, far = to_float(objects(number)), []
            for sides in found:
                a, b = (np.zeros(np.shape(x)) if side[s] is None else np.asarray(side[s]) for side in sides)
                size = np.maximum(np.maximum(np.abs(a), np.abs(b)), np.abs(x))
                size = np.maximum(size, _ROUNDED * np.max(size, initial=0.0, where=np.isfinite(size)))
                gap = np.maximum(np.minimum(a, b) - x, x - np.maximum(a, b))
                far.append(np.where(np.isfinite(gap), gap - _DOUBT * size, 0.0))
            doubtful = (far[1] > 0) & (far[1] > far[0] / 4)
            places += [(s, tuple(index)) for index in np.argwhere(doubtful).tolist()]
        return places

    def _sweeps(self, drawn: list[dict[int, Any]]) -> bool:
        """Whether sweeps give the whole derivative at a point beside the recorded one, certified by jets."""
        for moves in drawn:
            for sign in (-1, 1):
                env = self._beside(moves, sign * arb(2) ** STEPS[0])
                if env is not None:
                    return self._derived(env, lambda oracle: [oracle.by_sweeps()])[0] is not None
        return False

    def _halved(self, places: list[Place], numbers: list[Any], drawn: list[dict[int, Any]]) -> list[Place]:
        """As `_apart_among`, for elements some of which have sides that do not converge to them."""
        half, found = len(places) // 2, []
        for part in (places[:half], places[half:]):
            left = self.shared.get("splits", lambda: [MOST_WORK // self.program.size])
            left[0] -= 1
            if left[0] < 0:
                raise TooDeep(f"{len(places)} elements are not compared with the derivatives on all sides")
            if not self._agree(numbers, drawn, part):
                few = self.jumps or len(part) <= _TOGETHER
                found += part if few else self._halved(part, numbers, drawn)
        return found

    def _agree(self, numbers: list[Any], drawn: list[dict[int, Any]], places: list[Place]) -> bool:
        """Whether the derivatives by some elements on all sides converge to `numbers`, along one random direction."""
        along = self.along
        assert along is not None
        rng = np.random.default_rng(41)
        ways = [
            directions(self.program.nodes[nodes[0]].shape, rng, like=number) if nodes else None
            for nodes, number in zip(self.program.sources, numbers, strict=True)
        ]
        for s, u in enumerate(ways):
            if u is not None and numbers[s] is not None:
                taken = zeros(u.shape)
                for index in [index for other, index in places if other == s]:
                    taken[index] = u[index]
                ways[s] = taken
        here = arb(0)
        for u, number in zip(ways, numbers, strict=True):
            if u is not None and number is not None:
                here = here + inner(u, objects(number))

        def apart(step: int) -> list[arb]:
            made = [
                e
                for k, moves in enumerate(drawn)
                for e in self._at(moves, step, lambda oracle: [along(oracle, ways)], number=k)
            ]
            self._demand_sharp([objects(e[0]).item() for e in made], here)
            gaps = [objects(e[0]).item() - here for e in made]
            return [arb(0) if gap.contains(0) else arb(abs(gap).mid()) for gap in gaps]

        first = apart(STEPS[0])
        if self.jumps:
            return False
        if not first:
            raise Nowhere
        if all(gap == 0 for gap in first):
            return True
        second = apart(STEPS[1])
        return len(first) == len(second) and all(map(shrinks, first, second))
