"""Mirrors of gtape/ops/cumulative.py: sums of exponentials, one after the other, and means by the shares in them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.mirrors.registry import array


def _sums(e: Any) -> Any:
    return np.add.accumulate(e, axis=-1)


def _before(e: Any) -> Any:
    """The sums without the newest term: 0 for the first."""
    return np.concatenate([np.full_like(e[..., :1], 0), _sums(e)[..., :-1]], axis=-1)


def _exp(W: Any, x: Any) -> Any:
    return np.asarray(W.exp(x), dtype=object)


def _pull(W: Any, x: Any, g: Any) -> Any:
    e = _exp(W, x)
    weights = np.asarray(W.divide(g, _sums(e)), dtype=object)
    return e * np.add.accumulate(weights[..., ::-1], axis=-1)[..., ::-1]


def _push(W: Any, x: Any, t: Any) -> Any:
    e = _exp(W, x)
    return W.divide(_sums(np.asarray(e * t, dtype=object)), _sums(e))


array("cumulative_pull", _pull)
array("cumulative_push", _push)
array("cumulative_logsumexp", lambda W, x: W.log(_sums(_exp(W, x))))
array("cumulative_share", lambda W, x: W.divide(_exp(W, x), _sums(_exp(W, x))))
array("cumulative_rest", lambda W, x: W.divide(_before(_exp(W, x)), _sums(_exp(W, x))))
