"""What a checked tape keeps besides its records: all values, the user's source lines, and the branches taken."""

from __future__ import annotations

import sys
import weakref
from typing import Any, NamedTuple

from gtape.base.own_files import is_own
from gtape.recording.record import TAPES, Session, count, get_stack

__all__ = [
    "Conversion", "GradNode", "Trace", "branches_taken", "called_within_assertions", "conversions_made", "note_branch",
    "note_conversion", "user_line",
]  # fmt: skip

Noted = list[tuple[Any, Any, Any]]  # (record, value, the user's line)


class Conversion(NamedTuple):
    """A recorded tensor that became a number or an array.

    Attributes
    ----------
    record : Record
    value : raw value
    line : (file, number, function)
        The user's line.
    number : int
        As in records: the ops that were recorded later have smaller numbers.
    inside : bool
        Whether a custom gradient ran.
    """

    record: Any
    value: Any
    line: Any
    number: int
    inside: bool


# By session: each tensor whose truth value Python took, and each tensor that became a number or an array.
_BRANCHES: weakref.WeakKeyDictionary[Session, Noted] = weakref.WeakKeyDictionary()
_CONVERSIONS: weakref.WeakKeyDictionary[Session, list[Conversion]] = weakref.WeakKeyDictionary()


def _is_ours(frame: Any) -> bool:
    return is_own(frame.f_code.co_filename)


def user_line() -> tuple[str, int, str]:
    """File, line number and function of the innermost frame outside the library."""
    frame: Any = sys._getframe()
    while frame is not None:
        if not _is_ours(frame):
            return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        frame = frame.f_back
    return "<unknown>", 0, "?"


def called_within_assertions() -> bool:
    """Whether a library assertion runs inside the user's innermost frame; such modules have a constant ``ASSERTS``.

    Truth values that an assertion takes are not branches, because nothing else depends on them.
    """
    frame: Any = sys._getframe()
    while frame is not None and _is_ours(frame):
        if "ASSERTS" in frame.f_globals:
            return True
        frame = frame.f_back
    return False


def _called_within_customs() -> bool:
    """Whether a function of a custom gradient runs; the module that calls it has a constant ``CUSTOMS``."""
    frame: Any = sys._getframe()
    while frame is not None:
        if "CUSTOMS" in frame.f_globals and _is_ours(frame):
            return True
        frame = frame.f_back
    return False


class Trace:
    """The inputs and outputs of one op, and how they depend on others.

    Attributes
    ----------
    inputs : tuple of Tensor
    output : raw value or tuple of raw values
    line : (file, number, function)
    origins : tuple of record or None
        The records of the inputs, kept here because tensors forget their records when the last tape ends.
    flows : tuple of frozenset or None
        For each input, the sessions that differentiate by it; None for a constant.
    idle : bool
        Whether the op was recorded for the check alone.
    body : for custom gradients, the results of the function's body; a `GradNode` for a derivative
    body_origins : tuple of record or None
        The records of the body's results.
    call : (function, arguments, keyword arguments) or None
        The call of a custom gradient's function.
    """

    __slots__ = ("body", "body_origins", "call", "flows", "idle", "inputs", "line", "origins", "output")

    def __init__(self, inputs: tuple[Any, ...], output: Any, stack: Any) -> None:
        self.inputs = inputs
        self.output = output
        self.line = user_line()
        self.origins: tuple[Any, ...] = tuple([x._record for x in inputs])
        # Taken now, because a tape that ends leaves the sets of the records that outlive it.
        self.flows = tuple([None if r is None else stack.meet(r[TAPES]).sessions for r in self.origins])
        self.idle = False
        self.body: Any = None
        self.body_origins: tuple[Any, ...] = ()
        self.call: Any = None


class GradNode:
    """A derivative that was taken under an outer tape: its targets, sources, and cotangents or tangents.

    Attributes
    ----------
    targets : list of record
    given : list of (record or None, raw value)
        For "gradient" the cotangents of the targets, for "jvp" the tangents of the sources; empty for Jacobians.
    sources : list of (record or None, raw value)
    index : int
        Which of the sources this derivative belongs to.
    session : the session of the inner tape
    form : {"gradient", "jacobian", "batch_jacobian", "jvp"}
    """

    __slots__ = ("form", "given", "index", "session", "sources", "targets")

    def __init__(self, targets: Any, given: Any, sources: Any, index: int, session: Any, form: str) -> None:
        self.targets = targets
        self.given = given
        self.sources = sources
        self.index = index
        self.session = session
        self.form = form


def note_branch(tensor: Any) -> None:
    """Keep a tensor whose truth value was taken, because a tie in its comparison makes the branch arbitrary."""
    for session in _noting(tensor):
        _BRANCHES.setdefault(session, []).append((tensor._record, tensor._value, user_line()))


def note_conversion(tensor: Any) -> None:
    """Keep a tensor that became a number or an array, because its value may come back as a constant."""
    sessions = _noting(tensor)
    if sessions:
        made = Conversion(tensor._record, tensor._value, user_line(), next(count), _called_within_customs())
        for session in sessions:
            _CONVERSIONS.setdefault(session, []).append(made)


def _noting(tensor: Any) -> list[Session]:
    """The sessions that keep what happens to a tensor."""
    stack = get_stack()
    if not stack.trace or called_within_assertions():
        return []
    return [s for s in stack.sessions if s.trace and s in tensor._record[TAPES].sessions]


def branches_taken(session: Any) -> Noted:
    """(record, value, the user's line) of each truth value taken while a session recorded."""
    return _BRANCHES.get(session, [])


def conversions_made(session: Any) -> list[Conversion]:
    """Each tensor that became a number or an array while a session recorded."""
    return _CONVERSIONS.get(session, [])
