"""Imports on first use, by several threads at once."""

from __future__ import annotations

import importlib
import time
from typing import Any

__all__ = ["import_module"]

_PAUSES = (0.001, 0.01, 0.1, 0.5)


def import_module(name: str) -> Any:
    """Import a module; try again if another thread imports modules at the same time and both wait for each other.

    Python ends such a deadlock by an error in one of the threads, whose imports are then undone.
    """
    for pause in _PAUSES:
        try:
            return importlib.import_module(name)
        except (ImportError, AttributeError, RuntimeError) as e:
            if not any(words in str(e) for words in ("cannot import name", "partially initialized", "deadlock")):
                raise
            time.sleep(pause)
    return importlib.import_module(name)
