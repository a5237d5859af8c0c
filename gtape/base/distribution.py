"""TensorFlow's policies for copies of a variable on several devices. gtape stores them, because it has one device."""

from __future__ import annotations

from enum import Enum
from typing import Any

from gtape.base.escaping import plain

__all__ = ["VariableAggregation", "VariableSynchronization"]


class VariableSynchronization(Enum):
    """The policies for synchronising copies of a variable on several devices.

    Examples
    --------
    >>> import gtape as tf
    >>> v = tf.Variable(1.0, synchronization=tf.VariableSynchronization.ON_READ)
    >>> v.synchronization.name
    'ON_READ'
    """

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


class VariableAggregation(Enum):
    """The policies for combining copies of a variable on several devices.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.Variable(1.0).aggregation.name
    'NONE'
    """

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3


def policies(synchronization: Any, aggregation: Any, name: str | None) -> tuple[Enum, Enum]:
    """Both policies as members, from members or from names such as Keras's "sum". None stands for the defaults.

    Raises a ValueError with the variable's name for an unknown member.

    >>> [policy.name for policy in policies(None, "mean", "w")]
    ['AUTO', 'MEAN']
    """
    return (
        _member(VariableSynchronization, "synchronization", synchronization, name),
        _member(VariableAggregation, "aggregation", aggregation, name),
    )


def _member(kind: type[Enum], what: str, given: Any, name: str | None) -> Enum:
    if given is None:
        return next(iter(kind))
    if isinstance(given, str) and given.upper() in kind.__members__:
        return kind[given.upper()]
    if not isinstance(given, kind):
        raise ValueError(
            f"Invalid variable {what} mode: {plain(given)} for variable: {plain(name)}; the modes are those of "
            f"gtape.{kind.__name__}"
        )
    return given
