"""Singular values that are 0 are kinks, as the absolute value has one at 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check, exact, judge


def nuclear(a: Any) -> Any:
    return tf.reduce_sum(tf.linalg.svd(a, compute_uv=False))


def spectral(a: Any) -> Any:
    return tf.norm(a, ord=2, axis=[-2, -1])


def as_abs(x: Any) -> Any:
    return nuclear(tf.reshape(x, [1, 1]))


def as_sign(x: Any) -> Any:
    _, u, v = tf.linalg.svd(tf.reshape(x, [1, 1]))
    return tf.reduce_sum(u * v)


def of_column(x: Any) -> Any:
    return spectral(tf.reshape(tf.stack([x, 2 * x]), [2, 1]))


def along_line(x: Any) -> Any:
    return nuclear(tf.constant([[3.0, 1.0], [6.0, 2.0]]) + x * tf.constant([[0.0, 1.0], [0.0, 0.0]]))


SCALARS: dict[str, tuple[Callable[..., Any], Any, tuple[float, float]]] = {
    "the only element": (as_abs, 0.0, (-1.0, 1.0)),
    "a column": (of_column, 0.0, (-(5.0**0.5), 5.0**0.5)),
    "a line through a matrix of rank 1": (along_line, np.float32(0), (-(0.5**0.5), 0.7 * 2.0**0.5)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCALARS)
def test_a_function_of_a_number_has_the_interval_of_its_one_sided_derivatives(name: str) -> None:
    f, x, (low, high) = SCALARS[name]
    report = check(f, x)
    assert report.verdict == "convention" and report.ok, report.summary()
    for inside in (low, 0.75 * low + 0.25 * high, 0.0, high):
        assert judge(f, x, np.asarray(inside, np.asarray(x).dtype)).verdict == "convention"
    for beyond in (low - 0.25, high + 0.25):
        assert not judge(f, x, np.asarray(beyond, np.asarray(x).dtype)).ok


@pytest.mark.parametrize("name", SCALARS)
def test_exact_gives_no_derivative_of_one_side(name: str) -> None:
    f, x, _ = SCALARS[name]
    with pytest.raises(ArithmeticError, match="no derivative here: some singular values are 0"):
        exact(f, x)


def test_second_derivatives_and_functions_of_the_kink_have_no_exact_number() -> None:
    def product(x: Any) -> Any:
        return as_abs(x) * x

    assert check(product, 0.0).verdict == "correct"
    assert check(product, 0.0, order=2).verdict == "convention"
    with pytest.raises(ArithmeticError, match="no derivative"):
        exact(product, 0.0, order=2)
    with pytest.raises(ArithmeticError, match="no derivative"):
        exact(lambda x: tf.math.softplus(-as_abs(x)), 0.0)


def test_vectors_that_jump_are_a_convention_as_the_sign_is() -> None:
    assert check(as_sign, 0.0).verdict == check(tf.sign, 0.0).verdict == "convention"


@pytest.mark.parametrize(
    "a",
    [[[0.0]], [[1.0, 1.0], [1.0, 1.0]], [[3.0, 1.0], [6.0, 2.0]], [[1.0, 0.0], [0.0, 0.0]],
     [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]], [[0.0, 0.0], [0.0, 0.0]]],
    ids=str,
)  # fmt: skip
def test_the_nuclear_norm_has_a_kink_where_the_rank_is_not_full(a: Any) -> None:
    report = check(nuclear, np.array(a))
    assert report.ok and any(f.verdict == "convention" and f.op for f in report.findings), report.summary()
    with pytest.raises(ArithmeticError, match="no derivative"):
        exact(nuclear, np.array(a))


def test_the_spectral_norm_has_a_kink_at_zeros() -> None:
    assert check(spectral, np.zeros((2, 2))).verdict == "convention"


@pytest.mark.parametrize(
    ("a", "claim", "ok"),
    [
        (np.ones((2, 2)), [[0.0, 1.0], [1.0, 0.0]], True),
        (np.ones((2, 2)), [[0.5, 0.5], [0.5, 0.5]], True),
        (np.ones((2, 2)), [[1.0, 1.0], [1.0, 1.0]], False),
        (np.diag([1.0, 0.0]), [[1.0, 0.0], [0.0, 1.0]], True),
        (np.diag([1.0, 0.0]), [[1.0, 0.0], [0.0, 0.0]], True),
        (np.diag([1.0, 0.0]), [[1.0, 0.0], [0.0, -1.0]], True),
        (np.diag([1.0, 0.0]), [[1.0, 0.0], [0.0, 2.0]], False),
    ],
)
def test_subgradients_of_the_nuclear_norm_are_conventions(a: Any, claim: Any, ok: bool) -> None:
    report = judge(nuclear, a, np.array(claim))
    assert report.ok == ok and report.verdict == "convention", report.summary()


@pytest.mark.parametrize(
    "f",
    [
        lambda a: tf.reduce_sum(tf.linalg.svd(a, compute_uv=False) ** 2),
        lambda a: tf.reduce_sum(tf.math.log1p(tf.linalg.svd(a, compute_uv=False) ** 2)),
    ],
    ids=["squares", "logarithms"],
)
def test_even_functions_of_singular_values_have_no_kink(f: Callable[..., Any]) -> None:
    for a in (np.zeros((1, 1)), np.zeros((2, 2)), np.array([[3.0, 1.0], [6.0, 2.0]])):
        assert check(f, a).ok
        exact(f, a)
