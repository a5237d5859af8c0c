"""Proofs that rules hold for complex numbers a + ib, too.

A mirror of holomorphic functions is differentiated by a complex symbol: one identity suffices, because the derivative
along b is i times the derivative along a (Cauchy and Riemann). Other mirrors (real and imaginary parts, conjugates) run
on a + ib with real symbols, and their derivatives along a and along b are compared. Rules compute the plain transpose,
in which the cotangent of z = a + ib for the cotangent g of y is

    Re(g dy/da) - i Re(g dy/db)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import sympy as sp

from gtape.base.layout import make_layout
from gtape.declare.primitives import Primitive
from gtape.symbolic.balls import Undecided
from gtape.symbolic.mirrors.registry import COMPLEX, SCALARS
from gtape.symbolic.scalars import template
from gtape.symbolic.worlds import SymPyWorld
from gtape.verify.proofs.proof_cells import boxed, parameters, symbols
from gtape.verify.proofs.proof_rules import Cell, Identity, pull, pulled, push, pushed

__all__ = ["complex_cells"]

_SAMPLES = 2
_POINTS = 3
_NOT_HOLOMORPHIC = (sp.Abs, sp.re, sp.im, sp.conjugate, sp.sign, sp.Max, sp.Min, sp.floor, sp.ceiling, sp.arg)


class _World(SymPyWorld):
    """SymPy expressions of complex symbols; two expressions are equal only if they are equal for all values."""

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
        """0 for equal generic numbers, 1 for different ones; other relations raise Undecided."""
        difference = sp.expand(self.exact(a) - self.exact(b))
        if relation not in ("==", "!=") or (difference.is_zero is None and not difference.free_symbols):
            raise Undecided(relation, a, b, hopeless=True)
        return 0 if difference == 0 else 1


def complex_cells(prim: Primitive) -> Iterator[tuple[Cell, list[Identity]]]:
    """A primitive on generic complex numbers, with the identities to prove there.

    Yields
    ------
    Cell, list of Identity
        Primitives without rules of their own for complex numbers have no cell. Implicit primitives have none either,
        because their rules are rational in the entries, so the identities proved for real symbols are identities of
        polynomials.
    """
    takes = prim.complex is True or callable(prim.complex) or "complex" in prim.roles
    if not takes or prim.kind == "implicit":
        return
    if prim.kind == "elementwise":
        settings = [(tuple(() for _ in prim.rules), params) for params in parameters(prim)]
    else:
        settings = list((prim.samples or ())[:_SAMPLES])
    for shapes, params in settings:
        cell = _ComplexCell(prim, shapes, params)
        yield cell, [identity for i in cell.active for identity in (cell.vjp(i), cell.jvp(i))]


class _ComplexCell(Cell):
    """A primitive on generic complex numbers of given shapes."""

    complex = True
    out_dtype = np.dtype(np.complex128)

    def __init__(self, prim: Primitive, shapes: Any, params: dict[str, Any]) -> None:
        self.prim, self.params, self.world = prim, params, _World()
        self.shapes = tuple(np.shape(s) if isinstance(s, np.ndarray) else tuple(s) for s in shapes)
        self.active = [
            i for i, s in enumerate(shapes)
            if not isinstance(s, np.ndarray) and (prim.variadic or (i < len(prim.rules) and prim.connected(i)))
        ]  # fmt: skip
        # A cast to floats takes the real part.
        to_real = "conversion" in prim.roles and np.dtype(params.get("dtype", np.complex128)).kind == "f"
        self.to_real = to_real or "part" in prim.roles
        self.split = self.to_real or bool(prim.roles & {"conjugate", "complex"})
        self.from_real = "complex" in prim.roles
        self.parts: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.xs = []
        for i, s in enumerate(shapes):
            if isinstance(s, np.ndarray):
                self.xs.append(s.astype(bool) if "selection" in prim.roles else s)
            else:
                self.xs.append(self.generic(f"z{i}", tuple(s), i))
        if "selection" in prim.roles:
            self.xs[0] = np.asarray(True)
            self.active = [1, 2]
        dtype = np.dtype(np.float64 if self.from_real else np.complex128)
        self.layouts = tuple([make_layout(dtype if x.dtype == object else x.dtype, x.shape) for x in self.xs])
        self.run()
        used = set().union(*[e.free_symbols for x in self.xs if x.dtype == object for e in x.ravel()])
        self.points = [
            {s: _number(j, k, s.is_real) for j, s in enumerate(sorted(used, key=str))} for k in range(_POINTS)
        ]

    def generic(self, name: str, shape: tuple[int, ...], i: int, real: bool | None = None) -> np.ndarray:
        """Generic numbers: complex symbols, or real and imaginary parts, which `parts[i]` keeps."""
        if not self.split:
            return symbols(name, shape)
        a, b = symbols(f"{name}a", shape, real=True), symbols(f"{name}b", shape, real=True)
        self.parts[i] = (a, b)
        return a if (self.from_real if real is None else real) else boxed(a + sp.I * b)

    def key(self) -> tuple[str, ...]:
        return ("complex numbers",)

    def residual(self, got: Any, expected: Any) -> Any:
        return sp.expand(got - expected) if self.split else got - expected

    def nearby(self) -> Iterator[dict[Any, Any]]:
        yield from self.points

    def by_signs(self, e: Any) -> list[Any]:
        return []

    def _identity(self, direction: str, i: int, got: list[Any], expected: Any, seeds: list[Any]) -> Identity:
        linear = sorted(set().union(*[e.free_symbols for g in seeds for e in g.ravel()]), key=str)
        bad = [e for o in self.outputs for e in o.ravel() if isinstance(e, sp.Basic) and e.has(*_NOT_HOLOMORPHIC)]
        if bad and not self.split:
            got, made = [ValueError(f"the mirror {bad[0]} is not made of holomorphic functions")], self.outputs[:1]
        else:
            made = expected()
        return Identity(direction, (i,), got, made, seeds, linear)

    def vjp(self, i: int) -> Identity:
        """The cotangent of argument `i`."""
        gs = [self.generic(f"g{k}", o.shape, -1 - k, self.to_real) for k, o in enumerate(self.outputs)]

        def expected() -> list[Any]:
            if not self.split:
                return [pulled(self.outputs, gs, self.xs[i])]
            along = [_real_part(pulled(self.outputs, gs, s)) for s in self.parts[i]]
            return [along[0] if self.from_real else boxed(along[0] - sp.I * along[1])]

        return self._identity("vjp", i, [pull(self, i, gs)], expected, gs)

    def jvp(self, i: int) -> Identity:
        """The tangents of all outputs along argument `i`."""
        t = self.generic("t", self.xs[i].shape, -1)

        def expected() -> list[Any]:
            if not self.split:
                return [pushed(o, self.xs[i], t) for o in self.outputs]
            pairs = list(zip(self.parts[i], self.parts[-1], strict=True))[: 1 if self.from_real else 2]
            return [boxed(sum(pushed(o, x, v) for x, v in pairs)) for o in self.outputs]

        return self._identity("jvp", i, push(self, {i: t}), expected, [t])


def _real_part(x: np.ndarray) -> np.ndarray:
    return boxed(np.frompyfunc(lambda e: sp.re(sp.expand(e)), 1, 1)(x))


def _number(j: int, k: int, real: Any) -> Any:
    a, b = sp.Rational(2 * j + 3 + k, 7 + 2 * k), sp.Rational(3 * j + 1 + 2 * k, 11 + k)
    a = -a if (j + k) % 2 else a
    return a if real else a + (b if k % 2 else -b) * sp.I
