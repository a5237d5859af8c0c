"""Mirrors of the inverse error functions and their derivatives."""

from __future__ import annotations

from typing import Any

import sympy as sp

from gtape.symbolic.mirrors.registry import scalar


def _inverse_derivative(y: Any, slope: Any, c: int, n: int) -> Any:
    """The n-th derivative of an inverse function y with y' = slope exp(c y²/2), so that y'' = c y (y')²."""
    t = sp.Dummy("t")
    p: Any = sp.Integer(1)
    for k in range(1, n):
        p = sp.expand(p.diff(t) + k * c * t * p)
    return p.subs(t, y) * slope**n * sp.exp(sp.Rational(n * c, 2) * y**2)


_HALF_ROOT_PI = sp.sqrt(sp.pi) / 2
scalar("erfinv", lambda x: sp.erfinv(x))
scalar("erfinv_derivative", lambda x, n: _inverse_derivative(sp.erfinv(x), _HALF_ROOT_PI, 2, n))
scalar("erfcinv", lambda x: sp.erfcinv(x))
scalar("erfcinv_derivative", lambda x, n: _inverse_derivative(sp.erfcinv(x), -_HALF_ROOT_PI, 2, n))


def _quantile(x: Any) -> Any:
    return -sp.sqrt(2) * sp.erfcinv(2 * x)


scalar("ndtri", _quantile)
scalar("ndtri_derivative", lambda x, n: _inverse_derivative(_quantile(x), sp.sqrt(2 * sp.pi), 1, n))
