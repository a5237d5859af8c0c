"""Helpers of property tests: search towards large errors, and stop shrinking after some time."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from typing import Any

from gtape.base.shown import shown
from gtape.verify.verdicts.verdict import Report

__all__ = ["aim", "shrinking"]

_MOST = 1e18  # ULP; larger errors count the same


def aim(report: Report, label: str = "ULP") -> Report:
    """Tell Hypothesis to search where errors are larger, by ``hypothesis.target``.

    Parameters
    ----------
    report : Report
        Of a check inside a property test.
    label : str
        The name of this aim; a test with several checks needs several names.

    Returns
    -------
    Report
        The same report.

    Raises
    ------
    TypeError
        For an argument that is not a report.

    Examples
    --------
    >>> import gtape
    >>> from hypothesis import given, settings
    >>> from gtape.verify import strategies
    >>> @settings(max_examples=5, deadline=None)
    ... @given(strategies.tensors(shape=(2,)))
    ... def test(x):
    ...     assert strategies.aim(gtape.verify.check(gtape.tanh, x)).ok
    >>> test()
    """
    from hypothesis import target

    if not isinstance(report, Report):
        raise TypeError(f"aim takes the report of a check, not {shown(report)}")
    worst = report.max_ulp
    target(math.log2(1 + min(worst, _MOST)) if worst == worst else math.log2(1 + _MOST), label=label)
    return report


def shrinking(seconds: float) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Limit the time that Hypothesis shrinks a failing example of a test.

    Once this time has passed after the first failure, new examples pass without a run, so Hypothesis reports the
    smallest example found so far. Place the decorator below ``@given``.

    Parameters
    ----------
    seconds : float
        The time for shrinking; a positive number.

    Returns
    -------
    callable
        A decorator of test functions.

    Raises
    ------
    ValueError
        For a time that is not positive.

    Examples
    --------
    >>> from hypothesis import given, settings
    >>> from hypothesis import strategies as st
    >>> from gtape.verify import strategies
    >>> @settings(max_examples=5)
    ... @given(st.floats(0.0, 1.0))
    ... @strategies.shrinking(seconds=2.0)
    ... def test(x):
    ...     assert x >= 0.0
    >>> test()
    """
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        raise ValueError(f"seconds is a positive number, not {shown(seconds)}")

    def limited(test: Callable[..., None]) -> Callable[..., None]:
        failed: set[str] = set()
        first: list[float] = []

        @functools.wraps(test)
        def run(*args: Any, **words: Any) -> None:
            key = repr((args, sorted(words.items())))
            if first and key not in failed and time.monotonic() - first[0] > seconds:
                return
            try:
                test(*args, **words)
            except Exception:
                first.append(time.monotonic())
                failed.add(key)
                raise

        return run

    return limited
