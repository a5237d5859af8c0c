"""Mirrors of eigenvalues, singular values and orthogonal complements: see `gtape.symbolic.factorisations`."""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb

from gtape.symbolic import balls
from gtape.symbolic.balls import mapped, objects, to_float
from gtape.symbolic.factorisations import (
    eigenpairs,
    factorisation,
    gram_schmidt,
    product,
    rotation,
    scaled,
    side_by_side,
    singular_values,
    times_power_of_two,
)
from gtape.symbolic.jets import Jet
from gtape.symbolic.mirrors.registry import array


def _eigh(W: Any, a: Any, w: Any, v: Any) -> tuple[Any, Any]:
    n = len(a)
    a = np.where(np.tril(np.ones((n, n), dtype=bool)), a, a.T)  # because the op reads the lower triangle
    a, power, rough = scaled(W, a)
    basis = np.linalg.eigh(rough)[1]
    values, vectors = eigenpairs(W, a, basis, basis if v is None else v, [True] * n)
    return times_power_of_two(side_by_side(values, ()), power), side_by_side(vectors, (n,))


def _from_eigenvalues(at: Any, w: Any, v: Any, a: Any) -> Any:
    q = rotation(v)
    made = np.dot(q * w, q.T)
    for i in range(len(w)):  # the upper triangle may hold anything, because the op never reads it
        made[i, i + 1 :] = v[i, i + 1 :]
    return w, q, made


def _from_singular_values(at: Any, s: Any, u: Any, v: Any, a: Any) -> Any:
    u, v = rotation(u), rotation(v)
    return s, u, v, np.dot(u * s, v.T)


def _shapes_of_svd(shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    *batch, m, n = shape
    k = min(m, n)
    return (*batch, k), (*batch, m, k), (*batch, n, k)


def _complement(W: Any, u: Any, rough: Any) -> Any:
    """The recorded columns minus their projection onto the given ones, made orthonormal."""
    k = u.shape[1]
    if rough is None:
        rough = np.linalg.qr(to_float(W.component(u, 0)), mode="complete")[0][:, k:]
    c = W.lift(np.ascontiguousarray(rough))
    rest = c - product(W, u, W.solve(product(W, u.T, u), product(W, u.T, c))) if k else c
    return gram_schmidt(W, rest)[0]


def _from_complement(at: Any, c: Any, u: Any) -> Any:
    c = rotation(c)
    return c, u - np.dot(c, np.dot(c.T, u))


factorisation("eigh", _eigh, _from_eigenvalues, lambda a: (a[:-1], a))
factorisation("svd", singular_values, _from_singular_values, _shapes_of_svd)
factorisation("complement", _complement, _from_complement, lambda u: (*u[:-1], u[-2] - u[-1]))


def _safe_quotient(W: Any, x: Any, d: Any) -> Any:
    def one(p: Any, q: Any) -> Any:
        if not isinstance(p, Jet):
            if p == 0:  # p is a constant zero, so q may be zero, too
                return W.exact(0)
            if isinstance(q, arb) and q.contains(0) and balls.equal(q, arb(0)) and balls.equal(arb(p), arb(0)):
                return W.exact(0)
        return (W.exact(p) if isinstance(p, int) else p) / q

    return mapped(one, objects(x), objects(d))


array("off_diagonal", lambda W, x: np.where(np.eye(np.shape(x)[-1], dtype=bool), 0, objects(x)))
array("safe_quotient", _safe_quotient)
