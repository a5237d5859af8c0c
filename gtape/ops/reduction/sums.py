"""Sums and means, and the transpose of both: spreading along axes."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.scalars import truth_of
from gtape.declare.conventions import SUMMED
from gtape.declare.primitives import linear, planned
from gtape.declare.rounding import EXACT, in_pairs, sums
from gtape.errors import InvalidArgumentError
from gtape.ops.reduction.common import AXIS_SAMPLES, numeric
from gtape.ops.shape.decisions import decided
from gtape.tensors.axes import axes_of, count_of, from_end
from gtape.tensors.tensor import Tensor, as_operand, is_tensor

__all__ = ["add_n", "reduce_mean", "reduce_sum", "sum_op"]


_add_up: Any = np.add.reduce  # because np.sum costs three times as much


@planned
def _sum_kernel(x: Any, *, axis: tuple[int, ...], keepdims: Any) -> Any:
    dtype = x.dtype  # given, because NumPy widens small integers by default
    return lambda v: _add_up(v, axis, dtype, None, keepdims)


@functools.lru_cache(maxsize=512)
def _layout(
    have: tuple[int, ...], shape: tuple[int, ...], axis: tuple[int, ...], keepdims: bool, size: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """For spreading a cotangent: its shape with size 1 on reduced axes, its full shape, and the strides of a view."""
    lead = have[: len(have) - len(shape) + (0 if keepdims else len(axis))]
    gone = [a % len(shape) for a in axis]
    inner = have if keepdims else lead + tuple([1 if i in gone else d for i, d in enumerate(shape)])
    strides = []
    for d in reversed(inner):
        strides.append(0 if d == 1 else size)
        size *= d
    return inner, lead + shape, tuple(reversed(strides))


@planned
def _spread_out_kernel(g: Any, *, shape: tuple[int, ...], axis: tuple[int, ...], keepdims: bool) -> Any:
    dtype = g.dtype
    inner, whole, strides = _layout(g.shape, shape, axis, keepdims, dtype.itemsize)

    def spread_out(g: Any) -> Any:
        # A view with zero strides, safe because values are immutable, and made by hand because np.broadcast_to costs
        # ten times as much.
        if g.__class__ is not np.ndarray or (g.flags.c_contiguous and g.size):
            return np.ndarray(whole, dtype, g, 0, strides)
        return np.broadcast_to(g.reshape(inner), whole)

    return spread_out


def _sum_rule(xp: Any, g: Any, x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Any:
    return xp.spread_out(g, shape=tuple(x.shape), axis=axis, keepdims=keepdims)


def _spread_out_rule(xp: Any, g: Any, x: Any, *, shape: tuple[int, ...], axis: tuple[int, ...], keepdims: bool) -> Any:
    return xp.sum(g, axis=from_end(axis, len(shape)), keepdims=keepdims)


def _terms(x: Any, *, axis: tuple[int, ...], keepdims: Any) -> int:
    return in_pairs(x.shape, count_of(x.shape, axis))


sum_op = linear(
    "sum", _sum_kernel, _sum_rule,
    params=("axis", "keepdims"), batched=True, rounding=sums(terms=_terms),
    samples=(*AXIS_SAMPLES, (((2, 0),), {"axis": (1,), "keepdims": False})),
    conventions=SUMMED,
    role="total",
)  # fmt: skip


# `sum` and `spread_out` are each other's transposes.
spread_out_op = linear(
    "spread_out", _spread_out_kernel, _spread_out_rule,
    params=("shape", "axis", "keepdims"), batched=True, rounding=EXACT,
    samples=(
        (((),), {"shape": (2, 3), "axis": (0, 1), "keepdims": False}),
        (((2,),), {"shape": (2, 3), "axis": (-1,), "keepdims": False}),
        (((3,),), {"shape": (2, 3), "axis": (0,), "keepdims": False}),
        (((2, 1),), {"shape": (2, 2), "axis": (-1,), "keepdims": True}),
        (((),), {"shape": (), "axis": (), "keepdims": False}),
        (((2,),), {"shape": (2, 0), "axis": (1,), "keepdims": False}),
    ),
    role="spread",
)  # fmt: skip


@planned
def _mean_kernel(x: Any, *, axis: tuple[int, ...], keepdims: Any) -> Any:
    dtype = x.dtype
    n = dtype.type(count_of(x.shape, axis))
    return lambda v: _add_up(v, axis, dtype, None, keepdims) / n


def _mean_terms(x: Any, *, axis: tuple[int, ...], keepdims: Any) -> Any:
    n = _terms(x, axis=axis, keepdims=keepdims)
    return (n + 1) * (n > 1) * _mean_kernel(abs(x), axis=axis, keepdims=keepdims)


_mean = linear(
    "reduce_mean", _mean_kernel,  # not "mean", because object arrays already have a method with this name
    lambda xp, g, x, *, axis, keepdims: xp.spread_out(
        g / max(count_of(tuple(x.shape), axis), 1), shape=tuple(x.shape), axis=axis, keepdims=keepdims
    ),
    params=("axis", "keepdims"), batched=True, rounding=sums(_mean_terms),
    samples=AXIS_SAMPLES,
    conventions=SUMMED,
    mean_of=sum_op,
    rewrites=(
        (
            ("subtract", ("reduce_mean", ("square", "X")), ("square", ("reduce_mean", "X"))),
            "mean(x**2) - mean(x)**2 is gtape.math.reduce_variance(x)",
            lambda xp, x, *, axis, keepdims: xp.reduce_mean(
                xp.square(xp.center(x, axis=axis)), axis=axis, keepdims=keepdims
            ),
        ),
    ),
)  # fmt: skip


@diagnosed
def add_n(inputs: Any, name: str | None = None) -> Tensor:
    """The sum of several tensors of one shape and dtype.

    Parameters
    ----------
    inputs : iterable of tensors
        One or more tensors of equal shapes.

    Raises
    ------
    ValueError
        If `inputs` is empty or not iterable.
    gtape.errors.InvalidArgumentError
        If shapes or dtypes differ.

    Examples
    --------
    >>> tf.add_n([tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])]).numpy()
    array([4., 6.], dtype=float32)
    """
    listed = len(inputs.shape) if is_tensor(inputs) or isinstance(inputs, np.ndarray) else isinstance(inputs, Iterable)
    inputs = list(inputs) if listed and not isinstance(inputs, (str, bytes, Mapping)) else []
    if not inputs:
        raise ValueError("inputs must be a non-empty list of Tensors/IndexedSlices with the same dtype and shape")
    tensors = [as_operand(x) for x in inputs]
    total = tensors[0]
    for t in tensors[1:]:
        if t._layout.shape != total._layout.shape:
            raise InvalidArgumentError(
                f"add_n: shapes {total.shape} and {t.shape} differ; add broadcasts, add_n does not"
            )
        total = total + t
    return total


def reduce_sum(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """The sum of the elements along axes.

    Parameters
    ----------
    input_tensor : number tensor, any shape
    axis : int or sequence of int, optional
        The axes to reduce. Negative axes count from the end. By default all axes.
    keepdims : bool
        Whether the axes stay, with size 1.

    Returns
    -------
    Tensor
        Dtype of `input_tensor`.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If an axis is out of range or named twice.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.reduce_sum(tf.constant([[1.0, 2.0], [3.0, 4.0]]), axis=0).numpy()
    array([4., 6.], dtype=float32)
    """
    t = input_tensor
    if t.__class__ is not Tensor or not t._layout.inexact:
        t = numeric(t, "reduce_sum")
    function: Any = sum_op._function or sum_op.function
    return function.along(t, axis, keepdims)  # type: ignore[no-any-return]


@documented_like(reduce_sum)
def reduce_mean(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """The mean of the elements along axes; NaN if there are no elements.

    Parameters
    ----------
    input_tensor : number tensor, any shape
        The mean of integers is an integer, rounded towards zero.

    Examples
    --------
    >>> float(tf.reduce_mean([1.0, 2.0, 6.0]))
    3.0
    """
    t = input_tensor
    if t.__class__ is not Tensor or not t._layout.inexact:
        t = numeric(t, "reduce_mean")
    if t.__class__ is Tensor and t._layout.inexact and t._layout.dtype.itemsize > 2:
        function: Any = _mean._function or _mean.function
        return function.along(t, axis, keepdims)  # type: ignore[no-any-return]
    axes, keepdims = axes_of(axis, len(t._layout.shape)), truth_of(keepdims, "reduce_mean", "keepdims")
    n = count_of(t._layout.shape, axes)
    if not t._layout.inexact:

        def mean(v: Any) -> Any:
            total = np.asarray(_sum_kernel(v.astype(np.int64), axis=axes, keepdims=keepdims))
            whole, rest = np.divmod(total, max(n, 1))
            return (whole + ((rest != 0) & (total < 0))).astype(v.dtype)  # towards zero, as in TensorFlow

        return decided(mean, t)
    if t._layout.dtype == np.float16:
        from gtape.ops.shape.creation import cast

        # The sum is not in float16, because the sum overflows at 65504, far below the range of means.
        return cast(sum_op(cast(t, np.float32), axis=axes, keepdims=keepdims) / n, np.float16)
    return _mean(t, axis=axes, keepdims=keepdims)
