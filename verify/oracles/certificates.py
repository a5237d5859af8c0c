"""Certificates compare the replay, inner gradients and single rules with jets of the mirrors in random directions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from flint import arb

from gtape.base.verification import MOST_NESTED
from gtape.engine.rules import PartialOutputs
from gtape.symbolic.balls import circumstances, objects, to_float
from gtape.symbolic.program import GradMark, Node, Program
from gtape.symbolic.worlds import JetWorld
from gtape.verify.oracles.enclosures import (
    BALLS,
    at_zeros,
    bands,
    certainly_not_0,
    directions,
    disagreement,
    distance_of,
    inner,
    is_complex,
    is_floating,
    jet_world,
    magnitude,
    magnitudes,
    turned,
    zeros,
)
from gtape.verify.oracles.oracle import Oracle, TooDeep, nested_too_deep, own_part, varies
from gtape.verify.oracles.replay import Shared
from gtape.verify.oracles.saved import moves_by_saved
from gtape.verify.verdicts.ulp import longer_than

__all__ = [
    "Direction", "Failure", "by_constants", "by_saved", "certify", "certify_custom", "certify_elements",
    "certify_marks", "certify_rows", "custom_directions", "directions_of", "disagreement_along", "far_off",
    "faulty_rules", "follows_cotangent", "has_declared", "has_finite_slope", "in_one_element", "inside_of",
    "roundings_of",
]  # fmt: skip


_MEANT = 12  # significant bits of a constant that was meant as it is
_SAME = 1e3
_FAR = 3  # elements in either order that are judged alone
_DEEPEST = 4  # directions of jets, each of which doubles the work


class Failure(NamedTuple):
    """A failed certificate: the kind of comparison, the node, the relative error, and the mark of an inner gradient, if
    any. For a custom gradient also the relative move of its body's derivative by the roundings of constants.

    The error is relative to the sizes of the terms, as roundings are. `distance` is relative to the larger of both
    numbers, which cancellation of the terms leaves alone; 0.0 if it was not taken. `place` says where the error was
    measured.
    """

    what: str
    node: Node | None
    error: float
    mark: GradMark | None = None
    by_constants: float = 0.0
    distance: float = 0.0
    place: str = "along a random direction"

    @property
    def shown(self) -> float:
        """The relative error for people."""
        return self.distance or self.error


def certify(oracle: Oracle, gradients: list[Any]) -> list[Failure]:
    """Compare the replayed gradient with the jets of the mirrors in a random direction.

    Rows of one derivative share the direction, its jets, and the certificates of inner gradients.
    """
    shared = oracle.shared or Shared()
    sizes = b"".join([b"" if g is None else bands(g).tobytes() for g in gradients])
    along: _Certificate = shared.get(
        ("certificate", sizes if any(sizes) else b""), lambda: _Certificate(oracle, gradients)
    )
    failure = along.compared(oracle, gradients)
    if failure is None and all(n.mark is None for n in oracle.program.nodes):
        ways = at_zeros(along.ways, gradients)
        failure = None if ways is None else _Certificate(oracle, gradients, ways).compared_with_0(oracle)
    return ([failure] if failure else []) + along.failures + certify_behind_declared(oracle)


def certify_rows(oracle: Oracle, seeds: Any, gradients: list[Any]) -> bool:
    """Whether the rows of a derivative agree with the jets of the mirrors, in the direction of an earlier row.

    One random sum of all rows is compared.

    Parameters
    ----------
    oracle : Oracle
        Of a program with one output.
    seeds : array
        The cotangent of the output for each row.
    gradients : list of arrays, or None
        By each source, with an axis of rows in front.
    """
    shared = oracle.shared or Shared()
    known = shared.known(("certificate", b"")) or shared.known(Direction)
    if known is None or known.failures or any(g is not None and bands(g).any() for g in gradients):
        return False  # no earlier row had this direction, or the sum would hide small rows
    weights = directions((len(seeds),), oracle.rng)
    total, scale = arb(0), arb(0)
    for u, g in zip(known.ways, gradients, strict=True):
        if u is not None and g is not None:
            terms = objects(np.multiply.outer(weights, u))
            total, scale = total + inner(terms, g), scale + magnitude(terms, g)
    along = jet_world(1).component(known.env[oracle.program.outputs[0]], 1)
    by_mirrors = objects(np.tensordot(weights, BALLS.lift(seeds), 1))
    scale = scale + magnitude(by_mirrors, along)
    return not disagreement(total, inner(by_mirrors, along), scale)


class Direction(NamedTuple):
    """A direction of the sources along which a row of a derivative was certified, and the jets of the output there.

    `Shared` keeps a direction under this class for `certify_rows`.
    """

    ways: list[Any]
    env: dict[int, Any]
    failures: tuple[Failure, ...] = ()


class _Certificate:
    """The jets of a program in one random direction, and the certificates of its inner gradients.

    Parameters
    ----------
    ways : list of arrays or None, optional
        The direction by each source, random by default.

    Attributes
    ----------
    failures : list of Failure
        The failures of inner gradients.
    """

    def __init__(self, oracle: Oracle, gradients: list[Any], ways: list[Any] | None = None) -> None:
        program = oracle.program
        # Unconnected sources move, too, because the mirrors must find the derivative 0 by them.
        self.ways = ways or [
            None
            if not nodes or not is_floating(program.nodes[nodes[0]].output)
            else directions_of(program.nodes[nodes[0]], oracle.rng, g)
            for nodes, g in zip(program.sources, gradients, strict=True)
        ]
        tangents: dict[int, list[Any]] = {}
        for nodes, u in zip(program.sources, self.ways, strict=True):
            for i in nodes if u is not None else ():  # a source given twice moves along the sum of both directions
                tangents[i] = [u if i not in tangents else objects(tangents[i][0] + u)]
        self.only = program.ancestors(program.outputs)
        self.env = oracle.jets(1, tangents, self.only, None, (program.session,))
        self.failures = certify_marks(oracle, 1, tangents, self.env, self.only, sessions=(program.session,))
        self.failures += certify_unfollowed(oracle)

    def compared(self, oracle: Oracle, gradients: list[Any]) -> Failure | None:
        """The failure of one gradient, if any."""
        total, scale = arb(0), arb(0)
        for u, g in zip(self.ways, gradients, strict=True):
            if u is not None and g is not None:
                total, scale = total + inner(u, g), scale + magnitude(u, g)
        along, size = self._by_mirrors(oracle)
        error = disagreement(total, along, scale + size)
        return Failure("gradient", None, error) if error else None

    def compared_with_0(self, oracle: Oracle) -> Failure | None:
        """The failure if the derivative along the direction is certainly not 0."""
        error = certainly_not_0(self._by_mirrors(oracle)[0])
        return Failure("gradient", None, error) if error else None

    def _by_mirrors(self, oracle: Oracle) -> tuple[arb, arb]:
        """The derivative along the direction, and the sum of the magnitudes of its terms."""
        program, world = oracle.program, jet_world(1)
        along, scale = oracle.through_declared(self.env, self.only)
        for i, c in zip(program.outputs, oracle.seeds, strict=True):
            if c is not None:
                c = np.broadcast_to(objects(BALLS.lift(np.asarray(c))), program.nodes[i].shape)
                along = along + inner(c, world.component(self.env[i], 1))
                scale = scale + magnitude(c, world.component(self.env[i], 1))
        return along, scale


def certify_behind_declared(oracle: Oracle) -> list[Failure]:
    """Compare each rule between the outputs and a declared custom gradient with its mirror.

    The jets take the cotangent of a declared custom gradient from the replay, so a wrong rule on the way to the custom
    gradient would agree with itself.
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
            if node.kind != "custom":
                failure = certify_rule(oracle, node, g, made)
            else:  # without a derivative to compare with if a declared one takes part in the body
                failure = None if has_declared(oracle, node) else certify_custom(oracle, node, g, made)
            if failure is not None:
                failures.append(failure)
    return failures


def has_declared(oracle: Oracle, node: Node) -> bool:
    """Whether a declared custom gradient takes part in the body of a custom gradient."""
    inside = [oracle.program.nodes[i] for i in inside_of(oracle, node)]
    return any(n.kind == "custom" and n.prim.declared is not None for n in inside)


def inside_of(oracle: Oracle, node: Node) -> set[int]:
    """The nodes of a custom gradient's body: ancestors of its outputs, but not of its inputs."""
    return set(oracle.program.ancestors(node.body)).difference(oracle.program.ancestors(node.inputs))


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
    around: tuple[GradMark, ...] = (),
    done: set[int] | None = None,
) -> list[Failure]:
    """Compare every gradient node among `only`, and its tangents, with jets of its primal in one direction more.

    Along that direction only nodes that depend on the gradient's sources vary. The other nodes keep their jets.
    Gradient nodes among them, which were certified among `only` or `known`, are not compared again, because a chain of
    gradients (many inner steps) does not count as nested gradients.

    The outermost gradients come first. Nodes that were compared inside an outer gradient, in one direction more, are
    not compared again without this direction; `done` receives all compared nodes.
    """
    failures: list[Failure] = []
    wanted = set(only)
    done = set() if done is None else done
    groups: dict[int, list[Node]] = {}
    for i in sorted(wanted, reverse=True):
        mark = oracle.followed(oracle.program.nodes[i], around)
        if mark is not None:
            groups.setdefault(mark.key, []).append(oracle.program.nodes[i])
    if groups and k >= MOST_NESTED:
        raise TooDeep(nested_too_deep(k))
    for group in groups.values():
        members = [m for m in group if m.index not in done]
        if not members:
            continue
        mark = members[0].mark
        assert mark is not None
        inside = oracle.program.ancestors([*mark.targets, *mark.cotangents])
        moved = _depending(oracle, [s for m in members for s in _sources_of(m)], inside)
        run = [i for i in inside if i in moved or i not in env]
        read = {j for i in run for j in (*oracle.program.nodes[i].inputs, *oracle.program.nodes[i].body)}
        still = (read | {*mark.targets, *mark.cotangents}).difference(run)
        tapes = (*sessions, *[None] * (k - len(sessions)), mark.session)
        certified = known | wanted
        again = [i for i in inside if i in moved or i not in certified]
        inside_done: set[int] = set()  # not `done`, because other gradients may enclose the same nodes
        for sizes in _scales(members, tangents, env, k):
            directional, extended = _one_direction_more(oracle, members, sizes, tangents, env, k, sessions)
            deep = oracle.jets(k + 1, extended, run, {i: _lifted(env[i], k) for i in still}, tapes)
            within: set[int] = set()
            failures += certify_marks(oracle, k + 1, extended, deep, again, certified, tapes, (*around, mark), within)
            failures += _compared(oracle, members, directional, tangents, env, deep, k)
            inside_done |= within
        done |= inside_done.union(m.index for m in members)
    return failures


def _scales(members: list[Node], tangents: dict[int, list[Any]], env: dict[int, Any], k: int) -> list[dict[int, Any]]:
    """The sizes by which the directions of gradient nodes are scaled; nodes of the same orders of magnitude share a
    size.

    A gradient and its tangents need different scales, because an element whose gradient is tiny may hide the wrong
    tangents of all others.
    """
    if members[0].mark is not None and members[0].mark.form != "gradient":
        return [{}]
    found: dict[tuple[bytes, ...], dict[int, Any]] = {}
    for bits in range(1 << k):
        sizes = {m.index: _component(m, tangents, env, k, bits) for m in members}
        found.setdefault(tuple([bands(x).tobytes() for x in sizes.values()]), sizes)
    return list(found.values())


def _component(member: Node, tangents: dict[int, list[Any]], env: dict[int, Any], k: int, bits: int) -> Any:
    """One component of the jets of a gradient node; for a source, without the node's own tangent."""
    g = jet_world(k).component(env[member.index], bits)
    own = own_part(tangents[member.index], bits) if bits and member.index in tangents else None
    return g if own is None else objects(g - own)


def _one_direction_more(
    oracle: Oracle, members: list[Node], sizes: dict[int, Any], tangents: dict[int, list[Any]], env: dict[int, Any],
    k: int, sessions: tuple[Any, ...],
) -> tuple[dict[int, Any], dict[int, list[Any]]]:  # fmt: skip
    """The weights of the elements of all gradient nodes of one mark, and all tangents extended by a direction.

    Along this direction the targets have the weighted sum of the elements as their slope. The weights of a Jacobian are
    the products of a weight for each row and the direction of its source. Directions are scaled by `sizes`, if these
    are given.
    """
    mark = members[0].mark
    assert mark is not None
    weights = oracle.cotangents_of(mark)
    directional: dict[int, Any] = {}
    moving: dict[int, Any] = {}
    for member in members:
        if mark.form == "jvp":
            directional[member.index] = weights[0]
            moving = oracle.moving_tangents(mark, tangents, env, (*sessions, *[None] * (k - len(sessions))))
            continue
        shape, rank = member.shape, 0
        if mark.form != "gradient":
            rank = len(np.shape(weights[0]))
            shape = shape[rank:] if mark.form == "jacobian" else (shape[0], *shape[rank:])
        u = directions(shape, oracle.rng, complex=is_complex(member.output), like=sizes.get(member.index))
        for s in _sources_of(member):
            moving[s] = moving[s] + u if s in moving else u
        if mark.form == "gradient":
            directional[member.index] = u
        else:
            w, rows = weights[0], 0 if mark.form == "jacobian" else 1
            spread = np.reshape(u, (*shape[:rows], *[1] * (rank - rows), *shape[rows:]))
            directional[member.index] = objects(np.reshape(w, (*np.shape(w), *[1] * (len(shape) - rows))) * spread)
    extended = {i: [*t, None] for i, t in tangents.items()}
    for s, u in moving.items():
        extended[s] = [*extended.get(s, [None] * (k + 1))[:-1], u]
    return directional, extended


class _Components:
    """The components of an array of jets with their magnitudes, each computed once; None for zeros."""

    def __init__(self, world: JetWorld, x: Any) -> None:
        self.world, self.x, self.moves = world, x, varies(x)
        self.known: dict[int, tuple[Any, Any]] = {}

    def __getitem__(self, bits: int) -> tuple[Any, Any] | None:
        if bits and not self.moves:
            return None
        found = self.known.get(bits)
        if found is None:
            component = self.world.component(self.x, bits)
            found = self.known[bits] = component, magnitudes(component)
        return found


def _compared(
    oracle: Oracle,
    members: list[Node],
    directional: dict[int, Any],
    tangents: dict[int, list[Any]],
    env: dict[int, Any],
    deep: dict[int, Any],
    k: int,
) -> list[Failure]:
    """Compare a recorded gradient and its tangents with the jets of its primal; at most one failure, the worst."""
    deeper = jet_world(k + 1)
    mark = members[0].mark
    assert mark is not None
    weights = [deep[c] for c in mark.cotangents] if mark.form == "gradient" else oracle.cotangents_of(mark)
    factors = []
    for t, c in zip(mark.targets, weights, strict=True):
        c = c if np.shape(c) == np.shape(deep[t]) else np.broadcast_to(objects(c), np.shape(deep[t]))
        factors.append((_Components(deeper, c), _Components(deeper, deep[t])))
    ways = [(member, u := directional[member.index], magnitudes(u)) for member in members]
    worst: Failure | None = None
    # The cotangents do not vary along the new direction, because they are constants of the inner gradient.
    for bits in range(1 << k):
        expected, scale, got = arb(0), arb(0), arb(0)
        for of_weight, of_target in factors:
            for low in range(1 << k if mark.form == "gradient" else 1):
                if low & ~bits or (a := of_weight[low]) is None or (b := of_target[(bits & ~low) | 1 << k]) is None:
                    continue
                expected = expected + inner(a[0], b[0])
                scale = scale + magnitude(a[0], b[0], a[1], b[1])
        for member, u, size in ways:
            g = _component(member, tangents, env, k, bits)
            g = turned(g) if is_complex(member.output) and mark.form != "jvp" else g
            got = got + inner(u, g)
            scale = scale + magnitude(u, g, size)
        error = disagreement(got, expected, scale)
        # A slightly larger error of the derivatives says nothing new, because the derivatives of a faulty number are
        # faulty.
        if error and (worst is None or error > _SAME * worst.error):
            what = "derivative of an inner gradient" if bits else "inner gradient"
            worst = Failure(what, members[0], error, mark)
    return [] if worst is None else [worst]


def _depending(oracle: Oracle, sources: Iterable[int], among: list[int]) -> set[int]:
    """The nodes up to the last of `among` that depend on some sources, including the sources.

    A gradient node also depends on the nodes that its mark reads, even if its recorded backward ops do not read them.
    """
    found = set(sources)
    for i in range(min(found, default=0), among[-1] + 1 if among else 0):
        node = oracle.program.nodes[i]
        mark = node.mark
        if (
            not found.isdisjoint(node.inputs)
            or not found.isdisjoint(node.body)
            or (mark is not None and not found.isdisjoint(mark.reads))
        ):
            found.add(i)
    return found


def certify_rule(oracle: Oracle, node: Node, g: Any, made: list[Any]) -> Failure | None:
    """Compare one op's vjp, as replayed, with the jets of its mirror."""
    if node.kind != "op":
        return None
    by_argument = dict(zip(node.active, made, strict=True))
    slopes = [by_argument.get(a) if node.prim.connected(a) else None for a in range(len(node.inputs))]
    ways = [
        None if c is None else directions_of(oracle.program.nodes[j], oracle.rng, c)
        for j, c in zip(node.inputs, slopes, strict=True)
    ]
    error, distance = disagreement_along(ways, slopes, lambda us: _through_mirror(oracle, node, g, us))
    return Failure("rule", node, error, distance=distance) if error else None


def disagreement_along(
    ways: list[Any], slopes: list[Any], along: Callable[[list[Any]], tuple[arb, arb]]
) -> tuple[float, float]:
    """The disagreement of some slopes with a derivative, along given ways and along the exact zeros of the slopes.

    Parameters
    ----------
    ways, slopes : lists of arrays or None
        The direction and the slope for each argument.
    along : callable
        Ways -> the derivative along them, and the sum of the magnitudes of its terms.

    Returns
    -------
    error : float
        As `disagreement`; 0.0 without any.
    distance : float
        As `distance_of`; along zeros the error itself.
    """
    total, scale = arb(0), arb(0)
    for u, c in zip(ways, slopes, strict=True):
        if u is not None and c is not None:
            total, scale = total + inner(u, c), scale + magnitude(u, c)
    expected, size = along(ways)
    error = disagreement(total, expected, scale + size)
    if error:
        return error, distance_of(total, expected)
    still = at_zeros(ways, slopes)
    error = 0.0 if still is None else certainly_not_0(along(still)[0])
    return error, error


def _through_mirror(oracle: Oracle, node: Node, g: Any, ways: list[Any]) -> tuple[arb, arb]:
    """The derivative of one op's mirror, weighted with a cotangent, along a direction, and the size of its terms."""
    world = jet_world(1)
    arguments = [
        oracle.env[j] if u is None else world.jet(oracle.env[j], u) for j, u in zip(node.inputs, ways, strict=True)
    ]
    value = node.apply(world, arguments)
    expected, scale = arb(0), arb(0)
    for k, c in PartialOutputs.of(g).items():
        v = value[k] if isinstance(value, tuple) else value
        c = np.broadcast_to(objects(c), np.shape(v))
        along = world.component(v, 1)
        expected = expected + inner(c, along)
        scale = scale + magnitude(c, along)
    return expected, scale


def roundings_of(node: Any) -> float:
    """The rounding of a node's results, relative to their size; 0 without floats."""
    outs = node.output if isinstance(node.output, tuple) else (node.output,)
    return max((float(np.finfo(np.asarray(o).dtype).eps) for o in outs if is_floating(o)), default=0.0)


def certify_custom(oracle: Oracle, node: Node, g: Any, made: list[Any], times: int = 1) -> Failure | None:
    """Compare the gradient that a custom function returns for a cotangent with the derivative of its body, by jets.

    One direction shows any error. The largest of several shows its size, because errors cancel along some directions.
    Along every second one, all elements of the gradient count the same, because an error of a small element is not the
    rounding of a large one.

    Parameters
    ----------
    oracle : Oracle
        With the exact values of all nodes.
    node : Node
        Of kind "custom".
    g : cotangent of its outputs
    made : list
        The gradient that the user's function returned for each active input.
    times : int
        The number of random directions.
    """
    slopes = _by_input(node, made)
    names = list(dict.fromkeys(node.inputs[a] for a in node.active))

    def along(ways: list[Any]) -> tuple[arb, arb]:
        return _through_body(oracle, node, g, dict(zip(names, ways, strict=True)))

    error = distance = moved = 0.0
    for k in range(times):
        directions = custom_directions(oracle, node, slopes) if k % 2 == 0 else _levelled(oracle, node, slopes)
        off, apart = disagreement_along(list(directions.values()), [slopes.get(j) for j in names], along)
        error, distance = max(error, off), max(distance, apart)
        if off:
            moved = max(moved, by_constants(oracle, node, g, directions), by_saved(oracle, node, g, directions))
    return Failure("custom gradient", node, error, by_constants=moved, distance=distance) if error else None


def certify_elements(
    oracle: Oracle, node: Node, g: Any, made: list[Any], least: float, along: dict[int, Any] | None = None
) -> list[Failure]:
    """As `certify_custom`, along those elements alone whose relative errors are the largest.

    A sum over all elements divides the error of one element by their number. A sweep through the body shows which
    elements are far off, and the mirrors then judge these. If the function does not follow its cotangent on the tape,
    errors count relative to the largest element, because NumPy's transforms and solvers round so.

    Parameters
    ----------
    oracle, node, g, made
        As for `certify_custom`.
    least : float
        The least relative error of an element that is looked at.
    along : dict, optional
        Input -> its tangent. Elements then count as far as they matter along the tangent, beyond the rounding of all.

    Returns
    -------
    list of Failure
        One for each element that is looked at and counts.
    """
    slopes, failures = _by_input(node, made), list[Failure]()
    if sum(np.size(c) for c in slopes.values()) < 2:
        return failures
    follows = follows_cotangent(*oracle.custom_back(node, g)[:2])
    ways_of_all, room = custom_directions(oracle, node), 0.0
    if along is not None:
        ways_of_all = along
        room = roundings_of(node) * sum((magnitude(along[j], c) for j, c in slopes.items()), arb(0))
    for j, i in far_off(slopes, oracle.pulled_through_body(node, g), least, alone=follows):
        ways = in_one_element(ways_of_all, j, i)
        got, scale = inner(ways[j], slopes[j]), magnitude(ways[j], slopes[j])
        expected, size = _through_body(oracle, node, g, ways)
        error = disagreement(got, expected, scale + size)
        if error and abs(got - expected) > room:
            moved = max(by_constants(oracle, node, g, ways), by_saved(oracle, node, g, ways))
            failures.append(
                Failure(
                    "custom gradient", node, error, by_constants=moved, distance=distance_of(got, expected),
                    place="in one element",
                )
            )  # fmt: skip
    return failures


def follows_cotangent(sub: Program, outputs: list[int | None]) -> bool:
    """Whether a custom gradient's function follows a cotangent on the tape, from what `Replay.custom_back` gives."""
    inside = set(sub.ancestors([o for o in outputs if o is not None]))
    return any(not inside.isdisjoint(nodes) for nodes in sub.sources)


def in_one_element(ways: dict[int, Any], j: int, i: int) -> dict[int, Any]:
    """Directions with zeros in all places but place `i` of the flat array `j`."""
    found = {}
    for k, u in ways.items():
        alone = np.arange(np.size(u)) == (i if k == j else -1)
        found[k] = objects(np.where(alone.reshape(np.shape(u)), u, 0))
    return found


def _by_input(node: Node, made: list[Any]) -> dict[int, Any]:
    """The gradient by each node among the active inputs of a custom gradient: sums for a node that is passed twice."""
    slopes: dict[int, Any] = {}
    for a, c in zip(node.active, made, strict=True):
        if c is not None:
            j = node.inputs[a]
            slopes[j] = objects(slopes[j] + c) if j in slopes else c
    return slopes


def far_off(slopes: dict[int, Any], exact: dict[int, Any], least: float, *, alone: bool) -> list[tuple[int, int]]:
    """The elements with the largest errors, as (input, place in the flat array), if there are several elements.

    Half of them have the largest errors relative to their own size, and half relative to the typical size as well,
    because cancellation enlarges the relative errors of small elements. Without `alone`, errors also exceed `least`
    relative to the largest element.
    """
    found: list[tuple[float, float, int, int]] = []
    for j, c in slopes.items():
        pairs = [np.broadcast_to(objects(v), np.shape(c)).ravel().tolist() for v in (c, exact.get(j, arb(0)))]
        sizes = [arb(abs(p)) + abs(q) for p, q in zip(*pairs, strict=True)]
        typical = sorted([size.mid() for size in sizes])[len(sizes) // 2] if sizes else arb(0)
        largest = max([size.mid() for size in sizes], default=arb(0))
        for i, (p, q, size) in enumerate(zip(*pairs, sizes, strict=True)):
            apart = arb(abs(p - q))
            if (
                apart.is_finite()
                and size.is_finite()
                and not apart.contains(0)
                and apart > least * (size if alone else largest)
            ):
                found.append((float(apart / size), float(apart / (size + typical)), j, i))
    if sum(np.size(c) for c in slopes.values()) < 2:
        return []
    by_own, by_both = (sorted(found, key=lambda e: -e[k])[:_FAR] for k in (0, 1))
    return list(dict.fromkeys([e[2:] for e in (*by_own, *by_both)]))


def by_saved(oracle: Oracle, node: Node, g: Any, directions: dict[int, Any]) -> float:
    """As `by_constants`, for values that the body saved as arrays or numbers, and that its gradient reads.

    The sign of each move is unknown, so all count.
    """
    moves = moves_by_saved(oracle.program, node, g)
    if moves is None:
        return 0.0
    expected, scale = _through_body(oracle, node, g, directions)
    moved = arb(0)
    for a, move in zip(node.active, moves, strict=True):
        if move is not None and np.isfinite(move).all():
            moved = moved + magnitude(directions[node.inputs[a]], objects(BALLS.lift(np.asarray(move))))
    scale = scale + abs(expected)
    return float(moved / scale) if scale != 0 and (moved / scale).is_finite() else 0.0


def by_constants(oracle: Oracle, node: Node, g: Any, *directions: dict[int, Any]) -> float:
    """How far a derivative of a custom gradient's body moves, relative to the size of its terms, when rounded constants
    in the body move by half a unit.

    ``erf(x / np.sqrt(2.0))`` has the slope ``exp(-x * x / 2)`` up to the rounding of the constant, times ``x * x``.
    Constants with few digits, as 0.5, are not rounded.

    Parameters
    ----------
    g : cotangent of its outputs
    directions : dict
        Input -> direction, once for each order of the derivative.
    """
    moves = {}
    for i in inside_of(oracle, node):
        value = oracle.program.nodes[i].output
        if oracle.program.nodes[i].kind == "const" and is_floating(value) and not is_complex(value):
            move = _half_units(np.asarray(value))
            if move.any():
                moves[i] = objects(BALLS.lift(move * oracle.rng.choice([-1.0, 1.0], move.shape)))
    if not moves:
        return 0.0
    k = len(directions)
    world = jet_world(k + 1)
    given = {j: world.jet(oracle.env[j], *[u[j] for u in directions], zeros(np.shape(oracle.env[j])))
             for j in directions[0]}  # fmt: skip
    given |= {i: world.jet(oracle.env[i], *[zeros(np.shape(v))] * k, v) for i, v in moves.items()}
    try:
        body = oracle.jets(k + 1, {}, oracle.program.ancestors(node.body), given, free=k)
    except (ArithmeticError, TooDeep):
        return 0.0
    moved, scale = arb(0), arb(0)
    for part, c in PartialOutputs.of(g).items():
        along, both = (world.component(body[node.body[part]], (1 << n) - 1) for n in (k, k + 1))
        c = np.broadcast_to(objects(c), np.shape(along))
        moved, scale = moved + inner(c, both), scale + magnitude(c, along)
    return float(abs(moved) / scale) if scale != 0 and (moved / scale).is_finite() else 0.0


def _half_units(x: Any) -> Any:
    """Half a unit in the last place of each number with more digits than a decimal that was meant has."""
    half = np.abs(x) * (np.finfo(x.dtype).eps / 2)
    return np.where(longer_than(x, _MEANT), half, 0.0).astype(np.float64)


def _through_body(oracle: Oracle, node: Node, g: Any, directions: dict[int, Any]) -> tuple[arb, arb]:
    """The derivative of a custom gradient's body, weighted with a cotangent, along a direction, and the terms' size."""
    world = jet_world(1)
    given = {j: world.jet(oracle.env[j], u) for j, u in directions.items()}
    body = oracle.jets(1, {}, oracle.program.ancestors(node.body), given)
    expected, scale = arb(0), arb(0)
    for k, c in PartialOutputs.of(g).items():
        along = world.component(body[node.body[k]], 1)
        c = np.broadcast_to(objects(c), np.shape(along))
        expected, scale = expected + inner(c, along), scale + magnitude(c, along)
    return expected, scale


def has_finite_slope(oracle: Oracle, node: Node) -> bool:
    """Whether the body of a custom gradient has a finite derivative along a random direction, by jets."""
    outs = node.output if isinstance(node.output, tuple) else (node.output,)
    ones = [objects(np.ones(np.shape(o), dtype=int).astype(object)) for o in outs]
    g: Any = PartialOutputs(dict(enumerate(ones))) if isinstance(node.output, tuple) else ones[0]
    try:
        return bool(_through_body(oracle, node, g, custom_directions(oracle, node))[0].is_finite())
    except ArithmeticError:
        return False


def custom_directions(oracle: Oracle, node: Node, slopes: dict[int, Any] | None = None) -> dict[int, Any]:
    """One direction for each node among the active inputs, even for a node that is passed twice.

    `slopes` are the derivatives by these nodes, roughly, so that small ones count as much as large ones.
    """
    nodes, like = oracle.program.nodes, slopes or {}
    return {
        j: directions_of(nodes[j], oracle.rng, like.get(j)) for j in dict.fromkeys(node.inputs[a] for a in node.active)
    }


def _levelled(oracle: Oracle, node: Node, slopes: dict[int, Any]) -> dict[int, Any]:
    """As `custom_directions`, with directions along which the slopes are about equal, and zeros would show a slope
    beyond the rounding of the smallest one.
    """
    made = custom_directions(oracle, node)
    for j, u in made.items():
        with np.errstate(all="ignore"):
            size = np.broadcast_to(np.abs(to_float(objects(slopes[j]))) if j in slopes else 0.0, np.shape(u))
        known = np.isfinite(size) & (size > 0)
        if known.any():
            unseen = np.min(size[known]) * np.finfo(np.asarray(oracle.program.nodes[j].output).dtype).eps
            powers = np.frexp(np.where(known, size, unseen))[1]
            made[j] = objects(u * np.frompyfunc(lambda n: arb(2) ** int(-n), 1, 1)(powers))
    return made


def faulty_rules(oracle: Oracle) -> list[Failure]:
    """The ops of a program and its inner gradients whose rule is not the derivative of their mirror.

    A search takes place once in each replay; among the inner gradients, which depend on no cotangent, once for all rows
    of a derivative.
    """
    state = circumstances()
    key = faulty_rules, state, oracle.broken
    env, made, found = oracle.of_sweep.get(key, (None, None, []))
    if state is None or env is not oracle.env or made is not oracle.made:
        outer = _faulty_among(oracle, ((oracle.program.nodes[i], g, made) for i, (g, made) in oracle.made.items()))
        rows = oracle.shared or Shared()
        inside = rows.get("faulty rules", lambda: _faulty_among(oracle, oracle.swept_inside()))
        found = [*outer.values(), *(f for name, f in inside.items() if name not in outer)]
        oracle.of_sweep[key] = oracle.env, oracle.made, found
    return list(found)


def _faulty_among(oracle: Oracle, swept: Iterable[tuple[Node, Any, list[Any]]]) -> dict[str, Failure]:
    """The ops whose rule is wrong among some nodes of sweeps, by their names."""
    found: dict[str, Failure] = {}
    for node, g, made in swept:
        if node.name in found:
            continue
        try:
            failure = certify_rule(oracle, node, g, made)
        except ArithmeticError:
            continue  # enclosures around a zero cotangent decide nothing; other nodes may
        if failure is not None:
            found[node.name] = failure
    return found


def directions_of(node: Node, rng: Any, slope: Any = None) -> Any:
    """A random direction in which the value of a node moves, scaled by the slopes along it if they are given."""
    return directions(node.shape, rng, complex=is_complex(node.output), like=slope)


def _sources_of(node: Node) -> list[int]:
    """The nodes by which a gradient node is the derivative; for a jvp all sources, which move together."""
    assert node.mark is not None
    if node.mark.form == "jvp":
        return [s for nodes in node.mark.sources for s in nodes]
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
    if value.dtype != object:  # indices and conditions
        return value
    made = np.empty(value.shape, object)
    for index in np.ndindex(*value.shape):
        made[index] = one(value[index])
    return made
