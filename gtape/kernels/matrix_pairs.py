"""Products of matrices in pairs of floats.

A matrix is cut into slices of so few bits that sums of products of two slices are exact, whatever the order in which
BLAS adds them (Ozaki, Ogita, Oishi and Rump, "Error-free transformations of matrix multiplication", 2012).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gtape.kernels.pairs import Pair, two_sum

__all__ = ["matmul_pairs"]


def matmul_pairs(a: Pair, b: Pair) -> Pair:
    """The product of two square matrices in pairs, with an error of about 2**-75 of the largest products.

    Parameters
    ----------
    a, b : pairs of arrays, shape (..., n, n)
        Away from overflow and underflow.
    """
    bits = (55 - math.ceil(math.log2(a[0].shape[-1]))) // 2
    a1, a2, a3 = _slices(a, bits, -1)
    b1, b2, b3 = _slices(b, bits, -2)
    middle, lost = two_sum(a1 @ b2, a2 @ b1)
    high, rest = two_sum(a1 @ b1, middle)
    # Left out: products of second and third slices.
    return two_sum(high, rest + (lost + (a2 @ b2 + (a1 @ b3 + a3 @ b1))))


def _slices(x: Pair, bits: int, axis: int) -> tuple[Any, Any, Any]:
    """The leading bits of a matrix, the next ones, and the rest; bits count from the largest element along an axis."""
    power = np.frexp(np.abs(x[0]).max(axis=axis, keepdims=True))[1]
    one = np.ldexp(1.5, power + 53 - bits)  # adding it rounds to a multiple of its last bit
    first = (x[0] + one) - one
    rest = x[0] - first
    two = np.ldexp(one, -bits)
    second = (rest + two) - two
    return first, second, (rest - second) + x[1]
