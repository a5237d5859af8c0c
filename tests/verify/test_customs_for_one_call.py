"""Gradient functions that serve for one call only are differentiated and checked as others are."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.errors import VerificationError
from gtape.verify import check


def _by_tape(factor: float) -> Any:
    @tf.custom_gradient
    def f(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        return y, lambda g: factor / 2 * tape.gradient(y, x, g)

    return f


def _by_list(factor: float) -> Any:
    @tf.custom_gradient
    def f(x: Any) -> Any:
        kept = [x]
        return x * x, lambda g: factor * g * kept.pop()

    return f


def _of_two(factor: float) -> Any:
    @tf.custom_gradient
    def parts(x: Any) -> Any:
        kept = [x]

        def grad(*gs: Any) -> Any:
            x = kept.pop()
            first, second = tf.split(tf.concat([gs[0] * factor * x, gs[1] * 3 * x * x], 0), 2)
            return first + second

        return (x * x, x**3), grad

    return lambda x: parts(x)[0] + 0 * parts(x)[1]


def _deciding(factor: float) -> Any:
    @tf.custom_gradient
    def f(x: Any) -> Any:
        kept = [x]

        def grad(g: Any) -> Any:
            x = kept.pop()
            return factor * g * x if g[0] > 0 else g * factor * x

        return x * x, grad

    return f


X = np.array([0.3, -0.4])
MAKERS = [_by_tape, _by_list, _of_two]


def _tape(f: Any, method: str, **flag: Any) -> Any:
    x = tf.constant(X)
    with tf.GradientTape(**flag) as tape:
        tape.watch(x)
        y = f(x)
    return getattr(tape, method)(y, x).numpy()


@pytest.mark.parametrize("flag", [{}, {"verify": True}, {"verify": "strict"}])
@pytest.mark.parametrize("make", MAKERS)
def test_a_function_for_one_call_has_a_gradient_and_a_jacobian(make: Callable[[float], Any], flag: Any) -> None:
    np.testing.assert_allclose(_tape(make(2.0), "gradient", **flag), 2 * X, rtol=1e-15)
    np.testing.assert_allclose(_tape(make(2.0), "jacobian", **flag), np.diag(2 * X), rtol=1e-15)


@pytest.mark.parametrize("make", MAKERS)
def test_a_right_function_for_one_call_is_correct(make: Callable[[float], Any]) -> None:
    assert check(make(2.0), X).verdict == "correct"
    assert check(lambda x: tf.sin(make(2.0)(x)) ** 3, X).ok


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("method", ["gradient", "jacobian"])
def test_a_wrong_function_for_one_call_is_found_and_named(make: Callable[[float], Any], method: str) -> None:
    with pytest.raises(VerificationError, match="rule") as caught:
        _tape(make(2.5), method, verify=True)
    assert caught.value.report.findings[0].op in ("f", "parts")


def test_a_function_for_one_call_that_decides_by_its_cotangent_is_undecided_beside_it() -> None:
    (found,) = check(lambda x: tf.sin(_deciding(2.0)(x)) ** 3, X).findings
    assert found.verdict == "undecided"
    assert "a second call of the gradient function of f, which raises IndexError: pop from empty list" in found.reason


@pytest.mark.parametrize("make", MAKERS)
def test_a_function_for_one_call_is_checked_at_order_2(make: Callable[[float], Any]) -> None:
    assert check(lambda x: make(2.0)(x) * tf.exp(x), X, order=2).ok
    wrong = [v for v in check(lambda x: make(2.5)(x) * tf.exp(x), X, order=2).findings if not v.ok]
    assert {v.verdict for v in wrong} == {"rule"} and wrong[0].op in ("f", "parts")


@pytest.mark.parametrize(
    ("f", "order"),
    [
        (lambda x: _by_list(2.0)(x) * tf.exp(x), 3),  # the third derivative is that of a second call
        (lambda x: tf.sin(_deciding(2.0)(x)) ** 3, 2),
    ],
)
def test_a_higher_order_that_needs_a_second_call_is_undecided(f: Any, order: int) -> None:
    (found,) = check(f, X, order=order).findings
    assert found.verdict == "undecided"
    assert "a second call of the gradient function of f, which raises IndexError: pop from empty list" in found.reason


def test_a_wrong_function_for_one_call_is_named_also_if_a_higher_order_is_undecided() -> None:
    assert check(lambda x: _by_list(2.5)(x) * tf.exp(x), X, order=3).verdict == "rule"


@pytest.mark.parametrize("flag", [{}, {"verify": True}])
def test_a_second_gradient_of_a_tape_raises_the_error_of_the_function(flag: Any) -> None:
    x = tf.constant(X)
    with tf.GradientTape(persistent=True, **flag) as tape:
        tape.watch(x)
        y = _by_list(2.0)(x)
    tape.gradient(y, x)
    with pytest.raises(IndexError, match="pop from empty list"):
        tape.gradient(y, x)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("rows", [1, 2])
def test_a_jacobian_under_an_outer_tape_repeats_the_ops_of_a_function_for_one_call(
    make: Callable[[float], Any], rows: int
) -> None:
    x = tf.constant(X[:rows] if rows == 2 else np.array([0.3]))
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = make(2.0)(x)
        jacobian = inner.jacobian(y, x)
        total = tf.reduce_sum(jacobian * jacobian)
    np.testing.assert_allclose(jacobian.numpy(), np.diag(2 * x.numpy()), rtol=1e-15)
    np.testing.assert_allclose(outer.gradient(total, x).numpy(), 8 * x.numpy(), rtol=1e-15)


def test_rows_of_a_jacobian_under_an_outer_tape_depend_on_their_own_cotangents() -> None:
    x, w = tf.constant(X), tf.constant(np.array([2.0, 5.0]))
    with tf.GradientTape() as outer:
        outer.watch(w)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = w * _by_list(2.0)(x)
        jacobian = inner.jacobian(y, x)
    np.testing.assert_allclose(outer.jacobian(jacobian, w).numpy().sum(axis=(0, 1)), 2 * X, rtol=1e-15)


def test_a_jacobian_runs_the_ops_of_one_call_again_only_if_they_tell_all_rows() -> None:
    with pytest.raises(IndexError, match="pop from empty list"):
        _tape(_deciding(2.0), "jacobian")


def test_an_error_for_one_row_of_a_jacobian_is_raised() -> None:
    @tf.custom_gradient
    def f(x: Any) -> Any:
        def grad(g: Any) -> Any:
            if g.numpy()[1]:
                raise ZeroDivisionError("the second row")
            return 2 * g * x

        return x * x, grad

    with pytest.raises(ZeroDivisionError, match="the second row"):
        _tape(f, "jacobian")


@pytest.mark.parametrize("flag", [{}, {"verify": True}])
def test_rows_that_a_function_treats_in_its_own_way_are_calls_of_the_function(flag: Any) -> None:
    @tf.custom_gradient(declared="limits the gradient")
    def f(x: Any) -> Any:
        return x * x, lambda g: tf.clip_by_norm(g, 0.5) if g.numpy()[0] else g

    np.testing.assert_array_equal(_tape(f, "jacobian", **flag), [[0.5, 0.0], [0.0, 1.0]])


def test_a_checked_gradient_calls_a_right_function_once() -> None:
    calls = []

    @tf.custom_gradient
    def f(x: Any) -> Any:
        def grad(g: Any) -> Any:
            calls.append(1)
            return 2 * g * x

        return x * x, grad

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _tape(f, "gradient", verify=True)
    assert calls == [1]


def test_a_jacobian_through_a_custom_gradient_loads_no_part_of_the_check() -> None:
    source = """
import sys
import gtape as tf
square = tf.custom_gradient(lambda x: (x * x, lambda g: 2 * g * x))
x = tf.Variable([1.0, 2.0])
with tf.GradientTape() as tape:
    y = square(x)
tape.jacobian(y, x)
print([name for name in sys.modules if name.startswith(("gtape.symbolic", "gtape.verify", "sympy", "flint"))])
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
