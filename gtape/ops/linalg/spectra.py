"""Rows, columns and diagonals of eigenvalues and singular values, for the rules of decompositions."""

from __future__ import annotations

from typing import Any

from gtape.tensors.axes import shape_of

__all__ = ["as_column", "as_row", "diagonal_matrix", "outside", "sized"]
NAMESPACES = None


def as_row(xp: Any, w: Any) -> Any:
    """A vector for each matrix as a row."""
    shape = shape_of(w)
    return xp.reshape(w, shape=(*shape[:-1], 1, shape[-1]))


def as_column(xp: Any, w: Any) -> Any:
    """A vector for each matrix as a column."""
    return xp.reshape(w, shape=(*shape_of(w), 1))


def diagonal_matrix(xp: Any, w: Any) -> Any:
    """A diagonal matrix for each vector."""
    n = shape_of(w)[-1]
    return xp.diag_embed(w, k=0, shape=(n, n))


def sized(xp: Any, w: Any) -> tuple[Any, Any]:
    """Values divided by a unit, a power of two near the largest value; and the unit, of shape [..., 1, 1].

    Rules divide the parts of vectors by the unit last, because quotients by differences of tiny values may overflow.
    """
    row = as_row(xp, w)
    unit = xp.magnitude(row, axis=(-2, -1))
    return xp.reshape(row / unit, shape=shape_of(w)), unit


def outside(xp: Any, x: Any, u: Any) -> Any:
    """The part of `x` outside the span of the columns of `u`, which are orthonormal."""
    return x - xp.matmul(u, xp.matmul(xp.swap_last(u), x))
