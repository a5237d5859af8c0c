"""Why compiled functions run eagerly: the reasons in warnings and summaries, and which calls give none."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import re
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.recording.record import is_traced
from gtape.tapes import program
from gtape.tapes.python_source import PythonSource
from tests.bits import bits

MANY = 40  # calls after which a program that is seldom valid is noted


def number(value: float) -> Any:
    """A tensor whose value is a Python float."""
    return tf.constant(value, tf.float64)


@pytest.mark.parametrize("under", [False, True], ids=["alone", "under a tape"])
@pytest.mark.parametrize(
    ("f", "good", "bad"), [(lambda x: 1.0 / x, 2.0, 0.0), (tf.math.log, 2.0, 0.0), (tf.exp, 1.0, 1e3)]
)
def test_numbers_for_which_python_raises_errors_are_the_reason_and_the_program_stays(
    f: Any, good: float, bad: float, under: bool, back_end: str
) -> None:
    compiled = tf.function(lambda x: f(x) * 3.0, jit_compile=True)

    def call(x: Any) -> Any:
        with tf.GradientTape() if under else contextlib.nullcontext() as tape:
            if tape is not None:
                tape.watch(x)
            return compiled(x)

    call(number(good))
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        for _ in range(MANY):
            assert call(number(bad)).numpy() == (f(number(bad)) * 3.0).numpy()
    assert all("Python's numbers" in str(w.message) for w in noted) and len(noted) <= 1
    call(number(good))
    assert "eager:" not in compiled.summary()


def test_a_program_of_numbers_runs_again_after_many_calls_out_of_its_domain(back_end: str) -> None:
    runs = []

    def f(x: Any) -> Any:
        runs.append(1)
        return 1.0 / x

    compiled = tf.function(f, jit_compile=True)
    compiled(number(2.0))
    with pytest.warns(RuntimeWarning, match="the arithmetic of Python's numbers raises errors for its values"):
        for _ in range(MANY):
            compiled(number(0.0))
    before = len(runs)
    assert compiled(number(4.0)).numpy() == 0.25
    assert len(runs) == before


@pytest.mark.parametrize("side", [6, 200])
def test_many_orders_in_memory_are_the_reason_and_the_programs_stay(side: int, back_end: str) -> None:
    runs = []

    def f(x: Any) -> Any:
        runs.append(1)
        return tf.reduce_sum(tf.sin(x) * x + 1.0)

    a = np.random.default_rng(0).normal(size=(side, side))
    x = tf.constant(a)
    orders = [x, tf.transpose(x), x[::-1], tf.constant(np.repeat(a, 2, axis=0))[::2], tf.broadcast_to(x[:1], x.shape)]
    compiled = tf.function(f, jit_compile=True)
    with pytest.warns(RuntimeWarning, match="its arguments lie in memory in many orders"):
        for y in orders + [orders[-1]] * MANY:
            assert compiled(y).numpy() == f(y).numpy()
    assert "eager:" not in compiled.summary()
    before = len(runs)
    for y in orders[:4]:
        compiled(y)
    assert len(runs) == before


def test_variables_that_change_their_shapes_are_the_reason(back_end: str) -> None:
    v = tf.Variable([1.0], shape=[None])
    compiled = tf.function(lambda x: tf.reduce_sum(v) * x, jit_compile=True)
    with pytest.warns(RuntimeWarning, match="its variables change their shapes"):
        for n in range(1, MANY):
            v.assign(tf.ones([n]))
            assert compiled(tf.constant(2.0)).numpy() == 2.0 * n


def test_an_assigned_value_of_another_shape_is_the_reason() -> None:
    v = tf.Variable([1.0], shape=[None])
    compiled = tf.function(lambda x: v.assign(tf.concat([v, x], 0)), jit_compile=True)
    with pytest.warns(RuntimeWarning, match="assigns a value of another shape to a variable"):
        compiled(tf.constant([2.0]))
    assert v.numpy().tolist() == [1.0, 2.0]


def _descend(x: Any, n: Any) -> Any:
    return x if n == 0 else _descend(x, n - 1)


@pytest.mark.parametrize("under", [False, True], ids=["alone", "under a tape"])
@pytest.mark.parametrize(
    ("f", "good", "bad", "error"),
    [
        (lambda x, i: tf.gather_nd(x, i[:, tf.newaxis]), [0, 2], [3, 1], tf.errors.InvalidArgumentError),
        (lambda x, i: tf.reshape(x, i), [3, 1], [5, 1], tf.errors.InvalidArgumentError),
        (lambda x, i: x * _descend(x, -1 if int(i.shape[0]) == 1 else 0), [1, 1], [1], RecursionError),
    ],
)
def test_errors_of_calls_are_no_reason(f: Any, good: Any, bad: Any, error: Any, under: bool) -> None:
    compiled = tf.function(f, jit_compile=True)
    x = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape(persistent=True) if under else contextlib.nullcontext() as tape:
        if tape is not None:
            tape.watch(x)
        for _ in range(5):
            with pytest.raises(error):
                compiled(x, tf.constant(bad))
        for i in (good, bad, good):
            with pytest.raises(error) if i is bad else contextlib.nullcontext():
                compiled(x, tf.constant(i))
    assert "eager:" not in compiled.summary() and "compiled" in compiled.summary()


def test_an_error_of_the_traced_call_alone_is_a_reason_after_some_calls() -> None:
    eager = type(tf.constant(0.0))
    compiled = tf.function(lambda x: {eager: x * 2.0}[type(x)], jit_compile=True)  # a traced value has another type
    with pytest.warns(RuntimeWarning, match="its traced call raises KeyError") as noted:
        for _ in range(5):
            assert compiled(tf.constant(2.0)).numpy() == 4.0
    assert len(noted) == 1 and compiled.summary().startswith("eager")


@pytest.mark.parametrize("under", [False, True], ids=["alone", "under a tape"])
def test_a_program_that_gtape_cannot_write_ends_in_an_eager_call_and_asks_for_a_report(
    under: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def __init__(self, *given: Any, **words: Any) -> None:
            raise KeyError("v3")

    monkeypatch.setattr(program, "PythonSource", Broken)
    monkeypatch.setattr(program.inner_loops, "machine", lambda: None)
    compiled = tf.function(lambda x: tf.sin(x) * x, jit_compile=True)
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() if under else contextlib.nullcontext() as tape:
        if tape is not None:
            tape.watch(x)
        with pytest.warns(RuntimeWarning, match=r"a fault of gtape \(KeyError: 'v3'\): please report it"):
            made = compiled(x)
    assert made.numpy().tolist() == (tf.sin(x) * x).numpy().tolist()
    assert "eager" in compiled.summary()


def test_a_program_that_raises_what_the_eager_call_does_not_raise_asks_for_a_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Broken(PythonSource):
        def __init__(self, *given: Any, **words: Any) -> None:
            super().__init__(*given, **words)
            self.run = {}.__getitem__

    monkeypatch.setattr(program, "PythonSource", Broken)
    monkeypatch.setattr(program.inner_loops, "machine", lambda: None)
    compiled = tf.function(lambda x: x + 1.0, jit_compile=True)
    with pytest.warns(RuntimeWarning, match=r"a fault of gtape \(KeyError: .*please report it"):
        for k in range(MANY):
            assert compiled(tf.constant(float(k))).numpy() == k + 1.0
    assert compiled.summary().startswith("eager")


def test_decisions_by_values_are_the_reason_under_a_tape_too(back_end: str) -> None:
    compiled = tf.function(lambda x, i: x[i] * 2.0, jit_compile=True)
    x = tf.range(100.0)
    with pytest.warns(RuntimeWarning, match="under a tape, what it does depends on the values of tensors") as noted:
        for i in range(MANY):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = compiled(x, tf.constant(i))
            assert tape.gradient(y, x).numpy()[i] == 2.0
    assert len(noted) == 1 and "under a tape, eager: what it does" in compiled.summary()


@pytest.mark.parametrize("under", [False, True], ids=["alone", "under a tape"])
def test_the_reason_of_decisions_by_values_names_the_op_the_line_and_another_way(under: bool) -> None:
    def f(x: Any, i: Any) -> Any:
        return tf.reshape(x[: 10 * (i + 1)], [10, i + 1]) * 2.0

    compiled = tf.function(f, jit_compile=True)
    x = tf.range(1000.0)
    line = f.__code__.co_firstlineno + 1
    with (
        pytest.warns(RuntimeWarning, match="depends on the values of tensors: it reads them in"),
        contextlib.ExitStack() as s,
    ):
        if under:
            s.enter_context(tf.GradientTape()).watch(x)
        for i in range(MANY):
            compiled(x, tf.constant(i))
    (reason,) = {line for line in compiled.summary().splitlines() if "eager: what" in line}
    assert f"test_compiled_reasons.py:{line} in f" in reason and "an index in square brackets" in reason
    assert "gtape.gather" in reason


def test_the_reason_of_shapes_that_depend_on_values_names_the_op() -> None:
    def f(x: Any) -> Any:
        return tf.dynamic_partition(x, tf.cast(x > 0.0, tf.int32), 2)[1]

    compiled = tf.function(f, jit_compile=True)
    with pytest.warns(RuntimeWarning, match="they decide on a shape in dynamic_partition .*test_compiled_reasons.py"):
        for i in range(2 * MANY):
            compiled(tf.range(30.0) - float(i % 25))


@dataclasses.dataclass
class _State:
    n: float = 1.0

    @tf.function(jit_compile=True)
    def times(self, x: Any) -> Any:
        return x * self.n


@dataclasses.dataclass(frozen=True)
class _Frozen:
    parts: list[float]


def _added(s: set[float] | bytearray) -> None:
    s.add(4.0) if isinstance(s, set) else s.append(4)


# Arguments whose contents may change, the sum of the contents, and a change.
_MUTABLE: dict[str, tuple[Callable[[], Any], Callable[[Any], float], Callable[[Any], Any]]] = {
    "a set": (lambda: {1.0, 2.0}, sum, _added),
    "a bytearray": (lambda: bytearray([1, 2]), sum, _added),
    "a memoryview": (lambda: memoryview(bytearray([1, 2])), sum, lambda m: m.__setitem__(0, 5)),
    "a namespace": (lambda: types.SimpleNamespace(n=1.0), lambda s: s.n, lambda s: setattr(s, "n", 5.0)),
    "a dataclass": (_State, lambda s: s.n, lambda s: setattr(s, "n", 5.0)),
    "a frozen dataclass with a list": (lambda: _Frozen([1.0]), lambda s: sum(s.parts), lambda s: s.parts.append(2.0)),
    "a set in a list": (lambda: [{1.0}], lambda s: sum(s[0]), lambda s: _added(s[0])),
    "a set in a dict": (lambda: {"a": {1.0}}, lambda s: sum(s["a"]), lambda s: _added(s["a"])),
    "an iterator": (lambda: iter([1.0, 2.0, 3.0]), lambda s: next(s, 0.0), lambda s: None),
    "a generator": (lambda: (float(k) for k in range(9)), lambda s: next(s), lambda s: None),
}  # fmt: skip


@pytest.mark.parametrize("under", [False, True], ids=["alone", "under a tape"])
@pytest.mark.parametrize("named", [False, True], ids=["by position", "by name"])
@pytest.mark.parametrize("name", _MUTABLE)
def test_arguments_whose_contents_may_change_run_eagerly_with_a_warning(name: str, named: bool, under: bool) -> None:
    make, total, change = _MUTABLE[name]

    def results(f: Any) -> list[float]:
        state, made = make(), []
        x = tf.constant(2.0)
        for _ in range(3):
            with tf.GradientTape() if under else contextlib.nullcontext() as tape:
                if under:
                    tape.watch(x)
                y = f(x, held=state) if named else f(x, state)
            made += [float(y)] + ([float(tape.gradient(y, x))] if under else [])
            change(state)
        return made

    def f(x: Any, held: Any) -> Any:
        return x * total(held)

    compiled = tf.function(f, jit_compile=True)
    part = make()
    while isinstance(part, (list, dict)):
        part = part[0] if isinstance(part, list) else part["a"]
    with pytest.warns(RuntimeWarning, match=f"its argument held .* of the type {type(part).__qualname__}"):
        made = results(compiled)
    assert made == results(f) and compiled.summary().startswith("eager: its argument held")


def test_a_mutable_default_is_read_at_each_call() -> None:
    numbers = [1.0]

    def f(x: Any, factors: Any = numbers) -> Any:
        return x * sum(factors)

    compiled = tf.function(f, jit_compile=True)
    x = tf.constant(2.0)
    assert [float(compiled(x)), numbers.append(2.0), float(compiled(x))] == [2.0, None, 6.0]


def test_the_instance_of_a_method_may_have_no_hash() -> None:
    state, x = _State(3.0), tf.constant(2.0)
    assert [float(state.times(x)) for _ in range(2)] == [6.0, 6.0]
    assert _State.times.summary().startswith("compiled")


@pytest.mark.parametrize(
    ("argument", "kind"),
    [
        (range(3), "range"), (collections.defaultdict(int), "defaultdict"), (tf.constant("a"), "Tensor"),
        (np.datetime64("2020-01-01"), "datetime64"), (tf.TensorShape([1]), "TensorShape"),
    ],
)  # fmt: skip
def test_a_call_that_no_program_takes_names_the_argument_and_its_type(argument: Any, kind: str) -> None:
    compiled = tf.function(lambda x, other: x * 2.0, jit_compile=True)
    with pytest.warns(RuntimeWarning, match=f"its argument other is of the type {kind}: "):
        assert float(compiled(tf.constant(1.0), argument)) == 2.0
    assert compiled.summary().startswith(f"eager: its argument other is of the type {kind}")


@tf.custom_gradient
def _tripled(x: Any) -> Any:
    return x * 3.0, lambda g: g * 3.0


@pytest.mark.parametrize(
    "f", [_tripled, lambda x: tf.gather(x, [0, 1])], ids=["a custom gradient", "a sparse gradient"]
)
def test_custom_and_sparse_gradients_run_eagerly_under_a_tape_outside_of_the_function(f: Any) -> None:
    compiled = tf.function(lambda x: f(x * 2.0), jit_compile=True)
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape, pytest.warns(RuntimeWarning, match="under a tape, it"):
        tape.watch(x)
        y = compiled(x)
    assert np.all(tape.gradient(y, x).numpy() == y.numpy() / x.numpy())
    compiled(x)
    assert "\nunder a tape, eager" in compiled.summary()


_CHANGES = {
    "assign": lambda v, x: v[0].assign(x[0]),
    "assign_add": lambda v, x: v[:1].assign_add(x[:1]),
    "assign_sub": lambda v, x: v[0].assign_sub(1.0),
    "scatter_nd_update": lambda v, x: v.scatter_nd_update([[0]], x[:1]),
    "scatter_add": lambda v, x: v.scatter_add(tf.IndexedSlices(x[:1], tf.constant([0]))),
}


@pytest.mark.parametrize("under", [False, True])
@pytest.mark.parametrize("change", _CHANGES.values(), ids=_CHANGES)
def test_a_change_of_a_part_of_a_variable_is_the_reason_from_the_first_call_on(change: Any, under: bool) -> None:
    v = tf.Variable([1.0, 2.0])
    x = tf.constant([3.0, 4.0])
    runs = []

    @tf.function(jit_compile=True)
    def f(x: Any) -> Any:
        runs.append(1)
        change(v, x)
        return x * 2.0

    def call() -> None:
        with tf.GradientTape() if under else contextlib.nullcontext():
            f(x)

    with pytest.warns(RuntimeWarning, match="it changes parts of a variable"):
        call()
    assert len(runs) == 2
    call()
    assert len(runs) == 3
    assert "changes parts of a variable" in f.summary()


def test_a_tensor_that_is_no_part_of_a_variable_has_no_method_that_assigns(back_end: str) -> None:
    @tf.function(jit_compile=True)
    def f(x: Any) -> Any:
        return x * 2.0 if hasattr(x[0], "assign") or hasattr(x + 1.0, "assign_add") else x * 3.0

    assert float(f(tf.constant([2.0]))[0]) == 6.0
    assert "1 results" in f.summary()


@pytest.mark.parametrize(
    ("f", "reason"),
    [
        (lambda x: tf.linalg.eigh(x @ tf.transpose(x))[0], "it calls .*eigh.*, which has several results"),
        (lambda x: tf.linalg.svd(x)[0], "it calls .*svd.*, which has several results"),
        (lambda x: tf.linalg.qr(x)[0], "it calls .*qr.*, which has several results"),
        (lambda x: tf.gather(x, [0, 1]), "it calls gather.*, which has sparse gradients"),
        (lambda x: tf.nn.embedding_lookup(x, [0, 1]), "it calls gather.*, which has sparse gradients"),
    ],
)
def test_an_op_that_no_call_under_a_tape_takes_is_named(f: Any, reason: str) -> None:
    compiled = tf.function(lambda x: f(x * 2.0), jit_compile=True)
    x = tf.constant([[1.0, 2.0], [3.0, 5.0]])
    with tf.GradientTape() as tape, pytest.warns(RuntimeWarning, match=reason):
        tape.watch(x)
        compiled(x)


def _powers(jit: bool, runs: list[int]) -> Any:
    @tf.function(jit_compile=jit)
    def even(x: Any, n: int) -> Any:
        runs.append(n)
        return x if n == 0 else odd(x, n - 1) * 2.0

    @tf.function(jit_compile=jit)
    def odd(x: Any, n: int) -> Any:
        runs.append(n)
        return x if n == 0 else even(x, n - 1) * 0.5

    return even


def _slope(f: Any, n: int) -> Any:
    x = tf.constant(1.5)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x, n)
    return tape.gradient(y, x)


@pytest.mark.parametrize("ask", [lambda f, n: f(tf.constant(1.5), n), _slope])
def test_a_compiled_function_recurses_as_deeply_as_an_eager_one(ask: Any, back_end: str) -> None:
    eager, compiled = _powers(False, []), _powers(True, [])
    for n in (10, 170, 200):
        for _ in range(2):
            assert float(ask(compiled, n)) == float(ask(eager, n))
    assert "compiled" in compiled.summary()
    assert "eager" not in compiled.summary()


@pytest.mark.parametrize("ask", [lambda f, n: f(tf.constant(1.5), n), _slope])
def test_a_recursion_without_an_end_runs_twice_before_its_error(ask: Any, back_end: str) -> None:
    runs: list[int] = []
    compiled = _powers(True, runs)
    for _ in range(5):
        runs.clear()
        with pytest.raises(RecursionError):
            ask(compiled, -1)
        assert len(runs) < 2 * sys.getrecursionlimit()
    assert float(ask(compiled, 10)) == float(ask(_powers(False, []), 10))
    assert "compiled" in compiled.summary()


def _endless() -> Any:
    return _endless()


def test_a_function_that_is_too_deep_to_trace_runs_eagerly_as_a_whole(back_end: str) -> None:
    runs = []

    @tf.function(jit_compile=True)
    def deep(x: Any, n: int) -> Any:
        runs.append(n)
        if n == 0:
            return _endless() if is_traced() else tf.sin(x)
        return deep(x, n - 1)

    x = tf.constant(1.5)
    for _ in range(2):
        runs.clear()
        assert float(deep(x, 20)) == float(tf.sin(x))
        assert len(runs) == 2 * 21
    with pytest.warns(RuntimeWarning, match="its traced call raises RecursionError"):
        deep(x, 20)
    runs.clear()
    assert float(deep(x, 20)) == float(tf.sin(x))
    assert len(runs) == 21


_IN = re.escape(__file__)


@pytest.mark.parametrize("under", [False, True], ids=["without a tape", "under a tape"])
@pytest.mark.parametrize(
    ("f", "reason"),
    [
        (lambda x, v: tf.random.shuffle(x), f"draws random numbers as no program does in shuffle .{_IN}:"),
        (lambda x, v: x + tf.random.poisson([2], 1.0), f"draws random numbers as no program does in poisson .{_IN}:"),
        (lambda x, v: x * v.numpy(), rf"reads the value of a variable by \.numpy\(\) .{_IN}:"),
        (lambda x, v: x * x.numpy(), rf"reads the value of a tensor by \.numpy\(\) .{_IN}:"),
    ],
)
def test_the_reason_names_the_op_the_kind_of_object_and_the_line(f: Any, reason: str, under: bool) -> None:
    x, v = tf.constant([1.0, 2.0]), tf.Variable([1.0, 2.0])
    compiled = tf.function(lambda x: f(x, v), jit_compile=True)
    with pytest.warns(RuntimeWarning, match=reason), tf.GradientTape() if under else contextlib.nullcontext():
        compiled(x)


@dataclasses.dataclass(frozen=True)
class _Holder:
    part: Any


def test_the_reason_for_a_frozen_dataclass_names_the_field_without_a_hash() -> None:
    compiled = tf.function(lambda d: 2.0 * d.part, jit_compile=True)
    with pytest.warns(RuntimeWarning, match=r"_Holder: it has no hash, because its field part .* type Tensor; .*Named"):
        assert bits(compiled(_Holder(tf.constant(1.5)))) == bits(tf.constant(3.0))


def test_a_function_compiled_under_a_tape_alone_shows_its_source() -> None:
    compiled = tf.function(lambda x: x * x, jit_compile=True)
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        compiled(x)
    assert compiled.summary().startswith("under a tape, compiled")
    assert compiled.source.startswith("def program(")
