"""Activation functions under Keras's names."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import gtape
from gtape.base.docstrings import documented_like
from gtape.base.sections import add_sections
from gtape.keras.lookup import by_name
from gtape.tensors import argument_checks as checks
from gtape.tensors.tensor import Tensor

__all__ = [
    "elu", "exponential", "gelu", "get", "hard_sigmoid", "hard_silu", "hard_swish", "leaky_relu", "linear",
    "log_sigmoid", "log_softmax", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "softmax", "softplus", "softsign",
    "swish", "tanh",
]  # fmt: skip

__dir__ = __all__.copy  # the names for `dir`, which sorts them


def relu(x: Any, negative_slope: float = 0.0, max_value: float | None = None, threshold: float = 0.0) -> Tensor:
    """``max(x, 0)``, or a piecewise linear function.

    Parameters
    ----------
    x : tensor of floats
    negative_slope : float
    max_value : float, optional
        The greatest value.
    threshold : float
        The function is ``negative_slope * (x - threshold)`` below the threshold and x above.

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
    elif max_value == 6 and not negative_slope:
        return gtape.nn.relu6(x)
    else:
        y = gtape.nn.leaky_relu(x, negative_slope) if negative_slope else gtape.nn.relu(x)
    return y if max_value is None else gtape.minimum(y, max_value)


@documented_like(relu)
def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """x for x > 0, otherwise ``alpha * (exp(x) - 1)``.

    Parameters
    ----------
    alpha : float

    Examples
    --------
    >>> tf.keras.activations.elu(tf.constant([-1000.0, 2.0]), alpha=0.5).numpy()
    array([-0.5,  2. ], dtype=float32)
    """
    x, alpha = checks.tensor("elu", "x", x), checks.number("elu", "alpha", alpha)
    y = gtape.nn.elu(x)
    return y if alpha == 1.0 else gtape.where(x > 0, y, alpha * y)


@documented_like(relu)
def gelu(x: Any, approximate: bool = False) -> Tensor:
    """x times the probability that a standard normal variable is less than x. `approximate` uses a formula with tanh.

    Parameters
    ----------
    approximate : bool

    Examples
    --------
    >>> tf.keras.activations.gelu(tf.constant([0.0, 40.0])).numpy()
    array([ 0., 40.], dtype=float32)
    """
    x = checks.tensor("gelu", "x", x)
    return gtape.nn.gelu(x, checks.flag("gelu", "approximate", approximate))


@documented_like(relu)
def leaky_relu(x: Any, negative_slope: float = 0.2) -> Tensor:
    """x for x > 0, otherwise ``negative_slope * x``.

    Examples
    --------
    >>> tf.keras.activations.leaky_relu(tf.constant([-2.0, 2.0]), 0.25).numpy()
    array([-0.5,  2. ], dtype=float32)
    """
    return gtape.nn.leaky_relu(x, checks.number("leaky_relu", "negative_slope", negative_slope))


@documented_like(relu)
def softmax(x: Any, axis: int = -1) -> Tensor:
    """Exponentials divided by their sum.

    Parameters
    ----------
    axis : int
        The axis of the sum.

    Examples
    --------
    >>> tf.keras.activations.softmax(tf.constant([[0.0, 0.0]])).numpy()
    array([[0.5, 0.5]], dtype=float32)
    """
    return gtape.nn.softmax(x, axis=checks.whole("softmax", "axis", axis))


@documented_like(softmax)
def log_softmax(x: Any, axis: int = -1) -> Tensor:
    """The logarithm of `softmax`.

    Examples
    --------
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

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.activations.linear(tf.constant([0.0, 2.0])).numpy()
    array([0., 2.], dtype=float32)
    """
    return x


@documented_like(relu)
def hard_silu(x: Any) -> Tensor:
    """``x * hard_sigmoid(x)``.

    Examples
    --------
    >>> tf.keras.activations.hard_silu(tf.constant([0.0, 5.0])).numpy()
    array([0., 5.], dtype=float32)
    """
    x = checks.tensor("hard_silu", "x", x)
    return x * hard_sigmoid(x)  # type: ignore[no-any-return]


def _elementwise(name: str, summary: str, inputs: str, result: str, op: str | None = None) -> Callable[[Any], Tensor]:
    """An op of `gtape.nn`, or the op with the path `op`, as a function with Keras's name."""
    path = op or f"nn.{name}"

    def function(x: Any) -> Tensor:
        return attrgetter(path)(gtape)(x)  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = summary
    add_sections(
        function, Parameters="x : tensor of floats", Returns="Tensor, shape of `x`",
        Examples=f">>> tf.keras.activations.{name}({inputs}).numpy()\narray({result}, dtype=float32)",
    )  # fmt: skip
    return function


exponential = _elementwise("exponential", "``exp(x)``.", "[0.0]", "[1.]", "exp")
hard_sigmoid = _elementwise("hard_sigmoid", "``clip(x / 6 + 1/2, 0, 1)``.", "tf.constant([0.0, 5.0])", "[0.5, 1. ]")
log_sigmoid = _elementwise("log_sigmoid", "The logarithm of `sigmoid`.", "[-1000.0]", "[-1000.]", "math.log_sigmoid")
mish = _elementwise("mish", "``x * tanh(softplus(x))``.", "[0.0]", "[0.]")
relu6 = _elementwise("relu6", "``min(max(x, 0), 6)``.", "tf.constant([0.0, 7.0])", "[0., 6.]")
_SELU = "`elu` with constants that keep mean 0 and variance 1 (Klambauer and others, 2017)."
selu = _elementwise("selu", _SELU, "[0.0]", "[0.]")
sigmoid = _elementwise("sigmoid", "``1 / (1 + exp(-x))``.", "[0.0]", "[0.5]", "sigmoid")
silu = _elementwise("silu", "``x * sigmoid(x)``.", "[0.0]", "[0.]")
softplus = _elementwise("softplus", "``log(1 + exp(x))``.", "[-1000.0, 1000.0]", "[   0., 1000.]")
softsign = _elementwise("softsign", "``x / (1 + |x|)``.", "tf.constant([0.0, 1.0])", "[0. , 0.5]")
tanh = _elementwise("tanh", "The hyperbolic tangent.", "[0.0]", "[0.]", "tanh")
swish = silu
hard_swish = hard_silu

_KNOWN: dict[str, Any] = {name: globals()[name] for name in __all__ if name != "get"}


@documented_like(by_name)
def get(identifier: Any) -> Callable[..., Any]:
    """An activation function by its name.

    Parameters
    ----------
    identifier : str, callable or None
        Callables are returned unchanged. None stands for `linear`.

    Returns
    -------
    callable

    Examples
    --------
    >>> float(tf.keras.activations.get("relu")(-1.0))
    0.0
    """
    return linear if identifier is None else by_name(identifier, _KNOWN, "activation function", make=False)
