"""The short way through a check: the exact gradient of an ordinary program whose ops and rules are all right.

Ordinary are programs of smooth ops on real numbers, away from kinks, with decisions away from ties, without custom
gradients. They may take gradients, but none of gradients. Nothing but numbers can be wrong there, so that the check is
a list of comparisons: the value and the rule of each op with the exact ones at its recorded inputs, the replay with the
jets of the mirrors, and each gradient that the program takes with jets of the function behind it. If all agree, the
full check finds nothing either. Otherwise the full check decides and explains.

A training loop checks one program thousands of times, with other numbers. So data that depend only on the structure of
a program are computed once and kept.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from flint import arb

from gtape.base.deadline import tick
from gtape.symbolic.balls import filled, mapped, objects
from gtape.symbolic.program import Program
from gtape.verify.bounds.excess import rounded
from gtape.verify.bounds.local import Floats, Local, finite
from gtape.verify.bounds.local_in_floats import is_long
from gtape.verify.bounds.noise_world import MovedWorld
from gtape.verify.causes.choices import decides_at_ties
from gtape.verify.causes.conventions import kinks_met
from gtape.verify.judging.comparison import Distances, distances
from gtape.verify.judging.straight import Place, Straight, straight_of
from gtape.verify.judging.structure import BENDS, JETS, Apart, Inner, Op, Structure, cut, shaped, structure_of
from gtape.verify.oracles.certificates import Direction
from gtape.verify.oracles.enclosures import (
    BALLS,
    at_zeros,
    bands,
    certainly_not_0,
    directions,
    disagreement,
    magnitude,
)
from gtape.verify.oracles.enclosures import inner as inner_product
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.oracles.replay import Shared, decided_anew
from gtape.verify.verdicts.verdict import Report

__all__ = ["Apart", "Checked", "Straightly", "checked"]

_LONG = 2048  # programs with more ops keep nothing that can be computed again
# The factor by which a direction along exact zeros is longer than the others, because then an element that is not 0
# makes a huge term.
_HUGE, _LONG_TERM = arb(2) ** 2**40, arb(2) ** 2**39
_NOTHING = arb(0)
_UNIT = arb(2) ** -61  # random directions are integers of this size
_MOST_OPS = 64  # programs with more ops are checked op by op together, by their kind


def checked(program: Program, seeds: list[Any], *, locally: bool = True) -> Checked | None:
    """The exact gradient of a program, at the precision in force; None if the full check has to decide.

    Parameters
    ----------
    seeds : list of arrays or None
        Cotangent of each output.
    locally : bool
        Whether to check every op and rule by itself, too; if not, only for programs that take gradients.
    """
    takes_gradients = any(n.mark is not None for n in program.nodes)
    if not (locally or takes_gradients):
        return None
    if program.blocked(program.session) or any(c is None for c in seeds):
        return None
    if not takes_gradients and not all(map(np.all, seeds)):
        return None
    arrays = [np.asarray(n.output) for n in program.nodes if not isinstance(n.output, tuple)]
    structure = structure_of(program, arrays) if len(arrays) == len(program.nodes) else None
    if structure is None:
        return None
    for inner in structure.inner:
        mark = program.nodes[inner.members[0][0]].mark
        assert mark is not None
        if not program.blocked(mark.session).keys().isdisjoint([op.number for op in inner.inside]):
            return None
    try:
        straight = None if takes_gradients else straight_of(structure)
        if straight is not None:
            return Straightly(straight, structure, program, arrays, seeds)
        return Checked(structure, program, arrays, seeds, locally=locally)
    except Exception:  # an open comparison, or a rule of a wrong shape: the full check finds out
        return None


class Checked:
    """The exact gradient of an ordinary program whose ops and rules are right; raises if one is not, beyond doubt.

    Attributes
    ----------
    gradient : list of arrays
        The exact gradient by each source.
    used : dict
        As for `Report`.
    rules : int
        The number of ops whose rules ran.
    given : list of arrays
        The cotangents, as they were given.
    way : array or None
        The random direction of all sources, if it was needed.
    tangents : dict
        Node -> its exact tangent along `way`, for all nodes that move.
    answers : dict
        The answers to comparisons with this gradient, as for `Comparison`.
    """

    gradient: list[Any]
    used: dict[tuple[str, int], int]
    rules: int
    way: Any = None
    tangents: dict[int, Any]

    def __init__(
        self, structure: Structure, program: Program, arrays: list[Any], seeds: list[Any], *, locally: bool = True
    ) -> None:
        self.structure, self.program, self.arrays = structure, program, arrays
        self.with_ops = locally
        self.given, self.answers = seeds, dict[Any, Any]()
        self.recorded: dict[int, Any] = {}
        self._ops: Local | None = None
        self._in_floats: list[Any] = []
        self.seeds = [
            c if np.shape(c) == arrays[i].shape else np.broadcast_to(c, arrays[i].shape)
            for i, c in zip(program.outputs, map(np.asarray, seeds), strict=True)
        ]
        self.check()

    def check(self) -> None:
        """Compare all numbers."""
        self.lift(self.structure.given)
        if self.structure.kinked and kinks_met(self.program, self._with_values(), 1):
            raise Apart
        self.decide()
        self.used, self.rules = {}, 0
        made: dict[int, tuple[Any, list[Any]]] = {}
        short = len(self.structure.ops) <= _LONG

        def told(op: Op, g: Any, cs: list[Any]) -> None:
            self.rules += 1
            self._use(op, cs)
            if short:
                made[op.number] = g, cs

        self.gradient = self.structure.replay(BALLS, self.exact, self.cotangents, told)
        if short:
            self.made = made
        for inner in self.structure.inner:  # whose rules take part, too
            for name, longest in [used for op in inner.inside for used in op.kind.used]:
                self.used[name] = max(self.used.get(name, 1), longest)
        self.certify()
        if self.with_ops:
            self.locally()

    @cached_property
    def exact(self) -> dict[int, Any]:
        """Node -> its exact value."""
        values = dict(self.recorded)
        self.structure.evaluate(values)
        return values

    @cached_property
    def cotangents(self) -> list[Any]:
        """The exact cotangents of the outputs."""
        return _lifted(self.seeds)

    @cached_property
    def made(self) -> dict[int, tuple[Any, list[Any]]]:
        """Node -> (the exact cotangent that arrived, those of the node's active inputs)."""
        made: dict[int, tuple[Any, list[Any]]] = {}

        def told(op: Op, g: Any, cs: list[Any]) -> None:
            made[op.number] = g, cs

        self.structure.replay(BALLS, self.exact, self.cotangents, told)
        return made

    def decide(self) -> None:
        """Compare the decisions with the decisions of the exact numbers; none may be at a tie."""
        for i in self.structure.decisions:
            node = self.program.nodes[i]
            if not np.array_equal(decided_anew(node, [self.exact[j] for j in node.inputs]), self.arrays[i]):
                raise Apart
        if self.structure.decisions and decides_at_ties(self.program, self._with_values()):
            raise Apart

    def _use(self, op: Op, cs: list[Any]) -> None:
        """Note a rule that took part, with the length of its longest sum."""
        for (name, longest), c in zip(op.kind.used, cs, strict=True):
            if c is None or (name in self.used and self.used[name] >= longest):
                continue  # nothing new
            if any(map(_NOTHING.__ne__, objects(c).ravel().tolist())):
                self.used[name] = max(1, longest)

    def _with_values(self) -> Oracle:
        made = Oracle(self.program, self.seeds)
        made.env = self.exact
        return made

    def _swept(self) -> Floats:
        """The sweep in floats."""
        sweep = Floats(self.program, self.arrays)
        live = [v[()] for v in self.arrays]
        self._in_floats = self.structure.in_floats(live, [c[()] for c in self.seeds], sweep)
        return sweep

    def moved_in_floats(self, world: MovedWorld) -> list[Any]:
        """The gradient in float64 in a world of moved inputs."""
        return self.structure.moved_in_floats(self.arrays, self.seeds, world.moves_by_node)

    def oracle(self) -> Oracle:
        """An oracle with the exact values, after its replay."""
        made = self._with_values()
        made.made = self.made
        return made

    def follows(self, s: int) -> tuple[Any, float] | None:
        """As `Local.follows`, for ops and rules that are within their bounds; None if they were not checked."""
        if not self.with_ops:
            return None
        if self.structure.added is not None and self._in_floats:
            return self._in_floats[s], self.structure.added
        if self._ops is None:
            self._ops = Local(self.program, self.exact, self.arrays)
            self._ops.gradient = self._in_floats
        return self._ops.follows(s)

    def share(self, shared: Shared) -> None:
        """Keep what the other rows of a derivative need."""
        shared.calm = True
        if self.with_ops:
            shared.ops = self._ops
        if "exact" not in self.__dict__ or len(self.structure.outputs) > 1:
            return
        shared.get("values", lambda: (self.exact, []))
        (output,) = self.structure.outputs
        if output in self.tangents and not any(bands(g).any() for g in self.gradient):
            ways = cut(self.way, [g.shape for g in self.gradient])
            made = {output: JETS.jet(self.exact[output], self.tangents[output])}
            shared.get(Direction, lambda: Direction(ways, made))

    def report(self) -> Report:
        """A report without findings."""
        count = len(self.structure.ops) + len(self.structure.decisions)
        report = Report(coverage={"ops": count, "rules": self.rules})
        report.used = dict(self.used)
        return report

    def distances(self, got: list[Any]) -> list[Distances]:
        """The distances of the arrays of a gradient."""
        found: dict[int, Distances] = {}
        for dtype in {g.dtype for g in got}:
            some = [s for s, g in enumerate(got) if g.dtype == dtype]
            e, g = [np.concatenate([of[s].ravel() for s in some]) for of in (self.gradient, got)]
            shapes = [got[s].shape for s in some]
            # Scalars stay NumPy's numbers, whose arithmetic takes a tenth of the time of arrays without axes.
            parts = zip(*[cut(part, shapes) if any(shapes) else part for part in distances(e, g)], strict=True)
            found.update(zip(some, map(Distances._make, parts), strict=True))
        return [found[s] for s in range(len(got))]

    def lift(self, nodes: list[int]) -> None:
        """Lift the recorded values of some nodes."""
        floating = [i for i in nodes if self.arrays[i].dtype.kind == "f"]
        self.recorded.update(zip(nodes, [self.arrays[i] for i in nodes], strict=True))
        self.recorded.update(zip(floating, _lifted([self.arrays[i] for i in floating]), strict=True))

    def moved(self, start: dict[int, Any]) -> list[Any]:
        """The first-order move of the gradient when inputs move, as `bounds.inputs.moved_gradient` gives it.

        Parameters
        ----------
        start : dict
            Input -> its move.
        """
        values = dict(self.exact)
        for i, move in start.items():
            values[i] = JETS.jet(values[i], move)
        self.structure.move(values, set(start))
        made = [JETS.component(g, 1) for g in self.structure.replay(JETS, values, self.cotangents)]
        if not all(e.is_finite() for t in made for e in t.ravel().tolist()):
            raise Apart
        return made

    def certify(self) -> None:
        """Compare the gradient with the jets of the mirrors in a random direction."""
        flat = np.concatenate([g.ravel() for g in self.gradient])
        way = mapped(arb, directions(flat.shape, self.structure.rng, like=flat))
        still = at_zeros([way], [flat])
        inner = self.structure.inner
        if not inner and still is not None and self._agrees(objects(way + _HUGE * still[0]), flat):
            return
        if not self._agrees(way, flat):
            raise Apart
        tangents = self.tangents
        for one in inner:
            self._certify_inner(one, tangents)
        if still is not None and certainly_not_0(self._along(mapped(arb, still[0]))[0]):
            raise Apart
        self.way, self.tangents = way, tangents if inner and len(self.structure.ops) <= _LONG else {}

    def _agrees(self, way: Any, flat: Any) -> bool:
        """Whether the gradient and the mirrors certainly give one derivative along a direction.

        Terms of the long part of a direction would hide the others, even if they cancel in the end.
        """
        along, scale = self._along(way)
        try:
            return bool(scale < _LONG_TERM) and not disagreement(
                inner_product(way, flat), along, scale + magnitude(way, flat)
            )
        except ArithmeticError:
            return False

    def _certify_inner(self, inner: Inner, tangents: dict[int, Any]) -> None:
        """Compare an inner gradient and its tangent with the jets of its function, in one random direction more.

        Parameters
        ----------
        tangents : dict
            The tangents of all nodes that move with the sources of the program.
        """
        exact, rng = self.exact, self.structure.rng
        made = [(exact[i], tangents.get(i)) for i, _ in inner.members]
        sizes: dict[tuple[bytes, ...], list[Any]] = {}
        if sum(g.size for g, _ in made) == 1:
            sizes[()] = [None]
        else:  # numbers of other magnitudes need directions of their own
            for like in ([g for g, _ in made], [g if t is None else objects(t * _UNIT) for g, t in made]):
                sizes.setdefault(tuple([bands(x).tobytes() for x in like]), like)
        for likes in sizes.values():
            ways = {
                s: mapped(arb, directions(exact[s].shape, rng, like=like))
                for (_, s), like in zip(inner.members, likes, strict=True)
            }
            jets = self.structure.bend(inner, exact, tangents, ways)
            for bits in (0, 1):
                expected, along, scale = arb(0), arb(0), arb(0)
                for t, c in zip(inner.targets, inner.cotangents, strict=True):
                    slope, weight = BENDS.component(jets.get(t, exact[t]), bits | 2), exact[c]
                    weight = weight if weight.shape == slope.shape else np.broadcast_to(weight, slope.shape)
                    expected, scale = expected + inner_product(weight, slope), scale + magnitude(weight, slope)
                for (_, s), parts in zip(inner.members, made, strict=True):
                    if parts[bits] is not None:
                        along = along + inner_product(ways[s], parts[bits])
                        scale = scale + magnitude(ways[s], parts[bits])
                if disagreement(along, expected, scale):
                    raise Apart

    def _along(self, way: Any) -> tuple[arb, arb]:
        """The derivative along a direction by the mirrors, and the sum of the magnitudes of its terms.

        Keeps the tangents of all nodes of a program that is short or takes gradients.
        """
        tangents = dict(zip(self.structure.sources, cut(way, [g.shape for g in self.gradient]), strict=True))
        self.tangents = tangents
        keep = bool(self.structure.inner) or len(self.structure.ops) <= _LONG
        self.structure.push(self.exact, tangents, keep=keep)
        along, scale = arb(0), arb(0)
        for i, c in zip(self.program.outputs, self.cotangents, strict=True):
            if i in tangents:
                along, scale = along + inner_product(c, tangents[i]), scale + magnitude(c, tangents[i])
        return along, scale

    def locally(self) -> None:
        """Compare the value and the rule of each op at its recorded inputs."""
        if len(self.structure.ops) > _MOST_OPS or self.structure.inner:
            self._ops = Local(self.program, self.exact, self.arrays)
            if len(self.structure.ops) > _LONG:
                del self.exact
            swept = self._swept()
            self._ops.gradient = self._in_floats
            if self._ops.run(self.seeds, swept):
                raise Apart
            return
        if not finite(*[self.arrays[op.number] for op in self.structure.ops]):
            raise Apart
        sweep = self._swept()
        inside = self._clearly_inside(sweep)
        ops = [op for op in self.structure.ops if op.number not in inside]
        deciding = [j for i in self.structure.decisions for j in self.program.nodes[i].inputs]
        needed = {*deciding, *[j for op in ops for j in op.inputs]}
        self.lift([op.number for op in self.structure.ops if op.number in needed])
        recorded = self.recorded
        if self.structure.decisions:
            local = Local(self.program, recorded, self.arrays)
            local.decisions()
            if local.findings:
                raise Apart
        reached = [op for op in ops if op.number in sweep.kept]
        arrived = [np.asarray(sweep.kept[op.number][0]) for op in reached]
        lifted = dict(zip([op.number for op in reached], _lifted(arrived), strict=True))
        compared: list[_Compared] = []
        values: dict[int, Any] = {}
        rules: dict[int, list[Any]] = {}
        for op in ops:
            tick()
            xs = [recorded[j] for j in op.inputs]
            y = values[op.number] = self.exact[op.number] if op.given else shaped(op.kind.exact(xs), op.kind.shape)
            compared.append(_Compared(op.number, False, self.arrays[op.number], y))
            g = lifted.get(op.number)
            if g is not None:
                exact = rules[op.number] = op.kind.pulled(BALLS, g, y, xs)
                for a, c, e in zip(op.kind.node.active, sweep.kept[op.number][1], exact, strict=True):
                    if c is not None:
                        shape = self.arrays[op.inputs[a]].shape
                        got, e = shaped(np.asarray(c), shape), shaped(objects(e), shape)
                        compared.append(_Compared(op.number, True, got, e))
        places = _not_rounded(compared)
        if not places and not sweep.totals:
            return
        self._within_bounds(places, sweep, values, rules)

    def _clearly_inside(self, sweep: Floats) -> set[int]:
        """The ops with long arrays that are within their bounds by arithmetic of wider floats."""
        inside: set[int] = set()
        long = [op for op in self.structure.ops if is_long(*[self.arrays[j] for j in (op.number, *op.inputs)])]
        if not long:
            return inside
        local = Local(self.program, {}, self.arrays)
        for op in long:
            tick()
            if local.clearly_inside(local.alone(self.program.nodes[op.number], [sweep])):
                inside.add(op.number)
        return inside

    def _within_bounds(
        self, places: list[tuple[int, bool]], sweep: Floats, values: dict[int, Any], rules: dict[int, list[Any]]
    ) -> None:
        """Compare the numbers that are not rounded correctly with their bounds.

        Parameters
        ----------
        places : list of (node, bool)
            The ops, each with whether the rule is meant instead of the value.
        values, rules : dicts
            The exact values and results of rules at the recorded inputs of these ops.
        """
        local = Local(self.program, {}, self.arrays)
        for i, backwards in places:
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


class Straightly(Checked):
    """As `Checked`, by straight-line functions of balls."""

    def __init__(
        self, straight: Straight, structure: Structure, program: Program, arrays: list[Any], seeds: list[Any]
    ) -> None:
        self.straight = straight
        super().__init__(structure, program, arrays, seeds)

    def check(self) -> None:
        self._given = _balls([self.arrays[i] for i in self.structure.given])
        self._seeds = _balls(self.seeds)
        self._made = self.straight.exact(self._given + self._seeds)
        self._values, self._flat = self.straight.parted(self._made)
        self.gradient = self.straight.as_gradient(self._flat)
        self.used, self.rules = self._taken(), len(self.straight.reached)
        self.certify()
        self.locally()

    @cached_property
    def exact(self) -> dict[int, Any]:
        self.lift(self.structure.given)
        return {**self.recorded, **self.straight.as_values(self._values)}

    def _taken(self) -> dict[tuple[str, int], int]:
        """As `used`."""
        found: dict[tuple[str, int], int] = {}
        for (name, longest), start, stop in self.straight.used:
            if any(e != 0 for e in self._made[start:stop]):
                found[name] = max(found.get(name, 1), longest)
        return found

    def moved(self, start: dict[int, Any]) -> list[Any]:
        run = self.straight.moved
        if run is None:
            return super().moved(start)
        made = run([*self._given, *self._seeds, *self.straight.moves(start)])
        if not all(e.is_finite() for e in made):
            raise Apart
        return self.straight.as_gradient(made)

    def moved_apart(self, moves: list[tuple[list[int], int, float]]) -> list[list[Any]]:
        """The first-order moves of the gradient when numbers move one after another; raises without such code.

        Parameters
        ----------
        moves : list of (nodes, number, size)
            For each move the inputs, the place of the number that moves in all of them, and how far.
        """
        if not {i for nodes, _, _ in moves for i in nodes}.issubset(self.structure.given):
            raise Apart
        run = self.straight.moved_apart(tuple([(tuple(nodes), k) for nodes, k, _ in moves]))
        if run is None:
            raise Apart
        made = run([*self._given, *self._seeds, *[arb(size) for _, _, size in moves]])
        if not all(e.is_finite() for e in made):
            raise Apart
        size = len(self._flat)
        return [self.straight.as_gradient(made[k * size : (k + 1) * size]) for k in range(len(moves))]

    def certify(self) -> None:
        flat = filled(self._flat, (len(self._flat),))
        way = mapped(arb, directions(flat.shape, self.structure.rng, like=flat))
        if disagreement(*self._certificate(way)):
            raise Apart
        still = at_zeros([way], [flat])
        if still is not None and certainly_not_0(self._certificate(mapped(arb, still[0]))[1]):
            raise Apart

    def _certificate(self, way: Any) -> list[Any]:
        """The derivatives along a direction by the gradient and by the mirrors, and the size of their terms."""
        return self.straight.certify([*self._given, *self._seeds, *self._values, *self._flat, *way.tolist()])

    def locally(self) -> None:
        sweep, straight = self._swept(), self.straight
        values = [self.arrays[op.number] for op in self.structure.ops]
        kept = [sweep.kept[i] for i in straight.reached]
        exact = straight.local([*self._given, *_balls([*values, *[np.asarray(g) for g, _ in kept]])])
        got = [*values, *[np.asarray(c) for _, cs in kept for c in cs if c is not None]]
        places = _not_rounded_in(got, straight.compared, exact)
        if not places and not sweep.totals:
            return
        rules: dict[int, list[Any]] = {i: [None] * len(cs) for i, (_, cs) in zip(straight.reached, kept, strict=True)}
        for p in straight.compared:
            if p.k is not None:
                rules[p.number][p.k] = filled(exact[p.start : p.stop], p.shape)
        self._within_bounds(places, sweep, straight.as_values(exact[: len(self._values)]), rules)


def _balls(arrays: list[Any]) -> list[Any]:
    """The numbers of arrays as exact balls."""
    flat = np.concatenate([v.ravel() for v in arrays], dtype=np.float64)
    if not np.isfinite(flat).all():
        raise Apart
    return list(map(arb, flat.tolist()))


def _lifted(arrays: list[Any]) -> list[Any]:
    """Arrays of floats as arrays of exact balls."""
    if not arrays:
        return []
    flat = _balls(arrays)
    return cut(filled(flat, (len(flat),)), [v.shape for v in arrays])


class _Compared(NamedTuple):
    """An array of an op's value, or a result of its rule, with the exact array."""

    number: int
    backwards: bool
    got: Any
    exact: Any


def _not_rounded(compared: list[_Compared]) -> list[tuple[int, bool]]:
    """The ops and rules (as in `_within_bounds`) with numbers that differ from the exact ones, correctly rounded."""
    found: dict[tuple[int, bool], None] = {}
    for dtype in {c.got.dtype for c in compared}:
        some = [c for c in compared if c.got.dtype == dtype]
        got = np.concatenate([c.got.ravel() for c in some])
        off = np.flatnonzero(got != rounded(np.concatenate([c.exact.ravel() for c in some]), dtype))
        if off.size:
            whose = np.searchsorted(np.cumsum([c.got.size for c in some]), off, side="right")
            found.update(dict.fromkeys([some[k][:2] for k in np.unique(whose).tolist()]))
    return list(found)


def _not_rounded_in(got: list[Any], places: list[Place], exact: list[Any]) -> list[tuple[int, bool]]:
    """As `_not_rounded`, for exact numbers in one list."""
    high = np.fromiter(map(float, exact), np.float64, len(exact))
    dtypes = {shaped(v, p.shape).dtype for v, p in zip(got, places, strict=True)}
    if len(dtypes) == 1:
        high = high.astype(*dtypes)
    else:
        for v, p in zip(got, places, strict=True):
            high[p.start : p.stop] = high[p.start : p.stop].astype(v.dtype)
    off = np.flatnonzero(np.concatenate([v.ravel() for v in got], dtype=np.float64) != high)
    if not off.size:
        return []
    whose = np.searchsorted([p.stop for p in places], off, side="right")
    return list(dict.fromkeys([(places[k].number, places[k].k is not None) for k in whose.tolist()]))
