"""Eigenvalues and eigenvectors of any square matrix, real or complex.

The primitive works on real and imaginary parts, stacked along an axis before the last two. In each vector the first
element of at least half the size of the largest is 1. The public function scales the vectors to norm 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.declare.conventions import EQUAL_EIGENVALUES, FACTORS
from gtape.declare.domains import ANY_REAL, Domain
from gtape.declare.primitives import implicit, primitive
from gtape.declare.rounding import EXACT, elimination
from gtape.kernels.double import doubled
from gtape.ops.elementwise.part_arithmetic import PARTS, conjugate, parts, product, together, total
from gtape.ops.linalg.spectra import as_column, as_row, diagonal_matrix, sized
from gtape.tensors.axes import shape_of
from gtape.tensors.operands import matrix_operand
from gtape.tensors.tensor import Tensor

__all__ = ["eig", "eigvals"]

Array = Any


# ---------------------------------------------------------------------------------------------- kernels


def eig_kernel(a: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors in parts, in NumPy's order, of matrices in parts."""
    if a.ndim < 3 or a.shape[-3] != 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"real and imaginary parts [..., 2, n, n] are needed, not the shape {a.shape}")
    if not a.shape[-1]:
        return np.zeros((*a.shape[:-2], 0), a.dtype), a
    wide = a.astype(np.float64, copy=False)
    good = np.isfinite(wide).all(axis=(-3, -2, -1), keepdims=True)
    real, imag = np.where(good, wide, 0.0)[..., 0, :, :], np.where(good, wide, 0.0)[..., 1, :, :]
    w, v = np.linalg.eig(real + 1j * imag if imag.any() else real)
    size = np.abs(v)
    row = np.argmax(size >= size.max(axis=-2, keepdims=True) / 2, axis=-2)[..., None, :]
    with np.errstate(all="ignore"):
        v = v / np.take_along_axis(v, row, axis=-2)
    v = np.where(np.arange(a.shape[-1])[:, None] == row, 1.0, v)
    values = np.where(good[..., 0], np.stack([np.real(w), np.imag(w)], axis=-2), np.nan)
    vectors = np.where(good, np.stack([np.real(v), np.imag(v)], axis=-3), np.nan)
    return values.astype(a.dtype), vectors.astype(a.dtype)


def pivots(v: Array) -> Array:
    """The row in which each column of eigenvectors is 1."""
    if not v.shape[-2]:
        return np.zeros((*v.shape[:-3], v.shape[-1]), dtype=np.intp)
    return np.argmax((v[..., 0, :, :] == 1) & (v[..., 1, :, :] == 0), axis=-2)


def _pivot_kernel(v: Array) -> Array:
    n = v.shape[-2]
    return (np.arange(n)[:, None] == pivots(v)[..., None, :]).astype(v.dtype)


def _apart(a: Array) -> bool:
    """Whether all eigenvalues differ. If so, they have derivatives."""
    w, _ = eig_kernel(a.astype(np.float64))
    w = w[..., 0, :] + 1j * w[..., 1, :]
    gaps = np.where(np.eye(w.shape[-1], dtype=bool), np.inf, np.abs(w[..., :, None] - w[..., None, :]))
    scale = np.abs(a).max(axis=(-3, -2, -1), initial=0.0)[..., None, None]
    return bool((gaps > 1e-6 * scale).all())


_eig_pivot = primitive(
    "eig_pivot", _pivot_kernel, (None,), (None,),
    rounding=EXACT,
    samples=((((2, 2, 2),), {}), (((2, 1, 1),), {})),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- rules


def _value_parts(xp: Any, w: Any) -> tuple[Any, Any]:
    shape = shape_of(w)
    flat = (*shape[:-2], shape[-1])
    return tuple([xp.reshape(xp.strided_slice(w, key=key[:2]), shape=flat) for key in PARTS])


def _sized(xp: Any, w: tuple[Any, Any]) -> tuple[tuple[Any, Any], Any]:
    """`sized` for the eigenvalues, both parts together."""
    shape = shape_of(w[0])
    both, unit = sized(xp, xp.concat(*w, axis=len(shape) - 1))
    n, before = shape[-1], ((None, None, 1),) * (len(shape) - 1)
    real, imag = [xp.strided_slice(both, key=(*before, part)) for part in ((0, n, 1), (n, 2 * n, 1))]
    return (real, imag), unit


def _solve(xp: Any, a: Any, b: Any) -> Any:
    """The product a^-1 b, by real matrices of twice the size."""
    (ar, ai), (br, bi) = a, b
    axis = len(shape_of(ar)) - 2
    n = shape_of(ar)[-1]
    whole = xp.concat(xp.concat(ar, -ai, axis=axis + 1), xp.concat(ai, ar, axis=axis + 1), axis=axis)
    x = xp.solve(whole, xp.concat(br, bi, axis=axis))
    top, bottom = ((0, n, 1), (None, None, 1)), ((n, 2 * n, 1), (None, None, 1))
    return xp.strided_slice(x, key=top), xp.strided_slice(x, key=bottom)


def _over_gaps(xp: Any, x: Any, w: Any, sign: int) -> Any:
    """The quotients x_ij / (w_j - w_i), with the conjugate for sign -1. 0 on the diagonal."""
    real, imag = [as_row(xp, p) - as_column(xp, p) for p in w]
    real = real + diagonal_matrix(xp, xp.ones_like(w[0]))
    size = real * real + imag * imag
    xr, xi = [xp.off_diagonal(p) for p in x]
    if sign < 0:
        return xp.safe_quotient(xr * real - xi * imag, size), xp.safe_quotient(xi * real + xr * imag, size)
    return xp.safe_quotient(xr * real + xi * imag, size), xp.safe_quotient(xi * real - xr * imag, size)


def _eig_push(xp: Any, t: Any, y: Any, a: Any) -> Any:
    (t, y), home = doubled(xp, t, y)
    v, w = parts(xp, y[1]), _value_parts(xp, y[0])
    w, unit = _sized(xp, w)
    pivot = xp.eig_pivot(y[1])
    turned = _solve(xp, v, product(xp, parts(xp, t), v))
    moved = product(xp, v, _over_gaps(xp, turned, w, 1))
    cr, ci = [total(xp, pivot * p) for p in moved]
    real, imag = (moved[0] - v[0] * cr + v[1] * ci) / unit, (moved[1] - v[0] * ci - v[1] * cr) / unit
    values = xp.stack(*[xp.diag_part(p, k=0) for p in turned], axis=-2)
    return home((values, together(xp, (real, imag))))


def _eig_pull(xp: Any, g: Any, y: Any, a: Any) -> Any:
    (g, y), home = doubled(xp, g, y)
    gw, gv = _value_parts(xp, g[0]), parts(xp, g[1])
    v, w = parts(xp, y[1]), _value_parts(xp, y[0])
    w, unit = _sized(xp, w)
    pivot = xp.eig_pivot(y[1])
    real, imag = total(xp, v[0] * gv[0] + v[1] * gv[1]), total(xp, v[0] * gv[1] - v[1] * gv[0])
    moved = gv[0] - pivot * real, gv[1] - pivot * imag
    back = conjugate(xp, v)
    turned = _over_gaps(xp, product(xp, back, moved), w, -1)
    turned = product(xp, _solve(xp, back, turned), back)
    stretched = diagonal_matrix(xp, gw[0]), diagonal_matrix(xp, gw[1])
    stretched = product(xp, _solve(xp, back, stretched), back)
    return home(together(xp, (turned[0] / unit + stretched[0], turned[1] / unit + stretched[1])))


_eig = implicit(
    "eig", eig_kernel, vjp=(_eig_pull,), jvp=(_eig_push,),
    reads=(("y",),), domain=Domain(ANY_REAL, where=_apart), outputs=2,
    rounding=elimination(4, 60, columns=(1,), parts=True, wide=True),
    samples=((((2, 1, 1),), {}), (((2, 2, 2),), {}), (((2, 2, 1, 1),), {})),
    conventions=(*FACTORS, EQUAL_EIGENVALUES),
)  # fmt: skip


@diagnosed
def eig(tensor: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of square matrices.

    Parameters
    ----------
    tensor : tensor of real or complex numbers, shape [..., n, n]
        For derivatives the eigenvalues must differ.

    Returns
    -------
    e : complex Tensor, shape [..., n]
        The eigenvalues in LAPACK's order.
    v : complex Tensor, shape [..., n, n]
        The eigenvectors as columns of norm 1. The first element of at least half the size of the largest is positive.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the matrices are not square.

    Examples
    --------
    >>> e, v = tf.linalg.eig([[0.0, -1.0], [1.0, 0.0]])
    >>> e.numpy()
    array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    from gtape.ops.elementwise.complex_parts import complex, imag, real
    from gtape.ops.reduction.norms import reduce_euclidean_norm
    from gtape.ops.shape.creation import zeros_like
    from gtape.ops.shape.join import stack

    x = matrix_operand(tensor, "eig", square=True)
    both = [real(x), imag(x)] if x._layout.complex else [x, zeros_like(x)]
    values, vectors = _eig(stack(both, axis=-3))
    norm = reduce_euclidean_norm(vectors, axis=[-3, -2], keepdims=True)
    vectors = vectors / norm
    e = complex(values[..., 0, :], values[..., 1, :])
    return e, complex(vectors[..., 0, :, :], vectors[..., 1, :, :])


@diagnosed
@documented_like(eig)
def eigvals(tensor: Any, name: str | None = None) -> Tensor:
    """Eigenvalues of square matrices.

    Returns
    -------
    complex Tensor, shape [..., n]
        The eigenvalues in LAPACK's order.

    Examples
    --------
    >>> tf.linalg.eigvals([[0.0, -1.0], [1.0, 0.0]]).numpy()
    array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    return eig(tensor)[0]
