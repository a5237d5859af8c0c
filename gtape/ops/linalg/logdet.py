"""The public functions for determinants, their logarithms and their signs."""

from __future__ import annotations

from typing import Any, NamedTuple

from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.declare.conventions import DETERMINANTS
from gtape.declare.primitives import primitive
from gtape.declare.rounding import growing
from gtape.kernels import lapack
from gtape.ops.linalg import determinant
from gtape.ops.linalg.cholesky import cholesky
from gtape.ops.linalg.diagonal import diag_part_op
from gtape.tensors.operands import matrix_operand
from gtape.tensors.tensor import Tensor

__all__ = ["det", "logdet", "slogdet"]

_log_abs_det = primitive(
    "log_abs_det", lapack.log_abs_det,
    vjp=(lambda xp, g, y, a: determinant.per_matrix(xp, g) * xp.swap_last(xp.inverse(a)),),
    jvp=(lambda xp, t, y, a: xp.sum(t * xp.swap_last(xp.inverse(a)), axis=(-2, -1), keepdims=False),),
    reads=((0,),), batched=True, rounding=growing(1, eliminates=True, wide=True),
    samples=((((1, 1),), {}), (((2, 2),), {}), (((2, 2, 2),), {})),
    conventions=DETERMINANTS,
)  # fmt: skip

_det_sign = primitive(
    "det_sign", lapack.det_sign,
    vjp=(lambda xp, g, y, a: xp.zeros_like(a),), jvp=(lambda xp, t, y, a: xp.zeros_like(y),),
    reads=((0,),), rounding=growing(1, eliminates=True),
    samples=((((1, 1),), {}), (((2, 2),), {}), (((2, 2, 2),), {})),
    conventions=DETERMINANTS,
)  # fmt: skip


@diagnosed
def det(input: Any, name: str | None = None) -> Tensor:
    """The determinant of each matrix. Its derivatives exist at singular matrices, too.

    Parameters
    ----------
    input : tensor of floats or complex numbers, shape [..., n, n]

    Returns
    -------
    Tensor, shape [...]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the matrices are not square.

    Examples
    --------
    >>> tf.linalg.det([[1.0, 2.0], [3.0, 4.0]]).numpy()
    np.float32(-2.0)
    """
    return determinant.det(matrix_operand(input, "det", square=True))


class LogDet(NamedTuple):
    """The result of `slogdet`."""

    sign: Tensor
    log_abs_determinant: Tensor


@diagnosed
@documented_like(det)
def slogdet(input: Any, name: str | None = None) -> LogDet:
    """The sign of the determinant and the logarithm of its absolute value for each matrix.

    Returns
    -------
    sign : Tensor, shape [...]
        For real matrices the gradient is zero. For complex matrices the sign has modulus 1 and a derivative.
    log_abs_determinant : Tensor, shape [...]
        -inf for a singular matrix. A complex number for complex matrices, as in TensorFlow.

    Examples
    --------
    >>> sign, log = tf.linalg.slogdet([[1.0, 0.0], [0.0, -1.0]])
    >>> sign.numpy(), log.numpy()
    (np.float32(-1.0), np.float32(0.0))
    """
    x = matrix_operand(input, "slogdet", square=True)
    if x._layout.complex:
        from gtape.ops.linalg import complex_factors

        return LogDet(*complex_factors.slogdet(x))
    return LogDet(_det_sign(x), _log_abs_det(x))


@diagnosed
@documented_like(det)
def logdet(matrix: Any, name: str | None = None) -> Tensor:
    """The logarithm of the determinant of symmetric positive definite matrices, by the Cholesky factor.

    Parameters
    ----------
    matrix : tensor of floats or complex numbers, shape [..., n, n]
        The result is NaN unless the matrix is positive definite. `slogdet` takes any matrix.

    Examples
    --------
    >>> tf.linalg.logdet([[1.0, 0.0], [0.0, 1.0]]).numpy()
    np.float32(0.0)
    """
    from gtape.ops.elementwise.complex_parts import real
    from gtape.ops.elementwise.exponential import log
    from gtape.ops.reduction.sums import sum_op

    diagonal = real(diag_part_op(cholesky(matrix), k=0))
    return 2.0 * sum_op(log(diagonal), axis=(-1,), keepdims=False)
