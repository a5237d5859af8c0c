"""Contract, section 10, the row of neural networks: every op has exact first and second derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check

RNG = np.random.default_rng(29)


def draw(*shape: int) -> Any:
    return RNG.standard_normal(shape)


VECTOR = (draw(5),)
IMAGE = draw(1, 3, 3, 2)
LOGITS = draw(2, 3)
LABELS = np.array([[0.25, 0.5, 0.25], [0.0, 0.0, 1.0]])

OPS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "relu": (tf.nn.relu, VECTOR),
    "relu6": (tf.nn.relu6, VECTOR),
    "leaky_relu": (tf.nn.leaky_relu, VECTOR),
    "elu": (tf.nn.elu, VECTOR),
    "selu": (tf.nn.selu, VECTOR),
    "gelu": (tf.nn.gelu, VECTOR),
    "gelu approximate": (lambda x: tf.nn.gelu(x, approximate=True), VECTOR),
    "swish": (tf.nn.swish, VECTOR),
    "crelu": (tf.nn.crelu, VECTOR),
    "hard_sigmoid": (tf.nn.hard_sigmoid, VECTOR),
    "mish": (tf.nn.mish, VECTOR),
    "softmax": (tf.nn.softmax, (LOGITS,)),
    "log_softmax": (tf.nn.log_softmax, (LOGITS,)),
    "softmax cross-entropy": (tf.nn.softmax_cross_entropy_with_logits, (LABELS, LOGITS)),
    "sparse cross-entropy": (lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits([2, 0], x), (LOGITS,)),
    "sigmoid cross-entropy": (tf.nn.sigmoid_cross_entropy_with_logits, (LABELS, LOGITS)),
    "weighted cross-entropy": (lambda z, x: tf.nn.weighted_cross_entropy_with_logits(z, x, 2.0), (LABELS, LOGITS)),
    "l2_loss": (tf.nn.l2_loss, VECTOR),
    "log_poisson_loss": (tf.nn.log_poisson_loss, (np.array([0.0, 2.0]), draw(2))),
    "conv1d": (lambda x, w: tf.nn.conv1d(x, w, 2, "SAME"), (draw(1, 4, 2), draw(3, 2, 1))),
    "conv2d": (lambda x, w: tf.nn.conv2d(x, w, 1, "VALID"), (IMAGE, draw(2, 2, 2, 1))),
    "conv3d": (lambda x, w: tf.nn.conv3d(x, w, 1, "VALID"), (draw(1, 2, 2, 2, 1), draw(2, 1, 2, 1, 1))),
    "depthwise_conv2d": (lambda x, w: tf.nn.depthwise_conv2d(x, w, [1] * 4, "VALID"), (IMAGE, draw(2, 2, 2, 1))),
    "separable_conv2d": (
        lambda x, w, p: tf.nn.separable_conv2d(x, w, p, [1] * 4, "VALID"),
        (IMAGE, draw(2, 1, 2, 1), draw(1, 1, 2, 1)),
    ),
    "conv1d_transpose": (lambda x, w: tf.nn.conv1d_transpose(x, w, [1, 4, 1], 2), (draw(1, 2, 1), draw(3, 1, 1))),
    "conv2d_transpose": (
        lambda x, w: tf.nn.conv2d_transpose(x, w, [1, 3, 3, 1], 2), (draw(1, 2, 2, 1), draw(2, 2, 1, 1)),
    ),
    "conv3d_transpose": (
        lambda x, w: tf.nn.conv3d_transpose(x, w, [1, 2, 2, 2, 1], 2), (draw(1, 1, 1, 1, 2), draw(2, 1, 2, 1, 2)),
    ),
    "max_pool1d": (lambda x: tf.nn.max_pool1d(x, 2, 1, "SAME"), (draw(1, 4, 1),)),
    "max_pool2d": (lambda x: tf.nn.max_pool2d(x, 2, 1, "VALID"), (IMAGE,)),
    "max_pool3d": (lambda x: tf.nn.max_pool3d(x, 2, 1, "SAME"), (draw(1, 2, 2, 1, 1),)),
    "avg_pool1d": (lambda x: tf.nn.avg_pool1d(x, 2, 1, "SAME"), (draw(1, 4, 1),)),
    "avg_pool2d": (lambda x: tf.nn.avg_pool2d(x, 2, 1, "VALID"), (IMAGE,)),
    "avg_pool3d": (lambda x: tf.nn.avg_pool3d(x, 2, 1, "SAME"), (draw(1, 2, 2, 1, 1),)),
    "bias_add": (tf.nn.bias_add, (IMAGE, draw(2))),
    "moments": (lambda x: tf.stack(tf.nn.moments(x, [0])), (LOGITS,)),
    "batch_normalization": (
        lambda *xs: tf.nn.batch_normalization(*xs, variance_epsilon=1e-3),
        (LOGITS, draw(3), draw(3) ** 2, draw(3), draw(3)),
    ),
    "local response normalization": (lambda x: tf.nn.lrn(x, 1), (IMAGE,)),
    "dropout": (lambda x: tf.nn.dropout(x, 0.5, seed=1), VECTOR),
    "embedding_lookup": (lambda x: tf.nn.embedding_lookup(x, [1, 0, 1]), (LOGITS,)),
    "l2_normalize": (tf.nn.l2_normalize, VECTOR),
    "space_to_depth": (lambda x: tf.nn.space_to_depth(x, 2), (draw(1, 2, 2, 1),)),
    "depth_to_space": (lambda x: tf.nn.depth_to_space(x, 2), (draw(1, 1, 1, 4),)),
    "space_to_batch": (lambda x: tf.space_to_batch(x, [2], [[1, 0]]), (draw(1, 3),)),
    "batch_to_space": (lambda x: tf.batch_to_space(x, [2], [[0, 1]]), (draw(2, 2),)),
    "extract_patches": (
        lambda x: tf.image.extract_patches(x, [1, 2, 2, 1], [1] * 4, [1] * 4, "VALID"), (IMAGE,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_first_and_second_derivatives_are_exact(name: str) -> None:
    f, arrays = OPS[name]

    # A dropped element has dropped derivatives: the mask must be the same whenever f is called.
    def square(*xs: Any) -> Any:
        tf.random.set_seed(3)
        return f(*xs) ** 2  # so that linear ops have second derivatives, too

    report = check(square, *map(tf.constant, arrays), order=2)
    assert report.ok, report.summary()
    assert report.checked


@pytest.mark.parametrize("name", OPS)
def test_float32_stays_float32_and_the_gradient_is_verified(name: str) -> None:
    f, arrays = OPS[name]
    xs = [tf.Variable(a.astype(np.float32)) for a in arrays]
    with tf.GradientTape(verify=True) as tape:
        y = f(*xs)
    assert y.dtype == tf.float32
    for x, g in zip(xs, tape.gradient(y, xs), strict=True):
        assert g.dtype == tf.float32 and tf.convert_to_tensor(g).shape == x.shape
