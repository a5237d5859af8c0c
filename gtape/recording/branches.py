"""Python branches taken on recorded values, kept for a check: where the comparison is a tie, the branch is a choice."""

from __future__ import annotations

import weakref
from typing import Any

from gtape.recording import record
from gtape.recording.record import TAPES, Session

__all__ = ["note", "taken"]

_TAKEN: weakref.WeakKeyDictionary[Session, list[tuple[Any, Any, Any]]] = weakref.WeakKeyDictionary()


def note(tensor: Any) -> None:
    """Keep a truth value that Python asks for, where a checked tape recorded what it hangs on.

    Parameters
    ----------
    tensor : Tensor
        With a record.
    """
    stack = record.get_stack()
    if not stack.trace:
        return
    from gtape.recording.trace import called_within_assertions, user_line

    if called_within_assertions():
        return
    line = user_line()
    for session in stack.sessions:
        if session.trace and session in tensor._record[TAPES].sessions:
            _TAKEN.setdefault(session, []).append((tensor._record, tensor._value, line))


def taken(session: Any) -> list[tuple[Any, Any, Any]]:
    """(record, value, the user's line) of each truth value that was asked for while a session recorded."""
    return _TAKEN.get(session, [])
