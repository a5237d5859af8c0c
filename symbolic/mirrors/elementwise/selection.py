"""Mirrors of ops that choose. At a kink, the branch that holds there gives the derivative by convention."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from gtape.symbolic.mirrors.registry import array, scalar

_0, _1 = sp.Integer(0), sp.Integer(1)


def _mask(condition: Any) -> sp.Expr:
    return sp.Piecewise((_1, condition), (_0, True))


scalar("sign", lambda x: sp.Piecewise((_1, x > 0), (-_1, x < 0), (_0, True)))
scalar("abs", lambda x: sp.Piecewise((x, x > 0), (-x, x < 0), (_0, True)))
scalar("relu", lambda x: sp.Piecewise((x, x > 0), (_0, True)))
scalar("relu6", lambda x: sp.Piecewise((_0, x <= 0), (sp.Integer(6), x >= 6), (x, True)))
scalar("relu6_slope", lambda x: _mask(sp.And(x > 0, x < 6)))
scalar("leaky_relu", lambda x, *, alpha=0.2: sp.Piecewise((x, x > 0), (sp.Rational(alpha) * x, True)))
scalar("leaky_relu_slope", lambda x, *, alpha=0.2: sp.Piecewise((_1, x > 0), (sp.Rational(alpha), True)))
scalar("hard_sigmoid", lambda x: sp.Piecewise((_0, x <= -3), (_1, x >= 3), ((x + 3) / 6, True)))
scalar("hard_sigmoid_slope", lambda x: sp.Piecewise((sp.Rational(1, 6), sp.And(x > -3, x < 3)), (_0, True)))

scalar("maximum", lambda x, y: sp.Piecewise((x, x >= y), (y, True)))
scalar("minimum", lambda x, y: sp.Piecewise((x, x <= y), (y, True)))
scalar("maximum_slope", lambda x, y: _mask(x >= y))
scalar("minimum_slope", lambda x, y: _mask(x <= y))
array("where", lambda W, condition, x, y: np.where(condition, x, y))

scalar(
    "clip_by_value",
    lambda x, low, high: sp.Piecewise((low, sp.Or(x < low, high < low)), (high, x > high), (x, True)),
)
scalar("clip_inside", lambda x, low, high: _mask(sp.And(low <= x, x <= high)))
scalar("clip_below", lambda x, low, high: _mask(sp.Or(x < low, high < low)))
scalar("clip_above", lambda x, low, high: _mask(sp.And(x > high, low <= high)))
