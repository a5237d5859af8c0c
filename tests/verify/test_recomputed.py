"""Recomputed functions are judged as the functions themselves, and bodies of custom gradients on all sides of kinks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check, exact, judge

F = Callable[[Any], Any]


def identity(z: Any) -> Any:
    return tf.nn.relu(z) - tf.nn.relu(-z)


def of_extrema(z: Any) -> Any:
    return tf.maximum(0.0, z) - tf.maximum(0.0, -z)


def scaled(wrap: Callable[[F], F]) -> F:
    f = wrap(identity)
    return lambda z: 3 * f(2 * z) + z


def added(wrap: Callable[[F], F]) -> F:
    f = wrap(identity)
    return lambda z: f(z) + identity(z)


def in_parts(wrap: Callable[[F], F]) -> F:
    f = wrap(lambda z: (tf.nn.relu(z), z * 2.0, tf.nn.relu(-z)))
    return lambda z: f(z)[0] - f(z)[2] + f(z)[1]


PROGRAMS: dict[str, tuple[Callable[[Callable[[F], F]], F], float, float]] = {
    "the identity": (lambda wrap: wrap(identity), 0.0, 1.0),
    "of extrema": (lambda wrap: wrap(of_extrema), 0.0, 1.0),
    "with scaled arguments": (scaled, 0.0, 7.0),
    "beside itself": (added, 0.0, 2.0),
    "of bounds": (lambda wrap: wrap(lambda z: tf.nn.relu6(z) + tf.nn.relu(z - 6.0)), 6.0, 1.0),
    "in itself": (lambda wrap: wrap(wrap(identity)), 0.0, 1.0),
    "in a function": (lambda wrap: tf.function(wrap(identity)), 0.0, 1.0),
    "of several results": (in_parts, 0.0, 3.0),
}


def plain(f: F) -> F:
    return f


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("wrap", [plain, tf.recompute_grad])
def test_at_a_kink_that_cancels_the_derivative_of_the_whole_function_counts(wrap: Any, name: str) -> None:
    make, x, slope = PROGRAMS[name]
    f = make(wrap)
    assert float(exact(f, x, digits=5).item()) == slope
    with tf.GradientTape() as tape:
        v = tf.Variable(x, dtype=tf.float64)
        y = f(v)
    own = float(tape.gradient(y, v))
    assert check(f, x).ok == (own == slope)
    assert [judge(f, x, c).ok for c in (slope - 0.5, slope, slope + 0.5)] == [False, True, False]


@pytest.mark.parametrize("wrap", [plain, tf.recompute_grad])
def test_a_strict_tape_refuses_the_convention_of_a_recomputed_kink_that_cancels(wrap: Any) -> None:
    x = tf.Variable([0.0, 1.0], dtype=tf.float64)
    with tf.GradientTape(verify="strict") as tape:
        y = tf.reduce_sum(wrap(identity)(x))
    with pytest.raises(tf.VerificationError, match="one-sided derivatives agree"):
        tape.gradient(y, x)


@pytest.mark.parametrize("wrap", [plain, tf.recompute_grad])
def test_a_recomputed_layer_that_starts_at_zero_is_refused_like_the_layer(wrap: Any) -> None:
    w = tf.Variable(np.zeros((2, 2)))
    layer = wrap(lambda x: tf.nn.relu(x @ w) - tf.nn.relu(-(x @ w)))
    with tf.GradientTape(verify=True) as tape:
        loss = tf.reduce_sum(layer(tf.constant([[1.0, 2.0]], tf.float64)) - 3.0)
    with pytest.raises(tf.VerificationError, match="one-sided derivatives agree"):
        tape.gradient(loss, w)


def with_slope(body: F, slope: float) -> F:
    return tf.custom_gradient(lambda z: (body(z), lambda g: g * slope))


BODIES: dict[str, tuple[F, float]] = {
    "of relu": (lambda z: identity(z) + z, 2.0),
    "of extrema": (lambda z: tf.maximum(z, 0.0) + tf.minimum(z, 0.0), 1.0),
}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("slope", [0.0, 1.0, 1.5, 2.0])
def test_a_custom_gradient_that_follows_the_conventions_of_its_body_is_judged_on_all_sides(
    body: str, slope: float
) -> None:
    f, right = BODIES[body]
    assert check(with_slope(f, slope), 0.0).ok == (slope == right)


@pytest.mark.parametrize("body", BODIES)
def test_exact_follows_all_sides_of_the_body_of_a_custom_gradient(body: str) -> None:
    f, right = BODIES[body]
    by_conventions = 1.0 if body == "of relu" else 2.0
    assert float(exact(with_slope(f, by_conventions), 0.0).item()) == right


@pytest.mark.parametrize("slope", [lambda z: tf.sign(z), lambda z: tf.where(z < 0, -tf.ones_like(z), tf.ones_like(z))])
def test_at_a_kink_of_the_whole_body_a_custom_gradient_may_have_a_convention_of_its_own(slope: F) -> None:
    f = tf.custom_gradient(lambda z: (tf.abs(z), lambda g: g * slope(z)))
    assert check(f, 0.0).ok
    assert [judge(f, 0.0, c).ok for c in (-1.0, 0.0, 1.0, 2.0)] == [True, True, True, False]


FAULTS: dict[str, tuple[F, float]] = {
    "a logarithm of a saturated sigmoid": (lambda z: tf.math.log(1.0 - tf.sigmoid(z)), 40.0),
    "an overflow": (lambda z: tf.exp(z) * tf.exp(-z), 800.0),
    "a root at its end": (lambda z: tf.sqrt(z * z), 0.0),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_recomputed_function_has_the_cause_that_it_has_outside(fault: str) -> None:
    f, x = FAULTS[fault]
    one, other = [check(h, x).findings for h in (f, tf.recompute_grad(f))]
    assert [(g.verdict, g.op, g.instead, g.line) for g in one] == [(g.verdict, g.op, g.instead, g.line) for g in other]


@tf.custom_gradient
def shifted(x: Any) -> Any:
    return tf.sin(x), lambda g: g * tf.cos(x) + 1e-3


def test_a_rule_that_is_not_linear_is_named_in_a_recomputed_function() -> None:
    found = check(tf.recompute_grad(lambda z: shifted(z) * z), 0.7).findings
    assert [(f.verdict, f.op) for f in found] == [("rule", "shifted")]


@pytest.mark.parametrize("pick", [0, 1])
def test_each_result_of_a_recomputed_function_has_its_gradient(pick: int) -> None:
    f = tf.recompute_grad(lambda z, n: (tf.sin(z) * n, z * z))
    assert check(lambda z: f(z, 3.0)[pick], [0.3, 1.2]).verdict == "correct"
    assert check(lambda z: f(z, 3.0)[pick], [0.3, 1.2], order=2).verdict == "correct"


@pytest.mark.parametrize("wrap", [plain, tf.recompute_grad])
def test_a_tape_may_watch_the_result_of_a_recomputed_function(wrap: Any) -> None:
    x = tf.Variable(2.0)
    with tf.GradientTape(verify="strict") as tape:
        y = wrap(lambda z: tf.sin(z) * z)(x)
        tape.watch(y)
        z = y * y
    by_y, by_x = tape.gradient(z, [y, x])
    assert float(by_y) == pytest.approx(2.0 * float(y))
    assert float(by_x) == pytest.approx(2.0 * float(y) * (np.cos(2.0) * 2.0 + np.sin(2.0)))


MANY = np.linspace(0.5, 1.5, 64)


def dropped(z: Any) -> Any:
    return tf.nn.dropout(z, 0.5) * z


class Counted:
    """A function with a state: each call has another factor."""

    def __init__(self) -> None:
        self.calls = 0
        self.factor = tf.Variable(1.0, dtype=tf.float64, trainable=False)

    def __call__(self, z: Any) -> Any:
        self.calls += 1
        self.factor.assign_add(1.0)
        return tf.sin(z) * tf.stop_gradient(self.factor)


@pytest.mark.parametrize("f", [dropped, Counted()])
def test_a_second_run_with_other_numbers_is_named_as_the_cause(f: F) -> None:
    found = check(tf.recompute_grad(f), MANY).findings
    assert [(g.verdict, g.op) for g in found] == [("rule", "dropped" if f is dropped else "Counted")]
    assert "the second run computes other numbers" in found[0].reason
    assert "as an argument" in (found[0].instead or "")
    assert "differs from run to run" in (found[0].without_witness or "")


def test_forward_mode_names_a_second_run_with_other_numbers() -> None:
    x = tf.constant(MANY)
    with tf.verifying(), tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
        y = tf.recompute_grad(dropped)(x)
    with pytest.raises(tf.VerificationError, match="the second run computes other"):
        accumulator.jvp(y)


def test_the_search_for_the_cause_draws_no_random_numbers_and_changes_no_variable() -> None:
    f, numbers = Counted(), []
    for verify in (False, True):
        tf.random.set_seed(3)
        f.factor.assign(1.0)
        x = tf.Variable(MANY)
        with tf.GradientTape(verify=verify) as tape:
            y = tf.recompute_grad(lambda z: dropped(f(z)))(x)
        with contextlib.suppress(tf.VerificationError):
            tape.gradient(y, x)
        numbers.append((float(f.factor), tf.random.uniform([3]).numpy().tolist()))
    assert numbers[0] == numbers[1]


def test_draws_from_a_seed_that_is_an_argument_are_the_same_in_both_runs() -> None:
    f = tf.recompute_grad(lambda z, seed: z * z * tf.random.stateless_uniform([64], seed, dtype=tf.float64))
    assert check(lambda z: f(z, [1, 2]), MANY).verdict == "correct"
