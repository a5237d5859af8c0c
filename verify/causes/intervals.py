"""The limits of derivatives on the sides of a point: intervals, and whether enclosures at two steps converge."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from flint import arb

from gtape.symbolic.balls import objects, precision
from gtape.verify.verdicts.ulp import ROUNDINGS, spacing

__all__ = [
    "BITS", "CLOSE_TO_LIMIT", "EVEN_STEPS", "LEAP", "LEAPS", "NOTHING", "STEPS", "Interval", "distance_from",
    "diverges", "end_grows", "grows", "has_settled", "interval_of", "is_rounded", "limits_of", "middle",
    "opened_hulls", "powers_limits", "shrinks",
]  # fmt: skip

BITS = 6000  # enclosures of differences such as x − sin(x) keep digits at the smallest step
# Below the smallest subnormal number, because a float may lie that close to another kink.
STEPS = (-1200, -1300)
LEAP = arb(2) ** -150  # relative to its size, no value without a jump moves so much by the first step
EVEN_STEPS = (-1200, -1300, -1400, -1500)  # for limits that powers of the step approach
LEAPS = (-(2**16), -(2**48))  # exponents of steps for limits that even logarithms of the step approach
CLOSE_TO_LIMIT = arb(2) ** -60  # relative distance of a limit from a number that is one
NOTHING = arb(2) ** -1100  # less than all floats
# Powers of two by which a distance shrinks from the first step to the second if its limit is 0.
_SHRINKS = 25  # half as many as for a distance that shrinks as the root of the step does
_SETTLED = arb(2) ** -20  # relative change from step to step of an end that has come to its limit
_GOES_ON = arb(0.75)  # change at the second step, relative to the first, of an end that moves on
_EVEN = arb(2) ** -40  # relative distance of equal ratios, and what their limit may be off
_FAR = 100  # bits by which derivatives may differ from their limit more than the points


class Interval(NamedTuple):
    """The limits of one element of a derivative: enclosures of the least and the greatest limit."""

    low: arb
    high: arb
    agree: bool

    def limit(self) -> arb:
        """An enclosure of the limit of all sides, if these agree."""
        with precision(BITS):
            # The derivatives at the second step differ from their limit about as much as from one another.
            apart = abs(self.high - self.low) + abs(self.low) * arb(2) ** (STEPS[1] + 2 * _SHRINKS)
            limit = self.low + arb(0, apart.upper())
            # The digits of an enclosure of 0, and of a number that shrinks with the steps, would be noise.
            return arb(0, limit.abs_upper()) if limit.contains(0) or limit.abs_upper() < NOTHING else limit

    def negative(self) -> Interval:
        """The interval of the element's negative."""
        return Interval(-self.high, -self.low, self.agree)

    def __str__(self) -> str:
        # The sum with 0 has no sign if it is 0.
        return f"[{float(self.low.mid()) + 0.0:.6g}, {float(self.high.mid()) + 0.0:.6g}]"


def distance_from(x: Any, hull: tuple[arb, arb]) -> arb:
    """The distance of a number from an interval; 0 inside."""
    x = arb(x)
    for gap in (hull[0] - x, x - hull[1]):
        if gap > 0:
            return arb(gap.mid())
    return arb(0)


def is_rounded(x: Any, interval: Interval, dtype: Any, room: float = 0.0) -> bool:
    """Whether a number is an end of its interval, up to the rounding of an elementwise derivative, or up to `room`."""
    ends = [float(e.mid()) for e in (interval.low, interval.high)]
    return any(abs(float(arb(x).mid()) - e) <= max(room, ROUNDINGS * spacing(e, dtype)) for e in ends)


def shrinks(first: arb, second: arb) -> bool:
    """True if a distance converges to 0 with the step, or both steps leave open whether it is 0."""
    return (first.contains(0) and second.contains(0)) or bool(second.mid() <= first.mid() * arb(2) ** -_SHRINKS)


def diverges(first: tuple[arb, arb], second: tuple[arb, arb]) -> bool:
    """True if an end of an interval does not converge with the step, as next to a pole."""
    size = max(abs(p.mid()) for p in second)
    return any(_end_diverges(p, q, size) for p, q in zip(first, second, strict=True))


def _end_diverges(p: arb, q: arb, size: arb) -> bool:
    return not (p - q).contains(0) and bool(abs(p - q).mid() > size * arb(2) ** -20) and not shrinks(abs(p), abs(q))


def has_settled(number: Any, hulls: Sequence[tuple[arb, arb]]) -> bool:
    """Whether a number between the derivatives at the first step certainly lies between their limits.

    An end of the hull has come to its limit, goes away from the number, or comes to it so fast that the number is the
    limit.
    """
    x, (_, q, r) = arb(number), hulls
    size = max(abs(e.mid()) for e in (*q, *r))
    return all(
        _end_has_settled(gaps, size) for gaps in ([x - low for low, _ in hulls], [high - x for _, high in hulls])
    )


def _end_has_settled(gaps: Sequence[arb], size: Any) -> bool:
    """Whether an end of a hull, given by its distances from a number at three steps, stays or goes on from there."""
    p, q, r = gaps
    if bool(q > p) and bool(r - q >= (q - p) * _GOES_ON):
        return True
    return all(abs(v - u).mid() <= size * _SETTLED or shrinks(abs(u), abs(v)) for u, v in ((p, q), (q, r)))


def powers_limits(hulls: Sequence[tuple[arb, arb]]) -> tuple[tuple[arb, arb], tuple[arb, arb]] | None:
    """The last hull and the limit of hulls at even steps whose ends differ from their limits by powers of the step.

    None if an end does not change by the same factor each time.
    """
    if len(hulls) != len(EVEN_STEPS):
        return None
    ends = [_power_limit([hull[k] for hull in hulls]) for k in (0, 1)]
    if ends[0] is None or ends[1] is None:
        return None
    return hulls[-1], (ends[0], ends[1])


def _power_limit(values: Sequence[arb]) -> arb | None:
    """The limit of numbers whose changes shrink by one factor."""
    a, b, c = [p - q for p, q in itertools.pairwise(values)]
    size = abs(values[-1].mid())
    if abs(c) <= size * _EVEN or c.contains(0):
        return values[-1]
    if not abs(b * b - a * c) <= abs(b * b) * _EVEN or not (c / b > 0) or not (c / b < 1):
        return None
    rest = c * c / (b - c)
    limit = values[-1] - rest
    return arb(0) if abs(limit) <= _EVEN * abs(rest) else arb(limit.mid())


def interval_of(first: tuple[arb, arb], second: tuple[arb, arb]) -> Interval:
    """The interval of hulls at two steps, whose ends agree if their distance converges to 0.

    Of ends that differ, one that comes to 0 with the step is 0, as the slope 0 to which that of ``exp(-1 / x)`` comes.
    """
    width = second[1] - second[0]
    if not width > 0 or (width.is_finite() and shrinks(first[1] - first[0], width)):
        return Interval(*second, True)
    low, high = [arb(0) if q.is_finite() and shrinks(abs(p), abs(q)) else q for p, q in zip(first, second, strict=True)]
    return Interval(low, high, False)


def grows(first: tuple[arb, arb], second: tuple[arb, arb], third: tuple[arb, arb] | None) -> bool:
    """True if an end of an interval grows from step to step, at least as the logarithm of the step does."""
    return any(end_grows(p, q, r) for p, q, r in zip(first, second, third or (), strict=False))


def end_grows(p: arb, q: arb, r: arb) -> bool:
    a, b, c = abs(p), abs(q), abs(r)
    return bool(b - a > a * arb(2) ** -6) and bool(c - b > (b - a) * _GOES_ON)


def opened_hulls(
    first: tuple[arb, arb], second: tuple[arb, arb], third: tuple[arb, arb] | None
) -> tuple[tuple[arb, arb], tuple[arb, arb]] | None:
    """The hulls with an infinity for an end that grows without bound; None unless the other end converges.

    So a root beside a line has all slopes from that of the line to infinity.
    """
    diverging = [_end_diverges(p, q, abs(q.mid())) for p, q in zip(first, second, strict=True)]
    if third is None or sum(diverging) != 1:
        return None
    k = diverging.index(True)
    if not end_grows(first[k], second[k], third[k]) or not (second[1] > 0 if k else second[0] < 0):
        return None
    if k:
        return (first[0], arb("inf")), (second[0], arb("inf"))
    return (arb("-inf"), first[1]), (arb("-inf"), second[1])


def limits_of(arrays: Sequence[Any]) -> Any:
    """The limits of the elements of arrays that converge; None if they differ."""
    first = objects(arrays[0])
    limits = np.empty(first.shape, dtype=object)
    largest = max([abs(arb(e)) for e in first.ravel().tolist()], default=arb(0), key=middle)
    for index in np.ndindex(*first.shape):
        values = [arb(objects(a)[index]) for a in arrays]
        low, high = min(values, key=middle), max(values, key=middle)
        if not high - low <= largest * arb(2) ** (STEPS[1] + _FAR):
            return None
        limits[index] = Interval(low, high, True).limit()
    return limits


def middle(x: arb) -> Any:
    return x.mid()
