"""Finds values and slopes along a program that overflow or underflow their dtype, as causes of lost digits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from flint import arb

from gtape.engine.rules import PartialOutputs
from gtape.engine.worlds import COMPLEX
from gtape.symbolic.balls import assumed, digits, finite_ball, objects, stands_for_infinity, to_float
from gtape.symbolic.program import Node, Program
from gtape.verify.bounds.local import Floats, finite
from gtape.verify.causes.conventions import exact_partials
from gtape.verify.causes.ends import meets_an_end
from gtape.verify.causes.outside import at_an_end, called
from gtape.verify.oracles.backward import by_rule, gradient
from gtape.verify.oracles.enclosures import BALLS, is_complex, is_floating, jet_world
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.verdicts.exponents import readable
from gtape.verify.verdicts.ulp import widest
from gtape.verify.verdicts.verdict import Cause, Finding

__all__ = ["left_the_range", "lost_by_a_rule", "overflow_inside", "overflows_in_floats", "without_slope"]

_SUSPECTS = 16  # elements tried per op
_LOST = 2.0**-40
_UNDERFLOWS = "underflows"


def left_the_range(program: Program, oracle: Oracle) -> Iterator[tuple[Cause, float | None]]:
    """The ops with a finite nonzero value, slope or cotangent outside the range of its dtype.

    Parameters
    ----------
    oracle : Oracle
        With the exact values of all nodes.

    Yields
    ------
    cause : Cause
    lost : float or None
        The most that an underflow loses; None for an overflow.
    """
    reached = set(program.ancestors([*program.outputs, *program.differentiated]))
    for node in program.nodes:
        if node.kind != "op" or node.index not in reached or isinstance(node.output, tuple):
            continue
        value = np.asarray(node.output)
        if value.dtype.kind != "f" or not is_floating(node.output):
            continue
        inputs = [np.asarray(program.nodes[j].output) for j in node.inputs]
        found = _beyond(value, lambda place, n=node: objects(oracle.env[n.index])[place], node, inputs)
        if found is not None:
            place, how, exactly = found
            what = f"{called(node, inputs, place)} is {value[place].item()!r}, exactly {exactly}"
            cause = "range", f"{what}: a value along the way {how} {value.dtype.name}", node.name, node.line
            yield cause, _lost_by(how, value.dtype)
        for a in node.active if node.prim.kind == "elementwise" else ():
            found = _slope_beyond(node, inputs, value, a)
            if found is not None:
                place, how, exactly = found
                what = f"{called(node, inputs, place)}{f' by argument {a}' if len(inputs) > 1 else ''}"
                reason = f"the derivative of {what} is exactly {exactly}, which {how} {value.dtype.name}"
                lost = _lost_by(how, value.dtype)
                arrived, _ = oracle.made.get(node.index, (None, None))
                if lost is not None:  # the rule multiplies the slope with a cotangent
                    lost = None if arrived is None else lost * max(1.0, _size_at(arrived, node.shape, place))
                yield ("range", reason, node.name, node.line), lost
    beyond = _cotangent_beyond(program, oracle)
    if beyond is not None:
        yield beyond, None


def _size_at(arrived: Any, shape: tuple[int, ...], place: tuple[int, ...]) -> float:
    """The size of one element of a cotangent."""
    return float(abs(to_float(np.broadcast_to(objects(arrived), shape)[place])))


def _lost_by(how: str, dtype: Any) -> float | None:
    return float(np.finfo(dtype).tiny) if how == _UNDERFLOWS else None


def _cotangent_beyond(program: Program, oracle: Oracle) -> Cause | None:
    """The first exact cotangent that overflows its dtype, because floats become infinite and then NaN there."""
    for node, _, made in oracle.swept():
        for a, c in zip(node.active, made, strict=True):
            output = program.nodes[node.inputs[a]].output
            if c is None or isinstance(output, tuple) or np.asarray(output).dtype.kind not in "fc":
                continue
            dtype = np.asarray(output).dtype
            largest = float(np.finfo(dtype).max)
            for ball in objects(c).ravel().tolist():
                if abs(ball) > largest and finite_ball(ball) and not _stands_for_a_limit(ball):
                    exactly = readable(digits(ball, 6))
                    what = f"the cotangent that {node.name} sends to its argument {a} is exactly {exactly}"
                    return "range", f"{what}, which overflows {dtype.name}", node.name, node.line
    return None


def overflows_in_floats(program: Program, seeds: list[Any]) -> Cause | None:
    """The first cotangent that overflows in a sweep of floats at its recorded numbers, while no exact cotangent does.

    Rounding may lead a chaotic program to another point, where cotangents are larger. Infinities that a rule makes of
    numbers whose exact result is in range are no overflow.
    """
    floats = Floats(program)
    with np.errstate(all="ignore"):
        gradient(program, seeds, floats)
    for index, (g, made) in floats.kept.items():
        node, y = program.nodes[index], floats.values[index]
        values = [floats.values[j] for j in node.inputs]
        if node.kind != "op" or isinstance(g, PartialOutputs) or any(isinstance(v, tuple) for v in (y, *values)):
            continue
        parts = floats.terms[index]
        if not finite(g):
            total = sum(objects(BALLS.lift(np.asarray(p))) for p in parts) if finite(*parts) else None
            if total is not None and _overflows(np.asarray(g), total):
                return _led_beyond(f"the sum of the cotangents of {node.name}", np.asarray(g).dtype, node)
            continue
        if not finite(y, *values):
            continue
        for a, c, k in zip(node.active, made, range(len(made)), strict=True):
            if c is not None and np.isinf(c).any():
                balls = [BALLS.lift(v) for v in values]
                exact = by_rule(BALLS, node, BALLS.lift(g), BALLS.lift(y), balls, values)[k]
                if _overflows(np.asarray(c), exact):
                    what = f"the cotangent that {node.name} sends to its argument {a}"
                    return _led_beyond(what, np.asarray(c).dtype, node)
    return None


def _overflows(c: Any, exact: Any) -> bool:
    """Whether each infinity among some numbers stands for an exact number beyond their range."""
    largest = float(np.finfo(c.dtype).max)
    pairs = zip(c.ravel().tolist(), objects(exact).ravel().tolist(), strict=True)
    return all(abs(e) > largest for v, e in pairs if np.isinf(v))


def _led_beyond(what: str, dtype: Any, node: Node) -> Cause:
    reason = f"{what} overflows {dtype.name}, and the exact one does not: rounding moved the numbers along the way"
    return "range", reason, node.name, node.line


def overflow_inside(oracle: Oracle, node: Node) -> str | None:
    """Which value of a custom gradient's function overflows, in words; None if none does.

    Parameters
    ----------
    oracle : Oracle
        After its replay.
    node : Node
        Of kind "custom".
    """
    arrived, _ = oracle.made.get(node.index, (None, None))
    if arrived is None:
        return None
    try:
        sub, _, env = oracle.custom_back(node, arrived)
    except (ArithmeticError, ValueError, TypeError, IndexError):  # the function of a user may raise anything
        return None
    for n in sub.nodes:
        value = np.asarray(n.output) if n.kind == "op" and not isinstance(n.output, tuple) else np.zeros(0)
        if value.dtype.kind != "f" or not np.isinf(value).any():
            continue
        inputs = [np.asarray(sub.nodes[j].output) for j in n.inputs]
        found = _beyond(value, lambda place, n=n: objects(env[n.index])[place])
        if found is not None and all(np.isfinite(x).all() for x in inputs if x.dtype.kind == "f"):
            place, how, exactly = found
            what = f"{called(n, inputs, place)} is {value[place].item()!r}, exactly {exactly}"
            return f"{what}: a value inside of the gradient that {node.name} returns {how} {value.dtype.name}"
    return None


def _stands_for_a_limit(ball: Any) -> bool:
    """Whether a number comes from an infinity that is lifted as a large number, so that it left no range."""
    exponent = assumed.get("limits")
    if exponent is None or ball == 0:
        return False
    return stands_for_infinity(ball) or bool(abs(ball) < arb(2) ** -(8 * exponent))


def _beyond(
    value: Any, exact_at: Any, node: Node | None = None, inputs: list[Any] | None = None
) -> tuple[tuple[int, ...], str, str] | None:
    """An element that overflowed, or underflowed and lost digits: (place, verb, exact value).

    With the node and its recorded inputs, only underflows of this op count: 0 times a number is 0 without an underflow,
    also if the factor would exactly be small.
    """
    tiny, largest = float(np.finfo(value.dtype).tiny), float(np.finfo(value.dtype).max)
    with np.errstate(all="ignore"):
        suspects = np.argwhere((np.abs(widest(value)) < tiny) | np.isinf(value))
    for row in suspects[:_SUSPECTS]:
        place = tuple(row.tolist())
        ball = objects(exact_at(place)).item()
        if _stands_for_a_limit(ball):
            continue
        came = float(value[place])
        if ball == 0 or not finite_ball(ball):
            continue
        if np.isinf(came):
            if abs(ball) > largest:
                return place, "overflows", readable(digits(ball, 6))
            continue  # a pole that only the rounded input hits
        size = abs(ball)
        if size < tiny and size > 0 and abs(ball - came) > _LOST * size:
            if node is not None and _is_right_at(node, inputs or [], place, came):
                continue
            return place, _UNDERFLOWS, readable(digits(ball, 6))
    return None


def _is_right_at(node: Node, inputs: list[Any], place: tuple[int, ...], came: float) -> bool:
    """Whether an element is the exact value of the op at its recorded inputs, so that the inputs lost the digits."""
    try:
        ball = objects(node.apply(BALLS, [BALLS.lift(x) for x in inputs]))[place]
    except (ArithmeticError, ValueError, TypeError, IndexError):
        return False
    return bool(ball == came) or bool(abs(ball - came) <= _LOST * abs(ball))


def _slope_beyond(node: Node, inputs: list[Any], value: Any, a: int) -> tuple[tuple[int, ...], str, str] | None:
    p = node.prim.partials[a]
    if not callable(p) or not all(np.isfinite(v).all() for v in inputs if v.dtype.kind == "f"):
        return None
    with np.errstate(all="ignore"):
        slope = np.broadcast_to(np.asarray(p(COMPLEX, value, *inputs, **node.params)), node.shape)

    def exact_at(place: tuple[int, ...]) -> Any:
        at = [objects(BALLS.lift(np.broadcast_to(v, node.shape)[place])).reshape(1) for v in inputs]
        return exact_partials(node, at, (a,))[0][0]

    try:
        return _beyond(slope, exact_at) if slope.dtype.kind == "f" else None
    except ArithmeticError:
        return None


def lost_by_a_rule(program: Program, seeds: list[Any]) -> Cause | None:
    """The first op whose rule makes infinity or NaN of finite numbers, in a sweep of floats."""
    found = _losing(program, seeds)
    if found is None:
        return None
    node, a = found
    reason = f"the rule of {node.name} gives infinity or NaN for its argument {a}, from finite numbers"
    return "unstable", reason, node.name, node.line


def lost_without_slope(program: Program, seeds: list[Any], oracle: Oracle) -> bool:
    """Whether the op of `lost_by_a_rule` has no finite derivative at its exact inputs, so that no rule is right there.

    Parameters
    ----------
    oracle : Oracle
        With the exact values of all nodes.
    """
    found = _losing(program, seeds)
    return found is not None and next(_places_without_slope(found[0], oracle, 1), None) is not None


def _losing(program: Program, seeds: list[Any]) -> tuple[Node, int] | None:
    """The op of `lost_by_a_rule`, and the argument by which it loses the number."""
    floats = Floats(program)
    with np.errstate(all="ignore"):
        gradient(program, seeds, floats)
    for index, (g, made) in floats.kept.items():
        node = program.nodes[index]
        if node.kind != "op" or not finite(*_parts(g), *_parts(floats.values[index])):
            continue
        if not finite(*[floats.values[j] for j in node.inputs if not isinstance(floats.values[j], tuple)]):
            continue
        for a, c in zip(node.active, made, strict=True):
            if c is not None and not finite(*_parts(c)):
                return node, a
    return None


def _parts(v: Any) -> list[Any]:
    return [p for p in PartialOutputs.of(v).values() if p is not None]


def without_slope(program: Program, oracle: Oracle, order: int, bits: int) -> Finding | None:
    """The finding for the first elementwise op without a finite derivative at its finite exact inputs.

    Checks second derivatives of ops inside inner gradients, too.

    Parameters
    ----------
    oracle : Oracle
        With the exact values of all nodes, at high precision.
    order : int
    bits : int
        The number of bits of these values.
    """
    inner = program.ancestors(program.differentiated)
    for k, places in ((1, range(len(program.nodes))), (2, inner)):
        for node in [program.nodes[i] for i in places]:
            for place, at in _places_without_slope(node, oracle, k):
                inputs = [np.asarray(program.nodes[j].output) for j in node.inputs]
                what = "derivatives" if k == 1 else "second derivatives"
                reason = f"{called(node, inputs, place)} has no finite {what}"
                if meets_an_end(node, [x[0] for x in at]):
                    return at_an_end(node, place, reason, bits, order)
                return Finding("domain", order=order, at=node, reason=reason)
    return None


def _places_without_slope(node: Node, oracle: Oracle, k: int) -> Iterator[tuple[tuple[int, ...], list[Any]]]:
    """The elements of an elementwise op that have no finite k-th derivative at finite exact inputs, with the inputs."""
    if node.kind != "op" or node.prim.kind != "elementwise" or not node.active or is_complex(node.output):
        return
    xs = [np.broadcast_to(objects(oracle.env[j]), node.shape) for j in node.inputs]
    by = [a for a in node.active if callable(node.prim.partials[a])]
    for place in np.ndindex(*node.shape) if by else ():
        at = [objects(x[place]).reshape(1) for x in xs]
        # Where an input is not finite, an earlier op is to blame.
        if all(finite_ball(x[0]) for x in at) and not _has_derivative(node, at, by, k):
            yield place, at


def _has_derivative(node: Node, at: list[Any], by: list[int], k: int) -> bool:
    """True if the k-th derivative of the mirror along fixed directions is finite at a point, or undecided."""
    world = jet_world(k)
    along = [objects(np.full(1, n)) for n in (3, 5)][:k]
    arguments = [world.jet(x, *along) if i in by else x for i, x in enumerate(at)]
    try:
        made = world.component(node.apply(world, arguments), (1 << k) - 1)[0]
    except ArithmeticError:
        return True
    return finite_ball(made)
