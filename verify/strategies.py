"""Hypothesis strategies from the declarations of primitives: numbers, tensors, calls of ops, whole programs.

Every binade of the dtype is equally likely, and so are the neighbourhoods of special points, kinks, ends of the domain,
zeros of both signs and ties. All strategies shrink towards small numbers and the special points.
"""

from __future__ import annotations

from gtape.verify.search.calls import Call, arguments, floats_for, op_calls, shapes, tensors

__all__ = ["Call", "arguments", "floats_for", "op_calls", "shapes", "tensors"]


def __dir__() -> list[str]:
    return sorted(__all__)
