"""Functions of several parameters keep their digits for parameters of any size, and without a long double."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flint import arb

import gtape as tf
from gtape.kernels import complex_functions as complex_kernels
from gtape.kernels import random_gamma as random_gamma_kernels
from gtape.kernels.random_gamma import gamma_draw, gamma_draw_slope
from gtape.symbolic.balls import precision
from gtape.verify import check

SPREADS = [-6.0, -4.6, -1.5, -0.2, 0.3, 2.0, 5.0]


def off(got: Any, exact: Any) -> float:
    """The relative error."""
    return float(abs((arb(float(got)) - exact) / exact))


@pytest.mark.parametrize("order", [250.0, 4e4, 1e6, 3e9])
def test_incomplete_gamma_functions_keep_12_digits_for_large_orders(order: float) -> None:
    for z in SPREADS:
        a, x = tf.constant(order, tf.float64), tf.constant(order + z * order**0.5, tf.float64)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([a, x])
            lower, upper = tf.math.igamma(a, x), tf.math.igammac(a, x)
        with precision(700):
            s, t, h = arb(order), arb(float(x)), arb(2) ** -150
            rest = t.gamma_upper(s, 1)
            slope = (t.gamma_upper(s + h, 1) - t.gamma_upper(s - h, 1)) / (2 * h)
            density = ((s - 1) * t.log() - t - s.lgamma()).exp()
            assert off(lower, 1 - rest) < 1e-12 and off(upper, rest) < 1e-12
            assert off(tape.gradient(upper, a), slope) < 1e-12
            assert off(tape.gradient(lower, x), density) < 1e-12


def test_igamma_s_second_derivatives_are_exact_for_an_order_of_a_million() -> None:
    a, x = tf.constant(1e6, tf.float64), tf.constant([0.999e6, 1.0004e6, 1.003e6], tf.float64)
    assert check(lambda s: tf.math.igamma(s, x), a, order=2).ok


@pytest.mark.parametrize("name", ["igamma", "igammac"])
@pytest.mark.parametrize("order", [1e8, 1e9])
def test_a_root_closer_than_the_next_float_is_no_fault_of_a_rule(name: str, order: float) -> None:
    """The second derivative by the order has a root so close to x = order that Newton's step ends at the same float."""
    report = check(getattr(tf.math, name), order, order, order=2)
    assert report.ok and report.verdict == "conditioning", report.summary()


def test_incomplete_gamma_functions_are_0_or_1_far_from_their_order() -> None:
    x = tf.constant([1e-300, 1.0, 1e31, 1e308], tf.float64)
    a = tf.constant(1e8, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.math.igamma(a, x)
    assert y.numpy().tolist() == [0, 0, 1, 1]
    assert tf.math.igammac(a, x).numpy().tolist() == [1, 1, 0, 0]
    assert tape.gradient(y, x).numpy().tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("order", [5e-324, 1e-310, 1e-200, 9e-21])
@pytest.mark.parametrize("x", [1e-3, 0.5, 1.0, 1.09, 5.0])
def test_incomplete_gamma_functions_keep_12_digits_for_orders_beside_0(order: float, x: float) -> None:
    lower = float(tf.math.igamma(tf.constant(order, tf.float64), tf.constant(x, tf.float64)))
    upper = float(tf.math.igammac(tf.constant(order, tf.float64), tf.constant(x, tf.float64)))
    with precision(300):
        rest = arb(order) * arb(x).expint(1)
    assert lower == 1.0 and abs(arb(upper) - rest) <= arb(5e-324) + arb(1e-12) * rest


BETAS = [(760.0, 183.0, 0.305), (2413.5, 3987.4, 0.22), (5e3, 7e3, 0.4), (0.02, 3000.0, 1e-5), (1.0, 1e12, 1e-12)]


@pytest.mark.parametrize(("a", "b", "x"), [*BETAS, (0.5, 0.7, 5e-324), (1e-200, 3e-200, 0.9)])
def test_betainc_keeps_12_digits_for_large_and_for_tiny_parameters(a: float, b: float, x: float) -> None:
    got = tf.math.betainc(*[tf.constant(v, tf.float64) for v in (a, b, x)])
    with precision(600):
        exact = arb(x).beta_lower(arb(a), arb(b), regularized=True) if a > 1e-100 else arb(b) / (arb(a) + arb(b))
        if a == 1.0:
            exact = 1 - (1 - arb(x)) ** arb(b)
        assert off(got, exact) < 1e-13
    if a > 1e-3:  # the other tail is the rest
        mirrored = tf.math.betainc(*[tf.constant(v, tf.float64) for v in (b, a, 1.0 - x)])
        near = float(tf.math.betainc(*[tf.constant(v, tf.float64) for v in (a, b, 1.0 - (1.0 - x))]))
        assert float(mirrored) == pytest.approx(1.0 - near, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("a", [0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 10.0])
@pytest.mark.parametrize("b", [0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 10.0])
def test_betainc_of_halves_and_integers_keeps_its_digits_up_to_both_ends(a: float, b: float) -> None:
    near = [5e-324, 1e-100, 2.0**-53, 2.7e-14, 1e-12, 1e-8, 1e-5, 0.01, 0.25, 0.5]
    x = np.array([*near, *(1.0 - np.array(near[2:]))])
    got = tf.math.betainc(np.full(len(x), a), np.full(len(x), b), x).numpy()
    with precision(600):
        for point, value in zip(x.tolist(), got.tolist(), strict=True):
            exact = arb(point).beta_lower(arb(a), arb(b), regularized=True)
            assert abs(arb(value) - exact) <= 16 * arb(2) ** -52 * exact + arb(5e-324)


@pytest.mark.parametrize("below", [2.0**-53, 2.7e-14, 1e-12, 1e-8])
def test_the_slopes_of_betainc_of_two_halves_are_right_beside_1(below: float) -> None:
    report = check(tf.math.betainc, *(np.float64(v) for v in (0.5, 0.5, 1.0 - below)))
    assert report.verdict == "correct"


def exact_draws(alpha: float, z: float) -> list[Any]:
    """A gamma draw and its first two derivatives in its shape; 800 bits are in force."""
    h = arb(2) ** -150

    def draw(a: Any) -> Any:
        wanted = (arb(z) / arb(2).sqrt()).erfc() / 2
        y = arb(float(gamma_draw(np.float64(alpha), np.float64(z))))
        for _ in range(5):
            y = (y + (y.gamma_upper(a, 1) - wanted) / ((a - 1) * y.log() - y - a.lgamma()).exp()).mid()
        return y

    left, middle, right = (draw(arb(alpha) + k * h) for k in (-1, 0, 1))
    return [middle, (right - left) / (2 * h), (right - 2 * middle + left) / (h * h)]


@pytest.mark.parametrize("alpha", [0.49, 0.5, 0.5000222865530994, 0.5051633082054648, 0.53])
def test_draws_of_shapes_near_a_half_keep_their_digits(alpha: float) -> None:
    for z in (0.1, 0.9060097197267488, 1.0, 1.0007014623176294, 3.0):  # SciPy's Q(a, x) loses digits for x up to 1.1
        with precision(800):
            assert off(gamma_draw(np.float64(alpha), np.float64(z)), exact_draws(alpha, z)[0]) < 2e-15


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [60.0, 1e3, 1e6, 1e10])
def test_draws_of_large_shape_have_exact_derivatives(alpha: float) -> None:
    for z in (-3.0, -0.4, 2.5):
        with precision(800):
            expected = exact_draws(alpha, z)
            assert off(gamma_draw(np.float64(alpha), np.float64(z)), expected[0]) < 1e-15
            for order in (1, 2):
                assert off(gamma_draw_slope(np.float64(alpha), np.float64(z), order=order), expected[order]) < 2e-15


@pytest.mark.slow
def test_further_derivatives_of_large_draws_keep_their_digits_beside_roots() -> None:
    """Terms of both signs cancel by four digits here, and the series must be long enough for what is left."""
    a, z = np.float64(52.728918194067568), np.float64(0.00083631324893220611)
    h = 2.0**-12  # the third derivative from the exact second ones: Richardson's extrapolation of differences
    with precision(800):
        second = [exact_draws(float(a) + k * h, float(z))[2] for k in (-2, -1, 1, 2)]
        third = (8 * (second[2] - second[1]) - (second[3] - second[0])) / (12 * h)
    assert off(gamma_draw_slope(a, z, order=3), third) < 1e-13


@pytest.mark.parametrize("alpha", [0.2, 0.9, 1.0, 3.0, 30.0])
def test_draws_of_small_shape_need_no_long_double(alpha: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_gamma_kernels, "EXTENDED", False)
    for z in (-3.0, -0.4, 2.5):
        with precision(800):
            expected = exact_draws(alpha, z)
            for order in (1, 2):
                assert off(gamma_draw_slope(np.float64(alpha), np.float64(z), order=order), expected[order]) < 1e-15


def test_draws_whose_powers_do_not_fit_into_pairs_have_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    a, z = np.array([0.01, 0.05, 2.0]), np.array([-6.0, -6.0, 0.5])
    wide = gamma_draw_slope(a, z)
    assert wide[0] == gamma_draw_slope(np.float32(0.01), np.float32(-6.0)) == 0  # the draw itself vanishes
    monkeypatch.setattr(random_gamma_kernels, "EXTENDED", False)
    np.testing.assert_allclose(gamma_draw_slope(a, z), wide, rtol=1e-9)


HOLOMORPHIC: dict[str, Callable[[Any], Any]] = {
    "tanh": tf.math.tanh, "tan": tf.math.tan, "sigmoid": tf.math.sigmoid, "asin": tf.math.asin, "acosh": tf.math.acosh,
    "atan": tf.math.atan, "rsqrt": tf.math.rsqrt, "log1p": tf.math.log1p, "expm1": tf.math.expm1,
    "reciprocal": tf.math.reciprocal, "pow": lambda z: tf.pow(z, tf.constant(7.5 - 3j, tf.complex128)),
    "xlogy": lambda z: tf.math.xlogy(z, z + 1),
}  # fmt: skip


@pytest.mark.parametrize("name", HOLOMORPHIC)
def test_complex_derivatives_need_no_long_double(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not complex_kernels.EXTENDED:
        pytest.skip("this machine has none to compare with; the census of complex numbers searches here")
    rng = np.random.default_rng(8)
    sizes = np.exp2(rng.uniform(-30, 4, 200))
    cuts = [complex(-3, 0.0), complex(-3, -0.0), complex(3, -0.0), complex(-0.0, 3), complex(-0.0, -3), complex(0.0, 3)]
    special = [1 + 1e-9j, 1e-200 + 1e-210j, *cuts]
    z = tf.constant(np.append(sizes * np.exp(1j * rng.uniform(-3.1, 3.1, 200)), special))

    def derivatives() -> list[Any]:
        with tf.GradientTape() as outer:
            outer.watch(z)
            with tf.GradientTape() as inner:
                inner.watch(z)
                y = HOLOMORPHIC[name](z)
            slope = inner.gradient(y, z)
        return [y.numpy(), slope.numpy(), outer.gradient(slope, z).numpy()]

    wide = derivatives()
    monkeypatch.setattr(complex_kernels, "EXTENDED", False)
    for got, expected in zip(derivatives(), wide, strict=True):
        finite = np.isfinite(expected)
        assert np.array_equal(np.isfinite(got), finite)
        assert np.all((np.abs(got - expected) <= 4.3 * np.spacing(np.abs(expected)))[finite])


def test_upper_gamma_integral_keeps_its_digits_where_one_minus_the_lower_cancels() -> None:
    rng = np.random.default_rng(2)
    a = np.concatenate([10.0 ** rng.uniform(-12, 0.6, 150), np.full(50, 0.501)])
    x = np.concatenate([10.0 ** rng.uniform(-2, 0.7, 150), rng.uniform(0.4, 1.2, 50)])
    got = tf.math.igammac(a, x).numpy()
    with precision(200):
        exact = [arb(float(v)).gamma_upper(arb(float(s)), 1) for s, v in zip(a, x, strict=True)]
        errors = [abs(float(arb(float(g)) - e)) / float(np.spacing(float(e))) for g, e in zip(got, exact, strict=True)]
    assert max(errors) < 30.0


@pytest.mark.parametrize("order", [2.0, 999_999.0, 1e7 + 1, 1e300])
def test_polygamma_of_any_order_ends_at_zero(order: float) -> None:
    made = tf.math.polygamma(tf.constant(np.full(3, order)), tf.constant([np.inf, -np.inf, np.nan], tf.float64)).numpy()
    np.testing.assert_array_equal(made, [0.0, np.nan, np.nan])


@pytest.mark.parametrize(
    ("a", "b", "x", "exact"),  # by mpmath, with 40 digits
    [
        (708.3964185322641, 2.225073858507201e-308, 0.9999999999999999, 6.5856149675762035224e-307),
        (1.0000000000000007, 1.4916681462400417e-154, 1.4916681462400417e-154, 2.2250738585066758975e-308),
        (1.1472697471435761e-15, 1.9151777055567564e-300, 0.9999999999995474, 1.6693351413868862261e-285),
        (2.0, 1e-290, 0.9, 1.4025850929940459808e-290),
    ],
)
def test_incomplete_beta_of_a_vanishing_parameter_is_in_proportion_to_it(
    a: float, b: float, x: float, exact: float
) -> None:
    got = float(tf.math.betainc(*[tf.constant(v, tf.float64) for v in (a, b, x)]))
    assert abs(got - exact) <= 8 * np.spacing(exact)
