"""Sorting: stable orders along the last axis; sort and top_k, which gather elements in these orders."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gtape import dtypes
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.shown import shown
from gtape.declare.conventions import TIED, Noted, shows_kinks_of
from gtape.declare.primitives import REGISTRY, primitive
from gtape.declare.rounding import EXACT
from gtape.errors import InvalidArgumentError
from gtape.ops.shape.decisions import decided
from gtape.tensors.axes import one_axis, scalar_int
from gtape.tensors.tensor import Tensor, as_operand, wrap

__all__ = ["argsort", "sort", "top_k"]


def _order_kernel(x: Any, *, descending: bool) -> Any:
    if not descending:
        return np.argsort(x, axis=-1, kind="stable").astype(np.int64)
    # The kernel sorts backwards and reads backwards, so that equal elements keep their order. Negated integers
    # overflow.
    back = np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    return (x.shape[-1] - 1 - back).astype(np.int64)


_order = primitive(
    "order", _order_kernel, (None,), (None,),
    params=("descending",), kinks=("two elements are equal",), rounding=EXACT,
    samples=((((3,),), {"descending": False}), (((2, 3),), {"descending": True}), (((1,),), {"descending": True})),
    conventions=(
        TIED,
        Noted("NaN counts as the greatest in sort, top_k and argsort, as in NumPy; derivatives of 1 go along"),
    ),
)  # fmt: skip


def _taken(t: Tensor, order: Tensor) -> Tensor:
    """Gather the last axis by an order of each row, a tensor so that a check sees the values that decided the order."""
    shape = t._layout.shape
    if len(shape) > 1:
        rows = math.prod(shape[:-1])
        first = shape[-1] * np.arange(rows).reshape(*shape[:-1], 1)
        order = REGISTRY["add"](order, wrap(first))
        t = REGISTRY["reshape"](t, shape=(rows * shape[-1],))
    return REGISTRY["gather"](t, order, axis=-1, size=t._layout.size)


def _last(t: Tensor, axis: Any) -> tuple[Tensor, tuple[int, ...] | None]:
    """The tensor with the axis moved to the end, and the permutation that moved the axis (its own inverse)."""
    a = one_axis(axis, t.ndim)
    if a == t.ndim - 1:
        return t, None
    perm = list(range(t.ndim))
    perm[a], perm[-1] = perm[-1], perm[a]
    return REGISTRY["transpose"](t, perm=tuple(perm)), tuple(perm)


def _numbers(values: Any, op: str) -> Tensor:
    t = as_operand(values)
    if t._layout.dtype.kind not in "iufV":
        raise InvalidArgumentError(f"{op} needs real numbers, not {t.dtype.name}: use gtape.cast(x, gtape.int32)")
    return t


def _descending(direction: str) -> bool:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"Argument `direction` should be one of 'ASCENDING' or 'DESCENDING', got {shown(direction)}")
    return direction == "DESCENDING"


@shows_kinks_of(_order, lambda f, x: f(x)[0], "sort (its first element)")
@diagnosed
def sort(values: Any, axis: Any = -1, direction: str = "ASCENDING", name: str | None = None) -> Tensor:
    """Sort along an axis. Equal elements keep their order, which determines where their gradients flow.

    Parameters
    ----------
    values : number tensor with at least one axis
    axis : int
    direction : {"ASCENDING", "DESCENDING"}

    Raises
    ------
    ValueError
        If `direction` is another string.
    gtape.errors.InvalidArgumentError
        If the axis is out of range.

    Examples
    --------
    >>> tf.sort([3.0, 1.0, 2.0]).numpy()
    array([1., 2., 3.], dtype=float32)
    """
    down = _descending(direction)
    t, perm = _last(_numbers(values, "sort"), axis)
    y = _taken(t, _order(t, descending=down))
    return y if perm is None else REGISTRY["transpose"](y, perm=perm)


@diagnosed
@documented_like(sort)
def argsort(
    values: Any, axis: Any = -1, direction: str = "ASCENDING", stable: bool = False, name: str | None = None
) -> Tensor:
    """The order that sorts along an axis. The order is always stable.

    Parameters
    ----------
    stable : bool
        Ignored, because equal elements always keep their order.

    Returns
    -------
    Tensor
        An int32, not differentiable.

    Examples
    --------
    >>> tf.argsort([3.0, 1.0, 2.0]).numpy()
    array([1, 2, 0], dtype=int32)
    """
    down = _descending(direction)
    t, perm = _last(_numbers(values, "argsort"), axis)
    return decided(
        lambda v: v.astype(np.int32) if perm is None else v.astype(np.int32).transpose(perm),
        _order(t, descending=down),
    )


class TopK(NamedTuple):
    """The result of `top_k`."""

    values: Tensor
    indices: Tensor


@diagnosed
def top_k(input: Any, k: Any = 1, sorted: bool = True, index_type: Any = dtypes.int32, name: str | None = None) -> TopK:
    """The k greatest elements of the last axis in descending order. Equal elements keep their order.

    Parameters
    ----------
    input : number tensor with at least one axis
    k : int
    sorted : bool
        Ignored, because the result is always sorted.
    index_type : dtype
        int32 or int64.

    Returns
    -------
    values, indices : Tensor
        Shape ``input.shape[:-1] + (k,)``, also as attributes of the pair.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the axis has fewer than k elements.

    Examples
    --------
    >>> values, indices = tf.math.top_k([1.0, 5.0, 3.0], k=2)
    >>> values.numpy(), indices.numpy()
    (array([5., 3.], dtype=float32), array([1, 2], dtype=int32))
    """
    t = _numbers(input, "top_k")
    n = scalar_int(k)
    if not t._layout.shape:
        raise InvalidArgumentError("top_k needs a tensor with at least one axis, not a scalar")
    if not 0 <= n <= t._layout.shape[-1]:
        raise InvalidArgumentError(
            f"top_k needs a last axis of at least k={n} elements, got shape {t._layout.tensor_shape}"
        )
    order = _order(t, descending=True)
    if n < t._layout.shape[-1] or order._record is not None:  # other picked elements may be more than k
        order = REGISTRY["strided_slice"](order, key=((None, None, 1),) * (t.ndim - 1) + ((0, n, 1),))
    kind = dtypes.np_dtype(index_type)
    return TopK(_taken(t, order), decided(lambda v: v.astype(kind), order))
