"""Compiled functions and tapes that began before the call, and tensors that a function knows by two names."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import gtape as tf
from tests.bits import bits


def _recorded(persistent: bool = True) -> tuple[Any, Any, Any, Any]:
    """A tape of two rows that is over, with its target, its source and a variable that it read."""
    x, v = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.Variable([2.0, 3.0])
    with tf.GradientTape(persistent=persistent) as tape:
        tape.watch(x)
        y = x**3 * v
    return tape, y, x, v


@contextlib.contextmanager
def _told_once(reason: str) -> Iterator[None]:
    with pytest.warns(RuntimeWarning, match=reason) as told:
        yield
    assert len(told) == 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda t, y, x, v: t.gradient(y, x),
        lambda t, y, x, v: t.gradient(y, [x, v]),
        lambda t, y, x, v: t.gradient(y, {"v": v}, unconnected_gradients="zero"),
        lambda t, y, x, v: t.jacobian(y, x),
        lambda t, y, x, v: t.batch_jacobian(y, x),
    ],
)
@pytest.mark.parametrize("given", ["both", "target", "source", "the tape, too"])
def test_a_tape_that_is_over_answers_in_a_compiled_function(ask: Any, given: str, back_end: str) -> None:
    tape, y, x, v = _recorded()
    calls: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "both": (lambda y, x: ask(tape, y, x, v), (y, x)),
        "target": (lambda y: ask(tape, y, x, v), (y,)),
        "source": (lambda x: ask(tape, y, x, v), (x,)),
        "the tape, too": (ask, (tape, y, x, v)),
    }
    f, args = calls[given]
    compiled = tf.function(f, jit_compile=True)
    with _told_once("takes gradients from a tape from before the call"):
        for _ in range(2):
            assert bits(compiled(*args)) == bits(f(*args))


def test_an_accumulator_that_is_over_answers_in_a_compiled_function(back_end: str) -> None:
    x = tf.constant(3.0)
    with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as accumulator:
        y = x**3
    compiled = tf.function(lambda y: accumulator.jvp(y), jit_compile=True)
    with _told_once("asks a forward accumulator from before the call"):
        assert [float(compiled(y)) for _ in range(2)] == [27.0, 27.0]


def test_a_paused_tape_answers_in_a_compiled_function(back_end: str) -> None:
    x = tf.constant(3.0)
    compiled = tf.function(lambda tape, y, x: tape.gradient(y, x), jit_compile=True)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x**3
        with tape.stop_recording(), _told_once("takes gradients"):
            assert float(compiled(tape, y, x)) == 27.0
        z = y * x
    assert float(tape.gradient(z, x)) == 4 * 27.0


def _enter(tape: Any, x: Any) -> Any:
    with tape:
        return x**2


def _watch(tape: Any, x: Any) -> Any:
    tape.watch(x)
    return x**2


def _watch_in_a_list(tape: Any, x: Any) -> Any:
    tape.watch([x])
    return x**2


@pytest.mark.parametrize("act", [_enter, _watch, _watch_in_a_list])
def test_a_tape_goes_on_in_a_compiled_function_as_in_an_eager_one(act: Any, back_end: str) -> None:
    def slope(f: Any) -> Any:
        x = tf.constant(3.0)
        with tf.GradientTape() as tape:
            if act is _enter:
                tape.watch(x)
        y = f(tape, x)
        with tape:
            z = x**2
        return tape.gradient([y, z], x)

    with _told_once("with a tape from before the call|enters a tape from before the call"):
        made = slope(tf.function(act, jit_compile=True))
    assert float(made) == float(slope(act)) == (12.0 if act is _enter else 6.0)


def test_an_explanation_in_a_compiled_function_is_that_of_the_tape(back_end: str) -> None:
    tape, y, x, _ = _recorded()
    said: list[str] = []
    compiled = tf.function(lambda y, x: said.append(tape.explain(y, x)), jit_compile=True)
    with _told_once("explains a gradient"):
        compiled(y, x)
    assert said == [tape.explain(y, x)]


@pytest.mark.parametrize("then", ["gradient", "jacobian"])
def test_tracing_leaves_a_tape_that_answers_once_to_the_call(then: str, back_end: str) -> None:
    def steps(compiled: bool) -> list[Any]:
        v, optimizer = tf.Variable([3.0, 1.0]), tf.keras.optimizers.SGD(0.1)

        def step(loss: Any, tape: Any) -> None:
            made = getattr(tape, then)(loss, v)
            optimizer.apply_gradients([(made, v)])

        taken = tf.function(step, jit_compile=True) if compiled else step
        for _ in range(3):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(v * v)
            taken(loss, tape)
        return bits(v.read_value())

    with _told_once("takes gradients"):
        assert steps(compiled=True) == steps(compiled=False)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("under", [False, True])
def test_a_tape_that_recorded_in_a_call_answers_after_it(persistent: bool, under: bool, back_end: str) -> None:
    def slope(compiled: bool) -> Any:
        tape = tf.GradientTape(persistent=persistent)

        def recorded(x: Any) -> Any:
            with tape:
                tape.watch(x)
                return x**3

        f = tf.function(recorded, jit_compile=True) if compiled else recorded
        x = tf.constant([2.0, 3.0])
        with tf.GradientTape() if under else contextlib.nullcontext():
            y = f(x)
        return bits(tape.gradient(y, x))

    with _told_once("outlives the call"):
        assert slope(compiled=True) == slope(compiled=False)


def test_a_tape_in_a_cycle_of_a_compiled_function_is_no_tape_that_outlives_the_call(back_end: str) -> None:
    def slope(x: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x**2

        def again() -> Any:
            return again if x is y else tape

        return again().gradient(y, x)

    compiled = tf.function(slope, jit_compile=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [float(compiled(tf.constant(x))) for x in (3.0, 4.0)] == [6.0, 8.0]


def test_a_tape_from_before_that_a_call_uses_up_leaves_it_compiled(back_end: str) -> None:
    tape = tf.GradientTape()

    def slope(x: Any) -> Any:
        with tape:
            tape.watch(x)
            y = x**2
        return tape.gradient(y, x)

    compiled = tf.function(slope, jit_compile=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [float(compiled(tf.constant(x))) for x in (3.0, 4.0)] == [6.0, 8.0]


def test_an_argument_that_has_a_record_leaves_a_function_compiled(back_end: str) -> None:
    _, y, _, _ = _recorded()
    runs: list[None] = []

    def slope(y: Any) -> Any:
        runs.append(None)
        with tf.GradientTape() as tape:
            tape.watch(y)
            z = tf.sin(y)
        return tape.gradient(z, y)

    compiled = tf.function(slope, jit_compile=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = [bits(compiled(y)) for _ in range(3)]
    assert len(runs) == 1 and made == [bits(slope(y))] * 3


# ---------------------------------------------------------------------------------------------- tensors of two names


def _slope(x: Any, w: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = w * x
    return tape.gradient(y, x)


def _slope_of_its_own(x: Any, w: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(w**2 + tf.exp(w)) * x  # no operand of an op on w is traced
    return tape.gradient(y, x)


def _slope_by_the_other(x: Any, w: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(w)
        y = x * x
    return tape.gradient(y, w, unconnected_gradients="zero")


def _slope_with_the_other_watched(x: Any, w: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch([w])
        y = x * x
    return tape.gradient(y, x, unconnected_gradients="zero")


def _slope_that_needs_the_other(x: Any, w: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    made = tape.gradient(y, w)
    if made is None:
        raise ValueError("unconnected")
    return made


def _jacobian(x: Any, w: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = w * x
    return tape.jacobian(y, x)


def _tangent(x: Any, w: Any) -> Any:
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
        y = w * x
    return accumulator.jvp(y)


def _tangent_of_the_other(x: Any, w: Any) -> Any:
    with tf.autodiff.ForwardAccumulator(w, tf.ones_like(w)) as accumulator:
        y = x * x
    return accumulator.jvp(y, unconnected_gradients="zero")


def _gradients(x: Any, w: Any) -> Any:
    return tf.gradients(w * x, x)[0]


def _second(x: Any, w: Any) -> Any:
    with tf.GradientTape() as outer:
        outer.watch(x)
        g = _slope(x, w * w)
    return outer.gradient(g, x, unconnected_gradients="zero")


def _custom(x: Any, w: Any) -> Any:
    @tf.custom_gradient
    def doubled(a: Any) -> Any:
        return a * 2.0, lambda g: g * 2.0

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = doubled(w) * x
    return tape.gradient(y, x)


def _last_of_many(x: Any, w: Any) -> Any:
    with tf.GradientTape() as tape:
        for other in [*[tf.constant([1.0, 2.0]) for _ in range(20)], w]:
            tape.watch(other)
        y = x * x
    return tape.gradient(y, w, unconnected_gradients="zero")


_OF_TWO_NAMES = [
    _slope, _slope_of_its_own, _slope_by_the_other, _slope_with_the_other_watched, _slope_that_needs_the_other,
    _jacobian, _tangent, _tangent_of_the_other, _gradients, _second, _custom, _last_of_many,
]  # fmt: skip


@pytest.mark.parametrize("value", [[3.0, 4.0], 3.0])
@pytest.mark.parametrize("under", [False, True])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("f", _OF_TWO_NAMES)
def test_a_tensor_of_two_names_is_one_tensor(f: Any, first: bool, under: bool, value: Any, back_end: str) -> None:
    dtype = tf.float32 if isinstance(value, list) else tf.float64
    w, other = tf.constant(value, dtype), tf.constant(value, dtype) + 1.0

    def of_one(x: Any) -> Any:
        return f(x, w)

    compiled, plain = tf.function(of_one, jit_compile=True), tf.function(of_one)

    def outcome(g: Any, x: Any) -> Any:
        with tf.GradientTape() if under else contextlib.nullcontext():
            try:
                return bits(g(x))
            except ValueError as e:
                return str(e)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # functions that run eagerly say so once
        for x in [w, w, other, w] if first else [other, other, w, other, w]:
            assert outcome(compiled, x) == outcome(plain, x)


@pytest.mark.parametrize("under", [False, True])
def test_a_function_that_is_given_its_own_tensor_stays_compiled_for_other_tensors(under: bool, back_end: str) -> None:
    w, other = tf.constant([3.0, 4.0]), tf.constant([1.0, 2.0])
    runs: list[None] = []

    def slope(x: Any) -> Any:
        runs.append(None)
        return _slope(x, w)

    compiled = tf.function(slope, jit_compile=True)
    with tf.GradientTape() if under else contextlib.nullcontext():
        with _told_once("takes as an argument a tensor that it also reads by another name"):
            assert [compiled(x).numpy().tolist() for x in (other, w, w)] == [[3.0, 4.0], [6.0, 8.0], [6.0, 8.0]]
        before = len(runs)
        for _ in range(3):
            assert compiled(other).numpy().tolist() == [3.0, 4.0]
    assert len(runs) == before


def test_a_method_that_is_given_a_tensor_of_its_instance_takes_both_for_one(back_end: str) -> None:
    class Weighted:
        def __init__(self, w: Any) -> None:
            self.w = w

        @tf.function(jit_compile=True)
        def slope(self, x: Any) -> Any:
            return _slope(x, self.w)

    m, n = Weighted(tf.constant([3.0, 4.0])), Weighted(tf.constant([5.0, 6.0]))
    with _told_once("by another name"):
        made = [m.slope(m.w), m.slope(n.w), n.slope(n.w), n.slope(m.w)]
    assert [g.numpy().tolist() for g in made] == [[6.0, 8.0], [3.0, 4.0], [10.0, 12.0], [5.0, 6.0]]


def test_a_compiled_function_in_another_takes_a_tensor_of_two_names_for_one(back_end: str) -> None:
    w = tf.constant([3.0, 4.0])
    inner = tf.function(lambda x: _slope(x, w), jit_compile=True)
    outer = tf.function(lambda x: 2.0 * inner(x), jit_compile=True)
    with pytest.warns(RuntimeWarning, match="by another name") as told:  # of each function
        assert [outer(w).numpy().tolist() for _ in range(2)] == [[12.0, 16.0]] * 2
    assert len(told) == 2
    assert outer(w + 1.0).numpy().tolist() == [6.0, 8.0]


def test_a_tensor_in_a_structure_is_known_by_its_other_name(back_end: str) -> None:
    weights = {"w": tf.constant([3.0, 4.0])}
    compiled = tf.function(lambda parts: _slope(parts["x"][0], weights["w"]), jit_compile=True)
    assert compiled({"x": [tf.constant([1.0, 1.0])]}).numpy().tolist() == [3.0, 4.0]
    with _told_once("by another name"):
        assert compiled({"x": [weights["w"]]}).numpy().tolist() == [6.0, 8.0]


def test_a_tensor_that_no_tape_reads_by_another_name_leaves_a_function_compiled(back_end: str) -> None:
    w = tf.constant([3.0, 4.0])

    def slope(x: Any) -> Any:
        scale = 2.0 * w
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = scale * x
        return tape.gradient(y, x)

    compiled = tf.function(slope, jit_compile=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [compiled(x).numpy().tolist() for x in (w, w + 1.0, w)] == [[6.0, 8.0]] * 3


_DEFAULT = tf.constant([3.0, 4.0])


def _with_default(x: Any, k: Any = _DEFAULT) -> Any:
    return _slope(x, k)


def _with_two_defaults(x: Any, k: Any = _DEFAULT, scale: float = 2.0) -> Any:
    return scale * _slope(x, k)


def _with_keyword(x: Any, *, k: Any = _DEFAULT) -> Any:
    return _slope(x, k)


def _with_nested_default(x: Any, parts: Any = (_DEFAULT, {"c": 1.0})) -> Any:
    return _slope(x, parts[0]) * parts[1]["c"]


@pytest.mark.parametrize("under", [False, True])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("f", [_with_default, _with_two_defaults, _with_keyword, _with_nested_default])
def test_a_default_that_is_given_as_another_argument_is_given_twice(
    f: Any, first: bool, under: bool, back_end: str
) -> None:
    compiled = tf.function(f, jit_compile=True)
    name = "parts" if f is _with_nested_default else "k"
    own, other = f.__kwdefaults__ or {name: f.__defaults__[0]}, tf.constant([1.0, 2.0])
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((_DEFAULT,), {}), ((_DEFAULT,), own), ((other,), {}), ((other,), own),
    ]  # fmt: skip
    if f is not _with_keyword:
        calls.append(((_DEFAULT, *own.values()), {}))
    if f is _with_default:
        calls += [((_DEFAULT, other), {}), ((other, other), {})]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for args, kwargs in calls if first else calls[::-1]:
            with tf.GradientTape() if under else contextlib.nullcontext():
                assert bits(compiled(*args, **kwargs)) == bits(f(*args, **kwargs))


def test_a_default_is_one_tensor_with_an_argument_of_a_concrete_function(back_end: str) -> None:
    concrete = tf.function(_with_default, jit_compile=True).get_concrete_function(tf.TensorSpec([2], tf.float32))
    for x in (_DEFAULT, tf.constant([1.0, 2.0])):
        assert bits(concrete(x, _DEFAULT)) == bits(_with_default(x))


# ---------------------------------------------------------------------------------------------- results


_SAME: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x,
    lambda x, y: (y, x),
    lambda x, y: [x, {"sum": x + y, "x": x}],
    lambda x, y: (tf.convert_to_tensor(y), tf.sin(y)),
    lambda x, y: (s := tf.sin(x), s, {"again": s}),
    lambda x, y: (x * y, x, x * y),
    lambda x, y: (c := tf.constant([1.0, 2.0]), x, c),
]


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("under", ["none", "a tape", "a tape that watches"])
@pytest.mark.parametrize("f", _SAME)
def test_every_result_is_a_tensor_of_its_own(f: Any, under: str, twice: bool, back_end: str) -> None:
    def outcome(g: Any) -> Any:
        x = tf.constant([2.0, 3.0])
        y = x if twice else tf.constant([5.0, 7.0])
        with tf.GradientTape(persistent=True) if under != "none" else contextlib.nullcontext() as tape:
            if under == "a tape that watches":
                tape.watch(x)
            made = tf.nest.flatten(g(x, y))
            total = tf.add_n([k * t for k, t in enumerate(made, 1)])
        assert len({id(t) for t in [*made, x, y]}) == len(made) + 2 - twice
        return bits(made), None if tape is None else bits(tape.gradient(total, [x, y, *made]))

    compiled = tf.function(f, jit_compile=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert outcome(compiled) == outcome(tf.function(f))


_OUTSIDE = tf.constant(2.0)


@pytest.mark.filterwarnings("ignore:.*jit_compile=True.*:RuntimeWarning")
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("f", [
    lambda x: x, lambda x: _OUTSIDE, lambda x: [{"x": x}][0]["x"], lambda x: tf.function(lambda z: z)(x),
    lambda x: tf.convert_to_tensor(x),
])  # fmt: skip
def test_a_result_is_no_other_name_of_a_tensor_from_outside(f: Any, jit: bool, back_end: str) -> None:
    g = tf.function(f, jit_compile=jit)
    for _ in range(3):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(_OUTSIDE)
            y = g(_OUTSIDE)
            z = y * _OUTSIDE
        assert y is not _OUTSIDE
        assert [float(tape.gradient(z, t)) for t in (_OUTSIDE, y)] == [4.0, 2.0]
        assert float(tape.gradient(y, _OUTSIDE)) == 1.0
        with tf.GradientTape(persistent=True) as later:
            y = g(_OUTSIDE)
            later.watch(_OUTSIDE)
            z = y * _OUTSIDE
        assert float(later.gradient(z, _OUTSIDE)) == 2.0 and later.gradient(z, y) is None


@pytest.mark.parametrize("jit", [False, True])
def test_two_results_of_one_tensor_are_two_sources(jit: bool, back_end: str) -> None:
    g = tf.function(lambda x: ((y := 2.0 * x), y), jit_compile=jit)
    x = tf.constant(2.0)
    for _ in range(3):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            a, b = g(x)
            z = a * b * b
        assert [float(tape.gradient(z, t)) for t in (x, a, b)] == [96.0, 16.0, 32.0]


@pytest.mark.parametrize("jit", [False, True])
def test_a_variable_among_the_results_is_its_value_at_the_call(jit: bool, back_end: str) -> None:
    v = tf.Variable(3.0)
    g = tf.function(lambda x: (v, x, v), jit_compile=jit)
    for k in range(3):
        with tf.GradientTape(persistent=True) as tape:
            a, _, b = g(tf.constant(1.0))
            z = a * b * b * v
        assert [float(tape.gradient(z, t)) for t in (a, b)] == [(3.0 + k) ** 3, 2.0 * (3.0 + k) ** 3]
        assert float(tape.gradient(z, v)) == 4.0 * (3.0 + k) ** 3
        v.assign_add(1.0)
        assert float(a) == 3.0 + k
