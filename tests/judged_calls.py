"""What comes of a call that `fuzzing.py` makes: a result, an error raised on purpose, or one that must not get out."""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import resource
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import valid_values
import wrong_values
from drawn_calls import Call
from valid_values import PLACE
from wrong_values import OwnError

import gtape as tf
from gtape.recording import record

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 5  # of this process's time that a call may take, and ten times that by the clock
MEMORY = 3 << 30  # bytes that calls may have beside what the process starts with
_RAISES: dict[str, list[tuple[int, int]]] = {}
_UNPACKING = re.compile(r"zip\(\)|unpack|dictionary update sequence|is (shorter|longer) than argument")
_BINDING = re.compile(r"\(\) (missing|takes|got an unexpected|got multiple|got some positional)")
_OWN = (str(ROOT / "gtape"), str(ROOT / "symbolic"), str(ROOT / "verify"))
_USERS = (valid_values.__file__, wrong_values.__file__)


def _deliberate(filename: str, line: int) -> bool:
    """Whether a `raise` statement stands in this line."""
    spans = _RAISES.get(filename)
    if spans is None:
        try:
            tree = ast.parse(Path(filename).read_text())
        except (OSError, SyntaxError):
            spans = []
        else:
            spans = [(n.lineno, n.end_lineno or n.lineno) for n in ast.walk(tree) if isinstance(n, ast.Raise) and n.exc]
        _RAISES[filename] = spans
    return any(a <= line <= b for a, b in spans)


class Verdict(NamedTuple):
    """What came of a call: "" for what may be, "internal" for an error that must not get out, "raw" for one of Python's
    or NumPy's that names no argument; the class, the message and the place."""

    kind: str
    error: str
    message: str
    place: str


def judged(e: BaseException) -> Verdict:
    """What to think of an exception."""
    frames = [(f.f_code.co_filename, n) for f, n in traceback.walk_tb(e.__traceback__)]
    name = type(e).__name__
    filename, line = frames[-1]
    own = [f"{Path(f).relative_to(ROOT)}:{n}" for f, n in frames if f.startswith(_OWN)]
    generated = [f for f, n in frames if f.startswith("<gtape")]
    place = own[-1] if own else (generated or ["the call"])[-1]
    if filename not in (*_USERS, __file__) and not filename.startswith(_OWN):
        place += f" ({Path(filename).name}:{line})"
    try:
        message = str(e)
    except BaseException:
        return Verdict("internal", name, "<its message cannot be shown>", place)
    message = message[:300]
    if isinstance(e, OwnError):
        return Verdict("", name, message, place)
    if isinstance(e, (SystemExit, KeyboardInterrupt, Hang)):
        return Verdict("internal", name, message, place)
    if not own and not generated and not isinstance(e, Hang):
        return Verdict("", name, message, place)  # Python and NumPy by themselves
    # The functions of the user among the arguments.
    here = filename in (*_USERS, __file__, "<string>") and not generated
    meant = filename.startswith(_OWN) and _deliberate(filename, line)
    if not message.strip() and not isinstance(e, StopIteration):
        return Verdict("internal", name, "<no message>", place)
    bad = not isinstance(e, (TypeError, ValueError, tf.errors.OpError)) or isinstance(
        e, (np.linalg.LinAlgError, np._core._exceptions.UFuncTypeError)
    )
    if bad:
        allowed = (
            LookupError,
            AttributeError,
            ArithmeticError,
            RuntimeError,
            StopIteration,
            AssertionError,
            BufferError,
        )
        if meant and isinstance(e, allowed) and not isinstance(e, RecursionError):
            return Verdict("", name, message, place)
        return Verdict("internal", name, message, place)
    if _UNPACKING.search(message) and not meant:
        return Verdict("internal", name, message, place)
    if meant or here:
        return Verdict("", name, message, place)
    if isinstance(e, TypeError) and _BINDING.search(message):
        return Verdict("", name, message, place)
    return Verdict("raw", name, message, place)


class Hang(BaseException):
    """A call took too long."""


def alarm(*_: Any) -> None:
    raise Hang(f"took more than {SECONDS} s")


def state() -> dict[str, Any]:
    stack = record.active()
    return {
        "active tapes": None if stack is None else stack.sessions,
        "NumPy's error state": np.geterr(),
        "warnings.filters": list(warnings.filters),
        "recursion limit": sys.getrecursionlimit(),
        "working folder": os.getcwd(),
    }


def settings_back() -> None:
    """Undo what a setting, asked for rightly, changed."""
    tf.keras.config.set_floatx("float32")
    tf.keras.config.set_epsilon(1e-7)
    tf.debugging.disable_check_numerics()
    tf.config.run_functions_eagerly(False)


def works() -> bool:
    """Whether a small gradient is right, at second order too."""
    x = tf.Variable(3.0)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = x * x * x
        dy = inner.gradient(y, x)
    return bool(dy.numpy() == 27.0 and outer.gradient(dy, x).numpy() == 18.0)


def sources_of(values: list[Any]) -> list[Any]:
    return [v for v in values if isinstance(v, (tf.Tensor, tf.Variable)) and v.dtype.is_floating]


_READY: dict[tuple[str, ...], dict[str, Any]] = {}


def space_of(before: tuple[str, ...]) -> dict[str, Any]:
    """The names that a call sees; what an example runs before is run each time, unless it takes long."""
    if before in _READY:
        return dict(_READY[before])
    made = dict(PLACE)
    start = time.perf_counter()
    for each in before:
        exec(compile(each, "<example>", "exec"), made)
    if time.perf_counter() - start > 0.005:
        _READY[before] = dict(made)
    return made


def carried_out(call: Call, space: dict[str, Any]) -> None:
    """Make the call as its mode says, and look at the result as a user would."""
    values = [eval(a, space) for a in call.args]
    words = {k: eval(v, space) for k, v in call.words}
    function = eval(call.function, space)
    sources = sources_of([*values, *words.values()]) if call.mode != "plain" else []
    if call.mode == "accumulator" and sources:
        with tf.autodiff.ForwardAccumulator(sources[0], tf.ones_like(sources[0])) as acc:
            result = function(*values, **words)
        if isinstance(result, tf.Tensor):
            acc.jvp(result)
    elif call.mode == "tape":
        with tf.GradientTape() as tape:
            tape.watch([s for s in sources if isinstance(s, tf.Tensor)])
            result = function(*values, **words)
        if isinstance(result, tf.Tensor) and sources and result.dtype.is_floating:
            tape.gradient(result, sources)
    else:
        result = function(*values, **words)
    if isinstance(result, (tf.Tensor, tf.Variable)):
        result.numpy()
    repr(result)


def run(call: Call) -> Verdict:
    """What comes of a call, and of the state after it."""
    before = state()
    verdict = Verdict("", "", "", "")
    sink = io.StringIO()
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, 10 * SECONDS)
    try:
        with contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", PendingDeprecationWarning)  # what NumPy thinks of its own matrices
            try:
                space = space_of(call.before)
                carried_out(call, space)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
                signal.setitimer(signal.ITIMER_REAL, 0)
    except BaseException as e:  # any class may come, and each is judged
        verdict = judged(e)
    settings_back()
    after = state()
    changed = [k for k in before if before[k] != after[k]]
    if changed:
        record.set_stack(())
        np.seterr(**before["NumPy's error state"])
        warnings.filters[:] = before["warnings.filters"]
        sys.setrecursionlimit(before["recursion limit"])
        os.chdir(before["working folder"])
        return Verdict("internal", "State", f"{', '.join(changed)} changed", verdict.place)
    if verdict.error and not works():
        return Verdict("internal", "State", "a gradient is wrong afterwards", verdict.place)
    return verdict


def limit_memory() -> None:
    with open("/proc/self/statm") as f:
        used = int(f.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
