"""Clipping by value, by norm, and by the common norm of many tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.declare.conventions import RATIOS, Noted, conventional
from gtape.declare.primitives import REGISTRY
from gtape.errors import InvalidArgumentError
from gtape.ops.reduction.norms import reduce_euclidean_norm
from gtape.tensors.argument_checks import each
from gtape.tensors.axes import axes_of
from gtape.tensors.indexed_slices import IndexedSlices
from gtape.tensors.operands import float_operand
from gtape.tensors.tensor import Tensor, as_operand, convert_to_tensor, is_tensor, wrap

__all__ = ["clip_by_global_norm", "clip_by_norm", "clip_by_value", "global_norm"]
NAMESPACES = ("linalg",)


@diagnosed
def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """Clip every element to ``[clip_value_min, clip_value_max]``.

    Parameters
    ----------
    t : real tensor or IndexedSlices
    clip_value_min, clip_value_max : number or tensor that broadcasts to `t`
        The bounds.

    Returns
    -------
    Tensor or IndexedSlices
        At a bound the gradient flows to `t`, and beyond a bound to the bound. Each row of IndexedSlices is clipped.

    Raises
    ------
    ValueError
        If the result has another shape than `t`.
    gtape.errors.InvalidArgumentError
        If the shapes do not broadcast, or the dtypes differ.

    Examples
    --------
    >>> tf.clip_by_value(tf.constant([-2.0, 0.5, 3.0]), -1.0, 1.0).numpy()
    array([-1. ,  0.5,  1. ], dtype=float32)
    """
    if isinstance(t, IndexedSlices):
        return IndexedSlices(clip_by_value(t.values, clip_value_min, clip_value_max), t.indices, t.dense_shape)
    x = as_operand(t)
    clipped = REGISTRY["clip_by_value"](x, clip_value_min, clip_value_max)
    if clipped._layout.shape != x._layout.shape:
        raise ValueError(
            f"clip_by_value: with its bounds t would grow from shape {x.shape} to {clipped.shape}: give them shapes "
            "that broadcast to t's"
        )
    return clipped


def _clipped(x: Any, norm: Any, limit: Any, over_norm: Callable[[], Any]) -> Any:
    """``x * (limit / max(norm, limit))``, with ``over_norm() = x / norm`` and, at the limit, the slope of `norm`."""
    value = limit._value
    if not (np.isfinite(value) & np.greater(value, 0)).all():  # TensorFlow's zeros and NaN
        return x * (limit / REGISTRY["maximum"](norm, limit))
    # x is divided first, because limit / norm**2, a factor of the derivative of limit / norm, may underflow.
    return REGISTRY["where"](REGISTRY["less"](norm, limit), x, over_norm() * limit)


@conventional(RATIOS)
@diagnosed
def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Any:
    """Scale a tensor down if its Euclidean norm is greater than a limit.

    Parameters
    ----------
    t : float tensor or IndexedSlices
    clip_norm : scalar, or tensor that broadcasts to the norms
        The limit, of any dtype. A negative limit counts as 0.
    axes : int or sequence of int, optional
        The axes over which each norm is taken. By default all axes.

    Returns
    -------
    Tensor or IndexedSlices
        ``t * (clip_norm / max(norm, clip_norm))``. Exactly at the limit the derivative is that of the clipped formula.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `t` holds integers, or the limit does not broadcast.

    Examples
    --------
    >>> tf.clip_by_norm(tf.constant([3.0, 4.0]), 2.5).numpy()
    array([1.5, 2. ], dtype=float32)
    """
    if isinstance(t, IndexedSlices):
        return IndexedSlices(clip_by_norm(t.values, clip_norm, axes), t.indices, t.dense_shape)
    x = float_operand(t, "clip_by_norm")
    limit = as_operand(clip_norm, x)
    if limit._layout.dtype != x._layout.dtype and limit._layout.dtype.kind in "iufV":
        limit = REGISTRY["cast"](limit, dtype=x._layout.dtype)
    if np.less(limit._value, 0).any():
        limit = REGISTRY["maximum"](limit, 0)
    norm = reduce_euclidean_norm(x, axes, keepdims=True)
    scaled = _clipped(x, norm, limit, partial(REGISTRY["unit_vector"], x, axis=axes_of(axes, len(x._layout.shape))))
    if scaled._layout.shape != x._layout.shape:
        raise InvalidArgumentError(
            f"clip_by_norm: clip_norm of shape {limit.shape} does not broadcast to the norms, {norm.shape}"
        )
    return scaled


def _values(t_list: Any, op: str) -> list[Any]:
    """The values of each tensor, or None."""
    if is_tensor(t_list) or isinstance(t_list, (str, np.ndarray)) or not isinstance(t_list, Sequence):
        raise TypeError(f"{op}: `t_list` should be a sequence of tensors, not {type(t_list).__name__}: write [t]")
    found = []
    for t in each(op, "t_list", t_list):
        found.append(None if t is None else t.values if isinstance(t, IndexedSlices) else convert_to_tensor(t))
    return found


@diagnosed
def global_norm(t_list: Any, name: str | None = None) -> Tensor:
    """The Euclidean norm of all elements of all tensors together.

    Parameters
    ----------
    t_list : sequence of tensors, IndexedSlices or None
        None entries are left out.

    Returns
    -------
    Tensor
        A scalar. Its gradient at zero is zero.

    Raises
    ------
    TypeError
        If the argument is a single tensor.

    Examples
    --------
    >>> float(tf.linalg.global_norm([tf.constant([3.0]), None, tf.constant([[4.0]])]))
    5.0
    """
    values = [v for v in _values(t_list, "global_norm") if v is not None]
    if not values:
        return wrap(np.float32(0.0))
    flat = [REGISTRY["reshape"](v, shape=(v._layout.size,)) for v in values]
    whole = flat[0] if len(flat) == 1 else REGISTRY["concat"](*flat, axis=0)
    return reduce_euclidean_norm(whole)


@conventional(
    RATIOS,
    Noted("with a NaN anywhere all results are NaN; the scale then is a constant, as in TensorFlow"),
)
@diagnosed
def clip_by_global_norm(t_list: Any, clip_norm: Any, use_norm: Any = None, name: str | None = None) -> Any:
    """Scale many tensors by one factor, so that their common Euclidean norm does not exceed a limit.

    Parameters
    ----------
    t_list : sequence of tensors, IndexedSlices or None
        None entries stay None.
    clip_norm : positive scalar
        The limit.
    use_norm : scalar tensor, optional
        The norm, if known.

    Returns
    -------
    list, Tensor
        The scaled tensors, and the norm. If the norm is not finite, every element is NaN.

    Raises
    ------
    TypeError
        If `t_list` is a single tensor.

    Examples
    --------
    >>> clipped, norm = tf.clip_by_global_norm([tf.constant([3.0]), None, tf.constant([4.0])], 1.0)
    >>> float(norm), clipped[0].numpy(), clipped[1]
    (5.0, array([0.6], dtype=float32), None)
    """
    values = _values(t_list, "clip_by_global_norm")
    norm = (
        global_norm(t_list)
        if use_norm is None
        else as_operand(use_norm, next((v for v in values if v is not None), None))
    )
    made: list[Any] = []
    for t, v in zip(t_list, values, strict=True):
        if v is None:
            made.append(None)
            continue
        limit = as_operand(clip_norm, v)
        own = norm if norm._layout.dtype == v._layout.dtype else REGISTRY["cast"](norm, dtype=v._layout.dtype)
        if not np.isfinite(own._value):
            scaled = v * wrap(np.asarray(np.nan, v._layout.dtype))
        else:
            longer = REGISTRY["maximum"](own, limit)  # not 0, because quotients by 0 have no derivative
            scaled = _clipped(v, own, limit, partial(REGISTRY["divide"], v, longer))
        made.append(IndexedSlices(scaled, t.indices, t.dense_shape) if isinstance(t, IndexedSlices) else scaled)
    return made, norm
