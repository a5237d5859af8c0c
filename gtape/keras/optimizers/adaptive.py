"""Optimizers that scale the step of each entry by its earlier gradients: RMSprop, Adagrad, Adadelta, Ftrl."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.keras.optimizers.base import Optimizer
from gtape.keras.optimizers.clipping import dense
from gtape.tensors.argument_checks import flag, number
from gtape.tensors.tensor import wrap
from gtape.tensors.variable import Variable

__all__ = ["Adadelta", "Adagrad", "Ftrl", "RMSprop"]


def _kept(slot: Variable, value: Any) -> Any:
    """Store a value in a slot and return it."""
    slot.assign(wrap(value))
    return value


class RMSprop(Optimizer):
    """RMSprop: steps divided by the root of a running mean of squares.

    ``r = rho * r + (1 - rho) * g**2`` and ``v -= rate * g / sqrt(r + epsilon)``. With momentum,
    ``m = momentum * m + rate * g / sqrt(r + epsilon)`` and ``v -= m``. The centered form subtracts the square of a
    running mean of g from r. Hinton, 2012, lecture 6e.

    Parameters
    ----------
    learning_rate, **common : as for `Optimizer`
    rho : float
        The weight of the old mean.
    momentum : float
        The fraction of the last step that is added to the next step.
    epsilon : float
        A small number that keeps the step finite if all gradients were zero.
    centered : bool
        True divides by an estimate of the variance instead of the mean square.

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.Variable([1.0])
    >>> int(tf.keras.optimizers.RMSprop(0.5, rho=0.75).apply_gradients([(tf.constant([4.0]), x)]))
    1
    >>> x.numpy()
    array([0.], dtype=float32)
    """

    options = ("rho", "momentum", "epsilon", "centered")
    default_name = "rm_sprop"

    def __init__(
        self, learning_rate: Any = 0.001, rho: float = 0.9, momentum: float = 0.0, epsilon: float = 1e-7,
        centered: bool = False, **common: Any,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, **common)
        self.rho, self.momentum = self._number("rho", rho), self._number("momentum", momentum)
        self.epsilon, self.centered = self._number("epsilon", epsilon), flag(self, "centered", centered)
        momenta = (("momentum",),) if self.momentum > 0 else ()
        self.slots = (("velocity",), *momenta, *((("average_gradient",),) if self.centered else ()))

    def _formula(self, v: Any, g: Any, rate: Any, slots: dict[str, Variable]) -> None:
        g = dense(g, v)
        number = g.dtype.type
        rho, rest = number(self.rho), number(1.0 - self.rho)
        r = _kept(slots["velocity"], rho * slots["velocity"].numpy() + rest * np.square(g))
        if self.centered:
            r = r - np.square(_kept(slots["average_gradient"], rho * slots["average_gradient"].numpy() + rest * g))
        step = rate * g / np.sqrt(r + number(self.epsilon))
        if self.momentum > 0:
            step = _kept(slots["momentum"], number(self.momentum) * slots["momentum"].numpy() + step)
        v.assign_sub(wrap(step))


class _Accumulating(Optimizer):
    """Base of optimizers that sum squares. The sum starts at a given number."""

    initial_accumulator_value: float

    def _initial(self, v: Any, slot: str) -> Any:
        zeros = super()._initial(v, slot)
        return zeros + zeros.dtype.type(self.initial_accumulator_value) if slot == "accumulator" else zeros


class Adagrad(_Accumulating):
    """Adagrad: steps divided by the root of the sum of all squares so far.

    ``a = a + g**2`` and ``v -= rate * g / sqrt(a + epsilon)``. Duchi, Hazan and Singer, 2011.

    Parameters
    ----------
    learning_rate, **common : as for `Optimizer`
    initial_accumulator_value : float
        The first a.
    epsilon : float
        A small number that keeps the step finite if all gradients were zero.

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.Variable([1.0])
    >>> optimizer = tf.keras.optimizers.Adagrad(0.5, initial_accumulator_value=0.0)
    >>> int(optimizer.apply_gradients([(tf.constant([4.0]), x)]))
    1
    >>> x.numpy()
    array([0.5], dtype=float32)
    """

    slots = (("accumulator",),)
    options = ("initial_accumulator_value", "epsilon")
    default_name = "adagrad"

    def __init__(
        self, learning_rate: Any = 0.001, initial_accumulator_value: float = 0.1, epsilon: float = 1e-7, **common: Any
    ) -> None:
        super().__init__(learning_rate, **common)
        self.initial_accumulator_value = self._number("initial_accumulator_value", initial_accumulator_value)
        self.epsilon = self._number("epsilon", epsilon)

    def _formula(self, v: Any, g: Any, rate: Any, slots: dict[str, Variable]) -> None:
        g = dense(g, v)
        a = _kept(slots["accumulator"], slots["accumulator"].numpy() + np.square(g))
        v.assign_sub(wrap(rate * g / np.sqrt(a + g.dtype.type(self.epsilon))))


class Adadelta(Optimizer):
    """Adadelta: steps as large as earlier steps, both measured in running means of squares.

    ``a = rho * a + (1 - rho) * g**2``, ``step = sqrt(d + epsilon) / sqrt(a + epsilon) * g``,
    ``d = rho * d + (1 - rho) * step**2`` and ``v -= rate * step``. Zeiler, 2012.

    Parameters
    ----------
    learning_rate, **common : as for `Optimizer`; a rate of 1 is the original method
    rho : float
        The weight of the old means, in [0, 1].
    epsilon : float
        A small number that keeps the step finite if all gradients were zero, and that sets the size of the first step.

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.Variable([1.0])
    >>> optimizer = tf.keras.optimizers.Adadelta(2.0, rho=0.0, epsilon=1.0)
    >>> int(optimizer.apply_gradients([(tf.constant([0.0]), x)]))
    1
    >>> x.numpy()
    array([1.], dtype=float32)
    """

    slots = (("accumulated_grad", "accumulated_delta_var"),)
    options = ("rho", "epsilon")
    default_name = "adadelta"

    def __init__(self, learning_rate: Any = 0.001, rho: float = 0.95, epsilon: float = 1e-7, **common: Any) -> None:
        super().__init__(learning_rate, **common)
        self.rho, self.epsilon = self._number("rho", rho), self._number("epsilon", epsilon)

    def _formula(self, v: Any, g: Any, rate: Any, slots: dict[str, Variable]) -> None:
        g = dense(g, v)
        number = g.dtype.type
        rho, rest, epsilon = number(self.rho), number(1.0 - self.rho), number(self.epsilon)
        before = slots["accumulated_delta_var"].numpy()
        a = _kept(slots["accumulated_grad"], rho * slots["accumulated_grad"].numpy() + rest * np.square(g))
        step = np.sqrt(before + epsilon) / np.sqrt(a + epsilon) * g
        _kept(slots["accumulated_delta_var"], rho * before + rest * np.square(step))
        v.assign_sub(wrap(rate * step))


class Ftrl(_Accumulating):
    """Follow the regularised leader: an online method whose L1 term makes weights exactly zero.

    With ``n' = n + g**2``, p = `learning_rate_power` and ``s = (n'**-p - n**-p) / rate``:
    ``z = z + g + 2 * shrinkage * v - s * v``,
    ``v = (clip(z, -l1, l1) - z) / (n'**-p / rate + 2 * l2 + beta / rate)``. McMahan and others, 2013.

    Parameters
    ----------
    learning_rate, **common : as for `Optimizer`
    learning_rate_power : float
        0 or less. The rate falls with this power of n. With 0 the rate is constant.
    initial_accumulator_value : float
        The first n.
    l1_regularization_strength, l2_regularization_strength : float
        Weights of the two penalties, 0 or more.
    l2_shrinkage_regularization_strength : float
        Weight of an L2 penalty that acts on the gradient only.
    beta : float
        An addition to the L2 penalty, relative to the rate.

    Raises
    ------
    ValueError
        If a setting is outside its range, and as for `Optimizer`.

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.Variable([0.0, 0.0])
    >>> optimizer = tf.keras.optimizers.Ftrl(0.5, initial_accumulator_value=0.0, l1_regularization_strength=1.0)
    >>> int(optimizer.apply_gradients([(tf.constant([2.0, 0.5]), x)]))
    1
    >>> x.numpy()
    array([-0.25,  0.  ], dtype=float32)
    """

    slots = (("accumulator", "linear"),)
    options = (
        "learning_rate_power", "initial_accumulator_value", "l1_regularization_strength", "l2_regularization_strength",
        "l2_shrinkage_regularization_strength", "beta",
    )  # fmt: skip
    default_name = "ftrl"

    l1_regularization_strength: float
    l2_regularization_strength: float
    l2_shrinkage_regularization_strength: float

    def __init__(
        self, learning_rate: Any = 0.001, learning_rate_power: float = -0.5, initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0,
        l2_shrinkage_regularization_strength: float = 0.0, beta: float = 0.0, **common: Any,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, **common)
        self.learning_rate_power = number(
            self, "learning_rate_power", learning_rate_power, lambda v: v <= 0.0, "needs to be negative or zero"
        )
        positive = {
            "initial_accumulator_value": initial_accumulator_value,
            "l1_regularization_strength": l1_regularization_strength,
            "l2_regularization_strength": l2_regularization_strength,
            "l2_shrinkage_regularization_strength": l2_shrinkage_regularization_strength,
        }
        for name, value in positive.items():
            setattr(self, name, number(self, name, value, lambda v: v >= 0.0, "needs to be positive or zero"))
        self.beta = self._number("beta", beta)

    def _formula(self, v: Any, g: Any, rate: Any, slots: dict[str, Variable]) -> None:
        g = dense(g, v)
        number, value = g.dtype.type, v.numpy()
        power, l1 = number(-self.learning_rate_power), number(self.l1_regularization_strength)
        before = slots["accumulator"].numpy()
        after = _kept(slots["accumulator"], before + np.square(g))
        shrunk = g + number(2.0 * self.l2_shrinkage_regularization_strength) * value
        z = slots["linear"].numpy() + shrunk - (np.power(after, power) - np.power(before, power)) / rate * value
        _kept(slots["linear"], z)
        scale = np.power(after, power) / rate + number(2.0 * self.l2_regularization_strength) + number(self.beta) / rate
        v.assign(wrap((np.clip(z, -l1, l1) - z) / scale))
