"""Mirrors of exponentials and logarithms, and of their slopes."""

from __future__ import annotations

import sympy as sp

from gtape.symbolic.mirrors.registry import scalar

scalar("exp", lambda x: sp.exp(x))
scalar("expm1", lambda x: sp.exp(x) - 1)
scalar("exp2", lambda x: sp.Integer(2) ** x)
scalar("exp2_derivative", lambda x, n: sp.log(2) ** n * sp.Integer(2) ** x)
scalar("log", lambda x: sp.log(x))
scalar("log_slope", lambda x: 1 / x)
scalar("log_turns", lambda x: sp.log(2 * sp.pi * x))
scalar("log2", lambda x: sp.log(x) / sp.log(2))
scalar("log2_slope", lambda x: 1 / (x * sp.log(2)))
scalar("log10", lambda x: sp.log(x) / sp.log(10))
scalar("log10_slope", lambda x: 1 / (x * sp.log(10)))
scalar("log1p", lambda x: sp.log(1 + x))
scalar("log1p_slope", lambda x: 1 / (1 + x))
scalar("recip1p_power", lambda x, n: (1 + x) ** -n)
