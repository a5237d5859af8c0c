"""Activations and losses under TensorFlow's argument names, and their kinks in compositions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check

X = np.array([-4.0, -0.5, 0.25, 3.0, 30.0])


def slope(f: Any, x: Any) -> Any:
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x).numpy()


@pytest.mark.parametrize("name", ["relu", "relu6", "leaky_relu", "elu", "selu", "gelu", "silu", "softplus", "softsign"])
def test_activations_take_features_and_a_name(name: str) -> None:
    f = getattr(tf.nn, name)
    assert np.array_equal(f(features=X, name="layer"), f(X))
    v = tf.Variable(X)
    with tf.GradientTape() as tape:
        y = f(features=v)
    assert np.array_equal(tape.gradient(y, v), slope(f, X))


def test_leaky_relu_takes_its_slope() -> None:
    assert tf.nn.leaky_relu([-1.0], 0.5).numpy() == tf.nn.leaky_relu(features=[-1.0], alpha=0.5).numpy() == -0.5


def test_silu_takes_a_factor_that_may_be_learnt() -> None:
    assert np.array_equal(tf.nn.swish(X, beta=1.0), tf.nn.silu(X))
    report = check(lambda x, beta: tf.nn.silu(x, beta), tf.constant(X), tf.constant(1.5, tf.float64), order=2)
    assert report.ok, report.summary()
    np.testing.assert_allclose(tf.nn.silu(X, beta=2.0), X / (1 + np.exp(-2 * X)), rtol=1e-14)


def test_gelu_can_be_approximated() -> None:
    inner = np.sqrt(2 / np.pi) * (X + 0.044715 * X**3)
    np.testing.assert_allclose(tf.nn.gelu(X, approximate=True), 0.5 * X * (1 + np.tanh(inner)), rtol=1e-9, atol=1e-15)
    assert abs(tf.nn.gelu(X) - tf.nn.gelu(X, approximate=True)).numpy().max() > 1e-5
    assert check(lambda x: tf.nn.gelu(x, True), tf.constant(X), order=2).ok


@pytest.mark.parametrize("axis", [-1, 0])
def test_crelu_puts_both_parts_side_by_side(axis: int) -> None:
    x = np.array([[1.0, -2.0], [0.0, 3.0]])
    parts = [np.maximum(x, 0), np.maximum(-x, 0)]
    assert np.array_equal(tf.nn.crelu(features=x, axis=axis), np.concatenate(parts, axis))
    assert slope(lambda v: tf.nn.crelu(v, axis), x).tolist() == [[1.0, -1.0], [0.0, 1.0]]


@pytest.mark.parametrize("at", [-3.0, 3.0])
def test_a_hard_swish_has_slopes_between_its_one_sided_ones(at: float) -> None:
    report = check(lambda x: x * tf.nn.hard_sigmoid(x), tf.constant(at, tf.float64))
    assert report.verdict == "convention" and report.ok
    assert slope(lambda x: x * tf.nn.hard_sigmoid(x), at) == (0.0 if at < 0 else 1.0)


def test_a_shrinkage_by_nothing_is_the_identity() -> None:
    def shrink(x: Any, by: float) -> Any:
        return tf.where(tf.abs(x) > by, x, 0.0)

    assert slope(lambda x: shrink(x, 0.5), np.array([-1.0, 0.25, 1.0])).tolist() == [1.0, 0.0, 1.0]
    assert slope(lambda x: tf.nn.leaky_relu(x, alpha=1.0), np.array([-1.0, 0.0, 1.0])).tolist() == [1.0, 1.0, 1.0]


# ---------------------------------------------------------------------------------------------- losses


def test_the_poisson_loss_and_its_stirling_term() -> None:
    targets, log_input = np.array([0.0, 1.0, 2.0, 5.0]), np.array([0.5, -1.0, 0.25, 2.0])
    plain = np.exp(log_input) - log_input * targets
    np.testing.assert_allclose(tf.nn.log_poisson_loss(targets, log_input), plain, rtol=1e-15)
    with np.errstate(divide="ignore", invalid="ignore"):
        stirling = targets * np.log(targets) - targets + 0.5 * np.log(2 * np.pi * targets)
    full = plain + np.where(targets > 1, stirling, 0)
    np.testing.assert_allclose(tf.nn.log_poisson_loss(targets, log_input, compute_full_loss=True), full, rtol=1e-14)


def test_the_poisson_loss_is_differentiable_in_both_and_through_zero_counts() -> None:
    z, c = tf.constant([0.0, 0.5, 3.0]), tf.constant([0.5, 1.0, -2.0])
    with tf.GradientTape() as tape:
        tape.watch([z, c])
        y = tf.nn.log_poisson_loss(z, c, compute_full_loss=True)
    dz, dc = tape.gradient(y, [z, c])
    np.testing.assert_allclose(dc, np.exp(c.numpy()) - z.numpy(), rtol=1e-6)
    np.testing.assert_allclose(dz, [-0.5, -1.0, 2.0 + np.log(3.0) + 1 / 6], rtol=1e-6)
    report = check(tf.nn.log_poisson_loss, tf.constant([2.0, 0.0]), tf.constant([0.75, -20.0]), order=2)
    assert report.ok, report.summary()
    with pytest.raises(ValueError, match="same shape"):
        tf.nn.log_poisson_loss([1.0], [1.0, 2.0])


def test_the_average_loss_is_over_the_whole_batch() -> None:
    assert float(tf.nn.compute_average_loss([1.0, 3.0])) == 2.0
    assert float(tf.nn.compute_average_loss([1.0, 3.0], sample_weight=[1.0, 0.0], global_batch_size=8)) == 0.125
    with pytest.raises(tf.errors.InvalidArgumentError, match="scalar"):
        tf.nn.compute_average_loss(1.0)


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW", "N...C", "NC...", None])
def test_a_bias_is_added_to_every_pixel_of_a_channel(data_format: str | None) -> None:
    first = data_format in ("NCHW", "NC...")
    x = np.zeros((2, 3, 4, 5))
    b = tf.constant(np.arange(3.0 if first else 5.0))
    with tf.GradientTape() as tape:
        tape.watch(b)
        y = tf.nn.bias_add(value=x, bias=b, data_format=data_format)
    assert np.array_equal(y.numpy()[0, :, 0, 0] if first else y.numpy()[0, 0, 0], b)
    assert set(tape.gradient(y, b).numpy().tolist()) == {40.0 if first else 24.0}
