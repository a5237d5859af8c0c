"""``gtape report``: a report of any result, in the formats that other programs and people read."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from gtape.base.escaping import plain
from gtape.storage.files import open_regular
from gtape.verify.campaigns import examples, journal
from gtape.verify.command.output import Usage, check_path, write_json, write_text
from gtape.verify.command.streams import say
from gtape.verify.reports.formats import FORMATS, format_of, read_text
from gtape.verify.reports.result import ACCEPTED, Result, ResultError
from gtape.verify.reports.sources import of_check, of_data, of_journal
from gtape.verify.search.interrupts import Interrupts
from gtape.verify.verdicts.verdict import Report

__all__ = ["read", "result_of", "run", "write"]

_MOST_BYTES = 2_000_000_000


def run(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Write the reports; return the exit status."""
    check_path(options.json)
    options.to = list(dict.fromkeys(options.to))
    for path in options.to:
        if format_of(path) is None:
            raise Usage(f"{plain(path)}: the end of the name says the format: {', '.join(FORMATS)}")
        check_path(path)
        if os.path.realpath(path) == os.path.realpath(options.result):
            raise Usage(f"{plain(path)} is the result itself: name another file")
    result = result_of(read(options.result), options.result)
    interrupts.reporting()
    if options.json:
        write_json(options.json, result.as_dict())
    for path in options.to:
        write(result, path)
        if options.json != "-":
            accepted = sum(ACCEPTED in f for f in result.findings)
            n = len(result.findings) - accepted
            more = f", {accepted} accepted" if accepted else ""
            say(f"{plain(path)}: {result.title}, {n or 'no'} finding{'' if n == 1 else 's'}{more}")
    return 0


def write(result: Result | Report, path: str) -> None:
    """Write a report, whole or not at all; the ending of the path chooses the format.

    Parameters
    ----------
    result : Result or Report
        A report of `gtape.verify.check` or `judge`, or a result from `read` and `result_of`.
    path : str

    Raises
    ------
    Usage
        For an unknown format, or a file that cannot be written.

    Examples
    --------
    >>> import os, tempfile
    >>> import gtape as tf
    >>> from gtape.verify.command.reports import write
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(tf.verify.check(tf.tanh, 0.5), os.path.join(folder, "check.html"))
    ...     os.listdir(folder)
    ['check.html']
    """
    text_of = format_of(path)
    if text_of is None:
        raise Usage(f"{plain(path)}: the end of the name says the format: {', '.join(FORMATS)}")
    write_text(path, text_of(of_check(result) if isinstance(result, Report) else result))


def read(path: str) -> journal.Lines | Result | Any:
    """Read a file: the lines of a journal, the result of a report, or the data of other JSON.

    Raises
    ------
    Usage
        If the file cannot be read, or is broken.
    """
    try:
        with open_regular(path) as f:
            head = f.readline(1_000_000)
            if _mark(head) == journal.MARK:
                return journal.read(path)
            text = (head + f.read(_MOST_BYTES)).decode("utf-8", "replace")
        return read_text(text)
    except OSError as e:
        raise Usage(f"{plain(path)} cannot be read: {e.strerror or e}") from None
    except journal.JournalError as e:
        raise Usage(str(e)) from None
    except ResultError as e:
        raise Usage(f"{plain(path)}: {plain(e)}") from None


def _mark(line: bytes) -> Any:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return data.get("gtape") if isinstance(data, dict) else None


def result_of(data: journal.Lines | Result | Any, path: str) -> Result:
    """The result in the data that `read` returned.

    Raises
    ------
    Usage
        If there is none.
    """
    if isinstance(data, Result):
        return data
    if isinstance(data, journal.Lines):
        return of_journal(data)
    if isinstance(data, dict) and data.get("gtape") == examples.MARK:
        raise Usage(f"{plain(path)} holds examples, not a result: `gtape replay` runs them")
    try:
        return of_data(data)
    except ResultError as e:
        raise Usage(f"{plain(path)}: {plain(e)}") from None
