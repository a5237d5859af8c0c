"""What the flag says: silent where all is well, a verdict that names the cause where it is not."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flint import arb

import gtape as tf
from gtape.verify import check
from gtape.verify.judging.api import _ball, _ball_parts, exact
from gtape.verify.verdicts.collect import collecting
from gtape.verify.verdicts.verdict import Report


def run(
    f: Callable[..., Any], *xs: Any, order: int = 1, dtype: Any = np.float64
) -> tuple[Report, bool, list[Any] | None]:
    """The report, whether VerificationError was raised, and the gradients."""
    sources = [tf.Variable(np.asarray(x, dtype)) for x in xs]
    made = None
    raised = False
    with collecting() as report, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with tf.GradientTape(verify=True) as tape:
                if order == 2:
                    with tf.GradientTape() as inner:
                        y = f(*sources)
                    y = [g for g in inner.gradient(y, sources) if g is not None]
                else:
                    y = f(*sources)
            made = [None if g is None else g.numpy() for g in tape.gradient(y, sources)]
        except tf.VerificationError:
            raised = True
    return report, raised, made


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    ("f", "x", "verdicts"),
    [
        (lambda x: tf.where(x > 0, tf.math.log(x), 0.0), [-1.0, 0.0, 2.0], ("convention",)),  # it jumps at 0
        (lambda x: tf.where(x > 0, tf.sqrt(x), x), [0.0, 2.0], ("convention",)),  # its slopes at 0 are 1 and infinity
        (lambda x: tf.where(x > 0, tf.sqrt(x), x), [-1.0, 2.0], ("correct", "conditioning")),
        (lambda x: tf.where(x > 1, x, tf.exp(x * 1000.0)), [2.0, 0.001], ("correct", "conditioning")),
        (
            lambda x: tf.reduce_sum(tf.nn.log_softmax(tf.where(x > 0.2, tf.math.log(x), x)) * [1.0, 2.0, 3.0]),
            [-1.0, 0.0, 2.0], ("correct", "conditioning"),
        ),
    ],
)  # fmt: skip
def test_the_untaken_branch_is_silent(f: Any, x: Any, verdicts: tuple[str, ...], order: int) -> None:
    report, raised, made = run(f, x, order=order)
    assert not raised
    assert report.verdict in verdicts
    assert made is not None
    assert all(np.isfinite(g).all() for g in made)


@pytest.mark.parametrize(
    ("f", "x", "dtype", "verdict"),
    [
        (lambda x: x * x, [np.nan, 1.0], np.float64, "domain"),
        (lambda x: x * x, [np.inf, 1.0], np.float64, "domain"),
        (lambda x: tf.math.log(x), [0.0], np.float64, "domain"),
        (lambda x: tf.math.log(x), [-1.0], np.float64, "domain"),
        (lambda x: tf.sqrt(x), [0.0, 1.0], np.float64, "domain"),
        (lambda x: tf.math.log(tf.exp(x)), [800.0], np.float64, "range"),
        (lambda x: tf.math.log(tf.exp(x)), [100.0], np.float32, "range"),
    ],
)
def test_outside_of_domain_or_range_raises(f: Any, x: Any, dtype: Any, verdict: str) -> None:
    report, raised, _ = run(f, x, dtype=dtype)
    assert raised
    assert report.verdict == verdict


@pytest.mark.parametrize("f", [tf.linalg.cholesky, tf.linalg.logdet])
@pytest.mark.parametrize("order", [1, 2])
def test_a_factor_of_a_matrix_that_is_not_symmetric_is_outside_the_domain_and_no_wrong_rule(f: Any, order: int) -> None:
    matrix = np.array([[2.0, 0.3], [1.0, 3.0]])
    report, raised, _ = run(f, matrix, order=order)
    assert report.verdict == "domain" and raised
    assert any("not symmetric" in f.reason for f in report.findings)
    symmetric = matrix @ matrix.T
    symmetric[0, 1] = np.nextafter(symmetric[0, 1], np.inf)  # as a product may be
    report, raised, _ = run(f, symmetric, order=order)
    assert report.ok and not raised


@pytest.mark.parametrize("f", [tf.linalg.cholesky, tf.linalg.logdet])
def test_a_factorisation_that_fails_on_its_way_is_outside_the_domain_and_lost_no_digits(f: Any) -> None:
    report, raised, _ = run(f, [[1.0, 2.0], [2.0, 1.0]])
    assert report.verdict == "domain" and raised


@pytest.mark.parametrize(
    "f",
    [
        tf.reduce_max,
        tf.reduce_min,
        tf.reduce_prod,
        tf.reduce_sum,
        tf.reduce_logsumexp,
        lambda x, axis: tf.norm(x, axis=axis),
    ],
)
@pytest.mark.parametrize("order", [1, 2])
def test_reductions_of_nothing_have_gradients_of_nothing(f: Any, order: int) -> None:
    report, raised, made = run(lambda x: 2.0 * f(x, axis=0), np.zeros((0, 3)), order=order)
    assert not raised and report.ok
    assert made is None or all(g is None or g.shape == (0, 3) for g in made)


@pytest.mark.parametrize("f", [lambda x: x**-1.0, lambda x: tf.pow(tf.constant(0.0, tf.float64), x - 1.0)])
def test_a_pole_is_no_overflow(f: Any) -> None:
    report, raised, _ = run(f, 0.0)
    assert report.verdict == "domain" and raised


@pytest.mark.parametrize("order", [1, 2])
def test_a_negative_zero_tells_the_side_of_the_cut_of_atan2(order: int) -> None:
    for y in (0.0, -0.0):
        report, raised, _ = run(tf.atan2, y, -1.0, order=order)
        assert report.verdict == "convention" and not raised
    report, raised, _ = run(tf.atan2, -0.0, 1.0, order=order)
    assert report.verdict == "correct" and not raised


@pytest.mark.parametrize("x", [-1000.0, -1e5])
@pytest.mark.parametrize("order", [1, 2])
def test_gelu_is_decided_far_to_the_left(x: float, order: int) -> None:
    report, raised, _ = run(tf.nn.gelu, x, order=order)
    assert report.ok and not raised and report.verdict != "undecided"


def test_a_derivative_that_overflows_as_ieee_does_is_fine() -> None:
    report, raised, made = run(tf.math.reciprocal, [1e-200])
    assert (report.verdict, raised) == ("range", False)
    assert made is not None
    assert made[0] == -np.inf


@pytest.mark.parametrize(
    ("f", "xs"),
    [
        (tf.nn.relu, [[0.0, 1.0]]),
        (tf.abs, [[0.0]]),
        (tf.maximum, [[1.0], [1.0]]),
        (lambda x: tf.nn.relu(x) + tf.nn.relu(-x), [[0.0]]),
    ],
)
def test_kinks_are_silent_conventions(f: Any, xs: Any) -> None:
    report, raised, _ = run(f, *xs)
    assert (report.verdict, raised) == ("convention", False)


def test_equal_numbers_computed_in_two_ways_are_a_tie() -> None:
    report, raised, _ = run(lambda x: tf.maximum(tf.exp(x) * tf.exp(x), tf.exp(2.0 * x)), [0.25])
    assert (report.verdict, raised) == ("convention", False)
    assert any("taken as ties" in f.reason for f in report.findings)


def test_a_gradient_that_is_zero_everywhere_is_decided() -> None:
    report, raised, _ = run(lambda x: tf.nn.log_softmax(tf.stack([x, x, x])), 0.7, order=2)
    assert not raised
    assert report.verdict in ("correct", "conditioning")


# ---------------------------------------------------------------------------------------------- custom gradients


@tf.custom_gradient
def wrong(x: Any) -> Any:
    return tf.sin(x), lambda g: g * tf.cos(x) * 1.0001


@tf.custom_gradient
def unstable(x: Any) -> Any:
    y = tf.tanh(x)
    return y, lambda g: g * (1 - y * y)


@tf.custom_gradient(declared="clips")
def clipped(x: Any) -> Any:
    return x * x, lambda g: tf.clip_by_value(g, -0.1, 0.1)


@tf.custom_gradient
def leaving(x: Any) -> Any:
    return tf.constant(np.sin(x.numpy())), lambda g: g * tf.cos(x)


@tf.custom_gradient
def right(x: Any) -> Any:
    return tf.sin(x), lambda g: g * tf.cos(x)


@tf.custom_gradient
def right_once(x: Any) -> Any:
    slope = tf.stop_gradient(tf.cos(x))
    return tf.sin(x), lambda g: g * slope


@pytest.mark.parametrize(
    ("f", "x", "order", "verdict", "raises"),
    [
        (wrong, 0.5, 1, "rule", True),
        (wrong, 0.5, 2, "rule", True),
        (unstable, 18.3, 1, "unstable", True),
        (clipped, 0.5, 1, "correct", False),
        (leaving, 0.5, 1, "undecided", False),
        (right, 0.5, 1, "correct", False),
        (right, 0.5, 2, "correct", False),
        (right_once, 0.5, 1, "correct", False),
        (right_once, 0.5, 2, "rule", True),
    ],
)
def test_custom_gradients(f: Any, x: float, order: int, verdict: str, raises: bool) -> None:
    report, raised, _ = run(lambda v: 2.0 * f(v), [x], order=order)
    assert (report.verdict, raised) == (verdict, raises)
    if raises:
        assert any(g.op == f.__name__ for g in report.findings)
    if verdict == "undecided":
        assert all(g.reason for g in report.findings)


def test_strict_raises_for_what_is_undecided() -> None:
    x = tf.Variable(0.5)
    with tf.GradientTape(verify="strict") as tape:
        y = leaving(x)
    with pytest.raises(tf.VerificationError, match="leaves the tape"):
        tape.gradient(y, x)


def test_the_warning_points_at_the_users_line() -> None:
    x = tf.Variable(0.5)
    with pytest.warns(UserWarning, match="could not decide") as told:
        with tf.GradientTape(persistent=True, verify=True) as tape:
            y = leaving(x)
        tape.gradient(y, x)
        tape.jacobian(y, x)
        with tf.verifying(), tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as acc:
            acc.jvp(leaving(x))
    assert [w.filename for w in told] == [__file__] * 3


# ---------------------------------------------------------------------------------------------- what a campaign found


def test_constants_of_a_backward_pass_are_not_taken_for_given() -> None:
    # 1/c is rounded in the inner gradient; the oracle must not mistake it for an exact number.
    c = tf.constant(np.array([1.7, 2.3], np.float32))
    report, raised, _ = run(lambda x: tf.square(x / (1.5 + tf.square(c))), [0.3, 0.9], order=2, dtype=np.float32)
    assert not raised, report


def test_a_target_that_is_a_source() -> None:
    x = tf.Variable(np.array([0.3, 0.9]))
    with tf.GradientTape(verify=True) as outer:
        with tf.GradientTape() as inner:
            y = tf.sin(x) * x
        g = inner.gradient([y, x], x)
    assert outer.gradient(g, x) is not None


def test_ops_with_several_outputs() -> None:
    report, raised, _ = run(lambda x: tf.concat(tf.split(x * x, [1, 2])[::-1], axis=0) * x, [0.1, 0.2, 0.3], order=2)
    assert not raised, report


def test_slices_of_variables_are_operands() -> None:
    report, raised, made = run(
        lambda x: tf.math.asinh(x[..., :2]) * 0.5 + tf.stack([x[0], x[0] * 0.5]), [0.4, 0.5, 0.6]
    )
    assert not raised, report
    assert made is not None


def test_every_number_of_a_network_is_checked() -> None:
    rng = np.random.default_rng(0)
    x = tf.constant(rng.random((64, 784)).astype(np.float32))
    labels = tf.constant(np.eye(10, dtype=np.float32)[rng.integers(0, 10, 64)])
    w1, b1 = (
        tf.Variable((rng.standard_normal((784, 128)) * 0.05).astype(np.float32)),
        tf.Variable(np.zeros(128, np.float32)),
    )
    w2, b2 = (
        tf.Variable((rng.standard_normal((128, 10)) * 0.1).astype(np.float32)),
        tf.Variable(np.zeros(10, np.float32)),
    )

    with collecting() as report:
        with tf.GradientTape(verify=True) as tape:
            h = tf.nn.relu(x @ w1 + b1)
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=h @ w2 + b2))
        tape.gradient(loss, [w1, b1, w2, b2])
    assert report.checked == 101_770
    assert report.ok


# ------------------------------------------------------------------------------------------ what to write instead


@pytest.mark.parametrize(
    ("f", "x", "instead"),
    [
        (lambda x: tf.math.log(1.0 - tf.sigmoid(x)), 40.0, "log_sigmoid(-x)"),
        (lambda x: tf.math.log(tf.sigmoid(x)), -800.0, "log_sigmoid(x)"),
        (lambda x: tf.math.log(tf.nn.softmax(x)[0]), [-800.0, 0.0], "log_softmax"),
        (lambda x: tf.math.log(tf.reduce_sum(tf.exp(x))), [800.0, 0.0], "reduce_logsumexp"),
        (lambda x: tf.math.log(1.0 + tf.exp(x)), 800.0, "softplus"),
        (lambda x: tf.math.log(tf.exp(x) + 1.0), 800.0, "softplus"),
        (lambda x: tf.exp(x) / tf.reduce_sum(tf.exp(x)), [800.0, 0.0], "gtape.nn.softmax"),
        (lambda x: tf.sqrt(x * x), 0.0, "gtape.abs"),
        (lambda x: tf.sqrt(x**2), 0.0, "gtape.abs"),
        (lambda x: tf.sqrt(tf.reduce_sum(tf.square(x))), [0.0, 0.0], "gtape.norm"),
        (lambda x: tf.sqrt(x[0] ** 2 + x[1] ** 2), [0.0, 0.0], "hypot"),
        (lambda x: tf.sqrt(x * x + 1.0), 1e200, "gtape.math.hypot(x, 1)"),
        (lambda x: tf.sin(x) / x, 1e-5, "gtape.math.sinc(x / np.pi)"),
        (lambda x: (tf.exp(x) - tf.exp(-x)) / (tf.exp(x) + tf.exp(-x)), 20.0, "gtape.tanh(x)"),
        (lambda x: (tf.exp(2.0 * x) - 1.0) / (tf.exp(2.0 * x) + 1.0), 20.0, "gtape.tanh(x / 2)"),
        (lambda x: (1.0 - tf.exp(2.0 * x)) / (1.0 + tf.exp(2.0 * x)), 20.0, "gtape.tanh(x / 2)"),
        (lambda x: (1.0 - tf.cos(x)) / (x * x), 1e-9, "sin(x / 2)**2"),
        (lambda x: tf.reduce_mean(x * x) - tf.reduce_mean(x) ** 2, [1e8, 1e8 + 1, 1e8 + 2], "reduce_variance"),
    ],
)
def test_a_finding_says_what_to_write_instead_of_a_textbook_formula(f: Any, x: Any, instead: str) -> None:
    finding = tf.verify.check(f, np.array(x)).findings[0]
    assert instead in finding.reason


@pytest.mark.parametrize(
    ("f", "x", "instead"),
    [
        (lambda x: tf.math.log(tf.exp(x) - 1.0), 800.0, "x + gtape.math.log(-gtape.math.expm1(-x))"),
        (lambda x: tf.math.log(1.0 - tf.math.erf(x)), 6.0, "erfc(x)"),
        (lambda x: tf.square(1.0 - tf.math.erf(x)), 5.0, "gtape.math.erfc(x)"),
        (lambda x: tf.math.log(tf.exp(-x) * (1.0 - tf.math.erf(x))), 6.0, "gtape.math.erfc(x)"),
        (lambda x: tf.math.log(1.0 - tf.exp(-x)), 1e-10, "-gtape.math.expm1(x)"),
        (lambda x: tf.math.log(1.0 - tf.sigmoid(x)) + tf.math.log(tf.sigmoid(x)), 800.0, "log_sigmoid(-x)"),
        (lambda x: 1.0 / (1.0 + tf.exp(x)), -800.0, None),
        (lambda x: tf.math.log(1.0 - x), 1.0, None),
        (lambda x: tf.math.log(x - tf.exp(x)), 800.0, None),
        (lambda a: tf.math.log(tf.linalg.det(a)), np.diag([1.0, -1.0]), None),
        (lambda a: tf.math.log(tf.linalg.det(a)), 1e-200 * np.eye(2), "slogdet"),
    ],
)
@pytest.mark.parametrize("order", [1, 2])
def test_only_a_formula_that_helps_at_the_point_is_proposed(f: Any, x: Any, instead: str | None, order: int) -> None:
    report = tf.verify.check(f, np.array(x), order=order)
    said = [finding.instead for finding in report.findings if finding.instead is not None]
    assert (said == []) if instead is None else (said and all(instead in text for text in said))


def test_advice_calls_no_function_of_the_user_and_records_nothing() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(x)
        return tf.math.log(1.0 - tf.math.erf(x))

    x = tf.Variable(6.0, dtype=tf.float64)
    told = pytest.raises(tf.VerificationError, match="log_erfc")
    with tf.GradientTape() as outer, told, tf.GradientTape(verify=True) as tape:
        y = f(x)
        tape.gradient(y, x)
    assert len(calls) == 1 and outer.gradient(y, x) is not None


def test_no_advice_where_nothing_is_wrong_or_nothing_is_known() -> None:
    assert not tf.verify.check(lambda x: tf.math.log(1.0 - tf.sigmoid(x)), 0.5).findings
    assert " is gtape" not in tf.verify.check(lambda x: tf.math.log(x), 0.0).summary()
    assert " is gtape" not in tf.verify.check(lambda x: tf.sqrt(x * tf.exp(x)), 0.0).summary()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_of_exact_numbers_are_as_exact(copied: Any) -> None:
    for found in (exact(tf.tanh, [1.0, 2.0], digits=60), exact(tf.exp, tf.constant([1.0 + 2.0j], tf.complex128))):
        for old, new in zip(found, copied(found), strict=True):
            assert new == old and new.radius == old.radius
            assert new._ball.str(70) == old._ball.str(70)
    ends = ["inf", "-inf", "nan", "0 +/- inf"]
    assert [str(_ball(_ball_parts(arb(text)))) for text in ends] == [str(arb(text)) for text in ends]
    assert _ball(_ball_parts(arb("-inf"))) < 0


@pytest.mark.parametrize(("x", "order"), [(1e-280, 3), (5.25e-285, 3), (1e-300, 4)])
def test_small_programs_get_the_bits_that_a_cancelling_mirror_takes(x: float, order: int) -> None:
    report = check(tf.math.sinc, np.array(x), order=order)
    assert report.ok and report.verdict in ("correct", "conditioning"), report


def test_a_finding_about_an_input_calls_it_an_input() -> None:
    report = check(tf.square, tf.constant(2.0, tf.bfloat16))
    assert [f.op for f in report.findings] == ["input"] and "leaf" not in str(report)
