"""Compiled functions under tapes: one record for a call, and the bits of the eager call in every kind of sweep."""

from __future__ import annotations

import gc
import sys
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape import nest
from gtape.declare.primitives import REGISTRY
from gtape.engine.whole_calls import WholeCall, is_part_of_call
from gtape.recording.record import PARENTS, step_of
from gtape.verify.programs.mutants import example
from gtape.verify.programs.programs import generate
from tests.bits import bits
from tests.campaigns import LARGE, in_turn
from tests.gtape.test_compiled import COMPILED, _outcome, _peak, _with_arguments


def _floats(xs: Any) -> list[Any]:
    return [x for x in xs if x.dtype.is_floating]


def _alone(call: Callable[..., Any], *xs: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(_floats(xs))
        y = call(*xs)
    return y, tape.gradient(y, list(xs))


def _among_ops(call: Callable[..., Any], *xs: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(_floats(xs))
        inner = [x * 1.5 if x.dtype.is_floating else x for x in xs]
        y = call(*inner)
        loss = [tf.reduce_sum(tf.sin(o)) for o in nest.flatten(y) if o is not None and o.dtype.is_floating]
        loss += [tf.reduce_sum(z * z) for z in _floats(inner)]
    return y, tape.gradient(loss, [*xs, *inner])


def _persistent(call: Callable[..., Any], *xs: Any) -> Any:
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(_floats(xs))
        y = call(*xs)
    first = nest.flatten(y)[0]
    before = tape.gradient(y, list(xs))
    rows = tape.jacobian(first, list(xs)) if first.dtype.is_floating else None
    return y, before, rows, tape.gradient(y, list(xs))


def _jacobian(call: Callable[..., Any], *xs: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(_floats(xs))
        y = nest.flatten(call(*xs))[0]
    return tape.jacobian(y, list(xs))


def _by_a_later_tape(call: Callable[..., Any], *xs: Any) -> Any:
    with tf.GradientTape() as inner:
        inner.watch(_floats(xs))
        y = call(*xs)
    with tf.GradientTape() as outer:
        outer.watch(_floats(xs))
        slopes = [g for g in inner.gradient(y, list(xs)) if g is not None]
    return slopes, outer.gradient(slopes, list(xs))


def _nested(call: Callable[..., Any], *xs: Any) -> Any:
    with tf.GradientTape() as outer:
        outer.watch(_floats(xs))
        slopes = [g for g in nest.flatten(_alone(call, *xs)[1]) if g is not None]
    return slopes, outer.gradient(slopes, list(xs))


def _behind_a_selection(call: Callable[..., Any], *xs: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(_floats(xs))
        y = nest.flatten(call(*xs))[0]
        y = tf.where(y > 0, tf.sqrt(y), tf.zeros_like(y)) if y.dtype.is_floating else y
    return tape.gradient(y, list(xs))


def _forward(call: Callable[..., Any], *xs: Any) -> Any:
    given = _floats(xs)
    with tf.autodiff.ForwardAccumulator(given, [tf.ones_like(x) for x in given]) as forward:
        y = nest.flatten(call(*xs))[0]
    return forward.jvp(y)


def _in_its_own_block(call: Callable[..., Any], *xs: Any) -> Any:
    with warnings.catch_warnings(), tf.GradientTape(persistent=True) as tape:
        warnings.simplefilter("ignore")
        tape.watch(_floats(xs))
        y = nest.flatten(call(*xs))[0]
        slopes = [tf.convert_to_tensor(g) for g in tape.gradient(y, _floats(xs)) if g is not None]
        loss = [y, *slopes]
    return slopes, tape.gradient(loss, list(xs))


def _beside_a_penalty(call: Callable[..., Any], *xs: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(_floats(xs))
        before = [tf.sin(x) for x in _floats(xs)]
        y = call(*xs)
        after = [x * x for x in _floats(xs)]  # whose cotangents reach the inputs before those of the call
    return y, tape.gradient([before, y, after], list(xs))


def _twice(call: Callable[..., Any], *xs: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(_floats(xs))
        y = call(*xs), call(*[x * 0.5 if x.dtype.is_floating else x for x in xs]), call(*xs)
    return y, tape.gradient(y, list(xs))


FORMS = [
    _alone, _among_ops, _persistent, _jacobian, _by_a_later_tape, _nested, _behind_a_selection, _forward,
    _in_its_own_block, _beside_a_penalty, _twice,
]  # fmt: skip


def _check(call: Callable[..., Any], forms: Any, draws: list[list[Any]]) -> None:
    compiled, eager = tf.function(call, jit_compile=True), tf.function(call)
    for form in forms:
        for xs in draws:  # the first call of a form is traced, the others run its programs
            assert _outcome(lambda *a, f=form: f(compiled, *a), xs) == _outcome(lambda *a, f=form: f(eager, *a), xs)


@pytest.mark.parametrize("name", sorted(REGISTRY.keys()) if LARGE else sorted(REGISTRY.keys())[1::16])
@pytest.mark.filterwarnings("ignore")
def test_primitives_give_the_same_bits_under_tapes(name: str, back_end: str) -> None:
    prim = REGISTRY[name]
    for dtype in in_turn(["float32", "float64"], name):
        rng = np.random.default_rng(len(name))
        try:
            drawn = [example(prim, np.dtype(dtype), rng) for _ in range(2)]
        except Exception:
            pytest.skip("no example")
        draws = [[tf.constant(x) for x in operands] for operands, _ in (drawn[0], drawn[0], drawn[1])]
        _check(lambda *xs, p=drawn[0][1]: prim.function(*xs, **p), in_turn(FORMS, name), draws)


def _recurrent(x: Any, w: Any) -> Any:
    h = x
    for _ in range(6):
        h = tf.tanh(tf.matmul(h, w)) + w * tf.sin(x)
    return h, tf.reduce_sum(w * x)


def _of_rows(x: Any, w: Any) -> Any:
    return tf.reduce_max(tf.stack([tf.sin(x[i]) * w[i] for i in range(4)]) * x[:4]) + tf.reduce_sum(w)


@pytest.mark.parametrize("n", [4, 70])
@pytest.mark.parametrize("call", [_recurrent, _of_rows])
def test_inputs_with_several_uses_give_the_same_bits_under_tapes(call: Any, n: int, back_end: str) -> None:
    rng = np.random.default_rng(n)
    for dtype in (np.float32, np.float64):
        draws = [[tf.constant(rng.normal(size=(n, n)).astype(dtype) / n) for _ in range(2)] for _ in range(2)]
        draws.append([draws[0][0]] * 2)  # one tensor as two inputs
        _check(call, FORMS if n < 10 else [_alone, _beside_a_penalty, _twice], draws)


def test_sums_over_uses_have_the_order_of_the_eager_sums(back_end: str) -> None:
    rng = np.random.default_rng(3)
    for n in (6, 200):
        x, a, b, c = (tf.constant(rng.normal(size=(n, n))) for _ in range(4))

        def f(x: Any, a: Any = a, b: Any = b) -> Any:
            return tf.transpose(x) * a + tf.transpose(x) * b  # two cotangents in the other order

        def slope(f: Any, x: Any = x, c: Any = c) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(x * c)  # an older op, whose cotangent comes last
                y = y + tf.reduce_sum(f(x))
            g = tape.gradient(y, x)
            return g, tf.reduce_sum(g)

        compiled = tf.function(f, jit_compile=True)
        for _ in range(3):
            assert bits(slope(compiled)) == bits(slope(f))


def test_two_inputs_with_equal_sums_get_a_sum_each(back_end: str) -> None:
    def f(x: Any, w: Any) -> Any:
        return x + w + (x + w)

    def slope(f: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            y = tf.sin(x) * 3.0
            z = f(x, w) * c
        return tape.gradient([y, z], [x, w])

    x, w, c = (tf.constant(np.random.default_rng(k).normal(size=(200, 200))) for k in range(3))
    compiled = tf.function(f, jit_compile=True)
    for _ in range(3):
        assert bits(slope(compiled)) == bits(slope(f))


def _factors(shape: Any, count: int) -> list[Any]:
    return [tf.Variable(np.random.default_rng(k).normal(size=shape)) for k in range(count)]


def _sums_of_products(x: Any, ws: Any) -> Any:
    return tf.add_n([tf.reduce_sum(tf.sin(w * x)) for w in ws])


def _products(x: Any, ws: Any) -> Any:
    for w in ws:
        x = tf.tanh(x * w)
    return x


def _layers(x: Any, ws: Any) -> Any:
    for w, b in zip(ws[::2], ws[1::2], strict=True):
        x = tf.tanh(x @ w + b[0])
    return tf.reduce_mean(x**2)


MODELS: dict[str, tuple[Any, Any, int]] = {
    "a recurrent net": (lambda h, w: tf.reduce_sum(_recurrent(h, w[0])[0]), [200, 200], 1),
    "rows": (lambda x, w: tf.reduce_sum(tf.stack([tf.sin(x[i] * w[0][i]) for i in range(40)])), [40, 600], 1),
    "a chain": (lambda x, w: tf.reduce_sum(tf.sin(tf.cos(x * w[0]) * x + w[0]) * x + tf.exp(x * w[0])), [200, 200], 1),
    "sums": (_sums_of_products, [50_000], 20),
    "products": (lambda x, ws: tf.reduce_sum(_products(x, ws)), [50_000], 20),
    "results": (lambda x, ws: [tf.reduce_sum(_products(x, ws[:k])) for k in range(1, 10)], [5_000], 20),
    "layers": (_layers, [100, 100], 20),
}


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("by", ["x", "all"])
@pytest.mark.parametrize("name", MODELS)
def test_a_tape_around_a_call_needs_little_more_memory_than_eager(
    name: str, by: str, persistent: bool, back_end: str
) -> None:
    f, shape, count = MODELS[name]
    x, ws = tf.constant(np.random.default_rng(6).normal(size=shape)), _factors(shape, count)

    def step(f: Any) -> Any:
        with tf.GradientTape(persistent=persistent) as tape:
            tape.watch(x)
            y = f(x, ws)
        return tape.gradient(y, [x, *ws] if by == "all" else x)

    compiled = tf.function(f, jit_compile=True)
    for _ in range(2):
        assert bits(step(compiled)) == bits(step(f))
    assert "under a tape, compiled" in compiled.summary()
    assert _peak(lambda: step(compiled)) <= 1.2 * _peak(lambda: step(f))


def test_a_persistent_tape_around_a_call_answers_again_from_the_same_values(back_end: str) -> None:
    f, shape, count = MODELS["sums"]
    x, ws = tf.constant(np.random.default_rng(6).normal(size=shape)), _factors(shape, count)
    compiled = tf.function(lambda x: f(x, ws), jit_compile=True)
    for _ in range(2):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = compiled(x)
        first = bits(tape.gradient(y, [x, *ws]))
        assert bits(tape.gradient(y, [x, *ws])) == first
        assert bits(tape.gradient(y, [x, *ws], output_gradients=tf.constant(1.0, tf.float64))) == first


@pytest.mark.parametrize("seed", range(500) if LARGE else range(3, 200, 50))
@pytest.mark.filterwarnings("ignore")
def test_random_programs_give_the_same_bits_under_tapes(seed: int, back_end: str) -> None:
    program, inputs = _with_arguments(generate(seed))
    _check(program, FORMS if LARGE else FORMS[seed // 50 :: 4], [inputs] * 2)


@pytest.mark.parametrize("f", COMPILED, ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore")
def test_functions_with_tapes_inside_give_the_same_bits_under_tapes(f: Any, back_end: str) -> None:
    for form in in_turn(FORMS, f.__name__):
        x = tf.constant([0.5, 1.5, -0.25])
        _check(lambda x: tf.function(f)(x), [form], [[x], [x * 0.5]])


@pytest.mark.parametrize("op", [tf.math.bessel_k1, tf.math.lgamma, tf.exp], ids=["bessel_k1", "lgamma", "exp"])
def test_second_derivatives_of_mixed_elements_give_the_same_bits(op: Any, back_end: str) -> None:
    def slopes(x: Any, y: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([x, y])
            spread = tf.math.softsign(x)
            z = op(0.4 + tf.nn.softplus(spread - 0.5 * tf.reduce_sum(spread / y)))
        return tape.gradient(z, [x, y])

    draws = [[tf.constant(np.random.default_rng(k).uniform(0.5, 2.0, (2, 4))[j]) for j in (0, 1)] for k in range(3)]
    _check(slopes, [_jacobian], draws)


def _is_whole(t: Any) -> bool:
    if not isinstance(t, tf.Tensor) or t._record is None:
        return False
    return step_of(t._record).__class__ is WholeCall or is_part_of_call(t._record)


def _counted(f: Callable[..., Any]) -> tuple[Callable[..., Any], list[int]]:
    runs = [0]

    def counting(*xs: Any) -> Any:
        runs[0] += 1
        return f(*xs)

    return tf.function(counting, jit_compile=True), runs


def test_a_call_under_a_tape_is_one_record_that_reads_variables_as_they_are(back_end: str) -> None:
    w, fixed, rate = tf.Variable([1.0, 2.0]), tf.Variable([0.5, 0.5], trainable=False), tf.Variable(2)
    unread = tf.Variable([1.0])

    def loss(x: Any) -> Any:
        return {"loss": tf.reduce_sum(tf.nn.relu(x * w) * w * fixed) * tf.cast(rate, tf.float32), "one": 1.0}

    compiled, runs = _counted(loss)
    for k in range(4):
        w.assign_add([0.25, -0.5])
        x = tf.constant([0.5, 1.5 - k])
        found = []
        for f in (loss, compiled):
            with tf.GradientTape(persistent=k == 3) as tape:
                y = f(x)["loss"]
                assert f is loss or _is_whole(y)
                y = y * tf.reduce_sum(w)
            assert [v is u for v, u in zip(tape.watched_variables(), (w, rate), strict=True)] == [True, True]
            w.assign_add([0.5, 0.5])  # of no effect on the recorded values
            found.append(bits([y, *tape.gradient(y, [w, fixed, unread, x])]))
            w.assign_sub([0.5, 0.5])
        assert found[0] == found[1]
        assert found[0][2:] == [None] * 3
    assert runs == [1]


@pytest.mark.filterwarnings("ignore:.* runs eagerly, with the same result. under a tape:RuntimeWarning")
def test_a_tensor_that_the_function_sees_keeps_its_gradient() -> None:
    seen = tf.constant([2.0, 3.0])
    f = tf.function(lambda x: tf.reduce_sum(x * tf.sin(seen)), jit_compile=True)
    x = tf.constant([0.5, 1.5])
    for given, watched in ((x, [x]), (seen, [seen]), (x, [x, seen]), (x, [x]), (x, [seen])):
        with tf.GradientTape() as tape:
            tape.watch(watched)
            y = f(given)
        with tf.GradientTape() as plain:
            plain.watch(watched)
            expected = tf.reduce_sum(given * tf.sin(seen))
        assert bits(tape.gradient(y, [x, seen])) == bits(plain.gradient(expected, [x, seen]))
    with tf.GradientTape() as tape:
        tape.watch(x)
        made = x * 2.0
        y = tf.function(lambda x: tf.reduce_sum(x * made), jit_compile=True)(x)
    assert tape.gradient(y, x).numpy().tolist() == [2.0, 6.0]


def _inner_slope(x: Any, seen: Any) -> Any:
    c = tf.constant(1.5, seen.dtype)
    with tf.GradientTape() as tape:
        tape.watch(c)
        y = tf.sin(c * seen)
    return x * tape.gradient(y, c)


def _inner_slope_by_what_it_sees(x: Any, seen: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(seen)
        y = seen * seen * seen
    return x * tape.gradient(y, seen)


def _inner_slope_from_a_start(x: Any, seen: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(x * x)
    return tape.gradient(y, x, output_gradients=tf.reduce_sum(seen))


WAYS: list[Callable[[Any, Any], Any]] = [
    lambda x, seen: x * seen,
    lambda x, seen: tf.sin(seen) * x,
    lambda x, seen: x + (seen * seen + 1.0),
    lambda x, seen: tf.reduce_sum(seen) * x,
    lambda x, seen: tf.reshape(tf.stack([tf.reshape(seen, [-1]), tf.reshape(seen, [-1])]), [-1])[0] * x,
    lambda x, seen: tf.maximum(seen, 0.5) + tf.where(seen > 0.1, seen, 1.0) - x,
    lambda x, seen: tf.cast(seen, tf.float32 if seen.dtype == tf.float64 else tf.float64),
    lambda x, seen: [x * x, seen],
    lambda x, seen: [x * x, tf.identity(seen)],
    lambda x, seen: tf.function(lambda y: y * y, jit_compile=True)(seen) * x,
    _inner_slope, _inner_slope_by_what_it_sees, _inner_slope_from_a_start,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.* runs eagerly, with the same result. under a tape:RuntimeWarning")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("value", [[2.0, 3.0], [2.0], 2.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("met", ["new", "watched before"])
def test_what_a_traced_call_reads_keeps_its_gradient(way: Any, value: Any, dtype: str, met: str) -> None:
    seen = tf.constant(value, dtype)
    if met != "new":
        with tf.GradientTape() as tape:
            tape.watch(seen)
            tape.gradient(tf.sin(seen), seen)
    compiled = tf.function(lambda x: way(x, seen), jit_compile=True)
    x = tf.constant(np.multiply(value, 0.3), dtype)
    for watched in ([x], [x, seen], [seen]):
        found = []
        for f in (compiled, lambda x: way(x, seen)):
            with tf.GradientTape() as tape:
                tape.watch(watched)
                y = f(x)
            found.append(bits(tape.gradient(y, watched)))
        assert found[0] == found[1]


@pytest.mark.parametrize("value", [[0.5, 1.5], 0.5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tensors_that_no_traced_call_read_share_a_program(value: Any, dtype: str) -> None:
    kept = tf.constant([1.0, 3.0], dtype)
    old = [tf.constant(np.multiply(value, k), dtype) for k in range(5)]
    f, runs = _counted(lambda x: tf.reduce_sum(tf.sin(x * 0.5 + 1.0) * tf.reduce_sum(kept)))
    for x in [*old, *[tf.constant(np.multiply(value, k), dtype) for k in range(5)]]:
        for others in ([], [old[0]], [tf.constant(2.0)]):
            with tf.GradientTape() as tape:
                tape.watch([x, *others])
                y = f(x)
                assert _is_whole(y)
            tape.gradient(y, x)
    assert runs == [1]


def test_a_trace_of_a_call_does_not_search_the_heap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search takes as long as the process is large, and depends on what the collector lists."""
    for name in ("get_objects", "get_referrers", "get_referents"):
        monkeypatch.setattr(gc, name, lambda *_, n=name, **__: pytest.fail(f"calls gc.{n}"))
    x = tf.constant([0.5, 1.5])
    f = tf.function(lambda x: tf.reduce_sum(tf.sin(x)), jit_compile=True)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert _is_whole(y)
    assert tape.gradient(y, x).numpy().tolist() == np.cos(x.numpy()).tolist()


def test_new_and_old_tensors_share_a_program() -> None:
    f, runs = _counted(lambda x: tf.reduce_sum(tf.sin(x)))
    old = tf.constant([0.5, 1.5])
    for values in ([0.1, 0.2], [0.3, 0.4], [0.5, 0.6]):
        x = tf.constant(values)
        for others in (0, 1):
            with tf.GradientTape() as tape:
                tape.watch([x, *[tf.constant(1.0)] * others])
                y = f(x)
                assert _is_whole(y)
            assert tape.gradient(y, x).numpy().tolist() == np.cos(x.numpy()).tolist()
    assert runs == [1]
    for _ in range(3):
        with tf.GradientTape() as tape:
            tape.watch(old)
            assert _is_whole(f(old))
    assert runs == [1]


@pytest.mark.parametrize("act", ["pause", "reset", "ask", "watch"])
def test_a_function_that_uses_the_tape_around_it_runs_eagerly(act: str) -> None:
    x, c = tf.constant(2.0), tf.constant(3.0)

    def run(how: Callable[..., Any]) -> Any:
        with warnings.catch_warnings(), tf.GradientTape(persistent=True) as tape:
            warnings.simplefilter("ignore")
            tape.watch(x)
            z = x * x

            def body(x: Any) -> Any:
                if act == "pause":
                    with tape.stop_recording():
                        y = x * x
                    return y * x
                if act == "reset":
                    tape.reset()
                    return x * x
                if act == "ask":
                    return x * tape.gradient(z, x)
                tape.watch(c)
                return x * c

            y = how(body)(x)
            total = y * x
        return tape.gradient(total, [x, c, z])

    assert bits(run(lambda f: tf.function(f, jit_compile=True))) == bits(run(lambda f: f))


@pytest.mark.filterwarnings("ignore:.* runs eagerly, with the same result. under a tape:RuntimeWarning")
def test_what_is_no_single_recorded_program_runs_eagerly() -> None:
    table, x = tf.Variable([[1.0], [2.0], [3.0]]), tf.constant([0.5, 1.5])

    @tf.custom_gradient
    def five(x: Any) -> Any:
        return x * x, lambda g: 5.0 * g * x

    def is_whole(f: Callable[..., Any], sources: Any) -> bool:
        compiled = tf.function(f, jit_compile=True)
        for _ in range(2):
            found: list[Any] = []
            for g in (f, compiled):
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    y = g(x)
                whole = _is_whole(y)
                found.append(bits(tape.gradient(y, sources)))
            assert found[0] == found[1]
        return whole

    for f, sources in (
        (lambda x: tf.gather(table, [0, 2, 2]) * x[0], [table]),
        (lambda x: five(x) * x, [x]),
        (lambda x: tf.linalg.eigh(tf.tensordot(x, x, 0))[0], [x]),
        (lambda x: tf.floor(x), [x]),
    ):
        assert not is_whole(f, sources)
    assert is_whole(lambda x: (tf.sin(x) * x, tf.shape(x))[0], [x])


# ---------------------------------------------------------------------------------------------- several results


def _two(x: Any) -> Any:
    return tf.sin(x), x * x


def _loss_and_logits(x: Any) -> Any:
    logits = tf.tanh(x * 2.0)
    return tf.reduce_sum(logits * logits), logits


@pytest.mark.parametrize("f", [lambda x: tf.sin(x) * x, lambda x: x * x * tf.exp(x), _loss_and_logits])
def test_gradients_that_a_tape_takes_in_its_own_block_are_added_op_by_op(f: Any, back_end: str) -> None:
    rng = np.random.default_rng(0)
    _check(f, [_in_its_own_block], [[tf.constant(rng.normal(size=4))] for _ in range(40)])


def _chain_of_results(x: Any) -> Any:
    a = tf.exp(x * 0.3)
    b = tf.sin(a)
    return {"a": a, "b": [b, a * b + b, tf.pow(a, 1.7)]}


def _one_twice(x: Any) -> Any:
    y = x * x
    return y, y, tf.exp(y)


def _with_others(x: Any) -> Any:
    return x * x, tf.shape(x), tf.constant(3.0), tf.stop_gradient(x) * 2.0, tf.nn.relu(x), None, tf.cos(x)


def _selecting(x: Any) -> Any:
    return tf.nn.relu(x - 1.0), tf.where(x > 1.0, x, 1.0 / x), tf.reduce_max(x)


def _of_one_op(x: Any) -> Any:
    a, b = tf.split(tf.concat([tf.reshape(x, [-1]), tf.reshape(x * x, [-1])], 0), 2)
    return a * b, tf.math.divide_no_nan(b, a)


def _with_argument(x: Any) -> Any:
    return x, tf.tanh(x), x + 1.0


SEVERAL = [
    _two, _loss_and_logits, _chain_of_results, _one_twice, _with_others, _selecting, _of_one_op, _with_argument,
]  # fmt: skip


def _results(call: Callable[..., Any], x: Any) -> list[Any]:
    return [y for y in nest.flatten(call(x)) if y is not None and y.dtype.is_floating]


def _every_pattern(call: Callable[..., Any], x: Any) -> Any:
    made = []
    for k in range(1, 16):
        with tf.GradientTape() as tape:
            tape.watch(x)
            ys = _results(call, x * 1.5)
            loss = [tf.reduce_sum(tf.sin(y)) for i, y in enumerate(ys) if k & 1 << i]
        made.append(tape.gradient(loss, x) if loss else None)
    return made


def _by_results(call: Callable[..., Any], x: Any) -> Any:
    made = []
    for persistent in (False, True):
        for last in (False, True):
            with tf.GradientTape(persistent=persistent) as tape:
                tape.watch(x)
                z = x * 1.25
                ys = _results(call, z)
                total = tf.add_n([tf.reduce_sum(y * tf.cos(y)) for y in ys])
            target = ys[-1] if last else total
            made.append([target, tape.gradient(target, [x, *ys, z])])
            if persistent:
                made.append([tape.gradient(y, [*ys, x], unconnected_gradients="zero") for y in ys])
                made.append([tape.gradient([total, *ys], [ys[0], x, ys[-1]]) for _ in range(2)])
    return made


def _every_jacobian(call: Callable[..., Any], x: Any) -> Any:
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        ys = _results(call, x * 0.75)
        z = ys[0] * ys[-1]
    first = tape.gradient(ys[0], x)
    return first, [tape.jacobian(y, [x, ys[0]]) for y in [*ys, z]], tape.gradient(z, [x, *ys])


def _second(call: Callable[..., Any], x: Any) -> Any:
    with tf.GradientTape(persistent=True) as inner:
        inner.watch(x)
        ys = _results(call, x)
        loss = tf.reduce_sum(ys[0] * ys[-1])
    with tf.GradientTape() as outer:
        outer.watch(x)
        slope = inner.gradient(loss, x)
    return slope, outer.gradient(slope, x), inner.gradient(loss, [x, ys[0]])


def _chained(call: Callable[..., Any], x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        h, ys = x, []
        for _ in range(3):
            ys = _results(call, h)
            h = ys[-1] * 0.5 + ys[0]
    return h, tape.gradient(h, [x, *ys])


def _scaled(call: Callable[..., Any], x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        ys = _results(call, x)
    return tape.gradient(ys, x, output_gradients=[tf.ones_like(y) * (k - 0.5) for k, y in enumerate(ys)])


@pytest.mark.parametrize("form", [_every_pattern, _by_results, _every_jacobian, _second, _chained, _scaled])
@pytest.mark.parametrize("f", SEVERAL, ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore")
def test_several_results_give_the_same_bits(f: Any, form: Any, back_end: str) -> None:
    for dtype in ("float64", "float32"):
        for values in ([0.5, 1.5, -0.25], 1.75, [[0.0, np.inf], [-1.0, 1e-3]]):
            x = tf.constant(values, dtype)
            _check(f, [form], [[x], [x * 0.5], [x * -2.0], [x]])


def _calls_in(work: Callable[[], Any]) -> int:
    """The number of calls of functions, built-in ones included, which is the same on every machine."""
    calls = 0

    def note(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def test_the_work_for_a_call_grows_as_its_number_of_results(back_end: str) -> None:
    x = tf.constant([1.0, 2.0])

    def step(n: int) -> None:
        many = tf.function(lambda x: [x * float(k) for k in range(n)], jit_compile=True)
        for _ in range(2):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.add_n(many(x))
            tape.gradient(y, x)
        assert "under a tape, compiled" in many.summary()

    step(10)
    few, many = (_calls_in(lambda n=n: step(n)) for n in (100, 500))  # type: ignore[misc]
    assert many < 6 * few


def test_each_result_of_a_call_depends_on_the_one_record(back_end: str) -> None:
    w = tf.Variable([0.5, 1.5])
    compiled, runs = _counted(lambda x: _loss_and_logits(x * w))
    for k in range(4):
        with tf.GradientTape() as tape:
            loss, logits = compiled(tf.constant([1.0, k + 2.0]))
            assert _is_whole(loss)
            assert _is_whole(logits)
            assert loss._record[PARENTS] is logits._record[PARENTS]
        assert tape.gradient(loss, w) is not None
    assert runs == [1]
    for _ in range(3):  # traced again once, for results that have a cotangent together
        with tf.GradientTape() as tape:
            loss, logits = compiled(tf.constant([1.0, 2.0]))
        assert tape.gradient([loss, logits], w) is not None
    assert runs == [2]


def test_results_that_nobody_holds_are_freed_without_the_collector() -> None:
    f = tf.function(_loss_and_logits, jit_compile=True)
    x = tf.constant([0.5, 1.5])
    gc.collect()
    gc.disable()
    try:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            for _ in range(3):
                loss, logits = f(x)
                freed = weakref.ref(logits)
                loss = tape.gradient(loss, x)
                del logits
                assert freed() is None
        with tape:
            f(x)
            records = sum(type(o) is list for o in gc.get_objects())
            for _ in range(20):
                f(x)
            assert sum(type(o) is list for o in gc.get_objects()) - records < 5
    finally:
        gc.enable()


# ---------------------------------------------------------------------------------------------- reports


def test_the_summary_tells_what_is_compiled_under_tapes() -> None:
    x = tf.constant([0.5, 1.5])
    summaries = []
    for f in (lambda x: tf.sin(x) * x, lambda x: (tf.sin(x), x * x), lambda x: x):
        compiled = tf.function(f, jit_compile=True)
        _alone(compiled, x)
        summaries.append(compiled.summary())
    assert summaries[0].startswith("under a tape, compiled: 2 of 2 operations, 5 of 5 in the sweep")
    assert summaries[1].startswith("under a tape, compiled: 2 of 2 operations, 5 of 6 in the sweep")
    assert summaries[2] == "under a tape, compiled: 1 of 1 operations, 0 of 0 in the sweep; 1 calls, 0 buffers, 0 bytes"


def test_values_for_which_a_program_does_not_hold_run_eagerly(back_end: str) -> None:
    def f(x: Any) -> Any:
        return tf.reduce_sum(tf.sqrt(tf.maximum(x, 0.0)) / x)

    for dtype in ("float32", "float64"):
        for first in ([1.0, 2.0], [0.0, 1.0]):
            compiled = tf.function(f, jit_compile=True)
            for values in (first, [0.0, 1.0], [-1.0, 4.0], [np.inf, np.nan], [1e-320, 1e300]):
                for x in (tf.constant(values, dtype), tf.constant(values[0], dtype)):
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        assert bits(_alone(compiled, x)) == bits(_alone(f, x))


def test_the_truth_of_a_tensor_is_an_error_under_a_tape_too() -> None:
    def f(x: Any) -> Any:
        return x * 2.0 if x[0] < 1.0 else x

    compiled = tf.function(f, jit_compile=True)
    x = tf.constant([0.5, 1.5])
    for _ in range(2):
        with (
            tf.GradientTape() as tape,
            pytest.raises(tf.errors.OperatorNotAllowedInGraphError, match="ask for the truth"),
        ):
            tape.watch(x)
            compiled(x)


def test_the_ops_of_a_call_are_explained() -> None:
    f = tf.function(lambda x: tf.sin(x) * 0.0, jit_compile=True)
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert _is_whole(y)
    assert "sin" in tape.explain(y, x) or "multiply" in tape.explain(y, x)
