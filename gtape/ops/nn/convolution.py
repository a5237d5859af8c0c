"""Convolutions under TensorFlow's names, made of the primitives of `gtape.ops.nn.correlation`."""

from __future__ import annotations

import math
from typing import Any

from gtape import errors
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.kernels.convolution import Geometry, output_sizes
from gtape.ops.nn.correlation import correlate
from gtape.ops.shape.spatial import channels_first, move_channels, paddings, rank, reshaped, steps
from gtape.tensors.operands import operands
from gtape.tensors.tensor import Tensor

__all__ = ["atrous_conv2d", "conv1d", "conv2d", "conv3d", "convolution", "depthwise_conv2d", "separable_conv2d"]

Sizes = tuple[int, ...]


def places_of(size: Sizes, taps: Sizes, geometry: Geometry, op: str) -> Sizes:
    """The spatial axes of the output. InvalidArgumentError if the filter is longer than the padded input."""
    places = output_sizes(size, taps, geometry)
    if any(o < 0 for o in places):
        raise errors.InvalidArgumentError(
            f"{op}: Computed output size would be negative: {list(places)}, for an input of {list(size)} places, a "
            f"window of {list(taps)} and dilations {list(geometry.dilations)}; use padding='SAME' or a smaller window"
        )
    return places


def images_and_filters(input: Any, filters: Any, n: int, data_format: Any, op: str) -> tuple[Tensor, Tensor, bool]:
    """Images with the channels last, filters, and whether the channels were the second axis."""
    x, w = operands(input, filters)
    first = channels_first(data_format, n, op)
    rank(w, n + 2, "filter", op)
    rank(x, n + 2, "input", op, more=True)
    return (move_channels(x, n, back=True) if first else x), w, first


def _convolve(
    input: Any, filters: Any, strides: Any, padding: Any, data_format: Any, dilations: Any, n: int, op: str,
    depthwise: bool = False,
) -> Tensor:  # fmt: skip
    x, w, first = images_and_filters(input, filters, n, data_format, op)
    shape, taps = x._layout.shape, w._layout.shape[:n]
    channels, size, batch = shape[-1], shape[-n - 1 : -1], shape[: -n - 1]
    seen, made = w._layout.shape[n:]
    if depthwise:
        if seen != channels:
            raise errors.InvalidArgumentError(
                f"{op}: the input and the filter must have the same depth: {channels} vs {seen}"
            )
        w = reshaped(w, (*taps, 1, seen * made))
        seen, made = 1, seen * made
    if not seen or channels % seen or made % (channels // seen or 1):
        raise errors.InvalidArgumentError(
            f"{op}: the input has {channels} channels, but the filter of shape {w._layout.tensor_shape} takes "
            f"{seen} for each group, and the number of groups must divide its {made} output channels"
        )
    every, apart = steps(strides, n, first, "strides", op), steps(dilations, n, first, "dilations", op)
    around = paddings(padding, size, taps, every, apart, first, op)
    geometry = Geometry(every, apart, around, max(channels // seen, 1))
    places = places_of(size, taps, geometry, op)
    y: Tensor = correlate(reshaped(x, (math.prod(batch), *size, channels)), w, **geometry._asdict())
    y = reshaped(y, (*batch, *places, made))
    return move_channels(y, n, back=False) if first else y


@diagnosed
def convolution(
    input: Any,
    filters: Any,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: Any = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Convolution over the spatial axes of the filters, in the sense of machine learning: filters are not reversed.

    Parameters
    ----------
    input : tensor, shape [batch, *space, channels]
        There may be more batch axes.
    filters : tensor, shape [*window, channels / groups, output channels]
        Dtype of `input`. Filters with fewer channels than `input` make a grouped convolution.
    strides : int or sequence of int, optional
        The distance between neighbouring output positions. One number for all spatial axes, or one for each.
    dilations : int or sequence of int, optional
        The distance between neighbouring elements of the filter. One number for all spatial axes, or one for each.
    padding : {"VALID", "SAME"} or list of pairs
        The zeros around the input. "VALID" adds none, "SAME" as many as ceil(size / stride) output positions need.
        Pairs give the numbers of zeros before and after each axis, in the order of `data_format`.
    data_format : str, optional
        Whether the channels come last ("NWC", "NHWC", "NDHWC"; the default) or second ("NCW", "NCHW", "NCDHW").

    Returns
    -------
    Tensor, shape [batch, *places, output channels]

    Raises
    ------
    ValueError
        If a list has a wrong length, the filter has no spatial axes, or a `data_format` of one axis is unknown.
    gtape.errors.InvalidArgumentError
        If `data_format` or `padding` is unknown, or if shapes or dtypes do not fit.

    Examples
    --------
    >>> x = tf.reshape([1.0, 2.0, 4.0, 8.0], [1, 4, 1])
    >>> tf.nn.convolution(x, tf.reshape([-1.0, 1.0], [2, 1, 1])).numpy().ravel()
    array([1., 2., 4.], dtype=float32)
    """
    x, w = operands(input, filters)
    n = len(w._layout.shape) - 2
    if n < 1:
        raise ValueError(f"convolution: the filter must have 3 axes at least, not {n + 2}")
    return _convolve(x, w, strides, padding, data_format, dilations, n, "convolution")


@diagnosed
@documented_like(convolution)
def conv1d(
    input: Any,
    filters: Any,
    stride: Any,
    padding: Any,
    data_format: str | None = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Convolution along one axis.

    Parameters
    ----------
    input : tensor, shape [batch, width, channels]
        There may be more batch axes.
    filters : tensor, shape [window, channels, output channels]
    stride : int
        The distance between neighbouring output positions.
    data_format : {"NWC", "NCW"}

    Returns
    -------
    Tensor, shape [batch, places, output channels]

    Examples
    --------
    >>> x = tf.reshape([1.0, 2.0, 4.0, 8.0], [1, 4, 1])
    >>> tf.nn.conv1d(x, tf.ones([3, 1, 1]), stride=1, padding="SAME").numpy().ravel()
    array([ 3.,  7., 14., 12.], dtype=float32)
    """
    return _convolve(input, filters, stride, padding, data_format, dilations, 1, "conv1d")


@diagnosed
@documented_like(convolution)
def conv2d(
    input: Any,
    filters: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Convolution of images.

    Parameters
    ----------
    input : tensor, shape [batch, height, width, channels]
        There may be more batch axes.
    filters : tensor, shape [height, width, channels / groups, output channels]
        Fewer channels than in `input` make a grouped convolution, as in `convolution`.
    strides : int or sequence of int
        One number, two, or four with 1 for the batch and the channels.
    padding : {"VALID", "SAME"} or list of pairs
        Pairs are ``[[0, 0], [top, bottom], [left, right], [0, 0]]``, in the order of `data_format`.
    data_format : {"NHWC", "NCHW"}

    Returns
    -------
    Tensor, shape [batch, height, width, output channels]

    Examples
    --------
    >>> x = tf.reshape(tf.range(9.0), [1, 3, 3, 1])
    >>> tf.nn.conv2d(x, tf.ones([2, 2, 1, 1]), strides=1, padding="VALID")[0, :, :, 0].numpy()
    array([[ 8., 12.],
           [20., 24.]], dtype=float32)
    """
    return _convolve(input, filters, strides, padding, data_format, dilations, 2, "conv2d")


@diagnosed
@documented_like(convolution)
def conv3d(
    input: Any,
    filters: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NDHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Convolution of volumes.

    Parameters
    ----------
    input : tensor, shape [batch, depth, height, width, channels]
        There may be more batch axes.
    filters : tensor, shape [depth, height, width, channels, output channels]
    strides : int or sequence of int
        One number, three, or five with 1 for the batch and the channels.
    data_format : {"NDHWC", "NCDHW"}

    Returns
    -------
    Tensor, shape [batch, depth, height, width, output channels]

    Examples
    --------
    >>> tf.nn.conv3d(tf.ones([1, 3, 3, 3, 1]), tf.ones([2, 2, 2, 1, 1]), strides=2, padding="VALID").numpy().ravel()
    array([8.], dtype=float32)
    """
    return _convolve(input, filters, strides, padding, data_format, dilations, 3, "conv3d")


@diagnosed
@documented_like(conv2d)
def atrous_conv2d(value: Any, filters: Any, rate: int, padding: Any, name: str | None = None) -> Tensor:
    """`conv2d` with holes between the elements of the filter: the same dilation along both axes.

    Parameters
    ----------
    value : tensor, shape [batch, height, width, channels]
    filters : tensor, shape [height, width, channels, output channels]
    rate : int
        The dilation.

    Examples
    --------
    >>> x = tf.reshape(tf.range(9.0), [1, 3, 3, 1])
    >>> tf.nn.atrous_conv2d(x, tf.ones([2, 2, 1, 1]), rate=2, padding="VALID").numpy().ravel()
    array([16.], dtype=float32)
    """
    return _convolve(value, filters, 1, padding, None, rate, 2, "atrous_conv2d")


@diagnosed
@documented_like(conv2d)
def depthwise_conv2d(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Convolution of each channel with filters of its own.

    Parameters
    ----------
    filter : tensor, shape [height, width, channels, multiplier]

    Returns
    -------
    Tensor, shape [batch, height, width, channels * multiplier]
        The outputs of one channel are neighbours.

    Examples
    --------
    >>> x = tf.reshape([1.0, 10.0, 2.0, 20.0], [1, 1, 2, 2])
    >>> tf.nn.depthwise_conv2d(x, tf.ones([1, 2, 2, 1]), strides=[1, 1, 1, 1], padding="VALID").numpy().ravel()
    array([ 3., 30.], dtype=float32)
    """
    return _convolve(input, filter, strides, padding, data_format, dilations, 2, "depthwise_conv2d", depthwise=True)


@diagnosed
@documented_like(conv2d)
def separable_conv2d(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """`depthwise_conv2d`, then a linear mixture of the channels at each position.

    Parameters
    ----------
    depthwise_filter : tensor, shape [height, width, channels, multiplier]
    pointwise_filter : tensor, shape [1, 1, channels * multiplier, output channels]

    Examples
    --------
    >>> x = tf.reshape([1.0, 10.0, 2.0, 20.0], [1, 1, 2, 2])
    >>> tf.nn.separable_conv2d(x, tf.ones([1, 2, 2, 1]), tf.ones([1, 1, 2, 1]), [1, 1, 1, 1], "VALID").numpy().ravel()
    array([33.], dtype=float32)
    """
    op = "separable_conv2d"
    deep = _convolve(input, depthwise_filter, strides, padding, data_format, dilations, 2, op, depthwise=True)
    deep, point = operands(deep, pointwise_filter)
    if len(point._layout.shape) != 4 or point._layout.shape[:2] != (1, 1):
        raise errors.InvalidArgumentError(
            f"{op}: the pointwise filter must have the shape [1, 1, channels, output channels], not "
            f"{point._layout.tensor_shape}"
        )
    return _convolve(deep, point, 1, "VALID", data_format, None, 2, op)
