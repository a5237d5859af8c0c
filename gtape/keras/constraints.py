"""Conditions that weights satisfy after each step of an optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gtape
from gtape.base.docstrings import documented_like
from gtape.keras.backend import epsilon
from gtape.keras.lookup import Configured, by_name
from gtape.tensors import argument_checks as checks
from gtape.tensors.tensor import Tensor

__all__ = ["Constraint", "MaxNorm", "NonNeg", "UnitNorm", "get"]

__dir__ = __all__.copy  # the names for `dir`, which sorts them


class Constraint(Configured):
    """Base class: a function from a weight to an allowed weight.

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

    def __call__(self, w: Any) -> Any:
        """An allowed weight of the same shape."""
        return w


class _OfColumns(Constraint):
    """A constraint on the lengths of columns."""

    options: tuple[str, ...] = ("axis",)

    def __init__(self, axis: Any = 0) -> None:
        if isinstance(axis, (list, tuple)):
            self.axis: Any = [checks.whole(self, "axis", a) for a in axis]
        else:
            self.axis = None if axis is None else checks.whole(self, "axis", axis)

    def _lengths(self, w: Any) -> Any:
        return gtape.linalg.norm(w, axis=self.axis, keepdims=True)


class MaxNorm(_OfColumns):
    """Scale columns down to a greatest length.

    Parameters
    ----------
    max_value : float
    axis : int or sequence of int
        The axes of a column: 0 for the kernel of a `Dense` layer, ``[0, 1, 2]`` for the kernel of a `Conv2D`.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.constraints.MaxNorm(1.0)(tf.constant([[3.0], [4.0]])).numpy().round(4).tolist()
    [[0.6000000238418579], [0.800000011920929]]
    """

    options = ("max_value", "axis")

    def __init__(self, max_value: float = 2.0, axis: Any = 0) -> None:
        super().__init__(axis)
        self.max_value = checks.number(self, "max_value", max_value)

    def __call__(self, w: Any) -> Tensor:
        w = checks.tensor(self, "w", w)
        norms = self._lengths(w)
        return w * (gtape.clip_by_value(norms, 0.0, self.max_value) / (norms + epsilon()))  # type: ignore[no-any-return]


class UnitNorm(_OfColumns):
    """Scale columns to length 1; `axis` as for `MaxNorm`.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.constraints.UnitNorm()(tf.constant([[3.0], [4.0]])).numpy().round(4).tolist()
    [[0.6000000238418579], [0.800000011920929]]
    """

    def __call__(self, w: Any) -> Tensor:
        w = checks.tensor(self, "w", w)
        return w / (self._lengths(w) + epsilon())  # type: ignore[no-any-return]


class NonNeg(Constraint):
    """Replace negative weights by 0.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.constraints.NonNeg()(tf.constant([-1.0, 2.0])).numpy()
    array([0., 2.], dtype=float32)
    """

    def __call__(self, w: Any) -> Tensor:
        return gtape.nn.relu(w)


_KNOWN: dict[str, Any] = {"max_norm": MaxNorm, "non_neg": NonNeg, "unit_norm": UnitNorm}
_KNOWN |= {c.__name__: c for c in _KNOWN.values()}


@documented_like(by_name)
def get(identifier: Any) -> Callable[..., Any] | None:
    """A constraint by its name.

    Examples
    --------
    >>> tf.keras.constraints.get("non_neg")(tf.constant([-1.0, 2.0])).numpy()
    array([0., 2.], dtype=float32)
    """
    return None if identifier is None else by_name(identifier, _KNOWN, "constraint", make=True)
