"""The fixture `gtape_check`: checks of functions inside a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from gtape.base.verification import MOST_NESTED, Options
from gtape.verify.judging.api import check
from gtape.verify.judging.claims import judge
from gtape.verify.judging.flag import conclude, examined
from gtape.verify.verdicts.verdict import Report

if TYPE_CHECKING:
    from gtape.verify.plugin.checks import Checks

__all__ = ["Check"]


class Check:
    """Checks functions by the options of a test, and fails the test for a wrong derivative.

    Parameters
    ----------
    checks : Checks
    item : pytest.Item
        The test.
    """

    def __init__(self, checks: Checks, item: pytest.Item) -> None:
        self._checks, self._item = checks, item

    def __call__(self, f: Callable[..., Any], *args: Any, order: int | None = None) -> Report:
        """Check gtape's own derivatives of a function, as `gtape.verify.check` does.

        Parameters
        ----------
        f : callable
            Takes tensors, returns a tensor or a structure of tensors.
        *args : tensors, arrays or numbers
        order : int, optional
            The highest order; by default that of the marker or of ``--gtape-order``, otherwise 1.

        Returns
        -------
        Report

        Raises
        ------
        VerificationError
            If a finding fails by the options of the test.
        """
        return self._concluded(lambda k: check(f, *args, order=k), order)

    def judge(self, f: Callable[..., Any], args: Any, claimed: Any, order: int | None = None) -> Report:
        """Judge a derivative that other code computed, as `gtape.verify.judge` does.

        Parameters
        ----------
        f : callable
        args : sequence of tensors, arrays or numbers
        claimed : array or tuple of arrays
            The derivative of order `order`.
        order : int, optional
            1 by default.

        Returns
        -------
        Report

        Raises
        ------
        VerificationError
            If a finding fails by the options of the test.
        """
        return self._concluded(lambda k: judge(f, args, claimed, order=k), 1 if order is None else order)

    def _concluded(self, run: Callable[[int], Report], order: int | None) -> Report:
        options: Options = self._checks.options_of(self._item)
        k = min(options.order or 1, MOST_NESTED) if order is None else order
        report, seconds = examined(lambda whole: whole.extend(run(k)), options, k)
        with self._checks.heard(self._item):
            conclude(report, options, seconds)
        return report
