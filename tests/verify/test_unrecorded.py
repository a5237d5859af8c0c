"""Rows of a higher derivative without a record are zeros only if the function's own derivative says so."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check, exact, judge
from gtape.verify.programs.mutants import TRANSFORMS, planted

F = Callable[..., Any]


@tf.custom_gradient
def cube(x: Any) -> Any:
    """A cube whose gradient leaves the tape: right at order 1, without a path at order 2."""
    return x * x * x, lambda g: g * 3.0 * x.numpy() ** 2


@tf.custom_gradient
def bodiless(x: Any) -> Any:
    return tf.constant(x.numpy() ** 3), lambda g: g * 3.0 * x.numpy() ** 2


@tf.custom_gradient(declared="rounds, and passes the gradient on")
def straight_through(x: Any) -> Any:
    return tf.round(x), lambda g: g


@tf.custom_gradient(declared="a gradient of another kind")
def declared_through_numpy(x: Any) -> Any:
    return x * x * x, lambda g: g * x.numpy()


@tf.custom_gradient
def stopped(x: Any) -> Any:
    return x * x * x, lambda g: tf.stop_gradient(g * 3.0 * x * x)


ZEROS: dict[str, F] = {
    "linear": lambda x: 3.0 * x,
    "a constant": lambda x: tf.constant(2.0, "float64"),
    "stopped": lambda x: tf.stop_gradient(tf.sin(x)) * x,
    "a step": lambda x: tf.floor(x) * x,
    "piecewise": lambda x: tf.nn.relu(x),
    "a selection": lambda x: tf.reduce_max(tf.stack([x, 2.0 * x])),
    "declared": lambda x: 2.0 * straight_through(x),
}


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("name", ZEROS)
def test_rows_that_are_zero_need_no_record(name: str, order: int) -> None:
    f = ZEROS[name]
    assert check(f, 1.3, order=order).ok
    assert float(exact(f, 1.3, order=order)[()]) == 0.0
    assert judge(f, 1.3, 0.0, order=order).ok
    assert judge(f, 1.3, 0.5, order=order).verdict == "rule"


@pytest.mark.parametrize(("order", "value"), [(2, 7.8), (3, 6.0)])
@pytest.mark.parametrize("f", [cube, stopped])
def test_a_second_derivative_without_a_path_is_told_and_counts(f: F, order: int, value: float) -> None:
    assert check(f, 1.3).ok
    report = check(f, 1.3, order=order)
    assert not report.ok and {found.order for found in report.findings} <= {2, 3}
    assert report.verdict == ("unconnected" if f is cube else "rule")
    assert float(exact(f, 1.3, order=order, digits=30)[()]) == pytest.approx(value, rel=1e-15)
    if f is cube:
        assert judge(f, 1.3, value, order=order).ok
        wrong = judge(f, 1.3, 0.0, order=order)
        assert (wrong.verdict, wrong.findings[0].got) == ("rule", 0.0)


@tf.custom_gradient
def cosine(x: Any) -> Any:
    return tf.cos(x), lambda g: -g * np.sin(x.numpy())


@tf.custom_gradient
def sine(x: Any) -> Any:
    return tf.sin(x), lambda g: g * cosine(x)


@tf.custom_gradient
def tripled(x: Any) -> Any:
    return 3.0 * x, lambda g: g * 3.0


@pytest.mark.parametrize("at", [1.3, np.array([0.5, 1.3])])
@pytest.mark.parametrize(
    ("f", "order", "name"),
    [
        (cube, 2, "cube"), (cube, 3, "cube"), (lambda x: tripled(cube(tripled(x))), 2, "cube"),
        (lambda x: cube(x) + tripled(x), 2, "cube"), (sine, 3, "cosine"),
    ],
)  # fmt: skip
def test_the_custom_gradient_that_hides_a_derivative_is_named_with_its_lines(
    f: F, order: int, name: str, at: Any
) -> None:
    found = [g for g in check(f, at, order=order).findings if not g.ok]
    assert found and {g.op for g in found} == {name}
    for g in found:
        assert g.line[0] == g.defined[0] == __file__ and g.defined[2] == name
        assert "own derivative" in g.reason


def test_rows_of_several_arguments_and_elements() -> None:
    def f(a: Any, b: Any) -> Any:
        return tf.reduce_sum(cube(a)) + tf.reduce_sum(a * b) + tf.exp(b[0])

    a, b = np.array([0.5, 2.0]), np.array([1.0, -1.0])
    found = exact(f, a, b, order=2, digits=20)
    assert np.diag(found[0][0].astype(float)).tolist() == [3.0, 12.0]
    assert found[0][1].astype(float).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert float(found[1][1][0, 0]) == pytest.approx(math.e) and float(found[1][1][1, 1]) == 0.0
    assert check(f, a, b, order=2).verdict == "rule"  # these rows have a record, by b


def test_many_elements_are_told_without_their_numbers() -> None:
    x = np.linspace(0.5, 2.0, 30)
    report = check(cube, x, order=2)
    assert report.verdict == "unconnected" and "the exact derivative is not zero" in str(report)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_what_the_body_does_not_tell_is_undecided(order: int) -> None:
    assert check(bodiless, 1.3, order=order).verdict == "undecided"
    assert len(check(bodiless, 1.3, order=order).findings) == 1
    assert judge(bodiless, 1.3, 0.0, order=order).verdict == "undecided"
    with pytest.raises(ArithmeticError, match="leaves the tape"):
        exact(bodiless, 1.3, order=order)


def test_a_declared_gradient_through_numpy_has_an_undecided_derivative() -> None:
    assert check(declared_through_numpy, 1.3).ok
    assert check(declared_through_numpy, 1.3, order=2).verdict == "undecided"
    with pytest.raises(ArithmeticError, match="leaves the tape"):
        exact(declared_through_numpy, 1.3, order=2)


@tf.custom_gradient
def square(z: Any) -> Any:
    """A square whose gradient leaves the tape, of real or complex numbers."""
    slope = np.conj(2 * z.numpy())
    return z * z, lambda g: g * tf.constant(slope)


COMPLEX: dict[str, tuple[F, Any]] = {
    "a complex argument": (square, 1.3 + 0.4j),
    "a complex result": (lambda x: square(tf.complex(x, 2.0 * x)), 1.3),
    "the real part": (lambda x: tf.math.real(square(tf.complex(x, 2.0 * x))), 1.3),
}


@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.parametrize("order", [2, 3])
def test_a_second_derivative_without_a_path_is_told_of_complex_numbers(name: str, order: int) -> None:
    f, at = COMPLEX[name]
    assert check(f, at).ok and check(lambda z: (2 + 1j) * tf.cast(z, "complex128"), at, order=order).ok
    assert not check(f, at, order=order).ok


def test_a_third_order_check_tells_what_the_second_order_lost() -> None:
    # Where the third derivative is 0, only the second one shows the loss.
    found = check(square, 1.3, order=3).findings
    assert [(f.verdict, f.order, f.exact[:2]) for f in found] == [("unconnected", 2, "2.")]


def test_an_op_with_several_results_is_named_for_a_derivative_that_it_hides() -> None:
    a = np.array([[3.0, 1.0], [1.0, 2.0]])
    with planted("svd", 0, TRANSFORMS["constant residual"]):
        report = check(lambda x: tf.linalg.svd(x, compute_uv=False) ** 2, a, order=2)
    assert {(f.verdict, f.op) for f in report.findings} == {("rule", "svd")}
