"""Changes of parts of a variable: rows or elements given by indices, and slices that can be assigned."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gtape import errors
from gtape.base import late
from gtape.base.diagnosis import diagnosed_methods
from gtape.base.escaping import plain
from gtape.base.quiet import quietly
from gtape.base.shown import shown
from gtape.tensors.tensor import Tensor, convert_to_tensor, number_read

if TYPE_CHECKING:
    from gtape.tensors.variable import Variable

__all__ = ["ChangesInPart", "VariableSlice"]


@diagnosed_methods
class ChangesInPart:
    """The methods of a variable that change some rows or elements."""

    __slots__ = ()

    if TYPE_CHECKING:
        _value: Any
        name: Any
        shape: Any

        def _incoming(self, value: Any) -> Any: ...
        def _change(self, make: Callable[[Any], Any]) -> Self: ...
        def _touch(self) -> None: ...

    def _scatter(self, slices: Any, change: Any, batches: bool = False) -> Self:
        from gtape.tensors.indexed_slices import IndexedSlices

        if not isinstance(slices, IndexedSlices):
            raise TypeError(f"Argument `sparse_delta` must be a `gtape.IndexedSlices`. Received arg: {shown(slices)}")
        self._touch()
        indices, new = np.asarray(slices.indices._value), self._incoming(slices.values)
        given = number_read(new)

        def changed(old: Any) -> Any:
            values = np.array(old)
            axis = indices.ndim - 1 if batches else 0
            if not -1 < axis < values.ndim:
                raise errors.InvalidArgumentError(
                    f"indices of shape {indices.shape} name no rows of {plain(self.name)}, which has shape {self.shape}"
                )
            if indices.size and (indices.min() < 0 or indices.max() >= values.shape[axis]):
                raise errors.InvalidArgumentError(
                    f"indices of the update reach outside [0, {values.shape[axis]}), the rows of {plain(self.name)}"
                )
            needed = indices.shape + values.shape[axis + 1 :]
            if new.shape not in ((), needed):
                raise errors.InvalidArgumentError(
                    f"updates of shape {new.shape} do not fit: {indices.size} rows of {plain(self.name)} "
                    f"have shape {needed}"
                )
            with quietly():
                change(values, indices, given)
            return values

        return self._change(changed)

    def scatter_add(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Self:
        """Add IndexedSlices to the rows that they name. Returns this variable."""
        return self._scatter(sparse_delta, np.add.at)

    def scatter_sub(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Self:
        """Subtract IndexedSlices from the rows that they name. Returns this variable."""
        return self._scatter(sparse_delta, np.subtract.at)

    def scatter_mul(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Self:
        """Multiply rows by those of IndexedSlices. Returns this variable."""
        return self._scatter(sparse_delta, np.multiply.at)

    def scatter_div(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Self:
        """Divide rows by those of IndexedSlices. Returns this variable."""
        return self._scatter(sparse_delta, np.divide.at)

    def scatter_max(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Self:
        """Replace rows by the elementwise maximum with those of IndexedSlices. Returns this variable."""
        return self._scatter(sparse_delta, np.maximum.at)

    def scatter_min(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Self:
        """Replace rows by the elementwise minimum with those of IndexedSlices. Returns this variable."""
        return self._scatter(sparse_delta, np.minimum.at)

    def scatter_update(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Self:
        """Replace rows by those of IndexedSlices. Returns this variable."""
        return self._scatter(sparse_delta, _put_at)

    def batch_scatter_update(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Self:
        """Replace rows in each entry of a batch. The last axis of the indices names rows of the entry."""

        def put(values: Any, indices: Any, new: Any) -> None:
            values[(*np.indices(indices.shape)[:-1], indices)] = new

        return self._scatter(sparse_delta, put, batches=True)

    def _scatter_nd(self, indices: Any, updates: Any, change: Any) -> Self:
        self._touch()
        places = np.asarray(convert_to_tensor(indices)._value)
        if places.dtype.kind not in "iu":
            raise errors.InvalidArgumentError(f"indices must be whole numbers, not {shown(indices)}")
        depth = places.shape[-1] if places.ndim else 0
        new = self._incoming(updates)
        given = number_read(new)

        def changed(old: Any) -> Any:
            values = np.array(old)
            limits = np.array(values.shape[:depth])
            if depth > values.ndim or (places < 0).any() or (places >= limits).any():
                raise errors.InvalidArgumentError(
                    f"indices {places.tolist()} do not name elements of {plain(self.name)}, of shape {self.shape}"
                )
            needed = places.shape[:-1] + values.shape[depth:]
            if new.shape != needed:
                raise errors.InvalidArgumentError(
                    f"updates of shape {new.shape} do not fit the places, of shape {needed}"
                )
            with quietly():
                change(values, tuple(np.moveaxis(places, -1, 0)), given)
            return values

        return self._change(changed)

    def scatter_nd_add(self, indices: Any, updates: Any, name: str | None = None) -> Self:
        """Add to the elements or slices that the last axis of `indices` names. Returns this variable."""
        return self._scatter_nd(indices, updates, np.add.at)

    def scatter_nd_sub(self, indices: Any, updates: Any, name: str | None = None) -> Self:
        """Subtract from the elements or slices that the last axis of `indices` names. Returns this variable."""
        return self._scatter_nd(indices, updates, np.subtract.at)

    def scatter_nd_update(self, indices: Any, updates: Any, name: str | None = None) -> Self:
        """Replace the elements or slices that the last axis of `indices` names. Returns this variable."""
        return self._scatter_nd(indices, updates, _put_at)

    def scatter_nd_max(self, indices: Any, updates: Any, name: str | None = None) -> Self:
        """Replace the elements or slices at `indices` by the maximum with `updates`. Returns this variable."""
        return self._scatter_nd(indices, updates, np.maximum.at)

    def scatter_nd_min(self, indices: Any, updates: Any, name: str | None = None) -> Self:
        """Replace the elements or slices at `indices` by the minimum with `updates`. Returns this variable."""
        return self._scatter_nd(indices, updates, np.minimum.at)

    def gather_nd(self, indices: Any, name: str | None = None) -> Tensor:
        """The elements or slices that the last axis of `indices` names."""
        taken: Tensor = late.find_op("gather_nd")(self, indices)
        return taken

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        """The rows that `indices` names."""
        taken: Tensor = late.find_op("gather")(self, indices)
        return taken


def _put_at(values: Any, places: Any, new: Any) -> None:
    values[places] = new


class VariableSlice(Tensor):
    """A part of a variable, by indexing: a tensor with methods that assign to the part."""

    __slots__ = ("_key", "_variable")

    _variable: Variable
    _key: Any
    _is_gtape_tensor = True

    def _as_tensor(self) -> Tensor:
        """The part as a plain Tensor, because generated functions only take objects of the class Tensor itself."""
        t = Tensor()
        t._value, t._layout, t._record = self._value, self._layout, self._record
        return t

    def _change(self, value: Any, how: Any) -> Variable:
        v = self._variable
        v._touch()
        given = number_read(v._incoming(value))

        def changed(old: Any) -> Any:
            values = np.array(old)
            # The flat indices of the elements that the key selects, found by the key on an array of flat indices.
            numbers = convert_to_tensor(np.arange(values.size).reshape(values.shape))
            places = np.asarray(late.getitem(numbers, self._key)._value)
            try:
                new = np.broadcast_to(np.asarray(given, dtype=values.dtype), places.shape)
            except ValueError:
                raise errors.InvalidArgumentError(
                    f"cannot assign a value of shape {np.shape(given)} to a part of {v.name} of shape {places.shape}"
                ) from None
            flat = values.reshape(-1)  # a view only if `values` is in C order
            np.put(flat, places, how(flat[places], new))
            return flat.reshape(values.shape)

        return v._change(changed)

    def assign(self, value: Any) -> Variable:
        """Replace this part by the broadcast value. Returns the variable."""
        return self._change(value, lambda old, new: new)

    def assign_add(self, value: Any) -> Variable:
        """Add the broadcast value to this part. Returns the variable."""
        return self._change(value, np.add)

    def assign_sub(self, value: Any) -> Variable:
        """Subtract the broadcast value from this part. Returns the variable."""
        return self._change(value, np.subtract)
