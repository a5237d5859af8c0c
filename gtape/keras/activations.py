"""Activation functions under Keras's names; `get` finds them by name."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
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


def _elementwise(name: str, op: str, summary: str, inputs: str, result: str) -> Callable[[Any], Tensor]:
    """An op of gtape under Keras's name."""

    def function(x: Any) -> Tensor:
        return attrgetter(op)(gtape)(x)  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{summary}

    Parameters
    ----------
    x : tensor of floats

    Returns
    -------
    Tensor, shape of `x`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.activations.{name}({inputs}).numpy()
    {result}
    """
    return function


exponential = _elementwise("exponential", "exp", "``exp(x)``.", "[0.0]", "array([1.], dtype=float32)")
hard_sigmoid = _elementwise(
    "hard_sigmoid",
    "nn.hard_sigmoid",
    "``clip(x / 6 + 1/2, 0, 1)``.",
    "tf.constant([0.0, 5.0])",
    "array([0.5, 1. ], dtype=float32)",
)
log_sigmoid = _elementwise(
    "log_sigmoid", "math.log_sigmoid", "The logarithm of `sigmoid`.", "[-1000.0]", "array([-1000.], dtype=float32)"
)
mish = _elementwise("mish", "nn.mish", "``x * tanh(softplus(x))``.", "[0.0]", "array([0.], dtype=float32)")
relu6 = _elementwise(
    "relu6", "nn.relu6", "``min(max(x, 0), 6)``.", "tf.constant([0.0, 7.0])", "array([0., 6.], dtype=float32)"
)
selu = _elementwise(
    "selu",
    "nn.selu",
    "`elu` with constants that keep mean 0 and variance 1 (Klambauer and others, 2017).",
    "[0.0]",
    "array([0.], dtype=float32)",
)
sigmoid = _elementwise("sigmoid", "sigmoid", "``1 / (1 + exp(-x))``.", "[0.0]", "array([0.5], dtype=float32)")
silu = _elementwise("silu", "nn.silu", "``x * sigmoid(x)``.", "[0.0]", "array([0.], dtype=float32)")
softplus = _elementwise(
    "softplus", "nn.softplus", "``log(1 + exp(x))``.", "[-1000.0, 1000.0]", "array([   0., 1000.], dtype=float32)"
)
softsign = _elementwise(
    "softsign", "nn.softsign", "``x / (1 + |x|)``.", "tf.constant([0.0, 1.0])", "array([0. , 0.5], dtype=float32)"
)
tanh = _elementwise("tanh", "tanh", "The hyperbolic tangent.", "[0.0]", "array([0.], dtype=float32)")
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
