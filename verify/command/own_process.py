"""A command in a process of its own, which ends when the process that started it ends, even by a kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

__all__ = ["table_of"]

_PROGRAM = """
import sys
from gtape.verify.search.workers import killed_with
killed_with(int(sys.argv.pop(1)))
from gtape.verify.command.cli import main
sys.exit(main())
"""


def table_of(arguments: Sequence[str], processes: int) -> tuple[int, Any, str]:
    """Run a command, which searches the same folders for modules as this process.

    Returns
    -------
    status, table, complaint
        The exit status, the data of ``--json`` (None without any), and the text on standard error.
    """
    # Through a pipe, because a kill of this process would leave the folder of a file behind.
    words = [*arguments, "--json", "-", "--processes", str(processes), "--no-progress"]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(os.getpid()), *words],
        stdin=subprocess.DEVNULL, capture_output=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )  # fmt: skip
    try:
        table = json.loads(done.stdout)
    except ValueError:  # it ended before it wrote
        table = None
    return done.returncode, table, done.stderr.decode("utf-8", "replace").strip()
