"""Locks that an interrupt does not leave held, and that a forked child finds free.

What several threads change is changed under a lock, with or without a global interpreter lock. The recording path takes
none.

A block under a lock holds no loop or comprehension with a condition, but calls a function that does: Python 3.13 leaves
the jump back to the loop's head out of the block's exception table, so that an interrupt there would not free the lock.
The same goes for a block that `finally` ends.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from operator import attrgetter
from typing import Any

__all__ = ["Lock", "of_optimizer", "of_variable", "sharing"]

# How long a fork waits for the locks that other threads hold, in seconds.
_PATIENCE = 1.0
# How many locks the variables share among them: a lock of its own for each would cost as much as a small variable.
_STRIPES = 64


class Lock:
    """A lock that the thread which holds it may take again, for `with` statements.

    Parameters
    ----------
    renew : callable, optional
        Called in a forked child where another thread of the parent held the lock all the time, and may have left what
        it guards half done.
    """

    __slots__ = ("_inner", "_renew", "now")

    def __init__(self, renew: Callable[[], None] | None = None) -> None:
        self._set(threading.RLock())
        self._renew = renew
        _all.append(self)

    def _set(self, inner: Any) -> None:
        self._inner = inner
        # What to write in a `with` statement that has no time for properties: ``with lock.now:``.
        self.now: Any = self if sys.version_info >= (3, 14) else inner

    def _enter(self) -> None:
        inner = self._inner
        try:
            inner.acquire()
        except BaseException:
            # An interrupt came while this thread waited, or as soon as it had the lock, before the block began.
            try:  # noqa: SIM105 - contextlib would be an import, and more windows for the next interrupt
                inner.release()
            except RuntimeError:
                pass
            raise

    # Up to Python 3.13 no interrupt comes between a built-in `__enter__` and the block; that of 3.14 is a call like any
    # other, after which one may come.
    __enter__ = _enter if sys.version_info >= (3, 14) else property(attrgetter("_inner.__enter__"))
    # No Python function: an interrupt at its first instruction would leave the lock held.
    __exit__ = property(attrgetter("_inner.__exit__"))

    def take(self, seconds: float) -> bool:
        """Take it within some seconds; whether that succeeded."""
        return bool(self._inner.acquire(timeout=seconds))

    def give_back(self) -> None:
        """Undo one `take`."""
        self._inner.release()

    def replace(self) -> None:
        """In a child, which has no thread that would ever free it: begin anew."""
        self._set(threading.RLock())
        if self._renew is not None:
            self._renew()


_all: list[Lock] = []

# Held where the sessions of a leaf change, or the leaf of a tensor or variable: several threads may watch one. A tape
# may end in a thread that holds it, by the collector. The first lock, and so the last that a fork waits for: whoever
# holds another one may need it.
sharing = Lock()
_of_variables = [Lock() for _ in range(_STRIPES)]
_of_optimizers = [Lock() for _ in range(_STRIPES)]


def of_variable(number: int) -> Lock:
    """The lock under which a variable changes, by the number of the variable."""
    return _of_variables[number % _STRIPES]


def of_optimizer(optimizer: object) -> Lock:
    """The lock under which an optimizer takes a step; never taken by one who holds a variable's."""
    return _of_optimizers[id(optimizer) // 16 % _STRIPES]


class _OfThread(threading.local):
    taken: list[Lock] | None = None


_own = _OfThread()


def _before_fork() -> None:
    """Take all locks, so that the child finds whole what they guard."""
    taken = _own.taken = []
    end = time.monotonic() + _PATIENCE
    for lock in reversed(_all):
        if lock.take(max(0.0, end - time.monotonic())):
            taken.append(lock)


def _in_parent() -> None:
    for lock in reversed(_own.taken or ()):
        lock.give_back()
    _own.taken = None


def _in_child() -> None:
    taken = {id(lock) for lock in _own.taken or ()}
    _in_parent()
    for lock in _all:
        if id(lock) not in taken:
            lock.replace()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
