"""The door from the tape to the checker: what `GradientTape(verify=True)` and `ForwardAccumulator` call."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.verify.causes.branches import branches_met
from gtape.verify.judging.connected import without_idle_targets
from gtape.verify.judging.examine import check_gradient, check_jacobian, examine, order_of, settle, unit
from gtape.verify.judging.tangents import check_jvp
from gtape.verify.verdicts.verdict import Report

__all__ = ["check_batch_jacobian", "check_gradient", "check_jacobian", "check_jvp"]


def check_batch_jacobian(session: Any, target: Any, source: Any, result: Any, *, strict: bool) -> None:
    """Check a batch_jacobian under the flag before it is returned: each column of all rows is one gradient.

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
