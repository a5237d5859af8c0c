"""Blocks of pixels and patches: where every pixel goes, and that its gradient comes back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtape as tf
from gtape.errors import InvalidArgumentError
from gtape.verify import check


def count(*shape: int) -> Any:
    return np.arange(1.0, 1.0 + np.prod(shape, dtype=int)).reshape(shape)


def back(f: Any, x: Any) -> Any:
    """The gradient of f at x, its cotangent being what f gives: x itself, where f only moves elements."""
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x, output_gradients=y).numpy()


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_space_to_depth_puts_the_pixels_of_a_block_side_by_side(data_format: str) -> None:
    x = count(2, 4, 6, 3)
    given_ = x if data_format == "NHWC" else x.transpose(0, 3, 1, 2)
    deep = tf.nn.space_to_depth(given_, 2, data_format).numpy()
    y = deep if data_format == "NHWC" else deep.transpose(0, 2, 3, 1)
    assert y.shape == (2, 2, 3, 12)
    assert np.array_equal(y[1, 1, 2], x[1, 2:4, 4:6].reshape(-1))
    assert np.array_equal(tf.nn.depth_to_space(deep, 2, data_format), given_)
    assert np.array_equal(back(lambda v: tf.nn.space_to_depth(v, 2, data_format), given_), given_)
    assert np.array_equal(back(lambda v: tf.nn.depth_to_space(v, 2, data_format), deep), deep)


@settings(max_examples=(settings.default.max_examples + 1) // 2)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=3),
    st.integers(1, 2),
    st.booleans(),
)
def test_batch_to_space_undoes_space_to_batch(axes: Any, batch: int, channels: bool) -> None:
    blocks = [b for b, _, _ in axes]
    pads = [(min(p, b * k - 1), 0) for b, k, p in axes]
    space = [b * k - p for (b, k, _), (p, _) in zip(axes, pads, strict=True)]
    x = count(batch, *space, *((2,) if channels else ()))
    y = tf.space_to_batch(x, blocks, pads)
    assert y.shape[0] == batch * np.prod(blocks)
    assert np.array_equal(tf.batch_to_space(y, blocks, pads), x)
    assert np.array_equal(back(lambda v: tf.space_to_batch(v, blocks, pads), x), x)


def test_space_to_batch_makes_an_image_of_each_place_in_a_block() -> None:
    x = count(1, 4, 1)
    y = tf.nn.space_to_batch(x, [2], [[1, 1]]).numpy()
    assert y[..., 0].tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 0.0]]
    assert np.array_equal(tf.space_to_batch_nd(x, [2], [[1, 1]]), y)
    assert tf.nn.batch_to_space(y, [2], [[2, 1]]).numpy().ravel().tolist() == [2.0, 3.0, 4.0]


@pytest.mark.parametrize("padding", ["VALID", "SAME"])
def test_patches_times_filters_are_a_convolution(padding: str) -> None:
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((2, 6, 5, 2)), rng.standard_normal((3, 2, 2, 4))
    patches = tf.image.extract_patches(x, [1, 3, 2, 1], [1, 2, 1, 1], [1, 1, 2, 1], padding).numpy()
    y = tf.nn.conv2d(x, w, [2, 1], padding, dilations=[1, 2])
    np.testing.assert_allclose(patches @ w.reshape(-1, 4), y, rtol=1e-12, atol=1e-13)


def test_derivatives_of_patches_are_exact() -> None:
    x = tf.constant(np.random.default_rng(4).standard_normal((1, 3, 3, 1)))
    ones = [1, 1, 1, 1]
    assert check(lambda v: tf.image.extract_patches(v, [1, 2, 2, 1], ones, ones, "SAME") ** 3, x, order=2).ok


ONES = np.ones((2, 4, 4, 3))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: tf.nn.space_to_depth(ONES, 3), InvalidArgumentError, "blocks of 3 x 3"),
        (lambda: tf.nn.space_to_depth(ONES, 1), InvalidArgumentError, "greater than 1"),
        (lambda: tf.nn.space_to_depth(ONES, 2, "NCWH"), InvalidArgumentError, "'NHWC' or 'NCHW'"),
        (lambda: tf.nn.depth_to_space(ONES, 2), InvalidArgumentError, "3 channels"),
        (lambda: tf.nn.depth_to_space(ONES[0], 2), InvalidArgumentError, "4 axes"),
        (lambda: tf.space_to_batch(ONES, [3], [[0, 0]]), InvalidArgumentError, "blocks of"),
        (lambda: tf.space_to_batch(ONES, [2, 2], [[0, 0]]), InvalidArgumentError, "2 pairs"),
        (lambda: tf.space_to_batch(ONES, [2], [[-1, 1]]), InvalidArgumentError, "not negative"),
        (lambda: tf.batch_to_space(ONES, [3], [[0, 0]]), InvalidArgumentError, "a batch of 2"),
        (lambda: tf.batch_to_space(ONES, [2], [[9, 0]]), InvalidArgumentError, "crops"),
        (lambda: tf.image.extract_patches(ONES, [2, 2], [1] * 4, [1] * 4, "SAME"), InvalidArgumentError, "length 4"),
        (lambda: tf.image.extract_patches(ONES, [1, 9, 1, 1], [1] * 4, [1] * 4, "VALID"), InvalidArgumentError, "neg"),
    ],
)
def test_what_does_not_fit_is_said(call: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_one_block_size_stands_for_all_axes_of_crops() -> None:
    x = tf.reshape(tf.range(16.0), [4, 2, 2, 1])
    one, each = tf.batch_to_space(x, 2, [[0, 1], [0, 0]]), tf.batch_to_space(x, [2, 2], [[0, 1], [0, 0]])
    np.testing.assert_array_equal(one.numpy(), each.numpy())
