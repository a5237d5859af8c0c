"""Wrong arguments of every command: an exit status and a sentence, whatever files, numbers, names and streams are.

`tests/command_lines.py` draws the command lines. ``GTAPE_FUZZ_COMMANDS=5000`` runs that many, ``GTAPE_FUZZ_SEED`` says
which ones; each that fails is printed with the number that repeats it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gtape.verify.command import cli

HERE = Path(__file__).resolve().parent
CALLS = int(os.environ.get("GTAPE_FUZZ_COMMANDS", "16"))
SEED = os.environ.get("GTAPE_FUZZ_SEED", "0")

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="puts pipes in the place of files")


@pytest.mark.slow
def test_drawn_command_lines_end_in_a_status_and_a_sentence() -> None:
    words = [sys.executable, str(HERE / "command_lines.py"), "--calls", str(CALLS), "--seed", SEED]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120 + 10 * CALLS)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-3000:]}"


def test_a_closed_standard_output_is_said_once() -> None:
    code = "import os, sys; sys.stdout.close(); from gtape.verify.command import cli; sys.exit(cli.main(sys.argv[1:]))"
    words = [sys.executable, "-c", code, "census", "negative", "--points", "100", "--processes", "1"]
    done = subprocess.run(
        words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(HERE.parent)}, timeout=60
    )
    assert done.returncode == 3
    assert done.stderr.strip().splitlines() == [
        "gtape census: standard output cannot be written: I/O operation on closed file."
    ]


REPORT: dict[str, Any] = {"gtape": "report", "format": 1, "title": "t"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"counts": {"n": "\0"}}, "counts n is no int, but"),
        ({"counts": {"n": True}}, "counts n is no int, but True"),
        ({"largest": {"n": "many"}}, "largest n is no number, but 'many'"),
        ({"largest": {"n": 10**400}}, "largest n is no number"),
        ({"findings": [{"verdict": [], "cause": "c", "text": "t"}]}, "findings 0 verdict is no str"),
        ({"findings": [{"verdict": "rule", "cause": "c", "text": "t", "times": "x"}]}, "findings 0 times is no int"),
        ({"errors": [None]}, "errors 0 is no str"),
        ({"command": "gtape"}, "command is no list"),
        ({"seconds": []}, "seconds is no number"),
        ({"again": {"shards": [{"shard": {"kind": []}}]}}, "again shards 0 shard kind is no str"),
        ({"tables": [{"title": "t", "columns": ["a"], "rows": [["1", "2"]], "fine": [True]}]}, "unequal length"),
    ],
)
@pytest.mark.parametrize("command", ["report", "replay"])
def test_a_report_of_another_shape_is_one_clear_error(
    command: str, change: dict[str, Any], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.json"
    file.write_text(json.dumps({**REPORT, **change}))
    words = ["--to", str(tmp_path / "page.html")] if command == "report" else []
    assert cli.main([command, str(file), *words]) == 2
    assert says in capsys.readouterr().err
