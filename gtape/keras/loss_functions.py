"""Losses as functions of labels and predictions. They return a number for each sample.

Labels are cast to the predictions' dtype. Probabilities are clipped to [epsilon, 1 - epsilon] before their logarithm is
taken, with `gtape.keras.backend.epsilon`. Prefer `from_logits=True`, because logits need no clipping, so that the tails
are exact.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

import gtape
from gtape.declare.conventions import ENTROPIES, ITS_TANGENTS_TOO, LESS_INFINITY, RATIOS, Noted, OfArrays, conventional
from gtape.keras.backend import epsilon, float_dtype
from gtape.tensors import argument_checks as checks
from gtape.tensors.axes import one_axis
from gtape.tensors.tensor import Tensor, convert_to_tensor

__all__ = [
    "KLD", "MAE", "MAPE", "MSE", "MSLE", "bce", "binary_crossentropy", "categorical_crossentropy",
    "categorical_hinge", "cosine_similarity", "hinge", "huber", "kl_divergence", "kld",
    "kullback_leibler_divergence", "log_cosh", "logcosh", "mae", "mape", "mean_absolute_error",
    "mean_absolute_percentage_error", "mean_squared_error", "mean_squared_logarithmic_error", "mse", "msle",
    "poisson", "sparse_categorical_crossentropy", "squared_hinge",
]  # fmt: skip


_Loss = TypeVar("_Loss", bound=Callable[..., Tensor])

_SECTIONS = """Parameters
----------
y_true, y_pred : tensor, shape [..., n]

Returns
-------
Tensor, shape [...]

"""


def floats(x: Any, dtype: Any = None) -> Tensor:
    """A tensor of `dtype`. The default is the tensor's own float type, or `floatx`."""
    if dtype is not None and isinstance(x, (float, int, list, tuple)) and not isinstance(x, bool):
        with contextlib.suppress(TypeError, ValueError):  # lists of tensors or booleans are cast below
            return convert_to_tensor(x, float_dtype(dtype))
    t = checks.tensor("a loss", "y", x)
    wanted = float_dtype(dtype) if dtype is not None or t._layout.dtype.kind not in "fV" else t._layout.dtype
    return t if t._layout.dtype == wanted else gtape.cast(t, wanted)


def checked(owner: Any, **options: Any) -> dict[str, Any]:
    """The settings of a loss or metric. ValueError for a wrong value, TypeError for an unknown setting."""
    unknown = sorted(options.keys() - _READERS.keys())
    if unknown:
        raise TypeError(f"{checks.owner_of(owner)} got unexpected keyword arguments: {', '.join(unknown)}")
    return {name: _READERS[name](owner, name, value) for name, value in options.items()}


def _share(owner: Any, name: str, value: Any) -> float:
    return checks.number(owner, name, value, lambda v: 0 <= v <= 1, "must be a float in [0, 1]")


_READERS: dict[str, Callable[..., Any]] = {
    "axis": checks.whole, "delta": checks.number, "from_logits": checks.flag, "label_smoothing": _share,
    "ignore_class": lambda owner, name, value: None if value is None else checks.whole(owner, name, value),
    "k": lambda owner, name, value: checks.whole(owner, name, value, least=1), "threshold": checks.number,
}  # fmt: skip


def same_rank(y_true: Tensor, y_pred: Tensor) -> tuple[Tensor, Tensor]:
    """Two tensors with the same number of axes. One may have had an additional last axis of size 1."""
    a, b = y_true._layout.shape, y_pred._layout.shape
    if len(a) == len(b) + 1 and a[-1] == 1:
        return (y_true, gtape.expand_dims(y_pred, -1)) if len(b) == 1 else (gtape.squeeze(y_true, -1), y_pred)
    if len(b) == len(a) + 1 and b[-1] == 1:
        return (gtape.expand_dims(y_true, -1), y_pred) if len(a) == 1 else (y_true, gtape.squeeze(y_pred, -1))
    return y_true, y_pred


def both(y_true: Any, y_pred: Any) -> tuple[Tensor, Tensor]:
    y_pred = floats(y_pred)
    return same_rank(floats(y_true, y_pred.dtype), y_pred)


def _of_samples(function: _Loss) -> _Loss:
    """Decorate a loss of two float tensors of one rank. Completes its docstring with arguments and result."""

    @functools.wraps(function)
    def loss(y_true: Any, y_pred: Any) -> Tensor:
        return function(*both(y_true, y_pred))

    loss.__doc__ = inspect.cleandoc(function.__doc__ or "").replace("Examples\n", f"{_SECTIONS}Examples\n", 1)
    return loss  # type: ignore[return-value]


def _mean(x: Any, axis: Any = -1) -> Tensor:
    return gtape.reduce_mean(x, axis=axis)


@_of_samples
def mean_squared_error(y_true: Any, y_pred: Any) -> Tensor:
    """``mean((y_true - y_pred) ** 2)`` over the last axis.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.losses.mean_squared_error([[0.0, 1.0]], [[2.0, 1.0]]).numpy()
    array([2.], dtype=float32)
    """
    return _mean(gtape.math.squared_difference(y_true, y_pred))


@_of_samples
def mean_absolute_error(y_true: Any, y_pred: Any) -> Tensor:
    """``mean(|y_true - y_pred|)`` over the last axis; the gradient is 0 where both agree.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.losses.mean_absolute_error([[0.0, 1.0]], [[2.0, 1.0]]).numpy()
    array([1.], dtype=float32)
    """
    return _mean(gtape.abs(y_true - y_pred))


@conventional(RATIOS)
@_of_samples
def mean_absolute_percentage_error(y_true: Any, y_pred: Any) -> Tensor:
    """``100 * mean(|(y_true - y_pred) / y_true|)`` over the last axis; labels below epsilon count as epsilon.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.losses.mean_absolute_percentage_error([[2.0, 4.0]], [[1.0, 4.0]]).numpy()
    array([25.], dtype=float32)
    """
    return 100.0 * _mean(gtape.abs((y_true - y_pred) / gtape.maximum(gtape.abs(y_true), epsilon())))


@conventional(RATIOS)
@_of_samples
def mean_squared_logarithmic_error(y_true: Any, y_pred: Any) -> Tensor:
    """``mean((log(y_true + 1) - log(y_pred + 1)) ** 2)`` over the last axis; values below epsilon count as epsilon.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.losses.mean_squared_logarithmic_error([[1.0]], [[1.0]]).numpy()
    array([0.], dtype=float32)
    """
    true, predicted = [gtape.math.log1p(gtape.maximum(y, epsilon())) for y in (y_true, y_pred)]
    return _mean(gtape.math.squared_difference(true, predicted))


def huber(y_true: Any, y_pred: Any, delta: float = 1.0) -> Tensor:
    """Quadratic for errors up to `delta`, linear beyond; mean over the last axis.

    Parameters
    ----------
    y_true, y_pred : tensor, shape [..., n]
    delta : float

    Returns
    -------
    Tensor, shape [...]

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.losses.huber([[0.0, 0.0]], [[0.5, 3.0]]).numpy()
    array([1.3125], dtype=float32)
    """
    y_true, y_pred = both(y_true, y_pred)
    delta = checked("huber", delta=delta)["delta"]
    error = y_pred - y_true
    size = gtape.abs(error)
    return _mean(gtape.where(size <= delta, 0.5 * gtape.square(error), delta * size - 0.5 * delta * delta))


@_of_samples
def log_cosh(y_true: Any, y_pred: Any) -> Tensor:
    """``log(cosh(y_pred - y_true))``, mean over the last axis.

    Near 0 the formula is ``log1p(2 * sinh(x / 2) ** 2)``, because this keeps all digits of value and derivatives.

    Examples
    --------
    >>> import gtape as tf
    >>> print(f"{float(tf.keras.losses.log_cosh([0.0], [1e-10])):.1e}")
    5.0e-21
    """
    x = y_pred - y_true
    size = gtape.abs(x)
    near = gtape.math.log1p(2.0 * gtape.square(gtape.sinh(0.5 * gtape.clip_by_value(x, -1.0, 1.0))))
    far = size + gtape.nn.softplus(-2.0 * size) - math.log(2.0)
    return _mean(gtape.where(size < 1.0, near, far))


def _signs(y_true: Any) -> Any:
    """Labels 0 and 1 as -1 and 1. Other labels stay unchanged."""
    values = np.asarray(y_true._value)
    return 2.0 * y_true - 1.0 if ((values == 0) | (values == 1)).all() else y_true


@_of_samples
def hinge(y_true: Any, y_pred: Any) -> Tensor:
    """``mean(max(1 - y_true * y_pred, 0))`` over the last axis. Labels are -1 and 1, or 0 and 1.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.losses.hinge([[-1.0, 1.0]], [[0.5, 2.0]]).numpy()
    array([0.75], dtype=float32)
    """
    return _mean(gtape.maximum(1.0 - _signs(y_true) * y_pred, 0.0))


@_of_samples
def squared_hinge(y_true: Any, y_pred: Any) -> Tensor:
    """``mean(max(1 - y_true * y_pred, 0) ** 2)`` over the last axis. Labels are -1 and 1, or 0 and 1.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.losses.squared_hinge([[-1.0, 1.0]], [[0.5, 2.0]]).numpy()
    array([1.125], dtype=float32)
    """
    return _mean(gtape.square(gtape.maximum(1.0 - _signs(y_true) * y_pred, 0.0)))


_NO_MARGIN = "where both scores are infinite, the greater of their difference NaN and 0 has the derivative 0"


@conventional(LESS_INFINITY, ITS_TANGENTS_TOO, OfArrays("infinity", "derivative", "a number", _NO_MARGIN))
@_of_samples
def categorical_hinge(y_true: Any, y_pred: Any) -> Tensor:
    """``max(wrong - right + 1, 0)`` for the score of the right class and the best score of the other classes.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.losses.categorical_hinge([[0.0, 1.0]], [[0.75, 0.5]]).numpy()
    array([1.25], dtype=float32)
    """
    right = gtape.reduce_sum(y_true * y_pred, axis=-1)
    wrong = gtape.reduce_max((1.0 - y_true) * y_pred, axis=-1)
    return gtape.maximum(wrong - right + 1.0, 0.0)


@conventional(ENTROPIES)
@_of_samples
def kl_divergence(y_true: Any, y_pred: Any) -> Tensor:
    """``sum(y_true * log(y_true / y_pred))`` over the last axis, both clipped to [epsilon, 1].

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.losses.kl_divergence([[0.5, 0.5]], [[0.5, 0.5]]).numpy()
    array([0.], dtype=float32)
    """
    p, q = (gtape.clip_by_value(y, epsilon(), 1.0) for y in (y_true, y_pred))
    return gtape.reduce_sum(p * gtape.math.log(p / q), axis=-1)


@conventional(LESS_INFINITY)
@_of_samples
def poisson(y_true: Any, y_pred: Any) -> Tensor:
    """``mean(y_pred - y_true * log(y_pred + epsilon))`` over the last axis.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.losses.poisson([[0.0, 0.0]], [[1.0, 3.0]]).numpy()
    array([2.], dtype=float32)
    """
    return _mean(y_pred - y_true * gtape.math.log(y_pred + epsilon()))


def cosine_similarity(y_true: Any, y_pred: Any, axis: int = -1) -> Tensor:
    """Minus the cosine of the angle between labels and predictions, so that -1 is the best value.

    Parameters
    ----------
    y_true, y_pred : tensor of one shape
    axis : int
        The axis of the vectors.

    Returns
    -------
    Tensor, without `axis`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.losses.cosine_similarity([[3.0, 0.0]], [[2.0, 0.0]]).numpy()
    array([-1.], dtype=float32)
    """
    y_true, y_pred = both(y_true, y_pred)
    a, b = (gtape.nn.l2_normalize(y, axis=axis, epsilon=epsilon() ** 2) for y in (y_true, y_pred))
    return -gtape.reduce_sum(a * b, axis=axis)


def _inside(p: Any) -> Any:
    """Probabilities, clipped so that their logarithms are finite."""
    return gtape.clip_by_value(p, epsilon(), 1.0 - epsilon())


@conventional(ENTROPIES)
def binary_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1
) -> Tensor:
    """Cross-entropy between labels 0 and 1 and probabilities, mean over an axis.

    Parameters
    ----------
    y_true : tensor of labels or probabilities
    y_pred : tensor of probabilities or logits, of the same shape
    from_logits : bool
        True takes `y_pred` as logits.
    label_smoothing : float
        The fraction of the way that labels move towards 1/2.
    axis : int

    Returns
    -------
    Tensor

    Raises
    ------
    ValueError
        For different shapes.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.losses.binary_crossentropy([[1.0, 0.0]], [[1000.0, 1000.0]], from_logits=True).numpy()
    array([500.], dtype=float32)
    """
    y_true, y_pred = both(y_true, y_pred)
    from_logits, label_smoothing = checked(
        "binary_crossentropy", from_logits=from_logits, label_smoothing=label_smoothing
    ).values()
    if y_true._layout.shape != y_pred._layout.shape:
        raise ValueError(
            f"Arguments `target` and `output` must have the same shape. Received: target.shape={y_true.shape}, "
            f"output.shape={y_pred.shape}"
        )
    if label_smoothing:
        y_true = y_true * (1.0 - label_smoothing) + 0.5 * label_smoothing
    if from_logits:
        return _mean(gtape.nn.sigmoid_cross_entropy_with_logits(labels=y_true, logits=y_pred), axis)
    p = _inside(y_pred)
    return _mean(-(y_true * gtape.math.log(p) + (1.0 - y_true) * gtape.math.log1p(-p)), axis)


_NO_SHARE = Noted("beside a NaN prediction the loss is NaN; its derivatives by predictions are 0, as of clip_by_value")


@conventional(ENTROPIES, _NO_SHARE)
def categorical_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1
) -> Tensor:
    """Cross-entropy between distributions over classes.

    Parameters
    ----------
    y_true : tensor
        A distribution for each sample, often one-hot.
    y_pred : tensor of the same shape
        Probabilities, which are divided by their sum, or logits.
    from_logits : bool
        True takes `y_pred` as logits.
    label_smoothing : float
        The fraction of the way that labels move towards the uniform distribution.
    axis : int
        The axis of the classes.

    Returns
    -------
    Tensor, without `axis`

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.losses.categorical_crossentropy([[0.0, 1.0]], [[1000.0, 0.0]], from_logits=True).numpy()
    array([1000.], dtype=float32)
    """
    y_pred = floats(y_pred)
    y_true = floats(y_true, y_pred.dtype)
    from_logits, label_smoothing = checked(
        "categorical_crossentropy", from_logits=from_logits, label_smoothing=label_smoothing
    ).values()
    if y_true._layout.shape != y_pred._layout.shape:
        raise ValueError(
            f"Arguments `target` and `output` must have the same shape. Received: target.shape={y_true.shape}, "
            f"output.shape={y_pred.shape}; for class numbers there is sparse_categorical_crossentropy"
        )
    axis = one_axis(axis, len(y_pred._layout.shape))
    if label_smoothing:
        y_true = y_true * (1.0 - label_smoothing) + label_smoothing / max(y_pred._layout.shape[axis], 1)
    if from_logits:
        return gtape.nn.softmax_cross_entropy_with_logits(labels=y_true, logits=y_pred, axis=axis)
    p = _inside(y_pred / gtape.reduce_sum(y_pred, axis=axis, keepdims=True))
    return -gtape.reduce_sum(y_true * gtape.math.log(p), axis=axis)


def sparse_categorical_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, ignore_class: int | None = None, axis: int = -1
) -> Tensor:
    """Cross-entropy between class numbers and distributions over classes.

    Parameters
    ----------
    y_true : integer tensor, shape [...] or [..., 1]
    y_pred : tensor, shape [..., classes]
        Probabilities or logits.
    from_logits : bool
        True takes `y_pred` as logits.
    ignore_class : int, optional
        The loss of samples with this label is 0.
    axis : int
        The axis of the classes.

    Returns
    -------
    Tensor, shape [...]

    Raises
    ------
    ValueError
        If the shapes do not fit.
    gtape.errors.InvalidArgumentError
        For a label outside the classes.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.losses.sparse_categorical_crossentropy([1], [[0.0, 1000.0]], from_logits=True).numpy()
    array([0.], dtype=float32)
    """
    logits = floats(y_pred)
    labels = gtape.cast(checks.tensor("sparse_categorical_crossentropy", "y_true", y_true), gtape.int64)
    n = len(logits._layout.shape)
    axis = one_axis(axis, n)
    from_logits, ignore_class = checked(
        "sparse_categorical_crossentropy", from_logits=from_logits, ignore_class=ignore_class
    ).values()
    if len(labels._layout.shape) == n and labels._layout.shape[axis] == 1:
        labels = gtape.squeeze(labels, axis)
    if not from_logits:
        logits = gtape.math.log(_inside(logits))
    if axis != n - 1:
        logits = gtape.transpose(logits, [i for i in range(n) if i != axis] + [axis])
    if ignore_class is None:
        return gtape.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    valid = gtape.not_equal(labels, ignore_class)
    labels = gtape.where(valid, labels, gtape.zeros_like(labels))
    losses = gtape.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return gtape.where(valid, losses, gtape.zeros_like(losses))


# Second names in Keras.
mse = MSE = mean_squared_error
mae = MAE = mean_absolute_error
mape = MAPE = mean_absolute_percentage_error
msle = MSLE = mean_squared_logarithmic_error
kld = KLD = kullback_leibler_divergence = kl_divergence
bce = binary_crossentropy
logcosh = log_cosh
