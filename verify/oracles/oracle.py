"""The exact derivative of a recorded program.

Two independent computations must agree. The *replay* runs the tape's own rules in enclosures of the exact numbers and
gives every element. The *jets* run only the mirrors (partials by ``sympy.diff``) in a random direction. If the inner
product of direction and replayed gradient is the directional derivative, the replay is exact in every element, because
wrong elements would have to be orthogonal to random integers. A gradient taken under an outer tape is certified against
the jets of its primal in one direction more, which shows a wrong inner rule at second order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from flint import acb, arb

from gtape.symbolic.balls import finite_ball, objects
from gtape.symbolic.program import GradMark, Node
from gtape.symbolic.worlds import JetWorld
from gtape.verify.oracles.enclosures import BALLS, inner, is_complex, is_floating, jet_world, magnitude, zeros
from gtape.verify.oracles.forward import Pushing, forward
from gtape.verify.oracles.replay import Replay

__all__ = ["Oracle", "TooDeep"]


class TooDeep(Exception):
    """Gradients are nested deeper than the oracle follows."""


class _Jets(Pushing):
    """Values and tangents at once: jets in `k` directions.

    Parameters
    ----------
    sessions : tuple of Session or None
        For each direction the session of the tape that takes the derivative.
    free : int or None
        The direction in which all inputs of an op count, not only those that a tape follows.
    """

    def __init__(self, oracle: Oracle, k: int, sessions: tuple[Any, ...], free: int | None = None) -> None:
        self.oracle, self.k, self.world, self.free = oracle, k, jet_world(k), free
        self.blocked = [(bit, b) for bit, s in enumerate(sessions) if (b := oracle.program.blocked(s))]

    def leaf(self, node: Node) -> Any:
        return self.oracle.env[node.index]

    def op(self, node: Node, moving: dict[int, Any]) -> Any:
        if not is_floating(node.output):
            return BALLS.lift(node.output)
        # A step function stays constant even if rounding took it to another step.
        if not any(_varies(moving[j]) for j in node.inputs) or any(node is f for f in self.oracle.flips):
            return self.oracle.env[node.index]
        arguments = [
            moving[j] if a in node.active else self.constant(node, a, moving[j]) for a, j in enumerate(node.inputs)
        ]
        for bit, by_node in self.blocked:
            for a in by_node.get(node.index, ()):
                arguments[a] = _still(arguments[a], bit)
        if node.index in self.oracle.read:
            arguments = [_at(x, v) for x, v in zip(arguments, self.oracle.read[node.index], strict=True)]
        made = node.apply(self.world, arguments)
        return self.without_idle(node, arguments, made) if self.oracle.switched else made

    def without_idle(self, node: Node, arguments: list[Any], made: Any) -> Any:
        """The jets of an elementwise op, with arguments of infinite slope constant where they do not move the result.

        If f(u, v0) is constant for u around u0, the derivative of f(u, v) is that by v alone, whatever the slope of u:
        so a product with 0 and a maximum switch a root at 0 off.
        """
        if node.prim.kind != "elementwise" or isinstance(made, tuple):
            return made
        lost = [i for i, e in enumerate(objects(made).ravel().tolist()) if not _smooth(e)]
        if not lost:
            return made
        shape = np.shape(made)
        spread = [np.broadcast_to(v, shape) if isinstance(v, np.ndarray) else v for v in arguments]
        out = objects(made).copy().ravel()
        for i in lost:
            at = [v.ravel()[i : i + 1] if isinstance(v, np.ndarray) else v for v in spread]
            for a in node.active:
                if not _smooth(at[a][0]) and self.idle(node, at, a):
                    at[a] = self.world.component(at[a], 0)
            out[i] = objects(node.apply(self.world, at)).ravel()[0]
        return out.reshape(shape)

    def idle(self, node: Node, at: list[Any], a: int) -> bool:
        """True if an op is constant in argument `a` around a point, and so is its slope by all that moves."""
        world = jet_world(1)
        plain = [self.world.component(v, 0) if _varies(v) else v for v in at]
        if self.k > 1 and any(_varies(v) for i, v in enumerate(at) if i != a):
            return False
        for step in (-_STEP, arb(0), _STEP):
            beside = list(plain)
            beside[a] = world.jet(objects(plain[a] + step), objects(np.ones(1)))
            try:
                slope = world.component(node.apply(world, beside), 1)[0]
            except ArithmeticError:
                return False
            if slope != 0 or not slope.is_exact():
                return False
        return True

    def constant(self, node: Node, a: int, x: Any) -> Any:
        """An input that no tape follows: without tangents but for the free direction if the op has a slope by it."""
        if self.free is None or not (node.prim.connected(a) or "stop" in node.prim.roles):
            return _constant(self.world, x)
        for bit in range(self.k):
            x = x if bit == self.free else _still(x, bit)
        return x

    def custom(self, node: Node, moving: dict[int, Any]) -> Any:
        return self.oracle._declared(self.k, node, moving)

    def add(self, t: Any, own: Any) -> Any:
        if not _varies(t):
            return self.world.jet(t, *own)
        return objects(t + self.world.jet(zeros(np.shape(t)), *own))  # NumPy returns 0-d results bare


class Oracle(Replay):
    """The exact values and derivatives of one program, by the replay and by jets of the mirrors."""

    def jets(
        self,
        k: int,
        tangents: dict[int, list[Any]],
        only: Iterable[int],
        given: dict[int, Any] | None = None,
        sessions: tuple[Any, ...] = (),
        free: int | None = None,
    ) -> dict[int, Any]:
        """Run the mirrors on jets in `k` directions.

        Parameters
        ----------
        tangents : dict
            Node -> its own tangent along each direction, or None; added to the tangents from the node's inputs.
        given : dict, optional
            Jets of some nodes, taken as they are.
        sessions : tuple of Session or None, optional
            For each direction the session of the tape that takes the derivative; nodes that this tape does not follow
            stay constant along the direction.
        free : int, optional
            The direction along which all inputs count, also those that no tape follows.

        Returns
        -------
        dict
            Node -> object array of jets, or of plain enclosures if the node is constant.
        """
        return forward(self.program, tangents, _Jets(self, k, sessions, free), only, given)

    def followed(self, node: Node) -> GradMark | None:
        """The mark of a gradient node if jets of its primal give its derivative, else None.

        They do not if a declared custom gradient takes part, which need not be a derivative, or if the inner tape
        followed nodes that the outer tape did not. Then the recorded backward ops define the derivative.
        """
        mark = node.mark
        if mark is None:
            return None
        if mark.key not in self._unfollowed:
            inside = [self.program.nodes[i] for i in self.program.ancestors(mark.targets)]
            self._unfollowed[mark.key] = any(
                n.kind == "custom" and n.prim.declared is not None for n in inside
            ) or self._paused_outside(mark, inside)
        return None if self._unfollowed[mark.key] else mark

    def _paused_outside(self, mark: GradMark, inside: list[Node]) -> bool:
        """True if an inner gradient passed varying ops that the outer tape did not record."""
        program = self.program
        outer = program.blocked(program.session)
        if not outer:
            return False
        inner_blocked = program.blocked(mark.session)
        varying = {i for nodes in program.sources for i in nodes}
        for n in inside:
            moved = [a for a, j in enumerate(n.inputs) if j in varying and (n.kind != "op" or n.prim.connected(a))]
            if not moved:
                continue
            varying.add(n.index)
            closed = outer.get(n.index, frozenset())
            inner_follows = len(inner_blocked.get(n.index, ())) < len(n.active)
            if inner_follows and any(a in closed or a not in n.active for a in moved):
                return True
        return False

    def _declared(self, k: int, node: Node, env: dict[int, Any]) -> Any:
        """The constant value of a declared custom gradient; `through_declared` adds the cotangents that it returned."""
        if k > 1 and any(_varies(env[j]) for j in node.inputs):
            raise TooDeep(f"the declared custom gradient {node.name!r} is only followed at first order")
        return self.env[node.index]

    def through_declared(self, env: dict[int, Any], only: Iterable[int]) -> tuple[arb, arb]:
        """The part of the directional derivative through declared custom gradients, and its magnitude.

        Uses the cotangents of the replay, because a declared custom gradient need not be linear in its cotangent.
        """
        world = jet_world(1)
        total, scale = arb(0), arb(0)
        for i in only:
            node = self.program.nodes[i]
            if node.kind == "custom" and node.prim.declared is not None and i in self.made:
                closed = self.program.blocked(self.program.session).get(i, ())
                for a, c in zip(node.active, self.made[i][1], strict=True):
                    if c is not None and a not in closed:
                        t = world.component(env[node.inputs[a]], 1)
                        total, scale = total + inner(c, t), scale + magnitude(c, t)
        return total, scale

    def along(self, source: int, element: tuple[int, ...]) -> Any:
        """One element of the gradient, by jets alone, so that wrong rules of inner gradients do not matter."""
        if is_complex(self.program.nodes[self.program.sources[source][0]].output):
            return acb(self._along(source, element, 1), -self._along(source, element, acb(0, 1)))
        return self._along(source, element, 1)

    def by_jets(self, limit: int = 64) -> list[Any]:
        """The gradient by each source, by jets alone; raises `TooDeep` for more elements than `limit`."""
        shapes = [self.program.nodes[nodes[0]].shape for nodes in self.program.sources]
        size = sum(int(np.prod(shape)) for shape in shapes)
        if size > limit:
            raise TooDeep(f"{size} elements are not evaluated one by one")
        made = []
        for s, shape in enumerate(shapes):
            a = np.empty(shape, dtype=object)
            for index in np.ndindex(*shape):
                a[index] = self.along(s, index)
            made.append(a)
        return made

    def slope(self, source: int, direction: Any) -> arb:
        """The derivative along a direction of one source, by jets alone."""
        program = self.program
        tangents = {i: [direction] for i in program.sources[source]}
        only = program.ancestors(program.outputs)
        given = self.exact_marks(tangents, only)
        env = self.jets(1, tangents, only, given, (program.session,))
        world = jet_world(1)
        total, _ = self.through_declared(env, only)
        for i, c in zip(program.outputs, self.seeds, strict=True):
            if c is not None:
                c = np.broadcast_to(objects(BALLS.lift(np.asarray(c))), program.nodes[i].shape)
                total = total + inner(c, world.component(env[i], 1))
        return total

    def _along(self, source: int, element: tuple[int, ...], step: Any) -> arb:
        u = np.zeros(self.program.nodes[self.program.sources[source][0]].shape, dtype=object)
        u[...] = 0
        u[element] = step
        return self.slope(source, u)

    def exact_marks(self, tangents: dict[int, list[Any]], only: Iterable[int], limit: int = 64) -> dict[int, Any]:
        """Jets of the gradient nodes, element by element from jets of their primals."""
        given: dict[int, Any] = {}
        world, deeper = jet_world(1), jet_world(2)
        for i in only:
            node = self.program.nodes[i]
            mark = self.followed(node)
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
                deep = self.jets(2, extended, inside, None, (self.program.session, mark.session))
                v, d = arb(0), arb(0)
                for t, c in zip(mark.targets, mark.cotangents, strict=True):
                    target = deep[t]
                    weight = np.broadcast_to(deeper.component(deep[c], 0), np.shape(target))
                    v = v + inner(weight, deeper.component(target, 2))
                    moving = np.broadcast_to(deeper.component(deep[c], 1), np.shape(target))
                    d = d + inner(weight, deeper.component(target, 3)) + inner(moving, deeper.component(target, 2))
                values[index], slopes[index] = v, d
            own = tangents.get(i, [None])[0]  # a gradient node may be a source itself
            given[i] = world.jet(values, slopes if own is None else objects(slopes + own))
        return given


_STEP = arb(2) ** -2000  # to both sides of a point, beneath all floats


def _smooth(e: Any) -> bool:
    """True unless a derivative of a jet is infinite or NaN."""
    from gtape.symbolic.jets import Jet

    return not isinstance(e, Jet) or all(finite_ball(c) for c in e.components[1:])


def _varies(x: Any) -> bool:
    from gtape.symbolic.jets import Jet

    if isinstance(x, tuple):
        return any(_varies(v) for v in x)
    return isinstance(x, np.ndarray) and x.dtype == object and any(isinstance(e, Jet) for e in x.ravel().tolist())


def _at(x: Any, values: Any) -> Any:
    """Jets, or plain enclosures, moved to other values."""
    from gtape.symbolic.jets import Jet

    if not _varies(x):
        return values
    moved = np.frompyfunc(lambda e, v: e.__class__(v, *e.components[1:]) if isinstance(e, Jet) else v, 2, 1)
    return objects(moved(x, values))


def _still(x: Any, bit: int) -> Any:
    """A value made constant along one direction."""
    from gtape.symbolic.jets import ZERO, Jet

    if isinstance(x, tuple):
        return tuple([_still(v, bit) for v in x])
    if not _varies(x):
        return x

    def one(e: Any) -> Any:
        if not isinstance(e, Jet):
            return e
        return e.__class__(*[ZERO if m >> bit & 1 else c for m, c in enumerate(e.components)])

    return objects(np.frompyfunc(one, 1, 1)(x))


def _constant(world: JetWorld, x: Any) -> Any:
    return world.component(x, 0) if _varies(x) else x
