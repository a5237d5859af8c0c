"""Compiled functions of labels and indices: one program for all values, and the errors of eager calls."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gtape as tf
from gtape.tapes.tracing import Tracer
from tests.bits import bits

ROWS, COLUMNS = 4, 3

# Each op with the bound of its indices. `z` has the shape (ROWS, COLUMNS), and there are ROWS indices.
_OPS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "gather": (lambda z, i: tf.gather(z, i), ROWS),
    "gather along a later axis": (lambda z, i: tf.gather(z, i, axis=1), COLUMNS),
    "gather in batches": (lambda z, i: tf.gather(z, i, batch_dims=1), COLUMNS),
    "gather of tables of indices": (lambda z, i: tf.gather(z, tf.reshape(i, [2, 2])), ROWS),
    "gather_nd": (lambda z, i: tf.gather_nd(z, tf.stack([i, i], axis=1)), COLUMNS),
    "gather_nd of rows": (lambda z, i: tf.gather_nd(z, i[:, None]), ROWS),
    "gather_nd in batches": (lambda z, i: tf.gather_nd(z, i[:, None], batch_dims=1), COLUMNS),
    "embedding_lookup": (lambda z, i: tf.nn.embedding_lookup(z, i), ROWS),
    "scatter_nd": (lambda z, i: tf.scatter_nd(i[:, None], z, [5, COLUMNS]), 5),
    "tensor_scatter_nd_add": (lambda z, i: tf.tensor_scatter_nd_add(z, i[:, None], z * z), ROWS),
    "tensor_scatter_nd_sub": (lambda z, i: tf.tensor_scatter_nd_sub(z, i[:, None], z * z), ROWS),
    "tensor_scatter_nd_max": (lambda z, i: tf.tensor_scatter_nd_max(z, i[:, None], z * z), ROWS),
    "sparse cross-entropy": (
        lambda z, i: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=i, logits=z), COLUMNS,
    ),
    "Keras's sparse cross-entropy": (
        lambda z, i: tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)(i, z), COLUMNS,
    ),
    "dense cross-entropy of one_hot": (
        lambda z, i: tf.keras.losses.categorical_crossentropy(tf.one_hot(i, COLUMNS), z, from_logits=True), COLUMNS,
    ),
    "bincount": (lambda z, i: z * tf.cast(tf.math.bincount(i, minlength=3, maxlength=3), z.dtype), 3),
    "weighted bincount": (lambda z, i: tf.math.bincount(i, z[:, 0], minlength=5, maxlength=5), 5),
    "confusion_matrix": (
        lambda z, i: z @ tf.cast(tf.math.confusion_matrix(i, i[::-1], num_classes=COLUMNS), z.dtype), COLUMNS,
    ),
    "one_hot": (lambda z, i: z * tf.cast(tf.one_hot(i, COLUMNS, 2.0, -1.0), z.dtype), 200),
    "one_hot along the first axis": (lambda z, i: tf.one_hot(i, 2, axis=0, dtype=z.dtype) @ z, 200),
    "reverse_sequence": (lambda z, i: tf.reverse_sequence(z, i, seq_axis=1), COLUMNS + 1),
    "sequence_mask": (lambda z, i: z * tf.sequence_mask(i, COLUMNS, z.dtype), 200),
    "in_top_k": (lambda z, i: z * tf.cast(tf.math.in_top_k(i, z, 2), z.dtype)[:, None], 200),
    "unravel_index": (lambda z, i: tf.gather_nd(z, tf.transpose(tf.unravel_index(i, [ROWS, COLUMNS]))), 12),
    "invert_permutation": (
        lambda z, i: tf.gather(z, tf.math.invert_permutation(tf.argsort(i))) * tf.cast(i, z.dtype)[:, None], 200,
    ),
    "unsorted_segment_sum": (lambda z, i: tf.math.unsorted_segment_sum(z, i, 5), 5),
    "unsorted_segment_mean": (lambda z, i: tf.math.unsorted_segment_mean(z, i, 5), 5),
    "unsorted_segment_sqrt_n": (lambda z, i: tf.math.unsorted_segment_sqrt_n(z, i, 5), 5),
}  # fmt: skip
# Ops whose decisions have few ways, of which each has a program.
_OF_WAYS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "tensor_scatter_nd_update": (lambda z, i: tf.tensor_scatter_nd_update(z, i[:, None], z * z), ROWS),
    "unsorted_segment_max": (lambda z, i: tf.math.unsorted_segment_max(z, i, 2), 2),
    "unsorted_segment_min": (lambda z, i: tf.math.unsorted_segment_min(z, i, 2), 2),
    "unsorted_segment_prod": (lambda z, i: tf.math.unsorted_segment_prod(z, i, 2), 2),
    "segment_sum": (lambda z, i: tf.math.segment_sum(z, tf.sort(i)), ROWS),
    "segment_mean": (lambda z, i: tf.math.segment_mean(z, tf.sort(i)), ROWS),
    "embedding_lookup of two tables": (lambda z, i: tf.nn.embedding_lookup([z, 2.0 * z], i), 2 * ROWS),
    "dynamic_partition": (lambda z, i: tf.dynamic_partition(z, i, 2)[0], 2),
    "gather_nd that ignores": (
        lambda z, i: tf.gather_nd(z, i[:, None], bad_indices_policy="IGNORE"), ROWS + 2,
    ),
    "scatter_nd that ignores": (
        lambda z, i: tf.scatter_nd(i[:, None], z, [ROWS, COLUMNS], bad_indices_policy="IGNORE"), ROWS + 2,
    ),
}  # fmt: skip
_ALL = {**_OPS, **_OF_WAYS}
# Indices that the function itself computes from floats.
_OF_FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    "argmax": lambda z, y: tf.gather(z, tf.argmax(z, axis=1) % ROWS),
    "argmin as int32": lambda z, y: tf.gather(z, tf.argmin(y, axis=1, output_type=tf.int32)),
    "argsort": lambda z, y: tf.gather(z, tf.argsort(y[:, 0])),
    "top_k": lambda z, y: tf.gather(z, tf.math.top_k(y[:, 0], 2).indices),
    "indices of top_k as a result": lambda z, y: z * tf.cast(tf.math.top_k(y, COLUMNS).indices, z.dtype),
    "in_top_k": lambda z, y: z * tf.cast(tf.math.in_top_k(tf.argmax(y, axis=1), z, 1), z.dtype)[:, None],
    "searchsorted": lambda z, y: tf.gather(z, tf.searchsorted([-1.0, 0.0, 1.0], tf.cast(y[:, 0], tf.float32))),
}


def _floats(seed: int, dtype: str = "float32") -> Any:
    return tf.constant(np.random.default_rng(seed).normal(size=(ROWS, COLUMNS)).astype(dtype))


def _first_order(f: Callable[..., Any], z: Any, i: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(z)
        y = f(tf.sin(z), i)
    return y, tape.gradient(y, z)


def _second_order(f: Callable[..., Any], z: Any, i: Any) -> Any:
    with tf.GradientTape() as outer:
        outer.watch(z)
        with tf.GradientTape() as inner:
            inner.watch(z)
            y = f(tf.sin(z), i)
        g = inner.gradient(y, z)
    return g, outer.gradient(g, z)


def _forward(f: Callable[..., Any], z: Any, i: Any) -> Any:
    with tf.autodiff.ForwardAccumulator(z, tf.ones_like(z)) as accumulator:
        y = f(tf.sin(z), i)
    return y, accumulator.jvp(y)


_WAYS = {
    "the value": lambda f, z, i: f(z, i), "order 1": _first_order, "order 2": _second_order, "forward mode": _forward,
}  # fmt: skip


@pytest.mark.parametrize("name", _ALL)
@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.filterwarnings("ignore:.*runs eagerly")
def test_the_bits_are_those_of_eager_calls_for_all_indices(name: str, way: str, back_end: str) -> None:
    f, bound = _ALL[name]
    rng = np.random.default_rng(len(name))

    def call(z: Any, i: Any) -> Any:
        return _WAYS[way](f, z, i)

    compiled = tf.function(call, jit_compile=True)
    for dtype in ("int32", "int64", "uint8"):
        for k in range(4):
            z, i = _floats(k), tf.constant(rng.integers(0, bound, ROWS).astype(dtype))
            assert bits(compiled(z, i)) == bits(call(z, i))
    same = tf.constant(np.full(ROWS, bound - 1, np.int64))
    assert bits(compiled(z, same)) == bits(call(z, same))


@pytest.mark.parametrize("name", _OPS)
@pytest.mark.parametrize("way", [w for w in _WAYS if w != "forward mode"])
def test_one_program_serves_all_indices(name: str, way: str, back_end: str) -> None:
    f, bound = _OPS[name]
    runs = []
    rng = np.random.default_rng(1)

    def call(z: Any, i: Any) -> Any:
        runs.append(1)
        return _WAYS[way](f, z, i)

    compiled = tf.function(call, jit_compile=True)
    for k in range(30):
        compiled(_floats(k), tf.constant(rng.integers(0, bound, ROWS)))
    # A sweep of order 2 decides by zeros among cotangents, as those of rows without an index.
    assert len(runs) <= (4 if way == "order 2" else 1) and "eager" not in compiled.summary()


@pytest.mark.parametrize("name", _OPS)
@pytest.mark.filterwarnings("ignore:.*runs eagerly")
def test_a_tape_around_a_compiled_call_gets_the_gradient_of_each_call(name: str, back_end: str) -> None:
    f, bound = _OPS[name]
    compiled = tf.function(lambda z, i: f(tf.sin(z), i), jit_compile=True)
    rng = np.random.default_rng(2)
    for k in range(4):
        z, i = _floats(k), tf.constant(rng.integers(0, bound, ROWS))
        made = []
        for g in (compiled, compiled.python_function):
            with tf.GradientTape() as tape:
                tape.watch(z)
                y = g(z, i)
            made.append(bits([y, tape.gradient(y, z)]))
        assert made[0] == made[1]


@pytest.mark.parametrize("name", _OF_FLOATS)
@pytest.mark.parametrize("way", [w for w in _WAYS if w != "forward mode"])
def test_indices_that_the_function_computes_from_floats_need_one_program(name: str, way: str, back_end: str) -> None:
    runs = []

    def call(z: Any, y: Any) -> Any:
        runs.append(1)
        return _WAYS[way](_OF_FLOATS[name], z, y)

    compiled = tf.function(call, jit_compile=True)
    for k in range(8):
        z, y = _floats(k), _floats(100 + k)
        made = bits(compiled(z, y))
        before = len(runs)
        assert made == bits(call(z, y))
        runs[before:] = []
    assert len(runs) <= (4 if way == "order 2" else 1)


@pytest.mark.parametrize("op", [
    lambda z, i: tf.gather(z, i), lambda z, i: tf.gather_nd(z, i[:, None]), lambda z, i: tf.one_hot(i, 3),
    lambda z, i: tf.math.unsorted_segment_sum(z[:0], i, 2), lambda z, i: tf.scatter_nd(i[:, None], z[:0], [2, 3]),
    lambda z, i: tf.nn.sparse_softmax_cross_entropy_with_logits(i, z[:0]),
])  # fmt: skip
def test_no_indices_at_all_are_compiled(op: Callable[..., Any], back_end: str) -> None:
    compiled = tf.function(op, jit_compile=True)
    z, none = _floats(0), tf.constant(np.zeros(0, np.int32))
    for _ in range(2):
        assert bits(compiled(z, none)) == bits(op(z, none))
    assert compiled.summary().startswith("compiled")


def test_negative_numbers_drop_rows_and_make_rows_of_zeros(back_end: str) -> None:
    def f(z: Any, i: Any) -> Any:
        return tf.math.unsorted_segment_sum(z, i, 3), tf.one_hot(i, 3)

    compiled = tf.function(f, jit_compile=True)
    for i in ([0, 1, 2, 1], [-1, 1, 2, 1], [0, 1, 2, -3], [-1, -1, 0, 0]):
        assert bits(compiled(_floats(3), tf.constant(i))) == bits(f(_floats(3), tf.constant(i)))


_BOUNDED = [
    name for name, (_, bound) in _ALL.items() if bound < 200 and not name.startswith(("segment_", "bincount"))
    and not any(word in name for word in ("ignores", "one_hot", "weighted"))
]  # fmt: skip


@pytest.mark.parametrize("name", _BOUNDED)
@pytest.mark.parametrize("uses", [True, False], ids=["a used result", "an unused result"])
@pytest.mark.parametrize("wrong", [250, -1])
def test_an_index_out_of_range_at_a_later_call_is_the_error_of_the_eager_call(
    name: str, uses: bool, wrong: int, back_end: str
) -> None:
    f, _ = _ALL[name]
    if wrong < 0 and name.startswith("unsorted"):
        pytest.skip("a negative number drops a row")
    v, w = tf.Variable([1.0, 2.0]), tf.Variable(0.0)

    def call(z: Any, i: Any) -> Any:
        v.assign_add([1.0, 1.0])
        y = f(z, i)
        w.assign_add(1.0)
        return y if uses else z

    compiled = tf.function(call, jit_compile=True)
    z = _floats(0)
    for k in range(2):
        compiled(z, tf.constant([k, 0, 1 - k, 0]))
    bad = tf.constant([0, wrong, 1, 0])
    before = v.numpy().tolist()
    with pytest.raises(tf.errors.InvalidArgumentError) as eager:
        f(z, bad)
    with pytest.raises(tf.errors.InvalidArgumentError) as later:
        compiled(z, bad)
    assert str(later.value).split("\n")[0] == str(eager.value).split("\n")[0]
    # The eager call assigns one variable before it raises the error.
    assert [x - y for x, y in zip(v.numpy().tolist(), before, strict=True)] == [1.0, 1.0] and w.numpy() == 2.0
    good = tf.constant([1, 0, 0, 0])
    assert bits(compiled(z, good)) == bits(f(z, good) if uses else z)


@pytest.mark.parametrize("name", _BOUNDED)
@pytest.mark.filterwarnings("ignore:.*runs eagerly")
def test_an_index_out_of_range_is_the_error_of_the_eager_call_under_a_tape_too(name: str, back_end: str) -> None:
    f, _ = _ALL[name]
    compiled = tf.function(lambda z, i: f(tf.sin(z), i), jit_compile=True)
    z, bad = _floats(0), tf.constant([0, 250, 1, 0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(z)
        for k in range(2):
            compiled(z, tf.constant([k, 0, 1 - k, 0]))
        with pytest.raises(tf.errors.InvalidArgumentError) as eager:
            f(tf.sin(z), bad)
        with pytest.raises(tf.errors.InvalidArgumentError) as later:
            compiled(z, bad)
        good = tf.constant([1, 0, 0, 0])
        y, expected = compiled(z, good), f(tf.sin(z), good)
    assert str(later.value).split("\n")[0] == str(eager.value).split("\n")[0]
    assert bits([y, tape.gradient(y, z)]) == bits([expected, tape.gradient(expected, z)])


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_training_with_labels_and_an_embedding_is_compiled_and_has_the_bits_of_eager_training(
    optimizer: str, back_end: str
) -> None:
    def trained(jit: bool) -> Any:
        rng = np.random.default_rng(5)
        table = tf.Variable(rng.normal(size=(7, 4)).astype(np.float32))
        w = tf.Variable(rng.normal(size=(4, 3)).astype(np.float32))
        steps = getattr(tf.keras.optimizers, optimizer)(0.1)
        runs = []

        def step(ids: Any, labels: Any) -> Any:
            runs.append(1)
            with tf.GradientTape() as tape:
                x = tf.nn.embedding_lookup(table, ids)
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x @ w))
            steps.apply_gradients(zip(tape.gradient(loss, [table, w]), [table, w], strict=True))
            return loss

        call = tf.function(step, jit_compile=True) if jit else step
        losses = [call(tf.constant(rng.integers(0, 7, 5)), tf.constant(rng.integers(0, 3, 5))) for _ in range(12)]
        return bits([*losses, table, w]), len(runs)

    (eager, _), (compiled, runs) = trained(False), trained(True)
    assert compiled == eager and runs <= 3


def test_a_variable_that_is_looked_up_twice_gets_the_rows_of_both(back_end: str) -> None:
    table = tf.Variable(tf.reshape(tf.range(12.0), [6, 2]))
    sgd = tf.keras.optimizers.SGD(1.0)

    def step(i: Any, j: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, i) ** 2) + tf.reduce_sum(tf.gather(table, j))
        sgd.apply_gradients([(tape.gradient(loss, table), table)])

    compiled = tf.function(step, jit_compile=True)
    for k in range(5):
        i, j = tf.constant([k, k]), tf.constant([5 - k, k, k + 1])
        before = table.numpy()
        compiled(i, j)
        made = table.numpy()
        table.assign(before)
        step(i, j)
        assert made.tobytes() == table.numpy().tobytes()
    assert compiled.summary().splitlines()[-1].startswith("compiled")


@pytest.mark.parametrize("name", _ALL)
def test_a_program_keeps_no_tensors_of_its_traced_call(name: str) -> None:
    f, bound = _ALL[name]
    before = {id(o) for o in gc.get_objects() if isinstance(o, Tracer)}
    compiled = tf.function(f, jit_compile=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled(_floats(0), tf.constant(np.arange(ROWS) % bound))
    gc.collect()
    assert not [o for o in gc.get_objects() if isinstance(o, Tracer) and id(o) not in before]
    assert compiled.summary().startswith("compiled")


@settings(max_examples=settings.default.max_examples // 2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.integers(0, ROWS - 1), min_size=3, max_size=3), min_size=2, max_size=4))
def test_large_rows_are_gathered_and_scattered_with_the_bits_of_eager_calls(
    back_end: str, calls: list[list[int]]
) -> None:
    def f(z: Any, i: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(z)
            rows = tf.gather(tf.exp(z) * z, i)
            y = tf.scatter_nd(i[:, None], rows * rows, [ROWS, 2000]) + z
        return y, tape.gradient(y, z)

    compiled = tf.function(f, jit_compile=True)
    z = tf.constant(np.random.default_rng(0).normal(size=(ROWS, 2000)))
    for i in calls:
        at = tf.constant(i)
        assert bits(compiled(z, at)) == bits(f(z, at))
