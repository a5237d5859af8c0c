"""Layers that normalise to mean 0 and variance 1, over the batch or over each sample."""

from __future__ import annotations

from typing import Any

import gtape
from gtape.keras.backend import epsilon
from gtape.keras.layers.layer import TensorLayer
from gtape.recording.record import assigned_later, is_traced, off, peek
from gtape.tensors import argument_checks as checks
from gtape.tensors.tensor import Tensor, wrap

__all__ = ["BatchNormalization", "LayerNormalization"]


def _axes(axis: list[int], rank: int) -> list[int]:
    found = sorted({a % rank for a in axis if -rank <= a < rank})
    if len(found) != len(axis) or not found:
        raise ValueError(f"Invalid value for `axis` argument: {axis}; the input has {rank} axes")
    return found


def _normalized(x: Any, epsilon: float, mean: Any, variance: Any, beta: Any, gamma: Any) -> Any:
    # A quotient, because the slope of 1 / sqrt at a large variance underflows.
    y = (x if mean is None else x - mean) / gtape.math.sqrt(variance + epsilon)
    y = y if gamma is None else y * gamma
    return y if beta is None else y + beta


class _Normalization(TensorLayer):
    """Base of layers with the optional variables gamma and beta."""

    _needs_variables = True
    _least_ndim = 1

    def _set(self, epsilon: Any, center: Any, scale: Any) -> None:
        self.epsilon = float(checks.number(self, "epsilon", epsilon))
        self.center, self.scale = checks.flag(self, "center", center), checks.flag(self, "scale", scale)

    def _make(self, shape: Any) -> None:
        self.gamma = self._weight("gamma", shape) if self.scale else None
        self.beta = self._weight("beta", shape) if self.center else None


class BatchNormalization(_Normalization):
    """Normalises by the mean and variance of the batch in training, and by running means otherwise.

    ``gamma * (x - mean) / sqrt(variance + epsilon) + beta`` (Ioffe and Szegedy, 2015). Training updates the running
    means. A frozen layer uses the running means in training, too.

    Parameters
    ----------
    axis : int
        The axis of the channels; the statistics are over all other axes.
    momentum : float
        The weight of the old running means.
    epsilon : float
    center, scale : bool
        Whether to use beta and gamma.
    beta_initializer, gamma_initializer, moving_mean_initializer, moving_variance_initializer : str or callable
    beta_regularizer, gamma_regularizer, beta_constraint, gamma_constraint : str or callable, optional
    **common : as for `Layer`

    Examples
    --------
    >>> import gtape as tf
    >>> layer = tf.keras.layers.BatchNormalization(epsilon=0.0, momentum=0.0)
    >>> layer(tf.constant([[1.0], [3.0]]), training=True).numpy().ravel()
    array([-1.,  1.], dtype=float32)
    >>> layer.moving_mean.numpy()
    array([2.], dtype=float32)
    """

    def __init__(
        self, axis: int = -1, momentum: float = 0.99, epsilon: float = 1e-3, center: bool = True, scale: bool = True,
        beta_initializer: Any = "zeros", gamma_initializer: Any = "ones", moving_mean_initializer: Any = "zeros",
        moving_variance_initializer: Any = "ones", beta_regularizer: Any = None, gamma_regularizer: Any = None,
        beta_constraint: Any = None, gamma_constraint: Any = None, **common: Any,
    ) -> None:  # fmt: skip
        super().__init__(**common)
        self.axis = checks.whole(self, "axis", axis)
        self.momentum = float(checks.number(self, "momentum", momentum))
        self.moving_mean_initializer = moving_mean_initializer
        self.moving_variance_initializer = moving_variance_initializer
        self.beta_initializer, self.gamma_initializer = beta_initializer, gamma_initializer
        self.beta_regularizer, self.gamma_regularizer = beta_regularizer, gamma_regularizer
        self.beta_constraint, self.gamma_constraint = beta_constraint, gamma_constraint
        self._set(epsilon, center, scale)

    def build(self, input_shape: Any) -> None:
        rank = len(checks.shape(self, "input_shape", input_shape))
        channels = _axes([self.axis], rank)[0] if rank else 0
        shape = (self._to_build_for(input_shape, channels)[channels],)
        self._make(shape)
        self.moving_mean = self._weight("moving_mean", shape, trainable=False)
        self.moving_variance = self._weight("moving_variance", shape, trainable=False)
        self.built = True

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        x = self._taken(inputs)
        training = checks.flag(self, "training", training)
        channels = _axes([self.axis], x.ndim)[0]
        mean: Any = self.moving_mean
        variance: Any = self.moving_variance
        if training and self.trainable:
            axes = [i for i in range(x.ndim) if i != channels]
            mean, variance = gtape.nn.moments(x, axes) if mask is None else self._masked_moments(x, axes, mask)
            self._follow(self.moving_mean, mean)
            self._follow(self.moving_variance, variance)
        shape = [-1 if i == channels else 1 for i in range(x.ndim)]
        plain = channels == x.ndim - 1
        parts = (v if v is None or plain else gtape.reshape(v, shape) for v in (mean, variance, self.beta, self.gamma))
        return _normalized(x, self.epsilon, *parts)

    def _masked_moments(self, x: Any, axes: list[int], mask: Any) -> tuple[Any, Any]:
        """Mean and variance of the samples and steps that a mask marks, by Keras's formulas."""
        chosen = gtape.cast(checks.tensor(self, "mask", mask), x.dtype)
        if chosen.ndim == x.ndim - 1:
            chosen = gtape.expand_dims(chosen, -1)
        elif chosen.ndim != x.ndim:
            raise ValueError(
                f"{type(self).__name__}: `mask` must have the axes of the inputs, {x.shape}, without the last one. "
                f"Received: a mask of shape {chosen.shape}"
            )
        weights = gtape.broadcast_to(chosen, x.shape)
        count = gtape.reduce_sum(weights, axes, keepdims=True) + epsilon()
        mean = gtape.reduce_sum(weights * x, axes, keepdims=True) / count
        variance = gtape.reduce_sum(weights * gtape.square(x - mean), axes, keepdims=True) / count
        return gtape.squeeze(mean, axes), gtape.squeeze(variance, axes)

    def _follow(self, moving: Any, new: Any) -> None:
        if is_traced():
            with off():  # because no gradient flows into a variable's state
                value = self._weighted(moving, moving, new)
            assigned_later(moving, value)
            return
        # NumPy arrays are faster. A check follows the ops, to find a function that reads the state afterwards.
        stack = peek()
        old, new = (moving, new) if stack is not None and stack.trace else (moving.numpy(), new.numpy())
        value = self._weighted(moving, old, new)
        moving.assign(value if isinstance(value, Tensor) else wrap(value))

    def _weighted(self, moving: Any, old: Any, new: Any) -> Any:
        """The next running mean, in the dtype of its variable."""
        number = moving._layout.dtype.type
        return old * number(self.momentum) + new * number(1.0 - self.momentum)


class LayerNormalization(_Normalization):
    """Normalises each sample over some of its axes (Ba, Kiros and Hinton, 2016).

    Parameters
    ----------
    axis : int or sequence of int
        The normalised axes; gamma and beta have their shape.
    epsilon, center, scale, beta_initializer, gamma_initializer : as for `BatchNormalization`
    rms_scaling : bool
        Whether to only divide by the root of the variance and multiply by gamma. Keras deprecates the argument.
    beta_regularizer, gamma_regularizer, beta_constraint, gamma_constraint : str or callable, optional
    **common : as for `Layer`

    Examples
    --------
    >>> import gtape as tf
    >>> layer = tf.keras.layers.LayerNormalization(epsilon=0.0)
    >>> layer(tf.constant([[1.0, 3.0], [10.0, 30.0]])).numpy().tolist()
    [[-1.0, 1.0], [-1.0, 1.0]]
    """

    def __init__(
        self, axis: Any = -1, epsilon: float = 1e-3, center: bool = True, scale: bool = True,
        beta_initializer: Any = "zeros", gamma_initializer: Any = "ones", beta_regularizer: Any = None,
        gamma_regularizer: Any = None, beta_constraint: Any = None, gamma_constraint: Any = None,
        rms_scaling: bool = False, **common: Any,
    ) -> None:  # fmt: skip
        super().__init__(**common)
        self.rms_scaling = checks.flag(self, "rms_scaling", rms_scaling)
        asked = axis if isinstance(axis, (list, tuple)) else [axis]
        self.axis, self._asked = axis, [checks.whole(self, "axis", a) for a in asked]
        self.beta_initializer, self.gamma_initializer = beta_initializer, gamma_initializer
        self.beta_regularizer, self.gamma_regularizer = beta_regularizer, gamma_regularizer
        self.beta_constraint, self.gamma_constraint = beta_constraint, gamma_constraint
        self._set(epsilon, center, scale)

    def build(self, input_shape: Any) -> None:
        rank = len(checks.shape(self, "input_shape", input_shape))
        axes = _axes(self._asked, rank) if rank else [0]
        whole = self._to_build_for(input_shape, *axes)
        shape = [whole[a] for a in axes]
        # Scaling by the variance always has gamma, and never beta, as in Keras.
        self.gamma = self._weight("gamma", shape) if self.scale or self.rms_scaling else None
        self.beta = self._weight("beta", shape) if self.center and not self.rms_scaling else None
        self.built = True

    def call(self, inputs: Any) -> Any:
        x = self._taken(inputs)
        axes = _axes(self._asked, x.ndim)
        mean, variance = gtape.nn.moments(x, axes=axes, keepdims=True)
        shape = [x.shape[i] if i in axes else 1 for i in range(x.ndim)]
        last = axes == [x.ndim - 1]
        beta, gamma = (v if v is None or last else gtape.reshape(v, shape) for v in (self.beta, self.gamma))
        return _normalized(x, self.epsilon, None if self.rms_scaling else mean, variance, beta, gamma)
