"""Compiled functions over several calls: what the first call leaves for later ones, the order of arrays in memory,
instances, other traces, and warnings.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import gc
import random
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape import nest
from tests.bits import bits


@pytest.mark.parametrize(
    ("f", "first"),
    [
        (tf.acos, 2.0),
        (tf.acosh, 0.3),
        (tf.math.log10, 0.0),
        (tf.math.log1p, -1.5),
        (tf.sinh, 800.0),
        (tf.exp, 1e308),
    ],
)
def test_a_first_call_out_of_the_domain_leaves_the_kernel_of_later_calls(f: Any, first: float, back_end: str) -> None:
    compiled = tf.function(lambda x: f(x), jit_compile=True)
    low, high = (0.0, 1.0) if f is tf.acos else (1.0, 5.0)
    for value in [first, *np.random.default_rng(0).uniform(low, high, 200)]:
        x = tf.constant(value, tf.float64)
        assert bits(compiled(x)) == bits(f(x))


@pytest.mark.parametrize("f", [tf.sqrt, tf.math.log, tf.math.rsqrt, tf.acos, tf.acosh, tf.atanh, lambda x: x**0.5])
def test_a_first_gradient_out_of_the_domain_is_that_of_eager_code(f: Any, back_end: str) -> None:
    compiled = tf.function(lambda x: f(x), jit_compile=True)

    def gradient(g: Any, x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = g(x)
        return bits((y, tape.gradient(y, x)))

    for value in (-2.0, 0.0, 0.5, 1.0, 1.5):
        x = tf.constant(value, tf.float64)
        assert gradient(compiled, x) == gradient(f, x)


@pytest.mark.parametrize("f", [tf.maximum, tf.minimum])
def test_zeros_keep_the_sign_that_eager_code_chooses(f: Any, back_end: str) -> None:
    compiled = tf.function(lambda x, y: f(x, y), jit_compile=True)
    for pair in ((0.3, 0.7), (0.0, -0.0), (-0.0, 0.0)):
        x, y = (tf.constant(v, tf.float64) for v in pair)
        assert bits(compiled(x, y)) == bits(f(x, y))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: tf.matmul(tf.tanh(x), tf.tanh(x), transpose_a=True),
        lambda x: tf.matmul(tf.transpose(tf.exp(x) + x), tf.exp(x) + x),
        lambda x: tf.matmul(x * 1.0, x, transpose_a=True),
        lambda x: tf.matmul(x[::2] * 2.0, (x * 2.0)[::2], transpose_b=True),
        lambda x: tf.einsum("ij,ik->jk", tf.sin(x), tf.sin(x)),
        lambda x: tf.tensordot(tf.sin(x), tf.sin(x), [[0], [0]]),
        lambda x: (lambda y: tf.matmul(y, y, transpose_a=True))(tf.tanh(x)),
        lambda x: tf.matmul(x, x, transpose_b=True),
        lambda x: tf.matmul(x * 1.0, tf.identity(x), transpose_a=True),
        lambda x: tf.matmul(tf.sin(x), tf.stop_gradient(tf.sin(x)), transpose_a=True),
    ],
)
def test_products_of_equal_matrices_take_the_routine_that_eager_code_takes(f: Any, dtype: str, back_end: str) -> None:
    """BLAS has a routine for a matrix by its own transpose, which rounds otherwise."""

    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return y, tape.gradient(y, x)

    compiled = tf.function(gradient, jit_compile=True)
    for shape in ((5, 3), (64, 64), (1023, 3)):
        x = tf.constant(np.random.default_rng(0).normal(size=shape), dtype)
        assert bits(compiled(x)) == bits(gradient(x))


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("of", ["matmul", "einsum", "covariance"])
def test_a_product_of_equal_matrices_has_gradients_by_each_result(of: str, count: int, back_end: str) -> None:
    def f(x: Any) -> list[Any]:
        if of == "matmul":
            a = tf.matmul(tf.sin(x), tf.sin(x), transpose_a=True)
        elif of == "einsum":
            a = tf.einsum("ij,ik->jk", tf.sin(x), tf.sin(x))
        else:
            a = tf.matmul(x - tf.reduce_mean(x, 0), x - tf.reduce_mean(x, 0), transpose_a=True)
        return [a, *[tf.reduce_sum(a) * float(k) for k in range(1, count)]]

    x = tf.constant(np.random.default_rng(1).normal(size=(6, 3)))
    compiled = tf.function(f, jit_compile=True)
    for k in [*range(count), *range(count)]:
        found = []
        for g in (f, compiled):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = g(x)
            found.append(bits(tape.gradient(y[k], x)))
        assert found[0] == found[1]


@pytest.mark.parametrize("tape", [False, True])
def test_the_error_of_a_check_that_is_caught_decides_at_each_call(tape: bool, back_end: str) -> None:
    def f(x: Any) -> Any:
        try:
            tf.debugging.assert_less(x, 0.5)
        except tf.errors.InvalidArgumentError:
            return 100.0 * x
        return 2.0 * x

    compiled = tf.function(f, jit_compile=True)
    with pytest.warns(RuntimeWarning, match="catches the error of a check"):
        for value in (0.9, 0.1, 0.9, 0.1):
            x = tf.constant([value, value])
            with tf.GradientTape() if tape else contextlib.nullcontext() as t:
                if tape:
                    t.watch(x)
                y = compiled(x)
            assert bits(y) == bits(f(x))
            if tape:
                assert float(t.gradient(y, x)[0]) == (100.0 if value > 0.5 else 2.0)


@pytest.mark.parametrize("shape", [(17, 3), (64, 64), (300, 40)])
@pytest.mark.parametrize(
    "f",
    [
        lambda x, a: tf.tanh(x + a),
        lambda x, a: tf.sin(x * a),
        lambda x, a: x / a,
        lambda x, a: tf.tanh(tf.transpose(x)) * a[:1],
    ],
    ids=["tanh", "sin", "divide", "transpose"],
)
def test_sums_follow_the_order_in_memory_of_each_argument(f: Any, shape: tuple[int, ...], back_end: str) -> None:
    def gradients(x: Any, a: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, a])
            y = f(x, a)
        return tape.gradient(y, [x, a])

    rng = np.random.default_rng(0)
    for orders in ("CFCF", "FCFC"):
        compiled = tf.function(lambda x, a: gradients(x, a), jit_compile=True)
        for order in orders:
            x = tf.constant(np.asarray(rng.normal(size=shape), order=order))
            a = tf.constant(rng.normal(size=shape[1]))
            assert bits(compiled(x, a)) == bits(gradients(x, a))


def test_the_clock_is_read_at_each_call(back_end: str) -> None:
    now = tf.function(lambda x: (x, tf.timestamp()), jit_compile=True)
    with pytest.warns(RuntimeWarning, match="it reads the clock"):
        first = now(tf.constant(1.0))[1]
    assert now(tf.constant(1.0))[1] > first


class _Rounded(float):
    def __repr__(self) -> str:
        return f"{float(self):.1f}"


def test_static_numbers_are_told_apart_by_value(back_end: str) -> None:
    compiled = tf.function(lambda x, s: x * s, jit_compile=True)
    x = tf.constant(1.0, tf.float64)
    assert [float(compiled(x, _Rounded(s))) for s in (0.11, 0.12, 0.11)] == [0.11, 0.12, 0.11]


def test_a_bound_function_gets_its_instance_after_an_unbound_call(back_end: str) -> None:
    function = tf.function(lambda *args: args[-1] * float(len(args)), jit_compile=True)
    holder = type("Holder", (), {"f": function})
    x = tf.constant(1.0)
    assert [float(holder.f(x)), float(holder().f(x)), float(holder.f(x))] == [1.0, 2.0, 1.0]


def test_a_tensor_of_another_trace_is_refused_by_name(back_end: str) -> None:
    kept = []
    tf.function(lambda x: kept.append(x * 2.0) or x, jit_compile=True)(tf.constant(1.0))
    with pytest.raises(RuntimeError, match="belongs to the tracing of a function, which is over"):
        tf.function(lambda x: x + kept[0], jit_compile=True)(tf.constant(1.0))


@pytest.mark.parametrize("under", [False, True])
def test_weights_made_in_the_first_call_are_those_of_the_eager_call(under: bool, back_end: str) -> None:
    def first_results(jit: bool) -> Any:
        tf.keras.utils.set_random_seed(0)
        layer = tf.keras.layers.Dense(2)
        f = tf.function(lambda x: layer(x), jit_compile=True) if jit else layer
        with tf.GradientTape() if under else contextlib.nullcontext():
            return bits([f(tf.ones([1, 3])), layer.kernel.value()])

    assert first_results(True) == first_results(False)


def test_calls_that_run_eagerly_under_a_tape_are_told_of_once(back_end: str) -> None:
    f = tf.function(lambda x: x * float(x), jit_compile=True)
    x = tf.constant(1.0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(3):
            with tf.GradientTape() as tape:
                tape.watch(x)
                f(x)
    (one,) = told
    assert "under a tape, it reads the value of a tensor by float" in str(one.message) and one.filename == __file__


@pytest.mark.parametrize("under", [False, True])
def test_variables_of_dead_instances_are_let_go(under: bool, back_end: str) -> None:
    class Scaled(tf.Module):
        def __init__(self) -> None:
            self.v = tf.Variable(2.0)

        @tf.function(jit_compile=True)
        def call(self, x: Any) -> Any:
            return self.v * x

    kept = []
    for _ in range(10):
        module = Scaled()
        with tf.GradientTape() if under else contextlib.nullcontext():
            assert float(module.call(tf.constant(3.0))) == 6.0
        kept.append(weakref.ref(module.v))
        del module
        gc.collect()
    assert sum(ref() is not None for ref in kept) <= 1  # the newest goes with the next program


def _slope_by_argument(v: Any) -> Any:
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(v * v)
    return tape.gradient(y, v)


def _assigned_sums(v: Any, *others: Any) -> Any:
    for w in others:
        v.assign_add(w)
        w.assign(v * w)
    return v


TAKE_VARIABLES: list[tuple[Any, int]] = [
    (lambda v: tf.reduce_sum(v), 1), (lambda v: v, 1), (lambda v: {"twice": 2.0 * v, "it": [v]}, 1),
    (lambda *vs: sum(vs[1:], vs[0]), 3), (lambda v, w: v.assign_sub(w), 2), (_assigned_sums, 3), (_assigned_sums, 12),
    (_slope_by_argument, 1), (lambda v: float(v[0]), 1),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*runs eagerly:RuntimeWarning")
@pytest.mark.parametrize("structure", ["alone", "in a list", "by name"])
@pytest.mark.parametrize("under", [False, True])
@pytest.mark.parametrize(("f", "count"), TAKE_VARIABLES)
def test_variables_among_the_arguments_are_let_go(
    f: Any, count: int, under: bool, structure: str, back_end: str
) -> None:
    if structure == "in a list":
        compiled = tf.function(lambda vs: f(*vs), jit_compile=True)
    elif structure == "by name":
        compiled = tf.function(lambda **vs: f(*vs.values()), jit_compile=True)
    else:
        compiled = tf.function(f, jit_compile=True)

    def called(g: Any, vs: list[Any]) -> Any:
        with tf.GradientTape() if under else contextlib.nullcontext() as tape:
            if structure == "by name":
                y = g(**{f"v{k}": v for k, v in enumerate(vs)})
            else:
                y = g(vs) if structure == "in a list" else g(*vs)
        return nest.flatten(y), nest.flatten(tape.gradient(y, vs)) if tape is not None else []

    plain = tf.function(compiled.python_function)
    kept = []
    for k in range(6):
        made, expected = ([tf.Variable([1.0 + k, 2.0 + j]) for j in range(count)] for _ in range(2))
        for _ in range(3):
            assert bits(called(compiled, made)) == bits(called(plain, expected))
            assert bits([*made]) == bits([*expected])
        kept += [weakref.ref(v) for v in made]
        del made
        gc.collect()
    assert not any(ref() is not None for ref in kept)


_w = tf.Variable([0.5, 1.5])


@pytest.mark.parametrize("under", [False, True])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x * 2.0, f"loss {x:.2f}"), lambda x: (x * 2.0, f"{x}"), lambda x: {"loss": x, "text": [str(x)]},
        lambda x: (x, repr(x).encode()), lambda x: (x, f"{[x]!s:.9}"), lambda x: {f"{x}": x}, lambda x: "%s" % (x + 1),
        lambda x: (x, tf.constant(f"{x}")), lambda x: (x, np.array([str(x)])), lambda x: (x, f"{_w[0]:.2f}"),
        lambda x: (x, f"{_w[:1]}"), lambda x: (x, f"{tf.reduce_sum(_w):>9}"), lambda x: (x, f"{x:.1e}".upper()),
        lambda x: (x, str(x)[:9]),
    ],
)  # fmt: skip
def test_a_text_with_the_value_of_a_tensor_is_that_of_the_eager_call(f: Any, under: bool, back_end: str) -> None:
    def call(g: Any, value: float) -> str:
        with tf.GradientTape() if under else contextlib.nullcontext():
            return repr(g(tf.constant(value)))

    compiled = tf.function(lambda x: f(x), jit_compile=True)
    with pytest.warns(
        RuntimeWarning, match=r"runs eagerly.*(reads the value of a tensor by the format|returns a text)"
    ):
        first = call(compiled, 1.25)
    for made, value in [(first, 1.25), (call(compiled, 2.5), 2.5), (call(compiled, -3.0), -3.0)]:
        assert made == call(tf.function(f), value)


def test_printed_tensors_leave_a_function_compiled(back_end: str, capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        print(x, f"{x}", x.shape)
        return {"loss": x * 2.0, "shape": (1, None)}

    compiled = tf.function(f, jit_compile=True)
    for k in range(3):
        assert float(compiled(tf.constant(k / 2))["loss"]) == k
    assert capsys.readouterr().out.count("\n") == 1 and "eager" not in compiled.summary()


def test_a_variable_that_an_argument_and_the_function_name_stays(back_end: str) -> None:
    w = tf.Variable(2.0)
    compiled = tf.function(lambda v, x: v.assign_add(x) * w, jit_compile=True)
    for k in range(1, 4):
        assert float(compiled(w, tf.constant(1.0))) == (2.0 + k) ** 2


@pytest.mark.parametrize("jit", [False, True])
def test_all_spellings_of_a_call_are_one_trace(jit: bool) -> None:
    traced = []

    def f(x: Any, n: int = 1, *rest: float, c: float = 0.0, d: Any = None) -> Any:
        traced.append(n)
        return x * n + c

    g, x = tf.function(f, jit_compile=jit), tf.constant(3.0)
    concrete = g.get_concrete_function(tf.TensorSpec([], tf.float32))
    calls = [
        lambda: g(x), lambda: g(x, 1), lambda: g(x, n=1), lambda: g(x=x), lambda: g(n=1, x=x), lambda: g(x, c=0.0),
        lambda: g(x, 1, d=None), lambda: concrete(x),
    ]  # fmt: skip
    assert [float(call()) for call in calls] == [3.0] * 8
    assert g.experimental_get_tracing_count() == 1
    assert len(traced) == (1 if jit else 8)
    assert [float(g(x, 2)), float(g(x, n=2)), float(g(x, 2, c=-0.0)), float(g(x, 2, 5.0))] == [6.0] * 4
    assert g.experimental_get_tracing_count() == 3  # -0.0 equals 0.0 for TensorFlow
    assert len(traced) == (4 if jit else 12)  # and not for the bits of a sum
    for wrong in (lambda: g(), lambda: g(x, x=x), lambda: g(n=2), lambda: g(x, 2, n=1), lambda: g(x, 1, n=1)):
        with pytest.raises(TypeError, match="f\\(\\)"):
            wrong()
    for wrapper in (functools.partial(f, n=4), functools.wraps(f)(lambda *args, **kwargs: f(*args, n=4))):
        h = tf.function(wrapper, jit_compile=jit)
        assert [float(h(x)), float(h(x))] == [12.0] * 2

    class Model:
        @tf.function(jit_compile=jit)
        def call(self, x: Any, n: int = 1) -> Any:
            return f(x, n)

    model = Model()
    assert [float(model.call(x)), float(model.call(x, n=1)), float(model.call(n=1, x=x))] == [3.0] * 3
    assert Model.call.experimental_get_tracing_count() == 1


@pytest.mark.parametrize("taped", [False, True])
def test_any_names_arrive_in_the_order_of_the_call(taped: bool) -> None:
    def f(**named: Any) -> Any:
        return tf.add_n(list(named.values())), {name: x + 1.0 for name, x in named.items()}

    def g(a: Any, b: Any) -> Any:
        return a - b

    def result(f: Any, **named: Any) -> Any:
        with tf.GradientTape() if taped else contextlib.nullcontext():
            total, others = f(**named)
        return float(total), list(others)

    x, y, z = (tf.constant(v, tf.float64) for v in (1e16, -1e16, 1.0))
    compiled = tf.function(f, jit_compile=True)
    for named in ({"z": x, "y": y, "a": z}, {"a": z, "y": y, "z": x}) * 2:
        assert result(compiled, **named) == result(f, **named)
    h = tf.function(g, jit_compile=True)
    assert float(h(a=x, b=z)) == float(h(b=z, a=x)) == 1e16 - 1.0
    assert h.summary().count("compiled") == 1


@pytest.mark.parametrize("jit", [False, True])
def test_arrays_in_structures_and_keywords_become_tensors(jit: bool) -> None:
    kinds = []

    @tf.function(jit_compile=jit)
    def gradient(x: Any, more: Any = None) -> Any:
        kinds.append(tf.is_tensor(x["a"][0]) and tf.is_tensor(more))
        with tf.GradientTape() as tape:
            tape.watch([x["a"][0], more])
            y = x["a"][0] * more * x["scale"]
        return tape.gradient(y, [x["a"][0], more])

    for k in range(3):
        a, more = np.full(2, 1.0 + k), np.full(2, 3.0)
        by_a, by_more = gradient({"a": (a, None), "scale": 2.0}, more=more)
        np.testing.assert_array_equal(by_a.numpy(), 2.0 * more)
        np.testing.assert_array_equal(by_more.numpy(), 2.0 * a)
    assert kinds == ([True] if jit else [True] * 3)


@pytest.mark.parametrize("order", ["C", "F"])
def test_equal_constants_in_another_order_in_memory_stay_apart(order: Any, back_end: str) -> None:
    def second(x: Any, a: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch([x, a])
            with tf.GradientTape() as inner:
                inner.watch([x, a])
                y = tf.reduce_sum(tf.exp(x) * a)
            slopes = inner.gradient(y, [x, a])
        return outer.gradient(slopes, [x, a])

    rng = np.random.default_rng(0)
    compiled = tf.function(lambda x, a: second(x, a), jit_compile=True)
    for _ in range(5):
        x, a = tf.constant(np.asarray(rng.normal(size=(17, 3)), order=order)), tf.constant(rng.normal(size=3))
        assert bits(compiled(x, a)) == bits(second(x, a))


def test_a_function_of_many_kinds_of_arguments_warns_once_and_keeps_those_in_use() -> None:
    traced: list[int] = []

    @tf.function(jit_compile=True)
    def f(x: Any) -> Any:
        traced.append(int(x.shape[0]))
        return 2.0 * x

    used = tf.ones(3)
    with pytest.warns(RuntimeWarning, match="more than 64 kinds of arguments") as caught:
        for n in range(100, 300):
            f(tf.ones(n))
            f(used)
    assert len(caught) == 1
    assert traced.count(3) == 1


@pytest.mark.parametrize("branches", [lambda x: tf.cond(x > 0.0, lambda: 2.0 * x, lambda: x * x)])
def test_the_other_branch_of_a_program_is_no_doubt(branches: Any, back_end: str) -> None:
    f = tf.function(branches, jit_compile=True)
    for k in range(100):
        for value in (1.5, -1.5 - k):
            x = tf.constant(value)
            assert bits(f(x)) == bits(branches(x))
    assert "without the table" not in f.summary()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(9, 1), (20, 1), (20, 1, 1), (17, 2), (1, 20, 1)])
def test_sums_with_few_results_add_in_the_order_of_eager_sums(
    shape: tuple[int, ...], dtype: str, back_end: str
) -> None:
    axis = 1 if shape[0] == 1 else 0
    compiled = tf.function(lambda x: tf.reduce_sum(x, axis), jit_compile=True)
    rng = np.random.default_rng(3)
    for _ in range(20):
        x = tf.constant(rng.normal(size=shape), dtype)
        assert bits(compiled(x)) == bits(tf.reduce_sum(x, axis))


def _gradient_of(f: Any) -> Any:
    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    return gradient


def _renamed_twice(x: Any) -> Any:
    z = tf.squeeze(tf.expand_dims(x, 0), 0)
    return z @ tf.transpose(x), z * 0.5 + tf.sqrt(z * z + 1.0)


def _strided_times_one(x: Any) -> Any:
    w = x[:, 0] * 1.0
    return tf.tensordot(w, w, 1), w[None, :] @ x


def _by_fixed(w: Any) -> Any:
    return _gradient_of(lambda x: tf.sin(x @ w))


_FIXED = np.random.default_rng(1).normal(size=(17, 17))
_IN_MEMORY: dict[str, Any] = {
    "an input that is renamed twice": _renamed_twice,
    "a part of an input times 1": _strided_times_one,
    "a transposed constant": _by_fixed(tf.transpose(tf.constant(_FIXED))),
    "a broadcast constant": _by_fixed(tf.broadcast_to(tf.constant(_FIXED[:1]), (17, 17))),
    "ones of an inner gradient": _gradient_of(_gradient_of(lambda x: tf.reduce_sum(tf.exp(x) @ tf.exp(x)))),
}


@pytest.mark.parametrize("f", _IN_MEMORY.values(), ids=_IN_MEMORY.keys())
def test_matrix_products_get_their_operands_in_the_memory_order_of_eager_code(f: Any, back_end: str) -> None:
    compiled = tf.function(f, jit_compile=True)
    for seed in range(20):
        x = tf.constant(np.random.default_rng(seed).normal(size=(17, 17)))
        assert bits(compiled(x)) == bits(f(x))


@pytest.mark.parametrize(
    ("f", "bad"),
    [
        (lambda x, n: x // n, 0),
        (lambda x, n: x % n, 0),
        (tf.truncatediv, 0),
        (tf.truncatemod, 0),
        (lambda x, n: x**n, -1),
    ],
)
def test_the_error_of_an_op_that_is_caught_decides_at_each_call(f: Any, bad: int, back_end: str) -> None:
    def safe(x: Any, n: Any) -> Any:
        try:
            return f(x, n)
        except tf.errors.InvalidArgumentError:
            return tf.constant(-1)

    compiled = tf.function(safe, jit_compile=True)
    with pytest.warns(RuntimeWarning, match="catches the error of a check or an op"):
        for n in (bad, 2, 3, bad, 2):
            assert int(compiled(tf.constant(7), tf.constant(n))) == int(safe(tf.constant(7), tf.constant(n)))


def test_values_may_choose_which_results_have_a_gradient(back_end: str) -> None:
    def f(x: Any) -> Any:
        return tf.sin(x), tf.cos(x), tf.cond(x > 0.0, lambda: tf.exp(x), lambda: tf.constant(1.0))

    compiled = tf.function(f, jit_compile=True)
    for value in (1.0, -1.0, 2.0, -2.0):
        x = tf.constant(value)
        found = []
        for g in (f, compiled):
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(x)
                results = g(x)
            found.append([None if d is None else bits(d) for d in (tape.gradient(y, x) for y in results)])
        assert found[0] == found[1] and (found[0][2] is None) == (value < 0)


class _Scaled(list[float]):
    scale = 1.0


class _Tagged(float):
    scale = 1.0


@pytest.mark.parametrize("made", [lambda: _Scaled([1.0]), lambda: _Tagged(1.0)], ids=["list", "float"])
def test_arguments_keep_attributes_of_their_own(made: Any, back_end: str) -> None:
    compiled = tf.function(lambda x, a: x * a.scale, jit_compile=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a list with attributes runs eagerly
        for scale in (2.0, 3.0):
            a = made()
            a.scale = scale
            assert float(compiled(tf.constant(1.0), a)) == scale


class _Kind(int, enum.Enum):
    LESS = (1, 2.0)
    MORE = (1, 3.0)

    scale: float

    def __new__(cls, number: int, scale: float) -> _Kind:
        made = int.__new__(cls, number)
        made._value_ = number + scale
        made.scale = scale
        return made


class _Slotted(float):
    __slots__ = ("scale",)
    scale: float


def _slotted(scale: float) -> _Slotted:
    made = _Slotted(1.0)
    made.scale = scale
    return made


class _Doubled(list[float]):
    def __init__(self, items: Any) -> None:
        super().__init__([2.0 * x for x in items])


class _Pair(tuple[Any, Any]):
    __slots__ = ()

    def __new__(cls, a: Any, b: Any) -> _Pair:
        return tuple.__new__(cls, (a, b))


_UNUSUAL: dict[str, tuple[Any, list[Any]]] = {
    "enums": (lambda x, a: x * a.scale, [_Kind.LESS, _Kind.MORE]),
    "slots": (lambda x, a: x * a.scale, [_slotted(2.0), _slotted(3.0)]),
    "keys": (lambda x, a: x * (3.0 if type(next(iter(a))) is int else 2.0), [{1: 1.0}, {True: 1.0}]),
    "a list that changes its elements": (lambda x, a: x * a[0], [_Doubled([1.0]), _Doubled([3.0])]),
    "a tuple with two arguments": (lambda x, a: x * a[1], [_Pair(1.0, 2.0), _Pair(1.0, 3.0)]),
}


@pytest.mark.parametrize("tape", [False, True])
@pytest.mark.parametrize(("f", "arguments"), _UNUSUAL.values(), ids=_UNUSUAL.keys())
def test_unusual_arguments_are_told_apart(f: Any, arguments: list[Any], tape: bool, back_end: str) -> None:
    compiled = tf.function(f, jit_compile=True)
    x = tf.constant(5.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # some run eagerly
        for a in [*arguments, *arguments]:
            with tf.GradientTape() if tape else contextlib.nullcontext() as t:
                if tape:
                    t.watch(x)
                y = compiled(x, a)
            assert float(y) == float(f(x, a))
            if tape:
                assert float(t.gradient(y, x)) == float(f(x, a)) / 5.0


@pytest.mark.parametrize("f", [lambda n: 7 // n, lambda n: 7 % n, lambda n: tf.truncatediv(tf.constant(7), n)])
def test_an_error_is_raised_even_if_nothing_reads_the_result(f: Any, back_end: str) -> None:
    def unread(x: Any, n: Any) -> Any:
        f(n)
        return 2.0 * x

    compiled = tf.function(unread, jit_compile=True)
    for n in (2, 3, 0, 2):
        if n:
            assert float(compiled(tf.constant(1.0), tf.constant(n))) == 2.0
        else:
            with pytest.raises(tf.errors.InvalidArgumentError, match="by 0"):
                compiled(tf.constant(1.0), tf.constant(n))


def test_a_caught_error_of_shapes_alone_leaves_a_function_compiled(back_end: str) -> None:
    def f(x: Any) -> Any:
        try:
            return tf.matmul(x, x)
        except tf.errors.InvalidArgumentError:
            return tf.matmul(x, x, transpose_b=True)

    compiled = tf.function(f, jit_compile=True)
    x = tf.constant(np.random.default_rng(0).normal(size=(3, 2)))
    assert bits(compiled(x)) == bits(f(x)) and compiled.summary().startswith("compiled")


@pytest.mark.parametrize("dtype", [tf.bool, tf.int32, tf.float16, tf.complex64])
def test_products_of_an_input_with_itself_keep_its_dtype(dtype: Any, back_end: str) -> None:
    for f in (
        lambda x: tf.tensordot(x, x, 0),
        lambda x: tf.matmul(tf.reshape(x, [-1, 1]), tf.reshape(x, [1, -1])),
    ):
        x = tf.cast(tf.constant(1), dtype)
        made, right = tf.function(f, jit_compile=True)(x).numpy(), f(x).numpy()
        assert (made.dtype, made.tobytes()) == (right.dtype, right.tobytes())


def test_tracing_warns_of_no_division_of_numbers_that_ops_make(back_end: str) -> None:
    def f(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.math.reduce_std(x, axis=0)
        return tape.gradient(y, x)

    with np.errstate(all="raise"):
        assert tf.function(f, jit_compile=True)(tf.constant([], tf.float32)).shape == (0,)


def test_inputs_that_share_a_memory_keep_the_bits_of_products(back_end: str) -> None:
    def f(x: Any, y: Any) -> Any:
        return (x * 1.0) @ tf.transpose(y)

    compiled = tf.function(f, jit_compile=True)
    variable = tf.Variable(tf.zeros((33, 33), tf.float64))
    for seed in range(4):
        x = tf.constant(np.random.default_rng(seed).normal(size=(33, 33)))
        variable.assign(x)
        for pair in ((x, x), (x, tf.identity(x)), (variable, x)):
            assert bits(compiled(*pair)) == bits(f(*pair))


def test_a_broadcast_row_keeps_the_bits_of_its_products(back_end: str) -> None:
    def f(x: Any) -> Any:
        return tf.tensordot(x[0] * 1.0, x[0] * 1.0, 1)

    compiled = tf.function(f, jit_compile=True)
    for seed in range(20):
        row = np.random.default_rng(seed).normal(size=17)
        x = tf.broadcast_to(tf.constant(row), (5, 17))
        assert bits(compiled(x)) == bits(f(x))


class _Stop(BaseException):
    """An error of a user that is no `Exception`."""


@pytest.mark.parametrize("error", [ValueError, _Stop])
@pytest.mark.parametrize("taped", [False, True])
@pytest.mark.parametrize("steps", ["", "a", "d", "da", "ad", "aad", "adad", "dada"])  # assigns, draws
def test_what_came_before_an_error_of_the_user_stays(steps: str, taped: bool, error: Any, back_end: str) -> None:
    def after_calls(jit: bool) -> Any:
        tf.random.set_seed(5)
        v, generator = tf.Variable(1.0), tf.random.Generator.from_seed(3)
        runs: list[int] = []

        def f(x: Any) -> Any:
            runs.append(len(x))
            y = x
            for step in steps:
                if step == "a":
                    v.assign(v * 2.0 + tf.reduce_sum(y))
                else:
                    y = generator.normal(x.shape) * x + tf.random.uniform(x.shape)
            if x.shape[0] == 3:
                raise error("three")
            return y * v

        f = tf.function(f, jit_compile=jit)
        for size in (2, 3, 2, 3):
            x = tf.linspace(0.5, 2.0, size)
            with contextlib.ExitStack() as stack:
                if size == 3:
                    stack.enter_context(pytest.raises(error, match="three"))
                if taped:
                    stack.enter_context(tf.GradientTape(persistent=True)).watch(x)
                f(x)
        return bits((v.value(), generator.state, tf.random.uniform([2]))), runs.count(3)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # some of these calls run eagerly under a tape
        assert after_calls(True) == after_calls(False)


def test_a_step_of_an_optimizer_before_an_error_of_the_user_is_taken(back_end: str) -> None:
    def after_call(jit: bool) -> Any:
        w, v = tf.Variable([1.0, 2.0]), tf.Variable(0.0)
        optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
        optimizer.build([w])

        def f(x: Any) -> Any:
            v.assign(x[0])
            optimizer.apply_gradients([(x * v, w)])
            raise ValueError("after the step")

        with pytest.raises(ValueError, match="after the step"):
            tf.function(f, jit_compile=jit)(tf.constant([3.0, 4.0]))
        return bits((w.value(), v.value(), *[u.value() for u in optimizer.variables]))

    assert after_call(True) == after_call(False)


def test_an_initializer_made_in_a_compiled_function_takes_its_seed_at_the_trace(back_end: str) -> None:
    compiled = tf.function(lambda n: tf.keras.initializers.RandomNormal()(n), jit_compile=True)
    random.seed(4)
    made = [bits(compiled([2])) for _ in range(3)]
    after = random.random()
    random.seed(4)
    assert made == 3 * [bits(tf.keras.initializers.RandomNormal()([2]))]
    assert after == random.random()
