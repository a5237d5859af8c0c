"""Running and recording an op the general way, and running its rules in any world.

`gtape.generate` makes the functions that users call; what those cannot do in their short way ends in `apply` and
`record_op` here. Both make the same records.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import errors, record
from gtape.domains import BOOLEAN
from gtape.primitive import REGISTRY, Primitive
from gtape.tensor import FLOAT64_SCALAR, Aval, Tensor, as_operand, make_aval, wrap
from gtape.worlds import COMPLEX, NUMPY

__all__ = [
    "ComplexPull", "NarrowPull", "Pull", "Slots", "apply", "check_dtypes", "cotangents", "cotangents_at_home",
    "failure", "held", "operands", "plan_for", "record_op", "refuse",
]  # fmt: skip


# ---------------------------------------------------------------------------------------------- rules, in any world


def unbroadcast(xp: Any, g: Any, shape: tuple[int, ...], out_shape: tuple[int, ...], batch: bool) -> Any:
    """Sum a cotangent of shape `out_shape` over the axes that broadcasting added to `shape`."""
    if shape == out_shape:
        return g
    return xp.sum_to(g, shape=shape, batch=int(batch))


def cotangents(
    xp: Any,
    pull: Any,
    g: Any,
    y: Any,
    xs: tuple[Any, ...],
    *,
    avals: tuple[Any, ...],
    out_shape: tuple[int, ...],
    batch: bool = False,
    mask: Any = None,
) -> list[Any]:
    """Run the vjp rules of one recorded op in the world `xp`.

    Parameters
    ----------
    xp : world
    pull : Pull or generated function
        Knows the primitive, which arguments are active, and the parameters.
    g, y : cotangent and output, as values of that world
    xs : tuple
        Inputs as values of that world (stand-ins with shape and dtype where the rule does not read them).
    avals : tuple
        Shapes and dtypes of the inputs.
    out_shape : tuple of int
        Shape of the output (without the batch axis).
    batch : bool
        Whether `g` has a leading axis of independent cotangents.
    mask : bool array, optional
        Which elements of the cotangent are alive: the others stay zero through an infinite partial.

    Returns
    -------
    list
        One cotangent for each active argument.
    """
    prim: Primitive = pull.prim
    params = pull.params
    if prim.partials is None:
        if prim.variadic:
            made = prim.vjp(xp, g, xs, **params)
            return [made[i] for i in pull.active]
        return [
            prim.vjp[i](xp, g, y, *xs, **params) if prim.kind != "linear" else prim.vjp[i](xp, g, xs[i], **params)
            for i in pull.active
        ]
    result = []
    for i in pull.active:
        p = prim.partials[i]
        if p.__class__ is int:
            c = g if p == 1 else -g if p == -1 else xp.zeros_like(g) if p == 0 else g * p
        else:
            c = g * p(xp, y, *xs, **params)
            if prim.holds_zero:
                c = held(xp, g, c)
        if mask is not None:
            c = xp.where(mask, c, 0)
        result.append(unbroadcast(xp, c, avals[i].shape, out_shape, batch))
    return result


def held(xp: Any, g: Any, c: Any) -> Any:
    """`c`, a slope times `g`, with zero for NaN where `g` is zero; the exact worlds have no infinite slopes."""
    values = c._value if c.__class__ is Tensor else c
    if values.__class__ is float:
        if values == values or (g._value if g.__class__ is Tensor else g) != 0.0:
            return c
        return wrap(0.0) if c.__class__ is Tensor else 0.0
    if not isinstance(values, (np.ndarray, np.generic)) or values.dtype.kind == "O":
        return c
    # argmax stops at the first NaN, and is several times quicker than a look at all elements.
    flat: Any = values
    if not flat.size or (top := flat.item(flat.argmax())) == top:
        return c
    zero = (g._value if g.__class__ is Tensor else g) == 0
    return xp.where(zero, 0, c) if c.__class__ is Tensor else np.where(zero, c.dtype.type(0), c)[()]


class Pull:
    """The backward step of one record made the general way: what the generated functions carry as attributes."""

    __slots__ = ("active", "avals", "items", "out_aval", "params", "prim")

    # For several outputs, of each the number of its record and the tangents that hang there.
    items: tuple[tuple[int, dict[Any, Any]] | None, ...]

    def __init__(
        self, prim: Primitive, active: tuple[int, ...], params: dict[str, Any], avals: tuple[Aval, ...], out_aval: Any
    ) -> None:
        self.prim = prim
        self.active = active
        self.params = params
        self.avals = avals
        self.out_aval = out_aval

    def _inputs(self, ins: Any) -> tuple[Any, ...]:
        avals = self.avals
        if ins is None:
            return avals
        return tuple([avals[k] if t is None else t._value for k, t in enumerate(ins)])

    def __call__(self, g: Any, ins: Any, out: Any) -> Any:
        """The cotangents in the NumPy world: one value for one active argument, otherwise a list."""
        xs = self._inputs(ins)
        made = cotangents(NUMPY, self, g, out, xs, avals=self.avals, out_shape=getattr(self.out_aval, "shape", ()))
        return made[0] if len(made) == 1 else made


class _LinearPull(Pull):
    """One linear argument."""

    __slots__ = ()

    def __call__(self, g: Any, ins: Any, out: Any) -> Any:
        return self.prim.vjp[0](NUMPY, g, self.avals[0], **self.params)


class _GeneralPull(Pull):
    """Given rules, one an argument."""

    __slots__ = ()

    def __call__(self, g: Any, ins: Any, out: Any) -> Any:
        active = self.active
        vjp = self.prim.vjp
        if ins.__class__ is tuple and len(ins) == 2:
            a, b = ins
            avals = self.avals
            xs: tuple[Any, ...] = (avals[0] if a is None else a._value, avals[1] if b is None else b._value)
        else:
            xs = self._inputs(ins)
        if len(active) == 1:
            return vjp[active[0]](NUMPY, g, out, *xs, **self.params)
        return [vjp[i](NUMPY, g, out, *xs, **self.params) for i in active]


class _ElementwisePull(Pull):
    """Partials, with arguments that were broadcast."""

    __slots__ = ()

    def __call__(self, g: Any, ins: Any, out: Any) -> Any:
        prim = self.prim
        partials: Any = prim.partials
        avals = self.avals
        shape = self.out_aval.shape
        xs = avals if ins is None else self._inputs(ins)
        made = []
        for i in self.active:
            p: Any = partials[i]
            if p == 1:
                c = g
            elif p.__class__ is int:
                c = -g if p == -1 else NUMPY.zeros_like(g) if p == 0 else g * p
            else:
                c = g * p(NUMPY, out, *xs, **self.params)
                if prim.holds_zero:
                    c = held(NUMPY, g, c)
            own = avals[i].shape
            made.append(c if own == shape else NUMPY.sum_to(c, shape=own, batch=0))
        return made[0] if len(made) == 1 else made


class NarrowPull(Pull):
    """Any rules on half precision: computed in float32, rounded at the end."""

    __slots__ = ()

    def __call__(self, g: Any, ins: Any, out: Any) -> Any:
        xs = self._inputs(ins)
        shape = getattr(self.out_aval, "shape", ())
        made = cotangents_at_home(NUMPY, self, g, out, xs, avals=self.avals, out_shape=shape)
        return made[0] if len(made) == 1 else made


def cotangents_at_home(world: Any, pull: Any, g: Any, y: Any, xs: tuple[Any, ...], **more: Any) -> list[Any]:
    """`cotangents`, where complex numbers have kernels of their own, and half precision is computed in float32."""
    if world is NUMPY and pull.__class__ is ComplexPull:
        world = COMPLEX
    elif world is NUMPY and pull.__class__ is NarrowPull:
        wide_g, wide_y = [tuple(widened(v)) if v.__class__ is tuple else widened([v])[0] for v in (g, y)]
        made = cotangents(world, pull, wide_g, wide_y, tuple(widened(xs)), **more)
        return [
            None if c is None else c.astype(a.dtype) if a.detour and c.dtype != a.dtype else c
            for c, a in zip(made, [pull.avals[i] for i in pull.active], strict=True)
        ]
    return cotangents(world, pull, g, y, xs, **more)


class ComplexPull(Pull):
    """Partials of an elementwise op that has a kernel of its own for complex numbers."""

    __slots__ = ()

    def __call__(self, g: Any, ins: Any, out: Any) -> Any:
        xs = self._inputs(ins)
        made = cotangents(COMPLEX, self, g, out, xs, avals=self.avals, out_shape=self.out_aval.shape)
        return made[0] if len(made) == 1 else made


# Those that do no more than call the rules: what a rule can take, they can.
RULES_ALONE = frozenset({_LinearPull, _GeneralPull})

_PULLS: dict[str, type[Pull]] = {
    "linear": _LinearPull,
    "general": _GeneralPull,
    "implicit": _GeneralPull,
    "elementwise": _ElementwisePull,
}


class _Plan:
    """What a record of a primitive keeps when the given arguments are active; made once for each combination."""

    __slots__ = ("active", "keep", "make", "reads_y")

    def __init__(self, prim: Primitive, active: tuple[int, ...], n: int) -> None:
        reads: frozenset[Any] = frozenset().union(*[prim.reads[i] for i in active])
        self.active = active
        self.reads_y = "y" in reads
        self.keep = tuple([i in reads for i in range(n)]) if reads - {"y"} else None
        self.make = Pull if prim.variadic else _PULLS[prim.kind]


def plan_for(prim: Primitive, active: tuple[int, ...], n: int) -> _Plan:
    key = active if not prim.variadic else (*active, n)
    found: _Plan | None = prim.plans.get(key)
    if found is None:
        found = prim.plans[key] = _Plan(prim, active, n)
    return found


class Slots:
    """The cotangent of an op with several outputs: what has arrived for each output so far."""

    __slots__ = ("parts",)

    def __init__(self, parts: dict[int, Any]) -> None:
        self.parts = parts

    def __add__(self, other: Slots) -> Slots:
        parts = dict(self.parts)
        for i, g in other.parts.items():
            parts[i] = parts[i] + g if i in parts else g
        return Slots(parts)


class ItemPull:
    """The backward step of one output of an op with several: hands the cotangent to the op's own record."""

    __slots__ = ("index",)
    prim: Any = None
    active = (0,)

    def __init__(self, index: int) -> None:
        self.index = index

    def __call__(self, g: Any, ins: Any, out: Any) -> Slots:
        return Slots({self.index: g})


def item_of(made: Any, i: int) -> Any:
    """The record of output `i` of an op with several, from the op's own: every one that is made is the same to a sweep.

    The op's record holds no record of its outputs, which hold it: without a cycle all goes when the last output does.
    """
    seq, tangents = made[record.PULL].items[i]
    return [seq, None, ItemPull(i), made, None, None, made[record.TAPES], None, tangents]


# ---------------------------------------------------------------------------------------------- the general way


_ON_BOOLS = frozenset({"equal", "not_equal"})


def check_dtypes(prim: Primitive, tensors: list[Tensor]) -> None:
    """Refuse operands whose dtypes the op does not take, or does not take together.

    Raises
    ------
    gtape.errors.InvalidArgumentError
    """
    if len(tensors) == 2 and tensors[0]._aval.dtype is tensors[1]._aval.dtype and tensors[0]._aval.inexact:
        return
    checked = []
    for i, t in enumerate(tensors):
        aval = t._aval
        if prim.kind == "elementwise":
            if not aval.inexact and not prim.ints and not prim.promotes:
                if aval.dtype.kind == "b" and prim.name == "where":
                    continue
                raise errors.InvalidArgumentError(
                    f"{prim.name} needs a floating-point tensor, not {t.dtype.name} of shape {aval.tensor_shape}; "
                    "use gtape.cast(x, gtape.float32) first"
                )
            if aval.dtype.kind == "b":
                if prim.name == "where":
                    continue
                if prim.name not in _ON_BOOLS and BOOLEAN not in prim.domain.intervals:
                    raise errors.InvalidArgumentError(
                        f"{prim.name} needs numbers, not bool of shape {aval.tensor_shape}; use gtape.cast(x, "
                        "gtape.int32), or gtape.logical_and, logical_or, logical_not"
                    )
        elif not aval.inexact and not prim.connected(i):
            continue  # indices and the like
        checked.append(t)
    _check_same(prim, checked)


def _check_same(prim: Primitive, tensors: list[Tensor]) -> None:
    for t in tensors[1:]:
        if t._aval.dtype != tensors[0]._aval.dtype:
            raise errors.InvalidArgumentError(
                f"{prim.name} cannot combine tensors of {tensors[0].dtype.name} and {t.dtype.name} (shapes "
                f"{', '.join(str(u._aval.tensor_shape) for u in tensors)}): cast one of them with gtape.cast"
            )


def operands(*args: Any) -> list[Tensor]:
    """Convert an op's operands; Python numbers and arrays adopt the dtype of the first tensor, variable or array."""
    if len(args) == 2:
        x, y = args
        if x.__class__ is Tensor:
            if getattr(y, "_is_gtape_tensor", False):
                return [x, y._as_tensor()]
            return [x, as_operand(y, x)]
        if getattr(x, "_is_gtape_tensor", False):
            x = x._as_tensor()
            return [x, as_operand(y, x)]
        if y.__class__ is Tensor:
            return [as_operand(x, y), y]
    like = None
    for a in args:
        if a.__class__ is Tensor or getattr(a, "_is_gtape_tensor", False):
            like = a
            if a._aval.dtype.kind != "b":  # a condition gives its dtype to nobody
                break
    if like is None or (like._aval.dtype.kind == "b" and len(args) > 2):
        arrays = [a for a in args if isinstance(a, (np.ndarray, np.generic)) and a.dtype.kind != "b"]
        like = arrays[0] if arrays else None
    if like is None and len(args) > 1:
        numbers = [as_operand(a) for a in args]
        first = next((t for t in numbers if t._aval.dtype.kind != "b"), numbers[0])
        return [
            t if t._aval.dtype == first._aval.dtype or t._aval.dtype.kind == "b" else as_operand(a, first)
            for t, a in zip(numbers, args, strict=True)
        ]
    return [as_operand(a, None if isinstance(a, (bool, np.bool_)) and len(args) > 2 else like) for a in args]


def _promoted(prim: Primitive, tensors: list[Tensor]) -> list[Tensor] | None:
    if prim.promotes and all(t._aval.dtype.kind in "iu" for t in tensors):
        _check_same(prim, tensors)
        small = tensors[0]._aval.dtype.itemsize <= 2
        return [REGISTRY["cast"](t, dtype=np.dtype(np.float32 if small else np.float64)) for t in tensors]
    return None


def refuse(prim: Primitive, tensors: list[Tensor]) -> Any:
    """What a generated function does with operands that are no floats."""
    promoted = _promoted(prim, tensors)
    if promoted is not None:
        return prim.function(*promoted)
    check_dtypes(prim, tensors)
    return apply(prim, tuple(tensors), {})


def _apply_special(prim: Primitive, tensors: Any, params: dict[str, Any]) -> Any:
    """Run and record an op on complex numbers or on half precision, which is computed in float32 and rounded once."""
    if any(t._aval.complex for t in tensors):
        return _apply_complex(prim, tensors, params)
    check_dtypes(prim, tensors)
    stack = record.peek() or record.idle_stack()
    values = [t._value for t in tensors]
    try:
        if prim.name == "cast":
            y = stack.run(prim.kernel, *values, **params)
        else:
            y = narrowed(stack.run(prim.kernel, *widened(values), **params), next(v for v in values if is_narrow(v)))
    except (ValueError, IndexError, np.linalg.LinAlgError) as e:
        raise failure(prim, tensors, e) from e
    outs: Any = tuple([wrap(v) for v in y]) if y.__class__ is tuple else wrap(y)
    return _record_anyhow(stack, prim, tensors, params, outs) if stack.sessions else outs


def is_narrow(v: Any) -> bool:
    """Whether a value is of half precision: NumPy rounds each partial sum to it, and overflows on the way."""
    return isinstance(v, (np.ndarray, np.generic)) and v.dtype.name in ("float16", "bfloat16")


def widened(values: Any) -> list[Any]:
    """Half precision as float32, everything else as it is."""
    return [v.astype(np.float32) if is_narrow(v) else v for v in values]


def narrowed(y: Any, like: Any) -> Any:
    """What came out as float32, in the dtype of `like`."""
    if y.__class__ is tuple or y.__class__ is list:
        return tuple([narrowed(v, like) for v in y])
    return y.astype(like.dtype) if getattr(y, "dtype", None) == np.float32 else y


def _apply_complex(prim: Primitive, tensors: Any, params: dict[str, Any]) -> Any:
    """Run and record an op on complex operands that its usual kernel is not made for."""
    how = prim.complex
    if not how:
        raise errors.InvalidArgumentError(
            f"{prim.name} is not defined for {tensors[0].dtype.name} tensors: take gtape.math.real, imag or abs first"
        )
    check_dtypes(prim, tensors)
    if how.__class__ is str:
        from gtape.ops import complex_parts

        return getattr(complex_parts, how)(*tensors, **params)
    stack = record.peek() or record.idle_stack()
    try:
        y = stack.run(prim.kernel if how is True else how, *[t._value for t in tensors], **params)
    except (ValueError, IndexError, np.linalg.LinAlgError) as e:
        raise failure(prim, tensors, e) from e
    outs: Any = tuple([wrap(v) for v in y]) if y.__class__ is tuple else wrap(y)
    return _record_anyhow(stack, prim, tensors, params, outs) if stack.sessions else outs


def failure(prim: Primitive, tensors: tuple[Tensor, ...], e: Exception) -> errors.InvalidArgumentError:
    shapes = ", ".join(f"{u.dtype.name}{list(u._aval.shape)}" for u in tensors)
    return errors.InvalidArgumentError(f"{prim.name}({shapes}): {e}")


def apply(prim: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Run a primitive on operands of any kind and record it: the general way.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When dtypes or shapes do not fit.
    """
    tensors: Any = args
    for a in args:
        if a.__class__ is not Tensor:
            tensors = operands(*args)
            break
    if prim.kind == "elementwise":
        first = tensors[0]._aval.dtype
        for t in tensors:
            if t._aval.dtype is not first or not t._aval.real:
                if any(u._aval.special for u in tensors):
                    return _apply_special(prim, tensors, params)
                check_dtypes(prim, tensors)
                break
        if prim.promotes:
            tensors = _promoted(prim, tensors) or tensors
    elif any(t._aval.detour for t in tensors):
        return _apply_special(prim, tensors, params)
    elif len(tensors) > 1:
        check_dtypes(prim, tensors)
    stack = record.peek() or record.idle_stack()
    values = [np.float64(t._value) if t._aval is FLOAT64_SCALAR else t._value for t in tensors]
    try:
        y = stack.run(prim.kernel, *values, **params)
    except (ValueError, IndexError, np.linalg.LinAlgError) as e:
        raise failure(prim, tensors, e) from e
    if y.__class__ is tuple:
        outs = tuple([wrap(v) for v in y])
        return record_op(stack, prim, tensors, params, outs)
    if y.__class__ is np.ndarray and y.ndim:
        out = Tensor()
        out._value = y
        out._aval = make_aval(y.dtype, y.shape)
        out._record = None
    else:
        out = wrap(y)
    if stack.sessions:
        return record_op(stack, prim, tensors, params, out)
    return out


def record_op(
    stack: record.Stack, prim: Primitive, tensors: list[Tensor] | tuple[Tensor, ...], params: dict[str, Any], out: Any
) -> Any:
    """Record one op with every active tape that watches one of its inputs; returns `out`."""
    tracker = stack.tracker
    if tracker is None or out.__class__ is tuple or prim.selects:
        return _record_anyhow(stack, prim, tensors, params, out)
    # One plain tape: the usual case.
    recording = stack.recording
    active = []
    parents = []
    i = 0
    for t in tensors:
        r = t._record
        if r is not None:
            if r[6] is recording:
                if t._aval.inexact and prim.connected(i):
                    active.append(i)
                    parents.append(r)
            elif r[6] is not record.NO_TAPES:
                return _record_anyhow(stack, prim, tensors, params, out)
        i += 1
    if not active or not out._aval.inexact:
        return out
    plan = plan_for(prim, tuple(active), i)
    pull = plan.make(prim, plan.active, params, tuple([t._aval for t in tensors]), out._aval)
    keep = plan.keep
    ins = None if keep is None else tuple([t if keep[k] else None for k, t in enumerate(tensors)])
    out._record = [
        next(record.count), None, pull, parents[0] if len(parents) == 1 else tuple(parents), ins,
        out._value if plan.reads_y else None, recording,
    ]  # fmt: skip
    return out


def _record_anyhow(
    stack: record.Stack, prim: Primitive, tensors: list[Tensor] | tuple[Tensor, ...], params: dict[str, Any], out: Any
) -> Any:
    several = out.__class__ is tuple
    first = out[0] if several else out
    active = []
    tapes = record.NO_TAPES
    parents = []
    stand_by = False
    smooth = any(o._aval.inexact for o in out) if several else out._aval.inexact
    for i, t in enumerate(tensors):
        r = t._record
        if r is None or not stack.sessions:
            continue
        mine = stack.meet(r[record.TAPES])
        if not mine.sessions:
            continue
        if smooth and t._aval.inexact and prim.connected(i):
            active.append(i)
            parents.append(r)
        elif stack.trace:
            stand_by = True
        else:
            continue
        if tapes is record.NO_TAPES or tapes is mine:
            tapes = mine
        elif mine.sessions - tapes.sessions:
            found = tapes.sessions | mine.sessions
            tapes = stack.recording if len(found) == len(stack.sessions) else record.TapeSet(found)
    if not active and not stand_by:
        return out
    plan = plan_for(prim, tuple(active), len(tensors))
    avals = tuple([t._aval for t in tensors])
    make = plan.make
    if any([a.detour for a in avals]):  # noqa: C419 - a list is quicker
        make = NarrowPull if not any(a.complex for a in avals) else ComplexPull if callable(prim.complex) else make
    pull = make(prim, plan.active, params, avals, tuple([o._aval for o in out]) if several else out._aval)
    keep = plan.keep
    ins = None if keep is None else tuple([t if keep[k] else None for k, t in enumerate(tensors)])
    raw = None
    if plan.reads_y:
        raw = tuple([o._value for o in out]) if several else out._value
    trace = None
    if stack.trace:
        from gtape.tracing import Trace

        trace = Trace(tuple(tensors), tuple([o._value for o in out]) if several else out._value)
        # A check keeps it all anyway; then a rule that somebody swapped in may read what the declared one does not.
        ins, raw = tuple(tensors), trace.output
    made = [
        next(record.count), None, pull, parents[0] if len(parents) == 1 else tuple(parents), ins, raw, tapes,
    ]  # fmt: skip
    if trace is not None:
        made.append(trace)
    if several:
        pull.items = tuple([(next(record.count), {}) if o._aval.inexact else None for o in out])
        for i, o in enumerate(out):
            if pull.items[i] is not None:
                o._record = item_of(made, i)
    else:
        first._record = made
    for session in stack.sessions:  # outer ones first: an inner tangent may read the output's outer one
        if session not in tapes.sessions:
            continue
        if prim.selects or several:
            session.selects = True
        if session.forward is not None:
            session.forward.advance(prim, tensors, params, out, made)
        for o in out if several else (out,):
            session.track(o)
    return out
