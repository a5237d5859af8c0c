"""Sweeps with the decisions of another point give the derivative there, and jets certify them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtape as tf
from gtape.symbolic import trace
from gtape.symbolic.balls import precision
from gtape.symbolic.program import Program
from gtape.verify import check, judge
from gtape.verify.oracles.oracle import Oracle, TooDeep

_RNG = np.random.default_rng(3)
X = _RNG.uniform(0.5, 1.5, 9)
W = _RNG.normal(size=(9, 9))


def _gradient(f: Callable[[Any], Any], x: Any, cotangent: Any = None) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x, output_gradients=cotangent)


def _energy(x: Any) -> Any:
    return tf.reduce_sum(tf.tanh(tf.linalg.matvec(tf.constant(W), x)) * x)


def _two_targets(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        targets = [tf.sin(x), tf.reduce_sum(x**3)]
    return tape.gradient(targets, x)


def _two_sources(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        z = tf.exp(x[:4])
        y = tf.reduce_sum(z * x[4:8]) * tf.reduce_sum(x * x)
    a, b = tape.gradient(y, [x, z])
    return tf.reduce_sum(a**2) * tf.reduce_sum(b**3)


def _descended(x: Any, steps: int) -> Any:
    """The loss after steps of gradient descent, whose size depends on the start."""
    size = tf.exp(-tf.reduce_sum(x))
    for _ in range(steps):
        x = x - size * _gradient(_energy, x)
    return _energy(x)


def _descended_in_parts(x: Any) -> Any:
    """The loss after two steps of gradient descent on parts that one op makes of the start."""
    parts = tf.split(x, 3)
    for _ in range(2):
        with tf.GradientTape() as tape:
            tape.watch(parts)
            loss = tf.reduce_sum(tf.sin(parts[0] * parts[1]) ** 2 * parts[2])
        parts = [p - 0.1 * g for p, g in zip(parts, tape.gradient(loss, parts), strict=True)]
    return tf.reduce_sum(tf.stack(parts) ** 2)


@tf.custom_gradient
def _cube(x: Any) -> Any:
    return x**3, lambda g: g * 3.0 * x * x


OF_GRADIENTS: dict[str, Callable[[Any], Any]] = {
    "a gradient": lambda x: _gradient(_energy, x),
    "the square of a gradient": lambda x: tf.reduce_sum(_gradient(_energy, x) ** 2),
    "a gradient and its point": lambda x: tf.reduce_sum(tf.sin(_gradient(_energy, x)) * x),
    "a gradient weighted with a function of its point": lambda x: _gradient(tf.tanh, x, tf.exp(x)),
    "the square of such a gradient": lambda x: tf.reduce_sum(_gradient(tf.tanh, x, tf.exp(x)) ** 2),
    "a gradient of a gradient": lambda x: _gradient(lambda z: tf.reduce_sum(_gradient(_energy, z) ** 2), x),
    "the square of a gradient of a gradient": lambda x: tf.reduce_sum(
        _gradient(lambda z: tf.reduce_sum(_gradient(_energy, z) ** 2), x) ** 2
    ),
    "a gradient of two targets": _two_targets,
    "gradients by two sources, one of them a function of the other": _two_sources,
    "a gradient through an op with several outputs": lambda x: _gradient(
        lambda z: tf.reduce_sum(tf.stack([v**2 for v in tf.split(z, 3)]) * tf.constant(W[:3, :3])), x
    ),
    "a gradient through a custom gradient": lambda x: tf.reduce_sum(_gradient(_cube, x) ** 2),
    "a gradient behind a selection": lambda x: tf.reduce_max(_gradient(_energy, x)) + tf.reduce_sum(tf.sort(x)[2:]),
    "two steps of gradient descent": lambda x: _descended(x, 2),
    "the square of a gradient after a step": lambda x: tf.reduce_sum(
        _gradient(_energy, x - 0.1 * _gradient(_energy, x)) ** 2
    ),
    "a gradient of two steps": lambda x: tf.reduce_sum(_gradient(lambda z: _descended(z, 2), x) ** 2),
    "two steps from several outputs of an op": _descended_in_parts,
    "no inner gradient": lambda x: _energy(x),
}


def _program(f: Callable[[Any], Any]) -> tuple[Program, list[Any]]:
    program = trace(f, X)
    return program, [np.random.default_rng(4).normal(size=program.nodes[i].shape) for i in program.outputs]


@pytest.mark.parametrize("name", OF_GRADIENTS)
def test_sweeps_give_the_derivative_of_jets(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, seeds = _program(OF_GRADIENTS[name])
    with precision(600):
        swept, one_by_one = Oracle(program, seeds), Oracle(program, seeds)
        swept.evaluate()
        (found,) = swept.by_sweeps() or (None,)
        one_by_one.evaluate()
        expected = [one_by_one.along(0, (i,)) for i in range(X.size)]
    assert found is not None
    assert np.all([a.overlaps(b) for a, b in zip(found, expected, strict=True)])
    assert all(float(e.rad()) < 1e-80 for e in found)
    monkeypatch.setattr("gtape.verify.oracles.oracle.Oracle._swept", lambda *args: None)
    with precision(600):
        element_by_element = Oracle(program, seeds)
        element_by_element.evaluate()
        assert [element_by_element.along(0, (i,)).overlaps(found[i]) for i in range(X.size)] == [True] * X.size


def test_a_chain_of_gradient_steps_takes_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, jets = 0, Oracle.jets

    def counted(self: Oracle, *args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        return jets(self, *args, **kwargs)

    monkeypatch.setattr(Oracle, "jets", counted)
    counts = []
    for steps in (2, 4, 8):
        program, seeds = _program(lambda x, steps=steps: _descended(x, steps))
        with precision(300):
            oracle = Oracle(program, seeds)
            oracle.evaluate()
            calls = 0
            assert oracle.by_sweeps() is not None
        counts.append(calls)
    assert counts[2] - counts[1] < 5 * (counts[1] - counts[0]), counts  # quadratic would be 4, exponential more than 8


def test_wrong_numbers_behind_gradient_steps_are_shown_after_one_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: Any) -> Any:
        raise AssertionError("a jet for each element")

    @tf.custom_gradient
    def askew(x: Any) -> Any:
        return tf.identity(x), lambda g: g * 1.001

    monkeypatch.setattr(Oracle, "along", refused)
    report = check(lambda x: _descended(x, 2) + tf.reduce_sum(askew(x) ** 2), X)
    assert [(f.verdict, f.op, f.count) for f in report.findings if not f.ok] == [("rule", "askew", X.size)], report


def test_jets_do_not_certify_a_wrong_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    program, seeds = _program(OF_GRADIENTS["the square of a gradient"])
    from gtape.verify.oracles import oracle

    right = oracle.by_rule

    def wrong(world: Any, node: Any, *args: Any, **kwargs: Any) -> Any:
        made = right(world, node, *args, **kwargs)
        return [c * (1 + 2.0**-40) for c in made] if node.name == "tanh" else made

    monkeypatch.setattr(oracle, "by_rule", wrong)
    monkeypatch.setattr("gtape.verify.oracles.oracle.SWEPT", 10**6)  # values of inner gradients one by one
    with precision(300):
        oracle_ = Oracle(program, seeds)
        oracle_.evaluate()
        assert oracle_.by_sweeps() is None


def test_a_wrong_sweep_of_an_inner_gradient_falls_back_to_single_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    program, seeds = _program(OF_GRADIENTS["the square of a gradient"])
    with precision(300):
        expected = Oracle(program, seeds)
        expected.evaluate()
        slope = expected.along(0, (0,))
    from gtape.verify.oracles import oracle

    right = oracle.by_rule
    monkeypatch.setattr(oracle, "by_rule", lambda *args, **kwargs: [c * 2 for c in right(*args, **kwargs)])
    with precision(300):
        fallen = Oracle(program, seeds)
        fallen.evaluate()
        assert fallen.along(0, (0,)).overlaps(slope)
        with pytest.raises(TooDeep, match="not evaluated element by element"):
            fallen.exact_marks({}, fallen.needed(program.outputs), 5)


@pytest.mark.slow
@pytest.mark.parametrize("n", [5, 90])
def test_penalties_of_large_gradients_are_decided_at_kinks(n: int) -> None:
    rng = np.random.default_rng(5)
    point = rng.uniform(-1.0, 1.0, n)
    point[0] = 0.0
    a = rng.normal(size=n)

    def penalty(x: Any) -> Any:
        return tf.reduce_sum(_gradient(lambda z: tf.reduce_sum(tf.abs(z) ** 2 * tf.constant(a)), x) ** 2)

    report = check(penalty, tf.constant(point))
    assert not any(f.verdict == "undecided" for f in report.findings)
    right = 8.0 * a**2 * point
    assert judge(penalty, tf.constant(point), claimed=right).ok
    wrong = right.copy()
    wrong[0] = 1e-3
    assert not judge(penalty, tf.constant(point), claimed=wrong).ok


@pytest.mark.slow
def test_a_jump_of_one_element_of_a_large_gradient_is_found() -> None:
    point = np.linspace(0.5, 1.5, 80)
    point[7] = 0.0

    def f(x: Any) -> Any:
        return tf.reduce_sum(x**3) + tf.abs(x[7])

    report = check(f, tf.constant(point), order=2)
    assert [g.reason for g in report.findings if g.order == 2] == ["a jump: -1 on the left, 1 on the right"]


@pytest.mark.slow
def test_a_kink_that_makes_the_whole_function_smooth_is_found_behind_a_large_gradient() -> None:
    rng = np.random.default_rng(6)
    point = rng.uniform(0.5, 1.5, 80)
    point[[3, 50]] = 0.0
    w = tf.constant(rng.normal(size=80))

    def penalty(x: Any, w: Any) -> Any:  # the sum of squares of w where x != 0, by continuity everywhere
        return tf.reduce_sum(_gradient(lambda z: tf.reduce_sum(tf.abs(z) * w), x) ** 2)

    report = check(lambda w: penalty(tf.constant(point), w), w)
    assert report.ok  # x does not move, so its sign at 0 is a number of the program
    report = check(penalty, tf.constant(point), w)
    (found,) = [f for f in report.findings if not f.ok]
    assert (found.verdict, found.count) == ("convention", 2)
    assert "all one-sided derivatives agree" in found.reason


# ------------------------------------------------------------------------------------------------------------- counts


def slope_times(factors: Any) -> Any:
    """x / (1 + x²), with the slope of each element times a factor."""

    @tf.custom_gradient
    def scaled(x: Any) -> Any:
        return x / (1.0 + x * x), lambda g: g * ((1.0 - x * x) / (1.0 + x * x) ** 2) * factors

    def f(x: Any) -> Any:
        v = scaled(x)
        return tf.reduce_sum(v / (2.0 + v))

    return f


# Near 1 the slope is nearly 0, so that half a unit in x moves it by many units.
@settings(max_examples=1 + settings.default.max_examples // 12)
@given(
    near=st.lists(st.floats(1e-9, 1e-3), min_size=1, max_size=4), wrong=st.integers(1, 4), factor=st.floats(1.25, 4.0)
)
def test_only_the_wrong_elements_count_beside_badly_conditioned_ones(
    near: list[float], wrong: int, factor: float
) -> None:
    x = np.array([*(1.0 + np.array(near)), *np.linspace(0.3, 0.7, wrong)])
    right = check(slope_times(1.0), x)
    assert right.ok, right
    found = [f for f in check(slope_times(np.repeat([1.0, factor], [len(near), wrong])), x).findings if not f.ok]
    assert [(f.verdict, f.op, f.count) for f in found] == [("rule", "scaled", wrong)]
    assert found[0].element[1][0] >= len(near)


@given(
    lost=st.lists(st.booleans(), min_size=1, max_size=6).filter(any), value=st.sampled_from([np.nan, np.inf, -np.inf])
)
def test_all_elements_count_that_are_not_finite(lost: list[bool], value: float) -> None:
    factors = np.where(lost, value, 2.0)

    @tf.custom_gradient
    def lossy(x: Any) -> Any:
        return x * x, lambda g: g * x * factors

    x = np.arange(1.0, len(lost) + 1.0)
    report = check(lossy, x)
    assert [(f.verdict, f.op, f.count) for f in report.findings] == [("rule", "lossy", sum(lost))], report
    assert report.max_ulp == math.inf
    v = tf.Variable(x)
    with tf.GradientTape(verify=True) as tape:
        y = lossy(v)
    with pytest.raises(tf.VerificationError) as caught:
        tape.gradient(y, v)
    assert caught.value.report.findings[0].count == sum(lost)


def test_a_source_counts_only_for_the_custom_gradient_that_it_reaches() -> None:
    def lossy(name: str) -> Any:
        def function(x: Any) -> Any:
            return x * x, lambda g: g * x * np.nan

        function.__name__ = name
        return tf.custom_gradient(function)

    one, other = lossy("one"), lossy("other")
    report = check(lambda x, y: tf.reduce_sum(one(x)) + tf.reduce_sum(other(y)), np.ones(2), np.ones(3))
    assert [(f.op, f.count) for f in report.findings] == [("one", 2)], report
    report = check(lambda x, y: tf.reduce_sum(x) + tf.reduce_sum(other(y)), np.ones(2), np.ones(3))
    assert [(f.op, f.element, f.count) for f in report.findings] == [("other", (1, (0,)), 3)], report
    report = check(lambda x, y: tf.reduce_sum(one(tf.concat([x, y], 0))), np.ones(2), np.ones(3))
    assert [(f.op, f.count) for f in report.findings] == [("one", 5)], report
