"""The replay: a recorded program in enclosures of the exact numbers, and its gradient by the tape's own rules."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from functools import cached_property
from typing import Any, Self

import numpy as np
from flint import arb, ctx

from gtape.base.deadline import tick
from gtape.engine.rules import PartialOutputs
from gtape.symbolic.balls import Undecided, assumed, circumstances, finite_ball, objects, to_float
from gtape.symbolic.program import GradMark, Node, Program
from gtape.verify.oracles.backward import (
    Algebra,
    RunsOnce,
    backward,
    by_rule,
    calling_again,
    gradient,
    kept_off,
    shaped_as,
)
from gtape.verify.oracles.enclosures import BALLS, is_complex, is_floating, plus, random_cotangents, turned, zeros
from gtape.verify.verdicts.ulp import spacing, widest

__all__ = [
    "InEnclosures", "Misshapen", "Replay", "Shared", "as_recorded", "cotangents_returned", "decided_anew", "is_step",
    "longest_sum", "seed_of",
]  # fmt: skip


_ROOM = 500_000  # numbers of moved and noisy values that one program keeps


class Shared:
    """The data that the rows of one derivative share: exact values and jets, which depend on no cotangent."""

    def __init__(self) -> None:
        self._kept: dict[Any, Any] = {}
        self._room = _ROOM
        self.ops: Any = None  # the checks of all ops and rules, if each was within its bound
        # Results of the short way for the first row, or for the last one whose ops were checked; False without any.
        self.short: Any = None
        self.calm = False  # whether no kink, tie or other branch is near the point, and all certificates agree
        self.limits: int | None = None  # the bits with which a row was right that took infinities as limits
        self.shares = False  # whether comparisons beside a kink stay open unless equal numbers are computed once
        # The cotangents, exact numbers and answers of the last compared row; see `Gradient.shortly`.
        self.compared: tuple[list[Any], list[Any], dict[Any, Any]] | None = None
        # Sets of faulty nodes whose errors no bound excused in an earlier row.
        self.beyond: set[frozenset[int]] = set()
        # The ops and lines of custom gradients that a lower order found wrong.
        self.wrong_below: frozenset[tuple[str | None, Any]] = frozenset()

    def get(self, name: Any, make: Callable[[], Any]) -> Any:
        """The result of `make`, which is called once for each precision, and again where notes are taken.

        The ties that `make` assumed are noted each time, as if it were called again.
        """
        state = circumstances()
        if state is None:
            return make()
        key, ties = (name, state), assumed.get("ties")
        if key in self._kept:
            made, noted = self._kept[key]
            if ties is not None:
                ties.extend(noted)
            return made
        before = 0 if ties is None else len(ties)
        made = make()
        if circumstances() == state:
            self._kept[key] = made, [] if ties is None else ties[before:]
        return made

    def get_some(self, name: Any, make: Callable[[], Any], size: int) -> Any:
        """As `get`, for results of `size` numbers each; those beyond `_ROOM` numbers in all are made each time."""
        state = circumstances()
        if state is None or (name, state) in self._kept:
            return self.get(name, make)
        if size > self._room:
            return make()
        made = self.get(name, make)
        self._room -= size
        return made

    def known(self, name: Any) -> Any:
        """The value that `get` kept at this precision, or None."""
        return self._kept.get((name, circumstances()), (None, []))[0]


def cotangents_returned(sub: Program, outputs: list[int | None], env: dict[int, Any]) -> list[Any]:
    """The cotangents that a user's gradient function returned, from what `Replay.custom_back` gives.

    The function returns gradients in TensorFlow's convention, the conjugate of the transpose.
    """
    return [None if o is None else turned(env[o]) if is_complex(sub.nodes[o].output) else env[o] for o in outputs]


class Misshapen(Exception):
    """A custom gradient returned a gradient of another shape than its input."""

    def __init__(self, node: Node, reason: str) -> None:
        super().__init__(reason)
        self.node = node


def _trace() -> arb:
    """A factor far below rounding. Its product with a rounding is larger than the gap of an assumed tie."""
    return arb(2) ** min(-100, 64 - ctx.prec // 3)


class InEnclosures(Algebra):
    """The arithmetic of a sweep in enclosures; a class made from it has the rules."""

    def lift(self, c: Any) -> Any:
        return objects(BALLS.lift(np.asarray(c)))

    def add(self, a: Any, b: Any) -> Any:
        return plus(a, b)

    def arrive(self, cotangents: dict[int, Any], j: int, c: Any) -> None:
        super().arrive(cotangents, j, c if isinstance(c, PartialOutputs) else objects(c))


class _Exact(InEnclosures):
    """The arithmetic of a replay: enclosures, and the tape's own rules.

    Parameters
    ----------
    kept : dict
        Receives node -> (the cotangent that arrived, the cotangents that the rule made).
    """

    def __init__(self, replay: Replay, kept: dict[int, Any]) -> None:
        self.replay, self.kept = replay, kept

    def rule(self, node: Node, g: Any) -> list[Any]:
        return self.replay.pulled(node, g)

    def custom(self, node: Node, g: Any) -> list[Any] | None:
        self.replay.arrived[node.index] = g
        through = self.replay.by_bodies and node.prim.declared is None and node.index not in self.replay.trusted
        return None if through else self.replay.pulled(node, g)


class _ThroughBody(_Exact):
    """The arithmetic of a sweep through the body of one custom gradient, which ends at the inputs `ends`."""

    def __init__(self, replay: Replay, ends: frozenset[int]) -> None:
        super().__init__(replay, {})
        self.ends = ends

    def rule(self, node: Node, g: Any) -> list[Any]:
        return [None] * len(node.active) if node.index in self.ends else super().rule(node, g)

    def custom(self, node: Node, g: Any) -> list[Any] | None:
        return [None] * len(node.active) if node.index in self.ends else super().custom(node, g)


class Replay:
    """The exact values of one program and its gradient by its own rules, at the precision in force.

    Parameters
    ----------
    seeds : list of arrays
        The cotangent of each output of the program, as recorded floats.
    by_bodies : bool
        Whether the replay passes custom gradients through their bodies, instead of running the users' functions.
    """

    def __init__(self, program: Program, seeds: list[Any], *, by_bodies: bool = False) -> None:
        self.program = program
        self.seeds = seeds
        self.by_bodies = by_bodies
        self.trusted: frozenset[int] = frozenset()  # custom gradients whose functions run all the same
        self.env: dict[int, Any] = {}
        self.made: dict[int, tuple[Any, list[Any]]] = {}
        # The cotangents that arrived at custom gradients.
        self.arrived: dict[int, Any] = {}
        self.flips: list[Node] = []
        # Node -> the inputs that it reads in place of the exact ones, to follow the other branch of a kink.
        self.read: dict[int, list[Any]] = {}
        # Whether ties are broken as rounding broke them. The jets of a primal must follow these decisions, because the
        # backward ops of its inner gradient hold them.
        self.broken = False
        self.switched = False  # whether a cotangent of 0 met a partial that is not finite
        # Node -> the mask of these elements, or of those in which jets leave a slope that is not finite out.
        self.switched_off: dict[int, Any] = {}
        # The values at another point, if this one was drawn at random. An element with the same value at both points is
        # constant nearby, so that its derivative is 0, whatever the slopes of the ops that read it.
        self.elsewhere: dict[int, Any] | None = None
        self._unfollowed: dict[Any, bool] = {}
        self._moving: dict[int, set[int]] = {}
        self._weights: dict[int, list[Any]] = {}
        self.shared: Shared | None = None
        self.of_sweep: dict[Any, Any] = {}  # results of searches among the rules and functions of the last replay

    def anew(self) -> Self:
        """An oracle like this one, without values."""
        made = self.__class__(self.program, self.seeds)
        made.by_bodies, made.trusted = self.by_bodies, self.trusted
        return made

    @cached_property
    def rng(self) -> Any:
        """The source of random directions."""
        return np.random.default_rng(seed_of(self.program))

    def evaluate_once(self) -> None:
        """As `evaluate`, with the values of an earlier row."""
        if self.shared is None:
            self.evaluate()
            return

        def make() -> Any:
            self.evaluate()
            return self.env, self.flips

        env, flips = self.shared.get("values", make)
        read = self.shared.get("read", lambda: self.read)
        self.env, self.flips, self.read = dict(env), list(flips), dict(read)

    def evaluate(self, only: Iterable[int] | None = None) -> None:
        """The exact value of every node, or of some in order; conditions and indices as recorded."""
        self.flips = []
        for i in range(len(self.program.nodes)) if only is None else only:
            tick()
            self.env[i] = self.value_of(self.program.nodes[i], self.env)

    def value_of(self, node: Node, env: dict[int, Any]) -> Any:
        if node.kind == "op" and not is_floating(node.output):
            if node.prim.kind == "elementwise" and np.asarray(node.output).dtype.kind == "b":
                try:
                    exact = getattr(BALLS, node.prim.name)(*[env[i] for i in node.inputs], **node.params)
                except Undecided as e:
                    if not e.hopeless:
                        raise
                    return BALLS.lift(node.output)  # as recorded, because NaN compares in no precision
                if (np.asarray(exact, dtype=bool) != np.asarray(node.output)).any():
                    self.flips.append(node)
            elif (node.prim.kinks or node.prim.roles & {"conversion", "decision"}) and self._other_choice(node, env):
                self.flips.append(node)
            return BALLS.lift(node.output)
        value = None
        if self.broken and node.kind == "op" and node.prim.kinks and node.index not in self.read:
            value = self._broken(node, env)
        if value is None:
            value = self.program.step(BALLS, node, env)
        if is_step(node) and self._other_step(node, value):  # the recorded step counts, as for comparisons
            self.flips.append(node)
            return BALLS.lift(node.output)
        return value

    def _broken(self, node: Node, env: dict[int, Any]) -> Any:
        """The value of an op with a kink at inputs that lie a trace towards the recorded ones."""
        moved = []
        for i in node.inputs:
            recorded = self.program.nodes[i].output
            if not is_floating(recorded) or is_complex(recorded) or isinstance(recorded, tuple):
                moved.append(env[i])
            else:
                moved.append(objects(env[i] + (BALLS.lift(np.asarray(recorded)) - env[i]) * _trace()))
        try:
            value = node.apply(BALLS, moved)
        except ArithmeticError:
            return None
        self.read[node.index] = moved
        return value

    @staticmethod
    def _other_choice(node: Node, env: dict[int, Any]) -> bool:
        """True if exact values certainly give an op (an order, an argmax) other indices than recorded."""
        try:
            exact = decided_anew(node, [env[i] for i in node.inputs])
        except Undecided:  # too close to tell: the recorded choice counts
            return False
        return bool((np.asarray(exact) != np.asarray(node.output)).any())

    @staticmethod
    def _other_step(node: Node, exact: Any) -> bool:
        """True if a step function (floor, rint) has another exact value than recorded, beyond rounding."""
        recorded = np.asarray(node.output)
        gap = np.abs(to_float(exact) - widest(recorded))
        return bool((gap > np.maximum(node.prim.ulps, 0.5) * spacing(recorded, recorded.dtype)).any())

    def replay(self) -> list[Any]:
        """The gradient with respect to each source, by the tape's own rules; None where unconnected."""
        if not self.env:
            self.evaluate()
        self.of_sweep = {}
        return gradient(self.program, self.seeds, _Exact(self, self.made))

    def replay_by_bodies(self) -> list[Any]:
        """As `replay`, at a point beside the recorded one, through the bodies of custom gradients.

        The users' functions hold the masks of the recorded point. A wrong function may agree with the conventions of
        its body's ops there, and nowhere else.
        """
        through = copy(self)
        through.by_bodies, through.made, through.arrived = True, {}, {}
        return through.replay()

    def pulled_through_body(self, node: Node, g: Any) -> dict[int, Any]:
        """The exact cotangents of a custom gradient's inputs, by the rules of its body's ops.

        Parameters
        ----------
        node : Node
            Of kind "custom".
        g : cotangent of its outputs
        """
        through = copy(self)
        through.by_bodies, through.arrived, through.switched_off = True, {}, {}
        algebra = _ThroughBody(through, frozenset(node.inputs))
        start: dict[int, Any] = {}
        for k, c in PartialOutputs.of(g).items():
            algebra.arrive(start, node.body[k], np.broadcast_to(objects(c), self.program.nodes[node.body[k]].shape))
        found = backward(self.program, start, algebra, None)
        return {j: found[j] for j in node.inputs if j in found}

    def used(self) -> dict[tuple[str, int], int]:
        """(op, argument) -> length of its longest sum, for every rule that took part."""
        found: dict[tuple[str, int], int] = {}
        nodes = self.program.nodes

        def add(node: Node, a: int) -> None:
            key = (node.name, a)
            found[key] = max(found.get(key, 1), longest_sum(node, nodes[node.inputs[a]].shape))

        for i, (_, made) in self.made.items():
            node = nodes[i]
            if node.kind == "op":
                for a, c in zip(node.active, made, strict=True):
                    if c is None or ((node.name, a) in found and node.prim.kind == "elementwise" and not np.ndim(c)):
                        continue  # the node and its shape are known
                    if any(e != 0 for e in objects(c).ravel().tolist()):
                        add(node, a)
        marked = set(self.program.differentiated)
        for i in self.program.ancestors(marked):
            if nodes[i].kind == "op":
                for a in nodes[i].active:
                    add(nodes[i], a)
        return found

    def sweep(self, start: dict[int, Any]) -> dict[int, Any]:
        """The cotangent of every node that `start` depends on, also through inputs that no tape follows."""
        return backward(self.program, start, _Exact(self, {}), None)

    def inner_sweep(self, mark: GradMark) -> dict[int, Any]:
        """The exact cotangents of an inner gradient: node -> (the one that arrived, those of the active inputs)."""
        start: dict[int, Any] = {}
        for t, c in zip(mark.targets, self.cotangents_of(mark), strict=True):
            start[t] = np.broadcast_to(objects(c), self.program.nodes[t].shape)
        kept: dict[int, Any] = {}
        backward(self.program, start, _Exact(self, kept), mark.session)
        return kept

    def cotangents_of(self, mark: GradMark) -> list[Any]:
        """The exact cotangents of an inner gradient's targets; random integers for a Jacobian and for a jvp.

        The integers weight the rows of a Jacobian, or the elements of a tangent.
        """
        if mark.form == "gradient":
            return [self.env[c] for c in mark.cotangents]
        if mark.key not in self._weights:
            made = []
            for t in mark.targets:
                node = self.program.nodes[t]
                turns = mark.form == "jvp" and is_complex(node.output)
                shape = node.shape[1:] if mark.form == "batch_jacobian" else node.shape
                w = random_cotangents(shape, self.rng, complex=turns)
                made.append(objects(np.broadcast_to(w, node.shape)))
            self._weights[mark.key] = made
        return self._weights[mark.key]

    def swept(self) -> Iterator[tuple[Node, Any, list[Any]]]:
        """Yield (node, cotangent, cotangents of its active inputs) for each node of the sweep and of inner sweeps."""
        for i, (g, made) in self.made.items():
            yield self.program.nodes[i], g, made
        yield from self.swept_inside()

    def swept_inside(self) -> Iterator[tuple[Node, Any, list[Any]]]:
        """As `swept`, for the inner sweeps alone, which depend on no cotangent of the outputs."""
        nodes = self.program.nodes
        marks = {node.mark.key: node.mark for node in nodes if node.mark is not None}
        for mark in marks.values():
            for i, (g, made) in self.inner_sweep(mark).items():
                yield nodes[i], g, made

    def pulled(self, node: Node, g: Any) -> list[Any]:
        """The exact cotangents of a node's active inputs, by the node's own rule."""
        if node.kind == "custom":
            return self._custom(node, g)
        y = self.env[node.index]
        g = PartialOutputs.filled(g, y, lambda v: zeros(np.shape(v)))
        xs = self.read.get(node.index) or [self.env[i] for i in node.inputs]
        like = [shaped_as(self.program.nodes[i].output, x) for i, x in zip(node.inputs, xs, strict=True)]
        made = by_rule(BALLS, node, g, y, xs, like)
        if node.prim.kind != "elementwise":
            return self.without_constants(node, made)
        made = [objects(c) for c in made]

        def again(live: Any) -> list[Any]:
            return [objects(c) for c in by_rule(BALLS, node, g, y, xs, like, live)]

        kept = kept_off(made, objects(g), _finite, arb(0), again)
        if any(k is not c for k, c in zip(kept, made, strict=True)):
            self.switched = True
            shape = np.shape(y)  # without the sums of broadcast inputs, which hide the elements
            each = by_rule(BALLS, node, g, y, *[[np.broadcast_to(v, shape) for v in vs] for vs in (xs, like)])
            infinite = np.logical_or.reduce([np.broadcast_to(~np.asarray(_finite(objects(c))), shape) for c in each])
            self.switched_off[node.index] = infinite & np.asarray(objects(g) == 0, dtype=bool)
        return self.without_constants(node, kept)

    def without_constants(self, node: Node, made: list[Any]) -> list[Any]:
        """The cotangents of a node's active inputs, with 0 by constant elements where they are not finite."""
        if self.elsewhere is None:
            return made
        kept = []
        for a, c in zip(node.active, made, strict=True):
            good = True if c is None or isinstance(c, PartialOutputs) else _finite(objects(c))
            if good is not True:
                i = node.inputs[a]
                constant = _same(self.env[i], self.elsewhere.get(i))
                c = objects(np.where(~good & constant, arb(0), c))
            kept.append(c)
        return kept

    def _custom(self, node: Node, g: Any) -> list[Any]:
        """The user's gradient function, traced on tensors and run again in enclosures."""
        sub, outputs, env = self.custom_back(node, g)
        for a, o in zip(node.active, outputs, strict=True):
            wanted = self.program.nodes[node.inputs[a]].shape
            if o is not None and sub.nodes[o].shape != wanted:
                raise Misshapen(
                    node,
                    f"the gradient that {node.name} returns for input {a} has shape {sub.nodes[o].shape}, and the "
                    f"input has shape {wanted}",
                )
        return cotangents_returned(sub, outputs, env)

    def custom_back(self, node: Node, g: Any) -> tuple[Program, list[int | None], dict[int, Any]]:
        """The user's function traced on a cotangent: its program, the node of each input's gradient, exact values."""
        outs = node.output if isinstance(node.output, tuple) else (node.output,)
        if isinstance(g, PartialOutputs):
            g = tuple([g.parts.get(k, zeros(np.shape(o))) for k, o in enumerate(outs)])
        given = g if isinstance(g, tuple) else (g,)
        parts = [turned(p) if is_complex(o) else objects(p) for p, o in zip(given, outs, strict=True)]
        sub, outputs, seeds = trace_back(node, parts)
        env: dict[int, Any] = {}
        for n in sub.nodes:
            if n.index in env:
                continue
            if n.seq in seeds:
                env[n.index] = parts[seeds[n.seq]]
                continue
            known = self.known(n)
            env[n.index] = self._value_in(sub, n, env) if known is None else self.env[known]
        return sub, outputs, env

    def known(self, n: Node) -> int | None:
        """The node of the main program that node `n` of a user's backward pass stands for; None for a new node."""
        found = self.program.by_seq.get(n.seq) if n.kind != "const" else None
        if not found:
            return None
        same = [k for k in found if self.program.nodes[k].output is n.output] if n.kind == "leaf" else []
        return same[0] if same else found[-1]

    def _value_in(self, sub: Program, n: Node, env: dict[int, Any]) -> Any:
        if n.kind == "op" and not is_floating(n.output):
            # The function ran at the recorded point, and another point may decide otherwise.
            known = self.elsewhere is None
            return BALLS.lift(n.output) if known else decided_anew(n, [env[i] for i in n.inputs])
        return sub.step(BALLS, n, env)


def seed_of(program: Program) -> int:
    """A seed for random directions, made from the numbers of a program, because a fixed direction could be orthogonal
    to the error of one program for ever.
    """
    digest = hashlib.blake2b(digest_size=8)
    ends = [i for nodes in program.sources for i in nodes] + list(program.outputs)
    for i in [*ends, *range(0, len(program.nodes), 1 + len(program.nodes) // 64)]:
        node = program.nodes[i]
        digest.update(node.name.encode())
        for v in node.output if isinstance(node.output, tuple) else (node.output,):
            digest.update(np.asarray(v).ravel()[:64].tobytes())
    return int.from_bytes(digest.digest(), "big")


def is_step(node: Node) -> bool:
    """True if an op is a step function: a float result with jumps and without a derivative."""
    prim = node.prim
    return (
        node.kind == "op"
        and prim.kind == "elementwise"
        and prim.public
        and not prim.differentiable
        and bool(prim.kinks)
        and is_floating(node.output)
    )


def decided_anew(node: Node, arguments: list[Any]) -> Any:
    """The exact decision of an op at other inputs, in the recorded dtype."""
    if all(np.asarray(v).dtype != object for v in arguments):
        return node.prim.kernel(*map(np.asarray, arguments), **node.params)
    exact = np.asarray(getattr(BALLS, node.prim.name)(*arguments, **node.params))
    return exact.astype(np.asarray(node.output).dtype)


def longest_sum(node: Node, shape: tuple[int, ...]) -> int:
    """The number of terms that a rule may sum: the repeats by broadcasting, or the longest axis."""
    if node.prim.kind == "elementwise":
        out = node.shape
        return 1 if out == shape else max(1, math.prod(out) // max(1, math.prod(shape)))
    shapes = [shape, *([np.shape(v) for v in node.output] if isinstance(node.output, tuple) else [node.shape])]
    return max(max(s, default=1) for s in shapes)


def _finite(c: Any) -> Any:
    """The mask of the finite enclosures; True if all are."""
    found = [finite_ball(e) for e in c.ravel().tolist()]
    return all(found) or np.array(found, dtype=bool).reshape(np.shape(c))


def _same(x: Any, y: Any) -> Any:
    """The mask of the elements of two arrays that hold the same exact number."""
    if y is None or np.shape(x) != np.shape(y):
        return np.zeros(np.shape(x), dtype=bool)
    pairs = zip(objects(x).ravel().tolist(), objects(y).ravel().tolist(), strict=True)
    # Enclosures are equal only if both are exact.
    return np.array([bool(p == q) for p, q in pairs], dtype=bool).reshape(np.shape(x))


def trace_back(node: Node, cotangents: list[Any]) -> tuple[Program, list[int | None], dict[int, int]]:
    """Record the ops of a custom gradient's function on its upstream gradients.

    The changes of state that the function makes are undone.

    Parameters
    ----------
    cotangents : list of object arrays
        The upstream gradients, because a function may decide by their values.

    Returns
    -------
    program : Program
        Its sources are the upstream gradients.
    outputs : list
        For each active input, the node of its gradient, or None.
    seeds : dict
        Record number of each upstream tensor -> its position.
    """
    from gtape.engine.recorded_runs import RecordedRun
    from gtape.recording.record import SEQ
    from gtape.recording.undoing import repeating
    from gtape.symbolic.build import build
    from gtape.tensors.tensor import wrap

    outs = node.output if isinstance(node.output, tuple) else (node.output,)
    values = [as_recorded(c, np.asarray(o)) for c, o in zip(cotangents, outs, strict=True)]
    run = node.step.recorded
    if run is None or not run.is_of(values):
        try:
            with repeating(), calling_again(node):
                run = RecordedRun([wrap(v) for v in values], node.step.run)
        except RunsOnce:
            if not run.can_repeat:
                raise
    gs, picked = run.gs, [run.made[a] for a in node.active]
    valued = [p for p in picked if p is not None]
    program = build([(p._record, p._value) for p in valued], [])
    places = iter(program.outputs)
    outputs = [None if p is None else next(places) for p in picked]
    seeds = {g._record[SEQ]: i for i, g in enumerate(gs) if g._record is not None}
    program.sources = [[] if g._record is None else list(program.by_seq.get(g._record[SEQ], ())) for g in gs]
    return program, outputs, seeds


def as_recorded(c: Any, like: Any) -> Any:
    """A cotangent in the shape and dtype of an output; ones if it is not finite in this dtype."""
    if like.dtype.kind not in "fc":
        return np.ones_like(like)
    v = np.broadcast_to(to_float(c), like.shape)
    v = np.array(v if like.dtype.kind == "c" else v.real, dtype=like.dtype)
    return v if np.isfinite(v).all() else np.ones_like(like)
