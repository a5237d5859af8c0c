"""The sweep of an inner tape under plain outer tapes, which record it: quick for layouts that were met before.

In the tape world a rule calls the functions of tensors, which record. One run of the rule on samples writes these calls
down in their order, with the numbers of the rule as tensors, so the function makes the same records as the rule.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import BuiltinMethodType, FunctionType
from typing import Any

import numpy as np

from gtape.declare.primitives import REGISTRY, Primitive
from gtape.engine.fast.source import Expression, Untraceable
from gtape.engine.fast.steps import FAMILIAR, FAULTS, remember, too_large, written
from gtape.engine.full_sweep import layout_of_operands, output_in, values_in
from gtape.engine.rules import RuleStep, absorb_zeros
from gtape.engine.worlds import NUMPY, TAPE, named
from gtape.recording.record import (
    INS,
    OUT,
    SEQ,
    STEP,
    TAPES,
    Record,
    Session,
    Stack,
    TapeSet,
    get_stack,
    parents_of,
    sharing,
    step_of,
)  # fmt: skip
from gtape.tensors.tensor import Tensor, as_operand, wrap

__all__ = ["recorded_sweep", "takes_recorded_sweep"]

# Each operator in the source of a rule: its primitive, and what it does to values.
_SIGNS: dict[str, tuple[Callable[[], Primitive], Callable[[Any, Any], Any]]] = {
    "+": (lambda: REGISTRY["add"], operator.add),
    "-": (lambda: REGISTRY["subtract"], operator.sub),
    "*": (lambda: REGISTRY["multiply"], operator.mul),
    "/": (lambda: REGISTRY["divide"], operator.truediv),
}


class Calls:
    """The world in which a rule of `user` is written down as calls of functions of tensors, one to a line."""

    # What a line adds to an input to load its value.
    load = ""

    def __init__(self, user: Primitive) -> None:
        self._user = user
        self._lines: list[str] = []
        self._names: dict[str, Any] = {}

    def value(self, name: str, sample: Any) -> Expression:
        """An argument or loaded input of the function."""
        return Expression(self, [], sample, name)  # type: ignore[arg-type]

    def bound(self, value: Any) -> str:
        """A new name in the source for a function or a tensor."""
        name = f"k{len(self._names)}"
        self._names[name] = value
        return name

    def _line(self, text: str, sample: Any) -> Expression:
        if sample.__class__ is not float and not isinstance(sample, (np.ndarray, np.generic)):
            raise Untraceable("a rule calls a primitive with several results")
        name = f"v{len(self._lines)}"
        self._lines.append(f"{name} = {text}")
        return self.value(name, sample)

    def _operand(self, v: Any, like: Any) -> str:
        if v.__class__ is Expression:
            return str(v.name)
        if not isinstance(v, (int, float)) or isinstance(v, bool):
            raise Untraceable("a rule may use integers and the constants of the namespace")
        return self.bound(as_operand(v, wrap(like.value)))

    def _function(self, prim: Primitive) -> str:
        if "selection" in prim.roles:
            raise Untraceable("a rule selects elements")
        prim.users.add(self._user)
        return self.bound(prim.function)

    def infix(self, sign: str, a: Any, b: Any) -> Expression:
        """An operator on two values, or on a value and a number."""
        found, compute = _SIGNS[sign]
        like = a if a.__class__ is Expression else b
        words = f"{self._operand(a, like)}, {self._operand(b, like)}"
        sample = compute(*[v.value if v.__class__ is Expression else v for v in (a, b)])
        return self._line(f"{self._function(found())}({words})", sample)

    def note(self, parts: list[Any], value: Any) -> Expression:
        """The negative of a value."""
        return self._line(f"{self._function(REGISTRY['negative'])}({parts[1].name})", value)

    def hold(self, g: Expression, c: Expression) -> Expression:
        """`gtape.engine.rules.absorb_zeros`."""
        return self._line(f"{self.bound(absorb_zeros)}({self.bound(TAPE)}, {g.name}, {c.name})", c.value)

    def __getattr__(self, name: str) -> Any:
        prim = named(name)
        if isinstance(prim, float):
            return prim

        def call(*args: Any, **params: Any) -> Expression:
            like = next((a for a in args if a.__class__ is Expression), None)
            words = [self._operand(a, like) for a in args]
            words += [f"{k}={self.bound(v)}" for k, v in params.items()]
            sample = getattr(NUMPY, name)(*[a.value if a.__class__ is Expression else a for a in args], **params)
            return self._line(f"{self._function(prim)}({', '.join(words)})", sample)

        return call

    def function(self, loads: list[str], results: list[Expression], file: str) -> Any:
        """The function ``step(g, record)`` of tensors that returns the cotangents as a tuple."""
        if not all(r.__class__ is Expression for r in results):
            raise Untraceable("a rule makes something else than a value")
        body = "".join(f"    {line}\n" for line in [*loads, *self._lines])
        answer = "".join(f"{r.name}, " for r in results)
        exec(compile(f"def step(g, record):\n{body}    return ({answer})\n", file, "exec"), self._names)
        return self._names["step"]


def _recording(step: RuleStep) -> Callable[..., Any] | None:
    """A step as one function of a cotangent and a record; None if its rules depend on values."""
    if too_large(step):
        return None
    notes = Calls(step.prim)
    try:
        loads, results = written(notes, step)
        return notes.function([*_places(notes, step), *loads], results, f"<gtape recorded step of {step.prim.name}>")  # type: ignore[no-any-return]
    except FAULTS:
        return None  # the rule itself raises the error, if it really fails


def _places(notes: Calls, step: RuleStep) -> list[str]:
    """The lines that load what the rules read from a record: the inputs as ``ins``, the output as ``out``."""
    lines = []
    reads = frozenset[Any]().union(*[step.prim.reads[i] for i in step.active])
    if step.keeps is None or (len(step.keeps) == 2 and "y" in reads):
        lines.append(f"ins = record[{INS}]")
    elif len(step.keeps) == 2:
        lines.append(f"ins = record[{INS}], record[{OUT}]")
    elif step.keeps:
        lines.append("ins = " + "None, " * step.keeps[0] + f"record[{INS}],")
    if "y" in reads:  # to differentiation, it is the op's own output
        lines += [f"out = {notes.bound(wrap)}(record[{OUT}])", "out._record = record"]
    return lines


class _Met:
    """The backward step for operands of one layout in the tape world: after some calls, one function."""

    __slots__ = ("calls_left", "function", "on")

    def __init__(self, on: RuleStep | None = None) -> None:
        # The step of a generated function for the layout. None for a step that has a layout, because it holds this
        # object and a cycle would outlive both.
        self.on = on
        self.function: Callable[..., Any] | None = None
        self.calls_left = FAMILIAR

    def by_rule(self, step: RuleStep, g: Any, record: Record) -> list[Any]:
        """The cotangents of the parents by the rule itself; the last of some calls writes the function."""
        step = self.on or step
        if self.calls_left:
            self.calls_left -= 1
            if not self.calls_left and not any([a.slow_path for a in step.layouts or ()]):  # noqa: C419 - a list is quicker
                self.function = get_stack().run(_recording, step)
        return step.cotangents(TAPE, g, output_in(TAPE, record), values_in(TAPE, record, step))


def _cotangents(g: Any, record: Record) -> Any:
    """The cotangents of the parents of a record, by functions of tensors."""
    step = step_of(record)
    met = step.met
    if step.layouts is None:
        # Operands and cotangent of a generated function have one layout.
        layout = g._layout if g.__class__ is Tensor else layout_of_operands(record, g, None)
        if met is None:
            met = step.met = {}
        found = met.get(layout)
        if found is None:
            found = remember(met, layout, _Met(step.on(layout_of_operands(record, g, None))))
        met = found
    elif met is None:
        met = step.met = _Met()
    return met.function(g, record) if met.function is not None else met.by_rule(step, g, record)


def _history(session: Session, starts: list[Record]) -> dict[int, Record] | None:
    """The records of a session that lead to some records, by number; None if the full sweep has to pass them."""
    found: dict[int, Record] = {}
    pending = starts
    mine = None  # a set with the session
    while pending:
        r = pending.pop()
        tapes = r[TAPES]
        if r[SEQ] in found:
            continue
        if tapes is not mine:
            if session not in tapes.sessions:
                continue
            mine = tapes
        found[r[SEQ]] = r
        step = r[STEP]
        if step is not None:
            if step.__class__ is FunctionType:
                step = step.step  # type: ignore[attr-defined]
            if step.__class__ is not RuleStep or step.prim.sparse is not None:
                return None
            pending.extend(parents_of(r))
    return found


def _let_go(session: Session, history: dict[int, Record], stack: Stack) -> None:
    """Take records from a session that ends, so that quick functions know them by the set of the outer tapes."""
    with sharing:  # other threads may watch the records at the same time
        _hand_over(session, history, stack.recording)


def _hand_over(session: Session, history: dict[int, Record], now: TapeSet) -> None:
    """Give records to the sessions of `now` if these alone hold them beside the session that ends."""
    known: dict[TapeSet, bool] = {now: False}
    for r in history.values():
        tapes = r[TAPES]
        lets_go = known.get(tapes)
        if lets_go is None:
            open_now = {s for s in tapes.sessions if s.live and s is not session}
            lets_go = known[tapes] = open_now == now.sessions
        if lets_go:
            r[TAPES] = now


def takes_recorded_sweep(session: Session, stack: Stack) -> bool:
    """Whether `recorded_sweep` may be tried: no check, no traced call, no forward mode, no selections."""
    if session.selects or session.trace or session.stops or stack.tapes is not stack.recording:
        return False
    return stack.run.__class__ is BuiltinMethodType


def recorded_sweep(
    session: Session, seeds: list[tuple[Record, Any]], sources: list[Record], stack: Stack, *, ends: bool
) -> tuple[list[Any], list[Record]] | None:
    """`gtape.engine.full_sweep.full_sweep` in the tape world, for ordinary ops.

    Parameters
    ----------
    session : Session
    seeds, sources
        As for the full sweep; all seeds belong to the session.
    stack : Stack
    ends : bool
        Whether the session ends with this sweep.

    Returns
    -------
    cotangents, visited
        As for the full sweep; None if only the full sweep can pass the records.
    """
    history = _history(session, [r for r, _ in seeds])
    if history is None:
        return None
    if ends:
        _let_go(session, history, stack)
    cotangents: dict[int, Any] = {}
    for r, g in seeds:
        seq = r[SEQ]
        cotangents[seq] = cotangents[seq] + g if seq in cotangents else g
    visited = []
    for seq in sorted(history):
        g = cotangents.get(seq)
        if g is None:
            continue
        r = history[seq]
        visited.append(r)
        if r[STEP] is None:
            continue
        parents = parents_of(r)
        if not any([p[SEQ] in history for p in parents]):  # noqa: C419 - a list is quicker
            continue
        for parent, c in zip(parents, _cotangents(g, r), strict=True):
            number = parent[SEQ]
            if c is not None and number in history:
                cotangents[number] = cotangents[number] + c if number in cotangents else c
    return [cotangents.get(s[SEQ]) for s in sources], visited
