"""Textbook formulas of derivatives: the derivative of a mirror, written as a rule for floats.

Such formulas lose tails (``1 - tanh(x)**2``), overflow on the way (``1 / sqrt(1 + x**2)``) or divide 0 by 0.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import sympy as sp
from sympy.functions.elementary.piecewise import ExprCondPair

from gtape.declare.primitives import Primitive
from gtape.symbolic import mirrors
from gtape.symbolic.functions import Removable, derivative
from gtape.symbolic.mirrors.registry import SCALARS
from gtape.symbolic.scalars import template

__all__ = ["textbook_slope"]

# The op of a world for each function and relation of SymPy.
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    sp.exp: lambda xp, x: xp.exp(x),
    sp.log: lambda xp, x: xp.log(x),
    sp.sin: lambda xp, x: xp.sin(x),
    sp.cos: lambda xp, x: xp.cos(x),
    sp.tan: lambda xp, x: xp.tan(x),
    sp.sinh: lambda xp, x: xp.sinh(x),
    sp.cosh: lambda xp, x: xp.cosh(x),
    sp.tanh: lambda xp, x: xp.tanh(x),
    sp.asin: lambda xp, x: xp.asin(x),
    sp.acos: lambda xp, x: xp.acos(x),
    sp.atan: lambda xp, x: xp.atan(x),
    sp.asinh: lambda xp, x: xp.asinh(x),
    sp.acosh: lambda xp, x: xp.acosh(x),
    sp.atanh: lambda xp, x: xp.atanh(x),
    sp.erf: lambda xp, x: xp.erf(x),
    sp.erfc: lambda xp, x: xp.erfc(x),
    sp.erfinv: lambda xp, x: xp.erfinv(x),
    sp.Abs: lambda xp, x: xp.abs(x),
    sp.sign: lambda xp, x: xp.sign(x),
    sp.loggamma: lambda xp, x: xp.lgamma(x),
}
_RELATIONS: dict[Any, Callable[..., Any]] = {
    sp.StrictLessThan: lambda xp, a, b: xp.less(a, b),
    sp.LessThan: lambda xp, a, b: xp.less_equal(a, b),
    sp.StrictGreaterThan: lambda xp, a, b: xp.greater(a, b),
    sp.GreaterThan: lambda xp, a, b: xp.greater_equal(a, b),
    sp.Equality: lambda xp, a, b: xp.equal(a, b),
    sp.Unequality: lambda xp, a, b: xp.not_equal(a, b),
}
_MOST_NODES = 400  # longer formulas stand in no textbook


class _NoFormula(Exception):
    """The expression has a part that no primitive computes."""


def textbook_slope(prim: Primitive, argument: int, params: dict[str, Any]) -> tuple[Callable[..., Any], str] | None:
    """The partial of an elementwise primitive by the derivative of its mirror, and its text; None without a formula.

    Returns
    -------
    rule : callable
        ``rule(xp, y, *x, **params)``, for the parameters given here.
    text : str

    Examples
    --------
    >>> from gtape.declare.primitives import REGISTRY
    >>> import gtape.ops.elementwise.hyperbolic
    >>> textbook_slope(REGISTRY["tanh"], 0, {})[1]
    '1 - tanh(x)**2'
    """
    mirrors.load()
    if prim.kind != "elementwise" or prim.name not in SCALARS:
        return None
    made = template(SCALARS[prim.name], len(prim.rules), params)
    try:
        slope = derivative(made.plain, made.symbols[argument])
        nodes = sum(1 for _ in sp.preorder_traversal(slope))
        if nodes > _MOST_NODES or not slope.free_symbols:
            return None
        _check(slope)
    except (_NoFormula, NotImplementedError, ValueError):
        return None
    symbols = list(made.symbols)

    def rule(xp: Any, y: Any, *xs: Any, **_: Any) -> Any:
        return _value(xp, slope, dict(zip(symbols, xs, strict=True)))

    named = (
        dict(zip(symbols, sp.symbols("x z u v"), strict=False)) if len(symbols) > 1 else {symbols[0]: sp.Symbol("x")}
    )
    return rule, str(slope.xreplace(named))


def _check(e: Any) -> None:
    """Raise for an expression that `_value` cannot compute."""
    if e.is_Symbol or e.is_number or e in (sp.true, sp.false):
        if e.has(sp.nan, sp.zoo, sp.oo):
            raise _NoFormula
        return
    known = e.is_Add or e.is_Mul or e.is_Pow or isinstance(e, (sp.Piecewise, ExprCondPair))
    if isinstance(e, Removable) or not (known or e.func in _FUNCTIONS or e.func in _RELATIONS):
        raise _NoFormula
    for a in e.args:
        _check(a)


def _value(xp: Any, e: Any, put: dict[Any, Any]) -> Any:
    if e in put:
        return put[e]
    if e.is_number:
        return int(e) if e.is_Integer else float(e)
    if e.is_Add:
        return reduce(operator.add, [_value(xp, a, put) for a in e.args])
    if e.is_Mul:
        above, below = e.as_numer_denom()
        if below != 1 and above != e:
            return _value(xp, above, put) / _value(xp, below, put)
        return reduce(operator.mul, [_value(xp, a, put) for a in e.args])
    if e.is_Pow:
        return _power(xp, e, put)
    if isinstance(e, sp.Piecewise):
        return _branches(xp, e, put)
    if e.func in _RELATIONS:
        return _RELATIONS[e.func](xp, _value(xp, e.args[0], put), _value(xp, e.args[1], put))
    return _FUNCTIONS[e.func](xp, _value(xp, e.args[0], put))


def _power(xp: Any, e: Any, put: dict[Any, Any]) -> Any:
    if e.exp.is_negative or e.exp.could_extract_minus_sign():
        return 1 / _value(xp, e.base**-e.exp, put)
    base = _value(xp, e.base, put)
    if e.exp == sp.Rational(1, 2):
        return xp.sqrt(base)
    if e.exp.is_Integer and 1 <= e.exp <= 8:
        return reduce(operator.mul, [base] * int(e.exp))
    if not e.base.is_number:
        return xp.pow(base, _value(xp, e.exp, put))
    return xp.exp(_value(xp, e.exp, put) * float(sp.log(e.base)))


def _branches(xp: Any, e: Any, put: dict[Any, Any]) -> Any:
    *rest, (last, condition) = e.args
    if condition != sp.true:
        rest, last = list(e.args), sp.Integer(0)
    made = _value(xp, last, put)
    for arm, condition in reversed(rest):
        made = xp.where(_value(xp, condition, put), _value(xp, arm, put), made)
    return made
