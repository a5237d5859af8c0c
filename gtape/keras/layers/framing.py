"""Layers that make images larger or smaller by whole rows and columns."""

from __future__ import annotations

from typing import Any

import gtape
from gtape.keras.layers.convolution import sizes
from gtape.keras.layers.layer import Layer

__all__ = ["Cropping2D", "UpSampling2D", "ZeroPadding2D"]


class UpSampling2D(Layer):
    """Each row and column several times.

    Parameters
    ----------
    size : int or pair of int
        How many times rows and columns are repeated.
    data_format : {"channels_last", "channels_first"}, optional
    interpolation : {"nearest"}
    **common
        As for `Layer`.

    Raises
    ------
    ValueError
        For another interpolation.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.UpSampling2D((2, 3))(tf.zeros([1, 2, 2, 1])).shape
    TensorShape([1, 4, 6, 1])
    """

    def __init__(
        self, size: Any = (2, 2), data_format: str | None = None, interpolation: str = "nearest", **common: Any
    ) -> None:
        super().__init__(**common)
        if interpolation != "nearest":
            raise ValueError(f"UpSampling2D repeats rows and columns: interpolation={interpolation!r} is not there")
        self.size = sizes(size, 2, "size")
        self.data_format = data_format or "channels_last"

    def call(self, inputs: Any) -> Any:
        first = 2 if self.data_format == "channels_first" else 1
        y = gtape.repeat(inputs, self.size[0], axis=first)
        return gtape.repeat(y, self.size[1], axis=first + 1)


class ZeroPadding2D(Layer):
    """Zeros around images.

    Parameters
    ----------
    padding : int, (rows, columns), or ((top, bottom), (left, right))
    data_format : str, optional
    **common
        As for `Layer`.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.ZeroPadding2D(1)(tf.zeros([1, 2, 2, 1])).shape
    TensorShape([1, 4, 4, 1])
    """

    def __init__(self, padding: Any = (1, 1), data_format: str | None = None, **common: Any) -> None:
        super().__init__(**common)
        pairs = padding if isinstance(padding, (tuple, list)) else (padding, padding)
        self.padding = tuple(tuple(p) if isinstance(p, (tuple, list)) else (p, p) for p in pairs)
        self.data_format = data_format or "channels_last"

    def call(self, inputs: Any) -> Any:
        pads = [list(p) for p in self.padding]
        first = self.data_format == "channels_first"
        return gtape.pad(inputs, [[0, 0], [0, 0], *pads] if first else [[0, 0], *pads, [0, 0]])


class Cropping2D(Layer):
    """Images without their borders.

    Parameters
    ----------
    cropping : int, (rows, columns), or ((top, bottom), (left, right))
    data_format : str, optional
    **common
        As for `Layer`.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.Cropping2D(((1, 0), (0, 2)))(tf.zeros([1, 4, 5, 1])).shape
    TensorShape([1, 3, 3, 1])
    """

    def __init__(self, cropping: Any = ((0, 0), (0, 0)), data_format: str | None = None, **common: Any) -> None:
        super().__init__(**common)
        pairs = cropping if isinstance(cropping, (tuple, list)) else (cropping, cropping)
        self.cropping = tuple(tuple(p) if isinstance(p, (tuple, list)) else (p, p) for p in pairs)
        self.data_format = data_format or "channels_last"

    def call(self, inputs: Any) -> Any:
        first = 2 if self.data_format == "channels_first" else 1
        inside = [slice(a, n - b) for (a, b), n in zip(self.cropping, inputs.shape[first:], strict=False)]
        return inputs[(slice(None),) * first + tuple(inside)]
