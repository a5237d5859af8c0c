"""``--load``: imports a module that declares ops, before a command looks for them."""

from __future__ import annotations

from gtape.verify.command.output import Usage
from gtape.verify.search.loading import NotLoaded, imported

__all__ = ["load"]


def load(module: str, *, option: str = "--load ") -> None:
    """Import a module by its name, first from the working folder, or by the path of its file.

    Parameters
    ----------
    module : str
    option : str, keyword only
        The option that errors name in front of the module.

    Raises
    ------
    Usage
        If the module does not exist, or its code raises.
    """
    try:
        imported(module)
    except NotLoaded as e:
        raise Usage(f"{option}{module}: {e}") from e
