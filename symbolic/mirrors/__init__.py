"""The mirrors: each lies in the folder and file that its primitive has in gtape/ops, and is declared in `registry`."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from gtape.declare.registry import REGISTRY
from gtape.symbolic.mirrors.registry import ARRAYS, SCALARS

__all__ = ["has_mirror", "load", "place"]


def place(module: str) -> str:
    """The name of the module that has the mirrors of the primitives that another module declares."""
    return f"{__name__}.{module.removeprefix('gtape.').removeprefix('ops.')}"


def has_mirror(name: str) -> bool:
    """Whether the primitive `name` has a mirror; the file with it is imported."""
    if name not in SCALARS and name not in ARRAYS and name in REGISTRY:
        home = place(REGISTRY[name].module)
        try:
            import_module(home)
        except ModuleNotFoundError as error:  # declared elsewhere: then its mirror is, too
            if not f"{home}.".startswith(f"{error.name}."):
                raise
    return name in SCALARS or name in ARRAYS


def load() -> None:
    """Import every file of mirrors, so that the tables are complete."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        import_module(module.name)
