"""Ops that enlarge tensors: pad, tile, repeat, meshgrid."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.base.shown import shown
from gtape.declare.conventions import NOT_TAKEN
from gtape.declare.primitives import REGISTRY, primitive
from gtape.declare.rounding import EXACT
from gtape.errors import InvalidArgumentError
from gtape.ops.shape.decisions import decided
from gtape.ops.shape.join import same_dtypes
from gtape.tensors.axes import check_room, integers_read, one_axis, scalar_int, shape_of, static_ints
from gtape.tensors.tensor import Tensor, as_operand, is_tensor, number_read, wrap

__all__ = ["meshgrid", "pad", "repeat", "tile"]


def _pad_kernel(x: Any, *, paddings: tuple[tuple[int, int], ...], value: Any) -> Any:
    y = np.full(
        [d + before + after for d, (before, after) in zip(x.shape, paddings, strict=True)], value, dtype=x.dtype
    )
    y[tuple([slice(before, before + d) for d, (before, _) in zip(x.shape, paddings, strict=True)])] = x
    return y


def _pad_rule(xp: Any, g: Any, y: Any, x: Any, *, paddings: tuple[tuple[int, int], ...], value: Any) -> Any:
    sizes = shape_of(g)[len(shape_of(g)) - len(paddings) :]
    return xp.strided_slice(g, key=tuple([(b, d - a, 1) for d, (b, a) in zip(sizes, paddings, strict=True)]))


def _pad_jvp(xp: Any, t: Any, y: Any, x: Any, *, paddings: tuple[tuple[int, int], ...], value: Any) -> Any:
    # A batched tangent has leading axes, which are not padded.
    lead = ((0, 0),) * (len(shape_of(t)) - len(paddings))
    return xp.pad(t, paddings=lead + paddings, value=0)


_pad = primitive(
    "pad", _pad_kernel, (_pad_rule,), (_pad_jvp,),
    reads=((),), params=("paddings", "value"), batched=True, rounding=EXACT, complex=True,
    samples=(
        (((2,),), {"paddings": ((1, 2),), "value": 0}),
        (((2, 2),), {"paddings": ((0, 1), (1, 0)), "value": 1}),
        (((),), {"paddings": (), "value": 0}),
        (((0,),), {"paddings": ((1, 1),), "value": 0}),
    ),
    conventions=NOT_TAKEN,
)  # fmt: skip


@diagnosed
def pad(
    tensor: Any, paddings: Any, mode: str = "CONSTANT", constant_values: Any = 0, name: str | None = None
) -> Tensor:
    """Enlarge a tensor at its edges.

    Parameters
    ----------
    tensor : tensor, any shape and dtype
    paddings : ints, shape (ndim, 2)
        The numbers of elements to add before and after each axis.
    mode : {"CONSTANT", "REFLECT", "SYMMETRIC"}
        "CONSTANT" adds `constant_values`. The others add the tensor mirrored at its edge, "REFLECT" without the edge
        itself and "SYMMETRIC" with it.
    constant_values : number

    Raises
    ------
    ValueError
        If the mode is unknown.
    TypeError
        If the tensor holds integers and the constant is a float.
    gtape.errors.InvalidArgumentError
        If the paddings have another shape, are negative, or exceed the number of elements of a mirrored tensor.

    Examples
    --------
    >>> tf.pad([1.0, 2.0, 3.0], [[1, 1]], "REFLECT").numpy()
    array([2., 1., 2., 3., 2.], dtype=float32)
    """
    t = as_operand(tensor)
    shape = t._layout.shape
    amounts = np.asarray(integers_read(as_operand(paddings)))
    if amounts.size == 0:
        amounts = amounts.reshape(0, 2)
    if amounts.shape != (len(shape), 2) or (amounts.dtype.kind not in "iu" and amounts.size):
        raise InvalidArgumentError(
            f"paddings must be integers of shape {[len(shape), 2]} for a tensor of shape {t._layout.tensor_shape}, "
            f"got {amounts.tolist()}"
        )
    pairs = tuple([(int(b), int(a)) for b, a in amounts])
    if any(n < 0 for p in pairs for n in p):
        raise InvalidArgumentError(f"paddings must not be negative, got {amounts.tolist()}")
    kind = mode.upper() if isinstance(mode, str) else shown(mode)
    if kind == "CONSTANT":
        value = number_read(as_operand(constant_values, t if t._layout.inexact else None))
        number = value.item() if hasattr(value, "item") else value
        if t._layout.dtype.kind == "O" and not isinstance(number, bytes):
            number = b""  # as in TensorFlow, because the default 0 is not a string
        if t._layout.dtype.kind in "iub" and isinstance(number, float):
            raise TypeError(f"cannot pad a tensor of {t.dtype.name} with {shown(number)}: use gtape.cast first")
        if isinstance(number, complex) and t._layout.dtype.kind != "c":
            raise TypeError(f"cannot pad a tensor of {t.dtype.name} with the complex number {number}")
        return _pad(t, paddings=pairs, value=_plain(number))
    if kind not in ("REFLECT", "SYMMETRIC"):
        raise ValueError(
            f"Value of argument `mode` expected to be one of 'CONSTANT', 'REFLECT', or 'SYMMETRIC', got {shown(mode)}"
        )
    for i, p in enumerate(pairs):
        most = shape[i] - (kind == "REFLECT")
        if max(p) > most:
            raise InvalidArgumentError(
                f"paddings of axis {i} must be at most {most} in mode {kind} for a tensor of shape "
                f"{t._layout.tensor_shape}, got {list(p)}"
            )
        if any(p):
            indices = np.pad(np.arange(shape[i]), p, mode="reflect" if kind == "REFLECT" else "symmetric")
            t = REGISTRY["gather"](t, wrap(indices), axis=i - len(shape), size=shape[i])
    return t


def _plain(v: Any) -> Any:
    """An integral float as an int, because every world reads ints exactly. Other values stay unchanged."""
    v = v.real if isinstance(v, complex) and not v.imag else v
    return int(v) if isinstance(v, float) and v.is_integer() else v


@diagnosed
def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    """Repeat a whole tensor along its axes.

    Parameters
    ----------
    input : tensor, any shape and dtype
    multiples : sequence of int
        The number of copies along each axis.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `multiples` has another length, or an entry is negative.

    Examples
    --------
    >>> tf.tile([1, 2], [2]).numpy()
    array([1, 2, 1, 2], dtype=int32)
    """
    t = as_operand(input)
    shape = t._layout.shape
    times = static_ints(multiples)
    if np.ndim(getattr(multiples, "_value", multiples)) != 1:
        raise InvalidArgumentError(f"tile: multiples must be a list, one for each axis, got {shown(multiples)}")
    if len(times) != len(shape) or any(m < 0 for m in times):
        raise InvalidArgumentError(
            f"multiples must be {len(shape)} integers, none negative, for a tensor of shape {t._layout.tensor_shape}, "
            f"got {times}"
        )
    apart = tuple([n for d in shape for n in (1, d)])
    whole = tuple([n for m, d in zip(times, shape, strict=True) for n in (m, d)])
    check_room(whole, t._layout.dtype, "tile")
    y = REGISTRY["broadcast_to"](REGISTRY["reshape"](t, shape=apart), shape=whole)
    return REGISTRY["reshape"](y, shape=tuple([m * d for m, d in zip(times, shape, strict=True)]))


@diagnosed
def repeat(input: Any, repeats: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """Repeat each element along an axis.

    Parameters
    ----------
    input : tensor, any shape and dtype
    repeats : int or sequence of int
        One number of repetitions for all elements, or one for each element of the axis.
    axis : int, optional
        By default the tensor is flattened first.

    Raises
    ------
    ValueError
        If `repeats` has another length, or the axis is out of range.
    gtape.errors.InvalidArgumentError
        If a number is negative.

    Examples
    --------
    >>> tf.repeat([1, 2], [1, 3]).numpy()
    array([1, 2, 2, 2], dtype=int32)
    """
    t = as_operand(input)
    if axis is None:
        t = REGISTRY["reshape"](t, shape=(t._layout.size,))
        axis = 0
    elif not t._layout.shape:
        t = REGISTRY["reshape"](t, shape=(1,))
    if not -t.ndim <= scalar_int(axis) < t.ndim:
        raise ValueError(f"axis {axis} is not in [{-t.ndim}, {t.ndim}), for a tensor of shape {t._layout.tensor_shape}")
    a = one_axis(axis, t.ndim)
    shape = t._layout.shape
    if is_tensor(repeats) and as_operand(repeats)._layout.size != 1:  # `decided` shows them to a check
        times = static_ints(wrap(as_operand(repeats)._value))
    else:
        times = static_ints(repeats)
    if len(times) not in (1, shape[a]):
        raise ValueError(
            f"repeats must be one number or {shape[a]}, for axis {a} of shape {t._layout.tensor_shape}, got {times}"
        )
    if any(r < 0 for r in times):
        raise InvalidArgumentError(f"repeats must not be negative, got {times}")
    if len(times) == 1:
        y = REGISTRY["reshape"](t, shape=(*shape[: a + 1], 1, *shape[a + 1 :]))
        y = REGISTRY["broadcast_to"](y, shape=(*shape[: a + 1], times[0], *shape[a + 1 :]))
        return REGISTRY["reshape"](y, shape=(*shape[:a], shape[a] * times[0], *shape[a + 1 :]))
    numbers = as_operand(repeats if is_tensor(repeats) else np.asarray(times))
    indices = decided(lambda v: np.repeat(np.arange(shape[a]), v.reshape(-1)), numbers)
    return REGISTRY["gather"](t, indices, axis=a - len(shape), size=shape[a])


@diagnosed
def meshgrid(*args: Any, **kwargs: Any) -> list[Tensor]:
    """Coordinates of a grid from the coordinates along its axes.

    Parameters
    ----------
    *args : tensors with one axis (or none)
    indexing : {"xy", "ij"}
        Matrix indexing ("ij"), or Cartesian indexing ("xy", the default), which swaps the first two axes of the
        results.

    Returns
    -------
    list of Tensor
        One tensor for each argument, all of the same shape.

    Raises
    ------
    ValueError
        If `indexing` is another string.
    TypeError
        If a keyword is unknown.
    gtape.errors.InvalidArgumentError
        If dtypes differ.

    Examples
    --------
    >>> x, y = tf.meshgrid([1, 2], [3, 4, 5])
    >>> x.shape
    TensorShape([3, 2])
    """
    indexing = kwargs.pop("indexing", "xy")
    kwargs.pop("name", None)
    if kwargs:
        raise TypeError(f"meshgrid got an unexpected keyword argument {shown(next(iter(kwargs)))}")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Argument `indexing` parameter must be either 'xy' or 'ij', got {shown(indexing)}")
    tensors = [as_operand(a) for a in args]
    same_dtypes(tensors, "meshgrid")
    sizes = [t._layout.size for t in tensors]
    places = list(range(len(tensors)))
    if indexing == "xy" and len(tensors) > 1:
        places[0], places[1] = 1, 0
    whole = tuple([sizes[p] for p in places])
    grids = []
    for i, t in enumerate(tensors):
        shape = tuple([sizes[i] if p == i else 1 for p in places])
        grids.append(REGISTRY["broadcast_to"](REGISTRY["reshape"](t, shape=shape), shape=whole))
    return grids
