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
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from campaigns import LARGE

ROOT = Path(__file__).resolve().parents[2]
TIMES = 50
SEED = int(os.environ.get("GTAPE_SEED", time.time_ns() % 10**6))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc"),
    pytest.mark.usefixtures("signals_as_in_a_terminal"),
]
at_random = pytest.mark.skipif(not LARGE, reason="takes half an hour; GTAPE_LARGE=1 runs it")

COMMANDS = {
    "verify": ["verify", "--quick", "sin", "exp", "sum", "maximum", "tanh"],
    "prove": ["prove", "sin", "exp", "matmul", "maximum", "cholesky", "tanh", "hypot"],
    "census": ["census", "sin", "exp", "tanh", "atan2", "--points", "500"],
    "doctor": ["doctor", "sin", "exp", "tanh", "atan2", "erf"],
    "conventions": ["conventions"],
}
POOLED = [c for c in COMMANDS if c != "conventions"]
NUMBERS = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
SIGNALS = pytest.mark.parametrize("number", NUMBERS, ids=lambda s: s.name)

# Run ahead of a command: the first process that comes to what is planted writes its id into a file, and stays there
# until it is killed or the file is gone. Who comes later, and finds that the file has been there, passes.
HOLD = """
import os, signal, sys, time
from gtape.verify.command import cli, reference
from gtape.verify.search import pools

moment, mark = sys.argv[1:3]
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
    def g(*arguments):
        if word in str(arguments):
            do()
        return f(*arguments)
    return g

def in_a_job(do):
    begin = pools._Pool.__init__
    pools._Pool.__init__ = lambda self, function, *rest: begin(self, planted(function, do, "tanh"), *rest)
    reference.page = planted(reference.page, do)

if moment == "in a job":
    in_a_job(stay)
elif moment == "writing":
    os.fsync = planted(os.fsync, stay)
elif moment == "dies of a job":
    in_a_job(lambda: os.kill(os.getpid(), signal.SIGKILL))
sys.exit(cli.main(sys.argv[3:]))
"""


def start(command: str, report: Path, *hold: str) -> subprocess.Popen[str]:
    """Run a command with two workers in a session of its own, which all that it starts stays in."""
    program = ["-c", HOLD, *hold] if hold else ["-m", "gtape.verify"]
    arguments = [sys.executable, *program, *COMMANDS[command], "--processes", "2", "--json", str(report)]
    pipe = subprocess.PIPE
    return subprocess.Popen(arguments, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def start_and_wait(command: str, report: Path, moment: str, mark: Path) -> tuple[subprocess.Popen[str], int]:
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


def assert_nothing_runs(session: int, message: str) -> None:
    deadline = time.monotonic() + 5.0
    while left := in_session(session):
        assert time.monotonic() < deadline, f"{message}: {left} still run"
        time.sleep(0.02)


def wait_for_handlers(process: subprocess.Popen[str]) -> None:
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
    data.pop("seconds", None)
    for line in data.get("lines", data.get("proofs", [])):
        line.pop("seconds")
    return data


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, float]]:
    """What each command finds, and how long it takes."""
    found = {}
    for command in COMMANDS:
        report = tmp_path_factory.mktemp(command) / "report.json"
        began = time.monotonic()
        process = start(command, report)
        out, err = process.communicate()
        assert process.returncode == 0 and not err, out + err
        assert_nothing_runs(process.pid, command)
        found[command] = (result(report), time.monotonic() - began)
    return found


@pytest.mark.parametrize("command", COMMANDS)
@SIGNALS
@pytest.mark.parametrize("moment", ["in a job", "writing"])
def test_a_command_that_is_ended_leaves_nothing_behind(
    command: str, number: signal.Signals, moment: str, tmp_path: Path, undisturbed: dict[str, tuple[Any, float]]
) -> None:
    if moment == "writing" and command not in ("census", "conventions"):
        pytest.skip("all commands with workers write their reports by the same lines, and a census is soon done")
    if not LARGE and (list(COMMANDS).index(command) + NUMBERS.index(number) + 2 * (moment == "writing")) % 4:
        pytest.skip("another command gets this signal here; GTAPE_LARGE=1 runs it")
    whole, _ = undisturbed[command]
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
    assert_nothing_runs(process.pid, message)
    assert [p.name for p in folder.iterdir()] == ["report.json"], message
    assert "Traceback" not in err, message
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number), message
    if number == signal.SIGKILL or (moment == "in a job" and command == "conventions"):
        assert json.loads(report.read_text()) == {"old": True}, message
    elif moment == "writing":
        assert result(report) == whole, message
    else:
        found = result(report)
        assert found["partial"] and found["interrupted"] == number.name and not found["ok"], message
        assert found["jobs_done"] < found["jobs"] == whole["jobs"], message
        assert "tanh" in str(found["not_done"]), message
        assert "partial" in err and "partial" in out, message


@pytest.mark.parametrize("command", POOLED)
def test_a_killed_worker_costs_no_result(
    command: str, tmp_path: Path, undisturbed: dict[str, tuple[Any, float]]
) -> None:
    report = tmp_path / "report.json"
    process, worker = start_and_wait(command, report, "in a job", tmp_path / "mark")
    assert in_session(process.pid)[worker] == process.pid
    os.kill(worker, signal.SIGKILL)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, out + err
    assert_nothing_runs(process.pid, command)
    assert result(report) == undisturbed[command][0]
    (death,) = json.loads(report.read_text())["deaths"]
    assert death["worker"] == "was killed by SIGKILL" and "tanh" in death["job"]
    (line,) = err.splitlines()
    assert "a worker was killed by SIGKILL at" in line and "tanh" in line


@at_random
@pytest.mark.parametrize("command", COMMANDS)
@SIGNALS
def test_a_command_that_is_ended_at_any_moment_leaves_nothing_behind(
    command: str, number: signal.Signals, tmp_path: Path, undisturbed: dict[str, tuple[Any, float]]
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
        assert_nothing_runs(process.pid, message)
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
def test_workers_killed_at_any_moment_cost_no_result(
    command: str, tmp_path: Path, undisturbed: dict[str, tuple[Any, float]]
) -> None:
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
        assert_nothing_runs(process.pid, message)
        assert result(report) == whole, message
        deaths = json.loads(report.read_text())["deaths"]
        assert all(d["worker"] == "was killed by SIGKILL" for d in deaths), f"{message}: {deaths}"
        assert err.count("a worker was killed by SIGKILL at") == len(deaths) == len(err.splitlines()), message + err
        reported += len(deaths)
    print(f"{command}: {reported} of {TIMES} kills met a worker at its work")
    assert reported


@pytest.mark.parametrize("command", POOLED)
def test_what_kills_each_of_its_workers_is_named_and_the_rest_is_kept(
    command: str, tmp_path: Path, undisturbed: dict[str, tuple[Any, float]]
) -> None:
    whole, _ = undisturbed[command]
    report = tmp_path / "report.json"
    process = start(command, report, "dies of a job", str(tmp_path / "mark"))
    out, err = process.communicate(timeout=600)
    assert process.returncode == 3, err
    assert "Traceback" not in err
    assert "not done: " in err and "tanh" in err
    assert "the worker was killed by SIGKILL, 3 times" in err
    assert "sin" in out and "partial" in out
    found = result(report)
    assert found["partial"] and not found["ok"] and found["interrupted"] is None
    assert found["not_done"] and all("tanh" in d["job"] for d in found["not_done"])

    def rest(data: Any) -> Any:
        rows = data.get("lines") or data.get("proofs") or data.get("rows") or data["kernels"]
        return [r for r in rows if "tanh" not in r.get("name", r.get("op"))]

    assert rest(found) == rest(whole)
    assert not [d for d in found["not_done"] if "tanh" not in d["job"]]
