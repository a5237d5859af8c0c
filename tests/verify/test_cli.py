"""The command line: what it prints, what it returns, what it leaves behind."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import gtape
from gtape.declare.primitives import REGISTRY
from gtape.verify.command import cli, output, runs
from gtape.verify.command.runs import Line
from gtape.verify.search import pools
from gtape.verify.verdicts.naming import primitives_named


def few_jobs(only: Any = (), **options: Any) -> tuple[list[Line], list[runs.Job]]:
    """The jobs of four rows of each kind of work."""
    names = {"sin", "multiply", "reshape", "square"}
    lines, jobs = REAL_JOBS(**options)
    keep = [x for x in lines if x.name in names]
    return keep, [j for j in jobs if j[1] in names]


REAL_JOBS = runs.jobs_of


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "jobs_of", few_jobs)


@pytest.mark.usefixtures("small")
def test_verify_prints_one_table_and_returns_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", "--quick", "--processes", "1"]) == 0
    out = capsys.readouterr().out
    assert out.count("gtape verify") == 1
    for word in ("sin", "multiply", "reshape", "square", "program", "proved", "correct", "nothing found"):
        assert word in out


def test_what_a_loaded_module_prints_is_no_part_of_the_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = tmp_path / "prints_at_import.py"
    module.write_text("print('a remark')")
    assert cli.main(["prove", "sin", "--load", str(module), "--json", "-", "--processes", "1"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["ok"] is True
    assert captured.err == "a remark\n"


@pytest.mark.usefixtures("small")
def test_verify_writes_json_in_place_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", "--points", "100", "--json", "--processes", "1"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["ok"] is True
    kinds = {(x["name"], x["kind"]) for x in data["lines"]}
    assert {("sin", "elementwise"), ("reshape", "linear"), ("square", "program")} <= kinds
    sine = next(x for x in data["lines"] if x["name"] == "sin")
    assert set(sine["worst_ulp"]) == {"1", "2"}
    assert {r["dtype"] for r in sine["rows"]} == {"float64", "float32"}
    assert data["versions"]["numpy"]


@pytest.mark.usefixtures("small")
def test_a_wrong_rule_gives_1_and_names_the_op(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sine = REGISTRY["sin"]
    monkeypatch.setattr(sine, "partials", (lambda xp, y, x: -xp.cos(x),))
    assert cli.main(["verify", "--quick", "--processes", "1"]) == 1
    out = capsys.readouterr().out
    assert "refuted" in out
    assert re.search(r"1 of \d+ rows has findings", out)


def test_a_job_that_breaks_is_a_finding_not_a_crash() -> None:
    line = Line("sin", "elementwise")
    outcome = runs.run([line], [("proof", "sin", ("one argument too many",))])
    assert not outcome.ok
    assert line.verdict == "undecided"
    assert "TypeError" in line.findings[0]


def test_two_processes_give_what_one_gives() -> None:
    found = []
    for processes in (1, 2):
        lines, jobs = few_jobs(points=100, dtypes=("float64",))
        runs.run(lines, jobs, processes=processes)
        found.append([{k: v for k, v in x.as_dict().items() if k not in ("seconds", "rows")} for x in lines])
    assert found[0] == found[1]


def test_prove(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["prove", "sin", "reshape", "--processes", "1"]) == 0
    assert "2 of 2 proved" in capsys.readouterr().out


def test_census_as_text_and_as_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "census.json"
    target.write_text("old")
    assert (
        cli.main(
            [
                "census",
                "multiply",
                "--points",
                "100",
                "--json",
                str(target),
                "--processes",
                "1",
                "--orders",
                "1",
                "--dtypes",
                "float64",
                "float32",
            ]
        )
        == 0
    )
    assert "multiply" in capsys.readouterr().out
    data = json.loads(target.read_text())
    assert [(r["argument"], r["dtype"]) for r in data["rows"]] == [
        ("0", "float64"),
        ("1", "float64"),
        ("0", "float32"),
        ("1", "float32"),
    ]
    assert list(tmp_path.iterdir()) == [target]


def test_a_report_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    target.write_text("old")
    with pytest.raises(TypeError):
        output.write_json(str(target), {"no JSON": object()})
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_numbers_that_json_lacks_are_text() -> None:
    line = Line("f", "elementwise")
    line.note(1, float("inf"), "unstable")
    json.dumps(line.as_dict(), allow_nan=False)
    assert line.as_dict()["worst_ulp"] == {"1": "inf"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "COMMAND"),
        (["no-such-command"], "no-such-command"),
        (["census", "no_such_op"], "no_such_op"),
        (["census", "matmul"], "`gtape verify matmul`"),
        (["verify", "floor"], "not differentiable"),
        (["verify", "one_hot"], "no differentiable primitives of its own"),
        (["census", "sin", "--points", "3"], "at least 100"),
        (["census", "sin", "--points", "many"], "many"),
        (["census", "sin", "--dtypes", "int8"], "int8"),
        (["census", "sin", "--json", "/no/such/folder/x.json"], "/no/such/folder"),
        (["prove", "no_such_op"], "no_such_op"),
        (["prove", "floor"], "not differentiable"),
        (["verify", "--processes", "0"], "whole number"),
        (["doctor", "--points", "1"], "at least 100"),
        (["census", "tanh", "--quick"], "gtape census: error: unrecognized arguments: --quick"),
        (["verify", "--nosuch"], "usage: gtape verify [-h]"),
        (["table", "tanh", "--points", "0.5", "-o", "x.txt"], "x.txt: the ending says no format: use .csv, .json, .h"),
        (["campaign", "no.jsonl", "--kind", "programs", "--resume"], "no.jsonl cannot be read: No such file"),
    ],
)
def test_wrong_usage_gives_2_and_says_why(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["verify", "--help"], ["census", "--help"]])
def test_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 0
    assert "usage: gtape" in capsys.readouterr().out


def test_the_module_runs_as_a_program() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "gtape.verify", "prove", "negative", "--processes", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    assert "1 of 1 proved" in made.stdout
    assert not made.stderr


def test_verify_takes_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", "--quick", "--processes", "1", "softsign"]) == 0
    assert "1 of 1 primitive proved" in capsys.readouterr().out
    assert cli.main(["verify", "softsing"]) == 2
    assert "no op named 'softsing'; did you mean softsign" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["campain", "x.jsonl"], "did you mean the command campaign?"),
        (["check", "losses.py"], "the commands are campaign, census, "),
        (["no_such_thing"], "the commands are campaign, census, "),
    ],
)
def test_a_word_that_is_neither_a_command_nor_an_op_is_answered_with_the_commands(words: list[str], says: str) -> None:
    made = subprocess.run(
        [sys.executable, "-m", "gtape.verify", *words], capture_output=True, text=True, check=False
    )  # fmt: skip
    assert made.returncode == 2 and says in made.stderr and not made.stdout


def test_a_function_stands_for_the_primitives_it_is_made_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["prove", "tf.reduce_sum", "math.log1p", "--processes", "1"]) == 0
    out = capsys.readouterr().out
    assert "tf.reduce_sum is made of sum" in out and "log1p is made" not in out and "2 of 2 proved" in out
    assert primitives_named(["tf.nn.conv2d", "sin", "gtape.sin"])[-1] == "sin"
    with pytest.raises(ValueError, match="made of sum"):
        gtape.verify.prove("reduce_sum")


def test_every_differentiable_primitive_is_named_by_its_name() -> None:
    names = [p.name for p in REGISTRY.values() if p.differentiable]
    assert primitives_named(names) == names


def test_a_name_behind_json_is_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["prove", "--json", "sin"]) == 2
    assert "'sin' is a primitive" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert "numpy" in capsys.readouterr().out


def test_files_keep_their_mode_and_what_is_no_file_stays(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text("old")
    old.chmod(0o640)
    for path in (old, new):
        output.write_json(str(path), {"a": 1})
    assert old.stat().st_mode & 0o777 == 0o640
    assert new.stat().st_mode & 0o044 == 0o044 & ~_umask()
    link = tmp_path / "link.json"
    link.symlink_to(old)
    output.write_json(str(link), {"a": 2})
    assert link.is_symlink() and json.loads(old.read_text()) == {"a": 2}
    output.write_json(os.devnull, {"a": 1})
    assert not Path(os.devnull).is_file()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_an_interrupt_ends_quietly_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def interrupted(*args: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "run", interrupted)
    target = tmp_path / "report.json"
    assert cli.main(["prove", "sin", "--json", str(target)]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_interrupt_ends_the_processes() -> None:
    before = set(multiprocessing.active_children())

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pools.run_all(time.sleep, [(0,), (60,), (60,), (60,)], list("abcd"), processes=2, progress=interrupt)
    assert set(multiprocessing.active_children()) == before


def test_a_narrow_terminal_gets_rows_as_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    output.show_table("t", ("op", "verdict", "where"), [("sin", "fine", "1" * 30)], [True])
    out = " ".join(capsys.readouterr().out.split())
    assert "sin: verdict fine" in out and "1" * 29 in out
