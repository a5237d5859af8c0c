"""Types of the arguments of public functions, for annotations in user code; gtape itself imports none at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from gtape.base.tensor_shape import TensorShape
    from gtape.dtypes import DType
    from gtape.tensors.indexed_slices import IndexedSlices
    from gtape.tensors.tensor import Tensor
    from gtape.tensors.variable import Variable

__all__ = ["DTypeLike", "Gradient", "Number", "ShapeLike", "Structure", "TensorLike"]

T = TypeVar("T")

Number: TypeAlias = bool | int | float | complex
"""Python's own numbers."""

TensorLike: TypeAlias = (
    "Tensor | Variable | IndexedSlices | npt.NDArray[Any] | np.generic | Number | Sequence[TensorLike]"
)
"""The types that `convert_to_tensor` takes."""

DTypeLike: TypeAlias = "DType | npt.DTypeLike"
"""The types that `as_dtype` takes."""

ShapeLike: TypeAlias = "TensorShape | Sequence[int | None] | int | None"
"""The types that `TensorShape` takes."""

Structure: TypeAlias = "T | Sequence[Structure[T]] | Mapping[Any, Structure[T]]"
"""A leaf of type T or a nest of them."""

Gradient: TypeAlias = "Tensor | IndexedSlices | None"
"""The types that `gradient` returns for one source."""
