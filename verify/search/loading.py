"""Imports modules that a user names on the command line."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

__all__ = ["NotLoaded", "imported", "module_name"]


class NotLoaded(ValueError):
    """A module does not exist, or its code raises."""


def module_name(module: str) -> str:
    """The name under which `imported` imports a module.

    Examples
    --------
    >>> from gtape.verify.search.loading import module_name
    >>> module_name("folder/losses.py"), module_name("package.losses")
    ('losses', 'package.losses')
    """
    path = Path(module)
    return path.stem if path.suffix == ".py" else module


def imported(module: str) -> ModuleType:
    """Import a module by its name, first from the working folder, or by the path of its file.

    A file is imported under its own name from its own folder, so that witnesses and other processes import it, too.

    Raises
    ------
    NotLoaded
    """
    path = Path(module)
    name, folder = (path.stem, path.resolve().parent) if path.suffix == ".py" else (module, Path.cwd())
    if path.suffix == ".py" and not path.is_file():
        raise NotLoaded("there is no such file")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        found = importlib.import_module(name)
    except Exception as e:
        raise NotLoaded(f"{type(e).__name__}: {e}") from e
    file = getattr(found, "__file__", None)
    if path.suffix == ".py" and (file is None or Path(file).resolve() != path.resolve()):
        raise NotLoaded(f"another module is named {name} ({file or 'built in'}): rename the file")
    return found
