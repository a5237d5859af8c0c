"""Textbook definitions of the incomplete gamma and beta functions and of their densities' derivatives."""

from __future__ import annotations

from gtape.symbolic.mirrors.registry import scalar
from gtape.symbolic.special_functions import (
    IncompleteBeta,
    IncompleteGamma,
    IncompleteGammaRest,
    beta_density_with_rims,
    gamma_density_with_rim,
)

__all__: list[str] = []

scalar("igamma", lambda a, x: IncompleteGamma(0, a, x))
scalar("igammac", lambda a, x: IncompleteGammaRest(a, x))
scalar("igamma_order_derivative", lambda a, x, m: IncompleteGamma(m, a, x))
scalar("gamma_density_derivative", lambda a, x, m, n: gamma_density_with_rim(a, x, m, n))


scalar("betainc", lambda a, b, x: IncompleteBeta(0, 0, a, b, x))
scalar("betainc_order_derivative", lambda a, b, x, p, q: IncompleteBeta(p, q, a, b, x))
scalar("beta_density_derivative", lambda a, b, x, p, q, n: beta_density_with_rims(a, b, x, p, q, n))
