"""The folders of gtape's own source files, so that messages can name the user's line instead."""

from __future__ import annotations

import os

__all__ = ["OWN_FOLDERS", "is_own"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# In a checkout symbolic/ and verify/ lie next to the package, in an installation inside it.
OWN_FOLDERS = (
    _PACKAGE + os.sep,
    *(os.path.join(os.path.dirname(_PACKAGE), name) + os.sep for name in ("symbolic", "verify")),
)


def is_own(filename: str) -> bool:
    """Whether a source file is one of gtape's, or source that gtape generated.

    The name is as in code objects: absolute, or ``<gtape ...>`` for generated source.
    """
    return filename.startswith((*OWN_FOLDERS, "<gtape"))
