"""`check` compares the numbers that a plain tape returns, so that faults in its own sweeps show."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.engine import diagonal_start, sweep
from gtape.verify import check
from gtape.verify.judging import plain

POINT = np.array([0.3, 0.7, -1.2])


def smooth(x: Any) -> Any:
    return tf.reduce_sum(tf.tanh(x) * x * x + tf.sin(x))


def replace_everywhere(monkeypatch: pytest.MonkeyPatch, name: str, right: Any, wrong: Any) -> None:
    """Replace a function in each module of gtape that holds it."""
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("gtape") and module.__dict__.get(name) is right:
            monkeypatch.setattr(module, name, wrong)


def test_a_fault_in_the_short_sweep_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = sweep.short_sweep

    def wrong(*args: Any, **params: Any) -> list[Any]:
        return [None if g is None else g * (1 + 1e-9) for g in right(*args, **params)]

    replace_everywhere(monkeypatch, "short_sweep", right, wrong)
    report = check(smooth, POINT)
    assert report.verdict == "rule"
    assert "a plain tape returns this number" in report.findings[0].reason


def test_a_sum_that_the_short_sweep_forgets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = sweep.short_sweep

    def wrong(seeds: Any, sources: Any, **params: Any) -> list[Any]:
        found = right(seeds, sources, **params)
        return [None if g is None else np.where(np.arange(3) == 1, 0.0, g) for g in found]

    replace_everywhere(monkeypatch, "short_sweep", right, wrong)
    assert not check(smooth, POINT).ok


def test_a_fault_in_the_diagonal_start_of_a_jacobian_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def many(x: Any) -> Any:
        return tf.tanh(x) * x

    assert check(many, POINT).ok
    right = diagonal_start.dense

    def wrong(d: Any) -> Any:
        return right(d * (1 + 1e-9))

    replace_everywhere(monkeypatch, "dense", right, wrong)
    report = check(many, POINT)
    assert report.verdict == "rule"
    assert "a plain tape returns this number" in report.findings[0].reason


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "ok"), [(1 + 1e-9, False), (1 + 2.0**-52, True)])
def test_other_numbers_of_a_plain_tape_are_found_outside_of_a_domain(
    factor: float, ok: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Functions of -inf have no derivative by the chain rule. Roundings of one-sided limits are no fault."""

    def masked(x: Any) -> Any:
        y = tf.where(x >= 0.0, tf.sin(x), -np.inf)
        z = tf.nn.softmax(tf.exp(y))
        return tf.reduce_sum(tf.exp(tf.where(z >= 0.35, z, -np.inf)))

    assert check(masked, POINT).ok
    right = plain._gradient
    monkeypatch.setattr(plain, "_gradient", lambda *a: [None if g is None else g * factor for g in right(*a) or ()])
    assert check(masked, POINT).ok is ok


def test_the_function_itself_runs_once_and_once_more_at_a_moved_point() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(1)
        return smooth(x)

    assert check(f, POINT, order=2).ok
    assert len(calls) == 2


def test_a_fault_in_the_short_sweep_is_found_under_the_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    right = sweep.short_sweep

    def wrong(*args: Any, **params: Any) -> list[Any]:
        return [None if g is None else g * (1 + 1e-9) for g in right(*args, **params)]

    replace_everywhere(monkeypatch, "short_sweep", right, wrong)
    x = tf.constant(POINT)
    with tf.GradientTape(verify=True) as tape:
        tape.watch(x)
        y = smooth(x)
    with pytest.raises(tf.errors.VerificationError, match="a plain tape returns this number"):
        tape.gradient(y, x)


@pytest.mark.parametrize("shape", [(), (3,)])
def test_complex_output_gradients_are_those_of_the_tape(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(7)
    a, b, re, im = (rng.normal(size=shape) for _ in range(4))
    x, y = tf.constant(a), tf.constant(b)
    with tf.GradientTape(verify=True) as tape:
        tape.watch([x, y])
        z = tf.complex(x, y)
        w = tf.exp(z) * z
    first, second = tape.gradient(w, [x, y], output_gradients=tf.constant(re + 1j * im))
    slope = np.conj(np.exp(a + 1j * b) * (1 + a + 1j * b)) * (re + 1j * im)
    np.testing.assert_allclose(first, slope.real, rtol=1e-14)
    np.testing.assert_allclose(second, slope.imag, rtol=1e-14)


@pytest.mark.parametrize("mode", ["gradient", "jacobian"])
def test_complex_sources_and_outputs_pass(mode: str) -> None:
    x = tf.constant([0.3 + 0.2j, -0.7 + 1.1j])
    with tf.GradientTape(verify=True) as tape:
        tape.watch(x)
        z = tf.tanh(x) * tf.math.conj(x) * tf.constant(1.5 - 0.5j)
    assert getattr(tape, mode)(z, x).dtype == tf.complex128


def test_two_roundings_on_either_side_of_half_the_digits_are_a_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        return (1.0 - tf.cos(x)) / (x * x)

    x = 0.0194
    assert check(f, x).ok
    right = sweep.short_sweep

    def otherwise(*args: Any, **params: Any) -> list[Any]:
        return [None if g is None else g * (1 + 4e-8) for g in right(*args, **params)]

    replace_everywhere(monkeypatch, "short_sweep", right, otherwise)
    report = check(f, x)
    assert (report.ok, report.verdict) == (False, "cancellation")


def test_a_plain_tape_adds_cotangents_in_the_order_of_the_users_code() -> None:
    def f(x: Any) -> Any:
        e = tf.exp(x)
        first, second, third = e * 0.7, tf.sin(e), e * e
        return tf.reduce_sum(tf.stack([third, tf.sqrt(second + 2.0), first]))

    def in_another_order(x: Any) -> Any:
        e = tf.exp(x)
        third, second, first = e * e, tf.sin(e), e * 0.7
        return tf.reduce_sum(tf.stack([third, tf.sqrt(second + 2.0), first]))

    def gradient(f: Any, x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x).numpy()

    rng = np.random.default_rng(0)
    differs = 0
    for _ in range(20):
        x = tf.constant(rng.normal(size=9).astype(np.float32))
        (again,) = plain.Plain(tf.symbolic.trace(f, x)).row([np.float32(1.0)]) or [None]
        np.testing.assert_array_equal(again, gradient(f, x))
        differs += (gradient(f, x) != gradient(in_another_order, x)).any()
    assert differs  # otherwise the order would not show in the digits
