"""Runs of users' gradient functions whose ops can run again on other cotangents.

A gradient function may serve for one call only, as one that takes the gradient of a tape without `persistent`, or
empties a list of saved values. Its ops are recorded in this call, and run again in place of the function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.base import late
from gtape.recording.record import PARENTS, SEQ, STEP, TRACE, count, step_of
from gtape.recording.trace import branches_taken, conversions_made
from gtape.recording.undoing import repeating
from gtape.tensors.tensor import Tensor, wrap

__all__ = ["RecordedRun"]


class RecordedRun:
    """One run of a gradient function.

    Parameters
    ----------
    gs : list of Tensor
        The cotangents. Those that outer tapes follow make a run that outer tapes follow, too.
    run : callable
        ``run(gs)`` returns a tensor or None for each input.

    Attributes
    ----------
    gs : list of Tensor
    made : list of Tensor or None
        The results.
    """

    def __init__(self, gs: list[Tensor], run: Callable[[list[Tensor]], list[Any]]) -> None:
        self.gs, self._begun = gs, next(count)
        self._read_before = False  # whether the function read numbers in the run of which this one repeats the ops
        # The tape is kept, because records of a tape that ended are emptied.
        with late.GradientTape(persistent=True, verify=True) as self._tape:
            self._tape._session.adopts = True  # because the function may have kept its inputs in any way
            self._tape.watch([g for g in gs if g._layout.inexact])
            self.made = run(gs)

    def is_of(self, values: list[Any]) -> bool:
        """Whether the cotangents have these values, bit for bit."""
        own = [np.asarray(g._value) for g in self.gs]
        return all(
            a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
            for a, b in zip(own, map(np.asarray, values), strict=True)
        )

    @property
    def can_repeat(self) -> bool:
        """Whether the ops alone make the results for other cotangents.

        They may not if the function read numbers in Python, because it may decide by them, or if it called another
        custom gradient, whose function runs outside of the ops.
        """
        session: Any = self._tape._session
        read = self._read_before or conversions_made(session) or branches_taken(session)
        return not read and self._is_of_ops()

    def apart(self) -> RecordedRun | None:
        """This run once more, for the same cotangents and without outer tapes; None if it called a custom gradient."""
        if not self._is_of_ops():
            return None
        with repeating():
            made = RecordedRun([wrap(g._value) for g in self.gs], self.again)
        made._read_before = not self.can_repeat
        return made

    def _is_of_ops(self) -> bool:
        return all(step_of(r).prim is None or step_of(r).prim.kind != "custom" for r in self._records())

    def again(self, gs: list[Tensor]) -> list[Any]:
        """The results for other cotangents, of a run that can repeat."""
        known: dict[int, Any] = {
            own._record[SEQ]: new for own, new in zip(self.gs, gs, strict=True) if own._record is not None
        }
        for record in self._records():
            inputs = _inputs_of(record)
            if not any(r is not None and known.get(r[SEQ]) is not None for r, _ in inputs):
                known[record[SEQ]] = None  # independent of the cotangents
                continue
            step = step_of(record)
            if step.prim is None:
                known[record[SEQ]] = known[record[PARENTS][SEQ]][step.index]
                continue
            given = [t if r is None or known.get(r[SEQ]) is None else known[r[SEQ]] for r, t in inputs]
            known[record[SEQ]] = step.prim(*given, **step.params)
        return [
            t if t is None or t._record is None or known.get(t._record[SEQ]) is None else known[t._record[SEQ]]
            for t in self.made
        ]

    def _records(self) -> list[Any]:
        """The records of the ops of the run, each after those that it reads. Sequence numbers count down."""
        pending = [t._record for t in self.made if t is not None and t._record is not None]
        found: dict[int, Any] = {}
        while pending:
            record = pending.pop()
            if record[SEQ] in found or record[STEP] is None or record[SEQ] > self._begun:  # a leaf, or an older op
                continue
            found[record[SEQ]] = record
            pending += [r for r, _ in _inputs_of(record) if r is not None]
        return [found[k] for k in sorted(found, reverse=True)]


def _inputs_of(record: Any) -> list[tuple[Any, Any]]:
    """The (record, tensor) pairs that an op read; no tensor for one output of several."""
    if step_of(record).prim is None:
        return [(record[PARENTS], None)]
    trace = record[TRACE]
    return list(zip(trace.origins, trace.inputs, strict=True))
