"""Mirrors of eigenvalues of Hermitian matrices and of singular values of complex ones, in real and imaginary parts.

With the block [a -b; b a] in place of a + ib these are the eigenvalues of a real symmetric matrix, each of them twice,
with vectors that are x and ix: any of the two, divided by one element, is the vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp
from flint import arb

from gtape.symbolic.balls import to_float
from gtape.symbolic.mirrors.determinant import objects
from gtape.symbolic.mirrors.registry import array, parametrised
from gtape.symbolic.mirrors.spectral import (
    eigenpairs,
    exponent_of,
    for_each_matrix,
    paired,
    recorded_starts,
    stack_matrices,
    times_power_of_two,
    values_of,
)

__all__: list[str] = []


def _spread(a: Any) -> Any:
    """Parts [2, m, n] as a real matrix [2m, 2n] of blocks."""
    m, n = a.shape[1:]
    out = np.empty((m, 2, n, 2), dtype=object)
    out[:, 0, :, 0], out[:, 0, :, 1], out[:, 1, :, 0], out[:, 1, :, 1] = a[0], -a[1], a[1], a[0]
    return out.reshape(2 * m, 2 * n)


def _divided(x: Any, by: Any) -> tuple[Any, Any]:
    """Parts of a vector whose parts alternate in `x`, divided by a complex number in parts."""
    size = by[0] * by[0] + by[1] * by[1]
    a, b = x[0::2], x[1::2]
    return (a * by[0] + b * by[1]) / size, (b * by[0] - a * by[1]) / size


def _at_pivot(x: Any, row: int) -> tuple[Any, Any]:
    real, imag = _divided(x, (x[2 * row], x[2 * row + 1]))
    real[row], imag[row] = arb(1), arb(0)
    return real, imag


def _unit(v: np.ndarray) -> np.ndarray:
    """Parts [2, n, k] as complex columns of norm 1."""
    z = v[0] + 1j * v[1]
    return np.asarray(z / np.linalg.norm(z, axis=0))


def _eigh_parts(W: Any, a: Any) -> tuple[Any, Any]:
    a = objects(a)
    batch, n = a.shape[:-3], a.shape[-1]
    starts = recorded_starts(batch, 2)
    made = [_hermitian(W, a[i], *starts(i)) for i in np.ndindex(*batch)]
    return stack_matrices([w for w, _ in made], batch, (n,)), stack_matrices([v for _, v in made], batch, (2, n, n))


def _hermitian(W: Any, a: Any, w: Any, v: Any) -> tuple[Any, Any]:
    from gtape.ops.linalg.complex_factors import hermitian_kernel
    from gtape.ops.linalg.eig import pivots

    n = a.shape[-1]
    whole = _spread(a)
    whole = times_power_of_two(whole + whole.T, -1)  # a function of Hermitian matrices: both triangles count alike
    power = exponent_of(values_of(W, whole))
    whole = times_power_of_two(whole, -power)
    rough = to_float(values_of(W, whole))
    z = rough[0::2, 0::2] + 1j * rough[1::2, 0::2]
    if v is None:
        v = hermitian_kernel(np.stack([z.real, z.imag]))[1]
    rows, like = pivots(v), paired(_unit(v))
    made_w, made_v = eigenpairs(W, whole, paired(np.linalg.eigh(z)[1]), like, [True] * (2 * n), fold=2)
    out_w, out_v = np.empty(n, dtype=object), np.empty((2, n, n), dtype=object)
    for j in range(n):
        out_w[j] = times_power_of_two(made_w[2 * j], power)[()]
        out_v[:, :, j] = _at_pivot(made_v[2 * j], int(rows[j]))
    return out_w, out_v


def _svd_parts(W: Any, a: Any) -> tuple[Any, Any, Any]:
    a = objects(a)
    batch, (m, n) = a.shape[:-3], a.shape[-2:]
    k = min(m, n)
    starts = recorded_starts(batch, 3)
    made = [_singular(W, a[i], *starts(i)) for i in np.ndindex(*batch)]
    found = list(zip(*made, strict=True)) or [(), (), ()]
    shapes = ((k,), (2, m, k), (2, n, k))
    return tuple(stack_matrices(list(p), batch, s) for p, s in zip(found, shapes, strict=True))


def _singular(W: Any, a: Any, s: Any, u: Any, v: Any) -> tuple[Any, Any, Any]:
    from gtape.ops.linalg.complex_factors import singular_kernel
    from gtape.ops.linalg.eig import pivots

    m, n = a.shape[1:]
    k = min(m, n)
    power = exponent_of(values_of(W, a))
    a = times_power_of_two(a, -power)
    rough = to_float(values_of(W, a))
    if u is None:
        _, u, v = singular_kernel(rough)
    rows = pivots(v)
    recorded = np.concatenate([_unit(u), _unit(v)])[:, ::-1] * np.sqrt(0.5)
    inner = _spread(a)
    whole = np.zeros((2 * (m + n), 2 * (m + n)), dtype=object)
    whole[: 2 * m, 2 * m :], whole[2 * m :, : 2 * m] = inner, inner.T
    left, _, right = np.linalg.svd(rough[0] + 1j * rough[1])
    right = right.conj().T
    # Ascending: the negative ones, zeros, the positive ones.
    minus = np.concatenate([left[:, :k], -right[:, :k]]) * np.sqrt(0.5)
    none = np.concatenate(
        [
            np.concatenate([left[:, k:], np.zeros((n, m - k))]),
            np.concatenate([np.zeros((m, n - k)), right[:, k:]]),
        ],
        axis=1,
    )
    plus = np.concatenate([left[:, :k], right[:, :k]])[:, ::-1] * np.sqrt(0.5)
    rest = [minus, none]
    basis, like = (paired(np.concatenate([*rest, last], axis=1)) for last in (plus, recorded))
    wanted = [False] * (2 * (m + n - k)) + [True] * (2 * k)
    made_s, made = eigenpairs(W, whole, basis, like, wanted, fold=2)
    out_s = np.empty(k, dtype=object)
    out_u, out_v = np.empty((2, m, k), dtype=object), np.empty((2, n, k), dtype=object)
    for j in range(k):
        x, row = made[-2 - 2 * j], int(rows[j])
        below = x[2 * m :]
        out_s[j] = times_power_of_two(made_s[-2 - 2 * j], power)[()]
        out_u[:, :, j] = _divided(x[: 2 * m], (below[2 * row], below[2 * row + 1]))
        out_v[:, :, j] = _at_pivot(below, row)
    return out_s, out_u, out_v


array("eigh_parts", _eigh_parts)
array("svd_parts", _svd_parts)


# ---------------------------------------------------------------------------------------------- for proofs


def _times_complex(a: Any, b: Any) -> tuple[Any, Any]:
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
    """left diag(weights) right*."""
    made = _times_complex((left[0] * weights, left[1] * weights), (right[0].T, -right[1].T))
    return np.stack([objects(p) for p in made])


def _from_hermitian(W: Any, y: Any, a: Any) -> Any:
    def one(w: Any, v: Any) -> Any:
        v, norms = _orthogonal_columns(v, len(w))
        return w, v, _outer(v, w / norms, v)

    w, v, made = for_each_matrix(one, (y[0], 1), (y[1], 3))
    return (w, v), made


def _unitary(entries: Any) -> Any:
    """(1 + S)(1 - S)^-1 with S = -S*, rational in the entries on and below the diagonal."""
    from gtape.symbolic.mirrors.linalg import inverse_matrix

    n = entries.shape[1]
    s = np.full((2 * n, 2 * n), 0, dtype=object)
    for i in range(n):
        for j in range(i + 1):
            a, b = (entries[0][i, j] if j < i else 0), entries[1][i, j]
            s[2 * i : 2 * i + 2, 2 * j : 2 * j + 2] = [[a, -b], [b, a]]
            s[2 * j : 2 * j + 2, 2 * i : 2 * i + 2] = [[-a, -b], [b, -a]]
    unit = np.full(s.shape, sp.Integer(0), dtype=object)
    unit[np.arange(2 * n), np.arange(2 * n)] = sp.Integer(1)
    whole = np.dot(unit + s, inverse_matrix(None, unit - s))
    return np.stack([whole[0::2, 0::2], whole[1::2, 0::2]])


# (part, row, column) of an element: of the second vector, twice, and of what turns the vectors on the other side.
_DIRECTIONS = ((0, 1, 0), (1, 1, 0), (0, 1, 0), (1, 1, 0), (1, 0, 0), (1, 1, 1))


def _from_singular(W: Any, y: Any, a: Any) -> Any:
    """Two orthogonal columns v, and u of the same norms: v turned, or the first column of a rotation times the norm.

    All eight parameters of two by two complex numbers at once make expressions of many thousand terms. So each sample,
    told by how many batch axes it has, varies the singular values and one more, and fixes the others: rules are linear
    in the direction, and between them the samples move in every one.
    """
    which = y[0].ndim - 1

    def one(s: Any, u: Any, v: Any) -> Any:
        k, m, n = len(s), u.shape[1], v.shape[1]
        if k == 2:
            if m != n:
                raise NotImplementedError("two singular values: only square matrices are parametrised")
            turn, z = np.full((2, 2, 2), sp.Integer(0), dtype=object), np.full((2, 2, 2), sp.Integer(0), dtype=object)
            z[0, 1, 0] = sp.Rational(1, 2)
            part, i, j = _DIRECTIONS[which]
            if which < 2:
                z[part, i, j] = v[part, i, j]
            else:
                turn[part, i, j] = u[part, i, j]
            v, norms = _orthogonal_columns(z, k)
            u = np.stack(_times_complex(_unitary(turn), v))
        else:
            if n > 1:  # so that the norm is rational: 1 + |z|^2 is a square
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

    s, u, v, made = for_each_matrix(one, (y[0], 1), (y[1], 3), (y[2], 3))
    return (s, u, v), made


def _shapes(a: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    *batch, _, m, n = a
    k = min(m, n)
    return (*batch, k), (*batch, 2, m, k), (*batch, 2, n, k)


parametrised("eigh_parts", 0, _from_hermitian, shapes=lambda a: ((*a[:-3], a[-1]), a))
parametrised("svd_parts", 0, _from_singular, shapes=_shapes)
