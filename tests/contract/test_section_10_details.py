"""Section 10 of the contract, the corners: other dtypes, empty shapes, and arguments that do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf

IAE = tf.errors.InvalidArgumentError
X = np.arange(6.0).reshape(2, 3)
Z = np.array([3 + 4j, 1j])


def test_text_without_axes_is_given_some_as_numbers_are() -> None:
    for made in (tf.reshape("a", [-1]), tf.expand_dims("a", 0), tf.repeat("a", 1)):
        assert made.numpy().tolist() == [b"a"] and made.dtype == tf.string
    assert tf.squeeze("a").numpy() == b"a"


def test_text_is_padded_with_nothing_or_what_is_said() -> None:
    assert tf.pad(["a"], [[1, 1]]).numpy().tolist() == [b"", b"a", b""]
    assert tf.pad(["a"], [[0, 1]], constant_values="z").numpy().tolist() == [b"a", b"z"]


def test_a_part_of_a_variable_of_text_can_be_assigned() -> None:
    words = tf.Variable(["a", "b", "c"])
    words[0].assign("q")
    words[1:].assign(["r", "s"])
    assert words.numpy().tolist() == [b"q", b"r", b"s"]


@pytest.mark.parametrize(
    "inputs", [(tf.constant(v) for v in (1.0, 2.0)), {"a": 1.0, "b": 2.0}.values(), np.array([1.0, 2.0], np.float32)]
)
def test_add_n_takes_anything_that_lists_tensors(inputs: Any) -> None:
    made = tf.add_n(inputs)
    assert made.numpy() == 3.0 and made.dtype == tf.float32


@pytest.mark.parametrize("inputs", [iter([]), {}, "ab", 3, tf.constant(1.0), np.array(1.0), None])
def test_add_n_of_nothing_is_refused(inputs: Any) -> None:
    with pytest.raises(ValueError, match="non-empty list"):
        tf.add_n(inputs)


@pytest.mark.parametrize("limit", [tf.constant(2.5, tf.float64), tf.Variable(2.5, dtype=tf.float16), np.float64(2.5)])
def test_the_limit_of_clip_by_norm_may_have_any_dtype(limit: Any) -> None:
    with tf.GradientTape(persistent=True) as tape:
        if tf.is_tensor(limit):
            tape.watch(limit)
        y = tf.clip_by_norm(tf.constant([3.0, 4.0]), limit)
    assert y.dtype == tf.float32 and y.numpy().tolist() == [1.5, 2.0]
    if tf.is_tensor(limit):
        grad = tape.gradient(y, limit)
        assert grad.dtype == limit.dtype
        np.testing.assert_allclose(grad.numpy(), 1.4, rtol=1e-3)
    assert tf.clip_by_norm(tf.constant([3.0, 4.0]), tf.constant(10)).numpy().tolist() == [3.0, 4.0]


def test_stop_gradient_keeps_slices() -> None:
    slices = tf.IndexedSlices(tf.constant([1.0]), tf.constant([2]), tf.constant([4]))
    made = tf.stop_gradient(slices)
    assert isinstance(made, tf.IndexedSlices) and made.values.numpy().tolist() == [1.0]
    assert made.indices is slices.indices and made.dense_shape is slices.dense_shape


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tf.einsum(3, tf.constant(1.0)), TypeError),
        (lambda: tf.Module(name=3), TypeError),
        (lambda: tf.constant([1.0, 2.0], shape=-1), ValueError),
        (lambda: tf.constant([1.0, 2.0], shape=[None]), ValueError),
        (lambda: tf.constant([1.0, 2.0], shape=[3]), TypeError),
    ],
)
def test_arguments_of_another_kind_raise_what_tensorflow_raises(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


def test_the_shape_of_a_constant_may_be_one_number() -> None:
    assert tf.constant([1.0, 2.0], shape=2).shape == (2,)
    assert tf.constant(1.0, shape=np.int64(3)).numpy().tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("value", ["text", [True, False], [1, 2], [1.5]])
def test_stop_gradient_takes_every_dtype(value: Any) -> None:
    given = tf.constant(value)
    stopped = tf.stop_gradient(given)
    assert stopped is not given
    assert stopped.dtype == given.dtype
    assert np.array_equal(stopped.numpy(), given.numpy())


@pytest.mark.parametrize(
    "f",
    [
        lambda axis: tf.reduce_sum(X, axis=axis),
        lambda axis: tf.math.reduce_std(X, axis=axis),
        lambda axis: tf.reduce_logsumexp(X, axis=axis),
        lambda axis: tf.math.cumsum(X, axis=axis),
    ],
)
def test_an_axis_that_is_a_float_is_refused_whatever_was_asked_before(f: Any) -> None:
    f(1)
    with pytest.raises(TypeError, match=r"axis must be .* got 1\.0"):
        f(1.0)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tf.norm(X, axis=[0]), ValueError),
        (lambda: tf.norm(X, axis=1.5), ValueError),
        (lambda: tf.reshape(X, None), ValueError),
        (lambda: tf.expand_dims(X, None), ValueError),
        (lambda: tf.expand_dims(X, [0, 1]), IAE),
        (lambda: tf.concat([X, X], [0, 1]), IAE),
        (lambda: tf.tile([1.0], 2), IAE),
        (lambda: tf.argmin(X, axis=[0]), IAE),
        (lambda: tf.argmax(X, axis=1.0), IAE),
        (lambda: tf.reduce_prod(["a"]), IAE),
        (lambda: tf.cumsum(["a"]), IAE),
        (lambda: tf.math.segment_sum(["a"], [0]), IAE),
        (lambda: tf.math.segment_max(Z, [0, 0]), IAE),
        (lambda: tf.math.unsorted_segment_min(Z, [0, 0], 2), IAE),
        (lambda: tf.nn.l2_loss([1, 2]), IAE),
        (lambda: tf.nn.l2_loss(Z), IAE),
        (lambda: tf.math.nextafter(np.ones(2), np.ones(3)), IAE),
    ],
)
def test_what_does_not_fit_is_refused_in_words(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        call()
    assert len(str(caught.value)) > 20


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([np.nan, 1.0, 0.0], (1, 2)),
        ([1.0, np.nan, 2.0], (2, 0)),
        ([2.0, -np.inf, np.nan, np.inf], (3, 1)),
        ([np.nan, np.nan], (0, 0)),
    ],
)
def test_argmax_and_argmin_pass_nan_over(given: list[float], wanted: tuple[int, int]) -> None:
    assert (int(tf.argmax(given)), int(tf.argmin(given))) == wanted


def test_reshape_of_nothing_finds_the_size_that_is_left() -> None:
    assert tf.reshape(np.zeros((0, 3)), [0, -1]).shape == (0, 3)
    assert tf.reshape(np.zeros((0, 3)), [-1, 0]).shape == (3, 0)
    assert tf.reshape(np.zeros((0, 3)), [-1, 3]).shape == (0, 3)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_euclidean_lengths_of_complex_vectors_are_complex(dtype: str) -> None:
    z = tf.constant(Z, dtype)
    for y in (tf.norm(z), tf.norm(z, ord=2), tf.norm(z, axis=0), tf.math.reduce_euclidean_norm(z)):
        assert y.dtype == dtype
    for y in (tf.norm(z, ord=1), tf.norm(z, ord=np.inf), tf.norm(z, ord=3), tf.math.reduce_std(z)):
        assert y.dtype == tf.math.real(z).dtype
    with tf.GradientTape() as tape:
        tape.watch(z)
        y = tf.math.real(tf.norm(z))
    np.testing.assert_allclose(tape.gradient(y, z), Z / np.sqrt(26), rtol=1e-6)


def test_complex_vectors_are_normalized_by_their_length() -> None:
    z = tf.constant(Z)
    with tf.GradientTape() as tape:
        tape.watch(z)
        y = tf.math.l2_normalize(z)
        first = tf.math.real(y)[0]
    np.testing.assert_allclose(y, Z / np.sqrt(26), rtol=1e-15)
    np.testing.assert_allclose(
        tape.gradient(first, z), np.array([1 / np.sqrt(26), 0]) - 3 * Z / 26**1.5, rtol=1e-14, atol=1e-16
    )


def test_silu_of_complex_numbers_is_the_product() -> None:
    z = tf.constant(Z / 4)
    with tf.GradientTape() as tape:
        tape.watch(z)
        y = tf.nn.silu(z)
    s = 1 / (1 + np.exp(-Z / 4))
    np.testing.assert_allclose(y, Z / 4 * s, rtol=1e-14)
    np.testing.assert_allclose(tape.gradient(y, z), np.conj(s + Z / 4 * s * (1 - s)), rtol=1e-14)


def test_a_negative_clip_norm_counts_as_zero() -> None:
    for limit in (-1.0, tf.constant(-1.0)):
        assert tf.clip_by_norm([3.0, 4.0], limit).numpy().tolist() == [0.0, 0.0]


def test_a_lookup_beside_a_dense_use_is_differentiated_twice() -> None:
    x = tf.constant([1.0, 2.0, 3.0], tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.gather(x, [0]) * tf.reduce_sum(x)
        first = inner.gradient(y, x)
        weighted = first * tf.constant([1.0, 10.0, 100.0], tf.float64)
    assert first.numpy().tolist() == [7.0, 1.0, 1.0]
    assert outer.gradient(weighted, x).numpy().tolist() == [112.0, 1.0, 1.0]


def test_leaky_relu_wants_a_number_and_takes_integers() -> None:
    assert tf.nn.leaky_relu([-1, 2]).dtype == "float32"
    with pytest.raises(TypeError, match="Python number"):
        tf.nn.leaky_relu([1.0], alpha=tf.constant(0.3))


@pytest.mark.parametrize(("images", "padding"), [((1, 2, 2, 1), "VALID"), ((0, 3, 3, 1), "SAME")])
def test_convolutions_without_a_result_have_empty_jacobians(images: tuple[int, ...], padding: str) -> None:
    x, w = tf.ones(images), tf.ones([3, 3, 1, 1])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, w])
        y = tf.nn.conv2d(x, w, 1, padding)
    for found, source in zip(tape.jacobian(y, [x, w]), [x, w], strict=True):
        assert found.shape == (*y.shape, *source.shape)


def test_a_sequence_mask_cuts_off_the_fractions_of_lengths_where_a_length_is_given() -> None:
    assert tf.sequence_mask([2.5, 1.0], 3).numpy().tolist() == [[True, True, False], [True, False, False]]
    assert tf.sequence_mask([2.5, 1.0]).numpy().tolist() == [[True, True, True], [True, False, False]]
