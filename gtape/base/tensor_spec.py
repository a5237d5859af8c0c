"""TensorSpec: the shape and dtype of a tensor that does not exist yet."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import dtypes
from gtape.base.shown import shown
from gtape.base.tensor_shape import TensorShape

__all__ = ["TensorSpec"]


class TensorSpec:
    """The shape and dtype of a tensor.

    Parameters
    ----------
    shape : sequence of int or None, TensorShape
        None stands for an axis of any length, and None alone for any shape.
    dtype : dtype
    name : str, optional

    Raises
    ------
    TypeError
        If the dtype is unknown.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.TensorSpec([None, 2], tf.float32).is_compatible_with(tf.zeros([3, 2]))
    True
    """

    def __init__(self, shape: Any = None, dtype: Any = dtypes.float32, name: str | None = None) -> None:
        self.shape = TensorShape(shape)
        self.dtype = dtypes.as_dtype(dtype)
        self.name = name

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> TensorSpec:
        """The spec of a tensor."""
        if not isinstance(tensor, np.ndarray | np.generic) and not hasattr(tensor, "_layout"):
            raise TypeError(f"TensorSpec.from_tensor takes a tensor, a variable or an array, not {shown(tensor)}")
        return cls(tensor.shape, tensor.dtype, name)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether a tensor or another spec fits this spec."""
        if not isinstance(spec_or_value, TensorSpec | np.ndarray | np.generic) and not hasattr(
            spec_or_value, "_layout"
        ):
            return False
        return bool(
            dtypes.np_dtype(spec_or_value.dtype) == dtypes.np_dtype(self.dtype)
            and self.shape.is_compatible_with(spec_or_value.shape)
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TensorSpec)
            and str(self.shape) == str(other.shape)
            and dtypes.np_dtype(self.dtype) == dtypes.np_dtype(other.dtype)
            and self.name == other.name
        )

    def __hash__(self) -> int:
        return hash((str(self.shape), self.dtype.name, self.name))

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype=gtape.{self.dtype.name}, name={shown(self.name)})"
