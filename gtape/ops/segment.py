"""Segments: reductions over the rows that have the same number, sorted or not."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.errors import InvalidArgumentError
from gtape.operands import operands
from gtape.ops.axes import scalar_int
from gtape.ops.gather import _scatter_rows_kernel, index_values
from gtape.primitive import REGISTRY, primitive
from gtape.tensor import Tensor, as_operand, wrap

__all__ = [
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_prod",
    "segment_sum",
    "unsorted_segment_max",
    "unsorted_segment_mean",
    "unsorted_segment_min",
    "unsorted_segment_prod",
    "unsorted_segment_sqrt_n",
    "unsorted_segment_sum",
]


# ---------------------------------------------------------------------------------------------- extrema


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
    # Where the extremum is NaN nothing equals it: 0 / 0 makes the whole segment NaN, as the value is.
    chosen = np.equal(x, extreme[ids]).astype(x.dtype)
    total = _scatter_rows_kernel(chosen, ids, size=size)
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
        ulps=0.5,
        public=False,
        samples=_SAMPLES,
    )


_share("segment_max_share", _max_share_kernel)
_share("segment_min_share", _min_share_kernel)


def _pull(xp: Any, g: Any, x: Any, ids: Any, share: Any, size: int) -> Any:
    return xp.gather(g, ids, axis=-len(tuple(x.shape)), size=size) * share


def _push(xp: Any, t: Any, x: Any, ids: Any, share: Any, size: int) -> Any:
    return xp.scatter(t * share, ids, axis=-len(tuple(x.shape)), size=size)


_segment_max = primitive(
    "segment_max",
    _max_kernel,
    (lambda xp, g, y, x, ids, *, size: _pull(xp, g, x, ids, xp.segment_max_share(x, ids, size=size), size), None),
    (lambda xp, t, y, x, ids, *, size: _push(xp, t, x, ids, xp.segment_max_share(x, ids, size=size), size), None),
    params=("size",),
    batched=True,
    selects=True,
    kinks=_TIES,
    ulps=0.0,
    public=False,
    samples=_SAMPLES,
)
_segment_min = primitive(
    "segment_min",
    _min_kernel,
    (lambda xp, g, y, x, ids, *, size: _pull(xp, g, x, ids, xp.segment_min_share(x, ids, size=size), size), None),
    (lambda xp, t, y, x, ids, *, size: _push(xp, t, x, ids, xp.segment_min_share(x, ids, size=size), size), None),
    params=("size",),
    batched=True,
    selects=True,
    kinks=_TIES,
    ulps=0.0,
    public=False,
    samples=_SAMPLES,
)


# ---------------------------------------------------------------------------------------------- rows and their numbers


def _numbers(data: Any, op: str) -> Tensor:
    t = as_operand(data)
    if t._aval.dtype.kind == "b":
        raise InvalidArgumentError(f"{op} needs numbers, not bool: use gtape.cast(data, gtape.int32) first")
    return t


def _sorted(data: Any, segment_ids: Any, op: str) -> tuple[Tensor, Any, int]:
    """The rows, their numbers and how many segments there are: the last number and one."""
    t = _numbers(data, op)
    ids = index_values(segment_ids, op)
    if ids.ndim != 1 or not t._aval.shape or t._aval.shape[0] != ids.size:
        raise InvalidArgumentError(
            f"{op}: segment_ids must be a vector with one number for each row of data, got shape {list(ids.shape)} "
            f"for data of shape {t._aval.tensor_shape}"
        )
    if ids.size and (ids[0] < 0 or (np.diff(ids) < 0).any()):
        raise InvalidArgumentError(
            f"{op}: segment ids are not increasing, or negative: sort them, or use unsorted_{op}, got {ids.tolist()}"
        )
    return t, ids, int(ids[-1]) + 1 if ids.size else 0


def _unsorted(data: Any, segment_ids: Any, num_segments: Any, op: str) -> tuple[Tensor, Any, int]:
    """The rows that have a number that counts, those numbers, and how many segments there are."""
    t = _numbers(data, op)
    ids = index_values(segment_ids, op)
    n = scalar_int(num_segments)
    if n < 0:
        raise InvalidArgumentError(f"{op}: num_segments must not be negative, got {n}")
    shape = t._aval.shape
    if shape[: ids.ndim] != ids.shape:
        raise InvalidArgumentError(
            f"{op}: data of shape {t._aval.tensor_shape} does not start with the shape {list(ids.shape)} of segment_ids"
        )
    if ids.size and int(ids.max()) >= n:
        raise InvalidArgumentError(
            f"{op}: segment_ids {int(ids.max())} is out of range [0, {n}): raise num_segments, or give what is to be "
            "dropped a negative number"
        )
    flat = ids.reshape(-1)
    if ids.ndim != 1:
        t = REGISTRY["reshape"](t, shape=(flat.size, *shape[ids.ndim :]))
    kept = np.flatnonzero(flat >= 0)
    if kept.size < flat.size:
        t = REGISTRY["gather"](t, wrap(kept), axis=-t.ndim, size=flat.size)
        flat = flat[kept]
    return t, flat, n


def _column(values: Any, t: Tensor) -> Tensor:
    """One number for each segment, in the rows' dtype, to broadcast against them."""
    return wrap(values.astype(t._aval.dtype).reshape(-1, *[1] * (t.ndim - 1)))


# ---------------------------------------------------------------------------------------------- the reductions


def _sum(t: Tensor, ids: Any, n: int) -> Tensor:
    return REGISTRY["scatter_rows"](t, wrap(ids), size=n)  # type: ignore[no-any-return]


def _divided(t: Tensor, ids: Any, n: int, root: bool = False) -> Tensor:
    counts = np.maximum(np.bincount(ids, minlength=n), 1)
    return REGISTRY["divide"](_sum(t, ids, n), _column(np.sqrt(counts) if root else counts, t))  # type: ignore[no-any-return]


def _whole_mean(t: Tensor, ids: Any, n: int) -> Tensor:
    """The mean of integers as an integer, rounded towards zero."""
    total = np.asarray(_sum(t, ids, n)._value)
    counts = np.maximum(np.bincount(ids, minlength=n), 1).reshape(-1, *[1] * (t.ndim - 1))
    return wrap((np.sign(total) * (np.abs(total) // counts)).astype(t._aval.dtype))


def _product(t: Tensor, ids: Any, n: int) -> Tensor:
    """Products of tables of rows, one table for all segments of about the same length, filled up with ones."""
    shape = t._aval.shape
    rows = shape[0]
    rest = shape[1:]
    if not rows:  # the product of nothing, connected with what it is the product of
        return REGISTRY["add"](_sum(t, ids, n), wrap(np.ones((n, *rest), t._aval.dtype)))  # type: ignore[no-any-return]
    counts = np.bincount(ids, minlength=n)
    order = np.argsort(ids, kind="stable")
    starts = np.cumsum(counts) - counts
    ones = wrap(np.ones((1, *rest), t._aval.dtype))
    whole = REGISTRY["concat"](t, ones, axis=0)
    order = np.append(order, rows)
    last = (*range(1, len(shape)), 0)
    made, places = [ones], np.zeros(n, np.int64)
    at = 1
    for k in range(max(int(counts.max(initial=0)) - 1, 0).bit_length() + 1):
        low, high = (2 ** (k - 1) if k else 0), 2**k
        mine = np.flatnonzero((counts > low) & (counts <= high))
        if not mine.size:
            continue
        step = np.arange(int(counts[mine].max()))
        table = np.where(step < counts[mine, None], starts[mine, None] + step, rows)
        found = REGISTRY["gather"](whole, wrap(order[table]), axis=-len(shape), size=rows + 1)
        # (segments, places, ...) -> (segments, ..., places), which is what prod multiplies over
        perm = (0, *[a + 1 for a in last])
        made.append(REGISTRY["prod"](REGISTRY["transpose"](found, perm=perm) if rest else found))
        places[mine] = at + np.arange(mine.size)
        at += mine.size
    together = REGISTRY["concat"](*made, axis=0)
    return REGISTRY["gather"](together, wrap(places), axis=-len(shape), size=at)  # type: ignore[no-any-return]


def _filled(prim: Any, t: Tensor, ids: Any, n: int, fill: Any) -> Tensor:
    y: Tensor = prim(t, wrap(ids), size=n)
    empty = np.bincount(ids, minlength=n) == 0
    if not empty.any():
        return y
    mask = np.broadcast_to(empty.reshape(-1, *[1] * (t.ndim - 1)), y._aval.shape)
    c, a, b = operands(wrap(mask), wrap(np.full(y._aval.shape, fill, y._aval.dtype)), y)
    return REGISTRY["where"](c, a, b)  # type: ignore[no-any-return]


# ---------------------------------------------------------------------------------------------- public functions


def segment_sum(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Sums of rows with the same number, which are sorted.

    Parameters
    ----------
    data : number tensor with at least one axis
    segment_ids : integer vector
        The number of each row; ascending, repeats allowed. The result has as many rows as the last number plus one.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor
        Shape ``(segments, *data.shape[1:])``; 0 for numbers that no row has.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When the numbers are not sorted, negative, or not one for each row.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.math.segment_sum([1.0, 2.0, 5.0], [0, 0, 2]).numpy()
    array([3., 0., 5.], dtype=float32)
    """
    return _sum(*_sorted(data, segment_ids, "segment_sum"))


def segment_mean(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Means of rows with the same number, which are sorted.

    Parameters
    ----------
    data, segment_ids, name
        As for `segment_sum`. The mean of integers is an integer, rounded towards zero.

    Returns
    -------
    Tensor
        0 for numbers that no row has.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        As for `segment_sum`.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.math.segment_mean([1.0, 2.0, 5.0], [0, 0, 2]).numpy()
    array([1.5, 0. , 5. ], dtype=float32)
    """
    t, ids, n = _sorted(data, segment_ids, "segment_mean")
    return (_divided if t._aval.inexact else _whole_mean)(t, ids, n)


def segment_prod(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Products of rows with the same number, which are sorted; the gradient is exact with any number of zeros.

    Parameters
    ----------
    data, segment_ids, name
        As for `segment_sum`.

    Returns
    -------
    Tensor
        1 for numbers that no row has.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        As for `segment_sum`.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.math.segment_prod([2.0, 3.0, 5.0], [0, 0, 2]).numpy()
    array([6., 1., 5.], dtype=float32)
    """
    return _product(*_sorted(data, segment_ids, "segment_prod"))


def segment_max(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Greatest elements of rows with the same number, which are sorted; equal ones share the gradient equally.

    Parameters
    ----------
    data, segment_ids, name
        As for `segment_sum`.

    Returns
    -------
    Tensor
        0 for numbers that no row has.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        As for `segment_sum`.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.math.segment_max([1.0, 2.0, -5.0], [0, 0, 2]).numpy()
    array([ 2.,  0., -5.], dtype=float32)
    """
    t, ids, n = _sorted(data, segment_ids, "segment_max")
    return _segment_max(t, wrap(ids), size=n)  # type: ignore[no-any-return]


def segment_min(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Least elements of rows with the same number, which are sorted; equal ones share the gradient equally.

    Parameters
    ----------
    data, segment_ids, name
        As for `segment_sum`.

    Returns
    -------
    Tensor
        0 for numbers that no row has.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        As for `segment_sum`.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.math.segment_min([1.0, 2.0, 5.0], [0, 0, 2]).numpy()
    array([1., 0., 5.], dtype=float32)
    """
    t, ids, n = _sorted(data, segment_ids, "segment_min")
    return _segment_min(t, wrap(ids), size=n)  # type: ignore[no-any-return]


def unsorted_segment_sum(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Sums of slices with the same number, in any order.

    Parameters
    ----------
    data : number tensor
    segment_ids : integer tensor
        Its shape is that of the first axes of `data`. Slices with a negative number are dropped.
    num_segments : int
        How many rows the result has; more than the greatest number.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor
        Shape ``(num_segments, *data.shape[segment_ids.ndim:])``; 0 for numbers that no slice has.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When a number is too great, or the shapes do not fit.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.math.unsorted_segment_sum([1.0, 2.0, 5.0, 7.0], [2, 0, 2, -1], 3).numpy()
    array([2., 0., 6.], dtype=float32)
    """
    return _sum(*_unsorted(data, segment_ids, num_segments, "unsorted_segment_sum"))


def unsorted_segment_mean(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Means of slices with the same number, in any order.

    Parameters
    ----------
    data, segment_ids, num_segments, name
        As for `unsorted_segment_sum`.

    Returns
    -------
    Tensor
        0 for numbers that no slice has; float64 for integers.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        As for `unsorted_segment_sum`.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.math.unsorted_segment_mean([1.0, 2.0, 5.0], [1, 0, 1], 3).numpy()
    array([2., 3., 0.], dtype=float32)
    """
    return _divided(*_unsorted(data, segment_ids, num_segments, "unsorted_segment_mean"))


def unsorted_segment_sqrt_n(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Sums of slices with the same number, divided by the square root of how many there are.

    Parameters
    ----------
    data, segment_ids, num_segments, name
        As for `unsorted_segment_sum`.

    Returns
    -------
    Tensor
        0 for numbers that no slice has.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        As for `unsorted_segment_sum`; also for integers.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.math.unsorted_segment_sqrt_n([1.0, 2.0, 5.0, 1.0, 1.0], [1, 0, 1, 1, 1], 2).numpy()
    array([2., 4.], dtype=float32)
    """
    t, ids, n = _unsorted(data, segment_ids, num_segments, "unsorted_segment_sqrt_n")
    if not t._aval.inexact:
        raise InvalidArgumentError(
            f"unsorted_segment_sqrt_n needs a floating-point tensor, not {t.dtype.name}: use gtape.cast first"
        )
    return _divided(t, ids, n, root=True)


def unsorted_segment_prod(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Products of slices with the same number, in any order; the gradient is exact with any number of zeros.

    Parameters
    ----------
    data, segment_ids, num_segments, name
        As for `unsorted_segment_sum`.

    Returns
    -------
    Tensor
        1 for numbers that no slice has.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        As for `unsorted_segment_sum`.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.math.unsorted_segment_prod([3.0, 2.0, 5.0], [1, 0, 1], 3).numpy()
    array([ 2., 15.,  1.], dtype=float32)
    """
    return _product(*_unsorted(data, segment_ids, num_segments, "unsorted_segment_prod"))


def unsorted_segment_max(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Greatest elements of slices with the same number, in any order; equal ones share the gradient equally.

    Parameters
    ----------
    data, segment_ids, num_segments, name
        As for `unsorted_segment_sum`.

    Returns
    -------
    Tensor
        The dtype's least finite value for numbers that no slice has.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        As for `unsorted_segment_sum`.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.math.unsorted_segment_max([3.0, -2.0, 5.0], [1, 0, 1], 2).numpy()
    array([-2.,  5.], dtype=float32)
    """
    t, ids, n = _unsorted(data, segment_ids, num_segments, "unsorted_segment_max")
    return _filled(_segment_max, t, ids, n, t.dtype.min)


def unsorted_segment_min(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Least elements of slices with the same number, in any order; equal ones share the gradient equally.

    Parameters
    ----------
    data, segment_ids, num_segments, name
        As for `unsorted_segment_sum`.

    Returns
    -------
    Tensor
        The dtype's greatest finite value for numbers that no slice has.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        As for `unsorted_segment_sum`.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.math.unsorted_segment_min([3.0, -2.0, 5.0], [1, 0, 1], 2).numpy()
    array([-2.,  3.], dtype=float32)
    """
    t, ids, n = _unsorted(data, segment_ids, num_segments, "unsorted_segment_min")
    return _filled(_segment_min, t, ids, n, t.dtype.max)
