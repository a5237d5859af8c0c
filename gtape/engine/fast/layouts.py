"""Functions of ops whose results may have another shape than their operands, fast for known layouts.

The shapes and dtypes of the operands and the axes of the op determine the kernel, the result's layout and the backward
step. They are found once and kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.base.layout import FLOAT, make_layout
from gtape.base.scalars import truth_of
from gtape.declare.primitives import Primitive
from gtape.engine.call import apply, record_one
from gtape.engine.fast.source import kernel_for
from gtape.engine.fast.steps import Seen, narrow_kernel, remember
from gtape.engine.rules import RuleStep, plan_for, world_for
from gtape.engine.worlds import NARROW, NUMPY, off_python
from gtape.recording import record
from gtape.recording.record import TAPES
from gtape.tensors.axes import axes_of
from gtape.tensors.operands import FAILURES, failure, operands, text_as_array
from gtape.tensors.tensor import Tensor, as_operand, wrap
from gtape.tensors.variable import Variable

__all__ = ["key_of", "one_operand", "two_operands"]

_count = record.count

# Parameters that determine the backward step, together with the shapes.
_LAYOUT = frozenset({"axis", "keepdims"})


def one_operand(prim: Primitive) -> Callable[..., Any]:
    """The function of a primitive with one argument that is not elementwise.

    After a swap of a kernel or rule, its attribute ``renew()`` renews the function.
    """
    kernel: Callable[..., Any]
    plain = keep = reads_y = selects = False
    peek, idle = record.peek, record.idle_stack
    ndarray = np.ndarray
    only = (0,)
    real_only = prim.complex is not True
    known: dict[Any, Seen] = prim.layouts.setdefault("params", {})

    def renew() -> None:
        nonlocal kernel, plain, keep, reads_y, selects
        kernel = prim.kernel
        plain = prim.connected(0) and prim.outputs == 1 and prim.sparse is None
        selects = prim.selects
        keep = reads_y = False
        if prim.connected(0):
            plan = plan_for(prim, only, 1)
            keep, reads_y = plan.keep is not None, plan.reads_y

    def function(x: Any, name: str | None = None, **params: Any) -> Any:
        if x.__class__ is not Tensor:
            x = as_operand(x)
            if x.__class__ is not Tensor:
                return x.applied(prim, (x,), params)
        s = peek() or idle()
        av = x._layout
        if av.no_kernel and (real_only or not av.complex):
            return apply(prim, (x,), params)
        key = key_of(av, params)
        found = None if key is None else known.get(key)
        try:
            if found is not None:
                v = s.run(found.kernel, x._value)
            else:
                v = s.run(kernel, np.float64(x._value) if av is FLOAT else x._value, **params)
        except FAILURES as e:
            if x._value.__class__ is not bytes:
                raise failure(prim, (x,), e, params) from None
            try:
                v = s.run(kernel, text_as_array(x._value), **params)
            except FAILURES as again:
                raise failure(prim, (x,), again, params) from None
        except RuntimeError as e:
            record.adopt_thread(e)
            return function(x, **params)
        if v.__class__ is ndarray and v.ndim:
            t = Tensor()
            t._value = v
            t._layout = (av.family.get(v.shape) if v.dtype is av.dtype else None) or make_layout(v.dtype, v.shape)
            t._record = None
        elif v.__class__ is tuple:
            return record_one(s, prim, (x,), params, tuple([wrap(part) for part in v]))
        else:
            t = wrap(v)
        r = x._record
        if r is None:
            return t
        if plain and r[TAPES] is s.tapes and t._layout.inexact and av.inexact:
            layout = t._layout
            if found is None or found.layout is not layout:
                found = Seen([RuleStep(prim, only, params, (av,), layout)], None, layout)
                if key is not None and av is not FLOAT and not av.no_kernel:
                    found.kernel = kernel_for(prim, (av,), params)
                    remember(known, key, found)
            if found.calls_left:
                found.meet(s)
            ins, out = (x,) if keep else None, t._value if reads_y else None
            t._record = [next(_count), None, found.steps[0], r, ins, out, s.tapes, None]
            if selects:
                s.selects()
            if s.note is not None:
                s.note(t)
            return t
        return record_one(s, prim, (x,), params, t) if s.sessions else t

    renew()
    function.__name__ = prim.name
    function.renew = renew  # type: ignore[attr-defined]
    if plain and len(prim.params) == 2 and _LAYOUT.issuperset(prim.params):
        function.along = _along_axes(prim, function)  # type: ignore[attr-defined]
    return function


def key_of(layout: Any, params: dict[str, Any]) -> Any:
    """A key for a layout and parameters; None if parameters hold more than integers, because 0.0 would find -0.0."""
    for v in params.values():
        if v.__class__ is tuple:
            if not _holds_integers(v):
                return None
        elif v.__class__ is not int and v.__class__ is not bool:
            return None
    return (layout, *params.items())


def _holds_integers(items: tuple[Any, ...]) -> bool:
    """Whether a tuple holds only integers, None, and tuples of these, such as the bounds of slices."""
    for n in items:
        if n.__class__ is not int and n is not None and not (n.__class__ is tuple and _holds_integers(n)):
            return False
    return True


def _is_plain(axis: Any, keepdims: Any) -> bool:
    """Whether both may be keys of `known`. 1.0 and True would find the entry of 1, and a list is not hashable."""
    return (axis is None or axis.__class__ is int) and keepdims.__class__ is bool


def _along_axes(prim: Primitive, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a reduction with `axis` as users give it, fast for known arguments."""
    keep = reads_y = True
    peek, idle = record.peek, record.idle_stack
    known: dict[Any, Seen] = prim.layouts.setdefault("axes", {})

    def learn(x: Tensor, axis: Any, keepdims: Any) -> Any:
        nonlocal keep, reads_y
        av = x._layout
        params = {"axis": axes_of(axis, len(av.shape)), "keepdims": truth_of(keepdims, prim.name, "keepdims")}
        t = function(x, **params)
        if x.__class__ is not Tensor:
            return t
        plan = plan_for(prim, (0,), 1)  # anew, because a swapped rule has a new plan (and clears `known`)
        keep, reads_y = plan.keep is not None, plan.reads_y
        if _is_plain(axis, keepdims) and (av.real or av.narrow) and av is not FLOAT:
            step = RuleStep(prim, plan.active, params, (av,), t._layout, world_for(prim, (av,)))
            made = narrow_kernel(prim, (av,), params) if av.narrow else kernel_for(prim, (av,), params)
            remember(known, (av, axis, keepdims), Seen([step], made, t._layout, params))
        return t

    def along(x: Tensor, axis: Any, keepdims: Any) -> Any:
        """Reduce a tensor of floats."""
        found = known.get((x._layout, axis, keepdims)) if _is_plain(axis, keepdims) else None
        if found is None:
            return learn(x, axis, keepdims)
        s = peek() or idle()
        try:
            v = s.run(found.kernel, x._value)
        except RuntimeError as e:
            record.adopt_thread(e)
            return along(x, axis, keepdims)
        t = Tensor()
        av = t._layout = found.layout
        t._value = v if av is not FLOAT else float(v)
        r = x._record
        if r is None:
            t._record = None
            return t
        if r[TAPES] is not s.tapes:
            t._record = None
            world = NARROW if av.narrow else NUMPY
            return record_one(s, prim, (x,), found.params, t, world) if s.sessions else t
        if found.calls_left:
            found.meet(s)
        ins, out = (x,) if keep else None, t._value if reads_y else None
        t._record = [next(_count), None, found.steps[0], r, ins, out, s.tapes, None]
        if s.note is not None:
            s.note(t)
        return t

    return along


def _beside_floats(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of arrays that also takes Python's floats."""
    if isinstance(kernel, np.ufunc):
        return kernel
    return lambda a, b: kernel(off_python(a), off_python(b))


def two_operands(prim: Primitive) -> Callable[..., Any]:
    """The function of a primitive with two arguments and no parameters. The result may have another shape.

    After a swap of a kernel or rule, its attribute ``renew()`` renews the function. Its attribute ``join(quick)`` lets
    `quick` handle variables whose values have the layout of the other operand.
    """
    kernel: Callable[..., Any]
    same: Callable[..., Any] | None = None
    plans: list[Any] = []
    selects = False
    peek, idle = record.peek, record.idle_stack
    ndarray = np.ndarray
    real_only = prim.complex is not True
    known: dict[tuple[Any, Any], Seen] = prim.layouts.setdefault("operands", {})

    def renew() -> None:
        nonlocal kernel, plans, selects
        kernel = prim.kernel
        selects = prim.selects
        plain = prim.outputs == 1 and prim.sparse is None
        plans = [
            plan_for(prim, active, 2) if all(prim.connected(i) for i in active) and plain else None
            for active in ((0,), (1,), (0, 1))
        ]

    def learn(ax: Any, ay: Any, v: Any) -> Seen:
        out = make_layout(v.dtype, v.shape)
        steps: list[Any] = [None, None, None]
        if out.inexact:
            steps = [None if p is None else RuleStep(prim, p.active, {}, (ax, ay), out) for p in plans]
        made = kernel_for(prim, (ax, ay), {})
        if ax is FLOAT or ay is FLOAT:
            made = _beside_floats(made)
        return remember(known, (ax, ay), Seen(steps, made, out))  # type: ignore[no-any-return]

    def function(x: Any, y: Any, name: str | None = None) -> Any:
        if x.__class__ is Variable or y.__class__ is Variable:
            if x.__class__ is Variable:
                x = x._as_tensor()
            if y.__class__ is Variable:
                y = y._as_tensor()
            if same is not None and x.__class__ is Tensor and y.__class__ is Tensor and x._layout is y._layout:
                return same(x, y)
        if y.__class__ is not Tensor or x.__class__ is not Tensor:
            x, y = operands(x, y)
            if y.__class__ is not Tensor or x.__class__ is not Tensor:
                return (x if x.__class__ is not Tensor else y).applied(prim, (x, y), {})
        ax = x._layout
        ay = y._layout
        found = known.get((ax, ay))
        s = peek() or idle()
        try:
            if found is not None:
                v = s.run(found.kernel, x._value, y._value)
            elif ax.dtype is not ay.dtype or not ax.inexact or (ax.no_kernel and (real_only or not ax.complex)):
                return apply(prim, (x, y), {})
            else:
                a, b = x._value, y._value
                a = np.float64(a) if ax is FLOAT else a
                b = np.float64(b) if ay is FLOAT else b
                v = s.run(kernel, a, b)
        except FAILURES as e:
            raise failure(prim, (x, y), e) from None
        except RuntimeError as e:
            record.adopt_thread(e)
            return function(x, y)
        if v.__class__ is ndarray and v.ndim:
            if found is None:
                found = learn(ax, ay, v)
            t = Tensor()
            t._value = v
            t._layout = found.layout
            t._record = None
        else:
            t = wrap(v)
        ra = x._record
        rb = y._record
        tapes: Any = s.tapes
        parent: Any
        other = None
        if rb is None:
            if ra is None:
                return t
            k, parent = 0, ra
            if ra[TAPES] is not tapes:
                found = None
        elif ra is None:
            k, parent = 1, rb
            if rb[TAPES] is not tapes:
                found = None
        else:
            k, parent, other = 2, ra, rb
            if ra[TAPES] is not tapes or rb[TAPES] is not tapes:
                found = None
        if found is None:
            return record_one(s, prim, (x, y), {}, t) if s.sessions else t
        if found.calls_left:
            found.meet(s)
        step = found.steps[k]
        if step is None:
            return record_one(s, prim, (x, y), {}, t)
        plan: Any = plans[k]
        keep = plan.keep
        ins = None if keep is None else (x if keep[0] else None, y if keep[1] else None)
        t._record = [next(_count), None, step, parent, ins, v if plan.reads_y else None, tapes, other]
        if selects:
            s.selects()
        if s.note is not None:
            s.note(t)
        return t

    def join(quick: Callable[..., Any]) -> None:
        nonlocal same
        same = quick

    renew()
    function.__name__ = prim.name
    function.renew = renew  # type: ignore[attr-defined]
    function.join = join  # type: ignore[attr-defined]
    return function
