"""Mirrors of the circular functions, their inverses and slopes."""

from __future__ import annotations

from typing import Any

import sympy as sp

from gtape.symbolic.mirrors.registry import scalar
from gtape.symbolic.nth_derivatives import quadratic_power_derivative


def _tan_derivative(x: Any, n: int) -> Any:
    """The n-th derivative: with t = tan(x), apply d/dx = (1 + t²) d/dt n times to t."""
    t = sp.Dummy("t")
    p: Any = t
    for _ in range(n):
        p = sp.expand((1 + t**2) * p.diff(t))
    return p.subs(t, sp.tan(x))


scalar("sin", lambda x: sp.sin(x))
scalar("cos", lambda x: sp.cos(x))
scalar("tan", lambda x: sp.tan(x))
scalar("sec2", lambda x: 1 / sp.cos(x) ** 2)
scalar("tan_derivative", _tan_derivative)
scalar("asin", lambda x: sp.asin(x))
scalar("acos", lambda x: sp.acos(x))
scalar("rsqrt1m2", lambda x: 1 / sp.sqrt(1 - x**2))
scalar("atan", lambda x: sp.atan(x))
scalar("recip1p2", lambda x: 1 / (1 + x**2))
scalar("bent_power_derivative", lambda x, n, k: quadratic_power_derivative(x, n, k, 1))
scalar("inner_power_derivative", lambda x, n, k: quadratic_power_derivative(x, n, k, 1, -1))


def _sinc_derivative(x: Any, n: int) -> Any:
    """The n-th derivative by Leibniz's rule for sin(pi x) times 1/(pi x). At 0 the coefficient of the power series."""
    away = sum(
        sp.binomial(n, j)
        * sp.pi ** (j - 1)
        * (sp.sin(sp.pi * x), sp.cos(sp.pi * x), -sp.sin(sp.pi * x), -sp.cos(sp.pi * x))[j % 4]
        * (-1) ** (n - j)
        * sp.factorial(n - j)
        / x ** (n - j + 1)
        for j in range(n + 1)
    )
    at_zero = 0 if n % 2 else (-1) ** (n // 2) * sp.pi**n / (n + 1)
    return sp.Piecewise((at_zero, sp.Eq(x, 0)), (away, True))


scalar("sinc", lambda x: sp.Piecewise((1, sp.Eq(x, 0)), (sp.sin(sp.pi * x) / (sp.pi * x), True)))
scalar("sinc_derivative", _sinc_derivative)
