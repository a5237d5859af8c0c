"""Every optimizer follows its recurrence, written here once more in plain NumPy, and so do the schedules."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import gtape as tf

optimizers = tf.keras.optimizers
schedules = optimizers.schedules

State = dict[str, Any]


def adam(v: Any, g: Any, t: int, s: State, lr: float, b1: float = 0.9, b2: float = 0.999) -> Any:
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["s"] = b2 * s.get("s", 0) + (1 - b2) * g**2
    return v - lr * math.sqrt(1 - b2**t) / (1 - b1**t) * s["m"] / (np.sqrt(s["s"]) + 1e-7)


def amsgrad(v: Any, g: Any, t: int, s: State, lr: float) -> Any:
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["s"] = 0.999 * s.get("s", 0) + 0.001 * g**2
    s["top"] = np.maximum(s.get("top", 0), s["s"])
    return v - lr * math.sqrt(1 - 0.999**t) / (1 - 0.9**t) * s["m"] / (np.sqrt(s["top"]) + 1e-7)


def adamw(v: Any, g: Any, t: int, s: State, lr: float) -> Any:
    return adam(v - lr * 0.004 * v, g, t, s, lr)


def rmsprop(v: Any, g: Any, t: int, s: State, lr: float) -> Any:
    s["r"] = 0.9 * s.get("r", 0) + 0.1 * g**2
    return v - lr * g / np.sqrt(s["r"] + 1e-7)


def rmsprop_with_everything(v: Any, g: Any, t: int, s: State, lr: float) -> Any:
    s["r"] = 0.8 * s.get("r", 0) + 0.2 * g**2
    s["a"] = 0.8 * s.get("a", 0) + 0.2 * g
    s["m"] = 0.5 * s.get("m", 0) + lr * g / np.sqrt(s["r"] - s["a"] ** 2 + 1e-3)
    return v - s["m"]


def adagrad(v: Any, g: Any, t: int, s: State, lr: float) -> Any:
    s["a"] = s.get("a", 0.1) + g**2
    return v - lr * g / np.sqrt(s["a"] + 1e-7)


def adadelta(v: Any, g: Any, t: int, s: State, lr: float) -> Any:
    s["a"] = 0.95 * s.get("a", 0) + 0.05 * g**2
    step = np.sqrt(s.get("d", 0) + 1e-7) / np.sqrt(s["a"] + 1e-7) * g
    s["d"] = 0.95 * s.get("d", 0) + 0.05 * step**2
    return v - lr * step


def adamax(v: Any, g: Any, t: int, s: State, lr: float) -> Any:
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["u"] = np.maximum(0.999 * s.get("u", 0), np.abs(g))
    return v - lr / (1 - 0.9**t) * s["m"] / (s["u"] + 1e-7)


def nadam(v: Any, g: Any, t: int, s: State, lr: float) -> Any:
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["s"] = 0.999 * s.get("s", 0) + 0.001 * g**2
    weight = [0.9 * (1 - 0.5 * 0.96**i) for i in range(1, t + 2)]
    ahead = weight[t] * s["m"] / (1 - math.prod(weight)) + (1 - weight[t - 1]) * g / (1 - math.prod(weight[:t]))
    return v - lr * ahead / (np.sqrt(s["s"] / (1 - 0.999**t)) + 1e-7)


def ftrl(v: Any, g: Any, t: int, s: State, lr: float) -> Any:
    before = s.get("n", 0.1)
    s["n"] = before + g**2
    s["z"] = s.get("z", 0) + g + 2 * 0.05 * v - (np.sqrt(s["n"]) - np.sqrt(before)) / lr * v
    return (np.clip(s["z"], -0.3, 0.3) - s["z"]) / ((np.sqrt(s["n"]) + 0.4) / lr + 2 * 0.2)


FTRL_OPTIONS = {
    "l1_regularization_strength": 0.3,
    "l2_regularization_strength": 0.2,
    "l2_shrinkage_regularization_strength": 0.05,
    "beta": 0.4,
}
FORMULAS: list[tuple[str, dict[str, Any], Callable[..., Any]]] = [
    ("Adam", {}, adam),
    ("Adam", {"amsgrad": True}, amsgrad),
    ("AdamW", {}, adamw),
    ("RMSprop", {}, rmsprop),
    ("RMSprop", {"rho": 0.8, "momentum": 0.5, "centered": True, "epsilon": 1e-3}, rmsprop_with_everything),
    ("Adagrad", {}, adagrad),
    ("Adadelta", {}, adadelta),
    ("Adamax", {}, adamax),
    ("Nadam", {}, nadam),
    ("Ftrl", FTRL_OPTIONS, ftrl),
]
IDS = [f"{name}-{'-'.join(options) or 'plain'}" for name, options, _ in FORMULAS]
NAMES = ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "Nadam", "Ftrl"]

gradient_lists = st.integers(1, 5).flatmap(lambda n: arrays(np.float64, (n, 3), elements=st.floats(-4, 4, width=32)))


@pytest.mark.parametrize(("name", "options", "formula"), FORMULAS, ids=IDS)
@settings(max_examples=1 + settings.default.max_examples // 2)
@given(gradients=gradient_lists, rate=st.sampled_from([0.001, 0.1, 1.0]))
def test_an_optimizer_follows_its_recurrence(
    name: str, options: dict[str, Any], formula: Callable[..., Any], gradients: Any, rate: float
) -> None:
    start = np.array([1.0, -2.0, 0.0])
    v, state, value = tf.Variable(start), {}, start
    optimizer = getattr(optimizers, name)(rate, **options)
    for t, g in enumerate(gradients, 1):
        optimizer.apply([tf.constant(g)], [v])
        value = formula(value, g, t, state, rate)
        np.testing.assert_allclose(v.numpy(), value, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_both_dtypes_take_the_same_way(name: str, dtype: str) -> None:
    wide, v = tf.Variable(np.array([1.0, -1.0])), tf.Variable(np.array([1.0, -1.0]), dtype=dtype)
    one, other = getattr(optimizers, name)(0.1), getattr(optimizers, name)(0.1)
    for t in range(8):
        g = np.array([math.sin(t), 2 * math.cos(t)])
        one.apply([tf.constant(g)], [wide])
        other.apply([tf.constant(g.astype(dtype))], [v])
    assert v.dtype == dtype
    np.testing.assert_allclose(v.numpy(), wide.numpy(), rtol=2e-6)


@pytest.mark.parametrize("name", NAMES)
def test_a_sparse_gradient_is_the_dense_one_with_duplicates_added(name: str) -> None:
    a, b = tf.Variable(np.ones((3, 1))), tf.Variable(np.ones((3, 1)))
    one, other = getattr(optimizers, name)(0.1), getattr(optimizers, name)(0.1)
    slices = tf.IndexedSlices(np.array([[1.0], [2.0], [4.0]]), np.array([2, 0, 2]), [3, 1])
    for _ in range(2):
        one.apply([slices], [a])
        other.apply([np.array([[2.0], [0.0], [5.0]])], [b])
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_an_optimizer_finds_a_minimum(name: str) -> None:
    v = tf.Variable([1.0, -1.0])
    optimizer = getattr(optimizers, name)(10.0 if name == "Adadelta" else 0.1)
    loss = lambda: tf.reduce_sum((v - [0.5, -0.5]) ** 2)
    before = float(loss())
    for _ in range(60):
        optimizer.minimize(loss, [v])
    assert float(loss()) < 0.2 * before


@pytest.mark.parametrize("name", NAMES)
def test_settings_survive_their_config(name: str) -> None:
    made = getattr(optimizers, name)(0.125, clipnorm=2.0, use_ema=True, name="mine")
    again = optimizers.deserialize(optimizers.serialize(made))
    assert type(again) is type(made)
    assert again.get_config() == made.get_config()
    assert made.get_config()["learning_rate"] == 0.125
    assert type(made).from_config(made.get_config()).get_config() == made.get_config()
    assert isinstance(optimizers.get(name.lower()), type(made))


def test_a_schedule_survives_the_config_of_its_optimizer() -> None:
    made = optimizers.SGD(schedules.ExponentialDecay(0.5, 10, 0.5))
    again = optimizers.SGD.from_config(made.get_config())
    assert float(again.learning_rate) == 0.5
    assert again.get_config() == made.get_config()


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="Could not interpret optimizer"):
        optimizers.get("speed")
    with pytest.raises(ValueError, match="Unknown optimizer"):
        optimizers.deserialize({"class_name": "Speed", "config": {}})
    with pytest.raises(ValueError, match="Unknown learning rate schedule"):
        schedules.deserialize({"class_name": "Speed", "config": {}})
    made = optimizers.SGD()
    assert optimizers.get(made) is made


def test_averages_follow_the_variables_and_replace_them() -> None:
    v = tf.Variable(np.float64(0.0))
    optimizer = optimizers.SGD(1.0, use_ema=True, ema_momentum=0.75)
    for _ in range(3):
        optimizer.apply([-1.0], [v])
    assert v.numpy() == 3.0
    optimizer.finalize_variable_values([v])
    assert v.numpy() == 0.75 * (0.75 * 1.0 + 0.25 * 2.0) + 0.25 * 3.0
    often = optimizers.SGD(1.0, use_ema=True, ema_momentum=0.75, ema_overwrite_frequency=2)
    w = tf.Variable(np.float64(0.0))
    for _ in range(2):
        often.apply([-1.0], [w])
    assert w.numpy() == 0.75 * 1.0 + 0.25 * 2.0
    optimizers.SGD().finalize_variable_values([v])
    with pytest.raises(ValueError, match="`ema_momentum` must be in the range"):
        optimizers.SGD(use_ema=True, ema_momentum=2.0)
    with pytest.raises(ValueError, match="`ema_overwrite_frequency`"):
        optimizers.SGD(use_ema=True, ema_overwrite_frequency=0)


def test_variables_can_be_left_out_of_the_weight_decay() -> None:
    a, b, bias = tf.Variable(1.0, name="a"), tf.Variable(1.0, name="b"), tf.Variable(1.0, name="bias")
    optimizer = optimizers.AdamW(0.5, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_list=[a], var_names=["bias"])
    optimizer.apply([0.0, 0.0, 0.0], [a, b, bias])
    assert (a.numpy(), b.numpy(), bias.numpy()) == (1.0, 0.75, 1.0)


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("AdamW", {"weight_decay": None}, "`weight_decay` must be a float"),
        ("Ftrl", {"learning_rate_power": 0.5}, "needs to be negative or zero"),
        ("Ftrl", {"l1_regularization_strength": -1.0}, "needs to be positive or zero"),
        ("Nadam", {"beta_1": 1.0}, "`beta_1` must be in"),
    ],
)
def test_settings_out_of_range_are_refused(name: str, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        getattr(optimizers, name)(**options)


# ------------------------------------------------------------------------------------------------ schedules

SCHEDULES: list[tuple[Any, Callable[[int], float]]] = [
    (schedules.ExponentialDecay(0.1, 7, 0.5), lambda t: 0.1 * 0.5 ** (t / 7)),
    (schedules.ExponentialDecay(0.1, 7, 0.5, staircase=True), lambda t: 0.1 * 0.5 ** (t // 7)),
    (schedules.InverseTimeDecay(0.1, 7, 0.5), lambda t: 0.1 / (1 + 0.5 * t / 7)),
    (schedules.InverseTimeDecay(0.1, 7, 0.5, staircase=True), lambda t: 0.1 / (1 + 0.5 * (t // 7))),
    (schedules.PolynomialDecay(0.1, 7, 0.01, 2.0), lambda t: 0.09 * (1 - min(t, 7) / 7) ** 2 + 0.01),
    (
        schedules.PolynomialDecay(0.1, 7, 0.01, 1.0, cycle=True),
        lambda t: 0.09 * (1 - t / (7 * max(1, math.ceil(t / 7)))) + 0.01,
    ),
    (schedules.PiecewiseConstantDecay([5, 9], [1.0, 0.5, 0.1]), lambda t: 1.0 if t <= 5 else 0.5 if t <= 9 else 0.1),
    (
        schedules.CosineDecay(0.1, 7, alpha=0.2),
        lambda t: 0.1 * (0.8 * (1 + math.cos(math.pi * min(t, 7) / 7)) / 2 + 0.2),
    ),
    (
        schedules.CosineDecay(0.0, 7, alpha=0.2, warmup_target=0.1, warmup_steps=10),
        lambda t: 0.01 * t if t < 10 else 0.1 * (0.8 * (1 + math.cos(math.pi * min(t - 10, 7) / 7)) / 2 + 0.2),
    ),
    (
        schedules.CosineDecayRestarts(0.1, 7, t_mul=1.0, m_mul=0.9, alpha=0.2),
        lambda t: 0.1 * (0.8 * 0.9 ** (t // 7) * (1 + math.cos(math.pi * (t % 7) / 7)) / 2 + 0.2),
    ),
    (
        schedules.CosineDecayRestarts(0.1, 7, m_mul=0.9, alpha=0.2),
        lambda t: (
            0.1
            * (
                0.8 * 0.9 ** (r := int(math.log2(t / 7 + 1))) * (1 + math.cos(math.pi * (t / 7 + 1 - 2**r) / 2**r)) / 2
                + 0.2
            )
        ),
    ),
]


@pytest.mark.parametrize(("schedule", "formula"), SCHEDULES, ids=lambda s: getattr(s, "name", ""))
def test_a_schedule_follows_its_formula(schedule: Any, formula: Callable[[int], float]) -> None:
    for t in range(40):
        assert schedule.at(t) == pytest.approx(formula(t), rel=1e-12, abs=1e-15)
        assert schedule(tf.constant(t)).dtype == tf.float32
        assert float(schedule(t)) == np.float32(schedule.at(t))
    assert schedules.deserialize(schedules.serialize(schedule)).get_config() == schedule.get_config()


def test_a_schedule_sets_the_rate_of_each_step() -> None:
    v = tf.Variable(np.float64(0.0))
    optimizer = optimizers.SGD(schedules.ExponentialDecay(0.1, 1, 0.5))
    seen = []
    for _ in range(3):
        seen.append(float(optimizer.learning_rate))
        optimizer.apply([-1.0], [v])
    assert seen == [np.float32(0.1), np.float32(0.05), np.float32(0.025)]
    assert v.numpy() == pytest.approx(0.175, rel=1e-15)  # float64 models get all digits


def test_a_schedule_of_ones_own_may_use_ops() -> None:
    class WarmUp(schedules.LearningRateSchedule):  # type: ignore[misc]
        def __call__(self, step: Any) -> Any:
            step = tf.cast(step, tf.float32)
            return tf.math.minimum(tf.math.rsqrt(step), step * 4.0**-1.5)

    v = tf.Variable(0.0)
    optimizer = optimizers.SGD(WarmUp())
    for _ in range(5):
        optimizer.apply([-1.0], [v])
    assert v.numpy() == pytest.approx(sum(min(t**-0.5 if t else math.inf, t / 8) for t in range(5)), rel=1e-6)
    with pytest.raises(NotImplementedError, match="must override `__call__"):
        schedules.LearningRateSchedule()(0)


def test_schedules_check_their_settings() -> None:
    with pytest.raises(ValueError, match="`decay_steps` must be > 0"):
        schedules.ExponentialDecay(0.1, 0, 0.5)
    with pytest.raises(ValueError, match="1 less than the length of values"):
        schedules.PiecewiseConstantDecay([1], [1.0])
