"""Triangular factors of matrices by elimination with exchanged rows, and functions of the factors.

The order of rows is a constant for derivatives. For a fixed order the factors are rational functions of the entries, so
the primitive is elimination without a choice of rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gtape import dtypes
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.half_precision import spacing_at_one
from gtape.declare.conventions import NOT_SMOOTH, PRODUCTS, OfArrays
from gtape.declare.domains import ANY_REAL, Domain
from gtape.declare.primitives import REGISTRY, primitive
from gtape.declare.rounding import elimination
from gtape.engine.worlds import TAPE
from gtape.errors import InvalidArgumentError
from gtape.kernels.broadcasting import broadcast_shapes
from gtape.kernels.double import doubled
from gtape.ops.linalg.diagonal import diag_part
from gtape.ops.linalg.equations import triangular_solve
from gtape.ops.linalg.matmul import matmul
from gtape.ops.linalg.spectra import diagonal_matrix
from gtape.ops.linalg.spectral import svd
from gtape.ops.picking.gather import gather
from gtape.tensors.axes import shape_of
from gtape.tensors.operands import matrix_operand
from gtape.tensors.tensor import Tensor, as_operand, wrap

__all__ = ["lu", "lu_matrix_inverse", "lu_reconstruct", "lu_solve", "matrix_rank"]

Array = Any


def _eliminate(a: Array, k: int) -> None:
    """Clear column `k` below the diagonal, in place. The factors replace the zeros."""
    a[..., k + 1 :, k] /= a[..., k, k, None]
    a[..., k + 1 :, k + 1 :] -= a[..., k + 1 :, k, None] * a[..., k, None, k + 1 :]


def _factors_kernel(a: Array) -> Array:
    wide = a.astype(np.float64) if a.dtype.kind == "f" else a.astype(np.complex128)
    for k in range(wide.shape[-1] - 1):
        _eliminate(wide, k)
    return wide.astype(a.dtype)


def _has_pivots(a: Array) -> bool:
    """Whether every pivot is more than a rounding away from 0 and its reciprocal squared is finite."""
    with np.errstate(all="ignore"):
        pivots = np.abs(np.diagonal(_factors_kernel(a), axis1=-2, axis2=-1))
        least = 1e-12 * np.abs(a).max(axis=(-2, -1), initial=0.0)[..., None]
        return bool((pivots > np.maximum(least, np.sqrt(np.finfo(a.dtype).tiny))).all())


def _upper(xp: Any, x: Any) -> Any:
    return xp.band_part(x, lower=0, upper=-1)


def _below(xp: Any, x: Any) -> Any:
    # By a product, because the adjoint of a difference would add a large cotangent of L to that of U and subtract it.
    return x * np.tri(shape_of(x)[-1], k=-1)


def _unit_lower(xp: Any, y: Any) -> Any:
    """The lower factor. Its diagonal of ones is not stored."""
    return _below(xp, y) + diagonal_matrix(xp, xp.ones_like(xp.diag_part(y, k=0)))


# With A = L U: L^-1 dA U^-1 = L^-1 dL + dU U^-1. The first term is the part below the diagonal.


def _pull(xp: Any, g: Any, y: Any, a: Any) -> Any:
    (g, y), home = doubled(xp, g, y)
    low, up = _unit_lower(xp, y), _upper(xp, y)
    inner = _below(xp, xp.matmul(xp.swap_last(low), _below(xp, g)))
    inner = inner + _upper(xp, xp.matmul(_upper(xp, g), xp.swap_last(up)))
    left = xp.triangular_solve(xp.swap_last(low), inner, lower=False)
    return home(xp.swap_last(xp.triangular_solve(up, xp.swap_last(left), lower=False)))


def _push(xp: Any, t: Any, y: Any, a: Any) -> Any:
    (t, y), home = doubled(xp, t, y)
    low, up = _unit_lower(xp, y), _upper(xp, y)
    left = xp.triangular_solve(low, t, lower=True)
    inner = xp.swap_last(xp.triangular_solve(xp.swap_last(up), xp.swap_last(left), lower=True))
    return home(xp.matmul(low, _below(xp, inner)) + xp.matmul(_upper(xp, inner), up))


_factors = primitive(
    "triangular_factors", _factors_kernel, vjp=(_pull,), jvp=(_push,),
    domain=Domain(ANY_REAL, where=_has_pivots), reads=(("y",),), batched=True, complex=True,
    rounding=elimination(0.5, 1.5, independent=True, wide=True),
    samples=((((1, 1),), {}), (((2, 2),), {}), (((2, 2, 2),), {})),
    conventions=(*PRODUCTS, NOT_SMOOTH, OfArrays("zero", "both", "a number", "a pivot is zero: there are no factors")),
)  # fmt: skip


class Lu(NamedTuple):
    """Both factors in one matrix, and the order of rows."""

    lu: Tensor
    p: Tensor


def _row_order(a: Array) -> Array:
    """The order in which elimination with the largest pivots takes the rows of each matrix."""
    n = a.shape[-1]
    a = a.astype(np.promote_types(a.dtype, np.float64))
    order = np.broadcast_to(np.arange(n), a.shape[:-1]).copy()
    for k in range(n):
        best = k + np.argmax(np.abs(a[..., k:, k]), axis=-1)
        swap = np.broadcast_to(np.arange(n), order.shape).copy()
        np.put_along_axis(swap, best[..., None], k, axis=-1)
        swap[..., k] = best
        a = np.take_along_axis(a, swap[..., None], axis=-2)
        order = np.take_along_axis(order, swap, axis=-1)
        with np.errstate(all="ignore"):
            _eliminate(a, k)
    return order


def _rows(x: Tensor, order: Any) -> Tensor:
    return gather(x, order, axis=-2, batch_dims=x.ndim - 2)


@diagnosed
def lu(input: Any, output_idx_type: Any = dtypes.int32, name: str | None = None) -> Lu:
    """Triangular factors of square matrices, by elimination with exchanged rows.

    Parameters
    ----------
    input : tensor of floats or complex numbers, shape [..., n, n]
    output_idx_type : dtype
        The dtype of `p`: int32 or int64.

    Returns
    -------
    lu : Tensor, shape [..., n, n]
        The upper factor, and below its diagonal the lower factor without its diagonal of ones. Differentiable for the
        chosen order of rows.
    p : Tensor, shape [..., n]
        ``gather(input, p)`` is the product of the factors.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the matrices are not square, or one is singular.

    Examples
    --------
    >>> found = tf.linalg.lu([[1.0, 2.0], [4.0, 6.0]])
    >>> found.lu.numpy(), found.p.numpy()
    (array([[4.  , 6.  ],
           [0.25, 0.5 ]], dtype=float32), array([1, 0], dtype=int32))
    """
    x = matrix_operand(input, "lu", square=True)
    index = dtypes.np_dtype(output_idx_type)
    if index.kind not in "iu":
        raise InvalidArgumentError(f"lu: output_idx_type must be int32 or int64, not {index.name}")
    order = wrap(_row_order(np.asarray(x._value)).astype(index))
    y: Tensor = _factors(_rows(x, order))
    if (np.asarray(diag_part(y)._value) == 0).any():
        raise InvalidArgumentError("lu: Input is not invertible: a pivot is 0")
    return Lu(y, order)


def _checked(lower_upper: Any, perm: Any, op: str) -> tuple[Tensor, Tensor]:
    x, order = matrix_operand(lower_upper, op, square=True), as_operand(perm)
    if order._layout.shape != x._layout.shape[:-1]:
        raise InvalidArgumentError(
            f"{op}: perm must have the shape {x._layout.shape[:-1]}, one index a row, not {order._layout.shape}"
        )
    return x, order


@diagnosed
def lu_reconstruct(lower_upper: Any, perm: Any, validate_args: bool = False, name: str | None = None) -> Tensor:
    """The matrices whose factors `lu` computed.

    Parameters
    ----------
    lower_upper : tensor, shape [..., n, n]
        The result `lu` of `lu`.
    perm : integer tensor, shape [..., n]
        The result `p` of `lu`.
    validate_args : bool
        Ignored, because shapes are always checked.

    Returns
    -------
    Tensor, shape [..., n, n]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the shapes do not fit.

    Examples
    --------
    >>> tf.linalg.lu_reconstruct(*tf.linalg.lu([[1.0, 2.0], [4.0, 6.0]])).numpy()
    array([[1., 2.],
           [4., 6.]], dtype=float32)
    """
    x, order = _checked(lower_upper, perm, "lu_reconstruct")
    product = matmul(_unit_lower(TAPE, x), _upper(TAPE, x))
    return _rows(product, wrap(np.argsort(order._value, axis=-1)))


@diagnosed
@documented_like(lu_reconstruct)
def lu_solve(lower_upper: Any, perm: Any, rhs: Any, validate_args: bool = False, name: str | None = None) -> Tensor:
    """The solution x of ``a @ x = rhs`` from the factors of a.

    Parameters
    ----------
    rhs : tensor, shape [..., n, k]

    Returns
    -------
    Tensor, shape [..., n, k]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the shapes do not fit.
    ValueError
        If `rhs` is a vector.

    Examples
    --------
    >>> tf.linalg.lu_solve(*tf.linalg.lu([[1.0, 2.0], [4.0, 6.0]]), [[3.0], [10.0]]).numpy()
    array([[1.],
           [1.]], dtype=float32)
    """
    x, order = _checked(lower_upper, perm, "lu_solve")
    b = as_operand(rhs, x)
    if b.ndim < 2:
        raise ValueError(f"lu_solve: `rhs` must have at least 2 dimensions: columns, shape [..., n, k], not {b.shape}")
    lead = broadcast_shapes(x._layout.shape[:-2], b._layout.shape[:-2])
    b = REGISTRY["broadcast_to"](b, shape=(*lead, *b._layout.shape[-2:]))
    picked = _rows(b, wrap(np.broadcast_to(order._value, (*lead, order._layout.shape[-1]))))
    return triangular_solve(_upper(TAPE, x), triangular_solve(_unit_lower(TAPE, x), picked), lower=False)


@diagnosed
@documented_like(lu_reconstruct)
def lu_matrix_inverse(lower_upper: Any, perm: Any, validate_args: bool = False, name: str | None = None) -> Tensor:
    """The inverses of matrices from their factors.

    Examples
    --------
    >>> tf.linalg.lu_matrix_inverse(*tf.linalg.lu([[1.0, 0.0], [4.0, 2.0]])).numpy()
    array([[ 1. ,  0. ],
           [-2. ,  0.5]], dtype=float32)
    """
    x, order = _checked(lower_upper, perm, "lu_matrix_inverse")
    unit = np.broadcast_to(np.eye(x._layout.shape[-1], dtype=x._layout.dtype), x._layout.shape)
    return lu_solve(x, order, wrap(unit))


@diagnosed
def matrix_rank(a: Any, tol: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """The number of singular values above a bound for each matrix.

    Parameters
    ----------
    a : tensor of floats or complex numbers, shape [..., m, n]
    tol : float or tensor, optional
        The bound. By default max(m, n) times the spacing of the dtype at 1 times the largest singular value.
    validate_args : bool
        Ignored, because shapes are always checked.

    Returns
    -------
    Tensor of int32, shape [...]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `a` has fewer than two axes.

    Examples
    --------
    >>> int(tf.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]]))
    1
    """
    x = matrix_operand(a, "matrix_rank")
    s = np.asarray(svd(wrap(x._value), compute_uv=False)._value)
    if tol is None:
        bound = max(x._layout.shape[-2:]) * spacing_at_one(s.dtype) * s.max(axis=-1, keepdims=True, initial=0)
    else:
        bound = np.asarray(as_operand(tol)._value)[..., None]
    return wrap(np.asarray((s > bound).sum(axis=-1), np.int32))
