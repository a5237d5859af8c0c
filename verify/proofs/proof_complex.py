"""Proofs for complex numbers: that rules which hold for real numbers hold for a + ib too.

A mirror that is made of holomorphic functions alone is differentiated by a complex symbol: along b its derivative is i
times the one along a (Cauchy and Riemann), so that one identity says all. What is not holomorphic (real and imaginary
parts, conjugates) is run on a + ib with real symbols, and its derivatives along a and along b are compared. In the
plain transpose, in which rules run, the cotangent of z = a + ib for the cotangent g of y is

    Re(g dy/da) - i Re(g dy/db)
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import sympy as sp

from gtape.base.layout import make_aval
from gtape.declare.primitive import Primitive
from gtape.engine.rules import RuleStep, cotangents
from gtape.symbolic.balls import Undecided, precision
from gtape.symbolic.compile import compile_balls
from gtape.symbolic.mirrors.registry import COMPLEX, SCALARS
from gtape.symbolic.scalars import template
from gtape.symbolic.worlds import SymPyWorld
from gtape.tapes.forward import jvp_of
from gtape.verify.proofs.proof_cells import boxed, parameters
from gtape.verify.proofs.proof_normal import Zero
from gtape.verify.proofs.proof_rules import FAULTS

__all__ = ["ComplexCase", "complex_cases"]

_BITS = 200
_SAMPLES = 2
_NOT_HOLOMORPHIC = (sp.Abs, sp.re, sp.im, sp.conjugate, sp.sign, sp.Max, sp.Min, sp.floor, sp.ceiling, sp.arg)


class ComplexCase:
    """One identity of complex numbers: see `gtape.verify.proofs.proof.Case` for the attributes.

    Attributes
    ----------
    counterexample : str or None
        Python source that shows what is wrong, where it was refuted.
    """

    __slots__ = ("argument", "counterexample", "direction", "how", "params", "seconds", "shapes")

    def __init__(self, shapes: Any, params: dict[str, Any], direction: str, argument: int) -> None:
        self.shapes, self.params, self.direction, self.argument = shapes, params, direction, argument
        self.how = "open"
        self.seconds = 0.0
        self.counterexample: str | None = None


class _World(SymPyWorld):
    """SymPy expressions of complex symbols: two of them are equal only where they are so for all values."""

    def _elementwise(self, name: str) -> Any:
        mirror = COMPLEX.get(name, SCALARS[name])

        def apply(*args: Any, **params: Any) -> Any:
            made = template(mirror, len(args), params, "acb")

            def one(*xs: Any) -> Any:
                put = dict(zip(made.symbols, map(self.exact, xs), strict=True))
                return (
                    self._resolve(made.expression, put)
                    if made.expression.has(sp.Piecewise)
                    else (made.expression.xreplace(put))
                )

            return boxed(np.frompyfunc(one, len(args), 1)(*[self.objects(a) for a in args]))

        return apply

    def sign_of(self, a: Any, b: Any, relation: str) -> int:
        """Only whether a generic number is another one."""
        difference = sp.expand(self.exact(a) - self.exact(b))
        if relation not in ("==", "!=") or (difference.is_zero is None and not difference.free_symbols):
            raise Undecided(relation, a, b, hopeless=True)
        return 0 if difference == 0 else 1


def complex_cases(prim: Primitive, *, seconds: float) -> list[ComplexCase]:
    """Prove the rules of a primitive on complex numbers.

    Parameters
    ----------
    prim : Primitive
        One that takes complex numbers by its own rules, or makes them.
    seconds : float
        How long one identity may take.

    Returns
    -------
    list of ComplexCase
        Empty for what has no rules of its own there, and for what equations define: its rules are rational in the
        entries, so that the identities proved for real symbols are identities of polynomials.
    """
    takes = prim.complex is True or callable(prim.complex) or "complex" in prim.roles
    if not takes or prim.kind == "implicit":
        return []
    if prim.kind == "elementwise":
        settings = [(tuple(() for _ in prim.rules), params) for params in parameters(prim)]
    else:
        settings = list((prim.samples or ())[:_SAMPLES])
    found = []
    for shapes, params in settings:
        run = _Run(prim, shapes, params, seconds)
        for i in run.active:
            for direction in ("vjp", "jvp"):
                began = time.perf_counter()
                found.append(run.case(direction, i))
                found[-1].seconds = time.perf_counter() - began
    return found


def _symbols(name: str, shape: tuple[int, ...], **words: Any) -> np.ndarray:
    out = np.empty(shape, dtype=object)
    for at in np.ndindex(*shape):
        out[at] = sp.Symbol("_".join([name, *map(str, at)]), **words)
    return out


class _Run:
    """A primitive on generic complex numbers of given shapes."""

    def __init__(self, prim: Primitive, shapes: Any, params: dict[str, Any], seconds: float) -> None:
        self.prim, self.params, self.world, self.zero = prim, params, _World(), Zero(seconds)
        self.shapes = tuple(np.shape(s) if isinstance(s, np.ndarray) else tuple(s) for s in shapes)
        self.active = [
            i for i, s in enumerate(shapes)
            if not isinstance(s, np.ndarray) and (prim.variadic or (i < len(prim.rules) and prim.connected(i)))
        ]  # fmt: skip
        self.makes = "complex" in prim.roles  # of real arguments
        self.split = bool(prim.roles & {"part", "conjugate", "complex"})
        self.dtype = np.dtype(np.float64 if self.makes else np.complex128)
        self.parts: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.xs: list[Any] = []
        for i, s in enumerate(shapes):
            if isinstance(s, np.ndarray):
                self.xs.append(s.astype(bool) if "selection" in prim.roles else s)
            elif not self.split:
                self.xs.append(_symbols(f"z{i}", tuple(s)))
            else:
                a, b = _symbols(f"a{i}", tuple(s), real=True), _symbols(f"b{i}", tuple(s), real=True)
                self.parts[i] = (a, b)
                self.xs.append(a if self.makes else boxed(a + sp.I * b))
        if "selection" in prim.roles:
            self.xs[0] = np.asarray(True)
            self.active = [1, 2]
        made = getattr(self.world, prim.name)(*self.xs, **params)
        self.several = isinstance(made, (tuple, list))
        self.outputs: list[Any] = [boxed(m) for m in made] if self.several else [boxed(made)]

    def case(self, direction: str, i: int) -> ComplexCase:
        """Decide one identity."""
        case = ComplexCase(self.shapes, self.params, direction, i)
        try:
            got, expected, seeds = self._pulled(i) if direction == "vjp" else self._pushed(i)
        except FAULTS as e:
            case.how = "fault"
            case.counterexample = f"# {direction} of {self.prim.name} on complex symbols raises {type(e).__name__}: {e}"
            return case
        hows = ["as built"]
        for m, wanted in zip(got, expected, strict=True):
            if np.shape(m) != wanted.shape:
                case.how, case.counterexample = "fault", f"# the rule gives the shape {np.shape(m)}, not {wanted.shape}"
                return case
            for left, right in zip(boxed(m).ravel().tolist(), wanted.ravel().tolist(), strict=True):
                how, text = self._element(sp.sympify(left), sp.sympify(right), seeds)
                hows.append(how)
                if text is not None:
                    case.how, case.counterexample = how, f"# {direction} of {self.prim.name}, argument {i}: {text}"
                    return case
        order = ("as built", "expand", "numerator", "normal form", "points", "open")
        case.how = max(hows, key=order.index)
        return case

    # -- both sides of an identity

    def _holomorphic(self, e: Any) -> None:
        if isinstance(e, sp.Basic) and e.has(*_NOT_HOLOMORPHIC):
            raise ValueError(f"the mirror {e} is not made of holomorphic functions")

    def _pulled(self, i: int) -> tuple[list[Any], list[Any], list[Any]]:
        prim = self.prim
        complex_out = "part" not in prim.roles
        gs = [_symbols(f"g{k}", o.shape, **({} if not self.split else {"real": True})) for k, o in self._numbered()]
        if self.split and complex_out:
            gs = [boxed(g + sp.I * _symbols(f"h{k}", g.shape, real=True)) for k, g in enumerate(gs)]
        avals = tuple(make_aval(self.dtype if np.asarray(x).dtype == object else x.dtype, np.shape(x)) for x in self.xs)
        outs = tuple(make_aval(np.dtype(np.complex128), o.shape) for o in self.outputs)
        reads = prim.reads[i]
        xs = tuple(x if j in reads or prim.variadic else avals[j] for j, x in enumerate(self.xs))
        y: Any = (tuple(self.outputs) if self.several else self.outputs[0]) if "y" in reads else None
        step = RuleStep(prim, (i,), self.params, avals, outs if self.several else outs[0])
        shape = () if self.several else self.outputs[0].shape
        g = tuple(gs) if self.several else gs[0]
        got = cotangents(self.world, step, g, y, xs, avals=avals, out_shape=shape)[0]
        seeds = sorted(set().union(*[e.free_symbols for g in gs for e in g.ravel()]), key=str)
        return [got], [self._transposed(i, gs)], seeds

    def _numbered(self) -> Any:
        return enumerate(self.outputs)

    def _transposed(self, i: int, gs: list[Any]) -> np.ndarray:
        pairs = [
            (e, g) for o, s in zip(self.outputs, gs, strict=True) for e, g in zip(o.ravel(), s.ravel(), strict=True)
        ]
        if not self.split:
            for e, _ in pairs:
                self._holomorphic(e)
            return _map(lambda z: sp.Add(*[g * _diff(e, z) for e, g in pairs]), self.xs[i])
        a, b = self.parts[i]

        def one(p: Any, q: Any) -> Any:
            along = [sp.Add(*[sp.re(sp.expand(g * _diff(e, s))) for e, g in pairs]) for s in (p, q)]
            return along[0] if self.makes else along[0] - sp.I * along[1]

        return boxed(np.frompyfunc(one, 2, 1)(a, b))

    def _pushed(self, i: int) -> tuple[list[Any], list[Any], list[Any]]:
        real = {"real": True} if self.split else {}
        shape = np.shape(self.xs[i])
        t, u = _symbols("t", shape, **real), _symbols("u", shape, **real)
        tangent = t if not self.split or self.makes else boxed(t + sp.I * u)
        given = [tangent if j == i else None for j in range(len(self.xs))]
        y: Any = tuple(self.outputs) if self.several else self.outputs[0]
        out_shape = () if self.several else self.outputs[0].shape
        made = jvp_of(self.world, self.prim, given, y, tuple(self.xs), self.params, out_shape)
        got = list(made) if isinstance(made, (tuple, list)) else [made]
        if self.split:
            a, b = self.parts[i]
            steps = [*zip(a.ravel(), t.ravel(), strict=True)]
            steps += [] if self.makes else [*zip(b.ravel(), u.ravel(), strict=True)]
        else:
            steps = [*zip(self.xs[i].ravel(), t.ravel(), strict=True)]
        expected = [_map(lambda e: sp.Add(*[v * _diff(e, s) for s, v in steps]), o) for o in self.outputs]
        return got, expected, [v for _, v in steps]

    # -- deciding

    def _element(self, got: Any, expected: Any, seeds: list[Any]) -> tuple[str, str | None]:
        residual = got - expected
        if self.split:
            residual = sp.expand(residual)
        how = self.zero.quick(residual, seeds)
        if how is not None:
            return how, None
        symbols = sorted(residual.free_symbols, key=str)
        tested = True
        try:
            function = compile_balls(symbols, residual, kind="acb")
            for k in range(3):
                values = [_number(j, k) for j in range(len(symbols))]
                with precision(_BITS):
                    ball = function(*values)
                if not ball.is_finite():
                    tested = False
                elif not ball.contains(0):
                    at = ", ".join(f"{s} = {v}" for s, v in zip(symbols, values, strict=True))
                    return "refuted", f"the rule is off by {ball.str(10)} at {at}"
        except (ArithmeticError, NotImplementedError, ValueError, TypeError):
            tested = False
        how = self.zero.prove(residual, seeds)
        return (how if how is not None else "points" if tested else "open"), None


def _number(j: int, k: int) -> Any:
    from flint import acb, arb

    a, b = arb(2 * j + 3 + k) / (7 + 2 * k), arb(3 * j + 1 + 2 * k) / (11 + k)
    return acb(-a if (j + k) % 2 else a, b if k % 2 else -b)


def _diff(e: Any, s: Any) -> Any:
    return sp.diff(e, s) if isinstance(e, sp.Basic) and e.has(s) else sp.Integer(0)


def _map(f: Any, x: Any) -> np.ndarray:
    return boxed(np.frompyfunc(f, 1, 1)(boxed(x)))
