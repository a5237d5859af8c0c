"""What has a derivative where eigenvalues meet, what has none, and what floats lose beside such places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check

FULL = np.array([[3.0, 1.0, 1.0], [1.0, 3.0, 1.0], [1.0, 1.0, 3.0]])  # 2, 2 and 5
MEETING = [np.eye(2), np.diag([2.0, 2.0, 5.0]), FULL]


@pytest.mark.parametrize("a", MEETING, ids=["unit", "diagonal", "full"])
@pytest.mark.parametrize(
    "f",
    [
        lambda a: tf.linalg.eigh(a)[1][0, 0],
        lambda a: tf.reduce_sum(tf.linalg.eigh(a)[1] ** 3),
        lambda a: tf.reduce_sum(tf.linalg.eigh(a)[0]) + tf.linalg.eigh(a)[1][1, 1],
        lambda a: tf.linalg.svd(a)[1][0, -1],
    ],
    ids=["an element", "cubes", "with values", "singular"],
)
def test_vectors_of_equal_eigenvalues_have_no_derivative_and_the_check_says_why(f: Callable[..., Any], a: Any) -> None:
    report = check(f, a)
    assert report.verdict == "domain" and not report.ok
    assert "where eigenvalues meet" in report.findings[0].reason


@pytest.mark.parametrize("a", MEETING, ids=["unit", "diagonal", "full"])
def test_what_is_the_same_in_every_basis_has_its_derivative(a: Any) -> None:
    weights = np.arange(1.0, a.size + 1).reshape(a.shape)

    def whole_space(a: Any) -> Any:
        v = tf.linalg.eigh(a)[1]
        return tf.reduce_sum(tf.matmul(v, v, transpose_b=True) * weights)

    def cluster(a: Any) -> Any:
        w = tf.linalg.eigvalsh(a)
        return w[0] * w[1] + tf.exp(w[0] + w[1])

    for f in (lambda a: tf.reduce_sum(tf.linalg.eigvalsh(a) ** 3), cluster, whole_space):
        report = check(f, a)
        # The cotangents of vectors whose eigenvalues differ by roundings are large, and cancel in the product.
        assert report.ok or (f is whole_space and report.verdict == "cancellation"), report.summary()


@pytest.mark.slow
def test_a_space_of_equal_eigenvalues_has_a_projector_that_is_differentiated() -> None:
    def projector(a: Any) -> Any:
        v = tf.linalg.eigh(a)[1][:, :2]
        return tf.reduce_sum(tf.matmul(v, v, transpose_b=True) * np.arange(9.0).reshape(3, 3))

    for a in MEETING[1:]:
        report = check(projector, a, order=2)
        assert report.ok, report.summary()


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 2])
def test_a_function_of_a_matrix_that_its_parts_do_not_determine_is_outside_the_domain(order: int) -> None:
    def root(a: Any) -> Any:
        w, v = tf.linalg.eigh(a)
        return tf.reduce_sum(tf.matmul(v * tf.sqrt(w), v, transpose_b=True) * [[1.0, 2.0], [3.0, 5.0]])

    assert check(root, np.eye(2), order=order).verdict == "domain"
    assert check(root, np.diag([1.0, 2.0]), order=order).ok


CLOSE = [
    (np.float64, 1.0), (np.float64, 2.0), (np.float64, 1e3), (np.float32, 0.0), (np.float32, 2.0), (np.float32, 1e3),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "gap"), CLOSE, ids=str)
def test_eigenvalues_a_few_roundings_apart_lose_digits_and_no_rule_is_blamed(dtype: Any, gap: float) -> None:
    rng = np.random.default_rng(int(gap))
    q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    a = q @ np.diag([1.0, 2.0, 1.0 + gap * np.finfo(dtype).eps]) @ q.T
    a = ((a + a.T) / 2).astype(dtype)
    cubes = np.arange(9.0, dtype=dtype).reshape(3, 3)
    fs = [
        lambda a: tf.linalg.eigh(a)[0][1],
        lambda a: tf.reduce_sum(tf.linalg.eigh(a)[1] * cubes),
        lambda a: tf.reduce_sum(tf.linalg.svd(a)[1] * cubes),
    ]
    if gap * np.finfo(dtype).eps > 1e-14 or dtype is np.float32:
        fs.append(lambda a: tf.reduce_sum(tf.math.real(tf.linalg.eig(a)[0]) ** 2))
    for f in fs:
        assert check(f, a).verdict in ("correct", "conditioning", "cancellation")
