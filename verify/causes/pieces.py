"""The pieces of a function beside a kink: points of one piece have the same limits of derivatives.

Near a point, a piecewise smooth function is one smooth function on each of a few pieces. Two points lie in one piece if
all ops that are not smooth there have the same values and derivatives at both points, up to the distance of the points.
The derivative of the whole program, which takes much longer, is then the same at both points, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb

from gtape.symbolic.balls import objects, to_float
from gtape.symbolic.program import Node, Program
from gtape.verify.causes.beside import read_beside, scale_of
from gtape.verify.oracles.enclosures import directions, is_complex, is_floating, jet_world
from gtape.verify.oracles.oracle import varies
from gtape.verify.oracles.replay import decided_anew, is_step

__all__ = ["Pieces"]

_ROOM = arb(2) ** -900  # more than points beside a kink move, relative to the size of a number
_NARROW = arb(2) ** -600  # the radius of derivatives of a smooth op in this room, relative to their size
_DIGITS = 50  # bits to which derivatives agree in one piece


class Pieces:
    """The pieces of a program's function that meet at a point.

    Parameters
    ----------
    program : Program
    here : dict
        The exact values of all nodes at the point.
    order : int
        The order of the derivatives that agree in one piece.
    """

    def __init__(self, program: Program, here: dict[int, Any], order: int) -> None:
        self.program, self.order, self._world = program, order, jet_world(order)
        self._deciding: list[Node] = []
        self._drawn: dict[tuple[tuple[int, ...], ...], list[Any]] = {}
        self.known = all(
            node.kind in ("leaf", "const", "op", "item") and here.get(node.index) is not None for node in program.nodes
        )
        moving = {i for nodes in program.sources for i in nodes}
        jumping: set[int] = set()  # nodes whose values beside the point may be far from those at the point
        for node in program.nodes if self.known else ():
            if moving.isdisjoint(node.inputs):
                continue
            moving.add(node.index)
            jumps = not jumping.isdisjoint(node.inputs)
            if jumps:
                jumping.add(node.index)
            if node.kind != "op":
                continue
            if node.prim.kind == "implicit" or is_complex(node.output):
                self.known = False  # iterations take long at other points, and complex ops have cuts
                return
            linear = node.prim.kind == "linear" and is_floating(node.output)  # a cast to integers decides
            if not linear and (jumps or not self._is_smooth(node, here, moving)):
                self._deciding.append(node)
                if not is_floating(node.output) or is_step(node):
                    jumping.add(node.index)
        self.needed = read_beside(program, [node.index for node in self._deciding])

    def _is_smooth(self, node: Node, here: dict[int, Any], moving: set[int]) -> bool:
        """Whether an op has bounded derivatives, or one decision, around the point."""
        wide = [
            objects(here[j] + scale_of(here[j]) * arb(0, _ROOM))
            if j in moving and is_floating(self.program.nodes[j].output)
            else here[j]
            for j in node.inputs
        ]
        try:
            parts = self._parts(node, wide)
        except (ArithmeticError, ValueError, TypeError, IndexError):
            return False
        return all(
            e.is_finite() and e.rad() <= _NARROW * (1 + abs(e.mid()))
            for part in parts
            if part.dtype == object
            for e in map(arb, part.ravel().tolist())
        )

    def _parts(self, node: Node, arguments: list[Any]) -> list[Any]:
        """The values of an op and its derivatives along one direction; of an op that decides, the decision."""
        if not is_floating(node.output):
            return [np.asarray(decided_anew(node, arguments))]
        moved = list(arguments)
        for a, way in zip(node.active, self._ways([np.shape(arguments[a]) for a in node.active]), strict=True):
            moved[a] = self._world.jet(arguments[a], *[way] * self.order)
        made = node.apply(self._world, moved)
        parts = []
        for out in made if isinstance(made, tuple) else (made,):
            if varies(out):
                parts += [objects(self._world.component(out, (1 << k) - 1)) for k in range(self.order + 1)]
            else:
                parts.append(np.asarray(out))
        return parts

    def _ways(self, shapes: list[tuple[int, ...]]) -> list[Any]:
        """The direction along which ops with inputs of these shapes are differentiated."""
        key = tuple(shapes)
        if key not in self._drawn:
            rng = np.random.default_rng(59)
            self._drawn[key] = [objects(directions(shape, rng) * arb(2) ** -62) for shape in shapes]
        return self._drawn[key]

    def of(self, env: dict[int, Any]) -> tuple[bytes, ...] | None:
        """What tells the pieces apart, from the exact values of the needed nodes beside the point; None if unknown."""
        told = []
        for node in self._deciding:
            try:
                parts = self._parts(node, [env[j] for j in node.inputs])
            except (ArithmeticError, ValueError, TypeError, IndexError):
                return None
            for part in parts:
                numbers = to_float(part) if part.dtype == object else part
                if numbers.dtype.kind == "f":
                    if not np.isfinite(numbers).all():
                        return None
                    digits, powers = np.frexp(numbers)
                    numbers = np.ldexp(np.round(digits * 2.0**_DIGITS), powers - _DIGITS) + 0.0
                told.append(numbers.tobytes())
        return tuple(told)
