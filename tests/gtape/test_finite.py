"""enable_check_numerics: what is not finite is found where it is made, in this thread, and no longer than asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import gtape as tf
from gtape.declare.primitives import REGISTRY, Primitive

INF = float("inf")


@pytest.fixture
def checked() -> Iterator[None]:
    tf.debugging.enable_check_numerics()
    yield
    tf.debugging.disable_check_numerics()


@pytest.mark.usefixtures("checked")
@pytest.mark.parametrize(
    ("make", "op", "kind"),
    [
        (lambda c: tf.math.log(c([1.0, 0.0])), "log", "1 -Inf"),
        (lambda c: tf.math.log(c(-1.0)), "log", "1 NaN"),
        (lambda c: c(6e4) ** 80.0, "pow", "1 .Inf"),
        (lambda c: c(1.0) / c(0.0), "divide", "1 .Inf"),
        (lambda c: c(INF) * 1.0, "multiply", "1 .Inf"),
        (lambda c: -c(INF), "negative", "1 -Inf"),
        (lambda c: c([1.0, INF]) + 1.0, "add", "1 .Inf"),
        (lambda c: tf.where(True, c(INF), c(0.0)), "where", "1 .Inf"),
        (lambda c: tf.reduce_sum(c([INF, -INF])), "sum", "1 NaN"),
    ],
)
def test_an_op_that_makes_no_number_raises_with_its_name(make: Any, op: str, kind: str) -> None:
    for dtype in ("float16", "float32", "float64"):
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"Infinity or NaN in output 0 of {op}: {kind}"):
            make(lambda x, dtype=dtype: tf.constant(x, dtype))


@pytest.mark.usefixtures("checked")
def test_layouts_that_were_met_before_are_looked_at_too() -> None:
    a, b = tf.ones([2, 3], "float64"), tf.ones([3], "float64")
    for _ in range(3):
        tf.reduce_sum(a + b, 1)
    for make, op in ((lambda: tf.reduce_sum(a * 1e308, 1), "sum"), (lambda: (a * 1e308) + b * 1e308, "add")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"in output 0 of {op}: "):
            make()


@pytest.mark.usefixtures("checked")
def test_an_op_whose_kernel_was_swapped_meanwhile_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tf.constant(1e300, "float64")
    multiply = REGISTRY["multiply"]
    monkeypatch.setattr(multiply, "kernel", multiply.kernel)
    monkeypatch.undo()
    with pytest.raises(tf.errors.InvalidArgumentError, match="in output 0 of multiply: "):
        x * x


def test_python_floats_are_computed_without_kernels_again() -> None:
    tf.debugging.enable_check_numerics()
    assert not Primitive.inlined
    tf.debugging.disable_check_numerics()
    assert Primitive.inlined


@pytest.mark.usefixtures("checked")
def test_overflow_of_half_precision_is_found_where_it_is_rounded() -> None:
    x = tf.constant([6e4, 1.0], "float16")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"output 0 of add: 1 \+Inf among 2 elements of float16"):
        x + x
    with pytest.raises(tf.errors.InvalidArgumentError, match="output 0 of cast"):
        tf.cast(tf.constant(1e30), "float16")


@pytest.mark.usefixtures("checked")
def test_what_only_moves_values_and_what_is_no_real_number_passes() -> None:
    x = tf.constant([INF, 1.0])
    for y in (tf.identity(x), tf.reshape(x, [2, 1]), tf.concat([x, x], 0), tf.transpose(x), tf.maximum(x, 0.0)):
        assert y.numpy().max() == INF
    assert (tf.constant([1, 2]) * 3).numpy().tolist() == [3, 6]
    assert tf.complex(tf.constant(1.0), tf.constant(INF)).numpy().imag == INF
    assert not (tf.constant(1.0) > INF).numpy()


@pytest.mark.usefixtures("checked")
@pytest.mark.parametrize("persistent", [False, True])
def test_a_gradient_that_is_no_number_raises(persistent: bool) -> None:
    x = tf.Variable([0.0, 1.0])
    with tf.GradientTape(persistent=persistent) as tape:
        y = tf.sqrt(x)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"in a gradient: 1 \+Inf among 2 elements"):
        tape.gradient(y, x)


@pytest.mark.usefixtures("checked")
def test_a_zero_that_a_selection_made_is_no_fault() -> None:
    x = tf.Variable([0.0, 1.0])
    with tf.GradientTape() as tape:
        y = tf.where(x > 0.5, tf.sqrt(x), 0.0)
    assert tape.gradient(y, x).numpy().tolist() == [0.0, 0.5]


def test_the_line_that_called_the_op_is_named() -> None:
    tf.debugging.enable_check_numerics()
    try:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"test_finite\.py:\d+ \(test_the_line"):
            tf.math.log(tf.constant(0.0))
    finally:
        tf.debugging.disable_check_numerics()


def test_it_ends_when_told_and_is_of_one_thread() -> None:
    found: list[Any] = []
    tf.debugging.enable_check_numerics()
    tf.debugging.enable_check_numerics()
    thread = threading.Thread(target=lambda: found.append(tf.math.log(tf.constant(0.0)).numpy()))
    thread.start()
    thread.join()
    assert found == [-INF]
    tf.debugging.disable_check_numerics()
    assert tf.math.log(tf.constant(0.0)).numpy() == -INF
    assert (tf.constant(1e300, "float64") * 1e300).numpy() == INF


def test_blocks_that_are_open_follow() -> None:
    x = tf.Variable([0.0, 1.0])
    with tf.GradientTape():
        tf.debugging.enable_check_numerics()
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.math.log(x)
    try:
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.math.log(x)
        with tf.GradientTape() as tape:
            tf.debugging.disable_check_numerics()
            y = tf.math.log(x)
        assert tape.gradient(y, x).numpy().tolist() == [INF, 1.0]
        assert y.numpy()[0] == -INF
    finally:
        tf.debugging.disable_check_numerics()
    tf.math.log(x)
