"""Tensors, dtypes, conversion, indexing, printing (section 8 of the contract)."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import gtape as tf

IAE = tf.errors.InvalidArgumentError


# ---------------------------------------------------------------- text


def test_repr_and_str_of_a_scalar() -> None:
    x = tf.constant(6.0)
    assert repr(x) == "<gtape.Tensor: shape=(), dtype=float32, numpy=6.0>"
    assert str(x) == "gtape.Tensor(6.0, shape=(), dtype=float32)"


def test_matrix_stands_on_its_own_lines() -> None:
    x = tf.constant([[1, 2]])
    assert repr(x) == "<gtape.Tensor: shape=(1, 2), dtype=int32, numpy=array([[1, 2]], dtype=int32)>"
    y = tf.constant([[1.0], [2.0]])
    assert repr(y) == "<gtape.Tensor: shape=(2, 1), dtype=float32, numpy=\narray([[1.],\n       [2.]], dtype=float32)>"


def test_format_applies_to_the_value() -> None:
    assert f"{tf.constant(3.14159):.2f}" == "3.14"


# ---------------------------------------------------------------- conversion


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1, "int32"), (2**40, "int64"), (1.0, "float32"), (True, "bool"), (1j, "complex128"), ([1, 2], "int32"),
        ([1, 2.0], "float32"), (np.float64(1.0), "float64"), (np.zeros(2, np.int64), "int64"),
        (np.float16(1), "float16"),
    ],
)  # fmt: skip
def test_dtype_of_a_constant(value: Any, dtype: str) -> None:
    assert tf.constant(value).dtype == dtype


def test_float_does_not_become_int() -> None:
    with pytest.raises(TypeError):
        tf.constant(1.5, tf.int32)


@pytest.mark.parametrize("value", [None, [[1.0], [1.0, 2.0]]], ids=["None", "ragged"])
def test_none_and_ragged_lists_are_value_errors(value: Any) -> None:
    with pytest.raises(ValueError):
        tf.constant(value)


def test_converting_a_tensor_gives_the_same_object() -> None:
    x = tf.constant(1.0)
    assert tf.constant(x) is x
    assert tf.convert_to_tensor(x) is x


def test_converting_a_tensor_to_another_dtype_is_an_error() -> None:
    x = tf.constant(1.0)
    with pytest.raises(TypeError):
        tf.constant(x, tf.float64)
    with pytest.raises(ValueError):
        tf.convert_to_tensor(x, tf.float64)


# ---------------------------------------------------------------- no promotion


@pytest.mark.parametrize(
    ("a", "b"), [("float32", "float64"), ("float32", "int32"), ("int32", "int64"), ("float64", "complex128")]
)
def test_tensors_of_different_dtypes_do_not_mix(a: str, b: str) -> None:
    x, y = tf.constant(1, a), tf.constant(1, b)
    with pytest.raises(IAE):
        x + y
    with pytest.raises(IAE):
        x * y


def test_numbers_and_arrays_take_the_tensors_dtype() -> None:
    x = tf.constant([1.0, 2.0])
    assert (x * 2).dtype == (2 * x).dtype == (x + np.array([1.0, 2.0])).dtype == (np.arange(2) + x).dtype == tf.float32


def test_integer_tensor_with_a_fraction_is_an_error() -> None:
    with pytest.raises((IAE, TypeError)):
        tf.constant(1) + 1.5


def test_division_of_integers() -> None:
    a, b = tf.constant([7, -7]), tf.constant([2, 2])
    assert (a / b).dtype == tf.float64 and (a / b).numpy().tolist() == [3.5, -3.5]
    assert (a // b).numpy().tolist() == [3, -4] and (a % b).numpy().tolist() == [1, 1]
    assert (a // b).dtype == tf.int32
    with pytest.raises(IAE):
        a // tf.constant([0, 1])


def test_float_functions_refuse_integers() -> None:
    with pytest.raises(IAE):
        tf.sin(1)
    with pytest.raises(IAE):
        tf.exp(tf.constant([1, 2]))


def test_mean_of_integers_is_an_integer() -> None:
    m = tf.reduce_mean(tf.constant([1, 2]))
    assert m.dtype == tf.int32 and m.numpy() == 1


# ---------------------------------------------------------------- attributes


def test_numpy_gives_a_scalar_or_a_copy() -> None:
    assert isinstance(tf.constant(1.0).numpy(), np.float32)
    assert isinstance(tf.constant(1.0, tf.float64).numpy(), np.float64)
    x = tf.constant([1.0, 2.0])
    x.numpy()[0] = 9.0
    assert x.numpy().tolist() == [1.0, 2.0]


def test_constants_do_not_share_memory_with_arrays() -> None:
    a = np.array([1.0, 2.0])
    x = tf.constant(a)
    a[0] = 9.0
    assert x.numpy().tolist() == [1.0, 2.0]


def test_shape_compares_with_tuples_and_lists() -> None:
    s = tf.zeros([1, 2]).shape
    assert s == (1, 2) and s == [1, 2] and s.as_list() == [1, 2] and s.rank == 2 and s.num_elements() == 2
    assert str(s) == "(1, 2)"
    assert tf.zeros([1, 2]).get_shape() == s


def test_dtype_equals_numpys_and_its_name() -> None:
    d = tf.constant(1.0).dtype
    assert d == tf.float32 and d == np.float32 and d == "float32"
    assert tf.constant([[1.0]]).ndim == 2
    assert "CPU" in tf.constant(1.0).device


@pytest.mark.parametrize("name", ["T", "size", "astype", "reshape", "name"])
def test_numpys_methods_are_not_there(name: str) -> None:
    with pytest.raises(AttributeError):
        getattr(tf.constant([1.0]), name)


def test_scalars_convert() -> None:
    x, i = tf.constant(2.5), tf.constant(2)
    assert (bool(x), float(x), int(x), [0, 1, 2][i]) == (True, 2.5, 2, 2)


def test_vectors_do_not() -> None:
    x = tf.constant([1.0, 2.0])
    with pytest.raises(ValueError):
        bool(x)
    with pytest.raises(TypeError):
        float(x)


def test_len_iteration_and_unpacking_are_differentiable() -> None:
    x = tf.Variable([2.0, 5.0])
    with tf.GradientTape() as tape:
        a, b = x.value()
        y = a * b
    assert tape.gradient(y, x).numpy().tolist() == [5.0, 2.0]
    assert len(tf.zeros([3, 2])) == 3
    with pytest.raises(TypeError):
        len(tf.constant(1.0))
    with pytest.raises(TypeError):
        iter(tf.constant(1.0))


def test_tensors_are_not_hashable_but_can_be_looked_for() -> None:
    x = tf.constant(1.0)
    with pytest.raises(TypeError):
        hash(x)
    assert x.ref() in {x.ref()} and x.ref().deref() is x
    assert 1.0 in [x]
    assert tf.constant(2.0) not in [x]


def test_equality() -> None:
    x = tf.constant([1.0, 2.0])
    assert (x == tf.constant([1.0, 3.0])).numpy().tolist() == [True, False]
    assert (x != [1.0, 3.0]).numpy().tolist() == [False, True]
    assert not (x == tf.constant([1.0, 2.0, 3.0]))
    assert not (x == None)
    assert x != None


def test_item_assignment_is_a_type_error() -> None:
    x = tf.constant([1.0, 2.0])
    with pytest.raises(TypeError):
        x[0] = 3.0


def test_unary_plus_round_and_divmod_are_not_supported() -> None:
    x = tf.constant(1.5)
    for f in (lambda: +x, lambda: round(x), lambda: divmod(x, 1.0)):
        with pytest.raises(TypeError):
            f()


def test_invert_is_for_bool_and_int_only() -> None:
    assert (~tf.constant([True, False])).numpy().tolist() == [False, True]
    assert (~tf.constant([0, 1])).numpy().tolist() == [-1, -2]
    with pytest.raises((IAE, TypeError)):
        ~tf.constant(1.0)
    assert (tf.constant([6, 3]) & 2).numpy().tolist() == [2, 2]
    assert (1 | tf.constant([6, 3])).numpy().tolist() == [7, 3]
    assert (tf.constant(True) ^ tf.constant(True)).numpy() == False


def test_copy_deepcopy_and_pickle() -> None:
    x = tf.constant([1.0, 2.0])
    for made in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert made.dtype == tf.float32 and made.numpy().tolist() == [1.0, 2.0]


# ---------------------------------------------------------------- indexing

X = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
KEYS: dict[str, Any] = {
    "int": 1,
    "negative": -1,
    "slice": slice(0, 1),
    "step": (slice(None), slice(None, None, 2)),
    "backwards": (slice(None), slice(None, None, -1)),
    "ellipsis": (..., 1),
    "newaxis": (None, 0, ..., None),
    "mixed": (1, slice(1, 3), -2),
    "clipped": slice(0, 99),
}


@pytest.mark.parametrize("name", KEYS)
def test_indexing_and_its_gradient(name: str) -> None:
    x = tf.Variable(X)
    with tf.GradientTape() as tape:
        y = x[KEYS[name]]
    assert y.numpy().tolist() == X[KEYS[name]].tolist()
    wanted = np.zeros_like(X)
    wanted[KEYS[name]] = 1.0
    assert tf.convert_to_tensor(tape.gradient(y, x)).numpy().tolist() == wanted.tolist()


def test_indexing_by_a_tensor_and_by_a_mask() -> None:
    x = tf.Variable([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        y = x[tf.constant(2)] * 5.0 + tf.reduce_sum(x[x > 1.5])
    assert tape.gradient(y, x).numpy().tolist() == [0.0, 1.0, 6.0]


def test_several_indices_at_one_place_and_floats_are_refused() -> None:
    x = tf.constant([1.0, 2.0, 3.0])
    with pytest.raises(tf.errors.InvalidArgumentError):
        x[[0, 1]]
    for wrong in (1.0, tf.constant([0, 1]), np.array([0, 1])):
        with pytest.raises(TypeError):
            x[wrong]


def test_index_out_of_range_is_an_invalid_argument() -> None:
    with pytest.raises(IAE):
        tf.constant([1.0, 2.0])[5]


# ---------------------------------------------------------------- defaults


def test_default_dtypes() -> None:
    for made in (tf.zeros([1]), tf.ones([1]), tf.eye(2), tf.linspace(0.0, 1.0, 3), tf.one_hot([0], 2)):
        assert made.dtype == tf.float32
    x = tf.constant([1.0, 2.0])
    for made in (tf.range(3), tf.shape(x), tf.size(x), tf.rank(x), tf.argsort(x), tf.math.top_k(x)[1]):
        assert made.dtype == tf.int32
    assert tf.argmax(x).dtype == tf.int64
    assert tf.where(x > 1.0).dtype == tf.int64


def test_shapes_that_do_not_match_are_invalid_arguments() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        for f in (lambda: x + tf.zeros([3]), lambda: tf.matmul(tf.ones([2, 3]), tf.ones([2, 3]))):
            with pytest.raises(IAE):
                f()
        y = x * x
    assert tape.gradient(y, x).numpy().tolist() == [2.0, 4.0]


# ---------------------------------------------------------------- print


def printed(capsys: Any, *args: Any, **options: Any) -> str:
    tf.print(*args, **options)
    return str(capsys.readouterr().err)


def test_print_goes_to_standard_error_in_the_shortest_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, tf.constant([0.0, 0.6])) == "[0 0.6]\n"
    nested = [tf.Variable([-2.0, -3.9]), tf.Variable([-2.0, -3.8])]
    assert printed(capsys, nested) == "[[-2 -3.9], [-2 -3.8]]\n"
    assert printed(capsys, tf.range(10), summarize=3) == "[0 1 2 ... 7 8 9]\n"
    assert printed(capsys, "x", tf.constant(1), sep="=", end="!") == "x=1!"


def test_print_to_another_stream(capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    tf.print(tf.constant(1.5), output_stream=sys.stdout)
    assert capsys.readouterr().out == "1.5\n"
