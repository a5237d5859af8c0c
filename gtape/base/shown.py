"""Shows arguments in error messages. The text is short, and objects whose `repr` fails are shown, too."""

from __future__ import annotations

import re
import reprlib
from typing import Any

from gtape.base.escaping import plain_lines

__all__ = ["brief", "shown"]

_LONGEST = 300
_MOST_AXES = 8  # of an array shown by its elements, because NumPy does not shorten many axes of size 2

# In the usual `repr` of functions and other objects. It differs in each run and says nothing to a reader.
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]{4,}(?=>)")

_brief = reprlib.Repr()
_brief.maxlevel = 4
_brief.maxlist = _brief.maxtuple = _brief.maxdict = _brief.maxset = _brief.maxfrozenset = 12
_brief.maxstring = _brief.maxother = _brief.maxlong = _LONGEST // 2


def shown(x: Any) -> str:
    """The `repr` of an object, shortened if long; its type if `repr` fails.

    The function also handles lists that contain themselves or are nested thousands deep, and objects whose ``__repr__``
    raises an error or returns control characters. The text is without addresses of objects.

    >>> shown([1, "a"])
    "[1, 'a']"
    >>> endless = [1]
    >>> for _ in range(100_000):
    ...     endless = [endless]
    >>> shown(endless)
    '[[[[[...]]]]]'
    >>> shown(lambda: 0)
    '<function <lambda>>'
    """
    try:
        long = isinstance(x, (list, tuple, dict, set, frozenset)) and len(x) > 50
        rank = len(getattr(x, "shape", ())) if isinstance(getattr(x, "shape", ()), tuple) else 0
        text = _brief.repr(x) if long else repr(x) if rank <= _MOST_AXES else f"<{type(x).__name__} of {rank} axes>"
    except Exception:  # any error of a user's __repr__ or __len__, and RecursionError
        try:
            text = _brief.repr(x)
        except Exception:
            text = f"<{type(x).__name__}>"
    return plain_lines(brief(text if isinstance(x, (str, bytes)) else _ADDRESS.sub("", text)))


def brief(text: str) -> str:
    """A text without its middle part if the text is long.

    >>> len(brief("a" * 10_000))
    293
    """
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 40]}...{text[-30:]}"
