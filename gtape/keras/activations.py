"""Activation functions under Keras's names; `get` finds them by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gtape
from gtape.keras.lookup import by_name
from gtape.tensors import argument_checks as checks
from gtape.tensors.tensor import Tensor

__all__ = [
    "elu", "exponential", "gelu", "get", "hard_sigmoid", "hard_silu", "hard_swish", "leaky_relu", "linear",
    "log_sigmoid", "log_softmax", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "softmax", "softplus", "softsign",
    "swish", "tanh",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


def relu(x: Any, negative_slope: float = 0.0, max_value: float | None = None, threshold: float = 0.0) -> Tensor:
    """``max(x, 0)``, or a line with kinks of your choice.

    Parameters
    ----------
    x : tensor of floats
    negative_slope : float
        The slope below the threshold.
    max_value : float, optional
        The value where the function stops rising.
    threshold : float
        Below it ``negative_slope * (x - threshold)``, above it x.

    Returns
    -------
    Tensor, shape of `x`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.activations.relu(tf.constant([-2.0, 2.0]), negative_slope=0.5).numpy()
    array([-1.,  2.], dtype=float32)
    """
    x = checks.tensor("relu", "x", x)
    negative_slope = checks.number("relu", "negative_slope", negative_slope)
    threshold = checks.number("relu", "threshold", threshold)
    max_value = None if max_value is None else checks.number("relu", "max_value", max_value)
    if threshold != 0:
        y = gtape.where(x > threshold, x, negative_slope * (x - threshold))
        return y if max_value is None else gtape.minimum(y, max_value)
    if max_value == 6 and not negative_slope:
        return gtape.nn.relu6(x)
    y = gtape.nn.leaky_relu(x, negative_slope) if negative_slope else gtape.nn.relu(x)
    return y if max_value is None else gtape.minimum(y, max_value)


def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """x above 0, ``alpha * (exp(x) - 1)`` below.

    Parameters
    ----------
    x : tensor of floats
    alpha : float
        Minus the limit far below 0.

    Returns
    -------
    Tensor, shape of `x`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.activations.elu(tf.constant([-1000.0, 2.0]), alpha=0.5).numpy()
    array([-0.5,  2. ], dtype=float32)
    """
    x, alpha = checks.tensor("elu", "x", x), checks.number("elu", "alpha", alpha)
    y = gtape.nn.elu(x)
    return y if alpha == 1.0 else gtape.where(x > 0, y, alpha * y)


def gelu(x: Any, approximate: bool = False) -> Tensor:
    """x times the probability that a normal variable is less; `approximate` takes a formula with tanh for that.

    Parameters
    ----------
    x : tensor of floats
    approximate : bool

    Returns
    -------
    Tensor, shape of `x`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.activations.gelu(tf.constant([0.0, 40.0])).numpy()
    array([ 0., 40.], dtype=float32)
    """
    x = checks.tensor("gelu", "x", x)
    return gtape.nn.gelu(x, checks.flag("gelu", "approximate", approximate))


def leaky_relu(x: Any, negative_slope: float = 0.2) -> Tensor:
    """x above 0, ``negative_slope * x`` below.

    Parameters
    ----------
    x : tensor of floats
    negative_slope : float

    Returns
    -------
    Tensor, shape of `x`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.activations.leaky_relu(tf.constant([-2.0, 2.0]), 0.25).numpy()
    array([-0.5,  2. ], dtype=float32)
    """
    return gtape.nn.leaky_relu(x, checks.number("leaky_relu", "negative_slope", negative_slope))


def softmax(x: Any, axis: int = -1) -> Tensor:
    """Exponentials divided by their sum.

    Parameters
    ----------
    x : tensor of floats
    axis : int
        Along which the exponentials are added.

    Returns
    -------
    Tensor, shape of `x`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.activations.softmax(tf.constant([[0.0, 0.0]])).numpy()
    array([[0.5, 0.5]], dtype=float32)
    """
    return gtape.nn.softmax(x, axis=checks.whole("softmax", "axis", axis))


def log_softmax(x: Any, axis: int = -1) -> Tensor:
    """The logarithm of `softmax`.

    Parameters
    ----------
    x : tensor of floats
    axis : int
        Along which the exponentials are added.

    Returns
    -------
    Tensor, shape of `x`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.activations.log_softmax([[5.0]]).numpy()
    array([[0.]], dtype=float32)
    """
    return gtape.nn.log_softmax(x, axis=checks.whole("log_softmax", "axis", axis))


def linear(x: Any) -> Any:
    """x itself.

    Parameters
    ----------
    x : tensor

    Returns
    -------
    tensor
        `x`.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.activations.linear(tf.constant([0.0, 2.0])).numpy()
    array([0., 2.], dtype=float32)
    """
    return x


def exponential(x: Any) -> Tensor:
    """``exp(x)``.

    Parameters
    ----------
    x : tensor of floats

    Returns
    -------
    Tensor, shape of `x`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.activations.exponential([0.0]).numpy()
    array([1.], dtype=float32)
    """
    return gtape.exp(x)


def hard_sigmoid(x: Any) -> Tensor:
    """``clip(x / 6 + 1/2, 0, 1)``.

    Parameters
    ----------
    x : tensor of floats

    Returns
    -------
    Tensor, shape of `x`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.activations.hard_sigmoid(tf.constant([0.0, 5.0])).numpy()
    array([0.5, 1. ], dtype=float32)
    """
    return gtape.nn.hard_sigmoid(x)


def hard_silu(x: Any) -> Tensor:
    """``x * hard_sigmoid(x)``.

    Parameters
    ----------
    x : tensor of floats

    Returns
    -------
    Tensor, shape of `x`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.activations.hard_silu(tf.constant([0.0, 5.0])).numpy()
    array([0., 5.], dtype=float32)
    """
    x = checks.tensor("hard_silu", "x", x)
    return x * hard_sigmoid(x)  # type: ignore[no-any-return]


def log_sigmoid(x: Any) -> Tensor:
    """The logarithm of `sigmoid`.

    Parameters
    ----------
    x : tensor of floats

    Returns
    -------
    Tensor, shape of `x`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.activations.log_sigmoid([-1000.0]).numpy()
    array([-1000.], dtype=float32)
    """
    return gtape.math.log_sigmoid(x)


def mish(x: Any) -> Tensor:
    """``x * tanh(softplus(x))``.

    Parameters
    ----------
    x : tensor of floats

    Returns
    -------
    Tensor, shape of `x`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.activations.mish([0.0]).numpy()
    array([0.], dtype=float32)
    """
    return gtape.nn.mish(x)


def relu6(x: Any) -> Tensor:
    """``min(max(x, 0), 6)``.

    Parameters
    ----------
    x : tensor of floats

    Returns
    -------
    Tensor, shape of `x`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.activations.relu6(tf.constant([0.0, 7.0])).numpy()
    array([0., 6.], dtype=float32)
    """
    return gtape.nn.relu6(x)


def selu(x: Any) -> Tensor:
    """`elu` with constants that keep mean 0 and variance 1 (Klambauer and others, 2017).

    Parameters
    ----------
    x : tensor of floats

    Returns
    -------
    Tensor, shape of `x`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.activations.selu([0.0]).numpy()
    array([0.], dtype=float32)
    """
    return gtape.nn.selu(x)


def sigmoid(x: Any) -> Tensor:
    """``1 / (1 + exp(-x))``.

    Parameters
    ----------
    x : tensor of floats

    Returns
    -------
    Tensor, shape of `x`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.activations.sigmoid([0.0]).numpy()
    array([0.5], dtype=float32)
    """
    return gtape.sigmoid(x)


def silu(x: Any) -> Tensor:
    """``x * sigmoid(x)``.

    Parameters
    ----------
    x : tensor of floats

    Returns
    -------
    Tensor, shape of `x`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.activations.silu([0.0]).numpy()
    array([0.], dtype=float32)
    """
    return gtape.nn.silu(x)


def softplus(x: Any) -> Tensor:
    """``log(1 + exp(x))``.

    Parameters
    ----------
    x : tensor of floats

    Returns
    -------
    Tensor, shape of `x`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.activations.softplus([-1000.0, 1000.0]).numpy()
    array([   0., 1000.], dtype=float32)
    """
    return gtape.nn.softplus(x)


def softsign(x: Any) -> Tensor:
    """``x / (1 + |x|)``.

    Parameters
    ----------
    x : tensor of floats

    Returns
    -------
    Tensor, shape of `x`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.activations.softsign(tf.constant([0.0, 1.0])).numpy()
    array([0. , 0.5], dtype=float32)
    """
    return gtape.nn.softsign(x)


def tanh(x: Any) -> Tensor:
    """The hyperbolic tangent.

    Parameters
    ----------
    x : tensor of floats

    Returns
    -------
    Tensor, shape of `x`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.activations.tanh([0.0]).numpy()
    array([0.], dtype=float32)
    """
    return gtape.tanh(x)


swish = silu
hard_swish = hard_silu

_KNOWN: dict[str, Any] = {name: globals()[name] for name in __all__ if name != "get"}


def get(identifier: Any) -> Callable[..., Any]:
    """An activation function.

    Parameters
    ----------
    identifier : str, callable or None
        A name, a function, which is returned, or None for `linear`.

    Returns
    -------
    callable

    Raises
    ------
    ValueError
        For an unknown name.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.activations.get("relu")(-1.0))
    0.0
    """
    return linear if identifier is None else by_name(identifier, _KNOWN, "activation function", make=False)
