"""Layers: functions with variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from gtape.keras.layers.activation import ELU, Activation, LeakyReLU, PReLU, ReLU, Softmax
from gtape.keras.layers.convolution import (
    Conv1D,
    Conv1DTranspose,
    Conv2D,
    Conv2DTranspose,
    Conv3D,
    DepthwiseConv2D,
    SeparableConv2D,
)
from gtape.keras.layers.core import (
    Dense,
    Embedding,
    Flatten,
    Identity,
    InputLayer,
    Lambda,
    Permute,
    RepeatVector,
    Rescaling,
    Reshape,
)
from gtape.keras.layers.framing import Cropping2D, UpSampling2D, ZeroPadding2D
from gtape.keras.layers.layer import Layer
from gtape.keras.layers.merging import (
    Add,
    Average,
    Concatenate,
    Maximum,
    Minimum,
    Multiply,
    Subtract,
    add,
    average,
    concatenate,
    maximum,
    minimum,
    multiply,
    subtract,
)
from gtape.keras.layers.normalization import BatchNormalization, LayerNormalization
from gtape.keras.layers.pooling import (
    AveragePooling1D,
    AveragePooling2D,
    GlobalAveragePooling1D,
    GlobalAveragePooling2D,
    GlobalMaxPooling1D,
    GlobalMaxPooling2D,
    MaxPooling1D,
    MaxPooling2D,
)
from gtape.keras.layers.regularization import Dropout, GaussianDropout, GaussianNoise
from gtape.keras.layers.symbolic import Input

__all__ = [
    "ELU", "Activation", "Add", "Average", "AveragePooling1D", "AveragePooling2D", "AvgPool1D", "AvgPool2D",
    "BatchNormalization", "Concatenate", "Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D",
    "Convolution2D", "Cropping2D", "Dense", "DepthwiseConv2D", "Dropout", "Embedding", "Flatten", "GaussianDropout",
    "GaussianNoise",
    "GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAvgPool2D", "GlobalMaxPool2D", "GlobalMaxPooling1D",
    "GlobalMaxPooling2D", "Identity", "Input", "InputLayer", "Lambda", "Layer", "LayerNormalization", "LeakyReLU",
    "MaxPool1D", "MaxPool2D", "MaxPooling1D", "MaxPooling2D", "Maximum", "Minimum", "Multiply", "PReLU", "Permute",
    "ReLU", "RepeatVector", "Rescaling", "Reshape", "SeparableConv2D", "Softmax", "Subtract", "UpSampling2D",
    "ZeroPadding2D", "add", "average", "concatenate", "maximum", "minimum", "multiply", "subtract",
]  # fmt: skip


if not TYPE_CHECKING:  # type checkers know all names, and would take any other for one

    def __getattr__(name: str) -> NoReturn:
        from gtape.namespaces.catalogue import unknown

        raise unknown("gtape.keras.layers", name, __all__)


def __dir__() -> list[str]:
    return sorted(__all__)


# Keras's second names.
MaxPool1D, MaxPool2D, AvgPool1D, AvgPool2D = MaxPooling1D, MaxPooling2D, AveragePooling1D, AveragePooling2D
GlobalAvgPool2D, GlobalMaxPool2D, Convolution2D = GlobalAveragePooling2D, GlobalMaxPooling2D, Conv2D
