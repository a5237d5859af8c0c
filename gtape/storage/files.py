"""Files that are written completely or not at all, even while other processes write the same files.

A file is made under another name, ``<name>.<32 random digits>.part``, and renamed when it is on the disk. The writer
holds a lock on the part. The system releases the lock when the process ends. So a part without a lock has no writer,
and the next writer of the file removes the part.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from gtape.base.file_errors import translated

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

__all__ = ["hold", "make_folder", "new_file", "open_regular", "part_stem", "remove_stale_parts"]

_PART = re.compile(r"(.+)\.[0-9a-f]{32}\.part", re.DOTALL)
_LONGEST_STEM = 200  # bytes; most file systems allow names of 255 bytes
_ABANDONED = 3600.0  # seconds without a change, for systems without locks
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
_NO_WAITING = getattr(os, "O_NONBLOCK", 0)  # opening a pipe would wait for its other end
_BINARY = getattr(os, "O_BINARY", 0)


def part_stem(name: str) -> str:
    """The beginning of the names of a file's parts: the file's name, or the first bytes of a long name."""
    while len(os.fsencode(name)) > _LONGEST_STEM:
        name = name[:-1]
    return name


def make_folder(folder: str) -> None:
    """Make a folder and all missing folders above it, without recursion because there may be thousands."""
    with suppress(FileNotFoundError, NotADirectoryError):
        os.stat(folder)  # raises an error for a path that is longer than the system allows
    missing: list[str] = []
    above = folder
    while above and not os.path.isdir(above) and above not in missing[-1:]:
        missing.append(above)
        above = os.path.dirname(above.rstrip(os.sep))
    for each in reversed(missing):
        try:
            os.mkdir(each)
        except FileExistsError:
            if not os.path.isdir(each):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), each) from None


@contextmanager
def new_file(path: str, before: Callable[[], None] | None = None, *, nameless: bool = False) -> Iterator[BinaryIO]:
    """Write a file of bytes. The file replaces the old one at the end of the block, unless there is an exception.

    A link with this name is replaced, and its target stays. `before` is called when the new file is on the disk, before
    the new file replaces the old one. A `nameless` file gets its name when it is on the disk, so that a killed process
    leaves no part. Nameless files exist on some systems, such as Linux.
    """
    folder, name = os.path.split(path)
    folder = folder or os.curdir
    stem = part_stem(name)
    remove_stale_parts(folder, lambda other: other == stem)
    found = _nameless(folder, stem) if nameless else None
    part, handle = found or _made(folder, stem)
    try:
        with os.fdopen(handle, "wb") as f:
            yield f
            f.flush()
            os.fsync(handle)
            if before is not None:
                before()
            if found is not None:
                # Python follows links only if src_dir_fd is given. For an absolute path the argument has no other
                # effect.
                os.link(f"/proc/self/fd/{handle}", part, src_dir_fd=handle, follow_symlinks=True)
            if fcntl is None:
                f.close()  # because Windows cannot move an open file
            os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise
    _sync(folder)


def _part(folder: str, stem: str) -> str:
    return os.path.join(folder, f"{stem}.{os.urandom(16).hex()}.part")


def _nameless(folder: str, stem: str) -> tuple[str, int] | None:
    """A name for a new part, and its locked handle without a name; None on systems without nameless files."""
    if not hasattr(os, "O_TMPFILE") or not os.path.isdir("/proc/self/fd"):
        return None
    with suppress(OSError):  # because file systems differ
        handle = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666)
        _lock(handle, wait=True)
        return _part(folder, stem), handle
    return None


def _made(folder: str, stem: str) -> tuple[str, int]:
    """A new part, locked."""
    while True:
        part = _part(folder, stem)
        handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_LINKS | _BINARY, 0o666)
        if not _lock(handle, wait=True) or os.fstat(handle).st_nlink:
            return part, handle
        os.close(handle)  # another process removed the part as stale before the lock


def _lock(handle: int, *, wait: bool) -> bool | None:
    """Lock an open file. True if locked, False if another process holds the lock, None on systems without locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def remove_stale_parts(folder: str, wanted: Callable[[str], bool]) -> None:
    """Remove parts of dead writers that belong to files whose `part_stem` is `wanted`."""
    try:
        names = os.listdir(folder)
    except OSError:
        return  # the caller's next step raises the error of a missing or closed folder
    for name in names:
        found = _PART.fullmatch(name)
        if found is not None and wanted(found[1]):
            _remove_if_stale(os.path.join(folder, name))


def _remove_if_stale(part: str) -> None:
    try:
        handle = os.open(part, os.O_RDWR | _NO_LINKS | _NO_WAITING | _BINARY)
    except OSError:
        return  # a link, a removed file, or a file of another user
    try:
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode):
            return
        locked = _lock(handle, wait=False)
        stale = locked or (locked is None and time.time() - state.st_mtime > _ABANDONED)
        if stale and fcntl is not None:
            with suppress(OSError):
                os.unlink(part)
    finally:
        os.close(handle)
    if stale and fcntl is None:  # because Windows cannot remove an open file
        with suppress(OSError):
            os.unlink(part)


@contextmanager
def hold(folder: str) -> Iterator[None]:
    """Hold a folder. Other processes and threads wait here for the folder, on systems with locks.

    Errors of the file system are raised as TensorFlow's errors, also errors in the block.
    """
    handle = None
    with translated(folder, "read"):
        if fcntl is not None:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if handle is not None:
                _lock(handle, wait=True)
            yield
        finally:
            if handle is not None:
                with suppress(OSError):
                    fcntl.flock(handle, fcntl.LOCK_UN)  # because a child process may have inherited the handle
                os.close(handle)


def _sync(folder: str) -> None:
    """Make the system write the names of a folder to the disk."""
    if fcntl is None:
        return  # because Windows cannot open folders
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # because some file systems cannot sync folders
            os.fsync(handle)
    finally:
        os.close(handle)


def open_regular(path: str) -> BinaryIO:
    """Open a plain file for reading bytes. OSError for a pipe or a device, because reading one may never end."""
    handle = os.open(path, os.O_RDONLY | _NO_WAITING | _BINARY)
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EBADF
            raise OSError(number, "it is no plain file")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise
