"""Checks rows of a derivative together, because the rows differ only in the cotangent of the program's output.

The first row is checked by itself, with all ops and rules of the program. If it is right, and no kink or tie is near,
one sweep with an axis of rows in front gives the exact numbers of the other rows. Rows with a number that neither the
roundings of the ops nor the problem itself explain are left to be checked one by one. Rows whose exact numbers are not
known well enough go on together to the next precision, as a single row does.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from gtape.base.quiet import quietly
from gtape.engine.worlds import COMPLEX
from gtape.recording.record import off
from gtape.symbolic.balls import numbers_shared, objects
from gtape.symbolic.program import Node, Program
from gtape.verify.bounds.inputs import moved_values
from gtape.verify.bounds.noise import coarsest, noisy_values, rounded_by, spreads
from gtape.verify.bounds.terms import (
    TermWorld,
    finite_errors,
    sizes_of,
    values_with_errors,
    with_error,
    without_error,
)
from gtape.verify.causes.advice import explain
from gtape.verify.causes.ends import SHARED
from gtape.verify.judging.comparison import Comparison
from gtape.verify.judging.examine import Gradient, Rows
from gtape.verify.judging.judgement import first_bits, precisions_of
from gtape.verify.judging.ladder import climb
from gtape.verify.oracles.backward import Algebra, backward, by_rule
from gtape.verify.oracles.certificates import certify_rows
from gtape.verify.oracles.enclosures import BALLS, jet_world
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.oracles.replay import Shared
from gtape.verify.verdicts.ulp import widest
from gtape.verify.verdicts.verdict import Report

__all__ = ["examined"]

_MOST = 2**18  # numbers of a program, times rows, that are held at once

Row = tuple[Any, list[Any], list[Any]]


def examined(rows: Rows, program: Program, some: list[Row], *, locally: bool) -> Iterator[tuple[Any, Report]]:
    """Examine the rows of one program.

    Parameters
    ----------
    some : list of (place, seeds, got)
        As for `Rows.examine`.
    locally : bool
        Whether to check every op and rule by itself with the first row, too.

    Yields
    ------
    place, report
        One place may stand for several rows, without findings of other rows.
    """
    (place, seeds, got), *rest = some
    first = rows.examine(program, seeds, got, locally=locally)
    yield place, first
    known = first.coverage.get("bits", 0)  # up to these bits, a row was checked by itself
    precisions = sorted({first_bits(program), *precisions_of(program)})
    together = rest and first.ok and known >= precisions[0] and _is_plain(program, got)
    for bits in precisions if together else ():
        if rest and bits > known:
            place, seeds, got = rest.pop(0)
            alone = rows.examine(program, seeds, got, locally=False)
            known = alone.coverage.get("bits", 0)
            yield place, alone
        if len(rest) < 2 or bits > known or not rows.shared.calm:
            break
        left, rest, whole = rest, [], True
        for part, made in _blocks(program, left, rows, bits):
            if made is None:
                whole, rest = False, rest + part
                continue
            yield from made.reports
            rest += made.blurred
            for place, seeds, got in made.open:
                yield place, rows.examine(program, seeds, got, locally=False)
        if not whole:
            break
    for place, seeds, got in rest:
        yield place, rows.examine(program, seeds, got, locally=False)


class _Made(NamedTuple):
    """The reports on the rows of a block with harmless numbers, and the other rows: those that are open, and those
    whose exact numbers need more bits.
    """

    reports: list[tuple[Any, Report]]
    open: list[Row]
    blurred: list[Row]


def _blocks(program: Program, some: list[Row], rows: Rows, bits: int) -> Iterator[tuple[list[Row], _Made | None]]:
    """Check rows block by block at one precision; after a block that decides nothing, the rest comes without a check.

    Yields
    ------
    rows : list
    made : _Made or None
    """
    step = max(2, _MOST // max(1, program.size))
    for start in range(0, len(some), step):
        part = some[start : start + step]
        block = Block(program, part, rows)
        made = None if block.open else block.reports(bits)
        if made is None:
            yield some[start:], None
            return
        yield part, made


def _is_plain(program: Program, got: list[Any]) -> bool:
    """Whether a program has one output, ops of one result alone, and real numbers alone."""
    if len(program.outputs) != 1 or any(g is None for g in got):
        return False
    for n in program.nodes:
        if n.kind not in ("leaf", "const", "op") or isinstance(n.output, tuple):
            return False
        v = np.asarray(n.output)
        if v.dtype.kind not in "fbiu" or (v.dtype.kind == "f" and not np.isfinite(v).all()):
            return False
    return True


class Block(Gradient):
    """The judgement of several rows at once.

    Parameters
    ----------
    some : list of (place, seeds, got)
    rows : Rows
        The object that examined the first row of the program.
    """

    def __init__(self, program: Program, some: list[Row], rows: Rows) -> None:
        self.some, self.rows = some, rows
        seeds = np.stack([np.asarray(seeds[0]) for _, seeds, _ in some])
        got = [np.stack(column) for column in zip(*[got for _, _, got in some], strict=True)]
        super().__init__(program, [seeds], got, locally=False, shared=rows.shared)
        self.run: list[Any] | None = None

    def reports(self, bits: int) -> _Made | None:
        """What is decided about the rows with some bits; None if nothing is, and more bits do not help."""

        def attempt(_: int, degenerate: list[str]) -> tuple[_Made | None]:
            made = self._reports(bits)
            if made is None and not degenerate and self.program.size <= SHARED:
                with numbers_shared():  # because two results of one computation may be tied
                    made = self._reports(bits)
            return (None if degenerate else made,)

        with off(), quietly():
            try:
                found, said = climb(self.program, self.order, attempt, (bits,))
            except Exception:  # a rule that does not take the axis; check row by row
                return None
        if found is None:
            return _Made([], [], self.some)
        return None if said is not None else found[0]

    def _reports(self, bits: int) -> _Made | None:
        self.last = oracle = self.oracle()
        oracle.shared = self.shared
        oracle.evaluate_once()
        sweep = _Sweep(BALLS, oracle.env, self.program)
        exact = sweep.gradient(objects(BALLS.lift(self.seeds[0])))
        shapes = [None if e is None else e.shape for e in exact]
        if shapes != [g.shape for g in self.got] or not certify_rows(oracle, self.seeds[0], exact):
            return None
        oracle.made = sweep.kept
        compared = Comparison(self.order, self)
        plainly = [self.rows.as_plain(seeds, got) for _, seeds, got in self.some]
        left, blurred = compared.rows(exact, self.got, np.array([p is False for p in plainly]))
        explain(self.program, Report(findings=compared.findings))
        whole, done = Report(), int(np.count_nonzero(~left))
        found = [(self.some[0][0], whole)]
        whole.checked, whole.max_ulp, whole.used = compared.checked, compared.worst, oracle.used()
        whole.coverage = {
            "ops": done * sum(n.kind == "op" for n in self.program.nodes),
            "rules": done * len(sweep.kept),
            "bits": bits,
            "plain": sum(p is not None for p, open_ in zip(plainly, left.tolist(), strict=True) if not open_),
        }
        for f in compared.findings:
            assert f.element is not None
            s, (row, *index) = f.element
            f.element = s, tuple(index)
            found.append((self.some[row][0], Report(findings=[f])))
        open_ = left & ~blurred
        return _Made(found, self._among(open_), self._among(blurred))

    def _among(self, mask: Any) -> list[Row]:
        return [row for row, one in zip(self.some, mask.tolist(), strict=True) if one]

    # -- questions of the comparison, with an axis of rows in front

    def derivative(self, oracle: Oracle) -> list[Any]:
        return _Sweep(BALLS, oracle.env, self.program).gradient(objects(BALLS.lift(self.seeds[0])))

    def moving(self, oracle: Oracle, start: dict[int, Any], number: int) -> list[Any]:
        world = jet_world(1)
        made = _Sweep(world, moved_values(oracle, start, number), self.program).gradient(
            objects(BALLS.lift(self.seeds[0]))
        )
        return [world.component(objects(g), 1) for g in made]

    def nudged(self, world: Any) -> list[Any]:
        made = _NoisySweep(world, noisy_values(self.program, world), self.program).gradient(world.lift(self.seeds[0]))
        return [None if g is None else widest(g) for g in made]

    def bounds(self, runs: int) -> list[Any] | None:
        return spreads(self.nudged, coarsest(self.program), runs)

    def terms(self) -> list[Any]:
        oracle = self._oracle()
        if any(n.prim is not None and n.prim.kind == "implicit" for n in self.program.nodes):
            return []  # the terms of a row are then at most its largest number; see `terms_within`
        kept = (oracle.shared or Shared()).get

        def run(world: TermWorld) -> list[Any]:
            values = kept("values with errors", lambda: values_with_errors(self.program, world))
            return _TermSweep(world, values, self.program).gradient(widest(self.seeds[0]))

        return sizes_of(run, oracle.env)

    def moved_element(self, s: int, place: tuple[int, ...]) -> float:
        row, *index = place
        seeds, got = self.some[row][1:]
        alone = Gradient(self.program, seeds, got, locally=False, shared=self.shared)
        alone.last = alone.oracle()
        alone.last.env = self._oracle().env
        return alone.moved_element(s, tuple(index))

    def followed(self, s: int) -> tuple[Any, float] | None:
        told = None if self.shared is None or self.shared.ops is None else self.shared.ops.follows(s)
        if told is None:
            return None
        if self.run is None:
            values = {n.index: np.asarray(n.output) for n in self.program.nodes}  # as in the row checked first
            self.run = _Sweep(COMPLEX, values, self.program).gradient(self.seeds[0])
        return self.run[s], told[1]


class _Sweep(Algebra):
    """The arithmetic of a sweep with an axis of rows in front, in any world.

    Parameters
    ----------
    values : dict
        Node -> its value in the world.
    """

    kept: dict[int, tuple[Any, list[Any]]]

    def __init__(self, world: Any, values: dict[int, Any], program: Program) -> None:
        self.world, self.values, self.program = world, values, program
        self.kept = {}

    def rule(self, node: Node, g: Any) -> list[Any]:
        xs, y, like = [self.values[j] for j in node.inputs], self.values[node.index], self.like(node)
        if node.prim.partials is not None or node.prim.batched:
            return by_rule(self.world, node, g, y, xs, like, batch=True)
        each = [by_rule(self.world, node, g[k], y, xs, like) for k in range(g.shape[0])]
        return [None if cs[0] is None else self.world.stack(*cs, axis=0) for cs in zip(*each, strict=True)]

    def like(self, node: Node) -> list[Any]:
        """The inputs of a node whose shapes and dtypes a rule may read."""
        return [self.program.nodes[j].output for j in node.inputs]

    def gradient(self, seeds: Any) -> list[Any]:
        """The rows of the gradient by each source."""
        found = backward(self.program, {self.program.outputs[0]: seeds}, self, self.program.session)
        made: list[Any] = []
        for nodes in self.program.sources:
            parts = [found[i] for i in nodes if i in found]
            made.append(reduce(self.add, parts) if parts else None)
        return made


class _NoisySweep(_Sweep):
    """As `_Sweep`, with each sum of cotangents and each result of a rule rounded with noise."""

    def add(self, a: Any, b: Any) -> Any:
        return self.world.rounded(a + b)

    def rule(self, node: Node, g: Any) -> list[Any]:
        return rounded_by(self.world, node, super().rule(node, g))


class _TermSweep(_Sweep):
    """As `_Sweep`, over values with errors."""

    def like(self, node: Node) -> list[Any]:
        return [without_error(self.values[j]) for j in node.inputs]

    def rule(self, node: Node, g: Any) -> list[Any]:
        return [None if c is None else finite_errors(c) for c in super().rule(node, with_error(g))]
