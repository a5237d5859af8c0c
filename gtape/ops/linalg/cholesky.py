"""Cholesky factors, and solutions of equations from Cholesky factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.declare.conventions import FACTORS, OfArrays
from gtape.declare.domains import ANY_REAL, Domain
from gtape.declare.primitives import implicit, linear
from gtape.declare.rounding import SUM, elimination
from gtape.kernels import lapack
from gtape.kernels.double import doubled
from gtape.ops.linalg.equations import triangular_solve
from gtape.tensors.operands import matrix_operand
from gtape.tensors.tensor import Tensor

__all__ = ["cholesky", "cholesky_solve"]


def _half_tril_kernel(x: Any) -> Any:
    """The lower triangle with half of the diagonal."""
    # A mask instead of a product, because zero times infinity is NaN.
    n = np.arange(x.shape[-1])
    return np.tril(x) * np.where(n[:, None] == n[None, :], 0.5, 1.0).astype(x.dtype)


half_tril = linear(
    "half_tril", _half_tril_kernel, lambda xp, g, x: xp.half_tril(g),
    batched=True, rounding=SUM,
    samples=((((1, 1),), {}), (((3, 3),), {}), (((2, 2, 2),), {})),
)  # fmt: skip


def _cholesky_pull(xp: Any, g: Any, y: Any, a: Any) -> Any:
    (g, y), home = doubled(xp, g, y)
    up = xp.swap_last(y)
    inner = xp.half_tril(xp.matmul(up, g))
    outer = xp.triangular_solve(up, inner, lower=False)
    s = xp.triangular_solve(up, xp.swap_last(outer), lower=False)
    # The gradient is symmetric, as in TensorFlow, because the factor is a function of symmetric matrices.
    return home((s + xp.swap_last(s)) / 2)


def _cholesky_push(xp: Any, t: Any, y: Any, a: Any) -> Any:
    (t, y), home = doubled(xp, t, y)
    t = (t + xp.swap_last(t)) / 2
    half = xp.triangular_solve(y, t, lower=True)
    return home(xp.matmul(y, xp.half_tril(xp.triangular_solve(y, xp.swap_last(half), lower=True))))


def _symmetric(a: Any) -> bool:
    return bool(np.array_equal(a, np.swapaxes(a, -1, -2)))


def _symmetric_part(a: Any) -> tuple[Any]:
    return ((a + np.swapaxes(a, -1, -2)) / 2,)


_cholesky = implicit(
    "cholesky", lapack.cholesky, vjp=(_cholesky_pull,), jvp=(_cholesky_push,),
    domain=Domain(ANY_REAL, where=_symmetric, fit=_symmetric_part), reads=(("y",),), batched=True,
    rounding=elimination(0.5, 1.5, wide=True),
    samples=((((1, 1),), {}), (((2, 2),), {}), (((3, 3),), {}), (((2, 2, 2),), {})),
    conventions=(
        *FACTORS,
        OfArrays("zero", "both", "NaN", "a matrix that is not positive definite has no factor, as in TensorFlow"),
    ),
)  # fmt: skip


@diagnosed
def cholesky(input: Any, name: str | None = None) -> Tensor:
    """Lower triangular L with ``L @ transpose(L) = input`` for each matrix.

    Only the lower triangle of `input` is read. The gradient is symmetric.

    Parameters
    ----------
    input : tensor of floats or complex numbers, shape [..., n, n]
        Symmetric or Hermitian matrices. A matrix that is not positive definite gives NaN.

    Returns
    -------
    Tensor, shape [..., n, n]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the matrices are not square.

    Examples
    --------
    >>> tf.linalg.cholesky([[4.0, 2.0], [2.0, 2.0]]).numpy()
    array([[2., 0.],
           [1., 1.]], dtype=float32)
    """
    x = matrix_operand(input, "cholesky", square=True)
    if x._layout.complex:
        from gtape.ops.linalg import complex_factors

        return complex_factors.cholesky(x)
    return _cholesky(x)


@diagnosed
def cholesky_solve(chol: Any, rhs: Any, name: str | None = None) -> Tensor:
    """Solution x of ``A @ x = rhs`` from the Cholesky factor of A.

    Parameters
    ----------
    chol : tensor of floats or complex numbers, shape [..., n, n]
        The result of `cholesky`.
    rhs : tensor, shape [..., n, k]
        Dtype of `chol`.

    Returns
    -------
    Tensor, shape [..., n, k]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the diagonal has a zero, or shapes do not fit.

    Examples
    --------
    >>> tf.linalg.cholesky_solve([[2.0, 0.0], [0.0, 1.0]], [[4.0], [3.0]]).numpy()
    array([[1.],
           [3.]], dtype=float32)
    """
    return triangular_solve(chol, triangular_solve(chol, rhs), adjoint=True)
