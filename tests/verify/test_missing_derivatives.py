"""A derivative that exists and is not implemented is undecided, never an exact 0."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import sympy as sp

import gtape as tf
from gtape import declare
from gtape.declare.primitives import REGISTRY, Primitive
from gtape.engine.declarations import check as check_declaration
from gtape.engine.worlds import NUMPY
from gtape.symbolic import mirrors
from gtape.verify import check, exact, judge
from gtape.verify.judging.flag import UndecidedWarning

WORDS = "the derivative of half_known_of_tests by a is not implemented"


@pytest.fixture
def half_known() -> Iterator[Primitive]:
    """x * exp(a), whose derivative by a is not implemented."""
    mirrors.load()
    made = declare.elementwise(
        "half_known_of_tests", lambda a, x: x * np.exp(a), (None, lambda xp, y, a, x: xp.exp(a)), arguments=("a", "x"),
        domain=declare.ANY_REAL, ulps=4.0, missing=(0,),
    )  # fmt: skip
    declare.mirror(made, lambda a, x: x * sp.exp(a))
    yield made
    del REGISTRY[made.name]
    mirrors.SCALARS.pop(made.name)
    vars(NUMPY).pop(made.name, None)


def test_right_and_wrong_numbers_are_undecided_and_the_other_source_is_judged(half_known: Primitive) -> None:
    y = np.exp(2.0)
    both = {"undecided", "rule"}
    for claimed, verdicts in (((3 * y, y), {"undecided"}), ((None, y), {"undecided"}), ((0.0, 2 * y), both)):
        report = judge(half_known, (2.0, 3.0), claimed)
        assert {f.verdict for f in report.findings} == verdicts and not report.ok
        assert WORDS in str(next(f for f in report.findings if f.verdict == "undecided"))
    assert check(half_known, 2.0, 3.0).verdict == "undecided"
    with pytest.raises(ArithmeticError, match=WORDS):
        exact(half_known, 2.0, 3.0)


def test_the_derivative_of_polygamma_by_its_order_is_never_an_exact_zero() -> None:
    words = "the derivative of polygamma by a is not implemented"
    slope = float(exact(lambda x: tf.math.polygamma(2.0, x), 3.0)[()])
    for claimed, verdicts in (((0.0, slope), {"undecided"}), ((None, 0.0), {"undecided", "rule"})):
        report = judge(tf.math.polygamma, (2.0, 3.0), claimed)
        assert {f.verdict for f in report.findings} == verdicts and not report.ok and words in str(report)
    assert check(tf.math.polygamma, 2.0, 3.0).verdict == "undecided"
    assert check(lambda x: tf.math.polygamma(2.0, x), 3.0, order=2).verdict == "correct"
    with pytest.raises(ArithmeticError, match=words):
        exact(tf.math.polygamma, 2.0, 3.0)


PROGRAMS: dict[str, tuple[Callable[..., Any], int, str]] = {
    "through another op": (lambda f, x: f(tf.sin(x), tf.constant(2.0, "float64")), 1, "undecided"),
    "both arguments": (lambda f, x: f(x, x), 1, "undecided"),
    "by a step function": (lambda f, x: f(tf.floor(x), x), 1, "correct"),
    "stopped": (lambda f, x: f(tf.stop_gradient(x), x), 1, "correct"),
    "beside the target": (lambda f, x: (f(x, x), x * x)[1], 1, "correct"),
    "second order": (lambda f, x: f(x, tf.constant(2.0, "float64")), 2, "undecided"),
    "third order": (lambda f, x: f(tf.constant(2.0, "float64"), x) * f(x, x), 3, "undecided"),
    "second order by the other": (lambda f, x: f(tf.constant(2.0, "float64"), x * x), 2, "correct"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_only_sources_that_vary_the_argument_count(half_known: Primitive, name: str) -> None:
    f, order, verdict = PROGRAMS[name]
    report = check(lambda x: f(half_known, x), 1.5, order=order)
    assert report.verdict == verdict, report.findings
    if verdict == "undecided":
        assert judge(lambda x: f(half_known, x), 1.5, 1.0, order=order).verdict == "undecided"
        with pytest.raises(ArithmeticError, match=WORDS):
            exact(lambda x: f(half_known, x), 1.5, order=order)


def test_the_flag_warns_and_strict_raises(half_known: Primitive) -> None:
    a, x = tf.constant(1.0, "float64"), tf.constant(2.0, "float64")

    def reverse(verify: Any) -> Any:
        with tf.GradientTape(verify=verify) as tape:
            tape.watch((a, x))
            y = half_known(a, x)
        return tape.gradient(y, [a, x])

    def forward() -> Any:
        with tf.verifying(), tf.autodiff.ForwardAccumulator(a, tf.ones_like(a)) as acc:
            y = half_known(a, x)
        return acc.jvp(y)

    for run in (lambda: reverse(True), forward):
        with pytest.warns(UndecidedWarning, match=WORDS):
            run()
    with pytest.raises(tf.VerificationError, match=WORDS):
        reverse("strict")
    with warnings.catch_warnings():  # the tape does not follow the argument
        warnings.simplefilter("error")
        with tf.GradientTape(verify=True) as tape:
            tape.watch((a, x))
            with tape.stop_recording():
                y = half_known(a, x)
            z = y * x
        assert float(tape.gradient(z, x)) == float(y)


def test_explain_says_that_the_derivative_is_not_implemented(half_known: Primitive) -> None:
    a = tf.constant(1.0, "float64")
    with tf.GradientTape(persistent=True, verify=True) as tape:
        tape.watch(a)
        y = half_known(tf.sin(a), tf.constant(2.0, "float64"))
        z = tf.floor(a) * 2.0
    assert "half_known_of_tests" in tape.explain(y, a)
    assert "whose derivative by a is not implemented" in tape.explain(y, a)
    assert "which has no derivative" in tape.explain(z, a)


def test_an_op_from_outside_that_does_not_say_so_is_found_out() -> None:
    made = declare.elementwise(
        "unsaid_of_tests", lambda a, x: x * np.sin(a), (None, lambda xp, y, a, x: xp.sin(a)), domain=declare.ANY_REAL,
        ulps=4.0,
    )  # fmt: skip
    try:
        assert made.missing == (0,)
    finally:
        del REGISTRY[made.name]


def test_declarations_that_say_too_much_or_too_little() -> None:
    with pytest.raises(ValueError, match="names argument 1; give only arguments whose rule is None"):
        declare.elementwise(
            "wrong_of_tests", lambda a, x: x * np.sin(a), (None, lambda xp, y, a, x: xp.sin(a)),
            domain=declare.ANY_REAL, ulps=4.0, missing=(1,),
        )  # fmt: skip
    floor = REGISTRY["floor"]
    check_declaration(floor)  # a step function
    kernel, floor.kernel = floor.kernel, lambda x: x * x
    try:
        with pytest.raises(ValueError, match=r"depend smoothly on x, which has no rule: give a rule, or say missing="):
            check_declaration(floor)
    finally:
        floor.kernel = kernel


@pytest.mark.parametrize("at", [-1.0, -0.5, -3.0])
@pytest.mark.parametrize("f", [lambda y: 0.0**y, lambda y: 2.0 * tf.pow(tf.zeros((), tf.float64), y)])
def test_an_infinite_value_has_no_exact_derivative(f: Any, at: float) -> None:
    assert check(f, at).verdict == "domain"
    with pytest.raises(ArithmeticError, match=r"the function is infinite at this point|not finite"):
        exact(f, at)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    "f",
    [
        lambda y: 0.0**y,
        lambda y: tf.pow(tf.zeros((), tf.float64), y) + y * y,
        lambda y: tf.reduce_sum(tf.zeros(3, tf.float64) ** tf.stack([y + 1.0, y, 2.0])),
        lambda y: tf.exp(0.0 ** tf.sinh(y)),
    ],
)
def test_a_function_that_jumps_at_the_end_of_its_domain_has_no_exact_derivative(f: Any, order: int) -> None:
    assert check(f, 0.0).verdict == "convention"
    with pytest.raises(ArithmeticError, match="no derivative here: pow has a jump at the end of the domain"):
        exact(f, 0.0, order=order)


@pytest.mark.parametrize(
    "f",
    [
        lambda y: 0.0 * 0.0**y + y,
        lambda y: y * 0.0**y + y,
        lambda y: tf.where(y >= 0.0, 1.0, 0.0**y) + y,
        lambda y: y + tf.stop_gradient(0.0**y),
    ],
)
def test_an_op_that_jumps_at_the_end_of_its_domain_without_effect_leaves_the_derivative(f: Any) -> None:
    assert float(exact(f, 0.0)[()]) == 1.0


def test_a_value_that_overflows_has_an_exact_derivative() -> None:
    assert str(exact(lambda x: tf.exp(1000.0 + x), 0.0, digits=5)[()]) == "1.9701e+434"
