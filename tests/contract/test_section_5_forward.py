"""ForwardAccumulator (section 5 of the contract)."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import numpy as np
import pytest
from nestings import MODES, second

import gtape as tf

Accumulator = tf.autodiff.ForwardAccumulator


def jvp(f: Any, x: Any, t: Any) -> Any:
    x = tf.constant(x)
    with Accumulator(x, tf.constant(t)) as acc:
        y = f(x)
    return acc.jvp(y)


def test_jvp_is_the_directional_derivative() -> None:
    assert jvp(lambda x: x * x, [1.0, 2.0], [1.0, 10.0]).numpy().tolist() == [2.0, 40.0]
    got = jvp(lambda x: tf.matmul(x, x), [[1.0, 2.0], [3.0, 4.0]], [[1.0, 0.0], [0.0, 0.0]])
    assert got.numpy().tolist() == [[2.0, 2.0], [3.0, 0.0]]


# ---------------------------------------------------------------- construction


def test_structures_must_match() -> None:
    x = tf.constant([1.0, 2.0])
    with pytest.raises(ValueError):
        Accumulator(x, [1.0, 0.0])
    with pytest.raises(ValueError):
        Accumulator([x, x * 1.0], [tf.ones([2])])


def test_python_scalars_take_the_primals_dtype() -> None:
    x, y = tf.constant(2.0, tf.float64), tf.constant(3.0)
    with Accumulator([x, y], [1, 2.0]) as acc:
        z = x * x
        w = y * y
    assert acc.jvp(z).dtype == tf.float64 and acc.jvp(z).numpy() == 4.0
    assert acc.jvp(w).numpy() == 12.0


def test_tangent_of_another_dtype_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="float64"):
        Accumulator(tf.constant(1.0), tf.constant(1.0, tf.float64))


def test_same_primal_twice_is_a_value_error() -> None:
    x = tf.constant(1.0)
    with pytest.raises(ValueError, match="multiple times"):
        Accumulator([x, x], [tf.constant(1.0), tf.constant(1.0)])


def test_primal_that_is_not_floating_only_logs(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "gtape"):
        Accumulator(tf.constant(1), tf.constant(1))
    assert "must be floating" in caplog.text


# ---------------------------------------------------------------- jvp()


def test_jvp_only_looks_up_whenever_and_repeatedly() -> None:
    x = tf.constant(3.0)
    acc = Accumulator(x, tf.constant(2.0))
    assert acc.jvp(x).numpy() == 2.0
    with acc:
        y = x * x
        assert acc.jvp(y).numpy() == 12.0
    assert acc.jvp(y).numpy() == acc.jvp(y).numpy() == 12.0
    assert [g.numpy() for g in acc.jvp([x, y])] == [2.0, 12.0]


def test_unknown_tensors_give_none_or_zeros() -> None:
    x, other = tf.constant(3.0), tf.constant([1.0, 2.0])
    with Accumulator(x, tf.constant(1.0)) as acc:
        y = other * 2.0
    assert acc.jvp(y) is None
    assert acc.jvp(y, unconnected_gradients="zero").numpy().tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="'bad' is not a valid UnconnectedGradients"):
        acc.jvp(y, unconnected_gradients="bad")


def test_reentrant_after_the_block_but_not_inside() -> None:
    x = tf.constant(3.0)
    acc = Accumulator(x, tf.constant(1.0))
    with acc, pytest.raises(ValueError, match=r"^Accumulator is already recording\.$"):
        acc.__enter__()
    outside = x * x
    with acc:
        y = x * x
    assert acc.jvp(outside) is None
    assert acc.jvp(y).numpy() == 6.0


# ---------------------------------------------------------------- variables, dead ends


def test_variables_keep_their_tangent_through_assignments() -> None:
    v = tf.Variable(3.0)
    with Accumulator(v, tf.constant(1.0)) as acc:
        v.assign(5.0)
        y = v * v
    assert acc.jvp(y).numpy() == 10.0


DEAD_ENDS: dict[str, Any] = {
    "stop_gradient": tf.stop_gradient,
    "through integers": lambda x: tf.cast(tf.cast(x, tf.int32), tf.float32),
    "integers": lambda x: tf.cast(x, tf.int32),
    "floor": tf.floor,
    "comparison": lambda x: x > 1.0,
    "places": lambda x: tf.math.top_k(tf.reshape(x, [1]), 1)[1],
}


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("name", DEAD_ENDS)
def test_dead_ends_give_none(name: str, verify: bool) -> None:
    with tf.verifying() if verify else contextlib.nullcontext():
        assert jvp(DEAD_ENDS[name], 3.5, 1.0) is None


# ---------------------------------------------------------------- nesting


def test_outer_accumulator_differentiates_the_inner_jvp_and_not_the_reverse() -> None:
    x = tf.constant(2.0)
    with Accumulator(x, tf.constant(1.0)) as outer:
        with Accumulator(x, tf.constant(1.0)) as inner:
            y = x * x * x
        first = inner.jvp(y)
    assert first.numpy() == 12.0
    assert outer.jvp(first).numpy() == 12.0
    assert inner.jvp(outer.jvp(y)) is None


def test_forward_over_back() -> None:
    x = tf.Variable([1.0, 2.0])
    with Accumulator(x, tf.constant([1.0, 0.0])) as acc:
        with tf.GradientTape() as tape:
            y = x[0] * x[0] * x[1]
        g = tape.gradient(y, x)
    assert acc.jvp(g).numpy().tolist() == [4.0, 2.0]


def test_gradient_after_the_accumulator_has_no_tangent() -> None:
    x = tf.Variable(3.0)
    with Accumulator(x, tf.constant(1.0)) as acc, tf.GradientTape() as tape:
        y = x * x
    assert acc.jvp(tape.gradient(y, x)) is None


def test_back_over_forward() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        with Accumulator(x, tf.constant(1.0)) as acc:
            y = x * x * x
        t = acc.jvp(y)
    assert t.numpy() == 27.0
    assert tape.gradient(t, x).numpy() == 18.0


# ---------------------------------------------------------------- custom gradients


def test_custom_rule_is_used_in_forward_mode() -> None:
    # Section 14: TensorFlow ignores it when the inside is differentiable.
    @tf.custom_gradient(declared="twice the derivative")
    def f(x: Any) -> Any:
        return x * x, lambda g: g * 4.0 * x

    assert jvp(f, [1.0, 2.0], [1.0, 1.0]).numpy().tolist() == [4.0, 8.0]


def test_custom_rule_around_numpy_is_used_in_forward_mode() -> None:
    @tf.custom_gradient
    def f(x: Any) -> Any:
        return tf.constant(np.sin(x.numpy())), lambda g: g * tf.cos(x)

    assert jvp(f, 0.0, 1.0).numpy() == 1.0


# ---------------------------------------------------------------- smaller print


@pytest.mark.parametrize(
    ("primals", "tangents"),
    [
        (lambda x: x, lambda t: [1.0, 2.0]),
        (lambda x: [x], lambda t: t),
        (lambda x: [x], lambda t: [t, t]),
        (lambda x: {"a": x}, lambda t: {"b": t}),
    ],
    ids=["list for a vector", "tensor for a list", "too many", "other keys"],
)
def test_structures_that_differ_are_value_errors(primals: Any, tangents: Any) -> None:
    x, t = tf.constant([1.0, 2.0]), tf.constant([1.0, 0.0])
    with pytest.raises(ValueError):
        Accumulator(primals(x), tangents(t))


def test_a_tuple_for_a_list_is_a_type_error() -> None:
    x = tf.constant([1.0, 2.0])
    with pytest.raises(TypeError):
        Accumulator([x], (x,))


def test_shapes_are_not_checked_when_it_is_made() -> None:
    Accumulator(tf.constant([1.0, 2.0]), tf.constant([1.0, 2.0, 3.0]))


def test_arrays_are_tangents_of_the_primals_dtype() -> None:
    x = tf.constant([3.0, 1.0])
    for array in (np.array([1.0, 2.0], np.float32), np.array([1.0, 2.0])):
        with Accumulator(x, array) as acc:
            y = x * x
        assert acc.jvp(y).dtype == tf.float32 and acc.jvp(y).numpy().tolist() == [6.0, 4.0]


@pytest.mark.parametrize(("tangent", "error"), [(None, ValueError), ("up", TypeError), (1j, TypeError)])
def test_tangents_that_are_no_numbers_of_the_primals_kind_are_refused(tangent: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Accumulator(tf.constant(3.0), tangent)


@pytest.mark.parametrize("thing", [3.0, None, "x"], ids=repr)
def test_only_tensors_and_variables_are_looked_up(thing: Any) -> None:
    acc = Accumulator(tf.constant(3.0), 1.0)
    for expected in (TypeError, AttributeError):
        with pytest.raises(expected, match="tensors and variables"):
            acc.jvp(thing)


def test_slices_have_slices_as_their_tangent() -> None:
    x = tf.Variable([1.0, 2.0, 3.0])
    with Accumulator(x, tf.constant([1.0, 1.0, 1.0])) as acc:
        with tf.GradientTape() as tape:
            y = tf.gather(x, [2, 2]) ** 2
        slices = tape.gradient(y, x)
    made = acc.jvp(slices)
    assert isinstance(made, tf.IndexedSlices)
    np.testing.assert_array_equal(tf.convert_to_tensor(made), [0.0, 0.0, 4.0])
    assert acc.jvp(tf.IndexedSlices(tf.constant([1.0]), tf.constant([0]))) is None


def test_dicts_come_back_in_the_structure_that_is_asked_for() -> None:
    x = tf.constant([1.0, 2.0])
    with Accumulator({"a": x}, {"a": tf.constant([1.0, 2.0])}) as acc:
        y = x * x
    made = acc.jvp({"r": y, "l": [x, (y,)]})
    assert made["r"].numpy().tolist() == [2.0, 8.0] and made["l"][0].numpy().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("bad", ["bad", None, 0, "ZERO"], ids=repr)
def test_bad_option_has_the_enums_own_text(bad: Any) -> None:
    x = tf.constant(3.0)
    acc = Accumulator(x, 1.0)
    with pytest.raises(ValueError, match=f"^{bad!r} is not a valid UnconnectedGradients$"):
        acc.jvp(x, unconnected_gradients=bad)


def test_zeros_have_shape_and_dtype_of_what_is_looked_up() -> None:
    acc = Accumulator(tf.constant(3.0), 1.0)
    for dtype in ("float64", "int32"):
        made = acc.jvp(tf.ones([2, 1], dtype), tf.UnconnectedGradients.ZERO)
        assert made.shape == (2, 1) and made.dtype == dtype and not made.numpy().any()


def test_enter_returns_the_accumulator_and_an_exception_ends_it() -> None:
    x = tf.constant(3.0)
    acc = Accumulator(x, 1.0)
    with pytest.raises(KeyError), acc as entered:
        assert entered is acc
        y = x * x
        raise KeyError
    assert acc.jvp(y).numpy() == 6.0
    assert acc.jvp(x * x) is None


def test_leaving_it_unentered_is_harmless() -> None:
    Accumulator(tf.constant(3.0), 1.0).__exit__(None, None, None)


def test_variables_that_are_not_trainable_have_tangents_too() -> None:
    v = tf.Variable(3.0, trainable=False)
    with Accumulator(v, 2.0) as acc:
        y = v * v
    assert acc.jvp(y).numpy() == 12.0 and acc.jvp(v).numpy() == 2.0


def test_dead_primals_are_not_kept() -> None:
    import weakref

    x = tf.constant([3.0])
    ref = weakref.ref(x)
    acc = Accumulator(x, tf.constant([1.0]))
    del x
    assert ref() is None
    del acc


@tf.custom_gradient
def squared(x: Any) -> Any:
    return x * x, lambda g: g * 2.0 * x


FOLLOWED: dict[str, Any] = {
    "product": lambda x: x * x,
    "one of several": lambda x: tf.split(x * x, 2)[0],
    "matmul": lambda x: tf.matmul(x[None], x[:, None]),
    "custom_gradient": squared,
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_accumulators_alone_follow_keeps_no_inputs(name: str) -> None:
    import weakref

    x = tf.constant([3.0, 4.0])
    with Accumulator(x, tf.constant([1.0, 1.0])) as outer:
        with Accumulator(x, tf.constant([1.0, 0.0])) as acc:
            middle = x * 2.0
            y = FOLLOWED[name](middle)
        tangent = acc.jvp(y)
    refs = weakref.ref(x), weakref.ref(middle)
    del x, middle
    assert [ref() for ref in refs] == [None, None]
    assert acc.jvp(y) is tangent and outer.jvp(tangent) is not None


def test_three_levels() -> None:
    x = tf.constant(2.0)
    with Accumulator(x, 1.0) as a:
        with Accumulator(x, 1.0) as b:
            with Accumulator(x, 1.0) as c:
                y = x**4
            first = c.jvp(y)
        second = b.jvp(first)
    assert (first.numpy(), second.numpy(), a.jvp(second).numpy()) == (32.0, 48.0, 48.0)


def test_work_in_another_thread_has_no_tangent() -> None:
    import threading

    x, made = tf.constant(3.0), []
    with Accumulator(x, 1.0) as acc:
        thread = threading.Thread(target=lambda: made.append(x * x))
        thread.start()
        thread.join()
    assert acc.jvp(made[0]) is None


def test_the_log_line_for_an_integer_primal_names_its_dtype(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "gtape"):
        Accumulator(tf.constant(3), tf.constant(1))
    assert caplog.messages == ["The dtype of the watched primal must be floating (e.g. gtape.float32), got gtape.int32"]


def test_a_tape_inside_sees_no_products_of_the_accumulator() -> None:
    x = tf.constant(3.0)
    with Accumulator(x, 1.0) as acc, tf.GradientTape() as tape:
        tape.watch(x)
        y = x**3
        product = acc.jvp(y)
    assert tape.gradient(product, x) is None


def test_a_tape_outside_differentiates_the_products() -> None:
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with Accumulator(x, 1.0) as acc:
            y = x**3
        product = acc.jvp(y)
    assert tape.gradient(product, x).numpy() == 18.0


def test_recompute_grad_takes_what_an_accumulator_does_not_follow() -> None:
    x = tf.constant(0.7, tf.float64)
    block = tf.recompute_grad(lambda v: tf.sin(v) * 0.5)
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)):
        with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as inner:
            y = 2.0 * x
        assert float(block(inner.jvp(y))) == float(tf.sin(tf.constant(2.0, tf.float64)) * 0.5)


def test_recompute_grad_works_forward() -> None:
    # NotImplementedError in TensorFlow.
    x = tf.constant(3.0)
    with Accumulator(x, 1.0) as acc:
        y = tf.recompute_grad(lambda v: v * v)(x)
    assert acc.jvp(y).numpy() == 6.0


def test_tangents_made_while_an_outer_tape_is_paused_are_constants_to_it() -> None:
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with tf.autodiff.ForwardAccumulator(x, 1.0) as acc, tape.stop_recording():
            y = x * x
        assert tape.gradient(acc.jvp(y) * x, x).numpy() == 6.0


SMOOTH = {
    "powers": lambda x: tf.matmul(tf.matmul(x, x), x),
    "softmax": tf.nn.softmax,
    "inverse": tf.linalg.inv,
    "Cholesky": lambda x: tf.linalg.cholesky(tf.matmul(x, x, transpose_b=True) + tf.eye(3, dtype=x.dtype)),
    "products": lambda x: tf.reduce_prod(x, 1),
    "deviations": lambda x: tf.math.reduce_std(x, 1),
    "products with a constant": lambda x: tf.matmul(x * x, tf.ones((3, 2), x.dtype)),
    "convolution": lambda x: tf.nn.conv1d(x[None], tf.ones((2, 3, 1), x.dtype), 1, "SAME") ** 3,
}


@pytest.mark.parametrize("name", SMOOTH)
def test_second_derivatives_are_the_same_in_all_four_modes(name: str) -> None:
    rng = np.random.default_rng(4)
    x, h, k = rng.uniform(0.5, 2, (3, 3, 3))
    x += np.eye(3)
    weights = rng.normal(size=SMOOTH[name](tf.constant(x)).shape)
    found = [second(lambda x: tf.reduce_sum(SMOOTH[name](x) * weights), x, h, k, mode) for mode in MODES]
    assert found[0] != 0
    np.testing.assert_allclose(found, found[0], rtol=1e-10)
