"""Normalisation and moments: TensorFlow's formulas, and exact derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.errors import InvalidArgumentError
from gtape.verify import check

RNG = np.random.default_rng(13)


def draw(*shape: int) -> Any:
    return RNG.standard_normal(shape)


def test_batch_normalization_centres_scales_and_shifts() -> None:
    x, mean, variance = draw(4, 3), draw(3), draw(3) ** 2
    offset, scale = draw(3), draw(3)
    plain = (x - mean) / np.sqrt(variance + 1e-3)
    np.testing.assert_allclose(tf.nn.batch_normalization(x, mean, variance, None, None, 1e-3), plain, rtol=1e-13)
    y = tf.nn.batch_normalization(x, mean, variance, offset=offset, scale=scale, variance_epsilon=1e-3)
    np.testing.assert_allclose(y, plain * scale + offset, rtol=1e-12)


def test_batch_normalization_keeps_its_digits_beside_a_large_mean() -> None:
    x = np.array([1e8, 1e8 + 1, 1e8 + 2])
    y = tf.nn.batch_normalization(x, 1e8 + 1.0, 1e-4, None, None, 0.0)
    np.testing.assert_allclose(y, [-100.0, 0.0, 100.0], rtol=1e-15)


def test_local_response_normalization_divides_by_the_neighbouring_channels() -> None:
    x = draw(2, 1, 2, 5)
    y = tf.nn.local_response_normalization(x, depth_radius=1, bias=2.0, alpha=0.5, beta=0.75).numpy()
    for c in range(5):
        near = np.sum(x[..., max(c - 1, 0) : c + 2] ** 2, axis=-1)
        np.testing.assert_allclose(y[..., c], x[..., c] / (2.0 + 0.5 * near) ** 0.75, rtol=1e-13)
    assert np.array_equal(tf.nn.lrn(x, 1, 2.0, 0.5, 0.75), y)


def test_weighted_moments_count_elements_as_often_as_they_weigh() -> None:
    x = np.array([[1.0, 2.0, 6.0], [3.0, 3.0, 0.0]])
    weights = np.array([2, 1, 3])
    mean, variance = tf.nn.weighted_moments(x, [1], weights)
    repeated = np.repeat(x, weights, axis=1)
    np.testing.assert_allclose(mean, repeated.mean(1), rtol=1e-15)
    np.testing.assert_allclose(variance, repeated.var(1), rtol=1e-14)
    mean, variance = tf.nn.weighted_moments(x, 0, 1.0, keepdims=True)
    assert mean.shape == variance.shape == (1, 3)


@pytest.mark.parametrize("shift", [None, 1e6])
def test_statistics_make_moments(shift: Any) -> None:
    x = 1e6 + draw(50, 2)
    count, total, squares, used = tf.nn.sufficient_statistics(x, [0], shift=shift)
    assert float(count) == 50
    mean, variance = tf.nn.normalize_moments(count, total, squares, used)
    np.testing.assert_allclose(mean, x.mean(0), rtol=1e-13)
    np.testing.assert_allclose(variance, x.var(0), rtol=1e-2 if shift is None else 1e-9)


def test_moments_take_axes_in_any_form_and_ignore_the_shift() -> None:
    x = draw(2, 3, 4)
    for axes in (1, [0, -1], (0, 1, 2), tf.constant([0])):
        axis = tuple(np.atleast_1d(np.asarray(axes)).tolist())
        mean, variance = tf.nn.moments(x, axes, shift=3.0)
        np.testing.assert_allclose(mean, x.mean(axis), rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(variance, x.var(axis), rtol=1e-12)
        assert tf.nn.moments(x, axes, keepdims=True)[0].shape == x.mean(axis, keepdims=True).shape


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("keepdims", [False, True])
def test_moments_of_integers_are_integers_rounded_towards_zero(dtype: str, keepdims: bool) -> None:
    x = tf.constant([[1, 2, 4], [-1, -2, -4], [3, 3, 3]], dtype)
    mean, variance = tf.nn.moments(x, [1], keepdims=keepdims)
    assert mean.dtype == variance.dtype == dtype and mean.shape == variance.shape == ((3, 1) if keepdims else (3,))
    assert mean.numpy().ravel().tolist() == [2, -2, 3]
    assert variance.numpy().ravel().tolist() == [1, 1, 0]  # the squares are those of deviations from the rounded mean


def normalised(x: Any) -> Any:
    mean, variance = tf.nn.moments(x, [0])
    return tf.nn.batch_normalization(x, mean, variance, None, tf.constant([1.5, -0.5], x.dtype), 1e-3)


def weighted(x: Any) -> Any:
    return tf.stack(tf.nn.weighted_moments(x, [0], tf.abs(x) + 0.5))


def neighbours(x: Any) -> Any:
    return tf.nn.lrn(tf.reshape(x, [1, 1, 2, 4]), depth_radius=1, bias=0.5, beta=0.75)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("f", [normalised, weighted, neighbours])
def test_first_and_second_derivatives_are_exact(f: Any, dtype: str) -> None:
    report = check(f, tf.constant(draw(4, 2).astype(dtype)), order=2)
    assert report.ok, report.summary()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: tf.nn.lrn(np.ones((2, 2))), "4 axes"),
        (lambda: tf.nn.lrn(np.ones((1, 1, 1, 1)), depth_radius=-1), "negative"),
        (lambda: tf.nn.batch_normalization([1, 2], 0, 1, None, None, 0.1), "floating-point"),
        (lambda: tf.nn.weighted_moments([1.0], [1], 1.0), "axis"),
    ],
)
def test_what_does_not_fit_is_said(call: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        call()
