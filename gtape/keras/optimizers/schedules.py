"""Learning rates that change from step to step.

All formulas are evaluated in float64 for models of any dtype. A call of a schedule returns a float32 tensor, as in
Keras.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gtape.keras.lookup import Configured, described, restored
from gtape.tensors.argument_checks import each, flag, name_of, number, whole
from gtape.tensors.tensor import wrap

__all__ = [
    "CosineDecay", "CosineDecayRestarts", "ExponentialDecay", "InverseTimeDecay", "LearningRateSchedule",
    "PiecewiseConstantDecay", "PolynomialDecay", "deserialize", "serialize",
]  # fmt: skip

__dir__ = __all__.copy  # the names for `dir`, which sorts them


def _positive(owner: Any, name: str, value: Any) -> float:
    return number(owner, name, value, lambda v: 0 < v < math.inf, "must be > 0 and finite")


def _numbers(owner: Any, name: str, value: Any) -> list[float]:
    return [number(owner, name, v) for v in each(owner, name, value, "a list of numbers")]


def _optional_number(owner: Any, name: str, value: Any) -> float | None:
    return None if value is None else number(owner, name, value)


# The checks of settings that are not plain numbers.
_READERS: dict[str, Callable[..., Any]] = {
    "staircase": flag, "cycle": flag, "decay_steps": _positive, "first_decay_steps": _positive, "t_mul": _positive,
    "boundaries": _numbers, "values": _numbers, "warmup_target": _optional_number,
}  # fmt: skip


class LearningRateSchedule(Configured):
    """Base class: a learning rate as a function of the number of steps done.

    A subclass defines `__call__`, which takes the step and returns a number or a tensor.

    Parameters
    ----------
    name : str, optional
        The class's name by default.

    Examples
    --------
    >>> import gtape as tf
    >>> class Halving(tf.keras.optimizers.schedules.LearningRateSchedule):
    ...     def __call__(self, step):
    ...         return 0.5 ** int(step)
    >>> optimizer = tf.keras.optimizers.SGD(Halving())
    >>> float(optimizer.learning_rate)
    1.0
    """

    def __init__(self, name: str | None = None) -> None:
        self.name = name_of(self, name, type(self).__name__)

    def __post_init__(self) -> None:  # called for gtape's schedules, because these are dataclasses
        LearningRateSchedule.__init__(self, self.name)
        for name in self.options:
            read: Any = _READERS.get(name, number)
            setattr(self, name, read(self, name, getattr(self, name)))

    def __call__(self, step: Any) -> Any:
        """The learning rate after `step` steps, a float32 scalar."""
        with np.errstate(all="ignore"):
            return wrap(np.float32(self.at(step)))

    def at(self, step: Any) -> float:
        """The learning rate after `step` steps, with all digits."""
        # NumPy's numbers, because a rate that overflows must become infinite, and an undefined rate NaN.
        with np.errstate(all="ignore"):
            return float(self._formula(np.float64(number(self, "step", step))))

    def _formula(self, step: float) -> float:
        raise NotImplementedError(
            f"Learning rate schedule '{type(self).__name__}' must override `__call__(self, step)`."
        )

    def get_config(self) -> dict[str, Any]:
        """The settings as the constructor takes them."""
        return {**super().get_config(), "name": self.name}

    def exact(self, step: int) -> float:
        """The learning rate with all digits. A subclass with its own `__call__` may have float32 digits only."""
        if type(self).__call__ is LearningRateSchedule.__call__:
            return self.at(step)
        done = wrap(np.int64(whole(self, "step", step)))
        return number(self, "the learning rate that it returned", self(done))


@dataclass(eq=False, repr=False)
class _Decay(LearningRateSchedule):
    """Base of decays with a staircase."""

    initial_learning_rate: float
    decay_steps: int
    decay_rate: float
    staircase: bool = False
    name: str = ""
    options = ("initial_learning_rate", "decay_steps", "decay_rate", "staircase")

    def _part(self, step: float) -> Any:
        p = step / self.decay_steps
        return np.floor(p) if self.staircase else p


@dataclass(eq=False, repr=False)
class ExponentialDecay(_Decay):
    """``initial_learning_rate * decay_rate ** (step / decay_steps)``.

    Parameters
    ----------
    initial_learning_rate : float
    decay_steps : int
        The number of steps after which the rate is multiplied by `decay_rate`.
    decay_rate : float
    staircase : bool
        True changes the rate at multiples of `decay_steps` only.
    name : str, optional

    Raises
    ------
    ValueError
        If `decay_steps` is not positive.

    Examples
    --------
    >>> import gtape as tf
    >>> rate = tf.keras.optimizers.schedules.ExponentialDecay(0.5, decay_steps=10, decay_rate=0.25)
    >>> [float(rate(step)) for step in (0, 5, 10)]
    [0.5, 0.25, 0.125]
    """

    name: str = "ExponentialDecay"

    def _formula(self, step: float) -> float:
        return float(self.initial_learning_rate * np.float64(self.decay_rate) ** self._part(step))


@dataclass(eq=False, repr=False)
class InverseTimeDecay(_Decay):
    """``initial_learning_rate / (1 + decay_rate * step / decay_steps)``.

    Parameters
    ----------
    initial_learning_rate, decay_steps, decay_rate, staircase, name : as for `ExponentialDecay`

    Examples
    --------
    >>> import gtape as tf
    >>> rate = tf.keras.optimizers.schedules.InverseTimeDecay(1.0, decay_steps=10, decay_rate=1.0)
    >>> [float(rate(step)) for step in (0, 10, 30)]
    [1.0, 0.5, 0.25]
    """

    name: str = "InverseTimeDecay"

    def _formula(self, step: float) -> float:
        return float(self.initial_learning_rate / (1.0 + self.decay_rate * self._part(step)))


@dataclass(eq=False, repr=False)
class PolynomialDecay(LearningRateSchedule):
    """From one rate to another: ``(initial - end) * (1 - step / decay_steps) ** power + end``, then constant.

    Parameters
    ----------
    initial_learning_rate : float
    decay_steps : int
    end_learning_rate : float
    power : float
        With 1 the rate falls along a straight line.
    cycle : bool
        Whether to start again after the end. Each run is longer than the run before.
    name : str, optional

    Raises
    ------
    ValueError
        If `decay_steps` is not positive.

    Examples
    --------
    >>> import gtape as tf
    >>> rate = tf.keras.optimizers.schedules.PolynomialDecay(1.0, decay_steps=4, end_learning_rate=0.0)
    >>> [float(rate(step)) for step in (0, 1, 4, 9)]
    [1.0, 0.75, 0.0, 0.0]
    """

    initial_learning_rate: float
    decay_steps: int
    end_learning_rate: float = 0.0001
    power: float = 1.0
    cycle: bool = False
    name: str = "PolynomialDecay"
    options = ("initial_learning_rate", "decay_steps", "end_learning_rate", "power", "cycle")

    def _formula(self, step: float) -> float:
        steps = float(self.decay_steps)
        if self.cycle:
            steps *= max(1.0, np.ceil(step / steps))
        left = 1.0 - min(step, steps) / steps
        return float((self.initial_learning_rate - self.end_learning_rate) * left**self.power + self.end_learning_rate)


@dataclass(eq=False, repr=False)
class PiecewiseConstantDecay(LearningRateSchedule):
    """One rate up to and including the first boundary, the next rate up to the second boundary, and so on.

    Parameters
    ----------
    boundaries : sequence of int
        Increasing numbers of steps.
    values : sequence of float
        The rates, one more than there are boundaries.
    name : str, optional

    Raises
    ------
    ValueError
        If the numbers of boundaries and values do not fit.

    Examples
    --------
    >>> import gtape as tf
    >>> rate = tf.keras.optimizers.schedules.PiecewiseConstantDecay([100, 200], [1.0, 0.5, 0.25])
    >>> [float(rate(step)) for step in (0, 100, 101, 201)]
    [1.0, 1.0, 0.5, 0.25]
    """

    boundaries: Sequence[Any]
    values: Sequence[float]
    name: str = "PiecewiseConstant"
    options = ("boundaries", "values")

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.boundaries) != len(self.values) - 1:
            raise ValueError(
                "The length of boundaries should be 1 less than the length of values. Received: "
                f"boundaries={self.boundaries} of length {len(self.boundaries)}, and values={self.values} of length "
                f"{len(self.values)}."
            )

    def _formula(self, step: float) -> float:
        return self.values[sum(bool(step > b) for b in self.boundaries)]


@dataclass(eq=False, repr=False)
class CosineDecay(LearningRateSchedule):
    """Half a cosine wave from the initial rate down to `alpha` of it, after an optional linear warm-up.

    Parameters
    ----------
    initial_learning_rate : float
    decay_steps : int
        Length of the decay, without the warm-up.
    alpha : float
        The last rate, as a fraction of the rate at the start of the decay.
    name : str, optional
    warmup_target : float, optional
        The rate at the end of the warm-up, where the decay starts.
    warmup_steps : int
        Length of the warm-up.

    Raises
    ------
    ValueError
        If `decay_steps` is not positive.

    Examples
    --------
    >>> import gtape as tf
    >>> rate = tf.keras.optimizers.schedules.CosineDecay(1.0, decay_steps=10)
    >>> [float(rate(step)) for step in (0, 5, 10, 11)]
    [1.0, 0.5, 0.0, 0.0]
    """

    initial_learning_rate: float
    decay_steps: int
    alpha: float = 0.0
    name: str = "CosineDecay"
    warmup_target: float | None = None
    warmup_steps: int = 0
    options = ("initial_learning_rate", "decay_steps", "alpha", "warmup_target", "warmup_steps")

    def _formula(self, step: float) -> float:
        start = self.initial_learning_rate
        if self.warmup_target is not None:
            if step < self.warmup_steps:
                return start + (self.warmup_target - start) * (step / self.warmup_steps)
            start, step = self.warmup_target, step - self.warmup_steps
        return start * _wave(min(step / self.decay_steps, 1.0), self.alpha)


@dataclass(eq=False, repr=False)
class CosineDecayRestarts(LearningRateSchedule):
    """Half a cosine wave that starts again, each time longer by `t_mul` and lower by `m_mul`.

    Parameters
    ----------
    initial_learning_rate : float
    first_decay_steps : int
        Length of the first run.
    t_mul, m_mul : float
        Factors of a run's length and height for the next run.
    alpha : float
        The rate at the end of a run, as a fraction of the initial rate.
    name : str, optional

    Raises
    ------
    ValueError
        If `first_decay_steps` is not positive.

    Examples
    --------
    >>> import gtape as tf
    >>> rate = tf.keras.optimizers.schedules.CosineDecayRestarts(1.0, 10, m_mul=0.5)
    >>> [float(rate(step)) for step in (0, 5, 10, 20)]
    [1.0, 0.5, 0.5, 0.25]
    """

    initial_learning_rate: float
    first_decay_steps: int
    t_mul: float = 2.0
    m_mul: float = 1.0
    alpha: float = 0.0
    name: str = "SGDRDecay"
    options = ("initial_learning_rate", "first_decay_steps", "t_mul", "m_mul", "alpha")

    def _formula(self, step: float) -> float:
        done, length, growth = step / self.first_decay_steps, np.float64(1.0), np.float64(self.t_mul)
        if growth == 1.0:
            runs = np.floor(done)
            done = done - runs
        else:
            # The total length of n runs is (growth**n - 1) / (growth - 1), so a logarithm gives the number of finished
            # runs. The last two runs are counted one by one, because the logarithm is rounded. If runs shrink, they end
            # at a finite step, and the rate is NaN afterwards, as in Keras.
            runs = np.maximum(np.floor(np.log1p(done * (growth - 1.0)) / np.log(growth)) - 2.0, 0.0)
            length = growth**runs
            done = done - (length - 1.0) / (growth - 1.0)
            while done >= length > 0.0:
                done, length, runs = done - length, length * growth, runs + 1.0
        return self.initial_learning_rate * _wave(done / length, self.alpha, np.float64(self.m_mul) ** runs)


def _wave(done: float, alpha: float, height: float = 1.0) -> float:
    """Half a cosine wave between 0 and `height`, raised so that it ends at `alpha`."""
    return float((1.0 - alpha) * height * 0.5 * (1.0 + np.cos(math.pi * done)) + alpha)


_KNOWN = {n: c for n, c in globals().items() if n in __all__ and isinstance(c, type) and c is not LearningRateSchedule}


def serialize(learning_rate_schedule: LearningRateSchedule) -> dict[str, Any]:
    """A schedule as a dict of its class's name and its settings.

    Parameters
    ----------
    learning_rate_schedule : LearningRateSchedule

    Returns
    -------
    dict

    Raises
    ------
    TypeError
        If the argument is of another type.

    Examples
    --------
    >>> from gtape.keras.optimizers import schedules
    >>> schedules.serialize(schedules.ExponentialDecay(1.0, 10, 0.5))["class_name"]
    'ExponentialDecay'
    """
    return described(learning_rate_schedule, "optimizers.schedules", LearningRateSchedule)


def deserialize(config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> LearningRateSchedule:
    """The schedule that a dict of `serialize` describes.

    Parameters
    ----------
    config : dict
        With ``class_name`` and ``config``.
    custom_objects : dict, optional
        Your own classes by name.

    Returns
    -------
    LearningRateSchedule

    Raises
    ------
    ValueError
        If the class is unknown.
    TypeError
        If `serialize` never returns this `config`.

    Examples
    --------
    >>> from gtape.keras.optimizers import schedules
    >>> settings = schedules.serialize(schedules.ExponentialDecay(1.0, 10, 0.5))
    >>> float(schedules.deserialize(settings)(10))
    0.5
    """
    made: LearningRateSchedule = restored(
        config, _KNOWN, "a learning rate schedule", "schedules.deserialize", custom_objects
    )
    return made
