"""The public docstring of a primitive, written from its declaration."""

from __future__ import annotations

from typing import Any

from gtape.domains import ANY_REAL, BOOLEAN
from gtape.primitive import Primitive

__all__ = ["docstring_of"]


def _convention(prim: Primitive) -> str:
    if not prim.kinks:
        return ""
    points = ", ".join(str(k) for k in prim.kinks)
    return f"\nKinked at: {points}. What the derivative is there: see the table of conventions.\n"


def _kinds(prim: Primitive, i: int) -> str:
    """Which dtypes an argument has, and where the op is defined."""
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
    rest = " and so on" if interval.holes and prim.domain.where is not None else ""  # poles without end
    return f"{text}; {'if real, ' if prim.complex else ''}defined on {interval}{rest}"


def docstring_of(prim: Primitive) -> str:
    """NumPy-style text: summary, arguments, result, errors, domain and, where the declaration has one, an example."""
    n = max(prim.arity, 1)
    names = prim.arguments or ("x", "y", "z")[:n] if prim.arity > 0 else ("*tensors",)
    lines = [prim.summary or f"{prim.name}.", "", "Parameters", "----------"]
    for i, name in enumerate(names):
        lines.append(f"{name} : tensor, any shape, {_kinds(prim, i)}")
    if n > 1 and prim.kind == "elementwise":
        lines.append("    Broadcast against each other.")
    lines += [f"{p} : static" for p in prim.params]
    if not prim.params:
        lines += ["name : str, optional", "    Ignored; TensorFlow has it."]
    lines += ["", "Returns", "-------", "Tensor", "", "Raises", "------", "gtape.errors.InvalidArgumentError"]
    lines.append("    For another dtype, for operands of different dtypes, or shapes that do not fit.")
    lines += _convention(prim).splitlines()
    if prim.example is not None:
        arguments, value = prim.example
        call = ", ".join(_literal(a) for a in arguments)
        lines += [
            "",
            "Examples",
            "--------",
            ">>> import gtape",
            ">>> from math import isclose",
            f">>> y = gtape.math.{prim.name}({call})",
        ]
        lines += [f">>> isclose(float(y), {value!r}, rel_tol=4e-16, abs_tol=4e-16)", "True"]
    return "\n".join(lines) + "\n"


def _literal(a: Any) -> str:
    if isinstance(a, bool):
        return repr(a)
    return f"gtape.constant({a!r}, 'float64')"
