"""Records of whole calls of compiled functions.

One record stands for all ops of a call. Its step is a compiled sweep, for one cotangent in the NumPy world. For every
other sweep the record is replaced by records of the ops, which are made from the inputs of the call.

If a call has several results, each has a record of its own with a `PartOfCall`. The parent is the record of the call.
The result's record has the number that the record of the op would have, so that it can become the op's record. The
record of the call does not hold the records of the results until ops replace the call. They hold the record of the
call, and a cycle would delay freeing the graph.

A call takes one number `s` from the count of all records, and owns the numbers from `s` on that are less than `s + 1`.
The newest op has the number `s`, and the record of a call with several results has a greater number than its ops. No
other record has one of these numbers, because all other records have integers.

Records are replaced in one store under the lock of `watch`, which changes TAPES, because sweeps of other threads may
read the records. Such a sweep may have met the record of a call before. So this record keeps its step, which goes on to
compute right cotangents.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gtape.engine.call import new_record
from gtape.engine.rules import PartialOutputs, PartStep
from gtape.recording import record
from gtape.recording.record import (
    COT,
    INS,
    LEAF,
    NO_TAPES,
    OTHER,
    SEQ,
    STEP,
    TAPES,
    Record,
    TapeSet,
    parents_of,
    sharing,
    step_of,
)
from gtape.tensors.tensor import Tensor, wrap

__all__ = [
    "Between",
    "InSums",
    "OneOp",
    "Ops",
    "PartOfCall",
    "WholeCall",
    "is_part_of_call",
    "put_ops",
    "put_ops_behind",
    "split_calls",
]

_MOST_NUMBERS = 2**50  # the greatest number for which floats can tell parts between two integers apart


class Between(NamedTuple):
    """A tensor between two ops of a call.

    Attributes
    ----------
    value : int
        The number of the value.
    source : int or None
        The number of the op that made the tensor, as a parent in `OneOp`.
    """

    value: int
    source: int | None


class OneOp(NamedTuple):
    """The parts of the record of one op in a call.

    Attributes
    ----------
    step : RuleStep or function
    parents : tuple of int or None
        A number from 0 on is an earlier op, ``~k`` is parent k of the call, and None is a record that no tape holds.
    ins : tuple, None, Tensor, int or Between
        The field INS. Each tensor is a constant tensor, the number of an input of the call, or a `Between`.
    out : int or None
        The number of the output's value, if the rule reads the output.
    second : Tensor, int, Between or None
        The second input of a generated function, if OUT holds it.
    """

    step: Any
    parents: tuple[int | None, ...]
    ins: Any
    out: int | None
    second: Any = None


class Ops:
    """The ops of a call from old to new.

    Parameters
    ----------
    ops : list of OneOp
    values : callable
        Takes the raw inputs of the call, returns the values between its ops.
    results : sequence of int
        The numbers of the ops whose results the call returns.
    """

    __slots__ = ("_ops", "_values", "results")

    def __init__(
        self, ops: list[OneOp], values: Callable[[Sequence[Any]], tuple[Any, ...]], results: Sequence[int]
    ) -> None:
        self._ops, self._values, self.results = ops, values, results

    @property
    def offsets(self) -> list[float]:
        """For each result the distance of its sequence number above the first number of the call."""
        return [self._offset(k) for k in self.results]

    @property
    def offset_of_call(self) -> float:
        """The distance of the number of the call's record above the first number of the call, if it is not the first.

        It is greater than the offsets of all ops, and less than 1.
        """
        return self._offset(-1)

    def _offset(self, k: int) -> float:
        n = len(self._ops)
        return (n - 1 - k) / (n + 1)

    def has_numbers(self, first: int) -> bool:
        """Whether floats can tell the numbers of a call apart."""
        return first * (len(self._ops) + 1) > -_MOST_NUMBERS

    def records(
        self,
        ins: Sequence[Tensor],
        parents: Sequence[Record],
        tapes: TapeSet,
        first: int | None = None,
        own: dict[int, Record] | None = None,
    ) -> tuple[list[Record], list[tuple[Record, Record]]]:
        """Make records of all ops.

        Parameters
        ----------
        ins : sequence of Tensor
            The inputs of the call.
        parents : sequence of Record
            The parents of the record of the call.
        tapes : TapeSet
        first : int, optional
            The first number of the call. Without it, the records get new numbers.
        own : dict of int to Record, optional
            The existing records of results, by the number of the result. They become records of ops, but not yet.

        Returns
        -------
        results : list of Record
            The records of the results; existing ones, if `own` has them.
        changes : list of (Record, Record)
            Each existing record, with the record of the op.
        """
        values = self._values([t._value for t in ins])
        made: list[Record] = []

        def found(source: int | None) -> Record:
            if source is None:
                return record.leaf(NO_TAPES)
            return made[source] if source >= 0 else parents[~source]

        def kept(t: Any) -> Any:
            if t.__class__ is int:
                return ins[t]
            if t.__class__ is not Between:
                return t
            between = wrap(values[t.value])
            between._record = None if t.source is None else found(t.source)
            return between

        existing = {} if own is None else {self.results[i]: r for i, r in own.items()}
        changes: list[tuple[Record, Record]] = []
        for k, op in enumerate(self._ops):
            xs = tuple([kept(t) for t in op.ins]) if op.ins.__class__ is tuple else kept(op.ins)
            y = kept(op.second) if op.out is None else values[op.out]
            new = new_record(op.step, [found(p) for p in op.parents], xs, y, tapes)
            if first is not None:
                new[SEQ] = first + self._offset(k)
            old = existing.get(k)
            if old is not None:
                changes.append((old, new))
            made.append(new if old is None else old)
        return [made[k] for k in self.results], changes


class WholeCall:
    """The backward step of a call of a compiled function, with the attributes of a primitive that sweeps read.

    The record of the call has a parent for each op and input of the call, in the order in which a sweep over the ops
    reaches them, because sums of cotangents keep their bits only in that order. INS holds all inputs, OUT the values
    that the sweep reads.

    Parameters
    ----------
    name : str
        The name of the function.
    ops : Ops
    sweep : callable
        ``sweep(g, ins, out)`` returns a raw cotangent for each parent. With several results, `g` is a `PartialOutputs`,
        and the cotangent of a parent is None if no result with a cotangent depends on the parent. With ``spend=True``,
        it empties the list `out`, and frees each large value after the last read. With a set `asked` of indices, it may
        leave out the cotangents of the other parents.
    full : bool
        Whether `sweep` gives the same bits as the full sweep. If the short sweep is possible, `sweep` gives the same
        bits as the short sweep.
    several : bool
        Whether the call has several results. If so, PARENTS is a tuple.
    uses : list of list of int
        For each input the indices of its parents, if ``sweep(g, ins, out, together=True)`` returns the sum of the
        cotangents of an input in the place of the first one, and None in the others. If so, PARENTS is a tuple. Empty
        if no input has several parents.
    spends : bool
        Whether OUT is a list, which a sweep that does not keep the record lets `sweep` empty. If so, PARENTS is a
        tuple.
    records : list of Record, optional
        The records of the results after ops replaced a call with several results.
    """

    __slots__ = ("full", "name", "ops", "records", "several", "spends", "sweep", "uses")

    kind = "call"
    roles: frozenset[str] = frozenset()
    batched = selects = False
    sparse = partials = None

    def __init__(
        self,
        name: str,
        ops: Ops,
        sweep: Any,
        *,
        full: bool,
        several: bool,
        uses: Sequence[list[int]] = (),
        spends: bool = False,
        records: list[Record] | None = None,
    ) -> None:
        self.name, self.ops, self.sweep, self.full, self.several, self.uses = name, ops, sweep, full, several, uses
        self.spends, self.records = spends, records

    def replaced_by(self, records: list[Record]) -> WholeCall:
        """The step of a call with several results after ops replaced the call."""
        return WholeCall(
            self.name, self.ops, self.sweep, full=self.full, several=self.several, uses=self.uses, spends=self.spends,
            records=records,
        )  # fmt: skip

    @property
    def prim(self) -> WholeCall:
        # A property, because a stored reference to itself would be a cycle that keeps the programs until the collector
        # runs.
        return self

    @property
    def waits(self) -> bool:
        """Whether the cotangents are computed when the sweep has emptied the record, or knows that it keeps it."""
        return self.spends or bool(self.uses)

    def __call__(self, g: Any, ins: Any, out: Any) -> Any:
        """The cotangents in the NumPy world: one value for one parent, otherwise a sequence or an `InSums`."""
        if self.waits:
            return InSums(self, g, ins, out)
        made = self.sweep(g, ins, out)
        return made[0] if len(made) == 1 and not self.several else made

    def cotangents(
        self,
        given: tuple[Any, Any, Any],
        parents: Sequence[Record],
        has_cotangent: Callable[[Record], bool],
        *,
        spend: bool = False,
        asks: Callable[[Record], bool] | None = None,
    ) -> Sequence[Any]:
        """The cotangents of the parents, in sums if the sums have the bits of the sweep over the ops.

        The sum over the uses of an input has these bits if the input has no cotangent so far. Without sums, the
        cotangents of all uses are alive at the same time.

        Parameters
        ----------
        given : tuple
            The cotangent of the call, its inputs, and the values that the sweep reads.
        parents : sequence of Record
        has_cotangent : callable
            Whether a cotangent arrived at a record so far.
        spend : bool
            Whether nobody needs the values after the sweep. May be True only if `spends`.
        asks : callable, optional
            Whether the sweep needs the cotangent of a parent. Without it, the sweep needs all.
        """
        first = [parents[places[0]] for places in self.uses]
        together = bool(first) and len({p[SEQ] for p in first}) == len(first)  # several inputs may be one tensor
        if together:
            several = [p for p, places in zip(first, self.uses, strict=True) if len(places) > 1]
            together = not any([has_cotangent(p) for p in several])  # noqa: C419 - a list is quicker
        asked = None
        if asks is not None and self.spends:  # otherwise the values are small, and so are the cotangents
            asked = frozenset([k for k, p in enumerate(parents) if asks(p)])
            if len(asked) == len(parents):
                asked = None
        found: Sequence[Any] = self.sweep(*given, together=together, spend=spend, asked=asked)
        return found


class InSums:
    """The cotangents of a call, before it is known whether they are summed, and whether the record is kept.

    Parameters
    ----------
    step : WholeCall
    g, ins, out
        The arguments of the step.
    """

    __slots__ = ("_given", "_step")

    def __init__(self, step: WholeCall, g: Any, ins: Any, out: Any) -> None:
        self._step, self._given = step, (g, ins, out)

    def found(self, parents: Sequence[Record], leaves: dict[int, Any], sums: set[int], *, keep: bool) -> Sequence[Any]:
        """The cotangents of the parents in the short sweep.

        Parameters
        ----------
        parents : sequence of Record
        leaves : dict
            The cotangents of leaves so far, by their numbers.
        sums : set of int
            The numbers of leaves whose cotangents are sums that only the sweep holds. Gets the leaves of sums.
        keep : bool
            Whether the record of the call is kept.
        """

        def has_cotangent(p: Record) -> bool:
            return p[SEQ] in leaves if p[COT] is LEAF else p[COT] is not None

        spend = self._step.spends and not keep
        found = self._step.cotangents(self._given, parents, has_cotangent, spend=spend)
        held: set[int] = set()
        for places in self._step.uses:
            k = places[0]
            total = found[k]
            if len(places) < 2 or not isinstance(total, np.ndarray) or found[places[1]] is not None:
                continue
            if id(total) in held:  # equal sums of two inputs, of which the sweep may change one
                found = [*found[:k], total.copy("K"), *found[k + 1 :]]
            held.add(id(total))
            sums.add(parents[k][SEQ])
        return found


class PartOfCall(PartStep):
    """The backward step of one of several results of a whole call.

    Parameters
    ----------
    index : int
        The number of the result.
    offset : float
        The distance of the result's sequence number above the first number of the call.
    """

    __slots__ = ("offset",)

    def __init__(self, index: int, offset: float) -> None:
        super().__init__(index)
        self.offset = offset

    def __call__(self, g: Any, ins: Any, out: Any) -> PartialOutputs:
        """The cotangent of the whole call, with the part of this result."""
        return PartialOutputs({self.index: g})


def is_part_of_call(r: Record) -> bool:
    """Whether a record belongs to one of several results of a whole call."""
    return step_of(r).__class__ is PartOfCall


def split_calls(starts: Iterable[Record]) -> None:
    """Replace whole calls with several results by their ops, in some records and in the records behind them."""
    calls: dict[int, tuple[Record, dict[int, Record]]] = {}
    seen = set()
    pending = list(starts)
    while pending:
        r = pending.pop()
        if id(r) in seen:
            continue
        seen.add(id(r))
        now = r[:]  # a copy, because another thread may replace the call meanwhile
        above = parents_of(now)
        if is_part_of_call(now):
            (call,), i = above, step_of(now).index
            calls.setdefault(id(call), (call, {}))[1][i] = r
            step = step_of(call)
            if step is not None and step.records is not None:
                above = (step.records[i],)
        pending.extend(above)
    for call, parts in calls.values():
        _split(call, parts)


def _split(call: Record, parts: dict[int, Record]) -> None:
    """Let records of results of a call become the records of the ops that made them."""
    now = call[:]
    step, sessions = step_of(now), now[TAPES].sessions
    if step is None:  # the tape that recorded the call is over, so no sweep goes on behind the results
        return
    for session in sessions:
        session.split = True
    if step.records is None:
        first = math.floor(now[SEQ])
        records, changes = step.ops.records(now[INS], parents_of(now), now[TAPES], first, parts)
        with sharing:
            if _change(call, step, step.replaced_by(records), changes):
                return
        step = step_of(call)
        if step is None:
            return
    # Two records of one op exist now. Only the full sweep treats them as one, because it identifies records by their
    # number.
    for session in sessions:
        session.shared = True
    changes = [(r, step.records[i]) for i, r in parts.items()]
    with sharing:
        _become(changes)


def _change(call: Record, step: WholeCall, new: WholeCall | None, changes: list[tuple[Record, Record]]) -> bool:
    """Replace records. Returns False if another thread replaced the call, or if its tape is over. Under `sharing`."""
    if step_of(call) is not step:
        return False
    if new is not None:
        call[STEP] = new
    _become(changes)
    return True


def _become(changes: list[tuple[Record, Record]]) -> None:
    """Let each first record become the second, except that it keeps the tapes that hold it. Under `sharing`."""
    for old, new in changes:
        if old is not new:
            old[STEP : OTHER + 1] = [*new[STEP:TAPES], old[TAPES], new[OTHER]]


def put_ops(made: Record) -> None:
    """Replace the record of a whole call with one result by the records of its ops."""
    now = made[:]
    step = step_of(now)
    if step.__class__ is not WholeCall:  # another thread replaced the call
        return
    first = now[SEQ] if step.ops.has_numbers(now[SEQ]) else None
    changes = step.ops.records(now[INS], parents_of(now), _recorders(now), first, {0: made})[1]
    with sharing:
        _change(made, step, None, changes)


def _recorders(r: Record) -> TapeSet:
    """The tapes that recorded an op, without those that only watch its result."""
    tapes: TapeSet = r[TAPES]
    recorders = [s for s in tapes.sessions if r[SEQ] not in s.stops]
    return tapes if len(recorders) == len(tapes.sessions) else TapeSet(recorders)


def put_ops_behind(starts: Sequence[Record]) -> None:
    """Replace all whole calls by their ops, in some records and in the records behind them."""
    split_calls(starts)
    seen = set()
    pending = list(starts)
    while pending:
        r = pending.pop()
        if r[SEQ] in seen:
            continue
        seen.add(r[SEQ])
        if step_of(r).__class__ is WholeCall:
            put_ops(r)
        pending.extend(parents_of(r))
