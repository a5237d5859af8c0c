"""Kernels of factorisations: LAPACK through NumPy, in float64, rounded once; NaN where LAPACK finds no answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.ops.lapack import check_square

__all__ = ["eigh", "qr", "svd"]

Array = Any


def _factored(f: Callable[[Array], tuple[Array, ...]], a: Array) -> tuple[Array, ...]:
    """Apply `f` to a batch of matrices in float64; NaN in all outputs for a matrix that it refuses."""
    wide = a.astype(np.float64, copy=False)
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


def eigh(a: Array) -> tuple[Array, Array]:
    """Eigenvalues in ascending order and eigenvectors as columns, from the lower triangle."""
    check_square(a)
    return _factored(lambda x: tuple(np.linalg.eigh(x)), a)  # type: ignore[return-value]


def _svd(a: Array) -> tuple[Array, Array, Array]:
    u, s, vt = np.linalg.svd(a, full_matrices=False)
    return s, u, np.swapaxes(vt, -1, -2)


def svd(a: Array) -> tuple[Array, Array, Array]:
    """Singular values in descending order, left and right singular vectors as columns."""
    return _factored(_svd, a)  # type: ignore[return-value]


def qr(a: Array) -> tuple[Array, Array]:
    """Orthonormal columns and an upper triangle."""
    return _factored(lambda x: tuple(np.linalg.qr(x)), a)  # type: ignore[return-value]
