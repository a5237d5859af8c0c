"""If the source is a variable that takes new values in the block, the gradient is the derivative by one of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gtape as tf
from gtape.verify.verdicts.collect import collecting

F = Callable[[Any, Any], Any]
_keras = tf.keras


def _sum_of(w: Any) -> Any:
    return tf.reduce_sum(w**2)


def gradient(f: F, verify: Any = "strict", start: Any = (1.1234567, 2.3456789), dtype: Any = tf.float64) -> Any:
    w = tf.Variable(start, dtype=dtype)
    with tf.GradientTape(persistent=True, verify=verify) as tape:
        target = f(w, tape)
    return tape.gradient(target, w).numpy()


def _slope(w: Any) -> Any:
    with tf.GradientTape() as inner:
        loss = tf.reduce_sum(w**4)
    return inner.gradient(loss, w)


def _step(optimizer: Any) -> Callable[[Any], Any]:
    return lambda w: optimizer.apply_gradients([(_slope(w), w)])


def _through_another(w: Any) -> None:
    v = tf.Variable(tf.zeros_like(w))
    v.assign(3.0 * w)
    w.assign(v + 1.5)


def _in_two_steps(w: Any) -> None:
    w.assign(1.5 * w)
    w.assign(tf.sin(w))


CHANGES: dict[str, Callable[[Any], Any]] = {
    "assign": lambda w: w.assign(w * 2.0),
    "assign_add": lambda w: w.assign_add(tf.sin(w)),
    "assign_sub": lambda w: w.assign_sub(0.01 * _slope(w)),
    "a part": lambda w: w[:1].assign(w[1:] * 2.0),
    "scatter_nd_update": lambda w: w.scatter_nd_update([[0]], [w[1] * 2.0]),
    "another variable": _through_another,
    "two assignments": _in_two_steps,
    "SGD": lambda w: _step(_keras.optimizers.SGD(0.01))(w),
    "Adam": lambda w: _step(_keras.optimizers.Adam(0.01, weight_decay=0.1))(w),
    "minimize": lambda w: _keras.optimizers.SGD(0.01).minimize(lambda: tf.reduce_sum(w**4), [w]),
    "rows": lambda w: _keras.optimizers.SGD(0.01).apply_gradients(
        [(tf.IndexedSlices(_slope(w)[:1], tf.constant([0])), w)]
    ),
}


@pytest.mark.parametrize("verify", [True, "strict"])
@pytest.mark.parametrize("dtype", [tf.float64, tf.float32])
@pytest.mark.parametrize("name", CHANGES)
def test_a_target_of_two_values_of_which_one_was_computed_from_the_other_is_unconnected(
    name: str, dtype: Any, verify: Any
) -> None:
    def f(w: Any, _: Any) -> Any:
        before = _sum_of(w)
        CHANGES[name](w)
        return before + tf.reduce_sum(w**3)

    with pytest.raises(tf.VerificationError, match="earlier value") as raised:
        gradient(f, verify, dtype=dtype)
    assert raised.value.report.verdict == "unconnected"
    assert raised.value.report.findings[-1].line[0] == __file__


@pytest.mark.parametrize("name", CHANGES)
def test_a_target_of_the_new_value_alone_is_right(name: str) -> None:
    def f(w: Any, _: Any) -> Any:
        CHANGES[name](w)
        return tf.reduce_sum(w**3)

    with collecting() as report:
        gradient(f, True)
    assert report.verdict in ("correct", "conditioning")


def test_the_finding_names_the_line_of_the_assignment() -> None:
    def f(w: Any, _: Any) -> Any:
        before = _sum_of(w)
        w.assign(w * 2.0)
        return before + _sum_of(w)

    with pytest.raises(tf.VerificationError) as raised:
        gradient(f, True, start=(1.0, 2.0))
    (found,) = raised.value.report.findings
    assert found.line[1] == inspect.getsourcelines(f)[1] + 2 and found.line[2] == "f"


@pytest.mark.parametrize("start", [0.5, 0.7123456789, [1.0, 2.0]])
@pytest.mark.parametrize("how", ["gradient", "jacobian", "jvp"])
def test_every_method_finds_it_with_short_and_long_numbers(how: str, start: Any) -> None:
    w = tf.Variable(start, dtype=tf.float64)
    with tf.verifying(), pytest.raises(tf.VerificationError, match="earlier value"):
        if how == "jvp":
            with tf.autodiff.ForwardAccumulator(w, tf.ones_like(w)) as accumulator:
                y = w**2
                w.assign(tf.sin(w))
                y += w**2
            accumulator.jvp(y)
        else:
            with tf.GradientTape() as tape:
                y = w**2
                w.assign(tf.sin(w))
                y += w**2
            getattr(tape, how)(y, w)


def test_inner_gradients_of_the_same_tape_are_numbers_of_the_step_in_which_they_were_taken() -> None:
    def f(w: Any, tape: Any) -> Any:
        total = 0.0
        for _ in range(3):
            loss = tf.reduce_sum(w**4)
            total += loss
            w.assign_sub(0.01 * tape.gradient(loss, w))
        return total

    with pytest.raises(tf.VerificationError, match="earlier value"):
        gradient(f)


def _training(w: Any, tape: Any) -> Any:
    for _ in range(3):
        loss = tf.reduce_sum(w**4)
        w.assign_sub(0.01 * tape.gradient(loss, w))
    return loss


def _training_by(optimizer: Callable[[], Any]) -> F:
    def f(w: Any, tape: Any) -> Any:
        made = optimizer()
        for _ in range(3):
            loss = tf.reduce_sum(w**4)
            made.apply_gradients([(tape.gradient(loss, w), w)])
        return loss

    return f


def _with_an_average(w: Any, tape: Any) -> Any:
    average, count = tf.Variable(tf.zeros_like(w), trainable=False), tf.Variable(0.0, dtype=w.dtype, trainable=False)
    for _ in range(3):
        loss = tf.reduce_sum(w**4) + _sum_of(w - average)
        average.assign(0.9 * average + 0.1 * w)  # of values before the one by which the last loss is differentiated
        count.assign_add(1.0)
        w.assign_sub(0.01 * tape.gradient(loss, w))
    return loss


def _with_statistics(w: Any, tape: Any) -> Any:
    layer = _keras.layers.BatchNormalization(dtype="float64")
    for _ in range(2):
        loss = tf.reduce_sum(layer(tf.reshape(w, [2, 1]) * [[1.0, 2.0]], training=True) ** 3)
        w.assign_sub(0.001 * tape.gradient(loss, w))
    return loss


def _between(change: Callable[[Any], Any], after: Callable[[Any, Any], Any]) -> F:
    def f(w: Any, _: Any) -> Any:
        before = _sum_of(w)
        change(w)
        return after(before, tf.reduce_sum(w**3))

    return f


def _restored(w: Any, _: Any) -> Any:
    kept, before = tf.identity(w), _sum_of(w)
    w.assign([0.5, 0.6])
    before += _sum_of(w)
    w.assign(kept)
    return before + tf.reduce_sum(w**3)


RIGHT: dict[str, F] = {
    "training": _training,
    "training by Adam": _training_by(lambda: _keras.optimizers.Adam(0.01)),
    "training by SGD": _training_by(lambda: _keras.optimizers.SGD(0.01, momentum=0.9, use_ema=True, weight_decay=0.1)),
    "an average": _with_an_average,
    "statistics": _with_statistics,
    "a constant": _between(lambda w: w.assign([0.3123456, 0.4123456]), lambda a, b: a + b),
    "a constant step": _between(lambda w: w.assign_sub([0.3123456, 0.4123456]), lambda a, b: a + b),
    "a constant gradient": _between(
        lambda w: _keras.optimizers.SGD(0.01).apply_gradients([(tf.constant([1.0, 2.0], w.dtype), w)]),
        lambda a, b: a + b,
    ),
    "a stopped value": _between(lambda w: w.assign(tf.stop_gradient(w * 2.0)), lambda a, b: a + b),
    "a stopped target": _between(lambda w: w.assign(w * 2.0), lambda a, b: tf.stop_gradient(a) * b),
    "a target that counts the new value alone": _between(lambda w: w.assign(w * 2.0), lambda a, b: tf.maximum(a, b)),
    "a value that is put back": _restored,
}


@pytest.mark.parametrize("verify", [True, "strict"])
@pytest.mark.parametrize("f", RIGHT.values(), ids=RIGHT)
def test_a_number_that_is_the_derivative_by_one_value_fails_nothing(f: F, verify: Any) -> None:
    gradient(f, verify)


@given(st.lists(st.sampled_from(["read", "compute", "set"]), min_size=1, max_size=6))
def test_values_in_a_row_are_unconnected_if_two_are_read_and_none_in_between_was_set(steps: list[str]) -> None:
    row, place = 0, 0  # of the value: a row starts with a value that is set
    read: set[tuple[int, int]] = set()
    for step in steps:
        if step == "read":
            read.add((row, place))
        else:
            row, place = (row + 1, 0) if step == "set" else (row, place + 1)
    wrong = len({number for number, _ in read}) < len(read)

    def f(w: Any, _: Any) -> Any:
        total = tf.zeros([], w.dtype)
        for number, step in enumerate(steps):
            if step == "read":
                total += tf.reduce_sum(w**3)
            else:
                w.assign(tf.sin(w) if step == "compute" else np.array([0.3, 0.9]) / (number + 1.0))
        return total

    if not read:
        return
    if wrong:
        with pytest.raises(tf.VerificationError, match="earlier value"):
            gradient(f)
    else:
        gradient(f)
