"""Gradients of targets by sources: selects the sweep, then checks and notes its results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gtape.base import late
from gtape.engine.fast.recorded import recorded_sweep, takes_recorded_sweep
from gtape.engine.full_sweep import full_sweep, is_finite, runner_for
from gtape.engine.requests import result_of
from gtape.engine.sweep import keeping, short_sweep
from gtape.engine.whole_calls import is_part_of_call, put_ops_behind, split_calls
from gtape.engine.worlds import NUMPY, TAPE
from gtape.errors import InvalidArgumentError
from gtape.recording import record
from gtape.recording.record import STEP, TAPES, Session, Stack, record_of

__all__ = ["differentiate"]


def differentiate(
    session: Session,
    targets: list[Any],
    seeds: list[Any],
    sources: list[Any],
    *,
    persistent: bool,
    mode: Callable[[], Any],
    stops: frozenset[int] = frozenset(),
) -> list[Any]:
    """Gradients of targets by sources.

    Parameters
    ----------
    session : Session
        The session of the tape.
    targets, seeds : list of tensors or variables
        The values to differentiate, and their cotangents; None for a target without a gradient.
    sources : list of tensors or variables
    persistent : bool
        Whether the records are kept.
    mode : callable
        Returns whether results are checked: a false value, True, "strict" or Options. Called only if a trace is kept.
    stops : set of int
        Sequence numbers of records that count as leaves.

    Returns
    -------
    list
        For each source a tensor or IndexedSlices; None for an unconnected source.
    """
    start = [(record_of(t), g) for t, g in zip(targets, seeds, strict=True)]
    source_records = [record_of(s) for s in sources]
    start = [(r, g) for r, g in start if g is not None]
    if session.several and (session.split or stops or any([is_part_of_call(r) for r in source_records])):  # noqa: C419
        split_calls([*[r for r, _ in start], *source_records])
    if session.calls and session.inside is not None:  # the backward ops are recorded, too, between those of the calls
        put_ops_behind([r for r, _ in start])
    stack = record.get_stack()
    if stack.probe is not None:
        record.note_asked([*targets, *sources])
    foreign = any([session not in r[TAPES].sessions and r[STEP] is not None for r, _ in start])  # noqa: C419
    if not (stack.sessions or session.trace or foreign or stops or session.stops) and _takes_short(session, stack):
        keep = persistent or session.selects
        made = _in_short(session, stack, [(r, g._value) for r, g in start], source_records, keep)
        if made is not None and not (session.selects and not all([is_finite(c) for c in made])):  # noqa: C419
            if keep and not persistent:
                record.clear_below([r for r, _ in start], spare=False)
            return [result_of(c, s) for c, s in zip(made, sources, strict=True)]
    short: tuple[list[Any], list[record.Record]] | None = None
    if takes_recorded_sweep(session, stack) and not (foreign or stops):
        short = recorded_sweep(session, start, source_records, stack, ends=not persistent)
    if short is not None:
        made, visited = short
    else:
        try:
            made, visited = _in_full(session, stack, start, source_records, stops)
        except InvalidArgumentError:
            if session.trace and (checked := mode()):
                late.flag.check_shapes(session, targets, sources, mode=checked)
            raise
    results = [result_of(c, s) for c, s in zip(made, sources, strict=True)]
    if session.trace or stack.trace:
        results = _checked(session, targets, start, sources, results, stack, mode(), stops)
    if not persistent:
        try:
            session.live = False
            # A check may still need what only this tape recorded, see `gtape.recording.record.idle_in`.
            _empty_alone(visited, needed=any([s.trace for s in session.beside]))  # noqa: C419
        finally:
            session.live = True  # until the session is closed
    return results


def _empty_alone(visited: list[record.Record], *, needed: bool) -> None:
    """Empty the records of ops that no open session holds. With `needed`, none that an open session knows as idle."""
    known: dict[record.TapeSet, bool] = {}
    for r in visited:
        if r[STEP] is not None:
            is_open = known.get(r[TAPES])
            if is_open is None:
                is_open = known[r[TAPES]] = any([s.live for s in r[TAPES].sessions])  # noqa: C419 - a list is quicker
            if not (is_open or (needed and record.is_live(record.idle_in(r)))):
                record.empty(r)


def _takes_short(session: Session, stack: Stack) -> bool:
    """Whether the short sweep can pass the records.

    After a selecting op a sweep may have to be repeated with masks. A check of all kernels would raise an error before.
    """
    return session.is_simple() and not (session.selects and hasattr(stack.run, "in_place"))


def _in_short(session: Session, stack: Stack, seeds: list[Any], sources: list[Any], keep: bool) -> list[Any] | None:
    """Cotangents by the short sweep; None if another sweep keeps its cotangents in records."""
    if not keep:
        return stack.run(short_sweep, seeds, sources)  # type: ignore[no-any-return]
    sweep = [session]
    whole = False
    try:
        if not keeping.take(sweep):
            whole = True
            return None  # another thread sweeps, and the full sweep leaves records unchanged
        made: list[Any] = stack.run(short_sweep, seeds, sources, keep=True)
        whole = True
        return made
    finally:
        if not whole:
            # The records may hold cotangents. The session needs the full sweep from now on, which ignores them.
            session.shared = True
        if keeping.sweep is sweep:
            keeping.sweep = None


def _in_full(
    session: Session, stack: Stack, start: list[Any], sources: list[Any], stops: frozenset[int]
) -> tuple[list[Any], list[record.Record]]:
    """Cotangents by the full sweep, and the records that the sweep visited."""
    if stack.sessions:
        return full_sweep(TAPE, session, start, sources, masked=True, stops=stops)
    raw = [(r, g._value) for r, g in start]
    run = runner_for(stack, session)
    made, visited = run(full_sweep, NUMPY, session, raw, sources, stops=stops)
    if session.selects and not all(is_finite(c) for c in made):
        made, visited = run(full_sweep, NUMPY, session, raw, sources, masked=True, stops=stops)
    return made, visited


def _checked(
    session: Session, targets: list[Any], start: Any, sources: list[Any], results: list[Any], stack: Stack, mode: Any,
    stops: frozenset[int],
) -> list[Any]:  # fmt: skip
    if mode:
        late.flag.check_gradient(session, targets, start, sources, results, mode=mode, stops=stops)
    if stack.trace:
        from gtape.engine.gradient_nodes import note_gradients

        results = note_gradients(session, [r for r, _ in start], [c for _, c in start], sources, results)
    return results
