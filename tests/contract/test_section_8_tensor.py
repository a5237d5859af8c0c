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


def test_indexing_by_a_list_or_a_float_is_a_type_error() -> None:
    x = tf.constant([1.0, 2.0, 3.0])
    with pytest.raises(TypeError):
        x[[0, 1]]
    with pytest.raises(TypeError):
        x[1.0]


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


# ---------------------------------------------------------------- texts

TEXTS: dict[str, tuple[Any, str, str]] = {
    "vector": ([1.0, 2.0], "shape=(2,), dtype=float32, numpy=array([1., 2.], dtype=float32)", "[1. 2.]"),
    "int": (3, "shape=(), dtype=int32, numpy=3", "3"),
    "bool": (True, "shape=(), dtype=bool, numpy=True", "True"),
    "float64": (np.array(1.5), "shape=(), dtype=float64, numpy=1.5", "1.5"),
    "complex": (1 + 2j, "shape=(), dtype=complex128, numpy=(1+2j)", "(1+2j)"),
    "text": ("abc", "shape=(), dtype=string, numpy=b'abc'", "b'abc'"),
    "texts": (["a", "b"], "shape=(2,), dtype=string, numpy=array([b'a', b'b'], dtype=object)", "[b'a' b'b']"),
    "empty": ([], "shape=(0,), dtype=float32, numpy=array([], dtype=float32)", "[]"),
    "inexact": (0.1, "shape=(), dtype=float32, numpy=0.10000000149011612", "0.1"),
    "uint8": (np.array([1, 2], np.uint8), "shape=(2,), dtype=uint8, numpy=array([1, 2], dtype=uint8)", "[1 2]"),
    "nan": (
        [float("nan"), -0.0],
        "shape=(2,), dtype=float32, numpy=array([nan, -0.], dtype=float32)",
        "[nan -0.]",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_repr_and_str_of(name: str) -> None:
    value, inside, text = TEXTS[name]
    t = tf.constant(value)
    assert repr(t) == f"<gtape.Tensor: {inside}>"
    shape = inside.split(", dtype")[0]
    assert str(t) == f"gtape.Tensor({text}, {shape}, dtype={t.dtype.name})"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (lambda x: f"{x}", "1.5"),
        (lambda x: f"{x:.2f}", "1.50"),
        (lambda x: f"{x:5.1f}|", "  1.5|"),
        (lambda x: "{:e}".format(x), "1.500000e+00"),  # noqa: UP032
        (lambda x: "%.3f" % x, "1.500"),  # noqa: UP031
        (lambda x: f"{x!r}", "<gtape.Tensor: shape=(), dtype=float32, numpy=1.5>"),
        (lambda x: f"{x!s}", "gtape.Tensor(1.5, shape=(), dtype=float32)"),
    ],
)
def test_format_is_that_of_the_value(text: Any, wanted: str) -> None:
    assert text(tf.constant(1.5)) == wanted


def test_format_of_a_vector_is_numpys() -> None:
    assert f"{tf.constant([1.0, 2.0])}" == "[1. 2.]"
    with pytest.raises(TypeError):
        f"{tf.constant([1.0, 2.0]):.2f}"


# ---------------------------------------------------------------- every conversion

DTYPES: dict[str, tuple[Any, str]] = {
    "int": (1, "int32"),
    "largest int32": (2**31 - 1, "int32"),
    "beyond int32": (2**31, "int64"),
    "least int32": (-(2**31), "int32"),
    "below int32": (-(2**31) - 1, "int64"),
    "float": (1.0, "float32"),
    "bool": (True, "bool"),
    "complex": (1j, "complex128"),
    "text": ("a", "string"),
    "int and float": ([1, 2.5], "float32"),
    "float and int": ([2.5, 1], "float32"),
    "int and large int": ([1, 2**40], "int64"),
    "tuple": ((1, 2), "int32"),
    "range": (range(3), "int32"),
    "nothing": ([], "float32"),
    "np.float64": (np.float64(1.0), "float64"),
    "np.float32": (np.float32(1.0), "float32"),
    "np.float16": (np.float16(1.0), "float16"),
    "np.int64": (np.int64(1), "int64"),
    "np.int8": (np.int8(1), "int8"),
    "int array": (np.array([1, 2]), "int64"),
    "float array": (np.array([1.0]), "float64"),
    "bool array": (np.array([True]), "bool"),
    "list of np.float64": ([np.float64(1.0), 2.0], "float64"),
    "list of np.float32": ([np.float32(1.0), np.float64(2.0)], "float32"),
    "list of np.int64": ([np.int64(1)], "int32"),
    "list of float arrays": ([np.array([1.0, 2.0]), np.array([3.0, 4.0])], "float64"),
    "list of int arrays": ([np.array([1, 2])], "int32"),
    "float before np.float64": ([1.0, np.float64(2.0)], "float32"),
}


@pytest.mark.parametrize("name", DTYPES)
def test_dtype_by_conversion(name: str) -> None:
    value, dtype = DTYPES[name]
    assert tf.constant(value).dtype == tf.convert_to_tensor(value).dtype == dtype


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1, "float32"),
        (1, "float64"),
        (1, "float16"),
        (1.5, "float64"),
        (1.5, "complex128"),
        (1, "complex64"),
        (True, "float32"),
        (True, "int32"),
        ([True, False], "float32"),
        (np.array([1, 2]), "float32"),
        (np.array([1.5]), "float32"),
        (2**62, "int64"),
        (2**63, "uint64"),
        (3, "uint8"),
        ("a", "string"),
    ],
    ids=str,
)
def test_values_that_a_dtype_holds(value: Any, dtype: str) -> None:
    t = tf.constant(value, dtype)
    assert t.dtype == dtype
    assert t.numpy().tolist() == value.tolist() if isinstance(value, np.ndarray) else True


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1.5, "int32"),
        (1.0, "int32"),
        ([1.5], "int64"),
        (1, "bool"),
        (1.0, "bool"),
        (1j, "float32"),
        ("a", "float32"),
        (1, "string"),
        (1.5, "uint8"),
    ],
    ids=str,
)
def test_values_that_it_does_not_hold_are_type_errors(value: Any, dtype: str) -> None:
    for f in (tf.constant, tf.convert_to_tensor):
        with pytest.raises(TypeError):
            f(value, dtype)


@pytest.mark.parametrize(
    "value", [None, [None, 1.0], [[1.0], [1.0, 2.0]], object(), {"a": 1}, {1}, 2**63, 2**64, ["a", 1]], ids=repr
)
def test_what_is_no_tensor_is_a_value_error(value: Any) -> None:
    with pytest.raises(ValueError):
        tf.constant(value)


def test_objects_with_an_array_keep_its_dtype() -> None:
    class Column:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.array([1.0, 2.0])

    assert tf.constant(Column()).dtype == tf.float64


def test_shapes_given_to_constant() -> None:
    assert tf.constant(2.0, shape=[2, 2]).numpy().tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert tf.constant([1, 2, 3, 4], shape=[2, 2]).numpy().tolist() == [[1, 2], [3, 4]]
    assert tf.constant(1.0, "float64", [2]).dtype == tf.float64
    with pytest.raises(TypeError):
        tf.constant([1, 2, 3], shape=[2, 2])


def test_hints_are_taken_where_they_fit() -> None:
    assert tf.convert_to_tensor(1, dtype_hint=tf.float32).dtype == tf.float32
    assert tf.convert_to_tensor(1.5, dtype_hint=tf.int32).dtype == tf.float32


# ---------------------------------------------------------------- no promotion, on

PAIRS = [("float32", "float64"), ("float32", "int32"), ("int32", "int64"), ("float16", "float32")]
MIXES: dict[str, Any] = {
    "subtract": lambda a, b: a - b,
    "divide": lambda a, b: a / b,
    "maximum": tf.maximum,
    "less": lambda a, b: a < b,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "pow": lambda a, b: a**b,
    "stack": lambda a, b: tf.stack([a, b]),
    "where": lambda a, b: tf.where(True, a, b),
    "add_n": lambda a, b: tf.add_n([a, b]),
    "matmul": lambda a, b: tf.reshape(a, [1, 1]) @ tf.reshape(b, [1, 1]),
}


@pytest.mark.parametrize(("a", "b"), PAIRS)
@pytest.mark.parametrize("name", MIXES)
def test_dtypes_do_not_mix_in(name: str, a: str, b: str) -> None:
    with pytest.raises(IAE):
        MIXES[name](tf.constant(1, a), tf.constant(1, b))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_numbers_beside_a_tensor_take_its_dtype(dtype: str) -> None:
    x = tf.constant([1.0, 2.0], dtype)
    for made in (
        x + 2,
        2 - x,
        x * 2.5,
        2.5 / x,
        x**2,
        2.0**x,
        x // 2,
        x % 2.0,
        x + np.float64(3.0),
        np.float64(3.0) - x,
    ):
        assert made.dtype == dtype
    for made in (x * np.array([1.0, 2.0]), np.array([1, 2]) * x, tf.maximum(x, 0), tf.maximum(0.0, x), tf.pow(2.0, x)):
        assert made.dtype == dtype


@pytest.mark.parametrize(
    "f",
    [
        lambda: tf.constant(1) + 1.5,
        lambda: 1.5 + tf.constant(1),
        lambda: tf.constant(1) * np.float64(1.5),
        lambda: tf.add(tf.constant(1), 1.5),
        lambda: tf.add(1, 2.5),
        lambda: tf.constant([1, 2]) + [1.5, 2.5],
        lambda: tf.constant(2) ** 0.5,
        lambda: tf.constant(7) / 2.0,
        lambda: tf.constant(1.0) + 1j,
        lambda: tf.constant(1.0) + None,
        lambda: tf.constant(1.0) + "a",
    ],
)
def test_operands_that_do_not_fit_are_refused(f: Any) -> None:
    with pytest.raises((IAE, TypeError, ValueError)):
        f()


@pytest.mark.parametrize(("dtype", "quotient"), [("int32", "float64"), ("int64", "float64"), ("int8", "float32")])
def test_quotients_of_integers_are_floats(dtype: str, quotient: str) -> None:
    q = tf.constant(1, dtype) / tf.constant(2, dtype)
    assert q.dtype == quotient and q.numpy() == 0.5


@pytest.mark.parametrize("a", [7, -7, 7.5, -7.5])
@pytest.mark.parametrize("b", [2, -2])
def test_floor_division_and_remainder_are_pythons(a: float, b: int) -> None:
    x, y = tf.constant(a), tf.constant(type(a)(b))
    assert (x // y).numpy() == a // b and (x % y).numpy() == a % b
    assert (x // y).dtype == (x % y).dtype == x.dtype


def test_division_by_zero() -> None:
    for f in (lambda x: x // 0, lambda x: x % 0):
        with pytest.raises(IAE):
            f(tf.constant(7))
    x = tf.constant(7.0)
    assert np.isinf((x / 0.0).numpy()) and np.isinf((x // 0.0).numpy()) and np.isnan((x % 0.0).numpy())
    assert np.isinf((tf.constant(7) / 0).numpy())


@pytest.mark.parametrize("name", ["sin", "exp", "sqrt", "tanh", "sigmoid", "log"])
@pytest.mark.parametrize("value", [1, [1, 2], True], ids=repr)
def test_float_functions_take_no_integers(name: str, value: Any) -> None:
    with pytest.raises(IAE):
        getattr(tf.math, name)(value)
    assert getattr(tf.math, name)(np.array([1.0, 2.0])).dtype == tf.float64
    assert getattr(tf.math, name)([1.0, 2.0]).dtype == tf.float32


@pytest.mark.parametrize(
    "f",
    [
        lambda: tf.constant(True) + tf.constant(True),
        lambda: tf.constant(True) * tf.constant(False),
        lambda: -tf.constant(True),
        lambda: tf.constant(True) < tf.constant(False),
    ],
)
def test_truth_values_are_no_numbers(f: Any) -> None:
    with pytest.raises(IAE):
        f()


# ---------------------------------------------------------------- conversions to Python


def test_truth() -> None:
    assert bool(tf.constant([1.0])) and bool(tf.constant([[True]])) and not bool(tf.constant([]))
    assert 1 if tf.constant(2.0) > 1.0 else 0


@pytest.mark.parametrize("convert", [float, int, complex])
def test_scalars_only_become_numbers(convert: Any) -> None:
    assert convert(tf.constant(2.0)) == 2
    for value in ([1.0], [1.0, 2.0]):
        with pytest.raises(TypeError):
            convert(tf.constant(value))


def test_int_truncates() -> None:
    assert int(tf.constant(2.7)) == 2 and int(tf.constant(-2.7)) == -2


def test_integer_scalars_are_indices() -> None:
    assert [1, 2, 3][tf.constant(1)] == 2 and list(range(tf.constant(3))) == [0, 1, 2]
    for value in (1.0, [1], True):
        with pytest.raises((TypeError, AttributeError)):
            [1, 2, 3][tf.constant(value)]


@pytest.mark.parametrize(
    ("value", "kind"),
    [(1.0, np.float32), (1, np.int32), (True, np.bool_), (1j, np.complex128), ([1.0], np.ndarray), ("a", bytes)],
    ids=str,
)
def test_numpy_gives(value: Any, kind: type) -> None:
    assert type(tf.constant(value).numpy()) is kind


def test_python_functions_on_tensors() -> None:
    x = tf.constant([2.0, 1.0, 3.0])
    assert [float(v) for v in reversed(x)] == [3.0, 1.0, 2.0]
    assert (float(min(x)), float(max(x)), float(sum(x))) == (1.0, 3.0, 6.0)
    assert [float(v) for v in sorted(x)] == [1.0, 2.0, 3.0]
    assert [(i, float(v)) for i, v in enumerate(x)] == [(0, 2.0), (1, 1.0), (2, 3.0)]
    with pytest.raises(ValueError):
        _a, _b = x


def test_augmented_assignment_makes_another_tensor() -> None:
    x = y = tf.constant(1.0)
    x += 2.0
    assert (x.numpy(), y.numpy()) == (3.0, 1.0)


# ---------------------------------------------------------------- equality


@pytest.mark.parametrize("other", [[1.0, 2.0, 3.0], np.ones(3, np.float32), [1.0, 2.0, 3.0, 4.0]], ids=str)
def test_incompatible_shapes_are_unequal_as_a_whole(other: Any) -> None:
    x = tf.constant([1.0, 2.0])
    assert (x == other).numpy() == False
    assert (x != other).numpy() == True


def test_equality_broadcasts() -> None:
    assert (tf.constant([[1.0], [2.0]]) == tf.constant([1.0, 2.0])).numpy().tolist() == [[True, False], [False, True]]
    assert (tf.constant([1.0, 2.0]) == 1.0).numpy().tolist() == [True, False]
    assert (np.array([1.0, 3.0], np.float32) == tf.constant([1.0, 2.0])).numpy().tolist() == [True, False]
    assert (tf.constant(["a", "b"]) == "a").numpy().tolist() == [True, False]


def test_nan_is_unequal_to_itself() -> None:
    assert not (tf.constant(float("nan")) == tf.constant(float("nan")))


# ---------------------------------------------------------------- shapes and dtypes as objects


def test_shapes_behave_as_tuples() -> None:
    s = tf.zeros([1, 2, 3]).shape
    assert s == (1, 2, 3) == s and s != (1, 2) and [*s] == [1, 2, 3] and tuple(s) == (1, 2, 3) and len(s) == 3
    assert s[0] == 1 and s[-1] == 3 and str(s[1:]) == "(2, 3)" and s.ndims == 3 and s.is_fully_defined()
    assert repr(s) == "TensorShape([1, 2, 3])" and hash(s) == hash(tf.TensorShape([1, 2, 3])) and s.dims == [1, 2, 3]
    assert tf.zeros(s).shape == s and s.as_list() + [4] == [1, 2, 3, 4] and np.prod(s) == 6 and 2 in s
    a, b, c = s
    assert (a, b, c) == (1, 2, 3)


def test_the_shape_of_a_scalar() -> None:
    s = tf.constant(1.0).shape
    assert (str(s), repr(s), len(s), s.rank, s.num_elements()) == ("()", "TensorShape([])", 0, 0, 1)
    assert s == () and s == [] and s.as_list() == []


def test_shapes_with_unknown_sizes() -> None:
    s = tf.TensorShape([None, 2])
    assert (str(s), s.num_elements(), s.rank, s.as_list()) == ("(None, 2)", None, 2, [None, 2])
    assert tf.TensorShape(None).rank is None and repr(tf.TensorShape(None)) == "TensorShape(None)"
    assert s.is_compatible_with([3, 2]) and not s.is_compatible_with([3, 3])
    assert str(s.merge_with([3, 2])) == "(3, 2)" and str(s.concatenate([5])) == "(None, 2, 5)"
    with pytest.raises(ValueError):
        tf.TensorShape(None).as_list()
    with pytest.raises(ValueError):
        tf.TensorShape([1, 2]).assert_has_rank(3)


def test_set_shape_only_checks() -> None:
    x = tf.constant([1.0, 2.0])
    x.set_shape([2])
    x.set_shape([None])
    with pytest.raises(ValueError):
        x.set_shape([3])


def test_dtypes_as_objects() -> None:
    d = tf.float32
    assert (d.name, repr(d), str(d), d.size) == ("float32", "gtape.float32", "<dtype: 'float32'>", 4)
    assert d.is_floating and not d.is_integer and not d.is_complex and not d.is_bool and d.as_numpy_dtype is np.float32
    assert d == np.float32 == d and d == np.dtype("float32") and d in [np.float32] and d != tf.float64
    assert d != "foo" and d is not None and d != 3 and hash(d) == hash(tf.as_dtype("float32"))
    assert tf.int8.min == -128 and tf.uint8.max == 255 and tf.complex64.real_dtype == tf.float32


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("float32", "float32"),
        (np.int64, "int64"),
        (float, "float32"),
        (bool, "bool"),
        (np.dtype("int8"), "int8"),
        ("double", "float64"),
        ("half", "float16"),
        ("float", "float32"),
    ],
    ids=str,
)
def test_as_dtype(name: Any, dtype: str) -> None:
    assert tf.as_dtype(name) is getattr(tf, dtype)


@pytest.mark.parametrize("bad", ["foo", None, 3.5], ids=repr)
def test_names_of_no_dtype_are_type_errors(bad: Any) -> None:
    with pytest.raises(TypeError):
        tf.as_dtype(bad)


# ---------------------------------------------------------------- indexing, on

BAD_KEYS: dict[str, tuple[Any, type[Exception] | tuple[type[Exception], ...]]] = {
    "float": (1.0, TypeError),
    "text": ("a", TypeError),
    "float tensor": (tf.constant(1.0), TypeError),
    "slice of floats": (slice(0.0, 1.0), TypeError),
    "list": ([0, 1], TypeError),
    "mask too short": (tf.constant([True, False]), (IAE, ValueError)),
    "too far": (3, IAE),
    "too far back": (-4, IAE),
    "too many": ((0, 0), IAE),
    "no step": (slice(None, None, 0), (IAE, ValueError)),
}


@pytest.mark.parametrize("name", BAD_KEYS)
def test_keys_that_are_refused(name: str) -> None:
    key, error = BAD_KEYS[name]
    with pytest.raises(error):
        tf.constant([1.0, 2.0, 3.0])[key]


@pytest.mark.parametrize(
    "key",
    [
        slice(-10, 10),
        slice(5, 2),
        slice(10, None, -1),
        Ellipsis,
        (),
        None,
        (Ellipsis, None),
        np.int64(1),
        slice(2, 0, -1),
    ],
    ids=str,
)
def test_keys_that_numpy_takes_too(key: Any) -> None:
    a = np.array([1.0, 2.0, 3.0], np.float32)
    assert tf.constant(a)[key].numpy().tolist() == a[key].tolist()


def test_tensors_and_variables_as_keys() -> None:
    x = tf.constant([1.0, 2.0, 3.0])
    assert x[tf.constant(1)].numpy() == x[tf.Variable(1)].numpy() == x[tf.constant(1, tf.int64)].numpy() == 2.0
    assert x[tf.constant(0) : tf.constant(2)].numpy().tolist() == [1.0, 2.0]
    assert x[tf.newaxis].shape == x[None].shape == (1, 3)


def test_masks_of_more_axes() -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    assert x[x > 1.5].numpy().tolist() == [2.0, 3.0, 4.0]
    assert x[tf.constant([True, False])].numpy().tolist() == [[1.0, 2.0]]


def test_scalars_have_no_elements_but_an_ellipsis() -> None:
    x = tf.constant(1.0)
    with pytest.raises(IAE):
        x[0]
    assert x[...].numpy() == 1.0 and x[None].shape == (1,)


@pytest.mark.parametrize(
    "f",
    [
        lambda: tf.concat([tf.ones([2, 2]), tf.ones([3, 3])], 0),
        lambda: tf.reshape(tf.ones([3]), [2, 2]),
        lambda: tf.stack([tf.ones([2]), tf.ones([3])]),
        lambda: tf.ones([3]) @ tf.ones([3]),
        lambda: tf.broadcast_to(tf.ones([3]), [2]),
        lambda: tf.constant([1.0, 2.0]) < tf.constant([1.0, 2.0, 3.0]),
    ],
)
def test_shapes_that_do_not_fit_are_invalid_arguments(f: Any) -> None:
    with pytest.raises(IAE):
        f()


# ---------------------------------------------------------------- errors


def test_invalid_argument_errors_have_tensorflows_bases_and_message() -> None:
    assert [c.__name__ for c in IAE.__mro__[:3]] == ["InvalidArgumentError", "OpError", "Exception"]
    assert not issubclass(IAE, ValueError)
    with pytest.raises(IAE) as e:
        tf.ones([2]) + tf.ones([3])
    assert e.value.message and str(e.value) and e.value.error_code == 3
    assert tf.errors.InvalidArgumentError(None, None, "text").message == "text"


# ---------------------------------------------------------------- print, on

PRINTS: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "several": ((tf.constant(1.5), tf.constant(2), "x", 3, 2.5, None, [1, 2]), {}, "1.5 2 x 3 2.5 None [1, 2]"),
    "truth": ((tf.constant([True, False]),), {}, "[1 0]"),
    "matrix": ((tf.constant([[1.0, 2.0], [3.0, 4.0]]),), {}, "[[1 2]\n [3 4]]"),
    "cube": ((tf.ones([2, 1, 2]),), {}, "[[[1 1]]\n\n [[1 1]]]"),
    "tuple": (((tf.constant(1.0), tf.constant(2)),), {}, "(1, 2)"),
    "dict": (({"b": tf.constant(1.0), "a": tf.constant([1, 2])},), {}, "{'a': [1 2], 'b': 1}"),
    "nested": (([[tf.constant(1), 2], {"k": (tf.constant(3.0), "s")}],), {}, "[[1, 2], {'k': (3, 's')}]"),
    "long": ((tf.range(100),), {}, "[0 1 2 ... 97 98 99]"),
    "six": ((tf.range(6),), {}, "[0 1 2 3 4 5]"),
    "one": ((tf.range(10),), {"summarize": 1}, "[0 ... 9]"),
    "all": ((tf.range(8),), {"summarize": -1}, "[0 1 2 3 4 5 6 7]"),
    "numbers": (
        (tf.constant([1e-10, 1e10, 123456789.0, 0.1, 1 / 3, 1e5, 1e6, -0.0, float("inf")]),),
        {"summarize": -1},
        "[1e-10 1e+10 123456792 0.1 0.333333343 100000 1e+06 -0 inf]",
    ),
    "float64": (
        (tf.constant([1e10, 1 / 3, 1e17], tf.float64),),
        {},
        "[10000000000 0.33333333333333331 1e+17]",
    ),
    "text": ((tf.constant("abc"), tf.constant(["a", "b"])), {}, '"abc" ["a" "b"]'),
    "text alone": ((tf.constant("abc"),), {}, "abc"),
    "braces": (("{}", tf.constant(1)), {}, "{} 1"),
    "nothing": ((), {}, ""),
}


@pytest.mark.parametrize("name", PRINTS)
def test_print_of(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    args, options, wanted = PRINTS[name]
    assert printed(capsys, *args, **options) == f"{wanted}\n"


def test_print_appends_to_a_file(tmp_path: Any) -> None:
    for text in ("x", "y"):
        assert tf.print(text, output_stream=f"file://{tmp_path}/out.txt") is None  # type: ignore[func-returns-value]
    assert (tmp_path / "out.txt").read_text() == "x\ny\n"
    with pytest.raises(ValueError):
        tf.print("x", output_stream="somewhere")


def test_the_casts_are_in_dtypes_too() -> None:
    assert tf.dtypes.cast(1, tf.float32).dtype == tf.float32
    assert tf.dtypes.saturate_cast(300, tf.uint8).numpy() == 255
    assert tf.dtypes.as_dtype is tf.as_dtype and tf.dtypes.float32 is tf.float32
    with pytest.raises(AttributeError):
        tf.dtypes.nothing  # noqa: B018
