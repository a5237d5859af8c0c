"""Mirrors of running sums of exponentials, and of means weighted by the shares in them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.mirrors.registry import array


def _sums(e: Any) -> Any:
    return np.add.accumulate(e, axis=-1)


def _before(e: Any) -> Any:
    """The sums without their newest term. The first sum is 0."""
    return np.concatenate([np.full_like(e[..., :1], 0), _sums(e)[..., :-1]], axis=-1)


def _pull(W: Any, x: Any, g: Any) -> Any:
    e = W.exp(x)
    return e * _sums(W.divide(g, _sums(e))[..., ::-1])[..., ::-1]


def _push(W: Any, x: Any, t: Any) -> Any:
    e = W.exp(x)
    return W.divide(_sums(e * t), _sums(e))


array("cumulative_pull", _pull)
array("cumulative_push", _push)
array("cumulative_logsumexp", lambda W, x: W.log(_sums(W.exp(x))))
array("cumulative_share", lambda W, x: W.divide(W.exp(x), _sums(W.exp(x))))
array("cumulative_rest", lambda W, x: W.divide(_before(W.exp(x)), _sums(W.exp(x))))
