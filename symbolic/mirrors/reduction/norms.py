"""Mirrors of the Euclidean norm, of a vector divided by its norm, and of the slope of this quotient."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.mirrors.registry import array


def _norm(W: Any, x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Any:
    x = W.objects(x)
    if not axis:
        return W.abs(x)
    squares = W.sum_along(x * x, axis, True)
    zero = W.equal(squares, 0)
    # One element has the kink of abs. A longer vector has the gradient 0 at 0, because the branch there is constant.
    length = W.where(zero, 0, W.sqrt(W.where(zero, 1, squares)))
    return length if keepdims else np.squeeze(length, axis=axis)


def _unit_vector(W: Any, x: Any, *, axis: tuple[int, ...]) -> Any:
    x = W.objects(x)
    if not axis:
        return W.sign(x)
    length = np.broadcast_to(_norm(W, x, axis=axis, keepdims=True), x.shape)
    zero = W.equal(length, 0)
    return W.where(zero, 0, W.divide(x, W.where(zero, 1, length)))


def _unit_slope(W: Any, x: Any, t: Any, *, axis: tuple[int, ...]) -> Any:
    x, t = W.objects(x), W.objects(t)
    if not axis:
        return 0 * t
    u = _unit_vector(W, x, axis=axis)
    length = np.broadcast_to(_norm(W, x, axis=axis, keepdims=True), x.shape)
    zero = W.equal(length, 0)
    across = t - u * W.sum_along(u * t, axis, True)
    return W.where(zero, 0, W.divide(across, W.where(zero, 1, length)))


array("norm", _norm)
array("unit_slope", _unit_slope)
array("unit_vector", _unit_vector)
