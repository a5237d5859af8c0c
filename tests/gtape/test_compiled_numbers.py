"""NumPy's numbers as arguments of compiled functions: one program for all values, and the bits of eager calls."""

from __future__ import annotations

import functools
import numbers
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from tests.bits import bits

_KINDS = ("float16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool", "complex64", "complex128")
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "**": operator.pow,
    "//": operator.floordiv, "%": operator.mod, "<": operator.lt, ">=": operator.ge, "==": operator.eq,
    "!=": operator.ne, "maximum": lambda a, b: tf.maximum(a, b), "pow": lambda a, b: tf.pow(a, b),
    "where": lambda a, b: tf.where(tf.constant([True, False]), a, b), "stack": lambda a, b: tf.stack([a, b]),
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "a rate": lambda x, n: x - n * tf.sin(x),
    "arithmetic with Python's numbers": lambda x, n: x * (1 - n) + (2 * n + 0.5) / 3,
    "NumPy's functions": lambda x, n: x * np.sqrt(np.abs(n)) + np.exp(-np.abs(n)),
    "constant": lambda x, n: tf.constant(n),
    "convert_to_tensor": lambda x, n: tf.convert_to_tensor(n),
    "cast": lambda x, n: x * tf.cast(n, tf.float32),
    "fill": lambda x, n: tf.fill([2], n),
    "the number itself": lambda x, n: n,
    "the number in a structure": lambda x, n: {"x": x, "n": [n, n + n]},
    "a branch": lambda x, n: x if n > 1 else -x,
    "Python's float": lambda x, n: x * float(n.real),
    "math of a scalar": lambda x, n: tf.math.exp(n) if n.dtype.kind == "f" else x,
    "an index": lambda x, n: x[int(n.real) % 2],
    "a class": lambda x, n: x * n if isinstance(n, np.floating) else -x,
    "a class of a result": lambda x, n: x * n if isinstance(1 - 2 * n, np.floating) else -x,
    "an abstract class": lambda x, n: x if isinstance(np.abs(n), numbers.Real) else -x,
    "an attribute": lambda x, n: x if issubclass(n.__class__, np.integer) else -x,
    "a text": lambda x, n: x * {"1": 2.0, "3": 3.0, "1.7": 4.0, "True": 5.0, "(1.7+0j)": 6.0}.get(str(n), 0.0),
    "a text by a format": lambda x, n: x * len(f"{n}") + len(f"{n!r}"),
    "a text by a format with a width": lambda x, n: x * len(f"{n.real:.3g}"),
    "texts of a structure": lambda x, n: x * len(str([n, {"n": n}])),
}
# A whole number is needed here, so that eager calls refuse every float, complex number and bool.
_SIZES: dict[str, Callable[[Any, Any], Any]] = {
    "an index": lambda x, n: x[n],
    "the start of a slice": lambda x, n: x[n:],
    "the end of a slice": lambda x, n: x[:n],
    "an index of a list": lambda x, n: [10, 20, 30][n] * x,
    "Python's range": lambda x, n: [i * x for i in range(n)],
    "top_k": lambda x, n: tf.math.top_k(x, n)[0],
    "fill": lambda x, n: tf.fill([n], 1.0),
    "zeros": lambda x, n: tf.zeros([n, 2]),
    "an axis": lambda x, n: tf.reduce_sum([x], axis=n),
    "the axis of softmax": lambda x, n: tf.nn.softmax([x], axis=n),
    "reshape": lambda x, n: tf.reshape(x, [n, -1]),
    "roll": lambda x, n: tf.roll(x, n, 0),
    "one_hot": lambda x, n: tf.one_hot([0], n),
    "linspace": lambda x, n: tf.linspace(0.0, 1.0, n),
    "split": lambda x, n: tf.split(x, n),
    "repeat": lambda x, n: tf.repeat(x, n),
    "expand_dims": lambda x, n: tf.expand_dims(x, n),
    "stack": lambda x, n: tf.stack([x], axis=n),
    "cumsum": lambda x, n: tf.cumsum([x], axis=n),
    "range": lambda x, n: tf.range(n),
    "the shape of a draw": lambda x, n: tf.zeros_like(tf.random.normal(n)),
    "clip_by_value": lambda x, n: tf.clip_by_value(x, n, 5),
    "a repeated list": lambda x, n: x * len([1] * n + n * [2]),
    "a repeated tuple": lambda x, n: tf.zeros((2,) * n),
    "a repeated text": lambda x, n: x * (len("ab" * n) + len(n * b"a")),
    "a repeated list of tensors": lambda x, n: tf.concat([x] * n, 0),
    "a repeated loop": lambda x, n: functools.reduce(lambda y, _: tf.sin(y), [None] * n, x),
}
_WEAK = "ignore:.*(runs eagerly|overflow|divide by zero|invalid value|Casting complex)"


def _outcome(f: Callable[..., Any], *args: Any) -> Any:
    try:
        return bits(f(*args))
    except Exception as e:
        return type(e), str(e).split("\n")[0]


def _numbers(kind: str) -> list[Any]:
    values = [True, False] if kind == "bool" else [1, 3, 0, 2, 5] if kind[0] in "iu" else [0.3, 1.7, 0.0, 2.5, 1e3]
    return [np.dtype(kind).type(v) for v in values]


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("sign", _OPERATORS)
@pytest.mark.filterwarnings(_WEAK)
def test_operators_have_the_outcomes_of_eager_calls(sign: str, dtype: str, kind: str, back_end: str) -> None:
    f = _OPERATORS[sign]
    for g in (f, lambda x, n: f(n, x)):
        for shape in ((2,), ()):
            compiled = tf.function(g, jit_compile=True)
            plain = tf.function(g)
            x = tf.constant(np.full(shape, 3, dtype))
            for n in _numbers(kind):
                assert _outcome(compiled, x, n) == _outcome(plain, x, n)


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("name", _FUNCTIONS)
@pytest.mark.filterwarnings(_WEAK)
def test_functions_of_numbers_have_the_outcomes_of_eager_calls(name: str, kind: str, back_end: str) -> None:
    f = _FUNCTIONS[name]
    compiled, plain = tf.function(f, jit_compile=True), tf.function(f)
    x = tf.constant([1.5, -2.0])
    for n in _numbers(kind) * 2:
        assert _outcome(compiled, x, n) == _outcome(plain, x, n)


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("name", _SIZES)
@pytest.mark.filterwarnings(_WEAK)
def test_sizes_axes_and_indices_have_the_outcomes_of_eager_calls(name: str, kind: str, back_end: str) -> None:
    f = _SIZES[name]
    compiled, plain = tf.function(f, jit_compile=True), tf.function(f)
    x = tf.constant([1.5, -2.0, 0.5, 3.0])
    for n in _numbers(kind) * 2:
        assert _outcome(compiled, x, n) == _outcome(plain, x, n)


@pytest.mark.parametrize("under", [False, True], ids=["inside of the function", "around the call"])
@pytest.mark.parametrize("kind", ["float32", "float64", "int64"])
@pytest.mark.filterwarnings(_WEAK)
def test_gradients_beside_numbers_have_the_bits_of_eager_calls(kind: str, under: bool, back_end: str) -> None:
    def value(x: Any, n: Any) -> Any:
        return n * tf.sin(x * n) + (1 - n) * x

    def slopes(f: Any, x: Any, n: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = f(x, n)
            g = inner.gradient(y, x)
        return y, g, outer.gradient(g, x)

    def slope(f: Any, x: Any, n: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x, n)
        return y, tape.gradient(y, x)

    way = slope if under else slopes
    called = tf.function(value, jit_compile=True) if under else None
    whole = tf.function(lambda x, n: slopes(value, x, n), jit_compile=True)
    for dtype in ("float32", "float64"):
        for shape in ((), (3,)):
            x = tf.constant(np.full(shape, 0.7, dtype))
            for n in _numbers(kind):
                made = way(called, x, n) if under else whole(x, n)
                assert bits(made) == bits(way(value, x, n))


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "bool"])
def test_one_program_serves_all_numbers_of_a_dtype(kind: str, back_end: str) -> None:
    runs = []

    def step(x: Any, n: Any, *, more: Any) -> Any:
        runs.append(1)
        return x - n * tf.cos(x) + more[0]

    compiled = tf.function(step, jit_compile=True)
    for n in _numbers(kind) * 3:
        compiled(tf.constant([1.0, 2.0]), n, more=[n])
    assert len(runs) == 1 and compiled.summary().startswith("compiled")
    assert compiled.experimental_get_tracing_count() == 1


def test_texts_of_numbers_are_those_of_eager_calls() -> None:
    compiled = tf.function(lambda x, n: (x, f"{n}", str(n), repr(n)), jit_compile=True)
    for n in [np.float32(v) for v in (0.5, 0.25, 0.5, -0.0, 0.0)]:
        assert compiled(tf.constant(1.0), n)[1:] == (f"{n}", str(n), repr(n))
    assert compiled.summary().startswith("compiled")


def test_a_variable_takes_numbers_of_each_call(back_end: str) -> None:
    rate = tf.Variable(0.0)

    def f(x: Any, n: Any) -> Any:
        rate.assign(n)
        return x * rate

    compiled = tf.function(f, jit_compile=True)
    for n in (np.float32(0.5), np.float32(0.25), np.float32(3.0)):
        assert float(compiled(tf.constant(2.0), n)) == 2.0 * n and rate.numpy() == n
