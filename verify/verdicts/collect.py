"""Collects the reports of the checks that the verify flag runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar

from gtape.base.blocks import block
from gtape.verify.verdicts.verdict import Finding, Report

__all__ = ["collecting", "listening", "note", "note_left_out", "uncollected"]

_open: ContextVar[tuple[Report, ...]] = ContextVar("gtape_collecting", default=())
_serving: ContextVar[bool] = ContextVar("gtape_uncollected", default=False)
Heard = Callable[[Report, float, list[Finding]], None]
_listeners: list[Heard] = []
_counters: list[Callable[[], None]] = []


@block
def collecting() -> Iterator[Report]:
    """Collect the reports of all checks of this thread inside the block.

    Yields
    ------
    Report
        Grows with every checked gradient; ``coverage["gradients"]`` counts the gradients.

    Examples
    --------
    >>> import gtape as tf
    >>> from gtape.verify.verdicts.collect import collecting
    >>> x = tf.Variable(3.0)
    >>> with collecting() as report, tf.GradientTape(verify=True) as tape:
    ...     y = x * x
    ...     g = tape.gradient(y, x)
    >>> report.verdict, report.checked, report.coverage["gradients"]
    ('correct', 1, 1)
    """
    report = Report(coverage={"gradients": 0})
    before = _open.get()
    try:
        _open.set((*before, report))
        yield report
    finally:
        _open.set(before)


@block
def listening(heard: Heard, left_out: Callable[[], None] | None = None) -> Iterator[None]:
    """Call a function with the report of each check inside the block, including the checks of other threads.

    Parameters
    ----------
    heard : callable
        Takes the report of one check, the seconds that the check took, and the findings that raise an error. It is
        called before the check may raise, in the thread of the check, below the frames of the user.
    left_out : callable, optional
        Called for each gradient that is not checked because the sample leaves it out.

    Examples
    --------
    >>> import gtape as tf
    >>> from gtape.verify.verdicts.collect import listening
    >>> x = tf.Variable(3.0)
    >>> with listening(lambda report, seconds, failed: print(report.verdict, seconds > 0, failed)), tf.verifying():
    ...     with tf.GradientTape() as tape:
    ...         y = x * x
    ...     g = tape.gradient(y, x)
    correct True []
    """
    count = left_out or _ignored
    try:
        _listeners.append(heard)
        _counters.append(count)
        yield
    finally:
        _listeners.remove(heard)
        _counters.remove(count)


def _ignored() -> None:
    pass


def note(report: Report, seconds: float, failed: list[Finding]) -> None:
    """Add the report of one check to every open collection; called before the check may raise.

    Parameters
    ----------
    report : Report
    seconds : float
        The time that the check took.
    failed : list of Finding
        The findings that raise an error.
    """
    if not _serving.get():
        for heard in _listeners:
            heard(report, seconds, failed)
    for whole in _open.get():
        whole.extend(report)
        whole.coverage["gradients"] += 1


def note_left_out() -> None:
    """Count a gradient that the sample leaves out."""
    if not _serving.get():
        for count in _counters:
            count()


@block
def uncollected() -> Iterator[None]:
    """Keep the checks inside the block, which serve another check, out of all collections."""
    before, serving = _open.get(), _serving.get()
    try:
        _open.set(())
        _serving.set(True)
        yield
    finally:
        _open.set(before)
        _serving.set(serving)
