"""An interrupt may come at any moment: no tape stays active, no lock held, and the next gradient is right.

The number of interrupts is small here; ``GTAPE_LARGE=1`` makes it 2,000.
"""

from __future__ import annotations

import ast
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import LARGE

import gtape as tf
from gtape.base import locks
from gtape.base import verification as flags
from gtape.engine import sweep as backprop
from gtape.recording import record
from gtape.tapes.functions import _graphs
from gtape.verify.verdicts.collect import collecting

ROUNDS = 2000 if LARGE else 160
pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer that sends a signal"),
    # Python reports an interrupt that comes inside a finalizer, and goes on.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

X = np.array([0.5, 1.5, 2.5])
USUAL_ERRORS = np.geterr()

KEPT = tf.Variable(X)
with tf.GradientTape(persistent=True) as kept_tape:
    _half = tf.sin(KEPT)
    _y = tf.reduce_sum(_half * _half)


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Let SIGALRM be a KeyboardInterrupt."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@tf.custom_gradient
def doubled(x: Any) -> Any:
    return 2.0 * x, lambda g: 2.0 * g


recomputed = tf.recompute_grad(lambda x: tf.sin(x) * x)
compiled = tf.function(lambda x: tf.gradients(tf.reduce_sum(x * x), x)[0])


def nested() -> None:
    x = tf.Variable(X)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = tf.reduce_sum(tf.sin(x) * x)
        g = inner.gradient(y, x)
        z = tf.reduce_sum(g * x)
    outer.gradient(z, x)


def jacobians() -> None:
    x = tf.Variable(X)
    with tf.GradientTape(persistent=True) as tape:
        y = tf.sin(x) * x
        with tape.stop_recording():
            tf.cos(x)
        tape.reset()
        y = tf.exp(x) * x
    tape.jacobian(y, x)
    tape.gradient(y, x)
    kept_tape.gradient(_y, [KEPT, _half])


def accumulators() -> None:
    x, t = tf.Variable(X), tf.constant([1.0, 0.0, 0.0], tf.float64)
    with tf.autodiff.ForwardAccumulator(x, t) as acc:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(doubled(tf.sin(x)))
        g = tape.gradient(y, x)
    acc.jvp(g)


def functions() -> None:
    x = tf.Variable(X)
    compiled(tf.constant(X))
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(recomputed(x) + doubled(x))
        with tf.init_scope():
            tf.Variable(tf.sin(x))
    tape.gradient(y, x)


def checks() -> None:
    x = tf.Variable(X)
    with collecting(), tf.GradientTape(verify=True) as tape:
        y = tf.reduce_sum(tf.sin(x) * doubled(x))
    tape.gradient(y, x)
    with tf.verifying(), tf.GradientTape() as tape:
        y = tf.reduce_sum(x * x)
    tape.gradient(y, x)


def generator() -> None:
    def steps() -> Iterator[Any]:
        with tf.GradientTape() as tape:
            yield tape
            yield tape

    made = steps()
    next(made)
    x = tf.Variable(X)
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(x * x)
    tape.gradient(y, x)
    if random.random() < 0.5:
        made.close()


WORK = [nested, jacobians, accumulators, functions, checks, generator]


def held_locks() -> list[Any]:
    """The locks that another thread cannot take."""
    busy: list[Any] = []

    def try_all() -> None:
        for lock in locks._existing():
            if lock.take(0):
                lock.give_back()
            else:
                busy.append(lock)

    thread = threading.Thread(target=try_all)
    thread.start()
    thread.join()
    return busy


def trouble() -> list[str]:
    """What is left of an interrupted program."""
    found, other_errors[:] = list(other_errors), []
    stack = record.peek()
    if stack is not None and (stack.sessions or stack.probe is not None):
        found.append(f"active: {stack.sessions} {stack.probe}")
    if held_locks() or backprop.keeping.locked():
        found.append("a lock is held")
    np.seterr(**USUAL_ERRORS)  # np.errstate itself stays in force after an interrupt in its `__enter__`
    if flags.BLOCKS:
        found.append("verifying() goes on")
    if _graphs.get():
        found.append("a function's graph goes on")
    x = tf.Variable(X)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = tf.reduce_sum(tf.sin(x) * x)
        g = inner.gradient(y, x)
        z = tf.reduce_sum(g)
    if not np.allclose(outer.gradient(z, x), 2 * np.cos(X) - X * np.sin(X), rtol=1e-14):
        found.append("the next gradient is wrong")
    parts = kept_tape.gradient(_y, [KEPT, _half])
    if not np.allclose(parts[0], 2 * np.sin(X) * np.cos(X), rtol=1e-14) or not np.allclose(parts[1], 2 * np.sin(X)):
        found.append("the next gradient of a persistent tape is wrong")
    return found


def seconds_of(work: Callable[[], Any]) -> float:
    """What it takes once everything is in place that the first calls make."""

    def once() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return min(once() for _ in range(12))


def _fail_unless_interrupted(report: Any) -> None:
    """What an interrupt does to finalizers, which Python only reports, is no failure; other errors there are."""
    if report.exc_type is not KeyboardInterrupt:
        other_errors.append(repr(report))


other_errors: list[str] = []


def interrupted(work: Callable[[], Any], seconds: float) -> bool:
    """Whether an interrupt after that time ended the work, or came while it was going on."""
    usual = sys.unraisablehook  # that of old versions of pytest keeps the frames of the last report, with their tapes
    sys.unraisablehook = _fail_unless_interrupted
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        work()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        return True
    finally:
        sys.unraisablehook = usual
    return False


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("work", WORK)
def test_no_interrupt_leaves_a_tape_active_or_a_lock_held(work: Callable[[], Any]) -> None:
    usual, rng = seconds_of(work), random.Random(work.__name__)
    came, wanted = 0, -(-ROUNDS // len(WORK))
    for _ in range(20 * wanted):
        if came == wanted:
            break
        came += interrupted(work, 1e-6 + rng.random() * usual)
        assert trouble() == []
    assert came == wanted


def empty_blocks(x: Any, t: Any) -> None:
    """Hardly anything but entering and leaving."""
    with tf.GradientTape() as tape:
        pass
    with tf.GradientTape(persistent=True) as outer, tf.GradientTape() as inner:
        pass
    with tf.autodiff.ForwardAccumulator(x, t):
        pass
    with outer:
        with inner, outer.stop_recording(), tf.verifying():
            pass
        with tape:
            pass


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_that_is_kept_with_its_frames_keeps_no_tape_active() -> None:
    x, t = tf.Variable(X), tf.constant(X)
    rng, kept = random.Random(7), []
    for _ in range(40 * ROUNDS):
        if len(kept) == ROUNDS:
            break
        try:
            signal.setitimer(signal.ITIMER_REAL, 1e-6 + rng.random() * 60e-6)
            empty_blocks(x, t)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt as interrupt:
            kept.append(interrupt)  # its traceback holds every tape
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert record.active() is None
    assert len(kept) == ROUNDS
    assert trouble() == []


@pytest.mark.parametrize("where", ["__enter__", "__exit__"])
def test_what_an_interrupt_inside_the_block_statement_leaves_is_inactive(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if it came at the last moment of entering, and at the first of leaving.
    def raises(*_: Any) -> Any:
        raise KeyboardInterrupt

    x = tf.Variable(X)
    makers = [tf.GradientTape, lambda: tf.autodiff.ForwardAccumulator(x, tf.constant(X))]
    for make in makers:
        one = make()
        with pytest.raises(KeyboardInterrupt):
            if where == "__enter__":
                enter = record.enter
                monkeypatch.setattr(record, "enter", lambda *args, enter=enter: (enter(*args), raises()))
            else:
                monkeypatch.setattr(vars(type(one))["__exit__"], "function", raises)
            with one:
                assert record.active() is not None
        monkeypatch.undo()
        assert record.active() is None
    assert trouble() == []


def asynchronously(work: Callable[[], None]) -> None:
    """Run it in a thread until an exception from another thread ends it."""
    import ctypes

    ended: list[str] = []

    def run() -> None:
        try:
            while True:
                work()
        except SystemError:
            pass
        stack = record.peek()
        ended.extend([] if stack is None or not stack.sessions else ["a tape is active"])
        ended.append("ended")

    thread = threading.Thread(target=run)
    thread.start()
    rng = random.Random(3)
    while thread.is_alive():
        time.sleep(rng.random() * 1e-3)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemError))
        thread.join(0.05)
    assert ended == ["ended"]


def test_an_exception_that_another_thread_raises_here_leaves_no_tape_active(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda report: None)
    for _ in range(max(4, ROUNDS // 8)):
        asynchronously(nested)
    assert trouble() == []


def test_a_tape_that_dies_in_its_block_is_active_no_longer() -> None:
    tape = tf.GradientTape()
    tape.__enter__()
    accumulator = tf.autodiff.ForwardAccumulator(tf.Variable(1.0), 1.0)
    accumulator.__enter__()
    assert len(record.get_stack().sessions) == 2
    del tape
    assert len(record.get_stack().sessions) == 1
    del accumulator
    assert record.active() is None


def test_a_generator_that_dies_with_an_open_tape_leaves_it_inactive() -> None:
    def steps() -> Iterator[None]:
        with tf.GradientTape(), tf.autodiff.ForwardAccumulator(tf.Variable(1.0), 1.0):
            yield

    for end in (lambda g: g.close(), lambda g: None):
        made = steps()
        next(made)
        with tf.GradientTape() as other:
            x = tf.Variable(2.0)
            y = x * x
            end(made)
            del made
            assert record.get_stack().sessions == (other._session,)
            z = x * y
        assert record.active() is None
        assert float(other.gradient(z, x)) == 12.0


def test_a_generator_that_dies_in_another_thread_leaves_its_tape_inactive_everywhere() -> None:
    def steps() -> Iterator[None]:
        with tf.GradientTape():
            yield

    made = [steps()]
    next(made[0])
    thread = threading.Thread(target=made.clear)
    thread.start()
    thread.join()
    assert record.active() is None


def test_a_pause_that_outlives_its_tapes_block_does_not_enter_it_again() -> None:
    with tf.GradientTape() as tape:
        pause = tape.stop_recording()
        pause.__enter__()
    del pause
    assert record.active() is None


def test_blocks_work_as_decorators_and_are_entered_once() -> None:
    @tf.verifying()
    def mode() -> Any:
        return flags.verify_mode()

    assert mode() is True
    assert mode() is True
    assert not flags.verify_mode()
    once = tf.verifying()
    with once:
        pass
    with pytest.raises(RuntimeError, match="entered once"), once:
        pass


ROOT = Path(__file__).resolve().parents[2]
LOCKS = {"sharing", "now", "of_variable", "of_optimizer"}


def _takes_a_lock(item: ast.withitem) -> bool:
    taken = item.context_expr.func if isinstance(item.context_expr, ast.Call) else item.context_expr
    name = taken.attr if isinstance(taken, ast.Attribute) else taken.id if isinstance(taken, ast.Name) else ""
    return name in LOCKS or name.endswith("lock")


def _under_locks(tree: ast.AST) -> Iterator[ast.AST]:
    """The parts of all blocks under a lock, without functions that are defined there and run elsewhere."""
    for block in ast.walk(tree):
        if isinstance(block, ast.With) and any(map(_takes_a_lock, block.items)):
            waiting: list[ast.AST] = list(block.body)
            while waiting:
                part = waiting.pop()
                if not isinstance(part, (ast.FunctionDef, ast.Lambda, ast.GeneratorExp)):
                    yield part
                    waiting += ast.iter_child_nodes(part)


def _jumps_back(part: ast.AST) -> bool:
    loop = isinstance(part, (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp))
    return loop or (isinstance(part, ast.Try) and bool(part.finalbody))


@pytest.mark.slow
def test_no_block_under_a_lock_holds_a_loop() -> None:
    """`gtape.base.locks` says why: an interrupt there would leave the lock held."""
    files = [path for folder in ("gtape", "symbolic", "verify") for path in (ROOT / folder).rglob("*.py")]
    seen = {path: list(_under_locks(ast.parse(path.read_text(encoding="utf-8")))) for path in files}
    assert sum(bool(parts) for parts in seen.values()) > 10
    found = [f"{path}:{part.lineno}" for path, parts in seen.items() for part in parts if _jumps_back(part)]  # type: ignore[attr-defined]
    assert not found, "move the body into a function: " + ", ".join(found)
