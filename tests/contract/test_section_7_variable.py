"""Variables (section 7 of the contract)."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import gtape as tf

IAE = tf.errors.InvalidArgumentError


# ---------------------------------------------------------------- making one


def test_a_value_is_required() -> None:
    with pytest.raises(ValueError, match="initial_value"):
        tf.Variable()


@pytest.mark.parametrize(
    "value",
    [
        lambda: [1.0, 2.0],
        tf.constant([1.0, 2.0]),
        tf.Variable([1.0, 2.0]),
        [1.0, 2.0],
        np.array([1.0, 2.0], np.float32),
    ],
    ids=["callable", "tensor", "variable", "list", "array"],
)
def test_value_may_be(value: Any) -> None:
    v = tf.Variable(value)
    assert v.dtype == tf.float32 and v.numpy().tolist() == [1.0, 2.0]


def test_value_is_always_copied() -> None:
    array = np.array([1.0, 2.0])
    v = tf.Variable(array)
    w = tf.Variable(v)
    array[0] = 9.0
    w.assign([7.0, 7.0])
    assert v.numpy().tolist() == [1.0, 2.0]
    v.numpy()[0] = 9.0
    assert v.numpy().tolist() == [1.0, 2.0]


def test_dtypes_follow_those_of_constants() -> None:
    assert tf.Variable([1, 2]).dtype == tf.int32
    assert tf.Variable(1.0).dtype == tf.float32
    assert tf.Variable(np.zeros(2)).dtype == tf.float64
    assert tf.Variable(1, dtype=tf.float64).dtype == tf.float64


def test_names_get_an_output_number_and_are_not_made_unique() -> None:
    assert tf.Variable(1.0).name == tf.Variable(2.0).name == "Variable:0"
    assert tf.Variable(1.0, name="w").name == "w:0"


def test_repr_and_str() -> None:
    v = tf.Variable([1.0, 2.0], name="w")
    wanted = "<gtape.Variable 'w:0' shape=(2,) dtype=float32, numpy=array([1., 2.], dtype=float32)>"
    assert repr(v) == str(v) == wanted


def test_trainable_is_read_only() -> None:
    v = tf.Variable(1.0)
    assert v.trainable
    with pytest.raises(AttributeError):
        v.trainable = False  # type: ignore[misc]
    assert not tf.Variable(1.0, trainable=False).trainable


# ---------------------------------------------------------------- assigning


def test_assignments_work_in_place_for_all_aliases() -> None:
    v = tf.Variable([1.0, 2.0])
    alias = v
    v.assign([3.0, 4.0])
    v.assign_add([1.0, 1.0])
    v.assign_sub(np.array([2.0, 2.0]))
    assert alias.numpy().tolist() == [2.0, 3.0]


def test_assignments_return_something_readable_that_connects_to_the_variable() -> None:
    v = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = v.assign(3.0) * v.assign_add(1.0)
    assert y.numpy() == 16.0  # both are the variable, which holds 4 by then
    assert tape.gradient(y, v).numpy() == 8.0


def test_state_blocks_gradients() -> None:
    v, w = tf.Variable(1.0), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        v.assign(w * w)
        y = v * 2.0
    assert tape.gradient(y, w) is None


def test_assign_of_another_shape_is_a_value_error() -> None:
    v = tf.Variable([1.0, 2.0])
    for value in (1.0, [1.0, 2.0, 3.0], [[1.0, 2.0]]):
        with pytest.raises(ValueError, match="shape"):
            v.assign(value)
    assert v.numpy().tolist() == [1.0, 2.0]


def test_assign_add_and_sub_do_not_broadcast() -> None:
    v = tf.Variable([1.0, 2.0])
    for value in (1.0, [1.0], [1.0, 2.0, 3.0]):
        with pytest.raises(IAE):
            v.assign_add(value)
        with pytest.raises(IAE):
            v.assign_sub(value)
    assert v.numpy().tolist() == [1.0, 2.0]


def test_tensor_of_another_dtype_is_a_value_error_but_numbers_and_arrays_are_converted() -> None:
    v = tf.Variable([1.0, 2.0])
    with pytest.raises(ValueError, match="float64"):
        v.assign(tf.constant([1.0, 2.0], tf.float64))
    v.assign(np.array([3.0, 4.0]))
    v.assign([5, 6])
    assert v.numpy().tolist() == [5.0, 6.0] and v.dtype == tf.float32


# ---------------------------------------------------------------- reading


def test_every_read_is_a_snapshot() -> None:
    v = tf.Variable([1.0, 2.0])
    before = v.read_value()
    v.assign([9.0, 9.0])
    assert before.numpy().tolist() == [1.0, 2.0]


def test_tape_uses_the_values_at_recording_time() -> None:
    v = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = v * v
        v.assign(100.0)
    v.assign(200.0)
    assert tape.gradient(y, v).numpy() == 6.0


def test_augmented_assignment_is_a_runtime_error() -> None:
    v = tf.Variable(1.0)
    with pytest.raises(RuntimeError, match="assign_add"):
        v += 1.0
    with pytest.raises(RuntimeError, match="assign_sub"):
        v -= 1.0
    with pytest.raises(RuntimeError):
        v *= 2.0
    assert v.numpy() == 1.0


def test_item_assignment_is_a_type_error() -> None:
    v = tf.Variable([1.0, 2.0])
    with pytest.raises(TypeError):
        v[0] = 3.0


def test_slices_can_be_assigned() -> None:
    v = tf.Variable([1.0, 2.0, 3.0])
    v[0:2].assign([8.0, 9.0])
    assert v.numpy().tolist() == [8.0, 9.0, 3.0]
    v[2].assign(0.5)
    v[::-2].assign_add([1.0, 1.0])
    assert v.numpy().tolist() == [9.0, 9.0, 1.5]
    v[1:].assign(4.0)
    assert v.numpy().tolist() == [9.0, 4.0, 4.0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="shape"):
        v[0:2].assign([1.0, 2.0, 3.0])


def test_slices_of_a_variable_are_tensors_on_the_tape() -> None:
    v = tf.Variable([1.0, 2.0, 3.0])
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            part = v[1:]
            y = part * part * v[0]
        g = inner.gradient(y, [part, v])
    assert g[0].numpy().tolist() == [4.0, 6.0]
    assert g[1].numpy().tolist() == [13.0, 4.0, 6.0]
    assert outer.gradient(g[1], v).numpy().tolist() == [10.0, 6.0, 8.0]


def test_scatter_methods() -> None:
    v = tf.Variable([[1.0], [2.0], [3.0]])
    rows = tf.IndexedSlices(tf.constant([[10.0], [20.0]]), tf.constant([2, 0]))
    assert v.scatter_add(rows).numpy().tolist() == [[21.0], [2.0], [13.0]]
    assert v.scatter_sub(rows).numpy().tolist() == [[1.0], [2.0], [3.0]]
    assert v.scatter_update(rows).numpy().tolist() == [[20.0], [2.0], [10.0]]
    w = tf.Variable([1.0, 2.0, 3.0])
    assert w.scatter_nd_update([[0]], [9.0]).numpy().tolist() == [9.0, 2.0, 3.0]
    assert w.scatter_nd_add([[1], [1]], [1.0, 1.0]).numpy().tolist() == [9.0, 4.0, 3.0]
    assert w.scatter_nd_sub([[2]], [3.0]).numpy().tolist() == [9.0, 4.0, 0.0]


def test_gather_nd_and_sparse_read_are_differentiable() -> None:
    v = tf.Variable([1.0, 2.0, 3.0])
    with tf.GradientTape(persistent=True) as tape:
        y = v.gather_nd([[1]]) * 2.0
        z = v.sparse_read([2, 2]) * 3.0
    assert tape.gradient(y, v).numpy().tolist() == [0.0, 2.0, 0.0]
    assert tf.convert_to_tensor(tape.gradient(z, v)).numpy().tolist() == [0.0, 0.0, 6.0]


def test_no_len() -> None:
    with pytest.raises(TypeError):
        len(tf.Variable([1.0, 2.0]))  # type: ignore[arg-type]


def test_iteration_conversions_and_operators() -> None:
    v, s = tf.Variable([1.0, 2.0]), tf.Variable(2.5)
    assert [float(x) for x in v] == [1.0, 2.0]
    assert (float(s), int(s), bool(s)) == (2.5, 2, True)
    assert np.asarray(v).tolist() == [1.0, 2.0]
    for made in (v + v, 1.0 - v, v * 2.0, -v, abs(v), v**2, v > 1.0):
        assert isinstance(made, tf.Tensor)
    assert v[1].numpy() == 2.0


def test_equality_is_elementwise_and_variables_are_not_hashable() -> None:
    v = tf.Variable([1.0, 2.0])
    assert (v == [1.0, 3.0]).numpy().tolist() == [True, False]
    with pytest.raises(TypeError):
        hash(v)
    assert v.ref() in {v.ref()}
    assert v.ref().deref() is v


def test_is_tensor_but_no_instance_of_tensor() -> None:
    v = tf.Variable(1.0)
    assert tf.is_tensor(v)
    assert not isinstance(v, tf.Tensor)


def test_copies_are_independent() -> None:
    v = tf.Variable([1.0, 2.0], name="w")
    for made in (copy.deepcopy(v), pickle.loads(pickle.dumps(v))):
        made.assign([0.0, 0.0])
        assert made.name == "w:0"
        assert v.numpy().tolist() == [1.0, 2.0]


# ---------------------------------------------------------------- modules


class Inner(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.k = tf.Variable(1.0, name="k", trainable=False)


class TwoLayerNet(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.z = tf.Variable(1.0, name="z")
        self.inner = Inner()
        self.items = [tf.Variable(2.0, name="l0"), {"d": tf.Variable(3.0, name="d")}]
        self.again = self.z
        self.constant = 3.0


def test_module_collects_its_variables_by_attribute_name_then_those_of_submodules() -> None:
    net = TwoLayerNet()
    assert [v.name for v in net.variables] == ["z:0", "l0:0", "d:0", "k:0"]
    assert [v.name for v in net.trainable_variables] == ["z:0", "l0:0", "d:0"]
    assert [v.name for v in net.non_trainable_variables] == ["k:0"]
    assert isinstance(net.variables, tuple)
    assert net.submodules == (net.inner,)


def test_module_is_named_after_its_class() -> None:
    assert TwoLayerNet().name == "two_layer_net"
    assert tf.Module(name="mine").name == "mine"
    with pytest.raises(ValueError, match="name"):
        tf.Module(name="not a name")


def test_name_scopes_prefix_names() -> None:
    net = TwoLayerNet()
    with net.name_scope:
        assert tf.Variable(1.0, name="w").name == "two_layer_net/w:0"
        with tf.name_scope("deep"):
            v = tf.Variable(1.0)
    assert v.name == "two_layer_net/deep/Variable:0"
    assert copy.deepcopy(v).name == v.name
    assert tf.Variable(1.0, name="w").name == "w:0"


def test_variables_of_a_module_are_watched_and_differentiated() -> None:
    net = TwoLayerNet()
    with tf.GradientTape() as tape:
        y = net.z * net.items[0] * net.inner.k
    assert [g if g is None else g.numpy() for g in tape.gradient(y, net.trainable_variables)] == [2.0, 1.0, None]


def test_each_read_is_a_source_of_its_own() -> None:
    v = tf.Variable(2.0)
    with tf.GradientTape(persistent=True) as tape:
        r = v.read_value()
        y = r * v
    assert (tape.gradient(y, r).numpy(), tape.gradient(y, v).numpy()) == (2.0, 4.0)
