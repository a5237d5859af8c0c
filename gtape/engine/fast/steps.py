"""Backward steps for operands of known shapes, written down from the rules.

A rule decides by shapes alone what to do, so for operands of one layout it always does the same: it is run once on
samples, and what it calls becomes a straight-line function (see `gtape.engine.fast.source`). The function saves
only the decisions, which cost more than the arithmetic where tensors are small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.base.layout import FLOAT64_SCALAR, Aval
from gtape.declare.primitive import Primitive
from gtape.engine.fast.source import Noted, Notes
from gtape.engine.rules import by_slope
from gtape.recording import record

__all__ = ["Known", "remember", "step_for"]

# A sample run of the rule must not cost more than the op itself ever did.
_MOST_ELEMENTS = 1 << 20


def _sample(aval: Aval) -> Any:
    if aval is FLOAT64_SCALAR:
        return 1.0
    return np.ones(aval.shape, aval.dtype)[()]


def step_for(pull: Any) -> Callable[..., Any] | None:
    """The backward step of `pull`, for operands of its shapes, as one function; None if its rules look at values.

    Parameters
    ----------
    pull : Pull
        Made for real operands (no complex numbers, no half precision) and one output.

    Returns
    -------
    function or None
        ``step(g, ins, out)``, with what `pull` knows as attributes, and `pull` itself as ``general``.
    """
    prim: Primitive = pull.prim
    if prim.variadic or prim.opaque or sum(a.size for a in (*pull.avals, pull.out_aval)) > _MOST_ELEMENTS:
        return None
    notes = Notes(prim)
    try:
        step: Any = notes.function(*_written(notes, pull), f"<gtape step of {prim.name}>")
    except (TypeError, ValueError, AttributeError, IndexError, ArithmeticError, np.linalg.LinAlgError):
        return None  # the general way, then, which raises what there is to raise
    step.prim, step.active, step.params, step.general = prim, pull.active, pull.params, pull
    step.avals, step.out_aval, step.single, step.pair = pull.avals, pull.out_aval, None, False
    return step  # type: ignore[no-any-return]


def _written(notes: Notes, pull: Any) -> tuple[list[str], list[Noted]]:
    """What the function reads from a record, and the cotangents that it makes."""
    prim: Primitive = pull.prim
    reads: frozenset[Any] = frozenset().union(*[prim.reads[i] for i in pull.active])
    g = notes.value("g", _sample(pull.out_aval))
    y = notes.value("out", _sample(pull.out_aval)) if "y" in reads else None
    xs: list[Any] = list(pull.avals)
    loads = []
    for i, aval in enumerate(pull.avals):
        if i in reads:
            xs[i] = notes.value(f"x{i}", _sample(aval))
            loads.append(f"x{i} = ins[{i}]._value")
    results: list[Any] = []
    for i in pull.active:
        if prim.partials is not None:
            c = by_slope(notes, prim, i, g, y, xs, pull.params, Notes.hold)
            own = pull.avals[i].shape
            results.append(c if own == pull.out_aval.shape else notes.sum_to(c, shape=own, batch=0))
        elif prim.kind == "linear":
            results.append(prim.vjp[i](notes, g, xs[i], **pull.params))
        else:
            results.append(prim.vjp[i](notes, g, y, *xs, **pull.params))
    return loads, results


# How many layouts of an op are remembered, and how often one is met before its backward step is written down, which
# takes as long as some hundred steps.
_MOST_KNOWN = 512
_FAMILIAR = 8


def remember(known: dict[Any, Any], layout: Any, found: Any) -> Any:
    """Keep what was found out about a layout; returns it."""
    if len(known) >= _MOST_KNOWN:  # programs with ever new shapes must not fill the memory
        known.clear()
    known[layout] = found
    return found


class Known:
    """What was found out about operands of one layout: a backward step for each plan, the kernel, the result's Aval."""

    __slots__ = ("aval", "kernel", "params", "steps", "unfamiliar")

    def __init__(self, steps: list[Any], kernel: Any = None, aval: Any = None, params: Any = None) -> None:
        self.steps = steps
        self.kernel = kernel
        self.aval = aval
        self.params = params
        # Complex numbers and half precision are left to the general steps.
        detour = any(a.detour for step in steps if step is not None for a in step.avals)
        self.unfamiliar = 0 if detour else _FAMILIAR

    def meet(self, s: record.Stack) -> None:
        """Count down; then replace the steps by functions written for this layout, where the rules allow it."""
        self.unfamiliar -= 1
        if not self.unfamiliar:
            self.steps = [step and (s.run(step_for, step) or step) for step in self.steps]
