"""Records of whole calls of compiled functions.

One record stands for all ops of a call. Its step is a compiled sweep, for one cotangent in the NumPy world. For every
other sweep the records of the ops take its place, made from the inputs of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gtape.engine.call import new_record
from gtape.recording import record
from gtape.recording.record import INS, NO_TAPES, OTHER, SEQ, STEP, TAPES, Record, TapeSet, parents_of, step_of
from gtape.tensors.tensor import Tensor, wrap

__all__ = ["Between", "OneOp", "Ops", "WholeCall", "put_ops", "put_ops_behind"]


class Between(NamedTuple):
    """A tensor between two ops of a call.

    Attributes
    ----------
    value : int
        The number of its value.
    source : int or None
        The number of the op that made it, as a parent in `OneOp`.
    """

    value: int
    source: int | None


class OneOp(NamedTuple):
    """What the record of one op of a call is made from.

    Attributes
    ----------
    step : RuleStep or function
    parents : tuple of int or None
        A number from 0 on is an earlier op; ``~k`` is parent k of the call; None is a record that no tape holds.
    ins : tuple, None, Tensor, int or Between
        INS, with each tensor as a constant tensor, as the number of an input of the call, or as a `Between`.
    out : int or None
        The number of the value of the output, if the rule reads it.
    second : Tensor, int, Between or None
        The second input of a generated function, if OUT holds it.
    """

    step: Any
    parents: tuple[int | None, ...]
    ins: Any
    out: int | None
    second: Any = None


class Ops:
    """The ops of a call, oldest first.

    Parameters
    ----------
    ops : list of OneOp
    values : callable
        Takes the raw inputs of the call, returns the values between its ops.
    """

    __slots__ = ("_ops", "_values")

    def __init__(self, ops: list[OneOp], values: Callable[[Sequence[Any]], tuple[Any, ...]]) -> None:
        self._ops, self._values = ops, values

    def records(self, ins: Sequence[Tensor], parents: Sequence[Record], tapes: TapeSet) -> Record:
        """New records of all ops; returns that of the last."""
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

        for op in self._ops:
            xs = tuple([kept(t) for t in op.ins]) if op.ins.__class__ is tuple else kept(op.ins)
            y = kept(op.second) if op.out is None else values[op.out]
            made.append(new_record(op.step, [found(p) for p in op.parents], xs, y, tapes))
        return made[-1]


class WholeCall:
    """The backward step of a call of a compiled function; it has the attributes of a primitive that sweeps read.

    The record of the call has a parent for each op and input of the call, in the order in which a sweep over the ops
    reaches them, because sums of cotangents keep their bits only in that order. INS holds all inputs, OUT the values
    that the sweep reads.

    Parameters
    ----------
    name : str
        Of the function.
    ops : Ops
    sweep : callable
        ``sweep(g, ins, out)`` returns a raw cotangent for each parent.
    full : bool
        Whether `sweep` gives the bits of the full sweep; it always gives those of the short one, if that is taken.
    """

    __slots__ = ("full", "name", "ops", "sweep")

    kind = "call"
    roles: frozenset[str] = frozenset()
    batched = selects = False
    sparse = partials = None

    def __init__(self, name: str, ops: Ops, sweep: Callable[..., Sequence[Any]], *, full: bool) -> None:
        self.name, self.ops, self.sweep, self.full = name, ops, sweep, full

    @property
    def prim(self) -> WholeCall:
        # Not stored: a cycle would keep the programs until the collector runs.
        return self

    def __call__(self, g: Any, ins: Any, out: Any) -> Any:
        """The cotangents in the NumPy world: one value for one parent, otherwise a sequence."""
        made = self.sweep(g, ins, out)
        return made[0] if len(made) == 1 else made


def put_ops(made: Record) -> None:
    """Let the records of the ops take the place of the record of a whole call."""
    ops = made[STEP].ops.records(made[INS], parents_of(made), made[TAPES])
    made[STEP : OTHER + 1] = [*ops[STEP:TAPES], made[TAPES], ops[OTHER]]  # in one store, because sweeps may read it


def put_ops_behind(start: Record) -> None:
    """`put_ops` for a record and all its ancestors."""
    seen = set()
    pending = [start]
    while pending:
        r = pending.pop()
        if r[SEQ] in seen:
            continue
        seen.add(r[SEQ])
        if step_of(r).__class__ is WholeCall:
            put_ops(r)
        pending.extend(parents_of(r))
