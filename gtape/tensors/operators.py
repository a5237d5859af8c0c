"""Python's operators on tensors and variables. Each operator calls an op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.base import late
from gtape.declare.primitives import REGISTRY, Primitive
from gtape.errors import InvalidArgumentError
from gtape.kernels.broadcasting import broadcast_shapes
from gtape.tensors.absent import put_on
from gtape.tensors.tensor import Operators, PublicTensor, Tensor, as_operand, number_beside, wrap

__all__ = ["install"]

# An operator looks its op up at its first call.
_BINARY: dict[str, Callable[[], Primitive]] = {
    "__add__": lambda: REGISTRY["add"], "__sub__": lambda: REGISTRY["subtract"],
    "__mul__": lambda: REGISTRY["multiply"], "__truediv__": lambda: REGISTRY["divide"],
    "__floordiv__": lambda: REGISTRY["floordiv"], "__mod__": lambda: REGISTRY["floormod"],
    "__pow__": lambda: REGISTRY["pow"],
}  # fmt: skip
_LOGIC: dict[str, tuple[Callable[[], Primitive], Any]] = {
    "__and__": (lambda: REGISTRY["logical_and"], np.bitwise_and),
    "__or__": (lambda: REGISTRY["logical_or"], np.bitwise_or),
    "__xor__": (lambda: REGISTRY["logical_xor"], np.bitwise_xor),
}


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    def reflected(x: Any, y: Any) -> Any:
        if y.__class__ is float or y.__class__ is int:  # the usual case in fewer steps
            if x.__class__ is not Tensor:
                x = x._as_tensor()
            y = number_beside(y, x._layout)
        return function(y, x)

    return reflected


def _elementwise_equal(a: Any, b: Any, op: Primitive, otherwise: bool) -> Any:
    """Compare element by element, as TensorFlow does.

    Values of incompatible shapes are unequal as a whole. Dtypes that do not combine are an error for all shapes. A
    NumPy array takes the dtype of the tensor, truth values included.
    """
    if b is None or (isinstance(b, str) and a._layout.dtype.kind != "O"):
        return otherwise
    try:
        return op(a, b)
    except InvalidArgumentError as error:
        dtype = a._layout.dtype
        if dtype.kind == "b" and isinstance(b, (np.ndarray, np.generic)) and b.dtype.kind in "iuf":
            return _elementwise_equal(a, b.astype(bool), op, otherwise)
        try:
            other = as_operand(b, a)._layout
        except (InvalidArgumentError, ValueError, TypeError):
            raise error from None  # from the op, which names itself
        if other.dtype == dtype:
            try:
                broadcast_shapes(a._layout.shape, other.shape)
            except ValueError:
                return wrap(np.bool_(otherwise))
        raise


def _equal(a: Any, b: Any) -> Any:
    return _elementwise_equal(a, b, REGISTRY["equal"], False)


def _not_equal(a: Any, b: Any) -> Any:
    return _elementwise_equal(a, b, REGISTRY["not_equal"], True)


def _bitwise(op: Primitive, kernel: Any) -> Callable[..., Any]:
    """`logical_...` on booleans, bitwise ops on integers."""
    logical = op.function

    def operator(x: Any, *y: Any) -> Any:
        if x._layout.dtype.kind not in "iu":
            return logical(x, *y)
        tensors = [as_operand(t, x) for t in (x, *y)]
        for t in tensors:
            if t._layout.dtype != x._layout.dtype:
                raise InvalidArgumentError(
                    f"{x.dtype.name} and {t.dtype.name} do not combine bit by bit: cast one of them"
                )
        return wrap(kernel(*[t._value for t in tensors]))

    return operator


def _array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    return late.numpy_protocol.apply_ufunc(ufunc, method, inputs, options)


def _array_function(self: Any, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    return late.numpy_protocol.apply_function(function, args, kwargs)


def _deferred(attribute: str, make: Callable[[], Callable[..., Any]], cls: type) -> Callable[..., Any]:
    """An operator that replaces itself by its generated function at the first call, which keeps the import short."""

    def first(*args: Any) -> Any:
        function = make()
        setattr(cls, attribute, function)
        return function(*args)

    return first


def _table() -> dict[str, Callable[[], Callable[..., Any]]]:
    """For each operator a callable that makes its function."""
    found: dict[str, Callable[[], Callable[..., Any]]] = {
        "__neg__": lambda: REGISTRY["negative"].function,
        "__abs__": lambda: REGISTRY["abs"].function,
        "__lt__": lambda: REGISTRY["less"].function,
        "__le__": lambda: REGISTRY["less_equal"].function,
        "__gt__": lambda: REGISTRY["greater"].function,
        "__ge__": lambda: REGISTRY["greater_equal"].function,
        "__invert__": lambda: _bitwise(REGISTRY["logical_not"], np.bitwise_not),
        "__matmul__": lambda: late.find_op("matmul"),
        "__rmatmul__": lambda: _reflected(late.find_op("matmul")),
    }
    for name, op in _BINARY.items():
        found[name] = lambda op=op: op().function  # type: ignore[misc]
        found[f"__r{name[2:]}"] = lambda op=op: _reflected(op().function)  # type: ignore[misc]
    for name, (op, kernel) in _LOGIC.items():
        # The reflected operator is the same, because these operators commute and the tensor must come first.
        made = lambda op=op, kernel=kernel: _bitwise(op(), kernel)
        found[name] = found[f"__r{name[2:]}"] = made
    return found


_TABLE = _table()


def install(cls: Any) -> None:
    """Install the operators on a class: `Tensor` or `Variable`.

    On tensors the operator *is* the generated function, so that ``x * y`` costs no additional call.
    """
    for attribute, make in _TABLE.items():
        setattr(cls, attribute, _deferred(attribute, make, cls))
    cls.__eq__, cls.__ne__, cls.__hash__ = _equal, _not_equal, None
    cls.__array_ufunc__, cls.__array_function__ = _array_ufunc, _array_function


install(PublicTensor)
put_on(Operators)
