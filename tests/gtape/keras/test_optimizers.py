"""Optimizers: the formulas, the ways in, and what is refused."""

from __future__ import annotations

import gc
import io
import math
import re
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gtape as tf
from gtape.keras.optimizers.base import Optimizer
from gtape.keras.optimizers.clipping import norm_of

SGD = tf.keras.optimizers.SGD
Adam = tf.keras.optimizers.Adam


def step(optimizer: Any, v: Any, *gradients: Any) -> Any:
    for g in gradients:
        optimizer.apply_gradients([(g, v)])
    return v.numpy()


# ------------------------------------------------------------------------------------------------ formulas


@given(
    st.lists(st.floats(-4, 4), min_size=1, max_size=6),
    st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    st.booleans(),
    st.floats(0.001, 1.0),
)
def test_sgd_follows_its_recurrence(gradients: list[float], momentum: float, nesterov: bool, rate: float) -> None:
    v = tf.Variable(np.float64(1.0))
    optimizer = SGD(rate, momentum, nesterov)
    value, m = 1.0, 0.0
    for g in gradients:
        step(optimizer, v, np.float64(g))
        m = momentum * m - rate * g
        value += (momentum * m - rate * g if nesterov else m) if momentum else -rate * g
    assert v.numpy() == value
    assert int(optimizer.iterations) == len(gradients)


@given(st.lists(st.floats(-4, 4), min_size=1, max_size=6))
def test_adam_follows_its_recurrence(gradients: list[float]) -> None:
    v = tf.Variable(np.float64(1.0))
    optimizer = Adam(0.1, beta_1=0.8, beta_2=0.9, epsilon=1e-3)
    value, m, s = 1.0, 0.0, 0.0
    for t, g in enumerate(gradients, 1):
        step(optimizer, v, np.float64(g))
        m = 0.8 * m + 0.2 * g
        s = 0.9 * s + 0.1 * g * g
        value -= 0.1 * math.sqrt(1 - 0.9**t) / (1 - 0.8**t) * m / (math.sqrt(s) + 1e-3)
    assert v.numpy() == pytest.approx(value, rel=1e-13, abs=1e-13)


def test_adam_corrects_the_bias_of_a_variable_that_joins_later() -> None:
    optimizer = Adam(0.1)
    early, late = tf.Variable(np.float64(0.0)), tf.Variable(np.float64(0.0))
    step(optimizer, early, *[-1.0] * 20)
    optimizer.minimize(lambda: -late, [late])
    assert late.numpy() == pytest.approx(0.1, rel=1e-5)
    table = tf.Variable(np.zeros((3, 1)))
    slices = tf.IndexedSlices(np.array([[-1.0], [-1.0]]), np.array([2, 2]), [3, 1])
    assert step(Adam(0.1), table, slices).ravel() == pytest.approx([0.0, 0.0, 0.1], rel=1e-5)


def test_adam_checks_its_options() -> None:
    with pytest.raises(ValueError, match="`beta_2` must be in"):
        Adam(beta_2=1.0)


def test_weight_decay_comes_before_the_update() -> None:
    v = tf.Variable(np.array([1.0, 2.0]))
    got = step(SGD(0.5, weight_decay=0.1), v, np.array([1.0, 1.0]))
    assert got.tolist() == [1.0 - 1.0 * (0.1 * 0.5) - 0.5, 2.0 - 2.0 * (0.1 * 0.5) - 0.5]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ({"clipvalue": 1.0}, ([1.0, -1.0], [0.5])),
        ({"clipnorm": 1.0}, ([0.6, -0.8], [0.5])),
        ({"clipnorm": 10.0}, ([3.0, -4.0], [0.5])),
        ({"global_clipnorm": 1.0}, ([3.0 / math.sqrt(25.25), -4.0 / math.sqrt(25.25)], [0.5 / math.sqrt(25.25)])),
    ],
)
def test_clipping(limit: dict[str, float], expected: tuple[list[float], list[float]]) -> None:
    a, b = tf.Variable(np.zeros(2)), tf.Variable(np.zeros(1))
    SGD(1.0, **limit).apply([np.array([3.0, -4.0]), np.array([0.5])], [a, b])
    np.testing.assert_allclose(-a.numpy(), expected[0], rtol=1e-15)
    np.testing.assert_allclose(-b.numpy(), expected[1], rtol=1e-15)


def test_clipping_an_infinite_gradient_says_so() -> None:
    a, b = tf.Variable([1.0, 2.0]), tf.Variable(1.0)
    SGD(1.0, global_clipnorm=1.0).apply([np.array([np.inf, 1.0], np.float32), np.float32(1)], [a, b])
    assert np.isnan(a.numpy()).all() and np.isnan(b.numpy())


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1.0, 1e170, 1e300])
def test_the_norm_neither_overflows_nor_underflows(scale: float) -> None:
    assert norm_of([np.array([3.0, 4.0]) * scale, np.array([])]) == pytest.approx(5.0 * scale, rel=4e-16)
    assert norm_of([]) == norm_of([np.zeros(2)]) == 0.0
    assert math.isnan(norm_of([np.zeros(2), np.array([np.nan])]))


def test_dtypes_are_kept() -> None:
    for dtype in ("float16", "float32", "float64"):
        v = tf.Variable(np.ones(2), dtype=dtype)
        assert step(SGD(0.1, 0.5, True, weight_decay=0.1, clipnorm=1.0), v, np.ones(2)).dtype == dtype


def test_a_float64_model_gets_all_digits_of_the_rate() -> None:
    v = tf.Variable(np.float64(0.0))
    assert step(SGD(0.1), v, np.float64(-1.0)) == 0.1


# ------------------------------------------------------------------------------------------------ sparse gradients


@pytest.mark.parametrize(
    "options", [{}, {"momentum": 0.9}, {"clipnorm": 0.5}, {"global_clipnorm": 0.5}, {"weight_decay": 0.1}]
)
def test_a_sparse_gradient_is_the_dense_one(options: dict[str, float]) -> None:
    slices = tf.IndexedSlices(np.array([[1.0], [2.0], [4.0]]), np.array([2, 0, 2]), [3, 1])
    dense = np.array([[2.0], [0.0], [5.0]])
    a, b = tf.Variable(np.ones((3, 1))), tf.Variable(np.ones((3, 1)))
    for _ in range(2):
        step(one := SGD(0.1, **options), a, slices)
        step(other := SGD(0.1, **options), b, dense)
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-15)
    assert int(one.iterations) == int(other.iterations) == 1


def test_a_lookup_trains_its_rows_only() -> None:
    table = tf.Variable(np.zeros((3, 2)))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table, [1, 1]))
    gradient = tape.gradient(loss, table)
    assert isinstance(gradient, tf.IndexedSlices)
    assert step(SGD(1.0), table, gradient).tolist() == [[0.0, 0.0], [-2.0, -2.0], [0.0, 0.0]]


# ------------------------------------------------------------------------------------------------ ways in


def test_one_optimizer_for_changing_variables_and_weighted_losses() -> None:
    optimizer = SGD(1.0)
    w = [tf.Variable([0.0, 0.1]), tf.Variable([0.0, 0.2])]
    with tf.GradientTape(persistent=True) as tape:
        y = 2.0 * (w[0] + w[1])
    out = io.StringIO()
    tf.print(y, output_stream=out)
    tf.print(tape.gradient(y, w), output_stream=out)
    optimizer.minimize(y, w, grad_loss=[tf.constant([1.0, 2.0]), tf.constant([2.0, 2.0])], tape=tape)
    tf.print(w, output_stream=out)

    w1 = tf.Variable([1.0, 0.0])
    with tf.GradientTape() as tape:
        y = 2.0 * w1
    optimizer.minimize(y, w1, grad_loss=tf.constant([2.0, 5.0]), tape=tape)
    tf.print(w1, output_stream=out)
    assert out.getvalue().splitlines() == ["[0 0.6]", "[[2 2], [2 2]]", "[[-2 -3.9], [-2 -3.8]]", "[-3 -10]"]
    assert int(optimizer.iterations) == 2


def test_minimize_a_function() -> None:
    x = tf.Variable(3.0, trainable=False)
    made = []

    def loss() -> Any:
        made.append(x)
        return x * x

    assert SGD(0.25).minimize(loss, [x]) == 1
    assert x.numpy() == 1.5
    y = tf.Variable(1.0)
    SGD(0.25).minimize(lambda: y * y, lambda: {"only": y})
    assert y.numpy() == 0.5
    assert made == [x]


def test_a_tensor_loss_needs_its_tape() -> None:
    with pytest.raises(ValueError, match="`tape` is required when a `Tensor` loss is passed"):
        SGD().minimize(tf.constant(1.0), [tf.Variable(1.0)])


def test_apply_takes_any_iterables() -> None:
    a, b = tf.Variable(1.0), tf.Variable(2.0)
    optimizer = SGD(1.0)
    optimizer.apply_gradients(zip(iter([tf.constant(1.0), 1.0]), (a, b), strict=True))
    optimizer.apply((g for g in (1.0, 1.0)), (v for v in (a, b)))
    assert (a.numpy(), b.numpy()) == (-1.0, 0.0)
    optimizer.apply([], [])
    assert int(optimizer.iterations) == 2
    with pytest.raises(ValueError, match="No gradients provided for any variable"):
        optimizer.apply_gradients([])


@pytest.mark.usefixtures("few_to_collect")
def test_build_and_apply_without_variables() -> None:
    a, b = tf.Variable(1.0), tf.Variable(2.0)
    optimizer = SGD(1.0, momentum=0.5)
    with pytest.raises(ValueError, match="must already be built"):
        optimizer.apply([1.0, 1.0])
    optimizer.build([a, b])
    assert len(optimizer.variables) == 4
    optimizer.apply([1.0, 1.0])
    assert (a.numpy(), b.numpy()) == (0.0, 1.0)
    del b
    gc.collect()
    assert len(optimizer.variables) == 3
    with pytest.raises(ValueError, match="are gone"):
        optimizer.apply([1.0, 1.0])


@pytest.mark.usefixtures("few_to_collect")
def test_slots_belong_to_a_variable_and_die_with_it() -> None:
    optimizer = SGD(1.0, momentum=1.0)
    for _ in range(3):
        v = tf.Variable(np.zeros(2))
        assert step(optimizer, v, np.ones(2), np.ones(2)).tolist() == [-3.0, -3.0]
        del v
        gc.collect()
        assert len(optimizer.variables) == 2


def test_updates_are_not_recorded() -> None:
    v = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        SGD(1.0).apply_gradients([(v * v, v)])
        y = v * 3.0
    assert tape.gradient(y, v).numpy() == 3.0


def test_constraints_are_applied_last() -> None:
    v = tf.Variable([1.0, 1.0], constraint=lambda w: tf.maximum(w, 0.0))
    assert step(SGD(1.0), v, np.array([3.0, 0.5])).tolist() == [0.0, 0.5]


# ------------------------------------------------------------------------------------------------ learning rate


def test_the_learning_rate_may_be_set() -> None:
    optimizer = SGD(0.5)
    assert optimizer.learning_rate.dtype == tf.float32
    assert float(optimizer.learning_rate) == 0.5
    v = tf.Variable(np.float64(0.0))
    assert step(optimizer, v, -1.0) == 0.5
    optimizer.learning_rate = 0.1
    assert step(optimizer, v, -1.0) == 0.5 + 0.1
    optimizer.learning_rate.assign(0.25)
    assert step(optimizer, v, -1.0) == 0.5 + 0.1 + 0.25
    optimizer.learning_rate = tf.constant(2.0)
    assert step(optimizer, v, -1.0) == 0.5 + 0.1 + 0.25 + 2.0


def test_a_schedule_is_asked_at_every_step() -> None:
    v = tf.Variable(np.float64(0.0))
    optimizer = SGD(lambda step: 10.0**step)
    assert step(optimizer, v, -1.0, -1.0, -1.0) == 111.0
    optimizer.learning_rate = lambda: 0.5
    assert step(optimizer, v, -1.0) == 111.5
    optimizer.learning_rate = 2.0
    assert step(optimizer, v, -1.0) == 113.5


# ------------------------------------------------------------------------------------------------ refusals


def test_none_is_skipped_with_a_warning() -> None:
    a, b = tf.Variable(1.0, name="a"), tf.Variable(1.0, name="b")
    with pytest.warns(UserWarning, match=re.escape("Gradients do not exist for variables ['b:0']")) as caught:
        SGD(1.0).apply_gradients([(1.0, a), (None, b)])
    assert caught[0].filename == __file__
    assert (a.numpy(), b.numpy()) == (0.0, 1.0)


def test_nothing_but_none_is_an_error() -> None:
    v = tf.Variable(1.0)
    optimizer = SGD(1.0)
    with pytest.raises(ValueError, match=r"^No gradients provided for any variable\."):
        optimizer.apply_gradients([(None, v)])
    assert int(optimizer.iterations) == 0


def test_a_gradient_of_another_shape_is_refused_before_anything_changes() -> None:
    a, b = tf.Variable([1.0, 1.0]), tf.Variable([1.0, 1.0])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"has shape \(1,\), the variable \(2,\)"):
        SGD(1.0).apply([np.ones(2), np.ones(1)], [a, b])
    assert a.numpy().tolist() == [1.0, 1.0]


def test_only_variables_are_updated() -> None:
    with pytest.raises(TypeError, match="an optimizer updates variables, not Tensor"):
        SGD().apply_gradients([(tf.constant(1.0), tf.constant(1.0))])
    with pytest.raises(ValueError, match="2 gradients for 1 variables"):
        SGD().apply([1.0, 2.0], [tf.Variable(1.0)])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"momentum": 1.5}, "`momentum` must be a float between"),
        ({"momentum": "a"}, "`momentum` must be a float between"),
        ({"learning_rate": "fast"}, "`learning_rate` should be"),
        ({"learning_rate": None}, "`learning_rate` should be"),
        ({"clipnorm": 1.0, "clipvalue": 1.0}, "Only one of"),
        ({"clipnorm": 0.0}, "`clipnorm` must be positive"),
    ],
)
def test_wrong_options(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        SGD(**options)


def test_overflow_is_silent_as_in_ops() -> None:
    v = tf.Variable(np.float32(1e30))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert step(SGD(1e30), v, np.float32(-1e30)) == np.inf


def test_the_base_class_has_no_formula() -> None:
    with pytest.raises(NotImplementedError, match="does not say how"):
        Optimizer(0.1).apply([1.0], [tf.Variable(1.0)])
