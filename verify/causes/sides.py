"""The derivatives of a whole function on all sides of a kink.

Where ops have kinks, the function that they make may still be smooth (|x|² at 0), or have a kink of its own. The
program is evaluated exactly at points next to the kink, with new decisions, and differentiated there: the derivatives
at these points converge to the one-sided derivatives. If all agree, the function has a derivative. If not, their
interval is the generalised derivative (Clarke, "Optimization and Nonsmooth Analysis", 1983), element by element.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from flint import arb

from gtape.symbolic.balls import assumed, numbers_shared, objects, precision, ties_assumed, to_float
from gtape.symbolic.implicit import degenerate_unnoted
from gtape.symbolic.program import Program
from gtape.verify.causes.beside import OtherShapes
from gtape.verify.causes.complex_parts import in_parts, joined
from gtape.verify.causes.effort import AXES, FEW, FEWER, MANY, MORE, MOST_WORK, PAIRS, is_quick, iterates
from gtape.verify.causes.further_directions import FurtherDirections
from gtape.verify.causes.intervals import (
    BITS,
    STEPS,
    Interval,
    diverges,
    grows,
    interval_of,
    middle,
    opened_hulls,
    shrinks,
)
from gtape.verify.causes.joint import Across
from gtape.verify.causes.jumps import Jumps
from gtape.verify.causes.limits import NO_LIMITS
from gtape.verify.causes.nearby import Nearby
from gtape.verify.causes.pieces import Pieces
from gtape.verify.causes.points_beside import NEAREST, Blurred, Nowhere, Place
from gtape.verify.oracles.enclosures import zeros
from gtape.verify.oracles.oracle import Oracle, TooDeep
from gtape.verify.oracles.replay import Shared

__all__ = ["TOO_WIDE", "UNBOUNDED", "Sides", "with_limits"]

_BEYOND = 1 << 14  # the exponent of a number beyond all derivatives
_MOST = 200_000  # programs with more numbers get no points beside the kink
_GROUPS = 8  # directions along groups of elements, if more elements need points of their own

TOO_MANY = "too many numbers to compare the derivatives on all sides of this kink, so some may be wrong"
UNBOUNDED = "the derivatives of the function as a whole grow without bound beside this point"
OUTSIDE = "the one-sided derivatives lie in {}, and the conventions of the ops give {:.6g}, which lies outside"
TOO_WIDE = "the derivatives on all sides of this kink lose too many bits to be compared, so the number may be wrong"


class Sides(Jumps, Nearby, FurtherDirections):
    """The derivatives of a program at points next to the recorded one.

    The bases hold one idea each: where the function jumps, the derivatives without a comparison, and further
    directions for numbers that the first ones leave out.

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
        super().__init__(program, oracle, derivative, along, shared, in_floats, order, way)
        self.row = row
        # Why the derivatives beside the point have no limits, where the gradient jumps at the point.
        self.jumping = ""
        # Whether to look for derivatives that grow to infinities of both signs, between which any number lies.
        self.looks_for_poles = False
        self.unbounded: Place | None = None  # an element by which the derivatives beside the point have no bound
        self.outside = ""  # why a number by the conventions of the ops is none of the derivatives of the whole function
        self.misshapen = False  # whether it is open because ops get arrays of other shapes beside the point
        # A direction along which the numbers differ from all derivatives.
        self.across: Across | None = None
        self.varied: list[Place] = []  # the elements by which derivatives on several sides differ
        self.compared = False  # whether the numbers were compared with the derivatives on all sides

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
            with degenerate_unnoted():  # notes tell of the point, and not of points beside it
                found = self._limits(numbers, jumps)
        except OtherShapes as e:
            self.open, self.misshapen, found = str(e), True, None
        self.compared = self.compared or found is not None
        return found

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
            drawn = self._pairs(PAIRS if self.program.size <= FEW else 1)
            points = [
                [d for k, moves in enumerate(drawn) for d in self._at(moves, step, derivative, number=k)]
                for step in STEPS
            ]
            hulls = [self._hulls(place, objects(numbers[place[0]])[place[1]], points) for place in self.varied]
            return all(shrinks(first[1] - first[0], second[1] - second[0]) for first, second in hulls)
        return False

    def _limits(self, numbers: list[Any], jumps: bool) -> list[dict[tuple[int, ...], Interval]] | None:
        wanted = jumps or self.anywhere  # claims may be other limits
        if self.program.size > MANY and not (wanted or self._in_doubt(numbers)):
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
        if assumed.get("ties") is None and not iterates(self.program):
            attempts.insert(0, (FEWER, []))
            if self.program.size <= FEW and is_quick(self.program):
                attempts.insert(2, (MORE, []))
        if self.program.size <= MANY:
            attempts = [(bits, [numbers_shared, *settings]) for bits, settings in attempts]
            # Few comparisons need shared numbers, and sharing takes half of the time.
            if attempts[0][0] == FEWER and not self.shared.shares:
                attempts.insert(0, (FEWER, []))
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
                pairs = PAIRS if self.program.size <= FEW else 1
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
        if jumps and self.program.size > FEW:
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
        budget = max(AXES, MOST_WORK // (4 * self.program.size))
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
        for k in range(_GROUPS if differ and self.program.size <= MANY else 0):
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


def _are_same(a: list[Any], b: list[Any]) -> bool:
    """Whether two lists of arrays hold the same enclosures."""
    if [v is None for v in a] != [v is None for v in b]:
        return False
    pairs = [(objects(v), objects(w)) for v, w in zip(a, b, strict=True) if v is not None]
    return all(v.shape == w.shape and all(map(_is_same, v.ravel().tolist(), w.ravel().tolist())) for v, w in pairs)


def _is_same(p: Any, q: Any) -> bool:
    p, q = arb(p), arb(q)
    return bool(p.mid() == q.mid() and p.rad() == q.rad())
