"""The structure of an ordinary program: the data that stay when its numbers change, and the sweeps over it in any
world.

Ordinary are programs of smooth ops on real numbers, away from kinks, with decisions away from ties, without custom
gradients. They may take gradients, but none of gradients. A training loop checks one structure thousands of times, so
that structures are kept.
"""

from __future__ import annotations

import itertools
import math
import operator
from array import array
from collections.abc import Callable
from copy import copy
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from gtape.base.deadline import tick
from gtape.base.layout import make_layout
from gtape.declare.primitives import CHANGED
from gtape.engine.rules import RuleStep, by_slope, cotangents
from gtape.engine.worlds import NUMPY
from gtape.symbolic.balls import box, objects
from gtape.symbolic.mirrors import has_mirror
from gtape.symbolic.mirrors.registry import SCALARS
from gtape.symbolic.program import Node, Program
from gtape.symbolic.scalars import hashable, template
from gtape.symbolic.straight_line import Code, NotStraight, WrittenBalls, WrittenJets
from gtape.verify.bounds.local import Floats, added_terms, declares_much
from gtape.verify.oracles.along import is_linear, multilinear
from gtape.verify.oracles.enclosures import BALLS, jet_world
from gtape.verify.oracles.replay import longest_sum, seed_of
from gtape.verify.verdicts.ulp import ROUNDINGS, widest

__all__ = ["BENDS", "JETS", "Apart", "Inner", "Kind", "Op", "Structure", "cut", "shaped", "structure_of"]

JETS, BENDS = jet_world(1), jet_world(2)
_MOST_KEPT = 2**14  # nodes of all structures that are kept
_MOST_NODES = 2**12  # structures of longer programs are not kept
_OFTEN = 32  # writing the code of a rule takes as long as running the rule about so often

_kept: dict[Any, Structure | None] = {}
CHANGED.append(lambda _: _kept.clear())


class Apart(Exception):
    """A number is wrong, or the short way cannot decide."""


class Kind:
    """The common data of ops that differ only in numbers and places.

    Attributes
    ----------
    node : Node
        An op without a place and an output.
    moving : tuple of int
        The active arguments that depend on a source.
    layouts : tuple of Layout
        Of the inputs.
    shape : tuple of int
        Of the output.
    used : list
        For each active argument the op's name and the argument, and the length of its rule's longest sum.
    balls, jets : worlds
        Of balls and of jets in one direction.
    value, slopes, move : callable or None
        An elementwise mirror on arrays of balls, its partial derivatives by the moving arguments as a function of the
        arguments and the value, and the mirror on arrays of jets.
    small : bool
        Whether all arguments of an elementwise op are single numbers, which need no arrays.
    """

    _value: Callable[..., Any]
    _slopes: Callable[..., Any]

    def __init__(self, n: Node, moving: tuple[int, ...], layouts: tuple[Any, ...], shape: tuple[int, ...]) -> None:
        self.node = node = Node(-1, "op", None)
        node.prim, node.params, node.active = n.prim, n.params, n.active
        node.step = RuleStep(n.prim, n.active, n.params, None, None)
        self.moving, self.layouts, self.shape = moving, layouts, shape
        self.used = [((n.name, a), longest_sum(n, layouts[a].shape)) for a in n.active]
        self.small = n.prim.kind == "elementwise" and not any(layout.shape for layout in layouts)
        self._runs = 0
        self._pull: Callable[[list[Any]], list[Any]] | None = None
        self._bend: Callable[..., Any] | None = None
        self._compile(BALLS, JETS, lambda f, count: f)

    def _compile(self, balls: Any, jets: Any, called: Callable[[Any, int], Any]) -> None:
        self.balls, self.jets = balls, jets
        self.value = self.slopes = self.move = None
        node, count = self.node, len(self.layouts)
        if node.prim.kind != "elementwise":
            return
        mirror = SCALARS[node.prim.name]
        self._value = balls.scalar_function(mirror, count, node.params)[0]
        self.value = np.frompyfunc(self._value, count, 1)
        self.move = np.frompyfunc(jets.scalar_function(mirror, count, node.params)[0], count, 1)
        made = template(mirror, count, node.params)
        if self.moving and not made.exponents:
            several = len(self.moving)
            self._slopes = called(made.slopes(self.moving), several)
            self.slopes = np.frompyfunc(self._slopes, count + 1, several)

    def written(self, code: Code) -> Kind:
        """The kind in worlds whose scalars are pieces of source text."""
        made = copy(self)
        made._compile(WrittenBalls(code), WrittenJets(code), partial(partial, code.calls))
        return made

    def exact(self, xs: list[Any]) -> Any:
        """The exact value of the op at arrays of balls."""
        if self.small:
            return box(self._value(*[x.item() for x in xs]))
        return objects(self.node.apply(self.balls, xs) if self.value is None else self.value(*xs))

    def along(self, xs: list[Any], y: Any, tangents: list[Any]) -> Any:
        """The derivative of the mirror at `xs`, where its value is `y`, along tangents of the moving arguments."""
        if self.slopes is not None and self.small:
            one = self._slopes(*[x.item() for x in xs], y.item())
            if len(tangents) == 1:
                return box(one * tangents[0].item())
            return box(sum(map(operator.mul, one[1:], [t.item() for t in tangents[1:]]), one[0] * tangents[0].item()))
        if self.slopes is not None:
            slopes = self.slopes(*xs, y)
            if len(tangents) == 1:
                return objects(slopes * tangents[0])
            total = slopes[0] * tangents[0]
            for p, t in zip(slopes[1:], tangents[1:], strict=True):
                total = total + p * t
            return objects(total)
        if is_linear(self.node, self.moving):
            return multilinear(self.balls, self.node, xs, dict(zip(self.moving, tangents, strict=True)))
        arguments = list(xs)
        for a, t in zip(self.moving, tangents, strict=True):
            arguments[a] = self.jets.jet(xs[a], t)
        return self.jets.component(self.node.apply(self.jets, arguments), 1)

    def moved(self, xs: list[Any]) -> Any:
        """The value of the op at arrays of jets."""
        connected = self.node.prim.connected
        xs = [self.jets.component(x, 0) if x.dtype == object and not connected(a) else x for a, x in enumerate(xs)]
        return objects(self.node.apply(self.jets, xs) if self.move is None else self.move(*xs))

    def bent(self, xs: list[Any]) -> Any:
        """The value of the op at arrays of jets in two directions."""
        xs = [x if a in self.moving else BENDS.component(x, 0) if x.dtype == object else x for a, x in enumerate(xs)]
        if not self.small:
            return objects(self.node.apply(BENDS, xs))
        if self._bend is None:
            self._bend = BENDS.scalar_function(SCALARS[self.node.prim.name], len(xs), self.node.params)[0]
        return box(self._bend(*[x.item() for x in xs]))

    def pulled(self, world: Any, g: Any, y: Any, xs: list[Any]) -> list[Any]:
        """The cotangents of the active inputs, by the op's own rule in a world."""
        if self.small and world is BALLS:
            self._runs += 1
            if self._runs == _OFTEN:
                self._pull = self._written_pull()
            if self._pull is not None:
                return list(map(box, self._pull([g.item(), y.item(), *[x.item() for x in xs]])))
        if self.small and world is NUMPY:  # without the sums over axes that broadcasting adds, of which there are none
            prim, params = self.node.prim, self.node.params
            return [by_slope(NUMPY, prim, a, g, y, xs, params) for a in self.node.active]
        return self._pulled(world, g, y, xs)

    def _written_pull(self) -> Callable[[list[Any]], list[Any]] | None:
        """The rule as a function of balls; None for a rule that looks at its numbers."""
        with Code() as code:
            try:
                g, y, *xs = map(box, code.inputs(2 + len(self.layouts)))
                made = self.written(code)._pulled(WrittenBalls(code), g, y, xs)
                return code.function([c.item() for c in map(objects, made)])
            except NotStraight:
                return None

    def _pulled(self, world: Any, g: Any, y: Any, xs: list[Any]) -> list[Any]:
        prim = self.node.prim
        arguments = self.layouts if prim.kind == "linear" and not prim.variadic else tuple(xs)
        return cotangents(world, self.node.step, g, y, arguments, layouts=self.layouts, out_shape=self.shape)


class Op(NamedTuple):
    """An op at its place; `given` is True if all its inputs are inputs of the program, which are known exactly."""

    number: int
    inputs: tuple[int, ...]
    given: bool
    kind: Kind


class Inner(NamedTuple):
    """A gradient that the program itself takes.

    Attributes
    ----------
    targets, cotangents : tuples of int
    members : tuple of (int, int)
        Each result, and the source by which it is the gradient.
    inside : list of Op
        The ops on which the targets depend and that move with a source of the program.
    """

    targets: tuple[int, ...]
    cotangents: tuple[int, ...]
    members: tuple[tuple[int, int], ...]
    inside: list[Op]


class Structure:
    """The data that depend only on the structure of a program, and the sweeps over the program.

    Attributes
    ----------
    ops : list of Op
        In the order of the program.
    given : list of int
        The inputs, and the ops that decide.
    decisions : list of int
        The ops that decide truth values or indices.
    sources, outputs : lists of int
    inner : list of Inner
        The gradients that the program itself takes.
    shapes : list of tuple of int
        Of all nodes.
    kinked : bool
        Whether an op has a kink somewhere.
    real : bool
        Whether all inputs are floats.
    added : float or None
        The error in ULP of a gradient in floats if all roundings are independent and none is magnified; None if it
        depends on numbers.
    rng : numpy Generator
        For the random directions of all checks of this structure.
    met : int
        How many checks met the structure.
    straight : Any
        The data that `straight.straight_of` keeps.
    """

    def __init__(self, ops: list[Op], program: Program, arrays: list[Any]) -> None:
        self.ops = ops
        self.decisions = [n.index for n in program.nodes if n.kind == "op" and arrays[n.index].dtype.kind != "f"]
        self.given = sorted({n.index for n in program.nodes}.difference([op.number for op in ops]))
        self.sources, self.outputs = [nodes[0] for nodes in program.sources], list(program.outputs)
        self.shapes = [v.shape for v in arrays]
        self.kinked = any(op.kind.node.prim.kinks for op in ops)
        self.real = all(arrays[i].dtype.kind == "f" for i in self.given)
        close = not any(declares_much(op.kind.node.prim) for op in ops)
        self.added = ROUNDINGS * added_terms(program) if close else None
        self.rng = np.random.default_rng(seed_of(program))
        self.inner = self._gradients(program)
        self.met = 0
        self.straight: Any = None

    def _gradients(self, program: Program) -> list[Inner]:
        groups: dict[int, list[Node]] = {}
        for n in program.nodes:
            if n.mark is not None:
                groups.setdefault(n.mark.key, []).append(n)
        found = []
        for members in groups.values():
            mark = members[0].mark
            assert mark is not None
            among = set(program.ancestors(mark.targets))
            inside = [op for op in self.ops if op.number in among and op.kind.moving]
            pairs = tuple([(n.index, n.mark.sources[n.mark.which][0]) for n in members if n.mark is not None])
            found.append(Inner(tuple(mark.targets), tuple(mark.cotangents), pairs, inside))
        return found

    def written(self, code: Code) -> Structure:
        """The structure in worlds whose scalars are pieces of source text."""
        kinds = {id(op.kind): op.kind for op in self.ops}
        made = {i: kind.written(code) for i, kind in kinds.items()}
        other = copy(self)
        other.ops = [op._replace(kind=made[id(op.kind)]) for op in self.ops]
        return other

    def evaluate(self, values: dict[int, Any]) -> None:
        """Add the exact value of each op to those of the inputs."""
        for op in self.ops:
            tick()
            values[op.number] = shaped(op.kind.exact([values[j] for j in op.inputs]), op.kind.shape)

    def replay(
        self, world: Any, values: dict[int, Any], seeds: list[Any],
        told: Callable[[Op, Any, list[Any]], None] | None = None,
    ) -> list[Any]:  # fmt: skip
        """The gradient by the tape's own rules in a world, from the values of all nodes in this world.

        Parameters
        ----------
        seeds : list of arrays
            Cotangent of each output.
        told : callable, optional
            Called for each rule that runs, with the op, the cotangent that arrived, and the cotangents of its active
            inputs.
        """
        arrived: dict[int, Any] = {}

        def arrive(j: int, c: Any) -> None:
            c = shaped(objects(c), self.shapes[j])
            if j not in arrived:
                arrived[j] = c
            elif c.ndim:
                arrived[j] = objects(arrived[j] + c)
            else:
                arrived[j] = box(arrived[j].item() + c.item())

        for i, c in zip(self.outputs, seeds, strict=True):
            arrive(i, c)
        for op in reversed(self.ops):
            g = arrived.pop(op.number, None)
            if g is not None and op.kind.node.active:
                tick()
                cs = op.kind.pulled(world, g, values[op.number], [values[j] for j in op.inputs])
                if told is not None:
                    told(op, g, cs)
                for a, c in zip(op.kind.node.active, cs, strict=True):
                    if c is not None:
                        arrive(op.inputs[a], c)
        return [arrived[i] for i in self.sources]

    def in_floats(self, values: Any, seeds: list[Any], kept: Floats | None = None) -> list[Any]:
        """The gradient by the tape's own rules in floats, from the values of all nodes as NumPy's scalars or arrays.

        Parameters
        ----------
        values : list or dict
        seeds : list
            Cotangent of each output, as a scalar or an array.
        kept : Floats, optional
            Receives the results of the sweep.
        """
        arrived: dict[int, Any] = {}
        terms: dict[int, list[Any]] = {} if kept is None else kept.terms

        def arrive(j: int, c: Any) -> None:
            if j not in arrived:
                arrived[j] = c
                return
            if kept is not None:  # sums of fewer than three terms have no caller
                terms.setdefault(j, [arrived[j]]).append(c)
            arrived[j] = arrived[j] + c

        def all_arrived(j: int, g: Any) -> None:
            if len(terms.get(j, ())) > 2:
                kept.totals[j] = np.asarray(g)  # type: ignore[union-attr]
            else:
                terms.pop(j, None)

        for i, c in zip(self.outputs, seeds, strict=True):
            arrive(i, c)
        for op in reversed(self.ops):
            number = op.number
            g = arrived.pop(number, None)
            if g is None:
                continue
            if number in terms:
                all_arrived(number, g)
            kind, inputs = op.kind, op.inputs
            if not kind.node.active:
                continue
            tick()
            cs = kind.pulled(NUMPY, g, values[number], [values[j] for j in inputs])
            if kept is not None:
                kept.kept[number] = g, cs
            for a, c in zip(kind.node.active, cs, strict=True):
                if c is not None:
                    arrive(inputs[a], c)
        for j, g in arrived.items():
            if j in terms:
                all_arrived(j, g)
        return [arrived[i] for i in self.sources]

    def moved_in_floats(self, arrays: list[Any], seeds: list[Any], steps: dict[int, Any]) -> list[Any]:
        """The gradient in float64 when inputs move by some steps, which may have an axis of their own for scalars."""
        values: dict[int, Any] = {i: (widest(v) if (v := arrays[i]).dtype.kind == "f" else v)[()] for i in self.given}
        values.update({i: values[i] + step for i, step in steps.items()})
        for op in self.ops:
            tick()
            values[op.number] = widest(op.kind.node.apply(NUMPY, [values[j] for j in op.inputs]))[()]
        return [widest(g) for g in self.in_floats(values, [widest(c)[()] for c in seeds])]

    @cached_property
    def _last_readers(self) -> array[int]:
        """For each node the last op that reads its tangent."""
        last = array("q", bytes(8 * len(self.shapes)))
        for op in self.ops:
            for a in op.kind.moving:
                last[op.inputs[a]] = op.number
        return last

    def push(self, values: dict[int, Any], tangents: dict[int, Any], *, keep: bool = True) -> None:
        """Add the tangent of each op that moves to those of the sources, by the mirrors.

        Parameters
        ----------
        keep : bool
            If False, only the tangents of the outputs are there in the end; the others go after their last use.
        """
        lasting = frozenset(self.outputs)
        for op in self.ops:
            if op.kind.moving:
                tick()
                moving = [op.inputs[a] for a in op.kind.moving]
                xs, y = [values[j] for j in op.inputs], values[op.number]
                made = op.kind.along(xs, y, [tangents[j] for j in moving])
                tangents[op.number] = shaped(made, op.kind.shape)
                if not keep:
                    for j in moving:
                        if self._last_readers[j] == op.number and j not in lasting:
                            tangents.pop(j, None)

    def bend(
        self, inner: Inner, values: dict[int, Any], tangents: dict[int, Any], ways: dict[int, Any]
    ) -> dict[int, Any]:
        """The jets of the function behind an inner gradient, along some tangents and along one direction more.

        Parameters
        ----------
        values : dict
            The exact values of all nodes.
        tangents : dict
            The tangent of each source of the program.
        ways : dict
            The further direction of the sources of the inner gradient.

        Returns
        -------
        dict
            Node -> its jets; nodes that do not move are left out.
        """
        jets = {s: BENDS.jet(values[s], tangents[s], ways.get(s)) for s in self.sources}
        for op in inner.inside:
            tick()
            arguments = [jets[j] if j in jets else values[j] for j in op.inputs]
            jets[op.number] = shaped(op.kind.bent(arguments), op.kind.shape)
        return jets

    def move(self, values: dict[int, Any], moving: set[int]) -> None:
        """Replace the values of the ops that depend on some inputs, whose values are jets.

        Parameters
        ----------
        moving : set of int
            The inputs; receives the ops.
        """
        for op in self.ops:
            if not moving.isdisjoint(op.inputs):
                tick()
                values[op.number] = op.kind.moved([values[j] for j in op.inputs])
                moving.add(op.number)


def structure_of(program: Program, arrays: list[Any]) -> Structure | None:
    """The structure of a program; None if the program is not ordinary."""
    if len(program.nodes) > _MOST_NODES:
        return _made(program, arrays) if _is_ordinary(program, arrays) else None
    try:
        key = (*[_key(n, v) for n, v in zip(program.nodes, arrays, strict=True)], *map(tuple, program.sources),
               tuple(program.outputs))  # fmt: skip
        found = _kept.get(key, ...)
    except TypeError:  # a parameter that has no hash
        return None
    if found is ...:
        found = _made(program, arrays) if _is_ordinary(program, arrays) else None
        if len(program.nodes) + sum(map(len, _kept)) > _MOST_KEPT:  # a key has a part for each node
            _kept.clear()
        _kept[key] = found
    return found


def _key(n: Node, v: Any) -> Any:
    """The key of an op or input, without its numbers."""
    if n.prim is None:
        return n.kind, v.shape, v.dtype
    params = hashable(tuple(n.params.items())) if n.params else None
    mark = None
    if n.mark is not None:
        m = n.mark
        mark = m.form, m.which, tuple(m.targets), tuple(m.cotangents), tuple(map(tuple, m.sources))
    return n.kind, n.prim, SCALARS.get(n.prim.name), n.inputs, n.active, params, mark, v.shape, v.dtype


def _is_ordinary(program: Program, arrays: list[Any]) -> bool:
    """Whether only numbers can be wrong in a program."""
    if not all(v.size for v in arrays):
        return False
    alone = [i for nodes in program.sources for i in nodes]
    if not alone or len(set(alone)) < len(alone) or any(len(nodes) != 1 for nodes in program.sources):
        return False
    if any(program.nodes[i].kind not in ("leaf", "const") or not _is_real(arrays[i]) for i in alone):
        return False
    smooth: dict[Any, bool] = {}  # whether ops of an elementwise primitive are, which no parameter decides
    for n, v in zip(program.nodes, arrays, strict=True):
        if n.kind in ("leaf", "const"):
            if v.dtype.kind not in "biu" and not _is_real(v):
                return False
        elif n.kind != "op" or (n.mark is not None and n.index in alone):
            return False
        elif v.dtype.kind in "biu":
            if not _is_decision(n):
                return False
        elif not _is_real(v):
            return False
        elif not smooth.get(n.prim):
            if not (_is_smooth(n) or _is_fixed(n)):
                return False
            smooth[n.prim] = n.prim.kind == "elementwise" and _is_smooth(n)
    return _takes_gradients_once(program, set(alone))


def _takes_gradients_once(program: Program, alone: set[int]) -> bool:
    """Whether the gradients that a program itself takes are those of functions of its sources, without gradients.

    Their cotangents are constants, and each is by one node.
    """
    marked = [n for n in program.nodes if n.mark is not None]
    if not marked:
        return True
    varying = set(alone)
    for n in program.nodes:
        if not varying.isdisjoint(n.inputs):
            varying.add(n.index)
    numbers, seen = {n.index for n in marked}, set[tuple[int, int]]()
    inside: dict[int, bool] = {}
    for n in marked:
        mark = n.mark
        assert mark is not None
        if mark.form != "gradient" or not varying.isdisjoint(mark.cotangents):
            return False
        by = mark.sources[mark.which]
        if len(by) != 1 or by[0] not in alone or (mark.key, by[0]) in seen:
            return False
        seen.add((mark.key, by[0]))
        if mark.key not in inside:
            inside[mark.key] = numbers.isdisjoint(program.ancestors(mark.targets))
        if not inside[mark.key]:
            return False
    return True


def _is_real(v: Any) -> bool:
    return v.dtype.kind == "f" and v.dtype.itemsize in (4, 8)


def _is_smooth(n: Node) -> bool:
    """Whether an op has a derivative by one formula at each point, away from the kinks of an elementwise op."""
    prim = n.prim
    return (
        prim.differentiable
        and prim.kind in ("elementwise", "linear", "general")
        and not (prim.rounding.eliminates or prim.missing or prim.roles & _CHOOSING)
        and not (prim.kind == "general" and (prim.kinks or (prim.selects and not is_linear(n, n.active))))
        and has_mirror(prim.name)
        and (prim.kind != "elementwise" or prim.name in SCALARS)
    )


def _is_fixed(n: Node) -> bool:
    """Whether the value of an op has no derivative and no jumps, such as zeros with the shape of its input."""
    prim = n.prim
    return (
        not (n.active or prim.differentiable or prim.kinks or prim.missing or prim.roles & _CHOOSING)
        and prim.kind == "general"
        and has_mirror(prim.name)
    )


def _is_decision(n: Node) -> bool:
    """Whether an op decides truth values or indices, which are constants away from ties."""
    prim = n.prim
    return not (n.active or prim.differentiable or prim.roles - {"comparison"}) and has_mirror(prim.name)


_CHOOSING = {"selection", "cut", "conversion", "decision", "stop", "comparison"}


def _made(program: Program, arrays: list[Any]) -> Structure:
    varying = {nodes[0] for nodes in program.sources}
    given = {n.index for n in program.nodes if n.kind in ("leaf", "const")}
    ops: list[Op] = []
    kinds: dict[Any, Kind] = {}
    known: dict[Any, int] = {}  # the first node with a dtype and shape, as a quick key
    alike = [known.setdefault((v.dtype, v.shape), i) for i, v in enumerate(arrays)]
    for n, v, own in zip(program.nodes, arrays, alike, strict=True):
        if n.kind == "op" and v.dtype.kind == "f":
            inputs, active = n.inputs, n.active
            moving = tuple([a for a in active if inputs[a] in varying])
            if moving:
                varying.add(n.index)
            params = (*n.params, *map(id, n.params.values())) if n.params else None
            key = n.prim, params, active, moving, tuple([alike[j] for j in inputs]), own
            kind = kinds.get(key)
            if kind is None:
                layouts = tuple([make_layout(arrays[j].dtype, arrays[j].shape) for j in inputs])
                kind = kinds[key] = Kind(n, moving, layouts, v.shape)
            ops.append(Op(n.index, inputs, given.issuperset(inputs), kind))
    return Structure(ops, program, arrays)


def shaped(v: Any, shape: tuple[int, ...]) -> Any:
    """The array itself; raises `Apart` if it has another shape."""
    if v.shape != shape:
        raise Apart
    return v


def cut(flat: Any, shapes: list[tuple[int, ...]]) -> list[Any]:
    """Arrays of given shapes from one flat list of all their numbers."""
    ends = list(itertools.accumulate([math.prod(s) for s in shapes], initial=0))
    return [flat[a:b].reshape(s) for a, b, s in zip(ends, ends[1:], shapes, strict=False)]
