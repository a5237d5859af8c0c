"""Mirror of the differences from the mean."""

from __future__ import annotations

import math

import numpy as np

from gtape.symbolic.mirrors.registry import array

array(
    "center",
    lambda W, x, *, axis: W.subtract(x, W.divide(W.sum_along(x, axis, True), math.prod(np.shape(x)[a] for a in axis))),
)
