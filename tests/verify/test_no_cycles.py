"""Checks leave nothing for the garbage collector: what a check makes is freed when the check ends."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from campaigns import LARGE

import gtape as tf
from gtape.errors import VerificationError
from gtape.verify import check, exact, judge

pytestmark = pytest.mark.usefixtures("few_to_collect")

MATRIX = np.array([[2.0, 1.0, 0.3], [1.0, 3.0, 0.2], [0.3, 0.2, 5.0]])


@tf.custom_gradient
def _wrong(x: tf.Tensor) -> tuple[tf.Tensor, Callable[..., tf.Tensor]]:
    return tf.sin(x), lambda g: g * 4.0


def _flag() -> None:
    x = tf.Variable([1.5, 2.0])
    with tf.GradientTape(verify=True) as tape:
        y = tf.reduce_sum(tf.nn.softmax(tf.sin(x) * x))
    tape.gradient(y, x)


def _nested() -> None:
    x = tf.Variable(1.5)
    with tf.GradientTape(verify=True) as outer:
        with tf.GradientTape(verify=True) as inner:
            y = tf.sin(x) * x
        g = inner.gradient(y, x)
    outer.gradient(g, x)


def _jacobian() -> None:
    x = tf.Variable([1.5, 2.0])
    with tf.GradientTape(verify=True) as tape:
        y = tf.sin(x) * x
    tape.jacobian(y, x)


def _batch_jacobian() -> None:
    x = tf.Variable([[1.5, 2.0]])
    with tf.GradientTape(verify=True) as tape:
        y = tf.sin(x) * x
    tape.batch_jacobian(y, x)


def _forward() -> None:
    x = tf.constant(1.5)
    with tf.verifying():
        with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as acc:
            y = tf.sin(x) * x
        acc.jvp(y)


def _raised() -> None:
    x = tf.Variable(1.5)
    with tf.GradientTape(verify=True) as tape:
        y = _wrong(x)
    with contextlib.suppress(VerificationError):
        tape.gradient(y, x)
        pytest.fail("a wrong gradient passed")


KINDS: dict[str, Callable[[], object]] = {
    "flag": _flag,
    "nested": _nested,
    "jacobian": _jacobian,
    "batch_jacobian": _batch_jacobian,
    "forward": _forward,
    "raised": _raised,
    "check": lambda: check(lambda x: tf.tanh(x) * x, 2.0),
    "check at order 2": lambda: check(lambda x: tf.tanh(x) * x, 2.0, order=2),
    "check of a factorisation": lambda: check(tf.linalg.cholesky, MATRIX),
    "judge": lambda: judge(tf.tanh, 2.0, 0.0706508248531644),
    "judge, wrong": lambda: judge(tf.tanh, 2.0, 0.3),
    "exact": lambda: exact(tf.tanh, 2.0),
}


@contextlib.contextmanager
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_hundred_checks_leave_nothing_for_the_collector(kind: str) -> None:
    run = KINDS[kind]
    run()  # what is made once and kept
    run()
    with _no_collector():
        for _ in range(100):
            run()
        assert gc.collect() == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["flag", "nested", "raised", "check", "exact"] if LARGE else ["nested", "check"])
def test_memory_stays_flat_over_many_checks(kind: str) -> None:
    run, times = KINDS[kind], 1000 if LARGE else 200
    for _ in range(20):  # what is made once and kept: modules, and functions for layouts that come again
        run()
    with _no_collector():
        for _ in range(500):  # the interpreter specialises code that runs rarely after hundreds of runs, too
            run()
        # Also empties CPython's lists of free tuples, which fill up to a limit, as NumPy's lists of small buffers do.
        assert gc.collect() == 0
        before = sys.getallocatedblocks()
        for _ in range(times):
            run()
        assert gc.collect() == 0
        assert sys.getallocatedblocks() - before < times // 2
