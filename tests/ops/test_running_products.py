"""Derivatives of running products whose factors leave the range of floats on the way, against rational arithmetic."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gtape as tf
from gtape.kernels.scans import recurrence

Scan = dict[str, bool]
DTYPES = [np.float64, np.float32]


def members(n: int, exclusive: bool, reverse: bool) -> list[list[int]]:
    """The factors of each running product of `n` elements."""
    forth = [list(range(i if exclusive else i + 1)) for i in range(n)]
    return [[n - 1 - j for j in row] for row in reversed(forth)] if reverse else forth


def others(x: list[Fraction], row: list[int], *without: int) -> Fraction:
    """The derivative of the product of a row by distinct elements."""
    return prod([x[i] for i in row if i not in without], start=Fraction(1)) if set(without) <= set(row) else Fraction(0)


def exact(numbers: Any) -> list[Fraction]:
    return [Fraction(float(v)) for v in numbers]


def assert_right(got: Any, terms: list[list[Fraction]], n: int) -> None:
    """Assert that each number is the sum of its terms, but for roundings of the factors and of the dtype."""
    info = np.finfo(got.dtype)
    for number, parts in zip(got, terms, strict=True):
        value, size = sum(parts, Fraction(0)), sum(map(abs, parts), Fraction(0))
        if abs(value) > Fraction(float(info.max)):
            assert np.isinf(number) and (number > 0) == (value > 0)
            continue
        error = abs(Fraction(float(number)) - value)
        assert error <= 4 * n * size * Fraction(2) ** -53 + Fraction(float(info.eps)) * abs(value) + Fraction(
            float(info.smallest_subnormal)
        )


def gradient(x: Any, weights: Any, **scan: Any) -> Any:
    t = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(t)
        y = tf.math.cumprod(t, **scan)
    return tape.gradient(y, t, output_gradients=tf.constant(weights)).numpy()


def tangent(x: Any, moves: Any, **scan: Any) -> Any:
    t = tf.constant(x)
    with tf.autodiff.ForwardAccumulator(t, tf.constant(moves)) as forward:
        y = tf.math.cumprod(t, **scan)
    return forward.jvp(y).numpy()


def hessian_products(x: Any, weights: Any, moves: Any, scan: Scan) -> tuple[Any, Any]:
    """The Hessian times a vector, by nested tapes and by forward mode over reverse mode."""
    t, v, w = tf.constant(x), tf.constant(moves), tf.constant(weights)
    with tf.GradientTape() as outer:
        outer.watch(t)
        with tf.GradientTape() as inner:
            inner.watch(t)
            y = tf.math.cumprod(t, **scan)
        g = inner.gradient(y, t, output_gradients=w)
    with tf.autodiff.ForwardAccumulator(t, v) as forward:
        with tf.GradientTape() as tape:
            tape.watch(t)
            y = tf.math.cumprod(t, **scan)
        h = tape.gradient(y, t, output_gradients=w)
    return outer.gradient(g, t, output_gradients=v).numpy(), forward.jvp(h).numpy()


@st.composite
def cases(draw: Any) -> tuple[Any, Any, Any, Scan]:
    """Factors, cotangents and tangents of any size, zeros included, and the options of a scan."""
    dtype = draw(st.sampled_from(DTYPES))
    reach = 300 if dtype is np.float64 else 30
    number = st.builds(
        lambda sign, digits, e: sign * digits * 10.0**e,
        st.sampled_from([1, 1, 1, -1, 0]), st.sampled_from([1.0, 1.3, 2.7]), st.integers(-reach, reach),
    )  # fmt: skip
    n = draw(st.integers(1, 7))
    x, g, t = (np.array(draw(st.lists(number, min_size=n, max_size=n)), dtype) for _ in range(3))
    return x, g, t, {"exclusive": draw(st.booleans()), "reverse": draw(st.booleans())}


@given(cases())
def test_first_derivatives_are_right_whatever_the_factors_on_the_way(case: tuple[Any, Any, Any, Scan]) -> None:
    x, g, t, scan = case
    n = len(x)
    rows = members(n, **scan)
    X, G, T = exact(x), exact(g), exact(t)
    assert_right(gradient(x, g, **scan), [[G[i] * others(X, rows[i], j) for i in range(n)] for j in range(n)], n)
    assert_right(tangent(x, t, **scan), [[T[j] * others(X, row, j) for j in range(n)] for row in rows], n)


@given(cases())
def test_second_derivatives_are_right_whatever_the_factors_on_the_way(case: tuple[Any, Any, Any, Scan]) -> None:
    x, g, t, scan = case
    n = len(x)
    rows = members(n, **scan)
    X, G, T = exact(x), exact(g), exact(t)
    terms: list[list[Fraction]] = [[] for _ in range(n)]
    for j, k in permutations(range(n), 2):
        terms[j] += [G[i] * T[k] * others(X, row, j, k) for i, row in enumerate(rows)]
    for got in hessian_products(x, g, t, scan):
        assert_right(got, terms, 2 * n)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_row_out_of_range_changes_no_other_row(dtype: Any, axis: int) -> None:
    far = 1e-200 if dtype is np.float64 else 1e-30
    rows = np.array([[far, far, 1.0, 1 / far], [1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 1 / far, 1 / far]], dtype)
    x = rows if axis else rows.T.copy()
    ones = np.ones_like(x)
    alone = [gradient(row, np.ones(4, dtype)) for row in rows]
    together = gradient(x, ones, axis=axis)
    assert np.array_equal(together if axis else together.T, alone)
    alone = [tangent(row, np.ones(4, dtype)) for row in rows]
    together = tangent(x, ones, axis=axis)
    assert np.array_equal(together if axis else together.T, alone)


@pytest.mark.parametrize("special", [np.inf, np.nan])
def test_an_infinity_or_nan_stays_in_its_row(special: float) -> None:
    x = np.array([[1e-200, 1e-200, 1.0, 1e300], [special, 1.0, 2.0, 3.0]])
    together = gradient(x, np.ones_like(x), axis=1)
    assert np.array_equal(together[0], gradient(x[0], np.ones(4)))
    assert not np.isfinite(together[1, 1:]).any()


def test_thousands_of_factors_may_leave_the_range_and_return() -> None:
    """All factors are powers of two, so all products are exact."""
    x = np.concatenate([np.full(3000, 0.5), np.full(3000, 2.0)])
    last = np.zeros_like(x)
    last[-1] = 1.0
    assert np.array_equal(gradient(x, last), 1 / x)
    first = np.zeros_like(x)
    first[0] = 0.5
    assert tangent(x, first)[-1] == 1.0


def test_check_finds_no_fault_where_products_leave_the_range() -> None:
    report = tf.verify.check(tf.math.cumprod, np.array([1e-200, 1e-200, 1.0, 1e300]), order=2)
    assert report.verdict == "correct", report.summary()


@pytest.mark.parametrize("start", [1 + 1j, 0j])
def test_a_wrong_claim_for_the_real_part_of_complex_products_is_judged(start: complex) -> None:
    def f(z: Any) -> Any:
        return tf.math.real(tf.math.cumprod(z))

    z = np.array([start, 2, 3j])
    assert tf.verify.check(f, z).ok
    assert tf.verify.judge(f, z, np.zeros(3, complex)).verdict == "rule"


def test_a_recurrence_of_real_terms_takes_complex_factors() -> None:
    made = recurrence(np.array([1j, 2j, 1 + 1j]), np.array([1.0, 2.0, 3.0]), axis=0, reverse=False)
    np.testing.assert_array_equal(made, [1, 2 + 2j, 3 + 4j])
