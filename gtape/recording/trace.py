"""What a checked tape keeps beside its records: all values, the user's source lines, and the branches taken."""

from __future__ import annotations

import sys
import weakref
from typing import Any

from gtape.base.own_files import is_own
from gtape.recording.record import TAPES, Session, get_stack

__all__ = ["GradNode", "Trace", "branches_taken", "called_within_assertions", "note_branch", "user_line"]

# By session: (record, value, the user's line) of each truth value that Python asked for.
_BRANCHES: weakref.WeakKeyDictionary[Session, list[tuple[Any, Any, Any]]] = weakref.WeakKeyDictionary()


def _is_ours(frame: Any) -> bool:
    return is_own(frame.f_code.co_filename)


def user_line() -> tuple[str, int, str]:
    """File, line number and function of the innermost frame that is not the library's own."""
    frame: Any = sys._getframe()
    while frame is not None:
        if not _is_ours(frame):
            return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        frame = frame.f_back
    return "<unknown>", 0, "?"


def called_within_assertions() -> bool:
    """Whether an assertion of the library runs, between the user's innermost frame and here.

    Modules of assertions say so by a constant ``ASSERTS``; assertions go on in the same way whatever they find.
    """
    frame: Any = sys._getframe()
    while frame is not None and _is_ours(frame):
        if "ASSERTS" in frame.f_globals:
            return True
        frame = frame.f_back
    return False


class Trace:
    """Everything that one op saw and made.

    Attributes
    ----------
    inputs : tuple of Tensor
    output : raw value or tuple of raw values
    line : (file, number, function)
    origins : tuple of record or None
        The records of the inputs, which these forget when the last tape that holds them ends.
    flows : tuple of frozenset or None
        For each input the sessions that follow it back; None for a constant.
    idle : bool
        Whether the op was recorded for the check alone.
    body : for custom gradients, what the function did inside
    body_origins : tuple of record or None
        The records of the body's results.
    """

    __slots__ = ("body", "body_origins", "flows", "idle", "inputs", "line", "origins", "output")

    def __init__(self, inputs: tuple[Any, ...], output: Any, stack: Any) -> None:
        self.inputs = inputs
        self.output = output
        self.line = user_line()
        self.origins: tuple[Any, ...] = tuple([x._record for x in inputs])
        # Now: a tape that ends leaves the sets of the records that outlive it.
        self.flows = tuple([None if r is None else stack.meet(r[TAPES]).sessions for r in self.origins])
        self.idle = False
        self.body: Any = None
        self.body_origins: tuple[Any, ...] = ()


class GradNode:
    """A gradient that was taken under an outer tape: of what, with respect to what, with which cotangents.

    Attributes
    ----------
    targets : list of record
    cotangents, sources : lists of (record or None, raw value)
    index : int
        Which of the sources this gradient belongs to.
    session : the session of the inner tape
    """

    __slots__ = ("cotangents", "index", "session", "sources", "targets")

    def __init__(self, targets: Any, cotangents: Any, sources: Any, index: int, session: Any) -> None:
        self.targets = targets
        self.cotangents = cotangents
        self.sources = sources
        self.index = index
        self.session = session


def note_branch(tensor: Any) -> None:
    """Keep the truth value of a tensor with a record: where the comparison is a tie, the branch is a choice."""
    stack = get_stack()
    if not stack.trace or called_within_assertions():
        return
    line = user_line()
    for session in stack.sessions:
        if session.trace and session in tensor._record[TAPES].sessions:
            _BRANCHES.setdefault(session, []).append((tensor._record, tensor._value, line))


def branches_taken(session: Any) -> list[tuple[Any, Any, Any]]:
    """(record, value, the user's line) of each truth value that was asked for while a session recorded."""
    return _BRANCHES.get(session, [])
