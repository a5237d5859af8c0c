"""Where a function beside the recorded point jumps, or has no value.

A function has no derivative by an element along which it jumps, or along which only the point itself has a value.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from flint import arb

from gtape.symbolic.balls import finite_ball, objects, precision
from gtape.symbolic.program import Program
from gtape.verify.causes.beside import OtherShapes
from gtape.verify.causes.directions_beside import Directions
from gtape.verify.causes.effort import FEWER, MOST_WORK, ONE_BY_ONE
from gtape.verify.causes.intervals import BITS, LEAP, STEPS
from gtape.verify.causes.points_beside import Nowhere, Place
from gtape.verify.oracles.enclosures import directions, is_floating, zeros

__all__ = ["Jumps", "has_values"]


class Jumps(Directions):
    """The jumps of a program's function, and of the inner gradients that it reads, at the recorded point.

    The parameters are those of `Points`.
    """

    def _jumps_along(self, place: Place) -> bool:
        """Whether the function, or an inner gradient that the row reads, jumps as one element passes the point.

        All other elements are a bit off the point, so that they are at no tie of their own.
        """
        rng = np.random.default_rng(61)
        shapes = {self.program.nodes[nodes[0]].shape for nodes in self.program.sources if nodes}
        offsets = {shape: directions(shape, rng) * arb(2) ** -262 for shape in shapes}
        # At the tie itself an inner gradient follows the conventions of its ops.
        try:
            found = [
                self._beside(self._apart(place, offsets.__getitem__, own), arb(2) ** STEPS[0])
                for own in ((-1, 1) if self.differentiates else (-1, 0, 1))
            ]
        except OtherShapes:
            return True
        if any(env is None for env in found):
            return True  # a side without values, as at the end of a domain
        values = [self._outputs(env) for env in found if env is not None]
        if any(len(one) != len(values[0]) for one in values):
            return True  # a decision gives other shapes there
        pairs = [(p, q) for one in values[1:] for p, q in zip(values[0], one, strict=True)]
        return any(self._distance(p, q) > LEAP * (abs(p) + abs(q)) for p, q in pairs)

    def _gradient_jumps(self, pairs: int) -> bool:
        """Whether an inner gradient that the row reads has other limits on other sides of the point."""
        if not self.differentiates:
            return False
        self.values_here, deep = None, self.deep
        self.deep = True
        try:
            for k, moves in enumerate(self._pairs(pairs)):
                for sign in (-1, 1):
                    step = sign * arb(2) ** STEPS[0]
                    env = self.shared.get(("beside", k, STEPS[0], sign), partial(self._beside, moves, step))
                    if env is not None and self._jump(env, moves, step):
                        return True
        finally:
            self.values_here, self.deep = None, deep
        return False

    def alone(self) -> list[Place]:
        """The elements along which the function has a value at the point, but none on either side.

        Along a way, the elements of the outputs. An op that has a value at the point alone need not matter, because a
        selection may leave its element out.
        """
        found: list[Place] = []
        with precision(FEWER), contextlib.suppress(ArithmeticError, Nowhere):
            self.here = self._evaluated()
            if self.way is not None:
                moves = self._apart((0, ()), zeros)
                missing = [self._without_value(moves, sign, self.program.outputs) for sign in (-1, 1)]
                return [place for place in missing[0] if place in missing[1]]
            room = MOST_WORK // max(1, self.program.size)
            pending = [places] if (places := self._elements) else []
            while pending and room > 0:
                some, room = pending.pop(), room - 2
                moves = self._together(some)
                if not all(self._without_value(moves, sign, self.program.primals) for sign in (-1, 1)):
                    continue
                half = len(some) // 2
                if half:
                    pending += [some[half:], some[:half]]
                else:
                    found += some
        return found

    def jumps_at_an_end(self) -> bool:
        """Whether along some element the function has no value on one side of the point, and jumps on the other.

        The value at the point then belongs to no side, as that of ``0**y`` at 0.
        """
        most = max(1, min(ONE_BY_ONE, MOST_WORK // max(1, self.program.size)))
        with precision(BITS), contextlib.suppress(ArithmeticError, Nowhere, OtherShapes):
            self.fewer = False
            self.here, self.values_here = self._evaluated(), None
            for place in self._elements[:most]:
                moves = self._apart(place, zeros)
                missing = [bool(self._without_value(moves, sign, self.program.primals)) for sign in (-1, 1)]
                if missing[0] == missing[1]:
                    continue
                step = (1 if missing[0] else -1) * arb(2) ** STEPS[0]
                env = self._beside(moves, step)
                if env is not None and self._jump(env, moves, step):
                    return True
        return False

    def _without_value(self, moves: dict[int, Any], sign: int, nodes: Sequence[int]) -> list[Place]:
        """The elements of nodes that have no finite value beside the point; all of them if an op raises there."""
        env = self._beside(moves, sign * arb(2) ** STEPS[0])
        found = []
        for k, i in enumerate(nodes):
            if is_floating(self.program.nodes[i].output):
                shape = self.program.nodes[i].shape
                value = None if env is None else np.broadcast_to(objects(env[i]), shape)
                found += [(k, at) for at in np.ndindex(*shape) if value is None or not finite_ball(value[at])]
        return found


def has_values(program: Program) -> bool:
    """Whether the function itself has finite values at the point; log(-1) has none, though 1 / x is finite."""
    return all(np.isfinite(np.asarray(program.nodes[i].output)).all() for i in program.primals)
