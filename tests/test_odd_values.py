"""Values that no call expects: flags that are neither true nor false, mocks, masked numbers, halves of characters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock, Mock

import numpy as np
import pytest

import gtape as tf
from gtape.base.shown import shown
from gtape.declare.primitives import REGISTRY
from gtape.verify.strategies import Call

X = [[1.0, 2.0], [3.0, 5.0]]


class Undecided:
    """Its truth is no truth value."""

    def __bool__(self) -> Any:
        return "maybe"


def used() -> tf.GradientTape:
    with tf.GradientTape(persistent=True) as tape:
        pass
    return tape


FLAGGED: list[tuple[str, Callable[[Any], Any]]] = [
    ("keepdims", lambda v: tf.reduce_sum(X, keepdims=v)),
    ("keepdims", lambda v: tf.reduce_mean(X, keepdims=v)),
    ("keepdims", lambda v: tf.reduce_max(X, axis=1, keepdims=v)),
    ("keepdims", lambda v: tf.reduce_any([True], keepdims=v)),
    ("keepdims", lambda v: tf.reduce_logsumexp(X, keepdims=v)),
    ("keepdims", lambda v: tf.math.count_nonzero(X, keepdims=v)),
    ("keepdims", lambda v: tf.math.reduce_euclidean_norm(X, keepdims=v)),
    ("keepdims", lambda v: tf.norm(X, keepdims=v)),
    ("exclusive", lambda v: tf.cumsum(X, exclusive=v)),
    ("reverse", lambda v: tf.cumsum(X, reverse=v)),
    ("transpose_a", lambda v: tf.matmul(X, X, transpose_a=v)),
    ("adjoint_b", lambda v: tf.matmul(X, X, adjoint_b=v)),
    ("conjugate", lambda v: tf.linalg.matrix_transpose(X, conjugate=v)),
    ("adjoint", lambda v: tf.linalg.solve(X, X, adjoint=v)),
    ("full_matrices", lambda v: tf.linalg.qr(X, full_matrices=v)),
    ("compute_uv", lambda v: tf.linalg.svd(X, compute_uv=v)),
    ("trainable", lambda v: tf.Variable(X, trainable=v)),
    ("persistent", lambda v: tf.GradientTape(persistent=v)),
    ("experimental_use_pfor", lambda v: used().jacobian(tf.constant(1.0), X, experimental_use_pfor=v)),
]


@pytest.mark.parametrize(("name", "call"), FLAGGED, ids=[f"{i}-{n}" for i, (n, _) in enumerate(FLAGGED)])
@pytest.mark.parametrize("value", [np.array(["a", "b"]), np.ones(2), tf.constant([True, False]), Undecided()])
def test_what_is_neither_true_nor_false_is_refused_by_the_name_of_the_flag(
    name: str, call: Callable[[Any], Any], value: Any
) -> None:
    with pytest.raises((TypeError, ValueError), match=name):
        call(value)


def test_a_flag_may_be_any_single_truth() -> None:
    for yes in (True, 1, np.True_, np.ones(1), tf.constant(True)):
        assert tf.reduce_sum(X, keepdims=yes).shape == (1, 1)
        np.testing.assert_array_equal(tf.matmul(X, X, transpose_a=yes).numpy(), np.array(X).T @ np.array(X))
    for no in (False, 0, None, np.False_, tf.constant(0)):
        assert tf.reduce_sum(X, keepdims=no).shape == ()
        np.testing.assert_array_equal(tf.matmul(X, X, transpose_a=no).numpy(), np.array(X) @ np.array(X))


@pytest.mark.parametrize(
    "call", [tf.sin, tf.convert_to_tensor, lambda x: tf.constant(1.0) + x, lambda x: tf.stack([x])]
)
def test_a_mock_which_has_every_attribute_is_no_tensor(call: Callable[[Any], Any]) -> None:
    assert not tf.is_tensor(Mock())
    with pytest.raises(ValueError, match="Mock"):
        call(Mock())
    assert tf.convert_to_tensor(MagicMock()).shape == (0,)  # a sequence of none, as Python's protocols say


def test_ranks_are_whole_numbers() -> None:
    for check in (tf.debugging.assert_rank, tf.debugging.assert_rank_at_least):
        for wrong in (np.ma.masked, "2", 1.5, [2]):
            with pytest.raises(ValueError, match="`rank` must be an integer"):
                check(X, wrong)
    with pytest.raises(ValueError, match="`ranks` must be an integer"):
        tf.debugging.assert_rank_in(X, np.ma.array([1.0, 2.0], mask=[True, False]))
    with pytest.raises(TypeError, match="`ranks` must be a list of integers"):
        tf.debugging.assert_rank_in(X, 2)
    tf.debugging.assert_rank(X, tf.constant(2))


def test_a_masked_number_is_no_number() -> None:
    with pytest.raises(ValueError, match="`delta` must be"):
        tf.keras.losses.huber(X, X, delta=np.ma.array(1.0, mask=True))


def test_weights_in_a_memoryview_of_several_axes_are_refused() -> None:
    with pytest.raises(TypeError, match="`weights` must be"):
        tf.keras.layers.Dense(1).set_weights(memoryview(np.ones((2, 2))))


def test_half_a_surrogate_pair_is_no_text() -> None:
    for call in (tf.constant, lambda text: tf.Variable([1.0]) + text):
        with pytest.raises(ValueError, match="surrogate"):
            call("\ud800")


def test_a_call_of_large_arrays_shows_briefly() -> None:
    assert len(repr(Call(REGISTRY["exp"], [np.broadcast_to(1.0, (1, 2**20, 2**20))], {}))) < 1000
    assert repr(Call(REGISTRY["exp"], [np.zeros(2)], {})) == "exp(np.array([0.0, 0.0], 'float64'))"


def test_the_mean_of_whole_numbers_is_cut_off_without_an_overflow() -> None:
    for v, mean in (([-7, 2], -2), ([-1, -2], -1), ([5, 4], 4), ([-5, -4], -4), ([-(2**63)], -(2**63))):
        assert int(tf.reduce_mean(tf.constant(v, tf.int64))) == mean


def test_bytes_without_a_meaning_and_expressions_without_a_number_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot become a tensor"):
        tf.constant([1.0]) + np.zeros(2, "V3")
    with pytest.raises(ValueError, match="a number is needed"):
        tf.symbolic.SymPyWorld(samples={"a": [1, {"b": None}]})


def test_an_assignment_with_an_unclear_option_leaves_the_variable_as_it_is() -> None:
    v = tf.Variable([1.0, 2.0])
    for change in (v.assign, v.assign_add, v.assign_sub):
        with pytest.raises(ValueError, match="read_value"):
            change([5.0, 5.0], read_value=np.ones(2))
    assert v.numpy().tolist() == [1.0, 2.0]


def test_messages_about_arrays_of_many_axes_are_brief() -> None:
    assert shown(np.ones((1, 2) * 15)) == "<ndarray of 30 axes>"
    assert "20 axes" in shown(tf.ones([2] * 20))


def test_raw_bytes_are_no_numbers_for_keras() -> None:
    with pytest.raises(ValueError, match="`x` must be numbers"):
        tf.keras.utils.to_categorical(np.void(b"a"))
    with pytest.raises(ValueError, match="must be numbers"):
        tf.keras.initializers.Constant(np.zeros(2, "V3"))([2])


def test_a_text_is_no_list_of_tensors() -> None:
    with pytest.raises(TypeError, match="`input` must be a list"):
        tf.shape_n("a" * 100_000)


def test_numbers_that_no_float_holds_are_refused_as_gradients() -> None:
    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = x * x
    with pytest.raises(ValueError, match="no float holds"):
        tape.gradient(y, x, output_gradients=10**400)


def test_what_cannot_be_gone_through_is_no_axis_and_no_dtype() -> None:
    with pytest.raises(TypeError, match="an axis must be an integer"):
        tf.reduce_sum(X, axis=memoryview(np.ones((2, 2))))
    with pytest.raises(TypeError):
        tf.TensorShape(memoryview(np.ones((2, 2))))
    assert tf.string != np.ones(2).flat
    assert tf.math.reduce_euclidean_norm([-(2**63)]).dtype == tf.int64
    with pytest.raises(tf.errors.ResourceExhaustedError):
        tf.keras.utils.to_categorical(np.broadcast_to(np.float32(1), (2, 2**40)))


def test_a_generator_skips_whole_numbers_of_draws() -> None:
    generator = tf.random.Generator.from_seed(1)
    with pytest.raises(tf.errors.OperandTypeError, match="must be whole numbers, not complex64"):
        generator.skip(np.complex64(1j))
    assert generator.skip(np.int8(3)).numpy()[0] == 3


def test_infinite_weights_of_counts_give_no_warning() -> None:
    metric = tf.keras.metrics.TrueNegatives()
    assert np.isnan(float(metric(tf.constant([0, 1]), np.ones(2), np.inf)))


def test_arguments_nested_hundreds_deep_have_no_signature() -> None:
    nested: object = tf.constant(1.0)
    for _ in range(900):
        nested = [nested]
    # Which of the two steps is the first to go too deep depends on Python's version.
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=r"get_concrete_function|nested deeper than"):
        tf.function(lambda x: x).get_concrete_function(nested)


def test_a_class_is_no_matrix() -> None:
    with pytest.raises(TypeError, match="is no matrix"):
        np.matmul(tf.constant([[1.0]]), np.generic)


@pytest.mark.parametrize(
    "call",
    [
        tf.sin,
        tf.constant,
        lambda x: tf.constant(1.0) + x,
        lambda x: tf.math.xlogy(x, 1.0),
        lambda x: tf.assert_greater(tf.constant([1.0, 2.0]), x),
        lambda x: tf.math.confusion_matrix(x, [0, 1]),
        lambda x: tf.keras.initializers.TruncatedNormal(stddev=x),
    ],
)
def test_a_mock_of_the_class_of_arrays_is_no_array(call: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, ValueError), match="Mock"):
        call(Mock(spec=np.ndarray))


class Long:
    """A sequence of a thousand million million items."""

    def __len__(self) -> int:
        return 10**15

    def __getitem__(self, i: int) -> float:
        return 1.0


@pytest.mark.parametrize("n", [10**30, 2**70])
def test_ranges_longer_than_any_list_are_refused_at_once(n: int) -> None:
    with pytest.raises(ValueError, match="input_shape"):
        tf.keras.layers.Flatten().compute_output_shape(range(n))
    with pytest.raises((TypeError, ValueError), match="t_list"):
        tf.clip_by_global_norm(range(n), 1.0)
    with pytest.raises(TypeError, match="`weights` must be"):
        tf.keras.layers.Dense(1).set_weights(range(n))


def test_items_without_room_in_the_memory_are_resource_exhausted() -> None:
    with pytest.raises(tf.errors.ResourceExhaustedError, match="`weights`"):
        tf.keras.layers.Dense(1).set_weights(Long())


def test_a_list_whose_first_number_is_a_half_holds_halves() -> None:
    assert tf.constant([np.float16(1), 2]).dtype == tf.float16
    with pytest.raises(ValueError, match="float16 cannot hold"):
        tf.constant([np.float16(1), np.int64(2**62)])
    assert tf.constant([np.float16(1), np.inf]).numpy()[1] == np.inf
