"""Mirrors of the scaled complement of erf, of the logarithms of tails, and of their derivatives."""

from __future__ import annotations

from typing import Any

import sympy as sp

from gtape.symbolic.mirrors.registry import scalar
from gtape.symbolic.special_functions import NormalDistribution, ScaledErfc


def _hazard_derivative(h: Any, x: Any, c: int, n: int) -> Any:
    """The n-th derivative of a density h divided by its tail, with h' = h (h - c x)."""
    t, r = sp.Dummy("t"), sp.Dummy("r")
    p: Any = r
    for _ in range(n):
        p = sp.expand(p.diff(t) + p.diff(r) * r * (r - c * t))
    return p.xreplace({t: x, r: h})


def _log_erfc_derivative(x: Any, n: int) -> Any:
    hazard = 2 * sp.exp(-(x**2)) / (sp.sqrt(sp.pi) * sp.erfc(x))
    return -_hazard_derivative(hazard, x, 2, n - 1)


def _log_ndtr_derivative(x: Any, n: int) -> Any:
    """The n-th derivative from the hazard at -x. Each derivative changes the sign once more."""
    hazard = sp.exp(-(x**2) / 2) / (sp.sqrt(2 * sp.pi) * NormalDistribution(x))
    return (-1) ** (n - 1) * _hazard_derivative(hazard, -x, 1, n - 1)


scalar("erfcx", lambda x: ScaledErfc(0, x))
scalar("erfcx_derivative", lambda x, n: ScaledErfc(n, x))
scalar("log_erfc", lambda x: sp.log(sp.erfc(x)))
scalar("log_erfc_derivative", _log_erfc_derivative)
scalar("log_ndtr", lambda x: sp.log(NormalDistribution(x)))
scalar("log_ndtr_derivative", _log_ndtr_derivative)
