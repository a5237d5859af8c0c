"""The exact derivative of a recorded program.

Two independent computations must agree. The *replay* runs the tape's own rules in enclosures of the exact numbers and
gives every element. The *jets* run only the mirrors (partials by ``sympy.diff``) in a random direction. If the inner
product of direction and replayed gradient is the directional derivative, the replay is exact in every element, because
wrong elements would have to be orthogonal to random integers. A gradient taken under an outer tape is certified against
the jets of its primal in one direction more, which shows a wrong inner rule at second order.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import numpy as np
from flint import acb, arb

from gtape.base.verification import MOST_NESTED
from gtape.engine.rules import PartialOutputs
from gtape.symbolic.balls import Undecided, assumed, finite_ball, objects
from gtape.symbolic.complex_scalars import real_part
from gtape.symbolic.program import GradMark, Node
from gtape.symbolic.worlds import JetWorld
from gtape.verify.oracles.backward import backward, by_rule, shaped_as
from gtape.verify.oracles.enclosures import (
    BALLS,
    directions,
    inner,
    is_complex,
    is_floating,
    jet_world,
    magnitude,
    turned,
    zeros,
)
from gtape.verify.oracles.forward import Pushing, forward
from gtape.verify.oracles.replay import InEnclosures, Replay

__all__ = [
    "SWEPT", "Oracle", "TooDeep", "factorises", "nested_too_deep", "own_part", "uses_vectors", "varies",
]  # fmt: skip


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
            # On another branch than the recorded one, the oracle holds another choice.
            decided = self.oracle.env.get(node.index)
            return BALLS.lift(node.output) if decided is None else decided
        # A step function stays constant even if rounding took it to another step.
        if not any(varies(moving[j]) for j in node.inputs) or any(node is f for f in self.oracle.flips):
            return self.oracle.env[node.index]
        if self.is_body_twice(node):
            return moving[node.inputs[0]]
        arguments = [
            moving[j] if a in node.active else self.constant(node, a, moving[j]) for a, j in enumerate(node.inputs)
        ]
        for bit, by_node in self.blocked:
            for a in by_node.get(node.index, ()):
                arguments[a] = _still(arguments[a], bit)
        if node.index in self.oracle.read:
            arguments = [_at(x, v) for x, v in zip(arguments, self.oracle.read[node.index], strict=True)]
        made = node.apply(self.world, arguments)
        known = None if assumed.get("shared") is None else self.oracle.env.get(node.index)
        if known is not None and not isinstance(made, tuple):
            made = _at(made, known) if varies(made) else made  # the same objects for the same numbers
        if self.oracle.elsewhere is not None:
            made = self.without_constants(node, arguments, made)
        return self.without_idle(node, arguments, made) if self.oracle.switched else made

    def is_body_twice(self, node: Node) -> bool:
        """Whether two sessions follow one function here: through a custom gradient, and through the ops of its body.

        The jets of the body are those of both. Mixed derivatives would vanish if each direction took its own way.
        """
        if "moves" not in node.prim.roles:
            return False
        made = self.oracle.program.nodes[node.inputs[0]]
        if made.kind == "item":
            made = self.oracle.program.nodes[made.inputs[0]]
        return made.kind == "custom" and made.prim.declared is None

    def without_constants(self, node: Node, arguments: list[Any], made: Any) -> Any:
        """The jets of an elementwise op at a random point, with constants in place of jets that do not move there.

        So the root of x - x is constant, although its slope is infinite.
        """

        def rest(at: list[Any]) -> bool:
            moved = False
            for a in node.active:
                if _rests(at[a][0]):
                    at[a], moved = self.world.component(at[a], 0), True
            return moved

        return self.again(node, arguments, made, rest)

    def without_idle(self, node: Node, arguments: list[Any], made: Any) -> Any:
        """The jets of an elementwise op, with arguments of infinite slope constant where they do not move the result.

        If f(u, v0) is constant for u around u0, only v contributes to the derivative of f(u, v), whatever the slope of
        u. So a product with 0, or a maximum, switches a root at 0 off. This needs a finite slope of v: the product of
        two roots at 0 is constant in either factor, and grows if both move.
        """

        def still(at: list[Any]) -> bool:
            off: list[int] = []
            for a in node.active:
                if not _smooth(at[a][0]) and self.idle(node, at, [*off, a]):
                    off.append(a)
            for a in off:
                at[a] = self.world.component(at[a], 0)
            return True

        kept = self.again(node, arguments, made, still)
        if kept is not made:
            pairs = zip(objects(made).flat, objects(kept).flat, strict=True)
            left_out = [not _smooth(e) and _smooth(k) for e, k in pairs]
            self.oracle.switched_off[node.index] = np.array(left_out).reshape(np.shape(made))
        return kept

    def again(self, node: Node, arguments: list[Any], made: Any, change: Callable[[list[Any]], bool]) -> Any:
        """The jets of an elementwise op, computed again where they are not finite, if `change` changes the arguments.

        Parameters
        ----------
        change : callable
            Gets the arguments of one element. Returns whether to compute the element again.
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
            if change(at):
                out[i] = objects(node.apply(self.world, at)).ravel()[0]
        return out.reshape(shape)

    def idle(self, node: Node, at: list[Any], off: list[int]) -> bool:
        """True if an op is constant in some arguments together around a point, and its slopes by all moving arguments
        are constant, too.
        """
        world = jet_world(1)
        plain = [self.world.component(v, 0) if varies(v) else v for v in at]
        if self.k > 1 and any(varies(v) for i, v in enumerate(at) if i not in off):
            return False
        for steps in product((-_STEP, arb(0), _STEP), repeat=len(off)):
            for moved in off:
                beside = list(plain)
                for a, step in zip(off, steps, strict=True):
                    value = objects(plain[a] + step)
                    beside[a] = world.jet(value, objects(np.ones(1))) if a == moved else value
                try:
                    slope = world.component(node.apply(world, beside), 1)[0]
                except ArithmeticError:
                    return False
                if slope != 0 or not slope.is_exact():
                    return False
        return True

    def constant(self, node: Node, a: int, x: Any) -> Any:
        """An input that no tape follows: constant except along the free direction, if the op has a slope by it."""
        if self.free is None or not (node.prim.connected(a) or "stop" in node.prim.roles):
            return _constant(self.world, x)
        for bit in range(self.k):
            x = x if bit == self.free else _still(x, bit)
        return x

    def custom(self, node: Node, moving: dict[int, Any]) -> Any:
        return self.oracle._declared(self.k, node, moving)

    def add(self, t: Any, own: Any) -> Any:
        if any(varies(v) for v in own):
            return objects(t + self.moving_along(np.shape(t), own))
        if not varies(t):
            return self.world.jet(t, *own)
        return objects(t + self.world.jet(zeros(np.shape(t)), *own))  # NumPy returns 0-d results bare

    def moving_along(self, shape: tuple[int, ...], own: list[Any]) -> Any:
        """Zeros with tangents that vary along the directions before their own."""
        parts: list[Any] = [zeros(shape)]
        for bits in range(1, 1 << self.k):
            part = own_part(own, bits)
            parts.append(None if part is None else objects(np.broadcast_to(part, shape)))
        return self.world.from_components(parts)


class _Unswept(Exception):
    """A sweep meets a node that has no rule for jets, such as a declared custom gradient or a Jacobian."""


class _RulesOnJets(InEnclosures):
    """The arithmetic of a sweep on jets. It goes through the bodies of custom gradients, and stops at inner gradients,
    and at nodes that do not move.

    Parameters
    ----------
    moving : dict
        Node -> its jets in `k` directions.
    tangents : dict
        The nodes that have tangents of their own, as for `Oracle.jets`.
    around : tuple of GradMark
        As for `Oracle.followed`.
    moved : set of int, optional
        The nodes that move along the last direction; all by default.
    """

    def __init__(
        self, oracle: Oracle, k: int, moving: dict[int, Any], tangents: dict[int, Any], around: tuple[GradMark, ...],
        moved: set[int] | None = None,
    ) -> None:  # fmt: skip
        self.oracle, self.world, self.moving = oracle, _world(k), moving
        self.tangents, self.around, self.moved = tangents, around, moved
        self.stopped: dict[int, Any] = {}  # inner gradients, with their cotangents
        self.at_rest: set[int] = set()  # other nodes at which the sweep stopped

    def rule(self, node: Node, g: Any) -> list[Any]:
        if self._rests(node):
            return [None] * len(node.active)
        if self.oracle.followed(node, self.around) is not None:
            self.stopped[node.index] = g
            return [None] * len(node.active)
        xs = [self.moving[i] for i in node.inputs]
        # A rule that reads the output needs the op's own result, without a tangent that was added to it.
        y = node.apply(self.world, xs) if node.index in self.tangents else self.moving[node.index]
        g = PartialOutputs.filled(g, y, lambda v: zeros(np.shape(v)))
        like = [shaped_as(self.oracle.program.nodes[i].output, x) for i, x in zip(node.inputs, xs, strict=True)]
        return by_rule(self.world, node, g, y, xs, like)

    def custom(self, node: Node, g: Any) -> list[Any] | None:
        if self._rests(node):
            return [None] * len(node.active)
        if node.prim.declared is not None:
            raise _Unswept
        return None

    def _rests(self, node: Node) -> bool:
        """Whether the sweep stops at a node, because it does not move along the last direction."""
        if self.moved is None or node.index in self.moved:
            return False
        self.at_rest.add(node.index)
        return True


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

    def followed(self, node: Node, around: tuple[GradMark, ...] = ()) -> GradMark | None:
        """The mark of a gradient node if jets of its primal give its derivative, else None.

        Jets do not give the derivative if a declared custom gradient takes part, which need not be a derivative, or if
        the inner tape followed nodes that an outer tape did not follow. Then the recorded backward ops define the
        derivative.

        Parameters
        ----------
        around : tuple of GradMark, optional
            The gradients that are differentiated between the outermost one and this one.
        """
        mark = node.mark
        if mark is None:
            return None
        key = (mark.key, *[m.key for m in around])
        if key not in self._unfollowed:
            inside = [self.program.nodes[i] for i in self.program.ancestors(mark.targets)]
            outer = [(self.program.session, self.program.sources), *[(m.session, m.sources) for m in around]]
            self._unfollowed[key] = any(n.kind == "custom" and n.prim.declared is not None for n in inside) or any(
                self._paused_outside(mark, inside, *tape) for tape in outer
            )
        return None if self._unfollowed[key] else mark

    def needed(self, targets: Iterable[int], around: tuple[GradMark, ...] = ()) -> list[int]:
        """The nodes that the targets depend on, in order, without nodes behind gradients that `exact_marks` evaluates.

        Parameters
        ----------
        around : tuple of GradMark, optional
            As for `followed`.
        """
        seen: set[int] = set()
        pending = list(targets)
        while pending:
            i = pending.pop()
            if i not in seen:
                seen.add(i)
                node = self.program.nodes[i]
                if self.followed(node, around) is None:
                    pending.extend((*node.inputs, *node.body))
        return sorted(seen)

    def _paused_outside(self, mark: GradMark, inside: list[Node], session: Any, sources: list[list[int]]) -> bool:
        """True if an inner gradient passed ops that vary with an outer tape's sources, but that the outer tape did not
        record.
        """
        program = self.program
        outer = program.blocked(session)
        if not outer:
            return False
        inner_blocked = program.blocked(mark.session)
        varying = {i for nodes in sources for i in nodes}
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
        if k > 1 and any(varies(env[j]) for j in node.inputs):
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
        """The gradient by each source, certified by jets alone; raises `TooDeep` if that fails for more elements than
        `limit`.
        """
        shapes = [self.program.nodes[nodes[0]].shape if nodes else None for nodes in self.program.sources]
        size = sum(int(np.prod(shape)) for shape in shapes if shape is not None)
        swept = self.by_sweeps() if size > SWEPT else None
        if swept is not None:
            return swept
        if size > limit:
            raise TooDeep(f"{size} elements are not evaluated one by one")
        made: list[Any] = []
        for s, shape in enumerate(shapes):
            if shape is None:
                made.append(None)
                continue
            a = np.empty(shape, dtype=object)
            for index in np.ndindex(*shape):
                a[index] = self.along(s, index)
            made.append(a)
        return made

    def by_sweeps(self) -> list[Any] | None:
        """The gradient by each source, from sweeps of the rules with the decisions of this point, certified by jets.

        The recorded ops of an inner gradient hold the decisions of the recorded point, so the sweep does not pass them:
        a sweep over the inner program, on jets along the cotangent of the inner gradient, gives the same numbers.

        Returns
        -------
        list of object arrays or None
            None if jets along a random direction do not confirm the sweeps, and for complex sources.
        """
        program = self.program
        shapes = [program.nodes[nodes[0]].shape if nodes else None for nodes in program.sources]
        if self.read or any(nodes and is_complex(program.nodes[nodes[0]].output) for nodes in program.sources):
            return None
        only = self.needed(program.outputs)
        start: dict[int, Any] = {}
        for i in dict.fromkeys(program.outputs):
            start[i] = self.cotangent(i)
        try:
            # The gradient does not depend on the values of a gradient that no op reads.
            given = self.exact_marks({}, only, sessions=(), weights=lambda i: zeros(program.nodes[i].shape))
            values = self.jets(1, {}, only, given)
            found = self._pulled_back(start, values, program.session, {}, (), ())
            made = [
                None if shape is None else _sum_at(found, nodes, shape)
                for nodes, shape in zip(program.sources, shapes, strict=True)
            ]
            ways = [None if e is None else directions(np.shape(e), self.rng, like=e) for e in made]
            along = self.slope_of_all(ways)
        except _FAILS:
            return None
        pairs = [(u, e) for u, e in zip(ways, made, strict=True) if e is not None]
        total, size = arb(0), arb(0)
        for u, e in pairs:
            total, size = total + inner(u, e), size + magnitude(u, e)
        return made if _confirms(total, along, size) else None

    def slope(self, source: int, direction: Any) -> arb:
        """The derivative along a direction of one source, by jets alone."""
        return self.slope_of_all([direction if s == source else None for s in range(len(self.program.sources))])

    def slope_of_all(self, ways: list[Any]) -> arb:
        """The derivative along a direction of all sources, by jets alone.

        Parameters
        ----------
        ways : list of arrays or None
            The direction of each source; None for a source that does not move.
        """
        program = self.program
        if not self.made and any(n.kind == "custom" and n.prim.declared is not None for n in program.nodes):
            self.replay()  # for the cotangents that arrive at declared gradients
        tangents: dict[int, list[Any]] = {}
        for nodes, u in zip(program.sources, ways, strict=True):
            for i in nodes if u is not None else ():
                tangents[i] = [u if i not in tangents else objects(tangents[i][0] + u)]
        only = self.needed(program.outputs)
        given = self.exact_marks(tangents, only, weights=self.cotangent)
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

    def exact_marks(
        self,
        tangents: dict[int, list[Any]],
        only: Iterable[int],
        limit: int = 64,
        *,
        sessions: tuple[Any, ...] | None = None,
        around: tuple[GradMark, ...] = (),
        weights: Callable[[int], Any] | None = None,
        known: dict[int, Any] | None = None,
    ) -> dict[int, Any]:
        """Jets of the gradient nodes among `only`, element by element from jets of their primals.

        Parameters
        ----------
        tangents : dict
            As for `jets`.
        limit : int
            The most elements of one gradient.
        sessions : tuple of Session or None, optional
            As for `jets`; by default one direction, along which the program's own tape takes the derivative.
        around : tuple of GradMark, optional
            As for `followed`.
        weights : callable, optional
            Node of an output -> weights, if only the weighted sum of its elements is needed. A gradient that no other
            node reads then takes one direction instead of one for each element, and `limit` does not apply. One of its
            elements holds the sum divided by its weight, the others hold 0.
        known : dict, optional
            The jets of some gradient nodes in all directions but the last. A node that does not move in the last one
            is not evaluated again. Otherwise a chain of gradient steps would take twice the time for each step.

        Returns
        -------
        dict
            Node -> its jets.
        """
        sessions = (self.program.session,) if sessions is None else sessions
        given: dict[int, Any] = {}
        for i in only:
            mark = self.followed(self.program.nodes[i], around)
            if mark is None:
                continue
            if known is not None and i in known and i not in self._moved_by(around[-1]):
                given[i] = _at_rest(known[i], len(sessions) - 1)
                continue
            summed = None if weights is None or mark.form != "gradient" or self._is_read(i) else weights(i)
            made = self._element_by_element(self.program.nodes[i], tangents, limit, sessions, around, summed, given)
            own = tangents.get(i)  # a gradient node may be a source itself
            given[i] = made if own is None else _Jets(self, len(sessions), sessions).add(made, own)
        return given

    def cotangent(self, i: int) -> Any:
        """The sum of the cotangents of an output, as enclosures."""
        total = zeros(self.program.nodes[i].shape)
        for j, c in zip(self.program.outputs, self.seeds, strict=True):
            if j == i and c is not None:
                total = objects(total + BALLS.lift(np.asarray(c)))
        return total

    def _is_read(self, i: int) -> bool:
        """Whether a node is no output, or another node reads it."""
        return i not in self.program.outputs or any(
            i in n.inputs or i in n.body or (n.mark is not None and i in n.mark.reads) for n in self.program.nodes
        )

    def _moved_by(self, mark: GradMark) -> set[int]:
        """The nodes that depend on the sources of an inner gradient's tape, also through other inner gradients."""
        if mark.key not in self._moving:
            moved = {i for nodes in mark.sources for i in nodes}
            for node in self.program.nodes:
                reads = () if node.mark is None else node.mark.reads
                if not moved.isdisjoint((*node.inputs, *node.body, *reads)):
                    moved.add(node.index)
            self._moving[mark.key] = moved
        return self._moving[mark.key]

    def _element_by_element(
        self, node: Node, tangents: dict[int, list[Any]], limit: int, sessions: tuple[Any, ...],
        around: tuple[GradMark, ...], summed: Any, known: dict[int, Any],
    ) -> Any:  # fmt: skip
        """The jets of one gradient node, from jets of its primal in one direction more for each source element.

        With weights in `summed`, only the weighted sum of a gradient, as `exact_marks` gives it. `known` holds the jets
        of gradient nodes before this one.
        """
        mark, k = node.mark, len(sessions)
        assert mark is not None
        targets = sum(int(np.prod(self.program.nodes[t].shape)) for t in mark.targets)
        turns = is_complex(node.output) and mark.form != "jvp"
        if turns and mark.form != "gradient":
            raise TooDeep("a Jacobian by complex numbers is not evaluated element by element")
        if k >= MOST_NESTED:
            raise TooDeep(nested_too_deep(k))
        program, tapes, inner_marks = self.program, (*sessions, mark.session), (*around, mark)
        inside = self.needed(mark.reads, inner_marks)

        def slopes(moving: dict[int, Any]) -> tuple[list[Any], list[Any]]:
            """The derivatives of the targets along one direction, and the cotangents, both as jets in the other
            directions.
            """
            extended = {j: [*t, None] for j, t in tangents.items()}
            for s, u in moving.items():
                extended[s] = [*extended.get(s, [None] * k)[:k], u]
            given = self.exact_marks(extended, inside, limit, sessions=tapes, around=inner_marks, known=known)
            deep = self.jets(k + 1, extended, inside, given, tapes)
            return [slope_along(deep[t], k) for t in mark.targets], [below(deep[c], k) for c in mark.cotangents]

        size = math.prod(node.shape) if summed is None else 1
        if mark.form == "gradient" and size > SWEPT and not turns:
            found = self._swept(node, slopes, tangents, limit, sessions, around, known)
            if found is not None:
                return found
        if size > limit * (max(1, targets) if mark.form.endswith("jacobian") else 1):
            raise TooDeep(f"an inner gradient of {size} elements is not evaluated element by element")
        if mark.form == "jvp":
            along = self.moving_tangents(mark, tangents, {}, sessions, around)
            return slopes(along)[0][0]
        out = np.empty(node.shape, dtype=object)
        rank = len(program.nodes[mark.targets[0]].shape) if mark.targets else 0
        shape = node.shape
        if mark.form == "jacobian":
            shape = node.shape[rank:]
        elif mark.form == "batch_jacobian":
            shape = (node.shape[0], *node.shape[rank:])
        places = list(np.ndindex(*shape))
        if summed is not None:
            out[...] = arb(0)
            places = [index for index in places if summed[index] != 0][:1]

        def slopes_along(way: Any) -> tuple[list[Any], list[Any]]:
            return slopes(dict.fromkeys(mark.sources[mark.which], way))

        for index in places:
            if summed is not None:
                out[index] = _slope_of_real(*slopes_along(turned(summed))) * (1 / summed[index])
                continue
            u = zeros(shape)
            u[index] = arb(1)
            if mark.form == "jacobian":
                out[(..., *index)] = slopes_along(u)[0][0]
            elif mark.form == "batch_jacobian":  # the sum over the target's rows
                out[(index[0], *[slice(None)] * (rank - 1), *index[1:])] = slopes_along(u)[0][0].sum(axis=0)
            else:
                out[index] = _slope_of_real(*slopes_along(u))
                if turns:  # the conjugate of the transpose: the slope along i is the imaginary part
                    out[index] = out[index] + _slope_of_real(*slopes_along(objects(u * acb(0, 1)))) * acb(0, 1)
        return out

    def _swept(
        self, node: Node, slopes: Callable[[dict[int, Any]], tuple[list[Any], list[Any]]],
        tangents: dict[int, list[Any]], limit: int, sessions: tuple[Any, ...], around: tuple[GradMark, ...],
        known: dict[int, Any],
    ) -> Any:  # fmt: skip
        """The jets of one gradient by a sweep of the rules on jets, if jets along a random direction confirm them.

        A sweep takes the time of a few elements. Returns None for a sweep that fails or is wrong. `known` is as for
        `_element_by_element`.
        """
        mark, k = node.mark, len(sessions)
        assert mark is not None
        if self.read:
            return None
        sources, inner_marks = mark.sources[mark.which], (*around, mark)
        inside = self.needed(mark.reads, inner_marks)
        start: dict[int, Any] = {}
        try:
            given = {i: known[i] for i in inside if i in known and self.followed(self.program.nodes[i], inner_marks)}
            open_ = [i for i in inside if i not in given]
            given |= self.exact_marks(tangents, open_, limit, sessions=sessions, around=inner_marks)
            moving = self.jets(max(k, 1), tangents, inside, given, sessions)
            algebra = _RulesOnJets(self, k, moving, tangents, inner_marks)
            for t, c in zip(mark.targets, mark.cotangents, strict=True):
                algebra.arrive(start, t, np.broadcast_to(objects(moving[c]), self.program.nodes[t].shape))
            found = self._pulled_back(start, moving, mark.session, tangents, sessions, inner_marks)
            made = _sum_at(found, sources, node.shape)
            weights = directions(node.shape, self.rng, like=node.output)
            along = _weighted(*slopes(dict.fromkeys(sources, weights)))
        except _FAILS:
            return None
        for bits in range(1 << k):
            part, number = (objects(jet_world(max(k, 1)).component(e, bits)) for e in (made, objects(along)))
            if not _confirms(inner(weights, part), number.item(), magnitude(weights, part)):
                return None
        return made

    def _pulled_back(
        self, start: dict[int, Any], moving: dict[int, Any], session: Any, tangents: dict[int, list[Any]],
        sessions: tuple[Any, ...], around: tuple[GradMark, ...],
    ) -> dict[int, Any]:  # fmt: skip
        """The cotangents of all nodes that `start` depends on, as jets, also through inner gradients.

        Parameters
        ----------
        start : dict
            Node -> its cotangent.
        moving : dict
            Node -> its jets along `sessions`.
        session : Session or None
            Of the tape that takes the derivative.
        tangents, sessions, around
            As for `exact_marks`.
        """
        return self._pulled(_RulesOnJets(self, len(sessions), dict(moving), tangents, around), start, session, sessions)

    def _pulled(
        self, algebra: _RulesOnJets, start: dict[int, Any], session: Any, sessions: tuple[Any, ...]
    ) -> dict[int, Any]:
        """As `_pulled_back`, in the arithmetic of a sweep on jets along `sessions`.

        The derivative of w · g, with g the inner gradient of a function, is the gradient of the function's derivative
        along w: a sweep over the inner program on jets in one direction more. This sweep stops at nodes that do not
        move along w. The slopes of their cotangents go on in fewer directions, together with those of other inner
        gradients. Otherwise a chain of gradient steps would take twice the time for each step.
        """
        nodes, together = self.program.nodes, dict[Any, dict[int, Any]]()
        found: dict[int, Any] = {}

        def sweep(start: dict[int, Any]) -> None:
            for j, v in backward(self.program, start, algebra, session).items():
                if j in algebra.at_rest or not isinstance(v, PartialOutputs):
                    algebra.arrive(found, j, v)
            for i, w in algebra.stopped.items():
                mark = nodes[i].mark
                assert mark is not None
                if mark.form != "gradient" or is_complex(nodes[i].output) or len(sessions) + 1 >= MOST_NESTED:
                    raise _Unswept
                algebra.arrive(together.setdefault(mark.key, {}), i, w)
            algebra.stopped = {}

        def latest(arrived: dict[int, Any]) -> int:
            mark = nodes[next(iter(arrived))].mark
            assert mark is not None
            return int(max(mark.targets))

        sweep(start)
        while together:  # the latest first, because others may still send cotangents to earlier ones
            arrived = together.pop(max(together, key=lambda key: latest(together[key])))
            sweep(self._through_mark(algebra, found, arrived, session, sessions))
        return found

    def _through_mark(
        self, algebra: _RulesOnJets, found: dict[int, Any], arrived: dict[int, Any], session: Any,
        sessions: tuple[Any, ...],
    ) -> dict[int, Any]:  # fmt: skip
        """The cotangents of nodes that do not move along the cotangents of an inner gradient; those of moving nodes are
        added to `found`.

        Parameters
        ----------
        arrived : dict
            Node of the inner gradient -> its cotangent.
        """
        k, nodes, moving = len(sessions), self.program.nodes, algebra.moving
        mark = nodes[next(iter(arrived))].mark
        assert mark is not None
        extended = {j: [*t, None] for j, t in algebra.tangents.items()}
        for i, w in arrived.items():
            own = nodes[i].mark
            assert own is not None
            for s in own.sources[own.which]:
                before = extended.get(s, [None] * (k + 1))
                extended[s] = [*before[:k], w if before[k] is None else objects(before[k] + w)]
        inner_marks, tapes = (*algebra.around, mark), (*sessions, mark.session)
        inside = self.needed(mark.reads, inner_marks)
        given = self.exact_marks(extended, inside, sessions=tapes, around=inner_marks, known=moving)
        deep = self.jets(k + 1, extended, inside, given, tapes)
        by_targets: dict[int, Any] = {}
        left: dict[int, Any] = {}
        for t, c in zip(mark.targets, mark.cotangents, strict=True):
            constant = objects(_still(deep[c], k))
            algebra.arrive(by_targets, t, np.broadcast_to(constant, nodes[t].shape))
            if nodes[c].kind != "const":
                if nodes[c].shape != nodes[t].shape:
                    raise _Unswept
                algebra.arrive(left, c, slope_along(deep[t], k))
        inner = _RulesOnJets(self, k + 1, deep, extended, inner_marks, self._moved_by(mark))
        for j, v in self._pulled(inner, by_targets, session, tapes).items():
            parts = {part: slope_along(c, k) for part, c in PartialOutputs.of(v).items()}
            slope = PartialOutputs(parts) if isinstance(v, PartialOutputs) else parts[0]
            algebra.arrive(left if j in inner.at_rest else found, j, slope)
        for j, v in deep.items():
            if j not in moving:
                moving[j] = _each(lambda x: below(x, k) if varies(x) else x, v)
        return left

    def moving_tangents(
        self, mark: GradMark, tangents: dict[int, list[Any]], env: dict[int, Any], sessions: tuple[Any, ...],
        around: tuple[GradMark, ...] | None = None,
    ) -> dict[int, Any]:  # fmt: skip
        """Source node -> the tangent of a jvp, as jets in the directions of the derivatives around it.

        Parameters
        ----------
        env : dict
            Jets of some nodes in these directions, which need not be computed again.
        around : tuple of GradMark, optional
            If given, gradients on which the tangents depend are evaluated exactly, as by `exact_marks`.
        """
        needed = self.program.ancestors(mark.tangents)
        given = dict(env)
        if around is not None:
            given |= self.exact_marks(tangents, needed, sessions=sessions, around=around)
        found = self.jets(len(sessions), tangents, [i for i in needed if i not in env], given, sessions)
        return {s: found[t] for nodes, t in zip(mark.sources, mark.tangents, strict=True) for s in nodes}


def uses_vectors(oracle: Oracle) -> bool:
    """Whether a derivative depends on vectors of a factorisation, besides its values or alone."""

    def used(targets: Iterable[int], around: tuple[GradMark, ...]) -> bool:
        for i in oracle.needed(targets, around):
            node = oracle.program.nodes[i]
            mark = oracle.followed(node, around)
            if mark is not None and used(mark.reads, (*around, mark)):
                return True
            if node.kind == "item" and factorises(oracle.program.nodes[node.inputs[0]]):
                outputs = oracle.program.nodes[node.inputs[0]].output
                if np.ndim(node.output) == max(map(np.ndim, outputs)):
                    return True
        return False

    return used(oracle.program.outputs, ())


def factorises(node: Node) -> bool:
    """Whether a node is an op that returns values and vectors, which forward mode may turn."""
    return node.kind == "op" and node.prim.along is not None


def nested_too_deep(k: int) -> str:
    """Why gradients nested in `k` derivatives are not followed."""
    return f"gradients nested {k} deep: the check follows {k - 1}"


def own_part(own: list[Any], bits: int) -> Any:
    """A component of a node's own tangents along all directions, by bitmask; None if it is zero.

    A tangent of a jvp holds jets in the directions before its own; any other tangent holds numbers.
    """
    bit = bits.bit_length() - 1
    tangent, rest = own[bit], bits ^ 1 << bit
    if tangent is None:
        return None
    if varies(tangent):
        return jet_world(bit).component(tangent, rest)
    return None if rest else _EXACT(objects(tangent))


def slope_along(x: Any, k: int) -> Any:
    """The derivative along the last direction of jets in `k + 1`, as jets in `k` directions."""
    world = jet_world(k + 1)
    x = objects(x)
    if not k:
        return world.component(x, 1)
    return jet_world(k).from_components([world.component(x, bits | 1 << k) for bits in range(1 << k)])


def below(x: Any, k: int) -> Any:
    """Jets in `k + 1` directions without their last one."""
    world = jet_world(k + 1)
    x = objects(x)
    if not k:
        return world.component(x, 0)
    return jet_world(k).from_components([world.component(x, bits) for bits in range(1 << k)])


def _at_rest(x: Any, k: int) -> Any:
    """Jets in `k` directions as jets in `k + 1`, with a last direction in which nothing moves."""
    x, still = objects(x), [None] * (1 << k)
    return jet_world(k + 1).from_components([*(jet_world(k).components_of(x) if k else [x]), *still])


def _world(k: int) -> Any:
    """The world of jets in `k` directions; that of balls for none."""
    return jet_world(k) if k else BALLS


def _each(function: Callable[[Any], Any], x: Any) -> Any:
    """A function of one output of an op, applied to all of them."""
    return tuple(map(function, x)) if isinstance(x, tuple) else function(x)


def _sum_at(found: dict[int, Any], nodes: Iterable[int], shape: tuple[int, ...]) -> Any:
    """The sum of the cotangents of some nodes."""
    made = zeros(shape)
    for i in nodes:
        if i in found:
            made = objects(made + found[i])
    return made


def _weighted(values: list[Any], weights: list[Any]) -> Any:
    """The sum of all products of values and weights, which may be jets."""
    total: Any = arb(0)
    for v, w in zip(values, weights, strict=True):
        w = objects(np.broadcast_to(w, np.shape(v)))
        total = sum(map(operator.mul, w.ravel().tolist(), objects(v).ravel().tolist()), total)
    return total


def _slope_of_real(values: list[Any], weights: list[Any]) -> Any:
    """The real part of the sum of all products, because a cotangent describes the change of a real loss."""
    return real_part(_weighted(values, weights))


def _confirms(sum_: arb, along: arb, size: arb) -> bool:
    """Whether the derivative along a random direction is the sum of its products with the elements of a gradient.

    Parameters
    ----------
    size : arb
        The sum of the magnitudes of the products.
    """
    gap = sum_ - along
    return bool(gap.contains(0) and gap.rad() <= _CONFIRMED * size)


_EXACT = np.frompyfunc(lambda e: arb(e) if isinstance(e, (int, float)) else e, 1, 1)
SWEPT = 4  # a gradient of more elements is evaluated by one sweep and confirmed, which takes as long as a few of them
_CONFIRMED = arb(2) ** -150  # the width of a confirmation, relative to the sum of magnitudes
# How a sweep of rules at another point may fail.
_FAILS = (ArithmeticError, ValueError, TypeError, IndexError, KeyError, Undecided, TooDeep, _Unswept)
_STEP = arb(2) ** -2000  # a step to both sides of a point, below all floats


def _smooth(e: Any) -> bool:
    """True unless a derivative of a jet is infinite or NaN."""
    from gtape.symbolic.jets import Jet

    return not isinstance(e, Jet) or all(finite_ball(c) for c in e.components[1:])


def _rests(e: Any) -> bool:
    """Whether all derivatives of a jet are 0."""
    from gtape.symbolic.jets import Jet

    return isinstance(e, Jet) and all(c == 0 for c in e.components[1:])


def varies(x: Any) -> bool:
    """Whether an array, or one of a tuple, holds jets."""
    from gtape.symbolic.jets import Jet

    if isinstance(x, tuple):
        return any(varies(v) for v in x)
    if not isinstance(x, np.ndarray) or x.dtype != object:
        return False
    return any(issubclass(kind, Jet) for kind in set(map(type, x.ravel().tolist())))


def _at(x: Any, values: Any) -> Any:
    """Jets, or plain enclosures, moved to other values."""
    from gtape.symbolic.jets import Jet

    if not varies(x):
        return values
    moved = np.frompyfunc(lambda e, v: e.__class__(v, *e.components[1:]) if isinstance(e, Jet) else v, 2, 1)
    return objects(moved(x, values))


def _still(x: Any, bit: int) -> Any:
    """A value made constant along one direction."""
    from gtape.symbolic.jets import ZERO, Jet

    if isinstance(x, tuple):
        return tuple([_still(v, bit) for v in x])
    if not varies(x):
        return x

    def one(e: Any) -> Any:
        if not isinstance(e, Jet):
            return e
        return e.__class__(*[ZERO if m >> bit & 1 else c for m, c in enumerate(e.components)])

    return objects(np.frompyfunc(one, 1, 1)(x))


def _constant(world: JetWorld, x: Any) -> Any:
    return world.component(x, 0) if varies(x) else x
