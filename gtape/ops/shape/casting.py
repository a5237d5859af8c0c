"""Casts with saturation, and casts that keep the bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import dtypes
from gtape.base.diagnosis import diagnosed
from gtape.declare.primitives import REGISTRY
from gtape.errors import InvalidArgumentError
from gtape.ops.shape.creation import cast
from gtape.tensors.tensor import Tensor, as_operand, wrap

__all__ = ["bitcast", "saturate_cast"]

LETS_OUT = True  # bits leave the tape here, as `gtape.recording.trace` notes


def _limits(dtype: Any) -> tuple[Any, Any]:
    info: Any = np.iinfo(dtype) if dtype.kind in "iu" else dtypes.as_dtype(dtype)
    return info.min, info.max


def _nearest(limit: Any, source: Any, inwards: Any) -> Any:
    """A limit in the dtype `source`: the number there that is nearest to the limit and does not exceed it."""
    if source.kind in "iu":
        return source.type(min(max(int(limit), int(np.iinfo(source).min)), int(np.iinfo(source).max)))
    with np.errstate(over="ignore"):
        found = source.type(limit)
    if not np.isfinite(found):
        return found
    beyond = int(found) > int(limit) if inwards < 0 else int(found) < int(limit)
    return np.nextafter(found, source.type(inwards * np.inf)) if beyond else found


@diagnosed
def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Tensor:
    """Change the dtype, after clipping values to its range.

    Parameters
    ----------
    value : number tensor
    dtype : dtype
        A numeric type.

    Returns
    -------
    Tensor
        Between floating-point types the gradient flows to the elements that were not clipped.

    Raises
    ------
    TypeError
        If `dtype` is not numeric.

    Examples
    --------
    >>> tf.saturate_cast([300, -5, 7], tf.uint8).numpy()
    array([255,   0,   7], dtype=uint8)
    """
    t = as_operand(value)
    wanted = dtypes.np_dtype(dtype)
    source = t._layout.dtype
    if wanted.kind not in "iufcV":
        raise TypeError(f"saturate_cast needs a number type, and {dtypes.as_dtype(dtype).name} has no range")
    if source == wanted:
        return t
    if source.kind == "c":
        parts = [saturate_cast(REGISTRY[part](t), np.zeros(0, wanted).real.dtype) for part in ("real", "imag")]
        return REGISTRY["complex"](*parts) if wanted.kind == "c" else parts[0]
    if source.kind == "b":
        return cast(t, wanted)
    if wanted.kind == "c":
        return cast(saturate_cast(t, np.zeros(0, wanted).real.dtype), wanted)
    low, high = _limits(wanted)
    have = _limits(source)
    if low > have[0] or high < have[1]:
        bounds = [wrap(_nearest(max(low, have[0]), source, 1)), wrap(_nearest(min(high, have[1]), source, -1))]
        t = REGISTRY["clip_by_value"](t, *bounds)
    return cast(t, wanted)


@diagnosed
def bitcast(input: Any, type: Any, name: str | None = None) -> Tensor:
    """Read the same bits as numbers of another type.

    Parameters
    ----------
    input : number tensor
    type : dtype
        A smaller type adds a last axis. A larger type removes the last axis, which must have the size that fits.

    Returns
    -------
    Tensor
        Not differentiable.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the tensor holds bools or strings, or the last axis does not fit.

    Examples
    --------
    >>> tf.bitcast([1.0], tf.int32).numpy()
    array([1065353216], dtype=int32)
    """
    t = as_operand(input)
    have, want = t._layout.dtype, dtypes.np_dtype(type)
    for d in (have, want):
        if d.kind not in "iufcV":
            raise InvalidArgumentError(f"bitcast is for numbers, not {dtypes.as_dtype(d).name}")
    bits = np.ascontiguousarray(np.asarray(t))
    shape = t._layout.shape
    if want.itemsize > have.itemsize:
        ratio = want.itemsize // have.itemsize
        if not shape or shape[-1] != ratio:
            raise InvalidArgumentError(
                f"Cannot bitcast {t.dtype.name} of shape {list(shape)} to {dtypes.as_dtype(want).name}: the last axis "
                f"must have size {ratio}"
            )
        return wrap(bits.reshape(shape).view(want).reshape(shape[:-1])[()].copy())
    ratio = have.itemsize // want.itemsize
    return wrap(bits.reshape(*shape, 1).view(want).reshape(shape if ratio == 1 else (*shape, ratio))[()].copy())
