"""Python's operators on tensors and variables: each is the op of that name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.errors import InvalidArgumentError
from gtape.primitive import REGISTRY
from gtape.tensor import Tensor, as_operand, wrap
from gtape.variable import Variable

__all__ = ["install"]

_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floordiv", "mod": "floormod",
    "pow": "pow",
}  # fmt: skip
_COMPARE = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    def reflected(x: Any, y: Any) -> Any:
        return function(y, x)

    return reflected


def _elementwise_equal(a: Any, b: Any, name: str, otherwise: bool) -> Any:
    if b is None or isinstance(b, str):
        return otherwise
    try:
        return REGISTRY[name](a, b)
    except InvalidArgumentError:
        shapes = [np.shape(x._value) if hasattr(x, "_value") else np.shape(x) for x in (a, b)]
        try:
            np.broadcast_shapes(*shapes)
        except ValueError:
            return otherwise  # incompatible shapes are unequal, as in TensorFlow
        raise


def _equal(a: Any, b: Any) -> Any:
    return _elementwise_equal(a, b, "equal", False)


def _not_equal(a: Any, b: Any) -> Any:
    return _elementwise_equal(a, b, "not_equal", True)


def _matmul(a: Any, b: Any) -> Any:
    from gtape.ops.matmul import matmul

    return matmul(a, b)


def _rmatmul(a: Any, b: Any) -> Any:
    from gtape.ops.matmul import matmul

    return matmul(b, a)


def _bitwise(name: str, kernel: Any) -> Callable[..., Any]:
    """`logical_...` on booleans, bit by bit on integers."""
    logical = REGISTRY[name].function

    def operator(x: Any, *y: Any) -> Any:
        if x._aval.dtype.kind not in "iu":
            return logical(x, *y)
        tensors = [as_operand(t, x) for t in (x, *y)]
        for t in tensors:
            if t._aval.dtype != x._aval.dtype:
                raise InvalidArgumentError(
                    f"{x.dtype.name} and {t.dtype.name} do not combine bit by bit: cast one of them"
                )
        return wrap(kernel(*[t._value for t in tensors]))

    return operator


def _array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    from gtape.numpy_protocol import apply_ufunc

    return apply_ufunc(ufunc, method, inputs, options)


def _array_function(self: Any, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    from gtape.numpy_protocol import apply_function

    return apply_function(function, args, kwargs)


def _install(attribute: str, make: Callable[[], Callable[..., Any]]) -> None:
    """Put an operator on both classes that generates its function at the first call, to keep the import short."""

    def first(*args: Any) -> Any:
        function = make()
        for cls in (Tensor, Variable):
            setattr(cls, attribute, function)
        return function(*args)

    for cls in (Tensor, Variable):
        setattr(cls, attribute, first)


def install() -> None:
    """Put the operators on `Tensor` and `Variable`.

    On tensors the operator *is* the generated function, so that ``x * y`` costs no extra call.
    """
    for short, long in _BINARY.items():
        _install(f"__{short}__", lambda long=long: REGISTRY[long].function)  # type: ignore[misc]
        _install(f"__r{short}__", lambda long=long: _reflected(REGISTRY[long].function))  # type: ignore[misc]
    for short, long in _COMPARE.items():
        _install(f"__{short}__", lambda long=long: REGISTRY[long].function)  # type: ignore[misc]
    for name in ("and", "or", "xor"):
        kernel = getattr(np, f"bitwise_{name}")
        _install(f"__{name}__", lambda name=name, kernel=kernel: _bitwise(f"logical_{name}", kernel))  # type: ignore[misc]
        # These commute, and the tensor must come first.
        _install(f"__r{name}__", lambda name=name, kernel=kernel: _bitwise(f"logical_{name}", kernel))  # type: ignore[misc]
    _install("__neg__", lambda: REGISTRY["negative"].function)
    _install("__abs__", lambda: REGISTRY["abs"].function)
    _install("__invert__", lambda: _bitwise("logical_not", np.bitwise_not))
    for cls in (Tensor, Variable):
        cls.__eq__ = _equal  # type: ignore[method-assign]
        cls.__ne__ = _not_equal  # type: ignore[method-assign]
        cls.__hash__ = None  # type: ignore[assignment]
        cls.__matmul__ = _matmul  # type: ignore[method-assign]
        cls.__rmatmul__ = _rmatmul  # type: ignore[method-assign]
        cls.__array_ufunc__ = _array_ufunc  # type: ignore[union-attr]
        cls.__array_function__ = _array_function  # type: ignore[union-attr]
