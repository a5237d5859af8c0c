"""Eigenvalues and singular values as the rules of decompositions need them: rows, columns, diagonals and gaps."""

from __future__ import annotations

from typing import Any

from gtape.tensors.axes import shape_of

__all__ = ["as_column", "as_row", "diagonal_matrix", "gaps", "sized", "sums"]
NAMESPACES = None


def as_row(xp: Any, w: Any) -> Any:
    """A vector for each matrix as a row, which meets columns."""
    shape = shape_of(w)
    return xp.reshape(w, shape=(*shape[:-1], 1, shape[-1]))


def as_column(xp: Any, w: Any) -> Any:
    """A vector for each matrix as a column, which meets rows."""
    return xp.reshape(w, shape=(*shape_of(w), 1))


def diagonal_matrix(xp: Any, w: Any) -> Any:
    """A vector for each matrix as a diagonal one."""
    n = shape_of(w)[-1]
    return xp.diag_embed(w, k=0, shape=(n, n))


def gaps(xp: Any, w: Any) -> Any:
    """w_j - w_i, and 1 on the diagonal, where nothing is divided."""
    return as_row(xp, w) - as_column(xp, w) + diagonal_matrix(xp, xp.ones_like(w))


def sums(xp: Any, w: Any) -> Any:
    """w_i + w_j, and one more on the diagonal, where nothing is divided."""
    return as_row(xp, w) + as_column(xp, w) + diagonal_matrix(xp, xp.ones_like(w))


def sized(xp: Any, w: Any) -> tuple[Any, Any]:
    """Values in units of a power of two of about the largest, and that unit, for matrices: [..., 1, 1].

    Differences of tiny values are tiny, and what they divide may overflow. It is divided by the unit at the very end,
    apart from what belongs to the values themselves.
    """
    row = as_row(xp, w)
    unit = xp.magnitude(row, axis=(-2, -1))
    return xp.reshape(row / unit, shape=shape_of(w)), unit
