"""The shape and dtype of a value as one interned object, because a comparison is then one identity test."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.tensor_shape import TensorShape

__all__ = ["FLOAT", "Layout", "layout_of", "make_layout"]


class Layout:
    """Shape and dtype of a tensor. Interned, except that strings and variables have layouts of their own."""

    __slots__ = (
        "_tensor_shape", "complex", "dtype", "family", "inexact", "narrow", "no_kernel", "one", "plain", "real",
        "shape",
    )  # fmt: skip

    def __init__(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.shape = shape
        # Layouts of the same dtype by shape. This lookup is faster, because dtypes hash slowly.
        self.family: dict[tuple[int, ...], Layout] = _families.setdefault(dtype, {})
        # For a scalar: the cotangent that a sweep starts from.
        self.one: Any = None
        self.complex = dtype.kind == "c"
        # Whether the dtype has half precision, which is computed in float32.
        self.narrow = dtype.name in ("float16", "bfloat16")
        # Whether the dtype is one of floats that kernels take unchanged.
        self.real = dtype.kind == "f" and not self.narrow
        # Whether the value is an array (not a scalar) of such floats.
        self.plain = self.real and bool(shape)
        # Whether the dtype needs the general way.
        self.no_kernel = self.complex or self.narrow
        # Whether the dtype has derivatives.
        self.inexact = self.real or self.no_kernel
        self._tensor_shape: TensorShape | None = None

    def apart(self) -> Layout:
        """A copy, for values that fast paths must not take, because fast paths compare layouts by identity."""
        made = Layout.__new__(Layout)
        made.dtype, made.shape, made.family, made.one = self.dtype, self.shape, self.family, None
        made.real, made.plain, made.complex, made.narrow = self.real, self.plain, self.complex, self.narrow
        made.no_kernel, made.inexact, made._tensor_shape = self.no_kernel, self.inexact, self._tensor_shape
        return made

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

    def __reduce__(self) -> Any:
        return make_layout, (self.dtype, self.shape)

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


_families: dict[Any, dict[tuple[int, ...], Layout]] = {}


def make_layout(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Layout:
    """The Layout of a dtype and a shape. Interned, except for strings."""
    if dtype.kind == "O":
        return Layout(dtype, shape)  # a new one for each tensor, because fast paths are for numbers
    family = _families.get(dtype)
    found = None if family is None else family.get(shape)
    if found is None:
        if family is not None and len(family) > 10_000:  # otherwise a program with ever new shapes fills the memory
            family.clear()
            family[()] = FLOAT if dtype == FLOAT.dtype else Layout(dtype, ())
        made = Layout(dtype, shape)
        found = made.family.setdefault(shape, made)
    return found


FLOAT = Layout(np.dtype(np.float64), ())
FLOAT.family[()] = FLOAT


def layout_of(value: Any) -> Layout:
    """The Layout of a raw value (a Python float, a NumPy scalar or an array)."""
    return FLOAT if value.__class__ is float else make_layout(value.dtype, value.shape)
