"""Ctrl-C, SIGTERM and SIGHUP: the first signal ends the work and keeps its results, the second ends the process."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from types import FrameType, TracebackType
from typing import Any, Literal

__all__ = ["Interrupted", "Interrupts", "signal_name"]

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has no SIGHUP

_ONE = 0.25  # seconds within which signals count as one, because `timeout` signals the process and its group
_GRACE = 10.0  # seconds to write the report after a signal


class Interrupted(KeyboardInterrupt):
    """A signal ends the work.

    Attributes
    ----------
    number : int
        Number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal_name(number))
        self.number = number


def signal_name(number: int) -> str:
    """The name of a signal, such as SIGINT."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Interrupts:
    """Handles the signals inside its block.

    The first signal raises `Interrupted` during preparations and jobs in this process. While `waiting` for other
    processes, a signal rings the bell. While `reporting`, a signal leaves ten seconds to finish the report. A second
    signal ends the process at once.

    Parameters
    ----------
    last : bool
        Whether the process ends after this block. The signals are ignored from then on, because the interpreter would
        print a traceback while it ends.

    Attributes
    ----------
    number : int or None
        The first signal.
    bell : Connection
        Becomes readable at a signal while `waiting`.

    Examples
    --------
    >>> from gtape.verify.search.interrupts import Interrupts
    >>> with Interrupts() as interrupts:
    ...     print(interrupts.number, interrupts.status)
    None 0
    """

    def __init__(self, *, last: bool = False) -> None:
        self.number: int | None = None
        self._last = last
        self._doing: Literal["working", "waiting", "reporting"] = "working"
        self._came = 0.0
        self._before: dict[int, Any] = {}
        self._timer: threading.Timer | None = None
        self._hook: Any = sys.unraisablehook
        self.bell: Connection
        self._ring: Connection
        self.bell, self._ring = Pipe(duplex=False)

    @property
    def status(self) -> int:
        """The exit status as shells count it; 0 without a signal."""
        return 0 if self.number is None else 128 + self.number

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():  # because Python allows handlers only there
            for name in _NAMES:
                number = getattr(signal, name, None)
                # An ignored signal stays ignored, as under nohup or in the background of a shell.
                if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._take)
        self._hook, sys.unraisablehook = sys.unraisablehook, self._swallowed
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if self._last else handler)
        sys.unraisablehook = self._hook
        if self._timer is not None:
            self._timer.cancel()
        self.bell.close()
        self._ring.close()

    def _swallowed(self, what: Any) -> None:
        # Python only prints an exception inside a destructor or a callback; the jobs then find the number, which stays.
        if not isinstance(what.exc_value, Interrupted):
            self._hook(what)

    def _take(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.number is not None:
            if now - self._came > _ONE:
                os._exit(128 + number)
            return
        self.number, self._came = number, now
        if self._doing == "working":
            raise Interrupted(number)
        if self._doing == "waiting":
            self._ring.send_bytes(b"!")
        else:
            self._hurry()

    def waiting(self) -> None:
        """From now on, let a signal ring the bell instead of raising."""
        self._doing = "waiting"

    def reporting(self) -> None:
        """From now on, only the report is written; a signal limits the time for it."""
        self._doing = "reporting"
        if self.number is not None:
            self._hurry()

    def _hurry(self) -> None:
        # A time limit, because the process would not end if nobody reads the report.
        self._timer = threading.Timer(_GRACE, os._exit, (self.status,))
        self._timer.daemon = True
        self._timer.start()
