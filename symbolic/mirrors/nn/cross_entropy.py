"""Mirrors of the cross entropy of a sigmoid, and of its slope."""

from __future__ import annotations

import sympy as sp

from gtape.symbolic.mirrors.registry import scalar

scalar("sigmoid_error", lambda z, x: 1 / (1 + sp.exp(-x)) - z)
scalar("sigmoid_cross_entropy", lambda z, x: sp.log(1 + sp.exp(x)) - x * z)
