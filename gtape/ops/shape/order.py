"""The same elements in another order: transpose, reverse, roll.

The rules count axes from the end and keep leading axes, because `jacobian` uses cotangents with a batch axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.scalars import truth_of
from gtape.base.shown import shown
from gtape.declare.primitives import REGISTRY, linear
from gtape.declare.rounding import EXACT
from gtape.errors import InvalidArgumentError
from gtape.tensors.axes import axes_of, from_end, one_axis, shape_of, static_ints
from gtape.tensors.tensor import Tensor, as_operand

__all__ = ["reverse", "roll", "transpose"]


def _transpose_kernel(x: Any, *, perm: tuple[int, ...]) -> Any:
    return x.transpose(perm)


def _transpose_rule(xp: Any, g: Any, x: Any, *, perm: tuple[int, ...]) -> Any:
    lead = len(shape_of(g)) - len(perm)
    back = [0] * len(perm)
    for i, p in enumerate(perm):
        back[p] = i
    return xp.transpose(g, perm=(*range(lead), *[lead + i for i in back]))


transpose_op = linear(
    "transpose", _transpose_kernel, _transpose_rule,
    params=("perm",), batched=True, role="move", rounding=EXACT,
    samples=(
        (((2, 3),), {"perm": (1, 0)}),
        (((2, 3, 2),), {"perm": (2, 0, 1)}),
        (((3,),), {"perm": (0,)}),
        (((),), {"perm": ()}),
        (((1, 0, 2),), {"perm": (1, 2, 0)}),
    ),
)  # fmt: skip


def _reverse_kernel(x: Any, *, axis: tuple[int, ...]) -> Any:
    return np.flip(x, axis)


_reverse = linear(
    "reverse", _reverse_kernel, lambda xp, g, x, *, axis: xp.reverse(g, axis=from_end(axis, len(tuple(x.shape)))),
    params=("axis",), batched=True, role="move", rounding=EXACT,
    samples=(
        (((3,),), {"axis": (-1,)}),
        (((2, 3),), {"axis": (0,)}),
        (((2, 3),), {"axis": (-2, -1)}),
        (((2,),), {"axis": ()}),
    ),
)  # fmt: skip


def _roll_kernel(x: Any, *, shift: tuple[int, ...], axis: tuple[int, ...]) -> Any:
    return np.roll(x, shift, axis)


def _roll_rule(xp: Any, g: Any, x: Any, *, shift: tuple[int, ...], axis: tuple[int, ...]) -> Any:
    return xp.roll(g, shift=tuple([-s for s in shift]), axis=from_end(axis, len(tuple(x.shape))))


_roll = linear(
    "roll", _roll_kernel, _roll_rule,
    params=("shift", "axis"), batched=True, role="move", rounding=EXACT,
    samples=(
        (((3,),), {"shift": (1,), "axis": (-1,)}),
        (((2, 3),), {"shift": (-2, 1), "axis": (-1, 0)}),
        (((2, 3),), {"shift": (1, 1), "axis": (-1, -1)}),
    ),
)  # fmt: skip


def transpose(a: Any, perm: Any = None, conjugate: bool = False, name: str = "transpose") -> Tensor:
    """Permute the axes.

    Parameters
    ----------
    a : tensor, any shape and dtype
    perm : sequence of int, optional
        The axis of `a` for each axis of the result. By default the axes are reversed.
    conjugate : bool
        Whether to conjugate complex numbers, too.

    Returns
    -------
    Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `perm` is not a permutation of the axes.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.transpose([[1, 2], [3, 4]]).numpy()
    array([[1, 3],
           [2, 4]], dtype=int32)
    """
    t = as_operand(a)
    n = t.ndim
    order = tuple(range(n))[::-1] if perm is None else tuple([one_axis(p, n) for p in static_ints(perm)])
    if sorted(order) != list(range(n)):
        raise InvalidArgumentError(f"perm must name each of the {n} axes once, got {shown(perm)}")
    y: Tensor = transpose_op(t, perm=order)
    return REGISTRY["conj"](y) if t._layout.dtype.kind == "c" and truth_of(conjugate, "transpose", "conjugate") else y


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    """Reverse the order of the elements along axes.

    Parameters
    ----------
    tensor : tensor, any shape and dtype
    axis : sequence of int

    Returns
    -------
    Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If an axis is out of range or named twice.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.reverse([1, 2, 3], [0]).numpy()
    array([3, 2, 1], dtype=int32)
    """
    t = as_operand(tensor)
    return _reverse(t, axis=axes_of(axis, t.ndim))


def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Tensor:
    """Shift the elements along axes, cyclically.

    Parameters
    ----------
    input : tensor, any shape and dtype
    shift : int or sequence of int
        For each axis, the distance to move towards higher indices.
    axis : int or sequence of int
        If an axis occurs twice, its shifts are added.

    Returns
    -------
    Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If an axis is out of range, or `shift` has another length.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.roll([1, 2, 3], shift=1, axis=0).numpy()
    array([3, 1, 2], dtype=int32)
    """
    t = as_operand(input)
    axes = tuple([one_axis(a, t.ndim) - t.ndim for a in static_ints(axis)])
    shifts = static_ints(shift)
    if len(axes) != len(shifts):
        raise InvalidArgumentError(f"shift and axis must have as many entries, got {len(shifts)} and {len(axes)}")
    return _roll(t, shift=shifts, axis=axes)
