"""Bugs of the big libraries, where they were found: gtape's derivative is right, and judge() tells theirs.

The numbers are those of the collection that the cases come from; issue trackers are named as in ``TF#126524``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check, exact, judge

m = tf.math


class Case(NamedTuple):
    """A function, a point, and what somebody's library returned there."""

    number: int
    where: str
    f: Callable[..., Any]
    at: tuple[Any, ...]
    order: int
    wrong: Any
    verdicts: tuple[str, ...] = ("rule", "unstable")


LARGE = 37.4299477502370  # where sigmoid' is 2**-54
_LABELS = np.array([0.2, 0.3, 0.5])


def _hard_swish(x: Any) -> Any:
    return x * m.hard_sigmoid(x)


def _cross_entropy(x: Any) -> Any:
    return tf.nn.softmax_cross_entropy_with_logits(labels=tf.constant(_LABELS), logits=x)


def _steep(x: Any) -> Any:
    u = x * 1e8
    return tf.tanh(u) * u * u


def _power4(x: Any) -> Any:
    @tf.custom_gradient
    def f(v: Any) -> Any:
        return v**4, lambda g: g * 4.0 * v**3

    return f(x)


def _matrix(x: Any) -> Any:
    return tf.reshape(x, [2, 2])


CASES = [
    Case(1, "TF#126524", tf.tanh, (20.0,), 1, 0.0),
    Case(3, "torch#195530, right", m.log_sigmoid, (LARGE,), 2, 0.0),
    Case(3, "torch#195530, left", m.log_sigmoid, (-LARGE,), 2, 0.0),
    Case(5, "torch#192408", m.exp2, (1024.0,), 2, math.inf, ("range",)),
    Case(7, "torch#196704", m.logaddexp, (-800.0, -800.0), 2, ((math.nan, math.nan), (math.nan, math.nan))),
    Case(
        9,
        "torch#196696",
        lambda t: tf.linalg.det(_matrix(tf.stack([1.0 + 2.0 * t, 2.0 + t, 3.0 + 0.0 * t, 4.0 + t]))),
        (0.3,),
        2,
        8.83,
    ),
    Case(
        11, "torch#192540", lambda x: tf.linalg.det(_matrix(x)), (np.array([1.0, 2.0, 3.0, 4.0]),), 2, np.zeros((4, 4))
    ),
    Case(13, "torch#197867", _power4, (3.0,), 2, 0.0),
    Case(17, "jax#39794", m.expm1, (-40.0,), 1, 0.0),
    Case(19, "jax#39799", tf.sqrt, (5e-324,), 1, math.inf),
    Case(21, "jax sinc", m.sinc, (6.7e-9,), 2, 1.75),
    Case(23, "jax#40383", m.softplus, (LARGE,), 2, 0.0),
    Case(23, "jax#40387", m.log_sigmoid, (LARGE,), 2, 0.0),
    Case(25, "jax#40315", _steep, (-1.0,), 2, 0.0),
    Case(31, "TF#35011, x**3", lambda x: x**3, (0.0,), 2, math.nan),
    Case(31, "TF#35011, x**2", lambda x: x**2, (0.0,), 2, math.nan),
    Case(35, "TF sinc, second", m.sinc, (0.0,), 2, math.nan),
    Case(37, "autograd sinc", m.sinc, (0.0,), 1, math.nan),
    Case(39, "autograd asinh", m.asinh, (1e200,), 1, 0.0),
    Case(43, "mygrad tanh", tf.tanh, (-20.0,), 1, 0.0),
    Case(45, "asin near 1", tf.asin, (1.0 - 2.0**-52,), 1, 47453133.0 * (1.0 + 49 * 2.0**-53)),
    Case(45, "acos near 1", tf.acos, (1.0 - 2.0**-50,), 2, -67108863.0),
    Case(49, "TF#7403", _cross_entropy, (np.array([0.5, -1.0, 2.0]),), 2, np.zeros((3, 3))),
    Case(51, "TF#44556", tf.reduce_prod, (np.array([0.0, 0.0, 1.0]),), 2, np.full((3, 3), math.nan)),
    Case(51, "TF#61117", tf.reduce_prod, (np.array([0.0, 2.0]),), 2, np.zeros((2, 2))),
    Case(55, "jax#18450", lambda x: x**0, (0.0,), 1, math.nan),
    Case(57, "autograd#396", lambda x: tf.where(x > 1.0, x * x, -x), (np.array([0.5, 2.0]),), 1, np.array([1.0, 4.0])),
    Case(
        59,
        "autograd#242",
        lambda x, y: tf.einsum("ij,jk->i", x, y),
        (np.ones((1, 2)), np.array([[1.0, 2.0], [3.0, 4.0]])),
        1,
        (np.array([[3.0, 3.0]]), np.array([[1.0, 1.0], [1.0, 1.0]])),
    ),
    Case(61, "torch#67461", lambda x: tf.exp(x) - 2.0 * x, (1.5,), 1, math.exp(1.5)),
    Case(65, "torch#1712", lambda x: tf.reduce_max(x) ** 3, (np.array([1.0, 2.0]),), 2, np.zeros((2, 2))),
    Case(69, "Enzyme-JAX#2571", m.cbrt, (-8.0,), 1, math.nan),
    Case(71, "ocannl#73", lambda x: x**2.5, (1.7,), 1, 1.0),
    Case(77, "micrograd", tf.pow, (2.0, 3.0), 1, (12.0, 0.0)),
]


def _derivative(case: Case) -> list[Any]:
    """gtape's own derivative by its tapes, flattened."""
    xs = [tf.constant(np.asarray(a, np.float64)) for a in case.at]
    if case.order == 1:
        with tf.GradientTape() as tape:
            tape.watch(xs)
            y = case.f(*xs)
        return [g.numpy() for g in tape.gradient(y, xs)]
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(xs)
        with tf.GradientTape() as inner:
            inner.watch(xs)
            y = case.f(*xs)
        first = inner.gradient(y, xs)
    return [outer.jacobian(g, x, unconnected_gradients="zero").numpy() for g in first for x in xs]


def _flat(structure: Any) -> list[Any]:
    return [e for part in structure for e in _flat(part)] if isinstance(structure, tuple) else [structure]


def _ids(case: Case) -> str:
    return f"{case.number} {case.where}"


@pytest.mark.parametrize("case", CASES, ids=_ids)
def test_gtapes_own_derivative_is_right(case: Case) -> None:
    truth = _flat(exact(case.f, *case.at, order=case.order, digits=25))
    for got, wanted in zip(_derivative(case), truth, strict=True):
        for g, w in zip(np.ravel(got).tolist(), np.ravel(np.asarray(wanted, dtype=object)).tolist(), strict=True):
            true = float(w)
            assert g == true or abs(g - true) <= 4 * np.spacing(abs(true)), (g, w)


@pytest.mark.parametrize("case", CASES, ids=_ids)
def test_judge_tells_what_their_library_returned(case: Case) -> None:
    report = judge(case.f, case.at, case.wrong, order=case.order)
    assert not report.ok
    assert report.verdict in case.verdicts


# ---------------------------------------------------------------- kinks: least norm, and a certificate


@pytest.mark.parametrize(
    ("f", "at"),
    [
        pytest.param(tf.norm, [0.0, 0.0], id="29 norm of zeros"),
        pytest.param(m.reduce_std, [2.0, 2.0, 2.0], id="41 std of constants"),
    ],
)
def test_norms_have_the_least_of_their_derivatives_at_zero(f: Any, at: Any) -> None:
    x = tf.constant(np.array(at))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert tape.gradient(y, x).numpy().tolist() == [0.0] * len(at)
    assert check(f, np.array(at)).ok
    report = judge(f, (np.array(at),), np.full(len(at), math.nan))
    assert not report.ok and report.verdict == "convention"


@pytest.mark.parametrize(("at", "theirs", "interval"), [(3.0, 1.5001, (1.0, 1.5)), (-3.0, -0.5001, (-0.5, 0.0))])
def test_63_hard_swish_lies_between_its_one_sided_derivatives(at: float, theirs: float, interval: Any) -> None:
    x = tf.constant(at, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = _hard_swish(x)
    got = tape.gradient(y, x).numpy()
    assert interval[0] <= got <= interval[1]
    assert judge(_hard_swish, (at,), float(got)).ok
    report = judge(_hard_swish, (at,), theirs)
    assert not report.ok and report.verdict == "convention"


@pytest.mark.parametrize("f", [lambda x: tf.clip_by_value(x, 0.0, 6.0), tf.nn.relu6], ids=["clip", "clipped relu"])
def test_75_clipping_has_one_convention_everywhere(f: Any) -> None:
    at = np.array([0.0, 6.0, -1.0, 7.0, 3.0])
    for dtype in (np.float32, np.float64):
        for shaped in (at, at.reshape(5, 1)):
            x = tf.constant(shaped.astype(dtype))
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            assert tape.gradient(y, x).numpy().ravel()[2:].tolist() == [0.0, 0.0, 1.0]
    assert check(f, at).ok
    report = judge(f, (at,), np.array([2.0, 0.0, 0.0, 0.0, 1.0]))
    assert not report.ok and report.verdict == "convention"


def test_15_a_branch_for_no_threshold_at_all_is_told_from_the_identity() -> None:
    # hardshrink with lambd=0 is the identity; the derivative of the branch that was taken at 0 is 0.
    def hardshrink(x: Any) -> Any:
        return tf.where(tf.abs(x) > 0.0, x, 0.0 * x)

    def identity(x: Any) -> Any:
        return x * 1.0

    assert check(identity, 0.0).ok
    assert not judge(identity, (0.0,), 0.0).ok
    report = check(hardshrink, 0.0)
    assert report.verdict in ("convention", "correct")  # by the branch; never a rule
    assert check(hardshrink, 0.5).verdict == "correct"


# ---------------------------------------------------------------- modes, orders, dtypes


def _forward_over_forward(f: Any, x: Any, u: Any, v: Any) -> Any:
    with tf.autodiff.ForwardAccumulator(x, u) as outer:
        with tf.autodiff.ForwardAccumulator(x, v) as inner:
            y = f(x)
        first = inner.jvp(y)
    return outer.jvp(first)


def test_9_det_twice_forward() -> None:
    x = tf.constant([1.0, 2.0, 3.0, 4.0], tf.float64)
    u = tf.constant([1.0, 0.0, 0.0, 1.0], tf.float64)
    assert _forward_over_forward(lambda v: 2.0 * tf.linalg.det(_matrix(v)), x, u, u).numpy() == 4.0


@pytest.mark.parametrize(
    "f",
    [
        lambda v: tf.linalg.det(_matrix(v)),
        lambda v: tf.linalg.slogdet(_matrix(v))[1],
        lambda v: tf.reduce_sum(tf.linalg.solve(_matrix(v), tf.constant([[1.0], [2.0]], tf.float64))),
    ],
    ids=["det", "slogdet", "solve"],
)
def test_11_mixed_partials_forward_over_forward_are_symmetric(f: Any) -> None:
    x = tf.constant([1.0, 2.0, 3.0, 5.0], tf.float64)
    basis = [tf.constant(row) for row in np.eye(4)]
    hessian = np.array([[_forward_over_forward(f, x, u, v).numpy() for v in basis] for u in basis])
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-12, atol=1e-14)
    truth = np.array([[float(e) for e in row] for row in exact(f, x.numpy(), order=2, digits=20)])
    np.testing.assert_allclose(hessian, truth, rtol=1e-12, atol=1e-14)


def test_13_a_custom_gradient_forward_over_forward() -> None:
    one = tf.constant(1.0, tf.float64)
    assert _forward_over_forward(_power4, tf.constant(3.0, tf.float64), one, one).numpy() == 108.0


def test_27_float16_hessian_of_atan2_is_finite() -> None:
    x = tf.constant(300.0, tf.float16)  # x² overflows
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = m.atan2(x, x)
        first = inner.gradient(y, x)
    second = outer.gradient(first, x)
    assert first.dtype == second.dtype == tf.float16
    assert first.numpy() == 0.0 and second.numpy() == 0.0


def test_33_nan_propagates_through_the_second_derivative_of_log() -> None:
    x = tf.constant(math.nan)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = m.log(x)
        first = inner.gradient(y, x)
    assert math.isnan(first.numpy()) and math.isnan(outer.gradient(first, x).numpy())


def test_47_an_integer_variable_has_no_gradient_and_explain_says_why() -> None:
    v = tf.Variable(3)
    with tf.GradientTape(persistent=True) as tape:
        y = tf.cast(v, tf.float32) ** 2
    assert tape.gradient(y, v) is None
    assert "int32" in tape.explain(y, v)


def test_67_reverse_is_the_adjoint_of_forward() -> None:
    rng = np.random.default_rng(0)
    for f in (
        lambda x: tf.sort(x * x),
        lambda x: tf.nn.softmax(tf.reshape(x, [2, 3])),
        lambda x: tf.math.cumprod(x, exclusive=True, reverse=True),
        lambda x: tf.gather(x, [0, 2, 2]) ** 2,
    ):
        x, t = tf.constant(rng.normal(size=6)), tf.constant(rng.normal(size=6))
        with tf.autodiff.ForwardAccumulator(x, t) as acc, tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        u = tf.constant(rng.normal(size=y.shape))
        back = tf.convert_to_tensor(tape.gradient(y, x, output_gradients=u))
        left = np.vdot(u.numpy(), acc.jvp(y).numpy())
        np.testing.assert_allclose(left, np.vdot(back.numpy(), t.numpy()), rtol=1e-12)


def test_73_nested_derivatives_do_not_confuse_their_variables() -> None:
    # d/dx (x · d/dy (x + y)) = 1 and d/dx (x · d/dy (x y)) = 2x: each level with its own perturbation.
    def slope(f: Any, at: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(at)
            y = f(at)
        return tape.gradient(y, at)

    x = tf.constant(3.0)
    assert slope(lambda a: a * slope(lambda b: a + b, tf.constant(1.0)), x).numpy() == 1.0
    assert slope(lambda a: a * slope(lambda b: a * b, tf.constant(1.0)), x).numpy() == 6.0


def test_43_tanh_in_the_tail_of_float32() -> None:
    x = tf.constant(20.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.tanh(x)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), 1.699341702116636e-17, rtol=4 * 2.0**-24)


def test_53_bessel_i0_has_slope_zero_at_zero() -> None:
    assert judge(m.bessel_i0, (0.0,), 0.0).ok
    assert not judge(m.bessel_i0, (0.0,), 1.0).ok
    x = tf.constant(0.0, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = m.bessel_i0(x)
    assert tape.gradient(y, x).numpy() == 0.0


def test_61_log_poisson_loss() -> None:
    targets, logs = tf.constant([2.0, 0.0], tf.float64), tf.constant([0.7, -1.0], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(logs)
        y = tf.nn.log_poisson_loss(targets, logs)
    np.testing.assert_allclose(tape.gradient(y, logs).numpy(), np.exp(logs.numpy()) - targets.numpy(), rtol=1e-14)
