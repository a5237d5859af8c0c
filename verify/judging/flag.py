"""The checks that `GradientTape(verify=True)` and `ForwardAccumulator` call."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import numpy as np

from gtape.base.collector import collector_delayed
from gtape.base.deadline import OutOfTime, within
from gtape.base.own_files import level_of_user
from gtape.base.quiet import quiet, quietly
from gtape.base.verification import Options, is_sampled
from gtape.recording.record import off
from gtape.symbolic.build import build
from gtape.symbolic.program import Program
from gtape.tensors.indexed_slices import IndexedSlices
from gtape.verify.causes.advice import explain
from gtape.verify.causes.branches import branches_met
from gtape.verify.causes.misfits import misfits
from gtape.verify.judging.connected import depth_of, order_of, without_idle_targets
from gtape.verify.judging.examine import Rows
from gtape.verify.judging.left import Left, any_seeds
from gtape.verify.judging.progress import shown
from gtape.verify.judging.returns import Returns
from gtape.verify.judging.tangents import Tangent
from gtape.verify.verdicts.collect import note, note_left_out
from gtape.verify.verdicts.verdict import Finding, Report

__all__ = [
    "UndecidedWarning", "VerificationWarning", "check_batch_jacobian", "check_gradient", "check_jacobian", "check_jvp",
    "check_shapes", "conclude", "examined",
]  # fmt: skip

_LONG = 1000  # nodes of a program whose check spends much of its time in the garbage collector


class VerificationWarning(UserWarning):
    """A gradient is not the exact one, but the options let it pass."""


class UndecidedWarning(VerificationWarning):
    """A gradient could not be checked."""


def check_gradient(
    session: Any,
    targets: list[Any],
    start: Any,
    sources: list[Any],
    results: list[Any],
    *,
    mode: Any,
    stops: frozenset[int] = frozenset(),
) -> None:
    """Check a gradient under the flag before it is returned.

    Parameters
    ----------
    mode : True, "strict" or Options

    Raises
    ------
    VerificationError
        If a number is wrong and the options make this an error.
    """
    followed = [t for t in targets if t._layout.inexact]
    pairs = list(zip(followed, [g._value for _, g in start], strict=True))
    _check(session, pairs, sources, [_raw(r) for r in results], [...], mode, stops)


def check_jacobian(session: Any, target: Any, sources: list[Any], results: list[Any], *, mode: Any) -> None:
    """Check a Jacobian under the flag before it is returned: each row is one gradient."""
    rows = shown(np.ndindex(*target._layout.shape), math.prod(target._layout.shape), "checking a Jacobian exactly")
    _check(session, [(target, None)], sources, [_raw(r) for r in results], rows, mode)


def check_batch_jacobian(session: Any, target: Any, source: Any, result: Any, *, mode: Any) -> None:
    """Check a batch_jacobian under the flag before it is returned: each column of all rows is one gradient."""
    columns = ((slice(None), *index) for index in np.ndindex(*target._layout.shape[1:]))
    _check(session, [(target, None)], [source], [_raw(result)], columns, mode)


def check_shapes(session: Any, targets: list[Any], sources: list[Any], *, mode: Any) -> None:
    """Say, under the flag, why a gradient could not be computed.

    Raises
    ------
    VerificationError
        If a custom gradient has another shape than its input, and the options let this raise.
    """
    with off(), quietly():
        program = build([(t._record, t._value) for t in targets], sources, session)
        report = Report(findings=misfits(program, order_of(program)))
    conclude(report, Options.of(mode), 0.0)


@quiet
def check_jvp(session: Any, primals: list[Any], tangents: list[Any], target: Any, got: Any, *, mode: Any) -> None:
    """Check a tangent under the flag before it is returned.

    Parameters
    ----------
    session : Session
        Session of the accumulator.
    primals, tangents : lists of tensors
        The inputs and the direction.
    target : tensor
    got : tensor or None
        The tangent of the target.
    mode : True, "strict" or Options

    Raises
    ------
    VerificationError
        If a number is wrong and the options make this an error.
    """
    options = Options.of(mode)
    if not is_sampled(options):
        note_left_out()
        return

    with off():
        left = Left(session, primals, [target])

        def made(returns: Returns) -> Any:
            return without_idle_targets([(target, None)], primals, session, returns=returns)

        program, _ = made(left.returns())
        if not program.outputs and got is None:
            return  # as in reverse mode, because nothing is differentiated
        if not program.outputs:  # a tangent of an unconnected target: compare it with zero
            program = build([(target._record, target._value)], primals, session)

    def check(report: Report) -> None:
        report.extend(Tangent(program, [np.asarray(t._value) for t in tangents], _raw(got)).examine())
        explain(program, report, forward=True)
        report.findings += branches_met(session, primals, order_of(program))
        _add_returns(report, left, program, [None], lambda returns: made(returns)[0], options)

    _run(check, program, options)


@quiet  # once for all parts, because each `quietly` costs as much as an op
def _check(
    session: Any,
    pairs: list[tuple[Any, Any]],
    sources: list[Any],
    results: list[Any],
    places: Iterable[Any],
    mode: Any,
    stops: frozenset[int] = frozenset(),
) -> None:
    """Check rows of a derivative, each as a gradient.

    Parameters
    ----------
    pairs : list of (target, cotangent)
        None as cotangent stands for ones at the place of a row, and zeros elsewhere.
    results : list of arrays or None
        The derivative by each source; each row is a part of these arrays.
    places : iterable of indices
        The places of the rows.
    mode : True, "strict" or Options
    """
    options = Options.of(mode)
    if not is_sampled(options):
        note_left_out()
        return

    with off():
        left = Left(session, sources, [t for t, _ in pairs], stops)

        def made(returns: Returns) -> Any:
            return without_idle_targets(pairs, sources, session, stops, returns)

        program, cotangents = made(left.returns())

    def check(report: Report) -> None:
        values = [np.asarray(program.nodes[i].output) for i in program.outputs]
        all_rows = Rows()
        for place in places:
            seeds = [_ones_at(v, place) if c is None else c for c, v in zip(cotangents, values, strict=True)]
            rows = [None if r is None else r[place] for r in results]
            report.extend(all_rows.examine(program, seeds, rows, locally=not report.checked))
        report.name_sources(sources)
        report.findings += branches_met(session, sources, order_of(program))
        _add_returns(report, left, program, cotangents, lambda returns: made(returns)[0], options)

    _run(check, program, options)


def _add_returns(
    report: Report,
    left: Left,
    program: Program,
    cotangents: list[Any],
    widened: Callable[[Returns], Program],
    options: Options,
) -> None:
    """Add findings about values that left the tape before the targets; None as cotangent stands for all rows."""
    if not left:
        return
    seeds = [r if c is None else c for r, c in zip(any_seeds(program), cotangents, strict=True)]
    findings, open_ = left.findings(program, seeds, widened, strict=options.strict)
    report.findings += findings
    if open_:
        report.coverage["left"] = open_
    left.add_parted(report, order_of(program))


def _run(check: Callable[[Report], None], program: Program, options: Options) -> None:
    """Run one check within its budget; raise for wrong numbers, and warn of others.

    Parameters
    ----------
    check : callable
        Adds its results to a report.
    program : Program
        The program to check; left out if its order is higher than that of the options.
    options : Options
    """
    if options.order is not None and depth_of(program) > options.order:
        return
    delay = collector_delayed() if len(program.nodes) > _LONG else nullcontext()
    with off(), delay:
        report, seconds = examined(check, options, order_of(program))
    conclude(report, options, seconds)


def examined(check: Callable[[Report], None], options: Options, order: int) -> tuple[Report, float]:
    """The report of one check and the seconds that it took; a check beyond its budget is undecided.

    Parameters
    ----------
    check : callable
        Adds its results to a report.
    options : Options
    order : int
        The order of the derivative, for the finding of a check beyond its budget.
    """
    report, begin = Report(), time.perf_counter()
    try:
        with within(options.budget):
            check(report)
    except OutOfTime:
        if options.budget is None:  # the limit of a block around this check
            raise
        reason = f"the check was not finished within its budget of {options.budget:g} s"
        report.findings.append(Finding("undecided", order=order, reason=reason))
    return report, time.perf_counter() - begin


def conclude(report: Report, options: Options, seconds: float) -> None:
    """Give a report to the collections; raise an error for findings that fail by the options, and warn about the
    others.

    Parameters
    ----------
    report : Report
    options : Options
    seconds : float
        The time that the check took.

    Raises
    ------
    VerificationError
        If a finding fails.
    """
    if options.digits is not None:
        report.ask_for_digits(options.digits)
    report.sort()
    note(report, seconds, [f for f in report.findings if f.fails(options.fail_on, strict=options.strict)])
    report.raise_if_failed(strict=options.strict, fail_on=options.fail_on)
    for f in report.findings:
        if f.verdict == "undecided":
            warnings.warn(f"gtape could not decide a gradient: {f}", UndecidedWarning, stacklevel=level_of_user())
        elif not f.ok:
            text = f"a gradient is not the exact one, but the options let it pass: {f}"
            warnings.warn(text, VerificationWarning, stacklevel=level_of_user())


def _ones_at(value: Any, place: Any) -> Any:
    """An array like `value` with ones at a place and zeros elsewhere."""
    made = np.zeros_like(value)
    made[place] = 1
    return made


def _raw(result: Any) -> Any:
    if result is None:
        return None
    return np.asarray((result._as_tensor() if isinstance(result, IndexedSlices) else result)._value)
