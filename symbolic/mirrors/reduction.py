"""Mirrors of the reductions: textbook sums, means, extrema, and the logarithm of a sum of exponentials."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.mirrors.registry import array


def _sum(W: Any, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return W.objects(np.add.reduce(W.objects(x), axis=axis, keepdims=keepdims))  # type: ignore[call-overload]


def _center(W: Any, x: Any, *, axis: tuple[int, ...]) -> Any:
    x = W.objects(x)
    n = 1
    for a in axis:
        n *= x.shape[a]
    return x - W.divide(_sum(W, x, axis, True), n)


def _share(W: Any, x: Any, extreme: Any, axis: tuple[int, ...]) -> Any:
    """One over the number of elements that equal the extreme, at those; 0 elsewhere."""
    chosen = np.asarray(W.equal(x, extreme)).astype(int)
    return W.divide(chosen, np.add.reduce(chosen, axis=axis, keepdims=True))


def _logsumexp(W: Any, x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Any:
    return W.log(_sum(W, W.exp(x), axis, keepdims))


def _logsumexp_slope(W: Any, x: Any, *, axis: tuple[int, ...]) -> Any:
    e = W.exp(x)
    return W.divide(e, _sum(W, e, axis, True))


def _spread_out(x: Any, shape: tuple[int, ...], axis: tuple[int, ...], keepdims: bool) -> Any:
    x = np.asarray(x, dtype=object)
    if not keepdims:
        # Put the reduced axes back one by one, counted in the final shape.
        lead = x.ndim - (len(shape) - len(axis))
        for a in sorted(a % len(shape) for a in axis):
            x = np.expand_dims(x, lead + a)
    return np.broadcast_to(x, x.shape[: x.ndim - len(shape)] + tuple(shape))


def _count(x: Any, axis: tuple[int, ...]) -> int:
    return int(np.prod([np.shape(x)[a] for a in axis], dtype=int))


array("sum", lambda W, x, *, axis, keepdims: _sum(W, x, axis, keepdims))
array("center", _center)
array("max", lambda W, x, *, axis, keepdims: W.max_along(x, axis, keepdims))
array("min", lambda W, x, *, axis, keepdims: W.min_along(x, axis, keepdims))
array("max_share", lambda W, x, *, axis: _share(W, x, W.max_along(x, axis, True), axis))
array("min_share", lambda W, x, *, axis: _share(W, x, W.min_along(x, axis, True), axis))
array("logsumexp", _logsumexp)
array("logsumexp_slope", _logsumexp_slope)
array(
    "any",
    lambda W, x, *, axis, keepdims: np.logical_or.reduce(np.asarray(x).astype(bool), axis=axis, keepdims=keepdims),
)
array(
    "all",
    lambda W, x, *, axis, keepdims: np.logical_and.reduce(np.asarray(x).astype(bool), axis=axis, keepdims=keepdims),
)
array("argmax", lambda W, x, *, axis: np.take(W.order_along(x, axis, descending=True), 0, axis=axis))
array("argmin", lambda W, x, *, axis: np.take(W.order_along(x, axis), 0, axis=axis))
array("spread_out", lambda W, x, *, shape, axis, keepdims: _spread_out(x, shape, axis, keepdims))
array("reduce_mean", lambda W, x, *, axis, keepdims: W.divide(_sum(W, x, axis, keepdims), W.exact(_count(x, axis))))
