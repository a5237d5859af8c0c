"""Orthogonal factors, pseudo-inverses, least squares, normalised tensors and diagonal tensors."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gtape import errors
from gtape.base.diagnosis import diagnosed
from gtape.base.half_precision import spacing_at_one
from gtape.base.scalars import float_of
from gtape.declare.conventions import EQUAL_EIGENVALUES, FACTORS, NOT_SMOOTH
from gtape.declare.domains import ANY_REAL, Domain
from gtape.declare.primitives import REGISTRY, implicit, primitive
from gtape.declare.rounding import elimination, ulps
from gtape.engine.worlds import TAPE
from gtape.kernels import decompositions as k
from gtape.kernels.double import doubled
from gtape.ops.linalg.diagonal import diag_embed_op, diag_part_op
from gtape.ops.linalg.equations import triangular_solve
from gtape.ops.linalg.matmul import adjoint_of, matmul_op
from gtape.ops.linalg.spectra import as_row
from gtape.ops.linalg.spectral import completed, svd_op
from gtape.ops.shape.shape import reshape_op
from gtape.recording import record
from gtape.recording.record import get_stack
from gtape.tensors.axes import axes_of, shape_of
from gtape.tensors.operands import float_operand, matrix_operand, operands
from gtape.tensors.tensor import Tensor, convert_to_tensor

__all__ = ["lstsq", "normalize", "pinv", "qr", "tensor_diag", "tensor_diag_part"]

Array = Any


# ---------------------------------------------------------------------------------------------- orthogonal factors


def _over(xp: Any, x: Any, r: Any) -> Any:
    """The product x r^-1 for an upper triangle r."""
    return xp.swap_last(xp.triangular_solve(xp.swap_last(r), xp.swap_last(x), lower=True))


def _under(xp: Any, x: Any, r: Any) -> Any:
    """The product x r'^-1 for an upper triangle r."""
    return xp.swap_last(xp.triangular_solve(r, xp.swap_last(x), lower=False))


def _mirrored(xp: Any, x: Any) -> Any:
    half = xp.half_tril(x)
    return half + xp.swap_last(half)


def _is_square(x: Any) -> bool:
    rows, columns = shape_of(x)[-2:]
    return bool(rows == columns)


# The part of q is divided by the size of r last, because the quotient may overflow where the part of r does not.


def _qr_pull(xp: Any, g: Any, y: Any, a: Any) -> Any:
    ((gq, gr), (q, r)), home = doubled(xp, g, y)
    size = xp.magnitude(r, axis=(-2, -1))
    r = r / size
    of_r = xp.matmul(q, _mirrored(xp, xp.matmul(r, xp.swap_last(gr))))
    turned = xp.matmul(xp.swap_last(gq), q)
    if _is_square(q):  # a difference of large numbers would lose what the last columns do not depend on
        of_q = xp.matmul(q, xp.half_tril(xp.swap_last(turned) - turned))
    else:
        of_q = gq - xp.matmul(q, _mirrored(xp, turned))
    return home(_under(xp, of_r, r) + _under(xp, of_q, r) / size)


def _qr_push(xp: Any, t: Any, y: Any, a: Any) -> Any:
    (t, (q, r)), home = doubled(xp, t, y)
    size = xp.magnitude(r, axis=(-2, -1))
    r = r / size
    moved = _over(xp, t, r)
    turned = xp.matmul(xp.swap_last(q), moved)
    half = xp.half_tril(turned)
    upper = turned - half + xp.swap_last(half)
    of_q = xp.matmul(q, half - xp.swap_last(half)) if _is_square(q) else moved - xp.matmul(q, upper)
    return home((of_q / size, xp.matmul(upper, r)))


_qr = implicit(
    "qr", k.qr, vjp=(_qr_pull,), jvp=(_qr_push,),
    domain=Domain(ANY_REAL, where=k.full_rank), reads=(("y",),), outputs=2,
    rounding=elimination(7, 5, columns=(0, 1), wide=True),
    samples=((((1, 1),), {}), (((2, 2),), {}), (((3, 1),), {}), (((3, 2),), {}), (((2, 2, 1),), {})),
    conventions=(*FACTORS, EQUAL_EIGENVALUES, NOT_SMOOTH),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- pseudo-inverse


def _without(xp: Any, x: Any, a: Any, b: Any) -> Any:
    """The product (1 - a b) x."""
    return x - xp.matmul(a, xp.matmul(b, x))


def _in_units(xp: Any, y: Any, a: Any) -> tuple[Any, Any, Any]:
    """A power of two, the pseudo-inverse times the power, and the matrix divided by the power."""
    unit = xp.magnitude(a, axis=(-2, -1))
    return unit, y * unit, a / unit


def _pinv_pull(xp: Any, g: Any, y: Any, a: Any, *, rcond: Any) -> Any:
    (g, y, a), home = doubled(xp, g, y, a)
    unit, y, a = _in_units(xp, y, a)
    back, turned = xp.swap_last(g), xp.swap_last(y)
    rows, columns = shape_of(a)[-2:]
    made = -xp.matmul(turned, xp.matmul(g, turned))
    # y a is the identity at full column rank, and a y at full row rank. What their difference from it multiplies is 0
    # and left out, because products would magnify its roundings.
    if rows > columns:
        made = made + xp.matmul(_without(xp, back, a, y), xp.matmul(y, turned))
    elif rows < columns:
        left = xp.matmul(xp.matmul(turned, y), back)
        made = made + (left - xp.matmul(xp.matmul(left, y), a))
    return home(made / unit / unit)


def _pinv_push(xp: Any, t: Any, y: Any, a: Any, *, rcond: Any) -> Any:
    (t, y, a), home = doubled(xp, t, y, a)
    unit, y, a = _in_units(xp, y, a)
    back, turned = xp.swap_last(t), xp.swap_last(y)
    rows, columns = shape_of(a)[-2:]
    made = -xp.matmul(y, xp.matmul(t, y))
    if rows > columns:
        left = xp.matmul(xp.matmul(y, turned), back)
        made = made + (left - xp.matmul(xp.matmul(left, a), y))
    elif rows < columns:
        made = made + xp.matmul(_without(xp, back, y, a), xp.matmul(turned, y))
    return home(made / unit / unit)


_pinv = primitive(
    "pinv", k.pinv, vjp=(_pinv_pull,), jvp=(_pinv_push,),
    domain=Domain(ANY_REAL, where=k.full_rank), params=("rcond",),
    rounding=elimination(4, 24, whole=True, independent=True, wide=True),
    samples=(
        (((1, 1),), {"rcond": 1e-14}),
        (((2, 1),), {"rcond": 1e-14}),
        (((1, 2),), {"rcond": 1e-14}),
        (((2, 2),), {"rcond": 1e-14}),
        (((3, 2),), {"rcond": 1e-14}),
        (((2, 2, 1),), {"rcond": 1e-14}),
    ),
    conventions=FACTORS,
)  # fmt: skip


def _leaves_out(x: Tensor, y: Tensor) -> bool:
    """Whether some singular values of `x` count as 0 in the pseudo-inverse `y`. In a compiled function a guard."""
    with record.off():
        ranks = TAPE.sum(y * TAPE.swap_last(x), axis=(-2, -1), keepdims=False)
        if ranks._layout.shape:
            ranks = TAPE.min(ranks, axis=tuple(range(len(ranks._layout.shape))), keepdims=False)
        return bool(ranks < min(x._layout.shape[-2:]) - 0.5)


def _pinv_of(x: Tensor, rcond: float) -> Tensor:
    """The pseudo-inverse of real matrices.

    The rule of `pinv` is right if no singular value counts as 0. Otherwise the result is the sum of ``v_i u_i' / s_i``
    over the other values, with the derivatives of this sum.
    """
    y = _pinv(x, rcond=rcond)
    if x._record is None or not get_stack().sessions or not all(x._layout.shape) or not _leaves_out(x, y):
        return y
    s, u, v = svd_op(x, vectors=True)
    kept = TAPE.greater(s, rcond * s[..., :1])
    reciprocal = TAPE.where(kept, 1 / TAPE.where(kept, s, TAPE.ones_like(s)), TAPE.zeros_like(s))
    made = matmul_op(v * as_row(TAPE, reciprocal), TAPE.swap_last(u))
    # The value is that of `y`. A constant goes in, because the rule of `pinv` is wrong here, and a check compares it.
    result: Tensor = _pinv(TAPE.stop_gradient(x), rcond=rcond) + (made - TAPE.stop_gradient(made))
    return result


class Qr(NamedTuple):
    """The result of `qr`."""

    q: Tensor
    r: Tensor


@diagnosed
def qr(input: Any, full_matrices: bool = False, name: str | None = None) -> Qr:
    """Orthonormal columns and an upper triangle: ``input = q @ r``.

    Parameters
    ----------
    input : tensor of floats or complex numbers, shape [..., m, n]
        For derivatives the first min(m, n) columns must be linearly independent.
    full_matrices : bool
        Whether to complete `q` to a square matrix, and `r` by zeros. Two or more new columns (one for complex matrices)
        are an arbitrary basis of their span. Only functions that are the same in every basis, such as the projector,
        have a gradient.

    Returns
    -------
    q : Tensor, shape [..., m, min(m, n)]
        The signs are LAPACK's. The result is a named tuple.
    r : Tensor, shape [..., min(m, n), n]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `input` has fewer than two axes.

    Examples
    --------
    >>> q, r = tf.linalg.qr([[3.0, 1.0], [4.0, 2.0]])
    >>> tf.matmul(q, r).numpy().round(4)
    array([[3., 1.],
           [4., 2.]], dtype=float32)
    """
    from gtape.ops.shape.join import concat
    from gtape.ops.shape.tiling import pad

    x = matrix_operand(input, "qr")
    m, n = x._layout.shape[-2:]
    if m >= n:
        q, r = _orthogonal(x)
    else:  # the first columns determine q
        q, r = _orthogonal(x[..., :m])
        r = concat([r, matmul_op(adjoint_of(q), x[..., m:])], axis=-1)
    if full_matrices and m > n:
        q = completed(q)
        r = pad(r, [[0, 0]] * (len(x._layout.shape) - 2) + [[0, m - n], [0, 0]])
    return Qr(q, r)


def _orthogonal(x: Tensor) -> tuple[Tensor, Tensor]:
    if x._layout.complex:
        from gtape.ops.linalg import complex_factors

        return complex_factors.qr(x)
    q, r = _qr(x)
    return q, r


@diagnosed
def pinv(a: Any, rcond: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """The pseudo-inverse of Moore and Penrose.

    Parameters
    ----------
    a : tensor of floats or complex numbers, shape [..., m, n]
        At lower rank, derivatives leave out the singular values that count as 0, as the result does.
    rcond : float, optional
        Singular values of at most `rcond` times the largest count as 0. By default ``10 * max(m, n) * eps``.
    validate_args : bool
        Ignored, because shapes are always checked.

    Returns
    -------
    Tensor, shape [..., n, m]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `a` has fewer than two axes.
    ValueError
        If `rcond` is not one number.

    Examples
    --------
    >>> tf.linalg.pinv([[2.0], [0.0]]).numpy()
    array([[0.5, 0. ]], dtype=float32)
    """
    x = matrix_operand(a, "pinv")
    if rcond is None:
        rcond = 10.0 * max(x._layout.shape[-2:]) * spacing_at_one(x._layout.dtype)
    limit = np.asarray(getattr(rcond, "_value", rcond))
    if limit.size != 1:
        raise ValueError(f"pinv: rcond must be one number, not an array of shape {limit.shape}")
    rcond = float(limit.reshape(()))
    if x._layout.complex:
        from gtape.ops.linalg.complex_factors import gathered, spread

        return gathered(_pinv_of(spread(x), rcond))
    return _pinv_of(x, rcond)


def _with_ridge_kernel(a: Any, *, weight: float) -> Any:
    n = a.shape[-1]
    root = np.broadcast_to(math.sqrt(weight) * np.eye(n), (*a.shape[:-2], n, n))
    return np.concatenate([a, root.astype(a.dtype)], axis=-2)


def _above_ridge(xp: Any, g: Any, y: Any, a: Any, *, weight: float) -> Any:
    return xp.strided_slice(g, key=((0, tuple(a.shape)[-2], 1), (None, None, 1)))


def _with_zeros(xp: Any, t: Any, y: Any, a: Any, *, weight: float) -> Any:
    shape = shape_of(t)
    return xp.pad(t, paddings=((0, 0),) * (len(shape) - 2) + ((0, shape[-1]), (0, 0)), value=0)


# A primitive instead of a constant, because exact derivatives need all digits of the root.
_with_ridge = primitive(
    "with_ridge", _with_ridge_kernel, (_above_ridge,), (_with_zeros,),
    reads=((),), params=("weight",), batched=True, complex=True, rounding=ulps(1.0),
    samples=(
        (((2, 2),), {"weight": 2.0}),
        (((1, 3),), {"weight": 0.3}),
        (((2, 3, 1),), {"weight": 2.0}),
    ),
)  # fmt: skip


@diagnosed
def lstsq(matrix: Any, rhs: Any, l2_regularizer: float = 0.0, fast: bool = True, name: str | None = None) -> Tensor:
    """The x of least norm that minimises ``|matrix @ x - rhs|^2 + l2_regularizer * |x|^2``.

    Parameters
    ----------
    matrix : tensor of floats or complex numbers, shape [..., m, n]
        The rank must be full, unless `l2_regularizer` is positive or `fast` is False.
    rhs : tensor, shape [..., m, k]
        Dtype of `matrix`.
    l2_regularizer : float
        0 or more. Ignored if `fast` is False.
    fast : bool
        True uses an orthogonal factor. False uses the pseudo-inverse, which allows any rank.

    Returns
    -------
    Tensor, shape [..., n, k]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `fast` is True and the rank is not full, or shapes do not fit.

    Examples
    --------
    >>> tf.linalg.lstsq([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [[1.0], [2.0], [3.0]]).numpy().round(4)
    array([[1.],
           [1.]], dtype=float32)
    """
    from gtape.ops.shape.join import concat

    a, b = operands(matrix, rhs)
    a, b = matrix_operand(a, "lstsq"), float_operand(b, "lstsq")
    (m, n), sb = a._layout.shape[-2:], b._layout.shape
    if len(sb) < 2 or sb[-2] != m:
        raise errors.InvalidArgumentError(
            f"lstsq: the right-hand side must have shape [..., {m}, k], not {b._layout.tensor_shape}"
        )
    weight = float_of(l2_regularizer, "lstsq", "l2_regularizer")
    if weight < 0:
        raise errors.InvalidArgumentError(f"lstsq: l2_regularizer must not be negative, it is {weight}")
    if not fast:
        return matmul_op(pinv(a, rcond=max(m, n) * spacing_at_one(a._layout.dtype)), b)
    if weight > 0:  # the regulariser acts like additional rows of the matrix
        a = _with_ridge(a, weight=weight)
        b = concat([b, convert_to_tensor(np.zeros((*sb[:-2], n, sb[-1]), a._layout.dtype))], axis=-2)
    try:
        if m >= n or weight > 0:
            q, r = _orthogonal(a)
            return triangular_solve(r, matmul_op(adjoint_of(q), b), lower=False)
        q, r = _orthogonal(adjoint_of(a))
        return matmul_op(q, triangular_solve(r, b, lower=False, adjoint=True))
    except errors.InvalidArgumentError as e:
        if "not invertible" not in str(e):
            raise
        raise errors.InvalidArgumentError(
            "lstsq: the matrix has not full rank; use fast=False, or a positive l2_regularizer"
        ) from e


@diagnosed
def normalize(tensor: Any, ord: Any = "euclidean", axis: Any = None, name: str | None = None) -> tuple[Tensor, Tensor]:
    """A tensor divided by its norm, and the norm.

    Parameters
    ----------
    tensor : floating-point tensor, any shape
    ord, axis, name
        As for `norm`.

    Returns
    -------
    normalized : Tensor, of the shape of `tensor`
    norm : Tensor
        The reduced axes have size 1.

    Raises
    ------
    ValueError
        As for `norm`.

    Examples
    --------
    >>> unit, norm = tf.linalg.normalize([3.0, 4.0])
    >>> unit.numpy(), norm.numpy()
    (array([0.6, 0.8], dtype=float32), array([5.], dtype=float32))
    """
    from gtape.ops.linalg.norms import norm
    from gtape.ops.shape.creation import cast

    x = convert_to_tensor(tensor)
    size = norm(x, ord=ord, axis=axis, keepdims=True)
    if x._layout.complex:  # because TensorFlow's norm of complex numbers is complex
        size = cast(size, x.dtype)
    elif (ord in ("euclidean", "fro") or (ord == 2 and not isinstance(axis, (list, tuple)))) and np.all(size._value):
        # This primitive keeps the digits of slopes if one element is nearly the whole vector.
        return REGISTRY["unit_vector"](x, axis=axes_of(axis, x.ndim)), size
    return x / size, size


@diagnosed
def tensor_diag(diagonal: Any, name: str | None = None) -> Tensor:
    """A tensor with given elements where the first half of the indices equals the second half, and 0 elsewhere.

    Parameters
    ----------
    diagonal : tensor, shape [d1, ..., dk]

    Returns
    -------
    Tensor, shape [d1, ..., dk, d1, ..., dk]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `diagonal` is a scalar.

    Examples
    --------
    >>> tf.linalg.tensor_diag([1.0, 2.0]).numpy()
    array([[1., 0.],
           [0., 2.]], dtype=float32)
    """
    x = convert_to_tensor(diagonal)
    shape = x._layout.shape
    if not shape:
        raise errors.InvalidArgumentError("tensor_diag: a tensor with at least one axis is needed, not a scalar")
    n = int(np.prod(shape, dtype=np.int64))
    return reshape_op(diag_embed_op(reshape_op(x, shape=(n,)), k=0, shape=(n, n)), shape=shape + shape)


@diagnosed
def tensor_diag_part(input: Any, name: str | None = None) -> Tensor:
    """The elements at indices whose first half equals the second half.

    Parameters
    ----------
    input : tensor, shape [d1, ..., dk, d1, ..., dk]

    Returns
    -------
    Tensor, shape [d1, ..., dk]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the two halves of the shape differ.

    Examples
    --------
    >>> tf.linalg.tensor_diag_part([[1.0, 0.0], [0.0, 2.0]]).numpy()
    array([1., 2.], dtype=float32)
    """
    x = convert_to_tensor(input)
    shape = x._layout.shape
    half = len(shape) // 2
    if not shape or len(shape) % 2 or shape[:half] != shape[half:]:
        raise errors.InvalidArgumentError(
            f"tensor_diag_part: the shape must be [d1, ..., dk, d1, ..., dk], not {x._layout.tensor_shape}"
        )
    n = int(np.prod(shape[:half], dtype=np.int64))
    return reshape_op(diag_part_op(reshape_op(x, shape=(n, n)), k=0), shape=shape[:half])
