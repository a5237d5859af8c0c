"""Compares a function with its recorded program at points closer and closer to the recorded one.

At a moved point the function runs and records its ops again. If no constant of the new recording differs from the
recorded one, no value came back there. A constant that keeps jumping, or stops changing while its changes are still far
above rounding, is a step function (a rounded number, the order of a sort), and has no slope. The other constants that
differ move with the point. Their effect on the outputs is computed exactly, so that no rounding hides a small one. If
the derivatives of order k differ, function and program differ by the k-th power of the move. A difference by a higher
power changes no derivative that is checked: the numbers of NumPy's mean in ``sum((x - mean)**2)`` are constants of the
program, but its first derivative is right.

If the function records other ops at all moved points, only the outputs of function and program are compared. The
outputs come first if the recording shows no way by which a value could have left, because a run without a tape is
quicker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from enum import Enum
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from gtape import nest
from gtape.base.half_precision import spacing_at_one
from gtape.engine.worlds import COMPLEX
from gtape.recording.trace import has_long_numbers
from gtape.recording.undoing import repeating
from gtape.symbolic.balls import objects, precision, to_float
from gtape.symbolic.program import Node, Program
from gtape.tensors.tensor import Tensor, convert_to_tensor, wrap
from gtape.tensors.variable import Variable
from gtape.verify.judging.again import Ran
from gtape.verify.judging.constants import Constants, are_kept, constants, constants_of
from gtape.verify.judging.narrow_formats import narrow_spacings
from gtape.verify.judging.random_moves import random_moves, random_signs
from gtape.verify.oracles.enclosures import BALLS, is_floating
from gtape.verify.oracles.replay import is_step
from gtape.verify.verdicts.ulp import same_numbers, spacing, widest

__all__ = ["Comparison", "Outcome"]

_ROUNDINGS = 64.0  # ULP by which they may round differently, because a function may compute with `math`
_NOISE = 0.25  # of these roundings: a part of a difference that may be rounding alone
_SHARE = 2.0**-10  # of the change between the points
_STEPS = 9
_WAYS = 4  # directions
_AXES = {2: 1.0, 3: 1.0j}  # the directions that move complex numbers along one axis alone
_LONGEST = 4.0  # the first step; a step of 1 is a root of the rounding
_SHORTER = 4.0  # how much shorter each step is than the one before
_LIKE = 0.1  # how exactly a difference must follow a power of the move
_SIDES = (-1, 1)
_FURTHER = (
    0.3  # the longest move by constants, as a share of an element, because short moves change large numbers little
)
_SAME = 3  # moves without an effect on either side, after which shorter moves have none
_ENOUGH = 2  # directions in which moving constants have no effect that counts
_FAR = 2  # directions in which small elements move by a share of 1, too
# The shortest step of a step function, as a power of the rounding: a number with two thirds of the digits, or more, was
# written as text or rounded for a key, and follows its argument.
_FINEST = 2 / 3
_JUMPS = 3  # equal changes by shorter and shorter moves that show a jump
_CLEAR = 2.0  # ULP by which a constant would change at the next move if it changed by the highest power that counts
_UNITS = 4.0  # units of a narrower format by which its roundings may change a constant
_FACTORS = (*np.geomspace(0.22, 0.85, 18).tolist(), *np.geomspace(1.2, 4.5, 18).tolist())  # to other powers of 2
_BITS = 400
_NOTHING = 2.0**-200  # relative to an output, a difference of enclosures that is 0
_LARGEST = 200_000  # programs of more numbers are evaluated in floats


class Outcome(Enum):
    """What a comparison of a function and its program shows."""

    APART = "another derivative"
    ALIKE = "the same derivative"
    OPEN = "constants that differ, by an effect that is lost in rounding or follows no power"
    UNSTEADY = "other numbers in a second run at one point"
    NOWHERE = "the function does not run, or takes other branches"


class _Difference(NamedTuple):
    """Function less program at a moved point.

    Attributes
    ----------
    gap : array
    rounding : array
        The difference that rounding allows.
    large : bool
        Whether the difference is more than a small share of the change.
    none : bool
        Whether the difference is exactly 0.
    clear : bool
        Whether each constant moved so far that a difference lost in rounding is a small share of what one alone makes.
    """

    gap: Any
    rounding: Any
    large: bool
    none: bool = False
    clear: bool = False


class Comparison:
    """A function and its program, at the recorded point and at moved ones.

    Parameters
    ----------
    again : Again, or another callable with a `recording`
        The function.
    program : Program
        As recorded.
    order : int
        The order of the derivative that is checked.
    anew : set of int, optional
        The nodes of custom gradients whose functions run again, because their recorded bodies may hold values that left
        the tape.
    meant : collection of int, optional
        The identities of values that are constants on purpose.
    moving : Program, optional
        The program for comparisons by values. Values that were stopped before they left move in it, too.
    closed : bool, optional
        Whether the recording shows no way by which a value could have left. Equal outputs suffice then, unless the
        program holds long numbers, which may be values that left unseen.
    """

    def __init__(
        self,
        again: Any,
        program: Program,
        order: int,
        anew: frozenset[int] = frozenset(),
        meant: Collection[int] = (),
        moving: Program | None = None,
        *,
        closed: bool = False,
    ) -> None:
        self.again, self.program, self.order, self.anew, self.meant = again, program, order, anew, meant
        self._by_values = program if moving is None else moving
        self._closed = closed
        self.here = [np.asarray(t._value) for t in again.recording.inputs]
        self.before = [np.asarray(t._value) for t in again.recording.outputs]
        shares = [spacing_at_one(x.dtype) ** 0.25 for x in self.here]
        # The number of the first move by constants; the moves by values start at 0.
        self._first = -int(np.log(_FURTHER / _LONGEST / min(shares, default=1.0)) / np.log(_SHORTER))
        # The number after that of the last move by constants.
        finest = [spacing_at_one(x.dtype) ** (0.25 - _FINEST) for x in self.here]
        self._last = 1 + int(np.log(_LONGEST * max(finest, default=1.0)) / np.log(_SHORTER))
        self._effects = False  # whether the effects of moving constants were computed along a direction
        self._corresponds: bool | None = None  # whether a second run at the recorded point records the same ops
        self._nowhere_closer = False  # whether shorter moves took other branches, too
        self.branches = False  # whether the function takes other branches at all moved points
        self._steady = False  # whether a run that changed constants was repeated
        self.seen = False  # whether a difference was beyond rounding at some moved point
        self._shared: set[Any] = set()  # the places of constants that moved runs have, too
        self._begun: tuple[list[Any], Ran] | None = None  # a run at a moved point that has no program yet
        self._changed: set[Any] = set()  # the places of those that differ in some moved run

    def is_deterministic(self) -> bool:
        """Whether the function returns the recorded numbers at the recorded point."""
        return self.are_recorded(self.again(self.here))

    def are_recorded(self, outputs: list[Any] | None) -> bool:
        """Whether the outputs of a run at the recorded point are the recorded numbers; False for None."""
        return outputs is not None and all(
            same_numbers(np.asarray(a), b) for a, b in zip(outputs, self.before, strict=True)
        )

    def outcome(self, *, left: bool) -> Outcome:
        """Whether the function has another derivative than the program.

        Parameters
        ----------
        left : bool
            Whether a value is known to have left. If not, one moved point without another constant suffices.
        """
        if self._closed and not left:
            if _holds_long_numbers(self.program):
                if self._keeps_constants():
                    return Outcome.ALIKE
            elif self._outcome_by_values(left) is Outcome.ALIKE and not self.seen:
                return Outcome.ALIKE
        found, idle = set[Outcome](), 0
        for way, far in self._directions():
            self._effects = False
            made = self._outcome_along(way, far, left)
            if made in (Outcome.APART, Outcome.UNSTEADY):
                return made
            found.add(made)
            if made is Outcome.ALIKE and not (left or self._steady):
                return made
            idle += made is Outcome.ALIKE and self._effects
            if idle == _ENOUGH:
                break
        for outcome in (Outcome.OPEN, Outcome.ALIKE):
            if outcome in found:
                return outcome
        self.branches = True
        return self._outcome_by_values(left)

    def still(self) -> frozenset[int]:
        """The identities of the constants that hold the recorded numbers in all moved runs."""
        places = self._shared - self._changed
        own = {(i, which): v for i in {i for i, _ in places} for which, v in constants_of(self.program.nodes[i])}
        return frozenset(id(own[place]) for place in places)

    def _directions(self) -> Iterator[tuple[int, bool]]:
        """The directions, each with whether small elements move by at least a share of 1."""
        small = any(((x != 0) & (np.abs(x) < 1)).any() for x in self.here)
        for way in range(_WAYS):
            if small and way < _FAR:
                yield way, True
            yield way, False

    def _outcome_along(self, way: int, far: bool, left: bool) -> Outcome:
        """As `outcome`, by moves along one direction."""
        sides = {sign: _Side(self.order) for sign in _SIDES}
        for k in range(self._first, max(_STEPS, self._last)):
            if k >= _STEPS and (self._nowhere_closer or any(side.points for side in sides.values())):
                break
            for sign, side in sides.items():
                made = self._constants(k, sign, way, far) if side.goes_on else None
                if made is None:
                    continue
                if made.changed and not self._steady:
                    again = self._constants(k, sign, way, far)
                    if again is None or not again.are_equal(made):
                        return Outcome.UNSTEADY
                    self._steady = True
                elif not (made.changed or left or self._steady):
                    return Outcome.ALIKE
                side.add(k, made)
        self._nowhere_closer = not any(side.points for side in sides.values())
        outcome = self._shown(sides)
        if outcome in (Outcome.APART, Outcome.OPEN):
            # A step function with small steps follows its argument by longer moves. Smaller steps are those of text.
            for sign, side in sides.items():
                before = side.count
                for k in range(_STEPS, self._last):
                    made = self._constants(k, sign, way, far) if side.may_settle else None
                    if made is None:
                        break
                    side.add(k, made)
                if side.count == before:
                    return outcome
                outcome = self._shown(sides)
        return outcome

    def _constants(self, k: int, sign: int, way: int, far: bool) -> Constants | None:
        """The constants of a run at a moved point; None if the function takes other branches there."""
        if self._corresponds is False:
            return None
        found = self._constants_at(_moved(self.here, sign * _LONGEST * _SHORTER**-k, way, far=far))
        if found is None:
            if self._corresponds is None:
                self._corresponds = self._constants_at(self.here) is not None
            return None
        self._shared |= found.shared.keys()
        self._changed |= found.changed.keys()
        outputs = [found.program.nodes[i].output for i in found.program.outputs]
        return found if all(np.isfinite(np.asarray(v)).all() for v in outputs) else None

    def _keeps_constants(self) -> bool:
        """Whether a run at the first moved point records the same ops with the same constants.

        The run itself tells, without a program. Otherwise `_constants` begins with this run.
        """
        way, far = next(self._directions())
        point = _moved(self.here, _SIDES[0] * _LONGEST * _SHORTER**-self._first, way, far=far)
        ran = self.again.ran(point)
        if ran is None:
            return False
        if are_kept(self.program, ran.inputs, ran.outputs):
            return all(np.isfinite(np.asarray(t._value)).all() for t in ran.outputs)
        self._begun = point, ran
        return False

    def _recorded(self, point: list[Any]) -> Program | None:
        begun, self._begun = self._begun, None
        if begun is not None and all(map(same_numbers, point, begun[0])):
            made: Program = begun[1].program()
            return made
        program: Program | None = self.again.recorded(point)
        return program

    def _constants_at(self, point: list[Any]) -> Constants | None:
        program = self._recorded(point)
        return None if program is None else constants(self.program, program, self.meant, bodies=not self.anew)

    def _shown(self, sides: dict[int, _Side]) -> Outcome:
        """What the constants that move with the point show along one direction."""
        if not any(side.points for side in sides.values()):
            return Outcome.NOWHERE
        moving: dict[Any, Any] = {}
        for side in sides.values():
            for place, mask in side.moving.items():
                if mask.any():
                    moving[place] = moving.get(place, False) | mask
        narrow = self._narrow(sides, moving)
        for place, spacings in narrow.items():
            moving[place] = moving.get(place, False) | (spacings > 0)
        if not moving:
            return Outcome.ALIKE

        def difference(k: int, sign: int) -> _Difference | None:
            found = sides[sign].points.get(k)
            return None if found is None else self._effect(found, moving, narrow)

        return self._outcome_by_law(difference)

    def _narrow(self, sides: dict[int, _Side], moving: dict[Any, Any]) -> dict[Any, Any]:
        """The elements that stopped changing because a narrower floating format rounds them.

        Returns
        -------
        dict
            The place of a constant -> the relative spacing of the format for each element, or 0.
        """
        runs = [found for side in sides.values() for found in side.points.values()]
        further: list[Constants] | None = None
        made = {}
        for place, (here, _) in {p: pair for found in runs for p, pair in found.changed.items()}.items():
            if not is_floating(here) or np.all(moving.get(place, False)):
                continue

            def spacings(some: list[Constants], place: Any = place, here: Any = here) -> tuple[Any, bool]:
                values = [here, *[found.changed.get(place, (here, here))[1] for found in some]]
                return narrow_spacings(np.stack([np.ravel(v) for v in values]))

            found, is_open = spacings(runs)
            if is_open:
                if further is None:
                    points = [[(x * factor).astype(x.dtype) for x in self.here] for factor in _FACTORS]
                    points += [_moved(self.here, 1.0, 0, share=factor - 1.0) for factor in _FACTORS]
                    further = [found for point in points if (found := self._constants_at(point)) is not None]
                found, _ = spacings(runs + further)
            found = np.where(moving.get(place, False), 0.0, found.reshape(here.shape))
            for side in sides.values():
                found = np.where(side.stopped_early(place, found), 0.0, found)
            if found.any():
                made[place] = found
        return made

    def _outcome_by_law(self, difference: Callable[[int, int], _Difference | None]) -> Outcome:
        """What the powers show that the effects of moving constants follow."""
        steps: list[dict[int, _Difference]] = []
        lawful = known = False
        same, self._effects = 0, True
        for k in range(self._first, _STEPS):
            found = {sign: d for sign in _SIDES if (d := difference(k, sign)) is not None}
            made = {sign: d for sign, d in found.items() if (np.abs(d.gap) > d.rounding).any()}
            if not found:
                continue
            known = True
            if len(made) < len(found):
                if all(d.none for d in found.values()):
                    same += 1
                    if same == _SAME:
                        break
                    continue
                if self._counts(_power(steps, self.order, 2)):
                    return Outcome.APART
                # On one side Python took another branch, or the difference is lost in rounding.
                alike = lawful or any(d.none or d.clear for d in found.values())
                return Outcome.ALIKE if alike else Outcome.OPEN
            steps.append(made)
            power = _power(steps, self.order)
            if self._counts(power):
                return Outcome.APART
            lawful = lawful or power is not None
        if lawful or (known and not steps):
            return Outcome.ALIKE
        large = bool(steps) and all(d.large for made in steps for d in made.values())
        return Outcome.APART if large else Outcome.OPEN

    def _effect(
        self, found: Constants, moving: dict[Any, Any], narrow: dict[Any, Any] | None = None
    ) -> _Difference | None:
        """The effect of moving constants on the outputs at a moved point.

        Parameters
        ----------
        moving : dict
            Place of a constant -> which of its elements move.
        narrow : dict, optional
            Place of a constant -> the relative spacing of the narrower format that rounds its elements, or 0.
        """
        rng = np.random.default_rng(43)
        clear = True
        old, near, beside = dict[Any, Any](), dict[Any, Any](), dict[Any, Any]()
        for place, mask in moving.items():
            if place in found.changed:
                here, there = found.changed[place]
                moves, spacings = _SHARE * _change(here, there)[1] / _ROUNDINGS, np.zeros(mask.shape)
                if narrow and place in narrow:
                    spacings = narrow[place]
                    wide = _ROUNDINGS * spacing_at_one(here.real.dtype)
                    moves = moves * np.where(spacings > 0, wide / np.maximum(_UNITS * spacings, wide), 1.0)
                clear = clear and np.max(np.where(mask, moves, 0.0)) >= 1
                old[place] = np.where(mask, here, there).astype(there.dtype)
                for numbers, kept in ((there, near), (old[place], beside)):
                    kept[place] = numbers
                    if is_floating(numbers):
                        by = _ROUNDINGS * spacing(widest(numbers), numbers.dtype)
                        by = np.maximum(by, _UNITS * spacings * np.abs(widest(numbers)))
                        by = by * random_signs(numbers, rng)
                        kept[place] = np.where(mask, numbers + by, numbers).astype(numbers.dtype)
        programs = [found.with_values(values) for values in ({}, old, near, beside)]
        exactly = self.program.size <= _LARGEST
        made = _all_values(programs, exactly=exactly)
        if made is None and exactly:
            exactly, made = False, _all_values(programs, exactly=False)
        if made is None:
            return None
        there, here, *moved = made
        gaps, roundings, large, none = [], [], False, True
        for n, before in enumerate(self.before):
            with precision(_BITS):
                gap = _less(there[n], here[n])
                rounding = np.maximum(np.abs(_less(moved[0][n], there[n])), np.abs(_less(moved[1][n], here[n])))
                change = np.abs(_less(there[n], objects(BALLS.lift(before)) if exactly else widest(before)))
            size = np.maximum(np.abs(_numbers(there[n])), np.finfo(float).tiny)
            least = _NOTHING * size if exactly else _ROUNDINGS * spacing(size, before.dtype)
            none = none and exactly and bool((np.abs(gap) <= least).all())
            rounding = np.maximum(rounding, least)
            large = large or bool((np.abs(gap) > _SHARE * change + rounding).any())
            gaps.append(np.ravel(gap))
            roundings.append(np.ravel(rounding))
        return _Difference(np.concatenate(gaps), np.concatenate(roundings), large, none, clear)

    def _outcome_by_values(self, left: bool) -> Outcome:
        """As `outcome`, by the outputs of function and program alone."""
        runs = False
        for way in range(_WAYS):
            found = self._is_apart_along(way, not left)
            if found:
                return Outcome.APART
            runs = runs or found is not None
            if not (left or self.seen):
                break  # the function equals the program, and no value is known to have left
        return Outcome.ALIKE if runs else Outcome.NOWHERE

    def _is_apart_along(self, way: int, by_law_only: bool) -> bool | None:
        """As `is_apart`, by moves along one direction, in which the effects of several elements may cancel."""
        steps: list[dict[int, _Difference]] = []
        lawful = False  # whether the differences ever followed a power
        for k in range(_STEPS):
            made = {}
            for sign in _SIDES:
                found = self._difference(_moved(self.here, sign * _LONGEST * _SHORTER**-k, way))
                if found is None:
                    continue
                if not (np.abs(found.gap) > found.rounding).any():
                    # On one side Python took another branch, or the difference is lost in rounding.
                    return self._counts(_power(steps, self.order, 2))
                self.seen = True
                made[sign] = found
            if not made:
                continue
            steps.append(made)
            power = _power(steps, self.order)
            if self._counts(power):
                return True
            lawful = lawful or power is not None
        if not steps:
            return None
        return not (by_law_only or lawful) and all(d.large for made in steps for d in made.values())

    def _counts(self, power: int | None) -> bool:
        """Whether a difference by this power of the move changes the derivative that is checked."""
        return power is not None and power <= self.order

    def _difference(self, point: list[Any]) -> _Difference | None:
        function = self.again(point)
        program = None if function is None else self.program_at(point)
        if function is None or program is None:
            return None
        gaps, roundings, large = [], [], False
        for f, p, before in zip(function, program, self.before, strict=True):
            f, p, b = widest(f), widest(p), widest(before)
            good = np.isfinite(f) & np.isfinite(p) & np.isfinite(b)
            size = np.where(good, np.maximum(np.maximum(np.abs(f), np.abs(p)), np.abs(b)), 1.0)
            rounding = _ROUNDINGS * spacing(size, before.dtype)
            gap = np.where(good, f - p, 0.0)
            change = np.where(good, np.maximum(np.abs(f - b), np.abs(p - b)), 0.0)
            large = large or bool((np.abs(gap) > _SHARE * change + rounding).any())
            gaps.append(np.ravel(gap))
            roundings.append(np.ravel(rounding))
        return _Difference(np.concatenate(gaps), np.concatenate(roundings), large)

    def program_at(self, point: list[Any]) -> list[Any] | None:
        """The outputs of the recorded program at a point; None if its ops do not run there."""
        program = self._by_values
        # The function converts the point alike. Scalars and arrays have kernels of their own, which round differently.
        values = [convert_to_tensor(x)._value for x in point]
        env: dict[int, Any] = {i: x for nodes, x in zip(program.sources, values, strict=True) for i in nodes}
        try:
            for node in program.nodes:
                if node.index not in env:
                    if node.kind in ("leaf", "const"):
                        env[node.index] = node.output
                    elif node.index in self.anew:
                        env[node.index] = _body(node, env)
                    else:
                        env[node.index] = program.step(COMPLEX, node, env)
        except Exception:
            return None
        made = [np.asarray(env[i]) for i in program.outputs if is_floating(program.nodes[i].output)]
        fits = [m.shape for m in made] == [b.shape for b in self.before]
        return made if fits else None


def _power(steps: list[dict[int, _Difference]], order: int, count: int = 3) -> int | None:
    """The least power of the move that the last differences follow; None if they follow none.

    The half sum of both sides holds the even powers, and the half difference the odd ones. At a kink of a derivative
    above the order that is checked, as of ``x * abs(x)`` at 0, they hold powers of the other kind, too.

    Parameters
    ----------
    order : int
        The order of the derivative that is checked.
    count : int
        The number of differences on each side.
    """
    last = steps[-count:]
    if len(last) < count or any(set(made) != set(last[0]) for made in last):
        return None
    scale = next(iter(steps[0].values())).rounding  # one scale for all steps, so that small outputs count, too
    if len(last[0]) < len(_SIDES):
        power = _followed([(d.gap, d.rounding) for made in last for d in made.values()], scale) if count > 2 else None
        return None if power is None or power < 1 else power
    found = []
    for rest, sign in ((1, -1), (0, 1)):
        gaps = [((m[1].gap + sign * m[-1].gap) / 2, np.maximum(m[1].rounding, m[-1].rounding)) for m in last]
        power = _followed(gaps, scale)
        if power is not None and not rest and (power < 1 or (power % 2 and power <= order)):
            return None  # Python took another branch, or at a tie the two sides follow different lines
        if power is not None and power > 0 and (power % 2 == rest or power > order):
            found.append(power)
    return min(found, default=None)


def _followed(gaps: list[tuple[Any, Any]], scale: Any) -> int | None:
    """The power that differences follow from step to step; None if they follow none, or may be roundings.

    Parameters
    ----------
    gaps : list of (difference, rounding)
    scale : array
        By which differences are divided.
    """
    if any(np.linalg.norm(gap / rounding) <= _NOISE for gap, rounding in gaps):
        return None
    powers = {_power_between(a / scale, b / scale) for (a, _), (b, _) in pairwise(gaps)}
    return powers.pop() if len(powers) == 1 else None


def _power_between(a: Any, b: Any) -> int | None:
    with np.errstate(all="ignore"):
        exponent = float(np.log(np.linalg.norm(a) / np.linalg.norm(b)) / np.log(_SHORTER))
    if not np.isfinite(exponent):  # without roundings, differences have no scale
        return None
    power = round(exponent)
    return power if _alike(a, b * _SHORTER**power) else None


def _alike(a: Any, b: Any) -> bool:
    return bool(np.linalg.norm(a - b) <= _LIKE * np.linalg.norm(a))


class _Side:
    """The constants of runs at points closer and closer to the recorded one, on one side of it.

    Attributes
    ----------
    points : dict
        The number of a move -> the constants.
    moving : dict
        The place of a constant -> which of its elements change, and are not known to be steps.
    goes_on : bool
        Whether shorter moves may show more.
    """

    def __init__(self, order: int) -> None:
        self.points: dict[int, Constants] = {}
        self.moving: dict[Any, Any] = {}
        self._least = _CLEAR * _SHORTER**order
        self._sizes: dict[Any, Any] = {}  # of the last changes, in ULP
        self._last: dict[Any, Any] = {}  # the last changes
        self._times: dict[Any, Any] = {}  # how often a change was the same

    @property
    def goes_on(self) -> bool:
        return not self.points or any(mask.any() for mask in self.moving.values())

    @property
    def may_settle(self) -> bool:
        """Whether some moving elements change by so much that they would stop at once if they were steps."""
        return any((mask & (self._sizes[place] >= self._least)).any() for place, mask in self.moving.items())

    @property
    def count(self) -> int:
        """The number of moving elements."""
        return sum(int(np.count_nonzero(mask)) for mask in self.moving.values())

    def stopped_early(self, place: Any, spacings: Any) -> Any:
        """Which elements stopped changing while their changes were far above the units of a narrower format.

        Parameters
        ----------
        place : place of a floating constant
        spacings : array
            The relative spacing of the format for each element, or 0.
        """
        if place not in self._sizes:
            return np.zeros(np.shape(spacings), bool)
        made = [found.changed[place][0] for found in self.points.values() if place in found.changed]
        own = spacing_at_one(made[0].real.dtype)
        return self._sizes[place] * own >= self._least * spacings

    def add(self, k: int, found: Constants) -> None:
        """Add the constants of the next move."""
        self.points[k] = found
        for place, (here, there) in found.changed.items():
            change, size = _change(here, there)
            zero = size == 0
            last, sizes = self._last.get(place, np.zeros_like(change)), self._sizes.get(place, np.zeros(size.shape))
            times = np.where((change == last) & ~zero, self._times.get(place, 0) + 1, 1)
            steps = np.where(zero, sizes >= self._least, (times >= _JUMPS) & (size >= self._least))
            self.moving[place] = np.where(zero, self.moving.get(place, False), True) & ~steps
            self._sizes[place] = np.where(zero, sizes, size)
            self._last[place], self._times[place] = change, times
        for place in self.moving.keys() - found.changed.keys():
            self.moving[place] = self.moving[place] & ~(self._sizes[place] >= self._least)
            self._last[place] = np.zeros_like(self._last[place])


def _holds_long_numbers(program: Program) -> bool:
    """Whether some constants of a program have more digits than people write."""
    sources = {i for nodes in program.sources for i in nodes}
    numbers, arrays = set[Any](), list[Any]()
    for node in program.nodes:
        if node.index not in sources:
            for _, value in constants_of(node):
                if np.ndim(value):
                    arrays.append(value)
                else:
                    numbers.add(np.asarray(value)[()])
    return any(v.dtype.kind in "fc" and has_long_numbers(v) for v in map(np.asarray, [*numbers, *arrays]))


def _change(here: Any, there: Any) -> tuple[Any, Any]:
    """The change of each element, and its size in ULP. A change of what is no floating number counts as large."""
    if here.dtype.kind in "biuOSU":
        differs = np.asarray(here != there)
        change = there.astype(np.float64) - here.astype(np.float64) if here.dtype.kind in "iub" else differs * 1.0
        return change, np.where(differs, np.inf, 0.0)
    a, b = widest(here), widest(there)
    with np.errstate(all="ignore"):
        same = (a == b) | ((a != a) & (b != b))
        change = np.where(same, 0.0, b - a)
        larger = np.maximum(np.abs(a), np.abs(b))
        size = np.abs(change) / spacing(np.where(np.isfinite(larger), larger, 1.0), here.dtype)
    return change, np.where(np.isnan(size), np.inf, size)


def _all_values(programs: list[Program], *, exactly: bool) -> list[list[Any]] | None:
    """The outputs of programs; None if an op has no value, or no mirror."""
    try:
        return [_values(program, exactly=exactly) for program in programs]
    except Exception:
        return None


def _values(program: Program, *, exactly: bool) -> list[Any]:
    """The outputs of a program, with its recorded decisions: enclosures, or floats by the kernels."""
    env: dict[int, Any] = {}
    with precision(_BITS), np.errstate(all="ignore"):
        for node in program.nodes:
            if not exactly:
                value = node.output if node.kind in ("leaf", "const") else program.step(COMPLEX, node, env)
            elif node.kind == "op" and (not is_floating(node.output) or is_step(node)):
                value = BALLS.lift(node.output)
            else:
                value = program.step(BALLS, node, env)
            env[node.index] = value
    return [objects(env[i]) if exactly else widest(env[i]) for i in program.outputs]


def _less(a: Any, b: Any) -> Any:
    return _numbers(a - b)


def _numbers(a: Any) -> Any:
    """Enclosures or floats as floats, with 0 for what is not finite."""
    a = to_float(objects(a)) if np.asarray(a).dtype == object else a
    return np.where(np.isfinite(a), a, 0.0)


def _moved(here: list[Any], step: float, way: int, *, far: bool = False, share: float | None = None) -> list[Any]:
    """A point close to the recorded one: each element moves by a share of its size, a 0 by the share itself.

    Parameters
    ----------
    far : bool
        Whether elements below 1 move by the share itself, because a share of a small element may change no number.
    share : float, optional
        By default far from rounding and from other branches.
    """
    rng = np.random.default_rng(41 + way)
    made = []
    for x in here:
        least = spacing_at_one(x.dtype) ** 0.25 if share is None else share
        by = step * least * _part_of(random_moves(x, rng), way)
        size = np.abs(x)
        there = (x + by * (np.maximum(size, 1.0) if far else np.where(x == 0, 1.0, size))).astype(x.dtype)
        if x.dtype.kind == "c":
            parts = _beside(x.real, there.real, by.real), _beside(x.imag, there.imag, by.imag)
            made.append(np.stack(parts, axis=-1).view(x.dtype)[..., 0])
        else:
            made.append(_beside(x, there, by))
    return made


def _part_of(moves: Any, way: int) -> Any:
    """The part of complex moves that belongs to a direction.

    The first directions move both parts. Two later ones move one part each, because Python may take another branch
    wherever the other part moves, as at numbers whose imaginary part is 0.
    """
    if moves.dtype.kind != "c" or way not in _AXES:
        return moves
    axis = _AXES[way]
    return (moves * axis.conjugate()).real * (axis + 0j)


def _beside(x: Any, there: Any, by: Any) -> Any:
    """Moved numbers; a move below rounding becomes one by a unit in the last place."""
    stays = (there == x) & (by != 0)
    return np.where(stays, np.nextafter(x, np.where(by > 0, np.inf, -np.inf).astype(x.dtype)), there)


def _body(node: Node, env: dict[int, Any]) -> Any:
    """The result of the function of a custom gradient for other values of its inputs."""
    function, args, kwargs = node.call
    flat = nest.flatten(list(args))
    fresh = [
        wrap(np.asarray(env[j])) if isinstance(x, (Tensor, Variable)) else x
        for x, j in zip(flat, node.inputs[: len(flat)], strict=True)
    ]
    with repeating():
        y, _ = function(*nest.pack_sequence_as(list(args), fresh), **kwargs)
    made = [convert_to_tensor(t)._value for t in nest.flatten(y)]
    return tuple(made) if isinstance(node.output, tuple) else made[0]
