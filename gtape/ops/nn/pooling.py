"""Pooling: the greatest elements and the means of windows.

A primitive without derivatives finds the index of the greatest element, and a gather takes the element. A mean is a
correlation with ones, divided by the number of elements of the window inside the input.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from gtape import dtypes, errors
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.shown import shown
from gtape.declare.conventions import shows_kinks_of
from gtape.declare.primitives import REGISTRY
from gtape.ops.nn.correlation import correlate
from gtape.ops.nn.pooling_windows import Padding, Sizes, Windows, along, counts_inside, read_windows, window_argmax
from gtape.ops.shape.decisions import decided
from gtape.ops.shape.spatial import move_channels, reshaped
from gtape.tensors.operands import require_floats
from gtape.tensors.tensor import Tensor, as_operand, wrap

__all__ = [
    "avg_pool", "avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool", "max_pool1d", "max_pool2d", "max_pool3d",
    "max_pool_with_argmax", "pool",
]  # fmt: skip


def _argmax(x: Tensor, first: bool, w: Windows, op: str) -> Tensor:
    """The index in the flat input of the greatest element of each window."""

    def all_axes(space: Sizes, depth: int) -> Sizes:
        return (1, depth, *space) if first else (1, *space, depth)

    channels = x._layout.shape[1 if first else -1]
    if w.depth > channels:
        raise errors.InvalidArgumentError(f"{op}: a window of {w.depth} channels does not fit {channels} channels")
    n = len(w.taps)
    padding = w.geometry.padding
    around: Padding = ((0, 0), (0, 0), *padding) if first else ((0, 0), *padding, (0, 0))
    return window_argmax(
        x,
        window=all_axes(w.taps, w.depth),
        strides=all_axes(w.geometry.strides, w.depth_stride),
        dilations=all_axes(w.geometry.dilations, 1) if n else (),
        padding=around,
    )


def _greatest(x: Tensor, at: Tensor) -> Tensor:
    size = x._layout.size
    return REGISTRY["gather"](reshaped(x, (size,)), at, axis=-1, size=size)


def _max(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: Any, dilations: Any, n: int, op: str
) -> Tensor:
    x, first, windows = read_windows(input, ksize, strides, padding, data_format, dilations, n, op)
    return _greatest(x, _argmax(x, first, windows, op))


def _mean(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: Any, dilations: Any, n: int, op: str
) -> Tensor:
    if not isinstance(padding, str):
        raise ValueError(
            f"{op}: `padding` must be 'VALID' or 'SAME', since a mean of explicit zeros and one without them differ; "
            f"use gtape.pad first. Received: {shown(padding)}"
        )
    x, first, windows = read_windows(input, ksize, strides, padding, data_format, dilations, n, op)
    require_floats(x, op)
    if (windows.depth, windows.depth_stride) != (1, 1):
        raise errors.UnimplementedError(f"{op}: means over the channels are not supported; use gtape.reduce_mean")
    x = move_channels(x, n, back=True) if first else x
    channels, dtype = x._layout.shape[-1], x._layout.dtype
    geometry = windows.geometry._replace(groups=max(channels, 1))
    ones = wrap(np.ones((*windows.taps, 1, channels), dtype))
    total = correlate(x, ones, **geometry._asdict())
    if any(p != (0, 0) for p in geometry.padding):
        counts = np.ones((1,) * (n + 1), np.int64)
        for a, c in enumerate(counts_inside(x._layout.shape[1:-1], windows.taps, geometry)):
            counts = counts * along(a, c, n + 1)
    else:
        counts = np.asarray(math.prod(windows.taps))
    y: Tensor = REGISTRY["divide"](total, wrap(counts.astype(dtype)))
    return move_channels(y, n, back=False) if first else y


def _axes(input: Any, op: str) -> int:
    """The number of spatial axes of the input."""
    n = len(as_operand(input)._layout.shape) - 2
    if not 1 <= n <= 3:
        raise ValueError(f"{op}: the input must have 3, 4 or 5 axes, not {n + 2}")
    return n


@diagnosed
def max_pool(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """The greatest element of each window, over one to three spatial axes.

    If several elements are the greatest, the gradient flows to the first. A NaN counts as the greatest.

    Parameters
    ----------
    input : tensor, shape [batch, *space, channels]
    ksize, strides : int or sequence of int
        The size of the window, and the distance between windows: one number for all spatial axes, one for each, or one
        for each axis in the order of `data_format` (the channels may have a window, too).
    padding : {"VALID", "SAME"} or list of pairs
        "VALID" takes only windows inside the input. "SAME" and pairs add elements outside, which are never the
        greatest.
    data_format : str, optional
        Whether the channels come last (the default) or second: "NWC", "NCW", "NHWC", "NCHW", "NDHWC", "NCDHW".

    Returns
    -------
    Tensor, shape [batch, *places, channels]

    Raises
    ------
    ValueError
        If a list has a wrong length.
    gtape.errors.InvalidArgumentError
        If `data_format` or `padding` is unknown, or a window does not fit the input.

    Examples
    --------
    >>> x = tf.reshape([1.0, 3.0, 2.0, 2.0], [1, 4, 1])
    >>> tf.nn.max_pool(x, ksize=2, strides=2, padding="VALID").numpy().ravel()
    array([3., 2.], dtype=float32)
    """
    return _max(input, ksize, strides, padding, data_format, 1, _axes(input, "max_pool"), "max_pool")


class _Pool(Protocol):
    def __call__(
        self, input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = ..., name: str | None = ...
    ) -> Tensor: ...


def _over(n: int, pooled: Callable[..., Tensor], whole: Callable[..., Tensor], summary: str, example: str) -> _Pool:
    """The pool over `n` spatial axes. `whole` is the function for any number of axes."""
    op, axes = f"{whole.__name__}{n}d", "DHW"[3 - n :]
    last, second = f"N{axes}C", f"NC{axes}"

    def function(
        input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = last, name: str | None = None
    ) -> Tensor:
        return pooled(input, ksize, strides, padding, data_format, 1, n, op)

    function.__name__ = function.__qualname__ = op
    shape = f"[batch, {', '.join(('depth', 'height', 'width')[3 - n :])}, channels]"
    function.__doc__ = f"""{summary}

    Parameters
    ----------
    input : tensor, shape {shape}
    data_format : {{"{last}", "{second}"}}

    Returns
    -------
    Tensor, shape {shape}

    Examples
    --------
    {example}
    """
    return diagnosed(documented_like(whole)(function))


max_pool1d = _over(
    1,
    _max,
    max_pool,
    "The greatest element of each window along one axis.",
    """>>> x = tf.reshape([1.0, 3.0, 2.0], [1, 3, 1])
    >>> tf.nn.max_pool1d(x, ksize=2, strides=1, padding="SAME").numpy().ravel()
    array([3., 3., 2.], dtype=float32)""",
)
shows_kinks_of(window_argmax, lambda f, x: f(x[None, :, None], 2, 2, "VALID"))(max_pool1d)
max_pool2d = _over(
    2,
    _max,
    max_pool,
    "The greatest element of each window of an image.",
    """>>> x = tf.reshape(tf.range(16.0), [1, 4, 4, 1])
    >>> tf.nn.max_pool2d(x, ksize=2, strides=2, padding="VALID")[0, :, :, 0].numpy()
    array([[ 5.,  7.],
           [13., 15.]], dtype=float32)""",
)
max_pool3d = _over(
    3,
    _max,
    max_pool,
    "The greatest element of each window of a volume.",
    """>>> x = tf.reshape(tf.range(8.0), [1, 2, 2, 2, 1])
    >>> tf.nn.max_pool3d(x, ksize=2, strides=2, padding="VALID").numpy().ravel()
    array([7.], dtype=float32)""",
)


class MaxPoolWithArgmax(NamedTuple):
    """The result of `max_pool_with_argmax`."""

    output: Tensor
    argmax: Tensor


@diagnosed
@documented_like(max_pool)
def max_pool_with_argmax(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    output_dtype: Any = dtypes.int64,
    include_batch_in_index: bool = False,
    name: str | None = None,
) -> MaxPoolWithArgmax:
    """The greatest element of each window of an image, and its index.

    Parameters
    ----------
    input : tensor, shape [batch, height, width, channels]
    data_format : {"NHWC"}
    output_dtype : dtype
        The dtype of `argmax`: int32 or int64.
    include_batch_in_index : bool
        Whether `argmax` is an index of the whole flat input instead of the image.

    Returns
    -------
    output : Tensor, shape [batch, height, width, channels]
    argmax : Tensor of integers, of the same shape
        ``(y * width + x) * channels + channel``. Not differentiable.

    Raises
    ------
    ValueError, gtape.errors.InvalidArgumentError
        As for `max_pool`. Also a ValueError for another `data_format`.

    Examples
    --------
    >>> y, at = tf.nn.max_pool_with_argmax(tf.reshape([1.0, 3.0], [1, 1, 2, 1]), [1, 2], 1, "VALID")
    >>> y.numpy().ravel(), at.numpy().ravel()
    (array([3.], dtype=float32), array([1]))
    """
    op = "max_pool_with_argmax"
    if data_format != "NHWC":
        raise ValueError(f"{op}: `data_format` must be 'NHWC'. Received: {shown(data_format)}")
    x, first, windows = read_windows(input, ksize, strides, padding, data_format, 1, 2, op)
    at = _argmax(x, first, windows, op)
    each = max(math.prod(x._layout.shape[1:]), 1)
    kind = dtypes.as_dtype(output_dtype).as_numpy_dtype
    index = decided(lambda v: (v if include_batch_in_index else v % each).astype(kind), at)
    return MaxPoolWithArgmax(_greatest(x, at), index)


@diagnosed
@documented_like(max_pool)
def avg_pool(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """The mean of each window, over one to three spatial axes.

    Parameters
    ----------
    input : tensor of floats, shape [batch, *space, channels]
    ksize, strides : int or sequence of int
        As in `max_pool`, but the channels have no window.
    padding : {"VALID", "SAME"}
        "VALID" takes only windows inside the input. "SAME" adds elements outside, which do not count.

    Returns
    -------
    Tensor, shape [batch, *places, channels]

    Raises
    ------
    ValueError
        If a list has a wrong length, or `padding` is a list.
    gtape.errors.InvalidArgumentError
        If `data_format` or `padding` is unknown, or a window does not fit the input.

    Examples
    --------
    >>> x = tf.reshape([1.0, 3.0, 2.0], [1, 3, 1])
    >>> tf.nn.avg_pool(x, ksize=2, strides=2, padding="SAME").numpy().ravel()
    array([2., 2.], dtype=float32)
    """
    return _mean(input, ksize, strides, padding, data_format, 1, _axes(input, "avg_pool"), "avg_pool")


avg_pool1d = _over(
    1,
    _mean,
    avg_pool,
    "The mean of each window along one axis.",
    """>>> x = tf.reshape([1.0, 3.0, 2.0], [1, 3, 1])
    >>> tf.nn.avg_pool1d(x, ksize=2, strides=1, padding="VALID").numpy().ravel()
    array([2. , 2.5], dtype=float32)""",
)
avg_pool2d = _over(
    2,
    _mean,
    avg_pool,
    "The mean of each window of an image.",
    """>>> x = tf.reshape(tf.range(16.0), [1, 4, 4, 1])
    >>> tf.nn.avg_pool2d(x, ksize=2, strides=2, padding="VALID")[0, :, :, 0].numpy()
    array([[ 2.5,  4.5],
           [10.5, 12.5]], dtype=float32)""",
)
avg_pool3d = _over(
    3,
    _mean,
    avg_pool,
    "The mean of each window of a volume.",
    """>>> x = tf.reshape(tf.range(8.0), [1, 2, 2, 2, 1])
    >>> tf.nn.avg_pool3d(x, ksize=2, strides=2, padding="VALID").numpy().ravel()
    array([3.5], dtype=float32)""",
)


@diagnosed
def pool(
    input: Any,
    window_shape: Any,
    pooling_type: str,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """The greatest element or the mean of each window. Windows may have holes.

    Parameters
    ----------
    input : tensor, shape [batch, *space, channels]
    window_shape : sequence of int
        The size of the window along each spatial axis.
    pooling_type : {"MAX", "AVG"}
    strides, dilations : int or sequence of int, optional
        The distance between windows, and the distance between elements of a window. By default 1.
    padding, data_format, name
        As in `max_pool` or `avg_pool`.

    Returns
    -------
    Tensor, shape [batch, *places, channels]

    Raises
    ------
    ValueError, gtape.errors.InvalidArgumentError
        As for `max_pool`. Also a ValueError for an unknown `pooling_type`.

    Examples
    --------
    >>> x = tf.reshape([1.0, 3.0, 2.0, 5.0], [1, 4, 1])
    >>> tf.nn.pool(x, [2], "AVG", dilations=[2]).numpy().ravel()
    array([1.5, 4. ], dtype=float32)
    """
    if pooling_type not in ("MAX", "AVG"):
        raise ValueError(f"pool: `pooling_type` must be 'MAX' or 'AVG'. Received: {shown(pooling_type)}")
    kind = _max if pooling_type == "MAX" else _mean
    every, apart = (1 if v is None else v for v in (strides, dilations))
    return kind(input, window_shape, every, padding, data_format, apart, _axes(input, "pool"), "pool")
