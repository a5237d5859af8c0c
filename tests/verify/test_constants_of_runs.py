"""The records of a second run tell whether it has the constants of the recorded run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.recording.record import off
from gtape.verify import check
from gtape.verify.judging import moved
from gtape.verify.judging.again import Again
from gtape.verify.judging.constants import are_kept, constants
from gtape.verify.judging.recording import Recording

F = Callable[[Any], Any]
LONG = math.pi / 3
WEIGHTS = np.linspace(0.0, 1.0, 4) / 3
VARIABLE = tf.Variable(np.float64(LONG))
NUMBERS = itertools.count()


def integrated(x: Any) -> Any:
    h = 0.01
    for _ in range(3):
        k = tf.sin(x)
        x = x + h / 6 * (k + 2.0 * tf.sin(x + h / 2 * k))
    return x


@tf.custom_gradient
def tripled(x: Any) -> Any:
    return 3.0 * x, lambda g: 3.0 * g


KEPT: dict[str, F] = {
    "literals": integrated,
    "a number that two ops read": lambda x: (x * WEIGHTS[1]) + WEIGHTS[1],
    "an array": lambda x: tf.reduce_sum(x * WEIGHTS),
    "a variable": lambda x: x * VARIABLE * LONG,
    "a result that two ops read": lambda x: (lambda y: y * y + LONG * y)(tf.exp(x)),
    "a floating parameter": lambda x: tf.nn.leaky_relu(x, alpha=LONG / 8),
    "a stopped result": lambda x: x * tf.stop_gradient(tf.sin(x * LONG)),
}
CHANGED: dict[str, F] = {
    "a number": lambda x: x * (LONG + next(NUMBERS)),
    "an array": lambda x: tf.reduce_sum(x * (WEIGHTS + next(NUMBERS))),
    "another dtype": lambda x: x * tf.cast(np.asarray(LONG, (np.float64, np.float32)[next(NUMBERS) % 2]), tf.float64),
    "another op": lambda x: (tf.sin, tf.cos)[next(NUMBERS) % 2](x) * LONG,
    "another operand": lambda x: (lambda ys: ys[next(NUMBERS) % 2] * LONG)((tf.sin(x), tf.exp(tf.sin(x)))),
    "an argument in place of a constant": lambda x: tf.sin(x) * (x if next(NUMBERS) % 2 else LONG),
    "a floating parameter": lambda x: tf.nn.leaky_relu(x, alpha=LONG / (8 + next(NUMBERS))),
}
OTHERS: dict[str, F] = {
    "a custom gradient": lambda x: tripled(x) * LONG,
    "several outputs": lambda x: tf.add_n(tf.split(x * tf.constant([LONG, 1.0], tf.float64), 2)),
}


def two_runs(f: F) -> tuple[Any, Any]:
    """The program of a function, and a run at a moved point."""
    recording = Recording(f, (np.float64(-1.25),), 1)
    with off():
        ran = Again(recording).ran([np.asarray(-1.5)])
    assert ran is not None
    return recording.program(), ran


@pytest.mark.parametrize("name", KEPT)
def test_a_run_with_the_same_constants_needs_no_program(name: str) -> None:
    program, ran = two_runs(KEPT[name])
    assert are_kept(program, ran.inputs, ran.outputs)


@pytest.mark.parametrize("name", CHANGED)
def test_a_run_with_another_constant_or_op_is_not_the_same(name: str) -> None:
    program, ran = two_runs(CHANGED[name])
    assert not are_kept(program, ran.inputs, ran.outputs)


@pytest.mark.parametrize("name", OTHERS)
def test_an_op_that_needs_more_than_its_record_leaves_the_question_to_the_programs(name: str) -> None:
    program, ran = two_runs(OTHERS[name])
    assert not are_kept(program, ran.inputs, ran.outputs)


@pytest.mark.parametrize(("group", "name"), [(g, name) for g in ("KEPT", "CHANGED") for name in globals()[g]])
def test_records_and_programs_agree_about_constants(group: str, name: str) -> None:
    program, ran = two_runs(globals()[group][name])
    found = constants(program, ran.program())
    assert are_kept(program, ran.inputs, ran.outputs) == (found is not None and not found.changed)


def test_a_function_with_long_literals_is_compared_by_records_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("no program of the second run is needed")

    monkeypatch.setattr(moved, "constants", never)
    assert check(integrated, 0.5).verdict == "correct"


def test_a_run_that_changes_a_constant_is_not_repeated_for_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    points = []
    known = Again.ran

    def counted(self: Any, point: Any) -> Any:
        points.append([np.asarray(x).item() for x in point])
        return known(self, point)

    monkeypatch.setattr(Again, "ran", counted)
    hidden = [LONG]

    def f(x: Any) -> Any:
        hidden[0] = LONG + 0.125 * memoryview(np.atleast_1d(x._value)).tolist()[0]
        return x * hidden[0]

    assert not check(f, 0.5).ok
    assert points.count(points[0]) == 2  # a run and its repetition, which shows that the function is deterministic
