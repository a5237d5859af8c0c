"""Checks the shape of data from files, because anybody may have changed a file; readers check the data once, on
reading.
"""

from __future__ import annotations

import math
from typing import Any

from gtape.base.escaping import plain

__all__ = ["FINDING", "HEAD", "LINE", "NUMBER", "SESSION", "SHARD", "misfit"]


class _Number:
    """A number that is a float, or its text, because JSON has no infinities."""

    def __str__(self) -> str:
        return "number"


NUMBER = _Number()

# An entry whose key ends with "?" may be missing.
SHARD = {"kind": str, "load?": [str], "module?": str}
FINDING = {"verdict": str, "cause": str, "text": str, "times?": int, "number?": int, "example?": SHARD}
HEAD = {
    "kind": str, "settings": dict, "load": [str], "examples": [SHARD], "versions": {str: str}, "shards?": (int, None),
    "limit?": NUMBER, "machine?": {str: str}, "command?": [str], "began?": str,
}  # fmt: skip
SESSION = {"versions?": {str: str}, "command?": [str], "shards?": int}
LINE = {
    "shard": SHARD, "number": int, "status": str, "counts": {str: int}, "largest": {str: NUMBER}, "findings": [FINDING],
    "seconds?": NUMBER, "why?": str,
}  # fmt: skip


def misfit(data: Any, shape: Any, place: str = "") -> str:
    """The first place in data that has another shape; empty if there is none.

    Parameters
    ----------
    data : object
        Plain data, as from JSON.
    shape : object
        A class; None; `NUMBER`; a tuple of shapes, one of which fits; a list of one shape for a list of any length; a
        dict from `str` to a shape for any keys; a dict from keys to shapes, where a key with "?" may be missing.

    Examples
    --------
    >>> from gtape.verify.campaigns.shapes import NUMBER, misfit
    >>> misfit({"counts": {"n": 1.5}}, {"counts": {str: int}, "why?": str})
    'counts n is no int, but 1.5'
    >>> misfit({"largest": "inf"}, {"largest": NUMBER})
    ''
    """
    if isinstance(shape, tuple):
        found = [misfit(data, s, place) for s in shape]
        return "" if "" in found else found[0]
    if isinstance(shape, list):
        if not isinstance(data, list):
            return _told(data, place, "list")
        return next((m for i, x in enumerate(data) if (m := misfit(x, shape[0], f"{place} {i}"))), "")
    if isinstance(shape, dict):
        return _misfit_in(data, shape, place) if isinstance(data, dict) else _told(data, place, "object")
    if shape is NUMBER:
        return "" if _is_number(data) else _told(data, place, "number")
    if shape is None:
        return "" if data is None else _told(data, place, "null")
    # True is an int for Python, but not for JSON.
    fits = isinstance(data, shape) and (shape is bool or not isinstance(data, bool))
    return "" if fits else _told(data, place, shape.__name__)


def _misfit_in(data: dict[Any, Any], shape: dict[Any, Any], place: str) -> str:
    if str in shape:
        return next((m for k, v in data.items() if (m := misfit(v, shape[str], f"{place} {k}"))), "")
    for key, inner in shape.items():
        name = key.removesuffix("?")
        if name in data:
            wrong = misfit(data[name], inner, f"{place} {name}")
            if wrong:
                return wrong
        elif name == key:
            return f"{plain(f'{place} {name}'.strip())} is missing"
    return ""


def _is_number(data: Any) -> bool:
    if isinstance(data, bool) or not isinstance(data, (int, float, str)):
        return False
    try:
        return math.isfinite(float(data)) or isinstance(data, (float, str))
    except (ValueError, OverflowError):
        return False


def _told(data: Any, place: str, wanted: str) -> str:
    return f"{plain(place.strip()) or 'it'} is no {wanted}, but {plain(repr(data))[:60]}"
