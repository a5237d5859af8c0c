"""Replacement of NaN and infinities, and products with powers of 2."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.declare.primitives import REGISTRY, primitive
from gtape.declare.rounding import ulps
from gtape.errors import InvalidArgumentError
from gtape.kernels.broadcasting import broadcast_shapes
from gtape.tensors.operands import float_operand, whole_numbers
from gtape.tensors.tensor import Tensor, as_operand, wrap

__all__ = ["ldexp", "nan_to_num"]


@diagnosed
def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None, name: str | None = None
) -> Tensor:
    """NaN and infinities replaced by numbers. No gradient flows to a replaced element.

    Parameters
    ----------
    x : tensor of real or complex numbers, any shape
        Parts of complex numbers are replaced one by one.
    copy : bool, optional
        Ignored, because a tensor never changes. NumPy has the argument.
    nan : number or tensor that broadcasts to `x`
        Replaces NaN.
    posinf, neginf : number or tensor that broadcasts to `x`, optional
        Replace infinities. By default the greatest and the least finite number of the dtype.

    Returns
    -------
    Tensor
        Shape and dtype of `x`. Integers stay unchanged.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If a replacement does not broadcast to `x`.

    Examples
    --------
    >>> x = tf.constant([0.0, 1.0, -2.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = tf.math.nan_to_num(tf.math.log(x), neginf=-10.0)
    >>> y.numpy(), tape.gradient(y, x).numpy()
    (array([-10.,   0.,   0.], dtype=float32), array([0., 1., 0.], dtype=float32))
    """
    t = as_operand(x)
    if t._layout.complex:
        real, imag = [nan_to_num(REGISTRY[part](t), nan=nan, posinf=posinf, neginf=neginf) for part in ("real", "imag")]
        made: Tensor = REGISTRY["complex"](real, imag)
        return made
    if not t._layout.inexact:
        return t
    v = np.asarray(t._value)
    info = np.finfo(v.dtype)
    fills = [nan, info.max if posinf is None else posinf, info.min if neginf is None else neginf]
    nan, posinf, neginf = [as_operand(fill, t) for fill in fills]
    where = REGISTRY["where"]
    infinity = where(wrap(np.greater(v, 0)), posinf, neginf)
    made = where(wrap(np.isfinite(v)), t, where(wrap(np.isnan(v)), nan, infinity))
    if made._layout.shape != v.shape:
        raise InvalidArgumentError(
            f"nan_to_num: with its replacements x would grow from shape {t.shape} to {made.shape}: give them shapes "
            "that broadcast to x's"
        )
    return made


def _ldexp_kernel(x: Any, exponents: Any) -> Any:
    # beyond 2**13 the product is 0 or infinite in any dtype
    n = np.clip(exponents, -(2**13), 2**13).astype(np.int32)
    return np.ldexp(x, n)


_EXPONENTS = np.array([3, -1, 0])

# Not elementwise, because exponents are integers of another dtype.
_ldexp = primitive(
    "ldexp", _ldexp_kernel,
    (lambda xp, g, y, x, exponents: xp.ldexp(g, exponents), None),
    (lambda xp, t, y, x, exponents: xp.ldexp(t, exponents), None),
    reads=((1,), ()), batched=True, role="pointwise", rounding=ulps(0.5),
    samples=((((3,), _EXPONENTS), {}), (((2, 3), np.stack([_EXPONENTS, -_EXPONENTS])), {}), (((), np.array(2)), {})),
)  # fmt: skip


@diagnosed
def ldexp(x: Any, exponents: Any, name: str | None = None) -> Tensor:
    """``x * 2**exponents``, exact unless the result is subnormal or overflows.

    Parameters
    ----------
    x : floating-point tensor, any shape
    exponents : tensor of integers
        Constants for the tape. The shapes broadcast.

    Returns
    -------
    Tensor
        Dtype of `x`.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `x` is not floating-point, `exponents` are not integers, or the shapes do not broadcast.

    Examples
    --------
    >>> tf.math.ldexp([1.0, 3.0], [4, -1]).numpy()
    array([16. ,  1.5], dtype=float32)
    """
    t, n, given = float_operand(x, "ldexp"), whole_numbers(exponents, "ldexp", "exponents"), as_operand(exponents)
    if t._layout.complex:
        raise InvalidArgumentError("ldexp takes real numbers, not complex ones: multiply by 2.0**exponents instead")
    try:
        shape = broadcast_shapes(t._layout.shape, n.shape)
    except ValueError:
        raise InvalidArgumentError(f"ldexp: the shapes {t.shape} and {n.shape} do not fit") from None
    if t._layout.shape != shape:
        t = REGISTRY["broadcast_to"](t, shape=shape)
    # The tensor of the exponents itself, so that a check sees what they depend on.
    whole = wrap(n) if given._record is None else REGISTRY["cast"](given, dtype=n.dtype)
    made: Tensor = _ldexp(t, whole if n.shape == shape else REGISTRY["broadcast_to"](whole, shape=shape))
    return made
