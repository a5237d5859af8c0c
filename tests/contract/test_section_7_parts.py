"""Section 7: variables changed in part, what they may hold, and how they say so."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import gtape as tf


def slices(values: Any, indices: Any) -> tf.IndexedSlices:
    return tf.IndexedSlices(tf.constant(values), tf.constant(indices))


@pytest.mark.parametrize("method", ["scatter_update", "scatter_add", "scatter_sub", "scatter_mul", "scatter_max"])
@pytest.mark.parametrize(
    "update",
    [slices([[1.0, 2.0]], [0, 1]), slices([1.0, 2.0], [0, 1]), slices([1.0, 2.0, 3.0], [0]), slices([[1.0]], [0])],
)
def test_updates_of_another_shape_than_the_rows_are_refused(method: str, update: tf.IndexedSlices) -> None:
    v = tf.Variable(tf.ones([3, 2]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="do not fit"):
        getattr(v, method)(update)
    assert v.numpy().tolist() == [[1.0, 1.0]] * 3


def test_one_number_updates_all_the_rows_named() -> None:
    v = tf.Variable(tf.zeros([3, 2]))
    assert v.scatter_add(slices(2.0, [0, 2, 2])).numpy().tolist() == [[2.0, 2.0], [0.0, 0.0], [4.0, 4.0]]


def test_a_scalar_variable_has_no_rows() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="no rows"):
        tf.Variable(1.0).scatter_add(slices([1.0], [0]))


def test_a_batch_update_checks_the_rows_of_each_batch_entry() -> None:
    v = tf.Variable(tf.zeros([3, 2]))
    assert v.batch_scatter_update(slices([[1.0], [2.0], [3.0]], [[1], [0], [1]])).numpy().tolist() == [
        [0.0, 1.0], [2.0, 0.0], [0.0, 3.0],
    ]  # fmt: skip
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"outside \[0, 2\)"):
        v.batch_scatter_update(slices([[1.0], [2.0], [3.0]], [[1], [0], [2]]))


@pytest.mark.parametrize("updates", [5.0, [[5.0]], [5.0, 6.0]])
def test_scatter_nd_wants_an_update_for_each_place(updates: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="do not fit"):
        tf.Variable(tf.zeros([3, 2])).scatter_nd_add([[0, 0]], updates)


def test_whole_numbers_of_numpy_are_assigned_to_an_int_variable_and_no_others() -> None:
    v = tf.Variable([1, 2])
    assert v.assign(np.array([3.0, 4.0])).numpy().tolist() == [3, 4]
    assert v.assign_add(np.ones(2)).numpy().tolist() == [4, 5]
    assert tf.Variable(1).assign(np.float64(2)).numpy() == 2
    with pytest.raises(TypeError):
        v.assign(np.array([0.5, 0.5]))


def test_a_repr_shows_the_shape_that_values_may_have() -> None:
    v = tf.Variable([1.0, 2.0], name="w", shape=[None])
    assert repr(v) == "<gtape.Variable 'w:0' shape=(None,) dtype=float32, numpy=array([1., 2.], dtype=float32)>"
    v = tf.Variable(1, shape=tf.TensorShape(None))
    assert repr(v) == "<gtape.Variable 'Variable:0' shape=<unknown> dtype=int32, numpy=1>"


def test_a_constraint_is_a_function() -> None:
    with pytest.raises(ValueError, match="constraint"):
        tf.Variable(1.0, constraint=5)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))])
def test_copies_keep_the_shape_that_values_may_have_and_the_constraint(again: Any) -> None:
    v = tf.Variable([1.0, 2.0], name="w", trainable=False, shape=[None], constraint=tf.nn.relu)
    made = again(v)
    assert (made.name, made.trainable, made.shape.as_list(), made.constraint) == ("w:0", False, [None], tf.nn.relu)
    assert made.assign([1.0, 2.0, 3.0]).numpy().tolist() == [1.0, 2.0, 3.0]
    assert v.numpy().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("method", ["assign", "assign_add", "assign_sub"])
def test_a_part_can_be_assigned_however_the_value_lies_in_memory(method: str) -> None:
    v = tf.Variable(tf.zeros([2, 3]))
    v.assign(tf.transpose(tf.constant([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])))
    wanted = v.numpy()
    getattr(v[0], method)([9.0, 8.0, 7.0])
    change = {"assign": lambda a: [9.0, 8.0, 7.0], "assign_add": lambda a: a + [9, 8, 7]}
    wanted[0] = change.get(method, lambda a: a - [9, 8, 7])(wanted[0])
    np.testing.assert_array_equal(v.numpy(), wanted)
