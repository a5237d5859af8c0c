"""Blocks of pixels moved to the channels or the batch and back, by reshapes and transposes with padding or cropping."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from gtape import errors
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.shown import shown
from gtape.declare.primitives import REGISTRY
from gtape.ops.shape.spatial import rank, reshaped
from gtape.tensors.axes import integers_read, scalar_int
from gtape.tensors.tensor import Tensor, as_operand

__all__ = ["batch_to_space", "depth_to_space", "space_to_batch", "space_to_batch_nd", "space_to_depth"]
NAMESPACES = ("nn",)

Pairs = list[tuple[int, int]]


def _transposed(x: Tensor, perm: tuple[int, ...]) -> Tensor:
    return REGISTRY["transpose"](x, perm=perm)


def _block_size(input: Any, block_size: Any, data_format: str, op: str) -> tuple[Tensor, int, bool]:
    x, b = as_operand(input), scalar_int(block_size)
    if data_format not in ("NHWC", "NCHW"):
        raise errors.InvalidArgumentError(
            f"{op}: `data_format` must be 'NHWC' or 'NCHW'. Received: {shown(data_format)}"
        )
    rank(x, 4, "input", op)
    if b < 2:
        raise errors.InvalidArgumentError(f"{op}: `block_size` must be greater than 1. Received: {b}")
    return x, b, data_format == "NCHW"


@diagnosed
def space_to_depth(input: Any, block_size: int, data_format: str = "NHWC", name: str | None = None) -> Tensor:
    """Move each block of pixels to the channels of one pixel.

    Parameters
    ----------
    input : tensor, shape [batch, height, width, channels]
    block_size : int
        Height and width of a block; both axes must be multiples of it.
    data_format : {"NHWC", "NCHW"}

    Returns
    -------
    Tensor, shape [batch, height / block_size, width / block_size, channels * block_size ** 2]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `data_format` is another string, or the blocks do not fit.

    Examples
    --------
    >>> x = tf.reshape([1.0, 2.0, 3.0, 4.0], [1, 2, 2, 1])
    >>> tf.nn.space_to_depth(x, 2).numpy()
    array([[[[1., 2., 3., 4.]]]], dtype=float32)
    """
    op = "space_to_depth"
    x, b, first = _block_size(input, block_size, data_format, op)
    n, *rest = x._layout.shape
    c, h, w = rest if first else (rest[2], rest[0], rest[1])
    if h % b or w % b:
        raise errors.InvalidArgumentError(f"{op}: {h} x {w} pixels cannot be cut into blocks of {b} x {b}")
    if first:
        parts = _transposed(reshaped(x, (n, c, h // b, b, w // b, b)), (0, 3, 5, 1, 2, 4))
        return reshaped(parts, (n, c * b * b, h // b, w // b))
    parts = _transposed(reshaped(x, (n, h // b, b, w // b, b, c)), (0, 1, 3, 2, 4, 5))
    return reshaped(parts, (n, h // b, w // b, c * b * b))


@diagnosed
def depth_to_space(input: Any, block_size: int, data_format: str = "NHWC", name: str | None = None) -> Tensor:
    """Make a block of pixels from the channels of each pixel: the inverse of `space_to_depth`.

    Parameters
    ----------
    input : tensor, shape [batch, height, width, channels]
        `channels` must be a multiple of ``block_size ** 2``.
    block_size : int
        Height and width of a block.
    data_format : {"NHWC", "NCHW"}

    Returns
    -------
    Tensor, shape [batch, height * block_size, width * block_size, channels / block_size ** 2]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `data_format` is another string, or the number of channels does not fit.

    Examples
    --------
    >>> tf.nn.depth_to_space(tf.reshape([1.0, 2.0, 3.0, 4.0], [1, 1, 1, 4]), 2)[0, :, :, 0].numpy()
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    op = "depth_to_space"
    x, b, first = _block_size(input, block_size, data_format, op)
    n, *rest = x._layout.shape
    c, h, w = rest if first else (rest[2], rest[0], rest[1])
    if c % (b * b):
        raise errors.InvalidArgumentError(f"{op}: {c} channels cannot be made into blocks of {b} x {b}")
    each = c // (b * b)
    if first:
        parts = _transposed(reshaped(x, (n, b, b, each, h, w)), (0, 3, 4, 1, 5, 2))
        return reshaped(parts, (n, each, h * b, w * b))
    parts = _transposed(reshaped(x, (n, h, w, b, b, each)), (0, 1, 3, 2, 4, 5))
    return reshaped(parts, (n, h * b, w * b, each))


def _blocks(input: Any, block_shape: Any, pairs: Any, what: str, op: str) -> tuple[Tensor, list[int], Pairs]:
    x = as_operand(input)
    blocks = np.asarray(integers_read(as_operand(block_shape))).reshape(-1).tolist()
    given = np.asarray(integers_read(as_operand(pairs)))
    m = len(blocks)
    if given.shape != (m, 2) or given.dtype.kind not in "iu":
        raise errors.InvalidArgumentError(
            f"{op}: `{what}` must be a list of {m} pairs of integers, one for each entry of `block_shape`. "
            f"Received: {given.tolist()}"
        )
    if len(x._layout.shape) < m + 1:
        raise errors.InvalidArgumentError(
            f"{op}: the input must have {m + 1} axes at least, not the shape {x._layout.tensor_shape}"
        )
    if any(b < 1 for b in blocks) or given.min(initial=0) < 0:
        raise errors.InvalidArgumentError(
            f"{op}: `block_shape` must be positive and `{what}` not negative. Received: {blocks}, {given.tolist()}"
        )
    return x, blocks, [(int(a), int(b)) for a, b in given]


@diagnosed
def space_to_batch(input: Any, block_shape: Any, paddings: Any, name: str | None = None) -> Tensor:
    """Move each pixel of a block to an image of its own, after padding with zeros.

    Parameters
    ----------
    input : tensor, shape [batch, *space, ...]
    block_shape : int or sequence of int
        Size of a block along each spatial axis.
    paddings : sequence of pairs of int
        The numbers of zeros before and after each spatial axis. Padded axes must be multiples of `block_shape`.

    Returns
    -------
    Tensor, shape [batch * product of block_shape, *(padded space / block_shape), ...]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the blocks do not fit.

    Examples
    --------
    >>> x = tf.reshape([1.0, 2.0, 3.0, 4.0], [1, 2, 2, 1])
    >>> tf.space_to_batch(x, [2, 2], [[0, 0], [0, 0]]).numpy().ravel()
    array([1., 2., 3., 4.], dtype=float32)
    """
    op = "space_to_batch"
    x, blocks, pads = _blocks(input, block_shape, paddings, "paddings", op)
    m = len(blocks)
    n, rest = x._layout.shape[0], x._layout.shape[m + 1 :]
    space = [d + a + b for d, (a, b) in zip(x._layout.shape[1:], pads, strict=False)]
    if any(d % b for d, b in zip(space, blocks, strict=True)):
        raise errors.InvalidArgumentError(f"{op}: {space} padded pixels cannot be cut into blocks of {blocks}")
    if any(p != (0, 0) for p in pads):
        x = REGISTRY["pad"](x, paddings=((0, 0), *pads, *((0, 0) for _ in rest)), value=0)
    cut = [d // b for d, b in zip(space, blocks, strict=True)]
    parts = reshaped(x, (n, *itertools.chain(*zip(cut, blocks, strict=True)), *rest))
    tail = tuple(range(2 * m + 1, 2 * m + 1 + len(rest)))
    moved = _transposed(parts, (*range(2, 2 * m + 1, 2), 0, *range(1, 2 * m + 1, 2), *tail))
    return reshaped(moved, (n * math.prod(blocks), *cut, *rest))


@diagnosed
@documented_like(space_to_batch)
def space_to_batch_nd(input: Any, block_shape: Any, paddings: Any, name: str | None = None) -> Tensor:
    """The same as `space_to_batch`.

    Examples
    --------
    >>> tf.space_to_batch_nd([[1.0, 2.0]], [2], [[0, 0]]).numpy()
    array([[1.],
           [2.]], dtype=float32)
    """
    return space_to_batch(input, block_shape, paddings)


@diagnosed
@documented_like(space_to_batch)
def batch_to_space(input: Any, block_shape: Any, crops: Any, name: str | None = None) -> Tensor:
    """Put images together, pixel by pixel, into blocks: the inverse of `space_to_batch`.

    Parameters
    ----------
    input : tensor, shape [batch, *space, ...]
        `batch` must be a multiple of the product of `block_shape`.
    block_shape : int or sequence of int
        Size of a block along each spatial axis; an integer stands for all axes of `crops`.
    crops : sequence of pairs of int
        The numbers of pixels to cut off before and after each spatial axis of the result.

    Returns
    -------
    Tensor, shape [batch / product of block_shape, *(space * block_shape - crops), ...]

    Examples
    --------
    >>> tf.batch_to_space([[1.0], [2.0]], [2], [[0, 0]]).numpy()
    array([[1., 2.]], dtype=float32)
    """
    op = "batch_to_space"
    size = as_operand(block_shape)
    if not size._layout.shape:  # one size for all axes, which only this direction takes in TensorFlow
        block_shape = np.full(as_operand(crops)._layout.shape[:1], integers_read(size))
    x, blocks, cuts = _blocks(input, block_shape, crops, "crops", op)
    m, many = len(blocks), math.prod(blocks)
    n, space, rest = x._layout.shape[0], x._layout.shape[1 : m + 1], x._layout.shape[m + 1 :]
    if n % many:
        raise errors.InvalidArgumentError(f"{op}: a batch of {n} cannot be put together into blocks of {blocks}")
    whole = [d * b for d, b in zip(space, blocks, strict=True)]
    if any(d < a + b for d, (a, b) in zip(whole, cuts, strict=True)):
        raise errors.InvalidArgumentError(f"{op}: crops {[list(c) for c in cuts]} do not fit {whole} pixels")
    parts = reshaped(x, (*blocks, n // many, *space, *rest))
    between = itertools.chain(*((m + 1 + i, i) for i in range(m)))
    moved = _transposed(parts, (m, *between, *range(2 * m + 1, 2 * m + 1 + len(rest))))
    y = reshaped(moved, (n // many, *whole, *rest))
    if any(c != (0, 0) for c in cuts):
        everything = (None, None, 1)
        key = (everything, *[(a, d - b, 1) for d, (a, b) in zip(whole, cuts, strict=True)], *(everything for _ in rest))
        y = REGISTRY["strided_slice"](y, key=key)
    return y
