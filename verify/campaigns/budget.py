"""A time limit on code that looks at no clock, such as a user's function."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gtape.base.deadline import within

__all__ = ["TooLong", "limited"]

_AGAIN = 1.0  # seconds until the next signal, because the code may catch the first signal
_WAITING = 4.0  # times the limit: how long the block may take if it waits, or if the machine is busy


class TooLong(BaseException):
    """The time is over. Not an `Exception`, because the code may catch every `Exception`."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Limit the time of a block in the main thread; in other threads only gtape's own computations stop.

    Parameters
    ----------
    seconds : float
        Time of the processor, because the outcome should not depend on other programs on the machine; a block that
        waits may take four times as long.

    Raises
    ------
    TooLong
        Once the time is over, on systems with timers.
    gtape.base.deadline.OutOfTime
        From gtape's own computations, in other threads and on other systems.

    Examples
    --------
    >>> from gtape.verify.campaigns.budget import TooLong, limited
    >>> try:
    ...     with limited(0.1):
    ...         while True:
    ...             pass
    ... except TooLong:
    ...     print("over")
    over
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or not hasattr(signal, "setitimer"):
        with within(_WAITING * seconds):
            yield
        return

    def over(number: int, frame: Any) -> None:
        raise TooLong

    timers = ((signal.SIGPROF, signal.ITIMER_PROF, seconds), (signal.SIGALRM, signal.ITIMER_REAL, _WAITING * seconds))
    before = [signal.signal(number, over) for number, _, _ in timers]
    try:
        for _, timer, limit in timers:
            signal.setitimer(timer, limit, _AGAIN)
        yield
    finally:
        for (number, timer, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0.0)
            signal.signal(number, handler)
