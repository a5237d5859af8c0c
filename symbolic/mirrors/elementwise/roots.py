"""Mirrors of powers and roots, and of their slopes."""

from __future__ import annotations

from typing import Any

import sympy as sp

from gtape.symbolic.mirrors.registry import scalar

scalar("square", lambda x: x**2)
scalar("sqrt", lambda x: sp.sqrt(x))
scalar("sqrt_slope", lambda x: 1 / (2 * sp.sqrt(x)))
scalar("rsqrt", lambda x: 1 / sp.sqrt(x))
scalar("rsqrt_derivative", lambda x, n: sp.ff(-sp.Rational(1, 2), n) / (x**n * sp.sqrt(x)))
scalar("reciprocal", lambda x: 1 / x)
_THIRD = sp.Rational(1, 3)
scalar("cbrt", lambda x: sp.Piecewise((x**_THIRD, x >= 0), (-((-x) ** _THIRD), True)))
scalar("cbrt_slope", lambda x: sp.Piecewise((x ** (-2 * _THIRD) / 3, x >= 0), ((-x) ** (-2 * _THIRD) / 3, True)))


def _cbrt_derivative(x: Any, n: int) -> Any:
    """The n-th derivative: a falling factorial of 1/3 times a power. The cube root is odd."""
    value = sp.ff(_THIRD, n)
    return sp.Piecewise((value * x ** (_THIRD - n), x >= 0), ((-1) ** (n + 1) * value * (-x) ** (_THIRD - n), True))


scalar("cbrt_derivative", _cbrt_derivative)
