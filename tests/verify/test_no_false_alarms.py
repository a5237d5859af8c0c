"""Correct programs of many kinds: no alarm, no crash, and the verdict that the design defines."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flint import ctx

import gtape as tf
from gtape.declare.primitives import REGISTRY
from gtape.verify import check, exact, judge
from gtape.verify.programs.mutants import planted, planted_kernel, scaled
from gtape.verify.verdicts.collect import collecting
from gtape.verify.verdicts.verdict import Report

CORRECT = ("correct", "conditioning")


@tf.custom_gradient(declared="clips")
def clipped(x: Any) -> Any:
    return tf.identity(x), lambda g: tf.clip_by_norm(g, 1.0)


@tf.custom_gradient
def residual_from_numpy(x: Any) -> Any:
    c = np.cos(x.numpy())
    return tf.sin(x), lambda g: g * c


@tf.custom_gradient
def all_through_numpy(x: Any) -> Any:
    return tf.sin(x), lambda g: tf.constant(g.numpy() * np.cos(x.numpy()))


@tf.custom_gradient
def stable_softplus(x: Any) -> Any:
    e = tf.exp(x)
    return tf.math.log(1 + e), lambda g: g * (1 - 1 / (1 + e))


def chain(x: Any) -> Any:
    for i in range(200):
        x = tf.sin(x) * 1.1 if i % 2 else tf.cos(x)
    return x


def chaos(x: Any) -> Any:
    for _ in range(60):
        x = 4.0 * x * (1 - x)
    return x


def safe_log(x: Any) -> Any:
    good = x > 0
    return tf.where(good, tf.math.log(tf.where(good, x, 1.0)), 0.0)


def guarded(x: Any) -> Any:
    y = tf.sqrt(x)
    return tf.where(tf.math.is_nan(y), x * x, y)


def segments(x: Any) -> Any:
    return tf.math.segment_sum(x * x, [0, 0, 1, 1, 3, 3]) * tf.math.unsorted_segment_prod(x, [1, 0, 1, 1, -1, 2], 4)


def with_state(x: Any) -> Any:
    start = (tf.zeros(2, tf.float64), 0, tf.ones(2, tf.float64))
    return tf.scan(lambda s, e: (tf.tanh(s[0] * 0.5 + e), s[1] + 1, s[2] * tf.sigmoid(e)), x, start)[2]


def stopped(x: Any) -> Any:
    a = tf.stop_gradient(x * x)
    return (tf.stop_gradient(tf.sin(x) * a) + x) * a + x * tf.stop_gradient(tf.reduce_max(x))


def masked(x: Any) -> Any:
    return tf.nn.softmax(x + np.array([0.0, -np.inf, 0.0])) * [1.0, 2.0, 3.0]


HILBERT = np.array([[1 / (i + j + 1) for j in range(6)] for i in range(6)])
CASES: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "a long chain": (chain, [0.3, 0.7], CORRECT),
    "chaos": (chaos, [0.3], CORRECT),
    "cancellation of a bit": (lambda x: (tf.exp(x) - 1) / x, [1.5, 2.0], CORRECT),
    "an ill-conditioned system": (lambda a: tf.linalg.solve(a, tf.ones((6, 1), tf.float64)), HILBERT, CORRECT),
    "underflow": (lambda x: tf.exp(-x * x), [40.0, 1.0], CORRECT),
    "subnormals": (lambda x: x * x * 1e300 + x * 0.5, [5e-324, 1e-310], CORRECT),
    "the where trick": (safe_log, [-1.0, 0.0, 2.0], ("convention",)),
    "no where trick": (lambda x: tf.where(x > 0, tf.math.log(x), 0.0), [-1.0, 0.0, 2.0], ("convention",)),
    "a guard for NaN": (guarded, [-1.0, 1.0, 4.0], CORRECT),
    "ties": (lambda x: tf.reduce_max(x) + tf.sort(x)[1], [1.0, 1.0, 2.0, 2.0], ("convention",)),
    "integers and booleans": (
        lambda x: x * tf.cast(tf.cast(x, tf.int32), tf.float64) + tf.cast(x > 2, tf.float64) * x * x,
        [1.5, 2.5],
        CORRECT,
    ),
    "a repeated lookup": (lambda x: tf.gather(x, [[0, 0], [2, 0]]) ** 3 * x[0], [0.5, 1.0, 2.0], CORRECT),
    "segments": (segments, [0.5, -1.0, 2.0, 0.3, -0.7, 1.1], CORRECT),
    "a scan with state": (with_state, [[0.5, 1.0], [-0.3, 0.2]], CORRECT),
    "a clipping custom gradient": (lambda x: tf.sin(clipped(x * 5)) * 7, [0.5, -1.0], CORRECT),
    "a custom gradient": (lambda x: stable_softplus(x) * x, [0.5, 3.0], CORRECT),
    "stop_gradient": (stopped, [0.5, 1.0, -2.0], CORRECT),
    "a mask of -inf": (masked, [0.0, 1.0, 2.0], CORRECT),
    "x**y at zero": (lambda x: x ** tf.constant(np.array([1.0, 2.0, 3.0])) + x**2 + x**0, [0.0, 0.0, 0.0], CORRECT),
    "a product with zeros": (lambda x: tf.math.cumprod(x) * x, [2.0, 0.0, 3.0, 0.0], CORRECT),
    "large logits": (lambda x: tf.nn.log_softmax(x) * [1.0, 2.0], [1000.0, -1000.0], CORRECT),
}


def report_of(ask: Any, f: Any, at: Any) -> Report:
    x = tf.Variable(np.asarray(at, dtype=np.float64))
    with collecting() as report, tf.verifying("strict"):
        ask(f, x)
    return report


def once(f: Any, x: Any) -> None:
    with tf.GradientTape(persistent=True) as tape:
        y = f(x)
    tape.gradient(y, x)
    tape.gradient(y, x)


def twice(f: Any, x: Any) -> None:
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = f(x)
        g = tf.convert_to_tensor(inner.gradient(y, x))
    outer.gradient(g, x)


def forward(f: Any, x: Any) -> None:
    t = tf.constant(np.random.default_rng(3).normal(size=x.shape))
    with tf.autodiff.ForwardAccumulator(x, t) as acc:
        acc.jvp(f(x))


QUESTIONS = [
    (name, ask)
    for ask in (once, twice, forward)
    for name in CASES
    if ask is not twice or name not in ("a long chain", "chaos")  # once is enough
]


@pytest.mark.parametrize(("name", "ask"), QUESTIONS, ids=[f"{n}, {a.__name__}" for n, a in QUESTIONS])
def test_no_alarm(name: str, ask: Any) -> None:
    f, at, verdicts = CASES[name]
    report = report_of(ask, f, at)
    assert report.ok and report.verdict in verdicts, report


@pytest.mark.parametrize("f", [residual_from_numpy, all_through_numpy])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounded_factors_from_numpy_are_no_fault(f: Any, dtype: Any) -> None:
    assert check(lambda x: f(x) * x * 2, np.array([0.5, -1.2, 2.0], dtype)).verdict in CORRECT


def test_overflow_of_a_tangent_is_range() -> None:
    x = tf.Variable(np.array([80.0, 89.0], np.float32))
    with collecting() as report, tf.verifying(), tf.autodiff.ForwardAccumulator(x, tf.ones(2)) as acc:
        acc.jvp(tf.exp(x))
    assert report.ok and report.verdict == "range"


def test_each_part_of_a_split_is_checked_forwards() -> None:
    x = tf.Variable(np.array([0.5, 1.0, 2.0]))
    with collecting() as report, tf.verifying(), tf.autodiff.ForwardAccumulator(x, tf.ones(3, tf.float64)) as acc:
        for part in tf.split(x * x, [1, 2]):
            acc.jvp(part)
    assert report.checked == 3


@pytest.mark.parametrize(
    ("f", "at"),
    [
        (lambda x: tf.maximum(x, 0.0), [1.0, 2.0, 0.0]),
        (lambda x: tf.clip_by_value(x, -1.0, 1.0), [0.5, -1.0]),
        (lambda x: tf.math.floormod(x, 2.0), [1.0, 4.0]),
        (lambda x: tf.atan2(x, -1.0), [1.0, 0.0]),
    ],
    ids=["maximum", "clip", "floormod", "atan2"],
)
def test_a_kink_or_jump_at_any_element_is_told(f: Any, at: Any) -> None:
    report = check(f, np.array(at))
    assert report.ok and report.verdict == "convention"


def test_steep_but_smooth_is_no_kink() -> None:
    report = check(lambda x, y: x**y, np.array([0.0, 0.0, 1.0]), np.array([2.0, 3.0, 0.5]), order=2)
    assert report.verdict in CORRECT, report


def test_a_scan_may_magnify_what_subnormal_numbers_round() -> None:
    x = tf.constant(np.array([0.0, 0.125, 8.0]))
    with tf.GradientTape(verify="strict") as tape:
        tape.watch(x)
        y = REGISTRY["linear_recurrence"](
            x, tf.constant([2e-323, 1.6e-322, 2e-323], tf.float64), axis=-1, reverse=False
        )
    assert tape.gradient(y, x, output_gradients=tf.constant([1.0, 2.0, 3.0], tf.float64)) is not None


def test_threads_check_at_the_same_time() -> None:
    failed: list[BaseException] = []

    def work(seed: int) -> None:
        x = tf.Variable(np.random.default_rng(seed).normal(size=3))
        try:
            for _ in range(2):
                with tf.GradientTape(verify="strict") as tape:
                    y = tf.maximum(tf.exp(x) * tf.exp(x), tf.exp(2 * x))
                tape.gradient(y, x)
        except BaseException as e:
            failed.append(e)

    bits = ctx.prec
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed
    assert ctx.prec == bits


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [2, 5, 12])
@pytest.mark.parametrize("seed", range(4))
def test_products_that_are_symmetric_up_to_rounding_have_factors(n: int, dtype: str, seed: int) -> None:
    """A covariance such as F P F' + Q differs from its transpose in its last bits; a kernel reads one triangle."""
    rng = np.random.default_rng([n, seed])
    root = rng.normal(size=(n, n))
    bits = float(np.finfo(dtype).eps) * rng.integers(-2, 3, (n, n))
    bits[0, 1], bits[1, 0] = 4 * np.finfo(dtype).eps, 0
    a = np.asarray((root @ root.T + np.eye(n)) * (1 + bits), dtype)
    assert not np.array_equal(a, a.T)

    def f(a: Any) -> Any:
        factor = tf.linalg.cholesky(a)
        return tf.reduce_sum(factor * factor) + tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)))

    assert check(f, a).ok
    with planted_kernel("cholesky", 1 + 4096 * float(np.finfo(dtype).eps)):
        found = [v for v in check(f, a).findings if not v.ok]
    assert ("rule", "cholesky") in {(v.verdict, v.op) for v in found}


@pytest.mark.parametrize("seed", range(3))
def test_gamma_draws_of_shapes_near_a_half_are_right(seed: int) -> None:
    tf.random.set_seed(seed)
    a = tf.Variable(0.505, dtype=tf.float64)
    with tf.GradientTape(verify=True) as tape:
        loss = tf.reduce_sum(tf.random.gamma([100], a, dtype=tf.float64))
    assert tape.gradient(loss, a) is not None  # the flag raises an error for a wrong draw


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("order", [1, 2])
def test_gamma_draws_of_small_shapes_are_right(order: int, seed: int, dtype: str) -> None:
    """Draws of sparse priors are as small as 1e-300, or beneath all floats."""
    alpha = np.exp(np.random.default_rng(seed).uniform(np.log(5e-3), np.log(20), 6)).astype(dtype)

    def f(a: Any) -> Any:
        draws = tf.random.stateless_gamma([4, 6], seed=[seed, 2], alpha=a, dtype=a.dtype)
        return tf.reduce_sum(tf.math.log1p(draws))

    assert check(f, alpha, order=order).ok
    with planted("gamma_draw", 0, scaled(1 + (1e-4 if dtype == "float32" else 1e-9)), worlds="floats"):
        found = [v for v in check(f, alpha).findings if not v.ok]
    assert ("rule", "gamma_draw") in {(v.verdict, v.op) for v in found}


@pytest.mark.parametrize("size", [1.0, 1e15, 1e-40])
@pytest.mark.parametrize("n", [2, 3, 4, 5, 7])
def test_determinants_of_all_sizes_are_right(n: int, size: float) -> None:
    for seed in range(5):
        assert check(tf.linalg.det, np.random.default_rng([n, seed]).normal(size=(n, n)) * size).ok


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 3, 4, 5, 7])
def test_determinants_of_orthogonal_and_singular_matrices_are_right(n: int) -> None:
    for seed in range(5):
        a = np.random.default_rng([n, seed]).normal(size=(n, n))
        assert check(tf.linalg.det, np.linalg.qr(a)[0]).verdict in (*CORRECT, "cancellation")
        assert check(tf.linalg.det, np.outer(a[0], a[1])).ok


@pytest.mark.parametrize(("n", "lost"), [(4, 0), (4, 1), (4, 2), pytest.param(7, 3, marks=pytest.mark.slow)])
def test_determinants_of_matrices_with_scaled_rows_have_right_rules(n: int, lost: int) -> None:
    rng = np.random.default_rng([n, lost])
    a = rng.integers(-3, 4, (n, n)).astype(float)
    a[: min(lost, n - 1)] = a[-1]
    a *= 2.0 ** rng.integers(-30, 30, (n, 1)) * 2.0 ** rng.integers(-30, 30, n)
    for order in (1, 2):
        assert all(f.verdict in (*CORRECT, "cancellation") for f in check(tf.linalg.det, a, order=order).findings)


@pytest.mark.parametrize("seed", range(8))
def test_no_rule_is_blamed_for_singular_values_of_the_size_of_rounding(seed: int) -> None:
    """The sign of a left vector against that of the right one depends on roundings."""
    a = np.random.default_rng([2, seed]).normal(size=(2, 2))
    report = check(lambda a: tf.reduce_sum(tf.linalg.svd(a, compute_uv=False)), np.outer(a[0], a[1]))
    assert report.verdict not in ("rule", "undecided")


@pytest.mark.parametrize("power", [60, 200, 299])
def test_remainders_of_far_larger_numbers_are_right(power: int) -> None:
    """A quotient of 1e299 needs a thousand bits, and fewer bits leave more than one whole number open."""
    assert check(
        tf.math.floormod, -9.223860752631218 * 10.0 ** (power // 2), 6.2596191965805664 * 10.0 ** (-power // 2)
    ).ok


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_log_probabilities_that_add_up_to_1_keep_the_digits_that_floats_have(dtype: str) -> None:
    # log(exp(a) + exp(b)) is about 1e-17 there, and no number of the program is as small.
    for p in np.random.default_rng(5).uniform(0.0, 1.0, 20).astype(dtype):
        report = check(lambda p: tf.math.logaddexp(tf.math.log(p), tf.math.log1p(-p)), p)
        assert report.ok, report
    report = check(lambda z: tf.math.logaddexp(tf.math.log_sigmoid(z), tf.math.log_sigmoid(-z)), 0.3, order=2)
    assert report.ok, report


@pytest.mark.parametrize("n", [10, 100, 400])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_large_value_at_the_greatest_of_many_classes_costs_no_digits(n: int, dtype: str) -> None:
    """Its share is small there, so that the result is much smaller than the value."""
    for seed in range(3):
        rng = np.random.default_rng([n, seed])
        x, v = rng.normal(size=n) * 0.1, rng.normal(size=n) * 0.01
        v[np.argmax(x)] = 3.3
        x, v = x.astype(dtype), tf.constant(v, dtype)
        assert check(lambda x, v=v: tf.reduce_sum(tf.nn.softmax(x) * v), x).ok
        along = check(lambda p, x=x, v=v: tf.reduce_logsumexp(x + p * v), np.dtype(dtype).type(0.0), order=2)
        assert along.ok


def paths(impossible: float) -> Callable[[Any], Any]:
    """The logarithm of the probability of all ways through three states, of which one is impossible at the start."""

    def f(z: Any) -> Any:
        p = tf.nn.log_softmax(z)
        a, b, c = p[0, 0], p[0, 0], tf.constant(impossible, z.dtype)
        for t in range(1, 4):
            a, b, c = (
                a + p[t, 1],
                tf.reduce_logsumexp(tf.stack([b, a])) + p[t, 0],
                tf.reduce_logsumexp(tf.stack([c, b, a])) + p[t, 2],
            )
        return -tf.reduce_logsumexp(tf.stack([b, c]))

    return f


@pytest.mark.parametrize("impossible", [-1e30, -1e20, -1e10, -np.inf])
def test_impossible_states_cost_no_digits(impossible: float) -> None:
    z = np.random.default_rng(22).normal(size=(4, 3)).astype("float32")
    assert check(paths(impossible), tf.constant(z), order=2).ok


def test_rounding_in_place_of_an_exact_zero_is_shown_beside_a_zero() -> None:
    f, z = paths(-1e30), np.random.default_rng(22).normal(size=(4, 3)).astype("float32")
    claim = np.reshape([e.nearest(np.float32) for e in exact(f, z, order=2).ravel()], (4, 3, 4, 3)).astype("float32")
    claim[0, 2, 1, 2] = -1e-10  # the normalisation of each step cancels in the second derivative
    report = judge(f, (z,), claim, order=2)
    (found,) = report.findings
    assert report.ok
    assert "the exact derivative is 0" in found.reason
    assert found.exact == "0"


@pytest.mark.parametrize("impossible", [-1e30, -np.inf])
def test_an_impossible_state_hides_no_wrong_logsumexp(impossible: float) -> None:
    x = np.array([impossible, 0.3, -0.2], "float32")
    with planted_kernel("logsumexp", 1 + 1e-4):
        found = [v for v in check(lambda x: tf.reduce_logsumexp(x) ** 2, x).findings if not v.ok]
    assert ("rule", "logsumexp") in {(v.verdict, v.op) for v in found}


@pytest.mark.parametrize("x", [[0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, -5.0]])
def test_a_common_part_of_the_cotangents_of_tied_classes_costs_no_digits(x: list[float]) -> None:
    v = tf.constant(1e6 + np.arange(len(x)) * 2.0**-20, tf.float64)
    assert check(lambda x: tf.reduce_sum(tf.nn.softmax(x) * v), np.array(x)).ok
