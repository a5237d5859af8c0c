"""Campaigns: one result whatever runs the shards and whatever is killed, and nothing lost."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
import warm
from campaigns import LARGE
from warm import Started

from gtape.verify.campaigns import executors, journal, programs, running
from gtape.verify.campaigns.examples import ExamplesError, add_examples, read_examples
from gtape.verify.campaigns.executors import NotThere, through
from gtape.verify.campaigns.journal import Journal, JournalError, read
from gtape.verify.campaigns.kinds import KINDS, kind_of, register
from gtape.verify.campaigns.running import Campaign, campaign, settings_of
from gtape.verify.campaigns.shards import key_of, work
from gtape.verify.command import cli

ROOT = Path(__file__).resolve().parents[2]
CHEAP = str(Path(__file__).parent / "shards.py")
SHARDS, KILLS = (10_000, 10) if LARGE else (400, 4)

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals as Unix has them"),
    pytest.mark.usefixtures("signals_as_in_a_terminal"),
]


@pytest.fixture(scope="module", autouse=True)
def cheap_shards() -> Iterator[None]:
    """The kind "cheap", which each test may use."""
    from gtape.verify.search.loading import imported

    before = list(sys.path)
    imported(CHEAP)
    yield
    sys.path[:] = before


def cheap(shards: int | None = 30, limit: float = 60.0, **settings: Any) -> Campaign:
    return Campaign("cheap", settings, load=[CHEAP], shards=shards, limit=limit)


def undisturbed(path: Path, what: Campaign) -> dict[str, Any]:
    return campaign(str(path), what, processes=2).as_dict()


# ------------------------------------------------------------------------------------------ one result


def test_a_shard_is_a_pure_function_of_its_description() -> None:
    shard = {"kind": "programs", "first": 5, "count": 2, "plant": True, "special": True}
    found = [{k: v for k, v in work(json.loads(key_of(shard))).items() if k != "seconds"} for _ in range(2)]
    assert found[0] == found[1] and found[0]["status"] == "done" and found[0]["counts"]["programs"] == 2


def test_processes_and_executors_give_one_result(tmp_path: Path) -> None:
    one = campaign(str(tmp_path / "1"), cheap()).as_dict()
    assert one == campaign(str(tmp_path / "2"), cheap(), processes=2).as_dict()
    with ThreadPoolExecutor(2) as executor:
        assert one == campaign(str(tmp_path / "3"), cheap(), executor=executor, workers=lambda: 2).as_dict()
    assert one["shards"] == {"done": 30} and one["counts"]["numbers"] == 30
    assert [(f["cause"], f["times"], f["number"]) for f in one["findings"]] == [
        ("cause 0", 1, 0), ("cause 2", 1, 7), ("cause 4", 1, 14), ("cause 1", 1, 21), ("cause 3", 1, 28),
        ("too hard", 3, 0),
    ]  # fmt: skip


@pytest.mark.slow
def test_a_program_whose_checks_take_too_long_is_undecided() -> None:
    shard = {"kind": "programs", "first": 0, "count": 2, "plant": True, "special": False, "seconds": 0.001}
    found = work(shard)
    assert found["status"] == "done" and found["counts"] == {"programs": 2, "verdict: undecided": 2}
    (finding,) = found["findings"]
    assert (finding["verdict"], finding["times"], finding["example"]["count"]) == ("undecided", 2, 1)
    assert work({**shard, "seconds": 60.0})["findings"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "settings"), [("programs", {"size": 2}), ("census", {"ops": ["sin"], "size": 200, "dtypes": ["float32"]})]
)
def test_own_kinds_find_nothing_in_gtape(kind: str, settings: dict[str, Any], tmp_path: Path) -> None:
    totals = campaign(str(tmp_path / "journal"), Campaign(kind, settings, shards=2), processes=2)
    assert not totals.causes and not totals.errors and totals.shards == {"done": 2}
    assert totals.counts["programs" if kind == "programs" else "points"]


def test_every_kind_has_a_plan_and_a_default_of_each_setting() -> None:
    for name in KINDS:
        kind = kind_of(name)
        assert kind.summary and {"seed", "size"} <= set(kind.options)
    with pytest.raises(ValueError, match="no kind of campaign named 'nothing'"):
        kind_of("nothing")
    with pytest.raises(ValueError, match="choose another name"):
        register("programs", kind_of("programs"))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"points": 3}, "no setting 'points'"),
        ({"size": "many"}, "size must be a whole number"),
        ({"plant": "perhaps"}, "plant must be yes or no"),
        ({"size": 0}, "size must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"plant": 1}, "plant must be of the type bool"),
    ],
)
def test_wrong_settings_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        settings_of(kind_of("programs"), given)


# ------------------------------------------------------------------------------------------ kills


def start(path: Path, *more: str) -> Started:
    words = ["campaign", str(path), "--load", CHEAP, "--processes", "2", "--no-progress", *more]
    return warm.start(["-m", "gtape.verify", *words], cwd=ROOT)


def lines_in(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.slow
def test_a_campaign_that_is_killed_again_and_again_gives_the_result_of_one_that_is_not(tmp_path: Path) -> None:
    whole = undisturbed(tmp_path / "whole", cheap(SHARDS, ms=1))
    assert whole["shards"] == {"done": SHARDS}
    path, rng = tmp_path / "killed", random.Random(5)
    for kill in range(KILLS):
        new = ("--kind", "cheap", "--shards", str(SHARDS), "--set", "ms=1") if not lines_in(path) else ("--resume",)
        process = start(path, *new)
        # Each kill falls somewhere in its share of the shards.
        target = SHARDS * kill // KILLS + rng.randrange(1, SHARDS // KILLS)
        while lines_in(path) < target and process.poll() is None:
            time.sleep(0.002)
        assert process.poll() is None, process.communicate()
        process.kill()
        process.communicate()
    before = read(str(path))
    assert 0 < len(before.results) < SHARDS and len(before.sessions) == KILLS
    process = start(path, "--resume")
    out, err = process.communicate()
    assert process.returncode == 1 and not err, err
    after = read(str(path))
    assert list(after.results)[: len(before.results)] == list(before.results), "finished shards were done again"
    assert running.totals_of(after.in_order()).as_dict() == whole
    assert f"{SHARDS:,} of {SHARDS:,} shards, 5 causes of findings, 1 undecided" in out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_campaign_with_its_results(number: signal.Signals, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    process = start(path, "--kind", "cheap", "--shards", "100000", "--set", "ms=5")
    while lines_in(path) < 12:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "--resume continues it" in out and len(read(str(path)).results) >= 10


def test_a_torn_last_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    whole = undisturbed(path, cheap(8))
    raw = path.read_bytes()
    ends = [i + 1 for i, b in enumerate(raw) if b == 10]
    for cut in (ends[-1] - 1, ends[-2] + 1, ends[-3] - 40, ends[1] + 3, ends[1] - 1, ends[0] - 5, 10, 0):
        path.write_bytes(raw[:cut])
        if cut < ends[0]:  # nothing but a part of the first line
            with pytest.raises(JournalError, match="holds no campaign yet"):
                campaign(str(path), resume=True)
            path.unlink()
            found = campaign(str(path), cheap(8))
        else:
            found = campaign(str(path), resume=True)
        assert found.as_dict() == whole
        assert read(str(path)).torn == 0
    path.write_bytes(raw[: ends[-2]] + b"\0" * 4096)  # a system that died may leave zeros
    assert campaign(str(path), resume=True).as_dict() == whole


def test_a_first_line_that_is_torn_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(b'{"gtape": "campaign jou')
    assert campaign(str(path), cheap(3)).shards == {"done": 3}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda raw: b"hello\n" + raw, "not the journal of a campaign"),
        (lambda raw: b"\x89PNG\r\n\x1a\n", "not the journal of a campaign"),
        (lambda raw: b'{"gtape": "report"}\n', "not the journal of a campaign"),
        (lambda raw: raw.replace(b'"format": 1', b'"format": 0', 1), "format 0 of another version"),
        (lambda raw: raw.replace(b'"gtape": "checkout"', b'"gtape": "0.0.1"', 1), "written by gtape 0.0.1"),
        (lambda raw: raw.replace(b'"kind": "cheap"', b'"kind": "other"', 1), "no kind of campaign named 'other'"),
        (lambda raw: raw.replace(b'"settings": {', b'"settings": {"no": 1, ', 1), "there is no setting 'no'"),
        (lambda raw: raw.replace(b'"settings":', b'"nothing":', 1), "broken in line 1"),
        (lambda raw: _line(raw, 4, b"{half a line"), "broken in line 4: copy the lines above it"),
        (lambda raw: _line(raw, 4, b"[1, 2]"), "broken in line 4: copy the lines above it"),
        (lambda raw: _line(raw, 4, b"[" * 100_000), "broken in line 4"),
        (lambda raw: _line(raw, 4, b'{"shard": 3}'), "not the result of a shard"),
    ],
)
def test_broken_foreign_and_older_journals_are_one_clear_error(change: Any, says: str, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    campaign(str(path), cheap(6))
    raw = path.read_bytes().replace(b'"gtape": "0.1.0"', b'"gtape": "checkout"')
    changed = change(raw)
    assert changed != raw
    path.write_bytes(changed)
    with pytest.raises(JournalError, match=says):
        campaign(str(path), resume=True)
    assert path.read_bytes() == changed


def _line(raw: bytes, number: int, text: bytes) -> bytes:
    lines = raw.split(b"\n")
    lines[number - 1] = text
    return b"\n".join(lines)


def test_a_second_writer_is_refused_and_told_who_writes(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    process = start(path, "--kind", "cheap", "--shards", "100000", "--set", "ms=5")
    try:
        while lines_in(path) < 5:
            assert process.poll() is None
            time.sleep(0.01)
        with pytest.raises(JournalError, match=f"process {process.pid} on .* writes"):
            campaign(str(path), cheap(8), resume=True)
        with pytest.raises(JournalError, match=f"process {process.pid}"):
            campaign(str(path), cheap(8))
    finally:
        process.kill()
        process.communicate()
    assert campaign(str(path), resume=True, seconds=0.2).counts["numbers"]


def test_a_journal_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    campaign(str(path), cheap(2))
    before = path.read_bytes()
    with pytest.raises(JournalError, match="continue it with --resume"):
        campaign(str(path), cheap(2))
    assert path.read_bytes() == before
    with pytest.raises(JournalError, match="cannot be read: No such file"):
        campaign(str(tmp_path / "none"), resume=True)
    with pytest.raises(JournalError, match="Is a directory"):
        campaign(str(tmp_path), cheap(2))
    with pytest.raises(JournalError, match="not a plain file"):
        campaign(os.devnull, cheap(2))


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal"
    write, room = os.write, 6

    def full(handle: int, data: Any) -> int:
        nonlocal room
        room -= bytes(data).startswith(b'{"number"')
        if room >= 1:
            return write(handle, data)
        if room == 0:  # takes the beginning of a line, and then nothing
            room = -1
            return write(handle, bytes(data)[:7])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(journal.os, "write", full)
        with pytest.raises(JournalError, match=r"No space left on device; make room and continue with --resume"):
            campaign(str(path), cheap(30))
    assert path.read_bytes().endswith(b"\n") and len(read(str(path)).results) == 5
    assert campaign(str(path), resume=True).as_dict() == undisturbed(tmp_path / "other", cheap(30))


def test_a_forked_child_does_not_hold_the_lock(tmp_path: Path) -> None:
    path = str(tmp_path / "journal")
    what = cheap(3)
    head = {**what.head(), "versions": running.versions()}
    with Journal(path, head, {}, resume=False):
        child = os.fork()
        if not child:
            time.sleep(30)
            os._exit(0)
    try:
        assert campaign(path, resume=True).shards == {"done": 3}
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


# ------------------------------------------------------------------------------------------ shards that misbehave


@pytest.fixture(params=["processes", "executor"])
def run_by(request: pytest.FixtureRequest) -> Any:
    def run(path: Path, what: Campaign, **more: Any) -> Any:
        if request.param == "processes":
            return campaign(str(path), what, processes=2, **more)
        with ThreadPoolExecutor(2) as executor:
            return campaign(str(path), what, executor=executor, workers=lambda: 2, **more)

    return run


@pytest.mark.parametrize(
    ("does", "status", "says"),
    [
        ("raise", "error", "ArithmeticError: this shard raises"),
        ("die", "error", "3 times"),
        ("hang", "late", "it took longer than 2 s"),
    ],
)
def test_a_shard_that_misbehaves_is_told_and_the_others_are_done(
    does: str, status: str, says: str, run_by: Any, tmp_path: Path
) -> None:
    path = tmp_path / "journal"
    found = run_by(path, cheap(9, limit=2.0, does=does, at=4))
    assert found.shards == {"done": 8, status: 1} and found.counts["numbers"] == 8
    line = next(x for x in read(str(path)).results.values() if x["status"] == status)
    assert line["shard"]["n"] == 4 and says in line["why"]
    if does != "raise":
        cause = next(f for f in found.causes if f["number"] == 4)
        assert cause["verdict"] == "undecided" and says in cause["text"]
    # Without --retry-errors the shard is left alone; with it, the shard is done again.
    size = path.stat().st_size
    run_by(path, None, resume=True)
    assert path.read_bytes()[size:].count(b'"shard"') == 0
    size = path.stat().st_size
    again = run_by(path, None, resume=True, retry_errors=True)
    assert path.read_bytes()[size:].count(b'"shard"') >= 1
    assert again.as_dict() == found.as_dict()


def test_what_a_shard_prints_stays_away_from_the_results(run_by: Any, tmp_path: Path) -> None:
    assert run_by(tmp_path / "journal", cheap(5, does="print", at=2)).shards == {"done": 5}


class _Breaking(ThreadPoolExecutor):
    """Fails as workers of clusters do: by an exception of any class, once for each shard."""

    def __init__(self, error: BaseException, times: int = 1) -> None:
        super().__init__(2)
        self.error, self.times, self.calls = error, times, 0

    def submit(self, fn: Any, /, *args: Any, **options: Any) -> Future[Any]:
        self.calls += 1
        if self.calls <= self.times:
            failed: Future[Any] = Future()
            failed.set_exception(self.error)
            return failed
        return super().submit(fn, *args, **options)


def test_a_shard_whose_worker_dies_is_submitted_again(tmp_path: Path) -> None:
    with _Breaking(RuntimeError("worker lost"), 2) as executor:
        found = campaign(str(tmp_path / "a"), cheap(4), executor=executor, workers=lambda: 1)
    assert found.shards == {"done": 4}
    with _Breaking(RuntimeError("worker lost"), 10**6) as executor:
        found = campaign(str(tmp_path / "b"), cheap(2), executor=executor, workers=lambda: 1)
    assert found.shards == {"error": 2} and "worker lost, 3 times" in found.errors[0]["why"]


def test_an_executor_that_is_gone_ends_the_campaign_with_nothing_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "journal")
    with _Breaking(BrokenProcessPool("gone")) as executor, pytest.raises(NotThere, match="broken: gone"):
        campaign(path, cheap(4), executor=executor, workers=lambda: 1)
    ended = ThreadPoolExecutor(1)
    ended.shutdown()
    with pytest.raises(NotThere, match="takes no more shards"):
        campaign(path, executor=ended, workers=lambda: 1, resume=True)
    monkeypatch.setattr(executors, "_UNREACHABLE", 0.5)
    with ThreadPoolExecutor(1) as executor, pytest.raises(NotThere, match="no scheduler, or no worker"):
        campaign(path, executor=executor, workers=lambda: 0, resume=True)
    assert campaign(path, resume=True).shards == {"done": 4}


def test_shards_of_an_endless_stream_are_taken_when_a_worker_is_free() -> None:
    taken: list[int] = []
    done: list[int] = []

    def shards() -> Iterator[tuple[int, dict[str, Any]]]:
        for n in range(20):
            taken.append(n)
            assert len(taken) - len(done) <= 3, "too many shards wait"
            yield n, {"kind": "cheap", "n": n, "at": -1, "does": "", "milliseconds": 0}

    with ThreadPoolExecutor(1) as executor:
        through(executor, shards(), lambda n, shard, result: done.append(n), workers=lambda: 1)
    assert sorted(done) == list(range(20))
    assert threading.active_count() >= 1


# ------------------------------------------------------------------------------------------ budgets


def test_budgets_and_endless_campaigns(tmp_path: Path) -> None:
    path = str(tmp_path / "journal")
    with pytest.raises(ValueError, match="has no end: give a number of shards or of seconds"):
        campaign(path, cheap(None))
    began = time.monotonic()
    told: list[Any] = []
    some = campaign(path, cheap(None, ms=20), seconds=0.5, processes=2, progress=lambda *a: told.append(a))
    assert 0.4 < time.monotonic() - began < 20 and some.counts["numbers"] == len(told)
    assert "shards/s" in told[-1][2] and "left" in told[-1][2] and "finding" in told[-1][2]
    more = campaign(path, resume=True, shards=int(some.counts["numbers"]) + 5)
    assert more.counts["numbers"] == some.counts["numbers"] + 5


def test_a_new_number_of_shards_stays_for_later_sessions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "a journal")
    campaign(path, cheap(2))
    campaign(path, resume=True, shards=6, seconds=1e-9)
    assert read(path).head["shards"] == 6
    monkeypatch.chdir(tmp_path)
    words = ["campaign", "a journal", "--load", CHEAP, "--resume", "--no-progress", "--processes", "1"]
    cli.main([*words, "--shards", "7", "--seconds", "1e-9"])
    (told,) = [line for line in capsys.readouterr().out.splitlines() if "not complete" in line]
    command = shlex.split(told.removeprefix("the campaign is not complete: ").removesuffix(" continues it"))
    cli.main([*command[1:], "--no-progress", "--processes", "1"])
    assert campaign(path, resume=True).shards == {"done": 7}


# ------------------------------------------------------------------------------------------ examples


def test_what_is_found_becomes_an_example_that_later_campaigns_run_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--load", CHEAP, "--kind", "cheap", "--examples", "examples.json", "--processes", "1", "--no-progress"]
    assert cli.main(["campaign", "first", "--shards", "8", *words]) == 1
    assert "examples.json: 3 new examples" in capsys.readouterr().out
    assert [e["cause"] for e in read_examples("examples.json")] == ["cause 0", "cause 2", "too hard"]
    # The same cause elsewhere is no new example, and the old ones come first.
    assert cli.main(["campaign", "second", "--shards", "1", "--seed", "35", *words]) == 1
    assert "no new examples" in capsys.readouterr().out
    lines = read("second")
    assert [x["shard"]["n"] for x in lines.in_order()] == [0, 7, 35]
    # A resumed campaign keeps the examples that it began with.
    assert cli.main(["campaign", "second", "--load", CHEAP, "--resume", "--shards", "2", "--no-progress"]) == 1
    assert [x["shard"]["n"] for x in read("second").in_order()] == [0, 7, 35, 36]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "holds no examples"),
        ("{", "holds no examples"),
        ('{"gtape": "campaign examples", "format": 9}', "another format"),
        ('{"gtape": "campaign examples", "format": 1, "examples": [{"cause": 1}]}', "is broken"),
    ],
)
def test_other_files_are_no_examples(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "examples.json"
    path.write_text(text)
    with pytest.raises(ExamplesError, match=says):
        add_examples(str(path), [])
    assert path.read_text() == text


# ------------------------------------------------------------------------------------------ the command


def test_a_session_that_asks_for_fewer_shards_than_are_finished_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--load", CHEAP, "--no-progress", "--processes", "1"]
    assert cli.main(["campaign", "j", "--kind", "cheap", "--shards", "3", "--set", "seed=1", *words]) == 0
    capsys.readouterr()
    assert cli.main(["campaign", "j", "--resume", "--shards", "2", *words]) == 0
    assert "3 shards (2 were asked for), nothing found" in capsys.readouterr().out


def test_the_command_runs_resumes_and_writes_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--load", CHEAP, "--no-progress", "--processes", "1"]
    assert cli.main(["campaign", "j", "--kind", "cheap", "--shards", "3", "--set", "seed=1", *words]) == 0
    assert "3 of 3 shards, nothing found" in capsys.readouterr().out
    assert cli.main(["campaign", "j", "--resume", "--shards", "8", "--json", *words]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["shards"] == {"done": 8} and data["findings"][0]["cause"] == "cause 2" and data["complete"]
    assert cli.main(["campaign", "u", "--kind", "cheap", "--shards", "1", "--set", "seed=11", *words]) == 0
    assert "nothing found, 1 undecided" in capsys.readouterr().out
    assert cli.main(["campaign", "u", "--resume", "--strict", *words]) == 1
    assert (
        cli.main(["campaign", "e", "--kind", "cheap", "--shards", "2", "--set", "does=raise", "--set", "at=1", *words])
        == 3
    )
    assert "shard 1 failed: ArithmeticError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["j"], "has no end: say --shards N or --seconds S"),
        (["j", "--kind", "nothing", "--shards", "1"], "no kind of campaign named 'nothing'"),
        (["j", "--set", "size", "--shards", "1"], "write NAME=VALUE"),
        (["j", "--set", "size=x", "--shards", "1"], "size must be a whole number"),
        (["j", "--kind", "functions"], "--load MODULE"),
        (["j", "--kind", "census", "--only", "no_such_op"], "no primitive named 'no_such_op'"),
        (
            ["j", "--kind", "programs", "--only", "tanh", "--shards", "1"],
            "no ops or functions to choose",
        ),
        (["j", "--shards", "0"], "whole number"),
        (["j", "--seconds", "-1"], "positive number of seconds"),
        (["j", "--resume"], "cannot be read: No such file"),
        (["/no/such/folder/j", "--shards", "1"], "cannot be written"),
        (["j", "--shards", "1", "--json", "j"], "j is the journal"),
        (["j", "--shards", "1", "--examples", "./j"], "./j is the journal"),
        (["j", "--shards", "1", "--json", "/no/such/folder/x"], "its folder does not exist"),
    ],
)
def test_wrong_usage_leaves_nothing(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["campaign", *arguments]) == 2
    assert says in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_resumed_campaign_takes_its_settings_from_the_journal_and_its_modules_from_the_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    campaign("j", cheap(2))
    assert cli.main(["campaign", "j", "--resume", "--kind", "programs"]) == 2
    assert "leave out --kind" in capsys.readouterr().err
    assert cli.main(["campaign", "j", "--resume", "--shard-size", "3"]) == 2
    assert "leave out --shard-size" in capsys.readouterr().err
    assert cli.main(["campaign", "j", "--resume"]) == 2
    assert f"if you trust it, add --load {CHEAP}" in capsys.readouterr().err


def test_a_scheduler_that_is_not_there_is_a_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert cli.main(["campaign", str(tmp_path / "j"), "--shards", "1", "--scheduler", "tcp://127.0.0.1:1"]) == 3
    assert "dask is not installed: pip install 'gtape[cluster]'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------------ the page


@pytest.mark.slow
def test_the_page_tells_what_the_commands_find(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "losses", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    page = (ROOT / "docs" / "how-to-campaign.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"<!-- file: losses.py -->\n```python\n(.*?)```", page, re.S)
    (tmp_path / "losses.py").write_text(source)
    commands = re.findall(r"^```bash\ngtape (.*)\n```\n(?:\n```text\n((?:.*\n)*?)```)?", page, re.MULTILINE)
    assert len(commands) == 6
    for command, told in commands:
        status = cli.main(shlex.split(command))
        printed = capsys.readouterr()
        assert status == (1 if "losses.py" in command and "campaign" in command else 0), printed
        for line in told.splitlines():
            words = line.split("│")[-2 if "│" in line else 0]  # the causes, because counts may differ
            assert words.strip("┏━┳┓┡╇┩└┴┘ ") in printed.out or line.startswith(("function", "numbers", "verdict"))
    made = {p.name for p in tmp_path.iterdir()} - {"__pycache__"}
    assert made == {
        "losses.py", "losses.jsonl", "today.jsonl", "examples.json", "programs.jsonl", "losses.html", "losses.sarif",
        "losses.xml", "losses.md",
    }  # fmt: skip
    monkeypatch.delitem(sys.modules, "losses", raising=False)


def test_a_fault_that_is_found_without_its_op_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def found_elsewhere(checked: Any, rng: Any, worlds: str) -> None:
        checked.fault, checked.found, checked.named = ("sin", 0, worlds, 1e-3), True, False

    monkeypatch.setattr(programs, "plant_one", found_elsewhere)
    shard = {"kind": "programs", "first": 3, "count": 1, "plant": True, "special": False, "seconds": 60.0}
    (finding,) = programs.KIND.run(shard).findings
    assert finding["verdict"] == "undecided" and finding["example"]["first"] == 3
    assert finding["text"].startswith("fault found without its op") and "seed 3" in finding["text"]
