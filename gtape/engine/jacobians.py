"""Jacobians: one sweep with a cotangent for each element of the target, stacked along a leading axis.

For complex sources, each row is the gradient of one element, conjugated as TensorFlow does.
"""

from __future__ import annotations

import math
from types import BuiltinMethodType
from typing import Any

import numpy as np

from gtape.base import late
from gtape.engine.diagonal_start import dense, diagonal_start
from gtape.engine.fast.steps import step_for_rows
from gtape.engine.full_sweep import full_sweep, is_finite, runner_for, stack_in
from gtape.engine.requests import conjugate
from gtape.engine.rules import RuleStep
from gtape.engine.sweep import short_sweep
from gtape.engine.whole_calls import put_ops_behind, split_calls
from gtape.engine.worlds import NUMPY, TAPE
from gtape.errors import InvalidArgumentError
from gtape.recording import record
from gtape.recording.record import OTHER, PARENTS, SEQ, STEP, TAPES, Record, Session, TapeSet, record_of, step_of
from gtape.tensors.tensor import Tensor, wrap

__all__ = ["batch_jacobian", "from_identity", "jacobians", "release"]


def jacobians(session: Session, target: Any, sources: list[Any], mode: Any) -> list[Any]:
    """The Jacobian of one target with respect to each source; None for an unconnected source."""
    layout = target._layout
    if not layout.inexact:
        return [None] * len(sources)
    made = _told(session, target, None, sources, mode)
    results: list[Any] = []
    for c, s in zip(made, sources, strict=True):
        if c is None or not s._layout.inexact:
            results.append(None)
            continue
        shape = layout.shape + s._layout.shape
        if c.__class__ is Tensor:
            rows = TAPE.reshape(c, shape=shape)
        else:
            rows = wrap(c.reshape(shape) if c.__class__ is np.ndarray else np.reshape(c, shape))
        results.append(conjugate(rows) if s._layout.complex else rows)
    if mode:
        late.flag.check_jacobian(session, target, sources, results, mode=mode)
    return _noted(session, target, sources, results, "jacobian")


def batch_jacobian(session: Session, target: Any, source: Any, mode: Any) -> Tensor:
    """The Jacobian of each row of a target with respect to the same row of a source."""
    rows, *inner = target._layout.shape
    size = math.prod(inner)
    # The seeds have a cotangent for each element of a row, set in all rows at once.
    eye = np.eye(size, dtype=target._layout.dtype).reshape(size, 1, *inner)
    seed = np.array(np.broadcast_to(eye, (size, rows, *inner)))
    made = _told(session, target, seed, [source], mode)[0] if target._layout.inexact and size else None
    if made is None or not source._layout.inexact:
        if mode and target._layout.inexact:
            late.flag.check_jacobian(session, target, [source], [None], mode=mode)
        return wrap(np.zeros((rows, *inner, *source._layout.shape[1:]), source._layout.dtype))
    axes = (1, 0, *range(2, 1 + len(source._layout.shape)))
    world: Any = TAPE if isinstance(made, Tensor) else NUMPY
    turned = world.reshape(world.transpose(made, perm=axes), shape=(rows, *inner, *source._layout.shape[1:]))
    result: Tensor = turned if world is TAPE else wrap(turned)
    if source._layout.complex:
        result = conjugate(result)
    if mode:
        late.flag.check_batch_jacobian(session, target, source, result, mode=mode)
    noted: Tensor = _noted(session, target, [source], [result], "batch_jacobian")[0]
    return noted


def _noted(session: Session, target: Any, sources: list[Any], results: list[Any], form: str) -> list[Any]:
    """The results, marked for the check of an outer tape if there is an outer tape."""
    if not record.get_stack().trace:
        return results
    from gtape.engine.gradient_nodes import note_gradients

    return note_gradients(session, [record_of(target)], [], sources, results, form)


def release(session: Session, start: Any) -> None:
    """Empty the records that led to a target, except records of other open sessions."""
    try:
        session.live = False
        record.clear_below([start], spare=True)
    finally:
        session.live = True


def _told(session: Session, target: Any, seed: Any, sources: list[Any], mode: Any) -> list[Any]:
    """The same as `_batched_sweep`. In a check, errors name the op with a wrong shape."""
    try:
        made = _batched_sweep(session, target, seed, sources)
        for c, s in zip(made, sources, strict=True):
            if c is None or not s._layout.inexact:
                continue
            have = c._layout.shape if isinstance(c, Tensor) else c.shape
            if have[1:] != s._layout.shape:  # otherwise `reshape` would hide a wrong rule
                raise InvalidArgumentError(
                    f"a rule gives a cotangent of shape {list(have[1:])} for a source of shape {list(s._layout.shape)}"
                )
        return made
    except InvalidArgumentError:
        if mode:
            late.flag.check_shapes(session, [target], sources, mode=mode)
        raise


def _batched_sweep(session: Session, target: Any, seed: Any, sources: list[Any]) -> list[Any]:
    """Cotangents of the sources for stacked cotangents of one target. The seed None stands for the identity."""
    stack = record.get_stack()
    if stack.probe is not None:
        record.note_asked([target, *sources])
    source_records = [record_of(s) for s in sources]
    start = record_of(target)
    world, run = (TAPE, record.directly) if stack.sessions else (NUMPY, runner_for(stack, session))
    # The condition holds also if results are tracked for now, because the sign of a zero must not depend on results
    # that outlived former tapes. A persistent tape keeps its records, which these sweeps would empty.
    alone = session.plain or (session.tracks_for_now and not session.trace)
    usual = alone and not stack.sessions and session.is_simple()
    if usual and session.several:
        split_calls([start, *source_records])  # at once, because the short sweep knows a source by its one record
        usual = session.is_simple()
    rows = len(seed) if seed is not None else target._layout.size
    if usual and takes_rows(session, start, rows if run.__class__ is BuiltinMethodType else None):
        # The records are kept, because another sweep may follow. No other thread sweeps a tape that is used up.
        if seed is None:
            made = run(from_identity, start, target._layout, source_records)
        else:
            made = run(short_sweep, [(start, seed)], source_records, keep=True, batch=rows)
    else:
        whole = _identity(target._layout) if seed is None else seed
        made = run(full_sweep, world, session, [(start, _lift(world, whole))], source_records, batch=len(whole))[0]
    if not all(is_finite(c) for c in made):
        # Masks, which keep the zeros of the seeds and of selections, need one sweep for each cotangent.
        rows = [
            run(
                full_sweep, world, session, [(start, _lift(world, row))], source_records, masked=True, sparse=False,
                masks=[row != 0],
            )[0]
            for row in (_identity(target._layout) if seed is None else seed)
        ]  # fmt: skip
        made = [None if column[0] is None else stack_in(world, list(column)) for column in zip(*rows, strict=True)]
    return made  # type: ignore[no-any-return]


def takes_rows(session: Session, start: Record, rows: int | None) -> bool:
    """Whether every backward step from a record on accepts cotangents with one more leading axis.

    Steps of generated functions accept them, because these steps do not broadcast. Elementwise steps and rules declared
    as `batched` accept them, too. Whole calls are replaced by their ops. A function that is written for cotangents of
    one shape gives way to its step, or to a function for this number of rows. None stands for any number.
    """
    if session.calls:
        put_ops_behind([start])
        if session.shared:
            return False
    alone = session.alone
    seen = set()
    pending = [start]
    while pending:
        r = pending.pop()
        if r[STEP] is None or r[SEQ] in seen:
            continue
        seen.add(r[SEQ])
        step = step_of(r)
        if step.__class__ is not RuleStep or not (r[TAPES] is alone or _is_alone(session, r[TAPES])):
            return False
        if step.layouts is not None:
            if not step.takes_batches:
                return False
            r[STEP] = step if rows is None else step_for_rows(step, rows)
        parents = r[PARENTS]
        if parents.__class__ is list:
            pending.append(parents)
            if r[OTHER].__class__ is list:
                pending.append(r[OTHER])
        else:
            pending.extend(parents)
    return True


def _is_alone(session: Session, tapes: TapeSet) -> bool:
    """Whether a session is the only open session of a set."""
    return session in tapes.sessions and not any([s.live and s is not session for s in tapes.sessions])  # noqa: C419


def _identity(layout: Any) -> Any:
    return np.eye(layout.size, dtype=layout.dtype).reshape((layout.size, *layout.shape))


def from_identity(start: Record, layout: Any, sources: list[Record]) -> list[Any]:
    """The whole Jacobian for a single plain tape. The records are kept."""
    if layout.size < 2:
        return short_sweep([(start, _identity(layout))], sources, keep=True)
    seeds, found = diagonal_start(start, np.ones(layout.shape, layout.dtype), {s[SEQ] for s in sources})
    made = short_sweep(seeds, sources, keep=True)
    for i, s in enumerate(sources):
        d = found.get(s[SEQ])
        if d is not None:
            made[i] = dense(d) if made[i] is None else made[i] + dense(d)
    return made


def _lift(world: Any, value: Any) -> Any:
    return wrap(value) if world is TAPE else value
