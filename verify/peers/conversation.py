"""A peer in a process of its own, because a crash or a hang of the peer must not end the audit."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from typing import Any, NamedTuple

from gtape.verify.peers import serve
from gtape.verify.peers.libraries import Library

__all__ = ["Conversation", "Reply", "Unusable"]

_START = 180.0  # seconds for the import of a peer
_SLACK = 8  # times the patience: the limit by the clock, for a process that gets no processor
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "JAX_PLATFORMS": "cpu",
    "CUDA_VISIBLE_DEVICES": "-1",
}


class Unusable(RuntimeError):
    """A peer that cannot be started."""


class Reply(NamedTuple):
    """The reply of a peer.

    Attributes
    ----------
    kind : {"array", "error", "crash", "hang"}
    array : array or None
    text : str
        The error, the signal, or the seconds of waiting.
    name : str
        The class of the error.
    place : str
        File and function that raised.
    """

    kind: str
    array: Any = None
    text: str = ""
    name: str = ""
    place: str = ""


class Conversation:
    """The process of one peer; it starts at the first request, and again after a crash or hang.

    Parameters
    ----------
    library : Library
    patience : float
        Seconds to wait for a reply.

    Attributes
    ----------
    versions : dict
        Package -> version, as the peer's process reports it.
    """

    def __init__(self, library: Library, patience: float = 60.0) -> None:
        self.library, self.patience = library, patience
        self.versions: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: Any) -> None:
        self.end()

    def start(self) -> None:
        """Start the process.

        Raises
        ------
        Unusable
            If the library is not installed or its import fails.
        """
        # -P leaves this folder out of the search for modules, because its files would hide others of the same name.
        self._process = subprocess.Popen(
            [sys.executable, "-P", serve.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**_ENVIRONMENT, **os.environ},
        )
        self._rest = b""
        reply = self._exchange({"setup": self.library.setup, "versions": self.library.versions}, _START)
        if reply.kind != "array":
            self.end()
            what = f"{reply.name}: {reply.text}" if reply.name else f"it {reply.text}"
            raise Unusable(f"{self.library.name} cannot be used: {what}")

    def ask(self, program: str, arrays: list[Any]) -> Reply:
        """Run a program that binds `result`, with the list `arrays` in its scope."""
        if self._process is None:
            self.start()
        return self._exchange({"program": program, "arrays": [serve.packed(a) for a in arrays]}, self.patience)

    def end(self) -> None:
        """Kill the process."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue

    def _exchange(self, request: dict[str, Any], seconds: float) -> Reply:
        process = self._process
        assert process is not None and process.stdin is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = self._line(seconds)
        except TimeoutError:
            self.end()
            return Reply("hang", text=f"did not return within {seconds:g} s")
        except (EOFError, OSError):
            status = process.wait()
            self.end()
            return Reply("crash", text=_ending(status))
        found = json.loads(line)
        if "error" in found:
            name, text, place = found["error"]
            return Reply("error", text=text, name=name, place=place)
        if "versions" in found:
            self.versions = found["versions"]
            return Reply("array")
        return Reply("array", serve.unpacked(found["array"]))

    def _line(self, seconds: float) -> bytes:
        assert self._process is not None and self._process.stdout is not None
        begun, used = time.monotonic(), _processor_time(self._process.pid)
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(min(seconds, 1.0)):
                    # By processor time, because a busy machine may delay a reply; idle processes wait longer.
                    spent = _processor_time(self._process.pid) - used
                    waited = time.monotonic() - begun
                    if waited >= seconds and (spent >= seconds or waited >= _SLACK * seconds):
                        raise TimeoutError
                    continue
                piece = os.read(self._process.stdout.fileno(), 1 << 20)
                if not piece:
                    raise EOFError
                self._rest += piece
        line, self._rest = self._rest.split(b"\n", 1)
        return line


def _processor_time(pid: int) -> float:
    """The seconds of processor time that a process has used; the seconds of the clock if the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return time.monotonic()


def _ending(status: int) -> str:
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"ended with status {status}"
