"""Transposed convolutions under TensorFlow's names: the gradients of convolutions by their input."""

from __future__ import annotations

from typing import Any, Protocol

from gtape import errors
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.shown import shown
from gtape.kernels.convolution import Geometry, output_sizes
from gtape.ops.nn.convolution import atrous_conv2d, convolution, images_and_filters
from gtape.ops.nn.correlation import correlate_input
from gtape.ops.shape.spatial import move_channels, paddings, rank, steps
from gtape.tensors.axes import static_ints
from gtape.tensors.tensor import Tensor

__all__ = ["atrous_conv2d_transpose", "conv1d_transpose", "conv2d_transpose", "conv3d_transpose", "conv_transpose"]


def _transposed(
    input: Any, filters: Any, output_shape: Any, strides: Any, padding: Any, data_format: Any, dilations: Any, n: int,
    op: str,
) -> Tensor:  # fmt: skip
    g, w, first = images_and_filters(input, filters, n, data_format, op)
    rank(g, n + 2, "input", op)
    shape = static_ints(output_shape)
    if len(shape) == n == 2 and w.ndim == 4:  # TensorFlow takes the two sizes of space alone
        whole = (g._layout.shape[0], *shape, w._layout.shape[2])
        shape = (whole[0], whole[3], *shape) if first else whole
    if len(shape) != n + 2:
        raise errors.InvalidArgumentError(f"{op}: `output_shape` must have {n + 2} entries. Received: {list(shape)}")
    count, *places, seen = g._layout.shape
    size, made = (shape[2:], shape[1]) if first else (shape[1:-1], shape[-1])
    taps, given = w._layout.shape[:n], w._layout.shape[n:]
    if given[0] != made or given[1] != seen:
        raise errors.InvalidArgumentError(
            f"{op}: the filter of shape {w._layout.tensor_shape} ([..., output channels, input channels]) does not fit "
            f"{made} output channels (of `output_shape` {list(shape)}) and {seen} channels of the input"
        )
    every, apart = steps(strides, n, first, "strides", op), steps(dilations, n, first, "dilations", op)
    around = paddings(padding, size, taps, every, apart, first, op)
    geometry = Geometry(every, apart, around, 1)
    fitting = output_sizes(size, taps, geometry)
    if shape[0] not in (count, -1) or fitting != tuple(places):
        raise errors.InvalidArgumentError(
            f"{op}: a convolution of `output_shape` {list(shape)} would have a batch of {shape[0]} and {list(fitting)} "
            f"places, but the input has a batch of {count} and {places}"
        )
    x: Tensor = correlate_input(g, w, size=size, **geometry._asdict())
    return move_channels(x, n, back=False) if first else x


@diagnosed
@documented_like(convolution)
def conv_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """The transpose of `convolution`: the gradient of a convolution whose input has the shape `output_shape`.

    The other arguments belong to this convolution.

    Parameters
    ----------
    input : tensor, shape [batch, *places, channels]
    filters : tensor, shape [*window, output channels, channels]
        Dtype of `input`.
    output_shape : sequence of int
        The sizes of all axes, in the order of `data_format`.

    Returns
    -------
    Tensor, shape `output_shape`

    Examples
    --------
    >>> x = tf.reshape([1.0, 10.0], [1, 2, 1])
    >>> tf.nn.conv_transpose(x, tf.ones([2, 1, 1]), [1, 4, 1], strides=2).numpy().ravel()
    array([ 1.,  1., 10., 10.], dtype=float32)
    """
    n = len(static_ints(output_shape)) - 2
    if n < 1:
        raise ValueError(
            f"conv_transpose: `output_shape` must have 3 entries at least. Received: {shown(output_shape)}"
        )
    return _transposed(input, filters, output_shape, strides, padding, data_format, dilations, n, "conv_transpose")


class _Transposed(Protocol):
    def __call__(
        self, input: Any, filters: Any, output_shape: Any, strides: Any, padding: Any = ...,
        data_format: str | None = ..., dilations: Any = ..., name: str | None = ...,
    ) -> Tensor: ...  # fmt: skip


def _over(n: int, summary: str, example: str) -> _Transposed:
    """The transposed convolution over `n` spatial axes."""
    op, axes = f"conv{n}d_transpose", "DHW"[3 - n :]
    last, second = f"N{axes}C", f"NC{axes}"

    def function(
        input: Any, filters: Any, output_shape: Any, strides: Any, padding: Any = "SAME",
        data_format: str | None = last, dilations: Any = None, name: str | None = None,
    ) -> Tensor:  # fmt: skip
        return _transposed(input, filters, output_shape, strides, padding, data_format, dilations, n, op)

    function.__name__ = function.__qualname__ = op
    space = ", ".join(("depth", "height", "width")[3 - n :])
    function.__doc__ = f"""{summary}

    Parameters
    ----------
    input : tensor, shape [batch, {space}, channels]
    filters : tensor, shape [{space}, output channels, channels]
    data_format : {{"{last}", "{second}"}}

    Examples
    --------
    {example}
    """
    return diagnosed(documented_like(conv_transpose)(function))


conv1d_transpose = _over(
    1,
    "The transpose of `conv1d`.",
    """>>> x = tf.reshape([1.0, 10.0], [1, 2, 1])
    >>> tf.nn.conv1d_transpose(x, tf.ones([3, 1, 1]), [1, 4, 1], strides=1, padding="VALID").numpy().ravel()
    array([ 1., 11., 11., 10.], dtype=float32)""",
)
conv2d_transpose = _over(
    2,
    "The transpose of `conv2d`, often called a deconvolution.",
    """>>> x = tf.reshape([1.0, 2.0], [1, 1, 2, 1])
    >>> tf.nn.conv2d_transpose(x, tf.ones([2, 2, 1, 1]), [1, 2, 4, 1], strides=2)[0, :, :, 0].numpy()
    array([[1., 1., 2., 2.],
           [1., 1., 2., 2.]], dtype=float32)""",
)
conv3d_transpose = _over(
    3,
    "The transpose of `conv3d`.",
    """>>> x = tf.ones([1, 1, 1, 1, 1])
    >>> tf.nn.conv3d_transpose(x, tf.ones([2, 2, 2, 1, 1]), [1, 2, 2, 2, 1], strides=2).shape
    TensorShape([1, 2, 2, 2, 1])""",
)


@diagnosed
@documented_like(atrous_conv2d)
def atrous_conv2d_transpose(
    value: Any, filters: Any, output_shape: Any, rate: int, padding: Any, name: str | None = None
) -> Tensor:
    """The transpose of `atrous_conv2d`.

    Parameters
    ----------
    value : tensor, shape [batch, height, width, channels]
    filters : tensor, shape [height, width, output channels, channels]
    output_shape : sequence of four int

    Returns
    -------
    Tensor, shape `output_shape`

    Examples
    --------
    >>> x = tf.ones([1, 1, 1, 1])
    >>> tf.nn.atrous_conv2d_transpose(x, tf.ones([1, 2, 1, 1]), [1, 1, 3, 1], rate=2, padding="VALID").numpy().ravel()
    array([1., 0., 1.], dtype=float32)
    """
    return _transposed(value, filters, output_shape, 1, padding, None, rate, 2, "atrous_conv2d_transpose")
