"""Learning rates that change from step to step.

All formulas are evaluated in float64, whatever the model's dtype; calling a schedule gives a float32 tensor, as in
Keras.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from gtape.keras.lookup import class_and_config, classes_by_name, described, made_from
from gtape.tensors.argument_checks import each, flag, name_of, number, whole
from gtape.tensors.tensor import wrap

__all__ = [
    "CosineDecay", "CosineDecayRestarts", "ExponentialDecay", "InverseTimeDecay", "LearningRateSchedule",
    "PiecewiseConstantDecay", "PolynomialDecay", "deserialize", "serialize",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


class LearningRateSchedule:
    """Base class: a learning rate as a function of the number of steps done.

    A schedule of your own writes `__call__`, which takes the step; a number or a tensor may be returned.

    Parameters
    ----------
    name : str, optional
        By default the class's name.

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

    options: tuple[str, ...] = ()

    def __init__(self, name: str | None = None) -> None:
        self.name = name_of(self, name, type(self).__name__)

    def __call__(self, step: Any) -> Any:
        """The learning rate after `step` steps, a float32 scalar."""
        with np.errstate(all="ignore"):
            return wrap(np.float32(self.at(step)))

    def at(self, step: Any) -> float:
        """The learning rate after `step` steps, with all its digits."""
        # In NumPy's numbers, because a rate that is too large is to be infinite, and one that is undefined NaN.
        with np.errstate(all="ignore"):
            return float(self._formula(np.float64(number(self, "step", step))))

    def _formula(self, step: float) -> float:
        """The formula."""
        raise NotImplementedError(
            f"Learning rate schedule '{type(self).__name__}' must override `__call__(self, step)`."
        )

    def exact(self, step: int) -> float:
        """The learning rate with all its digits, where a schedule has more than float32 holds."""
        if type(self).__call__ is LearningRateSchedule.__call__:
            return self.at(step)
        done = wrap(np.int64(whole(self, "step", step)))
        return number(self, "the learning rate that it returned", self(done))

    def get_config(self) -> dict[str, Any]:
        """The settings, as a dict that `from_config` takes."""
        return {**{k: getattr(self, k) for k in self.options}, "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The schedule with these settings."""
        made: Self = made_from(cls, config)
        return made

    def _positive(self, name: str, value: Any) -> float:
        return number(self, name, value, lambda v: 0 < v < math.inf, "must be > 0 and finite")

    def _number(self, name: str, value: Any) -> float:
        return number(self, name, value)


class ExponentialDecay(LearningRateSchedule):
    """``initial_learning_rate * decay_rate ** (step / decay_steps)``.

    Parameters
    ----------
    initial_learning_rate : float
    decay_steps : int
        After so many steps the rate is multiplied by `decay_rate`.
    decay_rate : float
    staircase : bool
        Whether to change only at multiples of `decay_steps`.
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

    options = ("initial_learning_rate", "decay_steps", "decay_rate", "staircase")

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: int,
        decay_rate: float,
        staircase: bool = False,
        name: str = "ExponentialDecay",
    ) -> None:
        super().__init__(name)
        self.decay_steps = self._positive("decay_steps", decay_steps)
        self.initial_learning_rate = self._number("initial_learning_rate", initial_learning_rate)
        self.decay_rate = self._number("decay_rate", decay_rate)
        self.staircase = flag(self, "staircase", staircase)

    def _formula(self, step: float) -> float:
        p = step / self.decay_steps
        return self.initial_learning_rate * np.float64(self.decay_rate) ** (np.floor(p) if self.staircase else p)


class InverseTimeDecay(LearningRateSchedule):
    """``initial_learning_rate / (1 + decay_rate * step / decay_steps)``.

    Parameters
    ----------
    initial_learning_rate : float
    decay_steps : int
    decay_rate : float
    staircase : bool
        Whether to change only at multiples of `decay_steps`.
    name : str, optional

    Raises
    ------
    ValueError
        If `decay_steps` is not positive.

    Examples
    --------
    >>> import gtape as tf
    >>> rate = tf.keras.optimizers.schedules.InverseTimeDecay(1.0, decay_steps=10, decay_rate=1.0)
    >>> [float(rate(step)) for step in (0, 10, 30)]
    [1.0, 0.5, 0.25]
    """

    options = ("initial_learning_rate", "decay_steps", "decay_rate", "staircase")

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: int,
        decay_rate: float,
        staircase: bool = False,
        name: str = "InverseTimeDecay",
    ) -> None:
        super().__init__(name)
        self.decay_steps = self._positive("decay_steps", decay_steps)
        self.initial_learning_rate = self._number("initial_learning_rate", initial_learning_rate)
        self.decay_rate = self._number("decay_rate", decay_rate)
        self.staircase = flag(self, "staircase", staircase)

    def _formula(self, step: float) -> float:
        p = step / self.decay_steps
        return self.initial_learning_rate / (1.0 + self.decay_rate * (np.floor(p) if self.staircase else p))


class PolynomialDecay(LearningRateSchedule):
    """From one rate to another: ``(initial - end) * (1 - step / decay_steps) ** power + end``, then constant.

    Parameters
    ----------
    initial_learning_rate : float
    decay_steps : int
    end_learning_rate : float
    power : float
        1 is a straight line.
    cycle : bool
        Whether to start again, in ever longer runs, once the end is reached.
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

    options = ("initial_learning_rate", "decay_steps", "end_learning_rate", "power", "cycle")

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: int,
        end_learning_rate: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        name: str = "PolynomialDecay",
    ) -> None:
        super().__init__(name)
        self.decay_steps = self._positive("decay_steps", decay_steps)
        self.initial_learning_rate = self._number("initial_learning_rate", initial_learning_rate)
        self.end_learning_rate = self._number("end_learning_rate", end_learning_rate)
        self.power, self.cycle = self._number("power", power), flag(self, "cycle", cycle)

    def _formula(self, step: float) -> float:
        steps = float(self.decay_steps)
        if self.cycle:
            steps *= max(1.0, np.ceil(step / steps))
        left = 1.0 - min(step, steps) / steps
        return float((self.initial_learning_rate - self.end_learning_rate) * left**self.power + self.end_learning_rate)


class PiecewiseConstantDecay(LearningRateSchedule):
    """One rate up to and including the first boundary, the next up to the second, and so on.

    Parameters
    ----------
    boundaries : sequence of int
        Increasing numbers of steps.
    values : sequence of float
        One more than boundaries.
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

    options = ("boundaries", "values")

    def __init__(self, boundaries: Sequence[Any], values: Sequence[float], name: str = "PiecewiseConstant") -> None:
        super().__init__(name)
        boundaries = [self._number("boundaries", b) for b in each(self, "boundaries", boundaries, "a list of numbers")]
        values = [self._number("values", v) for v in each(self, "values", values, "a list of numbers")]
        if len(boundaries) != len(values) - 1:
            raise ValueError(
                "The length of boundaries should be 1 less than the length of values. Received: "
                f"boundaries={boundaries} of length {len(boundaries)}, and values={values} of length {len(values)}."
            )
        self.boundaries, self.values = boundaries, values

    def _formula(self, step: float) -> float:
        return self.values[sum(bool(step > b) for b in self.boundaries)]


class CosineDecay(LearningRateSchedule):
    """Half a cosine wave from the initial rate down to `alpha` of it, after an optional linear warm-up.

    Parameters
    ----------
    initial_learning_rate : float
    decay_steps : int
        Length of the decay, without the warm-up.
    alpha : float
        The rate at the end, as a part of that at the beginning of the decay.
    name : str, optional
    warmup_target : float, optional
        If given, the rate first climbs from the initial one to this, from where it decays.
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

    options = ("initial_learning_rate", "decay_steps", "alpha", "warmup_target", "warmup_steps")

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: int,
        alpha: float = 0.0,
        name: str = "CosineDecay",
        warmup_target: float | None = None,
        warmup_steps: int = 0,
    ) -> None:
        super().__init__(name)
        self.decay_steps = self._positive("decay_steps", decay_steps)
        self.initial_learning_rate = self._number("initial_learning_rate", initial_learning_rate)
        self.alpha = self._number("alpha", alpha)
        self.warmup_target = None if warmup_target is None else self._number("warmup_target", warmup_target)
        self.warmup_steps = self._number("warmup_steps", warmup_steps)

    def _formula(self, step: float) -> float:
        start = self.initial_learning_rate
        if self.warmup_target is not None:
            if step < self.warmup_steps:
                return start + (self.warmup_target - start) * (step / self.warmup_steps)
            start, step = self.warmup_target, step - self.warmup_steps
        return start * _wave(min(step / self.decay_steps, 1.0), self.alpha)


class CosineDecayRestarts(LearningRateSchedule):
    """Half a cosine wave that starts again, each time longer by `t_mul` and lower by `m_mul`.

    Parameters
    ----------
    initial_learning_rate : float
    first_decay_steps : int
        Length of the first run.
    t_mul, m_mul : float
        What a run's length and height are multiplied by for the next.
    alpha : float
        The rate at the end of a run, as a part of the initial one.
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

    options = ("initial_learning_rate", "first_decay_steps", "t_mul", "m_mul", "alpha")

    def __init__(
        self,
        initial_learning_rate: float,
        first_decay_steps: int,
        t_mul: float = 2.0,
        m_mul: float = 1.0,
        alpha: float = 0.0,
        name: str = "SGDRDecay",
    ) -> None:
        super().__init__(name)
        self.first_decay_steps = self._positive("first_decay_steps", first_decay_steps)
        self.initial_learning_rate = self._number("initial_learning_rate", initial_learning_rate)
        self.t_mul = self._positive("t_mul", t_mul)
        self.m_mul, self.alpha = self._number("m_mul", m_mul), self._number("alpha", alpha)

    def _formula(self, step: float) -> float:
        done, length, growth = step / self.first_decay_steps, np.float64(1.0), np.float64(self.t_mul)
        if growth == 1.0:
            runs = np.floor(done)
            done = done - runs
        else:
            # All runs together are n * length long; those that are over are counted by a logarithm, and the last two
            # one by one, because it is rounded. Where runs get shorter, they come to an end: NaN, as in Keras.
            runs = np.maximum(np.floor(np.log1p(done * (growth - 1.0)) / np.log(growth)) - 2.0, 0.0)
            length = growth**runs
            done = done - (length - 1.0) / (growth - 1.0)
            while done >= length > 0.0:
                done, length, runs = done - length, length * growth, runs + 1.0
        return self.initial_learning_rate * _wave(done / length, self.alpha, np.float64(self.m_mul) ** runs)


def _wave(done: float, alpha: float, height: float = 1.0) -> float:
    """Half a cosine wave between 0 and `height`, raised so that it ends at `alpha`."""
    return float((1.0 - alpha) * height * 0.5 * (1.0 + np.cos(math.pi * done)) + alpha)


_KNOWN = {
    c.__name__: c
    for c in (
        CosineDecay,
        CosineDecayRestarts,
        ExponentialDecay,
        InverseTimeDecay,
        PiecewiseConstantDecay,
        PolynomialDecay,
    )
}


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
        For something that is no schedule.

    Examples
    --------
    >>> from gtape.keras.optimizers import schedules
    >>> schedules.serialize(schedules.ExponentialDecay(1.0, 10, 0.5))["class_name"]
    'ExponentialDecay'
    """
    return described(learning_rate_schedule, "optimizers.schedules", LearningRateSchedule)


def deserialize(config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> LearningRateSchedule:
    """The schedule that `serialize` described.

    Parameters
    ----------
    config : dict
        With ``class_name`` and ``config``.
    custom_objects : dict, optional
        Classes of your own, by name.

    Returns
    -------
    LearningRateSchedule

    Raises
    ------
    ValueError
        For a class that is not known.
    TypeError
        For a `config` that is no such dict.

    Examples
    --------
    >>> from gtape.keras.optimizers import schedules
    >>> settings = schedules.serialize(schedules.ExponentialDecay(1.0, 10, 0.5))
    >>> float(schedules.deserialize(settings)(10))
    0.5
    """
    name, settings = class_and_config(config, "a learning rate schedule")
    known: dict[str, Any] = {**_KNOWN, **classes_by_name("schedules.deserialize", custom_objects)}
    if name not in known:
        raise ValueError(f"Unknown learning rate schedule {name!r}; pass its class in `custom_objects`")
    made: LearningRateSchedule = known[name].from_config(settings)
    return made
