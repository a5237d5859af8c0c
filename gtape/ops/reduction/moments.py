"""Variance and standard deviation, from values that are centred first."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.declare.primitive import REGISTRY, linear
from gtape.declare.rounding import sums
from gtape.errors import OperandTypeError
from gtape.ops.reduction.common import KEPT_AXIS_SAMPLES
from gtape.ops.reduction.norms import reduce_euclidean_norm
from gtape.ops.reduction.sums import reduce_mean
from gtape.tensors.axes import axes_of, count_of, from_end
from gtape.tensors.tensor import Tensor, as_operand

__all__ = ["reduce_std", "reduce_variance"]


_WIDE = {np.dtype("e"): np.float32, np.dtype("f"): np.float64, np.dtype("F"): np.complex128}


def _center_kernel(x: Any, *, axis: tuple[int, ...]) -> Any:
    if not axis:
        return x - x
    work = x.astype(_WIDE.get(x.dtype, x.dtype), copy=False)
    n = np.array(count_of(x.shape, axis), work.dtype)
    # The mean is rounded, what lies between it and near elements is not: the mean of that makes up for the rounding.
    # Equal elements come out as exact zeros: their std is at its kink, not beside it.
    d = work - np.add.reduce(work, axis=axis, keepdims=True) / n
    return (d - np.add.reduce(d, axis=axis, keepdims=True) / n).astype(x.dtype, copy=False)


def _center_terms(x: Any, *, axis: tuple[int, ...]) -> Any:
    mean = abs(x) - _center_kernel(abs(x), axis=axis)
    return (count_of(x.shape, axis) + 1) * mean + abs(_center_kernel(x, axis=axis))


_center = linear(
    "center",
    _center_kernel,
    lambda xp, g, x, *, axis: xp.center(g, axis=from_end(axis, len(tuple(x.shape)))),
    params=("axis",),
    batched=True,
    rounding=sums(_center_terms, signed=True),
    public=False,
    samples=KEPT_AXIS_SAMPLES,
)


def _inexact(x: Any, op: str) -> Tensor:
    t = as_operand(x)
    if not t._layout.inexact:
        raise OperandTypeError(
            f"{op} needs a floating-point or complex tensor, not {t.dtype.name}: use gtape.cast(x, gtape.float32) first"
        )
    return t


@diagnosed
def reduce_variance(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Mean square deviation from the mean along axes.

    Parameters
    ----------
    input_tensor : floating-point tensor, any shape
    axis, keepdims, name
        As for `reduce_sum`.

    Returns
    -------
    Tensor

    Raises
    ------
    gtape.errors.OperandTypeError
        For integers.
    gtape.errors.InvalidArgumentError
        When an axis is out of range or named twice.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.math.reduce_variance([1.0, 3.0]))
    1.0
    """
    t = _inexact(input_tensor, "reduce_variance")
    axes = axes_of(axis, t.ndim)
    d: Any = _magnitude(_center(t, axis=axes))
    return reduce_mean(d * d, axes, keepdims)


@diagnosed
def reduce_std(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Standard deviation along axes; where all elements are equal, a kink, its gradient is 0.

    Parameters
    ----------
    input_tensor : floating-point tensor, any shape
    axis, keepdims, name
        As for `reduce_sum`.

    Returns
    -------
    Tensor

    Raises
    ------
    gtape.errors.OperandTypeError
        For integers.
    gtape.errors.InvalidArgumentError
        When an axis is out of range or named twice.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.math.reduce_std([1.0, 3.0]))
    1.0
    """
    t = _inexact(input_tensor, "reduce_std")
    axes = axes_of(axis, t.ndim)
    n = count_of(t._layout.shape, axes)
    length: Any = reduce_euclidean_norm(_magnitude(_center(t, axis=axes)), axes, keepdims)
    return length / float(np.sqrt(n))  # type: ignore[no-any-return]


def _magnitude(t: Tensor) -> Tensor:
    if t._layout.dtype.kind != "c":
        return t
    return REGISTRY["abs"](t)
