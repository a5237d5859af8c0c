"""Mirrors of the matrix exponential and its derivatives.

In enclosures (balls) and jets, the mirror is the exponential of a matrix with nilpotent directions, small ones as a
larger matrix with a block for each set of directions. In symbols, it is the closed form for 2x2 matrices, exp(A) = e^h
(c(z) + s(z) (A - h)) with h half the trace, z = -det(A - h), c(z) = cosh(sqrt(z)) and s(z) = sinh(sqrt(z))/sqrt(z).
Both are analytic, with c' = s/2 and s' = (c - s)/(2 z).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import sympy as sp
from flint import arb, arb_mat, ctx

from gtape.symbolic.balls import filled, mapped, objects, precision
from gtape.symbolic.enclosed import Enclosed
from gtape.symbolic.matrices import each
from gtape.symbolic.mirrors.registry import array, without_formula


class _Even(Enclosed):
    """The function cosh(sqrt(z))."""

    nargs = 1

    def fdiff(self, argindex: int = 1) -> Any:
        return _Odd(self.args[0]) / 2

    @staticmethod
    def ball(z: Any) -> Any:
        return (arb(z) / 4).hypgeom_0f1(arb(1) / 2)


class _Odd(Enclosed):
    """The function sinh(sqrt(z)) / sqrt(z)."""

    nargs = 1

    def fdiff(self, argindex: int = 1) -> Any:
        z = self.args[0]
        return (_Even(z) - _Odd(z)) / (2 * z)

    @staticmethod
    def ball(z: Any) -> Any:
        return (arb(z) / 4).hypgeom_0f1(arb(3) / 2)


def _in_symbols(a: Any) -> Any:
    n = len(a)
    if n == 0:
        return a
    if n == 1:
        return mapped(sp.exp, a)
    if n > 2:
        raise without_formula(f"expm of {n}x{n} matrices")
    half = (a[0, 0] + a[1, 1]) / 2
    rest = a - half * np.eye(2, dtype=int)
    z = sp.expand(rest[0, 0] ** 2 + rest[0, 1] * rest[1, 0])
    return sp.exp(half) * (_Even(z) * np.eye(2, dtype=int) + _Odd(z) * rest)


def _in_balls(W: Any, a: Any, gs: Any) -> Any:
    """The component along all of `gs` of the exponential of A + e_1 G_1 + ... + e_k G_k, with its jets."""
    n, k, j = len(a), len(gs), W.k
    parts = {s: W.component(a, s) for s in range(1 << j)}
    for i, g in enumerate(gs):
        parts.update({1 << (i + j) | s: W.component(g, s) for s in range(1 << j)})
    made = _exp(parts, k + j, n)
    high = ((1 << k) - 1) << j
    return W.from_components([made[high | s] for s in range(1 << j)])


def _exp(parts: dict[int, Any], directions: int, n: int) -> list[Any]:
    """The components of the exponential of a matrix with nilpotent directions.

    Parameters
    ----------
    parts : dict
        Mask of directions -> the matrix of balls that is multiplied by these directions.
    directions : int
    n : int
        The size of the matrices.
    """
    size = 1 << directions
    blocks = {t: [arb(e) for e in block.ravel().tolist()] for t, block in parts.items()}
    if size * n > _SMALL and all(e.is_finite() for block in blocks.values() for e in block):
        return _exp_by_components(blocks, directions, n)
    whole = np.full((size * n, size * n), arb(0), dtype=object)
    for s in range(size):
        for t, block in blocks.items():
            if not s & t:
                whole[s * n : (s + 1) * n, (s | t) * n : (s | t) * n + n] = filled(block, (n, n))
    made = filled(arb_mat(*whole.shape, whole.ravel().tolist()).exp().entries(), whole.shape)
    return [made[:n, s * n : s * n + n] for s in range(size)]


_SMALL = 12  # up to this size, the matrix with nilpotent blocks costs less than products of components


def _exp_by_components(blocks: dict[int, list[Any]], directions: int, n: int) -> list[Any]:
    """`_exp` of finite matrices: the Taylor series of a scaled matrix, squared (Higham, "Functions of matrices", 10.3).

    A product of two components takes 3**directions products of matrices of size n, where a product of matrices with
    nilpotent blocks costs as much as 8**directions.
    """
    blocks = {t: block for t, block in blocks.items() if any(e != 0 for e in block)}
    exponents = {t: max(map(_exponent, block)) for t, block in blocks.items()}
    # Each direction has a unit of its own, in which its matrices are not larger than 1, because directions may be huge.
    units = [
        max([-(-e // t.bit_count()) for t, e in exponents.items() if t >> b & 1], default=0) for b in range(directions)
    ]
    shifts = [sum(unit for b, unit in enumerate(units) if u >> b & 1) for u in range(1 << directions)]
    norm = max([e - shifts[t] for t, e in exponents.items()], default=0) + (n * max(1, len(blocks))).bit_length()
    bits = max(4, math.isqrt(ctx.prec) // 2)
    squarings = max(0, norm + bits)
    wide = ctx.prec + 2 * squarings + 20
    terms, rest = 0, arb(1)  # the norm of the first term that is left out
    while rest > arb(2) ** -wide:
        terms += 1
        rest = rest * arb(2) ** -bits / terms
    with precision(wide):
        x = {t: arb_mat(n, n, [e * arb(2) ** (-shifts[t] - squarings) for e in block]) for t, block in blocks.items()}
        made = _series(x, terms, n)
        around = arb_mat(n, n, [arb(0, 2 * rest)] * (n * n))
        made = {u: m + around for u, m in made.items()}
        for _ in range(squarings):
            made = _product(made, made)
        zeros = filled([arb(0)] * (n * n), (n, n))
        return [
            filled([e * arb(2) ** shifts[u] for e in made[u].entries()], (n, n)) if u in made else zeros
            for u in range(1 << directions)
        ]


def _exponent(x: Any) -> int:
    """The least exponent of a power of two above the magnitude of a finite ball; far below all others for 0."""
    if x == 0:
        return _FAR_BELOW
    mantissa, exponent = x.abs_upper().man_exp()
    return int(abs(mantissa).bit_length() + exponent)


_FAR_BELOW = -(2**62)


def _series(x: dict[int, Any], terms: int, n: int) -> dict[int, Any]:
    """The sum of x**i / i! for i below `terms`, with about 2 sqrt(terms) products (Paterson and Stockmeyer, 1973)."""
    one = arb_mat(n, n, [arb(int(i == j)) for i in range(n) for j in range(n)])
    step = max(1, math.isqrt(terms))
    powers = [{0: one}]
    for _ in range(step):
        powers.append(_product(powers[-1], x))
    made: dict[int, Any] = {}
    for start in reversed(range(0, terms, step)):
        made = _product(made, powers[step])
        for i in range(start, min(start + step, terms)):
            factor = 1 / arb(math.factorial(i))
            for u, m in powers[i - start].items():
                made[u] = made[u] + m * factor if u in made else m * factor
    return made


def _product(x: dict[int, Any], y: dict[int, Any]) -> dict[int, Any]:
    """The product of two matrices with nilpotent directions."""
    made: dict[int, Any] = {}
    for s, a in x.items():
        for t, b in y.items():
            if not s & t:
                made[s | t] = made[s | t] + a * b if s | t in made else a * b
    return made


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
