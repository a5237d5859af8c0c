"""Mirrors of linear algebra: inverse and solution by cofactors or elimination, Cholesky by its recursion, and what
defines them.

The outputs of `solve`, `triangular_solve` and `cholesky` are defined by equations; solved for one input, these are the
parametrised mirrors, in which proofs run: rational in the entries of the output where the op itself is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import acb, arb

from gtape.symbolic.balls import to_float
from gtape.symbolic.mirrors.determinant import SMALL, cofactors, each, objects
from gtape.symbolic.mirrors.registry import array, parametrised


def _magnitude(x: Any) -> float:
    """How large an element is, roughly: only to choose pivots, so that balls stay small."""
    x = getattr(x, "value", x)
    try:
        return abs(float(x))
    except (TypeError, ValueError):  # an expression with symbols: taken as not zero unless it is written so
        return 0.0 if x == 0 else 1.0


def _eliminate(a: Any, b: Any) -> Any:
    """Solution of a x = b for one matrix, by elimination with the largest pivot."""
    n = len(a)
    a, b = a.copy(), b.copy()
    for i in range(n):
        p = max(range(i, n), key=lambda r: _magnitude(a[r, i]))
        if p != i:
            a[[i, p]], b[[i, p]] = a[[p, i]], b[[p, i]]
        for r in range(i + 1, n):
            factor = a[r, i] / a[i, i]
            a[r, i + 1 :] = a[r, i + 1 :] - factor * a[i, i + 1 :]
            b[r] = b[r] - factor * b[i]
    return _back_substitute(a, b)


def _back_substitute(a: Any, b: Any) -> Any:
    """Solution for one upper triangular matrix."""
    n = len(a)
    x = b.copy()
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            x[i] = x[i] - a[i, j] * x[j]
        x[i] = x[i] / a[i, i]
    return x


def inverse_matrix(W: Any, a: Any) -> Any:
    """The inverse of one matrix."""
    n = len(a)
    if n > SMALL:
        unit = np.zeros((n, n), dtype=object)
        unit[np.arange(n), np.arange(n)] = 1
        return _eliminate(a, unit)
    c = cofactors(W, a)
    whole = a[0, 0] * c[0, 0] if n else 1
    for j in range(1, n):
        whole = whole + a[0, j] * c[0, j]
    return c.T / whole


def solve_matrices(W: Any, a: Any, b: Any) -> Any:
    """Solutions of systems, matrix by matrix."""
    return each(lambda m, r: _eliminate(m, r) if len(m) > SMALL else np.dot(inverse_matrix(W, m), r), 2, a, b)


def _triangular_solve(W: Any, a: Any, b: Any, *, lower: bool) -> Any:
    def one(m: Any, r: Any) -> Any:
        return _back_substitute(m[::-1, ::-1], r[::-1])[::-1] if lower else _back_substitute(m, r)

    return each(one, 2, a, b)


def _cholesky(W: Any, a: Any) -> Any:
    def one(m: Any) -> Any:
        n = len(m)
        m = (m + m.T) / 2  # a function of symmetric matrices: both triangles count alike
        y = np.full((n, n), 0, dtype=object)
        for j in range(n):
            rest = m[j, j]
            for k in range(j):
                rest = rest - y[j, k] * y[j, k]
            y[j, j] = W.sqrt(rest)[()]
            for i in range(j + 1, n):
                entry = m[i, j]
                for k in range(j):
                    entry = entry - y[i, k] * y[j, k]
                y[i, j] = entry / y[j, j]
        return y

    return each(one, 2, a)


def _half_tril(W: Any, x: Any) -> Any:
    out = np.array(x, dtype=object)
    for i in range(out.shape[-2]):
        out[..., i, i] = out[..., i, i] / 2
        out[..., i, i + 1 :] = 0
    return out


def _triangle(x: Any, lower: bool) -> Any:
    x = objects(x)
    ones = np.ones(x.shape[-2:], dtype=bool)
    return np.where(np.tril(ones) if lower else np.triu(ones), x, 0)


def _cross(W: Any, a: Any, b: Any) -> Any:
    a, b = objects(a), objects(b)
    parts = [a[..., i] * b[..., j] - a[..., j] * b[..., i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return np.stack([objects(p) for p in parts], axis=-1)


def _unit(W: Any, x: Any, *, axis: tuple[int, ...]) -> Any:
    """A power of two for each matrix, or row or column, as the op chooses it; 1 where elements are symbols."""
    from gtape.kernels.lapack import scale_of
    from gtape.symbolic.mirrors.spectral import values_of

    x = objects(x)
    made = np.full([1 if i - x.ndim in axis else n for i, n in enumerate(x.shape)], W.exact(1), dtype=object)
    values = objects(values_of(W, x))
    if all(isinstance(e, (arb, acb, int, float)) for e in values.ravel().tolist()):
        sizes = to_float(objects(np.frompyfunc(lambda e: arb(abs(e)), 1, 1)(values)))
        for i, unit in np.ndenumerate(scale_of(sizes, axis=axis)):
            made[i] = W.exact(float(unit))
    return made


array("half_tril", _half_tril)
array("magnitude", _unit)
array("inverse", lambda W, a: each(lambda m: inverse_matrix(W, m), 2, a))
array("solve", solve_matrices)
array("triangular_solve", _triangular_solve)
array("cholesky", _cholesky)
array("cross", _cross)


def _gram(W: Any, y: Any, a: Any) -> tuple[Any, Any]:
    y = _triangle(y, True)
    return y, W.matmul(y, np.swapaxes(y, -1, -2))


parametrised("solve", 1, lambda W, y, a, b: (y, W.matmul(a, y)))
parametrised("triangular_solve", 1, lambda W, y, a, b, *, lower: (y, W.matmul(_triangle(a, lower), y)))
parametrised("cholesky", 0, _gram)
