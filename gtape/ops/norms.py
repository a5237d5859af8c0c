"""Norms: Euclidean, without overflow and with gradient 0 at the zero vector; other orders, made from reductions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gtape.diagnosis import diagnosed
from gtape.operands import float_operand
from gtape.ops.axes import axes_of, count_of, from_end, left_shape, shape_of, spread, truth_of
from gtape.primitive import REGISTRY, primitive
from gtape.shown import shown
from gtape.tensor import Tensor, as_operand, wrap

__all__ = ["norm", "reduce_euclidean_norm"]


def _scale(x: Any, axis: tuple[int, ...]) -> Any:
    """A power of two near the greatest magnitude of each row; 1 where that is 0 or not finite."""
    top = np.maximum.reduce(np.abs(x), axis=axis, keepdims=True, initial=0)
    usable = np.isfinite(top) & (top > 0)
    _, exponent = np.frexp(np.where(usable, top, 1))
    # One less, so that the greatest power of two can still be held.
    return exponent - 1


def _rows(x: Any, axis: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Rows whose squares can be summed, their lengths with the axes kept, and the exponents to scale those back by."""
    # Squares of float32 neither overflow nor vanish in float64.
    wide = x if x.dtype == np.float64 else x.astype(np.float64)
    squares = np.add.reduce(wide * wide, axis=axis, keepdims=True)
    if x.dtype != np.float64 or (squares.size and squares.min() > 1e-250 and squares.max() < 1e300):
        return wide, np.sqrt(squares), None
    exponent = _scale(wide, axis)
    wide = np.ldexp(wide, -exponent)
    return wide, np.sqrt(np.add.reduce(wide * wide, axis=axis, keepdims=True)), exponent


def _norm_kernel(x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Any:
    if not axis:
        return np.abs(x)
    _, y, exponent = _rows(x, axis)
    if exponent is not None:
        y = np.ldexp(y, exponent)
    if y.dtype != x.dtype:
        y = y.astype(x.dtype)
    return y if keepdims else y.reshape(left_shape(x.shape, axis))


def _unit_kernel(x: Any, *, axis: tuple[int, ...]) -> Any:
    if not axis:
        return np.sign(x)
    wide, length, exponent = _rows(x, axis)
    y = wide / length
    if exponent is not None or wide is not x:
        y = np.where(length == 0, 0, y).astype(x.dtype)
    return y


def _unit_slope_kernel(x: Any, t: Any, *, axis: tuple[int, ...]) -> Any:
    if not x.size:
        return t - x
    wide, length, exponent = _rows(x, axis)
    u = np.where(length == 0, 0.0, wide / length)
    # An element that is nearly all of the vector hardly turns it: its 1 - u * u is the sum of the others' squares.
    squares = u * u
    large = squares > 0.75
    around = np.where(large, 0.0, u)
    others = np.add.reduce(around * t, axis=axis, keepdims=True)
    along = others + np.add.reduce(np.where(large, u * t, 0.0), axis=axis, keepdims=True)
    free = np.add.reduce(around * around, axis=axis, keepdims=True)
    y = np.where(large, t * free - u * others, t - u * along) / length
    if exponent is not None:
        y = np.ldexp(y, -exponent)
    return np.where(length == 0, 0, y).astype(t.dtype, copy=False)


def _unit_rule(xp: Any, g: Any, y: Any, x: Any, *, axis: tuple[int, ...]) -> Any:
    return xp.unit_slope(x, g, axis=from_end(axis, len(shape_of(x))))


def _slope_rule(xp: Any, g: Any, y: Any, x: Any, t: Any, *, axis: tuple[int, ...]) -> Any:
    if count_of(shape_of(x), axis) == 1:
        return g * y  # 0: a vector of one element cannot turn
    u, n = xp.unit_vector(x, axis=axis), xp.norm(x, axis=axis, keepdims=True)

    def dot(a: Any, b: Any) -> Any:
        return xp.sum(a * b, axis=axis, keepdims=True)

    # Added before they are divided: apart they may overflow to infinities of both signs.
    turned = xp.unit_slope(x, g, axis=axis) * dot(u, t) + y * dot(u, g) + u * dot(y, g)
    return -xp.divide_no_nan(turned, n)


_SAMPLES: tuple[Any, ...] = (
    (((3,),), {"axis": (-1,), "keepdims": False}),
    (((2,),), {"axis": (0,), "keepdims": True}),
    (((1,),), {"axis": (-1,), "keepdims": False}),
    (((2, 2),), {"axis": (-2,), "keepdims": False}),
    (((2, 2),), {"axis": (-1,), "keepdims": True}),
    (((2, 2),), {"axis": (-2, -1), "keepdims": False}),
    (((),), {"axis": (), "keepdims": False}),
)
_KINK = ("all elements are 0",)

# With u = x / |x|: (t - u (u t)) / |x|, the derivative of u in the direction t. It is its own transpose, and in x its
# derivative along g is -(slope(g) (u t) + slope(t) (u g) + u (slope(t) g)) / |x|, which is its own transpose again.
_unit_slope = primitive(
    "unit_slope",
    _unit_slope_kernel,
    (
        _slope_rule,
        lambda xp, g, y, x, t, *, axis: xp.unit_slope(x, g, axis=axis),
    ),
    (
        _slope_rule,
        lambda xp, t, y, x, s, *, axis: xp.unit_slope(x, t, axis=axis),
    ),
    reads=((0, 1, "y"), (0,)),
    params=("axis",),
    batched=True,
    kinks=_KINK,
    ulps=4.0,
    public=False,
    samples=tuple(
        ((s, s), {"axis": axis})
        for s, axis in (((3,), (-1,)), ((1,), (-1,)), ((1, 2), (-1,)), ((2, 1), (-2, -1)), ((), ()))
    ),
)
_unit = primitive(
    "unit_vector",
    _unit_kernel,
    (_unit_rule,),
    (_unit_rule,),
    reads=((0,),),
    params=("axis",),
    batched=True,
    kinks=_KINK,
    ulps=3.0,
    public=False,
    samples=tuple((s, {"axis": p["axis"]}) for s, p in _SAMPLES),
)
_norm = primitive(
    "norm",
    _norm_kernel,
    (lambda xp, g, y, x, *, axis, keepdims: spread(xp, g, shape_of(x), axis, keepdims) * xp.unit_vector(x, axis=axis),),
    (lambda xp, t, y, x, *, axis, keepdims: xp.sum(t * xp.unit_vector(x, axis=axis), axis=axis, keepdims=keepdims),),
    reads=((0,),),
    params=("axis", "keepdims"),
    batched=True,
    kinks=_KINK,
    ulps=2.0,
    public=False,
    samples=_SAMPLES,
)


def _real(x: Any, op: str) -> Tensor:
    t = float_operand(x, op)
    return REGISTRY["abs"](t) if t._aval.complex else t


def _as_given(y: Tensor, given: Tensor) -> Tensor:
    """A length in the dtype of what it is the length of: complex vectors have complex lengths in TensorFlow.

    Only Euclidean ones: sums and maxima of magnitudes are real.
    """
    return REGISTRY["cast"](y, dtype=given._aval.dtype) if given._aval.complex else y


@diagnosed
def reduce_euclidean_norm(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """Square root of the sum of squares along axes, without overflow; its gradient at the zero vector is 0.

    Parameters
    ----------
    input_tensor : number tensor, any shape
        The norm of integers is an integer, rounded towards zero.
    axis : int or sequence of int, optional
        The axes to take together, negative ones counted from the end; all by default.
    keepdims : bool
        Whether the axes stay, with size 1.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor
        Of the dtype of `input_tensor`, also where that is complex.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        For bool, or when an axis is out of range or named twice.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.math.reduce_euclidean_norm(tf.constant([0.0, -4e200], tf.float64)))
    4e+200
    """
    given = as_operand(input_tensor)
    keepdims = truth_of(keepdims, "reduce_euclidean_norm", "keepdims")
    if given._aval.dtype.kind in "iu":
        length = _norm_kernel(np.asarray(given._value, np.float64), axis=axes_of(axis, given.ndim), keepdims=keepdims)
        with np.errstate(invalid="ignore"):  # the length of the least number is none of its dtype
            return wrap(np.asarray(length).astype(given._aval.dtype))
    t = _real(given, "reduce_euclidean_norm")
    return _as_given(_norm(t, axis=axes_of(axis, t.ndim), keepdims=keepdims), given)


@diagnosed
def norm(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, keepdims: Any = None, name: str | None = None
) -> Tensor:
    """Norm of vectors or matrices.

    Parameters
    ----------
    tensor : floating-point or complex tensor, any shape
    ord : {"euclidean", "fro", 1, 2, numpy.inf} or positive number
        A vector norm, or with two axes a matrix norm: "fro", 1 (greatest column sum), inf (greatest row sum), 2
        (largest singular value).
    axis : int or pair of int, optional
        One axis for vectors, two for matrices; by default all elements are one vector.
    keepdims : bool, optional
        Whether the axes stay, with size 1.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor

    Raises
    ------
    ValueError
        For an order that does not exist, or axes that are no vector or matrix.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.norm([3.0, 4.0]))
    5.0
    >>> float(tf.norm([[1.0, -2.0], [3.0, 4.0]], ord=1, axis=[0, 1]))
    6.0
    """
    given = as_operand(tensor)
    t, keep = _real(given, "norm"), truth_of(keepdims, "norm", "keepdims")
    if isinstance(axis, (list, tuple)) and len(axis) == 2:
        y = _matrix_norm(given, t, ord, axis, keep)
        return _as_given(y, given) if ord in ("euclidean", "fro") else y
    if isinstance(axis, (list, tuple, float)):
        raise ValueError(f"'axis' must be None, an integer, or a tuple of 2 unique integers, got {shown(axis)}")
    y = _vector_norm(t, ord, axis, keep)
    return _as_given(y, given) if ord in ("euclidean", 2) else y


def _matrix_norm(given: Tensor, t: Tensor, ord: Any, axis: Any, keep: bool) -> Tensor:
    """The norm of `given`, whose magnitudes are `t`."""
    from gtape.ops.extrema import reduce_max
    from gtape.ops.sums import reduce_sum

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
    from gtape.ops.extrema import reduce_max
    from gtape.ops.sums import reduce_sum

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
    return _p_norm(t, float(ord), axes_of(axis, t.ndim), keep)


def _spectral_norm(t: Tensor, rows: int, columns: int, keep: bool) -> Tensor:
    from gtape.ops.spectral import svd

    others = [a for a in range(t.ndim) if a not in (rows, columns)]
    s = svd(REGISTRY["transpose"](t, perm=(*others, rows, columns)), compute_uv=False)
    greatest = s[..., 0]
    kept = tuple([1 if a in (rows, columns) else d for a, d in enumerate(t._aval.shape)])
    return REGISTRY["reshape"](greatest, shape=kept) if keep else greatest


def _p_norm(t: Tensor, p: float, axes: tuple[int, ...], keep: bool) -> Tensor:
    # Scaling by any constant leaves the formula true: by a power of two near the maximum, nothing overflows.
    value = np.asarray(t._value)
    # Not below the normal numbers: there the way back, times the scale and divided by it, would lose all digits.
    least = np.finfo(value.dtype).minexp + 2
    exponent = np.maximum(_scale(value, axes), least) if axes else np.zeros_like(value, np.int32)
    scale = np.ldexp(np.ones((), value.dtype), exponent).astype(value.dtype)
    total = REGISTRY["sum"](
        REGISTRY["pow"](REGISTRY["abs"](REGISTRY["divide"](t, wrap(scale))), p), axis=axes, keepdims=True
    )
    zero = REGISTRY["equal"](total, 0)
    safe = REGISTRY["where"](zero, wrap(value.dtype.type(1)), total)
    root = REGISTRY["where"](zero, wrap(value.dtype.type(0)), REGISTRY["pow"](safe, 1.0 / p)) * wrap(scale)
    return root if keep else _dropped(root, axes)


def _dropped(t: Tensor, axes: tuple[int, ...]) -> Tensor:
    return REGISTRY["reshape"](t, shape=left_shape(t._aval.shape, axes))
