"""TensorArray: a list of tensors that loops write and read, differentiable because it only holds tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import dtypes
from gtape.base.diagnosis import diagnosed_methods
from gtape.base.scalars import int_of, truth_of
from gtape.base.tensor_shape import TensorShape
from gtape.declare.primitives import REGISTRY
from gtape.errors import InvalidArgumentError, OutOfRangeError, ResourceExhaustedError
from gtape.tensors.axes import integers_read, only_int
from gtape.tensors.operands import whole_numbers
from gtape.tensors.tensor import Tensor, as_operand, convert_to_tensor, wrap

__all__ = ["TensorArray"]
NAMESPACES = ()

# The largest size. More places take too much memory even without elements.
_MOST_ELEMENTS = 1 << 24


def _as(value: Any, dtype: np.dtype[Any]) -> Tensor:
    """The value as a tensor. Python values take the given dtype if possible."""
    if isinstance(value, (bool, int, float, list, tuple)):
        try:
            return convert_to_tensor(value, dtype)
        except (TypeError, ValueError):
            return convert_to_tensor(value)
    return convert_to_tensor(value)


def _places_read(v: Any, op: str, name: str) -> Any:
    """Whole numbers that are places or sizes in an array, which no tape follows."""
    t = as_operand(v)
    integers_read(t)
    return whole_numbers(t, op, name)


@diagnosed_methods
class TensorArray:
    """A list of tensors of one dtype, written and read by index.

    Parameters
    ----------
    dtype : dtype
        The dtype of every element.
    size : int or scalar tensor
        The number of elements.
    dynamic_size : bool, optional
        Whether a write beyond the end makes the array longer.
    clear_after_read : bool, optional
        Whether an element may be read only once; True by default.
    tensor_array_name, handle, flow, colocate_with_first_write_call, name
        Ignored; TensorFlow has them.
    infer_shape : bool
        Whether all elements must have the shape of the first written element.
    element_shape : sequence of int or TensorShape, optional
        The shape that every element must have.

    Raises
    ------
    ValueError
        If no size is given.
    gtape.errors.OutOfRangeError
        If an index of `read` or `write` is out of range.
    gtape.errors.InvalidArgumentError
        If an element has another dtype, or is read twice.

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.Variable(3.0)
    >>> with tf.GradientTape() as tape:
    ...     powers = tf.TensorArray(tf.float32, size=3)
    ...     for i in range(3):
    ...         powers = powers.write(i, x ** i)
    ...     y = tf.reduce_sum(powers.stack())
    >>> tape.gradient(y, x).numpy()
    np.float32(7.0)
    """

    def __init__(
        self, dtype: Any, size: Any = None, dynamic_size: bool | None = None, clear_after_read: bool | None = None,
        tensor_array_name: str | None = None, handle: Any = None, flow: Any = None, infer_shape: bool = True,
        element_shape: Any = None, colocate_with_first_write_call: bool = True, name: str | None = None,
    ) -> None:  # fmt: skip
        self._dynamic = truth_of(dynamic_size, "TensorArray", "dynamic_size")
        if size is None:
            if not self._dynamic:
                raise ValueError("Size must be provided if handle is not provided: TensorArray(dtype, size=...)")
            size = 0
        self._dtype = dtypes.np_dtype(dtype)
        self._clears = clear_after_read is None or truth_of(clear_after_read, "TensorArray", "clear_after_read")
        self._infers = truth_of(infer_shape, "TensorArray", "infer_shape")
        self._element_shape = TensorShape(None if element_shape is None else element_shape)
        n = only_int(size, "TensorArray: size")
        if n < 0:
            raise InvalidArgumentError(f"TensorArray: size must not be negative, got {n}")
        if n > _MOST_ELEMENTS:
            raise ResourceExhaustedError(f"a TensorArray of {n} elements has no room in the memory")
        self._items: list[Tensor | None] = [None] * n
        self._read: set[int] = set()

    @property
    def dtype(self) -> dtypes.DType:
        """The dtype of the elements."""
        return dtypes.as_dtype(self._dtype)

    @property
    def dynamic_size(self) -> bool:
        """Whether a write beyond the end makes the array longer."""
        return self._dynamic

    @property
    def element_shape(self) -> TensorShape:
        """The known part of the shape of every element."""
        return self._element_shape

    @property
    def handle(self) -> None:
        """Always None, because there is no resource."""
        return None

    @property
    def flow(self) -> Tensor:
        """A scalar, which orders the operations of a graph in TensorFlow."""
        return wrap(np.float32(0.0))

    def __repr__(self) -> str:
        return f"<gtape.TensorArray: size={len(self._items)}, dtype={self.dtype.name}>"

    def _present(self, i: int) -> Tensor:
        """Element `i`; zeros if the element was never written."""
        t = self._items[i]
        if t is None:
            if not self._element_shape.is_fully_defined():
                raise ValueError(
                    f"element {i} of this TensorArray was never written and its shape is not known: write it, or pass "
                    "element_shape"
                )
            t = self._items[i] = wrap(np.zeros(tuple(self._element_shape), self._dtype))
        return t

    def _place(self, i: Any) -> int:
        """An index for `gather`, after a check of its range."""
        if np.ndim(i) or not 0 <= i < len(self._items):
            raise OutOfRangeError(f"Tried to read from index {i} (array size={len(self._items)})")
        return int(i)

    def _all(self) -> list[Tensor]:
        return [self._present(i) for i in range(len(self._items))]

    def _checked(self, value: Any) -> Tensor:
        t = _as(value, self._dtype)
        if t._layout.dtype != self._dtype:
            raise InvalidArgumentError(
                f"TensorArray dtype is {self.dtype.name} but Op is trying to write dtype {t.dtype.name}: use gtape.cast"
            )
        if not self._element_shape.is_compatible_with(t.shape):
            raise ValueError(
                f"Incompatible shape for value ({t.shape}), expected ({self._element_shape}); infer_shape=False allows "
                "elements of several shapes"
            )
        if self._infers:
            self._element_shape = self._element_shape.merge_with(t.shape)
        return t

    def identity(self) -> TensorArray:
        """The array itself."""
        return self

    def grad(self, source: Any, flow: Any = None, name: str | None = None) -> Any:
        """Raise NotImplementedError, because gradients come from a tape."""
        raise NotImplementedError("TensorArray.grad is not supported when executing eagerly; use a GradientTape")

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """Element `index`. A second read needs ``clear_after_read=False``."""
        i = int_of(index, "TensorArray", "index")
        if i < 0:
            raise OutOfRangeError(f"Reading from negative indices (index {i}) is not allowed.")
        if i >= len(self._items):
            raise OutOfRangeError(f"Tried to read from index {i} (array size={len(self._items)})")
        if self._items[i] is None and i in self._read:
            raise InvalidArgumentError(
                f"Could not read index {i} twice because it was cleared after a previous read "
                "(perhaps try setting clear_after_read = false?)"
            )
        t = self._present(i)
        if self._clears:
            self._items[i] = None
            self._read.add(i)
        return t

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """Write `value` at `index`. Returns the array."""
        i = int_of(index, "TensorArray", "index")
        if i < 0:
            raise OutOfRangeError(f"Writing to negative indices (index {i}) is not allowed.")
        n = len(self._items)
        if i >= n:
            if not self._dynamic:
                raise OutOfRangeError(f"Tried to write to index {i} but array is not resizeable and size is: {n}")
            if i > _MOST_ELEMENTS:
                raise ResourceExhaustedError(f"a TensorArray of {i + 1} elements has no room in the memory")
        made = self._checked(value)
        self._items.extend([None] * (i - n + 1))
        self._items[i] = made
        return self

    def stack(self, name: str | None = None) -> Tensor:
        """All elements along a new first axis."""
        if not self._items:
            rest = tuple(self._element_shape) if self._element_shape.is_fully_defined() else ()
            return wrap(np.zeros((0, *rest), self._dtype))
        from gtape.ops.shape.join import stack

        return stack(self._all())

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """The elements at `indices` along a new first axis."""
        from gtape.ops.shape.join import stack

        return stack([self._present(self._place(i)) for i in _places_read(indices, "TensorArray.gather", "indices")])

    def concat(self, name: str | None = None) -> Tensor:
        """All elements concatenated along their first axis."""
        parts = self._all()
        for i, t in enumerate(parts):
            if not t._layout.shape:
                raise InvalidArgumentError(f"Concat saw a scalar shape at index {i} but requires at least vectors.")
        if not parts:
            return wrap(np.zeros(0, self._dtype))
        return REGISTRY["concat"](*parts, axis=0)

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """Replace all elements by the rows of `value`. Returns the array."""
        rows = list(_as(value, self._dtype))
        if len(rows) > len(self._items) and not self._dynamic:
            raise ValueError(f"Cannot unstack {len(rows)} tensors into a TensorArray of static size {len(self._items)}")
        self._items = [self._checked(r) for r in rows]
        return self

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """Write row i of `value` at ``indices[i]``. Returns the array."""
        places = np.atleast_1d(_places_read(indices, "TensorArray.scatter", "indices"))
        rows = list(_as(value, self._dtype))
        if len(places) != len(rows):
            raise InvalidArgumentError(f"Expected as many indices as rows: {len(places)} indices for {len(rows)} rows")
        for i, row in zip(places, rows, strict=True):
            self.write(int(i), row)
        return self

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """Replace all elements by pieces of `value` with the given lengths along its first axis. Returns the array."""
        t = as_operand(_as(value, self._dtype))
        sizes = _places_read(lengths, "TensorArray.split", "lengths")
        if sizes.ndim != 1:
            raise InvalidArgumentError(f"Expected lengths to be a vector, received shape: {list(sizes.shape)}")
        if not t._layout.shape:
            raise InvalidArgumentError(f"Expected value to be at least a vector, but received shape: {t.shape}")
        if int(sizes.sum()) != t._layout.shape[0]:
            raise InvalidArgumentError(
                "Expected sum of lengths to be equal to values.shape[0], "
                f"but sum of lengths is {int(sizes.sum())} and value's shape is: {t.shape}"
            )
        if not self._dynamic and len(sizes) != len(self._items):
            raise InvalidArgumentError(
                f"TensorArray's size is not equal to the size of lengths ({len(self._items)} vs. {len(sizes)}), and "
                "the TensorArray is not marked as dynamically resizeable."
            )
        ends = np.cumsum(sizes)
        infers, self._infers = self._infers, False  # because pieces may differ in length
        try:
            self._items = [self._checked(t[int(e - n) : int(e)]) for n, e in zip(sizes, ends, strict=True)]
        finally:
            self._infers = infers
        return self

    def size(self, name: str | None = None) -> Tensor:
        """The number of elements, as an int32 scalar."""
        return wrap(np.int32(len(self._items)))

    def close(self, name: str | None = None) -> None:
        """Delete all elements."""
        self._items.clear()

    def __len__(self) -> int:
        return len(self._items)

    def __bool__(self) -> bool:
        return True
