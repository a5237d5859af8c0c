"""The matrix exponential and the family of its derivatives.

The derivatives of every order belong to one family of functions, which are symmetric and linear in the directions::

    expm_form(A, [G_1, ..., G_k]) = D^k exp(A)[G_1, ..., G_k]

The derivative by A has one more direction, the derivative by a direction replaces the direction, and the transpose is
the same function of the transposed matrices. A derivative is a block of the exponential of a larger matrix (Najfeld and
Havel, "Derivatives of the matrix exponential and their computation", 1995).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.declare.conventions import FACTORS
from gtape.declare.primitives import primitive
from gtape.declare.rounding import elimination
from gtape.kernels.lapack import check_square
from gtape.kernels.matrix_pairs import matmul_pairs
from gtape.kernels.pair_functions import ratio
from gtape.kernels.pairs import Pair, add_pairs, multiply_pairs, nearest, two_sum
from gtape.ops.linalg.determinant import as_direction, pulled_directions, pushed_directions, with_direction
from gtape.tensors.operands import matrix_operand
from gtape.tensors.tensor import Tensor

__all__ = ["expm"]

Array = Any


# ---------------------------------------------------------------------------------------------- kernels


_LARGEST = float(np.finfo(np.float64).max)
_MOST = 1100  # halvings, enough for matrices of the largest numbers
_FAR = 1 << 15  # a power of two beyond all floats
_TERMS = [ratio(1, math.factorial(k)) for k in range(24)]  # of the series, as pairs


def _exponential(a: Array) -> Array:
    """The exponential by scaling and squaring, in pairs of floats.

    Each squaring doubles the relative errors of the earlier steps. In floats, an exponential of a matrix of norm 100
    would lose a hundred times as much as the rounding of its elements explains.
    """
    good = np.isfinite(a).all(axis=(-2, -1), keepdims=True)
    with np.errstate(all="ignore"):
        if a.shape[-1] == 1:
            return np.where(good, np.exp(a), np.nan)
        a = np.where(good, a, 0.0)
        # A multiple of the unit matrix is taken out to make the rest smaller.
        middle = np.rint(8 * np.trace(a, axis1=-2, axis2=-1)[..., None, None] / a.shape[-1]) / 8
        middle = np.clip(middle, -500.0, 500.0)
        x = two_sum(a, -middle * np.eye(a.shape[-1]))
        norm = np.abs(x[0]).sum(axis=-2, keepdims=True).max(axis=-1, keepdims=True)
        halvings = np.clip(np.frexp(np.minimum(norm, _LARGEST))[1] + 1, 0, _MOST)
        made = _series((np.ldexp(x[0], -halvings), np.ldexp(x[1], -halvings)))
        power = np.zeros(halvings.shape, np.int64)  # by which `made` is smaller
        for i in range(int(halvings.max(initial=0))):
            more = (i < halvings) & (power < _FAR)
            square = matmul_pairs(made, made)
            # The square may be too large, although the exponential is not.
            far = ~np.isfinite(square[0]).all(axis=(-2, -1), keepdims=True) | (power != 0)
            if far.any():
                size = np.where(far, np.frexp(np.abs(made[0]).max(axis=(-2, -1), keepdims=True))[1], 0)
                made, power = (np.ldexp(made[0], -size), np.ldexp(made[1], -size)), power + size
                square = matmul_pairs(made, made)
            made = np.where(more, square[0], made[0]), np.where(more, square[1], made[1])
            power = np.where(more, np.maximum(2 * power, -_FAR), power)
        return np.where(good, np.ldexp(nearest(made) * np.exp(middle), power), np.nan)


def _series(x: Pair) -> Pair:
    """The exponential of matrices of norm 1/2 by 24 terms of the series, in powers of the fourth power.

    The later terms are so small that floats suffice.
    """
    x2 = matmul_pairs(x, x)
    x3, x4 = matmul_pairs(x2, x), matmul_pairs(x2, x2)
    one = np.eye(x[0].shape[-1])
    rest: Any = 0.0
    for k in (20, 16, 12, 8):
        terms = [_TERMS[k + i][0] * m for i, m in enumerate((one, x[0], x2[0], x3[0]))]
        rest = rest @ x4[0] + sum(terms) if k < 20 else sum(terms)
    made: Pair = (rest, np.zeros_like(rest))
    for k in (4, 0):
        made = matmul_pairs(made, x4)
        for i, m in enumerate(((one, np.zeros_like(one)), x, x2, x3)):
            made = add_pairs(made, multiply_pairs(m, _TERMS[k + i]))
    return made


def _expm_kernel(x: Array) -> Array:
    check_square(x)
    if not x.size:
        return x.copy()
    return _exponential(x.astype(np.float64)).astype(x.dtype)


def _form_kernel(x: Array, gs: Array) -> Array:
    check_square(x)
    if not x.size:
        return x.copy()
    n, k = x.shape[-1], gs.shape[-3]
    a = x.astype(np.float64)
    parts = [gs[..., i, :, :].astype(np.float64) for i in range(k)]
    # Each direction is scaled to the size of A, so that the larger matrix has a norm like that of A. The form is linear
    # in each direction.
    norm = np.abs(a).sum(axis=-1).max(axis=-1)[..., None, None]
    powers = []
    for i, g in enumerate(parts):
        size = np.abs(g).sum(axis=-1).max(axis=-1)[..., None, None]
        power = np.frexp(np.where(size == 0, 1.0, size))[1] - np.maximum(np.frexp(norm)[1], 0)
        parts[i] = np.ldexp(g, -power)
        powers.append(power)
    whole = np.zeros((*a.shape[:-2], n << k, n << k))
    for s in range(1 << k):
        rows = slice(s * n, (s + 1) * n)
        whole[..., rows, rows] = a
        for i in range(k):
            if not s >> i & 1:
                t = s | 1 << i
                whole[..., rows, t * n : (t + 1) * n] = parts[i]
    made = _exponential(whole)[..., :n, -n:]
    return np.ldexp(made, sum(powers)).astype(x.dtype)


# ---------------------------------------------------------------------------------------------- rules


def _pull_directions(xp: Any, g: Any, y: Any, a: Any, gs: Any) -> Any:
    turned = xp.swap_last(a)
    return pulled_directions(xp, lambda s: xp.expm_form(turned, s), g, xp.swap_last(gs))


def _push_directions(xp: Any, t: Any, y: Any, a: Any, gs: Any) -> Any:
    return pushed_directions(xp, lambda s: xp.expm_form(a, s), t, gs)


_expm = primitive(
    "expm", _expm_kernel,
    vjp=(lambda xp, g, y, a: xp.expm_form(xp.swap_last(a), as_direction(xp, g)),),
    jvp=(lambda xp, t, y, a: xp.expm_form(a, as_direction(xp, t)),),
    reads=((0,),), rounding=elimination(3, 1, whole=True, wide=True),
    samples=((((1, 1),), {}), (((2, 2),), {}), (((2, 1, 1),), {})),
    conventions=FACTORS,
)  # fmt: skip

_expm_form = primitive(
    "expm_form", _form_kernel,
    vjp=(
        lambda xp, g, y, a, gs: xp.expm_form(xp.swap_last(a), with_direction(xp, g, xp.swap_last(gs))),
        _pull_directions,
    ),
    jvp=(lambda xp, t, y, a, gs: xp.expm_form(a, with_direction(xp, t, gs)), _push_directions),
    reads=((0, 1), (0, 1)), rounding=elimination(4, 4, whole=True, wide=True),
    samples=((((1, 1), (1, 1, 1)), {}), (((1, 1), (2, 1, 1)), {}), (((2, 2), (1, 2, 2)), {})),
    conventions=FACTORS,
)  # fmt: skip


@diagnosed
def expm(input: Any, name: str | None = None) -> Tensor:
    """The matrix exponential: the sum of ``A^n / n!``.

    Parameters
    ----------
    input : tensor of floats or complex numbers, shape [..., n, n]

    Returns
    -------
    Tensor, shape [..., n, n]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the matrices are not square.

    Examples
    --------
    >>> tf.linalg.expm([[0.0, 1.0], [0.0, 0.0]]).numpy()
    array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    t = matrix_operand(input, "expm", square=True)
    if t._layout.complex:
        from gtape.ops.linalg.complex_factors import gathered, spread

        return gathered(_expm(spread(t)))
    return _expm(t)
