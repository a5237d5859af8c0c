"""Mirrors of the hyperbolic functions, their inverses and slopes."""

from __future__ import annotations

from typing import Any

import sympy as sp

from gtape.symbolic.mirrors.registry import scalar
from gtape.symbolic.nth_derivatives import logistic_derivative, quadratic_power_derivative

_Z = sp.Dummy("z")


def _principal(k: int) -> Any:
    """((z - 1) (z + 1))**(-1/2) on the principal branch of acosh for an odd k, else 1."""
    return 1 / (sp.sqrt(_Z - 1) * sp.sqrt(_Z + 1)) if k % 2 else sp.Integer(1)


scalar("sinh", lambda x: sp.sinh(x))
scalar("cosh", lambda x: sp.cosh(x))
scalar("tanh", lambda x: sp.tanh(x))
scalar("sech2", lambda x: 1 / sp.cosh(x) ** 2)
scalar("tanh_curve", lambda x: -2 * sp.sinh(x) / sp.cosh(x) ** 3)
scalar("tanh_derivative", lambda x, n: 2 ** (n + 1) * logistic_derivative(2 * x, n))
scalar("asinh", lambda x: sp.asinh(x))
scalar("rsqrt1p2", lambda x: 1 / sp.sqrt(1 + x**2))
scalar("acosh", lambda x: sp.acosh(x))
scalar("acosh_slope", lambda x: 1 / sp.sqrt(x**2 - 1), complex=lambda z: 1 / (sp.sqrt(z - 1) * sp.sqrt(z + 1)))
scalar("atanh", lambda x: sp.atanh(x))
scalar("recip1m2", lambda x: 1 / (1 - x**2))
scalar(
    "steep_power_derivative",
    lambda x, n, k: quadratic_power_derivative(x, n, k, -1),
    complex=lambda z, n, k: sp.diff(((_Z - 1) * (_Z + 1)) ** -(k // 2) * _principal(k), _Z, n).xreplace({_Z: z}),
)
