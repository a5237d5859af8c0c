"""Section 8 of the contract: equality, shapes and dtypes as objects, keys, errors, print."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf

IAE = tf.errors.InvalidArgumentError


# ---------------------------------------------------------------- equality


@pytest.mark.parametrize("other", [[1.0, 2.0, 3.0], np.ones(3, np.float32), [1.0, 2.0, 3.0, 4.0]], ids=str)
def test_incompatible_shapes_are_unequal_as_a_whole(other: Any) -> None:
    x = tf.constant([1.0, 2.0])
    assert (x == other).numpy() == False
    assert (x != other).numpy() == True


@pytest.mark.parametrize("shape", [(), (2,), (3,), (1, 3), (0,)], ids=str)
@pytest.mark.parametrize("dtypes", [("int32", "float32"), ("float32", "float64"), ("bool", "int32")], ids=str)
def test_dtypes_that_do_not_combine_are_an_error_for_all_shapes(dtypes: Any, shape: Any) -> None:
    x, y = tf.ones([2], dtypes[0]), tf.ones(shape, dtypes[1])
    for a, b in [(x, y), (y, x), (tf.Variable(x), y), (y, tf.Variable(x))]:
        with pytest.raises(IAE):
            a == b  # noqa: B015
        with pytest.raises(IAE):
            a != b  # noqa: B015


def test_a_list_of_another_dtype_is_an_error_for_all_shapes() -> None:
    for other in ([1.0, 2.0], [1.0, 2.0, 3.0]):
        with pytest.raises(TypeError):
            tf.constant([1, 2]) == other  # noqa: B015
        with pytest.raises(TypeError):
            other != tf.constant([1, 2])  # noqa: B015


@pytest.mark.parametrize("shape", [(3,), (1, 3), (0,)], ids=str)
@pytest.mark.parametrize("dtypes", [("int64", "float32"), ("float64", "float64"), ("bool", "int32")], ids=str)
def test_an_array_of_an_incompatible_shape_is_unequal_on_both_sides(dtypes: Any, shape: Any) -> None:
    array, x = np.ones(shape, dtypes[0]), tf.ones([2], dtypes[1])
    for t in (x, tf.Variable(x)):
        for equal in (array == t, t == array, np.equal(array, t)):
            assert equal.numpy() == False
        for unequal in (array != t, t != array, np.not_equal(array, t)):
            assert unequal.numpy() == True


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_numbers_of_numpy_beside_truth_values_are_truth_values(dtype: str) -> None:
    numbers = np.array([2, 0], dtype)
    truth = tf.constant([True, True])
    assert (truth == numbers).numpy().tolist() == (numbers == truth).numpy().tolist() == [True, False]
    assert (truth != numbers).numpy().tolist() == (numbers != truth).numpy().tolist() == [False, True]
    assert (tf.constant(True) == numbers[0]).numpy() == True
    assert (numbers[0] != tf.constant(True)).numpy() == False


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
    "list": ([0, 1], IAE),
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


def printed(capsys: Any, *args: Any, **options: Any) -> str:
    tf.print(*args, **options)
    return str(capsys.readouterr().err)


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
