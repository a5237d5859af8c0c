"""The kinds of arguments of calls, and the number of traces that TensorFlow would make."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gtape.base.shown import shown
from gtape.base.tensor_spec import TensorSpec
from gtape.tensors.tensor import Tensor
from gtape.tensors.variable import Variable

__all__ = ["Traces", "kind_of"]


class Traces:
    """The kinds of arguments of the calls so far. TensorFlow would trace the function once for each kind."""

    __slots__ = ("relaxed", "seen")

    def __init__(self, relaxed: bool) -> None:
        self.relaxed = relaxed
        self.seen: dict[Any, None] = {}

    def note(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note the kind of arguments of one call."""
        variables: dict[int, int] = {}
        key: Any = tuple([kind_of(x, variables) for x in args])
        if kwargs:
            key = (*key, tuple([(k, kind_of(kwargs[k], variables)) for k in sorted(kwargs)]))
        if key in self.seen:
            return
        if self.relaxed:
            if any(_covers(k, key) for k in self.seen):
                return
            for k in self.seen:
                merged = _merged(k, key)
                key = key if merged is NotImplemented else merged
        self.seen[key] = None


# All NaN have one kind, as in TensorFlow, although no NaN equals another.
_NOT_A_NUMBER = ("nan",)


class _Shaped(NamedTuple):
    """The kind of a tensor, an array or a variable.

    Attributes
    ----------
    what : None or (bool, int)
        Of a variable whether it is trainable, and its number among the variables of the call.
    dtype : numpy.dtype
    shape : tuple or None
        None stands for a size, or for the whole shape, that may be any.
    """

    what: tuple[bool, int] | None
    dtype: Any
    shape: tuple[int | None, ...] | None


def kind_of(x: Any, variables: dict[int, int] | None = None) -> Any:
    """The kind of an argument. Two arguments have equal kinds if TensorFlow would not trace the function again.

    Parameters
    ----------
    x : object
    variables : dict, optional
        The numbers of the variables in the arguments before this one. A variable that is given twice is another kind
        of call than two variables.
    """
    try:
        return _kind(x, {} if variables is None else variables)
    except RecursionError:
        raise ValueError(
            "an argument of a function must not hold itself, nor be nested deeper than Python's recursion goes: "
            f"{shown(x)}"
        ) from None


def _kind(x: Any, variables: dict[int, int]) -> Any:
    if x.__class__ is Tensor or isinstance(x, (Tensor, np.ndarray, np.generic)):
        return _Shaped(None, x._layout.dtype if isinstance(x, Tensor) else x.dtype, tuple(x.shape))
    if isinstance(x, Variable):
        number = variables.setdefault(x._uid, len(variables))
        return _Shaped((bool(x.trainable), number), x._layout.dtype, tuple(x._layout.shape))
    if x is None or isinstance(x, (bool, int, float, complex, str, bytes)):
        if isinstance(x, (float, complex)) and x != x:
            return _NOT_A_NUMBER
        return ("value", x)  # 1, 1.0 and True are equal, as in TensorFlow
    if isinstance(x, TensorSpec):
        return _Shaped(None, x.dtype.dtype, None if x.shape.rank is None else tuple(x.shape))
    if isinstance(x, (list, tuple)):
        return (x.__class__, *[_kind(y, variables) for y in x])
    if isinstance(x, dict):  # the order of the keys does not count
        keys = sorted(x, key=lambda k: (k.__class__.__name__, repr(k)))
        return (dict, *[(k, _kind(x[k], variables)) for k in keys])
    return id(x)


def _covers(wide: Any, key: Any) -> bool:
    """Whether the key `wide`, in which sizes and shapes may be None, covers another key."""
    if wide.__class__ is _Shaped:
        if key.__class__ is not _Shaped or wide[:2] != key[:2]:
            return False
        if wide.shape is None or key.shape is None:
            return wide.shape is None
        return len(wide.shape) == len(key.shape) and all(
            m is None or m == n for m, n in zip(wide.shape, key.shape, strict=True)
        )
    if wide.__class__ is tuple and key.__class__ is tuple:
        return len(wide) == len(key) and all(_covers(a, b) for a, b in zip(wide, key, strict=True))
    return bool(wide == key)


def _merged(a: Any, b: Any) -> Any:
    """The key that covers both keys if they differ only in shapes; otherwise NotImplemented."""
    if a.__class__ is _Shaped and b.__class__ is _Shaped:
        if a[:2] != b[:2]:
            return NotImplemented
        if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
            return a._replace(shape=None)
        return a._replace(shape=tuple([m if m == n else None for m, n in zip(a.shape, b.shape, strict=True)]))
    if a.__class__ is tuple and b.__class__ is tuple and len(a) == len(b):
        parts = [_merged(x, y) for x, y in zip(a, b, strict=True)]
        return NotImplemented if any(p is NotImplemented for p in parts) else tuple(parts)
    return a if a.__class__ is b.__class__ and a == b else NotImplemented
