"""Whether a number at a kink is a limit of the derivatives beside the kink, or lies between such limits.

Derivatives at two steps tell limits, because their distances from a limit shrink with the step. Where two steps are too
few, larger steps, several steps of powers or the quotients along a line decide.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from flint import arb

from gtape.symbolic.balls import assumed, objects
from gtape.verify.causes.effort import AXES, FEW, is_quick
from gtape.verify.causes.elements_apart import ElementsApart
from gtape.verify.causes.intervals import (
    CLOSE_TO_LIMIT,
    EVEN_STEPS,
    LEAP,
    LEAPS,
    STEPS,
    Interval,
    distance_from,
    diverges,
    end_grows,
    has_settled,
    interval_of,
    is_rounded,
    middle,
    powers_limits,
    shrinks,
)
from gtape.verify.causes.lines import Lines
from gtape.verify.causes.points_beside import NEAREST, Blurred, Nowhere, Place
from gtape.verify.oracles.enclosures import zeros
from gtape.verify.oracles.oracle import Oracle

__all__ = ["NO_LIMITS", "Limits"]

_STEEP = arb(2) ** 250  # the sizes of infinite slopes at the first step are larger, as for a power of 3/4

NO_LIMITS = "the derivatives on all sides of this kink do not come to limits, so the number may be wrong"


class Limits(ElementsApart, Lines):
    """The comparison of numbers with the hulls of derivatives at points beside the recorded one.

    The parameters are those of `ElementsApart`.

    Attributes
    ----------
    open : str
        Why it is open whether all numbers are limits.
    """

    past_jumps = False  # whether only elements count by which the function does not jump
    open = ""
    rooms: list[Any] | None = None  # how far roundings may carry the numbers

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
        return hull is not None and bool(hull[1] - hull[0] > LEAP * size)

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

    @staticmethod
    def _approaches(number: Any, first: tuple[arb, arb], second: tuple[arb, arb]) -> bool:
        """Whether the distance of a number from the derivatives beside the point converges to 0 with the step."""
        return shrinks(distance_from(number, first), distance_from(number, second))

    def _varied(self, place: Place, numbers: list[Any], points: tuple[list[Any], list[Any]]) -> Any:
        """The usual derivative by an element; None if the derivatives on all sides agree."""
        first, second = self._hulls(place, objects(numbers[place[0]])[place[1]], points)
        width = second[1] - second[0]
        if not width > 0 or shrinks(first[1] - first[0], width):
            return None
        values = sorted((arb(objects(made[place[0]])[place[1]]) for made in points[1]), key=middle)
        return values[len(values) // 2]

    def _settle(
        self, found: list[dict[tuple[int, ...], Interval]], places: list[Place], numbers: list[Any], near: list[Any],
        drawn: list[dict[int, Any]],
    ) -> bool:  # fmt: skip
        """Add the intervals of numbers that lie between the derivatives at the first step, but not between the limits.

        False if it is open whether a claim does, because the derivatives come to no limits. The number of a convention
        then stands.
        """
        if self.anywhere or self.past_jumps or self.program.size > FEW:
            return True
        wide = [place for place in places if self._has_width(place, numbers, near)][:AXES]
        flat = [place for place in places if place not in wide][:AXES] if self._has_many_steps() else []
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
        if self.program.size > FEW:
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
        if self.past_jumps or self.program.size > FEW:
            return True
        used = [s for s, nodes in enumerate(self.program.sources) if nodes]
        agreeing = [(s, index) for s in used for index, interval in found[s].items() if interval.agree]
        for s, index in agreeing[:AXES]:
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
