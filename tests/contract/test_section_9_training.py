"""Optimizers, schedules, losses and layers as TensorFlow's users know them (section 9 of the contract)."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import gtape as tf

optimizers = tf.keras.optimizers

# What Keras 3.15 makes of [1, 2] in three steps of rate 0.1 with these gradients, in float32.
GRADIENTS = [[1.0, -2.0], [0.5, 0.1], [-1.0, 3.0]]
STEPS: list[tuple[str, dict[str, Any], list[float]]] = [
    ("SGD", {}, [0.95, 1.89]),
    ("SGD", {"momentum": 0.9}, [0.734, 2.223]),
    ("SGD", {"momentum": 0.9, "nesterov": True}, [0.7106, 2.0907]),
    ("SGD", {"clipnorm": 1.0}, [0.936901, 1.984574]),
    ("SGD", {"clipvalue": 0.5}, [0.95, 1.99]),
    ("SGD", {"global_clipnorm": 1.0}, [0.936901, 1.984574]),
    ("SGD", {"weight_decay": 0.1}, [0.922789, 1.826718]),
    ("Adam", {}, [0.795706, 2.13716]),
    ("Adam", {"amsgrad": True}, [0.795706, 2.13716]),
    ("Adam", {"weight_decay": 0.1}, [0.768927, 2.075136]),
    ("AdamW", {}, [0.794624, 2.134655]),
    ("RMSprop", {}, [0.758006, 2.028521]),
    ("RMSprop", {"momentum": 0.9}, [0.084559, 2.554291]),
    ("RMSprop", {"centered": True}, [0.726831, 2.042494]),
    ("Adagrad", {}, [0.926853, 2.010985]),
    ("Adadelta", {}, [0.999916, 1.999964]),
    ("Adamax", {}, [0.816648, 2.1267]),
    ("Nadam", {}, [0.90483, 2.023516]),
    ("Ftrl", {}, [0.625342, 1.698638]),
]


@pytest.mark.parametrize(("name", "options", "wanted"), STEPS, ids=[f"{s[0]}-{'-'.join(s[1])}" for s in STEPS])
def test_three_steps_lead_where_keras_goes(name: str, options: dict[str, Any], wanted: list[float]) -> None:
    v = tf.Variable([1.0, 2.0])
    optimizer = getattr(optimizers, name)(learning_rate=0.1, **options)
    for g in GRADIENTS:
        optimizer.apply_gradients([(tf.constant(g), v)])
    np.testing.assert_allclose(v.numpy(), wanted, rtol=2e-6, atol=1e-6)


def test_defaults_are_those_of_keras() -> None:
    rates = {"SGD": 0.01, "Adam": 0.001, "AdamW": 0.001, "RMSprop": 0.001, "Adagrad": 0.001, "Adadelta": 0.001}
    rates |= {"Adamax": 0.001, "Nadam": 0.001, "Ftrl": 0.001}
    wanted = {
        "Adam": {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7},
        "AdamW": {"weight_decay": 0.004},
        "RMSprop": {"rho": 0.9, "momentum": 0.0, "centered": False},
        "Adagrad": {"initial_accumulator_value": 0.1},
        "Adadelta": {"rho": 0.95},
        "Ftrl": {"learning_rate_power": -0.5, "initial_accumulator_value": 0.1},
    }
    for name, rate in rates.items():
        config = getattr(optimizers, name)().get_config()
        assert config["learning_rate"] == rate
        assert {k: config[k] for k in wanted.get(name, {})} == wanted.get(name, {})


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "Nadam", "Ftrl"])
def test_every_optimizer_minimizes_with_a_tape_and_with_a_weighted_loss(name: str) -> None:
    optimizer = getattr(optimizers, name)(0.5)
    assert list(inspect.signature(optimizer.minimize).parameters) == ["loss", "var_list", "grad_loss", "name", "tape"]
    a, b = tf.Variable([1.0, 1.0]), tf.Variable([1.0, 1.0])
    for v, weight in ((a, None), (b, tf.constant([1.0, 0.0]))):  # one optimizer, changing variables
        with tf.GradientTape() as tape:
            y = v * v
        optimizer.minimize(y, [v], grad_loss=weight, tape=tape)
    assert (a.numpy() < 1.0).all()
    assert b.numpy()[0] == pytest.approx(a.numpy()[0], rel=1e-6)
    assert b.numpy()[1] != b.numpy()[0]


def test_none_gradients_are_skipped_by_every_optimizer() -> None:
    for name in ("Adam", "RMSprop", "Ftrl"):
        v, w = tf.Variable(1.0), tf.Variable(2.0)
        optimizer = getattr(optimizers, name)()
        with pytest.warns(UserWarning, match="Gradients do not exist"):
            optimizer.apply_gradients([(None, v), (tf.constant(1.0), w)])
        assert v.numpy() == 1.0 and w.numpy() != 2.0
        with pytest.raises(ValueError, match=r"No gradients provided for any variable\."):
            optimizer.apply_gradients([(None, v)])


def test_schedules_are_callable_and_accepted_as_learning_rate() -> None:
    schedule = tf.keras.optimizers.schedules.ExponentialDecay(1.0, decay_steps=1, decay_rate=0.5)
    np.testing.assert_allclose([schedule(t).numpy() for t in range(3)], [1.0, 0.5, 0.25])
    v = tf.Variable(0.0)
    optimizer = optimizers.SGD(learning_rate=schedule)
    for _ in range(3):
        optimizer.apply_gradients([(tf.constant(-1.0), v)])
    assert v.numpy() == 1.75
    assert int(optimizer.iterations) == 3


def test_a_variable_of_a_layer_is_watched_without_complaint() -> None:
    layer = tf.keras.layers.Dense(1)
    x = tf.constant([[1.0, 2.0]])
    layer(x)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(layer.kernel)
        y = layer(x)
    assert tape.gradient(y, layer.kernel).numpy().tolist() == [[1.0], [2.0]]
    with tf.GradientTape() as tape:
        y = layer(x)
    assert [g.shape for g in tape.gradient(y, layer.trainable_variables)] == [(2, 1), (1,)]
    assert [v is w for v, w in zip(tape.watched_variables(), layer.trainable_variables, strict=True)] == [True, True]


@pytest.mark.parametrize(
    ("name", "y_true", "y_pred", "wanted"),
    [
        ("MeanSquaredError", [[0.0, 1.0]], [[0.5, 0.0]], [[0.5, -1.0]]),
        ("MeanAbsoluteError", [[0.0, 1.0]], [[0.5, 1.0]], [[0.5, 0.0]]),
        ("Huber", [[0.0, 0.0]], [[0.5, 3.0]], [[0.25, 0.5]]),
        ("BinaryCrossentropy", [[1.0, 0.0]], [[0.5, 0.75]], [[-1.0, 2.0]]),
        ("CategoricalCrossentropy", [[1.0, 0.0]], [[0.5, 0.5]], [[-1.0, 1.0]]),
        ("KLDivergence", [[0.5, 0.5]], [[0.25, 0.75]], [[-2.0, -2 / 3]]),
        ("Hinge", [[1.0, -1.0]], [[0.5, -2.0]], [[-0.5, 0.0]]),
        ("CosineSimilarity", [[1.0, 0.0]], [[0.0, 2.0]], [[-0.5, 0.0]]),
    ],
)
def test_gradients_of_losses(name: str, y_true: Any, y_pred: Any, wanted: Any) -> None:
    v = tf.Variable(y_pred)
    with tf.GradientTape() as tape:
        loss = getattr(tf.keras.losses, name)()(y_true, v)
    np.testing.assert_allclose(tape.gradient(loss, v).numpy(), wanted, rtol=1e-6, atol=1e-7)
