"""Mirrors of powers and roots in units that are powers of two."""

from __future__ import annotations

from typing import Any

import sympy as sp

from gtape.symbolic.mirrors.registry import scalar


def _derivative(x: Any, unit: Any, scale: Any, exponent: Any, n: int) -> Any:
    factor = sp.ff(exponent, n)
    if factor == 0:
        return sp.Integer(0)
    return factor * (x * sp.Integer(2) ** -unit) ** (exponent - n) * sp.Integer(2) ** (scale - n * unit)


scalar("power_in_units", lambda x, unit, scale, p, n: _derivative(x, unit, scale, sp.Rational(p), n))
scalar("root_in_units", lambda x, unit, scale, p, n: _derivative(x, unit, scale, 1 / sp.Rational(p), n))
