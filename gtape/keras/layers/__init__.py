"""Layers: functions with variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from gtape.keras.layers import activation, convolution, core, framing, merging, normalization, pooling, regularization
from gtape.keras.layers.activation import *  # noqa: F403
from gtape.keras.layers.convolution import *  # noqa: F403
from gtape.keras.layers.core import *  # noqa: F403
from gtape.keras.layers.framing import *  # noqa: F403
from gtape.keras.layers.layer import Layer
from gtape.keras.layers.merging import *  # noqa: F403
from gtape.keras.layers.normalization import *  # noqa: F403
from gtape.keras.layers.pooling import *  # noqa: F403
from gtape.keras.layers.regularization import *  # noqa: F403
from gtape.keras.layers.symbolic import Input

__all__ = [
    *activation.__all__, *convolution.__all__, *core.__all__, *framing.__all__, *merging.__all__,
    *normalization.__all__, *pooling.__all__, *regularization.__all__,
    "AvgPool1D", "AvgPool2D", "Convolution2D", "GlobalAvgPool2D", "GlobalMaxPool2D", "Input", "Layer", "MaxPool1D",
    "MaxPool2D",
]  # fmt: skip


if not TYPE_CHECKING:  # hidden, because type checkers would accept every name

    def __getattr__(name: str) -> NoReturn:
        from gtape.namespaces.catalogue import unknown

        raise unknown("gtape.keras.layers", name, __all__)


__dir__ = __all__.copy  # the names for `dir`, which sorts them


# Keras's second names.
MaxPool1D, MaxPool2D = pooling.MaxPooling1D, pooling.MaxPooling2D
AvgPool1D, AvgPool2D = pooling.AveragePooling1D, pooling.AveragePooling2D
GlobalAvgPool2D, GlobalMaxPool2D = pooling.GlobalAveragePooling2D, pooling.GlobalMaxPooling2D
Convolution2D = convolution.Conv2D
