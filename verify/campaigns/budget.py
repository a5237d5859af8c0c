"""A time limit on code that looks at no clock, such as a user's function."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gtape.base.deadline import within

__all__ = ["TooLong", "limited"]

_AGAIN = 1.0  # seconds until the next signal, because the code may catch the first one


class TooLong(BaseException):
    """The time is over. No Exception, because the code may catch those."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Limit the time of a block in the main thread; elsewhere only gtape's own computations stop.

    Parameters
    ----------
    seconds : float

    Raises
    ------
    TooLong
        Once the time is over, on systems with timers.
    gtape.base.deadline.OutOfTime
        From gtape's own computations.

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
        with within(seconds):
            yield
        return

    def over(number: int, frame: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, over)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
        with within(seconds):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
