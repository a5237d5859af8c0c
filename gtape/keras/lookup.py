"""How names become functions: `activation="relu"`, `kernel_initializer="he_normal"` and so on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gtape.base.shown import shown
from gtape.tensors.argument_checks import settings

__all__ = ["by_name", "class_and_config", "classes_by_name", "described", "made_from"]


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
        For a name that is not known, settings that its class does not take, or another type.
    """
    config: dict[str, Any] = {}
    found = identifier
    if isinstance(identifier, dict):
        name, given = identifier.get("class_name"), identifier.get("config")
        found = known.get(str(name)) if isinstance(name, str) else None
        if callable(found) and given is not None:
            config = settings(name, given)
    elif isinstance(identifier, str):
        found = known.get(str(identifier))
    if callable(found) and make and isinstance(found, type):
        try:
            found = found(**config)
        except TypeError as e:
            raise ValueError(f"Could not interpret {what} identifier: {shown(identifier)}, because {e}") from None
    if not callable(found):
        names = sorted(n for n in known if n.islower())
        raise ValueError(
            f"Could not interpret {what} identifier: {shown(identifier)}; the names are {', '.join(names)}"
        )
    result: Callable[..., Any] = found
    return result


def class_and_config(config: Any, what: str) -> tuple[str, dict[str, Any]]:
    """The name of a class and its settings, from what `described` made.

    Raises
    ------
    TypeError
        For something that is no such dict.
    """
    if not isinstance(config, Mapping) or not isinstance(config.get("class_name"), str):
        raise TypeError(
            f"Could not parse config: {shown(config)}; {what} is described by a dict with the name of its class under "
            "'class_name' and its settings under 'config'"
        )
    name: str = config["class_name"]
    return name, settings(name, config.get("config") or {})


def classes_by_name(owner: str, custom_objects: Any) -> dict[str, Any]:
    """The classes that `deserialize` is to know besides gtape's own.

    Raises
    ------
    TypeError
        For something that is no dict of classes with `from_config`.
    """
    known = {} if custom_objects is None else custom_objects
    fits = isinstance(known, Mapping) and all(
        isinstance(k, str) and hasattr(c, "from_config") for k, c in known.items()
    )
    if not fits:
        raise TypeError(
            f"{owner}: `custom_objects` must be a dict of classes with `from_config`, by their names. Received: "
            f"custom_objects={shown(custom_objects)}"
        )
    return dict(known)


def made_from(cls: Any, config: Any) -> Any:
    """An object of a class with settings that its `get_config` gave.

    Raises
    ------
    TypeError
        For settings that the class does not take.
    """
    given = settings(cls, config)
    if given and cls.__init__ is object.__init__:
        raise TypeError(f"{cls.__name__} takes no settings, but `config` has {', '.join(given)}")
    return cls(**given)


def described(thing: Any, module: str, kind: Any) -> dict[str, Any]:
    """An object's class and settings as plain data, in Keras's words.

    Raises
    ------
    TypeError
        For something of another kind.
    """
    if not isinstance(thing, kind):
        raise TypeError(f"gtape.keras.{module}.serialize takes a {kind.__name__}, not {shown(thing)}")
    return {
        "module": f"keras.{module}",
        "class_name": type(thing).__name__,
        "config": thing.get_config(),
        "registered_name": None,
    }
