"""The journal of a campaign: one line of JSON for each finished shard, which is on the disk before the next one.

The journal is the only state of a campaign. The first line describes the campaign; a line of each session says who
wrote the lines below it. A process that is killed while it writes leaves a torn last line, which the next session cuts
off. A lock keeps a second writer away; the system frees it when the writer ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import weakref
from typing import Any

from gtape.base.escaping import plain
from gtape.storage.files import open_regular
from gtape.verify.campaigns.kinds import Shard
from gtape.verify.campaigns.shapes import HEAD, LINE, SESSION, misfit
from gtape.verify.campaigns.shards import key_of

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

__all__ = ["FORMAT", "MARK", "Journal", "JournalError", "Lines", "read"]

MARK = "campaign journal"
FORMAT = 1
_BEGIN = b'{"gtape": "campaign journal"'
_STATUSES = ("done", "error", "late")


class JournalError(ValueError):
    """A file is not a journal, or the journal cannot be read or continued."""


class Lines:
    """The contents of a journal.

    Attributes
    ----------
    head : dict
        The campaign: "kind", "settings", "load", "shards" as the last session that changed the number has it, "limit",
        "examples", and who began it.
    sessions : list of dict
        Versions, machine, command line and process of each session, and a new number of "shards".
    results : dict
        Key of a shard -> its last line, in the order of the first lines.
    torn : int
        Number of bytes behind the last whole line.
    end : int
        Number of bytes of the whole lines.
    """

    def __init__(self, head: dict[str, Any]) -> None:
        self.head = head
        self.sessions: list[dict[str, Any]] = []
        self.results: dict[str, dict[str, Any]] = {}
        self.torn = self.end = 0

    def in_order(self) -> list[dict[str, Any]]:
        """The results by the numbers of their shards."""
        return sorted(self.results.values(), key=lambda line: int(line["number"]))


_open: weakref.WeakSet[Journal] = weakref.WeakSet()


def _in_child() -> None:
    # Forked children close the journal, because a child would hold the lock after its parent was killed.
    for journal in _open:
        journal.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def read(path: str) -> Lines:
    """The contents of a journal, which another process may be writing.

    Parameters
    ----------
    path : str

    Raises
    ------
    JournalError
        If the file cannot be read, or is not a journal of this format.

    Examples
    --------
    >>> from gtape.verify.campaigns.journal import read
    >>> read("/no/such/file")
    Traceback (most recent call last):
        ...
    gtape.verify.campaigns.journal.JournalError: /no/such/file cannot be read: No such file or directory
    """
    try:
        with open_regular(path) as f:
            found = _parsed(path, f)
    except OSError as e:
        raise JournalError(f"{plain(path)} cannot be read: {e.strerror or e}") from None
    if found is None:
        raise JournalError(f"{plain(path)} holds no campaign yet: begin it anew")
    return found


def _parsed(path: str, f: Any) -> Lines | None:
    """The contents of an open journal; None for an empty one, or one whose first line is torn."""
    first = f.readline()
    if not first.endswith(b"\n") and _BEGIN.startswith(first[: len(_BEGIN)]):
        return None
    lines = Lines(_head(path, first))
    lines.end = len(first)
    rest = iter(f)
    for number, raw in enumerate(rest, 2):
        data = _data(raw) if raw.endswith(b"\n") else None
        if data is None:
            more = sum(map(len, rest))
            if more:
                raise JournalError(
                    f"{plain(path)} is broken in line {number}: copy the lines above it into a new file, and "
                    "continue the new file"
                )
            lines.torn = len(raw)
            break
        _enter(lines, data, f"{plain(path)} is broken in line {number}")
        lines.end += len(raw)
    return lines


def _data(raw: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _head(path: str, raw: bytes) -> dict[str, Any]:
    head = _data(raw)
    if head is None or head.get("gtape") != MARK:
        raise JournalError(f"{plain(path)} is not the journal of a campaign: name another file")
    if head.get("format") != FORMAT:
        raise JournalError(
            f"{plain(path)} has the format {plain(head.get('format'))} of another version of gtape, not {FORMAT}: "
            "use that version, or begin a new journal"
        )
    wrong = misfit(head, HEAD)
    if wrong:
        raise JournalError(f"{plain(path)} is broken in line 1, because {wrong}: begin a new journal")
    return head


def _enter(lines: Lines, data: dict[str, Any], broken: str) -> None:
    session = "session" in data
    wrong = misfit(data, SESSION if session else LINE)
    if not wrong and not session and data["status"] not in _STATUSES:
        wrong = f"status is none of {', '.join(_STATUSES)}"
    if wrong:
        raise JournalError(f"{broken}, which is not the result of a shard, because {wrong}: begin a new journal")
    if session:
        lines.sessions.append(data)
        lines.head["shards"] = data.get("shards", lines.head.get("shards"))
        return
    key = key_of(data["shard"])
    if key in lines.results and lines.results[key]["status"] == "done":
        return
    lines.results[key] = data


class Journal:
    """A journal that this process writes.

    Parameters
    ----------
    path : str
    head : dict
        The campaign, for a new journal.
    session : dict
        The session that writes.
    resume : bool
        Whether to go on with an existing journal.

    Attributes
    ----------
    lines : Lines
        The earlier content of the journal.

    Raises
    ------
    JournalError
        If another process writes this journal, if it exists and is not to be resumed, or is broken.
    """

    def __init__(self, path: str, head: dict[str, Any], session: dict[str, Any], *, resume: bool) -> None:
        self.path = path
        try:
            self._handle = self._opened(path, resume)
        except OSError as e:
            raise JournalError(f"{plain(path)} cannot be written: {e.strerror or e}") from None
        _open.add(self)
        try:
            with os.fdopen(os.dup(self._handle), "rb") as f:
                f.seek(0)
                found = _parsed(path, f)
            if found is not None and not resume:
                raise JournalError(f"{plain(path)} exists: continue it with --resume, or name another file")
            if found is None:
                self.lines = Lines(head)
                self._cut(0)
                self.write({"gtape": MARK, "format": FORMAT, **head})
                self._sync_folder()
            else:
                self.lines = found
                self._cut(found.end)
            self.write({"session": len(self.lines.sessions) + 1, **session})
        except BaseException:
            self.close()
            raise

    def _opened(self, path: str, resume: bool) -> int:
        flags = os.O_RDWR | (0 if resume else os.O_CREAT) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
        handle = os.open(path, flags, 0o666)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise JournalError(f"{plain(path)} is not a plain file: name another file")
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(handle)
                raise JournalError(_taken(path)) from None
        return handle

    def _cut(self, size: int) -> None:
        """Cut off a torn last line, and go to the end."""
        os.ftruncate(self._handle, size)
        os.lseek(self._handle, 0, os.SEEK_END)
        self._size = size

    def _sync_folder(self) -> None:
        if fcntl is None:
            return
        handle = os.open(os.path.dirname(os.path.abspath(self.path)), os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # some file systems cannot
                os.fsync(handle)
        finally:
            os.close(handle)

    def write(self, line: dict[str, Any]) -> None:
        """Append one line, and return when it is on the disk.

        Raises
        ------
        JournalError
            If the line cannot be written; the journal then ends with the line before.
        """
        data = json.dumps(line, allow_nan=False).encode() + b"\n"
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._handle, rest) :]
            os.fsync(self._handle)
        except OSError as e:
            with contextlib.suppress(OSError):
                self._cut(self._size)
            raise JournalError(
                f"{plain(self.path)} cannot be written: {e.strerror or e}; make room and continue with --resume"
            ) from None
        self._size += len(data)

    def enter(self, number: int, shard: Shard, result: dict[str, Any]) -> dict[str, Any]:
        """Append the result of a shard; return the line."""
        line = {"number": number, "shard": shard, **result}
        self.write(line)
        return line

    def forget(self) -> None:
        """Close the handle in a forked child."""
        with contextlib.suppress(OSError):
            os.close(self._handle)

    def close(self) -> None:
        """Free the journal for another writer."""
        _open.discard(self)
        with contextlib.suppress(OSError):
            os.close(self._handle)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _taken(path: str) -> str:
    """The error about a journal that another process writes, which names the process of the last session."""
    who = "another process"
    with contextlib.suppress(JournalError, KeyError, TypeError):
        last = read(path).sessions[-1] if read(path).sessions else {}
        if last:
            who = f"process {int(last['process'])} on {plain(last['machine']['host'])}, since {plain(last['began'])},"
    return f"{who} writes {plain(path)}: wait for its end, or name another file"
