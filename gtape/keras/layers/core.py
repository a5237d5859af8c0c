"""Basic layers: Dense, Embedding, Lambda, and layers that change shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gtape
from gtape.keras import activations
from gtape.keras.layers.layer import Layer, TensorLayer
from gtape.keras.layers.symbolic import KerasTensor
from gtape.tensors import argument_checks as checks
from gtape.tensors.tensor import Tensor, convert_to_tensor

__all__ = [
    "Dense", "Embedding", "Flatten", "Identity", "InputLayer", "Lambda",
    "Permute", "RepeatVector", "Rescaling", "Reshape",
]  # fmt: skip


class InputLayer(Layer):
    """The input of a `Sequential` model, with its shape.

    Parameters
    ----------
    shape, batch_size, dtype, batch_shape, name : as for `Input`

    Examples
    --------
    >>> import gtape as tf
    >>> model = tf.keras.Sequential([tf.keras.layers.InputLayer(shape=(4,)), tf.keras.layers.Dense(2)])
    >>> model.output_shape
    (None, 2)
    """

    def __init__(
        self, shape: Any = None, batch_size: int | None = None, dtype: Any = None, batch_shape: Any = None,
        name: str | None = None, input_shape: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(name=name)
        if batch_shape is None:
            shape = input_shape if shape is None else shape
            size = None if batch_size is None else checks.whole(self, "batch_size", batch_size, least=0)
            batch_shape = (size, *checks.shape(self, "shape", (shape,) if isinstance(shape, int) else shape))
        self.batch_shape = self._first_shape = checks.shape(self, "batch_shape", batch_shape)
        self._input_dtype = None if dtype is None else checks.dtype(self, dtype).name
        self._autocast = dtype is None

    def call(self, x: Any) -> Any:
        return x


class Dense(TensorLayer):
    """``activation(x @ kernel + bias)``.

    Parameters
    ----------
    units : int
        Size of the output.
    activation : str or callable, optional
    use_bias : bool
    kernel_initializer, bias_initializer : str or callable
    kernel_regularizer, bias_regularizer, kernel_constraint, bias_constraint : str or callable, optional
    **common : as for `Layer`

    Raises
    ------
    ValueError
        If `units` is not a positive integer.

    Examples
    --------
    >>> import gtape as tf
    >>> layer = tf.keras.layers.Dense(2, activation="relu", kernel_initializer="ones")
    >>> layer(tf.constant([[1.0, 2.0]])).numpy()
    array([[3., 3.]], dtype=float32)
    """

    _needs_variables = True
    _least_ndim = 1

    def __init__(
        self, units: int, activation: Any = None, use_bias: bool = True, kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros", kernel_regularizer: Any = None, bias_regularizer: Any = None,
        activity_regularizer: Any = None, kernel_constraint: Any = None, bias_constraint: Any = None, **common: Any,
    ) -> None:  # fmt: skip
        super().__init__(activity_regularizer=activity_regularizer, **common)
        self.units = checks.whole(self, "units", units, least=1)
        self.use_bias = checks.flag(self, "use_bias", use_bias)
        self.activation = activations.get(activation)
        self.kernel_initializer, self.bias_initializer = kernel_initializer, bias_initializer
        self.kernel_regularizer, self.bias_regularizer = kernel_regularizer, bias_regularizer
        self.kernel_constraint, self.bias_constraint = kernel_constraint, bias_constraint

    def build(self, input_shape: Any) -> None:
        size = self._to_build_for(input_shape, -1)[-1]
        self.kernel = self._weight("kernel", (size, self.units))
        self.bias = self._weight("bias", (self.units,)) if self.use_bias else None
        self.built = True

    def call(self, inputs: Any, training: Any = None) -> Any:
        x = floats_for(self, self._taken(inputs))
        y = gtape.matmul(x, self.kernel) if x.ndim == 2 else gtape.tensordot(x, self.kernel, [[x.ndim - 1], [0]])
        return self.activation(y if self.bias is None else y + self.bias)


def format_of(layer: Layer, data_format: Any) -> str:
    """The position of the channels, "channels_last" by default."""
    known = ("channels_last", "channels_first")
    return known[0] if data_format is None else checks.choice(layer, "data_format", data_format, known)


def floats_for(layer: Layer, x: Any) -> Tensor:
    """A tensor of the layer's float type; integers are cast."""
    t: Tensor = convert_to_tensor(x)
    return t if t._layout.dtype.kind in "fVc" else gtape.cast(t, layer.dtype)


class Embedding(TensorLayer):
    """Rows of a table by number. The table's gradient is an IndexedSlices, so that optimizers change few rows.

    Parameters
    ----------
    input_dim, output_dim : int
        The number and the length of the rows.
    embeddings_initializer : str or callable
    embeddings_regularizer, embeddings_constraint : str or callable, optional
    mask_zero : bool
        Must be False, because masks are not propagated.
    **common : as for `Layer`

    Raises
    ------
    ValueError
        If `mask_zero` is True.

    Examples
    --------
    >>> import gtape as tf
    >>> layer = tf.keras.layers.Embedding(10, 3)
    >>> layer(tf.constant([[1, 2], [2, 2]])).shape
    TensorShape([2, 2, 3])
    """

    _needs_variables = True

    def __init__(
        self, input_dim: int, output_dim: int, embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None, embeddings_constraint: Any = None, mask_zero: bool = False, **common: Any,
    ) -> None:  # fmt: skip
        common.pop("input_length", None)
        super().__init__(**common)
        if checks.flag(self, "mask_zero", mask_zero):
            raise ValueError("Embedding: masks are not propagated, so `mask_zero` must be False; mask the loss instead")
        self.input_dim = checks.whole(self, "input_dim", input_dim, least=1)
        self.output_dim = checks.whole(self, "output_dim", output_dim, least=1)
        self.embeddings_initializer = embeddings_initializer
        self.embeddings_regularizer, self.embeddings_constraint = embeddings_regularizer, embeddings_constraint

    def build(self, input_shape: Any = None) -> None:
        if input_shape is not None or self.built:
            self._to_build_for(() if input_shape is None else input_shape)
        self.embeddings = self._weight("embeddings", (self.input_dim, self.output_dim))
        self.built = True

    def call(self, inputs: Any) -> Any:
        ids = self._taken(inputs)
        return gtape.nn.embedding_lookup(self.embeddings, gtape.cast(ids, "int32") if ids.dtype.is_floating else ids)


class Flatten(TensorLayer):
    """Each sample as one vector.

    Parameters
    ----------
    data_format : {"channels_last", "channels_first"}, optional
        "channels_first" first moves the channels to the end.
    **common : as for `Layer`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.Flatten()(tf.zeros([5, 2, 3])).shape
    TensorShape([5, 6])
    """

    def __init__(self, data_format: str | None = None, **common: Any) -> None:
        super().__init__(**common)
        self.data_format = format_of(self, data_format)

    def call(self, inputs: Any) -> Any:
        x = self._taken(inputs)
        if self.data_format == "channels_first" and x.ndim > 2:
            x = gtape.transpose(x, [0, *range(2, x.ndim), 1])
        return gtape.reshape(x, [x.shape[0] if x.ndim else 1, math.prod(x._layout.shape[1:])])


class Reshape(TensorLayer):
    """Each sample with another shape. One size may be -1.

    Parameters
    ----------
    target_shape : sequence of int
        Without the batch.
    **common : as for `Layer`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.Reshape((3, -1))(tf.zeros([5, 6])).shape
    TensorShape([5, 3, 2])
    """

    _least_ndim = 1

    def __init__(self, target_shape: Any, **common: Any) -> None:
        super().__init__(**common)
        self.target_shape = checks.shape(self, "target_shape", target_shape, whole=True, least=-1)
        if self.target_shape.count(-1) > 1:
            raise ValueError(
                f"Reshape: There must be at most one unknown dimension (-1) in target_shape. Received: "
                f"target_shape={self.target_shape}"
            )

    def call(self, inputs: Any) -> Any:
        x = self._taken(inputs)
        known, have = math.prod(d for d in self.target_shape if d != -1), math.prod(x._layout.shape[1:])
        if (known == 0 or have % known) if -1 in self.target_shape else known != have:
            raise ValueError(
                f"The total size of the tensor must be unchanged. Received: input_shape={x._layout.shape[1:]}, "
                f"target_shape={self.target_shape}"
            )
        sizes = [have // known if d == -1 else d for d in self.target_shape]
        return gtape.reshape(x, [x._layout.shape[0], *sizes])


class Permute(TensorLayer):
    """The axes of each sample in another order, counted from 1.

    Parameters
    ----------
    dims : sequence of int
        For each axis of the result, the number of the input's axis.
    **common : as for `Layer`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.Permute((2, 1))(tf.zeros([5, 2, 3])).shape
    TensorShape([5, 3, 2])
    """

    def __init__(self, dims: Any, **common: Any) -> None:
        super().__init__(**common)
        self.dims = checks.shape(self, "dims", dims, whole=True)
        if sorted(self.dims) != list(range(1, len(self.dims) + 1)):
            raise ValueError(f"Invalid permutation argument `dims` for Permute Layer: {dims}; axes count from 1")
        self._ndim = len(self.dims) + 1

    def call(self, inputs: Any) -> Any:
        return gtape.transpose(self._taken(inputs), [0, *self.dims])


class RepeatVector(TensorLayer):
    """Each sample n times, along a new axis.

    Parameters
    ----------
    n : int
    **common : as for `Layer`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.RepeatVector(4)(tf.zeros([5, 2])).shape
    TensorShape([5, 4, 2])
    """

    _ndim = 2

    def __init__(self, n: int, **common: Any) -> None:
        super().__init__(**common)
        self.n = checks.whole(self, "n", n, least=0)

    def call(self, inputs: Any) -> Any:
        return gtape.repeat(gtape.expand_dims(self._taken(inputs), 1), self.n, axis=1)


class Rescaling(TensorLayer):
    """``inputs * scale + offset``.

    Parameters
    ----------
    scale, offset : float or array
    **common : as for `Layer`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.Rescaling(1.0 / 255)(tf.constant([0, 255])).numpy()
    array([0., 1.], dtype=float32)
    """

    def __init__(self, scale: Any, offset: Any = 0.0, **common: Any) -> None:
        super().__init__(**common)
        for name, value in (("scale", scale), ("offset", offset)):
            checks.numeric(self, name, value)
        self.scale, self.offset = scale, offset

    def call(self, inputs: Any) -> Any:
        return floats_for(self, self._taken(inputs)) * self.scale + self.offset


class Identity(Layer):
    """The unchanged input.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.Identity()(tf.constant([1.0, 2.0])).numpy()
    array([1., 2.], dtype=float32)
    """

    def call(self, inputs: Any) -> Any:
        return inputs


class Lambda(Layer):
    """A function as a layer. The layer does not own the function's variables.

    Parameters
    ----------
    function : callable
    output_shape, mask : ignored; Keras has them
    arguments : dict, optional
        Keyword arguments for the function.
    **common : as for `Layer`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.Lambda(lambda x: x * x)(tf.constant([3.0])).numpy()
    array([9.], dtype=float32)
    """

    def __init__(
        self, function: Callable[..., Any], output_shape: Any = None, mask: Any = None,
        arguments: dict[str, Any] | None = None, **common: Any,
    ) -> None:  # fmt: skip
        super().__init__(**common)
        self.function = checks.function(self, "function", function)
        self.arguments = {} if arguments is None else checks.settings(self, arguments, "arguments")

    def call(self, inputs: Any) -> Any:
        return self.function(inputs, **self.arguments)


KerasTensor._lambda = Lambda
