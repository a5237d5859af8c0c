"""The values and tensors that a traced call read without being traced, as constants.

A tensor that holds one of the values may be a constant of the call.

The values are known by identity, because a tensor keeps its value as long as it lives. A Python float that an op gave
to a kernel as a NumPy scalar is known by its bits.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gtape.tensors.tensor import Tensor

__all__ = ["SeenConstants", "SeenTensors"]


class SeenConstants:
    """The raw values that one traced call read."""

    __slots__ = ("_arrays", "_bits", "_scalars")

    def __init__(self) -> None:
        # Weakly, because the results of ops on constants are many and die soon.
        self._arrays: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._scalars: dict[int, Any] = {}
        self._bits: set[bytes] = set()

    def note(self, value: Any) -> None:
        """Note a value, which may be of any kind."""
        kind = value.__class__
        if kind is float:
            self._scalars[id(value)] = value
        elif kind is np.float64:
            self._bits.add(value.tobytes())
        elif isinstance(value, np.ndarray):
            self._arrays[id(value)] = value
        elif isinstance(value, np.generic):
            self._scalars[id(value)] = value
        elif kind in (list, tuple):
            for v in value:
                self.note(v)
        elif kind is Tensor:
            self.note(value._value)

    def identities(self) -> list[int]:
        """The identities of the values, except for those known by their bits."""
        return [*self._arrays.keys(), *self._scalars]

    def __bool__(self) -> bool:
        return bool(self._arrays or self._scalars or self._bits)

    def __contains__(self, value: Any) -> bool:
        """Whether a raw value was read."""
        if isinstance(value, np.ndarray):
            return self._arrays.get(id(value)) is value
        if id(value) in self._scalars:  # which keeps it alive, so the number has not been given away
            return True
        return value.__class__ is float and np.float64(value).tobytes() in self._bits


class SeenTensors:
    """The tensors from outside that a traced call knows by names of its own, such as those of a closure.

    The traced call takes such a tensor and an argument for two tensors. But a call may give the tensor itself as an
    argument, and an eager tape then takes both for one.
    """

    __slots__ = ("_identities", "_refs", "_values")

    def __init__(self) -> None:
        # Of all noted tensors and values, also of dead ones: calls ask whether an argument may be one of them.
        self._identities: frozenset[int] = frozenset()
        self._refs: dict[int, weakref.ref[Tensor]] = {}  # by identity, weakly, because the call makes many constants
        self._values: SeenConstants | None = None  # the values of tensors that only a kernel showed

    def note(self, tensors: Iterable[Any]) -> None:
        """Note those of some tensors that are not traced."""
        for t in tensors:
            if t.__class__ is Tensor:
                self._refs[id(t)] = weakref.ref(t)

    def note_values(self, values: Any) -> None:
        """Note raw values, of tensors that are unknown."""
        if self._values is None:
            self._values = SeenConstants()
        self._values.note(values)

    def kept(self) -> SeenTensors | None:
        """These tensors without the dead ones; None if no tensor is left."""
        self._refs = {k: ref for k, ref in self._refs.items() if ref() is not None}
        self._values = self._values or None
        self._identities = frozenset([*self._refs, *(self._values.identities() if self._values else ())])
        return self if self._refs or self._values is not None else None

    def has_any_now(self, tensors: Sequence[Tensor]) -> bool:
        """As `has_any`, while the call is traced."""
        return any([self._has(t) for t in tensors])  # noqa: C419 - a list is quicker

    def has_any(self, tensors: Sequence[Tensor]) -> bool:
        """Whether one of some tensors was noted before `kept`."""
        known = self._identities
        for t in tensors:
            value = t._value
            if (id(t) in known or id(value) in known or value.__class__ is float) and self._has(t):
                return True
        return False

    def _has(self, t: Tensor) -> bool:
        ref = self._refs.get(id(t))
        return (ref is not None and ref() is t) or (self._values is not None and t._value in self._values)
