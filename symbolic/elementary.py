"""Programs of elementary functions, which enclosures evaluate quickly at any precision."""

from __future__ import annotations

import sympy as sp

from gtape.symbolic.mirrors import load
from gtape.symbolic.mirrors.registry import SCALARS
from gtape.symbolic.program import Node, Program
from gtape.symbolic.scalars import template
from gtape.symbolic.special_functions import PowerAtZero

__all__ = ["special_function"]

_ELEMENTARY = (
    sp.exp, sp.log, sp.sin, sp.cos, sp.tan, sp.cot, sp.sec, sp.csc, sp.asin, sp.acos, sp.atan, sp.atan2,
    sp.sinh, sp.cosh, sp.tanh, sp.coth, sp.sech, sp.csch, sp.asinh, sp.acosh, sp.atanh,
    sp.Abs, sp.sign, sp.Max, sp.Min, sp.floor, sp.ceiling, sp.Piecewise, sp.sinc, sp.re, sp.im, sp.conjugate, sp.arg,
    PowerAtZero,
)  # fmt: skip


def special_function(program: Program) -> str | None:
    """The name of the first op of a program that is not elementary; None if all are."""
    return next((n.name for n in program.nodes if n.kind == "op" and not _is_elementary(n)), None)


def _is_elementary(node: Node) -> bool:
    if node.prim.kind != "elementwise":
        return "gamma" not in node.name  # sums, products and equations of elementary numbers are elementary
    load()
    mirror = SCALARS.get(node.name)
    if mirror is None:
        return True  # arithmetic and selections have no mirror, because the worlds define them
    functions = template(mirror, len(node.inputs), node.params).expression.atoms(sp.Function)
    return all(isinstance(f, _ELEMENTARY) for f in functions)
