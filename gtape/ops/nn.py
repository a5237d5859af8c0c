"""Losses and layers of neural networks under TensorFlow's names; activations live in `gtape.ops.activation`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gtape import errors
from gtape.operands import float_operand, operands
from gtape.ops.axes import axes_of
from gtape.ops.broadcasting import broadcast_to_op
from gtape.ops.pairs import add_pairs, log_pair, two_sum, wide
from gtape.ops.shape import reshape_op
from gtape.ops.softmax import cross_entropy_op, log_softmax_op, softmax_op
from gtape.ops.sums import sum_op
from gtape.primitive import REGISTRY, elementwise
from gtape.tensor import Tensor, convert_to_tensor, wrap

__all__ = [
    "bias_add", "embedding_lookup", "l2_loss", "l2_normalize", "log_softmax", "moments",
    "sigmoid_cross_entropy_with_logits", "softmax", "softmax_cross_entropy_with_logits",
    "sparse_softmax_cross_entropy_with_logits", "weighted_cross_entropy_with_logits",
]  # fmt: skip


# ---------------------------------------------------------------------------------------------- binary cross-entropy


def _tails(x: Any) -> tuple[Any, Any]:
    """sigmoid(x) and sigmoid(-x), each without cancellation."""
    e = np.exp(-np.abs(x))
    big, small = 1 / (1 + e), e / (1 + e)
    return np.where(x >= 0, big, small), np.where(x >= 0, small, big)


@wide
def _sigmoid_error(z: Any, x: Any) -> Any:
    up, down = _tails(x)
    out = (1 - z) * up - z * down
    inside = (z > 0) & (z < 1) & np.isfinite(x)
    if np.any(inside):
        # The two terms cancel beside the root x = log(z / (1 - z)). With d = x - root the difference is
        # z (1 - z) expm1(d) / (1 + z expm1(d)), which keeps its digits if d does: logarithms as pairs.
        z, x = np.where(inside, z, 0.5), np.where(inside, x, 0.0)
        rest, low = two_sum(1.0, -z)
        a, b = log_pair(z), log_pair(rest)
        root = add_pairs(a, (-b[0], -(b[1] + low / rest)))
        d, tail = two_sum(x, -root[0])
        d = d + (tail - root[1])
        m, e = np.expm1(-np.abs(d)), np.exp(-np.abs(d))
        below = z * rest * m / (rest + z * e)
        above = -z * rest * m / (e - z * m)
        # further from the root nothing cancels, and the exponential would lose what d lost
        out = np.where(inside & (np.abs(d) < 1), np.where(d < 0, below, above), out)
    return out


def _sigmoid_cross_entropy(z: Any, x: Any) -> Any:
    dtype = x.dtype
    if dtype == np.float32:  # for labels outside [0, 1] the terms cancel, where float32 has nothing to spare
        z, x = z.astype(np.float64), x.astype(np.float64)
    log = np.log1p(np.exp(-np.abs(x)))
    up, down = np.maximum(x, 0) + log, np.maximum(-x, 0) + log  # softplus(x), softplus(-x)
    # The same number three ways: softplus(x) - x z, each without cancellation where it is used.
    inside = (1 - z) * np.where(z == 1, 0, up) + z * np.where(z == 0, 0, down)
    return np.where(z < 0, up - x * z, np.where(z > 1, down - x * (z - 1), inside)).astype(dtype)


sigmoid_error = elementwise(
    "sigmoid_error",
    _sigmoid_error,
    (-1, lambda xp, y, z, x: xp.sigmoid_slope(x)),
    special=(0.0, 1.0),
    ulps=4.0,
    summary="sigmoid(x) - z.",
    public=False,
)

_sigmoid_cross_entropy_primitive = elementwise(
    "sigmoid_cross_entropy",
    _sigmoid_cross_entropy,
    (lambda xp, y, z, x: -x, lambda xp, y, z, x: xp.sigmoid_error(z, x)),
    special=(0.0, 1.0),
    ulps=4.0,
    summary="Cross-entropy of a label z and a logit x: softplus(x) - x z.",
    public=False,
)


# ---------------------------------------------------------------------------------------------- softmax and its losses


def _logits(x: Any, axis: Any, op: str) -> tuple[Tensor, int]:
    """A float tensor and an axis of it, counted from the end."""
    x = float_operand(x, op)
    return x, _axis(-1 if axis is None else axis, len(x._aval.shape), op)


def _axis(axis: Any, n: int, op: str) -> int:
    at = int(axis)
    if not -n <= at < n:
        raise errors.InvalidArgumentError(f"{op}: axis {at} is out of range for a tensor with {n} axes")
    return at if at < 0 else at - n


def softmax(logits: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """``exp(logits) / sum(exp(logits))`` along an axis.

    Parameters
    ----------
    logits : tensor of floats, one axis at least
    axis : int, optional
        The last one by default.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor, shape of `logits`

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When `axis` is out of range.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.nn.softmax([0.0, 0.0]).numpy()
    array([0.5, 0.5], dtype=float32)
    """
    x, axis = _logits(logits, axis, "softmax")
    return softmax_op(x, axis=axis)


def log_softmax(logits: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """Logarithm of `softmax`, accurate where that is nearly 0 or nearly 1.

    Parameters
    ----------
    logits : tensor of floats, one axis at least
    axis : int, optional
        The last one by default.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor, shape of `logits`

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When `axis` is out of range.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.nn.log_softmax([0.0, 1000.0]).numpy()
    array([-1000.,     0.], dtype=float32)
    """
    x, axis = _logits(logits, axis, "log_softmax")
    return log_softmax_op(x, axis=axis)


def softmax_cross_entropy_with_logits(labels: Any, logits: Any, axis: int = -1, name: str | None = None) -> Tensor:
    """Cross-entropy between label distributions and ``softmax(logits)``; differentiable in both.

    Parameters
    ----------
    labels : tensor
        A weight for each class; for a distribution they add up to 1, which is not checked.
    logits : tensor of floats
        Of the shape of `labels`, or one that broadcasts with it.
    axis : int
        Where the classes are.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor
        The shape of `logits` without `axis`.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When the shapes do not fit or `axis` is out of range.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.nn.softmax_cross_entropy_with_logits([[0.0, 1.0]], [[1000.0, 0.0]]).numpy()
    array([1000.], dtype=float32)
    """
    labels, logits = _labels_like(labels, logits)
    if labels._aval.shape != logits._aval.shape:
        try:
            shape = np.broadcast_shapes(labels._aval.shape, logits._aval.shape)
        except ValueError:
            raise errors.InvalidArgumentError(
                f"softmax_cross_entropy_with_logits: logits and labels must be broadcastable: "
                f"logits_size={logits._aval.tensor_shape} "
                f"labels_size={labels._aval.tensor_shape}"
            ) from None
        labels = labels if labels._aval.shape == shape else broadcast_to_op(labels, shape=shape)
        logits = logits if logits._aval.shape == shape else broadcast_to_op(logits, shape=shape)
    logits, axis = _logits(logits, axis, "softmax_cross_entropy_with_logits")
    return cross_entropy_op(labels, logits, axis=axis)


def _labels_like(labels: Any, logits: Any) -> tuple[Tensor, Tensor]:
    """Both as tensors; labels of another dtype (integers, mostly) are cast to that of the logits."""
    logits, labels = operands(logits, labels)
    if labels._aval.dtype != logits._aval.dtype and logits._aval.inexact:
        labels = REGISTRY["cast"](labels, dtype=logits._aval.dtype)
    return labels, logits


def sparse_softmax_cross_entropy_with_logits(labels: Any, logits: Any, name: str | None = None) -> Tensor:
    """Cross-entropy between class numbers and ``softmax(logits)``.

    Parameters
    ----------
    labels : integer tensor, shape [...]
        The class of each row.
    logits : tensor of floats, shape [..., classes]
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor, shape [...]

    Raises
    ------
    ValueError
        When the shapes do not fit.
    gtape.errors.InvalidArgumentError
        When a label is not an integer from 0 to classes - 1.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.nn.sparse_softmax_cross_entropy_with_logits([1], [[1000.0, 0.0]]).numpy()
    array([1000.], dtype=float32)
    """
    op = "sparse_softmax_cross_entropy_with_logits"
    x, axis = _logits(logits, -1, op)
    k = convert_to_tensor(labels)
    if k._aval.dtype.kind not in "iu":
        raise errors.InvalidArgumentError(
            f"{op}: labels must be integers, not {k.dtype.name}; use softmax_cross_entropy_with_logits for "
            f"probabilities"
        )
    if k._aval.shape != x._aval.shape[:-1]:
        raise ValueError(
            f"`labels.shape` must equal `logits.shape` except for the last dimension. Received: "
            f"labels.shape={k._aval.tensor_shape} and logits.shape={x._aval.tensor_shape}"
        )
    n = x._aval.shape[-1]
    index = np.asarray(k._value)
    if index.size and (index.min() < 0 or index.max() >= n):
        wrong = index[(index < 0) | (index >= n)].flat[0]
        raise errors.InvalidArgumentError(
            f"{op}: Received a label value of {wrong} which is outside the valid range of [0, {n})."
        )
    chosen = (index[..., None] == np.arange(n)).astype(x._aval.dtype)
    return cross_entropy_op(chosen, x, axis=axis)


def _same_shape(labels: Tensor, logits: Tensor) -> None:
    if labels._aval.shape != logits._aval.shape:
        raise ValueError(
            f"`logits` and `labels` must have the same shape, received ({logits._aval.tensor_shape} vs "
            f"{labels._aval.tensor_shape})."
        )


def sigmoid_cross_entropy_with_logits(labels: Any = None, logits: Any = None, name: str | None = None) -> Tensor:
    """Cross-entropy between probabilities and ``sigmoid(logits)``, elementwise; differentiable in both.

    Parameters
    ----------
    labels : tensor
        From 0 to 1, which is not checked.
    logits : tensor of floats
        Of the same shape and dtype.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor, shape of `logits`

    Raises
    ------
    ValueError
        When an argument is missing or the shapes differ.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.nn.sigmoid_cross_entropy_with_logits([1.0, 0.0], [1000.0, 1000.0]).numpy()
    array([   0., 1000.], dtype=float32)
    """
    if labels is None or logits is None:
        raise ValueError("Both `labels` and `logits` must be provided.")
    x, z = operands(logits, labels)
    _same_shape(z, x)
    return _sigmoid_cross_entropy_primitive(z, x)


def weighted_cross_entropy_with_logits(labels: Any, logits: Any, pos_weight: Any, name: str | None = None) -> Tensor:
    """`sigmoid_cross_entropy_with_logits` with the positive class weighted.

    Parameters
    ----------
    labels : tensor
    logits : tensor of floats
        Of the same shape and dtype.
    pos_weight : tensor or number
        Factor of the term that belongs to the labels.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor, shape of `logits`

    Raises
    ------
    ValueError
        When the shapes differ.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.nn.weighted_cross_entropy_with_logits([1.0], [-1000.0], 2.0).numpy()
    array([2000.], dtype=float32)
    """
    x, z, q = operands(logits, labels, pos_weight)
    _same_shape(z, x)
    add, multiply, subtract, softplus = (REGISTRY[name] for name in ("add", "multiply", "subtract", "softplus"))
    negative_class = multiply(subtract(1.0, z), softplus(x))
    return add(negative_class, multiply(multiply(q, z), softplus(REGISTRY["negative"](x))))


# ---------------------------------------------------------------------------------------------- layers and norms


def l2_loss(t: Any, name: str | None = None) -> Tensor:
    """Half the sum of squares, ``sum(t ** 2) / 2``.

    Parameters
    ----------
    t : tensor of floats
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor, scalar

    Raises
    ------
    gtape.errors.InvalidArgumentError
        For integers and complex numbers.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.nn.l2_loss([3.0, 4.0]).numpy()
    np.float32(12.5)
    """
    x = convert_to_tensor(t)
    if not x._aval.inexact or x._aval.complex:
        raise errors.InvalidArgumentError(f"l2_loss needs a tensor of floats, not {x.dtype.name}: use gtape.cast first")
    return sum_op(REGISTRY["square"](x), axis=tuple(range(len(x._aval.shape))), keepdims=False) / 2


def bias_add(value: Any, bias: Any, data_format: str | None = None, name: str | None = None) -> Tensor:
    """Add a vector along the axis of the channels.

    Parameters
    ----------
    value : tensor, two axes at least
    bias : tensor, shape [channels]
        Of the dtype of `value`.
    data_format : str, optional
        ``"N...C"`` (the channels come last; the default) or ``"NC..."`` (they come second).
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor, shape of `value`

    Raises
    ------
    ValueError
        For another `data_format`.
    gtape.errors.InvalidArgumentError
        When the shapes do not fit.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.nn.bias_add([[1.0, 2.0]], [10.0, 20.0]).numpy()
    array([[11., 22.]], dtype=float32)
    """
    second = data_format is not None and data_format.startswith("NC")
    if data_format is not None and not second and not (data_format.startswith("N") and data_format.endswith("C")):
        raise ValueError(f"`data_format` must be of the form `N...C` or `NC...`. Received: data_format={data_format}")
    x, b = operands(value, bias)
    shape = x._aval.shape
    if len(shape) < 2 or len(b._aval.shape) != 1 or b._aval.shape[0] != shape[1 if second else -1]:
        raise errors.InvalidArgumentError(
            f"bias_add: a bias of shape {b._aval.tensor_shape} does not fit a value of shape {x._aval.tensor_shape}: "
            f"it must be a vector with one element for each channel (axis {1 if second else -1})"
        )
    if second and len(shape) > 2:
        b = reshape_op(b, shape=(shape[1],) + (1,) * (len(shape) - 2))
    return REGISTRY["add"](x, b)


def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None) -> Tensor:
    """``x / sqrt(max(sum(x ** 2), epsilon))`` along some axes, without overflow.

    Parameters
    ----------
    x : tensor of floats or complex numbers
    axis : int or sequence of int, optional
        All axes by default.
    epsilon : float
        Lower bound of the sum of squares.
    name : str, optional
        Ignored; TensorFlow has it.
    dim : int or sequence of int, optional
        TensorFlow's old name of `axis`.

    Returns
    -------
    Tensor, shape of `x`

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When an axis is out of range.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.nn.l2_normalize([3.0, 4.0]).numpy()
    array([0.6, 0.8], dtype=float32)
    """
    from gtape.ops.sums import reduce_sum

    t = convert_to_tensor(x)
    along = dim if axis is None else axis
    if t._aval.dtype.kind != "f":
        total = reduce_sum(REGISTRY["square"](REGISTRY["abs"](t)), axis=along, keepdims=True)
        scale = REGISTRY["rsqrt"](REGISTRY["maximum"](total, epsilon))
        return t * REGISTRY["cast"](scale, dtype=t._aval.dtype)
    axes = axes_of(along, len(t._aval.shape))
    least = math.sqrt(epsilon)
    length = REGISTRY["norm"](wrap(t._value), axis=axes, keepdims=True)
    long = np.broadcast_to(np.asarray(length._value) >= least, t._aval.shape)
    if long.all():
        return REGISTRY["unit_vector"](t, axis=axes)
    return REGISTRY["where"](wrap(long), REGISTRY["unit_vector"](t, axis=axes), t / least)


def moments(
    x: Any, axes: Any, shift: Any = None, keepdims: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Mean and variance over some axes.

    Parameters
    ----------
    x : tensor of floats
    axes : int or sequence of int
    shift : object, optional
        Ignored, as in TensorFlow.
    keepdims : bool
        Keep the axes, with size 1.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    mean, variance : Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When an axis is out of range.

    Examples
    --------
    >>> import gtape as tf
    >>> mean, variance = tf.nn.moments(tf.constant([1.0, 3.0]), axes=[0])
    >>> mean.numpy(), variance.numpy()
    (np.float32(2.0), np.float32(1.0))
    """
    from gtape.ops.moments import reduce_variance
    from gtape.ops.sums import reduce_mean

    t = convert_to_tensor(x)
    return reduce_mean(t, axis=axes, keepdims=keepdims), reduce_variance(t, axis=axes, keepdims=keepdims)


def embedding_lookup(params: Any, ids: Any, max_norm: float | None = None, name: str | None = None) -> Tensor:
    """Rows of a table.

    Parameters
    ----------
    params : tensor or variable, shape [rows, ...]
    ids : integer tensor
    max_norm : float, optional
        Rows longer than this are scaled down to it.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor, shape of `ids` followed by that of a row

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When an id is out of range.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.nn.embedding_lookup(tf.constant([[1.0], [2.0]]), [1, 1, 0]).numpy()
    array([[2.],
           [2.],
           [1.]], dtype=float32)
    """
    from gtape.ops.gather import gather

    rows = gather(params, ids)
    if max_norm is None:
        return rows
    from gtape.ops.sums import reduce_sum

    n = len(rows._aval.shape)
    first = len(convert_to_tensor(ids)._aval.shape)
    total = reduce_sum(REGISTRY["square"](rows), axis=list(range(first, n)), keepdims=True)
    return rows * (max_norm * REGISTRY["rsqrt"](REGISTRY["maximum"](total, max_norm * max_norm)))
