"""Fixed examples: the findings of campaigns, in a file that later campaigns run first."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

from gtape.base.escaping import plain
from gtape.storage.files import hold, new_file, open_regular
from gtape.verify.campaigns.kinds import Shard
from gtape.verify.campaigns.shapes import SHARD, misfit
from gtape.verify.campaigns.shards import key_of

__all__ = ["MARK", "ExamplesError", "add_examples", "checked_examples", "read_examples", "shards_of"]

MARK = "campaign examples"
_FORMAT = 1
_MOST_BYTES = 100_000_000


class ExamplesError(ValueError):
    """A file of examples cannot be read or written."""


def read_examples(path: str) -> list[dict[str, Any]]:
    """The examples of a file; an empty list if the file does not exist.

    Parameters
    ----------
    path : str

    Returns
    -------
    list of dict
        "cause", "verdict", "text" and the "shard" that shows it.

    Raises
    ------
    ExamplesError

    Examples
    --------
    >>> from gtape.verify.campaigns.examples import read_examples
    >>> read_examples("no-such-file.json")
    []
    """
    try:
        with open_regular(path) as f:
            raw = f.read(_MOST_BYTES)
    except FileNotFoundError:
        return []
    except OSError as e:
        raise ExamplesError(f"{plain(path)} cannot be read: {e.strerror or e}") from None
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        data = None
    return checked_examples(path, data)


def checked_examples(path: str, data: Any) -> list[dict[str, Any]]:
    """The examples in the data of a file; raises ExamplesError for other data."""
    if not isinstance(data, dict) or data.get("gtape") != MARK:
        raise ExamplesError(f"{plain(path)} holds no examples of campaigns: name another file")
    if data.get("format") != _FORMAT:
        raise ExamplesError(f"{plain(path)} has another format than {_FORMAT}: use the version of gtape that wrote it")
    wrong = misfit(data, {"examples": [{"cause": str, "verdict": str, "text": str, "shard": SHARD}]})
    if wrong:
        raise ExamplesError(f"{plain(path)} is broken, because {wrong}: restore it, or name another file")
    examples: list[dict[str, Any]] = data["examples"]
    return examples


def add_examples(path: str, findings: list[dict[str, Any]]) -> int:
    """Add findings with new causes to a file of examples; the file is written whole or not at all.

    Parameters
    ----------
    path : str
    findings : list of dict
        With "cause", "verdict", "text" and "example".

    Returns
    -------
    int
        The number of new examples.

    Raises
    ------
    ExamplesError
    """
    target = os.path.realpath(path)
    try:
        with _held(os.path.dirname(target)):
            known = read_examples(path)
            causes, keys = {e["cause"] for e in known}, {key_of(e["shard"]) for e in known}
            new = [
                {"cause": f["cause"], "verdict": f["verdict"], "text": f["text"], "shard": f["example"]}
                for f in findings
                if f["cause"] not in causes and key_of(f["example"]) not in keys
            ]
            if new or not os.path.exists(target):
                data = {"gtape": MARK, "format": _FORMAT, "examples": [*known, *new]}
                with new_file(target, nameless=True) as f:
                    f.write(json.dumps(data, indent=1, allow_nan=False).encode() + b"\n")
    except OSError as e:
        raise ExamplesError(f"{plain(path)} cannot be written: {e.strerror or e}") from None
    return len(new)


@contextlib.contextmanager
def _held(folder: str) -> Iterator[None]:
    """Lock the folder, because two campaigns may add to one file."""
    from gtape.errors import OpError

    try:
        with hold(folder):
            yield
    except OpError as e:
        raise OSError(str(e)) from None


def shards_of(examples: list[dict[str, Any]], kind: str) -> list[Shard]:
    """The shards of the examples of one kind, each once."""
    return list({key_of(e["shard"]): e["shard"] for e in examples if e["shard"]["kind"] == kind}.values())
