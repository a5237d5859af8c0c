"""Imports on first use that several threads may make at once."""

from __future__ import annotations

import importlib
import time
from typing import Any

__all__ = ["import_module"]

_PAUSES = (0.001, 0.01, 0.1, 0.5)


def import_module(name: str) -> Any:
    """Import a module. Try again if the imports of two threads wait for each other.

    Python ends such a deadlock by an error in one of the threads, and undoes the imports of this thread.
    """
    for pause in _PAUSES:
        try:
            return importlib.import_module(name)
        except (ImportError, AttributeError, RuntimeError) as e:
            if not any(words in str(e) for words in ("cannot import name", "partially initialized", "deadlock")):
                raise
            time.sleep(pause)
    return importlib.import_module(name)
