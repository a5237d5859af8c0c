"""Gamma draws as a function of their shape parameter at fixed probability."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gtape.declare.domains import Domain, Interval
from gtape.declare.primitives import REGISTRY, elementwise
from gtape.declare.rounding import ulps
from gtape.kernels.random_gamma import gamma_draw, gamma_draw_slope
from gtape.tensors.tensor import Tensor, wrap

NAMESPACES = ()

__all__: list[str] = []


def _away_from_roots(least: float) -> Domain:
    """The domain in which derivatives keep 4 ULP. The op is defined for all a > 0 and all z.

    The second derivative is -z / (4 a^1.5) + 1 / (25 a^3) plus smaller terms. Near its root the terms cancel, as do
    those of the third derivative. From a = 50 on, a series keeps all digits.
    """
    return Domain(
        Interval(0.125, 64.0),
        Interval(-6.0, 6.0),
        where=lambda a, z: (a >= 50.0 and abs(z) <= 0.5 * a**0.5) or abs(z - 0.16 * a**-1.5) >= least * a**1.5,
    )


def _cancelled_terms(a: Any, z: Any, *, order: int) -> Any:
    """The error of derivatives from the second order on: terms near 1, held in 64 bits, nearly cancel for large a."""
    return 0.0 if order < 2 else 2.0**-60 * math.factorial(order - 1) * np.maximum(a, 1.0) ** (2 - order)


# No gradient flows to z, because z is noise and a recorded constant.
_gamma_draw = elementwise(
    "gamma_draw",
    gamma_draw,
    (lambda xp, y, a, z: xp.gamma_draw_slope(a, z, order=1), None),
    arguments=("a", "z"),
    missing=(1,),
    domain=_away_from_roots(0.008),
    special=(1.0, 50.0),
    ulps=256.0,
    limit=4500.0,  # the second derivative loses digits near its root: 1e-12
)
_gamma_draw_slope = elementwise(
    "gamma_draw_slope",
    gamma_draw_slope,
    (lambda xp, y, a, z, *, order: xp.gamma_draw_slope(a, z, order=order + 1), None),
    params=("order",),
    arguments=("a", "z"),
    missing=(1,),
    domain=_away_from_roots(0.1),
    special=(1.0,),
    rounding=ulps(2, noise=_cancelled_terms),
    limit=4500.0,  # derivatives from the third on: 1e-12
)


def reparametrised(alpha: Tensor, noise: Any) -> Tensor:
    """The gamma draws at the quantiles of the standard normal numbers `noise`. `alpha` broadcasts to their shape."""
    return REGISTRY["gamma_draw"](alpha, wrap(noise))
