"""Points at which a function has a value, but none beside it: there is no derivative, only a convention."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check, exact, judge

TWO = np.float64(-2.0)

ALONE: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "x**x": (lambda x: x**x, (-2.0,)),
    "a power by its exponent": (lambda y: tf.constant(TWO) ** y, (2.0,)),
    "a power by both": (lambda x, y: x**y, (-2.0, 3.0)),
    "one element": (lambda x, y: tf.reduce_sum(x**y), (np.array([2.0, -2.0]), np.array([0.5, 3.0]))),
    "a logarithm of a power": (lambda y: tf.math.log(tf.constant(TWO) ** y), (2.0,)),
    "xlogy": (lambda x: tf.math.xlogy(x, tf.constant(TWO)), (0.0,)),
    "xlog1py": (lambda x: tf.math.xlog1py(x, tf.constant(TWO)), (0.0,)),
}
BESIDE: dict[str, tuple[Any, tuple[Any, ...], Any]] = {
    "by the base": (lambda x: x**3, (-2.0,), 12.0),
    "a constant exponent": (lambda x, y: x ** tf.stop_gradient(y), (-2.0, 3.0), (12.0, 0.0)),
    "an exponent that relu keeps at 0": (lambda x, y: x ** tf.nn.relu(y), (-2.0, -3.0), (0.0, 0.0)),
    "a rounded exponent": (lambda x, y: x ** tf.round(y), (-2.0, 3.2), (12.0, 0.0)),
    "a power that a selection leaves out": (lambda x: tf.where(x > 0, x**x, 3.0 * x), (-2.0,), 3.0),
    "xlogy by y": (lambda y: tf.math.xlogy(tf.constant(0.0, tf.float64), y), (-1.0,), 0.0),
}


@pytest.mark.parametrize("name", ALONE)
def test_the_number_at_a_value_alone_is_a_convention(name: str) -> None:
    f, at = ALONE[name]
    report = check(f, *at)
    assert report.verdict == "convention" and report.ok
    assert any("on neither side" in v.reason for v in report.findings)


@pytest.mark.parametrize("name", ALONE)
def test_there_is_no_exact_derivative_at_a_value_alone(name: str) -> None:
    f, at = ALONE[name]
    with pytest.raises(ArithmeticError, match=r"there is no derivative here: .* on neither side"):
        exact(f, *at)


@pytest.mark.parametrize("name", BESIDE)
def test_functions_with_values_beside_the_point_keep_their_derivatives(name: str) -> None:
    f, at, slope = BESIDE[name]
    assert check(f, *at).verdict == "correct"
    found = exact(f, *at)
    np.testing.assert_array_equal(np.array(found, np.float64), slope)


@pytest.mark.parametrize("claim", [np.nan, np.inf, 7.0])
def test_a_claim_at_a_value_alone_is_told_that_there_is_no_derivative(claim: float) -> None:
    for f, at in (ALONE["x**x"], ALONE["a power by its exponent"]):
        report = judge(f, *at, claim)
        assert report.verdict == "domain" and not report.ok
        assert all("overflows" not in v.reason for v in report.findings)


def test_claims_by_elements_with_a_derivative_are_compared_with_it() -> None:
    f, at = ALONE["a power by both"]
    assert judge(f, at, (12.0, 0.0)).verdict == "convention"
    assert judge(f, at, (12.0, np.nan)).verdict == "domain"
    assert judge(f, at, (13.0, 0.0)).verdict == "rule"


def test_second_derivatives_at_a_value_alone_are_conventions_too() -> None:
    f, at = ALONE["a power by both"]
    report = check(f, *at, order=2)
    assert report.ok and report.verdict == "convention"
