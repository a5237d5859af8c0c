"""Variance and standard deviation, computed from centred values."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.declare.conventions import DEVIATIONS, SUMMED
from gtape.declare.primitives import REGISTRY, linear
from gtape.declare.rounding import sums
from gtape.errors import OperandTypeError
from gtape.ops.reduction.common import KEPT_AXIS_SAMPLES
from gtape.ops.reduction.norms import reduce_euclidean_norm
from gtape.ops.reduction.sums import reduce_mean, reduce_sum
from gtape.tensors.axes import axes_of, count_of, from_end
from gtape.tensors.tensor import Tensor, as_operand

__all__ = ["reduce_std", "reduce_variance"]


_WIDE = {np.dtype("e"): np.float32, np.dtype("f"): np.float64, np.dtype("F"): np.complex128}


def _center_kernel(x: Any, *, axis: tuple[int, ...]) -> Any:
    if not axis:
        return x - x
    work = x.astype(_WIDE.get(x.dtype, x.dtype), copy=False)
    n = np.array(count_of(x.shape, axis), work.dtype)
    # The mean is rounded, but the distances of near elements to it are exact, so the mean of the distances corrects the
    # rounding. Equal elements give exact zeros, and their std is exactly at its kink.
    d = work - np.add.reduce(work, axis=axis, keepdims=True) / n
    return (d - np.add.reduce(d, axis=axis, keepdims=True) / n).astype(x.dtype, copy=False)


def _center_terms(x: Any, *, axis: tuple[int, ...]) -> Any:
    mean = abs(x) - _center_kernel(abs(x), axis=axis)
    return (count_of(x.shape, axis) + 1) * mean + abs(_center_kernel(x, axis=axis))


_center = linear(
    "center", _center_kernel, lambda xp, g, x, *, axis: xp.center(g, axis=from_end(axis, len(tuple(x.shape)))),
    params=("axis",), batched=True, rounding=sums(_center_terms, signed=True),
    samples=KEPT_AXIS_SAMPLES,
    conventions=(DEVIATIONS, SUMMED),
)  # fmt: skip


def _inexact(x: Any, op: str) -> Tensor:
    t = as_operand(x)
    if not t._layout.inexact:
        raise OperandTypeError(
            f"{op} needs a floating-point or complex tensor, not {t.dtype.name}: use gtape.cast(x, gtape.float32) first"
        )
    return t


@diagnosed
@documented_like(reduce_sum)
def reduce_variance(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """The mean square deviation from the mean along axes.

    Parameters
    ----------
    input_tensor : floating-point tensor, any shape

    Raises
    ------
    gtape.errors.OperandTypeError
        If the tensor holds integers.
    gtape.errors.InvalidArgumentError
        If an axis is out of range or named twice.

    Examples
    --------
    >>> float(tf.math.reduce_variance([1.0, 3.0]))
    1.0
    """
    t = _inexact(input_tensor, "reduce_variance")
    axes = axes_of(axis, t.ndim)
    d: Any = _magnitude(_center(t, axis=axes))
    return reduce_mean(d * d, axes, keepdims)


@diagnosed
@documented_like(reduce_variance)
def reduce_std(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """The standard deviation along axes. If all elements are equal (a kink), the gradient is 0.

    Examples
    --------
    >>> float(tf.math.reduce_std([1.0, 3.0]))
    1.0
    """
    t = _inexact(input_tensor, "reduce_std")
    axes = axes_of(axis, t.ndim)
    return standard_deviation(t, axes, keepdims, count_of(t._layout.shape, axes))


def standard_deviation(t: Tensor, axes: tuple[int, ...], keepdims: Any, n: float) -> Tensor:
    """The root of the sum of squared deviations over n."""
    length: Any = reduce_euclidean_norm(_magnitude(_center(t, axis=axes)), axes, keepdims)
    return REGISTRY["over_root"](length, n=n)


def _magnitude(t: Tensor) -> Tensor:
    if t._layout.dtype.kind != "c":
        return t
    return REGISTRY["abs"](t)
