"""Half precision: slopes are computed in float32, by outputs that are not rounded, and rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf

OPS = ("sigmoid", "sqrt", "math.reciprocal", "nn.softplus", "nn.softsign", "math.log", "math.log10")


def _derivatives(name: str, x: Any) -> list[Any]:
    function: Any = tf
    for part in name.split("."):
        function = getattr(function, part)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = function(x)
        first = inner.gradient(y, x)
    return [first, outer.gradient(first, x)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", OPS)
def test_a_slope_is_rounded_once(name: str, dtype: str) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    digits = {"float16": 10, "bfloat16": 7}[dtype]
    x = tf.cast(np.geomspace(0.04, 50.0, 3000), dtype)
    exact = _derivatives(name, tf.cast(x, tf.float64))
    for made, right in zip(_derivatives(name, x), exact, strict=True):
        assert made.dtype == dtype
        value, true = tf.cast(made, tf.float64).numpy(), right.numpy()
        unit = np.maximum(np.exp2(np.floor(np.log2(np.abs(true)))), 2.0**-14) * 2.0**-digits
        assert np.max(np.abs(value - true) / unit) < 0.51
