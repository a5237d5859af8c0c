"""function, and gradients and hessians inside it (sections 6 and 9 of the contract)."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from typing import Any

import numpy as np
import pytest

import gtape as tf

W = tf.Variable(3.0)
C = tf.constant(5.0)

# ---------------------------------------------------------------- function


def test_function_keeps_name_docstring_and_what_it_wraps() -> None:
    def f(x: Any) -> Any:
        """Doubles."""
        return 2.0 * x

    for made in (tf.function(f), tf.function(reduce_retracing=True, jit_compile=True)(f)):
        assert made.__name__ == "f" and made.__doc__ == "Doubles."
        assert made.python_function is f and made.__wrapped__ is f
        assert made(tf.constant(2.0)).numpy() == 4.0


def test_function_decorates_methods() -> None:
    class Layer:
        def __init__(self) -> None:
            self.w = tf.Variable(3.0)

        @tf.function
        def call(self, x: Any, scale: float = 1.0) -> Any:
            return self.w * x * scale

    layer = Layer()
    with tf.GradientTape() as tape:
        y = layer.call(tf.constant(2.0), scale=10.0)
    assert tape.gradient(y, layer.w).numpy() == 20.0
    assert Layer.call(layer, tf.constant(1.0)).numpy() == 3.0


def test_function_returns_tensors_for_numbers_and_keeps_structures() -> None:
    made = tf.function(lambda: {"a": 1.5, "b": (np.float64(2.0), None, "text")})()
    assert isinstance(made["a"], tf.Tensor) and made["a"].dtype == tf.float32
    assert made["b"][0].dtype == tf.float64 and made["b"][1:] == (None, "text")


def test_function_takes_an_input_signature() -> None:
    f = tf.function(lambda x: x * 2.0, input_signature=[tf.TensorSpec([None], tf.float32)])
    assert f([1.0, 2.0]).numpy().tolist() == [2.0, 4.0]
    with pytest.raises(TypeError, match="input_signature"):
        f(tf.constant(1.0))
    with pytest.raises(TypeError, match="1 arguments"):
        f([1.0], [2.0])


def test_function_refuses_unknown_options() -> None:
    with pytest.raises(TypeError, match="nonsense"):
        tf.function(nonsense=True)
    with pytest.raises(TypeError, match="callable"):
        tf.function(3.0)


def test_function_lets_exceptions_through_and_leaves_no_tape_behind() -> None:
    @tf.function
    def f(x: Any) -> Any:
        tf.gradients(x, x)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        f(tf.constant(1.0))
    with pytest.raises(RuntimeError, match="GradientTape"):
        tf.gradients(W, W)


# ---------------------------------------------------------------- gradients


@pytest.mark.parametrize("call", [tf.gradients, tf.hessians])
def test_outside_a_function_they_name_the_tape(call: Any) -> None:
    with pytest.raises(RuntimeError, match=r"not supported when eager execution is enabled.*GradientTape"):
        call(C, C)


def test_gradients_returns_a_list_with_one_gradient_of_the_sum_for_each_x() -> None:
    @tf.function
    def f(x: Any, y: Any) -> Any:
        return tf.gradients([x * y, x * x], [x, y])

    made = f(tf.constant([1.0, 2.0]), tf.constant(3.0))
    assert isinstance(made, list)
    assert [g.numpy().tolist() for g in made] == [[5.0, 7.0], 3.0]
    single = tf.function(lambda x: tf.gradients(x * x, x))(tf.constant(2.0))
    assert isinstance(single, list) and single[0].numpy() == 4.0


def test_gradients_with_respect_to_constants_made_inside() -> None:
    @tf.function
    def f() -> Any:
        a, z, u = tf.constant(2.0), tf.zeros([2]), tf.random.uniform([2])
        return tf.gradients(a * a + tf.reduce_sum(z + u * a), [a, z, u])

    a, z, u = f()
    assert a.numpy() > 4.0 and z.numpy().tolist() == [1.0, 1.0] and u.numpy().tolist() == [2.0, 2.0]


def test_gradients_with_respect_to_variables_and_tensors_outside() -> None:
    made = tf.function(lambda: tf.gradients(C * C * W, [C, W]))()
    assert [g.numpy() for g in made] == [30.0, 25.0]


def test_gradients_with_respect_to_intermediate_results() -> None:
    @tf.function
    def f(x: Any) -> Any:
        y = x * x
        return tf.gradients(y * y, [x, y])

    assert [g.numpy() for g in f(tf.constant(3.0))] == [108.0, 18.0]


def test_stop_gradients_gives_partial_derivatives() -> None:
    @tf.function
    def f(stop: bool) -> Any:
        a = tf.constant(0.0)
        b = 2 * a
        return tf.gradients(a + b, [a, b], stop_gradients=[a, b] if stop else None)

    assert [g.numpy() for g in f(True)] == [1.0, 1.0]
    assert [g.numpy() for g in f(False)] == [3.0, 1.0]


def test_grad_ys_weigh_the_targets() -> None:
    @tf.function
    def f(x: Any, weights: Any) -> Any:
        return tf.gradients([x * 2.0, x * 3.0], x, grad_ys=weights)

    x = tf.constant([1.0, 1.0])
    assert f(x, [tf.constant([1.0, 10.0]), None])[0].numpy().tolist() == [5.0, 23.0]
    with pytest.raises(ValueError, match="Passed 1 grad_ys for 2 ys"):
        f(x, [None])


def test_unconnected_gradients_are_none_or_zeros() -> None:
    @tf.function
    def f(x: Any, option: Any) -> Any:
        return tf.gradients(tf.constant(1.0), x, unconnected_gradients=option)

    x = tf.constant([1.0, 2.0])
    assert f(x, "none") == [None] and f(x, tf.UnconnectedGradients.ZERO)[0].numpy().tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="unconnected_gradients"):
        f(x, "nonsense")


def test_gradients_of_gradients() -> None:
    @tf.function
    def f(x: Any) -> Any:
        first = tf.gradients(x**4, x)[0]
        second = tf.gradients(first, x)[0]
        return tf.gradients(second, x)[0]

    assert f(tf.constant(2.0)).numpy() == 48.0


def test_tapes_differentiate_what_gradients_returned() -> None:
    @tf.function
    def slope(x: Any) -> Any:
        return tf.gradients(x * x * x * W, x)[0]

    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = slope(x)
    assert [g.numpy() for g in tape.gradient(y, [x, W])] == [36.0, 12.0]


def test_gradients_in_functions_that_the_body_calls() -> None:
    def helper(y: Any, x: Any) -> Any:
        return tf.gradients(y, x)[0]

    class Model:
        scale = 3.0

        def inner(self, x: Any) -> Any:
            return helper(x * x * self.scale, x)

        @tf.function
        def call(self, x: Any) -> Any:
            return self.inner(x)

    assert Model().call(tf.constant(2.0)).numpy() == 12.0


def test_hessians_have_the_shape_of_x_twice_and_are_zero_for_what_is_linear() -> None:
    @tf.function
    def f(x: Any, y: Any) -> Any:
        return tf.hessians(x[0] * x[0] * x[1], [x, y]), tf.hessians(3.0 * x, x)

    (of_x, of_y), (linear,) = f(tf.constant([1.0, 3.0]), tf.constant(1.0))
    assert of_x.numpy().tolist() == [[6.0, 2.0], [2.0, 0.0]] and of_y is None
    assert linear.numpy().tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_a_function_keeps_no_graph_after_its_call() -> None:
    seen = []

    @tf.function
    def f(x: Any) -> Any:
        y = x * x
        seen.append(weakref.ref(y))
        return tf.gradients(tf.exp(y), x)[0]

    kept = f(tf.constant(0.5))
    gc.collect()
    assert kept.numpy() > 1.0 and seen[0]() is None


# ---------------------------------------------------------------- custom gradients beside Jacobians and forward mode


def test_jacobians_call_a_custom_gradient_with_one_cotangent_at_a_time() -> None:
    @tf.custom_gradient
    def norm(x: Any) -> Any:
        return tf.reduce_sum(x * x), lambda g: 2.0 * g * x

    @tf.custom_gradient
    def both(x: Any) -> Any:
        return (x[0] * x[1], x * 2.0), lambda a, b: tf.stack([a * x[1], a * x[0]]) + 2.0 * b

    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        y = norm(x) * x
        a, b = both(x)
        z = a * b
    np.testing.assert_allclose(tape.jacobian(y, x).numpy(), [[7.0, 4.0], [4.0, 13.0]])
    np.testing.assert_allclose(tape.jacobian(z, x).numpy(), [[8.0, 2.0], [8.0, 8.0]])


def test_forward_mode_uses_the_transpose_of_a_custom_gradient() -> None:
    a = tf.constant([[1.0, 2.0], [3.0, 4.0]])

    @tf.custom_gradient
    def product(x: Any) -> Any:
        return tf.linalg.matvec(a, x), lambda g: 10.0 * tf.linalg.matvec(a, g, transpose_a=True)

    with tf.autodiff.ForwardAccumulator(x := tf.constant([1.0, 1.0]), tf.constant([1.0, 0.0])) as acc:
        y = product(x)
        z = tf.recompute_grad(lambda t: tf.sin(t) * t)(x)
    assert acc.jvp(y).numpy().tolist() == [10.0, 30.0]
    np.testing.assert_allclose(acc.jvp(z).numpy(), [np.sin(1.0) + np.cos(1.0), 0.0], rtol=1e-6)


def test_declared_gradients_are_decided_at_order_two() -> None:
    @tf.custom_gradient(declared="turns the gradient round")
    def reverse(x: Any) -> Any:
        return x * 1.0, lambda g: -g

    x = tf.Variable([0.3, 0.4])
    with tf.GradientTape(verify="strict") as outer:
        with tf.GradientTape(verify="strict") as inner:
            y = tf.reduce_sum(reverse(x) * tf.sin(x))
        g = inner.gradient(y, x)
    wanted = -2 * np.cos(x.numpy()) - x.numpy() * np.sin(x.numpy())
    np.testing.assert_allclose(outer.gradient(g, x).numpy(), wanted, rtol=1e-5)


def test_a_wrong_rule_beside_a_declared_gradient_is_still_found_at_order_two(monkeypatch: pytest.MonkeyPatch) -> None:
    from gtape.declare.primitives import REGISTRY

    @tf.custom_gradient(declared="turns the gradient round")
    def reverse(x: Any) -> Any:
        return x * 1.0, lambda g: -g

    monkeypatch.setattr(REGISTRY["sin"], "partials", (lambda xp, y, x: 2 * xp.cos(x),))
    report = tf.verify.check(lambda x: reverse(x) * tf.sin(x), tf.constant(0.4), order=2)
    assert report.verdict == "rule" and report.findings[0].op == "sin"


# ---------------------------------------------------------------- recompute_grad saves memory


def _peak(block: Any) -> int:
    x = tf.Variable(np.linspace(0.1, 1.0, 50_000))
    tracemalloc.start()
    try:
        with tf.GradientTape() as tape:
            y = x
            for _ in range(6):
                y = block(y)
            loss = tf.reduce_sum(y)
        tape.gradient(loss, x)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_recompute_grad_needs_less_memory() -> None:
    def block(y: Any) -> Any:
        for _ in range(8):
            y = tf.sin(y) * tf.cos(y) + y
        return y

    assert _peak(tf.recompute_grad(block)) < 0.4 * _peak(block)


# ---------------------------------------------------------------- the gradient of a lookup at second order


def test_gradient_of_a_lookup_under_an_outer_tape_has_differentiable_rows() -> None:
    table = tf.Variable([[1.0], [2.0], [3.0]])
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = tf.gather(table, [0, 2, 0]) ** 3
        g = inner.gradient(y, table)
        z = tf.reduce_sum(g.values)
    assert isinstance(g, tf.IndexedSlices) and g.indices.numpy().tolist() == [0, 2, 0]
    h = outer.gradient(z, table)
    assert tf.convert_to_tensor(h).numpy().ravel().tolist() == [12.0, 0.0, 18.0]


def test_indexed_slices_as_target_of_a_second_gradient_count_as_dense() -> None:
    table = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = tf.gather(table, [1, 1]) ** 2
        g = inner.gradient(y, table)
    assert tf.convert_to_tensor(outer.gradient(g, table)).numpy().tolist() == [0.0, 4.0]


def test_function_makes_tensors_of_the_arrays_it_is_given() -> None:
    @tf.function
    def slope(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        return tape.gradient(y, x)

    assert slope(np.array([1.0, 2.0])).numpy().tolist() == [2.0, 4.0]


def test_config_knows_one_device_and_functions_that_run_eagerly() -> None:
    assert [d.device_type for d in tf.config.list_physical_devices()] == ["CPU"]
    assert tf.config.list_physical_devices("GPU") == tf.config.list_logical_devices("GPU") == []
    tf.config.set_visible_devices([], "GPU")
    calls = []
    f = tf.function(lambda x: (calls.append(1), 2.0 * x)[1], jit_compile=True)
    assert not tf.config.functions_run_eagerly()
    with tf.verifying(False):  # because a check runs each call
        f(tf.constant(1.0))
        f(tf.constant(1.0))
        try:
            tf.config.run_functions_eagerly(True)
            assert tf.config.functions_run_eagerly()
            f(tf.constant(1.0))
            f(tf.constant(1.0))
        finally:
            tf.config.run_functions_eagerly(False)
        assert len(calls) == 3
        assert float(f(tf.constant(3.0))) == 6.0 and len(calls) == 3


def test_gradients_work_under_another_name_and_a_local_of_that_name_asks_for_nothing() -> None:
    slopes = tf.gradients
    assert tf.function(lambda x: slopes(x * x, x))(tf.constant(3.0))[0].numpy() == 6.0

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        gradients = tape.gradient(y, [x])
        return (lambda: gradients)()

    assert step(tf.constant(3.0))[0].numpy() == 6.0
    assert step._asks is False


def test_custom_gradients_take_part_in_forward_over_reverse_and_reverse_over_forward() -> None:
    @tf.custom_gradient
    def cube(x: Any) -> Any:
        return x * x * x, lambda g: g * 3.0 * x * x

    x, direction = tf.Variable([2.0, 3.0]), tf.constant([1.0, 0.0])
    with tf.autodiff.ForwardAccumulator(x, direction) as acc:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(cube(x))
        g = tape.gradient(y, x)
    assert acc.jvp(g).numpy().tolist() == [12.0, 0.0]
    with tf.GradientTape() as tape:
        with tf.autodiff.ForwardAccumulator(x, direction) as acc:
            y = cube(x)
        j = acc.jvp(y)
    assert tape.gradient(j, x).numpy().tolist() == [12.0, 0.0]


def test_the_transpose_of_a_custom_gradient_does_not_depend_on_its_value() -> None:
    @tf.custom_gradient
    def infinite(x: Any) -> Any:
        return x * np.inf, lambda g: g * 5.0

    with tf.autodiff.ForwardAccumulator(x := tf.constant([1.0]), tf.constant([2.0])) as acc:
        y = infinite(x)
    assert acc.jvp(y).numpy().tolist() == [10.0]


def test_variables_read_inside_a_custom_gradient_have_jacobians_tangents_and_second_derivatives() -> None:
    w, x = tf.Variable(3.0), tf.Variable([2.0, 3.0])

    @tf.custom_gradient
    def scaled(x: Any) -> Any:
        return x * w, lambda g, variables=None: (g * w, [tf.reduce_sum(g * x)])

    with tf.GradientTape() as tape:
        y = scaled(x)
    of_x, of_w = tape.jacobian(y, [x, w])
    assert of_x.numpy().tolist() == [[3.0, 0.0], [0.0, 3.0]] and of_w.numpy().tolist() == [2.0, 3.0]
    with tf.autodiff.ForwardAccumulator(w, tf.constant(1.0)) as acc:
        y = scaled(x)
    assert acc.jvp(y).numpy().tolist() == [2.0, 3.0]
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = tf.reduce_sum(scaled(x) ** 2)
        g = inner.gradient(y, w)
    assert [h.numpy().tolist() for h in outer.gradient(g, [x, w])] == [[24.0, 36.0], 26.0]
