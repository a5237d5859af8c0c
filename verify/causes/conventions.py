"""Kinks and ties that a program meets: the derivative that the op returns, and the one-sided derivatives."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from flint import acb, arb

from gtape.declare.primitives import REGISTRY
from gtape.engine.worlds import NUMPY
from gtape.symbolic.balls import Undecided, meets, objects, only_integer, to_float
from gtape.symbolic.program import Node, Program
from gtape.verify.bounds.noise import read_by
from gtape.verify.causes.beside import scale_of
from gtape.verify.causes.intervals import LEAPS, shrinks
from gtape.verify.causes.still import still, with_slopes, with_slopes_by_element
from gtape.verify.causes.ties import ties_met
from gtape.verify.oracles.enclosures import BALLS, is_complex, is_floating, jet_world
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.verdicts.verdict import Finding

__all__ = [
    "elements_crossed", "exact_partials", "flipped_branches", "has_a_value_alone", "inputs_at_kinks",
    "is_on_a_cut", "jumps_at_an_end", "kinks_met",
]  # fmt: skip

_STEP = arb(2) ** -160
_TURNS = (1, -1, acb(0, 1), acb(0, -1))  # directions of a complex argument
_UNBOUNDED = 2.0**100
_JUMP = 2.0**-80
_NARROW = 2.0**-150
_ROUNDINGS = 2.0**-50  # relative distance of two numbers that roundings to float64 may part
_LEAST = float(np.finfo(np.float64).smallest_subnormal)
_COMPARED = re.compile(r"(?P<names>\w+( == \w+)*?) (?P<relation>==|[<>]=?) (?P<number>-?\d+)")
_SUSPECTS = 16  # points tried per op and kind of kink


def exact_partials(node: Node, xs: list[Any], active: tuple[int, ...]) -> list[Any]:
    """The partials of an elementwise op at enclosures, by the mirror's own derivative."""
    world = jet_world(1)
    found = []
    for a in active:
        arguments = [
            world.jet(x, np.broadcast_to(np.asarray(1).astype(object), np.shape(x))) if i == a else x
            for i, x in enumerate(xs)
        ]
        found.append(world.component(getattr(world, node.prim.name)(*arguments, **node.params), 1))
    return found


def _scales(at: list[Any]) -> list[Any]:
    """The size of each argument, to scale a step; for a 0 the smallest nonzero size, at most 1."""
    sizes = [abs(arb(objects(x).item())) for x in at]
    least = arb(1)
    for size in sizes:
        if size != 0 and size < least:
            least = size
    return [size if size != 0 else least for size in sizes]


def _around(
    node: Node, at: list[Any], a: int, ways: Iterable[tuple[int, ...]] | None = None, step: arb = _STEP
) -> list[float]:
    """The partials by argument `a` in the smooth regions that meet at a point; `ways` are signs for each argument."""
    found, scales = [], _scales(at)
    for signs in itertools.product(*(ways or [(-1, 0, 1)] * len(at))):
        if not any(signs):
            continue
        moved = [x + sign * step * s if sign else x for x, s, sign in zip(at, scales, signs, strict=True)]
        try:
            found.append(float(to_float(exact_partials(node, moved, (a,))[0])[0]))
        except ArithmeticError:
            continue
    return found


def kinks_met(program: Program, oracle: Oracle, order: int) -> list[Finding]:
    """A `convention` finding for every op evaluated exactly at a kink, jump or tie, or where it has a value alone."""
    findings = []
    known: dict[int, Any] = {}
    sloped = with_slopes(program)
    read: dict[int, Any] = {}
    for node in program.nodes:
        if node.kind != "op" or node.prim.kind != "elementwise" or not node.active:
            continue
        if node.index not in sloped or not (node.prim.kinks or is_complex(node.output)):
            continue
        ways = (_at_filled_point, _on_a_cut) if is_complex(node.output) else (_at_kink, _with_a_value_alone)
        points = _suspects(program, oracle.env, node, known, read)
        for at_kink in ways:
            found = next((f for at in points for a in node.active if (f := at_kink(node, at, a)) is not None), None)
            if found is not None:
                found.order, found.op, found.line = order, node.name, node.line
                findings.append(found)
    return findings + ties_met(program, oracle, order)


_ALONE = "is defined at this point, but on neither side, so there is no derivative"


def has_a_value_alone(finding: Finding) -> bool:
    """Whether a finding tells of an op that has a value at a point, but none on both sides."""
    return finding.verdict == "convention" and finding.reason.endswith(_ALONE)


_CUT = "a branch cut"


def is_on_a_cut(finding: Finding) -> bool:
    """Whether a finding tells of an op on complex numbers whose value jumps as an argument crosses a branch cut."""
    return finding.verdict == "convention" and finding.reason.startswith(_CUT)


_AT_AN_END = "a jump at the end of the domain"


def jumps_at_an_end(finding: Finding) -> bool:
    """Whether a finding tells of an op whose value at an end of its domain is not the limit from inside."""
    return finding.verdict == "convention" and finding.reason.startswith(_AT_AN_END)


def _with_a_value_alone(node: Node, at: list[Any], a: int) -> Finding | None:
    """The finding for an op that has a value at a point, but none on both sides of it in argument `a`.

    A power of a negative base is one: beside whole exponents it has no value.
    """
    try:
        here = arb(objects(getattr(BALLS, node.name)(*at, **node.params)).item())
        value = float(to_float(objects(exact_partials(node, at, (a,))[0])).item())
        _, heights = _beside(node, at, a, _STEP, value)
    except ArithmeticError:
        return None
    if not here.is_finite() or not all(arb(h).is_nan() for h in heights):
        return None
    words = ", ".join(f"{float(arb(objects(x).item())):.6g}" for x in at)
    return Finding("convention", got=value, reason=f"{node.name}({words}) by argument {a} {_ALONE}")


def _at_kink(node: Node, at: list[Any], a: int) -> Finding | None:
    """The finding for an op at a kink or jump in argument `a`; None where the op is smooth."""
    try:
        at_point = objects(exact_partials(node, at, (a,))[0]).item()
        value = float(to_float(objects(at_point)).item())
        far, _ = _beside(node, at, a, _STEP * arb(2) ** 80, at_point)
        sides, heights = _beside(node, at, a, _STEP, at_point)
    except ArithmeticError:
        return None
    here = arb(objects(getattr(BALLS, node.name)(*at, **node.params)).item())
    apart = _STEP * _scales(at)[a]
    if np.isnan(sides).any():  # the domain ends here; the value at its end may still jump
        inner = [k for k in (0, 1) if not np.isnan(sides[k])]
        if _comes_slowly(node, at, a, inner, here):
            return None
        if inner and here.is_finite() and _jumps([here, heights[inner[0]]], [sides[inner[0]]], apart):
            beside = f"{_limit(heights[inner[0]], [sides[inner[0]]], apart):.6g} on the {('left', 'right')[inner[0]]}"
            reason = f"{_AT_AN_END}: {beside}, here {float(here):.6g}"
            return Finding("convention", got=value, inside=True, reason=reason)
        return None
    if _jumps(heights, sides, 2 * apart):
        left, right = [_limit(h, sides, apart) for h in heights]
        reason = f"a jump: {left:.6g} on the left, {right:.6g} on the right"
        return Finding("convention", got=value, inside=True, reason=reason)
    if _are_one(sides[0], value) and _are_one(sides[1], value):
        return _at_corner(node, at, a, value)
    low, high = min(sides), max(sides)
    gap = max(high, value) - min(low, value)
    # A gap that shrinks with the step is the slope of the derivative, not a kink.
    if gap == 0 or 2 * gap < max(*far, value) - min(*far, value):
        return None
    if _is_unbounded(low, high, value):
        return _without_bound(value)
    inside: bool | None = low <= value <= high
    if not inside and len(at) > 1:  # several arguments meet: move all of them
        around = _around(node, at, a)
        inside = bool(around) and min(around) <= value <= max(around)
    reason = f"a kink: {sides[0]:.6g} on the left, {sides[1]:.6g} on the right, here {value:.6g}"
    return Finding("convention", got=value, inside=inside, reason=reason)


def _limit(height: Any, sides: list[float], apart: Any) -> float:
    """The limit of a value beside a jump: 0 if the slopes there explain all of the value."""
    return 0.0 if abs(arb(height)) <= 4 * apart * max(map(abs, sides)) else float(arb(height))


def _comes_slowly(node: Node, at: list[Any], a: int, inner: list[int], here: arb) -> bool:
    """Whether the values inside of a domain come to the one at its end 0 by a power of any size."""
    if not inner or not here.is_finite() or objects(at[a]).item() != 0:
        return False
    try:
        gaps = [abs(_beside(node, at, a, arb(2) ** step, arb(0))[1][inner[0]] - here) for step in LEAPS]
    except (ArithmeticError, OverflowError):
        return False
    return shrinks(*gaps)


def _at_filled_point(node: Node, at: list[Any], a: int) -> Finding | None:
    """The finding for an op on complex numbers at a point that it fills in, such as the power 0**0 of value 1.

    Only if its value, or its derivative by argument `a`, is the limit from no side. On a branch cut both are the limits
    from one side, and the convention of the value decides.
    """
    try:
        here = acb(objects(getattr(BALLS, node.name)(*at, **node.params)).item())
        slope = acb(objects(exact_partials(node, at, (a,))[0]).item())
    except ArithmeticError:
        return None
    if not (here.is_finite() and slope.is_finite()):
        return None
    shown, sides = complex(slope), [{a: turn} for turn in _TURNS]
    among = [sides] if len(node.active) < 2 else [sides, _turns_of(node.active)]
    for ways in among:
        apart = _apart_along_all(node, at, a, ways, here, slope)
        if apart.jumps:
            reason = f"a jump: the value here, {complex(here):.6g}, is the limit from no side"
            return Finding("convention", got=shown, inside=True, reason=reason)
        if apart.kinks:
            reason = f"a kink: the slope here, {shown:.6g}, is the limit from no side"
            return Finding("convention", got=shown, inside=None, reason=reason)
    return None


def _on_a_cut(node: Node, at: list[Any], a: int) -> Finding | None:
    """The finding for an op whose value jumps as the complex argument `a` crosses an axis; None elsewhere.

    The values alone tell, because a function that is holomorphic on both sides of a line and continuous across it is
    holomorphic on it, too.
    """
    z = objects(at[a]).item()
    if not isinstance(z, acb) or not (z.real == 0 or z.imag == 0) or z == 0:
        return None
    turn = acb(0, 1) if z.imag == 0 else acb(1)
    gaps, near = list[arb](), list[acb]()
    try:
        here = acb(objects(getattr(BALLS, node.name)(*at, **node.params)).item())
        for step in (_STEP, _STEP * arb(2) ** 80):
            sides = []
            for sign in (1, -1):
                moved = [objects(x + sign * step * turn * scale_of(x)) if i == a else x for i, x in enumerate(at)]
                sides.append(acb(objects(getattr(BALLS, node.name)(*moved, **node.params)).item()))
            near = near or sides
            gaps.append(abs(sides[0] - sides[1]))
    except ArithmeticError:
        return None
    first, second = gaps
    if not (first.is_finite() and second.is_finite() and _stays_apart(first, second, abs(here))):
        return None
    above, below = map(_shown, near)
    names = ("above", "below") if z.imag == 0 else ("on the right", "on the left")
    reason = f"{_CUT}: the limit of {node.name} is {above:.6g} {names[0]} and {below:.6g} {names[1]}"
    return Finding("convention", inside=True, reason=reason)


def _shown(z: acb) -> complex:
    """A value beside a point as the limit there: parts that tell only the step are 0."""
    return complex(
        *[0.0 if abs(part) < _JUMP * abs(z) else float(to_float(objects(part)).item()) for part in (z.real, z.imag)]
    )


def _turns_of(active: Iterable[int]) -> list[dict[int, Any]]:
    """Directions of several complex arguments at once, each of a size of its own."""
    turns = [[(a, turn * arb(2) ** -k) for turn in _TURNS] for k, a in enumerate(active)]
    return [dict(way) for way in itertools.product(*turns)]


class _Apart(NamedTuple):
    """Whether values, and derivatives, stay apart from those at a point."""

    jumps: bool
    kinks: bool


def _apart_along_all(node: Node, at: list[Any], a: int, ways: list[dict[int, Any]], here: acb, slope: acb) -> _Apart:
    """As `_apart_along`, along all ways with finite numbers; False without such a way.

    The first way along which both come close decides, so that smooth points take one way.
    """
    known, apart = False, _Apart(True, True)
    for way in ways:
        found = _apart_along(node, at, a, way, here, slope)
        if found is not None:
            known, apart = True, _Apart(apart.jumps and found.jumps, apart.kinks and found.kinks)
            if not any(apart):
                break
    return apart if known else _Apart(False, False)


def _apart_along(node: Node, at: list[Any], a: int, way: dict[int, Any], here: acb, slope: acb) -> _Apart | None:
    """Whether values, and derivatives by argument `a`, stay apart from those at a point; None if they are not finite.

    Parameters
    ----------
    way : dict
        Argument -> its move, relative to its size.
    """
    gaps, slopes = list[Any](), list[Any]()
    for step in (_STEP, _STEP * arb(2) ** 80):
        moved = [objects(x + step * way[i] * scale_of(x)) if i in way else x for i, x in enumerate(at)]
        try:
            there = acb(objects(getattr(BALLS, node.name)(*moved, **node.params)).item())
            beside = acb(objects(exact_partials(node, moved, (a,))[0]).item())
        except ArithmeticError:
            return None
        gaps.append(abs(there - here))
        slopes.append(abs(beside - slope))
    if not all(x.is_finite() for x in (*gaps, *slopes)):
        return None
    (near, far), (flat, steep) = gaps, slopes
    return _Apart(_stays_apart(near, far, abs(here)), _stays_apart(flat, steep, abs(slope)))


def _stays_apart(near: arb, far: arb, size: arb) -> bool:
    """Whether the distance of numbers beside a point from the one at the point stays as the step shrinks."""
    return bool(near > _JUMP * (1 + size)) and bool(2 * near > far)


def _at_corner(node: Node, at: list[Any], a: int, value: float) -> Finding | None:
    """The finding for an op whose partial is smooth along each argument alone, as that of x / y at (0, 0)."""
    if len(node.active) < 2 or not np.isfinite(value):
        return None
    ways = [(-1, 1) if i in node.active else (0,) for i in range(len(at))]
    around, far = ([p for p in _around(node, at, a, ways, s) if np.isfinite(p)] for s in (_STEP, _STEP * arb(2) ** 80))
    gap = max([abs(p - value) for p in around], default=0.0)
    # As for a single argument, a gap that shrinks with the step is the slope of the derivative.
    if gap <= _ROUNDINGS * max(1.0, abs(value)) or 2 * gap < max([abs(p - value) for p in far], default=0.0):
        return None
    low, high = min(around), max(around)
    if _is_unbounded(low, high, value):
        return _without_bound(value)
    reason = f"a kink where several arguments meet: from {low:.6g} to {high:.6g} around the point, here {value:.6g}"
    return Finding("convention", got=value, inside=low <= value <= high, reason=reason)


def _are_one(side: float, value: float) -> bool:
    """Whether a slope beside a point is the one at the point, perhaps infinite.

    An exact slope in the middle between two floats is rounded down on one side of the point and up on the other.
    """
    return side == value or bool(np.isfinite(value) and abs(side - value) <= max(_ROUNDINGS * abs(value), _LEAST))


def _is_unbounded(low: float, high: float, value: float) -> bool:
    """Whether slopes one step beside a point are so large that their sizes only tell the step."""
    return max(abs(low), abs(high)) > _UNBOUNDED * max(1.0, abs(value))


def _without_bound(value: float) -> Finding:
    """The finding for a point that an op fills in, such as a pole, without finite one-sided derivatives."""
    reason = f"a kink: the slopes around the point have no bound, here {value:.6g}"
    return Finding("convention", got=value, inside=None, reason=reason)


def _beside(node: Node, at: list[Any], a: int, step: Any, at_point: Any) -> tuple[list[float], list[Any]]:
    """Partials by one argument, and values, one step left and right of a point.

    A narrow enclosure that meets the enclosure of the partial at the point counts as that partial.
    """
    slopes, heights, scale = [], [], _scales(at)[a]
    for sign in (-1, 1):
        moved = [x + sign * step * scale if i == a else x for i, x in enumerate(at)]
        slope = objects(exact_partials(node, moved, (a,))[0]).item()
        gap = arb(slope) - arb(at_point)
        slopes.append(float(to_float(objects(at_point if gap.contains(0) and gap.rad() < _NARROW else slope)).item()))
        heights.append(objects(getattr(BALLS, node.name)(*moved, **node.params)).item())
    return slopes, heights


def _jumps(heights: list[Any], sides: list[float], apart: Any) -> bool:
    """True if two close values differ by more than the slopes next to them explain."""
    below, above = map(arb, heights)
    gap = abs(above - below)
    return bool(
        np.isfinite(sides).all()
        and (gap > _JUMP * abs(below) or gap > _JUMP * abs(above))
        and gap > 4 * apart * max(map(abs, sides))
    )


def _suspects(
    program: Program, values: dict[int, Any], node: Node, known: dict[int, Any], read: dict[int, Any]
) -> list[list[Any]]:
    """The distinct points where the declared kinks of an op may lie: the arguments of single elements that may move,
    if the result may move, too, and reaches an output.

    Parameters
    ----------
    known : dict
        As for `still`.
    read : dict
        The elements that reach an output, as `with_slopes_by_element` finds them; receives all if it has none.
    """
    xs = [objects(values[j]) for j in node.inputs]
    masks = _masks_at_kinks(node, xs)
    if not is_complex(node.output):
        beyond = _beyond_a_number(program, values, node, known)
        masks += [np.broadcast_to(mask, node.shape) for mask in beyond]
    if not any(mask.any() for mask in masks):
        return []
    found: dict[Any, list[Any]] = {}
    moving = ~np.logical_and.reduce(np.broadcast_arrays(*[still(program, values, known, j) for j in node.inputs]))
    if any((mask & moving).any() for mask in masks):
        read.update(read or with_slopes_by_element(program, values, known))
        moving = moving & ~still(program, values, known, node.index) & read.get(node.index, False)
    for mask in masks:
        mask, most = mask & moving, len(found) + _SUSPECTS
        for index in zip(*np.nonzero(mask), strict=True) if node.shape else [()] if mask else []:
            at = [objects(np.broadcast_to(x, node.shape)[index]).reshape(1) for x in xs]
            found.setdefault(tuple([to_float(x)[0].item() for x in at]), at)
            if len(found) >= most:
                break
    return list(found.values())


def _masks_at_kinks(node: Node, xs: list[Any]) -> list[Any]:
    """The masks of the elements of an elementwise op at which its declared kinks may lie, one for each kink."""
    numbers = {k for k in node.prim.kinks if isinstance(k, (int, float))}
    words = " ".join(k for k in node.prim.kinks if isinstance(k, str))
    masks = [np.logical_or.reduce([meets(x, arb(p)) for p in numbers]) for x in xs if numbers]
    masks += [_mask_of_condition(node, xs, k) for k in node.prim.kinks if isinstance(k, str) and re.search(r"\d", k)]
    if re.search(r"[a-z] == [a-z](?! ==)", words):
        for x, y in itertools.combinations(xs, 2):
            masks.append(meets(x, y))
    if is_complex(node.output):
        masks += [np.frompyfunc(_is_on_an_axis, 1, 1)(x) for x in xs]  # on which branch cuts lie
    if "whole" in words and not is_complex(node.output):
        masks.append(
            np.frompyfunc(_divides, 2, 1)(xs[1], xs[0]) if len(xs) > 1 else np.frompyfunc(_is_whole, 1, 1)(xs[0])
        )
    return [np.broadcast_to(np.asarray(mask, dtype=bool), node.shape) for mask in masks]


def _is_on_an_axis(x: Any) -> bool:
    return isinstance(x, acb) and bool(x.real == 0 or x.imag == 0)


def _mask_of_condition(node: Node, xs: list[Any], kink: str) -> Any:
    """The mask of the elements at which a kink such as "x == y == 0" or "x == 0 and y <= 1" may lie.

    An inequality beside an equation leaves elements in, because the op may have a kink at its end, too.
    """
    conditions = [c for c in map(_COMPARED.fullmatch, kink.split(" and ")) if c is not None]
    equations = [c for c in conditions if c["relation"] == "=="] or conditions
    met: list[Any] = []
    for condition in equations:
        names = condition["names"].split(" == ")
        known = [xs[node.prim.arguments.index(name)] for name in names if name in node.prim.arguments]
        number = arb(int(condition["number"]))
        # A name that is no argument's may mean any argument.
        met += [meets(x, number) for x in known] or [np.logical_or.reduce([meets(x, number) for x in xs])]
    return np.logical_and.reduce(np.broadcast_arrays(*met))


def inputs_at_kinks(program: Program, values: dict[int, Any], met: list[Finding]) -> dict[int, Any]:
    """The inputs of ops at kinks and ties, as node -> a mask of its elements.

    Parameters
    ----------
    values : dict
        Node -> its exact value.
    met : list of Finding
        The kinks of ops, as `kinks_met` finds them.
    """
    found: dict[int, Any] = {}
    known = {(f.op, f.line) for f in met}
    for node in program.nodes:
        if node.kind != "op" or (node.name, node.line) not in known:
            continue
        if node.prim.kind != "elementwise":
            found |= {j: np.ones(np.shape(values[j]), np.bool_) for j in node.inputs}
            continue
        xs = [objects(values[j]) for j in node.inputs]
        masks = _masks_at_kinks(node, xs)
        at_kink = np.logical_or.reduce(masks) if masks else np.zeros(node.shape, np.bool_)
        for j, x in zip(node.inputs, xs, strict=True):
            found[j] = found.get(j, False) | read_by(np.shape(x), at_kink)
    return found


def _beyond_a_number(program: Program, values: dict[int, Any], node: Node, known: dict[int, Any]) -> Iterator[Any]:
    """Masks of the elements beyond the number of a declared kink such as "x < 0", if another argument moves.

    There the op may have values at points alone, as a power of a negative base.
    """
    for kink in node.prim.kinks:
        found = re.fullmatch(r"(\w+) ([<>]) (-?\d+)", kink) if isinstance(kink, str) else None
        if found is None:
            continue
        name, sign, number = found.groups()
        own = node.prim.arguments.index(name)
        others = [still(program, values, known, node.inputs[a]) for a in node.active if a != own]
        if others:
            x = objects(values[node.inputs[own]])
            beyond = x < int(number) if sign == "<" else x > int(number)
            yield np.asarray(beyond, dtype=bool) & ~np.logical_and.reduce(np.broadcast_arrays(*others))


def _is_whole(x: Any) -> bool:
    n = only_integer(arb(x))
    return n is not None and bool(meets(arb(x), arb(n)))


def _divides(y: Any, x: Any) -> bool:
    """True if x / y may be an integer."""
    if y == 0:
        return False
    n = only_integer(arb(x) / y)
    return n is not None and bool(meets(n * arb(y), arb(x)))


def _partial_here(p: Any, node: Node, y: Any, xs: list[Any]) -> Any:
    """A partial at the recorded values, or at enclosures; exact if all of them are finite."""
    values = [y, *xs]
    enclosed = any(v.dtype == object for v in values)
    if enclosed or all(np.isfinite(v).all() for v in values if v.dtype.kind == "f"):
        with contextlib.nullcontext() if enclosed else contextlib.suppress(ArithmeticError):
            return to_float(objects(p(BALLS, *map(_lifted, values), **node.params)))
    with np.errstate(all="ignore"):
        return np.asarray(p(NUMPY, *values, **node.params), dtype=np.float64)


def _lifted(v: Any) -> Any:
    return v if v.dtype == object else BALLS.lift(v)


def _are_known(xs: list[Any]) -> bool:
    """Whether all floats among some inputs are finite."""
    return all(np.isfinite(v).all() for v in xs if v.dtype.kind == "f")


def _moves(x: Any) -> bool:
    """Whether an input holds real numbers, which roundings move."""
    return bool(x.dtype == object or x.dtype.kind == "f")


def _jumped(node: Node, xs: list[Any], exact: list[Any], there: Any) -> Any:
    """The mask of the elements whose values at other inputs and at the exact ones lie on two sides of a jump."""
    if not _are_known(xs):
        return np.zeros(node.shape, np.bool_)
    try:
        here = node.apply(BALLS, [_lifted(v) for v in xs])
    except ArithmeticError:
        return np.zeros(node.shape, np.bool_)
    recorded = all(v.dtype != object for v in xs)
    smooth: Any = 0.0
    for a, (v, x) in enumerate(zip(xs, exact, strict=True)):
        if _moves(v) and node.prim.rules[a] is not None:
            p = node.prim.rules[a]
            y = np.asarray(node.output) if recorded else here
            slopes = [abs(p) if isinstance(p, int) else np.abs(_partial_here(p, node, y, xs))]
            if callable(p):
                slopes.append(np.abs(to_float(objects(p(BALLS, there, *exact, **node.params)))))
            smooth = smooth + np.maximum.reduce(np.broadcast_arrays(*slopes)) * np.abs(to_float(_lifted(v) - x))
    gap = np.abs(to_float(objects(here - there)))
    return np.broadcast_to(gap > 4 * smooth + 1e-9 * np.abs(to_float(objects(there))), node.shape)


_ONE = np.asarray(1).astype(object)  # a tangent of any shape


def _kinked(node: Node, a: int, here: Any, there: Any, xs: list[Any], exact: list[Any]) -> Any:
    """The mask of the elements whose partial differs at other inputs and at the exact ones by more than its own slope
    explains, because a kink lies between them.

    Parameters
    ----------
    here, there : arrays
        The partial by argument `a` at the other and at the exact inputs.
    """
    gap = np.abs(here - there)
    far = np.broadcast_to(gap > 1e-3 * np.maximum(1.0, np.abs(there)), node.shape)
    if not far.any() or not _are_known(xs):
        return far
    world = jet_world(2)
    smooth: Any = 0.0
    for at in (exact, [_lifted(v) for v in xs]):
        for b, (v, x) in enumerate(zip(xs, exact, strict=True)):
            if not _moves(v):
                continue
            arguments = [
                world.jet(y, _ONE if i == a else None, _ONE if i == b else None) if i in (a, b) else y
                for i, y in enumerate(at)
            ]
            try:
                slope = np.abs(to_float(world.component(getattr(world, node.name)(*arguments, **node.params), 3)))
            except ArithmeticError:
                continue
            moved = np.abs(to_float(objects(_lifted(v) - x)))
            smooth = np.maximum(smooth, slope * moved * len(xs))
    return far & (gap > 4 * np.nan_to_num(smooth, nan=0.0))


def flipped_branches(program: Program, oracle: Oracle) -> list[Node]:
    """The ops with recorded inputs on another branch than the exact inputs, without the oracle's own flips.

    Parameters
    ----------
    program : Program
    oracle : Oracle
        With the exact values of all nodes.
    """
    ops = [n for n in program.nodes if n.kind == "op" and n not in oracle.flips]
    return [n for n in ops if (crossed := elements_crossed(program, oracle, n)) is not None and crossed.any()]


def elements_crossed(program: Program, oracle: Oracle, node: Node, inputs: list[Any] | None = None) -> Any:
    """The mask of the elements of an op for which a kink, a jump or a tie lies between its exact inputs and other ones.

    Ties are those between elements of the first input, which the mask tells then. None for an op without kinks.

    Parameters
    ----------
    program : Program
    oracle : Oracle
        With the exact values of all nodes.
    node : Node
    inputs : list of object arrays, optional
        The other inputs; by default the recorded ones.
    """
    if is_complex(node.output):
        return None
    recorded = inputs is None
    xs = [np.asarray(program.nodes[j].output) for j in node.inputs] if inputs is None else inputs
    # A gradient that the program takes computes masks, which no tape follows.
    mask = not node.prim.differentiable and is_floating(node.output)
    if node.prim.kind == "elementwise" and (node.prim.selects or node.prim.kinks) and (node.active or mask):
        exact, there = [oracle.env[j] for j in node.inputs], oracle.env[node.index]
        found = np.array(_jumped(node, xs, exact, there))
        y = np.asarray(node.output) if recorded else node.apply(BALLS, xs)
        for a in node.active:
            p = node.prim.partials[a]
            if callable(p):
                # Enclosures on both sides, because a rule that is wrong in floats has not changed branches.
                here = _partial_here(p, node, y, xs)
                found |= _kinked(node, a, here, to_float(objects(p(BALLS, there, *exact, **node.params))), xs, exact)
        return found
    # Without a kink there are no shares, and a search for them would import all ops.
    if node.prim.kind == "elementwise" or not node.prim.kinks or not np.size(node.output):
        return None
    share = REGISTRY.get(node.name if node.name.endswith("_share") else f"{node.name}_share")
    if share is None:
        return None
    # Rounding may make or break a tie; the shares of the elements show which ones are the greatest. A gradient that
    # the program takes computes the shares itself.
    params = {p: node.params[p] for p in share.params}
    try:
        there = to_float(objects(getattr(BALLS, share.name)(*[oracle.env[j] for j in node.inputs], **params)))
        here = getattr(NUMPY if recorded else BALLS, share.name)(*xs, **params)
    except Undecided:
        return None if recorded else np.ones(np.shape(oracle.env[node.inputs[0]]), np.bool_)
    # Shares are 1, 1/2, 1/3 ..., or 0.
    return np.abs((here if recorded else to_float(objects(here))) - there) > 1e-3
