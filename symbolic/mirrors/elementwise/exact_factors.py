"""Mirrors of products with exact fractions, roots and pi, and of means of two ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from gtape.symbolic.mirrors.registry import array


def _whole(n: Any) -> Any:
    """Integers of any width as Python integers."""
    return np.asarray(n).astype(int).astype(object)


def _over_root(W: Any, x: Any, *, n: float) -> Any:
    inside = sp.Rational(n)
    return W.divide(W.multiply(x, W.sqrt(inside.q)), W.sqrt(inside.p))


def _over_rest(W: Any, x: Any, *, rate: float) -> Any:
    left = 1 - sp.Rational(rate)
    return W.divide(W.multiply(x, left.q), left.p)


def _times_fraction(W: Any, x: Any, k: Any, *, n: float) -> Any:
    whole = sp.Rational(n)
    return W.divide(W.multiply(x, _whole(k) * int(whole.q)), whole.p)


array("between", lambda W, a, b, i, k, *, n: W.add(_times_fraction(W, a, i, n=n), _times_fraction(W, b, k, n=n)))
array("to_degrees", lambda W, x: W.divide(W.multiply(x, 180), W.pi))
array("to_radians", lambda W, x: W.divide(W.multiply(x, W.pi), 180))
array("over_root", _over_root)
array("over_rest", _over_rest)
array("over_roots", lambda W, x, n: W.divide(x, W.sqrt(_whole(n))))
array("times_fraction", _times_fraction)
