"""Optimizers: they change variables along the gradients of a tape."""

from __future__ import annotations

from typing import Any

from gtape.base.docstrings import documented_like
from gtape.base.shown import shown
from gtape.keras.lookup import described, restored
from gtape.keras.optimizers import schedules
from gtape.keras.optimizers.adam import Adam, Adamax, AdamW, Nadam
from gtape.keras.optimizers.adaptive import Adadelta, Adagrad, Ftrl, RMSprop
from gtape.keras.optimizers.base import Optimizer
from gtape.keras.optimizers.gradient_descent import SGD

__all__ = [
    "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Nadam", "Optimizer", "RMSprop", "deserialize",
    "get", "schedules", "serialize",
]  # fmt: skip

__dir__ = __all__.copy  # the names for `dir`, which sorts them


_KNOWN = {c.__name__.lower(): c for c in (SGD, Adadelta, Adagrad, Adam, AdamW, Adamax, Ftrl, Nadam, RMSprop)}


def get(identifier: Any) -> Optimizer:
    """An optimizer by its name.

    Parameters
    ----------
    identifier : str, dict or Optimizer
        The name of a class in lower or upper case, a result of `serialize`, or an optimizer, which is returned.

    Returns
    -------
    Optimizer

    Raises
    ------
    ValueError
        If `identifier` is anything else.

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


@documented_like(schedules.serialize)
def serialize(optimizer: Optimizer) -> dict[str, Any]:
    """The class and the settings of an optimizer as a dict, without its state.

    Parameters
    ----------
    optimizer : Optimizer

    Examples
    --------
    >>> tf.keras.optimizers.serialize(tf.keras.optimizers.SGD(0.5))["config"]["learning_rate"]
    0.5
    """
    return described(optimizer, "optimizers", Optimizer)


@documented_like(schedules.deserialize)
def deserialize(config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Optimizer:
    """The optimizer that a dict of `serialize` describes.

    Examples
    --------
    >>> settings = tf.keras.optimizers.serialize(tf.keras.optimizers.Adam(0.5))
    >>> float(tf.keras.optimizers.deserialize(settings).learning_rate)
    0.5
    """
    made: Optimizer = restored(config, _KNOWN, "an optimizer", "optimizers.deserialize", custom_objects, str.lower)
    return made
