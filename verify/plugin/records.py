"""The results of the checks of one test, as plain data, which pytest-xdist sends from its workers to the controller."""

from __future__ import annotations

import heapq
import sys
from typing import Any

from gtape.base.escaping import json_data, place_text
from gtape.base.own_files import is_own
from gtape.base.verification import Options
from gtape.verify.plugin.answers import Unanswered
from gtape.verify.verdicts.verdict import Finding, Report

__all__ = ["SLOWEST", "Record", "finding_text"]

SLOWEST = 5  # checks that a summary names


class Record:
    """The checks of one test.

    Parameters
    ----------
    options : Options
        The options of checks in this test.
    declared : str, optional
        Why the gradients of this test are meant to differ from the exact ones.
    """

    def __init__(self, options: Options, declared: str | None = None) -> None:
        self.options, self.declared = options, declared
        self.gradients = self.numbers = 0
        self.max_ulp = self.seconds = 0.0
        self.verdicts: dict[str, int] = {}
        self.slowest: list[tuple[float, str, int]] = []
        self.findings: dict[Any, dict[str, Any]] = {}
        self.left_out = 0
        self.errors = Unanswered()

    def count_left_out(self) -> None:
        """Count a gradient that the sample leaves out."""
        self.left_out += 1

    def add(self, report: Report, seconds: float, failed: list[Finding] | None = None) -> None:
        """Add the report of one check; called below the frames of the user.

        Parameters
        ----------
        report : Report
        seconds : float
        failed : list of Finding, optional
            The findings that raise an error; by default those that raise one by the options of the test.
        """
        if failed is None:
            failed = [f for f in report.findings if f.fails(self.options.fail_on, strict=self.options.strict)]
        if failed and self.declared is None:
            self.errors.add(report)
        self.gradients += 1
        self.numbers += report.checked
        self.max_ulp = max(self.max_ulp, report.max_ulp)
        self.seconds += seconds
        for verdict in {f.verdict for f in report.findings} or {"correct"}:
            self.verdicts[verdict] = self.verdicts.get(verdict, 0) + 1
        # The number is unequal for all checks, so that heapq compares no further.
        kept = (seconds, _users_line(), self.gradients)
        (heapq.heappush if len(self.slowest) < SLOWEST else heapq.heappushpop)(self.slowest, kept)
        for f in report.findings:
            self._keep(f, any(f is x for x in failed))

    def _keep(self, f: Finding, fails: bool) -> None:
        """Keep only the worst finding of a cause, because each step of a training loop may repeat the finding."""
        kept = self.findings.get(f.key)
        times = 1 if kept is None else kept["times"] + 1
        fails = self.declared is None and (fails or (kept is not None and kept["fails"]))
        if kept is None or (f.ulps or 0.0) > kept["size"]:
            kept = {
                **f.as_dict(),
                "text": str(f),
                "size": f.ulps or 0.0,
                "declared": self.declared is not None and (f.verdict == "undecided" or not f.ok),
            }
        self.findings[f.key] = {**kept, "fails": fails, "times": times}

    def as_dict(self) -> dict[str, Any]:
        """The record as plain data."""
        found = [{k: v for k, v in f.items() if k != "size"} for f in self.findings.values()]
        made: dict[str, Any] = json_data({
            "gradients": self.gradients,
            "left_out": self.left_out,
            "numbers": self.numbers,
            "max_ulp": self.max_ulp,
            "seconds": self.seconds,
            "verdicts": self.verdicts,
            "declared": self.declared,
            "slowest": [{"seconds": s, "line": line} for s, line, _ in sorted(self.slowest, reverse=True)],
            "findings": found,
        })  # fmt: skip
        return made


def _users_line() -> str:
    """The place of the innermost frame of the user."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_own(frame.f_code.co_filename):
        frame = frame.f_back
    return place_text((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))


def finding_text(found: dict[str, Any]) -> str:
    """A finding of a record in one line, without its witness.

    Examples
    --------
    >>> import gtape as tf
    >>> from gtape.verify.plugin.records import Record, finding_text
    >>> record = Record(tf.verify.Options())
    >>> record.add(tf.verify.judge(tf.square, [3.0], 5.0), 0.0)
    >>> print(finding_text(record.as_dict()["findings"][0]))
    rule (order 1), source 0, element [], got 5.0, exact 6.000000000000000000000000000000000000000, ...
    """
    text: str = found["text"]
    head, *rest = text.split("\n  witness")[0].split("\n")
    named = ("got", "exact", "line", "instead")
    labels = (*named, "digits", "why")
    parts: list[str] = []
    for line in rest:
        word, _, told = line.strip().partition(" ")
        if line[2:3] != " " and word in labels:
            parts.append(f"{': ' if word == 'why' else ', '}{word + ' ' if word in named else ''}{told.strip()}")
        else:
            parts.append(f" {line.strip()}")
    return head + "".join(parts)
