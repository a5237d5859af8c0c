"""The determinant and the family of its derivatives, which are exact at singular matrices, too.

The gradient of det is the cofactor matrix, which exists for singular matrices, too. Its derivatives of every order
belong to one family of functions, which are symmetric and linear in the directions::

    det_form(A, [G_1, ..., G_k]) = gradient with respect to A of D^k det(A)[G_1, ..., G_k]

Without directions the function is the matrix of cofactors. The family is closed: the derivative by A has one more
direction, and the derivative by a direction replaces the direction. Matrices up to 3x3 are computed by minors. Larger
ones are computed by their singular values s, because the form of a diagonal matrix is a sum of products of s without
divisions::

    D^k det(diag s)[G_1, ..., G_k] = sum over distinct i_1, ..., i_k and their permutations p of
        sign(p) G_1[i_1, p(i_1)] ... G_k[i_k, p(i_k)] times the product of the other s
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np

from gtape.declare.conventions import PRODUCTS
from gtape.declare.primitives import linear, primitive
from gtape.declare.rounding import SUM, elimination, growing
from gtape.kernels.lapack import check_square, known, with_infinities
from gtape.tensors.axes import shape_of

__all__ = ["det"]

Array = Any


# ---------------------------------------------------------------------------------------------- kernels


def _wide(a: Array) -> Any:
    return np.complex128 if a.dtype.kind == "c" else np.float64


def _det(a: Array) -> Array:
    check_square(a)
    n = a.shape[-1]
    w = a.astype(_wide(a), copy=False)
    if n == 0:
        value = np.ones(a.shape[:-2])
    elif n == 1:
        value = w[..., 0, 0]
    elif n == 2:
        value = w[..., 0, 0] * w[..., 1, 1] - w[..., 0, 1] * w[..., 1, 0]
    elif n == 3:
        value = np.add.reduce(w[..., 0, :] * _minors(w)[..., 0, :], axis=-1)
    else:
        value = np.linalg.det(w)
    if n in (2, 3) and not np.isfinite(value).all():
        # Two overflowing products give inf - inf. Elimination adds logarithms instead.
        value = np.where(np.isfinite(value), value, np.linalg.det(w))
    if not np.isfinite(value).all():
        value = with_infinities(w, value, lambda d: d)
    return known(w, value).astype(a.dtype)[()]


def _turned(a: Array) -> Array:
    """The cofactors of 2x2 matrices."""
    return np.stack([np.stack([a[..., 1, 1], -a[..., 1, 0]], -1), np.stack([-a[..., 0, 1], a[..., 0, 0]], -1)], -2)


_NEXT, _LAST = np.array([1, 2, 0]), np.array([2, 0, 1])


def _corner(a: Array, rows: Array, columns: Array) -> Array:
    return a[..., rows[:, None], columns[None, :]]


def _minors(a: Array) -> Array:
    """The cofactors of 3x3 matrices. Cyclic indices include the signs."""
    return _corner(a, _NEXT, _NEXT) * _corner(a, _LAST, _LAST) - _corner(a, _NEXT, _LAST) * _corner(a, _LAST, _NEXT)


def _mixed_minors(a: Array, b: Array) -> Array:
    """The derivative of a 3x3 matrix's cofactors in direction `b`: the same products with a factor from each matrix."""
    return (
        _corner(a, _NEXT, _NEXT) * _corner(b, _LAST, _LAST)
        + _corner(b, _NEXT, _NEXT) * _corner(a, _LAST, _LAST)
        - _corner(a, _NEXT, _LAST) * _corner(b, _LAST, _NEXT)
        - _corner(b, _NEXT, _LAST) * _corner(a, _LAST, _NEXT)
    )


# Rounds of averages in `_balance`, enough to get exponents right to 1 if rows share columns.
_SWEEPS = 12


def _balance(a: Array) -> tuple[Array, Array]:
    """Exponents of two for rows and for columns that bring the entries of matrices close to 1.

    Rows and columns are averaged in turn, which gives the least squares fit r[i] + c[j] to the exponents of non-zero
    entries. The largest entry of each row is not enough, because rows may have zeros in different columns.
    """
    there = a != 0
    exponents = np.where(there, np.frexp(a)[1], 0).astype(float)
    rows = np.maximum(there.sum(axis=-1, keepdims=True), 1)
    columns = np.maximum(there.sum(axis=-2, keepdims=True), 1)
    c = np.zeros_like(exponents[..., :1, :])
    for _ in range(_SWEEPS):
        r = np.where(there, exponents - c, 0.0).sum(axis=-1, keepdims=True) / rows
        c = np.where(there, exponents - r, 0.0).sum(axis=-2, keepdims=True) / columns
    # No entry may exceed 1, because products of singular values must not overflow.
    r += np.where(there, exponents - r - c, -np.inf).max(axis=-1, keepdims=True, initial=0.0)
    return np.rint(r).astype(int), np.rint(c).astype(int)


def _scaled(a: Array, r: Array, c: Array) -> Array:
    return np.ldexp(np.ldexp(a, -r), -c)


def _error(a: Array, gs: list[Array], r: Array, c: Array) -> Array:
    """The logarithm of the error of each element of a form by the singular values of a scaled matrix.

    A rounding of the matrix moves a form by the largest form of the next order: the product of the largest singular
    values. Norms of directions stand for their elements.
    """
    n, k = a.shape[-1], len(gs)
    with np.errstate(divide="ignore"):
        s = np.log2(np.linalg.svd(_scaled(a, r, c), compute_uv=False))
        size = s[..., 0] + s[..., : max(n - 2 - k, 0)].sum(axis=-1)
        for g in gs:
            size = size + np.log2(np.linalg.norm(_scaled(g, r, c), axis=(-2, -1)))
    return size[..., None, None] + (r.sum(axis=-2, keepdims=True) + c.sum(axis=-1, keepdims=True) - r - c)


def _scalings(a: Array, gs: list[Array]) -> tuple[Array, list[tuple[Array, Array]], Array]:
    """The scalings of rows and columns by which a form is computed: none, or a balance where it is more accurate.

    A balance keeps small elements accurate if rows and columns have different sizes. It makes a matrix with many tiny
    elements worse, because it makes these large.

    Returns
    -------
    mask : array
        Which elements are more accurate by a balance.
    scalings : list of (r, c)
        Without and with a balance; the second is left out if no element needs it.
    error : array
        The logarithm of the error of each element, to base 2, in roundings.
    """
    r, c = _balance(a)
    none = np.zeros_like(r), np.zeros_like(c)
    straight = _error(a, gs, *none)
    if max(np.ptp(r, axis=-2).max(initial=0), np.ptp(c, axis=-1).max(initial=0)) <= 1:
        return np.zeros(a.shape, bool), [none], straight
    balanced = _error(a, gs, r, c)
    mask = balanced < straight
    return mask, [none, (r, c)] if mask.any() else [none], np.minimum(balanced, straight)


def _other_products(s: Array, k: int) -> Array:
    """The array P[..., i_1, ..., i_k] = product of the other s for distinct indices, and 0 if two indices are equal."""
    n = s.shape[-1]
    index = np.indices((n,) * k)
    apart = np.ones((n,) * k, dtype=bool)
    for i in range(k):
        for j in range(i):
            apart &= index[i] != index[j]
    p = np.broadcast_to(apart.astype(s.dtype), s.shape[:-1] + (n,) * k).copy()
    for m in range(n):
        p *= np.where((index == m).any(axis=0), 1.0, s[..., m].reshape(s.shape[:-1] + (1,) * k))
    return p


def _sign(order: tuple[int, ...]) -> int:
    swaps = sum(order[i] > order[j] for i in range(len(order)) for j in range(i + 1, len(order)))
    return -1 if swaps % 2 else 1


def _diagonal_form(s: Array, gs: list[Array]) -> Array:
    """The family at diag(s), by one einsum for each permutation of the directions and the output."""
    k = len(gs)
    n = s.shape[-1]
    p = _other_products(s, k + 1)
    letters = "abcdefghijklmnopqrstuvwxyz"[: k + 1]
    out = np.zeros((*s.shape, n), np.result_type(s, *gs))
    for order in permutations(range(k + 1)):
        factors = ",".join(f"...{letters[m]}{letters[order[m]]}" for m in range(k))
        inputs = f"...{letters}" + (f",{factors}" if factors else "")
        if order[k] == k:
            part = np.einsum(f"{inputs}->...{letters[k]}", p, *gs)
            out[..., np.arange(n), np.arange(n)] += _sign(order) * part
        else:
            out += _sign(order) * np.einsum(f"{inputs}->...{letters[k]}{letters[order[k]]}", p, *gs)
    return out


def _by_complex_singular_values(a: Array, gs: list[Array]) -> Array:
    finite = np.isfinite(a).all(axis=(-1, -2), keepdims=True)
    u, s, vh = np.linalg.svd(np.where(finite, a, 0.0))
    # The cofactors of a unitary matrix are its conjugate times its determinant.
    left, right = np.conjugate(u), np.conjugate(vh)
    form = _diagonal_form(s, [np.swapaxes(left, -1, -2) @ g @ np.swapaxes(right, -1, -2) for g in gs])
    phase = (np.linalg.det(u) * np.linalg.det(vh))[..., None, None]
    return np.where(finite, phase * (left @ form @ right), np.nan)


def _by_singular_values(a: Array, gs: list[Array]) -> Array:
    finite = np.isfinite(a).all(axis=(-1, -2), keepdims=True)
    a = np.where(finite, a, 0.0)
    mask, scalings, _ = _scalings(a, gs)
    made = [_by_scaled_values(a, gs, r, c) for r, c in scalings]
    return np.where(finite, np.where(mask, made[-1], made[0]), np.nan)


def _by_scaled_values(a: Array, gs: list[Array], r: Array, c: Array) -> Array:
    u, s, vt = np.linalg.svd(_scaled(a, r, c))
    turn, turn_back = np.swapaxes(u, -1, -2), np.swapaxes(vt, -1, -2)
    form = _diagonal_form(s, [turn @ _scaled(g, r, c) @ turn_back for g in gs])
    signs = np.rint(np.linalg.det(u) * np.linalg.det(vt))[..., None, None]
    whole = r.sum(axis=-2, keepdims=True) + c.sum(axis=-1, keepdims=True)
    return np.ldexp(signs * (u @ form @ vt), whole - r - c)


def _form(a: Array, gs: list[Array]) -> Array:
    n, k = a.shape[-1], len(gs)
    dtype = a.dtype
    a = a.astype(_wide(a), copy=False)
    gs = [g.astype(_wide(g), copy=False) for g in gs]
    if k >= n:  # because det is a polynomial of degree n
        out = np.zeros(a.shape)
    elif n == 1:
        out = np.ones(a.shape)
    elif n == 2:
        out = _turned((a, *gs)[k])
    elif n == 3:
        out = _minors(a) if k == 0 else _mixed_minors(*(a, *gs)[k - 1 : k + 1])
    elif a.dtype.kind == "c":
        out = _by_complex_singular_values(a, gs)
    else:
        out = _by_singular_values(a, gs)
    return out.astype(dtype)


def _cofactors(a: Array) -> Array:
    check_square(a)
    return _form(a, [])


def _det_form(a: Array, gs: Array) -> Array:
    check_square(a)
    return _form(a, [gs[..., i, :, :] for i in range(gs.shape[-3])])


# ---------------------------------------------------------------------------------------------- rules


def _take_rule(xp: Any, g: Any, x: Any, *, index: int) -> Any:
    zero = xp.zeros_like(g)
    axis = len(g.shape) - 3
    return g if x.shape[axis] == 1 else xp.concat(*[g if i == index else zero for i in range(x.shape[axis])], axis=axis)


take_direction = linear(
    "take_direction", lambda gs, *, index: gs[..., index : index + 1, :, :], _take_rule,
    params=("index",), rounding=SUM, selects=True,
    samples=(((((3, 1, 2)),), {"index": 1}), (((1, 2, 2),), {"index": 0})),
)  # fmt: skip


def as_direction(xp: Any, g: Any) -> Any:
    """A matrix as a stack of one direction."""
    shape = shape_of(g)
    return xp.reshape(g, shape=(*shape[:-2], 1, *shape[-2:]))


def with_direction(xp: Any, g: Any, gs: Any) -> Any:
    """A stack of directions with one more direction."""
    return xp.concat(gs, as_direction(xp, g), axis=len(gs.shape) - 3)


def _replaced_directions(xp: Any, g: Any, gs: Any) -> Any:
    """Stacks of directions, each with another direction replaced by `g`, as an array of shape [k, ..., k, n, n]."""
    axis = len(gs.shape) - 3
    k = gs.shape[axis]
    new = as_direction(xp, g)
    parts = [xp.take_direction(gs, index=i) for i in range(k)]
    return [xp.concat(*[new if j == i else parts[j] for j in range(k)], axis=axis) for i in range(k)]


def pulled_directions(xp: Any, form: Any, g: Any, gs: Any) -> Any:
    """The cotangent of the directions `gs` of a symmetric form. `form` computes the form for a stack of directions."""
    forms = [as_direction(xp, form(swapped)) for swapped in _replaced_directions(xp, g, gs)]
    return forms[0] if len(forms) == 1 else xp.concat(*forms, axis=len(gs.shape) - 3)


def pushed_directions(xp: Any, form: Any, t: Any, gs: Any) -> Any:
    """The tangent of a symmetric form for a tangent `t` of `gs`, which replaces one direction after the other."""
    axis = len(gs.shape) - 3
    k = gs.shape[axis]
    total = None
    for i in range(k):
        parts = [xp.take_direction(t if j == i else gs, index=j) for j in range(k)]
        term = form(parts[0] if k == 1 else xp.concat(*parts, axis=axis))
        total = term if total is None else total + term
    return total


def _pull_directions(xp: Any, g: Any, y: Any, a: Any, gs: Any) -> Any:
    return pulled_directions(xp, lambda s: xp.det_form(a, s), g, gs)


def _push_directions(xp: Any, t: Any, y: Any, a: Any, gs: Any) -> Any:
    return pushed_directions(xp, lambda s: xp.det_form(a, s), t, gs)


def per_matrix(xp: Any, g: Any) -> Any:
    """One number for each matrix, in a shape that broadcasts against its elements."""
    return xp.reshape(g, shape=(*shape_of(g), 1, 1))


def _own_roundings(a: Array) -> Array:
    """The error of a determinant beyond that of an elimination.

    The products of small matrices may cancel: a rounding of each, and of their sum. NumPy's determinant of larger ones
    is the exponential of a sum of logarithms, whose roundings grow with the logarithm of the result.
    """
    n, w = a.shape[-1], np.abs(a).astype(np.float64)
    if n < 2:
        return np.zeros(a.shape[:-2])
    if n == 2:
        total = w[..., 0, 0] * w[..., 1, 1] + w[..., 0, 1] * w[..., 1, 0]
    elif n == 3:
        straight, across = _corner(w, _NEXT, _NEXT), _corner(w, _NEXT, _LAST)
        beside = straight * _corner(w, _LAST, _LAST) + across * _corner(w, _LAST, _NEXT)
        total = np.add.reduce(w[..., 0, :] * beside[..., 0, :], axis=-1)
    else:
        with np.errstate(all="ignore"):
            value = np.abs(np.linalg.det(a.astype(_wide(a), copy=False)))
            total = np.where((value > 0) & np.isfinite(value), value * np.abs(np.log(value)), 0.0)
    return _PRODUCTS.get(n, n) * 2.0**-53 * total


_PRODUCTS = {2: 2, 3: 5}  # the roundings of one term of small matrices


def _beyond_first_order(a: Array, degree: int) -> Array:
    """The effect of roundings on the minors of size `degree`, without the part of first order in the roundings.

    The effect of a matrix of norm e is at most the product of all s + e, less the product of the singular values s
    (Ipsen and Rehman, "Perturbation bounds for determinants and characteristic polynomials", SIMAX 30, 2008). Where
    the rank is lower by two or more, the part of first order is 0.
    """
    n = a.shape[-1]
    if n <= 3 or degree < 2:  # small matrices are computed by products
        return np.zeros(a.shape[:-2])
    s = np.linalg.svd(np.where(np.isfinite(a), a, 0.0), compute_uv=False)
    sums = [np.ones(a.shape[:-2]), *[np.zeros(a.shape[:-2])] * (degree - 2)]  # sums of products of j singular values
    with np.errstate(all="ignore"):
        for i in range(n):
            sums = [sums[0], *[sums[j] + sums[j - 1] * s[..., i] for j in range(1, len(sums))]]
        moved = n * n * 2.0**-52 * s[..., 0]
        total = sum(e * moved ** (degree - j) for j, e in enumerate(sums))
    return np.where(np.isfinite(total), total, 0.0)


def _noise_of_det(a: Array) -> Array:
    a = a.astype(_wide(a), copy=False)
    return _own_roundings(a) + _beyond_first_order(a, a.shape[-1])


def _noise_of_form(a: Array, gs: Array | None = None) -> Array:
    n, k = a.shape[-1], 0 if gs is None else gs.shape[-3]
    if n <= 3 or k >= n:
        return np.zeros(a.shape)
    a = np.where(np.isfinite(a), a, 0.0).astype(_wide(a))
    ways = [] if gs is None else [np.where(np.isfinite(g), g, 0.0) for g in np.moveaxis(gs, -3, 0)]
    if a.dtype.kind == "c":
        return np.broadcast_to(_beyond_first_order(a, n - 1 - k)[..., None, None], a.shape) * _norms(ways)
    mask, scalings, error = _scalings(a, ways)
    found = []
    for r, c in scalings:
        size = _beyond_first_order(_scaled(a, r, c), n - 1 - k)[..., None, None]
        whole = r.sum(axis=-2, keepdims=True) + c.sum(axis=-1, keepdims=True)
        found.append(np.ldexp(size * _norms([_scaled(g, r, c) for g in ways]), whole - r - c))
    with np.errstate(all="ignore"):
        effect = np.where(mask, found[-1], found[0]) + n * 2.0**-52 * np.exp2(error)
    return np.where(np.isfinite(effect), effect, 0.0)


def _norms(gs: list[Array]) -> Array:
    """The product of the norms of directions, each for all elements that a direction can reach."""
    size: Array = 1.0
    for g in gs:
        size = size * g.shape[-1] * np.linalg.norm(g, axis=(-2, -1), keepdims=True)
    return size


_MATRICES: tuple[Any, ...] = ((((1, 1),), {}), (((2, 2),), {}), (((3, 3),), {}), (((2, 2, 2),), {}))

det = primitive(
    "det", _det,
    vjp=(lambda xp, g, y, a: per_matrix(xp, g) * xp.cofactors(a),),
    jvp=(lambda xp, t, y, a: xp.sum(t * xp.cofactors(a), axis=(-2, -1), keepdims=False),),
    reads=((0,),), batched=True, complex=True,
    rounding=growing(1, eliminates=True, wide=True, noise=_noise_of_det),
    samples=_MATRICES,
    conventions=PRODUCTS,
    rewrites=(
        (("log", ("det", "X")), "log(det(a)) is gtape.linalg.slogdet(a)[1]", lambda xp, a: xp.log_abs_det(a)),
    ),
)  # fmt: skip

cofactors = primitive(
    "cofactors", _cofactors,
    vjp=(lambda xp, g, y, a: xp.det_form(a, as_direction(xp, g)),),
    jvp=(lambda xp, t, y, a: xp.det_form(a, as_direction(xp, t)),),
    reads=((0,),), complex=True, rounding=elimination(0.5, (0, 4, 0.5), wide=True, noise=_noise_of_form),
    samples=_MATRICES,
    conventions=PRODUCTS,
)  # fmt: skip

det_form = primitive(
    "det_form", _det_form,
    vjp=(lambda xp, g, y, a, gs: xp.det_form(a, with_direction(xp, g, gs)), _pull_directions),
    jvp=(lambda xp, t, y, a, gs: xp.det_form(a, with_direction(xp, t, gs)), _push_directions),
    reads=((0, 1), (0, 1)), complex=True, rounding=elimination(0.5, (0, 0, 0.8), wide=True, noise=_noise_of_form),
    samples=(
        (((1, 1), (1, 1, 1)), {}),
        (((2, 2), (1, 2, 2)), {}),
        (((2, 2), (2, 2, 2)), {}),
        (((3, 3), (1, 3, 3)), {}),
        (((2, 2, 2), (2, 1, 2, 2)), {}),
    ),
    conventions=PRODUCTS,
)  # fmt: skip
