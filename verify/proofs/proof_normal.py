"""Decides if an expression is zero: normal forms prove it, exact points refute it.

The cheapest form comes first. The last one writes the expression as a quotient of polynomials in generators with known
relations: exponentials (split into a product over the terms of the exponent), roots r with r**q = b, sine and cosine
with s**2 + c**2 = 1, logarithms, and each other function at its arguments. These relations reduce the numerator. A zero
numerator is a proof; any other numerator proves nothing, because generators may have unknown relations.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from math import lcm
from typing import Any

import sympy as sp
from flint import acb, arb

from gtape.symbolic.balls import precision
from gtape.symbolic.compile import compile_balls
from gtape.verify.proofs.proof_rational import is_zero_rational, nodes, numerator_of

__all__ = ["OutOfTime", "Zero", "agree", "generators_of", "is_zero_by_normal_form", "time_limit"]

BITS = 300
_HYPERBOLIC = (sp.sinh, sp.cosh, sp.tanh, sp.coth, sp.sech, sp.csch)
_TRIGONOMETRIC = (sp.tan, sp.cot, sp.sec, sp.csc)


class OutOfTime(Exception):
    """A step of a proof exceeded its time limit."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` in the block after some seconds.

    Outside the main thread, and on systems without SIGALRM, the block has no limit, because only a signal stops SymPy.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: Any) -> None:
        raise OutOfTime(f"no answer in {seconds} s")

    before = signal.getsignal(signal.SIGALRM)
    try:
        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
        finally:  # after an interrupt, too
            signal.signal(signal.SIGALRM, before)


class _Generators:
    """An expression as a rational function of generators, and the relations between them."""

    def __init__(self, e: Any) -> None:
        self.names: dict[Any, sp.Symbol] = {}
        self.roots: list[tuple[sp.Symbol, int, Any]] = []
        self.circles: dict[Any, tuple[sp.Symbol, sp.Symbol]] = {}
        self.scale: dict[Any, int] = {}
        self.expression = self.lift(self._prepared(e))

    def _prepared(self, e: Any) -> Any:
        e = e.replace(lambda f: isinstance(f, _HYPERBOLIC), lambda f: f.rewrite(sp.exp))
        e = e.replace(lambda f: isinstance(f, _TRIGONOMETRIC), lambda f: f.rewrite(sp.sin, sp.cos).rewrite(sp.cos))
        e = e.replace(sp.erfc, lambda x: 1 - sp.erf(x))
        e = sp.expand_log(e)
        for node in e.atoms(sp.exp, sp.Pow):
            for key, c in self._exponents(node):
                self.scale[key] = lcm(self.scale.get(key, 1), int(c.q))
        return e

    @staticmethod
    def _exponents(node: Any) -> list[tuple[Any, Any]]:
        """The terms of an exponent as (generator, its rational power); empty for rational powers."""
        if isinstance(node, sp.exp):
            base, exponent = sp.E, node.args[0]
        elif node.is_Pow and not node.exp.is_Rational:
            base, exponent = node.base, node.exp
        else:
            return []
        found = []
        for term in sp.Add.make_args(sp.expand(exponent)):
            c, rest = term.as_coeff_Mul(rational=True)
            found.append(((base, rest), c))
        return found

    def name(self, key: Any) -> sp.Symbol:
        made = self.names.get(key)
        if made is None:
            made = self.names[key] = sp.Dummy(f"G{len(self.names)}")
        return made

    def lift(self, e: Any) -> Any:
        if e.is_Rational or e.is_Symbol:
            return e
        if e.is_Add or e.is_Mul:
            return e.func(*map(self.lift, e.args))
        if isinstance(e, sp.exp) or (e.is_Pow and not e.exp.is_Rational):
            factors = []
            for (base, rest), c in self._exponents(e):
                if rest == 1 and base != sp.E:
                    factors.append(self.lift(sp.Pow(base, c)))
                else:
                    factors.append(self.name((base, rest)) ** (c * self.scale[base, rest]))
            return sp.Mul(*factors)
        if e.is_Pow:
            return self.lift(e.base) ** e.exp if e.exp.is_Integer else self.root(e.base, e.exp)
        if isinstance(e, (sp.sin, sp.cos)):
            pair = self.circles.get(e.args)
            if pair is None:
                pair = self.circles[e.args] = (self.name(sp.sin(*e.args)), self.name(sp.cos(*e.args)))
            return pair[isinstance(e, sp.cos)]
        return self.name(e)

    def root(self, base: Any, power: Any) -> Any:
        factors = [f.as_base_exp() for f in sp.Mul.make_args(sp.factor(base))]
        if len(factors) > 1 and all(f.is_positive for f, _ in factors):
            return sp.Mul(*[self.lift(sp.Pow(f, n * power)) for f, n in factors])
        return self.single(base, power)

    def single(self, base: Any, power: Any) -> Any:
        q = int(power.q)
        key = ("root", sp.expand(base), q)
        inner = self.lift(base)  # roots inside it come first in the list, because they are reduced last
        if key not in self.names:
            self.roots.append((self.name(key), q, inner))
        return self.names[key] ** int(power.p)


def generators_of(e: Any) -> list[Any]:
    """The functions that, together with the symbols, generate the normal form of an expression as a quotient of
    polynomials.

    Examples
    --------
    >>> x = sp.Symbol("x", real=True)
    >>> generators_of(sp.tanh(x) - sp.sqrt(x))
    [exp(x), sqrt(x)]
    """
    made = _Generators(e)
    found = []
    for key in made.names:
        if isinstance(key, tuple) and key[0] == "root":
            found.append(sp.Pow(key[1], sp.Rational(1, key[2])))
        elif isinstance(key, tuple):
            base, rest = key
            found.append(sp.Pow(base, rest / made.scale[key], evaluate=True))
        else:
            found.append(key)
    return sorted(found, key=str)


def _numerator(e: Any) -> Any:
    return numerator_of(e).as_expr()


def _reduced(numerator: Any, symbol: Any, q: int, base: Any) -> Any:
    """The numerator of a polynomial with symbol**q replaced by `base`."""
    if sp.degree(numerator, symbol) < q:
        return numerator
    made = sp.Add(*[c * base ** (k // q) * symbol ** (k % q) for (k,), c in sp.Poly(numerator, symbol).terms()])
    return _numerator(made)


def is_zero_by_normal_form(e: Any) -> bool:
    """True if the numerator over generators reduces to zero; False proves nothing.

    Parameters
    ----------
    e : sympy.Expr
        Free of Piecewise.

    Examples
    --------
    >>> x = sp.Symbol("x", real=True)
    >>> is_zero_by_normal_form(sp.tanh(x) - (1 - sp.exp(-2 * x)) / (1 + sp.exp(-2 * x)))
    True
    """
    generators = _Generators(e)
    if not generators.roots and not generators.circles:
        return is_zero_rational(generators.expression)
    numerator = _numerator(generators.expression)
    for symbol, q, base in reversed(generators.roots):
        if numerator == 0:
            return True
        numerator = _reduced(numerator, symbol, q, base)
    for sine, cosine in generators.circles.values():
        if numerator == 0:
            return True
        numerator = _reduced(numerator, sine, 2, 1 - cosine**2)
    return bool(numerator == 0)


def agree(e: Any, points: Sequence[Mapping[Any, Any]], *, complex: bool = False) -> Mapping[Any, Any] | None:
    """A point at which the expression is certainly not zero, or None if it is zero within 1e-40 at all points.

    Raises
    ------
    ArithmeticError
        If the expression is undefined or undecided at a point.
    """
    symbols = sorted(e.free_symbols, key=str)
    function = compile_balls(symbols, e, kind="acb" if complex else "arb")
    for point in points:
        with precision(BITS):
            value = function(*[_ball(point[s]) for s in symbols])
            if not value.is_finite():
                raise ArithmeticError(f"{e} is not defined at {dict(point)}")
            if not value.contains(0):
                return point
            if not abs(value) < _ball(sp.Rational(1, 10**40)):
                raise ArithmeticError(f"{e} is not decided at {dict(point)}: {value}")
    return None


def _ball(x: Any) -> Any:
    if not x.is_real:
        return acb(_ball(sp.re(x)), _ball(sp.im(x)))
    return arb(int(x.p)) / int(x.q)


class Zero:
    """Proves that expressions are zero, and remembers proofs.

    Parameters
    ----------
    seconds : float
        The time limit of one expression.
    """

    def __init__(self, seconds: float = 10.0) -> None:
        self.seconds = seconds
        self.known: dict[Any, str] = {}

    def quick(self, e: Any, seeds: Sequence[sp.Symbol]) -> str | None:
        """The name of a cheap proof that the expression is zero (as built, expanded, or known), or None."""
        if e == 0:
            return "as built"
        try:
            with time_limit(self.seconds):
                if _rational(e):
                    polynomial = all(p.exp.is_positive for p in nodes(e) if p.is_Pow)
                    return ("expand" if polynomial else "numerator") if is_zero_rational(e) else None
                if not e.has(sp.Function):
                    return "expand" if sp.expand(e) == 0 else None
                found = [self.known.get(_renamed(p)) for p in _apart(e, seeds) if p != 0]
        except OutOfTime:
            return None
        return _dearest(found)

    def prove(self, e: Any, seeds: Sequence[sp.Symbol], splits: Callable[[Any], list[Any]] | None = None) -> str | None:
        """The name of a proof that the expression is zero, or None.

        Parameters
        ----------
        e : sympy.Expr
        seeds : sequence of sympy.Symbol
            Cotangents or tangents; a correct residual is linear in them, so it splits into one part for each.
        splits : callable, optional
            Returns versions of an expression with positive and negative symbols, which together cover the cell; called
            if no form covers the whole cell.
        """
        try:
            with time_limit(self.seconds):
                found = []
                for p in _apart(e, seeds):
                    found.append(self._part(p, splits))
                    if found[-1] is None:
                        return None
                return _dearest(found)
        except OutOfTime:
            return None

    def _part(self, e: Any, splits: Callable[[Any], list[Any]] | None) -> str | None:
        if e == 0:
            return "as built"
        # Rename symbols in the order of appearance, because other elements of an array repeat the residual with other
        # names.
        key = _renamed(e)
        how = self.known.get(key)
        if how is None:
            how = self._forms(e)
            if how is not None:
                self.known[key] = how
        if how is None and splits is not None:  # do not remember this proof, because the signs depend on the cell
            pieces = splits(e)
            if pieces and all(sp.expand(p) == 0 or is_zero_by_normal_form(p) for p in pieces):
                how = "normal form, by signs"
        return how

    def _forms(self, e: Any) -> str | None:
        if _rational(e):
            return "numerator" if is_zero_rational(e) else None
        return "normal form" if is_zero_by_normal_form(e) else None


def _rational(e: Any) -> bool:
    parts = nodes(e)
    if any(isinstance(p, (sp.Function, sp.Float)) or p is sp.I for p in parts):
        return False
    return all(p.exp.is_Integer and p.base != sp.E for p in parts if p.is_Pow)


_COST = ("as built", "expand", "numerator", "normal form", "normal form, by signs")


def _dearest(found: list[str | None]) -> str | None:
    known = [f for f in found if f is not None]
    return max(known, key=_COST.index, default="as built") if len(known) == len(found) else None


def _apart(e: Any, seeds: Sequence[sp.Symbol]) -> list[Any]:
    """The coefficients of an expression that is linear in the seeds; else the expression itself."""
    return list(_coefficients(e, tuple(seeds)))


@lru_cache(maxsize=8)  # because `Zero.prove` asks for those that `Zero.quick` has asked for
def _coefficients(e: Any, seeds: tuple[sp.Symbol, ...]) -> tuple[Any, ...]:
    slopes: dict[Any, list[Any]] = {s: [] for s in seeds}
    for term in sp.Add.make_args(e):
        inside = nodes(term)
        for s in seeds:
            if s in inside:
                slopes[s].append(_slope(term, s))
    used = [s for s in seeds if slopes[s]]
    parts = [sp.Add(*slopes[s]) for s in used]
    rest = e.xreplace(dict.fromkeys(used, sp.Integer(0)))
    return (e,) if rest != 0 or not used or any(not nodes(p).isdisjoint(used) for p in parts) else tuple(parts)


def _slope(term: Any, s: sp.Symbol) -> Any:
    """The derivative of a term. Of s times factors without s, these factors, because SymPy finds them slowly."""
    factors = sp.Mul.make_args(term)
    rest = [f for f in factors if f != s]
    if len(rest) == len(factors) - 1 and not any(s in nodes(f) for f in rest):
        return sp.Mul(*rest)
    return sp.diff(term, s)


def _renamed(e: Any) -> Any:
    order: dict[Any, Any] = {}
    seen, pending = set(), [e]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.is_Symbol:
            order[node] = sp.Symbol(f"s{len(order)}", **node.assumptions0)
        pending.extend(reversed(node.args))
    return e.xreplace(order)
