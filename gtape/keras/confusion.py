"""Figures of yes-or-no predictions: hits and misses, precision and recall."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.keras.metric import Metric, array_of
from gtape.tensor import Tensor, wrap

__all__ = ["FalseNegatives", "FalsePositives", "Precision", "Recall", "TrueNegatives", "TruePositives"]


class _Counts(Metric):
    """Counts of right and wrong answers, at one threshold or several."""

    # Which counts there are: (label, prediction).
    kinds: tuple[tuple[bool, bool], ...] = ()

    def __init__(
        self, thresholds: Any = None, top_k: int | None = None, class_id: int | None = None, name: str | None = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(dtype, name)
        given = np.atleast_1d(0.5 if thresholds is None else thresholds).astype(np.float64)
        if ((given < 0) | (given > 1)).any():
            raise ValueError(f"Threshold values must be in [0, 1]. Received: {thresholds}")
        self.thresholds, self.top_k, self.class_id = given, top_k, class_id
        self._several = thresholds is not None and np.ndim(thresholds) > 0
        self._counts = [self.add_weight(shape=given.shape, dtype="float64") for _ in self.kinds]

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take labels 0 and 1 and predictions of a batch, each sample with a weight."""
        labels, scores = array_of(y_true).astype(np.float64), array_of(y_pred).astype(np.float64)
        if labels.shape != scores.shape:
            labels = labels.reshape(scores.shape)
        weights = np.ones(()) if sample_weight is None else array_of(sample_weight).astype(np.float64)
        if 0 < weights.ndim < scores.ndim:
            weights = weights.reshape(*weights.shape, *[1] * (scores.ndim - weights.ndim))
        weights = np.broadcast_to(weights, scores.shape)
        if self.top_k is not None:
            best = np.argsort(-scores, axis=-1, kind="stable")[..., : self.top_k]
            kept = np.zeros(scores.shape, bool)
            np.put_along_axis(kept, best, True, axis=-1)
            scores = np.where(kept, scores, -np.inf)
        if self.class_id is not None:
            labels, scores, weights = [v[..., self.class_id] for v in (labels, scores, weights)]
        said = scores[None] > self.thresholds.reshape(-1, *[1] * scores.ndim)
        if self.top_k is not None:
            said = np.isfinite(scores)[None] & (said if self._several else True)
        for count, (label, answer) in zip(self._counts, self.kinds, strict=True):
            here = ((labels > 0) == label)[None] & (said == answer)
            added = (here * weights[None]).reshape(len(self.thresholds), -1).sum(axis=1)
            count.assign_add(wrap(added))

    def _shown(self, figures: Any) -> Tensor:
        made = np.asarray(figures, np.float32)
        return wrap(made if self._several else made[0])

    def result(self) -> Tensor:
        """The count so far."""
        return self._shown(self._counts[0].numpy())


class TruePositives(_Counts):
    """How many samples are a yes and were called one.

    Parameters
    ----------
    thresholds : float or list of float, optional
        What a prediction must exceed to count as a yes, 0.5 by default; for a list there is a figure for each.
    name : str, optional
    dtype : dtype, optional
        As for `Metric`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.TruePositives()([0, 1, 1, 1], [0.9, 0.8, 0.1, 0.7]))
    2.0
    """

    kinds = ((True, True),)

    def __init__(self, thresholds: Any = None, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(thresholds, name=name or "true_positives", dtype=dtype)


class FalsePositives(_Counts):
    """How many samples are a no and were called a yes.

    Parameters
    ----------
    thresholds : float or list of float, optional
        What a prediction must exceed to count as a yes, 0.5 by default; for a list there is a figure for each.
    name : str, optional
    dtype : dtype, optional
        As for `Metric`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.FalsePositives()([0, 1, 1, 1], [0.9, 0.8, 0.1, 0.7]))
    1.0
    """

    kinds = ((False, True),)

    def __init__(self, thresholds: Any = None, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(thresholds, name=name or "false_positives", dtype=dtype)


class TrueNegatives(_Counts):
    """How many samples are a no and were called one.

    Parameters
    ----------
    thresholds : float or list of float, optional
        What a prediction must exceed to count as a yes, 0.5 by default; for a list there is a figure for each.
    name : str, optional
    dtype : dtype, optional
        As for `Metric`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.TrueNegatives()([0, 1, 1, 1], [0.9, 0.8, 0.1, 0.7]))
    0.0
    """

    kinds = ((False, False),)

    def __init__(self, thresholds: Any = None, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(thresholds, name=name or "true_negatives", dtype=dtype)


class FalseNegatives(_Counts):
    """How many samples are a yes and were called a no.

    Parameters
    ----------
    thresholds : float or list of float, optional
        What a prediction must exceed to count as a yes, 0.5 by default; for a list there is a figure for each.
    name : str, optional
    dtype : dtype, optional
        As for `Metric`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.FalseNegatives()([0, 1, 1, 1], [0.9, 0.8, 0.1, 0.7]))
    1.0
    """

    kinds = ((True, False),)

    def __init__(self, thresholds: Any = None, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(thresholds, name=name or "false_negatives", dtype=dtype)


class Precision(_Counts):
    """The share of real ones among the samples that were called a yes.

    Parameters
    ----------
    thresholds : float or list of float, optional
        What a prediction must exceed to count as a yes, 0.5 by default; for a list there is a figure for each.
    top_k : int, optional
        Only the greatest so many predictions of each sample count as a yes.
    class_id : int, optional
        Only look at this entry of the last axis.
    name : str, optional
    dtype : dtype, optional
        As for `Metric`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.Precision()([0, 1, 1, 1], [0.0, 0.8, 0.1, 0.7]))
    1.0
    """

    kinds = ((True, True), (False, True))

    def __init__(
        self, thresholds: Any = None, top_k: int | None = None, class_id: int | None = None, name: str | None = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(thresholds, top_k, class_id, name or type(self).__name__.lower(), dtype)

    def result(self) -> Tensor:
        """The share so far; 0 where there is nothing to divide by."""
        right, wrong = [count.numpy() for count in self._counts]
        return self._shown(right / np.where(right + wrong == 0, 1.0, right + wrong))


class Recall(Precision):
    """The share of the samples that are a yes that were called one; arguments as for `Precision`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.Recall()([0, 1, 1], [0.0, 0.8, 0.1]))
    0.5
    """

    kinds = ((True, True), (True, False))
