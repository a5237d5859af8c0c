"""Refuses to import modules that a file names unless the user names them, too, because importing runs code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gtape.base.escaping import plain

__all__ = ["Untrusted", "modules_of", "trusted"]


class Untrusted(ValueError):
    """A file names a module that the user has not named."""


def modules_of(shard: dict[str, Any]) -> set[str]:
    """The modules that a shard imports.

    Examples
    --------
    >>> from gtape.verify.campaigns.trust import modules_of
    >>> modules_of({"kind": "functions", "module": "losses.py", "load": ["ops.py"]}) == {"losses.py", "ops.py"}
    True
    """
    load = shard.get("load", [])
    named = [*load, shard.get("module")] if isinstance(load, list) else [load, shard.get("module")]
    return {str(m) for m in named if m is not None}


def trusted(path: str, shards: Iterable[dict[str, Any]], load: Iterable[str]) -> None:
    """Raise Untrusted if shards of a file import modules other than those of ``--load``."""
    missing = set().union(*map(modules_of, shards)) - set(load)
    if missing:
        words = " ".join(f"--load {plain(m)}" for m in sorted(missing))
        raise Untrusted(f"{plain(path)} runs the code of modules of yours: if you trust it, add {words}")
