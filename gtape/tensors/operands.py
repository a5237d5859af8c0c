"""Converts the operands of an op to tensors of one dtype, or raises an error that names a remedy."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import errors
from gtape.base.python_values import exhausted
from gtape.base.shown import shown
from gtape.declare.domains import BOOLEAN
from gtape.declare.primitives import REGISTRY, Primitive
from gtape.tensors.tensor import PYTHON_NUMBERS, Tensor, as_operand, number

__all__ = [
    "FAILURES", "check_dtypes", "check_same", "failure", "float_operand", "matrix_operand", "operands", "promoted",
    "require_floats", "text_as_array", "whole_numbers",
]  # fmt: skip

# Errors of a kernel for arguments that it cannot take. RuntimeError is left out, because the stack of another thread
# raises RuntimeError.
FAILURES = (
    ValueError, TypeError, LookupError, AttributeError, ArithmeticError, MemoryError, AssertionError,
    NotImplementedError, RecursionError, np.linalg.LinAlgError,
)  # fmt: skip

# Errors are raised `from None`, because the earlier error only says that an operand was not a tensor.


def check_dtypes(prim: Primitive, tensors: list[Tensor]) -> None:
    """Raise an InvalidArgumentError for operands whose dtypes the op does not take, or does not take together."""
    if len(tensors) == 2 and tensors[0]._layout.dtype is tensors[1]._layout.dtype and tensors[0]._layout.inexact:
        return
    checked = []
    for i, t in enumerate(tensors):
        layout = t._layout
        if prim.kind == "elementwise":
            if not layout.inexact and not prim.ints and not prim.promotes:
                if layout.dtype.kind == "b" and "selection" in prim.roles:
                    continue
                raise errors.OperandTypeError(
                    f"{prim.name} needs a floating-point tensor, not {t.dtype.name} of shape {layout.tensor_shape}; "
                    "use gtape.cast(x, gtape.float32) first"
                ) from None
            if layout.dtype.kind == "O" and "string" not in prim.takes:
                able = sorted([p.name for p in REGISTRY.values() if "string" in p.takes])
                raise errors.OperandTypeError(
                    f"{prim.name} needs numbers, not string of shape {layout.tensor_shape}; only {', '.join(able)} "
                    "take strings"
                ) from None
            if layout.dtype.kind == "b":
                if "selection" in prim.roles:
                    continue
                if "bool" not in prim.takes and BOOLEAN not in prim.domain.intervals:
                    raise errors.OperandTypeError(
                        f"{prim.name} needs numbers, not bool of shape {layout.tensor_shape}; use gtape.cast(x, "
                        "gtape.int32), or gtape.logical_and, logical_or, logical_not"
                    ) from None
        elif not layout.inexact and not prim.connected(i):
            continue  # integers such as indices
        checked.append(t)
    check_same(prim, checked)


def check_same(prim: Primitive, tensors: list[Tensor]) -> None:
    """Raise an error for operands with different dtypes."""
    for t in tensors[1:]:
        if t._layout.dtype != tensors[0]._layout.dtype:
            raise errors.InvalidArgumentError(
                f"{prim.name} cannot combine tensors of {tensors[0].dtype.name} and {t.dtype.name} (shapes "
                f"{', '.join(str(u._layout.tensor_shape) for u in tensors)}): cast one of them with gtape.cast"
            ) from None


def operands(*args: Any) -> list[Tensor]:
    """An op's operands as tensors. Python numbers and arrays adopt the dtype of the first tensor, variable or array."""
    if len(args) == 2:
        x, y = args
        if x.__class__ is Tensor:
            if y.__class__ in PYTHON_NUMBERS:
                return [x, number(y, x._layout.dtype)]
            if getattr(type(y), "_is_gtape_tensor", False):
                return [x, y._as_tensor()]
            return [x, as_operand(y, x)]
        if getattr(type(x), "_is_gtape_tensor", False):
            x = x._as_tensor()
            if y.__class__ in PYTHON_NUMBERS:
                return [x, number(y, x._layout.dtype)]
            return [x, y if y.__class__ is Tensor else as_operand(y, x)]
        if y.__class__ is Tensor:
            if x.__class__ in PYTHON_NUMBERS:
                return [number(x, y._layout.dtype), y]
            return [as_operand(x, y), y]
    elif len(args) == 1 and getattr(type(args[0]), "_is_gtape_tensor", False):
        return [args[0]._as_tensor()]
    like = None
    for a in args:
        if a.__class__ is Tensor or getattr(type(a), "_is_gtape_tensor", False):
            like = a
            if a._layout.dtype.kind != "b":  # other operands do not adopt the dtype of a condition
                break
    if like is None or (like._layout.dtype.kind == "b" and len(args) > 2):
        arrays = [a for a in args if issubclass(type(a), (np.ndarray, np.generic)) and a.dtype.kind != "b"]
        like = arrays[0] if arrays else None
    if like is None and len(args) > 1:
        numbers = [as_operand(a) for a in args]
        first = next((t for t in numbers if t._layout.dtype.kind != "b"), numbers[0])
        return [
            t if t._layout.dtype == first._layout.dtype or t._layout.dtype.kind == "b" else as_operand(a, first)
            for t, a in zip(numbers, args, strict=True)
        ]
    return [as_operand(a, None if len(args) > 2 and _is_bool(a) else like) for a in args]


def _is_bool(x: Any) -> bool:
    """Whether an operand is Python's or NumPy's bool, or stands for NumPy's in a traced call."""
    return isinstance(x, (bool, np.bool_)) or (hasattr(x, "adapted") and x.dtype == np.bool_ and x.shape == ())


def require_floats(t: Tensor, op: str) -> Tensor:
    """The tensor, if it holds floats or complex numbers. Otherwise an error that names `op`."""
    if not t._layout.inexact:
        raise errors.OperandTypeError(
            f"{op} needs a floating-point tensor, not {t.dtype.name}; use gtape.cast(x, gtape.float32) first"
        )
    return t


def float_operand(x: Any, op: str) -> Tensor:
    """One operand as a tensor of floats or complex numbers."""
    return require_floats(as_operand(x), op)


def matrix_operand(x: Any, op: str, *, square: bool = False) -> Tensor:
    """One operand as a tensor of matrices of floats or complex numbers."""
    t = float_operand(x, op)
    shape = t._layout.shape
    if len(shape) < 2 or (square and shape[-1] != shape[-2]):
        kind = "square matrices are needed (shape [..., n, n])" if square else "matrices are needed (shape [..., m, n])"
        raise errors.ShapeError(f"{op}: {kind}, not the shape {t._layout.tensor_shape}")
    return t


def promoted(prim: Primitive, tensors: list[Tensor]) -> list[Tensor] | None:
    """Integer operands of true division as floats; None for other ops or operands."""
    if prim.promotes and all(t._layout.dtype.kind in "iu" for t in tensors):
        check_same(prim, tensors)
        small = tensors[0]._layout.dtype.itemsize <= 2
        return [REGISTRY["cast"](t, dtype=np.dtype(np.float32 if small else np.float64)) for t in tensors]
    return None


def text_as_array(v: Any) -> Any:
    """A string as an array without axes, for kernels that need a shape. Other values stay unchanged."""
    if v.__class__ is not bytes:
        return v
    made = np.empty((), object)
    made[()] = v
    return made


def failure(
    prim: Primitive, tensors: tuple[Tensor, ...], e: Exception, params: dict[str, Any] | None = None
) -> Exception:
    """The error for a failed kernel, with the op, the dtypes, the shapes and the parameters."""
    if isinstance(e, errors.OpError):
        return e  # the kernel's own error, which is clear
    given = [f"{u.dtype.name}{list(u._layout.shape)}" for u in tensors]
    given += [f"{k}={shown(v)}" for k, v in (params or {}).items()]
    shapes = ", ".join(given)
    reason = str(e)
    if isinstance(e, MemoryError):
        return exhausted(f"{prim.name}({shapes})", e)
    if not isinstance(e, ValueError | IndexError | np.linalg.LinAlgError) or not reason.strip():
        what = "of these dtypes, shapes and values" if not params else "of these tensors with these parameters"
        return errors.OperandTypeError(f"{prim.name}({shapes}) is not defined: no result {what}. NumPy says: {reason}")
    if prim.kind == "elementwise" and "broadcast" in reason:
        reason = "incompatible shapes: counted from the last axis, sizes must be equal, or one of them 1"
    elif prim.misfit is not None:
        reason = prim.misfit(*[t._layout.shape for t in tensors]) or reason
    return errors.InvalidArgumentError(f"{prim.name}({shapes}): {reason.strip()}")


def whole_numbers(v: Any, op: str, name: str) -> np.ndarray[Any, Any]:
    """Counts or indices as int64. Fractions are cut off, as in a cast.

    Raises an OperandTypeError for strings and complex numbers, and an InvalidArgumentError for numbers beyond int64.
    """
    t = as_operand(v)
    found = np.asarray(t._value)
    if found.dtype.kind not in "biuf":
        raise errors.OperandTypeError(f"{op}: `{name}` must be whole numbers, not {t.dtype.name}")
    if found.dtype.kind == "f" and not (np.abs(found.astype(np.float64)) < 2**63).all():
        raise errors.InvalidArgumentError(
            f"{op}: `{name}` must be whole numbers below 2**63, got {shown(found.tolist())}"
        )
    return found.astype(np.int64)
