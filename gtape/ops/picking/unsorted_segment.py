"""Reductions over rows with the same number, for numbers in any order."""

from __future__ import annotations

from typing import Any

from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.ops.picking.segment_rows import (
    divided,
    filled,
    products,
    segment_max_op,
    segment_min_op,
    sums,
    unsorted_rows,
)
from gtape.tensors.operands import require_floats
from gtape.tensors.tensor import Tensor

__all__ = [
    "unsorted_segment_max", "unsorted_segment_mean", "unsorted_segment_min", "unsorted_segment_prod",
    "unsorted_segment_sqrt_n", "unsorted_segment_sum",
]  # fmt: skip
NAMESPACES = ("math",)


@diagnosed
def unsorted_segment_sum(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Sums of slices with the same number, for numbers in any order.

    Parameters
    ----------
    data : number tensor
    segment_ids : integer tensor
        The number of each slice. The shape is that of the first axes of `data`. Slices with a negative number are
        dropped.
    num_segments : int
        The number of rows of the result, greater than the greatest number.

    Returns
    -------
    Tensor
        Shape ``(num_segments, *data.shape[segment_ids.ndim:])``; Zeros for numbers without a slice.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If a number is too great, or the shapes do not fit.

    Examples
    --------
    >>> tf.math.unsorted_segment_sum([1.0, 2.0, 5.0, 7.0], [2, 0, 2, -1], 3).numpy()
    array([2., 0., 6.], dtype=float32)
    """
    return sums(*unsorted_rows(data, segment_ids, num_segments, "unsorted_segment_sum"))


@diagnosed
@documented_like(unsorted_segment_sum)
def unsorted_segment_mean(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Means of slices with the same number, for numbers in any order.

    Returns
    -------
    Tensor
        Zeros for numbers without a slice. float64 for integers.

    Examples
    --------
    >>> tf.math.unsorted_segment_mean([1.0, 2.0, 5.0], [1, 0, 1], 3).numpy()
    array([2., 3., 0.], dtype=float32)
    """
    return divided(*unsorted_rows(data, segment_ids, num_segments, "unsorted_segment_mean"))


@diagnosed
@documented_like(unsorted_segment_sum)
def unsorted_segment_sqrt_n(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Sums of slices with the same number, divided by the square root of the number of slices.

    Returns
    -------
    Tensor
        Zeros for numbers without a slice.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `data` holds integers, a number is too great, or the shapes do not fit.

    Examples
    --------
    >>> tf.math.unsorted_segment_sqrt_n([1.0, 2.0, 5.0, 1.0, 1.0], [1, 0, 1, 1, 1], 2).numpy()
    array([2., 4.], dtype=float32)
    """
    t, ids, n = unsorted_rows(data, segment_ids, num_segments, "unsorted_segment_sqrt_n")
    return divided(require_floats(t, "unsorted_segment_sqrt_n"), ids, n, root=True)


@diagnosed
@documented_like(unsorted_segment_sum)
def unsorted_segment_prod(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Products of slices with the same number, in any order. The gradient is exact with any number of zeros.

    Returns
    -------
    Tensor
        Ones for numbers without a slice.

    Examples
    --------
    >>> tf.math.unsorted_segment_prod([3.0, 2.0, 5.0], [1, 0, 1], 3).numpy()
    array([ 2., 15.,  1.], dtype=float32)
    """
    return products(*unsorted_rows(data, segment_ids, num_segments, "unsorted_segment_prod"))


@diagnosed
@documented_like(unsorted_segment_sum)
def unsorted_segment_max(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Greatest elements of slices with the same number, in any order. Equal elements share the gradient equally.

    Returns
    -------
    Tensor
        The dtype's least finite value for numbers without a slice.

    Examples
    --------
    >>> tf.math.unsorted_segment_max([3.0, -2.0, 5.0], [1, 0, 1], 2).numpy()
    array([-2.,  5.], dtype=float32)
    """
    t, ids, n = unsorted_rows(data, segment_ids, num_segments, "unsorted_segment_max")
    return filled(segment_max_op, t, ids, n, t.dtype.min)


@diagnosed
@documented_like(unsorted_segment_sum)
def unsorted_segment_min(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Least elements of slices with the same number, in any order. Equal elements share the gradient equally.

    Returns
    -------
    Tensor
        The dtype's greatest finite value for numbers without a slice.

    Examples
    --------
    >>> tf.math.unsorted_segment_min([3.0, -2.0, 5.0], [1, 0, 1], 2).numpy()
    array([-2.,  3.], dtype=float32)
    """
    t, ids, n = unsorted_rows(data, segment_ids, num_segments, "unsorted_segment_min")
    return filled(segment_min_op, t, ids, n, t.dtype.max)
