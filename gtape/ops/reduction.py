"""Reductions: sums, means, extrema, logsumexp, moments, and those without a derivative (any, all, argmax, counts)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gtape import dtypes
from gtape.errors import InvalidArgumentError
from gtape.ops.axes import axes_of, count_of, from_end, kept_shape, left_shape, merged, scalar_int, shape_of, spread
from gtape.ops.norms import norm, reduce_euclidean_norm
from gtape.primitive import REGISTRY, linear, primitive
from gtape.tensor import Tensor, as_operand, is_tensor, wrap

__all__ = [
    "add_n",
    "argmax",
    "argmin",
    "count_nonzero",
    "norm",
    "reduce_all",
    "reduce_any",
    "reduce_euclidean_norm",
    "reduce_logsumexp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_std",
    "reduce_sum",
    "reduce_variance",
]


# ---------------------------------------------------------------------------------------------- sum


def _sum_kernel(x: Any, *, axis: tuple[int, ...], keepdims: Any) -> Any:
    # np.sum costs three times as much as the ufunc's own reduce; small integers would be widened without the dtype.
    return np.add.reduce(x, axis=axis, dtype=x.dtype, keepdims=keepdims)


@functools.lru_cache(maxsize=512)
def _layout(
    have: tuple[int, ...], shape: tuple[int, ...], axis: tuple[int, ...], keepdims: bool, size: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """How a spread cotangent lies: its shape with size 1 on the reduced axes, in full, and the strides of that view."""
    lead = have[: len(have) - len(shape) + (0 if keepdims else len(axis))]
    gone = [a % len(shape) for a in axis]
    inner = have if keepdims else lead + tuple([1 if i in gone else d for i, d in enumerate(shape)])
    strides = []
    for d in reversed(inner):
        strides.append(0 if d == 1 else size)
        size *= d
    return inner, lead + shape, tuple(reversed(strides))


def _spread_out_kernel(g: Any, *, shape: tuple[int, ...], axis: tuple[int, ...], keepdims: bool) -> Any:
    inner, whole, strides = _layout(g.shape, shape, axis, keepdims, g.itemsize)
    # A view with zero strides, made by hand: np.broadcast_to costs ten times as much. Values are immutable.
    if g.__class__ is not np.ndarray or (g.flags.c_contiguous and g.size):
        return np.ndarray(whole, g.dtype, g, 0, strides)
    return np.broadcast_to(g.reshape(inner), whole)


def _sum_rule(xp: Any, g: Any, x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Any:
    return xp.spread_out(g, shape=tuple(x.shape), axis=axis, keepdims=keepdims)


def _spread_out_rule(xp: Any, g: Any, x: Any, *, shape: tuple[int, ...], axis: tuple[int, ...], keepdims: bool) -> Any:
    return xp.sum(g, axis=from_end(axis, len(shape)), keepdims=keepdims)


AXIS_SAMPLES: tuple[Any, ...] = (
    (((),), {"axis": (), "keepdims": False}),
    (((3,),), {"axis": (0,), "keepdims": False}),
    (((3,),), {"axis": (-1,), "keepdims": True}),
    (((1,),), {"axis": (-1,), "keepdims": False}),
    (((2, 3),), {"axis": (0,), "keepdims": False}),
    (((2, 2),), {"axis": (-1,), "keepdims": True}),
    (((2, 2),), {"axis": (-2, -1), "keepdims": False}),
    (((2, 1, 2),), {"axis": (0, -1), "keepdims": False}),
    (((2, 2),), {"axis": (), "keepdims": False}),
)

_sum = linear(
    "sum",
    _sum_kernel,
    _sum_rule,
    params=("axis", "keepdims"),
    batched=True,
    public=False,
    samples=(*AXIS_SAMPLES, (((2, 0),), {"axis": (1,), "keepdims": False})),
)


# The transpose of a sum over axes, and the other way round: one primitive each, since every loss passes here.
_spread_out = linear(
    "spread_out",
    _spread_out_kernel,
    _spread_out_rule,
    params=("shape", "axis", "keepdims"),
    batched=True,
    ulps=0.0,
    public=False,
    samples=(
        (((),), {"shape": (2, 3), "axis": (0, 1), "keepdims": False}),
        (((2,),), {"shape": (2, 3), "axis": (-1,), "keepdims": False}),
        (((3,),), {"shape": (2, 3), "axis": (0,), "keepdims": False}),
        (((2, 1),), {"shape": (2, 2), "axis": (-1,), "keepdims": True}),
        (((),), {"shape": (), "axis": (), "keepdims": False}),
        (((2,),), {"shape": (2, 0), "axis": (1,), "keepdims": False}),
    ),
)


# ---------------------------------------------------------------------------------------------- mean


def _mean_kernel(x: Any, *, axis: tuple[int, ...], keepdims: Any) -> Any:
    total = np.add.reduce(x, axis=axis, dtype=x.dtype, keepdims=keepdims)
    return total / x.dtype.type(count_of(x.shape, axis))


_mean = linear(
    "reduce_mean",  # the worlds of object arrays have a method of their own called mean
    _mean_kernel,
    lambda xp, g, x, *, axis, keepdims: xp.spread_out(
        g / max(count_of(tuple(x.shape), axis), 1), shape=tuple(x.shape), axis=axis, keepdims=keepdims
    ),
    params=("axis", "keepdims"),
    batched=True,
    public=False,
    ulps=2.0,
    samples=AXIS_SAMPLES,
)


# ---------------------------------------------------------------------------------------------- centred values


def _center_kernel(x: Any, *, axis: tuple[int, ...]) -> Any:
    if not axis:
        return x - x
    work = x.astype(np.float32) if x.dtype == np.float16 else x
    n = np.array(count_of(x.shape, axis), work.dtype)
    # A second pass over the remainders gives equal elements exact zeros: their std is at its kink, not beside it.
    mean = np.add.reduce(work, axis=axis, keepdims=True) / n
    mean = mean + np.add.reduce(work - mean, axis=axis, keepdims=True) / n
    return (work - mean).astype(x.dtype)


_center = linear(
    "center",
    _center_kernel,
    lambda xp, g, x, *, axis: xp.center(g, axis=from_end(axis, len(tuple(x.shape)))),
    params=("axis",),
    batched=True,
    ulps=2.0,
    public=False,
    samples=tuple((s, {"axis": p["axis"]}) for s, p in AXIS_SAMPLES if not p["keepdims"]),
)


# ---------------------------------------------------------------------------------------------- extrema


def _lowest(dtype: Any) -> Any:
    return -np.inf if dtype.kind == "f" else False if dtype.kind == "b" else np.iinfo(dtype).min


def _highest(dtype: Any) -> Any:
    return np.inf if dtype.kind == "f" else True if dtype.kind == "b" else np.iinfo(dtype).max


def max_kernel(x: Any, *, axis: tuple[int, ...], keepdims: Any) -> Any:
    """Greatest element; NaN if there is one; the dtype's least value for none."""
    if x.size:
        return np.maximum.reduce(x, axis=axis, keepdims=keepdims)
    return np.maximum.reduce(x, axis=axis, keepdims=keepdims, initial=_lowest(x.dtype))


def _min_kernel(x: Any, *, axis: tuple[int, ...], keepdims: Any) -> Any:
    if x.size:
        return np.minimum.reduce(x, axis=axis, keepdims=keepdims)
    return np.minimum.reduce(x, axis=axis, keepdims=keepdims, initial=_highest(x.dtype))


def _share(x: Any, top: Any, axis: tuple[int, ...]) -> Any:
    # Where the extremum is NaN nothing equals it: 0 / 0 makes the whole row NaN, as the value is.
    chosen = np.equal(x, top).astype(x.dtype)
    return chosen / np.add.reduce(chosen, axis=axis, keepdims=True)


def _max_share_kernel(x: Any, *, axis: tuple[int, ...]) -> Any:
    return _share(x, max_kernel(x, axis=axis, keepdims=True), axis)


def _min_share_kernel(x: Any, *, axis: tuple[int, ...]) -> Any:
    return _share(x, _min_kernel(x, axis=axis, keepdims=True), axis)


_TIES = ("two elements are equal and extreme",)
_SHARE_SAMPLES = tuple((s, {"axis": p["axis"]}) for s, p in AXIS_SAMPLES if not p["keepdims"])
_EXTREMUM: dict[str, Any] = {
    "params": ("axis", "keepdims"),
    "batched": True,
    "selects": True,
    "kinks": _TIES,
    "ulps": 0.0,
    "public": False,
    "samples": AXIS_SAMPLES,
}

_max_share = primitive(
    "max_share",
    _max_share_kernel,
    (None,),
    (None,),
    params=("axis",),
    kinks=_TIES,
    ulps=0.5,
    public=False,
    samples=_SHARE_SAMPLES,
)
_min_share = primitive(
    "min_share",
    _min_share_kernel,
    (None,),
    (None,),
    params=("axis",),
    kinks=_TIES,
    ulps=0.5,
    public=False,
    samples=_SHARE_SAMPLES,
)
_max = primitive(
    "max",
    max_kernel,
    (lambda xp, g, y, x, *, axis, keepdims: spread(xp, g, shape_of(x), axis, keepdims) * xp.max_share(x, axis=axis),),
    (lambda xp, t, y, x, *, axis, keepdims: xp.sum(t * xp.max_share(x, axis=axis), axis=axis, keepdims=keepdims),),
    **_EXTREMUM,
)
_min = primitive(
    "min",
    _min_kernel,
    (lambda xp, g, y, x, *, axis, keepdims: spread(xp, g, shape_of(x), axis, keepdims) * xp.min_share(x, axis=axis),),
    (lambda xp, t, y, x, *, axis, keepdims: xp.sum(t * xp.min_share(x, axis=axis), axis=axis, keepdims=keepdims),),
    **_EXTREMUM,
)


# ---------------------------------------------------------------------------------------------- logsumexp


def _shifted_exp(x: Any, axis: tuple[int, ...]) -> tuple[Any, Any, Any, Any]:
    """Maximum, the shift (maximum where finite), x - shift and exp(x - shift), in a precision that suits the dtype."""
    top = max_kernel(x, axis=axis, keepdims=True)
    shift = np.where(np.isfinite(top), top, 0)
    if x.dtype != np.float64:
        d = x.astype(np.float64) - shift.astype(np.float64)
        return top, shift, d, np.exp(d)
    d = x - shift
    # exp magnifies the rounding of x - shift by |x - shift|: the rounding error is found exactly and put back.
    b = d - x
    lost = (x - (d - b)) - (shift + b)
    return top, shift, d, np.exp(d) * (1.0 + np.where(np.isfinite(lost), lost, 0.0))


def _logsumexp_kernel(x: Any, *, axis: tuple[int, ...], keepdims: Any) -> Any:
    _, shift, d, e = _shifted_exp(x, axis)
    # One greatest element is 1: left out, so that log1p keeps what the others add, however small.
    greatest = d == 0
    rest = np.add.reduce(np.where(greatest, 0.0, e), axis=axis, keepdims=True)
    rest = rest + (np.add.reduce(greatest, axis=axis, keepdims=True, dtype=np.float64) - 1.0)
    y = (shift + np.log1p(rest)).astype(x.dtype)
    return y if keepdims else y.reshape(left_shape(x.shape, axis))


def _logsumexp_slope_kernel(x: Any, *, axis: tuple[int, ...]) -> Any:
    top, _, _, e = _shifted_exp(x, axis)
    w = e / np.add.reduce(e, axis=axis, keepdims=True)
    return np.where((top == np.inf) & (x < np.inf), 0.0, w).astype(x.dtype)


def _slope_rule(xp: Any, g: Any, y: Any, x: Any, *, axis: tuple[int, ...]) -> Any:
    if len(axis) == 1:
        # g - sum(g y) cancels where one y is nearly 1: this one does not.
        (a,) = from_end(axis, len(shape_of(y)))
        return y * xp.softmax_center(x, g, axis=a)
    return y * (g - xp.sum(g * y, axis=from_end(axis, len(shape_of(y))), keepdims=True))


_logsumexp_slope = primitive(
    "logsumexp_slope",
    _logsumexp_slope_kernel,
    (_slope_rule,),
    (_slope_rule,),
    params=("axis",),
    batched=True,
    ulps=4.0,
    public=False,
    samples=tuple((s, {"axis": p["axis"]}) for s, p in AXIS_SAMPLES if not p["keepdims"]),
)
_logsumexp = primitive(
    "logsumexp",
    _logsumexp_kernel,
    (
        lambda xp, g, y, x, *, axis, keepdims: (
            spread(xp, g, shape_of(x), axis, keepdims) * xp.logsumexp_slope(x, axis=axis)
        ),
    ),
    (
        lambda xp, t, y, x, *, axis, keepdims: xp.sum(
            t * xp.logsumexp_slope(x, axis=axis), axis=axis, keepdims=keepdims
        ),
    ),
    params=("axis", "keepdims"),
    batched=True,
    ulps=2.0,
    public=False,
    samples=AXIS_SAMPLES,
)


# ---------------------------------------------------------------------------------------------- without derivative


def _any_kernel(x: Any, *, axis: tuple[int, ...], keepdims: Any) -> Any:
    return np.logical_or.reduce(x, axis=axis, keepdims=keepdims)


def _all_kernel(x: Any, *, axis: tuple[int, ...], keepdims: Any) -> Any:
    return np.logical_and.reduce(x, axis=axis, keepdims=keepdims)


def _argmax_kernel(x: Any, *, axis: int) -> Any:
    return np.argmax(x, axis=axis).astype(np.int64)


def _argmin_kernel(x: Any, *, axis: int) -> Any:
    return np.argmin(x, axis=axis).astype(np.int64)


_BOOL_SAMPLES: tuple[Any, ...] = tuple(
    ((np.array([[True, False], [True, True]]),), {"axis": a, "keepdims": k})
    for a in ((0,), (-1,), (0, 1), ())
    for k in (False, True)
)
_ARG_SAMPLES: tuple[Any, ...] = ((((3,),), {"axis": -1}), (((2, 3),), {"axis": 0}), (((2, 3),), {"axis": -1}))

_any = primitive(
    "any", _any_kernel, (None,), (None,), params=("axis", "keepdims"), public=False, ulps=0.0, samples=_BOOL_SAMPLES
)
_all = primitive(
    "all", _all_kernel, (None,), (None,), params=("axis", "keepdims"), public=False, ulps=0.0, samples=_BOOL_SAMPLES
)
_argmax = primitive(
    "argmax",
    _argmax_kernel,
    (None,),
    (None,),
    params=("axis",),
    kinks=_TIES,
    public=False,
    ulps=0.0,
    samples=_ARG_SAMPLES,
)
_argmin = primitive(
    "argmin",
    _argmin_kernel,
    (None,),
    (None,),
    params=("axis",),
    kinks=_TIES,
    public=False,
    ulps=0.0,
    samples=_ARG_SAMPLES,
)


# ---------------------------------------------------------------------------------------------- public functions


def _numeric(x: Any, op: str) -> Tensor:
    t = as_operand(x)
    if t._aval.dtype.kind not in "iufcV":
        raise InvalidArgumentError(
            f"{op} needs numbers, not {t.dtype.name}: use gtape.cast(x, gtape.int32) first, or reduce_any, reduce_all, "
            "math.count_nonzero"
        )
    return t


def _floating(x: Any, op: str) -> Tensor:
    t = as_operand(x)
    if not t._aval.inexact:
        raise InvalidArgumentError(
            f"{op} needs a floating-point tensor, not {t.dtype.name}: use gtape.cast(x, gtape.float32) first"
        )
    return t


def _inexact(x: Any, op: str) -> Tensor:
    t = as_operand(x)
    if not t._aval.inexact:
        raise TypeError(
            f"{op} needs a floating-point or complex tensor, not {t.dtype.name}: use gtape.cast(x, gtape.float32) first"
        )
    return t


def _reduced(prim: Any, t: Tensor, axis: Any, keepdims: Any) -> Tensor:
    return prim.function(t, axis=axes_of(axis, len(t._aval.shape)), keepdims=bool(keepdims))  # type: ignore[no-any-return]


def add_n(inputs: Any, name: str | None = None) -> Tensor:
    """Sum of several tensors of one shape and dtype.

    Parameters
    ----------
    inputs : list of tensors
        At least one; their shapes must be equal, there is no broadcasting.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor

    Raises
    ------
    ValueError
        When the list is empty or no list.
    gtape.errors.InvalidArgumentError
        When shapes or dtypes differ.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.add_n([tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])]).numpy()
    array([4., 6.], dtype=float32)
    """
    if is_tensor(inputs) and inputs.shape.rank:
        inputs = list(inputs)
    if not isinstance(inputs, (list, tuple)) or not inputs:
        raise ValueError("inputs must be a non-empty list of Tensors/IndexedSlices with the same dtype and shape")
    tensors = [as_operand(x) for x in inputs]
    total = tensors[0]
    for t in tensors[1:]:
        if t._aval.shape != total._aval.shape:
            raise InvalidArgumentError(
                f"add_n: shapes {total.shape} and {t.shape} differ; add broadcasts, add_n does not"
            )
        total = total + t
    return total


def reduce_sum(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Sum of the elements along axes.

    Parameters
    ----------
    input_tensor : number tensor, any shape
    axis : int or sequence of int, optional
        The axes to sum over, negative ones counted from the end; all by default.
    keepdims : bool
        Whether the axes stay, with size 1.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor
        Of the same dtype.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When an axis is out of range or named twice.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.reduce_sum(tf.constant([[1.0, 2.0], [3.0, 4.0]]), axis=0).numpy()
    array([4., 6.], dtype=float32)
    """
    t = input_tensor
    if t.__class__ is not Tensor or not t._aval.inexact:
        t = _numeric(t, "reduce_sum")
    function = _sum._function or _sum.function
    return function(t, axis=axes_of(axis, len(t._aval.shape)), keepdims=bool(keepdims))  # type: ignore[no-any-return]


def reduce_mean(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Mean of the elements along axes: the sum divided by their number; NaN for none.

    Parameters
    ----------
    input_tensor : number tensor, any shape
        The mean of integers is an integer, rounded towards zero.
    axis, keepdims, name
        As for `reduce_sum`.

    Returns
    -------
    Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When an axis is out of range or named twice.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.reduce_mean([1.0, 2.0, 6.0]))
    3.0
    """
    t = input_tensor
    if t.__class__ is Tensor and t._aval.inexact and t._aval.dtype.itemsize > 2:
        function = _mean._function or _mean.function
        return function(t, axis=axes_of(axis, len(t._aval.shape)), keepdims=bool(keepdims))  # type: ignore[no-any-return]
    t = _numeric(input_tensor, "reduce_mean")
    axes = axes_of(axis, len(t._aval.shape))
    n = count_of(t._aval.shape, axes)
    if not t._aval.inexact:
        total = np.asarray(_sum_kernel(np.asarray(t._value).astype(np.int64), axis=axes, keepdims=bool(keepdims)))
        return wrap((np.sign(total) * (np.abs(total) // max(n, 1))).astype(t._aval.dtype))
    if t._aval.dtype == np.float16:
        from gtape.ops.creation import cast

        # A float16 sum overflows at 65504, far below what its mean can hold.
        return cast(_sum(cast(t, np.float32), axis=axes, keepdims=bool(keepdims)) / n, np.float16)
    return _mean(t, axis=axes, keepdims=bool(keepdims))  # type: ignore[no-any-return]


def reduce_max(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Greatest element along axes; equal ones share the gradient equally.

    Parameters
    ----------
    input_tensor : number tensor, any shape
    axis, keepdims, name
        As for `reduce_sum`.

    Returns
    -------
    Tensor
        NaN where there is a NaN; minus infinity (or the least integer) for no elements.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When an axis is out of range or named twice.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.reduce_max([[1.0, 5.0], [7.0, 2.0]], axis=1).numpy()
    array([5., 7.], dtype=float32)
    """
    return _reduced(_max, _numeric(input_tensor, "reduce_max"), axis, keepdims)


def reduce_min(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Least element along axes; equal ones share the gradient equally.

    Parameters
    ----------
    input_tensor : number tensor, any shape
    axis, keepdims, name
        As for `reduce_sum`.

    Returns
    -------
    Tensor
        NaN where there is a NaN; infinity (or the greatest integer) for no elements.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When an axis is out of range or named twice.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.reduce_min([[1.0, 5.0], [7.0, 2.0]], axis=1).numpy()
    array([1., 2.], dtype=float32)
    """
    return _reduced(_min, _numeric(input_tensor, "reduce_min"), axis, keepdims)


def reduce_logsumexp(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """``log(sum(exp(x)))`` along axes, without overflow and without losing small terms.

    Parameters
    ----------
    input_tensor : floating-point tensor, any shape
    axis, keepdims, name
        As for `reduce_sum`.

    Returns
    -------
    Tensor
        Minus infinity where all elements are minus infinity (the gradient there is NaN).

    Raises
    ------
    gtape.errors.InvalidArgumentError
        For integers, or when an axis is out of range or named twice.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.reduce_logsumexp(tf.constant([0.0, -40.0], tf.float64)))
    4.248354255291589e-18
    """
    t = _floating(input_tensor, "reduce_logsumexp")
    axes = axes_of(axis, t.ndim)
    if len(axes) < 2:
        return _logsumexp(t, axis=axes, keepdims=bool(keepdims))  # type: ignore[no-any-return]
    # Several axes become one, whose second derivatives keep their digits.
    y: Tensor = _logsumexp(merged(t, axes), axis=(-1,), keepdims=False)
    return REGISTRY["reshape"](y, shape=kept_shape(t._aval.shape, axes)) if keepdims else y


def reduce_variance(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Mean square deviation from the mean along axes.

    Parameters
    ----------
    input_tensor : floating-point tensor, any shape
    axis, keepdims, name
        As for `reduce_sum`.

    Returns
    -------
    Tensor

    Raises
    ------
    TypeError
        For integers.
    gtape.errors.InvalidArgumentError
        When an axis is out of range or named twice.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.math.reduce_variance([1.0, 3.0]))
    1.0
    """
    t = _inexact(input_tensor, "reduce_variance")
    axes = axes_of(axis, t.ndim)
    d: Any = _magnitude(_center(t, axis=axes))
    return reduce_mean(d * d, axes, keepdims)


def reduce_std(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Standard deviation along axes; where all elements are equal, a kink, its gradient is 0.

    Parameters
    ----------
    input_tensor : floating-point tensor, any shape
    axis, keepdims, name
        As for `reduce_sum`.

    Returns
    -------
    Tensor

    Raises
    ------
    TypeError
        For integers.
    gtape.errors.InvalidArgumentError
        When an axis is out of range or named twice.

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.math.reduce_std([1.0, 3.0]))
    1.0
    """
    t = _inexact(input_tensor, "reduce_std")
    axes = axes_of(axis, t.ndim)
    n = count_of(t._aval.shape, axes)
    length: Any = reduce_euclidean_norm(_center(t, axis=axes), axes, keepdims)
    return length / float(np.sqrt(n))  # type: ignore[no-any-return]


def _magnitude(t: Tensor) -> Tensor:
    if t._aval.dtype.kind != "c":
        return t
    return REGISTRY["abs"](t)  # type: ignore[no-any-return]


def reduce_any(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Whether any element along axes is true.

    Parameters
    ----------
    input_tensor : bool tensor, any shape
    axis, keepdims, name
        As for `reduce_sum`.

    Returns
    -------
    Tensor
        Of bool.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When an axis is out of range or named twice.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.reduce_any([[True, False], [False, False]], axis=1).numpy()
    array([ True, False])
    """
    return _reduced(_any, _boolean(input_tensor, "reduce_any"), axis, keepdims)


def reduce_all(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Whether all elements along axes are true.

    Parameters
    ----------
    input_tensor : bool tensor, any shape
    axis, keepdims, name
        As for `reduce_sum`.

    Returns
    -------
    Tensor
        Of bool.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When an axis is out of range or named twice.

    Examples
    --------
    >>> import gtape as tf
    >>> bool(tf.reduce_all([True, False]))
    False
    """
    return _reduced(_all, _boolean(input_tensor, "reduce_all"), axis, keepdims)


def _boolean(x: Any, op: str) -> Tensor:
    t = as_operand(x)
    if t._aval.dtype.kind != "b":
        if not t._aval.size and not is_tensor(x):
            return wrap(np.zeros(t._aval.shape, np.bool_))  # an empty list has no dtype of its own
        wrong = InvalidArgumentError if is_tensor(x) else TypeError
        raise wrong(f"{op} needs a bool tensor, not {t.dtype.name}: compare first, or use gtape.cast(x, gtape.bool)")
    return t


def count_nonzero(
    input: Any, axis: Any = None, keepdims: bool = False, dtype: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    """Number of elements along axes that are not zero.

    Parameters
    ----------
    input : tensor, any shape and dtype
    axis, keepdims, name
        As for `reduce_sum`.
    dtype : dtype
        Of the result.

    Returns
    -------
    Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When an axis is out of range or named twice.

    Examples
    --------
    >>> import gtape as tf
    >>> int(tf.math.count_nonzero([0.0, 2.0, 3.0]))
    2
    """
    t = as_operand(input)
    value = np.asarray(t._value)
    found = np.not_equal(value, 0) if value.dtype.kind in "biufcV" else np.vectorize(bool, otypes=[bool])(value)
    return wrap(_sum_kernel(found.astype(dtypes.np_dtype(dtype)), axis=axes_of(axis, t.ndim), keepdims=bool(keepdims)))


def argmax(input: Any, axis: Any = None, output_type: Any = dtypes.int64, name: str | None = None) -> Tensor:
    """Index of the greatest element along one axis, the first of equal ones.

    Parameters
    ----------
    input : number tensor of one axis or more
    axis : int
        0 by default, as in TensorFlow.
    output_type : dtype
        int32 or int64.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor
        Of `output_type`; not differentiable.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When the axis is out of range or has no elements.

    Examples
    --------
    >>> import gtape as tf
    >>> int(tf.argmax([1.0, 7.0, 3.0]))
    1
    """
    return _arg(_argmax, input, axis, output_type)


def argmin(input: Any, axis: Any = None, output_type: Any = dtypes.int64, name: str | None = None) -> Tensor:
    """Index of the least element along one axis, the first of equal ones.

    Parameters
    ----------
    input : number tensor of one axis or more
    axis : int
        0 by default, as in TensorFlow.
    output_type : dtype
        int32 or int64.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor
        Of `output_type`; not differentiable.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When the axis is out of range or has no elements.

    Examples
    --------
    >>> import gtape as tf
    >>> int(tf.argmin([4.0, 7.0, 3.0]))
    2
    """
    return _arg(_argmin, input, axis, output_type)


def _arg(prim: Any, x: Any, axis: Any, output_type: Any) -> Tensor:
    t = as_operand(x)
    (a,) = axes_of(0 if axis is None else scalar_int(axis), t.ndim)
    found: Tensor = prim(t, axis=a)
    wanted = dtypes.np_dtype(output_type)
    if wanted.kind not in "iu":
        raise InvalidArgumentError(f"output_type must be an integer type such as gtape.int64, not {wanted.name}")
    return found if wanted == np.int64 else wrap(np.asarray(found._value).astype(wanted))
