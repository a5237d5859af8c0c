"""Programs that compute in fewer digits than their sources have are judged by the digits that they compute in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check, exact, judge

PAIRS = [("float32", "float16"), ("float64", "float32"), ("float64", "float16")]
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "elementwise": lambda x, w: tf.sin(x) * tf.exp(-x),
    "layers": lambda x, w: tf.tanh(tf.matmul(x, w)) ** 2,
    "softmax": lambda x, w: tf.nn.log_softmax(tf.matmul(x, w))[:, 0],
    "norm": lambda x, w: tf.clip_by_norm(x, 1.0),
    "variance": lambda x, w: tf.math.reduce_variance(x, 0) ** 2,
}


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("wide", "narrow"), PAIRS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_in_fewer_digits_is_no_alarm(name: str, wide: str, narrow: str, order: int) -> None:
    rng = np.random.default_rng(5)
    for _ in range(3):
        x, w = rng.normal(size=(3, 2)), tf.constant(rng.normal(size=(2, 2)), narrow)
        report = check(
            lambda x, w=w: tf.reduce_sum(tf.cast(PROGRAMS[name](tf.cast(x, narrow), w), wide)),
            tf.constant(x, wide),
            order=order,
        )
        assert report.ok, report


@pytest.mark.parametrize(("wide", "narrow"), PAIRS)
def test_training_with_master_weights_is_no_alarm(wide: str, narrow: str) -> None:
    rng = np.random.default_rng(1)
    x, y = tf.constant(rng.normal(size=(16, 4)), narrow), tf.constant(rng.normal(size=(16, 2)), wide)
    weights = [tf.Variable(rng.normal(size=s) / 2, dtype=wide) for s in ((4, 8), (8,), (8, 2))]
    for _ in range(3):
        with tf.GradientTape(verify=True) as tape:
            w1, b1, w2 = [tf.cast(w, narrow) for w in weights]
            made = tf.matmul(tf.nn.gelu(tf.matmul(x, w1) + b1), w2)
            loss = tf.reduce_mean((tf.cast(made, wide) - y) ** 2) + 0.01 * tf.reduce_sum(weights[0] ** 2)
        for w, g in zip(weights, tape.gradient(loss, weights), strict=True):
            w.assign_sub(0.05 * g)


@pytest.mark.parametrize(("wide", "narrow"), PAIRS)
def test_the_digits_of_the_coarse_dtype_are_asked_for(wide: str, narrow: str) -> None:
    report = check(lambda x: tf.cast((1.0 - tf.cos(tf.cast(x, narrow))), wide) / x**2, tf.constant(1 / 64, wide))
    assert not report.ok
    (finding,) = [f for f in report.findings if not f.ok]
    digits = {"float16": 3, "float32": 7}[narrow]
    assert finding.verdict in ("cancellation", "range") and f" of {digits} digits" in finding.reason


@pytest.mark.parametrize(("wide", "narrow"), PAIRS)
def test_a_wrong_rule_in_fewer_digits_is_found(wide: str, narrow: str) -> None:
    @tf.custom_gradient
    def wrong(x: Any) -> Any:
        return tf.sin(x), lambda g: g * tf.cos(x) * 1.1

    report = check(
        lambda x: tf.reduce_sum(tf.cast(wrong(tf.cast(x, narrow)), wide) ** 2), tf.constant([0.25, 0.5, 0.875], wide)
    )
    assert not report.ok and report.verdict == "rule"


def test_an_input_that_is_read_in_both_dtypes_moves_by_its_own_unit() -> None:
    """Cancellation of wide numbers stays told, although another op reads the input in fewer digits."""

    def f(x: Any) -> Any:
        return (1.0 - tf.cos(x)) / x**2 + 0.0 * tf.cast(tf.cast(x, "float32"), "float64")

    report = check(f, 1e-4)
    assert {f.verdict for f in report.findings} == {"cancellation"}


def _losing(w: Any) -> Any:
    return (1.0 - tf.cos(w)) / w**2  # 4 of 15 digits of its derivative are right at 0.003


def test_a_source_that_no_coarse_number_reaches_keeps_its_own_digits() -> None:
    def f(w: Any, x: Any) -> Any:
        return _losing(w) + tf.cast(2.0 * tf.cast(x, "float16"), "float64")

    report = check(f, 3e-3, 0.5)
    assert not report.ok
    assert [(f.verdict, f.element) for f in report.findings if not f.ok] == [("cancellation", (0, ()))]


def test_an_element_that_no_coarse_number_reaches_keeps_its_own_digits() -> None:
    def f(x: Any) -> Any:
        return _losing(x[0]) + tf.reduce_sum(tf.cast(2.0 * tf.cast(x[1:], "float16"), "float64"))

    report = check(f, np.array([3e-3, 0.5, 0.25]))
    assert not report.ok
    assert [(f.verdict, f.element) for f in report.findings if not f.ok] == [("cancellation", (0, (0,)))]


def _rounding(dtype: str, declared: str | None = None) -> Any:
    """A square whose gradient function rounds to `dtype`."""

    @tf.custom_gradient(declared=declared)
    def square(x: Any) -> Any:
        return x * x, lambda g: tf.cast(tf.cast(2.0 * g * x, dtype), x.dtype)

    return square


def _inner_slope(f: Any, w: Any) -> Any:
    x = tf.constant(0.7, w.dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        u = f(w * x)
    return tape.gradient(u, x)


def _inner_penalty(f: Any, w: Any) -> Any:
    return _inner_slope(f, w) ** 2 + w


def _inner_rows(f: Any, w: Any) -> Any:
    x = tf.constant([0.7, 0.3], w.dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        u = f(w * x)
    return tf.reduce_sum(tape.jacobian(u, x))


def _inner_step(f: Any, w: Any) -> Any:
    return tf.sin(w - 0.1 * _inner_slope(f, w))


@pytest.mark.parametrize("outer", [_inner_slope, _inner_penalty, _inner_rows, _inner_step])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_rule_of_an_inner_gradient_that_rounds_coarsely_is_unstable_and_named(dtype: str, outer: Any) -> None:
    report = check(lambda w: outer(_rounding(dtype), w), 1.234567)
    (found,) = [f for f in report.findings if not f.ok]
    assert (report.verdict, found.op, found.ok) == ("unstable", "square", False)
    assert f"computes in {dtype}" in found.reason


def test_a_claim_has_the_digits_of_the_program_whatever_its_rules_round_to() -> None:
    def slope(w: Any) -> Any:
        return _inner_slope(_rounding("float32"), w)

    right = float(str(exact(slope, 1.234567)))
    assert judge(slope, 1.234567, np.float64(right)).ok
    assert not judge(slope, 1.234567, np.float64(right * (1 + 1e-6))).ok


@pytest.mark.parametrize("casts", ["in the program", "in a declared rule"])
def test_a_coarse_dtype_that_the_user_chose_for_the_program_is_no_fault(casts: str) -> None:
    square = _rounding("float32", "rounds gradients") if casts == "in a declared rule" else lambda x: x * x

    def program(w: Any) -> Any:
        v = w if casts == "in a declared rule" else tf.cast(tf.cast(w, "float32"), w.dtype)
        return _inner_slope(square, v)

    assert check(program, 1.234567).ok
