"""Who wants to know of tensors that are made from numbers: a function that keeps a graph watches every constant."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

__all__ = ["born", "watcher"]

# What takes each new constant while a graph is kept; None nearly always.
watcher: ContextVar[Callable[[Any], None] | None] = ContextVar("gtape_births", default=None)


_T = TypeVar("_T")


def born(tensor: _T) -> _T:
    """Show a new constant to whoever keeps a graph; returns it."""
    watch = watcher.get()
    if watch is not None:
        watch(tensor)
    return tensor
