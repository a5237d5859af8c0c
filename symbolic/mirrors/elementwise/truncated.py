"""Mirrors of division towards zero."""

from __future__ import annotations

import sympy as sp

from gtape.symbolic.mirrors.registry import scalar


def _towards_zero(x: sp.Expr, y: sp.Expr) -> sp.Expr:
    return sp.Piecewise((sp.floor(x / y), x / y >= 0), (-sp.floor(-x / y), True))


scalar("truncatediv", _towards_zero)
scalar("truncatemod", lambda x, y: x - y * _towards_zero(x, y))
scalar("truncatemod_dy", lambda x, y: -_towards_zero(x, y))
