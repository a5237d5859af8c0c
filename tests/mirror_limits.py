"""Limits of mirrors at infinities and at zeros approached from one side.

Five large numbers stand for an infinity, five small ones for a signed zero. Enclosures of the mirror's five values show
a limit, an infinity, a zero of one sign, or no limit. Several special arguments move at different speeds, because a
value that depends on the path is no limit.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from flint import acb, arb

from gtape.declare.primitives import Primitive
from gtape.symbolic.balls import objects, precision, to_float
from gtape.symbolic.implicit import recorded
from gtape.symbolic.jets import value_of
from gtape.symbolic.program import Node, Program
from gtape.verify.oracles.enclosures import BALLS, is_floating, jet_world

__all__ = [
    "UNSIGNED", "Limit", "Limits", "Place", "array_limits", "depends", "elementwise_limit", "limit_of", "mirror_of",
    "program_mirror",
]  # fmt: skip

_BITS, _MODEST_BITS = 1000, 240
# With fractional parts, so that periodic functions are met at different phases. exp of the tall ones overflows balls.
_TALL = ((70, 3, 0.40625), (101, 5, 0.84375), (152, 3, 0.21875), (233, 7, 0.6875), (330, 5, 0.28125))
_LOW = ((13, 3, 0.40625), (20, 5, 0.84375), (29, 3, 0.21875), (37, 7, 0.6875), (47, 5, 0.28125))
# Sizes for equations, which are solved from a float solution: small enough that condition numbers stay moderate.
_MODEST = ((8, 3, 0.40625), (11, 5, 0.84375), (15, 3, 0.21875), (19, 7, 0.6875), (22, 5, 0.28125))
_STEPS = len(_TALL)


class Limit(float):
    """A limit; `signed` is False if the sign of a zero has no meaning."""

    signed: bool

    def __new__(cls, value: float, signed: bool = True) -> Limit:
        made = super().__new__(cls, value)
        made.signed = signed
        return made


UNSIGNED = Limit(0.0, signed=False)
_NONE = Limit(math.nan)


@cache
def _size(k: int, tall: bool, slow: bool) -> Any:
    power, factor, rest = (_TALL if tall else _LOW)[k]
    with precision(_BITS):
        height = arb(2) ** power * factor + arb(rest)
        return (height.root(3) * 256).floor() / 256 if slow else height


@cache  # one object per number, because an inexact ball equals no other ball
def _placed(sign: int, zero: bool, k: int, tall: bool, slow: bool) -> Any:
    with precision(_BITS):
        size = _size(k, tall, slow)
        return sign / size if zero else sign * size


def is_special(v: Any) -> bool:
    """True for an infinity or a zero."""
    return isinstance(v, float) and (math.isinf(v) or v == 0)


def _finite(ball: Any) -> Any:
    if isinstance(ball, acb):
        return _finite(ball.real) if ball.imag == 0 else None
    if isinstance(ball, int):
        return arb(ball)
    return ball if isinstance(ball, arb) and ball.is_finite() else None


def limit_of(balls: list[Any]) -> Limit:
    """The limit of a sequence of balls; NaN if none exists or a ball is not finite."""
    values = [_finite(b) for b in balls]
    if any(v is None for v in values):
        return _NONE
    if all(v == 0 for v in values):
        return UNSIGNED
    last, before = values[-1], values[-2]
    signs = {1 if v > 0 else -1 if v < 0 else 0 for v in values}
    sign = signs.pop() if len(signs) == 1 else 0
    zero = Limit(math.copysign(0.0, sign)) if sign else UNSIGNED
    if last.rad() > abs(last.mid()) * arb(2) ** -30:
        return zero if all(v.abs_upper() < arb(2) ** -40 for v in values[-2:]) else _NONE
    if abs(last - before) <= abs(last) * arb(2) ** -15:
        return Limit(float(last.mid()))
    ratios = [abs(b) / abs(a) if a != 0 else arb(1) for a, b in itertools.pairwise(values)]
    if sign and all(r > 1.07 for r in ratios):
        return Limit(math.copysign(math.inf, sign))
    return zero if all(r < 0.85 for r in ratios) else _NONE


def exactly(prim: Primitive, params: dict[str, Any], xs: list[Any], by: int | None) -> Any:
    """The mirror of an elementwise op, or its partial by an argument, at balls; None if undecided."""
    boxes = [objects(x) for x in xs]
    try:
        if by is None:
            return objects(getattr(BALLS, prim.name)(*boxes, **params)).item()
        world = jet_world(1)
        one = np.asarray(1).astype(object)
        jets = [world.jet(x, one) if i == by else x for i, x in enumerate(boxes)]
        return objects(world.component(getattr(world, prim.name)(*jets, **params), 1)).item()
    except (ArithmeticError, ValueError):
        return None


def _words(prim: Primitive) -> str:
    return " ".join(k for k in prim.kinks if isinstance(k, str))


def _held(prim: Primitive) -> Collection[int]:
    """The arguments whose zero has a value by declared convention instead of the limit from small numbers."""
    words = _words(prim)
    if "no_nan" in prim.name:
        return (1,)
    if "whole" in words:
        return range(len(prim.rules))
    return [
        i for i, name in enumerate("xy") if re.search(rf"{name} == 0|{name} == y == 0", words)
    ] + [0 for k in prim.kinks if not isinstance(k, str) and k == 0]  # fmt: skip


def elementwise_limit(prim: Primitive, params: dict[str, Any], point: tuple[Any, ...], by: int | None = None) -> Limit:
    """The value of an elementwise op, or of its partial by one argument, at a point with infinities and signed zeros.

    Parameters
    ----------
    params : dict
        The static parameters.
    by : int, optional
        The argument of the partial; the value by default.

    Returns
    -------
    Limit
        The mirror's value at the point if defined, otherwise its limit from inside the domain, or NaN.

    Examples
    --------
    >>> import math
    >>> from gtape.declare.primitives import REGISTRY
    >>> float(elementwise_limit(REGISTRY["exp"], {}, (-math.inf,))), float(elementwise_limit(REGISTRY["sin"], {}, (math.inf,)))
    (0.0, nan)
    """  # noqa: E501
    found = _limit(prim, params, point, by, tall=True)
    if math.isnan(found) and any(isinstance(v, float) and math.isinf(v) for v in point):
        return _limit(prim, params, point, by, tall=False)
    return found


def _outside(prim: Primitive, point: tuple[Any, ...]) -> bool:
    """True if an argument lies beyond the end of its interval."""
    for v, interval in zip(point, prim.domain.intervals, strict=True):
        if isinstance(v, float):
            near = math.copysign(2.0**70, v) if math.isinf(v) else v
            if near not in interval and not (interval.lo <= near <= interval.hi):
                return True
    return False


def _limit(prim: Primitive, params: dict[str, Any], point: tuple[Any, ...], by: int | None, tall: bool) -> Limit:
    special = [i for i, v in enumerate(point) if is_special(v)]
    held = [i for i in special if point[i] == 0 and i in _held(prim)]
    if _outside(prim, point) and 0 not in held:
        return _NONE
    # A zero of either sign at an end of the domain is approached from inside, because log(-0.0) is -inf in C99, too.
    turned = [
        i for i in special
        if point[i] == 0 and math.copysign(1e-9, point[i]) not in prim.domain.intervals[i]
    ]  # fmt: skip
    compared = re.search("[xy] == (y|low|high)(?! ==)", _words(prim)) or "comparison" in prim.roles

    def along(fixed: Collection[int]) -> Limit:
        moving = [i for i in special if i not in fixed]
        speeds = (False, True) if len(moving) > 1 and not compared else (False,)
        found = []
        for slow in itertools.product(speeds, repeat=len(moving)):
            pace = dict(zip(moving, slow, strict=True))

            def at(i: int, v: Any, k: int, pace: dict[int, bool] = pace) -> Any:
                if not isinstance(v, float):
                    return v
                if i not in pace:
                    return arb(v)
                sign = int(math.copysign(1, v)) * (-1 if i in turned else 1)
                return _placed(sign, v == 0, k, tall, pace[i])

            steps = [[at(i, v, k) for i, v in enumerate(point)] for k in range(_STEPS)]
            found.append(limit_of([exactly(prim, params, xs, by) for xs in steps]))
        first = found[0]
        if all(f == first for f in found):
            return first if all(f.signed and math.copysign(1, f) == math.copysign(1, first) for f in found) else (
                first if first else UNSIGNED
            )  # fmt: skip
        return _NONE

    with precision(_BITS):
        if not any(math.isinf(v) for v in point if isinstance(v, float)) and _inside(prim, point):
            here = _finite(exactly(prim, params, [arb(v) if isinstance(v, float) else v for v in point], by))
            if here is not None and here.rad() <= abs(here.mid()) * arb(2) ** -60:
                if here != 0:
                    return Limit(float(here.mid()))
                beside = UNSIGNED if held else along([])
                return UNSIGNED if beside else beside
        if held:
            found = along(held)
            if not math.isnan(found):
                return found if found else UNSIGNED
        return along([])


def _inside(prim: Primitive, point: tuple[Any, ...]) -> bool:
    return all(v in i for v, i in zip(point, prim.domain.intervals, strict=True) if isinstance(v, float))


def depends(prim: Primitive, params: dict[str, Any], point: tuple[Any, ...], on: int, by: int | None) -> bool:
    """True if the mirror, or its partial by one argument, changes while argument `on` moves through its domain."""
    tried = [v for v in (0.75, -1.25, 2.5, -40.0, 40.0, 0.375, 1.5, 5.0) if v in prim.domain.intervals[on]]
    with precision(_BITS):
        seen: list[Any] = []
        for v in tried:
            moved = [v if i == on else w for i, w in enumerate(point)]
            if prim.domain.where is not None and not prim.domain.where(*moved):
                continue
            ball = _finite(exactly(prim, params, [arb(w) if isinstance(w, float) else w for w in moved], by))
            if ball is None:
                continue
            if any(not ball.overlaps(other) for other in seen):
                return True
            seen.append(ball)
    return False


# ---------------------------------------------------------------------------------------------- arrays

Mirror = Callable[..., list[Any]]
"""``mirror(world, arrays, near)``: the outputs of a function, as object arrays, in a world of balls or of jets.

Equations are solved from what floats `near` the arrays give, by default the midpoints.
"""


class Place(NamedTuple):
    """An element of an argument, or one part of a complex element, with its special value."""

    argument: int
    at: tuple[int, ...]
    imaginary: bool
    value: float


class Limits(NamedTuple):
    """The limits of a function's outputs and of their derivatives.

    Numbers come in the order of the arguments' and outputs' elements; a complex element takes two numbers, its real and
    its imaginary part.

    Attributes
    ----------
    values : list of Limit
    partials : list of list of Limit
        The Jacobian, one row per output.
    pulled, pushed : list of Limit
        The cotangents of the arguments, and the tangents of the outputs: limits of sums, not sums of limits.
    """

    values: list[Limit]
    partials: list[list[Limit]]
    pulled: list[Limit]
    pushed: list[Limit]


def _several(out: Any) -> list[Any]:
    return [objects(o) for o in out] if isinstance(out, (tuple, list)) else [objects(out)]


def _near(prim: Primitive, params: dict[str, Any], arrays: list[Any]) -> Any:
    """The result of an implicit op's kernel near balls, as start for the solution of its equations."""
    known = [to_float(np.frompyfunc(value_of, 1, 1)(a)) if a.dtype == object else a for a in arrays]
    with np.errstate(all="ignore"):
        return prim.kernel(*known, **params)


def mirror_of(prim: Primitive, params: dict[str, Any]) -> Mirror:
    """The mirror of one op with its static parameters."""

    def mirror(world: Any, arrays: list[Any], near: Sequence[Any] | None = None) -> list[Any]:
        function = getattr(world, prim.name)
        if prim.kind != "implicit":
            return _several(function(*arrays, **params))
        with recorded(_near(prim, params, list(near or arrays))):
            return _several(function(*arrays, **params))

    mirror.modest = prim.kind == "implicit"  # type: ignore[attr-defined]
    return mirror


def program_mirror(program: Program) -> Mirror:
    """The mirror of a recorded program, which decides conditions and indices again at each point."""
    where = {nodes[0]: k for k, nodes in enumerate(program.sources) if nodes}

    def value(world: Any, node: Node, env: dict[int, Any]) -> Any:
        if node.kind != "op":
            return program.step(world, node, env)
        arguments = [
            env[j] if a in node.active or not isinstance(env[j], np.ndarray) else _still(env[j])
            for a, j in enumerate(node.inputs)
        ]
        if not is_floating(node.output):
            return getattr(BALLS, node.prim.name)(*[_still(a) for a in arguments], **node.params)
        if node.prim.kind == "implicit":
            with recorded(_near(node.prim, node.params, [objects(a) for a in arguments])):
                return getattr(world, node.prim.name)(*arguments, **node.params)
        return node.apply(world, arguments)

    def mirror(world: Any, arrays: list[Any], near: Sequence[Any] | None = None) -> list[Any]:
        env: dict[int, Any] = {}
        for node in program.nodes:
            env[node.index] = arrays[where[node.index]] if node.index in where else value(world, node, env)
        return [objects(env[i]) for i in program.outputs if is_floating(program.nodes[i].output)]

    mirror.modest = any(  # type: ignore[attr-defined]
        n.kind == "op" and n.prim.kind == "implicit" for n in program.nodes
    )
    return mirror


def _still(x: Any) -> Any:
    return objects(np.frompyfunc(value_of, 1, 1)(x)) if isinstance(x, np.ndarray) and x.dtype == object else x


def _parts(balls: Any, complex: bool) -> list[Any]:
    flat = [e if isinstance(e, (arb, acb)) else arb(int(e)) for e in objects(balls).ravel().tolist()]
    if not complex:
        return [e.real if isinstance(e, acb) and e.imag == 0 else e for e in flat]
    return [part for e in flat for part in ((e.real, e.imag) if isinstance(e, acb) else (e, arb(0)))]


def _derivatives_at(
    mirror: Mirror,
    boxes: list[Any],
    complex: Sequence[bool],
    floating: Sequence[bool],
    near: Sequence[Any] | None = None,
) -> tuple[list[Any], list[list[Any]]] | None:
    """Values and Jacobian columns at balls; None for undecided values, an empty list for an undecided column."""
    try:
        values = [p for o, c in zip(mirror(BALLS, boxes, near), complex, strict=True) for p in _parts(o, c)]
    except (ArithmeticError, ValueError, np.linalg.LinAlgError):
        return None
    world = jet_world(1)
    columns = []
    for i, box in enumerate(boxes):
        if not floating[i]:
            continue
        steps: list[Any] = [1, acb(0, 1)] if any(isinstance(e, acb) for e in box.ravel().tolist()) else [1]
        for at, step in itertools.product(np.ndindex(box.shape), steps):
            u = np.zeros(box.shape, dtype=object)
            u[at] = step
            try:
                outs = mirror(world, [world.jet(b, u) if j == i else b for j, b in enumerate(boxes)], near)
                columns.append(
                    [p for o, c in zip(outs, complex, strict=True) for p in _parts(world.component(o, 1), c)]
                )
            except (ArithmeticError, ValueError, np.linalg.LinAlgError):
                columns.append([])
    return values, columns


def _sum_of_products(weights: Sequence[float], balls: Sequence[Any]) -> Any:
    return sum((b * arb(w) for w, b in zip(weights, balls, strict=True)), arb(0)) if len(balls) else arb("nan")


def _assembled(
    steps: list[tuple[list[Any], list[list[Any]]]], seeds: Sequence[float], tangents: Sequence[float]
) -> Limits:
    n = len(steps[0][0])
    m = len(steps[0][1])

    def entry(step: Any, o: int, e: int) -> Any:
        return step[1][e][o] if step[1][e] else arb("nan")

    return Limits(
        [limit_of([s[0][o] for s in steps]) for o in range(n)],
        [[limit_of([entry(s, o, e) for s in steps]) for e in range(m)] for o in range(n)],
        [limit_of([_sum_of_products(seeds[:n], s[1][e]) for s in steps]) for e in range(m)],
        [limit_of([_sum_of_products(tangents, [entry(s, o, e) for e in range(m)]) for s in steps]) for o in range(n)],
    )


def _whichever_way(limits: Sequence[Limit]) -> Limit:
    """The common limit of all paths; NaN if the limits differ."""
    first = limits[0]
    if not all(f == first or (math.isfinite(f) and abs(f - first) <= 1e-4 * abs(first) < math.inf) for f in limits):
        return _NONE
    if float(first) == 0.0 and not all(f.signed and math.copysign(1, f) == math.copysign(1, first) for f in limits):
        return UNSIGNED
    return first


def _combined(pick: Callable[[Sequence[Limit]], Limit], found: Sequence[Limits]) -> Limits:
    columns = [list(map(pick, zip(*[f[k] for f in found], strict=True))) for k in (0, 2, 3)]
    rows = [list(map(pick, zip(*rows, strict=True))) for rows in zip(*[f.partials for f in found], strict=True)]
    return Limits(columns[0], rows, columns[1], columns[2])


def _first_known(limits: Sequence[Limit]) -> Limit:
    return next((f for f in limits if not math.isnan(f)), _NONE)


def _with_the_sign_beside(limits: Sequence[Limit]) -> Limit:
    here, *beside = limits
    return beside[0] if beside and float(here) == float(beside[0]) == 0.0 else _first_known(limits)


_FEW = 4


def _ways(n: int) -> list[tuple[bool, ...]]:
    """Which of several places move slowly, for each path: none, then all but one, or two of each three."""
    if n == 1:
        return [(False,)]
    if n <= _FEW:
        return [(False,) * n, *[tuple(j != i for j in range(n)) for i in range(n)]]
    return [(False,) * n, *[tuple((j + i) % 3 != 0 for j in range(n)) for i in range(3)]]


def array_limits(
    mirror: Mirror,
    arrays: Sequence[Any],
    places: Sequence[Place],
    *,
    complex: Sequence[bool],
    seeds: Sequence[float],
    tangents: Sequence[float],
) -> Limits | None:
    """The limits of a function of arrays, and of its derivatives, at infinities and signed zeros.

    Parameters
    ----------
    mirror : callable
        From `mirror_of` or `program_mirror`.
    arrays : sequence of arrays
        The arguments; their elements at the places do not count.
    places : sequence of Place
        The special elements. Several of them move at different speeds.
    complex : sequence of bool
        True for each complex output.
    seeds, tangents : sequence of float
        Cotangents of the outputs and tangents of the arguments, two numbers for each complex one.

    Returns
    -------
    Limits or None
        The mirror's own values where defined (at zeros), otherwise limits, or NaN without a limit; None if the mirror
        is undecided on every path.

    Examples
    --------
    >>> from gtape.declare.primitives import REGISTRY
    >>> found = array_limits(mirror_of(REGISTRY["softmax"], {"axis": -1}), [np.array([1.0, 2.0])],
    ...     [Place(0, (1,), False, math.inf)], complex=[False], seeds=[1.0, 1.0], tangents=[1.0, 0.0])
    >>> [float(v) for v in found.values]
    [0.0, 1.0]
    """
    modest = mirror.modest  # type: ignore[attr-defined]
    floating = [np.asarray(a).dtype.kind in "fcV" for a in arrays]

    def boxes() -> list[Any]:
        return [objects(BALLS.lift(a)).copy() if f else a for a, f in zip(arrays, floating, strict=True)]

    def along(way: tuple[bool, ...], scale: Sequence[tuple[int, int, float]], unequal: bool) -> Limits | None:
        steps = []
        for power, factor, rest in scale:
            put = boxes()
            for j, (place, slow) in enumerate(zip(places, way, strict=True)):
                size = arb(2) ** power * factor + arb(rest)
                size = (size.root(3) * 256).floor() / 256 if slow else size
                size = size * (8 + 5 * j % 7) / 8 if unequal else size
                ball = (1 / size if place.value == 0 else size) * int(math.copysign(1, place.value))
                old = put[place.argument][place.at]
                if isinstance(old, acb):
                    ball = acb(old.real, ball) if place.imaginary else acb(ball, old.imag)
                put[place.argument][place.at] = ball
            found = _derivatives_at(mirror, put, complex, floating)
            if found is None:
                return None
            steps.append(found)
        return _assembled(steps, seeds, tangents)

    def tending(scale: Sequence[tuple[int, int, float]]) -> Limits | None:
        found = [along(way, scale, len(places) > 1) for way in _ways(len(places))]
        known = [f for f in found if f is not None]
        return _combined(_whichever_way, known) if len(known) == len(found) else None

    with precision(_MODEST_BITS if modest else _BITS):
        if not any(math.isinf(p.value) for p in places):
            here = _derivatives_at(mirror, boxes(), complex, floating, arrays)
            exact = [] if here is None else [_assembled([here] * _STEPS, seeds, tangents)]
            beside = tending(_MODEST if modest else _TALL)
            # The sign of a zero selects the side of a branch cut; at a real zero the mirror's own value counts.
            if beside is not None and any(np.asarray(a).dtype.kind == "c" for a in arrays):
                return _combined(_first_known, [beside, *exact])
            found = exact + ([] if beside is None else [beside])
            return _combined(_with_the_sign_beside, found) if found else None
        scales = [_MODEST] if modest else [_TALL, _LOW]
        some: list[Limits] = []
        for scale in scales:
            reached = tending(scale)
            some += [] if reached is None else [reached]
            if reached and not any(map(math.isnan, (*reached.values, *reached.pulled, *reached.pushed))):
                break
        return _combined(_first_known, some) if some else None
