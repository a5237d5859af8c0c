"""`with` statements that make a recording active, and end it whatever ends them.

An interrupt may come between any two calls: in `__enter__` when the recording is active already, or at the first
instruction of `__exit__`, before that could do anything. What then remains has to heal by itself. The interpreter holds
the bound `__exit__` of a `with` statement from before `__enter__` is called until the statement is over, however it is
left. So the bound `__exit__` is made here, once for each statement, and a weak reference to it tells when it dies: a
recording that is active still is made inactive then. Where there is no such statement (`tape.__enter__()` called by
hand), the death of the tape or accumulator does the same.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from gtape import record

__all__ = ["Leaving", "begin", "is_open"]


class _Watch(weakref.ref[Any]):
    """A weak reference to the bound `__exit__` of one `with` statement, with the session that it is to leave."""

    __slots__ = ("session",)

    session: Any


def _over(watch: Any) -> None:
    """The statement is over: its session must not be active any longer."""
    session = watch.session
    if session is not None:
        record.leave(session)


class Leaving:
    """The `__exit__` of a class: a function that is bound to an instance anew for each `with` statement.

    Parameters
    ----------
    function : callable
        ``function(instance, *exc)``. The instances have an attribute `_watch`, which is None at first.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self.function
        # Calling a partial is no Python call: a traceback that is kept does not keep it.
        bound = partial(self.function, instance)
        watch = _Watch(bound, _over)
        watch.session = None
        instance._watch = watch
        return bound


def begin(instance: Any, session: record.Session) -> None:
    """Make the session of a tape or accumulator active; the caller holds `gtape.record.sharing`."""
    watch, instance._watch = instance._watch, None
    record.enter(session, watch if is_open(watch) else None)


def is_open(watch: Any) -> bool:
    """Whether the `with` statement that a weak reference was made for goes on."""
    return watch is not None and watch() is not None
