"""Losses as figures: their means over batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gtape
from gtape.keras import loss_functions
from gtape.keras.metric import MeanMetricWrapper
from gtape.tensors.tensor import Tensor, wrap

__all__ = [
    "BinaryCrossentropy", "CategoricalCrossentropy", "CategoricalHinge", "CosineSimilarity", "Hinge", "KLDivergence",
    "LogCoshError", "MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanSquaredError",
    "MeanSquaredLogarithmicError", "Poisson", "RootMeanSquaredError", "SparseCategoricalCrossentropy", "SquaredHinge",
]  # fmt: skip


class _MeanLoss(MeanMetricWrapper):
    """The mean of a loss that has no settings."""

    function: Callable[..., Tensor]
    default_name: str

    def __init__(self, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(type(self).function, self.default_name if name is None else name, dtype)


class MeanSquaredError(_MeanLoss):
    """The mean of squared errors.

    Parameters
    ----------
    name, dtype : as for `Metric`

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.MeanSquaredError()([[1.0]], [[3.0]]))
    4.0
    """

    function = staticmethod(loss_functions.mean_squared_error)
    default_name = "mean_squared_error"


def _squares(y_true: Any, y_pred: Any) -> Tensor:
    """The squared error of each element."""
    y_pred = loss_functions.floats(y_pred)
    true, predicted = loss_functions.same_rank(loss_functions.floats(y_true, y_pred.dtype), y_pred)
    return gtape.math.squared_difference(true, predicted)


class RootMeanSquaredError(_MeanLoss):
    """The root of the mean of squared errors.

    Parameters
    ----------
    name, dtype : as for `Metric`

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.RootMeanSquaredError()([[0.0], [0.0]], [[2.0], [2.0]]))
    2.0
    """

    function = staticmethod(_squares)
    default_name = "root_mean_squared_error"

    def result(self) -> Tensor:
        """The root of the mean; 0 before the first batch."""
        return wrap(np.float32(np.sqrt(self._mean())))


class MeanAbsoluteError(_MeanLoss):
    """The mean of absolute errors.

    Parameters
    ----------
    name, dtype : as for `Metric`

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.MeanAbsoluteError()([[1.0]], [[3.0]]))
    2.0
    """

    function = staticmethod(loss_functions.mean_absolute_error)
    default_name = "mean_absolute_error"


class KLDivergence(_MeanLoss):
    """The mean Kullback-Leibler divergence.

    Parameters
    ----------
    name, dtype : as for `Metric`

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.KLDivergence()([[0.5, 0.5]], [[0.5, 0.5]]))
    0.0
    """

    function = staticmethod(loss_functions.kl_divergence)
    default_name = "kl_divergence"


class CosineSimilarity(MeanMetricWrapper):
    """The mean cosine of the angle between labels and predictions; 1 is the best value, unlike for the loss.

    Parameters
    ----------
    name, dtype : as for `Metric`
    axis : int
        Along which the vectors lie.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.CosineSimilarity()([[3.0, 0.0]], [[2.0, 0.0]]))
    1.0
    """

    def __init__(self, name: str = "cosine_similarity", dtype: Any = None, axis: int = -1) -> None:
        super().__init__(lambda a, b: -loss_functions.cosine_similarity(a, b, axis), name, dtype)
        loss_functions.checked(self, axis=axis)


class BinaryCrossentropy(MeanMetricWrapper):
    """The mean binary cross-entropy.

    Parameters
    ----------
    name, dtype : as for `Metric`
    from_logits : bool
        Whether predictions are scores rather than probabilities.
    label_smoothing : float
        How far labels are moved towards a half.

    Examples
    --------
    >>> import gtape as tf
    >>> round(float(tf.keras.metrics.BinaryCrossentropy()([[1.0]], [[0.5]])), 4)
    0.6931
    """

    def __init__(
        self,
        name: str = "binary_crossentropy",
        dtype: Any = None,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(
            loss_functions.binary_crossentropy, name, dtype, from_logits=from_logits, label_smoothing=label_smoothing
        )


class CategoricalCrossentropy(MeanMetricWrapper):
    """The mean cross-entropy with one-hot labels.

    Parameters
    ----------
    name, dtype : as for `Metric`
    from_logits : bool
        Whether predictions are scores rather than probabilities.
    label_smoothing : float
        How far labels are moved towards equal shares.
    axis : int
        Along which the classes lie.

    Examples
    --------
    >>> import gtape as tf
    >>> round(float(tf.keras.metrics.CategoricalCrossentropy()([[0.0, 1.0]], [[0.5, 0.5]])), 4)
    0.6931
    """

    def __init__(
        self,
        name: str = "categorical_crossentropy",
        dtype: Any = None,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
    ) -> None:
        options = {"from_logits": from_logits, "label_smoothing": label_smoothing, "axis": axis}
        super().__init__(loss_functions.categorical_crossentropy, name, dtype, **options)


class SparseCategoricalCrossentropy(MeanMetricWrapper):
    """The mean cross-entropy with class numbers.

    Parameters
    ----------
    name, dtype : as for `Metric`
    from_logits : bool
        Whether predictions are scores rather than probabilities.
    axis : int
        Along which the classes lie.

    Examples
    --------
    >>> import gtape as tf
    >>> round(float(tf.keras.metrics.SparseCategoricalCrossentropy()([1], [[0.5, 0.5]])), 4)
    0.6931
    """

    def __init__(
        self,
        name: str = "sparse_categorical_crossentropy",
        dtype: Any = None,
        from_logits: bool = False,
        ignore_class: int | None = None,
        axis: int = -1,
    ) -> None:
        options = {"from_logits": from_logits, "ignore_class": ignore_class, "axis": axis}
        super().__init__(loss_functions.sparse_categorical_crossentropy, name, dtype, **options)


class MeanAbsolutePercentageError(_MeanLoss):
    """The mean absolute error in percent of the labels.

    Parameters
    ----------
    name, dtype : as for `Metric`

    Examples
    --------
    >>> import gtape as tf
    >>> round(float(tf.keras.metrics.MeanAbsolutePercentageError()([[2.0, 4.0]], [[1.0, 4.0]])), 4)
    25.0
    """

    function, default_name = (
        staticmethod(loss_functions.mean_absolute_percentage_error),
        "mean_absolute_percentage_error",
    )


class MeanSquaredLogarithmicError(_MeanLoss):
    """The mean square of the difference between the logarithms of 1 plus the values.

    Parameters
    ----------
    name, dtype : as for `Metric`

    Examples
    --------
    >>> import gtape as tf
    >>> round(float(tf.keras.metrics.MeanSquaredLogarithmicError()([[1.0]], [[1.0]])), 4)
    0.0
    """

    function, default_name = (
        staticmethod(loss_functions.mean_squared_logarithmic_error),
        "mean_squared_logarithmic_error",
    )


class Poisson(_MeanLoss):
    """The mean Poisson loss.

    Parameters
    ----------
    name, dtype : as for `Metric`

    Examples
    --------
    >>> import gtape as tf
    >>> round(float(tf.keras.metrics.Poisson()([[1.0]], [[1.0]])), 4)
    1.0
    """

    function = staticmethod(loss_functions.poisson)
    default_name = "poisson"


class Hinge(_MeanLoss):
    """The mean hinge loss.

    Parameters
    ----------
    name, dtype : as for `Metric`

    Examples
    --------
    >>> import gtape as tf
    >>> round(float(tf.keras.metrics.Hinge()([[1.0, -1.0]], [[0.5, 0.5]])), 4)
    1.0
    """

    function = staticmethod(loss_functions.hinge)
    default_name = "hinge"


class SquaredHinge(_MeanLoss):
    """The mean squared hinge loss.

    Parameters
    ----------
    name, dtype : as for `Metric`

    Examples
    --------
    >>> import gtape as tf
    >>> round(float(tf.keras.metrics.SquaredHinge()([[1.0, -1.0]], [[0.5, 0.5]])), 4)
    1.25
    """

    function = staticmethod(loss_functions.squared_hinge)
    default_name = "squared_hinge"


class CategoricalHinge(_MeanLoss):
    """The mean hinge loss between the true class and the best of the others.

    Parameters
    ----------
    name, dtype : as for `Metric`

    Examples
    --------
    >>> import gtape as tf
    >>> round(float(tf.keras.metrics.CategoricalHinge()([[0.0, 1.0]], [[0.25, 0.75]])), 4)
    0.5
    """

    function = staticmethod(loss_functions.categorical_hinge)
    default_name = "categorical_hinge"


class LogCoshError(_MeanLoss):
    """The mean logarithm of the hyperbolic cosine of the error.

    Parameters
    ----------
    name, dtype : as for `Metric`

    Examples
    --------
    >>> import gtape as tf
    >>> round(float(tf.keras.metrics.LogCoshError()([[1.0]], [[1.0]])), 4)
    0.0
    """

    function = staticmethod(loss_functions.log_cosh)
    default_name = "logcosh"
