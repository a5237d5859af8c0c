"""Optimizers and transparent wrappers around the tape (section 9 of the contract, as far as it exists)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf


def test_executing_eagerly() -> None:
    assert tf.executing_eagerly() is True


def test_function_is_transparent_to_tapes_inside_and_outside() -> None:
    @tf.function
    def square(x: Any) -> Any:
        return x * x

    @tf.function(reduce_retracing=True)
    def slope(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = square(x)
        return tape.gradient(y, x)

    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = square(x)
    assert tape.gradient(y, x).numpy() == 6.0
    assert slope(tf.constant(3.0)).numpy() == 6.0


def test_minimize_takes_a_tensor_with_its_tape_or_a_callable() -> None:
    w = tf.Variable([1.0, 0.0])
    optimizer = tf.keras.optimizers.SGD(1.0)
    with tf.GradientTape() as tape:
        y = 2.0 * w
    optimizer.minimize(y, w, grad_loss=tf.constant([2.0, 5.0]), tape=tape)
    assert w.numpy().tolist() == [-3.0, -10.0]
    optimizer.minimize(lambda: tf.reduce_sum(w * w), [w])
    assert w.numpy().tolist() == [3.0, 10.0]
    with pytest.raises(ValueError, match="tape"):
        optimizer.minimize(y, w)


def test_one_optimizer_serves_changing_variables() -> None:
    optimizer = tf.keras.optimizers.SGD(1.0)
    for value in (1.0, 2.0):
        v = tf.Variable(value)
        optimizer.minimize(lambda v=v: v * v, [v])
        assert v.numpy() == -value


def test_apply_gradients_takes_any_iterable_and_counts_its_calls() -> None:
    v, w = tf.Variable(1.0), tf.Variable(2.0)
    optimizer = tf.keras.optimizers.SGD(0.5)
    optimizer.apply_gradients((g, x) for g, x in [(tf.constant(1.0), v), (tf.constant(2.0), w)])
    optimizer.apply([tf.constant(1.0)], [v])
    assert (v.numpy(), w.numpy(), int(optimizer.iterations)) == (0.0, 1.0, 2)


def test_missing_gradients_are_skipped_with_a_warning_and_all_missing_is_an_error() -> None:
    v, w = tf.Variable(1.0), tf.Variable(2.0)
    optimizer = tf.keras.optimizers.SGD(1.0)
    with pytest.warns(UserWarning, match="Gradients do not exist"):
        optimizer.apply_gradients([(None, v), (tf.constant(1.0), w)])
    assert (v.numpy(), w.numpy()) == (1.0, 1.0)
    with pytest.raises(ValueError, match=r"^No gradients provided for any variable\."):
        optimizer.apply_gradients([(None, v)])


def test_learning_rate_can_be_set() -> None:
    v = tf.Variable(1.0)
    optimizer = tf.keras.optimizers.SGD(1.0)
    optimizer.learning_rate = 0.25
    optimizer.apply_gradients([(tf.constant(2.0), v)])
    assert v.numpy() == 0.5


def test_momentum_and_nesterov() -> None:
    for nesterov, wanted in ((False, [-0.1, -0.29]), (True, [-0.19, -0.461])):
        v = tf.Variable(0.0)
        optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9, nesterov=nesterov)
        seen = []
        for _ in range(2):
            optimizer.apply_gradients([(tf.constant(1.0), v)])
            seen.append(float(v))
        np.testing.assert_allclose(seen, wanted, rtol=1e-4)


def test_indexed_slices_change_only_their_rows() -> None:
    table = tf.Variable([[1.0], [2.0], [3.0]])
    with tf.GradientTape() as tape:
        y = tf.gather(table, [0, 2, 0])
    tf.keras.optimizers.SGD(1.0).apply_gradients([(tape.gradient(y, table), table)])
    assert table.numpy().tolist() == [[-1.0], [2.0], [2.0]]


def test_nest_flattens_and_packs() -> None:
    structure = {"b": [1, (2,)], "a": None}
    flat = tf.nest.flatten(structure)
    assert flat == [None, 1, 2]
    assert tf.nest.pack_sequence_as(structure, flat) == structure
    assert tf.nest.map_structure(lambda v: v, structure) == structure
    with pytest.raises(ValueError):
        tf.nest.assert_same_structure([1], [1, 2])
    with pytest.raises(TypeError):
        tf.nest.assert_same_structure([1], (1,))


@pytest.mark.parametrize("make", [tf.keras.optimizers.Adam, tf.keras.optimizers.SGD])
def test_a_variable_that_the_first_call_has_not_seen_is_an_error(make: Any) -> None:
    v, w, g = tf.Variable(1.0), tf.Variable(2.0), tf.constant(1.0)
    optimizer = make(0.5)
    optimizer.apply_gradients([(g, v)])
    with pytest.raises(ValueError, match="Unknown variable"):
        optimizer.apply_gradients([(g, w)])
    with pytest.raises(ValueError, match="Unknown variable"):
        optimizer.apply([g, g], [v, w])
    optimizer.apply_gradients([(g, v)])


def test_an_optimizer_that_keeps_nothing_serves_another_model() -> None:
    first, second = [[tf.Variable(1.0), tf.Variable(2.0)] for _ in range(2)]
    g = [tf.constant(1.0), tf.constant(1.0)]
    plain, with_state = tf.keras.optimizers.SGD(0.5), tf.keras.optimizers.SGD(0.5, momentum=0.9)
    for optimizer in (plain, with_state):
        optimizer.apply_gradients(zip(g, first, strict=True))
    plain.apply_gradients(zip(g, second, strict=True))
    assert [v.numpy() for v in second] == [0.5, 1.5]
    with pytest.raises(ValueError, match="Unknown variable"):
        with_state.apply_gradients(zip(g, second, strict=True))
