"""Running and recording an op the general way.

`gtape.engine.fast.elementwise` makes the functions that users call. These functions leave every call that they cannot
handle quickly to `apply` and `record_one`. Both ways make the same records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from gtape import errors
from gtape.base import late
from gtape.base.half_precision import narrowed
from gtape.base.layout import FLOAT, make_layout
from gtape.declare.primitives import Primitive
from gtape.engine.fast.steps import Seen, remember
from gtape.engine.nesting import Nesting
from gtape.engine.rules import RuleStep, part_of, plan_for, world_for
from gtape.engine.worlds import NARROW, NUMPY, TAPE
from gtape.recording import record
from gtape.recording.record import STEP, TAPES
from gtape.recording.trace import Trace, note_params
from gtape.tensors.operands import FAILURES, check_dtypes, failure, operands, promoted, text_as_array
from gtape.tensors.tensor import Tensor, wrap

__all__ = ["apply", "attach", "connections", "kernel_of", "new_record", "record_any", "record_one", "refuse"]

_float32 = np.dtype(np.float32)


def _run(stack: record.Stack, function: Any, *args: Any, **params: Any) -> Any:
    try:
        return stack.run(function, *args, **params)
    except RuntimeError as e:
        return record.adopt_thread(e).run(function, *args, **params)


def refuse(prim: Primitive, tensors: list[Tensor]) -> Any:
    """Run an op for a generated function whose operands are not floats."""
    if tensors[0]._layout.narrow:
        return _apply_narrow(prim, tensors, {})
    as_floats = promoted(prim, tensors)
    if as_floats is not None:
        return prim.function(*as_floats)
    check_dtypes(prim, tensors)
    return apply(prim, tuple(tensors), {})


def _apply_narrow(prim: Primitive, tensors: Sequence[Tensor], params: dict[str, Any]) -> Any:
    """Run and record an op on half precision: computed in float32, and rounded once."""
    stack = record.peek() or record.idle_stack()
    values = [t._value.astype(_float32) if t._layout.narrow else t._value for t in tensors]
    dtype = next(t._layout.dtype for t in tensors if t._layout.narrow)
    try:
        y = _run(stack, prim.kernel, *values, **params)
        # In the quiet context, like a kernel, because rounding may overflow.
        y = _run(stack, narrowed, y, dtype)
    except FAILURES as e:
        raise failure(prim, tuple(tensors), e, params) from None
    outs: Any = tuple([wrap(v) for v in y]) if y.__class__ is tuple else wrap(y)
    return record_one(stack, prim, tensors, params, outs, NARROW) if stack.sessions else outs


def kernel_of(prim: Primitive, tensors: Any) -> Any:
    """The kernel that computes an op on operands of these dtypes; None for an op that is made of other ops there."""
    if not any([t._layout.no_kernel for t in tensors]):  # noqa: C419 - a list is quicker
        return prim.kernel
    if any([t._layout.complex for t in tensors]):  # noqa: C419 - a list is quicker
        how = prim.complex
        return None if how.__class__ is str else how if callable(how) else prim.kernel
    return prim.kernel if "conversion" in prim.roles else None


def _apply_special(prim: Primitive, tensors: Any, params: dict[str, Any]) -> Any:
    """Run and record an op on complex numbers or half precision."""
    narrow = not any([t._layout.complex for t in tensors])  # noqa: C419 - a list is quicker
    how = None if narrow else prim.complex
    if not narrow and not how:
        raise errors.InvalidArgumentError(
            f"{prim.name} is not defined for {tensors[0].dtype.name} tensors: take gtape.math.real, imag or abs first"
        )
    check_dtypes(prim, tensors)
    kernel = kernel_of(prim, tensors)
    if kernel is None:
        if narrow:
            return _apply_narrow(prim, tensors, params)
        return getattr(late.complex_parts, cast("str", how))(*tensors, **params)
    stack = record.peek() or record.idle_stack()
    try:
        y = _run(stack, kernel, *[t._value for t in tensors], **params)
    except FAILURES as e:
        raise failure(prim, tensors, e, params) from None
    outs: Any = tuple([wrap(v) for v in y]) if y.__class__ is tuple else wrap(y)
    return record_any(stack, prim, tensors, params, outs) if stack.sessions else outs


def apply(prim: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Run a primitive on operands of any kind and record the op: the general way.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If dtypes or shapes do not fit.
    """
    tensors: Any = args
    for a in args:
        if a.__class__ is not Tensor:
            tensors = operands(*args)
            for t in tensors:
                if t.__class__ is not Tensor:
                    return t.applied(prim, tensors, params)
            break
    if prim.kind == "elementwise":
        first = tensors[0]._layout.dtype
        for t in tensors:
            if t._layout.dtype is not first or not t._layout.real:
                if any(u._layout.no_kernel for u in tensors):
                    return _apply_special(prim, tensors, params)
                check_dtypes(prim, tensors)
                break
        if prim.promotes:
            tensors = promoted(prim, tensors) or tensors
    elif any(t._layout.no_kernel for t in tensors):
        return _apply_special(prim, tensors, params)
    elif len(tensors) > 1:
        check_dtypes(prim, tensors)
    stack = record.peek() or record.idle_stack()
    values = [np.float64(t._value) if t._layout is FLOAT else t._value for t in tensors]
    try:
        y = _run(stack, prim.kernel, *values, **params)
    except FAILURES as e:
        if not any([v.__class__ is bytes for v in values]):  # noqa: C419
            raise failure(prim, tensors, e, params) from None
        try:
            y = _run(stack, prim.kernel, *map(text_as_array, values), **params)
        except FAILURES as again:
            raise failure(prim, tensors, again, params) from None
    if y.__class__ is tuple:
        outs = tuple([wrap(v) for v in y])
        return record_one(stack, prim, tensors, params, outs)
    if y.__class__ is np.ndarray and y.ndim:
        out = Tensor()
        out._value = y
        out._layout = make_layout(y.dtype, y.shape)
        out._record = None
    else:
        out = wrap(y)
    if stack.sessions:
        return record_one(stack, prim, tensors, params, out)
    return out


def record_one(
    stack: record.Stack,
    prim: Primitive,
    tensors: Sequence[Tensor],
    params: dict[str, Any],
    out: Any,
    world: Any = NUMPY,
) -> Any:
    """Record one op with every active tape that watches one of its inputs; returns `out`.

    `world` is NARROW for an op on half precision.
    """
    if stack.probe is not None:
        record.note_read(stack, tensors)
    recording = stack.recording
    if stack.tapes is not recording or out.__class__ is tuple or prim.sparse is not None:
        if stack.push is not None and stack.push(stack, prim, tensors, params, out):
            return out
        return record_any(stack, prim, tensors, params, out)
    # The usual case: no check and no forward mode.
    active = []
    parents = []
    i = 0
    for t in tensors:
        r = t._record
        if r is not None:
            if r[TAPES] is recording:
                if t._layout.inexact and prim.connected(i):
                    active.append(i)
                    parents.append(r)
            elif r[TAPES] is not record.NO_TAPES:
                return record_any(stack, prim, tensors, params, out)
        i += 1
    if not active or not out._layout.inexact:
        return out if active or prim.differentiable else record_any(stack, prim, tensors, params, out)
    plan = plan_for(prim, tuple(active), i)
    layouts = tuple([t._layout for t in tensors])
    if params:
        step = RuleStep(prim, plan.active, params, layouts, out._layout, world)
    else:
        found = plan.known.get(layouts)
        if found is None:
            found = remember(plan.known, layouts, Seen([RuleStep(prim, plan.active, {}, layouts, out._layout, world)]))
        if found.calls_left:
            found.meet(stack)
        step = found.steps[0]
    if prim.selects:
        stack.selects()
    keep = plan.keep if world is NUMPY else plan.keep_narrow
    ins = None if keep is None else tuple([t if keep[k] else None for k, t in enumerate(tensors)])
    out._record = new_record(step, parents, ins, out._value if plan.reads_y else None, recording)
    if stack.note is not None:
        stack.note(out)
    return out


def new_record(step: Any, parents: list[record.Record], ins: Any, out: Any, tapes: record.TapeSet) -> record.Record:
    """A new record in the general form."""
    n = len(parents)
    if n == 1:
        return [next(record.count), None, step, parents[0], ins, out, tapes, None]
    if n == 2:
        return [next(record.count), None, step, parents[0], ins, out, tapes, parents[1]]
    return [next(record.count), None, step, tuple(parents), ins, out, tapes, record.SEVERAL]


def connections(
    stack: record.Stack, prim: Any, tensors: Sequence[Tensor], smooth: bool = True
) -> tuple[tuple[int, ...], list[record.Record], record.TapeSet, record.TapeSet]:
    """The inputs, records and sessions that a call depends on.

    Returns
    -------
    active : tuple of int
        The indices of the inputs that get a gradient.
    parents : list of Record
        The records of these inputs.
    tapes : TapeSet
        The sessions that record the call. They also record ops without derivatives, whose results may be sources.
    idle : TapeSet
        The sessions for which the result is a constant that only a check follows. If no input gets a gradient, these
        are the sessions that record the call.
    """
    active = []
    parents = []
    tapes = idle = record.NO_TAPES
    stand_by = False
    traced = stack.trace
    for i, t in enumerate(tensors):
        r = t._record
        if r is None:
            continue
        if traced:
            idle = stack.join(idle, stack.meet(record.idle_in(r)))
        mine = stack.meet(r[TAPES])
        if not mine.sessions:
            continue
        varies = smooth and t._layout.inexact and not (traced and record.for_a_check_alone(r))
        if varies and prim.connected(i):
            active.append(i)
            parents.append(r)
        elif varies and not prim.differentiable and "stop" not in prim.roles:
            stand_by = True  # the inputs get no gradient, but the result may be a source
        else:
            if traced:
                idle = stack.join(idle, mine)
            continue
        tapes = stack.join(tapes, mine)
    if active or stand_by:
        return tuple(active), parents, tapes, stack.without(idle, tapes)
    return (), parents, idle, idle


def _chosen_along(
    stack: record.Stack, along: Callable[..., Any], x: Tensor, params: dict[str, Any], out: Any
) -> Any:  # fmt: skip
    """The outputs for the direction in which forward mode moves the input; `out` itself without a direction.

    With two accumulators the direction of either will do, because second derivatives are symmetric.
    """
    direction = None
    for session in stack.sessions:
        tangent = None if session.forward is None else session.forward.tangent(x)
        if tangent is not None and direction is None:
            direction = tangent
    if direction is None:
        return out
    return along(TAPE, out, direction, Nesting(stack, x), **params)


def record_any(
    stack: record.Stack, prim: Primitive, tensors: Sequence[Tensor], params: dict[str, Any], out: Any
) -> Any:
    """`record_one` for several tapes, several outputs, checks, forward mode and lookups."""
    if stack.probe is not None:
        record.note_read(stack, tensors)
    several = out.__class__ is tuple
    if several and prim.along is not None:
        out = _chosen_along(stack, prim.along, tensors[0], params, out)
        stack = record.get_stack()  # because an accumulator may have opened a session
    outs: tuple[Tensor, ...] = out if several else (out,)
    if not stack.sessions:
        return out
    smooth = any([o._layout.inexact for o in outs])  # noqa: C419 - a list is quicker
    active, parents, tapes, idle = connections(stack, prim, tensors, smooth)
    if not tapes.sessions:
        return out
    plan = plan_for(prim, active, len(tensors))
    layouts = tuple([t._layout for t in tensors])
    out_layout = tuple([o._layout for o in outs]) if several else out._layout
    step = plan.general.get(layouts)
    if step is None or params or step.out_layout is not out_layout:
        step = RuleStep(prim, plan.active, params, layouts, out_layout, world_for(prim, layouts))
        if not (params or several):
            remember(plan.general, layouts, step)
    values: Any = tuple([o._value for o in outs]) if several else out._value
    trace = None
    if stack.trace:
        # A check keeps all values, and a rule swapped in later may read more than the declared rule.
        ins: Any = tuple(tensors)
        made = new_record(step, parents, ins, values, tapes)
        trace = Trace(ins, values, stack)
        trace.idle = idle
        if params:
            note_params(stack, params)
    else:
        keep = plan.keep_narrow if step.world is NARROW else plan.keep
        ins = None if keep is None else tuple([t if kept else None for t, kept in zip(tensors, keep, strict=True)])
        made = new_record(step, parents, ins, values if plan.reads_y else None, tapes)
    attach(stack, made, tensors, out, trace)
    return out


def attach(stack: record.Stack, made: record.Record, tensors: Sequence[Tensor], out: Any, trace: Any) -> None:
    """Give the outputs their record. Pass them to the sessions that hold the record."""
    step, tapes = made[STEP], made[TAPES]
    prim = step.prim
    several = out.__class__ is tuple
    outs: tuple[Tensor, ...] = out if several else (out,)
    custom = prim.kind == "custom"
    if several or prim.selects or custom:  # first, because an interrupt may follow the first assignment below
        special = several or custom or prim.sparse is not None
        for session in tapes.sessions:
            session.selects = True
            session.special = session.special or special
            session.custom = session.custom or custom
    for parent in record.parents_of(made):
        if parent[TAPES] is not tapes and not tapes.sessions <= parent[TAPES].sessions:
            for session in tapes.sessions:
                session.mixed = True
    if trace is not None:
        made.append(trace)
    if several:
        step.items = tuple([(next(record.count), {}) if o._layout.inexact else None for o in outs])
        for i, o in enumerate(outs):
            if step.items[i] is not None:
                o._record = part_of(made, i)
    else:
        out._record = made
    for session in stack.sessions:  # outer ones first, because an inner tangent may read the output's outer tangent
        if session not in tapes.sessions:
            continue
        if session.forward is not None:
            session.forward.advance(prim, tensors, step.params, out, made)
        for o in outs:
            session.track(o)
    if trace is None and all([s.forward is not None for s in tapes.sessions]):  # noqa: C419
        # Only forward mode holds the record, and no tape will sweep over it, so the values for rules can be freed.
        for r in [made, *[o._record for o in outs if o._record is not None]] if several else (made,):
            record.forget_parents(r)
