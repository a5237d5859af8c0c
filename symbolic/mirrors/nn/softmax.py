"""Mirrors of softmax and its relatives, as textbooks write them."""

from __future__ import annotations

from typing import Any

from gtape.symbolic.balls import objects
from gtape.symbolic.mirrors.registry import array


def _softmax(W: Any, x: Any, *, axis: int) -> Any:
    e = W.exp(x)
    return W.divide(e, W.sum_along(e, axis, True))


def _cross_entropy(W: Any, labels: Any, logits: Any, *, axis: int) -> Any:
    terms = objects(labels) * W.log(_softmax(W, logits, axis=axis))
    return -W.sum_along(terms, axis)


array("softmax", _softmax)
array("log_softmax", lambda W, x, *, axis: W.log(_softmax(W, x, axis=axis)))
array("softmax_center", lambda W, x, g, *, axis: g - W.sum_along(_softmax(W, x, axis=axis) * g, axis, True))
array("softmax_spread", lambda W, x, h, *, axis: h - _softmax(W, x, axis=axis) * W.sum_along(h, axis, True))
array("cross_entropy", _cross_entropy)
