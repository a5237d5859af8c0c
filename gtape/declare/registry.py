"""All primitives by name, and the constants that rules may use beside integers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gtape.base import late
from gtape.base.locks import Lock

if TYPE_CHECKING:
    from gtape.declare.primitive import Primitive

__all__ = ["CONSTANTS", "REGISTRY"]


class _Registry(dict[str, "Primitive"]):
    """All primitives by name.

    Asking for one imports the module that declares it; asking for all imports every ops module. All come in the order
    of their modules' names, because the order of imports depends on what a program used first.
    """

    complete = False
    _loading = False

    def __init__(self) -> None:
        self._lock = Lock(self._load_again)

    def _load_again(self) -> None:
        """In a forked child, where the thread that was loading is missing."""
        self._loading = False

    def load(self) -> None:
        """Import every ops module; threads that ask meanwhile wait for it."""
        if self.complete:
            return
        with self._lock:
            if not (self.complete or self._loading):  # what is being loaded may look for what is there already
                self._loading = True
                try:
                    late.load_ops()
                    self.complete = True
                finally:
                    self._loading = False

    def __missing__(self, name: str) -> Primitive:
        if not (self.complete or self._loading):
            late.load_ops(name)
            if dict.__contains__(self, name):
                return dict.__getitem__(self, name)
            self.load()
        found = dict.get(self, name)
        if found is None:
            raise KeyError(name)
        return found

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def _all(self) -> list[tuple[str, Primitive]]:
        self.load()
        return sorted(dict.items(self), key=lambda item: item[1].module)

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self._all()])

    def __len__(self) -> int:
        self.load()
        return super().__len__()

    def keys(self) -> Any:
        return [name for name, _ in self._all()]

    def values(self) -> Any:
        return [prim for _, prim in self._all()]

    def items(self) -> Any:
        return self._all()


REGISTRY = _Registry()

CONSTANTS: dict[str, float] = {
    "pi": math.pi,
    "ln2": math.log(2.0),
    "ln10": math.log(10.0),
    "sqrt2": math.sqrt(2.0),
    "two_over_sqrt_pi": 2.0 / math.sqrt(math.pi),
}
