"""Collects the reports of the checks that the verify flag runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar

from gtape.base.blocks import block
from gtape.verify.verdicts.verdict import Report

__all__ = ["collecting", "note", "uncollected"]

_open: ContextVar[tuple[Report, ...]] = ContextVar("gtape_collecting", default=())


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


def note(report: Report) -> None:
    """Add the report of one check to every open collection; called before the check may raise."""
    for whole in _open.get():
        whole.extend(report)
        whole.coverage["gradients"] += 1


@block
def uncollected() -> Iterator[None]:
    """Keep the checks inside the block, which serve another check, out of all collections."""
    before = _open.get()
    try:
        _open.set(())
        yield
    finally:
        _open.set(before)
