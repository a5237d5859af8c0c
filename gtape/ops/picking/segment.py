"""Reductions over rows with the same number, for sorted numbers."""

from __future__ import annotations

from typing import Any

from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.declare.conventions import shows_kinks_of
from gtape.ops.picking.segment_rows import (
    divided,
    products,
    segment_max_op,
    segment_min_op,
    sorted_rows,
    sums,
    whole_mean,
)
from gtape.tensors.tensor import Tensor

__all__ = ["segment_max", "segment_mean", "segment_min", "segment_prod", "segment_sum"]
NAMESPACES = ("math",)


@diagnosed
def segment_sum(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Sums of rows with the same number, for sorted numbers.

    Parameters
    ----------
    data : number tensor with at least one axis
    segment_ids : integer vector
        The number of each row, in ascending order, with repetitions. The result has one row more than the last number.

    Returns
    -------
    Tensor
        Shape ``(segments, *data.shape[1:])``; Zeros for numbers without a row.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the numbers are not sorted, a number is negative, or there are more or fewer numbers than rows.

    Examples
    --------
    >>> tf.math.segment_sum([1.0, 2.0, 5.0], [0, 0, 2]).numpy()
    array([3., 0., 5.], dtype=float32)
    """
    return sums(*sorted_rows(data, segment_ids, "segment_sum"))


@diagnosed
@documented_like(segment_sum)
def segment_mean(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Means of rows with the same number, for sorted numbers.

    Returns
    -------
    Tensor
        Zeros for numbers without a row. The mean of integers is an integer, rounded towards zero.

    Examples
    --------
    >>> tf.math.segment_mean([1.0, 2.0, 5.0], [0, 0, 2]).numpy()
    array([1.5, 0. , 5. ], dtype=float32)
    """
    t, ids, n = sorted_rows(data, segment_ids, "segment_mean")
    return (divided if t._layout.inexact else whole_mean)(t, ids, n)


@diagnosed
@documented_like(segment_sum)
def segment_prod(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Products of rows with the same number, for sorted numbers. The gradient is exact with any number of zeros.

    Returns
    -------
    Tensor
        Ones for numbers without a row.

    Examples
    --------
    >>> tf.math.segment_prod([2.0, 3.0, 5.0], [0, 0, 2]).numpy()
    array([6., 1., 5.], dtype=float32)
    """
    return products(*sorted_rows(data, segment_ids, "segment_prod"))


@shows_kinks_of(segment_max_op, lambda f, x: f(x, [0, 0]))
@diagnosed
@documented_like(segment_sum)
def segment_max(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Greatest elements of rows with the same number, for sorted numbers. Equal elements share the gradient.

    Returns
    -------
    Tensor
        Zeros for numbers without a row.

    Examples
    --------
    >>> tf.math.segment_max([1.0, 2.0, -5.0], [0, 0, 2]).numpy()
    array([ 2.,  0., -5.], dtype=float32)
    """
    t, ids, n = sorted_rows(data, segment_ids, "segment_max")
    return segment_max_op(t, ids, size=n)


@shows_kinks_of(segment_min_op, lambda f, x: f(x, [0, 0]))
@diagnosed
@documented_like(segment_sum)
def segment_min(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Least elements of rows with the same number, for sorted numbers. Equal elements share the gradient.

    Returns
    -------
    Tensor
        Zeros for numbers without a row.

    Examples
    --------
    >>> tf.math.segment_min([1.0, 2.0, 5.0], [0, 0, 2]).numpy()
    array([1., 0., 5.], dtype=float32)
    """
    t, ids, n = sorted_rows(data, segment_ids, "segment_min")
    return segment_min_op(t, ids, size=n)
