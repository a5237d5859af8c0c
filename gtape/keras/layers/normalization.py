"""Layers that give their inputs mean 0 and variance 1: over the batch, or over each sample."""

from __future__ import annotations

from typing import Any

import numpy as np

import gtape
from gtape.keras.layers.layer import Layer
from gtape.tensor import convert_to_tensor, wrap

__all__ = ["BatchNormalization", "LayerNormalization"]


def _axes(axis: Any, rank: int) -> list[int]:
    found = [int(a) % rank if -rank <= int(a) < rank else -1 for a in np.atleast_1d(axis)]
    if -1 in found:
        raise ValueError(f"Invalid value for `axis` argument: {axis}; the input has {rank} axes")
    return sorted(found)


def _normalized(x: Any, mean: Any, variance: Any, beta: Any, gamma: Any, epsilon: float) -> Any:
    y = (x - mean) * gtape.math.rsqrt(variance + epsilon)
    y = y if gamma is None else y * gamma
    return y if beta is None else y + beta


class BatchNormalization(Layer):
    """In training, normalise over the batch and keep running means; otherwise normalise with these.

    ``gamma * (x - mean) / sqrt(variance + epsilon) + beta`` (Ioffe and Szegedy, 2015). A frozen layer works as outside
    training.

    Parameters
    ----------
    axis : int
        Where the channels are; the statistics are over all other axes.
    momentum : float
        How slowly the running means forget.
    epsilon : float
    center, scale : bool
        Whether there are beta and gamma.
    beta_initializer, gamma_initializer, moving_mean_initializer, moving_variance_initializer : str or callable
    beta_regularizer, gamma_regularizer, beta_constraint, gamma_constraint : str or callable, optional
    **common
        As for `Layer`.

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
        self,
        axis: int = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        moving_mean_initializer: Any = "zeros",
        moving_variance_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.axis, self.momentum, self.epsilon = int(axis), float(momentum), float(epsilon)
        self.center, self.scale = bool(center), bool(scale)
        self._starts = (gamma_initializer, beta_initializer, moving_mean_initializer, moving_variance_initializer)
        self._gamma_options = {"regularizer": gamma_regularizer, "constraint": gamma_constraint}
        self._beta_options = {"regularizer": beta_regularizer, "constraint": beta_constraint}

    def build(self, input_shape: Any) -> None:
        shape = (input_shape[_axes(self.axis, len(input_shape))[0]],)
        gamma, beta, mean, variance = self._starts
        self.gamma = self.beta = None
        if self.scale:
            self.gamma = self.add_weight(shape=shape, initializer=gamma, name="gamma", **self._gamma_options)
        if self.center:
            self.beta = self.add_weight(shape=shape, initializer=beta, name="beta", **self._beta_options)
        self.moving_mean = self.add_weight(shape=shape, initializer=mean, trainable=False, name="moving_mean")
        self.moving_variance = self.add_weight(
            shape=shape, initializer=variance, trainable=False, name="moving_variance"
        )
        self.built = True

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        x = convert_to_tensor(inputs)
        channels = _axes(self.axis, x.ndim)[0]
        mean: Any = self.moving_mean
        variance: Any = self.moving_variance
        if training and self.trainable:
            mean, variance = gtape.nn.moments(x, axes=[i for i in range(x.ndim) if i != channels])
            self._follow(self.moving_mean, mean)
            self._follow(self.moving_variance, variance)
        shape = [-1 if i == channels else 1 for i in range(x.ndim)]
        plain = channels == x.ndim - 1
        parts = [v if v is None or plain else gtape.reshape(v, shape) for v in (mean, variance, self.beta, self.gamma)]
        return _normalized(x, parts[0], parts[1], parts[2], parts[3], self.epsilon)

    def _follow(self, moving: Any, new: Any) -> None:
        # In NumPy: no gradient flows into a variable's state, so there is nothing to record.
        number = moving._aval.dtype.type
        value = moving.numpy() * number(self.momentum) + new.numpy() * number(1.0 - self.momentum)
        moving.assign(wrap(value))


class LayerNormalization(Layer):
    """Normalise each sample over some of its axes (Ba, Kiros and Hinton, 2016).

    Parameters
    ----------
    axis : int or sequence of int
        Over which axes; gamma and beta have their shape.
    epsilon : float
    center, scale : bool
        Whether there are beta and gamma.
    beta_initializer, gamma_initializer : str or callable
    beta_regularizer, gamma_regularizer, beta_constraint, gamma_constraint : str or callable, optional
    **common
        As for `Layer`.

    Examples
    --------
    >>> import gtape as tf
    >>> layer = tf.keras.layers.LayerNormalization(epsilon=0.0)
    >>> layer(tf.constant([[1.0, 3.0], [10.0, 30.0]])).numpy().tolist()
    [[-1.0, 1.0], [-1.0, 1.0]]
    """

    def __init__(
        self,
        axis: Any = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.axis, self.epsilon, self.center, self.scale = axis, float(epsilon), bool(center), bool(scale)
        self._starts = (gamma_initializer, beta_initializer)
        self._gamma_options = {"regularizer": gamma_regularizer, "constraint": gamma_constraint}
        self._beta_options = {"regularizer": beta_regularizer, "constraint": beta_constraint}

    def build(self, input_shape: Any) -> None:
        shape = [input_shape[a] for a in _axes(self.axis, len(input_shape))]
        self.gamma = self.beta = None
        if self.scale:
            self.gamma = self.add_weight(shape=shape, initializer=self._starts[0], name="gamma", **self._gamma_options)
        if self.center:
            self.beta = self.add_weight(shape=shape, initializer=self._starts[1], name="beta", **self._beta_options)
        self.built = True

    def call(self, inputs: Any) -> Any:
        x = convert_to_tensor(inputs)
        axes = _axes(self.axis, x.ndim)
        mean, variance = gtape.nn.moments(x, axes=axes, keepdims=True)
        shape = [x.shape[i] if i in axes else 1 for i in range(x.ndim)]
        last = axes == [x.ndim - 1]
        beta, gamma = (v if v is None or last else gtape.reshape(v, shape) for v in (self.beta, self.gamma))
        return _normalized(x, mean, variance, beta, gamma, self.epsilon)
