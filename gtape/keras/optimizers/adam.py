"""Adam and its relatives: steps scaled by running means of the gradient and of its size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gtape.keras.optimizers.base import Optimizer
from gtape.keras.optimizers.clipping import dense
from gtape.tensors.argument_checks import flag
from gtape.tensors.tensor import wrap
from gtape.tensors.variable import Variable

__all__ = ["Adam", "AdamW", "Adamax", "Nadam"]


class _Means(Optimizer):
    """Base of the family: two running means, of the gradient and of its size."""

    slots: tuple[tuple[str, ...], ...] = (("momentum", "velocity"),)
    options: tuple[str, ...] = ("beta_1", "beta_2", "epsilon")

    def __init__(
        self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7,
        **common: Any,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, **common)
        self.beta_1, self.beta_2 = self._share("beta_1", beta_1), self._share("beta_2", beta_2)
        self.epsilon = self._number("epsilon", epsilon)


def _follow(slot: Variable, new: Any, forget: float) -> Any:
    """A running mean after one more value."""
    old = slot.numpy()
    # The mean moves towards the new value. The sum of two products is avoided, because it is inexact for equal values.
    moved = old + (new - old) * new.dtype.type(forget)
    slot.assign(wrap(moved))
    return moved


class Adam(_Means):
    """Adam: steps scaled by running means of the gradient and of its square.

    With t the number of steps, ``m = beta_1 * m + (1 - beta_1) * g``, ``s = beta_2 * s + (1 - beta_2) * g**2`` and
    ``v -= rate * sqrt(1 - beta_2**t) / (1 - beta_1**t) * m / (sqrt(s) + epsilon)``. Each
    variable counts t from its first step. Kingma and Ba, 2015.

    Parameters
    ----------
    learning_rate, **common : as for `Optimizer`
    beta_1, beta_2 : float
        The weights of the old means, in [0, 1).
    epsilon : float
        A small number that keeps the step finite if all gradients were zero.
    amsgrad : bool
        True divides by the largest s so far (Reddi, Kale and Kumar, 2018).

    Raises
    ------
    ValueError
        If `beta_1` or `beta_2` is outside [0, 1), and as for `Optimizer`.

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.Variable(3.0)
    >>> optimizer = tf.keras.optimizers.Adam(learning_rate=0.5)
    >>> for _ in range(200):
    ...     _ = optimizer.minimize(lambda: x * x, [x])
    >>> bool(abs(x.numpy()) < 1e-2)
    True
    """

    options = (*_Means.options, "amsgrad")
    default_name = "adam"

    def __init__(
        self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7,
        amsgrad: bool = False, **common: Any,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, beta_1, beta_2, epsilon, **common)
        self.amsgrad = flag(self, "amsgrad", amsgrad)
        if self.amsgrad:
            self.slots = (*self.slots, ("velocity_hat",))

    def _formula(self, v: Any, g: Any, rate: Any, slots: dict[str, Variable]) -> None:
        g = dense(g, v)
        number, t = g.dtype.type, self._age(v)
        m = _follow(slots["momentum"], g, 1.0 - self.beta_1)
        s = _follow(slots["velocity"], np.square(g), 1.0 - self.beta_2)
        if self.amsgrad:
            s = np.maximum(slots["velocity_hat"].numpy(), s)
            slots["velocity_hat"].assign(wrap(s))
        length = rate * number(math.sqrt(1.0 - self.beta_2**t) / (1.0 - self.beta_1**t))
        v.assign_sub(wrap(length * m / (np.sqrt(s) + number(self.epsilon))))


class AdamW(Adam):
    """Adam with weight decay: before each step a variable loses ``rate * weight_decay`` of its value.

    Loshchilov and Hutter, 2019.

    Parameters
    ----------
    weight_decay : float
    learning_rate, beta_1, beta_2, epsilon, amsgrad, **common : as for `Adam`

    Raises
    ------
    ValueError
        If `weight_decay` is None, and as for `Adam`.

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.Variable([1.0])
    >>> int(tf.keras.optimizers.AdamW(0.5, weight_decay=0.5).apply_gradients([(tf.constant([0.0]), x)]))
    1
    >>> x.numpy()
    array([0.75], dtype=float32)
    """

    default_name = "adam_w"

    def __init__(
        self, learning_rate: Any = 0.001, weight_decay: float | None = 0.004, beta_1: float = 0.9,
        beta_2: float = 0.999, epsilon: float = 1e-7, amsgrad: bool = False, **common: Any,
    ) -> None:  # fmt: skip
        if weight_decay is None:
            raise ValueError("Argument `weight_decay` must be a float. Received: weight_decay=None")
        super().__init__(learning_rate, beta_1, beta_2, epsilon, amsgrad, weight_decay=weight_decay, **common)


class Adamax(_Means):
    """Adam with the largest size of the gradient instead of the mean of its square.

    ``m = beta_1 * m + (1 - beta_1) * g``, ``u = max(beta_2 * u, |g|)`` and ``v -= rate / (1 - beta_1**t) * m / (u +
    epsilon)``. Kingma and Ba, 2015, section 7. The arguments are those of `Adam`, without `amsgrad`.

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.Variable([1.0])
    >>> int(tf.keras.optimizers.Adamax(0.5).apply_gradients([(tf.constant([4.0]), x)]))
    1
    >>> x.numpy()
    array([0.5], dtype=float32)
    """

    slots = (("momentum", "norm"),)
    default_name = "adamax"

    def _formula(self, v: Any, g: Any, rate: Any, slots: dict[str, Variable]) -> None:
        g = dense(g, v)
        number = g.dtype.type
        m = _follow(slots["momentum"], g, 1.0 - self.beta_1)
        u = np.maximum(number(self.beta_2) * slots["norm"].numpy(), np.abs(g))
        slots["norm"].assign(wrap(u))
        length = rate / number(1.0 - self.beta_1 ** self._age(v))
        v.assign_sub(wrap(length * m / (u + number(self.epsilon))))


class Nadam(_Means):
    """Adam that looks ahead, as Nesterov's momentum does.

    With ``b(t) = beta_1 * (1 - 0.96**t / 2)`` and B(t) the product of b(1) to b(t), ``m' = b(t+1) * m / (1 - B(t+1)) +
    (1 - b(t)) * g / (1 - B(t))``, ``s' = s / (1 - beta_2**t)`` and ``v -= rate * m' / (sqrt(s') + epsilon)``, where m
    and s are Adam's. Dozat, 2015. The arguments are those of `Adamax`.

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.Variable(3.0)
    >>> optimizer = tf.keras.optimizers.Nadam(learning_rate=0.5)
    >>> for _ in range(100):
    ...     _ = optimizer.minimize(lambda: x * x, [x])
    >>> bool(abs(x.numpy()) < 1e-2)
    True
    """

    default_name = "nadam"
    _product: Variable | None = None
    _newest_product = (0, 1.0)  # t and B(t)

    def _slots_of(self, v: Any) -> dict[str, Variable]:
        made = super()._slots_of(v)
        if self._product is None:
            # Keras keeps B(t) with the state, in one variable. Here it follows from t, which differs among variables.
            self._product = self.add_variable((), "ones", "float64", name="product")
        return made

    def _weight(self, t: int) -> float:
        return self.beta_1 * (1.0 - 0.5 * 0.96**t)

    def _product_up_to(self, t: int) -> float:
        """The product of the weights from 1 to t."""
        last, product = self._newest_product
        if last > t:
            last, product = 0, 1.0
        for i in range(last + 1, t + 1):
            product *= self._weight(i)
        self._newest_product = (t, product)
        return product

    def _formula(self, v: Any, g: Any, rate: Any, slots: dict[str, Variable]) -> None:
        g = dense(g, v)
        number, t = g.dtype.type, self._age(v)
        now, ahead, product = self._weight(t), self._weight(t + 1), self._product_up_to(t)
        if self._product is not None and t == int(self.iterations.numpy()) + 1:
            self._product.assign(wrap(np.float64(product)))
        m = _follow(slots["momentum"], g, 1.0 - self.beta_1)
        s = _follow(slots["velocity"], np.square(g), 1.0 - self.beta_2)
        m = number(ahead / (1.0 - product * ahead)) * m + number((1.0 - now) / (1.0 - product)) * g
        s = s / number(1.0 - self.beta_2**t)
        v.assign_sub(wrap(rate * m / (np.sqrt(s) + number(self.epsilon))))
