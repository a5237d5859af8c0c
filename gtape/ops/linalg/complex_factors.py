"""Factorisations of complex matrices, computed from real and imaginary parts.

In the ops of Hermitian eigenvalues and of singular values the pivot of each vector is 1. The pivot is the first element
of at least half the size of the largest. With this scale the vectors are functions of the matrix. The public functions
scale the vectors to norm 1. The other factorisations are the real ops at the "spread" matrix: a real matrix of twice
the size, in which the block [a -b; b a] stands for a + ib. Triangles stay triangles, because the diagonals of the
factors are real.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.declare.conventions import EQUAL_EIGENVALUES, FACTORS, NOT_SMOOTH
from gtape.declare.domains import ANY_REAL, Domain
from gtape.declare.primitives import REGISTRY, implicit
from gtape.declare.rounding import elimination
from gtape.kernels.double import doubled
from gtape.ops.elementwise.part_arithmetic import (
    conjugate,
    difference,
    over,
    parts,
    product,
    pulled,
    scaled,
    together,
    total,
)
from gtape.ops.linalg.clusters import bits_of, over_gaps, over_known_gaps, pairs, undetermined
from gtape.ops.linalg.matmul import adjoint_of
from gtape.ops.linalg.spectra import as_column, as_row, diagonal_matrix
from gtape.ops.shape.shape import reshape_op
from gtape.tensors.axes import shape_of
from gtape.tensors.tensor import Tensor, constant

__all__: list[str] = []

Array = Any


# ---------------------------------------------------------------------------------------------- kernels


def _complex_of(a: Array) -> tuple[Array, Array]:
    """The matrices in double precision, with zeros for matrices that are not finite, and a mask of the finite ones."""
    if a.ndim < 3 or a.shape[-3] != 2:
        raise ValueError(f"real and imaginary parts [..., 2, m, n] are needed, not the shape {a.shape}")
    wide = a.astype(np.float64, copy=False)
    good = np.isfinite(wide).all(axis=(-3, -2, -1), keepdims=True)
    wide = np.where(good, wide, 0.0)
    return wide[..., 0, :, :] + 1j * wide[..., 1, :, :], good


def _parts_of(z: Array) -> Array:
    return np.stack([z.real, z.imag], axis=-3)


def _pivoted(v: Array, *others: Array) -> tuple[Array, ...]:
    """Columns divided by their pivot, which the module describes; others divided by the same numbers."""
    if not v.size:
        return (v, *others)
    size = np.abs(v)
    row = np.argmax(size >= size.max(axis=-2, keepdims=True) / 2, axis=-2)[..., None, :]
    by = np.take_along_axis(v, row, axis=-2)
    with np.errstate(all="ignore"):
        return (np.where(np.arange(v.shape[-2])[:, None] == row, 1.0, v / by), *[o / by for o in others])


def hermitian_kernel(a: Array) -> tuple[Array, Array]:
    z, good = _complex_of(a)
    if z.shape[-1] != z.shape[-2]:
        raise ValueError(f"square matrices are needed (parts [..., 2, n, n]), not the shape {a.shape}")
    z = (z + np.conj(np.swapaxes(z, -1, -2))) / 2
    w, v = np.linalg.eigh(z)
    (v,) = _pivoted(v)
    w, v = np.where(good[..., 0, 0], w, np.nan), np.where(good, _parts_of(v), np.nan)
    return w.astype(a.dtype), v.astype(a.dtype)


def singular_kernel(a: Array) -> tuple[Array, Array, Array]:
    z, good = _complex_of(a)
    u, s, vh = np.linalg.svd(z, full_matrices=False)
    v, u = _pivoted(np.conj(np.swapaxes(vh, -1, -2)), u)
    s = np.where(good[..., 0, 0], s, np.nan)
    u, v = [np.where(good, _parts_of(p), np.nan) for p in (u, v)]
    return s.astype(a.dtype), u.astype(a.dtype), v.astype(a.dtype)


_APART = 1e-7


def _eigenvalues_differ(a: Array) -> bool:
    w = hermitian_kernel(a.astype(np.float64))[0]
    hermitian = np.array_equal(a, np.swapaxes(a, -1, -2) * np.array([1, -1])[:, None, None])
    return hermitian and bool((np.diff(w, axis=-1) > _APART * np.abs(w).max(axis=-1, keepdims=True, initial=0.0)).all())


def _hermitian_part(a: Array) -> tuple[Array]:
    """The nearest Hermitian matrix."""
    return ((a + np.swapaxes(a, -1, -2) * np.array([1, -1], a.dtype)[:, None, None]) / 2,)


def _singular_values_differ(a: Array) -> bool:
    s = singular_kernel(a.astype(np.float64))[0]
    least = _APART * s.max(axis=-1, keepdims=True, initial=0.0)
    return bool((-np.diff(s, axis=-1) > least).all() and (s > least).all())


# ---------------------------------------------------------------------------------------------- rules


def _norms(xp: Any, v: Any) -> Any:
    """The squared norms of the columns as a row."""
    return total(xp, v[0] * v[0] + v[1] * v[1])


def _quotient(xp: Any, x: Any, d: Any) -> tuple[Any, Any]:
    return xp.safe_quotient(x[0], d), xp.safe_quotient(x[1], d)


def _over_gaps(xp: Any, x: Any, w: Any, bits: int, *columns: Any) -> tuple[Any, Any]:
    """Quotients by w_j - w_i. The imaginary diagonal stays unchanged, because it turns the phases.

    `columns` are the cotangents of vectors whose swirl is `x`. Without `columns` clusters are left out.
    """
    m = diagonal_matrix(xp, w)

    def part(p: Any) -> Any:
        if not columns:
            return over_known_gaps(xp, p, m, bits)
        return over_gaps(xp, p, pairs(xp, *[q for c in columns for q in c]), m, bits, wide=False)

    return part(x[0]), part(x[1]) + (x[1] - xp.off_diagonal(x[1]))


def _off(xp: Any, x: Any) -> tuple[Any, Any]:
    return xp.off_diagonal(x[0]), xp.off_diagonal(x[1])


def _swirl(xp: Any, x: Any) -> tuple[Any, Any]:
    """The difference of x and its conjugate transpose. Its real diagonal is exactly 0."""
    back = conjugate(xp, x)
    return xp.off_diagonal(x[0]) - xp.off_diagonal(back[0]), x[1] - back[1]


def _held_at_pivots(xp: Any, dv: Any, pivot: Any) -> tuple[Any, Any]:
    """The factors of the columns that undo the movement of their pivots by `dv`."""
    return total(xp, pivot * dv[0]), total(xp, pivot * dv[1])


def _without(v: Any, c: Any, dv: Any) -> tuple[Any, Any]:
    return difference(dv, scaled(v, c))


def _hermitian_pull(xp: Any, g: Any, y: Any, a: Any) -> Any:
    bits = bits_of(y)
    (g, y), home = doubled(xp, g, y)
    w, v, gv = y[0], parts(xp, y[1]), parts(xp, g[1])
    pivot, norms, back = xp.eig_pivot(y[1]), _norms(xp, v), conjugate(xp, v)
    c = pulled(xp, v, gv)
    gv = gv[0] - pivot * c[0], gv[1] - pivot * c[1]
    turned = over(_off(xp, product(xp, back, gv)), xp.swap_last(norms))
    inner = _over_gaps(xp, _swirl(xp, turned), w, bits, gv)
    weights = diagonal_matrix(xp, xp.reshape(as_row(xp, g[0]) / norms, shape=shape_of(g[0])))
    inner = inner[0] / 2 + weights, inner[1] / 2
    return home(together(xp, product(xp, product(xp, v, inner), back)))


def _hermitian_push(xp: Any, t: Any, y: Any, a: Any) -> Any:
    bits = bits_of(y)
    (t, y), home = doubled(xp, t, y)
    w, v = y[0], parts(xp, y[1])
    pivot, norms = xp.eig_pivot(y[1]), _norms(xp, v)
    whole, turn = parts(xp, t), conjugate(xp, parts(xp, t))
    t = (whole[0] + turn[0]) / 2, (whole[1] + turn[1]) / 2
    turned = over(product(xp, conjugate(xp, v), product(xp, t, v)), xp.swap_last(norms))
    moved = product(xp, v, _over_gaps(xp, _off(xp, turned), w, bits))
    moved = _without(v, _held_at_pivots(xp, moved, pivot), moved)
    return home((xp.diag_part(turned[0], k=0), together(xp, moved)))


_hermitian = implicit(
    "eigh_parts", hermitian_kernel, vjp=(_hermitian_pull,), jvp=(_hermitian_push,),
    domain=Domain(ANY_REAL, where=_eigenvalues_differ, fit=_hermitian_part), reads=(("y",),), outputs=2,
    rounding=elimination(4, 8, columns=(1,), parts=True, wide=True, undetermined=undetermined),
    samples=((((2, 1, 1),), {}), (((2, 2, 2),), {}), (((2, 2, 1, 1),), {})),
    conventions=(*FACTORS, EQUAL_EIGENVALUES, NOT_SMOOTH),
)  # fmt: skip


def _beyond(xp: Any, x: Any, u: Any, norms: Any, s: Any) -> tuple[Any, Any]:
    """The part of `x` outside the span of the columns of `u`, each column divided by its singular value."""
    inside = over(product(xp, conjugate(xp, u), x), xp.swap_last(norms))
    rest = difference(x, product(xp, u, inside))
    return _quotient(xp, rest, xp.broadcast_to(as_row(xp, s), shape=shape_of(rest[0])))


def _singular_pull(xp: Any, g: Any, y: Any, a: Any) -> Any:
    bits = bits_of(y)
    (g, y), home = doubled(xp, g, y)
    gs, gu, gv = g[0], parts(xp, g[1]), parts(xp, g[2])
    s, u, v = y[0], parts(xp, y[1]), parts(xp, y[2])
    pivot, norms = xp.eig_pivot(y[2]), _norms(xp, v)
    left, right = pulled(xp, u, gu), pulled(xp, v, gv)
    gv = gv[0] - pivot * (left[0] + right[0]), gv[1] - pivot * (left[1] + right[1])
    left, right = [over(product(xp, conjugate(xp, p), q), xp.swap_last(norms)) for p, q in ((u, gu), (v, gv))]
    even = _swirl(xp, _off(xp, (left[0] + right[0], left[1] + right[1])))
    odd = _swirl(xp, difference(left, right))
    even, odd = _over_gaps(xp, even, s, bits, gu, gv), _quotient(xp, odd, as_row(xp, s) + as_column(xp, s))
    weights = diagonal_matrix(xp, xp.reshape(as_row(xp, gs) / norms, shape=shape_of(gs)))
    inner = (even[0] + odd[0]) / 2 + weights, (even[1] + odd[1]) / 2
    back = conjugate(xp, v)
    made = product(xp, product(xp, u, inner), back)
    m, n = shape_of(u[0])[-2], shape_of(v[0])[-2]
    if m > n:
        more = product(xp, _beyond(xp, gu, u, norms, s), back)
        made = made[0] + more[0], made[1] + more[1]
    if n > m:
        more = product(xp, u, conjugate(xp, _beyond(xp, gv, v, norms, s)))
        made = made[0] + more[0], made[1] + more[1]
    return home(together(xp, made))


def _singular_push(xp: Any, t: Any, y: Any, a: Any) -> Any:
    bits = bits_of(y)
    (t, y), home = doubled(xp, t, y)
    s, u, v, t = y[0], parts(xp, y[1]), parts(xp, y[2]), parts(xp, t)
    pivot, norms = xp.eig_pivot(y[2]), _norms(xp, v)
    moved_v, moved_u = product(xp, t, v), product(xp, conjugate(xp, t), u)
    turned = product(xp, conjugate(xp, u), moved_v)
    back, rows = conjugate(xp, turned), xp.swap_last(norms)
    even = _off(xp, ((turned[0] + back[0]) / 2, (turned[1] + back[1]) / 2))
    odd = xp.off_diagonal(turned[0] - back[0]) / 2, (turned[1] - back[1]) / 2
    even = over(_over_gaps(xp, even, s, bits), rows)
    odd = over(_quotient(xp, odd, as_row(xp, s) + as_column(xp, s)), rows)
    du, dv = product(xp, u, (even[0] + odd[0], even[1] + odd[1])), product(xp, v, difference(even, odd))
    m, n = shape_of(u[0])[-2], shape_of(v[0])[-2]
    if m > n:
        more = _beyond(xp, moved_v, u, norms, s)
        du = du[0] + more[0], du[1] + more[1]
    if n > m:
        more = _beyond(xp, moved_u, v, norms, s)
        dv = dv[0] + more[0], dv[1] + more[1]
    c = _held_at_pivots(xp, dv, pivot)
    ds = xp.diag_part(turned[0], k=0) / xp.reshape(norms, shape=shape_of(s))
    return home((ds, together(xp, _without(u, c, du)), together(xp, _without(v, c, dv))))


_singular = implicit(
    "svd_parts", singular_kernel, vjp=(_singular_pull,), jvp=(_singular_push,),
    domain=Domain(ANY_REAL, where=_singular_values_differ), reads=(("y",),), outputs=3,
    rounding=elimination(6, 54, columns=(1, 2), parts=True, wide=True, undetermined=undetermined),
    samples=(
        (((2, 1, 1),), {}),
        (((2, 2, 1),), {}),
        (((2, 1, 2),), {}),
        (((2, 2, 1, 1),), {}),
        # The mirror takes another direction for each number of batch axes.
        *[((((1,) * batch + (2, 2, 2)),), {}) for batch in range(6)],
    ),
    conventions=(*FACTORS, EQUAL_EIGENVALUES, NOT_SMOOTH),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- on tensors


def _parts(z: Tensor) -> Tensor:
    from gtape.ops.elementwise.complex_parts import imag, real
    from gtape.ops.shape.join import stack

    return stack([real(z), imag(z)], axis=-3)


def _unit_columns(v: Tensor, *others: Tensor) -> list[Tensor]:
    """Complex vectors of norm 1, from vectors given in parts."""
    from gtape.ops.elementwise.complex_parts import complex
    from gtape.ops.reduction.norms import reduce_euclidean_norm

    norm = reduce_euclidean_norm(v, axis=[-3, -2], keepdims=True)
    made = [x / norm for x in (v, *others)]
    return [complex(x[..., 0, :, :], x[..., 1, :, :]) for x in made]


def spread(z: Tensor) -> Tensor:
    """The real matrix [..., 2m, 2n] in which the block [a -b; b a] stands for a + ib."""
    from gtape.ops.elementwise.complex_parts import imag, real
    from gtape.ops.shape.join import stack

    a, b = real(z), imag(z)
    *batch, m, n = z._layout.shape
    rows = stack([stack([a, -b], axis=-1), stack([b, a], axis=-1)], axis=-3)
    return reshape_op(rows, shape=(*batch, 2 * m, 2 * n))


def gathered(x: Tensor, *, triangle: bool = False) -> Tensor:
    """The inverse of `spread`. The diagonal of a `triangle` is made real, because only rounding makes it complex."""
    from gtape.ops.elementwise.complex_parts import complex

    *batch, m, n = x._layout.shape
    x = reshape_op(x, shape=(*batch, m // 2, 2, n // 2, 2))
    real, imag = x[..., 0, :, 0], x[..., 1, :, 0]
    return complex(real, imag * (1 - np.eye(m // 2, n // 2, dtype=x._layout.dtype)) if triangle else imag)


def with_real_diagonal(z: Tensor, diagonal: Tensor | None = None) -> Tensor:
    """The matrices with a real diagonal: the real part of their own, or of the diagonal of `diagonal`."""
    from gtape.ops.elementwise.complex_parts import complex, real
    from gtape.ops.linalg.diagonal import diag_part, set_diag

    a = real(diag_part(z if diagonal is None else diagonal))
    return set_diag(z, complex(a, constant(np.zeros(a._layout.shape, a._layout.dtype))))


def _from_lower_triangle(z: Tensor) -> Tensor:
    """Hermitian matrices from the lower triangles and the real diagonals of other matrices."""
    from gtape.ops.linalg.diagonal import band_part, set_diag

    strict = set_diag(band_part(z, -1, 0), constant(np.zeros(z._layout.shape[:-1], z._layout.dtype)))
    return with_real_diagonal(strict + adjoint_of(strict), z)


def cholesky(z: Tensor) -> Tensor:
    """Cholesky factors of Hermitian matrices, from lower triangles. The gradient is Hermitian, as in TensorFlow."""
    stopped = REGISTRY["stop_gradient"]
    mean = (z + adjoint_of(z)) / 2
    lower = REGISTRY["moved_along"](stopped(_from_lower_triangle(z)), mean, stopped(mean))
    return gathered(REGISTRY["cholesky"](spread(lower)), triangle=True)


def eigh(z: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, as complex numbers, and eigenvectors of Hermitian matrices, from their lower triangles."""
    from gtape.ops.elementwise.complex_parts import complex

    w, v = _hermitian(_parts(_from_lower_triangle(z)))
    (v,) = _unit_columns(v)
    return complex(w, constant(np.zeros(w._layout.shape, w._layout.dtype))), v


def svd(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    s, u, v = _singular(_parts(z))
    v, u = _unit_columns(v, u)
    return s, u, v


def qr(z: Tensor) -> tuple[Tensor, Tensor]:
    """The factors q and r of matrices with at least as many rows as columns, with LAPACK's signs."""
    q, r = REGISTRY["qr"](spread(z))
    own = np.diagonal(np.asarray(r._value), axis1=-2, axis2=-1)
    value = np.asarray(z._value)
    finite = np.isfinite(value).all(axis=(-2, -1), keepdims=True)
    wanted = np.diagonal(np.linalg.qr(np.where(finite, value, 0), mode="r"), axis1=-2, axis2=-1).real
    turn = np.where((np.repeat(wanted, 2, axis=-1) < 0) == (own < 0), 1, -1).astype(own.dtype)
    if (turn < 0).any():
        q, r = q * turn[..., None, :], r * turn[..., :, None]
    return gathered(q), gathered(r, triangle=True)


def slogdet(z: Tensor) -> tuple[Tensor, Tensor]:
    """The determinant divided by its modulus, and the logarithm of the modulus, both as complex numbers."""
    from gtape.ops.elementwise.complex_parts import complex, unit

    log = REGISTRY["log_abs_det"](spread(z)) / 2
    value = np.asarray(log._value)
    # The positive factor brings the modulus of the determinant near 1 and keeps the direction.
    factor = np.where(np.isfinite(value), np.exp(-value / max(z._layout.shape[-1], 1)), 1)
    direction = unit(REGISTRY["det"](z * constant(factor[..., None, None].astype(z._layout.dtype))))
    return direction, complex(log, constant(np.zeros(log._layout.shape, log._layout.dtype)))
