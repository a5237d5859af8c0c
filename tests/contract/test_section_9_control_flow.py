"""Branches, loops, folds, TensorArray and plain Python in between (section 9 of the contract)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf

# ---------------------------------------------------------------- cond, case, switch_case


def test_cond_runs_one_branch_and_gradients_flow_through_it() -> None:
    ran = []
    x = tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        y = tf.cond(x > 0.0, lambda: (ran.append("true"), x * x)[1], lambda: (ran.append("false"), -x)[1])
        z = tf.cond(tf.constant(False), true_fn=lambda: x * x, false_fn=lambda: -x)
    assert ran == ["true"]
    assert (tape.gradient(y, x).numpy(), tape.gradient(z, x).numpy()) == (6.0, -1.0)


def test_cond_returns_what_the_branch_returns() -> None:
    assert tf.cond(True, lambda: {"a": (1, None)}, lambda: 2) == {"a": (1, None)}


@pytest.mark.parametrize(("true_fn", "false_fn"), [(None, lambda: 1), (lambda: 1, None), (1.0, lambda: 1)])
def test_cond_needs_two_functions(true_fn: Any, false_fn: Any) -> None:
    with pytest.raises(TypeError, match="must be callable"):
        tf.cond(True, true_fn, false_fn)


def test_case_takes_the_first_true_predicate() -> None:
    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = tf.case([(x < 1.0, lambda: x), (x < 5.0, lambda: x * x), (x < 9.0, lambda: -x)], default=lambda: 0.0 * x)
    assert tape.gradient(y, x).numpy() == 4.0


def test_case_falls_back_to_the_default_and_says_so_when_there_is_none() -> None:
    false = tf.constant(False)
    assert tf.case([(false, lambda: 1)], default=lambda: 2) == 2
    with pytest.raises(tf.errors.InvalidArgumentError, match="None of the conditions evaluated as True"):
        tf.case([(false, lambda: 1)])


def test_case_exclusive_refuses_two_true_predicates() -> None:
    true = tf.constant(True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="more than 1 conditions"):
        tf.case([(true, lambda: 1), (true, lambda: 2)], exclusive=True)
    assert tf.case([(true, lambda: 1), (true, lambda: 2)]) == 1


def test_case_unpacks_a_list_of_one_unless_strict() -> None:
    true = tf.constant(True)
    assert tf.case([(true, lambda: [1])]) == 1
    assert tf.case([(true, lambda: [1])], strict=True) == [1]


def test_case_refuses_what_is_no_predicate_or_function() -> None:
    with pytest.raises(TypeError, match="bool"):
        tf.case([(tf.constant(1), lambda: 1)])
    with pytest.raises(TypeError, match="callable"):
        tf.case([(tf.constant(True), 1)])
    with pytest.raises(TypeError, match="2-tuple"):
        tf.case([tf.constant(True)])
    with pytest.raises(TypeError, match="list, tuple or dict"):
        tf.case(3)


@pytest.mark.parametrize(("index", "wanted"), [(0, 3.0), (1, 6.0), (2, -1.0), (7, -1.0), (-1, -1.0)])
def test_switch_case_picks_by_number_and_the_last_for_any_other(index: int, wanted: float) -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = tf.switch_case(tf.constant(index), [lambda: 3.0 * x, lambda: x * x, lambda: -x])
    assert tape.gradient(y, x).numpy() == wanted


def test_switch_case_takes_numbered_functions_and_a_default() -> None:
    branches = {0: lambda: "zero", 1: lambda: "one"}
    assert tf.switch_case(tf.constant(1), branches, default=lambda: "none") == "one"
    assert tf.switch_case(tf.constant(2), branches, default=lambda: "none") == "none"
    assert tf.switch_case(tf.constant(2), [(1, lambda: "one"), (0, lambda: "zero")]) == "one"


@pytest.mark.parametrize("keys", [(0, 3), (1, 2), (-1, 0), (4,)])
@pytest.mark.parametrize("default", [None, lambda: "none"])
def test_switch_case_refuses_numbers_with_gaps(keys: Any, default: Any) -> None:
    for branches in ({k: lambda: "one" for k in keys}, [(k, lambda: "one") for k in keys]):
        with pytest.raises(ValueError, match="from 0"):
            tf.switch_case(tf.constant(0), branches, default=default)


@pytest.mark.parametrize("made", [lambda v: (v, v), lambda v: [v], lambda v: {"a": v}])
@pytest.mark.parametrize("signature", [None, tf.float32])
def test_map_fn_refuses_a_structure_that_its_signature_does_not_have(made: Any, signature: Any) -> None:
    with pytest.raises(ValueError, match="structure"):
        tf.map_fn(made, tf.constant([1.0, 2.0]), fn_output_signature=signature)


def test_switch_case_refuses_what_it_cannot_switch_by() -> None:
    with pytest.raises(TypeError, match="must be a Tensor"):
        tf.switch_case(1, [lambda: 1])
    with pytest.raises(TypeError, match="integer"):
        tf.switch_case(tf.constant(1.0), [lambda: 1])
    with pytest.raises(ValueError, match="at least one"):
        tf.switch_case(tf.constant(1), [])
    with pytest.raises(TypeError, match="callable"):
        tf.switch_case(tf.constant(1), {0: 5})
    with pytest.raises(ValueError, match="twice"):
        tf.switch_case(tf.constant(1), [(1, lambda: 1), (1, lambda: 2)])


# ---------------------------------------------------------------- while_loop


def test_while_loop_is_differentiable_at_every_order() -> None:
    x = tf.Variable(2.0)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), [0, tf.constant(1.0)])
        dy = inner.gradient(y, x)
    assert (y.numpy(), dy.numpy(), outer.gradient(dy, x).numpy()) == (8.0, 12.0, 12.0)


def test_while_loop_differentiates_with_respect_to_its_variables() -> None:
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        (y,) = tf.while_loop(lambda v: v < 1000.0, lambda v: (v * v,), [x])
    assert tape.gradient(y, x).numpy() == 8.0 * 3.0**7


def test_while_loop_stops_after_maximum_iterations() -> None:
    (n,) = tf.while_loop(lambda i: True, lambda i: (i + 1,), [tf.constant(0)], maximum_iterations=5)
    assert n.numpy() == 5
    (n,) = tf.while_loop(lambda i: True, lambda i: (i + 1,), [0], maximum_iterations=tf.constant(2))
    assert n.numpy() == 2 and n.dtype == tf.int32
    with pytest.raises(ValueError, match="scalar"):
        tf.while_loop(lambda i: True, lambda i: (i + 1,), [0], maximum_iterations=[1, 2])


def test_while_loop_carries_structures_and_tensor_arrays() -> None:
    def body(i: Any, state: Any, ta: Any) -> Any:
        state = {"a": state["a"] + i, "b": state["b"] * 2}
        return i + 1, state, ta.write(i, state["a"])

    start = (tf.constant(0), {"a": tf.constant(0), "b": tf.constant(1)}, tf.TensorArray(tf.int32, 3))
    i, state, ta = tf.while_loop(lambda i, *_: i < 3, body, start)
    assert (i.numpy(), state["a"].numpy(), state["b"].numpy()) == (3, 3, 8)
    assert ta.stack().numpy().tolist() == [0, 1, 3]


def test_while_loop_says_what_is_wrong() -> None:
    with pytest.raises(TypeError, match="'cond' must be a callable"):
        tf.while_loop(True, lambda i: i, [0])
    with pytest.raises(TypeError, match="'body' must be a callable"):
        tf.while_loop(lambda i: True, None, [0])
    with pytest.raises(ValueError, match="loop_vars"):
        tf.while_loop(lambda: True, lambda: (), [])
    with pytest.raises(ValueError, match="structure"):
        tf.while_loop(lambda i, j: i < 2, lambda i, j: (i + 1, j, j), [0, 0])


def test_while_loop_without_back_prop_gives_constants() -> None:
    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), (0, 1.0), back_prop=False)
    assert tape.gradient(y, x) is None


# ---------------------------------------------------------------- map_fn, vectorized_map


def test_map_fn_stacks_what_the_function_returns_and_is_differentiable() -> None:
    x = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape() as tape:
        y = tf.map_fn(lambda row: tf.reduce_prod(row), x)
    assert y.numpy().tolist() == [2.0, 12.0]
    assert tape.gradient(y, x).numpy().tolist() == [[2.0, 1.0], [4.0, 3.0]]


def test_map_fn_takes_and_gives_structures() -> None:
    elems = {"a": tf.constant([1.0, 2.0]), "b": tf.constant([10, 20])}
    made = tf.map_fn(
        lambda e: (e["a"] * 2.0, e["b"] + 1), elems, fn_output_signature=(tf.float32, tf.TensorSpec([], tf.int32))
    )
    assert [m.numpy().tolist() for m in made] == [[2.0, 4.0], [11, 21]]
    same = tf.map_fn(lambda e: e, elems)
    assert list(same) == ["a", "b"] and same["b"].numpy().tolist() == [10, 20]


def test_map_fn_checks_results_against_the_signature() -> None:
    x = tf.constant([1.0, 2.0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="fn_output_signature"):
        tf.map_fn(lambda v: tf.cast(v, tf.int32), x)
    assert tf.map_fn(lambda v: tf.cast(v, tf.int32), x, fn_output_signature=tf.int32).dtype == tf.int32
    assert tf.map_fn(lambda v: tf.cast(v, tf.int32), x, dtype=tf.int32).dtype == tf.int32
    with pytest.raises((ValueError, TypeError)):
        tf.map_fn(lambda v: (v, v), x, fn_output_signature={"a": tf.float32})
    with pytest.raises(ValueError, match="shape"):
        tf.map_fn(lambda v: [v, v], x, fn_output_signature=tf.TensorSpec([3], tf.float32))


def test_map_fn_says_what_is_wrong_with_its_arguments() -> None:
    with pytest.raises(TypeError, match="callable"):
        tf.map_fn(3, tf.constant([1.0]))
    with pytest.raises(ValueError, match="scalar"):
        tf.map_fn(lambda v: v, [1.0, 2.0])
    with pytest.raises(ValueError, match="rows"):
        tf.map_fn(lambda v: v[0], (tf.zeros([2]), tf.zeros([3])))


def test_map_fn_of_no_rows_is_empty() -> None:
    made = tf.map_fn(lambda v: v, tf.zeros([0]), fn_output_signature=tf.TensorSpec([2], tf.float64))
    assert made.shape == (0, 2) and made.dtype == tf.float64


def test_vectorized_map_takes_any_structure_and_is_differentiable() -> None:
    x = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape() as tape:
        made = tf.vectorized_map(lambda r: {"dot": tf.tensordot(r, r, 1), "one": tf.constant(1.0)}, x)
    assert made["dot"].numpy().tolist() == [5.0, 25.0] and made["one"].numpy().tolist() == [1.0, 1.0]
    np.testing.assert_array_equal(tape.gradient(made["dot"], x).numpy(), 2 * x.numpy())


def test_vectorized_map_repeats_a_single_row() -> None:
    made = tf.vectorized_map(lambda e: e[0] + e[1], (tf.constant([1.0, 2.0, 3.0]), tf.constant([10.0])))
    assert made.numpy().tolist() == [11.0, 12.0, 13.0]


# ---------------------------------------------------------------- scan, foldl, foldr


def test_scan_keeps_every_accumulator() -> None:
    x = tf.Variable([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        y = tf.scan(lambda a, v: a * v, x, initializer=2.0)
    assert y.numpy().tolist() == [2.0, 4.0, 12.0]
    assert tape.gradient(y, x).numpy().tolist() == [2.0 + 4.0 + 12.0, 2.0 + 6.0, 4.0]


def test_scan_starts_with_the_first_row_and_goes_backwards_when_asked() -> None:
    x = tf.constant([1.0, 2.0, 3.0])
    assert tf.scan(lambda a, v: a + v, x).numpy().tolist() == [1.0, 3.0, 6.0]
    assert tf.scan(lambda a, v: a + v, x, reverse=True).numpy().tolist() == [6.0, 5.0, 3.0]
    assert tf.scan(lambda a, v: a + v, x, initializer=10.0, reverse=True).numpy().tolist() == [16.0, 15.0, 13.0]


def test_scan_carries_structures() -> None:
    n = tf.constant([1, 1, 1, 1, 1])
    made = tf.scan(lambda a, _: (a[1], a[0] + a[1]), n, initializer=(tf.constant(0), tf.constant(1)))
    assert [m.numpy().tolist() for m in made] == [[1, 1, 2, 3, 5], [1, 2, 3, 5, 8]]


def test_folds_go_from_both_ends_and_are_differentiable() -> None:
    x = tf.Variable([1.0, 2.0, 3.0])
    with tf.GradientTape(persistent=True) as tape:
        left = tf.foldl(lambda a, v: 10.0 * a + v, x)
        right = tf.foldr(lambda a, v: 10.0 * a + v, x, initializer=0.0)
    assert (left.numpy(), right.numpy()) == (123.0, 321.0)
    assert tape.gradient(left, x).numpy().tolist() == [100.0, 10.0, 1.0]
    assert tape.gradient(right, x).numpy().tolist() == [1.0, 10.0, 100.0]


@pytest.mark.parametrize("fold", [tf.foldl, tf.foldr])
@pytest.mark.parametrize("start", [2.0, 2, np.float32(2.0), np.array(2.0, np.float32)])
def test_the_first_number_of_a_fold_takes_the_dtype_of_the_rows(fold: Any, start: Any) -> None:
    x = tf.Variable([3.0, 5.0], dtype=tf.float64)
    with tf.GradientTape() as tape:
        y = fold(lambda a, v: a * v, x, initializer=start)
    assert y.dtype == tf.float64 and y.numpy() == 30.0
    assert tape.gradient(y, x).numpy().tolist() == [10.0, 6.0]
    several = fold(lambda a, v: {"p": a["p"] * v, "n": a["n"] + 1}, x, initializer={"p": start, "n": 0})
    assert several["p"].dtype == tf.float64 and several["p"].numpy() == 30.0
    assert several["n"].dtype == tf.int32 and several["n"].numpy() == 2


@pytest.mark.parametrize("fold", [tf.foldl, tf.foldr])
def test_a_fold_returns_tensors_even_of_numbers_that_no_row_changed(fold: Any) -> None:
    kept, none = fold(lambda a, v: a, tf.ones([2], tf.float64), initializer=2.0), tf.zeros([0], tf.float64)
    assert kept.dtype == tf.float32 and kept.numpy() == 2.0
    assert fold(lambda a, v: a, none, initializer=(2, 3.0))[0].dtype == tf.int32
    with pytest.raises(tf.errors.InvalidArgumentError):
        fold(lambda a, v: a * v, tf.ones([2], tf.float64), initializer=tf.constant(2.0))
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.scan(lambda a, v: a * v, tf.ones([2], tf.float64), initializer=2.0)


def test_folds_and_scans_refuse_what_has_no_rows_or_changes_its_type() -> None:
    with pytest.raises(TypeError, match="callable"):
        tf.foldl(None, tf.zeros([2]))
    with pytest.raises(tf.errors.OutOfRangeError, match="no rows"):
        tf.foldl(lambda a, v: a, tf.zeros([0]))
    assert tf.foldl(lambda a, v: a, tf.zeros([0]), initializer=7.0).numpy() == 7.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="float32 into int32"):
        tf.scan(lambda a, v: tf.cast(a, tf.int32), tf.zeros([2]))


# ---------------------------------------------------------------- TensorArray


def test_tensor_array_is_differentiable() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        ta = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
        for i in range(3):
            ta = ta.write(i, x ** float(i + 1))
        y = tf.reduce_sum(ta.stack())
    assert tape.gradient(y, x).numpy() == 1.0 + 6.0 + 27.0


def test_tensor_array_reads_each_element_once_unless_told() -> None:
    ta = tf.TensorArray(tf.float32, 2).write(0, 1.0)
    assert ta.read(0).numpy() == 1.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="Could not read index 0 twice"):
        ta.read(0)
    ta = tf.TensorArray(tf.float32, 2, clear_after_read=False).write(0, 1.0)
    assert ta.read(0).numpy() == ta.read(tf.constant(0)).numpy() == 1.0


def test_tensor_array_refuses_indices_outside() -> None:
    ta = tf.TensorArray(tf.float32, 2)
    with pytest.raises(tf.errors.OutOfRangeError, match="Tried to write to index 2 but array is not resizeable"):
        ta.write(2, 1.0)
    with pytest.raises(tf.errors.OutOfRangeError, match="Tried to read from index 5"):
        ta.read(5)
    with pytest.raises(tf.errors.OutOfRangeError, match="negative"):
        ta.write(-1, 1.0)


def test_tensor_array_keeps_one_dtype_and_one_shape() -> None:
    ta = tf.TensorArray(tf.float32, 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="TensorArray dtype is float32"):
        ta.write(0, tf.constant(1))
    ta.write(0, [1.0, 2.0])
    with pytest.raises(ValueError, match="Incompatible shape"):
        ta.write(1, [1.0])
    tf.TensorArray(tf.float32, 2, infer_shape=False).write(0, [1.0, 2.0]).write(1, [1.0])


def test_tensor_array_fills_what_was_not_written_with_zeros() -> None:
    ta = tf.TensorArray(tf.float32, 3).write(1, [1.0, 2.0])
    assert ta.stack().numpy().tolist() == [[0.0, 0.0], [1.0, 2.0], [0.0, 0.0]]
    assert tf.TensorArray(tf.float32, 2, element_shape=[1]).read(0).numpy().tolist() == [0.0]


def test_tensor_array_takes_rows_apart_and_puts_them_together() -> None:
    x = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    with tf.GradientTape() as tape:
        rows = tf.TensorArray(tf.float32, 3).unstack(x)
        y = tf.reduce_sum(rows.gather([2, 0]) * [[1.0], [10.0]]) + tf.reduce_sum(rows.concat())
    assert tape.gradient(y, x).numpy().tolist() == [[11.0, 11.0], [1.0, 1.0], [2.0, 2.0]]
    spread = tf.TensorArray(tf.float32, 4).scatter([3, 1], x[:2])
    assert spread.stack().numpy().tolist() == [[0.0, 0.0], [3.0, 4.0], [0.0, 0.0], [1.0, 2.0]]
    pieces = tf.TensorArray(tf.float32, 2).split(tf.constant([1.0, 2.0, 3.0]), [1, 2])
    assert pieces.read(1).numpy().tolist() == [2.0, 3.0]


def test_tensor_array_says_why_it_cannot_take_rows_apart() -> None:
    ta = tf.TensorArray(tf.float32, 2)
    with pytest.raises(ValueError, match="Cannot unstack 3 tensors"):
        ta.unstack(tf.zeros([3]))
    for value, lengths, said in ((tf.zeros([3]), [1, 1], "sum of lengths"), (tf.zeros([3]), [3], "size of lengths")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=said):
            ta.split(value, lengths)


def test_tensor_array_knows_its_size_and_dtype() -> None:
    ta = tf.TensorArray(tf.float64, 3)
    assert (ta.size().numpy(), ta.size().dtype, ta.dtype, ta.identity() is ta) == (3, tf.int32, tf.float64, True)
    with pytest.raises(ValueError, match="Size must be provided"):
        tf.TensorArray(tf.float32)


# ---------------------------------------------------------------- plain Python in between


def test_py_function_is_differentiable() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y, n = tf.py_function(lambda t: (t * t, len(t)), [x], [tf.float32, tf.int32])
    assert n.numpy() == 2 and n.dtype == tf.int32
    assert tape.gradient(y, x).numpy().tolist() == [2.0, 4.0]


def test_numpy_function_is_not() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = tf.numpy_function(lambda a: np.asarray(a) * 2, [x], tf.float32)
    assert y.numpy().tolist() == [2.0, 4.0]
    assert tape.gradient(y, x) is None


@pytest.mark.parametrize("call", [tf.py_function, tf.numpy_function])
def test_python_functions_must_return_what_they_promise(call: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Tout|expects"):
        call(lambda a: np.float64(1.0), [tf.constant(1.0)], tf.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="2 results"):
        call(lambda a: [1.0], [tf.constant(1.0)], [tf.float32, tf.float32])
    with pytest.raises(TypeError, match="callable"):
        call(None, [], tf.float32)
    assert call(lambda: None, [], []) == []


# ---------------------------------------------------------------- what only a graph needs


def test_init_scope_pauses_every_tape() -> None:
    x = tf.Variable(2.0)
    with tf.GradientTape() as outer, tf.GradientTape() as inner:
        y = x * x
        with tf.init_scope():
            z = x * x
    assert outer.gradient(z, x) is None and inner.gradient(y, x).numpy() == 4.0


def test_scopes_that_order_or_place_ops_change_nothing() -> None:
    x = tf.Variable(2.0)
    with tf.GradientTape() as tape, tf.device("/CPU:0"), tf.control_dependencies([x.assign(3.0)]):
        y = x * x
    assert tape.gradient(y, x).numpy() == 6.0
    assert tf.no_op() is None and tf.group(y, [y]) is None


def test_a_condition_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="None"):
        tf.cond(None, lambda: 1, lambda: 2)
