"""Textbook definitions of the incomplete gamma and beta functions and of their densities' derivatives."""

from __future__ import annotations

from typing import Any

import sympy as sp

from gtape.symbolic.mirrors.registry import scalar
from gtape.symbolic.special_functions import IncompleteBeta, IncompleteGamma, IncompleteGammaRest, gamma_density

__all__: list[str] = []

scalar("igamma", lambda a, x: IncompleteGamma(0, a, x))
scalar("igammac", lambda a, x: IncompleteGammaRest(a, x))
scalar("igamma_order_derivative", lambda a, x, m: IncompleteGamma(m, a, x))
scalar("gamma_density_derivative", lambda a, x, m, n: gamma_density(a, x, m, n))


def _beta_density(a: Any, b: Any, x: Any, n: int) -> Any:
    """Leibniz's rule for x^(a-1) times (1-x)^(b-1), over B(a, b)."""
    terms = [
        sp.binomial(n, k) * sp.ff(a - 1, k) * x ** (a - 1 - k) * (-1) ** (n - k) * sp.ff(b - 1, n - k)
        * (1 - x) ** (b - 1 - (n - k))
        for k in range(n + 1)
    ]  # fmt: skip
    return sp.Add(*terms) / sp.beta(a, b)


scalar("betainc", lambda a, b, x: IncompleteBeta(a, b, x))
scalar("beta_density_derivative", _beta_density)
