"""The sweep over records that stay: a persistent tape may be asked again, whatever happened before."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.declare.primitives import REGISTRY
from gtape.engine import sweep as backprop
from gtape.recording.record import STEP


def _recorded() -> tuple[Any, Any, Any, Any]:
    x = tf.Variable([[0.5, 1.0]])
    w = tf.constant([[1.0], [2.0]])
    with tf.GradientTape(persistent=True) as tape:
        h = tf.sin(x)
        y = tf.reduce_sum(tf.exp(tf.matmul(h, w)) * h)
    return tape, x, h, y


def _expected() -> Any:
    tape, x, _, y = _recorded()
    return tape.gradient(y, x).numpy()


def test_a_persistent_tape_gives_the_same_gradient_each_time() -> None:
    tape, x, h, y = _recorded()
    first = [g.numpy() for g in tape.gradient(y, [x, h])]
    for _ in range(3):
        again = [g.numpy() for g in tape.gradient(y, [x, h])]
        assert [a.tolist() for a in again] == [f.tolist() for f in first]
    np.testing.assert_array_equal(tape.gradient(h, x), np.cos(np.float32([[0.5, 1.0]])))


def test_an_interrupted_sweep_leaves_a_persistent_tape_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    tape, x, h, y = _recorded()

    def interrupted(g: Any, ins: Any, out: Any) -> Any:
        raise KeyboardInterrupt

    kept = h._record[STEP]
    h._record[STEP] = interrupted
    with pytest.raises(KeyboardInterrupt):
        tape.gradient(y, [x, y])
    h._record[STEP] = kept
    assert not backprop.keeping.locked()
    np.testing.assert_array_equal(tape.gradient(y, x), _expected())


def test_long_cotangents_of_a_leaf_are_added_up_in_arrays_that_only_the_sweep_holds() -> None:
    product, same = [REGISTRY[name].function.names["step0"] for name in ("multiply", "add")]
    for n, in_place in ((10**5, True), (10, False)):
        seed, c, d, e = [np.full(n, float(k)) for k in range(4)]
        short: set[int] = set()
        long: set[int] = set()
        total = backprop._sum_of_leaf(short, long, 7, seed, c, same, -1)  # `c` may be the seed of the user's
        assert total is not seed and total is not c
        if in_place:
            assert backprop._sum_of_leaf(short, long, 7, total, d, same, -1) is total
            assert backprop._sum_of_leaf(short, set(), 7, seed, e, product, -1) is e
        assert (short, long) == ((set(), {7}) if in_place else ({7}, set()))
        assert (seed == 0.0).all() and (c == 1.0).all() and (d == 2.0).all()


def test_threads_may_ask_a_persistent_tape_at_once() -> None:
    tape, x, _, y = _recorded()
    expected, wrong = _expected(), []

    def ask() -> None:
        for _ in range(50):
            g = tape.gradient(y, x).numpy()
            if not np.array_equal(g, expected):
                wrong.append(g)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_a_sweep_beside_another_takes_the_way_that_needs_nothing_of_the_records() -> None:
    tape, x, _, y = _recorded()
    expected = _expected()
    with backprop.keeping:
        np.testing.assert_array_equal(tape.gradient(y, x), expected)


@pytest.mark.parametrize("persistent", [False, True])
def test_a_kernel_that_is_swapped_is_used_by_steps_written_before(
    persistent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = tf.Variable([[1.0, 2.0], [3.0, 4.0]]), tf.Variable([1.0, 2.0])

    def gradient() -> Any:
        with tf.GradientTape(persistent=persistent) as tape:
            y = tf.reduce_sum(tf.add(a, b))
        return tape.gradient(y, b).numpy().tolist()

    for _ in range(20):  # familiar by then
        assert gradient() == [2.0, 2.0]
    kernel = REGISTRY["sum_to"].kernel
    monkeypatch.setattr(
        REGISTRY["sum_to"], "kernel", lambda g, *, shape, batch: 3 * kernel(g, shape=shape, batch=batch)
    )
    assert gradient() == [6.0, 6.0]
    monkeypatch.undo()
    assert gradient() == [2.0, 2.0]


@pytest.mark.parametrize(("name", "function"), [("sin", tf.sin), ("square", tf.square), ("reduce_sum", tf.reduce_sum)])
@pytest.mark.parametrize("order", [1, 2])
def test_a_rule_that_is_swapped_is_used_by_functions_that_others_hold(
    name: str, function: Any, order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = tf.Variable(np.array([0.5, 0.25]))

    def gradient() -> Any:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as tape:
                y = function(x * x)
            g = tape.gradient(y, x)
        return (g if order == 1 else outer.gradient(g, x)).numpy()

    right = gradient()
    prim = REGISTRY["sum" if name == "reduce_sum" else name]
    slot = "vjp" if prim.partials is None else "partials"
    (rule,) = getattr(prim, slot)
    monkeypatch.setattr(prim, slot, (lambda xp, *args, **params: 3 * rule(xp, *args, **params),))
    assert np.allclose(gradient(), 3 * right, rtol=1e-14)
    monkeypatch.undo()
    assert gradient().tolist() == right.tolist()


@pytest.mark.parametrize("value", [2.0, [2.0, 3.0]])
def test_operators_follow_a_swapped_kernel(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = tf.constant(value, "float64")
    right = (x * x).numpy()
    for slot, new in (("kernel", lambda a, b: 7 * a * b), ("scalar", None)):
        monkeypatch.setattr(REGISTRY["multiply"], slot, new)
    assert ((x * x).numpy() == 7 * right).all()
    monkeypatch.undo()
    assert ((x * x).numpy() == right).all()


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (tf.nn.l2_normalize, [3.0, 4.0, 0.0]),
        (tf.nn.softmax, [0.0, 0.0, 1.0]),
        (
            lambda x: tf.nn.softmax_cross_entropy_with_logits([[0.0, 1.0], [1.0, 0.0]], tf.reshape(x, [2, 2])),
            [0.0, 1.0, 1.0, 0.0],
        ),
    ],
)
def test_what_a_slice_selects_keeps_the_derivatives_that_weights_would_give_it(f: Any, x: list[float]) -> None:
    # Also where values are 0 or 1 and terms cancel by chance: such elements are not dead.
    def derivatives(select: Any) -> list[Any]:
        v = tf.constant(x)
        with tf.GradientTape() as outer:
            outer.watch(v)
            with tf.GradientTape() as inner:
                inner.watch(v)
                y = select(f(v))
            g = inner.gradient(y, v)
        return [g.numpy(), outer.jacobian(g, v).numpy()]

    k = len(f(tf.constant(x))) - 1
    sliced = derivatives(lambda y: y[k])
    weighed = derivatives(lambda y: tf.reduce_sum(y * tf.one_hot(k, len(y))))
    for a, b in zip(sliced, weighed, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "choose",
    [
        lambda q: tf.clip_by_value(q, 0.0, 3.0),
        lambda q: tf.clip_by_value(tf.ones_like(q), q, 3.0),
        lambda q: tf.maximum(q, 0.5),
        lambda q: tf.minimum(0.5, q),
        tf.nn.relu,
        tf.nn.relu6,
        tf.keras.activations.hard_sigmoid,
    ],
    ids=["clip", "lower bound", "maximum", "minimum", "relu", "relu6", "hard_sigmoid"],
)
def test_a_nan_is_not_lost_behind_a_choice_by_comparison(choose: Any) -> None:
    # The gradient is NaN by each value on the way, because no comparison of a NaN passes it over.
    x = tf.constant([np.nan, 0.25], tf.float64)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        q = 2.0 * x
        z = tf.math.log(choose(q))
    for source in (q, x):
        gradient = tape.gradient(z, source).numpy()
        assert np.isnan(gradient[0]) and np.isfinite(gradient[1])
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as acc:
        z = tf.math.log(choose(2.0 * x))
    assert np.isnan(acc.jvp(z).numpy()[0])
    jacobian = tape_jacobian(lambda v: tf.math.log(choose(2.0 * v)), x)
    assert np.isnan(jacobian[0, 0]) and jacobian[0, 1] == 0


def tape_jacobian(f: Any, x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.jacobian(y, x).numpy()


def test_a_nan_in_the_branch_not_taken_stays_out() -> None:
    x = tf.constant([np.nan, 2.0], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        z = tf.where(tf.constant([False, True]), tf.sqrt(2.0 * x), 1.0)
    np.testing.assert_array_equal(tape.gradient(z, x).numpy(), [0.0, 0.5])


@pytest.mark.parametrize(
    "choose",
    [
        lambda x: tf.maximum(x, 0.0),
        lambda x: tf.maximum(tf.zeros([], tf.float64), x),
        lambda x: tf.clip_by_value(x, 0.0, 9.0),
        lambda x: tf.where(x > 0.0, x, 0.0),
        lambda x: tf.reduce_max(tf.stack([x, tf.zeros_like(x)]), axis=0),
        tf.nn.relu,
        tf.nn.relu6,
    ],
    ids=["maximum", "maximum, second", "clip", "where", "reduce_max", "relu", "relu6"],
)
def test_an_element_left_out_gets_no_infinite_cotangent(choose: Any) -> None:
    # The square root has an infinite slope at 0, the value that stands in for a negative element.
    def rooted(x: Any) -> Any:
        return tf.sqrt(choose(x))

    def used_twice(x: Any) -> Any:
        return 3.0 * x + rooted(x)

    def broadcast(x: Any) -> Any:  # the cotangent of x[1] is a sum over the elements
        return rooted(x[1] * tf.constant([-1.0, 1.0, -2.0], tf.float64))

    x = tf.constant([-1.0, 4.0], tf.float64)
    for f, expected in ((rooted, [0.0, 0.25]), (used_twice, [3.0, 3.25]), (broadcast, [0.0, 0.25])):
        compiled = tf.function(gradients_of(f), jit_compile=True)
        for function in (gradients_of(f), compiled):
            for found in function(x):
                np.testing.assert_array_equal(found.numpy(), expected)
        summed = tape_jacobian(f, x).sum(axis=0)
        np.testing.assert_array_equal(summed, expected)


def gradients_of(f: Any) -> Any:
    """The gradient alone, and under another tape."""

    def run(x: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(x)
                y = f(x)
            under = tape.gradient(y, x)
        return tape.gradient(y, x), under

    return run


_SINGULAR = {
    "log": (tf.math.log, [0.0, 4.0], [math.inf, 0.25]),
    "power": (lambda x: x**0.5, [0.0, 4.0], [math.inf, 0.25]),
    "acos": (tf.acos, [-1.0, 0.6], [-math.inf, -1.25]),
    "exp": (tf.exp, [1e4, 0.0], [math.inf, 1.0]),
    "quotient": (lambda x: 1.0 / x, [0.0, 2.0], [-math.inf, -0.25]),
    "several steps": (lambda x: tf.concat([tf.math.log(2.0 * x[:1]), x[1:]], 0), [0.0, 2.0], [math.inf, 1.0]),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("persistent", [False, True], ids=["one use", "persistent"])
@pytest.mark.parametrize(("f", "x", "diagonal"), _SINGULAR.values(), ids=_SINGULAR)
@pytest.mark.filterwarnings("ignore:.*runs eagerly:RuntimeWarning")
def test_an_infinite_slope_of_one_element_leaves_the_rows_of_the_others(
    f: Any, x: Any, diagonal: Any, persistent: bool, compiled: bool
) -> None:
    """A row of a Jacobian is the gradient of one element, in which the zeros of its seed stay zeros."""

    def jacobians(x: Any) -> Any:
        with tf.GradientTape(persistent=persistent) as tape:
            tape.watch(x)
            y = f(x)
        whole = tape.jacobian(y, x)
        rows = tf.reshape(x, [1, 2])
        with tf.GradientTape(persistent=persistent) as tape:
            tape.watch(rows)
            y = tf.reshape(f(rows[0]), [1, 2])
        return whole, tape.batch_jacobian(y, rows)

    whole, batch = tf.function(jacobians, jit_compile=compiled)(tf.constant(x, tf.float64))
    expected = [[diagonal[0], 0.0], [0.0, diagonal[1]]]
    np.testing.assert_allclose(whole, expected, rtol=1e-14)
    np.testing.assert_allclose(batch, [expected], rtol=1e-14)


def test_a_mixed_second_derivative_is_finite_beside_one_that_overflows() -> None:
    x = tf.constant([1e300, 1e-5], tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = x[0] / x[1]
        slope = inner.gradient(y, x)
    np.testing.assert_allclose(outer.jacobian(slope, x), [[0.0, -1e10], [-1e10, math.inf]], rtol=1e-14)
