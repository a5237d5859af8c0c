"""The program that runs inside a peer's process: it evaluates expressions of the peer and returns arrays.

The program runs by its path and imports nothing of gtape, because either library may change floating-point modes. Each
line of standard input is a request, each line of standard output a reply, both JSON.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import signal
import sys
import traceback
import warnings
from typing import IO, Any

import numpy as np

__all__ = ["packed", "unpacked"]

_LONGEST = 400  # characters of an error message


def packed(a: Any) -> list[Any]:
    """An array as plain data: dtype, shape, bytes."""
    a = np.asarray(a)
    return [a.dtype.name, list(a.shape), base64.b64encode(a.tobytes()).decode("ascii")]


def unpacked(data: list[Any]) -> Any:
    """The array of plain data."""
    name, shape, text = data
    if name == "bfloat16":
        import ml_dtypes

        dtype = np.dtype(ml_dtypes.bfloat16)
    else:
        dtype = np.dtype(name)
    return np.frombuffer(base64.b64decode(text), dtype).reshape(shape).copy()


def _last_lines(e: BaseException) -> str:
    """The file and function that raised, without the path, which differs between machines."""
    frames = traceback.extract_tb(e.__traceback__)
    return f"{os.path.basename(frames[-1].filename)}, {frames[-1].name}" if frames else ""


def _answer(request: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    try:
        if "setup" in request:
            exec(request["setup"], names)
            return {"versions": {k: str(eval(v, names)) for k, v in request["versions"].items()}}
        scope = dict(names)
        scope["arrays"] = [unpacked(a) for a in request["arrays"]]
        exec(request["program"], scope)
        return {"array": packed(scope["result"])}
    except Exception as e:
        text = " ".join(str(e).split())
        return {"error": [type(e).__name__, text[:_LONGEST], _last_lines(e)]}


def _serve(requests: IO[str], replies: IO[str]) -> None:
    names: dict[str, Any] = {"np": np}
    for line in requests:
        reply = _answer(json.loads(line), names)
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def _die_with_parent() -> None:
    """Let the system kill this process when its parent ends, because a call that hangs reads no end of input."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)


if __name__ == "__main__":
    _die_with_parent()
    # Output of the peer goes to standard error, because standard output carries the replies.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.path.insert(0, os.getcwd())
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    _serve(sys.stdin, out)
