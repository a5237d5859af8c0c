"""The arguments of a function's call with tensors in place of arrays, also in lists, tuples and dicts."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.tensors.tensor import convert_to_tensor

__all__ = ["ArrayArguments"]


class ArrayArguments:
    """Copies of the lists, tuples and dicts that hold arrays, for one call.

    A list without an array is the caller's own list. So a change of a copy has to reach the caller's list, too.
    """

    __slots__ = ("_copies", "_originals")

    def __init__(self) -> None:
        self._originals: dict[int, Any] = {}  # by the identities of the copies and tensors
        self._copies: dict[int, tuple[Any, Any, Any]] = {}  # by the identity of the original: it, the copy, its start

    def taken(self, x: Any) -> Any:
        """An argument with tensors in place of arrays; the same object without arrays."""
        if isinstance(x, np.ndarray):
            return self._kept(x, convert_to_tensor(x))
        named = isinstance(x, tuple) and hasattr(x, "_fields")
        if not named and x.__class__ not in (list, tuple, dict):
            return x
        if id(x) in self._copies:
            return self._copies[id(x)][1]
        if x.__class__ is dict:
            made: Any = {k: self.taken(y) for k, y in x.items()}
            if all([made[k] is x[k] for k in x]):  # noqa: C419 - a list is quicker
                return x
            return self._kept(x, made, dict(made))
        parts = [self.taken(y) for y in x]
        if all([a is b for a, b in zip(parts, x, strict=True)]):  # noqa: C419
            return x
        return self._kept(x, x.__class__(*parts) if named else x.__class__(parts), parts)

    def _kept(self, x: Any, made: Any, start: Any = None) -> Any:
        self._originals[id(made)] = x
        # An array that occurs twice is two tensors, as in TensorFlow; a list that occurs twice is one list.
        key = id(made if start is None else x)
        self._copies[key] = (x, made, start)
        return made

    def give_back(self) -> None:
        """Change the caller's lists and dicts as the call changed their copies."""
        for x, copy, start in [*self._copies.values()]:
            if copy.__class__ is list:
                if len(copy) != len(start) or any([a is not b for a, b in zip(copy, start, strict=True)]):  # noqa: C419
                    x[:] = [self._originals.get(id(y), y) for y in copy]
            elif copy.__class__ is dict and (
                [*copy] != [*start] or any([copy[k] is not start[k] for k in copy])  # noqa: C419
            ):
                changed = {k: self._originals.get(id(y), y) for k, y in copy.items()}
                x.clear()
                x.update(changed)
