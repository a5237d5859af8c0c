"""Losses as objects, with reductions and sample weights, and as functions, under Keras's names.

Keras turns everything into float32 here; gtape keeps the predictions' float type, unless a loss is given its own
`dtype`, so that a float64 model has float64 gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gtape
from gtape import nest
from gtape.keras.lookup import by_name
from gtape.keras.loss_functions import (
    binary_crossentropy,
    categorical_crossentropy,
    categorical_hinge,
    cosine_similarity,
    floats,
    hinge,
    huber,
    kl_divergence,
    log_cosh,
    mean_absolute_error,
    mean_absolute_percentage_error,
    mean_squared_error,
    mean_squared_logarithmic_error,
    poisson,
    sparse_categorical_crossentropy,
    squared_hinge,
)
from gtape.tensor import Tensor

__all__ = [
    "KLD", "MAE", "MAPE", "MSE", "MSLE", "BinaryCrossentropy", "CategoricalCrossentropy", "CategoricalHinge",
    "CosineSimilarity", "Hinge", "Huber", "KLDivergence", "LogCosh", "Loss", "MeanAbsoluteError",
    "MeanAbsolutePercentageError", "MeanSquaredError", "MeanSquaredLogarithmicError", "Poisson", "Reduction",
    "SparseCategoricalCrossentropy", "SquaredHinge", "bce", "binary_crossentropy", "categorical_crossentropy",
    "categorical_hinge", "cosine_similarity", "get", "hinge", "huber", "kl_divergence", "kld", "log_cosh", "logcosh",
    "mae", "mape", "mean_absolute_error", "mean_absolute_percentage_error", "mean_squared_error",
    "mean_squared_logarithmic_error", "mse", "msle", "poisson", "sparse_categorical_crossentropy", "squared_hinge",
]  # fmt: skip

mse = MSE = mean_squared_error
mae = MAE = mean_absolute_error
mape = MAPE = mean_absolute_percentage_error
msle = MSLE = mean_squared_logarithmic_error
kld = KLD = kl_divergence
bce = binary_crossentropy
logcosh = log_cosh


class Reduction:
    """Names of the ways in which the losses of samples become one number."""

    AUTO = "auto"
    NONE = "none"
    SUM = "sum"
    SUM_OVER_BATCH_SIZE = "sum_over_batch_size"

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """All names."""
        return (cls.AUTO, cls.NONE, cls.SUM, cls.SUM_OVER_BATCH_SIZE)


_REDUCTIONS = ("auto", "mean", "mean_with_sample_weight", "none", "sum", "sum_over_batch_size")


def reduced(losses: Tensor, weights: Any, reduction: str, counted: Any = None) -> Tensor:
    """The losses of samples, weighted and put together.

    Parameters
    ----------
    losses : tensor
    weights : tensor or None
        Of the shape of `losses`, or one that broadcasts with it; an axis of size 1 at the end may be left out or be
        one too many.
    reduction : str
    counted : bool array, optional
        Which samples there are at all; by default every one.

    Returns
    -------
    Tensor
    """
    samples = losses._aval.size
    if counted is not None:
        samples = int(np.count_nonzero(counted))
        here = gtape.cast(counted, losses.dtype)
        weights = here if weights is None else here * gtape.reshape(floats(weights, losses.dtype), here._aval.shape)
    if weights is not None:
        weights = floats(weights, losses.dtype)
        a, b = losses._aval.shape, weights._aval.shape
        if len(b) == len(a) + 1 and b[-1] == 1:
            weights = gtape.squeeze(weights, -1)
        elif len(a) == len(b) + 1 and b:
            weights = gtape.expand_dims(weights, -1)
        losses = losses * weights
    if reduction == "none":
        return losses
    total: Tensor = gtape.reduce_sum(losses)
    if reduction == "sum":
        return total
    if reduction == "mean_with_sample_weight" and weights is not None:
        whole = gtape.reduce_sum(gtape.broadcast_to(weights, losses._aval.shape))
        return gtape.math.divide_no_nan(total, whole)  # type: ignore[no-any-return]
    # No samples, no loss: 0 rather than 0/0.
    return total / max(samples, 1)


class Loss:
    """Base class: a loss of your own writes `call`, which returns the loss of each sample.

    Parameters
    ----------
    name : str, optional
    reduction : str or None
        "sum_over_batch_size" divides the sum by the number of losses; "sum"; "none" or None gives the loss of each
        sample; "mean_with_sample_weight" divides by the sum of the weights.
    dtype : dtype, optional
        What labels and predictions are cast to; by default the predictions keep their float type.

    Raises
    ------
    ValueError
        For another reduction.

    Examples
    --------
    >>> import gtape as tf
    >>> class Cubed(tf.keras.losses.Loss):
    ...     def call(self, y_true, y_pred):
    ...         return tf.reduce_sum(tf.abs(y_true - y_pred) ** 3, axis=-1)
    >>> float(Cubed()([[0.0], [0.0]], [[2.0], [0.0]]))
    4.0
    """

    options: tuple[str, ...] = ()

    def __init__(
        self, name: str | None = None, reduction: str | None = "sum_over_batch_size", dtype: Any = None
    ) -> None:
        reduction = "none" if reduction is None else reduction
        if reduction not in _REDUCTIONS:
            raise ValueError(
                f"Invalid value for argument `reduction`. Expected one of {set(_REDUCTIONS)}. Received: "
                f"reduction={reduction}"
            )
        self.name = name or type(self).__name__
        self.reduction = reduction
        self.dtype = dtype

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """The loss, reduced.

        Parameters
        ----------
        y_true, y_pred : tensor or structure of tensors
        sample_weight : tensor, optional
            A factor for the loss of each sample.

        Returns
        -------
        Tensor
        """
        if nest.is_nested(y_pred) and any(isinstance(y, Tensor) for y in nest.flatten(y_pred)):
            y_pred = nest.map_structure(lambda y: floats(y, self.dtype), y_pred)
            y_true = nest.map_structure(floats, y_true)
        else:
            y_pred = floats(y_pred, self.dtype)
            y_true = floats(y_true, y_pred.dtype)
        losses = gtape.convert_to_tensor(self.call(y_true, y_pred))
        return reduced(losses, sample_weight, self.reduction, self.counted(y_true, losses))

    def counted(self, y_true: Any, losses: Tensor) -> Any:
        """Which samples count, as an array of bools of the shape of `losses`; None for all."""
        return None

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """The loss of each sample."""
        raise NotImplementedError(f"{type(self).__name__} must implement `call(y_true, y_pred)`")

    def get_config(self) -> dict[str, Any]:
        """The settings, as the constructor takes them."""
        return {"name": self.name, "reduction": self.reduction, **{k: getattr(self, k) for k in self.options}}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The loss with these settings."""
        return cls(**config)


class _Function(Loss):
    """A loss that is a function with settings."""

    function: Callable[..., Tensor]

    def call(self, y_true: Any, y_pred: Any) -> Tensor:
        return type(self).function(y_true, y_pred, **{k: getattr(self, k) for k in self.options})


class MeanSquaredError(_Function):
    """``(y_true - y_pred) ** 2``.

    Parameters
    ----------
    reduction, name, dtype
        As for `Loss`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.losses.MeanSquaredError()([[0.0, 1.0]], [[2.0, 1.0]]))
    2.0
    """

    function = staticmethod(mean_squared_error)

    def __init__(
        self, reduction: str | None = "sum_over_batch_size", name: str = "mean_squared_error", dtype: Any = None
    ) -> None:
        super().__init__(name, reduction, dtype)


class MeanAbsoluteError(_Function):
    """``|y_true - y_pred|``.

    Parameters
    ----------
    reduction, name, dtype
        As for `Loss`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.losses.MeanAbsoluteError()([[0.0, 1.0]], [[2.0, 1.0]]))
    1.0
    """

    function = staticmethod(mean_absolute_error)

    def __init__(
        self, reduction: str | None = "sum_over_batch_size", name: str = "mean_absolute_error", dtype: Any = None
    ) -> None:
        super().__init__(name, reduction, dtype)


class MeanAbsolutePercentageError(_Function):
    """``100 * |(y_true - y_pred) / y_true|``.

    Parameters
    ----------
    reduction, name, dtype
        As for `Loss`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.losses.MeanAbsolutePercentageError()([[2.0, 4.0]], [[1.0, 4.0]]))
    25.0
    """

    function = staticmethod(mean_absolute_percentage_error)

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str = "mean_absolute_percentage_error",
        dtype: Any = None,
    ) -> None:
        super().__init__(name, reduction, dtype)


class MeanSquaredLogarithmicError(_Function):
    """``(log(y_true + 1) - log(y_pred + 1)) ** 2``.

    Parameters
    ----------
    reduction, name, dtype
        As for `Loss`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.losses.MeanSquaredLogarithmicError()([[1.0]], [[1.0]]))
    0.0
    """

    function = staticmethod(mean_squared_logarithmic_error)

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str = "mean_squared_logarithmic_error",
        dtype: Any = None,
    ) -> None:
        super().__init__(name, reduction, dtype)


class LogCosh(_Function):
    """``log(cosh(y_pred - y_true))``.

    Parameters
    ----------
    reduction, name, dtype
        As for `Loss`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.losses.LogCosh()([[1.0]], [[1.0]]))
    0.0
    """

    function = staticmethod(log_cosh)

    def __init__(
        self, reduction: str | None = "sum_over_batch_size", name: str = "log_cosh", dtype: Any = None
    ) -> None:
        super().__init__(name, reduction, dtype)


class KLDivergence(_Function):
    """The Kullback-Leibler divergence of predicted from true distributions.

    Parameters
    ----------
    reduction, name, dtype
        As for `Loss`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.losses.KLDivergence()([[0.5, 0.5]], [[0.5, 0.5]]))
    0.0
    """

    function = staticmethod(kl_divergence)

    def __init__(
        self, reduction: str | None = "sum_over_batch_size", name: str = "kl_divergence", dtype: Any = None
    ) -> None:
        super().__init__(name, reduction, dtype)


class Poisson(_Function):
    """``y_pred - y_true * log(y_pred)``.

    Parameters
    ----------
    reduction, name, dtype
        As for `Loss`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.losses.Poisson()([[0.0, 0.0]], [[1.0, 3.0]]))
    2.0
    """

    function = staticmethod(poisson)

    def __init__(self, reduction: str | None = "sum_over_batch_size", name: str = "poisson", dtype: Any = None) -> None:
        super().__init__(name, reduction, dtype)


class Hinge(_Function):
    """``max(1 - y_true * y_pred, 0)``, with labels -1 and 1, or 0 and 1.

    Parameters
    ----------
    reduction, name, dtype
        As for `Loss`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.losses.Hinge()([[-1.0, 1.0]], [[0.5, 2.0]]))
    0.75
    """

    function = staticmethod(hinge)

    def __init__(self, reduction: str | None = "sum_over_batch_size", name: str = "hinge", dtype: Any = None) -> None:
        super().__init__(name, reduction, dtype)


class SquaredHinge(_Function):
    """``max(1 - y_true * y_pred, 0) ** 2``, with labels -1 and 1, or 0 and 1.

    Parameters
    ----------
    reduction, name, dtype
        As for `Loss`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.losses.SquaredHinge()([[-1.0, 1.0]], [[0.5, 2.0]]))
    1.125
    """

    function = staticmethod(squared_hinge)

    def __init__(
        self, reduction: str | None = "sum_over_batch_size", name: str = "squared_hinge", dtype: Any = None
    ) -> None:
        super().__init__(name, reduction, dtype)


class CategoricalHinge(_Function):
    """``max(wrong - right + 1, 0)``, with the score of the right class and the best other one.

    Parameters
    ----------
    reduction, name, dtype
        As for `Loss`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.losses.CategoricalHinge()([[0.0, 1.0]], [[0.75, 0.5]]))
    1.25
    """

    function = staticmethod(categorical_hinge)

    def __init__(
        self, reduction: str | None = "sum_over_batch_size", name: str = "categorical_hinge", dtype: Any = None
    ) -> None:
        super().__init__(name, reduction, dtype)


class Huber(_Function):
    """Quadratic for errors up to `delta`, linear beyond.

    Parameters
    ----------
    delta
        As for `huber`.
    reduction, name, dtype
        As for `Loss`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.losses.Huber()([[0.0, 0.0]], [[0.5, 3.0]]))
    1.3125
    """

    function = staticmethod(huber)
    options = ("delta",)

    def __init__(
        self,
        delta: float = 1.0,
        reduction: str | None = "sum_over_batch_size",
        name: str = "huber_loss",
        dtype: Any = None,
    ) -> None:
        super().__init__(name, reduction, dtype)
        self.delta = delta


class CosineSimilarity(_Function):
    """Minus the cosine of the angle between labels and predictions.

    Parameters
    ----------
    axis
        As for `cosine_similarity`.
    reduction, name, dtype
        As for `Loss`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.losses.CosineSimilarity()([[3.0, 0.0]], [[2.0, 0.0]]))
    -1.0
    """

    function = staticmethod(cosine_similarity)
    options = ("axis",)

    def __init__(
        self,
        axis: int = -1,
        reduction: str | None = "sum_over_batch_size",
        name: str = "cosine_similarity",
        dtype: Any = None,
    ) -> None:
        super().__init__(name, reduction, dtype)
        self.axis = axis


class BinaryCrossentropy(_Function):
    """Cross-entropy between labels 0 and 1 and probabilities or logits.

    Parameters
    ----------
    from_logits, label_smoothing, axis
        As for `binary_crossentropy`.
    reduction, name, dtype
        As for `Loss`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.losses.BinaryCrossentropy(from_logits=True)([[1.0, 0.0]], [[1000.0, 1000.0]]))
    500.0
    """

    function = staticmethod(binary_crossentropy)
    options = (
        "from_logits",
        "label_smoothing",
        "axis",
    )

    def __init__(
        self,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str | None = "sum_over_batch_size",
        name: str = "binary_crossentropy",
        dtype: Any = None,
    ) -> None:
        super().__init__(name, reduction, dtype)
        self.from_logits, self.label_smoothing, self.axis = from_logits, label_smoothing, axis


class CategoricalCrossentropy(_Function):
    """Cross-entropy between distributions over classes, or logits of them.

    Parameters
    ----------
    from_logits, label_smoothing, axis
        As for `categorical_crossentropy`.
    reduction, name, dtype
        As for `Loss`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.losses.CategoricalCrossentropy(from_logits=True)([[0.0, 1.0]], [[0.0, 1000.0]]))
    0.0
    """

    function = staticmethod(categorical_crossentropy)
    options = (
        "from_logits",
        "label_smoothing",
        "axis",
    )

    def __init__(
        self,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str | None = "sum_over_batch_size",
        name: str = "categorical_crossentropy",
        dtype: Any = None,
    ) -> None:
        super().__init__(name, reduction, dtype)
        self.from_logits, self.label_smoothing, self.axis = from_logits, label_smoothing, axis


class SparseCategoricalCrossentropy(_Function):
    """Cross-entropy between class numbers and distributions over classes, or logits of them.

    Parameters
    ----------
    from_logits, ignore_class, axis
        As for `sparse_categorical_crossentropy`. Ignored samples do not count in the mean.
    reduction, name, dtype
        As for `Loss`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)([1], [[1000.0, 0.0]]))
    1000.0
    """

    function = staticmethod(sparse_categorical_crossentropy)
    options = ("from_logits", "ignore_class", "axis")

    def __init__(
        self,
        from_logits: bool = False,
        ignore_class: int | None = None,
        reduction: str | None = "sum_over_batch_size",
        axis: int = -1,
        name: str = "sparse_categorical_crossentropy",
        dtype: Any = None,
    ) -> None:
        super().__init__(name, reduction, dtype)
        self.from_logits, self.ignore_class, self.axis = from_logits, ignore_class, axis

    def counted(self, y_true: Any, losses: Tensor) -> Any:
        if self.ignore_class is None:
            return None
        return np.reshape(np.asarray(y_true) != self.ignore_class, losses._aval.shape)


_KNOWN: dict[str, Any] = {name: globals()[name] for name in __all__ if name not in ("Loss", "Reduction", "get")}


def get(identifier: Any) -> Callable[..., Any] | None:
    """A loss.

    Parameters
    ----------
    identifier : str, dict, callable or None
        A name ("mse", "MeanSquaredError" ...); a function or a loss, which is returned; or None.

    Raises
    ------
    ValueError
        For an unknown name.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.losses.get("mse")([0.0], [2.0]))
    4.0
    """
    return None if identifier is None else by_name(identifier, _KNOWN, "loss", make=True)
