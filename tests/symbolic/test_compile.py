"""Compiled expressions against SymPy's own numbers."""

from __future__ import annotations

from typing import Any

import pytest
import sympy as sp
from flint import arb, ctx

from gtape.symbolic.balls import Undecided, precision
from gtape.symbolic.compile import compile_balls
from gtape.symbolic.gamma_draw import GammaDraw
from gtape.symbolic.special_functions import IncompleteGamma, ScaledBesselK

x, y = sp.symbols("x y", real=True)


def encloses(ball: Any, expected: Any) -> bool:
    """Whether SymPy's 45 digits lie in the ball, give or take their own last ones, and the ball is small."""
    value = arb(str(sp.N(expected, 45)))
    return bool(
        ball.rad() < abs(ball.mid()) * arb("1e-40") + arb("1e-40")
        and (ball - value).abs_upper() < arb("1e-38") * (1 + abs(value))
    )


UNARY = [
    sp.exp(x), sp.log(x), sp.sin(x), sp.cos(x), sp.tan(x), sp.cot(x), sp.sec(x), sp.csc(x), sp.asin(x), sp.acos(x),
    sp.atan(x), sp.sinh(x), sp.cosh(x), sp.tanh(x), sp.coth(x), sp.sech(x), sp.csch(x), sp.asinh(x), sp.acosh(x + 1),
    sp.atanh(x), sp.sqrt(x), 1 / sp.sqrt(x), x ** sp.Rational(2, 3), x ** sp.Rational(-2, 3), x**7, x**-7, x**100,
    x**sp.pi, sp.Integer(2) ** x, sp.erf(x), sp.erfc(x), sp.erfi(x), sp.erfinv(x), sp.gamma(x), sp.loggamma(x),
    sp.polygamma(0, x), sp.polygamma(3, x), sp.polygamma(1, -x), sp.digamma(x), sp.zeta(x + 2), sp.zeta(3, x),
    sp.besselj(1, x), sp.bessely(0, x), sp.besseli(1, x), sp.besselk(0, x), sp.Ei(x), sp.Si(x), sp.Ci(x), sp.Shi(x),
    sp.Chi(x), sp.LambertW(x), sp.lowergamma(2, x), sp.uppergamma(sp.Rational(1, 2), x), sp.polylog(2, x),
    sp.beta(x, 2), sp.expint(1, x), sp.fresnels(x), sp.fresnelc(x), sp.sinc(x), sp.Abs(x - 1), sp.sign(x - 1),
    sp.floor(10 * x), sp.ceiling(10 * x), sp.Max(x, 1 - x, sp.Rational(1, 3)), sp.Min(x, 2), sp.pi * x, x + sp.E,
    x * sp.EulerGamma, x / sp.sqrt(sp.pi), x - sp.Rational(1, 3), sp.Rational(-2, 7) / x, 1 - x, -x, 3 - 2 * x / 5,
    sp.Integer(5), sp.Rational(1, 3), sp.log(2) / 3 - sp.sqrt(2) ** sp.pi, sp.Catalan + sp.GoldenRatio,
]  # fmt: skip


@pytest.mark.parametrize("expression", UNARY, ids=str)
def test_functions(expression: Any) -> None:
    f = compile_balls([x], expression)
    point = sp.Rational(7, 16)
    with precision(200):
        assert encloses(f(arb((7, -4))), expression.subs(x, point))


def test_negative_gamma_and_powers() -> None:
    with precision(200):
        assert encloses(compile_balls([x], sp.gamma(x))(arb(-2.5)), sp.gamma(sp.Rational(-5, 2)))
        assert compile_balls([x], x**3)(arb(-2)) == -8
        assert encloses(compile_balls([x], x**-3)(arb(-2)), sp.Rational(-1, 8))
        assert compile_balls([x], sp.sqrt(x))(arb(-2)).is_nan()
        assert compile_balls([x], sp.log(x))(arb(0)).is_nan()
        assert compile_balls([x], x**3)(arb(0, 1)).contains(arb(1))


@pytest.mark.parametrize(
    ("a", "b", "expected"), [(-2, 3, -8), (0, 0, 1), (0, 2.5, 0), (-2, -1, -0.5), (4, 0.5, 2), (7, 1, 7)]
)
def test_general_power(a: float, b: float, expected: float) -> None:
    assert compile_balls([x, y], x**y)(arb(a), arb(b)).contains(arb(expected))


def test_general_power_outside_its_domain() -> None:
    f = compile_balls([x, y], x**y)
    assert f(arb(-2), arb(0.5)).is_nan()
    assert not f(arb(0), arb(-1)).is_finite()


@pytest.mark.parametrize("bits", [200, 400, 500, 3000])
def test_no_bessel_function_is_finite_where_it_is_not_defined(bits: int) -> None:
    outside = [arb(0), arb(0, arb(2) ** -900), arb(-1), arb("-inf")]
    functions = [*(sp.bessely(m, x) for m in (0, 1)), *(f(m, x) for m in (0, 1) for f in (sp.besselk, ScaledBesselK))]
    with precision(bits):
        for expression in functions:
            f = compile_balls([x], expression)
            assert not any(f(at).is_finite() for at in outside), expression
            assert f(arb(1)).is_finite()


def test_atan2() -> None:
    with precision(200):
        assert encloses(compile_balls([x, y], sp.atan2(x, y))(arb(0.5), arb(-1)), sp.atan2(sp.Rational(1, 2), -1))


def test_constants_follow_the_precision() -> None:
    f = compile_balls([x], x / 3 + sp.pi)
    rough = f(arb(1))
    with precision(500):
        fine = f(arb(1))
    assert fine.rad() < arb((1, -490)) < rough.rad()
    assert rough.overlaps(fine)
    assert f(1).overlaps(fine), "integers are taken as balls"


def test_no_float_in_the_source() -> None:
    f = compile_balls([x], sp.Rational(1, 3) * x**2 + sp.pi / 7 + sp.Float(0.1) * sp.exp(-x / 2))
    assert "." not in (f.__doc__ or "").replace(".exp", "").replace(".__class__", "").replace(".prec", "")


def test_floats_are_the_binary_numbers_that_they_are() -> None:
    assert compile_balls([x], x * 0.1)(arb(1)) == arb(0.1)


def test_common_parts_once() -> None:
    f = compile_balls([x], [sp.exp(x), sp.exp(x) ** 2 + 1, sp.sin(sp.exp(x))])
    assert (f.__doc__ or "").count("exp()") <= 2  # exp(x) and exp(2x)
    assert len(f(arb(1))) == 3


def test_piecewise_takes_one_branch() -> None:
    inner = sp.Piecewise((sp.sqrt(x), x > sp.Rational(1, 3)), (x, True))
    f = compile_balls([x], sp.Piecewise((sp.log(-x), x < 0), (inner, True)) + 1)
    assert f(arb(-1)) == 1
    assert f(arb(4)) == 3
    assert f(arb(0.25)) == 1.25
    with pytest.raises(Undecided):
        f(arb(1) / 3)
    assert f(arb(-1) / 3).is_finite(), "a branch that is not taken is not decided either"


def test_piecewise_conditions() -> None:
    c = sp.Piecewise((1, sp.Eq(x, 0)), (2, (x > 1) & (x < 2)), (3, sp.Or(x <= -5, sp.Ne(x, x**2))))
    f = compile_balls([x], c)
    assert [int(f(arb(v)).unique_fmpz()) for v in (0, 1.5, -6, 0.5)] == [1, 2, 3, 3]
    assert f(arb(1)).is_nan(), "no branch applies"


def test_floor_on_an_edge_is_undecided() -> None:
    f = compile_balls([x], sp.floor(3 * x))
    assert f(arb(2)) == 6
    with pytest.raises(Undecided):
        f(arb(1) / 3)


def test_errors() -> None:
    with pytest.raises(ValueError, match="not arguments: y"):
        compile_balls([x], x + y)
    with pytest.raises(NotImplementedError, match="no ball evaluation of mathieuc"):
        compile_balls([x], sp.mathieuc(1, 2, x))


def test_precision_is_left_alone() -> None:
    before = ctx.prec
    compile_balls([x], sp.pi)(arb(1))
    assert ctx.prec == before


@pytest.mark.parametrize(("a", "z"), [(2.14, 3.07), (2.0, 9.0), (40.0, 39.0), (1.3, 2.7), (0.4, 0.3)])
@pytest.mark.parametrize("m", [1, 2])
def test_derivatives_of_the_incomplete_gamma_function_are_as_narrow_as_their_arguments(
    a: float, z: float, m: int
) -> None:
    width = arb(2) ** -170
    with precision(200):
        ball = IncompleteGamma.ball(m, arb(a) + arb(0, 1) * width, arb(z) + arb(0, 1) * width)
        assert ball.rad() < 2**20 * width
    with precision(600):
        for i, j in ((-1, -1), (-1, 1), (1, -1), (1, 1), (0, 0)):
            assert ball.overlaps(IncompleteGamma.ball(m, arb(a) + i * width, arb(z) + j * width))


@pytest.mark.parametrize("large", [1e200, 1e250, 1e300])
def test_waves_of_multiples_of_pi_are_exact_at_whole_multiples(large: float) -> None:
    waves = compile_balls([x], [sp.sin(sp.pi * x**2 / 2), sp.cos(sp.pi * x**2 / 2), sp.sin(3 * sp.pi * x)])
    with precision(200):
        assert [v.is_exact() and int(v.unique_fmpz()) for v in waves(arb(large))] == [0, 1, 0]


def test_waves_of_multiples_of_pi_keep_their_numbers() -> None:
    for e in (sp.sin(sp.pi * x**2 / 2), sp.cos(sp.pi * x * y), sp.Piecewise((sp.sin(sp.pi * x), x > 1), (sp.pi, True))):
        with precision(200):
            made = compile_balls([x, y], e)(arb(7) / 4, arb(3) / 8)
            assert encloses(made, e.subs({x: sp.Rational(7, 4), y: sp.Rational(3, 8)}))


def test_a_gamma_draw_has_no_derivative_in_its_noise() -> None:
    assert sp.diff(GammaDraw(0, 2 + x, y), x) == GammaDraw(1, 2 + x, y)
    assert sp.diff(GammaDraw(0, 2 + x, y), y).has(sp.Derivative)  # which no ball evaluates
