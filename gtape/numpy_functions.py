"""NumPy's functions by gtape's ops: the same arguments, recorded on the tape. The table is at the end.

Integers follow NumPy where a mean is taken (it is a float64); everything else has the dtypes of gtape's ops.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.numpy_arrays import (
    T,
    _append,
    _argsort,
    _array_split,
    _at_least,
    _axis,
    _broadcast_arrays,
    _clip,
    _column_stack,
    _compress,
    _concatenate,
    _cross,
    _diag,
    _diagonal,
    _dot,
    _dstack,
    _einsum,
    _expand_dims,
    _flip,
    _full_like,
    _hstack,
    _inner,
    _kron,
    _matrix_power,
    _meshgrid,
    _moveaxis,
    _multi_dot,
    _norm,
    _outer,
    _pad,
    _qr,
    _rank,
    _ravel,
    _repeat,
    _reshape,
    _roll,
    _rot90,
    _select,
    _solve,
    _sort,
    _split,
    _squeeze,
    _svd,
    _swapaxes,
    _take,
    _take_along_axis,
    _tensordot,
    _tile,
    _trace,
    _transpose,
    _tri,
    _vdot,
    _vecdot,
    _vstack,
    _where,
)
from gtape.tensor import Tensor, as_operand, convert_to_tensor, is_tensor

__all__ = ["FUNCTIONS", "VALUES_ONLY"]


def _floats(a: Any, dtype: Any = None) -> Any:
    """As a tensor of floats: integers as float64, as NumPy takes them."""
    t = as_operand(a)
    if dtype is not None:
        return T.cast(t, dtype)
    return t if t._aval.inexact else T.cast(t, np.float64)


def _as(a: Any, dtype: Any) -> Any:
    return as_operand(a) if dtype is None else T.cast(as_operand(a), dtype)


# ---------------------------------------------------------------------------------------------- reductions


def _reduction(name: str) -> Callable[..., Any]:
    def reduce(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
        return getattr(T, name)(_as(a, dtype), axis=axis, keepdims=keepdims)

    return reduce


def _extreme(name: str) -> Callable[..., Any]:
    def reduce(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        return getattr(T, name)(a, axis=axis, keepdims=keepdims)

    return reduce


def _mean(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    return T.reduce_mean(_floats(a, dtype), axis=axis, keepdims=keepdims)


def _count(shape: tuple[int, ...], axis: Any) -> int:
    axes = range(len(shape)) if axis is None else np.atleast_1d(axis).tolist()
    return math.prod([shape[i] for i in axes])


def _var(a: Any, axis: Any = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Any:
    t = _floats(a, dtype)
    v = T.reduce_variance(t, axis=axis, keepdims=keepdims)
    n = _count(t._aval.shape, axis)
    return v * (n / (n - ddof)) if ddof else v


def _std(a: Any, axis: Any = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Any:
    t = _floats(a, dtype)
    s = T.reduce_std(t, axis=axis, keepdims=keepdims)
    n = _count(t._aval.shape, axis)
    return s * math.sqrt(n / (n - ddof)) if ddof else s


def _average(a: Any, axis: Any = None, weights: Any = None, *, keepdims: bool = False) -> Any:
    if weights is None:
        return _mean(a, axis, keepdims=keepdims)
    t = _floats(a)
    w = as_operand(weights, t)
    if w._aval.shape != t._aval.shape:
        if axis is None or w._aval.shape != (t._aval.shape[int(axis)],):
            raise TypeError("np.average of a tensor takes weights of its shape, or of the length of one axis")
        w = T.reshape(w, [-1 if i == _axis(axis, _rank(t)) else 1 for i in range(_rank(t))])
    w = T.broadcast_to(w, t._aval.shape)
    total = T.reduce_sum(w, axis=axis, keepdims=keepdims)
    return T.reduce_sum(t * w, axis=axis, keepdims=keepdims) / total


def _ptp(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return T.reduce_max(a, axis=axis, keepdims=keepdims) - T.reduce_min(a, axis=axis, keepdims=keepdims)


def _median(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return _quantile(a, 0.5, axis, keepdims=keepdims)


def _quantile(a: Any, q: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """By linear interpolation between order statistics, as NumPy's default."""
    t = _floats(a)
    if np.ndim(q):
        return T.stack([_quantile(t, float(v), axis, keepdims=keepdims) for v in np.ravel(q)])
    if not 0 <= float(q) <= 1:
        raise ValueError(f"a quantile lies in [0, 1], not at {q!r}")
    rank = _rank(t)
    if axis is None:
        t, k, shape = _ravel(t), 0, (1,) * rank
    else:
        k = _axis(axis, rank)
        shape = tuple(1 if i == k else d for i, d in enumerate(t._aval.shape))
    row = T.sort(t, axis=k)
    place = float(q) * (row._aval.shape[k] - 1)
    low, high = math.floor(place), math.ceil(place)
    below = T.gather(row, low, axis=k)
    made = below if low == high else below + (place - low) * (T.gather(row, high, axis=k) - below)
    return T.reshape(made, shape) if keepdims else made


def _percentile(a: Any, q: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return _quantile(a, np.asarray(q, dtype=np.float64) / 100, axis, keepdims=keepdims)


def _without_nan(name: str, fill: float) -> Callable[..., Any]:
    def reduce(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        t = as_operand(a)
        if not t._aval.inexact or t._aval.complex:
            return getattr(T, name)(t, axis=axis, keepdims=keepdims)
        return getattr(T, name)(T.where(T.is_nan(t), _constant(fill, t), t), axis=axis, keepdims=keepdims)

    return reduce


def _constant(value: float, like: Tensor) -> Tensor:
    return convert_to_tensor(np.asarray(value, like._aval.dtype))


def _nanmean(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    t = _floats(a)
    count = T.reduce_sum(T.cast(T.logical_not(T.is_nan(t)), t._aval.dtype), axis=axis, keepdims=keepdims)
    return _without_nan("reduce_sum", 0.0)(t, axis, keepdims=keepdims) / count


def _scan(name: str) -> Callable[..., Any]:
    def scan(a: Any, axis: Any = None, dtype: Any = None) -> Any:
        t = _as(a, dtype)
        return getattr(T, name)(_ravel(t), axis=0) if axis is None else getattr(T, name)(t, axis=axis)

    return scan


def _arg(name: str) -> Callable[..., Any]:
    def arg(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        found = getattr(T, name)(_ravel(a) if axis is None else a, axis=0 if axis is None else axis)
        if not keepdims:
            return found
        return T.reshape(found, [1] * _rank(a)) if axis is None else T.expand_dims(found, axis)

    return arg


def _diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    t = as_operand(a)
    k = _axis(axis, _rank(t))
    for _ in range(n):
        t = t[(slice(None),) * k + (slice(1, None),)] - t[(slice(None),) * k + (slice(None, -1),)]
    return t


def _trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    t = _floats(y)
    k = _axis(axis, _rank(t))
    middle = (t[(slice(None),) * k + (slice(1, None),)] + t[(slice(None),) * k + (slice(None, -1),)]) / 2
    if x is None:
        return T.reduce_sum(middle * dx, axis=k)
    step = _diff(as_operand(x, t), axis=-1 if _rank(x) == 1 else axis)
    if _rank(step) == 1 and _rank(t) > 1:
        step = T.reshape(step, [-1 if i == k else 1 for i in range(_rank(t))])
    return T.reduce_sum(middle * step, axis=k)


# ---------------------------------------------------------------------------------------------- elementwise


def _round(a: Any, decimals: int = 0) -> Any:
    scale = 10.0**decimals
    return T.rint(a) if decimals == 0 else T.rint(as_operand(a) * scale) / scale


def _nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    t = as_operand(x)
    if not t._aval.inexact or t._aval.complex:
        return t
    info = np.finfo(t._aval.dtype)
    for test, value in (
        (np.isnan, nan),
        (np.isposinf, float(info.max) if posinf is None else posinf),
        (np.isneginf, float(info.min) if neginf is None else neginf),
    ):
        t = T.where(test(np.asarray(t._value)), _constant(value, t), t)
    return t


def _polyval(p: Any, x: Any) -> Any:
    return T.polyval(list(p) if not is_tensor(p) else T.unstack(p), x)


def _linspace(start: Any, stop: Any, num: int = 50) -> Any:
    return T.linspace(start, stop, num)


def _op(name: str) -> Callable[..., Any]:
    def call(a: Any) -> Any:
        return getattr(T, name)(a)

    return call


FUNCTIONS: dict[str, Callable[..., Any]] = {
    # reductions
    "sum": _reduction("reduce_sum"), "prod": _reduction("reduce_prod"), "mean": _mean, "var": _var, "std": _std,
    "max": _extreme("reduce_max"), "min": _extreme("reduce_min"), "amax": _extreme("reduce_max"),
    "amin": _extreme("reduce_min"), "any": _extreme("reduce_any"), "all": _extreme("reduce_all"),
    "average": _average, "ptp": _ptp, "median": _median, "quantile": _quantile, "percentile": _percentile,
    "nansum": _without_nan("reduce_sum", 0.0), "nanprod": _without_nan("reduce_prod", 1.0), "nanmean": _nanmean,
    "nanmax": _without_nan("reduce_max", -np.inf), "nanmin": _without_nan("reduce_min", np.inf),
    "cumsum": _scan("cumsum"), "cumprod": _scan("cumprod"), "argmax": _arg("argmax"), "argmin": _arg("argmin"),
    "diff": _diff, "trapezoid": _trapezoid, "count_nonzero": _extreme("count_nonzero"),
    # shapes
    "reshape": _reshape, "ravel": _ravel, "squeeze": _squeeze, "expand_dims": _expand_dims,
    "broadcast_to": lambda array, shape: T.broadcast_to(array, [shape] if isinstance(shape, int) else shape),
    "broadcast_arrays": _broadcast_arrays, "transpose": _transpose, "permute_dims": _transpose,
    "matrix_transpose": lambda x: _swapaxes(x, -1, -2), "linalg.matrix_transpose": lambda x: _swapaxes(x, -1, -2),
    "swapaxes": _swapaxes, "moveaxis": _moveaxis, "flip": _flip, "flipud": lambda m: _flip(m, 0),
    "fliplr": lambda m: _flip(m, 1), "rot90": _rot90, "roll": _roll, "tile": _tile, "repeat": _repeat,
    "pad": _pad, "concatenate": _concatenate, "stack": lambda arrays, axis=0: T.stack(list(arrays), axis),
    "vstack": _vstack, "hstack": _hstack, "dstack": _dstack, "column_stack": _column_stack, "split": _split,
    "array_split": _array_split, "vsplit": lambda ary, n: _split(ary, n, 0),
    "hsplit": lambda ary, n: _split(ary, n, 0 if _rank(ary) == 1 else 1),
    "unstack": lambda x, *, axis=0: builtins.tuple(T.unstack(x, axis=axis)),
    "atleast_1d": _at_least(1), "atleast_2d": _at_least(2), "atleast_3d": _at_least(3), "append": _append,
    "meshgrid": _meshgrid, "copy": lambda a: T.identity(a), "zeros_like": _op("zeros_like"),
    "ones_like": _op("ones_like"), "empty_like": _op("zeros_like"), "full_like": _full_like,
    # picking elements
    "where": _where, "take": _take, "take_along_axis": _take_along_axis, "compress": _compress,
    "extract": lambda condition, arr: _compress(np.ravel(np.asarray(condition)), _ravel(arr)), "select": _select,
    "sort": _sort, "argsort": _argsort, "clip": _clip, "diag": _diag, "diagonal": _diagonal, "trace": _trace,
    "tril": _tri(np.tril), "triu": _tri(np.triu), "diagflat": lambda v, k=0: T.diag(_ravel(v), k=k),
    # products and matrices
    "dot": _dot, "vdot": _vdot, "inner": _inner, "outer": _outer, "einsum": _einsum, "tensordot": _tensordot,
    "kron": _kron, "cross": _cross,
    "linalg.cross": lambda x1, x2, *, axis=-1: _cross(x1, x2, axis),
    "linalg.multi_dot": _multi_dot, "linalg.matrix_power": _matrix_power, "linalg.inv": _op("inv"),
    "linalg.det": _op("det"), "linalg.slogdet": _op("slogdet"), "linalg.solve": _solve,
    "linalg.cholesky": _op("cholesky"), "linalg.norm": _norm, "linalg.svd": _svd, "linalg.qr": _qr,
    "linalg.svdvals": lambda x: T.svd(x, compute_uv=False), "linalg.eigh": _op("eigh"),
    "linalg.eigvalsh": _op("eigvalsh"), "linalg.pinv": _op("pinv"), "linalg.outer": _outer,
    "linalg.tensordot": lambda x1, x2, *, axes=2: _tensordot(x1, x2, axes),
    "linalg.matmul": lambda x1, x2: T.matmul(x1, x2),
    "linalg.trace": lambda x, *, offset=0: _trace(x, offset, -2, -1),
    "linalg.diagonal": lambda x, *, offset=0: _diagonal(x, offset, -2, -1),
    "linalg.vecdot": lambda x1, x2, *, axis=-1: _vecdot(x1, x2, axis),
    "linalg.vector_norm": lambda x, *, axis=None, keepdims=False, ord=2: T.norm(x, ord, axis=axis, keepdims=keepdims),
    # elementwise
    "sinc": _op("sinc"), "round": _round, "around": _round, "real": _op("real"), "imag": _op("imag"),
    "angle": lambda z: T.angle(z), "nan_to_num": _nan_to_num, "polyval": _polyval, "linspace": _linspace,
    "fix": lambda x: T.where(np.asarray(x) >= 0, T.floor(x), T.ceil(x)),
    "i0": _op("bessel_i0"),
}  # fmt: skip

# What has no derivative at all: NumPy works on the values.
VALUES_ONLY = frozenset({
    "shape", "ndim", "size", "iscomplexobj", "isrealobj", "array_equal", "array_equiv", "allclose", "isclose",
    "array2string", "array_repr", "array_str", "result_type", "can_cast", "min_scalar_type", "common_type",
    "shares_memory", "may_share_memory", "save", "savez", "savez_compressed", "savetxt", "copyto", "searchsorted",
    "nonzero", "argwhere", "flatnonzero", "unique", "bincount", "digitize", "histogram", "histogram_bin_edges",
    "isin", "lexsort", "argpartition", "nanargmax", "nanargmin", "iscomplex", "isreal", "isposinf", "isneginf",
    "broadcast_shapes", "linalg.matrix_rank", "packbits", "unpackbits", "ravel_multi_index", "unravel_index",
    "triu_indices_from", "tril_indices_from", "diag_indices_from", "ix_", "intersect1d", "setdiff1d", "union1d",
    "setxor1d", "signbit",
})  # fmt: skip
