"""Normalization by moments and by the squares of neighbouring channels; moments with weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import errors
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.scalars import int_of
from gtape.declare.conventions import DEVIATIONS, RATIOS, conventional
from gtape.declare.primitives import REGISTRY
from gtape.kernels.broadcasting import broadcast_shapes
from gtape.ops.nn.correlation import correlate
from gtape.ops.reduction.sums import sum_op
from gtape.ops.shape.spatial import rank, reshaped
from gtape.tensors.axes import axes_of, count_of, kept_shape
from gtape.tensors.operands import float_operand, operands
from gtape.tensors.tensor import Tensor, as_operand, wrap

__all__ = [
    "batch_normalization", "local_response_normalization", "lrn", "normalize_moments", "sufficient_statistics",
    "weighted_moments",
]  # fmt: skip


@conventional(DEVIATIONS)
@diagnosed
def batch_normalization(
    x: Any, mean: Any, variance: Any, offset: Any, scale: Any, variance_epsilon: Any, name: str | None = None
) -> Tensor:
    """``(x - mean) / sqrt(variance + variance_epsilon) * scale + offset``.

    Parameters
    ----------
    x : tensor of floats
    mean, variance : tensor
        Dtype of `x`. The shapes broadcast with `x`. `moments` computes both.
    offset, scale : tensor or None
        None leaves out the addition or the multiplication.
    variance_epsilon : float
        A small number, because the root must not be 0.

    Returns
    -------
    Tensor, shape of `x`

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If shapes or dtypes do not fit.

    Examples
    --------
    >>> tf.nn.batch_normalization([1.0, 3.0], 2.0, 4.0, None, 10.0, 0.0).numpy()
    array([-5.,  5.], dtype=float32)
    """
    x, mean, variance = operands(float_operand(x, "batch_normalization"), mean, variance)
    # x is centred first, because two large products would cancel, and divided at once, because the slope of 1 / sqrt at
    # a large variance underflows.
    y: Tensor = (x - mean) / REGISTRY["sqrt"](variance + variance_epsilon)
    if scale is not None:
        y = y * scale
    return y if offset is None else y + offset


@conventional(RATIOS)
@diagnosed
def local_response_normalization(
    input: Any, depth_radius: int = 5, bias: float = 1, alpha: float = 1, beta: float = 0.5, name: str | None = None
) -> Tensor:
    """Divide each pixel by ``(bias + alpha * s) ** beta``, with s the sum of squares of neighbouring channels.

    Parameters
    ----------
    input : tensor of floats, shape [batch, height, width, channels]
    depth_radius : int
        The number of neighbouring channels on each side.
    bias, alpha, beta : float

    Returns
    -------
    Tensor, shape of `input`

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `input` does not have four axes, or `depth_radius` is negative.

    Examples
    --------
    >>> tf.nn.local_response_normalization([[[[3.0, 4.0]]]], bias=0.0).numpy()
    array([[[[0.6, 0.8]]]], dtype=float32)
    """
    op = "local_response_normalization"
    x = float_operand(input, op)
    rank(x, 4, "input", op)
    radius = int_of(depth_radius, op, "depth_radius")
    if radius < 0:
        raise errors.InvalidArgumentError(f"{op}: `depth_radius` must not be negative. Received: {radius}")
    shape = x._layout.shape
    rows = shape[0] * shape[1] * shape[2]
    squares = reshaped(REGISTRY["square"](x), (rows, shape[3], 1))
    ones = wrap(np.ones((2 * radius + 1, 1, 1), x._layout.dtype))
    line = {"strides": (1,), "dilations": (1,), "padding": ((radius, radius),), "groups": 1}
    near = reshaped(correlate(squares, ones, **line), shape)
    made: Tensor = x / REGISTRY["pow"](near * alpha + bias, beta)
    return made


@diagnosed
@documented_like(local_response_normalization)
def lrn(
    input: Any, depth_radius: int = 5, bias: float = 1, alpha: float = 1, beta: float = 0.5, name: str | None = None
) -> Tensor:
    """`local_response_normalization` under its short name.

    Examples
    --------
    >>> tf.nn.lrn([[[[3.0, 4.0]]]], bias=0.0).numpy()
    array([[[[0.6, 0.8]]]], dtype=float32)
    """
    return local_response_normalization(input, depth_radius, bias, alpha, beta)


@diagnosed
def weighted_moments(
    x: Any, axes: Any, frequency_weights: Any, keepdims: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """The weighted mean and variance over some axes.

    Parameters
    ----------
    x : tensor of floats
    axes : int or sequence of int
    frequency_weights : tensor
        Positive numbers, which broadcast with `x`.
    keepdims : bool
        Whether the axes stay, with size 1.

    Returns
    -------
    mean, variance : Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If an axis is out of range or shapes do not fit.

    Examples
    --------
    >>> mean, variance = tf.nn.weighted_moments(tf.constant([1.0, 4.0]), axes=[0], frequency_weights=[2.0, 1.0])
    >>> mean.numpy(), variance.numpy()
    (np.float32(2.0), np.float32(2.0))
    """
    x = float_operand(x, "weighted_moments")
    w = as_operand(frequency_weights, x)
    if w._layout.dtype != x._layout.dtype:
        w = REGISTRY["cast"](w, dtype=x._layout.dtype)
    shape = broadcast_shapes(x._layout.shape, w._layout.shape)
    whole = w if w._layout.shape == shape else REGISTRY["broadcast_to"](w, shape=shape)
    axis = axes_of(axes, len(shape))
    total = sum_op(whole, axis=axis, keepdims=True)
    mean = sum_op(whole * x, axis=axis, keepdims=True) / total
    variance = sum_op(whole * REGISTRY["square"](x - mean), axis=axis, keepdims=True) / total
    if keepdims:
        return mean, variance
    left = tuple([d for i, d in enumerate(kept_shape(shape, axis)) if i - len(shape) not in axis])
    return reshaped(mean, left), reshaped(variance, left)


@diagnosed
def sufficient_statistics(
    x: Any, axes: Any, shift: Any = None, keepdims: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The count, the sum and the sum of squares over some axes, for `normalize_moments`.

    Parameters
    ----------
    x : tensor of floats
    axes : int or sequence of int
    shift : tensor, optional
        A number to subtract first. A shift near the mean keeps the digits of the variance.
    keepdims : bool
        Whether the axes stay, with size 1.

    Returns
    -------
    count : Tensor, scalar
    mean_ss, variance_ss : Tensor
        The sums of the shifted elements and of their squares.
    shift : Tensor or None

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If an axis is out of range.

    Examples
    --------
    >>> count, total, squares, _ = tf.nn.sufficient_statistics(tf.constant([1.0, 3.0]), axes=[0])
    >>> count.numpy(), total.numpy(), squares.numpy()
    (np.float32(2.0), np.float32(4.0), np.float32(10.0))
    """
    x = float_operand(x, "sufficient_statistics")
    axis = axes_of(axes, len(x._layout.shape))
    count = wrap(np.asarray(count_of(x._layout.shape, axis), dtype=x._layout.dtype))
    if shift is not None:
        x, shift = operands(x, shift)
        x = x - shift
    total = sum_op(x, axis=axis, keepdims=bool(keepdims))
    return count, total, sum_op(REGISTRY["square"](x), axis=axis, keepdims=bool(keepdims)), shift


@diagnosed
def normalize_moments(
    counts: Any, mean_ss: Any, variance_ss: Any, shift: Any, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """The mean and the variance from the results of `sufficient_statistics`.

    Parameters
    ----------
    counts : tensor
        The number of summed elements.
    mean_ss, variance_ss : tensor of floats
        The sums of the shifted elements and of their squares.
    shift : tensor or None
        The number that was subtracted from the elements.

    Returns
    -------
    mean, variance : Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If shapes or dtypes do not fit.

    Examples
    --------
    >>> mean, variance = tf.nn.normalize_moments(2.0, 4.0, 10.0, None)
    >>> mean.numpy(), variance.numpy()
    (np.float32(2.0), np.float32(1.0))
    """
    total, squares, n = operands(mean_ss, variance_ss, counts)
    mean = total / n
    variance = squares / n - REGISTRY["square"](mean)
    return (mean if shift is None else mean + shift), variance
