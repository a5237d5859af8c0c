"""The command line where its output is closed, full, abandoned, ASCII only or narrow, and with odd arguments."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gtape.verify.command import cli, files, output, streams

ROOT = Path(__file__).resolve().parents[2]
CENSUS = "census sin exp --points 100 --orders 1 --processes 2"

unix = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a shell and /dev/full")


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash, in which GTAPE is the command; the status is that of the first command of a pipe."""
    return subprocess.run(
        ["bash", "-c", f'GTAPE="{sys.executable} -m gtape.verify"\n{command}\nexit ${{PIPESTATUS[0]}}'],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=300, env=os.environ | environment,
        encoding="utf-8",
    )  # fmt: skip


@unix
@pytest.mark.parametrize(
    ("command", "status", "says"),
    [
        (
            f"$GTAPE {CENSUS} >/dev/full",
            3,
            "gtape census: standard output cannot be written: No space left on device\n",
        ),
        (f"$GTAPE {CENSUS} --json >/dev/full", 3, "gtape census: standard output cannot be written"),
        (f"$GTAPE {CENSUS} >&-", 3, "gtape census: standard output is closed\n"),
        (f"$GTAPE {CENSUS} <&- >&- 2>&-", 3, ""),
        (f"$GTAPE {CENSUS} >/dev/null 2>&-", 0, ""),
        (f"$GTAPE {CENSUS} >/dev/null 2>/dev/full", 0, ""),
        (f"$GTAPE {CENSUS} | true", 141, ""),
        ("$GTAPE prove reduce_sum --processes 2 | true", 141, ""),
        ("$GTAPE prove reduce_sum --processes 2 >/dev/full", 3, "gtape prove: standard output cannot be written"),
        ("$GTAPE census no_such_op 2>/dev/full", 2, ""),
        ("$GTAPE --points many 2>/dev/full", 2, ""),
        ("$GTAPE --help >/dev/full", 3, "gtape: standard output cannot be written"),
        ("$GTAPE census --help | true", 141, ""),
        ("$GTAPE --version >/dev/full", 3, "gtape: standard output cannot be written"),
    ],
)
def test_lost_output_is_said_once_and_has_its_status(command: str, status: int, says: str) -> None:
    made = shell(command)
    assert made.returncode == status, made.stderr
    assert "Traceback" not in made.stderr and "Exception ignored" not in made.stderr
    assert made.stderr.startswith(says) if says else not made.stderr
    assert len(made.stderr.splitlines()) <= 1


@unix
def test_the_example_of_an_early_closed_output_in_the_documentation_has_its_status() -> None:
    (row,) = [line for line in (ROOT / "docs" / "reference.md").read_text().splitlines() if line.startswith("| 141 |")]
    example = row.split("`")[1].replace("\\|", "|")
    assert example.startswith("gtape ")
    assert shell(example.replace("gtape", "$GTAPE", 1)).returncode == 141


@unix
def test_a_report_in_a_file_is_written_though_the_table_is_lost(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    assert shell(f"$GTAPE {CENSUS} --json {report} >/dev/full").returncode == 3
    assert json.loads(report.read_text())["ok"]


@unix
def test_the_table_is_printed_though_the_file_cannot_be_written() -> None:
    made = shell(f"$GTAPE {CENSUS} --json /dev/full")
    assert made.returncode == 2
    assert "nothing found" in made.stdout and "/dev/full cannot be written" in made.stderr


@unix
@pytest.mark.parametrize("command", [CENSUS, "conventions", "--help", "doctor sin --points 100 --processes 1"])
def test_ascii_is_enough(command: str) -> None:
    made = shell(f"$GTAPE {command}", LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert made.returncode == 0 and made.stdout.isascii(), made.stderr
    assert not made.stderr


# One process runs the command for one terminal after another, because each start takes a second.
TERMINALS = """
import itertools, os
from gtape.verify.command import cli

for term, columns in itertools.product(("dumb", "xterm", ""), ("0", "1", "20", "many", "-5")):
    os.environ |= {"TERM": term, "COLUMNS": columns}
    print("TERMINAL", repr(term), columns, flush=True)
    print("STATUS", cli.main(%r.split()), flush=True)
"""


@pytest.mark.slow
@unix
def test_any_terminal_gets_the_table(tmp_path: Path) -> None:
    # The pseudo-terminal of `script` is one for standard output and standard error, so the progress bar is drawn, too.
    (tmp_path / "terminals.py").write_text(TERMINALS % CENSUS)
    made = shell(f"script -qec '{sys.executable} {tmp_path}/terminals.py' /dev/null", PYTHONPATH=str(ROOT))
    assert made.returncode == 0 and "Traceback" not in made.stdout, made.stdout
    tables = made.stdout.split("TERMINAL ")[1:]
    assert len(tables) == 15
    for table in tables:
        assert "STATUS 0" in table and "nothing found" in table, table
        assert "sin" in table and "exp" in table, table


def test_piped_tables_have_the_width_that_they_need(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_table("t", ("op", "where"), [("sin", "1" * 300)], [True])
    assert "1" * 300 in capsys.readouterr().out


def test_brackets_and_colons_in_a_table_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_table("t", ("op", "where"), [("[bold]", ":smile: [red]x[/red]")], [True])
    out = capsys.readouterr().out
    assert "[bold]" in out and ":smile: [red]x[/red]" in out


def test_what_an_encoding_lacks_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    streams.say("2⁻⁵⁰ \udcff")
    streams.flush()
    assert raw.getvalue().strip() == rb"2\u207b\u2075\u2070 \udcff"


@pytest.mark.parametrize("option", ["--points", "--processes", "--jobs", "--seed"])
@pytest.mark.parametrize(
    "text", ["1e30", "-1", "-1e30", "nan", "-inf", "", " ", "1.5", "0x10", "9" * 40, "9" * 5000, "-", "∞"]
)
def test_a_number_out_of_range_is_wrong_usage_and_the_range_is_said(
    option: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["census", "sin", option, text]) == 2
    err = capsys.readouterr().err
    assert "a whole number is wanted, at least " in err and " and at most " in err
    assert len(err) < 1500


@pytest.mark.parametrize("text", ["0", "1e9", "1000000000"])
def test_so_many_processes_are_wrong_usage(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--processes", "--jobs"):
        assert cli.main(["verify", option, text]) == 2
        assert "at least 1 and at most 1000" in capsys.readouterr().err


def test_the_largest_seed_is_a_seed(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["census", "square", "--points", "100", "--orders", "1", "--processes", "1", "--seed", str(2**64 - 1)]
    assert cli.main(arguments) == 0
    assert "nothing found" in capsys.readouterr().out


def test_a_file_that_cannot_be_written_is_wrong_usage_and_found_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop, nowhere = tmp_path / "loop", tmp_path / "nowhere"
    loop.symlink_to(loop)
    nowhere.symlink_to(tmp_path / "no" / "such")
    places = ["", "/", str(tmp_path), "/no/such/folder/x.json", str(loop), str(nowhere), f"{tmp_path}/x/../no/y"]
    if Path("/proc").is_dir():
        places.append("/proc/x.json")
    for place in places:
        assert cli.main(["prove", "sin", "--json", place]) == 2, place
        err = capsys.readouterr().err
        assert "cannot be written" in err and "name a file in an existing folder" in err
        assert cli.main(["conventions", place]) == 2, place
        assert "cannot be written" in capsys.readouterr().err
    assert {p.name for p in tmp_path.iterdir()} == {"loop", "nowhere"}


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everything")
def test_a_write_protected_file_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    target.write_text("old")
    target.chmod(0o444)
    assert files.refusal(str(target)) == "it is write-protected"


@unix
def test_a_report_goes_into_a_pipe_that_a_shell_names() -> None:
    made = shell("$GTAPE conventions --json /dev/stderr 2> >(cat) >/dev/null")
    assert made.returncode == 0 and json.loads(made.stdout)["conventions"], made.stderr


@unix
def test_a_pipe_is_given_a_report_if_it_has_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PATIENCE", 0.05)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="nobody reads this pipe"):
        files.write_whole(str(pipe), "new")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    files.write_whole(str(pipe), "new")
    assert os.read(reader, 9) == b"new"
    os.close(reader)


def test_files_are_whole_where_the_system_has_none_without_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    target = tmp_path / "report.json"
    files.write_whole(str(target), "new")
    assert target.read_text() == "new"

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.write_whole(str(target), "newer")
    assert target.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]
