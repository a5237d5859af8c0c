"""Mirrors of the logarithm of a sum of exponentials, and of its slope."""

from __future__ import annotations

from typing import Any

from gtape.symbolic.mirrors.registry import array


def _slope(W: Any, x: Any, *, axis: tuple[int, ...], shared: bool) -> Any:
    e = W.exp(x)
    return W.divide(e, W.sum_along(e, axis, True))


array("logsumexp", lambda W, x, *, axis, keepdims: W.log(W.sum_along(W.exp(x), axis, keepdims)))
array("logsumexp_slope", _slope)
