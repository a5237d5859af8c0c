"""The optimizers: what is done with gradients once a tape has them."""

from __future__ import annotations

from typing import Any

from gtape.base.shown import shown
from gtape.keras.lookup import class_and_config, classes_by_name, described
from gtape.keras.optimizers import schedules
from gtape.keras.optimizers.adam import Adam, Adamax, AdamW, Nadam
from gtape.keras.optimizers.adaptive import Adadelta, Adagrad, Ftrl, RMSprop
from gtape.keras.optimizers.base import Optimizer
from gtape.keras.optimizers.gradient_descent import SGD

__all__ = [
    "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Nadam", "Optimizer", "RMSprop", "deserialize",
    "get", "schedules", "serialize",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


_KNOWN = {c.__name__.lower(): c for c in (SGD, Adadelta, Adagrad, Adam, AdamW, Adamax, Ftrl, Nadam, RMSprop)}


def get(identifier: Any) -> Optimizer:
    """An optimizer by its name.

    Parameters
    ----------
    identifier : str, dict or Optimizer
        A class's name in any case, what `serialize` gave, or an optimizer, which is returned.

    Returns
    -------
    Optimizer

    Raises
    ------
    ValueError
        For anything else.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.optimizers.get("adam").name
    'adam'
    """
    if isinstance(identifier, Optimizer):
        return identifier
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if isinstance(identifier, str) and identifier.lower() in _KNOWN:
        made: Optimizer = _KNOWN[identifier.lower()]()
        return made
    raise ValueError(f"Could not interpret optimizer identifier: {shown(identifier)}; known are {sorted(_KNOWN)}")


def serialize(optimizer: Optimizer) -> dict[str, Any]:
    """An optimizer's class and settings as a dict; its state is not in it.

    Parameters
    ----------
    optimizer : Optimizer

    Returns
    -------
    dict

    Raises
    ------
    TypeError
        For something that is no optimizer.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.optimizers.serialize(tf.keras.optimizers.SGD(0.5))["config"]["learning_rate"]
    0.5
    """
    return described(optimizer, "optimizers", Optimizer)


def deserialize(config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Optimizer:
    """The optimizer that `serialize` described.

    Parameters
    ----------
    config : dict
        With ``class_name`` and ``config``.
    custom_objects : dict, optional
        Classes of your own, by name.

    Returns
    -------
    Optimizer

    Raises
    ------
    ValueError
        For a class that is not known.
    TypeError
        For a `config` that is no such dict.

    Examples
    --------
    >>> import gtape as tf
    >>> settings = tf.keras.optimizers.serialize(tf.keras.optimizers.Adam(0.5))
    >>> float(tf.keras.optimizers.deserialize(settings).learning_rate)
    0.5
    """
    name, settings = class_and_config(config, "an optimizer")
    own = classes_by_name("optimizers.deserialize", custom_objects)
    known: dict[str, Any] = {**_KNOWN, **{k.lower(): c for k, c in own.items()}}
    if name.lower() not in known:
        raise ValueError(f"Unknown optimizer {name!r}; pass its class in `custom_objects`")
    made: Optimizer = known[name.lower()].from_config(settings)
    return made
