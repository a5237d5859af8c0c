"""Patches of images, each laid out along the channels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gtape import errors
from gtape.base.diagnosis import diagnosed
from gtape.base.shown import shown
from gtape.declare.primitives import REGISTRY
from gtape.kernels.convolution import Geometry
from gtape.ops.nn.convolution import places_of
from gtape.ops.shape.spatial import paddings, rank, reshaped, steps
from gtape.tensors.axes import static_ints
from gtape.tensors.tensor import Tensor, as_operand, wrap

__all__ = ["extract_patches"]
NAMESPACES = ("image",)


def _window(value: Any, what: str) -> tuple[int, ...]:
    if len(static_ints(value)) != 4:
        raise errors.InvalidArgumentError(
            f"extract_patches: `{what}` must be of length 4, with 1 first and last. Received: {shown(value)}"
        )
    return steps(value, 2, False, what, "extract_patches")


@diagnosed
def extract_patches(images: Any, sizes: Any, strides: Any, rates: Any, padding: str, name: str | None = None) -> Tensor:
    """All patches of images, with the pixels of each patch along the last axis.

    Parameters
    ----------
    images : tensor, shape [batch, height, width, channels]
    sizes, strides, rates : sequence of four int, ``[1, rows, columns, 1]``
        The size of a patch, the distance between patches, and the distance between pixels of a patch.
    padding : {"VALID", "SAME"}
        "VALID" takes only patches inside the image. "SAME" takes one patch for each step and fills it up with zeros.

    Returns
    -------
    Tensor, shape [batch, rows, columns, size of a patch * channels]

    Raises
    ------
    ValueError
        If `padding` is not a string.
    gtape.errors.InvalidArgumentError
        If `padding` is another string, a list has another length, or a patch does not fit.

    Examples
    --------
    >>> x = tf.reshape(tf.range(9.0), [1, 3, 3, 1])
    >>> tf.image.extract_patches(x, [1, 2, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1], "VALID")[0, 0].numpy()
    array([[0., 1., 3., 4.],
           [1., 2., 4., 5.]], dtype=float32)
    """
    op = "extract_patches"
    x = as_operand(images)
    rank(x, 4, "input", op)
    if not isinstance(padding, str):
        raise ValueError(f"{op}: `padding` must be 'VALID' or 'SAME'. Received: {shown(padding)}")
    taps, every, apart = _window(sizes, "sizes"), _window(strides, "strides"), _window(rates, "rates")
    n, *size, channels = x._layout.shape
    around = paddings(padding, tuple(size), taps, every, apart, False, op)
    rows, columns = places_of(tuple(size), taps, Geometry(every, apart, around, 1), op)
    if any(p != (0, 0) for p in around):
        x = REGISTRY["pad"](x, paddings=((0, 0), *around, (0, 0)), value=0)
    whole = x._layout.shape[1:3]
    if not math.prod(whole) and rows * columns:
        raise errors.InvalidArgumentError(f"{op}: images of {size} pixels have no patches")
    down = every[0] * np.arange(rows)[:, None] + apart[0] * np.arange(taps[0])
    across = every[1] * np.arange(columns)[:, None] + apart[1] * np.arange(taps[1])
    at = down[:, None, :, None] * whole[1] + across[None, :, None, :]
    flat = reshaped(x, (n, math.prod(whole), channels))
    picked: Tensor = REGISTRY["gather"](flat, wrap(at), axis=-2, size=math.prod(whole))
    return reshaped(picked, (n, rows, columns, math.prod(taps) * channels))
