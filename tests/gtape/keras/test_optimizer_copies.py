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
