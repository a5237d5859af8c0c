"""Penalties on weights, for the losses of layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gtape
from gtape.base.docstrings import documented_like
from gtape.keras.lookup import Configured, by_name
from gtape.tensors import argument_checks as checks
from gtape.tensors.tensor import Tensor

__all__ = ["L1", "L1L2", "L2", "Regularizer", "get", "l1", "l1_l2", "l2"]

__dir__ = __all__.copy  # the names for `dir`, which sorts them


class Regularizer(Configured):
    """Base class of regularizers: a function of a weight that returns a scalar.

    Examples
    --------
    >>> import gtape as tf
    >>> class Spread(tf.keras.regularizers.Regularizer):
    ...     def __call__(self, x):
    ...         return tf.math.reduce_variance(x)
    >>> layer = tf.keras.layers.Dense(1, kernel_regularizer=Spread())
    >>> y = layer(tf.ones([1, 3]))
    >>> len(layer.losses)
    1
    """

    def __call__(self, x: Any) -> Any:
        """The penalty of one weight."""
        return 0.0


def _strength(owner: Any, name: str, value: Any) -> float:
    return 0.0 if value is None else float(checks.number(owner, name, value, math.isfinite, "must be a finite number"))


class L1L2(Regularizer):
    """``l1 * sum(|x|) + l2 * sum(x ** 2)``.

    Parameters
    ----------
    l1, l2 : float

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.regularizers.L1L2(l1=1.0, l2=0.5)(tf.constant([2.0, -2.0])))
    8.0
    """

    options: tuple[str, ...] = ("l1", "l2")

    def __init__(self, l1: float = 0.0, l2: float = 0.0) -> None:
        self.l1, self.l2 = _strength(self, "l1", l1), _strength(self, "l2", l2)

    def __call__(self, x: Any) -> Tensor:
        x = checks.tensor(self, "x", x)
        parts: list[Any] = [self.l1 * gtape.reduce_sum(gtape.abs(x))] if self.l1 else []
        parts += [self.l2 * gtape.reduce_sum(gtape.square(x))] if self.l2 else []
        total: Tensor = sum(parts[1:], parts[0]) if parts else gtape.zeros([], x.dtype)
        return total


class L1(L1L2):
    """``l1 * sum(|x|)``; its gradient at 0 is 0.

    Parameters
    ----------
    l1 : float

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.regularizers.L1(0.5)(tf.constant([2.0, -2.0])))
    2.0
    """

    options = ("l1",)

    def __init__(self, l1: float = 0.01) -> None:
        super().__init__(l1=l1)


class L2(L1L2):
    """``l2 * sum(x ** 2)``.

    Parameters
    ----------
    l2 : float

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.regularizers.L2(0.5)(tf.constant([2.0, -2.0])))
    4.0
    """

    options = ("l2",)

    def __init__(self, l2: float = 0.01) -> None:
        super().__init__(l2=l2)


def l1_l2(l1: float = 0.0, l2: float = 0.0) -> L1L2:
    """The same as `L1L2`.

    Parameters
    ----------
    l1, l2 : float

    Returns
    -------
    L1L2

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.regularizers.l1_l2(1.0, 0.5)(tf.constant([2.0, -2.0])))
    8.0
    """
    return L1L2(l1=l1, l2=l2)


l1 = L1
l2 = L2

_KNOWN: dict[str, Any] = {"l1": L1, "L1": L1, "l2": L2, "L2": L2, "l1_l2": l1_l2, "L1L2": L1L2}


@documented_like(by_name)
def get(identifier: Any) -> Callable[..., Any] | None:
    """A regularizer by its name.

    Examples
    --------
    >>> float(tf.keras.regularizers.get("l2")(tf.constant([10.0])))
    1.0
    """
    if identifier is None:
        return None
    found = by_name(identifier, _KNOWN, "regularizer", make=True)
    return found() if found is l1_l2 else found
