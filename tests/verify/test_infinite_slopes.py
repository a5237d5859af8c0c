"""Infinite slopes: a factor at 0 switches them off only if its own slope is finite, and a number that a tape loses at
them is no cancellation.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtape as tf
from gtape.verify import check, exact, judge

F = Callable[[Any], Any]

# (function, point, slope), where the derivative of the product is no product of derivatives.
PRODUCTS: dict[str, tuple[F, float, float]] = {
    "two roots": (lambda x: tf.sqrt(x) * tf.sqrt(x), 0.0, 1.0),
    "two roots, and a line": (lambda x: tf.sqrt(x) * tf.sqrt(x) + x, 0.0, 2.0),
    "two arc cosines": (lambda x: tf.acos(x) * tf.acos(x), 1.0, -2.0),
    "three cube roots": (lambda x: tf.math.cbrt(x) * tf.math.cbrt(x) * tf.math.cbrt(x), 0.0, 1.0),
    "two powers": (lambda x: x**0.5 * x**0.5, 0.0, 1.0),
    "a root and the sine of a root": (lambda x: tf.sqrt(x) * tf.sin(tf.sqrt(x)), 0.0, 1.0),
    "a root and a logarithm of a root": (lambda x: tf.sqrt(x) * tf.math.log1p(tf.sqrt(x)), 0.0, 1.0),
    "two roots without NaN": (lambda x: tf.math.multiply_no_nan(tf.sqrt(x), tf.sqrt(x)), 0.0, 1.0),
    "two roots of a circle": (lambda x: tf.sqrt(1 - x * x) * tf.sqrt(1 - x * x), 1.0, -2.0),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_of_two_infinite_slopes_has_the_slope_of_the_whole_function(name: str, dtype: Any) -> None:
    f, point, slope = PRODUCTS[name]
    at = dtype(point)
    assert exact(f, at)[()].nearest() == slope
    assert judge(f, at, dtype(slope)).ok
    assert not judge(f, at, dtype(slope - 1)).ok and not judge(f, at, dtype(0)).ok
    assert not check(f, at).ok


def test_a_tape_that_loses_the_slope_of_a_product_of_roots_fails_under_the_flag() -> None:
    p, q = tf.Variable(np.array([0.0, 1.0])), np.array([0.0, 1.0])
    with tf.GradientTape(verify="strict") as tape:
        apart = tf.sqrt(p) - tf.sqrt(q)
        y = tf.reduce_sum(apart * apart)  # a squared Hellinger distance
    with pytest.raises(tf.VerificationError, match="sqrt is not differentiable there") as raised:
        tape.gradient(y, p)
    assert [f.exact[:4] for f in raised.value.report.findings if not f.ok] == ["1.00"]


def test_a_tangent_that_loses_the_slope_of_a_product_of_roots_fails() -> None:
    x = tf.constant(0.0, tf.float64)
    with tf.verifying("strict"), tf.autodiff.ForwardAccumulator(x, tf.constant(1.0, tf.float64)) as accumulator:
        y = tf.sqrt(x) * tf.sqrt(x)
    with pytest.raises(tf.VerificationError, match="sqrt") as raised:
        accumulator.jvp(y)
    assert [(f.verdict, f.exact[:4]) for f in raised.value.report.findings if not f.ok] == [("domain", "1.00")]


def test_a_product_of_the_roots_of_two_numbers_has_no_derivative_at_0() -> None:
    report = check(lambda x: tf.sqrt(x[0]) * tf.sqrt(x[1]), np.zeros(2))
    assert (report.verdict, report.ok) == ("domain", False)


# (function, point, derivative), where one factor is exactly 0 and its slope is finite.
SWITCHED_OFF: dict[str, tuple[F, Any, Any]] = {
    "a constant 0": (lambda x: tf.sqrt(x) * np.zeros(()), 0.0, 0.0),
    "a constant 0, without NaN": (lambda x: tf.math.multiply_no_nan(tf.sqrt(x), np.zeros(())), 0.0, 0.0),
    "a line": (lambda x: tf.sqrt(x) * x, 0.0, 0.0),
    "a line, and a root": (lambda x: tf.sqrt(x) * x * tf.sqrt(x), 0.0, 0.0),
    "another number": (lambda x: tf.sqrt(x[0]) * x[1], np.array([0.0, 0.0]), [0.0, 0.0]),
    "a unit that is off": (lambda x: tf.sqrt(x) * tf.nn.relu(x - 1.0), 0.0, 0.0),
    "a choice between roots": (lambda x: tf.where(x > 1.0, tf.sqrt(x), 3.0 * x), 0.0, 3.0),
    "both ends of an interval": (
        lambda x: tf.clip_by_value(tf.sqrt(x), tf.math.cbrt(x) - 3.0, x - 1.0), 0.0, 1.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SWITCHED_OFF)
def test_a_factor_at_0_with_a_finite_slope_switches_an_infinite_slope_off(name: str) -> None:
    f, point, slope = SWITCHED_OFF[name]
    np.testing.assert_array_equal(np.vectorize(lambda e: e.nearest())(exact(f, point)), slope)
    assert judge(f, point, np.array(slope)).ok


# (function, point): the exact inputs of sqrt are 0, and floats reach them.
LOST: dict[str, tuple[F, float]] = {
    "circle": (lambda x: tf.sqrt(1 - x * x) ** 2, 1.0),
    "product over a circle": (lambda x: tf.sqrt(1 - x * x) * tf.sqrt(1 - x * x), 1.0),
    "parabola": (lambda x: tf.sqrt(x * x - x) ** 2, 1.0),
    "small part": (lambda x: 1e-3 * tf.sqrt(1 - x * x) ** 2 + x, 1.0),
    "several elements": (lambda x: tf.reduce_sum(tf.sqrt(1 - x * x) * np.ones(3)) ** 2, 1.0),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", LOST)
def test_a_number_that_a_tape_loses_at_an_infinite_slope_is_no_cancellation(name: str, dtype: Any) -> None:
    f, point = LOST[name]
    report = check(f, dtype(point))
    assert [(f.verdict, f.ok, f.op) for f in report.findings] == [("domain", False, "sqrt")], report


def test_digits_that_cancel_beside_an_infinite_slope_are_a_cancellation() -> None:
    def f(x: Any) -> Any:
        return (1 - tf.cos(x)) / x**2 + tf.sqrt(x - 1e-4) ** 4

    report = check(f, 1e-4)
    assert (report.verdict, report.ok) == ("cancellation", False), report
    report = check(lambda x: tf.sqrt((1.0 + x) - 1.0) ** 2, 1e-17)  # exactly, sqrt has a finite slope
    assert (report.verdict, report.ok) != ("domain", False), report


FACTORS: list[tuple[F, Fraction]] = [
    (tf.sqrt, Fraction(1, 2)),
    (lambda x: tf.asin(tf.sqrt(x)), Fraction(1, 2)),
    (tf.math.cbrt, Fraction(1, 3)),
    (lambda x: x, Fraction(1)),
    (tf.math.expm1, Fraction(1)),
]


@settings(max_examples=max(8, settings.default.max_examples // 5))
@given(st.lists(st.sampled_from(FACTORS), min_size=2, max_size=4))
def test_no_product_of_powers_has_a_slope_that_is_not_its_own(factors: list[tuple[F, Fraction]]) -> None:
    def f(x: Any) -> Any:
        y = factors[0][0](x)
        for factor, _ in factors[1:]:
            y = y * factor(x)
        return y

    power = sum(p for _, p in factors)
    try:
        found = exact(f, 0.0)[()].nearest()
    except ArithmeticError:
        return  # the slope has no bound, or approaches 0 slowly
    assert power >= 1 and found == (power == 1)


# Polar coordinates: each function is x, although its angle has no derivative at the origin.
POLAR: dict[str, Callable[[Any], Any]] = {
    "complex": lambda x: tf.abs(tf.complex(x[0], x[1])) * tf.cos(tf.math.angle(tf.complex(x[0], x[1]))),
    "norm": lambda x: tf.norm(x) * tf.cos(tf.atan2(x[1], x[0])),
}


@pytest.mark.parametrize("name", POLAR)
def test_an_op_without_a_derivative_is_named_with_that_of_the_whole_function_and_not_its_rule(name: str) -> None:
    report = check(POLAR[name], np.zeros(2))
    (first,) = [f for f in report.findings if not f.ok]
    assert first.verdict == "domain" and first.op == "atan2" and first.count == 2
    assert "the function as a whole has a derivative here" in first.reason
    assert "atan2 is not differentiable there" in first.reason
    assert float(first.exact or "nan") == [1.0, 0.0][first.element[1][0]]
    assert check(POLAR[name], np.array([0.5, 0.25])).ok
