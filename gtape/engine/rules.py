"""Rules run backwards: the cotangents of one op in any world, and the backward step that a record holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gtape.base.half_precision import widened
from gtape.base.layout import Layout
from gtape.declare.primitives import Primitive
from gtape.engine.worlds import COMPLEX, NARROW, NUMPY
from gtape.recording import record
from gtape.tensors.tensor import Tensor, wrap

__all__ = [
    "PartStep", "PartialOutputs", "RuleStep", "absorb_zeros", "by_slope", "cotangents", "inputs_of", "output_of",
    "part_of", "plan_for", "unbroadcast", "world_for",
]  # fmt: skip


def unbroadcast(xp: Any, g: Any, shape: tuple[int, ...], out_shape: tuple[int, ...], batch: bool) -> Any:
    """Sum a cotangent of shape `out_shape` over the axes that broadcasting added to `shape`."""
    if shape == out_shape:
        return g
    return xp.sum_to(g, shape=shape, batch=int(batch))


def cotangents(
    xp: Any,
    step: Any,
    g: Any,
    y: Any,
    xs: tuple[Any, ...],
    *,
    layouts: tuple[Any, ...],
    out_shape: tuple[int, ...],
    batch: bool = False,
    mask: Any = None,
) -> list[Any]:
    """Run the vjp rules of one recorded op in the world `xp`.

    Parameters
    ----------
    xp : world
    step : RuleStep
        Of it the primitive, the active arguments and the parameters are read.
    g, y : cotangent and output, as values of that world
    xs : tuple
        Inputs as values of that world (stand-ins with shape and dtype where the rule does not read them).
    layouts : tuple
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
    prim: Primitive = step.prim
    params = step.params
    if prim.partials is None:
        if prim.variadic:
            made = prim.vjp(xp, g, xs, **params)
            return [made[i] for i in step.active]
        return [
            prim.vjp[i](xp, g, y, *xs, **params) if prim.kind != "linear" else prim.vjp[i](xp, g, xs[i], **params)
            for i in step.active
        ]
    result = []
    for i in step.active:
        c = by_slope(xp, prim, i, g, y, xs, params)
        if mask is not None:
            c = xp.where(mask, c, 0)
        result.append(unbroadcast(xp, c, layouts[i].shape, out_shape, batch))
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
        What to do instead of `absorb_zeros`, with the same arguments.
    """
    p: Any = prim.partials[i]  # type: ignore[index]
    if p.__class__ is int:
        return g if p == 1 else -g if p == -1 else xp.zeros_like(g) if p == 0 else g * p
    c = g * p(xp, y, *xs, **params)
    return (hold or absorb_zeros)(xp, g, c) if prim.zero_absorbs else c


def absorb_zeros(xp: Any, g: Any, c: Any) -> Any:
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


class RuleStep:
    """The backward step of one recorded op, by the rules of its primitive.

    A record holds the step itself, or a function ``f(g, ins, out)`` that was generated from the same rules and has the
    step as its attribute ``step``. `gtape.recording.record.step_of` gives the step in both cases.

    Parameters
    ----------
    prim : Primitive
    active : tuple of int
        The arguments that a gradient flows to.
    params : dict
        The static parameters.
    layouts : tuple of Layout, or None
        Of the inputs. None for a generated function of elementwise operands: they have any one layout, the output's.
    out_layout : Layout, tuple of Layout, or None
        Of the output, or of several outputs; None where `layouts` is None.
    world : NUMPY, COMPLEX or NARROW
        The arithmetic of the op, chosen when it is recorded.
    keeps : tuple of int, optional
        Which inputs the record keeps, if INS is no tuple with a place for each: one in INS, or one in INS and one in
        OUT.
    """

    __slots__ = ("active", "items", "keeps", "layouts", "out_layout", "params", "prim", "world")

    # For several outputs, of each the number of its record and the tangents that hang there.
    items: tuple[tuple[int, dict[Any, Any]] | None, ...]

    def __init__(
        self,
        prim: Primitive,
        active: tuple[int, ...],
        params: dict[str, Any],
        layouts: tuple[Layout, ...] | None,
        out_layout: Any,
        world: Any = NUMPY,
        keeps: tuple[int, ...] | None = None,
    ) -> None:
        self.prim = prim
        self.active = active
        self.params = params
        self.layouts = layouts
        self.out_layout = out_layout
        self.world = world
        self.keeps = keeps

    def on(self, layout: Layout) -> RuleStep:
        """The step of a generated function, for operands of one layout."""
        layouts = (layout,) * len(self.prim.rules)
        return RuleStep(self.prim, self.active, self.params, layouts, layout, keeps=self.keeps)

    @property
    def adds_nothing(self) -> bool:
        """Whether the step does no more than call rules, so that a batch axis is fine where these accept one."""
        return self.world is NUMPY and self.prim.partials is None and not self.prim.variadic

    def __call__(self, g: Any, ins: Any, out: Any) -> Any:
        """The cotangents in the NumPy world: one value for one active argument, otherwise a list."""
        xs: Any = self.layouts
        prim, active = self.prim, self.active
        if prim.kind == "linear" and len(active) == 1 and self.adds_nothing:  # the usual cases: in fewer calls
            return prim.vjp[active[0]](NUMPY, g, xs[active[0]], **self.params)
        if ins is not None:
            xs = tuple([layout if t is None else t._value for t, layout in zip(ins, xs, strict=True)])
        if len(active) == 1 and self.adds_nothing:
            return prim.vjp[active[0]](NUMPY, g, out, *xs, **self.params)
        made = self.cotangents(NUMPY, g, out, xs)
        return made[0] if len(made) == 1 else made

    def cotangents(
        self, world: Any, g: Any, y: Any, xs: tuple[Any, ...], *, batch: bool = False, mask: Any = None
    ) -> list[Any]:
        """`cotangents` for the step's layouts; in place of NUMPY in the arithmetic of the op."""
        if world is NUMPY:
            world = self.world
        layouts: Any = self.layouts
        narrow = world is NARROW
        if narrow:
            world = NUMPY
            g, y = [tuple(widened(v)) if v.__class__ is tuple else widened([v])[0] for v in (g, y)]
            xs = tuple(widened(xs))
        shape = getattr(self.out_layout, "shape", ())
        made = cotangents(world, self, g, y, xs, layouts=layouts, out_shape=shape, batch=batch, mask=mask)
        if narrow:
            made = [
                c.astype(layouts[i].dtype)
                if c is not None and layouts[i].slow_path and c.dtype != layouts[i].dtype
                else c
                for i, c in zip(self.active, made, strict=True)
            ]
        return made


def world_for(prim: Primitive, layouts: Iterable[Layout]) -> Any:
    """The arithmetic of an op on operands of these layouts."""
    if not any([a.slow_path for a in layouts]):  # noqa: C419 - a list is quicker
        return NUMPY
    if not any(a.complex for a in layouts):
        return NARROW
    return COMPLEX if callable(prim.complex) else NUMPY


class _Plan:
    """What a record of a primitive keeps when the given arguments are active; made once for each combination."""

    __slots__ = ("active", "keep", "known", "reads_y")

    def __init__(self, prim: Primitive, active: tuple[int, ...], n: int) -> None:
        reads: frozenset[Any] = frozenset().union(*[prim.reads[i] for i in active])
        self.active = active
        self.reads_y = "y" in reads
        self.keep = tuple([i in reads for i in range(n)]) if reads - {"y"} else None
        # Backward steps of an op without parameters, by the Layouts of its operands: see `gtape.engine.fast.steps`.
        self.known: dict[tuple[Layout, ...], Any] = {}


def plan_for(prim: Primitive, active: tuple[int, ...], n: int) -> _Plan:
    """What a record of `prim` on `n` operands keeps when those numbered `active` are differentiated."""
    key = active if not prim.variadic else (*active, n)
    found: _Plan | None = prim.plans.get(key)
    if found is None:
        found = prim.plans[key] = _Plan(prim, active, n)
    return found


def inputs_of(made: record.Record, n: int) -> tuple[Any, ...]:
    """The tensors that a record keeps of its `n` inputs, None where it keeps none."""
    ins = made[record.INS]
    if ins is None:
        return (None,) * n
    if ins.__class__ is tuple:
        return ins
    keeps = record.step_of(made).keeps
    if len(keeps) == 2:
        return (ins, made[record.OUT])
    return tuple([ins if i == keeps[0] else None for i in range(n)])


def output_of(made: record.Record) -> Any:
    """The raw value, or values, that a record keeps of its output; None where it keeps none."""
    out = made[record.OUT]
    return None if out.__class__ is Tensor else out  # a tensor is the second input


class PartialOutputs:
    """Cotangents of the outputs of an op with several, by the number of the output, as far as they have arrived."""

    __slots__ = ("parts",)

    def __init__(self, parts: dict[int, Any]) -> None:
        self.parts = parts

    def __add__(self, other: PartialOutputs) -> PartialOutputs:
        parts = self.parts  # only one sweep has them, and copies would take the square of the number of outputs
        for i, g in other.parts.items():
            parts[i] = parts[i] + g if i in parts else g
        return self

    @staticmethod
    def of(g: Any) -> dict[int, Any]:
        """The cotangents of an op, by the number of the output: 0 for an op with one output."""
        return g.parts if isinstance(g, PartialOutputs) else dict(enumerate(g)) if isinstance(g, tuple) else {0: g}

    @staticmethod
    def filled(g: Any, outputs: Any, zeros: Callable[[Any], Any] = np.zeros_like) -> Any:
        """A cotangent as rules take it: a tuple with ``zeros(output)`` for an output without a cotangent."""
        if g.__class__ is not PartialOutputs:
            return g
        return tuple([g.parts[k] if k in g.parts else zeros(v) for k, v in enumerate(outputs)])


class PartStep:
    """The backward step of one output of an op with several, whose record is the parent.

    Only the full sweep meets one: it hands the cotangent to the op's own record as `PartialOutputs`.
    """

    __slots__ = ("index",)
    prim: Any = None
    active = (0,)

    def __init__(self, index: int) -> None:
        self.index = index


def part_of(made: Any, i: int) -> Any:
    """A record for output `i` of an op with several; all copies share a number, by which sweeps identify them.

    The op's record holds no record of its outputs, because these hold it: without a cycle all is freed with the last
    output.
    """
    seq, tangents = made[record.STEP].items[i]
    return [seq, None, PartStep(i), made, None, None, made[record.TAPES], None, None, tangents]
