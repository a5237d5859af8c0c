"""``gtape.nn``: activations, losses and lookups of neural networks, under TensorFlow's names."""

from __future__ import annotations

from typing import Any

from gtape.catalogue import names_in, resolve

__all__: list[str] = []

_ALIASES = {"swish": "silu"}
# Elementary functions that TensorFlow has here, too.
_SHARED = frozenset({"tanh"})


def __getattr__(name: str) -> Any:
    value = resolve(name) if name in _SHARED else resolve(_ALIASES.get(name, name), "nn")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*names_in("nn"), *_ALIASES, *_SHARED})
