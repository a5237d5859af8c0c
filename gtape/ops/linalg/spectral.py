"""Eigenvalues and singular values of symmetric and of general matrices, with their vectors.

The rules divide by differences of eigenvalues. At equal eigenvalues the vectors have no derivative. Symmetric functions
of the values and functions of the span of the vectors have one, see `gtape.ops.linalg.clusters`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import errors
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.declare.conventions import EQUAL_EIGENVALUES, FACTORS, NOT_SMOOTH, RATIOS, OfArrays
from gtape.declare.domains import ANY_REAL, Domain
from gtape.declare.primitives import implicit, linear, primitive
from gtape.declare.rounding import EXACT, elimination, stable
from gtape.engine.custom import custom_gradient
from gtape.engine.nesting import Nesting
from gtape.kernels import decompositions as k
from gtape.kernels.double import doubled
from gtape.ops.linalg import complex_factors
from gtape.ops.linalg.clusters import (
    bits_of,
    motion,
    over_columns,
    over_gaps,
    over_known_gaps,
    over_known_sums,
    over_sums,
    pairs,
    slopes_in_clusters,
    spectrum,
    turned_towards,
    undetermined,
)
from gtape.ops.linalg.spectra import diagonal_matrix, outside, sized
from gtape.ops.linalg.tiny_values import Apart, tiny_apart
from gtape.ops.shape.join import concat
from gtape.tensors.axes import shape_of
from gtape.tensors.operands import matrix_operand
from gtape.tensors.tensor import Tensor, wrap

__all__ = ["eigh", "eigvalsh", "svd"]

Array = Any


def _off_diagonal_kernel(x: Array) -> Array:
    return np.where(np.eye(x.shape[-1], dtype=bool), x.dtype.type(0), x)


_off_diagonal = linear(
    "off_diagonal", _off_diagonal_kernel, lambda xp, g, x: xp.off_diagonal(g),
    batched=True, selects=True, rounding=EXACT,
    samples=((((1, 1),), {}), (((3, 3),), {}), (((2, 2, 2),), {})),
)  # fmt: skip


def _safe_quotient_kernel(x: Array, d: Array) -> Array:
    return np.divide(x, d, out=np.zeros_like(x), where=x != 0)


_safe_quotient = primitive(
    "safe_quotient", _safe_quotient_kernel,
    vjp=(
        lambda xp, g, y, x, d: xp.safe_quotient(g, d),
        lambda xp, g, y, x, d: -xp.safe_quotient(g * y, d),
    ),
    jvp=(
        lambda xp, t, y, x, d: xp.safe_quotient(t, d),
        lambda xp, t, y, x, d: -xp.safe_quotient(t * y, d),
    ),
    domain=Domain(ANY_REAL, ANY_REAL, where=lambda x, d: bool((d != 0).all())), reads=((1,), (1, "y")),
    rounding=stable(0.51),
    samples=((((2,), (2,)), {}), (((2, 2), (2, 2)), {})),
    conventions=(
        RATIOS,
        OfArrays("zero", "value", "a zero of the other sign", "zero is divided by nothing, and is +0"),
    ),
)  # fmt: skip


def _swirl(xp: Any, v: Any, g: Any) -> Any:
    """The derivative by a rotation of the columns of `v` into each other; exactly 0 for an invariant function."""
    turned = xp.off_diagonal(xp.matmul(xp.swap_last(v), g))
    return turned - xp.swap_last(turned)


# ---------------------------------------------------------------------------------------------- eigenvalues


def _both_triangles(xp: Any, a: Any) -> Any:
    """The symmetric matrix whose lower triangle is read."""
    half = xp.half_tril(a)
    return half + xp.swap_last(half)


def _eigh_pull(xp: Any, g: Any, y: Any, a: Any, *, vectors: bool = True) -> Any:
    bits = bits_of(y)
    found = slopes_in_clusters(g[0], y[0], bits)
    ((gw, gv), (w, v), a), home = doubled(xp, g, y, a)
    w, unit = sized(xp, w)
    back = xp.swap_last(v)
    m = spectrum(xp, _both_triangles(xp, a) / unit, v, v, w, bits, wide=True)
    turned = xp.matmul(xp.matmul(v, over_gaps(xp, _swirl(xp, v, gv), pairs(xp, gv), m, bits, wide=True)), back)
    gw, moved = motion(xp, found, gw, _both_triangles(xp, a), v, v, w, bits)
    stretched = xp.matmul(xp.matmul(v, 2 * diagonal_matrix(xp, gw)), back)
    if moved is not None:
        stretched = stretched + 2 * moved
    # Only the lower triangle is read, so an element there stands for two.
    return home(xp.half_tril(turned / unit + stretched))


def _eigh_push(xp: Any, t: Any, y: Any, a: Any, *, vectors: bool = True) -> Any:
    bits = bits_of(y)
    (t, (w, v), a), home = doubled(xp, t, y, a)
    w, unit = sized(xp, w)
    turned = xp.matmul(xp.swap_last(v), xp.matmul(_both_triangles(xp, t), v))
    m = spectrum(xp, _both_triangles(xp, a) / unit, v, v, w, bits, wide=False)
    moved = xp.matmul(v, over_known_gaps(xp, xp.off_diagonal(turned), m, bits))
    return home((xp.diag_part(turned, k=0), moved / unit))


def _eigh_along(xp: Any, y: Any, t: Any, nesting: Nesting, *, vectors: bool = True) -> Any:
    w, v = y
    values_of = None if vectors else nesting
    return w, *turned_towards(xp, {"both": v}, lambda: _both_triangles(xp, t), v, v, w, bits_of(y), values_of)


_eigh = implicit(
    "eigh", lambda a, *, vectors=True: k.eigh(a), vjp=(_eigh_pull,), jvp=(_eigh_push,), along=_eigh_along,
    domain=Domain(ANY_REAL, where=k.eigenvalues_differ), reads=((0, "y"),), outputs=2, params=("vectors",),
    rounding=elimination(4, 8, columns=(1,), wide=True, undetermined=undetermined),
    samples=(
        (((1, 1),), {"vectors": True}),
        (((2, 2),), {"vectors": False}),
        (((2, 2, 2),), {"vectors": True}),
    ),
    conventions=(*FACTORS, EQUAL_EIGENVALUES, NOT_SMOOTH),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- singular values


def _pulled_beyond(xp: Any, g: Any, u: Any, spread: Any, bits: int, apart: Apart | None) -> Any:
    """The part of a cotangent of `u` outside its span, each column divided by its singular value.

    The columns of tiny values may hold roundings of the other columns.
    """
    size = xp.column_size(g)
    if apart is not None:
        size, g = xp.magnitude(size, axis=(-2, -1)) * xp.ones_like(size), g * apart.tiny
    rest = outside(xp, g, u)
    return over_columns(xp, rest, rest, size, spread, bits)


def _pushed_beyond(xp: Any, x: Any, u: Any, spread: Any, bits: int) -> Any:
    """The part of `x` outside the span of `u`, each column divided by its singular value; 0 for a value of 0."""
    rest = outside(xp, x, u)
    return over_columns(xp, rest, xp.zeros_like(rest), xp.ones_like(rest), spread, bits)


def _svd_pull(xp: Any, g: Any, y: Any, a: Any, *, vectors: bool = True) -> Any:
    bits = bits_of(y)
    m, n = shape_of(y[1])[-2], shape_of(y[2])[-2]
    found = slopes_in_clusters(g[0], y[0], bits, shape=(m, n))
    ((gs, gu, gv), (s, u, v), a), home = doubled(xp, g, y, a)
    s, unit = sized(xp, s)
    spread = spectrum(xp, a / unit, u, v, s, bits, wide=True)
    left, right = _swirl(xp, u, gu), _swirl(xp, v, gv)
    apart = tiny_apart(xp, a / unit, s, u, v)
    if apart is not None:
        left, right = left * apart.together, right * apart.together
    sizes = pairs(xp, gu, gv)
    even = over_gaps(xp, left + right, sizes, spread, bits, wide=True)
    odd = over_sums(xp, left - right, sizes, spread, bits)
    back = xp.swap_last(v)
    made = xp.matmul(xp.matmul(u, (even + odd) / 2), back)
    if m > n:
        made = made + xp.matmul(_pulled_beyond(xp, gu, u, spread, bits, apart), back)
    if n > m:
        made = made + xp.matmul(u, xp.swap_last(_pulled_beyond(xp, gv, v, spread, bits, apart)))
    if apart is not None:
        made = made + apart.pull(gu, gv)
    gs, moved = motion(xp, found, gs, a, u, v, s, bits)
    made = made / unit + xp.matmul(xp.matmul(u, diagonal_matrix(xp, gs)), back)
    return home(made if moved is None else made + moved)


def _svd_push(xp: Any, t: Any, y: Any, a: Any, *, vectors: bool = True) -> Any:
    bits = bits_of(y)
    (t, (s, u, v), a), home = doubled(xp, t, y, a)
    s, unit = sized(xp, s)
    spread = spectrum(xp, a / unit, u, v, s, bits, wide=False)
    turned = xp.matmul(xp.swap_last(u), xp.matmul(t, v))
    back = xp.swap_last(turned)
    above, below = xp.off_diagonal(turned + back) / 2, xp.off_diagonal(turned - back) / 2
    apart = tiny_apart(xp, a / unit, s, u, v)
    of_u, of_v = v, u
    if apart is not None:
        above, below = above * apart.together, below * apart.together
        of_u, of_v = apart.tiny_v, apart.tiny_u
    even, odd = over_known_gaps(xp, above, spread, bits), over_known_sums(xp, below, spread, bits)
    du, dv = xp.matmul(u, even + odd), xp.matmul(v, even - odd)
    m, n = shape_of(u)[-2], shape_of(v)[-2]
    if m > n:
        du = du + _pushed_beyond(xp, xp.matmul(t, of_u), u, spread, bits)
    if n > m:
        dv = dv + _pushed_beyond(xp, xp.matmul(xp.swap_last(t), of_v), v, spread, bits)
    if apart is not None:
        moved_u, moved_v = apart.push(t)
        du, dv = du + moved_u, dv + moved_v
    return home((xp.diag_part(turned, k=0), du / unit, dv / unit))


def _svd_along(xp: Any, y: Any, t: Any, nesting: Nesting, *, vectors: bool = True) -> Any:
    s, u, v = y
    values_of = None if vectors else nesting
    return s, *turned_towards(xp, {"left": u, "right": v}, lambda: t, u, v, s, bits_of(y), values_of)


svd_op = implicit(
    "svd", lambda a, *, vectors=True: k.svd(a), vjp=(_svd_pull,), jvp=(_svd_push,), along=_svd_along,
    domain=Domain(ANY_REAL, where=k.singular_values_differ), reads=((0, "y"),), outputs=3, params=("vectors",),
    rounding=elimination(6, 54, columns=(1, 2), wide=True, undetermined=undetermined),
    samples=(
        (((1, 1),), {"vectors": True}),
        (((2, 2),), {"vectors": True}),
        (((2, 1),), {"vectors": False}),
        (((1, 3),), {"vectors": True}),
        (((2, 2, 2),), {"vectors": True}),
    ),
    conventions=(*FACTORS, EQUAL_EIGENVALUES, NOT_SMOOTH),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- complements


def _dual(xp: Any, u: Any) -> tuple[Any, Any]:
    """The matrix u (u' u)^-1 (u itself for orthonormal columns) times a power of two, and the power."""
    unit = xp.magnitude(u, axis=(-2, -1))
    u = u / unit
    back = xp.swap_last(u)
    return xp.swap_last(xp.solve(xp.matmul(back, u), back)), unit


def _complement_pull(xp: Any, g: Any, y: Any, u: Any) -> Any:
    (g, y, u), home = doubled(xp, g, y, u)
    dual, unit = _dual(xp, u)
    return home(-xp.matmul(y, xp.matmul(xp.swap_last(g), dual)) / unit)


def _complement_push(xp: Any, t: Any, y: Any, u: Any) -> Any:
    (t, y, u), home = doubled(xp, t, y, u)
    dual, unit = _dual(xp, u)
    return home(-xp.matmul(dual, xp.matmul(xp.swap_last(t), y)) / unit)


_complement = implicit(
    "complement", k.complement, vjp=(_complement_pull,), jvp=(_complement_push,),
    domain=Domain(ANY_REAL, where=k.full_rank), rounding=elimination(4, 4, whole=True, wide=True),
    samples=((((2, 1),), {}), (((2, 2, 1),), {})),
    conventions=(*FACTORS, EQUAL_EIGENVALUES),
)  # fmt: skip


@diagnosed
def eigh(tensor: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of symmetric matrices, from their lower triangles.

    Parameters
    ----------
    tensor : tensor of floats or complex numbers, shape [..., n, n]
        The gradient is a lower triangle, too.

    Returns
    -------
    e : Tensor, shape [..., n]
        The eigenvalues in ascending order. Complex numbers for complex matrices, as in TensorFlow.
    v : Tensor, shape [..., n, n]
        The eigenvectors as columns, with LAPACK's signs. In a complex vector the first element of at least half the
        size of the largest is positive. Eigenvalues may be equal, or differ by no more than rounding. Their vectors
        have no derivative, and the rules keep these vectors at rest in their span. Functions that are the same in every
        basis of the eigenspace, such as its projector, have derivatives, for real matrices of every order. Symmetric
        functions of the eigenvalues have first derivatives and, for real matrices, second ones. For these, vectors of
        equal eigenvalues may be another basis of their span inside a ForwardAccumulator. But three kinds of derivatives
        are wrong at equal eigenvalues: those of mixtures of vectors and functions of eigenvalues, such as a root of the
        matrix; third derivatives of functions of the eigenvalues; and all second derivatives for complex matrices. Use
        `logdet` or `trace` instead. If eigenvalues differ by a small part d of the largest, above 1e-13, the rounding r
        of the dtype is magnified: to r / d in second derivatives of symmetric functions of eigenvalues, except in
        reverse over reverse mode and, for `eigvalsh`, forward over reverse mode; and to r / d^2 in second derivatives
        of functions of the span of the vectors, except in reverse over reverse and forward over reverse mode for d
        below 1.5e-8.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the matrices are not square.

    Examples
    --------
    >>> e, v = tf.linalg.eigh([[2.0, 0.0], [0.0, 1.0]])
    >>> e.numpy()
    array([1., 2.], dtype=float32)
    """
    x = matrix_operand(tensor, "eigh", square=True)
    if x._layout.complex:
        return complex_factors.eigh(x)
    values, vectors = _eigh(x, vectors=True)
    return values, vectors


@diagnosed
@documented_like(eigh)
def eigvalsh(tensor: Any, name: str | None = None) -> Tensor:
    """Eigenvalues of symmetric matrices, from their lower triangles.

    Returns
    -------
    Tensor, shape [..., n]
        The eigenvalues in ascending order. Symmetric functions of equal eigenvalues, such as their sum, are
        differentiable. Other functions have the slopes of one side in forward mode, and only if the eigenvalues are
        equal to the last bit: otherwise forward and reverse mode return the same derivative, which is linear in the
        tangent, and forward over reverse mode returns the second one, even if eigenvalues differ by no more than
        rounding. But tangents that an outer tape or accumulator differentiates again are right for symmetric functions
        alone if eigenvalues differ by a part of the largest below 1e-13. This holds for `eigh` in all nestings of
        forward mode, because the vectors of such eigenvalues turn.

    Examples
    --------
    >>> tf.linalg.eigvalsh([[2.0, 0.0], [1.0, 2.0]]).numpy()
    array([1., 3.], dtype=float32)
    """
    x = matrix_operand(tensor, "eigvalsh", square=True)
    values: Tensor = complex_factors.eigh(x)[0] if x._layout.complex else _eigh(x, vectors=False)[0]
    return values


@diagnosed
def svd(tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """Singular values and vectors: ``tensor = u @ diag(s) @ adjoint(v)``.

    Parameters
    ----------
    tensor : tensor of floats or complex numbers, shape [..., m, n]
    full_matrices : bool
        Whether to complete `u` and `v` to square matrices.
    compute_uv : bool
        Whether to return the vectors.

    Returns
    -------
    s : Tensor, shape [..., min(m, n)]
        The singular values in descending order. The only result if `compute_uv` is False. Real matrices with singular
        values 0 have first and second derivatives of even functions, such as the sum of the squares.
    u : Tensor, shape [..., m, min(m, n)]
        The left singular vectors as columns, with LAPACK's signs. For complex matrices, `v` has the phases of `eigh`.
    v : Tensor, shape [..., n, min(m, n)]
        The right singular vectors as columns, not transposed.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `tensor` has fewer than two axes.

    Examples
    --------
    >>> s, u, v = tf.linalg.svd([[0.0, 2.0], [1.0, 0.0]])
    >>> s.numpy()
    array([2., 1.], dtype=float32)
    >>> tf.matmul(u * s, v, transpose_b=True).numpy()
    array([[0., 2.],
           [1., 0.]], dtype=float32)
    """
    x = matrix_operand(tensor, "svd")
    if x._layout.complex:
        s, u, v = complex_factors.svd(x)
    else:
        s, u, v = svd_op(x, vectors=bool(compute_uv))
    if not compute_uv:
        return s
    return (s, completed(u), completed(v)) if full_matrices else (s, u, v)


def completed(u: Tensor) -> Tensor:
    """Orthonormal columns, followed by a basis of their orthogonal complement."""
    m, n = u._layout.shape[-2:]
    if m == n:
        return u
    if m == n + 1 and not u._layout.complex:
        return concat([u, _complement(u)], axis=-1)
    any_basis = custom_gradient(declared="of columns that are determined up to their basis")(_any_basis_of_complement)
    return concat([u, any_basis(u)], axis=-1)


def _any_basis_of_complement(u: Tensor) -> tuple[Tensor, Any]:
    """Columns that complete `u`. Only a gradient that is the same for every choice of the columns flows back."""
    value = np.asarray(u._value)
    columns = k.complement(value)

    def pull(upstream: Any) -> Tensor:
        g = np.asarray(upstream._value)
        turned = np.conj(np.swapaxes(columns, -1, -2)) @ g
        back = np.conj(np.swapaxes(g, -1, -2))
        swirl = np.abs(turned - np.conj(np.swapaxes(turned, -1, -2))).max(initial=0.0)
        if swirl > 64 * value.shape[-2] * np.finfo(g.dtype).eps * np.abs(g).max(initial=0.0):
            m, n = value.shape[-2:]
            raise errors.UnimplementedError(
                f"full_matrices: the {m - n} columns that complete {n} orthonormal ones of length {m} are not "
                "determined by them, so they have no derivative: use full_matrices=False, or stop_gradient on those "
                "columns, or a function that is the same for every choice of them"
            )
        return wrap(-(columns @ (back @ value)))

    return wrap(columns), pull
