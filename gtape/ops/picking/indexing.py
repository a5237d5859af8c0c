"""Indexing: Python's brackets, slices, and where with one argument."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.shown import shown
from gtape.declare.primitives import REGISTRY, linear
from gtape.declare.rounding import EXACT
from gtape.errors import InvalidArgumentError, OperandTypeError, OperandValueError
from gtape.ops.picking.gather import boolean_mask
from gtape.ops.shape.decisions import decided
from gtape.tensors.axes import integers_read, lead_of, scalar_int, static_ints
from gtape.tensors.operands import operands
from gtape.tensors.tensor import Tensor, as_operand, is_tensor

__all__ = ["getitem", "slice", "strided_slice", "where"]

_python_slice = slice
_ALL = (None, None, 1)


# ---------------------------------------------------------------------------------------------- slices


def numpy_key(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """A static key (ints, None for a new axis, (start, stop, step)) as NumPy's key for the last axes of an array."""
    return (Ellipsis, *[_python_slice(*k) if k.__class__ is tuple else k for k in key])


def _strided_slice_kernel(x: Any, *, key: tuple[Any, ...]) -> Any:
    return x[numpy_key(key)]


def _strided_slice_rule(xp: Any, g: Any, x: Any, *, key: tuple[Any, ...]) -> Any:
    # The key is for the last axes, because x may have batch axes before them.
    before = len(tuple(x.shape)) - sum(k is not None for k in key)
    lead = lead_of(g, before + sum(k.__class__ is not int for k in key))
    return xp.place(g, key=key, shape=lead + tuple(x.shape))


_KEYS: tuple[Any, ...] = (
    (((3,),), {"key": (1,)}),
    (((4,),), {"key": ((1, 3, 1),)}),
    (((4,),), {"key": ((3, None, -2),)}),
    (((2, 3),), {"key": (0, (0, 3, 2))}),
    (((2, 3),), {"key": (_ALL, None, 2)}),
    (((),), {"key": (None,)}),
    (((3,),), {"key": ((2, 2, 1),)}),
)

_strided_slice = linear(
    "strided_slice", _strided_slice_kernel, _strided_slice_rule,
    params=("key",), batched=True, selects=True, role="move", rounding=EXACT,
    samples=_KEYS,
)  # fmt: skip


def _place_kernel(g: Any, *, key: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    out = np.zeros(shape, g.dtype)
    out[numpy_key(key)] = g
    return out


_place = linear(
    "place", _place_kernel, lambda xp, g, x, *, key, shape: xp.strided_slice(g, key=key),
    params=("key", "shape"), batched=True, rounding=EXACT,
    samples=(
        (((),), {"key": (1,), "shape": (3,)}),
        (((2,),), {"key": ((1, 3, 1),), "shape": (4,)}),
        (((2,),), {"key": (0, (0, 3, 2)), "shape": (2, 3)}),
        (((2, 1),), {"key": (_ALL, None, 2), "shape": (2, 3)}),
    ),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- brackets


def _bound(v: Any) -> int | None:
    return None if v is None else _place_in_key(v)


def _place_in_key(v: Any) -> int:
    """One integer of an index, from an int or an integer scalar tensor."""
    if isinstance(v, (bool, np.bool_)):
        raise OperandValueError("a bool is no index: use a mask of the tensor's shape, or an integer")
    if is_tensor(v) or isinstance(v, np.ndarray):
        t = as_operand(v)
        if t._layout.dtype.kind not in "iu" or t._layout.shape:
            raise TypeError(
                f"an index must be an integer scalar, not {t.dtype.name} of shape {t._layout.tensor_shape}; "
                "use gtape.gather for several indices"
            )
        return int(integers_read(t))
    try:
        return scalar_int(v)
    except TypeError:
        several = "; use gtape.gather or gtape.gather_nd for several indices" if isinstance(v, (list, tuple)) else ""
        raise TypeError(
            "only integers, slices (`:`), ellipsis (`...`), gtape.newaxis (`None`) and scalar integer tensors are "
            f"valid indices, got {shown(v)}{several}"
        ) from None


def getitem(tensor: Any, key: Any) -> Tensor:
    """``tensor[key]``, recorded.

    Parameters
    ----------
    tensor : tensor
    key : int, slice, Ellipsis, None, integer scalar tensor, a tuple of these, or a boolean mask

    Returns
    -------
    Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If an index is out of range, there are too many indices, the ellipsis occurs twice, or the key is a list.
    TypeError
        If the key holds a float, or a tensor, array or list of several indices.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.constant([1.0, 2.0, 3.0])[::-1].numpy()
    array([3., 2., 1.], dtype=float32)
    """
    t = as_operand(tensor)
    shape = t._layout.shape
    if key.__class__ is int and shape and -shape[0] <= key < shape[0]:
        return _strided_slice(t, key=(key,) + (_ALL,) * (len(shape) - 1))
    if (is_tensor(key) and key.dtype.is_bool) or (isinstance(key, np.ndarray) and key.dtype == bool):
        return boolean_mask(t, key)
    if isinstance(key, list):
        raise InvalidArgumentError(
            f"a list of indices such as {shown(key)} is not supported in brackets: use gtape.gather or gtape.gather_nd"
        )
    entries = key if isinstance(key, tuple) else (key,)
    used = sum(e is not None and e is not Ellipsis for e in entries)
    dots = sum(e is Ellipsis for e in entries)
    if dots > 1:
        raise InvalidArgumentError("an index can only have a single ellipsis (`...`)")
    if used > len(shape):
        raise InvalidArgumentError(f"too many indices: {used} for a tensor of shape {t._layout.tensor_shape}")
    rest = (_ALL,) * (len(shape) - used)
    made: list[Any] = []
    axis = 0
    for e in entries:
        if e is None:
            made.append(None)
        elif e is Ellipsis:
            made.extend(rest)
            axis += len(rest)
        else:
            made.append(_entry(e, axis, shape[axis]))
            axis += 1
    if not dots:
        made.extend(rest)
    return _strided_slice(t, key=tuple(made))


def _entry(e: Any, axis: int, n: int) -> Any:
    if isinstance(e, _python_slice):
        bounds = _python_slice(_bound(e.start), _bound(e.stop), _bound(e.step))
        if bounds.step == 0:
            raise InvalidArgumentError(f"the step of the slice of axis {axis} must not be 0")
        # The ends stay as written, because the axis of picked elements has another size where others are picked.
        return (bounds.start, bounds.stop, 1 if bounds.step is None else bounds.step)
    i = _place_in_key(e)
    if not -n <= i < n:
        raise InvalidArgumentError(f"slice index {i} of dimension {axis} out of bounds: the axis has size {n}")
    return i


@diagnosed
def slice(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """Cut out a block.

    Parameters
    ----------
    input_ : tensor, any shape and dtype
    begin, size : sequence of int
        The start and the size of the block along each axis. The size -1 stands for the rest of the axis.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the block does not lie inside the tensor.

    Examples
    --------
    >>> tf.slice([1, 2, 3], [1], [-1]).numpy()
    array([2, 3], dtype=int32)
    """
    t = as_operand(input_)
    shape = t._layout.shape
    first, sizes = static_ints(begin), static_ints(size)
    if len(first) != len(shape) or len(sizes) != len(shape):
        raise InvalidArgumentError(
            f"begin and size must have {len(shape)} entries for a tensor of shape {t._layout.tensor_shape}, "
            f"got {len(first)} and {len(sizes)}"
        )
    key = []
    for i, (b, s, n) in enumerate(zip(first, sizes, shape, strict=True)):
        if not 0 <= b <= n or s < -1 or b + s > n:
            raise InvalidArgumentError(f"begin {b} and size {s} do not fit axis {i}, which has size {n}")
        key.append((b, None if s == -1 else b + s, 1))
    return _strided_slice(t, key=tuple(key))


@diagnosed
@documented_like(slice)
def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: str | None = None,
) -> Tensor:
    """``input_[begin[0]:end[0]:strides[0], ...]``, with bit masks for the other forms of an index.

    Parameters
    ----------
    begin, end, strides : sequence of int
        One entry for each part of the index. By default strides are 1.
    begin_mask, end_mask : int
        If bit i is set, entry i of `begin` (`end`) is left out.
    ellipsis_mask, new_axis_mask, shrink_axis_mask : int
        If bit i is set, part i is an ellipsis, a new axis, or the single index ``begin[i]``.
    var : None
        Ignored.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If an index is out of range, a stride is 0, or the lists differ in length.

    Examples
    --------
    >>> tf.strided_slice([1, 2, 3, 4], [3], [0], [-2]).numpy()
    array([4, 2], dtype=int32)
    """
    starts, stops = static_ints(begin), static_ints(end)
    steps = (1,) * len(starts) if strides is None else static_ints(strides)
    if not len(starts) == len(stops) == len(steps):
        raise InvalidArgumentError(
            f"begin, end and strides must have as many entries, got {len(starts)}, {len(stops)} and {len(steps)}"
        )
    key: list[Any] = []
    for i, (b, e, s) in enumerate(zip(starts, stops, steps, strict=True)):
        if ellipsis_mask >> i & 1:
            key.append(Ellipsis)
        elif new_axis_mask >> i & 1:
            key.append(None)
        elif shrink_axis_mask >> i & 1:
            if s < 0:
                raise InvalidArgumentError("only stride 1 allowed on non-range indexing")
            key.append(b)
        else:
            key.append(_python_slice(None if begin_mask >> i & 1 else b, None if end_mask >> i & 1 else e, s))
    return getitem(input_, tuple(key))


# ---------------------------------------------------------------------------------------------- where


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """`x` where the condition is true, otherwise `y`. With the condition alone, the indices of its true elements.

    Parameters
    ----------
    condition : bool tensor
        With the condition alone, any number tensor with at least one axis. Nonzero numbers are true.
    x, y : tensor, optional
        Either both or neither is given. The shapes broadcast with the condition. The gradient does not depend on
        elements that are not chosen.

    Returns
    -------
    Tensor
        With the condition alone: int64, shape (n, ndim), in row-major order.

    Raises
    ------
    ValueError
        If only one of `x` and `y` is given.
    gtape.errors.InvalidArgumentError
        If the condition is not bool, or if it is given alone and is a scalar.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.where([True, False], [1.0, 2.0], 0.0).numpy()
    array([1., 0.], dtype=float32)
    >>> tf.where([False, True]).numpy()
    array([[1]])
    """
    c = as_operand(condition)
    if x is None and y is None:
        value = np.asarray(c._value)
        if not value.ndim:
            raise InvalidArgumentError("where: a condition without axes has no indices; give x and y to select by it")
        return decided(lambda v: np.argwhere(v).astype(np.int64), c)
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    if c._layout.dtype.kind != "b":
        raise OperandTypeError(f"where: the condition must be bool, not {c.dtype.name}: compare first, as in x != 0")
    a, b = operands(x, y)
    return REGISTRY["where"](c, a, b)
