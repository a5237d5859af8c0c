"""The folders of gtape's own source files. Messages name the user's line, so these files are skipped."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from typing import Any

import numpy as np

from gtape.base.imports import library

__all__ = ["OWN_FOLDERS", "hide_own_frames", "is_own", "is_users", "level_of_user", "raised_by_user"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# In a checkout symbolic/ and verify/ lie beside the package, in an installation inside the package.
OWN_FOLDERS = (
    _PACKAGE + os.sep,
    *(os.path.join(os.path.dirname(_PACKAGE), name) + os.sep for name in ("symbolic", "verify")),
)
_STARTS = (*OWN_FOLDERS, "<gtape")
_OF_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep


@functools.lru_cache(4096)  # because a check asks for each frame of each op
def is_own(filename: str) -> bool:
    """Whether a source file belongs to gtape, or is source that gtape generated.

    The name is that of a code object: an absolute path, or ``<gtape ...>`` for generated source.
    """
    return filename.startswith(_STARTS)


@functools.lru_cache(4096)
def is_users(filename: str) -> bool:
    """Whether a source file belongs to the user: neither to gtape nor to NumPy, which calls gtape's methods."""
    return not filename.startswith((*_STARTS, _OF_NUMPY))


def raised_by_user(error: BaseException) -> bool:
    """Whether a `raise` or `assert` in the user's own code raised an error, and not a library that the code calls.

    False if the source text of the line is missing, because a call that raises cannot be told apart without the text.
    """
    import linecache

    sysconfig = library("sysconfig")
    traceback = library("traceback")

    for last in traceback.extract_tb(error.__traceback__, limit=-1):
        libraries = tuple([sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")])
        if is_own(last.filename) or last.filename.startswith(libraries) or last.lineno is None:
            return False
        line = linecache.getline(last.filename, last.lineno)
        statement = line.encode()[last.colno or 0 :].decode(errors="replace")
        return re.match(r"raise\b", statement) is not None or re.match(r"\s*assert\b", line) is not None
    return False


def level_of_user() -> int:
    """The stack level of the user's code, above all frames of gtape, as `warnings.warn` counts it."""
    frame: Any = sys._getframe(1)
    level = 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "gtape":
        level, frame = level + 1, frame.f_back
    return level


def hide_own_frames() -> None:
    """Let pytest and IPython leave out the frames of gtape from the traceback of an error that is to be raised.

    Both look for a local name ``__tracebackhide__`` in the frames of a traceback. This function sets the name from
    outside, because the name then costs successful calls nothing.
    """
    frame: Any = sys._getframe(1)
    while frame is not None:
        if is_own(frame.f_code.co_filename):
            with contextlib.suppress(Exception):  # a Python whose frames take no new names
                frame.f_locals["__tracebackhide__"] = True
        frame = frame.f_back
