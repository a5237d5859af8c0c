"""Indices and masks that NumPy computes from a tensor. Tapes see constants, and checks see the tensor, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.declare.primitives import primitive
from gtape.declare.rounding import EXACT
from gtape.recording import record
from gtape.tensors.tensor import Tensor, wrap

__all__: list[str] = []


def _kernel(x: Any, *, work: Callable[[Any], Any]) -> Any:
    return work(np.asarray(x))


_decided = primitive(
    "decided", _kernel, (None,), (None,),
    params=("work",), role="decision", rounding=EXACT,
    samples=(
        ((np.array([2, 0, 2]),), {"work": np.flatnonzero}),
        ((np.array([[True, False], [False, True]]),), {"work": np.argwhere}),
    ),
)  # fmt: skip


def decided(work: Callable[[Any], Any], t: Tensor) -> Tensor:
    """The integers or truth values that a function of NumPy arrays computes from a tensor, as a constant.

    `work` may only compare floats, because a check passes arrays of exact numbers. While a checked tape records `t`,
    the decision is recorded, too, so that the check knows the values that decided.
    """
    if t._record is not None:
        stack = record.peek()
        if stack is not None and stack.trace:
            made: Tensor = _decided(t, work=work)
            return made
    return wrap(work(np.asarray(t._value)))
