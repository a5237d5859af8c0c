"""Commands that are killed at random moments leave no process, no half-written file, and lose no finished result.

One kill of each command by default; 50 of each with ``GTAPE_LARGE=1`` in the environment, which takes about half an
hour. The seed is that of the clock and is part of each message; ``GTAPE_SEED`` sets it.
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TIMES = 50 if os.environ.get("GTAPE_LARGE") else 1
SEED = int(os.environ.get("GTAPE_SEED", time.time_ns() % 10**6))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc"),
]

COMMANDS = {
    "verify": ["verify", "--quick", "sin", "exp", "sum", "maximum", "tanh"],
    "prove": ["prove", "sin", "exp", "matmul", "maximum", "cholesky", "tanh", "hypot"],
    "census": ["census", "sin", "exp", "tanh", "atan2", "--points", "500"],
    "doctor": ["doctor", "sin", "exp", "tanh", "atan2", "erf"],
    "conventions": ["conventions"],
}
POOLED = [c for c in COMMANDS if c != "conventions"]


def start(command: str, report: Path, **options: Any) -> subprocess.Popen[str]:
    """Run a command with two workers in a session of its own, which all that it starts stays in."""
    arguments = [sys.executable, "-m", "gtape.verify", *COMMANDS[command], "--processes", "2", "--json", str(report)]
    pipe = subprocess.PIPE
    return subprocess.Popen(arguments, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, start_new_session=True, **options)


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


@pytest.fixture(autouse=True)
def signals_as_in_a_terminal() -> Iterator[None]:
    """A shell ignores SIGINT for what it runs in the background, nohup SIGHUP, and programs leave that as it is."""
    before = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGHUP)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for s, handler in before.items():
        signal.signal(s, handler)


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
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda s: s.name)
def test_a_command_that_is_ended_leaves_nothing_behind(
    command: str, number: signal.Signals, tmp_path: Path, undisturbed: dict[str, tuple[Any, float]]
) -> None:
    whole, seconds = undisturbed[command]
    rng = random.Random(f"{SEED} {command} {number}")
    seen = {"before it wrote": 0, "partial": 0, "whole": 0}
    for k in range(TIMES if number == signal.SIGKILL else max(TIMES // 5, 2)):
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
        out, err = process.communicate(timeout=60)
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


@pytest.mark.parametrize("command", POOLED)
def test_a_killed_worker_costs_no_result(
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
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, f"{message}: {process.returncode} {out} {err}"
        assert_nothing_runs(process.pid, message)
        assert result(report) == whole, message
        deaths = json.loads(report.read_text())["deaths"]
        assert all(d["worker"] == "was killed by SIGKILL" for d in deaths), f"{message}: {deaths}"
        assert err.count("a worker was killed by SIGKILL at") == len(deaths) == len(err.splitlines()), message + err
        reported += len(deaths)
    print(f"{command}: {reported} of {TIMES} kills met a worker at its work")
    assert reported or TIMES < 10  # one kill may come when the work is done


PLANTED = """
import os, signal, sys
from gtape.verify import census, cli, runs
def killed(f):
    def g(*arguments):
        if "tanh" in str(arguments):
            os.kill(os.getpid(), signal.SIGKILL)
        return f(*arguments)
    return g
census._task, runs.work = killed(census._task), killed(runs.work)
from gtape.verify import doctor
doctor._task = killed(doctor._task)
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("command", POOLED)
def test_what_kills_each_of_its_workers_is_named_and_the_rest_is_kept(
    command: str, tmp_path: Path, undisturbed: dict[str, tuple[Any, float]]
) -> None:
    whole, _ = undisturbed[command]
    report = tmp_path / "report.json"
    made = subprocess.run(
        [sys.executable, "-c", PLANTED, *COMMANDS[command], "--processes", "2", "--json", str(report)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 3, made.stderr
    assert "Traceback" not in made.stderr
    assert "not done: " in made.stderr and "tanh" in made.stderr
    assert "the worker was killed by SIGKILL, 3 times" in made.stderr
    assert "sin" in made.stdout and "partial" in made.stdout
    found = result(report)
    assert found["partial"] and not found["ok"] and found["interrupted"] is None
    assert found["not_done"] and all("tanh" in d["job"] for d in found["not_done"])

    def rest(data: Any) -> Any:
        rows = data.get("lines") or data.get("proofs") or data.get("rows") or data["kernels"]
        return [r for r in rows if "tanh" not in r.get("name", r.get("op"))]

    assert rest(found) == rest(whole)
    assert not [d for d in found["not_done"] if "tanh" not in d["job"]]
