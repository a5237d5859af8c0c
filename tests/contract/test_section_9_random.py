"""Random numbers: seeds, generators, and gradients to the parameters (section 9 of the contract)."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import gtape as tf

DRAWS: dict[str, Any] = {
    "normal": lambda **k: tf.random.normal([4], **k),
    "truncated_normal": lambda **k: tf.random.truncated_normal([4], **k),
    "uniform": lambda **k: tf.random.uniform([4], **k),
    "integers": lambda **k: tf.random.uniform([4], 0, 1000, tf.int32, **k),
    "gamma": lambda **k: tf.random.gamma([4], 1.5, **k),
    "poisson": lambda **k: tf.random.poisson([4], 30.0, **k),
    "shuffle": lambda **k: tf.random.shuffle(tf.range(50), **k),
    "categorical": lambda **k: tf.random.categorical(tf.zeros([1, 100]), 4, **k),
}


@pytest.fixture(autouse=True)
def no_seed() -> Any:
    """Forget the global seed before and after."""
    tf.random.set_seed(None)
    yield
    tf.random.set_seed(None)


def _same(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a.numpy(), b.numpy()))


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_set_seed_makes_later_draws_repeat(draw: Any) -> None:
    tf.random.set_seed(3)
    first = [draw(), draw()]
    tf.random.set_seed(3)
    again = [draw(), draw()]
    assert _same(first[0], again[0]) and _same(first[1], again[1])
    assert not _same(first[0], first[1])
    tf.random.set_seed(4)
    assert not _same(first[0], draw())


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_an_op_s_own_seed_gives_its_own_sequence(draw: Any) -> None:
    tf.random.set_seed(3)
    first = [draw(seed=1), draw(seed=1)]
    tf.random.set_seed(3)
    draw()  # draws without a seed do not disturb it
    again = [draw(seed=1), draw(seed=1)]
    assert _same(first[0], again[0]) and _same(first[1], again[1]) and not _same(first[0], first[1])
    tf.random.set_seed(4)
    assert not _same(first[0], draw(seed=1)), "the global seed has its part in it"


def test_without_any_seed_draws_differ() -> None:
    assert not _same(tf.random.normal([8]), tf.random.normal([8]))


def test_normal_is_differentiable_in_mean_and_stddev() -> None:
    mean, stddev = tf.Variable([1.0, 2.0]), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = tf.random.normal([5, 2], mean, stddev)
    of_mean, of_stddev = tape.gradient(y, [mean, stddev])
    assert of_mean.numpy().tolist() == [5.0, 5.0]
    noise = (y.numpy() - mean.numpy()) / 3.0
    np.testing.assert_allclose(of_stddev.numpy(), noise.sum(), rtol=1e-4)


def test_uniform_is_differentiable_in_its_ends() -> None:
    low, high = tf.Variable(1.0), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = tf.random.uniform([6], low, high)
    of_low, of_high = tape.gradient(y, [low, high])
    np.testing.assert_allclose(of_low.numpy() + of_high.numpy(), 6.0, rtol=1e-6)
    np.testing.assert_allclose(of_high.numpy(), (y.numpy() - 1.0).sum() / 2.0, rtol=1e-5)


@pytest.mark.parametrize("make", [lambda v: tf.random.shuffle(v), lambda v: tf.random.poisson([2], v)])
def test_shuffle_and_poisson_are_not_differentiable(make: Any) -> None:
    v = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = make(v)
    assert tape.gradient(y, v) is None


@pytest.mark.parametrize("dtype", [tf.float16, tf.float32, tf.float64])
def test_draws_have_their_dtype_shape_and_range(dtype: Any) -> None:
    x = tf.random.normal([3, 2], dtype=dtype)
    assert x.dtype == dtype and x.shape == (3, 2)
    u = tf.random.uniform([1000], 2.0, 5.0, dtype=dtype).numpy()
    assert u.dtype == dtype.as_numpy_dtype and (u >= 2).all() and (u < 5).all()
    t = tf.random.truncated_normal([1000], 10.0, 2.0, dtype=dtype).numpy()
    assert (np.abs(t - 10) <= 4).all()
    assert (tf.random.gamma([100], 0.3, dtype=dtype).numpy() > 0).all()


def test_moments_are_those_of_the_distributions() -> None:
    tf.random.set_seed(11)
    n = 40_000
    for draw, mean, variance in (
        (tf.random.normal([n], 2.0, 3.0), 2.0, 9.0),
        (tf.random.uniform([n], -1.0, 3.0), 1.0, 4.0 / 3.0),
        (tf.random.gamma([n], 2.5, 2.0), 1.25, 0.625),
        (tf.random.gamma([n], 0.3), 0.3, 0.3),
        (tf.random.poisson([n], 4.0), 4.0, 4.0),
        (tf.random.truncated_normal([n]), 0.0, 0.7737),
    ):
        x = draw.numpy().astype(np.float64)
        assert abs(x.mean() - mean) < 6 * (variance / n) ** 0.5
        assert abs(x.var() / variance - 1) < 0.1


def test_integers_need_both_ends_and_room_between_them() -> None:
    x = tf.random.uniform([500], 3, 5, tf.int64)
    assert x.dtype == tf.int64 and set(x.numpy().tolist()) == {3, 4}
    with pytest.raises(ValueError, match="Must specify maxval for integer dtype"):
        tf.random.uniform([2], dtype=tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Need minval < maxval"):
        tf.random.uniform([2], 5, 5, tf.int32)


def test_parameters_broadcast_behind_the_shape_of_gamma_and_poisson() -> None:
    assert tf.random.gamma([4], [1.0, 2.0], [[1.0], [2.0], [3.0]]).shape == (4, 3, 2)
    assert tf.random.poisson([4], [1.0, 2.0]).shape == (4, 2)


def test_gamma_is_differentiable_in_its_rate() -> None:
    beta = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = tf.random.gamma([7], 1.5, beta)
    np.testing.assert_allclose(tape.gradient(y, beta).numpy(), -y.numpy().sum() / 2.0, rtol=1e-5)


def test_gamma_is_differentiable_in_alpha_at_fixed_probability() -> None:
    tf.random.set_seed(5)
    alpha = tf.Variable([0.4, 1.0, 6.0], dtype=tf.float64)
    with tf.GradientTape() as tape:
        y = tf.random.gamma([], alpha, dtype=tf.float64)
    slope = tape.gradient(y, alpha).numpy()
    h = 1e-6
    moved = []
    for step in (h, -h):
        tf.random.set_seed(5)
        moved.append(tf.random.gamma([], alpha.numpy() + step, dtype=tf.float64).numpy())
    np.testing.assert_allclose(slope, (moved[0] - moved[1]) / (2 * h), rtol=1e-7)


def test_mean_of_the_gradient_in_alpha_is_that_of_the_mean() -> None:
    # E[y] = alpha, so dE[y]/dalpha = 1.
    tf.random.set_seed(6)
    alpha = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = tf.reduce_mean(tf.random.gamma([5000], alpha))
    assert abs(tape.gradient(y, alpha).numpy() - 1.0) < 0.03


def test_gamma_refuses_what_is_not_positive() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="positive"):
        tf.random.gamma([2], -1.0)


def test_categorical_draws_classes_by_their_probability() -> None:
    tf.random.set_seed(8)
    x = tf.random.categorical(tf.math.log([[0.2, 0.3, 0.5]]), 20_000)
    assert x.shape == (1, 20_000) and x.dtype == tf.int64
    shares = np.bincount(x.numpy()[0], minlength=3) / 20_000
    np.testing.assert_allclose(shares, [0.2, 0.3, 0.5], atol=0.02)
    assert tf.random.categorical([[0.0, 0.0]], 3, dtype=tf.int32).dtype == tf.int32
    with pytest.raises(tf.errors.InvalidArgumentError, match="matrix"):
        tf.random.categorical([0.0, 0.0], 3)


def test_shuffle_keeps_the_rows() -> None:
    x = tf.reshape(tf.range(40), [20, 2])
    y = tf.random.shuffle(x, seed=1).numpy()
    assert sorted(y.tolist()) == x.numpy().tolist() and y.tolist() != x.numpy().tolist()


def test_shapes_must_be_vectors_of_sizes() -> None:
    assert tf.random.normal(tf.constant([2, 3])).shape == (2, 3) and tf.random.normal([]).shape == ()
    for bad in (3, [-1]):
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.random.normal(bad)


# ---------------------------------------------------------------- stateless


STATELESS: dict[str, Any] = {
    "normal": lambda s: tf.random.stateless_normal([4], s),
    "truncated_normal": lambda s: tf.random.stateless_truncated_normal([4], s),
    "uniform": lambda s: tf.random.stateless_uniform([4], s),
    "integers": lambda s: tf.random.stateless_uniform([4], s, None, None, tf.int32),
    "gamma": lambda s: tf.random.stateless_gamma([4], s, 2.0),
    "poisson": lambda s: tf.random.stateless_poisson([4], s, 100.0),
    "binomial": lambda s: tf.random.stateless_binomial([4], s, 1000.0, 0.5),
    "categorical": lambda s: tf.random.stateless_categorical(tf.zeros([1, 1000]), 4, s),
    "split": lambda s: tf.random.split(s, 2),
    "fold_in": lambda s: tf.random.fold_in(s, 5),
}


@pytest.mark.parametrize("draw", STATELESS.values(), ids=STATELESS)
def test_stateless_draws_depend_on_their_seed_alone(draw: Any) -> None:
    first = draw([1, 2])
    tf.random.set_seed(99)
    assert _same(first, draw([1, 2])) and not _same(first, draw([2, 1]))


@pytest.mark.parametrize("name", STATELESS)
def test_a_seed_of_another_dtype_changes_keys_and_no_draws(name: str) -> None:
    wide = STATELESS[name](tf.constant([1, 2], tf.int64))
    if name in ("split", "fold_in"):
        assert wide.dtype == tf.int64
    else:
        assert _same(STATELESS[name]([1, 2]), wide)


def test_stateless_draws_need_two_integers() -> None:
    for bad in (3, [1, 2, 3], [1.0, 2.0]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="seed"):
            tf.random.stateless_normal([2], bad)


def test_stateless_normal_is_differentiable() -> None:
    mean = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = tf.random.stateless_normal([3], [1, 2], mean=mean)
    assert tape.gradient(y, mean).numpy() == 3.0


# ---------------------------------------------------------------- generators


def test_generators_of_one_seed_repeat_each_other() -> None:
    a, b = tf.random.Generator.from_seed(7), tf.random.Generator.from_seed(7)
    draws = [
        lambda g: g.normal([3]),
        lambda g: g.uniform([3]),
        lambda g: g.uniform([3], 0, 100, tf.int32),
        lambda g: g.truncated_normal([3]),
        lambda g: g.uniform_full_int([3]),
        lambda g: g.binomial([3], 50.0, 0.5),
        lambda g: g.make_seeds(2),
        lambda g: g.split(1)[0].normal([3]),
    ]
    for draw in draws:
        assert _same(draw(a), draw(b))
    assert not _same(a.normal([3]), a.normal([3]))
    assert not _same(tf.random.Generator.from_seed(8).normal([3]), tf.random.Generator.from_seed(7).normal([3]))


def test_a_generator_is_apart_from_the_global_seed() -> None:
    tf.random.set_seed(1)
    a = tf.random.Generator.from_seed(7).normal([3])
    tf.random.set_seed(2)
    assert _same(a, tf.random.Generator.from_seed(7).normal([3]))


def test_a_generator_goes_on_from_its_state() -> None:
    a = tf.random.Generator.from_seed(7)
    a.normal([3])
    b = tf.random.Generator.from_state(a.state, alg="philox")
    following = a.normal([3])
    assert _same(following, b.normal([3]))
    b.reset_from_seed(7)
    b.skip(1)
    assert _same(following, b.normal([3]))


def test_generators_without_a_seed_differ_and_one_is_global() -> None:
    make = tf.random.Generator.from_non_deterministic_state
    assert not _same(make().normal([3]), make().normal([3]))
    mine = make()
    before = tf.random.get_global_generator()
    tf.random.set_global_generator(mine)
    assert tf.random.get_global_generator() is mine
    tf.random.set_global_generator(before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_a_forked_worker_does_not_draw_what_its_parent_draws() -> None:
    program = """
import os, gtape as tf
tf.random.normal([])
if os.fork():
    os.wait()
print(float(tf.random.normal([])), flush=True)
"""
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60).stdout
    first, second = out.split()
    assert first != second
