"""Points next to the recorded one, and the exact derivatives of a program there.

A step along a random direction breaks all ties. A side on which the function is not defined is left out; a function
that jumps at the point is told by its values, because they do not come to those at the point.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np
from flint import acb, arb

from gtape.symbolic.balls import Undecided, assumed, finite_ball, objects
from gtape.symbolic.program import Node, Program
from gtape.verify.causes.beside import OtherShapes, beside, decided_as, read_beside, reshaped, scale_of
from gtape.verify.causes.intervals import NOTHING, STEPS, middle, shrinks
from gtape.verify.causes.pieces import Pieces
from gtape.verify.oracles.enclosures import BALLS, directions, is_complex, is_floating, jet_world, zeros
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.oracles.replay import Shared
from gtape.verify.verdicts.ulp import digits_of

__all__ = ["JOIN", "NEAREST", "SHARP", "Blurred", "Nowhere", "Place", "Points"]

SHARP = arb(2) ** -500  # with fewer bits, enclosures may be this wide, relative to the number
NEAREST = -1400  # stands for the limit on one side
_SMALL = 200  # programs with more numbers keep no points for other rows, because an axis has points of its own
_KEPT = 200_000  # the numbers in points that larger programs keep for other rows
_MISSED = 48  # points in new pieces, one after another, after which pieces are no longer looked up

JOIN = np.frompyfunc(acb, 2, 1)

Place = tuple[int, tuple[int, ...]]  # a source, and one of its elements


class Blurred(Exception):
    """With fewer bits, an enclosure is too wide to decide, or missing."""


class Nowhere(Exception):
    """The derivative cannot be evaluated on any side of the point."""


class Points:
    """The values and the derivative of a program at points next to the recorded one.

    Parameters
    ----------
    program : Program
    oracle : callable
        Returns a new oracle without values.
    shared : Shared, optional
        The data that the rows of this program share, such as the values at the points.
    order : int, optional
        The order of the derivative. Points of one piece then share one evaluation.
    way : list of object arrays, optional
        The direction of each source along which the numbers are the derivatives of the outputs. By default, the numbers
        are derivatives by the elements of the sources.
    """

    def __init__(
        self,
        program: Program,
        oracle: Callable[[], Oracle],
        shared: Shared | None = None,
        order: int = 0,
        way: list[Any] | None = None,
    ) -> None:
        self.program, self.oracle, self.order, self.way = program, oracle, order, way
        self.shared = shared or Shared()
        self.pieces: Pieces | None = None
        self.missed = 0  # the number of points since one lay in a piece known before
        self.looked_up = 0  # the number of points of the first step whose piece is known
        self.of_pieces: dict[Any, list[Any]] = {}  # the derivatives by some or all elements in pieces beside the point
        self.here: dict[int, Any] = {}
        self.values_here: list[Any] | None = None  # values at the point, to which the sides should converge
        self.deep = False  # whether inner gradients must be continuous, too
        self.anywhere = False  # whether the program need not be defined at the point
        self.over_jumps = False
        self.jumps = False  # whether the function is not continuous at the point, so that it has no derivative there
        self.fewer = False  # whether enclosures have fewer bits, so that wide values raise `Blurred`
        self.blurred = False  # whether derivatives beside the point were not known well enough
        self.rng = np.random.default_rng(37)

    def _evaluated(self) -> dict[int, Any]:
        """The exact values of all nodes at the point; None for a slope that is not finite there."""
        here = self.oracle()
        if not self.anywhere:
            here.evaluate()
            return here.env
        for node in self.program.nodes:
            try:
                known = not is_floating(node.output) or all(here.env.get(i) is not None for i in node.inputs)
                here.evaluate([node.index] if known else [])
            except (Undecided, ArithmeticError, TypeError, ValueError, IndexError):
                pass  # a decision of values that are not defined stays as recorded
            here.env.setdefault(node.index, None if is_floating(node.output) else BALLS.lift(node.output))
        return here.env

    def _drawn(self, along: list[Place] | None = None, own: tuple[Place, float, bool] | None = None) -> dict[int, Any]:
        """A direction that breaks all ties, as moves of the sources' nodes.

        Parameters
        ----------
        along : list of places, optional
            The elements along which the direction goes almost; without elements the way of the numbers.
        own : (place, float, bool), optional
            An element with a part of its own, its share of the move, and whether all other elements move the same way.
        """
        moves: dict[int, Any] = {}
        for s, nodes in enumerate(self.program.sources):
            drawn: dict[tuple[int, ...], Any] = {}  # one for all reads of a variable
            for i in nodes:
                shape = self.program.nodes[i].shape
                if shape not in drawn:
                    parts = (*shape, 2) if is_complex(self.program.nodes[i].output) else shape
                    u = self.rng.integers(1, 2**30, parts) * self.rng.choice([-1, 1], parts)
                    u = objects(np.asarray(u).astype(object)) * (arb(2) ** (-30 if along is None else -230))
                    if own is not None and own[2]:
                        u = objects(1 + u * arb(2) ** -40)
                    if own is not None and own[0][0] == s:
                        u = objects(u).copy()
                        u[own[0][1]] = u[own[0][1]] * arb(own[1])
                    for index in [index for source, index in along or () if source == s]:
                        u = objects(u).copy()
                        u[index] = arb(1) if len(along or ()) == 1 else u[index] * arb(2) ** 200
                    u = u if parts == shape else JOIN(u[..., 0], u[..., 1])
                    if along == [] and self.way is not None:
                        u = objects(u + objects(self.way[s]))
                    drawn[shape] = objects(u * scale_of(self.here[i]))
                moves[i] = drawn[shape]
        return moves

    def _drawn_before(self, node: Node) -> dict[int, Any]:
        """A direction of the inputs by which a node is differentiated."""
        moves: dict[int, Any] = {}
        for i in {node.inputs[a] for a in node.active}:
            like = self.program.nodes[i].output
            if isinstance(like, tuple) or not is_floating(like):
                continue
            u = directions(np.shape(like), self.rng, complex=is_complex(like))
            moves[i] = objects(u * arb(2) ** -60 * scale_of(self.here[i]))
        return moves

    def _at(
        self,
        moves: dict[int, Any],
        exponent: int,
        derivative: Callable[[Oracle], list[Any]],
        *,
        number: Any = None,
        of: Any = None,
    ) -> Iterator[list[Any]]:
        """The derivative before and behind the point; a side where the function is not defined is left out.

        Parameters
        ----------
        number : hashable, optional
            The name of the direction in all rows, for points that are kept for other rows.
        of : hashable, optional
            The element that `derivative` evaluates, or "all". A point of a known piece is then not evaluated.
        """
        for sign in (-1, 1):
            piece = None if of is None else self._piece(moves, sign, exponent, number)
            found = self.of_pieces.get((piece, of)) or self.of_pieces.get((piece, "all"))
            self.missed = 0 if found is not None else self.missed + (piece is not None)
            self.looked_up += piece is not None and exponent == STEPS[0]
            if found is not None:
                yield found
                continue

            step = sign * arb(2) ** exponent
            name = None if number is None else ("beside", number, exponent, sign)
            if piece is not None and (self.program.size <= _SMALL or number is not None):
                name = piece
            point = partial(self._beside, moves, step)
            env = point() if name is None else self._kept(name, point)
            if env is None:
                continue
            if not (self.over_jumps or self.jumps):
                jump = partial(self._jump, env, moves, step)
                self.jumps = jump() if name is None or self.deep else self.shared.get(("jump", name), jump)
            if self.over_jumps or not self.jumps:
                try:
                    made = self._derived(env, derivative)
                    if all(_finite(a) for a in made):
                        if piece is not None:
                            self.of_pieces[piece, of] = made
                        yield made
                        continue
                except ArithmeticError:
                    pass
                except (ValueError, TypeError, IndexError):
                    self._demand_other_outputs(env)
                self._leave_open()

    def _beside(self, moves: dict[int, Any], step: arb, *, whole: bool = False) -> dict[int, Any] | None:
        """The exact values at a step along moves: those that derivatives read, or of the whole program."""
        # Numbers that are equal on one side, but were computed in two ways, are decided as ties.
        decided = assumed.get("ties") is None
        moved, only = {i: objects(move * step) for i, move in moves.items()}, None if whole else self._read_beside
        env = beside(self.program, self.here, moved, decided=decided, only=only)
        if env is None:
            self._leave_open()
        return env

    def _demand_other_outputs(self, env: dict[int, Any]) -> None:
        """Raise `OtherShapes` if rules failed on other shapes than recorded, although the outputs keep their shapes.

        Where the outputs themselves, or those of the function inside of inner gradients, have other shapes, the
        function jumps, and this side does not count.
        """
        nodes = self.program.nodes
        if any(np.shape(env[i]) != nodes[i].shape for i in (*self.program.outputs, *self.program.primals) if i in env):
            return
        for node in nodes:
            if all(j in env for j in node.inputs) and reshaped(self.program, node, env):
                raise OtherShapes(node)

    def _kept(self, name: Any, point: Callable[[], Any]) -> Any:
        """The values at a point, kept for other rows as long as there is room."""
        if name[1].__class__ is not int and not self._has_room(name, self._size_beside):
            return point()
        return self.shared.get(name, point)

    def _has_room(self, name: Any, size: int) -> bool:
        """Whether so many numbers may be kept for other rows by this name."""
        if self.program.size <= _SMALL or self.shared.known(name) is not None:
            return True
        left = self.shared.get("room", lambda: [_KEPT])
        left[0] -= size
        return bool(left[0] >= 0)

    @cached_property
    def has_declared(self) -> bool:
        """Whether the derivative follows a declared custom gradient, which is not that of the values."""
        return any(n.kind == "custom" and n.prim.declared is not None for n in self.program.nodes)

    @cached_property
    def _read_beside(self) -> list[int] | None:
        """The nodes that are evaluated beside the point; None for all.

        At higher orders jets of the inner functions give the derivative, so that nothing reads the recorded backward
        ops of the outermost gradients. A declared custom gradient is replayed by all ops.
        """
        program, oracle = self.program, self.oracle()
        if self.order < 2 or not self.differentiates or self.has_declared:
            return None
        marks = {i: oracle.followed(program.nodes[i]) for i in program.outputs}
        targets = [i for i, mark in marks.items() if mark is None] + [i for m in marks.values() if m for i in m.reads]
        found: list[int] = []
        needed = read_beside(program, [*targets, *program.primals, *[i for nodes in program.sources for i in nodes]])
        while len(needed) > len(found):  # jets of an inner gradient read its targets, which its ops need not read
            found = needed
            reads = [i for n in (program.nodes[i] for i in found) if n.mark is not None for i in n.mark.reads]
            needed = read_beside(program, [*found, *reads])
        return found

    @cached_property
    def _size_beside(self) -> int:
        """The number of numbers at a point beside the kink."""
        if self._read_beside is None:
            return self.program.size
        outputs = [self.program.nodes[i].output for i in self._read_beside]
        return sum([sum(map(np.size, v)) if isinstance(v, tuple) else np.size(v) for v in outputs])

    def _piece(self, moves: dict[int, Any], sign: int, exponent: int, number: Any) -> Any:
        """The name of the piece of a point beside the kink, at this step; None if unknown."""
        if self.pieces is None or not self.pieces.known or self.missed > _MISSED:
            return None
        told = partial(self._told_apart, moves, sign, exponent)
        return told() if number is None else self.shared.get(("piece of", number, exponent, sign), told)

    def _told_apart(self, moves: dict[int, Any], sign: int, exponent: int) -> Any:
        step = sign * arb(2) ** exponent
        moved = {i: objects(move * step) for i, move in moves.items()}
        told = None
        assert self.pieces is not None
        with contextlib.suppress(ArithmeticError):
            env = beside(self.program, self.here, moved, decided=True, only=self.pieces.needed)
            told = None if env is None else self.pieces.of(env)
        return None if told is None else ("piece", exponent, told)

    def _leave_open(self) -> None:
        """With fewer bits, raise `Blurred`, because all bits may decide."""
        if self.fewer:
            raise Blurred

    def _demand_sharp(self, values: list[Any], number: Any) -> None:
        """Raise `Blurred` unless derivatives are known well enough to be compared with a number."""
        known = arb(number).rad()
        for e in map(arb, values):
            if not (e.rad() <= known or e.rad() <= NOTHING or e.rad() <= SHARP * abs(e.mid())):
                self.blurred = True
                raise Blurred

    def _hull(self, points: list[list[Any]], s: int, index: tuple[int, ...], number: Any) -> tuple[arb, arb] | None:
        """The least and the greatest value of one element among some points, to be compared with a number."""
        values = [arb(0) if p[s] is None else arb(objects(p[s])[index]) for p in points]
        if not values:
            return None
        self._demand_sharp(values, number)
        return min(values, key=middle), max(values, key=middle)

    def _jump(self, env: dict[int, Any], moves: dict[int, Any], step: arb) -> bool:
        """True if a value of the function does not converge to the value at the point as the step goes to 0, or, if
        `deep`, the limits of an inner gradient on two sides differ.
        """
        try:
            if self.values_here is None:
                self.values_here = self._values_to_reach(moves)
            distances = self._distances(env)
        except (ValueError, IndexError, TypeError):  # a decision gives other shapes there
            return True
        if not any(d > 0 for d in distances):
            return False
        closer = self._beside(moves, step * arb(2) ** (STEPS[1] - STEPS[0]))
        if closer is None:
            return False
        nearer = self._distances(closer)
        return len(nearer) != len(distances) or not all(map(shrinks, distances, nearer))

    def _values_to_reach(self, moves: dict[int, Any]) -> list[Any]:
        """The values to which the sides should converge: those at the point, or of one side where these are unknown.

        The arc tangent of 1/x is finite in floats at 0, and has no exact value there.
        """
        values = self._values(self.here, self._reference(moves))
        if all(map(finite_ball, values)):
            return values
        side = self._on_one_side(moves)
        if side is None:
            raise Nowhere
        of_side = self._values(side, side)
        return [v if finite_ball(v) else w for v, w in zip(values, of_side, strict=True)]

    def _reference(self, moves: dict[int, Any]) -> dict[int, Any]:
        """The values with which inner gradients on all sides are compared: those on one side.

        An inner gradient follows the conventions of its ops at the point. If its limits on all sides agree, the
        function as a whole is differentiable there, even if the conventions give another number.
        """
        if not (self.differentiates and self.deep):
            return self.here
        return self._on_one_side(moves) or self.here

    def _on_one_side(self, moves: dict[int, Any]) -> dict[int, Any] | None:
        """The values on a side of the point, behind it if there are any; None if no side has values."""
        nearest = arb(2) ** NEAREST
        return self._beside(moves, nearest) or self._beside(moves, -nearest)

    @cached_property
    def differentiates(self) -> bool:
        """Whether the outputs depend on inner gradients."""
        return any(n.mark is not None for n in self.program.nodes)

    def _distances(self, env: dict[int, Any]) -> list[arb]:
        """The distance of each value from the value at the point; infinite if their shapes differ."""
        there, here = self._values(env, env), self.values_here or []
        if len(there) != len(here):
            return [arb("inf")]
        return [self._distance(p, q) for p, q in zip(there, here, strict=True)]

    def _distance(self, p: Any, q: Any) -> arb:
        """The distance of two values; 0 if the distance is within the rounding of a constant, or too small for a float.

        With fewer bits, raises `Blurred` for a distance that is not well known.
        """
        distance = arb(abs(p - q))
        if p is q or distance <= self._unseen * abs(q) or distance <= NOTHING:
            return arb(0)
        if self.fewer and not distance.rad() <= SHARP * distance.mid():
            raise Blurred
        return distance

    @cached_property
    def _unseen(self) -> arb:
        """Half a unit in the last place of the outputs, relative to a power of two.

        A constant that fills a gap, such as 1/24, is rounded by up to so much.
        """
        dtypes = [np.asarray(self.program.nodes[i].output).dtype for i in self.program.primals]
        return arb(2) ** -min([digits_of(dtype) for dtype in dtypes if dtype.kind in "fc"], default=1000)

    def _values(self, env: dict[int, Any], of_gradients: dict[int, Any]) -> list[Any]:
        """All elements of the primals, from `env`, and of the outputs, from `of_gradients`; those of gradients only if
        `deep`.
        """
        read = [env[i] for i in self.program.primals if self.differentiates]
        outputs = self.program.outputs if self.deep or not self.differentiates else []
        if any(x is None for x in [*read, *[of_gradients[i] for i in outputs if i in of_gradients]]):
            raise Nowhere  # a value at the point is open at this precision
        primals = [objects(x) for x in read]
        found = [e for a in primals for e in a.ravel().tolist()]
        return found + self._outputs(of_gradients) if outputs else found

    def _outputs(self, env: dict[int, Any]) -> list[Any]:
        """All elements of the outputs; those of inner gradients by jets, because their backward ops keep old masks.

        A gradient that no op reads is one random sum of its elements, because a jump of one moves the sum too.
        """
        values = env
        if self.differentiates:
            oracle = self.oracle()
            oracle.env = env
            only = oracle.needed(self.program.outputs)
            with decided_as(self.program, env):
                values = {
                    **env,
                    **oracle.jets(1, {}, only, oracle.exact_marks({}, only, weights=partial(self._mixed, oracle))),
                }
        flat = [objects(jet_world(1).component(values[i], 0)) for i in self.program.outputs]
        return [e for a in flat for e in a.ravel().tolist()]

    def _mixed(self, oracle: Oracle, i: int) -> Any:
        """Random weights of the elements of an output, as enclosures; 0 for elements that the row does not read."""
        output = self.program.nodes[i].output
        rng, like = np.random.default_rng(47), BALLS.lift(output)
        weights = directions(np.shape(output), rng, complex=is_complex(output), like=like)
        return objects(np.where(oracle.cotangent(i) != 0, weights, 0) + zeros(np.shape(output)))

    def _derived(self, env: dict[int, Any], derivative: Callable[[Oracle], list[Any]]) -> list[Any]:
        """The derivative, from exact values."""
        again = self.oracle()
        again.env, again.elsewhere = env, self.here
        with decided_as(self.program, env):
            return derivative(again)


def _finite(a: Any) -> bool:
    return a is None or all(arb(e).is_finite() for e in objects(a).ravel().tolist())
