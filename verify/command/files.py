"""Files that are written whole or not at all, whenever the process ends."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile

__all__ = ["refusal", "write_whole"]


def write_whole(path: str, text: str) -> None:
    """Write a file whole or not at all; what is no plain file (a pipe, /dev/null) is written to as it is.

    Where the system knows files without a name, as Linux does, the text gets a name only when all of it is on the disk,
    so that a process that is killed leaves no half-written file under any name.

    Parameters
    ----------
    path, text : str

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
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, f".gtape-{secrets.token_hex(8)}")
    handle, named = _open_new(folder, temporary)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as f:
            f.write(text)
            f.flush()
            if hasattr(os, "fchmod"):
                os.fchmod(f.fileno(), _mode(target))
            os.fsync(f.fileno())
            if not named:
                # The path is absolute, so src_dir_fd does not count; but Python follows links only where it is given.
                os.link(f"/proc/self/fd/{f.fileno()}", temporary, src_dir_fd=f.fileno(), follow_symlinks=True)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _open_new(folder: str, path: str) -> tuple[int, bool]:
    """A descriptor to write to, and whether it has a name already."""
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # file systems differ
            return os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600), False
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600), True


def _mode(path: str) -> int:
    """The permissions of a file, or those that a new one gets."""
    if os.path.exists(path):
        return os.stat(path).st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def refusal(path: str) -> str | None:
    """Why a file cannot be written, or None; found out by writing, but not to the file itself.

    Parameters
    ----------
    path : str

    Examples
    --------
    >>> from gtape.verify.command.files import refusal
    >>> refusal("/no/such/folder/x.json")
    'its folder does not exist'
    """
    if not path:
        return "the name is empty"
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if os.path.isdir(target):
        return "it is a folder"
    if os.path.islink(target):
        return "it is a link that leads nowhere"
    if not os.path.isdir(folder):
        return "its folder does not exist"
    if os.path.exists(target) and not os.access(target, os.W_OK):
        return "it is write-protected"
    if os.path.exists(target) and not os.path.isfile(target):
        return None  # whether a device takes what it gets is not known before
    try:
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as e:
        return f"its folder cannot be written to: {e.strerror or e}"
