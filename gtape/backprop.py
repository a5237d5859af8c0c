"""The reverse sweep: cotangents flow from the targets to the sources, newest record first, without recursion.

`short_sweep` is for the usual case, one tape and no outer one: it gathers cotangents in the records themselves, and
empties each record as it passes if the tape is used up. `gtape.full_sweep` does everything else.
"""

from __future__ import annotations

import os
from heapq import heappop, heappush, heappushpop
from types import FunctionType
from typing import Any

import numpy as np

from gtape import record as record_module
from gtape.aval import aval_of
from gtape.locks import Lock
from gtape.pulls import Pull, cotangents, inputs_of, output_of
from gtape.record import COT, LEAF, NO_TAPES, PULL, SEQ, Record
from gtape.worlds import NUMPY

__all__ = ["Capture", "keeping", "short_sweep"]

_NOTHING = ()


class Capture:
    """Stands in for the pull of a source that is not a leaf, and notes its cotangent on the way.

    Sweeps of other threads may meet one in a record that stays.
    """

    __slots__ = ("cotangent", "pull")

    def __init__(self, pull: Any) -> None:
        self.pull = pull
        self.cotangent: Any = None

    def __call__(self, g: Any, ins: Any, out: Any) -> Any:
        self.cotangent = g
        return self.pull(g, ins, out)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.pull, name)


def _float64(v: Any) -> Any:
    return np.float64(v) if v.__class__ is float else v


def _pull_in_numpy(record: Record, g: Any) -> Any:
    """The backward step of a scalar record with NumPy scalars, for when Python floats raised (1.0 / 0.0)."""
    pull = record[PULL]
    if pull.__class__ is Capture:
        pull = record[PULL] = pull.pull
    ins = inputs_of(record, len(pull.prim.rules))
    avals = pull.avals or tuple(aval_of(0.0) for _ in ins)
    xs = tuple([a if t is None else _float64(t._value) for t, a in zip(ins, avals, strict=True)])
    shape = getattr(pull.out_aval, "shape", ())
    made = cotangents(NUMPY, pull, _float64(g), _float64(output_of(record)), xs, avals=avals, out_shape=shape)
    made = [float(c) if isinstance(c, np.float64) else c for c in made]
    return made[0] if len(made) == 1 else made


class _Keeping:
    """Lets one sweep at a time gather cotangents in records that are there to stay.

    An interrupt may come between any two calls, so the sweep is let go by a store alone, and only its own.
    """

    __slots__ = ("_lock", "sweep")

    def __init__(self) -> None:
        self._lock = Lock()
        self.sweep: Any = None  # of the one, a list with its session

    def take(self, sweep: list[Any]) -> bool:
        """Whether it may begin now; it goes another way otherwise."""
        with self._lock:
            if self.sweep is None:
                self.sweep = sweep
        return self.sweep is sweep

    def locked(self) -> bool:
        """Whether a sweep is going on."""
        return self.sweep is not None

    def __enter__(self) -> None:
        self.take([None])

    def __exit__(self, *exc: Any) -> None:
        self.sweep = None

    def forked(self) -> None:
        """In a child, where the thread that swept is missing: what it left in its records is not to be trusted."""
        if self.sweep is not None and self.sweep[0] is not None:
            self.sweep[0].shared = True  # such a session is swept in the way that needs nothing of the records
        self.sweep = None


keeping = _Keeping()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=keeping.forked)


def short_sweep(seeds: list[tuple[Record, Any]], sources: list[Record], *, keep: bool = False) -> list[Any]:
    """Cotangents of `sources`, in the NumPy world; uses the records up.

    Parameters
    ----------
    seeds : list of (record, cotangent)
        Where the sweep starts.
    sources : list of records
        Leaves or interior records; may repeat.
    keep : bool
        Whether the records stay as they are; the caller was let in by `keeping` then.

    Returns
    -------
    list
        One raw cotangent each, None where nothing arrived.
    """
    captures: dict[int, Capture] = {}
    for s in sources:
        if s[PULL] is not None and s[PULL].__class__ is not Capture:
            captures[id(s)] = s[PULL] = Capture(s[PULL])
    leaves: dict[int, Any] = {}
    heap: list[Record] = []
    for r, g in seeds:
        if r[COT] is LEAF:
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
            _, _, pull, parents, ins, out, _, other = record
            try:
                made = pull(g, ins, out)
            except (ArithmeticError, ValueError):
                if not isinstance(pull.pull if pull.__class__ is Capture else pull, (FunctionType, Pull)):
                    raise  # not a scalar op that Python refused, but something of the user's
                made = _pull_in_numpy(record, g)
            if not keep:
                record[2] = record[4] = record[5] = None
                record[3] = _NOTHING
                record[6] = NO_TAPES
            if parents.__class__ is list:
                if other is not None:
                    if not keep:
                        record[7] = None
                    first, made = made
                    old = parents[1]
                    if old is None:
                        parents[1] = first
                        heappush(heap, parents)
                    elif old is LEAF:
                        seq = parents[0]
                        leaves[seq] = leaves[seq] + first if seq in leaves else first
                    else:
                        parents[1] = old + first
                    parents = other
                old = parents[1]
                if old is None:
                    if not heap:  # a chain needs no heap: the only open record is the next one
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
                    leaves[seq] = leaves[seq] + made if seq in leaves else made
                else:
                    parents[1] = old + made
            else:
                for parent, cotangent in zip(parents, made, strict=True):
                    old = parent[1]
                    if old is None:
                        parent[1] = cotangent
                        heappush(heap, parent)
                    elif old is LEAF:
                        seq = parent[0]
                        leaves[seq] = leaves[seq] + cotangent if seq in leaves else cotangent
                    else:
                        parent[1] = old + cotangent
            if not heap:
                break
            record = heappop(heap)
            g = record[1]
            record[1] = None
    except BaseException:
        _abandon([*heap, record] if record is not None else heap, sources, keep)
        raise
    result = []
    for s in sources:
        capture = captures.get(id(s))
        if capture is None:
            result.append(leaves.get(s[SEQ]))
        else:
            result.append(capture.cotangent)
            if s[PULL] is capture:
                s[PULL] = capture.pull
    return result


def _abandon(reached: list[Record], sources: list[Record], keep: bool) -> None:
    """Tidy up after a backward step that raised: what is not to be kept is used up, as after a whole sweep."""
    if not keep:
        record_module.empty_below(reached, spare=False)
        return
    for r in reached:
        r[COT] = None
    for s in sources:
        if s[PULL].__class__ is Capture:
            s[PULL] = s[PULL].pull
