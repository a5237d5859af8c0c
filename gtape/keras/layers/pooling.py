"""Layers that reduce windows, or all of space, to the greatest entry or the mean."""

from __future__ import annotations

from typing import Any

import gtape
from gtape.base.sections import add_sections
from gtape.keras.layers.convolution import layout_of
from gtape.keras.layers.core import format_of
from gtape.keras.layers.layer import TensorLayer
from gtape.tensors import argument_checks as checks

__all__ = [
    "AveragePooling1D", "AveragePooling2D", "GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalMaxPooling1D",
    "GlobalMaxPooling2D", "MaxPooling1D", "MaxPooling2D",
]  # fmt: skip


_FORMAT = """data_format : str, optional
    "channels_last" or "channels_first".
"""
_SIZES = """pool_size : int or tuple of int
    Size of the windows.
strides : int or tuple of int, optional
    `pool_size` by default, so that windows do not overlap.
padding : str
    "valid" or "same".
"""
_KEEPDIMS = """keepdims : bool
    Whether to keep the axes, with size 1.
"""


def _document(cls: Any, result: str, parameters: str, **more: str) -> None:
    """Document a layer by its result for the rows [1, 2] and [3, 4], or for the numbers 1 and 3 along one axis."""
    inputs = "[[[1.0], [3.0]]]" if cls.rank == 1 else "[[[[1.0], [2.0]], [[3.0], [4.0]]]]"
    call = f">>> tf.keras.layers.{cls.__name__}()(tf.constant({inputs})).numpy().ravel()"
    example = f"{call}\narray([{result}], dtype=float32)"
    add_sections(cls, Parameters=f"{parameters}**common : as for `Layer`", **more, Examples=example)


class _Pooling(TensorLayer):
    rank = 2
    op = "max"

    def __init_subclass__(cls, result: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if result:
            _document(
                cls, result, _SIZES + _FORMAT, Raises="ValueError\n    For sizes of 0 or less, or an unknown padding."
            )

    def __init__(
        self, pool_size: Any = 2, strides: Any = None, padding: str = "valid", data_format: str | None = None,
        **common: Any,
    ) -> None:  # fmt: skip
        super().__init__(**common)
        self._ndim = self.rank + 2
        self.pool_size = checks.sizes(self, "pool_size", pool_size, self.rank)
        self.strides = self.pool_size if strides is None else checks.sizes(self, "strides", strides, self.rank)
        self.padding = checks.choice(self, "padding", padding, ("valid", "same"))
        self.data_format = format_of(self, data_format)

    def call(self, inputs: Any) -> Any:
        layout, sizes = layout_of(self.data_format, self.rank), (list(self.pool_size), list(self.strides))
        pool = getattr(gtape.nn, f"{self.op}_pool{self.rank}d")
        return pool(self._taken(inputs), *sizes, self.padding.upper(), data_format=layout)


class MaxPooling2D(_Pooling, result="4."):
    """The greatest entry of each window. If several entries are equal, the gradient flows to the first."""


class MaxPooling1D(_Pooling, result="3."):
    """The greatest entry of each window along one axis."""

    rank = 1


class AveragePooling2D(_Pooling, result="2.5"):
    """The mean of each window."""

    op = "avg"


class AveragePooling1D(_Pooling, result="2."):
    """The mean of each window along one axis."""

    rank = 1
    op = "avg"


class _Global(TensorLayer):
    rank = 2
    op = "reduce_mean"

    def __init_subclass__(cls, result: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if result:
            _document(cls, result, _FORMAT + _KEEPDIMS)

    def __init__(self, data_format: str | None = None, keepdims: bool = False, **common: Any) -> None:
        super().__init__(**common)
        self._ndim = self.rank + 2
        self.data_format, self.keepdims = format_of(self, data_format), checks.flag(self, "keepdims", keepdims)

    def call(self, inputs: Any) -> Any:
        first = 2 if self.data_format == "channels_first" else 1
        x, axes = self._taken(inputs), list(range(first, first + self.rank))
        return getattr(gtape, self.op)(x, axis=axes, keepdims=self.keepdims)


class GlobalAveragePooling2D(_Global, result="2.5"):
    """The mean of each channel."""


class GlobalAveragePooling1D(_Global, result="2."):
    """The mean over one axis."""

    rank = 1


class GlobalMaxPooling2D(_Global, result="4."):
    """The greatest entry of each channel. Equal entries share the gradient."""

    op = "reduce_max"


class GlobalMaxPooling1D(_Global, result="3."):
    """The greatest entry over one axis."""

    rank = 1
    op = "reduce_max"
