"""Newton's method on balls and jets: what is defined by equations, with a proven radius and exact derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flint import arb

from gtape.symbolic.balls import precision, radius
from gtape.symbolic.implicit import degenerate_noted, recorded, solve_equations
from gtape.symbolic.worlds import BallWorld, JetWorld

BALLS = BallWorld()


def root(W: Any, start: float, x: Any) -> Any:
    """The square root of x near `start`: y * y - x == 0."""
    return solve_equations(
        W, lambda V, y, x: y * y - x, np.array([start]), [x], jacobian=np.array([[2 * start]]), curvature=2.0
    )


@pytest.mark.parametrize("bits", [100, 200, 800, 3200])
def test_the_enclosure_holds_the_solution_and_is_tight(bits: int) -> None:
    with precision(bits):
        y = root(BALLS, 1.4142, BALLS.lift(np.array([2.0])))[0]
        assert y.rad() < arb(2) ** (20 - bits)
    with precision(2 * bits):
        assert y.contains(arb(2).sqrt())


def test_the_start_says_which_solution() -> None:
    with precision(100):
        assert root(BALLS, -1.4, BALLS.lift(np.array([2.0])))[0] < 0


def test_jets_have_the_derivatives_of_the_solution() -> None:
    with precision(200):
        W = JetWorld(2)
        x = W.jet(np.array([2.0]), np.array([1.0]), np.array([1.0]))
        y = root(W, 1.4142, x)
        exact = {0: arb(2).sqrt(), 1: 1 / (2 * arb(2).sqrt()), 3: -1 / (4 * arb(2) ** arb(1.5))}
        for s, value in exact.items():
            assert abs(W.component(y, s)[0] - value) < arb(2) ** -180


@pytest.mark.parametrize("k", [0, 2])
def test_many_digits_take_few_evaluations_of_the_equations(k: int) -> None:
    calls = 0

    def equations(V: Any, y: Any, x: Any) -> Any:
        nonlocal calls
        calls += 1
        return y * y - x

    with precision(6000):
        W = JetWorld(k) if k else BALLS
        x = W.jet(np.array([2.0]), np.array([1.0]), np.array([1.0])) if k else W.lift(np.array([2.0]))
        y = solve_equations(W, equations, np.array([1.4142]), [x], jacobian=np.array([[2.8284]]), curvature=2.0)
        assert calls < 50  # one float Jacobian alone needs 130 for each of the components
        assert abs(W.component(y, 0)[0] - arb(2).sqrt()) < arb(2) ** -5980
        if k:
            assert abs(W.component(y, 3)[0] + 1 / (4 * arb(2) * arb(2).sqrt())) < arb(2) ** -5980


def test_wide_inputs_make_wide_results() -> None:
    with precision(200):
        x = np.array([arb(2, 1e-25)], dtype=object)
        y = root(BALLS, 1.4142, x)
        assert radius(y)[0] > 1e-26
        assert y[0].contains(arb(2).sqrt().mid())


@pytest.mark.parametrize(("start", "x"), [(0.0, 0.0), (3.0, 2.0), (1e-9, 0.0)])
def test_what_is_not_known_to_converge_is_refused(start: float, x: float) -> None:
    with precision(100), pytest.raises(ArithmeticError):
        root(BALLS, start, BALLS.lift(np.array([x])))


def test_factors_have_the_recorded_signs() -> None:
    a = np.array([[2.0, 1.0], [1.0, 3.0]])
    w, v = np.linalg.eigh(a)
    with precision(100):
        for signs in ([1, 1], [-1, 1], [-1, -1]):
            with recorded((w, v * signs)):
                exact = BALLS.eigh(BALLS.lift(a))[1]
            assert (np.sign(np.asarray(exact, dtype=float)) == np.sign(v * signs)).all()


def test_equal_eigenvalues_are_noted() -> None:
    from gtape.symbolic.balls import ties_assumed

    with precision(800), ties_assumed(), degenerate_noted() as reasons:
        values = BALLS.eigh(BALLS.lift(np.eye(2)))[0]
    assert reasons and [float(v) for v in values] == [1.0, 1.0]


def test_eigenvalues_are_told_apart_beyond_floats() -> None:
    a = np.array([[1.0, 2.0**-70], [2.0**-70, 1.0]])
    with precision(400):
        low, high = BALLS.eigh(BALLS.lift(a))[0]
        assert abs(high - low - arb(2) ** -69) < arb(2) ** -200
