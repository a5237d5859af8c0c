"""Section 2 of the contract, in its smaller print: options, weights, None op by op, lookups, lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf

# ---------------------------------------------------------------- smaller print


def test_the_enum_is_one() -> None:
    options = tf.UnconnectedGradients
    assert list(options) == [options.NONE, options.ZERO] and len(options) == 2
    assert options("zero") is options.ZERO is options["ZERO"] and options.ZERO.name == "ZERO"
    assert isinstance(options.NONE, options) and options.NONE != "none"
    assert (
        repr(options.ZERO) == "<UnconnectedGradients.ZERO: 'zero'>" and str(options.ZERO) == "UnconnectedGradients.ZERO"
    )
    with pytest.raises(ValueError, match="'bad' is not a valid UnconnectedGradients"):
        options("bad")


@pytest.mark.parametrize("bad", ["nonsense", None, 0, "ZERO", True], ids=repr)
def test_unknown_option_is_quoted_by_its_repr(bad: Any) -> None:
    import re

    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = x * x
    with pytest.raises(ValueError, match=f"^Unknown value for unconnected_gradients: {re.escape(repr(bad))}$"):
        tape.gradient(y, x, unconnected_gradients=bad)


@pytest.mark.parametrize("structure", [[], (), {}], ids=repr)
def test_empty_sources_come_back_empty(structure: Any) -> None:
    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = x * x
    assert tape.gradient(y, structure) == structure


def test_sources_may_nest_and_repeat() -> None:
    x, w = tf.Variable(3.0), tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = x * w
    made = tape.gradient(y, [x, (w, {"q": x})])
    assert isinstance(made, list) and isinstance(made[1], tuple) and list(made[1][1]) == ["q"]
    assert (made[0].numpy(), made[1][0].numpy(), made[1][1]["q"].numpy()) == (2.0, 3.0, 2.0)


def test_a_namedtuple_comes_back_as_one() -> None:
    from collections import namedtuple

    Pair = namedtuple("Pair", "a b")
    x, w = tf.Variable(3.0), tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y, z = x * w, x * x
    made = tape.gradient(Pair(y, z), Pair(x, w))
    assert isinstance(made, Pair) and (made.a.numpy(), made.b.numpy()) == (8.0, 3.0)


def test_an_output_gradient_weighs_a_target_that_is_its_own_source() -> None:
    x = tf.constant([3.0, 4.0])
    with tf.GradientTape() as tape:
        pass
    assert tape.gradient(x, x, output_gradients=tf.constant([5.0, 6.0])).numpy().tolist() == [5.0, 6.0]


def test_targets_repeated_as_their_own_source_count_twice() -> None:
    x = tf.constant([3.0, 4.0])
    with tf.GradientTape() as tape:
        pass
    assert tape.gradient([x, x], x).numpy().tolist() == [2.0, 2.0]


def test_integer_targets_take_their_place_among_output_gradients() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y, n = x * x, tf.cast(x, tf.int32)
    assert tape.gradient([n, y], x, output_gradients=[tf.constant(1), tf.constant(2.0)]).numpy() == 12.0


def test_output_gradients_of_a_dict_go_by_its_sorted_keys() -> None:
    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y, z = x * x, x * 3.0
    weights = {"a": tf.constant(10.0), "b": tf.constant(1.0)}
    assert tape.gradient({"b": y, "a": z}, x, output_gradients=weights).numpy() == 32.0


@pytest.mark.parametrize("weight", [[1.0], [[1.0]], -1.0, [-1.0, 7.0]], ids=repr)
def test_weights_of_a_scalar(weight: Any) -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = tf.reduce_mean(x * x)
    sign = np.ravel(weight)[0]
    assert tape.gradient(y, x, output_gradients=weight).numpy().tolist() == [sign, 2.0 * sign]


def test_a_weight_of_one_element_is_broadcast_over_a_vector() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = x * x
    assert tape.gradient(y, x, output_gradients=tf.constant([3.0])).numpy().tolist() == [6.0, 12.0]


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32"])
def test_weights_of_other_dtypes_are_invalid_arguments(dtype: str) -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = x * x
    with pytest.raises(tf.errors.InvalidArgumentError):
        tape.gradient(y, x, output_gradients=tf.ones([2], dtype))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_zeros_have_shape_and_dtype_of_the_source(dtype: str) -> None:
    x, w = tf.Variable(3.0), tf.zeros([2, 0, 3], dtype)
    with tf.GradientTape() as tape:
        y = x * x
    made = tape.gradient(y, w, unconnected_gradients="zero")
    assert made.shape == (2, 0, 3) and made.dtype == dtype


def test_zeros_of_strings_are_empty_strings() -> None:
    words = tf.constant(["a", "b"])
    with tf.GradientTape() as tape:
        y = tf.constant(1.0)
    made = tape.gradient(y, words, unconnected_gradients="zero")
    for zeros in (made, tf.zeros_like(words), tf.zeros_like([1, 2], tf.string)):
        assert zeros.numpy().tolist() == [b"", b""] and zeros.dtype == tf.string


# ---------------------------------------------------------------- None or zeros, op by op


NO_GRADIENT: dict[str, Any] = {
    "floor": tf.floor,
    "ceil": tf.math.ceil,
    "round": tf.round,
    "rint": tf.math.rint,
    "argmax": lambda x: tf.cast(tf.argmax(x), tf.float32),
    "argmin": lambda x: tf.cast(tf.argmin(x), tf.float32),
    "argsort": lambda x: tf.cast(tf.argsort(x), tf.float32),
    "equal": lambda x: tf.cast(tf.equal(x, 1.0), tf.float32),
    "less": lambda x: tf.cast(x < 1.0, tf.float32),
    "logical": lambda x: tf.cast(tf.logical_not(x < 1.0), tf.float32),
    "any": lambda x: tf.cast(tf.reduce_any(x < 1.0), tf.float32),
    "cast to int": lambda x: tf.cast(tf.cast(x, tf.int32), tf.float32),
    "floordiv": lambda x: x // 2.0,
    "zeros_like": tf.zeros_like,
    "ones_like": tf.ones_like,
    "shape": lambda x: tf.cast(tf.shape(x), tf.float32),
    "size": lambda x: tf.cast(tf.size(x), tf.float32),
    "rank": lambda x: tf.cast(tf.rank(x), tf.float32),
    "one_hot": lambda x: tf.one_hot(tf.cast(x, tf.int32), 3),
    "one_hot values": lambda x: tf.one_hot([0, 1], 2, on_value=x[0]),
    "range": lambda x: tf.range(x[0]),
    "top_k indices": lambda x: tf.cast(tf.math.top_k(x)[1], tf.float32),
    "count_nonzero": lambda x: tf.cast(tf.math.count_nonzero(x), tf.float32),
    "is_nan": lambda x: tf.cast(tf.math.is_nan(x), tf.float32),
    "stop_gradient": tf.stop_gradient,
    "through numpy": lambda x: tf.constant(x.numpy()),
    "searchsorted": lambda x: tf.cast(tf.searchsorted([0.0, 1.0], x), tf.float32),
    "shuffle": lambda x: tf.random.shuffle(x),
}


@pytest.mark.parametrize("name", NO_GRADIENT)
def test_gradient_is_none(name: str) -> None:
    x = tf.Variable([1.5, 2.5])
    with tf.GradientTape(persistent=True) as tape:
        y = NO_GRADIENT[name](x)
    assert tape.gradient(y, x) is None
    assert tape.gradient(y, x, unconnected_gradients="zero").numpy().tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "f",
    [tf.sign, tf.math.sign, lambda x: x % 2.0 - x, lambda x: 0.0 * x],
    ids=["sign", "math.sign", "x % 2 - x", "0 x"],
)
def test_gradient_is_zero_and_not_none(f: Any) -> None:
    x = tf.Variable([1.5, 0.5])
    with tf.GradientTape() as tape:
        y = f(x)
    assert tape.gradient(y, x).numpy().tolist() == [0.0, 0.0]


# ---------------------------------------------------------------- IndexedSlices, on


def looked_up() -> tf.IndexedSlices:
    table = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape() as tape:
        y = tf.gather(table, [0, 1, 0])
    return tape.gradient(y, table)  # type: ignore[no-any-return]


def test_slices_know_their_shape_and_dtype() -> None:
    g = looked_up()
    assert isinstance(g, tf.IndexedSlices) and tf.is_tensor(g) and not isinstance(g, tf.Tensor)
    assert g.shape == (2, 2) and g.dtype == tf.float32
    assert g.dense_shape.numpy().tolist() == [2, 2] and g.dense_shape.dtype == tf.int32
    assert tf.convert_to_tensor(g).numpy().tolist() == [[2.0, 2.0], [1.0, 1.0]]


def test_slices_as_text() -> None:
    s = tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([0]), tf.constant([2, 1]))
    assert str(s) == (
        "IndexedSlices(indices=gtape.Tensor([0], shape=(1,), dtype=int32), values=gtape.Tensor([[1.]], shape=(1, 1), "
        "dtype=float32), dense_shape=gtape.Tensor([2 1], shape=(2,), dtype=int32))"
    )


def test_slices_without_a_dense_shape() -> None:
    s = tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([0]))
    assert s.dense_shape is None and s.shape.as_list() == [None, 1]
    with pytest.raises(ValueError):
        tf.convert_to_tensor(s)


def test_ops_densify_slices() -> None:
    assert tf.reduce_sum(looked_up()).numpy() == 6.0
    assert tf.add(looked_up(), 1.0).numpy().tolist() == [[3.0, 3.0], [2.0, 2.0]]
    assert tf.square(looked_up()).numpy().tolist() == [[4.0, 4.0], [1.0, 1.0]]


@pytest.mark.parametrize("f", [tf.add, tf.multiply, lambda a, b: tf.ones([2, 2]) * a + b], ids=["add", "multiply", "*"])
def test_ops_of_two_operands_densify_slices_beside_slices_and_tensors(f: Any) -> None:
    dense = tf.convert_to_tensor(looked_up())
    expected = f(dense, dense).numpy().tolist()
    assert f(looked_up(), looked_up()).numpy().tolist() == expected
    assert f(looked_up(), dense).numpy().tolist() == expected
    assert f(dense, looked_up()).numpy().tolist() == expected


@pytest.mark.parametrize("read", [tf.convert_to_tensor, tf.identity, lambda v: v.read_value()])
def test_a_lookup_in_what_was_read_of_a_variable_is_sparse_for_both(read: Any) -> None:
    v = tf.Variable([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        table = read(v)
        y = tf.gather(table, [0, 0])
    for g in tape.gradient(y, [table, v]):
        assert isinstance(g, tf.IndexedSlices) and g.indices.numpy().tolist() == [0, 0]


def test_slices_are_negated_row_by_row() -> None:
    assert (-looked_up()).values.numpy().tolist() == [[-1.0, -1.0]] * 3


def test_the_dtype_of_the_indices_stays() -> None:
    table = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = tf.gather(table, tf.constant([1], tf.int64))
    assert tape.gradient(y, table).indices.dtype == tf.int64


def test_a_lookup_in_a_result_is_sparse_for_that_result_and_dense_further_back() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        u = x * 2.0
        y = tf.gather(u, [0, 1, 1])
    of_u, of_x = tape.gradient(y, [u, x])
    assert isinstance(of_u, tf.IndexedSlices) and of_u.values.numpy().tolist() == [1.0, 1.0, 1.0]
    assert of_x.numpy().tolist() == [2.0, 4.0]


@tf.custom_gradient
def square_and_next(x: Any) -> Any:
    return (x * x, x + 1.0), lambda g, h: g * 2.0 * x + h


@pytest.mark.parametrize("f", [lambda x: tf.split(x * x, 2), square_and_next], ids=["split", "custom gradient"])
@pytest.mark.parametrize("verify", [False, True])
def test_a_lookup_in_one_output_of_several_is_dense_further_back(f: Any, verify: bool) -> None:
    x = tf.Variable([1.0, 2.0, 3.0, 4.0])
    with tf.GradientTape(persistent=True, verify=verify) as tape:
        first, _ = f(x)
        y = tf.gather(first, [0, 0, 1])
    of_first, of_x = tape.gradient(y, [first, x])
    assert isinstance(of_first, tf.IndexedSlices) and of_first.indices.numpy().tolist() == [0, 0, 1]
    assert of_x.numpy().tolist() == [4.0, 4.0, 0.0, 0.0]


def test_a_lookup_is_weighed_by_its_output_gradients() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = tf.gather(x, [0, 1, 1])
    g = tape.gradient(y, x, output_gradients=tf.constant([1.0, 2.0, 3.0]))
    assert g.values.numpy().tolist() == [1.0, 2.0, 3.0]


def test_an_unused_lookup_is_none_or_zeros() -> None:
    x, w = tf.Variable([1.0, 2.0]), tf.Variable([[1.0]])
    with tf.GradientTape() as tape:
        y = tf.gather(x, [0])
    assert tape.gradient(y, w, unconnected_gradients="zero").numpy().tolist() == [[0.0]]


# ---------------------------------------------------------------- lists with tensors in them


@pytest.mark.parametrize("numbers", [[1, 2.5], [np.float32(1.0), np.int64(2)], [np.array(1.0), 2]], ids=str)
def test_numbers_beside_tensors_take_their_dtype(numbers: Any) -> None:
    x = tf.Variable(3.0, dtype=tf.float64)
    for f in (tf.stack, tf.convert_to_tensor, tf.reduce_sum):
        with tf.GradientTape() as tape:
            y = f([numbers[0], x, numbers[1]])
        assert y.dtype == tf.float64
        assert tape.gradient(y, x).numpy() == 1.0


def test_nested_lists_of_tensors_are_matrices() -> None:
    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = tf.linalg.det([[x, 1.0], [1, x * x]])
    assert tape.gradient(y, x).numpy() == 12.0


def test_a_fraction_beside_integer_tensors_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        tf.convert_to_tensor([tf.constant(1), 2.5])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_unconnected_source_alone_gives_none(dtype: str) -> None:
    v, w = tf.Variable(1.0, dtype=dtype), tf.Variable(3.0, dtype=dtype)
    with tf.GradientTape() as tape:
        y = v * w * 2.0
        z = v * 2.0
    assert tape.gradient(z, w) is None
    with tf.GradientTape() as tape:
        y = v * 2.0
    assert tape.gradient(y, [w]) == [None]
