"""The engine behind check, judge and the flag: is a derivative the exact one?

The order of work: the exact derivative with its certificate, at rising precision; the float result against it, within
the two bounds; and where something is off, a search for the op that is to blame.
"""

from __future__ import annotations

import contextlib
import math
import sys
import warnings
from typing import Any

import numpy as np
from flint import acb, arb

from gtape.base.quiet import quietly
from gtape.recording import record
from gtape.symbolic.balls import Undecided, infinities_as_limits, objects, precision, sides_of_zeros, ties_assumed
from gtape.symbolic.implicit import bases_turned, degenerate_noted
from gtape.symbolic.mirrors import has_mirror
from gtape.symbolic.program import Program
from gtape.tensors.indexed_slices import IndexedSlices
from gtape.verify.bounds.local import check_locally
from gtape.verify.bounds.noise import global_bounds
from gtape.verify.causes.advice import add_advice
from gtape.verify.causes.blame import blame
from gtape.verify.causes.branches import branches_met
from gtape.verify.causes.choices import choices_met
from gtape.verify.causes.customs import least_stable, only_rounded
from gtape.verify.causes.outside import masked_by_infinities, not_differentiable, outside, shown_by
from gtape.verify.causes.witness import add_witnesses
from gtape.verify.judging.chunks import Chunks, chunks_of
from gtape.verify.judging.comparison import ROUNDINGS, Comparison
from gtape.verify.judging.connected import without_idle_targets
from gtape.verify.judging.progress import shown
from gtape.verify.oracles.certificates import certify
from gtape.verify.oracles.oracle import Oracle, TooDeep
from gtape.verify.oracles.replay import Misshapen
from gtape.verify.verdicts.collect import note
from gtape.verify.verdicts.verdict import Cause, Finding, Report

__all__ = ["check_gradient", "check_jacobian", "examine"]

PRECISIONS = (200, 800, 3200)
TIES = 800
_BIG = 20_000  # more numbers than this along a program: no more than 800 bits


# ------------------------------------------------------------------------------------------------ the engine


def examine(program: Program, seeds: list[Any], got: list[Any], *, locally: bool = True) -> Report:
    """Compare numbers that are claimed to be the gradient of a program with the exact ones.

    Parameters
    ----------
    program : Program
    seeds : list of arrays or None
        Cotangent of each output.
    got : list of arrays or None
        What is claimed for each source.
    locally : bool
        Whether to look at every op and rule by itself, too.

    Returns
    -------
    Report
    """
    chunks = chunks_of(program)
    if chunks is not None:
        return _in_chunks(chunks, seeds, got, locally)
    with record.off(), quietly():
        report = _examine(program, seeds, got, locally)
        if report.verdict in ("rule", "unstable"):
            report = _on_a_cut(program, seeds, got, locally) or report
        if not report.ok:
            add_witnesses(program, report)
        add_advice(program, report)
        return report


def _in_chunks(chunks: Chunks, seeds: list[Any], got: list[Any], locally: bool) -> Report:
    """The same, some elements at a time; ends with the first elements that are wrong."""
    program = chunks.program
    report = Report()
    told: dict[Any, Finding] = {}
    with contextlib.closing(shown(chunks.cut(seeds, got), len(chunks), "checking a gradient exactly")) as cut:
        for chunk in cut:
            one = examine(chunk.program, chunk.seeds, chunk.got, locally=locally)
            found, one.findings = one.findings, []
            counted = dict(report.coverage)
            report.extend(one)
            for name in ("ops", "rules", "bits"):  # of the same program each time
                if name in one.coverage:
                    report.coverage[name] = max(counted.get(name, 0), one.coverage[name])
            for f in found:
                chunks.outside(f, chunk.place)
                key = (f.verdict, f.op, f.line, f.order, f.inside, f.element and f.element[0])
                known = told.setdefault(key, f)
                if known is not f and (f.ulps or 0.0) > (known.ulps or 0.0):
                    told[key] = f
            wrong = [f for f in found if not f.ok and f.verdict != "undecided"]  # which only warns: go on
            if wrong:
                if chunk.place.stop < chunks.length:
                    worst = min(wrong, key=lambda f: f.gravity)
                    left = f"what lies beyond row {chunk.place.stop - 1} along axis {chunks.axis} was not looked at"
                    worst.reason += f"; {left}"
                break
    report.findings = list(told.values())
    report.used = chunks.used(report.used)
    if locally:
        with np.errstate(all="ignore"), precision(PRECISIONS[0]):
            for f in check_locally(chunks.rest(), seeds):
                f.order = order_of(program)
                report.findings.append(f)
    return report


def _on_a_cut(program: Program, seeds: list[Any], got: list[Any], locally: bool) -> Report | None:
    """The same check with the sides of a branch cut that zeros with a sign tell; None where that explains nothing."""
    values = [np.asarray(n.output) for n in program.nodes if not isinstance(n.output, tuple)]
    signed = [program.nodes[i].output for n in program.nodes if n.kind == "op" and n.name == "atan2" for i in n.inputs]
    below = any(((y == 0) & np.signbit(y)).any() for y in signed)
    if not below and not any(v.dtype.kind == "c" and ((v.real == 0) | (v.imag == 0)).any() for v in values):
        return None
    with sides_of_zeros():
        report = _examine(program, seeds, got, locally)
    if not report.ok:
        return None
    reason = "on a branch cut: value and derivative are those of the side that the sign of a zero tells"
    report.findings.append(Finding("convention", order=order_of(program), inside=True, reason=reason))
    return report


def order_of(program: Program) -> int:
    return 2 if any(n.mark is not None for n in program.nodes) else 1


def _size(program: Program) -> int:
    return sum(
        int(np.size(n.output)) if not isinstance(n.output, tuple) else sum(map(np.size, n.output))
        for n in program.nodes
    )


def undecidable(program: Program, order: int, among: list[Any] | None = None) -> list[Finding]:
    """What in a program, or among some of its nodes, there is no exact value or derivative for."""
    nodes = program.nodes if among is None else among

    def finding(n: Any, reason: str) -> Finding:
        return Finding("undecided", order=order, op=n.name, line=n.line, reason=reason)

    bodiless = [
        finding(n, f"the body of {n.name} leaves the tape (through .numpy()?): nothing to judge its gradient by")
        for n in nodes
        if n.kind == "custom" and n.prim.declared is None and not _body_connected(program, n)
    ]
    if bodiless:
        return bodiless
    for n in nodes:
        if not isinstance(n.output, tuple) and np.asarray(n.output).dtype.name == "bfloat16":
            reason = "bfloat16 is not checked: its ops run in float32 and are rounded; check the program in float32"
            return [finding(n, reason)]
        if n.kind == "op" and not has_mirror(n.name):
            reason = f"{n.name} has no mirror in gtape.symbolic.mirrors, so there is no exact value to compare with"
            return [finding(n, reason)]
    return []


def _examine(program: Program, seeds: list[Any], got: list[Any], locally: bool) -> Report:
    order = order_of(program)
    report = Report(coverage={"ops": sum(n.kind == "op" for n in program.nodes), "rules": 0})
    report.findings += undecidable(program, order)
    if report.findings:
        return report
    if got and all(g is not None and np.size(g) == 0 for g in got):
        return report  # no number to compare, whatever the value of an empty maximum is
    bad = outside(program, got)
    if bad is not None and masked_by_infinities(program, got):
        with infinities_as_limits():
            limit = _compared(program, seeds, got, order, locally, Report(coverage=dict(report.coverage)))
        if limit.ok or any(f.verdict == "rule" and f.op for f in limit.findings):
            limit.coverage["limits"] = 1
            return limit
    if bad is not None:
        reasons = _degenerate_along(program, seeds)
        if reasons:
            report.findings.append(no_derivative(reasons, order))
            return report
        bad.order = order
        if bad.verdict not in ("range", "unstable"):
            report.findings.append(bad)
            return report
        # What overflows on the way may still come out as IEEE says: because the exact derivative overflows, too.
        inside = _compared(program, seeds, got, order, locally, Report(coverage=dict(report.coverage)))
        if all(f.verdict == "range" for f in inside.findings):
            return inside
        report.findings.append(shown_by(bad, inside.findings))
        return report
    return _compared(program, seeds, got, order, locally, report)


def _compared(program: Program, seeds: list[Any], got: list[Any], order: int, locally: bool, report: Report) -> Report:
    """The comparison itself, at rising precision."""
    undecided: Finding | None = None
    tied: list[Any] = []
    degenerate: list[str] = []
    context: Any
    for bits in PRECISIONS[:2] if _size(program) > _BIG else PRECISIONS:
        report.coverage["bits"] = bits
        oracle = Oracle(program, seeds)
        try:
            # Equal numbers that were computed in two ways overlap at any precision.
            context = ties_assumed() if bits >= TIES else contextlib.nullcontext([])
            with precision(bits), context as tied, degenerate_noted() as degenerate:
                done = _at(program, oracle, seeds, got, order, report, locally, degenerate)
        except Undecided as e:
            undecided = Finding("undecided", order=order, reason=f"a comparison stays open at {bits} bits: {e}")
        except TooDeep as e:
            report.findings.append(Finding("undecided", order=order, reason=str(e)))
            return report
        except Misshapen as e:
            report.findings.append(Finding("rule", order=order, op=e.node.name, line=e.node.line, reason=str(e)))
            return report
        except ArithmeticError as e:
            undecided = Finding("undecided", order=order, reason=f"{e} at {bits} bits")
        else:
            if done is None:
                if tied:
                    report.findings.append(
                        Finding(
                            "convention",
                            order=order,
                            inside=True,
                            reason=f"{len(tied)} pairs of numbers that agree to {bits // 3} bits were taken as ties",
                        )
                    )
                return report
            undecided = done
    assert undecided is not None
    if degenerate:
        undecided = no_derivative(degenerate, order)
    report.findings.append(not_differentiable(program, order) or _without_slope(program, oracle, order) or undecided)
    return report


def _without_slope(program: Program, oracle: Oracle, order: int) -> Finding | None:
    """The finding for an op that has no finite derivative at its exact inputs, where the oracle has values at all."""
    from gtape.verify.causes.float_range import without_slope

    if len(oracle.env) < len(program.nodes) or _size(program) > _BIG:
        return None
    with precision(TIES), ties_assumed(), contextlib.suppress(ArithmeticError):
        found = without_slope(program, oracle)
        if found is not None:
            words, node = found
            return Finding("domain", order=order, op=node.name, line=node.line, reason=words)
    return None


def no_derivative(reasons: list[str], order: int) -> Finding:
    """The finding for what has no derivative, with the reasons."""
    return Finding("domain", order=order, reason="; ".join(reasons))


def _degenerate_along(program: Program, seeds: list[Any]) -> list[str]:
    """Why some outputs of ops along the way are not differentiable, as far as their values can be followed."""
    with precision(TIES), ties_assumed(), degenerate_noted() as reasons, contextlib.suppress(ArithmeticError):
        Oracle(program, seeds).evaluate()
    return list(reasons)


def _depends_on_bases(program: Program, seeds: list[Any], exact: list[Any]) -> bool:
    """Whether a gradient is another one where vectors of equal eigenvalues are chosen in another way."""
    with bases_turned():
        other = Oracle(program, seeds)
        try:
            other.evaluate()
            again = other.replay()
        except Undecided:
            raise
        except ArithmeticError:
            return True
    for a, b in zip(exact, again, strict=True):
        if a is None or b is None:
            if a is not b:
                return True
            continue
        if differ(a, b):
            return True
    return False


def differ(a: Any, b: Any) -> bool:
    """Whether two arrays of balls are not certainly able to be the same numbers."""
    for p, q in zip(objects(a).ravel().tolist(), objects(b).ravel().tolist(), strict=True):
        gap = p - q
        if not (gap.is_finite() and gap.contains(0) if isinstance(gap, (arb, acb)) else gap == 0):
            return True
    return False


def _at(
    program: Program,
    oracle: Oracle,
    seeds: list[Any],
    got: list[Any],
    order: int,
    report: Report,
    locally: bool,
    degenerate: list[str],
) -> Finding | None:
    """The whole check at the precision in force; returns what stays undecided, or None when `report` has it all."""
    from gtape.verify.causes.conventions import kinks_met
    from gtape.verify.causes.float_range import left_the_range

    oracle.evaluate()
    exact = oracle.replay()
    failures = certify(oracle, exact)
    report.used = oracle.used()
    if failures and only_rounded(oracle, ROUNDINGS):
        by_bodies = Oracle(program, seeds, by_bodies=True)
        by_bodies.evaluate()
        exact = by_bodies.replay()
        failures = failures if certify(by_bodies, exact) else []
    if degenerate and (failures or _depends_on_bases(program, seeds, exact)):
        report.findings.append(no_derivative(degenerate, order))
        return None
    if failures:
        report.findings += blame(program, oracle, failures, got, order)
        return None
    compared = Comparison(
        order,
        lambda runs: global_bounds(program, oracle.seeds, got, runs),
        lambda: _cause(program, oracle),
        lambda: left_the_range(program, oracle),
    )
    compared.numbers(exact, got)
    if compared.undecided:
        return Finding(
            "undecided",
            order=order,
            reason=f"{compared.undecided} elements are not enclosed tightly enough at {report.coverage['bits']} bits",
        )
    report.findings += compared.findings
    report.checked += compared.checked
    report.max_ulp = max(report.max_ulp, compared.worst)
    report.coverage["rules"] = len(oracle.made)
    for flipped in oracle.flips:
        report.findings.append(
            Finding(
                "conditioning",
                order=order,
                op=flipped.name,
                line=flipped.line,
                reason=f"rounding decided {flipped.name} otherwise than the exact values do",
            )
        )
    report.findings += kinks_met(program, oracle, order)
    report.findings += choices_met(program, oracle, order, lambda o: o.replay())
    if locally:
        for f in check_locally(program, seeds, oracle.env):
            f.order = order
            report.findings.append(f)
    return None


def _cause(program: Program, oracle: Oracle) -> Cause:
    """The replay is exact, floats are out of bounds: a formula that loses digits, or another branch."""
    from gtape.verify.causes.conventions import flipped_branch
    from gtape.verify.causes.float_range import left_the_range

    flipped = flipped_branch(program, oracle)
    if flipped is not None:
        reason = f"rounding moved {flipped.name} to the other side of its kink"
        return "conditioning", reason, flipped.name, flipped.line
    found = check_locally(program, oracle.seeds)
    if found:
        return found[0].verdict, found[0].reason, found[0].op, found[0].line
    beyond = left_the_range(program, oracle)
    if beyond is not None:
        return beyond
    # Ops lose nothing, a custom gradient may.
    reason = "the rule is right, but its formula loses digits that the problem does not"
    custom = least_stable(oracle) if any(n.kind == "custom" for n in program.nodes) else None
    return ("unstable", reason, None, None) if custom is None else ("unstable", reason, custom.name, custom.line)


def _body_connected(program: Program, node: Any) -> bool:
    inputs = {node.inputs[a] for a in node.active}
    return bool(inputs & set(program.ancestors(node.body)))


# ------------------------------------------------------------------------------------------------ the flag's hook


def _raw(result: Any) -> Any:
    if result is None:
        return None
    if isinstance(result, IndexedSlices):
        result = result._as_tensor()
    return np.asarray(result._value)


def check_gradient(
    session: Any,
    targets: list[Any],
    start: Any,
    sources: list[Any],
    results: list[Any],
    *,
    strict: bool,
    stops: frozenset[int] = frozenset(),
) -> None:
    """What ``GradientTape(verify=True).gradient`` calls before it returns.

    Raises
    ------
    VerificationError
        If a gradient is not the exact one.
    """
    with record.off():
        followed_targets = [t for t in targets if t._aval.inexact]
        values = list(zip(followed_targets, [g._value for _, g in start], strict=True))
        program, seeds = without_idle_targets(values, sources, session, stops)
        raw = [_raw(r) for r in results]
    with quietly():
        report = examine(program, seeds, raw)
        report.name_sources(sources)
        report.findings += branches_met(session, sources, order_of(program))
    settle(report, strict=strict)


def check_jacobian(session: Any, target: Any, sources: list[Any], results: list[Any], *, strict: bool) -> None:
    """The same for ``jacobian``: every row is checked as a gradient."""
    report = Report()
    shape = target._aval.shape
    program, seeds = without_idle_targets([(target, np.zeros(shape, dtype=target._aval.dtype))], sources, session)
    for index in shown(np.ndindex(*shape), math.prod(shape), "checking a Jacobian exactly"):
        rows = [None if r is None else np.asarray(r._value)[index] for r in results]
        report.extend(examine(program, [unit(s, index) for s in seeds], rows, locally=not report.checked))
    report.name_sources(sources)
    report.findings += branches_met(session, sources, order_of(program))
    settle(report, strict=strict)


def unit(zeros: Any, index: tuple[Any, ...]) -> Any:
    """Zeros with ones at an index."""
    made = zeros.copy()
    made[index] = 1
    return made


class UndecidedWarning(UserWarning):
    """A gradient could not be checked."""


def settle(report: Report, *, strict: bool) -> None:
    """Raise for what is wrong, warn for what is undecided."""
    note(report)
    report.raise_if_failed(strict=strict)
    for f in report.findings:
        if f.verdict == "undecided":
            warnings.warn(f"gtape could not decide a gradient: {f}", UndecidedWarning, stacklevel=_level_of_user())


def _level_of_user() -> int:
    """How many frames up, from the caller, gtape's own code ends."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "gtape":
        level, frame = level + 1, frame.f_back
    return level
