"""The check of a custom gradient leaves variables and random streams as a run without the check leaves them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.base.verification import verifying
from gtape.errors import VerificationError


class _State:
    """The state that a gradient function changes."""

    def __init__(self) -> None:
        tf.random.set_seed(3)
        self.norm = tf.Variable(0.0, trainable=False)
        self.rows = tf.Variable(tf.zeros([2]), trainable=False)
        self.generator = tf.random.Generator.from_seed(5)

    def change(self, g: Any) -> None:
        self.norm.assign_add(tf.reduce_sum(g * g))
        self.rows.scatter_nd_update([[1]], [self.norm])
        self.generator.normal([3])
        tf.random.uniform([])
        tf.random.uniform([], seed=7)

    def after(self) -> list[float]:
        draws = [self.generator.normal([]), tf.random.uniform([]), tf.random.uniform([], seed=7)]
        return [float(v) for v in (self.norm, self.rows[1], *draws)]


def _right(state: _State) -> Any:
    @tf.custom_gradient
    def probe(x: Any) -> Any:
        def grad(g: Any) -> Any:
            state.change(g)
            return g

        return tf.identity(x), grad

    return probe


def _wrong(state: _State) -> Any:
    @tf.custom_gradient
    def scaled(x: Any) -> Any:
        def grad(g: Any) -> Any:
            state.change(g)
            return 1.5 * g

        return tf.identity(x), grad

    return scaled


def _of_saved_number(state: _State) -> Any:
    @tf.custom_gradient
    def tanh(x: Any) -> Any:
        y = tf.tanh(x)
        saved = y.numpy()

        def grad(g: Any) -> Any:
            state.change(g)
            return g * (1 - saved * saved)

        return y, grad

    return tanh


def _in_body(state: _State) -> Any:
    @tf.custom_gradient
    def square(x: Any) -> Any:
        state.change(x)
        return x * x, lambda g: 2 * g * x

    return square


def _with_new_variable(state: _State) -> Any:
    @tf.custom_gradient
    def probe(x: Any) -> Any:
        def grad(g: Any) -> Any:
            state.change(g)
            tf.Variable(tf.random.uniform([2]), trainable=False)
            return g

        return tf.identity(x), grad

    return probe


def _gradient(f: Any, **flag: Any) -> None:
    x = tf.Variable([0.5, 1.0])
    with tf.GradientTape(**flag) as tape:
        y = tf.reduce_sum(f(x) ** 2)
    tape.gradient(y, x)


def _jacobian(f: Any, **flag: Any) -> None:
    x = tf.Variable([0.5, 1.0])
    with tf.GradientTape(**flag) as tape:
        y = f(x) ** 2
    tape.jacobian(y, x)


def _hessian(f: Any, **flag: Any) -> None:
    x = tf.Variable([0.5, 1.0])
    with tf.GradientTape(**flag) as outer:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(f(x) ** 2)
        g = tape.gradient(y, x)
    outer.gradient(g, x)


def _tangent(f: Any, **flag: Any) -> None:
    x = tf.constant([0.5, 1.0])
    with verifying(flag.get("verify", False)), tf.autodiff.ForwardAccumulator(x, tf.ones([2])) as accumulator:
        y = f(x) ** 2
        accumulator.jvp(y)


@pytest.mark.parametrize("flag", [True, "strict"])
@pytest.mark.parametrize("derive", [_gradient, _jacobian, _hessian, _tangent])
@pytest.mark.parametrize("make", [_right, _wrong, _of_saved_number, _in_body, _with_new_variable])
def test_a_check_leaves_the_state_of_a_custom_gradient_as_a_plain_run_leaves_it(
    make: Callable[[_State], Any], derive: Callable[..., None], flag: Any
) -> None:
    plain = _State()
    derive(make(plain))
    expected = plain.after()
    checked = _State()
    with suppress(VerificationError):
        derive(make(checked), verify=flag)
    np.testing.assert_array_equal(checked.after(), expected)


def test_a_gradient_function_with_random_numbers_still_changes_from_call_to_call() -> None:
    @tf.custom_gradient
    def noisy(x: Any) -> Any:
        return tf.identity(x), lambda g: g * tf.random.uniform([2])

    tf.random.set_seed(1)
    report = tf.verify.check(noisy, tf.constant([0.5, 1.0]))
    assert [f.op for f in report.findings] == ["noisy"]
    assert "changes from call to call" in report.findings[0].reason
