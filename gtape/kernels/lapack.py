"""Kernels of linear algebra: LAPACK through NumPy and SciPy, for one matrix or a batch of matrices.

Kernels never raise errors for values, because rules run on any numbers (a mask of ones, a singular matrix). A matrix
without an answer gives NaN, which public functions turn into an error. Half precision is computed in float32.

A NaN in a matrix makes all elements of the answer NaN, because each depends on the whole matrix. (LAPACK makes some of
them NaN, because comparisons of pivots with NaN are arbitrary.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.kernels.broadcasting import broadcast_shapes

Array = Any
_FEW = 64  # up to this number Python compares numbers faster than NumPy


def check_square(a: Array) -> None:
    """Raise a ValueError unless the last two axes of `a` have the same size."""
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"square matrices are needed (shape [..., n, n]), not the shape {a.shape}")


def widened(a: Array) -> Array:
    """Half precision as float32. All other values stay unchanged."""
    return a.astype(np.float32) if a.dtype == np.float16 else a


def scale_of(x: Array, *, axis: tuple[int, ...] = (-2, -1)) -> Array:
    """A power of two near the largest entry of each matrix, row or column; 1 if the entry is an ordinary number.

    The power and its reciprocal are normal numbers of the dtype. The fourth power of an ordinary number is finite and
    normal, because factorisations and their rules compute it.

    Examples
    --------
    >>> import numpy as np
    >>> scale_of(np.array([[3.0, 1.0]])), scale_of(np.array([[1e-300, 5e-324]])) == 2.0**-997
    (array([[1.]]), array([[ True]]))
    """
    most = np.finfo(x.dtype).maxexp
    size = np.abs(x).max(axis=axis, keepdims=True, initial=0.0)
    exponent = np.frexp(size)[1] - 1
    plain = (np.abs(exponent) <= most // 5) | (size == 0) | ~np.isfinite(size)
    units = np.ldexp(np.ones_like(size), np.clip(np.where(plain, 0, exponent), 2 - most, most - 2))
    return units.astype(x.dtype, copy=False)


def _scales(a: Array, axis: int) -> Array | None:
    """`scale_of` columns (axis -2) or rows (axis -1), or None where all are 1."""
    most = np.finfo(a.dtype).maxexp // 5
    least, largest = 2.0**-most, 2.0**most
    sizes = np.abs(a)
    if 0 < a.size <= _FEW:  # NumPy takes a microsecond for each reduction
        listed: list[float] = sizes.ravel().tolist()
        if least < min(listed) and max(listed) < largest:
            return None
    sizes = sizes.max(axis=axis, initial=0.0)
    if not sizes.size or (least < sizes.min() and sizes.max() < largest):
        return None
    units = scale_of(a, axis=(axis,))
    return units if (units != 1).any() else None


def _over_columns(f: Callable[[Array, Array], Array], a: Array, b: Array) -> Array:
    """The solution `f` of a x = b with scaled columns, so that each x overflows or underflows independently."""
    units = _scales(a, -2)
    if units is None:
        return f(a, b)
    sizes = scale_of(b, axis=(-2,))
    with np.errstate(all="ignore"):
        return _unscaled(f(a / units, b / sizes), units, sizes)


def _unscaled(x: Array, units: Array, sizes: Array) -> Array:
    """The solution of a x = b from that of a / units and b / sizes. Both are powers of two for each column."""
    ratio = sizes / np.swapaxes(units, -1, -2)
    if ((ratio != 0) & np.isfinite(ratio)).all():
        return x * ratio
    # The division has two steps, because the ratio overflows or underflows.
    exponent = np.frexp(sizes)[1] - np.frexp(np.swapaxes(units, -1, -2))[1]
    one = np.ones_like(ratio)
    return x * np.ldexp(one, exponent // 2) * np.ldexp(one, exponent - exponent // 2)


def has_nan(a: Array) -> bool:
    """Whether an array has a NaN. The sum comes first, because it shows quickly that most arrays have none."""
    total = np.add.reduce(a, axis=None)
    return bool(total != total) and bool(np.isnan(a).any())


def known(a: Array, value: Array) -> Array:
    """One number for each matrix of `a`, replaced by NaN if the matrix has a NaN."""
    return np.where(np.isnan(a).any(axis=(-2, -1)), np.nan, value) if has_nan(a) else value


def _known_matrices(a: Array, value: Array) -> Array:
    """One matrix for each matrix of `a`, replaced by NaN if the matrix of `a` has a NaN."""
    if not has_nan(a):
        return value
    return np.where(np.isnan(a).any(axis=(-2, -1), keepdims=True), np.array(np.nan, value.dtype), value)


def _one_by_one(f: Callable[..., Array], *arrays: Array, like: Array) -> Array:
    """The results of `f` for each matrix of a batch. NaN if LAPACK finds no answer."""
    out = np.empty(like.shape, like.dtype)
    for i in np.ndindex(out.shape[:-2]):
        try:
            out[i] = f(*[a[i] for a in arrays])
        except np.linalg.LinAlgError:
            out[i] = np.nan
    return out


def inverse(a: Array) -> Array:
    """The inverse of each matrix; NaN for a singular matrix."""
    check_square(a)
    w = widened(a)
    for axis in (-2, -1):  # each element overflows or underflows independently
        units = _scales(w, axis)
        if units is not None:
            with np.errstate(all="ignore"):
                return (inverse(w / units) / np.swapaxes(units, -1, -2)).astype(a.dtype, copy=False)
    try:
        out = np.linalg.inv(w).astype(a.dtype, copy=False)
    except np.linalg.LinAlgError:
        out = _one_by_one(np.linalg.inv, w, like=a)
    return _known_matrices(a, out)


def solve(a: Array, b: Array) -> Array:
    """The solution of a x = b for each matrix; NaN for a singular matrix. Batch axes broadcast."""
    check_square(a)
    if b.ndim < 2 or b.shape[-2] != a.shape[-1]:
        raise ValueError(f"the right-hand side must have shape [..., {a.shape[-1]}, k], not {b.shape}")
    return _over_columns(_solve, widened(a), widened(b)).astype(np.result_type(a, b), copy=False)


def _solve(a: Array, b: Array) -> Array:
    try:
        out = np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = np.broadcast_to(a, batch + a.shape[-2:]), np.broadcast_to(b, batch + b.shape[-2:])
        out = _one_by_one(np.linalg.solve, a, b, like=np.empty(b.shape, np.result_type(a, b)))
    return _known_matrices(a, out)


def cholesky(a: Array) -> Array:
    """The lower Cholesky factor of each matrix, from its lower triangle; NaN unless positive definite."""
    check_square(a)
    w = widened(a)
    try:
        out = np.linalg.cholesky(w).astype(a.dtype, copy=False)
    except np.linalg.LinAlgError:
        out = _one_by_one(np.linalg.cholesky, w, like=a)
    if (infinite := np.isinf(out).any(axis=(-2, -1), keepdims=True)).any():
        out = np.where(infinite, _by_columns(w).astype(a.dtype, copy=False), out)
    # All elements are NaN, because a matrix that is not positive definite has no factor.
    return _known_matrices(out, out)


def _by_columns(a: Array) -> Array:
    """The Cholesky factor by explicit divisions, because LAPACK treats infinity over infinity as zero."""
    out = np.zeros(a.shape, a.dtype)
    with np.errstate(all="ignore"):
        for j in range(a.shape[-1]):
            rest = a[..., j:, j] - (out[..., j:, :j] @ out[..., j, :j, None])[..., 0]
            out[..., j, j] = np.sqrt(rest[..., 0])
            out[..., j + 1 :, j] = rest[..., 1:] / out[..., j, j, None]
    return out


_SMALL = 32  # up to this size rows of all matrices at once are faster than a call of LAPACK for each matrix


def _substitute(a: Array, b: Array, lower: bool) -> Array:
    n = a.shape[-1]
    x = np.empty(b.shape, np.result_type(a, b))
    with np.errstate(all="ignore"):
        for i in range(n) if lower else range(n - 1, -1, -1):
            known = slice(0, i) if lower else slice(i + 1, n)
            rest = b[..., i, :]
            if known.stop > known.start:
                rest = rest - (a[..., i : i + 1, known] @ x[..., known, :])[..., 0, :]
            x[..., i, :] = rest / a[..., i, i, None]
    singular = (np.diagonal(a, axis1=-2, axis2=-1) == 0).any(axis=-1)
    return np.where(singular[..., None, None], np.nan, x) if singular.any() else x


def triangular_solve(a: Array, b: Array, *, lower: bool) -> Array:
    """The solution of a x = b for triangular matrices, from one triangle; NaN if the diagonal has a zero."""
    check_square(a)
    n = a.shape[-1]
    if b.ndim < 2 or b.shape[-2] != n:
        raise ValueError(f"the right-hand side must have shape [..., {n}, k], not {b.shape}")
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    wa = np.broadcast_to(widened(a), (*batch, n, n))
    wb = np.broadcast_to(widened(b), batch + b.shape[-2:])
    one = np.tril if lower else np.triu
    units = _scales(wa, -2)
    if units is not None:  # elements of the other triangle may have any size
        units = scale_of(one(wa), axis=(-2,))
        sizes = scale_of(wb, axis=(-2,))
        with np.errstate(all="ignore"):
            wa, wb = wa / units, wb / sizes
    x = _substitute(wa, wb, lower) if n <= _SMALL else _by_lapack(wa, wb, lower)
    if units is not None:
        with np.errstate(all="ignore"):
            x = _unscaled(x, units, sizes)
    return x.astype(np.result_type(a, b), copy=False)


def _by_lapack(a: Array, b: Array, lower: bool) -> Array:
    from gtape.kernels.scipy_linalg import solve_triangular

    out = np.empty(b.shape, np.result_type(a, b))
    if out.size == 0:
        return out
    singular = (np.diagonal(a, axis1=-2, axis2=-1) == 0).any(axis=-1)
    for i in np.ndindex(a.shape[:-2]):
        out[i] = np.nan if singular[i] else solve_triangular(a[i], b[i], lower=lower, check_finite=False)
    return out


def with_infinities(a: Array, value: Array, from_det: Callable[[Array], Array]) -> Array:
    """`value`, but by minors for matrices with infinite elements, because elimination loses their signs."""
    infinite = np.isinf(a).any(axis=(-2, -1))
    if not infinite.any():
        return value
    value = np.array(value)
    with np.errstate(all="ignore"):
        value[infinite] = from_det(np.array([_expanded(m) for m in a[infinite]]))
    return value


_MOST_MINORS = 1000


def _expanded(m: Array) -> Any:
    """The determinant of one matrix, expanded by its rows with infinite elements; NaN if there are many."""
    n = len(m)
    rows = np.flatnonzero(np.isinf(m).any(axis=1))
    if not len(rows):
        return np.linalg.det(m)
    if n ** len(rows) > _MOST_MINORS:
        return np.nan
    i, total = rows[0], 0.0
    for j in range(n):
        if m[i, j]:
            minor = _expanded(np.delete(np.delete(m, i, 0), j, 1))
            total = total + (-1) ** int(i + j) * m[i, j] * minor
    return total


def _sign_and_log(a: Array) -> tuple[Array, Array]:
    """Sign and logarithm of |det|, with scaled columns, because LAPACK's quotients by subnormal pivots are wrong."""
    units = _scales(a, -2) if a.dtype in (np.float64, np.complex128) else None  # others are computed in these two
    if units is None:
        sign, log = np.linalg.slogdet(a)
        return sign, log
    sign, log = np.linalg.slogdet(a / units)
    return sign, log + (np.frexp(units)[1] - 1).sum(axis=(-2, -1)) * np.log(2.0)


def log_abs_det(a: Array) -> Array:
    """The logarithm of |det| of each matrix; -inf for a singular matrix."""
    check_square(a)
    w = widened(a)
    value = with_infinities(w, _sign_and_log(w)[1], lambda d: np.log(np.abs(d)))
    return known(a, value).astype(a.dtype)[()]


def det_sign(a: Array) -> Array:
    """The sign of the determinant of each matrix; NaN if the determinant is NaN."""
    check_square(a)
    w = widened(a)
    return known(a, with_infinities(w, _sign_and_log(w)[0], np.sign)).astype(a.dtype)[()]
