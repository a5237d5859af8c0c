"""Certificates compare the replay, inner gradients and single rules with jets of the mirrors in random directions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from flint import arb

from gtape.engine.rules import PartialOutputs
from gtape.symbolic.balls import objects
from gtape.symbolic.program import GradMark, Node
from gtape.verify.oracles.enclosures import (
    BALLS,
    directions,
    disagreement,
    inner,
    is_complex,
    is_floating,
    jet_world,
    magnitude,
    turned,
)
from gtape.verify.oracles.oracle import Oracle, TooDeep

__all__ = ["Failure", "certify", "certify_marks", "directions_of", "faulty_rules"]


_SAME = 1e3
_DEEPEST = 4  # directions of jets, each of which doubles the work


class Failure(NamedTuple):
    """A failed certificate: the kind of comparison, the node, the relative error, and the mark if any."""

    what: str
    node: Node | None
    error: float
    mark: GradMark | None = None


def certify(oracle: Oracle, gradients: list[Any]) -> list[Failure]:
    """Compare the replayed gradient with the jets of the mirrors in a random direction."""
    program = oracle.program
    tangents: dict[int, list[Any]] = {}
    total = arb(0)
    scale = arb(0)
    for nodes, g in zip(program.sources, gradients, strict=True):
        if not nodes or not is_floating(program.nodes[nodes[0]].output):
            continue
        # Unconnected sources move, too, because the mirrors must find no derivative by them, either.
        u = directions_of(program.nodes[nodes[0]], oracle.rng)
        for i in nodes:  # a source given twice moves along the sum of both directions
            tangents[i] = [u if i not in tangents else tangents[i][0] + u]
        if g is None:
            continue
        total = total + inner(u, g)
        scale = scale + magnitude(u, g)
    only = program.ancestors(program.outputs)
    env = oracle.jets(1, tangents, only, None, (program.session,))
    world = jet_world(1)
    along, through = oracle.through_declared(env, only)
    scale = scale + through
    for i, c in zip(program.outputs, oracle.seeds, strict=True):
        if c is not None:
            c = np.broadcast_to(objects(BALLS.lift(np.asarray(c))), program.nodes[i].shape)
            along = along + inner(c, world.component(env[i], 1))
            scale = scale + magnitude(c, world.component(env[i], 1))
    failures = []
    error = disagreement(total, along, scale)
    if error:
        failures.append(Failure("replay", None, error))
    failures += certify_marks(oracle, 1, tangents, env, only, sessions=(program.session,))
    failures += certify_unfollowed(oracle)
    failures += certify_behind_declared(oracle)
    return failures


def certify_behind_declared(oracle: Oracle) -> list[Failure]:
    """Compare each rule between the outputs and a declared custom gradient with its mirror.

    The jets take what arrives at a declared custom gradient from the replay, so that a wrong rule on the way there
    would agree with itself.
    """
    nodes = oracle.program.nodes
    behind: set[int] = set()
    failures = []
    for i in sorted(oracle.made):
        node = nodes[i]
        if node.kind == "custom" and node.prim.declared is not None:
            behind.add(i)
        elif not behind.isdisjoint((*node.inputs, *node.body)):
            behind.add(i)
            g, made = oracle.made[i]
            failure = certify_rule(oracle, node, g, made)
            if failure is not None:
                failures.append(failure)
    return failures


def certify_unfollowed(oracle: Oracle) -> list[Failure]:
    """Compare each rule of the inner gradients that jets cannot follow with its mirror."""
    failures: list[Failure] = []
    seen: set[int] = set()
    for node in oracle.program.nodes:
        mark = node.mark
        if mark is None or mark.key in seen or oracle.followed(node) is not None:
            continue
        seen.add(mark.key)
        for i, (g, made) in oracle.inner_sweep(mark).items():
            failure = certify_rule(oracle, oracle.program.nodes[i], g, made)
            if failure is not None:
                failures.append(failure._replace(mark=mark))
    return failures


def certify_marks(
    oracle: Oracle,
    k: int,
    tangents: dict[int, list[Any]],
    env: dict[int, Any],
    only: Iterable[int],
    known: frozenset[int] = frozenset(),
    sessions: tuple[Any, ...] = (),
) -> list[Failure]:
    """Compare every gradient node among `only`, and its tangents, with jets of its primal in one direction more.

    Along that direction only nodes that depend on the gradient's sources vary. The others keep their jets, and their
    gradient nodes, certified among `only` or `known`, are not compared again, so that a chain of gradients (many inner
    steps) does not count as nested gradients.
    """
    failures = []
    wanted = set(only)
    groups: dict[int, list[Node]] = {}
    for i in wanted:
        mark = oracle.followed(oracle.program.nodes[i])
        if mark is not None:
            groups.setdefault(mark.key, []).append(oracle.program.nodes[i])
    if groups and k >= _DEEPEST:
        raise TooDeep(f"gradients nested {k} deep: the oracle follows {k - 1}")
    for members in groups.values():
        mark = members[0].mark
        assert mark is not None
        directional, extended = _one_direction_more(oracle, members, tangents, k)
        inside = oracle.program.ancestors([*mark.targets, *mark.cotangents])
        moved = _depending(oracle, [s for m in members for s in _sources_of(m)], inside)
        run = [i for i in inside if i in moved or i not in env]
        read = {j for i in run for j in (*oracle.program.nodes[i].inputs, *oracle.program.nodes[i].body)}
        still = (read | {*mark.targets, *mark.cotangents}).difference(run)
        tapes = (*sessions, *[None] * (k - len(sessions)), mark.session)
        deep = oracle.jets(k + 1, extended, run, {i: _lifted(env[i], k) for i in still}, tapes)
        failures += _compared(mark, members, directional, tangents, env, deep, k)
        certified = known | wanted
        again = [i for i in inside if i in moved or i not in certified]
        failures += certify_marks(oracle, k + 1, extended, deep, again, certified, tapes)
    return failures


def _one_direction_more(
    oracle: Oracle, members: list[Node], tangents: dict[int, list[Any]], k: int
) -> tuple[dict[int, Any], dict[int, list[Any]]]:
    """A direction for each gradient node of one mark, and all tangents extended by these directions."""
    directional: dict[int, Any] = {}
    moving: dict[int, Any] = {}
    extended = {i: [*t, None] for i, t in tangents.items()}
    for member in members:
        u = directional[member.index] = directions_of(member, oracle.rng)
        for s in _sources_of(member):
            old = extended.get(s, [None] * (k + 1))
            moving[s] = moving[s] + u if s in moving else u
            extended[s] = [*old[:-1], moving[s]]
    return directional, extended


def _compared(
    mark: GradMark,
    members: list[Node],
    directional: dict[int, Any],
    tangents: dict[int, list[Any]],
    env: dict[int, Any],
    deep: dict[int, Any],
    k: int,
) -> list[Failure]:
    """Compare a recorded gradient and its tangents with the jets of its primal; at most one failure, the worst."""
    world, deeper = jet_world(k), jet_world(k + 1)
    worst: Failure | None = None
    # The cotangents do not vary along the new direction, because they are constants of the inner gradient.
    for bits in range(1 << k):
        expected, scale, got = arb(0), arb(0), arb(0)
        for t, c in zip(mark.targets, mark.cotangents, strict=True):
            for low in range(1 << k):
                if low & ~bits:
                    continue
                a = deeper.component(deep[c], low)
                b = deeper.component(deep[t], (bits & ~low) | 1 << k)
                a = np.broadcast_to(a, np.shape(b))
                expected = expected + inner(a, b)
                scale = scale + magnitude(a, b)
        for member in members:
            g = world.component(env[member.index], bits)
            if bits and not bits & (bits - 1):  # subtract the own tangent of a source
                own = tangents.get(member.index, [None] * k)[bits.bit_length() - 1]
                g = g if own is None else objects(g - own)
            g = turned(g) if is_complex(member.output) else g
            got = got + inner(directional[member.index], g)
            scale = scale + magnitude(directional[member.index], g)
        error = disagreement(got, expected, scale)
        # A faulty number makes its derivatives faulty, so that a little larger error of these says nothing new.
        if error and (worst is None or error > _SAME * worst.error):
            what = "derivative of an inner gradient" if bits else "inner gradient"
            worst = Failure(what, members[0], error, mark)
    return [] if worst is None else [worst]


def _depending(oracle: Oracle, sources: Iterable[int], among: list[int]) -> set[int]:
    """The nodes up to the last of `among` that depend on some sources, including the sources.

    A gradient node also depends on its targets and cotangents, even if its recorded backward ops do not read them.
    """
    found = set(sources)
    for i in range(min(found, default=0), among[-1] + 1 if among else 0):
        node = oracle.program.nodes[i]
        mark = node.mark
        if (
            not found.isdisjoint(node.inputs)
            or not found.isdisjoint(node.body)
            or (mark is not None and not found.isdisjoint((*mark.targets, *mark.cotangents)))
        ):
            found.add(i)
    return found


def certify_rule(oracle: Oracle, node: Node, g: Any, made: list[Any]) -> Failure | None:
    """Compare one op's vjp, as replayed, with the jets of its mirror."""
    if node.kind != "op":
        return None
    world = jet_world(1)
    arguments = []
    total, scale = arb(0), arb(0)
    by_argument = dict(zip(node.active, made, strict=True))
    for a, j in enumerate(node.inputs):
        x = oracle.env[j]
        c = by_argument.get(a)
        if c is None or not node.prim.connected(a):
            arguments.append(x)
            continue
        u = directions_of(oracle.program.nodes[j], oracle.rng)
        total = total + inner(u, c)
        scale = scale + magnitude(u, c)
        arguments.append(world.jet(x, u))
    value = node.apply(world, arguments)
    expected = arb(0)
    for k, c in PartialOutputs.of(g).items():
        v = value[k] if isinstance(value, tuple) else value
        c = np.broadcast_to(objects(c), np.shape(v))
        along = world.component(v, 1)
        expected = expected + inner(c, along)
        scale = scale + magnitude(c, along)
    error = disagreement(total, expected, scale)
    return Failure("rule", node, error) if error else None


def faulty_rules(oracle: Oracle) -> list[Failure]:
    """The ops of a program and its inner gradients whose rule is not the derivative of their mirror."""
    found: dict[str, Failure] = {}
    for node, g, made in oracle.swept():
        if node.name in found:
            continue
        try:
            failure = certify_rule(oracle, node, g, made)
        except ArithmeticError:
            continue  # enclosures around a zero cotangent decide nothing; other nodes may
        if failure is not None:
            found[node.name] = failure
    return list(found.values())


def directions_of(node: Node, rng: Any) -> Any:
    """A random direction in which the value of a node moves."""
    return directions(node.shape, rng, complex=is_complex(node.output))


def _sources_of(node: Node) -> list[int]:
    """The nodes by which a gradient node is the derivative."""
    assert node.mark is not None
    return node.mark.sources[node.mark.which]


def _lifted(value: Any, k: int) -> Any:
    """Jets in `k` directions as jets in `k + 1`, constant along the last."""
    from gtape.symbolic.jets import ZERO, Jet, jet_class

    make, none = jet_class(k + 1), [ZERO] * (1 << k)

    def one(x: Any) -> Any:
        return make(*x.components, *none) if isinstance(x, Jet) else x

    if isinstance(value, tuple):
        return tuple([_lifted(v, k) for v in value])
    if not isinstance(value, np.ndarray):
        return one(value)
    made = np.empty(value.shape, object)
    for index in np.ndindex(*value.shape):
        made[index] = one(value[index])
    return made
