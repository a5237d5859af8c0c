"""How often predictions are right."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.keras.loss_functions import same_rank
from gtape.keras.metric import MeanMetricWrapper, array_of
from gtape.tensor import Tensor, convert_to_tensor, wrap

__all__ = [
    "Accuracy", "BinaryAccuracy", "CategoricalAccuracy", "SparseCategoricalAccuracy",
    "SparseTopKCategoricalAccuracy", "TopKCategoricalAccuracy", "binary_accuracy", "categorical_accuracy",
    "sparse_categorical_accuracy", "sparse_top_k_categorical_accuracy", "top_k_categorical_accuracy",
]  # fmt: skip


def _labels(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Class numbers without an axis of size 1 at the end, and scores."""
    y_true, y_pred = array_of(y_true), array_of(y_pred)
    return (y_true[..., 0] if y_true.ndim == y_pred.ndim and y_true.shape[-1] == 1 else y_true), y_pred


def binary_accuracy(y_true: Any, y_pred: Any, threshold: float = 0.5) -> Tensor:
    """Whether labels 0 and 1 agree with probabilities above or below a threshold, element by element.

    Parameters
    ----------
    y_true, y_pred : tensors of one shape
        Where one has a last axis of size 1 that the other lacks, they are brought together.
    threshold : float

    Returns
    -------
    Tensor of float32
        1 where they agree.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.metrics.binary_accuracy([[1.0, 0.0]], [[0.9, 0.8]]).numpy()
    array([[1., 0.]], dtype=float32)
    """
    true, predicted = same_rank(convert_to_tensor(y_true), convert_to_tensor(y_pred))
    return wrap((array_of(true) == (array_of(predicted) > threshold)).astype(np.float32))


def categorical_accuracy(y_true: Any, y_pred: Any) -> Tensor:
    """Whether the greatest score is that of the true class, for one-hot labels.

    Parameters
    ----------
    y_true : tensor, shape [..., n]
        One-hot labels.
    y_pred : tensor, shape [..., n]
        Scores.

    Returns
    -------
    Tensor of float32, shape [...]

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.metrics.categorical_accuracy([[0, 1], [1, 0]], [[0.2, 0.8], [0.3, 0.7]]).numpy()
    array([1., 0.], dtype=float32)
    """
    return wrap((array_of(y_true).argmax(axis=-1) == array_of(y_pred).argmax(axis=-1)).astype(np.float32))


def sparse_categorical_accuracy(y_true: Any, y_pred: Any) -> Tensor:
    """Whether the greatest score is that of the true class, for class numbers.

    Parameters
    ----------
    y_true : tensor of integers, shape [...] or [..., 1]
        Class numbers.
    y_pred : tensor, shape [..., n]
        Scores.

    Returns
    -------
    Tensor of float32, shape [...]

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.metrics.sparse_categorical_accuracy([1, 0], [[0.2, 0.8], [0.3, 0.7]]).numpy()
    array([1., 0.], dtype=float32)
    """
    y_true, y_pred = _labels(y_true, y_pred)
    return wrap((y_true == y_pred.argmax(axis=-1)).astype(np.float32))


def top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Tensor:
    """Whether the true class is among the k greatest scores, for one-hot labels.

    Parameters
    ----------
    y_true : tensor, shape [..., n]
        One-hot labels.
    y_pred : tensor, shape [..., n]
        Scores.
    k : int

    Returns
    -------
    Tensor of float32, shape [...]

    Examples
    --------
    >>> import gtape as tf
    >>> scores = [[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]]
    >>> tf.keras.metrics.top_k_categorical_accuracy([[0, 1, 0], [0, 0, 1]], scores, k=2).numpy()
    array([1., 0.], dtype=float32)
    """
    return sparse_top_k_categorical_accuracy(array_of(y_true).argmax(axis=-1), y_pred, k)


def sparse_top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Tensor:
    """Whether the true class is among the k greatest scores, for class numbers.

    Parameters
    ----------
    y_true : tensor of integers, shape [...] or [..., 1]
        Class numbers.
    y_pred : tensor, shape [..., n]
        Scores.
    k : int

    Returns
    -------
    Tensor of float32, shape [...]

    Examples
    --------
    >>> import gtape as tf
    >>> scores = [[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]]
    >>> tf.keras.metrics.sparse_top_k_categorical_accuracy([1, 2], scores, k=2).numpy()
    array([1., 0.], dtype=float32)
    """
    y_true, y_pred = _labels(y_true, y_pred)
    own = np.take_along_axis(y_pred, y_true[..., None].astype(np.int64), axis=-1)
    return wrap(((y_pred > own).sum(axis=-1) < k).astype(np.float32))


class Accuracy(MeanMetricWrapper):
    """How often predictions equal labels.

    Parameters
    ----------
    name : str
    dtype : dtype, optional
        As for `Metric`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.Accuracy()([1, 2, 3, 4], [1, 2, 3, 0]))
    0.75
    """

    def __init__(self, name: str = "accuracy", dtype: Any = None) -> None:
        super().__init__(lambda a, b: (a == b).astype(np.float32), name, dtype)


class BinaryAccuracy(MeanMetricWrapper):
    """How often labels 0 and 1 agree with probabilities above or below a threshold.

    Parameters
    ----------
    name : str
    dtype : dtype, optional
        As for `Metric`.
    threshold : float
        Predictions above it count as 1.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.BinaryAccuracy()([[1.0], [0.0]], [[0.9], [0.8]]))
    0.5
    """

    def __init__(self, name: str = "binary_accuracy", dtype: Any = None, threshold: float = 0.5) -> None:
        super().__init__(binary_accuracy, name, dtype, threshold=threshold)


class CategoricalAccuracy(MeanMetricWrapper):
    """How often the greatest score is that of the true class, for one-hot labels.

    Parameters
    ----------
    name : str
    dtype : dtype, optional
        As for `Metric`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.CategoricalAccuracy()([[0.0, 1.0]], [[0.2, 0.8]]))
    1.0
    """

    def __init__(self, name: str = "categorical_accuracy", dtype: Any = None) -> None:
        super().__init__(categorical_accuracy, name, dtype)


class SparseCategoricalAccuracy(MeanMetricWrapper):
    """How often the greatest score is that of the true class, for class numbers.

    Parameters
    ----------
    name : str
    dtype : dtype, optional
        As for `Metric`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.SparseCategoricalAccuracy()([1, 0], [[0.2, 0.8], [0.3, 0.7]]))
    0.5
    """

    def __init__(self, name: str = "sparse_categorical_accuracy", dtype: Any = None) -> None:
        super().__init__(sparse_categorical_accuracy, name, dtype)


class TopKCategoricalAccuracy(MeanMetricWrapper):
    """How often the true class is among the k greatest scores, for one-hot labels.

    Parameters
    ----------
    k : int
        How many of the greatest scores count.
    name : str
    dtype : dtype, optional
        As for `Metric`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.TopKCategoricalAccuracy(k=2)([[0.0, 0.0, 1.0]], [[0.5, 0.1, 0.4]]))
    1.0
    """

    def __init__(self, k: int = 5, name: str = "top_k_categorical_accuracy", dtype: Any = None) -> None:
        super().__init__(top_k_categorical_accuracy, name, dtype, k=k)


class SparseTopKCategoricalAccuracy(MeanMetricWrapper):
    """How often the true class is among the k greatest scores, for class numbers.

    Parameters
    ----------
    k : int
        How many of the greatest scores count.
    name : str
    dtype : dtype, optional
        As for `Metric`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.SparseTopKCategoricalAccuracy(k=1)([2], [[0.5, 0.1, 0.4]]))
    0.0
    """

    def __init__(self, k: int = 5, name: str = "sparse_top_k_categorical_accuracy", dtype: Any = None) -> None:
        super().__init__(sparse_top_k_categorical_accuracy, name, dtype, k=k)
