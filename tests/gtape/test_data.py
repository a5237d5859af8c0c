"""Datasets: what loops over batches take from tf.data."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gtape as tf

Dataset = tf.data.Dataset


def listed(dataset: Any) -> list[Any]:
    return tf.nest.map_structure(lambda x: x.tolist(), list(dataset.as_numpy_iterator()))


@pytest.mark.parametrize(
    ("dataset", "wanted"),
    [
        (Dataset.range(3), [0, 1, 2]),
        (Dataset.range(1, 7, 2), [1, 3, 5]),
        (Dataset.from_tensors([1, 2]), [[1, 2]]),
        (Dataset.from_tensor_slices([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (Dataset.from_tensor_slices({"a": [1, 2], "b": [3.0, 4.0]}), [{"a": 1, "b": 3.0}, {"a": 2, "b": 4.0}]),
        (Dataset.from_generator(lambda n: iter(range(n)), "float32", args=(2,)), [0.0, 1.0]),
        (Dataset.zip((Dataset.range(2), Dataset.range(5, 9))), [(0, 5), (1, 6)]),
        (Dataset.range(5, 7).enumerate(), [(0, 5), (1, 6)]),
        (Dataset.range(3).map(lambda x: (x, x * 2)), [(0, 0), (1, 2), (2, 4)]),
        (Dataset.range(3).enumerate().map(lambda i, x: i + x), [0, 2, 4]),
        (Dataset.range(5).filter(lambda x: x % 2 == 0), [0, 2, 4]),
        (Dataset.range(5).batch(2), [[0, 1], [2, 3], [4]]),
        (Dataset.range(5).batch(2, drop_remainder=True), [[0, 1], [2, 3]]),
        (Dataset.range(4).batch(2).unbatch(), [0, 1, 2, 3]),
        (Dataset.range(5).skip(1).take(3).concatenate(Dataset.range(2)), [1, 2, 3, 0, 1]),
        (Dataset.range(2).repeat(2), [0, 1, 0, 1]),
        (Dataset.range(2).repeat().take(5), [0, 1, 0, 1, 0]),
        (Dataset.range(0).repeat(), []),
        (Dataset.range(2).prefetch(tf.data.AUTOTUNE).cache(), [0, 1]),
    ],
)
def test_elements_are_those_of_tensorflow_and_come_again(dataset: Any, wanted: list[Any]) -> None:
    assert listed(dataset) == wanted
    assert listed(dataset) == wanted


def test_sizes_are_known_where_they_can_be() -> None:
    numbers = Dataset.range(5)
    assert [len(d) for d in (numbers, numbers.batch(2), numbers.batch(2, True), numbers.repeat(3))] == [5, 3, 2, 15]
    assert int(numbers.repeat().cardinality()) == tf.data.INFINITE_CARDINALITY
    assert int(numbers.filter(lambda x: x > 1).cardinality()) == tf.data.UNKNOWN_CARDINALITY
    for endless in (numbers.repeat(), numbers.filter(lambda x: x > 1)):
        with pytest.raises(TypeError, match=r"infinite|unknown"):
            len(endless)


def test_the_spec_shows_what_elements_are() -> None:
    rows = Dataset.from_tensor_slices((np.zeros((5, 2), np.float32), [0, 1, 0, 1, 0]))
    assert rows.element_spec == (tf.TensorSpec([2], tf.float32), tf.TensorSpec([], tf.int32))
    assert rows.batch(2).element_spec[0].shape.as_list() == [None, 2]
    assert rows.batch(2, drop_remainder=True).element_spec[0].shape.as_list() == [2, 2]


@given(st.integers(0, 20), st.integers(1, 25), st.booleans())
def test_shuffling_loses_and_doubles_nothing(n: int, buffer: int, again: bool) -> None:
    shuffled = Dataset.range(n).shuffle(buffer, reshuffle_each_iteration=again)
    orders = [listed(shuffled) for _ in range(2)]
    assert [sorted(o) for o in orders] == [list(range(n))] * 2
    assert again or orders[0] == orders[1]
    assert all(i <= value + buffer and value <= i + buffer for o in orders for i, value in enumerate(o) if value > i)


def test_orders_repeat_after_set_seed() -> None:
    seen = []
    for _ in range(2):
        tf.random.set_seed(3)
        shuffled = Dataset.range(20).shuffle(20)
        seen.append((listed(shuffled), listed(shuffled)))
    assert seen[0] == seen[1] and seen[0][0] != seen[0][1]


def test_gradients_flow_from_losses_of_batches() -> None:
    w = tf.Variable([[1.0], [2.0]])
    total = np.zeros((2, 1))
    for x, y in Dataset.from_tensor_slices((np.eye(4, 2, dtype=np.float32), np.ones((4, 1), np.float32))).batch(3):
        with tf.GradientTape(verify=True) as tape:
            loss = tf.reduce_sum((x @ w - y) ** 2)
        total += tape.gradient(loss, w).numpy()
    assert total.tolist() == [[0.0], [2.0]]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Dataset.from_tensor_slices(([1, 2], [1, 2, 3])), "same number of rows"),
        (lambda: Dataset.from_tensor_slices(1.0), "same number of rows"),
        (lambda: Dataset.range(3).batch(0), "`batch_size` must be a positive integer"),
        (lambda: Dataset.range(3).shuffle(0), "`buffer_size` must be a positive integer"),
        (lambda: list(Dataset.from_generator(lambda: iter([[1], [1, 2]])).batch(2)), "cannot be stacked"),
        (lambda: Dataset.range(2).get_single_element(), "more than one"),
        (lambda: Dataset.range(0).element_spec, "empty"),
    ],
)
def test_what_cannot_be_is_a_value_error(make: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


def test_a_dataset_reduces_to_one_value() -> None:
    assert int(Dataset.range(5).reduce(np.int64(0), lambda a, b: a + b)) == 10
    assert int(Dataset.range(5, 6).get_single_element()) == 5


def test_skipping_minus_one_skips_all() -> None:
    assert list(tf.data.Dataset.range(3).skip(-1)) == [] and len(tf.data.Dataset.range(3).skip(-1)) == 0


def test_a_dataset_says_that_it_cannot_be_pickled() -> None:
    dataset = tf.data.Dataset.range(3)
    assert list(copy.deepcopy(dataset).as_numpy_iterator()) == [0, 1, 2]
    with pytest.raises(TypeError, match="a Dataset cannot be pickled"):
        pickle.dumps(dataset)


VECTOR = tf.TensorSpec([2], "float32")


def yielding(*elements: Any, **options: Any) -> Any:
    return tf.data.Dataset.from_generator(lambda: iter(elements), **options)


@pytest.mark.parametrize(
    ("options", "element", "said"),
    [
        ({"output_signature": VECTOR}, [1.0, 2.0, 3.0], r"of shape \(3,\) where an element of shape \(2,\)"),
        ({"output_signature": VECTOR}, 1.0, r"of shape \(\) where"),
        ({"output_signature": VECTOR}, "text", "could not be converted to the expected type float32"),
        ({"output_signature": (VECTOR, VECTOR)}, [1.0, 2.0], "did not match the expected structure"),
        ({"output_signature": {"x": VECTOR}}, {"y": [1.0, 2.0]}, "did not match the expected structure"),
        ({"output_types": "float32", "output_shapes": [2]}, [1.0], r"of shape \(1,\) where"),
        ({"output_types": ("float32", "int32"), "output_shapes": ([2], [])}, ([1.0], 1), r"of shape \(1,\) where"),
    ],
)
def test_a_generator_keeps_the_promise_of_its_signature(options: Any, element: Any, said: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=said):
        list(yielding(element, **options))


def test_the_signature_of_a_generator_is_the_spec_of_the_elements() -> None:
    lists = yielding(([1.0, 2.0], 1), output_signature=(tf.TensorSpec([None], "float32"), tf.TensorSpec([], "int32")))
    ((x, n),) = lists
    assert x.numpy().tolist() == [1.0, 2.0] and n.dtype == "int32"
    assert lists.element_spec[0].shape.as_list() == [None]
    assert yielding(1.0, output_types="float64").element_spec.dtype == "float64"


@pytest.mark.parametrize("found", [1, 1.0, None, tf.constant(1), tf.constant([True])])
def test_a_predicate_returns_one_bool(found: Any) -> None:
    with pytest.raises(ValueError, match="must return a bool scalar"):
        list(tf.data.Dataset.range(2).filter(lambda x: found))


@pytest.mark.parametrize("size", [0, -1])
def test_a_batch_has_an_element_at_least(size: int) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="positive integer"):
        tf.data.Dataset.range(2).batch(size)


@pytest.mark.parametrize("name", ["flat_map", "window", "padded_batch", "unique"])
def test_a_method_that_is_left_out_is_said_to_be(name: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; gtape does not have this method"):
        getattr(tf.data.Dataset.range(2), name)
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        tf.data.Dataset.range(2).nonsense  # noqa: B018
