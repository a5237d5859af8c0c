"""Running figures over batches, for logs: nothing here is differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from gtape.keras import loss_functions
from gtape.keras.lookup import by_name
from gtape.tensor import Tensor, convert_to_tensor, wrap
from gtape.variable import Variable

__all__ = [
    "Accuracy", "BinaryAccuracy", "BinaryCrossentropy", "CategoricalAccuracy", "CategoricalCrossentropy",
    "CosineSimilarity", "KLDivergence", "Mean", "MeanAbsoluteError", "MeanMetricWrapper", "MeanSquaredError", "Metric",
    "RootMeanSquaredError", "SparseCategoricalAccuracy", "SparseCategoricalCrossentropy",
    "SparseTopKCategoricalAccuracy", "Sum", "TopKCategoricalAccuracy", "binary_accuracy", "categorical_accuracy",
    "get", "sparse_categorical_accuracy", "sparse_top_k_categorical_accuracy", "top_k_categorical_accuracy",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


def _array(x: Any) -> Any:
    return np.asarray(convert_to_tensor(x)._value)


def _labels(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Class numbers without an axis of size 1 at the end, and scores."""
    y_true, y_pred = _array(y_true), _array(y_pred)
    return (y_true[..., 0] if y_true.ndim == y_pred.ndim and y_true.shape[-1] == 1 else y_true), y_pred


def binary_accuracy(y_true: Any, y_pred: Any, threshold: float = 0.5) -> Tensor:
    """How often labels 0 and 1 agree with probabilities above or below a threshold, over the last axis.

    Parameters
    ----------
    y_true, y_pred : tensor, shape [..., n]
    threshold : float

    Returns
    -------
    Tensor of float32, shape [...]

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.metrics.binary_accuracy([[1.0, 0.0]], [[0.9, 0.8]]).numpy()
    array([0.5], dtype=float32)
    """
    right = _array(y_true) == (_array(y_pred) > threshold)
    return wrap(right.mean(axis=-1, dtype=np.float32))


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
    return wrap((_array(y_true).argmax(axis=-1) == _array(y_pred).argmax(axis=-1)).astype(np.float32))


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
    return sparse_top_k_categorical_accuracy(_array(y_true).argmax(axis=-1), y_pred, k)


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


class Metric:
    """Base class: `update_state` takes a batch, `result` gives the figure so far, `reset_state` starts again.

    Calling a metric updates it and returns the result.

    Parameters
    ----------
    dtype : dtype, optional
        Keras has it; states are kept in float64, results are float32.
    name : str, optional

    Examples
    --------
    >>> import gtape as tf
    >>> class Largest(tf.keras.metrics.Metric):
    ...     def __init__(self):
    ...         super().__init__(name="largest")
    ...         self.seen = self.add_weight(name="seen", initializer="zeros")
    ...     def update_state(self, values):
    ...         self.seen.assign(tf.maximum(self.seen, tf.reduce_max(values)))
    ...     def result(self):
    ...         return self.seen.value()
    >>> float(Largest()(tf.constant([1.0, 5.0, 2.0])))
    5.0
    """

    def __init__(self, dtype: Any = None, name: str | None = None) -> None:
        self.name = name or type(self).__name__
        self.dtype = dtype
        self._variables: list[tuple[Variable, Any]] = []

    def add_weight(
        self, shape: Any = (), initializer: Any = "zeros", dtype: Any = None, name: str | None = None
    ) -> Variable:
        """A variable that `reset_state` sets back; also as ``add_weight(name, initializer=...)``."""
        from gtape.keras import initializers

        if isinstance(shape, str):
            shape, name = (), shape
        start = initializers.get(initializer)(shape, dtype=dtype)
        v = Variable(start, trainable=False, name=name)
        self._variables.append((v, start))
        return v

    add_variable = add_weight

    @property
    def variables(self) -> list[Variable]:
        """The state."""
        return [v for v, _ in self._variables]

    def reset_state(self) -> None:
        """Start again."""
        for v, start in self._variables:
            v.assign(start)

    def reset_states(self) -> None:
        """The older name of `reset_state`."""
        self.reset_state()

    def update_state(self, *args: Any, **kwargs: Any) -> Any:
        """Take a batch."""
        raise NotImplementedError(f"{type(self).__name__} must implement `update_state`")

    def result(self) -> Any:
        """The figure so far."""
        raise NotImplementedError(f"{type(self).__name__} must implement `result`")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """`update_state`, then `result`."""
        self.update_state(*args, **kwargs)
        return self.result()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name}>"


class _Sums(Metric):
    """A weighted sum and the sum of the weights."""

    def __init__(self, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(dtype, name)
        # float64, so that means over long runs do not stop growing.
        self.total = self.add_weight(name="total", dtype="float64")
        self.count = self.add_weight(name="count", dtype="float64")

    def take(self, values: Any, sample_weight: Any) -> None:
        values = _array(values).astype(np.float64)
        weights: Any = np.ones(()) if sample_weight is None else _array(sample_weight).astype(np.float64)
        if weights.ndim == values.ndim + 1 and weights.shape[-1] == 1:
            weights = weights[..., 0]
        if weights.ndim < values.ndim:
            weights = weights.reshape(*weights.shape, *[1] * (values.ndim - weights.ndim))
        weights = np.broadcast_to(weights, values.shape)
        self.total.assign_add(wrap(np.float64((values * weights).sum())))
        self.count.assign_add(wrap(np.float64(weights.sum())))

    def mean(self) -> float:
        count = float(self.count.numpy())
        return float(self.total.numpy()) / count if count else 0.0


class Mean(_Sums):
    """The mean of all values so far.

    Parameters
    ----------
    name : str
    dtype : dtype, optional

    Examples
    --------
    >>> import gtape as tf
    >>> loss = tf.keras.metrics.Mean()
    >>> loss.update_state([1.0, 3.0])
    >>> loss.update_state(8.0)
    >>> float(loss.result())
    4.0
    """

    def __init__(self, name: str = "mean", dtype: Any = None) -> None:
        super().__init__(name, dtype)

    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        """Take values, each with a weight."""
        self.take(values, sample_weight)

    def result(self) -> Tensor:
        """The mean; 0 before the first value."""
        return wrap(np.float32(self.mean()))


class Sum(_Sums):
    """The sum of all values so far.

    Parameters
    ----------
    name : str
    dtype : dtype, optional
        As for `Metric`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.Sum()([1.0, 3.0]))
    4.0
    """

    def __init__(self, name: str = "sum", dtype: Any = None) -> None:
        super().__init__(name, dtype)

    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        """Take values, each with a weight."""
        self.take(values, sample_weight)

    def result(self) -> Tensor:
        """The sum."""
        return wrap(np.float32(self.total.numpy()))


class MeanMetricWrapper(_Sums):
    """The mean of a function of labels and predictions.

    Parameters
    ----------
    fn : callable
        Takes labels and predictions, returns a figure for each sample.
    name : str, optional
    dtype : dtype, optional
    **kwargs
        Keyword arguments of `fn`.

    Examples
    --------
    >>> import gtape as tf
    >>> metric = tf.keras.metrics.MeanMetricWrapper(tf.keras.losses.mse)
    >>> float(metric([[1.0]], [[3.0]]))
    4.0
    """

    def __init__(self, fn: Callable[..., Any], name: str | None = None, dtype: Any = None, **kwargs: Any) -> None:
        super().__init__(name or getattr(fn, "__name__", None), dtype)
        self._fn, self._options = fn, kwargs

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take labels and predictions of a batch."""
        # As arrays: a figure for the log is no part of any tape's program.
        self.take(self._fn(_array(y_true), _array(y_pred), **self._options), sample_weight)

    def result(self) -> Tensor:
        """The mean; 0 before the first batch."""
        return wrap(np.float32(self.mean()))

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The metric with these settings."""
        return cls(**config)


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


class MeanSquaredError(MeanMetricWrapper):
    """The mean of squared errors.

    Parameters
    ----------
    name : str
    dtype : dtype, optional
        As for `Metric`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.MeanSquaredError()([[1.0]], [[3.0]]))
    4.0
    """

    def __init__(self, name: str = "mean_squared_error", dtype: Any = None) -> None:
        super().__init__(loss_functions.mean_squared_error, name, dtype)


class RootMeanSquaredError(MeanMetricWrapper):
    """The root of the mean of squared errors.

    Parameters
    ----------
    name : str
    dtype : dtype, optional
        As for `Metric`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.RootMeanSquaredError()([[0.0], [0.0]], [[2.0], [2.0]]))
    2.0
    """

    def __init__(self, name: str = "root_mean_squared_error", dtype: Any = None) -> None:
        super().__init__(loss_functions.mean_squared_error, name, dtype)

    def result(self) -> Tensor:
        """The root of the mean; 0 before the first batch."""
        return wrap(np.float32(np.sqrt(self.mean())))


class MeanAbsoluteError(MeanMetricWrapper):
    """The mean of absolute errors.

    Parameters
    ----------
    name : str
    dtype : dtype, optional
        As for `Metric`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.MeanAbsoluteError()([[1.0]], [[3.0]]))
    2.0
    """

    def __init__(self, name: str = "mean_absolute_error", dtype: Any = None) -> None:
        super().__init__(loss_functions.mean_absolute_error, name, dtype)


class KLDivergence(MeanMetricWrapper):
    """The mean Kullback-Leibler divergence.

    Parameters
    ----------
    name : str
    dtype : dtype, optional
        As for `Metric`.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.KLDivergence()([[0.5, 0.5]], [[0.5, 0.5]]))
    0.0
    """

    def __init__(self, name: str = "kl_divergence", dtype: Any = None) -> None:
        super().__init__(loss_functions.kl_divergence, name, dtype)


class CosineSimilarity(MeanMetricWrapper):
    """The mean cosine of the angle between labels and predictions; 1 is the best value, unlike for the loss.

    Parameters
    ----------
    name : str
    dtype : dtype, optional
        As for `Metric`.
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


class BinaryCrossentropy(MeanMetricWrapper):
    """The mean binary cross-entropy.

    Parameters
    ----------
    name : str
    dtype : dtype, optional
        As for `Metric`.
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
    name : str
    dtype : dtype, optional
        As for `Metric`.
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
    name : str
    dtype : dtype, optional
        As for `Metric`.
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


_KNOWN: dict[str, Any] = {
    **{name: globals()[name] for name in __all__ if name not in ("Metric", "MeanMetricWrapper", "get")},
    "accuracy": Accuracy, "mse": MeanSquaredError, "mae": MeanAbsoluteError,
}  # fmt: skip


def get(identifier: Any) -> Callable[..., Any] | None:
    """A metric by its name; a metric, which is returned; or None.

    Parameters
    ----------
    identifier : str, dict or callable

    Returns
    -------
    callable

    Raises
    ------
    ValueError
        For an unknown name.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.get("Mean")([1.0, 3.0]))
    2.0
    """
    return None if identifier is None else by_name(identifier, _KNOWN, "metric", make=True)
