"""Norms, moments, biases and embeddings, under TensorFlow's names."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from gtape import errors
from gtape.base.diagnosis import diagnosed
from gtape.base.scalars import float_of
from gtape.base.shown import shown
from gtape.declare.primitives import REGISTRY
from gtape.ops.nn.clipping import clip_by_norm
from gtape.ops.reduction.sums import sum_op
from gtape.ops.shape.decisions import checked, decided
from gtape.ops.shape.shape import reshape_op
from gtape.tensors.axes import axes_of
from gtape.tensors.operands import operands
from gtape.tensors.tensor import Tensor, convert_to_tensor, wrap
from gtape.tensors.variable import Variable

__all__ = ["bias_add", "embedding_lookup", "l2_loss", "l2_normalize", "moments"]


@diagnosed
def l2_loss(t: Any, name: str | None = None) -> Tensor:
    """Half of the sum of squares, ``sum(t ** 2) / 2``.

    Parameters
    ----------
    t : tensor of floats

    Returns
    -------
    Tensor, scalar

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `t` holds integers or complex numbers.

    Examples
    --------
    >>> tf.nn.l2_loss([3.0, 4.0]).numpy()
    np.float32(12.5)
    """
    x = convert_to_tensor(t)
    if not x._layout.inexact or x._layout.complex:
        raise errors.InvalidArgumentError(f"l2_loss needs a tensor of floats, not {x.dtype.name}: use gtape.cast first")
    return sum_op(REGISTRY["square"](x), axis=tuple(range(len(x._layout.shape))), keepdims=False) / 2


@diagnosed
def bias_add(value: Any, bias: Any, data_format: str | None = None, name: str | None = None) -> Tensor:
    """Add a vector along the axis of the channels.

    Parameters
    ----------
    value : tensor, two axes at least
    bias : tensor, shape [channels]
        Dtype of `value`.
    data_format : str, optional
        ``"N...C"`` (the channels come last; the default) or ``"NC..."`` (they come second).

    Returns
    -------
    Tensor, shape of `value`

    Raises
    ------
    ValueError
        If `data_format` is another string.
    gtape.errors.InvalidArgumentError
        If the shapes do not fit.

    Examples
    --------
    >>> tf.nn.bias_add([[1.0, 2.0]], [10.0, 20.0]).numpy()
    array([[11., 22.]], dtype=float32)
    """
    if not isinstance(data_format, str | None):
        raise ValueError(f"`data_format` must be of the form `N...C` or `NC...`. Received: {shown(data_format)}")
    second = data_format is not None and data_format.startswith("NC")
    if data_format is not None and not second and not (data_format.startswith("N") and data_format.endswith("C")):
        raise ValueError(
            f"`data_format` must be of the form `N...C` or `NC...`. Received: data_format={shown(data_format)}"
        )
    x, b = operands(value, bias)
    shape = x._layout.shape
    if len(shape) < 2 or len(b._layout.shape) != 1 or b._layout.shape[0] != shape[1 if second else -1]:
        raise errors.InvalidArgumentError(
            f"bias_add: a bias of shape {b._layout.tensor_shape} does not fit a value of shape "
            f"{x._layout.tensor_shape}: it must be a vector with one element for each channel (axis "
            f"{1 if second else -1})"
        )
    if second and len(shape) > 2:
        b = reshape_op(b, shape=(shape[1],) + (1,) * (len(shape) - 2))
    return REGISTRY["add"](x, b)


@diagnosed
def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None) -> Tensor:
    """``x / sqrt(max(sum(x ** 2), epsilon))`` along some axes, without overflow.

    Parameters
    ----------
    x : tensor of floats or complex numbers
    axis : int or sequence of int, optional
        All axes by default.
    epsilon : float
        The least value of the sum of squares.
    dim : int or sequence of int, optional
        The old name of `axis` in TensorFlow.

    Returns
    -------
    Tensor, shape of `x`

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If an axis is out of range.

    Examples
    --------
    >>> tf.nn.l2_normalize([3.0, 4.0]).numpy()
    array([0.6, 0.8], dtype=float32)
    """
    from gtape.ops.reduction.sums import reduce_sum

    t = convert_to_tensor(x)
    along = dim if axis is None else axis
    if t._layout.dtype.kind != "f":
        total = reduce_sum(REGISTRY["square"](REGISTRY["abs"](t)), axis=along, keepdims=True)
        scale = REGISTRY["rsqrt"](REGISTRY["maximum"](total, epsilon))
        return t * REGISTRY["cast"](scale, dtype=t._layout.dtype)
    axes = axes_of(along, len(t._layout.shape))
    bound = float_of(epsilon, "l2_normalize", "epsilon")
    least = math.sqrt(bound)
    if not (REGISTRY["norm"](wrap(t._value), axis=axes, keepdims=True)._value < least).any():  # NaN is long enough
        return REGISTRY["unit_vector"](t, axis=axes)
    # The check is recorded, so that the program decides again at other points.
    short = REGISTRY["less"](REGISTRY["norm"](t, axis=axes, keepdims=True), least)
    return REGISTRY["where"](short, REGISTRY["over_root"](t, n=bound), REGISTRY["unit_vector"](t, axis=axes))


@diagnosed
def moments(
    x: Any, axes: Any, shift: Any = None, keepdims: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """The mean and the variance over some axes.

    Parameters
    ----------
    x : tensor of floats, complex numbers, int32 or int64
        The moments of integers are integers, rounded towards zero.
    axes : int or sequence of int
    shift : object, optional
        Ignored, as TensorFlow does.
    keepdims : bool
        Whether the axes stay, with size 1.

    Returns
    -------
    mean, variance : Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If an axis is out of range.

    Examples
    --------
    >>> mean, variance = tf.nn.moments(tf.constant([1.0, 3.0]), axes=[0])
    >>> mean.numpy(), variance.numpy()
    (np.float32(2.0), np.float32(1.0))
    """
    from gtape.ops.reduction.moments import reduce_variance
    from gtape.ops.reduction.sums import reduce_mean

    t = convert_to_tensor(x)
    mean = reduce_mean(t, axis=axes, keepdims=keepdims)
    if t._layout.dtype not in (np.int32, np.int64):
        return mean, reduce_variance(t, axis=axes, keepdims=keepdims)
    squares = REGISTRY["squared_difference"](t, reduce_mean(t, axis=axes, keepdims=True))
    return mean, reduce_mean(squares, axis=axes, keepdims=keepdims)


def _rows_of_tables(params: Any, ids: Any) -> Tensor:
    """Rows of one table, or of several tables in a row. Each table has its own sparse gradient."""
    from gtape.ops.picking.gather import gather

    if not isinstance(params, (list, tuple)):
        return gather(params, ids)
    if not params:
        raise ValueError("Length of params is currently 0. Need at least one param.")
    if len(params) == 1:
        return gather(params[0], ids)
    tables = [p if isinstance(p, Variable) else convert_to_tensor(p) for p in params]
    wanted = convert_to_tensor(ids)
    sizes = [t._layout.shape[0] for t in tables]
    ends = np.cumsum(sizes)

    def check(ids: Any) -> None:
        if ids.size and (ids.min() < 0 or ids.max() >= ends[-1]):
            raise errors.InvalidArgumentError(
                f"embedding_lookup: an id is not in [0, {ends[-1]}), the rows of all tables"
            )

    checked(check, wanted)

    def homes(ids: Any) -> Any:
        return np.searchsorted(ends, ids.reshape(-1), side="right")

    def inside(k: int, ids: Any) -> Any:
        start = (ends[k] - sizes[k]).astype(ids.dtype)
        return ids.reshape(-1)[homes(ids) == k] - start

    parts = [gather(t, decided(partial(inside, k), wanted)) for k, t in enumerate(tables)]
    # The parts hold the ids by table. Within a table they keep their order.
    order = decided(lambda ids: np.argsort(np.argsort(homes(ids), kind="stable")), wanted)
    rows = gather(REGISTRY["concat"](*parts, axis=0), order)
    return reshape_op(rows, shape=wanted._layout.shape + rows._layout.shape[1:])


@diagnosed
def embedding_lookup(params: Any, ids: Any, max_norm: float | None = None, name: str | None = None) -> Tensor:
    """Rows of a table.

    Parameters
    ----------
    params : tensor or variable, shape [rows, ...], or list of these
        Several tables are the parts of one table, split along its rows.
    ids : integer tensor
    max_norm : float, optional
        Rows with a greater norm are scaled down to this norm.

    Returns
    -------
    Tensor, shape of `ids` followed by that of a row

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If an id is out of range.
    ValueError
        If the list of tables is empty.

    Examples
    --------
    >>> tf.nn.embedding_lookup(tf.constant([[1.0], [2.0]]), [1, 1, 0]).numpy()
    array([[2.],
           [2.],
           [1.]], dtype=float32)
    """
    rows = _rows_of_tables(params, ids)
    if max_norm is None:
        return rows
    first = len(convert_to_tensor(ids)._layout.shape)
    clipped: Tensor = clip_by_norm(rows, max_norm, axes=list(range(first, len(rows._layout.shape))))
    return clipped
