"""The exact gamma draw, also where the draw is beneath all floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flint import arb

import gtape as tf
from gtape.symbolic.balls import precision
from gtape.symbolic.gamma_draw import GammaDraw
from gtape.verify import check
from gtape.verify.oracles.enclosures import BALLS


def probability(a: float, y: Any) -> Any:
    """P(a, y) = y^a e^-y / gamma(a) times the sum of y^k / (a (a + 1) ... (a + k)) (DLMF 8.7.1)."""
    term = total = 1 / arb(a)
    for k in range(1, 400):
        term = term * y / (arb(a) + k)
        total = total + term
    return total * (arb(a) * y.log() - y - arb(a).lgamma()).exp()


@pytest.mark.parametrize(
    ("a", "z"), [(0.007, -3.0), (0.003, -4.0), (1e-4, -1.0), (1e-3, 0.0), (3.0, -40.0), (0.5, 1.0)]
)
def test_the_draw_has_the_probability_of_its_normal_number(a: float, z: float) -> None:
    with precision(200):
        y = BALLS.gamma_draw(BALLS.lift(np.float64(a)), BALLS.lift(np.float64(z))).item()
        exact = (-arb(z) / arb(2).sqrt()).erfc() / 2
        assert abs(probability(a, y) / exact - 1) < arb(2) ** -100
        assert probability(a, y / 2) < exact < probability(a, 2 * y)


@pytest.mark.parametrize(("a", "z"), [(999.0, -5.0), (1001.0, -5.0), (1001.0, 6.0), (4e4, 0.25), (3e6, 1.5)])
def test_a_draw_of_a_large_shape_and_its_derivatives_lie_in_their_enclosures(a: float, z: float) -> None:
    """The relation is F(a, y(a)) = P(a, y(a)) - Phi(z) = 0, so differences of y in a are those of its derivatives."""
    with precision(400):
        h = arb(2) ** -80
        wanted = (-arb(z) / arb(2).sqrt()).erfc() / 2
        left, middle, right = (GammaDraw.ball(0, arb(a) + k * h, arb(z)) for k in (-1, 0, 1))
        with precision(1200):  # flint's function loses digits
            assert abs(1 - middle.mid().gamma_upper(arb(a), 1) - wanted) < arb(2) ** -300
        differences = [middle, (right - left) / (2 * h), (right - 2 * middle + left) / h**2]
        for order, exact in enumerate(differences):
            with precision(200):
                y = GammaDraw.ball(order, arb(a), arb(z))
            assert y.rel_accuracy_bits() > 150
            assert abs(y - exact) <= arb(2) ** -90 * abs(exact)


def test_the_enclosure_of_a_draw_holds_the_draws_of_all_shapes_of_a_ball() -> None:
    with precision(200):
        for order in (0, 1, 2):
            wide = GammaDraw.ball(order, arb(5000, 2.0**-100), arb(0.7))
            assert wide.rel_accuracy_bits() > 50
            for end in (-1, 0, 1):
                y = GammaDraw.ball(order, arb(5000) + end * arb(2) ** -100, arb(0.7))
                assert wide.contains(y)


@pytest.mark.parametrize("shape", [1e8, 1e15])
def test_a_check_decides_about_gamma_draws_of_large_shapes(shape: float) -> None:
    def draw(alpha: Any) -> Any:
        return tf.random.stateless_gamma([], [1, 2], alpha, dtype=tf.float64)

    assert check(draw, shape).verdict == "correct"


def test_a_shape_without_an_enclosure_is_refused_at_once() -> None:
    with pytest.raises(ArithmeticError, match="beyond 2"):
        GammaDraw.ball(0, arb(1e200), arb(0))
