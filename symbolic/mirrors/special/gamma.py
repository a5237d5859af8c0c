"""Mirrors of the gamma family."""

from __future__ import annotations

import sympy as sp

from gtape.symbolic.mirrors.registry import scalar
from gtape.symbolic.special_functions import LogAbsGamma

scalar("lgamma", lambda x: LogAbsGamma(x))
scalar("digamma", lambda x: sp.polygamma(0, x))
scalar("digamma_derivative", lambda x, n: sp.polygamma(n, x))
scalar("polygamma", lambda a, x: sp.polygamma(a, x))
scalar("zeta", lambda x, q: sp.zeta(x, q))
scalar("zeta_derivative", lambda x, q, n: (-1) ** n * sp.Mul(*[x + j for j in range(n)]) * sp.zeta(x + n, q))
