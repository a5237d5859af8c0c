"""Optimizers, IndexedSlices, copies and small print of section 9, each as TensorFlow does it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import gtape as tf

IAE = tf.errors.InvalidArgumentError
optimizers = tf.keras.optimizers


# ---------------------------------------------------------------- IndexedSlices


def test_several_lookups_stand_in_the_order_in_which_they_were_made() -> None:
    v = tf.Variable([[1.0], [2.0], [3.0]])
    with tf.GradientTape() as tape:
        first, second = tf.gather(v, [0, 2]), tf.gather(v, [1])
        loss = 2.0 * tf.reduce_sum(second) + tf.reduce_sum(first)
    g = tape.gradient(loss, v)
    assert g.indices.numpy().tolist() == [0, 2, 1]
    assert g.values.numpy().tolist() == [[1.0], [1.0], [2.0]]


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        (lambda s: tf.clip_by_value(s, -1.0, 1.0), [-1.0, 0.5, 1.0]),
        (lambda s: tf.cast(s, tf.float64), [-2.0, 0.5, 3.0]),
        (tf.identity, [-2.0, 0.5, 3.0]),
    ],
)
def test_ops_on_rows_keep_indexed_slices(change: Any, rows: list[float]) -> None:
    s = tf.IndexedSlices(tf.constant([-2.0, 0.5, 3.0]), tf.constant([0, 2, 0]), tf.constant([4]))
    made = change(s)
    assert isinstance(made, tf.IndexedSlices)
    assert made.values.numpy().tolist() == rows and made.indices.numpy().tolist() == [0, 2, 0]
    assert made.dense_shape.numpy().tolist() == [4]


def test_clip_by_value_keeps_the_shape_of_what_it_clips() -> None:
    with pytest.raises(ValueError, match="shape"):
        tf.clip_by_value(tf.constant([1.0, 2.0]), tf.zeros([3, 2]), 1.0)
    assert tf.clip_by_value(tf.constant([1.0, 5.0]), [2.0, 0.0], tf.constant(3.0)).numpy().tolist() == [2.0, 3.0]


# ---------------------------------------------------------------- optimizers


@pytest.mark.parametrize("make", [optimizers.SGD, optimizers.Adam, optimizers.RMSprop, optimizers.Ftrl])
def test_an_unknown_argument_of_an_optimizer_is_a_value_error(make: Any) -> None:
    with pytest.raises(ValueError, match=r"Argument\(s\) not recognized: {'foo': 1}"):
        make(0.1, foo=1)


def test_an_empty_list_of_gradients_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="No gradients provided for any variable"):
        optimizers.SGD(0.1).apply_gradients([])


def test_a_gradient_of_another_shape_is_an_invalid_argument() -> None:
    for make in (optimizers.SGD, optimizers.Adam):
        with pytest.raises(IAE):
            make(0.1).apply_gradients([(tf.constant([1.0, 2.0]), tf.Variable([1.0, 2.0, 3.0]))])


def test_a_scheduled_learning_rate_cannot_be_set_to_a_number() -> None:
    schedule = optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)
    optimizer = optimizers.SGD(schedule)
    with pytest.raises(TypeError, match="not settable"):
        optimizer.learning_rate = 0.1
    optimizer.learning_rate = optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)
    assert float(optimizer.learning_rate) == 0.5


# ---------------------------------------------------------------- functions


def test_a_function_returns_what_a_variable_holds_by_then() -> None:
    v = tf.Variable(1.0)

    @tf.function
    def step(d: Any) -> Any:
        v.assign_add(d)
        return v, {"again": v}

    with tf.GradientTape() as tape:
        now, structure = step(2.0)
        y = now * structure["again"]
    v.assign(0.0)
    assert isinstance(now, tf.Tensor) and now.numpy() == 3.0
    assert tape.gradient(y, v).numpy() == 6.0


def test_numpy_function_gets_arrays_of_scalars_too() -> None:
    kinds: list[type] = []
    tf.numpy_function(lambda a, b: kinds.extend([type(a), type(b)]), [tf.constant(1.0), tf.constant([1.0])], [])
    assert kinds == [np.ndarray, np.ndarray]


# ---------------------------------------------------------------- checks


def test_assert_near_takes_floats_of_one_dtype() -> None:
    with pytest.raises(ValueError, match="floating-point"):
        tf.debugging.assert_near(tf.constant(1), tf.constant(1))
    with pytest.raises(ValueError, match="float64"):
        tf.debugging.assert_near(1.0, tf.constant(1.0, tf.float64))
    tf.debugging.assert_near(tf.Variable([1.0, 2.0]), [1.0, 2.0])


def test_case_without_pairs_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="at least one"):
        tf.case([])


def test_an_element_of_unknown_shape_that_was_never_written_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="never written"):
        tf.TensorArray(tf.float32, 2).read(0)


# ---------------------------------------------------------------- objects


def test_a_tensor_is_its_own_copy_and_stays_connected() -> None:
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, z = copy.copy(x) * 2.0, copy.deepcopy([x])[0] * 3.0
    assert copy.copy(x) is x and copy.deepcopy(x) is x
    assert tape.gradient(y, x).numpy().tolist() == [2.0, 2.0]
    assert tape.gradient(z, x).numpy().tolist() == [3.0, 3.0]


def test_a_shallow_copy_of_a_variable_is_the_variable() -> None:
    v = tf.Variable(1.0)
    assert copy.copy(v) is v
    assert copy.deepcopy(v) is not v


def test_a_variable_takes_every_keyword_of_tensorflow() -> None:
    v = tf.Variable(
        initial_value=1.0, trainable=False, validate_shape=True, caching_device=None, name="n", variable_def=None,
        dtype=None, import_scope=None, constraint=None, shape=None,
    )  # fmt: skip
    assert v.name == "n:0" and not v.trainable


# ---------------------------------------------------------------- results with names


def test_results_of_qr_and_top_k_have_tensorflows_names() -> None:
    x = tf.constant([[3.0, 1.0], [4.0, 2.0]])
    factors, top = tf.linalg.qr(x), tf.math.top_k(x, 1)
    assert factors._fields == ("q", "r") and top._fields == ("values", "indices")
    np.testing.assert_allclose(tf.matmul(factors.q, factors.r).numpy(), x.numpy(), rtol=1e-6)
    doubled = tf.nest.map_structure(lambda t: 2 * t, top)
    assert doubled.values.numpy().tolist() == [[6.0], [8.0]] and doubled.indices.numpy().tolist() == [[0], [0]]
