"""Helpers for training scripts."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.base.shown import shown
from gtape.errors import ResourceExhaustedError
from gtape.tensors import argument_checks as checks
from gtape.tensors.tensor import Tensor, wrap

__all__ = ["normalize", "pack_x_y_sample_weight", "set_random_seed", "to_categorical", "unpack_x_y_sample_weight"]

__dir__ = __all__.copy  # the names for `dir`, which sorts them


def set_random_seed(seed: int) -> None:
    """Make a run repeatable: seed Python's `random`, NumPy's old generator and `gtape.random`.

    Layers and initializers without a seed repeat too, because they take their seeds from Python's `random`.

    Parameters
    ----------
    seed : int
        An integer from 0 to 2**32 - 1.

    Returns
    -------
    None

    Raises
    ------
    ValueError
        If `seed` is another value.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.utils.set_random_seed(1)
    >>> one = tf.keras.layers.Dense(2)(tf.ones([1, 3])).numpy()
    >>> tf.keras.utils.set_random_seed(1)
    >>> other = tf.keras.layers.Dense(2)(tf.ones([1, 3])).numpy()
    >>> bool((one == other).all())
    True
    """
    from gtape import random as draws

    if not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**32:
        raise ValueError(
            f"Expected `seed` argument to be an integer from 0 up to 2**32. Received: seed={shown(seed)} (of "
            f"type {type(seed)})"
        )
    seed = int(seed)
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - scripts may use NumPy's old functions
    draws.set_seed(seed)


@diagnosed
def to_categorical(x: Any, num_classes: int | None = None) -> Any:
    """Class numbers as one-hot rows.

    Parameters
    ----------
    x : array or tensor of integers
        A last axis of size 1 is removed.
    num_classes : int, optional
        The greatest number plus 1 by default.

    Returns
    -------
    ndarray, or Tensor for a tensor; float32

    Raises
    ------
    ValueError
        If `x` holds other values than class numbers.
    gtape.errors.ResourceExhaustedError
        If the result does not fit in memory.

    Examples
    --------
    >>> tf.keras.utils.to_categorical([0, 2])
    array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    numbers = checks.numeric("to_categorical", "x", x)
    if numbers.dtype.kind == "c" or (numbers.size and not (np.abs(numbers.astype(np.float64)) < 2**31).all()):
        raise ValueError(f"to_categorical: `x` must be numbers of classes. Received: x={shown(x)}")
    numbers = numbers.astype(np.int64)
    if numbers.ndim > 1 and numbers.shape[-1] == 1:
        numbers = numbers[..., 0]
    least = int(numbers.max()) + 1 if numbers.size else 0
    classes = least if num_classes is None else checks.whole("to_categorical", "num_classes", num_classes, least=0)
    if numbers.size * classes > 2**40:
        raise ResourceExhaustedError(f"to_categorical: there is no memory for {numbers.size} rows of {classes} classes")
    try:
        rows = (numbers[..., None] == np.arange(classes)).astype(np.float32)
    except MemoryError:
        raise ResourceExhaustedError(f"to_categorical: there is no memory for rows of {classes} classes") from None
    return wrap(rows) if isinstance(x, Tensor) else rows


def normalize(x: Any, axis: int = -1, order: int = 2) -> Any:
    """Vectors scaled to length 1; zero vectors are unchanged.

    Parameters
    ----------
    x : array or tensor
    axis : int
        The axis of the vectors.
    order : int
        The order of the norm.

    Returns
    -------
    array or tensor, as `x`

    Raises
    ------
    ValueError
        If `x` holds other values than numbers, or `axis` is out of range.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.utils.normalize(tf.constant([[3.0, 4.0]]).numpy())
    array([[0.6, 0.8]], dtype=float32)
    """
    values = np.atleast_1d(checks.numeric("normalize", "x", checks.tensor("normalize", "x", x)))
    axis = checks.whole("normalize", "axis", axis)
    power = checks.number("normalize", "order", order)
    if not -values.ndim <= axis < values.ndim:
        raise ValueError(f"normalize: `axis` must be in [{-values.ndim}, {values.ndim}). Received: axis={axis}")
    with np.errstate(all="ignore"):  # because numbers may be infinite
        length = np.linalg.norm(values, power, axis, keepdims=True)
        made = values / np.where(length == 0, np.ones_like(length), length)
    return wrap(made) if isinstance(x, Tensor) else made


def pack_x_y_sample_weight(x: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """A batch for `train_step`: the inputs alone, or a tuple with labels and weights.

    Parameters
    ----------
    x : tensor or structure of tensors
    y, sample_weight : tensor or structure of tensors, optional

    Returns
    -------
    tensor or tuple

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.utils.pack_x_y_sample_weight("x"), tf.keras.utils.pack_x_y_sample_weight("x", "y")
    ('x', ('x', 'y'))
    """
    if sample_weight is not None:
        return (x, y, sample_weight)
    if y is not None:
        return (x, y)
    return (x,) if isinstance(x, (list, tuple)) else x


def unpack_x_y_sample_weight(data: Any) -> tuple[Any, Any, Any]:
    """Inputs, labels and weights of a batch; missing parts are None.

    Parameters
    ----------
    data : tensor, or tuple of one to three

    Returns
    -------
    tuple of three

    Raises
    ------
    ValueError
        If the tuple is longer.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.utils.unpack_x_y_sample_weight(("x", "y"))
    ('x', 'y', None)
    """
    if isinstance(data, list):
        data = tuple(data)
    if not isinstance(data, tuple):
        return data, None, None
    if not 1 <= len(data) <= 3:
        raise ValueError(
            f"Data is expected to be in format `x`, `(x,)`, `(x, y)`, or `(x, y, sample_weight)`: {shown(data)}"
        )
    x, y, sample_weight = (*data, None, None)[:3]
    return x, y, sample_weight
