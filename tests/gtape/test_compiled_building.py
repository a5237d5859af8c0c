"""The work of compiling a function: what tracing and building do once for each kind of op, not once for each op."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import gtape as tf
from gtape.tapes import inner_loops, table

Function = Callable[[tf.Tensor], Any]
NUMBER, VECTOR = 0.3, [0.3, -0.7, 1.1]


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
