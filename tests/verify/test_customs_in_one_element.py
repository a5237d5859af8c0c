"""A custom gradient that is wrong in one element is found and named, however many elements are right."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check
from gtape.verify.verdicts.collect import collecting
from gtape.verify.verdicts.verdict import Report

F = Callable[[Any], Any]


def sine(factors: Any) -> F:
    """A sine whose gradient is wrong by a factor for each element."""

    @tf.custom_gradient
    def sine(x: Any) -> Any:
        return tf.sin(x), lambda g: g * tf.cos(x) * tf.constant(factors)

    return sine


def points(n: int, first: float, dtype: Any) -> Any:
    x = np.linspace(0.2, 1.2, n).astype(dtype)
    x[0] = first
    return x


@pytest.mark.parametrize("first", [0.2, 1.5707])
@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-4), ("float32", 1e-3), ("float64", 2.0**-46)])
@pytest.mark.parametrize("n", [1, 30, 1000])
def test_the_number_of_right_elements_does_not_decide_about_a_wrong_one(
    n: int, dtype: str, error: float, first: float
) -> None:
    factors = np.ones(n, dtype)
    factors[0] += error
    report = check(lambda x: tf.reduce_sum(sine(factors)(x)), points(n, first, dtype))
    found = report.findings[0]
    assert (report.ok, found.verdict, found.op, found.element) == (False, "rule", "sine", (0, (0,)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [30, 1000])
def test_a_small_error_of_all_elements_is_a_wrong_rule_in_large_arrays_too(n: int, dtype: str) -> None:
    factors = np.full(n, 1 + 32 * np.finfo(dtype).eps, dtype)
    report = check(lambda x: tf.reduce_sum(sine(factors)(x)), points(n, 0.2, dtype))
    assert (report.verdict, report.findings[0].op) == ("rule", "sine")


@pytest.mark.parametrize(("n", "error"), [(8, 1e-3), (32, 1e-4), (48, 1e-2)])
def test_a_wrong_element_of_a_product_of_matrices_is_found_and_named(n: int, error: float) -> None:
    a, b = np.random.default_rng(0).normal(size=(2, n, n)).astype(np.float32)
    factors = np.ones((n, n), np.float32)
    factors[0, 0] += error

    @tf.custom_gradient
    def product(a: Any, b: Any) -> Any:
        def back(g: Any) -> Any:
            return tf.matmul(g, b, transpose_b=True) * tf.constant(factors), tf.matmul(a, g, transpose_a=True)

        return tf.matmul(a, b), back

    report = check(lambda a: tf.reduce_sum(tf.square(product(a, tf.constant(b)))), a)
    assert (report.ok, report.verdict, report.findings[0].op) == (False, "rule", "product")


def test_a_strict_tape_returns_no_number_with_one_wrong_element() -> None:
    factors = np.ones(1000, np.float32)
    factors[0] = 1.001
    with tf.GradientTape(verify="strict") as tape:
        x = tf.constant(points(1000, 0.2, "float32"))
        tape.watch(x)
        y = tf.reduce_sum(sine(factors)(x))
    with pytest.raises(tf.VerificationError, match=r"sine, source 0, element \[0\]"):
        tape.gradient(y, x)


def right_in_value(factors: Any) -> F:
    """A sine whose second derivative is wrong by a factor for each element."""

    @tf.custom_gradient
    def right_in_value(x: Any) -> Any:
        c, times = tf.cos(x), tf.constant(factors)
        return tf.sin(x), lambda g: g * (c * times + tf.stop_gradient(c) * (1 - times))

    return right_in_value


@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-4), ("float64", 2.0**-44)])
@pytest.mark.parametrize("n", [1, 40])
def test_a_second_derivative_that_is_wrong_in_one_element_is_found(n: int, dtype: str, error: float) -> None:
    factors = np.ones(n, dtype)
    factors[0] += error
    report = check(lambda x: tf.reduce_sum(right_in_value(factors)(x)), points(n, 0.2, dtype), order=2)
    found = report.findings[0]
    assert (report.ok, found.verdict, found.op) == (False, "rule", "right_in_value")


def tangent(f: F, x: Any) -> Report:
    """The report of the check of a tangent along ones."""
    x = tf.constant(x)
    with collecting() as report, tf.verifying(), contextlib.suppress(tf.VerificationError):
        with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
            y = f(x)
        accumulator.jvp(y)
    return report


@pytest.mark.parametrize("n", [1, 30, 1000])
def test_forward_mode_finds_a_wrong_element_whose_error_roundings_on_the_way_would_excuse(n: int) -> None:
    factors = np.ones(n)
    factors[0] += 2.0**-44
    report = tangent(lambda x: sine(factors)(tf.reduce_sum(x) * tf.ones_like(x) / n), points(n, 0.2, "float64"))
    found = report.findings[0]
    assert (report.ok, found.verdict, found.op, found.element) == (False, "rule", "sine", (0, (0,)))


@pytest.mark.parametrize("wrong", [0, 7, 8, 9, 19])
def test_every_call_of_a_custom_gradient_with_rounded_constants_is_compared(wrong: int) -> None:
    @tf.custom_gradient
    def tail(x: Any) -> Any:
        scale = np.sqrt(2 / np.pi) * (1.5 if x.numpy() > 1 else 1.0)
        return tf.math.erf(x / np.sqrt(2.0)), lambda g: g * tf.exp(-x * x / 2) * scale

    def f(x: Any) -> Any:
        return tf.add_n([tail(x * 1.1) if k == wrong else tail(x / (k + 2)) for k in range(20)])

    report = check(f, np.float64(1.0))
    assert (report.ok, report.verdict, report.findings[0].op) == (False, "rule", "tail")


@pytest.mark.parametrize("n", [1, 12])
def test_second_derivatives_and_tangents_of_right_gradients_stay_right_in_all_elements(n: int) -> None:
    x = 1.5 * np.random.default_rng(7).normal(size=n)
    for f in (tail, sine(np.ones(n))):
        report = check(lambda x, f=f: tf.reduce_sum(f(x) ** 3), x, order=2)
        assert report.ok, report
    for f in (cross_entropy, normalized, variance, tail):
        report = tangent(lambda x, f=f: f(tf.reduce_sum(x) * x / n), x)
        assert {found.verdict for found in report.findings} <= {"conditioning", "cancellation"}, report


def test_a_reason_says_that_the_error_is_one_of_one_element() -> None:
    factors = np.ones(1000, np.float32)
    factors[0] = 1.0001
    report = check(lambda x: tf.reduce_sum(sine(factors)(x)), points(1000, 0.2, "float32"))
    assert "(relative error 0.0001 in one element)" in report.findings[0].reason


def test_a_wrong_element_of_a_gradient_in_numpy_is_found_if_it_is_no_small_one() -> None:
    factors = np.ones(1000, np.float32)
    factors[0] = 1.0001

    @tf.custom_gradient
    def in_numpy(x: Any) -> Any:
        return tf.sin(x), lambda g: tf.constant(g.numpy() * np.cos(x.numpy()) * factors)

    report = check(lambda x: tf.reduce_sum(in_numpy(x)), points(1000, 0.2, "float32"))
    assert (report.verdict, report.findings[0].op) == ("rule", "in_numpy")


@tf.custom_gradient
def cross_entropy(x: Any) -> Any:
    """Of the first class, with a gradient that saves probabilities as an array."""
    first = np.eye(x.shape[0], dtype=x.dtype.as_numpy_dtype)[0]
    shifted = x - tf.reduce_max(x)
    logs = shifted - tf.math.log(tf.reduce_sum(tf.exp(shifted)))
    p = tf.exp(logs).numpy()
    return -tf.reduce_sum(logs * first), lambda g: g * (p - first)


@tf.custom_gradient
def normalized(x: Any) -> Any:
    mean = tf.reduce_mean(x)
    scale = tf.math.rsqrt(tf.reduce_mean(tf.square(x - mean)) + 1e-5)
    y = (x - mean) * scale
    saved, by = y.numpy(), scale.numpy()
    return y, lambda g: by * (g - tf.reduce_mean(g) - saved * tf.reduce_mean(g * saved))


@tf.custom_gradient
def variance(x: Any) -> Any:
    mean = tf.reduce_mean(x)
    saved = mean.numpy()
    return tf.reduce_mean(tf.square(x - mean)), lambda g: g * 2 * (x - saved) / x.shape[0]


@tf.custom_gradient
def convolved(x: Any) -> Any:
    """With a gradient by Fourier transforms of NumPy, whose errors are relative to the largest element."""
    n = x.shape[0]
    row = np.exp(-np.arange(n) / 3).astype(x.dtype.as_numpy_dtype)
    matrix = row[np.abs(np.subtract.outer(np.arange(n), np.arange(n)))]
    circle = np.fft.fft(np.concatenate([row, [0], row[:0:-1]]))

    def back(g: Any) -> Any:
        product = circle * np.fft.fft(np.concatenate([g.numpy(), np.zeros(n)]))
        return tf.constant(np.fft.ifft(product).real[:n].astype(row.dtype))

    return tf.linalg.matvec(tf.constant(matrix), x), back


@tf.custom_gradient
def tail(x: Any) -> Any:
    scale = 1 / np.sqrt(2.0)
    return tf.math.erf(x * scale), lambda g: g * tf.exp(-x * x / 2) * np.sqrt(2 / np.pi)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("f", [cross_entropy, normalized, variance, convolved, tail], ids=lambda f: f.__name__)
def test_right_gradients_that_cancel_in_some_of_many_elements_stay_right(f: F, dtype: str) -> None:
    x = 1.5 * np.random.default_rng(7).normal(size=100)
    report = check(lambda x: tf.reduce_sum(f(x) ** 3), x.astype(dtype))
    assert report.ok, report
