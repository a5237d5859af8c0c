"""Checks of large arrays: some elements at a time, with the same answers, in bounded memory, interruptible."""

from __future__ import annotations

import gc
import io
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.declare.primitives import REGISTRY
from gtape.errors import VerificationError
from gtape.recording import record
from gtape.symbolic.build import build
from gtape.verify import check, judge
from gtape.verify.judging import chunks, progress
from gtape.verify.judging.chunks import chunks_of
from gtape.verify.verdicts.collect import collecting


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of sixteen numbers, so that small arrays fall into many."""
    monkeypatch.setattr(chunks, "_NUMBERS", 16)
    monkeypatch.setattr(chunks, "_LARGE", 64)


def _points(shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
    return np.random.default_rng(3).uniform(0.2, 2.0, shape).astype(dtype)


W = _points((9, 1))
APART: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: tf.tanh(tf.sin(x) * x + 1.0),
    "a sum": lambda x: tf.reduce_sum(tf.exp(x) * x),
    "half a sum": lambda x: 0.5 * tf.reduce_sum(tf.square(x)) / 3.0 - 1.0,
    "a mean": lambda x: tf.reduce_mean(tf.math.log(x)),
    "a loss": lambda x: tf.reduce_mean(tf.square(tf.sigmoid(x) - 0.5)) + 0.1 * tf.reduce_sum(tf.abs(x)),
    "columns": lambda x: tf.reduce_sum(x * x, axis=1),
    "broadcast": lambda x: tf.reduce_sum(x * W),
    "a choice": lambda x: tf.where(x > 1.0, tf.sqrt(x), x * x),
    "casts": lambda x: tf.cast(tf.cast(x, tf.float32) * 3.0, tf.float64),
    "an order": lambda x: tf.reduce_sum(tf.maximum(x, 1.0) + tf.floor(x)),
    "powers": lambda x: tf.reduce_sum(tf.pow(x, 3.0) + tf.pow(2.0, x)),
}
TOGETHER: dict[str, Callable[[Any], Any]] = {
    "a norm": lambda x: tf.sqrt(tf.reduce_sum(x * x)),
    "softmax": tf.nn.softmax,
    "cumsum": tf.cumsum,
    "a product of sums": lambda x: tf.reduce_sum(x) * tf.reduce_sum(x * x),
    "centred": lambda x: x - tf.reduce_mean(x),
    "a turn": lambda x: x[::-1] * x,
}


def _program(f: Callable[[Any], Any], x: Any) -> Any:
    t = tf.constant(x)
    with tf.GradientTape(persistent=True, verify=True) as tape:
        tape.watch(t)
        y = f(t)
    return build([(y._record, y._value)], [t], tape._session)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", APART)
def test_the_answer_is_that_of_the_whole(name: str, dtype: Any, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    if dtype is np.float32 and name in ("broadcast", "casts"):
        pytest.skip("float64 constants")
    x = _points((9, 30), dtype)
    found = chunks_of(_program(APART[name], x))
    assert found is not None and len(found) > 4
    in_parts = check(APART[name], x)
    monkeypatch.setattr(chunks, "_LARGE", 10**9)
    whole = check(APART[name], x)
    assert in_parts.ok and whole.ok and in_parts.verdict == whole.verdict
    assert [(f.verdict, f.element, f.got, f.exact, f.ulps) for f in in_parts.findings] == [
        (f.verdict, f.element, f.got, f.exact, f.ulps) for f in whole.findings
    ]
    assert in_parts.checked == whole.checked == 270
    assert in_parts.max_ulp == whole.max_ulp
    assert in_parts.used == whole.used


@pytest.mark.parametrize("name", TOGETHER)
def test_elements_that_know_of_each_other_stay_together(name: str, small: None) -> None:
    x = _points((100,))
    assert chunks_of(_program(TOGETHER[name], x)) is None
    assert check(TOGETHER[name], x).ok


def test_a_parameter_that_all_elements_share_keeps_them_together(small: None) -> None:
    assert check(lambda x, w: tf.reduce_sum(tf.sin(x * w)), _points((100,)), 1.5).checked == 101


@pytest.mark.parametrize("place", [(0, 0), (4, 17), (8, 29)])
def test_one_wrong_number_is_found_where_it_is(place: tuple[int, int], small: None) -> None:
    x = _points((9, 30))
    claimed = np.cos(x)
    claimed[place] *= 1 + 1e-12
    report = judge(lambda v: tf.reduce_sum(tf.sin(v)), [x], claimed)
    (finding,) = [f for f in report.findings if not f.ok]
    assert finding.element == (0, place)
    assert finding.got == claimed[place]


def test_what_is_undecided_does_not_hide_what_is_wrong_further_on(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from gtape.verify.judging.examine import Gradient
    from gtape.verify.verdicts.verdict import Finding

    usual, calls = Gradient.examine, iter(range(1000))

    def first_undecided(*args: Any) -> Any:
        report = usual(*args)
        if next(calls) == 0:
            report.findings.append(Finding("undecided", reason="a planted one"))
        return report

    monkeypatch.setattr(Gradient, "examine", first_undecided)
    x = _points((9, 30))
    claimed = np.cos(x)
    claimed[8, 29] = 3.0
    report = judge(lambda v: tf.reduce_sum(tf.sin(v)), [x], claimed)
    assert {"undecided"} < {f.verdict for f in report.findings}
    assert any(f.element == (0, (8, 29)) and f.got == 3.0 for f in report.findings)


def test_one_wrong_rule_or_kernel_is_found_and_named(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    x = _points((9, 30))
    kernel = REGISTRY["tanh"].kernel

    def wrong(v: Any) -> Any:
        y = np.array(kernel(v))
        y[v == x[5, 20]] *= 1 + 1e-13
        return y

    monkeypatch.setattr(REGISTRY["tanh"], "kernel", wrong)
    report = check(lambda v: tf.reduce_sum(REGISTRY_call("tanh", v) * v), x)
    assert not report.ok
    assert "tanh" in {f.op for f in report.findings}


def REGISTRY_call(name: str, v: Any) -> Any:
    from gtape.engine.worlds import TAPE

    return getattr(TAPE, name)(v)


@pytest.mark.parametrize("factor", [1 + 1e-12, 2.0])
@pytest.mark.parametrize("name", ["sum", "reduce_mean"])
def test_a_wrong_sum_over_all_elements_is_found(
    name: str, factor: float, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gtape.verify.judging.examine import examine

    f = {"sum": tf.reduce_sum, "reduce_mean": tf.reduce_mean}[name]
    x = _points((9, 30))
    program = _program(lambda v: f(tf.sin(v)), x)
    (node,) = [n for n in program.nodes if n.name == name]
    node.output = node.output * factor
    got = np.cos(x) / (1 if name == "sum" else x.size)
    report = examine(program, [np.ones(())], [got])
    assert not report.ok
    assert name in {f.op for f in report.findings}


def test_second_derivatives_fall_into_chunks_too(small: None) -> None:
    x = tf.constant(_points((200,)))
    with tf.GradientTape(verify="strict") as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.reduce_sum(tf.exp(x) * tf.sin(x))
        g = inner.gradient(y, x)
        z = tf.reduce_sum(g * g)
    assert chunks_of(build([(z._record, z._value)], [x], outer._session)) is not None
    with collecting() as report:
        outer.gradient(z, x)
    assert report.checked == 200 and report.ok


def test_a_custom_gradient_stays_whole_and_a_wrong_one_raises(small: None) -> None:
    @tf.custom_gradient
    def wrong(x: Any) -> Any:
        return tf.sin(x), lambda g: g * tf.cos(x) * 1.001

    x = tf.constant(_points((200,)))
    with tf.GradientTape(verify=True) as tape:
        tape.watch(x)
        y = tf.reduce_sum(wrong(x))
    with pytest.raises(VerificationError):
        tape.gradient(y, x)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_ops_times_elements() -> None:
    import tracemalloc

    def checked(n: int) -> None:
        assert n > chunks._LARGE
        assert check(lambda v: tf.reduce_sum(tf.sin(v) * v + v), _points((n,))).ok

    def peak(n: int) -> int:
        tracemalloc.start()
        try:
            checked(n)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    checked(17_000)  # what is made once; untraced, because tracing takes most of the time
    assert (peak(27_000) - peak(17_000)) / 10_000 < 400  # bytes for each element: what was recorded, and the sum


def _slowly(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    clock = iter(np.arange(0, 1000, seconds))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("terminal", "seconds", "variable", "seen"),
    [(True, 1.0, "", True), (False, 1.0, "", False), (True, 0.001, "", False), (True, 1.0, "0", False)],
)
def test_a_long_check_shows_how_far_it_is_on_a_terminal_only(
    terminal: bool, seconds: float, variable: str, seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = _Terminal() if terminal else io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv(progress.VARIABLE, variable)
    monkeypatch.setattr(progress, "_PATIENCE", 2.0 if seconds >= 1 else 1e9)
    _slowly(monkeypatch, seconds)
    assert list(progress.shown(range(9), 9, "checking")) == list(range(9))
    assert ("checking" in stream.getvalue()) is seen


@pytest.mark.parametrize("order", [2, 3])
def test_progress_is_shown_for_the_rows_of_a_higher_derivative(order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = _Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv(progress.VARIABLE, "")
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    assert check(tf.linalg.det, np.array([[2.0, 0.5], [-0.25, 1.5]]), order=order).ok
    assert "checking rows" in stream.getvalue()


@pytest.fixture
def interrupted() -> Iterator[None]:
    # A shell ignores SIGINT for what it runs in the background, and Python leaves that as it is.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    # Python drops an interrupt that arrives in a finalizer or in a callback of the collector, such as Hypothesis's.
    gc.collect()
    gc.disable()
    timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    yield
    timer.cancel()
    timer.join()
    gc.enable()
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_a_long_check_at_once_and_leaves_nothing(interrupted: None) -> None:
    x = tf.constant(_points((1_000_000,)))
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        with tf.GradientTape(verify=True) as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.sigmoid(tf.sin(x) * x))
        tape.gradient(y, x)
    assert time.perf_counter() - start < 60
    assert record.get_stack().sessions == ()
    v = tf.Variable(2.0)
    with tf.GradientTape(verify=True) as tape:
        y = v * v
    assert tape.gradient(y, v).numpy() == 4.0
