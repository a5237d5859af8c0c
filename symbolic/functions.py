"""Derivatives of Piecewise, Abs, Max, sinc and powers that are correct at every point. SymPy's are wrong at some.

``sympy.diff`` differentiates each branch of a Piecewise. So it treats the value at a removable point (the 1 of sin(x)/x
at 0) as a constant function. Here the derivative at a removable point is the limit of the derivative around the point.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

__all__ = ["Removable", "derivative", "plain"]


class Removable(sp.Function):
    """``Removable(rest, own, x, c, f, at)``: a derivative of a Piecewise at an isolated point x = c of its conditions.

    `rest` is the derivative around the point, `own` that of the branch at the point; `f` and `at` are the function
    around and at the point. If the function is continuous and `rest` has the same limit from all sides on which the
    function exists, this limit is the derivative. Otherwise the derivative is `own`, by convention.
    """

    nargs = 6

    def _eval_evalf(self, prec: int) -> Any:
        _, _, x, c, _, _ = self.args
        if not x.is_Symbol or not c.is_number or self.free_symbols - {x}:
            return None
        limit = self.limit()
        return None if limit.has(sp.nan) or limit.free_symbols else limit._eval_evalf(prec)

    def limit(self) -> sp.Expr:
        """The value as an expression free of x; NaN if SymPy cannot find the limit."""
        rest, own, x, c, f, at = self.args
        try:
            values, slopes = _limits(f, x, c), _limits(rest, x, c)
        except (NotImplementedError, ValueError, TypeError, sp.PoleError):
            return sp.nan
        here = at.subs(x, c)
        if not slopes or any(not _same(v, here) for v in values) or not _same(slopes[0], slopes[-1]):
            return own.subs(x, c)
        return slopes[0]


def _same(a: sp.Expr, b: sp.Expr) -> bool:
    return bool(a == b or sp.simplify(a - b) == 0)


def _limits(expr: sp.Expr, x: sp.Symbol, c: sp.Expr) -> list[sp.Expr]:
    """The limits of `expr` for x -> c from the sides on which it is real."""
    found = []
    for direction in "-+":
        side = _side(expr, x, c, direction)
        if side is sp.nan:
            continue
        if side.has(sp.Piecewise, Removable):
            raise NotImplementedError(f"the branch of {expr} next to {x} = {c} is open")
        value = side.subs(x, c)
        if value.has(sp.nan, sp.zoo, sp.oo, -sp.oo):
            value = sp.limit(side, x, c, direction)
        if value.has(sp.AccumBounds, sp.Limit, sp.nan):
            raise NotImplementedError(f"no limit of {side} for {x} -> {c}")
        if not value.has(sp.I):
            found.append(value)
    return found


def _side(expr: sp.Expr, x: sp.Symbol, c: sp.Expr, direction: str) -> sp.Expr:
    """`expr` with each Piecewise replaced by its branch next to x = c; NaN if no branch applies."""
    beside = c + (-1 if direction == "-" else 1) * sp.Rational(1, 10**30)

    def resolve(piecewise: sp.Expr) -> sp.Expr:
        if isinstance(piecewise, Removable):  # belongs to the point of another condition
            return piecewise
        for arm, condition in piecewise.args:
            holds = condition.subs(x, beside)
            if holds == sp.true:
                return _side(arm, x, c, direction)
            if holds != sp.false:
                return piecewise
        return sp.nan

    return expr.xreplace({p: resolve(p) for p in outermost(expr, (sp.Piecewise, Removable))})


def outermost(expr: Any, kinds: Any) -> list[Any]:
    """The subexpressions of the given kinds that no other such subexpression contains, in order of appearance."""
    found: dict[Any, None] = {}
    todo = [expr]
    while todo:
        e = todo.pop()
        if isinstance(e, kinds):
            found[e] = None
        else:
            todo.extend(reversed(e.args))
    return list(found)


def plain(expr: sp.Expr) -> sp.Expr:
    """`expr` with Abs, sign, Max, Min and sinc written as Piecewise, so that each branch can be differentiated.

    At a kink the derivative is that of least norm (0 for Abs). Ties of Max and Min take their first argument.
    """

    if not expr.has(*_REWRITTEN):
        return expr
    if isinstance(expr, sp.Piecewise):  # conditions stay, because they are not differentiated
        return sp.Piecewise(*[(plain(arm), condition) for arm, condition in expr.args], evaluate=False)
    args = [plain(a) for a in expr.args]
    rule = _REWRITTEN.get(expr.func)
    return rule(*args) if rule else expr.func(*args)


def _extremum(pick: Any) -> Any:
    def rule(best: sp.Expr, *others: sp.Expr) -> sp.Expr:
        for other in others:
            best = sp.Piecewise((best, pick(best, other)), (other, True))
        return best

    return rule


_ONE = sp.Integer(1)
_REWRITTEN: dict[Any, Any] = {
    sp.Abs: lambda a: sp.Piecewise((a, a > 0), (-a, a < 0), (sp.Integer(0), True)),
    sp.sign: lambda a: sp.Piecewise((_ONE, a > 0), (-_ONE, a < 0), (sp.Integer(0), True)),
    sp.sinc: lambda a: sp.Piecewise((sp.sin(a) / a, sp.Ne(a, 0)), (_ONE, True)),
    sp.Max: _extremum(lambda p, q: p >= q),
    sp.Min: _extremum(lambda p, q: p <= q),
}


def derivative(expr: sp.Expr, x: sp.Symbol) -> sp.Expr:
    """The derivative d expr / dx, by branches of Piecewise, and by limits at removable points.

    Parameters
    ----------
    expr : sympy.Expr
        An expression free of Abs, sign, Max and Min (see `plain`), which may contain Piecewise and Removable.

    Examples
    --------
    >>> x = sp.Symbol("x", real=True)
    >>> derivative(sp.exp(2 * x), x)
    2*exp(2*x)
    """
    if not expr.has(x):
        return sp.Integer(0)
    opaque = outermost(expr, (sp.Piecewise, Removable, sp.floor, sp.ceiling))
    if not opaque:
        return _powers(sp.diff(expr, x))
    # Parts free of x become plain symbols, because SymPy otherwise writes x**n with a division by x.
    names = [
        sp.Function(f"p{i}_", real=True)(x) if p.has(x) else sp.Symbol(f"p{i}_", real=True)
        for i, p in enumerate(opaque)
    ]
    slopes = {sp.Derivative(n, x): _derivative_of(p, x) for n, p in zip(names, opaque, strict=True) if p.has(x)}
    hidden = expr.xreplace(dict(zip(opaque, names, strict=True)))
    d = _powers(sp.diff(hidden, x)).xreplace(slopes)
    return d.xreplace(dict(zip(names, opaque, strict=True)))


def _derivative_of(e: Any, x: sp.Symbol) -> sp.Expr:
    if isinstance(e, sp.Piecewise):
        return _piecewise_derivative(e, x)
    if isinstance(e, Removable):
        rest, own, *point = e.args
        return Removable(derivative(rest, x), derivative(own, x), *point)
    return sp.Integer(0)  # floor and ceiling have slope 0


def _point(condition: Any, x: sp.Symbol) -> Any:
    """The point c if the condition is x = c for the symbol `x` and an expression c without x; else None."""
    if isinstance(condition, sp.Eq):
        left, right = condition.args
        if right == x:
            left, right = right, left
        if left == x and not right.has(x):
            return right
    return None


def _piecewise_derivative(p: sp.Piecewise, x: sp.Symbol) -> sp.Expr:
    arms = list(p.args)
    seen: list[Any] = []
    out = []
    for i, (arm, condition) in enumerate(arms):
        effective = condition
        if condition == sp.true and seen and isinstance(seen[-1], sp.Ne):
            effective = sp.Eq(*seen[-1].args)  # the rest of (f, Ne(x, c)) is the point c
        symbols = sorted(effective.free_symbols, key=str) if isinstance(effective, sp.Eq) else []
        point = next(((s, _point(effective, s)) for s in symbols if _point(effective, s) is not None), None)
        others = arms[:i] + arms[i + 1 :]
        if point is not None and others and not arm.has(Removable):
            s, c = point
            rest = sp.Piecewise(*[(e, True if isinstance(k, sp.Ne) and k == ~effective else k) for e, k in others])
            slope: sp.Expr = Removable(derivative(rest, x), derivative(arm, x), s, c, rest, arm)
        else:
            slope = derivative(arm, x)
        out.append((slope, condition))
        seen.append(condition)
    if all(slope == 0 for slope, _ in out):
        return sp.Integer(0)
    return sp.Piecewise(*out, evaluate=False) if len(out) > 1 else sp.Piecewise(*out)


def _powers(expr: sp.Expr) -> sp.Expr:
    """Rewrite x**y*y/x as y*x**(y-1), because SymPy's division by x is wrong at 0."""
    if any(not p.exp.is_number for p in expr.atoms(sp.Pow)):
        return sp.powsimp(expr, combine="exp")
    return expr
