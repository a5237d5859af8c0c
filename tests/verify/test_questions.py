"""check, exact, judge and prove with good and bad arguments; reports as text and as data."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gtape as tf
from gtape import verify
from gtape.symbolic import trace
from gtape.verify import check, exact, judge, prove


@pytest.mark.parametrize(
    ("question", "error", "says"),
    [
        (lambda: check(tf.sin), TypeError, "arguments too"),
        (lambda: check(3, 1.0), TypeError, "function of tensors"),
        (lambda: check(tf.sin, 1.0, order=0), ValueError, "from 1 to 8"),
        (lambda: check(tf.sin, 1.0, order=True), ValueError, "from 1 to 8"),
        (lambda: check(tf.sin, 1.0, order=2.0), ValueError, "from 1 to 8"),  # type: ignore[arg-type]
        (lambda: check(tf.square, tf.constant(2)), TypeError, "int32"),
        (lambda: check(tf.square, None), TypeError, "argument 0 is None"),
        (lambda: check(lambda x: None, 1.0), TypeError, "must return tensors"),
        (lambda: check(lambda x: tf.argmax(x), [1.0, 2.0]), TypeError, "nothing to differentiate"),
        (lambda: exact(tf.sin, 1.0, digits=0), ValueError, "positive whole number"),
        (lambda: exact(tf.sin, 1.0, digits=9.5), ValueError, "positive whole number"),  # type: ignore[arg-type]
        (lambda: exact(tf.math.log, 0.0), ArithmeticError, "no derivative here: the derivative of log"),
        (lambda: exact(tf.sin, np.nan), ArithmeticError, "holds NaN"),
        (lambda: judge(lambda *x: x[0], [1.0, 2.0], np.ones(2)), ValueError, "a list of numbers as an array"),
        (lambda: judge(tf.sin, 1.0, [0.5, 0.5]), ValueError, r"expected shape \(\)"),
        (lambda: judge(tf.sin, 1.0, "much"), ValueError, "numbers are wanted"),
        (lambda: prove("sinn"), ValueError, "did you mean sin"),
        (lambda: prove("floor"), ValueError, "not differentiable"),
        (lambda: verify.nothing, AttributeError, "nothing"),
    ],
)
def test_a_wrong_question_says_what_is_wrong(question: Any, error: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        question()


def test_exact_numbers_keep_their_radius() -> None:
    for found in (exact(tf.sin, 1.0)[()], exact(tf.sin, [1.0])[0], exact(lambda x, y: x, 1.0, 2.0)[1][()]):
        assert isinstance(found, str) and 0 <= found.radius < 1e-45


@pytest.mark.parametrize(
    ("f", "first", "second"),
    [
        (lambda x: tf.where(tf.math.log(1.0 + x) > 0.0, x + x * x, -x), 1.0, 2.0),
        (lambda x: tf.nn.relu(tf.math.log(1.0 + x)), 1.0, -1.0),
        (lambda x: (x + x * x) * tf.floor(1.0 - x), 0.0, 0.0),
        (lambda x: (x + x * x) * tf.cast(1.0 + x > 1.0, x.dtype), 1.0, 2.0),
        (lambda x: tf.where((1.0 + x > 1.0) & tf.logical_not(x < 0.0), x + x * x, -x), 1.0, 2.0),
        (lambda x: tf.where(tf.floor(1.0 - x) >= 1.0, -x, x + x * x), 1.0, 2.0),
        (lambda x: tf.gather(tf.stack([-x, x + x * x]), tf.argmax(tf.stack([1.0 + 0.0 * x, 1.0 + x]))), 1.0, 2.0),
    ],
)
def test_exact_decides_comparisons_that_rounding_decided_differently(f: Any, first: float, second: float) -> None:
    for order, expected in ((1, first), (2, second)):
        np.testing.assert_allclose(float(exact(f, 1e-60, order=order)[()]), expected, rtol=1e-15)


@pytest.mark.parametrize(
    ("f", "x", "expected"),
    [
        (lambda x: tf.maximum(-tf.exp(x), -tf.exp(x) + 0.0 * x), 0.3, -math.exp(0.3)),
        (lambda x: tf.maximum(tf.math.log(tf.exp(x)), x), 2.0, 1.0),
        (lambda x: tf.minimum(tf.sqrt(x) ** 2, x), 2.0, 1.0),
        (lambda x: tf.norm(tf.sin(x), ord=math.inf), [1.0, -1.0], [0.5 * math.cos(1.0), -0.5 * math.cos(1.0)]),
    ],
)
def test_exact_knows_ties_of_equal_numbers_that_are_computed_in_two_ways(f: Any, x: Any, expected: Any) -> None:
    np.testing.assert_allclose(exact(f, np.array(x)).astype(float), expected, rtol=1e-15)


def test_what_exact_gives_judge_takes() -> None:
    assert judge(tf.sin, 1.0, exact(tf.sin, 1.0)).verdict == "correct"
    x = np.array([1.0, 2.0])
    assert judge(tf.sin, x, exact(tf.sin, x, order=2), order=2).verdict == "correct"


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("f", [lambda x: tf.reduce_sum(x * x * x), lambda x: x * x, lambda x: x[0] * tf.exp(x[1])])
def test_the_byte_order_of_an_array_changes_no_answer(f: Any, dtype: str) -> None:
    native = np.array([1.0, 2.0], dtype)
    for order in "<>":
        x = native.astype(order + dtype)
        assert exact(f, x, digits=12).tolist() == exact(f, native, digits=12).tolist()
        assert str(trace(f, x)) == str(trace(f, native))
        x_tensor = tf.constant(native)
        with tf.GradientTape() as tape:
            tape.watch(x_tensor)
            y = f(x_tensor)
        claim = tape.gradient(y, x_tensor).numpy()
        for given_order in "<>":
            right = claim.astype(given_order + dtype)
            assert check(f, x).verdict == judge(f, x, right).verdict == "correct"
            assert judge(f, x, right * np.array(1.5, given_order + dtype)).verdict == "rule"


def test_none_claims_that_there_is_no_path() -> None:
    assert judge(lambda x, y: x * 1.0, (1.0, 2.0), (1.0, None)).verdict == "correct"
    report = judge(lambda x, y: x * y, (1.0, 2.0), (2.0, None))
    assert report.verdict == "unconnected"
    assert "the claim says that there is no path" in str(report) and "the tape found" not in str(report)


def two(x: Any, y: Any) -> Any:
    return x * x * y


class Callables:
    def method(self, x: Any, y: Any) -> Any:
        return x * y

    __call__ = method


@pytest.mark.parametrize("args", [(1.0,), (1.0, 2.0, 3.0)])
@pytest.mark.parametrize("f", [two, lambda x, y: x * y, Callables().method, Callables()])
@pytest.mark.parametrize("ask", [check, exact, trace, lambda f, *args: judge(f, args, args)])
def test_a_wrong_number_of_arguments_is_named_without_addresses(ask: Any, f: Any, args: tuple[float, ...]) -> None:
    with pytest.raises(TypeError, match=r"missing 1 required|positional arguments but [34] were given") as caught:
        ask(f, *args)
    assert "0x" not in str(caught.value) and "of a type" not in str(caught.value)


@pytest.mark.parametrize("order", [2, 3])
def test_none_is_no_claim_about_a_higher_derivative(order: int) -> None:
    def nested(leaf: Any, depth: int) -> Any:
        return (leaf, 1.0) if depth == 1 else (nested(leaf, depth - 1), nested(1.0, depth - 1))

    where = r"claimed" + r"\[0\]" * order
    with pytest.raises(ValueError, match=f"^{where}: numbers are wanted, not None"):
        judge(two, (1.0, 2.0), nested(None, order), order=order)


@pytest.mark.parametrize("ask", [check, exact, lambda f: judge(f, (), ())])
def test_missing_arguments_are_asked_for_without_the_name_of_another_function(ask: Any) -> None:
    with pytest.raises(TypeError, match=r"^give the function's arguments too: the numbers"):
        ask(two)


NOT_OF_X: dict[str, tuple[Any, Any]] = {  # functions of x and y, and their derivatives by y
    "x is not used": (lambda x, y: y * 3.0, 3.0),
    "a constant": (lambda x, y: tf.constant(2.0, tf.float64), None),
    "a kink of y": (lambda x, y: tf.nn.relu(y - 2.0), 0.0),
    "an overflow of y": (lambda x, y: tf.exp(y * 400.0), math.inf),
}


@pytest.mark.parametrize("shape", [(), (2,), (0, 3)])
@pytest.mark.parametrize("claim", [5.0, -1e-300, math.nan, math.inf])
@pytest.mark.parametrize("name", NOT_OF_X)
def test_a_claim_for_an_argument_that_is_not_used_is_wrong_unless_it_is_0(
    name: str, claim: float, shape: tuple[int, ...]
) -> None:
    f, slope = NOT_OF_X[name]
    report = judge(f, (np.ones(shape), 2.0), (np.full(shape, claim), slope))
    wrong = [(f.verdict, f.exact, f.count, f.reason) for f in report.findings if not f.ok]
    assert wrong == [("rule", "0", math.prod(shape), "this derivative is identically zero")] * (0 not in shape)
    assert judge(f, (np.ones(shape), 2.0), (np.zeros(shape), slope)).ok
    assert judge(f, (np.ones(shape), 2.0), (None, slope)).ok


SLOPES: list[tuple[Any, Any]] = [
    (lambda x: x * x * x, lambda x: 3.0 * x * x),
    (lambda x: x / (x + 1.0), lambda x: (x + 1.0) ** -2),
    (lambda x: tf.exp(x) * x, lambda x: math.exp(x) * (x + 1.0)),
    (lambda x: tf.sin(x) + 2.0 * x, lambda x: math.cos(x) + 2.0),
]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@given(
    case=st.sampled_from(SLOPES),
    x=st.integers(17, 60).map(lambda n: n / 16),
    share=st.one_of(st.floats(-3.0, 0.5), st.floats(1.5, 3.0)),
)
def test_a_claim_that_no_rounding_explains_breaks_a_rule(dtype: Any, case: Any, x: float, share: float) -> None:
    f, slope = case
    report = judge(f, dtype(x), slope(x) * share)
    assert report.verdict == "rule" and "too large for rounding" in report.findings[0].reason, report


@pytest.mark.parametrize(("dtype", "x"), [(np.float16, 4.5), (np.float32, 9.0), (np.float64, 19.0)])
def test_a_claim_of_a_formula_that_loses_all_digits_is_unstable_in_each_dtype(dtype: Any, x: float) -> None:
    y = np.tanh(dtype(x))
    claim = dtype(1.0) - y * y
    assert (
        judge(tf.tanh, dtype(x), claim).verdict == judge(tf.tanh, dtype(x), np.finfo(dtype).eps).verdict == "unstable"
    )


def test_a_finding_of_a_hessian_names_its_row() -> None:
    report = judge(lambda x: x[0] * x[1], np.array([1.0, 2.0]), np.array([[0.0, 1.0], [2.0, 0.0]]), order=2)
    found = next(f for f in report.findings if not f.ok)
    assert found.element == (0, (0,)) and "row of argument 0, element [1]" in found.reason


@pytest.mark.parametrize("ask", ["gradient", "jacobian"])
def test_a_finding_names_the_variable(ask: str) -> None:
    @tf.custom_gradient
    def wrong(x: Any) -> Any:
        return x * x, lambda g: g * 3.0 * x

    a, w = tf.Variable(1.0), tf.Variable(2.0, name="weight")
    with tf.GradientTape(verify=True) as tape:
        y = wrong(w) * a
    with pytest.raises(tf.VerificationError, match=r"source 1 \(weight:0\), element \[\]") as caught:
        getattr(tape, ask)(y, [a, w])
    finding = caught.value.report.findings[0]
    assert (finding.source, finding.as_dict()["source"]) == ("weight:0", "weight:0")


@pytest.mark.parametrize(
    "report",
    [
        check(tf.nn.relu, 0.0),
        judge(tf.sin, 1.0, np.nan),
        judge(tf.sin, 1.0, np.inf),
        judge(tf.sin, np.float32(1.0), np.float32(0.5)),
        check(lambda x: tf.math.log(x), 0.0),
    ],
)
def test_reports_are_text_and_data(report: Any) -> None:
    data = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert data["verdict"] == report.verdict and data["ok"] == report.ok
    assert [f["reason"] for f in data["findings"]] == [f.reason for f in report.findings]
    for text in (str(report), repr(report), *map(str, report.findings)):
        assert report.verdict in text
