"""Under strict, what reads no values passes, and a value that leaves the tape by an unusual way is undecided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gtape as tf

F = Callable[[Any], Any]
A = np.array([[1.3, -2.1, 0.4], [3.7, 4.9, -0.8]])
W = np.array([[0.3123456789], [-0.5987654321], [1.7182818284]])


def strict_gradient(f: F, value: Any, make: F = tf.constant) -> Any:
    x = make(value)
    with tf.GradientTape(verify="strict") as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x).numpy()


PRODUCTS: dict[str, F] = {
    "the operator": lambda w: A @ w,
    "np.matmul": lambda w: np.matmul(A, w),
    "a vector": lambda w: A @ w[:, 0],
    "a vector on the left": lambda w: A[0] @ w,
    "a list that holds tensors": lambda w: np.matmul(tf.transpose(w), [[w[0, 0]], [0.25], [w[1, 0]]]),
    "np.outer": lambda w: np.multiply.outer(A, w),
    "np.kron": lambda w: np.kron(A, w),
    "np.dot": lambda w: np.dot(A, w),
    "np.copysign": lambda w: np.copysign(w, A[:, :1].sum() * tf.square(w) - 1.0),
}


@pytest.mark.parametrize("make", [tf.constant, tf.Variable])
@pytest.mark.parametrize("f", PRODUCTS.values(), ids=PRODUCTS)
def test_products_with_arrays_pass(f: F, make: F) -> None:
    x = tf.constant(W)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert strict_gradient(f, W, make).tolist() == tape.gradient(y, x).numpy().tolist()


LAYOUTS: dict[str, F] = {
    "shape": np.shape, "ndim": np.ndim, "size": np.size, "size of an axis": lambda w: np.size(w, 0),
    "iscomplexobj": np.iscomplexobj, "isrealobj": np.isrealobj, "result_type": lambda w: np.result_type(w, np.float32),
    "can_cast": lambda w: np.can_cast(w, np.float32), "common_type": lambda w: np.common_type(w, A),
    "shares_memory": lambda w: np.shares_memory(w, A), "may_share_memory": lambda w: np.may_share_memory(A, w),
    "triu_indices_from": np.triu_indices_from, "tril_indices_from": lambda w: np.tril_indices_from(w, -1),
    "shape of a list": lambda w: np.shape([w, w]), "ndim of a list": lambda w: np.ndim([w[0, 0], w[1, 0]]),
    "size of a tuple": lambda w: np.size((w, w)), "iscomplexobj of a list": lambda w: np.iscomplexobj([w]),
}  # fmt: skip
WHOLE: dict[str, F] = {
    "isclose": lambda w: np.isclose(w, 0.5), "allclose": lambda w: np.allclose(w, 0.5), "nonzero": np.nonzero,
    "searchsorted": lambda w: np.searchsorted([-1.0, 0.5, 2.0], w), "digitize": lambda w: np.digitize(w, [0.0, 0.4]),
    "array_equal": lambda w: np.array_equal(w, w), "signbit": np.signbit, "matrix_rank": np.linalg.matrix_rank,
    "argpartition": lambda w: np.argpartition(w, 1, axis=0), "min_scalar_type": np.min_scalar_type,
}  # fmt: skip


@pytest.mark.parametrize("make", [tf.constant, tf.Variable])
@pytest.mark.parametrize("ask", [*LAYOUTS.values(), *WHOLE.values()], ids=[*LAYOUTS, *WHOLE])
def test_what_numpy_asks_of_a_layout_or_answers_in_whole_numbers_lets_no_value_out(ask: F, make: F) -> None:
    def f(w: Any) -> Any:
        assert str(ask(w)) == str(ask(W))
        return A @ w * 2.5

    assert strict_gradient(f, W, make).shape == W.shape


@given(st.lists(st.integers(0, 4), max_size=4), st.sampled_from(["f4", "f8", "c8", "i4", "?"]))
def test_a_layout_is_that_of_the_values(shape: list[int], dtype: str) -> None:
    values = np.ones(shape, dtype)
    for x in (tf.constant(values), tf.Variable(values)):
        for ask in (np.shape, np.ndim, np.size, np.iscomplexobj, np.isrealobj, np.result_type):
            assert ask(x) == ask(values)
        assert np.shape([x, x]) == (2, *shape)


def test_a_layout_is_no_reading_of_a_variable() -> None:
    v = tf.Variable(W)
    with tf.GradientTape() as tape:
        assert np.shape(v) == W.shape and np.ndim(v) == 2
    assert tape.watched_variables() == ()


def _copied(w: Any) -> Any:
    copy = np.empty_like(W)
    np.copyto(copy, w)
    return copy


NUMBERS: dict[str, F] = {
    "unique": lambda w: np.unique(w).sum(), "histogram": lambda w: np.histogram(w)[1][0],
    "spacing": lambda w: np.spacing(w), "out": lambda w: np.sum(w, 0, out=np.empty(1)),
    "copyto": _copied,
}  # fmt: skip


@pytest.mark.parametrize("ask", NUMBERS.values(), ids=NUMBERS)
def test_numbers_that_numpy_makes_of_values_have_left(ask: F) -> None:
    with pytest.raises(tf.VerificationError, match=r"undecided|unconnected"):
        strict_gradient(lambda w: tf.sin(w) * (2.0 * ask(w)), W)


def _derivative(how: str, f: F, c: Any) -> Any:
    """A derivative of f at c by a tape or an accumulator of its own."""
    if how == "jvp":
        with tf.autodiff.ForwardAccumulator(c, tf.ones_like(c)) as accumulator:
            y = f(c)
        return accumulator.jvp(y)
    with tf.GradientTape() as tape:
        tape.watch(c)
        y = f(c)
    return getattr(tape, how)(y, c)


def _factor_that_was_watched(how: str, x: Any) -> Any:
    d = tf.constant(np.exp(x.numpy()))
    _derivative(how, tf.exp, d)
    return _derivative(how, lambda c: c * d, tf.constant(0.5, x.dtype))


INNER: dict[str, Callable[[str, Any], Any]] = {
    "a detached copy": lambda how, x: _derivative(how, tf.exp, tf.constant(x.numpy())),
    "a power of a copy": lambda how, x: _derivative(how, lambda c: c**3, tf.constant(x.numpy())),
    "a function of a copy": lambda how, x: _derivative(how, tf.sin, tf.constant(np.exp(x.numpy()))),
    "a score": lambda how, x: _derivative(how, lambda c: -(c**2) / 2.0 - tf.exp(c), tf.constant(float(x), x.dtype)),
    "a factor": lambda how, x: _derivative(how, lambda c: c * np.exp(x.numpy()), tf.constant(0.5, x.dtype)),
    "a factor that was watched": _factor_that_was_watched,
}


@pytest.mark.parametrize("value", [3.0, 0.3123456789])
@pytest.mark.parametrize("how", ["gradient", "jacobian", "jvp"])
@pytest.mark.parametrize("slope", INNER.values(), ids=INNER)
def test_a_derivative_at_a_detached_copy_passes_never(slope: Callable[[str, Any], Any], how: str, value: float) -> None:
    with pytest.raises(tf.VerificationError, match=r"undecided|unconnected"):
        strict_gradient(lambda x: x * slope(how, x), np.float64(value))


@pytest.mark.parametrize("how", ["gradient", "jacobian", "jvp"])
def test_a_tensor_that_the_same_tape_watches_after_a_value_left_is_undecided(how: str) -> None:
    with pytest.raises(tf.VerificationError, match="undecided"), tf.verifying("strict"):
        x = tf.constant(0.3123456789)
        with tf.GradientTape() as tape:
            tape.watch(x)
            d = tf.constant(np.exp(x.numpy()))
            tape.watch(d)
            y = tf.sin(x) * d
        tape.gradient(y, x)


@pytest.mark.parametrize("how", ["gradient", "jacobian", "jvp"])
def test_derivatives_inside_pass_if_nothing_left_before_their_constants_entered(how: str) -> None:
    w, state = tf.Variable([0.3, -0.7], dtype=tf.float64), tf.keras.metrics.Mean()

    def slope(x: Any) -> Any:
        made = _derivative(how, lambda c: tf.exp(c * [0.5, 2.0]) * w, tf.constant([0.25, 1.5], tf.float64))
        own = _derivative(how, lambda c: tf.sin(c) * 3.0, tf.stop_gradient(x))
        print(x.numpy(), float(made[0][0] if how == "jacobian" else made[0]))
        return tf.reduce_sum(made) * tf.reduce_sum(own)

    assert strict_gradient(lambda x: tf.reduce_sum(tf.square(x)) * slope(x), np.array([0.5, 1.25])).shape == (2,)

    def penalised(x: Any) -> Any:
        loss = tf.reduce_sum(tf.square(x))
        state.update_state(loss)
        return loss + tf.reduce_sum(_derivative(how, lambda c: tf.tanh(c) * w, tf.constant([0.25, 1.5], tf.float64)))

    assert strict_gradient(penalised, np.array([0.5, 1.25])).shape == (2,)
