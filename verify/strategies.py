"""Hypothesis strategies from the declarations of primitives: numbers, tensors, calls of ops, whole programs.

All binades of the dtype are equally likely, and numbers near special points, kinks, roots, ends of the domain and
the edges of overflow are frequent; `floats_for` states the shares. All strategies shrink towards small numbers and the
special points. `aim` makes a search look for large errors, and `shrinking` limits the time of shrinking.
"""

from __future__ import annotations

from gtape.verify.programs.hypothesis_helpers import aim, shrinking
from gtape.verify.programs.programs import programs
from gtape.verify.search.calls import Call, arguments, floats_for, op_calls, shapes, tensors

__all__ = ["Call", "aim", "arguments", "floats_for", "op_calls", "programs", "shapes", "shrinking", "tensors"]


def __dir__() -> list[str]:
    return sorted(__all__)
