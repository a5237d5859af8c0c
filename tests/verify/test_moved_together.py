"""Claims whose digits the problem loses: moved inputs must have all of them at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtape as tf
from gtape.verify import judge

FAR = np.array([1e50, 1e50])

# A function, a point, claims that some moved inputs have, and claims that moved inputs have element by element only.
CASES: dict[str, tuple[Callable[[Any], Any], Any, list[Any], list[Any]]] = {
    "logsumexp": (tf.reduce_logsumexp, FAR, [[0.5, 0.5], [1, 0], [0, 1], [0.3, 0.7]], [[1, 1], [0, 0], [0.3, 0.8]]),
    "a softmax": (lambda x: tf.nn.softmax(x)[0], FAR, [[0.25, -0.25], [0, 0]], [[0.25, 0.25], [0.2, 0]]),
    "a wave of a sum": (
        lambda x: tf.sin(x[0] + 2 * x[1]),
        [1e17, 1e18],
        [[0.3, 0.6], [0, 0]],
        [[0.3, -0.6], [0.6, 0.3]],
    ),
    "a sum of waves": (lambda x: tf.reduce_sum(tf.sin(x)), [1e17, 1e18], [[0.3, 0.2], [-0.3, 0.2]], []),
}


@pytest.mark.parametrize("name", CASES)
def test_claims_that_moved_inputs_excuse_one_by_one_must_fit_together(name: str) -> None:
    f, at, right, wrong = CASES[name]
    for claim in right:
        assert judge(f, [np.array(at)], np.array(claim, float)).ok, claim
    for claim in wrong:
        assert judge(f, [np.array(at)], np.array(claim, float)).verdict == "rule", claim


def test_the_finding_names_the_sum_that_all_moved_inputs_have() -> None:
    told = judge(tf.reduce_logsumexp, [FAR], [1.0, 1.0]).findings[0]
    assert "the sum of (1, 1) times the elements is 1 at all moved inputs, and the claims give 2" in told.reason


def test_claims_for_several_arguments_must_fit_together() -> None:
    def f(a: Any, b: Any) -> Any:
        return tf.reduce_logsumexp(tf.stack([a, b]))

    assert judge(f, (1e50, 1e50), (0.2, 0.8)).ok
    assert not judge(f, (1e50, 1e50), (0.8, 0.8)).ok


@settings(max_examples=1 + settings.default.max_examples // 8)
@given(size=st.floats(1e17, 1e60), moved=st.lists(st.integers(-2, 2), min_size=2, max_size=6))
def test_the_gradient_at_neighbours_of_the_inputs_passes(size: float, moved: list[int]) -> None:
    x = np.full(len(moved), size)
    there = x + np.spacing(x) * moved
    shares = (there == there.max()).astype(float)
    assert judge(tf.reduce_logsumexp, [x], shares / shares.sum()).ok
