"""The mirrors, one file for each family of ops; `load` reads them all into the tables of `registry`."""

from __future__ import annotations

import pkgutil
from importlib import import_module

__all__ = ["has_mirror", "load"]


def has_mirror(name: str) -> bool:
    """Whether the primitive `name` has a mirror."""
    from gtape.symbolic.mirrors.registry import ARRAYS, SCALARS

    if name not in SCALARS and name not in ARRAYS:
        load()
    return name in SCALARS or name in ARRAYS or name in _NATIVE


# The worlds of object arrays have these themselves.
_NATIVE = frozenset({"add", "subtract", "multiply", "divide", "negative", "matmul", "where"})


def load() -> None:
    """Import every file of mirrors, so that the tables are complete."""
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith("_"):
            import_module(f"{__name__}.{module.name}")
