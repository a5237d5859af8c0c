"""``gtape.linalg``: products, factorisations and norms of matrices, under TensorFlow's names."""

from __future__ import annotations

from typing import Any

from gtape.catalogue import names_in, resolve

__all__: list[str] = []

_ALIASES: dict[str, str] = {}
# Functions of other namespaces that TensorFlow has here, too.
_SHARED = frozenset({"eye", "l2_normalize"})


def __getattr__(name: str) -> Any:
    value = resolve(name) if name in _SHARED else resolve(_ALIASES.get(name, name), "linalg")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*names_in("linalg"), *_ALIASES, *_SHARED})
