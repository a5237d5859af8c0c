"""An inner tape may watch what the outer one does not: gradient penalties, physics-informed losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtape as tf
from gtape.verify import check

rng = np.random.default_rng(0)
X = tf.constant(rng.normal(size=(4, 2)))


@tf.custom_gradient
def cube(x: Any) -> Any:
    return x * x * x, lambda g: g * 3.0 * x * x


@tf.custom_gradient
def wrong_cube(x: Any) -> Any:
    return x * x * x, lambda g: g * 2.0 * x * x


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "shared op": lambda x, w: tf.tanh(x @ w),
    "op of the inner tape alone": lambda x, w: tf.sin(x) @ w,
    "rule that reads its output": lambda x, w: tf.exp(x)[:, :1] * (x @ w),
    "rule that reads its input": lambda x, w: tf.square(x)[:, :1] * (x @ w),
    "op with several outputs": lambda x, w: tf.split(tf.sin(x) @ w, 3, axis=1)[1] * tf.split(tf.exp(x), 2, axis=1)[0],
    "custom gradient": lambda x, w: cube(tf.sin(x)) @ w,
    "the same number as a constant": lambda x, w: tf.stop_gradient(x) * x * tf.reduce_sum(w),
}


def penalty(f: Callable[[Any, Any], Any], w: Any, *, persistent: bool = False) -> Any:
    with tf.GradientTape(verify=True) as outer:
        with tf.GradientTape(persistent=persistent) as inner:
            inner.watch(X)
            y = f(X, w)
        slopes = inner.gradient(y, X)
        if persistent:  # twice, and the tape is gone when the outer gradient is taken
            slopes = slopes + inner.gradient(y, X)
            del inner
        loss = tf.reduce_mean((tf.reduce_sum(slopes**2, axis=1) - 1.0) ** 2)
    return loss, outer.gradient(loss, w)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_penalty_on_slopes_passes_the_check_and_is_the_difference_quotient(name: str, persistent: bool) -> None:
    f = FUNCTIONS[name]
    start = np.random.default_rng(1).normal(size=(2, 3))
    w = tf.Variable(start)
    got = penalty(f, w, persistent=persistent)[1].numpy()
    for index in [(0, 0), (1, 1)]:
        values = []
        for h in (1e-6, -1e-6):
            moved = start.copy()
            moved[index] += h
            values.append(float(penalty(f, tf.Variable(moved), persistent=persistent)[0]))
        assert got[index] == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5, abs=1e-7)


def test_a_wrong_custom_gradient_below_the_inner_tape_is_found() -> None:
    with pytest.raises(tf.VerificationError, match="wrong_cube"):
        penalty(lambda x, w: wrong_cube(tf.sin(x)) @ w, tf.Variable(rng.normal(size=(2, 3))))


def test_a_loss_with_second_derivatives_in_the_inputs_passes_the_check() -> None:
    x = tf.constant([[0.1], [0.7]], tf.float64)
    a, b = tf.Variable(rng.normal(size=(1, 3))), tf.Variable(rng.normal(size=(3, 1)))
    with tf.GradientTape(verify="strict") as outer:
        with tf.GradientTape() as second:
            second.watch(x)
            with tf.GradientTape() as first:
                first.watch(x)
                u = tf.tanh(x @ a) @ b
            ux = first.gradient(u, x)
        uxx = second.gradient(ux, x)
        loss = tf.reduce_mean((uxx + u) ** 2)
    assert all(np.isfinite(g.numpy()).all() for g in outer.gradient(loss, [a, b]))


def test_two_gradients_of_one_target_by_a_persistent_tape_are_told_apart() -> None:
    x = tf.Variable(np.array([0.3, 0.4]))
    with tf.GradientTape(verify=True) as outer:
        with tf.GradientTape(persistent=True) as inner:
            y = tf.sin(x) * x
        loss = tf.reduce_sum(inner.gradient(y, x) ** 2 + inner.gradient(y, x) ** 3)
    assert outer.gradient(loss, x).shape == (2,)


def test_penalties_on_jacobians_and_tangents_of_inner_sources_pass_the_check() -> None:
    w = tf.Variable(rng.normal(size=(2, 3)))
    f = lambda: tf.tanh(tf.sin(X) @ w) * tf.exp(X)[:, :1]

    def by_batch_jacobian() -> Any:
        with tf.GradientTape() as inner:
            inner.watch(X)
            y = f()
        return inner.batch_jacobian(y, X)

    def by_jacobian() -> Any:
        with tf.GradientTape() as inner:
            inner.watch(X)
            y = tf.reduce_sum(f(), axis=0)
        return inner.jacobian(y, X)

    def by_tangents() -> Any:
        with tf.autodiff.ForwardAccumulator(X, tf.ones_like(X)) as accumulator:
            y = f()
        return accumulator.jvp(y)

    def by_weighted_gradient() -> Any:
        with tf.GradientTape() as inner:
            inner.watch(X)
            y = f()
        return inner.gradient(y, X, output_gradients=tf.sin(y))

    for inside in (by_batch_jacobian, by_jacobian, by_tangents, by_weighted_gradient):
        with tf.GradientTape(verify="strict") as outer:
            loss = tf.reduce_sum(inside() ** 2)
        assert outer.gradient(loss, w).shape == (2, 3)


def adapted_loss(steps: int, f: Callable[[Any], Any], verify: Any) -> Any:
    """The gradient of a loss after some inner steps of descent, in the starting point."""
    start = tf.Variable(np.array([0.5, -0.3]))
    with tf.GradientTape(verify=verify) as outer:
        p = start * 1.0
        for _ in range(steps):
            with tf.GradientTape() as inner:
                inner.watch(p)
                loss = tf.reduce_sum(f(p * tf.constant([1.0, 2.0], tf.float64)) ** 2)
            p = p - 0.1 * inner.gradient(loss, p)
        loss = tf.reduce_sum(f(p))
    return outer.gradient(loss, start).numpy()


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_chain_of_inner_gradients_is_no_nest_of_them(steps: int) -> None:
    got = adapted_loss(steps, tf.sin, "strict")
    np.testing.assert_array_equal(got, adapted_loss(steps, tf.sin, False))


def test_a_wrong_rule_in_one_step_of_a_chain_is_found() -> None:
    with pytest.raises(tf.VerificationError, match="wrong_cube"):
        adapted_loss(3, wrong_cube, True)

    rule, calls = tf.custom_gradient, [0]

    @rule
    def sometimes_wrong(x: Any) -> Any:
        calls[0] += 1
        factor = 2.0 if calls[0] == 2 else 3.0
        return x * x * x, lambda g: g * factor * x * x

    with pytest.raises(tf.VerificationError, match="sometimes_wrong"):
        adapted_loss(3, sometimes_wrong, True)


def test_gradients_of_gradients_of_gradients_are_decided() -> None:
    x = tf.Variable(np.float64(0.3))
    with tf.GradientTape(verify="strict") as outer:
        with tf.GradientTape() as third:
            with tf.GradientTape() as second:
                with tf.GradientTape() as first:
                    y = tf.sin(x) * x
                a = first.gradient(y, x)
            b = second.gradient(a, x)
        c = third.gradient(b, x)
    assert float(outer.gradient(c, x)) == pytest.approx(0.3 * np.sin(0.3) - 4 * np.cos(0.3))


def nested(f: Any, depth: int, verify: Any) -> Any:
    """The gradient of a gradient of that many inner gradients."""
    x = tf.Variable(np.float64(0.3))

    def derived(k: int) -> Any:
        if not k:
            return f(x) * x
        with tf.GradientTape() as tape:
            y = derived(k - 1)
        return tape.gradient(y, x)

    with tf.GradientTape(verify=verify) as outer:
        y = derived(depth)
    return outer.gradient(y, x)


def test_a_wrong_rule_in_a_nest_of_gradients_is_found() -> None:
    assert nested(tf.sin, 3, "strict") == nested(tf.sin, 3, False)
    with pytest.raises(tf.VerificationError, match="wrong_cube"):
        nested(wrong_cube, 3, True)


def test_what_only_inner_tapes_recorded_is_known_to_the_outer_ones() -> None:
    """The targets of an inner gradient need not be read by its backward ops, and rounded constants are no numbers."""
    at, w = tf.constant([[0.3], [0.7]], tf.float64), tf.Variable(np.float64(1.5))
    for weigh in (lambda x: x * x, lambda x: x * (1 - x), lambda x: x / 3):
        with tf.GradientTape(verify="strict") as tape:
            with tf.GradientTape() as third:
                with tf.GradientTape() as second:
                    second.watch(at)
                    with tf.GradientTape() as first:
                        first.watch(at)
                        y = weigh(at) * tf.tanh(at * w)
                    a = first.gradient(y, at)
                b = second.gradient(a, at)
                loss = tf.reduce_sum(b * b)
            c = third.gradient(loss, w)
        assert tape.gradient(c, w) is not None


@pytest.mark.parametrize("f", [tf.square, tf.sin, lambda v: tf.reduce_sum(v) * v, wrong_cube])
def test_an_inner_gradient_may_be_a_source_itself(f: Any) -> None:
    v, w = tf.Variable([1.2, 0.9], dtype=tf.float64), tf.Variable([0.7, 0.2], dtype=tf.float64)

    def found(verify: Any) -> list[Any]:
        with tf.GradientTape(persistent=True, verify=verify) as tape:
            with tf.GradientTape(verify=False) as inner:
                y = f(v)
            g = inner.gradient(y, v)
            z = g * g * w + tf.sin(g)
        made = [tape.gradient(z, sources) for sources in ([g], [g, v], [v, g, w])]
        return [[c.numpy().tolist() for c in cs] for cs in made]

    if f is wrong_cube:
        with pytest.raises(tf.VerificationError, match="wrong_cube"):
            found("strict")
    else:
        assert found("strict") == found(False)


def gradient_under_the_flag(f: Callable[[Any], Any], at: Any, order: int, verify: Any) -> Any:
    """The derivative of that order of a function, summed below the last one; None if there is none."""
    w = tf.Variable(at)

    def derived(k: int) -> Any:
        if not k:
            return f(tf.convert_to_tensor(w))
        with tf.GradientTape(verify=verify) as tape:
            y = derived(k - 1)
        return tape.gradient(y, w)

    return derived(order)


# A step of a chain of inner gradients: the next point, from the present one, its slopes and the parameters.
CHAINS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any, Any], Any]]] = {
    "Langevin sampling": (lambda x, w: w * x * x, lambda x, g, w: tf.stop_gradient(x - 0.1 * g)),
    "ops of the inner tape alone": (lambda x, w: tf.tanh(x * x) * w, lambda x, g, w: tf.stop_gradient(x - 0.1 * g)),
    "detached slopes": (lambda x, w: tf.tanh(x) * x, lambda x, g, w: tf.stop_gradient(x) - 0.1 * tf.stop_gradient(g)),
    "first-order MAML": (
        lambda x, w: (tf.tanh(x) * x - 1.0) ** 2,
        lambda x, g, w: w + tf.stop_gradient(x - 0.1 * g - w),
    ),
}


def chain(name: str, steps: int, *, persistent: bool = False, leak: bool = False) -> Callable[[Any], Any]:
    """A loss after some steps of a chain that starts at detached parameters."""
    energy, step = CHAINS[name]

    def f(w: Any) -> Any:
        x = tf.stop_gradient(w * 0.1)
        for _ in range(steps):
            x = tf.stop_gradient(x)
            with tf.GradientTape(persistent=persistent) as inner:
                inner.watch(x)
                y = tf.reduce_sum(energy(x, w))
            x = step(x, inner.gradient(y, x), w)
        return tf.reduce_sum(tf.sin(w * x)) * (float(tf.reduce_sum(w)) if leak else 1.0)

    return f


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_of_detached_inner_gradients_is_connected(name: str, dtype: Any, order: int, steps: int) -> None:
    """A result that an inner tape watched is still a result of its op when this tape is gone."""
    at = np.array([0.3, -0.7, 1.1], dtype)
    assert check(chain(name, steps), at, order=order).ok
    flagged, plain = (
        gradient_under_the_flag(chain(name, steps), at, order, verify).numpy() for verify in (True, False)
    )
    np.testing.assert_array_equal(flagged, plain)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", CHAINS)
def test_a_value_that_leaves_a_chain_of_inner_gradients_is_found(name: str, order: int) -> None:
    at = np.array([0.3, -0.7, 1.1])
    assert check(chain(name, 3, leak=True), at, order=order).verdict == "unconnected"
    with pytest.raises(tf.VerificationError, match="unconnected"):
        gradient_under_the_flag(chain(name, 3, leak=True), at, order, True)


def test_slopes_at_a_detached_action_weigh_the_action() -> None:
    def f(w: Any) -> Any:
        action = w * w
        detached = tf.stop_gradient(action)
        with tf.GradientTape() as inner:
            inner.watch(detached)
            value = tf.reduce_sum(tf.tanh(detached * w) * detached)
        gain = tf.reduce_mean(action * tf.stop_gradient(inner.gradient(value, detached)))
        return tf.reduce_mean(tf.tanh(detached * w) ** 2) - gain

    for order in (1, 2):
        assert check(f, np.array([0.3, -0.7, 1.1]), order=order).ok


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("persistent", [False, True])
def test_several_tapes_may_watch_one_detached_point_in_turn(persistent: bool, order: int) -> None:
    def f(w: Any) -> Any:
        u, total = tf.stop_gradient(w * 0.1), 0.0
        for k in (1.0, 2.0, 3.0):
            with tf.GradientTape(persistent=persistent) as inner:
                inner.watch(u)
                y = tf.reduce_sum(tf.sin(u * w * k))
            total = total + inner.gradient(y, u)
        return tf.reduce_sum(total * total * u)

    assert check(f, np.array([0.3, -0.7, 1.1]), order=order).ok


def test_a_point_stays_a_constant_of_the_outer_tape_after_an_inner_one_watched_it() -> None:
    for verify in (True, False):
        w = tf.Variable([0.3, -0.7], dtype=tf.float64)
        with tf.GradientTape(persistent=True, verify=verify) as outer:
            u = tf.stop_gradient(w * 0.1)
            with tf.GradientTape() as inner:
                inner.watch(u)
                y = u * w
            slopes = inner.gradient(y, u)
            z = u * slopes
        assert outer.gradient(z, u) is None
        np.testing.assert_array_equal(outer.gradient(z, w).numpy(), u.numpy())


# Energies of a detached point and the parameters; most begin with an op that only the inner tape records.
ENERGIES: dict[str, Callable[[Any, Any], Any]] = {
    "square": lambda u, w: u * u * w,
    "activation": lambda u, w: tf.tanh(u) * w,
    "sum of two terms": lambda u, w: tf.sin(u) + w * u**3,
    "op of both": lambda u, w: tf.tanh(u * w),
    "op with several outputs": lambda u, w: tf.split(u * u, 3)[1] * w,
    "custom gradient": lambda u, w: cube(u) * w,
    "recomputed function": tf.recompute_grad(lambda u, w: tf.tanh(u) * u * w * w),
}


def slope_at_a_detached_point(energy: Callable[[Any, Any], Any], *, persistent: bool = False) -> Callable[[Any], Any]:
    """The sum of the slopes of an energy at a point that depends on the parameters and is detached from them."""

    def f(w: Any) -> Any:
        u = tf.stop_gradient(w * 0.1)
        with tf.GradientTape(persistent=persistent) as inner:
            inner.watch(u)
            y = tf.reduce_sum(energy(u, w))
        return tf.reduce_sum(inner.gradient(y, u))

    return f


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ENERGIES)
def test_an_inner_gradient_at_a_detached_point_is_right(name: str, dtype: Any, order: int, persistent: bool) -> None:
    """The oracle knows how the point was computed, and does not take its rounded numbers for exact ones."""
    f = slope_at_a_detached_point(ENERGIES[name], persistent=persistent)
    at = np.array([0.3, -0.7, 1.1], dtype)
    assert check(f, at, order=order).ok
    flagged, plain = (gradient_under_the_flag(f, at, order, verify) for verify in (True, False))
    assert (flagged is None) is (plain is None)
    if plain is not None:
        np.testing.assert_array_equal(flagged.numpy(), plain.numpy())


@pytest.mark.parametrize("order", [1, 2])
def test_inner_gradients_at_two_detached_points_are_right(order: int) -> None:
    def f(w: Any) -> Any:
        u, v = tf.stop_gradient(w * 0.1), tf.stop_gradient(tf.sin(w))
        with tf.GradientTape() as second:
            second.watch([u, v])
            with tf.GradientTape() as first:
                first.watch([u, v])
                y = tf.reduce_sum(tf.tanh(u * v) * u * w)
            a, b = first.gradient(y, [u, v])
            z = tf.reduce_sum(a * a + b * u)
        return tf.add_n([tf.reduce_sum(g) for g in second.gradient(z, [u, v])])

    assert check(f, np.array([0.3, -0.7, 1.1]), order=order).ok


@pytest.mark.parametrize("order", [1, 2])
def test_tangents_and_jacobians_at_a_detached_point_are_right(order: int) -> None:
    def by_tangents(w: Any) -> Any:
        u = tf.stop_gradient(w * 0.1)
        with tf.autodiff.ForwardAccumulator(u, tf.ones_like(u)) as accumulator:
            with tf.GradientTape() as inner:
                inner.watch(u)
                y = tf.reduce_sum(tf.sin(u * u) * w)
            slopes = inner.gradient(y, u)
        return tf.reduce_sum(accumulator.jvp(slopes))

    def by_jacobian(w: Any) -> Any:
        u = tf.stop_gradient(w * 0.1)
        with tf.GradientTape() as inner:
            inner.watch(u)
            y = tf.tanh(u * u) * w
        return tf.reduce_sum(inner.jacobian(y, u) ** 2)

    for f in (by_tangents, by_jacobian):
        assert check(f, np.array([0.3, -0.7, 1.1]), order=order).ok


def test_a_wrong_custom_gradient_at_a_detached_point_is_found() -> None:
    f = slope_at_a_detached_point(lambda u, w: wrong_cube(u) * w)
    at = np.array([0.3, -0.7, 1.1])
    assert check(f, at).verdict == "rule"
    with pytest.raises(tf.VerificationError, match="wrong_cube"):
        gradient_under_the_flag(f, at, 1, True)


@pytest.mark.parametrize(("body", "right"), [(lambda u, y: u * y, True), (lambda u, y: u * y * y, False)])
def test_a_custom_gradient_that_uses_a_tape_is_judged_alike_if_an_argument_is_detached(
    body: Callable[[Any, Any], Any], right: bool
) -> None:
    @tf.custom_gradient
    def product(u: Any, y: Any) -> Any:
        def grad(g: Any) -> Any:
            with tf.GradientTape() as inner:
                inner.watch([u, y])
                z = body(u, y)
            return tuple(inner.gradient(z, [u, y], output_gradients=g))

        return u * y, grad

    def f(w: Any) -> Any:
        return tf.reduce_sum(product(tf.stop_gradient(w * 0.1), w * w))

    at = np.array([0.3, -0.7, 1.1])
    report = check(f, at, order=2)
    assert report.verdict == ("correct" if right else "rule")
    if right:
        flagged, plain = (gradient_under_the_flag(f, at, 2, verify).numpy() for verify in (True, False))
        np.testing.assert_array_equal(flagged, plain)
    else:
        with pytest.raises(tf.VerificationError, match="product"):
            gradient_under_the_flag(f, at, 2, True)


def read_after(of: Callable[[Any], Any], *, persistent: bool = False, derive: str = "gradient") -> Callable[[Any], Any]:
    """A loss that reads, after the inner tape, a value which this tape alone recorded."""

    def f(w: Any) -> Any:
        u = tf.stop_gradient(w * 0.1)
        with tf.GradientTape(persistent=persistent) as inner:
            inner.watch(u)
            a = of(u)
            y = a * w if derive == "jacobian" else tf.reduce_sum(a * w)
        before = a * 3.0 + u
        slopes = getattr(inner, derive)(y, u) if derive else 1.0
        return tf.reduce_sum(slopes * before * w) + tf.reduce_sum(tf.tanh(a) * w * w)

    return f


READ: dict[str, Callable[[Any], Any]] = {
    "square": lambda u: u * u,
    "two ops": lambda u: tf.sin(u) * u,
    "part of several results": lambda u: tf.split(tf.tanh(u), 3)[1] * tf.ones_like(u),
    "part of several results, alone": lambda u: tf.split(tf.tanh(u), 3)[2],
    "selection": lambda u: tf.where(u > 0.0, u * u, 3.0 * u),
    "custom gradient": cube,
    "recomputed function": tf.recompute_grad(lambda u: tf.sin(u) * u),
}


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("derive", ["gradient", "jacobian", ""])
@pytest.mark.parametrize("name", READ)
def test_what_an_inner_tape_alone_recorded_may_be_read_after_it(name: str, derive: str, persistent: bool) -> None:
    """For the outer tape it is a constant, but a check knows how it was computed."""
    f = read_after(READ[name], persistent=persistent, derive=derive)
    at = np.array([0.3, -0.7, 1.1])
    for order in (1, 2):
        assert check(f, at, order=order).ok
        flagged, plain = (gradient_under_the_flag(f, at, order, verify) for verify in (True, False))
        np.testing.assert_array_equal(flagged.numpy(), plain.numpy())


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_of_persistent_inner_tapes_is_connected(name: str, order: int) -> None:
    assert check(chain(name, 3, persistent=True), np.array([0.3, -0.7, 1.1]), order=order).ok


def test_what_an_inner_tape_alone_recorded_stays_a_constant_of_the_outer_one() -> None:
    def found(verify: bool, persistent: bool) -> list[Any]:
        w = tf.Variable([0.3, -0.7], dtype=tf.float64)
        with tf.GradientTape(persistent=True, verify=verify) as outer:
            u = tf.stop_gradient(w * 0.1)
            with tf.GradientTape(persistent=persistent) as inner:
                inner.watch(u)
                a = u * u
                y = a * w
            b = a * 2.0
            slopes = inner.gradient(y, u)
            z = slopes * a * b + y
        return [g if g is None else g.numpy().tolist() for g in outer.gradient(z, [u, a, b, w, y])]

    for persistent in (False, True):
        made = found(True, persistent)
        assert made == found(False, persistent)
        assert made[:3] == [None, None, None]


def test_an_inner_tape_may_watch_what_another_one_alone_recorded() -> None:
    def f(w: Any) -> Any:
        u = tf.stop_gradient(w * 0.1)
        with tf.GradientTape() as first:
            first.watch(u)
            a = tf.sin(u) * u
            y = tf.reduce_sum(a * a * w)
        slopes = first.gradient(y, u)
        with tf.GradientTape() as second:
            second.watch(a)
            z = tf.reduce_sum(tf.tanh(a * a) * w + cube(a))
        return tf.reduce_sum(slopes * second.gradient(z, a))

    for order in (1, 2):
        assert check(f, np.array([0.3, -0.7, 1.1]), order=order).ok


@pytest.mark.parametrize("order", [1, 2])
def test_numbers_of_what_an_inner_tape_alone_recorded_are_constants_on_purpose(order: int) -> None:
    def leaves(w: Any, of: Any) -> Any:
        u = tf.stop_gradient(w * 0.1)
        with tf.GradientTape() as inner:
            inner.watch(u)
            a = tf.sin(u) * u
            number = float(tf.reduce_sum({"point": u, "result": a, "parameters": w}[of]))
            y = tf.reduce_sum(a * a * w * number)
        return tf.reduce_sum(inner.gradient(y, u) * w)

    at = np.array([0.3, -0.7, 1.1])
    for of in ("point", "result"):
        assert check(lambda w, of=of: leaves(w, of), at, order=order).verdict == "correct"
    assert check(lambda w: leaves(w, "parameters"), at, order=order).verdict == "unconnected"


@settings(max_examples=1 + settings.default.max_examples // 3)
@given(
    steps=st.lists(st.tuples(st.sampled_from(["sin", "tanh", "multiply", "add"]), st.integers(0, 9), st.integers(0, 9)),
                   min_size=1, max_size=5),
    read=st.integers(0, 9),
    persistent=st.booleans(),
    order=st.integers(1, 2),
)  # fmt: skip
def test_a_check_follows_any_program_around_a_detached_point(
    steps: list[tuple[str, int, int]], read: int, persistent: bool, order: int
) -> None:
    def f(w: Any) -> Any:
        u = tf.stop_gradient(w * 0.1)
        with tf.GradientTape(persistent=persistent) as inner:
            inner.watch(u)
            values = [w, u]
            for op, i, j in steps:
                a, b = values[i % len(values)], values[j % len(values)]
                values.append(getattr(tf, op)(a) if op in ("sin", "tanh") else getattr(tf, op)(a, b))
            y = tf.reduce_sum(values[-1] * u * w)
        return tf.reduce_sum(inner.gradient(y, u) * values[read % len(values)])

    assert check(f, np.array([0.3, -0.7]), order=order).ok
