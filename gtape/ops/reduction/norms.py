"""Norms: the Euclidean norm, without overflow and with gradient 0 at the zero vector; other norms, from reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.scalars import truth_of
from gtape.declare.conventions import NORMS, RATIOS, SUMMED
from gtape.declare.primitives import REGISTRY, primitive
from gtape.declare.rounding import stable
from gtape.ops.reduction.sums import reduce_sum
from gtape.tensors.axes import axes_of, count_of, from_end, left_shape, shape_of, spread
from gtape.tensors.operands import float_operand
from gtape.tensors.tensor import Tensor, as_operand, wrap

__all__ = ["reduce_euclidean_norm"]
NAMESPACES = ("math", "linalg")


def scale_of(x: Any, axis: tuple[int, ...]) -> Any:
    """The exponent of a power of two near the greatest magnitude of each row; 0 for a magnitude of 0, inf or NaN."""
    top = np.maximum.reduce(np.abs(x), axis=axis, keepdims=True, initial=0)
    usable = np.isfinite(top) & (top > 0)
    _, exponent = np.frexp(np.where(usable, top, 1))
    # One less, because 2 ** exponent may overflow.
    return exponent - 1


def _rows(x: Any, axis: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Rows whose squares can be summed, their lengths with the axes kept, and the exponents that undo the scaling."""
    # Squares of float32 neither overflow nor vanish in float64.
    wide = x if x.dtype == np.float64 else x.astype(np.float64)
    squares = np.add.reduce(wide * wide, axis=axis, keepdims=True)
    if x.dtype != np.float64 or (squares.size and squares.min() > 1e-250 and squares.max() < 1e300):
        return wide, np.sqrt(squares), None
    exponent = scale_of(wide, axis)
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
    # If u * u is near 1, 1 - u * u cancels. The sum of the other squares has the same value and does not cancel.
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


def _slope_terms(x: Any, t: Any, *, axis: tuple[int, ...]) -> Any:
    n = _norm_kernel(x, axis=axis, keepdims=True)  # squares would overflow or underflow
    n = np.where(n == 0, 1.0, n)
    u = np.abs(x / n)
    return (np.abs(t) + u * np.sum(u * np.abs(t), axis=axis, keepdims=True)) / n


def _unit_rule(xp: Any, g: Any, y: Any, x: Any, *, axis: tuple[int, ...]) -> Any:
    return xp.unit_slope(x, g, axis=from_end(axis, len(shape_of(x))))


def _slope_rule(xp: Any, g: Any, y: Any, x: Any, t: Any, *, axis: tuple[int, ...]) -> Any:
    if count_of(shape_of(x), axis) == 1:
        return g * y  # 0, because a unit vector of one element is constant
    u, n = xp.unit_vector(x, axis=axis), xp.norm(x, axis=axis, keepdims=True)

    def dot(a: Any, b: Any) -> Any:
        return xp.sum(a * b, axis=axis, keepdims=True)

    # The sum comes before the division, because the quotients may overflow to infinities of both signs.
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

# With u = x / |x|, the op is (t - u (u t)) / |x|, the derivative of u in the direction t. The op is its own transpose.
# Its derivative by x along g is -(slope(g) (u t) + slope(t) (u g) + u (slope(t) g)) / |x|, again its own transpose.
_unit_slope = primitive(
    "unit_slope", _unit_slope_kernel,
    (
        _slope_rule,
        lambda xp, g, y, x, t, *, axis: xp.unit_slope(x, g, axis=axis),
    ),
    (
        _slope_rule,
        lambda xp, t, y, x, s, *, axis: xp.unit_slope(x, t, axis=axis),
    ),
    reads=((0, 1, "y"), (0,)), params=("axis",), batched=True, kinks=_KINK,
    rounding=stable(4, 4, by=_slope_terms, feeds=1, wide=True),
    samples=tuple(
        ((s, s), {"axis": axis})
        for s, axis in (((3,), (-1,)), ((1,), (-1,)), ((1, 2), (-1,)), ((2, 1), (-2, -1)), ((), ()))
    ),
    conventions=(RATIOS, SUMMED),
)  # fmt: skip
_unit = primitive(
    "unit_vector", _unit_kernel, (_unit_rule,), (_unit_rule,),
    reads=((0,),), params=("axis",), batched=True, kinks=_KINK, rounding=stable(3, wide=True),
    samples=tuple((s, {"axis": p["axis"]}) for s, p in _SAMPLES),
    conventions=(RATIOS, SUMMED),
)  # fmt: skip
norm_op = primitive(
    "norm", _norm_kernel,
    (lambda xp, g, y, x, *, axis, keepdims: spread(xp, g, shape_of(x), axis, keepdims) * xp.unit_vector(x, axis=axis),),
    (lambda xp, t, y, x, *, axis, keepdims: xp.sum(t * xp.unit_vector(x, axis=axis), axis=axis, keepdims=keepdims),),
    reads=((0,),), params=("axis", "keepdims"), batched=True, kinks=_KINK, rounding=stable(2, wide=True),
    samples=_SAMPLES,
    conventions=NORMS,
)  # fmt: skip


def real_operand(x: Any, op: str) -> Tensor:
    t = float_operand(x, op)
    return REGISTRY["abs"](t) if t._layout.complex else t


def as_given(y: Tensor, given: Tensor) -> Tensor:
    """A Euclidean length in the dtype of its vector, because TensorFlow gives complex vectors complex lengths."""
    return REGISTRY["cast"](y, dtype=given._layout.dtype) if given._layout.complex else y


@diagnosed
@documented_like(reduce_sum)
def reduce_euclidean_norm(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The Euclidean norm along axes, without overflow. Its gradient at the zero vector is 0.

    Parameters
    ----------
    input_tensor : number tensor, any shape
        The norm of integers is an integer, rounded towards zero.

    Returns
    -------
    Tensor
        Dtype of `input_tensor`, complex dtypes included.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the tensor holds bools, or an axis is out of range or named twice.

    Examples
    --------
    >>> float(tf.math.reduce_euclidean_norm(tf.constant([0.0, -4e200], tf.float64)))
    4e+200
    """
    given = as_operand(input_tensor)
    keepdims = truth_of(keepdims, "reduce_euclidean_norm", "keepdims")
    if given._layout.dtype.kind in "iu":
        length = _norm_kernel(np.asarray(given._value, np.float64), axis=axes_of(axis, given.ndim), keepdims=keepdims)
        with np.errstate(invalid="ignore"):  # the length of the least integer exceeds the dtype's range
            return wrap(np.asarray(length).astype(given._layout.dtype))
    t = real_operand(given, "reduce_euclidean_norm")
    return as_given(norm_op(t, axis=axes_of(axis, t.ndim), keepdims=keepdims), given)
