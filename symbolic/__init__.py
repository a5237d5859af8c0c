"""The mirror of every op in SymPy, and the worlds in which mirrors and rules run: SymPy, enclosures (balls), jets."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "BallWorld": "worlds",
    "Program": "program",
    "JetWorld": "worlds",
    "SymPyWorld": "worlds",
    "Undecided": "balls",
    "digits": "balls",
    "precision": "balls",
    "radius": "balls",
    "to_double_double": "balls",
    "to_float": "balls",
    "trace": "tracing",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return __all__
