"""Numbers at points to which derivatives come slowly, or only along a line, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check, exact, judge

F = Callable[[Any], Any]


def _filled(x: Any) -> Any:
    """x, with 1 in place of 0."""
    return tf.where(x == 0.0, 1.0 + 0 * x, x)


def _with_0(f: F) -> F:
    """A function that is 0 at 0."""
    return lambda x: tf.where(x == 0.0, 0.0 * x, f(_filled(x)))


@pytest.mark.parametrize("round_", [tf.floor, tf.math.ceil, tf.round])
@pytest.mark.parametrize("at", [0.0, 1.0])
def test_jumps_that_accumulate_count_for_the_derivative(round_: F, at: float) -> None:
    f = _with_0(lambda x: x * x * round_(1 / x))
    assert float(exact(lambda x: f(x - at), at)) == 1.0
    assert [judge(lambda x: f(x - at), at, claim).ok for claim in (0.0, 1.0, 1.5, 2.0)] == [False, True, False, False]
    assert not check(lambda x: f(x - at), at).ok


@pytest.mark.parametrize(
    ("f", "at", "order"),
    [
        (lambda x: tf.abs(x) ** 1.001, 0.0, 1),
        (lambda x: tf.abs(x) ** 1.1, 0.0, 1),
        (lambda x: tf.abs(x - 1.0) ** 1.01, 1.0, 1),
        (lambda x: tf.nn.relu(x) ** 2.01, 0.0, 2),
        (_with_0(lambda x: x * x * tf.sin(1 / x)), 0.0, 1),
    ],
)
def test_only_the_limit_passes_where_slopes_come_to_it_slowly(f: F, at: float, order: int) -> None:
    assert judge(f, at, 0.0, order=order).ok
    assert [claim for claim in (1e-5, -1e-3, 0.25) if judge(f, at, claim, order=order).ok] == []
    assert check(f, at, order=order).ok


@pytest.mark.parametrize("f", [lambda x: x / tf.math.log(tf.abs(x)), lambda x: tf.abs(x) / tf.math.log(tf.abs(x))])
def test_a_limit_that_comes_as_slowly_as_a_logarithm_is_known(f: F) -> None:
    def g(x: Any) -> Any:
        inner = f(tf.where(x == 0.0, 0.5 + 0 * x, x))
        return tf.where(x == 0.0, 0.0 * x, inner)

    assert float(exact(g, 0.0)) == 0.0
    assert judge(g, 0.0, 0.0).ok
    assert not judge(g, 0.0, 1e-5).ok


def test_all_numbers_between_the_slopes_of_a_kink_still_pass() -> None:
    assert [judge(tf.abs, 0.0, claim).ok for claim in (-1.0, 0.0, 0.3, 1.0, 1.001)] == [True] * 4 + [False]


def test_a_missing_slope_of_a_small_power_does_not_leave_the_limit_open() -> None:
    def f(x: Any) -> Any:
        return x * tf.abs(x) ** 0.001

    assert float(exact(f, 0.0)) == 0.0
    report = check(f, 0.0)
    assert not report.ok
    assert "undecided" not in {found.verdict for found in report.findings}
    assert not any("jump" in found.reason for found in report.findings)


def _nearest_image(d: Any) -> Any:
    d = d - 3.0 * tf.round(d / 3.0)
    square = tf.reduce_sum(d**2)
    return tf.where(square < 2.25, square - 2.25, tf.zeros_like(square))


def test_a_second_derivative_along_a_line_inside_of_a_kink_passes() -> None:
    at = np.array([1.5, 0.0])  # along the second axis the function is 0
    assert check(_nearest_image, at, order=2).ok
    claims = {c: judge(_nearest_image, at, np.array([[2.0, 0.0], [0.0, c]]), order=2).ok for c in (-1.0, 0.0, 2.0, 3.0)}
    assert claims == {-1.0: False, 0.0: True, 2.0: True, 3.0: False}


def test_a_line_excuses_no_convention_of_the_inner_gradient() -> None:
    def f(v: Any) -> Any:
        return v[1] * (tf.nn.relu(v[0]) - tf.nn.relu(-v[0]))

    assert not check(f, np.array([0.0, 1.0]), order=2).ok
