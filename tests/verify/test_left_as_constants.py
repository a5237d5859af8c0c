"""A value that comes back is found however small its effect is, and a step function of a value is no such value."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check, exact, judge

F = Callable[..., Any]

SMALL: dict[str, tuple[F, tuple[Any, ...]]] = {
    "a small element": (lambda x: x[1] ** 2 + math.sin(float(x[0])) * x[1], ([1e-12, 1.0],)),
    "a small element by NumPy": (lambda x: x[1] ** 2 + x.numpy()[0] * x[1], ([1e-12, 1.0],)),
    "a small share": (lambda x, y: 1e6 * tf.exp(x) + 1e-6 * y * math.exp(float(y)), (0.0, 1.0)),
    "a tiny share": (lambda x: tf.reduce_sum(x) + 1e-30 * float(x[0]) * x[1], ([1.0, 2.0],)),
    "a small share in float32": (
        lambda x, y: 1000.0 * tf.exp(x) + 0.01 * y * math.exp(float(y)),
        (np.float32(0.0), np.float32(1.0)),
    ),
    "a small argument in natural units": (lambda x: tf.math.log(x) * math.log(float(x)), (1e-12,)),
    "a small number in a parameter": (lambda x: tf.nn.leaky_relu(x[1], alpha=float(x[0])), ([1e-12, -1.0],)),
    "a step and a small slope": (lambda x: x * (round(float(x), 8) + 1e-3 * float(x)), (0.7303,)),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_value_that_comes_back_is_found_however_small_its_effect_is(name: str) -> None:
    f, x = SMALL[name]
    assert check(f, *x).verdict == "unconnected"
    with pytest.raises(ArithmeticError, match="leaves the tape"):
        exact(f, *x)


def test_a_small_element_that_a_variable_takes_is_found() -> None:
    def f(x: Any) -> Any:
        v = tf.Variable(0.0, dtype=x.dtype)
        v.assign(math.sin(float(x[0])))
        return x[1] ** 2 + v * x[1]

    assert check(f, [1e-12, 1.0]).verdict == "unconnected"


def test_no_claim_passes_where_a_small_element_left() -> None:
    f, x = SMALL["a small element"]
    for claim in ([0.0, 2.0 + 1e-12], [1.0, 2.0 + 1e-12]):
        assert not judge(f, tuple(map(np.array, x)), np.array(claim)).ok


def test_a_temperature_that_left_is_found_in_float32() -> None:
    rng = np.random.default_rng(0)
    logits, labels = 3 * rng.normal(size=(8, 10)).astype("f"), rng.integers(0, 10, 8)

    def loss(w: Any, t: Any) -> Any:
        scaled = (logits + w) * math.exp(float(t))
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scaled))

    arguments = np.zeros(10, "f"), np.float32(1e-4)
    assert check(loss, *arguments).verdict == "unconnected"
    with pytest.raises(ArithmeticError, match="leaves the tape"):
        exact(loss, *arguments)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_large_constant_hides_no_second_derivative(dtype: str) -> None:
    f = lambda x: tf.reduce_sum((x - np.mean(x.numpy())) ** 2) + 1000.0
    x = np.array([1.0, 2.0, 4.0], dtype)
    assert check(f, x).ok and check(f, x, order=2).verdict == "unconnected"


@pytest.mark.parametrize("value", [1.0, 1e-12])
def test_a_body_that_leaves_by_a_small_element_is_undecided(value: float) -> None:
    @tf.custom_gradient
    def f(x: Any) -> Any:
        y = x[1] * x[1] + tf.constant(np.sin(x.numpy()[0]))
        return y, lambda g: g * 2.0 * x * np.array([0.0, 1.0])

    x = tf.Variable([value, 1.0], dtype=tf.float64)
    with tf.GradientTape(verify="strict") as tape:
        y = f(x)
    with pytest.raises(tf.VerificationError, match="leaves the tape in part"):
        tape.gradient(y, x)


def test_an_effect_below_the_rounding_of_the_constant_is_undecided() -> None:
    report = check(lambda x: x * (5.0 + 1e-12 * float(x)), 1.0)
    assert report.verdict == "undecided" and "nothing shows if it comes back" in str(report)


def _uniform(seed: int, dtype: str) -> Any:
    return np.random.default_rng(seed).uniform(-1, 1, size=16).astype(dtype)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("bits", [7, 10, 12])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_quantised_factor_is_a_constant(dtype: str, bits: int, seed: int) -> None:
    def f(x: Any) -> Any:
        return tf.reduce_sum(x * (np.round(x.numpy() * 2**bits) / 2**bits).astype(dtype))

    assert check(f, _uniform(seed, dtype)).verdict == "correct"


def _interpolated(x: Any) -> Any:
    table = np.sin(np.linspace(0, 6, 101)).astype("f")
    i = np.floor(x.numpy() * 16).astype(int)
    return tf.reduce_sum(table[i] + (x * 16 - i.astype("f")) * (table[i + 1] - table[i]))


STEPS: dict[str, tuple[F, Any]] = {
    "a rounded float32": (lambda x: x * round(float(x), 3), np.float32(0.7303)),
    "a rounded float64": (lambda x: x * round(float(x), 8), 0.7303),
    "a count": (lambda x: tf.reduce_sum(x**2) / math.ceil(float(tf.norm(x)) * 100), _uniform(1, "f")),
    "a number of rounds": (lambda x: sum([x] * math.ceil(100 * float(x)), x), np.float32(0.7303)),
    "a table": (_interpolated, 1.0 + np.abs(_uniform(2, "f"))),
    "a mask": (lambda x: tf.reduce_sum(x * x * (x.numpy() > 0)), _uniform(3, "f")),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_function_of_a_value_is_a_constant(name: str) -> None:
    f, x = STEPS[name]
    assert check(f, x).verdict == "correct"


WEIGHTS = np.array([1.1234567891234, 1.7192837465, 0.4918273645])

NARROWED: dict[str, F] = {
    "cast back": lambda x: tf.reduce_sum(x * tf.cast(x, tf.float32).numpy().astype(np.float64)),
    "a layer": lambda x: tf.reduce_sum(x * tf.tanh(tf.cast(x, tf.float32)).numpy().astype(np.float64)),
    "a layer in NumPy": lambda x: tf.reduce_sum(x * np.tanh(np.eye(3, dtype="f") @ x.numpy().astype("f"))),
    "a sum": lambda x: tf.reduce_sum(x) * float(np.float32(x.numpy().sum())),
    "a mean": lambda x: tf.reduce_sum((x - x.numpy().mean(dtype=np.float32)) ** 3),
    "half precision": lambda x: tf.reduce_sum(x * tf.cast(x, tf.float16).numpy().astype(np.float64)),
}


@pytest.mark.parametrize("name", NARROWED)
def test_a_value_that_left_through_a_narrower_format_is_found(name: str) -> None:
    assert check(NARROWED[name], WEIGHTS).verdict == "unconnected"


@pytest.mark.parametrize("scale", [0.3, 1.0, 20.0])
@pytest.mark.parametrize("f", [np.sqrt, np.sum, lambda x: x], ids=["sqrt", "sum", "itself"])
def test_a_value_that_left_through_float16_is_found_in_float32(f: Any, scale: float) -> None:
    half = lambda x: tf.reduce_sum(x * f(x.numpy().astype(np.float16)).astype(np.float32))
    assert check(half, (scale * WEIGHTS).astype("f")).verdict == "unconnected"


def test_a_value_that_left_through_too_narrow_a_format_for_its_slope_is_undecided() -> None:
    f = lambda x: tf.reduce_sum(x * tf.cast(tf.cast(x, tf.bfloat16), tf.float64).numpy())
    assert check(f, WEIGHTS).verdict == "undecided"


def test_a_mean_in_float32_changes_only_the_second_derivative_of_a_variance() -> None:
    f = lambda x: tf.reduce_sum((x - x.numpy().mean(dtype=np.float32)) ** 2)
    assert check(f, WEIGHTS).verdict == "correct"
    assert check(f, WEIGHTS, order=2).verdict == "unconnected"


GRIDS: dict[str, Callable[[Any], Any]] = {
    "decimals": lambda x: np.round(x, 4),
    "decimals in float32": lambda x: np.round(x.astype("f"), 4),
    "decimals in float16": lambda x: np.round(x, 2).astype(np.float16),
    "an eighth bit": lambda x: np.floor(x * 2**7) / 2**7,
    "an eleventh bit": lambda x: np.floor(x * 2**10) / 2**10,
    "whole numbers": lambda x: np.floor(x * 1000),
    "a table in float32": lambda x: np.sin(np.arange(100, dtype="f"))[(x * 10).astype(int)],
}


@pytest.mark.parametrize("decimals", [5, 6, 8])
def test_short_decimals_are_a_constant_in_float64(decimals: int) -> None:
    assert check(lambda x: tf.reduce_sum(x * np.round(x.numpy(), decimals)), WEIGHTS).verdict == "correct"


def _remembered(x: Any) -> Any:
    kept: dict[float, float] = {}
    key = round(float(x), 12)
    return x * kept.setdefault(key, key**3)


SERIALISED: dict[str, F] = {
    "text": lambda x: x * float(str(float(x))),
    "17 digits": lambda x: x * float(f"{float(x):.17g}"),
    "15 digits": lambda x: x * float(f"{float(x):.15g}"),
    "13 digits": lambda x: x * float(f"{float(x):.13g}"),
    "a key": _remembered,
    "a function of a key": lambda x: x * math.sin(round(float(x), 13)),
}


@pytest.mark.parametrize("point", [0.7, 1.3, 0.123456789, 41.7])
@pytest.mark.parametrize("name", SERIALISED)
def test_a_value_that_left_as_text_or_as_a_rounded_key_is_found(name: str, point: float) -> None:
    assert check(SERIALISED[name], point).verdict == "unconnected"


@pytest.mark.parametrize("point", [0.7, 1.3, 0.123456789, 41.7])
@pytest.mark.parametrize("decimals", [0, 2, 4, 7])
def test_a_schedule_of_few_decimals_is_a_constant(decimals: int, point: float) -> None:
    assert check(lambda x: x * (1 + round(float(x), decimals)), point).verdict == "correct"


def test_a_step_function_with_low_steps_is_a_constant() -> None:
    assert check(lambda x: x * (1 + 1e-12 * round(10 * float(x))), 0.7).verdict == "correct"


@pytest.mark.parametrize("point", [np.array([1.4]), WEIGHTS, 3 * WEIGHTS], ids=["one", "three", "larger"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", GRIDS)
def test_a_step_function_of_one_width_is_a_constant(name: str, dtype: str, point: Any) -> None:
    f = lambda x: tf.reduce_sum(x * GRIDS[name](x.numpy()).astype(dtype))
    assert check(f, point.astype(dtype)).verdict == "correct"


@pytest.mark.parametrize("order", [1, 2])
def test_the_order_of_a_sort_is_a_constant(order: int) -> None:
    x = np.random.default_rng(0).normal(size=20).astype("f")
    weights = np.linspace(0, 1, 20).astype("f")
    f = lambda x: tf.reduce_sum(tf.gather(x, np.argsort(x.numpy())) * weights)
    assert check(f, x, order=order).verdict == "correct"


STOPPED: dict[str, F] = {
    "float": lambda x: x * float(tf.stop_gradient(x)),
    "numpy": lambda x: x * tf.stop_gradient(x).numpy(),
    "asarray": lambda x: x * np.asarray(tf.stop_gradient(x)),
    "a function of NumPy": lambda x: x * np.exp(tf.stop_gradient(x).numpy()),
    "a function of ops": lambda x: x * np.exp(tf.stop_gradient(2.0 * tf.sin(x) + 0.5).numpy()),
    "an op on a stopped value": lambda x: x * np.exp((2.0 * tf.stop_gradient(tf.sin(x))).numpy()),
    "a constant that is stopped later": lambda x: x * tf.stop_gradient(tf.constant(np.exp(x.numpy()))),
}


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", STOPPED)
def test_a_value_that_is_stopped_is_a_constant_on_purpose(name: str, order: int) -> None:
    assert check(STOPPED[name], math.pi / 3, order=order).verdict == "correct"


def _both(x: Any) -> Any:
    c = tf.constant(np.exp(x.numpy()))
    return x * c + x * tf.stop_gradient(c)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * (np.exp(tf.stop_gradient(x).numpy()) + float(x)),
        lambda x: x * (tf.stop_gradient(x) + math.sin(float(x))).numpy(),
        lambda x: x * (tf.stop_gradient(x) * x).numpy(),
        _both,
    ],
    ids=["another value", "a constant beside it", "its product", "the constant itself"],
)
def test_a_stopped_value_hides_no_other_value(f: F) -> None:
    assert check(f, math.pi / 3).verdict == "unconnected"


def test_a_function_that_returns_other_numbers_at_a_moved_point_is_undecided() -> None:
    kept: list[float] = []

    def f(x: Any) -> Any:
        kept.append(float(x))
        return x * (sum(kept) / len(kept))

    report = check(f, 1.0)
    assert report.verdict == "undecided" and "not deterministic" in str(report)


@pytest.mark.parametrize("order", [1, 2])
def test_one_leak_has_one_cause_at_all_points(order: int) -> None:
    def leaks(x: Any) -> Any:
        return tf.reduce_sum(x * float(tf.reduce_sum(x)))

    def told(*points: Any) -> tuple[set[str], set[Any]]:
        found = [f for x in points for f in check(leaks, x, order=order).findings if f.order == order]
        return {f.reason for f in found}, {f.key for f in found}

    # Near the largest float, the program alone shows the leak, and names the op that reads the value.
    reasons, keys = told(np.array([1.0, 2.0]), np.array([1e300, 2.0]))
    assert len(reasons) == 2
    assert len(keys) == 1
