"""The work of a worker process: one job after another, until its parent has no more jobs or ends.

A worker ends with its parent, even after a kill. Three mechanisms ensure this, because each has a gap. Linux kills the
worker when the parent dies, also during long C code. A pipe closes whose other end only the parent holds. The worker
checks its parent's id each second, because another child of the parent may keep this pipe open.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

__all__ = ["HELD_BACK", "killed_with", "serve"]

# Held back while a process starts, so that the worker never runs the parent's handlers.
HELD_BACK = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

_PR_SET_PDEATHSIG = 1
_ASK_EVERY = 1.0  # seconds


def serve(
    jobs: Connection,
    lifeline: Connection,
    close: Sequence[Connection],
    parent: int,
    modules: Sequence[str],
    function: Callable[..., Any],
) -> None:
    """Do the incoming jobs, and never return.

    Parameters
    ----------
    jobs : Connection
        Brings ``(number, arguments)`` and takes ``(number, success, result or exception)``. The first message of the
        worker is None when it is ready, or a text that says why it cannot begin.
    lifeline : Connection
        Closes when the parent ends.
    close : sequence of Connection
        The parent's ends of all pipes, which a fork has copied; the worker closes them, because the pipes stay open
        while it holds a copy.
    parent : int
        The parent's process id.
    modules : sequence of str
        Imported first, because they declare primitives.
    function : callable
    """
    status = 1
    try:
        _obey_the_parent_only()
        for end in close:
            end.close()
        _end_with(parent, lifeline)
        complaint = _import(modules)
        jobs.send(complaint)
        if complaint is None:
            _work(jobs, function)
            status = 0
    except (EOFError, OSError):
        status = 0  # the parent has closed the pipe: no more jobs
    except BaseException:
        with contextlib.suppress(Exception):
            traceback.print_exc()
    finally:
        # Not sys.exit, because the parent's exit handlers and unwritten output, copied by a fork, belong to the parent.
        os._exit(status)


def _import(modules: Sequence[str]) -> str | None:
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception as e:
            return f"{name} cannot be imported there: {type(e).__name__}: {e}"
    return None


def _work(jobs: Connection, function: Callable[..., Any]) -> None:
    while True:
        number, arguments = jobs.recv()
        try:
            answer = (number, True, function(*arguments))
        except Exception as e:
            answer = (number, False, _that_can_be_sent(e))
        try:
            jobs.send(answer)
        except (BrokenPipeError, ConnectionResetError):
            raise
        except Exception as e:  # the result cannot be pickled
            jobs.send((number, False, RuntimeError(f"the result cannot be sent: {type(e).__name__}: {e}")))


def _that_can_be_sent(e: Exception) -> Exception:
    note = f"In a worker process:\n{traceback.format_exc()}"
    try:
        pickle.loads(pickle.dumps(e))
    except Exception:
        e = RuntimeError(f"{type(e).__name__}: {e}")
    e.add_note(note)
    return e


def _obey_the_parent_only() -> None:
    """Ignore Ctrl-C and a closed terminal, because these reach the whole process group, and the parent decides."""
    for number in HELD_BACK:
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)


def killed_with(parent: int) -> None:
    """Let the system kill this process when its parent ends, on Linux; end it now if the parent has ended."""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # the parent died before prctl
        os._exit(0)


def _end_with(parent: int, lifeline: Connection) -> None:
    killed_with(parent)

    def watch() -> None:
        with contextlib.suppress(OSError, EOFError):
            while not lifeline.poll(_ASK_EVERY) and os.getppid() == parent:
                pass
        os._exit(0)

    threading.Thread(target=watch, name="gtape: is the parent there?", daemon=True).start()
