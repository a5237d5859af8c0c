"""Diagonals and bands of matrices: parts of matrices, new matrices, and the trace."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import errors
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.scalars import int_of
from gtape.declare.primitives import REGISTRY, linear
from gtape.declare.rounding import EXACT
from gtape.ops.elementwise.selection import where
from gtape.ops.linalg.bands import inverse, length, places, taken
from gtape.ops.reduction.sums import sum_op
from gtape.tensors.axes import scalar_int, static_ints
from gtape.tensors.operands import operands
from gtape.tensors.tensor import Tensor, convert_to_tensor

__all__ = ["band_part", "diag", "diag_part", "set_diag", "trace"]

Array = Any


def _diag_part_kernel(x: Array, *, k: int) -> Array:
    return np.diagonal(x, k, -2, -1)


def _diag_embed_kernel(d: Array, *, k: int, shape: tuple[int, int]) -> Array:
    rows, columns = shape
    out = np.zeros((*d.shape[:-1], rows, columns), d.dtype)
    i = np.arange(d.shape[-1])
    out[..., i + max(-k, 0), i + max(k, 0)] = d
    return out


def _band(rows: int, columns: int, lower: int, upper: int) -> Array:
    """A mask of at most `lower` diagonals below and `upper` above the main one. -1 means no limit."""
    d = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    return ((lower < 0) | (d >= -lower)) & ((upper < 0) | (d <= upper))


def _band_part_kernel(x: Array, *, lower: int, upper: int) -> Array:
    return np.where(_band(x.shape[-2], x.shape[-1], lower, upper), x, x.dtype.type(0))


diag_part_op = linear(
    "diag_part", _diag_part_kernel, lambda xp, g, x, *, k: xp.diag_embed(g, k=k, shape=tuple(x.shape)[-2:]),
    params=("k",), batched=True, selects=True, rounding=EXACT,
    samples=(
        (((2, 2),), {"k": 0}),
        (((2, 3),), {"k": 1}),
        (((3, 2),), {"k": -1}),
        (((2, 2, 3),), {"k": 0}),
        (((1, 1),), {"k": 0}),
        (((0, 0),), {"k": 0}),
    ),
)  # fmt: skip

diag_embed_op = linear(
    "diag_embed", _diag_embed_kernel, lambda xp, g, d, *, k, shape: xp.diag_part(g, k=k),
    params=("k", "shape"), batched=True, rounding=EXACT,
    samples=(
        (((2,),), {"k": 0, "shape": (2, 2)}),
        (((2,),), {"k": 1, "shape": (2, 3)}),
        (((2, 1),), {"k": -1, "shape": (2, 1)}),
        (((0,),), {"k": 0, "shape": (0, 2)}),
    ),
)  # fmt: skip

_band_part = linear(
    "band_part", _band_part_kernel, lambda xp, g, x, *, lower, upper: xp.band_part(g, lower=lower, upper=upper),
    params=("lower", "upper"), batched=True, selects=True, rounding=EXACT,
    samples=(
        (((3, 3),), {"lower": 0, "upper": -1}),
        (((3, 2),), {"lower": -1, "upper": 0}),
        (((2, 2, 2),), {"lower": 0, "upper": 0}),
        (((2, 3),), {"lower": 1, "upper": 1}),
    ),
)  # fmt: skip


def _offsets(k: Any, op: str) -> tuple[int, int]:
    """The numbers of the lowest and of the highest diagonal."""
    found = static_ints(k)
    if len(found) not in (1, 2) or found[0] > found[-1]:
        raise errors.InvalidArgumentError(
            f"{op}: k must be one diagonal or the lowest and the highest of several, got {found}"
        )
    return found[0], found[-1]


def _packed(k: Any) -> bool:
    """Whether `k` is a pair, which names several diagonals, packed in a table."""
    found = static_ints(k)
    return len(found) == 2 and found[0] != found[1]


def _matrices(x: Any, op: str) -> Tensor:
    t = convert_to_tensor(x)
    if len(t._layout.shape) < 2:
        raise errors.InvalidArgumentError(
            f"{op}: a matrix is needed (shape [..., m, n]), not the shape {t._layout.tensor_shape}"
        )
    return t


def _check_offset(k: int, rows: int, columns: int, op: str) -> None:
    if not -max(rows, 1) < k < max(columns, 1):
        raise errors.InvalidArgumentError(f"{op}: a matrix of {rows} rows and {columns} columns has no diagonal k={k}")


@diagnosed
def diag_part(
    input: Any, name: str = "diag_part", k: Any = 0, padding_value: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """A diagonal of each matrix, or several diagonals, packed in a table.

    Parameters
    ----------
    input : tensor, shape [..., m, n]
    k : int or pair of int
        0 is the main diagonal, 1 the next above, -1 the next below. A pair names the lowest and the highest of several.
    padding_value : number
        Fills the rows of shorter diagonals.
    align : {"RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"}
        The sides to which shorter diagonals above and below the main one are pushed.

    Returns
    -------
    Tensor, shape [..., length of the diagonal]
        For several diagonals [..., number, length of the longest], the highest first.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the matrices have no such diagonal.

    Examples
    --------
    >>> tf.linalg.diag_part([[1.0, 2.0], [3.0, 4.0]]).numpy()
    array([1., 4.], dtype=float32)
    """
    x = _matrices(input, "diag_part")
    low, high = _offsets(k, "diag_part")
    rows, columns = x._layout.shape[-2:]
    if _packed(k):
        return taken(x, places(low, high, rows, columns, align, "diag_part"), 2, padding_value)
    _check_offset(low, rows, columns, "diag_part")
    return diag_part_op(x, k=low)


@diagnosed
@documented_like(diag_part)
def diag(
    diagonal: Any,
    name: str = "diag",
    k: Any = 0,
    num_rows: Any = -1,
    num_cols: Any = -1,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Matrices with the given diagonal, or several diagonals packed in a table, and one value elsewhere.

    Parameters
    ----------
    diagonal : tensor, shape [..., n], or [..., number, n] for several diagonals, the highest first
    num_rows, num_cols : int
        The size of the matrices. A size of -1 means the smallest size that fits. If both are -1, the matrices are
        square.
    padding_value : number
        The value of all other elements.

    Returns
    -------
    Tensor, shape [..., rows, columns]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the diagonal does not fit the size.

    Examples
    --------
    >>> tf.linalg.diag([1.0, 2.0]).numpy()
    array([[1., 0.],
           [0., 2.]], dtype=float32)
    """
    d = convert_to_tensor(diagonal)
    if not d._layout.shape:
        raise errors.InvalidArgumentError("diag: the diagonal must have one axis at least; it is a scalar")
    low, high = _offsets(k, "diag")
    n = d._layout.shape[-1]
    least_rows, least_columns = n + max(-high, 0), n + max(low, 0)
    rows, columns = scalar_int(num_rows), scalar_int(num_cols)
    if rows < 0 and columns < 0:
        rows = columns = max(least_rows, least_columns)
    rows = least_rows if rows < 0 else rows
    columns = least_columns if columns < 0 else columns
    if max(length(i, rows, columns) for i in (low, high, min(max(0, low), high))) != n:
        raise errors.InvalidArgumentError(
            f"diag: diagonals k={(low, high)} of {n} elements do not fit a matrix of {rows} rows and {columns} columns"
        )
    if not _packed(k):
        if isinstance(padding_value, int | float) and not padding_value:
            return diag_embed_op(d, k=low, shape=(rows, columns))
        d = REGISTRY["reshape"](d, shape=(*d._layout.shape[:-1], 1, n))
    elif d._layout.shape[-2:] != (high - low + 1, n):
        raise errors.InvalidArgumentError(
            f"diag: {high - low + 1} diagonals must be packed in a table of as many rows, got {d._layout.tensor_shape}"
        )
    table = places(low, high, rows, columns, align, "diag")
    return taken(d, inverse(table, rows, columns), 2, padding_value)


@diagnosed
@documented_like(diag_part)
def set_diag(input: Any, diagonal: Any, name: str = "set_diag", k: Any = 0, align: str = "RIGHT_LEFT") -> Tensor:
    """The matrices with one diagonal replaced, or several diagonals packed in a table.

    Parameters
    ----------
    input : tensor, shape [..., m, n]
    diagonal : tensor, shape [..., length of the diagonal], or [..., number, length of the longest] for several
        Dtype of `input`.

    Returns
    -------
    Tensor, shape [..., m, n]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the diagonal does not fit.

    Examples
    --------
    >>> tf.linalg.set_diag([[1.0, 2.0], [3.0, 4.0]], [0.0, 9.0]).numpy()
    array([[0., 2.],
           [3., 9.]], dtype=float32)
    """
    x, d = operands(input, diagonal)
    x = _matrices(x, "set_diag")
    low, high = _offsets(k, "set_diag")
    rows, columns = x._layout.shape[-2:]
    lead = x._layout.shape[:-2]
    table = places(low, high, rows, columns, align, "set_diag")
    wanted = (*lead, *(table.shape if _packed(k) else table.shape[1:]))
    if d._layout.shape != wanted:
        raise errors.InvalidArgumentError(
            f"set_diag: the diagonals k={(low, high)} of {x._layout.tensor_shape} have shape {wanted}, "
            f"not {d._layout.tensor_shape}"
        )
    if not _packed(k):
        mask = np.broadcast_to(np.eye(rows, columns, low, dtype=bool), x._layout.shape)
        return where(mask, diag_embed_op(d, k=low, shape=(rows, columns)), x)
    at = inverse(table, rows, columns)
    mask = np.broadcast_to(at >= 0, x._layout.shape)
    return where(mask, taken(d, at, 2, 0), x)


@diagnosed
def band_part(input: Any, num_lower: Any, num_upper: Any, name: str | None = None) -> Tensor:
    """The matrices with all elements outside a band around the diagonal set to zero.

    Parameters
    ----------
    input : tensor, shape [..., m, n]
    num_lower, num_upper : int
        The numbers of diagonals to keep below and above the main one. -1 keeps all.

    Returns
    -------
    Tensor, shape [..., m, n]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `input` has fewer than two axes, or the band is wider than the matrix.

    Examples
    --------
    >>> tf.linalg.band_part([[1.0, 2.0], [3.0, 4.0]], -1, 0).numpy()
    array([[1., 0.],
           [3., 4.]], dtype=float32)
    """
    x = _matrices(input, "band_part")
    lower, upper = int_of(num_lower, "band_part", "num_lower"), int_of(num_upper, "band_part", "num_upper")
    rows, columns = x._layout.shape[-2:]
    if lower > rows or upper > columns:
        raise errors.InvalidArgumentError(
            f"band_part: num_lower={lower} and num_upper={upper} must not exceed the {rows} rows and {columns} columns"
        )
    return _band_part(x, lower=max(lower, -1), upper=max(upper, -1))


@diagnosed
def trace(x: Any, name: str | None = None) -> Tensor:
    """The sum of the main diagonal of each matrix.

    Parameters
    ----------
    x : tensor, shape [..., m, n]

    Returns
    -------
    Tensor, shape [...]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `x` has fewer than two axes.

    Examples
    --------
    >>> tf.linalg.trace([[1.0, 2.0], [3.0, 4.0]]).numpy()
    np.float32(5.0)
    """
    return sum_op(diag_part_op(_matrices(x, "trace"), k=0), axis=(-1,), keepdims=False)
