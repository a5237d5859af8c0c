"""Special functions: names, conventions at poles and ends, orders, and derivatives where libraries go wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from flint import arb

import gtape as tf
from gtape.kernels.beta_orders import beta_density_derivative
from gtape.symbolic.balls import precision
from gtape.symbolic.special_functions import BetaDensityAtRim
from gtape.verify import check, exact, judge

INF, NAN = math.inf, math.nan
SPECIAL = [
    "bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e", "bessel_j0", "bessel_j1", "bessel_k0", "bessel_k0e",
    "bessel_k1", "bessel_k1e", "bessel_y0", "bessel_y1", "dawsn", "expint", "fresnel_cos", "fresnel_sin", "spence",
]  # fmt: skip
MATH = [
    "bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e", "betainc", "digamma", "erfcinv", "erfinv", "igamma",
    "igammac", "lbeta", "lgamma", "ndtri", "polygamma", "zeta",
]  # fmt: skip

UNARY = sorted({*SPECIAL, *MATH} - {"lbeta", "igamma", "igammac", "betainc", "polygamma", "zeta"})
SMOOTH = ["lgamma", "digamma", "bessel_j1", "bessel_k1", "bessel_i1e", "ndtri", "spence", "dawsn"]


def derivative(f: Any, x: float, order: int = 1) -> float:
    """The derivative of the given order at a float64 point, by nested tapes."""
    if order == 0:
        return float(f(tf.constant(x, tf.float64)))
    point = tf.constant(x, tf.float64)

    def step(k: int) -> Any:
        if k == 0:
            return f(point)
        with tf.GradientTape() as tape:
            tape.watch(point)
            y = step(k - 1)
        return tape.gradient(y, point)

    return float(step(order))


def same(got: float, expected: float) -> bool:
    return got == expected or (math.isnan(got) and math.isnan(expected))


def close(got: float, exact: Any, ulps: float = 4.0) -> bool:
    expected = float(exact)
    return abs(got - expected) <= ulps * float(np.spacing(abs(expected)))


# names ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPECIAL)
def test_tensorflow_s_special_names(name: str) -> None:
    assert callable(getattr(tf.math.special, name))
    assert name in dir(tf.math.special)


@pytest.mark.parametrize("name", MATH)
def test_tensorflow_s_math_names(name: str) -> None:
    assert callable(getattr(tf.math, name))


def test_arguments_have_tensorflow_s_names() -> None:
    x = tf.constant(0.5)
    assert float(tf.math.igamma(a=1.0, x=x)) == pytest.approx(1 - math.exp(-0.5))
    assert float(tf.math.igammac(a=1.0, x=x)) == pytest.approx(math.exp(-0.5))
    assert float(tf.math.betainc(a=1.0, b=1.0, x=x)) == pytest.approx(0.5)
    assert float(tf.math.polygamma(a=0.0, x=x)) == pytest.approx(float(tf.math.digamma(x=x)))
    assert float(tf.math.zeta(x=2.0, q=x)) == pytest.approx(math.pi**2 / 2)


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dtype_and_shape_stay(name: str, dtype: str) -> None:
    f = getattr(tf.math, name)
    for shape in ((), (3,), (2, 0), (2, 1)):
        x = tf.constant(np.full(shape, 0.25, dtype))
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        g = tape.gradient(y, x)
        assert y.dtype == g.dtype == x.dtype and y.shape == g.shape == x.shape


# poles, ends, kinks --------------------------------------------------------------------------------------------------

POINTS = [
    ("lgamma", 0.0, INF, NAN),
    ("lgamma", -1.0, INF, NAN),
    ("lgamma", INF, INF, INF),
    ("digamma", 0.0, NAN, INF),
    ("digamma", -3.0, NAN, INF),
    ("erfinv", 1.0, INF, INF),
    ("erfinv", -1.0, -INF, INF),
    ("erfinv", 2.0, NAN, NAN),
    ("erfcinv", 0.0, INF, -INF),
    ("erfcinv", 2.0, -INF, -INF),
    ("ndtri", 0.0, -INF, INF),
    ("ndtri", 1.0, INF, INF),
    ("ndtri", -0.5, NAN, NAN),
    ("bessel_i0", 0.0, 1.0, 0.0),
    ("bessel_i1", 0.0, 0.0, 0.5),
    ("bessel_i0e", 0.0, 1.0, 0.0),
    ("bessel_i1e", 0.0, 0.0, 0.5),
    ("bessel_j0", 0.0, 1.0, 0.0),
    ("bessel_j1", 0.0, 0.0, 0.5),
    ("bessel_k0", 0.0, INF, -INF),
    ("bessel_k1", 0.0, INF, -INF),
    ("bessel_y0", 0.0, -INF, INF),
    ("bessel_y1", -1.0, NAN, NAN),
    ("bessel_k0e", -1.0, NAN, NAN),
    ("bessel_j0", INF, 0.0, 0.0),
    ("bessel_i0", -INF, INF, -INF),
    ("dawsn", 0.0, 0.0, 1.0),
    ("expint", 0.0, -INF, INF),
    ("fresnel_sin", 0.0, 0.0, 0.0),
    ("fresnel_cos", 0.0, 0.0, 1.0),
    ("spence", 1.0, 0.0, -1.0),
    ("spence", -1.0, NAN, NAN),
]


@pytest.mark.parametrize(("name", "x", "value", "slope"), POINTS)
def test_value_and_slope_at_the_point(name: str, x: float, value: float, slope: float) -> None:
    f = getattr(tf.math, name)
    assert same(derivative(f, x, 0), value)
    if not (name == "expint" and x == 0):  # 1/x has no sign at 0
        assert same(derivative(f, x), slope)


def test_scaled_bessel_function_is_kinked_at_0_and_takes_the_least_slope() -> None:
    f = tf.math.special.bessel_i0e
    assert derivative(f, 5e-324) == -1.0 and derivative(f, -5e-324) == 1.0 and derivative(f, 0.0) == 0.0
    assert derivative(f, 0.0, 2) == 1.5  # what both sides agree on


# derivatives where others fail ---------------------------------------------------------------------------------------

FAR = [
    ("bessel_i0e", 1e8, 1, "-1.99471141e-13"),
    ("bessel_k0e", 1e10, 1, "-6.2665706861e-16"),
    ("dawsn", 1e150, 1, "-5e-301"),
    ("lgamma", 1.4616321449683622, 1, None),
    ("erfinv", 1.0 - 2.0**-53, 2, None),
    ("erfcinv", 1e-300, 1, None),
    ("spence", 1.0 + 1e-9, 2, None),
    ("spence", 1e200, 1, None),
    ("bessel_j0", 1e10, 1, None),
    ("bessel_y0", 1e-200, 1, None),
    ("fresnel_sin", 1e8 + 0.5, 2, None),
    ("expint", -300.0, 2, None),
    ("bessel_i1", 1e-300, 1, None),
    ("digamma", -7.5, 2, None),
]


@pytest.mark.parametrize(("name", "x", "order", "about"), FAR)
def test_derivative_in_the_tail_or_beside_a_removable_point(name: str, x: float, order: int, about: Any) -> None:
    report = check(getattr(tf.math, name), x, order=order)
    assert report.verdict == "correct", report.summary()
    if about is not None:
        assert derivative(getattr(tf.math, name), x, order) == pytest.approx(float(about), rel=1e-6)


def test_third_derivatives() -> None:
    with precision(200):
        x = arb(0.75)
        root_pi = arb.pi().sqrt()
        y = x.erfinv()
        e = (y * y).exp() * root_pi / 2
        assert close(derivative(tf.math.erfinv, 0.75, 3), e**3 * (2 + 8 * y * y))
        assert close(derivative(tf.math.digamma, 0.75, 3), 6 * arb(4).zeta(x))
        assert close(derivative(tf.math.bessel_i0, 0.75, 3), (3 * x.bessel_i(1) + x.bessel_i(3)) / 4)
        assert close(derivative(tf.math.special.expint, 0.75, 3), x.exp() * (1 / x - 2 / x**2 + 2 / x**3))


@pytest.mark.parametrize("name", SMOOTH)
def test_second_derivatives_are_exact_in_float32(name: str) -> None:
    report = check(getattr(tf.math, name), np.float32(0.4), order=2)
    assert report.verdict == "correct" and report.max_ulp < 1, report.summary()


def test_reflection_of_log_gamma() -> None:
    """|Γ(x) Γ(1-x)| = π / |sin πx|, far on the negative axis too."""
    for x in (-0.5, -3.25, -10.125, -1e6 - 0.5):
        total = derivative(tf.math.lgamma, x, 0) + derivative(tf.math.lgamma, 1 - x, 0)
        assert total == pytest.approx(math.log(math.pi / abs(math.sin(math.pi * math.fmod(x, 2.0)))), abs=1e-8)


# several arguments ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "orders"), [("polygamma", (2.0,))])
def test_orders_are_not_differentiated_and_the_last_argument_is(name: str, orders: tuple[float, ...]) -> None:
    first = [tf.constant(v, tf.float64) for v in orders]
    x = tf.constant(0.3, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch([*first, x])
        y = getattr(tf.math, name)(*first, x)
    *none, slope = tape.gradient(y, [*first, x])
    assert none == [None] * len(orders) and math.isfinite(float(slope))
    assert check(lambda v: getattr(tf.math, name)(*first, v), 0.3, order=2).ok


@pytest.mark.parametrize(
    ("a", "b", "x"),
    [
        (20.0, 3.0, 0.9), (0.5, 200.0, 0.01), (0.002, 85.0, 2.5e-5), (7.0, 0.004, 0.7), (1e-8, 1e-8, 1e-8),
        (4e5, 3e5, 0.571), (4e5, 3e5, 0.6), (1e-300, 25809.0, 4.5e-128), (2e-152, 3e-152, 0.4), (1e-100, 1e5, 0.5),
    ],
)  # fmt: skip
def test_betainc_is_differentiated_in_all_arguments(a: float, b: float, x: float) -> None:
    report = check(tf.math.betainc, *(np.float64(v) for v in (a, b, x)), order=2)
    assert report.ok, report.summary()


def test_the_slope_of_a_beta_density_at_subnormal_numbers() -> None:
    # b (1-x)^(b-1) for a = 1
    for x in (1e-323, 1e-310, 1e-200):
        assert derivative(lambda v: tf.math.betainc(1.0, 39.25, v), x, 2) == pytest.approx(-39.25 * 38.25, rel=1e-15)


@pytest.mark.parametrize(
    ("a", "b", "order", "limit"),
    [  # of d/db of the density x^(a-1) (1-x)^(b-1) / B(a, b), differentiated by x once more at order 1
        (1.0, 1.0, 0, 1.0), (1.0, 2.5, 0, 1.0), (2.0, 2.5, 0, 0.0), (2.5, 2.5, 0, 0.0),
        (1.0, 2.5, 1, -4.0), (2.0, 2.5, 1, 6.0), (3.5, 2.5, 1, 0.0),
    ],
)  # fmt: skip
def test_the_density_of_betainc_has_its_limits_at_0_and_1(a: float, b: float, order: int, limit: float) -> None:
    u, v, zero, one = map(np.float64, (a, b, 0.0, 1.0))
    assert float(beta_density_derivative(u, v, zero, p=0, q=1, n=order)) == pytest.approx(limit, rel=1e-15)
    mirrored = float(beta_density_derivative(v, u, one, p=1, q=0, n=order))
    assert mirrored == pytest.approx((-1.0) ** order * limit, rel=1e-15)
    with precision(200):
        assert float(BetaDensityAtRim.ball(0, 1, order, arb(a), arb(b), arb(0))) == limit


@pytest.mark.slow
@pytest.mark.parametrize("x", [0.0, 1.0])
def test_a_slope_of_betainc_at_its_ends_is_no_lost_digit(x: float) -> None:
    report = check(tf.math.betainc, 1.0, 1.0, x, order=2)
    assert {f.verdict for f in report.findings if not f.ok} == {"domain"}, report
    assert all(f.op is not None for f in report.findings if not f.ok)


def test_betainc_is_symmetric_in_its_parameters() -> None:
    # I_x(a, b) = 1 - I_{1-x}(b, a), and x = 1/2 is its own complement
    a, b, x = (tf.constant(v, tf.float64) for v in ([0.3, 4.0, 250.0], [2.0, 40.0, 220.0], 0.5))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([a, b])
        y, z = tf.math.betainc(a, b, x), tf.math.betainc(b, a, x)
    np.testing.assert_allclose(tape.gradient(y, a).numpy(), -tape.gradient(z, a).numpy(), rtol=1e-13)
    np.testing.assert_allclose(tape.gradient(y, b).numpy(), -tape.gradient(z, b).numpy(), rtol=1e-13)


@pytest.mark.parametrize(
    ("x", "q"),
    [(3.5, 0.3), (2.0, 1.0), (1.0 + 2.0**-40, 6e-26), (40.0, 1.0), (700.0, 0.6), (1.5, 1e12), (2.5, 1.33)],
)
def test_zeta_is_differentiated_in_both_arguments(x: float, q: float) -> None:
    report = check(tf.math.zeta, x, q, order=2)
    assert report.ok, report.summary()


def test_derivatives_of_riemann_s_zeta_function() -> None:
    # DLMF 25.6.11 and 25.2.4: zeta'(2), and the Laurent series at 1 with Stieltjes' constants
    assert derivative(lambda x: tf.math.zeta(x, 1.0), 2.0) == pytest.approx(-0.9375482543158438, rel=4e-16)
    step = 2.0**-20
    expected = -1 / step**2 + 0.0728158454836767
    assert derivative(lambda x: tf.math.zeta(x, 1.0), 1.0 + step) == pytest.approx(expected, rel=1e-15)


def test_zeta_near_its_pole_keeps_the_terms_after_a_tiny_argument() -> None:
    x, q = np.float64(1.0 + 2.0**-52), np.float64(1e-26)
    exact = arb(float(x)).zeta(arb(float(q)))
    assert float(tf.math.zeta(x, q)) == pytest.approx(float(exact), rel=1e-14)


@pytest.mark.parametrize("name", ["igamma", "igammac"])
@pytest.mark.parametrize(("a", "x"), [(0.5, 0.1), (2.5, 4.0), (30.0, 28.5)])
def test_incomplete_gamma_functions_are_differentiated_in_both_arguments(name: str, a: float, x: float) -> None:
    for order in (1, 2):
        report = check(getattr(tf.math, name), a, x, order=order)
        assert report.ok and report.max_ulp < 1000, report.summary()


@pytest.mark.parametrize("name", ["fresnel_cos", "fresnel_sin"])
@pytest.mark.parametrize("x", [1e250, -1e300])
def test_checks_decide_about_fresnel_integrals_of_numbers_whose_square_is_no_float(name: str, x: float) -> None:
    for order in (1, 2, 3):
        assert check(getattr(tf.math.special, name), x, order=order).verdict in ("correct", "range")


def test_polygamma_at_every_order_is_the_derivative_of_the_one_before() -> None:
    orders = tf.constant([[0.0], [1.0], [2.0], [9.0]], tf.float64)
    x = tf.constant([0.5, 2.0, 30.0], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.math.polygamma(orders, x)
    total = tf.reduce_sum(tf.math.polygamma(orders + 1.0, x), axis=0)
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), total.numpy())
    assert math.isnan(float(tf.math.polygamma(tf.constant(0.5), tf.constant(1.0))))
    assert math.isnan(float(tf.math.polygamma(tf.constant(-1.0), tf.constant(1.0))))


def test_zeta_outside_its_domain() -> None:
    x = tf.constant([1.0, 0.5, 2.0, 3.0, 2.0, 3.0], tf.float64)
    values = tf.math.zeta(x, tf.constant([1.0, 1.0, 0.0, -1.0, -0.5, -0.5], tf.float64))
    assert [same(v, w) for v, w in zip(values.numpy()[:4].tolist(), [INF, NAN, INF, NAN], strict=True)] == [True] * 4
    assert float(values[4]) == pytest.approx(4 + math.pi**2 / 2)
    assert float(values[5]) == pytest.approx(-8 + 7 * 1.2020569031595942)


def test_beta_and_gamma_densities_on_the_rim() -> None:
    x = tf.constant([0.0, 1.0], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.math.betainc(tf.constant(2.0, tf.float64), tf.constant(1.0, tf.float64), x)
    assert tape.gradient(y, x).numpy().tolist() == [0.0, 2.0]
    assert derivative(lambda v: tf.math.igamma(tf.constant(1.0, tf.float64), v), 0.0) == 1.0
    assert derivative(lambda v: tf.math.igamma(tf.constant(0.5, tf.float64), v), 0.0) == INF


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("a", [1.0, 2.0, 3.0, 4.0])
def test_each_derivative_of_the_incomplete_gamma_functions_has_its_limit_at_0(a: float, sign: float) -> None:
    def f(x: Any) -> Any:
        return (tf.math.igamma if sign > 0 else tf.math.igammac)(tf.constant(a, tf.float64), x)

    for order in range(1, 5):
        left = order - int(a)
        right = sign * (-1.0) ** left * math.comb(order - 1, int(a) - 1) if left >= 0 else 0.0
        assert derivative(f, 0.0, order) == right
        assert float(exact(f, 0.0, order=order)) == right
    assert check(f, 0.0, order=2).ok
    assert judge(f, 0.0, sign * float(a == 2.0) - sign * float(a == 1.0), order=2).ok
    assert not judge(f, 0.0, 0.5, order=2).ok


@pytest.mark.parametrize("x", [0.0, 1.0, 1e300])
@pytest.mark.parametrize("a", [1e308, float(np.finfo(np.float64).max), INF])
def test_the_slope_of_igamma_by_a_huge_order_is_0(a: float, x: float) -> None:
    assert derivative(lambda a: tf.math.igamma(a, tf.constant(x, tf.float64)), a) == 0.0
    assert derivative(lambda a: tf.math.igammac(a, tf.constant(x, tf.float64)), a) == 0.0


def test_the_slope_of_a_density_of_gamma_by_its_order_is_0_at_0() -> None:
    a, x = tf.constant(2.5, tf.float64), tf.constant(0.0, tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(a)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.math.igamma(a, x)
        slope = tape.gradient(y, x)
    assert float(outer.gradient(slope, a)) == 0.0


def test_lbeta_sums_over_the_last_axis() -> None:
    x = np.array([[2.0, 3.0], [0.5, 0.5]])
    assert tf.math.lbeta(tf.constant(x)).numpy().tolist() == pytest.approx([-math.log(12), math.log(math.pi)])
    assert tf.math.lbeta(tf.zeros([3, 0])).numpy().tolist() == [-INF] * 3
    assert check(tf.math.lbeta, x, order=2).ok
    with pytest.raises(tf.errors.InvalidArgumentError, match="axis"):
        tf.math.lbeta(tf.constant(1.0))


def test_the_sine_integral_keeps_its_digits_far_below_the_square_root_of_the_range() -> None:
    x = np.logspace(-102, -15, 400)
    got = tf.math.special.fresnel_sin(tf.constant(x)).numpy()
    with precision(200):
        exact = [arb.pi() * arb(v) ** 3 / 6 for v in x.tolist()]
        off = [float(abs(arb(g) - e)) / np.spacing(g) for g, e in zip(got.tolist(), exact, strict=True)]
    assert max(off) < 0.51
