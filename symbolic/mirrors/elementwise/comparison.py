"""Mirrors of comparisons and rounding. Truth values stay plain NumPy arrays in every world."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import sympy as sp
from flint import arb

from gtape.symbolic.mirrors.registry import array, scalar

scalar("equal", lambda x, y: sp.Eq(x, y))
scalar("not_equal", lambda x, y: sp.Ne(x, y))
scalar("less", lambda x, y: x < y)
scalar("less_equal", lambda x, y: x <= y)
scalar("greater", lambda x, y: x > y)
scalar("greater_equal", lambda x, y: x >= y)

array("logical_and", lambda W, x, y: np.logical_and(x, y))
array("logical_or", lambda W, x, y: np.logical_or(x, y))
array("logical_xor", lambda W, x, y: np.logical_xor(x, y))
array("logical_not", lambda W, x: np.logical_not(x))


def _each(test: Callable[[arb], bool], otherwise: bool) -> Callable[..., np.ndarray]:
    """An elementwise test of enclosures (balls). Expressions and jets count as finite numbers."""
    vectorised = np.vectorize(lambda v: test(v) if isinstance(v, arb) else otherwise, otypes=[bool])
    return lambda W, x: vectorised(x)


array("is_nan", _each(lambda v: v.is_nan(), False))
array("is_inf", _each(lambda v: not v.is_nan() and not v.is_finite(), False))
array("is_finite", _each(lambda v: v.is_finite(), True))

scalar("floor", lambda x: sp.floor(x))
scalar("ceil", lambda x: sp.ceiling(x))
scalar("floordiv", lambda x, y: sp.floor(x / y))


def _rint(x: sp.Expr) -> sp.Expr:
    # The only comparisons are at k + 1/2, because enclosures of a whole number that is computed stay open at it.
    shifted = x + sp.Rational(1, 2)
    nearest = sp.floor(shifted)
    even = 2 * sp.floor(nearest / 2)  # the even one of two neighbours
    return sp.Piecewise((even, sp.Eq(shifted, nearest)), (nearest, True))


scalar("rint", _rint)
