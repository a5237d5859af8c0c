"""``--load``: imports a module that declares ops, before a command looks for them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from gtape.verify.command.output import Usage

__all__ = ["load"]


def load(module: str, *, option: str = "--load ") -> None:
    """Import a module by its name, first from the working folder, or by the path of its file.

    A file is imported under its own name from its own folder, so that witnesses and other processes import it, too.

    Parameters
    ----------
    module : str
    option : str, keyword only
        What to name in front of the module in errors.

    Raises
    ------
    Usage
        If the module does not exist, or its code raises.
    """
    path = Path(module)
    name, folder = (path.stem, path.resolve().parent) if path.suffix == ".py" else (module, Path.cwd())
    if path.suffix == ".py" and not path.is_file():
        raise Usage(f"{option}{module}: there is no such file")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        found = importlib.import_module(name)
    except Exception as e:
        raise Usage(f"{option}{module}: {type(e).__name__}: {e}") from e
    file = getattr(found, "__file__", None)
    if path.suffix == ".py" and (file is None or Path(file).resolve() != path.resolve()):
        raise Usage(f"{option}{module}: another module is named {name} ({file or 'built in'}): rename the file")
