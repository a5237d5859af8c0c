"""What the tape keeps alive, with the garbage collector off: dead work is freed by reference counts alone."""

from __future__ import annotations

import gc
import sys
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.declare.primitives import REGISTRY
from gtape.recording import record

pytestmark = pytest.mark.usefixtures("few_to_collect")

DTYPES = ["float32", "float64"]


@pytest.fixture(autouse=True, params=["usual", "careful"])
def no_collector(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every promise holds whether or not results outlived earlier tapes, which makes later ones track all they make."""
    gc.collect()
    gc.disable()
    record._care.sessions_left = 0 if request.param == "usual" else 10**9
    yield
    record._care.sessions_left = 0
    gc.enable()


def growth(step: Callable[[], None], n: int = 200) -> float:
    """Bytes that one more call of `step` adds for good; what the first calls add (caches) does not count."""
    tracemalloc.start()
    try:
        for _ in range(n):
            step()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(n):
            step()
        return (tracemalloc.get_traced_memory()[0] - before) / n
    finally:
        tracemalloc.stop()


def model(dtype: str) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    w = tf.Variable(rng.normal(size=(16, 16)).astype(dtype))
    b = tf.Variable(np.zeros(16, dtype))
    return w, b, tf.constant(rng.normal(size=(8, 16)).astype(dtype))


def loss_of(w: Any, b: Any, x: Any) -> Any:
    h = tf.tanh(tf.matmul(x, w) + b)
    return tf.reduce_mean(tf.square(h))


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_loop_whose_results_are_dead_keeps_nothing(dtype: str, persistent: bool) -> None:
    w, b, x = model(dtype)

    def step() -> None:
        with tf.GradientTape(persistent=persistent) as tape:
            loss = loss_of(w, b, x)
        tape.gradient(loss, [w, b])

    assert growth(step) < 1.0


def test_long_block_whose_results_are_dead_keeps_next_to_nothing() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:

        def step() -> None:
            tf.sin(x * x) + 1.0

        # The list of weak references is pruned now and then.
        assert growth(step, 4_000) < 10.0
        y = x * x
    assert tape.gradient(y, x) is not None


def test_loop_without_a_gradient_keeps_nothing() -> None:
    w, b, x = model("float32")

    def step() -> None:
        with tf.GradientTape():
            loss_of(w, b, x)

    assert growth(step) < 1.0


@tf.custom_gradient
def doubled(x: Any) -> Any:
    return x * 2.0, lambda g: g * 2.0


USES: dict[str, Callable[[Any], Any]] = {
    "custom_gradient": doubled,
    "recompute_grad": tf.recompute_grad(lambda x: tf.sin(x) * x),
    "stop_gradient": lambda x: tf.stop_gradient(x) * x,
    "grad_pass_through": tf.grad_pass_through(tf.floor),
    "several outputs": lambda x: tf.math.top_k(x, 2)[0],
    "where": lambda x: tf.where(x > 0.0, tf.math.log(x), x),
    "gather": lambda x: tf.gather(x, [0, 0]),
}


@pytest.mark.parametrize("name", USES)
def test_loop_over_functions_that_change_gradients_keeps_nothing(name: str) -> None:
    x = tf.Variable([0.5, 1.5, 2.5])

    def step() -> None:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                y = USES[name](x)
            g = tf.convert_to_tensor(inner.gradient(y, x))
            z = tf.reduce_sum(g * x)
        outer.gradient(z, x)

    assert growth(step, 100) < 1.0


def test_loop_of_forward_mode_keeps_nothing() -> None:
    # The variable lives on; it must not gather the tangents of each round.
    x, t = tf.Variable([0.5, 1.5, 2.5]), tf.constant([1.0, 0.0, 0.0])

    def step() -> None:
        with tf.autodiff.ForwardAccumulator(x, t) as acc:
            with tf.GradientTape() as tape:
                y = tf.reduce_sum(tf.sin(x) * doubled(x))
            g = tape.gradient(y, x)
        acc.jvp(g)

    assert growth(step, 100) < 1.0


def test_loop_of_jacobians_and_derivatives_inside_a_persistent_block_keeps_nothing() -> None:
    x = tf.Variable([0.5, 1.5, 2.5])

    def step() -> None:
        with tf.GradientTape(persistent=True) as tape:
            y = tf.sin(x) * x
            g = tape.gradient(y, x)
            tape.gradient(g, x)
        tape.jacobian(g, x)

    assert growth(step, 100) < 1.0


@pytest.mark.parametrize("target", ["the loss", "another tensor", "nothing"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_list_of_losses_keeps_numbers_and_no_graphs(dtype: str, target: str) -> None:
    w, b, x = model(dtype)
    losses = []

    def step() -> None:
        with tf.GradientTape() as tape:
            loss = loss_of(w, b, x)
            more = loss * 2.0
        if target != "nothing":
            tape.gradient(loss if target == "the loss" else more, [w, b])
        losses.append(loss)

    assert growth(step) < 300.0


@pytest.mark.parametrize("next_event", ["a tape begins", "a gradient is taken"])
def test_result_of_a_tape_without_a_gradient_is_a_number_when_tapes_are_used_again(next_event: str) -> None:
    x = tf.Variable(np.ones(8))
    other = tf.GradientTape()
    with other:
        z = x * x
    with tf.GradientTape() as tape:
        h = tf.exp(x)
        y = h * h
    alive = weakref.ref(h)
    del h, tape
    if next_event == "a tape begins":
        with tf.GradientTape():
            pass
    else:
        other.gradient(z, x)
    assert alive() is None
    assert y.shape == (8,)


def test_results_that_die_right_after_their_tape_let_later_tapes_record_at_full_speed() -> None:
    x = tf.Variable(np.ones(8))
    record._care.sessions_left = 0

    def loss() -> Any:
        with tf.GradientTape() as tape:
            y = x * x
        del tape  # before the result, as when a function returns it
        return y

    for _ in range(3):
        loss()
        assert not record._care.sessions_left
    kept = [loss() for _ in range(3)]
    assert record._care.sessions_left
    assert len(kept) == 3


def test_list_of_losses_of_a_persistent_tape_keeps_numbers() -> None:
    w, b, x = model("float32")
    losses = []

    def step() -> None:
        with tf.GradientTape(persistent=True) as tape:
            loss = loss_of(w, b, x)
        tape.gradient(loss, [w, b])
        losses.append(loss)
        del tape

    assert growth(step) < 300.0


def test_list_of_losses_of_nested_tapes_keeps_numbers() -> None:
    w, b, x = model("float64")
    losses = []

    def step() -> None:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                loss = loss_of(w, b, x)
            g = inner.gradient(loss, w)
            norm = tf.reduce_sum(g * g)
        outer.gradient(norm, [w, b])
        losses.append((loss, norm))

    assert growth(step) < 700.0


def test_intermediates_of_a_persistent_tape_die_with_it_while_its_result_lives() -> None:
    x = tf.Variable(np.ones(8))
    tape = tf.GradientTape(persistent=True)
    with tape:
        h = tf.exp(x)
        y = h * h
    alive = weakref.ref(h)
    del h
    tape.gradient(y, x)
    assert alive() is not None
    del tape
    assert alive() is None
    assert y.shape == (8,)


@pytest.mark.parametrize("end", ["reset", "gradient", "jacobian"])
def test_reset_and_used_up_tapes_free_what_they_held(end: str) -> None:
    x = tf.Variable(np.ones(8))
    tape = tf.GradientTape()
    with tape:
        h = tf.exp(x)
        y = h * h
        alive = weakref.ref(h)
        del h
        if end == "reset":
            tape.reset()
    if end != "reset":
        getattr(tape, end)(y, x)
    assert alive() is None
    assert y.shape == (8,)


def test_gradient_that_raises_frees_the_record_too() -> None:
    @tf.custom_gradient
    def broken(x: Any) -> Any:
        def grad(g: Any) -> Any:
            raise ZeroDivisionError

        return x * 1.0, grad

    x = tf.Variable(np.ones(8))
    tape = tf.GradientTape()
    with tape:
        h = tf.exp(x)
        y = broken(h) * h
        alive = weakref.ref(h)
        del h
    with pytest.raises(ZeroDivisionError):
        tape.gradient(y, x)
    assert alive() is None


def test_dead_primals_of_forward_mode_are_not_kept() -> None:
    x = tf.constant(np.ones(8))
    with tf.autodiff.ForwardAccumulator(x, tf.constant(np.ones(8))) as acc:
        y = x + 1.0
        alive = weakref.ref(x)
        del x
        assert alive() is None
    assert acc.jvp(y).numpy().tolist() == [1.0] * 8


@pytest.mark.parametrize("in_a_cycle", [False, True])
def test_tangents_end_with_their_accumulator_and_variables_do_not_gather_them(in_a_cycle: bool) -> None:
    v = tf.Variable(np.ones(1000))

    def step() -> None:
        with tf.autodiff.ForwardAccumulator(v, tf.constant(np.ones(1000))) as acc:
            y = v * v
        acc.jvp(y)
        if in_a_cycle:  # the collector clears weak references before anything can use them
            cycle: list[Any] = [acc]
            cycle.append(cycle)
            del acc, y, cycle
            gc.collect()

    assert growth(step, 10) < 1000


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_100_000_chained_ops_differentiate_and_are_freed_without_recursion(dtype: str, persistent: bool) -> None:
    x = tf.Variable(np.asarray(1.0, dtype))
    assert sys.getrecursionlimit() < 10_000
    before = sys.getallocatedblocks()
    with tf.GradientTape(persistent=persistent) as tape:
        y = x
        for _ in range(50_000):
            y = y * 1.0 + 1.0
    assert sys.getallocatedblocks() - before > 100_000
    assert tape.gradient(y, x).numpy() == 1.0
    del tape
    assert sys.getallocatedblocks() - before < 10_000  # first use of functions fills caches
    assert y.numpy() == 50_001.0


def test_long_chain_that_is_never_differentiated_is_freed_without_recursion() -> None:
    x = tf.Variable([1.0])
    with tf.GradientTape():
        y = x
        for _ in range(100_000):
            y = tf.sin(y)
    del y


def test_a_record_keeps_the_operands_that_its_rule_reads_alive() -> None:
    """As in TensorFlow, whose multiply keeps its inputs, of every dtype and shape."""
    for value in (np.float32(2.0), np.float64(2.0), np.full(3, 2.0)):
        x = tf.constant(value)
        with tf.GradientTape() as tape:
            tape.watch(x)
            a = tf.sin(x)
            y = a * a
            kept = weakref.ref(a)
            del a
            assert kept() is not None
        assert tape.gradient(y, x) is not None
        assert kept() is None


def peak_of(call: Callable[[], Any]) -> int:
    """The bytes that a call needs while it runs."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def test_slope_of_tanh_of_a_long_array_needs_no_long_temporary() -> None:
    x = np.linspace(-50.0, 50.0, 10**6, dtype=np.float32)
    x[:3] = np.nan, np.inf, -np.inf
    slope = REGISTRY["sech2"].kernel
    with np.errstate(all="ignore"):
        slope(x[:10])
        assert peak_of(lambda: slope(x)) < 1.5 * x.nbytes
        parts = [slope(part) for part in np.split(x, 1000)]
        assert slope(x).tobytes() == np.concatenate(parts).tobytes()


def test_cotangents_of_a_long_leaf_are_added_up_in_place() -> None:
    n = 10**5
    x, seed, *weights = [tf.constant(np.full(n, 1.0 + i)) for i in range(7)]
    with tf.GradientTape() as tape:
        tape.watch(x)
        h = x + 1.0
        y = h * x
        for w in weights:
            y = y + x * w
    by_x, by_h = tape.gradient(y, [x, h], output_gradients=seed)
    assert (by_x.numpy() == 2.0 * (2.0 + 1.0 + sum(range(3, 8)))).all()
    assert (by_h.numpy() == 2.0).all()
    assert (seed.numpy() == 2.0).all()
