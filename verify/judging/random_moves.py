"""Random directions in which the elements of arguments move, to both sides and by shares of one size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["random_moves", "random_signs"]


def random_moves(x: Any, rng: np.random.Generator) -> Any:
    """The move of each element of an array.

    Parameters
    ----------
    x : floating or complex array
    rng : numpy.random.Generator

    Returns
    -------
    array, shape of `x`
        Numbers of either sign, of sizes from 0.5 to 1. The real and the imaginary part of a complex number have moves
        of their own, because a function may read one part alone.

    Examples
    --------
    >>> moves = random_moves(np.zeros(3, np.complex64), np.random.default_rng(0))
    >>> bool((moves.real != 0).all() and (moves.imag != 0).all())
    True
    """
    return _of_parts(x, lambda: rng.uniform(0.5, 1.0, x.shape) * rng.choice([-1.0, 1.0], x.shape))


def random_signs(x: Any, rng: np.random.Generator) -> Any:
    """A sign for each element of an array; for complex numbers, one of each part.

    Examples
    --------
    >>> np.abs(random_signs(np.zeros(3), np.random.default_rng(0)))
    array([1., 1., 1.])
    """
    return _of_parts(x, lambda: rng.choice([-1.0, 1.0], x.shape))


def _of_parts(x: Any, draw: Callable[[], Any]) -> Any:
    part = draw()
    return part + 1j * draw() if x.dtype.kind == "c" else part
