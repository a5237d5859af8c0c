"""A pool of processes that ends at once when the work is interrupted."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

__all__ = ["workers"]


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def workers(processes: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of processes; where the block ends by an exception, Ctrl-C say, nothing that is queued is done any more.

    Parameters
    ----------
    processes : int
        How many.

    Examples
    --------
    >>> with workers(1) as pool:
    ...     pool.submit(abs, -3).result()
    3
    """
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(processes, initializer=_leave_interrupts_to_the_parent)
    try:
        yield pool
    except BaseException:
        # Not cancelled before: Python 3.11 stumbles over cancelled work when its processes are gone.
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        pool.shutdown()
        raise
    pool.shutdown()
