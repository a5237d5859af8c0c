"""Where gtape differs from TensorFlow, and the conventions at kinks that it shares (sections 11, 13 and 14)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf

Function = Callable[..., Any]


def derivative(f: Function, *at: Any, order: int = 1, wrt: int = 0) -> Any:
    """The derivative of `f` at float64 constants, as a number or a list."""
    xs = [tf.constant(np.asarray(a, np.float64)) for a in at]
    if order == 1:
        with tf.GradientTape() as tape:
            tape.watch(xs)
            y = f(*xs)
        made = tape.gradient(y, xs[wrt])
    else:
        with tf.GradientTape() as outer:
            outer.watch(xs)
            with tf.GradientTape() as inner:
                inner.watch(xs)
                y = f(*xs)
            first = inner.gradient(y, xs[wrt])
        made = outer.gradient(first, xs[wrt], unconnected_gradients="zero")
    return None if made is None else made.numpy().tolist()


# ---------------------------------------------------------------- the derivative where it exists


EXISTS: list[tuple[str, Function, tuple[Any, ...], int, Any]] = [
    ("x**0 at 0", lambda x: x**0, (0.0,), 1, 0.0),
    ("x**1 at 0, second", lambda x: x**1, (0.0,), 2, 0.0),
    ("x**2 at 0, second", lambda x: x**2, (0.0,), 2, 2.0),
    ("pow(0, 1)", tf.pow, (0.0, 1.0), 1, 1.0),
    ("pow(0, 2)", tf.pow, (0.0, 2.0), 1, 0.0),
    ("cumprod through a zero", tf.math.cumprod, ([2.0, 0.0, 4.0],), 1, [1.0, 10.0, 0.0]),
    ("prod with one zero", tf.reduce_prod, ([2.0, 0.0, 4.0],), 1, [0.0, 8.0, 0.0]),
    ("prod with two zeros", tf.reduce_prod, ([0.0, 0.0, 4.0],), 1, [0.0, 0.0, 0.0]),
    ("1/x at 1e200", tf.math.reciprocal, (1e154,), 1, -1e-308),
    ("sigmoid at -700", tf.sigmoid, (-700.0,), 1, math.exp(-700.0)),
    ("sigmoid at 1000", tf.sigmoid, (1000.0,), 1, 0.0),
    ("tanh at 20", tf.tanh, (20.0,), 1, 4.0 * math.exp(-40.0)),
    ("softplus at -700", tf.math.softplus, (-700.0,), 1, math.exp(-700.0)),
    ("softplus at 1000", tf.math.softplus, (1000.0,), 1, 1.0),
    ("sinc at 0", tf.math.sinc, (0.0,), 1, 0.0),
    ("sinc at 0, second", tf.math.sinc, (0.0,), 2, -(math.pi**2) / 3.0),
    ("logsumexp of thousands", tf.reduce_logsumexp, ([1000.0, 1000.0],), 1, [0.5, 0.5]),
    ("logsumexp beside -inf", tf.reduce_logsumexp, ([-math.inf, 0.0],), 1, [0.0, 1.0]),
    ("softsign, second", tf.math.softsign, (1.0,), 2, -0.25),
    ("det of a singular matrix", tf.linalg.det, ([[1.0, 2.0], [2.0, 4.0]],), 1, [[4.0, -2.0], [-2.0, 1.0]]),
]


@pytest.mark.parametrize(("name", "f", "at", "order", "wanted"), EXISTS, ids=[c[0] for c in EXISTS])
def test_derivative_where_it_exists(name: str, f: Function, at: Any, order: int, wanted: Any) -> None:
    np.testing.assert_allclose(derivative(f, *at, order=order), wanted, rtol=1e-15, atol=0)


# ---------------------------------------------------------------- branches not taken


def test_branch_of_where_not_taken_never_reaches_the_gradient() -> None:
    def f(x: Any) -> Any:
        return tf.where(x > 0.0, tf.math.log(x), x * x)

    assert derivative(f, [-1.0, 0.0, 2.0]) == [-2.0, 0.0, 0.5]
    assert derivative(f, [-1.0, 0.0, 2.0], order=2) == [2.0, 2.0, -0.25]


def test_branch_not_taken_through_a_chain_of_ops() -> None:
    def f(x: Any) -> Any:
        bad = tf.exp(tf.sqrt(x) * 1e6) / x
        return tf.reduce_sum(tf.where(x > 0.5, x, 0.0) + tf.where(x > 2.0, bad, 0.0))

    assert derivative(f, [0.0, 1.0, -1.0]) == [0.0, 1.0, 0.0]


def test_zero_in_output_gradients_is_no_selection() -> None:
    x = tf.constant(0.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.math.log(x)
    assert math.isnan(tape.gradient(y, x, output_gradients=0.0).numpy())


# ---------------------------------------------------------------- kinks


KINKS: list[tuple[str, Function, tuple[Any, ...], Any]] = [
    ("abs at 0", tf.abs, (0.0,), 0.0),
    ("abs at -0", tf.abs, (-0.0,), 0.0),
    ("sign", tf.sign, ([-1.0, 0.0, 2.0],), [0.0, 0.0, 0.0]),
    ("relu at 0", tf.nn.relu, (0.0,), 0.0),
    ("relu6 at 0 and 6", tf.nn.relu6, ([0.0, 6.0],), [0.0, 0.0]),
    ("leaky_relu at 0", tf.nn.leaky_relu, (0.0,), 0.2),
    ("elu at 0", tf.nn.elu, (0.0,), 1.0),
    ("selu at 0", tf.nn.selu, (0.0,), 1.0507009873554805),
    ("gelu at 0", tf.nn.gelu, (0.0,), 0.5),
    ("maximum tie", lambda x: tf.maximum(x, 2.0), (2.0,), 1.0),
    ("minimum tie", lambda x: tf.minimum(x, 2.0), (2.0,), 1.0),
    ("maximum tie, second operand", lambda x: tf.maximum(2.0, x), (2.0,), 0.0),
    ("reduce_max tie", tf.reduce_max, ([3.0, 3.0, 1.0],), [0.5, 0.5, 0.0]),
    ("reduce_min tie", tf.reduce_min, ([3.0, 1.0, 1.0],), [0.0, 0.5, 0.5]),
    ("clip at its bounds", lambda x: tf.clip_by_value(x, 0.0, 1.0), ([-1.0, 0.0, 1.0, 2.0],), [0.0, 1.0, 1.0, 0.0]),
    ("norm at 0", tf.norm, ([0.0, 0.0],), [0.0, 0.0]),
    ("euclidean norm at 0", tf.math.reduce_euclidean_norm, ([0.0, 0.0],), [0.0, 0.0]),
    ("std at 0", tf.math.reduce_std, ([2.0, 2.0],), [0.0, 0.0]),
    ("norm of order 1 at 0", lambda x: tf.norm(x, ord=1), ([0.0, 2.0],), [0.0, 1.0]),
    ("sort of ties", lambda x: tf.sort(x)[0], ([1.0, 1.0],), [1.0, 0.0]),
    ("top_k of ties", lambda x: tf.math.top_k(x, 1)[0], ([1.0, 1.0],), [1.0, 0.0]),
    ("sqrt at 0", tf.sqrt, (0.0,), math.inf),
    ("log at 0", tf.math.log, (0.0,), math.inf),
    ("divide_no_nan by 0", lambda x: tf.math.divide_no_nan(x, 0.0), (1.0,), 0.0),
    ("xlogy(0, 0)", lambda x: tf.math.xlogy(x, 0.0), (0.0,), 0.0),
    ("floormod", lambda x: x % 2.0, (5.0,), 1.0),
]


@pytest.mark.parametrize(("name", "f", "at", "wanted"), KINKS, ids=[c[0] for c in KINKS])
def test_convention_at_a_kink(name: str, f: Function, at: Any, wanted: Any) -> None:
    assert derivative(f, *at) == wanted


OUTSIDE: list[tuple[str, Function, float]] = [
    ("log", tf.math.log, -1.0),
    ("log1p", tf.math.log1p, -2.0),
    ("sqrt", tf.sqrt, -1.0),
    ("asin", tf.asin, 2.0),
    ("acos", tf.acos, -2.0),
    ("acosh", tf.acosh, 0.5),
    ("atanh", tf.atanh, 2.0),
    ("pow", lambda x: x**0.5, -2.0),
]


@pytest.mark.parametrize(("name", "f", "at"), OUTSIDE, ids=[c[0] for c in OUTSIDE])
def test_outside_its_domain_value_and_gradient_are_nan(name: str, f: Function, at: float) -> None:
    assert math.isnan(float(f(tf.constant(at, tf.float64))))
    assert math.isnan(derivative(f, at))


# ---------------------------------------------------------------- the rest


def test_every_differentiable_op_has_rules_of_every_order() -> None:
    x = tf.Variable(0.7, dtype=tf.float64)
    for name in ("softsign", "sigmoid", "erf", "gelu", "mish", "asinh", "cbrt", "sinc"):
        f = getattr(tf.math, name)
        y = x
        tapes = [tf.GradientTape() for _ in range(4)]
        for tape in tapes:
            tape.__enter__()
        y = f(x)
        for tape in reversed(tapes):
            tape.__exit__(None, None, None)
            y = tape.gradient(y, x)
            assert y is not None and math.isfinite(float(y)), name


def test_printing_says_gtape() -> None:
    assert str(tf.constant(6.0)) == "gtape.Tensor(6.0, shape=(), dtype=float32)"
    assert repr(tf.Variable(1.0, name="w")).startswith("<gtape.Variable 'w:0'")


def test_numpy_functions_on_a_tensor_are_recorded() -> None:
    assert derivative(np.tanh, 0.0) == 1.0


def test_indexed_slices_can_be_a_target() -> None:
    # Section 13: an AttributeError in TensorFlow.
    table = tf.Variable([[1.0], [2.0]])
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = tf.gather(table, [0, 0]) ** 3
        g = inner.gradient(y, table)
    assert tf.convert_to_tensor(outer.gradient(g, table)).numpy().tolist() == [[12.0], [0.0]]


@pytest.mark.parametrize("f", [tf.math.rsqrt, tf.math.reciprocal, tf.sqrt, tf.math.log, lambda x: 1.0 / x])
def test_infinite_slopes_do_not_depend_on_what_happened_before(f: Function) -> None:
    # A result that outlives its tape makes the next ones record in a more careful way.
    x = tf.constant(3.0, tf.float64)
    kept = []
    for _ in range(2):
        with tf.GradientTape() as tape:
            tape.watch(x)
            kept.append(x * x)
        del tape
    assert math.isinf(derivative(f, 0.0))
