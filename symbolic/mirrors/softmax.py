"""Mirrors of softmax and its relatives, as textbooks write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.mirrors.registry import array


def _total(x: Any, axis: int) -> Any:
    x = np.asarray(x, dtype=object)
    return np.asarray(np.add.reduce(x, axis=axis, keepdims=True), dtype=object)


def _softmax(W: Any, x: Any, *, axis: int) -> Any:
    e = W.exp(x)
    return e / _total(e, axis)


def _cross_entropy(W: Any, labels: Any, logits: Any, *, axis: int) -> Any:
    terms = np.asarray(labels, dtype=object) * W.log(_softmax(W, logits, axis=axis))
    return -np.asarray(np.add.reduce(terms, axis=axis), dtype=object)


array("softmax", _softmax)
array("log_softmax", lambda W, x, *, axis: W.log(_softmax(W, x, axis=axis)))
array("softmax_center", lambda W, x, g, *, axis: g - _total(_softmax(W, x, axis=axis) * g, axis))
array("softmax_spread", lambda W, x, h, *, axis: h - _softmax(W, x, axis=axis) * _total(h, axis))
array("cross_entropy", _cross_entropy)
