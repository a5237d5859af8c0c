"""Checks rows of a derivative together, because the rows differ only in the cotangent of the program's output.

The first row is checked by itself, with all ops and rules of the program. If it is right, and no kink or tie is near,
one sweep with an axis of rows in front gives the exact numbers of the other rows. Rows with a number that neither the
roundings of the ops nor the problem itself explain are left to be checked one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gtape.base.quiet import quietly
from gtape.engine.worlds import COMPLEX
from gtape.recording.record import off
from gtape.symbolic.balls import objects, precision
from gtape.symbolic.program import Node, Program
from gtape.verify.bounds.inputs import moved_values
from gtape.verify.bounds.noise import noisy_values
from gtape.verify.causes.advice import explain
from gtape.verify.judging.comparison import Comparison
from gtape.verify.judging.examine import Gradient, Rows
from gtape.verify.judging.ladder import PRECISIONS
from gtape.verify.oracles.backward import Algebra, backward, by_rule
from gtape.verify.oracles.certificates import certify_rows
from gtape.verify.oracles.enclosures import BALLS, jet_world
from gtape.verify.oracles.oracle import Oracle
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
    step = max(2, _MOST // max(1, program.size))
    together = len(rest) > 1 and first.ok and rows.shared.calm and _is_plain(program, got)
    while together and rest:
        part, rest = rest[:step], rest[step:]
        block = Block(program, part, rows)
        made = block.reports() if not block.open and first.coverage.get("bits") == PRECISIONS[0] else None
        if made is None:
            rest = part + rest
            break
        reports, left = made
        yield from reports
        for place, seeds, got in left:
            yield place, rows.examine(program, seeds, got, locally=False)
    for place, seeds, got in rest:
        yield place, rows.examine(program, seeds, got, locally=False)


def _is_plain(program: Program, got: list[Any]) -> bool:
    """Whether all rules of a program take a cotangent with an axis in front, and all its numbers are real."""
    if len(program.outputs) != 1 or any(g is None for g in got):
        return False
    for n in program.nodes:
        if n.kind not in ("leaf", "const", "op") or isinstance(n.output, tuple):
            return False
        if n.active and n.prim.partials is None and not n.prim.batched:
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

    def reports(self) -> tuple[list[tuple[Any, Report]], list[Row]] | None:
        """The reports on the rows whose numbers are harmless, and the indices of the other rows; None if no row is
        decided.
        """
        with off(), quietly(), precision(PRECISIONS[0]):
            try:
                return self._reports()
            except Exception:  # an open comparison, or a rule that does not take the axis; check row by row
                return None

    def _reports(self) -> tuple[list[tuple[Any, Report]], list[Row]] | None:
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
        left = compared.rows(exact, self.got, np.array([p is False for p in plainly]))
        explain(self.program, Report(findings=compared.findings))
        whole, done = Report(), int(np.count_nonzero(~left))
        found = [(self.some[0][0], whole)]
        whole.checked, whole.max_ulp, whole.used = compared.checked, compared.worst, oracle.used()
        whole.coverage = {
            "ops": done * sum(n.kind == "op" for n in self.program.nodes),
            "rules": done * len(sweep.kept),
            "bits": PRECISIONS[0],
            "plain": sum(p is not None for p, open_ in zip(plainly, left.tolist(), strict=True) if not open_),
        }
        for f in compared.findings:
            assert f.element is not None
            s, (row, *index) = f.element
            f.element = s, tuple(index)
            found.append((self.some[row][0], Report(findings=[f])))
        return found, [row for row, open_ in zip(self.some, left.tolist(), strict=True) if open_]

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
        made = _Sweep(world, noisy_values(self.program, world), self.program).gradient(world.lift(self.seeds[0]))
        return [None if g is None else widest(g) for g in made]

    def terms(self) -> list[Any]:
        return []  # rows with zeros beyond the tight bound are left, because terms are not summed by rows

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
            values = {n.index: n.output for n in self.program.nodes}
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
        inputs = node.inputs
        xs, like = [self.values[j] for j in inputs], [self.program.nodes[j].output for j in inputs]
        return by_rule(self.world, node, g, self.values[node.index], xs, like, batch=True)

    def gradient(self, seeds: Any) -> list[Any]:
        """The rows of the gradient by each source."""
        found = backward(self.program, {self.program.outputs[0]: seeds}, self, self.program.session)
        made: list[Any] = []
        for nodes in self.program.sources:
            parts = [found[i] for i in nodes if i in found]
            made.append(sum(parts[1:], parts[0]) if parts else None)
        return made
