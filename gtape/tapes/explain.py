"""Explains why a gradient is None, zero or NaN, from the records that a tape still holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import nest
from gtape.base.diagnosis import diagnosed
from gtape.base.escaping import place_text, plain
from gtape.engine.full_sweep import full_sweep
from gtape.engine.requests import one_of
from gtape.engine.whole_calls import put_ops_behind
from gtape.engine.worlds import NUMPY
from gtape.recording.record import (
    INS,
    SEQ,
    STEP,
    TAPES,
    TRACE,
    Record,
    Session,
    get_stack,
    note_asked,
    off,
    parents_of,
    refuse_in_traced_calls,
    step_of,
)  # fmt: skip
from gtape.tensors.variable import Variable

__all__ = ["explain"]


@diagnosed
def explain(tape: Any, y: Any, x: Any) -> str:
    """Explain in words why the gradient of `y` with respect to `x` is None, zero, NaN or connected.

    The tape must be persistent, or not used yet. With ``verify=True`` the text also names ops without a derivative, and
    source lines. If `y` or `x` is a structure, each member gets a line.
    """
    if nest.is_nested(y) or nest.is_nested(x):
        return _each(tape, y, x)
    session = tape._session
    if session is not None:
        refuse_in_traced_calls("explains a gradient of a tape from before the call", session)
        note_asked([y, x])
    for role, t in (("target", y), ("source", x)):
        if not hasattr(t, "_layout"):
            return (
                f"None: the {role} is a {type(t).__name__}, not a tensor. "
                "Wrap it in gtape.constant and watch it before it is used."
            )
        if not t._layout.inexact:
            return (
                f"None: the {role} is {t.dtype.name}; only floating-point tensors have gradients. "
                "Use gtape.cast(x, gtape.float32) first."
            )
    if session is None:
        return (
            "The tape holds no record: its one gradient was taken, or it was never entered. "
            "Ask before the gradient, or use persistent=True to ask afterwards."
        )
    if x is y or (x._record is not None and y._record is not None and x._record[SEQ] == y._record[SEQ]):
        return "Ones: the target is the source itself."
    if x._record is None or session not in x._record[TAPES].sessions:
        return _unwatched(x)
    if y._record is None or session not in y._record[TAPES].sessions:
        return (
            "None: the target was not recorded. It was computed before the tape was entered, after it was left or "
            "while it was paused; or from nothing that the tape watches, as the slope of a linear function is; or by "
            "an op without a derivative (floor, round, a comparison, stop_gradient), which a tape with verify=True can "
            "name."
        )
    put_ops_behind([y._record, x._record])
    path = _path(session, y._record, x._record)
    if path is None:
        return _disconnected(y._record, x._record)
    zero = next((r for r in path if r[STEP] is not None and _zero_partial(r)), None)
    if zero is not None:
        return f"Zero: {_where(zero)} has derivative 0 everywhere, though it connects the two."
    lost = _lost(session, y, x._record)
    if lost is not None:
        return lost
    names = " <- ".join(_name(r) for r in path if r[STEP] is not None)
    return f"Connected: {names}."


def _unwatched(x: Any) -> str:
    if isinstance(x, Variable):
        if not x.trainable:
            return (
                f"None: {plain(x.name)} is not trainable, so it is watched only if tape.watch is called on it "
                "inside the block."
            )
        return (
            f"None: {plain(x.name)} was not read inside the block, or the tape was made with "
            "watch_accessed_variables=False."
        )
    return (
        "None: the source is not watched. Call tape.watch(x) inside the block, before x is used; "
        "an equal tensor is another source."
    )


def _path(session: Session, start: Record, end: Record) -> list[Record] | None:
    """The records from `start` back to `end` through differentiable arguments."""
    came: dict[int, Record | None] = {start[SEQ]: None}
    by_seq = {start[SEQ]: start}
    pending = [start]
    while pending:
        r = pending.pop()
        if r[SEQ] == end[SEQ]:  # two records of one op may exist
            path = [r]
            while (before := came[path[-1][SEQ]]) is not None:
                path.append(before)
            return path[::-1]
        for p in parents_of(r):
            if p[SEQ] not in came and session in p[TAPES].sessions:
                came[p[SEQ]] = r
                by_seq[p[SEQ]] = p
                pending.append(p)
    return None


def _disconnected(start: Record, end: Record) -> str:
    """The text if no path exists, with the nearest op without a derivative if a check's trace shows the op."""
    came: dict[int, Record | None] = {start[SEQ]: None}
    pending = [start]
    while pending:
        r = pending.pop()
        trace = r[TRACE] if len(r) > TRACE else None
        for p in [] if trace is None else [t._record for t in trace.inputs if t._record is not None]:
            if p[SEQ] in came:
                continue
            came[p[SEQ]] = r
            pending.append(p)
            if p is not end:
                continue
            after: Record | None = r
            while after is not None and any(q[SEQ] == p[SEQ] for q in parents_of(after)):
                p, after = after, came[after[SEQ]]
            if after is not None:
                prim = step_of(after).prim
                places = [
                    i for i, t in enumerate(after[TRACE].inputs) if t._record is not None and t._record[SEQ] == p[SEQ]
                ]
                missing = [] if prim is None else [prim.argument(i) for i in places if i in prim.missing]
                fault = f"whose derivative by {missing[0]} is not implemented" if missing else "which has no derivative"
                return f"None: the only way from the target to the source goes through {_where(after)}, {fault}."
    return (
        "None: no differentiable op leads from the source to the target. What lies between may be an op without a "
        "derivative (floor, round, argmax, a comparison, a cast to integers), stop_gradient, or a step through "
        ".numpy(); a tape with verify=True can name it."
    )


def _each(tape: Any, y: Any, x: Any) -> str:
    """Text with a line for each member of the structures."""
    lines = []
    for i, target in enumerate(nest.flatten(y)):
        for j, source in enumerate(nest.flatten(x)):
            name = plain(source.name) if isinstance(source, Variable) else f"source {j}"
            lines.append(f"{f'target {i}, ' if nest.is_nested(y) else ''}{name}: {explain(tape, target, source)}")
    return "\n".join(lines)


def _lost(session: Session, y: Any, source: Record) -> str | None:
    """The op at which the gradient of the sum of y becomes infinite, NaN or 0; None if there is no such op."""
    records = _behind(session, y._record)
    with off():
        start = [(y._record, one_of(y._layout)._value)]  # type: ignore[union-attr]
        made, _ = get_stack().run(full_sweep, NUMPY, session, start, records, masked=session.selects, sparse=False)
    came = {r[SEQ]: np.asarray(c) for r, c in zip(records, made, strict=True) if c is not None}
    last = came.get(source[SEQ])
    if last is None or not last.size:
        return None
    bad = ~np.isfinite(last)
    gone: Any = _is_infinite if bad.any() else _is_zero if not last.any() else None
    if gone is None:
        return None
    kind = "NaN" if np.isnan(last).any() else "Infinity"
    between = _between(session, records, source)
    for r in sorted(records, key=lambda r: r[SEQ]):  # the latest record first, because sequence numbers count down
        parents = [p for p in parents_of(r) if p[SEQ] in between and p[SEQ] in came]
        if r[STEP] is None or r[SEQ] not in came or gone(came[r[SEQ]]) or not parents:
            continue
        if all(gone(came[p[SEQ]]) for p in parents):
            if gone is _is_zero:
                return f"Zero: the gradient is not 0 as far as {_where(r)}, whose slope is 0 at its inputs."
            g = next(came[p[SEQ]] for p in parents)
            place = tuple(np.argwhere(~np.isfinite(g))[0].tolist())
            return f"{kind}: the gradient is finite as far as {_where(r)}, and not finite behind it{_inputs(r, place)}."
    return f"{kind}: the target itself, or what flows back from it, is not finite." if bad.any() else None


def _is_infinite(g: Any) -> bool:
    return not np.isfinite(g).all()


def _is_zero(g: Any) -> bool:
    return not g.any()


def _behind(session: Session, start: Record) -> list[Record]:
    """A record and all of its ancestors that the session holds."""
    found = {start[SEQ]: start}
    pending = [start]
    while pending:
        for p in parents_of(pending.pop()):
            if p[SEQ] not in found and session in p[TAPES].sessions:
                found[p[SEQ]] = p
                pending.append(p)
    return list(found.values())


def _between(session: Session, records: list[Record], source: Record) -> set[int]:
    """The sequence numbers of the source and of all records that depend on the source."""
    found = {source[SEQ]}
    for r in sorted(records, key=lambda r: r[SEQ], reverse=True):
        if any(p[SEQ] in found for p in parents_of(r)):
            found.add(r[SEQ])
    return found


def _inputs(r: Record, place: tuple[int, ...]) -> str:
    """The inputs of an elementwise op at one index; empty if the record does not keep the inputs."""
    prim = step_of(r).prim
    if prim is None or prim.kind != "elementwise":
        return ""
    trace = r[TRACE] if len(r) > TRACE else None
    kept = trace.inputs if trace is not None else r[INS] if isinstance(r[INS], tuple) else (r[INS],)
    values = [np.asarray(getattr(v, "_value", v)) for v in kept if v is not None]
    if len(values) != prim.arity or any(v.ndim not in (0, len(place)) for v in values):
        return ""
    try:
        words = [repr(v[place].item() if v.ndim else v.item()) for v in values]
    except IndexError:  # an input was broadcast
        return ""
    return f": it was computed from {', '.join(words)}"


def _zero_partial(r: Record) -> bool:
    prim = step_of(r).prim
    return prim is not None and prim.partials is not None and all(prim.partials[i] == 0 for i in step_of(r).active)


def _name(r: Record) -> str:
    prim = step_of(r).prim
    return plain(prim.name) if prim is not None else f"output {step_of(r).index}"


def _where(r: Record) -> str:
    trace = r[TRACE] if len(r) > TRACE else None
    line = "" if trace is None else f" ({place_text(trace.line)})"
    return f"{_name(r)}{line}"
