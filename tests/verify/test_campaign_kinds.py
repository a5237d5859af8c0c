"""Campaigns of peers and of mutants: the shards of `gtape peers` and `gtape mutants`, as pure as all shards."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gtape.verify.campaigns.kinds import kind_of
from gtape.verify.campaigns.running import Campaign, campaign
from gtape.verify.campaigns.shards import work
from gtape.verify.command import cli
from gtape.verify.peers import audit, libraries
from gtape.verify.programs import kills

HERE = Path(__file__).resolve().parent
LOAD = str(HERE / "fake_library.py")
QUICK = {"libraries": ["fake"], "ops": ["tanh", "abs", "sin", "prod"], "dtypes": ["float64"], "size": 40}


@pytest.fixture(scope="module", autouse=True)
def registered() -> Any:
    before = list(sys.path)
    sys.path.insert(0, str(HERE))
    import fake_library

    libraries.register(fake_library.FAKE)
    yield
    audit.end_peer()
    sys.path[:] = before


def peers(**settings: Any) -> Campaign:
    return Campaign("peers", {**QUICK, **settings}, load=[LOAD])


def without_times(result: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in result.items() if k != "seconds"}


@pytest.mark.parametrize(
    ("kind", "settings"), [("peers", QUICK), ("mutants", {"ops": ["sinh"], "operators": ["m2"], "size": 2})]
)
def test_a_shard_is_a_pure_function_of_its_description(kind: str, settings: dict[str, Any]) -> None:
    shard = json.loads(json.dumps(next(Campaign(kind, settings).plan())[1]))
    first, again = (without_times(work(shard)) for _ in range(2))
    assert first == again and first["status"] == "done" and first["counts"]


@pytest.mark.slow
def test_a_campaign_of_peers_finds_what_the_command_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = campaign(str(tmp_path / "journal"), peers(), processes=2)
    file = tmp_path / "peers.json"
    words = ["--ops", *QUICK["ops"], "--dtypes", "float64", "--points", "40", "--load", LOAD]
    assert cli.main(["peers", "fake", *words, "--json", str(file), "--processes", "2"]) == 1
    told = json.loads(file.read_text())
    assert sorted(f["cause"] for f in found.causes) == [c["id"] for c in told["causes"]]
    assert [f["witness"] for f in sorted(found.causes, key=lambda f: f["cause"])] == [
        c["witness"] for c in told["causes"]
    ]
    assert {"fake/tanh/lost/elsewhere", "fake/abs/kink/around-0"} < {f["cause"] for f in found.causes}
    assert found.counts["fake: derivatives judged"] == told["libraries"]["fake"]["judged"]


def test_a_peer_that_crashes_is_a_finding_and_the_next_shard_is_done(tmp_path: Path) -> None:
    found = campaign(str(tmp_path / "journal"), peers(ops=["cos", "sin"]))
    assert found.shards == {"done": 2}
    assert [(f["cause"], f["verdict"]) for f in found.causes] == [("fake/cos/crash/elsewhere", "rule")]


def test_a_campaign_of_peers_that_was_killed_ends_with_the_same_result(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    whole = campaign(str(path), peers(ops=["tanh", "abs"])).as_dict()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2]) + lines[-2][:30])
    assert campaign(str(path), resume=True).as_dict() == whole
    assert cli.main(["replay", str(path), "--load", LOAD, "--processes", "1"]) == 0
    assert cli.main(["report", str(path), "--to", str(tmp_path / "report.html"), str(tmp_path / "report.sarif")]) == 0
    assert "abs/kink/around-0" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["peers", "--set", "libraries=absent"], "not installed"),
        (["peers", "--set", "libraries=nowhere"], "no description of 'nowhere'"),
        (["peers", "--set", "libraries=fake", "--only", "no_such_op"], "no function 'no_such_op'"),
        (["peers", "--set", "libraries=fake", "--set", "modes=sideways"], "no mode 'sideways'"),
        (["mutants", "--only", "no_such_op"], "no rule to spoil"),
        (["mutants", "--set", "operators=m99"], "no such kind"),
        (["census", "--only", "no_such_op"], "no primitive named"),
        (["census", "--only", "tanh", "--set", "orders=7"], "orders must be among 1, 2, not 7"),
        (["census", "--only", "tanh", "--set", "orders="], "orders must hold some of 1, 2, and is empty"),
        (["census", "--only", "tanh", "--set", "orders=abc"], "orders must be whole numbers with commas, not 'abc'"),
        (["census", "--only", "tanh", "--set", "dtypes=int32"], "dtypes must be among float64"),
        (["census", "--only", "floormod", "--set", "dtypes=complex128"], "dtypes: none of the ops takes complex128"),
        (["census", "--only", "tanh", "--set", "size=100000000000"], "size must be at most"),
        (["programs", "--set", "seconds=nan"], "seconds must be a positive number of seconds"),
        (["peers", "--set", "libraries=fake", "--set", "dtypes=int8"], "dtypes must be among float64"),
        (["peers", "--set", "libraries=fake", "--set", "patience=0"], "patience must be a positive number"),
        (["peers", "--set", "libraries=fake", "--set", "programs=-1"], "programs must be at least 0"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_runs(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "journal"
    libraries.register(libraries.library("fake")._replace(name="absent", module="no_such_module_at_all"))
    assert cli.main(["campaign", str(journal), "--shards", "3", "--kind", *words]) == 2
    assert says in capsys.readouterr().err and not journal.exists()


def test_another_seed_judges_other_points_and_no_case_twice() -> None:
    plan = kind_of("peers").plan({**kind_of("peers").options, **QUICK})
    shards = [next(plan) for _ in range(10)]
    assert [s["subject"] for s in shards] == ["sin", "tanh", "abs", "prod", "sin", "tanh", "abs", "sin", "tanh", "abs"]
    only_arrays = kind_of("peers").plan({**kind_of("peers").options, **QUICK, "ops": ["prod"]})
    assert len(list(only_arrays)) == 1


def test_libraries_share_the_time_and_what_is_not_begun_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gtape.verify.command.peers.time.time", iter([0.0, 0.0, 11.0, 0.0, 0.0]).__next__)
    words = ["peers", "fake", "--ops", "sin", "relu", "--dtypes", "float64", "--points", "40", "--seconds", "10"]
    assert cli.main([*words, "--processes", "1", "--load", LOAD]) == 0
    assert "1 left out for lack of time" in capsys.readouterr().out


def test_a_mutant_that_check_misses_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kills, "_judged", lambda call: (False, set()))
    what = Campaign("mutants", {"ops": ["sinh"], "operators": ["m2"], "size": 1})
    found = campaign(str(tmp_path / "journal"), what)
    assert len(found.causes) == 1, found.counts
    (cause,) = found.causes
    assert cause["cause"] == "missed fault: sinh, argument 0, m2 flip a sign: the rule times -1"
    assert "found by flag, differences" in cause["text"]
    assert found.counts["mutants that check can see"] == 1 and found.counts["found by: flag"] == 1
