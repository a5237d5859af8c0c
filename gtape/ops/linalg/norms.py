"""Norms of vectors and matrices: Euclidean, p-norms, maximum, spectral."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.base.scalars import float_of, truth_of
from gtape.base.shown import shown
from gtape.declare.conventions import NORMS, conventional, shows_kinks_of
from gtape.declare.primitives import REGISTRY
from gtape.ops.linalg.spectral import svd
from gtape.ops.reduction.extrema import reduce_max
from gtape.ops.reduction.norms import as_given, norm_op, real_operand, reduce_euclidean_norm, scale_of
from gtape.ops.reduction.sums import reduce_sum
from gtape.tensors.axes import axes_of, left_shape
from gtape.tensors.tensor import Tensor, as_operand, is_tensor, wrap

__all__ = ["norm"]
NAMESPACES = ("math", "linalg")


@shows_kinks_of(norm_op)
@conventional(NORMS)
@diagnosed
def norm(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, keepdims: Any = None, name: str | None = None
) -> Tensor:
    """The norm of vectors or matrices.

    Parameters
    ----------
    tensor : floating-point or complex tensor, any shape
    ord : {"euclidean", "fro", 1, 2, numpy.inf} or positive number
        A vector norm. With two axes a matrix norm: "fro", 1 (greatest column sum), inf (greatest row sum), or 2
        (largest singular value).
    axis : int or pair of int, optional
        One axis for vectors, two for matrices. By default all elements are one vector.
    keepdims : bool, optional
        Whether the axes stay, with size 1.

    Raises
    ------
    ValueError
        If the order is unknown, or there are more than two axes.

    Examples
    --------
    >>> float(tf.norm([3.0, 4.0]))
    5.0
    >>> float(tf.norm([[1.0, -2.0], [3.0, 4.0]], ord=1, axis=[0, 1]))
    6.0
    """
    given = as_operand(tensor)
    t, keep = real_operand(given, "norm"), truth_of(keepdims, "norm", "keepdims")
    if isinstance(axis, (list, tuple)) and len(axis) == 2:
        y = _matrix_norm(given, t, ord, axis, keep)
        return as_given(y, given) if ord in ("euclidean", "fro") else y
    if isinstance(axis, (list, tuple, float, np.ndarray)) or is_tensor(axis):
        raise ValueError(f"'axis' must be None, an integer, or a tuple of 2 unique integers, got {shown(axis)}")
    y = _vector_norm(t, ord, axis, keep)
    return as_given(y, given) if ord in ("euclidean", 2) else y


def _matrix_norm(given: Tensor, t: Tensor, ord: Any, axis: Any, keep: bool) -> Tensor:
    """The norm of the matrices `given`, whose magnitudes are `t`."""
    if ord not in ("euclidean", "fro", 1, 2, math.inf):
        raise ValueError(f"'ord' must be a supported matrix norm in ['euclidean', 'fro', 1, 2, inf], got {shown(ord)}")
    rows, columns = [a % t.ndim if -t.ndim <= a < t.ndim else a for a in axis]
    if rows == columns:
        raise ValueError(f"'axis' must be a pair of different axes, got {shown(axis)}")
    if ord in ("euclidean", "fro"):
        return reduce_euclidean_norm(t, [rows, columns], keep)
    if ord == 2:
        return _spectral_norm(given, rows, columns, keep)
    inner, outer = (rows, columns) if ord == 1 else (columns, rows)
    sums = reduce_sum(REGISTRY["abs"](t), inner, True)
    greatest = reduce_max(sums, outer, True)
    return greatest if keep else _dropped(greatest, (rows, columns))


def _vector_norm(t: Tensor, ord: Any, axis: Any, keep: bool) -> Tensor:
    if ord in ("euclidean", 2):
        return reduce_euclidean_norm(t, axis, keep)
    if isinstance(ord, str) or not ord > 0:
        raise ValueError(
            f"'ord' must be a supported vector norm: 'euclidean', inf or a positive number, got {shown(ord)}"
            + (": 'fro' is a matrix norm, of two axes" if ord == "fro" else "")
        )
    if ord == 1:
        return reduce_sum(REGISTRY["abs"](t), axis, keep)
    if ord == math.inf:
        return reduce_max(REGISTRY["abs"](t), axis, keep)
    return _p_norm(t, float_of(ord, "norm", "ord"), axes_of(axis, t.ndim), keep)


def _spectral_norm(t: Tensor, rows: int, columns: int, keep: bool) -> Tensor:
    others = [a for a in range(t.ndim) if a not in (rows, columns)]
    s = svd(REGISTRY["transpose"](t, perm=(*others, rows, columns)), compute_uv=False)
    greatest = s[..., 0]
    kept = tuple([1 if a in (rows, columns) else d for a, d in enumerate(t._layout.shape)])
    return REGISTRY["reshape"](greatest, shape=kept) if keep else greatest


def _p_norm(t: Tensor, p: float, axes: tuple[int, ...], keep: bool) -> Tensor:
    value = np.asarray(t._value)
    p = _held(p, value.dtype)
    info = np.finfo(value.dtype)
    # Each element is measured in a power of two near their maximum, because powers of elements may overflow. The powers
    # have the same unit, so that no derivative leaves the range of floats; near its end a smaller one, because of sums.
    unit = scale_of(value, axes)
    count = math.prod([value.shape[a] for a in axes])
    room = math.ceil(min(p, info.maxexp)) + count.bit_length()
    made = np.clip(unit, info.minexp, info.maxexp - room)
    units = wrap(unit.astype(value.dtype)), wrap(made.astype(value.dtype))
    total = REGISTRY["sum"](REGISTRY["power_in_units"](REGISTRY["abs"](t), *units, p=p, n=0), axis=axes, keepdims=True)
    zero = REGISTRY["equal"](total, 0)
    safe = REGISTRY["where"](zero, wrap(value.dtype.type(1)), total)
    root = REGISTRY["root_in_units"](safe, *units[::-1], p=p, n=0)
    length = REGISTRY["where"](zero, wrap(value.dtype.type(0)), root)
    return length if keep else _dropped(length, axes)


def _held(p: float, dtype: Any) -> float:
    """An exponent in the dtype of its base. An exponent that would become 0 or infinite stays unchanged."""
    with np.errstate(all="ignore"):
        held = float(dtype.type(p))
    return held if 0 < held < math.inf else p


def _dropped(t: Tensor, axes: tuple[int, ...]) -> Tensor:
    return REGISTRY["reshape"](t, shape=left_shape(t._layout.shape, axes))
