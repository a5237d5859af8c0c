"""An interrupt may come at any moment: no tape stays active, no lock held, and the next gradient is right.

The number of interrupts is small here; GTAPE_INTERRUPTS=2000 makes it that many.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape import backprop, flags, locks, record
from gtape.verify.collect import collecting

ROUNDS = int(os.environ.get("GTAPE_INTERRUPTS", "160"))
pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer that sends a signal")

X = np.array([0.5, 1.5, 2.5])

KEPT = tf.Variable(X)
with tf.GradientTape(persistent=True) as kept_tape:
    _half = tf.sin(KEPT)
    _y = tf.reduce_sum(_half * _half)


@pytest.fixture
def interrupts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let SIGALRM be a KeyboardInterrupt; what it does to finalizers, which Python only reports, is no failure."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    swallowed: list[str] = []

    def note(report: Any) -> None:
        if report.exc_type is not KeyboardInterrupt:
            swallowed.append(repr(report))

    monkeypatch.setattr(sys, "unraisablehook", note)
    before = signal.signal(signal.SIGALRM, interrupt)
    yield swallowed
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@tf.custom_gradient
def doubled(x: Any) -> Any:
    return 2.0 * x, lambda g: 2.0 * g


recomputed = tf.recompute_grad(lambda x: tf.sin(x) * x)
compiled = tf.function(lambda x: tf.gradients(tf.reduce_sum(x * x), x)[0])


def nested() -> None:
    x = tf.Variable(X)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = tf.reduce_sum(tf.sin(x) * x)
        g = inner.gradient(y, x)
        z = tf.reduce_sum(g * x)
    outer.gradient(z, x)


def jacobians() -> None:
    x = tf.Variable(X)
    with tf.GradientTape(persistent=True) as tape:
        y = tf.sin(x) * x
        with tape.stop_recording():
            tf.cos(x)
        tape.reset()
        y = tf.exp(x) * x
    tape.jacobian(y, x)
    tape.gradient(y, x)
    kept_tape.gradient(_y, [KEPT, _half])


def accumulators() -> None:
    x, t = tf.Variable(X), tf.constant([1.0, 0.0, 0.0], tf.float64)
    with tf.autodiff.ForwardAccumulator(x, t) as acc:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(doubled(tf.sin(x)))
        g = tape.gradient(y, x)
    acc.jvp(g)


def functions() -> None:
    x = tf.Variable(X)
    compiled(tf.constant(X))
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(recomputed(x) + doubled(x))
        with tf.init_scope():
            tf.Variable(tf.sin(x))
    tape.gradient(y, x)


def checks() -> None:
    x = tf.Variable(X)
    with collecting(), tf.GradientTape(verify=True) as tape:
        y = tf.reduce_sum(tf.sin(x) * doubled(x))
    tape.gradient(y, x)
    with tf.verifying(), tf.GradientTape() as tape:
        y = tf.reduce_sum(x * x)
    tape.gradient(y, x)


def generator() -> None:
    def steps() -> Iterator[Any]:
        with tf.GradientTape() as tape:
            yield tape
            yield tape

    made = steps()
    next(made)
    x = tf.Variable(X)
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(x * x)
    tape.gradient(y, x)
    if random.random() < 0.5:
        made.close()


WORK = [nested, jacobians, accumulators, functions, checks, generator]

def held_locks() -> list[Any]:
    """The locks that another thread cannot take."""
    busy: list[Any] = []

    def try_all() -> None:
        for lock in locks._all:
            if lock.take(0):
                lock.give_back()
            else:
                busy.append(lock)

    thread = threading.Thread(target=try_all)
    thread.start()
    thread.join()
    return busy


def trouble() -> list[str]:
    """What is left of an interrupted program."""
    found = []
    stack = record.peek()
    if stack is not None and (stack.sessions or stack.probe is not None):
        found.append(f"active: {stack.sessions} {stack.probe}")
    if held_locks() or backprop.keeping.locked():
        found.append("a lock is held")
    if flags._blocks:
        found.append("verifying() goes on")
    if tf.functions._graphs.get():
        found.append("a function's graph goes on")
    x = tf.Variable(X)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = tf.reduce_sum(tf.sin(x) * x)
        g = inner.gradient(y, x)
        z = tf.reduce_sum(g)
    if not np.allclose(outer.gradient(z, x), 2 * np.cos(X) - X * np.sin(X), rtol=1e-14):
        found.append("the next gradient is wrong")
    parts = kept_tape.gradient(_y, [KEPT, _half])
    if not np.allclose(parts[0], 2 * np.sin(X) * np.cos(X), rtol=1e-14) or not np.allclose(parts[1], 2 * np.sin(X)):
        found.append("the next gradient of a persistent tape is wrong")
    return found


def seconds_of(work: Callable[[], Any]) -> float:
    work()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("work", WORK)
def test_no_interrupt_leaves_a_tape_active_or_a_lock_held(work: Callable[[], Any]) -> None:
    usual, rng = seconds_of(work), random.Random(work.__name__)
    came = 0
    for _ in range(-(-ROUNDS // len(WORK))):
        try:
            signal.setitimer(signal.ITIMER_REAL, 1e-6 + rng.random() * usual)
            work()
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            came += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert trouble() == []
    assert came > 0
