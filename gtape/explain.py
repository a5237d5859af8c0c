"""Why is this gradient None, zero or NaN? Read from the records that a tape still holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.record import INS, PULL, SEQ, TAPES, TRACE, Record, Session, parents_of
from gtape.variable import Variable

__all__ = ["explain"]


def explain(tape: Any, y: Any, x: Any) -> str:
    """Why the gradient of `y` with respect to `x` is what it is, in words.

    Parameters
    ----------
    tape : GradientTape
        Persistent, or not used up yet. With ``verify=True`` it also knows ops without a derivative, and source lines.
    y, x : tensor or variable

    Returns
    -------
    str
    """
    session = tape._session
    if session is None:
        return (
            "The tape holds no record: its one gradient was taken, or it was never entered. "
            "Use persistent=True to ask afterwards."
        )
    for role, t in (("target", y), ("source", x)):
        if not hasattr(t, "_aval"):
            return (
                f"None: the {role} is a {type(t).__name__}, not a tensor. "
                "Wrap it in gtape.constant and watch it before it is used."
            )
        if not t._aval.inexact:
            return (
                f"None: the {role} is {t.dtype.name}; only floating-point tensors have gradients. "
                "Use gtape.cast(x, gtape.float32) first."
            )
    if x is y or (x._record is not None and x._record is y._record):
        return "Ones: the target is the source itself."
    if x._record is None or session not in x._record[TAPES].sessions:
        return _unwatched(x)
    if y._record is None or session not in y._record[TAPES].sessions:
        return (
            "None: the target was not recorded. It was computed before the tape was entered, after it was left or "
            "while it was paused; or from nothing that the tape watches; or by an op without a derivative (floor, "
            "round, a comparison, stop_gradient), which a tape with verify=True can name."
        )
    path = _path(session, y._record, x._record)
    if path is None:
        return _disconnected(y._record, x._record)
    culprit = next((r for r in path if _not_finite(r)), None)
    if culprit is not None:
        return (
            f"NaN or infinity may flow: {_where(culprit)} is not finite at its recorded inputs, "
            "or its derivative is not."
        )
    zero = next((r for r in path if r[PULL] is not None and _zero_partial(r)), None)
    if zero is not None:
        return f"Zero: {_where(zero)} has derivative 0 everywhere, though it connects the two."
    names = " <- ".join(_name(r) for r in path if r[PULL] is not None)
    return f"Connected: {names}."


def _unwatched(x: Any) -> str:
    if isinstance(x, Variable):
        if not x.trainable:
            return (
                f"None: {x.name} is not trainable, so it is watched only if tape.watch is called on it "
                "inside the block."
            )
        return (
            f"None: {x.name} was not read inside the block, or the tape was made with watch_accessed_variables=False."
        )
    return (
        "None: the source is not watched. Call tape.watch(x) inside the block, before x is used; "
        "an equal tensor is another source."
    )


def _path(session: Session, start: Record, end: Record) -> list[Record] | None:
    """Records from `start` back to `end`, by way of differentiable arguments."""
    came: dict[int, Record | None] = {start[SEQ]: None}
    by_seq = {start[SEQ]: start}
    pending = [start]
    while pending:
        r = pending.pop()
        if r is end:
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
    """A path that a check's trace knows may pass ops that have no derivative: name the one nearest to the source."""
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
                return (
                    f"None: the only way from the target to the source goes through {_where(after)}, "
                    "which has no derivative."
                )
    return (
        "None: no differentiable op leads from the source to the target. What lies between may be an op without a "
        "derivative (floor, round, argmax, a comparison, a cast to integers), stop_gradient, or a step through "
        ".numpy(); a tape with verify=True can name it."
    )


def _not_finite(r: Record) -> bool:
    trace = r[TRACE] if len(r) > TRACE else None
    values = [] if trace is None else [t._value for t in trace.inputs]
    if trace is not None:
        values.append(trace.output)
    else:
        kept = r[INS] if isinstance(r[INS], tuple) else (r[INS],)
        values = [getattr(v, "_value", v) for v in kept if v is not None]
    return any(
        not np.isfinite(np.asarray(v)).all()
        for v in values
        if not isinstance(v, tuple) and np.asarray(v).dtype.kind == "f"
    )


def _zero_partial(r: Record) -> bool:
    prim = r[PULL].prim
    return prim is not None and prim.partials is not None and all(prim.partials[i] == 0 for i in r[PULL].active)


def _name(r: Record) -> str:
    prim = r[PULL].prim
    return prim.name if prim is not None else f"output {r[PULL].index}"


def _where(r: Record) -> str:
    trace = r[TRACE] if len(r) > TRACE else None
    line = "" if trace is None else f" ({trace.line[0]}:{trace.line[1]} in {trace.line[2]})"
    return f"{_name(r)}{line}"
