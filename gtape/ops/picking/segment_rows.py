"""Reductions of segments. A segment consists of the rows with the same number."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.declare.conventions import TIED
from gtape.declare.primitives import REGISTRY, primitive
from gtape.declare.rounding import EXACT, ulps
from gtape.errors import InvalidArgumentError, OperandTypeError
from gtape.ops.picking.gather import integers, scatter_rows_kernel
from gtape.ops.shape.decisions import checked, decided, is_followed, size_decided, truth_decided
from gtape.tensors.axes import scalar_int
from gtape.tensors.operands import operands
from gtape.tensors.tensor import Tensor, as_operand, wrap

__all__ = [
    "divided", "filled", "products", "segment_max_op", "segment_min_op", "sorted_rows", "sums", "unsorted_rows",
    "whole_mean",
]  # fmt: skip
NAMESPACES = None


def _extremes(x: Any, ids: Any, size: int, ufunc: Any) -> Any:
    out = np.zeros((size, *x.shape[1:]), x.dtype)
    ids = np.asarray(ids)
    if ids.size:
        order = np.argsort(ids, kind="stable")
        found, starts = np.unique(ids[order], return_index=True)
        out[found] = ufunc.reduceat(x[order], starts, axis=0)
    return out


def _max_kernel(x: Any, ids: Any, *, size: int) -> Any:
    return _extremes(x, ids, size, np.maximum)


def _min_kernel(x: Any, ids: Any, *, size: int) -> Any:
    return _extremes(x, ids, size, np.minimum)


def _shares(x: Any, ids: Any, size: int, extreme: Any) -> Any:
    # A NaN extremum equals no element, so the shares of the whole segment are 0 / 0, which is NaN.
    chosen = np.equal(x, extreme[ids]).astype(x.dtype)
    total = scatter_rows_kernel(chosen, ids, size=size)
    return chosen / total[ids]


def _max_share_kernel(x: Any, ids: Any, *, size: int) -> Any:
    return _shares(x, ids, size, _max_kernel(x, ids, size=size))


def _min_share_kernel(x: Any, ids: Any, *, size: int) -> Any:
    return _shares(x, ids, size, _min_kernel(x, ids, size=size))


_TIES = ("two elements of a segment are equal and extreme",)
_IDS = np.array([0, 0, 2])
_MIXED = np.array([1, 0, 1, 0])
_SAMPLES: tuple[Any, ...] = (
    (((3,), _IDS), {"size": 3}),
    (((4,), _MIXED), {"size": 2}),
    (((3, 2), _IDS), {"size": 4}),
    (((2, 1, 2), np.array([1, 1])), {"size": 2}),
    (((1,), np.array([0])), {"size": 1}),
    (((0, 2), np.zeros(0, np.int64)), {"size": 1}),
)


def _share(name: str, kernel: Any) -> None:
    primitive(
        name,
        kernel,
        (None, None),
        (None, None),
        params=("size",),
        kinks=_TIES,
        rounding=ulps(0.5),
        samples=_SAMPLES,
        conventions=TIED,
    )


_share("segment_max_share", _max_share_kernel)
_share("segment_min_share", _min_share_kernel)


def _pull(xp: Any, g: Any, x: Any, ids: Any, share: Any, size: int) -> Any:
    return xp.gather(g, ids, axis=-len(tuple(x.shape)), size=size) * share


def _push(xp: Any, t: Any, x: Any, ids: Any, share: Any, size: int) -> Any:
    return xp.scatter(t * share, ids, axis=-len(tuple(x.shape)), size=size)


_EXTREMUM: dict[str, Any] = {
    "reads": ((0, 1), ()), "params": ("size",), "batched": True, "selects": True, "kinks": _TIES, "rounding": EXACT,
    "samples": _SAMPLES, "conventions": TIED,
}  # fmt: skip
segment_max_op = primitive(
    "segment_max",
    _max_kernel,
    (lambda xp, g, y, x, ids, *, size: _pull(xp, g, x, ids, xp.segment_max_share(x, ids, size=size), size), None),
    (lambda xp, t, y, x, ids, *, size: _push(xp, t, x, ids, xp.segment_max_share(x, ids, size=size), size), None),
    **_EXTREMUM,
)
segment_min_op = primitive(
    "segment_min",
    _min_kernel,
    (lambda xp, g, y, x, ids, *, size: _pull(xp, g, x, ids, xp.segment_min_share(x, ids, size=size), size), None),
    (lambda xp, t, y, x, ids, *, size: _push(xp, t, x, ids, xp.segment_min_share(x, ids, size=size), size), None),
    **_EXTREMUM,
)


def _numbers(data: Any, op: str) -> Tensor:
    t = as_operand(data)
    if t._layout.dtype.kind in "bOSU":
        raise OperandTypeError(f"{op} needs numbers, not {t.dtype.name}: use gtape.cast(data, gtape.int32) first")
    if t._layout.complex and op.endswith(("_max", "_min")):
        raise InvalidArgumentError(f"{op}: complex numbers have no order; take gtape.math.real, imag or abs first")
    return t


def sorted_rows(data: Any, segment_ids: Any, op: str) -> tuple[Tensor, Tensor, int]:
    """The rows, their numbers, and the number of segments, which is the last number plus one."""
    t = _numbers(data, op)
    numbers = integers(segment_ids, op)
    given = numbers._layout.shape
    if len(given) != 1 or t._layout.shape[:1] != given:
        raise InvalidArgumentError(
            f"{op}: segment_ids must be a vector with one number for each row of data, got shape {list(given)} "
            f"for data of shape {t._layout.tensor_shape}"
        )

    def check(ids: Any) -> None:
        if ids.size and (ids[0] < 0 or (np.diff(ids) < 0).any()):
            raise InvalidArgumentError(
                f"{op}: segment ids are not increasing, or negative: sort them, or use unsorted_{op}, "
                f"got {ids.tolist()}"
            )

    checked(check, numbers)
    return t, decided(_itself, numbers), size_decided(_number_after_last, numbers) if given[0] else 0


def unsorted_rows(data: Any, segment_ids: Any, num_segments: Any, op: str) -> tuple[Tensor, Tensor, int]:
    """The rows whose numbers are not negative, these numbers, and the number of segments."""
    t = _numbers(data, op)
    numbers = integers(segment_ids, op)
    given = numbers._layout.shape
    n = scalar_int(num_segments)
    if n < 0:
        raise InvalidArgumentError(f"{op}: num_segments must not be negative, got {n}")
    shape = t._layout.shape
    if shape[: len(given)] != given:
        raise InvalidArgumentError(
            f"{op}: data of shape {t._layout.tensor_shape} does not start with the shape {list(given)} of segment_ids"
        )

    def check(ids: Any) -> None:
        if ids.size and int(ids.max()) >= n:
            raise InvalidArgumentError(
                f"{op}: segment_ids {int(ids.max())} is out of range [0, {n}): raise num_segments, or give what is to "
                "be dropped a negative number"
            )

    checked(check, numbers)
    size = numbers._layout.size
    if len(given) != 1:
        t = REGISTRY["reshape"](t, shape=(size, *shape[len(given) :]))
    if is_followed(numbers) or truth_decided(lambda v: (v < 0).any(), numbers):
        kept = decided(lambda v: np.flatnonzero(v >= 0), numbers)
        t = REGISTRY["gather"](t, kept, axis=-t.ndim, size=size)
    return t, decided(lambda v: v[v >= 0], numbers), n


def _itself(ids: Any) -> Any:
    return ids


def _number_after_last(ids: Any) -> Any:
    return ids[-1] + 1


def _column(values: Any, ndim: int) -> Any:
    """A vector with one number for each segment, in a shape that broadcasts against rows of `ndim` axes together."""
    return values.reshape(-1, *[1] * (ndim - 1))


def sums(t: Tensor, ids: Tensor, n: int) -> Tensor:
    """The sum of each segment's rows."""
    return REGISTRY["scatter_rows"](t, ids, size=n)


def divided(t: Tensor, ids: Tensor, n: int, root: bool = False) -> Tensor:
    """Sums divided by the number of rows, or by the root of that number."""
    dtype, ndim = np.dtype(np.int64) if root else t._layout.dtype, t.ndim
    counts = decided(lambda v: _column(np.maximum(np.bincount(v, minlength=n), 1), ndim).astype(dtype), ids)
    return REGISTRY["over_roots" if root else "divide"](sums(t, ids, n), counts)


def whole_mean(t: Tensor, ids: Tensor, n: int) -> Tensor:
    """The mean of integers as an integer, rounded towards zero."""
    dtype, ndim = t._layout.dtype, t.ndim

    def mean(total: Any, ids: Any) -> Any:
        counts = _column(np.maximum(np.bincount(ids, minlength=n), 1), ndim)
        return (np.sign(total) * (np.abs(total) // counts)).astype(dtype)

    return decided(mean, sums(t, ids, n), ids)


def products(t: Tensor, ids: Tensor, n: int) -> Tensor:
    """Products of rows. Segments of similar length share one table, padded with ones."""
    shape = t._layout.shape
    rows = shape[0]
    rest = shape[1:]
    if not rows:  # the empty product, still connected with `t`
        return REGISTRY["add"](sums(t, ids, n), wrap(np.ones((n, *rest), t._layout.dtype)))
    last = (*range(1, len(shape)), 0)
    # The axes become (segments, ..., places), because prod reduces the last axis.
    perm = (0, *[a + 1 for a in last])
    ones = wrap(np.ones((1, *rest), t._layout.dtype))
    whole = REGISTRY["concat"](t, ones, axis=0)

    def product(table: Tensor) -> Tensor:
        found = REGISTRY["gather"](whole, table, axis=-len(shape), size=rows + 1)
        return REGISTRY["prod"](REGISTRY["transpose"](found, perm=perm) if rest else found)

    if is_followed(ids):  # segments may have other lengths elsewhere
        return product(decided(lambda v: np.where(v == np.arange(n)[:, None], np.arange(v.size), v.size), ids))
    numbers = np.asarray(ids._value)
    counts = np.bincount(numbers, minlength=n)
    order = np.append(np.argsort(numbers, kind="stable"), rows)
    starts = np.cumsum(counts) - counts
    made, places = [ones], np.zeros(n, np.int64)
    at = 1
    for k in range(max(int(counts.max(initial=0)) - 1, 0).bit_length() + 1):
        low, high = (2 ** (k - 1) if k else 0), 2**k
        mine = np.flatnonzero((counts > low) & (counts <= high))
        if not mine.size:
            continue
        step = np.arange(int(counts[mine].max()))
        table = np.where(step < counts[mine, None], starts[mine, None] + step, rows)
        made.append(product(wrap(order[table])))
        places[mine] = at + np.arange(mine.size)
        at += mine.size
    together = REGISTRY["concat"](*made, axis=0)
    return REGISTRY["gather"](together, wrap(places), axis=-len(shape), size=at)


def filled(prim: Any, t: Tensor, ids: Tensor, n: int, fill: Any) -> Tensor:
    """An extremum of each segment. Segments without rows get `fill`."""
    y: Tensor = prim(t, ids, size=n)
    shape, ndim = y._layout.shape, t.ndim
    empty = decided(lambda v: np.broadcast_to(_column(np.bincount(v, minlength=n) == 0, ndim), shape), ids)
    if not (is_followed(ids) or truth_decided(np.any, empty)):
        return y
    c, a, b = operands(empty, wrap(np.full(y._layout.shape, fill, y._layout.dtype)), y)
    return REGISTRY["where"](c, a, b)
