"""Writes reports whole or not at all, even if the process is killed."""

from __future__ import annotations

import errno
import os
import tempfile
import time

from gtape.base.escaping import plain
from gtape.storage.files import new_file

__all__ = ["folder_refusal", "refusal", "write_whole"]

_PATIENCE = 10.0  # seconds to wait for the reader of a pipe


def write_whole(path: str, text: str) -> None:
    """Write a file whole or not at all; a target that is not a plain file (a pipe, /dev/null) is written directly.

    On systems with nameless files, such as Linux, the file gets its name only after all text is on the disk. So a
    killed process leaves no half-written file.

    Raises
    ------
    OSError

    Examples
    --------
    >>> import os, tempfile
    >>> from gtape.verify.command.files import write_whole
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(os.path.join(folder, "report.txt"), "4 ULP")
    ...     os.listdir(folder)
    ['report.txt']
    """
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "w", encoding="utf-8", errors="surrogateescape", opener=_device) as f:
            f.write(text)
        return
    target = os.path.realpath(path)
    with new_file(target, nameless=True) as made:
        made.write(text.encode("utf-8", "surrogateescape"))
        if os.path.exists(target) and hasattr(os, "fchmod"):
            os.fchmod(made.fileno(), os.stat(target).st_mode & 0o777)


def _device(path: str, flags: int) -> int:
    """Open a pipe or device. Wait only some seconds for the reader of a pipe, because opening would wait for ever."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
        except OSError as e:
            if e.errno != errno.ENXIO:
                raise
            if time.monotonic() >= until:
                raise OSError(errno.ENXIO, "nobody reads this pipe") from None
            time.sleep(0.01)
        else:
            os.set_blocking(handle, True)
            return handle


def refusal(path: str) -> str | None:
    """Why a file cannot be written, or None; tested by a temporary file in its folder.

    Examples
    --------
    >>> from gtape.verify.command.files import refusal
    >>> refusal("/no/such/folder/x.json")
    'its folder does not exist'
    """
    if not path:
        return "the name is empty"
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        # Only writing shows if a device takes text. The pipe behind /dev/stdout has a real path that is in no folder.
        return None if os.access(path, os.W_OK) else "it is write-protected"
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    try:
        os.lstat(target)
    except (FileNotFoundError, NotADirectoryError):
        pass  # the lines below find the missing folder
    except OSError as e:  # such as a name that is too long
        return plain(e.strerror or e)
    if os.path.isdir(target):
        return "it is a folder"
    if os.path.islink(target):
        return "it is a link that leads nowhere"
    if not os.path.isdir(folder):
        return "its folder does not exist"
    if os.path.exists(target) and not os.access(target, os.W_OK):
        return "it is write-protected"
    try:
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as e:
        return f"its folder cannot be written to: {e.strerror or e}"


def folder_refusal(path: str) -> str | None:
    """Why no file can be written into a folder, which may not exist yet, or None; nothing is made.

    Examples
    --------
    >>> from gtape.verify.command.files import folder_refusal
    >>> folder_refusal(__file__)
    'it is no folder'
    """
    if not path:
        return "the name is empty"
    try:
        there = target = os.path.realpath(path)
        while not _exists(there):
            there = os.path.dirname(there)
        if not os.path.isdir(there):
            return "it is no folder" if there == target else f"{plain(there)} is no folder"
        with tempfile.TemporaryFile(dir=there):
            return None
    except (OSError, ValueError) as e:  # such as a name that is too long, or one with NUL
        return plain(getattr(e, "strerror", None) or e)


def _exists(path: str) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
