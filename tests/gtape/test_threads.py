"""Threads that share tensors, variables or a tape: none sees what another records, and no number is lost."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gtape as tf

# Switched between threads, a tape may find that a result outlived it, and then searches all objects of the process.
pytestmark = pytest.mark.usefixtures("few_to_collect")


@pytest.fixture
def switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(n: int, work: Callable[[], None]) -> None:
    """Run it in several threads at once, and raise the first thing that any raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as e:
            raised.append(e)

    threads = [threading.Thread(target=run) for _ in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if raised:
        raise raised[0]


def test_threads_that_got_a_copy_of_the_context_run_kernels_at_once() -> None:
    # asyncio.to_thread and web servers copy the caller's context, where an op has run already
    a = tf.constant(np.random.default_rng(0).normal(size=(200, 200)))
    right = (a @ a).numpy()

    async def main() -> list[Any]:
        return await asyncio.gather(*[asyncio.to_thread(lambda: [a @ a for _ in range(20)][-1]) for _ in range(4)])

    assert all((product.numpy() == right).all() for product in asyncio.run(main()))


def test_a_tape_that_is_open_follows_its_context_into_other_threads() -> None:
    a = tf.constant(np.random.default_rng(0).normal(size=(100, 100)))

    def work() -> Any:
        with tf.GradientTape() as own:
            y = tf.reduce_sum(tf.sin(a @ a) / 2.0)
        return y, own

    async def main() -> list[Any]:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(a)
            made = await asyncio.gather(*[asyncio.to_thread(work) for _ in range(4)])
            total = tf.add_n([y for y, _ in made])
        return [tape.gradient(total, a), *[tape.gradient(y, a) for y, _ in made]]

    total, *parts = asyncio.run(main())
    for part in parts:
        np.testing.assert_allclose(4 * part.numpy(), total.numpy(), rtol=1e-13)


def test_functions_of_custom_gradients_see_the_context_of_the_caller() -> None:
    name = contextvars.ContextVar("name", default="nobody")
    seen = []

    @tf.custom_gradient
    def same(x: Any) -> Any:
        def back(g: Any) -> Any:
            seen.append(name.get())
            name.set("the function")
            return g * tf.sqrt(tf.constant(-1.0)) * 0.0 + g  # quiet all the same

        return tf.identity(x), back

    x = tf.Variable([1.0, 2.0])
    for how in ("gradient", "jacobian"):
        token = name.set("the caller")
        with tf.GradientTape(persistent=True) as tape:
            y = same(x)
        getattr(tape, how)(y, x)
        assert name.get() == "the function"
        name.reset(token)
    assert seen[0] == "the caller"


@pytest.mark.usefixtures("switching_often")
def test_a_variable_that_tapes_of_several_threads_read_keeps_all_its_uses() -> None:
    v = tf.Variable(np.ones(3))

    def work() -> None:
        for _ in range(300):
            with tf.GradientTape() as tape:
                y = tf.reduce_sum(v * v)
            assert tape.gradient(y, v).numpy().tolist() == [2.0, 2.0, 2.0]

    in_threads(8, work)


@pytest.mark.usefixtures("switching_often")
def test_a_tensor_that_tapes_of_several_threads_watch_keeps_all_its_uses() -> None:
    x = tf.constant(np.ones(3))

    def work() -> None:
        for _ in range(300):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(x * x)
            assert tape.gradient(y, x).numpy().tolist() == [2.0, 2.0, 2.0]

    in_threads(8, work)


@pytest.mark.usefixtures("switching_often")
def test_gradients_of_one_persistent_tape_may_be_asked_for_by_several_threads() -> None:
    x = tf.Variable(np.ones(3))
    with tf.GradientTape(persistent=True) as tape:
        z = y = x * 2.0
        for _ in range(50):
            y = tf.sin(y)
        y = tf.reduce_sum(y)
    right = [g.numpy().tolist() for g in tape.gradient(y, [z, x])]

    def work() -> None:
        for _ in range(50):
            assert [g.numpy().tolist() for g in tape.gradient(y, [z, x])] == right

    in_threads(4, work)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_the_end_of_a_copy_ends_neither_tape_nor_accumulator(copied: Callable[[Any], Any]) -> None:
    x = tf.Variable(3.0)
    with (
        tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as accumulator,
        tf.GradientTape(persistent=True) as tape,
    ):
        y = x * x
    for one in (tape, accumulator):
        other = copied(one)
        del other
    assert float(tape.gradient(y, x)) == float(accumulator.jvp(y)) == 6.0


def test_a_tape_is_not_pickled_and_says_what_to_do() -> None:
    with pytest.raises(TypeError, match="take the gradient first"):
        pickle.dumps(tf.GradientTape())
    with pytest.raises(TypeError, match="take the products first"):
        pickle.dumps(tf.autodiff.ForwardAccumulator(tf.constant(1.0), tf.constant(1.0)))
