"""Shows the progress of a check on a terminal, once the check has taken two seconds."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Iterable
from typing import Any, TypeVar

__all__ = ["VARIABLE", "shown"]

VARIABLE = "GTAPE_PROGRESS"
_PATIENCE = 2.0  # seconds
_open = False  # True while a check may show a bar, because a check inside a check shows none

T = TypeVar("T")


def shown(steps: Iterable[T], total: int, what: str) -> Generator[T, None, None]:
    """Yield the steps of a check, with a progress bar on a terminal.

    Parameters
    ----------
    total : int
        Number of steps.
    what : str
        Label of the bar.

    Notes
    -----
    The bar appears on stderr if stderr is a terminal. ``GTAPE_PROGRESS=0`` turns it off.
    """
    global _open
    if _open or not _wanted():
        yield from steps
        return
    _open = True
    begun = time.perf_counter()
    bar: Any = None
    task: Any = None
    try:
        for done, step in enumerate(steps):
            if bar is None and time.perf_counter() - begun > _PATIENCE:
                bar, task = _bar(what, total)
            if bar is not None:
                bar.update(task, completed=done)
            yield step
    finally:
        _open = False
        if bar is not None:
            bar.stop()


def _wanted() -> bool:
    if os.environ.get(VARIABLE, "").strip().lower() in ("0", "false", "no", "off"):
        return False
    return bool(sys.stderr is not None and sys.stderr.isatty())


def _bar(what: str, total: int) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr),
        transient=True,
    )
    bar.start()
    return bar, bar.add_task(what, total=total)
