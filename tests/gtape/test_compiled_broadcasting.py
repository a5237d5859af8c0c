"""Every way of differentiation in a compiled function has the bits of the eager way, where functions broadcast."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gtape as tf
from tests.bits import bits

Function = Callable[..., Any]


def _normalized(x: Any) -> Any:
    centred = x - tf.reduce_mean(x, axis=-1, keepdims=True)
    return centred * tf.math.rsqrt(tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True) + 1e-3)


# Functions of rows: the first axis counts the rows, and no row of a result depends on another row.
BODIES: dict[str, Function] = {
    "less the mean": lambda x: x - tf.reduce_mean(x, axis=1, keepdims=True),
    "softmax by hand": lambda x: tf.exp(x) / tf.reduce_sum(tf.exp(x), axis=1, keepdims=True),
    "times the sum": lambda x: tf.sin(x) * tf.reduce_sum(x, 1, keepdims=True),
    "times the sum with new axes": lambda x: x * tf.reshape(tf.reduce_sum(x, 1)[:, None], [-1, 1, *x.shape[2:]]),
    "times the selected sum": lambda x: tf.reduce_sum(x, 1)[:, None] * x if x.shape.rank == 2 else x * x[:, :1],
    "the first column times all": lambda x: x[:, :1] * tf.sin(x),
    "normalized": _normalized,
    "outer product": lambda x: x[..., :, None] * tf.cos(x)[..., None, :],
    "broadcast_to": lambda x: tf.broadcast_to(tf.reduce_max(x, 1, keepdims=True), x.shape) * x,
    "a constant row": lambda x: (x + tf.ones(x.shape[1:], x.dtype)) * tf.reduce_prod(x, 1, keepdims=True),
    "where": lambda x: tf.where(x > 0, x, tf.reduce_sum(x, 1, keepdims=True)),
    "chosen and powered": lambda x: tf.maximum(x, tf.reduce_mean(x, 1, keepdims=True)) ** 2,
    "tiled": lambda x: tf.tile(x, [1, 2] + [1] * (len(x.shape) - 2)) * x[:, :1],
}  # fmt: skip


def _gradient(f: Function, persistent: bool) -> Function:
    def way(x: Any) -> Any:
        with tf.GradientTape(persistent=persistent) as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    return way


def _jacobian(f: Function, persistent: bool) -> Function:
    def way(x: Any) -> Any:
        with tf.GradientTape(persistent=persistent) as tape:
            tape.watch(x)
            y = f(x)
        return tape.jacobian(y, x)

    return way


def _batch_jacobian(f: Function, persistent: bool) -> Function:
    def way(x: Any) -> Any:
        with tf.GradientTape(persistent=persistent) as tape:
            tape.watch(x)
            y = f(x)
        return tape.batch_jacobian(y, x)

    return way


def _forward(f: Function, persistent: bool) -> Function:
    def way(x: Any) -> Any:
        with tf.autodiff.ForwardAccumulator(x, tf.cos(x)) as accumulator:
            y = f(x)
        return accumulator.jvp(y)

    return way


WAYS: dict[str, Any] = {
    "gradient": _gradient, "jacobian": _jacobian, "batch_jacobian": _batch_jacobian, "forward mode": _forward,
}  # fmt: skip


def _agrees(f: Function, xs: list[Any]) -> Any:
    compiled = tf.function(f, jit_compile=True)
    for x in xs:
        assert bits(compiled(x)) == bits(f(x))
    return compiled


def _points(shape: tuple[int, ...], dtype: str = "float64") -> list[Any]:
    rng = np.random.default_rng(len(shape))
    return [tf.constant(rng.uniform(-1.5, 1.5, shape), dtype) for _ in range(3)]


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.filterwarnings("ignore:.*runs eagerly:RuntimeWarning")
def test_a_derivative_of_a_broadcast_has_the_bits_of_the_eager_one(
    body: str, way: str, persistent: bool, back_end: str
) -> None:
    for shape, dtype in (((1, 2), "float32"), ((2, 3), "float64"), ((3, 1), "float64"), ((2, 3, 2), "float64")):
        compiled = _agrees(WAYS[way](BODIES[body], persistent), _points(shape, dtype))
        # Tangents of selections are pushed eagerly.
        assert way == "forward mode" or "eager" not in compiled.summary()


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize(("inner", "outer"), list(itertools.product(WAYS, repeat=2)))
@pytest.mark.filterwarnings("ignore:.*runs eagerly:RuntimeWarning")
def test_a_nested_derivative_of_a_broadcast_has_the_bits_of_the_eager_one(
    inner: str, outer: str, persistent: bool, back_end: str
) -> None:
    for body in ("times the sum", "normalized", "softmax by hand"):
        slope = WAYS[inner](BODIES[body], False)
        _agrees(WAYS[outer](slope, persistent), _points((2, 3)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore:.*runs eagerly:RuntimeWarning")
def test_rows_of_several_sources_and_variables_have_the_bits_of_the_eager_call(way: str, back_end: str) -> None:
    v = tf.Variable([[0.5], [-1.0]], dtype="float64")

    def body(x: Any) -> Any:
        return tf.sin(x * v) - tf.reduce_logsumexp(x, 1, keepdims=True) * v

    _agrees(WAYS[way](body, False), _points((2, 3)))


@pytest.mark.filterwarnings("ignore:.*runs eagerly:RuntimeWarning")  # tangents of selections
@settings(
    max_examples=1 + settings.default.max_examples // 2, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.sampled_from(sorted(BODIES)), min_size=1, max_size=3),
    st.lists(st.sampled_from(sorted(WAYS)), min_size=1, max_size=2),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.booleans(),
    st.booleans(),
)
def test_compositions_of_broadcasts_have_the_bits_of_the_eager_call(
    back_end: str, bodies: list[str], ways: list[str], shape: tuple[int, ...], persistent: bool, mapped: bool
) -> None:
    def body(x: Any) -> Any:
        for name in bodies:
            y = BODIES[name](x)
            x = tf.tanh(y if y.shape == x.shape else tf.reduce_sum(tf.reshape(y, [x.shape[0], -1]), 1)[:, None] * x)
        return x

    f = body
    for way in ways:
        f = WAYS[way](f, persistent)
    compiled = tf.function(f, jit_compile=True)
    for x in _points(shape):
        if mapped:  # a compiled function inside of a vectorized map
            stacked = tf.stack([x, 2 * x])
            assert bits(tf.vectorized_map(compiled, stacked)) == bits(tf.vectorized_map(f, stacked))
        assert bits(compiled(x)) == bits(f(x))
