"""The derivatives of a whole function on all sides of a kink.

Where ops have kinks, the function that they make may still be smooth (|x|² at 0), or have a kink of its own. The
program is evaluated exactly at points next to the kink, with new decisions, and differentiated there: the derivatives
at these points converge to the one-sided derivatives. If all agree, the function has a derivative. If not, their
interval is the generalised derivative (Clarke, "Optimization and Nonsmooth Analysis", 1983), element by element.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from flint import acb, arb

from gtape.symbolic.balls import assumed, finite_ball, numbers_shared, objects, precision, ties_assumed, to_float
from gtape.symbolic.elementary import special_function
from gtape.symbolic.program import Node, Program
from gtape.verify.causes.beside import OtherShapes, beside, scale_of
from gtape.verify.causes.intervals import (
    BITS,
    CLOSE_TO_LIMIT,
    EVEN_STEPS,
    LEAPS,
    STEPS,
    Interval,
    distance_from,
    diverges,
    end_grows,
    grows,
    has_settled,
    interval_of,
    is_rounded,
    limits_of,
    middle,
    opened_hulls,
    powers_limits,
    shrinks,
)
from gtape.verify.causes.joint import ALIKE, Across, across
from gtape.verify.causes.lines import Lines
from gtape.verify.causes.pieces import Pieces
from gtape.verify.causes.points_beside import JOIN, NEAREST, Blurred, Nowhere, Place
from gtape.verify.oracles.enclosures import BALLS, directions, inner, is_complex, is_floating, zeros
from gtape.verify.oracles.oracle import Oracle, TooDeep
from gtape.verify.oracles.replay import Shared
from gtape.verify.verdicts.ulp import spacing

__all__ = [
    "NO_LIMITS", "TOO_WIDE", "UNBOUNDED", "Sides", "has_values", "in_parts", "is_quick", "joined", "of_complex_sources",
    "with_limits",
]  # fmt: skip

_MORE = 24_000  # for small programs of elementary functions, because the cosine of x**4 is 1 at the smallest step
_FEWER = 2400  # bits that suffice where little cancels; special functions take a tenth of the time
_LEAP = arb(2) ** -150  # relative to its size, no value without a jump moves so much by the first step
_STEEP = arb(2) ** 250  # the sizes of infinite slopes at the first step are larger, as for a power of 3/4
_BEYOND = 1 << 14  # the exponent of a number beyond all derivatives
_PAIRS = 4
_AROUND = 2  # random points around a point
_FEW = 2000  # programs with more numbers get one pair of points
_MANY = 20_000  # programs with more numbers get none, unless numbers are claims or floats raise a doubt
_MOST = 200_000  # programs with more numbers get none
_FLOAT_STEPS = (2.0**-20, 2.0**-24)
# Relative distance from floats beside a kink that raises a doubt. The derivative at a smooth point is between those on
# both sides, up to the square of the step.
_DOUBT = 2.0**-30
_ROUNDED = 2.0**-30  # the size of elements, relative to the largest, that may be sums of roundings
_AXES = 32  # this many elements get points of their own, and more in small programs
_GROUPS = 8  # directions along groups of elements, if more elements need points of their own
_SHARE = 1 / 8
_SEARCHES = 96  # further directions for elements outside of their intervals
_CONES = 8  # axes of other elements in whose cones a number has points of its own
_EXCHANGES = 12  # of these directions, in which an element exchanges its move with another one
_CLOSE = arb(2) ** -30  # relative to its interval, how near derivatives in narrow cones come to their limit
_NARROWER = arb(2) ** -100  # by how much a cone becomes narrower
_TIMES = 3  # points for each piece, after which few other pieces are left
_MOST_SEARCHED = 40_000  # numbers of programs that further directions evaluate
_ONE_BY_ONE = 64  # at most this many elements are differentiated one by one
_MOST_WORK = 500_000  # numbers of programs that all rows of a derivative evaluate to divide groups of elements
_TOGETHER = 4  # up to this many elements are evaluated without a test of all together

TOO_MANY = "too many numbers to compare the derivatives on all sides of this kink, so some may be wrong"
NO_LIMITS = "the derivatives on all sides of this kink do not come to limits, so the number may be wrong"
UNBOUNDED = "the derivatives of the function as a whole grow without bound beside this point"
OUTSIDE = "the one-sided derivatives lie in {}, and the conventions of the ops give {:.6g}, which lies outside"
TOO_WIDE = "the derivatives on all sides of this kink lose too many bits to be compared, so the number may be wrong"

_REAL = np.frompyfunc(lambda e: e.real if isinstance(e, acb) else e, 1, 1)
_IMAG = np.frompyfunc(lambda e: e.imag if isinstance(e, acb) else arb(0), 1, 1)


_Named = tuple[Any, dict[int, Any]]  # the name of a direction in all rows, and its moves


class _Cone(NamedTuple):
    """A direction, and by how much the moves of one element and of the others shrink, so that a cone narrows."""

    name: Any
    moves: dict[int, Any]
    element: Place
    own: arb
    rest: arb


class Sides(Lines):
    """The derivatives of a program at points next to the recorded one.

    Parameters
    ----------
    program, oracle, shared, order, way
        As for `Points`.
    derivative : callable
        Oracle with the values of all nodes -> the derivative, as a list of object arrays or None.
    along : callable, optional
        Oracle with these values, and a direction of each source -> the derivative along it, for a program whose
        derivative costs a run for each element.
    row : list, optional
        The cotangents of the outputs. Other numbers of the same row have the same intervals.
    in_floats : callable, optional
        Moves of the sources, relative to their sizes -> the derivative at the moved point in floats; None without a
        derivative.
    """

    def __init__(
        self,
        program: Program,
        oracle: Callable[[], Oracle],
        derivative: Callable[[Oracle], list[Any]],
        along: Callable[[Oracle, list[Any]], arb] | None = None,
        shared: Shared | None = None,
        row: list[Any] | None = None,
        in_floats: Callable[[dict[int, Any]], list[Any] | None] | None = None,
        order: int = 0,
        way: list[Any] | None = None,
    ) -> None:
        super().__init__(program, oracle, shared, order, way)
        self.in_floats, self.derivative, self.row = in_floats, derivative, row
        self.split = of_complex_sources(program) if way is None else of_complex_outputs(program)
        self.along = None if any(self.split) else along
        self.past_jumps = False  # whether only elements count by which the function does not jump
        # Why the derivatives beside the point have no limits, where the gradient jumps at the point.
        self.jumping = ""
        # Whether to look for derivatives that grow to infinities of both signs, between which any number lies.
        self.looks_for_poles = False
        self.unbounded: Place | None = None  # an element by which the derivatives beside the point have no bound
        self.open = ""  # why it is open whether all numbers are limits
        self.outside = ""  # why a number by the conventions of the ops is none of the derivatives of the whole function
        self.misshapen = False  # whether it is open because ops get arrays of other shapes beside the point
        # The dtypes of the numbers, if these are compared along directions of several elements, too.
        self.joint: Sequence[Any] | None = None
        self.rooms: list[Any] | None = None  # how far roundings may carry these numbers
        self.convex = True  # whether these numbers are compared with the convex hull of derivatives
        self.across: Across | None = None  # such a direction, along which the numbers differ from all derivatives
        self.varied: list[Place] = []  # the elements by which derivatives on several sides differ
        self.compared = False  # whether the numbers were compared with the derivatives on all sides
        self.swept = False  # whether sweeps give the derivative by all elements at once

    @contextlib.contextmanager
    def jointly(
        self, numbers: list[Any] | None, *, convex: bool = True, rooms: list[Any] | None = None
    ) -> Iterator[None]:
        """Compare numbers of these dtypes along directions of several elements, too; None compares elements alone.

        Numbers by the conventions of ops may lie outside of the convex hull: relu(x) + relu(y) - relu(-x - y) has the
        slope 0 by each element at 0, and 1 or more along (1, 1) at all points beside it.

        Parameters
        ----------
        rooms : list of arrays, optional
            How far roundings may carry each number.
        """
        self.joint = None if numbers is None else [None if g is None else np.asarray(g).dtype for g in numbers]
        self.convex, self.rooms = convex, rooms
        try:
            yield
        finally:
            self.joint = self.rooms = None

    def limits(self, numbers: list[Any], *, jumps: bool = False) -> list[dict[tuple[int, ...], Interval]] | None:
        """The interval of each element whose derivative at the point, in `numbers`, is not the limit of derivatives
        nearby.

        Parameters
        ----------
        numbers : list of object arrays of enclosures, or None
            The numbers; complex ones as real and imaginary parts along a last axis.
        jumps : bool
            Whether to give intervals for a function that is not continuous at the point, too.

        Returns
        -------
        list of dict
            For each array: index -> interval, for the elements outside their interval. None if the sides of the point
            cannot be evaluated.
        """
        try:
            found = self._limits(numbers, jumps)
        except OtherShapes as e:
            self.open, self.misshapen, found = str(e), True, None
        self.compared = self.compared or found is not None
        return found

    def pair_along(self, way: list[Any], name: Any) -> list[list[Any]]:
        """The derivatives before and behind the point along a direction, as floats; none if a side has none, or if the
        function jumps.

        Parameters
        ----------
        way : list of float arrays
            The direction of each source.
        name : hashable
            The name of this direction in all rows.
        """
        with precision(BITS), contextlib.suppress(ArithmeticError, Blurred, Nowhere, OtherShapes, TooDeep):
            self.here = self.here or self._evaluated()
            moves = {
                i: objects(BALLS.lift(np.asarray(w)))
                for nodes, w in zip(self.program.sources, way, strict=True)
                for i in nodes
            }
            made = list(self._at(moves, STEPS[1], self.derivative, number=name))
            if not self.jumps:
                return [[None if a is None else to_float(objects(a)) for a in one] for one in made]
        return []

    def agree(self, numbers: list[Any]) -> bool:
        """Whether the function is continuous at the point, and its derivatives on all sides come to one limit.

        Parameters
        ----------
        numbers : list of object arrays of enclosures, or None
            The derivative at the point, as for `limits`.
        """
        if self.jumps or not self.compared:
            return False
        if not self.varied:
            return True
        with precision(BITS), contextlib.suppress(ArithmeticError, Blurred, Nowhere, OtherShapes, TooDeep):
            self.fewer, derivative = False, self._of(self.varied, numbers)
            drawn = self._pairs(_PAIRS if self.program.size <= _FEW else 1)
            points = [
                [d for k, moves in enumerate(drawn) for d in self._at(moves, step, derivative, number=k)]
                for step in STEPS
            ]
            hulls = [self._hulls(place, objects(numbers[place[0]])[place[1]], points) for place in self.varied]
            return all(shrinks(first[1] - first[0], second[1] - second[0]) for first, second in hulls)
        return False

    def _limits(self, numbers: list[Any], jumps: bool) -> list[dict[tuple[int, ...], Interval]] | None:
        wanted = jumps or self.anywhere  # claims may be other limits
        if self.program.size > _MANY and not (wanted or self._in_doubt(numbers)):
            return None
        if self.program.size > _MOST:
            self.open = TOO_MANY
            return None
        if jumps or self.anywhere or self.row is None or self.joint is not None:
            return self._intervals(numbers, jumps)
        intervals: list[dict[tuple[int, ...], Interval]] | None
        row, known, intervals, jumped, varied = self.shared.get(
            ("intervals", id(self.row)),
            lambda: (self.row, numbers, self._intervals(numbers, jumps), self.jumps, self.varied),
        )
        if row is not self.row or not _are_same(known, numbers):
            return self._intervals(numbers, False)
        self.jumps, self.varied = jumped, varied
        return intervals

    def _intervals(self, numbers: list[Any], jumps: bool) -> list[dict[tuple[int, ...], Interval]] | None:
        """As `limits`, without a look at kept results."""
        self.over_jumps = jumps
        attempts: list[tuple[int, list[Callable[[], Any]]]] = [(BITS, []), (BITS, [ties_assumed])]
        if assumed.get("ties") is None and not _iterates(self.program):
            attempts.insert(0, (_FEWER, []))
            if self.program.size <= _FEW and is_quick(self.program):
                attempts.insert(2, (_MORE, []))
        if self.program.size <= _MANY:
            attempts = [(bits, [numbers_shared, *settings]) for bits, settings in attempts]
            # Few comparisons need shared numbers, and sharing takes half of the time.
            if attempts[0][0] == _FEWER and not self.shared.shares:
                attempts.insert(0, (_FEWER, []))
        self.blurred = False
        for k, (bits, settings) in enumerate(attempts):
            if self.blurred and k and bits == attempts[k - 1][0] < BITS:
                continue  # only more bits help
            self.fewer = bits < BITS
            self.shared.shares = self.shared.shares or numbers_shared in settings
            with contextlib.ExitStack() as stack:
                stack.enter_context(precision(bits))
                for setting in settings:
                    stack.enter_context(setting())
                stack.enter_context(contextlib.suppress(ArithmeticError, Blurred, Nowhere))
                self.here, self.values_here, self.jumps = self._evaluated(), None, False
                self.pieces = None
                pairs = _PAIRS if self.program.size <= _FEW else 1
                try:
                    found = self._outside(numbers, pairs)
                    if found is None and self.jumps and not (self.over_jumps or self.differentiates or self.anywhere):
                        return self._beside_a_jump(numbers, pairs)
                except TooDeep:
                    self.open, found = TOO_MANY if self._in_doubt(numbers) else "", None
                if found is None and (self.open or self.unbounded) and not self.jumps and self._gradient_jumps(pairs):
                    # Nothing has a derivative there.
                    self.jumping = self.open or UNBOUNDED
                    self.open, self.unbounded = "", None
                if found is None and (self.open or self.unbounded) and not self.shared.shares:
                    self.open, self.unbounded = "", None  # shared numbers may decide
                    continue
                return found
        if self.blurred:
            self.open = TOO_WIDE
        return None

    def _beside_a_jump(self, numbers: list[Any], pairs: int) -> list[dict[tuple[int, ...], Interval]] | None:
        """As `_outside`, for a function that is not continuous at the point.

        Along an element by which the function does not jump, it has derivatives beside the point all the same. Where
        the values at the point differ from those on all sides, as those of ``where(x == 0, 0, 1) * y``, the derivative
        at the point itself counts, too.
        """
        self.over_jumps = self.past_jumps = True
        try:
            found = self._outside(numbers, pairs)
            if found is not None:
                self._leave_out_lines(found, numbers)
            else:
                self.open, self.unbounded = "", None
            return found
        except TooDeep:
            return None
        finally:
            self.over_jumps = self.past_jumps = False

    def _leave_out_lines(self, found: list[dict[tuple[int, ...], Interval]], numbers: list[Any]) -> None:
        """Drop the intervals of numbers that are derivatives along the line through the point itself."""
        for s, out in enumerate(found):
            for index in list(out):
                alone = self._apart((s, index), zeros)
                only = self._of([(s, index)], numbers)
                points = [list(self._at(alone, step, only)) for step in STEPS]
                if all(points) and self._has_limits((s, index), numbers, (points[0], points[1])):
                    del out[index]

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
        return any(self._distance(p, q) > _LEAP * (abs(p) + abs(q)) for p, q in pairs)

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

    def _pairs(self, pairs: int) -> list[dict[int, Any]]:
        """The random directions of the first points beside the kink."""
        drawn: list[dict[int, Any]] = self.shared.get(("sides", pairs), lambda: [self._drawn() for _ in range(pairs)])
        return drawn

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

    def agreed(self, shapes: list[tuple[int, ...] | None]) -> list[Any] | None:
        """The derivative as the limit of all sides, for a point at which the derivative itself cannot be evaluated.

        Parameters
        ----------
        shapes : list of tuple or None
            Of the arrays of the derivative; None for an array that is not needed.

        Returns
        -------
        list of object arrays or None
            None if the limits of some element differ, or if there are none.
        """
        beyond = objects(arb(2) ** _BEYOND)
        numbers = [
            None if shape is None
            else np.broadcast_to(beyond, (*shape, 2) if self.split[s] else shape)
            for s, shape in enumerate(shapes)
        ]  # fmt: skip
        self.anywhere = self.deep = True
        intervals = self.limits(numbers)
        if intervals is None:
            return None
        made: list[Any] = []
        for number, out in zip(numbers, intervals, strict=True):
            if number is None:
                made.append(None)
                continue
            if not all(index in out and out[index].agree for index in np.ndindex(*np.shape(number))):
                return None
            limits = np.empty(np.shape(number), dtype=object)
            for index, interval in out.items():
                limits[index] = interval.limit()
            made.append(limits)
        return joined(self.split, made)

    def moved(self, limits: list[Any], count: int) -> list[Any]:
        """How far the derivative moves if all sources move by half a unit of their dtypes, at random.

        Parameters
        ----------
        limits : list of object arrays or None
            The derivative at the point, from `agreed`.
        count : int
            Number of moves.

        Returns
        -------
        list of arrays of floats, or None
            The greatest distance of each element. 0 where no move can be evaluated.
        """
        rng, nodes = np.random.default_rng(53), self.program.nodes
        far: list[Any] = [None if e is None else np.zeros(np.shape(e)) for e in limits]
        with precision(_FEWER), contextlib.suppress(ArithmeticError, TooDeep, OtherShapes):
            for _ in range(count):
                moves: dict[int, Any] = {}
                for sources in self.program.sources:
                    signs = None  # one move for all reads of a variable
                    for i in sources:
                        x = np.asarray(nodes[i].output)
                        parts = np.stack([x.real, x.imag], axis=-1) if is_complex(x) else x
                        if signs is None:
                            signs = rng.choice([-1.0, 1.0], parts.shape) * rng.uniform(0.75, 1.0, parts.shape)
                        # In enclosures, because half of the smallest float is 0 in floats.
                        move = objects(BALLS.lift(signs) * BALLS.lift(spacing(parts, parts.dtype)) / 2)
                        moves[i] = JOIN(move[..., 0], move[..., 1]) if is_complex(x) else move
                env = beside(self.program, self.here, moves)
                if env is None:
                    continue
                for s, made in enumerate(self._derived(env, self.derivative)):
                    if far[s] is not None and made is not None:
                        distance = np.abs(to_float(objects(made - objects(limits[s]))))
                        far[s] = np.maximum(far[s], np.where(np.isfinite(distance), distance, 0.0))
        return far

    def around(self) -> list[Any] | None:
        """The derivative as the limit at random points, for a point at which ops have none, such as equal eigenvalues.

        Returns
        -------
        list of object arrays or None
            None if the derivatives at the points differ, or cannot be evaluated, and for more than 64 elements.
        """
        nodes = self.program.nodes
        if sum(int(np.prod(nodes[i[0]].shape)) for i in self.program.sources if i) > _ONE_BY_ONE:
            return None
        with precision(BITS), ties_assumed(), contextlib.suppress(ArithmeticError, TooDeep, OtherShapes):
            self.here = self.shared.get("here", self._evaluated)
            drawn = self.shared.get("around", lambda: [self._drawn() for _ in range(_AROUND)])
            step = arb(2) ** STEPS[1]
            found = []
            for k, moves in enumerate(drawn):
                env = self.shared.get(("around", k), partial(self._beside, moves, step))
                if env is None:
                    return None
                found.append(in_parts(self.split, self._derived(env, self.derivative)))
            made: list[Any] = []
            for arrays in zip(*found, strict=True):
                limits = None if arrays[0] is None else limits_of(arrays)
                if limits is None and arrays[0] is not None:
                    return None
                made.append(limits)
            return joined(self.split, made)
        return None

    def alone(self) -> list[Place]:
        """The elements along which the function has a value at the point, but none on either side.

        Along a way, the elements of the outputs. An op that has a value at the point alone need not matter, because a
        selection may leave its element out.
        """
        found: list[Place] = []
        with precision(_FEWER), contextlib.suppress(ArithmeticError, Nowhere):
            self.here = self._evaluated()
            if self.way is not None:
                moves = self._apart((0, ()), zeros)
                missing = [self._without_value(moves, sign, self.program.outputs) for sign in (-1, 1)]
                return [place for place in missing[0] if place in missing[1]]
            room = _MOST_WORK // max(1, self.program.size)
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
        most = max(1, min(_ONE_BY_ONE, _MOST_WORK // max(1, self.program.size)))
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

    def _together(self, places: list[Place]) -> dict[int, Any]:
        """A direction in which some elements move by their sizes, and all others stay."""
        moves: dict[int, Any] = {}
        for s, nodes in enumerate(self.program.sources):
            for i in nodes:
                moved = objects(zeros(self.program.nodes[i].shape)).copy()
                for index in [index for source, index in places if source == s]:
                    _put(moved, index, arb(1))
                moves[i] = objects(moved * scale_of(self.here[i]))
        return moves

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

    def holds(self, test: Callable[[Oracle], bool], node: Node | None = None, *, pairs: int = _PAIRS) -> bool:
        """Whether a test holds on all sides of the point; False if no side can be evaluated.

        Parameters
        ----------
        test : callable
            Takes an oracle with the values of all nodes.
        node : Node, optional
            If given, the inputs of this node move, each element on its own, instead of the sources.
        pairs : int
            The number of pairs of sides.
        """
        if self.program.size > _MANY:
            return False
        attempts = [BITS] if _iterates(self.program) else [_FEWER, BITS]
        if self.program.size <= _FEW and is_quick(self.program):
            attempts.append(_MORE)
        for bits in attempts:
            try:
                with precision(bits):
                    return self._holds(test, node, pairs)
            except TooDeep:
                return False
            except ArithmeticError:
                if bits == attempts[-1]:
                    raise
        return False

    def _holds(self, test: Callable[[Oracle], bool], node: Node | None, pairs: int) -> bool:
        """As `holds`, at the precision in force."""
        held = False
        self.here = self._evaluated()
        for _ in range(pairs if self.program.size <= _FEW else max(1, pairs // _PAIRS)):
            moves = self._drawn() if node is None else self._drawn_before(node)
            for sign in (-1, 1):
                env = None
                with contextlib.suppress(OtherShapes):
                    env = self._beside(moves, sign * arb(2) ** STEPS[0], whole=True)
                if env is not None:
                    held = bool(self._derived(env, lambda oracle: [test(oracle)])[0])
                    if not held:
                        return False
        return held

    def _outside(self, numbers: list[Any], pairs: int) -> list[dict[tuple[int, ...], Interval]] | None:
        drawn = self._pairs(pairs)
        every = [(s, index) for s, e in enumerate(numbers) if e is not None for index in np.ndindex(*np.shape(e))]
        places = every if self.along is None else self._apart_among(every, numbers, drawn)
        if not places and self.along is not None:
            return [{} for _ in numbers]
        if self.jumps and not self.over_jumps:
            return None
        derivative = self._of(places, numbers)
        self.of_pieces, self.missed, self.looked_up = {}, 0, 0
        if self.order and not self.anywhere:
            self.pieces = self.shared.get("pieces", lambda: Pieces(self.program, self.here, self.order))
        near = [list(self._at(moves, STEPS[0], derivative, number=k, of="all")) for k, moves in enumerate(drawn)]
        if self.jumps and not self.over_jumps:
            return None
        if not any(near):
            raise Nowhere
        points: tuple[list[Any], list[Any]] = [d for made in near for d in made], []
        far = [place for place in every if self._is_off(place, numbers, points[0])]
        self.varied = [place for place in every if self._has_width(place, numbers, points[0])]
        may_jump = bool(far) and not (self.over_jumps or self.anywhere)
        jumps = self.past_jumps or (may_jump and self._gradient_jumps(pairs))
        if jumps and self.program.size > _FEW:
            return [{} for _ in numbers]  # no further directions tell all pieces
        if jumps:
            # The function has no derivative by an element along which it jumps, so its convention stands.
            far = [place for place in far if not self._jumps_along(place)]
        if self.looks_for_poles:
            self.unbounded = self._pole(every, numbers, points[0], drawn, derivative)
            if self.unbounded is not None:
                return None
        settled: list[dict[tuple[int, ...], Interval]] = [{} for _ in numbers]
        if not jumps and not self._settle(settled, [p for p in every if p not in far], numbers, points[0], drawn):
            self.open = NO_LIMITS
            return None
        if not far:
            if not any(settled):
                self.across = self._across(numbers, points[0], derivative)
            return settled

        def add(moves: dict[int, Any], number: Any) -> None:
            for k in (0, 1):
                points[k].extend(self._at(moves, STEPS[k], derivative, number=number, of="all"))

        for k, moves in enumerate(drawn):
            points[1].extend(self._at(moves, STEPS[1], derivative, number=k, of="all"))
        budget = max(_AXES, _MOST_WORK // (4 * self.program.size))
        far = [place for place in far if not self._has_limits(place, numbers, points)]
        for _ in range(_GROUPS if len(far) > budget else 0):
            add(self._drawn(self._some_of(far)), None)
            far = [place for place in far if not self._has_limits(place, numbers, points)]
        found: list[dict[tuple[int, ...], Interval]] = [{} for _ in numbers]
        left: list[Place] = []
        for place in far:
            s, index = place
            number, near_and_nearer = objects(numbers[s])[index], points
            if budget > 0:
                budget -= 1
                only = self._of([place], numbers)
                own, (ways, cones) = list(points[0]), self._ways(place)
                for made in itertools.chain(
                    *(self._at(way, STEPS[0], only, number=which, of=place) for which, way in ways)
                ):
                    own.append(made)
                    if not self._is_off(place, numbers, own):
                        break
                else:  # the same directions at both steps
                    nearer = [d for which, way in ways for d in self._at(way, STEPS[1], only, number=which, of=place)]
                    near_and_nearer = own, [*points[1], *nearer]
                if near_and_nearer is points:
                    continue  # inside, so that the other points of this element are not needed
            elif not any(found):
                left.append(place)
                continue
            first, second = self._hulls(place, number, near_and_nearer)
            if diverges(first, second):
                nearest = [d for k, moves in enumerate(drawn) for d in self._at(moves, NEAREST, derivative)]
                third = self._hull(nearest, s, index, number)
                opened = None if self.anywhere else opened_hulls(first, second, third)
                if opened is None and not grows(first, second, third):
                    opened = self._slow_limits(place, numbers, drawn)
                if opened is None:
                    if grows(first, second, third):
                        self.unbounded = place
                    else:
                        self.open = NO_LIMITS
                    return None
                first, second = opened
            if not self._approaches(number, first, second):
                if near_and_nearer is not points and self._narrows(place, number, second, cones, only):
                    continue
                found[s][index] = interval_of(first, second)
        if left and not any(found):
            self.open = TOO_MANY
            return None
        if self.anywhere and self.joint is None:  # these numbers are no limits
            return found if self._follow_lines(found, numbers) else None
        differ = any(not i.agree for out in found for i in out.values()) or any(
            self._varied(place, numbers, points) is not None for place in (every if any(found) else ())
        )
        for k in range(_GROUPS if differ and self.program.size <= _MANY else 0):
            # A number that is no limit of these points may be one of others, as for the middle one of equal numbers.
            if k % 2:
                far = [(s, index) for s, out in enumerate(found) for index in out]
                add(self._drawn(self._some_of(far)), None)
            else:
                name, moves = self._named(("whole", k), self._drawn)
                add(moves, name)
        for s, out in enumerate(found):
            for index, interval in list(out.items()):
                number = objects(numbers[s])[index]
                first, second = self._hulls((s, index), number, points)
                if self._approaches(number, first, second):
                    del out[index]
                elif interval.agree:
                    low, high = min(interval.low, second[0], key=middle), max(interval.high, second[1], key=middle)
                    width = high - low
                    agree = not width > 0 or shrinks(first[1] - first[0], second[1] - second[0])
                    out[index] = Interval(low, high, agree)
        self._search(found, every, numbers, points, derivative)
        if jumps and not self._knows_all_pieces():
            return [{} for _ in numbers]  # the number may be that of another piece
        if not self._follow_lines(found, numbers):
            return None
        found = [out | more for out, more in zip(found, settled, strict=True)]
        if all(self._is_rounded(numbers, s, index, i) for s, out in enumerate(found) for index, i in out.items()):
            self.across = self._across(numbers, points[1], derivative)
        return found

    def _settle(
        self, found: list[dict[tuple[int, ...], Interval]], places: list[Place], numbers: list[Any], near: list[Any],
        drawn: list[dict[int, Any]],
    ) -> bool:  # fmt: skip
        """Add the intervals of numbers that lie between the derivatives at the first step, but not between the limits.

        False if it is open whether a claim does, because the derivatives come to no limits. The number of a convention
        then stands.
        """
        if self.anywhere or self.past_jumps or self.program.size > _FEW:
            return True
        wide = [place for place in places if self._has_width(place, numbers, near)][:_AXES]
        flat = [place for place in places if place not in wide][:_AXES] if self._has_many_steps() else []
        nearer: list[list[Any]] = []
        if wide:
            of_all = self._of(wide, numbers)
            nearer = [
                [d for k, moves in enumerate(drawn) for d in self._at(moves, step, of_all, number=k)]
                for step in (STEPS[1], NEAREST)
            ]
        for place in flat:
            interval = self._along_line(place)
            if interval is not None and interval.agree and not self._is_limit(place, numbers, interval):
                found[place[0]][place[1]] = interval
        for place in wide:
            number = objects(numbers[place[0]])[place[1]]
            hulls = [self._hull(some, *place, number) for some in (near, *nearer)]
            if None in hulls or has_settled(number, [hull for hull in hulls if hull is not None]):
                continue
            slow = self._slow_limits(place, numbers, drawn)
            if slow is not None:
                if not self._approaches(number, *slow):
                    found[place[0]][place[1]] = interval_of(*slow)
                continue
            interval = self._along_line(place)
            if interval is not None and interval.agree:
                if not self._is_limit(place, numbers, interval):
                    found[place[0]][place[1]] = interval
            elif self.joint is not None:
                return False
        return True

    def _slow_limits(
        self, place: Place, numbers: list[Any], drawn: list[dict[int, Any]]
    ) -> tuple[tuple[arb, arb], tuple[arb, arb]] | None:
        """The hulls of an element at two steps, where the usual steps are too large; None if these do not converge.

        Steps of any size are no rounding where the function depends on the sizes of its arguments alone. Elsewhere the
        limits of powers follow from several steps.
        """
        if self.program.size > _FEW:
            return None
        number, only = objects(numbers[place[0]])[place[1]], self._of([place], numbers)

        def hulls(steps: Sequence[int]) -> list[tuple[arb, arb]]:
            made = [self._hull([d for m in drawn for d in self._at(m, step, only)], *place, number) for step in steps]
            return [hull for hull in made if hull is not None]

        fewer, blurred = self.fewer, self.blurred
        self.fewer = False
        if assumed.get("ties") is None and is_quick(self.program):
            with contextlib.suppress(ArithmeticError, Blurred, OverflowError):
                far = hulls(LEAPS)
                if len(far) == len(LEAPS) and not diverges(far[0], far[1]):
                    return far[0], far[1]
        self.fewer, self.blurred = fewer, blurred
        return powers_limits(hulls(EVEN_STEPS))

    def _along_line(self, place: Place) -> Interval | None:
        """The derivatives of an element along its line, before and behind the point; None if these are open."""
        if any(self.split):
            return None
        found = self._quotients(place, self._apart(place, zeros))
        if found is None:
            return None
        first, second = [(min(made, key=middle), max(made, key=middle)) for made in found]
        return None if diverges(first, second) else interval_of(first, second)

    def _is_limit(self, place: Place, numbers: list[Any], interval: Interval) -> bool:
        """Whether a number is that of an interval whose ends agree, up to the sizes of the steps."""
        number = objects(numbers[place[0]])[place[1]]
        dtype = None if self.joint is None else self.joint[place[0]]
        if dtype is not None and is_rounded(number, interval, dtype):
            return True
        return not distance_from(number, interval[:2]) > CLOSE_TO_LIMIT * (abs(interval.low) + abs(interval.high))

    def _follow_lines(self, found: list[dict[tuple[int, ...], Interval]], numbers: list[Any]) -> bool:
        """Put the derivatives along lines in place of the limits of derivatives beside the point that differ from them.

        False if the derivative along a line is open, although step functions may have many jumps beside the point.
        """
        if self.past_jumps or self.program.size > _FEW:
            return True
        used = [s for s, nodes in enumerate(self.program.sources) if nodes]
        agreeing = [(s, index) for s in used for index, interval in found[s].items() if interval.agree]
        for s, index in agreeing[:_AXES]:
            along = self._along_line((s, index))
            if along is None or not along.agree:
                if along is not None and self._has_many_steps():
                    self.open = NO_LIMITS
                    return False
                continue
            if self._is_limit((s, index), numbers, along):
                del found[s][index]
            elif distance_from(along.low, found[s][index][:2]) > CLOSE_TO_LIMIT * (1 + abs(along.low)):
                found[s][index] = along
        return True

    def _pole(
        self, places: list[Place], numbers: list[Any], near: list[Any], drawn: list[Any],
        derivative: Callable[[Oracle], list[Any]],
    ) -> Place | None:  # fmt: skip
        """The first element whose derivatives beside the point grow without bound in both directions."""
        steep = [place for place in places if self._is_steep(place, numbers, near)]
        if not steep:
            return None
        nearer, nearest = [
            [d for k, moves in enumerate(drawn) for d in self._at(moves, step, derivative, number=k, of="all")]
            for step in (STEPS[1], NEAREST)
        ]
        for s, index in steep:
            number = objects(numbers[s])[index]
            hulls = [hull for some in (near, nearer, nearest) if (hull := self._hull(some, s, index, number))]
            if len(hulls) == 3 and all(end_grows(*ends) for ends in zip(*hulls, strict=True)):
                return s, index
        return None

    def _is_rounded(self, numbers: list[Any], s: int, index: tuple[int, ...], interval: Interval) -> bool:
        """Whether a number that is compared along directions is an end of its interval, up to a rounding."""
        room = 0.0 if self.rooms is None else float(self.rooms[s][index])
        return self.joint is not None and is_rounded(objects(numbers[s])[index], interval, self.joint[s], room)

    def _across(
        self, numbers: list[Any], points: list[list[Any]], derivative: Callable[[Oracle], list[Any]]
    ) -> Across | None:
        """A direction along which all derivatives beside the point agree, and the numbers differ."""
        program = self.program
        if self.joint is None or self.along is not None or program.size > _FEW:
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
            budget = _MOST_SEARCHED // (2 * program.size)
            return across(floats, known, probe, max(ALIKE, 64 * room), budget, convex=self.convex, rooms=self.rooms)
        return None

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
        if not left or self.program.size > _FEW:
            return
        usual = {place: self._varied(place, numbers, points) for place in every}
        varied = {place: middle for place, middle in usual.items() if middle is not None}
        own = {place: list(points[0]) for place in left}
        elements = every if self.way is None else self._elements
        differ = bool(varied) or any(not found[s][index].agree for s, index in left)
        for k in range(min(_SEARCHES, _MOST_SEARCHED // self.program.size) if differ else 0):
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
                        place, number, hull, [_Cone(name, moves, along, arb(1), _NARROWER)], only
                    )
                if inside:
                    del found[s][index]
                    left.remove(place)
            if not left:
                return

    def _varied(self, place: Place, numbers: list[Any], points: tuple[list[Any], list[Any]]) -> Any:
        """The usual derivative by an element; None if the derivatives on all sides agree."""
        first, second = self._hulls(place, objects(numbers[place[0]])[place[1]], points)
        width = second[1] - second[0]
        if not width > 0 or shrinks(first[1] - first[0], width):
            return None
        values = sorted((arb(objects(made[place[0]])[place[1]]) for made in points[1]), key=middle)
        return values[len(values) // 2]

    def _narrows(
        self,
        place: Place,
        number: Any,
        hull: tuple[arb, arb],
        cones: list[_Cone],
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

    def _scaled(self, moves: dict[int, Any], place: Place, own: arb, rest: arb) -> dict[int, Any]:
        """A direction in which one element has `own` times its move, and the others `rest` times theirs."""
        made = {i: np.array(objects(objects(u) * rest)) for i, u in moves.items()}
        for i in self.program.sources[place[0]]:
            _put(made[i], place[1], _taken(objects(moves[i]), place[1]) * own)
        return {i: objects(u) for i, u in made.items()}

    def _exchanged(self, moves: dict[int, Any], one: Place, other: Place) -> dict[int, Any]:
        """A direction in which two elements have each other's moves."""
        made = {i: np.array(objects(u)) for i, u in moves.items()}
        sources = self.program.sources
        for i in sources[one[0]]:
            for j in sources[other[0]] if one[0] != other[0] else [i]:
                a, b = _taken(made[i], one[1]), _taken(made[j], other[1])
                _put(made[i], one[1], b)
                _put(made[j], other[1], a)
        return made

    def _is_off(self, place: Place, numbers: list[Any], points: list[Any]) -> bool:
        """Whether a number lies outside of the hull of the derivatives at some points."""
        s, index = place
        number = objects(numbers[s])[index]
        hull = self._hull(points, s, index, number)
        return hull is not None and bool(distance_from(number, hull) > 0)

    def _has_width(self, place: Place, numbers: list[Any], points: list[Any]) -> bool:
        """Whether the derivatives at some points differ by more than those of a smooth function."""
        s, index = place
        hull = self._hull(points, s, index, objects(numbers[s])[index])
        size = arb(0) if hull is None else abs(hull[0]) + abs(hull[1])
        return hull is not None and bool(hull[1] - hull[0] > _LEAP * size)

    def _is_steep(self, place: Place, numbers: list[Any], points: list[Any]) -> bool:
        """Whether the derivatives at some points are so large, and of both signs, that they may have no bound."""
        s, index = place
        hull = self._hull(points, s, index, objects(numbers[s])[index])
        return hull is not None and bool(hull[0] < -_STEEP) and bool(hull[1] > _STEEP)

    def _hulls(self, place: Place, number: Any, points: Sequence[list[Any]]) -> list[tuple[arb, arb]]:
        """The hulls at both steps."""
        hulls = [self._hull(some, *place, number) for some in points]
        if None in hulls:
            raise Nowhere
        return [hull for hull in hulls if hull is not None]

    def _has_limits(self, place: Place, numbers: list[Any], points: tuple[list[Any], list[Any]]) -> bool:
        """Whether a number is a limit of the derivatives at some points, or between such limits."""
        number = objects(numbers[place[0]])[place[1]]
        first, second = self._hulls(place, number, points)
        return not diverges(first, second) and self._approaches(number, first, second)

    def _some_of(self, places: list[Place]) -> list[Place]:
        """An eighth of some elements, drawn at random, so that most of them move without their neighbours.

        For numbers along a way these are elements of the sources.
        """
        places = places if self.way is None else self._elements
        return [place for place in places if self.rng.random() < _SHARE] or places[:1]

    @staticmethod
    def _approaches(number: Any, first: tuple[arb, arb], second: tuple[arb, arb]) -> bool:
        """Whether the distance of a number from the derivatives beside the point converges to 0 with the step."""
        return shrinks(distance_from(number, first), distance_from(number, second))

    def _ways(self, place: Place) -> tuple[list[_Named], list[_Cone]]:
        """The directions of its own that a number needs, and the cones that they narrow to: those of its element.

        A number along a way is a sum over all elements of the sources, so it gets those of each, and the way itself.
        """
        if self.way is None:
            ways, cones = self._ways_of(place)
            return ways + self._narrow_ways(place), cones
        ways, cones = [self._named("way", lambda: self._drawn([]))], list[_Cone]()
        for element in self._elements[:_AXES]:
            more, narrow = self._ways_of(element)
            ways += more
            cones += narrow
        return ways, cones

    def _ways_of(self, element: Place) -> tuple[list[_Named], list[_Cone]]:
        """As `_ways`, of one element of a source: its axis, and directions of all elements.

        The cones narrow around the axis, and around the plane in which the element stays.
        """
        axis, joint = self._named(("axis", *element), lambda: self._drawn([element])), list(self._joint(element))
        around = [_Cone(*axis, element, arb(1), _NARROWER)]
        return [axis, *joint], around + [_Cone(*way, element, _NARROWER, arb(1)) for way in joint[2:]]

    def _narrow_ways(self, place: Place) -> list[_Named]:
        """Directions near the axes of other elements, with a small move of the number's element to both sides.

        The derivative of ``relu(y - 20 * abs(x))`` by x is 0 but in a narrow cone around the axis of y. Only claims are
        compared there, because the conventions of ops give the derivatives of no cone.
        """
        if self.joint is None or self.anywhere or self.program.size > _FEW:
            return []
        found: list[_Named] = []
        for element in [other for other in self._elements if other != place][:_CONES]:
            name, moves = self._named(("axis", *element), partial(self._drawn, [element]))
            mirrored = partial(self._scaled, moves, place, arb(-1), arb(1))
            found += [(name, moves), (None if name is None else ("mirrored", *place, *element), mirrored())]
        return found

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

    def _named(self, name: Any, draw: Callable[[], dict[int, Any]]) -> _Named:
        """The name and the moves of a direction that all rows share; without a name if there is no room to keep it."""
        if self._has_room(name, sum([np.size(self.here[i]) for nodes in self.program.sources for i in nodes])):
            return name, self.shared.get(name, draw)
        return None, draw()

    def _joint(self, place: Place) -> Iterator[_Named]:
        """The names and the moves of directions of all elements in which one element has a part of its own: less or
        more than the others, which all move the same way, or none among random ones. None for large programs.

        Among equal numbers that are clipped, for example, an element is the greatest only if all become smaller.
        """
        elements = sum([np.size(self.program.nodes[nodes[0]].output) for nodes in self.program.sources if nodes])
        if self.anywhere or elements < 2 or self.program.size > _FEW:
            return
        for k, (own, same) in enumerate(((0.5, True), (2.0, True), (2.0**-40, False), (2.0**-40, False))):
            yield self._named(("joint", place, k), partial(self._drawn, own=(place, own, same)))

    def _of(self, places: list[Place], numbers: list[Any]) -> Callable[[Oracle], list[Any]]:
        """The derivative by some elements of the sources, and `numbers` elsewhere; all at once if that is as cheap."""
        along = self.along
        if along is None or (self.swept and len(places) > _TOGETHER):
            return lambda oracle: in_parts(self.split, self.derivative(oracle))
        if len(places) > _ONE_BY_ONE:
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
            left = self.shared.get("splits", lambda: [_MOST_WORK // self.program.size])
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


def _taken(a: Any, index: tuple[int, ...]) -> Any:
    """An element; a longer index tells the part of a complex one."""
    if len(index) == np.ndim(a):
        return a[index]
    return a[index[:-1]].imag if index[-1] else a[index[:-1]].real


def _put(a: Any, index: tuple[int, ...], value: Any) -> None:
    """Set an element; a longer index tells the part of a complex one."""
    if len(index) == np.ndim(a):
        a[index] = value
    else:
        e = a[index[:-1]]
        a[index[:-1]] = acb(e.real, value) if index[-1] else acb(value, e.imag)


def _rarest(derivative: list[Any], usual: dict[Place, Any]) -> Place:
    """The element whose derivative is farthest from its usual one."""
    apart = {(s, index): abs(arb(objects(derivative[s])[index]) - middle) for (s, index), middle in usual.items()}
    return max(apart, key=lambda place: middle(apart[place]))


def is_quick(program: Program) -> bool:
    """Whether enclosures of a program take little time at many bits: without special functions and iterations."""
    return special_function(program) is None and not _iterates(program)


def _iterates(program: Program) -> bool:
    """Whether an op takes the exact value from an iteration, whose tolerances depend on the bits."""
    ops = [n.prim for n in program.nodes if n.kind == "op"]
    return any(prim.kind == "implicit" or bool(prim.rounding.eliminates) for prim in ops)


def _are_same(a: list[Any], b: list[Any]) -> bool:
    """Whether two lists of arrays hold the same enclosures."""
    if [v is None for v in a] != [v is None for v in b]:
        return False
    pairs = [(objects(v), objects(w)) for v, w in zip(a, b, strict=True) if v is not None]
    return all(v.shape == w.shape and all(map(_is_same, v.ravel().tolist(), w.ravel().tolist())) for v, w in pairs)


def _is_same(p: Any, q: Any) -> bool:
    p, q = arb(p), arb(q)
    return bool(p.mid() == q.mid() and p.rad() == q.rad())


def has_values(program: Program) -> bool:
    """Whether the function itself has finite values at the point; log(-1) has none, though 1 / x is finite."""
    return all(np.isfinite(np.asarray(program.nodes[i].output)).all() for i in program.primals)


def with_limits(sides: Sides, exact: list[Any]) -> list[Any]:
    """The derivative, with the limit of all sides in place of each element by which the whole function is smooth.

    `sides.outside` then says if the number by the conventions of the ops lies outside of its interval elsewhere.

    Parameters
    ----------
    sides : Sides
    exact : list of object arrays of enclosures, or None
        The derivative by the conventions of the ops.
    """
    made = in_parts(sides.split, exact)
    for s, out in enumerate(sides.limits(made) or ()):
        for index, interval in out.items():
            if not interval.agree and not sides.outside:
                number = float(to_float(objects(made[s])[index]))
                sides.outside = OUTSIDE.format(interval, number)
        smooth = {index: interval for index, interval in out.items() if interval.agree}
        if smooth:
            made[s] = objects(made[s]).copy()
        for index, interval in smooth.items():
            made[s][index] = interval.limit()
    return joined(sides.split, made)


def of_complex_sources(program: Program) -> list[bool]:
    """For the derivative by each source, whether it is complex."""
    return [bool(nodes) and is_complex(program.nodes[nodes[0]].output) for nodes in program.sources]


def of_complex_outputs(program: Program) -> list[bool]:
    """For the tangent of each output, whether it is complex."""
    return [is_complex(program.nodes[i].output) for i in program.outputs]


def in_parts(split: Sequence[bool], arrays: list[Any]) -> list[Any]:
    """Derivatives with the parts of complex arrays, real and imaginary, along a new last axis; `split` tells which."""
    return [_parts(objects(a)) if is_split and a is not None else a for is_split, a in zip(split, arrays, strict=True)]


def joined(split: Sequence[bool], arrays: list[Any]) -> list[Any]:
    """The inverse of `in_parts`."""
    return [
        objects(JOIN(a[..., 0], a[..., 1])) if is_split and a is not None else a
        for is_split, a in zip(split, arrays, strict=True)
    ]


def _parts(a: Any) -> Any:
    made = np.empty((*a.shape, 2), dtype=object)
    made[..., 0], made[..., 1] = _REAL(a), _IMAG(a)
    return made
