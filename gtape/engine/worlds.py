"""The NumPy world and the tape world: the namespaces ``xp`` in which rules compute.

`gtape.symbolic` has the other worlds. In the NumPy world a name is the primitive's kernel for raw values, and in the
tape world the recorded function of tensors. Both have the constants of `gtape.declare.primitives.CONSTANTS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.declare.primitives import CHANGED, CONSTANTS, REGISTRY, Primitive

__all__ = [
    "COMPLEX", "FLOATS", "NARROW", "NUMPY", "TAPE", "ComplexWorld", "NumPyWorld", "TapeWorld", "named", "off_python",
    "scalar_of",
]  # fmt: skip

_float64 = np.float64
_float64_dtype = np.dtype(np.float64)


def off_python(v: Any) -> Any:
    """A Python float as a NumPy scalar, because Python floats raise errors where NumPy gives inf. Others unchanged."""
    return _float64(v) if v.__class__ is float else v


# The quick steps of Python floats call `scalar`, whose last bit may differ from the kernel's. Full sweeps bring the
# same numbers as NumPy's floats, so they call it, too.
FLOATS = frozenset((float, np.float64))


def _unary(kernel: Callable[..., Any], scalar: Callable[[float], float]) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        kind = x.__class__
        if kind in FLOATS:
            try:
                return kind(scalar(float(x)))
            except (ValueError, ArithmeticError):
                return kind(kernel(_float64(x)))
        return kernel(x)

    return f


def _binary(kernel: Callable[..., Any], scalar: Callable[[float, float], float]) -> Callable[..., Any]:
    def f(a: Any, b: Any) -> Any:
        if a.__class__ in FLOATS and b.__class__ in FLOATS:
            kind = float if a.__class__ is float and b.__class__ is float else _float64
            try:
                return kind(scalar(float(a), float(b)))
            except (ValueError, ArithmeticError):
                return kind(kernel(_float64(a), _float64(b)))
        return kernel(off_python(a), off_python(b))

    return f


def _general(kernel: Callable[..., Any]) -> Callable[..., Any]:
    def f(*args: Any, **params: Any) -> Any:
        try:
            return kernel(*args, **params)
        except (AttributeError, ArithmeticError, TypeError):
            return kernel(*[off_python(a) for a in args], **params)

    return f


_ONE_ZERO = np.array([0, 1], dtype=np.int8)


def _where(kernel: Callable[..., Any]) -> Callable[..., Any]:
    def where(condition: Any, a: Any, b: Any) -> Any:
        if a.__class__ is int and b.__class__ is int:
            # The mask is an int8, so that multiplication keeps the dtype of the other factor.
            return np.where(condition, np.int8(a), np.int8(b))
        if (
            isinstance(condition, (bool, np.bool_))
            and not isinstance(a, (np.ndarray, np.generic))
            and not isinstance(b, (np.ndarray, np.generic))
        ):
            return a if condition else b
        return kernel(condition, a, b)

    return where


def named(name: str) -> float | Primitive:
    """The constant or primitive with a name that a rule uses. AttributeError for an unknown name."""
    if name in CONSTANTS:
        return CONSTANTS[name]
    # Python looks up names with underscores, for which REGISTRY would load all ops.
    prim: Primitive | None = None if name.startswith("_") else REGISTRY.get(name)
    if prim is None:
        raise AttributeError(f"a rule uses {name!r}, which is neither a primitive nor a constant")
    return prim


def scalar_of(prim: Primitive) -> Callable[..., float] | None:
    """The function that the NumPy world calls for numbers of the types in `FLOATS`; None if it calls the kernel."""
    return prim.scalar if prim.kind == "elementwise" and not prim.params else None


class _World:
    """A namespace of constants and primitives. Each name is looked up once."""

    def __reduce__(self) -> str:
        return next(name for name, value in globals().items() if value is self)

    def __getattr__(self, name: str) -> Any:
        found = named(name)
        value: Any = self._function(found) if isinstance(found, Primitive) else found
        setattr(self, name, value)
        return value

    def _function(self, prim: Primitive) -> Callable[..., Any]:
        """The function of a primitive in this world."""
        raise NotImplementedError


class NumPyWorld(_World):
    """Rules on raw NumPy values and Python floats, for first-order backward passes."""

    # Converts the raw values of a record for a full sweep.
    lift = staticmethod(off_python)

    def _function(self, prim: Primitive) -> Callable[..., Any]:
        if "selection" in prim.roles:
            return _where(prim.kernel)
        scalar = scalar_of(prim)
        if scalar is not None:
            return (_unary if len(prim.rules) == 1 else _binary)(prim.kernel, scalar)
        samples = () if prim.kind == "elementwise" else prim.samples
        if samples and all(isinstance(x, tuple) and x for inputs, _ in samples for x in inputs):
            return prim.kernel  # takes arrays, such as matrices, so it never gets a Python float
        return _general(prim.kernel)


class ComplexWorld(NumPyWorld):
    """The NumPy world with complex kernels, for rules of ops on complex numbers."""

    def _function(self, prim: Primitive) -> Callable[..., Any]:
        real = getattr(NUMPY, prim.name)
        if prim.kind != "elementwise" or prim.complex is True:
            return real  # type: ignore[no-any-return]
        kernel, name = prim.complex, prim.name

        def f(*args: Any, **params: Any) -> Any:
            if not any(getattr(a, "dtype", _float64_dtype).kind == "c" for a in args):
                return real(*args, **params)
            if not callable(kernel):
                raise TypeError(f"a rule takes {name!r} of complex numbers, which it is not declared for")
            return kernel(*args, **params)

        return f


class TapeWorld(_World):
    """Rules on tensors, for a backward pass that an outer tape records."""

    def _function(self, prim: Primitive) -> Callable[..., Any]:
        return _mask_where(prim.function) if "selection" in prim.roles else prim.function


def _mask_where(function: Callable[..., Any]) -> Callable[..., Any]:
    def where(condition: Any, a: Any, b: Any) -> Any:
        if a.__class__ is int and b.__class__ is int:
            # A constant mask is a plain array, because it then adopts the dtype of the tensor that it multiplies.
            return np.where(getattr(condition, "_value", condition), np.int8(a), np.int8(b))
        return function(condition, a, b)

    return where


NUMPY = NumPyWorld()
COMPLEX = ComplexWorld()
# The world of ops on half precision, which compute in float32 and round once.
NARROW = NumPyWorld()
TAPE = TapeWorld()


def _forget(prim: Primitive) -> None:
    for world in (NUMPY, COMPLEX, TAPE):
        vars(world).pop(prim.name, None)


CHANGED.append(_forget)
