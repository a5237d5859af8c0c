"""Claims for second derivatives at kinks are compared as a whole, because their rows belong together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import judge

TIED = np.array([2.0, 2.0])
ZEROS = np.zeros(2)


def signed_square(x: Any) -> Any:
    return (x[0] - x[1]) * tf.abs(x[0] - x[1])


def squared_sum(x: Any, y: Any) -> Any:
    return tf.nn.relu(x + y) ** 2


def squared_largest(x: Any) -> Any:
    return tf.reduce_max(x) ** 2


IMPOSSIBLE: dict[str, tuple[Any, Any, Any]] = {
    "a unit matrix": (signed_square, TIED, np.eye(2)),
    "a matrix of ones": (signed_square, TIED, np.ones((2, 2))),
    "a matrix that is not symmetric": (signed_square, TIED, np.array([[0.0, 2.0], [-2.0, 0.0]])),
    "a diagonal for two arguments": (squared_sum, (0.0, 0.0), ((2.0, 0.0), (0.0, 2.0))),
    "one mixed derivative of two": (squared_sum, (0.0, 0.0), ((0.0, 2.0), (0.0, 0.0))),
    "a diagonal beyond the hull": (squared_largest, ZEROS, 2 * np.eye(2)),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_rows_that_no_second_derivative_has_at_once_are_refused(name: str) -> None:
    f, x, claim = IMPOSSIBLE[name]
    report = judge(f, x, claim, order=2)
    assert not report.ok and report.verdict == "convention" and "at once" in report.summary()


@pytest.mark.parametrize("share", [-2.0, -0.5, 0.0, 1.0, 2.0])
def test_a_matrix_between_those_on_both_sides_passes(share: float) -> None:
    assert judge(signed_square, TIED, share * np.array([[1.0, -1.0], [-1.0, 1.0]]), order=2).ok


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_a_mean_of_the_matrices_on_two_sides_passes(share: float) -> None:
    both = 2 * share
    assert judge(squared_sum, (0.0, 0.0), ((both, both), (both, both)), order=2).ok
    assert judge(squared_largest, ZEROS, np.diag([both, 2 - both]), order=2).ok
    assert judge(lambda x: tf.reduce_sum(tf.nn.relu(x) ** 2), ZEROS, np.diag([both, 2 - both]), order=2).ok
