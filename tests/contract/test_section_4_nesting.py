"""Nesting, lifetimes and threads (section 4 of the contract); what is kept in memory is in test_memory.py."""

from __future__ import annotations

import contextlib
import gc
import math
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
    "add": lambda x: x + x,
    "divide by a number": lambda x: x / 2.0,
    "minimum": lambda x: tf.minimum(x, 1.5),
    "clip": lambda x: tf.clip_by_value(x, 0.0, 1.5),
    "identity": tf.identity,
    "cast": lambda x: tf.cast(x, tf.float64),
    "matmul by a constant": lambda x: tf.matmul(x[None], tf.ones([2, 2])),
    "where": lambda x: tf.where(x > 1.5, x, 2.0 * x),
    "reduce_max": tf.reduce_max,
    "reduce_min": tf.reduce_min,
    "sort": tf.sort,
    "top_k": lambda x: tf.math.top_k(x, 1)[0],
    "pad": lambda x: tf.pad(x, [[1, 1]]),
    "tile": lambda x: tf.tile(x, [2]),
    "repeat": lambda x: tf.repeat(x, 2),
    "stack": lambda x: tf.stack([x, x]),
    "unstack": lambda x: tf.unstack(x)[0],
    "split": lambda x: tf.split(x, 2)[0],
    "reverse": lambda x: tf.reverse(x, [0]),
    "roll": lambda x: tf.roll(x, 1, 0),
    "squeeze": lambda x: tf.squeeze(x[None]),
    "expand_dims": lambda x: tf.expand_dims(x, 0),
    "broadcast_to": lambda x: tf.broadcast_to(x, [3, 2]),
    "index": lambda x: x[0],
    "slice": lambda x: x[:1],
    "boolean_mask": lambda x: tf.boolean_mask(x, [True, False]),
    "scatter_nd": lambda x: tf.scatter_nd([[0], [2]], x, [3]),
    "tensor_scatter_nd_update": lambda x: tf.tensor_scatter_nd_update(x, [[0]], [1.0]),
    "add_n": lambda x: tf.add_n([x, x]),
    "floormod": lambda x: x % 2.0,
    "band_part": lambda x: tf.linalg.band_part(x[None] * tf.ones([2, 1]), 0, -1),
    "diag": tf.linalg.diag,
    "trace": lambda x: tf.linalg.trace(tf.linalg.diag(x)),
    "einsum of one": lambda x: tf.einsum("i->", x),
    "tensordot with a constant": lambda x: tf.tensordot(x, tf.ones([2]), 1),
    "bias_add": lambda x: tf.nn.bias_add(x[None], tf.ones([2])),
    "linspace": lambda x: tf.linspace(x[0], x[1], 3),
    "fill": lambda x: tf.fill([2], x[0]),
    "multiply_no_nan by a number": lambda x: tf.math.multiply_no_nan(x, 2.0),
    "divide_no_nan by a number": lambda x: tf.math.divide_no_nan(x, 2.0),
    "xlogy by a number": lambda x: tf.math.xlogy(x, 2.0),
    "xdivy by a number": lambda x: tf.math.xdivy(x, 2.0),
    "xlog1py by a number": lambda x: tf.math.xlog1py(x, 2.0),
    "stop_gradient of a factor": lambda x: tf.stop_gradient(x) * x,
    "grad_pass_through": tf.grad_pass_through(tf.round),
}
WITH_SECOND = {
    "square": tf.square,
    "x**1": lambda x: x**1,
    "abs": tf.abs,
    "relu": tf.nn.relu,
    "leaky_relu": tf.nn.leaky_relu,
    "relu6": tf.nn.relu6,
    "elu": tf.nn.elu,
    "selu": tf.nn.selu,
    "softplus": tf.nn.softplus,
    "squared_difference": lambda x: tf.math.squared_difference(x, 1.0),
    "cumprod": tf.math.cumprod,
    "prod": tf.reduce_prod,
    "norm": tf.norm,
    "norm of order 1": lambda x: tf.norm(x, ord=1),
    "variance": tf.math.reduce_variance,
    "l2_loss": tf.nn.l2_loss,
    "log_softmax": tf.nn.log_softmax,
    "matmul with itself": lambda x: tf.matmul(x[None], x[:, None]),
}


@pytest.mark.parametrize("name", WITH_SECOND)
def test_second_derivative_is_a_tensor_where_a_rule_reads_x(name: str) -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = WITH_SECOND[name](x)
        dy = inner.gradient(y, x)
    assert outer.gradient(dy, x).shape == (2,)


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


def test_reset_frees_what_was_recorded() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = tf.exp(x)
        z = y * y
        ref = weakref.ref(y)
        del y, z
        tape.reset()
        assert ref() is None


def test_a_chain_of_dead_results_dies_at_once() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape():
        y = x
        refs = []
        for _ in range(5):
            y = y * x
            refs.append(weakref.ref(y))
        del y
        assert [r() for r in refs] == [None] * 5


def test_tensors_variables_and_tapes_take_weak_references() -> None:
    x, v, tape = tf.constant(1.0), tf.Variable(1.0), tf.GradientTape()
    refs = [weakref.ref(x), weakref.ref(v), weakref.ref(tape)]
    del x, v, tape
    assert [r() for r in refs] == [None] * 3


def test_jacobian_of_a_gradient_is_symmetric() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = tf.reduce_prod(x) * tf.reduce_sum(x)
        dy = inner.gradient(y, x)
    h = outer.jacobian(dy, x).numpy()
    assert h.tolist() == h.T.tolist() == [[4.0, 6.0], [6.0, 2.0]]


def test_gradient_with_the_outer_tape_paused_is_a_constant_to_it() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = x**3
        with outer.stop_recording():
            dy = inner.gradient(y, x)
        z = dy * x
    assert outer.gradient(z, x).numpy() == 27.0


# ---------------------------------------------------------------- tapes one after the other


def test_a_tape_that_watches_another_tape_s_result_leaves_that_tape_usable() -> None:
    x = tf.constant(2.0)
    with tf.GradientTape() as first:
        first.watch(x)
        y = x * x
        z = tf.exp(y)
    with tf.GradientTape() as second:
        second.watch(y)
        w = y * y
    assert second.gradient(w, y).numpy() == 8.0
    assert first.gradient(z, x).numpy() == pytest.approx(4.0 * math.exp(4.0), rel=1e-6)


def test_an_accumulator_on_a_tape_s_result_leaves_that_tape_usable() -> None:
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        z = y * y
    with tf.autodiff.ForwardAccumulator(y, tf.constant(1.0)) as acc:
        w = y * y
    assert acc.jvp(w).numpy() == 8.0
    assert tape.gradient(z, x).numpy() == 32.0


@pytest.mark.parametrize("persistent", [False, True])
def test_a_watched_result_of_another_tape_is_a_source_and_no_path(persistent: bool) -> None:
    v = tf.Variable(3.0)
    with tf.GradientTape() as first:
        y = v * v
        with tf.GradientTape(persistent=persistent) as second:
            second.watch(y)
            z = y * v
    # What made y was before the second tape: only the last read of v counts for it.
    assert [g.numpy() for g in second.gradient(z, [y, v])] == [3.0, 9.0]
    assert first.gradient(z, v).numpy() == 27.0


def test_jacobians_stop_there_too() -> None:
    v = tf.Variable([3.0, 1.0])
    with tf.GradientTape() as first:
        y = v * v
        with tf.GradientTape() as second:
            second.watch(y)
            z = y * v
    assert second.jacobian(z, v).numpy().tolist() == [[9.0, 0.0], [0.0, 1.0]]
    assert first.gradient(z, v).numpy().tolist() == [27.0, 3.0]


def test_what_multiply_reads_stays_a_tensor_while_it_is_recorded(no_collector: None) -> None:
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        z = y * x
        died = weakref.ref(y)
        del y
        assert died() is not None
    tape.gradient(z, x)
    assert died() is None


def test_hundreds_of_tapes_may_be_nested() -> None:
    x = tf.constant(2.0)
    with contextlib.ExitStack() as stack:
        tapes = [stack.enter_context(tf.GradientTape(persistent=True)) for _ in range(400)]
        tapes[0].watch(x), tapes[-1].watch(x)
        y = x * x
    assert tapes[0].gradient(y, x).numpy() == tapes[-1].gradient(y, x).numpy() == 4.0
    assert tapes[1].gradient(y, x) is None


def test_tapes_that_begin_beside_each_other_again_know_each_other() -> None:
    x = tf.Variable(3.0)
    a, b, c = (tf.GradientTape(persistent=True) for _ in range(3))
    with a, b:
        y = x * x
    with c, a:
        z = y * x
    with b, c:
        w = z * x
    assert [t.gradient(z, x).numpy() for t in (a, c)] == [27.0, 9.0]
    assert [t.gradient(w, x).numpy() for t in (b, c)] == [27.0, 54.0]
