"""Gradient descent, plain and with momentum."""

from __future__ import annotations

from typing import Any

from gtape.keras.optimizers.base import Optimizer
from gtape.keras.optimizers.clipping import dense, is_sparse, rows
from gtape.tensors.argument_checks import flag, number
from gtape.tensors.tensor import wrap
from gtape.tensors.variable import Variable

__all__ = ["SGD"]


class SGD(Optimizer):
    """Gradient descent, optionally with momentum.

    Without momentum ``v -= rate * g``. With momentum ``m = momentum * m - rate * g`` and ``v += m``; Nesterov's form
    looks ahead: ``v += momentum * m - rate * g``.

    Parameters
    ----------
    learning_rate, **common : as for `Optimizer`
    momentum : float
        The fraction of the last step that is added to the next step, in [0, 1].
    nesterov : bool
        Whether to use Nesterov's form.

    Raises
    ------
    ValueError
        If `momentum` is outside [0, 1], and as for `Optimizer`.

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

    slots: tuple[tuple[str, ...], ...] = (("momentum",),)
    options = ("momentum", "nesterov")
    default_name = "sgd"

    def __init__(self, learning_rate: Any = 0.01, momentum: float = 0.0, nesterov: bool = False, **common: Any) -> None:
        super().__init__(learning_rate, **common)
        wanted = "must be a float between [0, 1]"
        self.momentum = float(number(self, "momentum", momentum, lambda v: 0 <= v <= 1, wanted))
        self.nesterov = flag(self, "nesterov", nesterov)
        if not self.momentum:
            self.slots = ()

    def _formula(self, v: Any, g: Any, rate: Any, slots: dict[str, Variable]) -> None:
        if not self.momentum:
            if is_sparse(g):
                values, indices = rows(g)
                v.scatter_sub(type(g)(rate * values.astype(rate.dtype, copy=False), indices, g.dense_shape))
            else:
                v.assign_sub(wrap(rate * g))
            return
        step = rate * dense(g, v)
        momentum = v.dtype.as_numpy_dtype(self.momentum)
        m = momentum * slots["momentum"].numpy() - step
        slots["momentum"].assign(wrap(m))
        v.assign_add(wrap(momentum * m - step if self.nesterov else m))
