"""Ops that put tensors together, take them apart or enlarge them: concat, stack, split, pad, tile, repeat, meshgrid."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from gtape.errors import InvalidArgumentError
from gtape.operands import operands
from gtape.ops.axes import lead_of, one_axis, scalar_int, shape_of, static_ints
from gtape.primitive import REGISTRY, linear, primitive
from gtape.tensor import Tensor, as_operand, is_tensor, wrap

__all__ = ["concat", "meshgrid", "pad", "repeat", "split", "stack", "tile", "unstack"]

_ALL = (None, None, 1)


def _piece(xp: Any, g: Any, ndim: int, axis: int, part: Any) -> Any:
    """One part of a value along an axis of its last `ndim`: an integer drops the axis, (start, stop, 1) keeps it."""
    a = axis % ndim
    return xp.strided_slice(g, key=(_ALL,) * a + (part,) + (_ALL,) * (ndim - a - 1))


def _pieces(xp: Any, g: Any, ndim: int, axis: int, sizes: list[int]) -> list[Any]:
    ends = list(itertools.accumulate(sizes))
    return [_piece(xp, g, ndim, axis, (end - n, end, 1)) for n, end in zip(sizes, ends, strict=True)]


# ---------------------------------------------------------------------------------------------- primitives


def _concat_kernel(*xs: Any, axis: int) -> Any:
    return np.concatenate(xs, axis)


def _concat_rule(xp: Any, g: Any, xs: Any, *, axis: int) -> Any:
    shapes = [tuple(x.shape) for x in xs]
    return _pieces(xp, g, len(shapes[0]), axis, [s[axis] for s in shapes])


_concat = linear(
    "concat",
    _concat_kernel,
    _concat_rule,
    params=("axis",),
    variadic=True,
    batched=True,
    ulps=0.0,
    public=False,
    samples=(
        (((2,), (3,)), {"axis": 0}),
        (((2, 1), (2, 2), (2, 1)), {"axis": -1}),
        (((1, 2), (2, 2)), {"axis": -2}),
        (((2,),), {"axis": -1}),
        (((0,), (2,)), {"axis": -1}),
    ),
)


def _stack_kernel(*xs: Any, axis: int) -> Any:
    return np.stack(xs, axis)


def _stack_rule(xp: Any, g: Any, xs: Any, *, axis: int) -> Any:
    ndim = len(tuple(xs[0].shape)) + 1
    return [_piece(xp, g, ndim, axis, i) for i in range(len(xs))]


_stack = linear(
    "stack",
    _stack_kernel,
    _stack_rule,
    params=("axis",),
    variadic=True,
    batched=True,
    ulps=0.0,
    public=False,
    samples=(
        (((), ()), {"axis": 0}),
        (((2,), (2,), (2,)), {"axis": -1}),
        (((2, 2), (2, 2)), {"axis": -2}),
        (((3,),), {"axis": 0}),
    ),
)


def _split_kernel(x: Any, *, sizes: tuple[int, ...], axis: int) -> Any:
    return tuple(np.split(x, list(itertools.accumulate(sizes))[:-1], axis))


def _split_rule(xp: Any, g: Any, x: Any, *, sizes: tuple[int, ...], axis: int) -> Any:
    shape = tuple(x.shape)
    a = axis % len(shape)
    parts = []
    whole = max([lead_of(p, len(shape)) for p in g], key=len)
    for p, n in zip(g, sizes, strict=True):
        # An output that nothing reached comes as plain zeros, without the batch axis that the others may have.
        wanted = (*whole, *shape[:a], n, *shape[a + 1 :])
        parts.append(p if shape_of(p) == wanted else xp.broadcast_to(p, shape=wanted))
    return xp.concat(*parts, axis=a - len(shape))


_split = linear(
    "split",
    _split_kernel,
    _split_rule,
    params=("sizes", "axis"),
    batched=True,
    ulps=0.0,
    public=False,
    samples=(
        (((5,),), {"sizes": (2, 3), "axis": -1}),
        (((3, 2),), {"sizes": (1, 1, 1), "axis": -2}),
        (((2, 3),), {"sizes": (0, 3), "axis": -1}),
        (((2,),), {"sizes": (2,), "axis": -1}),
    ),
)


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
    "pad",
    _pad_kernel,
    (_pad_rule,),
    (_pad_jvp,),
    params=("paddings", "value"),
    batched=True,
    ulps=0.0,
    complex=True,
    public=False,
    samples=(
        (((2,),), {"paddings": ((1, 2),), "value": 0}),
        (((2, 2),), {"paddings": ((0, 1), (1, 0)), "value": 1}),
        (((),), {"paddings": (), "value": 0}),
        (((0,),), {"paddings": ((1, 1),), "value": 0}),
    ),
)


# ---------------------------------------------------------------------------------------------- public functions


def _same_dtypes(tensors: list[Tensor], op: str) -> None:
    found = {t._aval.dtype for t in tensors}
    if len(found) > 1:
        raise InvalidArgumentError(
            f"{op} needs tensors of one dtype, got {', '.join(t.dtype.name for t in tensors)}: use gtape.cast"
        )


def concat(values: Any, axis: Any, name: str = "concat") -> Tensor:
    """Join tensors along an axis that they have.

    Parameters
    ----------
    values : list of tensors
        Of one dtype, and of one shape but for the size of that axis.
    axis : int
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When shapes or dtypes do not fit, or the axis is out of range.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.concat([[1, 2], [3]], axis=0).numpy()
    array([1, 2, 3], dtype=int32)
    """
    if not isinstance(values, (list, tuple)):
        return REGISTRY["identity"](as_operand(values))  # type: ignore[no-any-return]
    if not values:
        raise InvalidArgumentError("concat needs at least one tensor")
    tensors = operands(*values)
    _same_dtypes(tensors, "concat")
    if not tensors[0]._aval.shape:
        raise InvalidArgumentError("concat cannot join scalars, which have no axis: use gtape.stack")
    (place,) = static_ints(axis)
    a = one_axis(place, tensors[0].ndim)
    return _concat(*tensors, axis=a - tensors[0].ndim)  # type: ignore[no-any-return]


def stack(values: Any, axis: Any = 0, name: str = "stack") -> Tensor:
    """Join tensors of one shape along a new axis.

    Parameters
    ----------
    values : list of tensors, or a tensor
        Of one dtype and shape. An empty list makes an empty tensor.
    axis : int
        Where the new axis is in the result.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor

    Raises
    ------
    ValueError
        For an axis out of range.
    gtape.errors.InvalidArgumentError
        When shapes or dtypes differ.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.stack([1.0, 2.0]).numpy()
    array([1., 2.], dtype=float32)
    """
    if is_tensor(values) or isinstance(values, np.ndarray):
        values = unstack(values)
    if not len(values):
        return as_operand(values)
    if all(isinstance(v, (int, float)) for v in values):
        values = unstack(as_operand(list(values)))  # 1 and 2.0 together are floats
    tensors = operands(*values)
    _same_dtypes(tensors, "stack")
    shapes = {t._aval.shape for t in tensors}
    if len(shapes) > 1:
        raise InvalidArgumentError(
            f"stack needs tensors of one shape, got {', '.join(str(t._aval.tensor_shape) for t in tensors)}"
        )
    n = tensors[0].ndim + 1
    a = scalar_int(axis)
    if not -n <= a < n:
        raise ValueError(f"Argument `axis` = {a} not in range [{-n}, {n})")
    return _stack(*tensors, axis=a % n - n)  # type: ignore[no-any-return]


def unstack(value: Any, num: Any = None, axis: Any = 0, name: str = "unstack") -> list[Tensor]:
    """Take a tensor apart along an axis, which the parts no longer have.

    Parameters
    ----------
    value : tensor with at least one axis
    num : int, optional
        The size of the axis, checked when given.
    axis : int
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    list of Tensor

    Raises
    ------
    ValueError
        When the axis is out of range.
    gtape.errors.InvalidArgumentError
        When `num` is not the size of the axis.

    Examples
    --------
    >>> import gtape as tf
    >>> [float(t) for t in tf.unstack([1.0, 2.0])]
    [1.0, 2.0]
    """
    t = as_operand(value)
    shape = t._aval.shape
    a = scalar_int(axis)
    if not -len(shape) <= a < len(shape):
        raise ValueError(f"Argument `axis` = {a} not in range [{-len(shape)}, {len(shape)})")
    a %= len(shape)
    if num is not None and scalar_int(num) != shape[a]:
        raise InvalidArgumentError(f"the axis has size {shape[a]}, not num={num}")
    if not shape[a]:
        return []
    left = (*shape[:a], *shape[a + 1 :])
    return [REGISTRY["reshape"](p, shape=left) for p in _split(t, sizes=(1,) * shape[a], axis=a - len(shape))]


def split(value: Any, num_or_size_splits: Any, axis: Any = 0, num: Any = None, name: str = "split") -> list[Tensor]:
    """Take a tensor apart along an axis, into equal parts or parts of given sizes.

    Parameters
    ----------
    value : tensor with at least one axis
    num_or_size_splits : int or sequence of int
        The number of equal parts, or their sizes, of which one may be -1: what is left.
    axis : int
    num : int, optional
        The number of parts; only checked.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    list of Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When the parts do not fill the axis, or the axis is out of range.

    Examples
    --------
    >>> import gtape as tf
    >>> [p.shape[0] for p in tf.split([1.0, 2.0, 3.0], [1, -1])]
    [1, 2]
    """
    t = as_operand(value)
    a = one_axis(axis, t.ndim)
    length = t._aval.shape[a]
    if isinstance(num_or_size_splits, (list, tuple, np.ndarray)) or (
        is_tensor(num_or_size_splits) and num_or_size_splits.shape.rank
    ):
        sizes = list(static_ints(num_or_size_splits))
        if sizes.count(-1) == 1:
            sizes[sizes.index(-1)] = length - sum(sizes) - 1
        if sum(sizes) != length or any(n < 0 for n in sizes):
            raise InvalidArgumentError(
                f"sizes {list(static_ints(num_or_size_splits))} do not add up to the size {length} of axis {a}"
            )
    else:
        parts = scalar_int(num_or_size_splits)
        if parts < 1 or length % parts:
            raise InvalidArgumentError(f"axis {a} of size {length} cannot be split into {parts} equal parts")
        sizes = [length // parts] * parts
    if num is not None and num != len(sizes):
        raise InvalidArgumentError(f"num is {num}, but there are {len(sizes)} parts")
    return list(_split(t, sizes=tuple(sizes), axis=a - t.ndim))


def pad(
    tensor: Any, paddings: Any, mode: str = "CONSTANT", constant_values: Any = 0, name: str | None = None
) -> Tensor:
    """Enlarge a tensor at its edges.

    Parameters
    ----------
    tensor : tensor, any shape and dtype
    paddings : ints, shape (ndim, 2)
        How many elements to add before and after each axis.
    mode : {"CONSTANT", "REFLECT", "SYMMETRIC"}
        Constant values; or the tensor mirrored at its edge, without or with the edge itself.
    constant_values : number
        What is added in mode "CONSTANT".
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor

    Raises
    ------
    ValueError
        For an unknown mode.
    TypeError
        When integers are to be padded with a float.
    gtape.errors.InvalidArgumentError
        When the paddings have another shape, are negative, or larger than a mirrored tensor has elements.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.pad([1.0, 2.0, 3.0], [[1, 1]], "REFLECT").numpy()
    array([2., 1., 2., 3., 2.], dtype=float32)
    """
    t = as_operand(tensor)
    shape = t._aval.shape
    amounts = np.asarray(as_operand(paddings)._value)
    if amounts.size == 0:
        amounts = amounts.reshape(0, 2)
    if amounts.shape != (len(shape), 2) or (amounts.dtype.kind not in "iu" and amounts.size):
        raise InvalidArgumentError(
            f"paddings must be integers of shape {[len(shape), 2]} for a tensor of shape {t._aval.tensor_shape}, "
            f"got {amounts.tolist()}"
        )
    pairs = tuple([(int(b), int(a)) for b, a in amounts])
    if any(n < 0 for p in pairs for n in p):
        raise InvalidArgumentError(f"paddings must not be negative, got {amounts.tolist()}")
    kind = mode.upper()
    if kind == "CONSTANT":
        value = as_operand(constant_values)._value
        number = value.item() if hasattr(value, "item") else value
        if t._aval.dtype.kind in "iub" and isinstance(number, float):
            raise TypeError(f"cannot pad a tensor of {t.dtype.name} with {number!r}: use gtape.cast first")
        return _pad(t, paddings=pairs, value=_plain(number))  # type: ignore[no-any-return]
    if kind not in ("REFLECT", "SYMMETRIC"):
        raise ValueError(
            f"Value of argument `mode` expected to be one of 'CONSTANT', 'REFLECT', or 'SYMMETRIC', got {mode!r}"
        )
    for i, p in enumerate(pairs):
        most = shape[i] - (kind == "REFLECT")
        if max(p) > most:
            raise InvalidArgumentError(
                f"paddings of axis {i} must be at most {most} in mode {kind} for a tensor of shape "
                f"{t._aval.tensor_shape}, got {list(p)}"
            )
        if any(p):
            indices = np.pad(np.arange(shape[i]), p, mode="reflect" if kind == "REFLECT" else "symmetric")
            t = REGISTRY["gather"](t, wrap(indices), axis=i - len(shape), size=shape[i])
    return t


def _plain(v: Any) -> Any:
    """A whole number as an int, which every world reads exactly; other values as they are."""
    return int(v) if isinstance(v, float) and v.is_integer() else v


def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    """Repeat a whole tensor along its axes.

    Parameters
    ----------
    input : tensor, any shape and dtype
    multiples : sequence of int
        How many times, one for each axis.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When there is not one for each axis, or one is negative.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.tile([1, 2], [2]).numpy()
    array([1, 2, 1, 2], dtype=int32)
    """
    t = as_operand(input)
    shape = t._aval.shape
    times = static_ints(multiples)
    if len(times) != len(shape) or any(m < 0 for m in times):
        raise InvalidArgumentError(
            f"multiples must be {len(shape)} integers, none negative, for a tensor of shape {t._aval.tensor_shape}, "
            f"got {times}"
        )
    apart = tuple([n for d in shape for n in (1, d)])
    whole = tuple([n for m, d in zip(times, shape, strict=True) for n in (m, d)])
    y = REGISTRY["broadcast_to"](REGISTRY["reshape"](t, shape=apart), shape=whole)
    return REGISTRY["reshape"](y, shape=tuple([m * d for m, d in zip(times, shape, strict=True)]))  # type: ignore[no-any-return]


def repeat(input: Any, repeats: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """Repeat each element along an axis.

    Parameters
    ----------
    input : tensor, any shape and dtype
    repeats : int or sequence of int
        How many times: one number for all, or one for each element of the axis.
    axis : int, optional
        By default the tensor is flattened first.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor

    Raises
    ------
    ValueError
        When there is not one number for each element of the axis, or the axis is out of range.
    gtape.errors.InvalidArgumentError
        When a number is negative.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.repeat([1, 2], [1, 3]).numpy()
    array([1, 2, 2, 2], dtype=int32)
    """
    t = as_operand(input)
    if axis is None:
        t = REGISTRY["reshape"](t, shape=(t._aval.size,))
        axis = 0
    elif not t._aval.shape:
        t = REGISTRY["reshape"](t, shape=(1,))
    if not -t.ndim <= scalar_int(axis) < t.ndim:
        raise ValueError(f"axis {axis} is not in [{-t.ndim}, {t.ndim}), for a tensor of shape {t._aval.tensor_shape}")
    a = one_axis(axis, t.ndim)
    shape = t._aval.shape
    times = static_ints(repeats)
    if len(times) not in (1, shape[a]):
        raise ValueError(
            f"repeats must be one number or {shape[a]}, for axis {a} of shape {t._aval.tensor_shape}, got {times}"
        )
    if any(r < 0 for r in times):
        raise InvalidArgumentError(f"repeats must not be negative, got {times}")
    if len(times) == 1:
        y = REGISTRY["reshape"](t, shape=(*shape[: a + 1], 1, *shape[a + 1 :]))
        y = REGISTRY["broadcast_to"](y, shape=(*shape[: a + 1], times[0], *shape[a + 1 :]))
        return REGISTRY["reshape"](y, shape=(*shape[:a], shape[a] * times[0], *shape[a + 1 :]))  # type: ignore[no-any-return]
    indices = np.repeat(np.arange(shape[a]), times)
    return REGISTRY["gather"](t, wrap(indices), axis=a - len(shape), size=shape[a])  # type: ignore[no-any-return]


def meshgrid(*args: Any, **kwargs: Any) -> list[Tensor]:
    """Coordinates of a grid from the coordinates along its axes.

    Parameters
    ----------
    *args : tensors with one axis (or none)
    indexing : {"xy", "ij"}
        Cartesian ("xy", the default: the first two axes of the results are swapped) or matrix indexing.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    list of Tensor
        As many as arguments, all of one shape.

    Raises
    ------
    ValueError
        For another indexing.
    TypeError
        For unknown keywords.
    gtape.errors.InvalidArgumentError
        When dtypes differ.

    Examples
    --------
    >>> import gtape as tf
    >>> x, y = tf.meshgrid([1, 2], [3, 4, 5])
    >>> x.shape
    TensorShape([3, 2])
    """
    indexing = kwargs.pop("indexing", "xy")
    kwargs.pop("name", None)
    if kwargs:
        raise TypeError(f"meshgrid got an unexpected keyword argument {next(iter(kwargs))!r}")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Argument `indexing` parameter must be either 'xy' or 'ij', got {indexing!r}")
    tensors = [as_operand(a) for a in args]
    _same_dtypes(tensors, "meshgrid")
    sizes = [t._aval.size for t in tensors]
    places = list(range(len(tensors)))
    if indexing == "xy" and len(tensors) > 1:
        places[0], places[1] = 1, 0
    whole = tuple([sizes[p] for p in places])
    grids = []
    for i, t in enumerate(tensors):
        shape = tuple([sizes[i] if p == i else 1 for p in places])
        grids.append(REGISTRY["broadcast_to"](REGISTRY["reshape"](t, shape=shape), shape=whole))
    return grids
