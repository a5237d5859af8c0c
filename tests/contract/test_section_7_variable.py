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
    assert y.numpy() == 16.0 or y.numpy() == 12.0
    assert tape.gradient(y, v) is not None


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


# ---------------------------------------------------------------- smaller print

VALUES: dict[str, tuple[Any, str]] = {
    "int list": ([1, 2], "int32"),
    "bool": (True, "bool"),
    "float64 array": (np.ones(2), "float64"),
    "complex": (1 + 2j, "complex128"),
    "text": ("abc", "string"),
    "list with tensors": ([tf.constant(1.0, tf.float64), 2], "float64"),
    "callable": (lambda: tf.ones([2], tf.float64), "float64"),
    "list of float64 scalars": ([np.float64(1.0)], "float64"),
    "int64 value": (2**40, "int64"),
}


@pytest.mark.parametrize("name", VALUES)
def test_the_dtype_follows_the_value(name: str) -> None:
    value, dtype = VALUES[name]
    assert tf.Variable(value).dtype == dtype


def test_a_tensor_of_another_dtype_than_asked_for_is_a_value_error() -> None:
    with pytest.raises(ValueError):
        tf.Variable(tf.constant(1.0), dtype=tf.float64)
    assert tf.Variable(1, dtype=tf.float64).dtype == tf.float64


REPRS: dict[str, tuple[Any, str]] = {
    "scalar": (1.0, "<gtape.Variable 'w:0' shape=() dtype=float32, numpy=1.0>"),
    "vector": ([1.0, 2.0], "<gtape.Variable 'w:0' shape=(2,) dtype=float32, numpy=array([1., 2.], dtype=float32)>"),
    "integers": ([1, 2], "<gtape.Variable 'w:0' shape=(2,) dtype=int32, numpy=array([1, 2], dtype=int32)>"),
    "bool": (True, "<gtape.Variable 'w:0' shape=() dtype=bool, numpy=True>"),
    "float64": (np.array(1.5), "<gtape.Variable 'w:0' shape=() dtype=float64, numpy=1.5>"),
    "matrix": (
        [[1.0], [3.0]],
        "<gtape.Variable 'w:0' shape=(2, 1) dtype=float32, numpy=\narray([[1.],\n       [3.]], dtype=float32)>",
    ),
}


@pytest.mark.parametrize("name", REPRS)
def test_repr_of(name: str) -> None:
    value, text = REPRS[name]
    v = tf.Variable(value, name="w")
    assert repr(v) == str(v) == f"{v!s}" == text


def test_a_shape_that_does_not_fit_the_value_is_a_value_error() -> None:
    with pytest.raises(ValueError):
        tf.Variable([1.0, 2.0], shape=[3])
    assert tf.Variable([1.0, 2.0], shape=[2]).shape == (2,)


@pytest.mark.parametrize("shape", [[None], tf.TensorShape(None)], ids=str)
def test_a_shape_left_open_lets_values_of_other_shapes_in(shape: Any) -> None:
    v = tf.Variable([1.0, 2.0], shape=shape)
    v.assign([1.0, 2.0, 3.0])
    assert v.numpy().tolist() == [1.0, 2.0, 3.0]
    assert repr(v.shape) == repr(tf.TensorShape(shape))
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(v * v)
    assert tape.gradient(y, v).numpy().tolist() == [2.0, 4.0, 6.0]


def test_a_shape_left_open_still_has_a_rank() -> None:
    with pytest.raises(ValueError):
        tf.Variable([1.0, 2.0], shape=[None]).assign([[1.0]])


@pytest.mark.parametrize(
    "change", [lambda v: v.assign([1.0] * 3), lambda v: v.assign(1.0), lambda v: v.assign([[1.0, 2.0]])]
)
def test_assign_takes_no_other_shape(change: Any) -> None:
    with pytest.raises(ValueError):
        change(tf.Variable([1.0, 2.0]))


@pytest.mark.parametrize("method", ["assign_add", "assign_sub"])
@pytest.mark.parametrize("value", [1.0, [1.0, 2.0, 3.0], [[1.0, 2.0]]], ids=repr)
def test_adding_takes_no_other_shape(method: str, value: Any) -> None:
    with pytest.raises(IAE):
        getattr(tf.Variable([1.0, 2.0]), method)(value)


@pytest.mark.parametrize("method", ["assign", "assign_add", "assign_sub"])
@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_tensors_of_other_dtypes_are_refused(method: str, dtype: str) -> None:
    with pytest.raises(ValueError):
        getattr(tf.Variable([1.0, 2.0]), method)(tf.ones([2], dtype))


@pytest.mark.parametrize("value", [[3, 4], np.array([3, 4]), np.array([3.0, 4.0])], ids=str)
def test_numbers_and_arrays_are_converted(value: Any) -> None:
    v = tf.Variable([1.0, 2.0])
    v.assign(value)
    assert v.dtype == tf.float32 and v.numpy().tolist() == [3.0, 4.0]


def test_a_fraction_does_not_go_into_an_integer_variable() -> None:
    with pytest.raises(TypeError):
        tf.Variable([1, 2]).assign([3.5, 4])


@pytest.mark.parametrize("method", ["assign", "assign_add", "assign_sub"])
def test_without_read_value_nothing_is_returned(method: str) -> None:
    v = tf.Variable(1.0)
    assert getattr(v, method)(1.0, read_value=False) is None
    assert float(getattr(v, method)(1.0)) == float(v)


def test_what_an_assignment_returns_is_recorded() -> None:
    v = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = v.assign(3.0) ** 2
    assert tape.gradient(y, v).numpy() == 6.0


@pytest.mark.parametrize("operator", ["+=", "-=", "*=", "/=", "**="])
def test_these_augmented_assignments_are_runtime_errors(operator: str) -> None:
    with pytest.raises(RuntimeError, match=r"assign|out = var"):
        exec(f"v {operator} 2.0", {"v": tf.Variable(1.0)})


@pytest.mark.parametrize("operator", ["//=", "%=", "@="])
def test_these_make_a_tensor(operator: str) -> None:
    space: dict[str, Any] = {"v": tf.Variable([[5.0]])}
    exec(f"v {operator} [[2.0]]", space)
    assert isinstance(space["v"], tf.Tensor)


@pytest.mark.parametrize(
    ("method", "wanted"),
    [
        ("scatter_add", [1.0, 13.0, 3.0]),
        ("scatter_sub", [1.0, -9.0, 3.0]),
        ("scatter_mul", [1.0, 36.0, 3.0]),
        ("scatter_max", [1.0, 9.0, 3.0]),
        ("scatter_min", [1.0, 2.0, 3.0]),
        ("scatter_update", [1.0, 2.0, 3.0]),
    ],
)
def test_scatter_with_a_row_twice(method: str, wanted: Any) -> None:
    v = tf.Variable([1.0, 2.0, 3.0])
    made = getattr(v, method)(tf.IndexedSlices(tf.constant([9.0, 2.0]), tf.constant([1, 1])))
    assert v.numpy().tolist() == made.numpy().tolist() == wanted


def test_scatter_div_and_batches() -> None:
    v = tf.Variable([1.0, 2.0])
    v.scatter_div(tf.IndexedSlices(tf.constant([4.0]), tf.constant([1])))
    assert v.numpy().tolist() == [1.0, 0.5]
    w = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    w.batch_scatter_update(tf.IndexedSlices(tf.constant([[9.0], [8.0]]), tf.constant([[1], [0]])))
    assert w.numpy().tolist() == [[1.0, 9.0], [8.0, 4.0]]


@pytest.mark.parametrize(
    ("method", "wanted"), [("scatter_nd_max", [7.0, 2.0, 3.0]), ("scatter_nd_min", [1.0, 2.0, 0.0])]
)
def test_scatter_nd_extremes(method: str, wanted: Any) -> None:
    v = tf.Variable([1.0, 2.0, 3.0])
    assert getattr(v, method)([[0], [2]], [7.0, 0.0]).numpy().tolist() == wanted


def test_scatter_takes_slices_only_and_rows_that_exist() -> None:
    v = tf.Variable([1.0, 2.0])
    with pytest.raises(TypeError, match="IndexedSlices"):
        v.scatter_add([1.0])
    with pytest.raises(IAE):
        v.scatter_add(tf.IndexedSlices(tf.constant([9.0]), tf.constant([5])))
    with pytest.raises(IAE):
        v.scatter_nd_update([[5]], [7.0])


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        (slice(0, 2), 5.0, [5.0, 5.0, 3.0]),
        (slice(None, None, 2), [5.0, 6.0], [5.0, 2.0, 6.0]),
        (-1, 5.0, [1.0, 2.0, 5.0]),
        (slice(1, None), [7.0, 8.0], [1.0, 7.0, 8.0]),
    ],
)
def test_assigning_to_a_part(key: Any, value: Any, wanted: Any) -> None:
    v = tf.Variable([1.0, 2.0, 3.0])
    assert v[key].assign(value).numpy().tolist() == v.numpy().tolist() == wanted


def test_snapshots_of_vectors_do_not_change() -> None:
    v = tf.Variable([1.0, 2.0])
    snapshots = [v.value(), v.read_value(), v.numpy(), tf.convert_to_tensor(v), v + 0.0]
    v[0].assign(9.0)
    v.scatter_nd_update([[1]], [7.0])
    v.assign_add([1.0, 1.0])
    assert [np.asarray(s).tolist() for s in snapshots] == [[1.0, 2.0]] * 5


def test_assigning_between_reads() -> None:
    v = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = v * v
        v.assign(10.0)
        z = v * y
    # z = v₂ v₁²: both reads are of the one variable.
    assert tape.gradient(z, v).numpy() == 9.0 + 2.0 * 3.0 * 10.0


def test_operators_on_floats_and_integers() -> None:
    v = tf.Variable(4.0)
    made = [v + 1.0, 1.0 - v, v * 2.0, 2.0 / v, v**2, 2.0**v, -v, abs(v), v // 3.0, v % 3.0, 7.0 % v]
    assert [float(m) for m in made] == [5.0, -3.0, 8.0, 0.5, 16.0, 16.0, -4.0, 4.0, 1.0, 1.0, 3.0]
    w = tf.Variable(4)
    whole = [w + 1, 1 - w, w**2, 2**w, w // 3, w % 3, w & 6, w | 1, w ^ 1, ~w]
    assert [int(m) for m in whole] == [5, -3, 16, 16, 1, 1, 4, 5, 5, -5]
    assert (2 / w).dtype == tf.float64
    assert all(isinstance(m, tf.Tensor) for m in [*made, *whole])


def test_arrays_on_either_side() -> None:
    v = tf.Variable([1.0, 2.0])
    for made in (v + np.array([1.0, 2.0]), np.array([1.0, 2.0]) + v):
        assert isinstance(made, tf.Tensor) and made.dtype == tf.float32 and made.numpy().tolist() == [2.0, 4.0]


def test_variables_of_other_dtypes_do_not_mix() -> None:
    with pytest.raises(IAE):
        tf.Variable(1.0, dtype=tf.float64) + tf.constant(1.0)


def test_truth_and_numbers_of_vectors_are_refused() -> None:
    v = tf.Variable([1.0, 2.0])
    with pytest.raises(ValueError):
        bool(v)
    with pytest.raises(TypeError):
        float(v)
    with pytest.raises(TypeError):
        iter(tf.Variable(1.0))


def test_references_find_a_variable_again() -> None:
    v, w = tf.Variable(1.0), tf.Variable(1.0)
    assert v.ref() == v.ref() != w.ref() and v.ref().deref() is v
    assert {v.ref(): "v"}[v.ref()] == "v"
    assert v in [w, v]


def test_incompatible_shapes_are_unequal() -> None:
    v = tf.Variable([1.0, 2.0])
    assert not (v == tf.constant([1.0, 2.0, 3.0]))
    assert v != tf.constant([1.0, 2.0, 3.0])


@pytest.mark.parametrize("name", ["T", "astype", "reshape", "size"])
def test_variables_have_none_of_numpys_methods(name: str) -> None:
    with pytest.raises(AttributeError):
        getattr(tf.Variable([1.0]), name)


# ---------------------------------------------------------------- modules


class Named(tf.Module):
    def __init__(self, name: str, *inside: Any) -> None:
        super().__init__(name=name)
        self.w = tf.Variable(1.0, name=f"{name}_w")
        self.inside = list(inside)


def test_submodules_come_level_by_level_within_each() -> None:
    root = Named("r", Named("a", Named("aa"), Named("ab")), Named("b", Named("ba")))
    assert [v.name for v in root.variables] == ["r_w:0", "a_w:0", "aa_w:0", "ab_w:0", "b_w:0", "ba_w:0"]
    assert {m.name for m in root.submodules} == {"a", "aa", "ab", "b", "ba"}


def test_variables_in_every_container_count_once() -> None:
    class Holder(tf.Module):
        pass

    m = Holder()
    shared = tf.Variable(1.0, name="shared")
    m.b = {"y": tf.Variable(1.0, name="y"), "x": tf.Variable(1.0, name="x")}
    m.a = [shared, (tf.Variable(1.0, name="deep"),)]
    m.c = shared
    m.number, m.text, m.nothing = 3, "x", None
    assert [v.name for v in m.variables] == ["shared:0", "deep:0", "x:0", "y:0"]


def test_private_attributes_and_cycles() -> None:
    m, k = tf.Module(name="m"), tf.Module(name="k")
    m._private = tf.Variable(1.0, name="private")  # type: ignore[attr-defined]
    m.k, k.m = k, m  # type: ignore[attr-defined]
    assert [v.name for v in m.variables] == ["private:0"] and m.submodules == (k,)


def test_a_module_without_init_still_collects() -> None:
    class Bare(tf.Module):
        def __init__(self) -> None:
            self.v = tf.Variable(1.0)

    assert len(Bare().variables) == 1


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("MyLayer", "my_layer"),
        ("MLP", "mlp"),
        ("Dense3D", "dense3_d"),
        ("lower", "lower"),
        ("HTTPServer", "http_server"),
    ],
)
def test_names_in_snake_case(name: str, snake: str) -> None:
    assert type(name, (tf.Module,), {})().name == snake


def test_bad_names_are_value_errors() -> None:
    with pytest.raises(ValueError):
        tf.Module(name="1a")


def test_name_scopes_of_modules() -> None:
    class Outer(tf.Module):
        def __init__(self) -> None:
            super().__init__(name="outer")
            with self.name_scope:
                self.v = tf.Variable(1.0, name="v")
                self.inner = tf.Module(name="inner")

        @tf.Module.with_name_scope
        def make(self) -> tf.Variable:
            return tf.Variable(1.0, name="made")

    m = Outer()
    assert m.v.name == "outer/v:0" and m.make().name == "outer/made:0"
    assert m.name_scope.name == "outer/" and m.inner.name_scope.name == "outer/inner/"
