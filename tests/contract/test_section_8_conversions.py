"""Section 8 of the contract: texts, and every conversion to and from Python and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf

IAE = tf.errors.InvalidArgumentError


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
    "value",
    [None, [None, 1.0], [[1.0], [1.0, 2.0]], object(), {"a": 1}, {1}, 2**63, 2**64, ["a", 1]],
    ids=lambda v: "object()" if type(v) is object else repr(v),
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


@pytest.mark.parametrize("value", [[True, 1], [True, 1.0], [[True], [1]], [np.True_, 2], (False, 0)], ids=str)
def test_a_list_that_begins_with_a_truth_value_holds_no_numbers(value: Any) -> None:
    for make in (tf.constant, tf.convert_to_tensor, tf.Variable):
        with pytest.raises(ValueError, match="mixed types"):
            make(value)


@pytest.mark.parametrize("value", [True, [True], [[False, True]], [np.True_]], ids=str)
@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "uint16", "uint32", "complex64"])
def test_truth_values_are_no_small_whole_numbers(dtype: str, value: Any) -> None:
    with pytest.raises(TypeError):
        tf.constant(value, dtype)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint64", "float16", "float32", "float64", "complex128"])
def test_truth_values_are_other_numbers(dtype: str) -> None:
    assert tf.constant([True, False], dtype).numpy().tolist() == [1, 0]
    assert tf.constant([1, True]).numpy().tolist() == [1, 1]
