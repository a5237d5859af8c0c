"""Python processes for tests, forked from one that has loaded the libraries below gtape.

NumPy, SciPy, SymPy, FLINT and rich take a second to load; gtape itself is loaded anew by each process. A test that is
about the start of Python, its standard streams or its hashes starts a real process instead.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

__all__ = ["Process", "Started", "run", "start"]

LIBRARIES = (
    "numpy", "scipy.special", "scipy.linalg", "sympy", "mpmath", "flint", "rich.console", "rich.progress", "rich.table",
)  # fmt: skip
# The longest request: a command line and an environment.
MOST_BYTES = 1 << 17


def run(
    words: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None, together: bool = False
) -> subprocess.CompletedProcess[str]:
    """What ``subprocess.run([sys.executable, *words], capture_output=True, text=True)`` returns.

    With `together`, standard output holds standard error, too.
    """
    process = start(words, cwd=cwd, env=env, together=together)
    out, err = process.communicate(timeout=600)
    return subprocess.CompletedProcess([sys.executable, *words], process.returncode or 0, out, err)


def start(words: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None, together: bool = False) -> Started:
    """Start ``python *words``, with ``-m``, ``-c`` or a script as the first word, in a session of its own."""
    if not sys.platform.startswith("linux"):
        out, err = subprocess.PIPE, subprocess.STDOUT if together else subprocess.PIPE
        return subprocess.Popen(
            [sys.executable, *words], cwd=cwd, env=env, stdout=out, stderr=err, text=True, start_new_session=True
        )
    return Process(words, cwd, os.environ if env is None else env, together)


class Process:
    """A started process, with the methods of `subprocess.Popen` that the tests use.

    Attributes
    ----------
    pid : int
    returncode : int or None
        As of `subprocess.Popen`: the exit status, or less than 0 by the signal that ended the process.
    """

    def __init__(self, words: Sequence[str], cwd: Path, env: Mapping[str, str], together: bool) -> None:
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
        request = json.dumps([[str(w) for w in words], str(cwd), dict(env)]).encode()
        assert len(request) < MOST_BYTES, "the request is too long"
        self._told, telling = socket.socketpair()
        out = self._out.fileno()
        with telling:
            socket.send_fds(_server(), [request], [out, out if together else self._err.fileno(), telling.fileno()])
        self.pid = int(self._told.recv(20))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            self.returncode = int(self._told.recv(20))
            self._told.close()
        return self.returncode

    def communicate(self, timeout: float = 600.0) -> tuple[str, str]:
        """Wait for the end of the process; what it has written to standard output and standard error."""
        if self.returncode is None and not select.select([self._told], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("python", timeout)
        self.poll()
        said = []
        for file in (self._out, self._err):
            with file:
                file.seek(0)
                said.append(file.read().decode("utf-8", "replace"))
        return said[0], said[1]

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@functools.cache
def _server() -> socket.socket:
    """The socket of the process that forks; the first call starts it, and it ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "GTAPE_VERIFY")}
    env["OPENBLAS_NUM_THREADS"] = "1"  # because only a process with one thread forks safely
    command = [sys.executable, __file__, str(theirs.fileno())]
    with theirs:
        server = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], env=env, stdin=subprocess.DEVNULL, start_new_session=True
        )

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours


Started = Process | subprocess.Popen[str]


# ------------------------------------------------------------------------------------------- inside the other process


def _serve(requests: socket.socket) -> None:
    """Fork for each request; returns in each forked process, with what it has to run in `sys.argv`."""
    for name in LIBRARIES:
        __import__(name)
    gc.collect()
    gc.freeze()
    while True:
        request, handles, _, _ = socket.recv_fds(requests, MOST_BYTES, 3)
        if not request:
            os._exit(0)
        if os.fork() == 0:
            requests.close()
            _watch(request, *handles)
            return
        for handle in handles:
            os.close(handle)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _watch(request: bytes, out: int, err: int, telling: int) -> None:
    """Fork the process itself, which returns; tell its id and, at its end, its status."""
    pid = os.fork()
    if pid == 0:
        os.close(telling)
        words, folder, env = json.loads(request)
        _become(words, folder, env, out, err)
        return
    os.close(out)
    os.close(err)
    os.write(telling, str(pid).encode())
    # Separate messages, because a stream joins them: the reader has taken the id before it asks for the status.
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(OSError):
        os.write(telling, str(status).encode())
    os._exit(0)


def _become(words: list[str], folder: str, env: dict[str, str], out: int, err: int) -> None:
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(out)
    os.close(err)
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    first = {"-m": os.getcwd(), "-c": ""}.get(words[0], os.path.dirname(os.path.abspath(words[0])))
    paths = [p for p in env.get("PYTHONPATH", "").split(os.pathsep) if p]
    sys.path[:] = [first, *paths, *sys.path[1:]]
    sys.dont_write_bytecode = bool(env.get("PYTHONDONTWRITEBYTECODE"))
    sys.argv = words


def _run_as_main() -> None:
    """Run what `sys.argv` says, as Python does."""
    option, *rest = sys.argv
    if option == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif option == "-c":
        sys.argv = ["-c", *rest[1:]]
        module = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), module.__dict__)
    else:
        runpy.run_path(option, run_name="__main__")


def _main() -> NoReturn:
    _serve(socket.socket(fileno=int(sys.argv[1])))
    _run_as_main()
    sys.exit(0)


if __name__ == "__main__":
    _main()
