"""Worker processes: what is done is kept, what dies is done again or named, and no worker outlives its parent."""

from __future__ import annotations

import faulthandler
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gtape.verify.search import pools
from gtape.verify.search.interrupts import Interrupted, Interrupts
from gtape.verify.search.pools import ATTEMPTS, Harvest, WorkerDied, run_all

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals as Unix has them"),
    pytest.mark.usefixtures("signals_as_in_a_terminal"),
]


@pytest.fixture(params=["fork", "spawn"])
def started_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    method: str = request.param
    if method == "fork" and pools.start_method() != "fork":
        pytest.skip("this process has threads, or its system no safe fork")
    monkeypatch.setattr(pools, "start_method", lambda: method)
    return method


@pytest.fixture(autouse=True)
def no_process_stays() -> Iterator[None]:
    before = set(multiprocessing.active_children())
    yield
    assert set(multiprocessing.active_children()) == before


def test_all_jobs_are_done_and_told(started_by: str) -> None:
    told: list[tuple[int, int, str]] = []
    harvest = run_all(
        divmod, [(7, 2), (9, 4), (5, 5)], ["a", "b", "c"], processes=2, progress=lambda *a: told.append(a)
    )
    assert harvest.values == {0: (3, 1), 1: (2, 1), 2: (1, 0)}
    assert not harvest.partial and not harvest.incomplete and harvest.remarks() == []
    assert [t[:2] for t in told] == [(1, 3), (2, 3), (3, 3)] and {t[2] for t in told} == {"a", "b", "c"}


def test_a_job_that_kills_its_worker_is_named_and_the_others_are_done() -> None:
    jobs = [(0,), (int(signal.SIGKILL),), (0,), (0,)]
    harvest = run_all(_signal_or_none, jobs, ["a", "b", "c", "d"], processes=2)
    assert set(harvest.values) == {0, 2, 3}
    assert harvest.deaths == [(1, "was killed by SIGKILL")] * ATTEMPTS
    assert harvest.partial and harvest.incomplete
    assert harvest.remarks() == [
        f"not done: b: the worker was killed by SIGKILL, {ATTEMPTS} times",
        "the result is partial: 3 of 4 jobs are done",
    ]
    assert harvest.as_dict()["not_done"] == [{"job": "b", "why": f"the worker was killed by SIGKILL, {ATTEMPTS} times"}]
    with pytest.raises(WorkerDied, match=r"b is not done: the worker was killed by SIGKILL"):
        harvest.check()


def _signal_or_none(number: int) -> int:
    if number:
        faulthandler.disable()  # which pytest enabled, because this death is no fault to print a stack for
        signal.raise_signal(number)
    return number


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT])
def test_how_a_worker_died_is_said_exactly(number: signal.Signals) -> None:
    harvest = run_all(_signal_or_none, [(int(number),)], ["a"], processes=2)
    assert harvest.given_up == {0: f"the worker was killed by {number.name}, {ATTEMPTS} times"}


def test_a_worker_that_exits_is_one_that_died() -> None:
    assert run_all(os._exit, [(7,)], ["a"], processes=2).given_up == {
        0: f"the worker ended with exit status 7, {ATTEMPTS} times"
    }


def test_a_job_is_done_again_in_a_new_process(tmp_path: Path, started_by: str) -> None:
    """The first worker to touch the file dies, the second one finds it."""
    if started_by != "fork":
        pytest.skip("the function is known to forked workers only")

    def once(path: str) -> int:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return os.getpid()
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    harvest = run_all(once, [(str(tmp_path / "mark"),)], ["a"], processes=2)
    assert harvest.values[0] not in (0, os.getpid())
    assert not harvest.partial and not harvest.incomplete
    assert harvest.remarks() == ["a worker was killed by SIGKILL at a, which was run again"]


def test_an_exception_comes_back_with_the_worker_s_traceback() -> None:
    harvest = run_all(divmod, [(1, 0), (3, 2)], ["a", "b"], processes=2)
    assert harvest.values == {1: (1, 1)} and harvest.incomplete
    with pytest.raises(ZeroDivisionError) as caught:
        harvest.check()
    assert "In a worker process" in caught.value.__notes__[0]
    assert "a: ended with ZeroDivisionError" in harvest.remarks()[0]
    assert isinstance(run_all(divmod, [(1, 0)], ["a"]).failed[0], ZeroDivisionError)


def test_an_exception_that_cannot_be_copied_comes_back_as_text(started_by: str) -> None:
    # Its constructor wants more than what its copy is made from.
    harvest = run_all(json.loads, [("{",), ("1",)], ["a", "b"], processes=2)
    assert isinstance(harvest.failed[0], json.JSONDecodeError) and harvest.values == {1: 1}
    if started_by == "fork":

        class Two(Exception):
            def __init__(self, one: int, two: int) -> None:
                super().__init__(f"{one} and {two}")

        def raises() -> None:
            raise Two(1, 2)

        assert str(run_all(raises, [()], ["a"], processes=2).failed[0]) == "Two: 1 and 2"


def test_what_progress_raises_is_raised_and_no_worker_stays() -> None:
    def progress(*_: Any) -> None:
        raise OSError("the terminal is gone")

    with pytest.raises(OSError, match="terminal"):
        run_all(time.sleep, [(0,)] * 4, list("abcd"), processes=2, progress=progress)


def test_a_result_that_cannot_be_sent_is_a_failure_of_its_job_only() -> None:
    harvest = run_all(memoryview, [(b"a",), (b"b",)], ["a", "b"], processes=2)
    assert "cannot be sent" in str(harvest.failed[0]) and len(harvest.failed) == 2


def test_workers_that_die_before_they_begin_are_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "start_method", lambda: "spawn")
    monkeypatch.setattr(pools, "_declaring_modules", lambda: ["no_such_module_at_all"])
    harvest = run_all(abs, [(i,) for i in range(50)], [str(i) for i in range(50)], processes=2)
    assert not harvest.values and harvest.incomplete
    assert len(harvest.deaths) < 10
    assert (
        "workers end before they begin any job; no_such_module_at_all cannot be imported" in harvest.remarks()[-2]
        and "and 30 more" in harvest.remarks()[-2]
    )


def test_as_many_workers_as_the_system_gives_do_all_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    start, begun = pools._Pool.start, []

    def at_most_one(self: Any) -> Any:
        if self.workers:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        begun.append(1)
        return start(self)

    monkeypatch.setattr(pools._Pool, "start", at_most_one)
    assert len(run_all(abs, [(i,) for i in range(5)], list("abcde"), processes=4).values) == 5
    assert len(begun) == 1

    def none(self: Any) -> Any:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(pools._Pool, "start", none)
    harvest = run_all(abs, [(1,), (2,)], ["a", "b"], processes=2)
    assert harvest.given_up[0] == "no worker can be started: Resource temporarily unavailable"


def test_a_process_with_threads_is_not_forked() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert pools.start_method() == "spawn"
        assert run_all(abs, [(-1,), (2,)], ["a", "b"], processes=2).values == {0: 1, 1: 2}
    finally:
        done.set()
        thread.join()


def test_workers_have_the_environment_of_now(started_by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("strict", "0"):
        monkeypatch.setenv("GTAPE_VERIFY", value)
        assert run_all(os.getenv, [("GTAPE_VERIFY",)], ["a"], processes=2).values == {0: value}


SCRIPT = """
import sys, threading
sys.path.insert(0, {root!r}); sys.path.insert(0, {folder!r})
import own
from gtape.verify.search.census import census
from gtape.verify.search.pools import start_method
if {threads}:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
{guard}
    rows = census(["my_square"], points=100, orders=(1,), dtypes=("float64", "float32"), processes=2)
    print(start_method(), [r.verdict for r in rows])
"""

OWN = """
from gtape import declare
declare.elementwise(
    "my_square", lambda x: x * x, lambda xp, y, x: 2 * x, domain=declare.Interval(-9.0, 9.0), ulps=1.0
)
declare.mirror("my_square", lambda x: x**2)
"""


@pytest.mark.parametrize("threads", [False, True])
def test_workers_know_the_primitives_that_a_module_declares(tmp_path: Path, threads: bool) -> None:
    (tmp_path / "own.py").write_text(OWN)
    guard = "if __name__ == '__main__':" if threads else "if True:"
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(root=str(ROOT), folder=str(tmp_path), threads=threads, guard=guard))
    made = subprocess.run(
        [sys.executable, "-W", "error", str(script)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert made.returncode == 0, made.stderr
    method = "fork" if sys.platform.startswith("linux") and not threads else "spawn"
    assert made.stdout == f"{method} ['correct', 'correct']\n"


# ---------------------------------------------------------------------------------------------- signals


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_keeps_what_is_done(number: signal.Signals, processes: int) -> None:
    sender: list[threading.Thread] = []

    def send() -> None:
        time.sleep(0.2)
        # Two at once are one: `timeout` sends a signal to the process and to its group.
        for _ in range(2):
            os.kill(os.getpid(), number)

    def progress(*_: Any) -> None:
        sender.append(threading.Thread(target=send))
        sender[-1].start()

    with Interrupts() as interrupts:
        began = time.monotonic()
        harvest = run_all(
            time.sleep, [(0,), (90,), (90,)], ["a", "b", "c"],
            processes=processes, progress=progress, interrupts=interrupts,
        )  # fmt: skip
        sender[0].join()
    assert time.monotonic() - began < 60
    assert harvest.values == {0: None}
    assert harvest.as_dict()["interrupted"] == number.name and harvest.as_dict()["partial"] is True
    assert harvest.remarks() == [f"the result is partial: interrupted by {number.name}, 1 of 3 jobs are done"]
    assert interrupts.status == 128 + number


SECOND = """
import os, signal, threading, time
from gtape.verify.search.interrupts import Interrupts
from gtape.verify.search.pools import run_all

def twice(*_):
    def send():
        for _ in range(2):
            time.sleep(0.6)
            os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=send, daemon=True).start()

with Interrupts() as interrupts:
    print(run_all(time.sleep, [(0,), (90,)], ["a", "b"], processes={processes}, progress=twice, interrupts=interrupts)
          .values, flush=True)
    time.sleep(90)  # a report that nobody reads
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_a_second_signal_ends_the_process_at_once(processes: int) -> None:
    began = time.monotonic()
    made = subprocess.run(
        [sys.executable, "-c", SECOND.format(processes=processes)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 130, made.stderr
    assert made.stdout == "{0: None}\n" and not made.stderr
    assert time.monotonic() - began < 60


def test_a_report_that_nobody_reads_does_not_hold_up_the_end() -> None:
    script = """
import os, signal, time
from gtape.verify.search import interrupts
interrupts._GRACE = 0.5
with interrupts.Interrupts() as taken:
    taken.reporting()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(90)
"""
    made = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 143, made.stderr
    assert not made.stderr


def test_preparations_end_at_a_signal_and_handlers_are_put_back() -> None:
    before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with Interrupts() as interrupts, pytest.raises(Interrupted):
        signal.raise_signal(signal.SIGTERM)
    assert interrupts.status == 143
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


def test_a_signal_inside_a_destructor_prints_nothing_and_stays_known(capsys: pytest.CaptureFixture[str]) -> None:
    class Ended:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    before = sys.unraisablehook
    sys.unraisablehook = sys.__unraisablehook__
    try:
        with Interrupts() as interrupts:
            Ended()
        assert interrupts.status == 143 and not capsys.readouterr().err
        assert sys.unraisablehook is sys.__unraisablehook__
    finally:
        sys.unraisablehook = before


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            signal.raise_signal(signal.SIGHUP)
        assert interrupts.number is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_signals_are_ignored_while_a_process_ends() -> None:
    """The block is the last one of a process, and every exit function and thread of the process ends in peace."""
    program = """
import atexit, signal, sys, threading
from gtape.verify.search.interrupts import Interrupts
threading._register_atexit(lambda: signal.raise_signal(signal.SIGINT))  # runs before the functions of atexit
atexit.register(lambda: signal.raise_signal(signal.SIGTERM))
with Interrupts(last=True) as interrupts:
    pass
sys.exit(7)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, "", "")


def test_a_harvest_of_nothing_is_whole() -> None:
    assert run_all(abs, [], [], processes=2).as_dict()["partial"] is False
    assert not Harvest([]).remarks()
