"""Settings of `gtape.keras`: the default float type, and the small number in its losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.shown import shown
from gtape.tensors import argument_checks as checks

__all__ = ["clear_session", "epsilon", "floatx", "set_epsilon", "set_floatx"]

__dir__ = __all__.copy  # the names for `dir`, which sorts them


_SETTINGS: dict[str, Any] = {"floatx": "float32", "epsilon": 1e-7}
_COUNTS: dict[str, int] = {}


def floatx() -> str:
    """The name of the float type of new layers.

    Returns
    -------
    str

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.backend.floatx()
    'float32'
    """
    return str(_SETTINGS["floatx"])


def set_floatx(value: str) -> None:
    """Set the float type of new layers: ``"float16"``, ``"float32"`` or ``"float64"``.

    Parameters
    ----------
    value : str

    Returns
    -------
    None

    Raises
    ------
    ValueError
        For any other value.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.backend.set_floatx("float64")
    >>> tf.keras.layers.Dense(1).dtype
    'float64'
    >>> tf.keras.backend.set_floatx("float32")
    """
    if not isinstance(value, str) or value not in ("float16", "float32", "float64"):
        raise ValueError(f"Unknown `floatx` value: {shown(value)}. Expected one of 'float16', 'float32', 'float64'")
    _SETTINGS["floatx"] = value


def epsilon() -> float:
    """The small number that keeps losses of probabilities finite.

    Returns
    -------
    float

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.backend.epsilon()
    1e-07
    """
    return float(_SETTINGS["epsilon"])


def set_epsilon(value: float) -> None:
    """Set the small number that keeps losses of probabilities finite.

    Parameters
    ----------
    value : float

    Returns
    -------
    None

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.backend.set_epsilon(1e-5)
    >>> tf.keras.backend.epsilon()
    1e-05
    >>> tf.keras.backend.set_epsilon(1e-7)
    """
    _SETTINGS["epsilon"] = float(checks.number("set_epsilon", "value", value))


def clear_session(free_memory: bool = True) -> None:
    """Restart the numbering of layer names.

    Parameters
    ----------
    free_memory : bool
        Ignored; Keras has it.

    Returns
    -------
    None

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.backend.clear_session()
    >>> tf.keras.layers.Dense(1).name, tf.keras.layers.Dense(1).name
    ('dense', 'dense_1')
    """
    _COUNTS.clear()


def unique_name(prefix: str) -> str:
    """An unused name: the prefix, or the prefix with a number."""
    n = _COUNTS.get(prefix, 0)
    _COUNTS[prefix] = n + 1
    return f"{prefix}_{n}" if n else prefix


def float_dtype(dtype: Any = None) -> np.dtype[Any]:
    """The NumPy dtype; `floatx` by default."""
    return checks.dtype("gtape.keras", floatx() if dtype is None else dtype)
