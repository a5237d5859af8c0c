"""Mirrors of extrema, of the shares of tied elements, and of the extrema's places."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.mirrors.registry import array


def _share(W: Any, x: Any, extreme: Any, axis: tuple[int, ...]) -> Any:
    """1/n at the n elements that equal the extreme, and 0 elsewhere."""
    chosen = np.asarray(W.equal(x, extreme)).astype(int)
    return W.divide(chosen, np.add.reduce(chosen, axis=axis, keepdims=True))


array("max", lambda W, x, *, axis, keepdims: W.max_along(x, axis, keepdims))
array("min", lambda W, x, *, axis, keepdims: W.min_along(x, axis, keepdims))
array("max_share", lambda W, x, *, axis: _share(W, x, W.max_along(x, axis, True), axis))
array("min_share", lambda W, x, *, axis: _share(W, x, W.min_along(x, axis, True), axis))
array("argmax", lambda W, x, *, axis: np.take(W.order_along(x, axis, descending=True), 0, axis=axis))
array("argmin", lambda W, x, *, axis: np.take(W.order_along(x, axis), 0, axis=axis))
