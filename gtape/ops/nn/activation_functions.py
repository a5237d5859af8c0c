"""Activations with arguments besides the tensor: crelu, gelu, leaky_relu and silu."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.base.scalars import float_of
from gtape.declare.primitives import REGISTRY
from gtape.ops.elementwise.selection import relu
from gtape.ops.shape.join import concat
from gtape.tensors.operands import operands
from gtape.tensors.tensor import Tensor, as_operand, is_tensor

__all__ = ["crelu", "gelu", "leaky_relu", "silu"]


@diagnosed
def crelu(features: Any, axis: Any = -1, name: str | None = None) -> Tensor:
    """The positive part and the negative part, side by side along an axis.

    Parameters
    ----------
    features : tensor of floats
    axis : int
        The axis that becomes twice as long.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the axis is out of range.

    Examples
    --------
    >>> tf.nn.crelu([1.0, -2.0]).numpy()
    array([1., 0., 0., 2.], dtype=float32)
    """
    x = as_operand(features)
    return relu(concat([x, -x], axis))


@diagnosed
def gelu(features: Any, approximate: bool = False, name: str | None = None) -> Tensor:
    """The Gaussian error linear unit: x times the standard normal distribution function.

    Parameters
    ----------
    features : tensor of floats
    approximate : bool
        Whether to use ``0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x³)))`` instead.

    Returns
    -------
    Tensor, shape of `features`

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `features` does not hold floats.

    Examples
    --------
    >>> tf.nn.gelu(tf.constant([1.0, -10.0], tf.float64)).numpy()
    array([ 8.41344746e-01, -7.61985302e-23])
    """
    return REGISTRY["gelu_tanh" if approximate else "gelu"].function(features)  # type: ignore[no-any-return]


@diagnosed
def leaky_relu(features: Any, alpha: float = 0.2, name: str | None = None) -> Tensor:
    """x where x > 0, otherwise alpha * x. The slope at 0 is alpha.

    Parameters
    ----------
    features : tensor of floats or integers
        Integers become float32, as in TensorFlow.
    alpha : float
        The slope of the negative side.

    Returns
    -------
    Tensor, shape of `features`

    Raises
    ------
    TypeError
        If `alpha` is a tensor.

    Examples
    --------
    >>> tf.nn.leaky_relu([-2.0, 0.0, 3.0], alpha=0.5).numpy()
    array([-1.,  0.,  3.], dtype=float32)
    """
    x = as_operand(features)
    if x._layout.dtype.kind in "iu":
        x = REGISTRY["cast"](x, dtype=np.dtype(np.float32))
    if is_tensor(alpha):
        raise TypeError("alpha must be a Python number; for a slope that is a tensor use where(x > 0, x, alpha * x)")
    return REGISTRY["leaky_relu"].function(x, alpha=float_of(alpha, "leaky_relu", "alpha"))  # type: ignore[no-any-return]


@diagnosed
def silu(features: Any, beta: Any = 1.0, name: str | None = None) -> Tensor:
    """The sigmoid linear unit, or swish: ``x * sigmoid(beta * x)``.

    Parameters
    ----------
    features : tensor of floats or complex numbers
    beta : float or tensor
        Gradients flow to a tensor.

    Returns
    -------
    Tensor, shape of `features`

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `features` does not hold floats, or `beta` has another dtype.

    Examples
    --------
    >>> tf.nn.silu([0.0, 1.0]).numpy()
    array([0.       , 0.7310586], dtype=float32)
    """
    x = as_operand(features)
    if beta.__class__ is float and beta == 1.0 and not x._layout.complex:
        return REGISTRY["silu"](x)
    x, factor = operands(x, beta)
    return x * REGISTRY["sigmoid"](factor * x)
