"""The derivatives of a program along lines through the recorded point, as difference quotients of its values.

The derivatives at points beside a kink tell that of the point itself only if the function is the sum of its slopes on
the way. Where jumps accumulate it is not: the slopes of ``x**2 * floor(1 / x)`` come to 2 at 0, and its quotients to 1.
A line may also stay inside of a kink, so that no other point beside the recorded one is like those of the line.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import arb

from gtape.symbolic.balls import objects
from gtape.symbolic.program import GradMark, Node
from gtape.verify.causes.beside import OtherShapes
from gtape.verify.causes.intervals import STEPS
from gtape.verify.causes.points_beside import NEAREST, SHARP, Place, Points
from gtape.verify.oracles.enclosures import is_complex, is_floating

__all__ = ["Lines"]


class Lines(Points):
    """The quotients of a program's values at points on lines through the recorded one."""

    def _quotients(self, place: Place, moves: dict[int, Any]) -> tuple[list[arb], list[arb]] | None:
        """The derivative of an element along its line, before and behind the point, at both steps; None if open.

        Values at points beside the recorded one give it, because the value at the point may be a rounded constant. At
        order 2 these are the values of the differentiated function, for the second derivative by one element alone.

        Parameters
        ----------
        place : place
            An element of a source.
        moves : dict
            The direction in which this element moves by its size, and all others stay.
        """
        s, index = place
        weights = self._weights(place)
        if weights is None or self.way is not None:
            return None
        if any(is_complex(self.program.nodes[i].output) for i in (*moves, *weights)):
            return None
        unit = objects(moves[self.program.sources[s][0]])[index]
        found: tuple[list[arb], list[arb]] = [], []
        with contextlib.suppress(ArithmeticError, OtherShapes):
            for sign in (-1, 1):
                for quotients, exponents in zip(found, ((STEPS[0], STEPS[1]), (STEPS[1], NEAREST)), strict=True):
                    steps = [sign * arb(2) ** exponents[0], sign * arb(2) ** exponents[1]]
                    if self.order == 2:
                        steps = [steps[1] * k for k in (3, 2, 1)]
                    values = [self._weighted_value(weights, moves, step) for step in steps]
                    if any(v is None for v in values):
                        return None
                    quotients.append(_quotient(values, [step * unit for step in steps]))
            if all(e.rad() <= SHARP * (1 + abs(e.mid())) for made in found for e in made):
                return found
        self._leave_open()
        return None

    def _weights(self, place: Place) -> dict[int, Any] | None:
        """The weights of the values whose derivative an element of the row is; None if it is not one along its line."""
        oracle = self.oracle()
        if not self.differentiates:
            return {i: oracle.cotangent(i) for i in self.program.outputs}
        if self.order != 2:
            return None
        row = [(i, at) for i in set(self.program.outputs) for at in _places_of(oracle.cotangent(i))]
        marks = [n.mark for n in self.program.nodes if n.mark is not None]
        if len(row) != 1 or len(marks) != 1 or self.program.nodes[row[0][0]].mark is None:
            return None
        mark: GradMark = marks[0]
        same = mark.form == "gradient" and list(mark.sources[mark.which]) == list(self.program.sources[place[0]])
        if not same or row[0][1] != place[1]:
            return None
        oracle.env = self.here
        return dict(zip(mark.targets, oracle.cotangents_of(mark), strict=True))

    def _weighted_value(self, weights: dict[int, Any], moves: dict[int, Any], step: arb) -> arb | None:
        """The sum of weighted values at a step along moves; None without a value there, or where no values tell."""
        env = None if self.has_declared else self._beside(moves, step)
        if env is None:
            return None
        total = arb(0)
        for i, weight in weights.items():
            if i not in env or np.shape(env[i]) != np.shape(weight):
                return None
            for w, v in zip(objects(weight).ravel().tolist(), objects(env[i]).ravel().tolist(), strict=True):
                total = total if w == 0 else total + w * v
        return arb(total)

    def _has_many_steps(self) -> bool:
        """Whether step functions of what moves may have any number of jumps beside the point."""
        return any(_is_staircase(node) for node in self.program.nodes)


def _is_staircase(node: Node) -> bool:
    """Whether an op has a jump at each of many numbers, as a rounding or a remainder has; a comparison has one."""
    if node.kind != "op" or "comparison" in node.prim.roles:
        return False
    if node.prim.kind == "elementwise" and any("whole" in str(kink) for kink in node.prim.kinks):
        return True
    return "conversion" in node.prim.roles and not is_floating(node.output)


def _places_of(cotangent: Any) -> list[tuple[int, ...]]:
    """The elements of an array that are not 0."""
    return [index for index in np.ndindex(*np.shape(cotangent)) if objects(cotangent)[index] != 0]


def _quotient(values: Sequence[Any], at: Sequence[Any]) -> arb:
    """The slope between two values, or twice the second divided difference of three."""
    slopes = [(p - q) / (x - y) for p, q, x, y in zip(values, values[1:], at, at[1:], strict=False)]
    return arb(slopes[0] if len(slopes) == 1 else 2 * (slopes[0] - slopes[1]) / (at[0] - at[2]))
