"""`tape.explain` names the reason for None, zero and NaN."""

from __future__ import annotations

import pytest

import gtape as tf


def explained(f, verify: bool = False) -> str:
    x = tf.Variable(2.5)
    with tf.GradientTape(persistent=True, verify=verify) as tape:
        y = f(x)
    return tape.explain(y, x)


def test_an_unwatched_constant_is_named_as_such() -> None:
    c = tf.constant(1.0)
    with tf.GradientTape(persistent=True) as tape:
        y = c * 2.0
    assert "not watched" in tape.explain(y, c)


def test_an_integer_source_is_named_as_such() -> None:
    n = tf.Variable(3)
    with tf.GradientTape(persistent=True) as tape:
        y = tf.cast(n, tf.float32) * 2.0
    assert "int32" in tape.explain(y, n)


@pytest.mark.parametrize("op", [tf.floor, tf.stop_gradient, tf.round])
def test_a_checking_tape_names_the_op_without_a_derivative(op) -> None:
    text = explained(lambda x: op(x) * 2.0, verify=True)
    assert text.startswith("None") and "no derivative" in text and __file__ in text


def test_sign_is_connected_but_zero() -> None:
    assert explained(tf.sign).startswith("Zero: sign")


def test_what_is_connected_says_by_which_ops() -> None:
    assert explained(lambda x: tf.sin(x) * x).startswith("Connected: multiply")


def test_an_infinite_value_on_the_way_is_named() -> None:
    assert "not finite" in explained(lambda x: tf.math.log(x - 2.5), verify=True)


def test_a_used_tape_says_so() -> None:
    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = x * x
    tape.gradient(y, x)
    assert "no record" in tape.explain(y, x)
