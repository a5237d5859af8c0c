"""Gradients nested in gradients are certified at every level, whichever method took them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import sympy as sp

import gtape as tf
from gtape import declare
from gtape.declare.primitives import REGISTRY, Primitive
from gtape.engine.worlds import NUMPY
from gtape.symbolic import mirrors
from gtape.symbolic.mirrors.registry import array
from gtape.verify import check, exact, judge
from gtape.verify.causes import blame
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.programs.mutants import planted
from gtape.verify.verdicts.collect import collecting

F = Callable[[Any], Any]


def sine_times_exponential(x: Any) -> Any:
    return tf.sin(x) * tf.exp(x)


# The derivatives of sin(x) * exp(x): each is sqrt(2) times larger and moved by pi / 4.
def derivative(order: int, x: float) -> float:
    return float(2 ** (order / 2) * np.exp(x) * np.sin(x + order * np.pi / 4))


def nested(f: F, x: Any, depth: int, verify: Any = None) -> Any:
    """The derivative of order `depth` by nested tapes, summed up over the elements at each level."""
    if not depth:
        return f(x)
    with tf.GradientTape(verify=verify) as tape:
        tape.watch(x)
        y = nested(f, x, depth - 1, verify)
    return tape.gradient(y, x)


def wrong_from(order: int) -> F:
    """A sine whose derivatives below an order are right, and this one is wrong."""

    @tf.custom_gradient
    def late(x: Any) -> Any:
        zero = x - tf.stop_gradient(x)
        return tf.sin(x), lambda g: g * (tf.cos(x) + zero ** (order - 1)) if order > 1 else g

    return late


def raised(x: Any, n: int) -> Any:
    """A power, written with products because rules have no other power."""
    return x if n == 1 else x * raised(x, n - 1)


@pytest.fixture(params=[2, 3, 4])
def wrong_op(request: pytest.FixtureRequest) -> Iterator[tuple[int, Primitive]]:
    """A sine whose rule is right in value, and wrong from one derivative on."""
    mirrors.load()
    order = request.param
    made = declare.elementwise(
        "late_of_tests", np.sin, lambda xp, y, x: xp.cos(x) + raised(x - xp.stop_gradient(x), order - 1),
        domain=declare.ANY_REAL, ulps=4.0,
    )  # fmt: skip
    declare.mirror(made, sp.sin)
    yield order, made
    del REGISTRY[made.name]
    mirrors.SCALARS.pop(made.name)
    vars(NUMPY).pop(made.name, None)


@pytest.mark.parametrize("wrong_op", [2], indirect=True)
def test_the_rows_of_a_rule_with_a_wrong_derivative_share_the_search_for_it(
    wrong_op: tuple[int, Primitive], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, op = wrong_op
    searched, real = list[Any](), blame._wrong_alone

    def count(*args: Any, **kwargs: Any) -> bool:
        searched.append(args)
        return real(*args, **kwargs)

    monkeypatch.setattr(blame, "_wrong_alone", count)
    often = []
    for size in (2, 3):
        report = check(lambda x: tf.reduce_sum(op(x) ** 3), np.linspace(0.3, 0.9, size), order=2)
        (found,) = [f for f in report.findings if not f.ok]
        assert (found.op, found.count) == (op.name, size)
        often.append(len(searched))
        searched.clear()
    assert often[0] == often[1]


# ------------------------------------------------------------------------------------------ right ones


@pytest.mark.slow
@pytest.mark.parametrize("order", range(1, 7))
def test_all_orders_of_a_right_function_are_right(order: int) -> None:
    report = check(sine_times_exponential, 0.7, order=order)
    assert report.ok and report.checked == order, report
    assert float(exact(sine_times_exponential, 0.7, order=order, digits=20)[()]) == pytest.approx(
        derivative(order, 0.7), rel=1e-13
    )
    assert judge(sine_times_exponential, 0.7, derivative(order, 0.7) + 1.0, order=order).verdict == "rule"


@pytest.mark.slow
@pytest.mark.parametrize("depth", range(1, 5))
def test_tapes_inside_a_function_are_followed(depth: int) -> None:
    def f(x: Any) -> Any:
        return nested(sine_times_exponential, x, depth) * x

    for order in (1, 2):
        report = check(f, 0.7, order=order)
        assert report.ok and report.verdict != "undecided", report
    assert float(exact(f, 0.7, digits=20)[()]) == pytest.approx(
        derivative(depth, 0.7) + 0.7 * derivative(depth + 1, 0.7), rel=1e-13
    )


@pytest.mark.parametrize("depth", range(1, 6))
def test_nested_tapes_under_the_flag_are_checked_at_each_level(depth: int) -> None:
    x = tf.constant(0.7, "float64")
    with collecting() as report:
        g = nested(sine_times_exponential, x, depth, "strict")
    assert float(g) == pytest.approx(derivative(depth, 0.7), rel=1e-12)
    assert report.checked == depth and report.ok


def test_four_levels_of_a_scalar_take_less_than_two_seconds() -> None:
    nested(sine_times_exponential, tf.constant(0.5, "float64"), 4, "strict")  # compiles the mirrors
    begin = time.perf_counter()
    nested(sine_times_exponential, tf.constant(0.7, "float64"), 4, "strict")
    assert time.perf_counter() - begin < 2.0


@pytest.mark.slow
def test_arrays_and_several_arguments_have_fourth_derivatives() -> None:
    x = np.array([0.5, -1.25])
    report = check(lambda a, b: tf.reduce_sum(tf.sin(a) * a * b) + tf.exp(b), x, 0.25, order=4)
    assert report.ok, report
    found = exact(lambda a: tf.reduce_prod(a) ** 2, x, order=4, digits=20)
    assert found.shape == (2, 2, 2, 2)
    assert (float(found[0, 0, 1, 1]), float(found[0, 0, 0, 1])) == (4.0, 0.0)


def test_gradients_beyond_the_depth_are_undecided() -> None:
    report = check(lambda x: nested(tf.sin, x, 8), 0.7)
    assert report.verdict == "undecided" and "nested 8 deep" in str(report)


# ------------------------------------------------------------------------------------------ wrong ones


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_a_custom_gradient_is_found_at_the_order_where_it_is_wrong(order: int) -> None:
    f = wrong_from(order)
    assert order == 1 or check(lambda x: f(x) * x, 0.7, order=order - 1).ok
    for asked in (order, 4):
        report = check(lambda x: f(x) * x, 0.7, order=asked)
        assert report.verdict == "rule", report
        assert min(found.order for found in report.findings if not found.ok) == order


def test_a_rule_is_found_at_the_order_where_it_is_wrong(wrong_op: tuple[int, Primitive]) -> None:
    order, op = wrong_op
    assert check(lambda x: op(x) * x, 0.7, order=order - 1).ok
    report = check(lambda x: op(x) * x, 0.7, order=order)
    found = next(f for f in report.findings if not f.ok)
    assert (found.verdict, found.op, found.order) == ("rule", op.name, order), report
    right = {2: -np.sin(0.7), 3: -np.cos(0.7), 4: np.sin(0.7)}[order]
    assert float(exact(op, 0.7, order=order, digits=20)[()]) == pytest.approx(right, rel=1e-14)


@pytest.mark.slow
def test_a_rule_is_found_by_nested_tapes(wrong_op: tuple[int, Primitive]) -> None:
    order, op = wrong_op
    x = tf.constant(0.7, "float64")
    nested(op, x, order - 1, "strict")
    with pytest.raises(tf.VerificationError, match=op.name):
        nested(op, x, order, True)
    report = check(lambda t: nested(op, t, order), 0.7)
    assert report.verdict == "rule", report


@pytest.mark.parametrize("forward", [False, True])
def test_a_right_custom_gradient_with_a_rounded_constant_is_not_named_for_a_wrong_rule(
    wrong_op: tuple[int, Primitive], forward: bool
) -> None:
    @tf.custom_gradient
    def third(x: Any) -> Any:
        return x * x * x * (1 / 3), lambda g: g * x * x

    order, op = wrong_op
    x = tf.constant(0.7, "float64")

    def last(f: F) -> Any:
        if not forward:
            return nested(f, x, 1, True)
        with tf.verifying(), tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
            y = f(x)
        return accumulator.jvp(y)

    with pytest.raises(tf.VerificationError) as caught:
        last(lambda x: nested(lambda x: op(third(x)), x, order - 1, False))
    assert {f.op for f in caught.value.report.findings if not f.ok} == {op.name}


def test_a_custom_gradient_inside_is_found_by_nested_tapes() -> None:
    x = tf.constant(0.7, "float64")
    for order in (2, 3, 4):
        f = wrong_from(order)
        nested(f, x, order - 1, "strict")
        with pytest.raises(tf.VerificationError, match="late"):
            nested(f, x, order, True)


def test_a_mutant_of_a_rule_s_rule_is_found_at_the_order_that_uses_it() -> None:
    def late(xp: Any, value: Any, rule: Any, args: Any, argument: int) -> Any:
        return value() * (1 + raised(args[-1] - xp.stop_gradient(args[-1]), 2))

    x = tf.constant(0.7, "float64")
    with planted("cos", 0, late):
        nested(tf.sin, x, 3, "strict")
        with pytest.raises(tf.VerificationError, match="cos"):
            nested(tf.sin, x, 4, True)


# ------------------------------------------------------------------------------------------ other methods


def by_jacobian(f: F, x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.jacobian(y, x)


def by_batch_jacobian(f: F, x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.batch_jacobian(y, x)


def by_jvp(f: F, x: Any) -> Any:
    with tf.autodiff.ForwardAccumulator(x, tf.sin(x)) as acc:
        y = f(x)
    return acc.jvp(y)


def by_jvp_along_a_constant(f: F, x: Any) -> Any:
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as acc:
        y = f(x)
    return acc.jvp(y)


METHODS = [by_jacobian, by_batch_jacobian, by_jvp, by_jvp_along_a_constant]
POINT = np.array([[0.5, -1.25], [2.0, 0.75], [1.5, -0.25]])


def mixing(f: F) -> F:
    """Rows that mix their columns."""
    return lambda x: tf.stack([f(x[:, 0]) * x[:, 1], f(x[:, 1] * x[:, 0]), x[:, 0] + f(x[:, 1])], axis=1)


def under_the_flag(f: F, order: int = 1) -> Any:
    x = tf.constant(POINT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return nested(f, x, order, True)


@pytest.mark.parametrize("method", METHODS)
def test_right_derivatives_by_other_methods_are_right(method: Callable[[F, Any], Any]) -> None:
    f = mixing(tf.sin)
    assert under_the_flag(lambda x: method(f, x)).shape == (3, 2)
    assert check(lambda x: method(f, x), POINT[:1], order=2).ok
    once = under_the_flag(lambda x: method(lambda t: method(f, t), x))
    assert once.shape == (3, 2)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_rule_wrong_from_the_second_order_on_is_found_through_other_methods(
    method: Callable[[F, Any], Any], wrong_op: tuple[int, Primitive]
) -> None:
    order, op = wrong_op
    f = mixing(op)
    if order > 2:
        under_the_flag(lambda x: method(f, x), order - 2)
    with pytest.raises(tf.VerificationError, match=op.name):
        under_the_flag(lambda x: method(f, x), order - 1)


@pytest.mark.parametrize("method", METHODS)
def test_a_custom_gradient_wrong_from_the_second_order_on_is_found_through_other_methods(
    method: Callable[[F, Any], Any],
) -> None:
    with pytest.raises(tf.VerificationError, match="late"):
        under_the_flag(lambda x: method(mixing(wrong_from(2)), x))


@tf.custom_gradient
def sine_through_numpy(x: Any) -> Any:
    return tf.sin(x), lambda g: g * np.cos(x.numpy())


@pytest.mark.parametrize("method", [by_jacobian, by_batch_jacobian, by_jvp, lambda f, x: nested(f, x, 1)])
def test_a_gradient_that_no_outer_tape_recorded_is_found_by_the_next_derivative(
    method: Callable[[F, Any], Any],
) -> None:
    under_the_flag(lambda x: sine_through_numpy(x) * 2.0)
    for f, order in ((sine_through_numpy, 1), (lambda x: sine_through_numpy(x) * x, 1), (sine_through_numpy, 2)):
        with pytest.raises(tf.VerificationError, match="right in value, but its own") as raised:
            under_the_flag(lambda x: method(f, x), order)  # noqa: B023 - called at once
        found = raised.value.report.findings[0]
        assert (found.verdict, found.op) == ("rule", "sine_through_numpy")
    for f in (lambda x: 3.0 * x, tf.nn.relu, lambda x: tf.stop_gradient(x) * x, lambda x: tf.gather(x, [0, 0, 1])):
        under_the_flag(lambda x: method(f, x))  # noqa: B023 - called at once


@pytest.mark.slow
@pytest.mark.parametrize("method", [by_jvp, by_jvp_along_a_constant])
def test_forward_mode_over_forward_mode_and_over_a_gradient(method: Callable[[F, Any], Any]) -> None:
    x = tf.constant(POINT)
    with warnings.catch_warnings(), tf.verifying():
        warnings.simplefilter("error")
        method(lambda t: method(mixing(tf.sin), t), x)
        method(lambda t: nested(mixing(tf.sin), t, 2), x)
        nested(lambda t: method(lambda s: nested(mixing(tf.sin), s, 1), t), x, 1)
        with pytest.raises(tf.VerificationError, match="rule"):
            method(lambda t: nested(mixing(wrong_from(3)), t, 2), x)
        with pytest.raises(tf.VerificationError, match="rule"):
            method(lambda t: method(mixing(wrong_from(2)), t), x)


def test_complex_jacobians_and_tangents_are_certified() -> None:
    def f(x: Any) -> Any:
        z = tf.complex(tf.sin(x), x * x)
        return z * tf.exp(z)

    def of_jvp(x: Any) -> Any:
        t = by_jvp(f, x)
        return tf.math.real(t) * tf.math.imag(t)

    assert check(of_jvp, np.array([0.5, -1.25])).ok
    assert check(lambda x: by_jacobian(f, x) * x, np.array([0.5, -1.25])).ok

    def of_complex(z: Any) -> Any:
        made = by_jacobian(lambda t: t * tf.exp(t), z)
        return tf.math.real(made) * tf.math.imag(made)

    assert check(of_complex, np.array([0.5 - 1.0j, 0.25j])).ok


def test_a_jvp_that_is_wrong_at_second_order_alone_is_found_and_named() -> None:
    mirrors.load()
    made = declare.primitive(
        "late_sum_of_tests", lambda x: np.sum(np.sin(x)), vjp=(lambda xp, g, y, x: g * xp.cos(x),),
        jvp=(
            lambda xp, t, y, x: xp.sum(t * (xp.cos(x) + (x - xp.stop_gradient(x))), axis=(0,), keepdims=False),
        ),
        reads=((0,),), rounding=declare.growing(1), samples=((((3,),), {}),),
    )  # fmt: skip
    array(made.name, lambda W, x: W.sum(W.sin(x), axis=(0,), keepdims=False))
    x = tf.constant([0.3, 0.5, 1.7], tf.float64)
    try:
        with tf.GradientTape(verify=True) as tape:
            tape.watch(x)
            slope = by_jvp_along_a_constant(made, x)
        with pytest.raises(tf.VerificationError, match=made.name):
            tape.gradient(slope, x)
    finally:
        del REGISTRY[made.name]
        mirrors.ARRAYS.pop(made.name)
        vars(NUMPY).pop(made.name, None)


def by_gradient(f: F, x: Any) -> Any:
    return nested(f, x, 1)


@pytest.mark.parametrize("method", [by_gradient, *METHODS])
def test_exact_numbers_do_not_depend_on_a_wrong_rule(method: Callable[[F, Any], Any]) -> None:
    weights = np.linspace(-1.0, 2.0, 12).reshape(2, 6)

    def f(op: F) -> F:
        return lambda x: method(lambda t: tf.reshape(op(t) @ weights, (2, 2, 3)), x) ** 2

    found = [exact(f(op), POINT[:2], digits=20).tolist() for op in (tf.sin, wrong_from(2))]
    assert found[0] == found[1]
    assert check(f(tf.sin), POINT[:2]).ok


def _after_steps(steps: int, slope: Callable[[Any], Any]) -> F:
    """The loss after steps of gradient descent on a loss that `x` regularises."""
    data = np.random.default_rng(5).normal(size=(5, 2))

    def f(x: Any) -> Any:
        w = tf.ones([2], tf.float64)
        for _ in range(steps):
            with tf.GradientTape() as tape:
                tape.watch(w)
                loss = tf.reduce_mean(tf.linalg.matvec(data, w) ** 2) + tf.reduce_sum(tf.exp(slope(x)) * w**2)
            w = w - 0.1 * tape.gradient(loss, w)
        return tf.reduce_sum(w**2)

    return f


@pytest.mark.slow
def test_a_fault_in_a_chain_of_gradient_steps_is_named_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    @tf.custom_gradient
    def askew(x: Any) -> Any:
        return tf.identity(x), lambda g: g * 1.001

    x, calls = np.array([-1.2, 0.3]), 0
    jets = Oracle.jets

    def counted(self: Oracle, *args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        return jets(self, *args, **kwargs)

    monkeypatch.setattr(Oracle, "jets", counted)
    counts = []
    for steps in (4, 8, 16):
        calls = 0
        report = check(_after_steps(steps, askew), x)
        counts.append(calls)
        wrong = [f for f in report.findings if not f.ok]
        assert {(f.verdict, f.op) for f in wrong} == {("rule", "askew")}, report
        right = exact(_after_steps(steps, tf.identity), x)
        for f in wrong:
            assert f.exact is not None and f.element is not None
            assert sp.Float(f.exact, 30) == pytest.approx(sp.Float(str(right[f.element[1]]), 30), rel=1e-20)
    assert counts[2] - counts[1] < 3 * (counts[1] - counts[0]), counts
