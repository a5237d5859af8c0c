"""The exact gamma draw, also where the draw is beneath all floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flint import arb

from gtape.symbolic.balls import precision
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
