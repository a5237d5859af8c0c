"""Under the flag each tape is judged by what it recorded: the rest of the program is constant to it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import gtape as tf
from gtape.verify import check


@pytest.fixture(autouse=True)
def strictly_verified() -> Iterator[None]:
    with tf.verifying("strict"):
        yield


def x() -> Any:
    return tf.constant(3.0, tf.float64)


def test_what_an_outer_tape_recorded_before_is_constant_to_an_inner_one() -> None:
    s = x()
    with tf.GradientTape() as outer:
        outer.watch(s)
        before = 2.0 * s
        with tf.GradientTape() as inner:
            inner.watch(s)
            y = before * s
        slope = inner.gradient(y, s)
    assert float(slope) == 6.0
    assert float(outer.gradient(slope, s)) == 2.0


@pytest.mark.parametrize("derive", ["jacobian", "batch_jacobian"])
def test_jacobians_of_an_inner_tape_leave_out_what_only_the_outer_one_recorded(derive: str) -> None:
    s = tf.reshape(x(), [1, 1])
    with tf.GradientTape() as outer:
        outer.watch(s)
        before = 2.0 * s
        with tf.GradientTape() as inner:
            inner.watch(s)
            y = before * s
        made = getattr(inner, derive)(y, s)
    assert made.numpy().ravel().tolist() == [6.0]


def test_an_accumulator_leaves_out_what_was_recorded_before_it() -> None:
    s = x()
    with tf.GradientTape() as outer:
        outer.watch(s)
        before = 2.0 * s
        with tf.autodiff.ForwardAccumulator(s, 1.0) as acc:
            y = before * s
        assert float(acc.jvp(y)) == 6.0


def test_what_was_computed_while_a_tape_was_paused_is_constant_to_it() -> None:
    s = x()
    with tf.GradientTape() as outer:
        outer.watch(s)
        with tf.GradientTape() as inner:
            inner.watch(s)
            y = s * s
            with inner.stop_recording():
                z = 3.0 * s
            both = y + z
        assert float(inner.gradient(both, s)) == 6.0


def test_an_inner_gradient_through_what_the_outer_tape_missed_is_followed_by_its_own_ops() -> None:
    s = x()
    with tf.GradientTape() as outer:
        outer.watch(s)
        with tf.GradientTape() as inner:
            inner.watch(s)
            with outer.stop_recording():
                y = s * s
            z = y * s
        slope = inner.gradient(z, s)
    assert float(outer.gradient(slope, s)) == 12.0


@pytest.mark.parametrize("option", ["none", "zero"])
def test_a_source_that_only_another_tape_watches_is_unconnected(option: str) -> None:
    s, w = x(), tf.constant(2.0, tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(s)
        with tf.GradientTape() as inner:
            inner.watch(w)
            y = s * w
        of_s, of_w = inner.gradient(y, [s, w], unconnected_gradients=option)
    assert float(of_w) == 3.0 and (of_s is None if option == "none" else float(of_s) == 0.0)


def test_a_watched_result_of_another_tape_ends_the_path() -> None:
    s = x()
    with tf.GradientTape() as outer:
        outer.watch(s)
        y = s * s
        with tf.GradientTape() as inner:
            inner.watch(y)
            z = y * y
        of_s, of_y = inner.gradient(z, [s, y])
    assert of_s is None and float(of_y) == 18.0


def test_sources_may_be_asked_for_twice_at_both_orders() -> None:
    s = x()
    with tf.GradientTape() as outer:
        outer.watch(s)
        with tf.GradientTape() as inner:
            inner.watch(s)
            y = s * s * s
        first, second = inner.gradient(y, [s, s])
        weighted = first + 2.0 * second
    assert [float(g) for g in outer.gradient(weighted, [s, s])] == [54.0, 54.0]


def test_the_flag_changes_no_result_where_a_tape_begins_after_the_variable_was_read() -> None:
    v = tf.Variable(2.0, dtype=tf.float64)
    with tf.GradientTape() as early:
        y = v**3
    with tf.GradientTape() as late:
        slope = early.gradient(y, v)
    assert late.gradient(slope, v) is None


def test_what_is_recorded_for_the_check_alone_is_no_source() -> None:
    s = x()
    with tf.GradientTape() as tape:
        tape.watch(s)
        stopped = tf.stop_gradient(s)
        y = stopped * 2.0
    assert tape.gradient(y, stopped) is None


def test_what_was_recorded_for_the_check_alone_can_be_watched() -> None:
    s = x()
    with tf.GradientTape() as tape:
        tape.watch(s)
        stopped = tf.stop_gradient(s)
        tape.watch(stopped)
        y = stopped * s
    assert [float(g) for g in tape.gradient(y, [stopped, s])] == [3.0, 3.0]


_CONSTANTS = {
    "stop_gradient": tf.stop_gradient,
    "integers": lambda v: tf.cast(tf.cast(v, tf.int32), tf.float64),
    "part of several results": lambda v: tf.split(tf.stop_gradient(tf.stack([v, v])), 2)[0][0],
    "floor": tf.floor,
    "sign": tf.sign,
}


@pytest.mark.parametrize("inner_flag", [None, True, False])
@pytest.mark.parametrize("derive", ["gradient", "jacobian", "accumulator"])
@pytest.mark.parametrize("stop", _CONSTANTS.values(), ids=_CONSTANTS)
def test_a_constant_of_the_outer_tape_can_be_watched_by_an_inner_one(
    stop: Callable[[Any], Any], derive: str, inner_flag: bool | None
) -> None:
    def f(v: Any) -> Any:
        s = stop(v)
        if derive == "accumulator":
            with tf.autodiff.ForwardAccumulator(s, tf.ones_like(s)) as acc:
                y = s * s * s
            return acc.jvp(y) + v
        with tf.GradientTape(verify=inner_flag) as inner:
            inner.watch(s)
            y = s * s * s
        return getattr(inner, derive)(y, s) + v

    v = tf.constant(2.75, tf.float64)  # no jump of floor
    with tf.GradientTape() as outer:
        outer.watch(v)
        z = f(v)
    with tf.verifying(False), tf.GradientTape() as unchecked:
        unchecked.watch(v)
        same = f(v)
        assert float(same) == float(z)
    assert float(outer.gradient(z, v)) == float(unchecked.gradient(same, v)) == 1.0
    assert check(f, 2.75).verdict == "correct"


def test_what_an_inner_tape_watches_stays_a_constant_of_the_outer_one() -> None:
    v = x()
    with tf.GradientTape() as outer:
        outer.watch(v)
        s = tf.stop_gradient(v)
        with tf.GradientTape() as inner:
            inner.watch(s)
        y = tf.sin(s)
        z = 2.0 * y
    assert outer.gradient(z, y) is None


@pytest.mark.parametrize("inside", [False, True])
def test_a_derivative_that_a_tape_took_outside_of_its_block_is_constant_to_it(inside: bool) -> None:
    v = x()

    def twice() -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(v)
            y = tf.sin(v)
        slope = tape.gradient(y, v)
        return tape.gradient(slope, v)

    def jvp_of_a_jvp() -> Any:
        with tf.autodiff.ForwardAccumulator(v, tf.ones_like(v)) as acc:
            y = tf.sin(v)
            slope = acc.jvp(y)
        return acc.jvp(slope)

    for ask in (twice, jvp_of_a_jvp):
        with tf.GradientTape() if inside else contextlib.nullcontext():
            assert ask() is None


def test_a_gradient_through_ops_from_before_the_outer_tape_is_followed_by_its_own_ops() -> None:
    v, w = x(), tf.Variable(0.75, dtype=tf.float64)
    with tf.GradientTape() as inner:
        inner.watch(v)
        y = tf.exp(v)
    with tf.GradientTape() as outer:
        z = inner.gradient(y, v) * w
    assert float(outer.gradient(z, w)) == float(tf.exp(v))


def test_a_gradient_through_ops_that_the_outer_tape_missed_is_followed_by_its_own_ops() -> None:
    v, w = x(), tf.Variable(0.75, dtype=tf.float64)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            inner.watch(v)
            with outer.stop_recording():
                missed = tf.exp(v)
            y = tf.sin(v) * w + missed
        z = inner.gradient(y, v)
    assert float(outer.gradient(z, w)) == float(tf.cos(v))


def test_an_inner_gradient_by_what_only_it_followed_leaves_the_outer_one_its_own_ops() -> None:
    s, w = x(), tf.constant(2.0, tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(w)
        with tf.GradientTape() as inner:
            inner.watch(s)
            with outer.stop_recording():
                y = w * s * s
        slope = inner.gradient(y, s)
    assert float(slope) == 12.0
    assert outer.gradient(slope, w) is not None


@pytest.mark.parametrize(
    "around",
    [lambda s: 2.0 * s, lambda s: tf.stop_gradient(s), lambda s: tf.sin(s) * s],
    ids=["linear", "stopped", "product"],
)
def test_a_wrong_custom_gradient_is_found_beside_what_another_tape_recorded(around: Callable[[Any], Any]) -> None:
    @tf.custom_gradient
    def wrong(t: Any) -> Any:
        return t * t, lambda g: 3.0 * g * t

    s = x()
    with tf.GradientTape() as outer:
        outer.watch(s)
        before = around(s)
        with tf.GradientTape() as inner:
            inner.watch(s)
            y = before * wrong(s)
        with pytest.raises(tf.VerificationError, match="wrong"):
            inner.gradient(y, s)


@pytest.mark.parametrize("verify", [False, True])
def test_a_gradient_that_is_a_constant_stays_one_under_a_check(verify: bool) -> None:
    v, w = tf.Variable(3.0, dtype=tf.float64), tf.constant(2.0, tf.float64)
    with tf.GradientTape(persistent=True, verify=verify) as tape:
        constant, varying = tape.gradient(v * 2.0, v), tape.gradient(v * v, v)
        y, z = constant * w, varying * w
    assert tape.gradient(y, constant) is None
    assert tape.gradient(y, v) is None
    assert float(tape.gradient(z, varying)) == 2.0
    assert float(tape.gradient(z, v)) == 4.0


def test_an_outer_tape_knows_what_two_tapes_shared_that_ended_since() -> None:
    """The residual of a wave equation: the loss lies outside of both tapes that differentiate by the place."""
    w = tf.Variable([[0.5, -0.3], [0.2, 0.8]], dtype=tf.float64)

    def residual() -> Any:
        place, time = tf.constant([[0.3], [0.7]], tf.float64), tf.constant([[0.2], [0.9]], tf.float64)
        with tf.GradientTape(persistent=True) as second:
            second.watch([place, time])
            with tf.GradientTape(persistent=True) as first:
                first.watch([place, time])
                u = tf.reduce_sum(tf.tanh(tf.concat([place, time], 1) @ w), 1)
            by_place, by_time = first.gradient(u, [place, time])
        return second.gradient(by_time, time) - second.gradient(by_place, place)

    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(residual()))
    assert tape.gradient(loss, w).shape == (2, 2)
