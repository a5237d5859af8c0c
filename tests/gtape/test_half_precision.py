"""Half precision: slopes are computed in float32, by outputs that are not rounded, and rounded once."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.engine.worlds import NARROW
from gtape.recording import record

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


def _weighed(x: Any, y: Any) -> Any:
    z = tf.tanh(x) * tf.math.xlogy(y, 1.5 + x) + tf.nn.softmax(x) / y - tf.reduce_max(x) ** 2
    return tf.reduce_sum(tf.sqrt(tf.matmul(z[:, None], z[None, :]) + 4.0) * tf.atan2(x, y), axis=0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_familiar_shapes_keep_the_bits_of_the_first_call(dtype: str) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    x, y = tf.cast(np.linspace(-0.9, 1.1, 8), dtype), tf.cast(np.linspace(0.5, 2.0, 8), dtype)
    found = []
    for _ in range(20):  # steps are compiled meanwhile
        with tf.GradientTape() as outer:
            outer.watch([x, y])
            with tf.GradientTape() as inner:
                inner.watch([x, y])
                z = _weighed(x, y)
            first = inner.gradient(z, [x, y])
            total = tf.reduce_sum(first[0] * first[1])
        with tf.GradientTape() as alone:
            alone.watch([x, y])
            z = _weighed(x, y)
        found.append([z, *first, *outer.gradient(total, [x, y]), *alone.gradient(z, [x, y])])
    for made, first_made in zip(found[-1], found[0], strict=True):
        assert made.dtype == dtype
        assert made.numpy().tobytes() == first_made.numpy().tobytes()


def test_steps_of_familiar_shapes_are_compiled() -> None:
    x = tf.cast(np.linspace(0.1, 1.0, 8), "float16")
    for _ in range(20):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.tanh(x)
            z = tf.reduce_sum(y)
        tape.gradient(z, x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.tanh(x)
        z = tf.reduce_sum(y)
    for made in (y, z):
        step = made._record[record.STEP]
        assert isinstance(step, FunctionType)
        assert step.step.world is NARROW  # type: ignore[attr-defined]
