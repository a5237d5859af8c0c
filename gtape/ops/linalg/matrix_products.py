"""Adjoints, cross products and Kronecker products."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import errors
from gtape.base.diagnosis import diagnosed
from gtape.declare.conventions import PRODUCTS
from gtape.declare.primitives import primitive
from gtape.declare.rounding import stable
from gtape.ops.linalg.matmul import matrix_transpose
from gtape.ops.shape.shape import reshape_op
from gtape.tensors.operands import operands
from gtape.tensors.tensor import Tensor

__all__ = ["adjoint", "cross", "kron"]

_cross = primitive(
    "cross", lambda a, b: np.cross(a, b),
    vjp=(lambda xp, g, y, a, b: xp.cross(b, g), lambda xp, g, y, a, b: xp.cross(g, a)),
    jvp=(lambda xp, t, y, a, b: xp.cross(t, b), lambda xp, t, y, a, b: xp.cross(a, t)),
    reads=((1,), (0,)), batched=True, complex=True, rounding=stable(0, 1),
    samples=((((3,), (3,)), {}), (((2, 3), (2, 3)), {})),
    conventions=PRODUCTS,
)  # fmt: skip


@diagnosed
def adjoint(matrix: Any, name: str | None = None) -> Tensor:
    """Swap the last two axes and conjugate. For real numbers the transpose.

    Parameters
    ----------
    matrix : tensor, shape [..., m, n]

    Returns
    -------
    Tensor, shape [..., n, m]

    Raises
    ------
    ValueError
        If `matrix` has fewer than two axes.

    Examples
    --------
    >>> tf.linalg.adjoint([[1.0, 2.0]]).numpy()
    array([[1.],
           [2.]], dtype=float32)
    """
    return matrix_transpose(matrix, conjugate=True)


@diagnosed
def cross(a: Any, b: Any, name: str | None = None) -> Tensor:
    """The cross product of vectors in three dimensions.

    Parameters
    ----------
    a, b : tensors of one dtype and shape [..., 3]

    Returns
    -------
    Tensor, shape [..., 3]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the shapes differ or the last axis does not have size 3.

    Examples
    --------
    >>> tf.linalg.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]).numpy()
    array([0., 0., 1.], dtype=float32)
    """
    a, b = operands(a, b)
    if a._layout.shape != b._layout.shape or a._layout.shape[-1:] != (3,):
        raise errors.InvalidArgumentError(
            f"cross: both arguments must have one shape [..., 3]; they have {a._layout.tensor_shape} and "
            f"{b._layout.tensor_shape}"
        )
    return _cross(a, b)


@diagnosed
def kron(a: Any, b: Any, name: str | None = None) -> Tensor:
    """The Kronecker product of matrices, as ``numpy.kron``. Batch axes broadcast.

    Parameters
    ----------
    a : tensor, shape [..., m, n]
    b : tensor, shape [..., p, q]
        Dtype of `a`.

    Returns
    -------
    Tensor, shape [..., m * p, n * q]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If an argument has fewer than two axes.

    Examples
    --------
    >>> tf.linalg.kron([[1.0, 2.0]], [[1.0], [1.0]]).numpy()
    array([[1., 2.],
           [1., 2.]], dtype=float32)
    """
    a, b = operands(a, b)
    sa, sb = a._layout.shape, b._layout.shape
    if min(len(sa), len(sb)) < 2:
        raise errors.InvalidArgumentError(
            f"kron: matrices are needed; the shapes are {a._layout.tensor_shape} and {b._layout.tensor_shape}"
        )
    (m, n), (p, q) = sa[-2:], sb[-2:]
    product = reshape_op(a, shape=(*sa[:-2], m, 1, n, 1)) * reshape_op(b, shape=(*sb[:-2], 1, p, 1, q))
    return reshape_op(product, shape=(*product._layout.shape[:-4], m * p, n * q))
