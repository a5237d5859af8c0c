"""The matrix exponential and the family of its derivatives.

The derivatives of every order belong to one family of functions, which are symmetric and linear in the directions::

    expm_form(A, [G_1, ..., G_k]) = D^k exp(A)[G_1, ..., G_k]

The derivative by A has one more direction, the derivative by a direction replaces the direction, and the transpose is
the same function of the transposed matrices. A derivative is a block of the exponential of a larger matrix (Najfeld and
Havel, "Derivatives of the matrix exponential and their computation", 1995).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.declare.conventions import FACTORS
from gtape.declare.primitives import primitive
from gtape.declare.rounding import elimination
from gtape.kernels.lapack import check_square
from gtape.ops.linalg.determinant import as_direction, pulled_directions, pushed_directions, with_direction
from gtape.tensors.operands import matrix_operand
from gtape.tensors.tensor import Tensor

__all__ = ["expm"]

Array = Any


# ---------------------------------------------------------------------------------------------- kernels


# The numerator of the Padé approximation of degree 13, and the norm up to which its error is below one rounding.
_PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
    670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip
_REACH = 5.37
_MOST = 1100  # halvings, enough for matrices of the largest numbers


def _exponential(a: Array) -> Array:
    """The exponential by scaling and squaring (Higham, 2005).

    See "The scaling and squaring method for the matrix exponential revisited". SciPy is not used, because its formula
    for 2x2 matrices cancels.
    """
    good = np.isfinite(a).all(axis=(-2, -1), keepdims=True)
    with np.errstate(all="ignore"):
        if a.shape[-1] == 1:
            return np.where(good, np.exp(a), np.nan)
        a = np.where(good, a, 0.0)
        # A multiple of the unit matrix is taken out to make the rest smaller. Multiples of an eighth keep the
        # difference exact.
        middle = np.rint(8 * np.trace(a, axis1=-2, axis2=-1)[..., None, None] / a.shape[-1]) / 8
        middle = np.clip(middle, -500.0, 500.0)
        a = a - middle * np.eye(a.shape[-1])
        norm = np.abs(a).sum(axis=-2, keepdims=True).max(axis=-1, keepdims=True)
        halvings = np.clip(np.frexp(norm / _REACH)[1], 0, _MOST)
        x = np.ldexp(a, -halvings)
        b = [float(c) for c in _PADE]
        one = np.eye(a.shape[-1])
        x2 = x @ x
        x4 = x2 @ x2
        x6 = x4 @ x2
        odd = x @ (x6 @ (b[13] * x6 + b[11] * x4 + b[9] * x2) + b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * one)
        even = x6 @ (b[12] * x6 + b[10] * x4 + b[8] * x2) + b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * one
        made = np.linalg.solve(even - odd, even + odd)
        for i in range(int(halvings.max(initial=0))):
            made = np.where(i < halvings, made @ made, made)
            if not np.isfinite(made).any():
                break
        return np.where(good, made * np.exp(middle), np.nan)


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
    reads=((0,),), rounding=elimination(4, 4, whole=True, wide=True),
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
