"""The short way through a check: the exact gradient of an ordinary program whose ops and rules are all right.

Ordinary are programs of smooth ops on real numbers, away from kinks, without gradients of gradients and custom
gradients. Nothing but numbers can be wrong there, so that the check is a list of comparisons: the value and the rule of
each op with the exact ones at its recorded inputs, and the replay with the jets of the mirrors. If all agree, the full
check finds nothing either. Otherwise the full check decides and explains.

A training loop checks one program thousands of times, with other numbers. What depends on the structure of a program
alone is found once and kept.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
from flint import arb

from gtape.base.deadline import OutOfTime, tick
from gtape.base.layout import make_layout
from gtape.declare.primitives import CHANGED
from gtape.engine.rules import RuleStep, cotangents
from gtape.symbolic.balls import filled, mapped, objects
from gtape.symbolic.mirrors import has_mirror
from gtape.symbolic.mirrors.registry import SCALARS
from gtape.symbolic.program import Node, Program
from gtape.symbolic.scalars import hashable, jet_function, template
from gtape.verify.bounds.local import Floats, Local, rounded
from gtape.verify.causes.conventions import kinks_met
from gtape.verify.judging.comparison import distances
from gtape.verify.oracles.backward import gradient
from gtape.verify.oracles.enclosures import BALLS, directions, disagreement, inner, jet_world, magnitude
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.oracles.replay import longest_sum, seed_of
from gtape.verify.verdicts.verdict import Report

__all__ = ["Apart", "Checked", "checked"]

_MOST_OPS = 64  # programs with more ops are checked op by op together, by their kind
_MOST_KEPT = 256
_MOST_NODES = 1024  # structures of longer programs are not kept
_JETS = jet_world(1)

_kept: dict[Any, _Structure | None] = {}
CHANGED.append(lambda _: _kept.clear())


def checked(program: Program, seeds: list[Any]) -> Checked | None:
    """The exact gradient of a program, at the precision in force; None if the full check has to decide.

    Parameters
    ----------
    seeds : list of arrays or None
        Cotangent of each output.
    """
    if program.blocked(program.session) or not all(c is not None and np.all(c) for c in seeds):
        return None
    arrays = [np.asarray(n.output) for n in program.nodes if not isinstance(n.output, tuple)]
    structure = _structure_of(program, arrays) if len(arrays) == len(program.nodes) else None
    if structure is None:
        return None
    try:
        return Checked(structure, program, arrays, seeds)
    except OutOfTime:
        raise
    except Exception:  # an open comparison, or a rule of a wrong shape: the full check finds out
        return None


class _Kind:
    """What ops have in common that differ in numbers and places only.

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
    value, slopes, jets : callable or None
        An elementwise mirror on arrays of balls, its partial derivatives by the moving arguments, and the mirror on
        arrays of jets.
    """

    def __init__(self, n: Node, moving: tuple[int, ...], layouts: tuple[Any, ...], shape: tuple[int, ...]) -> None:
        self.node = node = Node(-1, "op", None)
        node.prim, node.params, node.active = n.prim, n.params, n.active
        node.step = RuleStep(n.prim, n.active, n.params, None, None)
        self.moving, self.layouts, self.shape = moving, layouts, shape
        self.used = [((n.name, a), longest_sum(n, layouts[a].shape)) for a in n.active]
        self.value = self.slopes = self.jets = None
        if n.prim.kind == "elementwise":
            made = template(SCALARS[n.prim.name], len(layouts), n.params)
            self.value = np.frompyfunc(made.balls, len(layouts), 1)
            self.jets = np.frompyfunc(jet_function(made, 1), len(layouts), 1)
            if moving and not made.exponents:
                self.slopes = np.frompyfunc(made.slopes(moving), len(layouts), len(moving))

    def exact(self, xs: list[Any]) -> Any:
        """The exact value of the op at arrays of balls."""
        return objects(self.node.apply(BALLS, xs) if self.value is None else self.value(*xs))

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
        arguments = list(xs)
        for a, t in zip(self.moving, tangents, strict=True):
            arguments[a] = _JETS.jet(xs[a], t)
        return _JETS.component(self.node.apply(_JETS, arguments), 1)

    def moved(self, xs: list[Any]) -> Any:
        """The value of the op at arrays of jets."""
        connected = self.node.prim.connected
        xs = [_JETS.component(x, 0) if x.dtype == object and not connected(a) else x for a, x in enumerate(xs)]
        return objects(self.node.apply(_JETS, xs) if self.jets is None else self.jets(*xs))

    def pulled(self, world: Any, g: Any, y: Any, xs: list[Any]) -> list[Any]:
        """The cotangents of the active inputs, by the op's own rule in a world."""
        prim = self.node.prim
        arguments = self.layouts if prim.kind == "linear" and not prim.variadic else tuple(xs)
        return cotangents(world, self.node.step, g, y, arguments, layouts=self.layouts, out_shape=self.shape)


class _Op(NamedTuple):
    """An op at its place; `given` tells whether all its inputs are inputs of the program, which are known exactly."""

    number: int
    inputs: tuple[int, ...]
    given: bool
    kind: _Kind


class _Structure(NamedTuple):
    """What depends on the structure of a program alone."""

    ops: list[_Op]
    sources: list[int]
    kinked: bool
    rng: Any


def _structure_of(program: Program, arrays: list[Any]) -> _Structure | None:
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
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        _kept[key] = found
    return found


def _key(n: Node, v: Any) -> Any:
    """What an op or an input is, without its numbers."""
    if n.prim is None:
        return n.kind, v.shape, v.dtype
    params = hashable(tuple(n.params.items())) if n.params else None
    return n.kind, n.prim, SCALARS.get(n.prim.name), n.inputs, n.active, params, n.mark is None, v.shape, v.dtype


def _is_ordinary(program: Program, arrays: list[Any]) -> bool:
    """Whether nothing but numbers can be wrong in a program."""
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
        elif n.kind != "op" or n.mark is not None or not _is_smooth(n.prim) or not _is_real(v):
            return False
    return True


def _is_real(v: Any) -> bool:
    return v.dtype.kind == "f" and v.dtype.itemsize in (4, 8)


def _is_smooth(prim: Any) -> bool:
    """Whether an op has a derivative by one formula at each point, away from the kinks of an elementwise op."""
    return (
        prim.differentiable
        and prim.kind in ("elementwise", "linear", "general")
        and not (prim.rounding.eliminates or prim.missing or prim.roles & _CHOOSING)
        and not (prim.kind == "general" and (prim.kinks or prim.selects))
        and has_mirror(prim.name)
        and (prim.kind != "elementwise" or prim.name in SCALARS)
    )


_CHOOSING = {"selection", "cut", "conversion", "decision", "stop", "comparison"}


def _made(program: Program, arrays: list[Any]) -> _Structure:
    varying = {nodes[0] for nodes in program.sources}
    ops: list[_Op] = []
    kinds: dict[Any, _Kind] = {}
    for n, v in zip(program.nodes, arrays, strict=True):
        if n.kind == "op":
            moving = tuple([a for a in n.active if n.inputs[a] in varying])
            if moving:
                varying.add(n.index)
            layouts = tuple([make_layout(arrays[j].dtype, arrays[j].shape) for j in n.inputs])
            key = n.prim, tuple(n.params), *map(id, n.params.values()), n.active, moving, layouts, v.shape
            kind = kinds.get(key)
            if kind is None:
                kind = kinds[key] = _Kind(n, moving, layouts, v.shape)
            given = all(program.nodes[j].kind in ("leaf", "const") for j in n.inputs)
            ops.append(_Op(n.index, n.inputs, given, kind))
    kinked = any(kind.node.prim.kinks for kind in kinds.values())
    rng = np.random.default_rng(seed_of(program))
    return _Structure(ops, [nodes[0] for nodes in program.sources], kinked, rng)


class Apart(Exception):
    """A number is not right, or the short way cannot tell."""


class Checked:
    """The exact gradient of an ordinary program whose ops and rules are right; raises if one is not, beyond doubt.

    Attributes
    ----------
    exact : dict
        Node -> its exact value.
    made : dict
        Node -> (the exact cotangent that arrived, those of the node's active inputs).
    gradient : list of arrays
        The exact gradient by each source.
    """

    def __init__(self, structure: _Structure, program: Program, arrays: list[Any], seeds: list[Any]) -> None:
        self.structure, self.program, self.arrays = structure, program, arrays
        self.recorded: dict[int, Any] = {}
        self.lift([i for i, n in enumerate(program.nodes) if n.kind != "op"])
        self.exact: dict[int, Any] = {}
        self.made: dict[int, tuple[Any, list[Any]]] = {}
        self._ops: Local | None = None
        self._in_floats: list[Any] = []
        seeds = [np.broadcast_to(c, arrays[i].shape) for i, c in zip(program.outputs, seeds, strict=True)]
        self.given, self.seeds = seeds, _lifted(seeds)
        self.evaluate()
        if structure.kinked and kinks_met(program, self.oracle(), 1):
            raise Apart
        self.gradient = self.replay(BALLS, self.exact, self.made)
        self.certify()
        self.locally(seeds)

    def oracle(self) -> Oracle:
        """An oracle with the exact values, after its replay."""
        made = Oracle(self.program, self.given)
        made.env, made.made = self.exact, self.made
        return made

    @property
    def ops(self) -> Local:
        """The checks of the ops and rules, each of which is within its bound."""
        if self._ops is None:
            self._ops = Local(self.program, self.exact)
            self._ops.gradient = self._in_floats
        return self._ops

    def report(self) -> Report:
        """A report without findings."""
        report = Report(coverage={"ops": len(self.structure.ops), "rules": len(self.made)})
        for op in self.structure.ops:
            if op.number in self.made:
                for used, c in zip(op.kind.used, self.made[op.number][1], strict=True):
                    if c is not None and any(e != 0 for e in objects(c).ravel().tolist()):
                        name, longest = used
                        report.used[name] = max(report.used.get(name, 1), longest)
        return report

    def fits(self, got: list[Any]) -> bool:
        """Whether arrays have the shapes of the gradient."""
        return all(e.shape == g.shape for e, g in zip(self.gradient, got, strict=True))

    def farthest(self, got: list[Any]) -> float | None:
        """The largest distance of a gradient in ULP; None if a number lies beyond the tight bound."""
        worst = 0.0
        for dtype in {g.dtype for g in got}:
            pairs = [(e, g) for e, g in zip(self.gradient, got, strict=True) if g.dtype == dtype]
            e, g = [np.concatenate([pair[k].ravel() for pair in pairs]) for k in (0, 1)]
            _, off, radius, ulps, tight = distances(e, g)
            if not (off + radius <= tight).all():
                return None
            worst = max(worst, float(np.max(ulps)))
        return worst

    def lift(self, nodes: list[int]) -> None:
        """Lift the recorded values of some nodes."""
        floating = [i for i in nodes if self.arrays[i].dtype.kind == "f"]
        self.recorded.update(zip(nodes, [self.arrays[i] for i in nodes], strict=True))
        self.recorded.update(zip(floating, _lifted([self.arrays[i] for i in floating]), strict=True))

    def evaluate(self) -> None:
        """The exact value of each node."""
        exact = self.exact = dict(self.recorded)
        for op in self.structure.ops:
            tick()
            exact[op.number] = _shaped(op.kind.exact([exact[j] for j in op.inputs]), op.kind.shape)

    def replay(self, world: Any, values: dict[int, Any], made: dict[int, Any]) -> list[Any]:
        """The gradient by the tape's own rules in a world, from the values of all nodes there.

        Parameters
        ----------
        made : dict
            Receives node -> (the cotangent that arrived, the cotangents of its active inputs).
        """
        arrived: dict[int, Any] = {}

        def arrive(j: int, c: Any) -> None:
            c = _shaped(objects(c), self.arrays[j].shape)
            arrived[j] = objects(arrived[j] + c) if j in arrived else c

        for i, c in zip(self.program.outputs, self.seeds, strict=True):
            arrive(i, c)
        for op in reversed(self.structure.ops):
            g = arrived.get(op.number)
            if g is not None and op.kind.node.active:
                tick()
                cs = op.kind.pulled(world, g, values[op.number], [values[j] for j in op.inputs])
                made[op.number] = g, cs
                for a, c in zip(op.kind.node.active, cs, strict=True):
                    if c is not None:
                        arrive(op.inputs[a], c)
        return [arrived[i] for i in self.structure.sources]

    def moved(self, start: dict[int, Any]) -> list[Any]:
        """The first-order move of the gradient when inputs move, as `bounds.inputs.moved_gradient` gives it.

        Parameters
        ----------
        start : dict
            Input -> its move.
        """
        values = dict(self.exact)
        moving = set(start)
        for i, move in start.items():
            values[i] = _JETS.jet(values[i], move)
        for op in self.structure.ops:
            if not moving.isdisjoint(op.inputs):
                tick()
                values[op.number] = op.kind.moved([values[j] for j in op.inputs])
                moving.add(op.number)
        made = [_JETS.component(g, 1) for g in self.replay(_JETS, values, {})]
        if not all(e.is_finite() for t in made for e in t.ravel().tolist()):
            raise Apart
        return made

    def certify(self) -> None:
        """Compare the gradient with the jets of the mirrors in a random direction."""
        exact, gradients = self.exact, self.gradient
        flat = np.concatenate([g.ravel() for g in gradients])
        way = mapped(arb, directions(flat.shape, self.structure.rng, like=flat))
        tangents = dict(zip(self.structure.sources, _cut(way, [g.shape for g in gradients]), strict=True))
        for op in self.structure.ops:
            if op.kind.moving:
                tick()
                ts = [tangents[op.inputs[a]] for a in op.kind.moving]
                tangents[op.number] = _shaped(op.kind.along([exact[j] for j in op.inputs], ts), op.kind.shape)
        total, scale, along = inner(way, flat), magnitude(way, flat), arb(0)
        for i, c in zip(self.program.outputs, self.seeds, strict=True):
            if i in tangents:
                along, scale = along + inner(c, tangents[i]), scale + magnitude(c, tangents[i])
        if disagreement(total, along, scale):
            raise Apart

    def locally(self, seeds: list[Any]) -> None:
        """Compare the value and the rule of each op at its recorded inputs."""
        if len(self.structure.ops) > _MOST_OPS:
            self._ops = Local(self.program, self.exact)
            if self._ops.run(seeds):
                raise Apart
            return
        self.lift([op.number for op in self.structure.ops])
        recorded, sweep = self.recorded, Floats(self.program, self.arrays)
        self._in_floats = gradient(self.program, seeds, sweep)
        reached = [op for op in self.structure.ops if op.number in sweep.kept]
        arrived = [np.asarray(sweep.kept[op.number][0]) for op in reached]
        lifted = dict(zip([op.number for op in reached], _lifted(arrived), strict=True))
        compared: list[_Compared] = []
        values: dict[int, Any] = {}
        rules: dict[int, list[Any]] = {}
        for op in self.structure.ops:
            tick()
            xs = [recorded[j] for j in op.inputs]
            y = values[op.number] = self.exact[op.number] if op.given else _shaped(op.kind.exact(xs), op.kind.shape)
            compared.append(_Compared(op.number, False, self.arrays[op.number], y))
            g = lifted.get(op.number)
            if g is not None:
                exact = rules[op.number] = op.kind.pulled(BALLS, g, y, xs)
                for a, c, e in zip(op.kind.node.active, sweep.kept[op.number][1], exact, strict=True):
                    if c is not None:
                        shape = self.arrays[op.inputs[a]].shape
                        got, e = _shaped(np.asarray(c), shape), _shaped(objects(e), shape)
                        compared.append(_Compared(op.number, True, got, e))
        places = _not_rounded(compared)
        if not places and not sweep.totals:
            return
        local = Local(self.program, self.exact)
        for i, backwards in places:  # within their bounds
            task = local.alone(self.program.nodes[i], [sweep])
            task.exact = values[i]
            if backwards:
                for back in task.sweeps:
                    local.rule_with(task, *back, rules[i])
            else:
                local.value(task)
        local.sums(sweep)
        if local.findings:
            raise Apart


def _lifted(arrays: list[Any]) -> list[Any]:
    """Arrays of floats as arrays of exact balls."""
    flat = np.concatenate([v.ravel() for v in arrays], dtype=np.float64)
    if not np.isfinite(flat).all():
        raise Apart
    return _cut(filled(list(map(arb, flat.tolist())), flat.shape), [v.shape for v in arrays])


def _cut(flat: Any, shapes: list[tuple[int, ...]]) -> list[Any]:
    """Arrays of these shapes from all their numbers in a row."""
    ends = list(itertools.accumulate([math.prod(s) for s in shapes], initial=0))
    return [flat[a:b].reshape(s) for a, b, s in zip(ends, ends[1:], shapes, strict=False)]


def _shaped(v: Any, shape: tuple[int, ...]) -> Any:
    if v.shape != shape:
        raise Apart
    return v


class _Compared(NamedTuple):
    """An array of an op's value, or of its rule, beside the exact one."""

    number: int
    backwards: bool
    got: Any
    exact: Any


def _not_rounded(compared: list[_Compared]) -> list[tuple[int, bool]]:
    """The ops, and whether it is their rule, whose numbers are not all the exact ones, correctly rounded."""
    found: dict[tuple[int, bool], None] = {}
    for dtype in {c.got.dtype for c in compared}:
        some = [c for c in compared if c.got.dtype == dtype]
        got = np.concatenate([c.got.ravel() for c in some])
        off = np.flatnonzero(got != rounded(np.concatenate([c.exact.ravel() for c in some]), dtype))
        if off.size:
            whose = np.searchsorted(np.cumsum([c.got.size for c in some]), off, side="right")
            found.update(dict.fromkeys([some[k][:2] for k in np.unique(whose).tolist()]))
    return list(found)
