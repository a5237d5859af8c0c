"""Exact inputs of ops that lie nearer to an end of a domain than the usual bits tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gtape as tf
from gtape.verify import check, exact, judge
from gtape.verify.causes.ends import further_bits

Function = Callable[[Any], Any]


def _tail(x: Any) -> Any:
    return 1.0 - tf.tanh(x)


# Each with a point at which an enclosure of 3200 bits holds the end, and with the derivative there.
BEYOND: list[tuple[Function, float, float]] = [
    (lambda x: tf.atanh(tf.tanh(x)), 2000.0, 1.0),
    (lambda x: tf.math.log(1.0 - tf.sigmoid(x)), 3000.0, -1.0),
    (lambda x: tf.math.log1p(-tf.tanh(x)), 2000.0, -2.0),
    (lambda x: tf.math.log(tf.exp(-x) * _tail(x)), 1500.0, -3.0),
    (lambda x: tf.math.erfinv(tf.math.erf(x)), 60.0, 1.0),
    (lambda x: 1.0 / tf.math.log(_tail(x)), 2000.0, float(2 / (mpmath.log(2) - 4000) ** 2)),
    (lambda x: tf.math.xlogy(2.0, _tail(x)), 2000.0, -4.0),
    (lambda x: tf.linalg.logdet(tf.stack([[_tail(x), 0 * x], [0 * x, x]])), 2000.0, -1.9995),
]


@pytest.mark.parametrize(("f", "x", "slope"), BEYOND)
def test_more_bits_tell_an_exact_input_from_the_end_of_a_domain(f: Function, x: float, slope: float) -> None:
    assert exact(f, x)[()].nearest() == pytest.approx(slope, rel=1e-12)
    assert judge(f, x, slope).ok
    report = check(f, x)
    assert report.verdict in ("range", "unstable"), report


@given(st.floats(1200.0, 12_000.0), st.sampled_from([tf.math.log, tf.math.log1p]))
def test_the_logarithm_of_a_tail_has_its_derivative_however_small_the_tail_is(x: float, log: Function) -> None:
    def f(x: Any) -> Any:
        return log(_tail(x) if log is tf.math.log else -tf.tanh(x))

    assert exact(f, x)[()].nearest() == -2.0
    assert check(f, x).verdict == "range"


def test_arrays_with_one_such_element_have_all_their_derivatives() -> None:
    x = np.array([0.5, 2000.0, 3000.0])
    found = exact(lambda x: tf.reduce_sum(tf.atanh(tf.tanh(x))), x)
    assert [e.nearest() for e in found] == [1.0, 1.0, 1.0]


def test_second_derivatives_take_more_bits_too() -> None:
    f = lambda x: x * tf.atanh(tf.tanh(x))
    assert exact(f, 2000.0, order=2)[()].nearest() == 2.0
    assert check(f, 2000.0, order=2).verdict == "range"


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: tf.atanh(tf.tanh(x)), 30_000.0),
        (lambda x: tf.math.erfinv(tf.math.erf(x)), 100.0),
        (lambda x: tf.math.log(_tail(x)), 1e6),
        (lambda x: tf.math.log(tf.sin(x) ** 2 + tf.cos(x) ** 2 - 1.0), 0.3),  # 0, which no enclosure tells
        (lambda x: tf.sqrt(tf.sin(x) ** 2 + tf.cos(x) ** 2 - 1.0), 0.3),
    ],
)
def test_what_the_most_bits_leave_open_is_undecided(f: Function, x: float) -> None:
    report = check(f, x)
    assert report.verdict == judge(f, x, 1.0).verdict == "undecided"
    assert "holds an end of its domain" in report.findings[0].reason
    with pytest.raises(ArithmeticError, match=r"is not decided: .* holds an end of its domain"):
        exact(f, x)


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (tf.math.log, 0.0),
        (lambda x: tf.math.log(x - x), 4.0),
        (lambda x: tf.math.log(tf.exp(x) - tf.exp(x)), 4.0),  # exactly 0, because both are one number
        (lambda x: tf.math.log(tf.sin(x)), 4.0),  # all of the enclosure lies outside
        (lambda x: tf.pow(tf.sin(x), 0.5), 4.0),
        (lambda x: tf.atanh(2.0 + tf.exp(x)), 1.0),
    ],
)
def test_an_exact_end_and_points_outside_stay_domain(f: Function, x: float) -> None:
    assert check(f, x).verdict == judge(f, x, 1.0).verdict == "domain"
    with pytest.raises(ArithmeticError, match="there is no derivative here"):
        exact(f, x)


def test_large_programs_take_no_further_bits() -> None:
    def of(n: int, f: Function) -> tuple[int, ...]:
        return further_bits(tf.symbolic.trace(f, np.ones(n)))

    assert of(2, tf.exp) == (12_800, 51_200)
    assert of(300, tf.exp) == (12_800,)
    assert of(2, tf.math.digamma) == (6_880,)
    assert of(10_000, tf.exp) == of(1000, tf.math.digamma) == ()


# f, its end, and both derivatives of the whole function there.
SMOOTH_ENDS: dict[str, tuple[Function, float, float, float]] = {
    "acos(x)**2": (lambda x: tf.acos(x) ** 2, 1.0, -2.0, 2 / 3),
    "acosh(x)**2": (lambda x: tf.acosh(x) ** 2, 1.0, 2.0, -2 / 3),
    "acos(-x)**2": (lambda x: tf.acos(-x) ** 2, -1.0, 2.0, 2 / 3),
    "acosh(-x)**2": (lambda x: tf.acosh(-x) ** 2, -1.0, -2.0, -2 / 3),
    "cos(sqrt(x))": (lambda x: tf.cos(tf.sqrt(x)), 0.0, -1 / 2, 1 / 12),
    "cosh(sqrt(x))": (lambda x: tf.cosh(tf.sqrt(x)), 0.0, 1 / 2, 1 / 12),
    "sinh(sqrt(x)) sqrt(x)": (lambda x: tf.sinh(tf.sqrt(x)) * tf.sqrt(x), 0.0, 1.0, 1 / 3),
    "cos(sqrt(-x))": (lambda x: tf.cos(tf.sqrt(-x)), 0.0, 1 / 2, 1 / 12),
}


@pytest.mark.parametrize("name", SMOOTH_ENDS)
def test_a_function_has_the_second_derivative_to_which_those_inside_come(name: str) -> None:
    f, end, slope, curvature = SMOOTH_ENDS[name]
    for order, right in ((1, slope), (2, curvature)):
        assert float(exact(f, end, order=order)) == right
        assert judge(f, end, right, order=order).ok
        for wrong in (0.0, right + 0.25, np.inf):
            assert not judge(f, end, wrong, order=order).ok
    assert check(f, end, order=2).verdict == "domain"


def test_each_element_at_an_end_has_its_own_second_derivative() -> None:
    def f(x: Any) -> Any:
        return tf.cos(tf.sqrt(x[0])) + tf.cosh(tf.sqrt(x[1]))

    right = np.diag([1 / 12, 1 / 12])
    assert np.array_equal(exact(f, np.zeros(2), order=2).astype(float), right)
    assert judge(f, np.zeros(2), right, order=2).ok
    assert not judge(f, np.zeros(2), 2.0 * right, order=2).ok


def test_no_second_derivative_exists_at_an_end_where_the_slopes_inside_have_no_limit() -> None:
    def f(x: Any) -> Any:
        return tf.cos(tf.sqrt(x)) + tf.sqrt(x) * x

    assert not judge(f, 0.0, 1 / 12, order=2).ok
    with pytest.raises(ArithmeticError):
        exact(f, 0.0, order=2)
