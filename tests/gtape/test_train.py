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


class Hidden(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self._w, self._parts = tf.Variable(1.0), {"k": [tf.Variable(2.0)]}


class HiddenLayer(keras.layers.Layer):
    def __init__(self) -> None:
        super().__init__()
        self._inner = keras.layers.Dense(2)

    def build(self, input_shape: Any) -> None:
        self._scale = self.add_weight(shape=[2])
        self.add_weight(shape=[3])  # in no attribute at all

    def call(self, x: Any) -> Any:
        return self._inner(x) * self._scale


@pytest.mark.parametrize("make", [Hidden, HiddenLayer])
def test_what_private_attributes_hold_is_kept_too(tmp_path: Path, make: Any) -> None:
    objects = [make(), make()]
    if make is HiddenLayer:
        for layer in objects:
            layer(tf.ones([1, 3]))
    for i, v in enumerate(objects[0].variables):
        v.assign(tf.fill(v.shape, float(i)))
    path = tf.train.Checkpoint(m=objects[0]).save(tmp_path / "ckpt")
    tf.train.Checkpoint(m=objects[1]).restore(path).assert_consumed()
    for a, b in zip(*[x.variables for x in objects], strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_weights_of_layers_in_private_attributes_are_saved(tmp_path: Path) -> None:
    models = [keras.Sequential([keras.Input((3,)), HiddenLayer()]) for _ in range(2)]
    models[0].save_weights(tmp_path / "w.weights.h5")
    models[1].load_weights(tmp_path / "w.weights.h5")
    for a, b in zip(*[m.get_weights() for m in models], strict=True):
        np.testing.assert_array_equal(a, b)


def test_no_two_variables_share_a_name_in_a_file(tmp_path: Path) -> None:
    variables = [tf.Variable(float(i)) for i in range(5)]
    parts = {"a/b": variables[0], "a": {"b": variables[1]}, "a|b": variables[2], "a%2Fb": variables[3]}
    checkpoint = tf.train.Checkpoint(parts=parts, file=variables[4])
    path = checkpoint.save(tmp_path / "ckpt")
    for v in variables:
        v.assign(-1.0)
    checkpoint.restore(path)
    assert [float(v) for v in variables] == [0.0, 1.0, 2.0, 3.0, 4.0]
    with pytest.raises(ValueError, match="rename one of the keys"):
        tf.train.Checkpoint(parts={1: variables[0], "1": variables[1]}).save(tmp_path / "ckpt")


def test_strings_come_back_as_they_were(tmp_path: Path) -> None:
    v, texts = tf.Variable(["", "b\0", "long"]), [b"", b"b\0", b"long"]
    checkpoint = tf.train.Checkpoint(v=v)
    path = checkpoint.save(tmp_path / "ckpt")
    v.assign(["x", "y", "z"])
    checkpoint.restore(path)
    assert v.numpy().tolist() == texts
