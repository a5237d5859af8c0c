"""Marks derivatives taken under an outer tape with their targets and sources, for the oracle of the outer tape."""

from __future__ import annotations

from typing import Any

from gtape.declare.primitives import REGISTRY
from gtape.engine.call import attach, new_record, record_one
from gtape.engine.rules import RuleStep, world_for
from gtape.recording import record
from gtape.recording.record import INS, PARENTS, SEQ, STEP, TAPES, TRACE
from gtape.recording.trace import GradNode, Trace
from gtape.tensors.indexed_slices import IndexedSlices
from gtape.tensors.tensor import Tensor, wrap

__all__ = ["note_gradients"]


def note_gradients(
    session: Any,
    targets: list[Any],
    given: list[Any],
    sources: list[Any],
    results: list[Any],
    form: str = "gradient",
    since: int | None = None,
) -> list[Any]:
    """Give each tensor of a derivative a `GradNode` with its targets and sources, for the oracle of an outer tape.

    Parameters
    ----------
    session : Session
        The session of the tape or accumulator that took the derivative.
    targets : list of Record
    given : list of tensors
        The cotangents of the targets of a gradient, or the tangents of the sources of a jvp.
    sources, results : lists of tensors or variables
    form : {"gradient", "jacobian", "batch_jacobian", "jvp"}
    since : int, optional
        A sequence number older than all ops of the derivative. By default the number of the newest target.

    Returns
    -------
    list
        The results. Those that an outer tape recorded are replaced by other tensors with the same values.
    """
    stack = record.get_stack()
    slices = {i: g for i, g in enumerate(results) if isinstance(g, IndexedSlices)}
    # The oracle follows the dense gradient, because the places of the rows may depend on the point.
    results = [g._as_tensor() if i in slices else g for i, g in enumerate(results)]
    values = [*given, *[g for g in results if isinstance(g, Tensor)]]
    since = min((r[SEQ] for r in targets), default=0) if since is None else since
    checkers = {s for s in stack.sessions if s.trace and s is not session}
    kept, known = _kept_after(session, targets + [t._record for t in values], since, checkers)
    if not known:  # the ops of the derivative are followed one by one
        return [slices.get(i, g) for i, g in enumerate(results)]
    ended = {id(v): r for r in kept.values() if (v := _value_of(r)) is not None}
    for s in stack.sessions if ended else ():
        if s.trace:
            if not s.ended:
                s.ended = {}
            s.ended.update(ended)
    targets = [kept.get(r[SEQ], r) for r in targets]
    along, of = [[_origin(x, kept) for x in xs] for xs in (given, sources)]
    marked = []
    for i, g in enumerate(results):
        if not isinstance(g, Tensor):
            marked.append(g)
            continue
        if g._record is None or not stack.meet(g._record[TAPES]).sessions:
            t = _for_checks_alone(stack, session, targets, g)
            if t is not None:
                t._record[TRACE].body = GradNode(targets, along, of, i, session, form)
            marked.append(slices.get(i, g) if t is None or i in slices else t)
            continue
        t = record_one(stack, REGISTRY["identity"], (g,), {}, wrap(g._value))
        if t._record is not None and len(t._record) > TRACE and t._record[TRACE] is not None:
            t._record[TRACE].body = GradNode(targets, along, of, i, session, form)
        marked.append(_with_whole(slices[i], t) if i in slices else t)
    return marked


def _for_checks_alone(stack: Any, session: Any, targets: list[Any], g: Tensor) -> Tensor | None:
    """A constant gradient as a result that only checks follow; None if no checked outer tape has the targets.

    For an outer tape a gradient that a custom gradient computes through NumPy is a constant, although it may depend on
    the inputs. `check` finds such a gradient by its rows without a record, see `gtape.verify.judging.unrecorded`.
    """
    tapes = record.NO_TAPES
    for r in targets:
        tapes = stack.join(tapes, stack.meet(r[TAPES]))
    if not any(s.trace and not s.of_check and s is not session for s in tapes.sessions) or not g._layout.inexact:
        return None
    identity = REGISTRY["identity"]
    t = wrap(g._value)
    step = RuleStep(identity, (), {}, (g._layout,), t._layout, world_for(identity, (g._layout,)))
    made = new_record(step, [], (g,), t._value, tapes)
    trace = Trace((g,), t._value, stack)
    trace.idle = tapes
    attach(stack, made, (g,), t, trace)
    return t


def _with_whole(slices: IndexedSlices, whole: Tensor) -> IndexedSlices:
    """The same slices, with a tensor that stands for the whole array."""
    made = IndexedSlices(slices.values, slices.indices, slices.dense_shape)
    made._whole_gradient = whole
    return made


def _origin(x: Any, kept: dict[int, Any]) -> tuple[Any, Any]:
    r = x._record
    return (r if r is None else kept.get(r[SEQ], r)), x._value


def _value_of(r: Any) -> Any:
    """The value of a traced record; None if the op has several outputs."""
    if record.step_of(r).prim is None:
        parent = r[PARENTS]
        trace = parent[TRACE] if len(parent) > TRACE else None
        return None if trace is None else trace.output[record.step_of(r).index]
    trace = r[TRACE] if len(r) > TRACE else None
    return None if trace is None or trace.output.__class__ is tuple else trace.output


def _kept_after(session: Any, records: list[Any], since: int, checkers: set[Any]) -> tuple[dict[int, Any], bool]:
    """Copies of records that end before a check, by number, and whether a check knows all records of the session.

    The traces of the consumers point at the copies. A check knows no ops from before it began, or while it was paused.

    A value that only inner tapes watched is a constant for the checked tape. But the inner gradient depends on the
    value, so the oracle needs the ops that made it. Records end with the last session that holds them. This session, or
    another one, may end before one of the `checkers`, which are the sessions that may be checked later.

    The walk follows only records of the session and records newer than a limit: ops of the gradient are newer than its
    targets, and ops of a custom gradient's body are newer than its inputs. The limit exists because repeated walks over
    a long history would take too long.
    """
    seen: dict[int, Any] = {}
    pending = [(r, since) for r in records if r is not None]
    while pending:
        r, limit = pending.pop()
        old = seen.get(r[SEQ])
        if old is not None and (old[STEP] is not None or r[STEP] is None):
            continue  # a leaf may stand for the record of the same number, see the anchors of `gtape.engine.full_sweep`
        seen[r[SEQ]] = r
        for part, new in _origins(r, limit):
            for p in part:
                if p is not None and (p[SEQ] < new or session in p[TAPES].sessions):
                    pending.append((p, new))
    if any(r[STEP] is not None and session in r[TAPES].sessions and not _is_traced(r) for r in seen.values()):
        return {}, False
    kept = {
        number: list(r)
        for number, r in seen.items()
        if r[STEP] is not None
        and (not checkers <= r[TAPES].sessions or not any(s.live and s is not session for s in r[TAPES].sessions))
    }
    for number, r in seen.items():
        trace = r[TRACE] if len(r) > TRACE else None
        if trace is not None:
            for p in (*trace.origins, *trace.body_origins):  # because later sweeps read the anchors, too
                if p is not None and p[STEP] is None and p[INS] is not None and p[SEQ] in kept:
                    p[INS] = kept[p[SEQ]]
            trace.origins, trace.body_origins = (
                tuple([p if p is None else kept.get(p[SEQ]) or _meant(p) for p in origins])
                for origins in (trace.origins, trace.body_origins)
            )
            if isinstance(trace.body, GradNode):
                _point_at(trace.body, kept)
        elif number in kept and record.step_of(r).prim is None:  # one output of several
            parent = r[PARENTS]
            kept[number][PARENTS] = kept.get(parent[SEQ], parent)
    return kept, True


def _is_traced(r: Any) -> bool:
    """Whether a check knows how the value of an op's record was computed."""
    if record.step_of(r).prim is None:  # one output of several
        r = r[PARENTS]
    return len(r) > TRACE and r[TRACE] is not None


def _point_at(body: GradNode, kept: dict[int, Any]) -> None:
    """Make an inner gradient point at copies. In place, because all results of one call share the lists."""
    body.targets[:] = [kept.get(r[SEQ], r) for r in body.targets]
    for pairs in (body.given, body.sources):
        pairs[:] = [(r if r is None else kept.get(r[SEQ], r), value) for r, value in pairs]


def _meant(r: Any) -> Any:
    """The record that an anchor of `full_sweep` stands for, if not emptied. Any other record stays unchanged."""
    meant = r[INS] if r[STEP] is None else None
    return r if meant is None or meant[STEP] is None else meant


def _origins(r: Any, limit: int) -> list[tuple[tuple[Any, ...], int]]:
    """Groups of records that `r` depends on, each with its limit. Numbers count down, so newer ones are smaller."""
    trace = r[TRACE] if len(r) > TRACE else None
    if trace is not None:
        groups = [(trace.origins, limit)]
        if trace.body_origins:
            groups.append((trace.body_origins, min((p[SEQ] for p in trace.origins if p is not None), default=0)))
        if isinstance(trace.body, GradNode):  # because its backward ops may not read the inputs of its targets
            body = trace.body
            groups.append(((*body.targets, *[r for r, _ in (*body.given, *body.sources)]), limit))
        return groups
    if r[STEP] is not None and record.step_of(r).prim is None:
        return [((r[PARENTS],), limit)]
    return []
