"""Linear algebra: inverses, solutions of equations, Cholesky factors, determinants, cross and Kronecker products.

Rules are the textbook's. They use kernels that give NaN where a matrix is singular; that the user hears of a singular
matrix when the op is called is the business of the public functions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gtape import errors
from gtape.domains import ANY_REAL, Domain
from gtape.operands import float_operand, matrix_operand, operands
from gtape.ops import determinant, lapack
from gtape.ops.broadcasting import broadcast_to_op
from gtape.ops.diagonal import diag_part_op
from gtape.ops.double import doubled
from gtape.ops.matmul import adjoint_of, matrix_transpose
from gtape.ops.shape import reshape_op
from gtape.primitive import implicit, linear, primitive
from gtape.tensor import Tensor

__all__ = [
    "adjoint",
    "cholesky",
    "cholesky_solve",
    "cross",
    "det",
    "inv",
    "kron",
    "logdet",
    "slogdet",
    "solve",
    "triangular_solve",
]

Array = Any


# ---------------------------------------------------------------------------------------------- inverse and solutions


def _half_tril_kernel(x: Array) -> Array:
    """The lower triangle with half the diagonal."""
    n = np.arange(x.shape[-1])
    return x * np.tril(np.where(n[:, None] == n[None, :], 0.5, 1.0)).astype(x.dtype)


half_tril = linear(
    "half_tril",
    _half_tril_kernel,
    lambda xp, g, x: xp.half_tril(g),
    batched=True,
    public=False,
    ulps=0.5,
    samples=((((1, 1),), {}), (((3, 3),), {}), (((2, 2, 2),), {})),
)

_inverse = primitive(
    "inverse",
    lapack.inverse,
    vjp=(lambda xp, g, y, a: -xp.matmul(xp.swap_last(y), xp.matmul(g, xp.swap_last(y))),),
    jvp=(lambda xp, t, y, a: -xp.matmul(y, xp.matmul(t, y)),),
    batched=True,
    complex=True,
    public=False,
    samples=((((1, 1),), {}), (((2, 2),), {}), (((2, 2, 2),), {})),
)

_solve = implicit(
    "solve",
    lapack.solve,
    vjp=(
        lambda xp, g, y, a, b: -xp.matmul(xp.solve(xp.swap_last(a), g), xp.swap_last(y)),
        lambda xp, g, y, a, b: xp.solve(xp.swap_last(a), g),
    ),
    jvp=(
        lambda xp, t, y, a, b: -xp.solve(a, xp.matmul(t, y)),
        lambda xp, t, y, a, b: xp.solve(a, t),
    ),
    batched=True,
    complex=True,
    public=False,
    samples=((((1, 1), (1, 1)), {}), (((2, 2), (2, 1)), {}), (((2, 2), (2, 2)), {}), (((2, 2, 2), (2, 2, 1)), {})),
)


def _triangle(xp: Any, x: Any, lower: bool) -> Any:
    return xp.band_part(x, lower=-1, upper=0) if lower else xp.band_part(x, lower=0, upper=-1)


_triangular_solve = implicit(
    "triangular_solve",
    lapack.triangular_solve,
    vjp=(
        lambda xp, g, y, a, b, *, lower: _triangle(
            xp, -xp.matmul(xp.triangular_solve(xp.swap_last(a), g, lower=not lower), xp.swap_last(y)), lower
        ),
        lambda xp, g, y, a, b, *, lower: xp.triangular_solve(xp.swap_last(a), g, lower=not lower),
    ),
    jvp=(
        lambda xp, t, y, a, b, *, lower: -xp.triangular_solve(a, xp.matmul(_triangle(xp, t, lower), y), lower=lower),
        lambda xp, t, y, a, b, *, lower: xp.triangular_solve(a, t, lower=lower),
    ),
    params=("lower",),
    batched=True,
    complex=True,
    public=False,
    samples=(
        (((2, 2), (2, 1)), {"lower": True}),
        (((2, 2), (2, 2)), {"lower": False}),
        (((1, 1), (1, 1)), {"lower": True}),
        (((2, 2, 2), (2, 2, 1)), {"lower": True}),
    ),
)


# ---------------------------------------------------------------------------------------------- Cholesky factor


def _cholesky_pull(xp: Any, g: Any, y: Any, a: Any) -> Any:
    (g, y), home = doubled(xp, g, y)
    up = xp.swap_last(y)
    inner = xp.half_tril(xp.matmul(up, g))
    outer = xp.triangular_solve(up, inner, lower=False)
    s = xp.triangular_solve(up, xp.swap_last(outer), lower=False)
    # The factor is a function of symmetric matrices: the gradient is the symmetric one, as TensorFlow has it.
    return home((s + xp.swap_last(s)) / 2)


def _cholesky_push(xp: Any, t: Any, y: Any, a: Any) -> Any:
    (t, y), home = doubled(xp, t, y)
    t = (t + xp.swap_last(t)) / 2
    half = xp.triangular_solve(y, t, lower=True)
    return home(xp.matmul(y, xp.half_tril(xp.triangular_solve(y, xp.swap_last(half), lower=True))))


def _symmetric(a: Array) -> bool:
    return bool(np.array_equal(a, np.swapaxes(a, -1, -2)))


_cholesky = implicit(
    "cholesky",
    lapack.cholesky,
    domain=Domain(ANY_REAL, where=_symmetric),
    vjp=(_cholesky_pull,),
    jvp=(_cholesky_push,),
    batched=True,
    public=False,
    samples=((((1, 1),), {}), (((2, 2),), {}), (((3, 3),), {}), (((2, 2, 2),), {})),
)


# ---------------------------------------------------------------------------------------------- logarithm of |det|,
# cross

_log_abs_det = primitive(
    "log_abs_det",
    lapack.log_abs_det,
    vjp=(lambda xp, g, y, a: determinant.per_matrix(xp, g) * xp.swap_last(xp.inverse(a)),),
    jvp=(lambda xp, t, y, a: xp.sum(t * xp.swap_last(xp.inverse(a)), axis=(-2, -1), keepdims=False),),
    batched=True,
    public=False,
    samples=((((1, 1),), {}), (((2, 2),), {}), (((2, 2, 2),), {})),
)

_det_sign = primitive(
    "det_sign",
    lapack.det_sign,
    vjp=(lambda xp, g, y, a: xp.zeros_like(a),),
    jvp=(lambda xp, t, y, a: xp.zeros_like(y),),
    public=False,
    samples=((((1, 1),), {}), (((2, 2),), {}), (((2, 2, 2),), {})),
)

_cross = primitive(
    "cross",
    lambda a, b: np.cross(a, b),
    vjp=(lambda xp, g, y, a, b: xp.cross(b, g), lambda xp, g, y, a, b: xp.cross(g, a)),
    jvp=(lambda xp, t, y, a, b: xp.cross(t, b), lambda xp, t, y, a, b: xp.cross(a, t)),
    batched=True,
    complex=True,
    public=False,
    samples=((((3,), (3,)), {}), (((2, 3), (2, 3)), {})),
)


# ---------------------------------------------------------------------------------------------- public functions


def require_invertible(result: Tensor, op: str, *inputs: Tensor) -> Tensor:
    """Raise if a result is NaN though the inputs are finite: what the kernels give for a singular matrix."""
    if np.isnan(result._value).any() and all(np.isfinite(x._value).all() for x in inputs):
        raise errors.InvalidArgumentError(
            f"{op}: Input is not invertible; for a determinant and its derivatives use gtape.linalg.det, which needs "
            f"no inverse"
        )
    return result


def _pair(matrix: Any, rhs: Any, op: str) -> tuple[Tensor, Tensor]:
    """A square matrix and a right-hand side with the same batch axes."""
    matrix, rhs = operands(matrix, rhs)
    matrix, rhs = matrix_operand(matrix, op, square=True), float_operand(rhs, op)
    sa, sb = matrix._aval.shape, rhs._aval.shape
    if len(sb) < 2 or sb[-2] != sa[-1]:
        raise errors.InvalidArgumentError(
            f"{op}: the right-hand side must have shape [..., {sa[-1]}, k], not {rhs._aval.tensor_shape}"
        )
    if sa[:-2] != sb[:-2]:
        try:
            batch = np.broadcast_shapes(sa[:-2], sb[:-2])
        except ValueError:
            raise errors.InvalidArgumentError(
                f"{op}: the batch axes of {matrix._aval.tensor_shape} and {rhs._aval.tensor_shape} do not fit"
            ) from None
        matrix = matrix if sa[:-2] == batch else broadcast_to_op(matrix, shape=batch + sa[-2:])
        rhs = rhs if sb[:-2] == batch else broadcast_to_op(rhs, shape=batch + sb[-2:])
    return matrix, rhs


def adjoint(matrix: Any, name: str | None = None) -> Tensor:
    """Swap the last two axes and conjugate; for real numbers the transpose.

    Parameters
    ----------
    matrix : tensor, shape [..., m, n]
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor, shape [..., n, m]

    Raises
    ------
    ValueError
        When `matrix` has fewer than two axes.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.linalg.adjoint([[1.0, 2.0]]).numpy()
    array([[1.],
           [2.]], dtype=float32)
    """
    return matrix_transpose(matrix, conjugate=True)


def inv(input: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Inverse of each matrix.

    Parameters
    ----------
    input : tensor of floats, shape [..., n, n]
    adjoint : bool
        Invert the adjoint matrices instead.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor, shape [..., n, n]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When a matrix is singular or not square.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.linalg.inv([[2.0, 0.0], [0.0, 4.0]]).numpy()
    array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    x = matrix_operand(input, "inv", square=True)
    return require_invertible(_inverse(adjoint_of(x) if adjoint else x), "inv", x)


def solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Solution x of ``matrix @ x = rhs``.

    Parameters
    ----------
    matrix : tensor of floats, shape [..., n, n]
    rhs : tensor, shape [..., n, k]
        Of the dtype of `matrix`.
    adjoint : bool
        Solve with the adjoint matrices instead.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor, shape [..., n, k]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When a matrix is singular, or shapes do not fit.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [[1.0], [1.0]]).numpy()
    array([[0.5 ],
           [0.25]], dtype=float32)
    """
    a, b = _pair(matrix, rhs, "solve")
    return require_invertible(_solve(adjoint_of(a) if adjoint else a, b), "solve", a, b)


def triangular_solve(
    matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """Solution x of ``matrix @ x = rhs`` for a triangular matrix; the other triangle is not read.

    Parameters
    ----------
    matrix : tensor of floats, shape [..., n, n]
    rhs : tensor, shape [..., n, k]
        Of the dtype of `matrix`.
    lower : bool
        Which triangle of `matrix` is meant.
    adjoint : bool
        Solve with the adjoint of that triangle instead.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor, shape [..., n, k]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When the diagonal has a zero, or shapes do not fit.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.linalg.triangular_solve([[2.0, 0.0], [1.0, 4.0]], [[2.0], [5.0]]).numpy()
    array([[1.],
           [1.]], dtype=float32)
    """
    a, b = _pair(matrix, rhs, "triangular_solve")
    made = (
        _triangular_solve(adjoint_of(a), b, lower=not lower) if adjoint else _triangular_solve(a, b, lower=bool(lower))
    )
    return require_invertible(made, "triangular_solve", a, b)


def cholesky(input: Any, name: str | None = None) -> Tensor:
    """Lower triangular L with ``L @ transpose(L) = input``, for each matrix.

    Only the lower triangle of `input` is read; the gradient is symmetric.

    Parameters
    ----------
    input : tensor of floats, shape [..., n, n]
        Symmetric and positive definite. A matrix that is not positive definite gives NaN.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor, shape [..., n, n]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When the matrices are not square.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.linalg.cholesky([[4.0, 2.0], [2.0, 2.0]]).numpy()
    array([[2., 0.],
           [1., 1.]], dtype=float32)
    """
    x = matrix_operand(input, "cholesky", square=True)
    if x._aval.complex:
        from gtape.ops import complex_factors

        return complex_factors.cholesky(x)
    return _cholesky(x)


def cholesky_solve(chol: Any, rhs: Any, name: str | None = None) -> Tensor:
    """Solution x of ``A @ x = rhs`` from the Cholesky factor of A.

    Parameters
    ----------
    chol : tensor of floats, shape [..., n, n]
        What `cholesky` gives.
    rhs : tensor, shape [..., n, k]
        Of the dtype of `chol`.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor, shape [..., n, k]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When the diagonal has a zero, or shapes do not fit.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.linalg.cholesky_solve([[2.0, 0.0], [0.0, 1.0]], [[4.0], [3.0]]).numpy()
    array([[1.],
           [3.]], dtype=float32)
    """
    return triangular_solve(chol, triangular_solve(chol, rhs), adjoint=True)


def det(input: Any, name: str | None = None) -> Tensor:
    """Determinant of each matrix; its derivatives exist at singular matrices too.

    Parameters
    ----------
    input : tensor of floats, shape [..., n, n]
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor, shape [...]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When the matrices are not square.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.linalg.det([[1.0, 2.0], [3.0, 4.0]]).numpy()
    np.float32(-2.0)
    """
    return determinant.det(matrix_operand(input, "det", square=True))


class LogDet(NamedTuple):
    """What `slogdet` returns."""

    sign: Tensor
    log_abs_determinant: Tensor


def slogdet(input: Any, name: str | None = None) -> LogDet:
    """Sign of the determinant and logarithm of its absolute value, for each matrix.

    Parameters
    ----------
    input : tensor of floats, shape [..., n, n]
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    sign : Tensor, shape [...]
        Its gradient is zero.
    log_abs_determinant : Tensor, shape [...]
        -inf for a singular matrix.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When the matrices are not square.

    Examples
    --------
    >>> import gtape as tf
    >>> sign, log = tf.linalg.slogdet([[1.0, 0.0], [0.0, -1.0]])
    >>> sign.numpy(), log.numpy()
    (np.float32(-1.0), np.float32(0.0))
    """
    x = matrix_operand(input, "slogdet", square=True)
    if x._aval.complex:
        from gtape.ops import complex_factors

        return LogDet(*complex_factors.slogdet(x))
    return LogDet(_det_sign(x), _log_abs_det(x))


def logdet(matrix: Any, name: str | None = None) -> Tensor:
    """Logarithm of the determinant of symmetric positive definite matrices, by way of the Cholesky factor.

    Parameters
    ----------
    matrix : tensor of floats, shape [..., n, n]
        NaN for one that is not positive definite; `slogdet` takes any matrix.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor, shape [...]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When the matrices are not square.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.linalg.logdet([[1.0, 0.0], [0.0, 1.0]]).numpy()
    np.float32(0.0)
    """
    from gtape.ops.complex_parts import real
    from gtape.ops.exponential import log
    from gtape.ops.sums import sum_op

    diagonal = real(diag_part_op(cholesky(matrix), k=0))
    return 2.0 * sum_op(log(diagonal), axis=(-1,), keepdims=False)


def cross(a: Any, b: Any, name: str | None = None) -> Tensor:
    """Cross product of vectors in three dimensions.

    Parameters
    ----------
    a, b : tensors of one dtype and shape [..., 3]
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor, shape [..., 3]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When the shapes differ or the last axis does not have size 3.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.linalg.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]).numpy()
    array([0., 0., 1.], dtype=float32)
    """
    a, b = operands(a, b)
    if a._aval.shape != b._aval.shape or a._aval.shape[-1:] != (3,):
        raise errors.InvalidArgumentError(
            f"cross: both arguments must have one shape [..., 3]; they have {a._aval.tensor_shape} and "
            f"{b._aval.tensor_shape}"
        )
    return _cross(a, b)


def kron(a: Any, b: Any, name: str | None = None) -> Tensor:
    """Kronecker product of matrices, as ``numpy.kron``; batch axes broadcast.

    Parameters
    ----------
    a : tensor, shape [..., m, n]
    b : tensor, shape [..., p, q]
        Of the dtype of `a`.
    name : str, optional
        Ignored, as in the other functions.

    Returns
    -------
    Tensor, shape [..., m * p, n * q]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When an argument has fewer than two axes.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.linalg.kron([[1.0, 2.0]], [[1.0], [1.0]]).numpy()
    array([[1., 2.],
           [1., 2.]], dtype=float32)
    """
    a, b = operands(a, b)
    sa, sb = a._aval.shape, b._aval.shape
    if min(len(sa), len(sb)) < 2:
        raise errors.InvalidArgumentError(
            f"kron: matrices are needed; the shapes are {a._aval.tensor_shape} and {b._aval.tensor_shape}"
        )
    (m, n), (p, q) = sa[-2:], sb[-2:]
    product = reshape_op(a, shape=(*sa[:-2], m, 1, n, 1)) * reshape_op(b, shape=(*sb[:-2], 1, p, 1, q))
    return reshape_op(product, shape=(*product._aval.shape[:-4], m * p, n * q))
