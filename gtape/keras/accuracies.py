"""Metrics and functions for the fraction of correct predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.docstrings import documented_like
from gtape.base.quiet import quiet, quietly
from gtape.base.sections import add_sections
from gtape.base.shown import shown
from gtape.keras.loss_functions import checked, same_rank
from gtape.keras.metric import MeanMetricWrapper, array_of
from gtape.kernels.broadcasting import broadcast_shapes
from gtape.tensors import argument_checks as checks
from gtape.tensors.tensor import Tensor, wrap

__all__ = [
    "Accuracy", "BinaryAccuracy", "CategoricalAccuracy", "SparseCategoricalAccuracy",
    "SparseTopKCategoricalAccuracy", "TopKCategoricalAccuracy", "binary_accuracy", "categorical_accuracy",
    "sparse_categorical_accuracy", "sparse_top_k_categorical_accuracy", "top_k_categorical_accuracy",
]  # fmt: skip


def _scores(owner: str, name: str, x: Any) -> Any:
    """An array with scores along its last axis."""
    found = array_of(x, owner, name)
    if not found.ndim or not found.shape[-1] or found.dtype.kind == "c":
        raise ValueError(
            f"{owner}: `{name}` must be real numbers for several classes along the last axis. Received: "
            f"{name}={shown(x)}"
        )
    return found


def _labels(owner: str, y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Class numbers without a last axis of size 1, and scores."""
    labels, scores = array_of(y_true, owner, "y_true"), _scores(owner, "y_pred", y_pred)
    if labels.ndim == scores.ndim and labels.shape[-1] == 1:
        labels = labels[..., 0]
    if labels.shape != scores.shape[:-1] or labels.dtype.kind == "c":
        raise ValueError(
            f"{owner}: `y_true` must hold a class number for each row of `y_pred`. Received: y_true of shape "
            f"{labels.shape}, y_pred of shape {scores.shape}"
        )
    return labels, scores


@quiet
def _agree(owner: str, a: Any, b: Any) -> Tensor:
    """An array with 1 where two arrays are equal, else 0. One may have an additional last axis of size 1."""
    if a.ndim == b.ndim + 1 and a.shape[-1] == 1:
        a = a[..., 0]
    elif b.ndim == a.ndim + 1 and b.shape[-1] == 1:
        b = b[..., 0]
    try:
        broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise ValueError(f"{owner}: `y_true` and `y_pred` do not fit: {a.shape} and {b.shape}") from None
    return wrap((a == b).astype(np.float32))


def binary_accuracy(y_true: Any, y_pred: Any, threshold: float = 0.5) -> Tensor:
    """1 where labels 0 and 1 agree with probabilities above or below a threshold, else 0.

    Parameters
    ----------
    y_true, y_pred : tensors of one shape
        One of them may have an additional last axis of size 1.
    threshold : float

    Returns
    -------
    Tensor of float32

    Raises
    ------
    ValueError
        For complex numbers or objects, or shapes that do not fit.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.metrics.binary_accuracy([[1.0, 0.0]], [[0.9, 0.8]]).numpy()
    array([[1., 0.]], dtype=float32)
    """
    owner = "binary_accuracy"
    threshold = checked(owner, threshold=threshold)["threshold"]
    true, predicted = same_rank(checks.tensor(owner, "y_true", y_true), checks.tensor(owner, "y_pred", y_pred))
    if predicted._layout.complex:
        raise ValueError(f"{owner}: `y_pred` must be real numbers, not {predicted.dtype.name}")
    scores = array_of(predicted, owner, "y_pred")
    with quietly():  # the threshold may be beyond the dtype of the scores
        chosen = scores > threshold
    return _agree(owner, array_of(true, owner, "y_true"), chosen)


def categorical_accuracy(y_true: Any, y_pred: Any) -> Tensor:
    """1 where the greatest score belongs to the true class, else 0, for one-hot labels.

    Parameters
    ----------
    y_true, y_pred : tensor, shape [..., n]

    Returns
    -------
    Tensor of float32, shape [...]

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.metrics.categorical_accuracy([[0, 1], [1, 0]], [[0.2, 0.8], [0.3, 0.7]]).numpy()
    array([1., 0.], dtype=float32)
    """
    owner = "categorical_accuracy"
    true, predicted = _scores(owner, "y_true", y_true), _scores(owner, "y_pred", y_pred)
    return _agree(owner, true.argmax(axis=-1), predicted.argmax(axis=-1))


@documented_like(categorical_accuracy)
def top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Tensor:
    """1 where the true class is among the k greatest scores, else 0, for one-hot labels.

    Parameters
    ----------
    k : int

    Examples
    --------
    >>> scores = [[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]]
    >>> tf.keras.metrics.top_k_categorical_accuracy([[0, 1, 0], [0, 0, 1]], scores, k=2).numpy()
    array([1., 0.], dtype=float32)
    """
    true = _scores("top_k_categorical_accuracy", "y_true", y_true)
    return sparse_top_k_categorical_accuracy(true.argmax(axis=-1), y_pred, k)


def sparse_top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Tensor:
    """1 where the true class is among the k greatest scores, else 0, for class numbers.

    Parameters
    ----------
    y_true : tensor of integers, shape [...] or [..., 1]
    y_pred : tensor, shape [..., n]
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
    owner = "sparse_top_k_categorical_accuracy"
    k = checked(owner, k=k)["k"]
    labels, scores = _labels(owner, y_true, y_pred)
    known = (labels >= 0) & (labels < scores.shape[-1])  # other labels have no score
    own = np.take_along_axis(scores, np.where(known, labels, 0)[..., None].astype(np.int64), axis=-1)
    return wrap((((scores > own).sum(axis=-1) < k) & known).astype(np.float32))


@documented_like(sparse_top_k_categorical_accuracy)
def sparse_categorical_accuracy(y_true: Any, y_pred: Any) -> Tensor:
    """1 where the greatest score belongs to the true class, else 0, for class numbers.

    Examples
    --------
    >>> tf.keras.metrics.sparse_categorical_accuracy([1, 0], [[0.2, 0.8], [0.3, 0.7]]).numpy()
    array([1., 0.], dtype=float32)
    """
    owner = "sparse_categorical_accuracy"
    labels, scores = _labels(owner, y_true, y_pred)
    return _agree(owner, labels, scores.argmax(axis=-1))


_THRESHOLD = """threshold : float
    Predictions above the threshold count as 1.
"""


class _Mean(MeanMetricWrapper):
    def __init_subclass__(
        cls, example: str = "", mean: float = 0.0, own: str = "", k: int | None = None, **options: Any
    ) -> None:
        """Document a metric by an example: labels and predictions, the argument k if needed, and the mean."""
        super().__init_subclass__(**options)
        if example:
            given, own = ("", own) if k is None else (f"k={k}", "k : int\n")
            call = f">>> float(tf.keras.metrics.{cls.__name__}({given})({example}))\n{mean}"
            add_sections(cls, Parameters=f"{own}name, dtype : as for `Metric`", Examples=call)


class Accuracy(_Mean, example="[1, 2, 3, 4], [1, 2, 3, 0]", mean=0.75):
    """The fraction of predictions that equal their labels."""

    def __init__(self, name: str = "accuracy", dtype: Any = None) -> None:
        super().__init__(lambda a, b: _agree("Accuracy", a, b), name, dtype)


class BinaryAccuracy(_Mean, example="[[1.0], [0.0]], [[0.9], [0.8]]", mean=0.5, own=_THRESHOLD):
    """The fraction of labels 0 and 1 that agree with probabilities above or below a threshold."""

    def __init__(self, name: str = "binary_accuracy", dtype: Any = None, threshold: float = 0.5) -> None:
        super().__init__(binary_accuracy, name, dtype, threshold=threshold)


class CategoricalAccuracy(_Mean, example="[[0.0, 1.0]], [[0.2, 0.8]]", mean=1.0):
    """The fraction of samples whose greatest score belongs to the true class, for one-hot labels."""

    def __init__(self, name: str = "categorical_accuracy", dtype: Any = None) -> None:
        super().__init__(categorical_accuracy, name, dtype)


class SparseCategoricalAccuracy(_Mean, example="[1, 0], [[0.2, 0.8], [0.3, 0.7]]", mean=0.5):
    """The fraction of samples whose greatest score belongs to the true class, for class numbers."""

    def __init__(self, name: str = "sparse_categorical_accuracy", dtype: Any = None) -> None:
        super().__init__(sparse_categorical_accuracy, name, dtype)


class TopKCategoricalAccuracy(_Mean, example="[[0.0, 0.0, 1.0]], [[0.5, 0.1, 0.4]]", mean=1.0, k=2):
    """The fraction of samples whose true class is among the k greatest scores, for one-hot labels."""

    def __init__(self, k: int = 5, name: str = "top_k_categorical_accuracy", dtype: Any = None) -> None:
        super().__init__(top_k_categorical_accuracy, name, dtype, k=k)


class SparseTopKCategoricalAccuracy(_Mean, example="[2], [[0.5, 0.1, 0.4]]", mean=0.0, k=1):
    """The fraction of samples whose true class is among the k greatest scores, for class numbers."""

    def __init__(self, k: int = 5, name: str = "sparse_top_k_categorical_accuracy", dtype: Any = None) -> None:
        super().__init__(sparse_top_k_categorical_accuracy, name, dtype, k=k)
