"""Section 7 of the contract, in its smaller print."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf

IAE = tf.errors.InvalidArgumentError


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
