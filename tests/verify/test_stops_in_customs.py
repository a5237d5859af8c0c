"""TensorFlow runs the body of a custom gradient under no tape, so that `stop_gradient` in the body changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check, exact, judge

A = np.array([0.3, 0.5])


def _none(x: Any) -> Any:
    return x


def _root(*, first: Any = _none, each: Any = _none, last: Any = _none, factor: float = 1.0) -> Callable[[Any], Any]:
    """The solution of z = cos(a z) by iteration, with its derivative by the implicit function theorem."""

    @tf.custom_gradient
    def root(a: Any) -> Any:
        b = first(a)
        z = tf.ones_like(b)
        for _ in range(45):
            z = each(tf.cos(b * z))

        def grad(g: Any) -> Any:
            y = root(a)
            s = tf.sin(a * y)
            return -factor * g * s * y / (1.0 + a * s)

        return last(z), grad

    return root


STOPS = {
    "on the result": {"last": tf.stop_gradient},
    "on the input": {"first": tf.stop_gradient},
    "in the loop": {"each": tf.stop_gradient},
    "everywhere": {"first": tf.stop_gradient, "each": tf.stop_gradient, "last": tf.stop_gradient},
}


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("where", STOPS)
def test_a_right_gradient_of_a_solver_stays_right_with_stops_in_its_body(where: str, order: int) -> None:
    def f(root: Any) -> Any:
        return lambda a: tf.reduce_sum(root(a) ** 2)

    stopped, plain = f(_root(**STOPS[where])), f(_root())
    assert check(stopped, A, order=order).verdict == check(plain, A, order=order).verdict
    assert check(stopped, A, order=order).ok
    numbers = [np.asarray(exact(g, A, order=order, digits=20)).astype(np.float64) for g in (stopped, plain)]
    assert np.array_equal(*numbers)


@pytest.mark.parametrize("where", STOPS)
def test_claims_tangents_and_jacobians_follow_the_values_of_a_stopped_body(where: str) -> None:
    root = _root(**STOPS[where])
    right = exact(lambda a: tf.reduce_sum(root(a)), A).astype(np.float64)
    assert judge(lambda a: tf.reduce_sum(root(a)), A, claimed=right).ok
    assert not judge(lambda a: tf.reduce_sum(root(a)), A, claimed=np.zeros(2)).ok
    assert check(root, A).verdict == "correct"
    with tf.verifying("strict"):
        x = tf.constant(A)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = root(x)
        assert np.allclose(tape.gradient(y, x), right)
        with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
            y = root(x)
        assert np.allclose(accumulator.jvp(y), right)


@pytest.mark.parametrize("where", STOPS)
def test_a_wrong_gradient_of_a_stopped_body_is_named_with_the_line_of_the_stop(where: str) -> None:
    report = check(lambda a: tf.reduce_sum(_root(**STOPS[where], factor=1.5)(a) ** 2), A)
    finding = report.findings[0]
    assert (report.verdict, finding.op) == ("rule", "root")
    assert "stop_gradient stops a value of the body" in finding.reason
    assert "test_stops_in_customs.py" in finding.reason


def _rounded_straight(slope: float) -> Any:
    @tf.custom_gradient
    def rounded(x: Any) -> Any:
        return x + tf.stop_gradient(tf.round(3.3 * x) - x), lambda g: slope * g

    return rounded


@pytest.mark.parametrize(("slope", "verdict"), [(1.0, "correct"), (0.0, "correct"), (3.3, "rule")])
def test_a_straight_through_gradient_may_take_the_stopped_value_for_a_constant(slope: float, verdict: str) -> None:
    assert check(lambda x: tf.reduce_sum(_rounded_straight(slope)(x) ** 2), A).verdict == verdict


def test_a_stop_before_a_custom_gradient_keeps_its_meaning() -> None:
    def f(returned: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
        def with_stop(a: Any) -> Any:
            b = tf.stop_gradient(a)

            @tf.custom_gradient
            def product(x: Any) -> Any:
                return x * b, lambda g: g * returned(x, b)

            return tf.reduce_sum(product(a))

        return with_stop

    assert check(f(lambda x, b: b), A).verdict == "correct"
    assert check(f(lambda x, b: x + b), A).verdict == "rule"


def test_a_stop_around_a_custom_gradient_keeps_its_meaning() -> None:
    root = _root(last=tf.stop_gradient)
    assert check(lambda a: tf.reduce_sum(a * tf.stop_gradient(root(a))), A).verdict == "correct"
    got = exact(lambda a: tf.reduce_sum(a * tf.stop_gradient(root(a))), A).astype(np.float64)
    assert np.allclose(got, root(tf.constant(A)))


def test_a_stop_in_a_newton_iteration_with_a_tape_of_its_own_changes_nothing() -> None:
    @tf.custom_gradient
    def cube_root(a: Any) -> Any:
        z = tf.ones_like(a)
        for _ in range(12):
            with tf.GradientTape() as tape:
                tape.watch(z)
                r = z**3 - a
            z = tf.stop_gradient(z - r / tape.gradient(r, z))
        return z, lambda g: g / (3.0 * z**2)

    assert check(lambda a: tf.reduce_sum(cube_root(a)), A).verdict == "correct"


def test_each_custom_gradient_of_a_nest_may_pass_or_honour_its_own_stops() -> None:
    straight = _rounded_straight(1.0)

    @tf.custom_gradient
    def outer(x: Any) -> Any:
        y = straight(x)
        return y * tf.stop_gradient(tf.exp(x)), lambda g: g * tf.exp(x) * (1.0 + y)

    @tf.custom_gradient
    def around(x: Any) -> Any:
        return tf.stop_gradient(_root(last=tf.stop_gradient)(x) * 1.0) * 2.0, lambda g: g * slope(x)

    def slope(x: Any) -> Any:
        z = _root()(x)
        return -2.0 * tf.sin(x * z) * z / (1.0 + x * tf.sin(x * z))

    assert check(lambda x: tf.reduce_sum(outer(x)), A).verdict == "correct"
    assert check(lambda x: tf.reduce_sum(around(x)), A).verdict == "correct"


def test_several_outputs_of_a_stopped_body_may_have_right_gradients() -> None:
    @tf.custom_gradient
    def both(x: Any, y: Any) -> Any:
        p = tf.stop_gradient(tf.exp(x))
        q, r = tf.unstack(tf.stop_gradient(tf.stack([x * y, x - y])))
        return (p * y, q * r), lambda g, h: (
            g * p * y + h * (2.0 * x * y - y * y),
            g * p + h * (x * x - 2.0 * x * y),
        )

    def f(x: Any, y: Any) -> Any:
        a, b = both(x, y)
        return tf.reduce_sum(a * a + b)

    assert check(f, A, A[::-1] + 1.0).verdict == "correct"


def test_a_stopped_body_in_a_function_is_right_as_well() -> None:
    root = _root(last=tf.stop_gradient)
    assert check(tf.function(lambda a: tf.reduce_sum(root(a) ** 2)), A).verdict == "correct"


@pytest.mark.parametrize(("factor", "error"), [(0.0, "1"), (0.5, "0.5"), (4.0, "0.75"), (-1.0, "2")])
def test_the_relative_error_of_a_wrong_gradient_is_that_of_the_larger_number(factor: float, error: str) -> None:
    @tf.custom_gradient
    def sine(x: Any) -> Any:
        return tf.sin(x), lambda g: factor * g * tf.cos(x)

    report = check(lambda x: tf.reduce_sum(sine(x) ** 2), np.array([0.3, -0.5, 0.7, 1.1]))
    assert f"(relative error {error} along a random direction)" in report.findings[0].reason
