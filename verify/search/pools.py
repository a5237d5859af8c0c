"""Runs jobs in worker processes that may be killed: keeps results, repeats lost jobs, and names jobs without results.

The pools of ``concurrent.futures`` do not serve, because one killed process breaks all queued jobs there.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from gtape.base.shown import shown
from gtape.declare.primitives import REGISTRY
from gtape.tensors.argument_checks import whole
from gtape.verify.search.interrupts import Interrupted, Interrupts, signal_name
from gtape.verify.search.workers import HELD_BACK, serve

__all__ = ["ATTEMPTS", "TOO_LONG", "Fate", "Harvest", "WorkerDied", "run_all", "run_stream", "start_method"]

ATTEMPTS = 3  # number of workers that a job may end before the pool gives the job up
TOO_LONG = "it took longer than"  # begins the reason of a job that was ended by its time limit
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
    known: Mapping[int, Any] | None = None,
    found: Callable[[int, Any], None] | None = None,
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
    known : mapping, optional
        Number of a job -> its result, of an earlier call; these jobs are left out.
    found : callable, optional
        ``found(i, value)`` after each job with a result.

    Examples
    --------
    >>> from gtape.verify.search.pools import run_all
    >>> run_all(abs, [(-1,), (2,)], ["minus one", "two"], processes=2).values == {0: 1, 1: 2}
    True
    """
    harvest, processes = Harvest(labels), whole("run_all", "processes", processes)
    if interrupts is not None and not isinstance(interrupts, Interrupts):
        raise TypeError(f"run_all: `interrupts` must be an Interrupts, not {shown(interrupts)}")

    harvest.values.update(known or {})
    left = {i: job for i, job in enumerate(jobs) if i not in harvest.values}

    def tell(i: int) -> None:
        if found is not None and i in harvest.values:
            found(i, harvest.values[i])
        if progress is not None and i not in harvest.given_up:
            progress(len(harvest.values) + len(harvest.failed), len(jobs), harvest.labels[i])

    try:
        if processes <= 1:
            _here(function, left, harvest, tell, interrupts)
        elif left:
            if interrupts is not None:
                interrupts.waiting()
            _Pool(function, left, harvest, tell, interrupts).run(min(processes, len(left)))
    except Interrupted:
        if interrupts is None:
            raise
    if interrupts is not None:
        interrupts.reporting()
        harvest.interrupted = interrupts.number
    return harvest


class Fate:
    """The end of one job: a result, an exception, or the reason why there is neither.

    Attributes
    ----------
    value : object
        The result; None without one.
    failed : Exception or None
    lost : str or None
        Why there is neither: its workers died, or the time was over.
    """

    __slots__ = ("failed", "lost", "value")

    def __init__(self, value: Any = None, failed: Exception | None = None, lost: str | None = None) -> None:
        self.value, self.failed, self.lost = value, failed, lost


def run_stream(
    function: Callable[..., Any],
    jobs: Iterable[tuple[Any, ...]],
    done: Callable[[int, Fate], None],
    *,
    processes: int = 1,
    seconds: float | None = None,
    interrupts: Interrupts | None = None,
) -> str | None:
    """Call a function in worker processes once for each job of a stream, which may be endless.

    A job whose process dies moves to a new process, twice at most. At a signal the finished jobs are reported, and the
    jobs at work are lost.

    Parameters
    ----------
    function : callable
        A function of a module, so that another process can import it.
    jobs : iterable of tuple
        The arguments of each call, taken when a worker is free.
    done : callable
        ``done(i, fate)`` after the job number i. An error in `done` ends the work.
    processes : int
        Number of worker processes; 1 also starts one, because only a process can be ended after its time.
    seconds : float, optional
        The time limit of a job.
    interrupts : Interrupts, optional
        The handler of signals.

    Returns
    -------
    str or None
        Why no worker can be started, if this ended the work.

    Examples
    --------
    >>> from gtape.verify.search.pools import run_stream
    >>> run_stream(abs, [(-1,)], lambda i, fate: print(i, fate.value))
    0 1
    """
    harvest = Harvest([])

    def tell(i: int) -> None:
        pool.jobs.pop(i)
        pool.attempts.pop(i, None)
        fate = Fate(harvest.values.pop(i, None), harvest.failed.pop(i, None), harvest.given_up.pop(i, None))
        done(i, fate)

    if interrupts is not None:
        interrupts.waiting()
    pool = _Pool(function, {}, harvest, tell, interrupts, enumerate(jobs), seconds)
    try:
        pool.run(whole("run_stream", "processes", processes, least=1))
    except Interrupted:
        if interrupts is None:
            raise
    return pool.broken


def _here(
    function: Callable[..., Any],
    jobs: Mapping[int, tuple[Any, ...]],
    harvest: Harvest,
    tell: Callable[[int], None],
    interrupts: Interrupts | None,
) -> None:
    for i, arguments in jobs.items():
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
    from 3.12 on. Python's own default does not serve, because it differs between versions and systems. On Linux it is
    forkserver from 3.14 on, whose workers keep the environment of the first worker.
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
        self.due: float | None = None

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
        jobs: dict[int, tuple[Any, ...]],
        harvest: Harvest,
        tell: Callable[[int], None],
        interrupts: Interrupts | None,
        coming: Iterator[tuple[int, tuple[Any, ...]]] | None = None,
        seconds: float | None = None,
    ) -> None:
        self.function, self.jobs, self.harvest, self.tell, self.interrupts = function, jobs, harvest, tell, interrupts
        self.queue = deque(jobs)
        self.coming, self.seconds = coming or iter(()), seconds
        self.broken: str | None = None
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
            while not self.stopped and (self.more() or self.workers):
                processes = self.fill(processes)
                if self.workers:
                    self.listen()
                if self.false_starts >= most_false_starts and self.more():
                    why = self.complaint or f"each {self.harvest.deaths[-1][1]}"
                    self.give_up(f"workers end before they begin any job; {why}")
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

    def more(self) -> bool:
        """Whether a job waits; takes one from the stream if none does."""
        if not self.queue and self.broken is None:
            following = next(self.coming, None)
            if following is not None:
                i, self.jobs[i] = following
                self.queue.append(i)
        return bool(self.queue)

    def give_up(self, why: str) -> None:
        self.harvest.given_up.update(dict.fromkeys(self.queue, why))
        self.queue.clear()
        self.broken = why

    def fill(self, processes: int) -> int:
        """Start workers for the queue; return the possible number of workers."""
        while len(self.workers) < processes and self.more():
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
        self.begin(worker)
        # Ignore a dead worker here, because `listen` notices its death.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            worker.connection.send((worker.job, self.jobs[worker.job]))

    def begin(self, worker: _Worker) -> None:
        """Start the clock of a worker, unless the worker still prepares itself."""
        if self.seconds is not None and worker.ready and worker.job is not None:
            worker.due = time.monotonic() + self.seconds

    def listen(self) -> None:
        """Wait for a message, a death, a signal or the end of a job's time, and handle it."""
        listened: list[Any] = [w.process.sentinel for w in self.workers] + [w.connection for w in self.workers]
        if self.interrupts is not None:
            listened.append(self.interrupts.bell)
        due = [w.due for w in self.workers if w.due is not None]
        ready = set(wait(listened, max(0.0, min(due) - time.monotonic()) if due else None))
        for w in list(self.workers):
            if w.connection not in ready and w.process.sentinel not in ready:
                if w.due is not None and w.due <= time.monotonic():
                    self.expire(w)
                continue
            open_still = self.hear(w)
            if w.process.sentinel in ready or not open_still:
                self.bury(w)
            elif w.job is None:
                if not self.stopped and self.more():
                    self.assign(w)
                else:
                    self.workers.remove(w)
                    w.end()

    def hear(self, worker: _Worker) -> bool:
        """Handle all messages of a worker; return False if no further message can come."""
        heard, more = [], True
        try:
            while worker.connection.poll():
                message = worker.connection.recv()
                if message is None:
                    worker.ready, self.false_starts = True, 0
                    self.begin(worker)
                elif isinstance(message, str):
                    self.complaint = message
                else:
                    heard.append(message)
        except (EOFError, OSError):
            more = False
        for i, good, value in heard:
            worker.job = worker.due = None
            (self.harvest.values if good else self.harvest.failed)[i] = value
            self.tell(i)
        return more

    def expire(self, worker: _Worker) -> None:
        """Kill a worker whose job takes too long, and give the job up, because another worker would take as long."""
        self.workers.remove(worker)
        worker.process.kill()
        i = worker.job
        worker.end()
        assert i is not None and self.seconds is not None
        self.harvest.given_up[i] = f"{TOO_LONG} {self.seconds:g} s"
        self.tell(i)

    def bury(self, worker: _Worker) -> None:
        """Remove a dead worker; queue its job again, or give the job up."""
        self.workers.remove(worker)
        worker.process.join(_PATIENCE)
        if worker.process.is_alive():  # the worker has closed its pipe, so no message reaches it
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
            self.tell(i)


def _ending(status: int | None) -> str:
    if status is not None and status < 0:
        return f"was killed by {signal_name(-status)}"
    return f"ended with exit status {status}"
