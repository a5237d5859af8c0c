"""Enclosures of the incomplete beta function and its derivatives in a and b: both ways, other definitions, time."""

from __future__ import annotations

import math
import random
import time
from typing import Any

import pytest
from flint import arb, ctx

from gtape.symbolic import incomplete_beta
from gtape.symbolic.balls import precision
from gtape.symbolic.incomplete_beta import beta_derivatives
from gtape.symbolic.special_functions import HurwitzZeta, IncompleteBeta

POINTS = [
    (2.5, 3.5, 0.3), (0.5, 200.0, 0.01), (1e-8, 1e-8, 0.4), (300.0, 0.5, 0.999), (1e-3, 4000.0, 1e-4),
    (700.0, 900.0, 0.44), (5e5, 4e5, 0.5556), (1e-20, 300.0, 0.4), (60.0, 80.0, 0.9), (3.0, 1e6, 1e-8),
]  # fmt: skip


def by(way: str, m: int, a: Any, b: Any, x: Any) -> Any:
    """The derivatives by one way on the side of the tail."""
    side = incomplete_beta._Side(a, b, x, 1 - x)
    swapped = x * (a + b) > a
    if swapped:
        side = side.swapped()
    with precision(ctx.prec + 100):
        found = getattr(incomplete_beta, way)(m, side)
    if swapped:
        found = {(p, q): (1 if p == q == 0 else 0) - found[q, p] for p, q in found}
    return found


@pytest.mark.parametrize(("a", "b", "x"), [p for p in POINTS if min(p[:2]) > 10])
def test_the_series_and_the_integral_agree(a: float, b: float, x: float) -> None:
    with precision(200):
        series = by("_by_series", 3, arb(a), arb(b), arb(x))
        integral = by("_by_integral", 3, arb(a), arb(b), arb(x))
        for at, value in integral.items():
            assert value.rel_accuracy_bits() > 100 and series[at].overlaps(value), at


@pytest.mark.parametrize(("a", "b", "x"), POINTS)
def test_derivatives_are_limits_of_differences(a: float, b: float, x: float) -> None:
    with precision(160):
        found = beta_derivatives(2, arb(a), arb(b), arb(x))
        assert min(v.rel_accuracy_bits() for v in found.values()) > 72
    with precision(1000):
        h = [arb(z) * arb(2) ** -160 for z in (a, b)]

        def at(i: int, j: int) -> Any:
            return beta_derivatives(0, arb(a) + i * h[0], arb(b) + j * h[1], arb(x))[0, 0]

        differences = {
            (1, 0): (at(1, 0) - at(-1, 0)) / (2 * h[0]),
            (0, 1): (at(0, 1) - at(0, -1)) / (2 * h[1]),
            (2, 0): (at(1, 0) - 2 * at(0, 0) + at(-1, 0)) / h[0] ** 2,
            (1, 1): (at(1, 1) - at(1, -1) - at(-1, 1) + at(-1, -1)) / (4 * h[0] * h[1]),
            (0, 2): (at(0, 1) - 2 * at(0, 0) + at(0, -1)) / h[1] ** 2,
        }
        for k, v in differences.items():
            assert v.rel_accuracy_bits() > 100, k
            assert abs(v - found[k]) < abs(v) * arb(2) ** -70, k


@pytest.mark.parametrize(("a", "b", "x"), [p for p in POINTS if 0.1 < min(p[:2]) and max(p[:2]) < 1000])
def test_values_are_those_of_flint(a: float, b: float, x: float) -> None:
    with precision(300):
        if x < 0.5:
            other = arb(x).beta_lower(a, b, regularized=True)
        else:
            other = 1 - (1 - arb(x)).beta_lower(b, a, regularized=True)
        found = IncompleteBeta.ball(0, 0, a, b, x)
        assert found.overlaps(other) and found.rel_accuracy_bits() > 250


def test_balls_hold_the_derivatives_at_their_points() -> None:
    with precision(120):
        wide = beta_derivatives(2, arb(2.5, 1e-6), arb(3.5, 1e-6), arb(0.3, 1e-6))
        for shift in (-1e-6, 0.0, 0.9e-6):
            inside = beta_derivatives(2, arb(2.5) + shift, arb(3.5) - shift, arb(0.3) + shift)
            for at, v in inside.items():
                assert wide[at].is_finite() and wide[at].overlaps(v)


@pytest.mark.parametrize("z", [(arb(-1), arb(1), arb(0.5)), (arb(1), arb(1), arb(2)), (arb(1, 2), arb(1), arb(0.5))])
def test_outside_the_domain_nothing_is_known(z: tuple[Any, ...]) -> None:
    assert not any(v.is_finite() for v in beta_derivatives(2, *z).values())


def test_at_the_ends_and_in_the_middle() -> None:
    assert IncompleteBeta.ball(0, 0, 2.0, 3.0, 1.0) == 1 and IncompleteBeta.ball(0, 0, 2.0, 3.0, 0.0) == 0
    assert IncompleteBeta.ball(1, 0, 2.0, 3.0, 1.0) == 0 and IncompleteBeta.ball(1, 1, 2.0, 2.0, 0.5) == 0


@pytest.mark.parametrize("bits", [160, 640, 2560, pytest.param(10240, marks=pytest.mark.slow)])
def test_the_time_is_bounded_at_all_points(bits: int) -> None:
    """A point that is out of reach is left open at once."""
    rng = random.Random(bits)
    slowest = 0.0
    for _ in range(3200 // bits + 6):
        a, b = (
            10.0 ** rng.uniform(-300.0, 15.0) if rng.random() < 0.5 else 10.0 ** rng.uniform(-2.0, 6.0) for _ in "ab"
        )
        x = rng.choice([rng.random(), 10.0 ** rng.uniform(-300.0, 0.0), 1.0 - 10.0 ** rng.uniform(-15.0, 0.0)])
        if rng.random() < 0.4:
            x = a / (a + b) * (1.0 + rng.gauss(0.0, 1.0) / math.sqrt(1.0 + min(a, b)))
        with precision(bits):
            for warm in (True, False):  # nodes and constants are kept
                start = time.process_time()
                found = beta_derivatives(2, arb(a), arb(b), arb(x))
                slowest = slowest if warm else max(slowest, time.process_time() - start)
        if bits == 160 and 0.0 < x < 1.0:
            assert all(v.is_finite() for v in found.values()), (a, b, x)
    assert slowest < 2.0


@pytest.mark.parametrize("m", [0, 1, 2])
def test_zeta_of_huge_orders_agrees_with_flint(m: int) -> None:
    s, q = 2.0**30 + 2.0, 1.7
    with precision(200):
        found = HurwitzZeta.ball(m, s, q)
        first = (-arb(q).log()) ** m * arb(q) ** -arb(s)  # the next term is smaller by (1 + 1/q)^-s
        assert found.overlaps(first * (1 + arb(0, 1e-30))) and found.rel_accuracy_bits() > 72
