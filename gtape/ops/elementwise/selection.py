"""Ops that select: absolute value, extrema, clipping, the piecewise linear activations, and their masks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gtape.declare.conventions import NOT_TAKEN, AtPoints, any_nan
from gtape.declare.domains import ANY_REAL, BOOLEAN, Domain
from gtape.declare.primitives import elementwise
from gtape.declare.rounding import EXACT

__all__ = ["abs", "clip_by_value", "hard_sigmoid", "leaky_relu", "maximum", "minimum", "relu", "relu6", "sign", "where"]
NAMESPACES = ("math", "nn")


def _as_mask(condition: Any, *like: Any) -> Any:
    """A mask as numbers 1 and 0 in the dtype of the arguments."""
    return np.asarray(condition).astype(np.result_type(*like))[()]


def _sign_float(x: float) -> float:
    return 1.0 if x > 0.0 else -1.0 if x < 0.0 else x + 0.0


_COMPARED = (
    AtPoints(
        "an argument is NaN", "value NaN; derivatives 0 and 1",
        "TensorFlow's comparison chooses who gets the gradient, and NaN is neither greater nor less",
        lambda p, by: by is not None and any_nan(p, by),
    ),
    AtPoints(
        "zeros of both signs", "either zero", "IEEE 754, 9.6: they are equal",
        lambda p, by: by is None and sum(v == 0 for v in p) > 1,
    ),
)  # fmt: skip
_MASK = AtPoints("an argument is NaN", "0 or 1", "a mask that comparisons make, for a derivative", any_nan)

# ---------------------------------------------------------------------------------------------- sign

sign = elementwise(
    "sign", np.sign, 0,
    scalar=_sign_float, kinks=(0.0,), ints=True, ulps=0.5,
    summary="Sign of x: -1, 0 or 1; its gradient is 0.", example=((-2.5,), -1.0), complex="unit",
)  # fmt: skip

abs = elementwise(
    "abs", np.abs, lambda xp, y, x: xp.sign(x),
    scalar=math.fabs, kinks=(0.0,), ints=True, ulps=0.5,
    summary="Absolute value; the slope at 0 is 0.", example=((-2.5,), 2.5), complex="magnitude",
)  # fmt: skip

# ---------------------------------------------------------------------------------------------- activations


def _relu(x: Any) -> Any:
    return np.maximum(x, 0)


def _relu_float(x: float) -> float:
    return x if x > 0.0 else 0.0 if x <= 0.0 else x  # NaN stays NaN


def _slope(mask: Any, x: Any) -> Any:
    """A mask in the dtype of `x`, with NaN where `x` is NaN."""
    made, unknown = _as_mask(mask, x), np.isnan(x)
    return np.where(unknown, x, made) if np.any(unknown) else made


# The slope is the sign of the output. One pass computes the sign and keeps NaN.
relu = elementwise(
    "relu", _relu, lambda xp, y, x: xp.sign(y),
    scalar=_relu_float, kinks=(0.0,), selects=True, ints=True, ulps=0.5,
    summary="Rectified linear unit, max(x, 0); the slope at 0 is 0.", example=((1.5,), 1.5), arguments=("features",),
)  # fmt: skip


def _relu6(x: Any) -> Any:
    return np.minimum(np.maximum(x, 0), 6)


def _relu6_slope(x: Any) -> Any:
    return _slope(np.greater(x, 0) & np.less(x, 6), x)


relu6_slope = elementwise(
    "relu6_slope", _relu6_slope, 0,
    kinks=(0.0, 6.0), ulps=0.5,
    summary="1 where 0 < x < 6, 0 where x <= 0 or x >= 6.",
)  # fmt: skip

relu6 = elementwise(
    "relu6", _relu6, lambda xp, y, x: xp.relu6_slope(x),
    kinks=(0.0, 6.0), selects=True, ints=True, ulps=0.5,
    summary="min(max(x, 0), 6); the slopes at 0 and 6 are 0.", example=((7.5,), 6.0), arguments=("features",),
)  # fmt: skip


def _leaky_relu(x: Any, *, alpha: float = 0.2) -> Any:
    if np.asarray(x).dtype == np.float64:
        return np.where(np.greater(x, 0), x, alpha * x)
    # in float64, so that the product with alpha is rounded once
    return np.where(np.greater(x, 0), x, (alpha * np.asarray(x, np.float64)).astype(x.dtype))


def _leaky_relu_slope(x: Any, *, alpha: float = 0.2) -> Any:
    return np.where(np.isnan(x), x, np.where(np.greater(x, 0), 1.0, alpha).astype(np.asarray(x).dtype))


leaky_relu_slope = elementwise(
    "leaky_relu_slope", _leaky_relu_slope, 0,
    params=("alpha",), kinks=(0.0,), ulps=0.5,
    summary="1 where x > 0, otherwise alpha.",
)  # fmt: skip

leaky_relu = elementwise(
    "leaky_relu", _leaky_relu, lambda xp, y, x, *, alpha=0.2: xp.leaky_relu_slope(x, alpha=alpha),
    params=("alpha",), kinks=(0.0,), ulps=0.5,
    summary="x where x > 0, otherwise alpha * x; the slope at 0 is alpha.", example=((1.5,), 1.5),
    arguments=("features",),
)  # fmt: skip


def _hard_sigmoid(x: Any) -> Any:
    wide = np.asarray(x, np.float64)
    return np.clip((wide + 3.0) / 6.0, 0.0, 1.0).astype(np.asarray(x).dtype)[()]


def _hard_sigmoid_slope(x: Any) -> Any:
    inside = np.where(np.greater(x, -3) & np.less(x, 3), 1.0 / 6.0, 0.0).astype(np.asarray(x).dtype)
    return np.where(np.isnan(x), x, inside)


hard_sigmoid_slope = elementwise(
    "hard_sigmoid_slope", _hard_sigmoid_slope, 0,
    kinks=(-3.0, 3.0), ulps=0.5,
    summary="1/6 where -3 < x < 3, otherwise 0.",
)  # fmt: skip

hard_sigmoid = elementwise(
    "hard_sigmoid", _hard_sigmoid, lambda xp, y, x: xp.hard_sigmoid_slope(x),
    kinks=(-3.0, 3.0), selects=True, ulps=1.5,
    summary="(x + 3) / 6 clipped to [0, 1]; the slopes at -3 and 3 are 0.", example=((1.5,), 0.75),
)  # fmt: skip

# ---------------------------------------------------------------------------------------------- extrema


def _maximum_float(x: float, y: float) -> float:
    if x >= y:
        return x
    if y > x:
        return y
    raise ValueError  # leaves NaN to the kernel


def _minimum_float(x: float, y: float) -> float:
    if x <= y:
        return x
    if y < x:
        return y
    raise ValueError


def _maximum_slope(x: Any, y: Any) -> Any:
    return _as_mask(np.greater_equal(x, y), x, y)


def _minimum_slope(x: Any, y: Any) -> Any:
    return _as_mask(np.less_equal(x, y), x, y)


maximum_slope = elementwise(
    "maximum_slope", _maximum_slope, (None, None),
    kinks=("x == y",), ulps=0.5, scalar=lambda x, y: 1.0 if x >= y else 0.0,
    summary="1 where x >= y, otherwise 0.",
    conventions=_MASK,
)  # fmt: skip

minimum_slope = elementwise(
    "minimum_slope", _minimum_slope, (None, None),
    kinks=("x == y",), ulps=0.5, scalar=lambda x, y: 1.0 if x <= y else 0.0,
    summary="1 where x <= y, otherwise 0.",
    conventions=_MASK,
)  # fmt: skip

maximum = elementwise(
    "maximum", np.maximum, (lambda xp, y, a, b: xp.maximum_slope(a, b), lambda xp, y, a, b: 1 - xp.maximum_slope(a, b)),
    scalar=_maximum_float, kinks=("x == y",), selects=True, ints=True, role="move", ulps=0.5,
    summary="The larger of x and y; at a tie the gradient goes to x.", example=((1.5, 2.0), 2.0), conventions=_COMPARED,
)  # fmt: skip

minimum = elementwise(
    "minimum", np.minimum, (lambda xp, y, a, b: xp.minimum_slope(a, b), lambda xp, y, a, b: 1 - xp.minimum_slope(a, b)),
    scalar=_minimum_float, kinks=("x == y",), selects=True, ints=True, role="move", ulps=0.5,
    summary="The smaller of x and y; at a tie the gradient goes to x.", example=((1.5, 2.0), 1.5),
    conventions=_COMPARED,
)  # fmt: skip

where = elementwise(
    "where", np.where, (None, lambda xp, y, c, a, b: xp.where(c, 1, 0), lambda xp, y, c, a, b: xp.where(c, 0, 1)),
    domain=Domain(BOOLEAN, ANY_REAL, ANY_REAL), selects=True, ints=True, role="selection", takes=("bool", "string"),
    rounding=EXACT,
    arguments=("condition", "x", "y"), summary="x where the condition holds, otherwise y.",
    example=((True, 1.5, 2.0), 1.5), complex=True,
    conventions=NOT_TAKEN,
    random=False,
)  # fmt: skip

# ---------------------------------------------------------------------------------------------- clipping


def _clip(t: Any, clip_value_min: Any, clip_value_max: Any) -> Any:
    return np.maximum(np.minimum(t, clip_value_max), clip_value_min)


def _clip_inside(x: Any, low: Any, high: Any) -> Any:
    return _as_mask(np.less_equal(low, x) & np.less_equal(x, high), x, low, high)


def _clip_below(x: Any, low: Any, high: Any) -> Any:
    return _as_mask(np.less(x, low) | np.less(high, low), x, low, high)


def _clip_above(x: Any, low: Any, high: Any) -> Any:
    return _as_mask(np.greater(x, high) & np.less_equal(low, high), x, low, high)


_CLIP: dict[str, Any] = {"kinks": ("x == low", "x == high"), "ulps": 0.5}

clip_inside = elementwise(
    "clip_inside", _clip_inside, (None, None, None),
    **_CLIP,
    summary="1 where low <= x <= high, otherwise 0.",
    conventions=_MASK,
)  # fmt: skip

clip_below = elementwise(
    "clip_below", _clip_below, (None, None, None),
    **_CLIP,
    summary="1 where clipping gives low, otherwise 0.",
    conventions=_MASK,
)  # fmt: skip

clip_above = elementwise(
    "clip_above", _clip_above, (None, None, None),
    **_CLIP,
    summary="1 where clipping gives high, otherwise 0.",
    conventions=_MASK,
)  # fmt: skip

clip_by_value = elementwise(
    "clip_by_value", _clip,
    (
        lambda xp, y, x, low, high: xp.clip_inside(x, low, high),
        lambda xp, y, x, low, high: xp.clip_below(x, low, high),
        lambda xp, y, x, low, high: xp.clip_above(x, low, high),
    ),
    selects=True, ints=True, **_CLIP,
    example=((7.5, 0.0, 6.0), 6.0), arguments=("t", "clip_value_min", "clip_value_max"),
    summary="x clipped to [low, high]; at a bound the gradient goes to x, outside to the bound.",
    conventions=_COMPARED,
    random=False,
)  # fmt: skip
