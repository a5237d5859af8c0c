"""Compiled functions of large arrays in all memory orders: the same bits as eager ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gtape as tf
from tests.bits import bits

N = 184  # N * N numbers of 8 bytes are more than the 256 KiB from which on NumPy's operators overwrite operands

# Tensors of N by N numbers whose elements lie in memory in different orders.
ORDERS: dict[str, Callable[[np.ndarray[Any, Any]], Any]] = {
    "C": tf.constant,
    "Fortran": lambda a: tf.constant(np.asfortranarray(a)),
    "transposed": lambda a: tf.transpose(tf.constant(a)),
    "reversed": lambda a: tf.constant(a)[::-1, ::-1],
    "strided": lambda a: tf.constant(np.repeat(a, 2, axis=0))[::2],
    "rows repeated": lambda a: tf.broadcast_to(tf.constant(a[:1]), a.shape),
    "columns repeated": lambda a: tf.broadcast_to(tf.constant(a[:, :1]), a.shape),
}


def square(a: Any) -> Any:
    """A value as a matrix of N by N numbers."""
    return a if a.shape == [N, N] else tf.broadcast_to(a, [N, N])


OF_ONE: dict[str, Callable[[Any], Any]] = {
    "exp": tf.exp,
    "sin": tf.sin,
    "sigmoid": tf.sigmoid,
    "relu": tf.nn.relu,
    "square": tf.square,
    "negated": lambda a: -a,
    "doubled": lambda a: a * 2.0,
    "transposed": tf.transpose,
    "reversed": lambda a: square(a)[::-1],
    "a row": lambda a: square(a)[0],
    "a sum": tf.reduce_sum,
    "sums of columns": lambda a: tf.reduce_sum(square(a), 0),
    "maxima of rows": lambda a: tf.reduce_max(square(a), 1, keepdims=True),
    "broadcast": square,
}
OF_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda a, b: a + b,
    "product": lambda a, b: a * b,
    "difference": lambda a, b: a - b,
    "quotient": lambda a, b: a / (b * b + 1.0),
    "maximum": tf.maximum,
    "where": lambda a, b: tf.where(a > b, a, b),
}

Program = Sequence[tuple[str, tuple[int, ...]]]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Calls by name, each with the numbers of the earlier values that it reads. Values 0 and 1 are the arguments."""
    made = []
    for k in range(2, 2 + draw(st.integers(2, 8))):
        name = draw(st.sampled_from([*OF_ONE, *OF_TWO]))
        count = 1 if name in OF_ONE else 2
        # Counted from the newest value, because the first numbers of a range are drawn more often than others.
        made.append((name, tuple([k - 1 - draw(st.integers(0, k - 1)) for _ in range(count)])))
    return made


def values(program: Program, x: Any, y: Any) -> list[Any]:
    """The values that a program computes."""
    known = [x, y]
    for name, places in program:
        read = [known[k] for k in places]
        known.append(OF_ONE[name](*read) if name in OF_ONE else OF_TWO[name](*read))
    return known[2:]


def derivatives(f: Callable[[Any, Any], list[Any]], order: int) -> Callable[[Any, Any], Any]:
    """A function that returns the values of `f` and their derivatives up to an order of at most 2."""

    def first(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            made = f(x, y)
        return made, tape.gradient(made, [x, y])

    def second(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            made, slopes = first(x, y)
            total = [tf.reduce_sum(g * g) for g in slopes if g is not None]
        return made, slopes, tape.gradient(total, [x, y])

    return (f, first, second)[order]


@pytest.mark.slow
@given(
    programs(),
    st.integers(1, 3),
    st.integers(0, 2),
    st.lists(st.tuples(st.sampled_from([*ORDERS]), st.sampled_from([*ORDERS])), min_size=1, max_size=3),
)
@settings(
    max_examples=4 * settings.default.max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_random_programs_have_the_bits_of_the_eager_call_in_all_memory_orders(
    back_end: str, program: Program, count: int, order: int, orders: list[tuple[str, str]]
) -> None:
    eager = derivatives(lambda x, y: values(program, x, y)[-count:], order)
    compiled = tf.function(eager, jit_compile=True)
    rng = np.random.default_rng(len(program))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* has jit_compile=True .*(orders|infinite or NaN)", RuntimeWarning)
        for pair in orders:
            xs = [ORDERS[name](rng.normal(size=(N, N))) for name in pair]
            expected = bits(eager(*xs), alike=True)
            assert [bits(compiled(*xs), alike=True) for _ in range(2)] == [expected] * 2


def _opposite(x: Any, y: Any) -> Any:
    a = y[::-1]
    b = -a
    c = a * a
    return [b * a, c]  # whose sum does not depend on y


def _with_equal_calls(x: Any, y: Any) -> Any:
    return [y * y + y * y * y * y]


def _of_a_maximum(x: Any, y: Any) -> Any:
    a = y + y
    b = tf.maximum(x, a)
    d = (b + y) * a
    return [b * d, d]


def _of_a_weighted_exp(x: Any, y: Any) -> Any:
    return [tf.reduce_sum(tf.exp(x) * y)]


def _of_exps(x: Any, y: Any) -> Any:
    return [tf.exp(tf.transpose(x)), tf.exp(y)]


@pytest.mark.filterwarnings("ignore:.* has jit_compile=True .*orders:RuntimeWarning")
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("f", [_opposite, _with_equal_calls, _of_a_maximum, _of_a_weighted_exp, _of_exps])
def test_programs_with_equal_calls_have_the_bits_of_the_eager_call_in_two_orders(
    f: Callable[[Any, Any], Any], order: int, back_end: str
) -> None:
    eager = derivatives(f, order)
    rng = np.random.default_rng(1)
    pairs = [("C", "C"), ("C", "transposed"), ("transposed", "Fortran")]
    for calls in (pairs, pairs[::-1]):
        compiled = tf.function(eager, jit_compile=True)
        for names in calls:
            xs = [ORDERS[name](rng.normal(size=(N, N))) for name in names]
            assert [bits(compiled(*xs), alike=True) for _ in range(2)] == [bits(eager(*xs), alike=True)] * 2
