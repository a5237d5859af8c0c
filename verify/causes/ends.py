"""Whether the exact input of an op lies at an end of its domain, or only too near to the end for the bits in use.

An enclosure that holds the end is not the end: the exact value of 1 - tanh(2000) is 1e-1737, which needs 5800 bits.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import acb, arb, ctx

from gtape.symbolic.balls import Undecided, finite_ball, mapped, numbers_shared, objects, precision, ties_assumed
from gtape.symbolic.program import Node, Program
from gtape.verify.causes.effort import is_quick
from gtape.verify.oracles.enclosures import BALLS, jet_world
from gtape.verify.oracles.replay import Replay

__all__ = ["END", "SHARED", "Ends", "further_bits", "meets_an_end"]

END = "the range that certainly holds its exact input holds an end of its domain"
_MORE = (12_800, 51_200)
_MOST_WORK = 200 * 51_200  # numbers in a program, times bits
_MORE_SLOW, _FEW = 6_880, 200  # special functions and iterations take seconds with more bits
SHARED = 20_000  # programs with more numbers compute equal numbers anew, because keeping all takes memory
_MOST_CORNERS = 3  # inexact arguments whose ends are combined


def further_bits(program: Program) -> tuple[int, ...]:
    """The precisions beyond the usual ones that take little time for a program, none for a large one."""
    if is_quick(program):
        return tuple(bits for bits in _MORE if bits * program.size <= _MOST_WORK)
    return (_MORE_SLOW,) if program.size <= _FEW else ()


class Ends:
    """The exact inputs of the ops of a program, at one precision.

    Parameters
    ----------
    program : Program
    bits : int
    """

    def __init__(self, program: Program, bits: int) -> None:
        self.program, self.bits = program, bits
        self._replay = Replay(program, [])

    def known(self, node: Node, place: tuple[int, ...]) -> list[Any] | None:
        """The exact inputs of one element of an elementwise op; None if they are not finite, or undecided."""
        found = self._inputs(node)
        if found is None:
            return None
        at = [objects(np.broadcast_to(x, node.shape)[place]).item() for x in found]
        return at if all(map(finite_ball, at)) else None

    def _inputs(self, node: Node) -> list[Any] | None:
        """The exact inputs of an op as arrays; None if they are undecided."""
        env = self._replay.env
        # Numbers that are computed once are exactly equal to themselves, so that their difference is exactly 0.
        shared = numbers_shared() if self.program.size <= SHARED else contextlib.nullcontext()
        with precision(self.bits), ties_assumed(), shared, contextlib.suppress(ArithmeticError):
            self._replay.evaluate([i for i in self.program.ancestors(node.inputs) if i not in env])
            return [objects(env[j]) for j in node.inputs]
        return None

    def are_open(self, node: Node, place: tuple[int, ...]) -> bool:
        """As `meets_an_end`, for one element of an op. False if its exact inputs are not finite, or undecided."""
        if node.prim is None:
            return False
        if node.prim.kind == "elementwise":
            at = self.known(node, place)
            return at is not None and meets_an_end(node, at)
        inputs = self._inputs(node)
        return inputs is not None and self._has_values_beside(node, inputs)

    def _has_values_beside(self, node: Node, inputs: list[Any]) -> bool:
        """Whether an op of whole arrays has finite values at the ends of the enclosures of its inputs."""
        flat = [e for x in inputs for e in x.ravel().tolist()]
        if all(map(_is_exact, flat)) or not all(map(finite_ball, flat)):
            return False
        with precision(2 * self.bits):
            for sign in (-1, 1):
                corner = [mapped(lambda e, sign=sign: e if _is_exact(e) else _end(e, sign), x) for x in inputs]
                with contextlib.suppress(ArithmeticError, ValueError, TypeError):
                    made = node.apply(BALLS, corner)
                    values = [objects(v) for v in (made if isinstance(made, tuple) else (made,))]
                    if all(finite_ball(e) for v in values for e in v.ravel().tolist()):
                        return True
        return False


def meets_an_end(node: Node, at: Sequence[Any]) -> bool:
    """Whether some numbers in the enclosures of the inputs of an op may have a finite derivative, and others none.

    False if the inputs are exactly known, or if no number in the enclosures has a finite derivative.

    Parameters
    ----------
    node : Node
        Of an elementwise op.
    at : sequence of enclosures
        One element of each input.
    """
    if all(map(_is_exact, at)):
        return False
    for a, x in enumerate(at):
        if not _is_exact(x) and isinstance(x, arb) and node.prim.domain.intervals:
            interval = node.prim.domain.interval(a)
            if any(x.contains(end) for end in (interval.lo, interval.hi, *interval.holes) if np.isfinite(end)):
                return True
    # The distance of a corner from an end may have twice as many bits as the corner.
    with precision(2 * max(ctx.prec, *map(_bits, at))):
        return any(_has_slope(node, corner) for corner in _corners(at))


def _bits(x: Any) -> int:
    if isinstance(x, acb):
        return max(_bits(x.real), _bits(x.imag))
    return x.bits() if isinstance(x, arb) else 0


def _is_exact(x: Any) -> bool:
    return not isinstance(x, (arb, acb)) or bool(x.is_exact())


def _corners(at: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The points at the ends of enclosures; of many arguments, those at all lower and at all upper ends."""
    ends = [(x,) if _is_exact(x) else (_end(x, -1), _end(x, 1)) for x in at]
    if sum(map(len, ends)) - len(ends) <= _MOST_CORNERS:
        return list(itertools.product(*ends))
    return [tuple(e[0] for e in ends), tuple(e[-1] for e in ends)]


def _end(x: Any, sign: int) -> Any:
    """The lower or upper end of an enclosure; of a complex one the corner with both."""
    if isinstance(x, acb):
        return acb(_end(x.real, sign), _end(x.imag, sign))
    return x.mid() + sign * x.rad()


def _has_slope(node: Node, at: tuple[Any, ...]) -> bool:
    """Whether an elementwise op has a finite value and derivative at exact inputs."""
    world = jet_world(1)
    arguments = [
        world.jet(objects(x).reshape(1), objects(np.full(1, 3 + 2 * i))) if i in node.active else objects(x).reshape(1)
        for i, x in enumerate(at)
    ]
    with contextlib.suppress(ArithmeticError, Undecided, ValueError, TypeError):
        made = node.apply(world, arguments)
        return all(finite_ball(objects(world.component(made, k)).ravel()[0]) for k in (0, 1))
    return False
