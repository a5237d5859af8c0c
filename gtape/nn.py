"""``gtape.nn``: activations, losses and lookups of neural networks, under TensorFlow's names."""

from __future__ import annotations

from typing import Any

from gtape.namespaces.catalogue import resolve
from gtape.namespaces.listing import listed

_ALIASES = {"swish": "silu"}
# Elementary functions that TensorFlow has here, too.
_SHARED = frozenset({"tanh"})


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    value = resolve(name) if name in _SHARED else resolve(_ALIASES.get(name, name), "nn", known=__dir__)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return listed("nn", {*_ALIASES, *_SHARED})
