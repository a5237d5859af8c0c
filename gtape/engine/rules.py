"""The backward step of one recorded op: what it keeps, and its rules run in any world.

`gtape.engine.fast.elementwise` makes the steps of the usual cases; the classes here are those of the general way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.half_precision import widened
from gtape.base.layout import Aval
from gtape.declare.primitive import Primitive
from gtape.engine.worlds import COMPLEX, NUMPY
from gtape.recording import record
from gtape.tensors.tensor import Tensor, wrap

__all__ = [
    "RULES_ALONE",
    "ComplexPull",
    "ItemPull",
    "NarrowPull",
    "Pull",
    "Slots",
    "by_slope",
    "cotangents",
    "cotangents_at_home",
    "held",
    "inputs_of",
    "item_of",
    "output_of",
    "plan_for",
    "unbroadcast",
]


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
        c = by_slope(xp, prim, i, g, y, xs, params)
        if mask is not None:
            c = xp.where(mask, c, 0)
        result.append(unbroadcast(xp, c, avals[i].shape, out_shape, batch))
    return result


def by_slope(
    xp: Any, prim: Primitive, i: int, g: Any, y: Any, xs: Any, params: dict[str, Any], hold: Any = None
) -> Any:
    """The cotangent that an elementwise op hands to its argument `i`, in the shape of its output.

    Parameters
    ----------
    xp : world
    prim : Primitive
    g, y : values of that world
    xs : sequence of values
    params : dict
    hold : callable, optional
        What to do instead of `held`, with the same arguments.
    """
    p: Any = prim.partials[i]  # type: ignore[index]
    if p.__class__ is int:
        return g if p == 1 else -g if p == -1 else xp.zeros_like(g) if p == 0 else g * p
    c = g * p(xp, y, *xs, **params)
    return (hold or held)(xp, g, c) if prim.holds_zero else c


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
        avals = self.avals
        shape = self.out_aval.shape
        xs = avals if ins is None else self._inputs(ins)
        made = []
        for i in self.active:
            c = by_slope(NUMPY, prim, i, g, out, xs, self.params)
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

    __slots__ = ("active", "keep", "known", "make", "reads_y")

    def __init__(self, prim: Primitive, active: tuple[int, ...], n: int) -> None:
        reads: frozenset[Any] = frozenset().union(*[prim.reads[i] for i in active])
        self.active = active
        self.reads_y = "y" in reads
        self.keep = tuple([i in reads for i in range(n)]) if reads - {"y"} else None
        self.make = Pull if prim.variadic else _PULLS[prim.kind]
        # Backward steps of an op without parameters, by the Avals of its operands: see `gtape.engine.fast.steps`.
        self.known: dict[tuple[Aval, ...], Any] = {}


def plan_for(prim: Primitive, active: tuple[int, ...], n: int) -> _Plan:
    """What a record of `prim` on `n` operands keeps when those numbered `active` are differentiated."""
    key = active if not prim.variadic else (*active, n)
    found: _Plan | None = prim.plans.get(key)
    if found is None:
        found = prim.plans[key] = _Plan(prim, active, n)
    return found


def inputs_of(made: record.Record, n: int) -> tuple[Any, ...]:
    """The tensors that a record keeps of its `n` inputs, None where it keeps none."""
    ins, pull = made[record.INS], made[record.PULL]
    if ins is None:
        return (None,) * n
    if ins.__class__ is tuple:
        return ins
    if pull.pair:
        return (ins, made[record.OUT])
    return tuple([ins if i == pull.single else None for i in range(n)])


def output_of(made: record.Record) -> Any:
    """The raw value, or values, that a record keeps of its output; None where it keeps none."""
    return None if getattr(made[record.PULL], "pair", False) else made[record.OUT]


class Slots:
    """The cotangent of an op with several outputs: what has arrived for each output so far."""

    __slots__ = ("parts",)

    def __init__(self, parts: dict[int, Any]) -> None:
        self.parts = parts

    def __add__(self, other: Slots) -> Slots:
        parts = self.parts  # only one sweep has them, and copies would take the square of the number of outputs
        for i, g in other.parts.items():
            parts[i] = parts[i] + g if i in parts else g
        return self


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
    return [seq, None, ItemPull(i), made, None, None, made[record.TAPES], None, None, tangents]
