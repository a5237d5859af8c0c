"""Triangular factors: what they multiply to, what they solve, and their derivatives at the rows that were chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check

IAE = tf.errors.InvalidArgumentError
A = np.random.default_rng(8).normal(size=(2, 4, 4))


@pytest.mark.parametrize("a", [A, A[0], A[0] + 1j * A[1], A[:0], A[:, :0, :0], A[0, :1, :1]])
def test_the_factors_multiply_to_the_chosen_rows(a: Any) -> None:
    found = tf.linalg.lu(a)
    assert found.p.dtype == tf.int32
    np.testing.assert_allclose(tf.linalg.lu_reconstruct(found.lu, found.p), a, rtol=1e-14, atol=1e-14)


def test_each_pivot_is_the_largest_of_its_column() -> None:
    below = np.tril(tf.linalg.lu(A).lu.numpy(), -1)
    assert np.abs(below).max() <= 1.0
    found = tf.linalg.lu([[0.0, 1.0], [1.0, 0.0]], output_idx_type=tf.int64)
    assert found.p.dtype == tf.int64
    assert found.p.numpy().tolist() == [1, 0]
    assert found.lu.numpy().tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_equations_are_solved_by_the_factors() -> None:
    found = tf.linalg.lu(A)
    b = np.arange(8.0).reshape(4, 2)
    np.testing.assert_allclose(tf.linalg.lu_solve(*found, b), np.linalg.solve(A, b), rtol=1e-12)
    np.testing.assert_allclose(tf.linalg.lu_matrix_inverse(*found), np.linalg.inv(A), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("n", [3, 4])
def test_derivatives_of_the_factors_are_exact(n: int, order: int) -> None:
    check(lambda a: tf.linalg.lu(a).lu, tf.constant(A[0, :n, :n]), order=order).raise_if_failed()


def test_what_is_put_together_again_has_the_derivative_of_the_identity() -> None:
    x = tf.constant(A[0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = tf.linalg.lu_reconstruct(*tf.linalg.lu(x))
        z = tf.reduce_sum(tf.math.log(tf.abs(tf.linalg.diag_part(tf.linalg.lu(x).lu))))
    np.testing.assert_allclose(tape.jacobian(y, x), np.eye(16).reshape(4, 4, 4, 4), atol=1e-13)
    np.testing.assert_allclose(tape.gradient(z, x), np.linalg.inv(A[0]).T, rtol=1e-11)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tf.linalg.lu([[1.0, 2.0], [2.0, 4.0]]), IAE),
        (lambda: tf.linalg.lu([[0.0, 0.0], [0.0, 1.0]]), IAE),
        (lambda: tf.linalg.lu(np.ones((2, 3))), IAE),
        (lambda: tf.linalg.lu([1.0]), IAE),
        (lambda: tf.linalg.lu([[1]]), IAE),
        (lambda: tf.linalg.lu(A, output_idx_type=tf.float32), IAE),
        (lambda: tf.linalg.lu_reconstruct(A, [0, 1]), IAE),
        (lambda: tf.linalg.lu_solve(*tf.linalg.lu(A[0]), A[0, 0]), ValueError),
    ],
)
def test_what_has_no_factors_is_refused(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


def test_rank_counts_the_singular_values_above_a_bound() -> None:
    assert tf.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]]).numpy() == 1
    assert tf.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]], tol=10.0).numpy() == 0
    assert tf.linalg.matrix_rank(A).numpy().tolist() == [4, 4]
    assert tf.linalg.matrix_rank(np.zeros((3, 2))).dtype == tf.int32


@pytest.mark.parametrize("size", [1e-150, 1.0, 1e8, 1e20, 1e150])
def test_second_derivatives_keep_their_digits_at_all_sizes(size: float) -> None:
    x, d = tf.constant(np.array([[2.0, 1.0], [1.0, 3.0]]) * size), tf.constant([[1.0, 0.0], [0.0, 0.0]], tf.float64)

    def pivot(a: Any) -> Any:  # a22 - a21 a12 / a11
        return tf.linalg.lu(a).lu[1, 1]

    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = pivot(x)
        g = inner.gradient(y, x)
    reverse = outer.gradient(g, x, output_gradients=d)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with tf.autodiff.ForwardAccumulator(x, d) as acc:
            y = pivot(x)
        slope = acc.jvp(y)
    for found in (reverse, tape.gradient(slope, x)):
        np.testing.assert_allclose(float(found[0, 0]) * size, -0.25, rtol=1e-14)
