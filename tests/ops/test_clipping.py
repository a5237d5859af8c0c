"""Clipping by norms and normalising: derivatives in the whole range of the floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check

_WEIGHTS = np.array([1.0, -2.0, 3.0])


def _normal(x: Any) -> Any:
    mean, variance = tf.nn.moments(x, 0)
    return tf.nn.batch_normalization(x, mean, variance, 1.0, 2.0, 0.0)


_SCALED: dict[str, Callable[[Any], Any]] = {
    "clip_by_norm": lambda x: tf.clip_by_norm(x, 1.0),
    "clip_by_global_norm": lambda x: tf.clip_by_global_norm([x[:2], x[2:]], 1.0)[0][0] * _WEIGHTS[0],
    "embedding_lookup": lambda x: tf.nn.embedding_lookup(x[None], [0], max_norm=1.0)[0],
    "batch_normalization": _normal,
    "LayerNormalization": lambda x: tf.keras.layers.LayerNormalization(dtype=x.dtype)(x[None])[0],
}


@pytest.mark.parametrize("name", _SCALED)
@pytest.mark.parametrize(
    ("dtype", "size"), [("float32", 1e15), ("float32", 3e17), ("float64", 1e110), ("float64", 1e150)]
)
def test_the_gradient_of_a_scaled_vector_is_right_however_long_the_vector_is(
    name: str, dtype: Any, size: float
) -> None:
    f = _SCALED[name]
    x = np.array([3.0, 4.0, 1.0], dtype) * np.asarray(size, dtype)
    weights = _WEIGHTS.astype(dtype)
    report = check(lambda x: tf.reduce_sum(weights[: f(x).shape[0]] * f(x)), x)
    assert report.ok and not {"range", "rule", "undecided"} & {v.verdict for v in report.findings}, report


@pytest.mark.parametrize("name", ["clip_by_norm", "clip_by_global_norm"])
@pytest.mark.parametrize(("dtype", "size"), [("float32", 1e24), ("float64", 1e170), ("float64", 1e300)])
def test_the_gradient_of_a_clipped_vector_is_right_where_the_square_of_the_norm_overflows(
    name: str, dtype: Any, size: float
) -> None:
    x = tf.constant(np.array([3.0, 4.0, 1.0]) * size, dtype)
    weights = tf.constant(_WEIGHTS, dtype)
    clip = tf.clip_by_norm if name == "clip_by_norm" else lambda x, limit: tf.clip_by_global_norm([x], limit)[0][0]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(weights * clip(x, 1.0))
    unit = np.array([3.0, 4.0, 1.0]) / np.sqrt(26)
    exact = (_WEIGHTS - unit * (unit @ _WEIGHTS)) / np.sqrt(26) / size
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), exact, rtol=8 * np.finfo(dtype).eps)


@pytest.mark.parametrize("limit", [0.0, -1.0, np.inf, np.nan])
def test_a_limit_without_a_size_gives_zeros_and_nan_as_in_tensorflow(limit: float) -> None:
    made = tf.clip_by_norm([[3.0, 4.0], [0.0, 0.0]], limit, axes=1).numpy()
    first = 0.0 if limit <= 0 else np.nan
    np.testing.assert_array_equal(made, [[first, first], [np.nan, np.nan]])


def test_a_vector_under_the_limit_keeps_every_bit_and_its_derivative_is_one() -> None:
    x = tf.constant([[0.1, 0.7], [0.0, 0.0], [30.0, 40.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.clip_by_norm(x, 0.9, axes=1)
    assert y.numpy()[:2].tolist() == x.numpy()[:2].tolist()
    assert tape.gradient(y, x).numpy()[:2].tolist() == [[1.0, 1.0], [1.0, 1.0]]
