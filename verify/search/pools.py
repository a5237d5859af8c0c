"""Runs jobs in worker processes that may be killed: keeps results, repeats lost jobs, and names jobs without results.

The pools of ``concurrent.futures`` do not fit, because one killed process breaks all queued jobs there.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from gtape.base.shown import shown
from gtape.declare.primitives import REGISTRY
from gtape.tensors.argument_checks import whole
from gtape.verify.search.interrupts import Interrupted, Interrupts, signal_name
from gtape.verify.search.workers import HELD_BACK, serve

__all__ = ["ATTEMPTS", "Harvest", "WorkerDied", "run_all", "start_method"]

ATTEMPTS = 3  # number of workers that a job may end before the pool gives it up
_NAMED = 20  # number of jobs named per cause; JSON names all
_PATIENCE = 5.0  # seconds for an idle worker to end


class WorkerDied(RuntimeError):
    """A job has no result, because each of its worker processes died."""


class Harvest:
    """The results of some jobs, and the reasons for missing ones.

    Attributes
    ----------
    labels : list of str
        The names of the jobs.
    values : dict
        Job number -> result.
    failed : dict
        Job number -> exception that the job raised.
    deaths : list of (int, str)
        For each dead worker the number of its job and the way it ended, such as "was killed by SIGKILL".
    given_up : dict
        Job number -> reason for the missing result, other than an interruption.
    interrupted : int or None
        The signal that ended the work.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = list(labels)
        self.values: dict[int, Any] = {}
        self.failed: dict[int, Exception] = {}
        self.deaths: list[tuple[int, str]] = []
        self.given_up: dict[int, str] = {}
        self.interrupted: int | None = None

    def results(self) -> list[Any]:
        """The known results, in the order of the jobs."""
        return [self.values[i] for i in sorted(self.values)]

    @property
    def partial(self) -> bool:
        """True if some jobs have no result."""
        return len(self.values) < len(self.labels)

    @property
    def incomplete(self) -> bool:
        """True if some jobs have no result for another reason than an interruption."""
        return bool(self.given_up or self.failed)

    def not_done(self) -> dict[int, str]:
        """Job number -> reason, for each job without a result."""
        found = {}
        for i in range(len(self.labels)):
            if i in self.failed:
                found[i] = f"ended with {type(self.failed[i]).__name__}: {self.failed[i]}"
            elif i in self.given_up:
                found[i] = self.given_up[i]
            elif i not in self.values:
                found[i] = f"interrupted by {signal_name(self.interrupted)}" if self.interrupted else "not begun"
        return found

    def remarks(self) -> list[str]:
        """Sentences about dead workers, missing results and an interruption."""
        found = []
        for i, how in self.deaths:
            if i in self.values or (i not in self.given_up and self.interrupted is None):
                found.append(f"a worker {how} at {self.labels[i]}, which was run again")
        causes: dict[str, list[str]] = {}
        for i, why in self.not_done().items():
            if i in self.failed or i in self.given_up:
                causes.setdefault(why, []).append(self.labels[i])
        for why, names in causes.items():
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            found.append(f"not done: {'; '.join(names[:_NAMED])}{more}: {why}")
        if self.partial:
            cause = f"interrupted by {signal_name(self.interrupted)}, " if self.interrupted else ""
            found.append(f"the result is partial: {cause}{len(self.values)} of {len(self.labels)} jobs are done")
        return found

    def as_dict(self) -> dict[str, Any]:
        """The harvest as plain data for JSON, except the results."""
        return {
            "partial": self.partial,
            "interrupted": signal_name(self.interrupted) if self.interrupted else None,
            "jobs": len(self.labels),
            "jobs_done": len(self.values),
            "not_done": [{"job": self.labels[i], "why": why} for i, why in self.not_done().items()],
            "deaths": [{"job": self.labels[i], "worker": how} for i, how in self.deaths],
        }

    def check(self) -> None:
        """Raise the exception of the first failed job.

        Raises
        ------
        WorkerDied
            If the pool gave up jobs.
        """
        for e in self.failed.values():
            raise e
        if self.given_up:
            raise WorkerDied("; ".join(f"{self.labels[i]} is not done: {why}" for i, why in self.given_up.items()))


def run_all(
    function: Callable[..., Any],
    jobs: Sequence[tuple[Any, ...]],
    labels: Sequence[str],
    *,
    processes: int = 1,
    progress: Callable[[int, int, str], None] | None = None,
    interrupts: Interrupts | None = None,
) -> Harvest:
    """Call a function once for each job.

    A job whose process dies moves to a new process, twice at most.

    Parameters
    ----------
    function : callable
        A function of a module, so that another process can import it.
    jobs : sequence of tuple
        The arguments of each call.
    labels : sequence of str
        The names of the jobs.
    processes : int
        Number of processes; 1 uses this process only.
    progress : callable, optional
        ``progress(done, total, label)`` after each job.
    interrupts : Interrupts, optional
        The handler of signals, for a command that only reports afterwards. Without one, Ctrl-C raises
        KeyboardInterrupt.

    Examples
    --------
    >>> from gtape.verify.search.pools import run_all
    >>> run_all(abs, [(-1,), (2,)], ["minus one", "two"], processes=2).values == {0: 1, 1: 2}
    True
    """
    harvest, processes = Harvest(labels), whole("run_all", "processes", processes)
    if interrupts is not None and not isinstance(interrupts, Interrupts):
        raise TypeError(f"run_all: `interrupts` must be an Interrupts, not {shown(interrupts)}")

    def tell(i: int) -> None:
        if progress is not None:
            progress(len(harvest.values) + len(harvest.failed), len(jobs), harvest.labels[i])

    try:
        if processes <= 1:
            _here(function, jobs, harvest, tell, interrupts)
        elif jobs:
            if interrupts is not None:
                interrupts.waiting()
            _Pool(function, jobs, harvest, tell, interrupts).run(min(processes, len(jobs)))
    except Interrupted:
        if interrupts is None:
            raise
    if interrupts is not None:
        interrupts.reporting()
        harvest.interrupted = interrupts.number
    return harvest


def _here(
    function: Callable[..., Any],
    jobs: Sequence[tuple[Any, ...]],
    harvest: Harvest,
    tell: Callable[[int], None],
    interrupts: Interrupts | None,
) -> None:
    for i, arguments in enumerate(jobs):
        if interrupts is not None and interrupts.number is not None:
            return
        try:
            harvest.values[i] = function(*arguments)
        except Exception as e:
            harvest.failed[i] = e
        tell(i)


def start_method() -> str:
    """The start method of workers: "fork" on Linux in a process with one thread, "spawn" elsewhere.

    A forked worker starts in milliseconds and has the modules, declared primitives and environment of this process.
    With several threads a fork may deadlock, because it copies the locks that other threads hold; Python warns of it
    from 3.12 on. Python's own default is not used, because it differs between versions and systems: forkserver on Linux
    from 3.14 on, whose workers keep the environment of the first of them.
    """
    return "fork" if sys.platform.startswith("linux") and threading.active_count() == 1 else "spawn"


def _declaring_modules() -> list[str]:
    """The modules outside gtape that declare primitives; a spawned worker has to import them."""
    found = {p.module for p in REGISTRY.values()}
    return sorted(m for m in found if m and m != "__main__" and m.split(".")[0] != "gtape" and m in sys.modules)


@contextlib.contextmanager
def _signals_held_back() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Worker:
    """One process and its current job."""

    def __init__(self, process: Any, connection: Connection) -> None:
        self.process, self.connection = process, connection
        self.job: int | None = None
        self.ready = False

    def end(self) -> None:
        self.connection.close()
        self.process.join(_PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


class _Pool:
    """Some workers and the queue of their jobs."""

    def __init__(
        self,
        function: Callable[..., Any],
        jobs: Sequence[tuple[Any, ...]],
        harvest: Harvest,
        tell: Callable[[int], None],
        interrupts: Interrupts | None,
    ) -> None:
        self.function, self.jobs, self.harvest, self.tell, self.interrupts = function, jobs, harvest, tell, interrupts
        self.queue = deque(range(len(jobs)))
        self.workers: list[_Worker] = []
        self.attempts: Counter[int] = Counter()
        self.false_starts = 0
        self.complaint = ""
        self.lifeline, self.held = multiprocessing.Pipe(duplex=False)

    @property
    def stopped(self) -> bool:
        return self.interrupts is not None and self.interrupts.number is not None

    def run(self, processes: int) -> None:
        most_false_starts = 2 * processes + 1
        try:
            while not self.stopped and (self.queue or self.workers):
                processes = self.fill(processes)
                if self.workers:
                    self.listen()
                if self.false_starts >= most_false_starts and self.queue:
                    why = self.complaint or f"each {self.harvest.deaths[-1][1]}"
                    self.give_up(f"workers end before they have begun; {why}")
            for w in self.workers:
                self.hear(w)  # after an interruption, keep finished results
        finally:
            # Kill all workers before waiting for any, because another Ctrl-C may end the waiting.
            for w in self.workers:
                w.process.kill()
            for w in self.workers:
                w.end()
            self.lifeline.close()
            self.held.close()

    def give_up(self, why: str) -> None:
        self.harvest.given_up.update(dict.fromkeys(self.queue, why))
        self.queue.clear()

    def fill(self, processes: int) -> int:
        """Start workers for the queue; return the possible number of workers."""
        while self.queue and len(self.workers) < processes:
            try:
                worker = self.start()
            except OSError as e:  # no more processes or files: continue with the existing workers
                if not self.workers:
                    self.give_up(f"no worker can be started: {e.strerror or e}")
                return max(len(self.workers), 1)
            self.workers.append(worker)
            self.assign(worker)
        return processes

    def start(self) -> _Worker:
        method = start_method()
        context: Any = multiprocessing.get_context(method)
        mine, theirs = multiprocessing.Pipe()
        forked = method == "fork"
        close = [self.held, mine, *(w.connection for w in self.workers)] if forked else []
        modules = [] if forked else _declaring_modules()
        process = context.Process(
            target=serve, args=(theirs, self.lifeline, close, os.getpid(), modules, self.function), daemon=True
        )
        try:
            with _signals_held_back():
                process.start()
        except BaseException:
            mine.close()
            raise
        finally:
            theirs.close()
        return _Worker(process, mine)

    def assign(self, worker: _Worker) -> None:
        worker.job = self.queue.popleft()
        # Ignore a dead worker here, because `listen` notices its death.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            worker.connection.send((worker.job, self.jobs[worker.job]))

    def listen(self) -> None:
        """Wait for a message, a death or a signal, and handle it."""
        listened: list[Any] = [w.process.sentinel for w in self.workers] + [w.connection for w in self.workers]
        if self.interrupts is not None:
            listened.append(self.interrupts.bell)
        ready = set(wait(listened))
        for w in list(self.workers):
            if w.connection not in ready and w.process.sentinel not in ready:
                continue
            open_still = self.hear(w)
            if w.process.sentinel in ready or not open_still:
                self.bury(w)
            elif w.job is None:
                if self.queue:
                    self.assign(w)
                else:
                    self.workers.remove(w)
                    w.end()

    def hear(self, worker: _Worker) -> bool:
        """Handle all messages of a worker; return False if no more can come."""
        heard, more = [], True
        try:
            while worker.connection.poll():
                message = worker.connection.recv()
                if message is None:
                    worker.ready, self.false_starts = True, 0
                elif isinstance(message, str):
                    self.complaint = message
                else:
                    heard.append(message)
        except (EOFError, OSError):
            more = False
        for i, good, value in heard:
            worker.job = None
            (self.harvest.values if good else self.harvest.failed)[i] = value
            self.tell(i)
        return more

    def bury(self, worker: _Worker) -> None:
        """Remove a dead worker; queue its job again, or give the job up."""
        self.workers.remove(worker)
        worker.process.join(_PATIENCE)
        if worker.process.is_alive():  # it has closed its pipe, so that no message reaches it
            worker.process.kill()
            worker.process.join()
        how = _ending(worker.process.exitcode)
        worker.end()
        i = worker.job
        if i is None:
            return
        self.harvest.deaths.append((i, how))
        if not worker.ready:
            self.false_starts += 1
            self.queue.append(i)
            return
        self.attempts[i] += 1
        if self.attempts[i] < ATTEMPTS:
            self.queue.append(i)  # at the end, because more memory may be free later
        else:
            self.harvest.given_up[i] = f"the worker {how}, {ATTEMPTS} times"


def _ending(status: int | None) -> str:
    if status is not None and status < 0:
        return f"was killed by {signal_name(-status)}"
    return f"ended with exit status {status}"
