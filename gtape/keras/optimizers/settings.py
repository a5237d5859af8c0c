"""Settings of optimizers as arguments and as a dict: learning rate, limits, decay, averages, accumulation."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np

from gtape import nest
from gtape.base.shown import shown
from gtape.keras.optimizers import schedules
from gtape.keras.optimizers.schedules import LearningRateSchedule
from gtape.keras.optimizers.state import State, check_variable
from gtape.tensors.argument_checks import each, flag, name_of, number, whole
from gtape.tensors.argument_checks import settings as settings_of
from gtape.tensors.tensor import Tensor, wrap
from gtape.tensors.variable import Variable

__all__ = ["Settings"]


def _takes_an_argument(f: Callable[..., Any]) -> bool:
    import inspect

    try:
        inspect.signature(f).bind(0)
    except (TypeError, ValueError):  # a builtin without a signature raises ValueError
        return False
    return True


# The settings that `get_config` returns for every optimizer, besides the name and the learning rate.
_COMMON = (
    "weight_decay", "clipnorm", "global_clipnorm", "clipvalue", "use_ema", "ema_momentum", "ema_overwrite_frequency",
    "loss_scale_factor", "gradient_accumulation_steps",
)  # fmt: skip


class Settings(State):
    """The part of an optimizer that holds its settings, which `Optimizer` documents."""

    # The settings of the class itself, for `get_config`.
    options: tuple[str, ...] = ()
    default_name: str | None = None

    def __init__(
        self, learning_rate: Any, *, weight_decay: float | None = None, clipnorm: float | None = None,
        clipvalue: float | None = None, global_clipnorm: float | None = None, use_ema: bool = False,
        ema_momentum: float = 0.99, ema_overwrite_frequency: int | None = None, loss_scale_factor: float | None = None,
        gradient_accumulation_steps: int | None = None, name: str | None = None, **unknown: Any,
    ) -> None:  # fmt: skip
        if unknown:
            hint = "; write learning_rate" if "lr" in unknown else ""
            said = shown(unknown)
            raise ValueError(f"Argument(s) not recognized: {said}. {type(self).__name__} has no such option{hint}")
        limits = {"clipnorm": clipnorm, "global_clipnorm": global_clipnorm, "clipvalue": clipvalue}
        given = [k for k, limit in limits.items() if limit is not None]
        if len(given) > 1:
            raise ValueError(f"Only one of `clipnorm`, `clipvalue` and `global_clipnorm` can be set, not {given}")
        super().__init__()
        self.clipnorm = self._positive("clipnorm", clipnorm)
        self.global_clipnorm = self._positive("global_clipnorm", global_clipnorm)
        self.clipvalue = self._positive("clipvalue", clipvalue)
        self.loss_scale_factor = self._positive("loss_scale_factor", loss_scale_factor)
        self.gradient_accumulation_steps = self._count("gradient_accumulation_steps", gradient_accumulation_steps, 2)
        self.use_ema = flag(self, "use_ema", use_ema)
        self.ema_momentum = float(
            number(self, "ema_momentum", ema_momentum, lambda v: 0 <= v <= 1, "must be in the range [0, 1]")
        )
        self.ema_overwrite_frequency = self._count("ema_overwrite_frequency", ema_overwrite_frequency, 1)
        self.name = name_of(self, name, self.default_name or type(self).__name__)
        self.weight_decay = None if weight_decay is None else number(self, "weight_decay", weight_decay)
        self._exact_rate: float | None = None
        self.learning_rate = learning_rate
        self._undecayed_names: tuple[str, ...] = ()

    def _positive(self, name: str, value: Any) -> float | None:
        return None if value is None else number(self, name, value, lambda v: v > 0, "must be positive")

    def _count(self, name: str, value: Any, least: int) -> int | None:
        return None if value is None else whole(self, name, value, least=least)

    def _number(self, name: str, value: Any) -> float:
        return float(number(self, name, value))

    def _share(self, name: str, value: Any) -> float:
        return float(number(self, name, value, lambda v: 0 <= v < 1, "must be in [0, 1)"))

    @property
    def learning_rate(self) -> Any:
        """The learning rate, which may be set: a float32 variable, or a schedule's rate for the next step."""
        rate = self._learning_rate
        return rate if isinstance(rate, Variable) else wrap(np.float32(self._rate()))

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        if callable(value) and not isinstance(value, (Tensor, Variable, type)):
            self._learning_rate, self._wants_step = value, _takes_an_argument(value)
            return
        if isinstance(self._learning_rate, LearningRateSchedule):
            raise TypeError(
                "This optimizer was created with a `LearningRateSchedule` object as its `learning_rate` constructor "
                "argument, hence its learning rate is not settable to a number; set another schedule, or create the "
                "optimizer with a float"
            )
        wanted = "should be a float or a callable that takes the number of steps done and returns the rate"
        rate = float(number(self, "learning_rate", value, wanted=wanted))
        with np.errstate(all="ignore"):
            shown_rate = np.float32(rate)
        if isinstance(self._learning_rate, Variable):
            self._learning_rate.assign(shown_rate)
        else:
            self._learning_rate = Variable(shown_rate, trainable=False, name="learning_rate")
        self._exact_rate = rate

    def _rate(self) -> float:
        rate = self._learning_rate
        if isinstance(rate, LearningRateSchedule):
            return rate.exact(int(self.iterations.numpy()))
        if not isinstance(rate, Variable):
            said = rate(self.iterations.numpy()) if self._wants_step else rate()
            return float(number(self, "learning_rate", said, wanted="that is a function must return a number"))
        shown = rate.numpy()
        # The variable is float32, as in Keras. A float64 model gets all digits of the rate that was set.
        if self._exact_rate is not None and np.float32(self._exact_rate) == shown:
            return self._exact_rate
        return float(shown)

    def get_config(self) -> dict[str, Any]:
        """The settings, as a dict that `from_config` takes.

        Examples
        --------
        >>> import gtape as tf
        >>> config = tf.keras.optimizers.SGD(0.1, momentum=0.9).get_config()
        >>> config["learning_rate"], config["momentum"]
        (0.1, 0.9)
        """
        rate: Any = self._learning_rate
        if isinstance(rate, Variable):
            rate = self._rate()
        elif isinstance(rate, LearningRateSchedule):
            rate = schedules.serialize(rate)
        kept = {k: getattr(self, k) for k in (*_COMMON, *self.options)}
        return {"name": self.name, "learning_rate": rate, **kept}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """An optimizer of this class with the settings that `get_config` returned, without state."""
        given = settings_of(cls, config)
        rate = given.get("learning_rate")
        if isinstance(rate, dict):
            given["learning_rate"] = schedules.deserialize(rate)
        return cls(**given)

    def exclude_from_weight_decay(self, var_list: Any = None, var_names: Iterable[str] | None = None) -> None:
        """Exclude variables from the weight decay.

        Parameters
        ----------
        var_list : list of Variable, optional
        var_names : list of str, optional
            Substrings of names of variables.

        Raises
        ------
        TypeError
            If a list holds anything else.
        """
        variables = [] if var_list is None else nest.flatten(var_list)
        for v in variables:
            check_variable(v)
        names = [] if var_names is None else each(self, "var_names", var_names, "a list of strings")
        if not all(isinstance(part, str) for part in names):
            raise TypeError(f"{type(self).__name__}: `var_names` must be strings. Received: var_names={shown(names)}")
        self._undecayed = [weakref.ref(v) for v in variables]
        self._undecayed_names = tuple(names)

    def _decays(self, v: Any) -> bool:
        excluded = any(ref() is v for ref in self._undecayed) or any(part in v.name for part in self._undecayed_names)
        return not excluded
