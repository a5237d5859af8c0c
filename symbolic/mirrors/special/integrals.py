"""Mirrors of functions that are integrals, and of their derivatives."""

from __future__ import annotations

from typing import Any

import sympy as sp

from gtape.symbolic.mirrors.registry import scalar
from gtape.symbolic.special_functions import Dawson, DawsonDerivative, Spence

scalar("dawsn", lambda x: Dawson(x))
scalar("dawsn_derivative", lambda x, n: DawsonDerivative(n, x))

scalar("expint", lambda x: sp.Ei(x))


def _ei_derivative(x: Any, n: int) -> Any:
    """The n-th derivative by Leibniz's rule for exp(x) times 1/x."""
    terms = [(-1) ** k * sp.binomial(n - 1, k) * sp.factorial(k) * x ** -(k + 1) for k in range(n)]
    return sp.exp(x) * sp.Add(*terms)


scalar("expint_derivative", _ei_derivative)

scalar("fresnel_sin", lambda x: sp.fresnels(x))
scalar("fresnel_cos", lambda x: sp.fresnelc(x))


def _wave(x: Any, n: int, quarter: int) -> Any:
    """The n-th derivative of the sine of a square: sum of n!/(j! (n-2j)!) (pi/2)^(n-j) (2x)^(n-2j) sin^(n-j)."""
    angle = sp.pi * x**2 / 2
    turns = (sp.sin(angle), sp.cos(angle), -sp.sin(angle), -sp.cos(angle))
    return sp.Add(
        *[
            sp.factorial(n)
            / (sp.factorial(j) * sp.factorial(n - 2 * j))
            * (sp.pi / 2) ** (n - j)
            * (2 * x) ** (n - 2 * j)
            * turns[(n - j + quarter) % 4]
            for j in range(n // 2 + 1)
        ]
    )


scalar("fresnel_wave", _wave)

scalar("spence", lambda x: sp.Piecewise((sp.Integer(0), sp.Eq(x, 1)), (Spence(x), True)))


def _spence_derivative(x: Any, n: int) -> Any:
    """The remainder of a logarithm's series: log(x) minus its first n - 1 terms in u = 1 - 1/x."""
    u = (x - 1) / x
    rest = sp.log(x) - sp.Add(*[u**k / k for k in range(1, n)])
    away = (-1) ** n * sp.factorial(n - 1) * rest / (x - 1) ** n
    return sp.Piecewise((sp.Rational((-1) ** n * sp.factorial(n - 1), n), sp.Eq(x, 1)), (away, True))


scalar("spence_derivative", _spence_derivative)
