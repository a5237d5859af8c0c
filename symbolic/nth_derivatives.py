"""Textbook formulas for n-th derivatives that several mirrors use."""

from __future__ import annotations

from typing import Any

import sympy as sp
from sympy.functions.combinatorial.numbers import stirling

__all__ = ["logistic", "logistic_derivative", "quadratic_power_derivative"]


def logistic(x: Any) -> Any:
    """The logistic function 1 / (1 + exp(-x))."""
    return 1 / (1 + sp.exp(-x))


def logistic_derivative(x: Any, n: int) -> Any:
    """The n-th derivative of `logistic` as a polynomial in `logistic`, with Stirling numbers of the second kind."""
    s = logistic(x)
    return sum((-1) ** j * sp.factorial(j) * stirling(n + 1, j + 1) * s ** (j + 1) for j in range(n + 1))


def quadratic_power_derivative(x: Any, n: int, k: int, c: int, b: int = 1) -> Any:
    """The n-th derivative of f(x²), f(u) = (c + b u)^(-k/2): sum of n!/(j! (n-2j)!) (2x)^(n-2j) f^(n-j)(x²)."""
    half = sp.Rational(k, 2)
    u = c + b * x**2
    return sum(
        sp.Rational(sp.factorial(n), sp.factorial(j) * sp.factorial(n - 2 * j))
        * (2 * x) ** (n - 2 * j)
        * (-b) ** (n - j)
        * sp.rf(half, n - j)
        * u ** (-half - (n - j))
        for j in range(n // 2 + 1)
    )
