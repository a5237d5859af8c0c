"""NumPy's functions with the same arguments, made of gtape's ops and recorded. The table is at the end.

The mean of integers is a float64, as in NumPy; all other results have the dtypes of gtape's ops.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.base.scalars import float_of
from gtape.base.shown import shown
from gtape.declare.primitives import REGISTRY
from gtape.interop.numpy_arrays import ARRAYS, T, axis_of, op_named, rank_of, ravel
from gtape.ops.reduction.moments import standard_deviation
from gtape.tensors.axes import axes_of
from gtape.tensors.tensor import Tensor, as_operand, convert_to_tensor, is_tensor, wrap

__all__ = ["FUNCTIONS", "LAYOUT_ONLY", "VALUES_ONLY"]


def _floats(a: Any, dtype: Any = None) -> Any:
    """A tensor of floats. Integers become float64, as in NumPy."""
    t = as_operand(a)
    if dtype is not None:
        return T.cast(t, dtype)
    return t if t._layout.inexact else T.cast(t, np.float64)


def _as(a: Any, dtype: Any) -> Any:
    t = as_operand(a)
    if dtype is None and t._layout.dtype.kind == "b":  # because NumPy counts the true elements
        dtype = np.int64
    return t if dtype is None else T.cast(t, dtype)


# ---------------------------------------------------------------------------------------------- reductions


def _reduction(name: str) -> Callable[..., Any]:
    def reduce(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
        return getattr(T, name)(_as(a, dtype), axis=axis, keepdims=keepdims)

    return reduce


def _extreme(name: str, of: Callable[[Any], Any] = lambda a: a) -> Callable[..., Any]:
    """A reduction of ``of(a)`` without the option `dtype`."""

    def reduce(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        return getattr(T, name)(of(a), axis=axis, keepdims=keepdims)

    return reduce


def _truth(a: Any) -> Any:
    return T.cast(as_operand(a), np.bool_)


def _mean(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    return T.reduce_mean(_floats(a, dtype), axis=axis, keepdims=keepdims)


def _count(shape: tuple[int, ...], axis: Any) -> int:
    axes = range(len(shape)) if axis is None else np.atleast_1d(axis).tolist()
    return math.prod([shape[i] for i in axes])


def _var(a: Any, axis: Any = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Any:
    t = _floats(a, dtype)
    v = T.reduce_variance(t, axis=axis, keepdims=keepdims)
    n = _count(t._layout.shape, axis)
    return REGISTRY["times_fraction"](v, wrap(np.asarray(n)), n=max(n - ddof, 0)) if ddof else v


def _std(a: Any, axis: Any = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Any:
    t = _floats(a, dtype)
    return standard_deviation(t, axes_of(axis, t.ndim), keepdims, max(_count(t._layout.shape, axis) - ddof, 0))


def _average(a: Any, axis: Any = None, weights: Any = None, *, keepdims: bool = False) -> Any:
    if weights is None:
        return _mean(a, axis, keepdims=keepdims)
    t = _floats(a)
    w = as_operand(weights, t)
    if w._layout.shape != t._layout.shape:
        if axis is None or w._layout.shape != (t._layout.shape[axis_of(axis, rank_of(t))],):
            raise TypeError("np.average of a tensor takes weights of its shape, or of the length of one axis")
        w = T.reshape(w, [-1 if i == axis_of(axis, rank_of(t)) else 1 for i in range(rank_of(t))])
    w = T.broadcast_to(w, t._layout.shape)
    total = T.reduce_sum(w, axis=axis, keepdims=keepdims)
    return T.reduce_sum(t * w, axis=axis, keepdims=keepdims) / total


def _ptp(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return T.reduce_max(a, axis=axis, keepdims=keepdims) - T.reduce_min(a, axis=axis, keepdims=keepdims)


def _quantile(a: Any, q: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """A quantile by linear interpolation between order statistics, which is NumPy's default."""
    t = _floats(a)
    if np.ndim(q):
        each = T.stack([_quantile(t, v, axis, keepdims=keepdims) for v in np.ravel(q)])
        return T.reshape(each, [*np.shape(q), *each._layout.shape[1:]])
    q = float_of(q, "np.quantile", "q")
    if not 0 <= q <= 1:
        raise ValueError(f"a quantile lies in [0, 1], not at {shown(q)}")
    rank = rank_of(t)
    axes = range(rank) if axis is None else [axis_of(i, rank) for i in np.atleast_1d(axis).tolist()]
    shape = tuple(1 if i in axes else d for i, d in enumerate(t._layout.shape))
    if len(axes) == 1:
        (k,) = axes
    else:  # merge the axes into the last one
        others = [i for i in range(rank) if i not in axes]
        t, k = T.reshape(T.transpose(t, [*others, *axes]), [*[t._layout.shape[i] for i in others], -1]), len(others)
    row = T.sort(t, axis=k)
    place = q * (row._layout.shape[k] - 1)
    low, high = math.floor(place), math.ceil(place)
    below = T.gather(row, low, axis=k)
    made = below if low == high else below + (place - low) * (T.gather(row, high, axis=k) - below)
    last = T.gather(row, row._layout.shape[k] - 1, axis=k)  # NaN if any element is NaN, because NaN sorts last
    made = T.where(T.is_nan(last), last, made)
    return T.reshape(made, shape) if keepdims else made


def _percentile(a: Any, q: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return _quantile(a, np.asarray(q, dtype=np.float64) / 100, axis, keepdims=keepdims)


def _without_nan(name: str, fill: float) -> Callable[..., Any]:
    def filled(a: Any) -> Any:
        t = as_operand(a)
        if not t._layout.inexact or t._layout.complex:
            return t
        return T.where(T.is_nan(t), _constant(fill, t), t)

    return _extreme(name, filled)


def _constant(value: float, like: Tensor) -> Tensor:
    return convert_to_tensor(np.asarray(value, like._layout.dtype))


def _nanmean(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    t = _floats(a)
    count = T.reduce_sum(T.cast(T.logical_not(T.is_nan(t)), t._layout.dtype), axis=axis, keepdims=keepdims)
    return _without_nan("reduce_sum", 0.0)(t, axis, keepdims=keepdims) / count


def _scan(name: str) -> Callable[..., Any]:
    def scan(a: Any, axis: Any = None, dtype: Any = None) -> Any:
        t = _as(a, dtype)
        return getattr(T, name)(ravel(t), axis=0) if axis is None else getattr(T, name)(t, axis=axis)

    return scan


def _arg(name: str) -> Callable[..., Any]:
    def arg(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        t, k = (ravel(a), 0) if axis is None else (as_operand(a), axis)
        found = getattr(T, name)(t, axis=k)
        if t._layout.real or t._layout.narrow:  # the first NaN, if there is one
            missing = T.is_nan(t)
            found = T.where(T.reduce_any(missing, axis=k), T.argmax(T.cast(missing, np.int32), axis=k), found)
        if not keepdims:
            return found
        return T.reshape(found, [1] * rank_of(a)) if axis is None else T.expand_dims(found, axis)

    return arg


def _diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    t = as_operand(a)
    k = axis_of(axis, rank_of(t))
    for _ in range(n):
        t = t[(slice(None),) * k + (slice(1, None),)] - t[(slice(None),) * k + (slice(None, -1),)]
    return t


def _trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    t = _floats(y)
    k = axis_of(axis, rank_of(t))
    middle = (t[(slice(None),) * k + (slice(1, None),)] + t[(slice(None),) * k + (slice(None, -1),)]) / 2
    if x is None:
        return T.reduce_sum(middle * dx, axis=k)
    step = _diff(as_operand(x, t), axis=-1 if rank_of(x) == 1 else axis)
    if rank_of(step) == 1 and rank_of(t) > 1:
        step = T.reshape(step, [-1 if i == k else 1 for i in range(rank_of(t))])
    return T.reduce_sum(middle * step, axis=k)


# ---------------------------------------------------------------------------------------------- elementwise


def _round(a: Any, decimals: int = 0) -> Any:
    scale = 10.0**decimals
    return T.rint(a) if decimals == 0 else T.rint(as_operand(a) * scale) / scale


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **ARRAYS,
    # reductions
    "sum": _reduction("reduce_sum"), "prod": _reduction("reduce_prod"), "mean": _mean, "var": _var, "std": _std,
    "max": _extreme("reduce_max"), "min": _extreme("reduce_min"), "amax": _extreme("reduce_max"),
    "amin": _extreme("reduce_min"), "any": _extreme("reduce_any", _truth),
    "all": _extreme("reduce_all", _truth), "average": _average,
    "ptp": _ptp, "median": lambda a, axis=None, *, keepdims=False: _quantile(a, 0.5, axis, keepdims=keepdims),
    "quantile": _quantile, "percentile": _percentile, "nansum": _without_nan("reduce_sum", 0.0),
    "nanprod": _without_nan("reduce_prod", 1.0), "nanmean": _nanmean, "nanmax": _without_nan("reduce_max", -np.inf),
    "nanmin": _without_nan("reduce_min", np.inf), "cumsum": _scan("cumsum"), "cumprod": _scan("cumprod"),
    "argmax": _arg("argmax"), "argmin": _arg("argmin"), "diff": _diff, "trapezoid": _trapezoid,
    "count_nonzero": _extreme("count_nonzero"),
    # elementwise
    "sinc": op_named("sinc"), "round": _round, "around": _round, "real": op_named("real"), "imag": op_named("imag"),
    "angle": lambda z: T.angle(z), "nan_to_num": lambda x, **options: T.nan_to_num(x, **options),
    "polyval": lambda p, x: T.polyval(list(p) if not is_tensor(p) else T.unstack(p), x),
    "linspace": lambda start, stop, num=50: T.linspace(start, stop, num),
    "fix": lambda x: T.where(np.asarray(x) >= 0, T.floor(x), T.ceil(x)), "i0": op_named("bessel_i0"),
}  # fmt: skip

# Functions of shapes and dtypes, which NumPy computes without the values. A tensor shares memory with no array.
LAYOUT_ONLY = frozenset({
    "shape", "ndim", "size", "iscomplexobj", "isrealobj", "result_type", "can_cast", "common_type", "shares_memory",
    "may_share_memory", "triu_indices_from", "tril_indices_from", "diag_indices_from",
})  # fmt: skip
# Functions without a derivative, which NumPy computes from the values.
VALUES_ONLY = frozenset({
    "array_equal", "array_equiv", "allclose", "isclose", "array2string", "array_repr", "array_str", "min_scalar_type",
    "save", "savez", "savez_compressed", "savetxt", "copyto", "searchsorted",
    "nonzero", "argwhere", "flatnonzero", "unique", "bincount", "digitize", "histogram", "histogram_bin_edges",
    "isin", "lexsort", "argpartition", "nanargmax", "nanargmin", "iscomplex", "isreal", "isposinf", "isneginf",
    "broadcast_shapes", "linalg.matrix_rank", "packbits", "unpackbits", "ravel_multi_index", "unravel_index",
    "ix_", "intersect1d", "setdiff1d", "union1d",
    "setxor1d", "signbit",
})  # fmt: skip
