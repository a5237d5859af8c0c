"""IndexedSlices: the gradient of a lookup, as the rows that were touched."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import dtypes
from gtape.base.layout import Aval
from gtape.base.tensor_shape import TensorShape
from gtape.engine.worlds import NUMPY, TAPE
from gtape.tensors.tensor import Tensor, wrap

__all__ = ["IndexedSlices", "SparseCotangent"]


class SparseCotangent:
    """Rows of a cotangent on its way through a sweep; adding a dense one makes it dense.

    Parameters
    ----------
    values : value of the sweep's world, shape (n, ...)
    indices : int array, shape (n,)
    dense_shape : tuple of int
    """

    __slots__ = ("dense_shape", "indices", "values")

    # An array on the left leaves the addition to __radd__, rather than adding element by element; a tensor on the left
    # asks for a tensor.
    __array_ufunc__ = None
    _is_gtape_tensor = True

    def __init__(self, values: Any, indices: Any, dense_shape: tuple[int, ...]) -> None:
        self.values = values
        self.indices = np.asarray(indices)
        self.dense_shape = tuple(dense_shape)

    def _as_tensor(self) -> Tensor:
        return self.dense(TAPE)  # type: ignore[no-any-return]

    def dense(self, world: Any) -> Any:
        """The same cotangent with every row, duplicates added."""
        # A tensor, lest the indices take the dtype of the values, as plain arrays do.
        indices = wrap(self.indices) if world is TAPE else self.indices
        return world.scatter_rows(self.values, indices, size=self.dense_shape[0])

    def __add__(self, other: Any) -> Any:
        world = TAPE if isinstance(self.values, Tensor) else NUMPY
        if isinstance(other, SparseCotangent):
            # A sweep meets the lookups backwards; in the sum they stand in the order in which they were made.
            values = world.concat(other.values, self.values, axis=0)
            return SparseCotangent(values, np.concatenate([other.indices, self.indices]), self.dense_shape)
        return self.dense(world) + other

    __radd__ = __add__


class IndexedSlices:
    """A tensor given by some of its rows: ``dense[indices[i]] += values[i]``.

    Parameters
    ----------
    values : tensor, shape (n, ...)
        The rows.
    indices : integer tensor, shape (n,)
        Where they belong; duplicates add up.
    dense_shape : integer tensor or sequence, optional
        Shape of the whole.

    Examples
    --------
    >>> import gtape as tf
    >>> s = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([0, 0]), tf.constant([2, 1]))
    >>> tf.convert_to_tensor(s).numpy()
    array([[3.],
           [0.]], dtype=float32)
    """

    _is_gtape_tensor = True
    _value: Any = None  # ops read it before they see that this is no tensor

    def __init__(self, values: Any, indices: Any, dense_shape: Any = None) -> None:
        from gtape.tensors.tensor import convert_to_tensor

        self.values: Tensor = convert_to_tensor(values)
        self.indices: Tensor = convert_to_tensor(indices)
        self.dense_shape: Tensor | None = None if dense_shape is None else convert_to_tensor(dense_shape)

    @property
    def shape(self) -> TensorShape:
        """Shape of the whole."""
        if self.dense_shape is None:
            return TensorShape([None, *self.values._aval.shape[1:]])
        return TensorShape(self._whole())

    @property
    def dtype(self) -> dtypes.DType:
        """Element type of the rows."""
        return self.values.dtype

    @property
    def _aval(self) -> Aval:
        # One of its own, as a variable has: the short ways of the ops take operands that share one for tensors.
        return Aval(self.values._aval.dtype, self._whole())

    def _whole(self) -> tuple[int, ...]:
        if self.dense_shape is None:
            raise ValueError("these IndexedSlices have no dense_shape, so they cannot become a dense tensor")
        return tuple(self.dense_shape.numpy().tolist())

    def _as_tensor(self) -> Tensor:
        dense: Tensor = TAPE.scatter_rows(self.values, self.indices, size=self._whole()[0])
        return dense

    @property
    def device(self) -> str:
        """Where the rows live: always the CPU."""
        return self.values.device

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self.values, self.indices, self.dense_shape)

    def __repr__(self) -> str:
        whole = "" if self.dense_shape is None else f", dense_shape={self.dense_shape!s}"
        return f"IndexedSlices(indices={self.indices!s}, values={self.values!s}{whole})"


def from_cotangent(cotangent: SparseCotangent) -> IndexedSlices:
    """The public form of a sparse cotangent."""
    values = cotangent.values if isinstance(cotangent.values, Tensor) else wrap(cotangent.values)
    return IndexedSlices(values, wrap(cotangent.indices), wrap(np.asarray(cotangent.dense_shape, dtype=np.int32)))
