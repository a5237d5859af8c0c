"""Locks that are free after an interrupt, and free in a forked child.

Data that several threads change are changed under a lock, with or without a global interpreter lock. The recording path
takes no lock.

A block under a lock must not contain a loop or a comprehension. Instead the block calls a function. Python 3.13 leaves
the jump back to the head of a loop out of the block's exception table, so an interrupt there would not free the lock.
The same holds for a block with `finally`.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

from gtape.base.imports import around_fork

__all__ = ["Lock", "lock_order", "of_optimizer", "of_variable", "sharing"]

# The seconds that a fork waits for locks of other threads.
_PATIENCE = 1.0
# The number of locks that all variables share, because a lock for each would cost as much as a small variable.
_STRIPES = 64


class Lock:
    """A lock for `with` statements, which the holding thread may take again.

    A forked child calls `renew` if another thread of the parent held the lock, because the guarded data may be in the
    middle of a change.
    """

    __slots__ = ("__weakref__", "_inner", "_renew", "now")

    def __init__(self, renew: Callable[[], None] | None = None) -> None:
        self._set(threading.RLock())
        self._renew = renew
        number = next(_numbers)
        _all[number] = weakref.ref(self, partial(_forget, number))

    def _set(self, inner: Any) -> None:
        self._inner = inner
        # ``with lock.now:`` is faster, because it avoids the properties below.
        self.now: Any = self if sys.version_info >= (3, 14) else inner

    def _enter(self) -> None:
        inner = self._inner
        try:
            inner.acquire()
        except BaseException:
            # An interrupt came while this thread waited, or after it got the lock and before the block began.
            try:  # noqa: SIM105 - contextlib would be an import, and more windows for the next interrupt
                inner.release()
            except RuntimeError:
                pass
            raise

    # Up to Python 3.13 no interrupt comes between a built-in `__enter__` and the block. In 3.14 one may come.
    __enter__ = _enter if sys.version_info >= (3, 14) else property(attrgetter("_inner.__enter__"))
    # A built-in function, because an interrupt at the first instruction of a Python function would leave the lock held.
    __exit__ = property(attrgetter("_inner.__exit__"))

    def take(self, seconds: float) -> bool:
        """Take the lock within some seconds. False if the time was not enough."""
        return bool(self._inner.acquire(timeout=seconds))

    def give_back(self) -> None:
        """Undo one `take`."""
        self._inner.release()

    def replace(self) -> None:
        """Make a new lock in a forked child, because no thread of the child can free the old lock."""
        self._set(threading.RLock())
        if self._renew is not None:
            self._renew()


# The locks that exist, oldest first, by number. A compiled function takes its locks with it.
_all: dict[int, weakref.ref[Lock]] = {}
_numbers = itertools.count()


def _forget(number: int, ref: object) -> None:
    _all.pop(number, None)


def _existing() -> list[Lock]:
    """The locks, oldest first."""
    return [lock for ref in list(_all.values()) if (lock := ref()) is not None]


# Guards the sessions of a leaf, and the leaf of a tensor or variable, because several threads may watch the same one.
# The collector may end a tape in a thread that holds this lock. A fork takes this lock last, because a thread that
# holds another lock may need this one.
sharing = Lock()
_of_variables = [Lock() for _ in range(_STRIPES)]
_of_optimizers = [Lock() for _ in range(_STRIPES)]


def of_variable(number: int) -> Lock:
    """The lock under which a variable changes, by the number of the variable."""
    return _of_variables[number % _STRIPES]


def lock_order(number: int) -> int:
    """The position of a variable's lock in the order in which a thread takes several locks."""
    return number % _STRIPES


def of_optimizer(optimizer: object) -> Lock:
    """The lock under which an optimizer takes a step. Never taken while holding the lock of a variable."""
    return _of_optimizers[id(optimizer) // 16 % _STRIPES]


class _OfThread(threading.local):
    taken: list[Lock] | None = None


_own = _OfThread()


def _before_fork() -> None:
    """Take all locks, so that no guarded data is in the middle of a change in the child."""
    taken = _own.taken = []
    end = time.monotonic() + _PATIENCE
    for lock in reversed(_existing()):
        if lock.take(max(0.0, end - time.monotonic())):
            taken.append(lock)


def _in_parent() -> None:
    for lock in reversed(_own.taken or ()):
        lock.give_back()
    _own.taken = None


def _in_child() -> None:
    taken = {id(lock) for lock in _own.taken or ()}
    _in_parent()
    for lock in _existing():
        if id(lock) not in taken:
            lock.replace()


if hasattr(os, "register_at_fork"):
    around_fork.append((_before_fork, _in_parent))
    os.register_at_fork(after_in_parent=_in_parent, after_in_child=_in_child)
