"""Finds recomputed functions whose second run, in the backward pass, computes other numbers than the first one."""

from __future__ import annotations

import numpy as np

from gtape import nest
from gtape.recording.undoing import repeating
from gtape.symbolic.program import Program, Recomputed
from gtape.verify.verdicts.verdict import Finding, Report

__all__ = ["name_second_runs"]


def name_second_runs(program: Program, report: Report, order: int) -> None:
    """Name a recomputed function that differs from run to run as the cause of wrong numbers.

    The gradient then belongs to the numbers of the second run, so that no op explains its distance from the exact one.
    Findings about wrong rules stay, because they compare no numbers of the gradient.
    """
    if report.ok:
        return
    by_numbers = [f for f in report.findings if not f.ok and f.element is not None]
    wrong = [f for f in by_numbers if f.verdict != "rule" or f.op is None]
    if not wrong:
        return
    for r in program.recomputed:
        if r.call is not None and _differs(r):
            first = wrong[0]
            found = Finding(
                "rule", order=order, op=r.name, line=r.line, element=first.element, got=first.got, exact=first.exact,
                ulps=first.ulps, count=sum(f.count for f in wrong),
                reason=f"the backward pass runs {r.name} again, and the second run computes other numbers than the "
                "first, by random draws or by a state that changes: the gradient belongs to the second run",
            )  # fmt: skip
            found.instead = (
                "draw the random numbers outside of the recomputed function and pass them as an argument, or draw them "
                "from a seed that is an argument (gtape.random.stateless_uniform)"
            )
            found.without_witness = f"a single op shows no fault: {r.name} differs from run to run"
            report.findings = [found, *[f for f in report.findings if f not in wrong]]
            return


def _differs(r: Recomputed) -> bool:
    """Whether another run gives other numbers."""
    function, args, kwargs = r.call
    try:
        with repeating():
            made = nest.flatten(function(*args, **kwargs)[0])
    except Exception:
        return False
    known = r.output if isinstance(r.output, tuple) else (r.output,)
    values = [np.asarray(getattr(t, "_value", t)) for t in made]
    return not all(
        np.array_equal(v, k, equal_nan=np.asarray(k).dtype.kind in "fc") for v, k in zip(values, known, strict=True)
    )
