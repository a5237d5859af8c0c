"""Cotangents of lookups, as rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.engine.worlds import NUMPY, TAPE
from gtape.tensors.indexed_slices import IndexedSlices
from gtape.tensors.tensor import Tensor, wrap

__all__ = ["SparseCotangent", "from_cotangent"]


class SparseCotangent:
    """Rows of a cotangent in a sweep. The sum with a dense cotangent is dense.

    Parameters
    ----------
    values : value of the sweep's world, shape (n, ...)
    indices : int array, shape (n,)
        In a traced call the traced value of the array.
    """

    __slots__ = ("dense_shape", "indices", "values")

    # With this attribute an array on the left leaves the addition to __radd__, and a tensor calls `_as_tensor`.
    __array_ufunc__ = None
    _is_gtape_tensor = True

    def __init__(self, values: Any, indices: Any, dense_shape: tuple[int, ...]) -> None:
        self.values = values
        self.indices = indices
        self.dense_shape = tuple(dense_shape)

    def _as_tensor(self) -> Tensor:
        return self.dense(TAPE)  # type: ignore[no-any-return]

    def dense(self, world: Any) -> Any:
        """The same cotangent with every row. Rows that occur twice are added."""
        # A tensor, because a plain array would be cast to the dtype of the values.
        indices = wrap(self.indices) if world is TAPE else self.indices
        return world.scatter_rows(self.values, indices, size=self.dense_shape[0])

    def __add__(self, other: Any) -> Any:
        world = TAPE if isinstance(self.values, Tensor) else NUMPY
        if isinstance(other, SparseCotangent):
            # A sweep passes the lookups backwards, so `other` comes first to restore their order.
            values = world.concat(other.values, self.values, axis=0)
            return SparseCotangent(values, np.concatenate([other.indices, self.indices]), self.dense_shape)
        return self.dense(world) + other

    __radd__ = __add__


def from_cotangent(cotangent: SparseCotangent) -> IndexedSlices:
    """The public form of a sparse cotangent. Other cotangents stay unchanged."""
    values = cotangent.values if isinstance(cotangent.values, Tensor) else wrap(cotangent.values)
    return IndexedSlices(values, wrap(cotangent.indices), wrap(np.asarray(cotangent.dense_shape, dtype=np.int32)))
