"""The mirrors. A mirror's folder and file have the names of its primitive's in gtape/ops; see `registry`."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from gtape.declare.registry import REGISTRY
from gtape.symbolic.mirrors.registry import ARRAYS, SCALARS

__all__ = ["has_mirror", "load", "place", "without_mirror"]


def place(module: str) -> str:
    """The name of the module with the mirrors of the primitives that `module` declares."""
    return f"{__name__}.{module.removeprefix('gtape.').removeprefix('ops.')}"


def has_mirror(name: str) -> bool:
    """Whether the primitive `name` has a mirror. Imports its file."""
    if name not in SCALARS and name not in ARRAYS and name in REGISTRY:
        home = place(REGISTRY[name].module)
        try:
            import_module(home)
        except ModuleNotFoundError as error:  # an op declared outside of gtape has its mirror there, too
            if not f"{home}.".startswith(f"{error.name}."):
                raise
    return name in SCALARS or name in ARRAYS


def without_mirror(name: str) -> str:
    """The error for an op without a mirror, with the remedy."""
    return f"{name} has no mirror (declare one with gtape.declare.mirror({name!r}, f))"


@cache  # because each walk lists all folders, and every exact partial needs the tables
def load() -> None:
    """Import every file of mirrors, which completes the tables."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        import_module(module.name)
