"""The time limit of a check. Long computations look at the clock between their steps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextvars import ContextVar

from gtape.base.blocks import block

__all__ = ["OutOfTime", "tick", "within"]

_deadline: ContextVar[float | None] = ContextVar("gtape_deadline", default=None)


class OutOfTime(BaseException):
    """The time is over.

    No `Exception`, because code that reports any error of a rule or of a user's function would report this one, too.
    """


@block
def within(seconds: float | None) -> Iterator[None]:
    """Limit the time of a block. An inner block never extends the time of an outer block.

    Parameters
    ----------
    seconds : float, optional
        By default there is no limit.

    Raises
    ------
    OutOfTime
        From `tick`, after the time is over.

    Examples
    --------
    >>> from gtape.base.deadline import OutOfTime, tick, within
    >>> try:
    ...     with within(0.0):
    ...         while True:
    ...             tick()
    ... except OutOfTime:
    ...     print("over")
    over
    """
    before = _deadline.get()
    try:
        if seconds is not None:
            end = time.monotonic() + seconds
            _deadline.set(end if before is None else min(before, end))
        yield
    finally:
        _deadline.set(before)


def tick() -> None:
    """Raise OutOfTime if the time is over. Called between the steps of a computation."""
    end = _deadline.get()
    if end is not None and time.monotonic() > end:
        raise OutOfTime
