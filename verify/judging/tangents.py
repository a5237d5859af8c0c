"""What the verify flag does for forward mode: a jvp against the jets of the mirrors."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from gtape.base.quiet import quietly
from gtape.recording import record
from gtape.symbolic.balls import Undecided, infinities_as_limits, objects, precision, ties_assumed
from gtape.symbolic.implicit import bases_turned, degenerate_noted
from gtape.symbolic.program import Program, build
from gtape.verify.bounds.noise import spreads
from gtape.verify.causes.advice import add_advice
from gtape.verify.causes.blame import culprits
from gtape.verify.causes.branches import branches_met
from gtape.verify.causes.choices import choices_met
from gtape.verify.causes.customs import faulty_forwards
from gtape.verify.causes.outside import masked_by_infinities, not_differentiable, outside, shown_by
from gtape.verify.judging.comparison import Comparison
from gtape.verify.judging.connected import without_idle_targets
from gtape.verify.judging.examine import PRECISIONS, TIES, differ, no_derivative, order_of, settle, undecidable
from gtape.verify.judging.forward import ForwardOracle, check_tangents_locally, noisy_tangent
from gtape.verify.oracles.certificates import Failure, certify_marks
from gtape.verify.oracles.enclosures import BALLS, jet_world, turned
from gtape.verify.oracles.oracle import Oracle, TooDeep
from gtape.verify.oracles.replay import Misshapen
from gtape.verify.verdicts.verdict import Cause, Finding, Report

__all__ = ["check_jvp"]


def check_jvp(session: Any, primals: list[Any], tangents: list[Any], target: Any, got: Any, *, strict: bool) -> None:
    """Compare one tangent with the exact directional derivative.

    Parameters
    ----------
    session : Session
        Of the accumulator.
    primals, tangents : lists of tensors
        The inputs and the direction.
    target : tensor
        What was asked for.
    got : tensor or None
        Its tangent.
    strict : bool
        Whether what is undecided raises.

    Raises
    ------
    VerificationError
        If it is not the exact one.
    """
    with record.off(), quietly():
        program, _ = without_idle_targets([(target, None)], primals, session)
        if not program.outputs and got is None:
            return  # nothing is differentiated, as in reverse mode
        if not program.outputs:  # a tangent of what no accumulator follows: compare it all the same
            program = build([(target._record, target._value)], primals, session)
        number = None if got is None else np.asarray(got._value)
        report = _Tangent(program, [np.asarray(t._value) for t in tangents], number).examine()
        add_advice(program, report)
        report.findings += branches_met(session, primals, order_of(program))
    settle(report, strict=strict)


class _Tangent:
    """The judgement of one tangent."""

    def __init__(self, program: Program, tangents: list[Any], got: Any) -> None:
        self.program = program
        self.tangents = tangents
        self.got = got
        self.dtype = np.asarray(program.nodes[program.outputs[0]].output).dtype
        self.order = order_of(program)
        self.report = Report(coverage={"ops": sum(n.kind == "op" for n in program.nodes), "rules": 0})

    def examine(self) -> Report:
        report = self.report
        report.findings += undecidable(self.program, self.order)
        if report.findings or (self.got is not None and not np.size(self.got)):
            return report
        bad = outside(self.program, [self.got])
        if bad is not None and masked_by_infinities(self.program, [self.got]):
            with infinities_as_limits():
                limit = self.compared()
            if all(f.ok for f in limit):
                report.findings += limit
                report.coverage["limits"] = 1
                return report
        if bad is None or bad.verdict in ("range", "unstable"):
            report.findings += self.compared()
        # What overflows on the way may still come out as IEEE says: because the exact derivative overflows, too.
        if bad is not None and not (report.findings and all(f.verdict == "range" for f in report.findings)):
            bad.order = self.order
            report.findings = [shown_by(bad, report.findings)]
        return report

    def compared(self) -> list[Finding]:
        """The comparison, at rising precision."""
        undecided: Finding | None = None
        degenerate: list[str]
        for bits in PRECISIONS:
            self.report.coverage["bits"] = bits
            # As in reverse mode: equal numbers that were computed in two ways overlap at any precision.
            ties: Any = ties_assumed() if bits >= TIES else contextlib.nullcontext([])
            with precision(bits), ties as tied, degenerate_noted() as degenerate:
                try:
                    findings = self.at(bits, degenerate)
                except TooDeep as e:
                    return [Finding("undecided", order=self.order, reason=str(e))]
                except Misshapen as e:
                    return [Finding("rule", order=self.order, op=e.node.name, line=e.node.line, reason=str(e))]
                except Undecided as e:
                    reason = f"a comparison stays open at {bits} bits: {e}"
                    undecided = Finding("undecided", order=self.order, reason=reason)
                    continue
                except ArithmeticError as e:
                    undecided = Finding("undecided", order=self.order, reason=f"{e} at {bits} bits")
                    continue
            if tied:
                reason = f"{len(tied)} pairs of numbers that agree to {bits // 3} bits were taken as ties"
                findings.append(Finding("convention", order=self.order, inside=True, reason=reason))
            return findings
        assert undecided is not None
        if degenerate:
            return [no_derivative(degenerate, self.order)]
        return [not_differentiable(self.program, self.order) or undecided]

    def at(self, bits: int, degenerate: list[str]) -> list[Finding]:
        """All findings at the precision in force; raises where that does not decide."""
        from gtape.verify.causes.conventions import kinks_met
        from gtape.verify.causes.float_range import left_the_range

        program = self.program
        oracle = ForwardOracle(program, [None])
        oracle.evaluate()
        directions = {
            i: [objects(BALLS.lift(t))] for nodes, t in zip(program.sources, self.tangents, strict=True) for i in nodes
        }
        only = program.ancestors(program.outputs)
        tapes = (program.session,)
        env = oracle.jets(1, directions, only, None, tapes)
        failures = certify_marks(oracle, 1, directions, env, only, sessions=tapes)
        exact = objects(jet_world(1).component(env[program.outputs[0]], 1))
        if degenerate and (failures or self.depends_on_bases(directions, exact)):
            return [no_derivative(degenerate, self.order)]
        if failures:
            return self.blamed(oracle, directions, only, failures)
        compared = Comparison(
            self.order,
            self.global_bounds,
            lambda: self.cause(oracle),
            lambda: left_the_range(program, oracle),
        )
        # Tangents are not conjugates, as complex gradients are.
        compared.numbers([turned(exact) if self.dtype.kind == "c" else exact], [self.got])
        if compared.undecided:
            raise ArithmeticError(f"{compared.undecided} elements are not enclosed tightly enough")
        self.report.checked = compared.checked
        self.report.max_ulp = compared.worst
        findings = compared.findings
        for f in findings:
            if f.verdict == "unconnected":
                f.element, f.reason = None, "the accumulator found no path to this result, but its tangent is not zero"
        if degenerate and not all(f.ok for f in findings):
            return [no_derivative(degenerate, self.order)]
        for node in oracle.flips:
            reason = f"rounding decided {node.name} otherwise than the exact values do"
            findings.append(Finding("conditioning", order=self.order, op=node.name, line=node.line, reason=reason))
        findings += kinks_met(program, oracle, self.order)
        findings += choices_met(program, oracle, self.order, lambda o: [self.derivative(o, directions)])
        for f in check_tangents_locally(program, self.tangents, oracle.env):
            f.order = self.order
            findings.append(f)
        return findings

    def derivative(self, oracle: Oracle, directions: dict[int, Any]) -> Any:
        """The exact tangent, from an oracle that has all values."""
        only = self.program.ancestors(self.program.outputs)
        env = oracle.jets(1, directions, only, None, (self.program.session,))
        return objects(jet_world(1).component(env[self.program.outputs[0]], 1))

    def depends_on_bases(self, directions: dict[int, Any], exact: Any) -> bool:
        """Whether a derivative is another one where vectors of equal eigenvalues are chosen in another way."""
        program = self.program
        with bases_turned():
            other = ForwardOracle(program, [None])
            other.evaluate()
            env = other.jets(1, directions, program.ancestors(program.outputs), None, (program.session,))
        return differ(exact, jet_world(1).component(env[program.outputs[0]], 1))

    def global_bounds(self, runs: int) -> list[Any]:
        """How far rounding may carry the tangent, by so many noisy runs."""
        return spreads(lambda world: [noisy_tangent(self.program, self.tangents, world)], self.dtype, runs)

    def cause(self, oracle: Oracle) -> Cause:
        """Why the tangent lies beyond its bounds."""
        from gtape.verify.causes.conventions import flipped_branch
        from gtape.verify.causes.float_range import left_the_range

        found = check_tangents_locally(self.program, self.tangents, oracle.env)
        if found:
            return found[0].verdict, found[0].reason, found[0].op, found[0].line
        for culprit, reason in faulty_forwards(oracle):
            return "rule", reason, culprit.name, culprit.line
        node = flipped_branch(self.program, oracle)
        if node is not None:
            return "conditioning", f"rounding moved {node.name} to the other side of its kink", node.name, node.line
        beyond = left_the_range(self.program, oracle)
        if beyond is not None:
            return beyond
        way = {n.name: n for n in self.program.nodes if n.kind in ("op", "custom") and n.active}
        reason = "each tangent is right, but together they lose digits that the problem does not; ops on the way: "
        only = next(iter(way.values())) if len(way) == 1 else None
        who = (None, None) if only is None else (only.name, only.line)
        return ("unstable", reason + ", ".join(sorted(way)), *who)

    def blamed(self, oracle: Oracle, directions: Any, only: list[int], failures: list[Failure]) -> list[Finding]:
        """An inner gradient is not what it should be: by whose fault, and what the tangent should have been."""
        program = self.program
        seeds = [np.ones_like(np.asarray(program.nodes[i].output)) for i in program.outputs]
        backwards = Oracle(program, seeds)
        backwards.evaluate()
        backwards.replay()
        shown: list[Finding] = []
        with contextlib.suppress(ArithmeticError, TooDeep):
            env = oracle.jets(1, directions, only, oracle._exact_marks(directions, only), (program.session,))
            exact = objects(jet_world(1).component(env[program.outputs[0]], 1))
            compared = Comparison(self.order, lambda runs: [None], lambda: ("rule", "", None, None))
            compared.numbers([turned(exact) if self.dtype.kind == "c" else exact], [self.got])
            shown = [f for f in compared.findings if not f.ok]
        where = {k: getattr(shown[0], k) for k in ("element", "got", "exact", "ulps")} if shown else {}
        return [
            Finding(
                "rule",
                order=self.order,
                op=None if node is None else node.name,
                line=None if node is None else node.line,
                reason=reason,
                **where,
            )
            for node, reason in culprits(program, backwards, failures)
        ]
