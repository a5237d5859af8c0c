"""Nesting, lifetimes and threads (section 4 of the contract); what is kept in memory is in test_memory.py."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import gtape as tf


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What dies in the test dies by its reference count."""
    gc.disable()
    yield
    gc.enable()


def test_inner_gradient_outside_the_outer_block_is_not_differentiable() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as outer, tf.GradientTape() as inner:
        y = x * x
    dy = inner.gradient(y, x)
    assert outer.gradient(dy, x) is None


def test_outer_tape_must_watch_the_source_itself() -> None:
    x = tf.constant(3.0)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = x * x
        dy = inner.gradient(y, x)
    assert outer.gradient(dy, x) is None


def test_order_5_by_nesting() -> None:
    x = tf.Variable(2.0)

    def derivative(order: int) -> Any:
        if order == 0:
            return x**5
        with tf.GradientTape() as tape:
            y = derivative(order - 1)
        return tape.gradient(y, x)

    assert [float(derivative(n)) for n in range(6)] == [32.0, 80.0, 160.0, 240.0, 240.0, 120.0]


def test_higher_order_by_one_persistent_tape() -> None:
    x = tf.Variable(2.0)
    with tf.GradientTape(persistent=True) as tape:
        y = x**4
        d1 = tape.gradient(y, x)
        d2 = tape.gradient(d1, x)
        d3 = tape.gradient(d2, x)
    assert [float(d) for d in (d1, d2, d3)] == [32.0, 48.0, 48.0]


WITHOUT_SECOND = {
    "linear": lambda x: 3.0 * x,
    "sum": tf.reduce_sum,
    "mean": tf.reduce_mean,
    "maximum": lambda x: tf.maximum(x, 0.5),
    "cumsum": tf.cumsum,
    "transpose": lambda x: tf.transpose(x[None]),
    "subtract": lambda x: 1.0 - x,
    "negative": lambda x: -x,
    "reshape": lambda x: tf.reshape(x, [2, 1]),
    "concat": lambda x: tf.concat([x, x], 0),
}


@pytest.mark.parametrize("name", WITHOUT_SECOND)
def test_second_derivative_is_none_where_the_first_does_not_depend_on_x(name: str) -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = WITHOUT_SECOND[name](x)
        dy = inner.gradient(y, x)
    assert dy is not None
    assert outer.gradient(dy, x) is None


def test_second_derivative_of_a_product_is_a_tensor() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = 2.0 * x * x
        dy = inner.gradient(y, x)
    assert outer.gradient(dy, x).numpy() == 4.0


def test_each_tape_sees_only_what_it_watches() -> None:
    x, y = tf.constant(2.0), tf.constant(5.0)
    with tf.GradientTape() as a, tf.GradientTape() as b:
        a.watch(x)
        b.watch(y)
        z = x * y
    assert [g if g is None else g.numpy() for g in a.gradient(z, [x, y])] == [5.0, None]
    assert [g if g is None else g.numpy() for g in b.gradient(z, [x, y])] == [None, 2.0]


def test_target_and_its_derivative_together() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = x * x * x
        dy = inner.gradient(y, x)
    assert outer.gradient([y, dy], x).numpy() == 27.0 + 18.0


def test_variables_are_watched_by_all_recording_tapes() -> None:
    v = tf.Variable(3.0)
    with tf.GradientTape() as a, tf.GradientTape() as b:
        y = v * v
    assert [w.ref() for w in a.watched_variables()] == [w.ref() for w in b.watched_variables()] == [v.ref()]
    assert a.gradient(y, v).numpy() == b.gradient(y, v).numpy() == 6.0


# ---------------------------------------------------------------- lifetimes


def test_unwatched_results_are_not_kept(no_collector: None) -> None:
    x = tf.constant([3.0])
    with tf.GradientTape():
        y = x * x
        died = weakref.ref(y)
        z = y * 2.0
        del y
        assert died() is None
    assert z is not None


def test_recorded_result_without_other_reference_is_dropped_at_once(no_collector: None) -> None:
    x = tf.Variable([3.0])
    with tf.GradientTape():
        y = x * x
        died = weakref.ref(y)
        del y
        assert died() is None


def test_ops_keep_no_more_than_their_rules_read(no_collector: None) -> None:
    x = tf.Variable([3.0])
    with tf.GradientTape():
        a = x * 2.0
        b = a + 1.0  # keeps nothing
        c = tf.exp(b)  # keeps its output
        d = b * b  # keeps its inputs
        of_a, of_b = weakref.ref(a), weakref.ref(b)
        del a, b
        assert of_a() is None
        assert of_b() is not None
        del d
        assert of_b() is None
    assert c is not None


@pytest.mark.parametrize("end", ["gradient", "reset", "del"])
def test_intermediates_die_when_the_recording_ends(end: str, no_collector: None) -> None:
    x = tf.Variable([3.0])
    tape = tf.GradientTape(persistent=end == "del")
    with tape:
        a = x * 2.0
        y = a * a
        alive = weakref.ref(a)
        del a
        if end == "reset":
            tape.reset()
    if end == "gradient":
        tape.gradient(y, x)
    if end == "del":
        assert alive() is not None
        del tape
    assert alive() is None
    assert y.numpy()[0] == 36.0


def test_unreferenced_tape_is_freed_after_the_block(no_collector: None) -> None:
    x = tf.Variable(3.0)
    tape = tf.GradientTape(persistent=True)
    with tape:
        y = x * x
    died = weakref.ref(tape)
    del tape
    assert died() is None
    assert y.numpy() == 9.0


# ---------------------------------------------------------------- threads


def test_work_in_another_thread_is_not_recorded() -> None:
    x, made = tf.Variable(3.0), []
    with tf.GradientTape() as tape:
        thread = threading.Thread(target=lambda: made.append(x * x))
        thread.start()
        thread.join()
    assert tape.gradient(made[0], x) is None


def test_gradient_may_be_called_from_another_thread() -> None:
    x, made = tf.Variable(3.0), []
    with tf.GradientTape() as tape:
        y = x * x
    thread = threading.Thread(target=lambda: made.append(tape.gradient(y, x)))
    thread.start()
    thread.join()
    assert made[0].numpy() == 6.0


def test_independent_tapes_in_threads_do_not_interfere() -> None:
    shared = tf.Variable(2.0)
    failures: list[Any] = []

    def work(k: float) -> None:
        x = tf.Variable(k)
        for _ in range(50):
            with tf.GradientTape() as tape:
                y = x * x * shared
                for _ in range(5):
                    y = y + x * shared
            g = [float(v) for v in tape.gradient(y, [x, shared])]
            if g != [4.0 * k + 10.0, k * k + 5.0 * k]:
                failures.append((k, g))

    threads = [threading.Thread(target=work, args=(float(k),)) for k in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []
