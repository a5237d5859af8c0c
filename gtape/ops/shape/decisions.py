"""Places and masks that NumPy works out from a tensor: constants to a tape, kept for a check with what decided them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.declare.primitive import primitive
from gtape.declare.rounding import EXACT
from gtape.recording import record
from gtape.tensors.tensor import Tensor, wrap

__all__: list[str] = []


def _kernel(x: Any, *, work: Callable[[Any], Any]) -> Any:
    return work(np.asarray(x))


_decided = primitive(
    "decided",
    _kernel,
    (None,),
    (None,),
    params=("work",),
    role="decision",
    rounding=EXACT,
    public=False,
    samples=(
        ((np.array([2, 0, 2]),), {"work": np.flatnonzero}),
        ((np.array([[True, False], [False, True]]),), {"work": np.argwhere}),
    ),
)


def decided(work: Callable[[Any], Any], t: Tensor) -> Tensor:
    """What a function of NumPy arrays makes of a tensor: whole numbers, truth values, or what is told from these.

    Parameters
    ----------
    work : callable
        Takes the value as an array, returns an array. Of floats it may only compare elements: in a check they are
        exact numbers, in an array of objects.
    t : Tensor

    Returns
    -------
    Tensor
        A constant. While a checked tape records, and knows where `t` came from, it is recorded: the check then sees
        which values decided it.
    """
    if t._record is not None:
        stack = record.peek()
        if stack is not None and stack.trace:
            made: Tensor = _decided(t, work=work)
            return made
    return wrap(work(np.asarray(t._value)))
