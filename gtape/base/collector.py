"""Pauses and delays of Python's garbage collector.

Both are for work that makes many objects and little garbage: the collector would walk through the objects again and
again, which takes up to a third of the time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from gtape.base.blocks import block
from gtape.base.locks import Lock

__all__ = ["collector_delayed", "collector_paused"]

_OBJECTS = 100_000  # new objects until the next collection during a delay


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector during a block that makes many objects and no garbage.

    The block must be code of the library, because the collector calls finalizers of the user.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@block
def collector_delayed() -> Iterator[None]:
    """Let the collector run less often during a block, which may run code of the user.

    The thresholds belong to the whole process. The first block of all threads changes the first threshold, and the last
    block restores the threshold, unless the user has set another one in between. A threshold of 0, which switches
    automatic collections off, stays.
    """
    with _delays.lock:
        _delays.enter()
    try:
        yield
    finally:
        with _delays.lock:
            _delays.leave()


class _Delays:
    """The open delays of all threads, and the first threshold before them, or 0 if it did not change."""

    def __init__(self) -> None:
        self.lock = Lock(self.forget)
        self.forget()

    def forget(self) -> None:
        self.open, self.before = 0, 0

    def enter(self) -> None:
        self.open += 1
        first, *rest = gc.get_threshold()
        if self.open == 1 and 0 < first < _OBJECTS:
            self.before = first
            gc.set_threshold(_OBJECTS, *rest)

    def leave(self) -> None:
        self.open = max(self.open - 1, 0)
        first, *rest = gc.get_threshold()
        if not self.open and self.before:
            if first == _OBJECTS:
                gc.set_threshold(self.before, *rest)
            self.before = 0


_delays = _Delays()
