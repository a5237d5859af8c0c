"""Backward steps for operands of known shapes, compiled from the rules.

A rule decides by shapes only, so it calls the same kernels for all operands of one layout. One run on samples turns
these calls into a function without branches (see `gtape.engine.fast.source`). The function avoids the decisions,
because they cost more than the arithmetic of small tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.base.half_precision import narrowed
from gtape.base.layout import FLOAT, Layout, make_layout
from gtape.declare.primitives import Primitive
from gtape.engine.fast.source import Expression, Writer, kernel_for
from gtape.engine.rules import RuleStep, by_slope, unbroadcast
from gtape.engine.worlds import NARROW, NUMPY
from gtape.recording import record

__all__ = [
    "FAMILIAR", "FAULTS", "MOST_ELEMENTS", "Seen", "narrow_kernel", "remember", "sample_of", "step_for",
    "step_for_rows", "too_large", "written",
]  # fmt: skip

_float32 = np.dtype(np.float32)

# Steps for larger operands are not compiled, because a sample run costs as much as the step itself.
MOST_ELEMENTS = 1 << 20


# The errors of rules that cannot be compiled.
FAULTS = (TypeError, ValueError, AttributeError, IndexError, ArithmeticError, np.linalg.LinAlgError)


def sample_of(layout: Layout) -> Any:
    """An array of ones with a layout."""
    if layout is FLOAT:
        return 1.0
    return np.ones(layout.shape, layout.dtype)[()]


def step_for(step: RuleStep) -> Callable[..., Any] | None:
    """A step as one function for operands of its layouts; None if its rules depend on values.

    Parameters
    ----------
    step : RuleStep
        Made for operands without complex numbers, and for one output.

    Returns
    -------
    function or None
        ``f(g, ins, out)``, with the step as its attribute.
    """
    if too_large(step):
        return None
    file = f"<gtape step of {step.prim.name}>"
    try:
        if step.world is NARROW:
            made: Any = _narrow_step(step, file)
        else:
            notes = Writer(step.prim)
            made = notes.function(*written(notes, step), file)
    except FAULTS:
        return None  # the general step runs the rule again, which then raises its own error
    made.step = step
    return made  # type: ignore[no-any-return]


def step_for_rows(step: RuleStep, rows: int) -> Any:
    """A step that passes rows of cotangents on, for a Jacobian: a function like that of `step_for`, or the step itself.

    Parameters
    ----------
    step : RuleStep
        Its rules accept one more leading axis, see `RuleStep.takes_batches`.
    rows : int
        The number of rows.
    """
    known = step.rows
    if known is None:
        known = step.rows = {}
    found = known.get(rows, 0)
    if found.__class__ is not int:
        return found
    if found < FAMILIAR:
        remember(known, rows, found + 1)
        return step
    return remember(known, rows, _written_for_rows(step, rows) or step)


def _written_for_rows(step: RuleStep, rows: int) -> Any:
    layouts: Any = step.layouts
    if step.world is not NUMPY or too_large(step) or rows * step.out_layout.size > MOST_ELEMENTS:
        return None
    if any([a.complex for a in (*layouts, step.out_layout)]):  # noqa: C419
        return None
    notes = Writer(step.prim)
    try:
        made = notes.function(*written(notes, step, rows), f"<gtape step of {step.prim.name} for {rows} rows>")
    except FAULTS:
        return None  # the general step runs the rule again, which then raises its own error
    made.step = step
    return made


class _RawWriter(Writer):
    """Writes a step that gets the values of the inputs, not tensors."""

    load = ""


def _narrow_step(step: RuleStep, file: str) -> Any:
    """A step for half precision: the step for float32 between a widening and a rounding."""
    prim: Primitive = step.prim
    layouts: Any = step.layouts
    reads: frozenset[Any] = frozenset().union(*[prim.reads[i] for i in step.active])
    notes = _RawWriter(prim)
    wide = RuleStep(prim, step.active, step.params, tuple(map(_widened, layouts)), _widened(step.out_layout))
    space: dict[str, Any] = {"inner": notes.function(*written(notes, wide), file), "float32": _float32}
    again = step.computes_again and "y" in reads
    lines, words = [], ["None"] * len(layouts)
    for i, layout in enumerate(layouts):
        if i in reads or again:
            words[i] = f"x{i}"
            lines.append(f"x{i} = ins[{i}]._value{'.astype(float32)' if layout.narrow else ''}")
    out = "None"
    if again:
        space["kernel"] = kernel_for(prim, wide.layouts, step.params)
        lines.append(f"out = kernel({', '.join(words)})")
        out = "out"
    elif "y" in reads:
        out = "out.astype(float32)" if step.out_layout.narrow else "out"
    g = "g.astype(float32)" if step.out_layout.narrow else "g"
    lines.append(f"made = inner({g}, ({''.join(f'{w}, ' for w in words)}), {out})")
    rounded = []
    for k, i in enumerate(step.active):
        part = "made" if len(step.active) == 1 else f"made[{k}]"
        space[f"dtype{k}"] = layouts[i].dtype
        rounded.append(f"{part}.astype(dtype{k})" if layouts[i].narrow else part)
    answer = rounded[0] if len(rounded) == 1 else f"({', '.join(rounded)})"
    body = "".join(f"    {line}\n" for line in lines)
    exec(compile(f"def step(g, ins, out):\n{body}    return {answer}\n", file, "exec"), space)
    return space["step"]


def narrow_kernel(prim: Primitive, layouts: tuple[Layout, ...], params: dict[str, Any]) -> Callable[..., Any]:
    """The kernel of a primitive for operands of half precision of one layout each: in float32, and rounded once."""
    kernel = kernel_for(prim, tuple(map(_widened, layouts)), params)
    dtype = layouts[0].dtype

    def rounded(*values: Any) -> Any:
        return narrowed(kernel(*[v.astype(_float32) for v in values]), dtype)

    rounded.__name__ = prim.name  # shown in tracebacks and checks
    return rounded


def _widened(layout: Layout) -> Layout:
    return make_layout(_float32, layout.shape) if layout.narrow else layout


def too_large(step: RuleStep) -> bool:
    """Whether a step is not compiled, because it takes any number of operands or a sample run takes too long."""
    prim = step.prim
    return prim.variadic or prim.opaque or sum(a.size for a in (*step.layouts, step.out_layout)) > MOST_ELEMENTS  # type: ignore[misc]


def written(notes: Any, step: RuleStep, rows: int | None = None) -> tuple[list[str], list[Expression]]:
    """The lines that load inputs from a record, and the cotangents to compute, in the world of a writer.

    With `rows`, the cotangent has one more leading axis.
    """
    prim: Primitive = step.prim
    layouts: Any = step.layouts
    reads: frozenset[Any] = frozenset().union(*[prim.reads[i] for i in step.active])
    out: Any = step.out_layout
    g = notes.value("g", sample_of(out) if rows is None else np.ones((rows, *out.shape), out.dtype))
    y = notes.value("out", sample_of(step.out_layout)) if "y" in reads else None
    xs: list[Any] = list(layouts)
    loads = []
    for i, layout in enumerate(layouts):
        if i in reads:
            xs[i] = notes.value(f"x{i}", sample_of(layout))
            loads.append(f"x{i} = ins[{i}]{notes.load}")
    results: list[Any] = []
    for i in step.active:
        if prim.partials is not None:
            c = by_slope(notes, prim, i, g, y, xs, step.params, type(notes).hold)
            results.append(unbroadcast(notes, c, layouts[i].shape, out.shape, rows is not None))
        elif prim.kind == "linear":
            results.append(prim.vjp[i](notes, g, xs[i], **step.params))
        else:
            results.append(prim.vjp[i](notes, g, y, *xs, **step.params))
    return loads, results


# The number of layouts that are kept for an op. The number of calls with a layout before its step is compiled, because
# compiling takes as long as about a hundred steps.
_MOST_KNOWN = 512
FAMILIAR = 8


def remember(known: dict[Any, Any], layout: Any, found: Any) -> Any:
    """Keep `found` for a layout, and return it."""
    if len(known) >= _MOST_KNOWN:  # because a program with ever new shapes would fill the memory
        known.clear()
    known[layout] = found
    return found


class Seen:
    """For operands of one layout: a backward step for each plan, the kernel, and the result's layout."""

    __slots__ = ("calls_left", "kernel", "layout", "params", "steps")

    def __init__(self, steps: list[Any], kernel: Any = None, layout: Any = None, params: Any = None) -> None:
        self.steps = steps
        self.kernel = kernel
        self.layout = layout
        self.params = params
        # Complex numbers keep the general steps.
        has_complex = any(a.complex for step in steps if step is not None for a in step.layouts)
        self.calls_left = 0 if has_complex else FAMILIAR

    def meet(self, s: record.Stack) -> None:
        """Count a call. The last counted call compiles the steps for this layout, if the rules allow it."""
        self.calls_left -= 1
        if not self.calls_left:
            self.steps = [step and (s.run(step_for, step) or step) for step in self.steps]
