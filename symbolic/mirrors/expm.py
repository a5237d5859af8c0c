"""Mirrors of the matrix exponential and its derivatives.

In balls and jets: the exponential of one larger matrix, in which nilpotent blocks stand for directions. In symbols: the
closed form for 2x2 matrices, exp(A) = e^h (c(z) + s(z) (A - h)) with h half the trace and z = -det(A - h), where c(z)
and s(z) are cosh and sinh/sqrt of sqrt(z): both analytic, with derivatives c' = s/2 and s' = (c - s)/(2 z).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp
from flint import arb, arb_mat

from gtape.symbolic.mirrors.determinant import each, objects
from gtape.symbolic.mirrors.registry import array


class _Even(sp.Function):
    """cosh(sqrt(z))."""

    nargs = 1

    def fdiff(self, argindex: int = 1) -> Any:
        return _Odd(self.args[0]) / 2

    def _eval_evalf(self, prec: int) -> Any:
        return sp.cosh(sp.sqrt(self.args[0]))._eval_evalf(prec)


class _Odd(sp.Function):
    """sinh(sqrt(z)) / sqrt(z)."""

    nargs = 1

    def fdiff(self, argindex: int = 1) -> Any:
        z = self.args[0]
        return (_Even(z) - _Odd(z)) / (2 * z)

    def _eval_evalf(self, prec: int) -> Any:
        root = sp.sqrt(self.args[0])
        return (sp.sinh(root) / root)._eval_evalf(prec)


def _in_symbols(a: Any) -> Any:
    n = len(a)
    if n == 0:
        return a
    if n == 1:
        return objects(np.frompyfunc(sp.exp, 1, 1)(a))
    if n > 2:
        raise NotImplementedError(f"expm of {n}x{n} matrices has no closed form in symbols")
    half = (a[0, 0] + a[1, 1]) / 2
    rest = a - half * np.eye(2, dtype=int)
    z = sp.expand(rest[0, 0] ** 2 + rest[0, 1] * rest[1, 0])
    return sp.exp(half) * (_Even(z) * np.eye(2, dtype=int) + _Odd(z) * rest)


def _components(W: Any, x: Any) -> list[Any]:
    return [W.component(x, s) for s in range(1 << W.k)] if getattr(W, "k", 0) else [objects(x)]


def _in_balls(W: Any, a: Any, gs: list[Any]) -> Any:
    """The component along all of `gs` of the exponential of A + e_1 G_1 + ... + e_k G_k, with its jets."""
    n, k, j = len(a), len(gs), getattr(W, "k", 0)
    size = 1 << (k + j)
    parts: dict[int, Any] = dict(enumerate(_components(W, a)))
    for i, g in enumerate(gs):
        parts.update({1 << (i + j) | s: c for s, c in enumerate(_components(W, g))})
    whole = np.full((size * n, size * n), arb(0), dtype=object)
    for s in range(size):
        for t, block in parts.items():
            if not s & t:
                whole[s * n : (s + 1) * n, (s | t) * n : (s | t) * n + n] = block
    made = np.empty(whole.size, dtype=object)
    made[:] = arb_mat(*whole.shape, [arb(e) for e in whole.ravel().tolist()]).exp().entries()
    first = made.reshape(whole.shape)[:n]
    high = ((1 << k) - 1) << j
    columns = [first[:, (high | s) * n : (high | s) * n + n].ravel().tolist() for s in range(1 << j)]
    if not j:
        out = np.empty(n * n, dtype=object)
        out[:] = columns[0]
        return out.reshape(n, n)
    return W._join(columns, (n, n))


def _symbolic(W: Any) -> bool:
    from gtape.symbolic.expressions import SymPyWorld

    return isinstance(W, SymPyWorld)


def _expm(W: Any, a: Any) -> Any:
    return each(_in_symbols if _symbolic(W) else lambda m: _in_balls(W, m, []), 2, a)


def _form_in_symbols(a: Any, gs: Any) -> Any:
    steps = [sp.Dummy("e", real=True) for _ in gs]
    made = _in_symbols(a + sum(s * g for s, g in zip(steps, gs, strict=True)))

    def along(e: Any) -> Any:
        for s in steps:
            e = sp.diff(e, s).subs(s, 0)
        return e

    return objects(np.frompyfunc(along, 1, 1)(made))


def _expm_form(W: Any, a: Any, gs: Any) -> Any:
    a, gs = objects(a), objects(gs)
    out = np.empty(a.shape, dtype=object)
    for i in np.ndindex(*a.shape[:-2]):
        out[i] = _form_in_symbols(a[i], gs[i]) if _symbolic(W) else _in_balls(W, a[i], list(gs[i]))
    return out


array("expm", _expm)
array("expm_form", _expm_form)
