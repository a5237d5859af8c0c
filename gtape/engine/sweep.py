"""The reverse sweep: cotangents flow from the targets to the sources, the newest record first, without recursion.

`short_sweep` is for the usual case: one tape and no outer tape. This sweep gathers cotangents in the records and,
unless the tape is persistent, empties the records. `gtape.engine.full_sweep` handles all other cases.
"""

from __future__ import annotations

import os
from heapq import heappop, heappush, heappushpop
from typing import Any

import numpy as np

from gtape.base.layout import FLOAT
from gtape.base.locks import Lock
from gtape.engine.rules import RuleStep, inputs_of, output_of
from gtape.engine.whole_calls import InSums
from gtape.engine.worlds import NUMPY, off_python
from gtape.recording import record as record_module
from gtape.recording.record import COT, LEAF, NO_TAPES, OTHER, OUT, PASSES, SEQ, SEVERAL, STEP, Record, step_of

__all__ = ["keeping", "short_sweep"]


def _noting(record: Record, found: dict[int, Any]) -> Any:
    """A function that runs the step of a source that is not a leaf, and notes its cotangent in `found`."""
    step, seq = record[STEP], record[SEQ]

    def note(g: Any, ins: Any, out: Any) -> Any:
        found[seq] = g
        return step(g, ins, out)

    made: Any = note
    made.step = step_of(record)  # sweeps of other threads may use the function as a step
    return made


def _step_in_numpy(record: Record, g: Any) -> Any:
    """The cotangents of a scalar record with NumPy scalars, after Python floats raised an error (1.0 / 0.0)."""
    step = step_of(record)
    if step.layouts is None:
        step = step.on(FLOAT)
    inputs = inputs_of(record, len(step.layouts))
    xs = tuple([a if t is None else off_python(t._value) for t, a in zip(inputs, step.layouts, strict=True)])
    made = step.cotangents(NUMPY, off_python(g), off_python(output_of(record)), xs)
    made = [float(c) if isinstance(c, np.float64) else c for c in made]
    return made[0] if len(made) == 1 else made


class _Keeping:
    """Lets one sweep at a time gather cotangents in records that are kept.

    A single store releases a sweep, because an interrupt may come between any two calls.
    """

    __slots__ = ("_lock", "sweep")

    def __init__(self) -> None:
        self._lock = Lock()
        self.sweep: Any = None  # the running sweep, as a list with its session

    def take(self, sweep: list[Any]) -> bool:
        """Whether the sweep may begin now. A sweep that may begin becomes the running sweep."""
        with self._lock:
            if self.sweep is None:
                self.sweep = sweep
        return self.sweep is sweep

    def locked(self) -> bool:
        """Whether a sweep is running."""
        return self.sweep is not None

    def __enter__(self) -> None:
        self.take([None])

    def __exit__(self, *exc: Any) -> None:
        self.sweep = None

    def forked(self) -> None:
        """Release the sweep after a fork: its thread is gone, and its records may hold stale cotangents."""
        if self.sweep is not None and self.sweep[0] is not None:
            self.sweep[0].shared = True  # leads to the full sweep, which ignores cotangents in records
        self.sweep = None


keeping = _Keeping()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=keeping.forked)


# For more bytes than this, page faults of new memory cost more than the arithmetic.
_LONG = 1 << 17


def _sum_of_leaf(short: set[int], long: set[int], seq: int, old: Any, c: Any, step: Any, place: int) -> Any:
    """The sum of the cotangents of a leaf and of one more cotangent, in the memory of either if both are long.

    Parameters
    ----------
    short, long : set of int
        The numbers of leaves whose cotangents are sums: short sums and long sums. Only the sweep holds such a sum.
    seq : int
        The number of the leaf.
    old : value
    c : value
        The result of `step` at `place`.
    step : step
    place : int
    """
    if old.__class__ is not np.ndarray or c.__class__ is not np.ndarray or old.nbytes < _LONG:
        short.add(seq)
        return old + c
    is_sum = seq in long
    long.add(seq)
    if old.dtype is c.dtype and old.shape == c.shape:
        if is_sum:
            return np.add(old, c, old)
        fresh = getattr(step, "fresh", None)
        if fresh is not None and fresh[place] and c.strides == old.strides:
            return np.add(old, c, c)
    return old + c


def short_sweep(
    seeds: list[tuple[Record, Any]], sources: list[Record], *, keep: bool = False, batch: int | None = None
) -> list[Any]:
    """Cotangents of `sources` in the NumPy world. Empties the records unless `keep`.

    Parameters
    ----------
    seeds : list of (record, cotangent)
        The records that the sweep starts from.
    sources : list of records
        Leaves or interior records, with or without repetitions.
    keep : bool
        Whether the records are kept. If so, the caller holds `keeping`.
    batch : int, optional
        The number of cotangents that each seed stacks along a leading axis; None for one cotangent. This sweep reads no
        number, because the caller asked `gtape.engine.jacobians.takes_rows`. The sweep that stands in for this one
        while a function is traced reads the number.

    Returns
    -------
    list
        One raw cotangent for each source, None if no cotangent arrived.
    """
    # Cotangents by number: those of leaves, and those of other sources, which `_noting` notes.
    leaves: dict[int, Any] = {}
    # The numbers of leaves whose cotangents are sums.
    short: set[int] = set()
    long: set[int] = set()
    nobody = NO_TAPES
    passes = PASSES
    noting: dict[int, tuple[Record, Any, Any, Any]] = {}
    for s in sources:
        if s[STEP] is not None and id(s) not in noting:
            noting[id(s)] = (s, s[STEP], s[OTHER], _noting(s, leaves))
            s[STEP] = noting[id(s)][3]
            if s[OTHER] is passes:
                s[OTHER] = None  # the step has to be called
    heap: list[Record] = []
    for r, g in seeds:
        if r[STEP] is None:  # a leaf, or the result of a tape that was used or reset
            leaves[r[SEQ]] = leaves[r[SEQ]] + g if r[SEQ] in leaves else g
        elif r[COT] is None:
            r[COT] = g
            heappush(heap, r)
        else:
            r[COT] = r[COT] + g
    record = heappop(heap) if heap else None
    g = None
    if record is not None:
        g, record[1] = record[1], None
    try:
        while record is not None:
            try:
                _, _, step, parents, ins, out, _, other = record
            except ValueError:  # forward mode keeps tangents in the record
                step, parents, ins, out = record[STEP : OUT + 1]
                other = record[OTHER]
            if other is passes:
                made, other = g, None
            else:
                try:
                    made = step(g, ins, out)
                except (ArithmeticError, ValueError):
                    if step_of(record).__class__ is not RuleStep:
                        raise  # from a function of the user's, not from Python floats
                    made = _step_in_numpy(record, g)
            if not keep:
                record[2] = record[4] = record[5] = None
                record[3] = ()
                record[6] = nobody
            if other is not None:
                if other is SEVERAL:
                    whole = made.__class__ is InSums
                    if whole:
                        made = made.found(parents, leaves, long, keep=keep)
                    for parent, cotangent in zip(parents, made, strict=True):
                        if cotangent is None:  # of a whole call, some of whose results have no cotangent
                            continue
                        old = parent[1]
                        if old is None:
                            parent[1] = cotangent
                            heappush(heap, parent)
                        elif old is LEAF:
                            seq = parent[0]
                            if seq not in leaves:
                                leaves[seq] = cotangent
                            elif whole:  # as for the ops of the call
                                leaves[seq] = _sum_of_leaf(short, long, seq, leaves[seq], cotangent, step, 0)
                            else:
                                leaves[seq] = leaves[seq] + cotangent
                        else:
                            parent[1] = old + cotangent
                    if not heap:
                        break
                    record = heappop(heap)
                    g = record[1]
                    record[1] = None
                    continue
                if not keep:
                    record[7] = None
                first, made = made
                old = parents[1]
                if old is None:
                    parents[1] = first
                    heappush(heap, parents)
                elif old is LEAF:
                    seq = parents[0]
                    if seq in short:
                        leaves[seq] = leaves[seq] + first
                    elif seq in leaves:
                        leaves[seq] = _sum_of_leaf(short, long, seq, leaves[seq], first, step, 0)
                    else:
                        leaves[seq] = first
                else:
                    parents[1] = old + first
                parents = other
            old = parents[1]
            if old is None:
                if not heap:  # a chain needs no heap: its only open record is the next
                    record = parents
                    g = made
                    continue
                parents[1] = made
                record = heappushpop(heap, parents)
                g = record[1]
                record[1] = None
                continue
            if old is LEAF:
                seq = parents[0]
                if seq in short:
                    leaves[seq] = leaves[seq] + made
                elif seq in leaves:
                    leaves[seq] = _sum_of_leaf(short, long, seq, leaves[seq], made, step, -1)
                else:
                    leaves[seq] = made
            else:
                parents[1] = old + made
            if not heap:
                break
            record = heappop(heap)
            g = record[1]
            record[1] = None
    except BaseException:
        reached = [*heap, record] if record is not None else heap
        if keep:
            for r in reached:
                r[COT] = None
        else:  # empty the records, as a complete sweep does
            record_module.clear_below(reached, spare=False)
        raise
    finally:
        for s, step, other, note in noting.values():
            if s[STEP] is note:  # a kept record, or one not reached
                s[STEP], s[OTHER] = step, other
    return [leaves.get(s[SEQ]) for s in sources]
