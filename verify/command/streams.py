"""Writes to standard output and standard error, which may be closed, full, without a reader, or ASCII only."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import IO, Any

__all__ = [
    "OutputLost", "ReaderGone", "flush", "forsake", "is_terminal", "kept_for_results", "open_descriptors", "say",
    "settle", "tell", "without_closed_streams",
]  # fmt: skip

_kept: list[IO[str] | None] = []  # standard output inside `kept_for_results`


class OutputLost(Exception):
    """Output could not be written."""


class ReaderGone(Exception):
    """The reader of standard output has ended, as after ``| head -1``."""


def open_descriptors() -> None:
    """Open the null device on each closed descriptor from 0 to 2.

    Otherwise a pipe to a worker may get one of these numbers, and receive the output of C code.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            with contextlib.suppress(OSError):
                os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
                os.set_inheritable(number, True)


@contextlib.contextmanager
def without_closed_streams() -> Iterator[None]:
    """Treat closed standard streams as missing inside a block, because argparse asks whether they are terminals."""
    with contextlib.ExitStack() as stack:
        if getattr(sys.stdout, "closed", False):
            stack.enter_context(contextlib.redirect_stdout(None))
        if getattr(sys.stderr, "closed", False):
            stack.enter_context(contextlib.redirect_stderr(None))
        yield


@contextlib.contextmanager
def kept_for_results() -> Iterator[None]:
    """Keep standard output for `say` inside a block: what the user's modules print goes to standard error.

    Otherwise a line that such a module prints would stand in the middle of JSON, or of a written test.
    """
    _kept.append(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _kept.pop()


def _standard_output() -> IO[str] | None:
    return _kept[-1] if _kept else sys.stdout


def say(text: str = "", end: str = "\n") -> None:
    """Print on standard output, with escapes for characters that its encoding lacks.

    Raises
    ------
    OutputLost, ReaderGone

    Examples
    --------
    >>> from gtape.verify.command.streams import say
    >>> say("4 ULP")
    4 ULP
    """
    stream = _standard_output()
    if stream is None:
        raise OutputLost("standard output is closed")
    try:
        stream.write(_fit(text + end, stream))
    except BrokenPipeError:
        forsake(stream)
        raise ReaderGone from None
    except (OSError, ValueError) as e:  # a closed stream raises ValueError
        forsake(stream)
        raise OutputLost(f"standard output cannot be written: {getattr(e, 'strerror', None) or e}") from None


def flush() -> None:
    """Flush standard output.

    Raises
    ------
    OutputLost, ReaderGone
    """
    stream = _standard_output()
    if stream is None:
        return
    try:
        stream.flush()
    except BrokenPipeError:
        forsake(stream)
        raise ReaderGone from None
    except (OSError, ValueError) as e:
        forsake(stream)
        raise OutputLost(f"standard output cannot be written: {getattr(e, 'strerror', None) or e}") from None


def tell(text: str) -> None:
    """Print on standard error; do nothing if this is impossible."""
    stream: IO[str] | None = sys.stderr
    if stream is None:
        return
    try:
        stream.write(_fit(text + "\n", stream))
        stream.flush()
    except (OSError, ValueError):
        forsake(stream)


def settle() -> None:
    """Flush both streams now, because a failure at the interpreter's end would change the exit status."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            forsake(stream)


def is_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal; a missing or closed stream is not."""
    try:
        return stream is not None and bool(stream.isatty())
    except (OSError, ValueError):
        return False


def forsake(stream: Any) -> None:
    """Send the buffered text of a stream, and all later text, to the null device.

    Parameters
    ----------
    stream : file
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)


def _fit(text: str, stream: Any) -> str:
    if isinstance(stream, io.StringIO):
        return text
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
