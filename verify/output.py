"""What the command line shows and writes: a progress bar, tables, files whole or not at all."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gtape.escaping import json_data, plain, rich_text

__all__ = ["Usage", "check_path", "progress_bar", "show_table", "ulp_text", "versions", "write_json", "write_text"]


class Usage(Exception):
    """The command cannot be run as it was given."""


@contextmanager
def progress_bar(options: argparse.Namespace) -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar on standard error, where that is a terminal."""
    if options.no_progress or not sys.stderr.isatty():
        yield lambda done, total, what: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=plain(what))


def write_json(path: str, data: Any) -> None:
    """Write JSON whole or not at all; ``-`` is standard output."""
    text = json.dumps(json_data(data), indent=1, allow_nan=False) + "\n"
    if path == "-":
        sys.stdout.write(text)
    else:
        write_text(path, text)


def write_text(path: str, text: str) -> None:
    """Write a file whole or not at all; what is no plain file (a pipe, /dev/null) is written to as it is.

    Raises
    ------
    Usage
        Where that cannot be done.
    """
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            return
        target = os.path.realpath(path)
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".gtape-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as f:
                f.write(text)
            os.chmod(temporary, _mode(target))
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as e:
        raise Usage(f"{plain(path)} cannot be written: {e.strerror}") from None


def _mode(path: str) -> int:
    """The permissions of a file, or those that a new one gets."""
    if os.path.exists(path):
        return os.stat(path).st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def check_path(path: str | None) -> None:
    """Find out before the work, not after it, that a report has nowhere to go.

    Raises
    ------
    Usage
        Also where a primitive's name stands for the file: ``--json sin`` would write all of them to a file ``sin``.
    """
    if path is None or path == "-":
        return
    from gtape import catalogue
    from gtape.archives import path_text
    from gtape.errors import InvalidArgumentError
    from gtape.primitive import REGISTRY

    try:
        path_text(path)
    except InvalidArgumentError as e:
        raise Usage(str(e)) from None
    catalogue.load()
    if path in REGISTRY:
        raise Usage(f"{path!r} is a primitive; name a file, or write `--json -`, or put --json behind the names")
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path) or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise Usage(f"{plain(path)} cannot be written: name a file in a folder that exists and is yours to write")


def show_table(
    title: str, columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]], styles: Sequence[str | None]
) -> None:
    """Print a table; on a terminal that is too narrow for it, each row as words."""
    from rich.console import Console
    from rich.table import Table

    # piped output gets the width it needs, not that of a terminal that is not there
    console = Console() if sys.stdout.isatty() else Console(width=160)
    widths = [max([len(name), *[len(row[i]) for row in rows]]) for i, (name, _) in enumerate(columns)]
    if sys.stdout.isatty() and sum(widths) + 3 * len(widths) + 1 > console.width:
        console.print(rich_text(title))
        for row, style in zip(rows, styles, strict=True):
            words = [f"{name} {text}" for (name, _), text in list(zip(columns, row, strict=True))[1:] if text]
            console.print(rich_text(f"{row[0]}: {', '.join(words)}"), style=style, highlight=False)
        return
    made = Table(title=rich_text(title), title_justify="left")
    for name, justify in columns:
        made.add_column(name, justify=justify, no_wrap=True, overflow="fold")  # type: ignore[arg-type]
    for row, style in zip(rows, styles, strict=True):
        made.add_row(*[rich_text(text) for text in row], style=style)
    console.print(made)


def ulp_text(x: float | None) -> str:
    """A distance in ULP for a table."""
    if x is None:
        return ""
    return f"{x:.2f}" if x < 1000 else f"{x:.1e}"


def versions() -> dict[str, str]:
    """What the figures were measured with."""
    from importlib import metadata

    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in ("gtape", "numpy", "scipy", "sympy", "python-flint", "hypothesis"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed" if name != "gtape" else "checkout"
    return found
