"""What weights must satisfy after a step of an optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gtape
from gtape.keras.backend import epsilon
from gtape.keras.lookup import by_name
from gtape.tensors import argument_checks as checks
from gtape.tensors.tensor import Tensor

__all__ = ["Constraint", "MaxNorm", "NonNeg", "UnitNorm", "get"]


def __dir__() -> list[str]:
    return sorted(__all__)


class Constraint:
    """Base class: a function from a weight to one that is allowed.

    Examples
    --------
    >>> import gtape as tf
    >>> class Centred(tf.keras.constraints.Constraint):
    ...     def __call__(self, w):
    ...         return w - tf.reduce_mean(w)
    >>> v = tf.Variable([1.0, 3.0], constraint=Centred())
    >>> int(tf.keras.optimizers.SGD(1.0).apply_gradients([(tf.constant([0.0, 0.0]), v)]))
    1
    >>> v.numpy()
    array([-1.,  1.], dtype=float32)
    """

    options: tuple[str, ...] = ()

    def __call__(self, w: Any) -> Any:
        """An allowed weight of the same shape."""
        return w

    def get_config(self) -> dict[str, Any]:
        """The settings, as the constructor takes them."""
        return {k: getattr(self, k) for k in self.options}


def _length(w: Any, axis: Any) -> Any:
    return gtape.linalg.norm(w, axis=axis, keepdims=True)


def _axes(owner: Any, axis: Any) -> Any:
    several = isinstance(axis, (list, tuple))
    return (
        axis
        if axis is None
        else [checks.whole(owner, "axis", a) for a in axis]
        if several
        else checks.whole(owner, "axis", axis)
    )


class MaxNorm(Constraint):
    """Scale columns down to a greatest length.

    Parameters
    ----------
    max_value : float
    axis : int or sequence of int
        Along which lengths are taken: 0 for the kernel of a `Dense` layer, ``[0, 1, 2]`` for that of a `Conv2D`.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.constraints.MaxNorm(1.0)(tf.constant([[3.0], [4.0]])).numpy().round(4).tolist()
    [[0.6000000238418579], [0.800000011920929]]
    """

    options = ("max_value", "axis")

    def __init__(self, max_value: float = 2.0, axis: Any = 0) -> None:
        self.max_value, self.axis = checks.number(self, "max_value", max_value), _axes(self, axis)

    def __call__(self, w: Any) -> Tensor:
        w = checks.tensor(self, "w", w)
        norms = _length(w, self.axis)
        return w * (gtape.clip_by_value(norms, 0.0, self.max_value) / (norms + epsilon()))  # type: ignore[no-any-return]


class NonNeg(Constraint):
    """Put 0 in the place of negative weights.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.constraints.NonNeg()(tf.constant([-1.0, 2.0])).numpy()
    array([0., 2.], dtype=float32)
    """

    def __call__(self, w: Any) -> Tensor:
        return gtape.nn.relu(w)


class UnitNorm(Constraint):
    """Scale columns to length 1.

    Parameters
    ----------
    axis : int or sequence of int
        As for `MaxNorm`.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.constraints.UnitNorm()(tf.constant([[3.0], [4.0]])).numpy().round(4).tolist()
    [[0.6000000238418579], [0.800000011920929]]
    """

    options = ("axis",)

    def __init__(self, axis: Any = 0) -> None:
        self.axis = _axes(self, axis)

    def __call__(self, w: Any) -> Tensor:
        w = checks.tensor(self, "w", w)
        return w / (_length(w, self.axis) + epsilon())  # type: ignore[no-any-return]


_KNOWN: dict[str, Any] = {
    "max_norm": MaxNorm, "MaxNorm": MaxNorm, "non_neg": NonNeg, "NonNeg": NonNeg, "unit_norm": UnitNorm,
    "UnitNorm": UnitNorm,
}  # fmt: skip


def get(identifier: Any) -> Callable[..., Any] | None:
    """A constraint by its name, a function, which is returned, or None.

    Parameters
    ----------
    identifier : str, dict, callable or None

    Returns
    -------
    callable or None

    Raises
    ------
    ValueError
        For an unknown name.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.constraints.get("non_neg")(tf.constant([-1.0, 2.0])).numpy()
    array([0., 2.], dtype=float32)
    """
    return None if identifier is None else by_name(identifier, _KNOWN, "constraint", make=True)
