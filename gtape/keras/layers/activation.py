"""Activation functions as layers."""

from __future__ import annotations

from typing import Any

import gtape
from gtape.declare.conventions import OfArrays, conventional
from gtape.keras import activations
from gtape.keras.layers.layer import Layer, TensorLayer
from gtape.tensors import argument_checks as checks

__all__ = ["ELU", "Activation", "LeakyReLU", "PReLU", "ReLU", "Softmax"]


class Activation(TensorLayer):
    """An activation function as a layer.

    Parameters
    ----------
    activation : str or callable
    **common : as for `Layer`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.Activation("relu")(tf.constant([-1.0, 2.0])).numpy()
    array([0., 2.], dtype=float32)
    """

    def __init__(self, activation: Any, **common: Any) -> None:
        super().__init__(**common)
        self.activation = activations.get(activation)

    def call(self, inputs: Any) -> Any:
        return self.activation(self._taken(inputs))


def _not_negative(owner: Layer, name: str, value: Any) -> float:
    return checks.number(owner, name, value, lambda v: v >= 0, "must be a float >= 0")


class ReLU(TensorLayer):
    """`gtape.keras.activations.relu` as a layer.

    Parameters
    ----------
    max_value, negative_slope, threshold : as for the function
    **common : as for `Layer`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.ReLU(max_value=1.0)(tf.constant([-1.0, 2.0])).numpy()
    array([0., 1.], dtype=float32)
    """

    def __init__(
        self, max_value: float | None = None, negative_slope: float = 0.0, threshold: float = 0.0, **common: Any
    ) -> None:
        super().__init__(**common)
        self.max_value = None if max_value is None else _not_negative(self, "max_value", max_value)
        self.negative_slope = _not_negative(self, "negative_slope", negative_slope)
        self.threshold = _not_negative(self, "threshold", threshold)

    def call(self, inputs: Any) -> Any:
        return activations.relu(self._taken(inputs), self.negative_slope, self.max_value, self.threshold)


class LeakyReLU(TensorLayer):
    """x for x > 0, otherwise ``negative_slope * x``. `alpha` is the older name of `negative_slope`.

    Parameters
    ----------
    negative_slope : float
    **common : as for `Layer`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.LeakyReLU(0.5)(tf.constant([-1.0, 2.0])).numpy()
    array([-0.5,  2. ], dtype=float32)
    """

    def __init__(self, negative_slope: float = 0.3, **common: Any) -> None:
        negative_slope = common.pop("alpha", negative_slope)
        super().__init__(**common)
        self.negative_slope = checks.number(self, "negative_slope", negative_slope)

    def call(self, inputs: Any) -> Any:
        return activations.leaky_relu(self._taken(inputs), self.negative_slope)


class ELU(TensorLayer):
    """x for x > 0, otherwise ``alpha * (exp(x) - 1)``.

    Parameters
    ----------
    alpha : float
    **common : as for `Layer`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.ELU()([0.0, 2.0]).numpy()
    array([0., 2.], dtype=float32)
    """

    def __init__(self, alpha: float = 1.0, **common: Any) -> None:
        super().__init__(**common)
        self.alpha = checks.number(self, "alpha", alpha)

    def call(self, inputs: Any) -> Any:
        return activations.elu(self._taken(inputs), self.alpha)


@conventional(OfArrays("infinity", "value", "NaN", "alpha, which is 0 at first, times infinity, as in TensorFlow"))
class PReLU(TensorLayer):
    """x for x > 0, otherwise ``alpha * x``, with a trainable alpha for each entry.

    Parameters
    ----------
    alpha_initializer, alpha_regularizer, alpha_constraint : str or callable
    shared_axes : sequence of int, optional
        Axes, counted from 1, whose entries share an alpha.
    **common : as for `Layer`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.PReLU(alpha_initializer="ones")(tf.constant([[-2.0, 3.0]])).numpy()
    array([[-2.,  3.]], dtype=float32)
    """

    _needs_variables = True
    _least_ndim = 1

    def __init__(
        self, alpha_initializer: Any = "zeros", alpha_regularizer: Any = None, alpha_constraint: Any = None,
        shared_axes: Any = None, **common: Any,
    ) -> None:  # fmt: skip
        super().__init__(**common)
        self.alpha_initializer, self.alpha_regularizer = alpha_initializer, alpha_regularizer
        self.alpha_constraint = alpha_constraint
        several = isinstance(shared_axes, (list, tuple))
        axes = () if shared_axes is None else shared_axes if several else (shared_axes,)
        self.shared_axes = checks.shape(self, "shared_axes", axes, whole=True, least=1)

    def build(self, input_shape: Any) -> None:
        rank = len(checks.shape(self, "input_shape", input_shape))
        given = self._to_build_for(input_shape, *[i for i in range(1, rank) if i not in self.shared_axes])
        shape = [1 if i in self.shared_axes else d for i, d in enumerate(given)][1:]
        self.alpha = self._weight("alpha", shape)
        self.built = True

    def call(self, inputs: Any) -> Any:
        x = self._taken(inputs)
        return gtape.nn.relu(x) - self.alpha * gtape.nn.relu(-x)


class Softmax(TensorLayer):
    """`gtape.nn.softmax` as a layer.

    A call takes a `mask`, too: a bool array of the shape of the input. Entries with False get the share 0.

    Parameters
    ----------
    axis : int or sequence of int
        The axes over which the shares add to 1.
    **common : as for `Layer`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.Softmax()(tf.constant([[0.0, 0.0]])).numpy()
    array([[0.5, 0.5]], dtype=float32)
    >>> tf.keras.layers.Softmax()(tf.constant([[0.0, 0.0]]), mask=tf.constant([[True, False]])).numpy()
    array([[1., 0.]], dtype=float32)
    """

    def __init__(self, axis: Any = -1, **common: Any) -> None:
        super().__init__(**common)
        several = isinstance(axis, (list, tuple))
        if several and not axis:
            raise ValueError("Softmax: `axis` must be an integer or integers. Received: axis=[]")
        self._axes = [checks.whole(self, "axis", a) for a in (axis if several else [axis])]
        self.axis = axis if several else self._axes[0]

    def call(self, inputs: Any, mask: Any = None) -> Any:
        x = self._taken(inputs)
        if mask is not None:
            mask = gtape.cast(checks.tensor(self, "mask", mask), x.dtype)
            x = x + (1.0 - mask) * (-3e4 if x.dtype == "float16" else -1e9)  # Keras's numbers
        if len(self._axes) == 1:
            y = gtape.nn.softmax(x, axis=self._axes[0])
        else:
            y = gtape.exp(x - gtape.reduce_logsumexp(x, axis=self._axes, keepdims=True))
        return y if mask is None else y * mask
