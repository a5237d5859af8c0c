"""Scattering by multi-index: into zeros; and into a tensor, by adding, subtracting, replacing or taking extrema."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.declare.primitives import REGISTRY
from gtape.errors import InvalidArgumentError
from gtape.ops.picking.gather import integers, rows_inside
from gtape.ops.shape.decisions import decided, is_followed, truth_decided
from gtape.recording.record import checked_later
from gtape.tensors.axes import static_ints
from gtape.tensors.tensor import Tensor, as_operand

__all__ = [
    "scatter_nd", "tensor_scatter_nd_add", "tensor_scatter_nd_max", "tensor_scatter_nd_min", "tensor_scatter_nd_sub",
    "tensor_scatter_nd_update",
]  # fmt: skip


def _rows(
    indices: Any, updates: Tensor, shape: tuple[int, ...], op: str, policy: str = ""
) -> tuple[Tensor, Tensor, int, tuple[int, ...]]:
    """Flat row numbers, the updates as rows, the number of rows of the whole, and the shape of a row."""
    where = integers(indices, op)
    given = where._layout.shape
    if not given or given[-1] > len(shape):
        raise InvalidArgumentError(f"{op}: indices of shape {list(given)} do not fit a tensor of shape {list(shape)}")
    k = given[-1]
    rest = shape[k:]
    if updates._layout.shape != given[:-1] + rest:
        raise InvalidArgumentError(
            f"{op}: updates must have shape {[*given[:-1], *rest]} for indices of shape {list(given)} and "
            f"a tensor of shape {list(shape)}, "
            f"got {list(updates._layout.shape)}"
        )

    def read(v: Any) -> Any:
        return rows_inside(v, shape[:k], policy, op)

    def flat(v: Any) -> Any:
        found, inside = read(v)
        return found.reshape(-1) if inside is None else found[inside]

    checked_later(read, [where])  # because a compiled program drops unused results
    places = decided(flat, where)
    size = math.prod(given[:-1])
    rows: Tensor = REGISTRY["reshape"](updates, shape=(size, *rest))
    if policy == "IGNORE" and (is_followed(where) or places._layout.size < size):
        kept = decided(lambda v: np.flatnonzero(read(v)[1]), where)
        rows = REGISTRY["gather"](rows, kept, axis=-1 - len(rest), size=size)
    return places, rows, int(np.prod(shape[:k])), rest


def _scattered(flat: Tensor, rows: Tensor, n: int, shape: tuple[int, ...]) -> Tensor:
    return REGISTRY["reshape"](REGISTRY["scatter_rows"](rows, flat, size=n), shape=shape)


@diagnosed
def scatter_nd(indices: Any, updates: Any, shape: Any, bad_indices_policy: str = "", name: str | None = None) -> Tensor:
    """Put updates into zeros by multi-index. Updates with the same index are added.

    Parameters
    ----------
    indices : integer tensor, shape (..., k)
    updates : tensor, shape ``indices.shape[:-1] + shape[k:]``
    shape : sequence of int
        The shape of the result.
    bad_indices_policy : {"", "DEFAULT", "ERROR", "IGNORE"}
        With "IGNORE", updates with an index out of range are dropped.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If an index is out of range, or the shapes do not fit.

    Examples
    --------
    >>> tf.scatter_nd([[1], [1]], [1.0, 2.0], [3]).numpy()
    array([0., 3., 0.], dtype=float32)
    """
    whole = static_ints(shape)
    flat, rows, n, _ = _rows(indices, as_operand(updates), whole, "scatter_nd", bad_indices_policy)
    return _scattered(flat, rows, n, whole)


def _both(tensor: Any, updates: Any, op: str) -> tuple[Tensor, Tensor]:
    t = as_operand(tensor)
    u = as_operand(updates, t)
    if t._layout.dtype != u._layout.dtype:
        raise InvalidArgumentError(
            f"{op}: the tensor is {t.dtype.name} but the updates are {u.dtype.name}: cast one of them with gtape.cast"
        )
    return t, u


@diagnosed
@documented_like(scatter_nd)
def tensor_scatter_nd_add(
    tensor: Any, indices: Any, updates: Any, bad_indices_policy: str = "", name: str | None = None
) -> Tensor:
    """A tensor with updates added by multi-index. Updates with the same index are added.

    Parameters
    ----------
    tensor : tensor
    updates : tensor, shape ``indices.shape[:-1] + tensor.shape[k:]``

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If an index is out of range, or shapes or dtypes do not fit.

    Examples
    --------
    >>> tf.tensor_scatter_nd_add([1.0, 2.0], [[0]], [5.0]).numpy()
    array([6., 2.], dtype=float32)
    """
    t, u = _both(tensor, updates, "tensor_scatter_nd_add")
    flat, rows, n, _ = _rows(indices, u, t._layout.shape, "tensor_scatter_nd_add", bad_indices_policy)
    return t + _scattered(flat, rows, n, t._layout.shape)


@diagnosed
@documented_like(tensor_scatter_nd_add)
def tensor_scatter_nd_sub(
    tensor: Any, indices: Any, updates: Any, bad_indices_policy: str = "", name: str | None = None
) -> Tensor:
    """A tensor with updates subtracted by multi-index. Updates with the same index are added.

    Examples
    --------
    >>> tf.tensor_scatter_nd_sub([1.0, 2.0], [[0]], [5.0]).numpy()
    array([-4.,  2.], dtype=float32)
    """
    t, u = _both(tensor, updates, "tensor_scatter_nd_sub")
    flat, rows, n, _ = _rows(indices, u, t._layout.shape, "tensor_scatter_nd_sub", bad_indices_policy)
    return t - _scattered(flat, rows, n, t._layout.shape)


@diagnosed
@documented_like(tensor_scatter_nd_add)
def tensor_scatter_nd_update(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """A tensor with elements or slices replaced by multi-index. Of updates with the same index, the last counts.

    Examples
    --------
    >>> tf.tensor_scatter_nd_update([1.0, 2.0], [[0]], [5.0]).numpy()
    array([5., 2.], dtype=float32)
    """
    t, u = _both(tensor, updates, "tensor_scatter_nd_update")
    shape = t._layout.shape
    flat, rows, n, rest = _rows(indices, u, shape, "tensor_scatter_nd_update")
    size = flat._layout.size
    if is_followed(flat) or truth_decided(lambda v: np.unique(v).size < size, flat):
        winners = decided(lambda v: v.size - 1 - np.unique(v[::-1], return_index=True)[1], flat)
        rows = REGISTRY["gather"](rows, winners, axis=-1 - len(rest), size=size)
        flat = decided(np.unique, flat)

    def mask(v: Any) -> Any:
        touched = np.zeros(n, np.bool_)
        touched[v] = True
        return np.broadcast_to(touched.reshape(n, *[1] * len(rest)), (n, *rest)).reshape(shape)

    return REGISTRY["where"](decided(mask, flat), _scattered(flat, rows, n, shape), t)


def _extreme(tensor: Any, indices: Any, updates: Any, policy: str, which: str) -> Tensor:
    """Reduce the tensor's own rows together with the updates, because all equal extrema share the gradient."""
    op = f"tensor_scatter_nd_{which}"
    t, u = _both(tensor, updates, op)
    shape = t._layout.shape
    flat, rows, n, rest = _rows(indices, u, shape, op, policy)
    own = REGISTRY["reshape"](t, shape=(n, *rest))
    together = REGISTRY["concat"](own, rows, axis=0)
    ids = decided(lambda v: np.concatenate([np.arange(n), v]), flat)
    y = REGISTRY[f"segment_{which}"](together, ids, size=n)
    return REGISTRY["reshape"](y, shape=shape)


@diagnosed
@documented_like(tensor_scatter_nd_add)
def tensor_scatter_nd_max(
    tensor: Any, indices: Any, updates: Any, bad_indices_policy: str = "", name: str | None = None
) -> Tensor:
    """The greater of the tensor and of updates by multi-index. Equal elements share the gradient equally.

    Examples
    --------
    >>> tf.tensor_scatter_nd_max([1.0, 2.0], [[0], [1]], [5.0, 1.0]).numpy()
    array([5., 2.], dtype=float32)
    """
    return _extreme(tensor, indices, updates, bad_indices_policy, "max")


@diagnosed
@documented_like(tensor_scatter_nd_add)
def tensor_scatter_nd_min(
    tensor: Any, indices: Any, updates: Any, bad_indices_policy: str = "", name: str | None = None
) -> Tensor:
    """The lesser of the tensor and of updates by multi-index. Equal elements share the gradient equally.

    Examples
    --------
    >>> tf.tensor_scatter_nd_min([1.0, 2.0], [[0], [1]], [5.0, 1.0]).numpy()
    array([1., 1.], dtype=float32)
    """
    return _extreme(tensor, indices, updates, bad_indices_policy, "min")
