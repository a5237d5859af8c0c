"""Difference quotients of a function at a point that a guard fills, as ``where(x == 0, 0, x**2 * sin(1 / x))`` at 0.

The derivatives beside such a point need not have limits there, although the derivative at the point exists: it is the
limit of the difference quotients, by definition. If these have no limit, there is no derivative. At order 2 they are
the quotients of the first derivative, by the element of this derivative.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import arb

from gtape.symbolic.balls import digits, finite_ball, numbers_shared, objects, precision, to_float
from gtape.verify.causes.beside import OtherShapes, scale_of
from gtape.verify.causes.effort import FEWER
from gtape.verify.causes.intervals import BITS, STEPS, Interval, distance_from, interval_of, middle, shrinks
from gtape.verify.causes.limits import NO_LIMITS
from gtape.verify.causes.lines import Lines
from gtape.verify.causes.points_beside import NEAREST, SHARP, Place
from gtape.verify.causes.sides import Sides
from gtape.verify.oracles.enclosures import BALLS, inner, is_complex, jet_world, zeros
from gtape.verify.oracles.oracle import Oracle, TooDeep
from gtape.verify.verdicts.ulp import ROUNDINGS, spacing
from gtape.verify.verdicts.verdict import Finding, merged

__all__ = ["no_quotient", "quotients_beside", "with_quotients"]

# Quotients at each step on each side. Of a few, all may have one sign by chance, although they oscillate around 0.
_SIZES = 8
_MOST_WORK = 200_000  # numbers of programs that all quotients evaluate
_WIDE = arb(2) ** -20  # relative to its ends, the least width of an interval in which quotients oscillate


class _Quotients(Lines):
    """The difference quotients of a program at the recorded point."""

    def intervals(self, places: Sequence[Place]) -> dict[Place, Interval | None]:
        """As `quotients_beside`."""
        rng = np.random.default_rng(71)
        self.here = self._evaluated()
        found: dict[Place, Interval | None] = {}
        for place in places:
            weights = self._weights(place)
            if weights is None:
                continue
            self.weighted = weights
            known = self._interval({place: arb(1)}, rng)
            if known is not None:
                found[place] = known[0]
        limits = {place: i for place, i in found.items() if i is not None and i.agree}
        if len(limits) > 1 and not self._is_linear(limits, rng):
            return {place: i for place, i in found.items() if place not in limits}
        return found

    def _is_linear(self, limits: dict[Place, Interval], rng: Any) -> bool:
        """Whether the quotients along a direction of several elements come to the sum of those along each."""
        ways = {place: arb(rng.uniform(0.5, 1.0) * rng.choice([-1.0, 1.0])) for place in limits}
        known = self._interval(ways, rng)
        if known is None or known[0] is None or not known[0].agree:
            return False
        total = sum([limits[place].limit() * way * self._scale(place) for place, way in ways.items()], arb(0))
        return bool((known[0].limit() - total).contains(0))

    def _scale(self, place: Place) -> arb:
        s, index = place
        return arb(objects(scale_of(self.here[self.program.sources[s][0]]))[index])

    def _interval(self, ways: dict[Place, arb], rng: Any) -> tuple[Interval | None] | None:
        """The limits of the quotients along a direction; (None,) if these oscillate, None if they stay open.

        Along one element they are the quotients by that element; along several, by the step.
        """
        self.element = next(iter(ways))
        moves: dict[int, Any] = {}
        for s, nodes in enumerate(self.program.sources):
            for i in nodes:
                moved = objects(zeros(self.program.nodes[i].shape)).copy()
                for (source, index), way in ways.items():
                    if source == s:
                        moved[index] = way * self._scale((source, index))
                moves[i] = moved
        unit = self._scale(next(iter(ways))) if len(ways) == 1 else arb(1)
        sizes = [arb(float(v)) for v in rng.uniform(0.5, 1.0, _SIZES)]
        sides: list[tuple[tuple[arb, arb], tuple[arb, arb]]] = []
        for sign in (-1, 1):
            # A constant at the point itself, such as 1/24, may be rounded.
            origin = self._sharp_value(moves, sign * arb(2) ** NEAREST)
            hulls, of_values = [], []
            for step in STEPS:
                quotients, values = [], []
                for size in sizes:
                    move = sign * size * arb(2) ** step
                    value = self._sharp_value(moves, move)
                    if value is None or origin is None:
                        return None
                    values.append(value)
                    quotients.append((value - origin) / ((move - sign * arb(2) ** NEAREST) * unit))
                hulls.append((min(quotients, key=middle), max(quotients, key=middle)))
                of_values.append((min(values, key=middle), max(values, key=middle)))
            if _oscillates(*of_values):
                return (None,)  # no value at the point continues the first derivative
            sides.append((hulls[0], hulls[1]))
        if any(_oscillates(*side) for side in sides):
            return (None,)
        if not all(_converges(*side) for side in sides):
            return None
        first, second = [
            (min(sides[0][k][0], sides[1][k][0], key=middle), max(sides[0][k][1], sides[1][k][1], key=middle))
            for k in (0, 1)
        ]
        if all(shrinks(abs(p), abs(q)) for p, q in zip(first, second, strict=True)):
            return (Interval(arb(0), arb(0), True),)
        return (interval_of(first, second),)

    def _sharp_value(self, moves: dict[int, Any], step: arb) -> arb | None:
        """The value whose quotients count, at a step along moves; None if the value is not well known."""
        value = self._weighted_slope if self.order == 2 else self._weighted_value
        total = value(self.weighted, moves, step)
        if total is None or not finite_ball(total):
            return None
        return total if total.rad() <= SHARP * abs(total.mid()) or total.rad() <= arb(2) ** -2000 else None

    def _weighted_slope(self, weights: dict[int, Any], moves: dict[int, Any], step: arb) -> arb | None:
        """As `_weighted_value`, for the derivative of the weighted sum by the element."""
        env = None if self.has_declared else self._beside(moves, step)
        if env is None:
            return None
        program, (s, index) = self.program, self.element
        mark = next(n.mark for n in program.nodes if n.mark is not None)  # `_weights` demands the only one
        way = zeros(program.nodes[program.sources[s][0]].shape)
        way[index] = 1

        def slope(oracle: Oracle) -> list[Any]:
            ways = {i: [way] for i in program.sources[s]}
            jets = oracle.jets(1, ways, program.ancestors(list(weights)), None, (mark.session,))
            return [sum([inner(w, jet_world(1).component(jets[i], 1)) for i, w in weights.items()], arb(0))]

        return arb(self._derived(env, slope)[0])


def _converges(first: tuple[arb, arb], second: tuple[arb, arb]) -> bool:
    """Whether the width of hulls of quotients comes to 0 with the step."""
    return shrinks(first[1] - first[0], second[1] - second[0])


def _oscillates(first: tuple[arb, arb], second: tuple[arb, arb]) -> bool:
    """Whether quotients keep to a wide interval at both steps."""
    wide = all(bool(high - low > _WIDE * (abs(low) + abs(high))) for low, high in (first, second))
    apart = first[1] < second[0] or second[1] < first[0]
    return wide and not apart and not _converges(first, second)


def no_quotient(order: int) -> str:
    """Why there is no derivative of some order if difference quotients oscillate."""
    of = "the function as a whole" if order == 1 else "the first derivative"
    return f"the difference quotients of {of} oscillate beside this point"


def quotients_beside(sides: Sides, order: int) -> dict[Place, Interval | None]:
    """The limits of difference quotients along the elements by which the derivatives on several sides differ.

    Parameters
    ----------
    sides : Sides
        After a comparison with the derivatives on all sides.
    order : int
        Of the derivative.

    Returns
    -------
    dict
        Element -> the interval of the limits on both sides; None for an element along which quotients oscillate. An
        element is left out if its quotients stay open, or if the function has no derivative although it has one along
        each element. There are none for complex numbers, for functions that contain inner gradients, for mixed second
        derivatives, and for orders above 2.
    """
    program, places = sides.program, list(sides.varied)
    real = not any(sides.split) and not any(is_complex(program.nodes[i].output) for i in program.outputs)
    cost = program.size * len(places) * 2 * (2 * _SIZES + 1)
    if (
        not places
        or not real
        or sides.jumps
        or sides.differentiates != (order == 2)
        or sides.way is not None
        or cost > _MOST_WORK
    ):
        return {}
    found: dict[Place, Interval | None] = {}
    for bits in (FEWER, BITS):
        with (
            precision(bits), numbers_shared(),
            contextlib.suppress(ArithmeticError, ValueError, TypeError, IndexError, TooDeep, OtherShapes),
        ):  # fmt: skip
            found = _Quotients(program, sides.oracle, order=order).intervals(places)
        if len(found) == len(places):
            break
    return found


def with_quotients(
    sides: Sides, exact: list[Any], by_convention: list[Any], got: list[Any], known: list[Finding],
    guards: Sequence[Finding], order: int, *, claimed: bool,
) -> tuple[list[Finding], list[Any]]:  # fmt: skip
    """The findings with those for numbers at guarded points that differ from the limits of difference quotients.

    Parameters
    ----------
    sides : Sides
        After a comparison with the derivatives on all sides.
    exact : list of object arrays of enclosures, or None
        With claims that lie between the derivatives on all sides.
    by_convention : list of object arrays of enclosures, or None
        The derivative by the branches that the point takes.
    got : list of arrays or None
    known : list of Finding
        Of the comparison with the derivatives on all sides. If these come to no limits, the quotients may decide all
        numbers.
    guards : sequence of Finding
        Not empty.
    order : int
    claimed : bool
        Whether `got` are claims. A number of the tape follows the branch if there is no derivative, and so may a claim.

    Returns
    -------
    findings : list of Finding
    exact : list
        With the limit in place of each element that has one, and each number that has a finding in place of its own.
    """
    who, wrong, exact = guards[0], [], list(exact)
    quotients = quotients_beside(sides, order)
    if sides.open == NO_LIMITS and _decide_all(quotients, got):
        known = [f for f in known if f.reason != NO_LIMITS] or list(guards)
    for (s, index), interval in quotients.items():
        if got[s] is None or (interval is None and not claimed):
            continue
        number, agree = np.asarray(got[s])[index].item(), interval is not None and interval.agree
        if interval is not None and not agree and not _is_outside(sides, number, interval):
            continue
        convention = arb(0) if by_convention[s] is None else arb(objects(by_convention[s])[index])
        limit = interval.limit() if interval is not None and agree else convention
        near = float(to_float(objects(limit)).item())
        is_limit = np.isfinite(number) and abs(number - near) <= ROUNDINGS * spacing(near, np.asarray(got[s]).dtype)
        passes = bool(is_limit) and (agree or interval is None)
        exact[s] = objects(np.broadcast_to(objects(arb(0)) if exact[s] is None else exact[s], np.shape(got[s]))).copy()
        exact[s][index] = limit if passes else objects(BALLS.lift(np.asarray(got[s])))[index]
        if passes:
            continue
        at: dict[str, Any] = {"order": order, "op": who.op, "line": who.line, "element": (s, index), "got": number}
        if interval is None:
            reason = (
                f"{no_quotient(order)}, so there is no derivative here; the number by the branch taken is {near:.6g}"
            )
            wrong.append(Finding("domain", reason=reason, ok=False, **at))
            continue
        gives = "the claim is" if claimed else f"the convention of {who.op} at its kink gives"
        if agree:
            reason = "the function as a whole has a derivative here: its difference quotients have a limit"
            reason += f", but {gives} another number"
            at |= {"exact": digits(limit), "cause": "derivative"}
        else:
            reason = f"the one-sided derivatives of the function as a whole lie in {interval}, but {gives} "
            reason += "a number outside"
            at["cause"] = "interval"
        wrong.append(Finding("convention", reason=reason, inside=False, **at))
    return [*merged(wrong), *known], exact


def _decide_all(quotients: dict[Place, Interval | None], got: list[Any]) -> bool:
    """Whether difference quotients decide each of some numbers."""
    places = {(s, index) for s, g in enumerate(got) if g is not None for index in np.ndindex(*np.shape(g))}
    # The interval of one element of several does not decide, see `_is_outside`.
    return places == set(quotients) and (len(places) == 1 or all(i is None or i.agree for i in quotients.values()))


def _is_outside(sides: Sides, number: float, interval: Interval) -> bool:
    """Whether a number lies outside of the one-sided derivatives of a function of one number.

    Derivatives of more numbers have limits beside the point, such as those of a cone, that no axis meets.
    """
    elements = sum(np.size(sides.program.nodes[nodes[0]].output) for nodes in sides.program.sources if nodes)
    if elements > 1 or not np.isfinite(number):
        return elements == 1
    return bool(distance_from(number, interval[:2]) > abs(arb(number)) * arb(2) ** -20)
