"""Concrete functions, input signatures and the count of traces, as TensorFlow has them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf

Spec = tf.TensorSpec


@tf.function
def pair(x: Any, y: Any = 2.0, *, k: Any = 1) -> Any:
    return {"a": x * y, "b": x + k}


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
        (lambda: signed(tf.constant(1), tf.constant([1.0, 2.0])), "argument 0 is int32"),
        (lambda: signed(1.0, [1.0, 2.0, 3.0]), r"argument 1 is float32\(3,\)"),
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
