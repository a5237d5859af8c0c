"""Compiled functions: the same bits as eager ones, and what is compiled."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import pickle
import threading
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gtape as tf
from gtape import nest
from gtape.declare.primitives import REGISTRY
from gtape.tapes import inner_loops
from gtape.tapes.table import _Space
from gtape.verify.programs.mutants import example
from gtape.verify.programs.programs import generate
from tests.bits import bits
from tests.campaigns import LARGE, in_turn


def _by_order(call: Callable[..., Any], order: int) -> Callable[..., Any]:
    """A function that returns the value of `call` and its derivative of an order."""

    def function(*xs: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch([x for x in xs if x.dtype.is_floating])
            with tf.GradientTape() as inner:
                inner.watch([x for x in xs if x.dtype.is_floating])
                y = call(*xs)
            g = y
            if order == 2:
                g = [h for h in nest.flatten(inner.gradient(y, list(xs))) if h is not None]
        return y, g, outer.gradient(g, list(xs))

    def first(*xs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x for x in xs if x.dtype.is_floating])
            y = call(*xs)
        return y, tape.gradient(y, list(xs))

    return first if order == 1 else function


def _outcome(f: Callable[..., Any], xs: Any) -> Any:
    try:
        return bits(f(*xs))
    except Exception as e:
        return type(e)


@pytest.fixture
def table() -> None:
    """The table back end, or no test."""
    if inner_loops.machine() is None:
        pytest.skip("needs llvmlite")


CASES = [(order, dtype) for order in (1, 2) for dtype in ("float32", "float64")]


@pytest.mark.parametrize(
    ("name", "order", "dtype"),
    [(name, *case) for name in sorted(REGISTRY.keys()) for case in in_turn(CASES, name)],
)
@pytest.mark.filterwarnings("ignore")
def test_every_primitive_gives_the_same_bits(name: str, order: int, dtype: str, back_end: str) -> None:
    prim = REGISTRY[name]
    rng = np.random.default_rng(len(name))
    try:
        drawn = [example(prim, np.dtype(dtype), rng) for _ in range(2)]
    except Exception:
        pytest.skip("no example")
    params = drawn[0][1]
    eager = _by_order(lambda *xs: prim.function(*xs, **params), order)
    compiled = tf.function(eager, jit_compile=True)
    for (operands, _), calls in zip(drawn, (2, 1), strict=True):  # the first call is traced, the others run the program
        xs = [tf.constant(x) for x in operands]
        expected = _outcome(eager, xs)
        assert [_outcome(compiled, xs) for _ in range(calls)] == [expected] * calls


def _of_dtype(operands: Any, dtype: str, rng: np.random.Generator) -> list[Any]:
    """Operands in another dtype; complex ones get random imaginary parts."""
    made = []
    for x in map(np.asarray, operands):
        if x.dtype.kind == "f":
            x = (x + 1j * rng.normal(size=x.shape) if dtype.startswith("complex") else x).astype(dtype)
        made.append(tf.constant(x))
    return made


OTHERS = ("complex64", "complex128", "float16")


@pytest.mark.parametrize(
    ("name", "dtype"), [(name, dtype) for name in sorted(REGISTRY.keys()) for dtype in in_turn(OTHERS, name)]
)
@pytest.mark.filterwarnings("ignore")
def test_every_primitive_gives_the_same_bits_in_other_dtypes(name: str, dtype: str, back_end: str) -> None:
    prim = REGISTRY[name]
    rng = np.random.default_rng(len(name))
    try:
        operands, params = example(prim, np.dtype("float64"), rng)
    except Exception:
        pytest.skip("no example")
    if prim.kind == "elementwise":
        operands = [np.full(3, x) if np.ndim(x) == 0 else x for x in operands]
    compiled = tf.function(lambda *xs: prim.function(*xs, **params), jit_compile=True)
    for k in range(8):  # a wrong kernel may give the right bits for some numbers
        moved = [x * (1 + k / 8) if np.asarray(x).dtype.kind == "f" else x for x in operands]
        xs = _of_dtype(moved, dtype, rng)
        assert _outcome(compiled, xs) == _outcome(lambda *xs: prim.function(*xs, **params), xs)


@pytest.mark.parametrize("name", sorted(REGISTRY.keys())[3::12])
@pytest.mark.filterwarnings("ignore")
def test_forward_mode_gives_the_same_bits(name: str, back_end: str) -> None:
    prim = REGISTRY[name]
    rng = np.random.default_rng(len(name))
    try:
        drawn = [example(prim, np.dtype(np.float64), rng) for _ in range(2)]
    except Exception:
        pytest.skip("no example")

    def push(*xs: Any) -> Any:
        watched = [x for x in xs if x.dtype.is_floating]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            with tf.autodiff.ForwardAccumulator(watched, [0.5 * tf.ones_like(x) for x in watched]) as acc:
                y = prim.function(*xs, **drawn[0][1])
            tangent = acc.jvp(y)
        return y, tangent, tape.gradient(tangent, watched)

    compiled = tf.function(push, jit_compile=True)
    for operands, _ in drawn:
        xs = [tf.constant(x) for x in operands]
        assert _outcome(compiled, xs) == _outcome(push, xs)


def test_tangents_of_variables_are_compiled(back_end: str) -> None:
    w = tf.Variable([[0.5, 0.25], [0.125, 1.0]])

    def push(x: Any) -> Any:
        with tf.autodiff.ForwardAccumulator(w, tf.ones_like(w)) as outer:
            with tf.autodiff.ForwardAccumulator(x, x) as inner:
                y = tf.tanh(tf.linalg.matvec(w, x))
            first = inner.jvp(y)
        return first, outer.jvp(y), outer.jvp(first)

    compiled = tf.function(push, jit_compile=True)
    for scale in (1.0, 2.0):
        x = tf.constant([0.3, 0.6]) * scale
        assert bits(compiled(x)) == bits(push(x))
        w.assign(w * scale)
    assert compiled.summary().startswith("compiled")


def _with_arguments(program: Any) -> tuple[Callable[..., Any], list[Any]]:
    """A random program as a function of its inputs, and the inputs."""
    text = program.source
    names = [i.name for i in program.inputs if i.kind != "variable"]
    text = text.replace("verify=verify", "verify=False")
    head, _, body = text.partition("def program(verify=False):\n")
    lines = body.splitlines(keepends=True)
    n = len(program.inputs)
    outside = "".join(line[4:] for line in lines[:n])
    space: dict[str, Any] = {}
    exec(head + outside + f"def program({', '.join(names)}):\n" + "".join(lines[n:]), space)
    return space["program"], [space[name] for name in names]


@pytest.mark.parametrize("seed", range(2_000) if LARGE else range(0, 200, 4))
@pytest.mark.filterwarnings("ignore")
def test_random_programs_give_the_same_bits(seed: int, back_end: str) -> None:
    program, inputs = _with_arguments(generate(seed))
    compiled = tf.function(program, jit_compile=True)
    rng = np.random.default_rng(seed)
    for k in range(3):
        xs = [
            tf.constant(x.numpy() * (1 if k < 2 else rng.uniform(0.5, 1.5))) if x.dtype.is_floating else x
            for x in inputs
        ]
        xs = [tf.cast(x, i.dtype) for x, i in zip(xs, inputs, strict=True)]
        assert _outcome(compiled, xs) == _outcome(program, xs)


# ---------------------------------------------------------------------------------------------- what is compiled


def _slope(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.sin(x) * x)
    return y, tape.gradient(y, x)


def _jacobian(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.linalg.matvec(tf.ones([3, 3], x.dtype), tf.nn.softmax(tf.sin(x)))
    return tape.jacobian(y, x)


def _hessian(x: Any) -> Any:
    with tf.GradientTape() as outer:
        outer.watch(x)
        _, g = _slope(x)
    return outer.jacobian(g, x)


def _jacobian_in_a_tape(x: Any) -> Any:
    with tf.GradientTape() as outer:
        outer.watch(x)
        total = tf.reduce_sum(_jacobian(x) ** 2)
    return outer.gradient(total, x)


def _batch_jacobian(x: Any) -> Any:
    x = tf.stack([x, 2 * x])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.softmax(x)
    return tape.batch_jacobian(y, x)


def _selections(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.where(x > 0, tf.nn.relu(x), tf.maximum(x, -1.0)) * tf.reduce_max(x)
    return tape.gradient(y, x), y


def _persistent(x: Any) -> Any:
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        with tape.stop_recording():
            z = y * 2.0
        z += tf.sin(y)
    return {"z": tape.gradient(z, x), "y": (tape.gradient(y, x), tape.gradient(z, y)), "none": None, "one": 1}


@tf.custom_gradient
def _five(x: Any) -> Any:
    return x * x, lambda g: 5.0 * g * x


def _custom(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = _five(x) * x
    return tape.gradient(y, x)


def _loops(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), (0, x))[1]
        y += tf.map_fn(tf.sin, x) + tf.scan(lambda a, b: a * b, x)
    return tape.gradient(y, x)


def _gradients(x: Any) -> Any:
    c = tf.constant([2.0, 3.0, 4.0], x.dtype)
    first = tf.gradients(tf.sin(x * c) * c, [x, c])
    return first, tf.gradients(first[0], [x, c]), tf.hessians(tf.reduce_sum(tf.exp(x) * c), x)


COMPILED = [
    _slope, _jacobian, _hessian, _jacobian_in_a_tape, _batch_jacobian, _selections, _persistent, _custom, _loops,
    _gradients, np.sin,
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("f", COMPILED, ids=lambda f: f.__name__)
def test_tapes_of_every_kind_are_compiled(f: Any, dtype: str, back_end: str) -> None:
    compiled = tf.function(lambda x: f(x), jit_compile=True)
    for values in ([0.5, 1.5, -0.25], [0.1, 0.9, -0.7], [1.1, 2.0, -0.1]):
        x = tf.constant(values, dtype)
        assert bits(compiled(x)) == bits(tf.function(f)(x))
    assert compiled.summary().startswith("compiled") and "eager" not in compiled.summary()


def test_most_primitives_and_programs_are_compiled() -> None:
    for name in ("sin", "matmul", "cholesky", "reduce_sum", "softmax", "fft"):
        prim = REGISTRY.get(name)
        if prim is None:
            continue
        operands, params = example(prim, np.dtype("float64"), np.random.default_rng(0))
        compiled = tf.function(_by_order(lambda *xs, p=prim, k=params: p.function(*xs, **k), 2), jit_compile=True)
        compiled(*[tf.constant(x) for x in operands])
        assert compiled.summary().startswith("compiled"), name
    for seed in range(10):
        program, inputs = _with_arguments(generate(seed))
        compiled = tf.function(program, jit_compile=True)
        compiled(*inputs)
        assert compiled.summary().startswith("compiled"), seed


def test_variables_are_read_at_every_call(back_end: str) -> None:
    w, fixed = tf.Variable([1.0, 2.0]), tf.Variable(3.0, trainable=False)

    @tf.function(jit_compile=True)
    def f(x: Any) -> Any:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(w * w * x) * fixed
        return y, tape.gradient(y, [w, fixed])

    x = tf.constant([1.0, 1.0])
    assert f(x)[0].numpy() == 15.0
    w.assign([2.0, 2.0])
    fixed.assign(1.0)
    y, (g, none) = f(x)
    assert (y.numpy(), g.numpy().tolist(), none) == (8.0, [4.0, 4.0], None)
    assert f.summary().startswith("compiled") and "2 variables" in f.summary()


def test_a_variable_of_another_shape_is_not_taken_for_the_traced_one() -> None:
    w = tf.Variable([1.0], shape=tf.TensorShape([None]))
    f = tf.function(lambda: w * 2.0, jit_compile=True)
    assert f().numpy().tolist() == [2.0]
    w.assign([1.0, 2.0])
    assert f().numpy().tolist() == [2.0, 4.0]


def test_python_runs_once_for_each_kind_of_arguments() -> None:
    traced = []

    @tf.function(jit_compile=True)
    def f(x: Any, factor: Any = 2.0, *, words: Any = None) -> Any:
        traced.append(1)
        return [x * factor, words]

    x, y = tf.constant([1.0]), tf.constant([1.0, 2.0])
    kinds = [(x,), (y,), (tf.constant([1.0], tf.float64),), (x, 3.0), (x, tf.constant(3.0))]
    for _ in range(3):
        for kind in kinds:
            f(*kind)
            assert f(*kind, words="a")[1] == "a"
    assert len(traced) == 2 * len(kinds)
    assert [f(x, k)[0].numpy()[0] for k in (2.0, 2, True)] == [2.0, 2.0, 1.0]


def _attention(q: Any, k: Any, v: Any) -> Any:
    return tf.reduce_sum(tf.tanh(tf.nn.softmax(q @ tf.transpose(k)) @ v) * q + tf.sin(v) * k + q * q * v)


def _slopes_by_each(q: Any, k: Any, v: Any) -> Any:
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(q)
        y = tf.reduce_sum(q * k * q + v)
    return [tape.gradient(y, x) for x in (q, k, v)]


@pytest.mark.parametrize("f", [_attention, _slopes_by_each])
def test_a_tensor_that_is_passed_twice_is_one_tensor(f: Any, back_end: str) -> None:
    rng = np.random.default_rng(3)
    compiled = tf.function(f, jit_compile=True)
    made = [tf.constant(rng.normal(size=(4, 4))) for _ in range(3)]
    for places in ((0, 1, 2), (0, 0, 0), (0, 1, 0), (1, 0, 0), (0, 1, 2), (2, 2, 1)):
        xs = [made[k] for k in places]
        assert bits(compiled(*xs)) == bits(compiled(xs[0], v=xs[2], k=xs[1])) == bits(f(*xs))
        slopes = []
        for call in (f, compiled, compiled):
            with tf.GradientTape() as tape:
                tape.watch(xs)
                y = [t for t in nest.flatten(call(*xs)) if t is not None]
            slopes.append(bits(tape.gradient(y, xs)))
        assert slopes[0] == slopes[1] == slopes[2]


def test_an_input_signature_converts_and_compiles() -> None:
    f = tf.function(lambda x: x * 2.0, input_signature=[tf.TensorSpec([None], tf.float32)], jit_compile=True)
    assert f([1.0, 2.0]).numpy().tolist() == [2.0, 4.0] and f([3.0]).numpy().tolist() == [6.0]
    assert f.experimental_get_tracing_count() == 1 and f.summary().count("compiled") == 2
    with pytest.raises(TypeError, match="input_signature"):
        f(tf.constant(1.0))


def test_methods_are_compiled_for_each_instance() -> None:
    class Scale:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        @tf.function(jit_compile=True)
        def __call__(self, x: Any) -> Any:
            return self.factor * x

    x = tf.constant(2.0)
    for factor in (2.0, 3.0, 4.0):  # an instance may get the place in memory of one that is gone
        one = Scale(factor)
        assert one(x).numpy() == one(x).numpy() == factor * 2.0
        del one


def test_gradients_see_the_variables_of_the_instance_in_a_compiled_method() -> None:
    class Power:
        def __init__(self, exponent: int) -> None:
            self.exponent, self.base = exponent, tf.Variable(2.0)

        @tf.function(jit_compile=True)
        def slope(self) -> Any:
            return tf.gradients(self.base**self.exponent, self.base)[0]

    two, three = Power(2), Power(3)
    for one, expected in ((two, 4.0), (three, 12.0)):
        assert one.slope().numpy() == one.slope().numpy() == expected
    three.base.assign(3.0)
    assert three.slope().numpy() == 27.0
    assert Power.slope.summary().count("compiled") == 2 and "eager" not in Power.slope.summary()


@pytest.mark.parametrize("ask", [bool, lambda c: c and True, lambda c: not c, lambda c: 1 if c else 2])
def test_the_truth_of_a_tensor_is_an_error_that_says_what_to_write(ask: Any) -> None:
    f = tf.function(lambda x: x if ask(tf.reduce_sum(x) > 0) else -x, jit_compile=True)
    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError, match=r"gtape\.where.*gtape\.cond"):
        f(tf.constant([1.0]))


def test_branches_and_whole_numbers_are_right_for_every_value(back_end: str) -> None:
    f = tf.function(
        lambda x, i: (tf.cond(tf.reduce_sum(x) > 0, lambda: x, lambda: -2.0 * x), x[i], tf.boolean_mask(x, x > 0)),
        jit_compile=True,
    )
    for values, i in (([1.0, 2.0], 0), ([-1.0, -2.0], 1), ([3.0, -1.0], 0), ([3.0, 2.0], 1)):
        x = tf.constant(values)
        expected = [values if sum(values) > 0 else [-2.0 * v for v in values], values[i], [v for v in values if v > 0]]
        assert [t.numpy().tolist() for t in f(x, tf.constant(i))] == expected
    assert [line.partition(":")[0] for line in f.summary().split("\n")] == ["compiled"] * 4


def test_a_program_that_is_seldom_valid_is_given_up() -> None:
    f = tf.function(lambda x, i: x[i], jit_compile=True)
    x = tf.range(100.0)
    with pytest.warns(RuntimeWarning, match="depends on the values"):
        for i in range(40):
            assert f(x, tf.constant(i)).numpy() == i
    assert f.summary().startswith("eager")


def test_both_branches_and_some_counts_of_loops_are_compiled(back_end: str) -> None:
    runs: list[int] = []

    def f(x: Any, n: Any) -> Any:
        runs.append(1)
        y = tf.cond(x > 0.0, lambda: x * x, lambda: -x)
        return tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * x), (tf.constant(0), y))[1]

    compiled = tf.function(f, jit_compile=True)
    calls = [(x, n) for _ in range(3) for x in (1.5, -2.0) for n in (2, 3)]
    for under in (False, True):
        made = []
        for g in (compiled, f):
            runs.clear()
            for v, n in calls:
                x = tf.constant(v)
                with tf.GradientTape() if under else contextlib.nullcontext() as tape:
                    if tape is not None:
                        tape.watch(x)
                    y = g(x, tf.constant(n))
                made.append(bits([y, *([] if tape is None else [tape.gradient(y, x)])]))
            assert g is f or len(runs) == 4
        assert made[: len(calls)] == made[len(calls) :]


@pytest.mark.parametrize(
    ("f", "reason"),
    [
        (lambda x, v: (tf.keras.optimizers.SGD(0.1).apply_gradients([(x, v)]), x)[1], "makes a variable"),
        (lambda x, v: v.scatter_nd_add([[0]], x[:1]) * 1.0, "it changes parts of a variable"),
        (lambda x, v: tf.random.shuffle(x, seed=3) * 0.0, "draws random numbers"),
        (lambda x, v: tf.keras.layers.Dropout(0.5, seed=1)(x, training=True) * 0.0, "makes a variable"),
        (lambda x, v: tf.py_function(lambda t: t * t, [x], tf.float32), "py_function"),
        (lambda x, v: tf.numpy_function(np.cumsum, [x], tf.float32), "numpy_function"),
        (lambda x, v: x * float(x[0]), "float"),
        (lambda x, v: tf.constant(x.numpy()), "numpy"),
        (lambda x, v: tf.constant(np.asarray(x) + 1), "NumPy"),
        (lambda x, v: tf.unique(x), "values"),
    ],
)
def test_what_cannot_be_compiled_runs_eagerly_after_one_warning(f: Any, reason: str) -> None:
    x = tf.constant([1.0, 2.0])
    mine, theirs = tf.Variable([1.0, 1.0]), tf.Variable([1.0, 1.0])
    compiled = tf.function(lambda x: f(x, mine), jit_compile=True)
    plain = tf.function(lambda x: f(x, theirs))
    with pytest.warns(RuntimeWarning, match=reason) as noted:
        made = [bits(compiled(x)) for _ in range(3)]
    assert len(noted) == 1
    assert made == [bits(plain(x)) for _ in range(3)]
    assert mine.numpy().tolist() == theirs.numpy().tolist()


_MEAN = tf.keras.metrics.Mean()


@pytest.mark.parametrize(
    ("f", "reason"),
    [
        (lambda x: (_MEAN.update_state(x), x * 2.0)[1], r"it needs the values of a tensor in update_state \(.*\.py:"),
        (lambda x: tf.random.gamma([2], x[0]) * 0.0, r"it reads the value of a tensor by \.numpy\(\) in gamma \("),
        (lambda x: x * float(x[0]), r"it reads the value of a tensor by float \(.*\.py:"),
        (lambda x: tf.keras.layers.GaussianNoise(0.1)(x, training=True) * 0.0, "result: it makes a variable"),
    ],
)
def test_the_warning_names_the_function_that_reads_values_and_the_line_of_the_user(f: Any, reason: str) -> None:
    with pytest.warns(RuntimeWarning, match=reason):
        compiled = tf.function(f, jit_compile=True)
        for _ in range(3):  # a function may make variables in its first call
            compiled(tf.constant([1.0, 2.0]))


class _Noisy:
    """Random numbers of every kind that is compiled."""

    def __init__(self, *, assigns: bool) -> None:
        tf.random.set_seed(3)
        self.assigns = assigns
        self.generator = tf.random.Generator.from_seed(5)
        self.layers = [tf.keras.layers.Dropout(0.5, (2, 1), seed=1), tf.keras.layers.GaussianNoise(0.5, seed=2)]
        self.v = tf.Variable(1.0)

    def __call__(self, x: Any) -> Any:
        if self.assigns:
            self.v.assign_add(1.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.nn.dropout(x, 0.25) * tf.random.normal([2, 3], self.v, 0.5) + tf.random.truncated_normal([3])
            y += tf.random.uniform([], seed=3) * tf.random.uniform([3], -1.0, 2.0, seed=3)
            y *= tf.random.gamma([3], 0.7) + tf.cast(tf.random.uniform([3], 0, 9, tf.int32), tf.float32)
            for layer in self.layers:
                y = layer(y, training=True)
            y -= self.generator.normal([2, 3]) + self.generator.uniform([3], dtype=tf.float32)
            y = tf.reduce_sum(tf.cond(tf.random.normal([]) > 0.0, lambda: y, lambda: y * tf.random.normal([3])))
        tf.debugging.assert_positive(x)
        return y, tape.gradient(y, [x, self.v])


@pytest.mark.parametrize("under", [False, True])
def test_random_numbers_are_drawn_at_every_call_as_eagerly(under: bool, back_end: str) -> None:
    made = []
    for jit in (True, False):
        noisy = _Noisy(assigns=not under)  # no program assigns variables under a tape
        f = tf.function(noisy if not under else lambda x, noisy=noisy: noisy(x)[0], jit_compile=jit)
        found: list[Any] = []
        for scale in (1.0, 2.0, -1.0, 3.0, 4.0, -1.0, 5.0, 6.0, 7.0):  # an assertion fails for negative numbers
            x = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]) * scale
            try:
                with tf.GradientTape() if under else contextlib.nullcontext() as tape:
                    if tape is not None:
                        tape.watch(x)
                    y = f(x)
                found += [y, [] if tape is None else tape.gradient(y, x)]
            except tf.errors.InvalidArgumentError:
                found.append(0.0)
        made.append(bits([found, noisy.generator.state, noisy.v.value(), tf.random.normal([2])]))
        assert not jit or all(
            line.startswith(("compiled", "under a tape, compiled")) for line in f.summary().split("\n")
        )
    assert made[0] == made[1]


class _Signs(tf.keras.optimizers.Optimizer):
    """An optimizer of a user's."""

    def build(self, variables: Any) -> None:
        super().build(variables)
        self.sums = [self.add_variable_from_reference(v, name="sum") for v in variables]

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        self.assign_add(self.sums[self._get_variable_index(variable)], gradient)
        self.assign_sub(variable, learning_rate * tf.sign(gradient))


OPTIMIZERS: list[Callable[[], Any]] = [
    lambda: tf.keras.optimizers.SGD(0.1),
    lambda: tf.keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True, clipvalue=0.01),
    lambda: tf.keras.optimizers.Adam(tf.keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5), use_ema=True),
    lambda: tf.keras.optimizers.AdamW(lambda: 0.05, weight_decay=0.01, global_clipnorm=0.5),
    lambda: tf.keras.optimizers.RMSprop(0.01, momentum=0.5),
    lambda: _Signs(0.01),
]


@pytest.mark.parametrize("make", OPTIMIZERS)
@pytest.mark.parametrize("minimize", [False, True])
def test_steps_of_optimizers_are_compiled(make: Callable[[], Any], minimize: bool, back_end: str) -> None:
    rng = np.random.default_rng(3)
    data = [tf.constant(rng.normal(size=(4, 3)), tf.float32) for _ in range(6)]
    start = rng.normal(size=(3, 2)).astype(np.float32)

    def train(jit: bool) -> tuple[Any, str]:
        w = tf.Variable(start, constraint=lambda v: tf.clip_by_value(v, -1.0, 1.0))
        b, optimizer, unused = tf.Variable([0.5, 0.25]), make(), tf.Variable(1.0)

        @tf.function(jit_compile=jit)
        def step(x: Any) -> Any:
            def loss() -> Any:
                return tf.reduce_mean(tf.tanh(x @ w + b) ** 2)

            if minimize:
                before = loss()
                optimizer.minimize(loss, [w, b])
                return before
            with tf.GradientTape() as tape:
                made = loss()
            slopes = tape.gradient(made, [w, b, unused])
            optimizer.apply_gradients(list(zip(slopes[:2], [w, b], strict=True)))
            return made

        losses = [step(x) for x in data]
        return bits([losses, w.value(), b.value(), [v.value() for v in optimizer.variables]]), step.summary()

    made, summary = train(True)
    assert made == train(False)[0]
    assert summary.startswith("compiled")


def test_rows_of_gradients_go_to_optimizers(back_end: str) -> None:
    def train(jit: bool) -> Any:
        table, optimizer = tf.Variable(np.arange(12.0).reshape(4, 3)), tf.keras.optimizers.Adam(0.1)

        @tf.function(jit_compile=jit)
        def step(i: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.gather(table, i) ** 2)
            optimizer.apply_gradients([(tape.gradient(loss, table), table)])
            return loss

        made = [step(tf.constant(i)) for i in ([0, 1], [3, 3], [0, 1], [2, 0])]
        assert not jit or step.summary().startswith("compiled")
        return bits([made, table.value()])

    assert train(True) == train(False)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", [-1, 1])
def test_a_training_step_with_batch_normalization_is_compiled(axis: int, dtype: str, back_end: str) -> None:
    layers = tf.keras.layers
    rng = np.random.default_rng(0)
    xs = [tf.constant(rng.normal(size=(4, 3, 3)), dtype) for _ in range(4)]

    def trained(compiled: bool) -> Any:
        first, last = (layers.BatchNormalization(axis=axis, momentum=0.7, dtype=dtype) for _ in range(2))
        optimizer, steps = tf.keras.optimizers.SGD(0.1, momentum=0.9), tf.Variable(0)
        for layer in (first, last):
            layer.build(xs[0].shape)
        variables = first.trainable_variables + last.trainable_variables
        optimizer.build(variables)

        def step(x: Any) -> Any:
            with tf.GradientTape() as tape:
                y = last(tf.sin(first(first(x, training=True), training=True)), training=True)
                loss = tf.reduce_sum(y**3)
            steps.assign_add(1)
            seen = first.moving_mean + 0.0
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            return loss, seen

        f = tf.function(step, jit_compile=True) if compiled else step
        made = [bits(f(x)) for x in xs]
        assert not compiled or f.summary().startswith("compiled")
        return made, [bits(v.value()) for v in [*first.variables, *last.variables, *optimizer.variables, steps]]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert trained(compiled=True) == trained(compiled=False)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_batch_normalization_follows_each_batch_of_a_compiled_call(dtype: str, back_end: str) -> None:
    xs = [tf.constant(np.random.default_rng(k).normal(k, 1.0 + k, (5, 3)), dtype) for k in range(4)]

    def followed(compiled: bool) -> Any:
        layer = tf.keras.layers.BatchNormalization(momentum=0.9, dtype=dtype)
        f = tf.function(lambda x, training: layer(x, training=training), jit_compile=compiled)
        made = [[bits(f(x, training)), bits(layer.moving_variance.value())] for x in xs for training in (True, False)]
        return made, bits(layer.moving_mean.value())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert followed(compiled=True) == followed(compiled=False)


def test_two_optimizers_step_in_their_order() -> None:
    def train(jit: bool) -> Any:
        v, w = tf.Variable([1.0, 2.0]), tf.Variable([0.5, -0.5])
        first, second = tf.keras.optimizers.SGD(0.1), tf.keras.optimizers.Adam(0.1)

        @tf.function(jit_compile=jit)
        def step(x: Any) -> Any:
            with tf.GradientTape(persistent=True) as tape:
                a = tf.reduce_sum(v * w * x)
                b = tf.reduce_sum(v * v + w)
            first.apply_gradients([(tape.gradient(a, v), v)])
            second.apply_gradients([(tape.gradient(b, w), w), (tape.gradient(b, v), v)])
            return a, b

        made = [step(tf.constant([1.0, k])) for k in range(4)]
        assert not jit or step.summary().startswith("compiled")
        return bits([made, v.value(), w.value()])

    assert train(True) == train(False)


def test_a_function_that_reads_what_an_optimizer_changed_runs_eagerly() -> None:
    def train(jit: bool) -> Any:
        v, other, optimizer = tf.Variable([1.0, 2.0]), tf.Variable(1.0), tf.keras.optimizers.SGD(0.1)
        optimizer.build([v])

        @tf.function(jit_compile=jit)
        def step(x: Any) -> Any:
            optimizer.apply_gradients([(x, v)])
            other.assign_add(1.0)
            return v * x

        made = [step(tf.constant([1.0, k])) for k in range(4)]
        return bits([made, v.value(), other.value()])

    with pytest.warns(RuntimeWarning, match="variable"):
        made = train(True)
    assert made == train(False)


def test_variables_made_at_the_first_call_do_not_prevent_the_compilation() -> None:
    model = tf.keras.Sequential([tf.keras.layers.Dense(4, activation="relu"), tf.keras.layers.Dense(2)])

    @tf.function(jit_compile=True)
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x) ** 2)
        return loss, tape.gradient(loss, model.trainable_variables)

    x = tf.constant(np.random.default_rng(0).normal(size=(3, 5)), tf.float32)
    first, second = step(x), step(x)
    assert bits(first) == bits(second) == bits(step.python_function(x))
    assert step.summary().startswith("compiled") and len(model.trainable_variables) == 4


def test_a_call_under_a_tape_is_recorded() -> None:
    f = tf.function(lambda x: x * x, jit_compile=True)
    x = tf.constant(3.0)
    f(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert tape.gradient(y, x).numpy() == 6.0


def test_errors_are_those_of_the_eager_call() -> None:
    f = tf.function(lambda x: tf.reshape(x, [2, 2]), jit_compile=True)
    with pytest.raises(tf.errors.InvalidArgumentError):
        f(tf.constant([1.0, 2.0, 3.0]))
    assert f(tf.constant([1.0, 2.0, 3.0, 4.0])).shape == (2, 2)


@pytest.mark.parametrize("under", [False, True])
def test_an_error_of_the_users_is_raised_once_by_the_traced_call(under: bool) -> None:
    runs: list[int] = []

    @tf.function(jit_compile=True)
    def f(x: Any) -> Any:
        runs.append(1)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            if len(runs) == 1:
                raise ValueError("not ready")
        return tape.gradient(y, x)

    x = tf.constant(3.0)
    with tf.GradientTape() if under else contextlib.nullcontext():
        with pytest.raises(ValueError, match="not ready"):
            f(x)
        assert [f(x).numpy() for _ in range(3)] == [6.0] * 3 and len(runs) == 2


@pytest.mark.parametrize(
    "check",
    [
        lambda x: tf.debugging.assert_positive(x),
        lambda x: tf.debugging.assert_less(x, [9.0, 9.0], message="small"),
        lambda x: tf.debugging.assert_near(x, x + 1e-9),
        lambda x: tf.Assert(tf.reduce_all(x > 0.0), [x]),
        lambda x: tf.debugging.check_numerics(tf.math.log(x), "logarithm"),
    ],
)
def test_assertions_are_compiled(check: Callable[[Any], Any], back_end: str) -> None:
    v = tf.Variable(0.0)

    def f(x: Any) -> Any:
        v.assign_add(1.0)
        check(x)
        v.assign_add(1.0)
        return 2.0 * x

    def outcome(f: Any, x: Any, *, under: bool) -> Any:
        v.assign(0.0)
        try:
            with tf.GradientTape() if under else contextlib.nullcontext(), warnings.catch_warnings():
                warnings.filterwarnings(
                    "ignore", ".* runs eagerly.*: under a tape, it assigns a variable", RuntimeWarning
                )
                return bits([f(x), v.value()])
        except tf.errors.InvalidArgumentError as e:
            return str(e), v.numpy()

    compiled = tf.function(f, jit_compile=True)
    for under in (False, True):
        for values in ([1.0, 2.0], [3.0, 4.0], [-1.0, 10.0], [-1.0, np.nan], [5.0, 6.0]):
            x = tf.constant(values)
            assert outcome(compiled, x, under=under) == outcome(f, x, under=under)
    assert compiled.summary().partition("\n")[0].startswith("compiled")


def test_infinite_and_undefined_gradients_are_those_of_the_eager_call(back_end: str) -> None:
    def f(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.sqrt(tf.maximum(x, 0.0)) / x)
        return tape.gradient(y, x)

    for dtype in ("float32", "float64"):
        for first in ([1.0, 2.0], [0.0, 1.0]):
            compiled = tf.function(f, jit_compile=True)
            for values in (first, [0.0, 1.0], [-1.0, 4.0], [np.inf, np.nan], [1e-320, 1e300]):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    for x in (tf.constant(values, dtype), tf.constant(values[0], dtype)):
                        assert bits(compiled(x)) == bits(f(x))


def test_a_traced_tensor_that_leaks_says_so() -> None:
    leaked = []
    tf.function(lambda x: leaked.append(x * 2.0) or x, jit_compile=True)(tf.constant(1.0))
    with pytest.raises(RuntimeError, match="return it"):
        leaked[0] + 1.0
    with pytest.raises(RuntimeError, match="return it"):
        leaked[0].numpy()


def test_threads_share_a_compiled_function(back_end: str) -> None:
    traced = []

    @tf.function(jit_compile=True)
    def f(x: Any) -> Any:
        traced.append(1)
        return _slope(x)

    expected = {n: bits(_slope(tf.ones([n]))) for n in range(1, 9)}
    wrong: list[int] = []

    def work() -> None:
        for _ in range(20):
            wrong.extend(n for n in expected if bits(f(tf.ones([n]))) != expected[n])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and len(traced) == len(expected)


def test_the_number_of_programs_is_bounded() -> None:
    f = tf.function(lambda x: x * 2.0, jit_compile=True)
    with pytest.warns(RuntimeWarning, match="more than 64 kinds"):
        for n in range(100):
            f(tf.ones([n]))
    assert f.summary().count("compiled") == 64


def test_a_swapped_kernel_is_seen() -> None:
    from gtape.verify.programs.mutants import planted_kernel

    f = tf.function(lambda x: tf.exp(x), jit_compile=True)
    x = tf.constant([1.0, 2.0])
    before = bits(f(x))
    with planted_kernel("exp", 2.0):
        assert bits(f(x)) == bits(tf.exp(x)) != before
    assert bits(f(x)) == before


def test_large_arrays_are_written_over_only_where_nothing_reads_them(back_end: str) -> None:
    def f(x: Any, y: Any) -> Any:
        a = x + y
        b = a * y
        c = tf.reshape(b, [100, 100])
        d = b - x
        return d * 2.0 + x, c, (a - b) / (x * x + 1.0)

    compiled = tf.function(f, jit_compile=True)
    rng = np.random.default_rng(0)
    for _ in range(3):
        xs = [tf.constant(rng.normal(size=10_000)) for _ in range(2)]
        before = bits(xs)
        assert bits(compiled(*xs)) == bits(f(*xs)) and bits(xs) == before
    assert "out=" in compiled.source


def test_equal_calls_are_shared_and_unused_ones_left_out() -> None:
    f = tf.function(lambda x: (tf.exp(x) * tf.exp(x), tf.cos(x))[0], jit_compile=True)
    f(tf.constant([1.0]))
    assert f.source.count("exp") == 1 and "cos" not in f.source
    assert f.summary().partition(";")[0] == "compiled: 2 of 4 operations, 0 variables, 1 results"


@pytest.mark.parametrize("one", [1.0, 1, 1 + 0j], ids=str)
def test_a_product_with_a_complex_1_is_computed(one: Any) -> None:
    """Its imaginary part 0 changes the signs of zeros, on which branches depend, and makes NaN of infinities."""

    def f(a: Any, b: Any) -> Any:
        z = tf.complex(a, b)
        return tf.atanh(one * z), z * tf.cast(one, z.dtype), tf.math.polyval([1.0 + 0j, z, 2.0 + 0j], z)

    compiled = tf.function(f, jit_compile=True)
    numbers = [2.0, -0.0, 0.0, -2.0, np.inf, -np.inf, np.nan, 1e-310]
    for a, b in itertools.product(numbers, repeat=2):
        x, y = tf.constant(a, tf.float64), tf.constant(b, tf.float64)
        assert bits(compiled(x, y)) == bits(f(x, y)), (a, b)


def test_results_that_are_constants_are_new_tensors() -> None:
    f = tf.function(lambda x: (x, tf.constant(2.0), (-1) ** tf.cast(x, tf.int32)), jit_compile=True)
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(f(x)[1])
    assert f(x)[1] is not f(x)[1] and [t.numpy() for t in f(x)] == [3.0, 2.0, -1]
    del tape


def test_copies_compile_anew() -> None:
    f = tf.function(lambda x: x * 2.0, jit_compile=True)
    f(tf.constant(1.0))
    again = copy.deepcopy(f)
    assert again.summary() == "not called yet" and again(tf.constant(1.0)).numpy() == 2.0
    assert again.summary().startswith("compiled")


def _squared(x: Any) -> Any:
    return x * x


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("f", [tf.sin, tf.reduce_sum, tf.nn.relu, np.cos, _squared], ids=lambda f: f.__name__)
def test_a_function_is_pickled_with_the_name_of_its_python_function(f: Any, jit: bool) -> None:
    made = tf.function(f, jit_compile=jit)
    made.label = "mine"
    x = tf.constant(0.5)
    for _ in range(2):  # before and after a call
        again = pickle.loads(pickle.dumps(made))
        assert bits(again(x)) == bits(made(x))
        assert again.python_function is f and (again.name, again.label) == (made.name, "mine")
        assert again.__doc__ == f.__doc__ and (again.summary().startswith("compiled") is jit)


@tf.function(jit_compile=True)
def _decorated(x: Any) -> Any:
    return x * x


class _Scaled(tf.Module):
    def __init__(self) -> None:
        self.w = tf.Variable(3.0)

    @tf.function(jit_compile=True)
    def call(self, x: Any) -> Any:
        return self.w * x


def test_decorated_functions_and_methods_are_pickled_as_those_of_python() -> None:
    x = tf.constant(2.0)
    module = _Scaled()
    for _ in range(2):  # before and after a call
        assert pickle.loads(pickle.dumps(_decorated)) is _decorated
        assert pickle.loads(pickle.dumps(_Scaled.call)) is _Scaled.call
        again = pickle.loads(pickle.dumps(module.call))
        assert float(again(x)) == float(module.call(x)) == 2.0 * float(module.w) and float(_decorated(x)) == 4.0
        assert float(copy.deepcopy(module.call)(x)) == float(copy.copy(module.call)(x)) == 2.0 * float(module.w)
        module.w.assign_add(1.0)


def test_a_function_without_the_option_has_no_program() -> None:
    f = tf.function(lambda x: x)
    assert f.source == "" and f.summary().startswith("eager")


# ---------------------------------------------------------------------------------------------- back ends


def _chain(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x
        for k in range(6):
            y = tf.tanh(tf.sin(y) * (1.0 + 0.1 * k)) / (tf.sigmoid(y) + 0.5) - tf.sqrt(y * y + 1.0)
        total = tf.reduce_sum(y)
    return tape.gradient(total, x), total


@pytest.mark.parametrize("shape", [[], [1], [7], [8], [3, 5], [1000]])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_small_values_are_computed_in_the_table(table: None, dtype: str, shape: list[int]) -> None:
    compiled = tf.function(_chain, jit_compile=True)
    rng = np.random.default_rng(1)
    for _ in range(3):
        x = tf.constant(rng.normal(size=shape), dtype)
        assert bits(compiled(x)) == bits(_chain(x))
    assert " walks, " in compiled.summary() and "# w0 walks" in compiled.source and "sin(" in compiled.source
    assert "without the table" not in compiled.summary()


SPREAD = [
    ([8, 16], [16]), ([1, 16], [8, 16]), ([64, 10], [64, 1]), ([4, 1, 5], [3, 1]), ([2, 3, 1], [2, 1, 5]),
    ([1, 7], [7, 1]),
    ([100, 100], [100]), ([100, 100], [100, 1]), ([100, 60, 1], [60, 1]), ([3, 30, 100], [30, 1]), ([129, 2], [2]),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("wide", "small"), SPREAD)
def test_operands_that_are_spread_are_in_the_table(table: None, wide: list[int], small: list[int], dtype: str) -> None:
    rng = np.random.default_rng(4)
    c = rng.normal(size=wide).astype(dtype)
    turned = np.ascontiguousarray(c.T).T  # the same numbers in another order in memory
    constants = [tf.constant(c), tf.broadcast_to(tf.constant(c), [2, *wide]), tf.transpose(tf.constant(turned.T))]
    for k, kept in enumerate(constants):

        def f(x: Any, kept: Any = kept) -> Any:
            y = kept * x + x / (kept * kept + 2.0)
            y = tf.where(y > x, y - x, kept * tf.exp(x)) * y
            # Products go through memory in the order of their operands.
            return tf.reduce_sum(y), tf.linalg.matmul(y, y, transpose_b=True), tf.reduce_sum(y, axis=-1), y[..., :1]

        compiled = tf.function(f, jit_compile=True)
        for _ in range(3):
            x = tf.constant(rng.normal(size=small), dtype)
            assert bits(compiled(x)) == bits(f(x))
        if wide != [129, 2] and k == 0:
            assert " rows in " in compiled.summary()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "shape", [[8, 16], [16, 3], [7, 1], [1, 7], [4, 5, 6], [100, 20], [130, 2], [2, 130], [9, 200]]
)
def test_sums_along_axes_are_in_the_table(table: None, shape: list[int], dtype: str) -> None:
    rng = np.random.default_rng(6)

    def f(x: Any) -> Any:
        y = x * x - 1.0
        sums = [tf.reduce_sum(y, axis=k, keepdims=k == 0) for k in (0, -1, list(range(1, len(shape))), [0, 1])]
        return [tf.exp(-s) * s for s in sums], tf.reduce_mean(-tf.abs(y) * 0.0, axis=0)

    compiled = tf.function(f, jit_compile=True)
    for scale in (1.0, 1e3, 0.0):
        x = tf.constant(rng.normal(size=shape) * scale, dtype)
        assert bits(compiled(x)) == bits(f(x))
    assert "add.reduce" in compiled.source
    if shape == [8, 16]:
        assert "not in the table" not in compiled.summary()


def test_a_hessian_is_computed_from_spread_operands_in_the_table(table: None) -> None:
    a = tf.constant(np.random.default_rng(0).normal(size=(60, 60)))

    def f(x: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.reduce_sum(tf.square(tf.tanh(tf.matmul(a, x)))) + tf.reduce_sum(tf.exp(tf.sin(x)) * x)
            g = inner.gradient(y, x)
        return outer.jacobian(g, x)

    compiled = tf.function(f, jit_compile=True)
    for scale in (1.0, 2.0, 300.0):
        x = tf.linspace(-1.0, 1.0, 60)[:, None] * scale
        x = tf.cast(x, tf.float64)
        assert bits(compiled(x)) == bits(f(x))
    assert "mul" not in compiled.summary()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kernels_that_write_over_their_own_values_are_in_the_table(table: None, dtype: str) -> None:
    def f(x: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(tf.tanh(x) * x)
            slope = tape.gradient(y, x)
        return slope, outer.gradient(slope, x)

    compiled = tf.function(f, jit_compile=True)
    far = [0.5, -1.25, 30.0, np.nan], [39.9, 0.0, -40.1, 1.0], [349.0, -350.5, np.inf, -0.0], [0.5, 1.0, -2.0, 3.0]
    for values in ([0.5, -1.25, 2.0, 3.0], *far):
        x = tf.constant(values, dtype)
        assert bits(compiled(x)) == bits(f(x))
    assert "0 calls" in compiled.summary() and "doubt" in compiled.source


def test_values_in_memory_do_not_touch() -> None:
    # Some of NumPy's loops take neighbours for overlapping arrays, and give other bits.
    space = _Space()
    for nbytes in (4, 8, 64, 8000):
        first, second, constant = space.take(nbytes), space.take(nbytes), space.constant(np.zeros(nbytes, np.int8))
        assert second > first + nbytes and constant > second + nbytes


def test_calls_stand_between_walks(table: None) -> None:
    def f(a: Any, x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([a, x])
            y = tf.sin(tf.linalg.matvec(a, tf.sin(x) * 2.0 + x)) * x
            z = tf.reduce_sum(tf.reshape(y * y + y, [2, 2]) * tf.cos(a[:2, :2]))
        return tape.gradient(z, [a, x]), y, tf.reshape(y, [2, 2]), x

    compiled = tf.function(f, jit_compile=True)
    rng = np.random.default_rng(2)
    kept = []
    for _ in range(4):
        xs = [tf.constant(rng.normal(size=s)) for s in ([4, 4], [4])]
        kept.append((compiled(*xs), bits(f(*xs))))
    assert all(bits(made) == expected for made, expected in kept)  # later calls change no result
    assert "not in the table" in compiled.summary() and "eager" not in compiled.summary()


@pytest.mark.filterwarnings("ignore:f has jit_compile")
def test_values_that_python_treats_in_another_way_leave_the_table(table: None) -> None:
    def f(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.exp(x * 2.0) * tf.sin(x) / (x - 1.0) + tf.math.log(x) * tf.exp(-x)
        return y, tape.gradient(y, x)

    compiled = tf.function(f, jit_compile=True)
    for value in (2.0, 1.0, -1.0, 0.0, -0.0, 400.0, 1e308, np.inf, -np.inf, np.nan, 1e-320, 0.5):
        x = tf.constant(value, tf.float64)
        assert bits(compiled(x)) == bits(f(x)), value
    assert "walks" in compiled.summary() and "without the table" in compiled.summary()
    for _ in range(100):
        compiled(tf.constant(np.inf, tf.float64))
    assert bits(compiled(tf.constant(0.5, tf.float64))) == bits(f(tf.constant(0.5, tf.float64)))


def test_arrays_in_another_order_leave_the_table(table: None) -> None:
    def f(x: Any) -> Any:
        return tf.sin(x) * tf.cos(x) + tf.exp(x)

    compiled = tf.function(f, jit_compile=True)
    x = tf.constant(np.random.default_rng(0).normal(size=(3, 4)))
    for y in (x, tf.transpose(tf.reshape(x, [4, 3])), tf.broadcast_to(x[:1], [3, 4]), x[::-1]):
        assert bits(compiled(y)) == bits(f(y))


def test_no_back_end_warns_or_leaves_floating_point_errors(back_end: str) -> None:
    compiled = tf.function(_chain, jit_compile=True)
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in (1.0, 1e308, np.inf, np.nan, 1e-310, 0.5):
            compiled(tf.constant([value, 1.0], tf.float64))
            compiled(tf.constant(value, tf.float64))
            assert np.float64(1.5) * np.float64(2.0) == 3.0 and np.add([1.0], [2.0])[0] == 3.0


@pytest.mark.parametrize("n", [3, 100_000])
def test_programs_of_extrema_run_where_warnings_are_errors(n: int, back_end: str) -> None:
    runs = []

    def f(a: Any, b: Any) -> Any:
        runs.append(1)
        return tf.maximum(tf.minimum(a, b) * 2.0, b) + a

    compiled = tf.function(f, jit_compile=True)
    x = tf.constant(np.linspace(-1.0, 1.0, n))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = [compiled(x, x * 0.5) for _ in range(4)]
    assert len(runs) == 1  # an error in the program would run the function again
    assert [bits(m) for m in made] == [bits(f(x, x * 0.5))] * 4


def test_results_are_arrays_of_their_own(back_end: str) -> None:
    compiled = tf.function(lambda x: (_chain(x)[0], tf.reshape(tf.sin(x) * x + x * x, [2, 2])), jit_compile=True)
    xs = [tf.constant(np.random.default_rng(k).normal(size=4)) for k in range(3)]
    made = [compiled(x) for x in xs]
    assert [bits(m) for m in made] == [bits(compiled(x)) for x in xs]


@pytest.mark.parametrize("field", ["nin", "nout", "ntypes", "array.data", "array.ndim", "array.flags", "array.descr"])
def test_another_layout_of_memory_falls_back(field: str, monkeypatch: pytest.MonkeyPatch, table: None) -> None:
    monkeypatch.setitem(inner_loops.FIELDS, field, inner_loops.FIELDS[field] + 4)
    inner_loops.machine.cache_clear()
    try:
        assert inner_loops.machine() is None
        compiled = tf.function(_chain, jit_compile=True)
        x = tf.constant([0.5, 1.5])
        assert bits(compiled(x)) == bits(_chain(x)) and "walks" not in compiled.summary()
    finally:
        inner_loops.machine.cache_clear()


def test_a_loop_that_gives_other_bits_is_not_taken(monkeypatch: pytest.MonkeyPatch, table: None) -> None:
    true_address = inner_loops._address_of
    monkeypatch.setattr(
        inner_loops, "_address_of", lambda f, signature: true_address(np.cos if f is np.sin else f, signature)
    )
    inner_loops.loop.cache_clear()
    try:
        assert inner_loops.loop(np.sin, "d->d") is None and inner_loops.loop(np.exp, "d->d") is not None
        compiled = tf.function(_chain, jit_compile=True)
        x = tf.constant([0.5, 1.5])
        assert bits(compiled(x)) == bits(_chain(x)) and "sin" in compiled.summary()
    finally:
        inner_loops.loop.cache_clear()


def test_every_function_of_one_number_is_compiled(table: None) -> None:
    left = {
        name for name, prim in REGISTRY.items()
        if prim.place.module.startswith("gtape.") and prim.scalar is not None
        and inner_loops.alone(prim.scalar, prim.arity) is None
    }  # fmt: skip
    # Python's own operators, which are rows of another kind, and functions that are more than one of the C library.
    assert left <= {"abs", "add", "atan2", "divide", "hypot", "multiply", "negative", "pow", "subtract"}


def test_long_arrays_run_in_blocks(back_end: str) -> None:
    def f(x: Any, y: Any, s: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            z = tf.sin(x * y + 0.5) * s - x / (y * y + 2.0)
            total = tf.reduce_sum(z * z)
        return tape.gradient(total, x), z > 0.0, tf.reshape(z, [-1, 1])

    rng = np.random.default_rng(3)
    for shape in ([32768], [40001], [300, 301]):
        for dtype in ("float32", "float64"):
            compiled = tf.function(f, jit_compile=True)
            for _ in range(2):
                xs = [tf.constant(rng.normal(size=shape), dtype) for _ in range(2)]
                xs.append(tf.constant(rng.normal(), dtype))
                before = bits(xs)
                assert bits(compiled(*xs)) == bits(f(*xs)) and bits(xs) == before
            assert "block_0(" in compiled.source


@pytest.mark.parametrize("op", [tf.atan2, tf.math.hypot], ids=["atan2", "hypot"])
@pytest.mark.parametrize("special", [0.0, np.inf, np.nan, 5e-324, 1e-141, 1e200])
def test_a_special_point_changes_no_other_element_of_a_gradient_in_blocks(
    op: Any, special: float, back_end: str
) -> None:
    rng = np.random.default_rng(0)
    y, x = rng.normal(size=40_001), rng.normal(size=40_001)
    y[7] = x[7] = special

    def slopes(y: Any, x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch((y, x))
            z = tf.sin(op(y, x)) * x
        return tape.gradient(z, (y, x))

    compiled = tf.function(slopes, jit_compile=True)
    given = tf.constant(y), tf.constant(x)
    compiled(*given)
    assert "block_0(" in compiled.source
    assert bits(compiled(*given)) == bits(slopes(*given))


def test_kernels_and_constant_arrays_run_in_the_same_blocks(back_end: str) -> None:
    rng = np.random.default_rng(5)
    for dtype in ("float32", "float64"):
        weights = tf.constant(rng.normal(size=40_001), dtype)

        def f(x: Any, w: Any = weights) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(tf.tanh(x * w) * w + tf.math.erf(w - tf.nn.softplus(x)))
            return tape.gradient(y, x)

        compiled = tf.function(f, jit_compile=True)
        for _ in range(2):
            x = rng.normal(size=40_001)
            x[[5, 20_000, 40_000]] = 500.0, np.nan, -np.inf  # kernels take another way in the blocks of these
            assert bits(compiled(tf.constant(x, dtype))) == bits(f(tf.constant(x, dtype)))
        assert compiled.source.count("def block_") == 1 and compiled.summary().startswith("compiled")


def test_an_error_in_a_call_between_walks_is_that_of_the_eager_call(back_end: str) -> None:
    def f(x: Any) -> Any:
        y = tf.sin(x) * tf.cos(x) + x * x - 2.0 * x
        return tf.linalg.cholesky(tf.linalg.diag(y)) * 2.0

    compiled = tf.function(f, jit_compile=True)
    for values in ([3.0, 4.0], [0.5, 1.0], [3.0, 5.0]):
        x = tf.constant(values)
        assert _outcome(compiled, [x]) == _outcome(f, [x])


@pytest.mark.parametrize("f", [lambda x: x, tf.transpose], ids=["as it is", "transposed"])
def test_sums_go_through_memory_in_the_order_of_the_eager_call(f: Any, back_end: str) -> None:
    def total(x: Any) -> Any:
        y = tf.exp(f(x))
        return tf.reduce_sum(y * y - tf.sin(y))

    rng = np.random.default_rng(5)
    for shape in ([3, 5], [7, 8], [90, 81], [200, 201]):
        values = rng.normal(size=shape)
        xs = [tf.constant(values), tf.constant(np.asfortranarray(values)), tf.transpose(tf.constant(values.T.copy()))]
        for first in xs[:2]:
            compiled = tf.function(total, jit_compile=True)
            compiled(first)
            assert [bits(compiled(x)) for x in xs] == [bits(total(x)) for x in xs]
            assert compiled.summary().startswith("compiled")


def _square(x: Any) -> Any:
    n = math.isqrt(x.shape[0])
    return tf.reshape(x, [n, n])


# Functions of a vector whose results with two axes have the order of elements that the steps of the vector lead to.
OF_A_VECTOR: dict[str, Any] = {
    "reshaped": lambda x, w: tf.tanh(_square(x) * tf.transpose(w) + 1.0) - 1.0,
    "a sum": lambda x, w: tf.reduce_sum(_square(x) * tf.transpose(w)),
    "broadcast": lambda x, w: tf.reduce_sum(tf.sin(x[: w.shape[0]] + tf.transpose(w)) * tf.cos(tf.transpose(w))),
    "a view of a view": lambda x, w: tf.exp(_square(x[::-1]) - tf.transpose(w)) * 0.5 + 1.0,
    "with one axis": lambda x, w: tf.tensordot(x * 1.0, tf.sin(x), 1),
}


@pytest.mark.filterwarnings("ignore:.* has jit_compile:RuntimeWarning")  # some gradients of large arrays
@pytest.mark.parametrize("n", [16, 256])
@pytest.mark.parametrize("name", OF_A_VECTOR)
def test_vectors_of_equal_numbers_have_the_bits_of_the_eager_call(name: str, n: int, back_end: str) -> None:
    f = OF_A_VECTOR[name]
    rng = np.random.default_rng(6)
    w = tf.constant(rng.normal(size=(n, n)))
    numbers = tf.constant(rng.normal(size=2 * n * n))
    xs = [numbers[: n * n], numbers[::2], numbers[::-2], tf.broadcast_to(numbers[0], [n * n])]

    def with_gradient(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            y = f(x, w)
        return y, tape.gradient(y, [x, w])

    for g in (f, with_gradient):
        for first in xs:
            compiled = tf.function(g, jit_compile=True)
            compiled(first, w)
            assert [bits(compiled(x, w)) for x in xs] == [bits(g(x, w)) for x in xs]


def test_gradients_of_sums_have_the_bits_of_the_eager_call(back_end: str) -> None:
    def f(x: Any) -> Any:
        return tf.reshape(tf.tanh(x) * tf.transpose(x), [-1])

    def slope(f: Any, x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(f(x))  # whose cotangent repeats one number
        return tape.gradient(y, x)

    compiled = tf.function(f, jit_compile=True)
    for n in (16, 256):
        x = tf.constant(np.random.default_rng(7).normal(size=(n, n)))
        for _ in range(3):
            assert bits(slope(compiled, x)) == bits(slope(f, x))


def test_a_variable_that_gets_equal_numbers_keeps_the_bits_of_the_eager_call(back_end: str) -> None:
    n = 256
    w = tf.constant(np.random.default_rng(8).normal(size=(n, n)))
    v = tf.Variable(np.linspace(0.0, 1.0, n * n))
    compiled = tf.function(lambda w: OF_A_VECTOR["reshaped"](v, w), jit_compile=True)
    compiled(w)
    v.assign(tf.broadcast_to(tf.constant(3.0, tf.float64), [n * n]))
    assert bits(compiled(w)) == bits(OF_A_VECTOR["reshaped"](v, w))


def test_results_that_repeat_elements_have_the_order_of_the_eager_results(back_end: str) -> None:
    def f(x: Any) -> Any:
        row = tf.sqrt(x[0] * x[0] + 1.0)
        return tf.broadcast_to(row, [60, 60]), tf.broadcast_to(tf.reshape(row, [60, 1]), [60, 60])

    x = tf.constant(np.random.default_rng(0).normal(size=(60, 60)))
    compiled = tf.function(f, jit_compile=True)
    for _ in range(2):
        for made, expected in zip(compiled(x), f(x), strict=True):
            sums = [[bits(tf.reduce_sum(y, axis=k)) for k in (None, 0, 1)] for y in (made, expected)]
            assert sums[0] == sums[1]


@pytest.mark.filterwarnings("ignore:f has jit_compile:RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [16, 181, 257])
def test_large_arrays_in_two_orders_have_the_bits_of_the_eager_call(n: int, dtype: Any, back_end: str) -> None:
    """NumPy's operators overwrite large arrays without a name, and so take their order."""
    rng = np.random.default_rng(9)
    w, x = (tf.constant(rng.normal(size=s).astype(dtype)) for s in ([n, n], [n]))
    functions: list[Callable[[Any, Any], Any]] = [
        lambda x, w: tf.sin(x + tf.transpose(w)) * 2.0,
        lambda x, w: tf.math.squared_difference(x, tf.transpose(w)),
        lambda x, w: tf.transpose(w) * tf.sin(x + w) - tf.exp(w),
    ]
    for function in functions:

        def f(x: Any, w: Any, function: Any = function) -> Any:
            with tf.GradientTape() as tape:
                tape.watch([x, w])
                y = tf.reduce_sum(function(x, w))
            return y, tape.gradient(y, [x, w])

        compiled = tf.function(f, jit_compile=True)
        assert [bits(compiled(x, w)) for _ in range(2)] == [bits(f(x, w))] * 2


def test_functions_of_large_arrays_in_two_orders_say_why_they_run_eagerly() -> None:
    w = tf.constant(np.random.default_rng(9).normal(size=(257, 257)))

    def f(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.sin(x + tf.transpose(w)) * 2.0)
        return tape.gradient(y, x)

    with pytest.warns(RuntimeWarning, match="large arrays whose elements lie in memory in different orders"):
        tf.function(f, jit_compile=True)(w[0])


def test_threads_have_memory_of_their_own(back_end: str) -> None:
    def f(a: Any, x: Any) -> Any:
        y = tf.sin(tf.linalg.matvec(a, tf.sin(x) * x + 1.0)) * x + tf.cos(x)
        return y, tf.reduce_sum(y * y - x)

    compiled = tf.function(f, jit_compile=True)
    rng = np.random.default_rng(4)
    cases = [[tf.constant(rng.normal(size=s)) for s in ([60, 60], [60])] for _ in range(4)]
    expected = [bits(f(*xs)) for xs in cases]
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(200):
            if bits(compiled(*cases[k])) != expected[k]:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.slow
def test_many_steps_take_no_memory(back_end: str) -> None:
    compiled = tf.function(_chain, jit_compile=True)
    x, y = tf.constant([0.5, 1.5, 2.5]), tf.constant(0.7, tf.float64)
    for _ in range(100):
        compiled(x), compiled(y)
    tracemalloc.start()
    try:
        compiled(x), compiled(y)
        grown = []
        for _ in range(3):  # a leak shows each time, and what another thread allocates does not
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(100_000 if LARGE else 500):
                compiled(x), compiled(y)
            grown.append(tracemalloc.get_traced_memory()[0] - before)
        assert min(grown) < 2_000
    finally:
        tracemalloc.stop()


def _peak(call: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        call()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def _wide(x: Any) -> Any:
    y = x
    for _ in range(4):
        y = tf.matmul(tf.nn.softmax(y), x) + tf.sin(y) * tf.cos(y)
    return y


@pytest.mark.parametrize("f", [_wide, _slope, lambda x: _slope(_wide(x))], ids=["values", "short", "gradients"])
def test_the_peak_of_a_compiled_step_is_at_most_that_of_the_eager_one(f: Any, back_end: str) -> None:
    x = tf.constant(np.random.default_rng(6).normal(size=(80, 80)) / 80)
    compiled = tf.function(f, jit_compile=True)
    compiled(x), f(x)
    assert _peak(lambda: compiled(x)) <= _peak(lambda: f(x))


def _gradient(value: Callable[..., Any]) -> Callable[..., Any]:
    def function(*xs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(xs)
            y = value(*xs)
        return tape.gradient(y, xs)

    return function


@_gradient
def _recurrent(w: Any, h: Any) -> Any:
    for _ in range(12):
        h = tf.tanh(tf.matmul(h, w))
    return tf.reduce_sum(h)


@_gradient
def _rows(x: Any) -> Any:
    total = tf.constant(0.0)
    for i in range(20):
        total += tf.reduce_sum(tf.sin(x[i]) * x[7 * i % 20])
    return total


@_gradient
def _scanned(x: Any) -> Any:
    return tf.reduce_sum(tf.scan(lambda a, row: tf.tanh(a * 0.5 + row), x))


@_gradient
def _spread(a: Any, b: Any) -> Any:
    return tf.reduce_sum(tf.exp(-((a[:, None] - b[None, :]) ** 2)) * a[:, None])


@_gradient
def _perceptron(a: Any, b: Any, x: Any) -> Any:
    return tf.reduce_mean(tf.nn.relu(tf.matmul(tf.nn.relu(tf.matmul(tf.tanh(tf.matmul(x, a)), b)), a)) ** 2)


@_gradient
def _convolution(x: Any, k: Any) -> Any:
    return tf.reduce_sum(tf.nn.relu(tf.nn.conv2d(x, k, 1, "SAME")) ** 2)


def _jacobian_of_a_layer(a: Any, x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.tanh(tf.linalg.matvec(a, x)) * x
    return tape.jacobian(y, x)


def _sums_on_the_way(x: Any) -> Any:
    y, sums = x, []
    for k in range(10):
        y = tf.sin(y) + x * float(k)
        sums.append(tf.reduce_sum(y))
    return sums


def _several(x: Any) -> Any:
    return [tf.sin(x) * float(k) + x for k in range(1, 8)]


@_gradient
def _recomputed(w: Any, h: Any) -> Any:
    @tf.recompute_grad
    def layers(h: Any, w: Any) -> Any:
        for _ in range(4):
            h = tf.tanh(tf.matmul(h, w))
        return h

    for _ in range(4):
        h = layers(h, w)
    return tf.reduce_sum(h)


@pytest.mark.parametrize(
    ("f", "shapes"),
    [
        (_recurrent, [(300, 300), (4, 300)]), (_rows, [(20, 2500)]), (_scanned, [(30, 2000)]),
        (_spread, [(300,), (300,)]), (_perceptron, [(200, 200), (200, 200), (400, 200)]),
        (_convolution, [(4, 32, 32, 3), (3, 3, 3, 16)]), (_sums_on_the_way, [(40_000,)]), (_several, [(50_000,)]),
        (_jacobian_of_a_layer, [(300, 300), (300,)]), (_recomputed, [(100, 100), (400, 100)]),
    ],
    ids=["weights", "rows", "scan", "broadcast", "layers", "convolution", "sums", "results", "jacobian", "recomputed"],
)  # fmt: skip
def test_no_array_lives_longer_in_a_compiled_step(f: Any, shapes: Any, back_end: str) -> None:
    rng = np.random.default_rng(8)
    xs = [tf.constant(rng.normal(size=shape) / 3, "float32") for shape in shapes]
    compiled = tf.function(f, jit_compile=True)
    assert bits(compiled(*xs)) == bits(compiled(*xs)) == bits(f(*xs))
    assert compiled.summary().startswith("compiled")
    assert _peak(lambda: compiled(*xs)) <= _peak(lambda: f(*xs))


def _noisy_steps(x: Any) -> Any:
    for _ in range(20):
        x = tf.tanh(x + 0.1 * tf.random.normal(x.shape))
    return x


@_gradient
def _dropped_out(x: Any) -> Any:
    for _ in range(12):
        x = tf.nn.dropout(tf.sin(x), 0.25) * 1.5
    return tf.reduce_sum(x)


@pytest.mark.parametrize("f", [_noisy_steps, _dropped_out], ids=["noise", "dropout"])
def test_random_numbers_are_drawn_when_a_compiled_step_needs_them(f: Any, back_end: str) -> None:
    x = tf.constant(np.random.default_rng(9).normal(size=(200, 200)), "float32")
    compiled = tf.function(f, jit_compile=True)
    found = []
    for function in (f, compiled):
        tf.random.set_seed(5)
        found.append(bits([function(x), function(x)]))
    assert found[0] == found[1]
    assert compiled.summary().startswith("compiled")
    assert _peak(lambda: compiled(x)) <= _peak(lambda: f(x))


def test_the_seed_may_change_between_calls_of_a_program(back_end: str) -> None:
    def draw(x: Any) -> Any:
        return x * tf.random.normal([3]) + tf.random.uniform([3], seed=4)

    x = tf.constant([1.0, 2.0, 3.0])
    compiled = tf.function(draw, jit_compile=True)
    assert bits(compiled(x)) != bits(compiled(x))  # bits of the operating system
    for seed in (1, -7, None, 2**70, 1):
        tf.random.set_seed(seed)
        drawn = [compiled(x), compiled(x)]
        tf.random.set_seed(seed)
        assert (bits(drawn) == bits([draw(x), draw(x)])) == (seed is not None)
    assert len(compiled.summary().splitlines()) == 1


_SIDE = 190  # of matrices, which run in blocks
_STEPS: list[Callable[..., Any]] = [
    lambda a, b, v: tf.sin(a), lambda a, b, v: a * b, lambda a, b, v: a + b, lambda a, b, v: a - b,
    lambda a, b, v: a / (b * b + 1.0), lambda a, b, v: -a, lambda a, b, v: tf.nn.softmax(a), lambda a, b, v: a * 0.7,
    lambda a, b, v: tf.matmul(a, b) * 0.01, lambda a, b, v: tf.transpose(a), lambda a, b, v: a * v,
    lambda a, b, v: tf.reshape(tf.reshape(a, [-1]), [_SIDE, _SIDE]) + b,
]  # fmt: skip
_SUMS: list[Callable[..., Any]] = [lambda a: tf.reduce_sum(a, 0), lambda a: tf.reduce_sum(a, 1) * 0.01, lambda a: a[3]]
_STEP = st.tuples(st.sampled_from(_STEPS + _SUMS), st.integers(1, 4), st.integers(1, 6))


@pytest.mark.slow
@given(st.lists(_STEP, min_size=3, max_size=25), st.booleans())
@settings(
    max_examples=1 + settings.default.max_examples // 4, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_random_programs_on_long_arrays_take_no_more_memory(back_end: str, steps: Any, slopes: bool) -> None:
    def values(x: Any, w: Any) -> Any:
        large, small = [x, w], [x[0]]
        for step, i, j in steps:
            a, b = large[-min(i, len(large))], large[-min(j, len(large))]
            if step in _SUMS:
                small.append(step(a))
            else:
                large.append(step(a, b, small[-min(j, len(small))]))
        return [large[-1], large[-2], *small[-2:]]

    f = values
    if slopes:
        f = _gradient(lambda x, w: tf.add_n([tf.reduce_sum(y * y) for y in values(x, w)]))
    rng = np.random.default_rng(len(steps))
    xs = [tf.constant(rng.normal(size=(_SIDE, _SIDE)) / 3, "float32") for _ in range(2)]
    compiled = tf.function(f, jit_compile=True)
    assert bits(compiled(*xs)) == bits(compiled(*xs)) == bits(f(*xs))
    # The frames of Python count, too.
    assert _peak(lambda: compiled(*xs)) <= _peak(lambda: f(*xs)) + 10_000


def test_results_of_blocks_overwrite_only_what_nothing_reads(back_end: str) -> None:
    def f(x: Any, y: Any) -> Any:
        a, b = x * y, x + y
        c, d = tf.sin(a) - b, tf.exp(b) * a
        e = tf.reshape(c, [-1, 2])
        total = tf.reduce_sum(d)
        return (c - d) * total, tf.tanh(d) + c, e, tf.cos(a) / (d * d + 1.0) - total

    compiled = tf.function(f, jit_compile=True)
    rng = np.random.default_rng(9)
    for _ in range(3):
        xs = [tf.constant(rng.normal(size=40_002)) for _ in range(2)]
        before = bits(xs)
        made = compiled(*xs)
        assert bits(made) == bits(f(*xs)) and bits(xs) == before
        compiled(*[2.0 * x for x in xs])
        assert bits(made) == bits(f(*xs))


def test_a_long_program_is_compiled(back_end: str) -> None:
    def f(x: Any) -> Any:
        y = x
        for _ in range(5_000):
            y = y * 0.999 + tf.sin(y) * x
        return y

    compiled = tf.function(f, jit_compile=True)
    x = tf.constant([0.1, 0.2])
    assert bits(compiled(x)) == bits(compiled(x)) == bits(f(x))
    assert compiled.summary().startswith("compiled: 20000 of 20000 operations")


def test_constants_that_a_tape_watches_have_gradients(back_end: str) -> None:
    a, b = tf.constant([0.5, 1.5]), tf.constant([2.0, 3.0])

    def f(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([a, b])
            y = tf.sin(a + b) * tf.exp(a * b - a)
            for _ in range(3):
                y = y * x + tf.tanh(a) / b
        return tape.gradient(y, [a, b])

    compiled = tf.function(f, jit_compile=True)
    x = tf.constant([0.25, 0.75])
    assert bits(compiled(x)) == bits(compiled(x)) == bits(f(x))
    assert compiled.summary().startswith("compiled")


@pytest.mark.parametrize(("count", "runs"), [(100, "compiled"), (600, "assigns more than 100 variables")])
def test_many_variables_are_assigned(count: int, runs: str) -> None:
    variables = [tf.Variable(float(k)) for k in range(count)]

    @tf.function(jit_compile=True)
    def step(x: Any) -> Any:
        for v in variables:
            v.assign_add(x)
        return x * 2.0

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            assert float(step(tf.constant(1.0))) == 2.0
    assert [float(v) for v in variables] == [k + 3.0 for k in range(count)]
    assert runs in step.summary()


def test_variables_are_assigned_in_order(back_end: str) -> None:
    def made(jit: bool) -> Any:
        m, n, d = tf.Variable([0.5, 0.25]), tf.Variable(0), tf.Variable(np.float64(1.0))

        @tf.function(jit_compile=jit)
        def step(x: Any) -> Any:
            with tf.GradientTape() as tape:
                first = tf.reduce_sum(m * m * x)
                m.assign_sub(0.5 * x)
                loss = first * tf.reduce_sum(tf.sin(m))
            g = tape.gradient(loss, m)
            n.assign_add(1)
            d.assign(d * 1.5 + tf.cast(n, tf.float64))
            m.assign_add(g)
            before = m * 1.0
            m.assign(m * 0.5)
            return loss, g, before

        results = [bits(step(tf.constant([0.1 * k, 0.3]))) for k in range(4)]
        return results, bits([m, n, d]), step.summary()

    eager, compiled = made(False), made(True)
    assert compiled[:2] == eager[:2]
    assert compiled[2].startswith("compiled")


def test_a_call_that_fails_assigns_nothing_twice(back_end: str) -> None:
    v = tf.Variable(1.0)

    @tf.function(jit_compile=True)
    def step(x: Any) -> Any:
        v.assign_add(1.0)
        return tf.gather(v * [1.0, 2.0], x)

    step(tf.constant(1))
    with pytest.raises(tf.errors.InvalidArgumentError):
        step(tf.constant(7))
    assert v.numpy() == 3.0 and step.summary().startswith("compiled")


def test_threads_that_assign_one_variable_lose_no_value(back_end: str) -> None:
    v, w = tf.Variable(np.float64(0.0)), tf.Variable(0)

    @tf.function(jit_compile=True)
    def step() -> None:
        v.assign_add(1.0)
        w.assign_add(1)

    def run() -> None:
        for _ in range(200):
            step()
            v.assign_add(1.0)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert (v.numpy(), w.numpy()) == (1600.0, 800)


_NUMBERS = [tf.constant(np.float64(0.9 + 0.01 * k)) for k in range(12)]
_ROWS = [tf.constant(np.cos(np.arange(9.0) + k)) for k in range(12)]


def _body(y: Any, x: Any) -> Any:
    for k in range(24):
        y = tf.sin(y + 0.1 * k) * (0.5 + y / (2.0 + x * x))
    return y


_LOOPS: dict[str, Callable[[Any, Any, int], Any]] = {
    "a chain": lambda y, x, k: tf.tanh(tf.sin(y) * 1.01) + 0.001,
    "constants that differ": lambda y, x, k: tf.sin(y) * _NUMBERS[k % 12] + 0.1,
    "an operand from the start": lambda y, x, k: y - tf.sin(x * y) * 0.1,
    "views": lambda y, x, k: tf.reshape(tf.transpose(tf.reshape(y, [3, 3])), [9]) * 0.9 + x[0],
    "products": lambda y, x, k: tf.reshape(tf.matmul(tf.reshape(y, [3, 3]), tf.reshape(x, [3, 3])), [9]) * 0.3,
    "rows": lambda y, x, k: tf.sin(y) + _ROWS[k % 12],
    "sums": lambda y, x, k: y / (1.0 + tf.reduce_sum(y * y)) + tf.reduce_mean(x),
    "choices": lambda y, x, k: tf.where(y > 0.1, y * 0.9, x - y) + tf.maximum(y, 0.2),
    "long bodies": lambda y, x, k: _body(y, x),
}


_OF_ARRAYS = ("views", "products", "rows")


@pytest.mark.parametrize(
    ("name", "shape"), [(n, s) for n in _LOOPS for s in ((9,), ()) if s or n not in _OF_ARRAYS], ids=str
)
def test_steps_that_repeat_are_written_once(name: str, shape: tuple[int, ...], back_end: str) -> None:
    step = _LOOPS[name]

    def f(x: Any) -> Any:
        made = []
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for k in range(8 if name == "long bodies" else 40):
                y = step(y, x, k)
                if k % 16 == 3:
                    made.append(y)
            total = tf.reduce_sum(y)
        return made, y, tape.gradient(total, x)

    compiled = tf.function(f, jit_compile=True)
    for seed in (1, 2, 3):
        x = tf.constant(np.random.default_rng(seed).uniform(0.2, 0.9, shape))
        assert bits(compiled(x)) == bits(f(x))
    calls = int(compiled.summary().split(" operations")[0].split(" ")[1])
    if back_end == "python":
        assert "def repeated_" in compiled.source
        assert compiled.source.count("\n") < calls / 2
