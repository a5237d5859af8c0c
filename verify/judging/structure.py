"""The structure of an ordinary program: the data that stay when its numbers change, and the sweeps over it in any
world.

A program is ordinary if it has smooth ops on real numbers only, away from kinks, with decisions away from ties, without
gradients of gradients and without custom gradients. Structures are kept, because a training loop checks one structure
thousands of times.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gtape.base.deadline import tick
from gtape.base.layout import make_layout
from gtape.declare.primitives import CHANGED
from gtape.engine.rules import RuleStep, cotangents
from gtape.engine.worlds import NUMPY
from gtape.symbolic.balls import objects
from gtape.symbolic.mirrors import has_mirror
from gtape.symbolic.mirrors.registry import SCALARS
from gtape.symbolic.program import Node, Program
from gtape.symbolic.scalars import hashable, template
from gtape.symbolic.straight_line import Code, WrittenBalls, WrittenJets
from gtape.verify.bounds.local import Floats, added_terms, declares_much
from gtape.verify.oracles.along import is_linear, multilinear
from gtape.verify.oracles.enclosures import BALLS, jet_world
from gtape.verify.oracles.replay import longest_sum, seed_of
from gtape.verify.verdicts.ulp import ROUNDINGS, widest

__all__ = ["JETS", "Apart", "Kind", "Op", "Structure", "cut", "shaped", "structure_of"]

JETS = jet_world(1)
_MOST_KEPT = 2**14  # nodes of all structures that are kept
_MOST_NODES = 2**12  # structures of longer programs are not kept

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
        An elementwise mirror on arrays of balls, its partial derivatives by the moving arguments, and the mirror on
        arrays of jets.
    """

    def __init__(self, n: Node, moving: tuple[int, ...], layouts: tuple[Any, ...], shape: tuple[int, ...]) -> None:
        self.node = node = Node(-1, "op", None)
        node.prim, node.params, node.active = n.prim, n.params, n.active
        node.step = RuleStep(n.prim, n.active, n.params, None, None)
        self.moving, self.layouts, self.shape = moving, layouts, shape
        self.used = [((n.name, a), longest_sum(n, layouts[a].shape)) for a in n.active]
        self._compile(BALLS, JETS, lambda f, count: f)

    def _compile(self, balls: Any, jets: Any, called: Callable[[Any, int], Any]) -> None:
        self.balls, self.jets = balls, jets
        self.value = self.slopes = self.move = None
        node, count = self.node, len(self.layouts)
        if node.prim.kind != "elementwise":
            return
        mirror = SCALARS[node.prim.name]
        self.value = np.frompyfunc(balls.scalar_function(mirror, count, node.params)[0], count, 1)
        self.move = np.frompyfunc(jets.scalar_function(mirror, count, node.params)[0], count, 1)
        made = template(mirror, count, node.params)
        if self.moving and not made.exponents:
            several = len(self.moving)
            self.slopes = np.frompyfunc(called(made.slopes(self.moving), several), count, several)

    def written(self, code: Code) -> Kind:
        """The kind in worlds whose scalars are pieces of source text."""
        made = copy(self)
        made._compile(WrittenBalls(code), WrittenJets(code), partial(partial, code.calls))
        return made

    def exact(self, xs: list[Any]) -> Any:
        """The exact value of the op at arrays of balls."""
        return objects(self.node.apply(self.balls, xs) if self.value is None else self.value(*xs))

    def along(self, xs: list[Any], tangents: list[Any]) -> Any:
        """The derivative of the mirror along tangents of the moving arguments."""
        if self.slopes is not None:
            slopes = self.slopes(*xs)
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

    def pulled(self, world: Any, g: Any, y: Any, xs: list[Any]) -> list[Any]:
        """The cotangents of the active inputs, by the op's own rule in a world."""
        prim = self.node.prim
        arguments = self.layouts if prim.kind == "linear" and not prim.variadic else tuple(xs)
        return cotangents(world, self.node.step, g, y, arguments, layouts=self.layouts, out_shape=self.shape)


class Op(NamedTuple):
    """An op at its place; `given` is True if all its inputs are inputs of the program, which are known exactly."""

    number: int
    inputs: tuple[int, ...]
    given: bool
    kind: Kind


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
        self.met = 0
        self.straight: Any = None

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
            arrived[j] = objects(arrived[j] + c) if j in arrived else c

        for i, c in zip(self.outputs, seeds, strict=True):
            arrive(i, c)
        for op in reversed(self.ops):
            g = arrived.get(op.number)
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
        terms: dict[int, list[Any]] | None = None if kept is None else kept.terms

        def arrive(j: int, c: Any) -> None:
            if terms is not None:
                terms.setdefault(j, []).append(c)
            arrived[j] = arrived[j] + c if j in arrived else c

        def all_arrived(j: int, g: Any) -> None:
            if kept is None:
                return
            if len(kept.terms[j]) > 2:
                kept.totals[j] = np.asarray(g)
            else:
                del kept.terms[j]  # most sums have two terms, and no caller needs those

        for i, c in zip(self.outputs, seeds, strict=True):
            arrive(i, c)
        for op in reversed(self.ops):
            g = arrived.pop(op.number, None)
            if g is None:
                continue
            all_arrived(op.number, g)
            kind, inputs = op.kind, op.inputs
            if not kind.node.active:
                continue
            tick()
            cs = kind.pulled(NUMPY, g, values[op.number], [values[j] for j in inputs])
            if kept is not None:
                kept.kept[op.number] = g, cs
            for a, c in zip(kind.node.active, cs, strict=True):
                if c is not None:
                    arrive(inputs[a], c)
        for j, g in arrived.items():
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

    def push(self, values: dict[int, Any], tangents: dict[int, Any]) -> None:
        """Add the tangent of each op that moves to those of the sources, by the mirrors."""
        for op in self.ops:
            if op.kind.moving:
                tick()
                ts = [tangents[op.inputs[a]] for a in op.kind.moving]
                tangents[op.number] = shaped(op.kind.along([values[j] for j in op.inputs], ts), op.kind.shape)

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
    return n.kind, n.prim, SCALARS.get(n.prim.name), n.inputs, n.active, params, n.mark is None, v.shape, v.dtype


def _is_ordinary(program: Program, arrays: list[Any]) -> bool:
    """Whether only numbers can be wrong in a program."""
    if not all(v.size for v in arrays):
        return False
    alone = [i for nodes in program.sources for i in nodes]
    if not alone or len(set(alone)) < len(alone) or any(len(nodes) != 1 for nodes in program.sources):
        return False
    if any(program.nodes[i].kind not in ("leaf", "const") or not _is_real(arrays[i]) for i in alone):
        return False
    for n, v in zip(program.nodes, arrays, strict=True):
        if n.kind in ("leaf", "const"):
            if v.dtype.kind not in "biu" and not _is_real(v):
                return False
        elif n.kind != "op" or n.mark is not None:
            return False
        elif v.dtype.kind in "biu":
            if not _is_decision(n):
                return False
        elif not _is_real(v) or not (_is_smooth(n) or _is_fixed(n)):
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
    ops: list[Op] = []
    kinds: dict[Any, Kind] = {}
    for n, v in zip(program.nodes, arrays, strict=True):
        if n.kind == "op" and v.dtype.kind == "f":
            moving = tuple([a for a in n.active if n.inputs[a] in varying])
            if moving:
                varying.add(n.index)
            layouts = tuple([make_layout(arrays[j].dtype, arrays[j].shape) for j in n.inputs])
            key = n.prim, tuple(n.params), *map(id, n.params.values()), n.active, moving, layouts, v.shape
            kind = kinds.get(key)
            if kind is None:
                kind = kinds[key] = Kind(n, moving, layouts, v.shape)
            given = all(program.nodes[j].kind in ("leaf", "const") for j in n.inputs)
            ops.append(Op(n.index, n.inputs, given, kind))
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
