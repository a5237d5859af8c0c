"""Cross-entropies of logits, for binary labels and for classes, under TensorFlow's names."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gtape import errors
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.declare.conventions import ENTROPIES, SUMMED, conventional
from gtape.declare.primitives import REGISTRY, elementwise
from gtape.kernels.pairs import add_pairs, log_pair, two_sum, wide
from gtape.ops.nn.softmax import cross_entropy_op, logits_and_axis
from gtape.ops.shape.broadcasting import broadcast_to_op
from gtape.ops.shape.decisions import checked, decided
from gtape.ops.shape.spatial import reshaped
from gtape.tensors.operands import operands
from gtape.tensors.tensor import Tensor, convert_to_tensor

__all__ = [
    "sigmoid_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits",
    "sparse_softmax_cross_entropy_with_logits",
    "weighted_cross_entropy_with_logits",
]


def _tails(x: Any) -> tuple[Any, Any]:
    """The values sigmoid(x) and sigmoid(-x), each without cancellation."""
    e = np.exp(-np.abs(x))
    big, small = 1 / (1 + e), e / (1 + e)
    return np.where(x >= 0, big, small), np.where(x >= 0, small, big)


@wide
def _sigmoid_error(z: Any, x: Any) -> Any:
    up, down = _tails(x)
    out = (1 - z) * up - z * down
    inside = (z > 0) & (z < 1) & np.isfinite(x)
    if np.any(inside):
        # The terms cancel near the root x = log(z / (1 - z)). With d = x - root, from logarithms as pairs, the
        # difference is z (1 - z) expm1(d) / (1 + z expm1(d)). This form keeps its digits.
        z, x = np.where(inside, z, 0.5), np.where(inside, x, 0.0)
        rest, low = two_sum(1.0, -z)
        a, b = log_pair(z), log_pair(rest)
        root = add_pairs(a, (-b[0], -(b[1] + low / rest)))
        d, tail = two_sum(x, -root[0])
        d = d + (tail - root[1])
        m, e = np.expm1(-np.abs(d)), np.exp(-np.abs(d))
        below = z * rest * m / (rest + z * e)
        above = -z * rest * m / (e - z * m)
        # Far from the root the terms do not cancel, and the exponential would magnify the rounding of d.
        out = np.where(inside & (np.abs(d) < 1), np.where(d < 0, below, above), out)
    return out


def _sigmoid_cross_entropy(z: Any, x: Any) -> Any:
    dtype = x.dtype
    if dtype == np.float32:  # terms cancel for labels outside [0, 1]
        z, x = z.astype(np.float64), x.astype(np.float64)
    log = np.log1p(np.exp(-np.abs(x)))
    up, down = np.maximum(x, 0) + log, np.maximum(-x, 0) + log  # softplus(x), softplus(-x)
    # Three forms of softplus(x) - x z, each used where its terms do not cancel.
    inside = (1 - z) * np.where(z == 1, 0, up) + z * np.where(z == 0, 0, down)
    return np.where(z < 0, up - x * z, np.where(z > 1, down - x * (z - 1), inside)).astype(dtype)


sigmoid_error = elementwise(
    "sigmoid_error", _sigmoid_error, (-1, lambda xp, y, z, x: xp.sigmoid_slope(x)),
    special=(0.0, 1.0), ulps=4.0,
    summary="sigmoid(x) - z.",
)  # fmt: skip

_sigmoid_cross_entropy_primitive = elementwise(
    "sigmoid_cross_entropy", _sigmoid_cross_entropy,
    (lambda xp, y, z, x: -x, lambda xp, y, z, x: xp.sigmoid_error(z, x)),
    special=(0.0, 1.0), ulps=4.0,
    summary="Cross-entropy of a label z and a logit x: softplus(x) - x z.",
    conventions=(ENTROPIES, SUMMED),
)  # fmt: skip


@diagnosed
def softmax_cross_entropy_with_logits(labels: Any, logits: Any, axis: int = -1, name: str | None = None) -> Tensor:
    """Cross-entropy between label distributions and ``softmax(logits)``, differentiable by both.

    Parameters
    ----------
    labels : tensor
        A weight for each class. A sum of 1 is not checked.
    logits : tensor of floats
        The shape of `labels`. One row of labels may stand for all samples, but not one row of logits.
    axis : int
        The axis of the classes.

    Returns
    -------
    Tensor
        The shape of `logits` without `axis`.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the shapes do not fit or `axis` is out of range.

    Examples
    --------
    >>> tf.nn.softmax_cross_entropy_with_logits([[0.0, 1.0]], [[1000.0, 0.0]]).numpy()
    array([1000.], dtype=float32)
    """
    labels, logits = _labels_like(labels, logits)
    if labels._layout.shape != logits._layout.shape:
        labels, logits = _of_one_shape(labels, logits, axis)
    logits, axis = logits_and_axis(logits, axis, "softmax_cross_entropy_with_logits")
    return cross_entropy_op(labels, logits, axis=axis)


def _of_one_shape(labels: Tensor, logits: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Labels and logits in one shape.

    As in TensorFlow, both are matrices with a row of classes for each sample. One row of labels stands for all samples,
    and one class for all classes.
    """
    a, b = labels._layout.shape, logits._layout.shape
    at, where = (axis % len(s) if s and -len(s) <= axis < len(s) else None for s in (a, b))
    if at is not None and where is not None:
        given, samples = a[:at] + a[at + 1 :], b[:where] + b[where + 1 :]
        classes = b[where] if a[at] == 1 else a[at]
        last = at == len(a) - 1 and where == len(b) - 1
        if a[at] in (1, classes) and b[where] in (1, classes):
            if last and given != samples and math.prod(given) == math.prod(samples):
                labels, given = reshaped(labels, (*samples, a[at])), samples
            elif last and math.prod(given) == 1:
                labels, given = reshaped(labels, (a[at],)), ()
            if given == samples or (math.prod(given) == 1 and len(given) in (0, len(samples))):
                shape = (*b[:where], classes, *b[where + 1 :])
                labels = labels if labels._layout.shape == shape else broadcast_to_op(labels, shape=shape)
                return labels, logits if b == shape else broadcast_to_op(logits, shape=shape)
    raise errors.InvalidArgumentError(
        f"softmax_cross_entropy_with_logits: logits and labels must be broadcastable: logits_size="
        f"{logits._layout.tensor_shape} labels_size={labels._layout.tensor_shape}"
    )


def _labels_like(labels: Any, logits: Any) -> tuple[Tensor, Tensor]:
    """Labels and logits as tensors. The labels are cast to the dtype of the logits."""
    logits, labels = operands(logits, labels)
    if labels._layout.dtype != logits._layout.dtype and logits._layout.inexact:
        labels = REGISTRY["cast"](labels, dtype=logits._layout.dtype)
    return labels, logits


@diagnosed
def sparse_softmax_cross_entropy_with_logits(labels: Any, logits: Any, name: str | None = None) -> Tensor:
    """Cross-entropy between class numbers and ``softmax(logits)``.

    Parameters
    ----------
    labels : integer tensor, shape [...]
        The class of each row.
    logits : tensor of floats, shape [..., classes]

    Returns
    -------
    Tensor, shape [...]

    Raises
    ------
    ValueError
        If the shapes do not fit.
    gtape.errors.InvalidArgumentError
        If a label is not an integer from 0 to classes - 1.

    Examples
    --------
    >>> tf.nn.sparse_softmax_cross_entropy_with_logits([1], [[1000.0, 0.0]]).numpy()
    array([1000.], dtype=float32)
    """
    op = "sparse_softmax_cross_entropy_with_logits"
    x, axis = logits_and_axis(logits, -1, op)
    k = convert_to_tensor(labels)
    if k._layout.dtype.kind not in "iu":
        raise errors.InvalidArgumentError(
            f"{op}: labels must be integers, not {k.dtype.name}; use softmax_cross_entropy_with_logits for "
            f"probabilities"
        )
    if k._layout.shape != x._layout.shape[:-1]:
        raise ValueError(
            f"`labels.shape` must equal `logits.shape` except for the last dimension. Received: "
            f"labels.shape={k._layout.tensor_shape} and logits.shape={x._layout.tensor_shape}"
        )
    n = x._layout.shape[-1]

    def check(index: Any) -> None:
        if index.size and (index.min() < 0 or index.max() >= n):
            wrong = index[(index < 0) | (index >= n)].flat[0]
            raise errors.InvalidArgumentError(
                f"{op}: Received a label value of {wrong} which is outside the valid range of [0, {n})."
            )

    checked(check, k)
    dtype = x._layout.dtype
    chosen = decided(lambda v: (v[..., None] == np.arange(n)).astype(dtype), k)
    return cross_entropy_op(chosen, x, axis=axis)


def _same_shape(labels: Tensor, logits: Tensor) -> None:
    if labels._layout.shape != logits._layout.shape:
        raise ValueError(
            f"`logits` and `labels` must have the same shape, received ({logits._layout.tensor_shape} vs "
            f"{labels._layout.tensor_shape})."
        )


@diagnosed
def sigmoid_cross_entropy_with_logits(labels: Any = None, logits: Any = None, name: str | None = None) -> Tensor:
    """Cross-entropy between probabilities and ``sigmoid(logits)`` for each element, differentiable by both.

    Parameters
    ----------
    labels : tensor
        Numbers from 0 to 1 (not checked).
    logits : tensor of floats
        The shape and dtype of `labels`.

    Returns
    -------
    Tensor, shape of `logits`

    Raises
    ------
    ValueError
        If an argument is missing or the shapes differ.

    Examples
    --------
    >>> tf.nn.sigmoid_cross_entropy_with_logits([1.0, 0.0], [1000.0, 1000.0]).numpy()
    array([   0., 1000.], dtype=float32)
    """
    if labels is None or logits is None:
        raise ValueError("Both `labels` and `logits` must be provided.")
    x, z = operands(logits, labels)
    _same_shape(z, x)
    return _sigmoid_cross_entropy_primitive(z, x)


@conventional(ENTROPIES, SUMMED)
@diagnosed
@documented_like(sigmoid_cross_entropy_with_logits)
def weighted_cross_entropy_with_logits(labels: Any, logits: Any, pos_weight: Any, name: str | None = None) -> Tensor:
    """`sigmoid_cross_entropy_with_logits` with a weight for the positive class.

    Parameters
    ----------
    pos_weight : tensor or number
        The factor of the term of the positive class.

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> tf.nn.weighted_cross_entropy_with_logits([1.0], [-1000.0], 2.0).numpy()
    array([2000.], dtype=float32)
    """
    x, z, q = operands(logits, labels, pos_weight)
    _same_shape(z, x)
    add, multiply, subtract, softplus = (REGISTRY[name] for name in ("add", "multiply", "subtract", "softplus"))
    negative_class = multiply(subtract(1.0, z), softplus(x))
    return add(negative_class, multiply(multiply(q, z), softplus(REGISTRY["negative"](x))))
