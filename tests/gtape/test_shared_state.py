"""What threads and forked processes share: variables, tapes, accumulators and locks.

``GTAPE_LARGE=1`` makes the numbers those that are promised.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
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
from gtape.base import imports, locks
from gtape.base.imports import import_module
from gtape.engine.sweep import keeping
from gtape.recording import record

UPDATES, REPEATS, PRODUCTS = (3000, 20, 12500) if LARGE else (500, 2, 400)


@pytest.fixture(autouse=True)
def switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Callable[[], Any], n: int = 8) -> list[Any]:
    """What it returns in several threads at once, or the exception that it raises there."""
    made: list[Any] = []
    ready = threading.Barrier(n)

    def run() -> None:
        ready.wait()
        try:
            made.append(work())
        except Exception as e:
            made.append(e)

    threads = [threading.Thread(target=run) for _ in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return made


ROWS = tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([1]), tf.constant([3, 1]))
CHANGES: dict[str, tuple[Any, Callable[[Any], Any], float]] = {
    "assign_add, a scalar": (np.float64(0.0), lambda v: v.assign_add(1.0), 1.0),
    "assign_add": (np.zeros((3, 1), np.float32), lambda v: v.assign_add([[0.0], [1.0], [0.0]]), 1.0),
    "assign_sub": (np.zeros((3, 1), np.float32), lambda v: v.assign_sub([[0.0], [1.0], [0.0]]), -1.0),
    "assign_add of rows": (np.zeros((3, 1), np.float32), lambda v: v.assign_add(ROWS), 1.0),
    "scatter_add": (np.zeros((3, 1), np.float32), lambda v: v.scatter_add(ROWS), 1.0),
    "scatter_sub": (np.zeros((3, 1), np.float32), lambda v: v.scatter_sub(ROWS), -1.0),
    "scatter_nd_add": (np.zeros((3, 1), np.float32), lambda v: v.scatter_nd_add([[1]], [[1.0]]), 1.0),
    "a slice": (np.zeros((3, 1), np.float32), lambda v: v[1:2].assign_add([[1.0]]), 1.0),
}


@pytest.mark.parametrize("name", CHANGES)
def test_no_update_of_a_variable_is_lost(name: str) -> None:
    start, change, step = CHANGES[name]
    times = UPDATES if name.startswith("assign_add,") else UPDATES // 5
    for _ in range(REPEATS):
        v = tf.Variable(start)
        in_threads(lambda v=v: [change(v) for _ in range(times)])
        assert np.sum(v.numpy()) == 8 * times * step


def test_updates_of_one_variable_go_on_in_copies_of_one_context() -> None:
    import contextvars

    v = tf.Variable(np.zeros(100_000))
    one = tf.constant(np.ones(100_000))
    with tf.GradientTape():
        context = [contextvars.copy_context() for _ in range(8)]
        made = in_threads(lambda: context.pop().run(lambda: [v.assign_add(one) for _ in range(20)] and None))
    assert made == [None] * 8
    assert v.numpy().tolist() == [160.0] * 100_000


def test_an_assignment_by_a_signal_handler_during_an_update_is_not_lost() -> None:
    v = tf.Variable(0.0)
    first = [True]

    def make(old: Any) -> Any:
        if first:  # as a handler or a finalizer would do it
            first.clear()
            v.assign_add(10.0)
        return old + np.float32(1.0)

    v._change(make)
    assert float(v) == 11.0


def test_steps_of_one_optimizer_are_taken_one_after_another() -> None:
    for make in (lambda: tf.keras.optimizers.SGD(1.0), lambda: tf.keras.optimizers.SGD(1.0, momentum=1.0)):
        v, optimizer = tf.Variable(np.float64(0.0)), make()
        in_threads(lambda v=v, o=optimizer: [o.apply([tf.constant(np.float64(1.0))], [v]) for _ in range(50)] and None)
        assert int(optimizer.iterations) == 400
        assert float(v) == (-400.0 if optimizer.momentum == 0.0 else -400.0 * 401.0 / 2)


def test_a_metric_counts_what_all_threads_tell_it() -> None:
    mean = tf.keras.metrics.Mean()
    in_threads(lambda: [mean.update_state([1.0, 3.0]) for _ in range(100)])
    assert float(mean.count) == 1600.0
    assert float(mean.result()) == 2.0


def test_a_random_generator_gives_no_numbers_twice() -> None:
    generator = tf.random.Generator.from_seed(7)
    made = in_threads(lambda: [float(generator.normal([], dtype=tf.float64)) for _ in range(100)])
    assert len({x for part in made for x in part}) == 800


def test_accumulators_of_several_threads_find_their_tangents_of_one_variable() -> None:
    x = tf.Variable(np.ones(3))
    t = tf.constant([1.0, 0.0, 0.0], tf.float64)

    def work() -> list[Any]:
        wrong = []
        for _ in range(PRODUCTS):
            with tf.autodiff.ForwardAccumulator(x, t) as acc:
                y = x * x
            found = acc.jvp(y)
            if found is None or found.numpy().tolist() != [2.0, 0.0, 0.0]:
                wrong.append(found)
        return wrong

    assert in_threads(work) == [[]] * 8


def test_accumulators_and_tapes_of_several_threads_share_a_variable_and_a_tensor() -> None:
    x, c = tf.Variable(np.ones(3)), tf.constant(np.ones(3))
    t = tf.constant([1.0, 0.0, 0.0], tf.float64)

    def work() -> list[Any]:
        wrong = []
        for _ in range(PRODUCTS // 4):
            with tf.autodiff.ForwardAccumulator([x, c], [t, t]) as acc, tf.GradientTape() as tape:
                tape.watch(c)
                y = tf.reduce_sum(x * x * c)
            found, g = acc.jvp(y), tape.gradient(y, [x, c])
            if float(found) != 3.0 or g[0].numpy().tolist() != [2.0] * 3 or g[1].numpy().tolist() != [1.0] * 3:
                wrong.append((found, g))
        return wrong

    assert in_threads(work) == [[]] * 8


def test_of_several_threads_that_ask_a_tape_once_one_gets_the_gradient() -> None:
    for how in ("gradient", "jacobian"):
        for _ in range(30):
            x = tf.Variable([1.0, 2.0])
            with tf.GradientTape() as tape:
                y = tf.reduce_sum(x * x)
            made = in_threads(lambda tape=tape, x=x, y=y, how=how: getattr(tape, how)(y, x))
            errors = [m for m in made if isinstance(m, Exception)]
            assert len(errors) == 7
            assert all(isinstance(e, RuntimeError) and "one set of gradients" in str(e) for e in errors)
            (right,) = [m for m in made if not isinstance(m, Exception)]
            assert right.numpy().tolist() == [2.0, 4.0]


def test_of_several_threads_that_enter_a_tape_or_an_accumulator_one_does() -> None:
    x = tf.Variable(1.0)
    for make in (tf.GradientTape, lambda: tf.autodiff.ForwardAccumulator(x, 1.0)):
        one = make()
        made = in_threads(one.__enter__)
        assert sum(isinstance(m, ValueError) for m in made) == 7
        one.__exit__(None, None, None)
        with one:  # and it can be entered again
            pass


def test_a_tape_that_another_thread_leaves_records_nowhere_any_longer() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as outer:
        tape = tf.GradientTape()
        tape.__enter__()
        inner = tf.GradientTape()
        inner.__enter__()
        y = x * x
        in_threads(lambda: tape.__exit__(None, None, None), 1)
        assert record.get_stack().sessions == (outer._session, inner._session)
        z = x * x
        inner.__exit__(None, None, None)
        assert record.get_stack().sessions == (outer._session,)
    assert record.active() is None
    assert tape.gradient(z, x) is None
    assert float(inner.gradient(z, x)) == float(outer.gradient(y, x)) == 6.0


def test_a_task_that_goes_on_after_the_block_is_recorded_no_longer() -> None:
    import contextvars

    x = tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        context = contextvars.copy_context()
        y = context.run(lambda: x * x)
    z = context.run(lambda: x * x)
    assert float(tape.gradient(y, x)) == 6.0
    assert tape.gradient(z, x) is None


# ------------------------------------------------------------------------------------------------ forks

fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


def in_child(work: Callable[[], Any]) -> int:
    """Run it in a forked child; its exit status, 0 if all is well, and -9 if it hangs."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    end = time.monotonic() + 20.0
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -9


def everything() -> None:
    v = tf.Variable([1.0, 2.0])
    v.assign_add([1.0, 1.0])
    with tf.autodiff.ForwardAccumulator(v, tf.constant([1.0, 0.0])) as acc, tf.GradientTape(verify=True) as tape:
        y = tf.reduce_sum(v * v)
    assert tape.gradient(y, v).numpy().tolist() == [4.0, 6.0]
    assert float(acc.jvp(y)) == 4.0
    tf.keras.optimizers.SGD(1.0).apply([tf.constant([1.0, 1.0])], [v])
    assert v.numpy().tolist() == [1.0, 2.0]


@fork
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_finds_every_lock_free_that_another_thread_held() -> None:
    everything()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        for lock in locks._existing():
            assert lock.take(1.0)
        held.set()
        done.wait()
        for lock in locks._existing():
            lock.give_back()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert in_child(everything) == 0
    finally:
        done.set()
        thread.join()
    everything()


@fork
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_children_that_are_forked_while_threads_work_are_whole() -> None:
    everything()  # imports what the children would import
    v, stop = tf.Variable([0.0, 0.0]), threading.Event()

    def work() -> None:
        while not stop.is_set():
            v.assign_add([1.0, 1.0])
            with tf.GradientTape() as tape:
                y = tf.reduce_sum(v * v)
            tape.gradient(y, v)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    try:
        assert [in_child(everything) for _ in range(5)] == [0] * 5
    finally:
        stop.set()
        for t in threads:
            t.join()


@fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded")
def test_a_fork_waits_for_the_imports_of_other_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_to_import.py").write_text("import time\ntime.sleep(0.5)\nREADY = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    threads = [threading.Thread(target=import_module, args=("slow_to_import",)) for _ in range(2)]
    for thread in threads:
        thread.start()
    while "slow_to_import" not in sys.modules:
        time.sleep(0.001)

    def imported() -> None:
        assert import_module("slow_to_import").READY

    assert in_child(imported) == 0
    for thread in threads:
        thread.join()


@fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded")
def test_a_fork_waits_for_the_import_statements_of_other_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "part_of_gtape.py").write_text("import time\ntime.sleep(0.5)\nREADY = True\n")
    monkeypatch.setattr(tf, "__path__", [*tf.__path__, str(tmp_path)])

    def imported() -> None:
        from gtape import part_of_gtape

        assert part_of_gtape.READY

    try:
        thread = threading.Thread(target=imported)
        thread.start()
        while "gtape.part_of_gtape" not in sys.modules:
            time.sleep(0.001)
        assert in_child(imported) == 0
        thread.join()
    finally:
        sys.modules.pop("gtape.part_of_gtape", None)
        vars(tf).pop("part_of_gtape", None)


def test_a_thread_counts_as_importing_until_its_outermost_import_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    class Importing(dict[int, Any]):
        def pop(self, *args: Any) -> Any:
            left.append(args[0])
            return super().pop(*args)

    left: list[int] = []
    monkeypatch.setattr(imports, "_importing", Importing())
    imports._begin()
    imports._begin()
    imports._end()
    assert not left and threading.get_ident() in imports._importing  # a fork may come between any two statements
    imports._end()
    assert left == [threading.get_ident()]


@fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded")
def test_forks_among_first_uses_of_many_names_in_other_threads(tmp_path: Path) -> None:
    """In a process of its own, where each part of gtape is imported for the first time by some thread."""
    program = """if True:
        import os, signal, sys, threading, time, warnings
        import gtape as tf
        warnings.simplefilter("ignore")
        sys.setswitchinterval(1e-5)
        def use():
            tf.keras.layers.Dense(2)(tf.ones((1, 2)))
            with tf.GradientTape() as tape:
                x = tf.Variable(1.0)
                y = tf.sin(x)
            assert tape.gradient(y, x) is not None
        threads = [threading.Thread(target=use) for _ in range(2)]
        for t in threads:
            t.start()
        forks = 0
        while any(t.is_alive() for t in threads) or not forks:
            child = os.fork()
            if not child:
                signal.alarm(30)  # ends a child that hangs
                use()
                os._exit(0)
            forks += 1
            assert os.waitpid(child, 0)[1] == 0, forks
        for t in threads:
            t.join()
    """
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2], timeout=120)


@fork
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_persistent_tape_is_right_in_a_child_that_was_forked_during_its_sweep() -> None:
    x = tf.Variable([0.5, 1.0])
    with tf.GradientTape(persistent=True) as tape:
        h = tf.sin(x)
        y = tf.reduce_sum(h * h)
    right = tape.gradient(y, [x, h])
    # As another thread leaves it that sweeps at that moment: cotangents in the records.
    sweep = [tape._session]
    assert keeping.take(sweep)
    h._record[record.COT] = np.array([100.0, 100.0], np.float32)

    def ask() -> None:
        assert not keeping.locked()
        for found, expected in zip(tape.gradient(y, [x, h]), right, strict=True):
            np.testing.assert_array_equal(found, expected)

    try:
        assert in_child(ask) == 0
    finally:
        h._record[record.COT] = None
        keeping.sweep = None


@fork
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_tape_that_is_open_when_its_thread_forks_goes_on_in_parent_and_child() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        y = x * x

        def go_on() -> None:
            z = y * x
            assert float(tape.gradient(z, x)) == 27.0

        assert in_child(go_on) == 0
        go_on()
    assert float(tape.gradient(y, x)) == 6.0


def test_a_lock_is_free_after_an_interrupt_that_comes_as_soon_as_it_is_taken() -> None:
    class Interrupting:
        def __init__(self) -> None:
            self.lock = threading.RLock()

        def acquire(self) -> None:
            self.lock.acquire()
            raise KeyboardInterrupt

        def release(self) -> None:
            self.lock.release()

    lock = locks.Lock()
    lock._inner = inner = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        lock._enter()
    assert in_threads(lambda: inner.lock.acquire(timeout=0), 1) == [True]
    with pytest.raises(RuntimeError):
        inner.release()


def test_a_lock_ends_with_its_compiled_function() -> None:
    tf.function(lambda x: x, jit_compile=True)  # imports modules with locks of their own
    gc.collect()
    before = len(locks._existing())
    functions = [tf.function(lambda x: x, jit_compile=True) for _ in range(10)]
    assert len(locks._existing()) > before
    functions.clear()
    gc.collect()
    assert len(locks._existing()) == before


def test_first_calls_of_functions_that_call_each_other_do_not_wait_for_each_other() -> None:
    made: dict[str, Any] = {}
    inside = threading.Barrier(2, timeout=5)

    def calling(name: str, other: str) -> Any:
        def run(x: Any, deep: int = 0) -> Any:
            if name not in made:
                made[name] = tf.Variable(0.0)
            if not deep:
                with contextlib.suppress(threading.BrokenBarrierError):
                    inside.wait(0.2)
                functions[other](x, 1)
            return 2.0 * x

        return tf.function(run, jit_compile=True)

    functions = {"f": calling("f", "g"), "g": calling("g", "f")}
    threads = [threading.Thread(target=f, args=(tf.constant(1.0),), daemon=True) for f in functions.values()]
    for t in threads:
        t.start()
    for t in threads:
        t.join(20)
    assert not any(t.is_alive() for t in threads)
    assert set(made) == {"f", "g"}
