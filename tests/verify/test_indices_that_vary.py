"""Indices, counts and places that depend on the source have other outcomes beside the point, as gather's have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check, exact, judge

F8 = tf.float64
AT = np.array([0.0, 1.0])
WEIGHTS = np.array([3.0, 1.0])
PAIR = np.array([1.0, 2.0])
Function = Callable[[Any], Any]


def apart(x: Any) -> Any:
    """0 for zeros, 1 for all other numbers, so that beside the point all are 1."""
    return tf.cast(tf.not_equal(x, 0.0), tf.int32)


def behind(x: Any) -> Any:
    """1 for positive numbers, 0 for all others."""
    return tf.cast(x > 0.0, tf.int32)


def counted(b: Any) -> Any:
    """b[0] - 1, with a factor of 2 where a boundary is exactly 1."""
    one = np.array([1.0])
    n = tf.searchsorted(b, one, side="right") - tf.searchsorted(b, one, side="left")
    return (b[0] - 1.0) * (1.0 + tf.cast(n[0], F8))


# Each function is x[0] + x[1] beside the point, and gives x[0] another slope at the point itself.
ALONE: dict[str, Function] = {
    "segment sum": lambda x: tf.reduce_sum(tf.math.unsorted_segment_sum(x, apart(x), 2) * WEIGHTS),
    "segment sum of matrices": lambda x: tf.reduce_sum(
        tf.math.unsorted_segment_sum(x[:, None], apart(x)[:, None], 2) * WEIGHTS
    ),
    "dropped rows": lambda x: tf.reduce_sum(tf.math.unsorted_segment_sum(x, apart(x) - 1, 1)),
    "scatter_nd": lambda x: tf.reduce_sum(tf.scatter_nd(apart(x)[:, None], x, [2]) * WEIGHTS),
    "tensor_scatter_nd_sub": lambda x: (
        -tf.reduce_sum(tf.tensor_scatter_nd_sub(tf.zeros([2], F8), apart(x)[:, None], x) * WEIGHTS)
    ),
    "bincount": lambda x: tf.reduce_sum(tf.math.bincount(apart(x), x, minlength=2) * WEIGHTS),
    "embedding_lookup": lambda x: tf.reduce_sum(tf.nn.embedding_lookup([WEIGHTS[:1], WEIGHTS[1:]], apart(x)) * x),
    "gather_nd": lambda x: tf.reduce_sum(tf.gather_nd(WEIGHTS, apart(x)[:, None]) * x),
}


@pytest.mark.parametrize("name", ALONE)
def test_the_derivative_is_that_of_all_points_beside_the_point(name: str) -> None:
    f = ALONE[name]
    report = check(f, AT)
    assert not report.ok and report.verdict == "convention"
    np.testing.assert_array_equal(np.asarray(exact(f, AT), float), [1.0, 1.0])
    assert judge(f, (AT,), np.array([1.0, 1.0])).ok
    assert check(f, AT + 1.0).verdict == "correct"


def test_a_tape_under_a_check_raises_for_an_index_that_varies() -> None:
    with tf.GradientTape(verify=True) as tape:
        x = tf.Variable(AT)
        y = ALONE["segment sum"](x)
    with pytest.raises(tf.errors.VerificationError, match="convention"):
        tape.gradient(y, x)


def test_boundaries_of_places_decide_too() -> None:
    at = np.array([1.0, 2.0])
    assert not check(counted, at).ok
    np.testing.assert_array_equal(np.asarray(exact(counted, at), float), [1.0, 0.0])


def test_an_index_that_exists_at_the_point_alone_is_told_of() -> None:
    def f(x: Any) -> Any:
        return tf.reduce_sum(tf.tensor_scatter_nd_update(x, tf.where(tf.equal(x, 0.0)), tf.zeros([1], F8)))

    assert check(f, AT).verdict == "convention"


def factor(x: Any, integers: Any) -> Any:
    return tf.reduce_sum(x * (1.0 + tf.cast(integers, F8)))


# Each function is x[0] before the point and 2 x[0] behind it, besides terms of x[1].
KINKS: dict[str, Function] = {
    "segment sum": lambda x: tf.reduce_sum(tf.math.unsorted_segment_sum(x, behind(x), 2) * PAIR),
    "scatter_nd": lambda x: tf.reduce_sum(tf.scatter_nd(behind(x)[:, None], x, [2]) * PAIR),
    "tensor_scatter_nd_max": lambda x: tf.reduce_sum(
        x * (3.0 - tf.tensor_scatter_nd_max(tf.ones([2], F8), behind(x)[:, None], 2.0 * tf.ones([2], F8)))
    ),
    "segment mean of integers": lambda x: factor(x, tf.math.segment_mean(behind(x), [0, 1])),
    "mean of integers": lambda x: factor(x, tf.reduce_mean(behind(x)[:, None], 1)),
    "bincount": lambda x: tf.reduce_sum(tf.math.bincount(behind(x), x, minlength=2) * PAIR),
    "confusion_matrix": lambda x: tf.reduce_sum(
        tf.math.confusion_matrix(behind(x), behind(x), 2, x, F8) * np.array([[1.0, 5.0], [5.0, 2.0]])
    ),
    "sequence_mask": lambda x: factor(x, tf.reduce_sum(tf.sequence_mask(behind(x), 2, tf.int32), 1)),
    "targets in_top_k": lambda x: factor(x, tf.math.in_top_k(behind(x), np.array([[0.0, 1.0]] * 2), 1)),
    "scores in_top_k": lambda x: factor(x, tf.math.in_top_k([1, 1], tf.stack([0.0 * x, x], 1), 1)),
    "unravel_index": lambda x: factor(x, tf.unravel_index(behind(x), [2, 1])[0]),
    "ldexp": lambda x: tf.reduce_sum(tf.math.ldexp(x, behind(x))),
    "count_nonzero": lambda x: factor(x, tf.math.count_nonzero(behind(x)[:, None], 1)),
    "is_non_decreasing": lambda x: x[0] * (1.0 + tf.cast(tf.math.is_non_decreasing([0.0 * x[0], x[0]]), F8)) + x[1],
    "embedding_lookup": lambda x: tf.reduce_sum(x * tf.nn.embedding_lookup([PAIR[:1], PAIR[1:]], behind(x))),
}


@pytest.mark.parametrize("name", KINKS)
def test_claims_between_the_slopes_on_both_sides_are_right(name: str) -> None:
    f = KINKS[name]
    with tf.GradientTape() as tape:
        x = tf.Variable(AT)
        y = f(x)
    second = float(tape.gradient(y, x)[1])
    report = check(f, AT)
    assert report.ok and report.verdict == "convention"
    for claim, ok in ((1.0, True), (1.5, True), (2.0, True), (0.9, False), (2.1, False)):
        assert judge(f, (AT,), np.array([claim, second])).ok == ok, claim


JUMPS: dict[str, Function] = {
    "segment mean": lambda x: tf.reduce_sum(tf.math.unsorted_segment_mean(x, behind(x), 2) * PAIR),
    "segment product": lambda x: tf.reduce_sum(tf.math.unsorted_segment_prod(x + 1.0, behind(x), 2) * PAIR),
    "segment maximum": lambda x: tf.reduce_sum(tf.nn.relu(tf.math.unsorted_segment_max(x, behind(x), 2)) * PAIR),
    "dynamic_partition": lambda x: tf.reduce_sum(tf.dynamic_partition(x, behind(x), 2)[1]) * 2.0,
    "dynamic_stitch": lambda x: tf.reduce_sum(tf.dynamic_stitch([behind(x)], [x]) * PAIR),
    "reverse_sequence": lambda x: tf.reduce_sum(tf.reverse_sequence(x[None], 1 + behind(x)[:1], 1) * PAIR),
    "repeat": lambda x: tf.reduce_sum(tf.repeat(x, 1 + behind(x))),
    "invert_permutation": lambda x: factor(
        x, tf.math.invert_permutation(tf.stack([behind(x)[0], 1 - behind(x)[0]]))
    ),
    "cross entropy": lambda x: tf.reduce_sum(
        tf.nn.sparse_softmax_cross_entropy_with_logits(behind(x), tf.stack([x, 2.0 * x], 1))
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", JUMPS)
def test_no_index_that_jumps_at_the_point_passes_in_silence(name: str) -> None:
    report = check(JUMPS[name], AT)
    assert "convention" in {v.verdict for v in report.findings}
    assert check(JUMPS[name], AT + 0.5).verdict == "correct"
