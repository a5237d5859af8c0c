"""For editors and type checkers. Written by .ci/write_stubs.py."""

import builtins
from typing import Any

from gtape.ops.nn.activation_functions import crelu
from gtape.ops.nn.activation_functions import gelu
from gtape.ops.nn.activation_functions import leaky_relu
from gtape.ops.nn.activation_functions import silu
from gtape.ops.nn.activation_functions import silu as swish
from gtape.ops.nn.convolution import atrous_conv2d
from gtape.ops.nn.convolution import conv1d
from gtape.ops.nn.convolution import conv2d
from gtape.ops.nn.convolution import conv3d
from gtape.ops.nn.convolution import convolution
from gtape.ops.nn.convolution import depthwise_conv2d
from gtape.ops.nn.convolution import separable_conv2d
from gtape.ops.nn.convolution_transposed import atrous_conv2d_transpose
from gtape.ops.nn.convolution_transposed import conv1d_transpose
from gtape.ops.nn.convolution_transposed import conv2d_transpose
from gtape.ops.nn.convolution_transposed import conv3d_transpose
from gtape.ops.nn.convolution_transposed import conv_transpose
from gtape.ops.nn.cross_entropy import sigmoid_cross_entropy_with_logits
from gtape.ops.nn.cross_entropy import softmax_cross_entropy_with_logits
from gtape.ops.nn.cross_entropy import sparse_softmax_cross_entropy_with_logits
from gtape.ops.nn.cross_entropy import weighted_cross_entropy_with_logits
from gtape.ops.nn.dropout import dropout
from gtape.ops.nn.lookups import bias_add
from gtape.ops.nn.lookups import embedding_lookup
from gtape.ops.nn.lookups import l2_loss
from gtape.ops.nn.lookups import l2_normalize
from gtape.ops.nn.lookups import moments
from gtape.ops.nn.losses import compute_average_loss
from gtape.ops.nn.losses import log_poisson_loss
from gtape.ops.nn.normalization import batch_normalization
from gtape.ops.nn.normalization import local_response_normalization
from gtape.ops.nn.normalization import lrn
from gtape.ops.nn.normalization import normalize_moments
from gtape.ops.nn.normalization import sufficient_statistics
from gtape.ops.nn.normalization import weighted_moments
from gtape.ops.nn.pooling import avg_pool
from gtape.ops.nn.pooling import avg_pool1d
from gtape.ops.nn.pooling import avg_pool2d
from gtape.ops.nn.pooling import avg_pool3d
from gtape.ops.nn.pooling import max_pool
from gtape.ops.nn.pooling import max_pool1d
from gtape.ops.nn.pooling import max_pool2d
from gtape.ops.nn.pooling import max_pool3d
from gtape.ops.nn.pooling import max_pool_with_argmax
from gtape.ops.nn.pooling import pool
from gtape.ops.nn.softmax import log_softmax
from gtape.ops.nn.softmax import softmax
from gtape.ops.picking.combined import in_top_k
from gtape.ops.picking.combined import zero_fraction
from gtape.ops.picking.sorting import top_k
from gtape.ops.shape.blocks import depth_to_space
from gtape.ops.shape.blocks import space_to_batch
from gtape.ops.shape.blocks import space_to_depth
from gtape.tensors.tensor import Tensor

__all__ = [
    "atrous_conv2d", "atrous_conv2d_transpose", "avg_pool", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "batch_normalization", "bias_add", "compute_average_loss", "conv1d", "conv1d_transpose", "conv2d",
    "conv2d_transpose", "conv3d", "conv3d_transpose", "conv_transpose", "convolution", "crelu", "depth_to_space",
    "depthwise_conv2d", "dropout", "elu", "embedding_lookup", "gelu", "hard_sigmoid", "in_top_k", "l2_loss",
    "l2_normalize", "leaky_relu", "local_response_normalization", "log_poisson_loss", "log_softmax", "lrn", "max_pool",
    "max_pool1d", "max_pool2d", "max_pool3d", "max_pool_with_argmax", "mish", "moments", "normalize_moments", "pool",
    "relu", "relu6", "selu", "separable_conv2d", "sigmoid", "sigmoid_cross_entropy_with_logits", "silu", "softmax",
    "softmax_cross_entropy_with_logits", "softplus", "softsign", "space_to_batch", "space_to_depth",
    "sparse_softmax_cross_entropy_with_logits", "sufficient_statistics", "swish", "tanh", "top_k",
    "weighted_cross_entropy_with_logits", "weighted_moments", "zero_fraction",
]  # fmt: skip

def elu(features: Any, name: builtins.str | None = ...) -> Tensor:
    """Exponential linear unit: x for x >= 0, exp(x) - 1 below."""

def hard_sigmoid(x: Any, name: builtins.str | None = ...) -> Tensor:
    """(x + 3) / 6 clipped to [0, 1]; the slopes at -3 and 3 are 0."""

def mish(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Mish, x*tanh(softplus(x))."""

def relu(features: Any, name: builtins.str | None = ...) -> Tensor:
    """Rectified linear unit, max(x, 0); the slope at 0 is 0."""

def relu6(features: Any, name: builtins.str | None = ...) -> Tensor:
    """min(max(x, 0), 6); the slopes at 0 and 6 are 0."""

def selu(features: Any, name: builtins.str | None = ...) -> Tensor:
    """Scaled exponential linear unit: scale*x for x >= 0, scale*alpha*(exp(x) - 1) below."""

def sigmoid(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Logistic sigmoid, 1 / (1 + exp(-x))."""

def softplus(features: Any, name: builtins.str | None = ...) -> Tensor:
    """Softplus, log(1 + exp(x))."""

def softsign(features: Any, name: builtins.str | None = ...) -> Tensor:
    """Softsign, x / (1 + abs(x))."""

def tanh(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Hyperbolic tangent."""
