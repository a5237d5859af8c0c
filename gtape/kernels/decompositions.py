"""Kernels of factorisations by LAPACK through NumPy, in float64 and rounded once. NaN if LAPACK finds no answer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.kernels.broadcasting import broadcast_shapes
from gtape.kernels.lapack import check_square, scale_of

Array = Any


def _factored(f: Callable[[Array], tuple[Array, ...]], a: Array, values: int) -> tuple[Array, ...]:
    """Apply `f` to a batch of matrices in float64. NaN in all outputs for a matrix that `f` refuses.

    `values` is the output that is proportional to the matrix. Matrices at the edges of the range are scaled by powers
    of two.
    """
    wide = a.astype(np.float64, copy=False)
    unit = scale_of(wide)
    parts: Any
    if (unit != 1).any():
        parts = list(_factored(f, wide / unit, values))
        with np.errstate(all="ignore"):
            parts[values] = parts[values] * (unit if parts[values].ndim == a.ndim else unit[..., 0])
        return tuple([p.astype(a.dtype, copy=False) for p in parts])
    if not np.isfinite(wide).all():
        good = np.isfinite(wide).all(axis=(-2, -1), keepdims=True)
        parts = f(np.where(good, wide, 0.0))
        parts = tuple([np.where(good if p.ndim == a.ndim else good[..., 0], p, np.nan) for p in parts])
    else:
        try:
            parts = f(wide)
        except np.linalg.LinAlgError:
            parts = tuple([np.full(p.shape, np.nan) for p in f(np.zeros_like(wide))])
    return tuple([p.astype(a.dtype, copy=False) for p in parts])


_APART = 1e-7  # relative to the largest value; closer values count as equal in domains


def eigenvalues_differ(a: Array) -> bool:
    """Whether the eigenvalues of each symmetric matrix differ. If so, they have derivatives."""
    w = eigh(a.astype(np.float64))[0]
    scale = np.abs(w).max(axis=-1, keepdims=True, initial=0.0)
    return bool((np.diff(w, axis=-1) > _APART * scale).all())


def singular_values_differ(a: Array) -> bool:
    """Whether the singular values of each matrix differ and none is 0."""
    s = svd(a.astype(np.float64))[0]
    scale = s.max(axis=-1, keepdims=True, initial=0.0)
    return bool((-np.diff(s, axis=-1) > _APART * scale).all() and (s > _APART * scale).all())


def full_rank(a: Array) -> bool:
    """Whether every singular value of every matrix is positive."""
    s = svd(a.astype(np.float64))[0]
    return bool((s > _APART * s.max(axis=-1, keepdims=True, initial=0.0)).all())


def eigh(a: Array) -> tuple[Array, Array]:
    """Eigenvalues in ascending order and eigenvectors as columns, from the lower triangle."""
    check_square(a)
    # LAPACK reads the lower triangle only, but the scale and the search for NaN read all elements.
    symmetric = np.where(np.tri(a.shape[-1], dtype=bool), a, np.swapaxes(a, -1, -2))
    return _factored(lambda x: tuple(np.linalg.eigh(x)), symmetric, 0)


def _svd(a: Array) -> tuple[Array, Array, Array]:
    u, s, vt = np.linalg.svd(a, full_matrices=False)
    return s, u, np.swapaxes(vt, -1, -2)


def svd(a: Array) -> tuple[Array, Array, Array]:
    """Singular values in descending order, left and right singular vectors as columns."""
    return _factored(_svd, a, 0)


def qr(a: Array) -> tuple[Array, Array]:
    """Orthonormal columns and an upper triangle."""
    return _factored(lambda x: tuple(np.linalg.qr(x)), a, 1)


_TINY, _FAR_BELOW = 2.0**-20, 2.0**-6  # in units of the largest value, and of the value before


def far_below(w: Array) -> Array:
    """For each singular value, in descending order, whether it or an earlier one is far below the value before it."""
    with np.errstate(all="ignore"):
        far = (w[..., 1:] <= _FAR_BELOW * w[..., :-1]) & (w[..., 1:] <= _TINY * w[..., :1]) & (w[..., :1] > 0)
    return np.concatenate([np.zeros((*w.shape[:-1], 1), bool), np.logical_or.accumulate(far, axis=-1)], axis=-1)


def complement(u: Array) -> Array:
    """Orthonormal columns that complete those of `u` to a square matrix."""
    if not np.isfinite(u).all():
        return np.full((*u.shape[:-1], u.shape[-2] - u.shape[-1]), np.nan, u.dtype)
    wide = u.astype(np.result_type(u, np.float64), copy=False)
    whole = np.linalg.qr(wide / scale_of(wide), mode="complete")[0]
    return whole[..., u.shape[-1] :].astype(u.dtype)


def pinv(a: Array, *, rcond: float) -> Array:
    """Pseudo-inverse: singular values of at most `rcond` times the largest count as 0."""
    s, u, v = svd(a.astype(np.float64))
    with np.errstate(all="ignore"):
        keep = s > rcond * s.max(axis=-1, keepdims=True, initial=0.0)
        turned = v * np.where(np.isnan(s), np.nan, np.where(keep, 1 / s, 0.0))[..., None, :]
        return (turned @ np.swapaxes(u, -1, -2)).astype(a.dtype)


def tridiagonal_solve(diagonals: Array, rhs: Array) -> Array:
    """Solution for tridiagonal matrices, given by their diagonals; NaN for a singular one."""
    from gtape.kernels.scipy_linalg import solve_banded

    m = diagonals.shape[-1]
    if diagonals.shape[-2] != 3 or rhs.ndim < 2 or rhs.shape[-2] != m:
        raise ValueError(f"diagonals [..., 3, m] and a right-hand side [..., m, k] are needed, not {rhs.shape}")
    batch = broadcast_shapes(diagonals.shape[:-2], rhs.shape[:-2])
    wide = np.result_type(np.float64, diagonals, rhs)
    bands = np.broadcast_to(diagonals, (*batch, 3, m)).astype(wide)
    b = np.broadcast_to(rhs, (*batch, *rhs.shape[-2:])).astype(wide)
    # LAPACK expects the element above a diagonal element in its column. Here the element is in its row.
    bands[..., 0, :] = np.roll(bands[..., 0, :], 1, axis=-1)
    bands[..., 2, :] = np.roll(bands[..., 2, :], -1, axis=-1)
    bands[..., 0, 0] = bands[..., 2, -1] = 0  # LAPACK does not read these elements, but they would change the units
    # Columns are scaled, so that each unknown overflows or underflows independently.
    units = scale_of(bands, axis=(-2,))
    bands /= units
    out = np.full(b.shape, np.nan, wide)
    for i in np.ndindex(*batch):
        if not (np.isfinite(bands[i]).all() and np.isfinite(b[i]).all()):
            continue
        if m == 1:
            with np.errstate(all="ignore"):
                out[i] = np.where(bands[i][1] == 0, np.nan, b[i] / bands[i][1])
            continue
        with contextlib.suppress(np.linalg.LinAlgError):  # a singular matrix leaves NaN
            out[i] = solve_banded((1, 1), bands[i], b[i])
    with np.errstate(all="ignore"):
        return (out / np.swapaxes(units, -1, -2)).astype(rhs.dtype)
