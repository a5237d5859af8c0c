"""The base class of losses, and the reductions of the losses of samples to one number."""

from __future__ import annotations

from typing import Any

import numpy as np

import gtape
from gtape import nest
from gtape.base.shown import shown
from gtape.keras.lookup import Configured
from gtape.keras.loss_functions import floats
from gtape.tensors import argument_checks as checks
from gtape.tensors.tensor import Tensor

__all__ = ["Loss", "Reduction", "reduced"]


class Reduction:
    """Names of the reductions of the losses of samples to one number.

    Examples
    --------
    >>> import gtape as tf
    >>> loss = tf.keras.losses.MeanSquaredError(reduction=tf.keras.losses.Reduction.SUM)
    >>> float(loss([[0.0], [0.0]], [[1.0], [2.0]]))
    5.0
    """

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
    """The weighted losses of samples, reduced.

    `weights` may have one last axis of size 1 more or less than `losses`, or broadcast against `losses`; a mean divides
    by the number of weighted losses. The bool array `counted` marks the samples that count. None marks all samples.
    """
    if counted is not None:
        here = gtape.cast(counted, losses.dtype)
        weights = here if weights is None else here * gtape.reshape(floats(weights, losses.dtype), here._layout.shape)
    if weights is not None:
        weights = floats(weights, losses.dtype)
        a, b = losses._layout.shape, weights._layout.shape
        if len(b) == len(a) + 1 and b[-1] == 1:
            if len(a) == 1:  # as in Keras
                losses = gtape.expand_dims(losses, -1)
            else:
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
        whole = gtape.reduce_sum(gtape.broadcast_to(weights, losses._layout.shape))
        return gtape.math.divide_no_nan(total, whole)
    samples = losses._layout.size if counted is None else int(np.count_nonzero(counted))
    return total / max(samples, 1)  # 0 instead of 0/0 if there are no samples


class Loss(Configured):
    """Base class of losses. A subclass defines `call`, which returns the loss of each sample.

    Parameters
    ----------
    name : str, optional
    reduction : str or None
        "sum"; "sum_over_batch_size" divides the sum by the number of losses, "mean_with_sample_weight" by the sum of
        the weights; "none" or None returns the loss of each sample.
    dtype : dtype, optional
        The type of labels and predictions; the float type of the predictions by default.

    Raises
    ------
    ValueError
        For an unknown reduction.

    Examples
    --------
    >>> import gtape as tf
    >>> class Cubed(tf.keras.losses.Loss):
    ...     def call(self, y_true, y_pred):
    ...         return tf.reduce_sum(tf.abs(y_true - y_pred) ** 3, axis=-1)
    >>> float(Cubed()([[0.0], [0.0]], [[2.0], [0.0]]))
    4.0
    """

    def __init__(
        self, name: str | None = None, reduction: str | None = "sum_over_batch_size", dtype: Any = None
    ) -> None:
        reduction = "none" if reduction is None else reduction
        if not isinstance(reduction, str) or reduction not in _REDUCTIONS:
            raise ValueError(
                f"Invalid value for argument `reduction`. Expected one of {set(_REDUCTIONS)}. Received: "
                f"reduction={shown(reduction)}"
            )
        self.name = checks.name_of(self, name, type(self).__name__)
        self.reduction: Any = reduction
        self.dtype = None if dtype is None else checks.dtype(self, dtype)

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """The reduced loss. `sample_weight` has a factor for the loss of each sample."""
        if nest.is_nested(y_pred) and any(isinstance(y, Tensor) for y in nest.flatten(y_pred)):
            y_pred = nest.map_structure(lambda y: floats(y, self.dtype), y_pred)
            y_true = nest.map_structure(floats, y_true)
        else:
            y_pred = floats(y_pred, self.dtype)
            y_true = floats(y_true, y_pred.dtype)
        losses = checks.tensor(self, "what `call` returned", self.call(y_true, y_pred))
        return reduced(losses, sample_weight, self.reduction, self._counted(y_true, losses))

    def _counted(self, y_true: Any, losses: Tensor) -> Any:
        """The bool array of the samples that count, in the shape of `losses`; None if all count."""
        return None

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """The loss of each sample."""
        raise NotImplementedError(f"{type(self).__name__} must implement `call(y_true, y_pred)`")

    def get_config(self) -> dict[str, Any]:
        """The settings as the constructor takes them."""
        return {"name": self.name, "reduction": self.reduction, **super().get_config()}
