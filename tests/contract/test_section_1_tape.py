"""The tape as an object and a context; watching (section 1 of the contract)."""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import Any

import numpy as np
import pytest

import gtape as tf

STILL = r"^Tape is still recording, This can happen if you try to re-enter an already-active tape\.$"
NOT_RECORDING = r"^Tape is not recording\.$"
USED = r"^A non-persistent GradientTape can only be used to compute one set of gradients \(or jacobians\)$"


def in_thread(f: Any) -> Any:
    """Run `f` in another thread and hand on what it returns or raises."""
    outcome: dict[str, Any] = {}

    def run() -> None:
        try:
            outcome["value"] = f()
        except Exception as e:
            outcome["error"] = e

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if "error" in outcome:
        raise outcome["error"]
    return outcome["value"]


# ---------------------------------------------------------------- the constructor


def test_options_are_positional_or_keyword() -> None:
    x = tf.Variable(2.0)
    with tf.GradientTape(True, False) as tape:
        y = x * x
    assert tape.gradient(y, x) is None and tape.gradient(y, x) is None
    with tf.GradientTape(persistent=True, watch_accessed_variables=True) as tape:
        y = x * x
    assert tape.gradient(y, x).numpy() == tape.gradient(y, x).numpy() == 4.0


def test_third_positional_argument_is_refused() -> None:
    with pytest.raises(TypeError):
        tf.GradientTape(False, True, True)  # type: ignore[misc]


def test_the_class_is_exported_as_autodiff_gradient_tape_too() -> None:
    assert tf.autodiff.GradientTape is tf.GradientTape


# ---------------------------------------------------------------- entering and leaving


def test_enter_returns_the_tape() -> None:
    tape = tf.GradientTape()
    with tape as entered:
        assert entered is tape


def test_entering_while_recording_is_an_error_and_the_outer_block_goes_on() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        with pytest.raises(ValueError, match=STILL), tape:
            pass
        y = x * x
    assert tape.gradient(y, x).numpy() == 6.0


def test_another_thread_cannot_enter_a_recording_tape() -> None:
    with tf.GradientTape() as tape, pytest.raises(ValueError, match=STILL):
        in_thread(tape.__enter__)


def test_reentering_continues_the_same_record() -> None:
    x = tf.Variable(3.0)
    tape = tf.GradientTape(persistent=True)
    with tape:
        y = x * x
    with tape:
        z = y * x
    assert tape.gradient(y, x).numpy() == 6.0
    assert tape.gradient(z, x).numpy() == 27.0


def test_reentering_a_used_tape_starts_an_empty_record_and_watches_must_be_repeated() -> None:
    x = tf.constant(3.0)
    tape = tf.GradientTape()
    with tape:
        tape.watch(x)
        y = x * x
    assert tape.gradient(y, x).numpy() == 6.0
    with tape:
        z = x * x
    assert tape.gradient(z, x) is None
    with tape:
        tape.watch(x)
        z = x * x
    assert tape.gradient(z, x).numpy() == 6.0


def test_exit_returns_none_and_may_be_called_twice() -> None:
    tape = tf.GradientTape()
    tape.__enter__()
    assert tape.__exit__(None, None, None) is None  # type: ignore[func-returns-value]
    tape.__exit__(None, None, None)


def test_tapes_may_be_left_in_any_order() -> None:
    x = tf.Variable(3.0)
    a, b = tf.GradientTape(), tf.GradientTape()
    a.__enter__()
    b.__enter__()
    y = x * x
    a.__exit__(None, None, None)
    z = y * x
    b.__exit__(None, None, None)
    assert a.gradient(y, x).numpy() == 6.0
    assert b.gradient(z, x).numpy() == 27.0


def test_exception_propagates_stops_recording_and_keeps_what_was_recorded() -> None:
    x = tf.Variable(3.0)
    tape = tf.GradientTape(persistent=True)
    with pytest.raises(ZeroDivisionError), tape:
        y = x * x
        raise ZeroDivisionError
    z = x * x * x
    assert tape.gradient(y, x).numpy() == 6.0
    assert tape.gradient(z, x) is None


def test_ops_after_the_block_are_not_recorded() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        x * 1.0
    assert tape.gradient(x * x, x) is None


# ---------------------------------------------------------------- where gradient() may be called


def test_gradient_inside_the_block_works_and_ends_the_recording() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = x * x
        assert tape.gradient(y, x).numpy() == 6.0
        z = x * x
        with pytest.raises(RuntimeError, match=USED):
            tape.gradient(z, x)


def test_gradient_inside_a_persistent_block_is_recorded() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        y = x * x * x
        dy = tape.gradient(y, x)
    assert dy.numpy() == 27.0
    assert tape.gradient(dy, x).numpy() == 18.0


def test_gradient_inside_a_persistent_block_warns_of_its_cost_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gtape.tapes import tape as module

    monkeypatch.setattr(module._cost_warning, "given", False)
    x = tf.Variable(3.0)
    with caplog.at_level(logging.WARNING, "gtape"), tf.GradientTape(persistent=True) as tape:
        tape.gradient(x * x, x)
        tape.gradient(x * x, x)
    assert len(caplog.records) == 1
    assert "persistent" in caplog.text


def test_gradient_outside_a_persistent_block_is_not_recorded() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        y = x * x
    dy = tape.gradient(y, x)
    assert tape.gradient(dy, x) is None


@pytest.mark.parametrize("method", ["gradient", "jacobian", "batch_jacobian"])
def test_second_use_of_a_tape_is_an_error(method: str) -> None:
    x = tf.Variable([[3.0]])
    with tf.GradientTape() as tape:
        y = x * x
    tape.gradient(y, x)
    with pytest.raises(RuntimeError, match=USED):
        getattr(tape, method)(y, x)


def test_gradient_of_a_tape_never_entered_is_the_same_error() -> None:
    x = tf.Variable(3.0)
    with pytest.raises(RuntimeError, match=USED):
        tf.GradientTape().gradient(x, x)


def test_used_up_tape_names_what_it_refuses_and_works_again() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = x * x
    tape.gradient(y, x)
    with pytest.raises(RuntimeError, match=USED):
        tape.gradient(y, x)
    with tape:
        y = x * x
    assert tape.gradient(y, x).numpy() == 6.0


# ---------------------------------------------------------------- watch before and after


def test_watch_before_entering_is_an_error() -> None:
    # Section 13: TensorFlow raises an AttributeError without a hint.
    with pytest.raises((AttributeError, RuntimeError), match="with"):
        tf.GradientTape().watch(tf.constant(1.0))


def test_watch_after_the_block_is_accepted() -> None:
    x = tf.constant(3.0)
    tape = tf.GradientTape()
    with tape:
        pass
    tape.watch(x)
    with tape:
        y = x * x
    assert tape.gradient(y, x).numpy() == 6.0


# ---------------------------------------------------------------- reset and stop_recording


def test_reset_drops_records_watches_and_watched_variables_and_goes_on() -> None:
    x, v = tf.constant(3.0), tf.Variable(2.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        before = x * v
        tape.reset()
        assert tape.watched_variables() == ()
        after = before * v + x * x
    assert tape.gradient(before, v) is None
    assert tape.gradient(after, x) is None
    assert tape.gradient(after, v).numpy() == 6.0  # `before` acts as a constant
    assert tape.gradient(after, v).numpy() == 6.0  # still persistent


def test_reset_keeps_watch_accessed_variables() -> None:
    v = tf.Variable(2.0)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.reset()
        y = v * v
    assert tape.gradient(y, v) is None


@pytest.mark.parametrize("entered", [False, True])
def test_reset_of_a_tape_that_is_not_recording_is_an_error(entered: bool) -> None:
    tape = tf.GradientTape()
    if entered:
        with tape:
            pass
    with pytest.raises(ValueError, match=NOT_RECORDING):
        tape.reset()


def test_stop_recording_yields_none_and_pauses_this_tape_only() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as other, tf.GradientTape() as tape:
        y = x * x
        with tape.stop_recording() as nothing:
            assert nothing is None
            paused = x * x
        z = y * x
    assert tape.gradient([z, paused], x).numpy() == 27.0
    assert other.gradient(paused, x).numpy() == 6.0


def test_variables_read_while_paused_are_not_watched() -> None:
    v, w = tf.Variable(3.0), tf.Variable(4.0)
    with tf.GradientTape() as tape:
        v * 1.0
        with tape.stop_recording():
            w * 1.0
        assert [u.ref() for u in tape.watched_variables()] == [v.ref()]


def test_recording_resumes_after_an_exception_in_a_pause() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        with contextlib.suppress(ZeroDivisionError), tape.stop_recording():
            raise ZeroDivisionError
        y = x * x
    assert tape.gradient(y, x).numpy() == 6.0


def test_stop_recording_of_a_tape_never_entered_is_an_error() -> None:
    match = r"^Trying to stop recording a tape which is not recording\.$"
    with pytest.raises(RuntimeError, match=match), tf.GradientTape().stop_recording():
        pass


def test_stop_recording_after_the_block_or_nested_in_itself_is_an_error() -> None:
    tape = tf.GradientTape()
    with tape, tape.stop_recording(), pytest.raises(ValueError, match=NOT_RECORDING), tape.stop_recording():
        pass
    with pytest.raises(ValueError, match=NOT_RECORDING), tape.stop_recording():
        pass


def test_gradient_while_paused_is_not_recorded() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        y = x * x
        with tape.stop_recording():
            dy = tape.gradient(y, x)
        z = x * x * x
    assert dy.numpy() == 6.0
    assert tape.gradient(dy, x) is None
    assert tape.gradient(z, x).numpy() == 27.0


def test_gradient_while_paused_uses_the_record_up_and_a_fresh_one_starts() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = x * x
        with tape.stop_recording():
            assert tape.gradient(y, x).numpy() == 6.0
        z = y + x * x * x
    assert tape.gradient(z, x).numpy() == 27.0


# ---------------------------------------------------------------- watched_variables


def test_watched_variables_come_in_order_of_construction() -> None:
    a, b, c = tf.Variable(1.0), tf.Variable(2.0), tf.Variable(3.0, trainable=False)
    tape = tf.GradientTape()
    assert tape.watched_variables() == ()
    with tape:
        tape.watch(c)
        tape.watch(tf.constant(1.0))
        y = b * a * c
    tape.gradient(y, a)
    watched = tape.watched_variables()
    assert isinstance(watched, tuple)
    assert [v.ref() for v in watched] == [a.ref(), b.ref(), c.ref()]


# ---------------------------------------------------------------- watch


def test_watch_takes_structures() -> None:
    x, y, v = tf.constant(1.0), tf.constant(2.0), tf.Variable(3.0, trainable=False)
    with tf.GradientTape() as tape:
        tape.watch({"a": [x, (y,)], "b": v})
        z = x * y * v
    assert [g.numpy() for g in tape.gradient(z, [x, y, v])] == [6.0, 3.0, 2.0]


@pytest.mark.parametrize("shape", [None, tf.constant([2, 1])], ids=["without dense shape", "with dense shape"])
def test_watch_takes_indexed_slices(shape: Any) -> None:
    slices = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([0, 1]), shape)
    with tf.GradientTape() as tape:
        tape.watch(slices)
        y = slices.values * 3.0
    assert tape.gradient(y, slices.values).numpy().tolist() == [[3.0], [3.0]]


@pytest.mark.parametrize("thing", [1.0, "x", None, np.ones(2), [tf.constant(1.0), 2.0]], ids=str)
def test_watch_of_anything_else_is_an_error(thing: Any) -> None:
    with tf.GradientTape() as tape:
        with pytest.raises(
            ValueError,
            match=r"^Passed in object .* of type '\w+', not gtape\.Tensor or gtape\.Variable or ExtensionType\.$",
        ):
            tape.watch(thing)
        x = tf.Variable(3.0)
        y = x * x
    assert tape.gradient(y, x).numpy() == 6.0


@pytest.mark.parametrize("value", [1, True, "text"], ids=str)
def test_watch_of_what_is_not_floating_only_logs(
    value: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gtape.tapes import tape as module

    monkeypatch.setattr(module._dtype_warning, "count", 0)
    x = tf.constant(value)
    with caplog.at_level(logging.WARNING, "gtape"), tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.identity(x)
    assert (
        f"The dtype of the watched tensor must be floating (e.g. gtape.float32), got gtape.{x.dtype.name}"
        in caplog.text
    )
    assert tape.gradient(y, x) is None


def test_only_the_first_five_such_watches_are_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gtape.tapes import tape as module

    monkeypatch.setattr(module._dtype_warning, "count", 0)
    with caplog.at_level(logging.WARNING, "gtape"), tf.GradientTape() as tape:
        for i in range(8):
            tape.watch(tf.constant(i))
    assert len(caplog.records) == 5


def test_watch_counts_from_the_call_on() -> None:
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        before = x * x
        tape.watch(x)
        tape.watch(x)
        after = before * x
    assert tape.gradient(after, x).numpy() == 9.0


def test_watching_is_by_identity() -> None:
    x = tf.constant(3.0)
    twin = tf.constant(3.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        tape.watch(twin)
        same = tf.identity(x)
        y = same * same
        z = x * twin
    assert tape.gradient(y, x).numpy() == 6.0
    assert tape.gradient(y, same).numpy() == 6.0
    assert tape.gradient(y, twin) is None
    assert [g.numpy() for g in tape.gradient(z, [x, twin])] == [3.0, 3.0]


# ---------------------------------------------------------------- automatic watching

READS = {
    "operator": lambda v: v * 1.0,
    "read_value": lambda v: v.read_value(),
    "value": lambda v: v.value(),
    "convert_to_tensor": tf.convert_to_tensor,
    "numpy": lambda v: v.numpy(),
    "float": float,
    "bool": bool,
    "comparison": lambda v: v > 0.0,
    "repr": repr,
    "assign": lambda v: v.assign(2.0),
    "assign_add": lambda v: v.assign_add(1.0),
    "assign_sub": lambda v: v.assign_sub(1.0),
}


@pytest.mark.parametrize("read", READS)
def test_reading_a_trainable_variable_watches_it(read: str) -> None:
    v = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        READS[read](v)
    assert [w.ref() for w in tape.watched_variables()] == [v.ref()]


def test_shape_and_dtype_are_no_reads() -> None:
    v = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        assert v.shape == () and v.dtype == tf.float32
    assert tape.watched_variables() == ()


def test_variables_made_inside_the_block_count() -> None:
    with tf.GradientTape() as tape:
        v = tf.Variable(3.0)
        y = v * v
    assert tape.gradient(y, v).numpy() == 6.0


@pytest.mark.parametrize(
    "start", [lambda v: v, lambda v: lambda: v * 2.0, lambda v: [v, v], lambda v: lambda: [v, 1.0]]
)
def test_what_a_new_variable_starts_from_is_no_read(start: Any) -> None:
    v = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        w = tf.Variable(start(v))
        assert tape.watched_variables() == ()
        y = w * w
    assert [u.ref() for u in tape.watched_variables()] == [w.ref()]
    assert tape.gradient(y, v) is None


def test_integer_variable_is_listed_but_has_no_gradient() -> None:
    v = tf.Variable(3)
    with tf.GradientTape() as tape:
        y = tf.cast(v * v, tf.float32)
    assert [w.ref() for w in tape.watched_variables()] == [v.ref()]
    assert tape.gradient(y, v) is None


def test_variable_that_is_not_trainable_is_never_watched_by_itself() -> None:
    v = tf.Variable(3.0, trainable=False)
    with tf.GradientTape() as tape:
        y = v * v
    assert tape.watched_variables() == ()
    assert tape.gradient(y, v) is None


def test_reads_before_the_block_do_not_connect() -> None:
    v = tf.Variable(3.0)
    x = v.read_value()
    with tf.GradientTape() as tape:
        y = x * v
    assert tape.gradient(y, v).numpy() == 3.0


@pytest.mark.parametrize("read", [tf.convert_to_tensor, tf.identity, lambda v: v.read_value()])
def test_each_read_is_a_source_of_its_own(read: Any) -> None:
    v = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        first = read(v)
        v.assign(5.0)
        second = read(v)
        y = first * second * second
    assert [float(g) for g in tape.gradient(y, [first, second, v])] == [25.0, 20.0, 45.0]


@pytest.mark.parametrize("read", [tf.convert_to_tensor, tf.identity, lambda v: v.read_value()])
def test_what_an_outer_tape_read_before_is_no_read_of_an_inner_one(read: Any) -> None:
    v = tf.Variable(2.0)
    with tf.GradientTape() as outer:
        before = read(v)
        with tf.GradientTape() as inner:
            y = before * v
        assert float(inner.gradient(y, v)) == 2.0
    assert float(outer.gradient(y, v)) == 4.0


def test_reads_in_another_thread_do_not_watch() -> None:
    v = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        in_thread(lambda: v * v)
    assert tape.watched_variables() == ()
