"""The operands of NumPy's functions: Python numbers, lists and arrays take the dtype of the tensor beside them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from gtape.tensors.tensor import as_operand, is_tensor

__all__ = ["alike", "with_operands_alike"]

# The parameters that hold an operand, and those that hold several; all other parameters are options.
_ONE = frozenset({
    "A", "a", "a_max", "a_min", "arr", "array", "ary", "b", "default", "fill_value", "m", "max", "min", "start", "stop",
    "v", "values", "weights", "x", "x1", "x2", "y", "z",
})  # fmt: skip
_SEVERAL = frozenset({"args", "arrays", "arys", "choicelist", "operands", "p", "tup", "xi"})

_WEAK = (int, float, complex, list, tuple, range, np.ndarray, np.generic)


def alike(operands: Sequence[Any]) -> list[Any]:
    """The operands of one call, those that are not tensors in the dtype of the first tensor.

    An operand that cannot take this dtype stays as it is, and the op says why it cannot combine them. So does a truth
    value, because conditions keep their dtype.
    """
    tensors = (t for t in operands if is_tensor(t) and t._layout.dtype.kind not in "bSUO")
    like = next(tensors, None)
    return list(operands) if like is None else [_as(x, like) for x in operands]


def _as(x: Any, like: Any) -> Any:
    if is_tensor(x) or not isinstance(x, _WEAK) or isinstance(x, bool) or getattr(x, "dtype", like.dtype) == np.bool_:
        return x
    try:
        return as_operand(x, like)
    except (TypeError, ValueError, OverflowError):
        return x


def with_operands_alike(call: inspect.BoundArguments) -> inspect.BoundArguments:
    """Bring all operands of a bound call of a NumPy function to the dtype of the first tensor among them."""
    places: list[tuple[str, int | None]] = []
    for name, value in call.arguments.items():
        if name in _SEVERAL and isinstance(value, (list, tuple)):
            call.arguments[name] = list(value)
            places += [(name, k) for k in range(len(value))]
        elif name in _ONE or name in _SEVERAL:
            places.append((name, None))
    found = alike([call.arguments[name] if k is None else call.arguments[name][k] for name, k in places])
    for (name, k), x in zip(places, found, strict=True):
        if k is None:
            call.arguments[name] = x
        else:
            call.arguments[name][k] = x
    return call
