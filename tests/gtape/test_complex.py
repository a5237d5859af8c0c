"""Complex numbers: TensorFlow's conjugate convention, the ops that take them, second order and forward mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf

Z = 1 + 2j


def gradient(f: Callable[..., Any], *args: Any) -> Any:
    xs = [tf.constant(a) for a in args]
    with tf.GradientTape() as tape:
        tape.watch(xs)
        y = f(*xs)
    made = [None if g is None else g.numpy() for g in tape.gradient(y, xs)]
    return made[0] if len(made) == 1 else made


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda z: z * z, np.conj(2 * Z)),
        (tf.square, np.conj(2 * Z)),
        (tf.abs, Z / abs(Z)),
        (tf.math.real, 1),
        (tf.math.imag, 1j),
        (tf.math.conj, 1),
        (lambda z: z * tf.math.conj(z), 2 * Z),
        (tf.math.angle, -0.4 + 0.2j),
        (tf.exp, np.conj(np.exp(Z))),
        (lambda z: 1 / z, np.conj(-1 / Z**2)),
        (lambda z: z**3, np.conj(3 * Z**2)),
        (lambda z: tf.abs(z) ** 2, 2 * Z),
        (lambda z: tf.math.squared_difference(z, 1 + 1j), 2 * (Z - (1 + 1j))),
    ],
)
def test_the_gradient_is_the_conjugate_of_the_holomorphic_derivative(f: Any, expected: complex) -> None:
    np.testing.assert_allclose(gradient(f, Z), expected, rtol=1e-15)


def test_real_sources_through_complex_get_real_gradients() -> None:
    a, b = gradient(lambda a, b: tf.abs(tf.complex(a, b)), 3.0, 4.0)
    assert a.dtype == b.dtype == np.float32
    np.testing.assert_allclose([a, b], [0.6, 0.8], rtol=1e-7)
    g = gradient(lambda x: tf.square(tf.cast(x, tf.complex64)), np.float32(1.5))
    assert g.dtype == np.float32 and g == 3.0


def test_a_cast_from_complex_keeps_the_real_part_and_its_gradient_is_real() -> None:
    assert tf.cast(tf.constant(Z), tf.float32).numpy() == 1.0
    assert gradient(lambda z: tf.cast(z, tf.float64) * 3, Z) == 3 + 0j


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_gradients_keep_the_dtype(dtype: str) -> None:
    z = tf.constant(np.array([0.5 + 1j, -2j], dtype))
    with tf.GradientTape() as tape:
        tape.watch(z)
        parts = [tf.reduce_sum(tf.math.real(tf.tanh(z) * z)), tf.reduce_sum(tf.abs(tf.pow(z, 1.5)))]
    g = tape.gradient(parts, z)
    assert g.dtype == dtype and g.shape == z.shape


def test_output_gradients_are_weights_in_the_same_convention() -> None:
    z, w = tf.constant(Z), tf.constant(0.5 - 1j)
    with tf.GradientTape() as tape:
        tape.watch(z)
        y = tf.square(z)
    assert tape.gradient(y, z, output_gradients=w).numpy() == np.complex128((0.5 - 1j) * np.conj(2 * Z))


def test_a_gradient_by_a_complex_source_is_dLda_plus_i_dLdb() -> None:
    z = np.array([0.3 - 0.7j, -1.1 + 0.2j])

    def loss(z: Any) -> Any:
        return tf.reduce_sum(tf.abs(tf.sin(z)) ** 3) + tf.math.real(tf.reduce_prod(z))

    def by_parts(a: Any, b: Any) -> Any:
        return loss(tf.complex(a, b))

    a, b = gradient(by_parts, z.real, z.imag)
    np.testing.assert_allclose(gradient(loss, z), a + 1j * b, rtol=1e-14)


def test_second_order_and_mixed_modes() -> None:
    z, v = tf.constant(Z), tf.constant(0.5 - 1.5j)
    with tf.GradientTape() as outer:
        outer.watch(z)
        with tf.GradientTape() as inner:
            inner.watch(z)
            y = tf.exp(z) * z
        first = inner.gradient(y, z)
    second = outer.gradient(first, z).numpy()
    np.testing.assert_allclose(second, np.conj(np.exp(Z) * (Z + 2)), rtol=1e-15)
    with tf.autodiff.ForwardAccumulator(z, v) as acc:
        with tf.GradientTape() as inner:
            inner.watch(z)
            y = tf.exp(z) * z
        first = inner.gradient(y, z)
    # the tangent of the conjugate of f' along v
    np.testing.assert_allclose(acc.jvp(first).numpy(), np.conj(np.exp(Z) * (Z + 2) * v.numpy()), rtol=1e-15)


def test_forward_mode_uses_the_derivative_itself() -> None:
    z, v = tf.constant(Z), tf.constant(0.5 - 1.5j)
    with tf.autodiff.ForwardAccumulator(z, v) as acc:
        y, a = tf.sin(z), tf.abs(z)
        b = tf.math.conj(z)
    np.testing.assert_allclose(acc.jvp(y).numpy(), np.cos(Z) * v.numpy(), rtol=1e-15)
    np.testing.assert_allclose(acc.jvp(a).numpy(), (np.conj(Z) * v.numpy()).real / abs(Z), rtol=1e-15)
    assert acc.jvp(b).numpy() == np.conj(v.numpy())


def test_variables_hold_complex_numbers() -> None:
    v = tf.Variable([1 + 1j, 2 - 1j])
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(v * v)
    g = tape.gradient(y, v)
    v.assign_sub(0.5 * g)
    np.testing.assert_allclose(v.numpy(), np.array([1 + 1j, 2 - 1j]) - np.conj([1 + 1j, 2 - 1j]), rtol=1e-15)


def test_a_lookup_gives_slices_with_conjugated_rows() -> None:
    v = tf.Variable([[1 + 1j], [2 - 1j], [3j]])
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.square(tf.gather(v, [2, 0])))
    g = tape.gradient(y, v)
    assert isinstance(g, tf.IndexedSlices)
    assert g.values.numpy().tolist() == [[-6j], [2 - 2j]]


def test_a_custom_gradient_speaks_the_same_convention() -> None:
    @tf.custom_gradient
    def sine(x: Any) -> Any:
        return tf.sin(x), lambda g: g * tf.math.conj(tf.cos(x))

    z = tf.constant(Z)
    np.testing.assert_allclose(gradient(sine, Z), np.conj(np.cos(Z)), rtol=1e-15)
    with tf.autodiff.ForwardAccumulator(z, tf.constant(1j)) as acc:
        y = sine(z)
    np.testing.assert_allclose(acc.jvp(y).numpy(), 1j * np.cos(Z), rtol=1e-15)


def test_the_absolute_value_is_flat_at_zero() -> None:
    assert gradient(tf.abs, np.array([0j, 3 + 4j])).tolist() == [0, 0.6 + 0.8j]
    assert gradient(lambda z: tf.abs(tf.sign(z)), 0j) == 0
    assert tf.sign(tf.constant(3 + 4j)).numpy() == 0.6 + 0.8j


def test_matrices_conjugate_where_adjoint_is_asked_for() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((3, 3)) + 1j * rng.standard_normal((3, 3))
    b = rng.standard_normal((3, 2)) + 1j * rng.standard_normal((3, 2))
    h = np.conj(a).T
    for got, expected in [
        (tf.linalg.adjoint(a), h),
        (tf.matmul(a, b, adjoint_a=True), h @ b),
        (tf.matmul(a, b, transpose_a=True), a.T @ b),
        (tf.matmul(b, a, transpose_a=True, adjoint_b=True), b.T @ h),
        (tf.linalg.solve(a, b, adjoint=True), np.linalg.solve(h, b)),
        (tf.linalg.inv(a, adjoint=True), np.linalg.inv(h)),
        (tf.transpose(a, conjugate=True), h),
        (tf.linalg.matrix_transpose(a, conjugate=True), h),
    ]:
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "f",
    [tf.floor, tf.maximum, tf.nn.relu, tf.nn.softmax, tf.reduce_max, tf.less, tf.atan2, tf.sort, tf.math.softplus],
    ids=lambda f: f.__name__,
)
def test_ops_of_ordered_numbers_say_that_they_are_not_defined(f: Any) -> None:
    z = tf.constant([1 + 1j, 2j])
    with pytest.raises((tf.errors.InvalidArgumentError, TypeError), match="complex128"):
        f(z, z) if f.__name__ in ("maximum", "less", "atan2") else f(z)


def test_real_and_complex_tensors_do_not_mix() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"gtape\.cast"):
        tf.constant(1.0) * tf.constant(1j)
    with pytest.raises(TypeError, match="float64"):
        tf.complex(tf.constant(1.0), tf.constant(np.float64(1.0)))
    with pytest.raises(TypeError):
        tf.complex(tf.constant(1), tf.constant(2))
    assert (tf.constant(1j) * 2).numpy() == 2j  # Python numbers adopt the dtype


@pytest.mark.parametrize(
    "f",
    [lambda z: z * z[::-1], tf.exp, tf.abs, tf.math.imag, lambda z: z * tf.math.conj(z[::-1])],
    ids=["product", "exp", "abs", "imag", "not holomorphic"],
)
def test_rows_of_a_complex_jacobian_are_the_gradients_of_the_elements(f: Any) -> None:
    z = tf.constant([1 + 2j, 3 - 1j])
    with tf.GradientTape(persistent=True, verify="strict") as tape:
        tape.watch(z)
        y = f(z)
        elements = [y[0], y[1]]
    expected = np.stack([np.zeros(2) if g is None else g.numpy() for g in (tape.gradient(e, z) for e in elements)])
    assert np.allclose(tape.jacobian(y, z).numpy(), expected, rtol=1e-14, atol=0)


def test_a_complex_batch_jacobian_is_conjugated_as_gradients_are() -> None:
    z = tf.constant([[1 + 2j, 3 - 1j], [0.5j, 2.0]])
    with tf.GradientTape(verify="strict") as tape:
        tape.watch(z)
        y = z * z
    expected = np.stack([np.diag(2 * np.conj(row)) for row in z.numpy()])
    assert np.allclose(tape.batch_jacobian(y, z).numpy(), expected, rtol=1e-14, atol=0)


def test_jacobians_of_complex_jacobians_are_second_derivatives() -> None:
    z = tf.constant([1 + 2j, 3 - 1j])
    with tf.GradientTape() as outer:
        outer.watch(z)
        with tf.GradientTape() as inner:
            inner.watch(z)
            y = z * z * z
        first = inner.jacobian(y, z)
    second = outer.jacobian(first, z).numpy()
    expected = np.zeros((2, 2, 2), complex)
    expected[[0, 1], [0, 1], [0, 1]] = np.conj(6 * z.numpy())
    assert np.allclose(second, expected, rtol=1e-14, atol=0)


def test_equality_and_parts_of_real_numbers() -> None:
    z = tf.constant([1 + 1j, 2.0])
    assert (z == tf.constant([1 + 1j, 3.0])).numpy().tolist() == [True, False]
    x = tf.constant([1.0, -2.0])
    assert tf.math.real(x) is x and tf.math.conj(x) is x
    assert tf.math.imag(x).numpy().tolist() == [0, 0]
    assert tf.math.angle(x).numpy().tolist() == [0, np.float32(np.pi)]
    assert tf.complex(np.inf, 1.0).numpy() == complex(np.inf, 1.0)
