"""Optimizers, and generators of random numbers, are copied and pickled with all that they remember."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import gtape as tf

optimizers = tf.keras.optimizers
MAKERS = {
    "Adam": lambda: optimizers.Adam(0.1),
    "momentum": lambda: optimizers.SGD(0.1, momentum=0.9, use_ema=True),
    "schedule": lambda: optimizers.RMSprop(optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)),
    "accumulation": lambda: optimizers.SGD(0.1, gradient_accumulation_steps=2),
}


def train(optimizer: Any, v: tf.Variable, steps: int) -> np.ndarray[Any, Any]:
    for _ in range(steps):
        optimizer.apply_gradients([(v * 2.0, v)])
    return np.array(v)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
@pytest.mark.parametrize(
    "again", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))], ids=["copy", "pickle"]
)
def test_a_copy_of_variables_and_optimizer_goes_on_as_they_do(make: Any, again: Any) -> None:
    v, optimizer = tf.Variable([1.0, 2.0]), make()
    train(optimizer, v, 3)
    other, its_optimizer = again((v, optimizer))
    np.testing.assert_array_equal(train(its_optimizer, other, 3), train(optimizer, v, 3))
    assert int(its_optimizer.iterations) == int(optimizer.iterations)


@pytest.mark.parametrize(
    "again", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))], ids=["copy", "pickle"]
)
def test_a_copy_leaves_the_copied_variables_out_of_the_weight_decay(again: Any) -> None:
    v, optimizer = tf.Variable([1.0, 2.0]), optimizers.SGD(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay([v])
    other, its_optimizer = again((v, optimizer))
    its_optimizer.apply_gradients([(tf.zeros([2]), other)])
    np.testing.assert_array_equal(other, v)


def test_a_copy_of_the_optimizer_alone_serves_the_same_variables_with_slots_of_its_own() -> None:
    v, optimizer = tf.Variable([1.0, 2.0]), optimizers.SGD(0.1, momentum=0.9)
    train(optimizer, v, 3)
    start = v.numpy()
    other = copy.deepcopy(optimizer)
    moved = train(optimizer, v, 2)
    v.assign(start)
    np.testing.assert_array_equal(train(other, v, 2), moved)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))], ids=["copy", "pickle"])
def test_a_copy_of_a_generator_draws_what_it_draws(again: Any) -> None:
    generator = tf.random.Generator.from_seed(3)
    generator.normal([2])
    np.testing.assert_array_equal(again(generator).normal([4]), generator.normal([4]))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
@pytest.mark.parametrize(
    "again", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))], ids=["copy", "pickle"]
)
def test_a_copy_may_reach_the_optimizer_before_its_variables(make: Any, again: Any) -> None:
    v, w, optimizer = tf.Variable([1.0, 2.0]), tf.Variable([3.0]), make()
    optimizer.build([v, w])
    train(optimizer, v, 3)
    its_optimizer, (its_w, its_v) = again((optimizer, [w, v]))
    before = v.numpy(), w.numpy()
    for _ in range(2):
        its_optimizer.apply([its_v * 2.0, its_w * 2.0])
    np.testing.assert_array_equal(v, before[0])
    np.testing.assert_array_equal(w, before[1])
    for _ in range(2):
        optimizer.apply([v * 2.0, w * 2.0])
    np.testing.assert_array_equal(its_v, v)
    np.testing.assert_array_equal(its_w, w)
    assert [u.name for u in its_optimizer.variables] == [u.name for u in optimizer.variables]


class Trainer:
    """An object whose optimizer comes before its variable."""

    def __init__(self) -> None:
        self.optimizer = optimizers.Adam(0.1)
        self.w = tf.Variable([1.0, 2.0])
        self.optimizer.exclude_from_weight_decay([self.w])
        self.optimizer.build([self.w])

    def step(self) -> np.ndarray[Any, Any]:
        return train(self.optimizer, self.w, 1)


def test_a_copy_of_an_object_trains_the_variables_of_the_copy() -> None:
    trainer = Trainer()
    trainer.step()
    before, other = trainer.w.numpy(), copy.deepcopy(trainer)
    moved = other.step()
    np.testing.assert_array_equal(trainer.w, before)
    np.testing.assert_array_equal(trainer.step(), moved)


def test_a_copy_of_the_optimizer_alone_keeps_the_variables_if_these_are_copied_in_another_call() -> None:
    v, optimizer = tf.Variable([1.0, 2.0]), optimizers.SGD(0.1)
    optimizer.build([v])
    other, copied = copy.deepcopy(optimizer), copy.deepcopy(v)
    other.apply([tf.constant([1.0, 1.0])])
    np.testing.assert_array_equal(v, np.float32([0.9, 1.9]))
    np.testing.assert_array_equal(copied, [1.0, 2.0])
