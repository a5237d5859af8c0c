"""Means of losses over batches, as metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import get_annotations
from typing import Any

import numpy as np

import gtape
from gtape.base.quiet import quiet
from gtape.base.sections import add_sections
from gtape.keras import loss_functions
from gtape.keras.metric import MeanMetricWrapper
from gtape.tensors.tensor import Tensor

__all__ = [
    "BinaryCrossentropy", "CategoricalCrossentropy", "CategoricalHinge", "CosineSimilarity", "Hinge", "KLDivergence",
    "LogCoshError", "MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanSquaredError",
    "MeanSquaredLogarithmicError", "Poisson", "RootMeanSquaredError", "SparseCategoricalCrossentropy", "SquaredHinge",
]  # fmt: skip


class _MeanLoss(MeanMetricWrapper):
    """The mean of a loss. A loss with settings is a dataclass, and `options` lists the settings."""

    function: Callable[..., Tensor]
    options: tuple[str, ...] = ()
    default_name: str | None = None

    def __init_subclass__(cls, example: str = "", mean: float = 0.0, **more: Any) -> None:
        """Find the settings of a metric, and document it by an example: labels and predictions, and their mean."""
        super().__init_subclass__(**more)
        if example:
            cls.options = tuple(n for n in get_annotations(cls) if n not in ("name", "dtype"))
            own = f"\n{', '.join(cls.options)} : as for `{cls.function.__name__}`" if cls.options else ""
            call = f">>> round(float(tf.keras.metrics.{cls.__name__}()({example})), 4)\n{mean}"
            add_sections(cls, Parameters=f"name, dtype : as for `Metric`{own}", Examples=call)

    def __init__(self, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(type(self).function, self.default_name if name is None else name, dtype)

    def __post_init__(self) -> None:
        settings = {k: getattr(self, k) for k in self.options}
        super().__init__(type(self).function, self.name, self.dtype, **settings)


class MeanSquaredError(_MeanLoss, example="[[1.0]], [[3.0]]", mean=4.0):
    """The mean of squared errors."""

    function = staticmethod(loss_functions.mean_squared_error)


def _squares(y_true: Any, y_pred: Any) -> Tensor:
    return gtape.math.squared_difference(*loss_functions.both(y_true, y_pred))


class RootMeanSquaredError(_MeanLoss, example="[[0.0], [0.0]], [[2.0], [2.0]]", mean=2.0):
    """The root of the mean of squared errors."""

    function = staticmethod(_squares)
    default_name = "root_mean_squared_error"

    @quiet
    def result(self) -> Tensor:
        """The root of the mean; 0 before the first batch."""
        return self._result(np.sqrt(self._mean()))


class MeanAbsoluteError(_MeanLoss, example="[[1.0]], [[3.0]]", mean=2.0):
    """The mean of absolute errors."""

    function = staticmethod(loss_functions.mean_absolute_error)


class KLDivergence(_MeanLoss, example="[[0.5, 0.5]], [[0.5, 0.5]]", mean=0.0):
    """The mean Kullback-Leibler divergence."""

    function = staticmethod(loss_functions.kl_divergence)


class CosineSimilarity(MeanMetricWrapper):
    """The mean cosine of the angle between labels and predictions; the best value is 1, not -1 as for the loss.

    Parameters
    ----------
    name, dtype : as for `Metric`
    axis : int
        The axis of the vectors.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.CosineSimilarity()([[3.0, 0.0]], [[2.0, 0.0]]))
    1.0
    """

    def __init__(self, name: str = "cosine_similarity", dtype: Any = None, axis: int = -1) -> None:
        super().__init__(lambda a, b: -loss_functions.cosine_similarity(a, b, axis), name, dtype)
        loss_functions.checked(self, axis=axis)


@dataclass(eq=False, repr=False)
class BinaryCrossentropy(_MeanLoss, example="[[1.0]], [[0.5]]", mean=0.6931):
    """The mean binary cross-entropy."""

    function = staticmethod(loss_functions.binary_crossentropy)
    name: str = "binary_crossentropy"
    dtype: Any = None
    from_logits: bool = False
    label_smoothing: float = 0.0


@dataclass(eq=False, repr=False)
class CategoricalCrossentropy(_MeanLoss, example="[[0.0, 1.0]], [[0.5, 0.5]]", mean=0.6931):
    """The mean cross-entropy with one-hot labels."""

    function = staticmethod(loss_functions.categorical_crossentropy)
    name: str = "categorical_crossentropy"
    dtype: Any = None
    from_logits: bool = False
    label_smoothing: float = 0.0
    axis: int = -1


@dataclass(eq=False, repr=False)
class SparseCategoricalCrossentropy(_MeanLoss, example="[1], [[0.5, 0.5]]", mean=0.6931):
    """The mean cross-entropy with class numbers."""

    function = staticmethod(loss_functions.sparse_categorical_crossentropy)
    name: str = "sparse_categorical_crossentropy"
    dtype: Any = None
    from_logits: bool = False
    ignore_class: int | None = None
    axis: int = -1


class MeanAbsolutePercentageError(_MeanLoss, example="[[2.0, 4.0]], [[1.0, 4.0]]", mean=25.0):
    """The mean absolute error in percent of the labels."""

    function = staticmethod(loss_functions.mean_absolute_percentage_error)


class MeanSquaredLogarithmicError(_MeanLoss, example="[[1.0]], [[1.0]]", mean=0.0):
    """The mean square of the difference between the logarithms of 1 plus the values."""

    function = staticmethod(loss_functions.mean_squared_logarithmic_error)


class Poisson(_MeanLoss, example="[[1.0]], [[1.0]]", mean=1.0):
    """The mean Poisson loss."""

    function = staticmethod(loss_functions.poisson)


class Hinge(_MeanLoss, example="[[1.0, -1.0]], [[0.5, 0.5]]", mean=1.0):
    """The mean hinge loss."""

    function = staticmethod(loss_functions.hinge)


class SquaredHinge(_MeanLoss, example="[[1.0, -1.0]], [[0.5, 0.5]]", mean=1.25):
    """The mean squared hinge loss."""

    function = staticmethod(loss_functions.squared_hinge)


class CategoricalHinge(_MeanLoss, example="[[0.0, 1.0]], [[0.25, 0.75]]", mean=0.5):
    """The mean hinge loss between the true class and the best of the other classes."""

    function = staticmethod(loss_functions.categorical_hinge)


class LogCoshError(_MeanLoss, example="[[1.0]], [[1.0]]", mean=0.0):
    """The mean logarithm of the hyperbolic cosine of the error."""

    function = staticmethod(loss_functions.log_cosh)
    default_name = "logcosh"
