"""Shape and dtype of a value as one interned object, so that "same shape and dtype?" is a comparison of identities."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.tensor_shape import TensorShape

__all__ = ["FLOAT64_SCALAR", "Aval", "aval_of", "make_aval"]


class Aval:
    """Shape and dtype of a tensor; interned, so equal ones are one object (but never rely on it for inequality)."""

    __slots__ = ("_tensor_shape", "complex", "detour", "dtype", "family", "inexact", "one", "real", "shape", "special")

    def __init__(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.shape = shape
        # Those of the same dtype, by shape: finding one there is cheaper, as dtypes hash slowly.
        self.family: dict[tuple[int, ...], Aval] = _families.setdefault(dtype, {})
        # The cotangent that a sweep starts from, for scalars.
        self.one: Any = None
        # Floats that NumPy knows; complex numbers; and what kernels are not written for (complex numbers, bfloat16).
        self.real = dtype.kind == "f"
        self.complex = dtype.kind == "c"
        self.special = self.complex or dtype.name == "bfloat16"
        # What the general way treats by itself: these, and float16 in ops that sum.
        self.detour = self.special or dtype.name == "float16"
        # What has derivatives.
        self.inexact = self.real or self.special
        self._tensor_shape: TensorShape | None = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        n = 1
        for d in self.shape:
            n *= d
        return n

    @property
    def tensor_shape(self) -> TensorShape:
        made = self._tensor_shape
        if made is None:
            made = self._tensor_shape = TensorShape(self.shape)
        return made

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


_families: dict[Any, dict[tuple[int, ...], Aval]] = {}


def make_aval(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Aval:
    """The Aval of a dtype and a shape; interned, but for strings."""
    if dtype.kind == "O":
        return Aval(dtype, shape)  # one for each tensor of strings: the short ways of the ops are for numbers
    family = _families.get(dtype)
    found = None if family is None else family.get(shape)
    if found is None:
        if family is not None and len(family) > 10_000:  # programs with ever new shapes must not fill the memory
            family.clear()
            family[()] = FLOAT64_SCALAR if dtype == FLOAT64_SCALAR.dtype else Aval(dtype, ())
        made = Aval(dtype, shape)
        found = made.family.setdefault(shape, made)
    return found


FLOAT64_SCALAR = Aval(np.dtype(np.float64), ())
FLOAT64_SCALAR.family[()] = FLOAT64_SCALAR


def aval_of(value: Any) -> Aval:
    """The Aval of a raw value (a Python float, a NumPy scalar or an array)."""
    return FLOAT64_SCALAR if value.__class__ is float else make_aval(value.dtype, value.shape)
