"""custom_gradient and its friends (section 6 of the contract)."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import gtape as tf


@tf.custom_gradient
def tripled(x: Any) -> Any:
    """Says that the derivative of 2 x is 3."""

    def grad(upstream: Any) -> Any:
        return upstream * 3.0

    return x * 2.0, grad


def test_given_gradient_is_used() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = tripled(x) * 5.0
    assert y.numpy().tolist() == [10.0, 20.0]
    assert tape.gradient(y, x).numpy().tolist() == [15.0, 15.0]


@pytest.mark.parametrize(
    ("returned", "error", "match"),
    [
        (lambda x: x, TypeError, "returned a Tensor"),
        (lambda x: tf.stack([x, x]), TypeError, "returned a Tensor"),
        (lambda x: (x, 3), TypeError, "a int in place of the function"),
        (lambda x: (x, None), TypeError, "a NoneType in place of the function"),
        (lambda x: (x, lambda g: g, 1), ValueError, "returned 3 things"),
    ],
)
def test_what_returns_no_gradient_function_is_refused_at_its_call(
    returned: Any, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        tf.custom_gradient(returned)(tf.constant(1.0))


def test_name_and_docstring_are_kept_and_methods_can_be_decorated() -> None:
    assert tripled.__name__ == "tripled" and "derivative" in tripled.__doc__

    class Layer:
        k = 7.0

        @tf.custom_gradient
        def call(self, x: Any) -> Any:
            return x * 1.0, lambda g: g * self.k

    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = Layer().call(x)
    assert tape.gradient(y, x).numpy() == 7.0
    assert pickle.loads(pickle.dumps(tripled)) is tripled


def test_value_is_a_new_tensor_and_numbers_are_converted() -> None:
    @tf.custom_gradient
    def same(x: Any) -> Any:
        return x, lambda g: g

    @tf.custom_gradient
    def number(x: Any) -> Any:
        return np.float32(2.0) * 3.0, lambda g: g

    x = tf.constant(1.0)
    assert same(x) is not x
    assert isinstance(number(x), tf.Tensor)


def test_each_positional_input_needs_one_gradient() -> None:
    @tf.custom_gradient
    def f(a: Any, b: Any) -> Any:
        return a * b, lambda g: g

    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = f(x, 3.0)
    with pytest.raises(
        ValueError, match="custom_gradient function expected to return 2 gradients, but returned 1 instead"
    ):
        tape.gradient(y, x)


def test_inputs_may_be_structures_and_numbers() -> None:
    @tf.custom_gradient
    def f(pair: Any, k: Any) -> Any:
        a, b = pair
        return a * b * k, lambda g: (g * 10.0, g * 20.0, None)

    a, b = tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = f([a, b], 4.0)
    assert y.numpy() == 24.0
    assert [g.numpy() for g in tape.gradient(y, [a, b])] == [10.0, 20.0]


def test_keyword_arguments_do_not_count() -> None:
    @tf.custom_gradient
    def f(x: Any, *, scale: Any = 1.0) -> Any:
        return x * scale, lambda g: g * scale

    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = f(x, scale=5.0)
    assert tape.gradient(y, x).numpy() == 5.0


def test_several_outputs_each_have_an_upstream_gradient_zeros_if_unused() -> None:
    seen = []

    @tf.custom_gradient
    def f(x: Any) -> Any:
        def grad(a: Any, b: Any) -> Any:
            seen.append((a.numpy(), b.numpy()))
            return a * 2.0 + b * 3.0

        return (x * 2.0, x * 3.0), grad

    x = tf.Variable(1.0)
    with tf.GradientTape(persistent=True) as tape:
        y, z = f(x)
        both = y + 10.0 * z
    assert tape.gradient(y, x).numpy() == 2.0
    assert tape.gradient(both, x).numpy() == 32.0
    assert seen == [(1.0, 0.0), (1.0, 10.0)]


def test_none_for_an_input_means_unconnected() -> None:
    @tf.custom_gradient
    def f(a: Any, b: Any) -> Any:
        return a * b, lambda g: (g * b, None)

    a, b = tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        y = f(a, b)
    assert tape.gradient(y, b) is None
    assert tape.gradient(y, b, unconnected_gradients="zero").numpy() == 0.0


def test_exception_in_the_gradient_function_propagates() -> None:
    @tf.custom_gradient
    def f(x: Any) -> Any:
        def grad(g: Any) -> Any:
            raise KeyError("mine")

        return x * 1.0, grad

    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = f(x)
    with pytest.raises(KeyError, match="mine"):
        tape.gradient(y, x)


# ---------------------------------------------------------------- variables read inside


def test_variables_read_inside_need_a_place_in_the_gradient_function() -> None:
    w = tf.Variable(3.0)

    @tf.custom_gradient
    def f(x: Any) -> Any:
        return x * w, lambda g: g * w

    with pytest.raises(TypeError, match="variables"):
        f(tf.constant(1.0))


def test_gradients_of_variables_read_inside() -> None:
    w = tf.Variable(3.0)

    @tf.custom_gradient
    def f(x: Any) -> Any:
        def grad(g: Any, variables: Any = None) -> Any:
            assert [v.ref() for v in variables] == [w.ref()]
            return g * w, [g * 100.0]

        return x * w, grad

    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = f(x)
    assert [g.numpy() for g in tape.gradient(y, [x, w])] == [3.0, 100.0]


def test_without_variables_the_argument_is_not_passed_and_a_variable_argument_is_an_ordinary_input() -> None:
    @tf.custom_gradient
    def f(x: Any) -> Any:
        def grad(g: Any, variables: Any = "not passed") -> Any:
            assert variables == "not passed"
            return g * 5.0

        return x * 1.0, grad

    w = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = f(w)
    assert tape.gradient(y, w).numpy() == 5.0


# ---------------------------------------------------------------- second order


def test_second_order_differentiates_the_gradient_function() -> None:
    @tf.custom_gradient
    def cube(x: Any) -> Any:
        return x * x * x, lambda g: g * 3.0 * x * x

    x = tf.Variable(2.0)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = cube(x)
        dy = inner.gradient(y, x)
    assert dy.numpy() == 12.0
    assert outer.gradient(dy, x).numpy() == 12.0


def test_custom_gradient_inside_the_gradient_function_overrides_the_second_order() -> None:
    @tf.custom_gradient
    def f(x: Any) -> Any:
        @tf.custom_gradient
        def first(g: Any, x: Any) -> Any:
            return g * 3.0 * x * x, lambda gg: (gg * 0.0, gg * 1000.0)

        return x * x * x, lambda g: first(g, x)

    x = tf.Variable(2.0)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = f(x)
        dy = inner.gradient(y, x)
    assert dy.numpy() == 12.0
    assert outer.gradient(dy, x).numpy() == 1000.0


# ---------------------------------------------------------------- friends


def test_stop_gradient_is_a_new_tensor_and_cuts_the_path() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        y = tf.stop_gradient(x)
        z = x * y
    assert y.numpy() == 3.0
    assert tape.gradient(y, x) is None
    assert tape.gradient(z, x).numpy() == 3.0


def test_slices_from_a_custom_gradient_stay_slices_directly_on_the_source() -> None:
    @tf.custom_gradient
    def second(x: Any) -> Any:
        return x[1], lambda g: tf.IndexedSlices(tf.reshape(g * 7.0, [1]), tf.constant([1]), tf.constant([2]))

    x = tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        direct, deep, mixed = second(x), second(x * 2.0), second(x) + tf.gather(x, 0)
    g = tape.gradient(direct, x)
    assert isinstance(g, tf.IndexedSlices) and g.values.numpy().tolist() == [7.0] and g.indices.numpy().tolist() == [1]
    assert tape.gradient(deep, x).numpy().tolist() == [0.0, 14.0]
    assert tf.convert_to_tensor(tape.gradient(mixed, x)).numpy().tolist() == [1.0, 7.0]


def test_recompute_grad_runs_once_forward_and_once_more_at_gradient_time() -> None:
    calls = []
    w = tf.Variable(5.0)

    def f(x: Any) -> Any:
        calls.append(1)
        return tf.sin(x) * w

    g = tf.recompute_grad(f)
    assert g.__wrapped__ is f and g.__name__ == "f"
    x = tf.Variable(0.0)
    with tf.GradientTape() as tape:
        y = g(x)
    assert len(calls) == 1
    assert [v.numpy() for v in tape.gradient(y, [x, w])] == [5.0, 0.0]
    assert len(calls) == 2


def test_recompute_grad_at_second_order() -> None:
    x = tf.Variable(2.0)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = tf.recompute_grad(lambda t: t * t * t)(x)
        dy = inner.gradient(y, x)
    assert outer.gradient(dy, x).numpy() == 12.0


@pytest.mark.parametrize("pack", [lambda x: (x, x), lambda x: (x, x * 1.0), lambda x: (x * 1.0, x)])
def test_recompute_grad_counts_what_is_passed_twice_once(pack: Any) -> None:
    x = tf.Variable(3.0)
    again = tf.recompute_grad(lambda a, b: a * b * b)
    with tf.GradientTape(persistent=True) as tape:
        y = again(*pack(x))
        z = tf.recompute_grad(lambda both: both["a"] * both["b"])({"a": x, "b": x})
    assert tape.gradient(y, x).numpy() == 27.0 and tape.gradient(z, x).numpy() == 6.0
    assert tape.jacobian(y, x).numpy() == 27.0
    with tf.autodiff.ForwardAccumulator(x, 1.0) as acc:
        y = again(*pack(x))
    assert acc.jvp(y).numpy() == 27.0


def test_grad_pass_through_is_the_identity_backwards() -> None:
    x, w = tf.Variable(1.7), tf.Variable(2.0)
    with tf.GradientTape(persistent=True) as tape:
        y = tf.grad_pass_through(lambda t: tf.round(t) * w)(x) * 3.0
    assert y.numpy() == 12.0
    assert tape.gradient(y, x).numpy() == 3.0
    assert tape.gradient(y, w) is None


def test_grad_pass_through_works_with_assign() -> None:
    x, z = tf.Variable(1.0), tf.Variable(4.0)
    with tf.GradientTape() as tape:
        y = tf.grad_pass_through(x.assign)(z * 2.0)
    assert x.numpy() == 8.0
    assert tape.gradient(y, z).numpy() == 2.0


# ---------------------------------------------------------------- under the flag


def test_declared_gradients_pass_the_flag_as_they_are() -> None:
    @tf.custom_gradient(declared="turns the gradient round")
    def reverse(x: Any) -> Any:
        return x, lambda g: -g

    @tf.custom_gradient(declared="clips the gradient")
    def clip(x: Any) -> Any:
        return x, lambda g: tf.clip_by_value(g, -1.0, 1.0)

    for f, wanted in ((reverse, -10.0), (clip, 1.0)):
        x = tf.Variable(3.0)
        with tf.GradientTape(verify="strict") as tape:
            y = f(x) * 10.0
        assert tape.gradient(y, x).numpy() == wanted


def test_custom_gradient_that_is_not_that_of_its_body_is_found_by_name() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape(verify=True) as tape:
        y = tripled(x)
    with pytest.raises(tf.VerificationError, match="tripled"):
        tape.gradient(y, x)


# ---------------------------------------------------------------- smaller print


def test_arguments_come_as_they_were_given() -> None:
    seen = []

    @tf.custom_gradient
    def f(x: Any, n: Any, v: Any, a: Any) -> Any:
        seen.extend([type(n), v, a])
        return x**n, lambda g: (g * 7.0, None, None, None)

    x, v, a = tf.Variable(2.0), tf.Variable(1.0), np.ones(2)
    with tf.GradientTape() as tape:
        y = f(x, 3, v, a)
    assert seen[0] is int and seen[1] is v and seen[2] is a
    assert y.numpy() == 8.0 and tape.gradient(y, x).numpy() == 7.0


@pytest.mark.parametrize("count", [0, 2, 3])
def test_a_wrong_number_of_gradients_is_named(count: int) -> None:
    @tf.custom_gradient
    def f(x: Any) -> Any:
        return x * x, lambda g: [g] * count

    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = f(x)
    text = f"^custom_gradient function expected to return 1 gradients, but returned {count} instead"
    with pytest.raises(ValueError, match=text):
        tape.gradient(y, x)


def test_the_instance_of_a_method_is_no_input() -> None:
    class Layer:
        @tf.custom_gradient
        def call(self, x: Any) -> Any:
            return x * x, lambda g: g * 7.0

    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = Layer().call(x)
    assert tape.gradient(y, x).numpy() == 7.0


@pytest.mark.parametrize("back", [tuple, list])
def test_structures_of_inputs_are_flat_in_the_gradients(back: Any) -> None:
    @tf.custom_gradient
    def f(d: Any) -> Any:
        return d["a"] * d["b"], lambda g: back([g * 7.0, g * 8.0])

    x, w = tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = f({"a": x, "b": w})
    assert [g.numpy() for g in tape.gradient(y, [x, w])] == [7.0, 8.0]


@pytest.mark.parametrize("pack", [tuple, list])
def test_outputs_keep_their_structure(pack: Any) -> None:
    @tf.custom_gradient
    def f(x: Any) -> Any:
        return pack([x * 2.0, x * 3.0]), lambda g, h: g * 10.0 + h

    x = tf.Variable(2.0)
    with tf.GradientTape(persistent=True) as tape:
        made = f(x)
    assert isinstance(made, pack) and len(made) == 2
    assert tape.gradient(made[0], x).numpy() == 10.0
    assert tape.gradient(made[1], x).numpy() == 1.0
    assert tape.gradient(made, x).numpy() == 11.0


def test_an_integer_output_beside_a_float_one() -> None:
    @tf.custom_gradient
    def f(x: Any) -> Any:
        return (x * 2.0, tf.constant(3)), lambda g, h: g * 3.0

    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y, n = f(x)
    assert n.dtype == tf.int32 and tape.gradient(y, x).numpy() == 3.0


def test_shapes_of_returned_gradients_are_not_checked() -> None:
    @tf.custom_gradient
    def f(x: Any) -> Any:
        return x * 2.0, lambda g: tf.constant([1.0, 2.0])

    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = f(x)
    assert tape.gradient(y, x).numpy().tolist() == [1.0, 2.0]


def test_a_number_returned_as_gradient_counts_as_one() -> None:
    @tf.custom_gradient
    def f(x: Any) -> Any:
        return x * 2.0, lambda g: 5.0

    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = f(x)
    assert float(tape.gradient(y, x)) == 5.0


def test_variables_that_are_not_trainable_need_no_place() -> None:
    v = tf.Variable(3.0, trainable=False)

    @tf.custom_gradient
    def f(x: Any) -> Any:
        return x * v, lambda g: g * 2.0

    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = f(x)
    assert [g if g is None else g.numpy() for g in tape.gradient(y, [x, v])] == [2.0, None]


def test_variables_may_come_as_any_keyword() -> None:
    v = tf.Variable(3.0)

    @tf.custom_gradient
    def f(x: Any) -> Any:
        def grad(g: Any, **kwargs: Any) -> Any:
            assert [w.ref() for w in kwargs["variables"]] == [v.ref()]
            return g * 100.0, [g * 7.0]

        return x * v, grad

    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = f(x)
    assert [g.numpy() for g in tape.gradient(y, [x, v])] == [100.0, 7.0]


def test_a_wrong_number_of_variable_gradients_is_a_value_error() -> None:
    v = tf.Variable(3.0)

    @tf.custom_gradient
    def f(x: Any) -> Any:
        return x * v, lambda g, variables: (g, [])

    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = f(x)
    with pytest.raises(ValueError):
        tape.gradient(y, [x, v])


def test_a_variable_without_its_place_is_refused_outside_of_tapes_too() -> None:
    v = tf.Variable(3.0)

    @tf.custom_gradient
    def f(x: Any) -> Any:
        return x * v, lambda g: g

    with pytest.raises(TypeError, match="variables"):
        f(tf.constant(2.0))


def test_a_jacobian_uses_the_given_gradient() -> None:
    @tf.custom_gradient
    def f(x: Any) -> Any:
        return x * 2.0, lambda g: g * 3.0

    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = f(x)
    assert tape.jacobian(y, x).numpy().tolist() == [[3.0, 0.0], [0.0, 3.0]]


@pytest.mark.parametrize("value", [2.0, 3, np.float64(1.0)])
def test_stop_gradient_of_numbers_and_integers(value: Any) -> None:
    made = tf.stop_gradient(value)
    assert isinstance(made, tf.Tensor) and made.numpy() == value


def test_gradients_of_variables_inside_recompute_grad() -> None:
    v, x = tf.Variable(3.0), tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = tf.recompute_grad(lambda t: t * v)(x)
    assert [g.numpy() for g in tape.gradient(y, [x, v])] == [3.0, 2.0]


def test_variables_inside_grad_pass_through_get_none() -> None:
    v, x = tf.Variable(3.0), tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = tf.grad_pass_through(lambda t: t * v)(x) * 4.0
    assert y.numpy() == 24.0
    assert [g if g is None else g.numpy() for g in tape.gradient(y, [x, v])] == [4.0, None]


@pytest.mark.parametrize("name", ["gradients", "hessians"])
def test_graph_functions_are_runtime_errors_outside_of_a_function(name: str) -> None:
    x = tf.Variable(2.0)
    with pytest.raises(RuntimeError):
        getattr(tf, name)(x * x, x)


def test_what_is_no_input_keeps_its_plain_derivative_unless_an_input_is_watched() -> None:
    x, w = tf.Variable(3.0), tf.constant(5.0)

    @tf.custom_gradient
    def f(a: Any, k: Any = None) -> Any:
        return a * k, lambda g: g * 100.0

    with tf.GradientTape() as tape:
        y = f(w, k=x)
    assert tape.gradient(y, x).numpy() == 5.0
    with tf.GradientTape() as tape:
        tape.watch(w)
        y = f(w, k=x)
    assert [g if g is None else g.numpy() for g in tape.gradient(y, [w, x])] == [100.0, None]


def _numbers(found: Any) -> list[float | None]:
    return [None if g is None else float(g) for g in found]


def _times_square(x: Any) -> Any:
    @tf.custom_gradient
    def f(c: Any) -> Any:
        return c * x * x, lambda g: 100.0 * g

    return f


def _two_results(x: Any) -> Any:
    @tf.custom_gradient
    def f(c: Any) -> Any:
        return (c * x * x, x * c), lambda g, h: 100.0 * g + 10.0 * h

    return f


def _inner_of_captured(x: Any) -> Any:
    @tf.custom_gradient
    def f(c: Any) -> Any:
        @tf.custom_gradient
        def inner(d: Any) -> Any:
            return d * c * c, lambda g: 7.0 * g

        return inner(x) * 1.0, lambda g: 100.0 * g

    return f


def _inner_that_captures(x: Any) -> Any:
    @tf.custom_gradient
    def f(c: Any) -> Any:
        @tf.custom_gradient
        def inner(d: Any) -> Any:
            return d * x * x, lambda g: 7.0 * g

        return inner(c) * 1.0, lambda g: 100.0 * g

    return f


def _captured_itself(x: Any) -> Any:
    @tf.custom_gradient
    def f(c: Any) -> Any:
        return x, lambda g: 100.0 * g

    return f


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("captured_is_outside", [False, True])
@pytest.mark.parametrize(
    ("capturing", "by_captured", "by_argument"),
    [
        (_times_square, 12.0, 100.0),
        (_two_results, 15.0, 110.0),
        (_inner_of_captured, 7.0, 100.0),
        (_inner_that_captures, 12.0, 100.0),
        (_captured_itself, 1.0, 100.0),
    ],
)
def test_a_tape_that_watches_no_input_keeps_the_plain_derivatives_of_what_is_captured(
    capturing: Any, by_captured: float, by_argument: float, captured_is_outside: bool, compiled: bool
) -> None:
    def slopes(x: Any, c: Any) -> Any:
        f, outer, inner = capturing(x), tf.GradientTape(), tf.GradientTape()
        of_captured, of_argument = (outer, inner) if captured_is_outside else (inner, outer)
        with outer, inner:
            of_captured.watch(x)
            of_argument.watch(c)
            y = f(c)
        found = of_captured.gradient(y, [x, c]), of_argument.gradient(y, [x, c])
        missing.append([g is None for pair in found for g in pair])
        return [g for pair in found for g in pair if g is not None]

    missing: list[list[bool]] = []
    made = (tf.function(slopes) if compiled else slopes)(tf.constant(2.0), tf.constant(3.0))
    assert missing[0] == [False, True, True, False]
    assert _numbers(made) == [by_captured, by_argument]


def test_a_tape_that_watches_input_and_captured_tensor_uses_the_given_gradient_beside_another_tape() -> None:
    x, c = tf.constant(2.0), tf.constant(3.0)
    with tf.GradientTape() as alone, tf.GradientTape() as both:
        alone.watch(x)
        both.watch([x, c])
        y = _times_square(x)(c)
    assert _numbers(alone.gradient(y, [x, c])) == [12.0, None]
    assert _numbers(both.gradient(y, [x, c])) == [None, 100.0]


def test_an_outer_tape_differentiates_what_an_inner_one_multiplies_by_the_captured_tensor() -> None:
    x, c = tf.constant(2.0), tf.constant(3.0)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(c)
            y = _times_square(x)(c) ** 2
        g = inner.gradient(y, c)
    assert g.numpy() == 2400.0
    assert outer.gradient(g, x).numpy() == 2400.0


def test_an_inner_tape_on_the_captured_tensor_leaves_the_given_gradient_to_the_outer_one() -> None:
    x, c = tf.constant(2.0), tf.constant(3.0)
    with tf.GradientTape() as outer:
        outer.watch([x, c])
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = _times_square(x)(c) ** 2
        g = inner.gradient(y, x)
    assert g.numpy() == 288.0
    assert _numbers(outer.gradient(g, [x, c])) == [144.0, 2496.0]


def test_variables_read_inside_are_inputs_and_captured_tensors_are_none() -> None:
    x, c, v = tf.constant(2.0), tf.constant(3.0), tf.Variable(5.0)

    @tf.custom_gradient
    def f(c: Any) -> Any:
        return c * x * x * v, lambda g, variables=None: (100.0 * g, [3.0 * g for _ in variables])

    with tf.GradientTape() as of_variable, tf.GradientTape(watch_accessed_variables=False) as of_captured:
        of_captured.watch(x)
        y = f(c)
    assert _numbers(of_variable.gradient(y, [x, v])) == [None, 3.0]
    assert _numbers(of_captured.gradient(y, [x, v])) == [60.0, None]


@pytest.mark.parametrize("outer", ["accumulator", "tape"])
def test_an_accumulator_of_the_captured_tensor_pushes_the_plain_tangent_beside_a_tape(outer: str) -> None:
    x, c = tf.constant(2.0), tf.constant(3.0)
    acc, tape = tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)), tf.GradientTape()
    with acc if outer == "accumulator" else tape, tape if outer == "accumulator" else acc:
        tape.watch(c)
        y = _times_square(x)(c)
    assert acc.jvp(y).numpy() == 12.0
    assert tape.gradient(y, c).numpy() == 100.0


def test_infinite_results_keep_their_value_for_all_tapes() -> None:
    x, c = tf.constant(2.0), tf.constant(float("inf"))
    with tf.GradientTape() as of_captured, tf.GradientTape() as of_argument:
        of_captured.watch(x)
        of_argument.watch(c)
        y = _times_square(x)(c)
    assert y.numpy() == np.inf
    assert of_captured.gradient(y, x).numpy() == np.inf
    assert of_argument.gradient(y, c).numpy() == 100.0


@pytest.mark.parametrize("mode", ["reverse", "forward", "checked"])
def test_recompute_grad_keeps_the_gradients_of_tensors_that_are_no_arguments(mode: str) -> None:
    # None, or a part of the gradient, in TensorFlow.
    def f(x: Any) -> Any:
        w = tf.sin(x)
        inner = tf.recompute_grad(lambda s, t=None: s * w * t)
        return tf.recompute_grad(lambda s: inner(s, t=x) * w)(2.0 * x) + tf.recompute_grad(lambda: w * w)()

    x = tf.constant(0.7, tf.float64)
    with tf.GradientTape(verify=mode == "checked") as tape, tf.autodiff.ForwardAccumulator(x, 1.0) as acc:
        tape.watch(x)
        y = f(x)
    s, c = np.sin(0.7), np.cos(0.7)
    slope = tape.gradient(y, x) if mode != "forward" else acc.jvp(y)
    np.testing.assert_allclose(slope, 4 * 0.7 * s**2 + 4 * 0.7**2 * s * c + 2 * s * c, rtol=1e-15)


@pytest.mark.parametrize("declared", [False, True, 3, b"clips", ["clips"]])
def test_a_declaration_that_is_no_text_is_refused_at_decoration(declared: Any) -> None:
    with pytest.raises(TypeError, match="takes the reason why the gradient differs"):
        tf.custom_gradient(declared=declared)
    with pytest.raises(TypeError, match="is no text"):
        tf.custom_gradient(lambda x: (x, lambda g: g), declared=declared)


@pytest.mark.parametrize("declared", ["", " \n"])
def test_a_declaration_without_a_reason_is_refused_at_decoration(declared: str) -> None:
    with pytest.raises(ValueError, match="the text is empty"):
        tf.custom_gradient(declared=declared)


def test_none_declares_no_gradient() -> None:
    assert tf.custom_gradient(declared=None)(lambda x: (x, lambda g: g)).declared is None
