"""Layers that make images larger or smaller by whole rows and columns."""

from __future__ import annotations

from typing import Any

import gtape
from gtape.base.shown import shown
from gtape.keras.layers.core import format_of
from gtape.keras.layers.layer import Layer
from gtape.tensors import argument_checks as checks

__all__ = ["Cropping2D", "UpSampling2D", "ZeroPadding2D"]


def _borders(owner: Layer, name: str, value: Any) -> tuple[tuple[int, int], ...]:
    """How much there is at each end of rows and columns, from one number, two, or two pairs."""
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

    _takes_a_tensor = True
    _ndim = 4

    def __init__(
        self, size: Any = (2, 2), data_format: str | None = None, interpolation: str = "nearest", **common: Any
    ) -> None:
        super().__init__(**common)
        if not isinstance(interpolation, str) or interpolation != "nearest":
            raise ValueError(
                f"UpSampling2D repeats rows and columns: interpolation={shown(interpolation)} is not there"
            )
        self.size = checks.sizes(self, "size", size, 2)
        self.data_format = format_of(self, data_format)

    def call(self, inputs: Any) -> Any:
        first = 2 if self.data_format == "channels_first" else 1
        y = gtape.repeat(self._taken(inputs), self.size[0], axis=first)
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

    _takes_a_tensor = True
    _ndim = 4

    def __init__(self, padding: Any = (1, 1), data_format: str | None = None, **common: Any) -> None:
        super().__init__(**common)
        self.padding = _borders(self, "padding", padding)
        self.data_format = format_of(self, data_format)

    def call(self, inputs: Any) -> Any:
        pads = [list(p) for p in self.padding]
        first = self.data_format == "channels_first"
        return gtape.pad(self._taken(inputs), [[0, 0], [0, 0], *pads] if first else [[0, 0], *pads, [0, 0]])


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

    _takes_a_tensor = True
    _ndim = 4

    def __init__(self, cropping: Any = ((0, 0), (0, 0)), data_format: str | None = None, **common: Any) -> None:
        super().__init__(**common)
        self.cropping = _borders(self, "cropping", cropping)
        self.data_format = format_of(self, data_format)

    def call(self, inputs: Any) -> Any:
        first = 2 if self.data_format == "channels_first" else 1
        x = self._taken(inputs)
        space = x._layout.shape[first : first + 2]
        if any(a + b >= n for (a, b), n in zip(self.cropping, space, strict=True)):
            raise ValueError(
                f"Values in `cropping` argument should be smaller than the corresponding spatial dimension of the "
                f"input. Received: input_shape={x.shape}, cropping={self.cropping}"
            )
        inside = [slice(a, n - b) for (a, b), n in zip(self.cropping, space, strict=True)]
        return x[(slice(None),) * first + tuple(inside)]
