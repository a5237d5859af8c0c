"""Greatest and least elements along axes, and their indices. Equal elements share the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import dtypes
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.shown import shown
from gtape.declare.conventions import TIED, Noted, shows_kinks_of
from gtape.declare.primitives import primitive
from gtape.declare.rounding import EXACT, ulps
from gtape.errors import InvalidArgumentError, OperandTypeError
from gtape.ops.reduction.common import AXIS_SAMPLES, KEPT_AXIS_SAMPLES, numeric, reduced
from gtape.ops.reduction.sums import reduce_sum
from gtape.ops.shape.decisions import decided
from gtape.tensors.axes import axes_of, scalar_int, shape_of, spread
from gtape.tensors.tensor import Tensor, as_operand

__all__ = ["argmax", "argmin", "reduce_max", "reduce_min"]


def _lowest(dtype: Any) -> Any:
    return -np.inf if dtype.kind == "f" else False if dtype.kind == "b" else np.iinfo(dtype).min


def _highest(dtype: Any) -> Any:
    return np.inf if dtype.kind == "f" else True if dtype.kind == "b" else np.iinfo(dtype).max


def max_kernel(x: Any, *, axis: tuple[int, ...], keepdims: Any) -> Any:
    """The greatest element. NaN if an element is NaN; the dtype's least value for an empty array."""
    if x.size:
        return np.maximum.reduce(x, axis=axis, keepdims=keepdims)
    return np.maximum.reduce(x, axis=axis, keepdims=keepdims, initial=_lowest(x.dtype))


def _min_kernel(x: Any, *, axis: tuple[int, ...], keepdims: Any) -> Any:
    if x.size:
        return np.minimum.reduce(x, axis=axis, keepdims=keepdims)
    return np.minimum.reduce(x, axis=axis, keepdims=keepdims, initial=_highest(x.dtype))


def _share(x: Any, top: Any, axis: tuple[int, ...]) -> Any:
    # A NaN extremum equals no element, so the shares of the whole row are 0 / 0, which is NaN.
    chosen = np.equal(x, top).astype(x.dtype)
    return chosen / np.add.reduce(chosen, axis=axis, keepdims=True)


def _max_share_kernel(x: Any, *, axis: tuple[int, ...]) -> Any:
    return _share(x, max_kernel(x, axis=axis, keepdims=True), axis)


def _min_share_kernel(x: Any, *, axis: tuple[int, ...]) -> Any:
    return _share(x, _min_kernel(x, axis=axis, keepdims=True), axis)


_TIES = ("two elements are equal and extreme",)
_EXTREMUM: dict[str, Any] = {
    "params": ("axis", "keepdims"),
    "batched": True,
    "selects": True,
    "kinks": _TIES,
    "conventions": TIED,
    "rounding": EXACT,
    "samples": AXIS_SAMPLES,
}

_max_share = primitive(
    "max_share", _max_share_kernel, (None,), (None,),
    params=("axis",), kinks=_TIES, rounding=ulps(0.5),
    samples=KEPT_AXIS_SAMPLES,
    conventions=TIED,
)  # fmt: skip
_min_share = primitive(
    "min_share", _min_share_kernel, (None,), (None,),
    params=("axis",), kinks=_TIES, rounding=ulps(0.5),
    samples=KEPT_AXIS_SAMPLES,
    conventions=TIED,
)  # fmt: skip
_max = primitive(
    "max", max_kernel,
    (lambda xp, g, y, x, *, axis, keepdims: spread(xp, g, shape_of(x), axis, keepdims) * xp.max_share(x, axis=axis),),
    (lambda xp, t, y, x, *, axis, keepdims: xp.sum(t * xp.max_share(x, axis=axis), axis=axis, keepdims=keepdims),),
    reads=((0,),), **_EXTREMUM,
)  # fmt: skip
_min = primitive(
    "min", _min_kernel,
    (lambda xp, g, y, x, *, axis, keepdims: spread(xp, g, shape_of(x), axis, keepdims) * xp.min_share(x, axis=axis),),
    (lambda xp, t, y, x, *, axis, keepdims: xp.sum(t * xp.min_share(x, axis=axis), axis=axis, keepdims=keepdims),),
    reads=((0,),), **_EXTREMUM,
)  # fmt: skip


def _without_nan(x: Any, instead: float) -> Any:
    """The array without its NaN, because TensorFlow's argmax and argmin skip NaN, while NumPy's return its index."""
    return np.where(np.isnan(x), instead, x) if x.dtype.kind in "fV" and np.isnan(x).any() else x


def _argmax_kernel(x: Any, *, axis: int) -> Any:
    return np.argmax(_without_nan(x, -np.inf), axis=axis).astype(np.int64)


def _argmin_kernel(x: Any, *, axis: int) -> Any:
    return np.argmin(_without_nan(x, np.inf), axis=axis).astype(np.int64)


_INDEX: dict[str, Any] = {
    "params": ("axis",),
    "kinks": _TIES,
    "public": False,
    "rounding": EXACT,
    "samples": ((((3,),), {"axis": -1}), (((2, 3),), {"axis": 0}), (((2, 3),), {"axis": -1})),
    "conventions": (TIED, Noted("NaN is passed over, as in TensorFlow (NumPy stops at it)")),
}
_argmax = primitive("argmax", _argmax_kernel, (None,), (None,), **_INDEX)
_argmin = primitive("argmin", _argmin_kernel, (None,), (None,), **_INDEX)


@shows_kinks_of(_max)
@documented_like(reduce_sum)
def reduce_max(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """The greatest element along axes. Equal elements share the gradient equally.

    Returns
    -------
    Tensor
        NaN if an element is NaN. Minus infinity (or the least integer) if there are no elements.

    Examples
    --------
    >>> tf.reduce_max([[1.0, 5.0], [7.0, 2.0]], axis=1).numpy()
    array([5., 7.], dtype=float32)
    """
    return reduced(_max, numeric(input_tensor, "reduce_max"), axis, keepdims)


@shows_kinks_of(_min)
@documented_like(reduce_max)
def reduce_min(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """The least element along axes. Equal elements share the gradient equally.

    Examples
    --------
    >>> tf.reduce_min([[1.0, 5.0], [7.0, 2.0]], axis=1).numpy()
    array([1., 2.], dtype=float32)
    """
    return reduced(_min, numeric(input_tensor, "reduce_min"), axis, keepdims)


@diagnosed
def argmax(input: Any, axis: Any = None, output_type: Any = dtypes.int64, name: str | None = None) -> Tensor:
    """The index of the greatest element along one axis. Of equal elements, the first counts.

    Parameters
    ----------
    input : number tensor of one axis or more
    axis : int
        0 by default, as in TensorFlow.
    output_type : dtype
        int32 or int64.

    Returns
    -------
    Tensor
        Dtype `output_type`. Not differentiable.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the axis is out of range or has no elements.

    Examples
    --------
    >>> int(tf.argmax([1.0, 7.0, 3.0]))
    1
    """
    return _arg(_argmax, input, axis, output_type)


@diagnosed
@documented_like(argmax)
def argmin(input: Any, axis: Any = None, output_type: Any = dtypes.int64, name: str | None = None) -> Tensor:
    """The index of the least element along one axis. Of equal elements, the first counts.

    Examples
    --------
    >>> int(tf.argmin([4.0, 7.0, 3.0]))
    2
    """
    return _arg(_argmin, input, axis, output_type)


def _arg(prim: Any, x: Any, axis: Any, output_type: Any) -> Tensor:
    t = as_operand(x)
    try:
        (a,) = axes_of(0 if axis is None else scalar_int(axis), t.ndim)
    except TypeError:
        raise OperandTypeError(f"the axis must be one integer, got {shown(axis)}") from None
    found: Tensor = prim(t, axis=a)
    wanted = dtypes.np_dtype(output_type)
    if wanted.kind not in "iu":
        raise InvalidArgumentError(f"output_type must be an integer type such as gtape.int64, not {wanted.name}")
    return found if wanted == np.int64 else decided(lambda v: v.astype(wanted), found)
