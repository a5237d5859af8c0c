"""Products of matrices in pairs of floats."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gtape.kernels.pairs import Pair, two_product, two_sum

__all__ = ["matmul_pairs"]

_SMALL = 16  # rows up to which all products of elements are taken at once


def matmul_pairs(a: Pair, b: Pair) -> Pair:
    """The product of two square matrices in pairs.

    The error of a small product is about 2**-100 of the sum of the magnitudes of its terms. The error of a large one is
    at most that of floats, and about 2**-75 of the largest terms where elements of a row or column are of similar size.

    Parameters
    ----------
    a, b : pairs of arrays, shape (..., n, n)
        Of magnitudes below 2**990, because their parts must not overflow.
    """
    return _by_elements(a, b) if a[0].shape[-1] <= _SMALL else _by_slices(a, b)


def _by_elements(a: Pair, b: Pair) -> Pair:
    """All products of elements with their rounding errors, added in pairs."""
    left, right = [(m[..., :, :, None]) for m in a], [(m[..., None, :, :]) for m in b]
    high, rest = two_product(left[0], right[0])
    low = rest + (left[0] * right[1] + left[1] * right[0])
    while high.shape[-2] > 1:
        half = high.shape[-2] // 2
        added, lost = two_sum(high[..., :half, :], high[..., half : 2 * half, :])
        kept = high[..., 2 * half :, :]
        low = np.concatenate([low[..., :half, :] + low[..., half : 2 * half, :] + lost, low[..., 2 * half :, :]], -2)
        high = np.concatenate([added, kept], -2)
    return two_sum(high[..., 0, :], low[..., 0, :])


def _by_slices(a: Pair, b: Pair) -> Pair:
    """Products of slices of so few bits that the sums of two leading slices are exact in any order of BLAS.

    See Ozaki, Ogita, Oishi and Rump, "Error-free transformations of matrix multiplication" (2012).
    """
    bits = (55 - math.ceil(math.log2(a[0].shape[-1]))) // 2
    a1, a2, a3 = _slices(a, bits, -1)
    b1, b2, b3 = _slices(b, bits, -2)
    middle, lost = two_sum(a1 @ b2, a2 @ b1)
    high, rest = two_sum(a1 @ b1, middle)
    return two_sum(high, rest + (lost + (a2 @ (b2 + b3) + (a1 @ b3 + a3 @ (b[0] + b[1])))))


def _slices(x: Pair, bits: int, axis: int) -> tuple[Any, Any, Any]:
    """The leading bits of a matrix, the next ones, and the rest; bits count from the largest element along an axis."""
    power = np.frexp(np.abs(x[0]).max(axis=axis, keepdims=True))[1]
    one = np.ldexp(1.5, power + 53 - bits)  # adding it rounds to a multiple of its last bit
    first = (x[0] + one) - one
    rest = x[0] - first
    two = np.ldexp(one, -bits)
    second = (rest + two) - two
    return first, second, (rest - second) + x[1]
