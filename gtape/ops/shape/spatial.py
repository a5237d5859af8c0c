"""Arguments that convolutions and pools share: data formats, steps along each axis, and paddings."""

from __future__ import annotations

from typing import Any

from gtape import errors
from gtape.base.shown import shown
from gtape.declare.primitives import REGISTRY
from gtape.tensors.axes import static_ints
from gtape.tensors.tensor import Tensor

__all__: list[str] = []

Sizes = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]

_LETTERS = {1: "W", 2: "HW", 3: "DHW"}


def channels_first(data_format: Any, n: int, op: str) -> bool:
    """Whether a data format for `n` spatial axes has the channels before these axes. None stands for channels last.

    An unknown format raises a ValueError for one axis, otherwise an InvalidArgumentError, as in TensorFlow.
    """
    space = _LETTERS.get(n, "." * n)
    behind, before = f"N{space}C", f"NC{space}"
    if data_format is None or data_format == behind:
        return False
    if data_format == before:
        return True
    text = f"{op}: `data_format` must be {behind!r} or {before!r}. Received: {data_format!r}"
    raise ValueError(text) if n == 1 else errors.InvalidArgumentError(text)


def steps(value: Any, n: int, first: bool, what: str, op: str) -> Sizes:
    """One positive integer for each spatial axis, from one number or a list of 1, n or n + 2 numbers.

    Raises a ValueError for another length, and an UnimplementedError for steps along the batch or the channels.
    """
    numbers = (1,) if value is None else static_ints(value)
    if len(numbers) == 1:
        numbers = numbers * n
    elif len(numbers) == n + 2:
        beside = (numbers[0], numbers[1] if first else numbers[-1])
        if beside != (1, 1):
            raise errors.UnimplementedError(
                f"{op}: `{what}` must be 1 for the batch and the channels. Received: {list(numbers)}"
            )
        numbers = numbers[2:] if first else numbers[1:-1]
    elif len(numbers) != n:
        raise ValueError(f"{op}: `{what}` should be of length 1, {n} or {n + 2}. Received: {list(numbers)}")
    if any(k < 1 for k in numbers):
        raise errors.InvalidArgumentError(f"{op}: `{what}` must be positive. Received: {list(numbers)}")
    return numbers


def paddings(padding: Any, size: Sizes, taps: Sizes, strides: Sizes, dilations: Sizes, first: bool, op: str) -> Padding:
    """The numbers of zeros before and after each spatial axis.

    `padding` is "VALID", "SAME", or a list of pairs for all axes, with (0, 0) for the batch and the channels. Raises a
    ValueError for a list of another form, and an InvalidArgumentError for other strings or numbers.
    """
    n = len(size)
    if isinstance(padding, str):
        if padding == "VALID":
            return ((0, 0),) * n
        if padding == "SAME":
            return tuple([_same(*axis) for axis in zip(size, taps, strides, dilations, strict=True)])
        text = (
            f"{op}: `padding` must be 'VALID', 'SAME', or a list of {n + 2} pairs (zeros before, zeros behind). "
            f"Received: {padding!r}"
        )
        raise ValueError(text) if padding == "EXPLICIT" else errors.InvalidArgumentError(text)
    try:
        pairs = [static_ints(p) for p in padding]
    except TypeError:
        pairs = []
    if len(pairs) != n + 2 or any(len(p) != 2 for p in pairs):
        raise ValueError(
            f"{op}: explicit `padding` is a list of {n + 2} pairs, such as [[0, 0], {'[1, 1], ' * n}[0, 0]]. "
            f"Received: {shown(padding)}"
        )
    beside = (pairs[0], pairs[1] if first else pairs[-1])
    if any(any(p) for p in beside) or any(min(p) < 0 for p in pairs):
        raise errors.InvalidArgumentError(
            f"{op}: explicit `padding` is not negative, and 0 for the batch and the channels. Received: "
            f"{shown(padding)}"
        )
    return tuple([(p[0], p[1]) for p in (pairs[2:] if first else pairs[1:-1])])


def _same(size: int, taps: int, stride: int, dilation: int) -> tuple[int, int]:
    """The numbers of zeros that lead to ceil(size / stride) results. An odd zero goes after the axis."""
    total = max((-(-size // stride) - 1) * stride + dilation * (taps - 1) + 1 - size, 0)
    return total // 2, total - total // 2


def rank(x: Tensor, n: int, what: str, op: str, more: bool = False) -> None:
    """Raise InvalidArgumentError unless a tensor has `n` axes (or more)."""
    have = len(x._layout.shape)
    if have != n and not (more and have > n):
        raise errors.InvalidArgumentError(
            f"{op}: the {what} must have {n} axes{' at least' if more else ''}, not the shape {x._layout.tensor_shape}"
        )


def move_channels(x: Tensor, n: int, back: bool) -> Tensor:
    """Move the channels after the `n` spatial axes (`back`), or before these axes."""
    lead = len(x._layout.shape) - n - 1
    axes = list(range(lead, lead + n + 1))
    perm = (*range(lead), *((*axes[1:], axes[0]) if back else (axes[-1], *axes[:-1])))
    return REGISTRY["transpose"](x, perm=perm)


def reshaped(x: Tensor, shape: Sizes) -> Tensor:
    """The value `x` in a shape; `x` itself if it has the shape already."""
    return x if x._layout.shape == shape else REGISTRY["reshape"](x, shape=shape)
