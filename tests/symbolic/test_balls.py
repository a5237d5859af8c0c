"""Balls: three-valued comparisons, precision, and conversions that round correctly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from flint import acb, arb, ctx
from hypothesis import given
from hypothesis import strategies as st

import gtape
from gtape.symbolic import balls
from gtape.symbolic.balls import (
    Undecided,
    digits,
    lift_balls,
    numbers_shared,
    objects,
    precision,
    radius,
    to_double_double,
    to_float,
)
from gtape.symbolic.worlds import BallWorld

WORLD = BallWorld()
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def test_precision_is_restored_after_an_error() -> None:
    before = ctx.prec
    with pytest.raises(KeyError), precision(321):
        assert ctx.prec == 321
        raise KeyError
    assert ctx.prec == before


def test_precision_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least 2 bits"), precision(1):
        pass


@pytest.mark.parametrize("name", ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"])
def test_overlapping_balls_are_undecided(name: str) -> None:
    with pytest.raises(Undecided, match="raise the precision") as caught:
        getattr(balls, name)(arb(1) / 3, arb(1) / 3)
    assert not caught.value.hopeless
    with pytest.raises(Undecided) as caught:
        getattr(balls, name)(arb("nan"), arb(1))
    assert caught.value.hopeless


def test_a_ball_equals_itself() -> None:
    third = arb(1) / 3
    assert balls.equal(third, third) and balls.less_equal(third, third) and balls.greater_equal(third, third)
    assert not (balls.less(third, third) or balls.greater(third, third) or balls.not_equal(third, third))
    nan = arb("nan")
    with pytest.raises(Undecided):
        balls.equal(nan, nan)


@given(FINITE, FINITE)
def test_exact_balls_compare_as_floats(a: float, b: float) -> None:
    x, y = arb(a), arb(b)
    assert balls.less(x, y) == (a < b)
    assert balls.less_equal(x, y) == (a <= b)
    assert balls.greater(x, y) == (a > b)
    assert balls.greater_equal(x, y) == (a >= b)
    assert balls.equal(x, y) == (a == b)
    assert balls.not_equal(x, y) == (a != b)


@given(st.integers(-(2**80), 2**80), st.integers(-1160, 1000))
def test_to_float_rounds_to_nearest_even(mantissa: int, exponent: int) -> None:
    exact = Fraction(mantissa) * Fraction(2) ** exponent
    try:
        expected = exact.numerator / exact.denominator  # Python's division of integers is correctly rounded
    except OverflowError:
        expected = np.inf if exact > 0 else -np.inf
    assert to_float(arb((mantissa, exponent))) == expected


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_lift_is_exact(dtype: type) -> None:
    x = np.array([0.1, -3.0, 6e-8, 0.0], dtype)
    lifted = lift_balls(x)
    assert all(e.is_exact() for e in lifted)
    np.testing.assert_array_equal(to_float(lifted), x.astype(np.float64))


def test_lift_of_what_is_not_finite() -> None:
    lifted = lift_balls(np.array([np.inf, np.nan]))
    assert to_float(lifted)[0] == np.inf
    assert lifted[1].is_nan()
    assert lift_balls(np.float64(2.0)).shape == ()


def test_double_double_has_106_bits() -> None:
    with precision(300):
        x = arb.pi()
        hi, lo = to_double_double(x)
        assert hi == np.pi
        assert abs(x - arb(float(hi)) - arb(float(lo))) < arb((1, -106))
    hi, lo = to_double_double(arb("inf"))
    assert hi == np.inf and lo == 0


def test_radius_is_an_upper_bound() -> None:
    x = np.array([arb(1) / 3, arb(2), arb("nan"), arb(0, arb((1, -2000))), 3], dtype=object)
    r = radius(x)
    assert 0 < r[0] < 1e-15 and arb(r[0]) >= x[0].rad()
    assert r[1] == 0 and r[2] == np.inf and r[4] == 0
    assert r[3] == 5e-324


def test_digits() -> None:
    with precision(200):
        assert digits(arb.pi(), 40) == "3.141592653589793238462643383279502884197"
    assert digits(arb("nan")) == "nan"
    assert digits(3, 3) == "3.00"


def test_a_ball_around_zero_shows_no_digits_of_its_midpoint() -> None:
    assert digits(arb(1e-61, 1e-59)) == "0"
    assert digits(arb(1e-57, 1e-59), 3) == "1.00e-57"
    assert digits(acb(arb(1e-61, 1e-59), 2), 3) == "(0, 2.00j)"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((40,), (40,)), ((3, 40), (40,)), ((40,), (40, 5)), ((2, 3, 40), (40, 5)), ((4, 1, 3, 40), (2, 40, 5)),
        ((40,), (2, 40, 5)), ((2, 2), (2, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 3)),
    ],
)  # fmt: skip
def test_matmul_agrees_with_numpy(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(-9, 9, a).astype(float), rng.integers(-9, 9, b).astype(float)
    out = BallWorld().matmul(lift_balls(x), lift_balls(y))
    assert isinstance(out, np.ndarray) and out.shape == (x @ y).shape
    np.testing.assert_array_equal(to_float(out), x @ y)


def test_matmul_of_wrong_shapes_says_so() -> None:
    with pytest.raises(ValueError, match="mismatch"):
        BallWorld().matmul(lift_balls(np.ones((9, 9))), lift_balls(np.ones((8, 9))))
    with pytest.raises(ValueError, match="use multiply"):
        BallWorld().matmul(lift_balls(np.ones(())), lift_balls(np.ones(3)))


def test_results_of_one_computation_are_one_object_where_numbers_are_shared() -> None:
    x = WORLD.lift(np.array([0.3, 0.3, 0.4]))
    with numbers_shared():
        e = WORLD.multiply(WORLD.exp(x), WORLD.lift(np.array(0.1)))
        assert e[0] is e[1] and e[0] is not e[2]
        assert WORLD.equal(e[0], e[1]) and WORLD.subtract(e[0], e[1]).item() == 0
        with precision(900):
            assert WORLD.exp(x)[0] is not WORLD.exp(WORLD.lift(np.array(0.4))).item()
            assert WORLD.exp(x)[0].rel_accuracy_bits() > 800, "of this precision, not of the one outside"
    e = WORLD.exp(x)
    assert e[0] is not e[1]
    with pytest.raises(Undecided):
        WORLD.equal(e[0], e[1])
    assert WORLD.subtract(e, e)[2] == 0 and WORLD.divide(e, e)[2] == 1, "of one object in any case"


def test_exact_numbers_of_one_value_share_their_results_also_as_other_objects() -> None:
    with precision(400), numbers_shared():
        x = WORLD.add(objects(np.array([arb(2) ** -150, arb(2) ** -150])), WORLD.lift(np.array(1.0)))
        assert x[0] == x[1] and x[0].is_exact(), "an exact sum shows by its value that it is equal"
        e = WORLD.exp(x)
        assert e[0] is e[1] and WORLD.exp(x)[0] is e[0]
        squares = WORLD.multiply(e, e)
        assert squares[0] is squares[1], "a rounded product is computed once"


def test_infinite_numbers_of_a_program_become_symbols_without_a_warning() -> None:
    made = gtape.symbolic.trace(lambda x: x * float("inf") + float("nan"), 0.3)
    assert made.expr() is sp.nan


def test_the_difference_of_one_infinite_number_with_itself_is_not_0() -> None:
    x = WORLD.lift(np.array(np.inf))
    assert not WORLD.subtract(x, x).item().is_finite() and not WORLD.divide(x, x).item().is_finite()
    zero = objects(arb(0, 1e-30))
    assert not WORLD.divide(zero, zero).item().is_finite(), "a number that may be 0 is not divided by itself"
