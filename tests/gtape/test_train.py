"""Checkpoints: what is saved comes back, into objects that have their variables and into those that do not yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gtape as tf

keras = tf.keras


def trained(*, calls: int = 2) -> tuple[Any, Any, Any]:
    """A model, an optimizer that has seen it, and one more step."""
    model = keras.Sequential([keras.layers.Dense(3, activation="tanh"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam(0.1)

    def step() -> float:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(tf.ones([2, 2])) - 1.0) ** 2)
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return float(loss)

    for _ in range(calls):
        step()
    return model, optimizer, step


def test_training_goes_on_where_it_was_saved(tmp_path: Path) -> None:
    model, optimizer, step = trained()
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
    path = checkpoint.save(tmp_path / "ckpt")
    assert path == str(tmp_path / "ckpt-1") == tf.train.latest_checkpoint(tmp_path)
    wanted = [step(), step()]
    checkpoint.restore(path).assert_consumed()
    assert [step(), step()] == wanted


def test_what_has_no_variables_yet_gets_its_values_later(tmp_path: Path) -> None:
    model, optimizer, step = trained()
    path = tf.train.Checkpoint(model=model, optimizer=optimizer).save(tmp_path / "ckpt")
    wanted = [step(), step()]
    model, optimizer, step = trained(calls=0)
    status = tf.train.Checkpoint(model=model, optimizer=optimizer).restore(path)
    with pytest.raises(AssertionError, match="values without a variable"):
        status.assert_consumed()
    assert [step(), step()] == wanted
    status.assert_consumed()


def test_modules_lists_dicts_and_metrics_are_kept(tmp_path: Path) -> None:
    class Net(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = [tf.Variable([1.0, 2.0]), {"b": tf.Variable(3.0)}]
            self.same = self.parts[0]

    net, mean = Net(), keras.metrics.Mean()
    mean.update_state([1.0, 2.0])
    path = tf.train.Checkpoint(net=net, mean=mean).write(tmp_path / "deep" / "one")
    names = [name for name, _ in tf.train.list_variables(path)]
    assert names == ["mean/0", "mean/1", "net/parts/0", "net/parts/1/b", "save_counter"]
    assert tf.train.load_variable(path, "net/parts/1/b") == 3.0
    other, seen = Net(), keras.metrics.Mean()
    other.same.assign([0.0, 0.0])
    tf.train.Checkpoint(net=other, mean=seen).restore(path).assert_consumed()
    assert other.same.numpy().tolist() == [1.0, 2.0] and float(seen.result()) == 1.5


def test_a_root_s_parts_have_no_name_in_front(tmp_path: Path) -> None:
    class Net(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable(1.0)

    path = tf.train.Checkpoint(Net()).write(tmp_path / "x")
    assert [name for name, _ in tf.train.list_variables(path)] == ["save_counter", "w"]


def test_a_manager_keeps_the_last_few(tmp_path: Path) -> None:
    v = tf.Variable(0.0)
    checkpoint = tf.train.Checkpoint(v=v)
    manager = tf.train.CheckpointManager(checkpoint, tmp_path, max_to_keep=2)
    assert manager.latest_checkpoint is None and manager.restore_or_initialize() is None
    for i in range(4):
        v.assign(float(i))
        manager.save()
    assert [Path(p).name for p in manager.checkpoints] == ["ckpt-3", "ckpt-4"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint", "ckpt-3.npz", "ckpt-4.npz"]
    again = tf.train.CheckpointManager(checkpoint, tmp_path, max_to_keep=2)
    v.assign(9.0)
    assert again.restore_or_initialize() == tf.train.latest_checkpoint(tmp_path) and v.numpy() == 3.0
    checkpoint.restore(again.checkpoints[0])
    assert v.numpy() == 2.0


def test_what_does_not_fit_is_said(tmp_path: Path) -> None:
    path = tf.train.Checkpoint(v=tf.Variable([1.0, 2.0])).write(tmp_path / "x")
    with pytest.raises(ValueError, match="Shape mismatch"):
        tf.train.Checkpoint(v=tf.Variable(1.0)).restore(path)
    status = tf.train.Checkpoint(w=tf.Variable(1.0)).restore(path)
    for check in (status.assert_consumed, status.assert_existing_objects_matched):
        with pytest.raises(AssertionError, match="variables without a value: \\['w'\\]"):
            check()
    status.expect_partial()
    with pytest.raises(tf.errors.NotFoundError):
        tf.train.Checkpoint().restore(tmp_path / "none")
    with pytest.raises(tf.errors.NotFoundError, match="Key u not found"):
        tf.train.load_variable(path, "u")
    tf.train.Checkpoint().restore(None).assert_consumed()


def test_a_model_saves_and_loads_its_weights(tmp_path: Path) -> None:
    model, _, _ = trained()
    before = model.get_weights()
    model.save_weights(tmp_path / "m.weights.h5")
    fresh = keras.Sequential([keras.layers.Dense(3, activation="tanh"), keras.layers.Dense(1)])
    fresh.load_weights(tmp_path / "m.weights.h5")
    fresh(tf.ones([1, 2]))
    for a, b in zip(before, fresh.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="overwrite=True"):
        model.save_weights(tmp_path / "m.weights.h5", overwrite=False)
    other = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3), keras.layers.Dense(1), keras.layers.Dense(1)])
    with pytest.raises(ValueError, match=r"no values for \['layer-2/bias'"):
        other.load_weights(tmp_path / "m.weights.h5")
