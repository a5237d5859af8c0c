"""The verify flag's check of ``batch_jacobian``: each column of all rows at once is one gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.verify.causes.branches import branches_met
from gtape.verify.judging.connected import without_idle_targets
from gtape.verify.judging.examine import examine, order_of, settle, unit
from gtape.verify.verdicts.verdict import Report

__all__ = ["check_batch_jacobian"]


def check_batch_jacobian(session: Any, target: Any, source: Any, result: Any, *, strict: bool) -> None:
    """What ``GradientTape(verify=True).batch_jacobian`` calls before it returns.

    Raises
    ------
    VerificationError
        If a number is not the exact one.
    """
    report = Report()
    shape, dtype = target._aval.shape, target._aval.dtype
    program, seeds = without_idle_targets([(target, np.zeros(shape, dtype=dtype))], [source], session)
    values = np.asarray(result._value)
    for index in np.ndindex(*shape[1:]):
        seed = [unit(s, (slice(None), *index)) for s in seeds]
        report.extend(examine(program, seed, [values[(slice(None), *index)]], locally=not report.checked))
    report.findings += branches_met(session, [source], order_of(program))
    settle(report, strict=strict)
