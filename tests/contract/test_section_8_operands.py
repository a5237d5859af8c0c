"""Section 8: what may stand beside a tensor in an op, and what becomes of it."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import gtape as tf


@pytest.mark.parametrize("value", [1.5, 2j, np.float64(1.5), [0.5, 1.5], np.array([0.5, 1.5]), np.array([np.nan, 1.0])])
@pytest.mark.parametrize("op", [operator.add, operator.mul, operator.sub, tf.maximum])
def test_an_int_tensor_takes_no_fractions_be_they_python_or_numpy(op: Any, value: Any) -> None:
    for error in (tf.errors.InvalidArgumentError, TypeError):  # TensorFlow: now the one, now the other
        with pytest.raises(error):
            op(tf.constant([1, 2]), value)
        with pytest.raises(error):
            op(value, tf.constant([1, 2]))


@pytest.mark.parametrize("value", [np.complex64(1j), np.array([1 + 2j, 3.0])])
def test_a_real_tensor_takes_no_imaginary_parts(value: Any) -> None:
    with pytest.raises(tf.errors.OperandTypeError, match="not real"):
        tf.constant([1.0, 2.0]) * value
    with pytest.raises(tf.errors.OperandTypeError, match="not real"):
        value + tf.constant([1, 2])
    assert (tf.constant([1.0, 2.0]) * np.complex128(2)).numpy().tolist() == [2.0, 4.0]


@pytest.mark.parametrize("value", [np.ones(2), np.float32(1), np.float64(1), np.ones(2, np.int64), np.ones(2, ">f8")])
def test_whole_numpy_numbers_take_the_dtype_of_an_int_tensor(value: Any) -> None:
    for made in (tf.constant([1, 2]) + value, value + tf.constant([1, 2]), tf.Variable([1, 2]) + value):
        assert made.dtype == tf.int32 and made.numpy().tolist() == [2, 3]


@pytest.mark.parametrize(
    "op", [tf.maximum, tf.atan2, lambda a, b: tf.where([True, False], a, b), lambda a, b: tf.concat([a, b], 0)]
)
def test_of_two_arrays_the_second_takes_the_dtype_of_the_first(op: Any) -> None:
    double, single = np.array([3.0, 4.0]), np.array([3.0, 4.0], np.float32)
    assert op(double, single).dtype == tf.float64
    assert op(single, double).dtype == tf.float32
    assert op(double, np.array([1, 2])).dtype == tf.float64
    with pytest.raises(tf.errors.InvalidArgumentError):
        op(np.array([1, 2]), np.array([0.5, 2.0]))


def test_tensors_of_two_dtypes_are_an_invalid_argument_and_no_type_error() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        tf.constant(1.0) + tf.constant(1.0, tf.float64)
    assert type(caught.value) is tf.errors.InvalidArgumentError


def test_arrays_of_the_other_byte_order_are_numbers_like_all_others() -> None:
    x = tf.constant(np.array([1.0, 2.0], ">f4"))
    assert x.dtype == tf.float32 and (x * tf.constant([1.0, 1.0])).numpy().tolist() == [1.0, 2.0]
    assert tf.Variable(np.array([1, 2], ">i4")).dtype == tf.int32
    assert tf.sin(np.zeros(2, ">f8")).dtype == tf.float64


@pytest.mark.parametrize(
    "value", [np.datetime64("2020-01-01"), np.zeros(2, "m8[s]"), np.zeros(1, [("a", int)]), np.zeros(1, np.longdouble)]
)
def test_arrays_of_a_dtype_that_tensors_lack_are_refused_at_once(value: Any) -> None:
    with pytest.raises(ValueError, match="unsupported dtype"):
        tf.constant(value)
    with pytest.raises(ValueError, match="unsupported dtype"):
        tf.Variable(value)


class Table:
    """Something that knows how to become an array."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array([1.0, 2.0], dtype)


def test_what_becomes_an_array_is_an_operand_as_the_array_is() -> None:
    x = tf.constant([1.0, 1.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * Table()
    assert y.dtype == tf.float32 and tape.gradient(y, x).numpy().tolist() == [1.0, 2.0]


def test_an_array_beside_a_tensor_is_copied() -> None:
    a, x = np.array([1.0, 2.0], np.float32), tf.constant([1.0, 1.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * a
    a[:] = 9.0
    assert tape.gradient(y, x).numpy().tolist() == [1.0, 2.0]


def test_lists_are_no_index_inside_a_tuple_and_an_invalid_argument_alone() -> None:
    x = tf.reshape(tf.range(6), [2, 3])
    for key in ((slice(None), [0, 1]), ([0], [1]), (0, [1])):
        with pytest.raises(TypeError, match="gather"):
            x[key]
    with pytest.raises(tf.errors.InvalidArgumentError, match="gather"):
        x[[0, 1]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="ellipsis"):
        x[..., ...]


@pytest.mark.parametrize("make", [tf.constant, tf.Variable])
def test_items_cannot_be_deleted(make: Any) -> None:
    x = make([1.0, 2.0])
    with pytest.raises(TypeError, match="deletion"):
        del x[0]


@pytest.mark.parametrize("op", [tf.square, tf.sin, tf.abs, tf.sigmoid, tf.math.log1p, tf.reduce_sum, tf.transpose])
def test_ops_take_indexed_slices_as_the_dense_tensor_they_stand_for(op: Any) -> None:
    rows = tf.IndexedSlices(tf.constant([0.25, 0.5]), tf.constant([2, 2]), tf.constant([3]))
    np.testing.assert_array_equal(op(rows), op(tf.constant([0.0, 0.0, 0.75])))


@pytest.mark.parametrize("value", [1e39, -1e39, [1e39]])
def test_a_python_number_that_float32_cannot_hold_is_no_constant(value: Any) -> None:
    with pytest.raises(ValueError, match="float32"):
        tf.constant(value)
    assert np.all(np.isfinite(tf.constant(value, tf.float64)))


def test_infinities_and_nan_are_constants() -> None:
    np.testing.assert_array_equal([tf.constant(v) for v in (np.inf, -np.inf, np.nan)], [np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("value", [[1, 2], "a", True])
def test_range_takes_real_scalars(value: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="limit must be a real scalar"):
        tf.range(tf.constant(value))


def test_floor_division_has_the_signs_of_python() -> None:
    pairs = [(-0.0, 1.0), (0.0, -1.0), (0.5, 1.0), (-0.5, -1.0), (0.5, -1.0), (-0.5, 1.0), (7.0, -2.0)]
    made = tf.constant([a for a, _ in pairs]) // tf.constant([b for _, b in pairs])
    assert [str(q) for q in made.numpy().tolist()] == [str(a // b) for a, b in pairs]


@pytest.mark.parametrize(
    "op", [tf.less, tf.maximum, tf.multiply, tf.subtract, tf.pow, tf.math.floormod, tf.math.truncatemod]
)
@pytest.mark.parametrize("x", ["a", ["a", "b"]])
def test_arithmetic_needs_numbers_not_strings(op: Any, x: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="needs numbers, not string"):
        op(x, x)


@pytest.mark.parametrize("op", [tf.abs, tf.square, tf.negative, tf.sign])
def test_functions_of_numbers_need_numbers_not_strings(op: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="needs numbers, not string"):
        op("a")


def test_strings_are_joined_compared_and_chosen() -> None:
    assert tf.add(["a"], "b").numpy().tolist() == [b"ab"]
    assert tf.equal("a", ["a", "b"]).numpy().tolist() == [True, False]
    assert tf.where([True, False], ["a", "b"], ["c", "d"]).numpy().tolist() == [b"a", b"d"]
    assert tf.stop_gradient(tf.identity("a")).numpy() == b"a"


def test_a_range_is_an_operand_and_a_value_as_a_list_is() -> None:
    assert (tf.constant([0.5, 1.5]) + range(2)).numpy().tolist() == [0.5, 2.5]
    assert tf.Variable([1.0, 2.0]).assign(range(2)).numpy().tolist() == [0.0, 1.0]


def test_tensors_in_a_list_take_the_dtype_asked_for_and_keep_their_gradients() -> None:
    x, y = tf.constant(2.0), tf.constant([5.0, 6.0], tf.float64)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        made = tf.convert_to_tensor([x, 1], dtype=tf.float64)
        product = y * [x, 3.0 * x]
    assert made.dtype == product.dtype == tf.float64
    assert tape.gradient(made, x).numpy() == 1.0 and tape.gradient(product, x).numpy() == 23.0
    assert tf.Variable([tf.constant(3), 4], dtype=tf.float32).numpy().tolist() == [3.0, 4.0]


def test_tensors_in_a_list_are_not_cut_off() -> None:
    x = tf.constant(2.5)
    with pytest.raises(ValueError, match="cast"):
        tf.convert_to_tensor([x, x], tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="cast"):
        tf.constant([1, 2]) * [x, x]


class _Lends:
    """An object that becomes an array by handing out its own memory."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array if dtype is None else self.array.astype(dtype)


@pytest.mark.parametrize(
    "lends",
    [lambda a: memoryview(a), lambda a: _Lends(a), lambda a: _Lends(a.astype(np.complex128)), lambda a: _Lends(a > 1)],
)
def test_a_tensor_shares_no_memory_with_what_it_was_made_from(lends: Any) -> None:
    source = lends(np.array([1, 2], np.uint8))
    t = tf.constant(source)
    before = t.numpy()
    memory = np.asarray(source)
    memory[...] = 0
    np.testing.assert_array_equal(t.numpy(), before)


@pytest.mark.parametrize("dtype", [">u2", ">c16", ">f8"])
def test_lists_and_objects_of_the_other_byte_order_are_turned(dtype: str) -> None:
    for value in (_Lends(np.array([1, 2], dtype)), [np.array([1, 2], dtype)]):
        assert tf.constant(value).numpy().dtype.isnative


@pytest.mark.parametrize(
    "value", [[np.datetime64("2020")], [np.timedelta64(1, "s")], _Lends(np.zeros(2, [("a", "f4")]))]
)
def test_lists_of_what_tensors_cannot_hold_are_a_value_error(value: Any) -> None:
    with pytest.raises(ValueError, match=r"use \.astype first"):
        tf.constant(value)


def test_a_list_of_long_doubles_is_float32_as_tensorflow_takes_it() -> None:
    assert tf.constant([np.longdouble(1)]).dtype == tf.float32


class _Marked(np.ndarray[Any, Any]):
    pass


@pytest.mark.parametrize("array", [np.ones((1, 2)).view(_Marked), np.ma.array([[1.0, 2.0]], mask=[[0, 1]])])
def test_subclasses_and_masked_arrays_beside_a_tensor_are_plain_arrays(array: Any) -> None:
    x = tf.constant([[1.0, 2.0]])
    assert type((x * array).numpy()) is np.ndarray
    assert type(tf.Variable(x).assign(array).numpy()) is np.ndarray


def test_strings_keep_the_zeros_at_their_end() -> None:
    assert tf.constant(b"a\0").numpy() == b"a\0"
    assert tf.constant([["a\0"], ["b"]]).numpy().tolist() == [[b"a\0"], [b"b"]]


def test_arrays_of_no_strings_stay_strings_of_their_shape() -> None:
    t = tf.constant(np.empty((0, 3), "U5"))
    assert t.dtype == tf.string and t.shape == (0, 3)
