"""Faults that could hide: from a fixed direction, behind large numbers, in later rows, in decisions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.engine.worlds import NUMPY
from gtape.symbolic.balls import precision
from gtape.symbolic.tracing import trace
from gtape.verify import check
from gtape.verify.oracles.certificates import directions_of
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.programs.mutants import planted, planted_kernel, scaled


def _far_left(xp: Any, value: Any, rule: Any, args: Any, argument: int) -> Any:
    """A rule that is wrong for arguments beneath -100 only."""
    v = value()
    return xp.where(xp.less(args[1], -100), v * 3 / 2, v)


def _nothing_far_left(xp: Any, value: Any, rule: Any, args: Any, argument: int) -> Any:
    v = value()
    return xp.where(xp.less(args[1], -100), 0 * v, v)


@pytest.mark.parametrize("fault", [_far_left, _nothing_far_left])
@pytest.mark.parametrize("tail", [-220.0, -650.0])
def test_a_fault_in_a_tail_shows_beside_ordinary_numbers(tail: float, fault: Any) -> None:
    x = np.array([tail, 0.3, 1.0])
    assert check(lambda x: tf.reduce_sum(tf.sigmoid(x)), x).ok
    with planted("sigmoid", 0, fault):
        together = check(lambda x: tf.reduce_sum(tf.sigmoid(x)), x)
        apart = check(lambda x, y: tf.sigmoid(x) + tf.reduce_sum(tf.sigmoid(y)), x[0], x[1:])
    assert together.verdict == apart.verdict == "rule"
    assert together.findings[0].op == apart.findings[0].op == "sigmoid"


def test_a_custom_gradient_of_0_in_a_tail_is_named_with_its_element() -> None:
    @tf.custom_gradient
    def cut(x: Any) -> Any:
        return tf.sigmoid(x), lambda g: g * tf.where(x < -100.0, tf.zeros_like(x), tf.sigmoid(x) * tf.sigmoid(-x))

    @tf.custom_gradient
    def lost(x: Any) -> Any:
        return tf.exp(x), lambda g: None

    found = check(cut, np.array([0.3, -220.0, 1.0])).findings
    assert [(f.verdict, f.op, f.element, f.got) for f in found] == [("rule", "cut", (0, (1,)), 0.0)]
    assert not check(lambda x, y: tf.sigmoid(x) + lost(y), 0.3, -220.0).ok


def test_a_fault_shows_beside_a_derivative_that_is_exactly_0() -> None:
    # The enclosures of the derivative by x hold 0, and their midpoints are noise far below all other numbers.
    def f(x: Any, y: Any) -> Any:
        return tf.nn.softmax(x) - 3.0 * y

    x, y = np.array([0.3, 1.7, -0.4], np.float32), np.float32(0.6)
    assert check(f, x, y).ok
    with planted("subtract", 1, scaled(1 + 1e-6)):
        report = check(f, x, y)
    assert report.verdict == "rule"
    assert report.findings[0].op == "subtract"


def _still_near_0(xp: Any, value: Any, rule: Any, args: Any, argument: int) -> Any:
    """A rule that is right, and a constant for its own derivative for arguments between -2 and 2."""
    v = value()
    return v if xp is NUMPY else xp.where(xp.less(xp.abs(args[1]), 2), xp.stop_gradient(v), v)


@pytest.mark.parametrize("tail", [-300.0, -740.0])
def test_a_fault_of_second_order_shows_beside_a_tail(tail: float) -> None:
    x = tf.Variable(np.array([tail, 0.3, 1.0]))

    def curvatures() -> Any:
        with tf.GradientTape(verify=True) as outer:
            with tf.GradientTape() as inner:
                y = tf.sigmoid(x)
            slope = inner.gradient(y, x)
        return outer.gradient(slope, x)

    curvatures()
    with planted("sigmoid", 0, _still_near_0), pytest.raises(tf.VerificationError) as raised:
        curvatures()
    assert raised.value.report.findings[0].op == "sigmoid"


def test_directions_follow_the_program() -> None:
    found = set()
    for x in ([1.0, 2.0, 3.0], [1.0, 2.0, 3.5], [2.0, 1.0, 3.0]):
        program = trace(lambda x: tf.reduce_sum(x * x), tf.constant(x, tf.float64))
        with precision(200):
            oracle = Oracle(program, [np.ones(())])
            (leaf,) = program.sources[0]
            found.add(tuple(map(str, directions_of(program.nodes[leaf], oracle.rng))))
    assert len(found) == 3


def test_no_gradient_is_orthogonal_to_the_directions_of_its_program() -> None:
    rng = np.random.default_rng(3)
    with planted("multiply", 0, scaled(1.5)):
        for _ in range(20):
            x, c = rng.integers(-5, 6, 3).astype(float), rng.integers(1, 9, 3).astype(float)
            assert not check(lambda x, c=c: tf.reduce_sum(x * c), x).ok


def _second_row_only(xp: Any, value: Any, rule: Any, args: Any, argument: int) -> Any:
    """A kernel of a rule that is wrong where the second cotangent is not 0."""
    v = value()
    return v * np.array([1.0, 1.0 + 1e-9, 1.0]) if isinstance(v, np.ndarray) and v.shape == (3,) else v


def test_a_fault_shows_that_the_first_row_does_not_reach() -> None:
    def f(x: Any) -> Any:
        return tf.exp(x) * x

    x = np.array([0.3, 0.7, -1.2])
    assert check(f, x, order=2).ok
    with planted("exp", 0, _second_row_only, worlds="floats"):
        assert not check(f, x, order=2).ok


@pytest.mark.parametrize(
    ("name", "wrong", "f"),
    [
        ("floor", np.rint, lambda x: x * tf.floor(x)),
        ("ceil", np.floor, lambda x: x * tf.math.ceil(x)),
        ("rint", np.floor, lambda x: x * tf.math.rint(x)),
        (
            "cast",
            lambda x, dtype: np.rint(x).astype(dtype),
            lambda x: x * tf.cast(tf.cast(x, tf.int32), tf.float64),
        ),
    ],
)
def test_a_wrong_step_is_decided_at_its_recorded_inputs(name: str, wrong: Any, f: Any) -> None:
    x = np.array([0.9, 2.25, 4.86])
    assert check(f, x).ok
    with planted_kernel(name, wrong):
        report = check(f, x)
    assert report.verdict == "rule"
    assert report.findings[0].op == name


@tf.custom_gradient
def _half_too_steep(x: Any) -> Any:
    return tf.identity(x), lambda g: 1.5 * g


@tf.custom_gradient
def _without_its_cotangent(x: Any) -> Any:
    return tf.reduce_sum(x) * tf.ones_like(x), lambda g: tf.cast(tf.size(x), x.dtype) * tf.ones_like(x)


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("wrong", [_half_too_steep, _without_its_cotangent])
def test_a_fault_in_a_block_that_is_recomputed_several_times_is_named(wrong: Any, times: int) -> None:
    w = tf.Variable([[0.3, 0.4], [0.5, 0.6]])
    block = tf.recompute_grad(lambda z: tf.tanh(wrong(tf.matmul(z, w))))
    with tf.GradientTape(verify=True) as tape:
        y = tf.constant([[1.0, 2.0], [0.5, -1.0]])
        for _ in range(times):
            y = block(y)
        loss = tf.reduce_sum(y**2)
    with pytest.raises(tf.VerificationError) as caught:
        tape.gradient(loss, w)
    assert {f.op for f in caught.value.report.findings if not f.ok} == {wrong.__name__}
