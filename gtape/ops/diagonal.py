"""Diagonals and bands of matrices: taking them, making matrices of them, and the trace."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import errors
from gtape.dispatch import operands
from gtape.ops.reduction import _sum
from gtape.ops.selection import where
from gtape.primitive import linear
from gtape.tensor import Tensor, convert_to_tensor

__all__ = ["band_part", "diag", "diag_part", "set_diag", "trace"]

Array = Any


# ---------------------------------------------------------------------------------------------- primitives


def _diag_part_kernel(x: Array, *, k: int) -> Array:
    return np.diagonal(x, k, -2, -1)


def _diag_embed_kernel(d: Array, *, k: int, shape: tuple[int, int]) -> Array:
    rows, columns = shape
    out = np.zeros((*d.shape[:-1], rows, columns), d.dtype)
    i = np.arange(d.shape[-1])
    out[..., i + max(-k, 0), i + max(k, 0)] = d
    return out


def _band(rows: int, columns: int, lower: int, upper: int) -> Array:
    """Where an element is kept: not more than `lower` below and `upper` above the diagonal; -1 for no limit."""
    d = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    return ((lower < 0) | (d >= -lower)) & ((upper < 0) | (d <= upper))


def _band_part_kernel(x: Array, *, lower: int, upper: int) -> Array:
    return np.where(_band(x.shape[-2], x.shape[-1], lower, upper), x, x.dtype.type(0))


_diag_part = linear(
    "diag_part",
    _diag_part_kernel,
    lambda xp, g, x, *, k: xp.diag_embed(g, k=k, shape=tuple(x.shape)[-2:]),
    params=("k",),
    batched=True,
    selects=True,
    public=False,
    ulps=0.0,
    samples=(
        (((2, 2),), {"k": 0}),
        (((2, 3),), {"k": 1}),
        (((3, 2),), {"k": -1}),
        (((2, 2, 3),), {"k": 0}),
        (((1, 1),), {"k": 0}),
        (((0, 0),), {"k": 0}),
    ),
)

_diag_embed = linear(
    "diag_embed",
    _diag_embed_kernel,
    lambda xp, g, d, *, k, shape: xp.diag_part(g, k=k),
    params=("k", "shape"),
    batched=True,
    public=False,
    ulps=0.0,
    samples=(
        (((2,),), {"k": 0, "shape": (2, 2)}),
        (((2,),), {"k": 1, "shape": (2, 3)}),
        (((2, 1),), {"k": -1, "shape": (2, 1)}),
        (((0,),), {"k": 0, "shape": (0, 2)}),
    ),
)

_band_part = linear(
    "band_part",
    _band_part_kernel,
    lambda xp, g, x, *, lower, upper: xp.band_part(g, lower=lower, upper=upper),
    params=("lower", "upper"),
    batched=True,
    selects=True,
    public=False,
    ulps=0.0,
    samples=(
        (((3, 3),), {"lower": 0, "upper": -1}),
        (((3, 2),), {"lower": -1, "upper": 0}),
        (((2, 2, 2),), {"lower": 0, "upper": 0}),
        (((2, 3),), {"lower": 1, "upper": 1}),
    ),
)


# ---------------------------------------------------------------------------------------------- public functions


def _offset(k: Any, op: str) -> int:
    """The one diagonal that is meant."""
    k = np.asarray(getattr(k, "_value", k))
    if k.size == 2 and k[0] == k[1]:
        k = k[0]
    if k.size != 1:
        raise errors.UnimplementedError(
            f"{op}: k={k.tolist()} asks for several diagonals at once; take them one by one and add the results"
        )
    return int(k.reshape(()))


def _matrices(x: Any, op: str) -> Tensor:
    t = convert_to_tensor(x)
    if len(t._aval.shape) < 2:
        raise errors.InvalidArgumentError(
            f"{op}: a matrix is needed (shape [..., m, n]), not the shape {t._aval.tensor_shape}"
        )
    return t


def _check_offset(k: int, rows: int, columns: int, op: str) -> None:
    if not -max(rows, 1) < k < max(columns, 1):
        raise errors.InvalidArgumentError(f"{op}: a matrix of {rows} rows and {columns} columns has no diagonal k={k}")


def diag_part(input: Any, k: Any = 0, name: str | None = None) -> Tensor:
    """A diagonal of each matrix.

    Parameters
    ----------
    input : tensor, shape [..., m, n]
    k : int
        Which diagonal: 0 the main one, positive above, negative below it.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor, shape [..., length of the diagonal]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When there is no such diagonal.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.linalg.diag_part([[1.0, 2.0], [3.0, 4.0]]).numpy()
    array([1., 4.], dtype=float32)
    """
    x = _matrices(input, "diag_part")
    k = _offset(k, "diag_part")
    rows, columns = x._aval.shape[-2:]
    _check_offset(k, rows, columns, "diag_part")
    return _diag_part(x, k=k)  # type: ignore[no-any-return]


def diag(diagonal: Any, k: Any = 0, num_rows: int = -1, num_cols: int = -1, name: str | None = None) -> Tensor:
    """Matrices with the given diagonal and zeros elsewhere.

    Parameters
    ----------
    diagonal : tensor, shape [..., n]
    k : int
        Which diagonal it is to be.
    num_rows, num_cols : int
        Size of the matrices: the smallest that fits where one is -1, square where both are.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor, shape [..., rows, columns]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When the diagonal does not fit the size.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.linalg.diag([1.0, 2.0]).numpy()
    array([[1., 0.],
           [0., 2.]], dtype=float32)
    """
    d = convert_to_tensor(diagonal)
    if not d._aval.shape:
        raise errors.InvalidArgumentError("diag: the diagonal must have one axis at least; it is a scalar")
    k = _offset(k, "diag")
    n = d._aval.shape[-1]
    least_rows, least_columns = n + max(-k, 0), n + max(k, 0)
    rows, columns = int(num_rows), int(num_cols)
    if rows < 0 and columns < 0:
        rows = columns = n + abs(k)
    rows = least_rows if rows < 0 else rows
    columns = least_columns if columns < 0 else columns
    if min(rows - max(-k, 0), columns - max(k, 0)) != n:
        raise errors.InvalidArgumentError(
            f"diag: a diagonal k={k} of {n} elements does not fit a matrix of {rows} rows and {columns} columns"
        )
    return _diag_embed(d, k=k, shape=(rows, columns))  # type: ignore[no-any-return]


def set_diag(input: Any, diagonal: Any, k: Any = 0, name: str | None = None) -> Tensor:
    """The matrices with one diagonal replaced.

    Parameters
    ----------
    input : tensor, shape [..., m, n]
    diagonal : tensor, shape [..., length of the diagonal]
        Of the dtype of `input`.
    k : int
        Which diagonal.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor, shape [..., m, n]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When the diagonal does not fit.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.linalg.set_diag([[1.0, 2.0], [3.0, 4.0]], [0.0, 9.0]).numpy()
    array([[0., 2.],
           [3., 9.]], dtype=float32)
    """
    x, d = operands(input, diagonal)
    x = _matrices(x, "set_diag")
    k = _offset(k, "set_diag")
    rows, columns = x._aval.shape[-2:]
    _check_offset(k, rows, columns, "set_diag")
    wanted = (*x._aval.shape[:-2], min(rows - max(-k, 0), columns - max(k, 0)))
    if d._aval.shape != wanted:
        raise errors.InvalidArgumentError(
            f"set_diag: the diagonal k={k} of {x._aval.tensor_shape} has shape {wanted}, not {d._aval.tensor_shape}"
        )
    mask = np.broadcast_to(np.eye(rows, columns, k, dtype=bool), x._aval.shape)
    return where(mask, _diag_embed(d, k=k, shape=(rows, columns)), x)  # type: ignore[no-any-return]


def band_part(input: Any, num_lower: Any, num_upper: Any, name: str | None = None) -> Tensor:
    """The matrices with everything outside a band around the diagonal set to zero.

    Parameters
    ----------
    input : tensor, shape [..., m, n]
    num_lower, num_upper : int
        How many diagonals to keep below and above the main one; -1 for all.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor, shape [..., m, n]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When `input` has fewer than two axes, or the band is wider than the matrix.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.linalg.band_part([[1.0, 2.0], [3.0, 4.0]], -1, 0).numpy()
    array([[1., 0.],
           [3., 4.]], dtype=float32)
    """
    x = _matrices(input, "band_part")
    lower, upper = int(num_lower), int(num_upper)
    rows, columns = x._aval.shape[-2:]
    if lower > rows or upper > columns:
        raise errors.InvalidArgumentError(
            f"band_part: num_lower={lower} and num_upper={upper} must not exceed the {rows} rows and {columns} columns"
        )
    return _band_part(x, lower=max(lower, -1), upper=max(upper, -1))  # type: ignore[no-any-return]


def trace(x: Any, name: str | None = None) -> Tensor:
    """Sum of the main diagonal of each matrix.

    Parameters
    ----------
    x : tensor, shape [..., m, n]
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor, shape [...]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When `x` has fewer than two axes.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.linalg.trace([[1.0, 2.0], [3.0, 4.0]]).numpy()
    np.float32(5.0)
    """
    return _sum(_diag_part(_matrices(x, "trace"), k=0), axis=(-1,), keepdims=False)  # type: ignore[no-any-return]
