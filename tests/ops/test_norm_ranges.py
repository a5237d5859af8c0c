"""Derivatives of norms for vectors and cotangents near the ends of the range."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

import gtape as tf

_ROOM = mpmath.MPContext()
_ROOM.dps = 60
ORDERS = [1.5, 2.5, 3, 4, 10]


def slopes(x: Any, p: float) -> list[Any]:
    """The exact derivatives of the p-norm."""
    numbers = [_ROOM.mpf(float(v)) for v in x]
    length = _ROOM.fsum(abs(v) ** _ROOM.mpf(p) for v in numbers) ** (1 / _ROOM.mpf(p))
    return [_ROOM.sign(v) * (abs(v) / length) ** (_ROOM.mpf(p) - 1) for v in numbers]


def assert_sum(got: float, terms: list[Any], dtype: Any) -> None:
    """Assert that a number is the sum of terms, but for the roundings of each."""
    info = np.finfo(dtype)
    error = abs(_ROOM.mpf(float(got)) - _ROOM.fsum(terms))
    assert error <= 100 * float(info.eps) * _ROOM.fsum(map(abs, terms)) + 8 * _ROOM.mpf(float(info.smallest_subnormal))


def tangent(f: Any, x: Any, moves: Any) -> Any:
    t = tf.constant(x)
    with tf.autodiff.ForwardAccumulator(t, tf.constant(moves)) as forward:
        y = f(t)
    return forward.jvp(y).numpy()


def gradient(f: Any, x: Any, weights: Any) -> Any:
    t = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(t)
        y = f(t)
    return tape.gradient(y, t, output_gradients=tf.constant(weights)).numpy()


@st.composite
def vectors(draw: Any) -> tuple[Any, Any]:
    """A vector of normal numbers of any size, and tangents of any size."""
    dtype, reach = draw(st.sampled_from([(np.float64, 300), (np.float32, 36)]))
    n = draw(st.integers(1, 4))
    far = st.builds(lambda m, e: m * 10.0**e, st.sampled_from([1.0, -1.7, 2.9]), st.integers(-reach, reach))
    near = draw(st.integers(-reach, reach))
    x = st.one_of(far, st.builds(lambda m: m * 10.0**near, st.sampled_from([1.0, -1.3, 2.3])))
    return (
        np.array(draw(st.lists(x, min_size=n, max_size=n)), dtype),
        np.array(draw(st.lists(far, min_size=n, max_size=n)), dtype),
    )


@given(vectors(), st.sampled_from(ORDERS))
def test_tangents_of_norms_are_right_whatever_their_size(case: tuple[Any, Any], p: float) -> None:
    x, moves = case
    terms = [s * _ROOM.mpf(float(v)) for s, v in zip(slopes(x, p), moves, strict=True)]
    assert_sum(tangent(lambda t: tf.norm(t, ord=p), x, moves), terms, x.dtype)


@given(vectors(), st.sampled_from(ORDERS))
def test_gradients_of_norms_are_right_whatever_the_cotangent(case: tuple[Any, Any], p: float) -> None:
    x, moves = case
    got = gradient(lambda t: tf.norm(t, ord=p), x, moves[0])
    for number, slope in zip(got, slopes(x, p), strict=True):
        assert_sum(number, [slope * _ROOM.mpf(float(moves[0]))], x.dtype)


@given(vectors(), st.sampled_from(ORDERS), st.integers(-200, 200))
def test_norms_are_as_large_as_their_vectors(case: tuple[Any, Any], p: float, power: int) -> None:
    """Powers of two change nothing but the unit, in values and in second derivatives."""
    x = (case[1] / np.abs(case[1])).astype(np.float64) * np.arange(1.0, 1.0 + len(case[1]))
    assume(len(x) > 1)

    def second(v: Any) -> Any:
        t = tf.constant(v)
        with tf.GradientTape() as outer:
            outer.watch(t)
            with tf.GradientTape() as inner:
                inner.watch(t)
                y = tf.norm(t, ord=p)
            g = inner.gradient(y, t)
        return y.numpy(), outer.jacobian(g, t).numpy()

    (value, bend), (far_value, far_bend) = second(x), second(np.ldexp(x, power))
    assert far_value == np.ldexp(value, power)
    assert np.array_equal(far_bend, np.ldexp(bend, -power))


def test_a_norm_of_single_elements_is_their_magnitude() -> None:
    x = tf.constant(-3e200, tf.float64)
    assert float(tf.norm(x, ord=3)) == 3e200


def test_check_finds_no_fault_where_the_value_underflows_and_the_gradient_does_not() -> None:
    for p in ORDERS:
        report = tf.verify.check(lambda x, p=p: tf.norm(x, ord=p) * 1e-200, np.array([3e-200, 4e-200]))
        assert report.ok and report.verdict in ("correct", "conditioning"), report.summary()
