"""Long arrays are compared in wider floats first, which decides for right numbers and finds each wrong one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.symbolic.balls import precision
from gtape.symbolic.wide_floats import wide_floats
from gtape.verify import check
from gtape.verify.bounds import local_in_floats
from gtape.verify.bounds.local import Floats, Local
from gtape.verify.judging.recording import Recording
from gtape.verify.oracles.backward import gradient
from gtape.verify.programs.mutants import planted, scaled

N = 3000
DTYPES = [np.float32, np.float64]
# Op -> a function of two arrays, the name of the op that is meant, and an argument whose rule is meant.
OPS: dict[str, tuple[Any, str, int]] = {
    "exp": (lambda x, y: tf.exp(x), "exp", 0),
    "tanh": (lambda x, y: tf.tanh(x), "tanh", 0),
    "sin": (lambda x, y: tf.sin(3 * x), "sin", 0),
    "log": (lambda x, y: tf.math.log(x * x + 2), "log", 0),
    "divide": (lambda x, y: x / (y * y + 1), "divide", 1),
    "multiply": (lambda x, y: x * y, "multiply", 1),
    "sigmoid": (lambda x, y: tf.sigmoid(x - y), "sigmoid", 0),
    "relu": (lambda x, y: tf.nn.relu(x), "relu", 0),
    "sqrt": (lambda x, y: tf.sqrt(x * x + 1), "sqrt", 0),
    "a row": (lambda x, y: tf.exp(tf.reshape(x, (-1, 10)) * y[:10]), "multiply", 1),
    "transpose": (lambda x, y: tf.transpose(tf.reshape(x, (-1, 10))) * 1.5, "transpose", 0),
    "gather": (lambda x, y: tf.gather(x, np.arange(N)[::-1].copy()), "gather_rows", 0),
}
MOVING = {"transpose", "gather_rows"}
SUMS = {
    "reduce_sum": (lambda x, y: tf.reduce_sum(tf.reshape(x, (-1, 10)), axis=1), "sum", 0),
    "matmul": (lambda x, y: tf.matmul(tf.reshape(x, (-1, 10)), tf.reshape(y[:100], (10, 10))), "matmul", 1),
}


def recorded(f: Any, dtype: Any) -> tuple[Local, Floats]:
    """The local check of a program, and its sweep in floats."""
    rng = np.random.default_rng(11)
    recording = Recording(
        lambda x, y: tf.reduce_sum(tf.square(f(x, y))), tuple(rng.normal(size=N).astype(dtype) for _ in range(2)), 1
    )
    program = recording.program()
    local = Local(program, {})
    sweep = Floats(program, local.arrays)
    gradient(program, [np.ones((), dtype)], sweep)
    return local, sweep


def task_of(f: Any, name: str, dtype: Any) -> tuple[Local, Any]:
    """The first op of this name, with its rule's results."""
    local, sweep = recorded(f, dtype)
    node = next(n for n in local.program.nodes if n.kind == "op" and n.name == name)
    return local, local.alone(node, [sweep])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPS)
def test_right_ops_are_decided(name: str, dtype: Any) -> None:
    f, op, _ = OPS[name]
    local, task = task_of(f, op, dtype)
    assert task.sweeps
    with precision(200):
        assert local.clearly_inside(task) is (op in MOVING or wide_floats(np.dtype(dtype)) is not None)


@pytest.mark.parametrize("name", SUMS)
def test_sums_are_decided_in_float32(name: str) -> None:
    f, op, _ = SUMS[name]
    for dtype in DTYPES:
        local, task = task_of(f, op, dtype)
        with precision(200):
            assert local.clearly_inside(task) is (dtype is np.float32)


def with_one_wrong(v: Any, bound: Any) -> Any:
    """The array with its largest number moved by twice its bound, or by one unit if its bound is 0."""
    at = np.argmax(np.abs(v))
    off = np.array(v)
    moved = off.flat[at] + 2 * np.broadcast_to(bound, v.shape).flat[at]
    off.flat[at] = np.nextafter(moved, np.inf, dtype=v.dtype)
    return off


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", {**OPS, **SUMS})
def test_one_wrong_number_is_left_to_enclosures(name: str, dtype: Any) -> None:
    f, op, argument = {**OPS, **SUMS}[name]
    local, task = task_of(f, op, dtype)
    parts, results = task.sweeps[0]
    k = task.node.active.index(argument)
    with precision(200):
        right = results[k]
        results[k] = with_one_wrong(right, local.allowed_by_rule(task, parts)(k))
        assert not local.clearly_inside(task)
        results[k] = right
        task.output = with_one_wrong(task.output, task.own_error())
        assert not local.clearly_inside(task)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", {**OPS, **SUMS})
def test_a_wrong_rule_of_long_arrays_is_found(name: str, dtype: Any) -> None:
    f, op, argument = {**OPS, **SUMS}[name]
    rng = np.random.default_rng(11)
    xs = [rng.normal(size=N).astype(dtype) for _ in range(2)]

    def whole(x: Any, y: Any) -> Any:
        return tf.reduce_sum(tf.square(f(x, y)))

    assert check(whole, *xs).ok
    for worlds in ("all", "floats"):
        with planted(op, argument, scaled(1 + 1e-3), worlds=worlds):
            found = [v for v in check(whole, *xs).findings if not v.ok]
        assert ("rule", op) in {(v.verdict, v.op) for v in found}


@pytest.mark.parametrize("terms", [10, 2**20])
def test_sums_of_many_terms_leave_a_part_of_the_bound_for_float64(terms: int) -> None:
    one, bound = np.ones(1), np.full(1, 1e-6)
    lost = terms * 2.0**-29 * bound  # what a sum of so many terms may lose in float64
    assert local_in_floats._within(terms, one, one + (1 - 2.0**-7) * bound, bound)
    assert not local_in_floats._within(terms, one, one + bound - lost, bound)
