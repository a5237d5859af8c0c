"""gradient(): targets, sources, output_gradients, unconnected_gradients, None or zeros (section 2 of the contract)."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf

Pair = namedtuple("Pair", ["a", "b"])


def grad(f: Callable[..., Any], *values: Any, **options: Any) -> Any:
    """The gradient of `f` at constants, for all of them."""
    xs = [tf.constant(v) for v in values]
    with tf.GradientTape() as tape:
        tape.watch(xs)
        y = f(*xs)
    made = tape.gradient(y, xs, **options)
    return made[0] if len(made) == 1 else made


# ---------------------------------------------------------------- targets


@pytest.mark.parametrize(
    "pack",
    [
        lambda a, b: [a, b],
        lambda a, b: (a, b),
        lambda a, b: {"a": a, "b": b},
        lambda a, b: Pair(a, b),
        lambda a, b: [a, {"k": (b,)}],
    ],
)
def test_gradient_of_a_structure_is_that_of_the_sum_of_all_elements(pack: Any) -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        targets = pack(x * x, 3.0 * x)
    assert tape.gradient(targets, x).numpy().tolist() == [5.0, 7.0]


def test_repeated_targets_count_repeatedly() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = x * x
    assert tape.gradient([y, y, y], x).numpy() == 18.0


def test_target_none_is_a_type_error_that_names_it() -> None:
    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = x * x
    with pytest.raises(TypeError, match="target"):
        tape.gradient(None, x)
    assert tape.gradient(y, x).numpy() == 2.0  # nothing was used up


def test_none_inside_targets_or_sources_is_a_type_error_about_its_dtype() -> None:
    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = x * x
    with pytest.raises(TypeError, match="dtype"):
        tape.gradient([y, None], x)
    with pytest.raises(TypeError, match="dtype"):
        tape.gradient(y, [x, None])


def test_empty_targets_give_none_everywhere() -> None:
    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        x * x
    assert tape.gradient([], [x]) == [None]


def test_target_that_is_the_source_gives_ones() -> None:
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        pass
    assert tape.gradient(x, x).numpy().tolist() == [1.0, 1.0]


def test_source_among_the_targets_adds_one() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = x * x
    assert tape.gradient([x, y], x).numpy() == 7.0


def test_variable_as_target() -> None:
    v, w = tf.Variable(3.0), tf.Variable(4.0)
    with tf.GradientTape(persistent=True) as tape:
        v * w
    assert tape.gradient(v, v).numpy() == 1.0
    assert tape.gradient(v, w) is None


@pytest.mark.parametrize("kind", ["int", "bool", "string"])
def test_targets_that_are_not_floating_contribute_nothing(kind: str) -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        y = x * x
        other = {"int": lambda: tf.cast(x, tf.int32), "bool": lambda: x > 0.0, "string": lambda: tf.constant("s")}[
            kind
        ]()
    assert tape.gradient(other, x) is None
    assert tape.gradient([y, other], x).numpy() == 6.0


def test_path_through_an_integer_cast_is_cut() -> None:
    assert grad(lambda x: tf.cast(tf.cast(x, tf.int32), tf.float32) * 2.0, 3.0) is None


# ---------------------------------------------------------------- sources


def test_result_has_the_structure_of_the_sources() -> None:
    x, y = tf.Variable(2.0), tf.Variable(5.0)
    with tf.GradientTape(persistent=True) as tape:
        z = x * y
    assert tape.gradient(z, x).numpy() == 5.0
    assert [g.numpy() for g in tape.gradient(z, [x, y])] == [5.0, 2.0]
    assert isinstance(tape.gradient(z, (x, y)), tuple)
    by_key = tape.gradient(z, {"y": y, "x": x})
    assert {k: g.numpy() for k, g in by_key.items()} == {"x": 5.0, "y": 2.0}
    assert tape.gradient(z, Pair(x, y)).b.numpy() == 2.0
    nested = tape.gradient(z, [x, {"k": (y, [x])}])
    assert nested[0].numpy() == nested[1]["k"][1][0].numpy() == 5.0
    assert tape.gradient(z, []) == []


def test_duplicated_sources_each_get_the_full_gradient() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = x * x
    assert [g.numpy() for g in tape.gradient(y, [x, x])] == [6.0, 6.0]


def test_gradient_has_the_shape_and_dtype_of_its_source_through_broadcasts_and_casts() -> None:
    x = tf.constant([[1.0, 2.0]], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.cast(x, tf.float32) * tf.ones([3, 2])
    g = tape.gradient(y, x)
    assert g.dtype == tf.float64 and g.shape == (1, 2)
    assert g.numpy().tolist() == [[3.0, 3.0]]


def test_source_may_be_an_intermediate_tensor() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = x * x
        z = y * y
    assert [g.numpy() for g in tape.gradient(z, [y, x])] == [18.0, 108.0]


def test_source_downstream_of_the_target_is_none() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = x * x
        z = y * y
    assert tape.gradient(y, z) is None


@pytest.mark.parametrize("thing", [3.0, np.array(3.0), "x"], ids=["float", "ndarray", "str"])
def test_numbers_and_arrays_are_neither_sources_nor_targets(thing: Any) -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = x * x
    for error in (AttributeError, TypeError):  # TensorFlow raises either: code that expects one of them works
        with pytest.raises(error, match="must be a tensor or a variable"):
            tape.gradient(y, thing)
        with pytest.raises(error, match="must be a tensor or a variable"):
            tape.gradient(thing, x)
    assert tape.gradient(y, x).numpy() == 6.0


# ---------------------------------------------------------------- output_gradients


def test_list_of_numbers_is_matched_to_targets_by_position() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        y = x * x
        z = 3.0 * x
    assert tape.gradient(y, x, output_gradients=[3.0, 4.0]).numpy().tolist() == [6.0, 12.0]
    assert tape.gradient(y, x, output_gradients=[tf.constant([3.0, 4.0])]).numpy().tolist() == [6.0, 16.0]
    weights = {"a": tf.constant([1.0, 0.0]), "b": tf.constant([0.0, 1.0])}
    assert tape.gradient([y, z], x, output_gradients=weights).numpy().tolist() == [2.0, 3.0]


def test_spare_output_gradients_are_ignored_and_none_at_all_means_ones() -> None:
    x = tf.Variable([0.0, 0.1])
    with tf.GradientTape(persistent=True) as tape:
        y = 2.0 * x
    spare = [tf.constant([1.0, 2.0]), tf.constant([2.0, 2.0])]
    assert tape.gradient(y, x, output_gradients=spare).numpy().tolist() == [2.0, 4.0]
    assert tape.gradient(y, x, output_gradients=[]).numpy().tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "weight",
    [tf.constant([1.0, 2.0]), np.array([1.0, 2.0], np.float32), tf.Variable([1.0, 2.0])],
    ids=["tensor", "array", "variable"],
)
def test_output_gradients_may_be_tensors_arrays_and_variables(weight: Any) -> None:
    assert grad(lambda x: x * x, [1.0, 2.0], output_gradients=weight).numpy().tolist() == [2.0, 8.0]


def test_python_float_is_broadcast() -> None:
    assert grad(lambda x: x * x, [1.0, 2.0], output_gradients=-1.0).numpy().tolist() == [-2.0, -4.0]


def test_output_gradient_of_another_dtype_is_an_error() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = x * x
    with pytest.raises(tf.errors.InvalidArgumentError):
        tape.gradient(y, x, output_gradients=np.array([1.0, 2.0]))


def test_python_int_is_taken_as_a_number() -> None:
    # Section 13: TensorFlow refuses it.
    assert grad(lambda x: x * x, 3.0, output_gradients=2).numpy() == 12.0


def test_none_among_output_gradients_means_ones_for_that_target() -> None:
    # Section 13: TensorFlow raises a ValueError.
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y, z = x * x, 2.0 * x
    assert tape.gradient([y, z], x, output_gradients=[None, 10.0]).numpy() == 26.0


def test_too_few_output_gradients_mean_ones_for_the_rest() -> None:
    # Section 13: TensorFlow reads out of bounds.
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y, z = x * x, 2.0 * x
    assert tape.gradient([y, z], x, output_gradients=[10.0]).numpy() == 62.0


def test_one_element_weight_fits_a_scalar_target() -> None:
    got = grad(lambda x: tf.reduce_mean(x * x), [1.0, 2.0], output_gradients=tf.constant([-1.0]))
    assert got.numpy().tolist() == [-1.0, -2.0]


def test_weight_of_another_shape_is_an_error_and_the_tape_works_on() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = x * x
    with pytest.raises(tf.errors.InvalidArgumentError, match="shape"):
        tape.gradient(y, x, output_gradients=tf.constant([1.0, 2.0, 3.0]))
    with tape:
        y = x * x
    assert tape.gradient(y, x).numpy().tolist() == [2.0, 4.0]


def test_output_gradients_are_differentiated_by_an_outer_tape() -> None:
    x, w = tf.Variable(3.0), tf.Variable(5.0)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = x * x
        dy = inner.gradient(y, x, output_gradients=w * w)
    assert [g.numpy() for g in outer.gradient(dy, [w, x])] == [60.0, 50.0]


# ---------------------------------------------------------------- unconnected_gradients


@pytest.mark.parametrize("option", ["zero", tf.UnconnectedGradients.ZERO, tf.UnconnectedGradients("zero")])
def test_zero_gives_zeros_of_the_sources_shape_and_dtype(option: Any) -> None:
    x, v = tf.Variable(3.0), tf.Variable([1.0, 2.0], dtype=tf.float64)
    unwatched, whole = tf.constant([[1.0]]), tf.Variable([1, 2])
    with tf.GradientTape() as tape:
        y = x * x
    made = tape.gradient(y, [v, unwatched, whole, x], unconnected_gradients=option)
    assert [(g.shape.as_list(), g.dtype) for g in made[:3]] == [
        ([2], tf.float64),
        ([1, 1], tf.float32),
        ([2], tf.int32),
    ]
    assert not any(np.any(g.numpy()) for g in made[:3])
    assert made[3].numpy() == 6.0


@pytest.mark.parametrize("option", ["none", tf.UnconnectedGradients.NONE])
def test_none_gives_none(option: Any) -> None:
    x, v = tf.Variable(3.0), tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = x * x
    assert tape.gradient(y, v, unconnected_gradients=option) is None


def test_the_options_have_these_values() -> None:
    assert (tf.UnconnectedGradients.NONE.value, tf.UnconnectedGradients.ZERO.value) == ("none", "zero")


@pytest.mark.parametrize("option", ["nonsense", None, 0, "ZERO"], ids=repr)
def test_unknown_option_is_an_error_that_quotes_it(option: Any) -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = x * x
    with pytest.raises(ValueError) as caught:
        tape.gradient(y, x, unconnected_gradients=option)
    assert str(caught.value) == f"Unknown value for unconnected_gradients: {option!r}"
    assert tape.gradient(y, x).numpy() == 6.0


# ---------------------------------------------------------------- None or zeros


def test_sign_is_connected_and_gives_zeros() -> None:
    assert grad(tf.sign, [-2.0, 0.0, 3.0]).numpy().tolist() == [0.0, 0.0, 0.0]


CUT: dict[str, Callable[[Any], Any]] = {
    "floor": tf.floor,
    "ceil": tf.math.ceil,
    "round": lambda x: tf.round(x),
    "rint": lambda x: tf.math.rint(x),
    "argmax": lambda x: tf.cast(tf.argmax(x), tf.float32),
    "comparison": lambda x: tf.cast(x > 0.0, tf.float32),
    "cast to int": lambda x: tf.cast(tf.cast(x, tf.int32), tf.float32),
    "floordiv": lambda x: x // 2.0,
    "zeros_like": tf.zeros_like,
    "ones_like": tf.ones_like,
    "shape": lambda x: tf.cast(tf.shape(x), tf.float32),
    "size": lambda x: tf.cast(tf.size(x), tf.float32),
    "one_hot": lambda x: tf.one_hot(tf.cast(x, tf.int32), 3),
    "range": lambda x: tf.range(x[1]),
}


@pytest.mark.parametrize("name", CUT)
def test_op_without_a_derivative_gives_none(name: str) -> None:
    assert grad(CUT[name], [1.5, 2.5]) is None


# ---------------------------------------------------------------- IndexedSlices


def lookup(index: Any, **options: Any) -> Any:
    table = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    with tf.GradientTape() as tape:
        y = tf.gather(table, index, **options)
    return tape.gradient(y, table)


def test_gather_along_axis_0_gives_one_row_per_lookup_with_duplicates() -> None:
    g = lookup([0, 2, 0])
    assert isinstance(g, tf.IndexedSlices)
    assert g.values.numpy().tolist() == [[1.0, 1.0]] * 3
    assert g.indices.numpy().tolist() == [0, 2, 0]
    assert g.dense_shape.numpy().tolist() == [3, 2]
    assert g.shape == (3, 2) and g.dtype == tf.float32
    assert tf.convert_to_tensor(g).numpy().tolist() == [[2.0, 2.0], [0.0, 0.0], [1.0, 1.0]]


def test_scalar_index_gives_one_row() -> None:
    g = lookup(1)
    assert isinstance(g, tf.IndexedSlices)
    assert g.values.shape == (1, 2) and g.indices.numpy().tolist() == [1]


def test_embedding_lookup_flattens_its_ids() -> None:
    table = tf.Variable([[1.0], [2.0]])
    with tf.GradientTape() as tape:
        y = tf.nn.embedding_lookup(table, [[0, 1], [1, 1]])
    g = tape.gradient(y, table)
    assert g.indices.numpy().tolist() == [0, 1, 1, 1] and g.values.shape == (4, 1)


def test_embedding_lookup_takes_tables_one_behind_the_other() -> None:
    first, second = tf.Variable([[1.0, 2.0], [3.0, 4.0], [9.0, 9.0]]), tf.Variable([[5.0, 6.0], [7.0, 8.0]])
    with tf.GradientTape() as tape:
        rows = tf.nn.embedding_lookup([first, second], [[4, 0], [2, 4]])
        y = rows * tf.constant([[[1.0], [2.0]], [[3.0], [4.0]]])
    np.testing.assert_array_equal(rows, [[[7.0, 8.0], [1.0, 2.0]], [[9.0, 9.0], [7.0, 8.0]]])
    of_first, of_second = tape.gradient(y, [first, second])
    assert of_first.indices.numpy().tolist() == [0, 2] and of_second.indices.numpy().tolist() == [1, 1]
    assert of_first.indices.dtype == tf.int32
    np.testing.assert_array_equal(tf.convert_to_tensor(of_first), [[2.0, 2.0], [0.0, 0.0], [3.0, 3.0]])
    np.testing.assert_array_equal(tf.convert_to_tensor(of_second), [[0.0, 0.0], [5.0, 5.0]])
    np.testing.assert_array_equal(tf.nn.embedding_lookup([first], 1), [3.0, 4.0])
    for ids in ([5], [-1]):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"not in \[0, 5\)"):
            tf.nn.embedding_lookup([first, second], ids)
    with pytest.raises(ValueError, match="at least one"):
        tf.nn.embedding_lookup([], [0])


def test_several_lookups_concatenate_and_a_dense_use_makes_dense() -> None:
    table = tf.Variable([[1.0], [2.0]])
    with tf.GradientTape(persistent=True) as tape:
        a, b = tf.gather(table, [0]), tf.gather(table, [1, 1])
        dense = tf.reduce_sum(table * table)
    both = tape.gradient([a, b], table)
    assert sorted(both.indices.numpy().tolist()) == [0, 1, 1]
    mixed = tape.gradient([a, dense], table)
    assert isinstance(mixed, tf.Tensor)
    assert mixed.numpy().tolist() == [[3.0], [4.0]]


@pytest.mark.parametrize(
    "take",
    [
        lambda x: x[1],
        lambda x: tf.gather(x, [0], axis=1),
        lambda x: tf.gather_nd(x, [[0, 1]]),
        lambda x: tf.gather(x * 1.0, [1]),
    ],
    ids=["index", "axis 1", "gather_nd", "not directly on the source"],
)
def test_other_lookups_give_a_dense_gradient(take: Any) -> None:
    g = grad(take, [[1.0, 2.0], [3.0, 4.0]])
    assert isinstance(g, tf.Tensor) and g.shape == (2, 2)


def test_indexed_slices_have_no_arithmetic() -> None:
    g = lookup([0])
    with pytest.raises(TypeError):
        g + g


def test_variables_accept_indexed_slices() -> None:
    table = tf.Variable([[1.0, 1.0], [1.0, 1.0]])
    rows = tf.IndexedSlices(tf.constant([[1.0, 2.0], [1.0, 2.0]]), tf.constant([0, 0]), tf.constant([2, 2]))
    assert table.assign_sub(rows).numpy().tolist() == [[-1.0, -3.0], [1.0, 1.0]]
    assert table.assign_add(rows).numpy().tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert table.scatter_add(rows).numpy().tolist() == [[3.0, 5.0], [1.0, 1.0]]


# ---------------------------------------------------------------- NumPy and Python around tensors


@pytest.mark.parametrize(
    ("f", "wanted"),
    [
        (lambda x: np.float32(2.0) * x, [2.0, 2.0]),
        (lambda x: np.array([2.0, 3.0], np.float32) * x, [2.0, 3.0]),
        (lambda x: np.array([[2.0, 3.0]]) @ x[:, None], [2.0, 3.0]),
        (lambda x: np.array([2.0, 3.0]) - x, [-1.0, -1.0]),
    ],
)
def test_numpy_on_the_left_stays_on_the_tape(f: Any, wanted: list[float]) -> None:
    got = grad(f, [1.0, 2.0])
    assert got.dtype == tf.float32
    assert got.numpy().tolist() == wanted


def test_numpy_functions_on_a_tensor_are_recorded() -> None:
    # Section 14: in TensorFlow they leave the tape.
    assert grad(lambda x: np.sin(x), [0.0]).numpy().tolist() == [1.0]
    assert grad(lambda x: np.mean(x), [1.0, 2.0]).numpy().tolist() == [0.5, 0.5]


def test_python_sum_max_and_lists_keep_gradients() -> None:
    assert grad(lambda x: sum(x), [1.0, 2.0]).numpy().tolist() == [1.0, 1.0]
    assert grad(lambda x: max(x), [1.0, 2.0]).numpy().tolist() == [0.0, 1.0]
    assert grad(lambda x: tf.reduce_sum(tf.stack([x, 2.0 * x])), [1.0, 2.0]).numpy().tolist() == [3.0, 3.0]
    assert grad(lambda x: tf.reduce_sum([x, 2.0 * x]), [1.0, 2.0]).numpy().tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("f", "wanted"),
    [
        (lambda x: np.sum(x * x, axis=0), [2.0, 4.0]),
        (lambda x: np.cumsum(x), [2.0, 1.0]),
        (lambda x: np.concatenate([x, x]), [2.0, 2.0]),
        (lambda x: np.stack([x, 2.0 * x]), [3.0, 3.0]),
        (lambda x: np.reshape(x, (2, 1)) @ np.ones((1, 3), np.float32), [3.0, 3.0]),
        (lambda x: np.dot(x, x), [2.0, 4.0]),
        (lambda x: np.clip(x, 0.0, 1.5), [1.0, 0.0]),
        (lambda x: np.maximum(x, 1.5), [0.0, 1.0]),
        (lambda x: np.where(x > 1.5, x, 0.0), [0.0, 1.0]),
        (lambda x: np.hypot(x, 0.0), [1.0, 1.0]),
        (lambda x: np.flip(x)[0] * 3.0, [0.0, 3.0]),
    ],
)  # fmt: skip
def test_more_numpy_functions_are_recorded(f: Any, wanted: list[float]) -> None:
    assert grad(f, [1.0, 2.0]).numpy().tolist() == wanted


def test_numpy_options_are_recorded_and_arrays_to_write_into_leave_the_tape() -> None:
    x = tf.constant([1.0, 3.0])
    assert tf.is_tensor(np.std(x, ddof=1)) and tf.is_tensor(np.median(x))
    into = np.zeros(2, np.float32)
    np.add(into, x, out=into)
    assert into.tolist() == [1.0, 3.0]
    assert np.allclose(x, [1.0, 3.0])


def test_slices_as_a_target_take_a_cotangent_of_the_whole() -> None:
    x = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    weights = tf.constant([[1.0, -1.0], [2.0, 0.5], [0.25, 3.0]])

    def second(dense: bool) -> Any:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                y = tf.reduce_sum(tf.gather(x, [2, 0, 2]) ** 3)
            g = inner.gradient(y, x)
            assert isinstance(g, tf.IndexedSlices)
            g = tf.convert_to_tensor(g) if dense else g
        return tf.convert_to_tensor(outer.gradient(g, x, output_gradients=weights)).numpy()

    expected = 6.0 * x.numpy() * weights.numpy() * [[1.0], [0.0], [2.0]]
    np.testing.assert_allclose(second(dense=True), expected, rtol=1e-6)
    np.testing.assert_allclose(second(dense=False), expected, rtol=1e-6)
