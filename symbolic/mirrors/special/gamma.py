"""Mirrors of the gamma family."""

from __future__ import annotations

from typing import Any

import sympy as sp

from gtape.symbolic.mirrors.registry import scalar
from gtape.symbolic.special_functions import HurwitzZeta, LogAbsGamma

scalar("lgamma", lambda x: LogAbsGamma(x))
scalar("digamma", lambda x: sp.polygamma(0, x))
scalar("digamma_derivative", lambda x, n: sp.polygamma(n, x))
scalar("polygamma", lambda a, x: sp.polygamma(a, x))


def _zeta_derivative(x: Any, q: Any, m: int, n: int) -> Any:
    """(-1)^n x (x+1) ... (x+n-1) zeta(x+n, q), the n-th derivative in q, differentiated m times in x."""
    value = (-1) ** n * sp.Mul(*[x + j for j in range(n)]) * HurwitzZeta(0, x + n, q)
    for _ in range(m):
        value = sp.expand(value.diff(x))
    return value


scalar("zeta", lambda x, q: HurwitzZeta(0, x, q))
scalar("zeta_derivative", _zeta_derivative)
