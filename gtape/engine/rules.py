"""The cotangents of one op by its rules in any world, and the backward step in a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
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
    "part_of", "plan_for", "unbroadcast", "undecided", "world_for",
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
    masks: Iterable[Any] | None = None,
    whole: bool = False,
) -> list[Any]:
    """Run the vjp rules of one recorded op in the world `xp`.

    Parameters
    ----------
    xp : world
    step : RuleStep
        Only its primitive, its active arguments and its parameters are read.
    g, y : cotangent and output, as values of that world
    xs : tuple
        The inputs as values of that world. Inputs that the rule does not read are layouts.
    layouts : tuple
        The layouts of the inputs.
    out_shape : tuple of int
        The shape of the output, without the batch axis.
    batch : bool
        Whether `g` has a leading axis of independent cotangents.
    masks : iterable of (bool array or None), optional
        For each active argument of an elementwise op, True for live elements, in the shape of the output. The other
        elements stay zero even if the cotangent or a partial is infinite.
    whole : bool
        Whether the cotangents of an elementwise op keep the shape of the output, without sums over broadcast axes.

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
    for i, mask in zip(step.active, repeat(None) if masks is None else masks):  # noqa: B905 - the repeat has no end
        c = by_slope(xp, prim, i, g, y, xs, params)
        if mask is not None:
            c = xp.where(mask, c, 0)
        result.append(c if whole else unbroadcast(xp, c, layouts[i].shape, out_shape, batch))
    return result


def by_slope(
    xp: Any, prim: Primitive, i: int, g: Any, y: Any, xs: Any, params: dict[str, Any], hold: Any = None
) -> Any:
    """The cotangent of argument `i` of an elementwise op, in the shape of the output.

    Parameters
    ----------
    xp : world
    g, y : values of that world
    xs : sequence of values
    params : dict
    hold : callable, optional
        Replaces `absorb_zeros`, with the same arguments.
    """
    p: Any = prim.partials[i]  # type: ignore[index]
    if p.__class__ is int:
        return g if p == 1 else -g if p == -1 else xp.zeros_like(g) if p == 0 else g * p
    c = g * p(xp, y, *xs, **params)
    return (hold or absorb_zeros)(xp, g, c) if prim.zero_absorbs else c


def absorb_zeros(xp: Any, g: Any, c: Any) -> Any:
    """`c`, a slope times `g`, with zero for NaN where `g` is zero. Exact numbers need no change."""
    values = c._value if c.__class__ is Tensor else c
    if values.__class__ is float:
        if values == values or (g._value if g.__class__ is Tensor else g) != 0.0:
            return c
        return wrap(0.0) if c.__class__ is Tensor else 0.0
    if not isinstance(values, (np.ndarray, np.generic)):
        return c.absorbed(xp, g) if hasattr(c, "absorbed") else c
    if values.dtype.kind == "O":
        return c
    # argmax stops at the first NaN and is several times faster than isnan of all elements.
    flat: Any = values
    if not flat.size or (top := flat.item(flat.argmax())) == top:
        return c
    zero = (g._value if g.__class__ is Tensor else g) == 0
    return xp.where(zero, 0, c) if c.__class__ is Tensor else np.where(zero, c.dtype.type(0), c)[()]


def undecided(prim: Primitive, xs: Iterable[Any]) -> Any:
    """A mask of elements where a NaN kept an elementwise op from a choice by comparison; None if there are none.

    At these elements no argument counts as left out, because comparisons with NaN decide nothing.
    """
    if prim.partials is None or not prim.selects or "selection" in prim.roles:  # a selection chooses by its condition
        return None
    found: Any = None
    for x in xs:
        values = x._value if x.__class__ is Tensor else x
        if isinstance(values, (float, np.ndarray, np.generic)) and np.asarray(values).dtype.kind in "fV":
            unknown = np.isnan(values)
            if unknown.any():
                found = unknown if found is None else found | unknown
    return found


def reached(prim: Primitive, made: Iterable[Any], living: Any, xs: Iterable[Any]) -> list[Any]:
    """For each active input, a mask of the elements of cotangents that live elements of the output reach.

    Parameters
    ----------
    made : iterable of float or complex arrays
        The cotangents of the active inputs, for `living`.
    living : float or complex array
        A cotangent of the output: 0 for dead elements, not 0 for live ones.
    xs : iterable
        The inputs. An element of an elementwise op that is kept from a choice by a NaN counts as reached.
    """
    unknown = undecided(prim, xs)
    masks = [np.asarray(c) != 0 for c in made]
    return masks if unknown is None else [m | (np.where(unknown, living, 0.0) != 0) for m in masks]


class RuleStep:
    """The backward step of one recorded op, by the rules of its primitive.

    A record holds the step itself, or a function ``f(g, ins, out)`` that was generated from the same rules and has the
    step as its attribute ``step``. `gtape.recording.record.step_of` gives the step in both cases.

    Parameters
    ----------
    active : tuple of int
        The indices of the arguments that a gradient flows to.
    params : dict
        The static parameters.
    layouts : tuple of Layout, or None
        The layouts of the inputs. None for a generated function, whose operands all have the layout of the output.
    out_layout : Layout, tuple of Layout, or None
        The layout of the output, or of several outputs. None if `layouts` is None.
    world : NUMPY, COMPLEX or NARROW
        The arithmetic of the op, chosen when it is recorded.
    keeps : tuple of int, optional
        The inputs that the record keeps, if INS holds a single tensor: the first in INS, a second in OUT.
    """

    __slots__ = ("active", "items", "keeps", "layouts", "met", "out_layout", "params", "prim", "rows", "world")

    # For each of several outputs, the number of its record and the tangents; None for outputs without tangents.
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
        # Data of `gtape.engine.fast.recorded` for the step.
        self.met: Any = None
        # The functions for Jacobians by their number of rows, see `gtape.engine.fast.steps.step_for_rows`.
        self.rows: dict[int, Any] | None = None

    def __reduce__(self) -> Any:
        return RuleStep, (
            self.prim, self.active, self.params, self.layouts, self.out_layout, self.world, self.keeps,
        )  # fmt: skip

    def on(self, layout: Layout) -> RuleStep:
        """The step of a generated function for operands of one layout."""
        layouts = (layout,) * len(self.prim.rules)
        return RuleStep(self.prim, self.active, self.params, layouts, layout, keeps=self.keeps)

    @property
    def adds_nothing(self) -> bool:
        """Whether the step only calls rules. Such a step accepts a batch axis if the rules do."""
        return self.world is NUMPY and self.prim.partials is None and not self.prim.variadic

    @property
    def takes_batches(self) -> bool:
        """Whether the step accepts a cotangent with one more leading axis."""
        if self.prim.partials is not None:
            return self.world is NUMPY
        return self.adds_nothing and bool(self.prim.batched)

    @property
    def computes_again(self) -> bool:
        """Whether the step computes the output again in float32, because slopes of a rounded output are inaccurate."""
        return self.world is NARROW and self.prim.partials is not None

    def __call__(self, g: Any, ins: Any, out: Any) -> Any:
        """The cotangents in the NumPy world: one value for one active argument, otherwise a list."""
        xs: Any = self.layouts
        prim, active = self.prim, self.active
        if prim.kind == "linear" and len(active) == 1 and self.adds_nothing:  # the usual case in fewer calls
            return prim.vjp[active[0]](NUMPY, g, xs[active[0]], **self.params)
        if ins is not None:
            xs = tuple([layout if t is None else t._value for t, layout in zip(ins, xs, strict=True)])
        if len(active) == 1 and self.adds_nothing:
            return prim.vjp[active[0]](NUMPY, g, out, *xs, **self.params)
        batch = prim.partials is not None and getattr(g, "ndim", 0) > len(self.out_layout.shape)
        made = self.cotangents(NUMPY, g, out, xs, batch=batch)
        return made[0] if len(made) == 1 else made

    def cotangents(
        self, world: Any, g: Any, y: Any, xs: tuple[Any, ...], *, batch: bool = False,
        masks: Iterable[Any] | None = None, whole: bool = False,
    ) -> list[Any]:  # fmt: skip
        """The function `cotangents` for the layouts of the step. NUMPY stands for the world of the recorded op."""
        if world is NUMPY:
            world = self.world
        layouts: Any = self.layouts
        narrow = world is NARROW
        if narrow:
            world = NUMPY
            g, y = [tuple(widened(v)) if v.__class__ is tuple else widened([v])[0] for v in (g, y)]
            xs = tuple(widened(xs))
            if y is not None and self.computes_again:
                y = self.prim.kernel(*xs, **self.params)
        shape = getattr(self.out_layout, "shape", ())
        made = cotangents(
            world, self, g, y, xs, layouts=layouts, out_shape=shape, batch=batch, masks=masks, whole=whole
        )
        if narrow:
            made = [
                c.astype(layouts[i].dtype)
                if c is not None and layouts[i].no_kernel and c.dtype != layouts[i].dtype
                else c
                for i, c in zip(self.active, made, strict=True)
            ]
        return made


def world_for(prim: Primitive, layouts: Iterable[Layout]) -> Any:
    """The arithmetic of an op on operands with the given layouts."""
    if not any([a.no_kernel for a in layouts]):  # noqa: C419 - a list is quicker
        return NUMPY
    if not any(a.complex for a in layouts):
        return NARROW
    return COMPLEX if callable(prim.complex) else NUMPY


class _Plan:
    """The values that records of a primitive keep for given active arguments. Each combination has one object."""

    __slots__ = ("active", "general", "keep", "keep_narrow", "known", "reads_y")

    def __init__(self, prim: Primitive, active: tuple[int, ...], n: int) -> None:
        reads: frozenset[Any] = frozenset().union(*[prim.reads[i] for i in active])
        self.active = active
        self.reads_y = "y" in reads
        self.keep = tuple([i in reads for i in range(n)]) if reads - {"y"} else None
        # With half precision all inputs, if the step computes the output again.
        self.keep_narrow = (True,) * n if self.reads_y and prim.partials is not None else self.keep
        # Backward steps of an op without parameters, by the layouts of its operands; see `gtape.engine.fast.steps`.
        self.known: dict[tuple[Layout, ...], Any] = {}
        # The same for records in the general form, whose steps are never compiled.
        self.general: dict[tuple[Layout, ...], RuleStep] = {}


def plan_for(prim: Primitive, active: tuple[int, ...], n: int) -> _Plan:
    """The plan for records of `prim` on `n` operands. Gradients flow to the operands `active`."""
    key = active if not prim.variadic else (*active, n)
    found: _Plan | None = prim.plans.get(key)
    if found is None:
        found = prim.plans[key] = _Plan(prim, active, n)
    return found


def inputs_of(made: record.Record, n: int) -> tuple[Any, ...]:
    """The `n` inputs of a record, with None for inputs that the record does not keep."""
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
    """The raw value or values of the output; None if the record does not keep them."""
    out = made[record.OUT]
    return None if out.__class__ is Tensor else out  # a tensor in OUT is the second input


class PartialOutputs:
    """The cotangents that have arrived at an op with several outputs, by the number of the output."""

    __slots__ = ("parts",)

    def __init__(self, parts: dict[int, Any]) -> None:
        self.parts = parts

    def __add__(self, other: PartialOutputs) -> PartialOutputs:
        parts = self.parts  # in place, because only one sweep holds the object, and copies would take quadratic time
        for i, g in other.parts.items():
            parts[i] = parts[i] + g if i in parts else g
        return self

    @staticmethod
    def of(g: Any) -> dict[int, Any]:
        """The cotangents of an op by the number of the output. An op with one output has the number 0."""
        return g.parts if isinstance(g, PartialOutputs) else dict(enumerate(g)) if isinstance(g, tuple) else {0: g}

    @staticmethod
    def filled(g: Any, outputs: Any, zeros: Callable[[Any], Any] = np.zeros_like) -> Any:
        """A cotangent in the form that rules take: a tuple with ``zeros(output)`` for each missing part."""
        if g.__class__ is not PartialOutputs:
            return g
        return tuple([g.parts[k] if k in g.parts else zeros(v) for k, v in enumerate(outputs)])


class PartStep:
    """The backward step of one output of an op with several outputs. The parent is the record of the op.

    Only the full sweep handles this class, and adds the cotangent to the record of the op as `PartialOutputs`.
    """

    __slots__ = ("index",)
    prim: Any = None
    active = (0,)

    def __init__(self, index: int) -> None:
        self.index = index


def part_of(made: Any, i: int) -> Any:
    """A record for output `i` of an op with several outputs. All copies have the same number, which identifies them.

    The op's record does not hold these records. They hold the op's record, and a cycle would delay freeing the graph.
    """
    seq, tangents = made[record.STEP].items[i]
    return [seq, None, PartStep(i), made, None, None, made[record.TAPES], None, None, tangents]
