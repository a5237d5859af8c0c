"""Changes of parts of a variable: rows or elements given by indices, and slices that can be assigned."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from gtape import errors
from gtape.base import late
from gtape.base.diagnosis import diagnosed_methods
from gtape.base.escaping import plain
from gtape.base.quiet import quietly
from gtape.base.shown import shown
from gtape.recording import record
from gtape.tensors.tensor import Tensor, convert_to_tensor, number_read

if TYPE_CHECKING:
    from gtape.tensors.variable import Variable

__all__ = ["ADD", "CHANGES_PARTS", "SUB", "Change", "ChangesInPart", "VariableSlice"]


CHANGES_PARTS = "changes parts of a variable"  # why a function is not compiled


class Change(NamedTuple):
    """A way to change a part of an array.

    Attributes
    ----------
    at : callable
        Changes a part of an array: (array, index, new numbers).
    op : str or None
        The name of the function of tensors that returns the changed whole.
    """

    at: Callable[[Any, Any, Any], None]
    op: str | None = None


def _put_at(values: Any, places: Any, new: Any) -> None:
    values[places] = new


ADD = Change(np.add.at, "tensor_scatter_nd_add")
SUB = Change(np.subtract.at, "tensor_scatter_nd_sub")
_MUL, _DIV = Change(np.multiply.at), Change(np.divide.at)
_MAX = Change(np.maximum.at, "tensor_scatter_nd_max")
_MIN = Change(np.minimum.at, "tensor_scatter_nd_min")
_UPDATE = Change(_put_at, "tensor_scatter_nd_update")


@diagnosed_methods
class ChangesInPart:
    """The methods of a variable that change some rows or elements."""

    __slots__ = ()

    if TYPE_CHECKING:
        _value: Any
        _layout: Any
        name: Any
        shape: Any

        def _as_tensor(self) -> Tensor: ...
        def _incoming(self, value: Any) -> Any: ...
        def _change(self, make: Callable[[Any], Any], origin: Callable[[], Any] | None = None) -> Self: ...
        def _touch(self, reason: str = ...) -> None: ...

    def _change_part(self, find: Callable[[Any], Any], new: Tensor, how: Change) -> Self:
        """Change a part by `new` numbers for it. `find` returns the part's index for an array like the value."""
        given = number_read(new)
        part: Any = None

        def changed(old: Any) -> Any:
            nonlocal part
            values = np.array(old)
            part = find(values)
            with quietly():
                how.at(values, part, given)
            return values

        if not (record.get_stack().trace and self._layout.inexact):
            return self._change(changed)
        before = self._as_tensor()

        def origin() -> Tensor:
            reshape, spread = late.find_op("reshape"), late.find_op("broadcast_to")
            shape = self._layout.shape
            places = np.arange(math.prod(shape)).reshape(shape)[part]
            updates, flat = reshape(spread(new, places.shape), [-1]), reshape(before, [-1])
            at = places.reshape(-1, 1)
            if how.op is not None:
                made = late.find_op(how.op)(flat, at, updates)
            else:  # factors of 1 at other places
                by = late.find_op(_UPDATE.op)(late.find_op("ones_like")(flat), at, updates)
                made = flat * by if how is _MUL else flat / by
            whole: Tensor = reshape(made, shape)
            return whole

        return self._change(changed, origin)

    def _scatter(self, slices: Any, how: Change, batches: bool = False) -> Self:
        from gtape.tensors.indexed_slices import IndexedSlices

        if not isinstance(slices, IndexedSlices):
            raise TypeError(f"Argument `sparse_delta` must be a `gtape.IndexedSlices`. Received arg: {shown(slices)}")
        self._touch(CHANGES_PARTS)
        indices, new = np.asarray(slices.indices._value), self._incoming(slices.values)

        def rows(values: Any) -> Any:
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
            return (*np.indices(indices.shape)[:-1], indices) if batches else indices

        return self._change_part(rows, new, how)

    def scatter_add(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Self:
        """Add IndexedSlices to the rows that they name. Returns this variable."""
        return self._scatter(sparse_delta, ADD)

    def scatter_sub(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Self:
        """Subtract IndexedSlices from the rows that they name. Returns this variable."""
        return self._scatter(sparse_delta, SUB)

    def scatter_mul(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Self:
        """Multiply rows by those of IndexedSlices. Returns this variable."""
        return self._scatter(sparse_delta, _MUL)

    def scatter_div(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Self:
        """Divide rows by those of IndexedSlices. Returns this variable."""
        return self._scatter(sparse_delta, _DIV)

    def scatter_max(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Self:
        """Replace rows by the elementwise maximum with those of IndexedSlices. Returns this variable."""
        return self._scatter(sparse_delta, _MAX)

    def scatter_min(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Self:
        """Replace rows by the elementwise minimum with those of IndexedSlices. Returns this variable."""
        return self._scatter(sparse_delta, _MIN)

    def scatter_update(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Self:
        """Replace rows by those of IndexedSlices. Returns this variable."""
        return self._scatter(sparse_delta, _UPDATE)

    def batch_scatter_update(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Self:
        """Replace rows in each entry of a batch. The last axis of the indices names rows of the entry."""
        return self._scatter(sparse_delta, _UPDATE, batches=True)

    def _scatter_nd(self, indices: Any, updates: Any, how: Change) -> Self:
        self._touch(CHANGES_PARTS)
        places = np.asarray(convert_to_tensor(indices)._value)
        if places.dtype.kind not in "iu":
            raise errors.InvalidArgumentError(f"indices must be whole numbers, not {shown(indices)}")
        depth = places.shape[-1] if places.ndim else 0
        new = self._incoming(updates)

        def slices(values: Any) -> Any:
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
            return tuple(np.moveaxis(places, -1, 0))

        return self._change_part(slices, new, how)

    def scatter_nd_add(self, indices: Any, updates: Any, name: str | None = None) -> Self:
        """Add to the elements or slices that the last axis of `indices` names. Returns this variable."""
        return self._scatter_nd(indices, updates, ADD)

    def scatter_nd_sub(self, indices: Any, updates: Any, name: str | None = None) -> Self:
        """Subtract from the elements or slices that the last axis of `indices` names. Returns this variable."""
        return self._scatter_nd(indices, updates, SUB)

    def scatter_nd_update(self, indices: Any, updates: Any, name: str | None = None) -> Self:
        """Replace the elements or slices that the last axis of `indices` names. Returns this variable."""
        return self._scatter_nd(indices, updates, _UPDATE)

    def scatter_nd_max(self, indices: Any, updates: Any, name: str | None = None) -> Self:
        """Replace the elements or slices at `indices` by the maximum with `updates`. Returns this variable."""
        return self._scatter_nd(indices, updates, _MAX)

    def scatter_nd_min(self, indices: Any, updates: Any, name: str | None = None) -> Self:
        """Replace the elements or slices at `indices` by the minimum with `updates`. Returns this variable."""
        return self._scatter_nd(indices, updates, _MIN)

    def gather_nd(self, indices: Any, name: str | None = None) -> Tensor:
        """The elements or slices that the last axis of `indices` names."""
        taken: Tensor = late.find_op("gather_nd")(self, indices)
        return taken

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        """The rows that `indices` names."""
        taken: Tensor = late.find_op("gather")(self, indices)
        return taken


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

    def _change(self, value: Any, how: Change) -> Variable:
        v = self._variable
        v._touch(CHANGES_PARTS)
        new = v._incoming(value)

        def selected(values: Any) -> Any:
            # The key selects from an array of flat indices.
            numbers = convert_to_tensor(np.arange(values.size).reshape(values.shape))
            places = np.asarray(late.getitem(numbers, self._key)._value)
            try:
                np.broadcast_to(number_read(new), places.shape)
            except ValueError:
                raise errors.InvalidArgumentError(
                    f"cannot assign a value of shape {tuple(new.shape)} to a part of {v.name} of shape {places.shape}"
                ) from None
            return np.unravel_index(places, values.shape) if values.shape else ()

        return v._change_part(selected, new, how)

    def assign(self, value: Any) -> Variable:
        """Replace this part by the broadcast value. Returns the variable."""
        return self._change(value, _UPDATE)

    def assign_add(self, value: Any) -> Variable:
        """Add the broadcast value to this part. Returns the variable."""
        return self._change(value, ADD)

    def assign_sub(self, value: Any) -> Variable:
        """Subtract the broadcast value from this part. Returns the variable."""
        return self._change(value, SUB)
