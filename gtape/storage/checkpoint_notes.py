"""The note of a folder of checkpoints: a file with the names of the kept checkpoints and of the newest."""

from __future__ import annotations

import json
import os
from typing import Any

from gtape.base.file_errors import path_shown, translated
from gtape.base.imports import library
from gtape.storage.files import new_file, open_regular

__all__ = ["NOTE", "Note", "read_note", "write_note"]

NOTE = "checkpoint"
_LARGEST = 64 << 20  # bytes, enough for a million names


class Note:
    """The content of a note: names of files in the same folder, without an ending.

    Attributes
    ----------
    newest : str or None
    kept : list of str
        The kept checkpoints from old to new, with the newest.
    unfinished, doomed : list of str
        Checkpoints that are being written, and checkpoints whose files still have to be removed.
    written : int
        The time of the note, in nanoseconds.
    """

    def __init__(
        self, newest: str | None = None, kept: list[str] | None = None, unfinished: list[str] | None = None,
        doomed: list[str] | None = None, written: int = 0,
    ) -> None:  # fmt: skip
        self.newest, self.kept = newest, list(kept or [])
        self.unfinished, self.doomed, self.written = list(unfinished or []), list(doomed or []), written


def read_note(folder: str, filename: str = NOTE) -> Note | None:
    """The note of a folder; None if the note is missing or foreign.

    Names that lead out of the folder are dropped, because the reader of a note removes files.
    """
    path = os.path.join(folder, filename)
    try:
        with open_regular(path) as f:
            content, written = f.read(_LARGEST + 1), os.fstat(f.fileno()).st_mtime_ns
        if len(content) > _LARGEST:
            raise ValueError("it is too long for a list of checkpoints")
        return _note(json.loads(content), folder, written)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as e:  # errors of JSON and Unicode are ValueErrors
        logging = library("logging")

        said = "'%s' is no list of checkpoints that gtape can read (%s): it is ignored"
        logging.getLogger("gtape").warning(said, path_shown(path), path_shown(e))
        return None


def _note(found: Any, folder: str, written: int) -> Note:
    if not isinstance(found, dict) or not isinstance(found.get("all"), list):
        raise ValueError("it has no list of all checkpoints")
    newest = _names([found.get("newest")], folder)
    kept = _names(found["all"], folder)
    return Note(
        newest[0] if newest else None,
        [*kept, *[name for name in newest if name not in kept]],
        _names(found.get("unfinished"), folder),
        _names(found.get("doomed"), folder),
        written,
    )


def _names(found: Any, folder: str) -> list[str]:
    """The valid names of files in the folder, each once."""
    names = [_name(x, folder) for x in found] if isinstance(found, list) else []
    return list(dict.fromkeys([name for name in names if name]))


def _name(x: Any, folder: str) -> str | None:
    if not isinstance(x, str):
        return None
    name: str = x
    if os.path.isabs(name):  # TensorFlow's notes contain absolute paths, too
        if os.path.normpath(os.path.dirname(name)) != os.path.abspath(folder):
            return None
        name = os.path.basename(name)
    if name in ("", os.curdir, os.pardir) or "\0" in name or os.path.basename(name) != name:
        return None
    try:
        os.fsencode(name)
    except UnicodeError:
        return None
    return None if os.path.splitdrive(name)[0] else name


def write_note(folder: str, note: Note) -> None:
    """Write the note of a folder completely or not at all. Errors of the file system become TensorFlow's errors."""
    data: dict[str, Any] = {"newest": note.newest, "all": note.kept}
    data |= {k: names for k, names in (("unfinished", note.unfinished), ("doomed", note.doomed)) if names}
    path = os.path.join(folder, NOTE)
    with translated(path, "written"), new_file(path) as f:
        f.write(json.dumps(data).encode("ascii"))
