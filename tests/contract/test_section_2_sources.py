"""Section 2: what may be a source between the watched tensors and the target."""

from __future__ import annotations

from typing import Any

import pytest

import gtape as tf

STEPS: list[tuple[str, Any, list[float] | None]] = [
    ("floor", tf.floor, [4.0, 12.0]),
    ("round", tf.round, [8.0, 12.0]),
    ("floordiv", lambda x: x // 1.0, [4.0, 12.0]),
    ("ones_like", tf.ones_like, [4.0, 6.0]),
    ("sign", tf.sign, [4.0, 6.0]),
    ("stop_gradient", tf.stop_gradient, None),
    ("cast", lambda x: tf.cast(tf.cast(x, tf.int32), tf.float32), None),
]


@pytest.mark.parametrize(("step", "expected"), [s[1:] for s in STEPS], ids=[s[0] for s in STEPS])
@pytest.mark.parametrize("verify", [False, True], ids=["usual", "verify"])
def test_the_result_of_an_op_without_a_derivative_may_be_a_source(step: Any, expected: Any, verify: bool) -> None:
    x, w = tf.constant([1.5, 2.5]), tf.constant([2.0, 3.0])
    with tf.GradientTape(persistent=True, verify=verify) as tape:
        tape.watch([x, w])
        r = step(x)
        y = r * r * w
    found = tape.gradient(y, r)
    assert expected == (None if found is None else found.numpy().tolist())
    assert step is tf.sign or tape.gradient(y, x) is None


def test_explain_reads_records_without_verify() -> None:
    x = tf.constant([1.5, 0.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, z = tf.sign(x), tf.math.log(x) * x
    assert "sign" in tape.explain(y, x)
    assert tape.explain(z, x)


def test_each_gradient_is_a_source_of_its_own_though_their_values_are_equal() -> None:
    x, y = tf.constant(2.0), tf.constant(3.0)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            inner.watch(x)
            z = x + y
        g = inner.gradient(z, x)  # 1, as what the next sweep starts from
        outer.watch(g)
        with tf.GradientTape() as inner:
            inner.watch(x)
            z = x * x
        h = inner.gradient(z, x)
        q = g * 3.0 + h
    assert h is not g and outer.gradient(q, g).numpy() == 3.0
