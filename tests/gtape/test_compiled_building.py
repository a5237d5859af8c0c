"""The work of compiling a function: what tracing and building do once for each kind of op, not once for each op."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.engine.rules import RuleStep
from gtape.tapes import inner_loops, table, tracing
from tests.bits import bits

Function = Callable[[tf.Tensor], Any]
NUMBER, VECTOR = 0.3, [0.3, -0.7, 1.1]


def _chain(length: int) -> Function:
    """The gradient of a chain with selections, an op without a function of Python floats, and repeated operands."""

    def f(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for k in range(length):
                y = tf.maximum(tf.nn.elu(y), x) - 0.25 * tf.abs(y) * (1.0 + k)
                y = tf.nn.softsign(y * y) + tf.minimum(y, 0.5) + tf.nn.relu(y)
        return tape.gradient(y, x)

    return f


def _counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, work: Callable[[], Any]) -> int:
    """The number of calls of a function during some work."""
    calls = 0
    function = getattr(owner, name)

    def counted(*args: Any, **words: Any) -> Any:
        nonlocal calls
        calls += 1
        return function(*args, **words)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, counted)
        work()
    return calls


def _compiled(f: Function, start: Any) -> Callable[[], Any]:
    def call() -> Any:
        made = tf.function(f, jit_compile=True)
        made(tf.constant(start, tf.float64))
        assert made.summary().startswith("compiled"), made.summary()

    return call


@pytest.mark.parametrize("start", [NUMBER, VECTOR])
@pytest.mark.parametrize("length", [1, 2, 30])
def test_gradients_through_many_selections_have_the_bits_of_eager_ones(start: Any, length: int, back_end: str) -> None:
    f = _chain(length)
    compiled = tf.function(f, jit_compile=True)
    for x in (start, np.multiply(start, -2.0), np.multiply(start, 0.5)):
        x = tf.constant(x, tf.float64)
        assert bits(compiled(x)) == bits(f(x))


@pytest.mark.parametrize("start", [NUMBER, VECTOR])
def test_a_gradient_through_selections_runs_each_rule_once(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = [
        _counted(monkeypatch, RuleStep, RuleStep.cotangents.__name__, _compiled(_chain(n), start)) for n in (5, 50)
    ]
    assert few == many


@pytest.mark.parametrize("start", [NUMBER, VECTOR])
def test_tracing_looks_for_the_kernel_of_an_op_once(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = [
        _counted(monkeypatch, tracing, tracing.kernel_of.__name__, _compiled(_chain(n), start)) for n in (5, 50)
    ]
    assert few == many


@pytest.mark.skipif(inner_loops.machine() is None, reason="needs llvmlite")
@pytest.mark.parametrize("start", [NUMBER, VECTOR])
def test_the_table_looks_for_the_loop_of_an_op_once(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def irregular(length: int) -> Function:
        def f(x: tf.Tensor) -> Any:
            draw = random.Random(7)
            values = [x, tf.sin(x), tf.cos(x)]
            for _ in range(length):
                a, b = draw.choices(values[-20:], k=2)
                values.append(draw.choice([lambda a, _: tf.sin(a), lambda a, b: a + b, lambda a, b: a * b])(a, b))
            return tf.add_n(values[-20:])

        return f

    counts = [_counted(monkeypatch, table, table.ufunc_of.__name__, _compiled(irregular(n), start)) for n in (200, 400)]
    assert counts[0] == counts[1]


def test_a_root_at_0_beside_selections_has_the_gradient_of_the_eager_call(back_end: str) -> None:
    def f(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.maximum(tf.sqrt(0.0 * x), 0.5)  # swept last
            y = y + tf.maximum(tf.sqrt(x), 0.1)
        return tape.gradient(y, x)

    compiled = tf.function(f, jit_compile=True)
    for value in (0.7, 0.6, 0.9):
        assert bits(compiled(tf.constant(value, tf.float64))) == bits(f(tf.constant(value, tf.float64)))
    assert compiled.summary().startswith("compiled"), compiled.summary()
