"""Indices and masks that NumPy computes from a tensor. Tapes see constants, and checks see the tensor, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.declare.primitives import REGISTRY, primitive
from gtape.declare.rounding import EXACT
from gtape.recording import record
from gtape.recording.trace import note_decision
from gtape.tensors.axes import integers_read
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


def decided(work: Callable[..., Any], *tensors: Tensor) -> Tensor:
    """The integers or truth values that a function of NumPy arrays computes from tensors, as a constant.

    `work` may only compare floats, because a check passes arrays of exact numbers. While a checked tape records one of
    the tensors, the decision is recorded, too, so that the check knows the values that decided. Several tensors are all
    of integers, or have one dtype.
    """
    if is_followed(*tensors):
        made: Tensor = _decided(tensors[0], work=work) if len(tensors) == 1 else _decided_together(work, tensors)
        note_decision(made)
        return made
    later = record.decided_later(work, tensors)
    return wrap(work(*[np.asarray(t._value) for t in tensors])) if later is None else later


def checked(check: Callable[..., None], *tensors: Tensor) -> None:
    """Call a function that raises an error for wrong arrays. Each call of a compiled function calls the function, too.

    `check` may not hold the value of a tensor.
    """

    def check_values(*values: Any) -> None:
        check(*[np.asarray(v) for v in values])

    if not record.checked_later(check_values, [*tensors]):
        check_values(*[t._value for t in tensors])


def truth_decided(work: Callable[..., Any], *tensors: Tensor) -> bool:
    """A truth value that a function of NumPy arrays computes from tensors, and by which an op chooses its way.

    A program of a compiled function is valid for one truth value. No check notes the way, so an op that a check follows
    (`is_followed`) takes the way that is right for all values.
    """
    values = [wrap(t._value) for t in tensors]
    return bool(decided(lambda *v: np.asarray(work(*v), np.bool_), *values)._value)


def size_decided(work: Callable[..., Any], *tensors: Tensor) -> int:
    """An integer that a function of NumPy arrays computes from tensors, such as a size, which ops take as a constant.

    A check notes it as it notes a branch, because the program has another constant where the tensors decide otherwise.
    """
    return int(integers_read(decided(lambda *v: np.asarray(work(*v), np.int64), *tensors)))


def is_followed(*tensors: Tensor) -> bool:
    """Whether a check sees decisions by one of these tensors. Its decisions may then have other outcomes elsewhere."""
    if all(t._record is None for t in tensors):
        return False
    stack = record.peek()
    return stack is not None and bool(stack.trace)


def _decided_together(work: Callable[..., Any], tensors: tuple[Tensor, ...]) -> Any:
    """A decision by the elements of several tensors in one line, because the primitive takes one tensor."""
    dtype = np.result_type(*[t._layout.dtype for t in tensors])
    shapes = [t._layout.shape for t in tensors]
    lines = [REGISTRY["reshape"](t, shape=(t._layout.size,)) for t in tensors]
    lines = [t if t._layout.dtype == dtype else REGISTRY["cast"](t, dtype=dtype) for t in lines]
    ends = np.cumsum([t._layout.size for t in tensors])[:-1]

    def apart(line: Any) -> Any:
        return work(*[part.reshape(shape) for part, shape in zip(np.split(line, ends), shapes, strict=True)])

    return _decided(REGISTRY["concat"](*lines, axis=-1), work=apart)
