"""Compares each custom gradient with the derivative of its body."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from flint import acb, arb

from gtape.base.escaping import place_text
from gtape.engine.rules import PartialOutputs
from gtape.symbolic.balls import circumstances, digits, finite_ball, objects, to_float
from gtape.symbolic.program import Node, Program
from gtape.verify.bounds.inputs import NO_JETS, moved_through_body
from gtape.verify.bounds.local import Floats
from gtape.verify.oracles.backward import RunsOnce, by_user, gradient, kept_and_again, runs_of_user
from gtape.verify.oracles.certificates import (
    Failure,
    by_constants,
    by_saved,
    certify,
    certify_custom,
    certify_elements,
    certify_rule,
    custom_directions,
    far_off,
    faulty_rules,
    has_declared,
    in_one_element,
    inside_of,
    roundings_of,
)
from gtape.verify.oracles.enclosures import (
    BALLS,
    directions,
    disagreement,
    distance_of,
    inner,
    is_complex,
    is_floating,
    jet_world,
    magnitude,
    random_cotangents,
    turned,
)
from gtape.verify.oracles.oracle import Oracle, TooDeep, varies
from gtape.verify.oracles.replay import Shared, cotangents_returned
from gtape.verify.verdicts.ulp import ROUNDINGS, widest
from gtape.verify.verdicts.verdict import Finding

__all__ = [
    "CHANGE", "agrees_along", "certify_value", "changing", "faulty_along", "faulty_beside", "faulty_customs",
    "faulty_forwards", "faulty_inside", "inner_culprits", "innermost", "is_right_exactly", "is_rounded",
    "least_stable", "lies_between", "losing_digits", "not_finite", "ones_like", "only_rounded", "read_from_outside",
    "room_of", "slopes_of_custom", "stops_of", "unlike_body",
]  # fmt: skip

_T = TypeVar("_T")

_CALLS = 8  # calls of one function that are compared along all directions; later ones along one, and in elements
_NEAR = 100  # bits up to which derivatives on several sides agree
# An error up to this size hides no fault of one element, because directions let elements count alike up to 2**-64.
_RESIDUAL = 2.0**-100
_WAYS = 8  # directions that tell an error of a custom gradient from a rounding
CHANGE = 2.0**-10  # the least share of an error that explains the error
_FEW_ROUNDINGS = 4.0  # of a formula that loses no digits
_REPEATS = 4  # runs of a custom gradient that must return the same numbers


def _certify_slope(oracle: Oracle, node: Node, g: Any) -> Failure | None:
    """Compare the derivative of a custom gradient with the second derivative of its body, by jets, and in single
    elements if the error may be a rounding.
    """
    slope = _Slope(oracle, node, g)
    failure = slope.compared(custom_directions(oracle, node))
    if failure is None or not is_rounded(failure):
        return failure
    return max([f for f in slope.in_elements() if not is_rounded(f)], key=lambda f: f.error, default=failure)


class _Slope:
    """The derivative of a custom gradient for a cotangent, along one random direction of its inputs.

    Parameters
    ----------
    oracle : Oracle
    node : Node
        Of kind "custom".
    g : cotangent of its outputs
    """

    def __init__(self, oracle: Oracle, node: Node, g: Any) -> None:
        self.oracle, self.node, self.g = oracle, node, g
        self.twice = twice = custom_directions(oracle, node)
        world = jet_world(1)
        sub, outputs, env = oracle.custom_back(node, g)
        back = Oracle(sub, [])
        back.env = env
        found = {n.index: oracle.known(n) for n in sub.nodes}
        # The function may have computed its slope together with its value, beside its body.
        inside = oracle.program.ancestors([*node.body, *[k for k in found.values() if k is not None]])
        moving = oracle.jets(1, {}, inside, {j: world.jet(oracle.env[j], v) for j, v in twice.items()})
        given = {i: moving.get(k, oracle.env[k]) for i, k in found.items() if k is not None}
        slopes = back.jets(1, {}, range(len(sub.nodes)), given)
        self.made: dict[
            int, Any
        ] = {}  # input -> how the gradient by it moves, summed for an input that is passed twice
        for a, o in zip(node.active, outputs, strict=True):
            if o is not None:
                j, c = node.inputs[a], world.component(slopes[o], 1)
                c = turned(c) if is_complex(sub.nodes[o].output) else c
                self.made[j] = objects(self.made[j] + c) if j in self.made else objects(c)

    def compared(self, once: dict[int, Any], least: Any = 0) -> Failure | None:
        """The comparison along a second direction, relative to a size of at least `least`."""
        oracle, node, twice, deeper = self.oracle, self.node, self.twice, jet_world(2)
        inside = oracle.program.ancestors(node.body)
        deep = oracle.jets(2, {}, inside, {j: deeper.jet(oracle.env[j], u, twice[j]) for j, u in once.items()})
        got, expected, scale = arb(0), arb(0), arb(0)
        for j, c in self.made.items():
            got, scale = got + inner(once[j], c), scale + magnitude(once[j], c)
        for k, c in PartialOutputs.of(self.g).items():
            both = deeper.component(deep[node.body[k]], 3)
            c = np.broadcast_to(objects(c), np.shape(both))
            expected, scale = expected + inner(c, both), scale + magnitude(c, both)
        error = disagreement(got, expected, scale + least)
        if not error:
            return None
        moved, distance = by_constants(oracle, node, self.g, once, twice), distance_of(got, expected)
        return Failure("derivative of the custom gradient", node, error, by_constants=moved, distance=distance)

    def in_elements(self) -> Iterator[Failure]:
        """The comparisons of those elements alone that a sweep through the body finds far off.

        Each counts at least as much as a typical element, because the terms of a small one may cancel.
        """
        if sum(np.size(c) for c in self.made.values()) < 2:
            return
        try:
            exact = moved_through_body(self.oracle, self.node, self.g, self.twice)
        except (ArithmeticError, TooDeep, *NO_JETS):  # the direction counts
            return
        ways = custom_directions(self.oracle, self.node)
        for j, i in far_off(self.made, exact, ROUNDINGS * roundings_of(self.node), alone=True):
            sizes = sorted([abs(e).mid() for e in self.made[j].ravel().tolist()])
            failure = self.compared(in_one_element(ways, j, i), sizes[len(sizes) // 2])
            if failure is not None:
                yield failure._replace(place="in one element")


def certify_value(oracle: Oracle, node: Node, g: Any, made: list[Any], ways: int = _WAYS) -> Failure | None:
    """As `certify_custom`, along several directions and in single elements if the error may be a rounding."""
    failure = certify_custom(oracle, node, g, made)
    if failure is None or not is_rounded(failure):
        return failure
    if ways > 1:
        failure = certify_custom(oracle, node, g, made, ways) or failure
    return failure if not is_rounded(failure) else _in_elements(oracle, node, g, made) or failure


def _in_elements(
    oracle: Oracle, node: Node, g: Any, made: list[Any], along: dict[int, Any] | None = None
) -> Failure | None:
    """The worst failure of `certify_elements` beyond roundings."""
    try:
        alone = certify_elements(oracle, node, g, made, ROUNDINGS * roundings_of(node), along)
    except ArithmeticError:  # a rule of the body makes no finite number of the cotangent, and the directions count
        return None
    wrong = [f for f in alone if not is_rounded(f)]
    return max(wrong, key=lambda f: f.error, default=None)


def stops_of(oracle: Oracle, node: Node) -> list[Node]:
    """The ops in the body of a custom gradient that stop a value. Those that ran before the function are left out."""
    inside = [oracle.program.nodes[i] for i in sorted(inside_of(oracle, node))]
    return [n for n in inside if n.kind == "op" and "stop" in n.prim.roles and node.seq < n.seq < node.begun]


def unlike_body(oracle: Oracle, node: Node, by: str) -> str:
    """Why a custom gradient is wrong; `by` says by how much.

    The reason names a stopped value of the body, because TensorFlow runs a body under no tape, where a stop changes
    nothing.
    """
    reason = f"the gradient that {node.name} returns is not the derivative of its body ({by})"
    stops = stops_of(oracle, node)
    if not stops:
        return reason
    place = "" if stops[0].line is None else f" ({place_text(stops[0].line)})"
    return (
        f"{reason}; {stops[0].name} stops a value of the body{place}, and the gradient is neither the derivative with "
        "this value as a constant nor the derivative without the stop"
    )


def faulty_customs(oracle: Oracle, *, slopes: bool = False, without: frozenset[int] = frozenset()) -> list[Failure]:
    """The wrong custom gradients along a program and its inner gradients.

    A search takes place once in each replay; among the inner gradients, which depend on no cotangent, once for all rows
    of a derivative.

    Parameters
    ----------
    oracle : Oracle
        After its replay.
    slopes : bool
        If True, compare the derivatives of the custom gradients instead of their values.
    without : frozenset of int
        Nodes that are left out.
    """
    state = circumstances()
    key = faulty_customs, slopes, without, state, oracle.broken
    env, made, found = oracle.of_sweep.get(key, (None, None, []))
    if state is None or env is not oracle.env or made is not oracle.made:
        found = _faulty(oracle, slopes, without)
        oracle.of_sweep[key] = oracle.env, oracle.made, found
    return list(found)


def _faulty(oracle: Oracle, slopes: bool, without: frozenset[int]) -> list[Failure]:
    """As `faulty_customs`, without a look at results of the same replay."""
    outer = ((oracle.program.nodes[i], g, made) for i, (g, made) in oracle.made.items())
    found = _faulty_among(oracle, outer, slopes, without)
    rows = oracle.shared or Shared()
    inside = rows.get(
        ("faulty customs", slopes, without), lambda: _faulty_among(oracle, oracle.swept_inside(), slopes, without)
    )
    for function, failure in inside.items():
        before = found.get(function)
        if before is None or (not slopes and is_rounded(before) and failure.error > before.error):
            found[function] = failure
    return list(found.values())


def _faulty_among(
    oracle: Oracle, swept: Iterable[tuple[Node, Any, list[Any]]], slopes: bool, without: frozenset[int]
) -> dict[Any, Failure]:
    """The wrong custom gradients among some nodes of sweeps, by their functions."""
    found: dict[Any, Failure] = {}
    calls: Counter[Any] = Counter()
    for node, g, made in swept:
        if node.kind != "custom" or node.prim.declared is not None or node.index in without:
            continue
        before = found.get(_function_of(node))
        if (before is not None and not is_rounded(before)) or has_declared(oracle, node):
            continue  # known, or no derivative to compare with, because a declared custom gradient takes part
        calls[_function_of(node)] += before is not None
        ways = _WAYS if calls[_function_of(node)] <= _CALLS else 1
        try:
            failure = _certify_slope(oracle, node, g) if slopes else certify_value(oracle, node, g, made, ways)
        except ArithmeticError:
            continue
        if failure is not None and (before is None or failure.error > before.error):
            found[_function_of(node)] = failure
    return found


def _function_of(node: Node) -> Any:
    """What tells the functions of custom gradients apart, because functions of a factory share a name."""
    return node.name, None if node.call is None else id(node.call[0])


def innermost(oracle: Oracle, found: list[_T], node_of: Callable[[_T], Any]) -> list[_T]:
    """Those of some wrong custom gradients that call no other of them: a recomputed block is wrong because of what it
    holds.
    """
    wrong = {_function_of(node_of(f)) for f in found}

    def holds_another(node: Node) -> bool:
        inside = [oracle.program.nodes[i] for i in inside_of(oracle, node)]
        others = wrong.difference([_function_of(node)])  # because a function may call itself
        return any(n.kind == "custom" and _function_of(n) in others for n in inside)

    return [f for f in found if not holds_another(node_of(f))] or found


def slopes_of_custom(oracle: Oracle, node: Node) -> list[Any]:
    """The gradient that a custom function returns for each active input, for cotangents of ones."""
    _, outputs, env = oracle.custom_back(node, ones_like(node))
    return [None if o is None else objects(env[o]) for o in outputs]


def lies_between(here: list[Any], sides: Sequence[list[Any]]) -> bool:
    """Whether no number of a custom function's gradient at a kink lies outside of all numbers of the sides.

    Parameters
    ----------
    here : list of object arrays, or None
        The gradient at the kink, for each argument.
    sides : sequence of these
        The gradients on the sides of the kink.
    """
    for k, mine in enumerate(here):
        beside = [e for g in sides if g[k] is not None for e in objects(g[k]).ravel().tolist()]
        if mine is None or not beside or any(isinstance(e, acb) for e in beside):
            continue
        by_middle = sorted(map(arb, beside), key=lambda e: e.mid())
        low, high = by_middle[0], by_middle[-1]
        room = arb(2) ** -_NEAR * (1 + abs(low) + abs(high))
        if any(e < low - room or e > high + room for e in map(arb, objects(mine).ravel().tolist())):
            return False
    return True


def agrees_along(here: list[Any], sides: Sequence[list[Any]]) -> bool:
    """Whether the gradient of a custom function at a kink agrees with the sides along directions in which these agree.

    At a tie of a maximum, the gradients of the sides are (1, 0) and (0, 1), and (1, 1) counts the tie twice, although 1
    lies in both intervals. Few sides may agree by chance, if elements of their own move against each other.

    Parameters
    ----------
    here, sides
        As for `lies_between`.
    """
    shapes = [np.shape(v) for v in here if v is not None]
    ways = [[np.ones(shape, dtype=int) for shape in shapes]]
    if shapes and all(shape == shapes[0] for shape in shapes):
        weights = np.random.default_rng(53).integers(1, 2**20, shapes[0])
        ways.append([np.asarray(weights) for _ in shapes])
    for way in ways:
        number, *limits = [_along(way, g) for g in (here, *sides)]
        size = arb(2) ** -_NEAR * (1 + max((abs(a) for a in limits), key=lambda a: a.mid()))
        if all(abs(a - limits[0]) < size for a in limits) and not abs(number - limits[0]) < size:
            return False
    return True


def _along(way: list[Any], gradient: list[Any]) -> Any:
    """A derivative along a direction, given for the arguments that have one."""
    total = arb(0)
    for u, c in zip(way, (c for c in gradient if c is not None), strict=True):
        total = total + inner(u, c)
    return total


def faulty_forwards(
    oracle: Oracle, *, transposed: bool = True, among: Container[int] | None = None
) -> list[tuple[Node, str]]:
    """The custom gradients that differ from the derivatives of their bodies by more than roundings, for random
    cotangents.

    Parameters
    ----------
    oracle : Oracle
        With the exact values of all nodes.
    transposed : bool
        Whether a gradient must also depend on its cotangent, because forward mode transposes it.
    among : container of int, optional
        The nodes that are compared; all by default.

    Returns
    -------
    list of (Node, str)
        Each node with the reason.
    """
    found: dict[Any, tuple[Node, str]] = {}
    calls: Counter[Any] = Counter()
    for node in oracle.program.nodes:
        if node.kind != "custom" or node.prim.declared is not None or _function_of(node) in found:
            continue
        if among is not None and node.index not in among:
            continue
        ways = _WAYS if calls[_function_of(node)] <= _CALLS else 1
        outs = node.output if isinstance(node.output, tuple) else (node.output,)
        # At random, because a gradient that ignores its cotangent is right for ones.
        gs = tuple([random_cotangents(np.shape(o), oracle.rng, complex=is_complex(o)) for o in outs])
        try:
            sub, outputs, env = oracle.custom_back(node, gs)
            lost = _lost_cotangent(sub, outputs, env) if transposed else None
            if lost is not None:
                forward = f"so forward mode, which transposes the gradient, gets {lost[1]}"
                found[_function_of(node)] = node, f"the gradient of {node.name} {lost[0]}, {forward}"
                continue
            failure = certify_value(oracle, node, gs, cotangents_returned(sub, outputs, env), ways)
        except ArithmeticError:
            continue
        if failure is None:
            continue
        if is_rounded(failure):
            calls[_function_of(node)] += 1
            continue
        found[_function_of(node)] = node, unlike_body(oracle, node, f"relative error {failure.shown:.3g}")
    return list(found.values())


def _lost_cotangent(sub: Program, outputs: list[int | None], env: dict[int, Any]) -> tuple[str, str] | None:
    """How a custom gradient loses its cotangent on the tape, and what forward mode gets; None if it loses nothing.

    A gradient is linear in its cotangent, so that its derivative along the cotangent is the gradient itself.

    Parameters
    ----------
    sub : Program
        The user's function, traced on the cotangent.
    outputs, env
        As from `Replay.custom_back`.
    """
    ends = [o for o in outputs if o is not None]
    inside, given = sub.ancestors(ends), [i for nodes in sub.sources for i in nodes]
    nothing = "does not depend on its upstream gradient on the tape (through .numpy() or stop_gradient?)", "nothing"
    if not any(e != 0 for o in ends for e in objects(env[o]).ravel().tolist()):
        return None
    if set(given).isdisjoint(inside):
        return nothing
    if any(n.kind == "custom" and n.prim.declared is not None for n in sub.nodes) or any(
        is_complex(sub.nodes[i].output) for i in (*ends, *given)
    ):
        return None
    back = Oracle(sub, [])
    back.env = env
    world = jet_world(1)
    moved = back.jets(1, {i: [env[i]] for i in given}, inside)
    if not any(varies(moved[o]) for o in ends):
        return nothing
    for o in ends:
        along = objects(world.component(moved[o], 1))
        u = directions(np.shape(along), back.rng, like=env[o])
        if disagreement(inner(u, along), inner(u, env[o]), magnitude(u, along) + magnitude(u, env[o])):
            reason = "depends on its upstream gradient on the tape only in part (the rest through .numpy() or "
            return f"{reason}stop_gradient?)", "a part"
    return None


def faulty_along(oracle: Oracle, moving: dict[int, Any], among: Iterable[int]) -> list[tuple[Node, str]]:
    """The custom gradients that are wrong along a tangent, by more than roundings.

    Parameters
    ----------
    oracle : Oracle
        With the exact values of all nodes.
    moving : dict
        Node -> its jets along the tangent.
    among : iterable of int
        The nodes that are compared.

    Returns
    -------
    list of (Node, str)
        Each node with the reason.
    """
    world = jet_world(1)
    found = []
    for node in [oracle.program.nodes[i] for i in among]:
        if node.kind != "custom" or node.prim.declared is not None:
            continue
        ways = {j: objects(world.component(moving[j], 1)) for j in (node.inputs[a] for a in node.active)}
        parts = moving[node.index] if isinstance(node.output, tuple) else (moving[node.index],)
        try:
            failure = _along_tangent(oracle, node, ways, [objects(world.component(v, 1)) for v in parts])
        except ArithmeticError:
            continue
        if failure is not None and not is_rounded(failure):
            by = f"relative error {failure.shown:.3g} {failure.place}"
            found.append((node, unlike_body(oracle, node, by)))
    return found


def _along_tangent(oracle: Oracle, node: Node, ways: dict[int, Any], slopes: list[Any]) -> Failure | None:
    """Compare a custom gradient with the tangent of its body, and single elements if the error may be a rounding.

    Parameters
    ----------
    ways : dict
        Input -> its tangent.
    slopes : list of object arrays
        The tangents of the outputs, by the body.
    """
    outs = node.output if isinstance(node.output, tuple) else (node.output,)
    gs = {
        k: directions(np.shape(v), oracle.rng, complex=is_complex(o), like=v)
        for k, (o, v) in enumerate(zip(outs, slopes, strict=True))
    }
    sub, outputs, env = oracle.custom_back(node, tuple(gs.values()))
    made = cotangents_returned(sub, outputs, env)
    failure = _for_cotangent(oracle, node, ways, slopes, gs, made)
    if failure is None or not is_rounded(failure):
        return failure
    wrong = _in_elements(oracle, node, _cotangent(node, gs), made, ways)
    if wrong is not None:
        return wrong
    for k, i in _far_outputs(oracle, node, ways, slopes, (sub, outputs, env)):
        one = in_one_element(gs, k, i)
        made = cotangents_returned(*oracle.custom_back(node, tuple(one.values())))
        wrong = _for_cotangent(oracle, node, ways, slopes, one, made)
        if wrong is not None and not is_rounded(wrong):
            return wrong._replace(place="in one element along the tangent")
    return failure


def _cotangent(node: Node, gs: dict[int, Any]) -> Any:
    return PartialOutputs(gs) if isinstance(node.output, tuple) else gs[0]


def _for_cotangent(
    oracle: Oracle, node: Node, ways: dict[int, Any], slopes: list[Any], gs: dict[int, Any], made: list[Any]
) -> Failure | None:
    """The comparison of `_along_tangent`, weighted with one cotangent of each output."""
    total, expected, scale = arb(0), arb(0), arb(0)
    for a, c in zip(node.active, made, strict=True):
        if c is not None:
            t = ways[node.inputs[a]]
            total, scale = total + inner(t, c), scale + magnitude(t, c)
    for k, v in enumerate(slopes):
        expected, scale = expected + inner(gs[k], v), scale + magnitude(gs[k], v)
    error = disagreement(total, expected, scale)
    if not error:
        return None
    g = _cotangent(node, gs)
    moved = max(by_constants(oracle, node, g, ways), by_saved(oracle, node, g, ways))
    return Failure(
        "custom gradient", node, error, by_constants=moved, distance=distance_of(total, expected),
        place="along the tangent",
    )  # fmt: skip


def _far_outputs(
    oracle: Oracle, node: Node, ways: dict[int, Any], slopes: list[Any], back: tuple[Program, list[Any], dict[int, Any]]
) -> list[tuple[int, int]]:
    """The elements of the outputs that a sweep through a custom gradient, which transposes it, finds far off."""
    sub, outputs, env = back
    ends = [(node.inputs[a], o) for a, o in zip(node.active, outputs, strict=True) if o is not None]
    if any(is_complex(n.output) for n in (node, *[sub.nodes[o] for _, o in ends])):
        return []
    through, start = Oracle(sub, []), dict[int, Any]()
    through.env = env
    for j, o in ends:
        t = np.broadcast_to(ways[j], np.shape(env[o]))
        start[o] = objects(start[o] + t) if o in start else objects(t)
    found, moved = through.sweep(start), dict[int, Any]()
    for k, nodes in enumerate(sub.sources):
        for i in nodes:
            if i in found:
                moved[k] = objects(moved[k] + found[i]) if k in moved else objects(found[i])
    return far_off(moved, dict(enumerate(slopes)), ROUNDINGS * roundings_of(node), alone=True)


def is_right_exactly(oracle: Oracle, node: Node, g: Any = None) -> bool:
    """Whether the function of a custom gradient gives the derivative of its body if it computes exactly.

    A formula such as ``exp(-x) / (1 + exp(-x))**2``, whose numbers overflow in floats, does; a division of 0 by 0 does
    not.

    Parameters
    ----------
    oracle : Oracle
        With the exact values of all nodes.
    node : Node
        Of kind "custom".
    g : cotangent of its outputs, optional
        By default random numbers.
    """
    if g is None:
        outs = node.output if isinstance(node.output, tuple) else (node.output,)
        parts = [random_cotangents(np.shape(o), oracle.rng, complex=is_complex(o)) for o in outs]
        g = PartialOutputs(dict(enumerate(parts))) if isinstance(node.output, tuple) else parts[0]
    try:
        sub, outputs, env = oracle.custom_back(node, g)
        made = cotangents_returned(sub, outputs, env)
        if not all(finite_ball(e) for c in made if c is not None for e in objects(c).ravel().tolist()):
            return False
        failure = certify_value(oracle, node, g, made)
    except (ArithmeticError, ValueError, TypeError, IndexError):  # the function of a user may raise anything
        return False
    return failure is None or is_rounded(failure)


def not_finite(program: Program, seeds: list[Any], got: list[Any], order: int) -> Finding | None:
    """The finding for a custom gradient that is NaN or infinite where the derivative of its body is finite.

    A custom gradient that is right in exact arithmetic has no such finding, because its numbers left their range.

    Parameters
    ----------
    program : Program
    seeds : list of arrays or None
        Cotangent of each output.
    got : list of arrays or None
        The gradient by each source.
    order : int

    Raises
    ------
    ArithmeticError
        If the precision in force does not decide.
    """
    oracle = Oracle(program, seeds, by_bodies=True)
    oracle.evaluate()
    exact = oracle.replay()
    if certify(oracle, exact):
        return None  # another rule is wrong, too
    lost = {s: mask for s, (g, e) in enumerate(zip(got, exact, strict=True)) if (mask := _lost(g, e)).any()}
    for s in lost:
        for node in program.nodes:
            if node.kind != "custom" or node.prim.declared is not None or node.index not in oracle.arrived:
                continue
            inside = set(program.ancestors([node.index]))
            if inside.isdisjoint(program.sources[s]):
                continue
            arrived = PartialOutputs.filled(oracle.arrived[node.index], node.output)
            arrived = tuple(map(to_float, arrived)) if isinstance(arrived, tuple) else to_float(objects(arrived))
            with np.errstate(all="ignore"):
                made = by_user(node, arrived)
            lost_here = any(c is not None and not np.isfinite(np.asarray(c)).all() for c in made)
            if lost_here and not is_right_exactly(oracle, node, oracle.arrived[node.index]):
                index = tuple(int(i) for i in np.argwhere(lost[s])[0])
                truth = np.broadcast_to(objects(0 if exact[s] is None else exact[s]), np.shape(got[s]))[index]
                reached = [mask for t, mask in lost.items() if not inside.isdisjoint(program.sources[t])]
                reason = f"the gradient that {node.name} returns is not finite, but the derivative of its body is"
                return Finding(
                    "rule", order=order, at=node, element=(s, index), got=np.asarray(got[s])[index].item(),
                    exact=digits(truth), count=sum(int(mask.sum()) for mask in reached), reason=reason,
                )  # fmt: skip
    return None


def _lost(g: Any, exact: Any) -> Any:
    """The numbers that are NaN or infinite although no exact number is infinite, or rounded to an infinity."""
    found = np.array(False if g is None else ~np.isfinite(g))
    every = np.broadcast_to(objects(0 if exact is None else exact), found.shape)
    for index in map(tuple, np.argwhere(found).tolist()):
        truth = every[index]
        found[index] = isinstance(truth, int) or bool(abs(truth) <= float(np.finfo(np.asarray(g).dtype).max))
    return found


def read_from_outside(program: Program, node: Node) -> bool:
    """Whether the body of a custom gradient reads a tensor that is no argument and depends on a source."""
    if node.prim.declared is not None or node.begun == 0:
        return False
    sources = {i for nodes in program.sources for i in nodes}
    pending, seen = list(node.body), set(node.inputs)
    while pending:
        i = pending.pop()
        if i in seen:
            continue
        seen.add(i)
        n = program.nodes[i]
        if n.kind in ("op", "custom", "item") and node.seq < n.seq < node.begun:
            pending += [*n.inputs, *n.body]
        elif is_floating(n.output) and not sources.isdisjoint(program.ancestors([i])):
            return True
    return False


def inner_culprits(oracle: Oracle, node: Node) -> list[tuple[Node, str]]:
    """The wrong custom gradients in the body of a wrong custom gradient, such as that of a recomputed function."""
    return faulty_forwards(oracle, transposed=False, among=inside_of(oracle, node))


def faulty_inside(oracle: Oracle, node: Node) -> list[Failure]:
    """The ops with a wrong rule in the body of a custom gradient.

    These ops explain a wrong gradient of a recomputed function.
    """
    return _faulty_alone(oracle, sorted(inside_of(oracle, node)))


def faulty_beside(oracle: Oracle) -> list[Failure]:
    """The ops with a wrong rule in a program with ops that have no derivative; ops defined by equations are left out.

    Parameters
    ----------
    oracle : Oracle
        With the exact values of all nodes.
    """
    nodes = oracle.program.nodes
    return _faulty_alone(oracle, [n.index for n in nodes if n.prim is not None and n.prim.kind != "implicit"])


def _faulty_alone(oracle: Oracle, indices: Iterable[int]) -> list[Failure]:
    """The ops among some nodes whose rule is wrong for a random cotangent."""
    found: dict[str, Failure] = {}
    for i in indices:
        n = oracle.program.nodes[i]
        if n.kind != "op" or not n.active or n.name in found or not is_floating(n.output):
            continue
        several = isinstance(n.output, tuple)
        shapes = [np.shape(v) for v in (n.output if several else (n.output,))]
        gs = [random_cotangents(s, oracle.rng, complex=is_complex(n.output)) for s in shapes]
        g: Any = PartialOutputs(dict(enumerate(gs))) if several else gs[0]
        try:
            failure = certify_rule(oracle, n, g, oracle.pulled(n, g))
        except ArithmeticError:
            continue
        if failure is not None:
            found[n.name] = failure
    return list(found.values())


def least_stable(oracle: Oracle) -> Node | None:
    """The custom gradient with the largest growth of the relative error from its cotangent to its results."""
    growth = _growth(oracle)
    return max(growth, key=lambda node: growth[node]) if growth else None


def losing_digits(oracle: Oracle) -> list[Node]:
    """The custom gradients whose own formula loses digits: their inputs are exact, and their results are not.

    The roundings of a few ops are no loss.
    """
    nodes = oracle.program.nodes
    return [
        node
        for node, times in _growth(oracle).items()
        if times > _FEW_ROUNDINGS and all(_is_exact(nodes[j], oracle.env[j]) for j in node.inputs)
    ]


def _is_exact(node: Node, exact: Any) -> bool:
    """Whether no rounding has moved a recorded value."""
    if isinstance(node.output, tuple) or not is_floating(node.output):
        return not isinstance(node.output, tuple)
    gaps = objects(BALLS.lift(np.asarray(node.output)) - objects(exact))
    return all(gap == 0 for gap in gaps.ravel().tolist())


def _growth(oracle: Oracle) -> dict[Node, float]:
    """Custom gradient -> how far the relative error grows from its cotangent to its results."""
    nodes = oracle.program.nodes
    floats = Floats(oracle.program)
    gradient(oracle.program, oracle.seeds, floats)
    growth: dict[Node, float] = {}
    for i, (g, made) in floats.kept.items():
        if nodes[i].kind != "custom" or i not in oracle.made or nodes[i].prim.declared is not None:
            continue
        arrived, exact = oracle.made[i]
        exact = _by_body(oracle, nodes[i], arrived, exact)
        parts = PartialOutputs.of(arrived)
        before = max([_apart(v, parts[k]) for k, v in PartialOutputs.of(g).items() if k in parts])
        after = [_apart(c, e) for c, e in zip(made, exact, strict=True) if c is not None and e is not None]
        growth[nodes[i]] = max(after, default=0.0) / max(before, roundings_of(nodes[i]))
    return growth


def _by_body(oracle: Oracle, node: Node, g: Any, made: list[Any]) -> list[Any]:
    """The exact gradients of a custom gradient's active inputs by its body, because its own read saved arrays as exact.

    Parameters
    ----------
    g : exact cotangents of its outputs
    made : list
        The exact gradients by its own formula, for inputs that are passed twice and for inputs without one by the body.
    """
    try:
        pulled = oracle.pulled_through_body(node, g)
    except ArithmeticError:
        return made
    inputs = [node.inputs[a] for a in node.active]
    return [
        pulled.get(j, e) if e is not None and inputs.count(j) == 1 else e for j, e in zip(inputs, made, strict=True)
    ]


def changing(nodes: Iterable[Node], cotangent_of: Callable[[Node], Any], error: float) -> list[Node]:
    """The custom gradients that return other numbers when they run again on the same cotangents.

    Parameters
    ----------
    nodes : iterable of Node
    cotangent_of : callable
        ``cotangent_of(node)`` returns the cotangent on which the custom gradient runs, as floats.
    error : float
        The relative error that a change may explain. A change by less than a `CHANGE` of it does not count, because a
        solver may leave another residual.
    """

    def changes(node: Node) -> bool:
        g = cotangent_of(node)
        try:
            compared = [runs_of_user(node, g, _REPEATS), kept_and_again(node)]
        except RunsOnce:
            return False
        return any(
            _differ(a, b, error * CHANGE)
            for first, *others in compared
            for other in others
            for a, b in zip(first, other, strict=True)
        )

    return [node for node in nodes if changes(node)]


def _differ(a: Any, b: Any, least: float) -> bool:
    """Whether numbers differ by more than a share of the first ones."""
    if a is None or b is None:
        return a is not b
    a, b = widest(a), widest(b)
    if a.shape != b.shape:
        return True
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        return bool((~same & ~(np.abs(a - b) <= least * np.abs(a))).any())


def _apart(got: Any, exact: Any) -> float:
    """The largest relative error of numbers."""
    high = np.broadcast_to(to_float(objects(exact)), np.shape(got))
    with np.errstate(all="ignore"):
        ratio = np.abs(widest(got) - high) / np.abs(high)
    return float(np.max(np.where(np.isfinite(ratio), ratio, np.where(widest(got) == high, 0.0, 1e300)), initial=0.0))


def ones_like(node: Node) -> tuple[Any, ...]:
    """Exact cotangents of ones, one for each output of a node."""
    return tuple(
        np.frompyfunc(arb, 1, 1)(np.ones(np.shape(o), dtype=object)) if np.ndim(o) else objects(arb(1))
        for o in (node.output if isinstance(node.output, tuple) else (node.output,))
    )


def only_rounded(oracle: Oracle, failures: list[Failure], ulps: float) -> float:
    """The largest error of a certificate that custom gradients with errors of rounding size explain, if these are the
    only faults; otherwise 0.

    A constant factor that NumPy computed has a rounding error, but the algebra is right; the bounds then judge the
    gradient. At 0, such an error may show in the derivative of the gradient alone.

    A custom gradient that solves equations by iteration leaves a residual. If the residual is near the precision in
    force, the whole program may fail, although each custom gradient by itself agrees with its body.

    Parameters
    ----------
    oracle : Oracle
        After its replay.
    failures : list of Failure
        The failed certificates of the whole program.
    ulps : float
        The size of a rounding.
    """
    wrong = faulty_customs(oracle)
    if any(n.mark is not None for n in oracle.program.nodes):
        slopes = faulty_customs(oracle, slopes=True)
        wrong = slopes if not wrong or all(is_rounded(f, ulps) for f in slopes) else wrong
    if not all(is_rounded(f, ulps) for f in wrong) or (not wrong and any(f.error > _RESIDUAL for f in failures)):
        return 0.0
    if faulty_rules(oracle):
        return 0.0
    users = [n for n in oracle.program.nodes if n.kind == "custom" and n.prim.declared is None]
    rooms = [room_of(f, ulps) for f in wrong] or [ulps * roundings_of(n) for n in users]
    return min(rooms, default=0.0)


def is_rounded(failure: Failure, ulps: float = ROUNDINGS) -> bool:
    """True if the error of a custom gradient is of rounding size."""
    return failure.error <= room_of(failure, ulps)


def room_of(failure: Failure, ulps: float = ROUNDINGS) -> float:
    """The largest error of rounding size, which the constants in a custom gradient's body may enlarge."""
    return ulps * (roundings_of(failure.node) + failure.by_constants)
