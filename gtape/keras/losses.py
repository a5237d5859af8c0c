"""Losses as objects, with reductions and sample weights, and as functions, under Keras's names.

Keras casts to float32 here; gtape keeps the predictions' float type unless a loss has its own `dtype`, so that a
float64 model has float64 gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from gtape.base.docstrings import documented_like
from gtape.base.sections import add_sections
from gtape.keras import loss_functions as functions
from gtape.keras.lookup import by_name
from gtape.keras.loss import Loss, Reduction
from gtape.keras.loss_functions import *  # noqa: F403
from gtape.tensors.tensor import Tensor

__all__ = [
    *functions.__all__,
    "BinaryCrossentropy", "CategoricalCrossentropy", "CategoricalHinge", "CosineSimilarity", "Hinge", "Huber",
    "KLDivergence", "LogCosh", "Loss", "MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanSquaredError",
    "MeanSquaredLogarithmicError", "Poisson", "Reduction", "SparseCategoricalCrossentropy", "SquaredHinge", "get",
]  # fmt: skip

__dir__ = __all__.copy  # the names for `dir`, which sorts them


if not TYPE_CHECKING:  # because a type checker that sees this function accepts any name

    def __getattr__(name: str) -> NoReturn:
        from gtape.namespaces.catalogue import unknown

        raise unknown("gtape.keras.losses", name, __all__)


class _Function(Loss):
    """A loss that calls a function with settings."""

    function: Callable[..., Tensor]

    def __init_subclass__(cls, example: str = "", loss: float = 0.0, **more: Any) -> None:
        """Find the settings of a loss, and document it by an example: labels and predictions, and their loss."""
        super().__init_subclass__(**more)
        if example:
            cls.options = tuple(n for n in get_annotations(cls) if n not in ("reduction", "name", "dtype"))
            own = f"{', '.join(cls.options)} : as for `{cls.function.__name__}`\n" if cls.options else ""
            given = "from_logits=True" if "from_logits" in cls.options else ""
            call = f">>> float(tf.keras.losses.{cls.__name__}({given})({example}))\n{loss}"
            add_sections(cls, Parameters=f"{own}reduction, name, dtype : as for `Loss`", Examples=call)

    def __init__(
        self, reduction: str | None = "sum_over_batch_size", name: str | None = None, dtype: Any = None
    ) -> None:
        super().__init__(type(self).function.__name__ if name is None else name, reduction, dtype)

    def __post_init__(self) -> None:  # called for losses with settings, because these are dataclasses
        _Function.__init__(self, self.reduction, self.name, self.dtype)
        vars(self).update(functions.checked(self, **self._settings()))

    def _settings(self) -> dict[str, Any]:
        return {k: getattr(self, k) for k in self.options}

    def call(self, y_true: Any, y_pred: Any) -> Tensor:
        return type(self).function(y_true, y_pred, **self._settings())


class MeanSquaredError(_Function, example="[[0.0, 1.0]], [[2.0, 1.0]]", loss=2.0):
    """``(y_true - y_pred) ** 2``."""

    function = staticmethod(functions.mean_squared_error)


class MeanAbsoluteError(_Function, example="[[0.0, 1.0]], [[2.0, 1.0]]", loss=1.0):
    """``|y_true - y_pred|``."""

    function = staticmethod(functions.mean_absolute_error)


class MeanAbsolutePercentageError(_Function, example="[[2.0, 4.0]], [[1.0, 4.0]]", loss=25.0):
    """``100 * |(y_true - y_pred) / y_true|``."""

    function = staticmethod(functions.mean_absolute_percentage_error)


class MeanSquaredLogarithmicError(_Function, example="[[1.0]], [[1.0]]", loss=0.0):
    """``(log(y_true + 1) - log(y_pred + 1)) ** 2``."""

    function = staticmethod(functions.mean_squared_logarithmic_error)


class LogCosh(_Function, example="[[1.0]], [[1.0]]", loss=0.0):
    """``log(cosh(y_pred - y_true))``."""

    function = staticmethod(functions.log_cosh)


class KLDivergence(_Function, example="[[0.5, 0.5]], [[0.5, 0.5]]", loss=0.0):
    """The Kullback-Leibler divergence of predicted from true distributions."""

    function = staticmethod(functions.kl_divergence)


class Poisson(_Function, example="[[0.0, 0.0]], [[1.0, 3.0]]", loss=2.0):
    """``y_pred - y_true * log(y_pred)``."""

    function = staticmethod(functions.poisson)


class Hinge(_Function, example="[[-1.0, 1.0]], [[0.5, 2.0]]", loss=0.75):
    """``max(1 - y_true * y_pred, 0)``, with labels -1 and 1, or 0 and 1."""

    function = staticmethod(functions.hinge)


class SquaredHinge(_Function, example="[[-1.0, 1.0]], [[0.5, 2.0]]", loss=1.125):
    """``max(1 - y_true * y_pred, 0) ** 2``, with labels -1 and 1, or 0 and 1."""

    function = staticmethod(functions.squared_hinge)


class CategoricalHinge(_Function, example="[[0.0, 1.0]], [[0.75, 0.5]]", loss=1.25):
    """`categorical_hinge` as a class."""

    function = staticmethod(functions.categorical_hinge)


@dataclass(eq=False, repr=False)
class Huber(_Function, example="[[0.0, 0.0]], [[0.5, 3.0]]", loss=1.3125):
    """Quadratic for errors up to `delta`, linear beyond."""

    function = staticmethod(functions.huber)
    delta: float = 1.0
    reduction: str | None = "sum_over_batch_size"
    name: str = "huber_loss"
    dtype: Any = None


@dataclass(eq=False, repr=False)
class CosineSimilarity(_Function, example="[[3.0, 0.0]], [[2.0, 0.0]]", loss=-1.0):
    """Minus the cosine of the angle between labels and predictions."""

    function = staticmethod(functions.cosine_similarity)
    axis: int = -1
    reduction: str | None = "sum_over_batch_size"
    name: str = "cosine_similarity"
    dtype: Any = None


@dataclass(eq=False, repr=False)
class BinaryCrossentropy(_Function, example="[[1.0, 0.0]], [[1000.0, 1000.0]]", loss=500.0):
    """Cross-entropy between labels 0 and 1 and probabilities or logits."""

    function = staticmethod(functions.binary_crossentropy)
    from_logits: bool = False
    label_smoothing: float = 0.0
    axis: int = -1
    reduction: str | None = "sum_over_batch_size"
    name: str = "binary_crossentropy"
    dtype: Any = None


@dataclass(eq=False, repr=False)
class CategoricalCrossentropy(_Function, example="[[0.0, 1.0]], [[0.0, 1000.0]]", loss=0.0):
    """Cross-entropy between distributions over classes, or logits of them."""

    function = staticmethod(functions.categorical_crossentropy)
    from_logits: bool = False
    label_smoothing: float = 0.0
    axis: int = -1
    reduction: str | None = "sum_over_batch_size"
    name: str = "categorical_crossentropy"
    dtype: Any = None


@dataclass(eq=False, repr=False)
class SparseCategoricalCrossentropy(_Function, example="[1], [[1000.0, 0.0]]", loss=1000.0):
    """Cross-entropy between class numbers and distributions over classes, or logits of them.

    The mean leaves out samples of the class `ignore_class`.
    """

    function = staticmethod(functions.sparse_categorical_crossentropy)
    from_logits: bool = False
    ignore_class: int | None = None
    reduction: str | None = "sum_over_batch_size"
    axis: int = -1
    name: str = "sparse_categorical_crossentropy"
    dtype: Any = None

    def _counted(self, y_true: Any, losses: Tensor) -> Any:
        if self.ignore_class is None:
            return None
        return np.reshape(np.asarray(y_true) != self.ignore_class, losses._layout.shape)


_KNOWN: dict[str, Any] = {name: globals()[name] for name in __all__ if name not in ("Loss", "Reduction", "get")}


@documented_like(by_name)
def get(identifier: Any) -> Callable[..., Any] | None:
    """A loss by its name, such as "mse" or "MeanSquaredError".

    Examples
    --------
    >>> float(tf.keras.losses.get("mse")([0.0], [2.0]))
    4.0
    """
    return None if identifier is None else by_name(identifier, _KNOWN, "loss", make=True)
