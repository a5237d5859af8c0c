"""Concrete functions, input signatures and the count of traces, as TensorFlow has them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import gtape as tf

Spec = tf.TensorSpec


@tf.function
def pair(x: Any, y: Any = 2.0, *, k: Any = 1) -> Any:
    return {"a": x * y, "b": x + k}


class Pair(NamedTuple):
    one: Any
    two: Any


@tf.function(input_signature=[Spec([], tf.float32), Spec([2], tf.float32, name="why")])
def signed(x: Any, y: Any) -> Any:
    return x * y


def test_a_concrete_function_takes_its_tensors_in_order_or_by_name() -> None:
    concrete = pair.get_concrete_function(Spec([None], tf.float32), 3.0)
    assert concrete(tf.constant([1.0, 2.0]))["a"].numpy().tolist() == [3.0, 6.0]
    assert concrete(x=tf.constant([1.0]))["b"].numpy().tolist() == [2.0]
    for args, kwargs in (((), {}), ((tf.constant([1.0]), 3.0), {}), ((tf.constant([1.0]),), {"x": 1}), ((), {"z": 1})):
        with pytest.raises(TypeError, match=r"takes the tensors \['x'\]"):
            concrete(*args, **kwargs)
    with pytest.raises(tf.errors.InvalidArgumentError, match="was expected to be a float32 tensor but is a int32"):
        concrete(tf.constant([1, 2]))


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_concrete_function_takes_its_own_shape_alone(jit_compile: bool) -> None:
    f = tf.function(lambda x: 2.0 * x, jit_compile=jit_compile)
    fixed = f.get_concrete_function(tf.TensorSpec([2], tf.float32))
    assert fixed([1.0, 2.0]).numpy().tolist() == [2.0, 4.0]
    for other in (3.0, [1.0, 2.0, 3.0], [[1.0, 2.0]]):
        with pytest.raises(TypeError, match=r"Binding inputs to .* failed, because input 'x' has the shape"):
            fixed(tf.constant(other))
    any_length = f.get_concrete_function(tf.TensorSpec([None], tf.float32))
    assert any_length(tf.ones(3)).shape == any_length(np.ones(3)).shape == (3,)


def test_a_concrete_function_knows_what_goes_in_and_out() -> None:
    concrete = pair.get_concrete_function(Spec([None], tf.float32))
    assert concrete.structured_input_signature == ((Spec([None], tf.float32, "x"), 2.0), {"k": 1})
    assert concrete.inputs == [Spec([None], tf.float32, "x")]
    assert {k: s.as_list() for k, s in concrete.output_shapes.items()} == {"a": [None], "b": [None]}
    assert concrete.output_dtypes == {"a": tf.float32, "b": tf.float32} and len(concrete.outputs) == 2
    assert concrete.name.startswith(b"__inference_pair_")
    assert "x (POSITIONAL_OR_KEYWORD): TensorSpec" in concrete.pretty_printed_signature()
    assert not hasattr(concrete, "graph")


def test_an_example_stands_for_its_kind() -> None:
    concrete = pair.get_concrete_function(tf.constant([1.0, 2.0]), k=5)
    assert concrete.structured_input_signature == ((Spec([2], tf.float32, "x"), 2.0), {"k": 5})
    assert concrete(tf.constant([1.0, 2.0]))["b"].numpy().tolist() == [6.0, 7.0]
    nested = tf.function(lambda d: d["a"] + d["b"][0]).get_concrete_function({"a": Spec([]), "b": [Spec([])]})
    assert nested.structured_input_signature == (({"a": Spec([], name="d_a"), "b": [Spec([], name="d_b_0")]},), {})
    assert float(nested({"a": tf.constant(1.0), "b": [tf.constant(2.0)]})) == 3.0


def test_asking_what_comes_out_leaves_variables_as_they_are() -> None:
    v = tf.Variable(1.0)

    @tf.function
    def step(x: Any) -> Any:
        return v.assign_add(x)

    concrete = step.get_concrete_function(Spec([], tf.float32))
    assert concrete.output_shapes.as_list() == [] and v.numpy() == 1.0
    assert [u is v for u in concrete.variables] == [True] and len(concrete.trainable_variables) == 1
    assert float(concrete(tf.constant(2.0))) == 3.0


def test_gradients_flow_through_concrete_functions() -> None:
    v, x = tf.Variable(3.0), tf.Variable(2.0)
    concrete = tf.function(lambda t: t * v).get_concrete_function(Spec([], tf.float32))
    with tf.GradientTape() as tape:
        y = concrete(x)
    assert [g.numpy() for g in tape.gradient(y, [x, v])] == [3.0, 2.0]


def test_a_method_has_a_concrete_function() -> None:
    class Scale(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable(2.0)

        @tf.function(input_signature=[Spec([None], tf.float32)])
        def __call__(self, x: Any) -> Any:
            return x * self.w

    concrete = Scale().__call__.get_concrete_function()
    assert concrete(tf.constant([1.0, 2.0])).numpy().tolist() == [2.0, 4.0]
    assert concrete.structured_input_signature == ((Spec([None], tf.float32, "x"),), {})


def test_arguments_become_tensors_of_the_input_signature() -> None:
    assert signed(1, [1, 2]).numpy().tolist() == [1.0, 2.0]
    assert signed(y=np.array([1.0, 2.0]), x=3.0).numpy().tolist() == [3.0, 6.0]
    concrete = signed.get_concrete_function()
    assert concrete(y=tf.constant([1.0, 2.0]), x=tf.constant(2.0)).numpy().tolist() == [2.0, 4.0]
    assert [s.name for s in concrete.inputs] == ["x", "why"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: signed(tf.constant(1), tf.constant([1.0, 2.0])), "signed: argument x is int32"),
        (lambda: signed(1.0, [1.0, 2.0, 3.0]), r"signed: argument y is float32\(3,\)"),
        (lambda: signed(1.0), "missing a required argument: 'y'"),
        (lambda: signed(1.0, [1.0, 2.0], 3), "takes 2 arguments by its input_signature, got 3"),
        (lambda: signed(1.0, z=[1.0, 2.0]), "missing a required argument: 'y'"),
        (lambda: signed.get_concrete_function(Spec([], tf.int32), Spec([2])), "does not fit"),
        (lambda: tf.function(lambda x: x, input_signature=[1]), "sequence of TensorSpec objects"),
        (lambda: tf.function(lambda x: x, input_signature=Spec([])), "must be either a tuple or a list"),
        (lambda: tf.function(lambda x: x, input_signature=[Spec([])] * 2)(1.0), "1 extra type constraints"),
        (lambda: tf.function(lambda x, y: x, input_signature=[Spec([])])(1.0), "missing type constraint for y"),
        (lambda: tf.function(lambda x, y=5.0: x, input_signature=[Spec([])])(1.0, 2.0), "always 5.0, not 2.0"),
    ],
)
def test_what_does_not_fit_a_signature_is_a_type_error(call: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        call()


def test_what_has_no_constraint_keeps_its_default() -> None:
    f = tf.function(lambda x, y=5.0: x + y, input_signature=[Spec([])])
    assert float(f(1.0)) == float(f(1.0, 5.0)) == 6.0


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_variable_must_fit_the_signature_too(jit_compile: bool) -> None:
    f = tf.function(lambda t: 2.0 * t, jit_compile=jit_compile)
    g = tf.function(lambda t: 2.0 * t, input_signature=[Spec([2])], jit_compile=jit_compile)
    for called in (g, g.get_concrete_function(), f.get_concrete_function(Spec([2]))):
        assert called(tf.Variable([1.0, 2.0])).numpy().tolist() == [2.0, 4.0]
        for wrong in (tf.Variable([1.0, 2.0], dtype=tf.float64), tf.Variable([1, 2]), tf.Variable([1.0, 2.0, 3.0])):
            with pytest.raises(TypeError, match=r"argument t is|input 't' was expected|input 't' has the shape"):
                called(wrong)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_an_argument_without_constraint_may_be_given_as_its_default(jit_compile: bool) -> None:
    def of(f: Any) -> Any:
        return tf.function(f, input_signature=[Spec([2])], jit_compile=jit_compile)

    w, v = np.array([1.0, 2.0], np.float32), tf.Variable(2.0)
    t = tf.constant(w)
    for f in (lambda x, w=w: x * w, lambda x, w=t: x * w, lambda x, *, w=w: x * w):
        g = of(f)
        assert g([1.0, 2.0]).numpy().tolist() == g([1.0, 2.0], w=w).numpy().tolist() == [1.0, 4.0]
        assert g([1.0, 2.0], w=w + 1).numpy().tolist() == [2.0, 6.0]  # as in TensorFlow
        with pytest.raises(TypeError, match=r"<lambda>: argument w is float32\(3,\)"):
            g([1.0, 2.0], w=[1.0, 2.0, 3.0])
    nested = of(lambda x, w={"a": [w, 3.0]}: x * w["a"][0] * w["a"][1])
    assert nested([1.0, 2.0], {"a": [w, 3.0]}).numpy().tolist() == [3.0, 12.0]
    with pytest.raises(TypeError, match=r"argument w\['a'\]\[1\] has no constraint .* always 3.0, not 4.0"):
        nested([1.0, 2.0], {"a": [w, 4.0]})
    scaled = of(lambda x, w=v: x * w)
    assert scaled([1.0, 2.0], v).numpy().tolist() == [2.0, 4.0]
    assert scaled([1.0, 2.0], tf.Variable(3.0)).numpy().tolist() == [3.0, 6.0]


def test_an_argument_that_the_signature_lacks_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="takes 1 arguments by its input_signature, got 2"):
        tf.function(lambda x, *more: x, input_signature=[Spec([])])(1.0, 2.0)
    with pytest.raises(TypeError, match="takes no argument a by its input_signature"):
        tf.function(lambda x, **more: x, input_signature=[Spec([])])(1.0, a=2.0)
    with pytest.raises(TypeError, match="takes 2 arguments by its input_signature"):
        tf.function(lambda x, *more: x, input_signature=[Spec([])] * 2)(1.0)


_STRUCTURES: list[tuple[Any, Any, list[Any], str]] = [
    (
        {"a": Spec([]), "b": Spec([2])}, {"b": [1.0, 2.0], "a": 3},
        [{"a": 1.0}, {"a": 1.0, "b": [1.0, 2.0], "c": 1.0}, [1.0, [1.0, 2.0]], tf.constant(1.0)],
        r"argument d must be a dict with the keys \['a', 'b'\]",
    ),
    (
        [Spec([]), Spec([2])], [3.0, np.array([1.0, 2.0])], [[1.0], (1.0, [1.0, 2.0]), np.array([1.0, 2.0])],
        "argument d must be a list of 2 parts",
    ),
    (
        {"a": (Spec([2]), [Spec([])])}, {"a": ([1.0, 2.0], [3.0])}, [{"a": ([1.0, 2.0], (3.0,))}],
        r"argument d\['a'\]\[1\] must be a list of 1 parts",
    ),
    (Pair(Spec([]), Spec([2])), Pair(3.0, [1.0, 2.0]), [(3.0, [1.0, 2.0])], "argument d must be a Pair of 2 parts"),
    (
        [Spec([2]), {"k": Spec([])}], [[1.0, 2.0], {"k": 3.0}], [[[1.0, 2.0, 3.0], {"k": 3.0}], [["a", "b"], {"k": 1}]],
        r"argument d\[0\] (is float32\(3,\), which does not fit|does not become a tensor of float32)",
    ),
]  # fmt: skip


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize(("spec", "value", "wrong", "said"), _STRUCTURES)
def test_a_structure_is_converted_down_to_its_specs(
    spec: Any, value: Any, wrong: list[Any], said: str, jit_compile: bool
) -> None:
    def product(d: Any) -> Any:
        parts = tf.nest.flatten(d)
        assert all(isinstance(t, tf.Tensor) for t in parts)
        return parts[0] * parts[1]

    g = tf.function(product, input_signature=[spec], jit_compile=jit_compile)
    concrete = tf.function(product, jit_compile=jit_compile).get_concrete_function(spec)
    for called in (g, concrete):
        assert called(value).numpy().tolist() == [3.0, 6.0]
        assert called(d=value).numpy().tolist() == [3.0, 6.0]
    for x in wrong:
        with pytest.raises(TypeError, match=f"product: {said}"):
            g(x)
        with pytest.raises(TypeError, match=r"product.*(argument d|input 'd)"):
            concrete(x)


def test_a_concrete_function_takes_tensors_by_the_names_of_their_specs() -> None:
    x, y = tf.constant([1.0, 2.0]), tf.constant([3.0, 5.0])

    def results(specs: list[Any], *calls: dict[str, Any]) -> list[Any]:
        concrete = tf.function(lambda x, y: x - y).get_concrete_function(*specs)
        return [concrete(**c).numpy().tolist() for c in calls]

    difference = (x - y).numpy().tolist()
    assert results([Spec([2], name="q"), Spec([2])], {"q": x, "y": y}, {"x": x, "y": y}) == [difference] * 2
    assert results([Spec([2], name="q"), Spec([2], name="q")], {"q": x, "q_1": y}) == [difference]
    # Where the names of parameters fit, they come first.
    assert results([Spec([2], name="y"), Spec([2], name="x")], {"x": x, "y": y}) == [difference]
    assert results([Spec([2], name="y"), Spec([2], name="q")], {"y": x, "q": y}) == [difference]
    nested = tf.function(lambda d, e: d["a"] - e).get_concrete_function({"a": Spec([2], name="p")}, Spec([2], name="q"))
    assert nested(p=x, q=y).numpy().tolist() == difference
    alone = tf.function(lambda x: x).get_concrete_function(Spec([2], name="q"))
    for wrong in ({"q": x, "x": x}, {"p": x}, {"q": [1.0, 2.0]}):
        with pytest.raises(TypeError, match=r"takes the tensors \['x'\]"):
            alone(**wrong)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_concrete_function_takes_the_tensors_of_its_keywords_by_name(jit_compile: bool) -> None:
    f = tf.function(lambda x, **others: x * others["y"] - others["n"], jit_compile=jit_compile)
    concrete = f.get_concrete_function(Spec([2]), y=Spec([2]), n=3.0)
    assert concrete.structured_input_signature == ((Spec([2], name="x"),), {"y": Spec([2], name="y"), "n": 3.0})
    x, y = tf.constant([1.0, 2.0]), tf.constant([3.0, 5.0])
    for call in ({"y": y}, {"y": y, "n": 3.0}):
        assert concrete(x, **call).numpy().tolist() == concrete(x=x, **call).numpy().tolist() == [0.0, 7.0]
    for wrong in ({}, {"n": 3.0}, {"y": y, "n": 4.0}, {"y": y, "z": y}):
        with pytest.raises(TypeError):
            concrete(x, **wrong)


def test_a_printed_signature_names_the_types_of_arguments_results_and_captures() -> None:
    weight = tf.Variable([1.0, 2.0], name="weight")

    @tf.function
    def f(x: Any, n: Any, *more: Any, flag: bool = True, **others: Any) -> Any:
        return {"a": x["k"] * weight, "b": (more[0], [None])}

    concrete = f.get_concrete_function({"k": Spec([2])}, (2, "s"), Spec([None]), other=Spec([], tf.int32))
    assert (
        concrete.pretty_printed_signature()
        == """Input Parameters:
  x (POSITIONAL_OR_KEYWORD): Dict[['k', TensorSpec(shape=(2,), dtype=gtape.float32, name='x_k')]]
  n (POSITIONAL_OR_KEYWORD): Tuple[Literal[2], Literal['s']]
  more_0 (POSITIONAL_ONLY): TensorSpec(shape=(None,), dtype=gtape.float32, name='more_0')
  flag (KEYWORD_ONLY): Literal[True]
  other (KEYWORD_ONLY): TensorSpec(shape=(), dtype=gtape.int32, name='other')
Output Type:
  Dict[['a', TensorSpec(shape=(2,), dtype=gtape.float32, name=None)], ['b', Tuple[TensorSpec(shape=(None,), \
dtype=gtape.float32, name=None), List[Literal[None]]]]]
Captures:
  weight:0: TensorSpec(shape=(2,), dtype=gtape.float32, name=None)"""
    )


def test_a_short_printed_signature_is_written_as_python_writes_signatures() -> None:
    f = tf.function(lambda x, *, n: n * x)
    concrete = f.get_concrete_function(Spec([]), n=2.0)
    spec = "TensorSpec(shape=(), dtype=gtape.float32, name={})"
    inputs = f"(x: {spec.format(repr('x'))}, *, n: Literal[2.0])"
    assert concrete.pretty_printed_signature(verbose=False) == f"{inputs} -> {spec.format(None)}"
    assert repr(concrete) == f"<ConcreteFunction {inputs}>"
    several = tf.function(lambda *xs: xs[0]).get_concrete_function(Spec([]), Spec([]))
    named = [f"xs_{k}: {spec.format(repr(f'xs_{k}'))}" for k in range(2)]
    assert several.pretty_printed_signature(False) == f"({', '.join(named)}, /) -> {spec.format(None)}"


def test_traces_are_counted_by_kind_of_arguments() -> None:
    f = tf.function(lambda x: x * 2)
    assert f.experimental_get_tracing_count() == 0
    values = [1, 1, 2, 1.0, tf.constant(1.0), tf.constant(2.0), tf.constant([1.0]), tf.constant([1.0, 2.0])]
    for x in [*values, tf.constant([3.0, 2.0]), np.array([1.0, 2.0]), np.array([3.0, 2.0]), True, "a"]:
        f(x)
    assert f.experimental_get_tracing_count() == 7


@pytest.mark.parametrize("relaxed", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: (v,), lambda v: [1.0, v], lambda v: {"a": v}])
def test_all_nan_are_one_kind_of_argument(wrap: Callable[[Any], Any], compiled: bool, relaxed: bool) -> None:
    f = tf.function(lambda q: tf.constant(1.0), jit_compile=compiled, reduce_retracing=relaxed)
    for v in (float("nan"), -float("nan"), math.inf - math.inf, complex(math.nan, 1.0), complex(2.0, math.nan)):
        f(wrap(v))
    assert f.experimental_get_tracing_count() == 1
    for v in ("nan", 1.0, None):
        f(wrap(v))
    assert f.experimental_get_tracing_count() == 4


def test_relaxed_shapes_are_traced_twice_at_most() -> None:
    f = tf.function(lambda x: x * 2, reduce_retracing=True)
    for n in range(1, 5):
        f(tf.ones([n]))
    assert f.experimental_get_tracing_count() == 2
    f(tf.ones([2, 2]))
    assert f.experimental_get_tracing_count() == 3
    for _ in range(2):
        signed(1.0, [1.0, 2.0])
    assert signed.experimental_get_tracing_count() == 1


def _counts(f: Any, *calls: tuple[Any, ...]) -> list[int]:
    found = []
    for args in calls:
        f(*args)
        found.append(f.experimental_get_tracing_count())
    return found


def test_relaxed_shapes_become_any_shape_after_two_ranks() -> None:
    def first(*args: Any) -> Any:
        return args[0]

    def relaxed(*calls: Any) -> list[int]:
        f = tf.function(first, reduce_retracing=True)
        return _counts(f, *[tuple([tf.ones(s) if isinstance(s, list) else s for s in c]) for c in calls])

    assert relaxed(([1],), ([2],), ([3],), ([1, 2],), ([2, 2],), ([3, 2],)) == [1, 2, 2, 3, 3, 3]
    assert relaxed(([1],), ([1, 2],), ([2],), ([2, 2],), ([1, 1, 1],)) == [1, 2, 2, 2, 2]
    assert relaxed(([1], [1]), ([2], [1]), ([2], [2]), ([1, 2], [5]), ([3], [3])) == [1, 2, 3, 4, 4]
    assert relaxed(([1],), (tf.ones([1], tf.int32),), ([2],), (3,), (4,), (None,), ([3],)) == [1, 2, 3, 4, 5, 6, 6]
    shapes = [tf.Variable(1.0), tf.Variable([1.0]), tf.Variable([1.0, 2.0]), tf.Variable([[1.0]])]
    assert relaxed(*[(v,) for v in shapes]) == [1, 2, 2, 2]


def test_the_order_of_keys_makes_no_new_trace() -> None:
    x = tf.constant(1.0)
    f = tf.function(lambda d: d["a"])
    assert _counts(f, ({"a": x, "b": 2},), ({"b": 2, "a": x},), ({"b": 3, "a": x},)) == [1, 1, 2]


def test_a_variable_that_is_given_twice_makes_a_new_trace() -> None:
    v, w, u = tf.Variable(1.0), tf.Variable(2.0), tf.Variable(3.0)
    f = tf.function(lambda a, b: (a[0] if isinstance(a, list) else a) * b)
    assert _counts(f, (v, w), (v, v), (w, v), (u, u)) == [1, 2, 2, 2]
    assert _counts(f, ([v], w), ([v], v), ([w], u), ([w], w)) == [3, 4, 4, 4]
    fixed = tf.function(lambda a, b: a * b)
    assert _counts(fixed, (v, w), (tf.Variable(1.0, trainable=False), w)) == [1, 2]


def test_a_model_and_a_function_of_any_number_of_tensors_have_concrete_functions() -> None:
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
    x = tf.constant([[1.0, 2.0]])
    compiled = tf.function(model)
    concrete = compiled.get_concrete_function(Spec([None, 2], tf.float32))
    assert concrete(x).numpy() == compiled(x).numpy() == model(x).numpy()
    total = tf.function(lambda first, *rest: tf.add_n([first, *rest]))
    assert float(total.get_concrete_function(Spec([]), Spec([]), Spec([]))(*map(tf.constant, (1.0, 2.0, 4.0)))) == 7.0
    signed_model = tf.function(model, input_signature=[Spec([None, 2], tf.float32)])
    assert signed_model([[1.0, 2.0]]).numpy() == model(x).numpy()


def test_calls_of_a_concrete_function_are_no_new_traces() -> None:
    f = tf.function(lambda x: x * 2.0)
    concrete = f.get_concrete_function(tf.TensorSpec([None], tf.float32))
    for n in (2, 3):
        np.testing.assert_array_equal(concrete(tf.ones([n])).numpy(), 2.0)
    assert len(concrete.structured_outputs.shape) == 1 and f.experimental_get_tracing_count() == 1


async def _awaited(x: Any) -> Any:
    return x


async def _awaited_parts(x: Any) -> Any:
    yield x


def _parts(x: Any) -> Any:
    yield x


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize(
    ("f", "said"),
    [
        (_awaited, "_awaited: .* not the type coroutine: write def without async"),
        (_awaited_parts, "_awaited_parts: .* not the type async_generator: write def without async"),
        (_parts, "_parts: .* not the type generator: return a list"),
        (lambda x: {1.0, 2.0}, "not the type set: return a list"),
        (lambda x: [x, {"a": frozenset()}], "not the type frozenset: return a list"),
        (lambda x: map(tf.abs, [x]), "not the type map: return a list"),
    ],
)
def test_a_set_an_iterator_or_a_coroutine_is_no_result(f: Any, said: str, jit_compile: bool) -> None:
    for _ in range(2):
        with pytest.raises(TypeError, match=said):
            tf.function(f, jit_compile=jit_compile)(tf.constant(1.0))


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_shape_among_the_results_is_a_tensor_of_its_sizes(jit_compile: bool) -> None:
    f = tf.function(lambda x: {"shape": x.shape, "both": [x.shape, 2.0 * x]}, jit_compile=jit_compile)
    for sizes in ([2, 3], [2, 3], [0], []):
        made = f(tf.zeros(sizes))
        for shape in (made["shape"], made["both"][0]):
            assert shape.dtype == tf.int32 and shape.numpy().tolist() == sizes
