"""Output of the command line: a progress bar, tables, and files written whole or not at all."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, cast

from gtape.base.escaping import json_data, plain, rich_text
from gtape.verify.command.files import folder_refusal, refusal, write_whole
from gtape.verify.command.streams import is_terminal, say
from gtape.verify.verdicts.machine import versions

__all__ = [
    "FINE", "FOUND", "INTERRUPTED", "NOT_COMPLETED", "READER_GONE", "USAGE", "Usage", "check_folder", "check_path",
    "make_folder", "progress_bar", "show_table", "ulp_text", "versions", "write_json", "write_text",
]  # fmt: skip

# The exit statuses.
FINE, FOUND, USAGE, NOT_COMPLETED, INTERRUPTED, READER_GONE = 0, 1, 2, 3, 130, 141

_REDRAWN = 0.1  # seconds between updates of the progress bar
_NARROWEST = 10  # columns at least, because some terminals report too few


class Usage(Exception):
    """The command line is wrong."""


class _Drawn:
    """Standard error for a progress bar; ignores errors of writing, because the terminal may have closed."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def progress_bar(options: argparse.Namespace) -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar on standard error if this is a terminal."""
    if options.no_progress or not is_terminal(sys.stderr):
        yield lambda done, total, what: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )  # fmt: skip

    columns = (
        BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
    )  # fmt: skip
    console = Console(file=cast("IO[str]", _Drawn(sys.stderr)))
    # Without a drawing thread, because only a process with one thread forks workers safely.
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task("", total=None)
        drawn = 0.0

        def progress(done: int, total: int, what: str) -> None:
            nonlocal drawn
            bar.update(task, completed=done, total=total, description=plain(what))
            if time.monotonic() - drawn > _REDRAWN or done == total:
                bar.refresh()
                drawn = time.monotonic()

        yield progress


def write_json(path: str, data: Any) -> None:
    """Write JSON whole or not at all; ``-`` stands for standard output."""
    text = json.dumps(json_data(data), indent=1, allow_nan=False)
    if path == "-":
        say(text)
    else:
        write_text(path, text + "\n")


def write_text(path: str, text: str) -> None:
    """Write a file as `write_whole` does.

    Raises
    ------
    Usage
        If the file cannot be written.
    """
    try:
        write_whole(path, text)
    except OSError as e:
        raise Usage(f"{plain(path)} cannot be written: {e.strerror or e}") from None


_ELSEWHERE = "name a file in an existing folder to which you may write"


def check_path(path: str | None) -> None:
    """Check that a report can be written, before the work starts.

    Raises
    ------
    Usage
        Also for a primitive's name as file, because ``--json sin`` would check all primitives and write a file ``sin``.
    """
    if path is None or path == "-":
        return
    from gtape.declare.primitives import REGISTRY
    from gtape.errors import InvalidArgumentError
    from gtape.namespaces import catalogue
    from gtape.storage.archives import path_text

    try:
        path_text(path)
    except InvalidArgumentError as e:
        raise Usage(f"{plain(path) or repr(path)} cannot be written: {e}; {_ELSEWHERE}") from None
    catalogue.load()
    if path in REGISTRY:
        raise Usage(f"{path!r} is a primitive; name a file, or write `--json -`, or put --json after the names")
    why = refusal(path)
    if why is not None:
        shown = plain(path) or repr(path)
        raise Usage(f"{shown} cannot be written: {why}; {_ELSEWHERE}")


def check_folder(path: str | None) -> None:
    """Check that files can be written into a folder, which may not exist yet, before the work starts.

    Raises
    ------
    Usage
    """
    why = None if path is None else folder_refusal(path)
    if path is not None and why is not None:
        raise Usage(f"{plain(path) or repr(path)} cannot be the folder of the results: {why}")


def make_folder(path: str) -> None:
    """Make a folder, with the folders around it.

    Raises
    ------
    Usage
        If this is impossible.
    """
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as e:
        raise Usage(f"the folder {plain(path)} cannot be made: {e.strerror or e}") from None


class _Page(io.StringIO):
    """Text in memory with the encoding of standard output, so that rich draws tables in ASCII if necessary."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(sys.stdout, "encoding", None) or "utf-8"


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], fine: Sequence[bool]) -> None:
    """Print a table, or each row as words if the terminal is too narrow.

    Parameters
    ----------
    columns : sequence of str
        Names of the columns; ">" in front justifies a column to the right.
    fine : sequence of bool
        False prints a row in red.
    """
    from rich.console import Console
    from rich.table import Table

    terminal = is_terminal(sys.stdout)
    justified = ["right" if name[:1] == ">" else "left" for name in columns]
    columns = [name.removeprefix(">") for name in columns]
    styles = [None if ok else "bold red" for ok in fine]
    widths = [max([len(name), *[len(row[i]) for row in rows]]) for i, name in enumerate(columns)]
    needed = sum(widths) + 3 * len(widths) + 1
    # Piped output gets the width that the table needs, because it has no terminal.
    width = max(shutil.get_terminal_size().columns, _NARROWEST) if terminal else max(needed, 160)
    # Drawn in memory, because rich ends the process if it cannot write.
    page = _Page()
    console = Console(
        file=page, width=width, force_terminal=terminal or None, legacy_windows=False, markup=False, emoji=False
    )
    if needed > width:
        console.print(rich_text(title))
        for row, style in zip(rows, styles, strict=True):
            words = [f"{name} {text}" for name, text in list(zip(columns, row, strict=True))[1:] if text]
            console.print(rich_text(f"{row[0]}: {', '.join(words)}"), style=style, highlight=False)
    else:
        made = Table(title=rich_text(title), title_justify="left")
        for name, justify in zip(columns, justified, strict=True):
            made.add_column(name, justify=justify, no_wrap=True, overflow="fold")  # type: ignore[arg-type]
        for row, style in zip(rows, styles, strict=True):
            made.add_row(*[rich_text(text) for text in row], style=style)
        console.print(made)
    say(page.getvalue(), end="")


def ulp_text(x: float | None) -> str:
    """A distance in ULP for a table."""
    if x is None:
        return ""
    return f"{x:.2f}" if x < 1000 else f"{x:.1e}"
