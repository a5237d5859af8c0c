"""Functions of scalars from elementwise mirrors: of SymPy expressions, of enclosures (balls), of jets.

A mirror is applied once to plain symbols. All functions are made from this template and cached.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sympy as sp
from flint import arb

from gtape.symbolic.balls import whole_number
from gtape.symbolic.compile import compile_balls
from gtape.symbolic.functions import derivative, plain
from gtape.symbolic.jets import Jet, compose, multi_indices

__all__ = ["Template", "exact_rational", "hashable", "jet_function", "template"]


class Template:
    """An elementwise mirror on plain symbols.

    Parameters
    ----------
    kind : {"arb", "acb"}
        The type of the symbols: real or complex.

    Attributes
    ----------
    symbols : tuple of sympy.Symbol
    expression : sympy.Expr
    boolean : bool
        Whether the mirror is a condition. If so, `expression` is 1 or 0.
    """

    __slots__ = ("_at_exponents", "_balls", "_jets", "_plain", "boolean", "exponents", "expression", "kind", "symbols")

    def __init__(self, mirror: Callable[..., Any], arity: int, params: dict[str, Any], kind: str = "arb") -> None:
        self.kind = kind
        real = True if kind == "arb" else None
        self.symbols = tuple(sp.Symbol(f"x{i}", real=real) for i in range(arity))
        made = sp.sympify(mirror(*self.symbols, **{k: exact_parameter(v) for k, v in params.items()}))
        self.boolean = isinstance(made, sp.logic.boolalg.Boolean) and not isinstance(made, sp.Symbol)
        self.expression = sp.Piecewise((sp.Integer(1), made), (sp.Integer(0), True)) if self.boolean else made
        powers = [p for p in self.expression.atoms(sp.Pow) if p.base.free_symbols]
        self.exponents = frozenset(i for i, s in enumerate(self.symbols) if any(p.exp.has(s) for p in powers))
        self._balls: Callable[..., Any] | None = None
        self._at_exponents: dict[Any, Callable[..., Any]] = {}
        self._plain: Any = None
        self._jets: dict[Any, Callable[..., Any]] = {}

    @property
    def plain(self) -> sp.Expr:
        """The expression with Abs, sign, Max, Min and sinc as Piecewise."""
        if self._plain is None:
            self._plain = plain(self.expression)
        return self._plain

    @property
    def balls(self) -> Callable[..., Any]:
        """The function of balls."""
        if self._balls is None:
            general = compile_balls(self.symbols, self.expression, kind=self.kind)
            self._balls = self._by_exponents(general) if self.exponents else general
        return self._balls

    def _by_exponents(self, general: Callable[..., Any]) -> Callable[..., Any]:
        """The function of balls, with integer exponents substituted if the base is a ball around 0.

        A power with an integer exponent is a polynomial, so the sign of its base need not be decided.
        """

        def apply(*xs: Any) -> Any:
            if not any(i not in self.exponents and _around_0(x) for i, x in enumerate(xs)):
                return general(*xs)
            fixed = self.fixed(xs)
            if not fixed:
                return general(*xs)
            made = self._at_exponents.get(fixed)
            if made is None:
                put = {self.symbols[i]: sp.Integer(n) for i, n in fixed}
                made = compile_balls(self.symbols, self.expression.xreplace(put), kind=self.kind)
                self._at_exponents[fixed] = made
            return made(*xs)

        return apply

    def fixed(self, xs: tuple[Any, ...], active: tuple[int, ...] = ()) -> tuple[tuple[int, int], ...]:
        """The exponents among the arguments that are known integers, as pairs of argument and integer."""
        return tuple((i, n) for i in self.exponents if i not in active and (n := whole_number(xs[i], 64)) is not None)

    def partials(self, active: tuple[int, ...], k: int, fixed: tuple[tuple[int, int], ...] = ()) -> list[sp.Expr]:
        """The value and all partial derivatives up to order `k` by the active arguments, ordered by `multi_indices`.

        Parameters
        ----------
        fixed : tuple of (argument, int)
            Arguments that are known integers. They are substituted first, because x**n is then a polynomial at 0.
        """
        put = {self.symbols[i]: sp.Integer(n) for i, n in fixed}
        found: dict[tuple[int, ...], sp.Expr] = {}
        for m in multi_indices(len(active), k):
            if m:
                lower = found[m[:-1]] if len(m) > 1 else self.plain.xreplace(put)
                found[m] = derivative(lower, self.symbols[active[m[-1]]])
            else:
                found[m] = self.expression.xreplace(put)
        return list(found.values())

    def jets(self, active: tuple[int, ...], k: int, fixed: tuple[tuple[int, int], ...]) -> Callable[..., Any]:
        """The function ``(*values) -> value and partials`` of balls, compiled once."""
        key = (active, k, fixed)
        made = self._jets.get(key)
        if made is None:
            made = self._jets[key] = compile_balls(self.symbols, self.partials(active, k, fixed), kind=self.kind)
        return made

    def slopes(self, active: tuple[int, ...]) -> Callable[..., Any]:
        """The function ``(*arguments, value) -> first partials`` of balls by the active arguments, compiled once.

        The partials take the value where they contain the mirror itself, such as 1 - tanh(x)**2.
        """
        made = self._jets.get(active)
        if made is None:
            value = sp.Symbol("y", real=True)
            found = [p.xreplace({self.expression: value}) for p in self.partials(active, 1)[1:]]
            made = self._jets[active] = compile_balls(
                (*self.symbols, value), found if len(active) > 1 else found[0], kind=self.kind
            )
        return made


def _around_0(x: Any) -> bool:
    return isinstance(x, arb) and not x.is_exact() and x.contains(0)


def exact_parameter(value: Any) -> Any:
    """A static parameter without rounding: floats as rationals, NumPy scalars as Python numbers, tuples by element."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return exact_rational(value)
    if isinstance(value, (tuple, list)):
        return tuple(exact_parameter(v) for v in value)
    return value


def exact_rational(x: float) -> sp.Expr:
    """The rational number that a float equals. Infinities and NaN become SymPy's."""
    if x != x:
        return sp.nan
    if x in (float("inf"), float("-inf")):
        return sp.oo if x > 0 else -sp.oo
    return sp.Rational(*x.as_integer_ratio())


_TEMPLATES: dict[Any, Template] = {}


def template(mirror: Callable[..., Any], arity: int, params: dict[str, Any], kind: str = "arb") -> Template:
    """The template of a mirror. Each arity and set of parameters has one template."""
    key = (mirror, arity, kind, tuple(sorted((name, hashable(value)) for name, value in params.items())))
    made = _TEMPLATES.get(key)
    if made is None:
        made = _TEMPLATES[key] = Template(mirror, arity, params, kind)
    return made


def hashable(value: Any) -> Any:
    """A static parameter as a key of a table."""
    if isinstance(value, (tuple, list)):
        return tuple(hashable(v) for v in value)
    return (type(value), value)  # True, 1 and 1.0 are different parameters


def jet_function(made: Template, k: int) -> Callable[..., Any]:
    """An elementwise mirror as a function of jets in `k` directions and of plain balls.

    The derivatives come from ``sympy.diff`` of the mirror, never from a rule of the tape.
    """
    if len(made.symbols) == 1:
        return _unary(made, k)

    plans: dict[Any, Any] = {}

    def apply(*xs: Any) -> Any:
        active = tuple(i for i, x in enumerate(xs) if isinstance(x, Jet))
        if not active:
            return made.balls(*xs)
        fixed = made.fixed(xs, active)
        plan = plans.get((active, fixed))
        if plan is None:
            plan = plans[active, fixed] = (made.jets(active, k, fixed), compose(k, len(active)))
        partials, combine = plan
        values = [x.components[0] if isinstance(x, Jet) else x for x in xs]
        return combine(partials(*values), *[xs[i].components for i in active])

    return apply


def _unary(made: Template, k: int) -> Callable[..., Any]:
    combine = compose(k, 1)
    partials: Any = None

    def apply(x: Any) -> Any:
        nonlocal partials
        if not isinstance(x, Jet):
            return made.balls(x)
        if partials is None:
            partials = made.jets((0,), k, ())
        return combine(partials(x.components[0]), x.components)

    return apply
