"""What the range of floats takes is `range`, with the op, not a fault of a rule; what has no derivative is `domain`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check, exact, judge
from gtape.verify.verdicts.collect import collecting
from gtape.verify.verdicts.exponents import readable
from gtape.verify.verdicts.verdict import Finding

m = tf.math
TINIEST = 5e-324


def entropy(z: Any) -> Any:
    return z * m.log(z)


LEFT: dict[str, Any] = {  # f, where, order, the op, in which direction
    "slope beyond": (entropy, TINIEST, 1, "log", "overflows"),
    "slope of a slope below": (entropy, 1e200, 2, "log_slope", "underflows"),
    "slope of a slope beyond": (entropy, 1e-200, 2, "log_slope", "overflows"),
    "value below": (lambda x: tf.sqrt(tf.reduce_sum(x * x)), [1e-200, 1e-200], 1, "multiply", "underflows"),
    "value beyond": (lambda x: tf.sqrt(tf.reduce_sum(x * x)), [1e200, 1e200], 1, "multiply", "overflows"),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_leaves_the_range_on_the_way_is_named(name: str) -> None:
    f, at, order, op, how = LEFT[name]
    report = check(f, np.asarray(at), order=order)
    assert not report.ok and {(v.verdict, v.op) for v in report.findings} == {("range", op)}
    assert all(how in v.reason for v in report.findings)


@pytest.mark.slow
def test_an_overflow_to_which_rounding_led_is_named() -> None:
    """Exact orbits of a chaotic map stay where the derivative is in range; the floats' orbit is another one."""

    def henon(x: Any, a: Any) -> Any:
        y = tf.constant(np.float32(0.2))
        for _ in range(200):
            x, y = 1 - a * x * x + y, 0.3 * x
        return x + y

    report = check(henon, np.float32(0.1), np.float32(1.4))
    assert not report.ok and np.isnan(report.findings[0].got)
    assert {(v.verdict, v.op) for v in report.findings} == {("range", "add")}
    assert "rounding moved the numbers along the way" in report.findings[0].reason


def test_forward_mode_names_it_too() -> None:
    x = tf.constant(np.array([1e-200, 1e-200]))
    with collecting() as report, pytest.raises(tf.VerificationError), tf.verifying():
        with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as acc:
            y = tf.sqrt(tf.reduce_sum(x * x))
        acc.jvp(y)
    assert [(v.verdict, v.op) for v in report.findings] == [("range", "multiply")]


@pytest.mark.parametrize(
    ("f", "at"),
    [
        (lambda x: x * tf.exp(-x), 745.0),
        (lambda x: tf.exp(-x * x), 27.3),
        (lambda x: tf.exp(-x) * 3.0, 740.0),
    ],
)
@pytest.mark.parametrize("order", [1, 2])
def test_subnormal_derivatives_are_decided(f: Any, at: float, order: int) -> None:
    assert check(f, at, order=order).ok


def test_a_value_that_overflows_is_no_fault_of_a_right_derivative() -> None:
    assert check(entropy, 1e308).verdict == "correct"


def test_where_no_second_derivative_exists_the_verdict_is_domain() -> None:
    report = check(lambda x, y: x**y, 0.0, 1.0, order=2)
    assert report.verdict == "domain" and "pow" in report.summary()


@pytest.mark.parametrize(
    ("f", "at"),
    [
        (tf.atan2, (0.0, 1e-310)),
        (m.divide_no_nan, (0.0, 1e-310)),
        (m.xdivy, (0.0, 1e-310)),
        (m.hypot, (1e-310, 1e-310)),
        (lambda x, y: tf.norm(tf.stack([x, y])), (1e-310, 2e-310)),
        (m.floormod, (1e-310, 1e-310)),
        (m.floormod, (3e-310, 1e300)),
    ],
)
@pytest.mark.parametrize("order", [1, 2])
def test_a_look_around_a_subnormal_point_stays_beside_it(f: Any, at: tuple[float, ...], order: int) -> None:
    report = check(f, *[np.float64(x) for x in at], order=order)
    assert report.ok
    assert all(v.verdict != "convention" or v.op == "floormod" for v in report.findings)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_zero_is_not_carried_over_a_kink_by_rounding(dtype: Any) -> None:
    for claimed, ok in ((1.0, True), (0.0, False), (0.5, False)):
        report = judge(lambda x: tf.nn.relu(x) - tf.nn.relu(-x), dtype(0.0), dtype(claimed))
        assert report.ok is ok, report


@pytest.mark.parametrize(
    ("f", "verdicts"), [(lambda x: tf.exp(-tf.exp(x)), {"correct"}), (lambda x: tf.exp(tf.exp(x)), {"domain", "range"})]
)
def test_exponents_beyond_memory_do_not_end_the_process(f: Any, verdicts: set[str]) -> None:
    two = tf.constant(2.0, tf.float64)
    assert check(lambda x: m.floormod(f(x), two) + x, 280.0).verdict in verdicts
    assert check(lambda x: tf.cast(tf.cast(f(x), tf.int32), tf.float64) + x, 280.0).verdict in verdicts


@pytest.mark.parametrize(
    ("claim", "passes"),
    [(-np.inf, True), (np.inf, False), (complex(np.inf, 0), False), (complex(np.nan, -np.inf), False)],
)
def test_each_part_of_a_complex_number_rounds_to_its_own_infinity(claim: Any, passes: bool) -> None:
    # The derivative of the real part of 1/w is (0, -5e399).
    at = np.array([1e-200 + 1e-200j])
    claimed = np.array([claim if isinstance(claim, complex) else complex(0.0, claim)])
    report = judge(lambda w: tf.math.real(1.0 / w), (at,), claimed)
    assert (report.ok, report.verdict) == (passes, "range"), report


def test_a_tape_that_gives_nan_beside_an_infinity_does_not_pass() -> None:
    w = tf.constant([800.0 + 0.0j], tf.complex128)
    with tf.GradientTape(verify=True) as tape:
        tape.watch(w)
        y = tf.math.real(tf.exp(w))  # the derivative is (2.7e347, 0), and the tape gives (inf, nan)
    with pytest.raises(tf.VerificationError, match="overflows complex128, and floats on the way to it give NaN"):
        tape.gradient(y, w)


def test_an_underflow_on_which_nothing_depends_is_not_blamed() -> None:
    def f(x: Any) -> Any:
        return tf.nn.softplus(x) + (tf.sqrt(x * x + 1.0) + x)  # softplus' is 3.6e-43430 at -1e5

    report = check(f, -1e5)
    assert not report.ok and report.verdict == "cancellation", report


@pytest.mark.parametrize(
    ("f", "at"),
    [
        (lambda a: tf.linalg.slogdet(a)[1], np.zeros((1, 1))),
        (tf.linalg.cholesky, np.zeros((1, 1))),
        (tf.linalg.cholesky, np.ones((2, 2))),
        (tf.linalg.logdet, np.ones((2, 2))),
    ],
)
def test_functions_of_singular_matrices_are_outside_of_the_domain(f: Any, at: Any) -> None:
    report = check(f, at)
    assert (report.ok, report.verdict) == (False, "domain"), report


@pytest.mark.parametrize("claim", [3.0, -3.0, 0.0, np.nan, -np.inf])
@pytest.mark.parametrize(
    ("f", "at"),
    [(tf.exp, 800.0), (lambda x: tf.exp(x) * 1.5, 800.0), (lambda x: x * x * x, 1e200)],
    ids=["exp", "a multiple of exp", "cube"],
)
def test_only_an_infinity_stands_for_a_number_beyond_all_floats(f: Any, at: float, claim: float) -> None:
    assert not judge(f, at, claim).ok
    assert judge(f, at, np.inf).verdict == "range" and judge(f, at, np.inf).ok


def test_a_tape_that_loses_a_number_beyond_all_floats_does_not_pass() -> None:
    x = tf.constant(1e-200, tf.float64)
    with tf.GradientTape(verify="strict") as tape:
        tape.watch(x)
        y = tf.math.divide_no_nan(tf.ones_like(x), x * x)
    with pytest.raises(tf.VerificationError, match="range"):
        tape.gradient(y, x)


def test_an_overflow_and_a_kink_elsewhere_do_not_disturb_each_other() -> None:
    report = check(lambda y, z: tf.exp(y) + tf.nn.relu(z), 800.0, 0.0)
    assert report.ok and {f.verdict for f in report.findings} == {"range", "convention"}
    v = np.array([1e20, 0.0], np.float32)
    assert check(lambda v: tf.reduce_sum(v * v) + tf.reduce_sum(tf.abs(v)), v).ok


@pytest.mark.parametrize("f", [tf.nn.relu, lambda y: tf.maximum(y, 1.0), lambda y: tf.where(y > 0.0, y, 2.0 * y)])
def test_an_overflow_that_a_selection_takes_is_no_point_outside_of_the_domain(f: Any) -> None:
    for claim, passes in ((2e200, True), (0.0, False)):
        assert judge(lambda x: f(x * x), 1e200, claim).ok == passes
    assert check(lambda x: f(x * x), 1e200).verdict == "correct"


@pytest.mark.parametrize("wrap", [tf.recompute_grad, lambda f: f])
def test_a_right_gradient_may_overflow_in_a_custom_gradient(wrap: Any) -> None:
    for f, at in ((lambda x: 1.0 / x, 1e-200), (tf.exp, 800.0)):
        report = check(wrap(f), at)
        assert (report.ok, report.verdict) == (True, "range"), report


def test_numbers_beyond_all_floats_are_known_to_their_last_digit() -> None:
    def f(x: Any) -> Any:
        return tf.reduce_sum(tf.linalg.eigvalsh(x) ** 3)  # a³ + d³ + 3 (a + d) b²

    at = np.array([[1e200, 1.0], [1.0, 1e200]])
    assert judge(f, (at,), np.array([[np.inf, 0.0], [1.2e201, np.inf]])).ok
    assert not judge(f, (at,), np.array([[np.inf, 0.0], [1.3e201, np.inf]])).ok


@pytest.mark.parametrize("at", [200.0, 550.0, 560.0, 800.0])
def test_digits_that_floats_lose_are_found_at_any_distance(at: float) -> None:
    def f(x: Any) -> Any:
        return tf.math.log(1.0 - tf.sigmoid(x))

    assert float(exact(f, at, digits=20)) == -1.0 and judge(f, at, -1.0).ok
    assert check(f, at).verdict in ("unstable", "range")


def test_an_underflow_in_an_inner_gradient_is_no_wrong_rule() -> None:
    report = check(lambda x: tf.cos(tf.sqrt(x * x)), 1e-200, order=2)
    assert not report.ok and {f.verdict for f in report.findings if not f.ok} == {"range"}, report


@pytest.mark.slow
def test_a_matrix_excuses_errors_of_its_roundings_and_no_larger_ones() -> None:
    def f(x: Any) -> Any:
        return tf.reduce_sum(tf.linalg.eigvalsh(x) ** 2)  # the derivative by x[1, 0] is 4 x[1, 0]

    for a in (1e-100, 1e-140, 1e-150):
        at = np.array([[1.0, a], [a, 1.0]])
        assert check(f, at).verdict == "conditioning"
        for off, passes in ((0.0, True), (1e-15, True), (1e-11, False)):
            assert judge(f, (at,), np.array([[2.0, 0.0], [4.0 * a + off, 2.0]])).ok == passes


def test_vectors_of_nearly_equal_eigenvalues_are_no_fault_of_forward_mode() -> None:
    for at in ([[1.0, 1e-200], [1e-200, 1.0]], [[1.0, 1e-150], [1e-150, 1.0]]):
        report = check(lambda x: tf.reduce_sum(tf.linalg.eigvalsh(x)), np.array(at))
        assert report.ok, report


@pytest.mark.parametrize("mode", ["reverse", "forward"])
@pytest.mark.parametrize("at", [1e160, 1e200, 1e300])
def test_underflow_of_one_of_two_terms_that_cancel_is_no_rounding_of_them(at: float, mode: str) -> None:
    def constant(x: Any) -> Any:
        return x * (2.0 / x)  # the derivative is 2 / x - x * 2 / x**2, and 2 / x**2 underflows

    x = tf.constant(np.array(at))
    with collecting() as report, pytest.raises(tf.VerificationError), tf.verifying():
        if mode == "reverse":
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = constant(x)
            tape.gradient(y, x)
        else:
            with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as acc:
                y = constant(x)
            acc.jvp(y)
    assert {(v.verdict, v.ok) for v in report.findings} == {("range", False)}
    assert not any(judge(constant, x, claim).ok for claim in (2.0 / at, -2.0 / at, 1e-120))
    assert judge(constant, x, 0.0).verdict == "correct"


@pytest.mark.parametrize("at", [1e-290, 1e-305, 1e150])
def test_terms_near_the_smallest_numbers_cancel_up_to_their_rounding(at: float) -> None:
    report = check(lambda x: tf.reduce_sum(x * np.array([0.1, 0.2, -0.3]) / 3.0) * 1e-15, np.array([at]))
    assert report.ok and report.verdict in ("correct", "conditioning"), report


@pytest.mark.parametrize("at", [1e5, 1e100, 1e300])
@pytest.mark.parametrize("f", [lambda x: tf.tanh(tf.exp(x)), lambda x: tf.sigmoid(m.sinh(x))])
def test_an_overflow_is_no_point_outside_of_the_domain_at_any_distance(f: Any, at: float) -> None:
    report = check(f, at)
    (found,) = report.findings
    assert (report.ok, report.verdict) == (False, "range")
    assert "overflows" in found.reason


@pytest.mark.parametrize("at", [1e5, 1e100])
def test_the_numbers_of_a_range_finding_are_those_of_the_derivative(at: float) -> None:
    (found,) = check(lambda x: tf.tanh(tf.exp(x)), at).findings  # the derivative is below all enclosures
    assert (found.got, found.exact, found.digits) == (None, None, None)
    assert f"exp({at!r}) is inf, exactly " in found.reason
    (found,) = check(lambda x: 1 / (1 + tf.exp(x)), 1e5).findings
    assert np.isnan(found.got) and found.exact is not None and found.exact.startswith("-")


def test_a_long_exponent_is_told_by_a_power_of_ten() -> None:
    (found,) = check(lambda x: 1 / (1 + tf.exp(x)), 1e300).findings
    assert "exp(1e+300) is inf, exactly 10**(4.34294e+299): " in found.reason
    assert "exact    -10**(-4.34294e+299)\n" in str(found)
    near, far = (
        Finding("range", op="exp", reason=f"exp(1.0) is inf, exactly {readable(number)}")
        for number in ("2.80666e+43429", f"2.80666e+{'4' * 40}")
    )
    assert near.key == far.key


@pytest.mark.parametrize(
    "f",
    [lambda x: tf.nn.relu((x + 1e8) - 1e8) * x, lambda x: ((x + 1e8) - 1e8) * x, lambda x: m.sinh(x + 1e8 - 1e8) * x],
)
def test_a_product_with_a_factor_that_cancelled_to_0_left_no_range(f: Any) -> None:
    report = check(f, np.float32(1e-30))
    assert report.verdict == "cancellation" and report.findings[0].op is None


def test_a_product_of_small_numbers_underflows_also_beside_a_cancellation() -> None:
    def f(x: Any) -> Any:
        return tf.sqrt(tf.reduce_sum(x * x)) + tf.nn.relu((x[0] + 1e8) - 1e8)

    assert "range" in {v.verdict for v in check(f, np.array([1e-30, 1e-30], np.float32)).findings}


def test_an_underflow_is_no_cause_of_an_error_that_is_far_larger_than_what_it_loses() -> None:
    """The subnormal slopes of the logsumexp lose at most 1e-38, and the number is off by 5e-25."""

    def f(m: Any, logits: Any) -> Any:
        x, w = tf.constant([[2.5], [8.0], [13.5]]), tf.constant([1.0, 54.6, 0.135])
        return tf.reduce_sum(tf.reduce_logsumexp(tf.nn.log_softmax(logits) - 0.5 * (x - m) ** 2 * w, 1))

    report = check(f, np.float32([0.0, 1.0, 5.0]), np.float32([0.0, -30.0, 3.0]), order=2)
    far = [v for v in report.findings if v.got is not None and abs(v.got) > 1e-30]
    assert {v.verdict for v in far} == {"cancellation"}


@tf.custom_gradient
def _tanh_that_loses_digits(x: Any) -> Any:
    y = tf.tanh(x)
    return y, lambda g: g * (1 - y * y)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("scale", [1e-280, 1e-285])
def test_an_underflow_is_not_blamed_for_a_larger_loss_of_a_custom_gradient(scale: float, order: int) -> None:
    """The underflow of exp(-750) loses at most 2e-308, and the number is off by more than 1e-302."""
    report = check(lambda x: scale * _tanh_that_loses_digits(x) + tf.exp(-50.0 * x), 15.0, order=order)
    bad = [f for f in report.findings if not f.ok]
    assert [(f.verdict, f.op) for f in bad] == [("unstable", _tanh_that_loses_digits.__name__)], report
