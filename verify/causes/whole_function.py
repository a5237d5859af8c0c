"""Numbers at kinks, judged by the derivatives of the function as a whole on all sides.

A number passes if it is the limit of all sides, or lies in their interval where they differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flint import arb

from gtape.symbolic.balls import digits, objects, to_float
from gtape.verify.causes.complex_parts import in_parts, joined
from gtape.verify.causes.conventions import is_on_a_cut
from gtape.verify.causes.deciders import Deciders
from gtape.verify.causes.intervals import NOTHING, Interval, distance_from, is_rounded, middle
from gtape.verify.causes.joint import Across
from gtape.verify.causes.points_beside import Place
from gtape.verify.causes.sides import TOO_WIDE, UNBOUNDED, Sides
from gtape.verify.oracles.enclosures import BALLS
from gtape.verify.verdicts.ulp import ROUNDINGS, digits_of, spacing, widest
from gtape.verify.verdicts.verdict import Finding, merged

__all__ = [
    "along_directions",
    "as_a_whole",
    "crosses_smoothly",
    "lie_between_sides",
    "outside_of_sides",
    "without_derivative",
]

_SAME = arb(2) ** -100  # the relative distance of derivatives on two sides of a cut that are one
_PARTS = ("real part", "imaginary part")


def as_a_whole(
    sides: Sides,
    exact: list[Any],
    got: list[Any],
    findings: list[Finding],
    order: int,
    *,
    guards: Sequence[Finding] = (),
    claimed: bool = False,
    rounding: Callable[[], list[Any] | None] | None = None,
    deciders: Deciders | None = None,
) -> tuple[list[Finding], list[Any], list[Any]]:
    """The findings of ops at kinks, judged by the one-sided derivatives of the whole function.

    Parameters
    ----------
    sides : Sides
    exact : list of object arrays of enclosures, or None
        The derivative by the conventions of the ops.
    got : list of arrays or None
        The numbers to judge: those of the tape, or claims of another library.
    findings : list of Finding
        The conventions met; `inside` and `ok` are set for the whole function.
    order : int
    guards : sequence of Finding
        The decisions that keep the program off a point where it is not defined. They are reported only if the function
        as a whole has another derivative there.
    claimed : bool
        Whether `got` are claims, which may follow conventions of their own.
    rounding : callable, optional
        Returns how far the program's own roundings may move each element. They may have decided a tie, so that a number
        with half of its digits right is no convention.
    deciders : Deciders, optional
        Tells which of several ops at kinks decides a wrong number; by default the first op is named.

    Returns
    -------
    findings : list of Finding
        The findings for elements outside their intervals, with the farthest element and the number of elements, then
        the given ones.
    exact : list
        With each claim that lies inside its interval in place of the number by the conventions of the ops.
    got : list
        With a large number in place of each claim at a kink that is infinite or NaN, as in `exact`.
    """
    parts, numbers = in_parts(sides.split, exact), _floats_in_parts(sides.split, got)
    if any(sides.split):
        rounding = None
    findings, parts, numbers = _as_a_whole(sides, parts, numbers, findings, order, guards, claimed, rounding, deciders)
    return findings, joined(sides.split, parts), _floats_joined(sides.split, numbers)


def _as_a_whole(
    sides: Sides,
    exact: list[Any],
    got: list[Any],
    findings: list[Finding],
    order: int,
    guards: Sequence[Finding],
    claimed: bool,
    rounding: Callable[[], list[Any] | None] | None,
    deciders: Deciders | None,
) -> tuple[list[Finding], list[Any], list[Any]]:
    """As `as_a_whole`, for the parts of complex numbers."""
    outside, smooth = sides.limits(exact), False
    if outside is None and sides.open and (findings or claimed or sides.open == TOO_WIDE):
        findings = [*findings, _left_open(sides, [*findings, *guards], order)]
        return findings, (_as_claimed(exact, got) if claimed and sides.misshapen else exact), got
    if sides.unbounded is not None and (findings or claimed):
        s, index = sides.unbounded
        number = None if got[s] is None else np.asarray(got[s])[index].item()
        if number is not None and np.isfinite(number):
            who = next((f for f in [*findings, *guards] if f.op is not None), None)
            found = Finding(
                "domain", order=order, op=None if who is None else who.op, line=None if who is None else who.line,
                element=(s, index[:-1] if sides.split[s] else index), got=number,
                reason=f"{UNBOUNDED}, so there is no finite derivative here",
            )  # fmt: skip
            return [found, *findings], exact, got
    # A guard decides where the function jumps, or where its slopes on two sides differ, or one is infinite.
    deciding = list(guards) if sides.jumps or sides.varied or sides.unbounded is not None else []
    if outside is None and not findings:
        return deciding, exact, got
    if outside is not None:
        smooth = any(map(is_on_a_cut, findings)) and sides.agree(exact)  # across all branch cuts
        for f in findings:
            f.inside = f.ok = True
    elif claimed:
        outside = [{} for _ in exact]
    else:
        return findings, exact, got
    known = [*findings, *guards]
    who = next((f for f in known if f.op is not None), known[0])
    wrong: list[tuple[float, Finding]] = []
    if claimed:
        exact, outside = _with_claims(sides, exact, got, outside, rounding)
        if sides.misshapen:
            return [*findings, _left_open(sides, known, order)], _as_claimed(exact, got), got
    elif rounding is not None and any(outside):
        outside = _beyond_roundings(outside, got, rounding() or [None] * len(got))
    for s, out in enumerate(outside):
        for index, interval in out.items():
            number = None if got[s] is None else np.asarray(got[s])[index].item()
            by = (None if deciders is None else deciders.of(known, s, index)) or who
            gives = "the claim is" if claimed else f"the convention of {by.op} at its kink gives"
            far, found = _outside_of(interval, (s, index), number, by, order, gives, is_split=sides.split[s])
            wrong.append((-far, found))
            if number is not None and not np.isfinite(number):
                got = [g if k != s else np.array(g) for k, g in enumerate(got)]
                got[s][index] = _far(got[s][index])
    if sides.across is not None:
        wrong.append((0.0, along_directions(sides.across, who, got, order, sides.split)))
    worst_first = [f for _, f in sorted(wrong, key=lambda one: one[0])]
    if smooth and not wrong:
        findings = [f for f in findings if not is_on_a_cut(f)]
    return [*merged(worst_first), *findings] or deciding, exact, got


def _outside_of(
    interval: Interval, place: Place, number: float | None, by: Finding, order: int, gives: str, *, is_split: bool
) -> tuple[float, Finding]:
    """How far a number is from the interval of an element, and the finding about it.

    Parameters
    ----------
    interval : Interval
    place : place of the element
    number : float or None
    by : Finding
        Of the op that is named.
    order : int
    gives : str
        The subject and verb for the number, in words.
    is_split : bool
        Whether the last index of the place tells the part of a complex number.
    """
    s, index = place
    far = np.inf if number is None or not np.isfinite(number) else float(distance_from(number, interval[:2]))
    if is_split and index[-1]:  # the parts are those of conjugates
        number, interval = None if number is None else -number, interval.negative()
    if interval.agree:
        reason = "the function as a whole has a derivative here: all one-sided derivatives agree"
        reason += f", but {gives} another number"
    else:
        reason = f"the one-sided derivatives of the function as a whole lie in {interval}, but {gives} "
        reason += "a number outside"
    truth = digits(interval.low) if interval.agree else None
    told: dict[str, Any] = {"element": (s, index), "got": number, "exact": truth, "inside": False}
    told["cause"] = "derivative" if interval.agree else "interval"
    if is_split:
        reason += ", in the imaginary part" if index[-1] else ", in the real part"
        told["element"] = s, index[:-1]
    return far, Finding("convention", order=order, op=by.op, line=by.line, reason=reason, **told)


def _left_open(sides: Sides, known: list[Finding], order: int) -> Finding:
    """The finding that the derivatives on all sides are not known."""
    who = next((f for f in known if f.op is not None), None)
    at = {} if who is None else {"op": who.op, "line": who.line}
    return Finding("undecided", order=order, reason=sides.open, **at)


def _as_claimed(exact: list[Any], got: list[Any]) -> list[Any]:
    """The finite claims in place of the exact numbers, because the conventions of the ops do not refute them."""
    made = []
    for e, g in zip(exact, got, strict=True):
        if g is None or not np.isfinite(g).all():
            made.append(e)
        else:
            made.append(objects(BALLS.lift(np.asarray(g))))
    return made


def without_derivative(
    places: Sequence[Place], alone: list[Finding], exact: list[Any], got: list[Any], order: int, *, claimed: bool
) -> tuple[list[Finding], list[Any], list[Any]]:
    """The findings for elements by which the function has no derivative, because it has values at the point alone.

    Parameters
    ----------
    places : sequence of places
        These elements.
    alone : list of Finding
        The findings of ops that have a value at the point alone.
    exact, got, claimed
        As for `as_a_whole`.

    Returns
    -------
    findings : list of Finding
        With a finding for the claims other than the numbers by the conventions of the ops.
    exact, got : list
        With zeros in place of these claims.
    """
    if not claimed:
        return alone, exact, got
    wrong, who = [], alone[0]
    exact, got = list(exact), list(got)
    for s, index in places:
        if got[s] is None or np.asarray(got[s]).dtype.kind == "c":
            continue
        number = np.asarray(got[s])[index].item()
        number_here = 0.0 if exact[s] is None else float(to_float(objects(exact[s])[index]))
        if abs(number - number_here) <= ROUNDINGS * spacing(number_here, np.asarray(got[s]).dtype):
            continue
        shape = np.shape(got[s])
        exact[s] = objects(np.broadcast_to(objects(arb(0)) if exact[s] is None else objects(exact[s]), shape)).copy()
        got[s] = np.array(got[s])
        exact[s][index], got[s][index] = arb(0), 0.0
        wrong.append(
            Finding(
                "domain", order=order, op=who.op, line=who.line, element=(s, index), got=number, ok=False,
                reason=f"{who.reason}; the number by convention is {number_here:.6g}",
            )
        )  # fmt: skip
    return [*merged(wrong), *alone], exact, got


def crosses_smoothly(sides: Sides, exact: list[Any], signed: list[Any]) -> bool:
    """Whether the function as a whole is smooth at a point on branch cuts, so that the signs of zeros do not matter.

    Parameters
    ----------
    sides : Sides
    exact : list of object arrays of enclosures, or None
        The derivative by the conventions of the ops.
    signed : list of such arrays
        The derivative on the sides that the signs of zeros tell.
    """
    parts = in_parts(sides.split, exact)
    outside = sides.limits(parts)
    if outside is None or any(outside) or not sides.agree(parts):
        return False
    pairs = [(p, q) for p, q in zip(parts, in_parts(sides.split, signed), strict=True) if p is not None]
    gaps = [abs(arb(e)) for p, q in pairs for e in objects(objects(p) - objects(q)).ravel().tolist()]
    most = max([abs(arb(e)) for p, _ in pairs for e in objects(p).ravel().tolist()], key=middle, default=arb(0))
    return all(gap.contains(0) or gap <= NOTHING or gap <= _SAME * most for gap in gaps)


def lie_between_sides(sides: Sides, got: list[Any], rounding: Callable[[], list[Any] | None] | None = None) -> bool:
    """Whether all numbers lie between the one-sided derivatives of the whole function. False if the sides are open.

    Parameters
    ----------
    sides : Sides
    got : list of finite arrays or None
    rounding : callable, optional
        As for `as_a_whole`.
    """
    numbers = _floats_in_parts(sides.split, got)
    outside = _beyond_sides(sides, numbers)
    if outside is not None and rounding is not None and any(outside):
        outside = _beyond_roundings(outside, numbers, rounding() or [None] * len(numbers))
    return outside is not None and not any(outside)


def _beyond_sides(sides: Sides, numbers: list[Any]) -> list[dict[tuple[int, ...], Interval]] | None:
    return sides.limits([None if g is None else objects(BALLS.lift(g)) for g in numbers])


def outside_of_sides(sides: Sides, got: list[Any], by: Finding, order: int) -> list[Finding] | None:
    """The findings for claims that do not lie between the one-sided derivatives of the whole function, up to the
    rounding of the ends; None if the sides are open.

    Parameters
    ----------
    sides : Sides
    got : list of finite arrays or None
    by : Finding
        Of the op without a derivative.
    order : int
    """
    numbers = _floats_in_parts(sides.split, got)
    with sides.jointly(numbers, convex=True):
        outside = _beyond_sides(sides, numbers)
    if outside is None:
        return None
    wrong = []
    for s, out in enumerate(outside):
        for index, interval in out.items():
            number, dtype = np.asarray(numbers[s])[index].item(), np.asarray(numbers[s]).dtype
            if not is_rounded(number, interval, dtype):
                wrong.append(
                    _outside_of(interval, (s, index), number, by, order, "the claim is", is_split=sides.split[s])
                )
    if not wrong and sides.across is not None:
        return [along_directions(sides.across, by, numbers, order, sides.split)]
    return merged([f for _, f in sorted(wrong, key=lambda one: -one[0])])


def along_directions(apart: Across, who: Finding, got: list[Any], order: int, split: Sequence[bool]) -> Finding:
    """The finding for claims that differ along a direction of several elements.

    Parameters
    ----------
    split : sequence of bool
        For each source, whether the last index of its elements tells the part of a complex number.
    """
    s, index = apart.places[0]
    # The parts are those of conjugates.
    signs = [-1.0 if split[k] and at[-1] else 1.0 for k, at in apart.places]
    shown = apart._replace(moves=[sign * move for sign, move in zip(signs, apart.moves, strict=True)])
    agree = apart.low == apart.high
    reason = (
        f"along {shown} of elements {_named(apart.places, split)} {'all' if agree else 'the'} one-sided derivatives of "
        f"the function as a whole {'are' if agree else 'lie in'} {_range(apart)}, but the claims give "
        f"{apart.claimed:.6g}"
    )
    number = signs[0] * np.asarray(got[s])[index].item()
    at = index[:-1] if split[s] else index
    return Finding(
        "convention", order=order, op=who.op, line=who.line, element=(s, at), got=number, inside=False, reason=reason
    )


def _range(apart: Across) -> str:
    """The derivatives along a direction, as text."""
    return f"{apart.low:.6g}" if apart.low == apart.high else f"[{apart.low:.6g}, {apart.high:.6g}]"


def _named(places: list[tuple[int, tuple[int, ...]]], split: Sequence[bool]) -> str:
    """The first of some elements, as text."""
    several, words = len({s for s, _ in places}) > 1, []
    for s, index in places[:4]:
        word = str(list(index[:-1])) + f" ({_PARTS[index[-1]]})" if split[s] else str(list(index))
        words.append(f"{word} of source {s}" if several else word)
    return ", ".join(words) + (", ..." if len(places) > len(words) else "")


def _beyond_roundings(
    outside: list[dict[tuple[int, ...], Interval]], got: list[Any], rounding: list[Any]
) -> list[dict[tuple[int, ...], Interval]]:
    """The intervals of the numbers that the program's own roundings do not explain."""
    left: list[dict[tuple[int, ...], Interval]] = []
    for out, g, room in zip(outside, got, rounding, strict=True):
        kept = {}
        for index, interval in out.items():
            number = None if g is None or room is None else np.asarray(g)[index].item()
            if number is not None and np.isfinite(number):
                far = float(distance_from(number, interval[:2]))
                if far <= float(_with_half_the_digits(room, g)[index]):
                    continue
            kept[index] = interval
        left.append(kept)
    return left


def _with_half_the_digits(room: Any, numbers: Any) -> Any:
    """How far roundings may carry numbers that keep half of their digits."""
    with np.errstate(all="ignore"):
        half = 2.0 ** (-digits_of(numbers.dtype) / 2) * np.abs(widest(numbers))
        return np.where(np.isfinite(half), np.minimum(half, np.nan_to_num(room, nan=0.0)), 0.0)


def _are_near(claims: Any, e: Any, room: Any) -> Any:
    """The mask of the claims that are exact numbers up to roundings."""
    near = to_float(objects(e))
    with np.errstate(all="ignore"):
        unit = ROUNDINGS * spacing(near, np.asarray(claims).dtype)
        return np.asarray(np.abs(np.asarray(claims) - near) <= np.maximum(unit, room))


def _rooms(exact: list[Any], got: list[Any], rounding: Callable[[], list[Any] | None] | None) -> list[Any]:
    """How far roundings may carry each claim; zeros if all claims are the exact numbers, which needs no bound."""
    zeros: list[Any] = [None if g is None else np.zeros(np.shape(g)) for g in got]
    if rounding is None or all(g is None or _are_near(g, e, 0.0).all() for g, e in zip(got, exact, strict=True)):
        return zeros
    made = rounding() or zeros
    return [
        z if z is None or room is None else _with_half_the_digits(room, np.asarray(g))
        for z, room, g in zip(zeros, made, got, strict=True)
    ]


def _with_claims(
    sides: Sides,
    exact: list[Any],
    got: list[Any],
    outside: list[dict[tuple[int, ...], Interval]],
    rounding: Callable[[], list[Any] | None] | None,
) -> tuple[list[Any], list[dict[tuple[int, ...], Interval]]]:
    """The exact numbers with claims inside their intervals in place of conventions, and the intervals of the other
    claims at kinks.
    """
    full = [
        e if g is None else objects(np.broadcast_to(objects(arb(0)) if e is None else objects(e), np.shape(g))).copy()
        for e, g in zip(exact, got, strict=True)
    ]
    finite = [None if g is None else objects(BALLS.lift(_far(np.asarray(g)))) for g in got]
    rooms = _rooms(full, got, rounding)
    by_conventions = True  # whether all claims are those of the conventions, which need not be in the convex hull
    for e, g, claims, out, room in zip(full, finite, got, outside, rooms, strict=True):
        if g is None:
            continue
        alike = _are_near(claims, e, room)  # a rounded claim needs no points of its own beside the kink
        for index in map(tuple, np.argwhere(alike).tolist()):
            if index not in out:
                g[index] = e[index]
        by_conventions = by_conventions and bool(alike.all())
    with sides.jointly(got, convex=not by_conventions, rooms=rooms):
        missed = sides.limits(finite, jumps=True)
    if missed is None:
        return exact, outside
    left: list[dict[tuple[int, ...], Interval]] = []
    for s, (e, g) in enumerate(zip(full, finite, strict=True)):
        if g is None:
            left.append(outside[s])
            continue
        out = {}
        for index in np.ndindex(*g.shape):
            interval = missed[s].get(index)
            if interval is not None and is_rounded(g[index], interval, got[s].dtype, float(rooms[s][index])):
                interval = None
            if interval is None and np.isfinite(got[s][index]):
                e[index] = g[index]  # inside
            elif interval is None:
                continue
            elif index in outside[s] or not interval.agree:
                out[index] = interval
                e[index] = g[index]  # the claim has a finding of its own
        left.append(out)
    return full, left


def _far(claims: Any) -> Any:
    """Large numbers in place of infinities and NaN."""
    large = float(np.finfo(np.asarray(claims).dtype).max) / 2
    return np.nan_to_num(claims, nan=large, posinf=large, neginf=-large)


def _floats_in_parts(split: Sequence[bool], arrays: list[Any]) -> list[Any]:
    """As `in_parts`, for numbers that TensorFlow's convention conjugates."""
    return [
        np.stack([np.real(a), -np.imag(a)], axis=-1) if is_split and a is not None else a
        for is_split, a in zip(split, arrays, strict=True)
    ]


def _floats_joined(split: Sequence[bool], arrays: list[Any]) -> list[Any]:
    """The inverse of `_floats_in_parts`."""
    return [
        a[..., 0] - 1j * a[..., 1] if is_split and a is not None else a
        for is_split, a in zip(split, arrays, strict=True)
    ]
