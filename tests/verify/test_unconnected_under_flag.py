"""The flag changes no answer: where there is no gradient, there is none under the flag, whatever the values are."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.errors import VerificationError
from gtape.verify.verdicts.collect import collecting

NAN, INF = np.float32("nan"), np.float32("inf")

# No tape follows these back to x: their values may be anything.
IDLE = {
    "a constant NaN": lambda x, c: tf.constant([[NAN, 1.0], [1.0, 1.0]]),
    "a constant infinity": lambda x, c: c * INF,
    "log of a negative constant": lambda x, c: tf.math.log(-c),
    "stop_gradient of an infinity": lambda x, c: tf.stop_gradient(x / 0.0),
    "floor of a NaN": lambda x, c: tf.floor(x * NAN),
    "rint of an infinity": lambda x, c: tf.math.rint(x / 0.0),
    "a choice between constants": lambda x, c: tf.where(x > 0, c * NAN, c),
    "zeros_like an infinity": lambda x, c: tf.zeros_like(x / 0.0),
    "a constant in bfloat16": lambda x, c: tf.cast(c, tf.bfloat16),
    "a complex constant": lambda x, c: tf.complex(c / 0.0, c),
}


def _shown(g: Any) -> Any:
    if isinstance(g, (list, tuple)):
        return [_shown(v) for v in g]
    return None if g is None else (g.dtype, np.asarray(g.numpy()).tolist())


def _ask(kind: str, target: Any, verify: Any, unconnected: str) -> Any:
    x, c = tf.Variable([[1.5, 2.0], [3.0, -4.0]]), tf.constant([[1.0, 2.0], [3.0, 4.0]])
    if kind == "forward":
        with tf.verifying() if verify else tf.GradientTape(), tf.autodiff.ForwardAccumulator(x, tf.ones([2, 2])) as acc:
            y = target(x, c)
        return _shown(acc.jvp(y, unconnected_gradients=unconnected))
    if kind == "gradients":
        with tf.verifying() if verify else tf.GradientTape(), tf.GradientTape(persistent=True) as tape:
            y = target(x, c)
        return _shown(tape.gradient({"y": y}, [x, c], unconnected_gradients=unconnected))
    with tf.GradientTape(verify=verify) as tape:
        y = target(x, c)
    if kind == "gradient":
        return _shown(tape.gradient(y, [x], unconnected_gradients=unconnected))
    if kind == "jacobian":
        return _shown(tape.jacobian(y, [x], unconnected_gradients=unconnected))
    return _shown(tape.batch_jacobian(y, x, unconnected_gradients=unconnected))


@pytest.mark.parametrize("unconnected", ["none", "zero"])
@pytest.mark.parametrize("kind", ["gradient", "gradients", "jacobian", "batch_jacobian", "forward"])
@pytest.mark.parametrize("name", IDLE)
def test_a_target_that_nothing_connects_gives_the_same_under_the_flag(name: str, kind: str, unconnected: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _ask(kind, IDLE[name], True, unconnected) == _ask(kind, IDLE[name], False, unconnected)
        assert _ask(kind, IDLE[name], "strict", unconnected) == _ask(kind, IDLE[name], False, unconnected)


@pytest.mark.parametrize("name", IDLE)
def test_beside_it_the_target_that_is_connected_is_checked_as_ever(name: str) -> None:
    x, c = tf.Variable([[1.5, 2.0], [3.0, -4.0]]), tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with collecting() as report, tf.GradientTape(verify="strict") as tape:
        targets = [tf.sin(x), IDLE[name](x, c)]
        g = tape.gradient(targets, x)
    np.testing.assert_allclose(g.numpy(), np.cos(x.numpy()), rtol=1e-6)
    assert report.checked == 4


def test_a_source_that_nothing_connects_has_none_beside_an_infinity() -> None:
    x, u = tf.Variable(1.5), tf.Variable(2.0)
    with tf.GradientTape(verify=True) as tape:
        y = x / 0.0
    assert tape.gradient(y, u) is None


def test_behind_stop_gradients_nothing_is_asked() -> None:
    x = tf.constant(1.5)
    with tf.GradientTape(verify=True) as tape:
        tape.watch(x)
        middle = x / 0.0
        y = tf.stop_gradient(middle) * 2.0
    assert tape.gradient(y, x) is None


@pytest.mark.parametrize("way", [lambda x: x / 0.0, lambda x: tf.math.log(-x), lambda x: x * NAN])
def test_a_connected_target_that_is_not_finite_still_raises(way: Any) -> None:
    x = tf.Variable(1.5)
    with tf.GradientTape(verify=True) as tape:
        y = way(x)
    with pytest.raises(VerificationError):
        tape.gradient(y, x)


_CUTS = {
    "op on the constant": lambda h: tf.tanh(tf.constant(h.numpy())),
    "several ops": lambda h: tf.reduce_mean(tf.exp(tf.nn.softmax(tf.convert_to_tensor(h.numpy()))[:1] - 1.0)),
    "two constants": lambda h: tf.matmul(tf.constant(h.numpy()), tf.constant(h.numpy()), transpose_b=True)[0, 0],
    "item": lambda h: tf.reduce_sum(h).numpy().item(),
    "negative item": lambda h: -tf.reduce_sum(h).numpy().item(),
}


@pytest.mark.parametrize("mode", [True, "strict"])
@pytest.mark.parametrize("cut", _CUTS.values(), ids=_CUTS)
def test_ops_on_a_value_that_left_hide_no_cut(cut: Any, mode: Any) -> None:
    w = tf.Variable([[0.31, 0.42], [0.53, 0.64]])
    with tf.GradientTape(verify=mode) as tape:
        y = tf.reduce_sum(cut(tf.sin(w)) * w)
    with pytest.raises(tf.VerificationError, match="unconnected"):
        tape.gradient(y, w)


@pytest.mark.parametrize("cut", _CUTS.values(), ids=_CUTS)
def test_a_stopped_gradient_is_no_cut(cut: Any) -> None:
    w = tf.Variable([[0.31, 0.42], [0.53, 0.64]])
    with tf.GradientTape(verify="strict") as tape:
        y = tf.reduce_sum(cut(tf.stop_gradient(tf.sin(w))) * w)
    tape.gradient(y, w)


def test_a_constant_that_holds_a_value_which_left_can_be_watched() -> None:
    w = tf.Variable([0.31, 0.42])
    with tf.GradientTape(verify=True) as outer:
        c = tf.constant(tf.sin(w).numpy())
        with tf.GradientTape() as inner:
            inner.watch(c)
            y = tf.reduce_sum(c**3)
        slope = inner.gradient(y, c)
    np.testing.assert_allclose(slope, 3 * np.sin([0.31, 0.42]) ** 2, rtol=1e-6)
    with pytest.raises(tf.VerificationError, match="unconnected"):  # the slope depends on w through the constant
        outer.gradient(slope, w)
