"""Names and configs: `activation="relu"` becomes a function, a config an object, and an object a config."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

from gtape.base.escaping import plain
from gtape.base.shown import shown
from gtape.tensors.argument_checks import settings

__all__ = ["Configured", "FromConfig", "by_name", "described", "made_from", "restored"]


class FromConfig:
    """Base of classes whose `get_config` returns arguments of the constructor."""

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """An object with these settings, without values of variables."""
        made: Self = made_from(cls, config)
        return made


class Configured(FromConfig):
    """Base of objects whose settings are attributes. `options` lists the constructor's arguments."""

    options: tuple[str, ...] = ()

    def get_config(self) -> dict[str, Any]:
        """The settings, as the constructor takes them."""
        return {k: getattr(self, k) for k in self.options}


def by_name(identifier: Any, known: dict[str, Any], what: str, make: bool) -> Callable[..., Any]:
    """The function or object for a name, for ``{"class_name": name, "config": settings}``, or for a callable.

    `known` has functions and classes by name, `make` turns classes into objects, and `what` names the kind in errors.

    Parameters
    ----------
    identifier : str, dict, callable or None
        Callables and None are returned unchanged.

    Returns
    -------
    callable or None

    Raises
    ------
    ValueError
        For an unknown name.
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


def restored(config: Any, known: dict[str, Any], what: str, owner: str, custom_objects: Any, key: Any = str) -> Any:
    """The object that `described` describes. Its class is in `known` or `custom_objects`, with the key ``key(name)``.

    Raises TypeError for a `config` that `described` never returns, or if `custom_objects` is not a dict of classes.
    Raises ValueError for an unknown class. The errors contain the strings `what` (with an article) and `owner`.
    """
    if not isinstance(config, Mapping) or not isinstance(config.get("class_name"), str):
        raise TypeError(
            f"Could not parse config: {shown(config)}; {what} is described by a dict with the name of its class under "
            "'class_name' and its settings under 'config'"
        )
    name: str = config["class_name"]
    given = settings(name, config.get("config") or {})
    own = {} if custom_objects is None else custom_objects
    if not isinstance(own, Mapping) or not all(
        isinstance(k, str) and hasattr(c, "from_config") for k, c in own.items()
    ):
        raise TypeError(
            f"{owner}: `custom_objects` must be a dict of classes with `from_config`, by their names. Received: "
            f"custom_objects={shown(custom_objects)}"
        )
    classes = {**known, **{key(k): c for k, c in own.items()}}
    if key(name) not in classes:
        raise ValueError(f"Unknown {what.partition(' ')[2]} {name!r}; pass its class in `custom_objects`")
    return classes[key(name)].from_config(given)


def made_from(cls: Any, config: Any) -> Any:
    """An object of a class with the settings of its `get_config`. TypeError if the class does not take the settings."""
    given = settings(cls, config)
    if given and cls.__init__ is object.__init__:
        raise TypeError(f"{cls.__name__} takes no settings, but `config` has {', '.join(map(plain, given))}")
    odd = next((k for k in given if not k.isidentifier()), None)
    if odd is not None:  # before the call, because Python's error shows the name unescaped
        raise TypeError(f"{cls.__name__} takes no setting of the name {odd!r}, which `config` has")
    return cls(**given)


def described(thing: Any, module: str, kind: Any) -> dict[str, Any]:
    """An object's class and settings as plain data in Keras's format. TypeError for an object of another kind."""
    if not isinstance(thing, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise TypeError(f"gtape.keras.{module}.serialize takes {article} {kind.__name__}, not {shown(thing)}")
    named = {"module": f"keras.{module}", "class_name": type(thing).__name__, "registered_name": None}
    return {**named, "config": thing.get_config()}
