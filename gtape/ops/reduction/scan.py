"""Scans: cumulative sums, shifts and linear recurrences."""

from __future__ import annotations

from typing import Any

from gtape.base.scalars import truth_of
from gtape.declare.conventions import PRODUCTS
from gtape.declare.primitives import linear, primitive
from gtape.declare.rounding import EXACT, SUM, stable
from gtape.errors import InvalidArgumentError
from gtape.kernels import scans as k
from gtape.tensors.axes import one_axis, shape_of
from gtape.tensors.tensor import Tensor, as_operand

__all__ = ["cumsum"]


shift_op = linear(
    "shift", k.shift, lambda xp, g, x, *, axis, by: xp.shift(g, axis=axis, by=-by),
    params=("axis", "by"), batched=True, rounding=EXACT,
    samples=(
        (((3,),), {"axis": -1, "by": 1}),
        (((3,),), {"axis": -1, "by": -1}),
        (((2, 3),), {"axis": -2, "by": 1}),
        (((1,),), {"axis": -1, "by": 1}),
    ),
)  # fmt: skip

SCANS: tuple[Any, ...] = (
    *[(((3,),), {"axis": -1, "exclusive": e, "reverse": r}) for e in (False, True) for r in (False, True)],
    (((2, 3),), {"axis": -2, "exclusive": False, "reverse": True}),
    (((2, 2),), {"axis": -1, "exclusive": True, "reverse": False}),
    (((1,),), {"axis": -1, "exclusive": True, "reverse": False}),
)

_cumsum = linear(
    "cumsum", k.cumsum,
    lambda xp, g, x, *, axis, exclusive, reverse: xp.cumsum(g, axis=axis, exclusive=exclusive, reverse=not reverse),
    params=("axis", "exclusive", "reverse"), batched=True, rounding=SUM,
    samples=(*SCANS, (((0,),), {"axis": -1, "exclusive": False, "reverse": False})),
)  # fmt: skip


def with_batch_axis(xp: Any, a: Any, g: Any) -> Any:
    """The factors with the batch axis that the terms have."""
    return with_shape(xp, a, shape_of(g))


def with_shape(xp: Any, a: Any, shape: tuple[int, ...]) -> Any:
    """`a` broadcast to `shape`, if it has another shape."""
    return a if shape_of(a) == shape else xp.broadcast_to(a, shape=shape)


def _adjoint(xp: Any, g: Any, a: Any, axis: int, reverse: bool) -> Any:
    step = 1 if reverse else -1
    return xp.linear_recurrence(
        with_batch_axis(xp, xp.shift(a, axis=axis, by=step), g), g, axis=axis, reverse=not reverse
    )


_linear_recurrence = primitive(
    "linear_recurrence", k.recurrence,
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
