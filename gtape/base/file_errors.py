"""Errors of the file system as TensorFlow's errors. They name the file and a remedy."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gtape import errors
from gtape.base.escaping import plain

__all__ = ["file_error", "path_shown", "translated"]

_LONGEST = 300

# For each number of the system: TensorFlow's class (tsl/platform/default/errors.cc), and the remedy.
_ROWS: tuple[tuple[type[errors.OpError], str, str], ...] = (
    (errors.InvalidArgumentError, "ENAMETOOLONG", "Give a shorter name: most systems take names of 255 bytes"),
    (errors.InvalidArgumentError, "EINVAL EILSEQ EFAULT EDOM ESPIPE", "Give another name"),
    (errors.NotFoundError, "ENOENT", "Make its folder first, or name another folder"),
    (errors.NotFoundError, "ENODEV ENXIO ESRCH", "Name a file on a disk that is there"),
    (errors.AlreadyExistsError, "EEXIST EALREADY", "Give another name, because a file or folder of this name exists"),
    (errors.PermissionDeniedError, "EPERM EACCES", "Change the permissions of the file and its folder"),
    (errors.PermissionDeniedError, "EROFS", "Name a folder on a disk that takes new files"),
    (errors.FailedPreconditionError, "EISDIR EBADF", "Name a plain file"),
    (errors.FailedPreconditionError, "ENOTDIR", "Name a file in a folder"),
    (errors.FailedPreconditionError, "EBUSY ENOTEMPTY EPIPE ETXTBSY", "Wait until no other program uses it"),
    (errors.ResourceExhaustedError, "ENOSPC EDQUOT", "Free some space, or name a folder on another disk"),
    (errors.ResourceExhaustedError, "EMFILE ENFILE", "Close files that are no longer needed"),
    (errors.ResourceExhaustedError, "EMLINK ENOMEM ENOBUFS ENODATA", "Free some memory, or name another folder"),
    (errors.OutOfRangeError, "EFBIG EOVERFLOW ERANGE", "Raise the limit of file sizes, or write less into one file"),
    (errors.UnimplementedError, "ENOSYS ENOTSUP EOPNOTSUPP EXDEV", "Name a folder on another disk"),
    (errors.UnavailableError, "EAGAIN EINTR ENOLCK", "Try again"),
    (errors.DeadlineExceededError, "ETIMEDOUT", "Try again"),
    (errors.AbortedError, "EDEADLK ESTALE", "Try again"),
    (errors.CancelledError, "ECANCELED", "Try again"),
    (errors.UnknownError, "EIO", "Check the disk"),
    (errors.UnknownError, "ELOOP", "Name a file that no circle of links stands for"),
)
_BY_NUMBER = {
    number: (cls, advice)
    for cls, names, advice in reversed(_ROWS)
    for number in (getattr(errno, name, None) for name in names.split())
    if number is not None
}


def path_shown(path: Any) -> str:
    """A path in a message. A long path has its middle left out.

    >>> path_shown("run/ckpt-1.npz")
    'run/ckpt-1.npz'
    >>> len(path_shown("x" * 10_000))
    300
    """
    text = plain(path)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 103]}...{text[-100:]}"


def file_error(e: OSError, path: Any, done: str) -> errors.OpError:
    """The error to raise instead of an error of the file system.

    Parameters
    ----------
    e : OSError
    path : str or bytes
        The file that the user named.
    done : str
        A participle, such as "written".

    Examples
    --------
    >>> from gtape.base.file_errors import file_error
    >>> print(file_error(OSError(28, "No space left on device"), "run/ckpt-1.npz", "written"))
    'run/ckpt-1.npz' cannot be written: No space left on device. Free some space, or name a folder on another disk
    """
    cls, advice = _BY_NUMBER.get(e.errno or 0, (errors.UnknownError, "Name another file"))
    why = plain(e.strerror or str(e) or type(e).__name__)
    return cls(f"'{path_shown(path)}' cannot be {done}: {why}. {advice}")


@contextmanager
def translated(path: Any, done: str) -> Iterator[None]:
    """Raise each OSError in the block as a `file_error`."""
    try:
        yield
    except OSError as e:
        raise file_error(e, path, done) from None
