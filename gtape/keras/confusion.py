"""Metrics of binary predictions: counts of right and wrong answers, precision and recall."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from gtape.base.quiet import quiet
from gtape.base.sections import add_sections
from gtape.base.shown import shown
from gtape.keras.metric import Metric, reals_of, spread
from gtape.tensors import argument_checks as checks
from gtape.tensors.tensor import Tensor, read_from_variables, wrap

__all__ = ["FalseNegatives", "FalsePositives", "Precision", "Recall", "TrueNegatives", "TruePositives"]


_THRESHOLDS = """thresholds : float or list of float, optional
    Predictions above the threshold, 0.5 by default, count as 1; a list gives a result for each threshold.
name, dtype : as for `Metric`"""


class _Counts(Metric):
    """Counts of right and wrong answers at one threshold or several."""

    # The samples that each class counts, as pairs (label, prediction).
    kinds: tuple[tuple[bool, bool], ...] = ()

    def __init__(
        self, thresholds: Any = None, top_k: int | None = None, class_id: int | None = None, name: str | None = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(self).__name__).lower()
        super().__init__(dtype, words if name is None else name)
        found = np.asarray(0.5) if thresholds is None else checks.numeric(self, "thresholds", thresholds)
        inside = found.dtype.kind in "biuf" and found.ndim <= 1 and bool(((found >= 0) & (found <= 1)).all())
        if not inside or not found.size:
            raise ValueError(
                f"{type(self).__name__}: Threshold values must be in [0, 1], one or a list. Received: thresholds="
                f"{shown(thresholds)}"
            )
        self.thresholds = np.atleast_1d(found).astype(np.float64)
        self.top_k = None if top_k is None else checks.whole(self, "top_k", top_k, least=1)
        self.class_id = None if class_id is None else checks.whole(self, "class_id", class_id, least=0)
        self._several = found.size > 1
        self._counts = [self.add_weight(shape=self.thresholds.shape, dtype="float64") for _ in self.kinds]

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Count the labels 0 and 1 and the predictions of a batch, each sample with its weight."""
        labels, scores = reals_of(y_true, self, "y_true"), reals_of(y_pred, self, "y_pred")
        if labels.size != scores.size:
            raise ValueError(
                f"{type(self).__name__}: `y_true` and `y_pred` must be of one shape. Received: {labels.shape} and "
                f"{scores.shape}"
            )
        classes = scores.shape[-1] if scores.ndim else 0
        if (self.top_k is not None and not scores.ndim) or (self.class_id is not None and self.class_id >= classes):
            raise ValueError(
                f"{type(self).__name__}: `top_k` and `class_id` are about the last axis of `y_pred`, whose shape is "
                f"{scores.shape}. Received: top_k={self.top_k}, class_id={self.class_id}"
            )
        labels = labels.reshape(scores.shape)
        weights = np.ones(()) if sample_weight is None else reals_of(sample_weight, self, "sample_weight")
        if 0 < weights.ndim < scores.ndim:
            weights = weights.reshape(*weights.shape, *[1] * (scores.ndim - weights.ndim))
        weights = spread(weights, scores.shape, self)
        if self.top_k is not None:
            best = np.argsort(-scores, axis=-1, kind="stable")[..., : self.top_k]
            kept = np.zeros(scores.shape, bool)
            np.put_along_axis(kept, best, True, axis=-1)
            scores = np.where(kept, scores, -np.inf)
        if self.class_id is not None:
            labels, scores, weights = [v[..., self.class_id] for v in (labels, scores, weights)]
        # In float32 as in Keras, so that a score of float32 equals the threshold with the same digits.
        said = scores[None].astype(np.float32) > self.thresholds.astype(np.float32).reshape(-1, *[1] * scores.ndim)
        if self.top_k is not None:
            said = np.isfinite(scores)[None] & (said if self._several else True)
        for count, (label, answer) in zip(self._counts, self.kinds, strict=True):
            here = ((labels > 0) == label)[None] & (said == answer)
            with np.errstate(invalid="ignore"):  # because weights may be infinite
                added = (here * weights[None]).sum(axis=tuple(range(1, here.ndim)))
            count.assign_add(wrap(added))

    @quiet
    def _shown(self, figures: Any) -> Tensor:
        made = np.asarray(figures, np.float32)
        return read_from_variables(wrap(made if self._several else made[0]))

    def result(self) -> Tensor:
        """The count so far."""
        return self._shown(self._counts[0].numpy())


class _Count(_Counts):
    def __init_subclass__(cls, count: float | None = None, **options: Any) -> None:
        """Document a class by its count in an example."""
        super().__init_subclass__(**options)
        if count is not None:
            call = f">>> float(tf.keras.metrics.{cls.__name__}()([0, 1, 1, 1], [0.9, 0.8, 0.1, 0.7]))\n{count}"
            add_sections(cls, Parameters=_THRESHOLDS, Examples=call)

    def __init__(self, thresholds: Any = None, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(thresholds, name=name, dtype=dtype)


class TruePositives(_Count, count=2.0):
    """The number of samples with label 1 and prediction 1."""

    kinds = ((True, True),)


class FalsePositives(_Count, count=1.0):
    """The number of samples with label 0 and prediction 1."""

    kinds = ((False, True),)


class TrueNegatives(_Count, count=0.0):
    """The number of samples with label 0 and prediction 0."""

    kinds = ((False, False),)


class FalseNegatives(_Count, count=1.0):
    """The number of samples with label 1 and prediction 0."""

    kinds = ((True, False),)


class Precision(_Counts):
    """The fraction of label 1 among the samples with prediction 1.

    Parameters
    ----------
    thresholds : as for `TruePositives`
    top_k : int, optional
        Only the `top_k` greatest predictions of each sample count as 1.
    class_id : int, optional
        The only entry of the last axis that counts.
    name, dtype : as for `Metric`

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.Precision()([0, 1, 1, 1], [0.0, 0.8, 0.1, 0.7]))
    1.0
    """

    kinds = ((True, True), (False, True))

    @quiet
    def result(self) -> Tensor:
        """The fraction so far; 0 if there are no samples."""
        right, wrong = [count.numpy() for count in self._counts]
        return self._shown(right / np.where(right + wrong == 0, 1.0, right + wrong))


class Recall(Precision):
    """The fraction of prediction 1 among the samples with label 1. The arguments are those of `Precision`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.Recall()([0, 1, 1], [0.0, 0.8, 0.1]))
    0.5
    """

    kinds = ((True, True), (True, False))
