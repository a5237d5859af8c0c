"""Shards on any ``concurrent.futures.Executor``, and on the machines of a dask scheduler."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from typing import Any

from gtape.base.escaping import plain
from gtape.verify.campaigns.kinds import Shard
from gtape.verify.campaigns.shards import lost
from gtape.verify.search.interrupts import Interrupts
from gtape.verify.search.pools import ATTEMPTS, TOO_LONG

__all__ = ["NotThere", "distant", "on_scheduler", "through"]

_ASK = 0.5  # seconds between looks at signals and at the scheduler
_AHEAD = 2  # shards that wait for each worker
_UNREACHABLE = 30.0  # seconds without a scheduler or workers, after which a campaign ends
_CONNECT = 10.0  # seconds to find the scheduler


class NotThere(RuntimeError):
    """There is no scheduler, or the scheduler or the executor has ended."""


class _Child:
    """A process that does shards, one after another, for one thread of an executor."""

    def __init__(self) -> None:
        # The child searches the same folders for modules as this process.
        path = os.pathsep.join(p for p in sys.path if p)
        command = [sys.executable, "-m", "gtape.verify.campaigns.child"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            encoding="utf-8",
        )

    def work(self, shard: Shard, seconds: float | None) -> dict[str, Any] | None:
        """The result of a shard; None if the process died."""
        late = threading.Event()

        def expire() -> None:
            late.set()
            self._process.kill()

        timer = None if seconds is None else threading.Timer(seconds, expire)
        if timer is not None:
            timer.daemon = True
            timer.start()
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(shard) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except OSError:
            answer = ""
        finally:
            if timer is not None:
                timer.cancel()
        if answer.endswith("\n"):
            found: dict[str, Any] = json.loads(answer)
            return found
        if late.is_set():
            return lost(shard, f"{TOO_LONG} {seconds:g} s", late=True)
        return None

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()

    def __del__(self) -> None:
        # Its thread has ended, and with it the only reference to this object.
        with contextlib.suppress(Exception):
            self.end()


_of_thread = threading.local()


def distant(shard: Shard, seconds: float | None) -> dict[str, Any]:
    """Do one shard, on a thread or process of an executor, in a process of its own.

    Parameters
    ----------
    shard : dict
    seconds : float or None
        The time limit. A thread cannot be ended, but the process can.
    """
    for _ in range(ATTEMPTS):
        child: _Child | None = getattr(_of_thread, "child", None)
        if child is None:
            child = _of_thread.child = _Child()
        found = child.work(shard, seconds)
        if found is not None and found["status"] != "late":
            return found
        _of_thread.child = None
        child.end()
        if found is not None:
            return found
    return lost(shard, f"its process died {ATTEMPTS} times", late=False)


def through(
    executor: Executor,
    shards: Iterator[tuple[int, Shard]],
    done: Callable[[int, Shard, dict[str, Any]], None],
    *,
    workers: Callable[[], int],
    seconds: float | None = None,
    interrupts: Interrupts | None = None,
) -> None:
    """Do shards on an executor; a shard whose worker dies is submitted again, twice at most.

    Parameters
    ----------
    executor : concurrent.futures.Executor
    shards : iterator of (int, dict)
        Taken when a worker is nearly free.
    done : callable
        ``done(number, shard, result)``, in this thread.
    workers : callable
        The number of workers now.
    seconds : float, optional
        The time limit of a shard.
    interrupts : Interrupts, optional

    Raises
    ------
    NotThere
        If the executor takes no more shards.
    """
    at_work: dict[Future[Any], tuple[int, Shard]] = {}
    again: list[tuple[int, Shard]] = []
    attempts: Counter[int] = Counter()
    seen = time.monotonic()
    if interrupts is not None:
        interrupts.waiting()
    try:
        while interrupts is None or interrupts.number is None:
            count = workers()
            seen = time.monotonic() if count else seen
            if time.monotonic() - seen > _UNREACHABLE:
                raise NotThere(f"there was no scheduler, or no worker, for {_UNREACHABLE:g} s")
            while len(at_work) < _AHEAD * count:
                following = again.pop(0) if again else next(shards, None)
                if following is None:
                    break
                at_work[_submitted(executor, following[1], seconds)] = following
            if not at_work and count:
                return
            if not at_work:
                time.sleep(_ASK)
            for future in wait(at_work, _ASK, FIRST_COMPLETED).done:
                number, shard = at_work.pop(future)
                try:
                    result = future.result()
                except BrokenExecutor as e:
                    raise NotThere(f"the executor is broken: {plain(e)}") from e
                except CancelledError:  # the scheduler has ended, but may come back
                    again.append((number, shard))
                    continue
                except Exception as e:  # because each executor raises another error for a dead worker
                    attempts[number] += 1
                    if attempts[number] < ATTEMPTS:
                        again.append((number, shard))
                        continue
                    result = lost(shard, f"{type(e).__name__}: {plain(e)}, {ATTEMPTS} times", late=False)
                done(number, shard, result)
    finally:
        for future in at_work:
            future.cancel()


def _submitted(executor: Executor, shard: Shard, seconds: float | None) -> Future[Any]:
    try:
        return executor.submit(distant, shard, seconds)
    except RuntimeError as e:  # BrokenExecutor, too
        raise NotThere(f"the executor takes no more shards: {plain(e)}") from e


@contextlib.contextmanager
def on_scheduler(address: str) -> Iterator[tuple[Executor, Callable[[], int]]]:
    """The executor of a dask scheduler, and a function that counts its threads.

    Parameters
    ----------
    address : str
        An address such as "tcp://10.0.0.1:8786", or the file that the scheduler wrote with ``--scheduler-file``.

    Raises
    ------
    NotThere
        If dask is not installed, or if no scheduler answers.
    """
    try:
        from distributed import Client
    except ImportError:
        raise NotThere("dask is not installed: pip install 'gtape[cluster]'") from None
    where = {"scheduler_file": address} if os.path.isfile(address) else {"address": address}
    try:
        client = Client(**where, timeout=_CONNECT, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError) as e:
        raise NotThere(
            f"no scheduler answers at {plain(address)} ({type(e).__name__}): start one with `dask scheduler`, and "
            "workers with `dask worker ADDRESS`"
        ) from None

    def workers() -> int:
        try:
            return 0 if client.status != "running" else sum(client.nthreads().values())
        except Exception:  # the scheduler has ended meanwhile
            return 0

    try:
        yield client.get_executor(pure=False), workers
    finally:
        with contextlib.suppress(Exception):
            client.close(timeout=2.0)
