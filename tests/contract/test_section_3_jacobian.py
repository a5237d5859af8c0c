"""jacobian() and batch_jacobian() (section 3 of the contract)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf


def taped(f: Any, x: Any, **options: Any) -> tuple[Any, Any, Any]:
    t = tf.constant(x)
    with tf.GradientTape(**options) as tape:
        tape.watch(t)
        y = f(t)
    return tape, y, t


def test_shape_is_that_of_target_then_source() -> None:
    tape, y, x = taped(lambda x: tf.stack([x[0] * x[1], x[1], x[0] * x[0]]), [2.0, 3.0])
    assert tape.jacobian(y, x).numpy().tolist() == [[3.0, 2.0], [0.0, 1.0], [4.0, 0.0]]


def test_scalar_source_has_the_targets_shape_and_scalar_target_gives_the_gradient() -> None:
    tape, y, x = taped(lambda x: x * tf.constant([1.0, 2.0]), 3.0)
    assert tape.jacobian(y, x).numpy().tolist() == [1.0, 2.0]
    tape, y, x = taped(lambda x: tf.reduce_sum(x * x), [1.0, 2.0])
    assert tape.jacobian(y, x).numpy().tolist() == [2.0, 4.0]


def test_structure_of_the_sources_comes_back() -> None:
    a, b = tf.Variable([1.0, 2.0]), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = a * b
    made = tape.jacobian(y, {"a": a, "b": [b]})
    assert made["a"].shape == (2, 2) and made["b"][0].shape == (2,)


def test_list_as_target_is_an_attribute_error() -> None:
    tape, y, x = taped(lambda x: x * x, [1.0, 2.0])
    with pytest.raises(AttributeError):
        tape.jacobian([y], x)


def test_unconnected_is_none_or_zeros_of_the_full_shape() -> None:
    v = tf.Variable([1.0, 2.0, 3.0])
    tape, y, _ = taped(lambda x: x * x, [1.0, 2.0], persistent=True)
    assert tape.jacobian(y, v) is None
    assert tape.jacobian(y, v, unconnected_gradients="zero").shape == (2, 3)
    with pytest.raises(ValueError, match="unconnected_gradients"):
        tape.jacobian(y, v, unconnected_gradients="nonsense")


def test_integer_target_is_none_and_empty_target_is_fine() -> None:
    tape, y, x = taped(lambda x: tf.cast(x, tf.int32), [1.0, 2.0])
    assert tape.jacobian(y, x) is None
    tape, y, x = taped(lambda x: x[:0] * 2.0, [1.0, 2.0])
    assert tape.jacobian(y, x).shape == (0, 2)


def test_jacobian_of_a_lookup_is_dense() -> None:
    tape, y, x = taped(lambda x: tf.gather(x, [1, 1]), [1.0, 2.0])
    made = tape.jacobian(y, x)
    assert isinstance(made, tf.Tensor)
    assert made.numpy().tolist() == [[0.0, 1.0], [0.0, 1.0]]


def test_target_that_is_the_source_gives_the_identity() -> None:
    tape, _, x = taped(lambda x: x, [1.0, 2.0])
    assert tape.jacobian(x, x).numpy().tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_jacobian_uses_the_tape_up() -> None:
    tape, y, x = taped(lambda x: x * x, [1.0, 2.0])
    tape.jacobian(y, x)
    with pytest.raises(RuntimeError, match="non-persistent"):
        tape.jacobian(y, x)


def test_loop_instead_of_vectorising_asks_for_a_persistent_tape() -> None:
    tape, y, x = taped(lambda x: x * x, [1.0, 2.0])
    with pytest.raises(RuntimeError, match="persistent=True"):
        tape.jacobian(y, x, experimental_use_pfor=False)
    tape, y, x = taped(lambda x: x * x, [1.0, 2.0], persistent=True)
    assert tape.jacobian(y, x, experimental_use_pfor=False).numpy().tolist() == [[2.0, 0.0], [0.0, 4.0]]


def test_hessian_by_a_jacobian_of_a_gradient() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = x[0] * x[0] * x[1]
        g = inner.gradient(y, x)
    assert outer.jacobian(g, x).numpy().tolist() == [[4.0, 2.0], [2.0, 0.0]]


def test_jacobian_of_a_jacobian() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = x * x * x
        j = inner.jacobian(y, x)
    second = outer.jacobian(j, x).numpy()
    assert second.shape == (2, 2, 2)
    assert second[0, 0, 0] == 6.0 and second[1, 1, 1] == 12.0 and np.count_nonzero(second) == 2


def test_jacobian_inside_the_block() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = x * x
        made = tape.jacobian(y, x)
    assert made.numpy().tolist() == [[2.0, 0.0], [0.0, 4.0]]


def test_untaken_branch_does_not_leak_into_a_jacobian() -> None:
    tape, y, x = taped(lambda x: tf.where(x > 0.0, tf.math.log(x), x), [0.0, 2.0])
    assert tape.jacobian(y, x).numpy().tolist() == [[1.0, 0.0], [0.0, 0.5]]


def test_jacobian_is_under_the_flag() -> None:
    tape, y, x = taped(lambda x: tf.sin(x) * x, [1.0, 2.0], verify="strict")
    np.testing.assert_allclose(
        np.diag(tape.jacobian(y, x).numpy()), np.sin([1, 2]) + np.cos([1, 2]) * [1, 2], rtol=1e-6
    )


@tf.custom_gradient
def wrong_square(x: Any) -> Any:
    return x * x, lambda g: g * x * 3.0


@pytest.mark.parametrize("method", ["jacobian", "batch_jacobian"])
def test_wrong_rule_is_found_through_jacobians(method: str) -> None:
    tape, y, x = taped(wrong_square, [[1.0, 2.0]], verify=True)
    with pytest.raises(tf.VerificationError, match="wrong_square"):
        getattr(tape, method)(y, x)


# ---------------------------------------------------------------- batch_jacobian


def test_batch_jacobian_has_one_jacobian_for_each_row() -> None:
    tape, y, x = taped(lambda x: tf.stack([x[:, 0] * x[:, 1], x[:, 1], x[:, 0]], axis=1), [[1.0, 2.0], [3.0, 4.0]])
    made = tape.batch_jacobian(y, x).numpy()
    assert made.tolist() == [[[2.0, 1.0], [0.0, 1.0], [1.0, 0.0]], [[4.0, 3.0], [0.0, 1.0], [1.0, 0.0]]]


def test_batch_jacobian_of_more_axes() -> None:
    tape, y, x = taped(lambda x: x * x, np.arange(12.0).reshape(2, 2, 3))
    made = tape.batch_jacobian(y, x).numpy()
    assert made.shape == (2, 2, 3, 2, 3)
    assert made[1, 1, 2, 1, 2] == 22.0 and made[1, 1, 2, 1, 1] == 0.0


def test_batch_jacobian_wants_rank_2_and_equal_first_dimensions() -> None:
    tape, y, x = taped(lambda x: x * x, [1.0, 2.0], persistent=True)
    with pytest.raises(ValueError, match=r"Shape \(2,\) must have rank at least 2"):
        tape.batch_jacobian(y, x)
    tape, y, x = taped(lambda x: x[:1] * 2.0, [[1.0], [2.0]], persistent=True)
    with pytest.raises(ValueError, match="Need first dimension of target shape"):
        tape.batch_jacobian(y, x)


def test_batch_jacobian_takes_one_source() -> None:
    tape, y, x = taped(lambda x: x * x, [[1.0]])
    with pytest.raises((TypeError, AttributeError)):
        tape.batch_jacobian(y, [x])


def test_batch_jacobian_of_the_unconnected_is_zeros() -> None:
    tape, y, _ = taped(lambda x: x * x, [[1.0, 2.0]])
    assert tape.batch_jacobian(y, tf.Variable([[1.0]])).numpy().tolist() == [[[0.0], [0.0]]]


def test_batch_jacobian_is_differentiable() -> None:
    x = tf.Variable([[1.0, 2.0]])
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = x * x * x
        j = inner.batch_jacobian(y, x)
    assert outer.gradient(j, x).numpy().tolist() == [[6.0, 12.0]]


# ---------------------------------------------------------------- smaller print


def test_the_options_are_positional_too() -> None:
    x, w = tf.Variable([1.0, 2.0]), tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = x * x
    assert tape.jacobian(y, w, "zero", None, True).numpy().tolist() == [0.0, 0.0]


@pytest.mark.parametrize("target", [None, 3.0, (1.0,), {"a": 1.0}], ids=repr)
def test_target_that_is_no_tensor_is_an_attribute_error(target: Any) -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
    with pytest.raises(AttributeError):
        tape.jacobian(target, x)


@pytest.mark.parametrize("sources", [None, [None], 2.0], ids=repr)
def test_source_that_is_no_tensor_is_an_error(sources: Any) -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = x * x
    with pytest.raises((TypeError, AttributeError)):
        tape.jacobian(y, sources)


@pytest.mark.parametrize("method", ["jacobian", "batch_jacobian"])
def test_a_bad_option_is_a_value_error(method: str) -> None:
    x = tf.Variable([[1.0, 2.0]])
    with tf.GradientTape() as tape:
        y = x * x
    with pytest.raises(ValueError):
        getattr(tape, method)(y, x, unconnected_gradients="bad")


@pytest.mark.parametrize("method", ["jacobian", "batch_jacobian"])
def test_without_vectorising_a_persistent_tape_is_demanded_and_enough(method: str) -> None:
    x = tf.Variable([[1.0, 2.0]])
    with tf.GradientTape() as tape:
        y = x * x
    with pytest.raises(RuntimeError, match="persistent=True"):
        getattr(tape, method)(y, x, experimental_use_pfor=False)
    with tf.GradientTape(persistent=True) as tape:
        y = x * x
    loop = getattr(tape, method)(y, x, experimental_use_pfor=False, parallel_iterations=2)
    assert loop.numpy().tolist() == getattr(tape, method)(y, x).numpy().tolist()


@pytest.mark.parametrize("method", ["jacobian", "batch_jacobian"])
def test_parallel_iterations_change_nothing(method: str) -> None:
    # Section 13: a ValueError in TensorFlow unless experimental_use_pfor=False.
    x = tf.Variable([[1.0, 2.0]])
    with tf.GradientTape(persistent=True) as tape:
        y = x * x
    made = getattr(tape, method)(y, x, parallel_iterations=3)
    assert made.numpy().tolist() == getattr(tape, method)(y, x).numpy().tolist()


def test_empty_sources_and_empty_shapes() -> None:
    x, e = tf.Variable([1.0, 2.0]), tf.Variable(np.zeros((0,), np.float32))
    with tf.GradientTape(persistent=True) as tape:
        y = x * tf.reduce_sum(e) + x
    assert tape.jacobian(y, []) == []
    assert tape.jacobian(y, e).shape == (2, 0)
    assert tape.jacobian(y, x).numpy().tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_jacobian_in_a_namedtuple_and_a_nest() -> None:
    from collections import namedtuple

    Pair = namedtuple("Pair", "a b")
    x, w = tf.Variable([1.0, 2.0]), tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        y = x * w
    made = tape.jacobian(y, Pair(x, w))
    assert isinstance(made, Pair) and made.b.numpy().tolist() == [1.0, 2.0]
    nested = tape.jacobian(y, {"w": w, "l": [x, (x,)]})
    assert nested["l"][1][0].numpy().tolist() == [[3.0, 0.0], [0.0, 3.0]]


def test_jacobian_has_the_dtype_of_its_source_through_casts() -> None:
    x = tf.Variable([1.0, 2.0], dtype=tf.float64)
    with tf.GradientTape() as tape:
        y = tf.cast(x, tf.float32) ** 2
    made = tape.jacobian(y, x)
    assert made.dtype == tf.float64 and made.numpy().tolist() == [[2.0, 0.0], [0.0, 4.0]]


def test_jacobian_by_an_intermediate_and_downstream() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        y = x * x
        z = y * y
    assert tape.jacobian(z, y).numpy().tolist() == [[2.0, 0.0], [0.0, 8.0]]
    assert tape.jacobian(y, z) is None


def test_zeros_for_an_integer_target() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = tf.cast(x, tf.int32)
    assert tape.jacobian(y, x, unconnected_gradients="zero").numpy().tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_jacobian_in_a_persistent_block_is_recorded_and_outside_it_is_not() -> None:
    x = tf.Variable([3.0, 1.0])
    with tf.GradientTape(persistent=True) as tape:
        y = x**3
        inside = tape.jacobian(y, x)
    outside = tape.jacobian(y, x)
    assert tape.gradient(inside, x).numpy().tolist() == [18.0, 6.0]
    assert tape.gradient(outside, x) is None


@pytest.mark.parametrize("which", ["target", "source"])
def test_batch_jacobian_of_lists_is_an_attribute_error(which: str) -> None:
    x = tf.Variable([[1.0, 2.0]])
    with tf.GradientTape() as tape:
        y = x * x
    with pytest.raises(AttributeError):
        tape.batch_jacobian(*(([y], x) if which == "target" else (y, [x])))


@pytest.mark.parametrize(("shape", "text"), [((), r"\(\)"), ((2,), r"\(2,\)")])
def test_batch_jacobian_names_the_shape_that_has_too_little_rank(shape: tuple[int, ...], text: str) -> None:
    x = tf.Variable(np.ones(shape, np.float32))
    with tf.GradientTape() as tape:
        y = x * x
    with pytest.raises(ValueError, match=f"Shape {text} must have rank at least 2"):
        tape.batch_jacobian(y, x)


def test_batch_jacobian_of_unequal_batches() -> None:
    x = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape() as tape:
        y = tf.reshape(x * x, [1, 4])
    with pytest.raises(ValueError, match="Need first dimension of target shape"):
        tape.batch_jacobian(y, x)


def test_batch_jacobian_sums_over_rows_that_depend_on_each_other() -> None:
    x = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape() as tape:
        y = x * tf.reduce_sum(x)
    assert tape.batch_jacobian(y, x).numpy().tolist() == [[[14.0, 4.0], [6.0, 16.0]], [[14.0, 4.0], [6.0, 16.0]]]


def test_batch_jacobian_of_nothing() -> None:
    for rows, columns in ((0, 2), (2, 0)):
        x = tf.Variable(np.ones((rows, 2), np.float32))
        with tf.GradientTape() as tape:
            y = (x * x)[:, :columns]
        assert tape.batch_jacobian(y, x).shape == (rows, columns, 2)


def test_batch_jacobian_of_itself_is_the_identity_and_of_integers_zero() -> None:
    x = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape(persistent=True) as tape:
        n = tf.cast(x, tf.int32)
    assert tape.batch_jacobian(x, x).numpy().tolist() == [np.eye(2).tolist()] * 2
    assert not tape.batch_jacobian(n, x).numpy().any()


def test_jacobian_of_layers_is_that_of_one_gradient_an_element() -> None:
    rng = np.random.default_rng(3)
    w = tf.Variable(rng.normal(size=(3, 4)))
    row = tf.Variable(rng.normal(size=(1, 4)))
    column = tf.Variable(rng.normal(size=(4, 1)))

    def outputs() -> dict[str, Any]:
        inner = tf.sin(column)
        hidden = tf.tanh(tf.matmul(w, inner))
        return {
            "column": hidden,
            "row": tf.exp(tf.matmul(row, w, transpose_b=True)),
            "vector": tf.sigmoid(tf.linalg.matvec(w, tf.reshape(inner, [4]))),
            "twice": tf.tanh(tf.matmul(w, inner)) * hidden + tf.matmul(w, column),
            "elementwise": column * tf.exp(column) - inner,
            "itself": column,
        }

    for name in outputs():
        with tf.GradientTape() as tape:
            y = outputs()[name]
        jacobians = tape.jacobian(y, [w, row, column])
        for i in range(y.shape.num_elements()):
            with tf.GradientTape() as tape:
                element = tf.reshape(outputs()[name], [-1])[i]
            for whole, one in zip(jacobians, tape.gradient(element, [w, row, column]), strict=True):
                assert (whole is None) == (one is None), name
                if whole is not None:
                    flat = tf.reshape(whole, [-1, *one.shape])
                    np.testing.assert_allclose(flat[i], one, rtol=1e-13, atol=1e-15, err_msg=name)


def test_jacobian_by_a_result_on_the_way_counts_all_paths() -> None:
    x = tf.Variable([[0.5], [1.0]])
    with tf.GradientTape() as tape:
        h = tf.sin(x)
        y = h * tf.exp(h) + h
    s = np.sin([0.5, 1.0])
    np.testing.assert_allclose(
        tf.reshape(tape.jacobian(y, h), [2, 2]),
        np.diag(1 + (1 + s) * np.exp(s)),
        rtol=1e-6,
    )


@pytest.mark.parametrize(
    "product",
    [
        lambda w, x: tf.matmul(w, x),
        lambda w, x: tf.transpose(tf.matmul(x, w, transpose_a=True, transpose_b=True)),
        tf.linalg.matvec,
    ],
    ids=["column", "row", "matvec"],
)
@pytest.mark.parametrize("persistent", [False, True])
def test_jacobian_by_a_product_on_the_way_is_connected(product: Any, persistent: bool) -> None:
    w = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    x = tf.Variable([0.5, -1.0] if product is tf.linalg.matvec else [[0.5], [-1.0]])
    with tf.GradientTape(persistent=persistent) as tape:
        h = product(w, x)
        y = tf.exp(h)
    by_h, by_x = tape.jacobian(y, [h, x])
    slopes = np.exp(h.numpy().ravel())
    np.testing.assert_allclose(tf.reshape(by_h, [2, 2]), np.diag(slopes), rtol=1e-6)
    np.testing.assert_allclose(tf.reshape(by_x, [2, 2]), np.diag(slopes) @ w.numpy(), rtol=1e-6)


def test_jacobian_of_slices_is_that_of_the_whole_array() -> None:
    x = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    made = []
    for dense in (False, True):
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                y = tf.reduce_sum(tf.gather(x, [0, 0, 2]) ** 3)
            g = inner.gradient(y, x)
            assert isinstance(g, tf.IndexedSlices)
            target = tf.convert_to_tensor(g) if dense else g
        made.append(outer.jacobian(target, x).numpy())
    assert made[0].shape == (3, 2, 3, 2)
    np.testing.assert_array_equal(*made)


def test_jacobians_have_the_same_bits_at_every_call() -> None:
    # After some calls with one layout, functions that are written for the layout replace the rules.
    w, x = tf.Variable(np.linspace(-1, 1, 12).reshape(4, 3)), tf.constant(np.linspace(0.1, 2, 3))

    def curvature() -> bytes:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                h = tf.tanh(tf.linalg.matvec(w, x)) * tf.reduce_sum(x)
                y = tf.reduce_mean(tf.nn.softmax(h) * tf.cumsum(h))
            g = inner.gradient(y, x)
        made: bytes = outer.jacobian(g, x).numpy().tobytes()
        return made

    assert len({curvature() for _ in range(30)}) == 1


def _spd(x: Any) -> Any:
    return tf.matmul(x, x, transpose_b=True) + tf.eye(2, dtype=x.dtype)


@pytest.mark.parametrize(
    "f",
    [
        tf.nn.softmax,
        lambda x: tf.nn.log_softmax(x, axis=0),
        lambda x: tf.reduce_logsumexp(x, 1),
        lambda x: tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(x[::-1]), x),
        lambda x: tf.linalg.solve(_spd(x), x),
        lambda x: tf.linalg.cholesky(_spd(x)),
        lambda x: tf.linalg.logdet(_spd(x)),
        lambda x: tf.linalg.cross(x, x[::-1]),
        lambda x: tf.linalg.inv(_spd(x)) @ x,
    ],
    ids=["softmax", "log_softmax", "logsumexp", "cross_entropy", "solve", "cholesky", "logdet", "cross", "inv"],
)
def test_a_jacobian_is_differentiated_as_its_rows_are(f: Any) -> None:
    x = tf.constant([[1.1, 1.7, 1.2], [1.4, 1.25, 2.1]], tf.float64)
    slopes = []
    for whole in (True, False):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape(persistent=True) as inner:
                inner.watch(x)
                y = f(x)
                elements = tf.unstack(tf.reshape(y, [-1]))
            if whole:
                j = inner.jacobian(y, x)
            else:
                j = tf.stack([inner.gradient(e, x) for e in elements])
            z = tf.reduce_sum(tf.sin(j))
        slopes.append(outer.gradient(z, x).numpy())
    assert slopes[0].shape == x.shape
    assert np.allclose(slopes[0], slopes[1], rtol=1e-9, atol=1e-12)


def test_the_bits_of_a_jacobian_do_not_depend_on_what_outlived_former_tapes() -> None:
    x = tf.constant([1.1, 2.0, -0.1], tf.float64)

    def hessian() -> bytes:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.reduce_sum(tf.sin(x) * x)
            g = inner.gradient(y, x)
        made: bytes = outer.jacobian(g, x).numpy().tobytes()
        return made

    usual = hessian()
    kept = []
    for _ in range(3):  # a result that outlives its tape makes the next tapes track theirs
        with tf.GradientTape() as tape:
            tape.watch(x)
            kept.append(x * x)
        assert tape.gradient(x, x) is not None
    assert hessian() == usual


@pytest.mark.parametrize("outlived", [False, True])
def test_a_persistent_tape_keeps_its_records_after_a_jacobian(outlived: bool) -> None:
    x = tf.constant([[2.0, 1.0], [1.0, 3.0]])
    kept = []
    if outlived:
        with tf.GradientTape() as former:
            former.watch(x)
            kept.append(x * x)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = tf.reduce_sum(x * x)
    for _ in range(2):
        np.testing.assert_array_equal(tape.jacobian(y, x), 2 * x)
        np.testing.assert_array_equal(tape.gradient(y, x), 2 * x)
