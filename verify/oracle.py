"""The exact derivative of a recorded program.

Two independent ways that must agree. The *replay* runs the tape's own rules in balls and yields every element. The
*jets* run the mirrors alone (partials by ``sympy.diff``), never a rule of the tape, in a random direction: if the sum
of direction times replayed gradient is the directional derivative, the replay is exact in every element (a wrong
element would have to be orthogonal to random integers). A gradient taken under an outer tape is certified against the
jets of its primal in one direction more, so that a wrong inner rule is seen at second order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from flint import acb, arb

from gtape.pulls import cotangents
from gtape.symbolic.balls import Undecided, objects, to_float
from gtape.symbolic.program import GradMark, Node, Program
from gtape.symbolic.worlds import BallWorld, JetWorld

__all__ = ["BALLS", "Failure", "Oracle", "TooDeep"]

BALLS = BallWorld()
_JETS: dict[int, JetWorld] = {}


def jet_world(k: int) -> JetWorld:
    """The world of jets in k directions (made once)."""
    found = _JETS.get(k)
    if found is None:
        found = _JETS[k] = JetWorld(k)
    return found


class TooDeep(Exception):
    """Gradients are nested deeper than the oracle follows."""


class Failure:
    """A certificate that failed: which rule, of which node, and by how much."""

    __slots__ = ("error", "mark", "node", "what")

    def __init__(self, what: str, node: Node | None, error: float, mark: GradMark | None = None) -> None:
        self.what = what
        self.node = node
        self.error = error
        self.mark = mark


class _Shape:
    """Stands in for an input that a rule does not read."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: Any = object) -> None:
        self.shape = shape
        self.dtype = dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)


def _zeros(shape: tuple[int, ...]) -> Any:
    out = np.empty(shape, dtype=object)
    out[...] = arb(0)
    return out


def _plus(a: Any, b: Any) -> Any:
    return a + b if isinstance(a, _Parts) else objects(a + b)


def as_balls(x: Any) -> Any:
    """Object array of balls, also from integers that exact zeros became."""
    return objects(x)


def inner(a: Any, b: Any) -> arb:
    """Sum of products of two object arrays, its real part."""
    total: Any = arb(0)
    for p, q in zip(objects(a).ravel().tolist(), objects(b).ravel().tolist(), strict=True):
        total = total + p * q
    # For complex numbers the real part: a cotangent tells how a real loss moves.
    return total.real if isinstance(total, acb) else arb(total)


def magnitude(a: Any, b: Any) -> arb:
    """Sum of magnitudes of products: what an error of the inner product is measured against."""
    with np.errstate(all="ignore"):
        rough = float(np.dot(np.abs(to_float(a)).ravel(), np.abs(to_float(b)).ravel()))
    if 1e-280 < rough < 1e280:
        return arb(rough)
    total = arb(0)
    for p, q in zip(objects(a).ravel().tolist(), objects(b).ravel().tolist(), strict=True):
        term = p * q
        total = total + abs(term if isinstance(term, acb) else arb(term))
    return total


def directions(shape: tuple[int, ...], rng: Any, *, complex: bool = False) -> Any:
    """Random nonzero integers, exact in every world; of complex numbers, for both parts."""
    if complex:
        return objects(_JOIN(directions(shape, rng), directions(shape, rng)))
    n = rng.integers(1, 2**12, size=shape) * rng.choice([-1, 1], size=shape)
    return np.asarray(n).astype(object)


_JOIN = np.frompyfunc(acb, 2, 1)


def is_complex(value: Any) -> bool:
    """Whether a recorded value is of complex numbers."""
    return not isinstance(value, tuple) and np.asarray(value).dtype.kind == "c"


def turned(x: Any) -> Any:
    """The conjugate: between TensorFlow's convention for complex gradients and the transpose, in which rules run."""
    return objects(np.frompyfunc(lambda e: e.conjugate() if isinstance(e, acb) else e, 1, 1)(objects(x)))


class Oracle:
    """The exact value and derivatives of one program, at the precision in force.

    Parameters
    ----------
    program : Program
    seeds : list of arrays
        The cotangent of each output of the program, as recorded floats.
    by_bodies : bool
        Whether the replay passes custom gradients through their bodies, instead of running the users' functions.
    """

    def __init__(self, program: Program, seeds: list[Any], *, by_bodies: bool = False) -> None:
        self.program = program
        self.seeds = seeds
        self.by_bodies = by_bodies
        self.env: dict[int, Any] = {}
        self.made: dict[int, tuple[Any, list[Any]]] = {}
        self.flips: list[Node] = []
        self._declares: dict[int, bool] = {}
        self.rng = np.random.default_rng(20260111)

    # ------------------------------------------------------------------------------------------ values

    def evaluate(self) -> None:
        """Every node's exact value in balls; conditions and indices as recorded."""
        self.flips = []
        for node in self.program.nodes:
            self.env[node.index] = self._value(node, self.env)

    def _value(self, node: Node, env: dict[int, Any]) -> Any:
        if node.kind == "op" and not _floating(node.output):
            if node.prim.kind == "elementwise" and np.asarray(node.output).dtype.kind == "b":
                try:
                    exact = getattr(BALLS, node.prim.name)(*[env[i] for i in node.inputs], **node.params)
                except Undecided as e:
                    if not e.hopeless:
                        raise
                    return BALLS.lift(node.output)  # a NaN: what was recorded stands
                if (np.asarray(exact, dtype=bool) != np.asarray(node.output)).any():
                    self.flips.append(node)
            elif node.prim.kinks and self._other_choice(node, env):
                self.flips.append(node)
            return BALLS.lift(node.output)
        return self.program.step(BALLS, node, env)

    @staticmethod
    def _other_choice(node: Node, env: dict[int, Any]) -> bool:
        """Whether an op that picks places (an order, the greatest of a window) certainly picks others exactly."""
        try:
            exact = getattr(BALLS, node.prim.name)(*[env[i] for i in node.inputs], **node.params)
        except Undecided:  # so close that either choice will do
            return False
        return bool((np.asarray(exact) != np.asarray(node.output)).any())

    # ------------------------------------------------------------------------------------------ the replay

    def replay(self) -> list[Any]:
        """The gradient with respect to each source, by the tape's own rules in balls; None where unconnected."""
        if not self.env:
            self.evaluate()
        merged: dict[int, Any] = {}
        for i, c in zip(self.program.outputs, self.seeds, strict=True):
            if c is not None:
                ball = np.broadcast_to(as_balls(BALLS.lift(np.asarray(c))), self.program.nodes[i].shape)
                merged[i] = _plus(merged[i], ball) if i in merged else ball
        cots = self.sweep(merged, self.made)
        return [self._gather(cots, nodes) for nodes in self.program.sources]

    def used(self) -> dict[tuple[str, int], int]:
        """(op, argument) of every rule that took part, with the length of its longest sum."""
        found: dict[tuple[str, int], int] = {}

        def add(node: Node, a: int) -> None:
            key = (node.name, a)
            found[key] = max(found.get(key, 1), _longest_sum(node, self.program.nodes[node.inputs[a]].shape))

        nodes = self.program.nodes
        for i, (_, made) in self.made.items():
            if nodes[i].kind == "op":
                for a, c in zip(nodes[i].active, made, strict=True):
                    if c is not None and any(e != 0 for e in objects(c).ravel().tolist()):
                        add(nodes[i], a)
        marked = {t for n in nodes if n.mark is not None for t in n.mark.targets}
        for i in self.program.ancestors(marked):
            if nodes[i].kind == "op":
                for a in nodes[i].active:
                    add(nodes[i], a)
        return found

    @staticmethod
    def _gather(cots: dict[int, Any], nodes: list[int]) -> Any:
        total = None
        for i in nodes:
            c = cots.get(i)
            if c is not None:
                total = c if total is None else _plus(total, c)
        return total

    def sweep(self, start: dict[int, Any], keep: dict[int, Any] | None = None) -> dict[int, Any]:
        """Reverse sweep over the nodes that `start` depends on; returns the cotangent of every node."""
        program = self.program
        cots = dict(start)
        for i in reversed(program.ancestors(start)):
            g = cots.get(i)
            node = program.nodes[i]
            if g is None or node.kind in ("leaf", "const") or not node.active:
                continue
            if node.kind == "custom" and self.by_bodies and node.prim.declared is None:
                pairs = [(node.body[k], c) for k, c in (g.parts if isinstance(g, _Parts) else {0: g}).items()]
            else:
                made = self._pull(node, g)
                if keep is not None:
                    keep[i] = (g, made)
                to = [node.inputs[a] for a in node.active] if node.kind != "item" else [node.inputs[0]]
                pairs = list(zip(to, made, strict=True))
            for j, c in pairs:
                if c is None:
                    continue
                c = c if isinstance(c, _Parts) else objects(c)
                cots[j] = _plus(cots[j], c) if j in cots else c
        return cots

    def _pull(self, node: Node, g: Any) -> list[Any]:
        if node.kind == "item":
            parts: dict[int, Any] = {node.params["index"]: g}
            return [_Parts(parts)]
        if node.kind == "custom":
            return self._custom(node, g)
        xs = tuple([self.env[i] for i in node.inputs])
        y = self.env[node.index]
        if isinstance(g, _Parts):
            g = tuple(g.parts.get(i, _zeros(np.shape(v))) for i, v in enumerate(y))
        shapes = tuple(
            [_Shape(np.shape(x), _dtype_of(self.program.nodes[j])) for x, j in zip(xs, node.inputs, strict=True)]
        )
        if node.prim.kind == "linear" and not node.prim.variadic:
            xs = shapes  # as on the tape: the rule reads shape and dtype
        made = cotangents(
            BALLS, node.pull, g, y, xs, avals=shapes, out_shape=() if isinstance(y, tuple) else np.shape(y)
        )
        if node.prim.kind == "elementwise":
            made = [
                _dead_stays_dead(c, g, s.shape) for c, s in zip(made, [shapes[a] for a in node.active], strict=True)
            ]
        return made

    def _custom(self, node: Node, g: Any) -> list[Any]:
        """The user's gradient function, traced on tensors and run again in balls."""
        sub, outputs, env = self.custom_back(node, g)
        # The user's function speaks TensorFlow's convention.
        return [None if o is None else turned(env[o]) if is_complex(sub.nodes[o].output) else env[o] for o in outputs]

    def custom_back(self, node: Node, g: Any) -> tuple[Program, list[int | None], dict[int, Any]]:
        """What the user's function does with a cotangent: its program, the gradient of each input, the values."""
        outs = node.output if isinstance(node.output, tuple) else (node.output,)
        if isinstance(g, _Parts):
            g = tuple([g.parts.get(k, _zeros(np.shape(o))) for k, o in enumerate(outs)])
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
        """The node of the program that a node of a user's backward pass is, if it is one."""
        found = self.program.by_seq.get(n.seq) if n.kind != "const" else None
        if not found:
            return None
        same = [k for k in found if self.program.nodes[k].output is n.output] if n.kind == "leaf" else []
        return same[0] if same else found[-1]

    @staticmethod
    def _value_in(sub: Program, n: Node, env: dict[int, Any]) -> Any:
        if n.kind == "op" and not _floating(n.output):
            return BALLS.lift(n.output)
        return sub.step(BALLS, n, env)

    # ------------------------------------------------------------------------------------------ the jets

    def jets(
        self, k: int, tangents: dict[int, list[Any]], only: Iterable[int], given: dict[int, Any] | None = None
    ) -> dict[int, Any]:
        """Run the mirrors on jets in `k` directions.

        Parameters
        ----------
        tangents : dict
            Node -> its tangents along each direction (None for none), added to what the node's inputs bring.
        only : node indices in order
        given : dict, optional
            Jets of some nodes, taken as they are.

        Returns
        -------
        dict
            Node -> object array of jets (or plain balls where nothing varies).
        """
        world = jet_world(k)
        env: dict[int, Any] = dict(given or {})
        for i in only:
            if i in env:
                continue
            node = self.program.nodes[i]
            if node.kind in ("leaf", "const"):
                value = self.env[i]
            elif node.kind == "op" and not _floating(node.output):
                env[i] = BALLS.lift(node.output)
                continue
            elif node.kind == "op" and not any(_varies(env[j]) for j in node.inputs):
                value = self.env[i]
            elif node.kind == "op":
                arguments = [
                    env[j] if a in node.active else _constant(world, env[j]) for a, j in enumerate(node.inputs)
                ]
                value = node.apply(world, arguments)
            elif node.kind == "custom" and node.prim.declared is not None:
                value = self._declared(k, node, env)
            else:
                value = self.program.step(world, node, env)
            extra = tangents.get(i)
            if extra is not None:
                if _varies(value):
                    value = objects(
                        value + world.jet(_zeros(np.shape(value)), *extra)
                    )  # NumPy hands 0-d results out bare
                else:
                    value = world.jet(value, *extra)
            env[i] = value
        return env

    def _followed(self, node: Node) -> GradMark | None:
        """Of what a node is the gradient, as jets of that can tell.

        They cannot where a declared custom gradient takes part, which is the derivative of nothing: there the recorded
        backward ops are the definition, and are followed like any others.
        """
        mark = node.mark
        if mark is None:
            return None
        if mark.key not in self._declares:
            inside = [self.program.nodes[i] for i in self.program.ancestors(mark.targets)]
            self._declares[mark.key] = any(n.kind == "custom" and n.prim.declared is not None for n in inside)
        return None if self._declares[mark.key] else mark

    def _declared(self, k: int, node: Node, env: dict[int, Any]) -> Any:
        """A declared custom gradient is what it returns; `_through_declared` joins in what it handed back."""
        if k > 1 and any(_varies(env[j]) for j in node.inputs):
            raise TooDeep(f"the declared custom gradient {node.name!r} is only followed at first order")
        return self.env[node.index]

    def _through_declared(self, env: dict[int, Any], only: Iterable[int]) -> tuple[arb, arb]:
        """What flows through declared custom gradients (they need not be linear), and its magnitude."""
        world = jet_world(1)
        total, scale = arb(0), arb(0)
        for i in only:
            node = self.program.nodes[i]
            if node.kind == "custom" and node.prim.declared is not None and i in self.made:
                for a, c in zip(node.active, self.made[i][1], strict=True):
                    if c is not None:
                        t = world.component(env[node.inputs[a]], 1)
                        total, scale = total + inner(c, t), scale + magnitude(c, t)
        return total, scale

    # ------------------------------------------------------------------------------------------ certificates

    def certify(self, gradients: list[Any]) -> list[Failure]:
        """Compare the replayed gradient with the jets of the mirrors in a random direction."""
        program = self.program
        tangents = {}
        total = arb(0)
        scale = arb(0)
        for nodes, g in zip(program.sources, gradients, strict=True):
            if not nodes or not _floating(program.nodes[nodes[0]].output):
                continue
            # Where the tape found no path, the mirrors must find none, either.
            u = _directions_of(program.nodes[nodes[0]], self.rng)
            for i in nodes:
                tangents[i] = [u]
            if g is None:
                continue
            total = total + inner(u, g)
            scale = scale + magnitude(u, g)
        only = program.ancestors(program.outputs)
        env = self.jets(1, tangents, only)
        world = jet_world(1)
        along, through = self._through_declared(env, only)
        scale = scale + through
        for i, c in zip(program.outputs, self.seeds, strict=True):
            if c is not None:
                c = np.broadcast_to(as_balls(BALLS.lift(np.asarray(c))), program.nodes[i].shape)
                along = along + inner(c, world.component(env[i], 1))
                scale = scale + magnitude(c, world.component(env[i], 1))
        failures = []
        error = disagreement(total, along, scale)
        if error:
            failures.append(Failure("replay", None, error))
        failures += self.certify_marks(1, tangents, env, only)
        failures += self.certify_unfollowed()
        return failures

    def certify_unfollowed(self) -> list[Failure]:
        """Where jets cannot follow an inner gradient, at least each rule that it used must be that of its mirror."""
        failures: list[Failure] = []
        seen: set[int] = set()
        for node in self.program.nodes:
            mark = node.mark
            if mark is None or mark.key in seen or self._followed(node) is not None:
                continue
            seen.add(mark.key)
            for i, (g, made) in self._inner_sweep(mark).items():
                failure = self.certify_rule(self.program.nodes[i], g, made)
                if failure is not None:
                    failure.mark = mark
                    failures.append(failure)
        return failures

    def _inner_sweep(self, mark: GradMark) -> dict[int, Any]:
        """The cotangents of an inner gradient, in balls: node -> (what arrived, what its rule made of it)."""
        start: dict[int, Any] = {}
        for t, c in zip(mark.targets, mark.cotangents, strict=True):
            start[t] = np.broadcast_to(objects(self.env[c]), self.program.nodes[t].shape)
        kept: dict[int, Any] = {}
        self.sweep(start, kept)
        return kept

    def certify_marks(
        self,
        k: int,
        tangents: dict[int, list[Any]],
        env: dict[int, Any],
        only: Iterable[int],
        known: frozenset[int] = frozenset(),
    ) -> list[Failure]:
        """Compare every gradient node among `only`, and its tangents, with jets of its primal in one direction more.

        Along that direction only what depends on the gradient's sources varies: the rest keeps its jets, and its
        gradient nodes, certified among `only` or `known`, need no other look. So a chain of gradients (many inner
        steps) is no nest of them.
        """
        failures = []
        wanted = set(only)
        groups: dict[int, list[Node]] = {}
        for i in wanted:
            mark = self._followed(self.program.nodes[i])
            if mark is not None:
                groups.setdefault(mark.key, []).append(self.program.nodes[i])
        if groups and k >= 3:
            raise TooDeep(f"gradients nested {k} deep: the oracle follows {k - 1}")
        for members in groups.values():
            mark = members[0].mark
            assert mark is not None
            world, deeper = jet_world(k), jet_world(k + 1)
            extended = {i: [*t, None] for i, t in tangents.items()}
            directional: dict[int, Any] = {}
            for member in members:
                m = member.mark
                assert m is not None
                u = _directions_of(member, self.rng)
                directional[member.index] = u
                for s in m.sources[m.which]:
                    old = extended.get(s, [None] * (k + 1))
                    extended[s] = [*old[:-1], u]
            inside = self.program.ancestors([*mark.targets, *mark.cotangents])
            moved = self._depending([s for m in members for s in _sources_of(m)], inside)
            run = [i for i in inside if i in moved or i not in env]
            read = {j for i in run for j in (*self.program.nodes[i].inputs, *self.program.nodes[i].body)}
            still = (read | {*mark.targets, *mark.cotangents}).difference(run)
            deep = self.jets(k + 1, extended, run, {i: _lifted(env[i], k) for i in still})
            # The cotangents are constants of the inner gradient: their tangents along the new direction do not count.
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
                    g = turned(g) if is_complex(member.output) else g
                    got = got + inner(directional[member.index], g)
                    scale = scale + magnitude(directional[member.index], g)
                error = disagreement(got, expected, scale)
                if error:
                    failures.append(
                        Failure(
                            "inner gradient" if bits == 0 else "derivative of an inner gradient",
                            members[0],
                            error,
                            mark,
                        )
                    )
                    break
            certified = known | wanted
            again = [i for i in inside if i in moved or i not in certified]
            failures += self.certify_marks(k + 1, extended, deep, again, certified)
        return failures

    def _depending(self, sources: Iterable[int], among: list[int]) -> set[int]:
        """The nodes up to the last of `among` that depend on some sources, themselves included.

        A gradient node also depends on what it is the gradient of, whatever its recorded backward ops read.
        """
        found = set(sources)
        for i in range(min(found, default=0), among[-1] + 1 if among else 0):
            node = self.program.nodes[i]
            mark = node.mark
            if (
                not found.isdisjoint(node.inputs)
                or not found.isdisjoint(node.body)
                or (mark is not None and not found.isdisjoint((*mark.targets, *mark.cotangents)))
            ):
                found.add(i)
        return found

    def certify_rule(self, node: Node, g: Any, made: list[Any]) -> Failure | None:
        """Compare one op's vjp, as replayed, with the jets of its mirror."""
        if node.kind != "op":
            return None
        world = jet_world(1)
        arguments = []
        total, scale = arb(0), arb(0)
        by_argument = dict(zip(node.active, made, strict=True))
        for a, j in enumerate(node.inputs):
            x = self.env[j]
            c = by_argument.get(a)
            if c is None or not node.prim.connected(a):
                arguments.append(x)
                continue
            u = _directions_of(self.program.nodes[j], self.rng)
            total = total + inner(u, c)
            scale = scale + magnitude(u, c)
            arguments.append(world.jet(x, u))
        value = node.apply(world, arguments)
        expected = arb(0)
        pairs = [(value[i], c) for i, c in g.parts.items()] if isinstance(g, _Parts) else [(value, g)]
        for v, c in pairs:
            c = np.broadcast_to(objects(c), np.shape(v))
            along = world.component(v, 1)
            expected = expected + inner(c, along)
            scale = scale + magnitude(c, along)
        error = disagreement(total, expected, scale)
        return Failure("rule", node, error) if error else None

    def faulty_rules(self) -> list[Failure]:
        """The ops whose rule is not the derivative of their mirror, along this program and its inner gradients."""
        found: dict[str, Failure] = {}
        records = dict(self.made)
        seen: set[int] = set()
        for node in self.program.nodes:
            if node.mark is not None and node.mark.key not in seen:
                seen.add(node.mark.key)
                kept = self._inner_sweep(node.mark)
                for i, pair in kept.items():
                    records.setdefault(i if i not in records else -1 - i, pair)
        for i, (g, made) in records.items():
            failure = self.certify_rule(self.program.nodes[i if i >= 0 else -1 - i], g, made)
            if failure is not None and failure.node is not None:
                found.setdefault(failure.node.name, failure)
        return list(found.values())

    # ------------------------------------------------------------------------------------------ single elements

    def along(self, source: int, element: tuple[int, ...]) -> Any:
        """One element of the gradient, by jets alone (also where rules of inner gradients are wrong)."""
        if is_complex(self.program.nodes[self.program.sources[source][0]].output):
            return acb(self._along(source, element, 1), -self._along(source, element, acb(0, 1)))
        return self._along(source, element, 1)

    def _along(self, source: int, element: tuple[int, ...], step: Any) -> arb:
        u = np.zeros(self.program.nodes[self.program.sources[source][0]].shape, dtype=object)
        u[...] = 0
        u[element] = step
        return self.slope(source, u)

    def slope(self, source: int, direction: Any) -> arb:
        """The derivative along a direction of one source, by jets alone."""
        program = self.program
        tangents = {i: [direction] for i in program.sources[source]}
        only = program.ancestors(program.outputs)
        given = self._exact_marks(tangents, only)
        env = self.jets(1, tangents, only, given)
        world = jet_world(1)
        total, _ = self._through_declared(env, only)
        for i, c in zip(program.outputs, self.seeds, strict=True):
            if c is not None:
                c = np.broadcast_to(as_balls(BALLS.lift(np.asarray(c))), program.nodes[i].shape)
                total = total + inner(c, world.component(env[i], 1))
        return total

    def _exact_marks(self, tangents: dict[int, list[Any]], only: Iterable[int], limit: int = 64) -> dict[int, Any]:
        """Jets of the gradient nodes from their primals, element by element."""
        given: dict[int, Any] = {}
        world, deeper = jet_world(1), jet_world(2)
        for i in only:
            node = self.program.nodes[i]
            mark = self._followed(node)
            if mark is None:
                continue
            if int(np.prod(node.shape)) > limit:
                raise TooDeep(
                    f"an inner gradient of {int(np.prod(node.shape))} elements is not evaluated element by element"
                )
            if is_complex(node.output):
                raise TooDeep("an inner gradient by complex numbers is not evaluated element by element")
            inside = self.program.ancestors([*mark.targets, *mark.cotangents])
            values = np.empty(node.shape, dtype=object)
            slopes = np.empty(node.shape, dtype=object)
            for index in np.ndindex(*node.shape):
                u = np.zeros(node.shape, dtype=object)
                u[...] = 0
                u[index] = 1
                extended = {j: [t[0], None] for j, t in tangents.items()}
                for s in mark.sources[mark.which]:
                    extended[s] = [extended.get(s, [None, None])[0], u]
                deep = self.jets(2, extended, inside)
                v, d = arb(0), arb(0)
                for t, c in zip(mark.targets, mark.cotangents, strict=True):
                    target = deep[t]
                    weight = np.broadcast_to(deeper.component(deep[c], 0), np.shape(target))
                    v = v + inner(weight, deeper.component(target, 2))
                    moving = np.broadcast_to(deeper.component(deep[c], 1), np.shape(target))
                    d = d + inner(weight, deeper.component(target, 3)) + inner(moving, deeper.component(target, 2))
                values[index], slopes[index] = v, d
            given[i] = world.jet(values, slopes)
        return given


def _directions_of(node: Node, rng: Any) -> Any:
    return directions(node.shape, rng, complex=is_complex(node.output))


class _Parts:
    """Cotangents of the outputs of an op with several."""

    __slots__ = ("parts",)

    def __init__(self, parts: dict[int, Any]) -> None:
        self.parts = parts

    def __add__(self, other: _Parts) -> _Parts:
        parts = dict(self.parts)
        for i, g in other.parts.items():
            parts[i] = parts[i] + g if i in parts else g
        return _Parts(parts)


def _dtype_of(node: Node) -> Any:
    return np.dtype(object) if isinstance(node.output, tuple) else np.asarray(node.output).dtype


def _longest_sum(node: Node, shape: tuple[int, ...]) -> int:
    """How many terms a rule of this op may add up: what broadcasting repeated, or the longest axis in sight."""
    if node.prim.kind == "elementwise":
        return max(1, int(np.prod(node.shape)) // max(1, int(np.prod(shape))))
    shapes = [shape, *([np.shape(v) for v in node.output] if isinstance(node.output, tuple) else [node.shape])]
    return max(max(s, default=1) for s in shapes)


def _floating(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(_floating(v) for v in value)
    return np.asarray(value).dtype.kind in "fc"


def _sources_of(node: Node) -> list[int]:
    """The nodes that a gradient node is the derivative with respect to."""
    assert node.mark is not None
    return node.mark.sources[node.mark.which]


def _lifted(value: Any, k: int) -> Any:
    """Jets in `k` directions as jets in one more, along which nothing varies."""
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


def _varies(x: Any) -> bool:
    from gtape.symbolic.jets import Jet

    if isinstance(x, tuple):
        return any(_varies(v) for v in x)
    return isinstance(x, np.ndarray) and x.dtype == object and any(isinstance(e, Jet) for e in x.ravel().tolist())


def _constant(world: JetWorld, x: Any) -> Any:
    return world.component(x, 0) if _varies(x) else x


def _dead_stays_dead(c: Any, g: Any, shape: tuple[int, ...]) -> Any:
    """Exact zeros of a cotangent stay zero through a partial that is not finite (what a selection switched off)."""
    c = objects(c)
    if all(not isinstance(e, (arb, acb)) or e.is_finite() for e in c.ravel().tolist()):
        return c
    g = objects(g)
    if np.shape(g) != np.shape(c):
        return c
    c = c.copy()
    for index in np.ndindex(*np.shape(c)):
        if g[index] == 0 and isinstance(c[index], (arb, acb)) and not c[index].is_finite():
            c[index] = arb(0)
    return c


def disagreement(a: arb, b: arb, scale: arb) -> float:
    """0.0 if two balls may be the same number, otherwise their relative distance; raises where the balls are too wide.

    Raises
    ------
    ArithmeticError
        When the enclosures are too wide to tell: precision must be raised.
    """
    if not (a.is_finite() and b.is_finite() and scale.is_finite()):
        raise ArithmeticError("a value along the program is not finite")
    difference = a - b
    if scale == 0:
        return 0.0
    size = abs(scale)
    if difference.contains(0):
        if size.contains(0):
            # A gradient that is zero everywhere, as far as these enclosures tell: what is compared next tells more.
            if float(difference.rad()) < 2.0**-64:
                return 0.0
            raise ArithmeticError("the enclosures are too wide")
        if float((difference.rad() / size.mid()) if size.mid() != 0 else 1.0) > 2.0**-60:
            raise ArithmeticError("the enclosures are too wide")
        return 0.0
    ratio = difference.mid() / size.mid()
    # Far below all floats and all precisions here: only the sides of zeros (`balls.sides_of_zeros`) are that small.
    if min(abs(ratio), size) < arb(2) ** -15_000:
        return 0.0
    return max(abs(float(ratio)), 1e-300)


def trace_back(node: Node, cotangents: list[Any]) -> tuple[Program, list[int | None], dict[int, int]]:
    """Record what a custom gradient's function does to its upstream gradients.

    Parameters
    ----------
    node : Node
    cotangents : list of object arrays
        What arrives: a function may decide by it.

    Returns
    -------
    program : Program
    outputs : list
        For each active input, the node of its gradient, or None.
    seeds : dict
        Record number of each upstream tensor -> its position.
    """
    from gtape.record import SEQ
    from gtape.symbolic.program import build
    from gtape.tape import GradientTape
    from gtape.tensor import wrap

    outs = node.output if isinstance(node.output, tuple) else (node.output,)
    gs = [wrap(_as_recorded(c, np.asarray(o))) for c, o in zip(cotangents, outs, strict=True)]
    with GradientTape(persistent=True, verify=True) as tape:
        tape.watch(gs)
        for captured in _captured(node.pull.grad_fn):
            if captured._aval.inexact:
                tape.watch(captured)
        back = node.pull.run(gs)
    picked = [back[a] for a in node.active]
    valued = [p for p in picked if p is not None]
    program = build([(p._record, p._value) for p in valued], [])
    places = iter(program.outputs)
    outputs = [None if p is None else next(places) for p in picked]
    seeds = {g._record[SEQ]: i for i, g in enumerate(gs)}
    return program, outputs, seeds


def _as_recorded(c: Any, like: Any) -> Any:
    """A cotangent in the shape and dtype of an output; ones where it is no number there."""
    if like.dtype.kind not in "fc":
        return np.ones_like(like)
    v = np.broadcast_to(to_float(c), like.shape)
    v = np.array(v if like.dtype.kind == "c" else v.real, dtype=like.dtype)
    return v if np.isfinite(v).all() else np.ones_like(like)


def _captured(function: Any) -> list[Any]:
    """The tensors in a function's closure: they are recorded constants of the main program."""
    from gtape.tensor import Tensor

    cells = getattr(function, "__closure__", None) or ()
    found = []
    for cell in cells:
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        if isinstance(value, Tensor):
            found.append(value)
    return found
