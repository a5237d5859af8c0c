"""How names become functions: `activation="relu"`, `kernel_initializer="he_normal"` and so on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["by_name", "described"]


def by_name(identifier: Any, known: dict[str, Any], what: str, make: bool) -> Callable[..., Any]:
    """What an identifier stands for.

    Parameters
    ----------
    identifier : str, dict or callable
        A name; ``{"class_name": name, "config": settings}``; or the thing itself.
    known : dict
        Functions or classes by name.
    what : str
        For the error: "activation function", "initializer".
    make : bool
        Whether classes are to be called.

    Raises
    ------
    ValueError
        For a name that is not known, or another type.
    """
    settings: dict[str, Any] = {}
    found = identifier
    if isinstance(identifier, dict) and "class_name" in identifier:
        settings = dict(identifier.get("config") or {})
        found = known.get(identifier["class_name"])
    elif isinstance(identifier, str):
        found = known.get(identifier)
    if not callable(found):
        names = sorted(n for n in known if n.islower())
        raise ValueError(f"Could not interpret {what} identifier: {identifier!r}; the names are {', '.join(names)}")
    result: Callable[..., Any] = found(**settings) if make and isinstance(found, type) else found
    return result


def described(thing: Any, module: str) -> dict[str, Any]:
    """An object's class and settings as plain data, in Keras's words."""
    return {
        "module": f"keras.{module}",
        "class_name": type(thing).__name__,
        "config": thing.get_config(),
        "registered_name": None,
    }
