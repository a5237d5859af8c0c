"""The optimizers: what is done with gradients once a tape has them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gtape.keras.optimizer import Optimizer, is_sparse, rows
from gtape.tensor import wrap
from gtape.variable import Variable

__all__ = ["SGD", "Adam", "Optimizer"]


class SGD(Optimizer):
    """Gradient descent, with momentum if asked for.

    Without momentum ``v -= rate * g``. With momentum ``m = momentum * m - rate * g`` and ``v += m``; Nesterov's form
    looks ahead: ``v += momentum * m - rate * g``.

    Parameters
    ----------
    learning_rate : float or callable
        The step's length.
    momentum : float
        How much of the last step goes on, between 0 and 1.
    nesterov : bool
        Whether to look ahead.
    weight_decay, clipnorm, clipvalue, global_clipnorm, name
        As for `Optimizer`.

    Raises
    ------
    ValueError
        For a momentum outside [0, 1], and as `Optimizer`.

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.Variable(3.0)
    >>> optimizer = tf.keras.optimizers.SGD(learning_rate=0.1)
    >>> for _ in range(50):
    ...     _ = optimizer.minimize(lambda: x * x, [x])
    >>> bool(abs(x.numpy()) < 1e-4)
    True
    """

    slots: tuple[str, ...] = ("momentum",)

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        *,
        weight_decay: float | None = None,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
        global_clipnorm: float | None = None,
        name: str = "SGD",
    ) -> None:
        super().__init__(
            learning_rate,
            weight_decay=weight_decay,
            clipnorm=clipnorm,
            global_clipnorm=global_clipnorm,
            clipvalue=clipvalue,
            name=name,
        )
        if isinstance(momentum, bool) or not isinstance(momentum, (int, float)) or not 0 <= momentum <= 1:
            raise ValueError(f"`momentum` must be a float between [0, 1], got {momentum!r}")
        self.momentum = float(momentum)
        self.nesterov = bool(nesterov)
        if not self.momentum:
            self.slots = ()

    def update(self, v: Any, g: Any, rate: Any, slots: dict[str, Variable]) -> None:
        if not self.momentum:
            if is_sparse(g):
                values, indices = rows(g)
                v.scatter_sub(type(g)(rate * values.astype(rate.dtype, copy=False), indices, g.dense_shape))
            else:
                v.assign_sub(wrap(rate * g))
            return
        step = rate * self.dense(g, v)
        momentum = v.dtype.as_numpy_dtype(self.momentum)
        m = momentum * slots["momentum"].numpy() - step
        slots["momentum"].assign(wrap(m))
        v.assign_add(wrap(momentum * m - step if self.nesterov else m))


class Adam(Optimizer):
    """Adam: steps scaled by running means of the gradient and of its square.

    With t the number of steps, ``m = beta_1 * m + (1 - beta_1) * g``, ``s = beta_2 * s + (1 - beta_2) * g**2`` and
    ``v -= rate * sqrt(1 - beta_2**t) / (1 - beta_1**t) * m / (sqrt(s) + epsilon)``. For a variable that joins later, t
    counts from its own first step.

    Parameters
    ----------
    learning_rate : float or callable
        The step's length.
    beta_1, beta_2 : float
        How slowly the two means forget, in [0, 1).
    epsilon : float
        Keeps the step finite where all gradients were zero.
    weight_decay, clipnorm, clipvalue, global_clipnorm, name
        As for `Optimizer`.

    Raises
    ------
    ValueError
        For a mean that does not forget, and as `Optimizer`.

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

    slots = ("momentum", "velocity")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        *,
        weight_decay: float | None = None,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
        global_clipnorm: float | None = None,
        name: str = "adam",
    ) -> None:
        super().__init__(
            learning_rate,
            weight_decay=weight_decay,
            clipnorm=clipnorm,
            global_clipnorm=global_clipnorm,
            clipvalue=clipvalue,
            name=name,
        )
        for what, beta in (("beta_1", beta_1), ("beta_2", beta_2)):
            if not 0 <= beta < 1:
                raise ValueError(f"`{what}` must be in [0, 1), got {beta!r}")
        self.beta_1, self.beta_2, self.epsilon = float(beta_1), float(beta_2), float(epsilon)

    def update(self, v: Any, g: Any, rate: Any, slots: dict[str, Variable]) -> None:
        g = self.dense(g, v)
        number = g.dtype.type
        m, s = slots["momentum"].numpy(), slots["velocity"].numpy()
        # The mean moved towards the new value, rather than two products added: exact when both are equal.
        m = m + (g - m) * number(1.0 - self.beta_1)
        s = s + (np.square(g) - s) * number(1.0 - self.beta_2)
        slots["momentum"].assign(wrap(m))
        slots["velocity"].assign(wrap(s))
        t = self.age(v)
        length = rate * number(math.sqrt(1.0 - self.beta_2**t) / (1.0 - self.beta_1**t))
        v.assign_sub(wrap(length * m / (np.sqrt(s) + number(self.epsilon))))
