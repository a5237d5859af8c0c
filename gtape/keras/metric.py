"""The base class of metrics, and means and sums over batches. Metrics are for logs and are not differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.base.escaping import plain
from gtape.base.quiet import quiet
from gtape.base.shown import shown
from gtape.keras import loss_functions
from gtape.keras.lookup import FromConfig
from gtape.tensors import argument_checks as checks
from gtape.tensors.tensor import Tensor, number_read, read_from_variables, wrap
from gtape.tensors.variable import Variable

__all__ = ["Mean", "MeanMetricWrapper", "Metric", "Sum", "Sums", "array_of"]


def array_of(x: Any, owner: Any = "a metric", name: str = "values") -> Any:
    """The values of a tensor, array or list of numbers."""
    found = np.asarray(number_read(checks.tensor(owner, name, x), kept=True))
    if found.dtype.kind not in "biufcV":
        raise ValueError(f"{checks.owner_of(owner)}: `{name}` must be numbers. Received: {name}={shown(x)}")
    return found


def reals_of(x: Any, owner: Any, name: str) -> Any:
    """The values of a tensor, array or list of real numbers, in float64."""
    found = array_of(x, owner, name)
    if found.dtype.kind == "c":
        raise ValueError(f"{checks.owner_of(owner)}: `{name}` must be real numbers. Received: {name}={shown(x)}")
    with np.errstate(all="ignore"):
        return found.astype(np.float64)


def spread(weights: Any, shape: tuple[int, ...], owner: Any) -> Any:
    """The weights of samples, broadcast to a weight for each value."""
    try:
        return np.broadcast_to(weights, shape)
    except ValueError:
        raise ValueError(
            f"{checks.owner_of(owner)}: `sample_weight` of shape {weights.shape} does not go with values of shape "
            f"{shape}"
        ) from None


class Metric:
    """Base class of metrics: `update_state` adds a batch, `result` returns the metric, `reset_state` starts again.

    Calling a metric updates it and returns the result.

    Parameters
    ----------
    dtype : dtype, optional
        The dtype of results of means and sums, float32 by default. Their state is always float64.
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
        self.name = checks.name_of(self, name, type(self).__name__)
        self.dtype = None if dtype is None else checks.dtype(self, dtype)
        self._variables: list[tuple[Variable, Any]] = []

    def add_weight(
        self, shape: Any = (), initializer: Any = "zeros", dtype: Any = None, name: str | None = None
    ) -> Variable:
        """A variable that `reset_state` resets; ``add_weight(name, initializer=...)`` works too."""
        from gtape.keras import initializers

        if isinstance(shape, str):
            shape, name = (), shape
        start = initializers.initial(self, initializer, shape, dtype)
        v = Variable(start, trainable=False, name=None if name is None else checks.text(self, "name", name))
        self._variables.append((v, start))
        return v

    add_variable = add_weight

    @property
    def variables(self) -> list[Variable]:
        """The metric's variables."""
        return [v for v, _ in self._variables]

    def reset_state(self) -> None:
        """Reset all variables of the metric."""
        for v, start in self._variables:
            v.assign(start)

    def reset_states(self) -> None:
        """The older name of `reset_state`."""
        self.reset_state()

    def update_state(self, *args: Any, **kwargs: Any) -> Any:
        """Add the numbers of a batch."""
        raise NotImplementedError(f"{type(self).__name__} must implement `update_state`")

    def result(self) -> Any:
        """The metric of all batches so far."""
        raise NotImplementedError(f"{type(self).__name__} must implement `result`")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Update the state and return the result."""
        self.update_state(*args, **kwargs)
        return self.result()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={plain(self.name)}>"


class Sums(Metric):
    """A weighted sum and the sum of the weights."""

    def __init__(self, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(dtype, name)
        # float64, because float32 sums stop growing in long runs.
        self.total = self.add_weight(name="total", dtype="float64")
        self.count = self.add_weight(name="count", dtype="float64")

    def _take(self, values: Any, sample_weight: Any) -> None:
        values = reals_of(values, self, "values")
        weights: Any = np.ones(()) if sample_weight is None else reals_of(sample_weight, self, "sample_weight")
        if weights.ndim == values.ndim + 1 and weights.shape[-1] == 1:
            weights = weights[..., 0]
        if weights.ndim < values.ndim:
            weights = weights.reshape(*weights.shape, *[1] * (values.ndim - weights.ndim))
        weights = spread(weights, values.shape, self)
        with np.errstate(all="ignore"):  # because weights may be infinite
            total, count = (values * weights).sum(), weights.sum()
        self.total.assign_add(wrap(np.float64(total)))
        self.count.assign_add(wrap(np.float64(count)))

    def _mean(self) -> float:
        count = float(self.count.numpy())
        return float(self.total.numpy()) / count if count else 0.0

    def _result(self, number: Any) -> Tensor:
        """A result in the metric's dtype."""
        kind = np.dtype(np.float32) if self.dtype is None else self.dtype
        return read_from_variables(wrap(kind.type(number)))

    @quiet
    def result(self) -> Tensor:
        """The mean; 0 before the first value."""
        return self._result(self._mean())


class Mean(Sums):
    """The mean of all values so far.

    Parameters
    ----------
    name, dtype : as for `Metric`

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
        """Add values, each with its weight."""
        self._take(values, sample_weight)


class Sum(Sums):
    """The sum of all values so far.

    Parameters
    ----------
    name, dtype : as for `Metric`

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.keras.metrics.Sum()([1.0, 3.0]))
    4.0
    """

    def __init__(self, name: str = "sum", dtype: Any = None) -> None:
        super().__init__(name, dtype)

    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        """Add values, each with its weight."""
        self._take(values, sample_weight)

    @quiet
    def result(self) -> Tensor:
        """The sum."""
        return self._result(self.total.numpy())


class MeanMetricWrapper(Sums, FromConfig):
    """The mean of a function of labels and predictions.

    Parameters
    ----------
    fn : callable
        A function of labels and predictions that returns a number for each sample.
    name, dtype : as for `Metric`
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
        checks.function(self, "fn", fn)
        super().__init__(getattr(fn, "__name__", None) if name is None else name, dtype)
        self._fn, self._options = fn, kwargs
        if str(getattr(fn, "__module__", None)).startswith("gtape."):
            self._options = loss_functions.checked(self, **kwargs)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Add the labels and predictions of a batch."""
        # Arrays instead of tensors, so that tapes do not record metrics.
        true, predicted = array_of(y_true, self, "y_true"), array_of(y_pred, self, "y_pred")
        self._take(self._fn(true, predicted, **self._options), sample_weight)
