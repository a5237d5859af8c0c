"""Windows of pools: their arguments, their elements inside the input, and the index of the greatest element."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from gtape import errors
from gtape.base.shown import shown
from gtape.declare.conventions import TIED, Noted
from gtape.declare.primitives import primitive
from gtape.declare.rounding import EXACT
from gtape.kernels.convolution import Geometry, output_sizes
from gtape.ops.nn.convolution import places_of
from gtape.ops.shape.spatial import channels_first, paddings, rank
from gtape.tensors.axes import static_ints
from gtape.tensors.tensor import Tensor, as_operand

__all__: list[str] = []

Sizes = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]


# ---------------------------------------------------------------------------------------------- greatest elements


def along(axis: int, values: Any, ndim: int) -> Any:
    return np.asarray(values, dtype=np.int64).reshape((-1, *(1,) * (ndim - axis - 1)))


def _window_argmax(x: Any, *, window: Sizes, strides: Sizes, dilations: Sizes, padding: Padding) -> Any:
    """Indices in the flat array of the greatest element of each window: the first of equal ones, or the first NaN."""
    ndim = x.ndim
    places = output_sizes(x.shape, window, Geometry(strides, dilations, padding, 1))
    least = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    reach = [
        max(s * (o - 1) + d * (k - 1) + 1, 0) for o, k, s, d in zip(places, window, strides, dilations, strict=True)
    ]
    framed = x
    if any(p != (0, 0) for p in padding):
        size = [max(r, n + b) for r, n, (b, _) in zip(reach, x.shape, padding, strict=True)]
        framed = np.full(size, least, dtype=x.dtype)
        framed[tuple([slice(b, b + n) for n, (b, _) in zip(x.shape, padding, strict=True)])] = x
    # The flat index of an element is affine in the output position and in the position inside the window.
    step = [math.prod(x.shape[a + 1 :]) for a in range(ndim)]
    start = np.zeros(places, np.int64)
    first = np.zeros(places, np.int64)
    for a, (o, s, d, (before, _)) in enumerate(zip(places, strides, dilations, padding, strict=True)):
        at = s * np.arange(o) - before
        start += along(a, at * step[a], ndim)
        first += along(a, np.maximum(-(at // d), 0) * (d * step[a]), ndim)
    best = np.full(places, least, dtype=x.dtype)
    nan = x.dtype.kind not in "iu" and bool(np.isnan(np.maximum.reduce(x, axis=None, initial=least)))
    for tap in itertools.product(*map(range, window)):
        here = framed[
            tuple(
                [
                    slice(d * k, d * k + s * (o - 1) + 1, s) if o else slice(0, 0)
                    for k, o, s, d in zip(tap, places, strides, dilations, strict=True)
                ]
            )
        ]
        greater = ~(here <= best) & (best == best) if nan else here > best  # only the first NaN counts as greater
        np.maximum(best, here, out=best)
        # The sum uses a mask, because np.where costs several times as much.
        first += (sum(d * k * n for d, k, n in zip(dilations, tap, step, strict=True)) - first) * greater
    return start + first


_PARAMS = ("window", "strides", "dilations", "padding")


def _line(window: int, stride: int, dilation: int, padding: tuple[int, int]) -> dict[str, Any]:
    return {"window": (window,), "strides": (stride,), "dilations": (dilation,), "padding": (padding,)}


window_argmax = primitive(
    "window_argmax", _window_argmax, (None,), (None,),
    params=_PARAMS, kinks=("two elements of a window are equal",), rounding=EXACT,
    samples=(
        (((4,),), _line(2, 2, 1, (0, 0))),
        (((5,),), _line(3, 2, 1, (1, 1))),
        (((5,),), _line(2, 1, 2, (1, 0))),
        (((2, 3),), {"window": (1, 2), "strides": (1, 1), "dilations": (1, 1), "padding": ((0, 0), (0, 1))}),
        (((3, 3),), {"window": (2, 2), "strides": (1, 1), "dilations": (1, 1), "padding": ((0, 0), (0, 0))}),
        (((0, 3),), {"window": (1, 2), "strides": (1, 1), "dilations": (1, 1), "padding": ((0, 0), (0, 0))}),
    ),
    conventions=(TIED, Noted("a window with a NaN is NaN; its derivative goes to the NaN")),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- arguments


class Windows(NamedTuple):
    """Windows over the spatial axes and, for a maximum, over the channels."""

    taps: Sizes
    geometry: Geometry
    depth: int
    depth_stride: int


def _spans(value: Any, n: int, first: bool, what: str, op: str) -> tuple[Sizes, int]:
    """A number for each spatial axis, and a number for the channels."""
    numbers = static_ints(value)
    depth = 1
    if len(numbers) == 1:
        numbers = numbers * n
    elif len(numbers) == n + 2:
        if numbers[0] != 1:
            raise errors.UnimplementedError(f"{op}: Pooling is not yet supported on the batch dimension.")
        depth = numbers[1] if first else numbers[-1]
        numbers = numbers[2:] if first else numbers[1:-1]
    elif len(numbers) != n:
        raise ValueError(f"{op}: `{what}` should be of length 1, {n} or {n + 2}. Received: {list(numbers)}")
    if any(k < 1 for k in (*numbers, depth)):
        raise errors.InvalidArgumentError(f"{op}: `{what}` must be positive. Received: {shown(value)}")
    return numbers, depth


def read_windows(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: Any, dilations: Any, n: int, op: str
) -> tuple[Tensor, bool, Windows]:
    x = as_operand(input)
    first = channels_first(data_format, n, op)
    rank(x, n + 2, "input", op)
    shape = x._layout.shape
    size = shape[2:] if first else shape[1:-1]
    taps, depth = _spans(ksize, n, first, "ksize", op)
    every, depth_stride = _spans(strides, n, first, "strides", op)
    apart, _ = _spans(dilations, n, first, "dilations", op)
    around = paddings(padding, size, taps, every, apart, first, op)
    geometry = Geometry(every, apart, around, 1)
    places_of(size, taps, geometry, op)
    if not isinstance(padding, str) or any(d != 1 for d in apart):
        _no_empty_windows(size, taps, geometry, op)
    return x, first, Windows(taps, geometry, depth, depth_stride)


def _inside(n: int, k: int, places: int, s: int, d: int, before: int) -> Any:
    """For each output position along an axis, the number of elements of the window inside the input."""
    at = s * np.arange(places)[:, None] + d * np.arange(k) - before
    return np.add.reduce((at >= 0) & (at < n), axis=1)


def counts_inside(size: Sizes, taps: Sizes, geometry: Geometry) -> list[Any]:
    places = output_sizes(size, taps, geometry)
    return [
        _inside(n, k, o, s, d, before)
        for n, k, o, s, d, (before, _) in zip(
            size, taps, places, geometry.strides, geometry.dilations, geometry.padding, strict=True
        )
    ]


def _no_empty_windows(size: Sizes, taps: Sizes, geometry: Geometry, op: str) -> None:
    if any((c == 0).any() for c in counts_inside(size, taps, geometry)):
        raise errors.InvalidArgumentError(
            f"{op}: some windows of {list(taps)} elements would hold nothing but padding; pad less than the window's "
            f"size. Received: padding={[list(p) for p in geometry.padding]} for {list(size)} places"
        )
