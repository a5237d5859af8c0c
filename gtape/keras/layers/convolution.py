"""Convolutions as layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gtape
from gtape.keras import activations
from gtape.keras.layers.core import floats_for, format_of
from gtape.keras.layers.layer import TensorLayer
from gtape.tensors import argument_checks as checks

__all__ = [
    "Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D", "DepthwiseConv2D", "SeparableConv2D",
]  # fmt: skip

_FIRST = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
_LAST = {1: "NWC", 2: "NHWC", 3: "NDHWC"}


def layout_of(data_format: str, rank: int) -> str:
    """The order of the axes in the notation of the ops."""
    return (_FIRST if data_format == "channels_first" else _LAST)[rank]


class _Conv(TensorLayer):
    """Base of convolutions. `Conv2D` documents the arguments."""

    rank = 2
    _needs_variables = True

    def __init__(
        self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid", data_format: str | None = None,
        dilation_rate: Any = 1, groups: int = 1, activation: Any = None, use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros", kernel_regularizer: Any = None,
        bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
        bias_constraint: Any = None, **common: Any,
    ) -> None:  # fmt: skip
        super().__init__(activity_regularizer=activity_regularizer, **common)
        self._ndim = self.rank + 2
        self.filters = checks.whole(self, "filters", filters, least=1)
        self.groups = checks.whole(self, "groups", groups, least=1)
        if self.filters % self.groups:
            raise ValueError(
                f"The number of filters must be evenly divisible by the number of groups. Received: groups={groups}, "
                f"filters={filters}"
            )
        self.kernel_size = checks.sizes(self, "kernel_size", kernel_size, self.rank)
        self.strides = checks.sizes(self, "strides", strides, self.rank)
        self.dilation_rate = checks.sizes(self, "dilation_rate", dilation_rate, self.rank)
        known = ("valid", "same", "causal") if self.rank == 1 else ("valid", "same")
        self.padding = checks.choice(self, "padding", padding, known)
        self.data_format = format_of(self, data_format)
        self.activation = activations.get(activation)
        self.use_bias = checks.flag(self, "use_bias", use_bias)
        self.kernel_initializer, self.bias_initializer = kernel_initializer, bias_initializer
        self.kernel_regularizer, self.bias_regularizer = kernel_regularizer, bias_regularizer
        self.kernel_constraint, self.bias_constraint = kernel_constraint, bias_constraint

    @property
    def _format(self) -> str:
        return layout_of(self.data_format, self.rank)

    def _channels(self, input_shape: Any) -> int:
        axis = 1 if self.data_format == "channels_first" else -1
        return int(self._to_build_for(input_shape, axis)[axis])

    def _kernel_shape(self, channels: int) -> tuple[int, ...]:
        if channels % self.groups:
            raise ValueError(
                f"The number of input channels must be evenly divisible by the number of groups. Received groups="
                f"{self.groups}, but the input has {channels} channels"
            )
        return (*self.kernel_size, channels // self.groups, self.filters)

    def build(self, input_shape: Any) -> None:
        self._make_kernels(self._channels(input_shape))
        self.bias = self._weight("bias", (self.filters,)) if self.use_bias else None
        self.built = True

    def _make_kernels(self, channels: int) -> None:
        self.kernel = self._weight("kernel", self._kernel_shape(channels))

    def call(self, inputs: Any) -> Any:
        x = floats_for(self, self._taken(inputs))
        self._check_places(x)
        y = self._convolve(x)
        if self.bias is not None:
            first = self.data_format == "channels_first"
            y = y + (gtape.reshape(self.bias, [-1, *[1] * self.rank]) if first else self.bias)
        return self.activation(y)

    def _convolve(self, x: Any) -> Any:
        raise NotImplementedError

    def _check_places(self, x: Any) -> None:
        """ValueError if the input has no place for the kernel, so that the output would be empty."""
        spans = [(k - 1) * d + 1 for k, d in zip(self.kernel_size, self.dilation_rate, strict=True)]
        least = {"valid": spans, "causal": [1], "same": [0] * self.rank}[self.padding]
        if any(n < m for n, m in zip(self._space(x), least, strict=True)):
            raise ValueError(
                f"{type(self).__name__}: Computed output size would be zero or negative. Received `inputs shape="
                f"{tuple(x.shape)}`, `kernel size={self.kernel_size}`, `dilation_rate={self.dilation_rate}`, "
                f"`strides={self.strides}`, `padding={self.padding}`."
            )

    def _space(self, x: Any) -> list[int]:
        """The sizes of a tensor along the axes of space."""
        shape: list[int] = x.shape.as_list()
        return shape[2:] if self.data_format == "channels_first" else shape[1:-1]

    def _run(self, op: Callable[..., Any], x: Any, *kernels: Any, **options: Any) -> Any:
        """The result of an op of `gtape.nn`, with the layer's padding and order of axes."""
        return op(x, *kernels, **{"padding": self.padding.upper(), "data_format": self._format, **options})

    def _strides_of_axes(self) -> list[int]:
        return self._of_axes(self.strides)

    def _of_axes(self, sizes: tuple[int, ...]) -> list[int]:
        """Sizes along the axes of space as sizes along all axes."""
        return [1, 1, *sizes] if self.data_format == "channels_first" else [1, *sizes, 1]


class Conv1D(_Conv):
    """A convolution over one axis, such as time.

    Parameters
    ----------
    filters, kernel_size, strides, padding, data_format, dilation_rate, groups, activation, use_bias, **common
        As for `Conv2D`; "causal" padding uses earlier entries only.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.Conv1D(4, 3, padding="causal")(tf.zeros([2, 8, 1])).shape
    TensorShape([2, 8, 4])
    """

    rank = 1

    def _convolve(self, x: Any) -> Any:
        padding = self.padding
        if padding == "causal":
            before = self.dilation_rate[0] * (self.kernel_size[0] - 1)
            pads = [[0, 0], [before, 0], [0, 0]]
            x = gtape.pad(x, pads if self.data_format == "channels_last" else [pads[0], pads[2], pads[1]])
            padding = "valid"
        sizes = {"stride": self.strides[0], "dilations": self.dilation_rate[0]}
        return self._run(gtape.nn.conv1d, x, self.kernel, padding=padding.upper(), **sizes)


class Conv2D(_Conv):
    """A convolution over images.

    Parameters
    ----------
    filters : int
        Channels of the output.
    kernel_size, strides, dilation_rate : int or tuple of int
    padding : str
        "valid" or "same".
    data_format : str, optional
        "channels_last" or "channels_first".
    groups : int
        The number of groups of channels; the groups are convolved separately.
    activation : str or callable, optional
    use_bias : bool
    kernel_initializer, bias_initializer : str or callable
    kernel_regularizer, bias_regularizer, kernel_constraint, bias_constraint : str or callable, optional
    activity_regularizer, **common : as for `Layer`

    Raises
    ------
    ValueError
        If a size is not positive, the padding is unknown, the input does not have four axes, or the output is empty
        because the kernel is larger than the input.

    Examples
    --------
    >>> import gtape as tf
    >>> layer = tf.keras.layers.Conv2D(4, 3, strides=2, padding="same", activation="relu")
    >>> layer(tf.zeros([2, 8, 8, 3])).shape, layer.kernel.shape
    (TensorShape([2, 4, 4, 4]), TensorShape([3, 3, 3, 4]))
    """

    def _convolve(self, x: Any) -> Any:
        sizes = {"strides": list(self.strides), "dilations": list(self.dilation_rate)}
        return self._run(gtape.nn.conv2d, x, self.kernel, **sizes)


class Conv3D(_Conv):
    """A convolution over volumes. The arguments are those of `Conv2D`.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.Conv3D(2, 2)(tf.zeros([1, 3, 3, 3, 1])).shape
    TensorShape([1, 2, 2, 2, 2])
    """

    rank = 3

    def _convolve(self, x: Any) -> Any:
        sizes = {"strides": self._strides_of_axes(), "dilations": self._of_axes(self.dilation_rate)}
        return self._run(gtape.nn.conv3d, x, self.kernel, **sizes)


class DepthwiseConv2D(_Conv):
    """A separate convolution of each channel.

    Parameters
    ----------
    kernel_size, strides, padding, **options : as for `Conv2D`
    depth_multiplier : int
        Outputs for each channel.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.DepthwiseConv2D(3, depth_multiplier=2)(tf.zeros([1, 5, 5, 3])).shape
    TensorShape([1, 3, 3, 6])
    """

    def __init__(
        self, kernel_size: Any, strides: Any = 1, padding: str = "valid", depth_multiplier: int = 1, **options: Any
    ) -> None:
        self.depth_multiplier = checks.whole(self, "depth_multiplier", depth_multiplier, least=1)
        for what in ("initializer", "regularizer", "constraint"):
            if f"depthwise_{what}" in options:
                options[f"kernel_{what}"] = options.pop(f"depthwise_{what}")
        super().__init__(1, kernel_size, strides, padding, **options)

    def _kernel_shape(self, channels: int) -> tuple[int, ...]:
        self.filters = channels * self.depth_multiplier
        return (*self.kernel_size, channels, self.depth_multiplier)

    def _convolve(self, x: Any) -> Any:
        sizes = {"strides": self._strides_of_axes(), "dilations": list(self.dilation_rate)}
        return self._run(gtape.nn.depthwise_conv2d, x, self.kernel, **sizes)


class SeparableConv2D(_Conv):
    """A separate convolution of each channel, then a mixture of the channels.

    Parameters
    ----------
    filters, kernel_size, strides, padding, **options : as for `Conv2D`
    depth_multiplier : int
        Outputs for each channel of the first convolution.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.SeparableConv2D(4, 3)(tf.zeros([1, 5, 5, 3])).shape
    TensorShape([1, 3, 3, 4])
    """

    def __init__(
        self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid", depth_multiplier: int = 1,
        **options: Any,
    ) -> None:  # fmt: skip
        self.depth_multiplier = checks.whole(self, "depth_multiplier", depth_multiplier, least=1)
        super().__init__(filters, kernel_size, strides, padding, **options)

    def _make_kernels(self, channels: int) -> None:
        middle = channels * self.depth_multiplier
        shape = (*self.kernel_size, channels, self.depth_multiplier)
        self.depthwise_kernel = self._weight("depthwise_kernel", shape, "kernel")
        self.pointwise_kernel = self._weight("pointwise_kernel", (1, 1, middle, self.filters), "kernel")

    def _convolve(self, x: Any) -> Any:
        sizes = {"strides": self._strides_of_axes(), "dilations": list(self.dilation_rate)}
        return self._run(gtape.nn.separable_conv2d, x, self.depthwise_kernel, self.pointwise_kernel, **sizes)


class _Transposed(_Conv):
    """Base of transposed convolutions. The output is larger than the input, by the factor `strides`."""

    def __init__(
        self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid", output_padding: Any = None,
        data_format: str | None = None, dilation_rate: Any = 1, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(filters, kernel_size, strides, padding, data_format, dilation_rate, **options)
        self.output_padding: Any = output_padding
        if output_padding is not None:
            self.output_padding = checks.sizes(self, "output_padding", output_padding, self.rank, least=0)
            if any(p >= s for p, s in zip(self.output_padding, self.strides, strict=True)):
                raise ValueError(
                    f"{type(self).__name__}: `output_padding` must be less than `strides`. Received: output_padding="
                    f"{output_padding}, strides={strides}"
                )

    def _kernel_shape(self, channels: int) -> tuple[int, ...]:
        return (*self.kernel_size, self.filters, channels)

    def _output_shape(self, x: Any) -> list[int]:
        made = [self._length(n, i) for i, n in enumerate(self._space(x))]
        first = self.data_format == "channels_first"
        return [x.shape[0], self.filters, *made] if first else [x.shape[0], *made, self.filters]

    def _check_places(self, x: Any) -> None:
        """Any input will do, because the output is larger."""

    def _length(self, n: int, i: int) -> int:
        stride, size = self.strides[i], (self.kernel_size[i] - 1) * self.dilation_rate[i] + 1
        if self.output_padding is None:
            return n * stride + (max(size - stride, 0) if self.padding == "valid" else 0)
        taken = 2 * (size // 2) if self.padding == "same" else 0
        return int((n - 1) * stride + size - taken + self.output_padding[i])


class Conv1DTranspose(_Transposed):
    """The transpose of `Conv1D`. The arguments are those of `Conv2DTranspose`.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.Conv1DTranspose(4, 3, strides=2, padding="same")(tf.zeros([2, 5, 1])).shape
    TensorShape([2, 10, 4])
    """

    rank = 1

    def _convolve(self, x: Any) -> Any:
        sizes = {"strides": self.strides[0], "dilations": self.dilation_rate[0]}
        return self._run(gtape.nn.conv1d_transpose, x, self.kernel, output_shape=self._output_shape(x), **sizes)


class Conv2DTranspose(_Transposed):
    """The transpose of `Conv2D`, which enlarges images, as generators do.

    Parameters
    ----------
    filters, kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, **options
        As for `Conv2D`.
    output_padding : int or tuple of int, optional
        The number of additional rows and columns of the output, because outputs of several sizes fit one input.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.Conv2DTranspose(4, 5, strides=2, padding="same")(tf.zeros([2, 7, 7, 3])).shape
    TensorShape([2, 14, 14, 4])
    """

    def _convolve(self, x: Any) -> Any:
        sizes = {"strides": list(self.strides), "dilations": list(self.dilation_rate)}
        return self._run(gtape.nn.conv2d_transpose, x, self.kernel, output_shape=self._output_shape(x), **sizes)
