"""Clipping by norm, assertions, check_numerics and test.compute_gradient (section 9 of the contract)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf

IAE = tf.errors.InvalidArgumentError

# ---------------------------------------------------------------- clipping


def test_clip_by_norm_scales_down_to_the_limit() -> None:
    x = tf.constant([3.0, 4.0])
    assert tf.clip_by_norm(x, 10.0).numpy().tolist() == [3.0, 4.0]
    np.testing.assert_allclose(tf.clip_by_norm(x, 2.5).numpy(), [1.5, 2.0], rtol=1e-6)


def test_clip_by_norm_takes_norms_along_axes() -> None:
    x = tf.constant([[3.0, 4.0], [0.3, 0.4]])
    np.testing.assert_allclose(tf.clip_by_norm(x, 1.0, axes=1).numpy(), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)
    np.testing.assert_allclose(tf.clip_by_norm(x, 1.0, axes=[-1]).numpy(), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)


def test_clip_by_norm_at_zero_is_the_identity() -> None:
    x = tf.Variable([0.0, 0.0])
    with tf.GradientTape() as tape:
        y = tf.clip_by_norm(x, 1.0)
    assert tape.jacobian(y, x).numpy().tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_clip_by_norm_at_the_limit_has_the_derivative_of_the_clipped_formula() -> None:
    x = tf.Variable([3.0, 4.0], dtype=tf.float64)
    with tf.GradientTape() as tape:
        y = tf.clip_by_norm(x, 5.0)
    np.testing.assert_allclose(tape.jacobian(y, x).numpy(), [[16 / 25, -12 / 25], [-12 / 25, 9 / 25]], rtol=1e-12)


def test_clip_by_norm_neither_overflows_nor_takes_integers() -> None:
    np.testing.assert_allclose(tf.clip_by_norm(tf.constant([3e38, 0.0]), 2.0).numpy(), [2.0, 0.0], rtol=1e-6)
    with pytest.raises(IAE, match="floating"):
        tf.clip_by_norm(tf.constant([1, 2]), 1.0)


def test_clip_by_global_norm_scales_all_by_one_factor_and_keeps_none() -> None:
    made, norm = tf.clip_by_global_norm([tf.constant([3.0]), None, tf.constant([[4.0]])], 2.5)
    assert norm.numpy() == 5.0 and made[1] is None
    np.testing.assert_allclose([made[0].numpy()[0], made[2].numpy()[0, 0]], [1.5, 2.0], rtol=1e-6)
    made, _ = tf.clip_by_global_norm((tf.constant([3.0]), tf.constant([4.0])), 5.0)
    assert [m.numpy()[0] for m in made] == [3.0, 4.0]


def test_clip_by_global_norm_scales_indexed_slices() -> None:
    s = tf.IndexedSlices(tf.constant([[3.0], [4.0]]), tf.constant([0, 2]), tf.constant([3, 1]))
    (made,), norm = tf.clip_by_global_norm([s], 1.0)
    assert isinstance(made, tf.IndexedSlices) and norm.numpy() == 5.0
    np.testing.assert_allclose(made.values.numpy(), [[0.6], [0.8]], rtol=1e-6)
    assert made.indices.numpy().tolist() == [0, 2]


def test_clip_by_global_norm_takes_a_known_norm_and_refuses_a_single_tensor() -> None:
    (made,), norm = tf.clip_by_global_norm([tf.constant([3.0])], 1.0, use_norm=tf.constant(6.0))
    assert norm.numpy() == 6.0 and made.numpy()[0] == 0.5
    with pytest.raises(TypeError, match="sequence"):
        tf.clip_by_global_norm(tf.constant([3.0]), 1.0)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_clip_by_global_norm_of_an_infinite_norm_is_nan(bad: float) -> None:
    made, norm = tf.clip_by_global_norm([tf.constant([bad]), tf.constant([1.0])], 1.0)
    assert not np.isfinite(norm.numpy()) and np.isnan(made[0].numpy()).all() and np.isnan(made[1].numpy()).all()


def test_clip_by_global_norm_is_differentiable() -> None:
    x = tf.Variable([3.0, 4.0], dtype=tf.float64)
    with tf.GradientTape() as tape:
        (y,), _ = tf.clip_by_global_norm([x * 1.0], 1.0)
    np.testing.assert_allclose(tape.jacobian(y, x).numpy(), np.array([[16, -12], [-12, 9]]) / 125, rtol=1e-12)


def test_global_norm_skips_none_and_has_slope_zero_at_zero() -> None:
    assert tf.linalg.global_norm([tf.constant([3.0]), None, tf.constant([[4.0]])]).numpy() == 5.0
    np.testing.assert_allclose(
        tf.linalg.global_norm([tf.constant([3e200, 4e200], tf.float64)]).numpy(), 5e200, rtol=1e-15
    )
    x = tf.Variable([0.0])
    with tf.GradientTape() as tape:
        y = tf.linalg.global_norm([x])
    assert tape.gradient(y, x).numpy() == 0.0
    with pytest.raises(TypeError):
        tf.linalg.global_norm(tf.constant([1.0]))


# ---------------------------------------------------------------- check_numerics


@pytest.mark.parametrize(("value", "said"), [(np.nan, "NaN"), (np.inf, "Inf"), (-np.inf, "Inf")])
def test_check_numerics_names_what_it_found(value: float, said: str) -> None:
    with pytest.raises(IAE, match=f"^loss : Tensor had {said} values"):
        tf.debugging.check_numerics(tf.constant([1.0, value]), "loss")


def test_check_numerics_is_the_identity_for_values_and_gradients() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = tf.debugging.check_numerics(x, message="m") ** 2
        g = inner.gradient(y, x)
    assert y.numpy().tolist() == [1.0, 4.0] and g.numpy().tolist() == [2.0, 4.0]
    assert outer.gradient(g, x).numpy().tolist() == [2.0, 2.0]


def test_check_numerics_looks_at_gradients_too() -> None:
    x = tf.Variable([0.0])
    with tf.GradientTape() as tape:
        y = tf.sqrt(tf.debugging.check_numerics(x, "layer 3"))
    with pytest.raises(IAE, match="layer 3"):
        tape.gradient(y, x)


def test_check_numerics_needs_floats() -> None:
    with pytest.raises(IAE, match="int32"):
        tf.debugging.check_numerics(tf.constant([1]), "m")


# ---------------------------------------------------------------- assertions

HOLD = [
    (tf.debugging.assert_equal, (tf.constant([1, 1]), 1), (tf.constant([1, 2]), 1)),
    (tf.debugging.assert_none_equal, (tf.constant([1, 2]), 3), (tf.constant([1, 3]), 3)),
    (tf.debugging.assert_less, ([1.0, 2.0], 3.0), ([1.0, 3.0], 3.0)),
    (tf.debugging.assert_less_equal, ([1.0, 3.0], 3.0), ([1.0, 4.0], 3.0)),
    (tf.debugging.assert_greater, ([4.0], 3.0), ([3.0], 3.0)),
    (tf.debugging.assert_greater_equal, ([3.0], 3.0), ([2.0], 3.0)),
    (tf.debugging.assert_near, ([1.0], 1.0000001), ([1.0], 1.1)),
    (tf.debugging.assert_negative, ([-1.0],), ([0.0],)),
    (tf.debugging.assert_positive, ([1.0],), ([0.0],)),
    (tf.debugging.assert_non_negative, ([0.0],), ([-1.0],)),
    (tf.debugging.assert_non_positive, ([0.0],), ([1.0],)),
    (tf.Assert, (True, [1.0]), (False, [1.0])),
    (tf.debugging.assert_all_finite, ([1.0], "m"), ([np.inf], "m")),
]


@pytest.mark.parametrize(("check", "good", "bad"), HOLD, ids=[h[0].__name__ for h in HOLD])
def test_assertions_about_values_raise_invalid_argument(check: Any, good: Any, bad: Any) -> None:
    check(*good)
    with pytest.raises(IAE):
        check(*bad)


def test_assertions_show_the_message_and_the_first_differing_elements() -> None:
    with pytest.raises(IAE, match=r"(?s)weights.*x == y.*\[\[1\]\].*\[2\].*\[9\]"):
        tf.debugging.assert_equal([1, 2, 3], [1, 9, 3], message="weights")
    with pytest.raises(IAE, match=r"Summarized data: \[1\.0, 2\.0, 3\.0, \.\.\.\]"):
        tf.Assert(tf.constant(False), [tf.constant([1.0, 2.0, 3.0, 4.0])])


def test_assert_near_takes_tolerances() -> None:
    tf.debugging.assert_near(1.0, 1.05, atol=0.1)
    tf.debugging.assert_near(100.0, 101.0, rtol=0.02)
    with pytest.raises(IAE):
        tf.debugging.assert_near(100.0, 101.0, rtol=0.001, atol=0.1)


def test_assertions_refuse_shapes_and_dtypes_that_do_not_fit() -> None:
    with pytest.raises(IAE, match="shapes"):
        tf.debugging.assert_equal(tf.zeros([2]), tf.zeros([3]))
    with pytest.raises(IAE, match="float64"):
        tf.debugging.assert_equal(tf.zeros([2]), tf.zeros([2], tf.float64))


RANKS = [
    (tf.debugging.assert_rank, 2, 1),
    (tf.debugging.assert_rank_at_least, 1, 3),
    (tf.debugging.assert_rank_in, [1, 2], [0, 3]),
]


@pytest.mark.parametrize(("check", "good", "bad"), RANKS, ids=[r[0].__name__ for r in RANKS])
def test_assertions_about_ranks_raise_value_error(check: Any, good: Any, bad: Any) -> None:
    check(tf.zeros([2, 3]), good)
    with pytest.raises(ValueError, match="rank"):
        check(tf.zeros([2, 3]), bad)


def test_assert_shapes_binds_letters() -> None:
    x, y = tf.zeros([2, 3]), tf.zeros([5, 3])
    tf.debugging.assert_shapes([(x, ("N", "D")), (y, ("M", "D")), (tf.zeros([]), ())])
    tf.debugging.assert_shapes([(x, ("...", "D")), (y, (None, 3))])
    with pytest.raises(ValueError, match="dimension 0 must have size 2"):
        tf.debugging.assert_shapes([(x, ("N", "D")), (y, ("N", "D"))])
    with pytest.raises(ValueError, match="rank"):
        tf.debugging.assert_shapes([(x, ("N",))])


def test_assertions_about_dtypes_raise_type_error() -> None:
    tf.debugging.assert_type(tf.constant(1), tf.int32)
    tf.debugging.assert_integer(tf.constant(1))
    tf.debugging.assert_proper_iterable([1])
    for call in (
        lambda: tf.debugging.assert_type(tf.constant(1), tf.float32),
        lambda: tf.debugging.assert_integer(tf.constant(1.0)),
        lambda: tf.debugging.assert_proper_iterable(tf.constant([1.0])),
        lambda: tf.debugging.assert_proper_iterable(3),
    ):
        with pytest.raises(TypeError):
            call()
    assert tf.debugging.assert_same_float_dtype([tf.constant(1.0), None]) == tf.float32
    with pytest.raises(ValueError, match="float64"):
        tf.debugging.assert_same_float_dtype([tf.constant(1.0), tf.constant(1.0, tf.float64)])
    assert tf.debugging.is_numeric_tensor(tf.constant(1)) and not tf.debugging.is_numeric_tensor(1)
    assert tf.debugging.assert_scalar(tf.constant(1.0)).numpy() == 1.0
    with pytest.raises(ValueError, match="scalar"):
        tf.debugging.assert_scalar(tf.constant([1.0]))


# ---------------------------------------------------------------- compute_gradient


def test_compute_gradient_gives_both_jacobians_as_matrices() -> None:
    f = lambda x, k: tf.reshape(x, [2, 2]) * k
    x = np.array([1.0, 2.0, 3.0, 4.0])
    exact, numeric = tf.test.compute_gradient(f, [x, np.array(3.0)])
    assert [e.shape for e in exact] == [n.shape for n in numeric] == [(4, 4), (4, 1)]
    np.testing.assert_array_equal(exact[0], 3 * np.eye(4))
    for e, n in zip(exact, numeric, strict=True):
        assert isinstance(e, np.ndarray)
        np.testing.assert_allclose(e, n, rtol=1e-9)


def test_compute_gradient_takes_a_step_and_needs_a_list() -> None:
    _, (numeric,) = tf.test.compute_gradient(lambda x: x**3, [tf.constant(0.0)], delta=0.5)
    assert numeric.tolist() == [[0.25]]
    with pytest.raises(ValueError, match="list"):
        tf.test.compute_gradient(lambda x: x, tf.constant(1.0))


def test_compute_gradient_of_what_does_not_depend_is_zero() -> None:
    (exact,), (numeric,) = tf.test.compute_gradient(lambda x: tf.constant([1.0, 2.0]), [tf.constant([1.0])])
    assert exact.tolist() == numeric.tolist() == [[0.0], [0.0]]


def test_compute_gradient_gives_complex_numbers_a_row_and_a_column_for_each_part() -> None:
    # z² at 1 + 2i: u = x² - y², v = 2xy.
    exact, numeric = tf.test.compute_gradient(lambda z: z * z, [tf.constant([1 + 2j])])
    np.testing.assert_array_equal(exact[0], [[2.0, -4.0], [4.0, 2.0]])
    np.testing.assert_allclose(numeric[0], exact[0], atol=1e-6)
    real, complex_ = tf.constant([2.0, 3.0], tf.float64), tf.constant(1 - 1j)
    exact, numeric = tf.test.compute_gradient(lambda x, z: tf.cast(x, tf.complex128) * z, [real, complex_])
    assert [j.shape for j in exact] == [(4, 2), (4, 2)]
    for a, b in zip(exact, numeric, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    exact, _ = tf.test.compute_gradient(tf.abs, [tf.constant(3 + 4j)])
    np.testing.assert_allclose(exact[0], [[0.6, 0.8]])


def test_compute_gradient_refuses_integers() -> None:
    with pytest.raises(ValueError, match="int32 of argument 1"):
        tf.test.compute_gradient(lambda x, n: x, [tf.constant(1.0), tf.constant(2)])
