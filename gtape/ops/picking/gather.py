"""Gather and scatter: elements and slices selected by index, multi-index or mask, and the transposes of these ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.shown import shown
from gtape.declare.conventions import NOT_TAKEN, SUMMED
from gtape.declare.primitives import REGISTRY, primitive
from gtape.declare.rounding import EXACT, SUM
from gtape.engine.sparse import SparseCotangent
from gtape.engine.worlds import NUMPY, TAPE
from gtape.errors import InvalidArgumentError
from gtape.ops.shape.decisions import checked, decided, is_followed, truth_decided
from gtape.recording.record import checked_later
from gtape.tensors.axes import one_axis, scalar_int, shape_of
from gtape.tensors.tensor import Tensor, as_operand, wrap

__all__ = ["boolean_mask", "gather", "gather_nd"]


# ---------------------------------------------------------------------------------------------- primitives


def _gather_kernel(x: Any, indices: Any, *, axis: int, size: int) -> Any:
    return np.take(x, indices, axis=axis)


def _scatter_kernel(g: Any, indices: Any, *, axis: int, size: int) -> Any:
    k = np.ndim(indices)
    tail = -axis - 1
    shape = g.shape
    front = len(shape) - k - tail
    rows, columns = int(np.prod(shape[:front])), int(np.prod(shape[len(shape) - tail :]))
    flat = np.asarray(indices, dtype=np.intp).reshape(-1)
    out_shape = (*shape[:front], size, *shape[len(shape) - tail :])
    # Flat positions, because np.add.at is fast for flat arrays only.
    at = (np.arange(rows)[:, None, None] * size + flat[:, None]) * columns + np.arange(columns)
    out = np.zeros(rows * size * columns, g.dtype)
    np.add.at(out, at.reshape(-1), g.reshape(-1))
    return out.reshape(out_shape)


def scatter_rows_kernel(g: Any, indices: Any, *, size: int) -> Any:
    """Add rows to a tensor of `size` rows of zeros, at the indices `indices`."""
    return _scatter_kernel(g, indices, axis=-1 - (g.ndim - np.ndim(indices)), size=size)


def _gather_rows_vjp(xp: Any, g: Any, indices: Any, axis: int, size: int) -> Any:
    if len(shape_of(g)) == len(shape_of(indices)) - axis - 1:
        return xp.scatter_rows(g, indices, size=size)
    return xp.scatter(g, indices, axis=axis, size=size)


def _row_axis(x: Any, indices: Any) -> int:
    """The axis of the rows in the result of a scatter, counted from the end because batch axes may come first."""
    return len(shape_of(indices)) - len(shape_of(x)) - 1


def _as_slices(g: Any, indices: Any, x: Any) -> SparseCotangent:
    world = TAPE if isinstance(g, Tensor) else NUMPY
    flat = np.reshape(indices, -1)
    return SparseCotangent(world.reshape(g, shape=(flat.size, *x.shape[1:])), flat, x.shape)


_SOME = np.array([2, 0, 2])
_TABLE = np.array([[0, 1], [1, 1]])

_gather_rows = primitive(
    "gather_rows", _gather_kernel,
    (lambda xp, g, y, x, indices, *, axis, size: _gather_rows_vjp(xp, g, indices, axis, shape_of(x)[axis]), None),
    (lambda xp, t, y, x, indices, *, axis, size: xp.gather(t, indices, axis=axis, size=size), None),
    reads=((1,), ()), params=("axis", "size"), batched=True, selects=True, sparse=_as_slices, rounding=EXACT,
    complex=True,
    samples=(
        (((3,), _SOME), {"axis": -1, "size": 3}),
        (((3, 2), _SOME), {"axis": -2, "size": 3}),
        (((2, 2), _TABLE), {"axis": -2, "size": 2}),
        (((3,), np.array(1)), {"axis": -1, "size": 3}),
    ),
)  # fmt: skip
_scatter_rows = primitive(
    "scatter_rows", scatter_rows_kernel,
    (lambda xp, g, y, x, indices, *, size: xp.gather(g, indices, axis=_row_axis(x, indices), size=size), None),
    (lambda xp, t, y, x, indices, *, size: xp.scatter(t, indices, axis=_row_axis(x, indices), size=size), None),
    reads=((1,), ()), params=("size",), batched=True, complex=True, role="accumulate", rounding=SUM,
    samples=(
        (((3,), _SOME), {"size": 3}),
        (((3, 2), _SOME), {"size": 4}),
        (((2, 2, 2), _TABLE), {"size": 2}),
        (((), np.array(1)), {"size": 3}),
    ),
    conventions=SUMMED,
)  # fmt: skip
_gather = primitive(
    "gather", _gather_kernel,
    # The size of x itself, because x may hold other elements than recorded beside a tie of the mask that picks them.
    (lambda xp, g, y, x, indices, *, axis, size: xp.scatter(g, indices, axis=axis, size=shape_of(x)[axis]), None),
    (lambda xp, t, y, x, indices, *, axis, size: xp.gather(t, indices, axis=axis, size=size), None),
    reads=((1,), ()), params=("axis", "size"), batched=True, selects=True, role="move", rounding=EXACT, complex=True,
    samples=(
        (((3,), _SOME), {"axis": -1, "size": 3}),
        (((2, 3), _SOME), {"axis": -1, "size": 3}),
        (((2, 2), _TABLE), {"axis": -2, "size": 2}),
        (((2, 3), np.array(1)), {"axis": -1, "size": 3}),
        (((3,), np.zeros(0, np.int64)), {"axis": -1, "size": 3}),
    ),
    conventions=NOT_TAKEN,
)  # fmt: skip
_scatter = primitive(
    "scatter", _scatter_kernel,
    (lambda xp, g, y, x, indices, *, axis, size: xp.gather(g, indices, axis=axis, size=size), None),
    (lambda xp, t, y, x, indices, *, axis, size: xp.scatter(t, indices, axis=axis, size=size), None),
    reads=((1,), ()), params=("axis", "size"), batched=True, complex=True, rounding=SUM,
    samples=(
        (((3,), _SOME), {"axis": -1, "size": 3}),
        (((2, 3), _SOME), {"axis": -1, "size": 3}),
        (((2, 2, 2), _TABLE), {"axis": -2, "size": 2}),
        (((2,), np.array(1)), {"axis": -1, "size": 3}),
    ),
    conventions=SUMMED,
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- public functions


def integers(indices: Any, what: str) -> Tensor:
    """An integer operand. What an op makes of its values is `decided` by them."""
    t = as_operand(indices)
    if t._layout.dtype.kind in "iu":
        return t
    if not t._layout.size:
        return wrap(np.zeros(t._layout.shape, np.int64))
    raise InvalidArgumentError(f"{what} needs integer indices, not {t.dtype.name}: use gtape.cast(x, gtape.int32)")


def _itself(at: Any) -> Any:
    return at


def check_range(indices: Any, size: int, what: str) -> None:
    """Raise an error for indices outside 0 ... size - 1. Negative indices are outside, too."""
    if indices.size:
        low, high = int(indices.min()), int(indices.max())
        if low < 0 or high >= size:
            raise InvalidArgumentError(f"{what}: index {low if low < 0 else high} is not in [0, {size})")


@diagnosed
def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    axis: Any = None,
    batch_dims: Any = 0,
    name: str | None = None,
) -> Tensor:
    """Take slices along an axis by index.

    If a source itself is gathered along axis 0, its gradient is an `IndexedSlices`.

    Parameters
    ----------
    params : tensor with at least one axis
    indices : integer tensor, any shape
    validate_indices : None
        Ignored: indices are always checked.
    axis : int, optional
        `batch_dims` by default.
    batch_dims : int
        The number of common leading axes of `params` and `indices`.

    Returns
    -------
    Tensor
        Shape ``params.shape[:axis] + indices.shape[batch_dims:] + params.shape[axis + 1:]``.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If an index or the axis is out of range, or the batch axes differ.

    Examples
    --------
    >>> tf.gather([10.0, 20.0, 30.0], [2, 0]).numpy()
    array([30., 10.], dtype=float32)
    """
    t = as_operand(params)
    shape = t._layout.shape
    indices = integers(indices, "gather")
    places = indices._layout.shape
    b = scalar_int(batch_dims)
    if b < 0:
        b += len(places)
    if not shape:
        raise InvalidArgumentError("gather needs a tensor with at least one axis, not a scalar")
    a = one_axis(b if axis is None else axis, len(shape))
    if not 0 <= b <= min(len(places), a) or places[:b] != shape[:b]:
        raise InvalidArgumentError(
            f"batch_dims={batch_dims} does not fit params of shape {t._layout.tensor_shape}, "
            f"indices of shape {list(places)} and axis {a}"
        )
    size = shape[a]
    checked(lambda at: check_range(at, size, "gather"), indices)
    if not b:
        # As in TensorFlow, the gradient is an IndexedSlices if the axis is given as 0.
        spelt = 0 if axis is None else scalar_int(axis)
        prim = _gather if spelt else _gather_rows
        return prim(t, decided(_itself, indices), axis=a - len(shape), size=size)
    # Batches become one long axis. Each index gets the offset of its batch.
    batch = int(np.prod(shape[:b]))
    middle, rest = shape[b:a], shape[a + 1 :]
    order = (*range(b), a, *range(b, a), *range(a + 1, len(shape)))
    rows = REGISTRY["transpose"](t, perm=order) if a != b else t
    rows = REGISTRY["reshape"](rows, shape=(batch * shape[a], *middle, *rest))
    inner = places[b:]
    starts = size * np.arange(batch)[:, None]

    def flat(at: Any) -> Any:
        return (at.reshape(batch, int(np.prod(inner))).astype(np.int64) + starts).reshape(shape[:b] + inner)

    taken = _gather(rows, decided(flat, indices), axis=-len(rows._layout.shape), size=batch * shape[a])
    if not middle or not inner:
        return taken
    n, m = len(inner), len(middle)
    return REGISTRY["transpose"](
        taken, perm=(*range(b), *range(b + n, b + n + m), *range(b, b + n), *range(b + n + m, taken.ndim))
    )


def flat_indices(indices: Any, shape: tuple[int, ...], what: str) -> Any:
    """Row-major positions of the multi-indices along the last axis. InvalidArgumentError if one is out of range."""
    flat = np.zeros(indices.shape[:-1], np.int64)
    for i, n in enumerate(shape):
        check_range(indices[..., i], n, f"{what}, component {i} of the indices")
        flat = flat * n + indices[..., i]
    return flat


def rows_inside(at: Any, shape: tuple[int, ...], policy: str, what: str) -> tuple[Any, Any]:
    """Row-major positions of multi-indices, and a mask of those in range; None if all have to be in range."""
    if policy not in ("", "DEFAULT", "ERROR", "IGNORE"):
        raise InvalidArgumentError(f"{what}: bad_indices_policy is 'DEFAULT', 'ERROR' or 'IGNORE', not {shown(policy)}")
    inside = None
    if policy == "IGNORE":
        inside = ((at >= 0) & (at < np.array(shape, np.int64))).all(axis=-1)
        at = np.where(inside[..., None], at, 0)
        if not all(shape):
            inside, at = np.zeros(inside.shape, np.bool_), at[..., :0]
            shape = ()
    return flat_indices(at, shape, what), inside


@diagnosed
@documented_like(gather)
def gather_nd(
    params: Any, indices: Any, batch_dims: Any = 0, name: str | None = None, bad_indices_policy: str = ""
) -> Tensor:
    """Take elements or slices by multi-index.

    Parameters
    ----------
    params : tensor
    indices : integer tensor, shape (..., k)
        Each row is an index of the first k axes (after the batch axes).
    bad_indices_policy : {"", "DEFAULT", "ERROR", "IGNORE"}
        With "IGNORE", an index out of range gives zeros.

    Returns
    -------
    Tensor
        Shape ``indices.shape[:-1] + params.shape[batch_dims + k:]``.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If an index is out of range, or the shapes do not fit.

    Examples
    --------
    >>> tf.gather_nd([[1.0, 2.0], [3.0, 4.0]], [[0, 1], [1, 0]]).numpy()
    array([2., 3.], dtype=float32)
    """
    t = as_operand(params)
    shape = t._layout.shape
    indices = integers(indices, "gather_nd")
    given = indices._layout.shape
    b = scalar_int(batch_dims)
    if not given or b < 0 or b >= len(given) or given[:b] != shape[:b] or b + given[-1] > len(shape):
        raise InvalidArgumentError(
            f"gather_nd: indices of shape {list(given)} do not fit params of shape {t._layout.tensor_shape} "
            f"with batch_dims={b}"
        )
    k = b + given[-1]

    def read(at: Any) -> Any:
        if b:
            batch = np.indices(at.shape[:-1], dtype=np.int64)[:b]
            at = np.concatenate([np.moveaxis(batch, 0, -1), at.astype(np.int64)], axis=-1)
        return rows_inside(at, shape[:k], bad_indices_policy, "gather_nd")

    checked_later(read, [indices])  # because a compiled program drops unused results
    n = int(np.prod(shape[:k]))
    ignores = bad_indices_policy == "IGNORE"
    if not ignores or (not is_followed(indices) and truth_decided(lambda v: read(v)[1].all(), indices)):
        places = decided(lambda v: read(v)[0], indices)
        rows = REGISTRY["reshape"](t, shape=(n, *shape[k:]))
        return _gather(rows, places, axis=k - len(shape) - 1, size=n)

    def kept(at: Any) -> Any:
        flat, inside = read(at)
        return np.where(inside, flat, n)

    zeros = wrap(np.zeros((1, *shape[k:]), t._layout.dtype))
    rows = REGISTRY["concat"](REGISTRY["reshape"](t, shape=(n, *shape[k:])), zeros, axis=0)
    return _gather(rows, decided(kept, indices), axis=k - len(shape) - 1, size=n + 1)


@diagnosed
def boolean_mask(tensor: Any, mask: Any, axis: Any = None, name: str = "boolean_mask") -> Tensor:
    """The elements or slices where a mask is true.

    Parameters
    ----------
    tensor : tensor
    mask : bool or number tensor with at least one axis
        Nonzero numbers are true. The mask has the shape of the tensor's axes from `axis` on.
    axis : int, optional
        0 by default.

    Raises
    ------
    ValueError
        If the shapes do not fit or the mask is a scalar.

    Examples
    --------
    >>> tf.boolean_mask([1.0, 2.0, 3.0], [True, False, True]).numpy()
    array([1., 3.], dtype=float32)
    """
    t = as_operand(tensor)
    m = as_operand(mask)
    chosen = np.asarray(m._value) != 0
    if not chosen.ndim:
        raise ValueError("mask cannot be scalar.")
    shape = t._layout.shape
    a = 0 if axis is None else one_axis(axis, len(shape))
    k = chosen.ndim
    if shape[a : a + k] != chosen.shape:
        raise ValueError(
            f"Shapes {shape[a : a + k]} and {chosen.shape} are incompatible: the mask must have the shape of the axes "
            "that it masks"
        )
    n = chosen.size
    rows = t if k == 1 else REGISTRY["reshape"](t, shape=(*shape[:a], n, *shape[a + k :]))
    return _gather(rows, decided(lambda v: np.flatnonzero(v != 0), m), axis=a - rows.ndim, size=n)
