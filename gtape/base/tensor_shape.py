"""TensorShape: a tuple of sizes with TensorFlow's methods."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from operator import index
from typing import Any, SupportsIndex

from gtape.base.shown import shown

__all__ = ["UNKNOWN", "TensorShape", "as_shape"]


_LARGEST = 2**63 - 1
# More axes than any tensor may have. The limit exists, because endless iterables are not shapes.
_MOST_AXES = 1 << 16


def _size(dim: Any) -> int | None:
    if dim is None:
        return None
    try:
        size = index(dim)
    except TypeError:
        raise TypeError(
            f"Dimension value must be integer or None or have an __index__ method, got {shown(dim)}"
        ) from None
    if size < 0:
        raise ValueError(f"Dimension {size} must be >= 0")
    if size > _LARGEST:
        raise ValueError(f"Dimension {size} is too large: a size must be < 2**63")
    return size


def _whole(op: str, rank: Any) -> int:
    try:
        return index(rank)
    except TypeError:
        raise TypeError(f"{op}: `rank` must be a whole number, not {shown(rank)}") from None


class TensorShape(tuple[Any, ...]):
    """The sizes of a tensor's axes.

    A shape can be compared with tuples and lists, and used as a shape in NumPy. Every tensor has a fully defined shape.
    A size of None (any size) and ``TensorShape(None)`` (any rank) only describe the values that a variable may hold.

    Parameters
    ----------
    dims : iterable of int or None, int, or None
        The sizes. A single number stands for a shape of rank 1.

    Raises
    ------
    TypeError
        If a size is not an integer.
    ValueError
        If a size is negative.

    Examples
    --------
    >>> from gtape.base.tensor_shape import TensorShape
    >>> s = TensorShape([1, 2])
    >>> s, str(s), s == [1, 2], s[1:], s.num_elements()
    (TensorShape([1, 2]), '(1, 2)', True, TensorShape([2]), 2)
    """

    __slots__ = ()

    def __new__(cls, dims: Any) -> TensorShape:
        if dims.__class__ is TensorShape:
            return dims
        if dims is None or dims is UNKNOWN:
            return UNKNOWN
        if not isinstance(dims, Iterable):
            dims = (dims,)
        else:
            try:
                dims = iter(dims)
            except (TypeError, NotImplementedError):  # __iter__ raises for a scalar array and some memoryviews
                dims = (dims,)
        sizes = [_size(d) for d in islice(dims, _MOST_AXES)]
        if len(sizes) == _MOST_AXES:
            raise ValueError(f"a shape of more than {_MOST_AXES - 1} axes cannot be")
        return super().__new__(cls, sizes)

    @property
    def rank(self) -> int | None:
        """The number of axes; None if unknown."""
        return tuple.__len__(self)

    @property
    def ndims(self) -> int | None:
        """The number of axes; None if unknown."""
        return self.rank

    @property
    def dims(self) -> list[Any] | None:
        """The sizes as a list; None if the rank is unknown."""
        return None if self.rank is None else list(self)

    def as_list(self) -> list[Any]:
        """The sizes as a list. ValueError if the rank is unknown."""
        return list(self)

    def num_elements(self) -> int | None:
        """The number of elements; None if a size is unknown."""
        if not self.is_fully_defined():
            return None
        n = 1
        for d in self:
            n *= d
        return n

    def is_fully_defined(self) -> bool:
        """Whether every size is known."""
        return None not in tuple(self)

    def is_compatible_with(self, other: Any) -> bool:
        """Whether some fully defined shape fits this shape and `other`."""
        other = as_shape(other)
        if other.rank is None:
            return True
        return len(self) == len(other) and all(
            a == b or a is None or b is None for a, b in zip(self, other, strict=True)
        )

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise a ValueError unless some fully defined shape fits both shapes."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {as_shape(other)} are incompatible")

    def assert_has_rank(self, rank: int) -> None:
        """Raise a ValueError unless the shape may have `rank` axes."""
        if self.rank != _whole("assert_has_rank", rank) and self.rank is not None:
            raise ValueError(f"Shape {self} must have rank {rank}")

    def assert_same_rank(self, other: Any) -> None:
        """Raise a ValueError if both ranks are known and differ."""
        other = as_shape(other)
        if other.rank is not None and self.rank not in (None, other.rank):
            raise ValueError(f"Shapes {self} and {other} must have the same rank")

    def assert_is_fully_defined(self) -> None:
        """Raise a ValueError unless every size is known."""
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined")

    def with_rank(self, rank: int) -> TensorShape:
        """The shape itself if it has `rank` axes. If its rank is unknown, a shape with `rank` unknown sizes.

        Raises a ValueError if the shape has another rank.
        """
        self.assert_has_rank(rank)
        return self

    def with_rank_at_least(self, rank: int) -> TensorShape:
        """The shape itself if it has at least `rank` axes. ValueError if it has fewer."""
        if self.rank is not None and self.rank < _whole("with_rank_at_least", rank):
            raise ValueError(f"Shape {self} must have rank at least {rank}")
        return self

    def with_rank_at_most(self, rank: int) -> TensorShape:
        """The shape itself if it has at most `rank` axes. ValueError if it has more."""
        if self.rank is not None and self.rank > _whole("with_rank_at_most", rank):
            raise ValueError(f"Shape {self} must have rank at most {rank}")
        return self

    def concatenate(self, other: Any) -> TensorShape:
        """The axes of this shape followed by those of `other`."""
        other = as_shape(other)
        return UNKNOWN if other.rank is None else TensorShape((*self, *other))

    def merge_with(self, other: Any) -> TensorShape:
        """The shape with every size that this shape or `other` knows. ValueError if the shapes are incompatible."""
        other = as_shape(other)
        self.assert_is_compatible_with(other)
        if other.rank is None:
            return self
        return TensorShape(b if a is None else a for a, b in zip(self, other, strict=True))

    def most_specific_compatible_shape(self, other: Any) -> TensorShape:
        """The narrowest shape that covers this shape and `other`. Different sizes and different ranks become unknown.

        Parameters
        ----------
        other : TensorShape, iterable of int or None, int, or None

        Returns
        -------
        TensorShape

        Examples
        --------
        >>> import gtape as tf
        >>> tf.TensorShape([1, 2]).most_specific_compatible_shape([1, 3])
        TensorShape([1, None])
        """
        other = as_shape(other)
        if other.rank is None or len(self) != len(other):
            return UNKNOWN
        return TensorShape(a if a == b else None for a, b in zip(self, other, strict=True))

    def __getitem__(self, key: SupportsIndex | slice) -> Any:
        try:
            part = tuple.__getitem__(self, key)
        except IndexError:
            raise IndexError(f"axis {shown(key)} of {self!r}, which has {len(self)} axes") from None
        except TypeError:
            raise TypeError(f"a TensorShape is indexed by whole numbers and slices of them, not {shown(key)}") from None
        return TensorShape(part) if isinstance(key, slice) else part

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __radd__(self, other: Any) -> TensorShape:
        return as_shape(other).concatenate(self)

    def __eq__(self, other: object) -> bool:
        if other.__class__ is TensorShape or other.__class__ is tuple:
            return tuple.__eq__(self, other)
        try:
            other = as_shape(other)
        except (TypeError, ValueError):
            return False
        return other.rank is not None and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __bool__(self) -> bool:
        # As in TensorFlow, only the shape of unknown rank is false.
        return True

    def __str__(self) -> str:
        return tuple.__repr__(self)

    def __repr__(self) -> str:
        return f"TensorShape({list(self)})"

    def __reduce__(self) -> Any:
        return (TensorShape, (tuple(self),))


class _Unknown(TensorShape):
    """The shape of any rank. Its only value is UNKNOWN."""

    __slots__ = ()

    @property
    def rank(self) -> int | None:
        return None

    def as_list(self) -> list[Any]:
        raise ValueError("as_list() is not defined on an unknown TensorShape.")

    def num_elements(self) -> int | None:
        return None

    def is_fully_defined(self) -> bool:
        return False

    def is_compatible_with(self, other: Any) -> bool:
        as_shape(other)
        return True

    def with_rank(self, rank: int) -> TensorShape:
        n = _whole("with_rank", rank)
        if not 0 <= n < _MOST_AXES:
            raise ValueError(f"with_rank: no shape has {n} axes")
        return TensorShape([None] * n)

    def concatenate(self, other: Any) -> TensorShape:
        as_shape(other)
        return self

    def merge_with(self, other: Any) -> TensorShape:
        return as_shape(other)

    def most_specific_compatible_shape(self, other: Any) -> TensorShape:
        as_shape(other)
        return self

    def __getitem__(self, key: SupportsIndex | slice) -> Any:
        return self if isinstance(key, slice) else None

    def __iter__(self) -> Any:
        raise ValueError("Cannot iterate over a shape with unknown rank.")

    def __len__(self) -> int:
        raise ValueError("Cannot take the length of shape with unknown rank.")

    def __eq__(self, other: object) -> bool:
        return other is self or other is None

    def __hash__(self) -> int:
        return hash(_Unknown)

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return "<unknown>"

    def __repr__(self) -> str:
        return "TensorShape(None)"

    def __reduce__(self) -> Any:
        return (TensorShape, (None,))


UNKNOWN: TensorShape = tuple.__new__(_Unknown)


def as_shape(shape: Any) -> TensorShape:
    """The TensorShape for anything that describes a shape. The errors are those of `TensorShape`.

    >>> as_shape((2, 3))
    TensorShape([2, 3])
    """
    return shape if isinstance(shape, TensorShape) else TensorShape(shape)
