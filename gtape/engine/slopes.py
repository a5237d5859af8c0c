"""Slopes of a tensor by an older tensor, from the records of a tape that is still open.

A rule in the tape world may need more than cotangents: how a cotangent itself depends on the op's output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gtape.engine.full_sweep import full_sweep, runner_for
from gtape.engine.worlds import NUMPY
from gtape.recording.record import SEQ, TAPES, get_stack
from gtape.tensors.tensor import Tensor

__all__ = ["slope"]


def slope(of: Any, by: Any) -> Callable[[Any], Any] | None:
    """The function from raw cotangents of a tensor to those of an older tensor; None if no tape records the way.

    A cotangent is None if the tensors are not connected. Outside the tape world the result is None, too.
    """
    if not isinstance(of, Tensor) or not isinstance(by, Tensor):
        return None
    target, source = of._record, by._record
    if target is None or source is None:
        return None
    stack = get_stack()
    for session in stack.sessions:
        if session.forward is None and session in target[TAPES].sessions and session in source[TAPES].sessions:
            run, stops = runner_for(stack, session), frozenset({source[SEQ]})
            return lambda g: run(full_sweep, NUMPY, session, [(target, g)], [source], sparse=False, stops=stops)[0][0]
    return None
