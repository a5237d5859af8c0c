"""ForwardAccumulator (section 5 of the contract)."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import gtape as tf

Accumulator = tf.autodiff.ForwardAccumulator


def jvp(f: Any, x: Any, t: Any) -> Any:
    x = tf.constant(x)
    with Accumulator(x, tf.constant(t)) as acc:
        y = f(x)
    return acc.jvp(y)


def test_jvp_is_the_directional_derivative() -> None:
    assert jvp(lambda x: x * x, [1.0, 2.0], [1.0, 10.0]).numpy().tolist() == [2.0, 40.0]
    got = jvp(lambda x: tf.matmul(x, x), [[1.0, 2.0], [3.0, 4.0]], [[1.0, 0.0], [0.0, 0.0]])
    assert got.numpy().tolist() == [[2.0, 2.0], [3.0, 0.0]]


# ---------------------------------------------------------------- construction


def test_structures_must_match() -> None:
    x = tf.constant([1.0, 2.0])
    with pytest.raises(ValueError):
        Accumulator(x, [1.0, 0.0])
    with pytest.raises(ValueError):
        Accumulator([x, x * 1.0], [tf.ones([2])])


def test_python_scalars_take_the_primals_dtype() -> None:
    x, y = tf.constant(2.0, tf.float64), tf.constant(3.0)
    with Accumulator([x, y], [1, 2.0]) as acc:
        z = x * x
        w = y * y
    assert acc.jvp(z).dtype == tf.float64 and acc.jvp(z).numpy() == 4.0
    assert acc.jvp(w).numpy() == 12.0


def test_tangent_of_another_dtype_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="float64"):
        Accumulator(tf.constant(1.0), tf.constant(1.0, tf.float64))


def test_same_primal_twice_is_a_value_error() -> None:
    x = tf.constant(1.0)
    with pytest.raises(ValueError, match="multiple times"):
        Accumulator([x, x], [tf.constant(1.0), tf.constant(1.0)])


def test_primal_that_is_not_floating_only_logs(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "gtape"):
        Accumulator(tf.constant(1), tf.constant(1))
    assert "must be floating" in caplog.text


# ---------------------------------------------------------------- jvp()


def test_jvp_only_looks_up_whenever_and_repeatedly() -> None:
    x = tf.constant(3.0)
    acc = Accumulator(x, tf.constant(2.0))
    assert acc.jvp(x).numpy() == 2.0
    with acc:
        y = x * x
        assert acc.jvp(y).numpy() == 12.0
    assert acc.jvp(y).numpy() == acc.jvp(y).numpy() == 12.0
    assert [g.numpy() for g in acc.jvp([x, y])] == [2.0, 12.0]


def test_unknown_tensors_give_none_or_zeros() -> None:
    x, other = tf.constant(3.0), tf.constant([1.0, 2.0])
    with Accumulator(x, tf.constant(1.0)) as acc:
        y = other * 2.0
    assert acc.jvp(y) is None
    assert acc.jvp(y, unconnected_gradients="zero").numpy().tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="'bad' is not a valid UnconnectedGradients"):
        acc.jvp(y, unconnected_gradients="bad")


def test_reentrant_after_the_block_but_not_inside() -> None:
    x = tf.constant(3.0)
    acc = Accumulator(x, tf.constant(1.0))
    with acc, pytest.raises(ValueError, match=r"^Accumulator is already recording\.$"):
        acc.__enter__()
    outside = x * x
    with acc:
        y = x * x
    assert acc.jvp(outside) is None
    assert acc.jvp(y).numpy() == 6.0


# ---------------------------------------------------------------- variables, dead ends


def test_variables_keep_their_tangent_through_assignments() -> None:
    v = tf.Variable(3.0)
    with Accumulator(v, tf.constant(1.0)) as acc:
        v.assign(5.0)
        y = v * v
    assert acc.jvp(y).numpy() == 10.0


@pytest.mark.parametrize("f", [tf.stop_gradient, lambda x: tf.cast(tf.cast(x, tf.int32), tf.float32), tf.floor])
def test_dead_ends_give_none(f: Any) -> None:
    assert jvp(f, 3.5, 1.0) is None


# ---------------------------------------------------------------- nesting


def test_outer_accumulator_differentiates_the_inner_jvp_and_not_the_reverse() -> None:
    x = tf.constant(2.0)
    with Accumulator(x, tf.constant(1.0)) as outer:
        with Accumulator(x, tf.constant(1.0)) as inner:
            y = x * x * x
        first = inner.jvp(y)
    assert first.numpy() == 12.0
    assert outer.jvp(first).numpy() == 12.0
    assert inner.jvp(outer.jvp(y)) is None


def test_forward_over_back() -> None:
    x = tf.Variable([1.0, 2.0])
    with Accumulator(x, tf.constant([1.0, 0.0])) as acc:
        with tf.GradientTape() as tape:
            y = x[0] * x[0] * x[1]
        g = tape.gradient(y, x)
    assert acc.jvp(g).numpy().tolist() == [4.0, 2.0]


def test_gradient_after_the_accumulator_has_no_tangent() -> None:
    x = tf.Variable(3.0)
    with Accumulator(x, tf.constant(1.0)) as acc, tf.GradientTape() as tape:
        y = x * x
    assert acc.jvp(tape.gradient(y, x)) is None


def test_back_over_forward() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        with Accumulator(x, tf.constant(1.0)) as acc:
            y = x * x * x
        t = acc.jvp(y)
    assert t.numpy() == 27.0
    assert tape.gradient(t, x).numpy() == 18.0


# ---------------------------------------------------------------- custom gradients


def test_custom_rule_is_used_in_forward_mode() -> None:
    # Section 14: TensorFlow ignores it when the inside is differentiable.
    @tf.custom_gradient(declared="twice the derivative")
    def f(x: Any) -> Any:
        return x * x, lambda g: g * 4.0 * x

    assert jvp(f, [1.0, 2.0], [1.0, 1.0]).numpy().tolist() == [4.0, 8.0]


def test_custom_rule_around_numpy_is_used_in_forward_mode() -> None:
    @tf.custom_gradient
    def f(x: Any) -> Any:
        return tf.constant(np.sin(x.numpy())), lambda g: g * tf.cos(x)

    assert jvp(f, 0.0, 1.0).numpy() == 1.0
