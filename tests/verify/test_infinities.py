"""Infinite numbers and infinite slopes: derivatives of the whole function that exist are judged, and faults found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape import numpy as tnp
from gtape.verify import check, exact, judge
from gtape.verify.judging.examine import Gradient
from gtape.verify.programs.mutants import planted, planted_kernel, scaled
from gtape.verify.verdicts.collect import collecting

F = Callable[..., Any]
INF = np.inf
MASK = np.where(np.tril(np.ones((3, 3))) > 0, 0.0, -INF)


def attention(x: Any) -> Any:
    w = tf.constant(np.random.default_rng(1).normal(size=(3, 2, 2)), x.dtype)
    q, k, v = x @ w[0], x @ w[1], x @ w[2]
    return (tf.nn.softmax(q @ tf.transpose(k) + tf.cast(MASK, x.dtype)) @ v) ** 2


def alignments(logits: Any) -> Any:
    """Minus the log-likelihood of the labels 1, 2, 2, summed over all alignments as in CTC."""
    labels = [0, 1, 0, 2, 0, 2, 0]
    skips = np.array([s >= 2 and labels[s] != 0 and labels[s] != labels[s - 2] for s in range(len(labels))])
    log_p, never = tf.nn.log_softmax(logits), tf.constant(-INF, logits.dtype)
    a = tf.where(np.arange(len(labels)) < 2, tf.gather(log_p[0], labels), never)
    for t in range(1, logits.shape[0]):
        one = tf.concat([[never], a[:-1]], 0)
        two = tf.where(skips, tf.concat([[never, never], a[:-2]], 0), never)
        a = tf.reduce_logsumexp(tf.stack([a, one, two]), 0) + tf.gather(log_p[t], labels)
    return -tf.reduce_logsumexp(a[-2:])


TRANSITIONS = np.log(np.array([[0.5, 0.5, 1.0], [1.0, 0.3, 0.4], [1.0, 2.0, 1.0]]))
TRANSITIONS[0, 2] = TRANSITIONS[1, 0] = -INF
START = np.array([0.0, -INF, -INF])
EMISSIONS = np.log(np.array([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]]))


def likelihood(start: Any, transitions: Any, emissions: Any) -> Any:
    """A hidden Markov model with impossible states and forbidden transitions."""
    a = tf.cast(start, transitions.dtype) + emissions[:, 0]
    for t in (1, 0, 1):
        a = tf.reduce_logsumexp(tf.expand_dims(a, 1) + transitions, axis=0) + emissions[:, t]
    return tf.reduce_logsumexp(a)


X = np.random.default_rng(0).normal(size=(3, 2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("worlds", ["all", "floats"])
@pytest.mark.parametrize("op", ["softmax", "matmul", "add"])
def test_faults_behind_a_mask_are_found_and_named(op: str, worlds: str, dtype: Any) -> None:
    assert check(attention, X.astype(dtype)).ok
    with planted(op, 0, scaled(1.1), worlds=worlds):
        report = check(attention, X.astype(dtype))
    assert report.verdict == "rule" and op in report.summary()


@pytest.mark.parametrize("op", ["softmax", "logsumexp", "max", "cumsum", "sum", "matmul", "where"])
def test_faulty_kernels_beside_an_infinity_are_found(op: str) -> None:
    mask = tf.constant([0.0, -INF, 0.0], tf.float64)
    programs: dict[str, Callable[[Any], Any]] = {
        "softmax": lambda x: tf.nn.softmax(x + mask),
        "logsumexp": lambda x: tf.reduce_logsumexp(x + mask),
        "max": lambda x: tf.reduce_max(x + mask) ** 2,
        "cumsum": lambda x: tf.exp(tf.cumsum(x + mask)),
        "sum": lambda x: tf.exp(tf.reduce_sum(tf.stack([x, x + mask]), axis=1)),
        "matmul": lambda x: tf.exp(tf.stack([x, x + mask]) @ tf.ones((3, 1), tf.float64)),
        "where": lambda x: tf.exp(tf.where(x > 0.3, x, mask)),
    }
    x = np.array([0.4, 1.5, 0.7])
    assert check(programs[op], x).ok
    with planted_kernel(op, 1 + 1e-9):
        report = check(programs[op], x)
    assert not report.ok and op in report.summary()


LIMITS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {  # f, where, the highest order
    "logsumexp beside -inf": (tf.reduce_logsumexp, ([-INF, 1.0],), 2),
    "logsumexp of one -inf": (tf.reduce_logsumexp, ([-INF],), 1),
    "logaddexp of two -inf": (lambda x, y: tnp.logaddexp(tnp.logaddexp(x, y), 2.0 + 0.0 * tf.exp(x)), (-INF, -INF), 2),
    "an impossible state": (
        lambda x: tf.reduce_logsumexp(tf.stack([tf.reduce_logsumexp(tf.stack([x - INF, x - INF])), x])),
        (2.0,),
        2,
    ),
    "a model with impossible states": (likelihood, (START, TRANSITIONS, EMISSIONS), 1),
    "a model by its emissions": (lambda e: likelihood(START, tf.cast(TRANSITIONS, e.dtype), e), (EMISSIONS,), 2),
    "softmax": (lambda x: tf.nn.softmax(x)[1] + tf.nn.log_softmax(x)[0], ([0.0, -INF, 2.0],), 2),
    "saturated": (lambda x: tf.sigmoid(x) + tf.tanh(x) + tf.exp(-x), ([0.0, INF],), 2),
    "extrema": (lambda x: tf.reduce_max(x) + tf.minimum(x[0], 5.0), ([0.0, -INF],), 2),
    "a floor under a root": (lambda x, y: tf.maximum(tf.sqrt(x * x + y * y), 1e-10), (0.0, 0.0), 1),
    "a root times its argument": (lambda x: x * tf.sqrt(x), ([0.0, 4.0],), 1),
    "a power of 0 by its exponent": (lambda p: tf.reduce_sum(tf.constant([0.0, 1.5], p.dtype) ** p), (0.75,), 2),
    "a steep power of 0": (lambda p: tf.reduce_sum(tf.constant([0.0, 1.5], p.dtype) ** p), (2.5,), 2),
    "zero times a root": (lambda x: 0.0 * tf.sqrt(x) + x, ([0.0, 4.0],), 2),
    "only zero times a root": (lambda x: 0.0 * tf.sqrt(x), (0.0,), 2),
    "zero times roots of two numbers": (lambda x, y: 0.0 * tf.sqrt(x) * tf.sqrt(y), (0.0, 4.0), 2),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", LIMITS)
def test_a_derivative_that_exists_by_limits_is_correct(name: str, dtype: Any) -> None:
    f, at, highest = LIMITS[name]
    for order in range(1, highest + 1):
        report = check(f, *[np.asarray(x, dtype) for x in at], order=order)
        assert report.verdict in ("correct", "conditioning") and report.ok, (order, report)


def switched(x: Any) -> Any:
    return tf.cast(x > 0, x.dtype)


def without(x: Any, at: float, part: Callable[[Any], Any]) -> Any:
    """A part of the function that a branch keeps off a point."""
    return tf.where(tf.equal(x, at), tf.zeros_like(x), part(tf.where(tf.equal(x, at), tf.ones_like(x), x)))


SWITCHED_OFF: dict[str, Callable[[Any], Any]] = {  # with a slope that is infinite, or none, on one side of 0 or on both
    "a root times a mask": lambda x: tf.sqrt(x) * switched(x),
    "a root without NaN": lambda x: tf.math.multiply_no_nan(tf.sqrt(x), switched(x)),
    "a root in a branch": lambda x: tf.where(x > 0, tf.sqrt(tf.where(x > 0, x, tf.ones_like(x))), tf.zeros_like(x)),
    "a power in a branch": lambda x: tf.where(x > 0, tf.where(x > 0, x, tf.ones_like(x)) ** 0.75, tf.zeros_like(x)),
    "a cusp": lambda x: without(x, 0.0, lambda part: tf.sqrt(tf.abs(part))),
    "waves": lambda x: without(x, 0.0, lambda part: part * tf.sin(1 / part)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SWITCHED_OFF)
def test_a_branch_over_an_infinite_slope_is_a_convention(name: str, dtype: Any) -> None:
    report = check(SWITCHED_OFF[name], np.asarray([0.0, 4.0], dtype))
    assert report.ok and "convention" in {found.verdict for found in report.findings}, report


@pytest.mark.parametrize(
    ("f", "at"),
    [
        (tf.sqrt, 0.0),
        (lambda x: tf.sqrt(x) ** 2, 0.0),
        (lambda x: tf.maximum(tf.sqrt(x), -1.0), 0.0),
        (lambda x: x * 0.0, INF),
        (tf.sin, INF),
    ],
)
def test_where_no_derivative_exists_the_verdict_stays_domain(f: Any, at: float) -> None:
    assert check(f, np.float64(at)).verdict == "domain"


def test_a_derivative_that_grows_with_an_infinite_constant_has_no_exact_number() -> None:
    infinity = tf.constant(np.inf, tf.float64)
    report = check(lambda x: tf.math.multiply_no_nan(infinity, x), 0.0)
    assert (report.verdict, report.findings[0].exact) == ("domain", None), report
    assert "holds infinity" in report.findings[0].reason


@pytest.mark.parametrize("mask", [np.zeros((2, 2)), np.array([[0.0, -INF], [0.0, 0.0]])], ids=["no mask", "a mask"])
def test_an_infinite_mask_is_no_cause_of_lost_digits_elsewhere(mask: Any) -> None:
    def f(x: Any) -> Any:
        attention = tf.nn.softmax(x[:, None] * x[None, :] + mask)
        return tf.reduce_sum(attention * x) + (1 - tf.cos(x[0])) / x[0] ** 2

    report = check(f, np.array([1e-4, 0.7]))
    assert (report.verdict, report.ok, report.checked) == ("cancellation", False, 2)
    assert report.findings[0].element == (0, (0,))


def test_an_infinite_mask_is_no_cause_of_lost_digits_of_complex_numbers() -> None:
    def f(z: Any) -> Any:
        x = tf.math.real(z)
        attention = tf.nn.softmax(x[:, None] * x[None, :] + np.array([[0.0, -INF], [0.0, 0.0]]))
        return tf.reduce_sum(attention * x) + tf.math.real((1 - tf.cos(z[0])) / z[0] ** 2)

    assert check(f, np.array([1e-4 + 1e-5j, 0.7])).verdict == "cancellation"


def test_a_wrong_number_at_an_infinite_source_is_refused() -> None:
    x = np.array([-INF, 1.0, 2.0])
    right = np.array([0.0, 1 / (1 + np.e), 1 / (1 + np.exp(-1.0))])
    assert judge(tf.reduce_logsumexp, x, right).ok
    assert not judge(tf.reduce_logsumexp, x, right * 1.001).ok
    assert not judge(tf.reduce_logsumexp, x, right + [0.001, 0.0, 0.0]).ok


POINTS = np.random.default_rng(0).normal(size=(2, 3))


def pairs(x: Any, p: Any) -> Any:
    return tf.reduce_sum((tf.expand_dims(x, 1) - tf.expand_dims(x, 0)) ** p, axis=-1)


def normalised(x: Any, p: Any) -> Any:
    d = x - tf.reduce_mean(x, axis=0)
    return d / tf.sqrt(tf.reduce_mean(d**p, axis=0) + 1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("p", [2, 3, 4.0])
def test_powers_of_differences_that_are_exactly_0(p: Any, order: int, dtype: Any) -> None:
    def net(x: Any) -> Any:
        return tf.tanh(x @ tf.ones((3, 1), x.dtype))

    x = POINTS.astype(dtype)
    assert check(lambda t: tf.exp(-pairs(net(t), p)), x, order=order).ok
    assert check(lambda t: normalised(net(t), p), x[:1], order=order).ok
    assert check(lambda t: (tf.exp(t) - tf.exp(t)) ** p + t, x[0, 0], order=order).ok


def test_no_op_is_blamed_for_inputs_without_exact_value() -> None:
    report = check(lambda x: tf.exp(-((tf.exp(x) - tf.exp(x)) ** 0.5)), 1.5)
    assert not report.ok and all(v.op != "exp" for v in report.findings)


def test_a_float32_tangent_with_a_float64_loss_has_float32_noise() -> None:
    rng = np.random.default_rng(0)
    x, t = [tf.constant(rng.normal(size=(6, 5)).astype(np.float32)) for _ in range(2)]
    w = tf.constant(rng.normal(size=(5, 5)).astype(np.float32))
    with collecting() as report, tf.verifying(), tf.autodiff.ForwardAccumulator(x, t) as acc:
        y = x
        for _ in range(6):
            y = tf.tanh(y @ w)
        acc.jvp(tf.reduce_sum(tf.cast(y, tf.float64) ** 2))
    assert report.ok


@pytest.mark.parametrize(
    ("f", "x", "tangent"),
    [
        (lambda x: x / (tf.sqrt(x * x) + 1e-8), 0.0, 1e8),
        (lambda x: tf.maximum(tf.sqrt(x * x), 0.1), 0.0, 0.0),
        (lambda x: tf.math.logaddexp(tf.math.logaddexp(x - np.inf, 2 * x - np.inf), x), 1.0, 1.0),
    ],
    ids=["quotient", "maximum", "two impossible paths"],
)
def test_tangents_pass_what_a_gradient_passes(f: Any, x: float, tangent: float) -> None:
    v = tf.Variable(x, dtype=tf.float64)
    with tf.verifying(), tf.GradientTape() as tape, tf.autodiff.ForwardAccumulator(v, tf.ones_like(v)) as acc:
        y = f(v)
    assert float(acc.jvp(y)) == float(tape.gradient(y, v)) == tangent


def test_a_claim_in_float32_is_judged_by_its_roundings() -> None:
    x = np.array([0.3, 1.7])
    right = np.exp(x).astype(np.float32)
    assert judge(tf.exp, x, right).ok
    lost = judge(tf.exp, x, right * np.float32(1.00002))
    assert not lost.ok and lost.verdict == "unstable"
    assert judge(tf.exp, x, right * np.float32(1.1)).verdict == "rule"


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    "masked",
    [
        lambda x, d: tf.where(tf.constant([True, False, True]), tf.square(x) / d, 0.0),
        lambda x, d: tf.gather(tf.square(x) / d, [0, 2]),
        lambda x, d: tf.math.nan_to_num(tf.square(x) / d, posinf=0.0),
        lambda x, d: tf.where(tf.constant([True, False, True]), tf.pow(d, x), 0.0) + tf.exp(x),
    ],
    ids=["where", "gather", "nan_to_num", "pow"],
)
def test_a_pole_that_a_selection_leaves_out_does_not_count_after_a_broadcast(masked: Any, order: int) -> None:
    # The cotangent of x is a sum over the elements, and NaN if the element left out enters it.
    def f(x: Any) -> Any:
        return tf.reduce_sum(masked(x, tf.constant([1.0, 0.0, 4.0], tf.float64)))

    assert check(f, np.float64(2.5), order=order).verdict == "correct"
    assert judge(f, np.float64(2.5), np.float64(7.5)).verdict == "rule"


@pytest.mark.slow
def test_zeros_behind_checked_ops_are_explained_by_their_terms_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: Any) -> Any:
        raise AssertionError("an exact zero needs neither moves of the inputs nor runs with noise")

    for question in ("moved", "bounds", "nearby"):
        monkeypatch.setattr(Gradient, question, refused)
    report = check(alignments, np.random.default_rng(0).normal(size=(6, 3)), order=2)
    assert report.ok and report.findings, report


def test_a_fault_among_alignments_is_found_and_named() -> None:
    with planted("log_softmax", 0, scaled(1 + 1e-9)):
        report = check(alignments, np.random.default_rng(0).normal(size=(4, 3)))
    assert (report.ok, report.findings[0].op) == (False, "log_softmax"), report


def test_one_infinite_term_of_a_logsumexp_has_the_whole_gradient() -> None:
    x = tf.constant([[1.0, INF, 3.0], [INF, 2.0, INF], [0.0, 0.0, -INF]], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_logsumexp(x, axis=1)
    expected = [[0.0, 1.0, 0.0], [np.nan, 0.0, np.nan], [0.5, 0.5, 0.0]]
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), expected)


IMPOSSIBLE: dict[str, Callable[..., Any]] = {  # functions of two terms that are -inf, and of one that is not
    "logsumexp": lambda x: tf.reduce_logsumexp(tf.stack([tf.reduce_logsumexp(x[:2]), x[2]])),
    "exp": lambda x: tf.exp(tf.reduce_logsumexp(x[:2])) + x[2],
    "log_softmax": lambda x: tf.nn.log_softmax(tf.stack([tf.reduce_logsumexp(x[:2]), x[2]]))[1] + x[2],
    "maximum": lambda x: tf.maximum(tf.reduce_logsumexp(x[:2]), x[2]),
    "running": lambda x: tf.reduce_logsumexp(tf.math.cumulative_logsumexp(x)),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_an_impossible_state_without_weight_adds_nothing_in_any_mode(name: str) -> None:
    f, x = IMPOSSIBLE[name], tf.constant([-INF, -INF, 0.3], tf.float64)
    along = [tf.constant(row, tf.float64) for row in np.eye(3)]
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = f(x)
        slopes = inner.gradient(y, x)
    assert slopes.numpy().tolist() == [0.0, 0.0, 1.0]
    assert not outer.jacobian(slopes, x).numpy().any()
    for k, direction in enumerate(along):
        with tf.autodiff.ForwardAccumulator(x, direction) as first:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            slopes = tape.gradient(y, x)
        assert first.jvp(y).numpy() == (k == 2) and not first.jvp(slopes).numpy().any()
        with tf.autodiff.ForwardAccumulator(x, direction) as second:
            with tf.autodiff.ForwardAccumulator(x, along[0]) as first:
                y = f(x)
            tangent = first.jvp(y)
        assert tangent.numpy() == 0.0 and second.jvp(tangent).numpy() == 0.0


def test_digits_lost_beside_a_part_that_a_selection_leaves_out_are_a_cancellation() -> None:
    # sqrt has an infinite slope at 0, so that only the limits from all sides give the derivative.
    def f(x: Any) -> Any:
        return (1 - tf.cos(x)) / x**2 + tf.sqrt(tf.maximum(x - 5.0, 0.0))

    most = check(f, 0.1)
    assert most.ok and most.verdict == "cancellation" and 9 < most.findings[0].digits < 13
    none = check(f, 1e-4)
    assert not none.ok and none.verdict == "cancellation" and none.findings[0].digits < 1
    assert not judge(f, 0.1, most.findings[0].got * 1.001).ok


@tf.custom_gradient
def tripled_wrongly(x: Any) -> Any:
    return 3.0 * x, lambda g: 3.001 * g


@pytest.mark.parametrize(
    ("part", "point"),
    [
        (lambda x: tf.sqrt(tf.maximum(x, 0.0)), -2.0),
        (lambda x: tf.sqrt(tf.nn.relu(2.0 * x)), -2.0),
        (lambda x: tf.square(tf.sqrt(tf.square(x))), 0.0),
        (lambda x: tf.norm(tf.stack([x, x])) ** 2, 0.0),
    ],
    ids=["maximum", "relu", "root of a square", "norm"],
)
def test_a_wrong_rule_beside_an_infinite_slope_is_found(part: Any, point: float) -> None:
    # The limits from all sides are those of the rules, which the mirrors have to certify.
    for f, right in ((lambda x: part(x) + 3.0 * x, 3.0), (lambda x: part(x) + tripled_wrongly(x), 3.001)):
        report = check(f, point)
        assert report.ok == judge(f, point, right).ok == (right == 3.0)
        if not report.ok:
            wrong = [g for g in report.findings if not g.ok]
            assert [(g.verdict, g.op) for g in wrong] == [("rule", "tripled_wrongly")]


@pytest.mark.parametrize(
    ("f", "limit"),
    [
        (lambda x: tf.math.log1p(tf.exp(x)), 1.0),
        (lambda x: tf.math.log(tf.cosh(x)), 1.0),
        (lambda x: tf.sqrt(x * x), 1.0),
        (tf.nn.softplus, 1.0),
        (tf.sigmoid, 0.0),
        (tf.sqrt, 0.0),
        (lambda x: 3.0 * x, 3.0),
        (tf.exp, None),
        (tf.sin, None),
    ],
)
def test_exact_gives_limits_at_infinity(f: Any, limit: float | None) -> None:
    if limit is None:
        with pytest.raises(ArithmeticError, match="there is no derivative here"):
            exact(f, np.inf)
    else:
        assert float(exact(f, np.inf, digits=10)) == limit


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("at", [INF, -INF])
@pytest.mark.parametrize("rate", [1.0, 2.0, 0.3])
@pytest.mark.parametrize("wave", [tf.math.special.fresnel_cos, tf.math.special.fresnel_sin])
def test_a_slope_that_oscillates_towards_infinity_has_no_limit(wave: Any, rate: float, at: float, order: int) -> None:
    def f(x: Any) -> Any:
        return wave(rate * x)

    with pytest.raises(ArithmeticError, match="there is no derivative here"):
        exact(f, at, order=order)
    for claim in (0.0, rate, -rate):
        judged = judge(f, at, claim, order=order)
        assert not judged.ok and judged.verdict == "domain", judged


def test_a_slope_whose_oscillations_vanish_towards_infinity_has_the_limit_0() -> None:
    def f(x: Any) -> Any:
        return tf.math.special.fresnel_cos(x) / x

    assert float(exact(f, INF)) == 0.0
    assert judge(f, INF, 0.0).ok and not judge(f, INF, 1.0).ok


def test_an_infinite_bound_is_larger_than_numbers_that_overflow() -> None:
    def f(x: Any) -> Any:
        return tf.minimum(x * x, np.inf)

    assert float(exact(f, 1e200, digits=10)) == 2e200
    assert judge(f, 1e200, 2e200).ok and not judge(f, 1e200, 0.0).ok


PADDED = np.array([[0.0, 0.0, -INF], [-INF, -INF, -INF]])  # the second row is all padding


def masked(x: Any) -> Any:
    return x + tf.constant(PADDED, x.dtype)


def guarded(x: Any) -> Any:
    """The greatest element of each row, and 0 for a row of padding."""
    greatest = tf.reduce_max(x, -1, keepdims=True)
    return tf.where(tf.math.is_finite(greatest), greatest, tf.zeros_like(greatest))


def shares(x: Any) -> Any:
    return tf.math.divide_no_nan(x, tf.reduce_sum(x, -1, keepdims=True))


SWITCHED: dict[str, Callable[[Any], Any]] = {  # a row of padding has no weight, because an op takes 0 / 0 to be 0
    "shares": lambda x: shares(tf.exp(masked(x))) ** 2,
    "shares by where": lambda x: shares(tf.exp(tf.where(PADDED == 0, x, tf.constant(-INF, x.dtype)))) * x,
    "shares less the greatest": lambda x: shares(tf.exp(masked(x) - guarded(masked(x)))) ** 2,
    "a still greatest": lambda x: shares(tf.exp(masked(x) - tf.stop_gradient(guarded(masked(x))))) ** 2,
    "two ways": lambda x: shares(tf.exp(masked(x))) + tf.nn.softmax(masked(x)[:1]),
    "heads": lambda x: tf.stack([shares(tf.exp((k + 1) * masked(x))) @ tf.transpose(x) for k in range(2)]),
    "products": lambda x: tf.math.reciprocal_no_nan(tf.exp(masked(x)) @ tf.ones((3, 3), x.dtype)) @ tf.transpose(x),
    "running sums": lambda x: tf.math.divide_no_nan(x, tf.cumsum(tf.exp(masked(x)), -1, reverse=True)),
    "the greatest two": lambda x: shares(tf.exp(tf.math.top_k(masked(x), 2)[0])) ** 2,
    "sigmoids": lambda x: shares(tf.sigmoid(masked(x))) ** 2,
    "norms": lambda x: tf.math.divide_no_nan(x, tf.norm(tf.exp(masked(x)), axis=-1, keepdims=True)),
    "reciprocals": lambda x: shares(1 / (x * x - tf.constant(PADDED, x.dtype))),
    "roots": lambda x: shares(1 / tf.sqrt(5 - masked(x))),
    "logarithms of a mask": lambda x: shares(tf.exp(x + tf.math.log(tf.constant(np.exp(PADDED), x.dtype)))) ** 2,
    "entropies": lambda x: tf.math.xlogy(tf.exp(masked(x)), shares(tf.exp(masked(x)))),
    "xdivy": lambda x: tf.math.xdivy(tf.exp(masked(x)), tf.reduce_sum(tf.exp(masked(x)), -1, keepdims=True)) ** 2,
    "signs": lambda x: tf.sign(tf.exp(masked(x))) * x,
}  # fmt: skip
SCORES = np.array([[0.3, -0.7, 1.1], [0.5, 0.2, -0.4]])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SWITCHED)
def test_a_row_of_padding_without_weight_is_judged_as_the_0_that_it_is(name: str, dtype: Any) -> None:
    f, x = SWITCHED[name], SCORES.astype(dtype)
    report = check(f, x, order=2)
    assert report.ok, report
    with tf.GradientTape(verify="strict") as tape:
        v = tf.Variable(x)
        y = tf.reduce_sum(f(v))
    slopes = tape.gradient(y, v).numpy()
    assert not judge(lambda t: tf.reduce_sum(f(t)), x, slopes + dtype(0.01)).ok


@pytest.mark.parametrize("name", SWITCHED)
def test_the_exact_derivative_of_a_row_of_padding_is_that_of_floats(name: str) -> None:
    def total(x: Any) -> Any:
        return tf.reduce_sum(SWITCHED[name](x))

    v = tf.Variable(SCORES)
    with tf.GradientTape() as tape:
        y = total(v)
    by_mirrors = np.asarray(exact(total, SCORES, digits=20)).astype(float)
    np.testing.assert_allclose(by_mirrors, tape.gradient(y, v).numpy(), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("op", ["divide_no_nan", "exp", "sum"])
def test_faults_beside_a_row_of_padding_are_found_and_named(op: str) -> None:
    with planted(op, 0, scaled(1.1)):
        report = check(SWITCHED["shares"], SCORES)
    assert report.verdict == "rule" and op in report.summary()


@pytest.mark.parametrize("mode", ["jvp", "jit", "product with a Hessian"])
@pytest.mark.parametrize("name", ["shares", "shares less the greatest", "heads"])
def test_a_row_of_padding_passes_in_every_mode(name: str, mode: str) -> None:
    f, v = SWITCHED[name], tf.Variable(SCORES)
    with tf.verifying("strict"):
        if mode == "jvp":
            with tf.autodiff.ForwardAccumulator(v, tf.ones_like(v)) as along:
                y = f(v)
            made = along.jvp(y)
        elif mode == "jit":
            with tf.GradientTape() as tape:
                y = tf.function(f, jit_compile=True)(v)
            made = tape.gradient(y, v)
        else:
            with tf.GradientTape() as outer:
                with tf.GradientTape() as inner:
                    y = f(v)
                slope = tf.reduce_sum(inner.gradient(y, v) * tf.constant(SCORES + 1.0))
            made = outer.gradient(slope, v)
    assert np.isfinite(made.numpy()).all()


@pytest.mark.slow
def test_infinities_in_inputs_switch_a_row_off_as_a_mask_does() -> None:
    def f(x: Any, v: Any) -> Any:
        return shares(tf.exp(x - guarded(x))) * v

    assert check(f, SCORES + PADDED, np.array([0.3, 0.4, 0.5]), order=2).ok


def test_a_tiny_number_from_infinity_still_meets_its_pole() -> None:
    assert check(lambda x: tf.maximum(tf.math.log(tf.exp(masked(x))), -50.0), SCORES).verdict == "correct"


@pytest.mark.parametrize(
    "f",
    [
        lambda x: guarded(masked(x)) ** 2,
        lambda x: tf.exp(masked(x) - guarded(masked(x))),
        lambda x: tf.where(tf.math.is_inf(masked(x)), 0.0, tf.exp(x)),
        lambda x: tf.where(tf.equal(masked(x), tf.constant(-INF, x.dtype)), 0.0, tf.nn.softmax(masked(x)[:1])),
        lambda x: tf.where(tf.exp(masked(x)) > 0, tf.nn.softmax(masked(x)[:1]), 1.0),
        lambda x: tf.exp(tf.sort(masked(x), -1)),
    ],
    ids=["greatest", "less the greatest", "is_inf", "equal", "greater", "sort"],
)
def test_decisions_about_infinities_are_those_of_floats(f: Any) -> None:
    report = check(f, SCORES)
    assert report.verdict == "correct" and not report.findings, report


@pytest.mark.parametrize("op", [tf.math.divide_no_nan, tf.math.xdivy], ids=["divide_no_nan", "xdivy"])
def test_slopes_without_bound_beside_a_pole_are_described_without_numbers(op: Any) -> None:
    report = check(lambda x: op(x, tf.nn.relu(-x)), np.array([0.0, -1.0]))
    assert all("e+" not in f.reason for f in report.findings)
    assert any("no bound" in f.reason for f in report.findings), report


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", ["sqrt", "rsqrt", "atan", "asinh", "acosh"])
def test_a_slope_whose_limit_at_infinity_is_0_is_no_wrong_rule(name: str, order: int) -> None:
    op = getattr(tf.math, name)
    assert float(exact(op, INF, order=order)) == 0.0
    assert judge(op, INF, 0.0, order=order).ok and check(op, INF, order=order).ok
    beside = check(lambda x: tf.reduce_sum(op(x)), np.array([INF, 4.0]), order=order)
    assert beside.verdict in ("correct", "conditioning"), beside
    with planted(name, 0, scaled(1.1)):
        assert check(lambda x: tf.reduce_sum(op(x)), np.array([INF, 4.0]), order=order).findings[0].op == name


VANISHING: dict[str, tuple[Any, float]] = {  # slowly, or by a recurrence that cancels at a large number
    "bessel_j0": (tf.math.special.bessel_j0, -INF),
    "bessel_j1": (tf.math.special.bessel_j1, -INF),
    "bessel_y0": (tf.math.special.bessel_y0, INF),
    "bessel_y1": (tf.math.special.bessel_y1, INF),
    "bessel_k0e": (tf.math.special.bessel_k0e, INF),
    "bessel_i0e": (tf.math.special.bessel_i0e, INF),
    "erfcx": (tf.math.erfcx, INF),
    "dawsn": (tf.math.special.dawsn, INF),
    "dawsn at -inf": (tf.math.special.dawsn, -INF),
}


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("name", VANISHING)
def test_slopes_that_vanish_slowly_at_infinity_are_right(name: str, order: int) -> None:
    f, at = VANISHING[name]
    assert float(exact(f, at, order=order)) == 0.0
    assert check(f, at, order=order).ok and judge(f, at, 0.0, order=order).ok
    assert not judge(f, at, 1e-3, order=order).ok


@pytest.mark.parametrize("f", [tf.math.xlogy, tf.math.xlog1py], ids=["xlogy", "xlog1py"])
def test_second_derivatives_beside_a_slope_without_bound_are_no_wrong_rules(f: Any) -> None:
    report = check(f, 1.0, INF, order=2)
    assert {v.verdict for v in report.findings if not v.ok} == {"domain"}, report
    assert not any(v.order == 2 for v in report.findings)


@pytest.mark.parametrize("choice", [tf.argmax, lambda x: -tf.argmin(-x)], ids=["argmax", "argmin"])
def test_positions_in_masked_vectors_are_known(choice: Any) -> None:
    mask = np.array([-INF, 0.0, 0.0])

    def f(x: Any) -> Any:
        return tf.square(tf.gather(x, tf.abs(choice(x + mask))))

    at = np.array([3.0, 2.0, 1.0])
    assert [float(e) for e in exact(f, at)] == [0.0, 4.0, 0.0]
    assert judge(f, at, np.array([0.0, 4.0, 0.0])).ok and not judge(f, at, np.array([0.0, 4.5, 0.0])).ok


OUTSIDE: dict[str, tuple[Any, float]] = {
    "igammac of a negative number": (lambda x: tf.math.igammac(tf.constant(2.0, x.dtype), x), -1.0),
    "zeta below 1": (lambda s: tf.math.zeta(s, tf.constant(2.0, s.dtype)), 0.5),
    "zeta at 0": (lambda s: tf.math.zeta(s, tf.constant(2.0, s.dtype)), 0.0),
    "log": (tf.math.log, -2.0),
    "log1p": (tf.math.log1p, -3.0),
    "atanh": (tf.atanh, 2.0),
    "log of -inf": (tf.math.log, -INF),
    "logit of inf": (lambda x: tf.math.log(x / (1.0 - x)), INF),
    "one of several": (lambda x: tf.reduce_sum(tf.math.log(tf.stack([x, x + 5.0]))), -2.0),
}


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("name", OUTSIDE)
def test_exact_raises_where_the_function_is_not_defined(name: str, order: int) -> None:
    f, x = OUTSIDE[name]
    with pytest.raises(ArithmeticError, match="there is no derivative here"):
        exact(f, x, order=order)


NO_NUMBER: dict[str, tuple[Any, tuple[float, ...]]] = {
    "inf * 0": (lambda x: x * 0.0, (INF,)),
    "0 * -inf": (lambda x: 0.0 * x, (-INF,)),
    "inf - inf": (lambda x: x - x, (INF,)),
    "inf / inf": (lambda x: x / x, (INF,)),
    "an input times another": (lambda x, y: x * y, (INF, 0.0)),
    "one of several": (lambda x: tf.stack([x * 0.0, x]), (INF,)),
    "a logarithm": (tf.math.log, (-2.0,)),
}


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("name", NO_NUMBER)
def test_a_function_without_a_value_at_infinity_has_no_derivative(name: str, order: int) -> None:
    f, at = NO_NUMBER[name]
    with pytest.raises(ArithmeticError, match="there is no derivative here"):
        exact(f, *at, order=order)
    report = check(f, *at, order=order)
    assert not report.ok and report.verdict == "domain", report
    for number in (0.0, 1.0, np.nan):
        claim: Any = number
        for _ in range(order if len(at) > 1 else 0):
            claim = (claim, claim)
        judged = judge(f, at, claim, order=order)
        assert not judged.ok and judged.verdict == "domain", judged


def test_exact_gives_the_derivative_where_only_floats_are_nan() -> None:
    assert float(exact(lambda x: x * x / (x * x) * x, 1e200)) == 1.0
    for order, slope in ((1, 2.0), (2, 0.0)):
        assert float(exact(lambda x: tf.where(x > 0.0, tf.math.log(x), 2.0 * x), -1.0, order=order)) == slope


@pytest.mark.parametrize("name", ["bessel_k0", "bessel_k1", "bessel_k0e", "bessel_k1e", "bessel_y0", "bessel_y1"])
def test_exact_raises_at_the_pole_of_a_bessel_function(name: str) -> None:
    f = getattr(tf.math.special, name)
    for g, x in ((f, 0.0), (f, np.array([1.0, 0.0])), (lambda x: f(x - 1.0), 1.0), (lambda x: f(x * x), 0.0)):
        for order in (1, 2):
            with pytest.raises(ArithmeticError, match="there is no derivative here"):
                exact(g, x, order=order)
    with pytest.raises(ArithmeticError, match="there is no derivative here"):
        exact(f, -np.inf)
    assert not judge(f, 0.0, 0.0).ok


JUMPS: dict[str, F] = {
    "atan": lambda x: tf.atan(1.0 / x),
    "tanh": lambda x: tf.tanh(1.0 / x),
    "sigmoid": lambda x: tf.sigmoid(1.0 / x),
    "erf of a cube": lambda x: tf.math.erf(1.0 / x**3),
    "a sum": lambda x: x + tf.atan(2.0 / x),
    "one of several": lambda x: tf.reduce_sum(tf.tanh(1.0 / tf.stack([x, x + 1.0]))),
}


@pytest.mark.parametrize("f", JUMPS.values(), ids=JUMPS)
def test_a_function_that_jumps_between_finite_limits_at_a_pole_has_no_derivative(f: F) -> None:
    for order in (1, 2):
        with pytest.raises(ArithmeticError, match="there is no derivative here"):
            exact(f, 0.0, order=order)
    assert check(f, 0.0).verdict == "domain"
    for claim in (0.0, -1.0, -0.5, 1.0):
        assert not judge(f, 0.0, claim).ok, claim


def test_a_ratio_has_no_derivative_where_its_angle_jumps() -> None:
    with pytest.raises(ArithmeticError, match="there is no derivative here"):
        exact(lambda x, y: tf.atan(y / x), 0.0, 1.0)


@pytest.mark.parametrize(
    ("f", "slope"),
    [
        (lambda x: tf.atan(1.0 / x**2), 0.0),
        (lambda x: 3.0 * x + tf.exp(-1.0 / x**2), 3.0),
        (lambda x: x * x * tf.atan(1.0 / x), 0.0),
        (lambda x: tf.tanh(tf.math.log(tf.abs(x))), 0.0),
        (lambda x: tf.sigmoid(tf.math.log(x)), 1.0),
    ],
    ids=["even", "flat", "weighted", "odd of a log", "one side"],
)
def test_a_function_whose_sides_meet_at_a_pole_has_its_derivative(f: F, slope: float) -> None:
    assert abs(float(exact(f, 0.0)) - slope) < 1e-300
    assert judge(f, 0.0, slope).ok and not judge(f, 0.0, slope + 0.5).ok
