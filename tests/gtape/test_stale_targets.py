"""A result of a tape that is used up, reset or gone is a constant to every other recording."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gtape as tf


def _reset() -> tuple[Any, Any]:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = x * x
        tape.reset()
    return x, y


def _used() -> tuple[Any, Any]:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = x * x
    tape.gradient(y, x)
    return x, y


def _gone() -> tuple[Any, Any]:
    x = tf.Variable(3.0)
    with tf.GradientTape():
        y = x * x
    return x, y


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("stale", [_reset, _used, _gone])
def test_a_stale_target_has_no_gradient(stale: Callable[[], tuple[Any, Any]], persistent: bool) -> None:
    x, y = stale()

    def ask(question: Callable[[Any, Any], Any]) -> Any:
        with tf.GradientTape(persistent=persistent) as tape:
            z = 2.0 * x
        return question(tape, z)

    assert ask(lambda tape, z: tape.gradient(y, x)) is None
    assert ask(lambda tape, z: tape.jacobian(y, x)) is None
    assert ask(lambda tape, z: tape.gradient(y, x, output_gradients=tf.constant(2.0))) is None
    assert float(ask(lambda tape, z: tape.gradient(y, x, unconnected_gradients="zero"))) == 0.0
    assert float(ask(lambda tape, z: tape.gradient([y, z], x))) == 2.0


def test_what_was_recorded_before_a_reset_has_no_gradient() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        y = x * x
        tape.reset()
        z = 2.0 * x
    assert tape.gradient(y, x) is None
    assert float(tape.gradient(z, x)) == 2.0
