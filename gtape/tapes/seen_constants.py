"""The values that a traced call read without being traced: a tensor that holds one of them may be a constant of it.

The values are known by identity, because a tensor keeps its value as long as it lives. A Python float that an op gave
to a kernel as a NumPy scalar is known by its bits.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from gtape.tensors.tensor import Tensor

__all__ = ["SeenConstants"]


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

    def __contains__(self, value: Any) -> bool:
        """Whether a raw value was read."""
        if isinstance(value, np.ndarray):
            return self._arrays.get(id(value)) is value
        if id(value) in self._scalars:  # which keeps it alive, so the number has not been given away
            return True
        return value.__class__ is float and np.float64(value).tobytes() in self._bits
