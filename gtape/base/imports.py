"""Imports of gtape's modules, on first use and by several threads at once."""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from collections.abc import Callable
from importlib.machinery import PathFinder, SourceFileLoader
from threading import get_ident
from typing import Any

__all__ = ["Finder", "around_fork", "import_module", "library"]

_PAUSES = (0.001, 0.01, 0.1, 0.5)

# Thread -> the number of its imports that go on, and when they count no longer: an interrupt may leave an entry behind.
_importing: dict[int, tuple[int, float]] = {}
# Seconds that an import counts, and a search for a module, which nobody need import.
_LONGEST = 20.0
_LONGEST_SEARCH = 1.0


def _begin() -> None:
    """Count an import of this thread."""
    thread = get_ident()
    depth = _importing.get(thread, (0, 0.0))[0]
    _importing[thread] = depth + 1, time.monotonic() + _LONGEST


def _end() -> None:
    thread = get_ident()
    depth = _importing.get(thread, (1, 0.0))[0] - 1
    if depth > 0:  # the thread counts all the time, because another thread may fork between two statements
        _importing[thread] = depth, time.monotonic() + _LONGEST
    else:
        _importing.pop(thread, None)


class _Loader(SourceFileLoader):
    def exec_module(self, module: Any) -> None:
        _begin()
        try:
            super().exec_module(module)
        finally:
            _end()


class Finder:
    """Finds the modules of gtape, and notes which threads import them.

    Parameters
    ----------
    elsewhere : dict
        The folders of modules that lie in no folder of their package.
    """

    def __init__(self, elsewhere: dict[str, str]) -> None:
        self.elsewhere = elsewhere

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if not fullname.startswith("gtape."):
            return None
        if fullname in self.elsewhere:
            path = [self.elsewhere[fullname]]
        thread = get_ident()
        before = _importing.get(thread)
        # Python holds the module's lock already, and runs other threads while it looks into folders.
        if before is None or not before[0]:
            _importing[thread] = 0, time.monotonic() + _LONGEST_SEARCH
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        elif before is None or not before[0]:
            _importing.pop(thread, None)
        return spec

    def install(self) -> None:
        """Ask this finder before Python's own, and after those of others, such as pytest's."""
        place = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else len(sys.meta_path)
        sys.meta_path.insert(place, self)


# Held during a fork; no thread begins `import_module` then.
_forking = threading.RLock()
# What another room does before a fork, and how to undo this.
around_fork: list[tuple[Callable[[], None], Callable[[], None]]] = []


class _Fork(threading.local):
    held = False


_own = _Fork()


def _others_import() -> bool:
    mine, now = get_ident(), time.monotonic()
    return any(now < until for thread, (_, until) in list(_importing.items()) if thread != mine)


def _before_fork() -> None:
    """Wait until no other thread imports a module of gtape, or a module by `import_module`.

    The child would wait for ever for a module that is half imported.
    """
    end = time.monotonic() + _LONGEST
    _own.held = _forking.acquire(timeout=_LONGEST)
    while True:
        while _others_import() and time.monotonic() < end:
            time.sleep(0.001)
        for do, _ in around_fork:
            do()
        # An `import` statement may have begun in the meantime.
        if not _others_import() or time.monotonic() >= end:
            return
        for _, undo in around_fork:
            undo()


def _after_fork() -> None:
    if _own.held:
        _own.held = False
        _forking.release()


def _in_child() -> None:
    global _forking
    if not _own.held:
        _forking = threading.RLock()
    _after_fork()
    for thread in [t for t in _importing if t != get_ident()]:
        del _importing[thread]


if hasattr(os, "register_at_fork"):
    # As early as the first import of gtape, because two threads may do the next ones.
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)


def import_module(name: str) -> Any:
    """Import a module. Try again if the imports of two threads wait for each other.

    Python ends such a deadlock by an error in one of the threads, and undoes the imports of this thread.
    """
    if get_ident() in _importing:  # a fork waits for this thread
        _begin()
    else:
        with _forking:
            _begin()
    try:
        return _patiently(name)
    finally:
        _end()


_libraries: dict[str, Any] = {}


def library(name: str) -> Any:
    """A module of another package, imported on first use; a fork in another thread waits for the import."""
    found = _libraries.get(name)
    if found is None or sys.modules.get(name) is not found:
        found = _libraries[name] = import_module(name)
    return found


def _patiently(name: str) -> Any:
    for pause in _PAUSES:
        try:
            return importlib.import_module(name)
        except (ImportError, AttributeError, RuntimeError) as e:
            if not any(words in str(e) for words in ("cannot import name", "partially initialized", "deadlock")):
                raise
            time.sleep(pause)
    return importlib.import_module(name)
