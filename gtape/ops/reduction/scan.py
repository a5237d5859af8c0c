"""Scans and products: cumulative sums and products, the product of all elements, and linear recurrences.

No rule divides, so results are exact with any number of zeros, at every order. The product of all other elements is the
product of the elements before times the product of those after. The rule of a cumulative product also needs a linear
recurrence, whose own rules are recurrences.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.docstrings import documented_like
from gtape.base.scalars import truth_of
from gtape.declare.conventions import PRODUCTS
from gtape.declare.primitives import REGISTRY, linear, primitive
from gtape.declare.rounding import EXACT, SUM, stable
from gtape.errors import InvalidArgumentError
from gtape.ops.reduction.sums import reduce_sum
from gtape.tensors.axes import axes_of, kept_shape, merged, one_axis, shape_of
from gtape.tensors.tensor import Tensor, as_operand

__all__ = ["cumprod", "cumsum", "reduce_prod"]


def _along(axis: int, part: slice) -> tuple[Any, ...]:
    """An index for a part of one axis, which is counted from the end."""
    return (Ellipsis, part) + (slice(None),) * (-axis - 1)


_FORTH, _BACK = slice(None), slice(None, None, -1)


# ---------------------------------------------------------------------------------------------- shift and sum


def _shift_kernel(x: Any, *, axis: int, by: int) -> Any:
    y = np.zeros_like(x)
    if by > 0:
        y[_along(axis, slice(by, None))] = x[_along(axis, slice(None, -by))]
    else:
        y[_along(axis, slice(None, by))] = x[_along(axis, slice(-by, None))]
    return y


shift_op = linear(
    "shift", _shift_kernel, lambda xp, g, x, *, axis, by: xp.shift(g, axis=axis, by=-by),
    params=("axis", "by"), batched=True, rounding=EXACT,
    samples=(
        (((3,),), {"axis": -1, "by": 1}),
        (((3,),), {"axis": -1, "by": -1}),
        (((2, 3),), {"axis": -2, "by": 1}),
        (((1,),), {"axis": -1, "by": 1}),
    ),
)  # fmt: skip


def _exclusive(x: Any, axis: int, first: int) -> Any:
    """The values moved along by one place, after the neutral element."""
    y = np.empty_like(x)
    y[_along(axis, slice(1, None))] = x[_along(axis, slice(None, -1))]
    y[_along(axis, slice(None, 1))] = first
    return y


def _cumsum_kernel(x: Any, *, axis: int, exclusive: bool, reverse: bool) -> Any:
    way = _along(axis, _BACK if reverse else _FORTH)
    y = np.add.accumulate(x[way], axis=axis, dtype=x.dtype)
    return (_exclusive(y, axis, 0) if exclusive else y)[way]


_SCANS: tuple[Any, ...] = (
    *[(((3,),), {"axis": -1, "exclusive": e, "reverse": r}) for e in (False, True) for r in (False, True)],
    (((2, 3),), {"axis": -2, "exclusive": False, "reverse": True}),
    (((2, 2),), {"axis": -1, "exclusive": True, "reverse": False}),
    (((1,),), {"axis": -1, "exclusive": True, "reverse": False}),
)

_cumsum = linear(
    "cumsum", _cumsum_kernel,
    lambda xp, g, x, *, axis, exclusive, reverse: xp.cumsum(g, axis=axis, exclusive=exclusive, reverse=not reverse),
    params=("axis", "exclusive", "reverse"), batched=True, rounding=SUM,
    samples=(*_SCANS, (((0,),), {"axis": -1, "exclusive": False, "reverse": False})),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- linear recurrence


def recurrence_kernel(a: Any, b: Any, *, axis: int, reverse: bool) -> Any:
    """The recurrence ``y[i] = a[i] y[i - 1] + b[i]`` along an axis."""
    n = b.shape[axis]
    if a.shape != b.shape:
        raise ValueError(f"a recurrence needs factors and terms of one shape, not {a.shape} and {b.shape}")
    if b.ndim == 1 and b.dtype == a.dtype == np.float64:
        # For one row, Python's floats are faster than NumPy's scalars.
        return _recurrence_of_floats(a, b, reverse)
    y = b.copy()
    a, s = np.moveaxis(a, axis, 0), np.moveaxis(y, axis, 0)
    for i in range(n - 2, -1, -1) if reverse else range(1, n):
        s[i] += a[i] * s[i + 1 if reverse else i - 1]
    return y


def _recurrence_of_floats(a: Any, b: Any, reverse: bool) -> Any:
    factors, terms = a.tolist(), b.tolist()
    if reverse:
        factors.reverse()
        terms.reverse()
    s = 0.0
    out = []
    for i, (f, t) in enumerate(zip(factors, terms, strict=True)):
        # The first factor is skipped, because it may be infinite.
        s = f * s + t if i else t
        out.append(s)
    if reverse:
        out.reverse()
    return np.array(out)


def with_batch_axis(xp: Any, a: Any, g: Any) -> Any:
    """The factors with the batch axis that the terms have."""
    return a if shape_of(a) == shape_of(g) else xp.broadcast_to(a, shape=shape_of(g))


def _adjoint(xp: Any, g: Any, a: Any, axis: int, reverse: bool) -> Any:
    step = 1 if reverse else -1
    return xp.linear_recurrence(
        with_batch_axis(xp, xp.shift(a, axis=axis, by=step), g), g, axis=axis, reverse=not reverse
    )


_linear_recurrence = primitive(
    "linear_recurrence", recurrence_kernel,
    (
        lambda xp, g, y, a, b, *, axis, reverse: (
            _adjoint(xp, g, a, axis, reverse) * xp.shift(y, axis=axis, by=-1 if reverse else 1)
        ),
        lambda xp, g, y, a, b, *, axis, reverse: _adjoint(xp, g, a, axis, reverse),
    ),
    (
        lambda xp, t, y, a, b, *, axis, reverse: xp.linear_recurrence(
            with_batch_axis(xp, a, t), t * xp.shift(y, axis=axis, by=-1 if reverse else 1), axis=axis, reverse=reverse
        ),
        lambda xp, t, y, a, b, *, axis, reverse: xp.linear_recurrence(
            with_batch_axis(xp, a, t), t, axis=axis, reverse=reverse
        ),
    ),
    reads=((0, "y"), (0,)), params=("axis", "reverse"), batched=True, complex=True, rounding=stable(1, 2, feeds=1),
    samples=tuple(
        ((s, s), {"axis": a, "reverse": r})
        for s, a in (((3,), -1), ((2, 3), -1), ((2, 2), -2), ((1,), -1))
        for r in (False, True)
    ),
    conventions=PRODUCTS,
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- products


def _fraction_scan(x: Any) -> tuple[Any, Any]:
    """Running products along axis 0 as fractions near 1 and exponents, which neither overflow nor underflow."""
    f, e = np.frexp(x.astype(np.float64))
    f, e = f.copy(), e.astype(np.int64)
    for i in range(1, len(f)):
        p, k = np.frexp(f[i] * f[i - 1])
        f[i], e[i] = p, e[i] + e[i - 1] + k
    return f, e


def _joined(f: Any, e: Any, dtype: Any) -> Any:
    return np.ldexp(f, np.clip(e, -5000, 5000).astype(np.int32)).astype(dtype)


_SAFE = {np.dtype(t): (float(np.finfo(t).tiny / np.finfo(t).eps), float(np.finfo(t).max)) for t in "efd"}


def _strayed(y: Any) -> bool:
    """Whether an intermediate product may have overflowed or underflowed."""
    if y.dtype not in _SAFE:
        return False
    low, high = _SAFE[y.dtype]
    size = np.abs(y)
    return not (low < size.min() and size.max() <= high) if y.ndim else not low < size <= high


def _cumprod_kernel(x: Any, *, axis: int, exclusive: bool, reverse: bool) -> Any:
    way = _along(axis, _BACK if reverse else _FORTH)
    z = x[way]
    y = np.multiply.accumulate(z, axis=axis, dtype=x.dtype)
    if y.size and _strayed(y):
        y = np.moveaxis(_joined(*_fraction_scan(np.moveaxis(z, axis, 0)), x.dtype), 0, axis)
    return (_exclusive(y, axis, 1) if exclusive else y)[way]


def _cumprod_vjp(xp: Any, g: Any, x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
    """The vjp of a cumulative product: the product before each element times a recurrence of later cotangents."""
    step = 1 if reverse else -1
    factors = xp.shift(x, axis=axis, by=step)
    if exclusive:
        g = xp.shift(g, axis=axis, by=step)
        # Zero replaces the last element, because no product contains the element and its infinity or NaN must not
        # spread.
        factors = xp.shift(xp.shift(x, axis=axis, by=-step), axis=axis, by=2 * step)
    after = xp.linear_recurrence(with_batch_axis(xp, factors, g), g, axis=axis, reverse=not reverse)
    # Elements without a cotangent get zero, even if the product of the other elements overflows.
    return xp.multiply_no_nan(xp.cumprod(x, axis=axis, exclusive=True, reverse=reverse), after)


def _cumprod_jvp(xp: Any, t: Any, x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
    before = xp.cumprod(x, axis=axis, exclusive=True, reverse=reverse)
    # An element without a tangent adds nothing, even if the product of the other elements overflows.
    new = xp.multiply_no_nan(before, t)
    made = xp.linear_recurrence(with_batch_axis(xp, x, t), new, axis=axis, reverse=reverse)
    return xp.shift(made, axis=axis, by=-1 if reverse else 1) if exclusive else made


_cumprod = primitive(
    "cumprod", _cumprod_kernel,
    (lambda xp, g, y, x, *, axis, exclusive, reverse: _cumprod_vjp(xp, g, x, axis, exclusive, reverse),),
    (lambda xp, t, y, x, *, axis, exclusive, reverse: _cumprod_jvp(xp, t, x, axis, exclusive, reverse),),
    reads=((0,),), params=("axis", "exclusive", "reverse"), batched=True, complex=True, rounding=stable(0.5, 1),
    samples=_SCANS,
)  # fmt: skip


def _near_one(x: Any) -> bool:
    """Whether no product of elements along the last axis can overflow or underflow."""
    info = np.finfo(x.dtype)
    reach = min(info.maxexp, -info.minexp - info.nmant) / x.shape[-1]
    size = np.abs(x)
    return bool(2.0**-reach < size.min() and size.max() < 2.0**reach)


def _prod_kernel(x: Any) -> Any:
    if x.dtype not in _SAFE or not x.size or _near_one(x):
        return np.multiply.reduce(x, axis=-1, dtype=x.dtype)
    y = np.multiply.accumulate(x, axis=-1, dtype=x.dtype)
    if _strayed(y):
        f, e = _fraction_scan(np.moveaxis(x, -1, 0))
        return _joined(f[-1], e[-1], x.dtype)
    return y[..., -1]


def _prod_others_kernel(x: Any) -> Any:
    if not x.size:
        return x
    before = _exclusive(np.multiply.accumulate(x, axis=-1), -1, 1)
    after = _exclusive(np.multiply.accumulate(x[..., ::-1], axis=-1), -1, 1)[..., ::-1]
    y = before * after
    if _strayed(y) or _strayed(before) or _strayed(after):
        rows = np.moveaxis(x, -1, 0)
        (f, e), (h, k) = _fraction_scan(rows), _fraction_scan(rows[::-1])
        one = [np.ones_like(f[:1]), np.zeros_like(e[:1])]
        f, e = np.concatenate([one[0], f[:-1]]), np.concatenate([one[1], e[:-1]])
        h, k = np.concatenate([one[0], h[:-1]])[::-1], np.concatenate([one[1], k[:-1]])[::-1]
        y = np.moveaxis(_joined(f * h, e + k, x.dtype), 0, -1)
    return y


def _prod_others_vjp(xp: Any, g: Any, x: Any) -> Any:
    before = xp.cumprod(x, axis=-1, exclusive=True, reverse=False)
    after = xp.cumprod(x, axis=-1, exclusive=True, reverse=True)
    return _cumprod_vjp(xp, xp.multiply_no_nan(after, g), x, -1, True, False) + _cumprod_vjp(
        xp, xp.multiply_no_nan(before, g), x, -1, True, True
    )


_LAST_SAMPLES: tuple[Any, ...] = ((((3,),), {}), (((4,),), {}), (((1,),), {}), (((2, 3),), {}), (((2,),), {}))

_prod_others = primitive(
    "prod_others", _prod_others_kernel,
    (lambda xp, g, y, x: _prod_others_vjp(xp, g, x),),
    # The jvp equals the vjp, because the Hessian of the product is symmetric.
    (lambda xp, t, y, x: _prod_others_vjp(xp, t, x),),
    reads=((0,),), batched=True, complex=True, rounding=stable(0.5, 1),
    samples=_LAST_SAMPLES,
    conventions=PRODUCTS,
)  # fmt: skip
_prod = primitive(
    "prod", _prod_kernel,
    (lambda xp, g, y, x: xp.reshape(g, shape=(*shape_of(g), 1)) * xp.prod_others(x),),
    (lambda xp, t, y, x: xp.sum(xp.multiply_no_nan(xp.prod_others(x), t), axis=(-1,), keepdims=False),),
    reads=((0,),), batched=True, complex=True, role="product", rounding=stable(0.5, 1),
    samples=(*_LAST_SAMPLES, (((0,),), {})),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- public functions


def scan_operand(x: Any, op: str, floating: bool = False) -> Tensor:
    """The operand of the scan named `op`, which must hold numbers."""
    t = as_operand(x)
    if t._layout.dtype.kind in "bOSU" or (floating and not t.dtype.is_floating):
        raise InvalidArgumentError(
            f"{op} needs {'floating-point ' if floating else ''}numbers, not {t.dtype.name}: use gtape.cast first"
        )
    return t


def axis_from_end(axis: Any, t: Tensor, op: str) -> int:
    """The axis of a scan as users write it, converted to an axis counted from the end."""
    if not t._layout.shape:
        raise InvalidArgumentError(f"{op} needs a tensor with at least one axis, not a scalar")
    return one_axis(axis, t.ndim) - t.ndim


def cumsum(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Tensor:
    """Running sums along an axis.

    Parameters
    ----------
    x : number tensor with at least one axis
    axis : int
        The axis of the sums.
    exclusive : bool
        Whether to leave out the element itself. The first result is then 0.
    reverse : bool
        Whether to run from the end to the start.

    Returns
    -------
    Tensor
        Shape and dtype of `x`.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `x` is a scalar, or the axis is out of range.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.cumsum([1.0, 2.0, 3.0]).numpy()
    array([1., 3., 6.], dtype=float32)
    """
    t = scan_operand(x, "cumsum")
    return _cumsum(
        t,
        axis=axis_from_end(axis, t, "cumsum"),
        exclusive=truth_of(exclusive, "cumsum", "exclusive"),
        reverse=truth_of(reverse, "cumsum", "reverse"),
    )


@documented_like(cumsum)
def cumprod(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Tensor:
    """Running products along an axis. The gradient is exact at zeros, too.

    Parameters
    ----------
    exclusive : bool
        Whether to leave out the element itself. The first result is then 1.

    Examples
    --------
    >>> tf.math.cumprod([2.0, 3.0, 4.0]).numpy()
    array([ 2.,  6., 24.], dtype=float32)
    """
    t = scan_operand(x, "cumprod")
    return _cumprod(
        t,
        axis=axis_from_end(axis, t, "cumprod"),
        exclusive=truth_of(exclusive, "cumprod", "exclusive"),
        reverse=truth_of(reverse, "cumprod", "reverse"),
    )


@documented_like(reduce_sum)
def reduce_prod(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """The product of the elements along axes. The gradient is exact with any number of zeros.

    Examples
    --------
    >>> float(tf.reduce_prod([2.0, 3.0, 4.0]))
    24.0
    """
    t = scan_operand(input_tensor, "reduce_prod")
    shape = t._layout.shape
    axes = axes_of(axis, t.ndim)
    y: Tensor = _prod(merged(t, axes))
    return (
        REGISTRY["reshape"](y, shape=kept_shape(shape, axes))
        if axes and truth_of(keepdims, "reduce_prod", "keepdims")
        else y
    )
