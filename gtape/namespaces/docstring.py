"""The public docstring of a primitive, written from its declaration."""

from __future__ import annotations

from typing import Any

from gtape.declare.domains import ANY_REAL, BOOLEAN
from gtape.declare.primitives import Primitive
from gtape.namespaces.catalogue import public_path

__all__ = ["describe", "docstring_of"]


def _convention(prim: Primitive) -> str:
    if not prim.differentiable:
        return "\nNot differentiable: the gradient is None.\n"
    if not prim.kinks:
        return ""
    x = (prim.arguments or ("x",))[0]
    points = [f"{x} = {k:g}" if isinstance(k, (int, float)) else str(k) for k in prim.kinks]
    where = f"Kinks: {', '.join(points)}" if len(points) > 1 else f"A kink: {points[0]}"
    return f"\n{where}. `gtape conventions` shows what the derivative is there.\n"


def _kinds(prim: Primitive, i: int) -> str:
    """The dtypes of an argument, and the domain of the op."""
    interval = prim.domain.intervals[i] if prim.kind == "elementwise" and i < len(prim.domain.intervals) else None
    if interval is BOOLEAN:
        return "bool"
    if prim.ints:
        text = "any number type"
    elif prim.complex:
        text = "float16, float32, float64, complex64 or complex128"
    else:
        text = "float16, float32 or float64"
    if interval is None or interval == ANY_REAL:
        return text
    rest = " and so on" if interval.holes and prim.domain.where is not None else ""  # infinitely many poles
    return f"{text}; {'if real, ' if prim.complex else ''}defined on {interval}{rest}"


def docstring_of(prim: Primitive) -> str:
    """NumPy-style text: summary, arguments, result, errors, domain and, if declared, an example."""
    n = max(prim.arity, 1)
    names = prim.arguments or ("x", "y", "z")[:n] if prim.arity > 0 else ("*tensors",)
    lines = [prim.summary or f"{prim.name}.", "", "Parameters", "----------"]
    for i, name in enumerate(names):
        lines.append(f"{name} : tensor, any shape, {_kinds(prim, i)}")
    if n > 1 and prim.kind == "elementwise":
        lines.append("    Broadcast against each other.")
    lines += [f"{p} : static" for p in prim.params]
    lines += ["", "Returns", "-------", _result(prim, names)]
    lines += ["", "Raises", "------", "gtape.errors.InvalidArgumentError"]
    lines.append("    For another dtype, for operands of different dtypes, or shapes that do not fit.")
    lines += _convention(prim).splitlines()
    if prim.example is not None:
        arguments, value = prim.example
        call = f"{public_path(prim.name, prim.module)}({', '.join(_literal(a) for a in arguments)})"
        lines += ["", "Examples", "--------", ">>> import gtape as tf"]
        if isinstance(value, bool):
            lines += [f">>> bool({call})", str(value)]
        else:  # digits that are the same on every machine
            lines += [f">>> y = {call}", '>>> print(f"{y:.12g}")', f"{value:.12g}"]
    return "\n".join(lines) + "\n"


def _result(prim: Primitive, names: Any) -> str:
    if prim.kind != "elementwise":
        return "Tensor"
    shape = f"shape of `{names[0]}`" if len(names) == 1 else "the shape that the operands broadcast to"
    kind = "bool" if prim.example is not None and isinstance(prim.example[1], bool) else "the dtype of the operands"
    return f"Tensor, {shape}, {kind if len(names) > 1 or kind == 'bool' else 'and its dtype'}"


def _literal(a: Any) -> str:
    return repr(a) if isinstance(a, bool) else f"tf.constant({a!r}, tf.float64)"


def describe(function: Any, prim: Primitive) -> None:
    """Give the generated function of a primitive its docstring and its public name."""
    function.__doc__ = docstring_of(prim)
    function.__module__ = "gtape.math"
    function.__qualname__ = function.__name__ = prim.name
