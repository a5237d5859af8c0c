"""Which errors of checks a test expected: `pytest.raises` and unittest's `assertRaises` answer them, other code does
not.
"""

from __future__ import annotations

import unittest.case
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from gtape.errors import VerificationError
from gtape.verify.verdicts.verdict import Report

__all__ = ["Unanswered", "answering"]


class Unanswered:
    """The errors of checks that were raised in a test and that nothing has answered yet.

    Examples
    --------
    >>> import gtape as tf
    >>> from gtape.verify.plugin.answers import Unanswered
    >>> errors, report = Unanswered(), tf.verify.judge(tf.square, [3.0], 5.0)
    >>> errors.add(report)
    >>> errors.first() is report, errors.count
    (True, 1)
    >>> errors.answer(report)
    >>> errors.first() is None, errors.count
    (True, 0)
    """

    def __init__(self) -> None:
        self.count = 0
        # Weak, because a training loop may catch as many errors as it has steps.
        self._open: weakref.WeakSet[Report] = weakref.WeakSet()
        self._first: Report | None = None

    def add(self, report: Report) -> None:
        """Add the report of an error that is about to be raised."""
        self.count += 1
        self._open.add(report)
        if self._first is None:
            self._first = report

    def answer(self, report: Any) -> None:
        """Take out the report of an error that the test expected."""
        if isinstance(report, Report) and report in self._open:
            self.count -= 1
            self._open.discard(report)
            if self._first is report:
                self._first = next(iter(self._open), None)

    def clear(self) -> None:
        """Take out all reports."""
        self.__init__()  # type: ignore[misc]

    def first(self) -> Report | None:
        """The report of the first error that is still known."""
        return self._first


@contextmanager
def answering(heard: Callable[[Any], None]) -> Iterator[None]:
    """Call a function with the report of each `VerificationError` that a test expects inside the block.

    Parameters
    ----------
    heard : callable
        Takes the attribute `report` of the error.
    """

    def tell(error: BaseException | None) -> None:
        for e in _parts(error):
            if isinstance(e, VerificationError):
                heard(e.report)

    # pytest and unittest have no hook for expected errors. These methods get each error that was expected.
    info, context = pytest.ExceptionInfo, unittest.case._AssertRaisesContext
    fill, made, end = vars(info)["fill_unfilled"], vars(info)["from_exception"], vars(context)["__exit__"]

    def fill_unfilled(self: Any, exc_info: Any) -> None:
        fill(self, exc_info)
        tell(exc_info[1])

    def from_exception(cls: Any, exception: Any, *args: Any, **kwargs: Any) -> Any:
        found = made.__func__(cls, exception, *args, **kwargs)
        tell(exception)
        return found

    def __exit__(self: Any, exc_type: Any, exc_value: Any, tb: Any) -> Any:
        answered = end(self, exc_type, exc_value, tb)
        if answered:
            tell(exc_value)
        return answered

    with ExitStack() as stack:
        for owner, name, new in (
            (info, "fill_unfilled", fill_unfilled),
            (info, "from_exception", classmethod(from_exception)),
            (context, "__exit__", __exit__),
        ):
            stack.callback(setattr, owner, name, vars(owner)[name])
            setattr(owner, name, new)
        yield


def _parts(error: BaseException | None) -> Iterator[BaseException]:
    """An error, or the errors of a group of errors."""
    if isinstance(error, BaseExceptionGroup):
        for e in error.exceptions:
            yield from _parts(e)
    elif error is not None:
        yield error
