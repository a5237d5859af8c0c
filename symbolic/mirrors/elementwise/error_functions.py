"""Mirrors of the error functions and their derivatives."""

from __future__ import annotations

import sympy as sp

from gtape.symbolic.mirrors.registry import scalar

scalar("erf", lambda x: sp.erf(x))
scalar("erfc", lambda x: sp.erfc(x))
scalar("erf_derivative", lambda x, n: 2 / sp.sqrt(sp.pi) * (-1) ** (n - 1) * sp.hermite(n - 1, x) * sp.exp(-(x**2)))
