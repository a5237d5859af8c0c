"""`tape.explain` names the reason for None, zero and NaN."""

from __future__ import annotations

import numpy as np
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


@pytest.mark.parametrize("verify", [False, True])
def test_the_op_that_makes_a_gradient_infinite_nan_or_zero_is_named_with_its_input(verify: bool) -> None:
    text = explained(lambda x: 2.0 * tf.math.log(x - 2.5), verify=verify)
    assert text.startswith("Infinity: the gradient is finite as far as log") and text.endswith("computed from 0.0.")
    assert (__file__ in text) == verify
    assert explained(lambda x: tf.exp(tf.sqrt(x - 2.5)), verify=verify).startswith(
        "Infinity: the gradient is finite as"
    )
    assert "as far as log" in explained(lambda x: tf.math.log(-x), verify=verify)
    assert "as far as sqrt" in explained(lambda x: tf.sqrt(tf.square(x * 0.0) * 2.0) * 3.0, verify=verify)
    assert explained(lambda x: tf.nn.relu(-x) * 3.0, verify=verify).startswith(
        "Zero: the gradient is not 0 as far as relu"
    )
    assert explained(lambda x: tf.nn.relu(-x) + x, verify=verify).startswith("Connected")
    selected = explained(lambda x: tf.where(x > 3.0, tf.math.log(x - 2.5), x), verify=verify)
    assert selected.startswith("Connected")  # what is not taken does no harm


def test_explaining_uses_nothing_up_and_records_nothing() -> None:
    x = tf.Variable([1.0, 0.0])
    with tf.GradientTape() as outer:
        with tf.GradientTape() as tape:
            y = tf.sqrt(x)
            inside = tape.explain(y, x)
        dy = tape.gradient(y, x)
    assert inside.startswith("Infinity: the gradient is finite as far as sqrt, and not finite behind it")
    assert dy.numpy().tolist() == [0.5, np.inf]
    assert outer.gradient(dy, x).numpy()[0] == -0.25


def test_of_structures_each_member_gets_a_line() -> None:
    w, b, c = tf.Variable(1.0, name="w"), tf.Variable(1.0, name="b"), tf.constant(1.0)
    with tf.GradientTape() as tape:
        y = tf.sin(w)
    lines = tape.explain([y, w], {"w": w, "b": b, "c": c}).split("\n")
    assert [line.split(":")[0] for line in lines][:3] == ["target 0, b", "target 0, source 1", "target 0, w"]
    assert lines[2].endswith("Connected: sin.") and lines[5].endswith("source itself.") and len(lines) == 6


def test_a_used_tape_says_so() -> None:
    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = x * x
    tape.gradient(y, x)
    assert "no record" in tape.explain(y, x)


def test_a_used_tape_still_names_a_source_without_gradients() -> None:
    n = tf.Variable(3)
    with tf.GradientTape() as tape:
        y = tf.cast(n, tf.float32) * 2.0
    assert tape.gradient(y, n) is None
    assert tape.explain(y, n).startswith("None: the source is int32")
