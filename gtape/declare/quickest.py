"""Python's operators in place of NumPy's ufuncs, where they compute the same bits with less overhead."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.declare.primitives import Primitive

__all__ = ["quickest"]

# An operator computes NumPy's scalars without a loop. Complex scalars are left to the ufunc, because its loop may round
# products differently.
_OPERATORS: dict[Any, Callable[..., Any]] = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul, np.true_divide: operator.truediv,
    np.negative: operator.neg,
}  # fmt: skip


def quickest(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The operator of a ufunc for real numbers, if Python has one; otherwise the kernel itself.

    While a check replaces the `run` of stacks, the result is always the kernel, because the check reports the kernel's
    name.
    """
    return _OPERATORS.get(kernel, kernel) if Primitive.inlined and kernel.__class__ is np.ufunc else kernel
