"""Mirrors of the matrix exponential and its derivatives.

In enclosures (balls) and jets, the mirror is the exponential of a larger matrix, in which nilpotent blocks stand for
directions. In symbols, it is the closed form for 2x2 matrices, exp(A) = e^h (c(z) + s(z) (A - h)) with h half the
trace, z = -det(A - h), c(z) = cosh(sqrt(z)) and s(z) = sinh(sqrt(z))/sqrt(z). Both are analytic, with c' = s/2 and s' =
(c - s)/(2 z).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp
from flint import arb, arb_mat

from gtape.symbolic.balls import filled, mapped, objects
from gtape.symbolic.matrices import each
from gtape.symbolic.mirrors.registry import array


class _Even(sp.Function):
    """The function cosh(sqrt(z))."""

    nargs = 1

    def fdiff(self, argindex: int = 1) -> Any:
        return _Odd(self.args[0]) / 2

    def _eval_evalf(self, prec: int) -> Any:
        return sp.cosh(sp.sqrt(self.args[0]))._eval_evalf(prec)


class _Odd(sp.Function):
    """The function sinh(sqrt(z)) / sqrt(z)."""

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
        return mapped(sp.exp, a)
    if n > 2:
        raise NotImplementedError(f"expm of {n}x{n} matrices has no closed form in symbols")
    half = (a[0, 0] + a[1, 1]) / 2
    rest = a - half * np.eye(2, dtype=int)
    z = sp.expand(rest[0, 0] ** 2 + rest[0, 1] * rest[1, 0])
    return sp.exp(half) * (_Even(z) * np.eye(2, dtype=int) + _Odd(z) * rest)


def _in_balls(W: Any, a: Any, gs: Any) -> Any:
    """The component along all of `gs` of the exponential of A + e_1 G_1 + ... + e_k G_k, with its jets."""
    n, k, j = len(a), len(gs), W.k
    size = 1 << (k + j)
    parts = {s: W.component(a, s) for s in range(1 << j)}
    for i, g in enumerate(gs):
        parts.update({1 << (i + j) | s: W.component(g, s) for s in range(1 << j)})
    whole = np.full((size * n, size * n), arb(0), dtype=object)
    for s in range(size):
        for t, block in parts.items():
            if not s & t:
                whole[s * n : (s + 1) * n, (s | t) * n : (s | t) * n + n] = block
    made = filled(arb_mat(*whole.shape, [arb(e) for e in whole.ravel().tolist()]).exp().entries(), whole.shape)
    high = ((1 << k) - 1) << j
    return W.from_components([made[:n, (high | s) * n : (high | s) * n + n] for s in range(1 << j)])


def _form_in_symbols(a: Any, gs: Any) -> Any:
    steps = [sp.Dummy("e", real=True) for _ in gs]
    made = _in_symbols(a + sum(s * g for s, g in zip(steps, gs, strict=True)))

    def along(e: Any) -> Any:
        for s in steps:
            e = sp.diff(e, s).subs(s, 0)
        return e

    return mapped(along, made)


def _expm(W: Any, a: Any) -> Any:
    return each(_in_symbols if W.symbolic else lambda m: _in_balls(W, m, ()), 2, a)


def _expm_form(W: Any, a: Any, gs: Any) -> Any:
    a, gs = objects(a), objects(gs)
    out = np.empty(a.shape, dtype=object)
    for i in np.ndindex(*a.shape[:-2]):
        out[i] = _form_in_symbols(a[i], gs[i]) if W.symbolic else _in_balls(W, a[i], gs[i])
    return out


array("expm", _expm)
array("expm_form", _expm_form)
