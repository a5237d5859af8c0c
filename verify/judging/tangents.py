"""Tangent: compares the tangent that forward mode returned with the exact one, from jets of the mirrors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from gtape.symbolic.balls import finite_ball, objects
from gtape.symbolic.program import Program
from gtape.verify.bounds.inputs import moved_tangent
from gtape.verify.bounds.noise import RUNS, coarsest, reached_from, spreads
from gtape.verify.bounds.real_moves import RealMoves
from gtape.verify.causes.blame import culprits
from gtape.verify.causes.customs import faulty_along, faulty_forwards, innermost, only_rounded
from gtape.verify.causes.whole_function import lie_between_sides
from gtape.verify.judging.comparison import Causes, Comparison, Told, Wrong
from gtape.verify.judging.forward import ForwardOracle, check_tangents_locally, noisy_tangent, terms_of_tangent
from gtape.verify.judging.judgement import Judgement, Suspect, terms_within, to_blame
from gtape.verify.oracles.certificates import Failure, certify_marks
from gtape.verify.oracles.enclosures import BALLS, jet_world, turned
from gtape.verify.oracles.oracle import Oracle, TooDeep
from gtape.verify.verdicts.ulp import ROUNDINGS
from gtape.verify.verdicts.verdict import Cause, Finding, Report

__all__ = ["Tangent"]

_BY_ROUNDING = frozenset({"cancellation", "conditioning"})


class Tangent(Judgement):
    """The judgement of the tangent of a program's only output.

    Parameters
    ----------
    tangents : list of arrays
        The direction, one array for each source.
    got : array or None
    """

    excuses_bases = True
    by_source = False

    def __init__(self, program: Program, tangents: list[Any], got: Any) -> None:
        super().__init__(program, [got])
        self.tangents = tangents
        self.only = program.ancestors(program.outputs)
        self.dtype = np.asarray(program.nodes[program.outputs[0]].output).dtype

    def oracle(self) -> Oracle:
        return ForwardOracle(self.program, [None])

    def directions(self) -> dict[int, list[Any]]:
        pairs = zip(self.program.sources, self.tangents, strict=True)
        return {i: [objects(BALLS.lift(t))] for nodes, t in pairs for i in nodes}

    def way(self) -> list[Any] | None:
        return [objects(BALLS.lift(t)) for t in self.tangents]

    def jets(self, oracle: Oracle) -> dict[int, Any]:
        return oracle.jets(1, self.directions(), self.only, None, (self.program.session,))

    def by_primals(self, oracle: Oracle) -> Any:
        """The tangent of the output, by jets of the primals of inner gradients."""
        only = oracle.needed(self.program.outputs)
        given = oracle.exact_marks(self.directions(), only)
        return self.along(oracle.jets(1, self.directions(), only, given, (self.program.session,)))

    def along(self, env: dict[int, Any]) -> Any:
        """The tangent of the output, from its jets."""
        exact = objects(jet_world(1).component(env[self.program.outputs[0]], 1))
        # Conjugate first, because a comparison conjugates complex numbers, which gradients need and tangents do not.
        return turned(exact) if self.dtype.kind == "c" else exact

    def shapes(self) -> list[tuple[int, ...] | None]:
        return [self.program.nodes[i].shape for i in self.program.outputs]

    def derivative(self, oracle: Oracle) -> list[Any]:
        return [self.along(self.jets(oracle))]

    def beside(self, oracle: Oracle) -> list[Any]:
        return [self.by_primals(oracle)]

    def certified(self, oracle: Oracle, report: Report) -> tuple[list[Any], list[Failure]]:
        env = self.jets(oracle)
        sessions = (self.program.session,)
        failures = certify_marks(oracle, 1, self.directions(), env, self.only, sessions=sessions)
        if failures and self._only_rounded(oracle, failures):
            failures = []
        exact = self.along(env)
        if not all(map(finite_ball, exact.ravel().tolist())):
            raise ArithmeticError("the tangent is not finite")
        return [exact], failures

    def _only_rounded(self, oracle: Oracle, failures: list[Failure]) -> bool:
        """Whether constants of custom gradients that are rounded explain all failures, as in reverse mode.

        The bounds then judge the tangent.
        """
        try:
            small = only_rounded(self.backwards(oracle), failures, ROUNDINGS)
        except ArithmeticError:  # the gradient may be undecided where the tangent is known
            return False
        return all(f.error <= small for f in failures)

    def backwards(self, oracle: Oracle) -> Oracle:
        """An oracle of the gradient at the point of a forward oracle, after its replay."""
        program = self.program
        made = Oracle(program, [np.ones_like(np.asarray(program.nodes[i].output)) for i in program.outputs])
        made.env, made.flips, made.read = oracle.env, oracle.flips, oracle.read
        made.broken, made.elsewhere = oracle.broken, oracle.elsewhere
        made.replay()
        return made

    def at(self, report: Report, degenerate: list[str]) -> None:
        super().at(report, degenerate)
        report.findings = [g for f in report.findings for g in (self._lost() if f.verdict == "unconnected" else [f])]
        self._accept_conventions(report)
        self._name_excused(report)

    def _name_excused(self, report: Report) -> None:
        """Name the wrong custom gradients behind numbers that roundings would excuse.

        The exact tangent goes through the bodies of custom gradients, and what a body loses by rounding is no excuse
        for a gradient that the body does not have.
        """
        excused = [f for f in report.findings if f.verdict in _BY_ROUNDING and f.element and f.element[0] == 0]
        if not excused or self.crossed or not any(n.kind == "custom" for n in self.program.nodes):
            return
        oracle = self._oracle()
        wrong = faulty_along(oracle, self.jets(oracle), self.only)
        kinked = {n.index for n in self.at_kinks(oracle, [node for node, _ in wrong])}
        for node, why in innermost(oracle, [w for w in wrong if w[0].index not in kinked], lambda w: w[0]):
            (reached,) = reached_from(self.nudged, self.dtype, {node.index, *node.body})
            for f in excused:
                if f in report.findings and (reached is None or reached[f.element[1]]):
                    shown = {k: getattr(f, k) for k in ("element", "got", "exact", "ulps", "digits", "count")}
                    report.findings[report.findings.index(f)] = Finding(
                        "rule", order=self.order, at=node, reason=why, **shown
                    )

    def _lost(self) -> list[Finding]:
        """The findings for a missing tangent: the custom gradients that lose it, or one without an op."""
        oracle, order = self._oracle(), self.order
        named = innermost(oracle, faulty_forwards(oracle, among=set(self.only)), lambda found: found[0])
        if not named:
            reason = "the accumulator found no path to this result, but its tangent is not zero"
            return [Finding("unconnected", order=order, reason=reason)]
        return [Finding("unconnected", order=order, at=node, reason=why) for node, why in named]

    def _accept_conventions(self, report: Report) -> None:
        """Accept tangents that custom gradients make by conventions of their own at kinks of their bodies.

        As in reverse mode, the custom gradients must be right beside the point, and the tangent must lie between the
        one-sided derivatives of the function as a whole.
        """
        wrong, (got,) = [f for f in report.findings if not f.ok], self.got
        if not wrong or got is None or not np.isfinite(got).all() or self.dtype.kind == "c":
            return
        oracle = self._oracle()
        customs = [node for node, _ in faulty_forwards(oracle)]
        named = {(node.name, node.line) for node in customs}
        if any(f.verdict != "rule" or (f.op, f.line) not in named for f in wrong):
            return
        try:
            if not self.all_meet_kinks(oracle, customs) or not self.all_may_be_conventions(oracle, customs):
                return
            if not lie_between_sides(self.sides(), [np.asarray(got)], lambda: self.bounds(RUNS)):
                return
        except (ArithmeticError, ValueError, TypeError, IndexError):  # the function may make other shapes beside
            return
        reason = "the tangent lies between the one-sided derivatives of the function as a whole"
        conventions = [
            Finding("convention", order=self.order, op=f.op, line=f.line, count=f.count, inside=True, reason=reason)
            for f in wrong
        ]
        report.findings = [f for f in report.findings if f.ok] + conventions

    def bounds(self, runs: int) -> list[Any] | None:
        return spreads(self.nudged, coarsest(self.program), runs)

    def nudged(self, world: Any) -> list[Any]:
        return [noisy_tangent(self.program, self.tangents, world)]

    def moving(self, oracle: Oracle, start: dict[int, Any], number: int) -> list[Any]:
        return [moved_tangent(oracle, start, self.directions(), self.only)]

    def terms(self) -> list[Any]:
        def made() -> list[Any]:
            world = jet_world(1)
            found = [v for v in self.jets(self._oracle()).values() if not isinstance(v, tuple)]
            return [world.component(v, 1) for v in found if v is not None and np.asarray(v).dtype == object]

        return terms_within(self.program, terms_of_tangent(self.program, self.tangents, self._oracle().env), made)

    def local(self, exact: dict[int, Any]) -> list[Finding]:
        return check_tangents_locally(self.program, self.tangents, exact)

    def suspects(self, oracle: Oracle, wrong: Wrong) -> list[Suspect]:
        found = [to_blame(self.program, f) for f in check_tangents_locally(self.program, self.tangents, oracle.env)]
        for n, why in faulty_forwards(oracle):  # one node for each name
            same = [m for m in self.program.nodes if m.kind == "custom" and m.name == n.name]
            found.append(Suspect(("rule", why, n.name, n.line), same))
        return found + self.beyond_range(oracle, wrong)

    def otherwise(self) -> Cause:
        way = {n.name: n for n in self.program.nodes if n.kind in ("op", "custom") and n.active}
        reason = "each tangent is right, but together they lose digits that the problem keeps; ops on the way: "
        only = next(iter(way.values())) if len(way) == 1 else None
        who = (None, None) if only is None else (only.name, only.line)
        return ("unstable", reason + ", ".join(sorted(way)), *who)

    def blamed(self, oracle: Oracle, failures: list[Failure]) -> list[Finding]:
        """The findings for wrong inner gradients: the ops to blame, and the exact tangent."""
        shown: list[Finding] = []
        with contextlib.suppress(ArithmeticError, TooDeep):
            exact = self.by_primals(oracle)
            compared = Comparison(self.order, _Unexcused())
            compared.numbers([exact], self.got)
            shown = [f for f in compared.findings if not f.ok]
        where = {k: getattr(shown[0], k) for k in ("element", "got", "exact", "ulps")} if shown else {}
        return [
            Finding("rule", order=self.order, at=node, reason=reason, **where)
            for node, reason in culprits(self.program, self.backwards(oracle), failures)
        ]


class _Unexcused(Causes):
    """Excuses no number."""

    def moved(self, count: int) -> list[Any]:
        return []

    def bounds(self, runs: int) -> list[Any] | None:
        return None

    def flipped(self) -> list[tuple[Cause, list[Any]]]:
        return []

    def by_roundings(self) -> list[tuple[Cause | None, list[Any]]]:
        return []

    def roundings(self) -> int:
        return 0

    def declared(self) -> float:
        return 0.0

    def terms(self) -> list[Any]:
        return []

    def kinked(self) -> bool:
        return True

    def smooth(self) -> bool:
        return False

    def nearby(self, count: int) -> list[Any]:
        return []

    def far(self, count: int) -> list[Any]:
        return []

    def real_moves(self) -> list[RealMoves]:
        return []

    def left(self, s: int, mask: Any, off: Any = None) -> Iterator[tuple[Cause, Any]]:
        return iter(())

    def wrong(self, wrong: Wrong) -> list[Told]:
        return [Told(wrong.mask, "rule", "")]
