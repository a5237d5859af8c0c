"""Mirrors of the gamma family."""

from __future__ import annotations

import sympy as sp

from gtape.symbolic.mirrors.registry import scalar
from gtape.symbolic.special_functions import ConvergentZeta, LogAbsGamma, zeta_derivative

scalar("lgamma", lambda x: LogAbsGamma(x))
scalar("digamma", lambda x: sp.polygamma(0, x))
scalar("digamma_derivative", lambda x, n: sp.polygamma(n, x))
scalar("polygamma", lambda a, x: sp.polygamma(a, x))
scalar("zeta", lambda x, q: ConvergentZeta(x, q))
scalar("zeta_derivative", lambda x, q, m, n: zeta_derivative(x, q, m, n))
