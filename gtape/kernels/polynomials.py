"""Polynomials with integer coefficients, and common parts of the kernels of derivatives of every order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gtape.kernels.pair_functions import exact
from gtape.kernels.pairs import Pair

ONE: Pair = (1.0, 0.0)
Poly = tuple[int, ...]  # lowest coefficient first
SMALL = 2.0**-332  # below, an odd function is its slope at 0 times x, and the low parts of products would underflow


def times(p: Poly, q: Poly) -> Poly:
    """The product of two polynomials."""
    out = [0] * (len(p) + len(q) - 1)
    for i, a in enumerate(p):
        for j, b in enumerate(q):
            out[i + j] += a * b
    return tuple(out)


def slope(p: Poly) -> Poly:
    """The derivative of a polynomial."""
    return tuple(i * c for i, c in enumerate(p))[1:] or (0,)


def plus(p: Poly, q: Poly, k: int = 1) -> Poly:
    """The polynomial p + k q without leading zeros."""
    size = max(len(p), len(q))
    out = [a + k * b for a, b in zip(p + (0,) * (size - len(p)), q + (0,) * (size - len(q)), strict=True)]
    while len(out) > 1 and out[-1] == 0:
        out.pop()
    return tuple(out)


def exactly(p: Sequence[int]) -> list[Pair]:
    """The coefficients as pairs."""
    return [exact(c) for c in p]


def odd_kernel(core: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of an odd function of x, from its kernel for abs(x)."""

    def kernel(x: Any, *params: Any) -> Any:
        a = np.abs(x)
        value = core(np.where(a < SMALL, SMALL, a), *params)
        value = np.where(a < SMALL, value * (a / SMALL), value)
        return np.where(np.signbit(x), -value, value)

    return kernel
