"""What an op decides (a comparison, a place, an order) is checked exactly at its recorded inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.declare.primitives import REGISTRY
from gtape.verify import check, judge
from gtape.verify.programs.mutants import planted_kernel

X = np.array([[0.5, 2.0, -1.0, 2.0], [3.0, 0.25, 3.0, 1.0]])


def pooled(x: Any) -> Any:
    return tf.nn.max_pool1d(tf.reshape(x, [2, 4, 1]), 2, 1, "VALID") ** 2


DECIDING: dict[str, tuple[Any, Any]] = {
    "window_argmax": (pooled, lambda right: right - 1 + 2 * (right % 4 == 0)),
    "greater": (lambda x: tf.where(x > 1.0, x * x, 3.0 * x), lambda right: ~right),
}


@pytest.mark.parametrize("name", DECIDING)
def test_a_wrong_decision_is_a_finding_that_names_the_op(name: str) -> None:
    f, spoil = DECIDING[name]
    right = REGISTRY[name].kernel
    assert check(f, tf.constant(X)).ok
    with planted_kernel(name, lambda *args, **params: spoil(right(*args, **params))):
        report = check(f, tf.constant(X))
    assert report.verdict == "rule" and any(v.op == name for v in report.findings)
    assert check(f, tf.constant(X)).ok


def test_a_choice_that_rounding_made_is_conditioning() -> None:
    # 0.1 + 0.2 rounds up to the third number, which is the greater one exactly.
    x = tf.constant(np.array([0.1, 0.2, 0.30000000000000004]))
    report = check(lambda v: tf.nn.max_pool(tf.reshape([v[0] + v[1], v[2]], [1, 2, 1]), 2, 2, "VALID"), x)
    assert report.ok and report.verdict == "conditioning" and "window_argmax" in report.summary()


@pytest.mark.parametrize("reduce", [tf.reduce_max, lambda v: -tf.reduce_min(-v)], ids=["max", "min"])
def test_a_tie_that_rounding_made_is_conditioning(reduce: Any) -> None:
    x = tf.constant(np.array([0.1, 0.2, 0.30000000000000004]))
    report = check(lambda v: reduce(tf.stack([v[0] + v[1], v[2]])), x)
    assert report.ok and report.verdict == "conditioning"


TIES: dict[str, Any] = {
    "max_pool": lambda v: tf.nn.max_pool1d(tf.reshape(v, [1, 2, 1]), 2, 2, "VALID"),
    "sort": lambda v: tf.sort(v)[-1],
    "where": lambda v: tf.where(v[0] > v[1], v[0], v[1]),
}


@pytest.mark.parametrize("f", TIES.values(), ids=TIES)
def test_another_choice_at_a_tie_is_a_convention_and_what_lies_beyond_both_is_not_fine(f: Any) -> None:
    x = tf.constant(np.array([1.0, 1.0]))
    for claimed in ([1.0, 0.0], [0.0, 1.0], [0.5, 0.5]):
        report = judge(f, [x], np.array(claimed))
        assert report.ok, report.summary()
    assert not judge(f, [x], np.array([2.0, -1.0])).ok


def huber(q: Any, is_inner: Any) -> Any:
    u = tf.constant([0.0, 1.0, -1.0, 3.0], tf.float64) - q
    return tf.reduce_sum(tf.where(is_inner(tf.abs(u), 1.0), 0.5 * u**2, tf.abs(u) - 0.5))


# Functions at 0 with wrong derivatives: the order, and the op whose convention decides them. In each, another op at a
# kink comes first, but a selection or a factor of 0 leaves it out.
DECIDED: dict[str, tuple[Any, int, str]] = {
    "relu beside abs": (lambda x: tf.where(x > 5.0, tf.abs(x), tf.nn.relu(x) - tf.nn.relu(-x)), 1, "relu"),
    "relu after abs": (lambda x: 0.0 * tf.abs(x) + tf.nn.relu(x) - tf.nn.relu(-x), 1, "relu"),
    "a closed joint of a Huber loss": (lambda q: huber(q, tf.less_equal), 2, "less_equal"),
    "an open joint of a Huber loss": (lambda q: huber(q, tf.less), 2, "less"),
}


@pytest.mark.parametrize("name", DECIDED)
def test_a_wrong_number_at_a_kink_names_the_op_whose_convention_decides_it(name: str) -> None:
    f, order, op = DECIDED[name]
    wrong = [v for v in check(f, tf.constant(0.0, tf.float64), order=order).findings if not v.ok]
    assert wrong
    assert {v.op for v in wrong} == {op}
    assert all(f"the convention of {op} " in v.reason for v in wrong)
