"""Numbers of the user's that are no values of a tape, although they may be equal to such a value.

A number or a tensor that existed before a value left the tape cannot hold the value. Only the identity of an object
proves its age, because equal numbers may be of any age.
"""

from __future__ import annotations

import dis
import gc
import math
import sys
import weakref
from types import ModuleType
from typing import Any

from gtape.base.own_files import is_users

__all__ = ["TENSORS", "ConstantsAlive", "is_asked_for_truth", "is_literal"]

TENSORS: list[type] = []  # the class of tensors, whose module adds it, because imports run one way

_TRUTHS = (math.isfinite, math.isinf, math.isnan, math.isclose)
_OF_NAMES = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_DEREF")
_OF_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")


class ConstantsAlive:
    """The constant tensors that exist now.

    Examples
    --------
    >>> import gtape as tf
    >>> before = tf.constant(0.1)
    >>> alive = ConstantsAlive()
    >>> alive.has(before._value), alive.has(tf.constant(0.1)._value)
    (True, False)
    """

    def __init__(self) -> None:
        objects: list[Any] = gc.get_objects()
        tensors: list[Any] = [t for t in objects if t.__class__ in TENSORS and getattr(t, "_record", t) is None]
        self._holders: dict[int, weakref.ref[Any]] = {id(t._value): weakref.ref(t) for t in tensors}

    def has(self, value: Any) -> bool:
        """Whether a raw value is that of such a tensor."""
        holder = self._holders.get(id(value))
        tensor = None if holder is None else holder()
        return tensor is not None and tensor._value is value


def is_literal(constant: Any) -> bool:
    """Whether a number is one that the user's innermost frame writes itself, or a library's, such as `math.pi`.

    Numbers that Python computes from literals at run time, such as ``math.pi / 4``, are new objects.
    """
    if constant.__class__ not in (float, complex):
        return False
    frame: Any = sys._getframe()
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return False
    code = frame.f_code
    if any(v is constant for v in code.co_consts):
        return True
    modules = [m for m in map(frame.f_globals.get, code.co_names) if _is_library(m)]
    return any(vars(m).get(name) is constant for m in modules for name in code.co_names)


def is_asked_for_truth(frame: Any) -> bool:
    """Whether a frame converts a tensor for a function of truth values, such as `math.isfinite`.

    Then the number never reaches the frame. The names before the call tell its function, because Python keeps the
    places of all instructions in the source.
    """
    steps = list(dis.get_instructions(frame.f_code))
    k = next((k for k, step in enumerate(steps) if step.offset == frame.f_lasti), None)
    start = None if k is None else _start_of(steps[k])
    if k is None or start is None or not steps[k].opname.startswith("CALL"):
        return False
    found: Any = None
    for step in [step for step in steps[:k] if _start_of(step) == start]:
        if step.opname in _OF_NAMES:
            found = frame.f_locals.get(step.argval, frame.f_globals.get(step.argval))
        elif step.opname in _OF_ATTRIBUTES:
            found = vars(found).get(step.argval) if isinstance(found, ModuleType) else None
    return any(found is f for f in _TRUTHS)


def _start_of(step: dis.Instruction) -> tuple[int, int] | None:
    """The line and column of the source where the expression of an instruction starts; None if Python kept neither."""
    at = step.positions
    return None if at is None or at.lineno is None or at.col_offset is None else (at.lineno, at.col_offset)


def _is_library(module: Any) -> bool:
    """Whether a value is a module of Python or of a library that no program writes numbers to."""
    if not isinstance(module, ModuleType):
        return False
    file = getattr(module, "__file__", None)
    return module.__name__ in sys.stdlib_module_names or (file is not None and not is_users(file))
