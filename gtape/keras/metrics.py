"""Metrics: running results over batches, for logs. They are not differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gtape.base.docstrings import documented_like
from gtape.keras import accuracies, confusion, loss_functions, loss_metrics, metric
from gtape.keras.accuracies import *  # noqa: F403
from gtape.keras.confusion import *  # noqa: F403
from gtape.keras.lookup import by_name
from gtape.keras.loss_functions import *  # noqa: F403
from gtape.keras.loss_metrics import *  # noqa: F403
from gtape.keras.metric import Mean, MeanMetricWrapper, Metric, Sum

__all__ = [
    *accuracies.__all__, *confusion.__all__, *loss_metrics.__all__,
    *(name for name in loss_functions.__all__ if not name.startswith(("bce", "cosine", "kl_", "log_", "mean_"))),
    "Mean", "MeanMetricWrapper", "Metric", "Sum", "get",
]  # fmt: skip

__dir__ = __all__.copy  # the names for `dir`, which sorts them


_CLASSES = {n: c for n, c in globals().items() if isinstance(c, type) and issubclass(c, metric.Metric)}
_KNOWN: dict[str, Any] = {
    **{n: globals()[n] for n in __all__ if n.endswith("accuracy")},
    **{n: c for n, c in _CLASSES.items() if n not in ("Metric", "MeanMetricWrapper")},
    "accuracy": _CLASSES["Accuracy"], "mse": _CLASSES["MeanSquaredError"], "mae": _CLASSES["MeanAbsoluteError"],
}  # fmt: skip


@documented_like(by_name)
def get(identifier: Any) -> Callable[..., Any] | None:
    """A metric by its name.

    Examples
    --------
    >>> float(tf.keras.metrics.get("Mean")([1.0, 3.0]))
    2.0
    """
    return None if identifier is None else by_name(identifier, _KNOWN, "metric", make=True)
