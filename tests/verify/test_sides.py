"""At kinks the function as a whole counts: its derivative where one exists, otherwise its one-sided derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.symbolic import trace
from gtape.symbolic.balls import numbers_shared
from gtape.symbolic.build import build
from gtape.verify import check, exact, judge
from gtape.verify.causes import points_beside, sides
from gtape.verify.causes.sides import Sides
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.oracles.replay import Shared

F = Callable[[Any], Any]
ZERO, ZEROS, PAIR = 0.0, [0.0, 0.0], [1.0, 1.0]

# Smooth through a kink of an op: (function, point, the second derivative).
SMOOTH: dict[str, tuple[F, Any, Any]] = {
    "abs squared": (lambda x: tf.abs(x) ** 2, ZERO, 2.0),
    "square of abs": (lambda x: tf.square(tf.abs(x)), ZERO, 2.0),
    "norm squared": (lambda x: tf.norm(x) ** 2, ZEROS, np.diag([2.0, 2.0])),
    "hypot squared": (lambda x: np.hypot(x[0], x[1]) ** 2, ZEROS, np.diag([2.0, 2.0])),
    "variance as the square of std": (
        lambda x: tf.math.reduce_std(x) ** 2, PAIR, np.array([[0.5, -0.5], [-0.5, 0.5]]),
    ),
    "cos of norm": (lambda x: tf.cos(tf.norm(x)), ZEROS, np.diag([-1.0, -1.0])),
    "cosh of abs": (lambda x: tf.cosh(tf.abs(x)), ZERO, 1.0),
    "exp of minus abs squared": (lambda x: tf.exp(-(tf.abs(x) ** 2)), ZERO, -2.0),
    "max of x and -x, squared": (lambda x: tf.maximum(x, -x) ** 2, ZERO, 2.0),
    "relu(x)² + relu(-x)²": (lambda x: tf.nn.relu(x) ** 2 + tf.nn.relu(-x) ** 2, ZERO, 2.0),
    "x times its own sign and abs": (lambda x: x * tf.sign(x) * tf.abs(x), ZERO, 2.0),
    "abs squared, far down": (lambda x: 1e-200 * tf.abs(x) ** 2, ZERO, 2e-200),
    "tied maximum of equal functions": (lambda x: tf.maximum(x * x, x**2), 1.5, 2.0),
    "cube of abs": (lambda x: tf.abs(x) ** 3, ZERO, 0.0),
    "abs to the fourth": (lambda x: tf.abs(x) ** 4, ZERO, 0.0),
    "norm to the fourth": (lambda x: tf.norm(x) ** 4, ZEROS, np.zeros((2, 2))),
    "hypot to the fourth": (lambda x: np.hypot(x[0], x[1]) ** 4, ZEROS, np.zeros((2, 2))),
    "squared distance by abs": (lambda x: tf.abs(x[0] - x[1]) ** 2, PAIR, np.array([[2.0, -2.0], [-2.0, 2.0]])),
    "squared distance by norm": (
        lambda x: tf.norm(tf.stack([x[0] - x[1], x[0] - x[1]])) ** 2, PAIR, np.array([[4.0, -4.0], [-4.0, 4.0]]),
    ),
    "root of 1 and abs squared": (lambda x: tf.sqrt(1.0 + tf.abs(x) ** 2), ZERO, 1.0),
    "sum of sorted numbers": (lambda x: tf.reduce_sum(tf.sort(x)), PAIR, np.zeros((2, 2))),
    "sum of squares of sorted numbers": (lambda x: tf.reduce_sum(tf.sort(x) ** 2), PAIR, np.diag([2.0, 2.0])),
    "product of sorted numbers": (lambda x: tf.sort(x)[0] * tf.sort(x)[1], PAIR, np.array([[0.0, 1.0], [1.0, 0.0]])),
    "squares of the two greatest": (lambda x: tf.reduce_sum(tf.math.top_k(x, 2)[0] ** 2), PAIR, np.diag([2.0, 2.0])),
    "identity of a clip and two hinges": (
        lambda x: tf.clip_by_value(x, -1.0, 1.0) + tf.maximum(x, 1.0) - 1.0 + tf.minimum(x, -1.0) + 1.0, 0.5, 0.0,
    ),
    "logarithm of cosh of abs": (lambda x: tf.math.log(tf.cosh(tf.abs(x))), ZERO, 1.0),
    "abs times abs": (lambda x: tf.abs(x) * tf.abs(x), ZERO, 2.0),
    "abs times its tanh": (lambda x: tf.abs(x) * tf.tanh(tf.abs(x)), ZERO, 2.0),
    "abs times its sine": (lambda x: tf.abs(x) * tf.sin(tf.abs(x)), ZERO, 2.0),
    "norm times its sine": (lambda x: tf.norm(x) * tf.sin(tf.norm(x)), ZEROS, np.diag([2.0, 2.0])),
    "exponentials of norm": (lambda x: tf.exp(tf.norm(x)) + tf.exp(-tf.norm(x)), ZEROS, np.diag([2.0, 2.0])),
    "Bessel function of norm": (lambda x: tf.math.bessel_j0(tf.norm(x)), ZEROS, np.diag([-0.5, -0.5])),
    "a rational function of norm": (lambda x: 1.0 / (1.0 + tf.norm(x) ** 2), ZEROS, np.diag([-2.0, -2.0])),
    "a root of norm": (lambda x: (1.0 + tf.norm(x) ** 2) ** -0.5, ZEROS, np.diag([-1.0, -1.0])),
    "log1p of norm squared": (lambda x: tf.math.log1p(tf.norm(x) ** 2), ZEROS, np.diag([2.0, 2.0])),
    "logsumexp by hand at a tie": (
        lambda x: tf.reduce_max(x) + tf.math.log(tf.reduce_sum(tf.exp(x - tf.reduce_max(x)))), PAIR,
        np.array([[0.25, -0.25], [-0.25, 0.25]]),
    ),
    "softmax by hand at a tie": (
        lambda x: tf.exp(x[0] - tf.reduce_max(x)) / tf.reduce_sum(tf.exp(x - tf.reduce_max(x))), PAIR, np.zeros((2, 2)),
    ),
    "variance of three as the square of std": (
        lambda x: tf.math.reduce_std(x) ** 2, [1.0, 1.0, 1.0], 2 / 3 * (np.eye(3) - 1 / 3),
    ),
    "both branches alike": (lambda x: tf.where(x >= 0.0, x * x, x**2), ZERO, 2.0),
    "branches alike to the fourth order": (lambda x: tf.where(x > 0.0, tf.sin(x), x - x**3 / 6.0), ZERO, 0.0),
    "abs squared, far up": (lambda x: 1e200 * tf.abs(x) ** 2, ZERO, 2e200),
    "abs squared, away from 0": (lambda x: tf.abs(x - 3.0) ** 2, 3.0, 2.0),
    "two squared hinges": (lambda x: tf.nn.relu(x - 1.0) ** 2 + tf.nn.relu(1.0 - x) ** 2, 1.0, 2.0),
    "middle of three equal numbers, squared": (lambda x: tf.sort(tf.stack([x, x, x]))[1] ** 2, 0.7, 2.0),
    "modulus squared": (lambda x: tf.abs(tf.complex(x[0], 2.0 * x[1])) ** 2, ZEROS, np.diag([2.0, 8.0])),
    "cosine of a modulus": (lambda x: tf.cos(tf.abs(tf.complex(x[0], x[1]))), ZEROS, np.diag([-1.0, -1.0])),
    "hinges beside complex numbers": (
        lambda x: tf.math.real(tf.complex(x, x) ** 2) + tf.nn.relu(x) ** 2 + tf.nn.relu(-x) ** 2, ZERO, 2.0,
    ),
}  # fmt: skip

# Smooth through a kink of an op, where the conventions of the ops give a wrong first derivative: (function, point, the
# first derivative).
WRONG: dict[str, tuple[F, Any, Any]] = {
    "difference of hinges": (lambda x: tf.nn.relu(x) - tf.nn.relu(-x), ZERO, 1.0),
    "sum of greater and smaller": (lambda x: tf.maximum(x[0], x[1]) + tf.minimum(x[0], x[1]), PAIR, [1.0, 1.0]),
    "product of greater and smaller": (lambda x: tf.maximum(x[0], x[1]) * tf.minimum(x[0], x[1]), PAIR, [1.0, 1.0]),
    "greater and smaller than a constant": (lambda x: tf.maximum(x, 0.0) + tf.minimum(x, 0.0), ZERO, 1.0),
    "root of the square": (lambda x: x + tf.abs(x) - tf.maximum(x, -x), ZERO, 1.0),
}

# A kink of the whole function: what the ops return lies between the one-sided derivatives.
KINKED: dict[str, tuple[F, Any]] = {
    "abs": (tf.abs, ZERO),
    "relu": (tf.nn.relu, ZERO),
    "norm": (tf.norm, ZEROS),
    "greatest of many": (tf.reduce_max, [1.0] * 12),
    "sum of kinks": (lambda x: tf.reduce_sum(tf.abs(x)), [0.0] * 5),
    "hinge": (lambda x: tf.maximum(0.0, 1.0 - x), 1.0),
    "relu(x) x": (lambda x: tf.nn.relu(x) * x, ZERO),
    "a kink beside a smooth part": (lambda x: tf.abs(x[0]) + x[1] ** 3, [0.0, 2.0]),
    "clip at its bound": (lambda x: tf.clip_by_value(x, 0.0, 1.0), 1.0),
    "sorted pair": (lambda x: tf.sort(x)[0] * 3.0 + tf.sort(x)[1], PAIR),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_a_wrong_second_derivative_of_a_function_smooth_through_a_kink_does_not_pass(name: str) -> None:
    f, at, hessian = SMOOTH[name]
    x = tf.constant(at, tf.float64)
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = f(x)
        g = inner.gradient(y, x)
    got = outer.jacobian(g, x, unconnected_gradients="zero").numpy()
    report = check(f, x, order=2)
    assert report.ok == bool(np.allclose(got, hessian, rtol=1e-12, atol=0)), (got, report)
    wrong = [f for f in report.findings if not f.ok]
    for finding in wrong:
        assert (finding.verdict, finding.inside, finding.order) == ("convention", False, 2)
        assert "has a derivative here" in finding.reason
        assert np.isclose(float(finding.exact), np.ravel(hessian), rtol=1e-12).any(), finding


@pytest.mark.parametrize("name", SMOOTH)
def test_right_second_derivatives_of_functions_smooth_through_a_kink_pass(name: str) -> None:
    f, at, hessian = SMOOTH[name]
    assert judge(f, tf.constant(at, tf.float64), np.asarray(hessian), order=2).ok


@pytest.mark.parametrize("name", [*SMOOTH, *WRONG])
def test_exact_gives_the_derivative_of_the_whole_function_where_it_has_one(name: str) -> None:
    f, at, derivative = SMOOTH.get(name) or WRONG[name]
    found = exact(f, tf.constant(at, tf.float64), order=2 if name in SMOOTH else 1, digits=30)
    assert np.allclose(found.astype(float), derivative, rtol=1e-12, atol=1e-300), found


@pytest.mark.parametrize("name", KINKED)
def test_exact_follows_the_convention_where_the_whole_function_has_a_kink(name: str) -> None:
    f, at = KINKED[name]
    x = tf.constant(at, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert np.allclose(exact(f, x).astype(float), tape.gradient(y, x).numpy())


@pytest.mark.parametrize("name", SMOOTH)
def test_first_derivatives_that_exist_and_are_right_pass(name: str) -> None:
    f, at, _ = SMOOTH[name]
    assert check(f, tf.constant(at, tf.float64)).ok


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_first_derivative_of_a_smooth_function_does_not_pass(name: str, order: int) -> None:
    f, at, exact = WRONG[name]
    x = tf.constant(at, tf.float64)
    report = check(f, x, order=order)
    assert not report.ok and report.verdict == "convention"
    assert {float(found.exact) for found in report.findings if not found.ok and found.order == 1} <= {*np.ravel(exact)}
    assert judge(f, x, np.asarray(exact)).ok


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", KINKED)
def test_conventions_between_the_one_sided_derivatives_pass(name: str, order: int) -> None:
    f, at = KINKED[name]
    report = check(f, tf.constant(at, tf.float64), order=order)
    assert report.ok, report
    assert order > 1 or report.verdict == "convention"


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
def test_kinks_that_cancel_show_a_wrong_first_derivative(scale: float) -> None:
    def f(x: Any) -> Any:
        return scale * (tf.nn.relu(x) - tf.nn.relu(-x))

    report = check(f, tf.constant(0.0, tf.float64))
    assert (report.ok, report.verdict) == (False, "convention")
    assert float(report.findings[0].exact) == scale
    assert check(f, tf.constant(scale, tf.float64)).verdict == "correct"


def test_the_sum_of_the_two_greatest_has_a_derivative_at_their_tie() -> None:
    report = check(lambda x: tf.reduce_max(x) + tf.sort(x)[2], [1.0, 1.0, 2.0, 2.0])
    assert (report.ok, report.findings[0].got, float(report.findings[0].exact)) == (False, 1.5, 1.0)


def test_a_function_that_jumps_at_the_point_follows_its_convention() -> None:
    assert check(lambda x: tf.where(tf.equal(x, 2.0), x, x * x), 2.0, order=2).ok


# Not differentiable by the ops, but as a whole: (function, point, the first and the second derivative).
THROUGH_POLES: dict[str, tuple[F, Any, Any, Any]] = {
    "square of a root of a square": (lambda x: tf.sqrt(x * x) ** 2, ZERO, 0.0, 2.0),
    "root of the fourth power": (lambda x: tf.sqrt(x**4), ZERO, 0.0, 2.0),
    "cosine of a root": (lambda x: tf.cos(tf.sqrt(x * x)), ZERO, 0.0, -1.0),
    "cube of a cube root": (lambda x: tf.math.cbrt(x) ** 3, ZERO, 1.0, 0.0),
    "cube root of a cube": (lambda x: tf.math.cbrt(x**3), ZERO, 1.0, 0.0),
    "square of an angle": (lambda x: tf.acos(tf.cos(x)) ** 2, ZERO, 0.0, 2.0),
    "angle of a fourth power": (lambda x: tf.acos(tf.cos(x**4)) + x**2, ZERO, 0.0, 2.0),
    "cube root of a cube of a cosine": (lambda x: tf.cos(tf.math.cbrt((tf.cosh(x) - 1.0) ** 3)), ZERO, 0.0, 0.0),
    "root of an angle beside a missing gradient": (
        lambda x: tf.sqrt(1.0 - tf.cos(0.0 * tf.sign(x))) + x**2, 1.0, 2.0, 2.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", THROUGH_POLES)
def test_a_derivative_counts_where_no_op_has_one_but_the_function_has(name: str, order: int) -> None:
    f, at, *derivatives = THROUGH_POLES[name]
    x, right = tf.constant(at, tf.float64), derivatives[order - 1]
    assert judge(f, x, right, order=order).ok
    for wrong in (right + 1e-7, right - 1.0, np.nan):
        report = judge(f, x, wrong, order=order)
        assert not report.ok and report.verdict in ("convention", "domain")
        assert np.isclose(float(report.findings[0].exact), right, rtol=1e-12, atol=1e-300)
    report = check(f, x, order=order)
    got = [found.got for found in report.findings if found.got is not None]
    assert report.ok or got, "a check that does not pass shows the number and the derivative"


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", THROUGH_POLES)
def test_exact_gives_the_derivative_where_no_op_has_one_but_the_function_has(name: str, order: int) -> None:
    f, at, *derivatives = THROUGH_POLES[name]
    found = exact(f, tf.constant(at, tf.float64), order=order, digits=30)[()]
    assert np.isclose(float(found), derivatives[order - 1], rtol=1e-15, atol=0), found


@pytest.mark.parametrize(
    ("f", "at", "right"),
    [
        (lambda x: tf.reduce_max(tf.exp(x)) * x[1], [1.0, 1.0], [np.e / 2, np.e / 2 + np.e]),
        (lambda x: tf.reduce_sum(tf.abs(tf.tanh(x)[0] - tf.tanh(x)[1]) ** 3 + x), [0.5, 0.5], [1.0, 1.0]),
        (lambda x: tf.maximum(tf.math.reduce_std(x), tf.math.reduce_std(x)), [1.0, 3.0], [-0.5, 0.5]),
        (lambda x: tf.abs(tf.nn.softmax(x)[0] - tf.nn.softmax(x)[1]) ** 3, [0.7, 0.7], [0.0, 0.0]),
        (lambda x: tf.cos(tf.abs(x[0] * 0.1 - x[1] * 0.1)), [0.3, 0.3], [0.0, 0.0]),
    ],
)  # fmt: skip
def test_results_of_equal_computations_are_tied_without_an_assumption(f: F, at: Any, right: Any) -> None:
    found = np.asarray(exact(f, np.array(at), digits=30)).astype(float)
    assert np.allclose(found, right, rtol=1e-15, atol=0), found


def test_equal_numbers_that_are_computed_in_two_ways_are_a_tie() -> None:
    made = exact(lambda x: tf.abs(tf.exp(x[0] + x[1]) - tf.exp(x[0]) * tf.exp(x[1])), np.array([0.3, 0.4]))
    assert made.astype(float).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("tiny", [1e-300, -1e-300])
def test_numbers_that_differ_far_behind_their_digits_are_no_tie(tiny: float) -> None:
    made = exact(lambda x: tf.abs(tf.exp(x) - (tf.exp(x) + tiny * x)), 0.3)
    assert float(made[()]) == abs(tiny)


def test_a_second_derivative_that_no_tape_connects_is_right_where_the_whole_function_has_none() -> None:
    report = check(lambda x: tf.sqrt(1.0 - tf.cos(0.0 * tf.sign(x))) + x, 2.0, order=2)
    assert report.ok and {f.verdict for f in report.findings} == {"convention"}


# A part is constant at a point where its op has no derivative: (function, point, the gradient, the Hessian).
CONSTANT_PARTS: dict[str, tuple[F, Any, Any, Any]] = {
    "root of a difference of equals": (lambda x: tf.sqrt(x - x) + tf.sin(x), 0.5, np.cos(0.5), -np.sin(0.5)),
    "cube root times a factor": (lambda x: x * (1.0 + tf.math.cbrt(x - x)), 0.5, 1.0, 0.0),
    "angle of a quotient of equals": (lambda x: tf.acos(x / x) * x + x**2, 2.0, 4.0, 2.0),
    "power of zero": (lambda x: tf.pow(x - x, x) + x**2, 0.75, 1.5, 2.0),
    "root of a square": (lambda x: tf.sqrt((x - x) ** 2) * tf.exp(x) + x, 1.5, 1.0, 0.0),
    "element of a root": (
        lambda x: tf.reduce_sum(tf.sqrt(tf.stack([x[0] - x[0], x[1]]))), [3.0, 4.0], [0.0, 0.25],
        [[0.0, 0.0], [0.0, -1 / 32]],
    ),
    "cube root of a computed difference": (
        lambda x: tf.math.cbrt(tf.math.expm1(x) - tf.math.expm1(x)) + x**2, 0.5, 1.0, 2.0,
    ),
    "angle of a computed quotient": (lambda x: tf.acos(tf.tanh(x) / tf.tanh(x)) + x**2, 0.5, 1.0, 2.0),
    "computed squared difference": (
        lambda x: tf.sqrt(tf.math.squared_difference(tf.sin(x), tf.sin(x))) + x**2, 0.5, 1.0, 2.0,
    ),
    "distances of all computed pairs": (
        lambda x: tf.reduce_sum(tf.sqrt(tf.square(tf.exp(x)[:, None] - tf.exp(x)[None]))), [0.0, 1.0],
        [-2.0, 2 * np.e], [[-2.0, 0.0], [0.0, 2 * np.e]],
    ),
    "distances of all pairs": (
        lambda x: tf.reduce_sum(tf.sqrt(tf.square(x[:, None] - x[None]))), [3.0, 5.0], [-2.0, 2.0], np.zeros((2, 2)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", CONSTANT_PARTS)
def test_a_constant_part_at_a_point_without_derivative_of_its_op_does_not_matter(name: str, order: int) -> None:
    f, at, *derivatives = CONSTANT_PARTS[name]
    x, right = tf.constant(at, tf.float64), np.asarray(derivatives[order - 1])
    assert np.allclose(np.asarray(exact(f, x, order=order, digits=30)).astype(float), right, rtol=1e-15, atol=0)
    assert judge(f, x, right, order=order).ok
    for wrong in (right + 1e-9, right * np.nan):
        report = judge(f, x, wrong, order=order)
        assert not report.ok and report.verdict in ("convention", "domain", "rule")
    report = check(f, x, order=order)
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = f(x)
        g = inner.gradient(y, x, unconnected_gradients="zero")
    found = [g, outer.jacobian(g, x, unconnected_gradients="zero")][:order]
    assert report.ok == all(np.allclose(tf.convert_to_tensor(a), b) for a, b in zip(found, derivatives, strict=False))
    assert report.ok or next(found for found in report.findings if not found.ok).exact is not None


def test_exact_says_where_limits_come_too_slowly_for_its_digits() -> None:
    # Next to 0 the derivative is of the size of the root of the step.
    with pytest.raises(ArithmeticError, match="too slowly"):
        exact(lambda x: tf.sqrt(tf.abs(x) ** 3), 0.0)


def test_a_value_that_stays_open_at_the_point_is_no_error() -> None:
    def f(x: Any) -> Any:
        y = tf.math.hypot(x, x)
        z = 0.5 * tf.math.reduce_std(tf.stack([y, -y]))  # of an enclosure that no precision makes exact
        return tf.pow(0.0 * z, z * z + 0.5)

    assert judge(f, tf.constant(-1.0, tf.float64), 0.0, order=2).ok


def test_a_pole_of_a_switched_off_part_is_no_overflow() -> None:
    def f(x: Any) -> Any:
        y = x**3 + tf.pow(tf.sign(x) * 0.0, tf.square(tf.sign(x)) + 0.5)
        return tf.math.reduce_std(tf.stack([y, -y]))

    report = check(f, 0.0, order=2)
    assert report.ok and "range" not in {found.verdict for found in report.findings}, report


def _distances(x: Any) -> Any:
    return tf.reduce_sum(tf.sqrt(tf.reduce_sum(tf.square(x[:, None] - x[None]), -1)))


@pytest.mark.slow
def test_distances_of_many_points_from_one_another_have_the_derivative_of_those_that_differ() -> None:
    x = np.random.default_rng(0).normal(size=(9, 3))
    apart = x[:, None] - x[None]
    length = np.sqrt((apart**2).sum(-1)) + np.eye(len(x))
    right = 2 * (apart / length[..., None]).sum(1)
    assert judge(_distances, x, right).ok
    wrong = right.copy()
    wrong[7, 1] *= 1 + 1e-9
    (found,) = judge(_distances, x, wrong).findings
    assert found.element == (0, (7, 1)) and not found.ok
    (found,) = check(_distances, x).findings
    assert np.isnan(found.got) and np.isclose(float(found.exact), right[found.element[1]], rtol=1e-12)


@pytest.mark.parametrize(("units", "passes"), [(0.4, True), (40.0, False)])
def test_a_claim_beside_a_constant_part_may_be_off_as_much_as_its_inputs(units: float, passes: bool) -> None:
    x = np.array([0.3, 1.5707])
    right = np.array([0.0, 1 / float(np.cos(x[1])) ** 2])
    steep = 2 * np.tan(x[1]) * right[1] * np.spacing(x[1])  # the move of the derivative by a unit of the input
    claim = right + np.array([0.0, units * steep])
    assert judge(lambda x: tf.sqrt(x[0] - x[0]) + tf.tan(x[1]), x, claim).ok is passes


def test_a_second_derivative_of_0_beside_a_switched_off_root_may_hold_roundings() -> None:
    def f(x: Any) -> Any:
        return tf.acos(tf.cos(x - 1.0)) + tf.nn.relu(-(tf.sqrt((x * 0.5 - 1.0) ** 4) + 1.0))

    assert check(f, 2.0, order=2).ok
    assert not judge(f, tf.constant(2.0, tf.float64), 1e-12, order=2).ok


def test_a_point_without_derivative_stays_one() -> None:
    kink = [lambda x: tf.sqrt(x * x)]  # a claim between its one-sided derivatives is a convention
    for f in (tf.sqrt, lambda x: tf.math.log(x * x), tf.math.cbrt, *kink):
        assert check(f, 0.0).verdict == "domain"
        assert judge(f, tf.constant(0.0, tf.float64), 0.0).verdict == ("convention" if f in kink else "domain")
        with pytest.raises(ArithmeticError, match="there is no derivative here"):
            exact(f, 0.0)


def _real(z: Any) -> Any:
    return tf.math.real(z)


def _imaginary(z: Any) -> Any:
    return tf.math.imag(z)


# Of complex numbers, whose gradients are conjugates: (function, point, its gradient, that of the ops is another one).
OF_COMPLEX: dict[str, tuple[F, Any, Any, bool]] = {
    "difference of hinges": (
        lambda z: tf.nn.relu(_real(z)) - tf.nn.relu(-_real(z)) + _imaginary(z) ** 2, 1j, 1.0 + 2j, True,
    ),
    "sum of greater and smaller": (
        lambda z: tf.maximum(_real(z), 2 * _imaginary(z)) + tf.minimum(_real(z), 2 * _imaginary(z)), 1 + 0.5j, 1 + 2j,
        True,
    ),
    "one of two numbers": (
        lambda z: tf.reduce_sum(tf.nn.relu(_imaginary(z)) - tf.nn.relu(-_imaginary(z))),
        [1.0, 1.0 - 1j], [1j, 1j], True,
    ),
    "modulus squared": (lambda z: tf.abs(z) ** 2, 0j, 0j, False),
    "root of a product": (lambda z: tf.sqrt(_real(z * tf.math.conj(z))) ** 2, 0j, 0j, False),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [tf.complex128, tf.complex64])
@pytest.mark.parametrize("name", OF_COMPLEX)
def test_functions_of_complex_numbers_are_judged_as_a_whole(name: str, dtype: Any) -> None:
    f, at, right, differs = OF_COMPLEX[name]
    z, right = tf.constant(at, dtype), np.asarray(right)
    assert judge(f, z, right).ok
    for wrong in (right + 1e-3, right + 1e-3j, right.conj() + 1.0, np.full(right.shape, complex("nan"))):
        report = judge(f, z, wrong)
        assert not report.ok and report.verdict != "undecided", report
    parts = [str(e).strip("()").removesuffix("j").split(", ") for e in np.ravel(exact(f, z))]
    assert [complex(float(a), float(b)) for a, b in parts] == np.ravel(right).tolist()
    report = check(f, z)
    assert report.ok != differs
    assert not differs or "part" in report.findings[0].reason


@pytest.mark.slow
def test_a_modulus_has_the_unit_disc_at_zero() -> None:
    for claim, ok in ((0.5 - 0.5j, True), (1j, True), (1.1, False), (-1.1j, False)):
        assert judge(tf.abs, tf.constant(0j), claim).ok == ok


def _safe_ratio(x: Any, of: F) -> Any:
    zero = tf.equal(x, 0.0)
    return tf.where(zero, tf.ones_like(x), of(x) / tf.where(zero, tf.ones_like(x), x))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of", "derivatives"), [(tf.sin, (0.0, -1 / 3)), (tf.math.expm1, (0.5, 1 / 3)), (tf.math.log1p, (-0.5, 2 / 3))]
)
def test_a_value_filled_in_at_one_point_does_not_fill_in_the_derivative(of: F, derivatives: tuple[float, ...]) -> None:
    x = tf.constant(0.0, tf.float64)
    for order, right in enumerate(derivatives, 1):
        assert judge(lambda x: _safe_ratio(x, of), x, right, order=order).ok
        assert judge(lambda x: _safe_ratio(x, of), x, 0.0, order=order).ok == (right == 0.0)
        assert not judge(lambda x: _safe_ratio(x, of), x, right + 1e-7, order=order).ok
    report = check(lambda x: _safe_ratio(x, of), x, order=2)
    assert (report.ok, report.verdict) == (False, "convention")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("f", "at", "right"),
    [
        (lambda x: tf.maximum(x, 0.0) - x * 0.3 + tf.math.log1p(tf.exp(-tf.abs(x))), ZERO, 0.25),
        (lambda x: tf.nn.relu(x) + tf.math.log1p(tf.exp(-tf.abs(x))), ZERO, 0.25),
        (
            lambda x: tf.maximum(x[0], x[1]) + tf.math.log1p(tf.exp(-tf.abs(x[0] - x[1]))), PAIR,
            [[0.25, -0.25], [-0.25, 0.25]],
        ),
    ],
)  # fmt: skip
def test_a_convention_of_the_gradient_does_not_hide_the_curvature(f: F, at: Any, right: Any) -> None:
    x, right = tf.constant(at, tf.float64), np.asarray(right)
    assert judge(f, x, right, order=2).ok
    for wrong in (0.0 * right, 2.0 * right, right + 1e-7):
        assert not judge(f, x, wrong, order=2).ok


@pytest.mark.slow
def test_a_lookup_whose_places_depend_on_the_point_has_the_curvature_of_its_sum() -> None:
    def f(x: Any) -> Any:
        return tf.reduce_sum(tf.gather(x, tf.argsort(x)) ** 2)

    x, right = tf.constant(PAIR, tf.float64), 2.0 * np.eye(2)
    assert judge(f, x, right, order=2).ok
    for wrong in (0.0 * right, right - [[0.0, 0.0], [0.0, 1e-7]], right[::-1]):
        assert not judge(f, x, wrong, order=2).ok


def test_kinks_of_what_only_decides_are_no_kinks_of_the_function() -> None:
    for point in ([0.0, 0.0], [0.0, 1e-9]):
        assert check(lambda x: tf.reduce_sum(tf.nn.l2_normalize(x)), point).verdict == "correct"
        assert check(lambda x: tf.reduce_sum(tf.nn.l2_normalize(x)), point, order=2).ok


def test_a_root_of_a_partial_excuses_no_claim() -> None:
    one = tf.constant(1.0, tf.float64)
    for order, right in ((1, 1.0), (2, 2.0)):
        assert judge(lambda x: x**x, one, right, order=order).ok
        for wrong in (0.0, -right, 2.0 * right, right + 1e-7):
            assert not judge(lambda x: x**x, one, wrong, order=order).ok


def test_what_no_tape_recorded_at_an_end_of_a_domain_is_the_limit_beside_it() -> None:
    def square(x: Any) -> Any:
        return tf.sqrt(x) ** 4

    assert judge(square, tf.constant(0.0, tf.float64), 2.0, order=2).ok
    assert judge(square, tf.constant(0.0, tf.float64), 0.0, order=2).verdict == "rule"


@pytest.mark.parametrize(
    ("f", "at", "claim", "verdict"),
    [
        (tf.nn.relu, 0.0, 0.3, True),
        (tf.nn.relu, 0.0, 1.0, True),
        (tf.nn.relu, 0.0, 1.1, False),
        (tf.nn.relu, 0.0, -1e-9, False),
        (lambda x: tf.abs(x) ** 3, 0.0, 1e-3, False),
        (lambda x: tf.nn.relu(x) * 3.0 + 2.0 * x, 0.0, 5.0, True),
        (lambda x: tf.nn.relu(x) * 3.0 + 2.0 * x, 0.0, 1.9, False),
        (lambda x: tf.reduce_max(x), PAIR, [0.9, 0.1], True),
        (lambda x: tf.reduce_max(x), PAIR, [1.1, -0.1], False),
    ],
)
def test_claims_at_kinks_may_lie_between_the_one_sided_derivatives(f: F, at: Any, claim: Any, verdict: bool) -> None:
    assert judge(f, tf.constant(at, tf.float64), claim).ok is verdict


def test_the_flag_judges_the_whole_function_too() -> None:
    x = tf.Variable(0.0)
    with tf.GradientTape(verify=True) as tape:
        y = tf.nn.relu(x) - tf.nn.relu(-x)
    with pytest.raises(tf.VerificationError, match="as a whole"):
        tape.gradient(y, x)


def test_each_claim_at_a_kink_is_judged_by_itself() -> None:
    at = tf.constant([0.0, 0.0, 0.0, 0.0, 1.0], tf.float64)
    kinked = judge(tf.nn.relu, at, np.array([0.5, 2.0, 3.0, 1.0, np.nan]))
    outside = [f for f in kinked.findings if f.verdict == "convention" and not f.ok]
    assert [(f.count, f.element, f.got) for f in outside] == [(2, (0, (2,)), 3.0)]
    assert [f.element for f in kinked.findings if f.verdict == "unstable"] == [(0, (4,))]
    assert len([f for f in kinked.findings if not f.ok]) == 2


def test_an_overflow_in_this_program_explains_infinite_claims_alone() -> None:
    report = judge(
        lambda x: tf.math.log(tf.exp(x)), tf.constant([1000.0, 1000.0, 1.0], tf.float64), np.array([0.5, np.inf, 1.0])
    )
    assert {(f.verdict, f.element) for f in report.findings} == {("rule", (0, (0,))), ("range", (0, (1,)))}


@pytest.mark.parametrize(
    ("f", "at"),
    [
        (lambda x: tf.nn.relu(x) ** 2, -1.5),
        (lambda x: tf.abs(tf.nn.relu(x)), -1.5),
        (lambda x: tf.abs(tf.minimum(x * x, 2.0) - 2.0), 3.0),
    ],
)
def test_an_op_that_is_constant_around_the_point_keeps_kinks_from_counting(f: F, at: float) -> None:
    assert check(f, at, order=2).verdict == "correct"
    assert check(lambda x: f(x * x * x / (at * at)), at, order=2).ok


def _by_age(log_age: Any) -> Any:
    t = tf.constant(np.array([0.0, 1.0, 5.0])) / tf.exp(log_age)
    return tf.reduce_sum(tf.where(t == 0, tf.ones_like(t), tf.math.divide_no_nan(-tf.math.expm1(-t), t)))


@pytest.mark.parametrize(
    ("f", "at"),
    [
        (lambda x: tf.nn.relu(0.0 * x) + x, 0.5),
        (lambda x: tf.abs(0.0 * x) + x, 0.5),
        (lambda x: tf.abs(0.0 * x / tf.exp(x)) + x, 0.5),
        (lambda x: tf.math.divide_no_nan(x, 0.0 * x) + x, 0.5),
        (_by_age, 0.5),
    ],
)
def test_a_kink_of_a_number_that_stays_there_is_none_of_the_function(f: F, at: float) -> None:
    assert check(f, at).verdict == "correct"


def test_a_kink_of_an_element_that_is_left_out_is_none_of_the_function() -> None:
    def rows(a: Any) -> Any:
        return tf.math.divide_no_nan(a, tf.reduce_sum(a, 1, keepdims=True))

    at = np.array([[0.0, 0.0], [1.0, 2.0]])
    keep = tf.constant([[False], [True]])
    assert check(lambda a: tf.reduce_sum(rows(a)[1:] ** 2), at).verdict == "correct"
    assert check(lambda a: tf.reduce_sum(tf.where(keep, rows(a), 0.0) ** 2), at).verdict == "correct"
    assert check(lambda a: tf.reduce_sum(rows(a)[:1]), at).verdict != "correct"


def test_an_element_that_is_left_out_at_the_point_alone_meets_its_kink() -> None:
    assert check(lambda x: tf.where(x == 0.0, 2.0 * x, tf.abs(x)), 0.0).verdict != "correct"


def test_zeros_that_move_still_meet_the_kink() -> None:
    assert check(lambda x: tf.nn.relu(x * x * x), 0.0, order=2).verdict == "convention"
    assert check(lambda x: tf.abs(tf.nn.relu(x[0]) + x[1]), [-1.0, 0.0]).verdict == "convention"


def test_a_hessian_beside_a_kink_costs_its_rows_not_their_squares(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    jets = Oracle.jets
    monkeypatch.setattr(Oracle, "jets", lambda *args, **params: runs.append(1) or jets(*args, **params))

    def cost(n: int) -> int:
        x = np.linspace(-1.0, 1.0, n)
        x[0] = 0.0
        runs.clear()
        report = check(lambda x: tf.reduce_sum(tf.nn.relu(x) ** 3) + tf.reduce_sum(x) ** 2, x, order=2)
        assert report.ok
        return len(runs)

    assert cost(12) < 3 * cost(4)


@pytest.mark.slow
def test_a_few_kinks_among_many_numbers_are_judged_as_a_whole() -> None:
    weights = np.linspace(1.0, 2.0, 3000)
    x = tf.constant(np.where(np.arange(3000) % 997 == 0, 0.0, 1.0))

    def smooth(x: Any) -> Any:
        return tf.reduce_sum((tf.nn.relu(x) - tf.nn.relu(-x)) * tf.constant(weights))

    report = check(smooth, x)
    assert (report.ok, report.verdict, report.findings[0].count) == (False, "convention", 4)
    assert judge(smooth, x, weights).ok
    assert not judge(smooth, x, np.where(x == 0.0, 0.0, weights)).ok
    assert check(lambda x: tf.reduce_sum(tf.nn.relu(x) * tf.constant(weights)), x).ok


@pytest.mark.slow
def test_a_kink_among_many_rows_is_found_in_its_own_row() -> None:
    at = np.ones(70)
    at[0] = 0.0
    report = check(lambda x: tf.abs(x[0]) ** 2 + tf.reduce_sum(x[1:] ** 2), at, order=2)
    (found,) = [f for f in report.findings if not f.ok]
    assert (report.verdict, found.element, found.got, float(found.exact or 0)) == ("convention", (0, (0,)), 0.0, 2.0)
    assert check(lambda x: tf.abs(x[0]) ** 3 + tf.reduce_sum(x[1:] ** 2), at, order=2).ok


@pytest.mark.slow
def test_a_jump_of_a_gradient_among_many_rows_leaves_its_convention() -> None:
    at = np.ones(70)
    at[:2] = 0.0
    report = check(lambda x: tf.reduce_sum(tf.abs(x) * tf.abs(tf.roll(x, 1, 0))), at, order=2)
    assert report.ok and report.verdict == "convention"


def test_a_row_of_a_hessian_is_searched_for_the_elements_with_sides_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    slope = Oracle.slope_of_all
    monkeypatch.setattr(Oracle, "slope_of_all", lambda *args: runs.append(1) or slope(*args))
    x = np.linspace(-1.0, 1.0, 16)
    x[0] = 0.0
    report = check(lambda x: tf.reduce_sum(tf.nn.relu(x) ** 2) + tf.reduce_sum(tf.sin(x)) ** 2, x, order=2)
    assert report.ok and report.verdict == "convention"
    assert (
        len(runs) < 24 * x.size
    )  # each element of the first row on each side takes 36 runs for each row of the others


def _tied(x: Any) -> Any:
    """Tied numbers that are computed in two ways, so that no precision shows that they are equal."""
    a, b, c = tf.exp(x[0] + x[1]), tf.exp(x[0]) * tf.exp(x[1]), tf.exp(x[2] + x[3] + x[4])
    return tf.maximum(a, b) * c + tf.nn.relu(x[0] - x[4]) ** 2


def _points(f: F, x: Any, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The nodes that are known at each point beside a kink, for the check of a Hessian."""
    points: list[list[int]] = []
    beside = points_beside.beside

    def noted(*args: Any, **params: Any) -> Any:
        env = beside(*args, **params)
        points.append(list(env or ()))
        return env

    monkeypatch.setattr(points_beside, "beside", noted)
    check(f, x, order=2)
    return points


@pytest.mark.slow
def test_rows_share_the_points_beside_assumed_ties(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(_points(_tied, np.full(5, 0.3), monkeypatch)) < 60


@pytest.mark.slow
def test_rows_of_larger_programs_share_the_points_along_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        for _ in range(40):
            x = tf.sin(x)
        return tf.abs(tf.reduce_sum(x)) ** 2

    assert len(_points(f, np.zeros(4), monkeypatch)) < 200


def test_backward_ops_are_not_evaluated_beside_a_kink(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        for _ in range(20):
            x = tf.abs(x) * tf.sin(x + 1.0)
        return x

    points = _points(f, 0.0, monkeypatch)
    assert points and max(map(len, points)) < 120


def test_jets_of_an_inner_gradient_leave_out_its_backward_ops() -> None:
    with tf.GradientTape(verify=True) as outer:
        x = tf.constant([0.5, 1.5])
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.reduce_sum(tf.sin(x) * tf.exp(x))
        g = inner.gradient(y, x)
    program = build([(g._record, g._value)], [x])
    oracle = Oracle(program, [np.ones(2, np.float32)])
    assert oracle.needed(program.outputs) == list(program.outputs)
    assert len(program.ancestors(program.outputs)) > 6


def _bits_beside(f: F, at: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The precisions at which the sides of a point are looked at."""
    bits: list[int] = []
    precision = sides.precision
    monkeypatch.setattr(sides, "precision", lambda n: bits.append(n) or precision(n))
    assert check(f, at).ok
    return bits


def test_few_bits_decide_beside_a_kink_where_little_cancels(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _bits_beside(lambda x: tf.abs(x[0]) * tf.math.lgamma(x[1]) + x[0], [0.0, 3.5], monkeypatch) == [2400]


def test_all_bits_decide_beside_a_kink_where_much_cancels(monkeypatch: pytest.MonkeyPatch) -> None:
    # Before all bits are tried, equal numbers are computed once.
    assert _bits_beside(lambda x: tf.abs(x - tf.sin(x)), 0.0, monkeypatch) == [2400, 2400, 6000]


def test_other_numbers_of_a_row_have_its_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    program, row, shared = trace(lambda x: tf.abs(x) + x, 0.0), [np.float64(1.0)], Shared()
    runs = []
    found = Sides._intervals
    monkeypatch.setattr(Sides, "_intervals", lambda *args: runs.append(1) or found(*args))

    def interval(number: float, row: list[Any]) -> str:
        at = Sides(program, lambda: Oracle(program, row), Oracle.replay, None, shared, row)
        limits = at.limits([np.array(number, dtype=object)])
        assert limits is not None
        return str(limits[0].get((), "inside"))

    assert [interval(3.0, row), interval(3.0, row), len(runs)] == ["[0, 2]", "[0, 2]", 1]
    assert [interval(0.5, row), interval(3.0, [np.float64(2.0)]), len(runs)] == ["inside", "inside", 3]


def test_exact_gives_derivatives_although_numbers_on_the_way_overflow_floats() -> None:
    def identity(x: Any) -> Any:
        return tf.math.log(tf.exp(800.0 * x))

    assert float(exact(identity, 1.0)[()]) == 800.0
    zero = exact(identity, 1.0, order=2)[()]
    assert zero == "0" and zero.radius < 1e-300, "an enclosure of 0 has no other digits"
    steep = exact(lambda x: tf.math.special.fresnel_cos(tf.exp(x)), 800.0, digits=20)[()]
    assert steep == "1.4570523974006600344e+347", "exp(800) cos(pi/2 exp(1600)), by mpmath"


@pytest.mark.slow
@pytest.mark.parametrize("share", [1e-8, 1e-4])
@pytest.mark.parametrize("n", [100, 2500, 9000])
def test_a_kink_of_a_small_share_is_found_in_arrays_of_all_lengths(n: int, share: float) -> None:
    def f(x: Any) -> Any:
        return tf.reduce_sum(10.0 * tf.exp(x / 10.0)) + share * tf.reduce_sum(tf.nn.relu(x) - tf.nn.relu(-x))

    x = np.random.default_rng(1).normal(size=n)
    x[n // 2] = 0.0
    report = check(f, x)
    wrong = [g for g in report.findings if not g.ok]
    assert [(g.verdict, g.element) for g in wrong] == [("convention", (0, (n // 2,)))]
    assert check(lambda x: f(x) + tf.reduce_sum(tf.abs(x)), x).ok  # a true kink


@pytest.mark.slow
def test_ties_in_a_float32_net_take_no_directions_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    # Ties of other elements move these derivatives to one side of the exact numbers, by no more than the step.
    asked = []
    monkeypatch.setattr(sides.Sides, "_ways", lambda *args: asked.append(args))
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(64, 100)).astype(np.float32), rng.normal(size=(100, 40)).astype(np.float32)
    v, b = rng.normal(size=40).astype(np.float32), np.zeros(40, np.float32)
    x[:, :3] = 0.0
    w[:, 5] = 0.0
    assert check(
        lambda w, b: tf.reduce_mean((tf.linalg.matvec(tf.nn.relu(tf.matmul(x, w) + b), v) - 1.0) ** 2), w, b
    ).ok
    assert not asked


JUMPS: dict[str, tuple[F, float, float]] = {  # the function, the point, and its derivative there by convention
    "sign": (tf.sign, 0.0, 0.0),
    "floor": (tf.floor, 1.0, 0.0),
    "where": (lambda a: tf.where(a >= 0, a + 1, a), 0.0, 1.0),
    "a hole": (lambda a: tf.where(tf.equal(a, 2.0), a, a * a), 2.0, 1.0),
}


@pytest.mark.parametrize("name", JUMPS)
def test_a_jump_by_one_argument_excuses_no_derivative_by_another(name: str) -> None:
    jump, at, slope = JUMPS[name]

    def f(a: Any, b: Any) -> Any:  # jump(a) + b
        return jump(a) + tf.nn.relu(b) - tf.nn.relu(-b)

    report = check(f, at, 0.0)
    (found,) = [v for v in report.findings if not v.ok]
    assert (found.verdict, found.element, found.got) == ("convention", (1, ()), 0.0) and float(found.exact or 0) == 1
    assert not judge(f, (at, 0.0), (slope, 0.0)).ok
    assert judge(f, (at, 0.0), (slope, 1.0)).ok
    assert check(lambda a, b: jump(a) + tf.nn.relu(b), at, 0.0).ok


def test_a_derivative_at_a_jump_may_be_that_of_the_point_itself() -> None:
    def f(a: Any, b: Any) -> Any:
        return tf.where(tf.equal(a, 0.0), tf.zeros_like(b), tf.ones_like(b)) * (tf.nn.relu(b) + b)

    assert check(f, 0.0, 1.0).ok  # constant by b where a is 0
    assert judge(f, (0.0, 1.0), (0.0, 0.0)).ok
    assert not judge(f, (0.0, 1.0), (0.0, 3.0)).ok


@pytest.mark.slow
@pytest.mark.parametrize(
    ("f", "at", "element", "right"),
    [
        (lambda x: tf.abs(x[0]) + tf.cos(tf.abs(x[1])), [0.0, 0.0], (1, 1), -1.0),
        (lambda x: tf.nn.relu(x[0]) + tf.norm(x[1:]) ** 2, [0.0, 0.0, 0.0], (1, 1), 2.0),
        (lambda x: tf.reduce_max(x[:2]) + tf.abs(x[2]) ** 2, [1.0, 1.0, 0.0], (2, 2), 2.0),
    ],
)
def test_a_kink_in_one_row_excuses_no_other_row(f: F, at: Any, element: tuple[int, int], right: float) -> None:
    at = np.array(at)
    claim = np.zeros((len(at), len(at)))
    assert not check(f, at, order=2).ok
    assert not judge(f, at, claim, order=2).ok
    np.testing.assert_allclose(float(exact(f, at, order=2)[element]), right, rtol=1e-12)
    for i in range(1, len(at)):
        claim[i, i] = right if i >= element[0] else 0.0
    assert judge(f, at, claim, order=2).ok


@pytest.mark.slow
@pytest.mark.parametrize("n", [24, 250])
def test_a_gradient_that_jumps_on_many_sides_leaves_its_convention(n: int) -> None:
    rng = np.random.default_rng(0)
    at = np.where(np.arange(n) % 4, 0.0, rng.uniform(-1.0, 1.0, n))  # all units are off on one side of thousands
    c, seeds = rng.uniform(0.5, 2.0, (2, n))

    def f(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.nn.softmax(tf.tanh(tf.nn.relu(x))) * c) ** 2
        return tf.reduce_sum(tape.gradient(y, x) * seeds)

    assert check(f, at).ok


GROWING: dict[str, tuple[F, Any]] = {
    "xlogy": (lambda x: tf.math.xlogy(x, x), 0.0),
    "xlogy on the left": (lambda x: tf.math.xlogy(x, -x), 0.0),
    "multiples": (lambda x: tf.math.xlogy(3.0 * x, 2.0 * x) + x, 0.0),
    "elsewhere": (lambda x: tf.math.xlogy(x - 1.0, x - 1.0), 1.0),
    "xlog1py": (lambda x: tf.math.xlog1py(x + 1.0, x), -1.0),
    "power": (lambda x: x**x, 0.0),
    "power in float32": (lambda x: x ** (2.0 * x), np.float32(0.0)),
    "entropy": (lambda p: -tf.reduce_sum(tf.math.xlogy(p, p)), np.array([0.0, 0.5, 0.5])),
    "two kinks": (lambda x: tf.nn.relu(x) + tf.math.xlogy(x, x), 0.0),
    "on both sides": (lambda x: tf.math.xlogy(x, x * x), 0.0),
    "of a magnitude": (lambda x: x + tf.math.xlogy(x, tf.abs(x)), 0.0),
}


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", GROWING)
def test_exact_raises_where_derivatives_grow_without_bound(name: str, order: int) -> None:
    f, at = GROWING[name]
    with pytest.raises(ArithmeticError, match="there is no derivative here"):
        exact(f, at, order=order)
    report = check(f, at, order=order)
    assert not report.ok and report.verdict == "domain"


def test_exact_raises_where_both_slopes_are_infinite() -> None:
    def steep(x: Any) -> Any:
        return tf.sign(x) * tf.where(x == 0.0, 0.0, tf.sqrt(tf.abs(tf.where(x == 0.0, 1.0, x))))

    with pytest.raises(ArithmeticError, match="grow without bound"):
        exact(steep, 0.0)


def test_exact_leaves_out_what_no_derivative_reads() -> None:
    p = np.array([0.0, 0.5])
    for entropy in (
        lambda p: tf.reduce_sum(tf.math.xlogy(p[1:], p[1:])),
        lambda p: tf.reduce_sum(tf.where(p > 0.0, tf.math.xlogy(p, p), 0.0)),
        lambda p: tf.reduce_sum(tf.math.xlogy(tf.boolean_mask(p, p > 0.0), tf.boolean_mask(p, p > 0.0))),
    ):
        np.testing.assert_allclose(exact(entropy, p).astype(float), [0.0, 1.0 + np.log(0.5)], rtol=1e-15)
    by_x, by_y = exact(tf.math.xlogy, 0.0, 2.0)
    assert (float(by_x), float(by_y)) == (np.log(2.0), 0.0)
    assert float(exact(lambda y: tf.math.xlogy(0.0, y), 0.0)) == 0.0
    assert float(exact(lambda x: tf.math.xlogy(x * x, x), 0.0)) == 0.0


def test_a_derivative_that_grows_without_bound_is_no_convention() -> None:
    # The second derivative of q² log q² is 2 log q² + 6; those of |q| and of |q|³ have bounds.
    report = check(lambda q: tf.math.xlogy(q * q, q * q), 0.0, order=2)
    assert not report.ok and report.verdict == "domain"
    assert "grow without bound" in next(g for g in report.findings if not g.ok).reason
    assert not judge(lambda q: tf.math.xlogy(q * q, q * q), 0.0, 0.0, order=2).ok
    for f in (tf.abs, lambda q: tf.abs(q) ** 3, lambda q: tf.math.log1p(tf.abs(q))):
        assert check(f, 0.0, order=2).ok


# Roots beside smooth functions: the finite slope on one side, and the sign of the infinite one on the other.
STEEP: dict[str, tuple[F, float, float]] = {
    "zero": (lambda x: tf.where(x > 0.0, tf.sqrt(x), 0.0), 0.0, 1.0),
    "line": (lambda x: tf.where(x > 0.0, tf.sqrt(x) + x, -x), -1.0, 1.0),
    "falling": (lambda x: tf.where(x > 0.0, -tf.sqrt(x), tf.sin(x)), 1.0, -1.0),
    "bent up": (lambda x: tf.where(x > 0.0, tf.sqrt(x), tf.sin(x) + x * x), 1.0, 1.0),
    "bent down": (lambda x: tf.where(x > 0.0, tf.sqrt(x), tf.sin(x) - x * x), 1.0, 1.0),
    "on the left": (lambda x: tf.where(x < 0.0, (-x) ** 0.75, 2.0 * x - x * x), 2.0, -1.0),
    "logarithm": (lambda x: tf.where(x > 0.0, tf.math.xlogy(x, x), x - x * x), 1.0, -1.0),
}


@pytest.mark.slow
@pytest.mark.parametrize(("f", "slope", "sign"), STEEP.values(), ids=STEEP)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_claims_lie_between_a_finite_and_an_infinite_slope(f: F, slope: float, sign: float, dtype: Any) -> None:
    at = np.array(0.0, dtype)
    assert check(f, at).ok
    for far, ok in ((0.0, True), (0.5, True), (30.0, True), (1e30, True), (-0.5, False), (-1e30, False)):
        report = judge(f, at, dtype(slope + sign * far))
        assert report.ok is ok and report.verdict != "domain", (far, report)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("f", "x"),
    [
        (tf.reduce_max, np.ones(100)),
        (lambda x: tf.reduce_max(x, axis=1), np.ones((60, 5))),
        (lambda x: tf.norm(x, ord=np.inf), np.sign(np.random.default_rng(0).normal(size=64))),
        (lambda x: tf.reduce_sum(tf.sort(x) * np.arange(150.0)), np.ones(150)),
        (lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID"), np.ones((1, 16, 16, 4))),
    ],
    ids=["max", "rows", "norm", "sort", "pool"],
)
def test_each_of_many_tied_elements_has_an_interval_of_its_own(f: Any, x: Any) -> None:
    assert check(f, x).ok


@pytest.mark.parametrize("k", [0, 1, 2])
def test_the_middle_of_equal_numbers_may_be_any_of_them(k: int) -> None:
    claim = np.eye(3)[k]
    assert check(lambda x: tf.sort(x)[1], np.ones(3)).ok
    assert judge(lambda x: tf.sort(x)[1], np.ones(3), claim).ok
    assert not judge(lambda x: tf.sort(x)[1], np.ones(3), 2 * claim).ok


_CHOSEN: dict[str, tuple[Any, int]] = {
    "median": (lambda x: tf.sort(x)[x.shape[0] // 2], 30),
    "greatest of the least": (lambda x: tf.reduce_max(tf.reduce_min(tf.reshape(x, (-1, 2)), 1)), 24),
    "least of the greatest": (lambda x: tf.reduce_min(tf.maximum(x, tf.roll(x, 1, 0))), 20),
    "some of few regions": (
        lambda x: tf.reduce_max(tf.where(x <= tf.roll(x, 1, 0), tf.reverse(x, [0]) / 2.0, 0.0 * x)),
        3,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("f", "n"), _CHOSEN.values(), ids=_CHOSEN.keys())
def test_one_of_many_equal_numbers_may_be_any_of_them(f: Any, n: int) -> None:
    """Random directions alone rarely make a given element the one that counts."""
    x = np.ones(n) if n > 3 else np.zeros(n)
    report = check(f, x)
    assert (report.ok, report.verdict) == (True, "convention"), report
    assert not judge(f, x, np.where(np.arange(n) == 1, 3.0, 0.0)).ok, "3 is the derivative on no side"


@pytest.mark.slow
def test_roundings_that_decide_ties_are_no_convention() -> None:
    """Steps of a limited scheme on a square wave: each difference of equal numbers is a tie, which roundings break."""

    def scheme(c: Any) -> Any:
        u = tf.constant(np.where((np.arange(60) > 12) & (np.arange(60) < 30), 1.0, 0.0), c.dtype)
        for _ in range(15):
            d = u - tf.roll(u, 1, 0)
            e = tf.roll(d, -1, 0)
            s = tf.where(d * e > 0, tf.minimum(tf.abs(d), tf.abs(e)) * tf.sign(d), tf.zeros_like(d))
            flux = u + 0.5 * (1 - c) * s
            u = u - c * (flux - tf.roll(flux, 1, 0))
        return tf.reduce_sum(u**2)

    assert check(scheme, np.float32(0.4)).ok


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: tf.reduce_max(tf.clip_by_value(x, 0.0, 1.0)), np.ones(12)),
        (lambda x: tf.sort(x)[7], np.ones(15)),
        (lambda x: tf.reduce_max(tf.reduce_min(tf.reshape(x, (-1, 2)), axis=1)), np.zeros(8)),
    ],
    ids=["clip", "median", "maximin"],
)
def test_sides_on_which_many_elements_move_alike_are_seen(f: Any, x: Any) -> None:
    assert check(f, x).ok


@pytest.mark.parametrize("x", [[0.0, 0.0, 0.3, 0.3], [0.0, 0.3], [0.0, 0.0, 0.0]])
def test_a_limit_of_0_that_is_approached_slowly_is_0(x: list[float]) -> None:
    report = check(lambda x: tf.reduce_sum(tf.sqrt(tf.nn.relu(x)) ** 3), np.array(x))
    assert report.ok and report.verdict == "convention", report


def test_an_order_of_values_that_are_not_defined_stays_as_recorded() -> None:
    def f(x: Any) -> Any:
        return tf.reduce_sum(tf.math.top_k(tf.clip_by_value(tf.math.log(x), -5.0, 1.0), 2)[0])

    assert check(f, np.array([1.0, 0.0, 0.3])).verdict == "domain"


@pytest.mark.slow
@pytest.mark.parametrize("w", [[[1.0, -0.9], [-0.9, 1.0]], [[-2.0, -0.5], [5.0, 2.0]]], ids=["wide", "narrow"])
def test_the_directions_in_which_all_units_are_off_may_be_few(w: Any) -> None:
    def f(h: Any) -> Any:
        return tf.reduce_sum(tf.nn.relu(tf.linalg.matvec(tf.constant(w, tf.float64), h)) ** 2)

    assert check(f, np.zeros(2), order=2).ok
    # With these three units, one of them is on in each direction.
    w = [[1.0, 0.2], [-1.0, 1.0], [-0.5, -1.0]]
    assert not check(f, np.zeros(2), order=2).ok


@tf.custom_gradient(declared="straight through")
def _rounded_straight_through(x: Any) -> Any:
    return tf.round(x), lambda g: g


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    ("f", "at"),
    [
        (lambda x: _rounded_straight_through(x) ** 2 + tf.nn.relu(x - 1.0) ** 3, 1.0),
        (lambda x: _rounded_straight_through(tf.nn.relu(x)) ** 2, 0.0),
        (
            lambda w: tf.reduce_mean(
                (lambda s: _rounded_straight_through(w / s) * s)(tf.reduce_max(tf.abs(w)) / 7.0) ** 2
            ),
            np.array([[0.0, 0.5], [-0.25, 1.0], [0.3, 0.0]]),
        ),
    ],
    ids=["beside", "behind", "quantised weights"],
)
def test_a_declared_gradient_stays_the_derivative_beside_a_kink(f: F, at: Any, order: int) -> None:
    assert check(f, at, order=order).ok


_NETS: dict[str, tuple[Any, Any, dict[tuple[float, ...], bool]]] = {
    # The derivatives beside the point are (-9, -18), (4, -13), (0, -9), (-5, -13), (-9, -9) and (4, -4).
    "three units": (
        lambda v: (
            3.0 * tf.nn.relu(-3.0 * v[0] - 3.0 * v[1])
            + 2.0 * tf.nn.relu(2.0 * v[0] - 2.0 * v[1])
            - 3.0 * tf.nn.relu(3.0 * v[1])
        ),
        np.zeros(2),
        {
            (0.0, 0.0): False, (-5.0, -13.0): True, (-5.0, -16.0): True, (-5.0, -18.0): False, (-5.0, -18.5): False,
            (-5.0, -8.0): True, (-5.0, -4.0): False,
        },
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("f", "at", "claims"), _NETS.values(), ids=_NETS.keys())
def test_a_number_outside_of_all_sides_of_a_net_does_not_pass(f: F, at: Any, claims: dict[Any, bool]) -> None:
    assert not check(f, at).ok, "the tape gives 0"
    for claim, passes in claims.items():
        assert judge(f, (at,), np.array(claim)).ok == passes, claim


_IN_CONES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "norm of a product": (lambda w, v: tf.norm(v * w), (np.zeros(2), 0.0)),
    "norm of a product, float32": (lambda w, v: tf.norm(v * w), (np.zeros(3, np.float32), np.float32(0.0))),
    "hypotenuse": (lambda w, v: np.hypot(v * w[0], v * w[1]), (np.zeros(2), 0.0)),
    "norm of a matrix product": (
        lambda w, v: -tf.norm(tf.linalg.matvec(w, v, transpose_a=True)), (np.zeros((2, 2)), np.zeros(2)),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("f", "at"), _IN_CONES.values(), ids=_IN_CONES.keys())
def test_a_limit_of_narrower_and_narrower_cones_is_a_limit(f: F, at: tuple[Any, ...]) -> None:
    """The second derivatives come as near to 0 as one likes towards an axis, whatever the step, and are 0 nowhere."""
    report = check(f, *at, order=2)
    assert report.ok and report.verdict == "convention", report


@pytest.mark.parametrize(("slope", "passes"), [(0.0, True), (2.0, True), (-1e-9, False), (2.000001, False)])
def test_a_number_beyond_the_limits_of_cones_does_not_pass(slope: float, passes: bool) -> None:
    assert judge(lambda x: x[0] + tf.norm(x), (np.zeros(2),), np.array([slope, 0.0])).ok == passes


def test_a_small_slope_on_one_side_is_no_limit_of_0() -> None:
    def f(x: Any) -> Any:
        return tf.where(x[0] > 0.0, x[0], 1e-150 * x[0]) + x[1]

    assert judge(f, (np.zeros(2),), np.array([1e-150, 1.0])).ok
    assert not judge(f, (np.zeros(2),), np.array([0.0, 1.0])).ok


_SELU = (1.0507009873554805, 1.7580993408473769)
# Functions with kinks or with kinks of a derivative: (function, the same function of other ops, points).
COMPOSED: dict[str, tuple[F, F, tuple[float, ...]]] = {
    "elu": (tf.nn.elu, lambda x: tf.where(x >= 0, x, tf.exp(x) - 1.0), (0.0,)),
    "selu": (tf.nn.selu, lambda x: tf.where(x >= 0, _SELU[0] * x, _SELU[1] * (tf.exp(x) - 1.0)), (0.0,)),
    "softsign": (tf.nn.softsign, lambda x: x / (1.0 + tf.abs(x)), (0.0,)),
    "relu": (tf.nn.relu, lambda x: tf.where(x > 0, x, 0.0 * x), (0.0,)),
    "relu6": (tf.nn.relu6, lambda x: tf.clip_by_value(x, 0.0, 6.0), (0.0, 6.0)),
    "leaky_relu": (tf.nn.leaky_relu, lambda x: tf.where(x > 0, x, 0.2 * x), (0.0,)),
    "hard_sigmoid": (tf.nn.hard_sigmoid, lambda x: tf.clip_by_value(x / 6.0 + 0.5, 0.0, 1.0), (-3.0, 3.0)),
    "hard_silu": (tf.keras.activations.hard_silu, lambda x: x * tf.nn.relu6(x + 3.0) / 6.0, (-3.0, 3.0)),
    "huber": (
        lambda x: tf.keras.losses.huber(tf.reshape(x, [1]), tf.zeros([1], tf.float64)),
        lambda x: tf.where(tf.abs(x) <= 1.0, 0.5 * x * x, tf.abs(x) - 0.5),
        (-1.0, 1.0),
    ),
    "squared_hinge": (
        lambda x: tf.keras.losses.squared_hinge(tf.ones([1], tf.float64), tf.reshape(x, [1])),
        lambda x: tf.nn.relu(1.0 - x) ** 2,
        (1.0,),
    ),
    "bessel_i0e": (
        tf.math.special.bessel_i0e, lambda x: tf.math.special.bessel_i0(x) * tf.exp(-tf.abs(x)), (0.0,),
    ),
    "bessel_i1e": (
        tf.math.special.bessel_i1e, lambda x: tf.math.special.bessel_i1(x) * tf.exp(-tf.abs(x)), (0.0,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("name", COMPOSED)
def test_an_op_with_a_kink_is_judged_as_the_same_function_of_other_ops(name: str, order: int) -> None:
    op, composed, points = COMPOSED[name]
    for x in points:
        at = np.array(x)
        for f in (op, composed):
            report = check(f, at, order=order)
            assert report.ok and report.verdict in ("correct", "convention"), report.summary()
        beside = [float(exact(op, at + move, order=order)) for move in (-1e-12, 1e-12)]
        for claim in (round(max(beside), 6), max(beside) + 41.5):
            judged = [judge(f, at, np.array(claim), order=order) for f in (op, composed)]
            assert judged[0].ok == judged[1].ok, f"{claim}: {judged[0].summary()} {judged[1].summary()}"
        assert order > 1 or not judged[0].ok  # a claim beyond both sides


def test_a_third_derivative_beside_a_jump_of_the_second_is_a_convention_or_that_of_the_sides() -> None:
    for claim, passes in ((0.0, True), (6.0, True), (-6.0, False), (7.0, False)):
        assert judge(tf.nn.softsign, np.array(0.0), np.array(claim), order=3).ok is passes


def _slope_of_a_corner(x: Any) -> Any:
    """1 below 0, and 1 - 12 x² above."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.minimum(x, x - 4.0 * x * x * x)
    return tape.gradient(y, x)


# f of an inner gradient that is 1, and the slope of f there
FAR_FROM_TIES: dict[str, tuple[Callable[[Any], Any], float]] = {
    "above 0": (lambda y: tf.where(y > 0.0, y, tf.zeros_like(y)), 1.0),
    "above 0.999": (lambda y: tf.where(y > 0.999, y, tf.zeros_like(y)), 1.0),
    "above -1e-9": (lambda y: tf.where(y > -1e-9, y, tf.zeros_like(y)), 1.0),
    "power": (lambda y: tf.where(y > 0.0, tf.pow(y, 2.5), tf.zeros_like(y)), 2.5),
    "mask": (lambda y: y * tf.cast(y >= 0.5, y.dtype), 1.0),
    "step": (lambda y: y * tf.floor(y + 0.5), 1.0),
    "place": (lambda y: tf.gather(tf.stack([y, 3.0 * y]), tf.argmax(tf.stack([y, 0.5 * y]))), 1.0),
    "a gradient again": (lambda y: tf.where(y * y > 0.0, y * y, y), 2.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAR_FROM_TIES)
def test_a_decision_far_from_its_tie_stays_where_an_inner_gradient_has_a_kink(name: str) -> None:
    f, slope = FAR_FROM_TIES[name]
    report = check(lambda x: f(_slope_of_a_corner(x)), 0.0, order=2)
    assert (report.ok, report.verdict) == (True, "convention"), report
    for claim, ok in ((0.0, True), (-12.0, True), (-24.0, True), (-30.0, False), (6.0, False)):
        assert judge(lambda x: f(_slope_of_a_corner(x)), 0.0, claim * slope, order=2).ok == ok, claim


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 6])
def test_decisions_of_an_array_of_inner_gradients_stay_far_from_ties(count: int) -> None:
    at = np.array([0.0, *np.linspace(0.1, 0.2, count - 1)])

    def f(x: Any) -> Any:
        y = _slope_of_a_corner(x)
        return tf.reduce_sum(tf.where(y > 0.25, y, tf.zeros_like(y)))

    right = np.diag(np.where(at > 0.0, -24.0, -12.0))
    assert judge(f, at, right, order=2).ok
    right[0, 0] = -30.0
    assert not judge(f, at, right, order=2).ok


OUT_OF_REACH: dict[str, tuple[F, Any]] = {
    "kinks that add up": (lambda x: tf.nn.relu(x) - 2 * tf.nn.relu(-x) + tf.nn.relu(2 * x), 0.0),
    "one of two elements": (
        lambda x: tf.reduce_sum(tf.nn.relu(x) - 2 * tf.nn.relu(-x) + tf.nn.relu(2 * x)),
        np.array([0.0, 1.0]),
    ),
}


@pytest.mark.parametrize("name", OUT_OF_REACH)
def test_exact_gives_no_number_by_convention_that_lies_outside_of_its_interval(name: str) -> None:
    f, x = OUT_OF_REACH[name]
    with pytest.raises(ArithmeticError, match=r"lie in \[2, 3\], and the conventions of the ops give"):
        exact(f, x)
    assert float(exact(tf.nn.relu, 0.0)[()]) == 0.0


@pytest.mark.parametrize(
    ("f", "shares"),
    [
        (lambda x: tf.reduce_sum(tf.nn.relu(x) * tf.sort(x)), False),
        (lambda x: tf.reduce_sum(tf.maximum(tf.exp(x), tf.exp(x[::-1]))), True),
    ],
)
def test_equal_results_are_looked_up_only_where_a_comparison_needs_them(
    monkeypatch: pytest.MonkeyPatch, f: F, shares: bool
) -> None:
    begun = []

    def noted() -> Any:
        begun.append(1)
        return numbers_shared()

    monkeypatch.setattr(sides, "numbers_shared", noted)
    assert check(f, [0.0, 1.0, 1.0, 0.0]).verdict == "convention"
    assert bool(begun) is shares


def test_the_rows_of_a_hessian_share_their_random_points(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    plain = Sides._drawn

    def noted(self: Sides, along: Any = None, own: Any = None) -> Any:
        if along is own is None:
            drawn.append(1)
        return plain(self, along, own)

    monkeypatch.setattr(Sides, "_drawn", noted)
    counts = []
    for n in (4, 8):
        drawn.clear()
        assert check(lambda x: tf.reduce_max(x) * tf.reduce_sum(tf.nn.relu(x)), [0.0] * n, order=2).ok
        counts.append(len(drawn))
    assert counts[1] < 1.5 * counts[0], "twice as many rows draw few more"
