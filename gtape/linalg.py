"""``gtape.linalg``: products, factorisations and norms of matrices, under TensorFlow's names."""

from __future__ import annotations

from typing import Any

from gtape.namespaces.catalogue import resolve
from gtape.namespaces.listing import listed

_ALIASES: dict[str, str] = {}
# Functions of other namespaces that TensorFlow has here, too.
_SHARED = frozenset({"eye", "l2_normalize"})


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    value = resolve(name) if name in _SHARED else resolve(_ALIASES.get(name, name), "linalg", known=__dir__)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return listed("linalg", {*_ALIASES, *_SHARED})
