"""The logarithm of a sum of exponentials, without overflow and without losing small terms."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.scalars import truth_of
from gtape.declare.conventions import (
    EQUAL_SHARES,
    EXPONENTIALS,
    ITS_SLOPE_HAS_EQUAL_SHARES,
    ITS_SLOPE_IS_SOFTMAX,
    Noted,
)
from gtape.declare.primitives import REGISTRY, primitive
from gtape.declare.rounding import stable
from gtape.ops.reduction.common import AXIS_SAMPLES, KEPT_AXIS_SAMPLES
from gtape.ops.reduction.extrema import max_kernel
from gtape.ops.reduction.sums import reduce_sum
from gtape.tensors.axes import axes_of, count_of, from_end, kept_shape, left_shape, merged, shape_of, spread
from gtape.tensors.operands import float_operand
from gtape.tensors.tensor import Tensor

__all__ = ["reduce_logsumexp"]


def _shifted_exp(x: Any, axis: tuple[int, ...]) -> tuple[Any, Any, Any, Any]:
    """Maximum, shift (the maximum if finite, else 0), x - shift, and exp(x - shift), with digits to spare."""
    top = max_kernel(x, axis=axis, keepdims=True)
    shift = np.where(np.isfinite(top), top, 0)
    if x.dtype != np.float64:
        d = x.astype(np.float64) - shift.astype(np.float64)
        return top, shift, d, np.exp(d)
    d = x - shift
    # The exact rounding error of x - shift is added, because exp magnifies the error by |x - shift|.
    b = d - x
    lost = (x - (d - b)) - (shift + b)
    return top, shift, d, np.exp(d) * (1.0 + np.where(np.isfinite(lost), lost, 0.0))


def _logsumexp_kernel(x: Any, *, axis: tuple[int, ...], keepdims: Any) -> Any:
    _, shift, d, e = _shifted_exp(x, axis)
    # One greatest element gives exactly 1. log1p adds this 1, so that small terms keep their digits.
    greatest = d == 0
    # A single element adds -0, because -0 + -0 stays -0.
    rest = np.add.reduce(np.where(greatest, -0.0, e), axis=axis, keepdims=True, initial=-0.0)
    rest = rest - (1.0 - np.add.reduce(greatest, axis=axis, keepdims=True, dtype=np.float64))
    y = (shift + np.log1p(rest)).astype(x.dtype)
    return y if keepdims else y.reshape(left_shape(x.shape, axis))


def _terms(x: Any, *, axis: tuple[int, ...], keepdims: Any) -> Any:
    # Only the greatest element counts, because an impossible state of -1e30 has no share in the result.
    top = max_kernel(x, axis=axis, keepdims=keepdims)
    return 1.0 + np.where(np.isfinite(top), np.abs(top), 0.0)


def _logsumexp_slope_kernel(x: Any, *, axis: tuple[int, ...], shared: bool) -> Any:
    if count_of(x.shape, axis) == 1:  # the logarithm of one exponential is x, infinities included
        return np.where(np.isnan(x), x, x.dtype.type(1))
    top, _, _, e = _shifted_exp(x, axis)
    w = e / np.add.reduce(e, axis=axis, keepdims=True)
    if shared:
        w = np.where(top == -np.inf, 1.0 / max(count_of(x.shape, axis), 1), w)
    if np.any(top == np.inf):  # one infinite element has the whole share, and shares of several are undefined
        endless = x == np.inf
        alone = np.where(np.add.reduce(endless, axis=axis, keepdims=True) > 1, np.nan, 1.0)
        w = np.where(top == np.inf, np.where(endless, alone, 0.0), w)
    return w.astype(x.dtype)


def _slope_rule(xp: Any, g: Any, y: Any, x: Any, *, axis: tuple[int, ...], shared: bool) -> Any:
    if count_of(shape_of(y), axis) == 1:
        return xp.zeros_like(g)
    if len(axis) == 1:
        # softmax_center is used, because g - sum(g y) cancels if one y is nearly 1.
        (a,) = from_end(axis, len(shape_of(y)))
        return xp.multiply_no_nan(y, xp.softmax_center(x, g, axis=a))
    return y * (g - xp.sum(g * y, axis=from_end(axis, len(shape_of(y))), keepdims=True))


def _slope_tangent(xp: Any, t: Any, y: Any, x: Any, *, axis: tuple[int, ...], shared: bool) -> Any:
    return _slope_rule(xp, t, xp.logsumexp_slope(x, axis=axis, shared=True), x, axis=axis, shared=shared)


# With `shared`, elements that are all -inf have equal slopes. Forward mode needs this, because later ops multiply such
# a tangent by 0, and 0 times NaN would be NaN.
_logsumexp_slope = primitive(
    "logsumexp_slope", _logsumexp_slope_kernel, (_slope_rule,), (_slope_tangent,),
    params=("axis", "shared"), batched=True, rounding=stable(6, wide=True),
    samples=tuple([(shapes, {**params, "shared": k % 2 == 1}) for k, (shapes, params) in enumerate(KEPT_AXIS_SAMPLES)]),
    conventions=(EXPONENTIALS, EQUAL_SHARES),
)  # fmt: skip
# Products are 0 if the cotangent is 0. If all elements are -inf, as in a model with impossible states, the slope is
# NaN, but the cotangent is 0 unless the whole function depends on these states.
_logsumexp = primitive(
    "logsumexp", _logsumexp_kernel,
    (
        lambda xp, g, y, x, *, axis, keepdims: xp.multiply_no_nan(
            xp.logsumexp_slope(x, axis=axis, shared=False), spread(xp, g, shape_of(x), axis, keepdims)
        ),
    ),
    (
        lambda xp, t, y, x, *, axis, keepdims: xp.sum(
            xp.multiply_no_nan(xp.logsumexp_slope(x, axis=axis, shared=True), t), axis=axis, keepdims=keepdims
        ),
    ),
    reads=((0,),), params=("axis", "keepdims"), batched=True, rounding=stable(2, 2, by=_terms, wide=True),
    samples=AXIS_SAMPLES,
    conventions=(
        ITS_SLOPE_IS_SOFTMAX,
        ITS_SLOPE_HAS_EQUAL_SHARES,
        Noted("one infinite term has the derivative 1, which exists; TensorFlow gives NaN"),
    ),
)  # fmt: skip


@diagnosed
@documented_like(reduce_sum)
def reduce_logsumexp(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """``log(sum(exp(x)))`` along axes, without overflow and without losing small terms.

    Parameters
    ----------
    input_tensor : floating-point tensor, any shape

    Returns
    -------
    Tensor
        Minus infinity if all elements are minus infinity. Several such elements have the gradient NaN, or 0 if the
        upstream gradient is 0; in forward mode the result has the mean of their tangents. A single plus infinity has
        the whole gradient. Several have the gradient NaN.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the tensor holds integers, or an axis is out of range or named twice.

    Examples
    --------
    >>> float(tf.reduce_logsumexp(tf.constant([0.0, -40.0], tf.float64)))
    4.248354255291589e-18
    """
    t = float_operand(input_tensor, "reduce_logsumexp")
    axes, keepdims = axes_of(axis, t.ndim), truth_of(keepdims, "reduce_logsumexp", "keepdims")
    if len(axes) < 2:
        return _logsumexp(t, axis=axes, keepdims=keepdims)
    # Several axes are merged into one, whose second derivatives keep their digits.
    y: Tensor = _logsumexp(merged(t, axes), axis=(-1,), keepdims=False)
    return REGISTRY["reshape"](y, shape=kept_shape(t._layout.shape, axes)) if keepdims else y
