"""An inner tape may watch what the outer one does not: gradient penalties, physics-informed losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf

rng = np.random.default_rng(0)
X = tf.constant(rng.normal(size=(4, 2)))


@tf.custom_gradient
def cube(x: Any) -> Any:
    return x * x * x, lambda g: g * 3.0 * x * x


@tf.custom_gradient
def wrong_cube(x: Any) -> Any:
    return x * x * x, lambda g: g * 2.0 * x * x


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "shared op": lambda x, w: tf.tanh(x @ w),
    "op of the inner tape alone": lambda x, w: tf.sin(x) @ w,
    "rule that reads its output": lambda x, w: tf.exp(x)[:, :1] * (x @ w),
    "rule that reads its input": lambda x, w: tf.square(x)[:, :1] * (x @ w),
    "op with several outputs": lambda x, w: tf.split(tf.sin(x) @ w, 3, axis=1)[1] * tf.split(tf.exp(x), 2, axis=1)[0],
    "custom gradient": lambda x, w: cube(tf.sin(x)) @ w,
    "the same number as a constant": lambda x, w: tf.stop_gradient(x) * x * tf.reduce_sum(w),
}


def penalty(f: Callable[[Any, Any], Any], w: Any, *, persistent: bool = False) -> Any:
    with tf.GradientTape(verify=True) as outer:
        with tf.GradientTape(persistent=persistent) as inner:
            inner.watch(X)
            y = f(X, w)
        slopes = inner.gradient(y, X)
        if persistent:  # twice, and the tape is gone when the outer gradient is taken
            slopes = slopes + inner.gradient(y, X)
            del inner
        loss = tf.reduce_mean((tf.reduce_sum(slopes**2, axis=1) - 1.0) ** 2)
    return loss, outer.gradient(loss, w)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_penalty_on_slopes_passes_the_check_and_is_the_difference_quotient(name: str, persistent: bool) -> None:
    f = FUNCTIONS[name]
    start = np.random.default_rng(1).normal(size=(2, 3))
    w = tf.Variable(start)
    got = penalty(f, w, persistent=persistent)[1].numpy()
    for index in [(0, 0), (1, 1)]:
        values = []
        for h in (1e-6, -1e-6):
            moved = start.copy()
            moved[index] += h
            values.append(float(penalty(f, tf.Variable(moved), persistent=persistent)[0]))
        assert got[index] == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5, abs=1e-7)


def test_a_wrong_custom_gradient_below_the_inner_tape_is_found() -> None:
    with pytest.raises(tf.VerificationError, match="wrong_cube"):
        penalty(lambda x, w: wrong_cube(tf.sin(x)) @ w, tf.Variable(rng.normal(size=(2, 3))))


def test_a_loss_with_second_derivatives_in_the_inputs_passes_the_check() -> None:
    x = tf.constant([[0.1], [0.7]], tf.float64)
    a, b = tf.Variable(rng.normal(size=(1, 3))), tf.Variable(rng.normal(size=(3, 1)))
    with tf.GradientTape(verify="strict") as outer:
        with tf.GradientTape() as second:
            second.watch(x)
            with tf.GradientTape() as first:
                first.watch(x)
                u = tf.tanh(x @ a) @ b
            ux = first.gradient(u, x)
        uxx = second.gradient(ux, x)
        loss = tf.reduce_mean((uxx + u) ** 2)
    assert all(np.isfinite(g.numpy()).all() for g in outer.gradient(loss, [a, b]))


def test_two_gradients_of_one_target_by_a_persistent_tape_are_told_apart() -> None:
    x = tf.Variable(np.array([0.3, 0.4]))
    with tf.GradientTape(verify=True) as outer:
        with tf.GradientTape(persistent=True) as inner:
            y = tf.sin(x) * x
        loss = tf.reduce_sum(inner.gradient(y, x) ** 2 + inner.gradient(y, x) ** 3)
    assert outer.gradient(loss, x).shape == (2,)


def test_penalties_on_jacobians_and_tangents_of_inner_sources_pass_the_check() -> None:
    w = tf.Variable(rng.normal(size=(2, 3)))
    f = lambda: tf.tanh(tf.sin(X) @ w) * tf.exp(X)[:, :1]

    def by_batch_jacobian() -> Any:
        with tf.GradientTape() as inner:
            inner.watch(X)
            y = f()
        return inner.batch_jacobian(y, X)

    def by_jacobian() -> Any:
        with tf.GradientTape() as inner:
            inner.watch(X)
            y = tf.reduce_sum(f(), axis=0)
        return inner.jacobian(y, X)

    def by_tangents() -> Any:
        with tf.autodiff.ForwardAccumulator(X, tf.ones_like(X)) as accumulator:
            y = f()
        return accumulator.jvp(y)

    def by_weighted_gradient() -> Any:
        with tf.GradientTape() as inner:
            inner.watch(X)
            y = f()
        return inner.gradient(y, X, output_gradients=tf.sin(y))

    for inside in (by_batch_jacobian, by_jacobian, by_tangents, by_weighted_gradient):
        with tf.GradientTape(verify="strict") as outer:
            loss = tf.reduce_sum(inside() ** 2)
        assert outer.gradient(loss, w).shape == (2, 3)
