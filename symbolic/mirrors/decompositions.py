"""Mirrors of the pseudo-inverse and of tridiagonal equations."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.mirrors.determinant import each, objects
from gtape.symbolic.mirrors.linalg import solve_matrices
from gtape.symbolic.mirrors.registry import array, parametrised


def _pinv(W: Any, a: Any, *, rcond: float) -> Any:
    return each(lambda m: _pinv_of_one(W, m, rcond), 2, a)


def _pinv_of_one(W: Any, a: Any, rcond: float) -> Any:
    m, n = a.shape
    from gtape.symbolic.expressions import SymPyWorld

    if not isinstance(W, SymPyWorld):
        from gtape.symbolic.balls import to_float
        from gtape.symbolic.mirrors.spectral import svd_of_one, values_of
        from gtape.symbolic.worlds import BallWorld

        rough = to_float(values_of(W, a))
        s = np.linalg.svd(rough, compute_uv=False)
        rank = int((s > rcond * s.max(initial=0.0)).sum())
        if rank < min(m, n):
            if not rank:
                return np.full((n, m), W.exact(0), dtype=object)
            # The derivative is that at constant rank: what counts as zero is taken away, and stays so.
            plain = BallWorld()
            s, u, v = svd_of_one(plain, values_of(W, a), None, None, None, rank)
            rest = values_of(W, a) - objects(plain.matmul(u * s, v.T))
            s, u, v = svd_of_one(W, a - objects(rest), None, None, None, rank)
            return objects(W.matmul(v / s, u.T))
    if m >= n:
        return objects(solve_matrices(W, objects(W.matmul(a.T, a)), a.T))
    return objects(solve_matrices(W, objects(W.matmul(a, a.T)), a)).T


def _tridiagonal(d: Any) -> Any:
    """The matrix."""
    m = d.shape[-1]
    out = np.full((m, m), 0, dtype=object)
    for i in range(m):
        out[i, i] = d[1, i]
        if i + 1 < m:
            out[i, i + 1] = d[0, i]
        if i:
            out[i, i - 1] = d[2, i]
    return out


def _tridiagonal_solve(W: Any, d: Any, b: Any) -> Any:
    d, b = objects(d), objects(b)
    batch = np.broadcast_shapes(d.shape[:-2], b.shape[:-2])
    d = np.broadcast_to(d, batch + d.shape[-2:])
    matrices = np.empty((*batch, d.shape[-1], d.shape[-1]), dtype=object)
    for i in np.ndindex(*batch):
        matrices[i] = _tridiagonal(d[i])
    return solve_matrices(W, matrices, b)


def _from_solution(W: Any, y: Any, d: Any, b: Any) -> Any:
    made = np.empty(y.shape, dtype=object)
    for i in np.ndindex(*y.shape[:-2]):
        made[i] = np.dot(_tridiagonal(d[i]), y[i])
    return y, made


array("pinv", _pinv)
array("tridiagonal_solve", _tridiagonal_solve)
parametrised("tridiagonal_solve", 1, _from_solution, shapes=lambda d, b: b)
