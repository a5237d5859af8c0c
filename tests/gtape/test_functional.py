"""Loops over rows give what one op on the whole gives, values and gradients, for any shape."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import gtape as tf

few = settings(max_examples=1 + settings.default.max_examples // 2)
matrices = st.integers(0, 2**32 - 1).flatmap(
    lambda seed: st.tuples(st.integers(1, 5), st.integers(1, 4)).map(
        lambda shape: np.random.default_rng(seed).standard_normal(shape)
    )
)


def _both(f: Any, g: Any, x: Any) -> None:
    """Two functions have the same values and the same gradients, bit for bit or nearly."""
    v = tf.Variable(x)
    with tf.GradientTape(persistent=True) as tape:
        a, b = f(v), g(v)
        weights = np.cos(np.arange(a.numpy().size)).reshape(a.shape)
        left, right = tf.reduce_sum(a * weights), tf.reduce_sum(b * weights)
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(tape.gradient(left, v).numpy(), tape.gradient(right, v).numpy(), rtol=1e-12, atol=1e-14)


@few
@given(matrices)
def test_map_fn_and_vectorized_map_are_the_op_on_all_rows(x: Any) -> None:
    f = lambda row: tf.sin(row) * tf.reduce_sum(row)
    whole = lambda v: tf.sin(v) * tf.reduce_sum(v, axis=1, keepdims=True)
    _both(lambda v: tf.map_fn(f, v), whole, x)
    _both(lambda v: tf.vectorized_map(f, v), whole, x)


@few
@given(matrices, st.booleans())
def test_scan_of_sums_is_cumsum(x: Any, reverse: bool) -> None:
    _both(lambda v: tf.scan(lambda a, r: a + r, v, reverse=reverse), lambda v: tf.cumsum(v, axis=0, reverse=reverse), x)


@few
@given(matrices)
def test_folds_and_loops_of_products_are_reduce_prod(x: Any) -> None:
    whole = lambda v: tf.reduce_prod(v, axis=0)
    one = np.ones(x.shape[1])
    _both(lambda v: tf.foldl(lambda a, r: a * r, v), whole, x)
    _both(lambda v: tf.foldr(lambda a, r: a * r, v, initializer=one), whole, x)
    _both(
        lambda v: tf.while_loop(lambda i, a: i < x.shape[0], lambda i, a: (i + 1, a * v[i]), (0, tf.constant(one)))[1],
        whole,
        x,
    )


@few
@given(matrices)
def test_tensor_arrays_give_back_what_was_put_in(x: Any) -> None:
    n = x.shape[0]
    order = np.random.default_rng(n).permutation(n)
    _both(lambda v: tf.TensorArray(tf.float64, n).unstack(v).stack(), lambda v: v * 1.0, x)
    _both(lambda v: tf.TensorArray(tf.float64, n).scatter(order, v).gather(order), lambda v: v * 1.0, x)
    _both(lambda v: tf.TensorArray(tf.float64, 2).split(v, [1, n - 1]).concat(), lambda v: v * 1.0, x)


@few
@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 20))
def test_skipping_is_drawing(seed: int, n: int) -> None:
    a, b = tf.random.Generator.from_seed(seed), tf.random.Generator.from_seed(seed)
    for _ in range(n):
        a.normal([])
    b.skip(n)
    assert a.normal([]).numpy() == b.normal([]).numpy()


@few
@given(st.integers(-(2**40), 2**40), st.integers(1, 2**20), st.sampled_from([tf.float16, tf.float32, tf.float64]))
def test_seeded_draws_repeat_and_stay_inside(seed: int, width: int, dtype: Any) -> None:
    draws = []
    for _ in range(2):
        tf.random.set_seed(seed)
        draws.append((tf.random.uniform([8], dtype=dtype).numpy(), tf.random.uniform([8], 0, width, tf.int64).numpy()))
    tf.random.set_seed(None)
    for first, second in zip(*draws, strict=True):
        np.testing.assert_array_equal(first, second)
    assert (draws[0][0] < 1).all() and (draws[0][1] < width).all()
