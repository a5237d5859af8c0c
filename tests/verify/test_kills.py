"""Commands that are killed leave no process, no half-written file, and lose no finished result.

Each command is killed at two moments that are the same every time: in the middle of a job, and while it writes its
report. It usually gets one of the four signals there. With ``GTAPE_LARGE=1`` in the environment it gets all four, and
is killed 50 times at random moments, too, which takes about half an hour; the seed is that of the clock and is part of
each message; ``GTAPE_SEED`` sets it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
import warm
from campaigns import LARGE
from warm import Started

ROOT = Path(__file__).resolve().parents[2]
TIMES = 50
SEED = int(os.environ.get("GTAPE_SEED", time.time_ns() % 10**6))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc"),
    pytest.mark.usefixtures("signals_as_in_a_terminal"),
]
at_random = pytest.mark.skipif(not LARGE, reason="takes half an hour; GTAPE_LARGE=1 runs it")

MATERIAL = tempfile.TemporaryDirectory()
Path(MATERIAL.name, "result.json").write_text('{"gtape": "report", "format": 1, "title": "t"}')
Path(MATERIAL.name, "null.md").symlink_to(os.devnull)
TEMPORARY = Path(MATERIAL.name, "temporary")  # the commands' folder for temporary files
TEMPORARY.mkdir()
HERE = Path(__file__).resolve().parent
FAKE = ["--load", str(HERE / "fake_library.py"), "--dtypes", "float64", "--points", "20", "--programs", "0"]
COMMANDS = {
    "verify": ["verify", "--quick", "sin", "exp", "sum", "maximum", "tanh"],
    "prove": ["prove", "sin", "exp", "matmul", "maximum", "cholesky", "tanh", "hypot"],
    "census": ["census", "sin", "exp", "tanh", "atan2", "--points", "500"],
    "doctor": ["doctor", "sin", "exp", "tanh", "atan2", "erf"],
    "conventions": ["conventions"],
    "mutants": ["mutants", "sinh", "tanh", "--tries", "1", "--operators", "m16"],
    "peers": ["peers", "fake", *FAKE, "--ops", "sin", "relu"],
    "table": ["table", "tanh", "--points", "0.5", "1", "--order", "1", "2"],
    "write": ["write", "gtape.math:tanh"],
    "report": ["report", f"{MATERIAL.name}/result.json", "--to", f"{MATERIAL.name}/null.md"],
}
ALONE = ["conventions", "table", "write", "report"]  # commands without workers
POOLED = [c for c in COMMANDS if c not in ALONE]
NUMBERS = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
SIGNALS = pytest.mark.parametrize("number", NUMBERS, ids=lambda s: s.name)

# Run ahead of a command: the first process that comes to what is planted writes its id into a file, and stays there
# until it is killed or the file is gone. Who comes later, and finds that the file has been there, passes.
HOLD = """
import os, signal, sys, time
from gtape.verify.command import cli, reference, reports, table, write
from gtape.verify.search import pools

moment, mark, word = sys.argv[1:4]
def stay():
    try:
        os.close(os.open(mark + ".taken", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    with open(mark + ".new", "w") as f:
        f.write(str(os.getpid()))
    os.rename(mark + ".new", mark)
    while os.path.exists(mark):
        time.sleep(0.01)

def planted(f, do, word=""):
    def g(*arguments, **words):
        if word in str(arguments):
            do()
        return f(*arguments, **words)
    return g

def in_a_job(do):
    begin = pools._Pool.__init__
    pools._Pool.__init__ = lambda self, function, *rest: begin(self, planted(function, do, word), *rest)
    for module, name in ((reference, "page"), (reports, "result_of"), (table, "made"), (write, "test_of")):
        setattr(module, name, planted(getattr(module, name), do))

if moment == "in a job":
    in_a_job(stay)
elif moment == "writing":
    os.fsync = planted(os.fsync, stay)
elif moment == "dies of a job":
    in_a_job(lambda: os.kill(os.getpid(), signal.SIGKILL))
sys.argv[1:] = sys.argv[4:]
sys.exit(cli.main())
"""


def word(command: str) -> str:
    """What only one job of a command is named."""
    return "relu" if command == "peers" else "tanh"


def start(command: str, report: Path, *hold: str) -> Started:
    """Run a command with two workers in a session of its own, which all that it starts stays in."""
    return start_words(COMMANDS[command], report, *([*hold, word(command)] if hold else []))


def start_words(words: list[str], report: Path, *hold: str) -> Started:
    program = ["-c", HOLD, *hold] if hold else ["-m", "gtape.verify"]
    arguments = [*program, *words, "--processes", "2", "--json", str(report)]
    return warm.start(arguments, cwd=ROOT, env={**os.environ, "TMPDIR": str(TEMPORARY)})


def start_and_wait(command: str, report: Path, moment: str, mark: Path) -> tuple[Started, int]:
    """Run a command until a process of it stays at a moment; the command, and the id of that process."""
    process = start(command, report, moment, str(mark))
    while not mark.exists():
        if process.poll() is not None:
            pytest.fail(f"{command} ended before it was {moment}: {process.communicate()}", pytrace=False)
        time.sleep(0.01)
    return process, int(mark.read_text())


def in_session(session: int) -> dict[int, int]:
    """The processes of a session that run: their parents, by process id."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent, _, of = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if int(of) == session and state not in "ZX":
                found[int(entry.name)] = int(parent)
    return found


def assert_nothing_is_left(session: int, message: str) -> None:
    """No process of a session runs any more, and none has left a temporary file."""
    deadline = time.monotonic() + 5.0
    while left := in_session(session):
        assert time.monotonic() < deadline, f"{message}: {left} still run"
        time.sleep(0.02)
    assert not [p.name for p in TEMPORARY.iterdir()], message


def wait_for_handlers(process: Started) -> None:
    """Wait until a command takes signals; before, while it imports NumPy, they do what they do to any Python."""
    while process.poll() is None:
        status = Path(f"/proc/{process.pid}/status").read_text()
        caught = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt:"))
        if caught >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.01)


def result(report: Path) -> Any:
    """What a report says, apart from what differs from run to run."""
    data = json.loads(report.read_text())
    data.pop("deaths", None)
    return without_times(data)


def without_times(data: Any) -> Any:
    if isinstance(data, list):
        return [without_times(x) for x in data]
    return {k: without_times(v) for k, v in data.items() if k != "seconds"} if isinstance(data, dict) else data


class Undisturbed(dict[str, tuple[Any, float]]):
    """What each command finds, and how long it takes; found out when it is asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def __missing__(self, command: str) -> tuple[Any, float]:
        report = self.folder / f"{command}.json"
        began = time.monotonic()
        process = start(command, report)
        out, err = process.communicate()
        assert process.returncode == 0 and not err, out + err
        assert_nothing_is_left(process.pid, command)
        self[command] = (result(report), time.monotonic() - began)
        return self[command]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return Undisturbed(tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.parametrize("command", COMMANDS)
@SIGNALS
@pytest.mark.parametrize("moment", ["in a job", "writing"])
def test_a_command_that_is_ended_leaves_nothing_behind(
    command: str, number: signal.Signals, moment: str, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    if moment == "writing" and command not in ("census", *ALONE):
        pytest.skip("all commands with workers write their reports by the same lines, and a census is soon done")
    if not LARGE and (list(COMMANDS).index(command) + NUMBERS.index(number) + 2 * (moment == "writing")) % 4:
        pytest.skip("another command gets this signal here; GTAPE_LARGE=1 runs it")
    folder = tmp_path / "reports"
    folder.mkdir()
    report, mark = folder / "report.json", tmp_path / "mark"
    report.write_text('{"old": true}')
    process, _ = start_and_wait(command, report, moment, mark)
    process.send_signal(number)
    if moment == "writing" and number != signal.SIGKILL:
        mark.unlink()  # it writes on
    out, err = process.communicate(timeout=600)
    message = f"{command}, {number.name}, {moment}: {process.returncode} {out} {err}"
    assert_nothing_is_left(process.pid, message)
    assert [p.name for p in folder.iterdir()] == ["report.json"], message
    assert "Traceback" not in err, message
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number), message
    if number == signal.SIGKILL or (moment == "in a job" and command in ALONE):
        assert json.loads(report.read_text()) == {"old": True}, message
    elif moment == "writing":
        assert result(report) == undisturbed[command][0], message
    else:
        found, whole = result(report), undisturbed[command][0]
        assert found["partial"] and found["interrupted"] == number.name and not found["ok"], message
        assert found["jobs_done"] < found["jobs"] == whole["jobs"], message
        assert word(command) in str(found["not_done"]), message
        assert "partial" in err and "partial" in out, message


@pytest.mark.slow
@pytest.mark.parametrize("command", [c for c in POOLED if LARGE or c != "mutants"])
def test_a_killed_worker_costs_no_result(command: str, tmp_path: Path, undisturbed: Undisturbed) -> None:
    report = tmp_path / "report.json"
    process, worker = start_and_wait(command, report, "in a job", tmp_path / "mark")
    assert in_session(process.pid)[worker] == process.pid
    os.kill(worker, signal.SIGKILL)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, out + err
    assert_nothing_is_left(process.pid, command)
    assert result(report) == undisturbed[command][0]
    (death,) = json.loads(report.read_text())["deaths"]
    assert death["worker"] == "was killed by SIGKILL" and word(command) in death["job"]
    (line,) = err.splitlines()
    assert "a worker was killed by SIGKILL at" in line and word(command) in line


@at_random
@pytest.mark.parametrize("command", COMMANDS)
@SIGNALS
def test_a_command_that_is_ended_at_any_moment_leaves_nothing_behind(
    command: str, number: signal.Signals, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    whole, seconds = undisturbed[command]
    rng = random.Random(f"{SEED} {command} {number}")
    seen = {"before it wrote": 0, "partial": 0, "whole": 0}
    for k in range(TIMES if number == signal.SIGKILL else TIMES // 5):
        # Every other time there is an older report, which stays unless a new one takes its place.
        report = tmp_path / f"{k}.json"
        if k % 2:
            report.write_text('{"old": true}')
        process = start(command, report)
        delay = rng.uniform(0.0, 1.1 * seconds)
        message = f"{command}, {number.name} after {delay:.3f} s of {seconds:.3f} s, seed {SEED}"
        if number != signal.SIGKILL:
            wait_for_handlers(process)
        time.sleep(delay)
        process.send_signal(number)
        out, err = process.communicate(timeout=600)
        assert_nothing_is_left(process.pid, message)
        names = {p.name for p in tmp_path.iterdir()}
        assert names <= {f"{i}.json" for i in range(k + 1)}, f"{message}: {names}"
        assert "Traceback" not in err, f"{message}: {err}"
        if not report.exists() or json.loads(report.read_text()) == {"old": True}:
            seen["before it wrote"] += 1
            continue
        found = result(report)
        if found.get("partial"):
            seen["partial"] += 1
            assert number != signal.SIGKILL and found["interrupted"] == number.name and not found["ok"], message
            assert "partial" in err and "partial" in out, f"{message}: {err}"
            assert process.returncode == 128 + number, message
        else:
            seen["whole"] += 1
            assert found == whole | ({"interrupted": found["interrupted"]} if "interrupted" in found else {}), message
        if number != signal.SIGKILL:  # 0: the signal came when all was done
            assert process.returncode in (0, 128 + number), f"{message}: {process.returncode} {err}"
    print(f"{command}, {number.name}: {seen}")


@at_random
@pytest.mark.parametrize("command", POOLED)
def test_workers_killed_at_any_moment_cost_no_result(command: str, tmp_path: Path, undisturbed: Undisturbed) -> None:
    whole, seconds = undisturbed[command]
    rng = random.Random(f"{SEED} {command} workers")
    reported = 0
    for k in range(TIMES):
        report = tmp_path / f"{k}.json"
        process = start(command, report)
        while not (workers := [p for p, parent in in_session(process.pid).items() if parent == process.pid]):
            if process.poll() is not None:
                break
            time.sleep(0.01)
        message = f"{command}, kill {k}, seed {SEED}"
        time.sleep(rng.uniform(0, 0.6 * seconds))
        workers = [p for p, parent in in_session(process.pid).items() if parent == process.pid] or workers
        if workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(workers), signal.SIGKILL)
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, f"{message}: {process.returncode} {out} {err}"
        assert_nothing_is_left(process.pid, message)
        assert result(report) == whole, message
        deaths = json.loads(report.read_text())["deaths"]
        assert all(d["worker"] == "was killed by SIGKILL" for d in deaths), f"{message}: {deaths}"
        assert err.count("a worker was killed by SIGKILL at") == len(deaths) == len(err.splitlines()), message + err
        reported += len(deaths)
    print(f"{command}: {reported} of {TIMES} kills met a worker at its work")
    assert reported


@pytest.mark.slow
@pytest.mark.parametrize("command", [c for c in POOLED if LARGE or c not in ("mutants", "peers")])
def test_what_kills_each_of_its_workers_is_named_and_the_rest_is_kept(
    command: str, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    whole, _ = undisturbed[command]
    report = tmp_path / "report.json"
    process = start(command, report, "dies of a job", str(tmp_path / "mark"))
    out, err = process.communicate(timeout=600)
    assert process.returncode == 3, err
    assert "Traceback" not in err
    assert "not done: " in err and word(command) in err
    assert "the worker was killed by SIGKILL, 3 times" in err
    # The table of peers has rows for causes only, and the right function has none.
    assert ("fake" if command == "peers" else "sin") in out and "partial" in out
    found = result(report)
    assert found["partial"] and not found["ok"] and found["interrupted"] is None
    assert found["not_done"] and all(word(command) in d["job"] for d in found["not_done"])

    def rest(data: Any) -> Any:
        rows = next((data[k] for k in ("lines", "proofs", "rows", "kernels", "trials") if k in data), [])
        return [r for r in rows if word(command) not in r.get("name", r.get("op"))]

    assert rest(found) == rest(whole)
    assert not [d for d in found["not_done"] if word(command) not in d["job"]]


# ------------------------------------------------------------------------------------------ replays and campaigns


def test_a_command_that_is_replayed_ends_with_the_replay(tmp_path: Path) -> None:
    source = tmp_path / "source.json"
    command = ["gtape", "census", "sin", "tanh", "--points=10000000"]
    source.write_text(json.dumps({"partial": False, "ok": True, "command": command, "rows": []}))
    process = start_words(["replay", str(source)], tmp_path / "report.json")
    while len(in_session(process.pid)) < 3:  # the replay, the command, and a worker of it
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert_nothing_is_left(process.pid, "a replay, killed")


@at_random
def test_a_replay_that_is_killed_at_any_moment_leaves_nothing_behind(tmp_path: Path, undisturbed: Undisturbed) -> None:
    _, seconds = undisturbed["census"]
    source = undisturbed.folder / "census.json"
    rng = random.Random(f"{SEED} replay")
    for k in range(TIMES):
        report = tmp_path / f"{k}.json"
        process = start_words(["replay", str(source)], report)
        delay = rng.uniform(0.0, 1.5 * seconds)
        time.sleep(delay)
        process.kill()
        process.communicate()
        assert_nothing_is_left(process.pid, f"a replay, killed after {delay:.3f} s, seed {SEED}")
        assert not report.exists() or json.loads(report.read_text())["ok"]
        assert {p.name for p in tmp_path.iterdir()} <= {f"{i}.json" for i in range(k + 1)}


@at_random
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP], ids=lambda s: s.name)
def test_a_campaign_that_is_ended_at_any_moment_goes_on_where_it_was(number: signal.Signals, tmp_path: Path) -> None:
    from gtape.verify.campaigns.journal import JournalError, read

    load = ["--load", str(HERE / "shards.py")]
    new = ["--kind", "cheap", "--shards", "2000", "--set", "ms=5"]
    journal, report = tmp_path / "journal", tmp_path / "report.json"
    rng = random.Random(f"{SEED} campaign {number}")
    known: dict[Any, Any] = {}
    for k in range(TIMES):
        began = journal.exists() and b"\n" in journal.read_bytes()
        process = start_words(["campaign", str(journal), *load, *(["--resume"] if began else new)], report)
        message = f"a campaign, {number.name}, {k}, seed {SEED}"
        if number != signal.SIGKILL:
            wait_for_handlers(process)
        time.sleep(rng.uniform(0.0, 4.0))
        process.send_signal(number)
        _, err = process.communicate(timeout=600)
        assert_nothing_is_left(process.pid, message)
        assert "Traceback" not in err, f"{message}: {err}"
        assert {p.name for p in tmp_path.iterdir()} <= {"journal", "report.json"}, message
        if report.exists():
            json.loads(report.read_text())
        with contextlib.suppress(JournalError, OSError):  # killed before the first line was whole
            results = read(str(journal)).results
            assert list(results)[: len(known)] == list(known), f"{message}: finished shards are lost"
            known = results
    assert known
    print(f"campaign, {number.name}: {len(known)} of 2000 shards")
