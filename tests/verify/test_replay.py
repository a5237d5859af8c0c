"""`gtape replay`: the same again, or exactly what differs; and no code that the user did not name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gtape as tf
from gtape.verify.campaigns.examples import add_examples
from gtape.verify.campaigns.journal import read
from gtape.verify.campaigns.running import Campaign, campaign
from gtape.verify.campaigns.totals import totals_of
from gtape.verify.command import cli
from gtape.verify.reports.formats import FORMATS
from gtape.verify.search.loading import imported

CHEAP = str(Path(__file__).parent / "shards.py")

pytestmark = pytest.mark.usefixtures("signals_as_in_a_terminal")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A journal with findings, and all that is made from it."""
    imported(CHEAP)
    made = tmp_path_factory.mktemp("replay")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        totals = campaign("journal", Campaign("cheap", {}, load=[CHEAP], shards=15))
        add_examples("examples.json", totals.causes)
        (made / "finding.json").write_text(json.dumps(totals.causes[1]))
        (made / "line.json").write_text(json.dumps(read("journal").in_order()[7]))
        assert cli.main(["report", "journal", "--to", *[f"report{end}" for end in FORMATS]]) == 0
        yield made


FILES = ["journal", "examples.json", "finding.json", "line.json", *[f"report{end}" for end in FORMATS]]


def replayed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    status = cli.main(["replay", *words, "--no-progress", "--processes", "2"])
    captured = capsys.readouterr()
    return status, captured.out + captured.err


@pytest.mark.parametrize("file", FILES)
def test_everything_that_holds_findings_can_be_replayed(
    file: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, said = replayed(capsys, str(folder / file), "--load", CHEAP)
    assert status == 0 and "are the same" in said
    cases = 1 if file in ("finding.json", "line.json") else 4
    assert f"{cases} of {cases} are the same" in said


@pytest.mark.parametrize("file", FILES)
def test_no_module_is_imported_that_the_user_did_not_name(
    file: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, said = replayed(capsys, str(folder / file))
    assert status == 2 and f"if you trust it, add --load {CHEAP}" in said


def test_shards_of_a_journal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(folder / "journal")
    status, said = replayed(capsys, path, "--load", CHEAP, "--all")
    assert status == 0 and "15 of 15 are the same" in said
    status, said = replayed(capsys, path, "--load", CHEAP, "--shard", "3", "4", "3")
    assert status == 0 and "2 of 2 are the same" in said
    status, said = replayed(capsys, path, "--load", CHEAP, "--shard", "99")
    assert status == 2 and "has no result of shard 99" in said


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"numbers": 1', '"numbers": 2', "other counts"),
        ('"ULP": ', '"ULP": 9', "other largest"),
        ('"text": "number', '"text": "nummer', "other findings"),
        ('"status": "done"', '"status": "late"', "other status"),
    ],
)
def test_what_differs_is_said(
    old: str, new: str, says: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = (folder / "journal").read_text()
    assert old in raw
    (tmp_path / "journal").write_text(raw.replace(old, new))
    status, said = replayed(capsys, str(tmp_path / "journal"), "--load", CHEAP, "--all")
    assert status == 1 and says in said


def test_a_finding_that_is_gone_or_different_is_said(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finding = json.loads((folder / "finding.json").read_text())
    for change, says in (
        ({"cause": "something else"}, "another finding"),
        ({"order": 2}, "another order"),
        ({"example": {**finding["example"], "n": 1}}, "not found again"),
        ({"example": {**finding["example"], "n": 1, "at": 1, "does": "raise"}}, "ArithmeticError"),
        ({"example": {**finding["example"], "at": finding["example"]["n"], "does": "hang"}}, "took longer than 1 s"),
        ({"example": {"kind": "cheap", "load": [CHEAP]}}, "KeyError"),
    ):
        file = tmp_path / "finding.json"
        file.write_text(json.dumps({**finding, **change}))
        status, said = replayed(capsys, str(file), "--load", CHEAP, "--shard-seconds", "1")
        assert status == 1 and says in said


@pytest.mark.slow
def test_a_campaign_without_findings_is_replayed_by_a_sample(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "journal")
    campaign(path, Campaign("programs", {"size": 1, "plant": False}, shards=12), processes=2)
    status, said = replayed(capsys, path)
    assert status == 0 and "a sample of the 12 shards" in said and "6 of 6 are the same" in said
    assert cli.main(["report", path, "--to", str(tmp_path / "x.md")]) == 0
    assert replayed(capsys, str(tmp_path / "x.md"))[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("end", [".json", ".html"])
def test_a_command_is_run_again(end: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "result.json")
    assert cli.main(["census", "square", "--points", "100", "--json", file, "--processes", "1"]) == 0
    if end != ".json":
        assert cli.main(["report", file, "--to", str(tmp_path / f"result{end}")]) == 0
        file = str(tmp_path / f"result{end}")
    status, said = replayed(capsys, file)
    assert status == 0 and "4 of 4 are the same" in said
    text = Path(file).read_text()
    assert "247" in text or "points" in text
    Path(file).write_text(text.replace('"seed=0"', '"seed=1"').replace("--seed=0", "--seed=1"))
    if end == ".json":
        assert "--seed=1" in json.loads(Path(file).read_text())["command"]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["gtape", "conventions", "out.md"], "names no command that can be replayed"),
        (["rm", "-rf", "."], "names no command that can be replayed"),
        ("gtape census", "names no command that can be replayed"),
        (["gtape", "census", "square", "--json=/tmp/x"], "names the option --json=/tmp/x"),
        (["gtape", "census", "square", "--js", "x"], "names the option --js"),
        (["gtape", "census", "square", "--load", "os"], "names the option --load"),
        (["gtape", "census", "square", "--load=os"], "add --load os"),
    ],
)
def test_a_foreign_command_is_not_run(
    command: Any, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "result.json"
    assert cli.main(["census", "square", "--points", "100", "--json", str(file), "--processes", "1"]) == 0
    data = json.loads(file.read_text())
    file.write_text(json.dumps({**data, "command": command}))
    status, said = replayed(capsys, str(file))
    assert status == 2 and says in said


def test_files_that_say_not_how_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for data, says in (
        (tf.verify.judge(tf.square, [3.0], 5.0).as_dict(), "its witnesses are programs that run by themselves"),
        ({"a": 1}, "no result that has a report"),
        ({"gtape": "campaign examples", "format": 1, "examples": []}, "holds nothing to run again"),
        ({"cause": "x", "text": "x", "verdict": "rule", "example": {"kind": "nothing"}}, "no kind of campaign"),
    ):
        file = tmp_path / "file.json"
        file.write_text(json.dumps(data))
        status, said = replayed(capsys, str(file))
        assert status == 2 and says in said
    assert replayed(capsys, str(tmp_path / "none"))[0] == 2
    status, said = replayed(capsys, str(tmp_path / "file.json"), "--all")
    assert status == 2 and "is not a journal" in said


def test_replays_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert cli.main(["replay", str(folder / "examples.json"), "--load", CHEAP, "--json", "--no-progress"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["ok"] and {c["outcome"] for c in data["cases"]} == {"same"}
    assert len(data["cases"]) == len(totals_of(read(str(folder / "journal")).in_order()).causes)
