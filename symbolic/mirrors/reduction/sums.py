"""Mirrors of sums and means, and of the op that puts removed axes back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gtape.symbolic.balls import objects
from gtape.symbolic.mirrors.registry import array


def _spread_out(W: Any, x: Any, *, shape: tuple[int, ...], axis: tuple[int, ...], keepdims: bool) -> Any:
    x = objects(x)
    if not keepdims:
        # The reduced axes are put back one by one, counted in the final shape.
        lead = x.ndim - (len(shape) - len(axis))
        for a in sorted(a % len(shape) for a in axis):
            x = np.expand_dims(x, lead + a)
    return np.broadcast_to(x, x.shape[: x.ndim - len(shape)] + tuple(shape))


array("sum", lambda W, x, *, axis, keepdims: W.sum_along(x, axis, keepdims), linear=(0,))
array("spread_out", _spread_out, linear=(0,))
array(
    "reduce_mean",
    lambda W, x, *, axis, keepdims: W.divide(
        W.sum_along(x, axis, keepdims), W.exact(math.prod(np.shape(x)[a] for a in axis))
    ),
    linear=(0,),
)
