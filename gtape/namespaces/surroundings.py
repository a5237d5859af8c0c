"""Functions that describe a script's surroundings: the logger, the time, the current scope."""

from __future__ import annotations

import logging
import time
from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.recording.record import refuse_in_traced_calls
from gtape.tensors.tensor import Tensor, wrap
from gtape.tensors.variable import SCOPE

__all__ = ["get_current_name_scope", "get_logger", "inside_function", "is_symbolic_tensor", "timestamp"]


@diagnosed
def get_logger() -> logging.Logger:
    """The logger of gtape's warnings, for example about tensors that cannot be watched.

    Examples
    --------
    >>> tf.get_logger().name
    'gtape'
    """
    return logging.getLogger("gtape")


@diagnosed
def timestamp(name: str | None = None) -> Tensor:
    """The seconds since 1970.

    Returns
    -------
    Tensor of float64

    Examples
    --------
    >>> start = tf.timestamp()
    >>> bool(tf.timestamp() >= start)
    True
    """
    refuse_in_traced_calls("reads the clock")
    return wrap(np.float64(time.time()))


@diagnosed
def get_current_name_scope() -> str:
    """The prefix that `name_scope` gives to the names of new variables, without the last slash.

    Examples
    --------
    >>> with tf.name_scope("encoder"):
    ...     print(tf.get_current_name_scope())
    encoder
    """
    return SCOPE.get().removesuffix("/")


@diagnosed
def inside_function() -> bool:
    """False, because functions run as plain Python and are not traced into graphs.

    Examples
    --------
    >>> tf.inside_function()
    False
    """
    return False


@diagnosed
def is_symbolic_tensor(tensor: Any) -> bool:
    """Whether a tensor has no value. Only symbolic tensors of Keras models have no value.

    Parameters
    ----------
    tensor : object

    Examples
    --------
    >>> tf.is_symbolic_tensor(tf.constant(1.0)), tf.is_symbolic_tensor(tf.keras.Input((2,)))
    (False, True)
    """
    return type(tensor).__name__ == "KerasTensor"
