"""Decides if a rational expression is zero, by a numerator over factored denominators.

Derivatives of quotients repeat a few denominators in many powers. With powers of factors, a common denominator needs
only counts, and neither greatest common divisors nor expanded products.
"""

from __future__ import annotations

from typing import Any

import sympy as sp
from sympy.polys.rings import PolyRing

__all__ = ["is_zero_rational", "nodes", "numerator_of", "symbols_of"]

Denominator = dict[Any, int]
Fraction = tuple[Any, Denominator]


def nodes(e: Any) -> set[Any]:
    """The distinct subexpressions.

    SymPy's own searches pass a subexpression once for each of its places, which are a thousand times as many in a
    derivative of a factorisation.
    """
    found, pending = {e}, [e]
    while pending:
        for part in pending.pop().args:
            if part not in found:
                found.add(part)
                pending.append(part)
    return found


def symbols_of(e: Any) -> set[Any]:
    """The symbols of an expression that binds none."""
    return {part for part in nodes(e) if part.is_Symbol}


class _Field:
    def __init__(self, symbols: list[Any]) -> None:
        self.ring = PolyRing(symbols, sp.QQ, sp.polys.orderings.lex)
        self.generators = dict(zip(symbols, self.ring.gens, strict=True))
        self.known: dict[Any, Fraction] = {}

    def fraction(self, e: Any) -> Fraction:
        found = self.known.get(e)
        if found is None:
            found = self.known[e] = self._made(e)
        return found

    def _made(self, e: Any) -> Fraction:
        if e.is_Rational:
            return self.ring.ground_new(sp.QQ(int(e.p), int(e.q))), {}
        if e.is_Symbol:
            return self.generators[e], {}
        if e.is_Add:
            return self._sum([self.fraction(a) for a in e.args])
        if e.is_Mul:
            return self._product([self.fraction(a) for a in e.args])
        if e.is_Pow and e.exp.is_Integer:
            return self._power(self.fraction(e.base), int(e.exp))
        raise ValueError(f"{e} is not rational")

    def _sum(self, parts: list[Fraction]) -> Fraction:
        whole: Denominator = {}
        for _, below in parts:
            for factor, n in below.items():
                whole[factor] = max(whole.get(factor, 0), n)
        total = self.ring.zero
        for above, below in parts:
            for factor, n in whole.items():
                missing = n - below.get(factor, 0)
                if missing:
                    above = above * factor**missing
            total = total + above
        return total, whole if total else {}

    def _product(self, parts: list[Fraction]) -> Fraction:
        above = self.ring.one
        whole: Denominator = {}
        for a, below in parts:
            above = above * a
            for factor, n in below.items():
                whole[factor] = whole.get(factor, 0) + n
        return above, whole if above else {}

    def _power(self, base: Fraction, n: int) -> Fraction:
        above, below = base
        if n >= 0:
            return above**n, {factor: m * n for factor, m in below.items()}
        if not above:
            raise ZeroDivisionError
        content, primitive = above.primitive()
        if primitive.LC < 0:
            content, primitive = -content, -primitive
        inverse = self.ring.ground_new(1 / content)
        for factor, m in below.items():
            inverse = inverse * factor**m
        if primitive.is_ground:
            return inverse**-n, {}
        return inverse**-n, {primitive: -n}


def is_zero_rational(e: Any) -> bool:
    """True if a rational function of symbols, with rational coefficients, is zero.

    Parameters
    ----------
    e : sympy.Expr
        Sums, products and integer powers of symbols and rational numbers.

    Raises
    ------
    ValueError
        For any other expression.

    Examples
    --------
    >>> x, y = sp.symbols("x y")
    >>> is_zero_rational(1 / x - 1 / y - (y - x) / (x * y))
    True
    """
    return not numerator_of(e)


def numerator_of(e: Any) -> Any:
    """The numerator of a rational function over the product of its factored denominators, as an element of a ring."""
    return _Field(sorted(symbols_of(e), key=str)).fraction(e)[0]
