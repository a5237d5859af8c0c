"""What check, judge, exact and prove refuse, and what they say."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check, exact, judge, prove


@pytest.mark.parametrize("digits", [0, -1, True, 1.5, "a", float("nan"), float("inf"), None, 100_001, 10**9])
def test_digits_are_a_whole_number_within_reach(digits: Any) -> None:
    start = time.perf_counter()
    with pytest.raises(ValueError, match="digits must be a positive whole number, at most 100,000"):
        exact(tf.tanh, 1.3, digits=digits)
    assert time.perf_counter() - start < 5


def test_ops_beyond_the_elementary_ones_have_a_limit_of_their_own() -> None:
    with pytest.raises(ValueError, match="at most 2,000 for a function with digamma"):
        exact(lambda x: tf.math.digamma(tf.sin(x)), 1.3, digits=2_001)
    assert len(str(exact(tf.math.digamma, 1.3, digits=1_000))) > 1_000


def test_a_hundred_thousand_digits_of_an_elementary_function_are_given() -> None:
    assert str(exact(tf.exp, 1.0, digits=100_000)).startswith("2.71828182845904523536")


@pytest.mark.parametrize("order", [0, -1, 9, True, 1.5, 1.0, "1", None, float("nan"), [1]])
def test_orders_are_whole_numbers_from_one_to_eight(order: Any) -> None:
    for ask in (
        lambda: check(tf.tanh, 1.0, order=order),
        lambda: exact(tf.tanh, 1.0, order=order),
        lambda: judge(tf.tanh, 1.0, 0.3, order=order),
    ):
        with pytest.raises(ValueError, match="order is a whole number from 1 to 8, not"):
            ask()


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    assert check(tf.tanh, 1.0, order=np.int64(2)).ok  # type: ignore[arg-type]
    assert len(str(exact(tf.tanh, 1.0, digits=np.int32(20)))) == 22  # type: ignore[arg-type]


@pytest.mark.parametrize("f", [None, 3, "tanh", tf.constant(1.0)])
def test_what_is_no_function_is_refused(f: Any) -> None:
    for ask in (lambda: check(f, 1.0), lambda: exact(f, 1.0), lambda: judge(f, 1.0, 1.0)):
        with pytest.raises(TypeError, match="the first argument is a function of tensors"):
            ask()


@pytest.mark.parametrize("x", [None, {"a": 1.0}, object(), {1.0}, "a", b"a"])
def test_what_is_no_number_is_refused_by_its_own_name(x: Any) -> None:
    for ask in (lambda: check(tf.tanh, x), lambda: exact(tf.tanh, x), lambda: judge(tf.tanh, (x,), 1.0)):
        with pytest.raises(TypeError, match=rf"argument 0 is .*of type {type(x).__name__}; give a number"):
            ask()


@pytest.mark.parametrize(
    "x", [np.longdouble(1.5), np.array([1.5], np.longdouble), [np.longdouble(1.5)], np.clongdouble(1)]
)
@pytest.mark.parametrize("f", [tf.square, lambda x: x * x * tf.sin(x), lambda x: tf.reduce_sum(tf.exp(x))])
@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="long doubles are doubles here")
def test_a_long_double_is_refused_before_the_function_runs(f: Any, x: Any) -> None:
    for ask in (check, exact, lambda f, x: judge(f, (x,), 1.0), lambda f, x: check(f, x, order=2)):
        with pytest.raises(ValueError, match=r"unsupported dtype (float|complex)\d+\): use \.astype first"):
            ask(f, x)


def test_an_array_of_objects_holds_the_numbers_of_one_argument() -> None:
    def f(x: Any) -> Any:
        return tf.reduce_sum(x * x)

    x = np.array([1.0, np.float32(2.0)], object)
    assert check(f, x).ok and judge(f, x, [2.0, 4.0]).ok and not judge(f, x, [4.0, 8.0]).ok
    assert np.shape(exact(f, x)) == (2,)


@pytest.mark.parametrize(
    "x", [np.array(["a"], object), np.array([1.5, None], object), np.array([[1.0], [2.0, 3.0]], object)]
)
def test_an_array_of_objects_without_numbers_is_refused(x: Any) -> None:
    for ask in (lambda: check(tf.square, x), lambda: exact(tf.square, x), lambda: judge(tf.square, x, 1.0)):
        with pytest.raises((TypeError, ValueError), match="argument 0 is"):
            ask()


def test_ragged_lists_and_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="argument 1 is not an array of numbers"):
        check(lambda x, y: x * y, 1.0, [[1.0, 2.0], [3.0]])
    with pytest.raises(ValueError, match=r"claimed: expected shape \(2,\), got \(3,\)"):
        judge(tf.tanh, [np.array([1.0, 2.0])], np.zeros(3))


def test_none_is_no_number_of_a_second_derivative() -> None:
    with pytest.raises(ValueError, match="claimed: numbers are wanted, not None"):
        judge(tf.tanh, 1.0, None, order=2)


@pytest.mark.parametrize("name", [None, 3, ["tanh"], b"tanh", tf.tanh, float("nan")])
def test_proofs_are_asked_for_by_name(name: Any) -> None:
    with pytest.raises(TypeError, match="takes the name of a primitive"):
        prove(name)


@pytest.mark.parametrize("seconds", [0, -1.0, True, "a", float("nan"), None])
def test_the_time_of_a_proof_is_a_positive_number(seconds: Any) -> None:
    with pytest.raises(ValueError, match="seconds is a positive number"):
        prove("tanh", seconds=seconds)


class _Pair(NamedTuple):
    a: float
    b: float


def test_a_tuple_with_names_is_no_argument_that_is_an_array() -> None:
    for ask in (check, exact):
        with pytest.raises(TypeError, match=r"argument 0 is .*_Pair.*give its parts as arguments of their own"):
            ask(lambda p: p.a * p.b, _Pair(1.0, 2.0))
    assert check(lambda a, b: a * b, *_Pair(1.0, 2.0)).verdict == "correct"


@pytest.mark.parametrize("claimed", [True, np.array(True), [False]])
def test_a_truth_value_is_no_claim(claimed: Any) -> None:
    with pytest.raises(ValueError, match="claimed: numbers are wanted"):
        judge(lambda x: x * 1.0, (0.5,), claimed)


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "correct"), (1.5, "rule")])
def test_the_gradient_of_a_lookup_is_a_claim(factor: float, verdict: str) -> None:
    rows = tf.Variable(np.arange(1.0, 7.0).reshape(3, 2))

    def f(x: Any) -> Any:
        return tf.reduce_sum(tf.gather(x, [0, 0, 2]) ** 2)

    with tf.GradientTape() as tape:
        y = f(rows)
    found = tape.gradient(y, rows)
    assert isinstance(found, tf.IndexedSlices)
    claimed = tf.IndexedSlices(factor * found.values, found.indices, found.dense_shape)
    assert judge(f, (rows,), claimed).verdict == verdict


def test_a_lookup_of_unknown_size_is_refused_as_a_claim() -> None:
    claimed = tf.IndexedSlices(tf.constant([1.0]), tf.constant([0]))
    with pytest.raises(ValueError, match="no dense_shape"):
        judge(lambda x: x * 1.0, (np.ones(2),), claimed)
