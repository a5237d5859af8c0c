"""The sweep of an inner tape that plain outer tapes record, fast for known layouts.

A backward step is one function, see `gtape.engine.fast.calls` and `gtape.engine.fast.inlined`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinMethodType, FunctionType
from typing import Any

from gtape.declare.primitives import REGISTRY
from gtape.engine.fast.calls import Calls
from gtape.engine.fast.inlined import Inlined
from gtape.engine.fast.steps import FAMILIAR, FAULTS, remember, too_large, written
from gtape.engine.full_sweep import layout_of_operands, output_in, values_in
from gtape.engine.rules import RuleStep
from gtape.engine.worlds import TAPE
from gtape.recording.record import (
    INS,
    OTHER,
    OUT,
    PARENTS,
    PASSES,
    SEQ,
    STEP,
    TAPES,
    Record,
    Session,
    Stack,
    TapeSet,
    get_stack,
    sharing,
)  # fmt: skip
from gtape.tensors.tensor import Tensor

__all__ = ["recorded_sweep", "takes_recorded_sweep"]


def _recording(step: RuleStep) -> Callable[..., Any] | None:
    """A step as one function of a cotangent, a record and a stack; None if its rules depend on values."""
    if too_large(step):
        return None
    notes = Calls(step.prim)
    names: dict[str, Any] = {}
    try:
        loads, results = written(notes, step)
        loads = [*_places(names, step), *loads]
        file = f"<gtape recorded step of {step.prim.name}>"
        calls = notes.function(loads, results, {**names}, file)
        return Inlined(notes, results, calls, file).function(loads, names)  # type: ignore[no-any-return]
    except FAULTS:
        return None  # the general way runs the rule again, which then raises its own error


def _places(names: dict[str, Any], step: RuleStep) -> list[str]:
    """The lines that load the values that rules read from a record: the inputs as ``ins``, the output as ``out``."""
    lines = []
    reads = frozenset[Any]().union(*[step.prim.reads[i] for i in step.active])
    if step.keeps is None or (len(step.keeps) == 2 and "y" in reads):
        lines.append(f"ins = record[{INS}]")
    elif len(step.keeps) == 2:
        lines.append(f"ins = record[{INS}], record[{OUT}]")
    elif step.keeps:
        lines.append("ins = " + "None, " * step.keeps[0] + f"record[{INS}],")
    if "y" in reads:  # for differentiation, the value is the op's own output
        names.update(Tensor=Tensor, layout_of_out=step.out_layout)
        lines += [
            "out = Tensor()",
            f"out._value, out._layout, out._record = record[{OUT}], layout_of_out, record",
        ]
    return lines


class _Met:
    """The backward step in the tape world for operands of one layout. After some calls one function replaces it."""

    __slots__ = ("calls_left", "function", "on")

    def __init__(self, on: RuleStep | None = None) -> None:
        # The step of a generated function for the layout. None for a step that has a layout, because such a step holds
        # this object, and the cycle would keep both alive.
        self.on = on
        self.function: Callable[..., Any] | None = None
        self.calls_left = FAMILIAR

    def by_rule(self, step: RuleStep, g: Any, record: Record) -> list[Any]:
        """The cotangents of the parents by the rule itself. After some calls the function is written."""
        step = self.on or step
        if self.calls_left:
            self.calls_left -= 1
            if not self.calls_left and not any([a.no_kernel for a in step.layouts or ()]):  # noqa: C419 - a list is quicker
                self.function = get_stack().run(_recording, step)
        return step.cotangents(TAPE, g, output_in(TAPE, record), values_in(TAPE, record, step))


def _cotangents(g: Any, record: Record, step: RuleStep) -> Any:
    """The cotangents of the parents of a record whose step has no function yet, or cannot have one."""
    met = step.met
    if step.layouts is None:
        # The operands and the cotangent of a generated function have the same layout.
        layout = g._layout if g.__class__ is Tensor else layout_of_operands(record, g, None)
        if met is None:
            met = step.met = {}
        found = met.get(layout)
        if found is None:
            found = remember(met, layout, _Met(step.on(layout_of_operands(record, g, None))))
        met = found
    elif met is None:
        met = step.met = _Met()
    return met.by_rule(step, g, record)


class _History:
    """The records of a session that lead to given records.

    Attributes
    ----------
    records : dict of {int: Record}
        The records by sequence number.
    ops : list of int
        The sequence numbers of the records of ops.
    sets : set of TapeSet
        The sets of tapes that hold these records.
    """

    __slots__ = ("ops", "records", "sets")

    def __init__(self) -> None:
        self.records: dict[int, Record] = {}
        self.ops: list[int] = []
        self.sets: set[TapeSet] = set()


def _history(session: Session, starts: list[Record]) -> _History | None:
    """The history of some records; None if the full sweep has to pass them."""
    made = _History()
    found, ops, sets = made.records, made.ops, made.sets
    pending = starts
    mine = None  # a set with this session
    while pending:
        r = pending.pop()
        seq, tapes = r[SEQ], r[TAPES]
        if seq in found:
            continue
        if tapes is not mine:
            if session not in tapes.sessions:
                continue
            mine = tapes
            sets.add(tapes)
        found[seq] = r
        step = r[STEP]
        if step is not None:
            if step.__class__ is FunctionType:
                step = step.step  # type: ignore[attr-defined]
            if step.__class__ is not RuleStep or step.prim.sparse is not None:
                return None
            ops.append(seq)
            parents = r[PARENTS]
            if parents.__class__ is list:
                pending.append(parents)
                if r[OTHER].__class__ is list:
                    pending.append(r[OTHER])
            else:
                pending.extend(parents)
    return made


def _let_go(session: Session, history: _History, stack: Stack) -> bool:
    """Remove an ending session from records, so that quick functions know them by the set of outer tapes.

    Returns whether the outer tapes now hold all the records.
    """
    with sharing.now:  # because other threads may watch the records at the same time
        return _hand_over(session, history, stack.recording)


def _hand_over(session: Session, history: _History, now: TapeSet) -> bool:
    """Give records to the sessions of `now` if only these and the ending session hold the records."""
    passing = {a for a in history.sets if {s for s in a.sessions if s.live and s is not session} == now.sessions}
    for r in history.records.values():
        if r[TAPES] in passing:
            r[TAPES] = now
    return len(passing) == len(history.sets)


def takes_recorded_sweep(session: Session, stack: Stack) -> bool:
    """Whether `recorded_sweep` may be tried: no check, traced call, forward mode, selection or whole call."""
    if session.calls or session.selects or session.trace or session.stops or stack.tapes is not stack.recording:
        return False
    return stack.run.__class__ is BuiltinMethodType


def recorded_sweep(
    session: Session, seeds: list[tuple[Record, Any]], sources: list[Record], stack: Stack, *, ends: bool
) -> tuple[list[Any], list[Record]] | None:
    """The same as `gtape.engine.full_sweep.full_sweep` in the tape world, for ordinary ops.

    Parameters
    ----------
    session : Session
    seeds, sources
        As for the full sweep. All seeds belong to the session.
    stack : Stack
    ends : bool
        Whether the session ends with this sweep.

    Returns
    -------
    cotangents, visited
        As for the full sweep, but without records that the outer tapes hold; None if only the full sweep can pass the
        records.
    """
    history = _history(session, [r for r, _ in seeds])
    if history is None:
        return None
    all_held = ends and _let_go(session, history, stack)
    records = history.records
    cotangents: dict[int, Any] = {}
    for r, g in seeds:
        seq = r[SEQ]
        cotangents[seq] = cotangents[seq] + g if seq in cotangents else g
    add = REGISTRY["add"].function
    history.ops.sort()
    for seq in history.ops:
        g = cotangents.get(seq)
        if g is None:
            continue
        r = records[seq]
        parents, other = r[PARENTS], r[OTHER]
        pairs: Any = ()
        if parents.__class__ is list:
            number = parents[SEQ]
            if other is PASSES:
                other = None
            if number not in records and (other is None or other[SEQ] not in records):
                continue
        elif not any([p[SEQ] in records for p in parents]):  # noqa: C419 - a list is quicker
            continue
        step = r[STEP]
        if step.__class__ is FunctionType:
            step = step.step  # type: ignore[attr-defined]
        met = step.met
        if met.__class__ is dict and g.__class__ is Tensor:
            met = met.get(g._layout)
        function = met.function if met.__class__ is _Met else None
        made = _cotangents(g, r, step) if function is None else function(g, r, stack)
        if parents.__class__ is not list:
            pairs = zip(parents, made, strict=True)
        elif other is not None:
            pairs = ((parents, made[0]), (other, made[1]))
        elif made[0] is not None:  # the usual case in fewer steps
            old = cotangents.get(number)
            cotangents[number] = made[0] if old is None else add(old, made[0])
        for parent, c in pairs:
            number = parent[SEQ]
            if c is not None and number in records:
                old = cotangents.get(number)
                cotangents[number] = c if old is None else add(old, c)
    results = [cotangents.get(s[SEQ]) for s in sources]
    if stack.note is not None:  # the other cotangents end with the sweep, or with the records that keep them
        for c in results:
            if c.__class__ is Tensor:
                stack.note(c)
    return results, [] if all_held else [records[seq] for seq in cotangents if seq in records]
