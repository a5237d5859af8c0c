"""Layers that add, repeat or remove rows and columns of images."""

from __future__ import annotations

from typing import Any

import numpy as np

import gtape
from gtape.base.shown import shown
from gtape.keras.layers.core import format_of
from gtape.keras.layers.layer import Layer, TensorLayer
from gtape.tensors import argument_checks as checks

__all__ = ["Cropping2D", "UpSampling2D", "ZeroPadding2D"]


def _borders(owner: Layer, name: str, value: Any) -> tuple[tuple[int, int], ...]:
    """Sizes at both ends of rows and columns, from a number, two numbers, or two pairs."""
    pairs = value if isinstance(value, (tuple, list)) else (value, value)
    try:
        if len(pairs) == 2:
            whole = [checks.sizes(owner, name, p, 2, least=0) for p in pairs]
            return tuple([(a, b) for a, b in whole])
    except ValueError:
        pass
    raise ValueError(
        f"{type(owner).__name__}: The `{name}` argument must be an integer >= 0, a tuple of two of them, or two tuples "
        f"of two. Received: {name}={shown(value)}"
    )


class _Framed(TensorLayer):
    _ndim = 4

    def __init__(self, data_format: str | None = None, **common: Any) -> None:
        super().__init__(**common)
        self.data_format = format_of(self, data_format)
        self._first = 2 if self.data_format == "channels_first" else 1  # the index of the axis of rows


class UpSampling2D(_Framed):
    """Repeats each row and each column of images, or interpolates between them.

    Parameters
    ----------
    size : int or pair of int
        The numbers of repetitions of rows and columns.
    data_format : {"channels_last", "channels_first"}, optional
    interpolation : {"nearest", "bilinear"}
    **common : as for `Layer`

    Raises
    ------
    ValueError
        For an unknown interpolation.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.UpSampling2D((2, 3))(tf.zeros([1, 2, 2, 1])).shape
    TensorShape([1, 4, 6, 1])
    """

    def __init__(
        self, size: Any = (2, 2), data_format: str | None = None, interpolation: str = "nearest", **common: Any
    ) -> None:
        super().__init__(data_format, **common)
        self.interpolation = checks.choice(self, "interpolation", interpolation, ("nearest", "bilinear"))
        self.size = checks.sizes(self, "size", size, 2)

    def call(self, inputs: Any) -> Any:
        y = self._taken(inputs)
        enlarged = gtape.repeat if self.interpolation == "nearest" else _interpolated
        for i, size in enumerate(self.size):
            y = enlarged(y, size, axis=self._first + i)
        return y


def _interpolated(x: Any, size: int, axis: int) -> Any:
    """`size` places for each place along an axis, on the lines between the centres of the places."""
    x = x if x.dtype.is_floating else gtape.cast(x, "float32")
    n = x._layout.shape[axis]
    centres = (np.arange(n * size) + 0.5) / size - 0.5
    before = np.floor(centres)
    shares = (centres - before).reshape(-1, *[1] * (x.ndim - 1 - axis))
    low, high = (gtape.gather(x, np.clip(before + k, 0, max(n - 1, 0)).astype(int), axis=axis) for k in (0, 1))
    return low + (high - low) * gtape.cast(shares, x.dtype)


class ZeroPadding2D(_Framed):
    """Adds zeros around images.

    Parameters
    ----------
    padding : int, (rows, columns), or ((top, bottom), (left, right))
    data_format : str, optional
    **common : as for `Layer`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.ZeroPadding2D(1)(tf.zeros([1, 2, 2, 1])).shape
    TensorShape([1, 4, 4, 1])
    """

    def __init__(self, padding: Any = (1, 1), data_format: str | None = None, **common: Any) -> None:
        super().__init__(data_format, **common)
        self.padding = _borders(self, "padding", padding)

    def call(self, inputs: Any) -> Any:
        pads = [[0, 0]] * self._first + [list(p) for p in self.padding] + [[0, 0]] * (2 - self._first)
        return gtape.pad(self._taken(inputs), pads)


class Cropping2D(_Framed):
    """Removes the borders of images.

    Parameters
    ----------
    cropping : int, (rows, columns), or ((top, bottom), (left, right))
    data_format : str, optional
    **common : as for `Layer`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.Cropping2D(((1, 0), (0, 2)))(tf.zeros([1, 4, 5, 1])).shape
    TensorShape([1, 3, 3, 1])
    """

    def __init__(self, cropping: Any = ((0, 0), (0, 0)), data_format: str | None = None, **common: Any) -> None:
        super().__init__(data_format, **common)
        self.cropping = _borders(self, "cropping", cropping)

    def call(self, inputs: Any) -> Any:
        x = self._taken(inputs)
        space = x._layout.shape[self._first : self._first + 2]
        if any(a + b >= n for (a, b), n in zip(self.cropping, space, strict=True)):
            raise ValueError(
                f"Values in `cropping` argument should be smaller than the corresponding spatial dimension of the "
                f"input. Received: input_shape={x.shape}, cropping={self.cropping}"
            )
        inside = [slice(a, n - b) for (a, b), n in zip(self.cropping, space, strict=True)]
        return x[(slice(None),) * self._first + tuple(inside)]
