"""Mirrors of eigenvalues of Hermitian matrices and singular values of complex matrices, in real and imaginary parts.

They are the eigenvalues of a real symmetric matrix (see `gtape.symbolic.factorisations`). Each occurs twice, with the
vectors x and ix. Each of the two vectors, divided by one element, gives the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp
from flint import arb

from gtape.ops.linalg.complex_factors import hermitian_kernel, singular_kernel
from gtape.ops.linalg.eig import pivots
from gtape.symbolic.balls import objects
from gtape.symbolic.factorisations import (
    cayley,
    eigenpairs,
    factorisation,
    paired,
    scaled,
    side_by_side,
    singular_pairs,
    times_power_of_two,
)


def _spread(a: Any) -> Any:
    """The parts [2, m, n] as a real matrix [2m, 2n] of blocks."""
    m, n = a.shape[1:]
    out = np.empty((m, 2, n, 2), dtype=object)
    out[:, 0, :, 0], out[:, 0, :, 1], out[:, 1, :, 0], out[:, 1, :, 1] = a[0], -a[1], a[1], a[0]
    return out.reshape(2 * m, 2 * n)


def _joined(parts: np.ndarray) -> np.ndarray:
    return np.asarray(parts[0] + 1j * parts[1])


def _divided(x: Any, by: Any) -> tuple[Any, Any]:
    """The parts of a vector (which alternate in `x`), divided by a complex number given as parts."""
    size = by[0] * by[0] + by[1] * by[1]
    a, b = x[0::2], x[1::2]
    return (a * by[0] + b * by[1]) / size, (b * by[0] - a * by[1]) / size


def _at_pivot(x: Any, row: int) -> tuple[Any, Any]:
    real, imag = _divided(x, x[2 * row : 2 * row + 2])
    real[row], imag[row] = arb(1), arb(0)
    return real, imag


def _columns(parts: np.ndarray) -> np.ndarray:
    """The parts [2, n, k] as complex columns of norm 1."""
    z = _joined(parts)
    return np.asarray(z / np.linalg.norm(z, axis=0))


def _eigh_parts(W: Any, a: Any, w: Any, v: Any) -> tuple[Any, Any]:
    n = a.shape[-1]
    whole = _spread(a)
    whole = times_power_of_two(whole + whole.T, -1)  # both triangles count equally
    whole, power, rough = scaled(W, whole)
    parts = np.stack([rough[0::2, 0::2], rough[1::2, 0::2]])
    if v is None:
        v = hermitian_kernel(parts)[1]
    rows = pivots(v)
    basis = paired(np.linalg.eigh(_joined(parts))[1])
    values, vectors = eigenpairs(W, whole, basis, paired(_columns(v)), [True] * (2 * n), fold=2)
    made = [_at_pivot(vectors[2 * j], int(rows[j])) for j in range(n)]
    return times_power_of_two(side_by_side(values[::2], ()), power), side_by_side(made, (2, n))


def _svd_parts(W: Any, a: Any, s: Any, u: Any, v: Any) -> tuple[Any, Any, Any]:
    m, n = a.shape[1:]
    a, power, rough = scaled(W, a)
    if u is None:
        _, u, v = singular_kernel(rough)
    rows = pivots(v)
    pairs = singular_pairs(W, _spread(a), _joined(rough), (_columns(u), _columns(v)), min(m, n), fold=2)
    left, right = [], []
    for (_, x), row in zip(pairs, rows.tolist(), strict=True):
        below = x[2 * m :]
        left.append(_divided(x[: 2 * m], below[2 * row : 2 * row + 2]))
        right.append(_at_pivot(below, row))
    values = times_power_of_two(side_by_side([w for w, _ in pairs], ()), power)
    return values, side_by_side(left, (2, m)), side_by_side(right, (2, n))


def _times(a: Any, b: Any) -> tuple[Any, Any]:
    return np.dot(a[0], b[0]) - np.dot(a[1], b[1]), np.dot(a[0], b[1]) + np.dot(a[1], b[0])


def _orthogonal_columns(entries: Any, k: int) -> tuple[Any, Any]:
    """One or two orthogonal columns whose first element is 1, and their squared norms."""
    n = entries.shape[1]
    real, imag = np.full((n, k), 0, dtype=object), np.full((n, k), 0, dtype=object)
    real[0, :] = 1
    if n > 1:
        real[1:, 0], imag[1:, 0] = entries[0][1:, 0], entries[1][1:, 0]
    if k == 2:
        size = real[1, 0] ** 2 + imag[1, 0] ** 2
        real[1, 1], imag[1, 1] = -real[1, 0] / size, -imag[1, 0] / size
    return np.stack([real, imag]), (real**2 + imag**2).sum(axis=0)


def _outer(left: Any, weights: Any, right: Any) -> Any:
    """The product left diag(weights) right*."""
    made = _times((left[0] * weights, left[1] * weights), (right[0].T, -right[1].T))
    return np.stack([objects(p) for p in made])


def _from_hermitian(at: Any, w: Any, v: Any, a: Any) -> Any:
    v, norms = _orthogonal_columns(v, len(w))
    return w, v, _outer(v, w / norms, v)


def _unitary(entries: Any) -> Any:
    """The unitary matrix (1 + S)(1 - S)^-1, S = -S*, rational in the entries on and below the diagonal."""
    n = entries.shape[1]
    s = np.full((2 * n, 2 * n), 0, dtype=object)
    for i in range(n):
        for j in range(i + 1):
            a, b = (entries[0][i, j] if j < i else 0), entries[1][i, j]
            s[2 * i : 2 * i + 2, 2 * j : 2 * j + 2] = [[a, -b], [b, a]]
            s[2 * j : 2 * j + 2, 2 * i : 2 * i + 2] = [[-a, -b], [b, -a]]
    whole = cayley(s)
    return np.stack([whole[0::2, 0::2], whole[1::2, 0::2]])


# (part, row, column): two elements of the second vector v, then four of the matrix that maps v to u.
_DIRECTIONS = ((0, 1, 0), (1, 1, 0), (0, 1, 0), (1, 1, 0), (1, 0, 0), (1, 1, 1))


def _from_singular(at: tuple[int, ...], s: Any, u: Any, v: Any, a: Any) -> Any:
    """Two orthogonal columns v, and u of the same norms: v rotated, or the norm times a rotation's first column.

    With all eight parameters of a complex 2x2 matrix free, expressions have many thousand terms. So each sample varies
    the singular values and one more parameter, and fixes the others. The number of batch axes tells the sample. The
    samples are enough, because rules are linear in the direction, and all samples together cover every direction.
    """
    k, m, n = len(s), u.shape[1], v.shape[1]
    if k == 2:
        if m != n:
            raise NotImplementedError("two singular values: only square matrices are parametrised")
        turn, z = np.full((2, 2, 2), sp.Integer(0), dtype=object), np.full((2, 2, 2), sp.Integer(0), dtype=object)
        z[0, 1, 0] = sp.Rational(1, 2)
        part, i, j = _DIRECTIONS[len(at)]
        if len(at) < 2:
            z[part, i, j] = v[part, i, j]
        else:
            turn[part, i, j] = u[part, i, j]
        v, norms = _orthogonal_columns(z, k)
        u = np.stack(_times(_unitary(turn), v))
    else:
        if n > 1:  # the norm is rational, because 1 + |z|^2 is a square
            half = (v[0][1:, 0] ** 2 + v[1][1:, 0] ** 2).sum()
            v = 2 * v / (1 - half)
            size = (1 + half) / (1 - half)
        else:
            size = 1
        v, norms = _orthogonal_columns(v, k)
        square = np.full((2, m, m), 0, dtype=object)
        square[:, :, 0] = u[:, :, 0]
        u = _unitary(square)[:, :, :1] * size
    return s, u, v, _outer(u, s / norms, v)


def _shapes(a: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    *batch, _, m, n = a
    k = min(m, n)
    return (*batch, k), (*batch, 2, m, k), (*batch, 2, n, k)


factorisation("eigh_parts", _eigh_parts, _from_hermitian, lambda a: ((*a[:-3], a[-1]), a), axes=3)
factorisation("svd_parts", _svd_parts, _from_singular, _shapes, axes=3)
