"""Section 1 of the contract, in its smaller print."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import gtape as tf

NOT_RECORDING = r"^Tape is not recording\.$"
USED = r"^A non-persistent GradientTape can only be used to compute one set of gradients \(or jacobians\)$"


# ---------------------------------------------------------------- smaller print


def test_unknown_option_of_the_constructor_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        tf.GradientTape(recording=True)  # type: ignore[call-arg]


def test_leaving_a_tape_never_entered_is_harmless() -> None:
    assert tf.GradientTape().__exit__(None, None, None) is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize("persistent", [False, True])
def test_gradient_never_entered_is_the_used_tape_error_for_any_tape(persistent: bool) -> None:
    x = tf.Variable(1.0)
    with pytest.raises(RuntimeError, match=USED):
        tf.GradientTape(persistent=persistent).gradient(x, x)


@pytest.mark.parametrize("method", ["jacobian", "batch_jacobian"])
def test_jacobians_never_entered_are_the_used_tape_error(method: str) -> None:
    x = tf.Variable([[1.0]])
    with pytest.raises(RuntimeError, match=USED):
        getattr(tf.GradientTape(), method)(x, x)


def test_stop_recording_of_a_used_tape_says_that_it_is_not_recording() -> None:
    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = x * x
    tape.gradient(y, x)
    with (
        pytest.raises(RuntimeError, match=r"^Trying to stop recording a tape which is not recording\.$"),
        tape.stop_recording(),
    ):
        pass


def test_reset_of_a_used_tape_is_an_error() -> None:
    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = x * x
    tape.gradient(y, x)
    with pytest.raises(ValueError, match=NOT_RECORDING):
        tape.reset()


def test_watch_of_a_used_tape_is_an_attribute_error() -> None:
    x = tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    tape.gradient(y, x)
    with pytest.raises(AttributeError):
        tape.watch(x)


def test_watch_returns_nothing_and_takes_empty_structures() -> None:
    with tf.GradientTape() as tape:
        for structure in ([], {}, (), tf.constant(1.0)):
            assert tape.watch(structure) is None  # type: ignore[func-returns-value]


def test_every_leaf_of_a_watched_structure_is_a_source() -> None:
    x, w, v = tf.constant(2.0), tf.constant(3.0), tf.Variable(5.0, trainable=False)
    structure = {"a": x, "b": [w, (v,)]}
    with tf.GradientTape() as tape:
        tape.watch(structure)
        y = x * w * v
    made = tape.gradient(y, structure)
    assert (made["a"].numpy(), made["b"][0].numpy(), made["b"][1][0].numpy()) == (15.0, 10.0, 6.0)


@pytest.mark.parametrize(
    ("thing", "kind"), [(1.0, "float"), ("a", "str"), (None, "NoneType"), (np.ones(2), "ndarray"), (object(), "object")]
)
def test_the_error_of_watch_names_object_and_type(thing: Any, kind: str) -> None:
    with tf.GradientTape() as tape:
        for given in (thing, [tf.constant(1.0), thing]):
            with pytest.raises(ValueError, match=f"of type '{kind}', not gtape.Tensor or gtape.Variable"):
                tape.watch(given)


def test_the_log_line_of_watch_names_the_dtype(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gtape.tapes import tape as module

    monkeypatch.setattr(module._dtype_warning, "count", 0)
    with caplog.at_level(logging.WARNING, "gtape"), tf.GradientTape() as tape:
        tape.watch(tf.constant(1))
    assert caplog.messages == ["The dtype of the watched tensor must be floating (e.g. gtape.float32), got gtape.int32"]


def test_complex_tensors_are_watched_without_a_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "gtape"), tf.GradientTape() as tape:
        tape.watch(tf.constant(1 + 2j))
    assert not caplog.messages


@pytest.mark.parametrize("error", [ValueError, TypeError])
def test_a_refused_call_of_gradient_uses_nothing_up(error: type[Exception]) -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = x * x
    with pytest.raises(error):
        if error is ValueError:
            tape.gradient(y, x, unconnected_gradients="nonsense")
        else:
            tape.gradient(None, x)
    assert tape.gradient(y, x).numpy() == 6.0


def test_a_tape_that_reset_stays_persistent_and_forgets_old_values() -> None:
    x = tf.constant(3.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        tape.reset()
        tape.watch(x)
        z = y * x
    assert tape.gradient(z, x).numpy() == tape.gradient(z, x).numpy() == 9.0
    assert tape.gradient(y, x) is None


def test_a_value_made_in_a_pause_is_a_constant() -> None:
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with tape.stop_recording() as nothing:
            y = x * x
        z = y * x
    assert nothing is None
    assert tape.gradient(z, x).numpy() == 9.0


def test_watching_a_result_makes_it_a_source_of_what_follows() -> None:
    x = tf.constant(3.0)
    with tf.GradientTape(persistent=True) as tape:
        y = x * x
        tape.watch(y)
        z = y * x
    assert tape.gradient(z, y).numpy() == 3.0
    assert tape.gradient(z, x) is None


def test_watching_a_recorded_result_keeps_its_past() -> None:
    x = tf.constant(3.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        tape.watch(y)
        z = y * x
    assert [g.numpy() for g in tape.gradient(z, [y, x])] == [3.0, 27.0]


MORE_READS: dict[str, Any] = {
    "int": int,
    "complex": complex,
    "asarray": np.asarray,
    "format": lambda v: f"{v:.1f}",
    "str": str,
    "assign_add": lambda v: v.assign_add(1.0),
    "assign_sub": lambda v: v.assign_sub(1.0),
    "greater": lambda v: v > 1.0,
    "equal": lambda v: v == 1.0,
    "identity": tf.identity,
    "stack": lambda v: tf.stack([v, 1.0]),
    "deepcopy": lambda v: __import__("copy").deepcopy(v),
}


@pytest.mark.parametrize("name", MORE_READS)
def test_these_count_as_reads(name: str) -> None:
    v = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        MORE_READS[name](v)
    assert len(tape.watched_variables()) == 1


@pytest.mark.parametrize("name", ["shape", "dtype", "name", "trainable", "device", "ndim"])
def test_these_do_not(name: str) -> None:
    v = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        getattr(v, name)
    assert tape.watched_variables() == ()
