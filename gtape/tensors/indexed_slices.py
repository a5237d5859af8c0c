"""IndexedSlices: the gradient of a lookup, given by the affected rows."""

from __future__ import annotations

from typing import Any

from gtape import dtypes
from gtape.base.layout import Layout
from gtape.base.tensor_shape import TensorShape
from gtape.declare.registry import REGISTRY
from gtape.tensors.tensor import Tensor

__all__ = ["IndexedSlices"]


class IndexedSlices:
    """A tensor given by some of its rows: ``dense[indices[i]] += values[i]``.

    Parameters
    ----------
    values : tensor, shape (n, ...)
        The rows.
    indices : integer tensor, shape (n,)
        The indices of the rows. Rows with the same index are added.
    dense_shape : integer tensor or sequence, optional
        Shape of the whole tensor.

    Examples
    --------
    >>> import gtape as tf
    >>> s = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([0, 0]), tf.constant([2, 1]))
    >>> tf.convert_to_tensor(s).numpy()
    array([[3.],
           [0.]], dtype=float32)
    """

    _is_gtape_tensor = True
    _is_gtape_composite = True  # so gtape.nest flattens the object to its parts
    _value: Any = None  # because ops read the attribute before they check the class
    _whole_gradient: Tensor | None = None  # the dense gradient that a check under an outer tape follows

    def __init__(self, values: Any, indices: Any, dense_shape: Any = None) -> None:
        from gtape.tensors.tensor import convert_to_tensor

        self.values: Tensor = convert_to_tensor(values)
        self.indices: Tensor = convert_to_tensor(indices)
        self.dense_shape: Tensor | None = None if dense_shape is None else convert_to_tensor(dense_shape)

    @property
    def shape(self) -> TensorShape:
        """The shape of the whole tensor."""
        if self.dense_shape is None:
            return TensorShape([None, *self.values._layout.shape[1:]])
        return TensorShape(self._whole())

    @property
    def dtype(self) -> dtypes.DType:
        """The element type of the rows."""
        return self.values.dtype

    @property
    def _layout(self) -> Layout:
        # Not interned, because fast paths of ops treat operands with an interned Layout as Tensors.
        return Layout(self.values._layout.dtype, self._whole())

    def _whole(self) -> tuple[int, ...]:
        if self.dense_shape is None:
            raise ValueError("these IndexedSlices have no dense_shape, so they cannot become a dense tensor")
        return tuple(self.dense_shape.numpy().tolist())

    def _as_tensor(self) -> Tensor:
        if self._whole_gradient is not None:
            return self._whole_gradient
        dense: Tensor = REGISTRY["scatter_rows"].function(self.values, self.indices, size=self._whole()[0])
        return dense

    @property
    def device(self) -> str:
        """The device of the rows: always the CPU."""
        return self.values.device

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self.values, self.indices, self.dense_shape)

    def __repr__(self) -> str:
        whole = "" if self.dense_shape is None else f", dense_shape={self.dense_shape!s}"
        return f"IndexedSlices(indices={self.indices!s}, values={self.values!s}{whole})"
