"""Mirrors of the orthogonal factor and of the pseudo-inverse."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp
from flint import arb

from gtape.symbolic.balls import to_float
from gtape.symbolic.factorisations import (
    factorisation,
    gram_schmidt,
    rotation,
    scaled,
    singular_values,
    times_power_of_two,
)
from gtape.symbolic.implicit import note_degenerate
from gtape.symbolic.matrices import each, solve, triangle
from gtape.symbolic.mirrors.registry import array


def _qr(W: Any, a: Any, q: Any, r: Any) -> tuple[Any, Any]:
    a, power, rough = scaled(W, a)
    if r is None:
        r = np.linalg.qr(rough)[1]
    q, made = gram_schmidt(W, a, np.where(np.diagonal(r) < 0, -1, 1))
    if any(arb(e).contains(0) for e in W.component(np.diagonal(made), 0).tolist()):
        note_degenerate("the columns are linearly dependent: the orthogonal factor is not differentiable")
    return q, times_power_of_two(made, power)


def _from_qr(at: Any, q: Any, r: Any, a: Any) -> Any:
    q, r = rotation(q), triangle(r, lower=False)
    return q, r, np.dot(q, r)


def _shapes(shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    *batch, m, n = shape
    k = min(m, n)
    return (*batch, m, k), (*batch, k, n)


factorisation("qr", _qr, _from_qr, _shapes)


def _pinv(W: Any, a: Any, rcond: float) -> Any:
    m, n = a.shape
    if not W.symbolic:
        s = np.linalg.svd(to_float(W.component(a, 0)), compute_uv=False)
        rank = int((s > rcond * s.max(initial=0.0)).sum())
        if rank < min(m, n):
            if not rank:
                return np.full((n, m), W.exact(0), dtype=object)
            s, u, v = singular_values(W, a, rank=rank)
            return W.matmul(v / s, u.T)
    if m >= n:
        return solve(W.matmul(a.T, a), a.T)
    return solve(W.matmul(a, a.T), a).T


array("pinv", lambda W, a, *, rcond: each(lambda m: _pinv(W, m, rcond), 2, a))


def _with_ridge(W: Any, a: Any, *, weight: float) -> Any:
    """The matrix, with the root of the weight times the identity below it."""
    inside = sp.Rational(weight)
    root = W.divide(W.sqrt(int(inside.p)), W.sqrt(int(inside.q)))
    n = np.shape(a)[-1]
    ridge = np.broadcast_to(W.multiply(np.eye(n, dtype=int).astype(object), root), (*np.shape(a)[:-2], n, n))
    return np.concatenate([W.objects(a), ridge], axis=-2)


array("with_ridge", _with_ridge)
